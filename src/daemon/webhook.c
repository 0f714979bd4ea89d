/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role webhook: the handler of reviews, an HTTP server with limits of its own, and its end,
 * before which the API server's other replicas of us must have taken over.
 */
#include <stdlib.h>
#include <string.h>

#include "admission/admission.h"
#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"

/* The API server keeps idle connections for 90 s: it's the one to close them, so that none is
 * closed under a review that it is about to send. */
#define IDLE_MS         120000
#define HEADER_MS       10000
#define BODY_MS         30000 /* the API server waits no longer for a review */
#define MAX_CONNECTIONS 256
/* Whoever reaches the port may send reviews; so much of them is held at once. */
#define MAX_BODIES_BYTES ((size_t)64 << 20)

struct webhook {
	struct daemon *d;
	struct kube_client *kube; /* reviews alone ask by it, so that they wait for nobody */
	struct admission_access *access;
	struct admission *admission;
	struct http_server *server;
	struct tls_config *tls; /* of the listener; NULL: it isn't open */
	unsigned port;
	struct loop_timer drain;
	unsigned stop_ms; /* for what is still in work behind it */
	/* Of the last admission_site_fn. */
	struct partition_policy policy;
	struct job_pod_settings pods;
	/* Init mode: where Pods reach the proxy, and by what they know it. */
	char *proxy_url, *proxy_ca;
};

/* ---- what is known beside a review ---- */

/* IPUs of the largest controller, once all have answered; 0: not known. */
static uint32_t largest_ipus(const struct vipu_fleet *fleet)
{
	uint32_t largest = 0;

	for (size_t i = 0; fleet && i < vipu_fleet_len(fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(fleet, i);

		if (!c->configured)
			continue;
		if (!c->fresh_ms)
			return 0;
		if (c->capacity.total_ipus > largest)
			largest = c->capacity.total_ipus;
	}
	return largest;
}

/* The operator's own authority is made and renewed as time goes by, and so may a file be. */
static void refresh_ca(struct webhook *w)
{
	struct str pem = w->d->proxy_ca_file ? certfile_ca_pem(w->d->proxy_ca_file)
			 : w->d->cert        ? cert_ca_pem(w->d->cert)
					     : STR_NULL;

	if (str_eqz(pem, w->proxy_ca ? w->proxy_ca : ""))
		return;
	free(w->proxy_ca);
	w->proxy_ca = str_dup(pem);
}

/* A process without the partitions knows the configuration's limits alone; what Namespaces say is
 * held by who makes the partitions. */
static void fill_site(void *arg, const char *ns, struct admission_site *ret)
{
	struct webhook *w = arg;
	struct daemon *d = w->d;

	w->policy = d->partitions ? partitions_policy(d->partitions, ns)
				  : partition_policy_for(&d->config->policy, ns, NULL);
	ret->job = (struct admission_job_view){
		.policy = &w->policy,
		.largest_ipus = largest_ipus(d->fleet),
		.pods = &w->pods,
	};
	refresh_ca(w);
	ret->pods = (struct pod_inject_settings){
		.mode = strcmp(d->config->pods_mode, "init") == 0 ? POD_MODE_INIT : POD_MODE_GATE,
		.proxy_url = w->proxy_url,
		.proxy_ca = w->proxy_ca,
		.wait_s = (unsigned)d->config->pods_wait_s,
		.worker = w->pods,
		.ns = ns,
		.reach_ipus = ret->job.largest_ipus,
		.policy = &w->policy,
	};
}

/* Where nobody answering means no. Idle connections go too, or the API server's next tries would
 * come by them. */
static bool leave(void *arg, bool leaves)
{
	struct webhook *w = arg;

	if (leaves ? !register_fails_closed(w->d) : loop_timer_active(&w->drain))
		return false;
	webhook_leave(w, leaves, leaves);
	return leaves;
}

/* ---- the listener ---- */

int webhook_serve(struct daemon *d, struct tls_config *tls, struct err *err)
{
	struct webhook *w = d->webhook;
	struct tls_config *old = w->tls;

	if (!d->config->webhook_listen[0] || loop_timer_active(&w->drain))
		return 0;
	if (old) {
		http_server_switch_tls(w->server, old, tls);
	} else {
		const struct listen_at at = {
			.name = "webhook",
			.key = "webhook.listen",
			.addr = d->config->webhook_listen,
			.server = w->server,
			.tls = tls,
			.handler = admission_handle,
			.arg = w->admission,
		};

		if (sockets_listen(&d->sockets, &at, &w->port, err) < 0)
			return -1;
	}
	w->tls = tls_config_ref(tls);
	tls_config_unref(old);
	return 0;
}

unsigned webhook_port(const struct webhook *w)
{
	return w ? w->port : 0;
}

bool webhook_ready(const struct webhook *w, struct err *why)
{
	if (!w->d->config->webhook_listen[0])
		return true;
	if (w->tls)
		return register_ready(w->d, why);
	err_set(why, ERR_UNAVAILABLE, 0, "webhook: the listener isn't open yet");
	return false;
}

/* ---- life ---- */

static void on_stopped(void *arg)
{
	struct daemon *d = arg;

	d->webhook_stopped = true;
	daemon_stopped_a_part(d);
}

static void on_drained(struct loop_timer *timer, void *arg)
{
	struct webhook *w = arg;

	(void)timer;
	http_server_stop(w->server, w->stop_ms, on_stopped, w->d);
	advert_drain(w->d, w->stop_ms);
}

/* The Service goes on sending connections here until every node knows that this replica isn't
 * ready any more: they are served meanwhile. */
void webhook_drain(struct daemon *d)
{
	struct webhook *w = d->webhook;
	int64_t stop_ms = daemon_stop_ms(d), drain_ms = 0;

	if (!w) {
		d->webhook_stopped = true;
		return;
	}
	/* On a socket of the service manager's they wait there for the next process. */
	if (w->tls && !sockets_has(&d->sockets, "webhook"))
		drain_ms = d->config->webhook_drain_s * 1000;
	if (drain_ms > stop_ms / 2)
		drain_ms = stop_ms / 2;
	w->stop_ms = (unsigned)(stop_ms - drain_ms - stop_ms / 8);
	http_server_leave(w->server, true);
	loop_timer_start_in(&w->drain, drain_ms);
}

void webhook_leave(struct webhook *w, bool leaves, bool at_once)
{
	if (!w)
		return;
	http_server_leave(w->server, leaves);
	if (leaves && at_once)
		http_server_drop_idle(w->server);
}

static struct admission_access_opts access_opts(const struct webhook *w)
{
	const struct config *c = w->d->config;

	return (struct admission_access_opts){
		.pods = w->pods,
		.templates = {.host_paths = c->template_paths,
			      .service_accounts = c->template_accounts,
			      .no_privileged = !c->template_privileged,
			      .no_node_name = !c->template_nodes},
		.dry_run_pods = c->dry_run_pods,
	};
}

static int make_access(struct webhook *w, struct err *err)
{
	struct kube_client_opts ko = {
		.loop = w->d->loop,
		.net = w->d->net,
		.config = w->d->kube_config,
		.helper = w->d->helper,
		.max_connections = ADMISSION_ACCESS_CONNECTIONS,
		.hears_with = w->d->kube,
	};
	struct admission_access_opts ao = access_opts(w);

	if (kube_client_new(&ko, &w->kube, err) < 0)
		return -1;
	w->access = admission_access_new(w->kube, &ao);
	return 0;
}

/* By the configuration as it is now. */
static void take_config(struct webhook *w)
{
	const struct config *c = w->d->config;

	w->pods = daemon_pod_settings(c);
	free(w->proxy_url);
	w->proxy_url = c->pods_proxy_url[0] ? xstrdup(c->pods_proxy_url) : daemon_proxy_url(w->d);
}

void webhook_reload(struct daemon *d)
{
	struct webhook *w = d->webhook;
	struct admission_access_opts ao;

	if (!w)
		return;
	take_config(w);
	ao = access_opts(w);
	admission_access_set(w->access, &ao);
}

int webhook_start(struct daemon *d, struct err *err)
{
	struct webhook *w = xcalloc(1, sizeof(*w));
	struct admission_config ac = {.loop = d->loop, .site = fill_site, .leave = leave, .arg = w};
	const struct http_server_config sc = {
		.limits = {.max_head_bytes = (size_t)d->config->header_bytes,
			   .max_body_bytes = ADMISSION_MAX_BODY_BYTES},
		.header_ms = HEADER_MS,
		.body_ms = BODY_MS,
		.idle_ms = IDLE_MS,
		.max_connections = MAX_CONNECTIONS,
		.max_bodies_bytes = MAX_BODIES_BYTES,
		.name = "webhook",
		.on_answered = admission_on_answered,
	};

	d->webhook = w;
	w->d = d;
	take_config(w);
	loop_timer_init(&w->drain, d->loop, on_drained, w);
	if (make_access(w, err) < 0)
		return -1;
	ac.access = w->access;
	w->admission = admission_new(&ac);
	w->server = http_server_new(d->net, &sc);
	return 0;
}

void webhook_stop(struct daemon *d)
{
	struct webhook *w = d->webhook;

	if (!w)
		return;
	loop_timer_stop(&w->drain);
	http_server_free(w->server);
	admission_free(w->admission);
	admission_access_free(w->access);
	kube_client_free(w->kube);
	tls_config_unref(w->tls);
	free(w->proxy_url);
	free(w->proxy_ca);
	free(w);
	d->webhook = NULL;
}
