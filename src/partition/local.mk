# SPDX-License-Identifier: Apache-2.0
#
# partition: records, planner, tracker, manager.

noinst_LIBRARIES += libpartition.a
libpartition_a_SOURCES = \
	include/partition/types.h \
	include/partition/plan.h \
	include/partition/facts.h \
	include/partition/manager.h \
	include/partition/service.h \
	include/partition/controllers.h \
	src/partition/controllers.c \
	src/partition/list_text.h \
	src/partition/list_text.c \
	src/partition/list_file.h \
	src/partition/list_file.c \
	src/partition/secrets.h \
	src/partition/secrets.c \
	include/partition/schedule.h \
	include/partition/policy.h \
	src/partition/policy.c \
	src/partition/namespaces.h \
	src/partition/namespaces.c \
	src/partition/gather.h \
	src/partition/gather.c \
	src/partition/types.c \
	src/partition/record.c \
	src/partition/plan.c \
	src/partition/facts.c \
	src/partition/tracker.h \
	src/partition/tracker.c \
	src/partition/tracker_internal.h \
	src/partition/tracker_shard.c \
	src/partition/tracker_keep.c \
	src/partition/internal.h \
	src/partition/item.c \
	src/partition/service.c \
	include/partition/remote.h \
	src/partition/remote_impl.h \
	src/partition/remote.c \
	src/partition/remote_call.c \
	src/partition/remote_tell.c \
	src/partition/unowned.c \
	src/partition/usage.h \
	src/partition/usage.c \
	src/partition/found.c \
	src/partition/ipuof.h \
	src/partition/ipuof.c \
	src/partition/adopt.h \
	src/partition/adopt.c \
	src/partition/block.h \
	src/partition/block.c \
	src/partition/schedule.c \
	src/partition/queue.h \
	src/partition/queue.c \
	src/partition/manager.c \
	src/partition/view.c
libpartition_a_CPPFLAGS = $(AM_CPPFLAGS)
partition_ldadd = libpartition.a libvipu.a libgrpc.a $(kube_ldadd) $(PROTOBUF_C_LIBS)

partition_tests = t/unit/partition_queue_test t/unit/partition_policy_test \
	t/unit/partition_schedule_sim_test t/unit/partition_schedule_test t/unit/partition_facts_test t/unit/partition_plan_test \
	t/unit/partition_types_test t/unit/partition_usage_test \
	t/unit/partition_manager_test t/unit/partition_crash_test t/unit/partition_memory_test \
	t/unit/partition_shards_test t/unit/partition_damage_test \
	t/unit/partition_tracker_speed_test \
	t/unit/partition_adopt_test t/unit/partition_follow_test t/unit/partition_tracker_test \
	t/unit/partition_ipuof_test t/unit/partition_model_test
check_PROGRAMS += $(partition_tests)
t_unit_partition_schedule_test_SOURCES = t/unit/partition_schedule_test.c t/unit/tap.h
t_unit_partition_schedule_test_LDADD = $(partition_ldadd)
t_unit_partition_queue_test_SOURCES = t/unit/partition_queue_test.c \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_queue_test_LDADD = $(sim_ldadd)
t_unit_partition_policy_test_SOURCES = t/unit/partition_policy_test.c t/unit/tap.h
t_unit_partition_policy_test_LDADD = $(partition_ldadd)
t_unit_partition_schedule_sim_test_SOURCES = t/unit/partition_schedule_sim_test.c t/unit/tap.h
t_unit_partition_schedule_sim_test_LDADD = $(partition_ldadd)
t_unit_partition_facts_test_SOURCES = t/unit/partition_facts_test.c t/unit/tap.h
t_unit_partition_facts_test_LDADD = $(partition_ldadd)
t_unit_partition_plan_test_SOURCES = t/unit/partition_plan_test.c t/unit/tap.h
t_unit_partition_plan_test_LDADD = $(partition_ldadd)
t_unit_partition_model_test_SOURCES = t/unit/partition_model_test.c t/unit/partition_model.h \
	t/unit/partition_model_end.c t/unit/partition_model_owner.c \
	t/unit/partition_model_replica.c t/unit/partition_model_tracker.c \
	t/unit/partition_model_world.c t/unit/tap.h
t_unit_partition_model_test_LDADD = $(partition_ldadd)
t_unit_partition_usage_test_SOURCES = t/unit/partition_usage_test.c t/unit/tap.h
t_unit_partition_usage_test_LDADD = $(partition_ldadd)
t_unit_partition_types_test_SOURCES = t/unit/partition_types_test.c t/unit/tap.h
t_unit_partition_types_test_LDADD = $(partition_ldadd)
t_unit_partition_manager_test_SOURCES = t/unit/partition_manager_test.c \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_manager_test_LDADD = $(sim_ldadd)
t_unit_partition_adopt_test_SOURCES = t/unit/partition_adopt_test.c \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_adopt_test_LDADD = $(sim_ldadd)
t_unit_partition_ipuof_test_SOURCES = t/unit/partition_ipuof_test.c t/unit/no_memory.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_ipuof_test_LDADD = $(sim_ldadd)
t_unit_partition_shards_test_SOURCES = t/unit/partition_shards_test.c \
	t/unit/partition_tracker_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_shards_test_LDADD = $(sim_ldadd)
t_unit_partition_damage_test_SOURCES = t/unit/partition_damage_test.c \
	t/unit/partition_tracker_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_damage_test_LDADD = $(sim_ldadd)
t_unit_partition_follow_test_SOURCES = t/unit/partition_follow_test.c \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_follow_test_LDADD = $(sim_ldadd)
t_unit_partition_tracker_speed_test_SOURCES = t/unit/partition_tracker_speed_test.c \
	t/unit/partition_tracker_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_tracker_speed_test_LDADD = $(sim_ldadd)
t_unit_partition_crash_test_SOURCES = t/unit/partition_crash_test.c \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_crash_test_LDADD = $(sim_ldadd)
t_unit_partition_memory_test_SOURCES = t/unit/partition_memory_test.c t/unit/no_memory.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_memory_test_LDADD = $(sim_ldadd)
t_unit_partition_tracker_test_SOURCES = t/unit/partition_tracker_test.c t/unit/partition_rig.h \
	t/unit/partition_manager_rig.h t/unit/tap.h
t_unit_partition_tracker_test_LDADD = $(sim_ldadd)
check_PROGRAMS += t/unit/partition_list_test t/unit/partition_controllers_test t/unit/partition_secrets_test
t_unit_partition_secrets_test_SOURCES = t/unit/partition_secrets_test.c t/unit/kube_server.h t/unit/net_test.h \
	t/unit/tap.h t/unit/wiped.h
t_unit_partition_secrets_test_LDADD = $(partition_ldadd)
t_unit_partition_secrets_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_partition_list_test_SOURCES = t/unit/partition_list_test.c t/unit/tap.h
t_unit_partition_list_test_LDADD = $(partition_ldadd)
t_unit_partition_controllers_test_SOURCES = t/unit/partition_controllers_test.c t/unit/no_memory.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_partition_controllers_test_LDADD = $(sim_ldadd)
