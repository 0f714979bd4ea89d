/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracker's keys: what the owner wants of each, which ConfigMap is its home, and what the owner
 * has yet to hear. All callbacks to the owner come from here, out of one piece of deferred work.
 */
#include "partition/tracker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "core/rand.h"
#include "kube/object.h"
#include "partition/tracker_internal.h"

#define NEWS_A_TURN   200 /* on_found and on_gone */
#define WRITES_A_TURN 2   /* that are begun: each may carry a megabyte */
#define AGAIN_MS      1000

/* ---- values ---- */

struct text *text_new(struct str s)
{
	struct text *x = xcalloc(1, sizeof(*x));

	x->refs = 1;
	x->len = (uint32_t)s.len;
	x->hash = map_hash64(s);
	x->bytes = str_dup(s);
	return x;
}

struct text *text_ref(struct text *x)
{
	if (x)
		x->refs++;
	return x;
}

void text_unref(struct text *x)
{
	if (!x || --x->refs)
		return;
	free(x->bytes);
	free(x);
}

static void text_set(struct text **to, struct text *x)
{
	struct text *old = *to;

	*to = text_ref(x);
	text_unref(old);
}

bool text_same(const struct text *a, const struct text *b)
{
	if (!a || !b)
		return a == b;
	return a == b || (a->len == b->len && a->hash == b->hash);
}

bool text_is(const struct text *x, struct str s)
{
	return x->len == s.len && x->hash == map_hash64(s);
}

/* What is recorded is in memory twice, as long as its owner would say the same again. */
static void drop_bytes(struct tracker *t, struct record *r)
{
	struct buf again = BUF_INIT(TRACKER_FULL);

	if (r->want && r->want->bytes && !r->bad && t->ops.on_again &&
	    t->ops.on_again(t->arg, r->key, &again, NULL) && text_is(r->want, buf_str(&again))) {
		free(r->want->bytes);
		r->want->bytes = NULL;
	}
	buf_done(&again);
}

bool tracker_need_bytes(struct tracker *t, struct record *r)
{
	struct buf again = BUF_INIT(TRACKER_FULL);
	struct err err = ERR_INIT;
	bool known = r->want->bytes ||
		     (t->ops.on_again && t->ops.on_again(t->arg, r->key, &again, &err));

	if (known && !r->want->bytes) {
		struct text *x = text_new(buf_str(&again));

		text_set(&r->want, x);
		text_unref(x);
	} else if (err_is_no_memory(&err)) {
		loop_timer_start_in(&t->again, AGAIN_MS);
	} else if (!known) {
		log_error("partition", r->key, "can't be written again: nobody has it any more");
	}
	buf_done(&again);
	return known;
}

/* ---- keys ---- */

struct record *tracker_find(const struct tracker *t, struct str key)
{
	return map_get(t->records, key);
}

static struct record *need_record(struct tracker *t, struct str key)
{
	struct record *r = map_get(t->records, key);

	if (r)
		return r;
	r = xcalloc(1, sizeof(*r) + key.len + 1);
	memcpy(r->key, key.p, key.len);
	r->home = -1;
	list_init(&r->unsettled);
	list_init(&r->news);
	map_put_borrowed(t->records, str_of(r->key), r);
	return r;
}

static void free_record(struct tracker *t, struct record *r)
{
	t->bad -= r->bad;
	map_del(t->records, str_of(r->key));
	list_unlink(&r->unsettled);
	list_unlink(&r->news);
	text_unref(r->want);
	free(r);
}

struct text *tracker_stored(const struct tracker *t, const struct record *r)
{
	return r->home < 0 ? NULL : map_get(t->shards[r->home]->stored, str_of(r->key));
}

void tracker_look_soon(struct tracker *t)
{
	loop_work_post(&t->work);
}

/* Its home has another value than it had. */
static void value_changed(struct tracker *t, struct record *r)
{
	bool same = text_same(r->want, tracker_stored(t, r));

	if (r->put && !same && list_empty(&r->unsettled)) {
		list_append(&t->unsettled, &r->unsettled);
		t->shards[r->home]->meddled = true;
	} else if (!r->put && !same && list_empty(&r->news)) {
		list_append(&t->news, &r->news);
	}
}

void tracker_key_changed(struct tracker *t, struct shard *s, struct str key, struct text *has)
{
	struct record *r = has ? need_record(t, key) : tracker_find(t, key);

	if (!r)
		return;
	if (r->home != s->index && has && !r->inflight && !tracker_stored(t, r))
		r->home = s->index;
	if (r->home != s->index || r->copies)
		t->recount = true;
	if (r->home == s->index)
		value_changed(t, r);
}

/* Keys that are in more than one ConfigMap: the first one counts, or where the owner's word went.
 */
static void count_copies(struct tracker *t)
{
	t->recount = false;
	t->counts++;
	for (struct map_iter it = MAP_ITER(t->records); map_next(&it);)
		((struct record *)it.value)->copies = 0;
	for (int i = 0; i < t->n; i++) {
		struct shard *s = t->shards[i];
		unsigned before = s->copies;

		s->copies = 0;
		for (struct map_iter it = MAP_ITER(s->stored); map_next(&it);) {
			struct record *r = tracker_find(t, it.key);

			if (!r->put && r->seen != t->counts && r->home != i) {
				r->home = i;
				value_changed(t, r);
			} else if (r->home != i) {
				s->copies++;
				r->copies++;
			}
			r->seen = t->counts;
		}
		if (s->copies > before)
			tracker_report(t, TRACKER_DAMAGED, s->name,
				       "%u %s in ConfigMap %s/%s %s in another part of the "
				       "tracker too",
				       s->copies, s->copies == 1 ? "entry" : "entries", t->ns,
				       s->name, s->copies == 1 ? "is" : "are");
	}
}

/* ---- where a key goes ---- */

static bool has_room(const struct shard *s, size_t bytes)
{
	return s->bytes + s->pending + bytes <= TRACKER_SPLIT;
}

static bool is_open(const struct shard *s)
{
	return s && s->in_use && !s->immutable && !(s->alien && s->index > 0);
}

static struct shard *need_shard(struct tracker *t, int index)
{
	if (!t->shards[index])
		t->shards[index] = shard_new(t, index);
	return t->shards[index];
}

/* Where a new key goes: by the hash of its owner among those that are open, from there on the
 * first that has room; else into the first that isn't there yet. */
static struct shard *choose_shard(struct tracker *t, uint32_t hash, size_t bytes)
{
	int open[TRACKER_MAX_SHARDS], n = 0;

	for (int i = 0; i < t->n; i++) {
		if (is_open(t->shards[i]))
			open[n++] = i;
	}
	for (int i = 0; i < n; i++) {
		struct shard *s = t->shards[open[(hash + (unsigned)i) % (unsigned)n]];

		if (has_room(s, bytes))
			return s;
	}
	for (int i = 0; i < TRACKER_MAX_SHARDS; i++) {
		struct shard *s = need_shard(t, i);

		if (s->in_use || s->alien)
			continue;
		s->in_use = true;
		if (i >= t->n)
			t->n = i + 1;
		return s;
	}
	return n ? t->shards[open[hash % (unsigned)n]] : NULL;
}

static void find_homes(struct tracker *t)
{
	LIST_FOREACH(pos, tmp, &t->unsettled) {
		struct record *r = CONTAINER_OF(pos, struct record, unsettled);
		const struct shard *home = r->home < 0 ? NULL : t->shards[r->home];
		struct shard *s;
		size_t bytes;

		if (!r->want || r->inflight || (home && !(home->alien && home->index > 0)))
			continue;
		bytes = strlen(r->key) + r->want->len;
		s = choose_shard(t, r->hash, bytes);
		if (!s)
			continue;
		r->home = s->index;
		s->pending += bytes;
	}
}

/* ---- what the owner hears ---- */

void tracker_report(struct tracker *t, const char *reason, const char *object, const char *fmt, ...)
{
	char message[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	log_warn("partition", object, "%s", message);
	if (t->ops.on_report)
		t->ops.on_report(t->arg, reason, object, tracker_uid(t, object), message);
}

/* The last word about it is there, and nothing that is on its way says otherwise. */
static bool is_settled(const struct tracker *t, const struct record *r)
{
	const struct shard *home = r->home < 0 ? NULL : t->shards[r->home];

	if (r->inflight || !text_same(r->want, tracker_stored(t, r)))
		return false;
	if (r->want)
		return true;
	/* That the first ConfigMap isn't there is believed when we could make it. */
	return r->copies == 0 && t->all_read && (!home || home->index > 0 || home->fenced);
}

static void tell_settled(struct tracker *t)
{
	struct list settled = LIST_INIT(settled);

	LIST_FOREACH(pos, tmp, &t->unsettled) {
		if (!is_settled(t, CONTAINER_OF(pos, struct record, unsettled)))
			continue;
		list_unlink(pos);
		list_append(&settled, pos);
	}
	while (!list_empty(&settled)) {
		struct record *r = CONTAINER_OF(settled.next, struct record, unsettled);
		CLEANUP_FREE char *key = xstrdup(r->key);

		list_unlink(&r->unsettled);
		if (r->bad)
			r->put = false; /* written again, and still not the owner's */
		else if (!r->want)
			free_record(t, r);
		else
			drop_bytes(t, r);
		if (t->ops.on_recorded)
			t->ops.on_recorded(t->arg, key);
	}
}

/* A follower never writes: what it was told of needs no bytes any more. */
static void drop_found(struct tracker *t, const char *key)
{
	struct record *r = tracker_find(t, str_of(key));

	if (r)
		drop_bytes(t, r);
}

/* -1: there was no memory to read it. */
static int tell_found(struct tracker *t, struct record *r, const char *key, struct text *has)
{
	struct text *had = r->want;
	int rc;

	r->want = text_ref(has);
	text_ref(has);
	rc = t->ops.on_found(t->arg, key, text_str(has), &t->news_err);
	text_unref(has);
	if (rc < 0) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it has a reference of its own */
		text_unref(r->want);
		r->want = had;
		list_append(&t->news, &r->news);
		return rc;
	}
	text_unref(had);
	if (t->follow)
		drop_found(t, key);
	return 0;
}

static void tell_news(struct tracker *t)
{
	t->news_err = (struct err)ERR_INIT;
	for (int n = 0; n < NEWS_A_TURN && !list_empty(&t->news); n++) {
		struct record *r = CONTAINER_OF(t->news.next, struct record, news);
		struct text *has = tracker_stored(t, r);
		CLEANUP_FREE char *key = xstrdup(r->key);

		list_unlink(&r->news);
		if (r->put || text_same(r->want, has))
			continue;
		t->bad -= r->bad;
		r->bad = false;
		if (has && tell_found(t, r, key, has) < 0) {
			loop_timer_start_in(&t->again, AGAIN_MS);
			return;
		}
		if (has)
			continue;
		free_record(t, r);
		if (t->ops.on_gone)
			t->ops.on_gone(t->arg, key);
	}
	if (!list_empty(&t->news))
		tracker_look_soon(t);
}

/* ---- all together ---- */

bool tracker_is_halted(const struct tracker *t)
{
	if (t->superseded)
		return true;
	for (int i = 0; i < t->n; i++) {
		if (t->shards[i] && t->shards[i]->foreign)
			return true;
	}
	return false;
}

static const struct err *first_error(const struct tracker *t)
{
	if (t->superseded)
		return &t->superseded_err;
	for (int i = 0; i < TRACKER_MAX_SHARDS && t->shards[i]; i++) {
		if (t->shards[i]->err.kind != ERR_NONE)
			return &t->shards[i]->err;
	}
	return t->news_err.kind != ERR_NONE ? &t->news_err : &t->watch_err;
}

static void update_error(struct tracker *t)
{
	const struct err *now = first_error(t);
	bool was_well = t->err.kind == ERR_NONE, well = now->kind == ERR_NONE;

	if (!well && (was_well || strcmp(now->msg, t->err.msg) != 0))
		log_warn("partition", t->name, "the tracker ConfigMap: %s", now->msg);
	else if (well && !was_well)
		log_info("partition", t->name, "the tracker ConfigMap can be written again");
	t->err = *now;
	if (was_well != well || t->superseded != t->told_superseded) {
		t->told_superseded = t->superseded;
		t->ops.on_error(t->arg);
	}
}

/* All that there are, and one more: a ConfigMap that has lost its labels isn't in the list. */
static void read_all(struct tracker *t)
{
	bool all = true;

	for (int i = 0; !t->all_read && t->listed && i <= t->n && i < TRACKER_MAX_SHARDS; i++) {
		struct shard *s = need_shard(t, i);

		if (s->known)
			continue;
		s->must_read = true;
		all = false;
	}
	if (t->all_read || !t->listed || !all)
		return;
	t->all_read = true;
	if (t->epoch < clock_wall_ms())
		t->epoch = clock_wall_ms();
}

static void try_sync(struct tracker *t)
{
	if (t->synced || !t->all_read || tracker_is_halted(t) || !list_empty(&t->news))
		return;
	for (int i = 0; !t->follow && (i == 0 || i < t->n); i++) {
		const struct shard *s = t->shards[i];

		if (!s->fenced && !s->immutable && (s->exists || i == 0))
			return;
	}
	t->synced = true;
	t->ops.on_synced(t->arg);
}

static void look(struct loop_work *work, void *arg)
{
	struct tracker *t = arg;
	int begun = 0;

	(void)work;
	if (t->recount)
		count_copies(t);
	read_all(t);
	if (!tracker_is_halted(t)) {
		tell_settled(t);
		tell_news(t);
	}
	try_sync(t);
	if (t->all_read)
		find_homes(t);
	for (int i = 0; i < TRACKER_MAX_SHARDS && t->shards[i] && begun < WRITES_A_TURN; i++)
		begun += shard_step(t->shards[i]);
	if (begun == WRITES_A_TURN)
		tracker_look_soon(t);
	update_error(t);
}

static void on_again(struct loop_timer *timer, void *arg)
{
	(void)timer;
	tracker_look_soon(arg);
}

/* ---- the watch ---- */

/* NAME is 0, NAME-5 is 5; -1: none of ours. */
static int index_of(const struct tracker *t, struct str name)
{
	struct str base = str_of(t->name);
	int64_t n;

	if (str_eq(name, base))
		return 0;
	if (!str_has_prefix(name, base) || name.len < base.len + 2 || name.p[base.len] != '-' ||
	    name.p[base.len + 1] == '0')
		return -1;
	name.p += base.len + 1;
	name.len -= base.len + 1;
	return str_to_int(name, 1, TRACKER_MAX_SHARDS - 1, &n, NULL) < 0 ? -1 : (int)n;
}

static void on_watch_event(void *arg, const struct kube_watch_event *event)
{
	struct tracker *t = arg;
	int index = index_of(t, event->name);

	/* Those between are read too. */
	for (int i = 0; i <= index; i++)
		need_shard(t, i);
	if (index >= 0)
		shard_note_event(t->shards[index], event);
}

static void on_watch_relist(void *arg, bool done, struct str version)
{
	struct tracker *t = arg;

	(void)version;
	t->relisting = !done;
}

static void on_watch_synced(void *arg)
{
	struct tracker *t = arg;

	t->listed = true;
	tracker_look_soon(t);
}

/* Why it can't even be read: later on, reads and writes of its own say so. */
static void on_watch_state(void *arg)
{
	struct tracker *t = arg;
	struct kube_watch_status st;

	kube_watch_status(t->watch, &st);
	t->watch_err = st.err;
	if (t->listed)
		t->watch_err = (struct err)ERR_INIT;
	tracker_look_soon(t);
}

static const struct kube_watch_ops watch_ops = {
	.on_event = on_watch_event,
	.on_synced = on_watch_synced,
	.on_relist = on_watch_relist,
	.on_state = on_watch_state,
};

/* ---- metrics ---- */

static void set_gauge(const char *name, const char *help, size_t value)
{
	metric_set(metric_new(METRIC_GAUGE, name, help, NULL, NULL, 0), NULL, (double)value);
}

static void collect(void *arg)
{
	const struct tracker *t = arg;
	size_t entries = 0, shards = 0, largest = 0;

	for (int i = 0; i < t->n; i++) {
		const struct shard *s = t->shards[i];

		entries += map_len(s->stored) - s->copies;
		shards += s->exists;
		largest = s->bytes > largest ? s->bytes : largest;
	}
	set_gauge("ipu_operator_tracker_entries", "Keys in the partition tracker.", entries);
	set_gauge("ipu_operator_tracker_bad_entries", "Of these, those that can't be read.",
		  t->bad);
	set_gauge("ipu_operator_tracker_shards", "ConfigMaps of the partition tracker.", shards);
	set_gauge("ipu_operator_tracker_largest_bytes",
		  "Bytes in the largest ConfigMap of the partition tracker.", largest);
}

/* ---- the interface ---- */

struct tracker *tracker_new(struct kube_client *kube, const struct tracker_opts *opts,
			    const struct tracker_ops *ops, void *arg)
{
	struct tracker *t = xcalloc(1, sizeof(*t));
	struct kube_watch_opts watch_opts = {
		.resource = &KUBE_CONFIGMAPS,
		.ns = opts->ns,
		.label_selector = "app.kubernetes.io/component=partition-tracker",
	};
	uint8_t id[4];

	t->kube = kube;
	t->loop = kube_client_loop(kube);
	t->ns = xstrdup(opts->ns);
	t->name = xstrdup(opts->name);
	t->follow = opts->follow;
	t->ops = *ops;
	t->arg = arg;
	t->records = map_new();
	list_init(&t->unsettled);
	list_init(&t->news);
	rand_bytes(id, sizeof(id));
	hex_encode(id, sizeof(id), t->id);
	scope_init(&t->scope);
	loop_work_init(&t->work, t->loop, look, t);
	loop_timer_init(&t->again, t->loop, on_again, t);
	metrics_on_collect(collect, t);
	t->watch = kube_watch_start(kube, &watch_opts, &watch_ops, t, &t->scope);
	return t;
}

void tracker_free(struct tracker *t)
{
	if (!t)
		return;
	metrics_off_collect(collect, t);
	scope_cancel(&t->scope);
	loop_work_cancel(&t->work);
	loop_timer_stop(&t->again);
	for (struct map_iter it = MAP_ITER(t->records); map_next(&it);)
		free_record(t, it.value);
	map_free(t->records);
	for (int i = 0; i < TRACKER_MAX_SHARDS; i++)
		shard_free(t->shards[i]);
	free(t->ns);
	free(t->name);
	free(t);
}

bool tracker_is_synced(const struct tracker *t)
{
	return t->synced;
}

const struct err *tracker_error(const struct tracker *t)
{
	return &t->err;
}

bool tracker_is_superseded(const struct tracker *t)
{
	return t->superseded;
}

const char *tracker_uid(const struct tracker *t, const char *name)
{
	for (int i = 0; i < TRACKER_MAX_SHARDS; i++) {
		const struct shard *s = t->shards[i];

		if (s && strcmp(s->name, name) == 0)
			return s->uid ? s->uid : "";
	}
	return "";
}

int64_t tracker_began_ms(const struct tracker *t)
{
	return t->taken_over_ms ? t->taken_over_ms : t->made_ms;
}

/* FNV-1a */
static uint32_t hash_of(const char *z)
{
	uint32_t h = UINT32_C(2166136261);

	for (; *z; z++)
		h = (h ^ (unsigned char)*z) * UINT32_C(16777619);
	return h;
}

/* The owner's word; want's reference is taken. */
static void set_want(struct tracker *t, struct record *r, struct text *want)
{
	text_unref(r->want);
	r->want = want;
	r->put = true;
	t->bad -= r->bad;
	r->bad = false;
	list_unlink(&r->news);
	list_unlink(&r->unsettled);
	list_append(&t->unsettled, &r->unsettled);
	tracker_look_soon(t);
}

void tracker_put(struct tracker *t, const char *key, const char *owner_uid, struct str json)
{
	struct record *r = need_record(t, str_of(key));
	struct text *has = tracker_stored(t, r);

	r->hash = hash_of(owner_uid);
	if (has && text_is(has, json))
		set_want(t, r, text_ref(has));
	else
		set_want(t, r, text_new(json));
}

void tracker_drop(struct tracker *t, const char *key)
{
	set_want(t, need_record(t, str_of(key)), NULL);
}

bool tracker_is_recorded(const struct tracker *t, const char *key)
{
	const struct record *r = tracker_find(t, str_of(key));

	if (tracker_is_halted(t))
		return false;
	return !r || is_settled(t, r);
}

void tracker_reject(struct tracker *t, const char *key, const struct err *why)
{
	struct record *r = tracker_find(t, str_of(key));

	if (!r || r->put || r->bad)
		return;
	r->bad = true;
	t->bad++;
	tracker_report(t, TRACKER_DAMAGED, r->home < 0 ? t->name : t->shards[r->home]->name,
		       "entry %s of the tracker can't be read, it's kept as it is: %s", key,
		       why->msg);
}

unsigned long tracker_writes(const struct tracker *t)
{
	return t->writes;
}
