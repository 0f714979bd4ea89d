/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exec section of a kubeconfig's user, and what such a plugin answers.
 * Pure (client.authentication.k8s.io, v1 and v1beta1).
 */
#ifndef IPU_KUBE_EXEC_CONFIG_H
#define IPU_KUBE_EXEC_CONFIG_H

#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "config_priv.h"
#include "kubeconfig.h"

/* Fills c->exec. cluster: for provideClusterInfo. ERR_INVALID with the place. */
int kube_exec_config_read(const struct kc_at *at, struct kube_config *c, const struct json *cluster,
			  struct err *err);

struct kube_exec_credential {
	char *token;             /* or NULL */
	char *cert, *key;        /* PEM, both or neither */
	int64_t expires_wall_ms; /* INT64_MAX: not said */
};

/* An ExecCredential. ERR_INVALID, never with a secret in the message. */
int kube_exec_credential_parse(const struct kube_exec_config *exec, struct str output,
			       struct kube_exec_credential *ret, struct err *err);
void kube_exec_credential_done(struct kube_exec_credential *cred); /* wipes */

#endif
