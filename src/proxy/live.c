/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page's looks: when there is one, what it sees of partitions and fleet, and what of that
 * is rendered. Without viewers only what steps and history need. Owns both; partitions and fleet
 * are borrowed. Uses partition, vipu, loop.
 */
#include "live.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "live_impl.h"

#define QUIET_MS 1000  /* what changes without a word is looked at that often for viewers, */
#define WORDS_MS 2000  /* what a list says is broken: for so long, its words may be on their way */
#define ALONE_MS 10000 /* … and for history and steps */
#define FORGET_MS                                                                                  \
	60000 /* after that long without viewers, nothing is kept for those who come back          \
	       */

/* ---- what is seen ---- */

static void *grow(void *items, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return items;
	*cap = *cap ? 2 * *cap : 64;
	return xrealloc(items, *cap * size);
}

static const struct live_since *since_of(struct live *l, const struct vipu_controller *c)
{
	struct live_since *s = map_get(l->sinces, str_of(c->name));

	if (!s) {
		s = xcalloc(1, sizeof(*s));
		s->number = ++l->last_number;
		s->mono_ms = c->since_ms - 1;
		map_put(l->sinces, str_of(c->name), s);
	}
	if (s->mono_ms != c->since_ms)
		s->wall_ms = clock_wall_ms() - (clock_mono_ms() - c->since_ms);
	s->mono_ms = c->since_ms;
	s->look = l->looks;
	return s;
}

/* Places are in their partitions' order where they come from positions. */
static void index_places(struct live_controller *at)
{
	const struct vipu_layout *layout = &at->c->layout;
	size_t k = 0;

	if (!layout->by_position)
		return;
	for (size_t i = 0; i < at->c->partitions.n; i++) {
		at->first[i] = (uint32_t)k;
		while (k < layout->n_places && layout->places[k].partition == i)
			k++;
	}
	at->first[at->c->partitions.n] = (uint32_t)k;
}

static void see_controllers(struct live *l)
{
	struct live_view *v = &l->view;
	size_t n = vipu_fleet_len(l->fleet);

	v->controllers = xcalloc(n + 1, sizeof(struct live_controller));
	v->n_controllers = n;
	for (size_t i = 0; i < n; i++) {
		const struct vipu_controller *c = vipu_fleet_at(l->fleet, i);
		struct live_controller *at = &v->controllers[i];
		const struct live_since *since = since_of(l, c);

		at->c = c;
		at->number = since->number;
		snprintf(at->key, sizeof(at->key), "c%u", at->number);
		at->since_ms = since->wall_ms;
		at->owned = xcalloc(c->partitions.n + 1, sizeof(bool));
		at->first = xcalloc(c->partitions.n + 1, sizeof(uint32_t));
		index_places(at);
	}
}

static struct live_controller *find_controller(struct live_view *v, const char *name, size_t was)
{
	if (was < v->n_controllers && strcmp(v->controllers[was].c->name, name) == 0)
		return &v->controllers[was];
	for (size_t i = 0; i < v->n_controllers; i++)
		if (strcmp(v->controllers[i].c->name, name) == 0)
			return &v->controllers[i];
	return NULL;
}

/* A list that was asked for before its phase was recorded says nothing about it. */
static bool is_listed_broken(const struct live_entry *entry)
{
	const struct partition_entry *e = entry->e;
	int64_t asked_ms;

	if (!entry->at || !entry->listed || entry->listed->ready != VIPU_PS_ERROR ||
	    e->phase != PARTITION_ACTIVE)
		return false;
	asked_ms = clock_wall_ms() - (clock_mono_ms() - entry->at->c->fresh_ms);
	return asked_ms > e->since_ms;
}

/* Who leads asks the controller then, and has its words in a moment. */
static bool has_long_been_bad(const struct live_entry *entry)
{
	struct live_known *k = entry->known;
	int64_t now_ms = clock_mono_ms();

	if (!is_listed_broken(entry)) {
		if (k)
			k->bad_ms = 0;
		return false;
	}
	if (k && !k->bad_ms)
		k->bad_ms = now_ms;
	return !k || now_ms - k->bad_ms >= WORDS_MS;
}

static enum live_state state_of(const struct live *l, const struct live_entry *entry)
{
	static const enum live_state states[] = {
		[PARTITION_CREATING] = LIVE_CREATING,   [PARTITION_ACTIVE] = LIVE_ACTIVE,
		[PARTITION_RESETTING] = LIVE_RESETTING, [PARTITION_RELEASING] = LIVE_RELEASING,
		[PARTITION_ORPHAN] = LIVE_RELEASING,
	};

	if (partition_is_broken(l->partitions, entry->e) || has_long_been_bad(entry))
		return LIVE_ERROR;
	return states[entry->e->phase];
}

static void hold(struct live *l, const char *ns, int64_t ipus)
{
	struct live_space *space = map_get(l->spaces, str_of(ns));

	if (!space) {
		space = xcalloc(1, sizeof(*space));
		map_put(l->spaces, str_of(ns), space);
	}
	if (space->look != l->looks)
		space->ipus = 0;
	space->look = l->looks;
	space->ipus += ipus;
}

/* Most are where they were. */
static void find_listed(struct live_entry *entry)
{
	const struct vipu_partitions *list = &entry->at->c->partitions;
	size_t was = entry->known ? entry->known->listed : 0;

	if (was < list->n && strcmp(list->items[was].id, entry->e->id) == 0)
		entry->listed = &list->items[was];
	else
		entry->listed = vipu_partitions_find(list, str_of(entry->e->id));
	if (entry->listed)
		entry->at->owned[entry->listed - list->items] = true;
}

static void see_entry(const struct partition_entry *e, void *arg)
{
	struct live *l = arg;
	struct live_view *v = &l->view;
	struct live_entry *entry;

	v->entries = grow(v->entries, v->n_entries, &v->entries_cap, sizeof(struct live_entry));
	entry = &v->entries[v->n_entries++];
	*entry = (struct live_entry){.e = e, .known = map_get(l->known, str_of(e->id))};
	entry->at = find_controller(v, e->controller, entry->known ? entry->known->seen_at : 0);
	if (entry->at)
		find_listed(entry);
	entry->state = state_of(l, entry);
	if (!partition_holds_ipus(l->partitions, e))
		return;
	hold(l, e->ask.owner.ns, e->ask.ipus);
	if (entry->at)
		entry->at->used += e->ask.ipus;
	else
		v->elsewhere += e->ask.ipus;
}

static void free_values(struct map *m)
{
	struct map_iter it = MAP_ITER(m);

	while (map_next(&it))
		free(it.value);
	map_free(m);
}

/* What the last look didn't see goes. */
static void sweep(struct live *l)
{
	struct map_iter spaces = MAP_ITER(l->spaces), sinces = MAP_ITER(l->sinces);

	while (map_next(&spaces)) {
		if (((struct live_space *)spaces.value)->look != l->looks)
			free(map_del(l->spaces, spaces.key));
	}
	while (map_next(&sinces)) {
		if (((struct live_since *)sinces.value)->look != l->looks)
			free(map_del(l->sinces, sinces.key));
	}
}

/* ---- steps ---- */

static void cut_into(char *to, size_t size, const char *z)
{
	size_t len;

	len = str_utf8_cut(str_of(z ? z : ""), size - 1);
	memcpy(to, z ? z : "", len);
	to[len] = '\0';
}

static struct live_step_record record_of(enum live_step step, const struct partition_owner *owner,
					 uint32_t instance, uint32_t ipus, int64_t time_ms)
{
	struct live_step_record r = {
		.time_ms = time_ms, .step = step, .instance = instance, .ipus = ipus};

	partition_owner_key(owner->uid, r.owner);
	cut_into(r.ns, sizeof(r.ns), owner->ns);
	cut_into(r.kind, sizeof(r.kind), owner->kind);
	cut_into(r.name, sizeof(r.name), owner->name);
	return r;
}

static enum live_loss loss_of(enum partition_why why)
{
	switch (why) {
	case PARTITION_WHY_REFUSED:
	case PARTITION_WHY_TAKEN:
		return LIVE_LOST_REFUSED;
	case PARTITION_WHY_ERROR:
	case PARTITION_WHY_VANISHED:
		return LIVE_LOST_FAILED;
	default:
		return LIVE_KEPT;
	}
}

/* Of one whose entry is gone or on its way out: does its owner ask on, and how did it lose it? What
 * the queue has said since may have covered the reason: then only a refusal leaves nothing behind.
 */
static enum live_loss loss_since(const struct live *l, const struct live_known *k,
				 const struct partition_entry *now, struct partition_status *st)
{
	enum live_loss loss;

	partition_get_status(l->partitions, k->owner.uid, k->instance, st);
	if (!st->ask || (now && !now->reason))
		return LIVE_KEPT;
	loss = loss_of(st->why);
	if (loss == LIVE_KEPT && now)
		return LIVE_LOST_FAILED;
	return loss == LIVE_KEPT && k->state == LIVE_CREATING ? LIVE_LOST_REFUSED : loss;
}

void live_trouble(const struct live *l, const struct partition_entry *e, char *ret_z)
{
	struct partition_status st;

	/* Who follows asks no controller about a partition: it has the list. */
	snprintf(ret_z, LIVE_TROUBLE_SIZE, "partition %.80s on %.80s is in %s", e->id,
		 e->controller, vipu_ready_name(VIPU_PS_ERROR));
	if (!partition_is_broken(l->partitions, e))
		return;
	partition_get_status(l->partitions, e->ask.owner.uid, e->ask.instance, &st);
	if (st.message[0] && st.id && strcmp(st.id, e->id) == 0)
		memcpy(ret_z, st.message, LIVE_TROUBLE_SIZE);
}

#define TROUBLE_KEY_SIZE 300

static struct str trouble_key(const char *uid, uint32_t instance, char ret_z[TROUBLE_KEY_SIZE])
{
	snprintf(ret_z, TROUBLE_KEY_SIZE, "%" PRIu32 "/%s", instance, uid);
	return str_of(ret_z);
}

/* Returns false where it was known at the last look, or in this one. */
static bool note_trouble(struct live *l, const char *uid, uint32_t instance)
{
	char key[TROUBLE_KEY_SIZE];
	struct str name = trouble_key(uid, instance, key);
	uint64_t *look = map_get(l->troubles, name);
	bool news = !look;

	if (!look) {
		look = xcalloc(1, sizeof(*look));
		map_put(l->troubles, name, look);
	}
	*look = l->looks;
	return news;
}

/* When a step was, by what is recorded of its entry; now: of what isn't. */
static int64_t time_of(enum live_step step, const struct partition_entry *now)
{
	bool recorded = now && (step == LIVE_MADE            ? now->phase == PARTITION_CREATING
				: step == LIVE_BECAME_ACTIVE ? now->phase == PARTITION_ACTIVE
				: step == LIVE_RESET         ? true
							     : now->phase == PARTITION_RELEASING);

	if (!now || (!recorded && (step == LIVE_REFUSED || step == LIVE_FAILED)))
		return clock_wall_ms();
	return recorded || !now->active_ms ? now->since_ms : now->active_ms;
}

/* now: the entry, NULL: it's gone. */
static void tell_steps(struct live *l, const struct live_known *k,
		       const struct partition_entry *now, enum live_state state)
{
	enum live_step steps[LIVE_STEPS_AT_ONCE];
	struct partition_status st = {.state = PARTITION_STATE_NONE};
	struct live_change c = {.before = k->state,
				.after = state,
				.another_run = now && now->ask.attempt != k->attempt,
				.been_active = now && now->active_ms};
	size_t n;

	if (state == LIVE_NONE || state == LIVE_RELEASING)
		c.loss = loss_since(l, k, now, &st);
	else if (state == LIVE_ERROR)
		live_trouble(l, now, st.message);
	n = live_steps_between(&c, steps);
	for (size_t i = 0; i < n; i++) {
		struct live_step_record r = record_of(steps[i], &k->owner, k->instance, k->ipus,
						      time_of(steps[i], now));

		r.controller = k->controller;
		snprintf(r.id, sizeof(r.id), "%s", k->id);
		if (steps[i] == LIVE_FAILED || steps[i] == LIVE_REFUSED) {
			note_trouble(l, k->owner.uid, k->instance);
			cut_into(r.message, sizeof(r.message),
				 now && now->reason && state != LIVE_ERROR ? now->reason
									   : st.message);
		}
		steps_add(l->steps, l->steps_from, &r);
	}
}

static void free_known(struct live_known *k)
{
	if (k->item)
		k->item->known = NULL;
	partition_owner_done(&k->owner);
	free(k);
}

static struct live_known *new_known(struct live *l, const struct partition_entry *e)
{
	struct live_known *k = xcalloc(1, sizeof(*k));

	snprintf(k->id, sizeof(k->id), "%s", e->id);
	partition_owner_copy(&k->owner, &e->ask.owner);
	k->instance = e->ask.instance;
	k->ipus = e->ask.ipus;
	k->attempt = e->ask.attempt;
	map_put_borrowed(l->known, str_of(k->id), k);
	return k;
}

/* What was taken over wasn't made. */
static bool is_adopted(const struct live *l, const struct partition_entry *e)
{
	struct partition_status st;

	partition_get_status(l->partitions, e->ask.owner.uid, e->ask.instance, &st);
	return st.adopted && st.id && strcmp(st.id, e->id) == 0;
}

static void follow_entry(struct live *l, struct live_entry *entry)
{
	const struct partition_entry *e = entry->e;
	struct live_known *k = entry->known;

	if (!k) {
		k = entry->known = new_known(l, e);
		if (l->begun && is_adopted(l, e))
			k->state = LIVE_CREATING;
	}
	if (entry->at) {
		k->controller = entry->at->number;
		k->seen_at = (uint32_t)(entry->at - l->view.controllers);
	}
	if (l->begun && (k->state != entry->state || k->attempt != e->ask.attempt))
		tell_steps(l, k, e, entry->state);
	if (entry->state == LIVE_ERROR && k->state != LIVE_ERROR)
		k->error_ms = clock_wall_ms();
	k->state = entry->state;
	k->attempt = e->ask.attempt;
	k->look = l->looks;
	if (entry->at && entry->listed)
		k->listed = (uint32_t)(entry->listed - entry->at->c->partitions.items);
}

static void follow_entries(struct live *l)
{
	struct map_iter it = MAP_ITER(l->known);

	l->steps_from = l->steps->n;
	for (size_t i = 0; i < l->view.n_entries; i++)
		follow_entry(l, &l->view.entries[i]);
	while (map_next(&it)) {
		struct live_known *k = it.value;

		if (k->look == l->looks)
			continue;
		tell_steps(l, k, NULL, LIVE_NONE);
		map_del(l->known, it.key);
		free_known(k);
	}
}

/* ---- the queue ---- */

struct queue_look {
	struct live *l;
	bool render;
};

/* One that was refused between two looks has no entry that would show it. */
static void follow_waiting(struct live *l, const struct partition_waiting *w)
{
	enum live_loss loss = loss_of(w->why);
	struct live_step_record r;

	if (loss == LIVE_KEPT || !note_trouble(l, w->ask->owner.uid, w->ask->instance) || !l->begun)
		return;
	r = record_of(loss == LIVE_LOST_REFUSED ? LIVE_REFUSED : LIVE_FAILED, &w->ask->owner,
		      w->ask->instance, w->ask->ipus, clock_wall_ms());
	cut_into(r.message, sizeof(r.message), w->message);
	steps_add(l->steps, l->steps_from, &r);
}

static void see_kept(struct live *l, const struct partition_waiting *w)
{
	struct live_view *v = &l->view;
	struct live_kept *k;
	char owner[PARTITION_OWNER_KEY_SIZE];

	v->kept = grow(v->kept, v->n_kept, &v->kept_cap, sizeof(struct live_kept));
	k = &v->kept[v->n_kept++];
	*k = (struct live_kept){.at = find_controller(v, w->kept_at, 0),
				.domain = w->kept_domain,
				.n_domains = w->kept_domains,
				.mask = w->kept_mask};
	partition_owner_key(w->ask->owner.uid, owner);
	snprintf(k->for_whom, sizeof(k->for_whom), "%s/%" PRIu32, owner, w->ask->instance);
}

static void see_waiting(const struct partition_waiting *w, void *arg)
{
	struct queue_look *q = arg;

	q->l->view.n_waiting++;
	follow_waiting(q->l, w);
	if (!q->render)
		return;
	if (w->kept_at)
		see_kept(q->l, w);
	item_waiting(q->l, w);
}

static void sweep_troubles(struct live *l)
{
	struct map_iter it = MAP_ITER(l->troubles);

	while (map_next(&it))
		if (*(uint64_t *)it.value != l->looks)
			free(map_del(l->troubles, it.key));
}

/* ---- one look ---- */

static void sum_up(struct live *l)
{
	struct live_view *v = &l->view;
	struct map_iter it = MAP_ITER(l->spaces);
	int64_t values[LIVE_N_SERIES];

	v->total = sums_elsewhere(v->elsewhere);
	for (size_t i = 0; i < v->n_controllers; i++) {
		struct live_controller *at = &v->controllers[i];

		at->sums = sums_of(l->partitions, at->c, at->used);
		sums_add(&v->total, &at->sums);
	}
	values[LIVE_USED] = v->total.used;
	values[LIVE_RESERVED] = v->total.reserved;
	values[LIVE_EXTERNAL] = v->total.external;
	values[LIVE_FREE] = v->total.left;
	values[LIVE_WAITING] = (int64_t)v->n_waiting;
	history_see(l->history, values);
	while (map_next(&it))
		history_hold(l->history, it.key.p, ((struct live_space *)it.value)->ipus);
}

static void render(struct live *l)
{
	const struct live_view *v = &l->view;

	item_total(l);
	for (size_t i = 0; i < v->n_controllers; i++)
		item_controller(l, &v->controllers[i]);
	for (size_t i = 0; i < v->n_entries; i++)
		item_entry(l, &v->entries[i]);
	for (size_t i = 0; i < v->n_controllers; i++) {
		const struct live_controller *at = &v->controllers[i];
		const struct vipu_partitions *list = &at->c->partitions;

		for (size_t k = 0; k < list->n; k++)
			if (live_is_by_hand(at, k))
				item_by_hand(l, at, &list->items[k]);
	}
	frames_end(l);
}

static void view_clear(struct live_view *v)
{
	for (size_t i = 0; i < v->n_controllers; i++) {
		free(v->controllers[i].owned);
		free(v->controllers[i].first);
	}
	free(v->controllers);
	v->controllers = NULL;
	v->n_controllers = v->n_entries = v->n_kept = v->n_waiting = v->n_held = 0;
	v->elsewhere = 0;
}

static bool is_watched(const struct live *l)
{
	return !list_empty(&l->watches);
}

void live_look(struct live *l, bool rendering)
{
	struct queue_look q = {.l = l, .render = rendering};

	l->looked_ms = clock_mono_ms();
	l->changed = false;
	history_pass(l->history, l->looked_ms, clock_wall_ms());
	/* What hasn't been read isn't gone. */
	l->blind = !l->partitions || !partitions_synced(l->partitions);
	if (l->blind) {
		history_see(l->history, NULL);
		return;
	}
	l->looks++;
	see_controllers(l);
	partitions_each_entry(l->partitions, see_entry, l);
	live_see_by_hand(l);
	sweep(l);
	follow_entries(l);
	if (rendering)
		frames_begin(l);
	partitions_each_waiting(l->partitions, see_waiting, &q);
	sum_up(l);
	if (rendering) {
		live_see_held(l);
		render(l);
		l->rendered_ms = l->looked_ms;
	}
	l->unrendered = !rendering;
	view_clear(&l->view);
	sweep_troubles(l);
	l->begun = true;
}

/* ---- when ---- */

static void schedule(struct live *l)
{
	int64_t at_ms = l->looked_ms + (is_watched(l) || l->blind ? QUIET_MS : ALONE_MS);
	int64_t soon_ms = l->busy_ms + LIVE_FRAME_MS;

	if (l->changed && soon_ms < at_ms)
		at_ms = soon_ms;
	loop_timer_start_at(&l->timer, at_ms);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct live *l = arg;
	uint64_t n = l->n;
	bool changed = l->changed;

	(void)timer;
	live_look(l, is_watched(l));
	if (changed || l->n != n)
		l->busy_ms = l->looked_ms;
	if (is_watched(l))
		l->asked_ms = l->looked_ms;
	else if (l->valid && l->looked_ms - l->asked_ms >= FORGET_MS)
		frames_forget(l);
	schedule(l);
}

void live_changed(struct live *l)
{
	if (l->changed)
		return;
	l->changed = true;
	schedule(l);
}

static void on_fleet_change(void *arg, const char *name)
{
	(void)name;
	live_changed(arg);
}

/* A watch may stop any other, and itself. */
static void tell(struct loop_work *work, void *arg)
{
	struct live *l = arg;
	struct list now = LIST_INIT(now);

	(void)work;
	LIST_FOREACH(pos, tmp, &l->watches) {
		list_unlink(pos);
		list_append(&now, pos);
	}
	while (!list_empty(&now)) {
		struct live_watch *w = CONTAINER_OF(now.next, struct live_watch, link);

		list_unlink(&w->link);
		list_append(&l->watches, &w->link);
		w->fn(w->arg);
	}
}

/* ---- for those who look on ---- */

int live_snapshot(struct live *l, struct str *ret_json, char ret_id[LIVE_ID_SIZE], struct err *err)
{
	int64_t now_ms = clock_mono_ms(), age_ms = now_ms - l->rendered_ms;

	l->asked_ms = now_ms;
	if (!l->valid || age_ms >= QUIET_MS ||
	    ((l->changed || l->unrendered) && age_ms >= LIVE_FRAME_MS)) {
		live_look(l, true);
		l->busy_ms = l->looked_ms;
		schedule(l);
	}
	if (frames_snapshot(l, ret_json, err) < 0)
		return -1;
	frames_id(l, l->n, ret_id);
	return 0;
}

bool live_resume(const struct live *l, const char *last_id, uint64_t *ret_next)
{
	struct str epoch, number;
	int64_t n;

	if (!str_cut(str_of(last_id), '-', &epoch, &number) || !str_eqz(epoch, l->epoch) ||
	    str_to_int(number, 1, INT64_MAX - 1, &n, NULL) < 0)
		return false;
	if (!l->valid || (uint64_t)n > l->n || (uint64_t)n + 1 < l->first)
		return false;
	*ret_next = (uint64_t)n + 1;
	return true;
}

bool live_next(const struct live *l, uint64_t *next, struct live_frame *ret, bool *ret_gone)
{
	const struct live_kept_frame *f;

	*ret_gone = !l->valid || *next < l->first;
	if (*ret_gone || *next > l->n)
		return false;
	f = &l->frames[*next % LIVE_KEEP_FRAMES];
	frames_id(l, *next, ret->id);
	ret->json = (struct str){f->json, f->len};
	++*next;
	return true;
}

void live_watch_start(struct live *l, struct live_watch *w, void (*fn)(void *arg), void *arg)
{
	bool first = !is_watched(l);

	*w = (struct live_watch){.fn = fn, .arg = arg};
	list_append(&l->watches, &w->link);
	l->asked_ms = clock_mono_ms();
	if (first && l->unrendered)
		l->changed = true;
	if (first)
		schedule(l);
}

void live_watch_stop(struct live_watch *w)
{
	if (w->link.next)
		list_unlink(&w->link);
}

/* ---- beginning and end ---- */

void live_set_partitions(struct live *l, struct partitions *partitions)
{
	l->partitions = partitions;
	live_changed(l);
}

struct live *live_new(const struct live_config *config)
{
	struct live *l = xcalloc(1, sizeof(*l));
	int64_t now_ms = clock_mono_ms();

	l->loop = config->loop;
	l->partitions = config->partitions;
	l->fleet = config->fleet;
	l->full = config->full;
	l->pods = config->full ? config->pods : NULL;
	l->pods_arg = config->pods_arg;
	l->helds = config->helds;
	l->helds_arg = config->helds_arg;
	l->since_ms = clock_wall_ms();
	l->asked_ms = l->looked_ms = now_ms;
	l->busy_ms = l->rendered_ms = now_ms - ALONE_MS;
	l->known = map_new();
	l->sinces = map_new();
	l->spaces = map_new();
	l->troubles = map_new();
	l->broken = map_new();
	l->steps = xcalloc(1, sizeof(*l->steps));
	l->history = xcalloc(1, sizeof(*l->history));
	history_init(l->history, now_ms, l->since_ms);
	list_init(&l->watches);
	frames_init(l);
	loop_timer_init(&l->timer, l->loop, on_timer, l);
	loop_work_init(&l->tell_work, l->loop, tell, l);
	vipu_fleet_watch_start(l->fleet, &l->fleet_watch, on_fleet_change, l);
	live_changed(l);
	return l;
}

void live_free(struct live *l)
{
	struct map_iter it;

	if (!l)
		return;
	vipu_fleet_watch_stop(&l->fleet_watch);
	loop_timer_stop(&l->timer);
	loop_work_cancel(&l->tell_work);
	it = (struct map_iter)MAP_ITER(l->known);
	while (map_next(&it))
		free_known(it.value);
	map_free(l->known);
	frames_done(l);
	free_values(l->sinces);
	free_values(l->spaces);
	free_values(l->troubles);
	free_values(l->broken);
	free(l->view.entries);
	free(l->view.kept);
	free(l->steps);
	free(l->history);
	free(l);
}
