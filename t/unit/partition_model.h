/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world around the partition planner: controllers, a tracker, two replicas of the operator
 * with their lease, and owners with Pods. One step is one event: a request that takes effect, an
 * answer that arrives, a look of the planner, a fault. doc/design/partition-model.md explains it.
 * Fixed arrays, no allocation in a step, and no randomness but the step's own number.
 */
#ifndef IPU_T_UNIT_PARTITION_MODEL_H
#define IPU_T_UNIT_PARTITION_MODEL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "partition/facts.h"
#include "partition/plan.h"
#include "partition/types.h"

#define CONTROLLERS 2
#define REPLICAS    2
#define OWNERS      3
#define INSTANCES   2
#define SEATS       (OWNERS * INSTANCES)
#define IPUS        12 /* of one controller */
#define IDS         96 /* identifiers of one episode */
#define STRANGERS   4  /* … of them, those of partitions made by hand */
#define PARTS       16 /* on one controller at a time */
#define CALLS       48
#define WRITES      6 /* requests about the tracker under way */
#define ITEMS       20
#define UIDS        64

#define NONE (-1)

/* A request may take effect that long after its sender gave it up; replicas' clocks differ by twice
 * the skew: together less than the planner's margin. */
#define LATE_MS    3500
#define SKEW_MS    500
#define TRACKER_MS 15000

/* ---- the tracker ---- */

struct val { /* one entry, comparable by its bytes; ipus 0: not there */
	int32_t ipus, uid, instance, controller, phase, attempt;
	int64_t since_ms, settle_ms, active_ms;
};

struct write { /* a read or a write of the tracker, under way */
	bool used, landed, is_read, ok;
	bool is_claim; /* a new leader's first write */
	int8_t from;
	uint32_t epoch;
	int64_t sent_ms;
	int64_t slow_ms;
	uint32_t version; /* of a write: the precondition; of an answer: what is there */
	uint64_t changes[(IDS + 63) / 64];
	struct val vals[IDS]; /* wanted; then the answer */
};

/* ---- controllers ---- */

struct part {
	int16_t id;
	int16_t ipus;
	uint8_t ready, operation;
	bool ours;        /* made by a request of ours, not by hand */
	bool failing;     /* its present operation will fail */
	int64_t reset_ms; /* 0: never */
	int32_t used;     /* by the Pods of which run since it was made or reset; 0: none */
	int64_t made_ms;
};

struct controller {
	struct part parts[PARTS];
	int n;
	bool down, configured;
	bool status_lies,
		list_lies; /* just now: what is there isn't shown. Never both in a world */
	bool may_status_lie;
};

struct listing {
	int n;
	int16_t id[PARTS], ipus[PARTS];
	uint8_t ready[PARTS];
};

struct call {
	bool used, landed;
	bool cut; /* nobody waits for the answer any more */
	int8_t from, controller;
	int16_t id;
	uint8_t kind; /* enum partition_step */
	int16_t ipus;
	uint32_t epoch;
	int64_t sent_ms;
	int64_t slow_ms;   /* it takes effect then at the earliest */
	enum err_kind err; /* the answer */
	bool maybe;
	uint8_t ready, operation;
	struct listing list;
};

/* ---- replicas ---- */

struct record { /* as in partition/tracker.c */
	struct val want, stored;
	bool put;
};

struct m_item {
	bool used, usable, forgotten;
	int16_t id;
	bool knew_foreign; /* its first create was answered ALREADY_EXISTS */
	struct partition_entry entry;
	struct partition_facts facts;
};

struct m_slot { /* by owner and instance */
	bool used, asking, failed, abandoned;
	int16_t uid, instance, ipus;
	int16_t serving; /* identifier */
	int32_t attempt;
	int64_t not_before_ms;
};

struct view { /* a controller as a replica sees it */
	bool has, reach, unreach, asking;
	int64_t asked_ms, failing_since_ms;
	struct listing list;
};

struct replica {
	bool alive, leader, synced;
	uint32_t epoch;
	int64_t lease_until_ms, skew_ms;
	uint64_t incarnation;
	bool must_read, busy; /* of its tracker */
	bool was_read;        /* … which is then written once, so that no older write can land */
	bool any_doubt;
	uint64_t doubt[(IDS + 63) / 64]; /* keys of a write whose outcome is unknown */
	int64_t retry_ms;
	uint32_t version;
	struct record records[IDS];
	struct m_item items[ITEMS];
	struct m_slot slots[ITEMS];
	struct view views[CONTROLLERS];
};

/* ---- owners ---- */

struct seat { /* an owner's instance */
	bool wants;
	int16_t ipus;
	int16_t users;   /* the identifier of the partition that its Pods use, or NONE */
	int32_t attempt; /* its present run, from 1 */
	int32_t users_attempt, asked_attempt;
	int64_t asked_ms; /* when it asked for that one first */
};

struct owner {
	int16_t uid;
	bool leaving;
	struct seat seats[INSTANCES];
};

/* ---- the world ---- */

enum action {
	ACT_TICK,
	ACT_PAUSE,
	ACT_LONG_PAUSE,
	ACT_LAND,
	ACT_DELIVER,
	ACT_LOSE_REQUEST,
	ACT_LOSE_REPLY,
	ACT_OPERATION,
	ACT_BREAK,
	ACT_OUTAGE,
	ACT_UP,
	ACT_LIE,
	ACT_HONEST,
	ACT_HAND_MAKE,
	ACT_HAND_REMOVE,
	ACT_HAND_REMOVE_OURS,
	ACT_HAND_SQUAT,
	ACT_LEAVE_CONFIG,
	ACT_ENTER_CONFIG,
	ACT_TRACKER_LAND,
	ACT_TRACKER_DELIVER,
	ACT_TRACKER_LOSE_REQUEST,
	ACT_TRACKER_LOSE_REPLY,
	ACT_TRACKER_WATCH,
	ACT_TRACKER_TOUCH,
	ACT_RUN,
	ACT_SERVE,
	ACT_TRACKER_STEP,
	ACT_REFRESH,
	ACT_RENEW,
	ACT_LEASE_LOST,
	ACT_TAKE_LEASE,
	ACT_STOP,
	ACT_CRASH,
	ACT_START,
	ACT_MIND,
	ACT_RESIZE,
	ACT_NEXT_RUN,
	ACT_END_USERS,
	ACT_SYNC,
	ACT_SEE,
	ACT_LEAVE,
	ACTIONS,
};

/* What happened beside the actions: each must happen often enough, too. */
enum event {
	EV_CREATE_LATE, /* took effect after its sender had given up, died or lost its lease */
	EV_RESET_LATE,
	EV_REMOVE_LATE,
	EV_TRACKER_LATE,
	EV_CREATED,
	EV_NO_ROOM,
	EV_EXISTS,
	EV_REFUSED,
	EV_RESET,
	EV_REMOVED,
	EV_REMOVE_FAILED,
	EV_FAILED_CREATE,
	EV_TIMEOUT,
	EV_CUT,
	EV_CONFLICT,
	EV_LOADED,
	EV_RECORD_CREATING,
	EV_RECORD_ACTIVE,
	EV_RECORD_RESETTING,
	EV_RECORD_RELEASING,
	EV_RECORD_ORPHAN,
	EV_ORPHAN_BACK,
	EV_FORGET,
	EV_VANISHED,
	EV_TAKEN,
	EV_DOOMED,
	EV_AGAIN, /* a create sent again in its window */
	EV_USERS,
	EV_FRESH, /* they use one that was reset for their run */
	EV_GONE,
	EV_ABANDONED,
	EVENTS,
};

enum rule {
	RULE_NONE,
	RULE_TRACKED,  /* 1: no partition of ours without an entry */
	RULE_OWN,      /* 2: one owner, one usable partition, nothing done to it under its users */
	RULE_FOREIGN,  /* 3: what isn't the tracker's is left alone */
	RULE_HELD,     /* 4: "holds nothing" is true, and stays so */
	RULE_CAPACITY, /* 5: what is free is given, and nothing else */
	RULE_PROGRESS, /* in the end everybody has what they want, and nothing is left over */
};

struct world {
	int64_t now_ms;
	bool quiet;                       /* no faults any more: the end of an episode */
	bool talk;                        /* say what happens */
	uint32_t tempo;                   /* how fast time passes between two steps */
	uint32_t slow_calls, slow_writes; /* one in so many takes its time */
	enum rule broken;
	char why[256];

	struct controller controllers[CONTROLLERS];
	struct call calls[CALLS];
	struct write writes[WRITES];
	struct replica replicas[REPLICAS];
	struct owner owners[OWNERS];

	uint32_t version; /* of the tracker as it is */
	struct val tracker[IDS];
	int lease_holder;                       /* a replica, or NONE */
	int64_t lease_ms;                       /* renewed */
	int64_t lease_lasts_ms, lease_renew_ms; /* the episode's (lease.h) */

	int n_ids, n_uids;
	char ids[IDS][PARTITION_ID_MAX + 1];
	int16_t uid_of[IDS], instance_of[IDS], ipus_of[IDS];
	bool was_made[IDS]; /* by a request of ours, at some time */
	bool squatted[IDS]; /* by hand, at some time */
	char uids[UIDS][12];
	bool uid_gone[UIDS];
};

extern unsigned long counted[ACTIONS], happened[EVENTS];
extern const char *const action_names[ACTIONS];
extern const char *const event_names[EVENTS];

/* Numbers of one step. */
struct dice {
	uint64_t state;
};
static inline uint32_t roll(struct dice *d, uint32_t n)
{
	uint64_t z = (d->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(((z ^ (z >> 31)) >> 32) * n >> 32);
}

/* When a request takes effect at the earliest: at once, or, one in so many, up to most_ms later.
 * The number is the request's own, as nobody throws dice when it's sent. */
static inline int64_t slow_until(int64_t now_ms, uint64_t number, uint32_t one_in, int64_t most_ms)
{
	struct dice d = {(uint64_t)now_ms * 1000003 + number};

	if (roll(&d, one_in))
		return now_ms;
	if (roll(&d, 2)) /* as late as can be: that's where faults show */
		return now_ms + most_ms - (int64_t)roll(&d, 2000);
	return now_ms + (int64_t)roll(&d, (uint32_t)most_ms);
}

/* partition_model_world.c: controllers, what is under way, the invariants. All actions return
 * whether there was something to do. */
void world_init(struct world *w, uint64_t seed);
bool world_act(struct world *w, enum action action, struct dice *d);
void world_check(struct world *w);
void world_expire(struct world *w); /* what time has ended: leases, calls */
void world_fail(struct world *w, enum rule rule, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void world_say(const struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define SAY(w, ...) ((w)->talk ? world_say(w, __VA_ARGS__) : (void)0)
struct part *part_find(struct controller *c, int id);
int part_used(const struct controller *c);
/* false: too much is under way. view: for the replica's view of the controller, id NONE. */
bool call_send(struct world *w, int from, int controller, enum partition_step kind, int id,
	       int ipus);

/* partition_model_tracker.c: the API server's ConfigMap, and each replica's side of it. */
bool tracker_act(struct world *w, enum action action, struct dice *d);
void tracker_expire(struct world *w);
void tracker_put(struct world *w, int r, const struct m_item *it);
void tracker_drop(struct world *w, int r, int id);
bool tracker_recorded(const struct world *w, int r, int id);
struct val val_of(const struct world *w, const struct partition_entry *e);

/* partition_model_replica.c: manager and item around the planner. */
bool replica_act(struct world *w, enum action action, struct dice *d);
bool replica_run(struct world *w, int r, int item); /* false: nothing was to be done */
bool replica_serve(struct world *w, int r, int slot);
bool replica_may_act(const struct world *w, int r);
void replica_reset(struct world *w, int r); /* forgets all: a process begins or loses its lease */
void replica_answer(struct world *w, struct call *c, uint32_t backoff_ms);
void replica_found(struct world *w, int r, int id, const struct val *v);
struct m_item *replica_item(struct world *w, int r, int id);
struct m_slot *replica_slot(struct world *w, int r, int uid, int instance);
void replica_ensure(struct world *w, int r, int uid, int instance, int ipus, int attempt);
void replica_release(struct world *w, int r, int uid, int instance);
void replica_abandon(struct world *w, int r, int uid, int instance);
int replica_held(const struct world *w, int r, int uid);
void replica_expire(struct world *w); /* leases that have run out */
static inline int64_t clock_of(const struct world *w, int r)
{
	return w->now_ms + w->replicas[r].skew_ms;
}

/* partition_model_owner.c */
bool owner_act(struct world *w, enum action action, struct dice *d);
/* Whether a replica tells this owner's instance that it may use a partition: which, or NONE. */
int owner_told(struct world *w, int r, int o, int i);
void owner_check_use(struct world *w, int id, const char *what); /* something is done to it */

/* partition_model_end.c: faults end, time passes, and all must come right. */
void world_settle(struct world *w);

#endif
