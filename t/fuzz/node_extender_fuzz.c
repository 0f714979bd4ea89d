/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's extender: whatever a request is, its answer is JSON that its kind of client can
 * read, and prioritize says of each Node a number from 0 to 10. Input: a letter (f: filter, p:
 * prioritize), then the request's body.
 */
#include "core/map.h"
#include "fuzz.h"
#include "loop/loop.h"
#include "net/net.h"
#include "node/extender.h"

static struct vipu_fleet *fleet;
static struct nodes *nodes;

static void on_change(void *arg, bool fabric_only)
{
	(void)arg, (void)fabric_only;
}

static void add_node(const char *text)
{
	struct json_doc *doc = NULL;

	MUST(json_parse(str_of(text), &doc, NULL) == 0);
	nodes_note(nodes, json_root(doc));
	json_doc_free(doc);
}

static void begin(void)
{
	struct vipu_fleet_entry entries[2] = {{0}};
	struct vipu_address_list list;
	struct loop *loop = NULL;
	struct net *net = NULL;

	MUST(loop_new(&loop, NULL) == 0 && net_new(loop, &net, NULL) == 0);
	fleet = vipu_fleet_new(net, NULL);
	vipu_address_parse(STR("127.0.0.1:1:pod=a,127.0.0.1:2:pod=b"), &list);
	for (size_t i = 0; i < 2; i++)
		entries[i].address = &list.items[i];
	vipu_fleet_configure(fleet, entries, 2);
	vipu_address_list_done(&list);
	nodes = nodes_new(NULL, fleet, on_change, NULL);
	nodes_look(nodes);
	add_node(
		"{\"metadata\":{\"name\":\"a\",\"uid\":\"1\",\"resourceVersion\":\"1\",\"labels\":{"
		"\"pod\":\"a\"}}}");
	add_node(
		"{\"metadata\":{\"name\":\"b\",\"uid\":\"2\",\"resourceVersion\":\"1\",\"labels\":{"
		"\"pod\":\"b\"}}}");
}

static void fill(void *arg, size_t i, uint32_t ipus, struct extender_controller *ret)
{
	(void)arg;
	MUST(i < 2 && ipus > 0 && (ipus & (ipus - 1)) == 0);
	*ret = (struct extender_controller){
		.name = "c", .total_ipus = 64, .fits = i == 0 && ipus <= 16, .score = 7};
}

static void check_filter(const struct json *root)
{
	const struct json *passed = json_get(root, "NodeNames");

	if (!passed)
		passed = json_at(root, "Nodes", "items", NULL);
	MUST(json_str(json_get(root, "Error")).len > 0 || json_type(passed) == JSON_ARRAY);
}

static void check_scores(const struct json *root)
{
	struct json_iter it = json_iter(root);

	MUST(json_type(root) == JSON_ARRAY);
	while (json_next(&it)) {
		int64_t score = json_int(json_get(it.value, "Score"), -1);

		MUST(score >= 0 && score <= 10);
		MUST(json_type(json_get(it.value, "Host")) == JSON_STRING);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	const struct extender_view view = {.n = 2, .controller = fill};
	struct extender_view now = view;
	struct str rest = fuzz_str(p, len);
	char letter = fuzz_take(&rest, 'f');
	enum extender_verb verb = letter == 'p' ? EXTENDER_PRIORITIZE : EXTENDER_FILTER;
	struct buf out = BUF_INIT((size_t)64 << 20);
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (!nodes)
		begin();
	now.nodes = nodes;
	if (extender_answer(&now, verb, rest, &out, &err) < 0) {
		MUST(err.kind != ERR_NONE && err.msg[0]);
	} else {
		MUST(json_parse(buf_str(&out), &doc, &err) == 0);
		if (verb == EXTENDER_FILTER)
			check_filter(json_root(doc));
		else
			check_scores(json_root(doc));
	}
	buf_done(&out);
	return 0;
}
