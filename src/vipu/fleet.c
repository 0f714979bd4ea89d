/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet: which controllers there are, who holds them, and when each is asked. It owns
 * controllers; fleet_refresh.c asks one and judges its answers.
 * Uses core, loop, net, grpc.
 */
#include "vipu/fleet.h"

#include <stdlib.h>

#include "core/log.h"
#include "fleet_member.h"
#include "net/net.h"

/* ---- the list ---- */

static struct fleet_member *find_member(const struct vipu_fleet *fleet, const char *name)
{
	LIST_FOREACH(pos, tmp, &fleet->members) {
		struct fleet_member *m = CONTAINER_OF(pos, struct fleet_member, place);
		if (strcmp(m->c.name, name) == 0)
			return m;
	}
	return NULL;
}

size_t vipu_fleet_len(const struct vipu_fleet *fleet)
{
	size_t n = 0;

	LIST_FOREACH(pos, tmp, &fleet->members)
		n++;
	return n;
}

struct vipu_controller *vipu_fleet_at(const struct vipu_fleet *fleet, size_t i)
{
	LIST_FOREACH(pos, tmp, &fleet->members)
		if (i-- == 0)
			return &CONTAINER_OF(pos, struct fleet_member, place)->c;
	return NULL;
}

struct vipu_controller *vipu_fleet_find(const struct vipu_fleet *fleet, const char *name)
{
	struct fleet_member *m = find_member(fleet, name);

	return m ? &m->c : NULL;
}

struct vipu_client *vipu_fleet_client(const struct vipu_fleet *fleet, const char *name)
{
	struct fleet_member *m = find_member(fleet, name);

	return m ? m->c.client : NULL;
}

/* ---- telling of changes ---- */

static void tell(struct vipu_fleet *fleet, const char *name)
{
	LIST_FOREACH(pos, tmp, &fleet->watches)
		CONTAINER_OF(pos, struct vipu_fleet_watch, link)->in_turn = true;
	/* From the front each time: a callback may stop any watch. */
	bool found = true;
	while (found && !fleet->freed) {
		found = false;
		LIST_FOREACH(pos, tmp, &fleet->watches) {
			struct vipu_fleet_watch *w = CONTAINER_OF(pos, struct vipu_fleet_watch,
								  link);
			if (!w->in_turn)
				continue;
			w->in_turn = false;
			found = true;
			w->cb(w->arg, name);
			break;
		}
	}
}

static void on_change_work(struct loop_work *work, void *arg)
{
	struct vipu_fleet *fleet = arg;
	(void)work;

	if (fleet->list_changed) {
		fleet->list_changed = false;
		tell(fleet, NULL);
	}
	bool found = true;
	while (found && !fleet->freed) {
		found = false;
		LIST_FOREACH(pos, tmp, &fleet->members) {
			struct fleet_member *m = CONTAINER_OF(pos, struct fleet_member, place);
			if (!m->changed)
				continue;
			m->changed = false;
			found = true;
			tell(fleet, m->c.name);
			break;
		}
	}
}

void fleet_member_changed(struct fleet_member *m)
{
	m->changed = true;
	m->c.generation++;
	loop_work_post(&m->fleet->change_work);
}

static void list_changed(struct vipu_fleet *fleet)
{
	fleet->list_changed = true;
	loop_work_post(&fleet->change_work);
}

void vipu_fleet_watch_start(struct vipu_fleet *fleet, struct vipu_fleet_watch *w,
			    vipu_fleet_change_fn *cb, void *arg)
{
	*w = (struct vipu_fleet_watch){.cb = cb, .arg = arg};
	list_append(&fleet->watches, &w->link);
}

void vipu_fleet_watch_stop(struct vipu_fleet_watch *w)
{
	list_unlink(&w->link);
	w->in_turn = false;
}

/* ---- members ---- */

static struct vipu_client *make_client(struct vipu_fleet *fleet, const struct vipu_address *a,
				       const struct vipu_fleet_entry *e)
{
	struct vipu_client_config config = {
		.host = a->host,
		.port = a->port,
		.tls = e ? e->tls : NULL,
		.server_name = a->server_name[0] ? a->server_name : NULL,
		.user_key = e ? e->user_key : NULL,
		.access_key = e ? e->access_key : NULL,
		.user = e ? e->user : NULL,
		.access = e ? e->access : NULL,
		.unusable = e ? e->unusable : NULL,
	};

	return vipu_client_new(fleet->net, &config);
}

static struct fleet_member *add_member(struct vipu_fleet *fleet, const struct vipu_address *a,
				       const struct vipu_fleet_entry *e)
{
	struct fleet_member *m = xcalloc(1, sizeof(*m));

	m->fleet = fleet;
	vipu_address_copy(a, &m->c.address);
	m->c.name = m->c.address.name;
	m->c.version = xstrdup("");
	m->c.since_ms = clock_mono_ms();
	m->c.client = make_client(fleet, a, e);
	m->tls = tls_config_ref(e ? e->tls : NULL);
	m->unusable = e && e->unusable;
	m->expected = e && e->expected;
	list_append(&fleet->members, &m->place);
	fleet_member_init(m);
	log_info("vipu", m->c.name, "controller added");
	list_changed(fleet);
	return m;
}

static void free_member(void *p)
{
	struct fleet_member *m = p;

	vipu_machines_done(&m->c.machines);
	vipu_partitions_done(&m->c.partitions);
	vipu_layout_done(&m->c.layout);
	vipu_address_done(&m->c.address);
	tls_config_unref(m->tls);
	free(m->c.version);
	free(m);
}

/* Those who wait for a view of it are told that it has gone, unless the fleet ends. */
static void drop_member(struct fleet_member *m)
{
	struct vipu_fleet *fleet = m->fleet;

	log_info("vipu", m->c.name, "controller dropped");
	list_unlink(&m->place);
	fleet_member_done(m);
	vipu_client_free(m->c.client);
	m->c.client = NULL;
	loop_reap(fleet->loop, m, free_member);
	if (!fleet->freed)
		list_changed(fleet);
}

/* ---- configuration ---- */

static void update_member(struct fleet_member *m, const struct vipu_fleet_entry *e)
{
	struct vipu_client_config auth = {
		.host = e->address->host,
		.server_name = e->address->server_name[0] ? e->address->server_name : NULL,
		.tls = e->tls,
		.user_key = e->user_key,
		.access_key = e->access_key,
		.user = e->user,
		.access = e->access,
		.unusable = e->unusable,
	};
	struct tls_config *old_tls = m->tls;
	bool cordoned = e->cordoned || e->draining;
	bool moved = !m->c.configured || !vipu_address_equal(&m->c.address, e->address);
	bool mended = m->unusable && !e->unusable;
	bool changed = moved || m->c.cordoned != cordoned || m->c.draining != e->draining;

	m->c.configured = true;
	m->c.cordoned = cordoned;
	m->c.draining = e->draining;
	vipu_client_set_auth(m->c.client, &auth);
	m->tls = tls_config_ref(e->tls);
	tls_config_unref(old_tls);
	if (moved) {
		struct vipu_address fresh;
		vipu_address_copy(e->address, &fresh);
		fleet_member_set_address(m, &fresh);
	}
	m->unusable = e->unusable != NULL;
	m->expected = e->expected;
	if (mended || (m->unusable && strcmp(m->c.reason, e->unusable) != 0))
		fleet_member_ask(m); /* says what it is now */
	if (changed)
		fleet_member_changed(m);
}

void vipu_fleet_configure(struct vipu_fleet *fleet, const struct vipu_fleet_entry *entries,
			  size_t n)
{
	struct list wanted = LIST_INIT(wanted);

	for (size_t i = 0; i < n; i++) {
		struct fleet_member *m = find_member(fleet, entries[i].address->name);
		if (!m)
			m = add_member(fleet, entries[i].address, &entries[i]);
		update_member(m, &entries[i]);
		list_unlink(&m->place);
		list_append(&wanted, &m->place);
	}
	/* What is left isn't in the configuration any more. */
	LIST_FOREACH(pos, tmp, &fleet->members) {
		struct fleet_member *m = CONTAINER_OF(pos, struct fleet_member, place);
		if (m->c.holds == 0) {
			drop_member(m);
			continue;
		}
		if (m->c.configured) {
			m->c.configured = false;
			fleet_member_changed(m);
			list_changed(fleet);
		}
		list_unlink(&m->place);
		list_append(&wanted, &m->place);
	}
	while (!list_empty(&wanted)) {
		struct list *first = wanted.next;
		list_unlink(first);
		list_append(&fleet->members, first);
	}
}

void vipu_fleet_set_no_node(struct vipu_fleet *fleet, const char *name, bool no_node)
{
	struct fleet_member *m = find_member(fleet, name);

	if (!m || m->c.no_node == no_node)
		return;
	m->c.no_node = no_node;
	fleet_member_changed(m);
}

int vipu_fleet_hold(struct vipu_fleet *fleet, const char *name, struct err *err)
{
	struct fleet_member *m = find_member(fleet, name);

	if (!m) {
		struct vipu_address_list list;
		vipu_address_parse(str_of(name), &list);
		if (list.n == 1 && strcmp(list.items[0].name, name) == 0)
			m = add_member(fleet, &list.items[0], NULL);
		vipu_address_list_done(&list);
	}
	if (!m)
		return err_set(err, ERR_INVALID, 0, "\"%s\" is no controller's address", name);
	m->c.holds++;
	return 0;
}

void vipu_fleet_release(struct vipu_fleet *fleet, const char *name)
{
	struct fleet_member *m = find_member(fleet, name);

	if (!m || m->c.holds == 0)
		return;
	if (--m->c.holds > 0)
		return;
	if (!m->c.configured)
		drop_member(m);
	else if (m->c.draining)
		fleet_member_changed(m); /* it's empty now, and somebody waits for that */
}

/* ---- rhythm ---- */

void vipu_fleet_wait_begin(struct vipu_fleet *fleet)
{
	if (fleet->waiting++ > 0)
		return;
	LIST_FOREACH(pos, tmp, &fleet->members)
		fleet_member_schedule(CONTAINER_OF(pos, struct fleet_member, place));
}

void vipu_fleet_wait_end(struct vipu_fleet *fleet)
{
	if (fleet->waiting > 0)
		fleet->waiting--;
}

void vipu_fleet_refresh(struct vipu_fleet *fleet, const char *name)
{
	LIST_FOREACH(pos, tmp, &fleet->members) {
		struct fleet_member *m = CONTAINER_OF(pos, struct fleet_member, place);
		if (!name || strcmp(m->c.name, name) == 0)
			fleet_member_ask(m);
	}
}

/* ---- one view, asked for now ---- */

static void cancel_refresh(struct op *op)
{
	struct fleet_refresh *r = CONTAINER_OF(op, struct fleet_refresh, op);

	list_unlink(&r->place);
	loop_work_cancel(&r->work);
	loop_reap(r->fleet->loop, r, free);
}

void fleet_refresh_end(struct fleet_refresh *r, const struct err *err,
		       const struct vipu_controller *c)
{
	if (!op_end(&r->op))
		return;
	cancel_refresh(&r->op);
	r->cb(r->arg, err, c);
}

static void on_gone_work(struct loop_work *work, void *arg)
{
	struct err err = ERR_INIT;
	(void)work;

	err_set(&err, ERR_NOT_FOUND, 0, "there is no such V-IPU controller any more");
	fleet_refresh_end(arg, &err, NULL);
}

void fleet_refresh_gone(struct fleet_refresh *r)
{
	/* One of those who waited for the same look may have ended the fleet. */
	if (r->fleet->freed) {
		op_cancel(&r->op);
		return;
	}
	list_unlink(&r->place);
	list_append(&r->fleet->gone, &r->place);
	loop_work_post(&r->work);
}

struct op *vipu_fleet_refresh_start(struct vipu_fleet *fleet, const char *name,
				    vipu_refreshed_fn *cb, void *arg, struct scope *scope)
{
	struct fleet_member *m = find_member(fleet, name);
	struct fleet_refresh *r = xcalloc(1, sizeof(*r));

	r->fleet = fleet;
	r->cb = cb;
	r->arg = arg;
	list_init(&r->place);
	loop_work_init(&r->work, fleet->loop, on_gone_work, r);
	op_begin(&r->op, scope, cancel_refresh);
	if (m)
		fleet_member_await(m, r);
	else
		fleet_refresh_gone(r);
	return &r->op;
}

/* ---- sums ---- */

void vipu_fleet_sum(const struct vipu_fleet *fleet, struct vipu_fleet_sums *ret)
{
	*ret = (struct vipu_fleet_sums){0};
	LIST_FOREACH(pos, tmp, &fleet->members) {
		const struct vipu_controller *c = &CONTAINER_OF(pos, struct fleet_member, place)->c;
		if (!c->configured)
			continue;
		ret->controllers++;
		if (c->reach != VIPU_REACH_YES)
			continue;
		ret->reachable++;
		ret->total_ipus += c->capacity.total_ipus;
		ret->taken_ipus += c->capacity.taken_ipus;
		ret->free_ipus += c->capacity.free_ipus;
		if (c->capacity.largest > ret->largest)
			ret->largest = c->capacity.largest;
	}
}

/* ---- the fleet ---- */

struct vipu_fleet *vipu_fleet_new(struct net *net, const struct vipu_fleet_options *options)
{
	struct vipu_fleet *fleet = xcalloc(1, sizeof(*fleet));

	if (options)
		fleet->options = *options;
	if (!fleet->options.call_ms)
		fleet->options.call_ms = 10000;
	if (!fleet->options.idle_ms)
		fleet->options.idle_ms = 30000;
	if (!fleet->options.urgent_ms)
		fleet->options.urgent_ms = 2500;
	fleet->net = net;
	fleet->loop = net_loop(net);
	list_init(&fleet->members);
	list_init(&fleet->watches);
	list_init(&fleet->gone);
	loop_work_init(&fleet->change_work, fleet->loop, on_change_work, fleet);
	return fleet;
}

void vipu_fleet_free(struct vipu_fleet *fleet)
{
	if (!fleet || fleet->freed)
		return;
	fleet->freed = true;
	while (!list_empty(&fleet->watches))
		vipu_fleet_watch_stop(
			CONTAINER_OF(fleet->watches.next, struct vipu_fleet_watch, link));
	while (!list_empty(&fleet->members))
		drop_member(CONTAINER_OF(fleet->members.next, struct fleet_member, place));
	while (!list_empty(&fleet->gone)) {
		struct fleet_refresh *r = CONTAINER_OF(fleet->gone.next, struct fleet_refresh,
						       place);
		op_cancel(&r->op);
	}
	loop_work_cancel(&fleet->change_work);
	loop_reap(fleet->loop, fleet, free);
}
