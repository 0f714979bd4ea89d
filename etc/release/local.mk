# SPDX-License-Identifier: Apache-2.0
#
# `make bundle`: a release in one folder and one archive; `make ipuctl-archive`: ipuctl for any Linux. See
# doc/design/release.md.

bundle = ipu-operator-$(VERSION)-bundle
CLEANFILES += $(bundle).tar.xz $(bundle).tar

if SANITIZERS
ipuctl-archive:
	@echo "make ipuctl-archive: a build with sanitizers isn't for others: configure another one" >&2; exit 1
else
ipuctl-archive: ipuctl
	@'$(PERL)' $(srcdir)/etc/release/make-ipuctl --version='$(VERSION)' --source='$(srcdir)'
endif

bundle: image ipuctl-archive
	@test -z "$(IMAGE_OUTPUT:.=)" || { echo "make bundle: IMAGE_OUTPUT is make image's alone" >&2; exit 1; }
	@$(MAKE) dist >/dev/null
	@'$(PERL)' $(srcdir)/etc/release/make-bundle --version='$(VERSION)' --source='$(srcdir)'

# What `make distcheck` does, with one test instead of all: the sources of the release build in another folder, install and go
# again, and what they build is the image of this tree, bit for bit.
release-check: image
	IPU_IMAGE_DIGEST=`cat ipu-operator-$(VERSION)-image.digest` $(MAKE) distcheck check_PROGRAMS= \
		TESTFILES=../../t/74-image.t DISTCHECK_CONFIGURE_FLAGS="CC='$(CC)' CFLAGS='$(CFLAGS)'"

# Debian packages, from a copy of the release's sources.
deb_folder = ipu-operator-$(VERSION)-deb
deb:
	@command -v dpkg-buildpackage >/dev/null || { echo "make deb: dpkg-dev isn't there" >&2; exit 1; }
	@$(MAKE) distdir distdir='$(deb_folder)' >/dev/null
	@IPU_DEB_CC='$(CC)' '$(PERL)' $(srcdir)/etc/release/make-deb '$(abs_srcdir)' '$(VERSION)' '$(deb_folder)'

clean-local:
	rm -rf $(bundle) $(deb_folder) $(lint_kept) $(coverage_folder)
	rm -f ipuctl-$(VERSION)-linux-*.tar.xz ipuctl-$(VERSION)-linux-*.spdx.json
	rm -f ipu-operator_$(VERSION)-1_*.deb ipuctl_$(VERSION)-1_*.deb ipu-sim_$(VERSION)-1_*.deb *_$(VERSION)-1_*.deb.spdx.json make-deb.log

# The distribution knows its commit, and all its files have the release's date: then the archive's
# bytes depend on the tree alone.
dist_stamp = '$(PERL)' $(srcdir)/etc/release/stamp '$(srcdir)' '$(VERSION)' '$(distdir)'

.PHONY: bundle deb ipuctl-archive release-check
