/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page's steps: the table of doc/design/page.md, each of its fields, and the last 200 in
 * the order of their times.
 */
#include "tap.h"

#include "proxy/live_impl.h"

struct row {
	enum live_state before, after;
	bool another_run;
	enum live_loss loss;
	const char *want; /* names with a space before each */
	bool been_active;
};

static const struct row rows[] = {
	{LIVE_NONE, LIVE_CREATING, false, LIVE_KEPT, " made"},
	{LIVE_NONE, LIVE_ACTIVE, false, LIVE_KEPT, " made active"},
	{LIVE_NONE, LIVE_ERROR, false, LIVE_KEPT, " made active failed"},
	{LIVE_NONE, LIVE_RESETTING, false, LIVE_KEPT, " made active reset"},
	{LIVE_NONE, LIVE_RELEASING, false, LIVE_KEPT, " made"},
	{LIVE_NONE, LIVE_RELEASING, false, LIVE_LOST_FAILED, " made failed"},
	{LIVE_NONE, LIVE_RELEASING, false, LIVE_LOST_REFUSED, " made refused"},
	{LIVE_NONE, LIVE_RELEASING, false, LIVE_KEPT, " made active", true},
	{LIVE_NONE, LIVE_RELEASING, false, LIVE_LOST_FAILED, " made active failed", true},
	{LIVE_NONE, LIVE_NONE, false, LIVE_KEPT, ""},

	{LIVE_CREATING, LIVE_CREATING, false, LIVE_KEPT, ""},
	{LIVE_CREATING, LIVE_CREATING, true, LIVE_KEPT, ""},
	{LIVE_CREATING, LIVE_ACTIVE, false, LIVE_KEPT, " active"},
	{LIVE_CREATING, LIVE_ACTIVE, true, LIVE_KEPT, " active"},
	{LIVE_CREATING, LIVE_ERROR, false, LIVE_KEPT, " active failed"},
	{LIVE_CREATING, LIVE_RESETTING, true, LIVE_KEPT, " active reset"},
	{LIVE_CREATING, LIVE_RELEASING, false, LIVE_KEPT, ""},
	{LIVE_CREATING, LIVE_RELEASING, false, LIVE_LOST_FAILED, " failed"},
	{LIVE_CREATING, LIVE_RELEASING, false, LIVE_LOST_REFUSED, " refused"},
	{LIVE_CREATING, LIVE_RELEASING, false, LIVE_KEPT, " active", true},
	{LIVE_CREATING, LIVE_RELEASING, false, LIVE_LOST_FAILED, " active failed", true},
	{LIVE_CREATING, LIVE_NONE, false, LIVE_KEPT, " released"},
	{LIVE_CREATING, LIVE_NONE, false, LIVE_LOST_FAILED, " failed"},
	{LIVE_CREATING, LIVE_NONE, false, LIVE_LOST_REFUSED, " refused"},

	{LIVE_ACTIVE, LIVE_ACTIVE, false, LIVE_KEPT, ""},
	{LIVE_ACTIVE, LIVE_ACTIVE, true, LIVE_KEPT, " reset active"},
	{LIVE_ACTIVE, LIVE_ERROR, false, LIVE_KEPT, " failed"},
	{LIVE_ACTIVE, LIVE_ERROR, true, LIVE_KEPT, " reset active failed"},
	{LIVE_ACTIVE, LIVE_RESETTING, true, LIVE_KEPT, " reset"},
	{LIVE_ACTIVE, LIVE_RESETTING, false, LIVE_KEPT, " reset"},
	{LIVE_ACTIVE, LIVE_RELEASING, false, LIVE_KEPT, "", true},
	{LIVE_ACTIVE, LIVE_RELEASING, false, LIVE_LOST_FAILED, " failed"},
	{LIVE_ACTIVE, LIVE_NONE, false, LIVE_KEPT, " released"},
	{LIVE_ACTIVE, LIVE_NONE, false, LIVE_LOST_FAILED, " failed"},

	{LIVE_ERROR, LIVE_ACTIVE, false, LIVE_KEPT, " active"},
	{LIVE_ERROR, LIVE_ACTIVE, true, LIVE_KEPT, " reset active"},
	{LIVE_ERROR, LIVE_ERROR, false, LIVE_KEPT, ""},
	{LIVE_ERROR, LIVE_ERROR, true, LIVE_KEPT, " reset active failed"},
	{LIVE_ERROR, LIVE_RESETTING, true, LIVE_KEPT, " reset"},
	{LIVE_ERROR, LIVE_RELEASING, false, LIVE_LOST_FAILED, ""},
	{LIVE_ERROR, LIVE_NONE, false, LIVE_LOST_FAILED, " released"},

	{LIVE_RESETTING, LIVE_ACTIVE, false, LIVE_KEPT, " active"},
	{LIVE_RESETTING, LIVE_ACTIVE, true, LIVE_KEPT, " reset active"},
	{LIVE_RESETTING, LIVE_ERROR, false, LIVE_KEPT, " active failed"},
	{LIVE_RESETTING, LIVE_ERROR, true, LIVE_KEPT, " reset active failed"},
	{LIVE_RESETTING, LIVE_RESETTING, false, LIVE_KEPT, ""},
	{LIVE_RESETTING, LIVE_RESETTING, true, LIVE_KEPT, " reset"},
	{LIVE_RESETTING, LIVE_RELEASING, false, LIVE_KEPT, ""},
	{LIVE_RESETTING, LIVE_RELEASING, false, LIVE_LOST_FAILED, " failed"},
	{LIVE_RESETTING, LIVE_NONE, false, LIVE_KEPT, " released"},
	{LIVE_RESETTING, LIVE_NONE, false, LIVE_LOST_FAILED, " failed"},

	{LIVE_RELEASING, LIVE_RELEASING, false, LIVE_LOST_FAILED, ""},
	{LIVE_RELEASING, LIVE_NONE, false, LIVE_KEPT, " released"},
	{LIVE_RELEASING, LIVE_NONE, false, LIVE_LOST_FAILED, " released"},
};

static void test_table(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		enum live_step steps[LIVE_STEPS_AT_ONCE];
		char got[100] = "";
		struct live_change c = {row->before, row->after, row->another_run, row->been_active,
					row->loss};
		size_t n = live_steps_between(&c, steps);

		for (size_t k = 0; k < n; k++) {
			strcat(got, " ");
			strcat(got, live_step_name(steps[k]));
		}
		is_str(got, row->want, "row %zu: %d to %d%s, loss %d", i, row->before, row->after,
		       row->another_run ? ", another run" : "", row->loss);
	}
}

static void add(struct steps *s, uint64_t from, int64_t time_ms)
{
	struct live_step_record r = {.time_ms = time_ms};

	steps_add(s, from, &r);
}

static bool in_order(const struct steps *s, uint64_t from)
{
	for (uint64_t i = from + 1; i < s->n; i++)
		if (steps_at(s, i - 1)->time_ms > steps_at(s, i)->time_ms)
			return false;
	return true;
}

static void test_ring(void)
{
	static struct steps s;

	add(&s, 0, 30);
	add(&s, 0, 10);
	add(&s, 0, 20);
	ok(in_order(&s, 0), "those of one look are put in order");
	add(&s, 3, 5);
	is_int(steps_at(&s, 3)->time_ms, 5, "but stay behind those of the look before");
	is_int(steps_at(&s, 2)->time_ms, 30, "which stay");
	for (int i = 0; i < LIVE_STEPS - 4; i++)
		add(&s, s.n, 100 + i);
	ok(steps_at(&s, 0), "%d are kept", LIVE_STEPS);
	for (int i = 0; i < 2 * LIVE_STEPS; i++)
		add(&s, 200, 10000 - i);
	is_uint(s.n, 3 * LIVE_STEPS, "many in one look are counted");
	is_uint(steps_first(&s), 2 * LIVE_STEPS, "and the last are kept,");
	ok(!steps_at(&s, 2 * LIVE_STEPS - 1) && !steps_at(&s, s.n), "no others,");
	ok(in_order(&s, 2 * LIVE_STEPS), "in order");
}

int main(void)
{
	test_table();
	test_ring();
	return done_testing();
}
