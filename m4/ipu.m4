dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl The checks of configure.ac that are more than one line. Each looks by compiling or linking,
dnl with the user's flags in force, and puts what it finds into variables of its own.

dnl IPU_CFLAG(FLAG, VARIABLE, [IF-NOT]): adds FLAG to VARIABLE if the compiler takes it. An unknown
dnl -Wno-… is accepted in silence by gcc and only a warning for clang, hence -Werror here.
AC_DEFUN([IPU_CFLAG], [
	AS_VAR_PUSHDEF([CACHE], [ipu_cv_cflag_$1])
	AC_CACHE_CHECK([whether $CC takes $1], [CACHE], [
		ipu_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS -Werror $1"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([])],
			[AS_VAR_SET([CACHE], [yes])], [AS_VAR_SET([CACHE], [no])])
		CFLAGS=$ipu_save_CFLAGS])
	AS_VAR_IF([CACHE], [yes], [AS_VAR_APPEND([$2], [" $1"])], [$3])
	AC_SUBST([$2])
	AS_VAR_POPDEF([CACHE])
])

dnl IPU_LDFLAG(FLAG, VARIABLE, [ALSO]): adds FLAG to VARIABLE if a program links with it.
AC_DEFUN([IPU_LDFLAG], [
	AS_VAR_PUSHDEF([CACHE], [ipu_cv_ldflag_$1])
	AC_CACHE_CHECK([whether the linker takes $1], [CACHE], [
		ipu_save_LDFLAGS=$LDFLAGS
		ipu_save_CFLAGS=$CFLAGS
		LDFLAGS="$LDFLAGS $1"
		CFLAGS="$CFLAGS -Werror $3"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([])],
			[AS_VAR_SET([CACHE], [yes])], [AS_VAR_SET([CACHE], [no])])
		LDFLAGS=$ipu_save_LDFLAGS
		CFLAGS=$ipu_save_CFLAGS])
	AS_VAR_IF([CACHE], [yes], [AS_VAR_APPEND([$2], [" $1"])])
	AC_SUBST([$2])
	AS_VAR_POPDEF([CACHE])
])

dnl IPU_LIBRARY(NAME, MODULES, PACKAGE): NAME_CFLAGS and NAME_LIBS by pkg-config, or a clear end.
AC_DEFUN([IPU_LIBRARY], [
	PKG_CHECK_MODULES([$1], [$2], [],
		[AC_MSG_ERROR([$2 isn't there: run ./setup, or install $3 ($[]$1[]_PKG_ERRORS)])])
	ipu_version_$1=`$PKG_CONFIG --modversion m4_car(m4_unquote(m4_split([$2])))`
])

dnl IPU_SANITIZERS: IPU_SANITIZE_FLAGS (for compiling and linking), and the conditional SANITIZERS.
AC_DEFUN([IPU_SANITIZERS], [
	AS_CASE([$enable_sanitizers],
		[yes], [enable_sanitizers=address,undefined],
		[no | ''], [enable_sanitizers=no])
	AS_IF([test "x$enable_fuzzers" = xyes && test "x$enable_sanitizers" = xno],
		[enable_sanitizers=address,undefined])
	IPU_SANITIZE_FLAGS=
	AS_IF([test "x$enable_sanitizers" != xno], [
		IPU_SANITIZE_FLAGS="-fsanitize=$enable_sanitizers -fno-sanitize-recover=all"
		IPU_SANITIZE_FLAGS="$IPU_SANITIZE_FLAGS -fno-omit-frame-pointer"
		AC_MSG_CHECKING([whether programs run with -fsanitize=$enable_sanitizers])
		ipu_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS $IPU_SANITIZE_FLAGS"
		AC_RUN_IFELSE([AC_LANG_PROGRAM([])], [AC_MSG_RESULT([yes])], [
			AC_MSG_RESULT([no])
			AC_MSG_ERROR([$CC can't do --enable-sanitizers=$enable_sanitizers; clang needs libclang-rt-dev])],
			[AC_MSG_RESULT([cross compiling: taken for granted])])
		CFLAGS=$ipu_save_CFLAGS
	])
	AC_SUBST([IPU_SANITIZE_FLAGS])
	AM_CONDITIONAL([SANITIZERS], [test "x$enable_sanitizers" != xno])
	ipu_compiler_version=`$CC --version | head -n 1`
])

dnl IPU_FUZZERS: after IPU_SANITIZERS, to whose flags it adds what libFuzzer steers by; IPU_FUZZ_LIBS
dnl for linking the programs of t/fuzz, and the conditional FUZZERS.
AC_DEFUN([IPU_FUZZERS], [
	IPU_FUZZ_LIBS=
	AS_IF([test "x$enable_fuzzers" = xyes], [
		IPU_FUZZ_LIBS=-fsanitize=fuzzer
		IPU_SANITIZE_FLAGS="$IPU_SANITIZE_FLAGS -fsanitize=fuzzer-no-link"
		AC_MSG_CHECKING([whether $CC has libFuzzer])
		ipu_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS $IPU_SANITIZE_FLAGS $IPU_FUZZ_LIBS"
		AC_LINK_IFELSE([AC_LANG_SOURCE([[
			#include <stddef.h>
			#include <stdint.h>
			int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);
			int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
			{
				return p && len ? 0 : 0;
			}
			]])], [AC_MSG_RESULT([yes])], [
			AC_MSG_RESULT([no])
			AC_MSG_ERROR([--enable-fuzzers needs CC=clang and libclang-rt-dev: run ./setup --tests])])
		CFLAGS=$ipu_save_CFLAGS
	])
	AC_SUBST([IPU_FUZZ_LIBS])
	AM_CONDITIONAL([FUZZERS], [test "x$enable_fuzzers" = xyes])
])

dnl IPU_COVERAGE: IPU_COVERAGE_CFLAGS (for compiling and linking). A process writes its counters when
dnl it exits; _exit would lose them, so config.h, which comes before everything, has it write them first.
AC_DEFUN([IPU_COVERAGE], [
	IPU_COVERAGE_CFLAGS=
	AS_IF([test "x$enable_coverage" = xyes], [
		IPU_COVERAGE_CFLAGS="--coverage -fprofile-abs-path"
		AC_MSG_CHECKING([whether programs write their counters])
		ipu_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS $IPU_COVERAGE_CFLAGS"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([[void __gcov_dump(void);]], [[__gcov_dump();]])], [AC_MSG_RESULT([yes])], [
			AC_MSG_RESULT([no])
			AC_MSG_ERROR([--enable-coverage needs gcc])])
		CFLAGS=$ipu_save_CFLAGS
		AC_DEFINE([WITH_COVERAGE], [1], [Lines are counted.])
	])
	AH_BOTTOM([#if defined WITH_COVERAGE && !defined _exit
#include <unistd.h>
void __gcov_dump(void);
#define _exit(status) (__gcov_dump(), (_exit)(status))
#endif])
	AC_SUBST([IPU_COVERAGE_CFLAGS])
])

dnl IPU_HARDENING: IPU_HARDEN_CPPFLAGS, IPU_HARDEN_CFLAGS, IPU_HARDEN_LDFLAGS, and IPU_PIE_LDFLAGS
dnl apart from them, because a static program says -static-pie in its place. FORTIFY_SOURCE needs
dnl optimisation, and hides from the sanitizers what they are there to see.
AC_DEFUN([IPU_HARDENING], [
	IPU_HARDEN_CPPFLAGS=
	AS_IF([test "x$enable_hardening" = xyes], [
		IPU_CFLAG([-fstack-protector-strong], [IPU_HARDEN_CFLAGS])
		IPU_CFLAG([-fstack-clash-protection], [IPU_HARDEN_CFLAGS])
		IPU_CFLAG([-fcf-protection], [IPU_HARDEN_CFLAGS])
		IPU_CFLAG([-fno-strict-overflow], [IPU_HARDEN_CFLAGS])
		IPU_CFLAG([-fno-delete-null-pointer-checks], [IPU_HARDEN_CFLAGS])
		IPU_CFLAG([-fPIE], [IPU_HARDEN_CFLAGS])
		IPU_LDFLAG([-pie], [IPU_PIE_LDFLAGS], [-fPIE])
		IPU_LDFLAG([-Wl,-z,relro], [IPU_HARDEN_LDFLAGS])
		IPU_LDFLAG([-Wl,-z,now], [IPU_HARDEN_LDFLAGS])
		IPU_LDFLAG([-Wl,-z,noexecstack], [IPU_HARDEN_LDFLAGS])
		ipu_hardening_summary="PIE, RELRO, stack protector"
		AS_IF([test "x$enable_sanitizers" = xno], [
			AC_MSG_CHECKING([which _FORTIFY_SOURCE works])
			ipu_fortify=no
			for ipu_level in 3 2; do
				ipu_save_CPPFLAGS=$CPPFLAGS
				ipu_save_CFLAGS=$CFLAGS
				CPPFLAGS="$CPPFLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$ipu_level"
				CFLAGS="$CFLAGS -Werror"
				AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
					#include <stdio.h>
					#ifndef __OPTIMIZE__
					#error not optimising
					#endif
					]])], [ipu_fortify=$ipu_level])
				CPPFLAGS=$ipu_save_CPPFLAGS
				CFLAGS=$ipu_save_CFLAGS
				AS_IF([test "$ipu_fortify" != no], [break])
			done
			AC_MSG_RESULT([$ipu_fortify])
			AS_IF([test "$ipu_fortify" != no], [
				IPU_HARDEN_CPPFLAGS="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$ipu_fortify"
				ipu_hardening_summary="$ipu_hardening_summary, FORTIFY $ipu_fortify"])
		])
	])
	AC_SUBST([IPU_HARDEN_CPPFLAGS])
])

dnl IPU_STATIC_LAUNCHER: IPU_STATIC_LDFLAGS, set if the launcher's libraries link into one program
dnl that needs nothing of the system it runs on; the conditional STATIC_LAUNCHER says the same.
dnl Sanitizers can't do that, so a build with them has a dynamic launcher.
AC_DEFUN([IPU_STATIC_LAUNCHER], [
	IPU_STATIC_LDFLAGS=
	AS_IF([test "x$enable_sanitizers" != xno], [ipu_static_why="sanitizers"], [
		AC_MSG_CHECKING([how the launcher can be linked statically])
		ipu_save_CFLAGS=$CFLAGS
		ipu_save_LIBS=$LIBS
		LIBS="$FYAML_LIBS $LLHTTP_LIBS $MBEDTLS_LIBS $CARES_LIBS $EV_LIBS -lm $LIBS"
		for ipu_flag in -static-pie -static; do
			CFLAGS="$ipu_save_CFLAGS $IPU_HARDEN_CFLAGS $ipu_flag"
			AC_LINK_IFELSE([AC_LANG_PROGRAM([[
				#include <ares.h>
				#include <ev.h>
				#include <libfyaml.h>
				#include <llhttp.h>
				#include <mbedtls/ssl.h>
				]], [[
				static mbedtls_ssl_context tls;
				static llhttp_t parser;
				mbedtls_ssl_init(&tls);
				llhttp_init(&parser, HTTP_BOTH, 0);
				return ares_library_init(ARES_LIB_INIT_ALL) || !ev_default_loop(0) ||
				       !fy_library_version();
				]])], [IPU_STATIC_LDFLAGS=$ipu_flag; break])
		done
		CFLAGS=$ipu_save_CFLAGS
		LIBS=$ipu_save_LIBS
		AC_MSG_RESULT([${IPU_STATIC_LDFLAGS:-not at all}])
		ipu_static_why="no static libraries"
	])
	AC_SUBST([IPU_STATIC_LDFLAGS])
	AM_CONDITIONAL([STATIC_LAUNCHER], [test -n "$IPU_STATIC_LDFLAGS"])
])
