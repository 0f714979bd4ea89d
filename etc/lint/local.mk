# SPDX-License-Identifier: Apache-2.0
#
# `make lint` and its parts: what looks at all C of src and include without running it (doc/HACKING.md).
# LINTFILES="src/core/buf.c …": only those.

# One set of flags for all files. FORTIFY_SOURCE would hide the calls behind its own.
lint_flags = $(DEFS) $(DEFAULT_INCLUDES) $(filter-out $(IPU_HARDEN_CPPFLAGS),$(AM_CPPFLAGS)) $(CPPFLAGS) \
	-DIPU_DATA_DIR='"/"' -DIPU_BUILD_DIR='"/"' -DIPU_SOURCE_DIR='"/"' \
	$(FYAML_CFLAGS) $(YYJSON_CFLAGS) $(MBEDTLS_CFLAGS) $(CARES_CFLAGS) $(LLHTTP_CFLAGS) \
	$(NGHTTP2_CFLAGS) $(PROTOBUF_C_CFLAGS) $(IBVERBS_CFLAGS) $(IPU_STD_CFLAGS)

# What cppcheck keeps for the next time.
lint_kept = lint-cppcheck.d

# The analyzer is gcc's, whatever else compiles here.
lint_cc = $(if $(findstring clang,$(CC)),gcc,$(CC))

lint_parts = lint-tidy lint-cppcheck lint-analyzer
lint: $(BUILT_SOURCES)
	@LINTFILES='$(LINTFILES)' '$(PERL)' $(srcdir)/etc/lint/lint '$(srcdir)' '$(lint_cc)' $(lint_parts:lint-%=%) -- $(lint_flags)
$(lint_parts): $(BUILT_SOURCES)
	@LINTFILES='$(LINTFILES)' '$(PERL)' $(srcdir)/etc/lint/lint '$(srcdir)' '$(lint_cc)' $(@:lint-%=%) -- $(lint_flags)

.PHONY: lint $(lint_parts)
