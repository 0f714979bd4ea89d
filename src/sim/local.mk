# SPDX-License-Identifier: Apache-2.0
#
# sim: the simulated Kubernetes and V-IPU.

noinst_LIBRARIES += libsim.a
libsim_a_SOURCES =
libsim_a_CPPFLAGS = $(AM_CPPFLAGS)
sim_ldadd = libsim.a libjob.a $(partition_ldadd)
