/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we show to the API server: the TLS settings and the Authorization header, read again as
 * files rotate, asked of the exec plugin as they expire. One a client; owned by it.
 */
#ifndef IPU_KUBE_CRED_H
#define IPU_KUBE_CRED_H

#include "core/err.h"
#include "core/str.h"
#include "config_priv.h"
#include "kube/exec_helper.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "net/tls.h"

struct kube_cred;

#define KUBE_CRED_STAT_MS 60000 /* files are looked at so often */

struct kube_auth {
	struct tls_config *tls;   /* NULL: plain HTTP. Borrowed until the next call. */
	struct str authorization; /* the header's value; empty: none. Borrowed likewise. */
	unsigned generation;      /* for kube_cred_refused() */
};

/* Reads the files and makes the TLS settings. Runs no plugin yet. ERR_INVALID. */
int kube_cred_new(struct loop *loop, const struct kube_config *config,
		  struct kube_exec_helper *helper, struct kube_cred **ret, struct err *err);
void kube_cred_free(struct kube_cred *cred); /* NULL is fine */

enum kube_cred_state {
	KUBE_CRED_READY,
	KUBE_CRED_PENDING, /* the plugin runs: kube_cred_wait_start() */
	KUBE_CRED_FAILED,  /* err says why; tried again after a while */
};
enum kube_cred_state kube_cred_get(struct kube_cred *cred, struct kube_auth *ret, struct err *err);

/* The token that goes with requests now; empty: none. Borrowed until the next call. */
struct str kube_cred_token(const struct kube_cred *cred);

/* When the plugin's run has ended, well or not: then get again. Only while it's PENDING. */
typedef void kube_cred_fn(void *arg);
struct op *kube_cred_wait_start(struct kube_cred *cred, kube_cred_fn *cb, void *arg,
				struct scope *scope);

/* The server answered 401 to these: files are read anew and the plugin asked again, unless that
 * has happened since. */
void kube_cred_refused(struct kube_cred *cred, unsigned generation);

#endif
