/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The advertiser against a simulated API server and V-IPU controller: what Nodes show follows the
 * list of controllers, what is undone is done again ever more slowly, many Nodes are no storm, and
 * who doesn't lead writes nothing.
 */
#include "partition_rig.h"

#include "node/advertise.h"
#include "vipu/fleet.h"

#define MANY 200

static struct vipu_fleet *fleet;
static struct nodes *nodes;
static struct advertiser *advertiser;
static bool leads;
static unsigned again_ms; /* the scheduler asks */

/* ---- the process ---- */

static void on_nodes(void *arg, bool fabric_only)
{
	(void)arg, (void)fabric_only;
	advertiser_look(advertiser);
}

static bool may_act(void *arg)
{
	(void)arg;
	return leads;
}

static void configure(const char *label, bool cordoned)
{
	CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u%s%s", vipu_sim_port(sim),
					    label[0] ? ":" : "", label);
	struct vipu_address_list list;
	struct vipu_fleet_entry entry;

	vipu_address_parse(str_of(text), &list);
	entry = (struct vipu_fleet_entry){.address = &list.items[0], .cordoned = cordoned};
	vipu_fleet_configure(fleet, &entry, 1);
	vipu_address_list_done(&list);
}

/* The same controller, and before it in the list one that doesn't answer. */
static void configure_behind_another(const char *label, const char *own_label)
{
	CLEANUP_FREE char *text = xasprintf("127.0.0.1:1:%s,127.0.0.1:%u:%s", label,
					    vipu_sim_port(sim), own_label);
	struct vipu_fleet_entry entries[2] = {{0}};
	struct vipu_address_list list;

	vipu_address_parse(str_of(text), &list);
	for (size_t i = 0; i < 2; i++)
		entries[i].address = &list.items[i];
	vipu_fleet_configure(fleet, entries, 2);
	vipu_address_list_done(&list);
}

static void process_begin(enum advertise_mode mode)
{
	struct advertiser_opts opts = {
		.loop = loop, .kube = kube, .mode = mode, .may_act = may_act, .again_ms = again_ms};

	opts.fleet = fleet = vipu_fleet_new(net, NULL);
	opts.nodes = nodes = nodes_new(kube, fleet, on_nodes, NULL);
	configure("pod=a", false);
	advertiser = advertiser_new(&opts);
}

static void process_end(void)
{
	advertiser_free(advertiser);
	advertiser = NULL;
	nodes_free(nodes);
	vipu_fleet_free(fleet);
}

static void begin(enum advertise_mode mode)
{
	rig_begin(16);
	leads = true;
	process_begin(mode);
}

static void end(void)
{
	process_end();
	rig_end();
}

/* ---- Nodes ---- */

static const struct sim_resource *node_resource(void)
{
	return sim_resource_find(STR(""), STR("nodes"));
}

static void make_node(const char *name, const char *labels, const char *rest)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\","
		"\"labels\":{%s}}%s}",
		name, labels, rest);

	make_object("nodes", json);
}

static const struct json *node_at(const char *name, const char *group)
{
	const struct sim_object *o = sim_objects_get(objects, node_resource(), STR_NULL,
						     str_of(name));

	return json_at(o ? sim_object_json(o) : NULL, "status", group, "graphcore.ai/ipu", NULL);
}

/* -1: nothing. */
static int shows(const char *name)
{
	int64_t n = -1;

	if (node_at(name, "capacity") &&
	    str_to_int(json_str(node_at(name, "capacity")), 0, 100000, &n, NULL) < 0)
		n = -2;
	return (int)n;
}

static void patch_node(const char *name, const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct sim_object *o = sim_objects_get(objects, node_resource(), STR_NULL,
						     str_of(name));
	struct jmut *root;

	if (!o || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to patch");
	root = jmut_merge_patch(doc, jmut_copy(doc, sim_object_json(o)), json_root(p));
	jmut_set_root(doc, root);
	sim_objects_put(objects, node_resource(), doc, root);
}

static int64_t writes(void)
{
	return api_calls("patch nodes/status");
}

/* ---- the tests ---- */

static void test_follows(void)
{
	begin(ADVERTISE_WHOLE);
	make_node("one", "\"pod\":\"a\"", "");
	make_node("other", "\"pod\":\"b\"", "");
	make_node("theirs", "\"pod\":\"a\"",
		  ",\"status\":{\"capacity\":{\"graphcore.ai/ipu\":\"8\"}}");
	ok(WITHIN(20000, shows("one") == 64), "its controller's IPUs");
	is_int(shows("other"), -1, "nothing on a Node of nobody's");
	is_int(shows("theirs"), 8, "somebody else's figure is left alone");
	ok(node_at("one", "allocatable"), "allocatable too");
	is_int(writes(), 1, "one write");
	turns(200, 100);
	is_int(writes(), 1, "and no other while nothing changes");
	configure("pod=b", false);
	ok(WITHIN(20000, shows("one") == -1 && shows("other") == 64), "another label: other Nodes");
	ok(!node_at("one", "allocatable"), "nothing is left of it");
	configure("pod=b", true);
	ok(WITHIN(20000, shows("other") == -1), "cordoned: taken away");
	configure("pod=b", false);
	ok(WITHIN(20000, shows("other") == 64), "and back");
	vipu_fleet_configure(fleet, NULL, 0);
	ok(WITHIN(20000, shows("other") == -1), "gone from the list: taken away");
	is_int(shows("theirs"), 8, "what is somebody else's stays");
	end();
}

static void test_undone(void)
{
	int64_t before;

	begin(ADVERTISE_WHOLE);
	make_node("one", "\"pod\":\"a\"", "");
	ok(WITHIN(20000, shows("one") == 64), "shown");
	turns(50, 100);
	patch_node("one", "{\"status\":{\"capacity\":{\"graphcore.ai/ipu\":\"0\"}}}");
	ok(WITHIN(20000, shows("one") == 64), "a kubelet that begins anew is made right");
	before = writes();
	for (unsigned i = 0; i < 600; i++) {
		if (shows("one") == 64)
			patch_node("one",
				   "{\"status\":{\"capacity\":{\"graphcore.ai/ipu\":\"0\"}}}");
		turn(1000);
	}
	ok(writes() - before >= 2 && writes() - before < 20,
	   "who undoes it all the time isn't fought: %" PRId64 " writes in ten minutes",
	   writes() - before);
	end();
}

static void test_unreachable(void)
{
	begin(ADVERTISE_WHOLE);
	make_node("one", "\"pod\":\"a\"", "");
	ok(WITHIN(20000, shows("one") == 64), "shown");
	vipu_sim_free(sim);
	sim = NULL;
	guarded = false;
	for (unsigned i = 0; i < 250; i++)
		turn(1000);
	is_int(shows("one"), 64, "a controller that doesn't answer for four minutes");
	for (unsigned i = 0; i < 150; i++)
		turn(1000);
	is_int(shows("one"), -1, "for more than five: taken away");
	end();
}

static void test_restart(void)
{
	begin(ADVERTISE_WHOLE);
	make_node("one", "\"pod\":\"a\"", "");
	ok(WITHIN(20000, shows("one") == 64), "shown");
	process_end();
	leads = false;
	process_begin(ADVERTISE_WHOLE);
	vipu_fleet_configure(fleet, NULL, 0);
	turns(200, 100);
	is_int(shows("one"), 64, "who mustn't act writes nothing");
	leads = true;
	ok(WITHIN(20000, shows("one") == -1),
	   "the next that leads takes away what an earlier wrote");
	end();
}

static void test_many(void)
{
	int64_t before, most = 0;
	unsigned done = 0;

	begin(ADVERTISE_SHARE);
	for (unsigned i = 0; i < MANY; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%03u", i);
		make_node(name, "\"pod\":\"a\"", "");
	}
	for (unsigned i = 0; i < 300 && done < 64; i++) {
		before = writes();
		for (unsigned k = 0; k < 10; k++)
			turn(100);
		if (writes() - before > most)
			most = writes() - before;
		done = 0;
		for (unsigned k = 0; k < MANY; k++) {
			char name[16];

			snprintf(name, sizeof(name), "n%03u", k);
			done += shows(name) == 1;
		}
	}
	is_int(done, 64, "64 IPUs are dealt out to 64 of 200 Nodes");
	is_int(shows("n064"), -1, "by name: the 65th has none");
	ok(most <= 55, "at most 50 Nodes a second: %" PRId64, most);
	is_int(writes(), 64, "each once");
	end();
}

static struct str news(const char *name)
{
	const struct sim_object *o = sim_objects_get(objects, node_resource(), STR_NULL,
						     str_of(name));

	return kube_annotation(o ? sim_object_json(o) : NULL, "graphcore.ai/ipus-freed");
}

static void test_news(void)
{
	int64_t before;

	again_ms = 35000;
	begin(ADVERTISE_OFF);
	make_node("one", "\"pod\":\"a\",\"x\":\"y\"", "");
	make_node("two", "\"pod\":\"a\"", "");
	make_node("other", "\"pod\":\"b\"", "");
	ok(WITHIN(20000, news("one").p) && shows("one") == -1,
	   "at the beginning a Node says that there's room, and shows nothing");
	process_end();
	before = writes();
	process_begin(ADVERTISE_OFF);
	ok(WITHIN(20000, writes() > before), "so does whoever leads next: IPUs may have come free");
	turns(1000, 100);
	before = writes();
	configure("pod=a", true);
	turns(50, 100);
	is_int(writes() - before, 0, "nothing when there's less room");
	configure("pod=a", false);
	ok(WITHIN(20000, writes() > before), "when there's more, it says so");
	ok(!news("two").p && !news("other").p, "one of those that reach it");
	before = writes();
	turns(300, 100);
	is_int(writes() - before, 0, "once");
	turns(100, 100);
	is_int(writes() - before, 1, "and once more, for other replicas");
	turns(1000, 100);
	is_int(writes() - before, 1, "and no more");
	for (unsigned i = 0; i < 40; i++) {
		configure("pod=a", i % 2 == 0);
		turns(3, 100);
	}
	ok(writes() - before > 3 && writes() - before < 10, "every 2 s at most: %" PRId64,
	   writes() - before);
	turns(1000, 100);
	for (unsigned i = 0; i < 4; i++) {
		configure("pod=a", i % 2 == 0);
		turns(4, 100);
	}
	before = writes();
	configure_behind_another("pod=b", "pod=a");
	turns(100, 100);
	ok(writes() > before && !news("other").p,
	   "a list in another order before it's told: still a Node of the same controller");
	end();
	again_ms = 0;
}

int main(void)
{
	test_follows();
	test_undone();
	test_unreachable();
	test_restart();
	test_news();
	test_many();
	return done_testing();
}
