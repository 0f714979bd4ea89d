/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of doc/design/annotated-pods.md, a row or more for each of its lines.
 */
#include "pod_plan_rig.h"

#include "pod/held.h"

#define G  .kind = BEHIND_GATE
#define O  .kind = OPENED, .opened_with = 1, .started = true
#define S  .kind = ON_ITS_OWN, .started = true
#define P1 .number = 1, .files_of = 1, .fetched = true

static const struct {
	const char *name;
	struct world w;
	const char *action;
	const char *event; /* NULL: none */
} rows[] = {
	{"ended, asks", {O, P1, .ended = true, .state = PARTITION_STATE_ACTIVE}, "release", NULL},
	{"ended while its partition waits",
	 {S, .ended = true, .state = PARTITION_STATE_WAITING},
	 "release",
	 NULL},
	{"ended, on its own",
	 {S, P1, .ended = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 NULL},
	{"ended, its partition has failed",
	 {O, P1, .ended = true, .state = PARTITION_STATE_FAILED},
	 "release",
	 NULL},
	{"ended, nothing held", {O, .ended = true}, "nothing", NULL},
	{"ended, on its way out",
	 {O, P1, .ended = true, .state = PARTITION_STATE_RELEASING},
	 "nothing",
	 NULL},
	{"ended, and in deletion",
	 {O, P1, .ended = true, .deleting = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 NULL},

	{"in deletion, gated",
	 {G, P1, .deleting = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 NULL},
	{"in deletion, gated, waiting",
	 {G, .deleting = true, .state = PARTITION_STATE_WAITING},
	 "release",
	 NULL},
	{"in deletion, without a node",
	 {.kind = OPENED, P1, .deleting = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 NULL},
	{"in deletion, stuck",
	 {O, P1, .deleting = true, .stuck = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 "NodeLost"},
	{"in deletion, stuck, on its own",
	 {S, P1, .deleting = true, .stuck = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 "NodeLost"},
	{"stuck, nothing held", {O, .deleting = true, .stuck = true}, "nothing", NULL},
	{"in deletion, its containers may run",
	 {O, P1, .deleting = true, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},

	{"on its own, active", {S, P1, .state = PARTITION_STATE_ACTIVE}, "nothing", NULL},
	{"on its own, nothing asked", {S}, "nothing", NULL},
	{"on its own, failed", {S, .state = PARTITION_STATE_FAILED}, "nothing", NULL},
	{"on its own, bad annotation", {S, .bad = true}, "nothing", NULL},

	{"bad annotation", {G, .bad = true}, "nothing", "InvalidAnnotation"},
	{"bad annotation, waiting",
	 {G, .bad = true, .state = PARTITION_STATE_WAITING},
	 "release",
	 "InvalidAnnotation"},
	{"bad annotation, active",
	 {G, P1, .bad = true, .state = PARTITION_STATE_ACTIVE},
	 "fence",
	 "InvalidAnnotation"},
	{"bad annotation, active, fenced",
	 {G, P1, .bad = true, .fenced = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 "InvalidAnnotation"},
	{"a job's", {G, .of_job = true}, "nothing", NULL},
	{"a copy", {G, .copy = true}, "nothing", "TokenTaken"},
	{"a copy that asks",
	 {G, .copy = true, .state = PARTITION_STATE_WAITING},
	 "nothing",
	 "TokenTaken"},
	{"behind other gates", {G, .others = true}, "nothing", "OtherGates"},
	{"behind other gates, waiting",
	 {G, .others = true, .state = PARTITION_STATE_WAITING},
	 "release",
	 "OtherGates"},
	{"held back", {G, .held_back = true}, "nothing", "PodRefused"},
	{"held back, active",
	 {G, P1, .held_back = true, .fenced = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 "PodRefused"},
	{"held back, active, not fenced",
	 {G, P1, .held_back = true, .state = PARTITION_STATE_ACTIVE},
	 "fence",
	 "PodRefused"},

	{"gated, none", {G}, "ensure", NULL},
	{"gated, being released", {G, .state = PARTITION_STATE_RELEASING}, "ensure", NULL},
	{"gated, waiting", {G, .state = PARTITION_STATE_WAITING}, "nothing", "WaitingForIPUs"},
	{"gated, waiting, otherwise",
	 {G, .otherwise = true, .state = PARTITION_STATE_WAITING},
	 "ensure",
	 "WaitingForIPUs"},
	{"gated, creating", {G, P1, .state = PARTITION_STATE_CREATING}, "nothing", NULL},
	{"gated, creating, otherwise",
	 {G, P1, .otherwise = true, .state = PARTITION_STATE_CREATING},
	 "ensure",
	 NULL},
	{"gated, resetting", {G, P1, .state = PARTITION_STATE_RESETTING}, "nothing", NULL},
	{"gated, resetting, otherwise",
	 {G, P1, .otherwise = true, .state = PARTITION_STATE_RESETTING},
	 "fence",
	 "AskedOtherwise"},
	{"gated, vanished",
	 {G, P1, .fenced = true, .state = PARTITION_STATE_FAILED},
	 "release",
	 "PartitionVanished"},
	{"gated, vanished, not fenced",
	 {G, P1, .state = PARTITION_STATE_FAILED},
	 "fence",
	 "PartitionVanished"},
	{"gated, in error",
	 {G, P1, .broken = true, .fenced = true, .state = PARTITION_STATE_FAILED},
	 "release",
	 "PartitionFailed"},
	{"gated, active, otherwise",
	 {G, P1, .otherwise = true, .fenced = true, .state = PARTITION_STATE_ACTIVE},
	 "ensure",
	 NULL},
	{"gated, active, otherwise, not fenced",
	 {G, P1, .otherwise = true, .state = PARTITION_STATE_ACTIVE},
	 "fence",
	 "AskedOtherwise"},
	{"gated, active, draining",
	 {G, P1, .draining = true, .fenced = true, .state = PARTITION_STATE_ACTIVE},
	 "release",
	 "ControllerDraining"},
	{"gated, active, draining, not fenced",
	 {G, P1, .draining = true, .state = PARTITION_STATE_ACTIVE},
	 "fence",
	 "ControllerDraining"},
	{"gated, active, picky",
	 {G, P1, .picky = true, .state = PARTITION_STATE_ACTIVE},
	 "hold-back",
	 "NodeSelectorConflict"},
	{"gated, active, files not fetched",
	 {G, .number = 1, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 "NoIPUoFConfig"},
	{"gated, active, by address, no ConfigMap",
	 {G, P1, .by_address = true, .state = PARTITION_STATE_ACTIVE},
	 "write-files",
	 NULL},
	{"gated, active, by address, its ConfigMap",
	 {G, P1, .by_address = true, .files = GOOD_FILES, .state = PARTITION_STATE_ACTIVE},
	 "open",
	 NULL},
	{"gated, active, somebody's ConfigMap",
	 {G, P1, .files = FOREIGN_FILES, .state = PARTITION_STATE_ACTIVE},
	 "hold-back",
	 "NameConflict"},
	{"gated, active, its ConfigMap in deletion",
	 {G, P1, .files = DYING_FILES, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},
	{"gated, active, no ConfigMap",
	 {G, P1, .state = PARTITION_STATE_ACTIVE},
	 "write-files",
	 NULL},
	{"gated, active, another content",
	 {G, P1, .files = OTHER_FILES, .state = PARTITION_STATE_ACTIVE},
	 "write-files",
	 NULL},
	{"gated, active, another partition's",
	 {G, .number = 2, .files_of = 1, .fetched = true, .files = GOOD_FILES,
	  .state = PARTITION_STATE_ACTIVE},
	 "write-files",
	 NULL},
	{"gated, active, all there",
	 {G, P1, .files = GOOD_FILES, .state = PARTITION_STATE_ACTIVE},
	 "open",
	 NULL},

	{"opened, none", {O}, "adopt", NULL},
	{"opened, none, adopted", {O, .adopted = true}, "nothing", NULL},
	{"opened, none, bad annotation", {O, .bad = true}, "nothing", NULL},
	{"opened, being released", {O, .state = PARTITION_STATE_RELEASING}, "nothing", NULL},
	{"opened, active",
	 {O, P1, .files = GOOD_FILES, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},
	{"opened, active, no ConfigMap",
	 {O, P1, .state = PARTITION_STATE_ACTIVE},
	 "write-files",
	 NULL},
	{"opened, active, another content",
	 {O, P1, .files = OTHER_FILES, .state = PARTITION_STATE_ACTIVE},
	 "write-files",
	 NULL},
	{"opened, active, somebody's ConfigMap",
	 {O, P1, .files = FOREIGN_FILES, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},
	{"opened, active, files not fetched",
	 {O, .number = 1, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},
	{"opened, another partition",
	 {O, .number = 2, .fetched = true, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},
	{"opened, asked otherwise",
	 {O, P1, .otherwise = true, .files = GOOD_FILES, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},
	{"opened, draining",
	 {O, P1, .draining = true, .files = GOOD_FILES, .state = PARTITION_STATE_ACTIVE},
	 "nothing",
	 NULL},
	{"opened, vanished",
	 {O, P1, .state = PARTITION_STATE_FAILED},
	 "nothing",
	 "PartitionVanished"},
	{"opened, in error",
	 {O, P1, .broken = true, .state = PARTITION_STATE_FAILED},
	 "nothing",
	 "PartitionFailed"},
	{"opened, resetting", {O, P1, .state = PARTITION_STATE_RESETTING}, "nothing", NULL},
};

static void test_rows(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pod_plan plan;
		struct sight s;

		row_begin("%s", rows[i].name);
		look(&rows[i].w, &s);
		pod_plan(&s.view, &plan);
		is_str(pod_action_name(plan.action), rows[i].action, "action");
		is_str(plan.event ? plan.event : "", rows[i].event ? rows[i].event : "", "event");
		ok(!plan.event || plan.message[0], "with words");
	}
	row_end();
}

/* What isn't a matter of one action. */
static void test_details(void)
{
	struct world w = {O, P1, .deleting = true, .state = PARTITION_STATE_ACTIVE};
	struct pod_plan plan;
	struct sight s;

	look(&w, &s);
	pod_plan(&s.view, &plan);
	is_int(plan.next_ms, NOW + 60000, "a Pod in deletion is looked at when it may be stuck");
	s.view.unreachable_ms = 0;
	pod_plan(&s.view, &plan);
	is_int(plan.next_ms, 0, "… but where one waits for nodes for ever");

	w = (struct world){G, .state = PARTITION_STATE_WAITING};
	look(&w, &s);
	pod_plan(&s.view, &plan);
	ok(!plan.warning && plan.waits, "waiting for room is no warning, and shown");
	s.part.why = PARTITION_WHY_POLICY;
	pod_plan(&s.view, &plan);
	ok(plan.warning && plan.waits, "what a policy forbids is one");
	s.part.why = PARTITION_WHY_STARTING;
	pod_plan(&s.view, &plan);
	ok(!plan.warning && !plan.waits, "the operator's own start isn't written at each Pod");

	s.part.wanted_attempt = s.ask.attempt = 3; /* a person's reset */
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "nothing", "an attempt of somebody's isn't undone");
	s.ask.priority = 7;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "ensure", "another priority is asked for");
	s.ask.priority = 0;
	s.pod.deadline_ms = 5000;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "ensure", "… and so is another time");

	w = (struct world){G, .held_back = true};
	look(&w, &s);
	pod_plan(&s.view, &plan);
	is_int(plan.next_ms, NOW + 30000, "what is held back is looked at when its time has come");
	s.view.now_ms = s.view.retry_ms;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "ensure", "… and asks again then");
}

/* A namespace's time, of a Pod that asked by itself. */
static void test_limits(void)
{
	struct world w = {S, P1, .state = PARTITION_STATE_ACTIVE};
	struct pod_plan plan;
	struct sight s;

	look(&w, &s);
	s.pod.start_ms = NOW - 5000;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "nothing", "no limit");
	s.part.deadline_ms = 60000;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "limit", "the namespace's");
	s.view.retry_ms = NOW + 1;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "nothing", "refused a moment ago");
	s.view.retry_ms = 0;
	s.pod.start_ms = 0;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "nothing", "it hasn't started");
	s.pod.start_ms = NOW - 5000;
	s.pod.deadline_ms = 1000;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "nothing", "it has one of its own");
	s.pod.deadline_ms = 0;
	s.ask.deadline_ms = 60000;
	pod_plan(&s.view, &plan);
	is_str(pod_action_name(plan.action), "nothing", "it has asked for one");
}

static void test_stages(void)
{
	static const struct {
		struct pod pod;
		const char *stage;
	} stages[] = {
		{{.gated = true}, "waiting"},
		{{.gated = true, .problem = TEXT("x")}, "refused"},
		{{.problem = TEXT("x")}, "served"},
		{{.ended = true, .gated = true}, "ended"},
	};

	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
		is_str(pod_stage_name(pod_stage(&stages[i].pod)), stages[i].stage, "stage %zu", i);
}

/* ---- what is held ---- */

#define MADE_MS 1700000000000

struct held_row {
	const char *name;
	struct pod pod;
	int64_t active_ms, after_ms;
	const char *reason, *message; /* NULL: it isn't held */
};

static void test_held_row(const struct held_row *r)
{
	struct pod pod = r->pod;
	int64_t active_ms = r->active_ms ? MADE_MS + r->active_ms : 0;
	struct job_held held;
	bool is;

	row_begin("held: %s", r->name);
	pod.created_ms = MADE_MS;
	pod.ipus = 4;
	is = pod_is_held(&pod, active_ms, MADE_MS + r->after_ms, &held);
	ok(is == (r->reason != NULL), "held or not");
	if (is && r->reason) {
		is_str(held.reason, r->reason, "the reason");
		is_str(held.message, r->message, "the words");
		ok(held.plain && held.plain[0], "and some in which nothing is named");
		is_int(held.since_ms, active_ms ? active_ms : MADE_MS, "since when");
		is_int(held.ipus, 4, "how many IPUs");
	}
	row_end();
}

static void test_held(void)
{
	const struct held_row held_rows[] = {
		{"another gate",
		 {.gated = true, .other_gate = TEXT("example.com/checked")},
		 0,
		 0,
		 "OtherGates",
		 "it asks for no IPUs until its other scheduling gates are open"},
		{"another gate, and none of ours",
		 {.other_gate = TEXT("example.com/checked")},
		 0,
		 0,
		 "OtherGates",
		 "it asks for no IPUs until its other scheduling gates are open"},
		{"Kueue's gate",
		 {.gated = true, .other_gate = TEXT("kueue.x-k8s.io/admission")},
		 0,
		 0,
		 "HeldByKueue",
		 "Kueue hasn't admitted it: until then it asks for no IPUs"},
		{"a bad annotation",
		 {.gated = true, .problem = TEXT("must be a power of two")},
		 0,
		 0,
		 "InvalidAnnotation",
		 "must be a power of two"},
		{"held back",
		 {.gated = true, .waiting = TEXT("NameConflict: so it is")},
		 0,
		 0,
		 "HeldBack",
		 "NameConflict: so it is"},
		{"just made", {.gated = true}, 0, 9999, NULL, NULL},
		{"made, and nothing came of it",
		 {.gated = true},
		 0,
		 10000,
		 "NotRunning",
		 "it isn't in the queue for IPUs"},
		{"its gate is being opened",
		 {.gated = true, .waiting = TEXT("WaitingForIPUs: so")},
		 90000,
		 99999,
		 NULL,
		 NULL},
		{"... and isn't opened",
		 {.gated = true, .waiting = TEXT("NameConflict: so")},
		 90000,
		 100000,
		 "HeldBack",
		 "NameConflict: so"},
		{"a node is looked for", {.partition = TEXT("p1")}, 90000, 99999, NULL, NULL},
		{"... and not found",
		 {.partition = TEXT("p1")},
		 90000,
		 100000,
		 "NotRunning",
		 "no node has been chosen for it"},
		{"has its node", {.partition = TEXT("p1"), .started = true}, 0, 100000, NULL, NULL},
		{"has ended", {.ended = true}, 0, 100000, NULL, NULL},
		{"is being deleted", {.gated = true, .deleting = true}, 0, 100000, NULL, NULL},
		{"is a job's", {.gated = true, .of_job = true}, 0, 100000, NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(held_rows) / sizeof(held_rows[0]); i++)
		test_held_row(&held_rows[i]);
}

int main(void)
{
	test_rows();
	test_details();
	test_limits();
	test_stages();
	test_held();
	return done_testing();
}
