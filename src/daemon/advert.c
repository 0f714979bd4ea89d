/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the role proxy has to do with Nodes: their store, the advertiser in the process that leads,
 * and the scheduler's extender, on a server of its own, since whole Pods are sent there.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "net/tls.h"
#include "node/heed.h"

#define HEADER_MS       5000
#define BODY_MS         10000 /* the scheduler waits 5 s unless it's told otherwise */
#define IDLE_MS         120000
#define MAX_CONNECTIONS 64
#define AGAIN_S         5 /* after all replicas have asked their controllers again */
/* Of the largest requests, held at the same time. Each is judged in one turn, and anybody who
 * reaches the port may send it: so the limit on one is what the scheduler needs with names. */
#define MAX_BODIES 4

struct advert {
	struct daemon *d;
	struct nodes *nodes;
	struct advertiser *advertiser; /* NULL while following, or where nothing is advertised */
	struct extender *extender;     /* NULL without scheduler.listen, as the next three */
	struct http_server *server;
	struct certfile *clients; /* their authority; NULL: whoever asks may */
	struct tls_config *given; /* the certificate; NULL: there is none yet */
	struct tls_config *tls;   /* … as the listener has it: for clients of that authority */
	unsigned port;
};

/* ---- what the extender sees ---- */

/* What answers /query answers here too: a follower's view goes on until there's a better one. */
static struct partitions *shown_partitions(const struct daemon *d)
{
	return d->outgoing ? d->outgoing : d->partitions;
}

static const char *why_closed(const struct vipu_controller *c)
{
	if (c->reach == VIPU_REACH_UNKNOWN)
		return "hasn't answered yet";
	if (c->reach == VIPU_REACH_NO)
		return "doesn't answer";
	if (c->draining)
		return "is being drained";
	if (c->cordoned)
		return "is cordoned";
	return c->no_node ? "has no ready node" : NULL;
}

static void fill_controller(void *arg, size_t i, uint32_t ipus, struct extender_controller *ret)
{
	const struct daemon *d = arg;
	const struct vipu_controller *c = vipu_fleet_at(d->fleet, i);

	*ret = (struct extender_controller){
		.name = c->name,
		.closed = why_closed(c),
		.total_ipus = c->capacity.total_ipus,
		.fits = partitions_count_fits_on(shown_partitions(d), c->name, ipus),
		.score = extender_score(&c->capacity, ipus),
	};
}

/* One that has just begun may have asked nobody yet: it says so, and isn't believed to be full. */
static bool all_unknown(const struct vipu_fleet *fleet)
{
	bool any = false;

	for (size_t i = 0; i < vipu_fleet_len(fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(fleet, i);

		if (c->configured && c->reach != VIPU_REACH_UNKNOWN)
			return false;
		any |= c->configured;
	}
	return any;
}

static bool fill_view(void *arg, struct extender_view *view, struct err *err)
{
	struct advert *a = arg;
	struct daemon *d = a->d;

	if (controllers_check(d->controllers, err) < 0)
		return false;
	if (!partitions_synced(shown_partitions(d))) {
		err_set(err, ERR_UNAVAILABLE, 0, "the partition tracker hasn't been read yet");
		return false;
	}
	if (!nodes_synced(a->nodes)) {
		err_set(err, ERR_UNAVAILABLE, 0, "Nodes haven't been read yet");
		return false;
	}
	if (all_unknown(d->fleet)) {
		err_set(err, ERR_UNAVAILABLE, 0, "no V-IPU controller has answered yet");
		return false;
	}
	nodes_look(a->nodes);
	*view = (struct extender_view){.nodes = a->nodes,
				       .n = vipu_fleet_len(d->fleet),
				       .controller = fill_controller,
				       .arg = d};
	return true;
}

/* ---- the listener ---- */

bool advert_serves(const struct daemon *d)
{
	return d->advert && d->advert->extender;
}

unsigned advert_port(const struct daemon *d)
{
	return d->advert ? d->advert->port : 0;
}

/* A reference of the caller's. */
static int add_clients(const struct advert *a, struct tls_config *given, struct tls_config **ret,
		       struct err *err)
{
	struct tls_client_rule rule = {.names = a->d->config->scheduler_client_names};

	if (!a->clients) {
		*ret = tls_config_ref(given);
		return 0;
	}
	rule.ca_pem = certfile_ca_pem(a->clients);
	if (tls_config_new_ruled(given, &rule, ret, err) < 0)
		return err_wrap(err, "scheduler.clientCAFile");
	return 0;
}

static int listen_or_switch(struct advert *a, struct tls_config *tls, struct err *err)
{
	struct daemon *d = a->d;

	if (a->tls) {
		http_server_switch_tls(a->server, a->tls, tls);
	} else {
		const struct listen_at at = {
			.name = "scheduler",
			.key = "scheduler.listen",
			.addr = d->config->scheduler_listen,
			.server = a->server,
			.tls = tls,
			.handler = extender_handle,
			.arg = a->extender,
		};

		if (sockets_listen(&d->sockets, &at, &a->port, err) < 0)
			return -1;
	}
	tls_config_unref(a->tls);
	a->tls = tls_config_ref(tls);
	return 0;
}

int advert_serve(struct daemon *d, struct tls_config *given, struct err *err)
{
	struct advert *a = d->advert;
	struct tls_config *old = a->given, *tls;
	int rc;

	if (add_clients(a, given, &tls, err) < 0)
		return -1;
	rc = listen_or_switch(a, tls, err);
	tls_config_unref(tls);
	if (rc < 0)
		return -1;
	a->given = tls_config_ref(given);
	tls_config_unref(old);
	return 0;
}

/* Who was let in by the authorities before has to show himself again. */
static void on_clients(void *arg, const struct tls_config *from, struct tls_config *to)
{
	struct advert *a = arg;
	struct err err;

	(void)from, (void)to;
	if (!a->given)
		return;
	if (advert_serve(a->d, a->given, &err) < 0)
		log_error("daemon", NULL, "%s", err.msg); /* certfile.c has checked it */
	else
		http_server_renew(a->server);
}

struct certfile *advert_clients(const struct daemon *d)
{
	return d->advert ? d->advert->clients : NULL;
}

void advert_leave(struct daemon *d, bool leaves)
{
	if (advert_serves(d))
		http_server_leave(d->advert->server, leaves);
}

static void on_stopped(void *arg)
{
	struct daemon *d = arg;

	d->scheduler_stopped = true;
	daemon_stopped_a_part(d);
}

void advert_drain(struct daemon *d, unsigned deadline_ms)
{
	if (advert_serves(d))
		http_server_stop(d->advert->server, deadline_ms, on_stopped, d);
	else
		d->scheduler_stopped = true;
}

static int make_server(struct advert *a, struct err *err)
{
	const char *clients = a->d->config->scheduler_client_ca;
	size_t body_bytes = (size_t)a->d->config->scheduler_body_bytes;
	const struct http_server_config sc = {
		.limits = {.max_head_bytes = (size_t)a->d->config->header_bytes,
			   .max_body_bytes = body_bytes},
		.header_ms = HEADER_MS,
		.body_ms = BODY_MS,
		.idle_ms = IDLE_MS,
		.max_connections = MAX_CONNECTIONS,
		.max_bodies_bytes = MAX_BODIES * body_bytes,
		.name = "scheduler",
		.on_answered = extender_on_answered,
	};

	a->extender = extender_new(fill_view, a);
	a->server = http_server_new(a->d->net, &sc);
	if (!clients[0])
		return 0;
	if (certfile_new(a->d->loop, NULL, NULL, clients, &a->clients, err) < 0)
		return err_wrap(err, "scheduler.clientCAFile");
	certfile_follow(a->clients, on_clients, a);
	return 0;
}

/* ---- the advertiser ---- */

static enum advertise_mode mode_of(const struct config *c)
{
	return strcmp(c->advertise_ipus, "whole") == 0   ? ADVERTISE_WHOLE
	       : strcmp(c->advertise_ipus, "share") == 0 ? ADVERTISE_SHARE
							 : ADVERTISE_OFF;
}

/* A list that hasn't been read yet isn't one without controllers. */
static bool may_act(void *arg)
{
	const struct daemon *d = arg;

	return controllers_synced(d->controllers) && (!d->lease || kube_lease_held(d->lease));
}

void advert_led(struct daemon *d)
{
	struct advert *a = d->advert;
	struct advertiser_opts opts;

	if (!a || (mode_of(d->config) == ADVERTISE_OFF && !a->extender))
		return;
	if (!d->leading) {
		advertiser_free(a->advertiser);
		a->advertiser = NULL;
		return;
	}
	if (a->advertiser) {
		advertiser_look(a->advertiser);
		return;
	}
	opts = (struct advertiser_opts){
		.loop = d->loop,
		.kube = d->kube,
		.fleet = d->fleet,
		.nodes = a->nodes,
		.mode = mode_of(d->config),
		.on_control_plane = d->config->advertise_on_control_plane,
		.again_ms = a->extender ? (unsigned)(d->config->idle_refresh_s + AGAIN_S) * 1000
					: 0,
		.may_act = may_act,
		.arg = d,
	};
	a->advertiser = advertiser_new(&opts);
}

/* ---- Pods that ask for themselves ---- */

/* Where Nodes can't be read, a Pod gets IPUs of any controller: as without all this. */
static int find_labels(void *arg, const char *node, char **ret, struct err *err)
{
	struct advert *a = arg;
	struct err why;

	if (!nodes_synced(a->nodes)) {
		nodes_error(a->nodes, &why);
		if (why.kind != ERR_NONE)
			return 0;
		return err_set(err, ERR_UNAVAILABLE, 0, "Nodes haven't been read yet: ask again");
	}
	nodes_look(a->nodes);
	*ret = nodes_labels(a->nodes, str_of(node));
	return 0;
}

struct nodes *advert_nodes(const struct daemon *d)
{
	return d->advert ? d->advert->nodes : NULL;
}

void advert_serve_pods(struct daemon *d)
{
	if (d->advert)
		proxy_set_node_labels(d->proxy, find_labels, d->advert);
}

/* ---- life ---- */

static void on_nodes(void *arg, bool fabric_only)
{
	const struct advert *a = arg;

	if (!fabric_only)
		advertiser_look(a->advertiser);
	heed_look(a->d->heed);
}

/* The extender is of no use without Nodes; the proxy's other work is: so always true, and why says
 * what's missing. */
bool advert_ready(const struct daemon *d, struct err *why)
{
	if (!nodes_synced(d->advert->nodes)) {
		nodes_error(d->advert->nodes, why);
		if (why->kind == ERR_NONE)
			err_set(why, ERR_UNAVAILABLE, 0, "Nodes haven't been read yet");
	}
	return true;
}

int advert_start(struct daemon *d, struct err *err)
{
	const struct config *c = d->config;
	struct advert *a;

	if (!(c->roles & ROLE_PROXY) || (mode_of(c) == ADVERTISE_OFF && !c->scheduler_listen[0] &&
					 strcmp(c->pods_mode, "init") != 0))
		return 0;
	d->advert = a = xcalloc(1, sizeof(*a));
	a->d = d;
	a->nodes = nodes_new(d->kube, d->fleet, on_nodes, a);
	return c->scheduler_listen[0] ? make_server(a, err) : 0;
}

void advert_stop(struct daemon *d)
{
	struct advert *a = d->advert;

	if (!a)
		return;
	if (a->server)
		http_server_free(a->server);
	extender_free(a->extender);
	certfile_free(a->clients);
	tls_config_unref(a->tls);
	tls_config_unref(a->given);
	advertiser_free(a->advertiser);
	nodes_free(a->nodes);
	free(a);
	d->advert = NULL;
}
