/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions that another process decides about: the same interface as the manager's, by the
 * proxy's REST (doc/openapi.yaml). News comes through a watch on the tracker, so nobody polls. It
 * owns what was asked and what was answered; client and loop are borrowed. Uses http and kube.
 */
#ifndef IPU_PARTITION_REMOTE_H
#define IPU_PARTITION_REMOTE_H

#include "core/err.h"
#include "kube/client.h"
#include "partition/service.h"

struct net;
struct partition_remote;
struct tls_config;

struct partition_remote_config {
	const char *url;         /* "https://ipu-operator-vipu-proxy.ns.svc:443" */
	struct tls_config *tls;  /* a client's; NULL: http. A reference is taken */
	const char *server_name; /* that its certificate must name; NULL: the URL's host */
	const char *token_file;  /* read again as it rotates; "": no token */
	const char *ns, *tracker_name;
	/* Asked before every request, with on_change's arg: false means that this process may not
	 * act any more, and nothing is sent. NULL: it always may. */
	bool (*may_act)(void *arg);
};

/* Everything is copied. Errors: ERR_INVALID (the URL). */
int partition_remote_new(struct net *net, struct kube_client *kube,
			 const struct partition_remote_config *config,
			 partitions_synced_fn *on_synced, partitions_change_fn *on_change,
			 void *arg, struct partition_remote **ret, struct err *err);
void partition_remote_free(struct partition_remote *r); /* NULL is fine; what was asked stays so */

struct partition_service *partition_remote_service(struct partition_remote *r);
/* Other authorities, for the calls from now on. */
void partition_remote_set_tls(struct partition_remote *r, struct tls_config *tls);
/* For those who look at the proxy's page (doc/openapi.yaml), papers: 0 is what is held (PUT
 * /v1/held), 1 + n the Pods of part n of all partitions (PUT /v1/pods/{n}). Copied, and told when
 * it's something else than last time. Nothing depends on it. */
#define PARTITION_TOLD_PARTS 16
#define PARTITION_TOLD       (1 + PARTITION_TOLD_PARTS)
void partition_remote_tell(struct partition_remote *r, unsigned which, struct str json);
/* Of all papers' SHA-256, 0 where one was never told: the one line by which both ends know that
 * they have the same. */
void partition_told_sum(const uint8_t digests[PARTITION_TOLD][32], char ret_z[65]);
/* Why the proxy couldn't be asked last; kind ERR_NONE when it could: for health. */
const struct err *partition_remote_error(const struct partition_remote *r);

#endif
