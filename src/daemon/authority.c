/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's own certificate, where the administrator gives none: the partitions' listener
 * opens with the first that there is, later ones are switched in; and whoever asks another process
 * for partitions trusts what signed it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "http/message.h"
#include "net/net.h"

#define SERVICE               "ipu-operator-vipu-proxy"
#define WEBHOOK_SERVICE       "ipu-operator-webhook-svc"
#define METRICS_SERVICE       "ipu-operator-controller-manager-metrics"
#define PROXY_METRICS_SERVICE "ipu-operator-vipu-proxy-metrics"

static bool serves_partitions(const struct daemon *d)
{
	return d->proxy && !d->config->proxy_cert[0];
}

static bool serves_scheduler(const struct daemon *d)
{
	return advert_serves(d) && !d->config->proxy_cert[0];
}

static bool serves_webhooks(const struct daemon *d)
{
	return d->webhook && !d->webhook_files;
}

static bool serves_metrics(const struct daemon *d)
{
	return d->scrape && !scrape_tls(d->scrape);
}

/* ---- names ---- */

struct names {
	char **items; /* ended by NULL */
	size_t n;
};

static void add_name(struct names *names, char *name)
{
	if (!name[0]) {
		free(name);
		return;
	}
	names->items = xrealloc(names->items, (names->n + 2) * sizeof(*names->items));
	names->items[names->n++] = name;
	names->items[names->n] = NULL;
}

static void add_service(const struct daemon *d, struct names *names, const char *service)
{
	add_name(names, xasprintf("%s.%s.svc", service, d->ns));
	add_name(names, xasprintf("%s.%s.svc.cluster.local", service, d->ns));
	add_name(names, xasprintf("%s.%s", service, d->ns));
	add_name(names, xstrdup(service));
}

/* Under which the listeners may be reached: the Services, this machine, and what the administrator
 * says. */
static void collect_names(const struct daemon *d, struct names *names)
{
	struct str rest = str_of(d->config->certificate_names), name;
	char host[NET_HOST_SIZE];
	struct http_url url;
	uint16_t port;

	if (d->config->roles != ROLE_WEBHOOK)
		add_service(d, names, SERVICE);
	if (serves_webhooks(d))
		add_service(d, names, WEBHOOK_SERVICE);
	if (serves_metrics(d)) {
		add_service(d, names, METRICS_SERVICE);
		add_service(d, names, PROXY_METRICS_SERVICE);
	}
	add_name(names, xstrdup("localhost"));
	add_name(names, xstrdup("127.0.0.1"));
	add_name(names, xstrdup("::1"));
	if (d->config->advertise[0] &&
	    net_split_host_port(d->config->advertise, 0, host, &port, NULL) == 0)
		add_name(names, xstrdup(host));
	if (serves_webhooks(d) && d->config->webhook_url[0] &&
	    http_url_parse(str_of(d->config->webhook_url), &url, NULL) == 0)
		add_name(names, xstrdup(url.host));
	while (rest.len) {
		str_cut(rest, ',', &name, &rest);
		add_name(names, str_dup(str_trim(name)));
	}
}

/* ---- whom to trust ---- */

static void trust(struct daemon *d, struct str ca_pem)
{
	CLEANUP_FREE char *service = xasprintf("%s.%s.svc", SERVICE, d->ns);
	struct tls_client_opts opts = {.ca_pem = ca_pem};
	struct tls_config *old = d->proxy_trust;
	struct err err;

	if (tls_config_new_client(&opts, &d->proxy_trust, &err) < 0) {
		log_error("daemon", NULL, "the operator's authority: %s", err.msg);
		return;
	}
	tls_config_unref(old);
	if (d->proxy)
		proxy_set_peer_tls(d->proxy, d->proxy_trust, service);
	if (d->remote)
		partition_remote_set_tls(d->remote, d->proxy_trust);
}

/* ---- what is served ---- */

bool authority_is_awaited(const struct daemon *d)
{
	return d->cert && (serves_partitions(d) || serves_scheduler(d) || serves_webhooks(d) ||
			   serves_metrics(d));
}

static int serve_first(struct daemon *d, struct tls_config *tls, struct err *err)
{
	if (serves_partitions(d) && daemon_listen_partitions(d, tls, err) < 0)
		return -1;
	if (serves_scheduler(d) && advert_serve(d, tls, err) < 0)
		return -1;
	if (serves_webhooks(d) && webhook_serve(d, tls, err) < 0)
		return -1;
	if (serves_metrics(d) && daemon_listen_metrics(d, tls, err) < 0)
		return -1;
	return daemon_write_ports(d, err);
}

static void serve(struct daemon *d, struct tls_config *tls)
{
	struct tls_config *old = d->own_tls;
	struct err err;
	int rc = 0;

	d->own_tls = tls_config_ref(tls);
	if (!old) {
		rc = serve_first(d, tls, &err);
	} else {
		http_server_switch_tls(d->server, old, tls);
		if (serves_webhooks(d))
			rc = webhook_serve(d, tls, &err);
		if (rc == 0 && serves_scheduler(d))
			rc = advert_serve(d, tls, &err);
		tls_config_unref(old);
	}
	if (rc < 0) {
		log_error("daemon", NULL, "%s", err.msg);
		loop_stop(d->loop, 1);
	}
}

static void on_change(void *arg, struct tls_config *tls, struct str ca_pem)
{
	struct daemon *d = arg;

	if (!d->config->proxy_ca[0] && !(d->proxy && !serves_partitions(d)))
		trust(d, ca_pem);
	if (d->stopping)
		return;
	if (authority_is_awaited(d))
		serve(d, tls);
	if (serves_webhooks(d))
		register_changed(d);
}

int authority_start(struct daemon *d, struct err *err)
{
	struct names names = {0};
	struct cert_opts opts = {.ns = d->ns, .secret = d->config->certificate_secret};
	int rc;

	collect_names(d, &names);
	opts.names = (const char *const *)names.items;
	rc = cert_new(d->kube, &opts, on_change, d, &d->cert, err);
	if (rc < 0)
		err_wrap(err, "certificates.names, the Services' and this machine's");
	for (size_t i = 0; i < names.n; i++)
		free(names.items[i]);
	free(names.items);
	return rc;
}

void authority_stop(struct daemon *d)
{
	cert_free(d->cert);
	tls_config_unref(d->own_tls);
}
