/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each function is one event in the life of an entry, and what may be believed after it.
 */
#include "partition/facts.h"

void partition_facts_init(struct partition_facts *f, enum partition_phase phase, int64_t loaded_ms)
{
	bool loaded = loaded_ms != 0;

	*f = (struct partition_facts){.was_unknown = loaded, .unsure_ms = loaded_ms};
	if (loaded && (phase == PARTITION_CREATING || phase == PARTITION_RESETTING))
		f->answer = PARTITION_UNKNOWN;
}

void partition_facts_sent(struct partition_facts *f, enum partition_step call, int64_t now_ms)
{
	f->calling = call;
	f->busy = true;
	f->asked_ms = now_ms;
	if (call == PARTITION_CALL_LIST)
		f->list_called_ms = now_ms;
}

static enum partition_answer answer_of(const struct err *err)
{
	if (!err)
		return PARTITION_OK;
	if (err->kind == ERR_EXISTS)
		return PARTITION_EXISTS;
	return err->maybe_applied ? PARTITION_UNKNOWN : PARTITION_REFUSED;
}

static void note_answer(struct partition_facts *f, const struct err *err, int64_t now_ms)
{
	if (f->answer == PARTITION_UNKNOWN)
		f->was_unknown = true;
	f->answer = answer_of(err);
	if (f->answer == PARTITION_UNKNOWN)
		f->unsure_ms = f->asked_ms;
	f->answered_ms = now_ms;
	f->status = PARTITION_UNSEEN; /* what was seen before it counts no more */
}

static enum partition_health health_of(const struct vipu_status *s)
{
	if (s->ready == VIPU_PS_REMOVED || s->operation == VIPU_POS_REMOVING)
		return PARTITION_LEAVING;
	if (s->ready == VIPU_PS_ERROR || s->operation == VIPU_POS_FAILED)
		return PARTITION_BROKEN;
	if (s->ready == VIPU_PS_ACTIVE &&
	    (s->operation == VIPU_POS_IDLE || s->operation == VIPU_POS_UNDEFINED))
		return PARTITION_HEALTHY;
	return PARTITION_PENDING;
}

static void note_status(struct partition_facts *f, const struct vipu_status *s)
{
	f->health = health_of(s);
	/* Removed and at rest is gone, however long the controller remembers it. */
	f->status = s->ready == VIPU_PS_REMOVED && s->operation != VIPU_POS_REMOVING
			    ? PARTITION_NOT_FOUND
			    : PARTITION_PRESENT;
	f->status_asked_ms = f->asked_ms;
}

bool partition_facts_answered(struct partition_facts *f, const struct err *err,
			      const struct vipu_status *status, int64_t now_ms)
{
	bool removes = f->calling == PARTITION_CALL_REMOVE ||
		       f->calling == PARTITION_CALL_REMOVE_FORCED;
	bool looks = f->calling == PARTITION_CALL_STATUS;
	bool missing = err && err->kind == ERR_NOT_FOUND;
	bool failed = err && !((removes || looks) && missing);

	if (looks && !err)
		note_status(f, status);
	else if (removes)
		note_answer(f, failed ? err : NULL, now_ms);
	else if (!looks && f->calling != PARTITION_CALL_LIST)
		note_answer(f, err, now_ms);
	/* Without an answer to a look, what was seen before keeps its time. A reset looks, too. */
	if (missing && (looks || f->calling == PARTITION_CALL_RESET)) {
		f->status = PARTITION_NOT_FOUND;
		f->status_asked_ms = f->asked_ms;
	}
	f->busy = false;
	if (!failed)
		f->not_before_ms = 0;
	return failed;
}

void partition_facts_listed(struct partition_facts *f, const struct partition_entry *entry,
			    const struct vipu_partition *part, int64_t asked_ms)
{
	f->listed = PARTITION_UNSEEN;
	f->listed_broken = false;
	f->listed_ipus = 0;
	if (!asked_ms || asked_ms < entry->since_ms)
		return;
	f->listed_asked_ms = asked_ms;
	/* Where the two looks don't agree, the older one counts no more, and is asked for again. */
	if (!part || part->ready == VIPU_PS_REMOVED) {
		if (f->status != PARTITION_PRESENT || f->status_asked_ms < asked_ms)
			f->listed = PARTITION_NOT_FOUND;
		return;
	}
	if (f->status == PARTITION_NOT_FOUND && f->status_asked_ms <= asked_ms)
		f->status = PARTITION_UNSEEN;
	f->listed = PARTITION_PRESENT;
	f->listed_ipus = (uint32_t)part->n_ipus;
	f->listed_broken = part->ready == VIPU_PS_ERROR;
}

void partition_facts_cut(struct partition_facts *f)
{
	if (!f->busy)
		return;
	f->busy = false;
	if (f->calling != PARTITION_CALL_STATUS && f->calling != PARTITION_CALL_LIST)
		f->unsure_ms = f->asked_ms;
	if (f->calling == PARTITION_CALL_CREATE || f->calling == PARTITION_CALL_RESET)
		f->was_unknown = true;
}

/* A new partition is for whatever run is asked for when it becomes active: nobody has used it. One
 * that was used is for the run that its reset was recorded for, whatever is asked for since. */
static bool takes_attempt(enum partition_phase from, enum partition_phase to)
{
	return to == PARTITION_CREATING || to == PARTITION_RESETTING ||
	       (to == PARTITION_ACTIVE && from == PARTITION_CREATING);
}

void partition_facts_record(struct partition_facts *f, struct partition_entry *entry,
			    enum partition_phase phase, int64_t now_ms,
			    const struct partition_times *times)
{
	partition_facts_cut(f);
	if (f->answer == PARTITION_UNKNOWN)
		f->was_unknown = true;
	if (takes_attempt(entry->phase, phase))
		entry->ask.attempt = f->attempt;
	partition_entry_stamp(entry, phase, !f->was_unknown, now_ms, times);
	f->list_called_ms = 0;
	f->answer = PARTITION_UNSENT;
	f->status = PARTITION_UNSEEN;
	f->not_before_ms = 0;
}
