/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls, and what they may: tokens are reviewed by the API server and remembered for a short
 * time; callers with the same token share a review. Owns what it remembers. Uses core, loop.
 */
#ifndef IPU_PROXY_AUTH_H
#define IPU_PROXY_AUTH_H

#include "partition/types.h"
#include "proxy/proxy.h"

struct proxy_auth;

/* Owned. */
struct proxy_caller {
	char *account;
	char *ns;                 /* of a ServiceAccount; NULL: it's none */
	char *pod_name, *pod_uid; /* the token is bound to that Pod; else NULL */
	bool trusted;             /* one of the configured accounts: any owner */
};
void proxy_caller_done(struct proxy_caller *c);

/* accounts: separated by commas, copied. */
struct proxy_auth *proxy_auth_new(struct loop *loop, const char *accounts, proxy_review_fn *review,
				  void *review_arg);
void proxy_auth_free(struct proxy_auth *a); /* cancels; NULL is fine */

/* err as proxy_reviewed_fn says; ERR_BUSY: too many tokens are being reviewed. The caller is
 * borrowed. Never before proxy_auth_start returns. */
typedef void proxy_auth_fn(void *arg, const struct err *err, const struct proxy_caller *caller);
struct op *proxy_auth_start(struct proxy_auth *a, struct str token, proxy_auth_fn *cb, void *arg,
			    struct scope *scope);

/* The token of an Authorization field; STR_NULL where it isn't a bearer's (RFC 6750, 2.1). */
struct str proxy_bearer_token(struct str authorization);
/* Whether this caller may know of, reset and release what that owner has. */
bool proxy_caller_may(const struct proxy_caller *c, const char *owner_uid);
/* Whether it may ask for this: ERR_DENIED says why not. */
int proxy_caller_check_ask(const struct proxy_caller *c, const struct partition_ask *ask,
			   struct err *err);

#endif
