/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level-triggered: a moment after something has changed, all Nodes are counted anew for each
 * controller; nothing is kept between two looks but what the fleet was told.
 */
#include "node/heed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "core/str.h"
#include "kube/object.h"
#include "loop/op.h"
#include "node/publish.h"

#define GATHER_MS   50 /* from the first change to the look */
#define RETRY_MS    1000
#define KNOWN_MS    10000 /* for so long at most Nodes are waited for */
#define BATCH       10    /* writes at the same time */
#define AGAIN_MS    60000 /* after a write that failed */
#define COMPLAIN_MS 3600000

/* ---- judgements ---- */

bool heed_is_not_ready(const struct node_fabric *f, int64_t wall_ms, int64_t mono_ms)
{
	return f->known && f->status == FABRIC_FALSE && heed_left_ms(f, wall_ms, mono_ms) > 0;
}

int64_t heed_left_ms(const struct node_fabric *f, int64_t wall_ms, int64_t mono_ms)
{
	int64_t by_node_ms = f->heartbeat_ms + PUBLISH_STALE_MS - wall_ms;
	int64_t by_us_ms = f->seen_ms + PUBLISH_STALE_MS - mono_ms;

	return by_node_ms < by_us_ms ? by_node_ms : by_us_ms;
}

bool heed_is_silent(const struct node_fabric *f, int64_t silent_ms, int64_t mono_ms)
{
	return f->known && f->status != FABRIC_UNKNOWN && mono_ms - f->seen_ms >= silent_ms;
}

bool heed_closes(unsigned nodes, unsigned not_ready)
{
	return nodes > 0 && not_ready == nodes;
}

/* ---- the object ---- */

struct heed {
	struct heed_opts o;
	struct nodes *nodes, *own; /* NULL: nothing is looked at yet; the second is its own */
	struct vipu_fleet_watch watch;
	struct loop_timer look;
	struct scope scope;
	bool known, unreadable; /* said once */
	int64_t known_by_ms;    /* mono; 0: the list of controllers isn't known */
	unsigned running;
	int64_t write_from_ms; /* mono */
	char *tried;           /* the Node of the last write; NULL: the next is the first one */
	struct log_limit complaints;
	struct metric *silent;
};

static void look_in(struct heed *h, int64_t ms)
{
	int64_t at_ms = clock_mono_ms() + ms;

	if (!loop_timer_active(&h->look) || h->look.at_ms > at_ms)
		loop_timer_start_at(&h->look, at_ms);
}

static void be_known(struct heed *h)
{
	if (h->known)
		return;
	h->known = true;
	h->o.on_known(h->o.arg);
}

/* ---- conditions that nobody keeps ---- */

static void on_written(void *arg, const struct err *err, const struct kube_response *response)
{
	struct heed *h = arg;

	h->running--;
	if (!err) {
		CLEANUP_FREE char *node = str_dup(kube_name(response->json));

		log_warn("node", node,
			 "its role node is silent: the condition IPUFabricReady is Unknown now");
		nodes_note(h->nodes, response->json);
	}
	/* Of a conflict or a Node that's gone there is news on its way. */
	if (err && (err->kind == ERR_CONFLICT || err->kind == ERR_NOT_FOUND)) {
		h->write_from_ms = clock_mono_ms() + RETRY_MS;
	} else if (err) {
		h->write_from_ms = clock_mono_ms() + AGAIN_MS;
		if (log_limit_ok(&h->complaints, COMPLAIN_MS))
			log_warn("node", NULL,
				 "the condition IPUFabricReady of Nodes whose role node is silent "
				 "can't be turned Unknown (node.silentSeconds): %s",
				 err->msg);
	}
	if (h->running == 0)
		heed_look(h);
}

/* As the node controller does to the kubelet's: the heartbeat stays as its keeper has left it. And
 * only to what was looked at: whoever comes back at this moment isn't contradicted. */
static void turn_unknown(struct heed *h, struct str name, const struct node_item *item)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_FREE char *node = str_dup(name);
	struct jmut *root = jmut_object(doc), *c = jmut_object(doc);
	struct kube_request request = {
		.verb = KUBE_PATCH,
		.patch = KUBE_PATCH_STRATEGIC,
		.resource = &KUBE_NODES,
		.name = node,
		.subresource = "status",
		.json = root,
	};
	char now[CLOCK_RFC3339_SIZE];
	int64_t silent_s = (clock_mono_ms() - item->fabric.seen_ms) / 1000;

	clock_format(clock_wall_ms(), now);
	if (item->version[0])
		jmut_set_str(doc, jmut_need_object(doc, root, "metadata"), "resourceVersion",
			     item->version);
	jmut_set_str(doc, c, "type", FABRIC_CONDITION);
	jmut_set_str(doc, c, "status", fabric_status_name(FABRIC_UNKNOWN));
	jmut_set_str(doc, c, "reason", FABRIC_SILENT);
	jmut_set(doc, c, "message",
		 jmut_strf(doc,
			   "The operator's role node on this node hasn't been heard of for %" PRId64
			   " s: see whether it runs there, and what its log says",
			   silent_s));
	jmut_set_str(doc, c, "lastTransitionTime", now);
	jmut_push(doc, jmut_need_array(doc, jmut_need_object(doc, root, "status"), "conditions"),
		  c);
	h->running++;
	free(h->tried);
	h->tried = xstrdup(node);
	kube_call_start(h->o.kube, &request, on_written, h, &h->scope);
}

/* ---- the look ---- */

struct tally {
	struct heed *h;
	int64_t wall_ms, mono_ms;
	unsigned nodes[VIPU_MAX_CONTROLLERS], not_ready[VIPU_MAX_CONTROLLERS];
	unsigned silent;
	bool may_write;
	/* Those that are always refused mustn't keep others from their turn. */
	bool is_behind, any_before; /* the last that was tried */
};

static void count_node(struct tally *t, const struct node_item *item, bool not_ready)
{
	for (size_t word = 0; word < sizeof(item->reach.bits) / sizeof(item->reach.bits[0]);
	     word++) {
		for (uint64_t bits = item->reach.bits[word]; bits; bits &= bits - 1) {
			size_t i = word * 64 + (unsigned)__builtin_ctzll(bits);

			t->nodes[i]++;
			t->not_ready[i] += not_ready;
		}
	}
}

static void see_silence(struct tally *t, struct str name, const struct node_item *item)
{
	const struct node_fabric *f = &item->fabric;
	struct heed *h = t->h;

	t->silent += f->known && f->silent;
	if (!h->o.leads || h->o.silent_ms == 0 || !f->known || f->status == FABRIC_UNKNOWN)
		return;
	if (!heed_is_silent(f, h->o.silent_ms, t->mono_ms))
		look_in(h, f->seen_ms + h->o.silent_ms - t->mono_ms);
	else if (h->write_from_ms > t->mono_ms)
		look_in(h, h->write_from_ms - t->mono_ms);
	else if (t->may_write && !t->is_behind)
		t->any_before = true;
	else if (t->may_write && h->running < BATCH)
		turn_unknown(h, name, item);
}

static void see_node(struct str name, const struct node_item *item, void *arg)
{
	struct tally *t = arg;
	bool not_ready = heed_is_not_ready(&item->fabric, t->wall_ms, t->mono_ms);

	if (not_ready)
		look_in(t->h, heed_left_ms(&item->fabric, t->wall_ms, t->mono_ms));
	count_node(t, item, not_ready);
	see_silence(t, name, item);
	t->is_behind |= t->h->tried && str_eqz(name, t->h->tried);
}

static void tell_fleet(struct heed *h, const struct vipu_controller *c, bool closed, unsigned nodes)
{
	if (c->no_node == closed)
		return;
	if (closed)
		log_warn("node", c->name,
			 "gets no new partitions: of its %u Nodes (%s=%s) none is ready by the "
			 "condition IPUFabricReady",
			 nodes, c->address.label, c->address.value);
	else
		log_info("node", c->name, "gets new partitions again: a Node of it may be ready");
	vipu_fleet_set_no_node(h->o.fleet, c->name, closed);
}

static void count_all(struct heed *h)
{
	size_t n = vipu_fleet_len(h->o.fleet);
	struct tally t = {
		.h = h,
		.wall_ms = clock_wall_ms(),
		.mono_ms = clock_mono_ms(),
		.may_write = h->running == 0,
		.is_behind = !h->tried,
	};

	nodes_look(h->nodes);
	nodes_each(h->nodes, see_node, &t);
	if (t.any_before && h->running == 0) { /* to the end of them: from the first one again */
		free(h->tried);
		h->tried = NULL;
		heed_look(h);
	}
	if (h->o.leads)
		metric_set(h->silent, NULL, t.silent);
	for (size_t i = 0; i < n && i < VIPU_MAX_CONTROLLERS; i++) {
		const struct vipu_controller *c = vipu_fleet_at(h->o.fleet, i);

		/* One without a label is for any node. */
		tell_fleet(h, c,
			   h->o.controllers && c->address.label[0] &&
				   heed_closes(t.nodes[i], t.not_ready[i]),
			   t.nodes[i]);
	}
}

static bool any_label(const struct heed *h)
{
	size_t n = vipu_fleet_len(h->o.fleet);

	for (size_t i = 0; i < n; i++) {
		if (vipu_fleet_at(h->o.fleet, i)->address.label[0])
			return true;
	}
	return false;
}

static void on_nodes(void *arg, bool fabric_only)
{
	(void)fabric_only;
	heed_look(arg);
}

/* What isn't known speaks against nothing. */
static void go_without(struct heed *h)
{
	struct err err;

	nodes_error(h->nodes, &err);
	if (err.kind == ERR_NONE && clock_mono_ms() < h->known_by_ms) {
		look_in(h, h->known_by_ms - clock_mono_ms());
		return;
	}
	if (h->o.controllers && !h->unreadable)
		log_warn("node", NULL,
			 "partitions are made whatever Nodes say of their fabric, since they can't "
			 "be read (partitions.heedNodes)");
	h->unreadable = true;
	be_known(h);
}

static void on_look(struct loop_timer *timer, void *arg)
{
	struct heed *h = arg;
	bool wanted = h->o.controllers && any_label(h);

	(void)timer;
	if (!h->o.may_act(h->o.arg)) {
		look_in(h, RETRY_MS);
		return;
	}
	if (!h->known_by_ms)
		h->known_by_ms = clock_mono_ms() + KNOWN_MS;
	if (!wanted)
		be_known(h);
	if (!h->nodes && (wanted || (h->o.leads && h->o.silent_ms > 0)))
		h->nodes = h->own = nodes_new(h->o.kube, h->o.fleet, on_nodes, h);
	if (!h->nodes)
		return;
	if (!nodes_synced(h->nodes)) {
		go_without(h);
		return;
	}
	count_all(h);
	be_known(h);
}

static void on_fleet_change(void *arg, const char *name)
{
	(void)name;
	heed_look(arg);
}

void heed_look(struct heed *h)
{
	if (h)
		look_in(h, GATHER_MS);
}

/* ---- life ---- */

struct heed *heed_new(const struct heed_opts *opts)
{
	struct heed *h = xcalloc(1, sizeof(*h));

	h->o = *opts;
	h->nodes = opts->nodes;
	scope_init(&h->scope);
	loop_timer_init(&h->look, opts->loop, on_look, h);
	h->silent = metric_new(METRIC_GAUGE, "ipu_operator_fabric_silent_nodes",
			       "Nodes whose condition IPUFabricReady their role node doesn't keep.",
			       NULL, NULL, 0);
	vipu_fleet_watch_start(opts->fleet, &h->watch, on_fleet_change, h);
	heed_look(h);
	return h;
}

void heed_free(struct heed *h)
{
	if (!h)
		return;
	vipu_fleet_watch_stop(&h->watch);
	loop_timer_stop(&h->look);
	scope_cancel(&h->scope);
	metric_clear(h->silent);
	for (size_t i = 0; i < vipu_fleet_len(h->o.fleet); i++)
		vipu_fleet_set_no_node(h->o.fleet, vipu_fleet_at(h->o.fleet, i)->name, false);
	nodes_free(h->own);
	free(h->tried);
	free(h);
}
