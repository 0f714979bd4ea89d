/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partition manager against a simulated API server and a simulated V-IPU controller: owners,
 * the controller's moods, and what stays true meanwhile.
 */
#include "partition_manager_rig.h"

#include "grpc/status.h"

static bool all_active(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char uid[16];

		snprintf(uid, sizeof(uid), "uid-%u", i);
		if (!is(uid, PARTITION_STATE_ACTIVE))
			return false;
	}
	return true;
}

static void test_life(void)
{
	struct partition_status st;
	struct vipu_sim_partition p;

	row_begin("a life");
	begin();
	want("u", 4);
	ok(is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_NONE) ||
		   is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_STARTING),
	   "waits");
	ok(!synced, "the tracker hasn't been read");
	is_int(partition_held(parts, "u"), 1, "an ask is held");
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	ok(synced, "the tracker has been read");
	st = seen("u");
	ok(vipu_sim_find(sim, st.id, &p), "the controller has %s", st.id);
	is_int(p.size, 4, "of four IPUs");
	ok(p.reconfigurable && p.gcds == 1, "with the options");
	is_str(st.host, "127.0.0.1", "host");
	is_int(st.port, vipu_sim_port(sim), "port");
	is_str(st.label_key, "pod", "label");
	ok(st.ask && st.ask->ipus == 4, "what was asked for");
	turns(20, 10);
	is_int(n_entries(), 1, "one entry");
	has_str(json_cstr(json_get(tracker_data(), st.id)), "\"phase\":\"active\"", "active there");
	want("u", 4);
	ok(is("u", PARTITION_STATE_ACTIVE), "asking again changes nothing");
	partition_release(parts, "u", 0);
	partition_release(parts, "u", 0);
	ok(is("u", PARTITION_STATE_RELEASING), "releasing");
	ok(WITHIN(5000, is_over("u")), "over");
	is_int((intmax_t)vipu_sim_created(sim), 1, "one partition was made");
	end();
}

static void test_group_commit(void)
{
	unsigned n = 60;
	int64_t writes;

	row_begin("group commit");
	begin();
	for (unsigned i = 0; i < n; i++) {
		char uid[16];

		snprintf(uid, sizeof(uid), "uid-%u", i);
		want(uid, 1);
	}
	ok(WITHIN(20000, all_active(n)), "%u asks of one turn are active", n);
	turns(20, 10);
	writes = api_calls("create configmaps") + api_calls("patch configmaps");
	ok(writes <= 12, "%" PRId64 " writes for %u changes", writes, 2 * n);
	is_int((intmax_t)vipu_sim_created(sim), n, "each was made once");
	for (unsigned i = 0; i < n; i++) {
		char uid[16];

		snprintf(uid, sizeof(uid), "uid-%u", i);
		partition_release_all(parts, uid);
	}
	ok(WITHIN(20000, vipu_sim_len(sim) == 0 && n_entries() == 0), "all gone");
	end();
}

static void test_sizes(void)
{
	struct partition_status st;

	row_begin("room");
	begin();
	want("large", 128);
	ok(WITHIN(5000, is_because("large", PARTITION_STATE_WAITING, PARTITION_WHY_TOO_LARGE)),
	   "more than there is");
	st = seen("large");
	has_str(st.message, "128 IPUs asked for, the largest V-IPU controller has 64", "in words");
	want("a", 64);
	ok(WITHIN(5000, is("a", PARTITION_STATE_ACTIVE)), "all of it");
	want("b", 4);
	ok(WITHIN(5000, is_because("b", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)), "full");
	st = seen("b");
	has_str(st.message, "waiting for 4 IPUs", "in words");
	is_int(partitions_waiting(parts), 2, "two wait");
	partition_release(parts, "a", 0);
	ok(WITHIN(20000, is("b", PARTITION_STATE_ACTIVE)), "room has come");
	end();
}

static void test_words_are_rare(void)
{
	unsigned long before;

	row_begin("figures that change");
	begin();
	want("a", 32);
	ok(WITHIN(5000, is("a", PARTITION_STATE_ACTIVE)), "half of it");
	want("b", 64);
	ok(WITHIN(5000, is("b", PARTITION_STATE_WAITING) && seen("b").message[0]), "waits");
	before = news;
	for (int i = 0; i < 10; i++) {
		char id[16];

		snprintf(id, sizeof(id), "hand-%d", i);
		vipu_sim_create_by_hand(sim, id, 1, NULL);
		WITHIN(4000, false);
	}
	ok(news - before <= 1, "40 s of others' doings are no news: %lu", news - before);
	WITHIN(30000, false);
	ok(news - before >= 1 && news - before <= 2, "after a minute they are: %lu", news - before);
	has_str(seen("b").message, "22 of 64 are free", "as they are now");
	end();
}

static void test_other_need(void)
{
	row_begin("another size");
	begin();
	want("full", 64);
	ok(WITHIN(5000, is("full", PARTITION_STATE_ACTIVE)), "full");
	want("u", 8);
	ok(WITHIN(5000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)), "waits");
	want("u", 2);
	ok(WITHIN(3000, strstr(seen("u").message, "waiting for 2 IPUs") != NULL), "waits for less");
	partition_release_all(parts, "full");
	ok(WITHIN(20000, is("u", PARTITION_STATE_ACTIVE)), "active");
	is_int(seen("u").ask->ipus, 2, "with two");
	want("u", 4);
	ok(!is("u", PARTITION_STATE_ACTIVE), "replaced");
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active again");
	is_int(seen("u").ask->ipus, 4, "with four");
	ok(WITHIN(5000, vipu_sim_len(sim) == 1), "the other goes");
	end();
}

/* Whether the owner's instances that are asked for are those of the mask, each as itself. */
static bool asks_are(const char *uid, uint32_t n, uint32_t mask)
{
	for (uint32_t i = 0; i < n; i++) {
		struct partition_status st;

		partition_get_status(parts, uid, i, &st);
		if ((mask >> i & 1) ? !st.ask || st.ask->instance != i : st.ask != NULL)
			return false;
	}
	return true;
}

static void test_instances(void)
{
	const uint32_t n = 20;
	uint32_t mask = 0, from[2] = {0};

	row_begin("instances, in any order");
	begin();
	for (uint32_t i = 0; i < n; i++) {
		struct partition_ask ask = ask_of("u", i * 7 % n, 1);

		partition_ensure(parts, &ask);
		mask |= 1U << ask.instance;
		ok(asks_are("u", n, mask), "with %u", ask.instance);
	}
	ok(WITHIN(9000, vipu_sim_len(sim) == n), "a partition for each");
	is_int(partition_asked_from(parts, "u", 0, from, 2), 2, "no more than fit");
	is_int(partition_asked_from(parts, "u", n - 1, from, 2), 1, "from the last on");
	is_int(from[0], n - 1, "the last");
	for (uint32_t i = 0; i < n; i += 2) {
		partition_release(parts, "u", i * 3 % n);
		mask &= ~(1U << i * 3 % n);
		ok(asks_are("u", n, mask), "without %u", i * 3 % n);
	}
	ok(WITHIN(9000, vipu_sim_len(sim) == n / 2) && asks_are("u", n, mask), "they are gone");
	partition_release(parts, "u", n - 1);
	is_int(partition_asked_from(parts, "u", n - 1, from, 2), 0, "not any more");
	is_int(partition_asked_from(parts, "x", 0, from, 2), 0, "nothing of nobody");
	partition_release_all(parts, "u");
	ok(WITHIN(9000, is_over("u")) && partition_held(parts, "u") == 0, "all gone");
	end();
}

/* ---- what a create meets ---- */

struct mood {
	const char *name;
	struct vipu_sim_fault fault;
	enum partition_why why; /* said on the way; NONE: nothing is asked */
	int64_t within_ms;
	unsigned long most_made;
};

static void test_creates(void)
{
	static const struct mood moods[] = {
		{"no room, it says",
		 {.kind = VIPU_SIM_STATUS,
		  .status = GRPC_RESOURCE_EXHAUSTED,
		  .message = "not enough IPUs"},
		 PARTITION_WHY_REFUSED,
		 9000,
		 1},
		{"not now",
		 {.kind = VIPU_SIM_STATUS, .status = GRPC_FAILED_PRECONDITION, .message = "busy"},
		 PARTITION_WHY_REFUSED,
		 9000,
		 1},
		{"not a good request",
		 {.kind = VIPU_SIM_STATUS, .status = GRPC_INVALID_ARGUMENT, .message = "no"},
		 PARTITION_WHY_REFUSED,
		 9000,
		 1},
		{"says UNKNOWN, does nothing",
		 {.kind = VIPU_SIM_STATUS, .status = GRPC_UNKNOWN, .message = "?"},
		 PARTITION_WHY_NONE,
		 9000,
		 1},
		{"says INTERNAL, and did it",
		 {.kind = VIPU_SIM_ACT_STATUS, .status = GRPC_INTERNAL, .message = "?"},
		 PARTITION_WHY_NONE,
		 9000,
		 1},
		{"the reply is lost", {.kind = VIPU_SIM_LOSE_REPLY}, PARTITION_WHY_NONE, 20000, 1},
		{"nothing is heard of it", {.kind = VIPU_SIM_HANG}, PARTITION_WHY_NONE, 40000, 1},
		{"the connection is cut", {.kind = VIPU_SIM_CUT}, PARTITION_WHY_NONE, 9000, 1},
		{"done, and cut", {.kind = VIPU_SIM_ACT_CUT}, PARTITION_WHY_NONE, 9000, 1},
		{"the stream is refused", {.kind = VIPU_SIM_REFUSE}, PARTITION_WHY_NONE, 9000, 1},
		{"the answer is garbage", {.kind = VIPU_SIM_GARBAGE}, PARTITION_WHY_NONE, 9000, 1},
		{"late, after the deadline",
		 {.kind = VIPU_SIM_LATE, .delay_ms = 14000},
		 PARTITION_WHY_NONE,
		 60000,
		 2},
		{"slow", {.kind = VIPU_SIM_SLOW, .delay_ms = 8000}, PARTITION_WHY_NONE, 20000, 1},
		{"ends in PS_ERROR",
		 {.kind = VIPU_SIM_END_IN_ERROR},
		 PARTITION_WHY_ERROR,
		 20000,
		 2},
	};

	for (size_t i = 0; i < sizeof(moods) / sizeof(moods[0]); i++) {
		struct vipu_sim_fault fault = moods[i].fault;

		row_begin("create: %s", moods[i].name);
		begin();
		fault.method = VIPU_CREATE_PARTITION;
		fault.count = 1;
		vipu_sim_inject(sim, &fault);
		want("u", 4);
		if (moods[i].why)
			ok(WITHIN(5000, is_because("u", PARTITION_STATE_WAITING, moods[i].why)),
			   "the owner hears why");
		ok(WITHIN(moods[i].within_ms, is("u", PARTITION_STATE_ACTIVE)),
		   "active in the end");
		ok(WITHIN(60000, vipu_sim_len(sim) == 1 && n_entries() == 1), "one, and one entry");
		ok(vipu_sim_created(sim) <= moods[i].most_made, "made: %lu", vipu_sim_created(sim));
		partition_release_all(parts, "u");
		ok(WITHIN(60000, is_over("u")), "over");
		end();
	}
}

static void test_taken(void)
{
	struct vipu_sim_partition p;
	char id[64];

	row_begin("the identifier is taken");
	begin();
	inject_status(VIPU_CREATE_PARTITION, GRPC_UNAVAILABLE, "later", 1);
	inject(VIPU_SIM_SLOW, VIPU_LIST_PARTITIONS, 0);
	want("u", 4);
	ok(WITHIN(5000, seen("u").id != NULL), "an identifier");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_clear_faults(sim);
	guarded = false;
	ok(vipu_sim_create_by_hand(sim, id, 2, NULL) == 0, "somebody takes it");
	ok(WITHIN(30000, is("u", PARTITION_STATE_ACTIVE) && strcmp(seen("u").id, id) != 0),
	   "the owner gets another");
	turns(3000, 10);
	ok(vipu_sim_find(sim, id, &p) && p.size == 2, "the other one stands");
	ok(vipu_sim_calls(sim, VIPU_REMOVE_PARTITION) == 0, "and nobody tried to remove it");
	end();
}

static void test_refused_for_ever(void)
{
	unsigned long calls;

	row_begin("refused for ever");
	begin();
	inject_status(VIPU_CREATE_PARTITION, GRPC_INVALID_ARGUMENT, "never", 0);
	want("u", 4);
	WITHIN(300000, false);
	calls = vipu_sim_calls(sim, VIPU_CREATE_PARTITION);
	ok(calls >= 4 && calls <= 16, "asked %lu times in five minutes", calls);
	ok(tracker_requests() <= 50, "with %" PRId64 " calls of the API", tracker_requests());
	ok(is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_REFUSED), "the owner sees it");
	has_str(seen("u").message, "never", "in the controller's words");
	partition_release_all(parts, "u");
	ok(WITHIN(5000, is_over("u")), "over");
	end();
}

static void test_release_while_creating(void)
{
	row_begin("released while it's being made");
	for (unsigned k = 0; k < 40; k++) {
		begin();
		want("u", 4);
		turns(k, 10);
		partition_release_all(parts, "u");
		if (!WITHIN(60000, is_over("u")))
			fail("after %u turns: still there", k);
		end();
	}
	row_end();
}

/* ---- what an active one meets ---- */

static void test_vanish(void)
{
	char id[64];

	row_begin("vanished");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_remove_by_hand(sim, id, NULL);
	ok(WITHIN(90000, is_because("u", PARTITION_STATE_FAILED, PARTITION_WHY_VANISHED)),
	   "failed");
	ok(seen("u").id == NULL, "without an identifier");
	has_str(seen("u").message, "is gone from", "in words");
	partition_release(parts, "u", 0);
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "another");
	ok(strcmp(seen("u").id, id) != 0, "with another identifier");
	end();

	row_begin("vanished, after a restart, before its owner speaks");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	process_kill();
	vipu_sim_remove_by_hand(sim, id, NULL);
	process_begin(true);
	ok(WITHIN(90000, is("u", PARTITION_STATE_FAILED)), "failed");
	end();
}

static void test_error(void)
{
	char id[64];
	unsigned long calls;

	row_begin("PS_ERROR");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_break(sim, id, "IPU 3 is hot", false, NULL);
	ok(WITHIN(90000, is_because("u", PARTITION_STATE_FAILED, PARTITION_WHY_ERROR)), "failed");
	is_str(seen("u").id, id, "with its identifier");
	has_str(seen("u").message, "IPU 3 is hot", "in the controller's words");
	calls = vipu_sim_calls(sim, VIPU_GET_PARTITION_STATUS);
	WITHIN(60000, false);
	calls = vipu_sim_calls(sim, VIPU_GET_PARTITION_STATUS) - calls;
	ok(calls >= 10 && calls <= 30, "asked %lu times a minute", calls);
	partition_reset(parts, "u", 0);
	ok(WITHIN(20000, is("u", PARTITION_STATE_ACTIVE)), "reset");
	is_int(seen("u").resets, 1, "and counted");
	is_str(seen("u").message, "", "the words are gone");
	partition_release(parts, "u", 0);
	ok(WITHIN(20000, is_over("u")), "over");
	end();
}

static void test_resets(void)
{
	static const struct {
		const char *name;
		enum vipu_sim_fault_kind kind;
		unsigned delay_ms;
	} rows[] = {
		{"well", VIPU_SIM_SLOW, 0},     {"the reply is lost", VIPU_SIM_LOSE_REPLY, 0},
		{"late", VIPU_SIM_LATE, 12000}, {"nothing is heard", VIPU_SIM_HANG, 0},
		{"cut", VIPU_SIM_CUT, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char id[64];

		row_begin("reset: %s", rows[i].name);
		begin();
		want("u", 4);
		ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
		snprintf(id, sizeof(id), "%s", seen("u").id);
		vipu_sim_inject(sim, &(struct vipu_sim_fault){.kind = rows[i].kind,
							      .method = VIPU_RESET_PARTITION,
							      .count = 1,
							      .delay_ms = rows[i].delay_ms});
		partition_reset(parts, "u", 0);
		ok(WITHIN(2000, is("u", PARTITION_STATE_RESETTING)), "resetting");
		ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "active");
		is_str(seen("u").id, id, "the same");
		is_int(seen("u").resets, 1, "one reset");
		end();
	}
}

static unsigned long resets_sent(void)
{
	return vipu_sim_calls(sim, VIPU_RESET_PARTITION);
}

static void test_runs(void)
{
	char id[64];

	row_begin("runs");
	begin();
	want_run("u", 4, 1);
	want_run("u", 4, 2);
	is_uint(seen("u").ask->attempt, 2, "what waits takes another run");
	ok(WITHIN(5000, is("u", PARTITION_STATE_CREATING)), "being made");
	want_run("u", 4, 3);
	ok(WITHIN(5000, is_for("u", 3)), "what is made is for the run that is asked for by then");
	is_uint(resets_sent(), 0, "nobody has used it: no reset");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	want_run("u", 4, 3);
	turns(100, 10);
	ok(is_for("u", 3), "the same run: as it was");

	want_run("u", 4, 4);
	ok(is("u", PARTITION_STATE_RESETTING), "another run: not active from that moment on");
	is_uint(seen("u").ask->attempt, 3, "what is there is for the one before");
	is_uint(seen("u").wanted_attempt, 4, "it's known what is asked for");
	ok(WITHIN(5000, is_for("u", 4)), "reset for it");
	is_str(seen("u").id, id, "the same partition");
	is_uint(resets_sent(), 1, "one reset");

	want_run("u", 4, 5);
	want_run("u", 4, 6);
	ok(WITHIN(5000, is_for("u", 6)), "two runs at once");
	is_uint(resets_sent(), 2, "one reset does for both");

	want_run("u", 4, 7);
	ok(WITHIN(5000, resets_sent() == 3), "a reset is under way");
	want_run("u", 4, 8);
	ok(WITHIN(5000, is_for("u", 8)), "another run meanwhile");
	is_uint(resets_sent(), 4, "it's reset once more");

	want_run("u", 4, 3);
	ok(WITHIN(5000, is_for("u", 3)), "any other number is another run");
	end();
}

/* What failed, and what another run makes of it. */
static void test_runs_that_fail(void)
{
	struct err err = ERR_INIT;
	unsigned long calls_now;
	char id[64];

	row_begin("another run: in error");
	begin();
	want_run("u", 4, 1);
	ok(WITHIN(5000, is_for("u", 1)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_break(sim, id, "IPU 3 is hot", false, NULL);
	ok(WITHIN(90000, is_because("u", PARTITION_STATE_FAILED, PARTITION_WHY_ERROR)), "failed");
	want_run("u", 4, 2);
	ok(is("u", PARTITION_STATE_RESETTING), "it's reset");
	ok(WITHIN(5000, is_for("u", 2)), "and well");
	is_str(seen("u").id, id, "the same");
	end();

	row_begin("another run: vanished");
	begin();
	want_run("u", 4, 1);
	ok(WITHIN(5000, is_for("u", 1)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_remove_by_hand(sim, id, &err);
	ok(WITHIN(90000, is_because("u", PARTITION_STATE_FAILED, PARTITION_WHY_VANISHED)),
	   "failed");
	want_run("u", 4, 1);
	ok(!WITHIN(5000, !is("u", PARTITION_STATE_FAILED)), "the same run waits");
	process_kill();
	process_begin(true);
	ok(WITHIN(5000, synced), "another process");
	want_run("u", 4, 1);
	ok(!WITHIN(5000, !is("u", PARTITION_STATE_FAILED)), "it waits on");
	want_run("u", 4, 2);
	ok(WITHIN(5000, is_for("u", 2)), "another run gets another one");
	is_uint(resets_sent(), 0, "which is fresh");
	end();

	/* It was asked for a reset and is gone before that: the next one needs none. */
	row_begin("another run: vanished before its reset");
	begin();
	want_run("u", 4, 1);
	ok(WITHIN(5000, is_for("u", 1)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_remove_by_hand(sim, id, &err);
	want_run("u", 4, 2);
	ok(WITHIN(200000, is("u", PARTITION_STATE_FAILED)), "vanished");
	want_run("u", 4, 3);
	ok(WITHIN(5000, is_for("u", 3)), "another one");
	calls_now = resets_sent();
	turns(200, 10);
	is_uint(resets_sent(), calls_now, "isn't reset");
	ok(is_for("u", 3), "and stays");
	end();
}

/* ---- when what is told began ---- */

static void test_since(void)
{
	int64_t asked_ms, active_ms;

	row_begin("since");
	begin();
	turns(10, 10);
	asked_ms = clock_wall_ms();
	want_run("big", 128, 1);
	want_run("u", 4, 1);
	ok(WITHIN(5000, is_for("u", 1)), "active");
	active_ms = seen("u").since_ms;
	ok(active_ms > asked_ms && active_ms <= clock_wall_ms(), "since it became so");
	turns(100, 10);
	process_kill();
	process_begin(true);
	ok(WITHIN(5000, synced), "another process");
	ok(seen("u").since_ms == active_ms, "says the same");
	ok(seen("big").since_ms >= asked_ms && seen("big").since_ms < active_ms,
	   "as of what waits");
	want_run("u", 4, 2);
	ok(WITHIN(5000, is_for("u", 2)), "reset for another run");
	ok(seen("u").since_ms > active_ms, "it's active for that one since then");
	end();
}

/* ---- the controller comes and goes ---- */

static void test_down_and_up(void)
{
	row_begin("down and up");
	begin();
	vipu_sim_go_down(sim);
	want("u", 4);
	ok(WITHIN(20000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_UNREACHABLE)),
	   "nobody answers");
	ok(vipu_sim_come_up(sim, NULL) == 0, "up again");
	ok(WITHIN(30000, is("u", PARTITION_STATE_ACTIVE)), "active");
	vipu_sim_go_down(sim);
	WITHIN(60000, false);
	ok(is("u", PARTITION_STATE_ACTIVE), "stays active while it's down");
	partition_release(parts, "u", 0);
	WITHIN(60000, false);
	ok(is("u", PARTITION_STATE_RELEASING), "can't go");
	ok(seen("u").message[0] != '\0', "the owner sees why: %s", seen("u").message);
	vipu_sim_come_up(sim, NULL);
	ok(WITHIN(60000, is_over("u")), "over");
	end();

	row_begin("none is configured");
	begin();
	configure(false);
	want("u", 4);
	ok(WITHIN(5000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_NO_CONTROLLER)),
	   "waits");
	configure(true);
	ok(WITHIN(9000, is("u", PARTITION_STATE_ACTIVE)), "active");
	end();
}

/* What was free at the last look may not be so any more: it's asked before a create is. */
static void test_fresh(void)
{
	row_begin("room that somebody took by hand since the last look");
	begin();
	WITHIN(5000, false);
	guarded = false;
	vipu_sim_create_by_hand(sim, "by-hand", 64, NULL);
	want("u", 4);
	ok(WITHIN(5000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)),
	   "isn't there");
	is_uint(vipu_sim_calls(sim, VIPU_CREATE_PARTITION), 0, "nor asked for");
	end();
}

static void count_holding(const struct partition_entry *entry, void *arg)
{
	*(int *)arg += partition_holds_ipus(parts, entry);
}

/* Entries that hold IPUs. */
static int holding(void)
{
	int n = 0;

	partitions_each_entry(parts, count_holding, &n);
	return n;
}

static void test_orphan(void)
{
	row_begin("orphan");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	vipu_sim_go_down(sim);
	configure(false);
	partition_release(parts, "u", 0);
	WITHIN(500000, false);
	is_int(partition_held(parts, "u"), 1, "held for ten minutes");
	is_int(holding(), 1, "as are its IPUs");
	ok(WITHIN(200000, partition_held(parts, "u") == 0), "and not for ever");
	turns(10, 10);
	is_int(n_entries(), 1, "its entry stays");
	is_int(holding(), 0, "and holds no IPUs that anybody could have");
	vipu_sim_come_up(sim, NULL);
	configure(true);
	ok(WITHIN(60000, is_over("u")), "removed when the controller is back");
	end();
}

static void test_abandoned(void)
{
	char id[64];

	row_begin("nobody waits for a controller that doesn't answer");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	vipu_sim_go_down(sim);
	partition_release_all(parts, "u");
	WITHIN(60000, false);
	is_int(partition_held(parts, "u"), 1, "held");
	partition_abandon_all(parts, "u");
	ok(WITHIN(2000, partition_held(parts, "u") == 0), "not any more");
	ok(tracker_has(id, "\"phase\":\"orphan\""), "its entry stays, as an orphan");
	want("v", 64);
	process_kill();
	process_begin(true);
	ok(WITHIN(5000, synced), "another process");
	is_int(partition_held(parts, "u"), 0, "counts it as little");
	vipu_sim_come_up(sim, NULL);
	want("v", 64);
	ok(WITHIN(60000, is("v", PARTITION_STATE_ACTIVE)), "all IPUs go to another one");
	ok(strcmp(seen("v").id, id) != 0, "in a partition of its own");
	is_int(n_entries(), 1, "the orphan is gone");
	end();

	row_begin("nobody waits, and one serves, one waits, one is being made");
	begin();
	want("u", 64);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	want("w", 4);
	ok(WITHIN(5000, is("w", PARTITION_STATE_WAITING) && n_waits() == 1), "waits");
	vipu_sim_go_down(sim);
	partition_abandon_all(parts, "u");
	partition_abandon_all(parts, "w");
	partition_abandon_all(parts, "nobody");
	ok(WITHIN(2000, !partition_held(parts, "u") && !partition_held(parts, "w")), "at once");
	ok(WITHIN(2000, n_waits() == 0 && n_entries() == 1), "an orphan is left, and no ask");
	want("u", 4);
	ok(WITHIN(20000, is("u", PARTITION_STATE_WAITING)), "an owner that asks again waits");
	vipu_sim_come_up(sim, NULL);
	ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE) && n_entries() == 1), "and is served");
	vipu_sim_inject(sim, &(struct vipu_sim_fault){.kind = VIPU_SIM_SLOW,
						      .method = VIPU_REMOVE_PARTITION,
						      .delay_ms = 60000});
	partition_release_all(parts, "u");
	WITHIN(5000, false);
	is_int(partition_held(parts, "u"), 1, "its release is waited for again");
	end();
}

static void test_slow_controller(void)
{
	unsigned long calls;

	row_begin("a controller that takes two seconds for each answer");
	begin();
	vipu_sim_inject(sim, &(struct vipu_sim_fault){
				     .kind = VIPU_SIM_SLOW, .method = -1, .delay_ms = 2000});
	want("u", 4);
	ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "active");
	calls = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS);
	ok(calls <= 12, "lists: %lu", calls);
	end();
}

static void test_removes(void)
{
	static const struct {
		const char *name;
		enum vipu_sim_fault_kind kind;
		unsigned count;
	} rows[] = {
		{"the reply is lost", VIPU_SIM_LOSE_REPLY, 1},
		{"nothing is heard", VIPU_SIM_HANG, 2},
		{"cut", VIPU_SIM_CUT, 2},
		{"done, and cut", VIPU_SIM_ACT_CUT, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("remove: %s", rows[i].name);
		begin();
		want("u", 4);
		ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
		inject(rows[i].kind, VIPU_REMOVE_PARTITION, rows[i].count);
		partition_release(parts, "u", 0);
		ok(WITHIN(90000, is_over("u")), "over");
		end();
	}

	row_begin("remove: in use");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	vipu_sim_set_in_use(sim, seen("u").id, true, NULL);
	partition_release(parts, "u", 0);
	WITHIN(25000, false);
	ok(is("u", PARTITION_STATE_RELEASING), "not by force at once");
	ok(WITHIN(30000, is_over("u")), "by force in the end");
	ok(vipu_sim_calls(sim, VIPU_REMOVE_PARTITION) <= 20, "removes: %lu",
	   vipu_sim_calls(sim, VIPU_REMOVE_PARTITION));
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(1);
	test_life();
	test_group_commit();
	test_sizes();
	test_words_are_rare();
	test_other_need();
	test_instances();
	test_creates();
	test_taken();
	test_refused_for_ever();
	test_release_while_creating();
	test_vanish();
	test_error();
	test_resets();
	test_runs();
	test_runs_that_fail();
	test_since();
	test_down_and_up();
	test_fresh();
	test_orphan();
	test_abandoned();
	test_slow_controller();
	test_removes();
	return done_testing();
}
