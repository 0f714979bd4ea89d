# SPDX-License-Identifier: Apache-2.0
#
# `make coverage`: builds once more, in the folder coverage/, with counters, runs the tests there and prints how much of src/
# they ran (doc/HACKING.md). COVERAGE_TESTS="…": only those tests, and then no bar is held.

# What stays for the next time.
coverage_folder = coverage

# gcov is gcc's, whatever else compiles here. What the tests do by the clock wants some optimisation.
coverage_cc = $(if $(findstring clang,$(CC)),gcc,$(CC))
coverage_configure = '$(abs_top_srcdir)/configure' -q --enable-coverage CC='$(coverage_cc)' CFLAGS='-Og -g'

coverage:
	@$(MKDIR_P) $(coverage_folder) && cd $(coverage_folder) && { test -e Makefile || $(coverage_configure); } && \
		$(MAKE) -s --no-print-directory check-programs
	@$(PERL) '$(abs_top_srcdir)/etc/coverage/coverage' '$(abs_top_srcdir)' $(coverage_folder) $(COVERAGE_TESTS)

.PHONY: coverage
