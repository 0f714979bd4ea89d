/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the operator is killed at each moment of a partition's life, and another goes on:
 * from each phase, whether the owner asks on or not, and with replies lost before. And the tracker
 * can't be written for a while.
 */
#include "partition_manager_rig.h"

#define LAST_TURN 110 /* a life has ended by then */

static const struct vipu_sim_fault no_fault = {.kind = VIPU_SIM_SLOW, .method = -1, .count = 1};
static const struct vipu_sim_fault late_create = {
	.kind = VIPU_SIM_LATE, .method = VIPU_CREATE_PARTITION, .count = 1, .delay_ms = 12000};
static const struct vipu_sim_fault lost_create = {
	.kind = VIPU_SIM_LOSE_REPLY, .method = VIPU_CREATE_PARTITION, .count = 1};
static const struct vipu_sim_fault late_reset = {
	.kind = VIPU_SIM_LATE, .method = VIPU_RESET_PARTITION, .count = 1, .delay_ms = 12000};
static const struct vipu_sim_fault lost_remove = {
	.kind = VIPU_SIM_LOSE_REPLY, .method = VIPU_REMOVE_PARTITION, .count = 1};

enum aim { AIM_ACTIVE, AIM_RESET, AIM_GONE, AIM_FORGOTTEN };

/* The life until the moment of the crash. */
static void begin_life(enum aim aim, const struct vipu_sim_fault *fault, unsigned moment)
{
	begin();
	vipu_sim_inject(sim, fault);
	want("u", 4);
	if ((aim == AIM_RESET || aim == AIM_GONE) &&
	    !WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)))
		fail("it never became active");
	if (aim == AIM_RESET)
		want_run("u", 4, 1);
	else if (aim == AIM_GONE)
		partition_release_all(parts, "u");
	turns(moment, 10);
	process_kill();
}

/* A reset that is due isn't forgotten, and at most one is sent that wasn't. */
static bool resets_are_right(enum aim aim)
{
	unsigned long n = vipu_sim_calls(sim, VIPU_RESET_PARTITION);

	return aim == AIM_RESET ? n == 1 || n == 2 : n == 0;
}

/* What the next process makes of it. */
static bool end_life(enum aim aim)
{
	process_begin(true);
	if (!WITHIN(5000, synced))
		return false;
	if (aim == AIM_GONE || aim == AIM_FORGOTTEN) {
		partition_release_all(parts, "u");
		return WITHIN(120000, is_over("u"));
	}
	want_run("u", 4, aim == AIM_RESET);
	/* A request of the dead process may still land: only then it's over. */
	if (!WITHIN(120000, is("u", PARTITION_STATE_ACTIVE)) || WITHIN(20000, false) ||
	    !is("u", PARTITION_STATE_ACTIVE))
		return false;
	return WITHIN(60000, vipu_sim_len(sim) == 1 && n_entries() == 1) &&
	       is_for("u", aim == AIM_RESET) && resets_are_right(aim);
}

static void test_crashes(const char *name, enum aim aim, const struct vipu_sim_fault *fault,
			 unsigned step)
{
	unsigned failed = 0, moments = 0;

	for (unsigned moment = 0; moment <= LAST_TURN && !failed; moment += step) {
		begin_life(aim, fault, moment);
		moments++;
		if (!end_life(aim) || violated) {
			failed++;
			fail("%s: killed after %u turns", name, moment);
		}
		partitions_free(parts);
		vipu_fleet_free(fleet);
		rig_end();
	}
	ok(!failed, "%s: killed at %u moments", name, moments);
}

/* Killed again and again, faster than anything can be done. */
static void test_crash_loop(void)
{
	begin();
	for (unsigned k = 0; k < 60; k++) {
		want("u", 4);
		turns(1 + k % 17, 10);
		process_kill();
		process_begin(true);
	}
	want("u", 4);
	ok(WITHIN(120000, is("u", PARTITION_STATE_ACTIVE)),
	   "killed sixty times: active in the end");
	ok(WITHIN(60000, vipu_sim_len(sim) == 1 && n_entries() == 1), "one, and one entry");
	end();
}

/* Its owner went while nobody was there: the entry says whose it was. */
static void note_owner(const struct partition_ask *ask, const struct partition_status *st,
		       void *arg)
{
	(void)st;
	snprintf(arg, 64, "%s", ask->owner.uid);
}

static void test_left_behind(void)
{
	char uid[64] = "";

	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	process_kill();
	process_begin(true);
	ok(WITHIN(5000, synced), "another process has read it");
	ok(is("u", PARTITION_STATE_ACTIVE), "active at once");
	partitions_each(parts, note_owner, uid);
	is_str(uid, "u", "its owner is known");
	is_int(partition_held(parts, "u"), 2, "and what it holds");
	WITHIN(60000, false);
	ok(is("u", PARTITION_STATE_ACTIVE), "it stays until somebody says otherwise");
	partition_release_all(parts, uid);
	ok(WITHIN(20000, is_over("u")), "then it goes");
	end();
}

/* The next leader's clock is far behind the one that wrote the entries: it judges by its own. */
static void test_clock_behind(void)
{
	unsigned long lists;

	begin();
	vipu_sim_inject(sim, &lost_create);
	want("u", 4);
	ok(WITHIN(5000, vipu_sim_len(sim) == 1), "made, and nobody was told");
	process_kill();
	clock_freeze(clock_mono_ms(), clock_wall_ms() - 300000);
	lists = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS);
	process_begin(true);
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "a clock that is behind: active");
	turns(500, 10);
	lists = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS) - lists;
	ok(lists < 10, "%lu lists", lists);
	partition_release_all(parts, "u");
	ok(WITHIN(20000, is_over("u")), "then it goes");
	end();
}

static void test_found_leaving(void)
{
	char id[64];

	row_begin("found on its way out, and nobody asks");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_go_down(sim);
	partition_release(parts, "u", 0);
	ok(WITHIN(5000, tracker_has(id, "\"phase\":\"releasing\"")), "releasing");
	process_kill();
	process_begin(true);
	ok(WITHIN(5000, synced), "another process");
	is_int(seen("u").state, PARTITION_STATE_RELEASING, "knows that it isn't wanted");
	vipu_sim_come_up(sim, NULL);
	ok(WITHIN(60000, is_over("u")), "and removes it");
	is_uint(vipu_sim_created(sim), 1, "for nobody else");
	end();
}

static void test_unwritten(void)
{
	char id[64];

	row_begin("the tracker can't be written");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	partition_release(parts, "u", 0);
	ok(WITHIN(5000, tracker_has(id, "\"phase\":\"releasing\"")), "releasing");
	inject_api("{\"verb\":\"patch\",\"resource\":\"configmaps\",\"count\":0,"
		   "\"kind\":\"status\",\"status\":403}");
	ok(WITHIN(20000, vipu_sim_len(sim) == 0), "its partition goes");
	want("v", 4);
	ok(WITHIN(20000, is_because("v", PARTITION_STATE_CREATING, PARTITION_WHY_TRACKER)),
	   "who waits for that hears of it");
	has_str(seen("v").message, "tracker can't be", "in words");
	WITHIN(60000, false);
	ok(partition_held(parts, "u") == 1 && n_entries() == 1,
	   "what the tracker still has is held");
	is_uint(vipu_sim_len(sim), 0, "and nothing is made that it hasn't");
	sim_api_clear_faults(api);
	ok(WITHIN(200000, partition_held(parts, "u") == 0), "until it could be written");
	ok(WITHIN(60000, is("v", PARTITION_STATE_ACTIVE)), "and then work goes on");
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(2);
	test_crashes("asked for", AIM_ACTIVE, &no_fault, 1);
	test_crashes("asked for, the create is late", AIM_ACTIVE, &late_create, 3);
	test_crashes("asked for, the create's reply is lost", AIM_ACTIVE, &lost_create, 3);
	test_crashes("asked for, late, and not wanted any more", AIM_FORGOTTEN, &late_create, 3);
	test_crashes("reset", AIM_RESET, &no_fault, 1);
	test_crashes("reset, late", AIM_RESET, &late_reset, 3);
	test_crashes("released", AIM_GONE, &no_fault, 1);
	test_crashes("released, the remove's reply is lost", AIM_GONE, &lost_remove, 3);
	test_crash_loop();
	test_left_behind();
	test_clock_behind();
	test_found_leaving();
	test_unwritten();
	return done_testing();
}
