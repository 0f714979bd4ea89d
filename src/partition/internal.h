/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What manager.c (owners, slots, the queue) and item.c (one tracker entry at work) share. A slot is
 * an owner's instance; it has at most one serving item, and beside it those being released.
 */
#ifndef IPU_PARTITION_INTERNAL_H
#define IPU_PARTITION_INTERNAL_H

#include "core/list.h"
#include "core/map.h"
#include "loop/backoff.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "partition/facts.h"
#include "partition/manager.h"
#include "partition/schedule.h"
#include "partition/tracker.h"
#include "partition/usage.h"

struct owner {
	struct partitions *p;
	struct partition_owner who;
	struct slot **slots; /* owned, and they; by instance */
	size_t n_slots;
	struct list changed; /* in p->changed while a notice is due */
	uint64_t summed;     /* the pass that asked_ipus was last counted in */
	uint64_t asked_ipus; /* by all its slots that ask */
};

/* What the queue remembers of a slot that waits. */
struct queue_place {
	unsigned position, said_position; /* from 1; as it was said last */
	struct {
		char *controller; /* owned */
		unsigned n;
	} *refusals; /* owned */
	size_t n_refusals;
	/* The block that is reserved for it; NULL: none. */
	char *kept_at;
	size_t kept_domain;
	uint64_t kept_mask;
	int64_t kept_start_ms; /* wall: when it's expected to be free; SCHEDULE_NEVER */
};

struct slot {
	struct owner *owner;
	struct list queue; /* in p->queue while it asks and nothing serves it */
	struct list items; /* all of its entries */
	struct item *serving;
	/* What is asked for, or what was read from the tracker. What serves it may still be for an
	 * earlier run: its entry says. */
	struct partition_ask ask;
	bool asking;    /* also: it asked an earlier process, and hasn't said otherwise */
	bool failed;    /* vanished while in use: waits for its owner's word */
	bool abandoned; /* its owner doesn't wait for what it releases */
	bool leaving;   /* released, and what it may have is still looked for; asking stays */
	bool looked;    /* for what could be taken over */
	bool adopted;   /* what serves it was taken over */
	bool outdated;  /* it would say other words by now, which wait */
	uint32_t resets;
	enum partition_why why;
	char *message;      /* NULL: none */
	int64_t since_ms;   /* wall: of its present state */
	int64_t arrived_ms; /* wall: when it was asked for; its place among its priority */
	char *wait;         /* its record in the tracker while it waits; NULL: none there */
	struct queue_place place;
	int64_t said_ms;       /* mono: when it was said last why it waits */
	int64_t words_ms;      /* wall: the same */
	int64_t not_before_ms; /* mono: back-off after a failure */
	struct backoff backoff;
	uint64_t told; /* hash of what the owner was told last */
};

enum item_origin {
	ITEM_MADE,    /* here and now */
	ITEM_ADOPTED, /* found on a controller */
	ITEM_READ,    /* from the tracker */
};

struct ipuof;

struct item {
	struct partitions *p;
	struct slot *slot;
	struct list link; /* in slot->items */
	struct partition_entry *entry;
	struct partition_facts facts; /* answer, status and health; the rest is made at each look */
	struct backoff backoff;
	struct scope calls;
	struct loop_work work;
	struct loop_timer timer;
	struct ipuof *ipuof;
	struct usage usage;
	bool held;       /* its controller is held in the fleet */
	bool usable;     /* active, the tracker has said so, and its files, where Pods need them,
			  * have come: its owner's Pods may use it */
	bool forgotten;  /* dropped from the tracker; goes when that's written */
	bool in_tracker; /* or on its way there; else it can't be written down */
	bool unwritten;  /* as it is now: there was no memory */
	char *message;   /* the controller's last word on it, for people; NULL: none */
};

#define PARTITION_UNWRITTEN_MS 1000

struct partitions {
	struct partition_service service;
	struct loop *loop;
	struct vipu_fleet *fleet;
	struct partition_times times;
	struct tracker *tracker;
	char *tracker_name; /* its first ConfigMap's */
	partitions_synced_fn *on_synced;
	partitions_change_fn *on_change;
	partitions_report_fn *on_report;  /* or NULL */
	bool (*may_act)(void *arg);       /* or NULL */
	void (*on_superseded)(void *arg); /* or NULL */
	void *arg;
	struct map *owners;  /* by UID */
	struct map *items;   /* by partition id */
	struct map *unowned; /* by id, what has been reported (unowned.c) */
	uint64_t unowned_looks;
	struct loop_timer owners_timer;
	struct loop_timer unwritten; /* there was no memory to write a wait down */
	bool owners_have_asked;      /* all that there are, by now */
	struct map *waits; /* slots by their key in the tracker; only a follower needs it */
	struct list queue; /* slots that wait; in their order unless queue_mixed */
	struct list changed;
	uint64_t generation; /* of all that others can see */
	bool following;      /* another process acts: this one only shows what the tracker says */
	bool fleet_known;    /* the list of controllers has been read */
	bool nodes_known;    /* which of them have a node that is ready, as far as it can be */
	bool waiting;        /* the fleet has been told that something waits */
	struct map *looks;   /* by controller: what the queue knows of it */
	struct partition_rules rules;
	struct namespaces *namespaces; /* NULL: of a follower */
	enum schedule_choice choice;
	bool queue_mixed; /* the queue has to be put in order */
	int64_t last_arrived_ms;
	uint64_t passes;
	int64_t rest_until_ms; /* monotonic: a pass that takes long isn't followed at once by
				  another */
	unsigned fits[SCHEDULE_SIZES]; /* partitions that could be made, by the last pass */
	struct vipu_fleet_watch fleet_watch;
	struct scope calls;
	struct loop_work pass_work, notify_work;
	struct loop_timer pass_timer;
};

/* ---- item.c ---- */

/* n 0: so that a first one is seen to be one more. */
void item_count_failed_releases(const char *controller, unsigned n);
/* Takes the entry. Of one that wasn't made here, it's unknown what was sent for it. */
struct item *item_new(struct slot *slot, struct partition_entry *entry, enum item_origin origin);
void item_free(struct item *item);
void item_touch(struct item *item);       /* something about it changed: look again */
void item_count_usage(struct item *item); /* brings its namespace's IPU-seconds up to date */
bool item_is_orphan(const struct item *item);
bool item_is_unlisted(const struct item *item); /* not in its controller's newest list */

/* ---- unowned.c ---- */

void unowned_init(struct partitions *p);
void unowned_done(struct partitions *p);
void unowned_synced(struct partitions *p);                       /* the tracker has been read */
void unowned_look(struct partitions *p, const char *controller); /* its list is new */

/* ---- found.c ---- */

extern const struct tracker_ops found_ops;

/* ---- manager.c, called by the others ---- */

struct slot *slot_need(struct partitions *p, const struct partition_ask *ask);
void slot_release(struct slot *slot); /* it asks no more; it may be gone */
void slot_sweep(struct slot *slot);   /* frees it if it's neither asked for nor held */

/* The entry, which isn't in the tracker yet, serves the slot from now on; it's taken over. */
void slot_serve(struct slot *slot, struct partition_entry *entry, enum item_origin origin);
/* It waits, and for what: words of a reason that stays move at most once a minute, unless it's one
 * of the first in the queue and its place has changed. Returns whether anything was said. */
bool slot_wait_because(struct slot *slot, enum partition_why why, const char *message);
/* A partition that its owner uses isn't there: the owner's word decides what comes next. */
void slot_vanished(struct slot *slot, const char *id);
/* The item, in phase was until now, no longer serves its slot. why NONE: its owner wanted it so. */
void slot_lost_item(struct slot *slot, struct item *item, enum partition_phase was,
		    enum partition_why why);
void slot_changed(struct slot *slot); /* what its owner sees may have changed */
void slot_item_gone(struct slot *slot, struct item *item); /* it left the tracker: frees it */
void partitions_pass_soon(struct partitions *p); /* room may have come: look at the queue */

#endif
