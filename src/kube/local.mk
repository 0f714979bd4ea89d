# SPDX-License-Identifier: Apache-2.0
#
# kube: the Kubernetes client.

noinst_LIBRARIES += libkube.a
libkube_a_SOURCES =
libkube_a_CPPFLAGS = $(AM_CPPFLAGS)
kube_ldadd = libkube.a $(http_ldadd)
