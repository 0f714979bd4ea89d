/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is legal in a configuration and does nothing: told when it's read, since nobody would find
 * out why.
 */
#include <string.h>

#include "core/log.h"
#include "daemon/internal.h"
#include "net/net.h"
#include "node/publish.h"

/* "": every address. */
static bool is_same_port(const char *one, const char *other)
{
	char host[NET_HOST_SIZE], other_host[NET_HOST_SIZE];
	uint16_t port, other_port;

	return net_split_host_port(one, 0, host, &port, NULL) == 0 &&
	       net_split_host_port(other, 0, other_host, &other_port, NULL) == 0 && port &&
	       port == other_port && (!host[0] || !other_host[0] || strcmp(host, other_host) == 0);
}

/* A warning, for systemd's sockets may stand where these addresses would. */
static void advise_listeners(const struct config *c)
{
	const bool is_proxy = c->roles & ROLE_PROXY, is_webhook = c->roles & ROLE_WEBHOOK;
	const struct {
		const char *key, *address; /* "": no listener */
	} listeners[] = {
		{"health.listen", c->health_listen},
		{"metrics.listen", c->metrics_listen},
		{"proxy.listen", is_proxy ? c->proxy_listen : ""},
		{"proxy.tlsListen", is_proxy ? c->proxy_tls_listen : ""},
		{"scheduler.listen", is_proxy ? c->scheduler_listen : ""},
		{"webhook.listen", is_webhook ? c->webhook_listen : ""},
	};
	const size_t n = sizeof(listeners) / sizeof(listeners[0]);

	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++) {
			if (is_same_port(listeners[i].address, listeners[j].address))
				log_warn("daemon", NULL,
					 "%s and %s are the same port (%s, %s): the process can't "
					 "listen on both",
					 listeners[i].key, listeners[j].key, listeners[i].address,
					 listeners[j].address);
		}
	}
}

/* Nothing that comes later could name one. */
static void advise_controllers(const struct config *c)
{
	if ((c->roles & ROLE_PROXY) && !c->server.n && !c->controllers.n &&
	    !c->controllers_file[0] && !c->controllers_config_map[0])
		log_warn("daemon", NULL,
			 "no V-IPU controller can be named (controllers, controllersFile and "
			 "controllersConfigMap are empty): jobs wait for ever");
}

void config_advise(const struct config *c)
{
	const char *unused = c->rdma_network[0]    ? "worker.rdmaNetwork"
			     : c->rdma_resource[0] ? "worker.rdmaResource"
						   : NULL;

	advise_listeners(c);
	advise_controllers(c);
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
