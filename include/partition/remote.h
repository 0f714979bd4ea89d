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
/* What is held (doc/openapi.yaml: PUT /v1/held), for those who look at the proxy's page: sent if
 * it's something else than last time, or that was a while ago. Nothing depends on it. */
void partition_remote_tell_held(struct partition_remote *r, struct str json);
/* Why the proxy couldn't be asked last; kind ERR_NONE when it could: for health. */
const struct err *partition_remote_error(const struct partition_remote *r);

#endif
