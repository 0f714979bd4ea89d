/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Secrets of secure controllers: a watch for each that is named, and what was made of what it
 * holds. Values are never logged, and wiped behind. Owns watches and values. Uses kube and net.
 */
#ifndef IPU_PARTITION_SECRETS_H
#define IPU_PARTITION_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "kube/client.h"

struct secrets;
struct tls_config;

#define SECRETS_MAX 64 /* watched at a time */

/* Keys of a Secret, all optional: the user and the key come together, certificate and its key too;
 * without a CA the system's are trusted. */
#define SECRET_USER   "userId"
#define SECRET_ACCESS "accessKey"
#define SECRET_CA     "ca.crt"
#define SECRET_CERT   "tls.crt"
#define SECRET_KEY    "tls.key"

typedef void secrets_change_fn(void *arg); /* from the loop: some Secret reads otherwise now */

struct secrets *secrets_new(struct kube_client *kube, const char *ns, secrets_change_fn *cb,
			    void *arg);
void secrets_free(struct secrets *s); /* NULL is fine */

/* Which Secrets are needed: between begin and end each is named (again); those that weren't are
 * watched no more. need: ERR_LIMIT when there are too many. */
void secrets_begin(struct secrets *s);
int secrets_need(struct secrets *s, const char *name, struct err *err);
void secrets_end(struct secrets *s);

/* What a controller's calls need. Borrowed until control returns to the loop. */
struct secret_view {
	struct tls_config *tls; /* NULL with an error */
	const char *user, *access;
};
/* name "": no Secret, only TLS with the system's authorities. An error: it can't be used, and why
 * (ERR_UNAVAILABLE while it hasn't been read). *ret_complaint: what is wrong with its newest
 * version where an earlier one still serves; else NULL. */
int secrets_view(struct secrets *s, const char *name, bool insecure_skip_verify,
		 struct secret_view *ret, const char **ret_complaint, struct err *err);

#endif
