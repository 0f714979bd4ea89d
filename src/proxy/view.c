/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open port's answers: sums over entries and controllers (doc/openapi.yaml;
 * doc/design/decisions.md, "What capacity is"). Each is kept as the text that it was sent as, until
 * something that is in it changes.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "core/map.h"
#include "internal.h"
#include "sums.h"

/* What changes without a word (which entries a fresh list confirms, what the queue keeps for whom)
 * is looked at again after this. */
#define KEEP_MS 1000

#define TOTAL       "total"
#define TOTAL_OF_NS "namespace/total" /* no namespace can be called so */

static const char no_power[] = "the size of a partition is a power of two: 1, 2, 4, 8 and so on";

/* ---- the operator's IPUs, by controller ---- */

struct held {
	int64_t ipus;
	int64_t entries;
};

struct by_controller {
	const struct partitions *partitions;
	struct map *held;
	int64_t ipus; /* all of them */
};

static void add_held(const struct partition_entry *e, void *arg)
{
	struct by_controller *b = arg;
	struct held *h = map_get(b->held, str_of(e->controller));

	if (!h) {
		h = xcalloc(1, sizeof(*h));
		map_put(b->held, str_of(e->controller), h);
	}
	h->entries++;
	if (!partition_holds_ipus(b->partitions, e))
		return;
	h->ipus += e->ask.ipus;
	b->ipus += e->ask.ipus;
}

static void by_controller_init(struct by_controller *b, const struct proxy *p)
{
	*b = (struct by_controller){.partitions = p->partitions, .held = map_new()};
	partitions_each_entry(p->partitions, add_held, b);
}

static void free_values(struct map *m)
{
	struct map_iter it = MAP_ITER(m);

	while (map_next(&it))
		free(it.value);
	map_free(m);
}

static struct held held_by(const struct by_controller *b, const struct vipu_controller *c)
{
	static const struct held none;
	const struct held *h = map_get(b->held, str_of(c->name));

	return h ? *h : none;
}

/* ---- /stats ---- */

struct used {
	const struct partitions *partitions;
	struct map *by_ns; /* namespace → int64_t */
	int64_t total;
};

static void add_used(const struct partition_entry *e, void *arg)
{
	struct used *u = arg;
	struct str ns = str_of(e->ask.owner.ns);
	int64_t *n;

	if (!partition_holds_ipus(u->partitions, e))
		return;
	n = map_get(u->by_ns, ns);
	if (!n) {
		n = xcalloc(1, sizeof(*n));
		map_put(u->by_ns, ns, n);
	}
	*n += e->ask.ipus;
	u->total += e->ask.ipus;
}

/* Of every configured controller that has ever answered, what the operator doesn't hold there. */
static int64_t count_available(const struct proxy *p)
{
	struct by_controller by;
	int64_t n = 0, rest;

	by_controller_init(&by, p);
	for (size_t i = 0; i < vipu_fleet_len(p->fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);

		rest = c->capacity.total_ipus - held_by(&by, c).ipus;
		if (c->configured && c->fresh_ms && rest > 0)
			n += rest;
	}
	free_values(by.held);
	return n;
}

static struct jmut *usage(struct jmut_doc *doc, int64_t used, int64_t available)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_int(doc, obj, "used", used);
	jmut_set_int(doc, obj, "available", available);
	return obj;
}

static void render_stats(struct proxy *p, struct jmut_doc *doc, struct jmut *root)
{
	struct used used = {.partitions = p->partitions, .by_ns = map_new()};
	struct map_iter it = MAP_ITER(used.by_ns);
	int64_t available = count_available(p);

	partitions_each_entry(p->partitions, add_used, &used);
	while (map_next(&it)) {
		struct str name = str_eqz(it.key, TOTAL) ? STR(TOTAL_OF_NS) : it.key;

		jmut_add(doc, root, name, usage(doc, *(int64_t *)it.value, available));
	}
	jmut_add(doc, root, STR(TOTAL), usage(doc, used.total, available));
	free_values(used.by_ns);
}

/* ---- /capacity ---- */

static void set_sums(struct jmut_doc *doc, struct jmut *obj, const struct sums *s)
{
	jmut_set_int(doc, obj, "totalIPUs", s->total);
	jmut_set_int(doc, obj, "usedIPUs", s->used);
	jmut_set_int(doc, obj, "externalIPUs", s->external);
	jmut_set_int(doc, obj, "freeIPUs", s->left);
	jmut_set_int(doc, obj, "reservedIPUs", s->reserved);
	jmut_set_int(doc, obj, "largest", s->largest);
}

static void set_controller(struct jmut_doc *doc, struct jmut *obj, const struct vipu_controller *c)
{
	bool reachable = c->reach == VIPU_REACH_YES;

	jmut_set_str(doc, obj, "name", c->name);
	jmut_set_bool(doc, obj, "reachable", reachable);
	jmut_set_str(doc, obj, "reason",
		     reachable                        ? ""
		     : c->reach == VIPU_REACH_UNKNOWN ? "it hasn't been asked to the end yet"
						      : c->reason);
	jmut_set_bool(doc, obj, "cordoned", c->cordoned);
	jmut_set_bool(doc, obj, "draining", c->draining);
	jmut_set_bool(doc, obj, "noReadyNode", c->no_node);
	jmut_set_bool(doc, obj, "configured", c->configured);
}

static struct jmut *domains(struct jmut_doc *doc, const struct vipu_controller *c)
{
	struct jmut *list = jmut_array(doc);
	size_t total = c->machines.n_ipus;
	struct vipu_layout layout;

	if (c->reach != VIPU_REACH_YES)
		return list;
	vipu_layout_make(total, &c->partitions, &layout);
	for (size_t i = 0; layout.by_position && i < layout.n_domains; i++) {
		size_t left = total - i * VIPU_DOMAIN_IPUS;
		struct jmut *obj = jmut_object(doc);

		jmut_set_int(doc, obj, "domain", (int64_t)i);
		jmut_set_int(doc, obj, "totalIPUs",
			     left < VIPU_DOMAIN_IPUS ? (int64_t)left : VIPU_DOMAIN_IPUS);
		jmut_set_int(doc, obj, "freeIPUs", __builtin_popcountll(~layout.taken[i]));
		jmut_push(doc, list, obj);
	}
	vipu_layout_done(&layout);
	return list;
}

static void render_capacity(struct proxy *p, struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *list = jmut_array(doc), *total = jmut_object(doc);
	struct by_controller by;
	struct sums all = {0}, elsewhere;

	by_controller_init(&by, p);
	for (size_t i = 0; i < vipu_fleet_len(p->fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);
		struct sums s = sums_of(p->partitions, c, held_by(&by, c).ipus);
		struct jmut *obj = jmut_object(doc);

		set_controller(doc, obj, c);
		set_sums(doc, obj, &s);
		jmut_set(doc, obj, "domains", domains(doc, c));
		jmut_push(doc, list, obj);
		sums_add(&all, &s);
	}
	free_values(by.held);
	elsewhere = sums_elsewhere(by.ipus - all.used);
	sums_add(&all, &elsewhere);
	set_sums(doc, total, &all);
	jmut_set(doc, root, "controllers", list);
	jmut_set(doc, root, "total", total);
}

/* ---- /queue ---- */

struct list_of {
	struct jmut_doc *doc;
	struct jmut *list;
};

static void set_time(struct jmut_doc *doc, struct jmut *obj, int64_t wall_ms)
{
	char z[CLOCK_RFC3339_SIZE];

	clock_format(wall_ms, z);
	jmut_set_str(doc, obj, "since", z);
}

static void add_waiting(const struct partition_waiting *w, void *arg)
{
	struct list_of *l = arg;
	struct jmut *obj = jmut_object(l->doc);
	const struct partition_ask *ask = w->ask;

	jmut_set_int(l->doc, obj, "position", w->position);
	jmut_set_str(l->doc, obj, "namespace", ask->owner.ns);
	jmut_set_str(l->doc, obj, "kind", ask->owner.kind);
	jmut_set_str(l->doc, obj, "name", ask->owner.name);
	jmut_set_int(l->doc, obj, "instance", ask->instance);
	jmut_set_int(l->doc, obj, "ipus", ask->ipus);
	jmut_set_int(l->doc, obj, "priority", ask->priority);
	set_time(l->doc, obj, w->since_ms);
	jmut_set_str(l->doc, obj, "reason", partition_why_name(w->why));
	jmut_set_str(l->doc, obj, "message", w->message ? w->message : "");
	jmut_push(l->doc, l->list, obj);
}

static void render_queue(struct proxy *p, struct jmut_doc *doc, struct jmut *root)
{
	struct list_of l = {doc, jmut_array(doc)};

	partitions_each_waiting(p->partitions, add_waiting, &l);
	jmut_set(doc, root, "items", l.list);
}

/* ---- /partitions ---- */

struct entries {
	const struct partition_entry **p;
	size_t n, cap;
};

static void add_entry(const struct partition_entry *e, void *arg)
{
	struct entries *all = arg;

	if (all->n == all->cap) {
		all->cap = all->cap ? 2 * all->cap : 64;
		all->p = xrealloc(all->p, all->cap * sizeof(const struct partition_entry *));
	}
	all->p[all->n++] = e;
}

static int by_owner(const void *a, const void *b)
{
	const struct partition_entry *x = *(const struct partition_entry *const *)a;
	const struct partition_entry *y = *(const struct partition_entry *const *)b;
	int order = strcmp(x->ask.owner.ns, y->ask.owner.ns);

	if (!order)
		order = strcmp(x->ask.owner.name, y->ask.owner.name);
	if (!order)
		order = x->ask.instance < y->ask.instance ? -1 : x->ask.instance > y->ask.instance;
	return order ? order : strcmp(x->id, y->id);
}

static struct jmut *render_entry(struct jmut_doc *doc, const struct partition_entry *e)
{
	struct jmut *obj = jmut_object(doc), *owner = jmut_object(doc);

	jmut_set_str(doc, obj, "id", e->id);
	jmut_set_str(doc, obj, "state", partition_phase_name(e->phase));
	jmut_set_str(doc, obj, "controller", e->controller);
	jmut_set_int(doc, obj, "ipus", e->ask.ipus);
	set_time(doc, obj, e->since_ms);
	jmut_set_str(doc, obj, "reason", e->reason ? e->reason : "");
	jmut_set_str(doc, owner, "kind", e->ask.owner.kind);
	jmut_set_str(doc, owner, "namespace", e->ask.owner.ns);
	jmut_set_str(doc, owner, "name", e->ask.owner.name);
	jmut_set_str(doc, owner, "uid", e->ask.owner.uid);
	jmut_set(doc, obj, "owner", owner);
	jmut_set_int(doc, obj, "instance", e->ask.instance);
	return obj;
}

static void render_partitions(struct proxy *p, struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *list = jmut_array(doc);
	struct entries all = {0};

	partitions_each_entry(p->partitions, add_entry, &all);
	if (all.n > 1)
		qsort(all.p, all.n, sizeof(const struct partition_entry *), by_owner);
	for (size_t i = 0; i < all.n; i++)
		jmut_push(doc, list, render_entry(doc, all.p[i]));
	free(all.p);
	jmut_set(doc, root, "items", list);
}

/* ---- /controllers ---- */

static void render_controllers(struct proxy *p, struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *list = jmut_array(doc);
	struct by_controller by;

	by_controller_init(&by, p);
	for (size_t i = 0; i < vipu_fleet_len(p->fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);
		struct jmut *obj = jmut_object(doc);

		set_controller(doc, obj, c);
		jmut_set_str(doc, obj, "version", c->version ? c->version : "");
		jmut_set_int(doc, obj, "ipus", c->capacity.total_ipus);
		jmut_set_int(doc, obj, "partitions", held_by(&by, c).entries);
		jmut_set(doc, obj, "label",
			 c->address.label[0]
				 ? jmut_strf(doc, "%s=%s", c->address.label, c->address.value)
				 : jmut_strz(doc, ""));
		jmut_push(doc, list, obj);
	}
	free_values(by.held);
	jmut_set(doc, root, "items", list);
}

/* ---- what all owners have ---- */

static void render_owners(struct proxy *p, struct jmut_doc *doc, struct jmut *root)
{
	status_list_render(p->partitions, NULL, doc, root);
}

/* ---- /query ---- */

static void render_query(struct proxy *p, uint32_t size, struct jmut_doc *doc, struct jmut *root)
{
	struct vipu_fleet_sums sums;

	vipu_fleet_sum(p->fleet, &sums);
	jmut_set_bool(doc, root, "available", sums.reachable > 0);
	jmut_set_int(doc, root, "numOfPartitions",
		     size ? partitions_count_fits(p->partitions, size) : 0);
	jmut_set_str(doc, root, "message",
		     !size                 ? no_power
		     : sums.reachable == 0 ? "no V-IPU controller answers"
					   : "");
}

/* ---- what is kept ---- */

static bool is_fresh(const struct proxy *p, const struct view *v)
{
	return v->made && v->partitions_generation == partitions_generation(p->partitions) &&
	       v->fleet_generation == p->fleet_generation && clock_mono_ms() - v->made_ms < KEEP_MS;
}

static int keep(const struct proxy *p, struct view *v, const struct jmut *root, struct err *err)
{
	buf_done(&v->text);
	buf_init(&v->text, REPLY_LIMIT);
	v->made = false;
	if (jmut_write(root, JSON_COMPACT, &v->text, err) < 0 ||
	    buf_append(&v->text, "\n", 1, err) < 0)
		return -1;
	v->made = true;
	v->made_ms = clock_mono_ms();
	v->partitions_generation = partitions_generation(p->partitions);
	v->fleet_generation = p->fleet_generation;
	return 0;
}

int view_get(struct proxy *p, enum view_kind kind, struct str *ret, struct err *err)
{
	static void (*const renderers[N_VIEWS])(struct proxy *, struct jmut_doc *,
						struct jmut *) = {
		render_stats,      render_capacity,    render_queue,
		render_partitions, render_controllers, render_owners};
	struct view *v = &p->views[kind];

	if (!is_fresh(p, v)) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *root = jmut_object(doc);

		renderers[kind](p, doc, root);
		if (keep(p, v, root, err) < 0)
			return -1;
	}
	*ret = buf_str(&v->text);
	return 0;
}

int view_get_query(struct proxy *p, int64_t size, struct str *ret, struct err *err)
{
	bool power = size <= UINT32_MAX && vipu_is_power_of_two((uint32_t)size);
	struct view *v = &p->sizes[power ? __builtin_ctzll((unsigned long long)size) : N_SIZES - 1];

	if (!is_fresh(p, v)) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *root = jmut_object(doc);

		render_query(p, power ? (uint32_t)size : 0, doc, root);
		if (keep(p, v, root, err) < 0)
			return -1;
	}
	*ret = buf_str(&v->text);
	return 0;
}

static void forget(struct view *v)
{
	buf_done(&v->text);
	v->made = false;
}

void view_forget_all(struct proxy *p)
{
	for (size_t i = 0; i < N_VIEWS; i++)
		forget(&p->views[i]);
	for (size_t i = 0; i < N_SIZES; i++)
		forget(&p->sizes[i]);
}
