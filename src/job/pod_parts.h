/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job's worker and launcher Pods have in common, put over a copy of the template piece by
 * piece. Private to src/job.
 */
#ifndef IPU_JOB_POD_PARTS_H
#define IPU_JOB_POD_PARTS_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "job/model.h"
#include "job/pod.h"

#define JOB_LAUNCHER_DIR     "/.ipu" /* where ipu-launcher is found in every container */
#define JOB_LAUNCHER_PROGRAM JOB_LAUNCHER_DIR "/ipu-launcher"
#define JOB_INSTALL_NAME     "ipu-launcher-install"
#define JOB_PROGRAM_VOLUME   "ipu-launcher"

/* ---- a container's environment: an array of the Pod's ---- */

/* A variable that the user may set himself: nothing happens where he has. Inserted at *at, which
 * moves behind it, in front of what may refer to it as $(NAME). */
void job_env_offer(struct jmut_doc *doc, struct jmut *env, size_t *at, const char *name,
		   const char *value);

/* ---- a container ---- */

/* The IPUs' environment and privileges, as they are for every container of a template. */
int job_container_build(struct jmut_doc *doc, struct jmut *container, const struct job_ipus *ipus,
			const struct job_pod_settings *settings, struct err *err);
/* A container's resources without devices: what has a domain in its name, and claims. NULL: none
 * are left. */
struct jmut *job_plain_resources(struct jmut_doc *doc, const struct json *container);

/* ---- the Pod ---- */

/* A copy of the template as the document's root, with kind and metadata of a Pod in `role`. */
int job_pod_begin(struct jmut_doc *doc, const struct json *spec, const struct job *job,
		  uint32_t instance, const char *role, const char *name,
		  const struct job_ipus *ipus, struct jmut **ret_spec, struct err *err);
/* Network, DNS, restartPolicy, the node selector and the volume of the IPUs' configuration. */
void job_pod_finish(struct jmut_doc *doc, struct jmut *pod_spec, const struct job_ipus *ipus,
		    const struct job_pod_settings *settings);
/* An init container in front of all others that puts ipu-launcher into a volume, and that volume,
 * mounted in `container`. */
void job_deliver(struct jmut_doc *doc, struct jmut *pod_spec, struct jmut *container,
		 const struct job_pod_settings *settings);

#endif
