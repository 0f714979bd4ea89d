# SPDX-License-Identifier: Apache-2.0
#
# admission: the webhooks for IPUJobs and annotated Pods.

noinst_LIBRARIES += libadmission.a
libadmission_a_SOURCES = \
	include/admission/access.h \
	include/admission/admission.h \
	include/admission/findings.h \
	include/admission/job.h \
	include/admission/patch.h \
	include/admission/registration.h \
	include/admission/review.h \
	include/admission/security.h \
	include/admission/template.h \
	src/admission/access.c \
	src/admission/access_facts.c \
	src/admission/access_facts.h \
	src/admission/access_path.c \
	src/admission/access_path.h \
	src/admission/access_pods.c \
	src/admission/access_pods.h \
	src/admission/admission.c \
	src/admission/away.c \
	src/admission/away.h \
	src/admission/bounds.h \
	src/admission/bounds.c \
	src/admission/findings.c \
	src/admission/job_check.c \
	src/admission/job_check.h \
	src/admission/job_default.c \
	src/admission/job_names.c \
	src/admission/job_sizes.c \
	src/admission/job_template.c \
	src/admission/job_warn.c \
	src/admission/job_warn_pod.c \
	src/admission/patch.c \
	src/admission/registration.c \
	src/admission/registration_make.c \
	src/admission/review.c \
	src/admission/security.c \
	src/admission/template.c
libadmission_a_CPPFLAGS = $(AM_CPPFLAGS)
admission_ldadd = libadmission.a libcert.a $(pod_ldadd)

admission_tests = t/unit/admission_findings_test t/unit/admission_review_test \
	t/unit/admission_patch_test
check_PROGRAMS += $(admission_tests)
t_unit_admission_findings_test_SOURCES = t/unit/admission_findings_test.c t/unit/tap.h
t_unit_admission_findings_test_LDADD = $(admission_ldadd)
t_unit_admission_review_test_SOURCES = t/unit/admission_review_test.c t/unit/no_memory.h t/unit/tap.h
t_unit_admission_review_test_LDADD = $(admission_ldadd)
t_unit_admission_patch_test_SOURCES = t/unit/admission_patch_test.c t/unit/tap.h
t_unit_admission_patch_test_LDADD = libadmission.a $(sim_ldadd)

check_PROGRAMS += t/unit/admission_registration_make_test
t_unit_admission_registration_make_test_SOURCES = t/unit/admission_registration_make_test.c \
	t/unit/tap.h
t_unit_admission_registration_make_test_LDADD = $(admission_ldadd)

check_PROGRAMS += t/unit/admission_security_test
t_unit_admission_security_test_SOURCES = t/unit/admission_security_test.c t/unit/tap.h
t_unit_admission_security_test_LDADD = $(admission_ldadd)

check_PROGRAMS += t/unit/admission_registration_test
t_unit_admission_registration_test_SOURCES = t/unit/admission_registration_test.c t/unit/no_memory.h \
	t/unit/partition_rig.h t/unit/tap.h
t_unit_admission_registration_test_LDADD = libadmission.a libcert.a $(sim_ldadd)

check_PROGRAMS += t/unit/admission_job_test
t_unit_admission_job_test_SOURCES = t/unit/admission_job_test.c t/unit/tap.h
t_unit_admission_job_test_LDADD = $(admission_ldadd)

check_PROGRAMS += t/unit/admission_away_test
t_unit_admission_away_test_SOURCES = t/unit/admission_away_test.c t/unit/tap.h
t_unit_admission_away_test_LDADD = $(admission_ldadd)

check_PROGRAMS += t/unit/admission_path_test
t_unit_admission_path_test_SOURCES = t/unit/admission_path_test.c t/unit/tap.h
t_unit_admission_path_test_LDADD = $(admission_ldadd)

check_PROGRAMS += t/unit/admission_handler_test
t_unit_admission_handler_test_SOURCES = t/unit/admission_handler_test.c t/unit/no_memory.h t/unit/kube_server.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_admission_handler_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_admission_handler_test_LDADD = $(admission_ldadd)
check_PROGRAMS += t/unit/admission_access_test
t_unit_admission_access_test_SOURCES = t/unit/admission_access_test.c t/unit/kube_server.h \
	t/unit/net_test.h t/unit/tap.h
t_unit_admission_access_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_admission_access_test_LDADD = $(admission_ldadd)
