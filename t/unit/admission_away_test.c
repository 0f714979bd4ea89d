/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a review is sent away, and until when: at once, then with pauses, and not for ever.
 */
#include <stdio.h>
#include <string.h>

#include "admission/away.h"
#include "core/clock.h"
#include "tap.h"

#define UID "3b1f9a52-0c3d-4a56-9f0e-0d3f6a1b2c3d"

static void test_times(void)
{
	static const unsigned pauses[AWAY_TIMES] = {0, 0, 0, 1, 1, 1, 1, 1, 1};
	struct away a = {.next = 0};
	unsigned pause_s;

	for (size_t i = 0; i < AWAY_TIMES; i++) {
		ok(away_may(&a, UID, 28750, &pause_s), "time %zu", i + 1);
		is_uint(pause_s, pauses[i], "… again after so many seconds");
		clock_advance(pause_s * 1000);
	}
	ok(!away_may(&a, UID, 28750, &pause_s), "and then it's answered here");
	ok(away_may(&a, "another", 28750, &pause_s), "which says nothing of others");
	clock_advance(60000);
	ok(!away_may(&a, UID, 28750, &pause_s), "nor is it forgotten");
}

static void test_deadline(void)
{
	struct away a = {.next = 0};
	unsigned pause_s;

	ok(away_may(&a, UID, 4000, &pause_s), "in time");
	clock_advance(4001);
	ok(!away_may(&a, UID, 4000, &pause_s), "its time is over");
	for (int i = 0; i < AWAY_AT_ONCE; i++)
		ok(away_may(&a, "b", 500, &pause_s), "at once it may come again");
	ok(!away_may(&a, "b", 500, &pause_s), "not where the pause is longer than its time");
}

static void test_many(void)
{
	struct away a = {.next = 0};
	char uid[AWAY_UID_SIZE + 1];
	unsigned pause_s, bad = 0;

	for (int i = 0; i < 2 * AWAY_ENTRIES; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		for (int j = 0; j < AWAY_TIMES; j++)
			bad += !away_may(&a, uid, 60000, &pause_s);
		bad += away_may(&a, uid, 60000, &pause_s);
	}
	is_uint(bad, 0, "each of many");
	snprintf(uid, sizeof(uid), "u%d", 2 * AWAY_ENTRIES - 1);
	ok(!away_may(&a, uid, 60000, &pause_s), "the last is known");
	ok(away_may(&a, "u0", 60000, &pause_s), "the first isn't any more");

	memset(uid, 'x', AWAY_UID_SIZE);
	uid[AWAY_UID_SIZE] = '\0';
	ok(!away_may(&a, uid, 60000, &pause_s), "a uid that is too long");
	uid[AWAY_UID_SIZE - 1] = '\0';
	ok(away_may(&a, uid, 60000, &pause_s), "the longest");
	ok(!away_may(&a, "", 60000, &pause_s), "none");
}

int main(void)
{
	clock_freeze(1000000, 1000000);
	test_times();
	test_deadline();
	test_many();
	return done_testing();
}
