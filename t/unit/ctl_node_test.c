/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node clean: of Nodes as they may be, what is taken off, and what stays.
 */
#include "core/clock.h"
#include "core/json.h"
#include "ctl/node_clean.h"
#include "tap.h"

#define NOW    "2024-06-01T12:00:00Z"
#define MINE   "'graphcore.ai/node-published':"
#define SHOWS  "'graphcore.ai/ipu':'64'"
#define HEALTH "{'type':'Ready','status':'True'}"

static const struct {
	const char *what, *labels, *annotations, *taints, *conditions, *status;
	const char *taken, *status_patch, *meta_patch;
	int64_t heard_ms;
	unsigned parts; /* 0: both */
} cases[] = {
	{"a Node without anything", "", "", "", HEALTH, "", "", "", "", -1, 0},
	{"others' alone", "'ipunode':'a'", "'x':'y'",
	 "{'key':'graphcore.ai/fabric-not-ready','effect':'NoSchedule'}", HEALTH,
	 "'capacity':{" SHOWS "},'allocatable':{" SHOWS "}", "", "", "", -1, 0},
	{"the condition", "", "", "",
	 HEALTH ",{'type':'IPUFabricReady','lastHeartbeatTime':'2024-06-01T11:59:00Z'}", "",
	 "condition IPUFabricReady", "{'conditions':[" HEALTH "]}", "", 60000, 0},
	{"a condition of another clock", "", "", "",
	 "{'type':'IPUFabricReady','lastHeartbeatTime':'2024-06-01T12:09:00Z'}", "",
	 "condition IPUFabricReady", "{'conditions':[]}", "", 0, 0},
	{"a condition without a time", "", "", "", "{'type':'IPUFabricReady'}", "",
	 "condition IPUFabricReady", "{'conditions':[]}", "", -1, 0},
	{"labels that the note names, with their values", "'a':'1','b':'2','c':'3'",
	 MINE "'head  a=1 b=9'", "", HEALTH, "",
	 "label a=1, annotation graphcore.ai/node-published", "",
	 "'labels':{'a':null},'annotations':{'graphcore.ai/node-published':null}", -1, 0},
	{"the taint", "", MINE "'taint:k'",
	 "{'key':'k','effect':'NoExecute'},{'key':'k','effect':'NoSchedule'},"
	 "{'key':'o','effect':'NoSchedule'}",
	 HEALTH, "", "taint k, annotation graphcore.ai/node-published", "",
	 "'annotations':{'graphcore.ai/node-published':null}|{'taints':[{'key':'k','effect':"
	 "'NoExecute'},{'key':'o','effect':'NoSchedule'}]}",
	 -1, 0},
	{"the only taint", "", MINE "'taint:k'", "{'key':'k','effect':'NoSchedule'}", HEALTH, "",
	 "taint k, annotation graphcore.ai/node-published", "",
	 "'annotations':{'graphcore.ai/node-published':null}|{'taints':null}", -1, 0},
	{"the resource, with its notes", "",
	 "'graphcore.ai/advertised-ipus':'64','graphcore.ai/ipus-freed':'t'", "", HEALTH,
	 "'capacity':{'cpu':'1'," SHOWS "},'allocatable':{" SHOWS "}",
	 "resource graphcore.ai/ipu, annotation graphcore.ai/advertised-ipus, annotation "
	 "graphcore.ai/ipus-freed",
	 "{'capacity':{'graphcore.ai/ipu':null},'allocatable':{'graphcore.ai/ipu':null}}",
	 "'annotations':{'graphcore.ai/advertised-ipus':null,'graphcore.ai/ipus-freed':null}", -1,
	 0},
	{"the resource alone, beside a living role", "'a':'1'",
	 MINE "'a=1 taint:k','graphcore.ai/advertised-ipus':'64'",
	 "{'key':'k','effect':'NoSchedule'}",
	 HEALTH ",{'type':'IPUFabricReady','lastHeartbeatTime':'2024-06-01T11:59:00Z'}",
	 "'capacity':{" SHOWS "},'allocatable':{" SHOWS "}",
	 "resource graphcore.ai/ipu, annotation graphcore.ai/advertised-ipus",
	 "{'capacity':{'graphcore.ai/ipu':null},'allocatable':{'graphcore.ai/ipu':null}}",
	 "'annotations':{'graphcore.ai/advertised-ipus':null}", -1, CTL_NODE_RESOURCE},
	{"the role's alone", "'a':'1'", MINE "'a=1','graphcore.ai/advertised-ipus':'64'", "",
	 HEALTH, "'capacity':{" SHOWS "}", "label a=1, annotation graphcore.ai/node-published", "",
	 "'labels':{'a':null},'annotations':{'graphcore.ai/node-published':null}", -1,
	 CTL_NODE_ROLE},
	{"a note without its resource", "", "'graphcore.ai/advertised-ipus':'64'", "", HEALTH, "",
	 "annotation graphcore.ai/advertised-ipus", "",
	 "'annotations':{'graphcore.ai/advertised-ipus':null}", -1, 0},
};

/* With ' for ". */
static char *quoted(const char *text)
{
	char *z = xstrdup(text);

	for (char *p = z; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	return z;
}

static void test_patch(const struct jmut *is, const char *member, const char *want,
		       const char *what)
{
	struct buf out = BUF_INIT(1 << 16);
	CLEANUP_FREE char *z = quoted(want), *text = NULL;

	if (is && json_write(json_get(jmut_view(is), member), JSON_COMPACT, &out, NULL) < 0)
		bail_out("json_write");
	text = str_dup(buf_str(&out));
	is_str(text, z, "%s", what);
	buf_done(&out);
}

static void test_case(size_t i)
{
	CLEANUP_FREE char *text = xasprintf(
		"{'metadata':{'name':'n','resourceVersion':'7','labels':{%s},'annotations':{%s}},"
		"'spec':{'taints':[%s]},'status':{'conditions':[%s]%s%s}}",
		cases[i].labels, cases[i].annotations, cases[i].taints, cases[i].conditions,
		cases[i].status[0] ? "," : "", cases[i].status);
	CLEANUP_FREE char *json = quoted(text), *taken = NULL;
	CLEANUP_JSON struct json_doc *node = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct err err = ERR_INIT;
	struct ctl_node_plan plan;
	struct str want = str_of(cases[i].meta_patch), head, spec;
	int64_t now_ms;

	row_begin("%s", cases[i].what);
	if (json_parse(str_of(json), &node, &err) < 0 || clock_parse(STR(NOW), &now_ms, &err) < 0)
		bail_out(err.msg);
	ctl_node_clean_plan(doc, json_root(node),
			    cases[i].parts ? cases[i].parts : CTL_NODE_ROLE | CTL_NODE_RESOURCE,
			    now_ms, &plan);
	taken = str_dup(buf_str(&plan.taken));
	is_str(taken, cases[i].taken, "what is told");
	is_int(plan.heard_ms, cases[i].heard_ms, "the role's last word");
	test_patch(plan.status, "status", cases[i].status_patch, "the status");
	str_cut(want, '|', &head, &spec);
	if (want.len) {
		CLEANUP_FREE char *meta = xasprintf("{'resourceVersion':'7',%.*s}", STR_ARG(head));
		CLEANUP_FREE char *rest = str_dup(spec);

		test_patch(plan.meta, "metadata", meta, "metadata, at its version");
		if (spec.len)
			test_patch(plan.meta, "spec", rest, "taints");
	} else {
		ok(!plan.meta, "nothing beside it");
	}
	ctl_node_clean_plan_done(&plan);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		test_case(i);
	row_end();
	return done_testing();
}
