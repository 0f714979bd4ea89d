/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the API server is and who we are, inside a Pod: the environment and the service account's
 * files. Reads files when told; owned by its caller. Uses net and core.
 */
#ifndef IPU_LAUNCHER_CLUSTER_H
#define IPU_LAUNCHER_CLUSTER_H

#include "core/err.h"
#include "net/tls.h"

struct cluster {
	char *host;
	unsigned port;
	struct tls_config *tls;
	char *ns;
	char *token_path;
};

/* ERR_INVALID: this is no Pod, or one without a service account, as the workers are; the message
 * says what to do. */
int cluster_init(struct cluster *c, struct err *err);
void cluster_done(struct cluster *c); /* a zeroed one is fine */

/* "Bearer …" as the file has it now (it is renewed behind our back); wiped and freed by
 * cluster_free_authorization. */
int cluster_authorization(const struct cluster *c, char **ret, struct err *err);
void cluster_free_authorization(char *authorization);

/* The same for any file with a token in it. */
int cluster_read_token(const char *path, char **ret, struct err *err);

#endif
