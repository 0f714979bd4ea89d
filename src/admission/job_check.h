/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of admission_job_check share. Private to src/admission.
 */
#ifndef IPU_ADMISSION_JOB_CHECK_H
#define IPU_ADMISSION_JOB_CHECK_H

#include "admission/job.h"
#include "job/model.h"

#define POD_SPEC      "spec.workers.template.spec"
#define POD_META      "spec.workers.template.metadata"
#define JOB_LOOK_PATH 512 /* more than enough for each path but those with a label's key */

struct job_look {
	const struct admission_job_view *view;
	const struct json *object, *spec;
	const struct json *was; /* the stored spec, with its defaults; NULL on a CREATE */
	const struct job *job;  /* the object's preview */
	bool by_another;        /* another controller runs it: nothing of ours holds for it */
	bool broken_sizes;      /* a rule about sizes is broken: no arithmetic with them */
	bool host_network;      /* of its Pods: their template's, or the configuration's */
	struct admission_findings *out;
};

/* Whether this review could have made it wrong: a CREATE, or the field (below spec, with dots)
 * isn't as it was. */
bool job_look_is_new(const struct job_look *l, const char *path);

/* job_sizes.c: sizes against each other, the controllers' and the namespace's. */
void job_look_at_sizes(const struct job_look *l);
/* job_template.c: what Kubernetes would refuse in the Pods, at the template's path. */
void job_look_at_template(const struct job_look *l);
/* Its own labels and annotations: the API server says so before the webhook is asked, and nobody
 * else where there is no API server. */
void job_look_at_metadata(const struct job_look *l);
/* job_names.c: whose names come twice, or are the operator's. */
void job_look_at_names(const struct job_look *l);
/* job_warn.c, job_warn_pod.c: legal, but unwise. */
void job_look_warn(const struct job_look *l);
void job_look_warn_pod(const struct job_look *l);
void job_look_warn_command(const struct job_look *l, const char *path, const struct json *command);

/* RFC 1123: labels of small letters, digits and '-', with dots between them. */
bool job_look_is_subdomain(struct str name);
/* Cut where it's too long. */
void job_look_path(char ret[JOB_LOOK_PATH], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
bool job_look_is_beyond_all(const struct json *v);         /* "250%": more than all */
const struct json *job_look_pod(const struct job_look *l); /* the template's spec */

#endif
