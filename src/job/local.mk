# SPDX-License-Identifier: Apache-2.0
#
# job: IPUJob model, planner, controller.

noinst_LIBRARIES += libjob.a
libjob_a_SOURCES = \
	include/job/model.h \
	include/job/status.h \
	include/job/pod.h \
	include/job/rdma.h \
	include/job/files.h \
	include/job/group.h \
	include/job/held.h \
	include/job/queue.h \
	include/job/plan.h \
	include/job/rollout.h \
	include/job/launcher.h \
	include/job/make.h \
	include/job/controller.h \
	src/job/internal.h \
	src/job/model.c \
	src/job/model_spec.h \
	src/job/model_spec.c \
	src/job/validate.h \
	src/job/validate.c \
	src/job/shape.c \
	src/job/template.c \
	src/job/fixed.c \
	src/job/status.c \
	src/job/pod.c \
	src/job/pod_parts.h \
	src/job/pod_parts.c \
	src/job/pod_build.c \
	src/job/rdma.c \
	src/job/launcher_env.h \
	src/job/launcher_env.c \
	src/job/launcher.c \
	src/job/support.c \
	src/job/support_write.c \
	src/job/files.c \
	src/job/group.c \
	src/job/held.c \
	src/job/queue.c \
	src/job/plan_queue.c \
	src/job/groups.h \
	src/job/groups.c \
	src/job/apply_groups.c \
	src/job/plan_groups.h \
	src/job/plan_groups.c \
	src/job/rollout.c \
	src/job/plan_impl.h \
	src/job/plan.c \
	src/job/plan_gang.c \
	src/job/plan_instance.c \
	src/job/plan_run.c \
	src/job/plan_status.c \
	src/job/plan_files.h \
	src/job/plan_files.c \
	src/job/measure.c \
	src/job/tell.c \
	src/job/call.h \
	src/job/call.c \
	src/job/turn.c \
	src/job/make.c \
	src/job/apply.c \
	src/job/classes.h \
	src/job/classes.c \
	src/job/controller.c
libjob_a_CPPFLAGS = $(AM_CPPFLAGS)
job_ldadd = libjob.a $(partition_ldadd)

job_tests = t/unit/job_plan_test t/unit/job_plan_all_test t/unit/job_validate_test \
	t/unit/job_model_test t/unit/job_status_test t/unit/job_group_test t/unit/job_groups_test t/unit/job_queue_test t/unit/job_pod_test t/unit/job_rdma_test t/unit/job_launcher_test \
	t/unit/job_controller_test t/unit/job_found_test t/unit/job_memory_test t/unit/job_overtaken_test \
	t/unit/job_rollout_test t/unit/job_plan_speed_test
check_PROGRAMS += $(job_tests)
t_unit_job_plan_test_SOURCES = t/unit/job_plan_test.c t/unit/job_plan_rows.h t/unit/job_plan_rig.h \
	t/unit/tap.h
t_unit_job_plan_test_LDADD = $(job_ldadd)
t_unit_job_plan_all_test_SOURCES = t/unit/job_plan_all_test.c t/unit/job_plan_rig.h t/unit/tap.h
t_unit_job_plan_all_test_LDADD = $(job_ldadd)
t_unit_job_validate_test_SOURCES = t/unit/job_validate_test.c t/unit/tap.h
t_unit_job_validate_test_LDADD = $(job_ldadd)
t_unit_job_model_test_SOURCES = t/unit/job_model_test.c t/unit/tap.h
t_unit_job_model_test_LDADD = $(job_ldadd)
t_unit_job_status_test_SOURCES = t/unit/job_status_test.c t/unit/tap.h
t_unit_job_status_test_LDADD = $(job_ldadd)
t_unit_job_group_test_SOURCES = t/unit/job_group_test.c t/unit/tap.h
t_unit_job_group_test_LDADD = $(job_ldadd)
t_unit_job_queue_test_SOURCES = t/unit/job_queue_test.c t/unit/tap.h
t_unit_job_queue_test_LDADD = $(job_ldadd)
t_unit_job_groups_test_SOURCES = t/unit/job_groups_test.c t/unit/partition_rig.h t/unit/tap.h
t_unit_job_groups_test_LDADD = $(sim_ldadd)
t_unit_job_pod_test_SOURCES = t/unit/job_pod_test.c t/unit/tap.h
t_unit_job_rdma_test_SOURCES = t/unit/job_rdma_test.c t/unit/tap.h
t_unit_job_launcher_test_SOURCES = t/unit/job_launcher_test.c t/unit/tap.h
t_unit_job_launcher_test_LDADD = $(job_ldadd)
t_unit_job_pod_test_LDADD = $(job_ldadd)
t_unit_job_rdma_test_LDADD = $(job_ldadd)
t_unit_job_controller_test_SOURCES = t/unit/job_controller_test.c t/unit/job_controller_rig.h t/unit/partition_rig.h \
	t/unit/tap.h
t_unit_job_controller_test_LDADD = $(sim_ldadd)
t_unit_job_found_test_SOURCES = t/unit/job_found_test.c t/unit/job_controller_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_job_found_test_LDADD = $(sim_ldadd)
t_unit_job_overtaken_test_SOURCES = t/unit/job_overtaken_test.c t/unit/job_controller_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_job_overtaken_test_LDADD = $(sim_ldadd)
t_unit_job_memory_test_SOURCES = t/unit/job_memory_test.c t/unit/no_memory.h t/unit/job_controller_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_job_memory_test_LDADD = $(sim_ldadd)
t_unit_job_rollout_test_SOURCES = t/unit/job_rollout_test.c t/unit/tap.h
t_unit_job_rollout_test_LDADD = $(job_ldadd)
t_unit_job_plan_speed_test_SOURCES = t/unit/job_plan_speed_test.c t/unit/tap.h
t_unit_job_plan_speed_test_LDADD = $(job_ldadd)
