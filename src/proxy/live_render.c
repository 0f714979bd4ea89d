/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of the live page as JSON, or as a sum of what would be in it: one description serves both,
 * so that nothing can change and not be seen. Without names unless they may be told. Uses partition
 * and vipu.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "live_impl.h"

/* ---- where it's written to ---- */

static void mix(struct live_out *o, uint64_t v)
{
	o->sum = (o->sum ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	o->sum ^= o->sum >> 29;
}

static void mix_text(struct live_out *o, const char *z)
{
	size_t len = strlen(z);
	uint64_t word;

	mix(o, len);
	for (; len >= sizeof(word); z += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, z, sizeof(word));
		mix(o, word);
	}
	word = 0;
	memcpy(&word, z, len);
	mix(o, word);
}

static void put(struct live_out *o, const char *p, size_t len)
{
	if (buf_append(o->b, p, len, NULL) < 0)
		o->failed = true;
}

static void put_text(struct live_out *o, const char *z)
{
	if (json_write_str(str_of(z), o->b, NULL) < 0)
		o->failed = true;
}

/* The comma and the name before a value. */
static void begin(struct live_out *o, const char *name)
{
	if (!o->b) {
		mix(o, name ? (unsigned char)name[0] : 0);
		return;
	}
	if (!o->open)
		put(o, ",", 1);
	o->open = false;
	if (name) {
		put(o, "\"", 1);
		put(o, name, strlen(name));
		put(o, "\":", 2);
	}
}

void out_open(struct live_out *o, const char *name, char bracket)
{
	begin(o, name);
	if (o->b)
		put(o, &bracket, 1);
	o->open = true;
}

void out_close(struct live_out *o, char bracket)
{
	if (o->b)
		put(o, &bracket, 1);
	o->open = false;
}

void out_int(struct live_out *o, const char *name, int64_t n)
{
	char z[24];

	begin(o, name);
	if (o->b)
		put(o, z, (size_t)snprintf(z, sizeof(z), "%" PRId64, n));
	else
		mix(o, (uint64_t)n);
}

void out_str(struct live_out *o, const char *name, const char *z)
{
	begin(o, name);
	if (o->b)
		put_text(o, z ? z : "");
	else
		mix_text(o, z ? z : "");
}

void out_time(struct live_out *o, const char *name, int64_t wall_ms)
{
	char z[CLOCK_RFC3339_SIZE];

	begin(o, name);
	if (!o->b) {
		mix(o, (uint64_t)wall_ms);
		return;
	}
	clock_format(wall_ms, z);
	put_text(o, z);
}

void out_raw(struct live_out *o, const char *name, struct str json)
{
	begin(o, name);
	put(o, json.p, json.len);
}

static void out_bool(struct live_out *o, const char *name, bool b)
{
	begin(o, name);
	if (o->b)
		put(o, b ? "true" : "false", b ? 4 : 5);
	else
		mix(o, b);
}

static void out_mask(struct live_out *o, const char *name, uint64_t mask)
{
	char z[24];

	begin(o, name);
	if (o->b)
		put(o, z, (size_t)snprintf(z, sizeof(z), "\"%016" PRIx64 "\"", mask));
	else
		mix(o, mask);
}

/* At most two digits behind the point, none that say nothing. */
static void out_real(struct live_out *o, const char *name, double d)
{
	char z[48];
	int len = snprintf(z, sizeof(z), "%.2f", d);

	begin(o, name);
	while (len > 1 && z[len - 1] == '0')
		len--;
	if (len > 1 && z[len - 1] == '.')
		len--;
	put(o, z, (size_t)len);
}

/* Worked out only where it's written. */
static void out_owner(struct live_out *o, const char *uid)
{
	char key[PARTITION_OWNER_KEY_SIZE];

	begin(o, "owner");
	if (!o->b) {
		mix_text(o, uid);
		return;
	}
	partition_owner_key(uid, key);
	put_text(o, key);
}

/* ---- sums ---- */

static void out_sums(struct live_out *o, const struct sums *s)
{
	out_int(o, "totalIPUs", s->total);
	out_int(o, "usedIPUs", s->used);
	out_int(o, "externalIPUs", s->external);
	out_int(o, "freeIPUs", s->left);
	out_int(o, "reservedIPUs", s->reserved);
	out_int(o, "largest", s->largest);
}

/* For each size up to that of a controller with so many IPUs. name NULL: of all of them. */
static void out_fits(struct live_out *o, const char *controller, int64_t most)
{
	struct partitions *p = o->l->partitions;
	char size_name[16] = "1";

	out_open(o, "fits", '{');
	for (uint32_t size = 1; size <= most && size < UINT32_C(1) << SCHEDULE_SIZES; size *= 2) {
		if (o->b)
			snprintf(size_name, sizeof(size_name), "%" PRIu32, size);
		out_int(o, size_name,
			controller ? partitions_count_fits_on(p, controller, size)
				   : partitions_count_fits(p, size));
	}
	out_close(o, '}');
}

void write_total(struct live_out *o, const void *what)
{
	const struct live_view *v = what;
	int64_t most = 0;

	for (size_t i = 0; i < v->n_controllers; i++)
		if (v->controllers[i].sums.total > most)
			most = v->controllers[i].sums.total;
	out_open(o, NULL, '{');
	out_sums(o, &v->total);
	out_int(o, "waiting", (int64_t)v->n_waiting);
	if (v->knows_held)
		out_int(o, "held", (int64_t)v->n_held);
	out_fits(o, NULL, most);
	out_close(o, '}');
}

/* ---- controllers ---- */

/* Why it isn't reachable, without a name in it. */
static const char *plain_reason(const struct vipu_controller *c)
{
	switch (c->reason_kind) {
	case ERR_TIMEOUT:
		return "it doesn't answer in time";
	case ERR_DENIED:
		return "it refuses the operator's credentials, or they can't be used";
	case ERR_INVALID:
		return "its entry in the configuration can't be used";
	case ERR_PROTOCOL:
	case ERR_UNSUPPORTED:
		return "its answers can't be understood";
	default:
		return "it doesn't answer";
	}
}

static const char *reason_of(const struct live *l, const struct vipu_controller *c)
{
	if (c->reach == VIPU_REACH_YES)
		return "";
	if (c->reach == VIPU_REACH_UNKNOWN)
		return "it hasn't been asked to the end yet";
	return l->full ? c->reason : plain_reason(c);
}

static void out_names(struct live_out *o, const struct vipu_controller *c)
{
	char label[600];

	out_str(o, "name", c->name);
	snprintf(label, sizeof(label), "%s%s%s", c->address.label, c->address.label[0] ? "=" : "",
		 c->address.label[0] ? c->address.value : "");
	out_str(o, "label", label);
}

static void out_domains(struct live_out *o, const struct vipu_controller *c)
{
	int64_t left = c->capacity.total_ipus;

	out_open(o, "domains", '[');
	for (; left > 0; left -= VIPU_DOMAIN_IPUS)
		out_int(o, NULL, left < VIPU_DOMAIN_IPUS ? left : VIPU_DOMAIN_IPUS);
	out_close(o, ']');
}

static void out_kept(struct live_out *o, const struct live_view *v,
		     const struct live_controller *at)
{
	out_open(o, "reserved", '[');
	for (size_t i = 0; i < v->n_kept; i++) {
		const struct live_kept *k = &v->kept[i];

		for (size_t d = 0; k->at == at && d < k->n_domains; d++) {
			out_open(o, NULL, '{');
			out_int(o, "domain", (int64_t)(k->domain + d));
			out_mask(o, "mask", k->mask);
			out_str(o, "for", k->for_whom);
			out_close(o, '}');
		}
	}
	out_close(o, ']');
}

void write_controller(struct live_out *o, const void *what)
{
	static const char *const reach[] = {
		[VIPU_REACH_UNKNOWN] = "unknown", [VIPU_REACH_YES] = "yes", [VIPU_REACH_NO] = "no"};
	const struct live_controller_item *item = what;
	const struct vipu_controller *c = item->at->c;

	out_open(o, NULL, '{');
	out_str(o, "key", item->at->key);
	out_int(o, "number", item->at->number);
	if (o->l->full)
		out_names(o, c);
	out_str(o, "reach", reach[c->reach]);
	out_str(o, "reason", reason_of(o->l, c));
	out_time(o, "since", item->at->since_ms);
	out_bool(o, "cordoned", c->cordoned);
	out_bool(o, "draining", c->draining);
	out_bool(o, "noReadyNode", c->no_node);
	out_bool(o, "configured", c->configured);
	out_bool(o, "exact", c->layout.by_position);
	out_sums(o, &item->at->sums);
	out_fits(o, c->name, item->at->sums.total);
	out_domains(o, c);
	out_kept(o, item->view, item->at);
	out_close(o, '}');
}

/* ---- partitions ---- */

static void out_places(struct live_out *o, const struct live_partition_item *item)
{
	const struct vipu_layout *layout = item->at ? &item->at->c->layout : NULL;
	uint32_t i;

	out_open(o, "places", '[');
	if (item->listed && layout && layout->by_position) {
		i = (uint32_t)(item->listed - item->at->c->partitions.items);
		for (uint32_t k = item->at->first[i]; k < item->at->first[i + 1]; k++) {
			out_open(o, NULL, '{');
			out_int(o, "domain", layout->places[k].domain);
			out_mask(o, "mask", layout->places[k].mask);
			out_close(o, '}');
		}
	}
	out_close(o, ']');
}

static void add_pod(void *arg, const struct proxy_pod *pod)
{
	struct live_out *o = arg;

	out_open(o, NULL, '{');
	out_str(o, "name", pod->name);
	out_str(o, "phase", pod->phase);
	out_str(o, "node", pod->node);
	out_close(o, '}');
}

static void out_details(struct live_out *o, const struct live_entry *entry)
{
	const struct partition_entry *e = entry->e;
	const struct partition_ask *ask = &e->ask;
	char trouble[LIVE_TROUBLE_SIZE];

	out_str(o, "id", e->id);
	out_str(o, "kind", ask->owner.kind);
	out_str(o, "name", ask->owner.name);
	if (entry->state == LIVE_ERROR)
		live_trouble(o->l, e, trouble);
	out_str(o, "reason", entry->state == LIVE_ERROR ? trouble : e->reason);
	out_open(o, "pods", '[');
	if (o->l->pods)
		o->l->pods(o->l->pods_arg, &ask->owner, ask->instance, add_pod, o);
	out_close(o, ']');
}

static const char *listed_state(const struct vipu_partition *p)
{
	return p->ready == VIPU_PS_PENDING ? "creating"
	       : p->ready == VIPU_PS_ERROR ? "error"
					   : "active";
}

static const char by_hand_reason[] = "its controller's list has it in ERROR, without a reason";

void write_partition(struct live_out *o, const void *what)
{
	const struct live_partition_item *item = what;
	const struct partition_entry *e = item->entry ? item->entry->e : NULL;
	int64_t ends_ms;

	out_open(o, NULL, '{');
	out_str(o, "key", item->key);
	out_str(o, "controller", item->at ? item->at->key : "");
	out_int(o, "ipus", e ? e->ask.ipus : (int64_t)item->listed->n_ipus);
	out_str(o, "state",
		!e                                 ? listed_state(item->listed)
		: item->entry->state == LIVE_ERROR ? "error"
						   : partition_phase_name(e->phase));
	out_bool(o, "external", !e);
	out_places(o, item);
	if (e) {
		out_time(o, "since",
			 item->entry->state == LIVE_ERROR ? item->entry->known->error_ms
							  : e->since_ms);
		ends_ms = partitions_entry_end(o->l->partitions, e);
		if (ends_ms > 0 && ends_ms < SCHEDULE_NEVER)
			out_time(o, "endsBy", ends_ms);
		out_str(o, "namespace", e->ask.owner.ns);
		out_owner(o, e->ask.owner.uid);
		out_int(o, "instance", e->ask.instance);
		if (o->l->full)
			out_details(o, item->entry);
	} else {
		if (item->error_ms)
			out_time(o, "since", item->error_ms);
		if (o->l->full)
			out_str(o, "id", item->listed->id);
		if (o->l->full && item->error_ms)
			out_str(o, "reason", by_hand_reason);
	}
	out_close(o, '}');
}

/* ---- the queue ---- */

#define MESSAGE_SIZE 160

/* Why it waits, without a name in it, and without figures that change with every partition that
 * comes or goes. */
static void plain_message(const struct partition_waiting *w, int64_t used, int64_t limit,
			  char z[MESSAGE_SIZE])
{
	static const char *const words[] = {
		[PARTITION_WHY_NONE] = "it has just been asked for",
		[PARTITION_WHY_STARTING] = "the operator is reading what there is",
		[PARTITION_WHY_NO_CONTROLLER] = "no V-IPU controller is there for it",
		[PARTITION_WHY_UNREACHABLE] = "no V-IPU controller answers",
		[PARTITION_WHY_TOO_LARGE] = "no V-IPU controller is large enough for it",
		[PARTITION_WHY_NO_NODE] = "none of the nodes that could run it is ready",
		[PARTITION_WHY_NO_ROOM] = "so many IPUs aren't free side by side",
		[PARTITION_WHY_QUEUED] =
			"the IPUs that are free are kept for one ahead of it in the queue",
		[PARTITION_WHY_QUOTA] = "with it, its namespace would have more IPUs than it may",
		[PARTITION_WHY_POLICY] = "the site's policy doesn't allow a job like this",
		[PARTITION_WHY_REFUSED] = "a V-IPU controller said no to it; it's asked for again",
		[PARTITION_WHY_ERROR] = "its partition failed; another one is asked for",
		[PARTITION_WHY_VANISHED] =
			"its partition is gone from its V-IPU controller; another one is asked for",
		[PARTITION_WHY_TAKEN] =
			"its partition's identifier is taken already; another one is asked for",
		[PARTITION_WHY_TRACKER] = "the partition tracker can't be written",
		[PARTITION_WHY_CONFIG] = "its IPUoF configuration can't be had",
		[PARTITION_WHY_PROXY] = "the process that decides about partitions doesn't answer",
	};

	if (w->why == PARTITION_WHY_QUOTA && limit >= 0)
		snprintf(z, MESSAGE_SIZE,
			 "its namespace uses %" PRId64 " of its %" PRId64
			 " IPUs, and this asks for %" PRIu32,
			 used, limit, w->ask->ipus);
	else
		snprintf(z, MESSAGE_SIZE, "waiting for %" PRIu32 " IPU%s: %s", w->ask->ipus,
			 w->ask->ipus == 1 ? "" : "s", words[w->why]);
}

#define MINUTE_MS       60000
#define STARTS_SLACK_MS (SCHEDULE_SLACK_MS + MINUTE_MS)

/* Whole minutes, so that what is due doesn't become another time at each look. */
static int64_t starts_by(int64_t free_ms)
{
	return (free_ms + STARTS_SLACK_MS - 1) / MINUTE_MS * MINUTE_MS;
}

void write_waiting(struct live_out *o, const void *what)
{
	const struct live_waiting_item *item = what;
	const struct partition_waiting *w = item->w;
	const struct partition_ask *ask = w->ask;
	bool by_quota = w->why == PARTITION_WHY_QUOTA || w->why == PARTITION_WHY_POLICY;
	const struct live_space *space = map_get(o->l->spaces, str_of(ask->owner.ns));
	int64_t used = space ? space->ipus : 0;
	int64_t limit = by_quota ? partitions_policy(o->l->partitions, ask->owner.ns).max_ipus : -1;
	char message[MESSAGE_SIZE];

	out_open(o, NULL, '{');
	out_str(o, "key", item->key);
	out_str(o, "namespace", ask->owner.ns);
	out_owner(o, ask->owner.uid);
	out_int(o, "instance", ask->instance);
	out_int(o, "ipus", ask->ipus);
	out_int(o, "priority", ask->priority);
	out_time(o, "since", w->since_ms);
	if (w->start_ms < SCHEDULE_NEVER - STARTS_SLACK_MS)
		out_time(o, "startsBy", starts_by(w->start_ms));
	out_str(o, "reason", partition_why_name(w->why));
	if (o->l->full) {
		/* Who follows isn't told the words of who decides. */
		plain_message(w, used, limit, message);
		out_str(o, "message", w->message[0] ? w->message : message);
		if (w->as_of_ms)
			out_time(o, "asOf", w->as_of_ms);
		out_str(o, "kind", ask->owner.kind);
		out_str(o, "name", ask->owner.name);
	} else {
		plain_message(w, used, limit, message);
		out_str(o, "message", message);
	}
	if (limit >= 0) {
		out_open(o, "quota", '{');
		out_int(o, "limit", limit);
		out_int(o, "used", used);
		out_close(o, '}');
	}
	out_close(o, '}');
}

void write_held(struct live_out *o, const void *what)
{
	const struct live_held_item *item = what;
	const struct proxy_held *h = item->held;

	out_open(o, NULL, '{');
	out_str(o, "key", item->key);
	out_str(o, "namespace", h->ns);
	out_owner(o, h->uid);
	out_int(o, "ipus", h->ipus);
	out_time(o, "since", h->since_ms);
	out_str(o, "reason", h->reason);
	out_str(o, "message", o->l->full ? h->message : h->plain);
	if (o->l->full) {
		out_str(o, "kind", h->kind);
		out_str(o, "name", h->name);
	}
	out_close(o, '}');
}

/* ---- what was ---- */

void write_step(struct live_out *o, const struct live_step_record *r, uint64_t n)
{
	char key[16];

	out_open(o, NULL, '{');
	out_int(o, "n", (int64_t)n);
	out_time(o, "time", r->time_ms);
	out_str(o, "step", live_step_name(r->step));
	out_str(o, "namespace", r->ns);
	out_str(o, "owner", r->owner);
	out_int(o, "instance", r->instance);
	out_int(o, "ipus", r->ipus);
	snprintf(key, sizeof(key), "c%u", r->controller);
	out_str(o, "controller", r->controller ? key : "");
	if (o->l->full) {
		out_str(o, "kind", r->kind);
		out_str(o, "name", r->name);
		out_str(o, "id", r->id);
		out_str(o, "message", r->message);
	}
	out_close(o, '}');
}

/* Periods [from, to); null where nothing is known. */
void write_points(struct live_out *o, const struct history *h, uint64_t from, uint64_t to)
{
	out_time(o, "end", h->end_ms - (int64_t)(h->periods - to) * HISTORY_PERIOD_MS);
	out_open(o, "points", '[');
	for (uint64_t i = from; i < to; i++) {
		const struct history_point *p = history_at(h, i);

		if (!p || !p->known) {
			out_raw(o, NULL, STR("null"));
			continue;
		}
		out_open(o, NULL, '[');
		for (size_t k = 0; k < LIVE_N_SERIES; k++)
			out_real(o, NULL, (double)p->mean[k]);
		out_close(o, ']');
	}
	out_close(o, ']');
}

void write_usage(struct live_out *o, const struct history *h)
{
	struct history_usage all[HISTORY_SHOWN + 1];
	size_t n = history_usage(h, all);

	out_open(o, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		out_open(o, NULL, '{');
		out_str(o, "namespace", all[i].ns);
		out_real(o, "ipuHours", all[i].ipu_hours);
		out_close(o, '}');
	}
	out_close(o, ']');
}
