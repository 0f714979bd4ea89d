/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the live page's files share. live.c looks (live_hand.c at what is made by hand,
 * live_held.c at jobs that are held),
 * live_render.c writes items, live_frames.c keeps them and what has become different, live_steps.c
 * and live_history.c what was.
 */
#ifndef IPU_PROXY_LIVE_IMPL_H
#define IPU_PROXY_LIVE_IMPL_H

#include "core/buf.h"
#include "core/map.h"
#include "live.h"
#include "sums.h"

#define LIVE_LIMIT   ((size_t)64 << 20) /* of a snapshot */
#define LIVE_NS_SIZE 64                 /* a namespace's name has 63 bytes at most */

/* ---- live_history.c ---- */

enum live_series {
	LIVE_USED,
	LIVE_RESERVED,
	LIVE_EXTERNAL,
	LIVE_FREE,
	LIVE_WAITING,
	LIVE_N_SERIES
};

#define HISTORY_PERIOD_MS 60000
#define HISTORY_GAP_MS    60000 /* after that long without a look, nothing is known of the time */
#define HISTORY_HOURS     24
#define HISTORY_SPACES    256 /* namespaces that are told apart */
#define HISTORY_SHOWN     64  /* of them, those that are shown by name */

struct history_space {
	char name[LIVE_NS_SIZE]; /* "": free; of the rest: always */
	int64_t ipus;            /* that it holds from the last look on */
	double hours[HISTORY_HOURS];
};

/* Fixed memory. Time is the monotonic clock's; the wall clock only says when a point ended. */
struct history {
	int64_t at_ms; /* until then all has been counted */
	bool known;    /* what was seen then holds on */
	int64_t now[LIVE_N_SERIES];
	double sum[LIVE_N_SERIES]; /* of the present period, times milliseconds */
	int64_t sum_ms;
	int64_t period_ms; /* when the present one began */
	uint64_t periods;  /* that have ended */
	int64_t end_ms;    /* wall: of the last one */
	struct history_point {
		bool known;
		float mean[LIVE_N_SERIES];
	} points[LIVE_POINTS]; /* a ring: of period i at i % LIVE_POINTS */
	struct history_space spaces[HISTORY_SPACES], rest;
};

void history_init(struct history *h, int64_t mono_ms, int64_t wall_ms);
/* Time has passed until now, with what was seen last. */
void history_pass(struct history *h, int64_t mono_ms, int64_t wall_ms);
/* What is seen now, after history_pass: values holds LIVE_N_SERIES; what namespaces hold is 0 until
 * history_hold says otherwise. values NULL: nothing can be seen. */
void history_see(struct history *h, const int64_t *values);
void history_hold(struct history *h, const char *ns, int64_t ipus);
/* The point of a period, from 0; NULL: not there any more, or not yet. */
const struct history_point *history_at(const struct history *h, uint64_t period);
size_t history_first(const struct history *h); /* the oldest period that is kept */

struct history_usage {
	const char *ns; /* borrowed; "": the rest */
	double ipu_hours;
};
/* The largest first, the rest last; what has nothing is left out. Returns how many. */
size_t history_usage(const struct history *h, struct history_usage ret[HISTORY_SHOWN + 1]);

/* ---- live_steps.c ---- */

enum live_state { /* of an entry, at a look */
		  LIVE_NONE,
		  LIVE_CREATING,
		  LIVE_ACTIVE,
		  LIVE_ERROR,
		  LIVE_RESETTING,
		  LIVE_RELEASING,
		  LIVE_N_STATES
};

enum live_step {
	LIVE_MADE,
	LIVE_BECAME_ACTIVE,
	LIVE_RESET,
	LIVE_RELEASED,
	LIVE_REFUSED,
	LIVE_FAILED,
};
const char *live_step_name(enum live_step step);

/* How an owner that asks on lost its partition. */
enum live_loss { LIVE_KEPT, LIVE_LOST_REFUSED, LIVE_LOST_FAILED };

struct live_change { /* of an entry, from one look to the next */
	enum live_state before, after;
	bool another_run; /* it's for another run than before */
	bool been_active; /* by what is recorded of it */
	enum live_loss loss;
};
/* The steps that make it (doc/design/page.md, "Steps"); returns how many. */
#define LIVE_STEPS_AT_ONCE 4
size_t live_steps_between(const struct live_change *c, enum live_step ret[LIVE_STEPS_AT_ONCE]);

struct live_step_record {
	int64_t time_ms; /* wall */
	enum live_step step;
	uint32_t instance, ipus;
	unsigned controller; /* its number, 0: none */
	char ns[LIVE_NS_SIZE], owner[PARTITION_OWNER_KEY_SIZE], kind[64], name[254];
	char id[PARTITION_ID_MAX + 1], message[160];
};

/* Fixed memory. */
struct steps {
	uint64_t n; /* of all that there were; the last ones are kept, i at i % LIVE_STEPS */
	struct live_step_record kept[LIVE_STEPS];
};
/* Adds one; among those from `from` on it goes where its time puts it. */
void steps_add(struct steps *s, uint64_t from, const struct live_step_record *r);
const struct live_step_record *steps_at(const struct steps *s, uint64_t i); /* from 0; or NULL */
uint64_t steps_first(const struct steps *s);

/* ---- what a look sees ---- */

struct live_item;

/* An entry as it was at the last look. Owned by struct live's `known`, by its id. */
struct live_known {
	char id[PARTITION_ID_MAX + 1];
	struct partition_owner owner; /* owned */
	uint32_t instance, ipus, attempt;
	enum live_state state;
	int64_t bad_ms;      /* mono: since when its controller's list says that it's broken; 0 */
	int64_t error_ms;    /* wall: when it was first seen in LIVE_ERROR */
	unsigned controller; /* its number, 0: none */
	uint32_t seen_at;    /* its controller's place in the view, the last time */
	uint32_t listed;     /* its place in its controller's list, the last time */
	uint64_t look;       /* that it was last in */
	struct live_item *item;
};

struct live_controller {
	const struct vipu_controller *c;
	unsigned number;
	char key[12];
	int64_t since_ms; /* wall: of its reach */
	int64_t used;
	struct sums sums;
	bool *owned;     /* of its list's partitions: the operator's */
	uint32_t *first; /* of its list's partitions: the first of its places */
};

struct live_entry {
	const struct partition_entry *e;
	struct live_controller *at;          /* NULL: none of the fleet's */
	const struct vipu_partition *listed; /* NULL: not yet, or not any more */
	struct live_known *known;
	enum live_state state;
};

struct live_kept { /* a block that is kept for one that waits */
	const struct live_controller *at;
	size_t domain, n_domains;
	uint64_t mask;
	char for_whom[40];
};

struct live_view {
	struct live_controller *controllers; /* owned, as all arrays here */
	size_t n_controllers;
	struct live_entry *entries;
	size_t n_entries, entries_cap;
	struct live_kept *kept;
	size_t n_kept, kept_cap;
	size_t n_waiting;
	bool knows_held;
	size_t n_held; /* all of them */
	struct proxy_newest held;
	struct sums total;
	int64_t elsewhere; /* IPUs held where no controller of the fleet is */
};

/* A controller from look to look. Its number is its own, wherever it's configured: steps and
 * readers know it by that. Since when its reach is what it is, by the wall clock, is worked out
 * once, so that two clocks' grain doesn't make it another time at each look. By name, in `sinces`.
 */
struct live_since {
	unsigned number; /* from 1, never given twice */
	int64_t mono_ms, wall_ms;
	uint64_t look;
};

struct live_space { /* what a namespace holds, in `spaces` */
	int64_t ipus;
	uint64_t look;
};

/* ---- live_hand.c: what is made by hand ---- */

/* One that is in error, in `broken`, by its index. */
struct live_broken {
	int64_t wall_ms; /* when this process first saw it so */
	uint64_t look;
};
/* Of a controller's list. */
bool live_is_by_hand(const struct live_controller *at, size_t listed);
char *live_by_hand_index(const struct live_controller *at, const struct vipu_partition *listed);
void live_see_by_hand(struct live *l); /* at a look, when it's known what is the operator's */

/* ---- live_held.c: jobs that neither run nor have ended, and aren't in the queue ---- */

void live_see_held(struct live *l); /* at a look that is rendered: frames_begin was */

/* ---- live.c ---- */

/* What is wrong with one that is in LIVE_ERROR: its controller's words. */
#define LIVE_TROUBLE_SIZE sizeof(((struct partition_status *)0)->message)
void live_trouble(const struct live *l, const struct partition_entry *e, char *ret_z);

/* One look, now; without rendering only what steps and history need. */
void live_look(struct live *l, bool rendering);

/* ---- live_render.c: items as JSON ---- */

/* Where an item is written to: its text, or, with b NULL, only a sum of all that is in it. So what
 * hasn't changed costs no text. */
struct live_out {
	const struct live *l;
	struct buf *b;
	uint64_t sum;
	bool open;   /* nothing stands behind the last bracket yet */
	bool failed; /* larger than b may be */
};
typedef void live_write_fn(struct live_out *o, const void *what);

void out_open(struct live_out *o, const char *name, char bracket); /* name NULL: in an array */
void out_close(struct live_out *o, char bracket);
void out_int(struct live_out *o, const char *name, int64_t n);
void out_str(struct live_out *o, const char *name, const char *z);
void out_time(struct live_out *o, const char *name, int64_t wall_ms);
void out_raw(struct live_out *o, const char *name, struct str json);

void write_total(struct live_out *o, const void *view);
struct live_controller_item {
	const struct live_view *view;
	const struct live_controller *at;
};
void write_controller(struct live_out *o, const void *controller_item);
struct live_partition_item {
	const struct live_controller *at;    /* or NULL */
	const struct live_entry *entry;      /* NULL: made by hand */
	const struct vipu_partition *listed; /* or NULL */
	const char *key;
	int64_t error_ms; /* wall: made by hand, and first seen in error then; 0 */
};
void write_partition(struct live_out *o, const void *partition_item);
struct live_waiting_item {
	const struct partition_waiting *w;
	const char *key;
};
void write_waiting(struct live_out *o, const void *waiting_item);
struct live_held_item {
	const struct proxy_held *held;
	const char *key;
};
void write_held(struct live_out *o, const void *held_item);
void write_step(struct live_out *o, const struct live_step_record *r, uint64_t n);
void write_points(struct live_out *o, const struct history *h, uint64_t from, uint64_t to);
void write_usage(struct live_out *o, const struct history *h);

/* ---- live_frames.c: items as they are, frames ---- */

enum live_kind {
	LIVE_TOTAL,
	LIVE_CONTROLLERS,
	LIVE_PARTITIONS,
	LIVE_QUEUE,
	LIVE_HOLDS,
	LIVE_N_KINDS
};

#define LIVE_KEY_SIZE 40

struct live_item {
	struct list link; /* in its kind's list, in the order in which they came */
	char key[LIVE_KEY_SIZE];
	struct map *map;          /* that has it by its index; or NULL */
	char *index;              /* owned */
	struct live_known *known; /* whose item it is; or NULL */
	char *text;               /* owned */
	size_t len;
	uint64_t sum;
	uint64_t look;  /* that it was last in */
	uint64_t came;  /* that it came in */
	bool put;       /* it's new or different */
	uint64_t place; /* where it stands in a snapshot */
};

struct live_kept_frame {
	char *json; /* owned */
	size_t len;
};

struct live {
	struct loop *loop;
	struct partitions *partitions;
	struct vipu_fleet *fleet;
	bool full;
	proxy_pods_fn *pods;
	void *pods_arg;
	proxy_helds_fn *helds;
	void *helds_arg;
	struct vipu_fleet_watch fleet_watch;
	struct list watches;
	struct loop_timer timer;
	struct loop_work tell_work;
	char epoch[9];
	int64_t since_ms; /* wall */

	/* Looks. */
	bool changed;    /* something may have, since the last one */
	bool blind;      /* the last one saw nothing: the tracker hasn't been read */
	bool unrendered; /* items aren't what was seen last */
	int64_t looked_ms, rendered_ms, busy_ms, asked_ms;
	uint64_t looks;
	bool begun; /* there was one that saw entries: from then on there are steps */
	struct live_view view;
	struct map *known, *sinces, *spaces, *troubles, *broken;
	unsigned last_number; /* that a controller was given */
	uint64_t steps_from;  /* those of this look */
	struct steps *steps;
	struct history *history;

	/* Items and frames. */
	bool valid;  /* items are those of frame n */
	bool failed; /* one couldn't be written */
	uint64_t seed, last_key;
	struct list items[LIVE_N_KINDS];
	size_t n_items;       /* of all kinds */
	size_t n_seen, n_put; /* of them in this look: there, new or different */
	struct map *by_hand, *waiting, *held;
	struct live_item **order; /* the queue, of the last frame */
	size_t n_order, order_cap;
	struct live_item **new_order;
	size_t n_new_order, new_order_cap;
	struct buf scratch, usage; /* usage: as it was told last */
	uint64_t n;      /* of the last frame, or of the state that is known without one */
	int64_t time_ms; /* wall: its */
	uint64_t told_steps, told_periods;
	uint64_t first; /* of the frames that are kept; n + 1: none is */
	struct live_kept_frame frames[LIVE_KEEP_FRAMES]; /* i at i % LIVE_KEEP_FRAMES */
	size_t frames_bytes;
	char *snapshot; /* owned; of n; NULL: not made */
	size_t snapshot_len;
};

void frames_init(struct live *l);
void frames_done(struct live *l);
/* Items are forgotten, and frames: who comes back needs a snapshot. */
void frames_forget(struct live *l);
/* A look: frames_begin, an item_… for each that there is, frames_end, which makes a frame of what
 * has become different. */
void frames_begin(struct live *l);
void item_total(struct live *l);
void item_controller(struct live *l, const struct live_controller *at);
void item_entry(struct live *l, const struct live_entry *entry);
void item_by_hand(struct live *l, const struct live_controller *at,
		  const struct vipu_partition *listed);
void item_waiting(struct live *l, const struct partition_waiting *w);
void item_held(struct live *l, const struct proxy_held *held);
void frames_end(struct live *l);
int frames_snapshot(struct live *l, struct str *ret, struct err *err);
void frames_id(const struct live *l, uint64_t n, char ret_id[LIVE_ID_SIZE]);

#endif
