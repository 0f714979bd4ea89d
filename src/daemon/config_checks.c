/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that say something of each other, each of which is good by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "config_keys.h"

/* vipu.serverAddr, vipu.serverPort and vipu.clusterName are one more entry. */
static int make_server(struct config *c, struct err *err)
{
	const char *addr = c->server_addr;
	bool bare_v6 = addr[0] != '[' && strchr(addr, ':');
	CLEANUP_FREE char *text = xasprintf(bare_v6 ? "[%s]:%ld" : "%s:%ld", addr, c->server_port);
	struct vipu_address *a;

	if (!addr[0] && c->cluster_name[0])
		return err_set(
			err, ERR_INVALID, 0,
			"vipu.clusterName: says something of vipu.serverAddr, which is empty");
	if (!addr[0])
		return 0;
	if (strpbrk(addr, ",="))
		return err_set(err, ERR_INVALID, 0,
			       "vipu.serverAddr: must be one host name or address; lists stand in "
			       "controllers");
	vipu_address_parse(str_of(text), &c->server);
	if (c->server.n != 1)
		return err_set(err, ERR_INVALID, 0, "vipu.serverAddr: \"%.100s\": %s", addr,
			       c->server.n_problems ? c->server.problems[0].reason
						    : "must be a host name or address");
	a = &c->server.items[0];
	free(a->cluster);
	a->cluster = xstrdup(c->cluster_name);
	return 0;
}

/* What the Pods' own init container needs to know. */
static bool injects(const struct config *c)
{
	return (c->roles & ROLE_WEBHOOK) && strcmp(c->pods_mode, "init") == 0;
}

static int check_pods_image(struct config *c, struct err *err)
{
	if (injects(c) && !c->launcher_image[0])
		return err_set(err, ERR_INVALID, 0,
			       "pods.mode: init needs launcher.image, which holds ipu-launcher");
	return 0;
}

static int check_pods_trust(struct config *c, struct err *err)
{
	if (injects(c) && c->proxy_cert[0] && !c->proxy_ca[0])
		return err_set(err, ERR_INVALID, 0,
			       "pods.mode: init needs proxy.caFile beside proxy.tlsCertFile: Pods "
			       "must know whom to trust");
	return 0;
}

/* A certificate and its key come together. */
static int check_proxy_files(struct config *c, struct err *err)
{
	if (!c->proxy_cert[0] != !c->proxy_key[0])
		return err_set(err, ERR_INVALID, 0,
			       "proxy.tlsCertFile and proxy.tlsKeyFile: give both, or neither");
	return 0;
}

static int check_webhook_files(struct config *c, struct err *err)
{
	if (!c->webhook_cert[0] != !c->webhook_key[0] || (c->webhook_ca[0] && !c->webhook_cert[0]))
		return err_set(err, ERR_INVALID, 0,
			       "webhook.certFile and webhook.keyFile: give both, or neither; "
			       "webhook.caFile only with them");
	return 0;
}

static int check_metrics_files(struct config *c, struct err *err)
{
	if (!c->metrics_cert[0] != !c->metrics_key[0] || (c->metrics_cert[0] && !c->metrics_secure))
		return err_set(err, ERR_INVALID, 0,
			       "metrics.certFile and metrics.keyFile: give both, or neither, and "
			       "only with metrics.secure");
	return 0;
}

/* Nobody is to believe that the port is guarded where it isn't. */
static int check_scheduler(struct config *c, struct err *err)
{
	if (c->scheduler_client_names[0] && !c->scheduler_client_ca[0])
		return err_set(err, ERR_INVALID, 0,
			       "scheduler.clientNames: are of certificates: give "
			       "scheduler.clientCAFile, which they must be signed by");
	if (c->scheduler_client_names[0] &&
	    strspn(c->scheduler_client_names, ", \t") == strlen(c->scheduler_client_names))
		return err_set(err, ERR_INVALID, 0,
			       "scheduler.clientNames: must be names with commas between them");
	return 0;
}

static int check_node_root(struct config *c, struct err *err)
{
	if ((c->roles & ROLE_NODE) && c->node_root[0] && c->node_root[0] != '/')
		return err_set(err, ERR_INVALID, 0,
			       "node.root: must be an absolute path, or \"\" for none");
	return 0;
}

static int check_node_cni(struct config *c, struct err *err)
{
	if ((c->roles & ROLE_NODE) && c->node_cni[0] && c->node_cni[0] != '/')
		return err_set(err, ERR_INVALID, 0,
			       "node.cniFolder: must be an absolute path, or \"\": it's found");
	return 0;
}

static int check_backoff(struct config *c, struct err *err)
{
	if (c->backoff_max_s < c->backoff_s)
		return err_set(err, ERR_INVALID, 0,
			       "jobs.restartBackoffMaxSeconds: must not be below "
			       "jobs.restartBackoffSeconds");
	return 0;
}

config_check_fn *const config_checks[] = {
	make_server,         check_pods_image,    check_pods_trust, check_proxy_files,
	check_webhook_files, check_metrics_files, check_scheduler,  check_node_root,
	check_node_cni,      check_backoff,
};
const size_t config_n_checks = sizeof(config_checks) / sizeof(config_checks[0]);
