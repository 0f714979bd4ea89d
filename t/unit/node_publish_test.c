/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node/publish.h: Nodes as they are, verdicts and times, and the patches that are due.
 */
#include "node/publish.h"

#include "core/clock.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define NOW  INT64_C(1709287200000) /* 2024-03-01T10:00:00Z */
#define CALM 10000

/* ---- parts of a Node ---- */

#define CONDITION(status, reason, message, heartbeat, transition)                                  \
	"{\"type\":\"IPUFabricReady\",\"status\":\"" status "\",\"reason\":\"" reason              \
	"\",\"message\":\"" message "\",\"lastHeartbeatTime\":\"2024-03-01T" heartbeat             \
	"Z\",\"lastTransitionTime\":\"2024-03-01T" transition "Z\"}"
#define KUBELETS   "{\"type\":\"Ready\",\"status\":\"True\"}"
#define IS_TRUE    CONDITION("True", "FabricReady", "well", "09:59:00", "08:00:00")
#define IS_FALSE   CONDITION("False", "RDMAPortDown", "down", "09:59:30", "09:59:30")
#define IS_UNKNOWN CONDITION("Unknown", "ControllerNotResolved", "no name", "09:59:30", "09:59:30")

#define OURS        "head graphcore.ai/rdma=true vipu-ctrl=one"
#define LABELS      "\"graphcore.ai/rdma\":\"true\",\"kubernetes.io/os\":\"linux\",\"vipu-ctrl\":\"one\""
#define NOTE(words) "\"graphcore.ai/node-published\":\"" words "\""
#define TAINT       "{\"key\":\"graphcore.ai/fabric-not-ready\",\"effect\":\"NoSchedule\"}"
#define OTHER_TAINT "{\"key\":\"others\",\"value\":\"x\",\"effect\":\"NoExecute\"}"
#define TAINT_WORD  "taint:graphcore.ai/fabric-not-ready"

/* What is to be written. */
#define WRITES(status, reason, message, transition)                                                \
	"{\"status\":{\"conditions\":[{\"type\":\"IPUFabricReady\",\"status\":\"" status           \
	"\",\"reason\":\"" reason "\",\"message\":\"" message                                      \
	"\",\"lastHeartbeatTime\":\"2024-03-01T10:00:00Z\",\"lastTransitionTime\":\"2024-03-01T"   \
	"" transition "Z\"}]}}"
#define SAYS_TRUE   WRITES("True", "FabricReady", "well", "10:00:00")
#define SAYS_FALSE  WRITES("False", "RDMAPortDown", "down", "10:00:00")
#define META(inner) "{\"metadata\":{" inner "\"resourceVersion\":\"7\"}}"
#define META_AND_TAINTS(inner, taints)                                                             \
	"{\"metadata\":{" inner "\"resourceVersion\":\"7\"},\"spec\":{\"taints\":" taints "}}"
#define SETS(words) "\"annotations\":{\"graphcore.ai/node-published\":" words "},"

struct node {
	const char *labels, *annotations, *taints, *conditions;
};

static const struct node fresh = {"\"kubernetes.io/os\":\"linux\"", "", "", KUBELETS};
static const struct node well = {LABELS, NOTE(OURS), "", KUBELETS "," IS_TRUE};
static const struct node bad = {LABELS, NOTE(OURS " " TAINT_WORD), OTHER_TAINT "," TAINT,
				KUBELETS "," IS_FALSE};
static const struct node unknown = {LABELS, NOTE(OURS), "", KUBELETS "," IS_UNKNOWN};
static const struct node bad_unknown = {LABELS, NOTE(OURS " " TAINT_WORD), TAINT,
					KUBELETS "," IS_UNKNOWN};
static const struct node by_hand = {LABELS, "", TAINT, IS_TRUE};
static const struct node elsewhere = {"\"vipu-ctrl\":\"two\"", "", "", IS_TRUE};
static const struct node stale = {"\"graphcore.ai/rdma\":\"true\",\"vipu-ctrl\":\"gone\"",
				  NOTE("graphcore.ai/rdma=true vipu-ctrl=gone"), "", IS_TRUE};
static const struct node changed_since = {"\"graphcore.ai/rdma\":\"true\",\"vipu-ctrl\":\"hands\"",
					  NOTE(OURS), "", IS_TRUE};
static const struct node taken_off = {"\"graphcore.ai/rdma\":\"true\"", NOTE(OURS), "", IS_TRUE};
static const struct node other_key = {LABELS, NOTE(OURS " taint:example.com/old"),
				      "{\"key\":\"example.com/old\",\"effect\":\"NoSchedule\"}",
				      IS_FALSE};
static const struct node same_key_other_effect = {
	LABELS, NOTE(OURS), "{\"key\":\"graphcore.ai/fabric-not-ready\",\"effect\":\"NoExecute\"}",
	IS_FALSE};
static const struct node labelled = {"\"vipu-ctrl\":\"one\"", "", "", KUBELETS};
static const struct node labelled_otherwise = {"\"vipu-ctrl\":\"three\"", "", "", KUBELETS};
static const struct node once = {"", NOTE("head"), "", IS_UNKNOWN};
static const struct node once_well = {"", "", "", IS_TRUE};
static const struct node never = {"", NOTE(TAINT_WORD), OTHER_TAINT "," TAINT, IS_FALSE};
static const struct node odd = {"", NOTE("  nonsense  taint: =  "), "17", "\"x\",7,{}"};

/* ---- verdicts ---- */

enum verdict { WELL, DOWN, UNRESOLVED, FIRST_LOOK, NO_DEVICE, NO_DRIVER, GONE_ON };

static const struct fabric_verdict verdicts[] = {
	[WELL] = {FABRIC_TRUE, "ready", "FabricReady", "well", true, FABRIC_TRUE, true},
	[DOWN] = {FABRIC_FALSE, "port-down", "RDMAPortDown", "down", true, FABRIC_TRUE, true},
	[UNRESOLVED] = {FABRIC_UNKNOWN, "unresolved", "ControllerNotResolved", "no name", true,
			FABRIC_UNKNOWN, false},
	[FIRST_LOOK] = {FABRIC_UNKNOWN, "incomplete", "FabricNotRead", "wait", false,
			FABRIC_UNKNOWN, false},
	[NO_DEVICE] = {FABRIC_FALSE, "no-device", "NoRDMADevice", "none", true, FABRIC_FALSE,
		       false},
	[NO_DRIVER] = {FABRIC_FALSE, "no-driver", "NoRDMADriver", "none", true, FABRIC_FALSE, true},
	[GONE_ON] = {FABRIC_FALSE, "no-route", "NoRoute", "no way", true, FABRIC_TRUE, true},
};

/* The first of two controllers is reached, but where none is. */
static const struct row {
	const char *name;
	const struct node *node;
	enum verdict verdict;
	const char *condition, *meta; /* NULL: nothing is due */
	int64_t next_ms;
	int64_t steady_ms; /* 0: for ever */
	int64_t rdma_ms;   /* 0: for ever */
	int64_t later_ms;  /* than NOW */
	bool no_labels, unreached;
	const char *taint; /* NULL: the default */
} rows[] = {
	{"the first look is awaited", &fresh, FIRST_LOOK, NULL, NULL, -1, .steady_ms = 1},
	{"… and what was said stays", &bad, FIRST_LOOK, NULL, NULL, -1, .steady_ms = 1},
	{"a fresh Node, all is well", &fresh, WELL, SAYS_TRUE,
	 META("\"labels\":{\"graphcore.ai/rdma\":\"true\",\"vipu-ctrl\":\"one\"}," SETS("\"" OURS
											"\"")),
	 PUBLISH_HEARTBEAT_MS, .steady_ms = 1},
	{"a fresh Node, a port is down", &fresh, DOWN, SAYS_FALSE,
	 META_AND_TAINTS("\"labels\":{\"graphcore.ai/rdma\":\"true\"}," SETS(
				 "\"head graphcore.ai/rdma=true " TAINT_WORD "\""),
			 "[" TAINT "]"),
	 PUBLISH_HEARTBEAT_MS, .unreached = true},
	{"a fresh Node without RDMA", &fresh, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"), NULL, PUBLISH_HEARTBEAT_MS,
	 .unreached = true},
	{"… that has a device without a driver", &fresh, NO_DRIVER,
	 WRITES("False", "NoRDMADriver", "none", "10:00:00"),
	 META_AND_TAINTS(SETS("\"head " TAINT_WORD "\""), "[" TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .unreached = true},
	{"… that has a controller's label", &labelled, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"),
	 META_AND_TAINTS(SETS("\"head " TAINT_WORD "\""), "[" TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .unreached = true},
	{"… whose label is no controller's", &labelled_otherwise, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"), NULL, PUBLISH_HEARTBEAT_MS,
	 .unreached = true},
	{"… that once had it", &once, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"),
	 META_AND_TAINTS(SETS("\"head " TAINT_WORD "\""), "[" TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .unreached = true},
	{"… that was well", &once_well, UNRESOLVED,
	 WRITES("Unknown", "ControllerNotResolved", "no name", "10:00:00"), META(SETS("\"head\"")),
	 PUBLISH_HEARTBEAT_MS, .unreached = true},
	{"… of which a person says that it never had it", &never, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "09:59:30"),
	 META_AND_TAINTS(SETS("null"), "[" OTHER_TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .unreached = true},
	{"… while nothing is known, the taint stays", &never, UNRESOLVED, NULL, NULL, CALM - 1,
	 .steady_ms = 1, .unreached = true},
	{"a fresh Node, and no labels are wanted", &fresh, WELL, SAYS_TRUE, META(SETS("\"head\"")),
	 PUBLISH_HEARTBEAT_MS, .no_labels = true},
	{"… nor a taint", &fresh, WELL, SAYS_TRUE, NULL, PUBLISH_HEARTBEAT_MS, .no_labels = true,
	 .taint = ""},
	{"all is well, as before", &well, WELL, NULL, NULL, PUBLISH_HEARTBEAT_MS - 60000,
	 .steady_ms = 0},
	{"… until the next heartbeat", &well, WELL,
	 WRITES("True", "FabricReady", "well", "08:00:00"), NULL, PUBLISH_HEARTBEAT_MS,
	 .later_ms = PUBLISH_HEARTBEAT_MS - 60000},
	{"a clock that was set back", &well, WELL,
	 WRITES("True", "FabricReady", "well", "08:00:00"), NULL, PUBLISH_HEARTBEAT_MS,
	 .later_ms = -3600000},
	{"a port goes down", &well, DOWN, SAYS_FALSE,
	 META_AND_TAINTS(SETS("\"" OURS " " TAINT_WORD "\""), "[" TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .steady_ms = 1, .unreached = true},
	{"… and no taint is wanted", &well, DOWN, SAYS_FALSE, NULL, PUBLISH_HEARTBEAT_MS,
	 .steady_ms = 1, .unreached = true, .taint = ""},
	{"it stays down", &bad, DOWN, NULL, NULL, PUBLISH_HEARTBEAT_MS - 30000, .unreached = true},
	{"… for another reason", &bad, GONE_ON, WRITES("False", "NoRoute", "no way", "09:59:30"),
	 NULL, PUBLISH_HEARTBEAT_MS, .unreached = true},
	{"… which isn't said at once", &bad, GONE_ON, NULL, NULL, 5000, .unreached = true,
	 .later_ms = -25000},
	{"it's back, for a moment", &bad, WELL, NULL, NULL, CALM - 1, .steady_ms = 1},
	{"it's back for good", &bad, WELL, SAYS_TRUE,
	 META_AND_TAINTS(SETS("\"" OURS "\""), "[" OTHER_TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .steady_ms = CALM},
	{"True becomes Unknown at once, and no taint comes", &well, UNRESOLVED,
	 WRITES("Unknown", "ControllerNotResolved", "no name", "10:00:00"), NULL,
	 PUBLISH_HEARTBEAT_MS, .steady_ms = 1, .unreached = true},
	{"False becomes Unknown after a while", &bad, UNRESOLVED, NULL, NULL, CALM - 1,
	 .steady_ms = 1, .unreached = true},
	{"… and the taint stays", &bad, UNRESOLVED,
	 WRITES("Unknown", "ControllerNotResolved", "no name", "10:00:00"), NULL,
	 PUBLISH_HEARTBEAT_MS, .unreached = true},
	{"Unknown becomes False at once", &unknown, DOWN, SAYS_FALSE,
	 META_AND_TAINTS(SETS("\"" OURS " " TAINT_WORD "\""), "[" TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .steady_ms = 1, .unreached = true},
	{"Unknown becomes True, and the taint goes", &bad_unknown, WELL, SAYS_TRUE,
	 META_AND_TAINTS(SETS("\"" OURS "\""), "null"), PUBLISH_HEARTBEAT_MS, .steady_ms = 0},
	{"labels and a taint by hand stay what they are", &by_hand, WELL, NULL,
	 META(SETS("\"head\"")), PUBLISH_HEARTBEAT_MS - 60000, .steady_ms = 0},
	{"… when labels aren't wanted, too", &by_hand, WELL, NULL, META(SETS("\"head\"")),
	 PUBLISH_HEARTBEAT_MS - 60000, .no_labels = true},
	{"… and when the port goes down", &by_hand, DOWN, SAYS_FALSE, META(SETS("\"head\"")),
	 PUBLISH_HEARTBEAT_MS, .unreached = true},
	{"a label by hand for another controller stays", &elsewhere, WELL, NULL,
	 META("\"labels\":{\"graphcore.ai/rdma\":\"true\"}," SETS(
		 "\"head graphcore.ai/rdma=true\"")),
	 PUBLISH_HEARTBEAT_MS - 60000, .steady_ms = 0},
	{"a controller that isn't configured any more", &stale, WELL, NULL,
	 META("\"labels\":{\"vipu-ctrl\":\"one\"}," SETS("\"" OURS "\"")),
	 PUBLISH_HEARTBEAT_MS - 60000, .steady_ms = 0},
	{"… and none is reached", &stale, WELL, NULL,
	 META("\"labels\":{\"vipu-ctrl\":null}," SETS("\"head graphcore.ai/rdma=true\"")),
	 PUBLISH_HEARTBEAT_MS - 60000, .unreached = true},
	{"a label that a person has changed since is theirs", &changed_since, WELL, NULL,
	 META(SETS("\"head graphcore.ai/rdma=true\"")), PUBLISH_HEARTBEAT_MS - 60000,
	 .steady_ms = 0},
	{"one that a person has taken off comes back", &taken_off, WELL, NULL,
	 META("\"labels\":{\"vipu-ctrl\":\"one\"},"), PUBLISH_HEARTBEAT_MS - 60000, .steady_ms = 0},
	{"labels aren't wanted any more", &well, WELL, NULL,
	 META("\"labels\":{\"graphcore.ai/rdma\":null,\"vipu-ctrl\":null}," SETS("\"head\"")),
	 PUBLISH_HEARTBEAT_MS - 60000, .no_labels = true},
	{"the device is gone", &well, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"),
	 META_AND_TAINTS("\"labels\":{\"graphcore.ai/rdma\":null}," SETS(
				 "\"head vipu-ctrl=one " TAINT_WORD "\""),
			 "[" TAINT "]"),
	 PUBLISH_HEARTBEAT_MS, .unreached = true},
	{"… for a moment: the label stays", &well, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"),
	 META_AND_TAINTS(SETS("\"" OURS " " TAINT_WORD "\""), "[" TAINT "]"), CALM - 1,
	 .rdma_ms = 1, .unreached = true},
	{"… and isn't set where it wasn't", &labelled, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"),
	 META_AND_TAINTS(SETS("\"head " TAINT_WORD "\""), "[" TAINT "]"), PUBLISH_HEARTBEAT_MS,
	 .rdma_ms = 1, .unreached = true},
	{"… one by hand isn't waited for", &by_hand, NO_DEVICE,
	 WRITES("False", "NoRDMADevice", "none", "10:00:00"), META(SETS("\"head\"")),
	 PUBLISH_HEARTBEAT_MS, .rdma_ms = 1, .unreached = true},
	{"a taint of another key", &other_key, DOWN, NULL,
	 META_AND_TAINTS(SETS("\"" OURS " " TAINT_WORD "\""), "[" TAINT "]"),
	 PUBLISH_HEARTBEAT_MS - 30000, .unreached = true},
	{"no taint is wanted any more", &bad, DOWN, NULL,
	 META_AND_TAINTS(SETS("\"" OURS "\""), "[" OTHER_TAINT "]"), PUBLISH_HEARTBEAT_MS - 30000,
	 .unreached = true, .taint = ""},
	{"the key with another effect isn't ours", &same_key_other_effect, DOWN, NULL,
	 META_AND_TAINTS(
		 SETS("\"" OURS " " TAINT_WORD "\""),
		 "[{\"key\":\"graphcore.ai/fabric-not-ready\",\"effect\":\"NoExecute\"}," TAINT
		 "]"),
	 PUBLISH_HEARTBEAT_MS - 30000, .unreached = true},
	{"a Node full of nonsense", &odd, WELL, SAYS_TRUE,
	 META("\"labels\":{\"graphcore.ai/rdma\":\"true\",\"vipu-ctrl\":\"one\"}," SETS("\"" OURS
											"\"")),
	 PUBLISH_HEARTBEAT_MS, .steady_ms = 1},
};

/* ---- running it ---- */

static struct publish_node *decode(const char *json)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct publish_node *node = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(json), &doc, &err) < 0 ||
	    publish_node_decode(json_root(doc), &node, &err) < 0)
		diag("%s: %s", err.msg, json);
	return node;
}

static struct publish_node *make_node(const struct node *n)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"metadata\":{\"name\":\"n1\",\"uid\":\"u1\",\"resourceVersion\":\"7\","
		"\"labels\":{%s},\"annotations\":{%s}},\"spec\":{\"taints\":[%s]},"
		"\"status\":{\"conditions\":[%s]}}",
		n->labels, n->annotations, n->taints, n->conditions);

	return decode(json);
}

static bool is_patch(const struct jmut_doc *got, const char *want)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct buf out = BUF_INIT(10000);
	bool same;

	if (!got || !want)
		return !got && !want;
	if (json_parse(str_of(want), &doc, NULL) < 0)
		return false;
	same = json_equal(jmut_view(jmut_root(got)), json_root(doc));
	if (!same) {
		jmut_write(jmut_root(got), JSON_COMPACT, &out, NULL);
		diag("got  %.*s\n# want %s", STR_ARG(buf_str(&out)), want);
		buf_done(&out);
	}
	return same;
}

/* Rows are written for NOW; a later one's patch has that time in it. */
static char *at_time(const char *patch, int64_t ms)
{
	char now[CLOCK_RFC3339_SIZE], *z = xstrdup(patch), *at;

	clock_format(ms, now);
	at = z ? strstr(z, "2024-03-01T10:00:00Z") : NULL;
	if (at)
		memcpy(at, now, strlen(now));
	return z;
}

static void test_row(const struct row *r)
{
	struct vipu_address_list list;
	bool belongs[] = {!r->unreached, false};
	const struct publish_settings settings = {.labels = !r->no_labels,
						  .taint = r->taint ? r->taint : PUBLISH_TAINT,
						  .calm_ms = CALM};
	struct publish_view view = {
		.node = make_node(r->node),
		.verdict = &verdicts[r->verdict],
		.steady_ms = r->steady_ms ? r->steady_ms : 3600000,
		.rdma_ms = r->rdma_ms ? r->rdma_ms : 3600000,
		.controllers = &list,
		.belongs = belongs,
		.settings = &settings,
		.now_ms = NOW + r->later_ms,
	};
	CLEANUP_FREE char *condition = at_time(r->condition, view.now_ms);
	struct publish_node *node = make_node(r->node);
	struct publish_plan plan;

	vipu_address_parse(STR("one:8090:vipu-ctrl=one,two:8090:vipu-ctrl=two"), &list);
	row_begin("%s", r->name);
	publish_plan(&view, &plan);
	ok(is_patch(plan.condition, condition), "the condition");
	ok(is_patch(plan.meta, r->meta), "labels, annotation and taints");
	is_int(plan.next_ms, r->next_ms, "when a look is due");
	ok(publish_node_equal(view.node, node), "the Node is as it was");
	publish_plan_done(&plan);
	publish_node_free(node);
	publish_node_free((struct publish_node *)(uintptr_t)view.node);
	vipu_address_list_done(&list);
}

static void test_decode(void)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct publish_node *node, *other;
	struct err err = ERR_INIT;

	ok(json_parse(STR("{\"metadata\":{}}"), &doc, NULL) == 0 &&
		   publish_node_decode(json_root(doc), &node, &err) < 0 && err.kind == ERR_INVALID,
	   "a Node without a name");
	node = make_node(&bad);
	other = make_node(&bad);
	ok(node->condition.known && node->condition.status == FABRIC_FALSE, "status");
	is_str(node->condition.reason, "RDMAPortDown", "reason");
	is_int(node->condition.heartbeat_ms, NOW - 30000, "heartbeat");
	ok(str_eqz(publish_node_label(node, "vipu-ctrl"), "one"), "a label");
	ok(publish_node_equal(node, other), "equal");
	other->version[0] = '8';
	ok(publish_node_equal(node, other), "but for the version");
	other->condition.transition_ms++;
	ok(!publish_node_equal(node, other), "not equal");
	publish_node_free(node);
	publish_node_free(other);
	publish_node_free(NULL);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		test_row(&rows[i]);
	row_end();
	test_decode();
	return done_testing();
}
