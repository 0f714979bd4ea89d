/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How what is known about a tracker entry changes with what is sent for it, what comes back, and
 * what is recorded. Pure functions of their arguments, without a clock: what the planner is to
 * believe is decided here and in plan.c, and nowhere else. Times are wall-clock milliseconds.
 */
#ifndef IPU_PARTITION_FACTS_H
#define IPU_PARTITION_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "partition/plan.h"
#include "vipu/api.h"

/* Of an entry that begins here. loaded_ms: it was read from the tracker then, and the outcome of
 * what an earlier process sent for it is unknown; 0: it's new. */
void partition_facts_init(struct partition_facts *f, enum partition_phase phase, int64_t loaded_ms);

/* A call goes out now. */
void partition_facts_sent(struct partition_facts *f, enum partition_step call, int64_t now_ms);

/* The call in flight has ended. err: NULL if it succeeded; status: the answer of a status call that
 * did. Returns whether it failed, so that the next call has to wait (not_before_ms is the
 * caller's): a partition that isn't there is an answer to looks and removes, and no failure. */
bool partition_facts_answered(struct partition_facts *f, const struct err *err,
			      const struct vipu_status *status, int64_t now_ms);

/* Takes a controller's newest list. part: what it holds under the entry's identifier, or NULL;
 * asked_ms: when it was asked for, 0: there is none yet. A list that was asked for before the
 * entry's phase was recorded says nothing. */
void partition_facts_listed(struct partition_facts *f, const struct partition_entry *entry,
			    const struct vipu_partition *part, int64_t asked_ms);

/* The call in flight, if any, is given up: it may still take effect. */
void partition_facts_cut(struct partition_facts *f);

/* The entry goes into a phase that is about to be recorded: entry and facts change together. What
 * is in flight is given up. Where the phase begins a create or a reset, or ends a create, the entry
 * is for the run that is asked for now (f->attempt). */
void partition_facts_record(struct partition_facts *f, struct partition_entry *entry,
			    enum partition_phase phase, int64_t now_ms,
			    const struct partition_times *times);

#endif
