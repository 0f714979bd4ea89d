/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What looks cost with 1,000 partitions on 16 controllers of 64 IPUs, and what is kept: processor
 * time of this process, and its memory. The limits leave room for sanitizers and for a machine that
 * others use too.
 */
#include "proxy_live_rig.h"

#include <malloc.h>
#include <time.h>

#define CONTROLLERS 16
#define PARTITIONS  1000
#define WAITING     200
#define HELD        10000
#define LOOKS       200
#define SLOW        8

static struct vipu_sim *sims[CONTROLLERS];

static int64_t cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void configure_all(void)
{
	struct vipu_address_list lists[CONTROLLERS];
	struct vipu_fleet_entry entries[CONTROLLERS] = {{.address = NULL}};

	for (size_t i = 0; i < CONTROLLERS; i++) {
		CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u:pod=%zu", vipu_sim_port(sims[i]),
						    i);

		vipu_address_parse(str_of(text), &lists[i]);
		entries[i].address = &lists[i].items[0];
	}
	vipu_fleet_configure(fleet, entries, CONTROLLERS);
	for (size_t i = 0; i < CONTROLLERS; i++)
		vipu_address_list_done(&lists[i]);
}

static void begin_all(void)
{
	struct vipu_sim_config config = {
		.agents = 16, .create_ms = 1, .reset_ms = 1, .remove_ms = 1};
	struct err err = ERR_INIT;

	rig_begin(16);
	guarded = false; /* it looks at one controller alone, and at every entry in each turn */
	sims[0] = sim;
	for (size_t i = 1; i < CONTROLLERS; i++)
		if (vipu_sim_new(net, &config, &sims[i], &err) < 0)
			bail_out(err.msg);
	log_set_level(LOG_WARN);
	process_begin(true);
	configure_all();
}

static void end_all(void)
{
	partitions_free(parts);
	vipu_fleet_free(fleet);
	for (size_t i = 1; i < CONTROLLERS; i++)
		vipu_sim_free(sims[i]);
	rig_end();
}

static void ask_for(unsigned i, uint32_t ipus)
{
	struct partition_ask ask;
	char uid[64], ns[32], name[64];

	snprintf(uid, sizeof(uid), "%08x-1111-2222-3333-444444444444", i);
	snprintf(ns, sizeof(ns), "team-%u", i % 20);
	snprintf(name, sizeof(name), "train-a-large-model-%u", i);
	ask = ask_of(uid, 0, ipus);
	ask.owner.ns = ns;
	ask.owner.name = name;
	partition_ensure(parts, &ask);
}

static size_t n_active;

static void count_active(const struct partition_entry *e, void *arg)
{
	(void)arg;
	n_active += e->phase == PARTITION_ACTIVE;
}

static bool all_active(void)
{
	n_active = 0;
	partitions_each_entry(parts, count_active, NULL);
	return n_active == PARTITIONS;
}

static int compare_us(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Looks, each after a change where there is one to make. Returns what the quickest takes: what
 * others do on this machine only ever adds. */
static int64_t measure(const char *what, bool rendering, void (*change)(unsigned i),
		       int64_t most_us)
{
	static int64_t took[LOOKS];

	for (unsigned i = 0; i < LOOKS; i++) {
		int64_t from;

		if (change)
			change(i);
		clock_advance(LIVE_FRAME_MS);
		from = cpu_us();
		live_look(live, rendering);
		took[i] = cpu_us() - from;
		loop_turn(loop, 0);
	}
	qsort(took, LOOKS, sizeof(took[0]), compare_us);
	note("%s: quickest %" PRId64 " us, median %" PRId64 " us, 95 %% %" PRId64
	     " us, longest %" PRId64 " us",
	     what, took[0], took[LOOKS / 2], took[LOOKS * 95 / 100], took[LOOKS - 1]);
	ok(took[0] < most_us * SLOW, "%s: %" PRId64 " us at most, on a free machine", what,
	   most_us);
	return took[0];
}

/* One that goes, and one that comes. */
static void change_one(unsigned i)
{
	char uid[64];

	snprintf(uid, sizeof(uid), "%08x-1111-2222-3333-444444444444", i);
	partition_release(parts, uid, 0);
	ask_for(10000 + i, 1);
}

static void test_looks(bool full)
{
	size_t before, after;
	struct str text;
	struct err err = ERR_INIT;
	char id[LIVE_ID_SIZE];
	int64_t from;

	row_begin("%s", full ? "full" : "usage");
	turns(1000, 10);
	before = mallinfo2().uordblks;
	live_begin(full);
	live_look(live, false);
	after = mallinfo2().uordblks;
	note("kept for nobody: %zu KiB", (after - before) >> 10);
	from = cpu_us();
	live_look(live, true);
	note("the first look that renders: %" PRId64 " us", cpu_us() - from);
	from = cpu_us();
	ok(live_snapshot(live, &text, id, &err) == 0, "a snapshot");
	note("a snapshot: %zu KiB, %" PRId64 " us", text.len >> 10, cpu_us() - from);
	after = mallinfo2().uordblks;
	note("kept for viewers: %zu KiB", (after - before) >> 10);
	ok(after - before < (size_t)4 << 20, "memory that is kept: 4 MiB at most");
	measure("nobody looks", false, NULL, 1500);
	measure("nothing is different", true, NULL, 1500);
	measure("some change", true, change_one, 1500);
	live_end();
	row_end();
}

/* ---- what is held ---- */

static struct proxy_held all_held[HELD];
static char held_uids[HELD][16];

static bool tell_held(void *arg, proxy_held_fn *fn, void *fn_arg, size_t *ret_more)
{
	(void)arg;
	(void)ret_more;
	for (size_t i = 0; i < HELD; i++)
		fn(fn_arg, &all_held[i]);
	return true;
}

/* Made from..: each is that much newer than the one before, or, with 0, as chance has it, in
 * seconds that many share. */
static void make_held(int64_t newer_ms)
{
	uint64_t chance = 1;

	for (size_t i = 0; i < HELD; i++) {
		chance = chance * 6364136223846793005 + 1442695040888963407;
		snprintf(held_uids[i], sizeof(held_uids[i]), "%08x",
			 (unsigned)(chance >> 32) << 14 | (unsigned)i);
		all_held[i] = (struct proxy_held){
			.uid = held_uids[i],
			.ns = "team",
			.kind = "IPUJob",
			.name = held_uids[i],
			.ipus = 4,
			.since_ms = 1700000000000 +
				    (newer_ms ? (int64_t)i * newer_ms
					      : (int64_t)(chance >> 40) % 300 * 1000),
			.reason = "Suspended",
			.message = "Suspended",
			.plain = "it asks for no IPUs until it's let go (spec.suspend)",
		};
	}
}

static int compare_held(const void *a, const void *b)
{
	const struct proxy_held *x = a, *y = b;

	if (x->since_ms != y->since_ms)
		return x->since_ms > y->since_ms ? -1 : 1;
	return strcmp(x->uid, y->uid);
}

/* In any order that they are told in it's the same ones. Returns what a look costs. */
static int64_t test_held(int64_t newer_ms, const char *order)
{
	int64_t took_us;
	struct err err = ERR_INIT;
	CLEANUP_JSON struct json_doc *doc = NULL;
	char id[LIVE_ID_SIZE];
	struct str text;
	size_t newest = 0;

	row_begin("%d are held, %s", HELD, order);
	live_begin(true);
	live->helds = tell_held;
	make_held(newer_ms);
	took_us = measure("nothing is different", true, NULL, 2500);
	ok(live_snapshot(live, &text, id, &err) == 0 && json_parse(text, &doc, &err) == 0,
	   "a snapshot");
	is_int(json_int(json_at(json_root(doc), "total", "held", NULL), 0), HELD,
	       "all are counted");
	qsort(all_held, HELD, sizeof(all_held[0]), compare_held);
	is_uint(json_len(json_get(json_root(doc), "held")), LIVE_HELD, "%d are listed", LIVE_HELD);
	for (size_t i = 0; i < LIVE_HELD; i++)
		newest += item_where(doc, "held", "name", all_held[i].name) != NULL;
	is_uint(newest, LIVE_HELD, "the newest of them");
	live_end();
	row_end();
	return took_us;
}

int main(void)
{
	int64_t newest_first_us = INT64_MAX, oldest_first_us = INT64_MAX, us;

	begin_all();
	if (!WITHIN(20000, synced && partitions_count_fits(parts, 64) == CONTROLLERS))
		bail_out("the controllers");
	for (unsigned i = 0; i < PARTITIONS; i++)
		ask_for(i, 1);
	ok(WITHIN(120000, all_active()), "%d partitions", PARTITIONS);
	for (unsigned i = 0; i < WAITING; i++)
		ask_for(20000 + i, 64);
	turns(500, 10);
	is_uint(partitions_waiting(parts), WAITING, "%d wait", WAITING);
	test_looks(false);
	test_looks(true);
	/* By a heap it's up to twice as much, two and a half times with sanitizers. Insertion into
	 * what is sorted took 3.8 ms where a heap takes 1.1. Measured again where others may have
	 * slowed down the one more than the other. */
	for (int i = 0; i < 8 && oldest_first_us >= 3 * newest_first_us; i++) {
		us = test_held(-1, "the newest first");
		newest_first_us = us < newest_first_us ? us : newest_first_us;
		us = test_held(1, "the oldest first");
		oldest_first_us = us < oldest_first_us ? us : oldest_first_us;
	}
	ok(oldest_first_us < 3 * newest_first_us,
	   "each of them newer than all before: %" PRId64 " us, not %" PRId64, oldest_first_us,
	   newest_first_us);
	test_held(0, "as chance has it");
	end_all();
	return done_testing();
}
