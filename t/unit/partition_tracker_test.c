/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracker ConfigMap and those who meddle with it: edits, deletions, other formats, entries that
 * can't be read, an API server that says no, answers nothing or loses replies.
 */
#include "partition_manager_rig.h"

#include "partition/tracker.h"

static bool has_entry(const char *id)
{
	return json_get(tracker_data(), id) != NULL;
}

static void make_tracker(const char *format, const char *data)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"" TRACKER
		"\",\"namespace\":\"" NS "\",\"annotations\":{%s}},\"data\":%s}",
		format, data);

	make_object("configmaps", json);
}

/* ---- by the manager ---- */

static void test_object(void)
{
	const struct json *o;

	row_begin("as it's made");
	begin();
	want("u", 4);
	ok(WITHIN(5000, tracker_object() != NULL), "it's there");
	o = sim_object_json(tracker_object());
	ok(str_eqz(kube_annotation(o, "graphcore.ai/tracker-format"), "1"), "its format");
	ok(str_eqz(kube_label(o, "app.kubernetes.io/name"), "ipu-operator"), "a label");
	ok(str_eqz(kube_label(o, "app.kubernetes.io/component"), "partition-tracker"),
	   "and another");
	end();
}

static void test_edits(void)
{
	row_begin("edited in the same turn");
	begin();
	make_tracker("\"graphcore.ai/tracker-format\":\"1\"", "{}");
	ok(WITHIN(5000, synced), "read");
	for (int i = 0; i < 5; i++) {
		char uid[16], patch[64];

		snprintf(uid, sizeof(uid), "uid-%d", i);
		snprintf(patch, sizeof(patch), "{\"metadata\":{\"labels\":{\"x\":\"%d\"}}}", i);
		want(uid, 1);
		WITHIN(30, false);
		edit_tracker(patch);
	}
	ok(WITHIN(9000, is("uid-4", PARTITION_STATE_ACTIVE)), "active all the same");
	ok(WITHIN(5000, n_entries() == 5), "nothing is lost");
	is_str(json_cstr(
		       json_at(sim_object_json(tracker_object()), "metadata", "labels", "x", NULL)),
	       "4", "of anybody's");
	end();
}

static void delete_tracker(void)
{
	sim_api_delete_now(api, tracker_object());
}

static void test_deleted(void)
{
	char id[64];

	row_begin("deleted by hand");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(id, sizeof(id), "%s", seen("u").id);
	guarded = false;
	delete_tracker();
	ok(WITHIN(2000, has_entry(id)), "written again");
	guarded = true;
	ok(is("u", PARTITION_STATE_ACTIVE), "active all the time");

	row_begin("deleted by hand, after a restart");
	process_kill();
	process_begin(true);
	ok(WITHIN(5000, synced), "read");
	turns(20, 10);
	guarded = false;
	delete_tracker();
	ok(WITHIN(2000, has_entry(id)), "written again");
	edit_tracker("{\"data\":null}");
	ok(WITHIN(2000, has_entry(id)), "an entry taken out comes back");
	guarded = true;
	want("u", 4);
	ok(is("u", PARTITION_STATE_ACTIVE), "active");
	partition_release_all(parts, "u");
	ok(WITHIN(9000, is_over("u")), "over");
	end();
}

/* Somebody's edits land between a write and its answer: the watch may bring them first. */
struct meddler {
	struct sim_watcher watcher;
	struct loop_work work;
	unsigned left;
};

static void meddle(void *arg, const struct sim_event *event)
{
	struct meddler *m = arg;

	if (m->left == 0 || strcmp(event->now->resource->plural, "configmaps") != 0 ||
	    event->change == SIM_DELETED)
		return;
	m->left--;
	loop_work_post(&m->work);
}

static void meddle_now(struct loop_work *work, void *arg)
{
	(void)work;
	(void)arg;
	edit_tracker("{\"data\":null}");
}

static void test_edited_behind_a_write(void)
{
	struct meddler m = {.watcher = {.on_event = meddle, .arg = &m}, .left = 6};

	row_begin("edited behind a write");
	begin();
	guarded = false; /* the edits take entries out of partitions that there are */
	list_init(&m.watcher.link);
	loop_work_init(&m.work, loop, meddle_now, &m);
	sim_objects_watch(objects, &m.watcher);
	want("u", 4);
	ok(WITHIN(20000, is("u", PARTITION_STATE_ACTIVE)), "active");
	ok(WITHIN(20000, has_entry(seen("u").id)), "with its entry");
	is_int(m.left, 0, "after six edits");
	sim_objects_unwatch(&m.watcher);
	end();
}

static void test_foreign(void)
{
	const char *other = "{\"a\":\"b\"}";
	uint64_t version;

	row_begin("another format");
	begin();
	make_tracker("\"graphcore.ai/tracker-format\":\"2\"", other);
	version = tracker_object()->version;
	want("u", 4);
	ok(WITHIN(9000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_TRACKER) ||
				is_because("u", PARTITION_STATE_CREATING, PARTITION_WHY_TRACKER)),
	   "the owner sees it");
	has_str(seen("u").message, "isn't touched", "in words");
	WITHIN(60000, false);
	ok(tracker_object()->version == version, "it's left alone");
	is_int(vipu_sim_len(sim), 0, "nothing is made");
	guarded = false;
	edit_tracker("{\"metadata\":{\"annotations\":{\"graphcore.ai/tracker-format\":\"1\"}}}");
	ok(WITHIN(20000, is("u", PARTITION_STATE_ACTIVE)), "it goes on by itself");
	is_int(seen("u").why, PARTITION_WHY_NONE, "and the words are gone");
	ok(has_entry("a"), "what can't be read is kept");
	end();

	row_begin("no format, and empty");
	begin();
	make_tracker("", "{}");
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "taken over");
	end();
}

static void test_unreadable(void)
{
	row_begin("an entry that can't be read");
	begin();
	make_tracker("\"graphcore.ai/tracker-format\":\"1\"",
		     "{\"weird\":\"{\\\"phase\\\":\\\"dreaming\\\"}\",\"worse\":\"{\"}");
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "doesn't keep others from going on");
	partition_release_all(parts, "u");
	ok(WITHIN(9000, partition_held(parts, "u") == 0), "and going");
	turns(20, 10);
	ok(has_entry("weird") && has_entry("worse") && n_entries() == 2, "it's kept");
	end();
}

/* ---- an API server in a mood ---- */

static void test_refusals(void)
{
	static const struct {
		const char *name, *faults[3];
		bool namespace_gone;
		int64_t most; /* calls in five minutes */
	} rows[] = {
		{"may not write",
		 {"{\"verb\":\"create\",\"resource\":\"configmaps\",\"count\":0,\"kind\":\"status\","
		  "\"status\":403,\"message\":\"forbidden\"}"},
		 false,
		 60},
		{"always a conflict",
		 {"{\"verb\":\"create\",\"resource\":\"configmaps\",\"count\":0,\"kind\":\"status\","
		  "\"status\":409,\"message\":\"conflict\"}"},
		 false,
		 60},
		{"out of order",
		 {"{\"verb\":\"create\",\"resource\":\"configmaps\",\"count\":0,\"kind\":\"status\","
		  "\"status\":500,\"message\":\"etcd\"}"},
		 false,
		 60},
		{"no namespace", {NULL}, true, 60},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		begin();
		if (rows[i].namespace_gone)
			sim_api_delete_now(
				api, sim_objects_get(objects,
						     sim_resource_find(STR(""), STR("namespaces")),
						     STR(""), STR(NS)));
		else
			inject_api(rows[i].faults[0]);
		want("u", 4);
		ok(WITHIN(30000, seen("u").why == PARTITION_WHY_TRACKER), "the owner sees it");
		WITHIN(300000, false);
		ok(tracker_requests() <= rows[i].most, "%" PRId64 " calls in five minutes",
		   tracker_requests());
		is_int(vipu_sim_len(sim), 0, "nothing is made meanwhile");
		if (rows[i].namespace_gone)
			make_object("namespaces", "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
						  "\"metadata\":{\"name\":\"" NS "\"}}");
		sim_api_clear_faults(api);
		ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "it goes on by itself");
		end();
	}
}

static void test_lost_answers(void)
{
	static const char *const kinds[] = {"lose", "cut", "hang", "garbage"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		CLEANUP_FREE char *fault = xasprintf(
			"{\"resource\":\"configmaps\",\"verb\":\"%s\",\"count\":3,\"kind\":\"%s\"}",
			"patch", kinds[i]);

		row_begin("a write's answer: %s", kinds[i]);
		begin();
		make_tracker("\"graphcore.ai/tracker-format\":\"1\"", "{}");
		ok(WITHIN(5000, synced), "read");
		inject_api(fault);
		want("u", 4);
		ok(WITHIN(120000, is("u", PARTITION_STATE_ACTIVE)), "active");
		partition_release_all(parts, "u");
		ok(WITHIN(60000, is_over("u")), "over");
		end();
	}
}

static void test_unreadable_api(void)
{
	row_begin("may not read");
	begin();
	inject_api("{\"verb\":\"list\",\"resource\":\"configmaps\",\"count\":0,\"kind\":\"status\","
		   "\"status\":403,\"message\":\"forbidden here\"}");
	want("u", 4);
	ok(WITHIN(30000, seen("u").why == PARTITION_WHY_TRACKER), "the owner sees it");
	has_str(seen("u").message, "forbidden here", "in the API server's words");
	sim_api_clear_faults(api);
	ok(WITHIN(90000, is("u", PARTITION_STATE_ACTIVE)), "it goes on by itself");
	end();

	row_begin("the watch is cut again and again");
	begin();
	want("u", 4);
	for (int i = 0; i < 30; i++) {
		turns(10, 10);
		sim_api_cut_watches(api);
	}
	ok(WITHIN(20000, is("u", PARTITION_STATE_ACTIVE)), "active");
	partition_release_all(parts, "u");
	ok(WITHIN(20000, is_over("u")), "over");
	end();
}

/* ---- alone ---- */

static unsigned found, recorded, errors;

static void count_synced(void *arg)
{
	*(bool *)arg = true;
}

static int count_found(void *arg, const char *id, struct str json, struct err *err)
{
	(void)arg;
	(void)id;
	(void)json;
	(void)err;
	found++;
	return 0;
}

static void count_recorded(void *arg, const char *id)
{
	(void)arg;
	(void)id;
	recorded++;
}

static void count_error(void *arg)
{
	(void)arg;
	errors++;
}

static void test_alone(void)
{
	static const struct tracker_ops ops = {.on_synced = count_synced,
					       .on_found = count_found,
					       .on_recorded = count_recorded,
					       .on_error = count_error};
	static const struct tracker_opts opts = {.ns = NS, .name = TRACKER};
	struct tracker *t;
	bool read = false;
	char id[16];

	row_begin("alone");
	rig_begin(16);
	t = tracker_new(kube, &opts, &ops, &read);
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "id-%d", i);
		tracker_put(t, id, "uid", STR("{}"));
		ok(!tracker_is_recorded(t, id), "not recorded at once");
	}
	ok(WITHIN(5000, recorded == 100), "all recorded");
	is_int((intmax_t)tracker_writes(t), 1, "by one write");
	for (int i = 0; i < 50; i++) {
		snprintf(id, sizeof(id), "id-%d", i);
		tracker_drop(t, id);
		tracker_put(t, id, "uid", STR("{\"x\":1}"));
		if (i % 2)
			tracker_drop(t, id);
	}
	ok(WITHIN(5000, tracker_is_recorded(t, "id-49")), "recorded");
	is_int((intmax_t)n_entries(), 75, "dropped and put");
	is_int((intmax_t)tracker_writes(t), 2, "by another write");
	tracker_drop(t, "never-there");
	ok(WITHIN(1000, tracker_is_recorded(t, "never-there")), "what never was is gone");
	edit_tracker("{\"data\":{\"new\":\"{}\"}}");
	ok(WITHIN(1000, found == 1), "somebody's entry is found");
	edit_tracker("{\"data\":{\"new\":\"{ }\"}}");
	ok(WITHIN(1000, found == 2), "its change too");
	is_int(errors, 0, "all was well");
	tracker_free(t);
	rig_end();
	row_end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(3);
	test_object();
	test_edits();
	test_deleted();
	test_edited_behind_a_write();
	test_foreign();
	test_unreadable();
	test_refusals();
	test_lost_answers();
	test_unreadable_api();
	test_alone();
	return done_testing();
}
