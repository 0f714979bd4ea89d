/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process finds when it goes on after another: waits in the tracker, and partitions that the
 * tracker has lost and that their owners name; and asks that the tracker can't hold.
 */
#include "partition_manager_rig.h"

#include "core/buf.h"
#include "core/metrics.h"

static void lose_tracker(void)
{
	sim_objects_remove(objects, tracker_object());
}

static void want_known(const char *uid, uint32_t ipus, const char *adopt)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ask.adopt = TEXT(adopt);
	partition_ensure(parts, &ask);
}

static void restart(void)
{
	process_kill();
	process_begin(true);
}

static void test_waits_stay(void)
{
	row_begin("waits outlive the process, in their order");
	begin();
	want("full", 64);
	ok(WITHIN(5000, is("full", PARTITION_STATE_ACTIVE)), "full");
	is_int(n_waits(), 0, "nobody waits");
	want("first", 32);
	ok(WITHIN(5000, n_waits() == 1), "the first is written down");
	clock_advance(1000);
	want("second", 64);
	ok(WITHIN(5000, n_waits() == 2), "so is the second");
	restart();
	ok(WITHIN(5000, synced), "read again");
	ok(is("first", PARTITION_STATE_WAITING) && is("second", PARTITION_STATE_WAITING),
	   "both wait although nobody has asked this process");
	want("second", 64); /* asks again before the first does */
	want("first", 32);
	want("full", 64);
	partition_release_all(parts, "full");
	ok(WITHIN(20000, is("first", PARTITION_STATE_ACTIVE)), "the first is served first");
	ok(is("second", PARTITION_STATE_WAITING), "the second goes on waiting");
	is_int(n_waits(), 1, "whoever is served waits no more");
	partition_release_all(parts, "second");
	ok(WITHIN(5000, n_waits() == 0), "nor does who gives up");
	end();
}

static void test_unwanted_wait(void)
{
	row_begin("a wait that nobody asks for any more");
	begin();
	want("full", 64);
	want("gone", 8);
	ok(WITHIN(5000, n_waits() == 1), "it waits");
	restart();
	ok(WITHIN(5000, is("gone", PARTITION_STATE_WAITING)), "it's found");
	is_int(partition_held(parts, "gone"), 1, "its owner's keeper hears of it");
	partition_release_all(parts, "gone");
	ok(WITHIN(5000, n_waits() == 0 && partition_held(parts, "gone") == 0), "and lets it go");
	end();
}

static void make_active(const char *uid, uint32_t ipus, char ret_id[PARTITION_ID_MAX + 1])
{
	want(uid, ipus);
	ok(WITHIN(5000, is(uid, PARTITION_STATE_ACTIVE)), "active");
	snprintf(ret_id, PARTITION_ID_MAX + 1, "%s", seen(uid).id ? seen(uid).id : "");
}

/* The controller's partitions are there without an entry until they are taken over. */
static void lose_all(void)
{
	process_kill();
	lose_tracker();
	guarded = false;
	process_begin(true);
}

static void test_adopt(void)
{
	char id[PARTITION_ID_MAX + 1];

	row_begin("a partition that the tracker has lost");
	begin();
	make_active("u", 8, id);
	lose_all();
	want_known("u", 8, id);
	ok(is("u", PARTITION_STATE_WAITING) && seen("u").adopting, "it's looked for");
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "and taken over");
	is_str(seen("u").id, id, "that one");
	ok(seen("u").adopted, "the owner can tell");
	is_int(vipu_sim_created(sim), 1, "no other was made");
	is_int(n_entries(), 1, "it's in the tracker");
	guarded = true;
	partition_release_all(parts, "u");
	ok(WITHIN(60000, is_over("u")), "and goes when it isn't wanted");
	end();
}

static void test_adopt_not(void)
{
	static const struct {
		const char *name;
		uint32_t ipus;
		const char *owner; /* NULL: the one that it was made for */
		bool other_name;
	} rows[] = {
		{"another size", 4, NULL, false},
		{"another owner's name", 8, "another", false},
		{"a name that is as long", 8, "pod", false},
		{"a name that no partition of its has", 8, NULL, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char id[PARTITION_ID_MAX + 1], *known = id;
		struct partition_ask ask;

		row_begin("%s", rows[i].name);
		begin();
		make_active("u", 8, id);
		lose_all();
		ask = ask_of("u", 0, rows[i].ipus);
		ask.adopt = rows[i].other_name ? TEXT("production-0-0123456789") : known;
		if (rows[i].owner)
			ask.owner.name = TEXT(rows[i].owner);
		partition_ensure(parts, &ask);
		ok(!WITHIN(20000, seen("u").id && strcmp(seen("u").id, id) == 0), "not taken");
		is_int(vipu_sim_len(sim) >= 1, 1, "and not removed");
		partition_release_all(parts, "u");
		ok(WITHIN(60000, partition_held(parts, "u") == 0), "nothing is held");
		is_int(vipu_sim_len(sim), 1, "it's still there");
		end();
	}
}

static void test_nowhere(void)
{
	char id[PARTITION_ID_MAX + 1];
	struct err err = ERR_INIT;
	int64_t began_ms;

	row_begin("a partition that is nowhere");
	begin();
	make_active("u", 8, id);
	process_kill();
	vipu_sim_remove_by_hand(sim, id, &err);
	lose_tracker();
	process_begin(true);
	want_known("u", 8, id);
	ok(WITHIN(5000, is_because("u", PARTITION_STATE_FAILED, PARTITION_WHY_VANISHED)),
	   "its owner hears that it has vanished");
	has_str(seen("u").message, id, "and which");
	partition_reset(parts, "u", 0);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "another one, when it says so");
	end();

	row_begin("its controller doesn't answer");
	begin();
	make_active("u", 8, id);
	lose_all();
	vipu_sim_go_down(sim);
	want_known("u", 8, id);
	began_ms = clock_wall_ms();
	ok(WITHIN(60000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_UNREACHABLE)),
	   "it may be there");
	ok(!WITHIN(60000, seen("u").id), "no other is made meanwhile");
	vipu_sim_come_up(sim, &err);
	ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "it was, after %lld s",
	   (long long)(clock_wall_ms() - began_ms) / 1000);
	is_str(seen("u").id, id, "and is the owner's again");
	guarded = true;
	end();
}

/* Whoever releases what it has asked to take over gives back what is found. */
static void test_released_early(void)
{
	char id[PARTITION_ID_MAX + 1];
	struct err err = ERR_INIT;

	row_begin("released before its controller has answered");
	begin();
	make_active("u", 8, id);
	lose_all();
	vipu_sim_go_down(sim);
	want_known("u", 8, id);
	ok(WITHIN(60000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_UNREACHABLE)),
	   "it's looked for");
	partition_release_all(parts, "u");
	partition_release_all(parts, "u");
	ok(!WITHIN(30000, partition_held(parts, "u") != 1), "still held");
	is_int(seen("u").state, PARTITION_STATE_RELEASING, "on its way out");
	has_str(seen("u").message, id, "its owner hears what is looked for");
	is_int(n_waits(), 1, "and so would a successor");
	want_known("u", 8, id);
	want("u", 4);
	is_int(seen("u").state, PARTITION_STATE_RELEASING,
	       "to ask again changes nothing before that has ended");
	vipu_sim_come_up(sim, &err);
	ok(WITHIN(60000, is_over("u")), "it's found and given back");
	is_int(vipu_sim_len(sim), 0, "nothing is left");
	is_int(n_waits(), 0, "nor written down");
	guarded = true;
	want("u", 8);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "its owner may ask for another");
	end();

	row_begin("the same, and there is none");
	begin();
	make_active("u", 8, id);
	process_kill();
	vipu_sim_remove_by_hand(sim, id, &err);
	lose_tracker();
	vipu_sim_go_down(sim);
	process_begin(true);
	want_known("u", 8, id);
	ok(WITHIN(60000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_UNREACHABLE)),
	   "it's looked for");
	partition_release_all(parts, "u");
	vipu_sim_come_up(sim, &err);
	ok(WITHIN(60000, is_over("u")), "nothing is held");
	end();

	row_begin("the same, and its owner doesn't wait");
	begin();
	make_active("u", 8, id);
	lose_all();
	vipu_sim_go_down(sim);
	want_known("u", 8, id);
	ok(WITHIN(60000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_UNREACHABLE)),
	   "it's looked for");
	partition_abandon_all(parts, "u");
	is_int(partition_held(parts, "u"), 0, "its owner may go");
	vipu_sim_come_up(sim, &err);
	ok(WITHIN(60000, vipu_sim_len(sim) == 0 && n_entries() == 0), "what is found goes too");
	guarded = true;
	end();
}

/* What Graphcore's operator leaves: a tracker in its own format, and partitions. */
static void begin_after_older(void)
{
	struct err err = ERR_INIT;

	rig_begin(16);
	make_object("configmaps", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
				  "\"name\":\"" TRACKER "\",\"namespace\":\"" NS "\"},"
				  "\"data\":{\"tracker\":\"something of its own\"}}");
	if (vipu_sim_create_by_hand(sim, "p-job-default-0", 8, &err) < 0)
		bail_out(err.msg);
	turns(100, 10);
	process_begin(true);
	ok(WITHIN(9000, synced), "the tracker is taken over");
}

static void want_older(uint32_t ipus, int64_t created_ms, bool only)
{
	struct partition_ask ask = ask_of("u", 0, ipus);

	ask.legacy = TEXT("p-job-default-0");
	ask.created_ms = created_ms;
	ask.only_adopt = only;
	partition_ensure(parts, &ask);
}

static void test_older(void)
{
	int64_t before_ms = INT64_C(1717190000000);

	row_begin("a partition of Graphcore's operator");
	begin_after_older();
	want_older(8, before_ms, false);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "is taken over");
	is_str(seen("u").id, "p-job-default-0", "under its name");
	is_uint(vipu_sim_calls(sim, VIPU_CREATE_PARTITION), 0, "nothing was made");
	guarded = false; /* the simulator knows it as made by hand */
	partition_release_all(parts, "u");
	ok(WITHIN(60000, vipu_sim_len(sim) == 0), "and removed in the end");
	end();

	row_begin("an owner that is younger than the take-over");
	begin_after_older();
	want_older(8, clock_wall_ms() + 1000, false);
	ok(WITHIN(9000, is("u", PARTITION_STATE_ACTIVE)), "gets a partition");
	ok(strcmp(seen("u").id, "p-job-default-0") != 0, "of its own");
	partition_release_all(parts, "u");
	ok(WITHIN(60000, partition_held(parts, "u") == 0), "and gives it back");
	is_uint(vipu_sim_len(sim), 1, "the other one is left alone");
	end();

	row_begin("who only wants to take over");
	begin_after_older();
	want_older(8, before_ms, true);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "gets what is there");
	end();
	begin_after_older();
	want_older(4, before_ms, true);
	ok(WITHIN(9000, partition_held(parts, "u") == 0), "and nothing where it has another size");
	is_uint(vipu_sim_calls(sim, VIPU_CREATE_PARTITION), 0, "nothing was made");
	is_uint(vipu_sim_len(sim), 1, "nothing was removed");
	end();

	row_begin("where no record was, too");
	begin();
	vipu_sim_create_by_hand(sim, "p-job-default-0", 8, NULL);
	turns(100, 10);
	want_older(8, before_ms, false);
	ok(WITHIN(9000, is("u", PARTITION_STATE_ACTIVE)), "it's taken over");
	is_str(seen("u").id, "p-job-default-0", "under its name");
	end();

	row_begin("for an owner that came after the record, that name is anybody's");
	begin();
	vipu_sim_create_by_hand(sim, "p-job-default-0", 8, NULL);
	want_older(8, clock_wall_ms() + 60000, false);
	ok(WITHIN(9000, is("u", PARTITION_STATE_ACTIVE)), "another is made");
	ok(strcmp(seen("u").id, "p-job-default-0") != 0, "of its own");
	end();
}

static unsigned long reports;

static void on_report(const char *reason, const char *object, const char *uid, const char *message,
		      void *arg)
{
	(void)object;
	(void)uid;
	(void)message;
	(void)arg;
	reports += strcmp(reason, "PartitionUnowned") == 0;
}

/* What the metric says of the controller; -1: nothing. Earlier rows had others. */
static long unowned_metric(void)
{
	CLEANUP_FREE char *name = xasprintf(
		"\nipu_operator_partitions_unowned{controller=\"127.0.0.1:%u\"} ",
		vipu_sim_port(sim));
	struct buf out = BUF_INIT(1 << 20);
	const char *at;
	long n = -1;

	metrics_write(&out, METRICS_TEXT, NULL);
	buf_append(&out, "", 1, NULL);
	at = strstr(out.p, name);
	if (at)
		n = strtol(at + strlen(name), NULL, 10);
	buf_done(&out);
	return n;
}

static void test_unowned(void)
{
	static const char *const names[] = {"job-default-0-0123456789", "by-hand",
					    "p-job-default-0", "mnist-0123456789"};
	struct partitions_config config = {.ns = NS,
					   .tracker_name = TRACKER,
					   .times = partition_times_default,
					   .on_report = on_report};

	row_begin("partitions that nobody asks for");
	rig_begin(16);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		vipu_sim_create_by_hand(sim, names[i], 1, NULL);
	fleet = vipu_fleet_new(net, NULL);
	configure(true);
	reports = 0;
	parts = partitions_new(loop, kube, fleet, &config, on_synced, on_change, NULL);
	want("u", 1);
	ok(WITHIN(9000, is("u", PARTITION_STATE_ACTIVE)), "others get theirs");
	ok(!WITHIN(50000, reports > 0), "owners have time to ask");
	ok(WITHIN(60000, reports > 0), "then two are reported");
	ok(!WITHIN(60000, reports != 2), "once each, and no other");
	is_uint(vipu_sim_len(sim), 5, "all are left alone");
	is_int(unowned_metric(), 2, "and the metric has them");
	vipu_sim_remove_by_hand(sim, names[0], NULL);
	turns(6000, 10);
	is_int(unowned_metric(), 1, "one that went isn't counted");
	vipu_sim_create_by_hand(sim, names[0], 1, NULL);
	ok(WITHIN(60000, reports == 3), "one that went isn't remembered");
	partition_release_all(parts, "u");
	ok(WITHIN(60000, is("u", PARTITION_STATE_NONE)), "nothing holds the controller");
	configure(false);
	ok(WITHIN(1000, unowned_metric() == -1), "which leaves the list, and the metric with it");
	turns(10, 10);
	configure(true);
	ok(WITHIN(9000, unowned_metric() == 2 && reports == 5), "it comes back as one that's new");
	partitions_free(parts);
	is_int(unowned_metric(), -1, "who leads no more says nothing");
	parts = partitions_new(loop, kube, fleet, &config, on_synced, on_change, NULL);
	end();
}

static void test_fleet_unknown(void)
{
	char id[PARTITION_ID_MAX + 1];

	row_begin("the list of controllers isn't known yet");
	begin();
	make_active("u", 8, id);
	process_kill();
	process_begin_pending();
	ok(!WITHIN(5000, synced), "nobody hears that all is known");
	want("u", 8);
	want("v", 8);
	ok(!WITHIN(20000, !is("u", PARTITION_STATE_ACTIVE)), "what was active stays so");
	ok(is_because("v", PARTITION_STATE_WAITING, PARTITION_WHY_STARTING), "nothing new is made");
	configure(true);
	partitions_fleet_known(parts);
	ok(synced, "now it is");
	ok(WITHIN(5000, is("v", PARTITION_STATE_ACTIVE)), "until it's known");
	is_str(seen("u").id, id, "and nothing was lost");
	end();
}

/* What is longer than the tracker takes of one: nobody checks a Pod's annotation. */
static char *long_text(void)
{
	char *z = xcalloc(1, 20001);

	memset(z, 'x', 20000);
	return z;
}

static void test_unwritable(void)
{
	CLEANUP_FREE char *text = long_text();
	struct partition_ask ask = ask_of("u", 0, 4);

	row_begin("an ask that the tracker can't hold");
	begin();
	ask.options.allocation = text;
	partition_ensure(parts, &ask);
	WITHIN(20000, false);
	is_uint(vipu_sim_created(sim), 0, "nothing is made without a record");
	is_uint(n_entries(), 0, "… which there isn't");
	ok(strstr(seen("u").message, "can't be put into the tracker"), "its owner hears of it");
	partition_release_all(parts, "u");
	ok(WITHIN(20000, is_over("u")), "it can be given up");
	end();

	row_begin("a Pod says that it has a partition with a very long name");
	begin();
	ask = ask_of("u", 0, 4);
	ask.adopt = text;
	partition_ensure(parts, &ask);
	ok(WITHIN(20000, is("u", PARTITION_STATE_ACTIVE)), "it's nobody's name: another is made");
	is_uint(n_entries(), 1, "and recorded");
	end();
}

int main(void)
{
	test_waits_stay();
	test_unwanted_wait();
	test_adopt();
	test_adopt_not();
	test_nowhere();
	test_released_early();
	test_older();
	test_unowned();
	test_fleet_unknown();
	test_unwritable();
	return done_testing();
}
