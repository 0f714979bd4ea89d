/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is believed of an entry after each event in its life (facts.h), and what is recorded of it.
 * Times: the entry was recorded at 100 s, with the default times.
 */
#include "partition/facts.h"
#include "partition/plan.h"
#include "tap.h"

#define T0      (100 * 1000)
#define SETTLED (T0 + 25 * 1000)

static void test_stamp(void)
{
	struct partition_entry e = {0};

	partition_entry_stamp(&e, PARTITION_CREATING, true, T0, &partition_times_default);
	is_int(e.settle_ms, SETTLED, "a create may land until window, call and margin have passed");
	partition_entry_stamp(&e, PARTITION_RELEASING, false, T0 + 1, &partition_times_default);
	is_int(e.settle_ms, SETTLED, "and still may when the entry is being released");
	is_int(e.since_ms, T0 + 1, "a phase begins when it's recorded");
	partition_entry_stamp(&e, PARTITION_RELEASING, true, T0 + 2, &partition_times_default);
	is_int(e.settle_ms, T0 + 2, "where every answer was definite, nothing is left to settle");
	partition_entry_stamp(&e, PARTITION_RELEASING, false, SETTLED + 1,
			      &partition_times_default);
	is_int(e.settle_ms, SETTLED + 1, "settling never lies before the phase");
}

/* An entry that another process wrote, by its own clock. */
static void test_loaded(void)
{
	struct partition_entry e = {.since_ms = T0, .settle_ms = SETTLED, .active_ms = T0 - 1};
	struct partition_facts f;

	partition_entry_loaded(&e, T0 + 7);
	is_int(e.since_ms, T0, "a clock that wasn't ahead is believed");
	is_int(e.settle_ms, SETTLED, "settling, too");
	partition_entry_loaded(&e, T0 - 49000);
	is_int(e.since_ms, T0 - 49000, "what was recorded in the future was recorded now");
	is_int(e.settle_ms, SETTLED - 49000, "and settles as long after it");
	is_int(e.active_ms, T0 - 49000, "active since now at the latest");
	partition_facts_init(&f, PARTITION_RELEASING, T0);
	is_int(f.unsure_ms, T0, "what an earlier process sent may still be under way");
	partition_facts_init(&f, PARTITION_RELEASING, 0);
	is_int(f.unsure_ms, 0, "for a new entry nothing is");
}

/* Until when what was sent may be under way. */
static void test_unsure(void)
{
	static const struct {
		enum partition_step call;
		struct err err;
		int64_t unsure_ms;
	} rows[] = {
		{PARTITION_CALL_REMOVE, {.kind = ERR_NONE}, 0},
		{PARTITION_CALL_REMOVE, {.kind = ERR_NOT_FOUND}, 0},
		{PARTITION_CALL_REMOVE, {.kind = ERR_DENIED}, 0},
		{PARTITION_CALL_REMOVE, {.kind = ERR_TIMEOUT, .maybe_applied = true}, T0 + 1},
		{PARTITION_CALL_CREATE, {.kind = ERR_TIMEOUT, .maybe_applied = true}, T0 + 1},
		{PARTITION_CALL_STATUS, {.kind = ERR_TIMEOUT, .maybe_applied = true}, 0},
		{PARTITION_CALL_LIST, {.kind = ERR_TIMEOUT, .maybe_applied = true}, 0},
	};
	struct vipu_status status = {.ready = VIPU_PS_ACTIVE};
	struct partition_facts f;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct err *err = rows[i].err.kind ? &rows[i].err : NULL;

		partition_facts_init(&f, PARTITION_RELEASING, 0);
		partition_facts_sent(&f, rows[i].call, T0 + 1);
		partition_facts_answered(&f, err, &status, T0 + 10001);
		is_int(f.unsure_ms, rows[i].unsure_ms, "%s: %s", partition_step_name(rows[i].call),
		       err ? err_kind_name(err->kind) : "done");
	}
	partition_facts_init(&f, PARTITION_RELEASING, 0);
	partition_facts_sent(&f, PARTITION_CALL_REMOVE, T0 + 1);
	partition_facts_cut(&f);
	is_int(f.unsure_ms, T0 + 1, "a remove that is given up");
}

/* Which run an entry is for. */
static void test_attempts(void)
{
	static const struct {
		enum partition_phase from, to;
		uint32_t had, asked, gets;
	} runs[] = {
		{PARTITION_CREATING, PARTITION_ACTIVE, 1, 1, 1},
		{PARTITION_CREATING, PARTITION_ACTIVE, 1, 2, 2},
		{PARTITION_CREATING, PARTITION_CREATING, 1, 2, 2},
		{PARTITION_CREATING, PARTITION_RELEASING, 1, 2, 1},
		{PARTITION_ACTIVE, PARTITION_RESETTING, 1, 2, 2},
		{PARTITION_ACTIVE, PARTITION_RELEASING, 1, 2, 1},
		{PARTITION_RESETTING, PARTITION_RESETTING, 2, 3, 3},
		{PARTITION_RESETTING, PARTITION_ACTIVE, 2, 3, 2},
		{PARTITION_RESETTING, PARTITION_RELEASING, 2, 3, 2},
		{PARTITION_RELEASING, PARTITION_ORPHAN, 1, 2, 1},
		{PARTITION_ORPHAN, PARTITION_RELEASING, 1, 2, 1},
	};

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct partition_entry e = {.phase = runs[i].from, .ask.attempt = runs[i].had};
		struct partition_facts f = {.recorded = true, .attempt = runs[i].asked};

		partition_facts_record(&f, &e, runs[i].to, T0, &partition_times_default);
		is_int(e.ask.attempt, runs[i].gets, "%s to %s, for run %u, asked for %u",
		       partition_phase_name(runs[i].from), partition_phase_name(runs[i].to),
		       runs[i].had, runs[i].asked);
	}
}

static void test_looks(void)
{
	struct partition_entry e = {
		.ask = {.ipus = 4}, .phase = PARTITION_RELEASING, .since_ms = T0};
	struct vipu_partition part = {.n_ipus = 4, .ready = VIPU_PS_ACTIVE};
	struct err not_found = {.kind = ERR_NOT_FOUND},
		   lost = {.kind = ERR_TIMEOUT, .maybe_applied = true};
	struct partition_facts f;

	partition_facts_init(&f, PARTITION_RELEASING, 0);
	partition_facts_sent(&f, PARTITION_CALL_STATUS, T0 + 1);
	ok(!partition_facts_answered(&f, &not_found, NULL, T0 + 2), "NOT_FOUND is an answer");
	partition_facts_sent(&f, PARTITION_CALL_STATUS, SETTLED);
	ok(partition_facts_answered(&f, &lost, NULL, SETTLED + 1), "no answer is a failure");
	is_int(f.status_asked_ms, T0 + 1, "and doesn't make an old look a new one");
	partition_facts_listed(&f, &e, &part, T0 + 2);
	is_int(f.status, PARTITION_UNSEEN, "a later list that has it: status counts no more");
	f.status = PARTITION_PRESENT;
	f.status_asked_ms = T0 + 9;
	partition_facts_listed(&f, &e, NULL, T0 + 8);
	is_int(f.listed, PARTITION_UNSEEN, "a later status that has it: the list counts no more");
	partition_facts_listed(&f, &e, NULL, T0 + 10);
	is_int(f.listed, PARTITION_NOT_FOUND, "a list after the status counts");
	partition_facts_init(&f, PARTITION_RESETTING, 0);
	partition_facts_sent(&f, PARTITION_CALL_RESET, T0 + 3);
	ok(partition_facts_answered(&f, &not_found, NULL, T0 + 4), "a reset of nothing fails");
	is_int(f.status, PARTITION_NOT_FOUND, "and is a look");
}

int main(void)
{
	test_stamp();
	test_loaded();
	test_unsure();
	test_attempts();
	test_looks();
	return done_testing();
}
