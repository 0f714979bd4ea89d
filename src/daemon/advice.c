/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is legal in a configuration and does nothing: told when it's read, since nobody would find
 * out why.
 */
#include <string.h>

#include "core/log.h"
#include "daemon/internal.h"
#include "node/publish.h"

void config_advise(const struct config *c)
{
	const char *unused = c->rdma_network[0]    ? "worker.rdmaNetwork"
			     : c->rdma_resource[0] ? "worker.rdmaResource"
						   : NULL;

	if (c->host_network && unused)
		log_warn("daemon", NULL,
			 "%s has no effect: Pods are on their nodes' network (worker.hostNetwork)",
			 unused);
	if (strcmp(c->proxy_page, "full") == 0 && !c->proxy_details)
		log_warn(
			"daemon", NULL,
			"proxy.page has no effect beyond usage: proxy.details is false, so nothing is "
			"named");
	if (c->node_silent_s && c->node_silent_s * 1000 < 2 * PUBLISH_HEARTBEAT_MS)
		log_warn("daemon", NULL,
			 "node.silentSeconds is short: a role node that is well writes its "
			 "condition every %d s, and turns Unknown in between",
			 PUBLISH_HEARTBEAT_MS / 1000);
}
