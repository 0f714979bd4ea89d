/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job with a launcher has beside its workers: the launcher Pods, the ConfigMap NAME-config
 * with the remote-execution script and the hostfiles, and the ServiceAccount, Role and RoleBinding
 * NAME-launcher, narrowed to this job's Pods. Pure; doc/design/decisions.md,
 * "What an instance is".
 */
#ifndef IPU_JOB_LAUNCHER_H
#define IPU_JOB_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "job/model.h"
#include "job/pod.h"
#include "kube/client.h"

/* Why this operator can't make a job's launcher, for its status; NULL: it can, or there's none. */
const char *job_launcher_problem(const struct job *job, const struct job_pod_settings *settings);

/* What the Pods of a job with a launcher get beside the template's: no container or volume there
 * can have these names, and nothing can be mounted here in the first container. */
bool job_is_own_container(struct str name);
bool job_is_own_volume(struct str name);
bool job_is_own_mount(struct str path);

/* The launcher Pod of an instance: spec is the IPUJob's. The root of doc is the Pod. */
int job_launcher_build(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		       uint32_t instance, const struct job_ipus *ipus,
		       const struct job_pod_settings *settings, struct err *err);

/* In the order in which they are made. */
enum job_support {
	JOB_SUPPORT_CONFIG,
	JOB_SUPPORT_ACCOUNT,
	JOB_SUPPORT_ROLE,
	JOB_SUPPORT_BINDING,
	JOB_SUPPORTS, /* how many there are */
};

const struct kube_resource *job_support_resource(enum job_support which);
char *job_support_name(const struct job *job, enum job_support which); /* the caller frees */

/* One of them as the job wants it now, for `instances` instances. before: what it replaces (it must
 * be ours), or NULL. The root of doc. */
void job_support_build(struct jmut_doc *doc, const struct job *job, enum job_support which,
		       uint32_t instances, const struct json *before);
/* What the values of its ConfigMap have for all instances, and what the API server takes
 * (ValidateConfigMap). */
#define JOB_CONFIG_MAX_BYTES 1048576
uint64_t job_config_bytes(const struct job *job);
/* A launcher runs under an account of its own, but its image is pulled as the workers' is: the
 * account that has the secrets for that; NULL: the template names them itself. The caller frees. */
char *job_support_account_to_ask(const struct json *spec);
void job_support_take_secrets(struct jmut_doc *doc, const struct json *account);

/* Whether an object that is there is the job's, and says what is wanted. */
bool job_support_is_ours(const struct json *object, const struct job *job);
bool job_support_is_current(const struct json *object, const struct job *job,
			    enum job_support which, uint32_t instances);

#endif
