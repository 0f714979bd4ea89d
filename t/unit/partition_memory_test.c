/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partition layer without memory: each allocation fails once whose size a peer decides, while a
 * process begins with what the tracker holds, and during a partition's life.
 */
#include "partition_manager_rig.h"
#include "no_memory.h"

#include "core/metrics.h"

/* Few IPUs: each has its words, and each word is an allocation. */
static void small_begin(void)
{
	rig_begin(1);
	process_begin(true);
}

/* Of the tracker's entries, as the process sees them. */
static double bad_entries(void)
{
	struct buf text = BUF_INIT(1 << 20);

	metrics_write(&text, METRICS_TEXT, NULL);
	buf_done(&text);
	return metric_value(metric_new(METRIC_GAUGE, "ipu_operator_tracker_bad_entries",
				       "Of these, those that can't be read.", NULL, NULL, 0),
			    NULL);
}

/* A process begins where there are a partition and, perhaps, one that waits: it finds both, makes
 * no other, and takes nothing for damaged. patch: what somebody does to the tracker before, or
 * NULL.
 */
static void start_each(const char *name, bool waits, const char *patch)
{
	unsigned late = 0, bad = 0;
	struct no_memory m = {0};
	char id[64];

	row_begin("%s", name);
	small_begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	if (waits)
		want("w", 4);
	ok(WITHIN(5000, n_waits() == waits), "and what waits is recorded");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	while (no_memory_next(&m)) {
		process_kill();
		if (patch)
			edit_tracker(patch);
		no_memory_begin(&m);
		process_begin(true);
		if (!WITHIN(60000, synced && is("u", PARTITION_STATE_ACTIVE) && seen("u").id &&
					   strcmp(seen("u").id, id) == 0 &&
					   is("w", waits ? PARTITION_STATE_WAITING
							 : PARTITION_STATE_NONE))) {
			diag("allocation %lu", m.n);
			late++;
		}
		no_memory_end(&m);
		bad += bad_entries() > 0;
	}
	no_memory_ok(&m, 20);
	is_uint(late, 0, "each time it finds both");
	is_uint(bad, 0, "and nothing damaged");
	is_uint(vipu_sim_created(sim), 1, "no other is made");
	is_int(api_calls("create configmaps"), 1, "nor is what is in the tracker put aside");
	partition_release_all(parts, "w");
	partition_release_all(parts, "u");
	ok(WITHIN(20000, is_over("u")), "over");
	end();
}

/* One that waits is served when another goes, and goes itself. */
static void test_life(void)
{
	unsigned late = 0;
	struct no_memory m = {0};

	row_begin("a life");
	small_begin();
	ok(WITHIN(5000, synced), "it begins");
	while (no_memory_next(&m)) {
		want("u", 4);
		WITHIN(20000, is("u", PARTITION_STATE_ACTIVE));
		no_memory_begin(&m);
		want("w", 4);
		if (!WITHIN(60000, n_waits() == 1)) {
			diag("allocation %lu: no wait is recorded", m.n);
			late++;
		}
		partition_release_all(parts, "u");
		if (!WITHIN(60000, is("w", PARTITION_STATE_ACTIVE))) {
			diag("allocation %lu: %s", m.n, seen("w").message);
			late++;
		}
		partition_release_all(parts, "w");
		if (!WITHIN(60000, is_over("w") && is_over("u") && n_waits() == 0)) {
			diag("allocation %lu: %s", m.n, seen("w").message);
			late++;
		}
		no_memory_end(&m);
	}
	no_memory_ok(&m, 20);
	is_uint(late, 0, "each time all comes right");
	is_uint(vipu_sim_created(sim), 2 * m.tries, "nothing is made twice");
	end();
}

/* Somebody takes an entry out that is in memory no more, but as its partition is known. */
static void test_restored(void)
{
	unsigned late = 0;
	struct no_memory m = {0};

	row_begin("an entry that is taken out");
	small_begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	guarded = false;
	while (no_memory_next(&m)) {
		WITHIN(100, false);
		edit_tracker("{\"data\":null}");
		no_memory_begin(&m);
		if (!WITHIN(60000, n_entries() == 1)) {
			diag("allocation %lu", m.n);
			late++;
			partition_release_all(parts, "u");
			WITHIN(60000, is_over("u"));
			want("u", 4);
			WITHIN(60000, is("u", PARTITION_STATE_ACTIVE));
		}
		no_memory_end(&m);
	}
	no_memory_ok(&m, 10);
	is_uint(late, 0, "each time it's written again");
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	start_each("a process begins", true, NULL);
	start_each("a process begins where labels and annotations are lost", false,
		   "{\"metadata\":{\"annotations\":null,\"labels\":null}}");
	test_life();
	test_restored();
	return done_testing();
}
