/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partition planner: a pure function from one tracker entry and what is known about it to the
 * one next step. doc/design/partition-states.md is its table. No I/O, no memory, no allocation.
 */
#ifndef IPU_PARTITION_PLAN_H
#define IPU_PARTITION_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/types.h"

/* All in milliseconds; the defaults are in the table. */
struct partition_times {
	int64_t window_ms, call_ms, margin_ms;
	int64_t active_ms; /* most time from creating to active */
	int64_t grace_ms;  /* releasing: then removes are forced */
	int64_t orphan_ms; /* a controller away that long, and not configured, is gone for good */
	int64_t poll_ms;   /* between two looks at a partition that changes */
	int64_t broken_ms; /* between two at one in PS_ERROR: it may take hours */
	int64_t remove_ms; /* between two removes that were taken and had no effect */
};
extern const struct partition_times partition_times_default;

/* To the last create, reset or remove that this process sent. */
enum partition_answer {
	PARTITION_UNSENT,
	PARTITION_OK,
	PARTITION_UNKNOWN, /* may have taken effect; also: read from the tracker, who knows */
	PARTITION_REFUSED, /* definitely not done: no room, invalid, denied, unreachable */
	PARTITION_EXISTS,  /* create: ALREADY_EXISTS */
};

enum partition_look { PARTITION_UNSEEN, PARTITION_PRESENT, PARTITION_NOT_FOUND };

enum partition_health { PARTITION_PENDING, PARTITION_HEALTHY, PARTITION_BROKEN, PARTITION_LEAVING };

enum partition_step {
	PARTITION_WAIT,
	PARTITION_RECORD, /* the entry changes to .phase, with new times and .reason */
	PARTITION_FORGET, /* the entry leaves the tracker */
	PARTITION_CALL_CREATE,
	PARTITION_CALL_STATUS,
	PARTITION_CALL_LIST,
	PARTITION_CALL_RESET,
	PARTITION_CALL_REMOVE,
	PARTITION_CALL_REMOVE_FORCED,
};

/* What is known about an entry. Milliseconds of this process' wall clock: never compared with
 * another one's but for the entry's own times (partition_entry_loaded). Answers and looks count
 * from the moment when the entry's present phase was recorded. */
struct partition_facts {
	int64_t now_ms;
	bool recorded;
	bool wanted;
	bool abandoned;              /* its owner doesn't wait for its removal */
	bool configured;             /* its controller is in the configuration */
	bool was_unknown;            /* an earlier create of this entry has an unknown outcome */
	bool listed_broken;          /* PS_ERROR in the list */
	bool busy;                   /* a call about it is in flight: */
	enum partition_step calling; /* … this one, */
	uint32_t attempt;            /* the run that its owner asks for */
	int64_t asked_ms;            /* … sent then */
	int64_t not_before_ms;       /* back-off of the last call */

	int64_t unreachable_since_ms; /* 0: its controller answers, or hasn't been tried */

	enum partition_answer answer; /* to this phase's request */
	enum partition_look status;   /* GetPartitionStatus */
	int64_t answered_ms;          /* when the answer came */
	int64_t unsure_ms; /* nothing of unknown outcome was sent later; 0: nothing at all */
	int64_t status_asked_ms;
	enum partition_health health; /* when present; idle is HEALTHY only without an operation */

	enum partition_look listed; /* the newest complete ListPartitions */
	int64_t list_called_ms;     /* in this phase; 0: not yet */
	int64_t listed_asked_ms;
	uint32_t listed_ipus; /* its size there, 0: unknown */
};

struct partition_plan {
	enum partition_step step;
	enum partition_phase phase; /* of RECORD */
	enum partition_why why;     /* of RECORD and FORGET: what the owner is told, if anything */
	int64_t again_ms; /* look again then at the latest; 0: only when something changes */
};

struct partition_plan partition_plan(const struct partition_entry *entry,
				     const struct partition_facts *facts,
				     const struct partition_times *times);

/* Puts an entry into a phase that is about to be recorded. certain: every request that was sent for
 * it has had a definite answer, so that nothing is left to settle; otherwise what an earlier phase
 * sent may still be under way, and its settling carries on. */
void partition_entry_stamp(struct partition_entry *entry, enum partition_phase phase, bool certain,
			   int64_t now_ms, const struct partition_times *times);

/* Of an entry that was read from the tracker by who leads now. A clock that was ahead of ours wrote
 * it: its times are moved back until it was recorded now, which is still after all that was sent.
 */
void partition_entry_loaded(struct partition_entry *entry, int64_t now_ms);

const char *partition_step_name(enum partition_step step);

#endif
