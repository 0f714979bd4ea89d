/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's extender without a server: which Pods it judges, what it answers in both forms of
 * a request, and how long that takes for 1,000 Nodes.
 */
#include <time.h>

#include "node/extender.h"

#include "core/map.h"
#include "http_test.h"
#include "no_memory.h"

#define BENCH_NODES 1000
#define ROUNDS      401
#define LIMIT_NS    2000000

/* What is measured is the code as it's shipped. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNLIKE 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__) || defined(UNLIKE)
#define SLOWER 40
#else
#define SLOWER 5
#endif

static struct vipu_fleet *fleet;
static struct nodes *nodes;

/* ---- the world ---- */

static void on_change(void *arg, bool fabric_only)
{
	(void)arg, (void)fabric_only;
}

static void set_controllers(const char *text)
{
	struct vipu_fleet_entry entries[8] = {{0}};
	struct vipu_address_list list;

	vipu_address_parse(str_of(text), &list);
	for (size_t i = 0; i < list.n; i++)
		entries[i].address = &list.items[i];
	vipu_fleet_configure(fleet, entries, list.n);
	vipu_address_list_done(&list);
	nodes_look(nodes);
}

static void add_node(const char *name, const char *labels)
{
	CLEANUP_FREE char *text = xasprintf(
		"{\"metadata\":{\"name\":\"%s\",\"uid\":\"u-%s\",\"resourceVersion\":\"1\","
		"\"labels\":{%s}}}",
		name, name, labels);
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (json_parse(str_of(text), &doc, NULL) < 0)
		bail_out(text);
	nodes_note(nodes, json_root(doc));
}

static void begin(void)
{
	test_begin();
	fleet = vipu_fleet_new(net, NULL);
	nodes = nodes_new(NULL, fleet, on_change, NULL);
	set_controllers("127.0.0.1:1:pod=a,127.0.0.1:2:pod=b,127.0.0.1:3:other/key=c");
	add_node("a1", "\"pod\":\"a\"");
	add_node("a2", "\"x\":\"y\",\"pod\":\"a\"");
	add_node("b1", "\"pod\":\"b\"");
	add_node("bc", "\"pod\":\"b\",\"other/key\":\"c\"");
	add_node("none", "\"pod\":\"z\"");
}

static void end(void)
{
	nodes_free(nodes);
	vipu_fleet_free(fleet);
	test_end();
}

static struct extender_controller table[3];
static unsigned n_asked;

static void fill(void *arg, size_t i, uint32_t ipus, struct extender_controller *ret)
{
	(void)arg, (void)ipus;
	n_asked++;
	*ret = table[i];
}

static void set_table(void)
{
	table[0] = (struct extender_controller){"a:8090", NULL, 64, 2, 9};
	table[1] = (struct extender_controller){"b:8090", NULL, 64, 0, 8};
	table[2] = (struct extender_controller){"c:8090", NULL, 64, 1, 7};
	n_asked = 0;
}

static char *answer(enum extender_verb verb, const char *body)
{
	const struct extender_view view = {.nodes = nodes, .n = 3, .controller = fill};
	struct buf out = BUF_INIT((size_t)1 << 20);
	struct err err = ERR_INIT;

	if (extender_answer(&view, verb, str_of(body), &out, &err) < 0) {
		buf_done(&out);
		return xasprintf("%s", err.msg);
	}
	return buf_steal(&out, NULL);
}

/* ---- which Pods ---- */

#define ANNOTATED(n) "\"metadata\":{\"annotations\":{\"graphcore.ai/ipus\":\"" n "\"}}"
#define LIMITS(n)    "{\"resources\":{\"limits\":{\"graphcore.ai/ipu\":" n "}}}"

#define SIDECAR(n)                                                                                 \
	"{\"restartPolicy\":\"Always\",\"resources\":{\"limits\":{\"graphcore.ai/ipu\":" n "}}}"

static const struct size_row {
	const char *name, *pod;
	int want; /* -1: an error */
} size_rows[] = {
	{"asks for none", "{}", 0},
	{"by annotation", "{" ANNOTATED("4") "}", 4},
	{"by the older one", "{\"metadata\":{\"annotations\":{\"graphcore.ai/ipu\":\"2\"}}}", 2},
	{"by resource", "{\"spec\":{\"containers\":[" LIMITS("\"8\"") "]}}", 8},
	{"… a number", "{\"spec\":{\"containers\":[" LIMITS("8") "]}}", 8},
	{"… rounded up", "{\"spec\":{\"containers\":[" LIMITS("\"5\"") "]}}", 8},
	{"… of all containers", "{\"spec\":{\"containers\":[" LIMITS("\"2\"") "," LIMITS("2") "]}}",
	 4},
	{"… or one that comes before",
	 "{\"spec\":{\"initContainers\":[" LIMITS("16") "],\"containers\":[" LIMITS("2") "]}}", 16},
	{"… which run on beside it",
	 "{\"spec\":{\"initContainers\":[" SIDECAR("8") "," SIDECAR(
		 "8") "],\"containers\":[" LIMITS("16") "]}}",
	 32},
	{"… or beside those that come after",
	 "{\"spec\":{\"initContainers\":[" SIDECAR("8") "," LIMITS("8") "],\"containers\":[" LIMITS(
		 "4") "]}}",
	 16},
	{"… a thousand, as the API server writes it",
	 "{\"spec\":{\"containers\":[" LIMITS("\"1k\"") "]}}", 1024},
	{"… by a power of two", "{\"spec\":{\"containers\":[" LIMITS("\"1Ki\"") "]}}", 1024},
	{"… with an exponent", "{\"spec\":{\"containers\":[" LIMITS("\"1e3\"") "]}}", 1024},
	{"… with an exponent that is none", "{\"spec\":{\"containers\":[" LIMITS("\"1e\"") "]}}",
	 -1},
	{"… thousandths", "{\"spec\":{\"containers\":[" LIMITS("\"1000m\"") "]}}", -1},
	{"… more than there can be", "{\"spec\":{\"containers\":[" LIMITS("\"1E\"") "]}}", -1},
	{"… far more", "{\"spec\":{\"containers\":[" LIMITS("\"9e99999999\"") "]}}", -1},
	{"… as a request alone",
	 "{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"graphcore.ai/ipu\":\"2\"}}}]}}",
	 2},
	{"… none", "{\"spec\":{\"containers\":[" LIMITS("\"0\"") "]}}", 0},
	{"the annotation counts before the resource",
	 "{" ANNOTATED("4") ",\"spec\":{\"containers\":[" LIMITS("64") "]}}", 4},
	{"a worker of an IPUJob",
	 "{\"metadata\":{\"labels\":{\"graphcore.ai/job\":\"j\"},\"annotations\":{"
	 "\"graphcore.ai/ipus\":\"4\"}}}",
	 0},
	{"has its partition",
	 "{\"metadata\":{\"annotations\":{\"graphcore.ai/ipus\":\"4\","
	 "\"graphcore.ai/partition\":\"p\"}}}",
	 0},
	{"names a controller's Nodes",
	 "{" ANNOTATED("4") ",\"spec\":{\"nodeSelector\":{\"pod\":\"b\"}}}", 0},
	{"names other Nodes", "{" ANNOTATED("4") ",\"spec\":{\"nodeSelector\":{\"zone\":\"b\"}}}",
	 4},
	{"names them by affinity",
	 "{" ANNOTATED(
		 "4") ",\"spec\":{\"affinity\":{\"nodeAffinity\":{"
		      "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{"
		      "\"matchExpressions\":[{\"key\":\"zone\"},{\"key\":\"other/key\",\"operator\":\"In\","
		      "\"values\":[\"c\"]}]}]}}}}}",
	 0},
	{"prefers them",
	 "{" ANNOTATED("4") ",\"spec\":{\"affinity\":{\"nodeAffinity\":{"
			    "\"preferredDuringSchedulingIgnoredDuringExecution\":[{\"preference\":{"
			    "\"matchExpressions\":[{\"key\":\"pod\"}]}}]}}}}",
	 4},
	{"no power of two", "{" ANNOTATED("3") "}", -1},
	{"a resource that is no number", "{\"spec\":{\"containers\":[" LIMITS("\"some\"") "]}}",
	 -1},
	{"a resource that nobody has",
	 "{\"spec\":{\"containers\":[" LIMITS("65536") "," LIMITS("1") "]}}", -1},
};

static void test_sizes(void)
{
	for (size_t i = 0; i < sizeof(size_rows) / sizeof(size_rows[0]); i++) {
		const struct size_row *row = &size_rows[i];
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct err err = ERR_INIT;
		uint32_t got = 0;

		if (json_parse(str_of(row->pod), &doc, &err) < 0)
			bail_out(err.msg);
		if (extender_size(nodes, json_root(doc), &got, &err) < 0)
			ok(row->want == -1 && err.kind == ERR_INVALID && err.msg[0], "%s: %s",
			   row->name, err.msg);
		else
			is_int(got, row->want, "%s", row->name);
	}
}

/* ---- answers ---- */

#define POD(n)  "\"Pod\":{" ANNOTATED(n) "}"
#define ALL     "\"NodeNames\":[\"a1\",\"a2\",\"b1\",\"bc\",\"none\",\"new\"]"
#define NONE    "node(s) that reach no V-IPU controller's IPUs"
#define UNKNOWN "node(s) the IPU operator hasn't seen yet"

static void check(enum extender_verb verb, const char *body, const char *want, const char *what)
{
	CLEANUP_FREE char *got = answer(verb, body);

	is_str(got, want, "%s", what);
}

static void test_filter(void)
{
	set_table();
	check(EXTENDER_FILTER, "{" POD("4") "," ALL ",\"Nodes\":null}",
	      "{\"NodeNames\":[\"a1\",\"a2\",\"bc\"],\"FailedNodes\":{\"new\":\"" UNKNOWN
	      "\"},\"FailedAndUnresolvableNodes\":{\"b1\":\"node(s) whose V-IPU controller b:8090 "
	      "has no room for 4 IPUs now\",\"none\":\"" NONE "\"},\"Error\":\"\"}\n",
	      "by names: only Nodes whose controller has room");
	is_int(n_asked, 3, "each controller is asked once");
	check(EXTENDER_FILTER, "{\"pod\":{},\"nodenames\":[\"b1\",\"new\"]}",
	      "{\"NodeNames\":[\"b1\",\"new\"],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},"
	      "\"Error\":\"\"}\n",
	      "a Pod without IPUs: all pass, in whatever case the members are written");
	check(EXTENDER_FILTER, "{" POD("4") ",\"NodeNames\":[]}",
	      "{\"NodeNames\":[],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}"
	      "\n",
	      "no Nodes");
	check(EXTENDER_FILTER,
	      "{" POD("4") ",\"NodeNames\":null,\"Nodes\":{\"metadata\":{},\"items\":[{\"metadata\":{"
			   "\"name\":\"x\",\"labels\":{\"pod\":\"a\"}},\"z\":[1]},{\"metadata\":{\"name\":\"y\"}}]}}",
	      "{\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"x\",\"labels\":{\"pod\":\"a\"}},\"z\":"
	      "[1]}]},\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{\"y\":\"" NONE
	      "\"},\"Error\":\"\"}\n",
	      "by whole Nodes: judged by the labels that came, and handed back whole");
	check(EXTENDER_FILTER, "{" POD("3") "," ALL "}",
	      "{\"Error\":\"metadata.annotations[graphcore.ai/ipus]: must be a power of two from 1 to "
	      "65536, such as \\\"2\\\", not \\\"3\\\"\"}\n",
	      "a Pod that can't be: says so");
	table[0].closed = "doesn't answer";
	table[1].total_ipus = 2;
	table[2].fits = 0;
	check(EXTENDER_FILTER, "{" POD("4") ",\"NodeNames\":[\"a1\",\"b1\",\"bc\"]}",
	      "{\"NodeNames\":[],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{\"a1\":\"node(s) "
	      "whose V-IPU controller a:8090 doesn't answer\",\"b1\":\"node(s) whose V-IPU controller "
	      "b:8090 has 2 IPUs in all, fewer than 4\",\"bc\":\"node(s) none of whose 2 V-IPU "
	      "controllers has room for 4 IPUs\"},\"Error\":\"\"}\n",
	      "each with its reason");
	table[0] = (struct extender_controller){"a:8090", NULL, 64, 0, 9};
	check(EXTENDER_FILTER, "{" POD("1") ",\"NodeNames\":[\"a2\"]}",
	      "{\"NodeNames\":[],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{\"a2\":\"node(s) "
	      "whose V-IPU controller a:8090 has no room for 1 IPU now\"},\"Error\":\"\"}\n",
	      "one IPU");
}

static void test_prioritize(void)
{
	set_table();
	check(EXTENDER_PRIORITIZE, "{" POD("4") ",\"NodeNames\":[\"b1\",\"a1\",\"bc\",\"new\"]}",
	      "[{\"Host\":\"b1\",\"Score\":0},{\"Host\":\"a1\",\"Score\":9},{\"Host\":\"bc\",\"Score\":"
	      "7},{\"Host\":\"new\",\"Score\":0}]\n",
	      "scores, in the order of the request");
	check(EXTENDER_PRIORITIZE, "{\"Pod\":{},\"NodeNames\":[\"a1\"]}",
	      "[{\"Host\":\"a1\",\"Score\":0}]\n", "a Pod without IPUs: no preference");
	check(EXTENDER_PRIORITIZE,
	      "{" POD("4") ",\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"x\",\"labels\":{\"pod\":"
			   "\"a\"}}}]}}",
	      "[{\"Host\":\"x\",\"Score\":9}]\n", "by whole Nodes");
}

static void test_bad(void)
{
	static const char *const bodies[] = {"",
					     "[]",
					     "{}",
					     "{\"Pod\":1,\"NodeNames\":[]}",
					     "{\"Pod\":{}}",
					     "{\"Pod\":{},\"NodeNames\":{}}",
					     "{\"Pod\":{},\"Nodes\":{\"items\":1}}"};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		const struct extender_view view = {.nodes = nodes, .n = 3, .controller = fill};
		struct buf out = BUF_INIT(1000);
		struct err err = ERR_INIT;

		ok(extender_answer(&view, EXTENDER_FILTER, str_of(bodies[i]), &out, &err) < 0 &&
			   err.kind == ERR_INVALID,
		   "no ExtenderArgs: %s: %s", bodies[i], err.msg);
		buf_done(&out);
	}
}

/* One request is one turn of the loop: what is too much is refused before it's judged. */
static void has_limit(const char *what, const char *pod, bool whole, enum extender_verb verb)
{
	for (size_t n = EXTENDER_MAX_NODES; n <= EXTENDER_MAX_NODES + 1; n++) {
		const struct extender_view view = {.nodes = nodes, .n = 3, .controller = fill};
		struct buf body = BUF_INIT((size_t)1 << 22), out;
		struct err err = ERR_INIT;
		int rc;

		buf_printf(&body, NULL, "{\"Pod\":%s,%s[", pod,
			   whole ? "\"Nodes\":{\"items\":" : "\"NodeNames\":");
		for (size_t i = 0; i < n; i++)
			buf_printf(&body, NULL, "%s%s", i ? "," : "",
				   whole ? "{\"metadata\":{\"name\":\"b1\"}}" : "\"b1\"");
		buf_printf(&body, NULL, "]%s}", whole ? "}" : "");
		buf_init(&out, extender_limit(buf_str(&body)));
		set_table();
		rc = extender_answer(&view, verb, buf_str(&body), &out, &err);
		if (n == EXTENDER_MAX_NODES)
			ok(rc == 0 && out.len > 0, "%s: %zu Nodes, and room for the answer: %s",
			   what, n, err.msg);
		else
			ok(rc < 0 && err.kind == ERR_LIMIT && out.len == 0 && n_asked == 0,
			   "%s: %zu aren't looked at: %s", what, n, err.msg);
		buf_done(&body);
		buf_done(&out);
	}
}

/* Each allocation whose size the scheduler decides fails once: an error, and the next one is
 * answered as ever. */
static void test_memory(enum extender_verb verb, const char *body)
{
	const struct extender_view view = {.nodes = nodes, .n = 3, .controller = fill};
	CLEANUP_FREE char *want = NULL;
	unsigned wrong = 0;
	struct no_memory m = {0};

	set_table();
	want = answer(verb, body);
	while (no_memory_next(&m)) {
		struct buf out;
		struct err err = ERR_INIT;
		int rc;

		buf_init(&out, extender_limit(str_of(body)));
		no_memory_begin(&m);
		rc = extender_answer(&view, verb, str_of(body), &out, &err);
		no_memory_end(&m);
		wrong += m.whole ? rc != 0 || !str_eqz(buf_str(&out), want)
				 : rc == 0 || !err.msg[0];
		buf_done(&out);
	}
	no_memory_ok(&m, 2);
	is_uint(wrong, 0, "without memory for one of them: an error");
}

static bool the_view(void *arg, struct extender_view *view, struct err *err)
{
	(void)arg, (void)err;
	*view = (struct extender_view){.nodes = nodes, .n = 3, .controller = fill};
	return true;
}

/* The same over HTTP: the scheduler is told to try again, and never that its request is bad. */
static void test_memory_over_http(void)
{
	static const char body[] = "{" POD("4") ",\"NodeNames\":[\"b1\",\"a1\",\"bc\"]}";
	CLEANUP_FREE char *text = xasprintf("POST /scheduler/filter HTTP/1.1\r\nHost: x\r\n"
					    "Content-Length: %zu\r\n\r\n%s",
					    strlen(body), body);
	const struct http_server_config config = {.limits = {.max_body_bytes = 65536}};
	struct http_server *server = http_server_new(net, &config);
	struct extender *extender = extender_new(the_view, NULL);
	unsigned port, again = 0, wrong = 0;

	if (http_server_listen(server, "127.0.0.1:0", NULL, extender_handle, extender, &port,
			       NULL) < 0)
		bail_out("no port");
	struct no_memory m = {.most = 39};

	while (no_memory_next(&m)) {
		struct end e;

		raw_open(&e, port, NULL);
		raw_send(&e, text);
		no_memory_begin(&m);
		raw_wait(&e, 1);
		no_memory_end(&m);
		settle();
		CLEANUP_FREE char *got = raw_text(&e);
		again += strncmp(got, "HTTP/1.1 503 ", 13) == 0;
		/* Without memory for the connection there is none, for the request's head 431, for
		 * the answer's a plain 500. */
		if (strncmp(got, "HTTP/1.1 400 ", 13) == 0 ||
		    strncmp(got, "HTTP/1.1 413 ", 13) == 0) {
			diag("allocation %lu: %s", m.n, got);
			wrong++;
		}
		end_done(&e);
	}
	is_uint(wrong, 0, "without memory, a request said to be bad");
	ok(again >= 3, "and that is given: %u times", again);
	http_server_free(server);
	extender_free(extender);
	settle();
}

static void test_limits(void)
{
	has_limit("filter by name", "{" ANNOTATED("4") "}", false, EXTENDER_FILTER);
	has_limit("filter by whole Nodes", "{" ANNOTATED("4") "}", true, EXTENDER_FILTER);
	has_limit("filter, a Pod without IPUs", "{}", false, EXTENDER_FILTER);
	has_limit("prioritize", "{" ANNOTATED("4") "}", false, EXTENDER_PRIORITIZE);
	has_limit("prioritize, a Pod without IPUs", "{}", false, EXTENDER_PRIORITIZE);
}

static void test_list_changes(void)
{
	set_table();
	set_controllers("127.0.0.1:2:pod=a");
	check(EXTENDER_FILTER, "{" POD("4") ",\"NodeNames\":[\"a1\",\"b1\"]}",
	      "{\"NodeNames\":[\"a1\"],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{\"b1\":\"" NONE
	      "\"},\"Error\":\"\"}\n",
	      "another list of controllers: other Nodes");
	set_controllers("127.0.0.1:2");
	check(EXTENDER_FILTER, "{" POD("4") ",\"NodeNames\":[\"a1\",\"none\"]}",
	      "{\"NodeNames\":[\"a1\",\"none\"],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},"
	      "\"Error\":\"\"}\n",
	      "a controller without a label: any Node");
	set_controllers("127.0.0.1:1:pod=a,127.0.0.1:2:pod=b");
}

static void test_scores(void)
{
	struct vipu_capacity c = {.free_ipus = 64, .blocks = {0, 0, 1, 0, 0, 0, 1}};

	is_int(extender_score(&c, 4), 10, "a block of just this size");
	is_int(extender_score(&c, 2), 9, "one of twice its size");
	is_int(extender_score(&c, 8), 7, "the whole domain, for an eighth of it");
	is_int(extender_score(&c, 64), 10, "a domain");
	c.blocks[2] = 0;
	is_int(extender_score(&c, 1), 4, "a domain for one IPU");
	c.free_ipus = 512;
	is_int(extender_score(&c, 128), 8, "two domains of eight");
	c.free_ipus = 65536;
	is_int(extender_score(&c, 128), 1, "never below 1");
}

/* ---- 1,000 Nodes ---- */

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static char *make_request(void)
{
	struct buf out = BUF_INIT((size_t)1 << 22);

	buf_printf(&out, NULL, "{" POD("4") ",\"Nodes\":null,\"NodeNames\":[");
	for (unsigned i = 0; i < BENCH_NODES; i++)
		buf_printf(&out, NULL, "%s\"ip-10-0-0-%04u.region.compute.internal\"", i ? "," : "",
			   i);
	buf_printf(&out, NULL, "]}");
	return buf_steal(&out, NULL);
}

/* The quickest counts: what others do on this machine only ever adds. */
static void measure(const char *what, enum extender_verb verb, const char *request, size_t want)
{
	static int64_t took[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++) {
		int64_t from = now_ns();
		CLEANUP_FREE char *got = answer(verb, request);

		took[i] = now_ns() - from;
		if (strlen(got) < want)
			bail_out(got);
	}
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	note("%s of %d Nodes: quickest %.0f us, median %.0f us, 1 %% over %.0f us", what,
	     BENCH_NODES, (double)took[0] / 1000, (double)took[ROUNDS / 2] / 1000,
	     (double)took[ROUNDS - 1 - ROUNDS / 100] / 1000);
	ok(took[0] < (int64_t)LIMIT_NS * SLOWER, "%s: in time", what);
}

static void test_speed(void)
{
	CLEANUP_FREE char *request = make_request();

	for (unsigned i = 0; i < BENCH_NODES; i++) {
		char name[64], labels[400];

		snprintf(name, sizeof(name), "ip-10-0-0-%04u.region.compute.internal", i);
		snprintf(
			labels, sizeof(labels),
			"\"beta.kubernetes.io/arch\":\"amd64\",\"beta.kubernetes.io/os\":\"linux\","
			"\"kubernetes.io/hostname\":\"%s\",\"topology.kubernetes.io/zone\":\"z%u\","
			"\"node.kubernetes.io/instance-type\":\"big\",\"pod\":\"%c\"",
			name, i % 3, i % 2 ? 'a' : 'b');
		add_node(name, labels);
	}
	set_table();
	measure("filter", EXTENDER_FILTER, request, 30000);
	measure("prioritize", EXTENDER_PRIORITIZE, request, 50000);
}

int main(void)
{
	begin();
	test_sizes();
	test_filter();
	test_prioritize();
	test_bad();
	test_memory(EXTENDER_FILTER, "{" POD("4") ",\"NodeNames\":[\"b1\",\"a1\",\"bc\",\"new\"]}");
	test_memory(EXTENDER_PRIORITIZE, "{" POD("4") ",\"NodeNames\":[\"b1\",\"a1\",\"bc\"]}");
	test_memory_over_http();
	test_limits();
	test_list_changes();
	test_scores();
	test_speed();
	end();
	return done_testing();
}
