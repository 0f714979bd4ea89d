/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls, and what they may: TokenReview (authentication.k8s.io/v1) and SubjectAccessReview
 * (authorization.k8s.io/v1). Answers about tokens are kept for a few seconds, by the tokens'
 * SHA-256, so that a client that polls isn't a request to the API server each time.
 */
#ifndef IPU_KUBE_REVIEW_H
#define IPU_KUBE_REVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "kube/client.h"
#include "loop/op.h"

struct kube_reviewer;

#define KUBE_REVIEW_CACHE_MS    10000
#define KUBE_REVIEW_REFUSED_MS  1000 /* so long is a refusal kept */
#define KUBE_REVIEW_ENTRIES     1024
#define KUBE_REVIEW_MAX_TOKEN   ((size_t)16 << 10)
#define KUBE_REVIEW_DEADLINE_MS 10000

struct kube_reviewer_opts {
	/* The caller must have a token for one of these; ended by NULL; copied. NULL or empty: for
	 * the API server itself. */
	const char *const *audiences;
	unsigned cache_ms;    /* 0: KUBE_REVIEW_CACHE_MS. A token that was withdrawn meanwhile (its
			       * Pod is gone) still counts for so long. */
	unsigned max_entries; /* 0: KUBE_REVIEW_ENTRIES; the one used longest ago goes first */
	unsigned deadline_ms; /* of one review; 0: KUBE_REVIEW_DEADLINE_MS */
};

/* Who somebody is, as the API server says. Strings are never NULL. */
struct kube_identity {
	const char *username, *uid;
	/* Of a ServiceAccount ("system:serviceaccount:NS:NAME"); "" for anybody else. */
	const char *ns, *service_account;
	/* What the token is bound to (authentication.kubernetes.io/pod-name and so on); "": not. A
	 * Pod's token is good as long as that very Pod is there. */
	const char *pod_name, *pod_uid, *node_name;
	const struct json *groups;          /* an array of strings, or NULL */
	const struct json *extra;           /* an object of arrays of strings, or NULL */
	char *own_ns, *own_service_account; /* private */
};
/* From a UserInfo (authentication.k8s.io/v1), of which it borrows. */
void kube_identity_init(struct kube_identity *who, const struct json *user);
void kube_identity_done(struct kube_identity *who);

struct kube_reviewer *kube_reviewer_new(struct kube_client *client,
					const struct kube_reviewer_opts *opts);
/* Cancels its reviews; their callbacks don't run. NULL is fine. */
void kube_reviewer_free(struct kube_reviewer *reviewer);

/*
 * Runs once: err NULL and who it is, or err. Borrowed until it returns. ERR_DENIED: the token is no
 * good, or not for our audience (answer 401); anything else: it couldn't be found out (503), also
 * where we ourselves aren't allowed to ask.
 */
typedef void kube_review_token_fn(void *arg, const struct err *err,
				  const struct kube_identity *who);
/* Whose token is this? The token is copied no further than into the request, and into no message.
 * Reviews of one token that come at the same time share a request. */
struct op *kube_review_token_start(struct kube_reviewer *reviewer, struct str token,
				   kube_review_token_fn *cb, void *arg, struct scope *scope);
size_t kube_reviewer_entries(const struct kube_reviewer *reviewer); /* kept now */

/* What somebody wants to do. With path: a non-resource URL ("/metrics"), and only verb counts
 * beside it ("get"). NULL and "" both mean "not given"; a resource without name: any. */
struct kube_access {
	const char *verb;
	const char *path;
	const char *ns, *group, *resource, *subresource, *name;
};

/* err NULL: allowed. ERR_DENIED: not (403), with the reason where one is given; else as above. */
typedef void kube_review_access_fn(void *arg, const struct err *err);
/* May they? All strings are copied; who may be that of a callback. deadline_ms 0:
 * KUBE_REVIEW_DEADLINE_MS. */
struct op *kube_review_access_start(struct kube_client *client, const struct kube_identity *who,
				    const struct kube_access *access, unsigned deadline_ms,
				    kube_review_access_fn *cb, void *arg, struct scope *scope);

#endif
