/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The advertiser: looks at all Nodes a moment after something has changed, and writes a few at a
 * time. Nothing is kept between two looks but who was written to lately: a Node that somebody else
 * changes back, or that can't be written, is tried again ever more slowly.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/map.h"
#include "core/metrics.h"
#include "core/str.h"
#include "loop/backoff.h"
#include "loop/op.h"
#include "node/advertise.h"

#define GATHER_MS 200  /* from the first change to the look */
#define RETRY_MS  2000 /* while it mustn't act yet */
/* 50 Nodes a second at most, five at the same time. */
#define BATCH    5
#define BATCH_MS 100
/* Between two writes to one Node. */
#define AGAIN_MS     2000
#define AGAIN_MAX_MS 300000
#define CALM_MS      600000 /* a Node that was left in peace for so long begins anew */
#define COMPLAIN_MS  60000
#define NEWS_MS      2000 /* between two pieces of news for the scheduler */

struct target {
	struct advertiser *a;
	char *name;
	struct backoff backoff;
	int64_t until_ms; /* no write before */
	struct op *call;  /* under way */
	bool told;        /* somebody else's figure is there */
};

struct due {
	char *name;
	struct advertise_decision decision;
};

/* A controller, as of the last look. */
struct seen {
	int64_t free_ipus;
	bool freed; /* more since the last news */
};

struct advertiser {
	struct advertiser_opts o;
	struct vipu_fleet_watch watch;
	struct loop_timer look, batch;
	struct scope scope;
	struct map *targets; /* by name */
	struct due *due;
	size_t n_due, at;
	unsigned running;
	struct log_limit complaints;

	struct map *seen;   /* by controller: struct seen */
	struct reach freed; /* by which there's news, in the fleet's order of this look */
	int64_t news_ms;    /* mono: no news before */
	int64_t again_ms;   /* mono: the last news once more; 0: no more */
	char *news_at;      /* the Node that had them */
	bool telling;
};

static struct {
	struct metric *nodes, *writes;
} m;

/* ---- writing ---- */

static void look_in(struct advertiser *a, int64_t ms)
{
	int64_t at_ms = clock_mono_ms() + ms;

	if (!loop_timer_active(&a->look) || a->look.at_ms > at_ms)
		loop_timer_start_at(&a->look, at_ms);
}

static struct target *target_of(struct advertiser *a, const char *name)
{
	struct target *t = map_get(a->targets, str_of(name));

	if (t)
		return t;
	t = xcalloc(1, sizeof(*t));
	t->a = a;
	t->name = xstrdup(name);
	t->backoff = (struct backoff)BACKOFF_INIT(AGAIN_MS, AGAIN_MAX_MS);
	map_put(a->targets, str_of(name), t);
	return t;
}

static void count_write(const char *result)
{
	metric_add(m.writes, &result, 1);
}

static void on_written(void *arg, const struct err *err, const struct kube_response *response)
{
	struct target *t = arg;
	struct advertiser *a = t->a;

	t->call = NULL;
	a->running--;
	/* Also where it went well: somebody may write it back. */
	t->until_ms = clock_mono_ms() + backoff_next_ms(&t->backoff, err);
	if (!err) {
		count_write("ok");
		nodes_note(a->o.nodes, response->json);
		return;
	}
	if (err->kind == ERR_NOT_FOUND)
		return; /* it's gone, and its DELETED on its way */
	count_write("error");
	if (log_limit_ok(&a->complaints, COMPLAIN_MS))
		log_warn("node", t->name, "the IPUs that it reaches can't be advertised: %s",
			 err->msg);
	look_in(a, t->until_ms - clock_mono_ms());
}

static void set_count(struct jmut_doc *doc, struct jmut *obj, const char *key,
		      const struct advertise_decision *d)
{
	jmut_set(doc, obj, key,
		 d->action == ADVERTISE_WRITE ? jmut_strf(doc, "%" PRId64, d->ipus)
					      : jmut_null(doc));
}

/* The kubelet keeps extended resources that it doesn't know, and makes allocatable of capacity at
 * its next report; written here it counts at once, and where there is no kubelet. */
static void start_write(struct target *t, const struct advertise_decision *d)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *status = jmut_object(doc);
	struct jmut *capacity = jmut_object(doc), *allocatable = jmut_object(doc);
	struct jmut *meta = jmut_object(doc), *annotations = jmut_object(doc);
	struct kube_request request = {.verb = KUBE_PATCH,
				       .patch = KUBE_PATCH_MERGE,
				       .resource = &KUBE_NODES,
				       .name = t->name,
				       .subresource = "status",
				       .json = root};

	set_count(doc, annotations, NODES_ANNOTATION, d);
	set_count(doc, capacity, NODES_RESOURCE, d);
	set_count(doc, allocatable, NODES_RESOURCE, d);
	jmut_set(doc, meta, "annotations", annotations);
	jmut_set(doc, status, "capacity", capacity);
	jmut_set(doc, status, "allocatable", allocatable);
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "status", status);
	log_debug("node", t->name, "advertises %" PRId64 " IPUs", d->ipus);
	t->a->running++;
	t->call = kube_call_start(t->a->o.kube, &request, on_written, t, &t->a->scope);
}

static bool may_act(const struct advertiser *a)
{
	return !a->o.may_act || a->o.may_act(a->o.arg);
}

static void on_batch(struct loop_timer *timer, void *arg)
{
	struct advertiser *a = arg;
	int64_t now_ms = clock_mono_ms();

	(void)timer;
	while (a->at < a->n_due && a->running < BATCH) {
		const struct due *due = &a->due[a->at++];
		struct target *t = target_of(a, due->name);

		if (!may_act(a)) {
			a->at = a->n_due;
			look_in(a, RETRY_MS);
		} else if (t->call || t->until_ms > now_ms) {
			look_in(a, t->call ? RETRY_MS : t->until_ms - now_ms);
		} else {
			if (now_ms - t->until_ms > CALM_MS)
				backoff_reset(&t->backoff);
			start_write(t, &due->decision);
		}
	}
	if (a->at < a->n_due)
		loop_timer_start_in(&a->batch, BATCH_MS);
}

/* ---- news for the scheduler ---- */

/* A Pod that an extender has refused is looked at again when a Node changes, whichever. */
static void on_told(void *arg, const struct err *err, const struct kube_response *response)
{
	struct advertiser *a = arg;

	(void)response;
	a->telling = false;
	if (err && err->kind != ERR_NOT_FOUND && log_limit_ok(&a->complaints, COMPLAIN_MS))
		log_warn("node", NULL, "the scheduler can't be told of free IPUs: %s", err->msg);
}

static void tell_scheduler(struct advertiser *a, const char *node)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *all = jmut_object(doc);
	struct kube_request request = {.verb = KUBE_PATCH,
				       .patch = KUBE_PATCH_MERGE,
				       .resource = &KUBE_NODES,
				       .name = node,
				       .subresource = "status",
				       .json = root};
	char now[CLOCK_RFC3339_SIZE];

	clock_format_micro(clock_wall_ms(), now);
	jmut_set_str(doc, all, NODES_FREED, now);
	jmut_set(doc, meta, "annotations", all);
	jmut_set(doc, root, "metadata", meta);
	a->telling = true;
	kube_call_start(a->o.kube, &request, on_told, a, &a->scope);
}

static struct seen *seen_of(struct advertiser *a, const struct vipu_controller *c)
{
	struct seen *seen = map_get(a->seen, str_of(c->name));

	if (!seen) {
		seen = xcalloc(1, sizeof(*seen));
		map_put(a->seen, str_of(c->name), seen);
	}
	return seen;
}

/* Of controllers that have left the list. */
static void forget_seen(struct advertiser *a)
{
	struct map_iter it = MAP_ITER(a->seen);

	while (map_next(&it)) {
		CLEANUP_FREE char *name = str_dup(it.key);

		if (!vipu_fleet_find(a->o.fleet, name))
			free(map_del(a->seen, it.key));
	}
}

/* Which have more room than at the last look. Before the first one they had none: what came free
 * while nobody led is news, too. Kept by name, as the list may change before it's told. */
static void note_freed(struct advertiser *a, size_t n)
{
	a->freed = (struct reach){0};
	for (size_t i = 0; i < n; i++) {
		const struct vipu_controller *c = vipu_fleet_at(a->o.fleet, i);
		bool open = c->configured && c->reach == VIPU_REACH_YES && !c->cordoned &&
			    !c->no_node;
		int64_t now = open ? c->capacity.free_ipus : 0;
		struct seen *seen = seen_of(a, c);

		seen->freed |= now > seen->free_ipus;
		seen->free_ipus = now;
		if (seen->freed)
			a->freed.bits[i / 64] |= UINT64_C(1) << (i % 64);
	}
	if (map_len(a->seen) > n)
		forget_seen(a);
}

static void forget_freed(struct advertiser *a)
{
	struct map_iter it = MAP_ITER(a->seen);

	while (map_next(&it))
		((struct seen *)it.value)->freed = false;
}

static bool reaches_any(const struct node_item *item, const struct reach *wanted)
{
	bool any = false;

	for (size_t i = 0; i < sizeof(wanted->bits) / sizeof(wanted->bits[0]); i++)
		any |= (item->reach.bits[i] & wanted->bits[i]) != 0;
	return any && !item->deleting;
}

/* nodes: sorted by name. */
static void give_news(struct advertiser *a, const struct advertise_node *nodes, size_t n)
{
	int64_t now_ms = clock_mono_ms();
	size_t k = 0;

	if (reach_is_empty(&a->freed)) {
		if (a->again_ms && a->again_ms <= now_ms && !a->telling) {
			a->again_ms = 0;
			tell_scheduler(a, a->news_at);
		} else if (a->again_ms) {
			look_in(a, a->again_ms > now_ms ? a->again_ms - now_ms : NEWS_MS);
		}
		return;
	}
	if (a->telling || a->news_ms > now_ms) {
		look_in(a, a->news_ms > now_ms ? a->news_ms - now_ms : NEWS_MS);
		return;
	}
	while (k < n && !reaches_any(nodes[k].item, &a->freed))
		k++;
	forget_freed(a);
	if (k == n)
		return;
	free(a->news_at);
	a->news_at = xstrdup(nodes[k].name);
	a->news_ms = now_ms + NEWS_MS;
	a->again_ms = now_ms + a->o.again_ms;
	look_in(a, a->o.again_ms);
	tell_scheduler(a, a->news_at);
}

/* ---- looking ---- */

struct gathered {
	struct advertise_node *nodes;
	size_t n;
	size_t showing; /* by our own word */
};

static void add_node(struct str name, const struct node_item *item, void *arg)
{
	struct gathered *g = arg;

	g->nodes[g->n++] = (struct advertise_node){str_dup(name), item};
	g->showing += item->noted > 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct advertise_node *)a)->name,
		      ((const struct advertise_node *)b)->name);
}

static void forget_due(struct advertiser *a)
{
	for (size_t i = 0; i < a->n_due; i++)
		free(a->due[i].name);
	free(a->due);
	a->due = NULL;
	a->n_due = a->at = 0;
}

static void tell_foreign(struct advertiser *a, const char *name)
{
	struct target *t = target_of(a, name);

	if (!t->told)
		log_warn("node", name,
			 "its " NODES_RESOURCE " was written by somebody else: it's left alone "
			 "(no annotation " NODES_ANNOTATION ")");
	t->told = true;
}

static void make_due(struct advertiser *a, const struct gathered *g,
		     const struct advertise_decision *decisions)
{
	forget_due(a);
	a->due = xcalloc(g->n + 1, sizeof(*a->due));
	for (size_t k = 0; k < g->n; k++) {
		if (decisions[k].action == ADVERTISE_FOREIGN)
			tell_foreign(a, g->nodes[k].name);
		if (decisions[k].action == ADVERTISE_WRITE ||
		    decisions[k].action == ADVERTISE_REMOVE)
			a->due[a->n_due++] = (struct due){xstrdup(g->nodes[k].name), decisions[k]};
	}
	if (a->n_due > 0)
		loop_timer_start_in(&a->batch, 0);
}

/* What counts of each controller, and a look when that changes by time alone. */
static void count_controllers(struct advertiser *a, int64_t *ret_ipus, size_t n)
{
	int64_t now_ms = clock_mono_ms();

	for (size_t i = 0; i < n; i++) {
		const struct vipu_controller *c = vipu_fleet_at(a->o.fleet, i);
		int64_t left_ms = c->since_ms + ADVERTISE_UNREACHABLE_MS - now_ms;

		ret_ipus[i] = advertise_ipus(c, now_ms);
		if (c->configured && c->reach != VIPU_REACH_YES && left_ms > 0)
			look_in(a, left_ms);
	}
}

/* Those that are written to are few beside those that there are: Nodes come and go. */
static void forget_targets(struct advertiser *a)
{
	struct map_iter it = MAP_ITER(a->targets);

	if (map_len(a->targets) <= 2 * nodes_len(a->o.nodes) + 16)
		return;
	while (map_next(&it)) {
		struct target *t = it.value;

		if (t->call || nodes_get(a->o.nodes, str_of(t->name)))
			continue;
		map_del(a->targets, it.key);
		free(t->name);
		free(t);
	}
}

static void on_look(struct loop_timer *timer, void *arg)
{
	struct advertiser *a = arg;
	size_t n = vipu_fleet_len(a->o.fleet), n_nodes = nodes_len(a->o.nodes);
	struct advertise_decision *decisions;
	struct gathered g = {0};
	int64_t ipus[VIPU_MAX_CONTROLLERS];

	(void)timer;
	if (!nodes_synced(a->o.nodes))
		return;
	if (!may_act(a)) {
		look_in(a, RETRY_MS);
		return;
	}
	if (n > VIPU_MAX_CONTROLLERS)
		n = VIPU_MAX_CONTROLLERS;
	nodes_look(a->o.nodes);
	count_controllers(a, ipus, n);
	g.nodes = xcalloc(n_nodes + 1, sizeof(*g.nodes));
	nodes_each(a->o.nodes, add_node, &g);
	qsort(g.nodes, g.n, sizeof(*g.nodes), by_name);
	decisions = xcalloc(g.n + 1, sizeof(*decisions));
	advertise_plan(a->o.mode, a->o.on_control_plane, ipus, n, g.nodes, g.n, decisions);
	make_due(a, &g, decisions);
	if (a->o.again_ms) {
		note_freed(a, n);
		give_news(a, g.nodes, g.n);
	}
	metric_set(m.nodes, NULL, (double)g.showing);
	forget_targets(a);
	for (size_t k = 0; k < g.n; k++)
		free((char *)(uintptr_t)g.nodes[k].name);
	free(g.nodes);
	free(decisions);
}

static void on_fleet_change(void *arg, const char *name)
{
	(void)name;
	advertiser_look(arg);
}

void advertiser_look(struct advertiser *a)
{
	if (a)
		look_in(a, GATHER_MS);
}

/* ---- life ---- */

struct advertiser *advertiser_new(const struct advertiser_opts *opts)
{
	static const char *const by_result[] = {"result", NULL};
	struct advertiser *a = xcalloc(1, sizeof(*a));

	a->o = *opts;
	a->targets = map_new();
	a->seen = map_new();
	scope_init(&a->scope);
	loop_timer_init(&a->look, opts->loop, on_look, a);
	loop_timer_init(&a->batch, opts->loop, on_batch, a);
	m.nodes = metric_new(METRIC_GAUGE, "ipu_operator_advertising_nodes",
			     "Nodes that show graphcore.ai/ipu by the operator's hand.", NULL, NULL,
			     0);
	m.writes = metric_new(METRIC_COUNTER, "ipu_operator_advertise_writes_total",
			      "Writes of graphcore.ai/ipu to Nodes.", by_result, NULL, 0);
	vipu_fleet_watch_start(opts->fleet, &a->watch, on_fleet_change, a);
	advertiser_look(a);
	return a;
}

void advertiser_free(struct advertiser *a)
{
	struct map_iter it;

	if (!a)
		return;
	vipu_fleet_watch_stop(&a->watch);
	loop_timer_stop(&a->look);
	loop_timer_stop(&a->batch);
	scope_cancel(&a->scope);
	metric_clear(m.nodes);
	forget_due(a);
	it = (struct map_iter)MAP_ITER(a->targets);
	while (map_next(&it)) {
		struct target *t = it.value;

		free(t->name);
		free(t);
	}
	map_free(a->targets);
	it = (struct map_iter)MAP_ITER(a->seen);
	while (map_next(&it))
		free(it.value);
	map_free(a->seen);
	free(a->news_at);
	free(a);
}
