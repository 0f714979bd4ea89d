/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the injection's files share. Private to src/pod.
 */
#ifndef IPU_POD_PARTS_H
#define IPU_POD_PARTS_H

#include "pod/inject.h"

#define POD_TOKEN_VOLUME   "ipu-partition-token"
#define POD_TOKEN_DIR      "/var/run/secrets/ipu-operator"
#define POD_TOKEN_AUDIENCE "ipu-operator-proxy"
#define POD_FILE           JOB_IPUOF_DIR "/partition.conf"

/* As job_env_apply sets it where its author doesn't. */
#define POD_TIMEOUT_NAME "IPUOF_VIPU_API_TIMEOUT"
#define POD_TIMEOUT      "120"

/* The lists of a Pod that hold containers. */
#define POD_CONTAINER_LISTS 2
extern const char *const pod_container_lists[POD_CONTAINER_LISTS];

/* Takes out of a Pod what an injection has left in it, in either mode: a copy of an injected Pod
 * becomes what its author wrote, but for network, DNS and privileges, which may be the author's.
 * ret_injected: it looks as if one had been there. */
void pod_strip(struct jmut *pod, bool *ret_injected);

/* Init mode: the init container, in front of all others, and the volumes. */
int pod_add_init(struct jmut_doc *doc, struct jmut *spec, uint32_t ipus, int64_t deadline_ms,
		 const struct pod_inject_settings *settings, struct err *err);

#endif
