# SPDX-License-Identifier: Apache-2.0
#
# `make image`: the container image of the programs just built, its digest and its bill of materials,
# in the build folder, or in IMAGE_OUTPUT. See doc/design/release.md.

IMAGE_OUTPUT = .
image_programs = ipu-operator ipuctl ipu-launcher
image_files = ipu-operator-$(VERSION)-image.tar ipu-operator-$(VERSION)-image.digest \
	ipu-operator-$(VERSION).spdx.json
CLEANFILES += $(image_files)

if SANITIZERS
image:
	@echo "make image: a build with sanitizers isn't for an image: configure another one" >&2; exit 1
else
image: $(image_programs)
	@CC='$(CC)' '$(PERL)' $(srcdir)/etc/image/make-image --version='$(VERSION)' --source='$(srcdir)' \
		--build=. --output='$(IMAGE_OUTPUT)' \
		--static-libs='$(FYAML_LIBS) $(MBEDTLS_LIBS) $(CARES_LIBS) $(EV_LIBS) $(LLHTTP_LIBS)'
endif

.PHONY: image
