/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica that follows shows what the one that leads does, does nothing itself, and goes on where
 * that one stopped.
 */
#include "partition_manager_rig.h"

static struct vipu_fleet *other_fleet;
static struct partitions *other;
static bool other_acts; /* what may_act says to it */
static bool superseded;

static void on_other_synced(void *arg)
{
	(void)arg;
}

static bool may_act(void *arg)
{
	(void)arg;
	return other_acts;
}

static void on_superseded(void *arg)
{
	(void)arg;
	superseded = true;
}

static void other_begin(bool follow)
{
	struct partitions_config config = {.ns = NS,
					   .tracker_name = TRACKER,
					   .times = partition_times_default,
					   .follow = follow,
					   .may_act = may_act,
					   .on_superseded = on_superseded};
	struct vipu_fleet *mine = fleet;

	other_acts = true;
	superseded = false;
	other_fleet = vipu_fleet_new(net, NULL);
	fleet = other_fleet;
	configure(true);
	fleet = mine;
	other = partitions_new(loop, kube, other_fleet, &config, on_other_synced, on_change, NULL);
}

static void other_end(void)
{
	partitions_free(other);
	vipu_fleet_free(other_fleet);
}

static void count_state(const struct partition_ask *ask, const struct partition_status *st,
			void *arg)
{
	unsigned *n = arg;

	(void)ask;
	n[st->state]++;
}

/* "waiting 1 active 2 …": all that somebody asks for or holds. */
static char *show(const struct partitions *p)
{
	unsigned n[PARTITION_STATE_RELEASING + 1] = {0};
	char *z = xstrdup(""), *more;

	partitions_each(p, count_state, n);
	for (int k = 0; k <= PARTITION_STATE_RELEASING; k++) {
		if (!n[k])
			continue;
		more = xasprintf("%s%s %u ", z, partition_state_name((enum partition_state)k),
				 n[k]);
		free(z);
		z = more;
	}
	return z;
}

static bool shows(const struct partitions *p, const char *what)
{
	CLEANUP_FREE char *z = show(p);

	return strcmp(z, what) == 0;
}

static bool agree(void)
{
	CLEANUP_FREE char *a = show(parts), *b = show(other);

	return strcmp(a, b) == 0;
}

/* What the follower knows of its controller. */
static size_t listed(void)
{
	return vipu_fleet_at(other_fleet, 0)->partitions.n;
}

static void test_shows(void)
{
	struct partition_ask ask;
	unsigned long calls;

	row_begin("a follower shows what the leader does");
	begin();
	other_begin(true);
	want("a", 32);
	want("b", 16);
	want("c", 64);
	ok(WITHIN(9000, shows(other, "waiting 1 active 2 ")), "two have theirs, one waits");
	ok(WITHIN(1000, agree()), "as the leader says");
	ok(WITHIN(1000, listed() == 2), "it looks where they are: that isn't free any more");
	partition_release_all(parts, "c");
	ok(WITHIN(5000, shows(other, "active 2 ")), "who gives up isn't shown any more");
	partition_release_all(parts, "a");
	ok(WITHIN(20000, shows(other, "active 1 ") && agree()), "nor what has gone");
	ok(WITHIN(1000, listed() == 1), "... whose place is free");
	want("d", 64);
	ok(WITHIN(5000, shows(other, "waiting 1 active 1 ")), "another one waits");
	partition_release_all(parts, "b");
	ok(WITHIN(20000, shows(other, "active 1 ") && agree()), "and gets its own");
	calls = vipu_sim_calls(sim, VIPU_CREATE_PARTITION) +
		vipu_sim_calls(sim, VIPU_REMOVE_PARTITION);
	partition_release_all(other, "d");
	partition_reset(other, "d", 0);
	ask = ask_of("e", 0, 8);
	partition_ensure(other, &ask);
	is_uint(partition_held(other, "e"), 0, "a follower takes no ask");
	ok(!WITHIN(5000, !agree()), "what the follower is asked has no effect");
	is_uint(vipu_sim_calls(sim, VIPU_CREATE_PARTITION) +
			vipu_sim_calls(sim, VIPU_REMOVE_PARTITION),
		calls, "and it calls nobody");
	other_end();
	end();
}

static void note_ask(const struct partition_ask *ask, const struct partition_status *st, void *arg)
{
	(void)st;
	*(const struct partition_ask **)arg = ask;
}

/* What the follower believes that this owner asks for. */
static struct partition_ask shown(const char *uid)
{
	const struct partition_ask *ask = NULL;

	partitions_each_of(other, uid, note_ask, &ask);
	return ask ? *ask : (struct partition_ask){0};
}

static unsigned place_of(const struct partitions *p, const char *uid)
{
	struct partition_status st;

	partition_get_status(p, uid, 0, &st);
	return st.position;
}

static void test_second_thoughts(void)
{
	struct partition_ask ask = ask_of("c", 0, 16);

	row_begin("owners that ask otherwise");
	begin();
	other_begin(true);
	want("a", 64);
	want("b", 64);
	want("c", 32);
	ok(WITHIN(5000, agree() && place_of(other, "c") == 2), "two wait");
	ask.priority = 5;
	partition_ensure(parts, &ask);
	ok(WITHIN(5000, shown("c").ipus == 16 && shown("c").priority == 5), "with other needs");
	ok(WITHIN(5000, place_of(parts, "c") == 1 && place_of(other, "c") == 1),
	   "and another place in the queue");
	partition_release_all(parts, "a");
	ok(WITHIN(20000, shows(parts, "waiting 1 active 1 ") && agree()), "which is served");
	is_uint(shown("c").ipus, 16, "as it was asked for last");
	want("c", 8);
	ok(WITHIN(20000, shows(parts, "waiting 1 active 1 ") && agree() && shown("c").ipus == 8),
	   "also while it has something");
	other_end();
	end();
}

static void test_successor(void)
{
	row_begin("a successor goes on");
	begin();
	want("a", 64);
	ok(WITHIN(5000, is("a", PARTITION_STATE_ACTIVE)), "active");
	want("b", 64);
	ok(WITHIN(5000, n_waits() == 1), "another waits");
	other_begin(true);
	ok(WITHIN(5000, agree()), "the follower knows it all");
	partitions_free(parts);
	parts = NULL;
	other_end();
	other_begin(false);
	ok(WITHIN(5000, shows(other, "waiting 1 active 1 ")), "so it does when it leads");
	partition_release_all(other, "a");
	ok(WITHIN(30000, shows(other, "active 1 ")), "and acts");
	other_end();
	end();
}

static void test_two_leaders(void)
{
	row_begin("two that believe they lead");
	begin();
	want("a", 16);
	ok(WITHIN(5000, is("a", PARTITION_STATE_ACTIVE)), "the first has made one");
	other_begin(false);
	ok(WITHIN(9000, shows(other, "active 1 ")), "a second one begins");
	want("b", 16);
	partition_release_all(parts, "a");
	ok(!WITHIN(20000, vipu_sim_len(sim) != 1 || !shows(other, "active 1 ")),
	   "what the first one wants from then on isn't recorded, so it isn't done");
	partitions_free(parts);
	parts = other;
	vipu_fleet_free(fleet);
	fleet = other_fleet;
	end();
}

static void test_may_not_act(void)
{
	row_begin("one that has lost the lead and hasn't been told yet");
	begin();
	other_begin(false);
	partitions_free(parts);
	parts = other;
	other_acts = false;
	want("a", 16);
	ok(!WITHIN(20000, vipu_sim_calls(sim, VIPU_CREATE_PARTITION) > 0), "calls nobody");
	other_acts = true;
	turns(10, 10);
	vipu_fleet_free(fleet);
	fleet = other_fleet;
	end();
}

int main(void)
{
	test_shows();
	test_second_thoughts();
	test_successor();
	test_two_leaders();
	test_may_not_act();
	return done_testing();
}
