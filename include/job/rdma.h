/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reaches RDMA devices without the host's network: a secondary network that Multus gives a Pod
 * by its annotation, the device plugin's resource and the capability to lock memory. Also for
 * annotated Pods. Owns nothing. Pure.
 */
#ifndef IPU_JOB_RDMA_H
#define IPU_JOB_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "core/str.h"

/* "De-facto Standard" of the Network Plumbing Working Group, section 4.1. */
#define JOB_ANNOTATION_NETWORKS "k8s.v1.cni.cncf.io/networks"

/* worker.rdma* and worker.ipcLock of the configuration; strings borrowed. All 0: nothing is added.
 */
struct job_rdma {
	const char *network; /* [NAMESPACE/]NAME[@INTERFACE], in "default" if none is named; NULL */
	const char *resource; /* "rdma/rdma_shared_device_a"; NULL: none */
	int64_t amount;       /* of it, for each container */
	bool ipc_lock;
};

/* Of the configuration's values ("": none; ipc_lock: auto, true or false). With host_network it's
 * nothing at all. */
struct job_rdma job_rdma_of(bool host_network, const char *network, const char *resource,
			    int64_t amount, const char *ipc_lock);
bool job_rdma_is_network(struct str text);
/* An extended resource's name, by Kubernetes' rules. */
bool job_rdma_is_resource(struct str text);

/* ---- a Pod ---- */

enum job_network {
	JOB_NETWORK_ADDED,
	JOB_NETWORK_THERE,  /* the template names it already, by whatever interface */
	JOB_NETWORK_BROKEN, /* what the annotation says is no list of networks: it's left as it is
			     */
	JOB_NETWORK_NONE,   /* none is configured, or the Pod is on its host's network */
};

/* What job_network_add would find. ns: the Pod's; pod: an object with metadata and spec. */
enum job_network job_network_look(const struct json *pod, const char *ns,
				  const struct job_rdma *rdma);
/* Adds the network behind those that are named in either of the annotation's two forms, so that
 * these keep their interfaces. pod (mutable, in doc) must have an object metadata. */
enum job_network job_network_add(struct jmut_doc *doc, struct jmut *pod, const char *ns,
				 const struct job_rdma *rdma);

/* ---- a container ---- */

/* The resource and the capability. An amount that is there stays, and so does a capability that is
 * dropped by its name. NULL; or the field that isn't what the API has there, "resources.limits". */
const char *job_rdma_apply(struct jmut_doc *doc, struct jmut *container,
			   const struct job_rdma *rdma);

#endif
