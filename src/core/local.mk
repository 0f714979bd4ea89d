# SPDX-License-Identifier: Apache-2.0
#
# core: no I/O. JSON has two back-ends, one of which a program links.

noinst_LIBRARIES += libcore.a libjson-yyjson.a libjson-fy.a

libcore_a_SOURCES =
libcore_a_CPPFLAGS = $(AM_CPPFLAGS) $(FYAML_CFLAGS)
libjson_yyjson_a_SOURCES =
libjson_yyjson_a_CPPFLAGS = $(AM_CPPFLAGS) $(YYJSON_CFLAGS)
libjson_fy_a_SOURCES =
libjson_fy_a_CPPFLAGS = $(AM_CPPFLAGS) $(FYAML_CFLAGS)

# core and its JSON need each other. corefy_ldadd is for what must link statically: Debian has no
# static archive of yyjson.
core_ldadd = libcore.a libjson-yyjson.a libcore.a $(FYAML_LIBS) $(YYJSON_LIBS) -lm
corefy_ldadd = libcore.a libjson-fy.a libcore.a $(FYAML_LIBS) -lm
