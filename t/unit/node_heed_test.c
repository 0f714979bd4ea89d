/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Nodes' conditions decide for the partition layer: the tables of doc/design/head-node.md,
 * a row for each line; then the deeds against a simulated API server.
 */
#include "partition_rig.h"

#include "node/heed.h"
#include "node/publish.h"
#include "vipu/fleet.h"

#define MIN INT64_C(60000)
#define NOW (1000 * MIN) /* of both clocks, in the tables */

/* ---- the tables ---- */

/* A Node: its condition. */
#define NONE {0}
#define NODE(is, by_node_min, by_us_min)                                                           \
	{.known = true,                                                                            \
	 .status = (is),                                                                           \
	 .heartbeat_ms = NOW - (by_node_min) * MIN,                                                \
	 .seen_ms = NOW - (by_us_min) * MIN}
#define MOST 3

static const struct {
	const char *name;
	bool closes;
	size_t n;
	struct node_fabric nodes[MOST];
} rows[] = {
	{"no Node has the label", false, 0, {NONE}},
	{"without the condition", false, 1, {NONE}},
	{"True", false, 1, {NODE(FABRIC_TRUE, 1, 1)}},
	{"Unknown", false, 1, {NODE(FABRIC_UNKNOWN, 1, 1)}},
	{"False", true, 1, {NODE(FABRIC_FALSE, 1, 1)}},
	{"False, written now", true, 1, {NODE(FABRIC_FALSE, 0, 0)}},
	{"False, 14 minutes old", true, 1, {NODE(FABRIC_FALSE, 14, 14)}},
	{"False, 15 minutes old", false, 1, {NODE(FABRIC_FALSE, 15, 15)}},
	{"… by the Node's clock, and new here", false, 1, {NODE(FABRIC_FALSE, 15, 0)}},
	{"… by what was seen of it, from a clock that is ahead",
	 false,
	 1,
	 {NODE(FABRIC_FALSE, -600, 15)}},
	{"a clock that is ahead, and the heart beats", true, 1, {NODE(FABRIC_FALSE, -600, 4)}},
	{"False, without a heartbeat", false, 1, {{.known = true, .status = FABRIC_FALSE}}},
	{"all of two", true, 2, {NODE(FABRIC_FALSE, 1, 1), NODE(FABRIC_FALSE, 4, 4)}},
	{"one of two, the other True",
	 false,
	 2,
	 {NODE(FABRIC_FALSE, 1, 1), NODE(FABRIC_TRUE, 1, 1)}},
	{"… or Unknown", false, 2, {NODE(FABRIC_UNKNOWN, 1, 1), NODE(FABRIC_FALSE, 1, 1)}},
	{"… or without the condition", false, 2, {NODE(FABRIC_FALSE, 1, 1), NONE}},
	{"… or old", false, 2, {NODE(FABRIC_FALSE, 1, 1), NODE(FABRIC_FALSE, 16, 16)}},
	{"two of three",
	 false,
	 3,
	 {NODE(FABRIC_FALSE, 1, 1), NODE(FABRIC_FALSE, 1, 1), NODE(FABRIC_TRUE, 1, 1)}},
};

static void test_closes(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned not_ready = 0;

		row_begin("%s", rows[i].name);
		for (size_t k = 0; k < rows[i].n; k++)
			not_ready += heed_is_not_ready(&rows[i].nodes[k], NOW, NOW);
		ok(heed_closes((unsigned)rows[i].n, not_ready) == rows[i].closes,
		   rows[i].closes ? "no new partitions" : "new partitions");
		row_end();
	}
}

static void test_left(void)
{
	struct node_fabric f = NODE(FABRIC_FALSE, 3, 2);

	is_int(heed_left_ms(&f, NOW, NOW), 12 * MIN, "the older of the two clocks counts");
	f.heartbeat_ms += 10 * MIN;
	is_int(heed_left_ms(&f, NOW, NOW), 13 * MIN, "whichever it is");
}

static const struct {
	const char *name;
	bool silent;
	struct node_fabric node;
} silences[] = {
	{"without the condition", false, NONE},
	{"True, and heard of", false, NODE(FABRIC_TRUE, 14, 14)},
	{"True, and silent", true, NODE(FABRIC_TRUE, 15, 15)},
	{"False, and silent", true, NODE(FABRIC_FALSE, 15, 15)},
	{"Unknown, and silent", false, NODE(FABRIC_UNKNOWN, 15, 15)},
	{"old by its own clock, and not looked at for so long", false, NODE(FABRIC_TRUE, 900, 1)},
	{"new by its own clock, which is ahead, and silent", true, NODE(FABRIC_TRUE, -600, 15)},
};

static void test_silent(void)
{
	for (size_t i = 0; i < sizeof(silences) / sizeof(silences[0]); i++) {
		row_begin("%s", silences[i].name);
		ok(heed_is_silent(&silences[i].node, 15 * MIN, NOW) == silences[i].silent,
		   silences[i].silent ? "turns Unknown" : "stays as it is");
		row_end();
	}
}

/* ---- the process ---- */

static struct vipu_fleet *fleet;
static struct heed *heed;
static bool leads, follows;
static unsigned known;
static int64_t silent_ms;

static bool may_act(void *arg)
{
	(void)arg;
	return leads;
}

static void on_known(void *arg)
{
	(void)arg;
	known++;
}

/* The second controller has no label, or another one. */
static void configure(const char *first, const char *second)
{
	CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u%s,127.0.0.1:1%s", vipu_sim_port(sim),
					    first, second);
	struct vipu_fleet_entry entries[2] = {{0}};
	struct vipu_address_list list;

	vipu_address_parse(str_of(text), &list);
	for (size_t i = 0; i < 2; i++)
		entries[i].address = &list.items[i];
	vipu_fleet_configure(fleet, entries, 2);
	vipu_address_list_done(&list);
}

static void process_begin(bool controllers)
{
	const struct heed_opts opts = {
		.loop = loop,
		.kube = kube,
		.fleet = fleet,
		.controllers = controllers,
		.silent_ms = silent_ms,
		.leads = !follows,
		.may_act = may_act,
		.on_known = on_known,
	};

	known = 0;
	heed = heed_new(&opts);
}

static void process_end(void)
{
	heed_free(heed);
	heed = NULL;
}

static void begin(const char *first, const char *second)
{
	rig_begin(16);
	leads = true;
	fleet = vipu_fleet_new(net, NULL);
	configure(first, second);
	process_begin(true);
}

static void end(void)
{
	process_end();
	vipu_fleet_free(fleet);
	rig_end();
	silent_ms = 0;
	follows = false;
	row_end();
}

static bool closed(size_t i)
{
	return vipu_fleet_at(fleet, i)->no_node;
}

/* ---- Nodes ---- */

static const struct sim_resource *node_resource(void)
{
	return sim_resource_find(STR(""), STR("nodes"));
}

static const struct json *node_of(const char *name)
{
	const struct sim_object *o = sim_objects_get(objects, node_resource(), STR_NULL,
						     str_of(name));

	return o ? sim_object_json(o) : NULL;
}

static struct publish_condition condition_of(const char *name)
{
	struct publish_condition c;

	publish_condition_decode(node_of(name), &c);
	return c;
}

static bool is_status(const char *name, enum fabric_status status)
{
	struct publish_condition c = condition_of(name);
	bool is = c.known && c.status == status;

	publish_condition_done(&c);
	return is;
}

static void say(const char *name, const char *status)
{
	char now[CLOCK_RFC3339_SIZE];
	CLEANUP_FREE char *patch = NULL;
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root;

	clock_format(clock_wall_ms(), now);
	patch = xasprintf(
		"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":"
		"\"IPUFabricReady\",\"status\":\"%s\",\"reason\":\"Said\",\"message\":\"so\","
		"\"lastHeartbeatTime\":\"%s\",\"lastTransitionTime\":\"%s\"}]}}",
		status, now, now);
	if (!node_of(name) || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to patch");
	root = jmut_merge_patch(doc, jmut_copy(doc, node_of(name)), json_root(p));
	jmut_set_root(doc, root);
	sim_objects_put(objects, node_resource(), doc, root);
}

static void make_node(const char *name, const char *labels, const char *status)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\","
		"\"labels\":{%s}},\"spec\":{\"taints\":[{\"key\":\"graphcore.ai/fabric-not-ready\","
		"\"effect\":\"NoSchedule\"}]}}",
		name, labels);

	make_object("nodes", json);
	if (status)
		say(name, status);
}

static int64_t lists(void)
{
	return api_calls("list nodes");
}

static void minutes(unsigned n)
{
	turns(120 * n, 500);
}

/* ---- the deeds ---- */

static void test_follows(void)
{
	row_begin("a controller is closed and opened");
	begin(":pod=a", "");
	make_node("one", "\"pod\":\"a\",\"x\":\"y\"", "False");
	make_node("other", "\"pod\":\"b\"", "True");
	ok(WITHIN(5000, known == 1), "what Nodes say is known");
	ok(closed(0), "its only Node is False");
	ok(!closed(1), "who has no label is for any node");
	say("one", "True");
	ok(WITHIN(1000, !closed(0)), "True: at once");
	say("one", "False");
	ok(WITHIN(1000, closed(0)), "False again");
	make_node("two", "\"pod\":\"a\"", NULL);
	ok(WITHIN(1000, !closed(0)), "another Node, of which nobody knows");
	say("two", "False");
	ok(WITHIN(1000, closed(0)), "which is False too");
	say("two", "Unknown");
	ok(WITHIN(1000, !closed(0)), "Unknown closes nothing");
	say("two", "False");
	ok(WITHIN(1000, closed(0)), "False");
	configure(":pod=b", ":pod=a");
	ok(WITHIN(1000, !closed(0) && closed(1)), "other labels: other Nodes");
	configure(":pod=none", "");
	ok(WITHIN(1000, !closed(0) && !closed(1)), "a label that no Node has closes nothing");
	configure(":pod=a", "");
	ok(WITHIN(1000, closed(0)), "back");
	minutes(10);
	ok(closed(0), "after ten minutes");
	minutes(8);
	ok(!closed(0), "the heart has stopped for more than 15 minutes: it closes nothing");
	say("one", "False");
	say("two", "False");
	ok(WITHIN(1000, closed(0)), "it beats again");
	is_uint(known, 1, "that it's known is told once");
	process_end();
	ok(!closed(0), "who leads no more takes it back");
	process_begin(true);
	ok(WITHIN(5000, known == 1 && closed(0)), "the next one finds the same");
	is_int(api_calls("patch nodes/status"), 0, "nothing was written");
	end();
}

static void test_off(void)
{
	row_begin("nobody asks for it");
	begin(":pod=a", "");
	process_end();
	process_begin(false);
	make_node("one", "\"pod\":\"a\"", "False");
	ok(WITHIN(5000, known == 1), "nothing is waited for");
	turns(50, 100);
	ok(!closed(0), "no controller is closed");
	is_int(lists(), 0, "nor are Nodes read");
	process_end();
	configure("", "");
	process_begin(true);
	ok(WITHIN(5000, known == 1), "no label: nothing is waited for");
	turns(50, 100);
	is_int(lists(), 0, "nor read");
	configure(":pod=a", "");
	ok(WITHIN(5000, closed(0)), "until there is one");
	is_int(lists(), 1, "then they are");
	end();
}

static void test_not_leading(void)
{
	row_begin("the list isn't known, or another one leads");
	begin(":pod=a", "");
	leads = false;
	make_node("one", "\"pod\":\"a\"", "False");
	turns(100, 100);
	ok(known == 0 && !closed(0), "nothing is said");
	leads = true;
	ok(WITHIN(5000, known == 1 && closed(0)), "then it is");
	end();
}

static void test_unreadable(void)
{
	row_begin("Nodes can't be read");
	begin(":pod=a", "");
	make_node("one", "\"pod\":\"a\"", "False");
	process_end();
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"list\",\"resource\":\"nodes\","
		   "\"count\":3}");
	process_begin(true);
	ok(WITHIN(5000, known == 1), "it goes on without");
	ok(!closed(0), "and closes nothing");
	ok(WITHIN(120000, closed(0)), "they can: they count");
	is_uint(known, 1, "said once");
	end();
}

/* ---- silence ---- */

static void test_turns_unknown(void)
{
	struct publish_condition before, c;

	row_begin("a role node falls silent");
	silent_ms = 15 * MIN;
	begin(":pod=a", "");
	make_node("one", "\"pod\":\"a\"", "True");
	make_node("free", "", "False");
	make_node("plain", "", NULL);
	minutes(10);
	before = condition_of("one");
	say("free", "False");
	ok(is_status("one", FABRIC_TRUE), "after ten minutes it's as it was");
	ok(WITHIN(6 * MIN, is_status("one", FABRIC_UNKNOWN)), "after fifteen it's Unknown");
	c = condition_of("one");
	is_str(c.reason, "NodeRoleSilent", "the reason");
	ok(strstr(c.message, "hasn't been heard of for 90") != NULL, "says: %s", c.message);
	ok(c.heartbeat_ms == before.heartbeat_ms, "the heartbeat stays as it was");
	ok(c.transition_ms > before.transition_ms, "it turned now");
	ok(json_len(json_at(node_of("one"), "status", "conditions", NULL)) == 2 &&
		   json_len(json_at(node_of("one"), "spec", "taints", NULL)) == 1,
	   "other conditions and the taint stay");
	ok(is_status("free", FABRIC_FALSE), "one that was heard of isn't touched");
	ok(json_len(json_at(node_of("plain"), "status", "conditions", NULL)) == 0,
	   "nor one that says nothing");
	minutes(2);
	is_int(api_calls("patch nodes/status"), 1, "one write");
	ok(WITHIN(10 * MIN, is_status("free", FABRIC_UNKNOWN)),
	   "whatever labels it has, and whether or not it was True");
	minutes(30);
	is_int(api_calls("patch nodes/status"), 2, "and no more");
	say("one", "True");
	ok(WITHIN(1000, is_status("one", FABRIC_TRUE)), "it's back, and overwrites");
	minutes(14);
	ok(is_status("one", FABRIC_TRUE), "which counts anew");
	ok(WITHIN(2 * MIN, is_status("one", FABRIC_UNKNOWN)), "until it's silent again");
	publish_condition_done(&before);
	publish_condition_done(&c);
	end();
}

static void test_only_reads(void)
{
	row_begin("who follows only reads");
	silent_ms = 5 * MIN;
	follows = true;
	begin(":pod=a", "");
	make_node("one", "\"pod\":\"a\"", "False");
	ok(WITHIN(5000, known == 1 && closed(0)), "it knows what the one who leads knows");
	minutes(12);
	ok(is_status("one", FABRIC_FALSE), "a role node that is silent is left to that one");
	is_int(api_calls("patch nodes/status"), 0, "nothing is written");
	say("one", "True");
	ok(WITHIN(1000, !closed(0)), "it hears what changes");
	end();
}

/* Of n0 to n24. */
static int unknown(void)
{
	int n = 0;

	for (unsigned i = 0; i < 25; i++) {
		CLEANUP_FREE char *name = xasprintf("n%u", i);

		n += is_status(name, FABRIC_UNKNOWN);
	}
	return n;
}

static void test_refused(void)
{
	row_begin("the write is refused");
	silent_ms = 5 * MIN;
	begin("", "");
	for (unsigned i = 0; i < 25; i++) {
		CLEANUP_FREE char *name = xasprintf("n%u", i);

		make_node(name, "", "True");
	}
	turns(40, 100);
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"patch\",\"resource\":\"nodes\","
		   "\"count\":10}");
	minutes(6);
	is_int(unknown(), 0, "none is turned");
	is_int(api_calls("patch nodes/status"), 10, "ten were tried");
	ok(WITHIN(90000, unknown() == 25), "a minute later all are");
	is_int(api_calls("patch nodes/status"), 35, "a write each");
	end();
}

static void test_refused_always(void)
{
	row_begin("the write is refused, and refused again");
	silent_ms = 5 * MIN;
	begin("", "");
	for (unsigned i = 0; i < 25; i++) {
		CLEANUP_FREE char *name = xasprintf("n%u", i);

		make_node(name, "", "True");
	}
	turns(40, 100);
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"patch\",\"resource\":\"nodes\","
		   "\"count\":20}");
	ok(WITHIN(10 * MIN, api_calls("patch nodes/status") == 20), "twice ten were tried");
	ok(WITHIN(2 * MIN, unknown() >= 5), "then the others have their turn");
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"patch\",\"resource\":\"nodes\","
		   "\"count\":0}");
	is_int(unknown(), 5, "the five of which none was tried yet");
	sim_api_clear_faults(api);
	ok(WITHIN(3 * MIN, unknown() == 25), "from the first one again, once it isn't");
	end();
}

int main(void)
{
	test_closes();
	test_left();
	test_silent();
	test_follows();
	test_off();
	test_not_leading();
	test_unreadable();
	test_turns_unknown();
	test_only_reads();
	test_refused();
	test_refused_always();
	return done_testing();
}
