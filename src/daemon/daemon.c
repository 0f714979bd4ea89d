/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wiring and nothing else: makes the parts, from the loop upwards, hands them to each other, and
 * takes them apart in the other direction.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "net/tls.h"
#include "node/heed.h"
#include "daemon/internal.h"

#define STOP_MS            30000 /* the whole end, within a Pod's grace period */
#define SERVICE_STOP_MS    4000  /* … and as a service, which is restarted on the spot */
#define STOP_DEADLINE_MS   5000
#define STOP_MARGIN_MS     500
#define REVIEW_CONNECTIONS 2
#define MORE_DESCRIPTORS   1024

/* ---- parts ---- */

static void on_controllers_synced(void *arg)
{
	struct daemon *d = arg;

	partitions_fleet_known(d->partitions);
	advert_led(d);
	heed_look(d->heed);
}

static int trust_file(struct daemon *d, struct err *err)
{
	struct tls_client_opts opts = {.ca_pem = certfile_ca_pem(d->proxy_ca_file)};
	struct tls_config *old = d->proxy_trust;

	if (tls_config_new_client(&opts, &d->proxy_trust, err) < 0)
		return err_wrap(err, "proxy.caFile");
	tls_config_unref(old);
	return 0;
}

static void on_proxy_ca(void *arg, const struct tls_config *from, struct tls_config *to)
{
	struct daemon *d = arg;
	struct err err;

	(void)from, (void)to;
	if (trust_file(d, &err) < 0) {
		log_error("daemon", NULL, "%s", err.msg); /* certfile.c has checked it */
		return;
	}
	if (d->proxy)
		proxy_set_peer_tls(d->proxy, d->proxy_trust, NULL);
	if (d->remote)
		partition_remote_set_tls(d->remote, d->proxy_trust);
}

static int make_trust(struct daemon *d, struct err *err)
{
	if (!d->config->proxy_ca[0])
		return 0;
	if (certfile_new(d->loop, NULL, NULL, d->config->proxy_ca, &d->proxy_ca_file, err) < 0)
		return err_wrap(err, "proxy.caFile");
	certfile_follow(d->proxy_ca_file, on_proxy_ca, d);
	return trust_file(d, err);
}

/* Without the role proxy it's another process that knows the fleet. */
static void make_fleet(struct daemon *d)
{
	const struct config *c = d->config;
	struct vipu_fleet_options options = {
		.call_ms = (unsigned)c->call_s * 1000,
		.idle_ms = (unsigned)c->idle_refresh_s * 1000,
		.urgent_ms = (unsigned)c->waiting_refresh_s * 1000,
	};
	struct controllers_config list = {
		.ns = d->ns,
		.server = &c->server,
		.list = &c->controllers,
		.file = c->controllers_file,
		.config_map = c->controllers_config_map,
		.user_key = c->user_key,
		.access_key = c->access_key,
		.on_list = c->roles & ROLE_NODE ? node_list : NULL,
		.on_list_arg = d,
	};

	d->fleet = vipu_fleet_new(d->net, &options);
	d->controllers = controllers_new(d->kube, d->fleet, d->recorder, &list,
					 on_controllers_synced, d);
}

static int make_client(struct daemon *d, struct kube_config *kube_config, struct err *err)
{
	struct kube_client_opts opts = {
		.loop = d->loop,
		.net = d->net,
		.config = kube_config,
		.helper = d->helper,
	};
	char host[256] = "ipu-operator";

	if (kube_client_new(&opts, &d->kube, err) < 0)
		return -1;
	opts.max_connections = REVIEW_CONNECTIONS;
	opts.hears_with = d->kube;
	if (kube_client_new(&opts, &d->reviews, err) < 0)
		return -1;
	(void)gethostname(host, sizeof(host) - 1);
	d->recorder = kube_recorder_new(d->kube, "ipu-operator", host);
	return 0;
}

/* ---- listeners ---- */

enum proxy_page daemon_page(const struct config *c)
{
	if (strcmp(c->proxy_page, "off") == 0)
		return PROXY_PAGE_OFF;
	return strcmp(c->proxy_page, "full") == 0 && c->proxy_details ? PROXY_PAGE_FULL
								      : PROXY_PAGE_USAGE;
}

static void make_proxy(struct daemon *d)
{
	const struct config *c = d->config;
	CLEANUP_FREE char *account = xasprintf(
		"system:serviceaccount:%s:ipu-operator-controller-manager", d->ns);
	const struct proxy_config pc = {
		.loop = d->loop,
		.partitions = d->partitions,
		.fleet = d->fleet,
		.details = c->proxy_details,
		.page = daemon_page(c),
		.pods = c->roles & ROLE_CONTROLLER ? lead_pods : NULL,
		.helds = c->roles & ROLE_CONTROLLER ? lead_helds : NULL,
		.pods_arg = d,
		.token_file = c->proxy_token,
		.viewers = c->connections > 1 ? (unsigned)(c->connections * 3 / 4) : 1,
		.accounts = c->proxy_accounts[0] ? c->proxy_accounts : account,
		.wait_ms = (unsigned)c->proxy_write_s * 1000,
		.call_ms = (unsigned)c->call_s * 1000,
		.kube = d->reviews,
		.http = d->http,
	};

	d->proxy = proxy_new(&pc);
	/* Replicas have certificates for the names under which they are reached. */
	proxy_set_peer_tls(d->proxy, d->proxy_trust, NULL);
	proxy_set_leader(d->proxy, d->leading, NULL);
	advert_serve_pods(d);
}

int daemon_listen_partitions(struct daemon *d, struct tls_config *tls, struct err *err)
{
	const struct listen_at at = {
		.name = "partitions",
		.key = "proxy.tlsListen",
		.addr = d->config->proxy_tls_listen,
		.server = d->server,
		.tls = tls,
		.handler = proxy_handle_partitions,
		.arg = d->proxy,
	};

	return sockets_listen(&d->sockets, &at, &d->proxy_tls_port, err);
}

static void on_files(void *arg, const struct tls_config *from, struct tls_config *to)
{
	struct daemon *d = arg;

	http_server_switch_tls(d->server, from, to);
}

static void on_proxy_files(void *arg, const struct tls_config *from, struct tls_config *to)
{
	struct daemon *d = arg;
	struct err err;

	on_files(arg, from, to);
	if (advert_serves(d) && advert_serve(d, to, &err) < 0)
		log_error("daemon", NULL, "%s", err.msg);
}

static int listen_proxy(struct daemon *d, struct err *err)
{
	const struct config *c = d->config;
	const struct listen_at at = {
		.name = "proxy",
		.key = "proxy.listen",
		.addr = c->proxy_listen,
		.server = d->server,
		.handler = proxy_handle_open,
		.arg = d->proxy,
	};

	if (!(c->roles & ROLE_PROXY))
		return 0;
	if (sockets_listen(&d->sockets, &at, &d->proxy_port, err) < 0)
		return -1;
	if (!c->proxy_cert[0])
		return 0; /* authority.c opens it, once there is a certificate */
	if (certfile_new(d->loop, c->proxy_cert, c->proxy_key, NULL, &d->proxy_tls, err) < 0 ||
	    daemon_listen_partitions(d, certfile_tls(d->proxy_tls), err) < 0 ||
	    (advert_serves(d) && advert_serve(d, certfile_tls(d->proxy_tls), err) < 0))
		return -1;
	certfile_follow(d->proxy_tls, on_proxy_files, d);
	return 0;
}

int daemon_listen_metrics(struct daemon *d, struct tls_config *tls, struct err *err)
{
	const struct listen_at at = {
		.name = "metrics",
		.key = "metrics.listen",
		.addr = d->config->metrics_listen,
		.server = d->server,
		.tls = tls,
		.handler = scrape_handle,
		.arg = d,
	};

	return sockets_listen(&d->sockets, &at, &d->metrics_port, err);
}

static int listen_metrics(struct daemon *d, struct err *err)
{
	struct tls_config *tls;

	if (!d->config->metrics_listen[0])
		return 0;
	if (!d->config->metrics_secure)
		return daemon_listen_metrics(d, NULL, err);
	if (scrape_start(d, err) < 0)
		return -1;
	tls = scrape_tls(d->scrape);
	if (!tls)
		return 0; /* authority.c opens it, once there is a certificate */
	if (daemon_listen_metrics(d, tls, err) < 0)
		return -1;
	scrape_follow(d->scrape, on_files, d);
	return 0;
}

/* A certificate of the operator's own: to serve with where none is given, or to know whom to trust.
 */
bool daemon_wants_authority(const struct config *c)
{
	if ((c->roles & ROLE_WEBHOOK) && c->webhook_listen[0] && !c->webhook_cert[0])
		return true;
	if (c->metrics_secure && c->metrics_listen[0] && !c->metrics_cert[0] &&
	    c->roles != ROLE_NODE)
		return true;
	/* What the Pods' init containers are to trust. */
	if ((c->roles & ROLE_WEBHOOK) && strcmp(c->pods_mode, "init") == 0 && !c->proxy_ca[0])
		return true;
	if (!(c->roles & ROLE_CONTROLLER) && !(c->roles & ROLE_PROXY))
		return false;
	if (c->roles & ROLE_PROXY)
		return (c->proxy_tls_listen[0] || c->scheduler_listen[0]) && !c->proxy_cert[0];
	return !c->proxy_ca[0];
}

static int listen_health(struct daemon *d, struct err *err)
{
	const struct listen_at at = {
		.name = "health",
		.key = "health.listen",
		.addr = d->config->health_listen,
		.server = d->server,
		.handler = health_handle,
		.arg = d,
	};

	return sockets_listen(&d->sockets, &at, &d->health_port, err);
}

static int make_listeners(struct daemon *d, struct err *err)
{
	const struct config *c = d->config;
	struct http_server_config sc = {
		.limits = {.max_head_bytes = (size_t)c->header_bytes,
			   .max_body_bytes = (size_t)c->body_bytes},
		.header_ms = (unsigned)c->proxy_read_s * 1000,
		.body_ms = (unsigned)c->proxy_read_s * 1000,
		.write_ms = (unsigned)c->proxy_write_s * 1000,
		.idle_ms = (unsigned)c->proxy_idle_s * 1000,
		.max_connections = (unsigned)c->connections,
		.name = "proxy",
		.on_answered = proxy_on_answered,
	};

	d->http = http_client_new(d->net, NULL);
	if (c->roles & ROLE_PROXY)
		make_proxy(d);
	sc.on_answered_arg = d->proxy;
	d->server = http_server_new(d->net, &sc);
	if (listen_proxy(d, err) < 0 || listen_health(d, err) < 0)
		return -1;
	return listen_metrics(d, err);
}

static char *ports_temporary(const struct daemon *d)
{
	return xasprintf("%s.new", d->ports_file);
}

/* Before the process confines itself: then it opens nothing for writing any more. */
static int open_ports(struct daemon *d, const char *path, struct err *err)
{
	CLEANUP_FREE char *temporary = NULL;

	if (!path)
		return 0;
	d->ports_file = path;
	temporary = ports_temporary(d);
	d->ports_out = fopen(temporary, "we");
	return d->ports_out ? 0 : err_errno(err, errno, "%s", path);
}

/* What was never written. */
static void drop_ports(struct daemon *d)
{
	CLEANUP_FREE char *temporary = NULL;

	if (!d->ports_out)
		return;
	temporary = ports_temporary(d);
	(void)fclose(d->ports_out);
	(void)unlink(temporary);
}

/* A line for each listener that is open. Whole or not at all: who waits for the file never reads
 * half of it. */
int daemon_write_ports(struct daemon *d, struct err *err)
{
	CLEANUP_FREE char *temporary = NULL;
	FILE *f = d->ports_out;
	const struct {
		const char *name;
		unsigned port;
	} ports[] = {
		{"proxy", d->proxy_port},
		{"proxy-tls", d->proxy_tls_port},
		{"webhook", webhook_port(d->webhook)},
		{"health", d->health_port},
		{"metrics", d->metrics_port},
		{"scheduler", advert_port(d)},
	};

	if (!f)
		return 0;
	d->ports_out = NULL;
	temporary = ports_temporary(d);
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		if (ports[i].port)
			fprintf(f, "%s %u\n", ports[i].name, ports[i].port);
	}
	if (fclose(f) != 0 || rename(temporary, d->ports_file) != 0) {
		err_errno(err, errno, "%s", d->ports_file);
		(void)unlink(temporary);
		return -1;
	}
	return 0;
}

/* ---- life ---- */

void daemon_stopped_a_part(struct daemon *d)
{
	if (d->server_stopped && d->webhook_stopped && d->scheduler_stopped && d->lease_given_back)
		loop_stop(d->loop, 0);
}

static void on_server_stopped(void *arg)
{
	struct daemon *d = arg;

	d->server_stopped = true;
	daemon_stopped_a_part(d);
}

int64_t daemon_stop_ms(const struct daemon *d)
{
	if (d->config->stop_s)
		return d->config->stop_s * 1000;
	return d->notify ? SERVICE_STOP_MS : STOP_MS;
}

static void on_too_late(struct loop_timer *timer, void *arg)
{
	struct daemon *d = arg;

	(void)timer;
	log_warn("daemon", NULL, "ends although not everything is done: %s%s%s%s",
		 d->server_stopped ? "" : "answers ", d->webhook_stopped ? "" : "reviews ",
		 d->scheduler_stopped ? "" : "the scheduler's answers ",
		 d->lease_given_back ? "" : "the Lease");
	loop_stop(d->loop, 0);
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	struct daemon *d = arg;
	int64_t stop_ms = daemon_stop_ms(d);
	unsigned answers_ms = stop_ms < STOP_DEADLINE_MS ? (unsigned)stop_ms - STOP_MARGIN_MS
							 : STOP_DEADLINE_MS;

	(void)s;
	if (d->stopping) { /* asked twice: at once */
		loop_stop(d->loop, 0);
		return;
	}
	d->stopping = true;
	d->stopping_from_ms = clock_mono_ms();
	log_info("daemon", NULL, "stopping: signal=%d", signum);
	notify_stopping(d->notify);
	if (d->proxy)
		proxy_stop(d->proxy);
	loop_timer_start_in(&d->stop_timer, stop_ms);
	advert_leave(d, true);
	if (!d->webhook) /* else it takes connections for as long as that one does */
		advert_drain(d, answers_ms);
	http_server_stop(d->server, answers_ms, on_server_stopped, d);
	webhook_drain(d);
	lead_give_back(d);
}

/* As many as the listeners may have connections (open, partitions, health, metrics), and what is
 * needed beside them, where the system lets us: a shell's usual limit is less. */
static void raise_descriptors(const struct config *c)
{
	rlim_t wanted = 4 * (rlim_t)c->connections + MORE_DESCRIPTORS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int daemon_new(struct config *config, const struct config_source *source,
	       struct kube_config *kube_config, const char *ports_file, struct daemon **ret,
	       struct err *err)
{
	struct daemon *d = xcalloc(1, sizeof(*d));

	d->config = config;
	d->source = *source;
	d->kube_config = kube_config;
	d->ns = config->operator_ns[0] ? config->operator_ns : kube_config_namespace(kube_config);
	if (!d->ns)
		d->ns = ""; /* of a node's process, main.c has seen to that */
	/* Before the loop: the child must not share its descriptors. */
	if (sockets_take(&d->sockets, config, err) < 0 || notify_take(d, err) < 0 ||
	    kube_exec_helper_fork(kube_config, &d->helper, err) < 0 ||
	    loop_new(&d->loop, err) < 0 || net_new(d->loop, &d->net, err) < 0 ||
	    make_client(d, kube_config, err) < 0)
		goto fail;
	raise_descriptors(config); /* not the helper's */
	tell_start(d);
	if (config->roles & ROLE_NODE)
		node_start(d);
	if (config->roles & ROLE_PROXY)
		make_fleet(d);
	if (advert_start(d, err) < 0 || make_trust(d, err) < 0 || lead_start(d, err) < 0 ||
	    make_listeners(d, err) < 0)
		goto fail;
	if ((config->roles & ROLE_WEBHOOK) && webhook_start(d, err) < 0)
		goto fail;
	if (register_open(d, err) < 0)
		goto fail;
	observe_start(d);
	health_start(d);
	if (open_ports(d, ports_file, err) < 0)
		goto fail;
	if (daemon_wants_authority(config) && authority_start(d, err) < 0)
		goto fail;
	/* Where a certificate is awaited, the last listener isn't open yet. */
	if (!authority_is_awaited(d) && daemon_write_ports(d, err) < 0)
		goto fail;
	loop_signal_start(&d->sigterm, d->loop, SIGTERM, on_signal, d);
	loop_signal_start(&d->sigint, d->loop, SIGINT, on_signal, d);
	loop_timer_init(&d->stop_timer, d->loop, on_too_late, d);
	loop_set_slow_turn_ms(d->loop, (unsigned)config->slow_turn_ms);
	reload_start(d);
	notify_start(d->notify);
	d->guard = guard_new(d->loop, config, d->ports_out != NULL);
	*ret = d;
	return 0;
fail:
	daemon_free(d);
	return -1;
}

int daemon_run(struct daemon *d)
{
	int status;

	log_info("daemon", NULL, "running: version=%s api=%s namespace=%s", PACKAGE_VERSION,
		 kube_config_server(kube_client_config(d->kube)), d->ns);
	status = loop_run(d->loop);
	if (d->stopping)
		log_info("daemon", NULL, "stopped: ms=%" PRId64,
			 clock_mono_ms() - d->stopping_from_ms);
	return status;
}

void daemon_free(struct daemon *d)
{
	if (!d)
		return;
	if (d->sigterm.loop)
		loop_signal_stop(&d->sigterm);
	if (d->sigint.loop)
		loop_signal_stop(&d->sigint);
	if (d->sighup.loop)
		loop_signal_stop(&d->sighup);
	if (d->stop_timer.loop)
		loop_timer_stop(&d->stop_timer);
	drop_ports(d);
	guard_free(d->guard);
	notify_free(d->notify);
	observe_stop(d);
	health_stop(d);
	register_stop(d);
	webhook_stop(d);
	if (d->server)
		http_server_free(d->server);
	certfile_free(d->proxy_tls);
	scrape_stop(d);
	proxy_free(d->proxy);
	d->proxy = NULL;
	http_client_free(d->http);
	heed_stop(d);
	tell_stop(d);
	advert_stop(d);
	lead_stop(d);
	authority_stop(d);
	certfile_free(d->proxy_ca_file);
	tls_config_unref(d->proxy_trust);
	node_stop(d);
	controllers_free(d->controllers);
	vipu_fleet_free(d->fleet);
	kube_recorder_free(d->recorder);
	kube_client_free(d->reviews);
	kube_client_free(d->kube);
	kube_exec_helper_free(d->helper); /* its watcher is the loop's */
	net_free(d->net);
	loop_free(d->loop);
	free(d);
}
