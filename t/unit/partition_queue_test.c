/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of the partition manager against a simulated API server and V-IPU controller: that what
 * the scheduler decides is what happens, and what those who wait are told of it.
 */
#include "partition_manager_rig.h"

#include <time.h>

#include "grpc/status.h"

static void ask_as(const char *uid, const char *ns, uint32_t ipus, int32_t priority,
		   int64_t deadline_ms)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ask.owner.ns = TEXT(ns);
	ask.priority = priority;
	ask.deadline_ms = deadline_ms;
	partition_ensure(parts, &ask);
}

static void note_waiting(const struct partition_waiting *w, void *arg)
{
	char *z = arg;
	size_t len = strlen(z);

	snprintf(z + len, 256 - len, "%s%u:%s", len ? " " : "", w->position, w->ask->owner.uid);
}

static const char *in_queue(void)
{
	static char z[256];

	z[0] = '\0';
	partitions_each_waiting(parts, note_waiting, z);
	return z;
}

struct as_of {
	const char *uid;
	int64_t ms;
};

static void note_as_of(const struct partition_waiting *w, void *arg)
{
	struct as_of *a = arg;

	if (strcmp(w->ask->owner.uid, a->uid) == 0)
		a->ms = w->as_of_ms;
}

static int64_t as_of(const char *uid)
{
	struct as_of a = {uid, -1};

	partitions_each_waiting(parts, note_as_of, &a);
	return a.ms;
}

static bool has_message(const char *uid, const char *part)
{
	return strstr(seen(uid).message, part) != NULL;
}

/* ---- order ---- */

static void test_order(void)
{
	row_begin("order");
	begin();
	want("full", 64);
	ok(WITHIN(5000, is("full", PARTITION_STATE_ACTIVE)), "full");
	ask_as("z", "default", 32, 0, 0);
	ask_as("a", "default", 32, 0, 0);
	ask_as("m", "default", 32, 7, 0);
	ok(WITHIN(5000, has_message("a", "place 3 in the queue")), "the last knows its place");
	is_str(in_queue(), "1:m 2:z 3:a", "priority, then arrival");
	is_uint(seen("m").position, 1, "the status has it");
	ask_as("a", "default", 32, 9, 0);
	ok(WITHIN(1000, has_message("a", "place 1 in the queue")),
	   "another priority counts at once");
	is_str(in_queue(), "1:a 2:m 3:z", "the others come behind");
	WITHIN(1000, false);
	process_kill();
	process_begin(true);
	ok(WITHIN(9000, has_message("z", "place 3")), "after a restart");
	is_str(in_queue(), "1:a 2:m 3:z", "everybody has the same place");
	partition_release_all(parts, "full");
	ok(WITHIN(9000, is("a", PARTITION_STATE_ACTIVE) && is("m", PARTITION_STATE_ACTIVE)),
	   "room for two");
	ok(is("z", PARTITION_STATE_WAITING), "not for the third");
	is_uint(seen("z").position, 1, "which is the first now");
	is_uint(seen("a").position, 0, "who is served has no place");
	end();
}

static void test_figures(void)
{
	row_begin("what is told to be free");
	begin();
	ask_as("half", "default", 32, 1, 0);
	ask_as("all", "default", 64, 0, 0);
	ok(WITHIN(5000, is_because("all", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)),
	   "one that waits");
	ok(has_message("all", "32 of 64 are free, at most 32 side by side"),
	   "without what was given a moment before: %s", seen("all").message);
	end();
}

/* ---- reservation ---- */

static void test_reservation(void)
{
	char name[64];

	row_begin("reservation");
	begin();
	snprintf(name, sizeof(name), "127.0.0.1:%u", vipu_sim_port(sim));
	want("half", 32);
	ok(WITHIN(5000, is("half", PARTITION_STATE_ACTIVE)), "half of it is in use");
	is_uint(partitions_count_fits(parts, 16), 2, "the rest could be");
	want("large", 64);
	ok(WITHIN(5000, is_because("large", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)),
	   "who wants all of it waits");
	is_uint(partitions_reserved(parts, name), 32, "the rest is kept for it");
	is_uint(partitions_count_fits(parts, 1), 0, "nobody else could have any");
	want("small", 1);
	ok(WITHIN(5000, is_because("small", PARTITION_STATE_WAITING, PARTITION_WHY_QUEUED)),
	   "a small one waits too");
	ok(has_message("small", "kept for one ahead of it"), "and is told: %s",
	   seen("small").message);
	ask_as("short", "default", 1, 0, 60000);
	ok(WITHIN(5000, is("short", PARTITION_STATE_ACTIVE)), "one that is sure to end doesn't");
	is_uint(partitions_reserved(parts, name), 31, "31 are kept");
	partition_release_all(parts, "half");
	WITHIN(5000, false);
	ok(is("large", PARTITION_STATE_WAITING) && is("small", PARTITION_STATE_WAITING),
	   "63 are free, and kept");
	partition_release_all(parts, "short");
	ok(WITHIN(9000, is("large", PARTITION_STATE_ACTIVE)), "the large one has its turn");
	is_uint(partitions_reserved(parts, name), 0, "nothing is kept any more");
	partition_release_all(parts, "large");
	ok(WITHIN(9000, is("small", PARTITION_STATE_ACTIVE)), "then the small one");
	end();
}

static void test_by_hand(void)
{
	row_begin("a partition made by hand");
	begin();
	vipu_sim_create_by_hand(sim, "hand", 16, NULL);
	want("large", 64);
	ok(WITHIN(5000, is_because("large", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)),
	   "is in the way");
	ok(has_message("large", "; 16 are in partitions that aren't the operator's (hand)"),
	   "which is said: %s", seen("large").message);
	want("small", 4);
	ok(WITHIN(5000, is("small", PARTITION_STATE_ACTIVE)),
	   "nothing is kept: nobody knows when it goes");
	partition_release_all(parts, "small");
	ok(WITHIN(5000, is("small", PARTITION_STATE_NONE)), "the small one has gone");
	vipu_sim_remove_by_hand(sim, "hand", NULL);
	ok(WITHIN(4500, is("large", PARTITION_STATE_ACTIVE)), "that it goes is seen soon");
	end();
}

static void test_several_by_hand(void)
{
	static const char *const ids[] = {"first", "second-with-a-name-that-is-longer-than-shown",
					  "third", "fourth"};

	row_begin("several made by hand");
	begin();
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		vipu_sim_create_by_hand(sim, ids[i], 2, NULL);
	want("small", 4);
	ok(WITHIN(5000, is("small", PARTITION_STATE_ACTIVE)), "one of the operator's");
	want("large", 64);
	ok(WITHIN(5000, has_message("large", "8 are in partitions that aren't the operator's (")),
	   "their IPUs alone: %s", seen("large").message);
	ok(has_message("large", " and 2 more)"), "two names, and how many more: %s",
	   seen("large").message);
	end();
}

/* ---- domains ---- */

static void test_wide(void)
{
	struct vipu_sim_partition p;

	row_begin("more than a domain");
	rig_begin(64);
	process_begin(true);
	want("a", 128);
	want("b", 64);
	ok(WITHIN(5000, is("a", PARTITION_STATE_ACTIVE) && is("b", PARTITION_STATE_ACTIVE)),
	   "128 and 64 of 256");
	ok(vipu_sim_find(sim, seen("a").id, &p) && p.size == 128 && p.first_ipu % 64 == 0,
	   "whole domains");
	want("c", 128);
	ok(WITHIN(5000, is_because("c", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)),
	   "no two are left");
	partition_release_all(parts, "a");
	ok(WITHIN(9000, is("c", PARTITION_STATE_ACTIVE)), "now there are");
	want("d", 256);
	ok(WITHIN(5000, is_because("d", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)),
	   "all four");
	want("e", 4);
	WITHIN(3000, false);
	ok(is_because("e", PARTITION_STATE_WAITING, PARTITION_WHY_QUEUED), "are kept for it");
	partition_release_all(parts, "b");
	partition_release_all(parts, "c");
	ok(WITHIN(9000, is("d", PARTITION_STATE_ACTIVE)), "256 IPUs in one partition");
	want("f", 512);
	ok(WITHIN(5000, is_because("f", PARTITION_STATE_WAITING, PARTITION_WHY_TOO_LARGE)),
	   "512 are too many");
	end();
}

/* ---- policy ---- */

static void annotate(const char *ns, const char *value)
{
	CLEANUP_FREE char *json = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
					    "\"metadata\":{\"name\":\"%s\",\"annotations\":{"
					    "\"graphcore.ai/max-ipus\":\"%s\"}}}",
					    ns, value);

	make_object("namespaces", json);
}

/* Somebody's kubectl annotate. */
static void edit_namespace(const char *ns, const char *patch)
{
	const struct sim_resource *r = sim_resource_find(STR(""), STR("namespaces"));
	const struct sim_object *o = sim_objects_get(objects, r, STR(""), str_of(ns));
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root;

	if (!o || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to edit");
	root = jmut_merge_patch(doc, jmut_copy(doc, sim_object_json(o)), json_root(p));
	jmut_set_root(doc, root);
	sim_objects_put(objects, r, doc, root);
}

static void test_quota(void)
{
	static const struct partition_rules rules = {.fallback = {16, 32, 3600, -1, -1}};

	row_begin("quota");
	site = &rules;
	begin();
	annotate("team-b", "32");
	ask_as("a", "team-a", 8, 0, 0);
	ask_as("b", "team-a", 8, 0, 0);
	ok(WITHIN(9000, is("a", PARTITION_STATE_ACTIVE) && is("b", PARTITION_STATE_ACTIVE)),
	   "16 of 16");
	ask_as("c", "team-a", 4, 0, 0);
	ok(WITHIN(5000, is_because("c", PARTITION_STATE_WAITING, PARTITION_WHY_QUOTA)), "no more");
	has_str(seen("c").message, "namespace team-a uses 16 of its 16 IPUs, this job wants 4",
		"in words");
	ask_as("d", "team-b", 32, 0, 0);
	ok(WITHIN(5000, is("d", PARTITION_STATE_ACTIVE)), "an annotation gives another more");
	ask_as("e", "team-b", 64, 0, 0);
	ok(WITHIN(5000, is_because("e", PARTITION_STATE_WAITING, PARTITION_WHY_POLICY)),
	   "a job that's too large");
	has_str(seen("e").message, "asks for 64 IPUs, a job in namespace team-b may have 32",
		"in words");
	ask_as("l", "team-c", 1, 0, 3601000);
	ok(WITHIN(5000, is_because("l", PARTITION_STATE_WAITING, PARTITION_WHY_POLICY)),
	   "a job that's too long");
	vipu_sim_inject(sim, &(struct vipu_sim_fault){.kind = VIPU_SIM_HANG,
						      .method = VIPU_REMOVE_PARTITION,
						      .count = 0});
	partition_release_all(parts, "a");
	WITHIN(5000, false);
	ok(is("c", PARTITION_STATE_WAITING), "IPUs count until they're really free");
	vipu_sim_clear_faults(sim);
	ok(WITHIN(60000, is("c", PARTITION_STATE_ACTIVE)), "then the next has them");
	end();
	site = NULL;
}

/* How long a partition may be used, as policy has it. */
static void test_deadlines(void)
{
	static const struct partition_rules rules = {.fallback = {-1, -1, 3600, 600, 60}};
	struct partition_ask session = ask_of("s", 0, 4);

	row_begin("time");
	site = &rules;
	begin();
	annotate("team-a", "-1");
	ask_as("a", "team-a", 4, 0, 0);
	ask_as("b", "team-a", 4, 0, 900000);
	is_int(seen("a").deadline_ms, 600000, "the default, while it waits");
	ok(WITHIN(9000, is("a", PARTITION_STATE_ACTIVE) && is("b", PARTITION_STATE_ACTIVE)),
	   "active");
	is_int(seen("a").deadline_ms, 600000, "the default for one that names none");
	is_int(seen("b").deadline_ms, 900000, "its own");
	ask_as("b", "team-a", 4, 0, 0);
	is_int(seen("b").deadline_ms, 600000, "the default, when it names none any more");
	edit_namespace("team-a", "{\"metadata\":{\"annotations\":{"
				 "\"graphcore.ai/default-deadline-seconds\":\"30\"}}}");
	turns(50, 10);
	ask_as("c", "team-a", 4, 0, 0);
	ok(WITHIN(5000, is("c", PARTITION_STATE_ACTIVE) && seen("c").deadline_ms == 30000),
	   "a namespace's own");
	is_int(seen("a").deadline_ms, 600000, "who has one keeps to what it was then");
	process_kill();
	process_begin(true);
	ok(WITHIN(5000, synced), "another process");
	is_int(seen("a").deadline_ms, 600000, "knows it");
	session.deadline_ms = 61000;
	session.interactive = true;
	partition_ensure(parts, &session);
	ok(WITHIN(5000, is_because("s", PARTITION_STATE_WAITING, PARTITION_WHY_POLICY)),
	   "a session that's too long");
	has_str(seen("s").message, "may stay for 61 s", "in words");
	session.deadline_ms = 60000;
	partition_ensure(parts, &session);
	ok(WITHIN(5000, is("s", PARTITION_STATE_ACTIVE)), "one that isn't");
	is_int(seen("s").deadline_ms, 60000, "its own time");
	end();
	site = NULL;
}

static void test_annotation_changes(void)
{
	row_begin("an annotation that changes");
	begin();
	annotate("team-a", "4");
	ok(WITHIN(5000, partitions_synced(parts)), "begun");
	ask_as("a", "team-a", 4, 0, 0);
	ask_as("b", "team-a", 4, 0, 0);
	ok(WITHIN(5000, is("a", PARTITION_STATE_ACTIVE)), "four");
	ok(WITHIN(5000, is_because("b", PARTITION_STATE_WAITING, PARTITION_WHY_QUOTA)), "no more");
	edit_namespace("team-a",
		       "{\"metadata\":{\"annotations\":{\"graphcore.ai/max-ipus\":\"8\"}}}");
	ok(WITHIN(1000, is("b", PARTITION_STATE_CREATING) || is("b", PARTITION_STATE_ACTIVE)),
	   "eight, at once");
	edit_namespace("team-a",
		       "{\"metadata\":{\"annotations\":{\"graphcore.ai/max-ipus\":\"0\"}}}");
	ok(WITHIN(5000, is("b", PARTITION_STATE_ACTIVE)) && is("a", PARTITION_STATE_ACTIVE),
	   "nothing is taken away");
	ask_as("c", "team-a", 1, 0, 0);
	ok(WITHIN(5000, is_because("c", PARTITION_STATE_WAITING, PARTITION_WHY_QUOTA)), "no more");
	end();
}

static void test_namespaces_forbidden(void)
{
	static const struct partition_rules rules = {.fallback = {4, -1, -1}};

	row_begin("Namespaces can't be read");
	site = &rules;
	rig_begin(16);
	annotate("team-a", "64");
	inject_api("{\"resource\":\"namespaces\",\"verb\":\"list\",\"kind\":\"status\","
		   "\"status\":403,\"count\":0}");
	process_begin(true);
	ask_as("a", "team-a", 4, 0, 0);
	ask_as("b", "team-a", 4, 0, 0);
	ok(WITHIN(9000, is("a", PARTITION_STATE_ACTIVE)), "the configuration holds alone");
	ok(WITHIN(5000, is_because("b", PARTITION_STATE_WAITING, PARTITION_WHY_QUOTA)),
	   "and it does hold");
	end();
	site = NULL;
}

static void test_job_of_many(void)
{
	static const struct partition_rules rules = {.fallback = {-1, 8, -1}};
	struct partition_ask ask;

	row_begin("one job's instances count together");
	site = &rules;
	begin();
	for (uint32_t i = 0; i < 3; i++) {
		ask = ask_of("u", i, 4);
		partition_ensure(parts, &ask);
	}
	ok(WITHIN(5000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_POLICY)),
	   "twelve are more than eight");
	partition_release(parts, "u", 2);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "eight aren't");
	end();
	site = NULL;
}

/* ---- words ---- */

static void test_words(void)
{
	char uid[16];
	unsigned moved = 0;

	row_begin("who is told of a new place");
	begin();
	want("full", 64);
	ok(WITHIN(5000, is("full", PARTITION_STATE_ACTIVE)), "full");
	for (unsigned i = 0; i < 20; i++) {
		snprintf(uid, sizeof(uid), "w-%02u", i);
		want(uid, 64);
	}
	ok(WITHIN(5000, has_message("w-19", "place 20 in the queue")), "twenty wait");
	is_int(as_of("w-19"), 0, "its words are as of now");
	partition_release_all(parts, "w-00");
	ok(WITHIN(1000, has_message("w-01", "place 1 in the queue")), "the first has gone");
	for (unsigned i = 1; i < 20; i++) {
		CLEANUP_FREE char *place = xasprintf("place %u in the queue", i);

		snprintf(uid, sizeof(uid), "w-%02u", i);
		moved += has_message(uid, place);
		is_uint(seen(uid).position, i, "the status has the place of %s", uid);
	}
	is_uint(moved, 10, "the first ten are told at once");
	is_int(as_of("w-01"), 0, "as of now");
	ok(as_of("w-19") > 0 && as_of("w-19") < clock_wall_ms(), "of the last, others wait");
	ok(WITHIN(65000, has_message("w-19", "place 19 in the queue")), "the rest within a minute");
	is_int(as_of("w-19"), 0, "as of now");
	end();
}

static void two_controllers(struct vipu_sim *other, struct vipu_address_list lists[2],
			    struct vipu_fleet_entry entries[2])
{
	for (unsigned i = 0; i < 2; i++) {
		CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u",
						    vipu_sim_port(i == 0 ? sim : other));

		vipu_address_parse(str_of(text), &lists[i]);
		entries[i].address = &lists[i].items[0];
	}
	vipu_fleet_configure(fleet, entries, 2);
}

static void end_two(struct vipu_sim *other, struct vipu_address_list lists[2])
{
	partitions_free(parts);
	vipu_fleet_free(fleet);
	vipu_sim_free(other);
	process_begin(true);
	for (unsigned i = 0; i < 2; i++)
		vipu_address_list_done(&lists[i]);
	end();
}

/* What one that doesn't answer has, it has said; and nobody has said more of it. */
static void test_too_large_while_away(void)
{
	struct vipu_sim_config small = {.agents = 2, .create_ms = 10};
	struct vipu_address_list lists[2];
	struct vipu_fleet_entry entries[2] = {{0}};
	struct vipu_sim *other;
	struct err err = ERR_INIT;

	row_begin("too large, while one is away");
	begin();
	if (vipu_sim_new(net, &small, &other, &err) < 0)
		bail_out(err.msg);
	two_controllers(other, lists, entries);
	want_run("u", 128, 1);
	ok(WITHIN(5000, has_message("u", "the largest V-IPU controller has 64")), "both answer");
	vipu_sim_go_down(sim);
	ok(WITHIN(60000, vipu_fleet_at(fleet, 0)->reach == VIPU_REACH_NO), "one is away");
	turns(500, 10);
	ok(has_message("u", "the largest V-IPU controller has 64"), "it fits on none: %s",
	   seen("u").message);
	end_two(other, lists);
}

/* Whoever moves away from a controller that is drained gives back, and asks again. */
static void test_drain(void)
{
	struct vipu_sim_config small = {.agents = 2, .create_ms = 10};
	struct vipu_address_list lists[2];
	struct vipu_fleet_entry entries[2] = {{0}};
	struct vipu_sim *other;
	struct err err = ERR_INIT;

	row_begin("drained");
	begin();
	if (vipu_sim_new(net, &small, &other, &err) < 0)
		bail_out(err.msg);
	two_controllers(other, lists, entries);
	want_run("u", 8, 1);
	want_run("v", 8, 1);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE) && is("v", PARTITION_STATE_ACTIVE)),
	   "active, both on the first controller");
	is_uint(vipu_sim_len(sim), 2, "which is the first of the list");
	ok(!seen("u").draining, "it isn't drained");
	entries[0].draining = true;
	vipu_fleet_configure(fleet, entries, 2);
	ok(WITHIN(2000, seen("u").draining && seen("v").draining), "they're told that it is now");
	turns(200, 10);
	ok(is("u", PARTITION_STATE_ACTIVE) && is("v", PARTITION_STATE_ACTIVE), "and stay");
	partition_release(parts, "u", 0);
	want_run("u", 8, 2);
	ok(WITHIN(9000, is_for("u", 2)), "one moves");
	is_str(seen("u").controller, lists[1].items[0].name, "to the other controller");
	ok(!seen("u").draining, "which isn't drained");
	partition_release(parts, "v", 0);
	want_run("v", 8, 2);
	ok(WITHIN(9000, has_message("v", "0 of 8 are free") && vipu_sim_len(sim) == 0),
	   "the next waits, and the first controller is empty");
	ok(has_message("v", "is being drained") && has_message("v", lists[0].items[0].name),
	   "it's told of the IPUs that it can't have: %s", seen("v").message);
	entries[1].cordoned = true;
	vipu_fleet_configure(fleet, entries, 2);
	ok(WITHIN(70000, has_message("v", "takes new partitions")), "nobody takes it");
	ok(has_message("v", "and 1 more are cordoned or drained"), "how many: %s",
	   seen("v").message);
	end_two(other, lists);
}

static void test_cordon(void)
{
	struct vipu_address_list list;
	CLEANUP_FREE char *text = NULL;
	struct vipu_fleet_entry entry;

	row_begin("all are cordoned");
	begin();
	text = xasprintf("127.0.0.1:%u:pod=a", vipu_sim_port(sim));
	vipu_address_parse(str_of(text), &list);
	entry = (struct vipu_fleet_entry){.address = &list.items[0], .cordoned = true};
	vipu_fleet_configure(fleet, &entry, 1);
	want("u", 4);
	ok(WITHIN(5000, has_message("u", "is cordoned")), "is said");
	ok(has_message("u", list.items[0].name), "which one");
	entry.cordoned = false;
	vipu_fleet_configure(fleet, &entry, 1);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "not any more");
	vipu_address_list_done(&list);
	end();
}

static void on_pass(void *arg, const char *name)
{
	unsigned *n = arg;

	*n += name != NULL;
}

static void test_no_node(void)
{
	CLEANUP_FREE char *name = NULL;
	struct vipu_fleet_watch watch;
	unsigned changes = 0;

	row_begin("no node of the only controller is ready");
	begin();
	name = xasprintf("127.0.0.1:%u", vipu_sim_port(sim));
	want("had", 4);
	ok(WITHIN(5000, is("had", PARTITION_STATE_ACTIVE)), "one has its partition already");
	vipu_fleet_set_no_node(fleet, name, true);
	want("u", 4);
	ok(WITHIN(5000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_NO_NODE)),
	   "another one waits");
	ok(has_message("u", name) && has_message("u", "describe node -l pod=a"),
	   "and is told which nodes: %s", seen("u").message);
	ok(!WITHIN(60000, vipu_sim_len(sim) != 1 || !is("had", PARTITION_STATE_ACTIVE)),
	   "what there is stays, nothing is made");
	is_uint(partitions_count_fits(parts, 4), 0, "nor offered");
	is_int(n_waits(), 1, "it's written down");
	want_run("had", 4, 1);
	ok(WITHIN(9000, is_for("had", 1)), "what is there goes on, for another run too");
	process_kill();
	process_begin(true);
	vipu_fleet_set_no_node(fleet, name, true);
	ok(WITHIN(9000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_NO_NODE)),
	   "another process goes on with it");
	vipu_fleet_set_no_node(fleet, name, false);
	ok(WITHIN(1000, is("u", PARTITION_STATE_ACTIVE)), "a node is ready: at once");
	vipu_fleet_watch_start(fleet, &watch, on_pass, &changes);
	turns(20, 10);
	changes = 0;
	vipu_fleet_set_no_node(fleet, name, false);
	vipu_fleet_set_no_node(fleet, "10.9.9.9:8090", true);
	turns(5, 1);
	is_uint(changes, 0, "the same again is no news, nor is one that isn't there");
	vipu_fleet_watch_stop(&watch);
	end();
}

static void test_nodes_unknown(void)
{
	struct partitions_config config = {.ns = NS,
					   .tracker_name = TRACKER,
					   .times = partition_times_default,
					   .nodes_pending = true};

	row_begin("nodes haven't been read yet");
	rig_begin(16);
	fleet = vipu_fleet_new(net, NULL);
	configure(true);
	parts = partitions_new(loop, kube, fleet, &config, on_synced, on_change, NULL);
	want("u", 4);
	ok(!WITHIN(20000, !is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_STARTING) &&
				  !is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_NONE)),
	   "nothing is made");
	ok(has_message("u", "the nodes"), "because of them: %s", seen("u").message);
	partitions_nodes_known(parts);
	ok(WITHIN(1000, is("u", PARTITION_STATE_ACTIVE)), "now they have");
	end();
}

/* ---- many ---- */

static int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void test_many(void)
{
	int64_t longest = 0, pass;
	const unsigned n = 3000;
	char uid[16];

	row_begin("thousands wait");
	begin();
	guarded = false; /* it looks at every object in every turn */
	want("full", 64);
	ok(WITHIN(5000, is("full", PARTITION_STATE_ACTIVE)), "full");
	for (unsigned i = 0; i < n; i++) {
		snprintf(uid, sizeof(uid), "w-%04u", i);
		ask_as(uid, "default", 1U << (i % 7), (int32_t)(i % 3), 0);
	}
	for (unsigned i = 0; i < 200; i++) {
		pass = cpu_us();
		turn(0);
		pass = cpu_us() - pass;
		longest = pass > longest ? pass : longest;
	}
	snprintf(uid, sizeof(uid), "w-%04u", n - 1);
	ok(WITHIN(20000, seen(uid).message[0]), "the last one has been told");
	is_uint(partitions_waiting(parts), n, "all wait");
	pass = cpu_us();
	for (unsigned i = 0; i < 10; i++) {
		ask_as("w-0001", "default", 2, (int32_t)(i % 2), 0); /* the queue is put in order */
		turn(0);
	}
	pass = (cpu_us() - pass) / 10;
	note("%u wait: a turn with a pass takes %" PRId64
	     " us, the longest while they come %" PRId64 " us (processor time)",
	     n, pass, longest);
	ok(longest < 500000 && pass < 500000, "no turn is long");
	end();
}

/* ---- speed ---- */

#define PODS 16

static unsigned count_active(unsigned n)
{
	unsigned active = 0;
	char uid[16];

	for (unsigned i = 0; i < n; i++) {
		snprintf(uid, sizeof(uid), "p-%04u", i);
		active += is(uid, PARTITION_STATE_ACTIVE);
	}
	return active;
}

/* The rig's controller and fifteen more. */
static void configure_pods(struct vipu_sim *more[PODS])
{
	struct vipu_sim_config config = {.agents = 16, .create_ms = 10};
	struct vipu_fleet_entry entries[PODS];
	struct vipu_address_list lists[PODS];
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < PODS; i++) {
		CLEANUP_FREE char *text = NULL;

		if (i > 0 && vipu_sim_new(net, &config, &more[i], &err) < 0)
			bail_out(err.msg);
		text = xasprintf("127.0.0.1:%u", vipu_sim_port(i ? more[i] : sim));
		vipu_address_parse(str_of(text), &lists[i]);
		entries[i] = (struct vipu_fleet_entry){.address = &lists[i].items[0]};
	}
	vipu_fleet_configure(fleet, entries, PODS);
	for (unsigned i = 0; i < PODS; i++)
		vipu_address_list_done(&lists[i]);
}

static int compare_us(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* From the ask to the entry that is to be recorded, all of it: gathering, deciding, writing down.
 */
static void test_speed(void)
{
	struct vipu_sim *more[PODS] = {NULL};
	const unsigned n = 1000;
	int64_t us[20];
	char uid[16];

	row_begin("a thousand partitions on sixteen controllers");
	begin();
	guarded = false;
	configure_pods(more);
	for (unsigned i = 0; i < n; i++) {
		snprintf(uid, sizeof(uid), "p-%04u", i);
		ask_as(uid, "default", 1, 0, 3600000);
	}
	ok(WITHIN(60000, count_active(n) == n), "all are active");
	WITHIN(1000, false);
	vipu_fleet_refresh(fleet, NULL);
	WITHIN(100, false);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(uid, sizeof(uid), "q-%04u", i);
		us[i] = cpu_us();
		ask_as(uid, "default", 1, 0, 0);
		while (!seen(uid).id)
			loop_turn(loop, 0);
		us[i] = cpu_us() - us[i];
	}
	qsort(us, 20, sizeof(us[0]), compare_us);
	note("from an ask to its entry: %" PRId64 " us (median of 20; %" PRId64 " to %" PRId64
	     ", processor time)",
	     us[10], us[0], us[19]);
	ok(us[10] < 20000, "quick");
	for (unsigned i = 1; i < PODS; i++)
		vipu_sim_free(more[i]);
	end();
}

static void test_follower(void)
{
	struct partitions_config config = {.ns = NS,
					   .tracker_name = TRACKER,
					   .times = partition_times_default,
					   .follow = true};
	struct partitions *leader;
	char name[64];

	row_begin("a follower sees the same");
	begin();
	snprintf(name, sizeof(name), "127.0.0.1:%u", vipu_sim_port(sim));
	want("half", 32);
	ok(WITHIN(5000, is("half", PARTITION_STATE_ACTIVE)), "half of it is in use");
	want("large", 64);
	ask_as("urgent", "default", 64, 5, 0);
	ok(WITHIN(5000, has_message("large", "place 2")), "two wait");
	leader = parts;
	parts = partitions_new(loop, kube, fleet, &config, on_synced, on_change, NULL);
	ok(WITHIN(5000, partitions_waiting(parts) == 2), "it reads of both");
	is_str(in_queue(), "1:urgent 2:large", "in their order");
	WITHIN(100, false);
	is_uint(partitions_reserved(parts, name), 32, "what is kept");
	is_uint(partitions_count_fits(parts, 4), 0, "what could be had");
	is_uint(vipu_sim_created(sim), 1, "and does nothing");
	partitions_free(parts);
	parts = leader;
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(1);
	test_order();
	test_figures();
	test_reservation();
	test_by_hand();
	test_several_by_hand();
	test_wide();
	test_quota();
	test_deadlines();
	test_annotation_changes();
	test_namespaces_forbidden();
	test_job_of_many();
	test_words();
	test_cordon();
	test_no_node();
	test_nodes_unknown();
	test_too_large_while_away();
	test_drain();
	test_many();
	test_speed();
	test_follower();
	return done_testing();
}
