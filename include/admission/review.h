/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdmissionReview (admission.k8s.io/v1 and v1beta1): the request decoded, the response encoded.
 * No I/O. A review owns its document; everything else in it is borrowed from there. Uses core/ and
 * kube/'s identities. Kubernetes: "Dynamic Admission Control", "Webhook request and response".
 */
#ifndef IPU_ADMISSION_REVIEW_H
#define IPU_ADMISSION_REVIEW_H

#include <stdbool.h>

#include "admission/findings.h"
#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "kube/review.h"

enum admission_operation {
	ADMISSION_CREATE,
	ADMISSION_UPDATE,
	ADMISSION_DELETE,
	ADMISSION_CONNECT,
};

/* Strings are never NULL: "" where nothing was given. */
struct admission_review {
	struct json_doc *doc;
	bool beta; /* v1beta1: answered likewise */
	const char *uid;
	enum admission_operation operation;
	bool dry_run;
	/* What was matched: request.kind and request.resource. */
	const char *group, *version, *kind;
	const char *resource_group, *resource_version, *resource, *subresource;
	const char *ns, *name; /* name: "" on a CREATE with generateName */
	struct kube_identity user;
	/* NULL: none (DELETE has an old one alone, CREATE a new one alone). Objects otherwise. */
	const struct json *object, *old_object;
};

/* body need not live on. Errors: ERR_INVALID, in words for the log of whoever sent it. */
int admission_review_decode(struct str body, struct admission_review *ret, struct err *err);
void admission_review_done(struct admission_review *r); /* a zeroed one is fine */

/* The object is being deleted: it isn't ours to hold up. What is stored says so; whoever sends an
 * object could write anything into it. */
bool admission_review_is_deleting(const struct admission_review *r);

/* Appends the whole answer. What f holds decides: allowed, or a Status with code, reason, message
 * and causes; warnings in either case. patch: operations (RFC 6902), only with allowed; NULL: none.
 * Errors: ERR_LIMIT of out. */
int admission_review_answer(const struct admission_review *r, const struct admission_findings *f,
			    const struct jmut *patch, struct buf *out, struct err *err);

const char *admission_operation_name(enum admission_operation operation); /* "CREATE" … */

#endif
