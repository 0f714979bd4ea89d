/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracker and what is done to it: by hand (the table "Damage" of doc/design/tracker.md), by
 * every answer of the API server, and by both at random, with crashes.
 */
#include "partition_tracker_rig.h"

#include "partition/tracker_internal.h"

static struct keeper *k; /* the newest process */

static void open_row(const char *name)
{
	row_begin("%s", name);
	rig_begin(16);
}

static void close_row(void)
{
	keeper_free(k);
	rig_end();
	row_end();
}

/* A tracker with two keys that were put. */
static void open_filled(const char *name)
{
	open_row(name);
	k = lead();
	put(k, "a", "u", "{\"v\":1}");
	put(k, "b", "w", "{\"v\":2}");
	ok(WITHIN(1000, tracker_is_recorded(k->t, "b")), "filled");
	WITHIN(100, false);
}

static bool is_whole(void)
{
	const struct json *o = json_of(TRACKER);

	return is_stored("a", "{\"v\":1}") && is_stored("b", "{\"v\":2}") &&
	       str_eqz(kube_label(o, "app.kubernetes.io/component"), "partition-tracker") &&
	       str_eqz(kube_annotation(o, "graphcore.ai/tracker-format"), "1") &&
	       str_eqz(kube_annotation(o, "graphcore.ai/tracker"), TRACKER) &&
	       kube_annotation(o, "graphcore.ai/tracker-writer").len > 0;
}

static void restart(void)
{
	keeper_free(k);
	k = lead();
}

/* ---- by hand ---- */

static void test_edits(void)
{
	static const struct {
		const char *name, *patch;
		bool rests; /* nobody need run for it to be mended: ours can be told */
	} rows[] = {
		{"a value changed", "{\"data\":{\"a\":\"{\\\"v\\\":9}\"}}", false},
		{"a key taken out", "{\"data\":{\"a\":null}}", false},
		{"all keys taken out", "{\"data\":null}", false},
		{"labels taken off", "{\"metadata\":{\"labels\":null}}", true},
		{"a label changed",
		 "{\"metadata\":{\"labels\":{\"app.kubernetes.io/component\":\"x\"}}}", true},
		{"annotations taken off", "{\"metadata\":{\"annotations\":null}}", true},
		{"labels and annotations taken off",
		 "{\"metadata\":{\"annotations\":null,\"labels\":null}}", true},
		{"the format taken off",
		 "{\"metadata\":{\"annotations\":{\"graphcore.ai/tracker-format\":null}}}", true},
		{"another writer of old",
		 "{\"metadata\":{\"annotations\":{\"graphcore.ai/tracker-writer\":\"7.aaaaaaaa.1\"}},"
		 "\"data\":{\"a\":\"{\\\"v\\\":0}\"}}",
		 false},
		{"replaced by something else",
		 "{\"metadata\":{\"annotations\":null,\"labels\":null},"
		 "\"data\":{\"a\":null,\"b\":null,\"theirs\":\"1\"}}",
		 false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		open_filled(rows[i].name);
		edit(TRACKER, rows[i].patch);
		ok(!is_whole(), "damaged");
		ok(WITHIN(3000, is_whole()), "mended");
		ok(WITHIN(1000, tracker_is_recorded(k->t, "a")), "and recorded");
		is_int(tracker_error(k->t)->kind, ERR_NONE, "all is well");
		if (rows[i].rests) {
			WITHIN(100, false);
			keeper_free(k);
			edit(TRACKER, rows[i].patch);
			k = lead();
			ok(WITHIN(3000, k->synced && is_whole()), "mended after a restart");
			is_int(k->found, 2, "with all that is in it");
		}
		close_row();
	}
}

static void test_deleted(void)
{
	open_filled("deleted");
	edit(TRACKER, "{\"data\":{\"bad\":\"?\"}}");
	ok(WITHIN(1000, k->found == 1), "with what nobody can read");
	delete_map(TRACKER);
	ok(WITHIN(1000, is_whole()), "written anew");
	ok(is_stored("bad", "?"), "that too");
	WITHIN(200, false);
	edit(TRACKER, "{\"data\":{\"bad\":null}}");
	WITHIN(1000, false);
	ok(is_stored("bad", NULL), "but who takes it out gets rid of it");
	is_int(k->gone, 1, "which is told");
	keeper_free(k);
	delete_map(TRACKER);
	k = lead();
	ok(WITHIN(1000, k->synced && !k->found), "deleted while nobody ran: empty");
	put(k, "c", "u", "{\"v\":3}");
	ok(WITHIN(1000, is_stored("c", "{\"v\":3}")), "and begun again");
	close_row();

	open_filled("deleted while the watch is cut");
	sim_api_cut_watches(api);
	delete_map(TRACKER);
	ok(WITHIN(20000, is_whole()), "written anew");
	close_row();

	open_filled("being deleted, with a finalizer");
	edit(TRACKER, "{\"metadata\":{\"finalizers\":[\"some.body/else\"]}}");
	delete_map(TRACKER);
	ok(WITHIN(1000, k->reports == 1), "reported");
	put(k, "a", "u", "{\"v\":3}");
	put(k, "a", "u", "{\"v\":1}");
	put(k, "c", "u", "{\"v\":3}");
	ok(WITHIN(1000, is_stored("c", "{\"v\":3}")), "written on");
	edit(TRACKER, "{\"metadata\":{\"finalizers\":null}}");
	delete_map(TRACKER);
	ok(WITHIN(1000, is_whole() && is_stored("c", "{\"v\":3}")), "and anew when it's gone");
	close_row();
}

static void test_bad(void)
{
	open_row("entries that nobody can read");
	make_map(TRACKER, OURS("0"),
		 "\"data\":{\"a\":\"{\\\"v\\\":1}\",\"bad\":\"?\",\"worse\":\"\"}");
	k = lead();
	ok(WITHIN(1000, k->synced), "others go on");
	is_int(k->found, 3, "all told");
	is_int(k->reports, 2, "two reported");
	put(k, "b", "w", "{\"v\":2}");
	ok(WITHIN(1000, is_whole()), "written");
	ok(is_stored("bad", "?") && is_stored("worse", ""), "they are kept");
	edit(TRACKER, "{\"data\":{\"bad\":\"{\\\"v\\\":4}\"}}");
	ok(WITHIN(1000, k->found == 4 && map_get(k->want, STR("bad"))), "mended, it's found");
	restart();
	ok(WITHIN(1000, k->synced && k->found == 4), "the next finds the same");
	is_int(k->reports, 1, "and one is bad");
	close_row();
}

static void test_immutable(void)
{
	open_filled("immutable");
	edit(TRACKER, "{\"immutable\":true}");
	WITHIN(500, false);
	is_int(tracker_error(k->t)->kind, ERR_NONE, "as long as nothing changes, all is well");
	put(k, "c", "u", "{\"v\":3}");
	ok(WITHIN(1000, is_stored("c", "{\"v\":3}")), "a new key is written");
	is_str(value_in(TRACKER "-1", "c"), "{\"v\":3}", "elsewhere");
	put(k, "a", "u", "{\"v\":7}");
	ok(WITHIN(1000, tracker_error(k->t)->kind == ERR_INVALID), "a change is not");
	has_str(tracker_error(k->t)->msg, "delete it", "with what to do");
	ok(!tracker_is_recorded(k->t, "a"), "nor recorded");
	restart();
	ok(WITHIN(1000, k->synced && k->found == 3), "another process reads it");
	put(k, "a", "u", "{\"v\":1}");
	put(k, "b", "u", "{\"v\":8}");
	WITHIN(1000, false);
	put(k, "b", "u", "{\"v\":2}");
	delete_map(TRACKER);
	ok(WITHIN(1000, is_whole()), "deleted, it's written anew");
	is_int(tracker_error(k->t)->kind, ERR_NONE, "all is well");
	close_row();
}

static void test_other_format(void)
{
	open_filled("another format while it runs");
	edit(TRACKER, "{\"metadata\":{\"annotations\":{\"graphcore.ai/tracker-format\":\"2\"}},"
		      "\"data\":{\"a\":\"new\"}}");
	ok(WITHIN(500, tracker_error(k->t)->kind == ERR_INVALID), "an error");
	ok(!tracker_is_recorded(k->t, "a") && !tracker_is_recorded(k->t, "b"), "nothing counts");
	put(k, "c", "u", "{\"v\":3}");
	WITHIN(60000, false);
	is_str(value_in(TRACKER, "a"), "new", "nothing is touched");
	ok(is_stored("c", NULL), "nor written elsewhere");
	edit(TRACKER, "{\"metadata\":{\"annotations\":{\"graphcore.ai/tracker-format\":\"1\"}}}");
	ok(WITHIN(1000, is_whole() && is_stored("c", "{\"v\":3}")), "it goes on by itself");
	close_row();
}

static void test_two_places(void)
{
	open_row("a key in two ConfigMaps, found so");
	make_map(TRACKER "-1", OURS("1"), "\"data\":{\"a\":\"{\\\"v\\\":9}\",\"bad\":\"?\"}");
	make_map(TRACKER, OURS("0"),
		 "\"data\":{\"a\":\"{\\\"v\\\":1}\",\"b\":\"{\\\"v\\\":2}\",\"bad\":\"!\"}");
	k = lead();
	ok(WITHIN(1000, k->synced), "read");
	is_str(map_get(k->want, STR("a")), "{\"v\":1}", "the lower number counts");
	ok(WITHIN(1000, is_whole()), "the other one goes");
	is_int(n_homes("bad", NULL), 2, "what nobody can read stays in both");
	ok(k->reports >= 2, "reported");
	drop(k, "a");
	ok(WITHIN(1000, tracker_is_recorded(k->t, "a") && is_stored("a", NULL)), "dropped: gone");
	close_row();

	open_filled("a key moved by hand");
	make_map(TRACKER "-1", OURS("1"), "\"data\":{}");
	WITHIN(500, false);
	inject_api("{\"verb\":\"patch\",\"resource\":\"configmaps\",\"kind\":\"status\"}");
	edit(TRACKER "-1", "{\"data\":{\"a\":\"{\\\"v\\\":1}\"}}");
	edit(TRACKER, "{\"data\":{\"a\":null}}");
	for (int i = 0; i < 200 && !(is_whole() && value_in(TRACKER, "a")); i++) {
		turn(10);
		if (n_homes("a", NULL) == 0)
			fail("it is nowhere");
	}
	ok(is_whole() && value_in(TRACKER, "a"), "home again, and it was always somewhere");
	close_row();

	open_filled("a key copied while it runs");
	make_map(TRACKER "-1", OURS("1"), "\"data\":{\"a\":\"{\\\"v\\\":9}\"}");
	ok(WITHIN(1000, is_whole()), "the copy goes");
	is_str(value_in(TRACKER, "a"), "{\"v\":1}", "not the original");
	ok(k->reports >= 1, "reported");
	WITHIN(100, false);
	edit(TRACKER "-1", "{\"data\":{\"b\":\"{\\\"v\\\":9}\"}}");
	drop(k, "b");
	ok(WITHIN(1000, tracker_is_recorded(k->t, "b")), "dropped");
	ok(is_stored("b", NULL), "from both");
	close_row();
}

static void test_lost_labels(void)
{
	open_row("parts without labels, and with a gap");
	make_map(TRACKER "-1", "", "\"data\":{\"a\":\"{\\\"v\\\":1}\"}");
	make_map(TRACKER "-2", OURS("2"), "\"data\":{\"b\":\"{\\\"v\\\":2}\"}");
	make_map(TRACKER "-3", "", "\"data\":{\"c\":\"{\\\"v\\\":3}\"}");
	k = lead();
	ok(WITHIN(2000, k->synced && k->found == 3), "all are found");
	ok(str_eqz(kube_label(json_of(TRACKER "-3"), "app.kubernetes.io/component"),
		   "partition-tracker"),
	   "and labelled");
	close_row();
}

static void test_in_the_way(void)
{
	char big[600];

	open_row("something else where a part should go");
	memset(big, 'x', sizeof(big) - 1);
	memcpy(big, "{\"v\":\"", 6);
	memcpy(big + sizeof(big) - 3, "\"}", 3);
	make_map(TRACKER "-1", "", "\"data\":{\"theirs\":\"1\"}");
	k = lead();
	for (int i = 0; i < 1200; i++) {
		char key[16];

		snprintf(key, sizeof(key), "id-%d", i);
		put(k, key, key, big);
	}
	ok(WITHIN(3000, k->recorded == 1200), "all written");
	is_str(value_in(TRACKER "-1", "theirs"), "1", "it's left alone");
	is_int(json_len(json_get(json_of(TRACKER "-1"), "data")), 1, "with nothing of ours");
	ok(object_of(TRACKER "-2"), "the next one is used");
	is_int(tracker_error(k->t)->kind, ERR_NONE, "all is well");
	edit(TRACKER "-2", "{\"metadata\":{\"annotations\":null,\"labels\":null}}");
	WITHIN(200, false);
	edit(TRACKER "-2", "{\"metadata\":{\"annotations\":null,\"labels\":null},\"data\":null}");
	ok(WITHIN(3000, tracker_is_recorded(k->t, "id-1199")), "emptied, it's filled again");
	close_row();
}

/* News that comes while a write is on its way: older than its answer, and newer. */
static void test_behind_a_write(void)
{
	static const struct {
		const char *version;
		int64_t gets;
	} rows[] = {{"1", 0}, {"999999", 1}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kube_watch_event news = {.type = KUBE_MODIFIED,
						.name = STR(TRACKER),
						.version = str_of(rows[i].version)};
		struct shard *s;
		int64_t before;

		open_filled("news behind a write");
		s = k->t->shards[0];
		before = api_calls("get configmaps");
		put(k, "c", "u", "{\"v\":3}");
		ok(WITHIN(1000, s->state == SHARD_WRITING), "a write is on its way");
		shard_note_event(s, &news);
		ok(WITHIN(1000, tracker_is_recorded(k->t, "c")), "recorded");
		WITHIN(1000, false);
		is_int(api_calls("get configmaps") - before, rows[i].gets, "asked about");
		close_row();
	}
}

/* Somebody's controller that takes our label off as often as we put it on. */
static void test_stubborn(void)
{
	int64_t before;

	open_filled("changed again and again");
	before = n_written();
	for (int i = 0; i < 12000; i++) {
		if (is_stored("a", "{\"v\":1}"))
			edit(TRACKER, "{\"data\":{\"a\":null}}");
		turn(10);
	}
	ok(n_written() - before < 40, "%" PRId64 " writes in two minutes", n_written() - before);
	ok(n_written() - before > 10, "it doesn't give up");
	ok(WITHIN(60000, is_stored("a", "{\"v\":1}")), "and wins");
	close_row();
}

/* ---- the API server ---- */

static void test_answers(void)
{
	static const int statuses[] = {403, 404, 409, 410, 422, 429, 500, 503, 504};
	static const char *const kinds[] = {"lose", "cut", "hang", "garbage"};
	static const char *const verbs[] = {"list", "get", "create", "patch"};

	for (size_t i = 0; i < 4 * (9 + 4); i++) {
		size_t what = i / 4;
		CLEANUP_FREE char *fault =
			what < 9
				? xasprintf(
					  "{\"resource\":\"configmaps\",\"verb\":\"%s\",\"count\":2,"
					  "\"kind\":\"status\",\"status\":%d}",
					  verbs[i % 4], statuses[what])
				: xasprintf(
					  "{\"resource\":\"configmaps\",\"verb\":\"%s\",\"count\":2,"
					  "\"kind\":\"%s\"}",
					  verbs[i % 4], kinds[what - 9]);

		row_begin("%s: %s %d", verbs[i % 4], what < 9 ? "status" : kinds[what - 9],
			  what < 9 ? statuses[what] : 0);
		rig_begin(16);
		inject_api(fault);
		k = lead();
		put(k, "a", "u", "{\"v\":1}");
		ok(WITHIN(120000, tracker_is_recorded(k->t, "a")), "recorded");
		ok(is_stored("a", "{\"v\":1}"), "and there");
		WITHIN(200, false);
		sim_api_clear_faults(api);
		inject_api(fault);
		put(k, "b", "w", "{\"v\":9}");
		turns(3, 1);
		put(k, "b", "w", "{\"v\":2}");
		ok(WITHIN(120000, tracker_is_recorded(k->t, "b")), "a change recorded");
		ok(WITHIN(60000, is_whole()), "and whole");
		ok(WITHIN(60000, tracker_error(k->t)->kind == ERR_NONE), "all is well");
		close_row();
	}
}

static void test_lost_answer(void)
{
	CLEANUP_FREE char *before = NULL;

	open_filled("an unknown outcome");
	before = str_dup(kube_annotation(json_of(TRACKER), "graphcore.ai/tracker-writer"));
	inject_api("{\"verb\":\"patch\",\"resource\":\"configmaps\",\"kind\":\"lose\"}");
	put(k, "a", "u", "{\"v\":7}");
	turns(10, 1);
	ok(is_stored("a", "{\"v\":7}") && !tracker_is_recorded(k->t, "a"),
	   "it's there, and doesn't count");
	ok(WITHIN(2000, tracker_is_recorded(k->t, "a")), "until it has been looked at");
	ok(!str_eqz(kube_annotation(json_of(TRACKER), "graphcore.ai/tracker-writer"), before),
	   "and something was changed: nothing can land behind that");
	close_row();
}

/* ---- at random ---- */

static unsigned faults, deaths, hands, writers, told;

static void random_fault(void)
{
	static const char *const kinds[] = {"status", "lose", "cut", "hang", "garbage"};
	static const int statuses[] = {403, 404, 409, 410, 422, 429, 500, 503, 504};
	static const char *const verbs[] = {"list", "get", "create", "patch", "watch"};
	CLEANUP_FREE char *fault = xasprintf(
		"{\"resource\":\"configmaps\",\"verb\":\"%s\",\"count\":%d,\"kind\":\"%s\","
		"\"status\":%d}",
		verbs[rand_below(5)], 1 + (int)rand_below(3), kinds[rand_below(5)],
		statuses[rand_below(9)]);

	inject_api(fault);
	faults++;
}

static void random_word(struct keeper *keeper)
{
	char key[16], json[32];

	snprintf(key, sizeof(key), "id-%d", (int)rand_below(20));
	snprintf(json, sizeof(json), "{\"v\":%d}", (int)rand_below(1000));
	if (rand_below(3))
		put(keeper, key, key, json);
	else
		drop(keeper, key);
}

static void random_hand(void)
{
	static const char *const patches[] = {"{\"data\":null}", "{\"metadata\":{\"labels\":null}}",
					      "{\"data\":{\"id-3\":\"{\\\"v\\\":-1}\"}}",
					      "{\"metadata\":{\"annotations\":null}}"};

	if (!object_of(TRACKER))
		return;
	if (rand_below(6))
		edit(TRACKER, patches[rand_below(4)]);
	else
		delete_map(TRACKER);
	hands++;
}

/* What counts as recorded is what the API server has. */
static bool check_recorded(const char *when)
{
	for (int i = 0; i < 20; i++) {
		char key[16];
		const char *want;

		snprintf(key, sizeof(key), "id-%d", i);
		want = map_get(k->want, str_of(key));
		if (!k->synced || !tracker_is_recorded(k->t, key))
			continue;
		told++;
		if (!is_stored(key, want)) {
			fail("%s: %s isn't as recorded: %s", when, key, want ? want : "dropped");
			return false;
		}
	}
	return true;
}

static bool settled(void)
{
	char key[16];

	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "id-%d", i);
		if (!tracker_is_recorded(k->t, key) ||
		    !is_stored(key, map_get(k->want, str_of(key))))
			return false;
	}
	return k->synced;
}

/* old: a process that doesn't know that its time is over. */
static bool random_life(unsigned seed, bool meddled)
{
	struct keeper *old = NULL;
	bool good = true;

	rand_seed(seed);
	rig_begin(16);
	k = lead();
	for (int i = 0; good && i < 400; i++) {
		uint64_t dice = rand_below(100);

		if (dice < 30)
			random_word(k);
		else if (dice < 40 && old)
			random_word(old);
		else if (dice < 44)
			random_fault();
		else if (dice < 46)
			sim_api_clear_faults(api);
		else if (dice < 48 && meddled)
			random_hand();
		if (dice == 99 && k->synced) {
			restart();
			deaths++;
		} else if (dice == 98 && k->synced) {
			if (old)
				keeper_free(old);
			old = k;
			k = lead();
			writers++;
		}
		for (uint64_t n = rand_below(8); good && n > 0; n--) {
			turn(1 + (unsigned)rand_below(rand_below(20) ? 10 : 3000));
			good = meddled || check_recorded("on the way");
		}
	}
	sim_api_clear_faults(api);
	if (good)
		good = ok(WITHIN(200000, settled()), "it comes to rest");
	if (old)
		keeper_free(old);
	restart();
	if (good)
		good = ok(WITHIN(100000, k->synced) && check_recorded("in the end"), "as it was");
	keeper_free(k);
	rig_end();
	return good;
}

static void test_random(void)
{
	const char *seeds = getenv("IPU_TRACKER_SEEDS"), *first = getenv("IPU_TRACKER_SEED");
	unsigned n = seeds ? (unsigned)atoi(seeds) : 20, from = first ? (unsigned)atoi(first) : 1;

	for (unsigned i = from; i < from + n; i++) {
		row_begin("at random, seed %u", i);
		if (!random_life(i, i % 3 == 0))
			break;
	}
	row_end();
	note("%u faults, %u deaths, %u hands, %u second writers, %u checks", faults, deaths, hands,
	     writers, told);
	ok(faults > n && deaths > n && hands > n / 2 && writers > n && told > 100 * n,
	   "none of it is rare");
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(6);
	test_edits();
	test_deleted();
	test_bad();
	test_immutable();
	test_other_format();
	test_two_places();
	test_lost_labels();
	test_in_the_way();
	test_behind_a_write();
	test_stubborn();
	test_answers();
	test_lost_answer();
	test_random();
	return done_testing();
}
