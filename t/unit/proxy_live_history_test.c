/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page's history: means weighted by time, gaps, clocks that jump, and the IPU-hours of
 * namespaces, in memory that doesn't grow.
 */
#include "tap.h"

#include "proxy/live_impl.h"

#define MINUTE INT64_C(60000)
#define HOUR   (60 * MINUTE)
#define WALL   INT64_C(1717200000000)

static struct history h;

static void begin(void)
{
	history_init(&h, 1000, WALL);
}

static void see(int64_t used)
{
	const int64_t values[LIVE_N_SERIES] = {used, 1, 2, 64 - used, 3};

	history_see(&h, values);
}

/* Looks every so often, until then; times from the beginning. */
static void let_pass(int64_t until_ms, int64_t step_ms)
{
	int64_t at_ms = h.at_ms - 1000;

	while (at_ms < until_ms) {
		at_ms = at_ms + step_ms < until_ms ? at_ms + step_ms : until_ms;
		history_pass(&h, 1000 + at_ms, WALL + at_ms);
	}
}

static double mean(uint64_t period, enum live_series of)
{
	const struct history_point *p = history_at(&h, period);

	return p && p->known ? (double)p->mean[of] : -1;
}

static bool is_near(double got, double want)
{
	bool near = got > want - 0.001 && got < want + 0.001;

	if (!near)
		diag("got %.4f, want %.4f", got, want);
	return near;
}

static double hours_of(const char *ns)
{
	struct history_usage all[HISTORY_SHOWN + 1];
	size_t n = history_usage(&h, all);

	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i].ns, ns) == 0)
			return all[i].ipu_hours;
	return 0;
}

static void test_means(void)
{
	begin();
	is_uint(h.periods, 0, "no point yet");
	see(16);
	let_pass(15 * 1000, 1000);
	see(32);
	let_pass(MINUTE - 1, 10000);
	is_uint(h.periods, 0, "none before the minute is over");
	let_pass(MINUTE, 1);
	is_uint(h.periods, 1, "a point");
	ok(is_near(mean(0, LIVE_USED), 16 * 0.25 + 32 * 0.75), "weighted by time");
	ok(is_near(mean(0, LIVE_FREE), 48 * 0.25 + 32 * 0.75), "each");
	ok(is_near(mean(0, LIVE_WAITING), 3), "of them");
	is_int(h.end_ms, WALL + MINUTE, "its end");
	let_pass(2 * MINUTE + 7000, 10000);
	ok(is_near(mean(1, LIVE_USED), 32), "what was seen holds on");
	is_int(h.end_ms, WALL + 2 * MINUTE, "the end is the period's, not the look's");
	ok(!history_at(&h, 2), "the present one isn't told");
}

static void test_unknown(void)
{
	begin();
	let_pass(MINUTE, 10000);
	ok(history_at(&h, 0) && !history_at(&h, 0)->known, "nothing seen: nothing known");
	let_pass(MINUTE + 30000, 10000);
	see(8);
	let_pass(2 * MINUTE, 10000);
	ok(is_near(mean(1, LIVE_USED), 8), "known for half of it: the mean of that");
	history_see(&h, NULL);
	let_pass(3 * MINUTE, 10000);
	ok(!history_at(&h, 2)->known, "nothing can be seen any more");
	see(8);
	let_pass(4 * MINUTE, 10000);
	let_pass(4 * MINUTE + 10 * MINUTE, 10 * MINUTE);
	is_uint(h.periods, 14, "stopped for ten minutes: they are there");
	ok(!history_at(&h, 4)->known && !history_at(&h, 13)->known, "and not known");
	see(8);
	let_pass(15 * MINUTE, 10000);
	ok(is_near(mean(14, LIVE_USED), 8), "it goes on");
	see(8);
	history_hold(&h, "a", 8);
	let_pass(15 * MINUTE + 3 * 24 * HOUR, 3 * 24 * HOUR);
	is_uint(h.periods, 15 + 3 * 24 * 60, "stopped for three days");
	ok(!history_at(&h, h.periods - 1)->known, "nothing is known of them");
	ok(is_near(hours_of("a"), 0), "and nobody had anything");
}

static void test_clocks(void)
{
	begin();
	see(4);
	let_pass(MINUTE, 10000);
	history_pass(&h, 1000 + 2 * MINUTE, WALL - 100 * HOUR);
	ok(is_near(mean(1, LIVE_USED), 4), "the wall clock goes back: the means don't care");
	is_int(h.end_ms, WALL - 100 * HOUR, "the end is by the clock as it is");
	history_pass(&h, 1000 + MINUTE, WALL);
	is_uint(h.periods, 2, "time that goes back, in a test, counts nothing");
	history_pass(&h, 1000 + 3 * MINUTE, WALL + 3 * MINUTE);
	ok(is_near(mean(2, LIVE_USED), 4), "and goes on");
}

static void test_day(void)
{
	begin();
	for (int i = 0; i < LIVE_POINTS + 10; i++) {
		see(i % 64);
		history_hold(&h, i < 60 ? "early" : "late", 6);
		let_pass((i + 1) * MINUTE, 30000);
	}
	is_uint(h.periods, LIVE_POINTS + 10, "more than a day");
	is_uint(history_first(&h), 10, "a day is kept");
	ok(!history_at(&h, 9), "what is older isn't");
	ok(is_near(mean(10, LIVE_USED), 10) &&
		   is_near(mean(LIVE_POINTS + 9, LIVE_USED), (LIVE_POINTS + 9) % 64),
	   "the first and the last");
	ok(is_near(hours_of("early"), 0), "the hour that was a day ago is out");
	ok(is_near(hours_of("late"), 6 * (23 + 10.0 / 60)), "the others are in");
}

static void test_namespaces(void)
{
	struct history_usage all[HISTORY_SHOWN + 1];
	char name[100];
	double sum = 0;
	size_t n;

	begin();
	see(0);
	history_hold(&h, "a", 4);
	history_hold(&h, "b", 16);
	history_hold(&h, "a", 4);
	let_pass(MINUTE * 30, 10000);
	see(0);
	history_hold(&h, "b", 2);
	let_pass(HOUR * 2, 10000);
	n = history_usage(&h, all);
	is_uint(n, 2, "two namespaces");
	is_str(all[0].ns, "b", "the largest first");
	ok(is_near(all[0].ipu_hours, 8 + 3), "over two hours");
	ok(is_near(all[1].ipu_hours, 4), "what isn't held any more stays where it is");

	begin();
	see(0);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "ns-%d", i);
		history_hold(&h, name, i + 1);
	}
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	history_hold(&h, name, 1000);
	let_pass(HOUR, 10000);
	n = history_usage(&h, all);
	is_uint(n, HISTORY_SHOWN + 1, "of 400 namespaces %d have names, and the rest has none",
		HISTORY_SHOWN);
	is_str(all[n - 1].ns, "", "the rest is the last");
	for (size_t i = 0; i < n; i++)
		sum += all[i].ipu_hours;
	ok(is_near(sum, 400 * 401 / 2 + 1000), "nothing is lost");
	let_pass(26 * HOUR, 10000);
	see(0);
	let_pass(52 * HOUR, 10000);
	see(0);
	history_hold(&h, "new", 1);
	let_pass(53 * HOUR, 10000);
	n = history_usage(&h, all);
	is_uint(n, 1, "a day later they have gone,");
	is_str(all[0].ns, "new", "and a new one finds a place");
}

int main(void)
{
	test_means();
	test_unknown();
	test_clocks();
	test_day();
	test_namespaces();
	note("history: %zu bytes, steps: %zu", sizeof(struct history), sizeof(struct steps));
	return done_testing();
}
