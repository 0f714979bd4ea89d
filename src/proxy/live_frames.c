/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items as they were written last, and frames of what has become different: by key and sum, the
 * same for all kinds. Keeps the last frames, and the whole of it as it was sent. Uses core, loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/rand.h"
#include "live_impl.h"

static const char *const kind_names[LIVE_N_KINDS] = {
	[LIVE_CONTROLLERS] = "controllers",
	[LIVE_PARTITIONS] = "partitions",
	[LIVE_QUEUE] = "waiting",
	[LIVE_HOLDS] = "held",
};

void frames_id(const struct live *l, uint64_t n, char ret_id[LIVE_ID_SIZE])
{
	snprintf(ret_id, LIVE_ID_SIZE, "%s-%" PRIu64, l->epoch, n);
}

/* ---- items ---- */

static void free_item(struct live *l, struct live_item *item)
{
	l->n_items--;
	if (item->index)
		map_del(item->map, str_of(item->index));
	if (item->known)
		item->known->item = NULL;
	list_unlink(&item->link);
	free(item->index);
	free(item->text);
	free(item);
}

static struct live_item *new_item(struct live *l, enum live_kind kind)
{
	struct live_item *item = xcalloc(1, sizeof(*item));

	list_append(&l->items[kind], &item->link);
	item->came = l->looks;
	l->n_items++;
	return item;
}

static void put_into(struct map *map, struct live_item *item, const char *index)
{
	item->map = map;
	item->index = xstrdup(index);
	map_put(map, str_of(index), item);
}

/* It's there in this look; its text is made anew if anything in it is different. */
static void see(struct live *l, struct live_item *item, live_write_fn *write, const void *what)
{
	struct live_out sum = {.l = l, .sum = l->seed, .open = true};
	struct live_out text = {.l = l, .b = &l->scratch, .open = true};

	item->look = l->looks;
	l->n_seen++;
	write(&sum, what);
	item->put = !item->text || item->sum != sum.sum;
	if (!item->put)
		return;
	l->n_put++;
	buf_clear(&l->scratch);
	write(&text, what);
	l->failed |= text.failed;
	free(item->text);
	item->text = text.failed ? NULL : str_dup(buf_str(&l->scratch));
	item->len = l->scratch.len;
	item->sum = sum.sum;
}

void item_total(struct live *l)
{
	struct live_item *item = list_empty(&l->items[LIVE_TOTAL])
					 ? new_item(l, LIVE_TOTAL)
					 : CONTAINER_OF(l->items[LIVE_TOTAL].next, struct live_item,
							link);

	see(l, item, write_total, &l->view);
}

/* Their keys are their numbers, and so is their order. */
void item_controller(struct live *l, const struct live_controller *at)
{
	struct live_controller_item what = {.view = &l->view, .at = at};
	struct live_item *item = NULL;

	LIST_FOREACH(pos, tmp, &l->items[LIVE_CONTROLLERS])
		if (CONTAINER_OF(pos, struct live_item, link)->place == at->number)
			item = CONTAINER_OF(pos, struct live_item, link);
	if (!item) {
		item = new_item(l, LIVE_CONTROLLERS);
		item->place = at->number;
		snprintf(item->key, sizeof(item->key), "%s", at->key);
	}
	see(l, item, write_controller, &what);
}

/* By controller and place; what has no place comes last. */
static uint64_t place_of(const struct live_partition_item *what)
{
	const struct live_controller *at = what->at;
	uint64_t place = (uint64_t)(at ? at->number : UINT32_MAX) << 32;
	const struct vipu_place *first;
	size_t i;

	if (!at || !what->listed || !at->c->layout.by_position)
		return place | UINT32_MAX;
	i = (size_t)(what->listed - at->c->partitions.items);
	if (at->first[i] == at->first[i + 1])
		return place | UINT32_MAX;
	first = &at->c->layout.places[at->first[i]];
	return place | (uint64_t)first->domain * VIPU_DOMAIN_IPUS |
	       (unsigned)__builtin_ctzll(first->mask);
}

static void see_partition(struct live *l, struct live_item *item, struct live_partition_item *what)
{
	if (!item->key[0])
		snprintf(item->key, sizeof(item->key), "p%" PRIx64, ++l->last_key);
	what->key = item->key;
	item->place = place_of(what);
	see(l, item, write_partition, what);
}

void item_entry(struct live *l, const struct live_entry *entry)
{
	struct live_partition_item what = {
		.at = entry->at, .entry = entry, .listed = entry->listed};
	struct live_item *item = entry->known->item;

	if (!item) {
		item = entry->known->item = new_item(l, LIVE_PARTITIONS);
		item->known = entry->known;
	}
	see_partition(l, item, &what);
}

void item_by_hand(struct live *l, const struct live_controller *at,
		  const struct vipu_partition *listed)
{
	struct live_partition_item what = {.at = at, .listed = listed};
	CLEANUP_FREE char *index = live_by_hand_index(at, listed);
	const struct live_broken *broken = map_get(l->broken, str_of(index));
	struct live_item *item = map_get(l->by_hand, str_of(index));

	if (!item) {
		item = new_item(l, LIVE_PARTITIONS);
		put_into(l->by_hand, item, index);
	}
	what.error_ms = broken ? broken->wall_ms : 0;
	see_partition(l, item, &what);
}

static void add_to_order(struct live *l, struct live_item *item)
{
	if (l->n_new_order == l->new_order_cap) {
		l->new_order_cap = l->new_order_cap ? 2 * l->new_order_cap : 64;
		l->new_order = xrealloc(l->new_order,
					l->new_order_cap * sizeof(struct live_item *));
	}
	item->place = l->n_new_order;
	l->new_order[l->n_new_order++] = item;
}

/* In the queue's order. */
void item_waiting(struct live *l, const struct partition_waiting *w)
{
	struct live_waiting_item what = {.w = w};
	char index[300];
	struct live_item *item;
	char owner[PARTITION_OWNER_KEY_SIZE];

	snprintf(index, sizeof(index), "%" PRIu32 "/%s", w->ask->instance, w->ask->owner.uid);
	item = map_get(l->waiting, str_of(index));
	if (!item) {
		item = new_item(l, LIVE_QUEUE);
		put_into(l->waiting, item, index);
		partition_owner_key(w->ask->owner.uid, owner);
		snprintf(item->key, sizeof(item->key), "%s/%" PRIu32, owner, w->ask->instance);
	}
	what.key = item->key;
	add_to_order(l, item);
	see(l, item, write_waiting, &what);
}

void item_held(struct live *l, const struct proxy_held *held)
{
	struct live_held_item what = {.held = held};
	struct live_item *item = map_get(l->held, str_of(held->uid));

	if (!item) {
		item = new_item(l, LIVE_HOLDS);
		put_into(l->held, item, held->uid);
		partition_owner_key(held->uid, item->key);
	}
	what.key = item->key;
	see(l, item, write_held, &what);
}

void frames_begin(struct live *l)
{
	l->failed = false;
	l->n_new_order = l->n_seen = l->n_put = 0;
}

/* ---- frames that are kept ---- */

static void drop_first(struct live *l)
{
	struct live_kept_frame *f = &l->frames[l->first++ % LIVE_KEEP_FRAMES];

	l->frames_bytes -= f->len;
	loop_reap(l->loop, f->json, free); /* somebody may be sending it */
	*f = (struct live_kept_frame){.json = NULL};
}

static void drop_all(struct live *l)
{
	while (l->first <= l->n)
		drop_first(l);
}

/* Frame n, which is the newest. */
static void keep(struct live *l, struct buf *json)
{
	struct live_kept_frame f;

	f.json = buf_steal(json, &f.len);
	while (l->first < l->n &&
	       (l->n - l->first >= LIVE_KEEP_FRAMES || l->frames_bytes + f.len > LIVE_KEEP_BYTES))
		drop_first(l);
	l->frames[l->n % LIVE_KEEP_FRAMES] = f;
	l->frames_bytes += f.len;
}

static void drop_snapshot(struct live *l)
{
	if (l->snapshot)
		loop_reap(l->loop, l->snapshot, free);
	l->snapshot = NULL;
}

/* ---- what has become different ---- */

static bool is_gone(const struct live *l, const struct live_item *item)
{
	return item->look != l->looks;
}

static bool is_put(const struct live *l, const struct live_item *item)
{
	return !is_gone(l, item) && item->put && item->text;
}

typedef bool item_test_fn(const struct live *l, const struct live_item *item);

static bool any_item(const struct live *l, enum live_kind kind, item_test_fn *test)
{
	LIST_FOREACH(pos, tmp, &l->items[kind])
		if (test(l, CONTAINER_OF(pos, struct live_item, link)))
			return true;
	return false;
}

static bool any_of_all(const struct live *l, item_test_fn *test)
{
	for (enum live_kind k = LIVE_CONTROLLERS; k < LIVE_N_KINDS; k++)
		if (any_item(l, k, test))
			return true;
	return false;
}

static void write_item(struct live_out *o, const char *name, const struct live_item *item)
{
	out_raw(o, name, (struct str){item->text, item->len});
}

static void write_puts(struct live *l, struct live_out *o)
{
	if (!any_of_all(l, is_put))
		return;
	out_open(o, "put", '{');
	for (enum live_kind k = LIVE_CONTROLLERS; k < LIVE_N_KINDS; k++) {
		if (!any_item(l, k, is_put))
			continue;
		out_open(o, kind_names[k], '[');
		LIST_FOREACH(pos, tmp, &l->items[k]) {
			struct live_item *item = CONTAINER_OF(pos, struct live_item, link);

			if (is_put(l, item))
				write_item(o, NULL, item);
		}
		out_close(o, ']');
	}
	out_close(o, '}');
}

static void write_drops(struct live *l, struct live_out *o)
{
	if (!any_of_all(l, is_gone))
		return;
	out_open(o, "drop", '{');
	for (enum live_kind k = LIVE_CONTROLLERS; k < LIVE_N_KINDS; k++) {
		if (!any_item(l, k, is_gone))
			continue;
		out_open(o, kind_names[k], '[');
		LIST_FOREACH(pos, tmp, &l->items[k]) {
			struct live_item *item = CONTAINER_OF(pos, struct live_item, link);

			if (is_gone(l, item))
				out_str(o, NULL, item->key);
		}
		out_close(o, ']');
	}
	out_close(o, '}');
}

/* Is the queue's order another one than what a reader has after drops and puts: those that stay as
 * they were, then the new ones? */
static bool is_reordered(const struct live *l)
{
	size_t at = 0;

	for (size_t i = 0; i < l->n_order; i++)
		if (!is_gone(l, l->order[i]) && l->new_order[at++] != l->order[i])
			return true;
	return false;
}

static void write_order(struct live *l, struct live_out *o)
{
	if (!is_reordered(l))
		return;
	out_open(o, "order", '[');
	for (size_t i = 0; i < l->n_new_order; i++)
		out_str(o, NULL, l->new_order[i]->key);
	out_close(o, ']');
}

static void write_steps(struct live *l, struct live_out *o, uint64_t from, uint64_t to)
{
	out_open(o, "steps", '[');
	for (uint64_t i = from; i < to; i++)
		write_step(o, steps_at(l->steps, i), i + 1);
	out_close(o, ']');
}

static void make_usage(struct live *l)
{
	struct live_out o = {.l = l, .b = &l->usage, .open = true};

	buf_clear(&l->usage);
	write_usage(&o, l->history);
}

static void write_news(struct live *l, struct live_out *o)
{
	uint64_t steps = l->told_steps, periods = l->told_periods;

	if (steps < steps_first(l->steps))
		steps = steps_first(l->steps);
	if (periods < history_first(l->history))
		periods = history_first(l->history);
	if (steps < l->steps->n)
		write_steps(l, o, steps, l->steps->n);
	if (periods < l->history->periods) {
		out_open(o, "points", '{');
		write_points(o, l->history, periods, l->history->periods);
		out_close(o, '}');
		make_usage(l);
		out_raw(o, "usage", buf_str(&l->usage));
	}
	l->told_steps = l->steps->n;
	l->told_periods = l->history->periods;
}

/* What a reader hasn't got yet is there. */
static bool is_news(const struct live *l)
{
	return l->n_put > 0 || l->n_seen < l->n_items || is_reordered(l) ||
	       l->told_steps != l->steps->n || l->told_periods != l->history->periods;
}

static void write_frame(struct live *l, struct live_out *o)
{
	out_open(o, NULL, '{');
	out_time(o, "time", l->time_ms);
	if (any_item(l, LIVE_TOTAL, is_put))
		write_item(o, "total",
			   CONTAINER_OF(l->items[LIVE_TOTAL].next, struct live_item, link));
	write_puts(l, o);
	write_drops(l, o);
	write_order(l, o);
	write_news(l, o);
	out_close(o, '}');
}

/* What isn't there any more goes, and the queue's order is what the next look compares with. */
static void settle(struct live *l)
{
	struct live_item **order = l->order;
	size_t cap = l->order_cap;

	for (enum live_kind k = LIVE_TOTAL; k < LIVE_N_KINDS && l->n_seen < l->n_items; k++) {
		LIST_FOREACH(pos, tmp, &l->items[k]) {
			struct live_item *item = CONTAINER_OF(pos, struct live_item, link);

			if (is_gone(l, item))
				free_item(l, item);
		}
	}
	l->order = l->new_order;
	l->n_order = l->n_new_order;
	l->order_cap = l->new_order_cap;
	l->new_order = order;
	l->new_order_cap = cap;
	l->n_new_order = 0;
}

/* Returns whether it could be written, into json. */
static bool make_frame(struct live *l, struct buf *json)
{
	struct live_out o = {.l = l, .b = json, .open = true};

	if (!l->valid || l->failed) {
		make_usage(l);
		l->told_steps = l->steps->n;
		l->told_periods = l->history->periods;
		return false;
	}
	write_frame(l, &o);
	return !o.failed;
}

void frames_end(struct live *l)
{
	struct buf json = BUF_INIT(LIVE_KEEP_BYTES);
	bool made;

	if (l->valid && !l->failed && !is_news(l)) {
		settle(l);
		return;
	}
	l->time_ms = clock_wall_ms();
	made = make_frame(l, &json);
	settle(l);
	drop_snapshot(l);
	if (!made)
		drop_all(l);
	l->n++;
	if (made)
		keep(l, &json);
	else
		l->first = l->n + 1;
	l->valid = !l->failed;
	buf_done(&json);
	loop_work_post(&l->tell_work);
}

/* ---- the whole ---- */

static int compare_places(const void *a, const void *b)
{
	const struct live_item *x = *(const struct live_item *const *)a;
	const struct live_item *y = *(const struct live_item *const *)b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->came != y->came)
		return x->came < y->came ? -1 : 1;
	return strcmp(x->key, y->key);
}

static void write_kind(struct live *l, struct live_out *o, enum live_kind kind)
{
	struct live_item **all;
	size_t n = 0;

	LIST_FOREACH(pos, tmp, &l->items[kind])
		n++;
	all = xcalloc(n + 1, sizeof(struct live_item *));
	n = 0;
	LIST_FOREACH(pos, tmp, &l->items[kind])
		all[n++] = CONTAINER_OF(pos, struct live_item, link);
	qsort(all, n, sizeof(struct live_item *), compare_places);
	out_open(o, kind_names[kind], '[');
	for (size_t i = 0; i < n; i++)
		write_item(o, NULL, all[i]);
	out_close(o, ']');
	free(all);
}

static void write_snapshot(struct live *l, struct live_out *o)
{
	char id[LIVE_ID_SIZE];

	frames_id(l, l->n, id);
	out_open(o, NULL, '{');
	out_str(o, "id", id);
	out_str(o, "mode", l->full ? "full" : "usage");
	out_str(o, "version", PACKAGE_VERSION);
	out_time(o, "time", l->time_ms);
	out_time(o, "since", l->since_ms);
	write_item(o, "total", CONTAINER_OF(l->items[LIVE_TOTAL].next, struct live_item, link));
	for (enum live_kind k = LIVE_CONTROLLERS; k < LIVE_N_KINDS; k++)
		write_kind(l, o, k);
	write_steps(l, o, steps_first(l->steps), l->told_steps);
	out_open(o, "history", '{');
	out_int(o, "period", HISTORY_PERIOD_MS / 1000);
	write_points(o, l->history, history_first(l->history), l->told_periods);
	out_close(o, '}');
	out_raw(o, "usage", l->usage.len ? buf_str(&l->usage) : STR("[]"));
	out_close(o, '}');
}

static int too_large(struct err *err)
{
	return err_set(err, ERR_LIMIT, 0, "what there is to show is larger than %zu MiB",
		       LIVE_LIMIT >> 20);
}

int frames_snapshot(struct live *l, struct str *ret, struct err *err)
{
	if (l->failed)
		return too_large(err);
	if (!l->valid)
		return err_set(err, ERR_UNAVAILABLE, 0,
			       "nothing has been read yet that could be shown: ask again");
	if (!l->snapshot) {
		struct buf json = BUF_INIT(LIVE_LIMIT);
		struct live_out o = {.l = l, .b = &json, .open = true};

		write_snapshot(l, &o);
		if (o.failed) {
			buf_done(&json);
			return too_large(err);
		}
		l->snapshot = buf_steal(&json, &l->snapshot_len);
	}
	*ret = (struct str){l->snapshot, l->snapshot_len};
	return 0;
}

/* ---- beginning and end ---- */

void frames_init(struct live *l)
{
	snprintf(l->epoch, sizeof(l->epoch), "%08" PRIx32, (uint32_t)rand_u64());
	l->seed = rand_u64();
	l->first = 1;
	for (enum live_kind k = LIVE_TOTAL; k < LIVE_N_KINDS; k++)
		list_init(&l->items[k]);
	l->by_hand = map_new();
	l->waiting = map_new();
	l->held = map_new();
	buf_init(&l->scratch, LIVE_LIMIT);
	buf_init(&l->usage, LIVE_KEEP_BYTES);
}

void frames_forget(struct live *l)
{
	for (enum live_kind k = LIVE_TOTAL; k < LIVE_N_KINDS; k++)
		LIST_FOREACH(pos, tmp, &l->items[k])
			free_item(l, CONTAINER_OF(pos, struct live_item, link));
	l->n_order = l->n_new_order = 0;
	drop_snapshot(l);
	drop_all(l);
	buf_done(&l->scratch);
	l->valid = l->failed = false;
}

void frames_done(struct live *l)
{
	frames_forget(l);
	buf_done(&l->usage);
	map_free(l->by_hand);
	map_free(l->waiting);
	map_free(l->held);
	free(l->order);
	free(l->new_order);
}
