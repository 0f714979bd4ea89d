# SPDX-License-Identifier: Apache-2.0
#
# job: IPUJob model, planner, controller.

noinst_LIBRARIES += libjob.a
libjob_a_SOURCES =
libjob_a_CPPFLAGS = $(AM_CPPFLAGS)
job_ldadd = libjob.a $(partition_ldadd)
