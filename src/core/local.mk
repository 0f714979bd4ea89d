# SPDX-License-Identifier: Apache-2.0
#
# core: no I/O but whole files (file.c) and the log; confine.c takes it away. JSON has two back-ends, one of which a program links.

noinst_LIBRARIES += libcore.a libjson-yyjson.a libjson-fy.a

libcore_a_SOURCES = include/core/buf.h include/core/clock.h include/core/confine.h include/core/err.h include/core/fault.h \
	include/core/file.h include/core/intern.h include/core/list.h include/core/log.h include/core/map.h include/core/metrics.h \
	include/core/privacy.h include/core/rand.h include/core/str.h include/core/trace.h include/core/yaml.h \
	src/core/buf.c src/core/clock.c src/core/confine.c src/core/encode.c src/core/err.c src/core/fault.c src/core/file.c src/core/fy.h \
	src/core/intern.c src/core/log.c src/core/map.c src/core/metrics.c src/core/metrics_impl.h src/core/metrics_text.c \
	src/core/privacy.c src/core/rand.c src/core/str.c src/core/trace.c src/core/yaml.c \
	src/core/yaml_impl.h src/core/yaml_load.c src/core/yaml_load.h src/core/yaml_scalar.c \
	src/core/yaml_write.c
libcore_a_CPPFLAGS = $(AM_CPPFLAGS) $(FYAML_CFLAGS) $(MBEDTLS_CFLAGS)
libjson_yyjson_a_SOURCES = include/core/json.h src/core/json_common.c src/core/json_impl.h \
	src/core/json_yyjson.c
libjson_yyjson_a_CPPFLAGS = $(AM_CPPFLAGS) $(YYJSON_CFLAGS)
libjson_fy_a_SOURCES = include/core/json.h src/core/fy.h src/core/json_common.c src/core/json_fy.c \
	src/core/json_fy.h src/core/json_fy_parse.c src/core/json_impl.h
libjson_fy_a_CPPFLAGS = $(AM_CPPFLAGS) $(FYAML_CFLAGS)

# core and its JSON need each other. corefy_ldadd is for what must link statically: Debian has no
# static archive of yyjson.
core_ldadd = libcore.a libjson-yyjson.a libcore.a $(FYAML_LIBS) $(YYJSON_LIBS) $(MBEDTLS_LIBS) -lm
corefy_ldadd = libcore.a libjson-fy.a libcore.a $(FYAML_LIBS) $(MBEDTLS_LIBS) -lm

core_tests = t/unit/core_buf_test t/unit/core_clock_test t/unit/core_confine_test t/unit/core_err_test t/unit/core_file_test t/unit/core_intern_test t/unit/core_log_test \
	t/unit/core_map_test t/unit/core_metrics_test \
	t/unit/core_rand_test t/unit/core_str_test t/unit/core_trace_test
check_PROGRAMS += $(core_tests)
t_unit_core_buf_test_SOURCES = t/unit/core_buf_test.c t/unit/no_memory.h t/unit/tap.h
t_unit_core_buf_test_LDADD = $(core_ldadd)
t_unit_core_clock_test_SOURCES = t/unit/core_clock_test.c t/unit/tap.h
t_unit_core_clock_test_LDADD = $(core_ldadd)
t_unit_core_confine_test_SOURCES = t/unit/core_confine_test.c t/unit/tap.h
t_unit_core_confine_test_LDADD = $(core_ldadd)
t_unit_core_err_test_SOURCES = t/unit/core_err_test.c t/unit/tap.h
t_unit_core_err_test_LDADD = $(core_ldadd)
t_unit_core_file_test_SOURCES = t/unit/core_file_test.c t/unit/tap.h
t_unit_core_file_test_LDADD = $(core_ldadd)
t_unit_core_intern_test_SOURCES = t/unit/core_intern_test.c t/unit/tap.h
t_unit_core_intern_test_LDADD = $(core_ldadd)
t_unit_core_log_test_SOURCES = t/unit/core_log_test.c t/unit/tap.h
t_unit_core_log_test_LDADD = $(core_ldadd)
t_unit_core_map_test_SOURCES = t/unit/core_map_test.c t/unit/tap.h
t_unit_core_map_test_LDADD = $(core_ldadd)
t_unit_core_metrics_test_SOURCES = t/unit/core_metrics_test.c t/unit/tap.h
t_unit_core_metrics_test_LDADD = $(core_ldadd)
t_unit_core_rand_test_SOURCES = t/unit/core_rand_test.c t/unit/tap.h
t_unit_core_rand_test_LDADD = $(core_ldadd)
t_unit_core_str_test_SOURCES = t/unit/core_str_test.c t/unit/tap.h
t_unit_core_str_test_LDADD = $(core_ldadd)
t_unit_core_trace_test_SOURCES = t/unit/core_trace_test.c t/unit/tap.h
t_unit_core_trace_test_LDADD = $(core_ldadd)

check_PROGRAMS += t/unit/core_yaml_test t/unit/core_yaml_write_test
t_unit_core_yaml_test_SOURCES = t/unit/core_yaml_test.c t/unit/tap.h
t_unit_core_yaml_test_LDADD = $(core_ldadd)
t_unit_core_yaml_write_test_SOURCES = t/unit/core_yaml_write_test.c t/unit/tap.h
t_unit_core_yaml_write_test_LDADD = $(core_ldadd)

# The same tests with each back-end.
check_PROGRAMS += t/unit/core_json_test t/unit/core_json_fy_test t/unit/core_json_build_test \
	t/unit/core_json_build_fy_test
t_unit_core_json_test_SOURCES = t/unit/core_json_test.c t/unit/core_json.h t/unit/tap.h
t_unit_core_json_test_LDADD = $(core_ldadd)
t_unit_core_json_fy_test_SOURCES = $(t_unit_core_json_test_SOURCES)
t_unit_core_json_fy_test_CPPFLAGS = $(AM_CPPFLAGS)
t_unit_core_json_fy_test_LDADD = $(corefy_ldadd)
t_unit_core_json_build_test_SOURCES = t/unit/core_json_build_test.c t/unit/no_memory.h t/unit/core_json.h t/unit/tap.h
t_unit_core_json_build_test_LDADD = $(core_ldadd)
t_unit_core_json_build_fy_test_SOURCES = $(t_unit_core_json_build_test_SOURCES)
t_unit_core_json_build_fy_test_CPPFLAGS = $(AM_CPPFLAGS)
t_unit_core_json_build_fy_test_LDADD = $(corefy_ldadd)
