/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's own authority and the serving certificate that it signs: made here, shared by all
 * replicas through one Secret, renewed in time, and handed to the listeners as TLS settings.
 * doc/design/certificates.md says how replicas agree.
 */
#ifndef IPU_CERT_CERT_H
#define IPU_CERT_CERT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "kube/client.h"
#include "loop/loop.h"
#include "net/tls.h"

struct cert;

#define CERT_DAY_MS     INT64_C(86400000)
#define CERT_MAX_NAMES  64
#define CERT_GRACE_MS   5000 /* so long the Secret is waited for before one is made in memory */
#define CERT_BACKOFF_MS 300000

/* How long things last; 0: the default. */
struct cert_policy {
	int64_t ca_ms;         /* an authority; 3650 days */
	int64_t ca_renew_ms;   /* its age when a new one is made; 2433 days, two thirds */
	int64_t overlap_ms;    /* so long after that the old one is trusted too; 90 days */
	int64_t leaf_ms;       /* a serving certificate; 90 days */
	int64_t leaf_renew_ms; /* its age when a new one is made; 60 days */
};

/* Strings are copied. */
struct cert_opts {
	const char *ns, *secret;
	/* DNS names and addresses that the certificate must be for; ended by NULL; at least one, at
	 * most CERT_MAX_NAMES. */
	const char *const *names;
	const char *const *alpn; /* as in struct tls_server_opts; or NULL */
	struct cert_policy policy;
};

/*
 * There is something new to serve. tls: take a reference to keep it (http_server_switch_tls does);
 * ca_pem: what clients should trust, borrowed: the authority, and the one before it while that is
 * still trusted. Never from within cert_new. May free the cert.
 */
typedef void cert_change_fn(void *arg, struct tls_config *tls, struct str ca_pem);

/* Watches the Secret and keeps it in order, for ever. Errors: ERR_INVALID (no names, too many, bad
 * ones). */
int cert_new(struct kube_client *client, const struct cert_opts *opts, cert_change_fn *on_change,
	     void *arg, struct cert **ret, struct err *err);
/* Wipes its keys. NULL is fine. */
void cert_free(struct cert *cert);

/* As last told by on_change; NULL and empty before. Borrowed until the loop's next turn. */
struct tls_config *cert_tls(const struct cert *cert);
struct str cert_ca_pem(const struct cert *cert);
/* What is wrong with the Secret (it can't be read or written, it's damaged); NULL: nothing. What is
 * served is good in any case, until it runs out, so that readiness doesn't ask. For tests: the log
 * says it, and not when it has passed. */
const struct err *cert_error(const struct cert *cert);
/* What is served is what the Secret holds, so every replica's clients can be told of it. It may
 * become so, and cease to be, without on_change. */
bool cert_is_shared(const struct cert *cert);

/*
 * One for this process alone, in memory, by an authority that nobody else knows: whoever connects
 * can't verify it. Names: DNS names and addresses, ended by NULL, at least one. Errors: ERR_INVALID
 * (a bad name).
 */
struct cert_own;
int cert_own_new(struct loop *loop, const char *const *names, struct cert_own **ret,
		 struct err *err);
struct tls_config *cert_own_tls(const struct cert_own *own); /* borrowed */
/* It's made anew: from was in use until now, and is still there. */
typedef void cert_own_fn(void *arg, const struct tls_config *from, struct tls_config *to);
void cert_own_follow(struct cert_own *own, cert_own_fn *on_change, void *arg);
void cert_own_free(struct cert_own *own); /* NULL is fine */

#endif
