/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts together, level-triggered: whatever happens, everything that could have changed is
 * looked at again, and only a difference is told. Owns the parts. Uses core, loop, net, vipu.
 */
#include "node/fabric.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "host.h"
#include "links.h"
#include "loop/backoff.h"
#include "loop/op.h"
#include "net/resolve.h"
#include "node/rdma.h"
#include "pause.h"
#include "reach.h"

#define COMPLETE_MS      5000
#define LOOK_MS          100 /* between two looks at routes, however many events come */
#define PATIENCE_MS      500 /* for the names of controllers that are new */
#define HOST_MS          60000
#define HOST_PROCESSES   64 /* looked at in one turn */
#define RESOLVE_MS       10000
#define RESOLVE_AGAIN_MS 60000
#define MAX_TRIED        8 /* of a host's addresses */

/* A controller. Its timer and operation point at it. */
struct target {
	struct fabric *fabric;
	char *name, *host;
	struct op *resolve; /* NULL: none goes on */
	struct loop_timer again;
	struct backoff backoff;
	bool answered; /* once, by addresses or an error */
	struct net_addr addrs[MAX_TRIED];
	size_t n_addrs;
	struct err err; /* of the last answer, where there are no addresses */
	int last_link;  /* that led there, 0: none yet */
	char last_name[NODE_LINK_SIZE];
};

struct fabric {
	struct loop *loop;
	struct net *net;
	fabric_changed_fn *cb;
	void *arg;
	char *root, *cni_folder;
	bool limits_only;
	unsigned host_ms;
	struct rdma *rdma;
	struct links *links;
	struct host_reader *reader; /* NULL: not reading */
	struct target **targets;
	size_t n_targets;
	bool late;            /* the deadline has passed */
	bool looked;          /* at the routes to all addresses that are known */
	int64_t next_look_ms; /* not earlier */
	int64_t patience_ms;  /* until then names that are asked for are waited for */
	struct loop_work look, tell, read;
	struct loop_timer look_later, deadline, periodic;
	struct fabric_facts *facts; /* rdma is the inventory's own, borrowed */
};

static void look_soon(struct fabric *f)
{
	if (!f->looked || f->next_look_ms <= clock_mono_ms())
		loop_work_post(&f->look);
	else if (!loop_timer_active(&f->look_later))
		loop_timer_start_at(&f->look_later, f->next_look_ms);
}

static void changed(struct fabric *f)
{
	loop_work_post(&f->tell);
}

static bool all_answered(const struct fabric *f)
{
	for (size_t i = 0; i < f->n_targets; i++) {
		if (!f->targets[i]->answered)
			return false;
	}
	return true;
}

static void see_whether_complete(struct fabric *f)
{
	bool complete = f->late || (f->facts->host.known && f->looked && all_answered(f));

	if (complete && !f->facts->complete) {
		f->facts->complete = true;
		changed(f);
	}
}

/* ---- routes ---- */

static bool to_ip(const struct net_addr *addr, struct nl_ip *ret, int *ret_zone)
{
	*ret = (struct nl_ip){.family = addr->sa.sa_family};
	*ret_zone = 0;
	if (ret->family == AF_INET) {
		memcpy(ret->bytes, &addr->in.sin_addr, 4);
	} else if (ret->family == AF_INET6) {
		memcpy(ret->bytes, &addr->in6.sin6_addr, 16);
		*ret_zone = (int)addr->in6.sin6_scope_id;
	}
	return ret->family == AF_INET || ret->family == AF_INET6;
}

/* A route that went with its interface: that one is worth a word. */
static void explain(struct target *t, struct links *links, struct fabric_reach *reach)
{
	struct nl_link link;

	if (reach->error.kind != ERR_NOT_FOUND || t->last_link == 0)
		return;
	char msg[sizeof(reach->error.msg)];
	snprintf(msg, sizeof(msg), "%s", reach->error.msg);
	if (links_get(links, t->last_link, &link, NULL) < 0)
		err_set(&reach->error, ERR_NOT_FOUND, reach->error.code,
			"%.180s: %s, which led there, is gone", msg, t->last_name);
	else if (!link.enabled || !link.carrier)
		err_set(&reach->error, ERR_NOT_FOUND, reach->error.code,
			"%.180s: %s, which led there, is down", msg, link.name);
}

/* Of several addresses the first that there is a route to, as those who connect would find. */
static void find_reach(struct fabric *f, struct target *t, struct fabric_reach *ret)
{
	struct fabric_reach first = {0};
	bool found = false;

	for (size_t i = 0; i < t->n_addrs && !found; i++) {
		struct nl_ip ip;
		int zone;

		if (!to_ip(&t->addrs[i], &ip, &zone))
			continue;
		found = reach_find(f->links, &ip, zone, &f->facts->rdma, ret, &t->last_link) == 0;
		if (!found && !first.address[0])
			first = *ret;
	}
	if (found) {
		snprintf(t->last_name, sizeof(t->last_name), "%s", ret->link);
	} else if (first.address[0]) {
		*ret = first;
		explain(t, f->links, ret);
	} else if (t->err.kind != ERR_NONE) {
		ret->error = t->err;
	} else {
		err_set(&ret->error, ERR_UNAVAILABLE, 0, "host %s isn't resolved yet", t->host);
	}
	snprintf(ret->controller, sizeof(ret->controller), "%s", t->name);
}

static void look(struct fabric *f)
{
	struct fabric_reach *now = xcalloc(f->n_targets + 1, sizeof(*now));
	bool same = f->facts->n_reach == f->n_targets;

	for (size_t i = 0; i < f->n_targets; i++) {
		find_reach(f, f->targets[i], &now[i]);
		same = same && reach_equal(&now[i], &f->facts->reach[i]);
	}
	free(f->facts->reach);
	f->facts->reach = now;
	f->facts->n_reach = f->n_targets;
	f->looked = true;
	if (!same)
		changed(f);
	see_whether_complete(f);
}

/* A name that is new in the list isn't unknown while its server may still answer. */
static void on_look(struct loop_work *work, void *arg)
{
	struct fabric *f = arg;
	int64_t began_us = clock_mono_us();

	(void)work;
	loop_timer_stop(&f->look_later);
	if (clock_mono_ms() < f->patience_ms && !all_answered(f)) {
		loop_timer_start_at(&f->look_later, f->patience_ms);
		return;
	}
	look(f);
	f->next_look_ms = clock_mono_ms() + look_pause_ms(clock_mono_us() - began_us, LOOK_MS);
}

static void on_look_later(struct loop_timer *timer, void *arg)
{
	struct fabric *f = arg;

	(void)timer;
	loop_work_post(&f->look);
}

static void on_links(void *arg)
{
	look_soon(arg);
}

/* ---- addresses of the controllers ---- */

static void resolve(struct target *t);

static void on_resolve_again(struct loop_timer *timer, void *arg)
{
	(void)timer;
	resolve(arg);
}

/* Addresses that were known stay when no server answers; a server that says that there is no such
 * host is believed. */
static void on_resolved(const struct net_addr *addrs, size_t n, const struct err *err, void *arg)
{
	struct target *t = arg;
	int64_t again_ms = RESOLVE_AGAIN_MS;

	t->resolve = NULL;
	t->answered = true;
	t->fabric->looked = false;
	if (err) {
		t->err = *err;
		if (err->kind == ERR_NOT_FOUND || err->kind == ERR_INVALID)
			t->n_addrs = 0;
		again_ms = backoff_next_ms(&t->backoff, NULL);
	} else {
		t->n_addrs = n < MAX_TRIED ? n : MAX_TRIED;
		memcpy(t->addrs, addrs, t->n_addrs * sizeof(*addrs));
		backoff_reset(&t->backoff);
	}
	/* A numeric address stays what it is, unless its zone is an interface's name. */
	struct net_addr numeric;
	if (net_addr_parse(t->host, 0, &numeric) < 0 || strchr(t->host, '%'))
		loop_timer_start_in(&t->again, again_ms);
	loop_work_post(&t->fabric->look);
}

static void resolve(struct target *t)
{
	t->resolve = net_resolve_start(t->fabric->net, NULL, t->host, 0,
				       clock_mono_ms() + RESOLVE_MS, on_resolved, t);
}

static void free_target(void *p)
{
	struct target *t = p;

	free(t->name);
	free(t->host);
	free(t);
}

static void end_target(struct target *t)
{
	op_cancel(t->resolve);
	t->resolve = NULL;
	loop_timer_stop(&t->again);
	loop_reap(t->fabric->loop, t, free_target);
}

static struct target *begin_target(struct fabric *f, const struct vipu_address *address)
{
	struct target *t = xcalloc(1, sizeof(*t));

	t->fabric = f;
	t->name = xstrdup(address->name);
	t->host = xstrdup(address->host);
	t->backoff = (struct backoff)BACKOFF_INIT(1000, 15000);
	loop_timer_init(&t->again, f->loop, on_resolve_again, t);
	resolve(t);
	return t;
}

/* One that was there already keeps what is known of it. */
static struct target *take_target(struct fabric *f, const char *name)
{
	for (size_t i = 0; i < f->n_targets; i++) {
		struct target *t = f->targets[i];

		if (t && strcmp(t->name, name) == 0) {
			f->targets[i] = NULL;
			return t;
		}
	}
	return NULL;
}

void fabric_set_controllers(struct fabric *f, const struct vipu_address_list *controllers)
{
	size_t n = controllers ? controllers->n : 0;
	struct target **targets = xcalloc(n + 1, sizeof(struct target *));

	for (size_t i = 0; i < n; i++) {
		const struct vipu_address *address = &controllers->items[i];

		targets[i] = take_target(f, address->name);
		if (!targets[i])
			targets[i] = begin_target(f, address);
	}
	for (size_t i = 0; i < f->n_targets; i++) {
		if (f->targets[i])
			end_target(f->targets[i]);
	}
	free(f->targets);
	f->targets = targets;
	f->n_targets = n;
	f->looked = false;
	f->patience_ms = clock_mono_ms() + PATIENCE_MS;
	loop_work_post(&f->look);
}

/* ---- RDMA devices ---- */

static void on_rdma(void *arg)
{
	struct fabric *f = arg;

	f->facts->rdma = *rdma_inventory(f->rdma); /* the one before is gone */
	changed(f);
	/* Which port an interface has may be another one now. */
	loop_work_post(&f->look);
}

/* ---- the host ---- */

static void on_read(struct loop_work *work, void *arg)
{
	struct fabric *f = arg;
	struct fabric_host host;

	(void)work;
	if (!f->reader)
		f->reader = host_reader_new(f->root, f->cni_folder, f->limits_only);
	if (!host_reader_step(f->reader, HOST_PROCESSES, &host)) {
		loop_work_post(&f->read);
		return;
	}
	host_reader_free(f->reader);
	f->reader = NULL;
	if (!fabric_host_equal(&host, &f->facts->host))
		changed(f);
	fabric_host_done(&f->facts->host);
	f->facts->host = host;
	see_whether_complete(f);
}

static void on_periodic(struct loop_timer *timer, void *arg)
{
	struct fabric *f = arg;

	(void)timer;
	loop_work_post(&f->read);
	look_soon(f);
	loop_timer_start_in(&f->periodic, f->host_ms);
}

/* ---- all ---- */

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct fabric *f = arg;

	(void)timer;
	f->late = true;
	see_whether_complete(f);
}

static void on_tell(struct loop_work *work, void *arg)
{
	struct fabric *f = arg;

	(void)work;
	f->cb(f->arg);
}

static void init_watchers(struct fabric *f)
{
	loop_work_init(&f->look, f->loop, on_look, f);
	loop_work_init(&f->tell, f->loop, on_tell, f);
	loop_work_init(&f->read, f->loop, on_read, f);
	loop_timer_init(&f->look_later, f->loop, on_look_later, f);
	loop_timer_init(&f->deadline, f->loop, on_deadline, f);
	loop_timer_init(&f->periodic, f->loop, on_periodic, f);
}

struct fabric *fabric_new(struct net *net, const struct fabric_opts *opts, fabric_changed_fn *cb,
			  void *arg)
{
	struct fabric *f = xcalloc(1, sizeof(*f));

	f->loop = net_loop(net);
	f->net = net;
	f->cb = cb;
	f->arg = arg;
	f->root = xstrdup(opts->root);
	f->cni_folder = xstrdup(opts->cni_folder);
	f->limits_only = opts->limits_only;
	f->host_ms = opts->host_ms ? opts->host_ms : HOST_MS;
	f->facts = xcalloc(1, sizeof(*f->facts));
	init_watchers(f);
	f->rdma = rdma_new(f->loop, on_rdma, f);
	f->facts->rdma = *rdma_inventory(f->rdma);
	f->links = links_new(f->loop, on_links, f);
	fabric_set_controllers(f, opts->controllers);
	loop_work_post(&f->read);
	loop_timer_start_in(&f->deadline, COMPLETE_MS);
	loop_timer_start_in(&f->periodic, f->host_ms);
	return f;
}

static void free_fabric(void *p)
{
	struct fabric *f = p;

	f->facts->rdma = (struct rdma_inventory){0};
	fabric_facts_done(f->facts);
	free(f->facts);
	free(f->targets);
	free(f->root);
	free(f->cni_folder);
	free(f);
}

void fabric_free(struct fabric *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n_targets; i++)
		end_target(f->targets[i]);
	loop_work_cancel(&f->look);
	loop_work_cancel(&f->tell);
	loop_work_cancel(&f->read);
	loop_timer_stop(&f->look_later);
	loop_timer_stop(&f->deadline);
	loop_timer_stop(&f->periodic);
	host_reader_free(f->reader);
	links_free(f->links);
	rdma_free(f->rdma);
	loop_reap(f->loop, f, free_fabric);
}

const struct fabric_facts *fabric_facts(const struct fabric *f)
{
	f->facts->rdma = *rdma_inventory(f->rdma);
	return f->facts;
}

int fabric_look_at(const struct fabric *f, const char *link, struct fabric_reach *ret,
		   struct err *err)
{
	int index = (int)if_nametoindex(link);
	struct nl_link found;

	*ret = (struct fabric_reach){.mtu_bytes = 0};
	if (index == 0)
		return err_set(err, ERR_NOT_FOUND, 0, "there is no interface %s here", link);
	if (links_get(f->links, index, &found, err) < 0)
		return -1;
	reach_look(f->links, &found, rdma_inventory(f->rdma), ret);
	return 0;
}
