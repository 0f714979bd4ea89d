/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of advertised IPUs: a row for each line of doc/design/advertising.md's tables, and
 * shares that add up.
 */
#include "node/advertise.h"

#include "core/str.h"
#include "tap.h"

#define NOW INT64_C(1000000)

/* ---- what of a controller counts ---- */

static const struct controller_row {
	const char *name;
	struct vipu_controller c;
	int64_t want;
} controller_rows[] = {
	{"answers",
	 {.configured = true, .reach = VIPU_REACH_YES, .capacity = {.total_ipus = 64}},
	 64},
	{"has no IPUs", {.configured = true, .reach = VIPU_REACH_YES}, 0},
	{"only held", {.reach = VIPU_REACH_YES, .capacity = {.total_ipus = 64}}, 0},
	{"cordoned",
	 {.configured = true,
	  .cordoned = true,
	  .reach = VIPU_REACH_YES,
	  .capacity = {.total_ipus = 64}},
	 0},
	{"doesn't answer for a while",
	 {.configured = true,
	  .reach = VIPU_REACH_NO,
	  .fresh_ms = 1,
	  .since_ms = NOW - ADVERTISE_UNREACHABLE_MS + 1,
	  .capacity = {.total_ipus = 64}},
	 64},
	{"doesn't answer for too long",
	 {.configured = true,
	  .reach = VIPU_REACH_NO,
	  .fresh_ms = 1,
	  .since_ms = NOW - ADVERTISE_UNREACHABLE_MS,
	  .capacity = {.total_ipus = 64}},
	 0},
	{"hasn't been asked to the end",
	 {.configured = true, .reach = VIPU_REACH_UNKNOWN, .since_ms = NOW - 1},
	 ADVERTISE_UNKNOWN},
	{"has never answered, for a while",
	 {.configured = true, .reach = VIPU_REACH_NO, .since_ms = NOW - 1},
	 ADVERTISE_UNKNOWN},
	{"has never answered, for too long",
	 {.configured = true, .reach = VIPU_REACH_NO, .since_ms = NOW - ADVERTISE_UNREACHABLE_MS},
	 0},
};

static void test_controllers(void)
{
	for (size_t i = 0; i < sizeof(controller_rows) / sizeof(controller_rows[0]); i++) {
		const struct controller_row *row = &controller_rows[i];

		is_int(advertise_ipus(&row->c, NOW), row->want, "%s", row->name);
	}
}

/* ---- one Node ---- */

#define A 1 /* controllers that it reaches */
#define B 2

static const int64_t totals[] = {64, 16};
static const int64_t one_unknown[] = {64, ADVERTISE_UNKNOWN};
static const int64_t none_left[] = {0, 0};

static const struct node_row {
	const char *name;
	const int64_t *ipus;
	uint64_t reach;
	int64_t shown, allocatable, noted;
	bool control_plane, deleting, on_control_plane, off;
	enum advertise_action action;
	int64_t want;
} node_rows[] = {
	{"new", totals, A, -1, -1, -1, .action = ADVERTISE_WRITE, .want = 64},
	{"two controllers: the sum", totals, A | B, -1, -1, -1, .action = ADVERTISE_WRITE,
	 .want = 80},
	{"as it should be", totals, A, 64, 64, 64, .action = ADVERTISE_LEAVE},
	{"the controller has grown", totals, A, 32, 32, 32, .action = ADVERTISE_WRITE, .want = 64},
	{"the kubelet began anew and wrote 0", totals, A, 0, 0, 64, .action = ADVERTISE_WRITE,
	 .want = 64},
	{"only capacity is there", totals, A, 64, -1, 64, .action = ADVERTISE_WRITE, .want = 64},
	{"the figure was taken away, our note stayed", totals, A, -1, -1, 64,
	 .action = ADVERTISE_WRITE, .want = 64},
	{"no controller's Node", totals, 0, -1, -1, -1, .action = ADVERTISE_LEAVE},
	{"no controller's any more", totals, 0, 64, 64, 64, .action = ADVERTISE_REMOVE},
	{"the note alone is left", totals, 0, -1, -1, 64, .action = ADVERTISE_REMOVE},
	{"its controllers have none to offer", none_left, A | B, 80, 80, 80,
	 .action = ADVERTISE_REMOVE},
	{"one isn't known yet", one_unknown, A | B, 80, 80, 80, .action = ADVERTISE_LEAVE},
	{"one isn't known yet, and nothing is shown", one_unknown, B, -1, -1, -1,
	 .action = ADVERTISE_LEAVE},
	{"another one isn't known yet", one_unknown, A, -1, -1, -1, .action = ADVERTISE_WRITE,
	 .want = 64},
	{"somebody else's", totals, A, 8, 8, -1, .action = ADVERTISE_FOREIGN},
	{"somebody else's, no controller's Node", totals, 0, 8, 8, -1, .action = ADVERTISE_LEAVE},
	{"in deletion", totals, A, -1, -1, -1, .deleting = true, .action = ADVERTISE_LEAVE},
	{"control plane", totals, A, -1, -1, -1, .control_plane = true, .action = ADVERTISE_LEAVE},
	{"control plane, by configuration", totals, A, -1, -1, -1, .control_plane = true,
	 .on_control_plane = true, .action = ADVERTISE_WRITE, .want = 64},
	{"control plane, not any more", totals, A, 64, 64, 64, .control_plane = true,
	 .action = ADVERTISE_REMOVE},
	{"nothing is to be advertised", totals, A, 64, 64, 64, .off = true,
	 .action = ADVERTISE_REMOVE},
};

static void test_nodes(void)
{
	for (size_t i = 0; i < sizeof(node_rows) / sizeof(node_rows[0]); i++) {
		const struct node_row *row = &node_rows[i];
		struct node_item item = {.shown = row->shown,
					 .allocatable = row->allocatable,
					 .noted = row->noted,
					 .control_plane = row->control_plane,
					 .deleting = row->deleting,
					 .reach = {{row->reach}}};
		struct advertise_node node = {"n", &item};
		struct advertise_decision got;

		advertise_plan(row->off ? ADVERTISE_OFF : ADVERTISE_WHOLE, row->on_control_plane,
			       row->ipus, 2, &node, 1, &got);
		is_int(got.action, row->action, "%s", row->name);
		is_int(got.ipus, row->want, "%s: IPUs", row->name);
	}
}

/* ---- shares ---- */

#define MANY 7

static void test_shares(void)
{
	struct node_item items[MANY] = {{0}};
	struct advertise_node nodes[MANY];
	struct advertise_decision got[MANY];
	int64_t sum = 0;

	for (size_t i = 0; i < MANY; i++) {
		items[i] = (struct node_item){.shown = -1, .allocatable = -1, .noted = -1};
		items[i].reach.bits[0] = A;
		nodes[i] = (struct advertise_node){"n", &items[i]};
	}
	advertise_plan(ADVERTISE_SHARE, false, totals, 2, nodes, MANY, got);
	for (size_t i = 0; i < MANY; i++)
		sum += got[i].ipus;
	is_int(sum, 64, "shares add up");
	is_int(got[0].ipus, 10, "the first has one of the rest");
	is_int(got[1].ipus, 9, "the others haven't");
	items[3].control_plane = true;
	items[4].deleting = true;
	items[5].reach.bits[0] = A | B;
	advertise_plan(ADVERTISE_SHARE, false, totals, 2, nodes, MANY, got);
	is_int(got[0].ipus, 13, "of five Nodes: the rest of 64");
	is_int(got[3].action, ADVERTISE_LEAVE, "none for the control plane");
	is_int(got[4].action, ADVERTISE_LEAVE, "none for one in deletion");
	is_int(got[5].ipus, 13 - 0 + 16, "a share of one and the whole of another");
	is_int(got[6].ipus, 12, "the last");
	advertise_plan(ADVERTISE_SHARE, false, (const int64_t[]){3, 0}, 2, nodes, MANY, got);
	is_int(got[6].action, ADVERTISE_LEAVE, "fewer IPUs than Nodes: nothing for the last");
	advertise_plan(ADVERTISE_SHARE, false, one_unknown, 2, nodes, MANY, got);
	is_int(got[5].action, ADVERTISE_LEAVE, "one unknown: it stays as it is");
	is_int(got[0].ipus, 13, "which is nothing to the others");
}

/* ---- Nodes as they come ---- */

static struct node_item *item_of(const char *json)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(json), &doc, &err) < 0)
		bail_out(err.msg);
	return node_item_decode(json_root(doc));
}

static void test_items(void)
{
	struct node_item *item = item_of(
		"{\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\",\"c/d\":\"\"},\"annotations\":{"
		"\"graphcore.ai/advertised-ipus\":\"16\"}},\"status\":{\"capacity\":{"
		"\"graphcore.ai/ipu\":\"16\",\"cpu\":\"4\"},\"allocatable\":{\"cpu\":\"4\"}}}");

	ok(item->n_labels == 2 && item->labels[0] != item->labels[1], "labels");
	ok(!item->fabric.known && !item->version[0], "nothing is said of a fabric");
	ok(item->shown == 16 && item->allocatable == -1 && item->noted == 16, "figures");
	ok(!item->control_plane && !item->deleting, "an ordinary one");
	node_item_free(item);
	item = item_of("{\"metadata\":{\"labels\":{\"node-role.kubernetes.io/control-plane\":\"\"},"
		       "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},\"status\":{\"capacity\":{"
		       "\"graphcore.ai/ipu\":\"1500m\"}}}");
	ok(item->control_plane && item->deleting, "control plane by its label, in deletion");
	ok(item->shown == -2 && item->noted == -1, "a figure that isn't a number of IPUs");
	node_item_free(item);
	item = item_of("{\"status\":{\"capacity\":{\"graphcore.ai/ipu\":\"2k\"},"
		       "\"allocatable\":{\"graphcore.ai/ipu\":\"1Ki\"}}}");
	ok(item->shown == 2000 && item->allocatable == 1024, "as the API server writes large ones");
	node_item_free(item);
	item = item_of("{\"spec\":{\"taints\":[{\"key\":\"x\"},{\"key\":"
		       "\"node-role.kubernetes.io/master\"}]}}");
	ok(item->control_plane, "by its taint");
	node_item_free(item);
}

int main(void)
{
	test_controllers();
	test_nodes();
	test_shares();
	test_items();
	return done_testing();
}
