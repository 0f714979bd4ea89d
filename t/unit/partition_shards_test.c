/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracker's ConfigMaps by the tables of doc/design/tracker.md: how they grow, who may write,
 * what gathers, what hands do to them, and what isn't ours.
 */
#include "partition_tracker_rig.h"

static void open_row(const char *name)
{
	row_begin("%s", name);
	rig_begin(16);
}

static void close_row(void)
{
	rig_end();
	row_end();
}

static void put_many(struct keeper *k, int from, int to, const char *json)
{
	char key[16], uid[16];

	for (int i = from; i < to; i++) {
		snprintf(key, sizeof(key), "id-%d", i);
		snprintf(uid, sizeof(uid), "uid-%d", i / 5);
		put(k, key, uid, json);
	}
}

/* ---- gathering ---- */

struct wait {
	int64_t put_ms;
	int64_t took_ms;
};
static struct wait waits[500];

static void note_wait(struct keeper *k, const char *key)
{
	int i = atoi(key + 3);

	(void)k;
	waits[i].took_ms = clock_mono_ms() - waits[i].put_ms;
}

static void burst(int group, int every_ms)
{
	struct keeper *k;
	int64_t alone_ms, longest_ms = 0;
	unsigned long before;
	int n = 0;

	row_begin("a burst of 500, %d every %d ms", group, every_ms);
	rig_begin(16);
	k = lead();
	ok(WITHIN(1000, k->synced), "read");
	k->on_recorded = note_wait;
	waits[0] = (struct wait){.put_ms = clock_mono_ms(), .took_ms = -1};
	put_many(k, 0, 1, "{\"v\":1}");
	while (waits[0].took_ms < 0)
		turn(1);
	alone_ms = waits[0].took_ms;
	ok(alone_ms < 20, "alone, it's written at once: %" PRId64 " ms with the API's", alone_ms);
	turns(200, 1);
	before = tracker_writes(k->t);
	for (int ms = 0; k->recorded < 500 && ms < 5000; ms++) {
		for (int i = 0; ms % every_ms == 0 && i < group && n < 500; i++, n++) {
			waits[n].put_ms = clock_mono_ms();
			put_many(k, n, n + 1, n ? "{\"v\":1}" : "{\"v\":2}");
		}
		turn(1);
	}
	is_int(n, 500, "all put");
	for (int i = 0; i < 500; i++)
		longest_ms = waits[i].took_ms > longest_ms ? waits[i].took_ms : longest_ms;
	ok(WITHIN(100, tracker_is_recorded(k->t, "id-499")), "all written");
	note("%lu writes, alone %" PRId64 " ms, longest %" PRId64 " ms",
	     tracker_writes(k->t) - before, alone_ms, longest_ms);
	ok(tracker_writes(k->t) - before < 25, "%lu writes", tracker_writes(k->t) - before);
	/* What isn't the API's time, of the write before and of its own. */
	ok(longest_ms - 2 * alone_ms <= 50, "gathering delays none by more than 50 ms: %" PRId64,
	   longest_ms - 2 * alone_ms);
	keeper_free(k);
	close_row();
}

/* ---- growing ---- */

static void test_growth(void)
{
	char big[600], key[16];
	struct keeper *k;
	size_t homes = 0;

	open_row("five thousand");
	memset(big, 'x', sizeof(big) - 1);
	memcpy(big, "{\"v\":\"", 6);
	memcpy(big + sizeof(big) - 3, "\"}", 3);
	k = lead();
	put_many(k, 0, 5000, big);
	ok(WITHIN(10000, k->recorded == 5000), "all recorded: %u", k->recorded);
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "id-%d", i);
		homes += n_homes(key, NULL);
	}
	is_int((intmax_t)homes, 5000, "each in one place");
	is_int(n_shards(), 6, "in so many ConfigMaps");
	for (int i = 0; i < n_shards(); i++) {
		const struct json *data = json_get(json_of(shard_name(i)), "data");

		ok(json_len(data) <= 870, "none has more than half a MiB: %zu entries",
		   json_len(data));
		ok(json_len(data) > 400, "and none is small");
		is_str(json_cstr(json_at(json_of(shard_name(i)), "metadata", "annotations",
					 "graphcore.ai/tracker", NULL)),
		       TRACKER, "with its tracker's name");
	}
	keeper_free(k);
	k = lead();
	ok(WITHIN(10000, k->synced), "another process reads them");
	is_int(k->found, 5000, "all");
	is_int((intmax_t)map_len(k->want), 5000, "as they were");
	delete_map(shard_name(3));
	ok(WITHIN(3000,
		  n_shards() == 6 && json_len(json_get(json_of(shard_name(3)), "data")) > 400),
	   "one that is deleted comes back");
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "id-%d", i);
		drop(k, key);
	}
	k->recorded = 0;
	ok(WITHIN(10000, k->recorded == 5000), "all dropped: %u", k->recorded);
	put(k, "one", "u", "{\"v\":1}");
	ok(WITHIN(1000, is_stored("one", "{\"v\":1}")), "and one put");
	keeper_free(k);
	close_row();
}

/* ---- two names ---- */

static void test_neighbours(void)
{
	struct keeper *a, *b;

	open_row("two trackers, one named like the other's part");
	a = lead();
	b = keeper_of(TRACKER "-1", false);
	put(a, "a", "u", "{\"v\":1}");
	put(b, "b", "u", "{\"v\":1}");
	ok(WITHIN(2000, a->recorded && b->recorded), "both write");
	ok(!a->found && !b->found, "neither finds what is the other's");
	is_str(value_in(TRACKER, "a"), "{\"v\":1}", "in its own");
	is_str(value_in(TRACKER "-1", "b"), "{\"v\":1}", "each");
	make_map(TRACKER "-05", OURS("5"), "\"data\":{\"x\":\"{\\\"v\\\":1}\"}");
	make_map(TRACKER "-64", OURS("64"), "\"data\":{\"x\":\"{\\\"v\\\":1}\"}");
	make_map("other", OURS("0"), "\"data\":{\"x\":\"{\\\"v\\\":1}\"}");
	WITHIN(1000, false);
	ok(!a->found && !b->found, "nor what has no name of a part");
	keeper_free(a);
	keeper_free(b);
	close_row();
}

/* ---- followers ---- */

static void test_follower(void)
{
	struct keeper *a, *f;
	int64_t written;

	open_row("a follower");
	f = follow();
	ok(WITHIN(1000, f->synced), "read, where there is nothing");
	is_int(n_written(), 0, "nothing is written");
	a = lead();
	put(a, "x", "u", "{\"v\":1}");
	ok(WITHIN(1000, f->found == 1), "it finds");
	put(a, "x", "u", "{\"v\":2}");
	ok(WITHIN(1000, f->found == 2), "a change");
	is_str(map_get(f->want, STR("x")), "{\"v\":2}", "as it is");
	drop(a, "x");
	ok(WITHIN(1000, f->gone == 1), "and that it goes");
	put(a, "y", "u", "{\"v\":1}");
	WITHIN(200, false);
	written = n_written();
	keeper_free(a);
	delete_map(TRACKER);
	ok(WITHIN(1000, f->gone == 2), "what is deleted is gone");
	make_map(TRACKER, "", "\"data\":{\"z\":\"{\\\"v\\\":1}\"}");
	keeper_free(f);
	f = follow();
	ok(WITHIN(1000, f->synced && f->found == 1), "without labels it's found by its name");
	edit(TRACKER, "{\"metadata\":{\"annotations\":{\"graphcore.ai/tracker-format\":\"9\"}}}");
	keeper_free(f);
	f = follow();
	WITHIN(2000, false);
	ok(!f->synced && !f->found && tracker_error(f->t)->kind == ERR_INVALID,
	   "another format isn't looked into");
	is_int(n_written(), written, "and nothing was written");
	keeper_free(f);
	close_row();
}

/* ---- two writers ---- */

static void test_two_writers(void)
{
	struct keeper *a, *b;
	char key[16];

	open_row("two writers");
	a = lead();
	put_many(a, 0, 50, "{\"v\":\"a\"}");
	ok(WITHIN(1000, a->recorded == 50), "the first has it");
	b = lead();
	for (int i = 0; i < 30; i++) {
		snprintf(key, sizeof(key), "a-%d", i);
		put(a, key, "u", "{\"v\":\"a\"}");
		snprintf(key, sizeof(key), "b-%d", i);
		put(b, key, "u", "{\"v\":\"b\"}");
		turn(3);
	}
	ok(WITHIN(2000, tracker_is_superseded(a->t)), "the first stops");
	ok(WITHIN(2000, b->synced && b->recorded), "the second goes on");
	is_str(a->reason, "TrackerSuperseded", "it's reported");
	ok(!tracker_is_recorded(a->t, "id-0"), "nothing counts for the first any more");
	is_int(tracker_error(a->t)->kind, ERR_CONFLICT, "it has an error");
	ok(WITHIN(2000, tracker_is_recorded(b->t, "b-29")), "all of the second's is written");
	for (int i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "id-%d", i);
		if (!map_get(b->want, str_of(key)) || !is_stored(key, "{\"v\":\"a\"}"))
			fail("%s is lost", key);
	}
	put(a, "late", "u", "{\"v\":\"a\"}");
	WITHIN(1000, false);
	ok(is_stored("late", NULL), "the first writes no more");
	keeper_free(a);
	WITHIN(200, false);
	inject_api("{\"verb\":\"patch\",\"resource\":\"configmaps\",\"kind\":\"status\","
		   "\"status\":403}");
	put(b, "b-0", "u", "{\"v\":1}");
	ok(WITHIN(1000, tracker_error(b->t)->kind == ERR_DENIED), "the second isn't well");
	b->errors = 0;
	a = lead();
	ok(WITHIN(2000, a->synced && tracker_is_superseded(b->t)), "whoever begins last goes on");
	ok(WITHIN(100, b->errors > 0), "which is told to one that wasn't well before, too");
	keeper_free(a);
	keeper_free(b);
	close_row();
}

static void test_clock_ahead(void)
{
	struct keeper *a;

	open_row("an earlier writer whose clock was ahead");
	make_map(TRACKER,
		 ",\"annotations\":{\"graphcore.ai/tracker-format\":\"1\","
		 "\"graphcore.ai/tracker-writer\":\"9000000000000.ffffffff.1\"}",
		 "\"data\":{\"x\":\"{\\\"v\\\":1}\"}");
	a = lead();
	ok(WITHIN(1000, a->synced && a->found == 1), "read");
	ok(str_has_prefix(kube_annotation(json_of(TRACKER), "graphcore.ai/tracker-writer"),
			  STR("9000000000001.")),
	   "we come after it");
	ok(!tracker_is_superseded(a->t), "and aren't superseded");
	keeper_free(a);
	close_row();
}

static unsigned outcome;

static void on_late(void *arg, const struct err *err, const struct kube_response *response)
{
	(void)arg;
	(void)response;
	outcome = err ? (unsigned)err->kind : 1000;
}

/* A request of a process that is dead, under what it knew. */
static void send_late(const char *version, struct scope *scope)
{
	CLEANUP_FREE char *body = xasprintf(
		"{\"metadata\":{\"resourceVersion\":\"%s\"},\"data\":{\"late\":\"{\\\"v\\\":1}\","
		"\"old\":\"{\\\"v\\\":2}\",\"gone\":null}}",
		version);
	struct kube_request req = {.verb = KUBE_PATCH,
				   .resource = &KUBE_CONFIGMAPS,
				   .ns = NS,
				   .name = TRACKER,
				   .patch = KUBE_PATCH_MERGE,
				   .body = str_of(body)};

	outcome = 0;
	kube_call_start(kube, &req, on_late, NULL, scope);
}

static void test_late_writes(void)
{
	unsigned landed = 0, refused = 0;

	for (unsigned at = 0; at < 30; at++) {
		struct keeper *k;
		struct scope scope;
		CLEANUP_FREE char *version = NULL;
		bool did;

		row_begin("a dead leader's write, %u turns late", at);
		rig_begin(16);
		make_map(TRACKER, OURS("0"),
			 "\"data\":{\"old\":\"{\\\"v\\\":1}\",\"gone\":\"{\\\"v\\\":1}\"}");
		version = str_dup(kube_version(json_of(TRACKER)));
		scope_init(&scope);
		k = lead();
		turns(at, 2);
		send_late(version, &scope);
		WITHIN(2000, k->synced && outcome);
		did = outcome == 1000;
		landed += did;
		refused += outcome == ERR_CONFLICT;
		ok(k->synced && outcome, "all answered");
		is_int(map_get(k->want, STR("late")) != NULL, did, "it's known if it landed");
		is_str(map_get(k->want, STR("old")), did ? "{\"v\":2}" : "{\"v\":1}",
		       "so is a change");
		is_int(map_get(k->want, STR("gone")) == NULL, did, "so is what it took away");
		WITHIN(200, false);
		ok(is_stored("late", did ? "{\"v\":1}" : NULL), "and it's so in the end");
		keeper_free(k);
		close_row();
	}
	ok(landed && refused, "both happened: %u landed, %u refused", landed, refused);
}

static void test_late_create(void)
{
	struct keeper *k;
	struct scope scope;
	struct kube_request req = {.verb = KUBE_CREATE,
				   .resource = &KUBE_CONFIGMAPS,
				   .ns = NS,
				   .body = STR("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
					       "\"metadata\":{\"name\":\"" TRACKER "\"},"
					       "\"data\":{\"late\":\"{\\\"v\\\":1}\"}}")};

	open_row("a dead leader's create");
	scope_init(&scope);
	k = lead();
	ok(WITHIN(1000, k->synced), "nothing was there");
	ok(object_of(TRACKER), "now there is");
	outcome = 0;
	kube_call_start(kube, &req, on_late, NULL, &scope);
	ok(WITHIN(1000, outcome == ERR_EXISTS), "so that it comes too late");
	keeper_free(k);
	close_row();
}

/* ---- take-over ---- */

#define THEIRS                                                                                     \
	"\"data\":{\"p-job-default-0\":\"some text\",\"other\":\"1\"},"                            \
	"\"binaryData\":{\"blob\":\"AAEC\"}"

static struct sim_object *kept_object(unsigned *ret_n)
{
	size_t n;
	struct sim_object **all = sim_objects_list(objects, configmaps(), STR(NS), &n), *o = NULL;

	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		if (strstr(all[i]->name, "-kept-")) {
			o = all[i];
			++*ret_n;
		}
	}
	free(all);
	return o;
}

static void check_taken(struct keeper *k)
{
	unsigned n;
	const struct json *kept, *o = json_of(TRACKER);
	struct sim_object *object = kept_object(&n);

	is_int(n, 1, "kept once");
	kept = object ? sim_object_json(object) : NULL;
	is_str(json_cstr(json_at(kept, "data", "p-job-default-0", NULL)), "some text", "its data");
	is_str(json_cstr(json_at(kept, "binaryData", "blob", NULL)), "AAEC", "all of it");
	ok(str_eqz(kube_annotation(kept, "graphcore.ai/kept-from"), TRACKER), "with its origin");
	ok(!json_at(o, "data", "other", NULL) && !json_at(o, "binaryData", "blob", NULL),
	   "none of it is left");
	ok(!json_at(o, "metadata", "ownerReferences", NULL), "nor who owned it");
	ok(kube_annotation(o, "graphcore.ai/taken-over").len > 0, "the time is written down");
	is_int(tracker_began_ms(k->t) / 1000, INT64_C(1717200000), "and told");
}

static void test_take_over(void)
{
	struct keeper *k;

	open_row("what isn't ours");
	make_map(
		TRACKER,
		",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"x\","
		"\"uid\":\"y\"}]",
		THEIRS);
	k = lead();
	put(k, "mine", "u", "{\"v\":1}");
	ok(WITHIN(500, k->synced), "it goes on");
	check_taken(k);
	is_str(k->reason, "TrackerTakenOver", "reported");
	ok(k->report_uid[0] && str_eq(kube_uid(json_of(TRACKER)), str_of(k->report_uid)),
	   "about this very ConfigMap, so that kubectl describe shows it");
	ok(WITHIN(500, is_stored("mine", "{\"v\":1}")), "ours is written");
	keeper_free(k);
	k = lead();
	ok(WITHIN(1000, k->synced), "another process");
	is_int(tracker_began_ms(k->t) / 1000, INT64_C(1717200000), "knows it too");
	delete_map(TRACKER);
	ok(WITHIN(1000, is_stored("mine", "{\"v\":1}")), "deleted, it's written anew");
	ok(kube_annotation(json_of(TRACKER), "graphcore.ai/taken-over").len > 0, "with the time");
	keeper_free(k);
	close_row();

	for (unsigned at = 0; at < 25; at++) {
		row_begin("killed %u turns after the begin of a take-over", at);
		rig_begin(16);
		make_map(TRACKER, "", THEIRS);
		k = lead();
		turns(at, 1);
		keeper_free(k);
		k = lead();
		ok(WITHIN(1000, k->synced), "the next goes on");
		check_taken(k);
		keeper_free(k);
		close_row();
	}
}

static void test_take_over_meddled(void)
{
	struct keeper *k;
	unsigned n;

	open_row("changed while it's being kept");
	make_map(TRACKER, "", THEIRS);
	inject_api("{\"verb\":\"patch\",\"resource\":\"configmaps\",\"kind\":\"status\","
		   "\"status\":500,\"message\":\"later\"}");
	k = lead();
	ok(WITHIN(1000, tracker_error(k->t)->kind == ERR_INTERNAL), "kept, not yet taken");
	edit(TRACKER, "{\"data\":{\"more\":\"1\"}}");
	ok(WITHIN(2000, k->synced), "it goes on");
	kept_object(&n);
	is_int(n, 2, "the change is kept too");
	ok(!value_in(TRACKER, "more"), "and none of it is left");
	keeper_free(k);
	close_row();

	open_row("the name to keep it under is taken");
	make_map(TRACKER, "", THEIRS);
	k = lead();
	ok(WITHIN(500, k->synced), "a first time");
	keeper_free(k);
	edit(kept_object(&n)->name, "{\"data\":{\"other\":\"changed\"}}");
	edit(TRACKER, "{\"data\":{\"p-job-default-0\":\"some text\",\"other\":\"1\"},"
		      "\"binaryData\":{\"blob\":\"AAEC\"},\"metadata\":{\"annotations\":null}}");
	k = lead();
	WITHIN(2000, false);
	ok(!k->synced, "it doesn't go on");
	has_str(tracker_error(k->t)->msg, "other contents", "and says why");
	is_str(value_in(TRACKER, "other"), "1", "nothing is lost");
	delete_map(kept_object(&n)->name);
	ok(WITHIN(40000, k->synced), "it goes on when that one is gone");
	keeper_free(k);
	close_row();
}

/* What a person sees of writes that fail: the first one of each bad time. */
static void test_unwritable(void)
{
	static const char fault[] = "{\"verb\":\"patch\",\"resource\":\"configmaps\",\"count\":0,"
				    "\"kind\":\"status\",\"status\":%d,\"message\":\"no room\"}";
	static const struct {
		int status;
		bool reported;
	} rows[] = {{403, true}, {500, true}, {409, true}, {503, false}};
	struct keeper *k;
	char z[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		open_row("a write is refused");
		k = lead();
		ok(WITHIN(1000, k->synced), "it leads");
		snprintf(z, sizeof(z), fault, rows[i].status);
		inject_api(z);
		put(k, "one", "u", "{\"v\":1}");
		WITHIN(60000, false);
		is_int(k->reports, rows[i].reported, "%d: reported once", rows[i].status);
		if (rows[i].reported) {
			is_str(k->reason, "TrackerUnwritable", "as that");
			has_str(k->report, "no room", "with the API server's words");
		}
		sim_api_clear_faults(api);
		ok(WITHIN(60000, is_stored("one", "{\"v\":1}")), "it goes on");
		keeper_free(k);
		close_row();
	}
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(5);
	burst(5, 10);
	burst(25, 20);
	burst(5, 1);
	burst(500, 1);
	test_growth();
	test_neighbours();
	test_follower();
	test_two_writers();
	test_clock_ahead();
	test_late_writes();
	test_late_create();
	test_take_over();
	test_take_over_meddled();
	test_unwritable();
	return done_testing();
}
