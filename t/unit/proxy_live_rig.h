/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of the live page on the partition layer's rig: takes a snapshot, applies frames as
 * doc/design/page.md says, and compares what it has with a fresh snapshot. Included once by each
 * test.
 */
#ifndef IPU_T_UNIT_PROXY_LIVE_RIG_H
#define IPU_T_UNIT_PROXY_LIVE_RIG_H

#include "partition_manager_rig.h"

#include "proxy/live_impl.h"

#define KINDS     3
#define MAX_ITEMS 2048

static const char *const kinds[KINDS] = {"controllers", "partitions", "waiting"};

struct model_item {
	char *key, *text;
};

struct model {
	struct model_item items[KINDS][MAX_ITEMS];
	size_t n[KINDS];
	char *total;
	char id[LIVE_ID_SIZE];
	int64_t step;    /* the last one's number */
	size_t n_points; /* of the history */
	unsigned frames, snapshots;
};

static struct live *live;

static inline void item_clear(struct model_item *it)
{
	free(it->key);
	free(it->text);
	*it = (struct model_item){0};
}

static inline void model_clear(struct model *m)
{
	for (size_t k = 0; k < KINDS; k++) {
		for (size_t i = 0; i < m->n[k]; i++)
			item_clear(&m->items[k][i]);
		m->n[k] = 0;
	}
	free(m->total);
	m->total = NULL;
}

static inline char *text_of(const struct json *v)
{
	struct buf b = BUF_INIT(1 << 20);
	char *text;

	if (json_write(v, JSON_COMPACT, &b, NULL) < 0)
		bail_out("a value of a frame");
	text = str_dup(buf_str(&b));
	buf_done(&b);
	return text;
}

static inline size_t model_find(const struct model *m, size_t k, const char *key)
{
	size_t i = 0;

	while (i < m->n[k] && strcmp(m->items[k][i].key, key) != 0)
		i++;
	return i;
}

static inline void model_put(struct model *m, size_t k, const struct json *item)
{
	const char *key = json_cstr(json_get(item, "key"));
	size_t i = model_find(m, k, key);

	if (i == MAX_ITEMS)
		bail_out("too many items");
	if (i < m->n[k])
		item_clear(&m->items[k][i]);
	else
		m->n[k]++;
	m->items[k][i] = (struct model_item){xstrdup(key), text_of(item)};
}

static inline void model_drop(struct model *m, size_t k, const char *key)
{
	size_t i = model_find(m, k, key);

	if (i == m->n[k]) {
		fail("%s is dropped, and isn't there", key);
		return;
	}
	item_clear(&m->items[k][i]);
	for (m->n[k]--; i < m->n[k]; i++)
		m->items[k][i] = m->items[k][i + 1];
}

static inline void model_reorder(struct model *m, const struct json *order)
{
	struct json_iter it = json_iter(order);
	size_t at = 0;

	if (json_len(order) != m->n[2])
		fail("the order has %zu keys of %zu", json_len(order), m->n[2]);
	while (json_next(&it)) {
		size_t i = model_find(m, 2, json_cstr(it.value));
		struct model_item item;

		if (i >= m->n[2] || at >= m->n[2]) {
			fail("the order names what isn't there");
			return;
		}
		item = m->items[2][i];
		m->items[2][i] = m->items[2][at];
		m->items[2][at++] = item;
	}
}

static inline void model_steps(struct model *m, const struct json *steps)
{
	struct json_iter it = json_iter(steps);

	while (json_next(&it)) {
		int64_t n = json_int(json_get(it.value, "n"), 0);

		if (n != m->step + 1 && m->step)
			fail("step %" PRId64 " after %" PRId64, n, m->step);
		m->step = n;
	}
}

static inline void model_apply(struct model *m, const struct json *frame)
{
	const struct json *put = json_get(frame, "put"), *drop = json_get(frame, "drop");

	for (size_t k = 0; k < KINDS; k++) {
		struct json_iter it = json_iter(json_get(drop, kinds[k]));

		while (json_next(&it))
			model_drop(m, k, json_cstr(it.value));
		it = json_iter(json_get(put, kinds[k]));
		while (json_next(&it))
			model_put(m, k, it.value);
	}
	if (json_get(frame, "order"))
		model_reorder(m, json_get(frame, "order"));
	if (json_get(frame, "total")) {
		free(m->total);
		m->total = text_of(json_get(frame, "total"));
	}
	model_steps(m, json_get(frame, "steps"));
	m->n_points += json_len(json_at(frame, "points", "points", NULL));
}

/* What the last snapshot was, as text: valid until the next one. */
static char *last_snapshot;

static inline struct json_doc *snapshot(char ret_id[LIVE_ID_SIZE])
{
	struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	struct str text;

	if (live_snapshot(live, &text, ret_id, &err) < 0 || json_parse(text, &doc, &err) < 0)
		bail_out(err.msg);
	free(last_snapshot);
	last_snapshot = str_dup(text);
	return doc;
}

static inline void model_load(struct model *m)
{
	CLEANUP_JSON struct json_doc *doc = snapshot(m->id);
	const struct json *root = json_root(doc);

	model_clear(m);
	for (size_t k = 0; k < KINDS; k++) {
		struct json_iter it = json_iter(json_get(root, kinds[k]));

		while (json_next(&it))
			model_put(m, k, it.value);
	}
	m->total = text_of(json_get(root, "total"));
	m->step = 0;
	model_steps(m, json_get(root, "steps"));
	m->n_points = json_len(json_at(root, "history", "points", NULL));
	m->snapshots++;
}

/* As a viewer does: goes on from its id, or begins anew. */
static inline void model_follow(struct model *m)
{
	struct live_frame f;
	uint64_t next = 0;
	bool gone = !m->id[0] || !live_resume(live, m->id, &next);

	while (!gone && live_next(live, &next, &f, &gone)) {
		CLEANUP_JSON struct json_doc *doc = NULL;

		if (json_parse(f.json, &doc, NULL) < 0 || memchr(f.json.p, '\n', f.json.len))
			bail_out("a frame that is no JSON on one line");
		model_apply(m, json_root(doc));
		snprintf(m->id, sizeof(m->id), "%s", f.id);
		m->frames++;
	}
	if (gone)
		model_load(m);
}

static inline bool same_item(const struct model *a, const struct model *b, size_t k, size_t i)
{
	size_t j = k == 2 ? i : model_find(b, k, a->items[k][i].key);

	if (j < b->n[k] && strcmp(a->items[k][i].text, b->items[k][j].text) == 0)
		return true;
	diag("has %s, and there is %s", a->items[k][i].text,
	     j < b->n[k] ? b->items[k][j].text : "nothing");
	return false;
}

static inline bool model_same(const struct model *a, const struct model *b)
{
	for (size_t k = 0; k < KINDS; k++) {
		if (a->n[k] != b->n[k]) {
			diag("%zu %s, not %zu", a->n[k], kinds[k], b->n[k]);
			return false;
		}
		for (size_t i = 0; i < a->n[k]; i++)
			if (!same_item(a, b, k, i))
				return false;
	}
	return strcmp(a->total, b->total) == 0 && strcmp(a->id, b->id) == 0 && a->step == b->step;
}

/* ---- looking ---- */

static struct model viewer;
static struct live_watch watch;
static unsigned told;

static inline void on_frame(void *arg)
{
	(void)arg;
	told++;
	if (live->frames_bytes > LIVE_KEEP_BYTES || live->n + 1 - live->first > LIVE_KEEP_FRAMES)
		fail("%zu bytes of frames are kept, from %" PRIu64 " to %" PRIu64,
		     live->frames_bytes, live->first, live->n);
	model_follow(&viewer);
}

static inline void live_begin(bool full)
{
	const struct live_config config = {
		.loop = loop, .partitions = parts, .fleet = fleet, .full = full};

	live = live_new(&config);
}

static inline void live_end(void)
{
	live_watch_stop(&watch);
	live_free(live);
	live = NULL;
	model_clear(&viewer);
	viewer = (struct model){0};
	free(last_snapshot);
	last_snapshot = NULL;
}

/* A value of the snapshot: the kind's item with that key's value, or its only one. */
static inline const struct json *item_where(const struct json_doc *doc, const char *kind,
					    const char *name, const char *value)
{
	struct json_iter it = json_iter(json_get(json_root(doc), kind));

	while (json_next(&it))
		if (str_eqz(json_str(json_get(it.value, name)), value))
			return it.value;
	return NULL;
}

/* Turns, as the daemon tells of changes. */
static inline void live_turns(unsigned n, unsigned ms)
{
	unsigned long before = news;

	while (n-- > 0) {
		turn(ms);
		if (news != before)
			live_changed(live);
		before = news;
	}
}

#define SOON(cond)                                                                                 \
	__extension__({                                                                            \
		for (int i_ = 0; i_ < 3000 && !(cond); i_++)                                       \
			live_turns(1, 10);                                                         \
		(cond);                                                                            \
	})

static inline void begin_live(bool full)
{
	begin();
	live_begin(full);
	ok(SOON(synced && partitions_count_fits(parts, 64) == 1), "all is read");
	live_turns(200, 10);
}

static inline void end_live(void)
{
	live_end();
	end();
}

static inline void view(void)
{
	live_watch_start(live, &watch, on_frame, NULL);
	model_load(&viewer);
}

/* The viewer has what is there. */
static inline bool is_right(void)
{
	static struct model fresh;
	bool same;

	live_changed(live);
	live_turns(60, 10);
	model_load(&fresh);
	model_follow(&viewer); /* the snapshot may have come with a look */
	same = model_same(&viewer, &fresh);
	model_clear(&fresh);
	return same;
}

/* "made active …": the steps of the snapshot, or those of one instance. */
static inline char *steps_seen(void)
{
	char id[LIVE_ID_SIZE];
	CLEANUP_JSON struct json_doc *doc = snapshot(id);
	struct json_iter it = json_iter(json_get(json_root(doc), "steps"));
	static char z[1000];

	z[0] = '\0';
	while (json_next(&it)) {
		size_t len = strlen(z);

		snprintf(z + len, sizeof(z) - len, "%s%s", len ? " " : "",
			 json_cstr(json_get(it.value, "step")));
	}
	return z;
}

#endif
