/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls against a scripted API server: what is sent, what comes back, what is tried again;
 * deadlines, cancelling, connections, memory that is short.
 */
#include "kube_server.h"
#include "no_memory.h"

#include "core/json.h"
#include "core/log.h"
#include "core/metrics.h"
#include "kube/client.h"
#include "kube/review.h"

#define SIZE(a)   (sizeof(a) / sizeof((a)[0]))
#define MAX_STEPS 8
#define STATUS(code, reason, msg)                                                                  \
	"{\"kind\":\"Status\",\"code\":" code ",\"reason\":\"" reason "\",\"message\":\"" msg "\"}"
#define POD_URL "/api/v1/namespaces/n/pods/p"

struct seen {
	int calls, status;
	struct err err;
	char body[512];
	bool json;
};

static void on_call(void *arg, const struct err *err, const struct kube_response *r)
{
	struct seen *s = arg;
	s->calls++;
	s->err = err ? *err : (struct err)ERR_INIT;
	s->status = r ? r->status : 0;
	s->json = r && r->json;
	snprintf(s->body, sizeof(s->body), "%.*s", r ? (int)r->raw.len : 0,
		 r && r->raw.p ? r->raw.p : "");
}

static struct srv *srv;
static struct kube_config *config;
static struct kube_client *client;

static void open_client(const char *token)
{
	config = srv_config(srv, token);
	client = client_for(config, NULL);
}

static void close_client(void)
{
	close_client_of(srv, client, config);
}

/* ---- the table ---- */

static const struct row {
	const char *name;
	struct kube_request req;
	const char *json; /* parsed into req.json */
	struct srv_step steps[MAX_STEPS];
	enum err_kind kind;
	int status;
	const char *msg; /* of the error; else the body */
	const char *log; /* NULL: the steps' own expectations are enough */
	bool maybe;
} rows[] = {
	{"get",
	 {.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = "n", .name = "p"},
	 NULL,
	 {{"GET " POD_URL, 200, NULL, "{\"a\":1}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{\"a\":1}",
	 "GET " POD_URL " auth=Bearer tok\n",
	 false},
	{"chunked",
	 {.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = "n", .name = "p"},
	 NULL,
	 {{"GET " POD_URL, 200, NULL, "{\"a\":1}", SRV_STREAM_END}},
	 ERR_NONE,
	 200,
	 "{\"a\":1}",
	 NULL,
	 false},
	{"create",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 "{\"x\":[1,\"y\"]}",
	 {{"POST /api/v1/namespaces/n/pods", 201, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 201,
	 "{}",
	 "POST /api/v1/namespaces/n/pods auth=Bearer tok type=application/json body={\"x\":[1,\"y\"]}\n",
	 false},
	{"update",
	 {.verb = KUBE_UPDATE, .resource = &KUBE_PODS, .ns = "n", .name = "p", .body = {"{ }", 3}},
	 NULL,
	 {{"PUT " POD_URL, 200, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 "PUT " POD_URL " auth=Bearer tok type=application/json body={ }\n",
	 false},
	{"strategic merge patch",
	 {.verb = KUBE_PATCH,
	  .resource = &KUBE_NODES,
	  .name = "n",
	  .subresource = "status",
	  .patch = KUBE_PATCH_STRATEGIC},
	 "{\"a\":[1]}",
	 {{"PATCH /api/v1/nodes/n/status", 200, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 "PATCH /api/v1/nodes/n/status auth=Bearer tok "
	 "type=application/strategic-merge-patch+json body={\"a\":[1]}\n",
	 false},
	{"merge patch of a status",
	 {.verb = KUBE_PATCH,
	  .resource = &KUBE_IPUJOBS,
	  .ns = "n",
	  .name = "j",
	  .subresource = "status"},
	 "{\"a\":null}",
	 {{"PATCH /apis/graphcore.ai/v1alpha1/namespaces/n/ipujobs/j/status", 200, NULL, "{}",
	   SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 "PATCH /apis/graphcore.ai/v1alpha1/namespaces/n/ipujobs/j/status auth=Bearer tok "
	 "type=application/merge-patch+json body={\"a\":null}\n",
	 false},
	{"JSON patch",
	 {.verb = KUBE_PATCH,
	  .resource = &KUBE_PODS,
	  .ns = "n",
	  .name = "p",
	  .patch = KUBE_PATCH_JSON},
	 "[]",
	 {{"PATCH " POD_URL, 200, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 "PATCH " POD_URL " auth=Bearer tok type=application/json-patch+json body=[]\n",
	 false},
	{"delete with everything",
	 {.verb = KUBE_DELETE,
	  .resource = &KUBE_PODS,
	  .ns = "n",
	  .name = "p",
	  .uid = "u-1",
	  .if_version = "42",
	  .has_grace = true,
	  .grace_seconds = 0,
	  .propagation = KUBE_PROPAGATION_FOREGROUND},
	 NULL,
	 {{"DELETE " POD_URL, 200, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 "DELETE " POD_URL
	 " auth=Bearer tok type=application/json body={\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\","
	 "\"gracePeriodSeconds\":0,\"propagationPolicy\":\"Foreground\",\"preconditions\":{\"uid\":\"u-1\",\"resourceVersion\":\"42\"}}\n",
	 false},
	{"a raw path that isn't JSON",
	 {.verb = KUBE_GET, .path = "/healthz"},
	 NULL,
	 {{"GET /healthz", 200, NULL, "ok", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "ok",
	 NULL,
	 false},
	{"not found",
	 {.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = "n", .name = "p"},
	 NULL,
	 {{"GET", 404, NULL, STATUS("404", "NotFound", "pods p not found"), SRV_WHOLE}},
	 ERR_NOT_FOUND,
	 404,
	 "pods p not found",
	 NULL,
	 false},
	{"exists",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 "{}",
	 {{"POST", 409, NULL, STATUS("409", "AlreadyExists", "there"), SRV_STREAM_END}},
	 ERR_EXISTS,
	 409,
	 "there",
	 NULL,
	 false},
	{"an answer that isn't JSON",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 "{}",
	 {{"POST", 200, NULL, "<html>", SRV_WHOLE}},
	 ERR_PROTOCOL,
	 0,
	 "the API server's answer isn't JSON: ",
	 NULL,
	 true},
	{"an answer that is too large",
	 {.verb = KUBE_GET,
	  .resource = &KUBE_PODS,
	  .ns = "n",
	  .name = "p",
	  .max_response_bytes = 4},
	 NULL,
	 {{"GET", 200, NULL, "{\"a\":1}", SRV_WHOLE}},
	 ERR_LIMIT,
	 0,
	 "the API server's answer is larger than 4 bytes",
	 NULL,
	 false},
	{"429, then well",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 "{}",
	 {{"POST", 429, "Retry-After: 1\r\n", STATUS("429", "TooManyRequests", "slow"), SRV_WHOLE},
	  {"POST", 429, NULL, "", SRV_WHOLE},
	  {"POST", 201, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 201,
	 "{}",
	 NULL,
	 false},
	{"429 for ever",
	 {.verb = KUBE_GET, .path = "/x"},
	 NULL,
	 {{"GET", 429, NULL, "", SRV_WHOLE},
	  {"GET", 429, NULL, "", SRV_WHOLE},
	  {"GET", 429, NULL, "", SRV_WHOLE},
	  {"GET", 429, NULL, "", SRV_WHOLE},
	  {"GET", 429, NULL, STATUS("429", "TooManyRequests", "slow"), SRV_WHOLE}},
	 ERR_BUSY,
	 429,
	 "slow",
	 NULL,
	 false},
	{"429 without retries",
	 {.verb = KUBE_GET, .path = "/x", .no_retry = true},
	 NULL,
	 {{"GET", 429, NULL, "", SRV_WHOLE}},
	 ERR_BUSY,
	 429,
	 "the API server answered 429",
	 NULL,
	 false},
	{"429 with a wait beyond the deadline",
	 {.verb = KUBE_GET, .path = "/x"},
	 NULL,
	 {{"GET", 429, "Retry-After: 60\r\n", "", SRV_WHOLE}},
	 ERR_BUSY,
	 429,
	 "the API server answered 429",
	 NULL,
	 false},
	{"503 with Retry-After, then well",
	 {.verb = KUBE_UPDATE, .resource = &KUBE_PODS, .ns = "n", .name = "p"},
	 "{}",
	 {{"PUT", 503, "Retry-After: 1\r\n", "", SRV_WHOLE}, {"PUT", 200, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 NULL,
	 false},
	{"503 without it",
	 {.verb = KUBE_GET, .path = "/x"},
	 NULL,
	 {{"GET", 503, NULL, "", SRV_WHOLE}},
	 ERR_UNAVAILABLE,
	 503,
	 "the API server answered 503",
	 NULL,
	 false},
	{"500",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 "{}",
	 {{"POST", 500, NULL, STATUS("500", "InternalError", "oh"), SRV_WHOLE}},
	 ERR_INTERNAL,
	 500,
	 "oh",
	 NULL,
	 true},
	{"500 to a get changes nothing",
	 {.verb = KUBE_GET, .path = "/x"},
	 NULL,
	 {{"GET", 500, NULL, STATUS("500", "InternalError", "oh"), SRV_WHOLE}},
	 ERR_INTERNAL,
	 500,
	 "oh",
	 NULL,
	 false},
	{"401, then well",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n", .no_retry = true},
	 "{}",
	 {{"POST", 401, NULL, STATUS("401", "Unauthorized", "Unauthorized"), SRV_WHOLE},
	  {"POST", 201, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 201,
	 "{}",
	 NULL,
	 false},
	{"401 twice",
	 {.verb = KUBE_GET, .path = "/x"},
	 NULL,
	 {{"GET", 401, NULL, STATUS("401", "Unauthorized", "Unauthorized"), SRV_WHOLE},
	  {"GET", 401, NULL, STATUS("401", "Unauthorized", "Unauthorized"), SRV_WHOLE}},
	 ERR_DENIED,
	 401,
	 "the API server doesn't accept our credentials (the test): Unauthorized",
	 NULL,
	 false},
	{"a get that is reset goes again",
	 {.verb = KUBE_GET, .path = "/x"},
	 NULL,
	 {{"GET", 0, NULL, NULL, SRV_RESET}, {"GET", 200, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 NULL,
	 false},
	{"a get that is cut goes again",
	 {.verb = KUBE_GET, .path = "/x"},
	 NULL,
	 {{"GET", 200, NULL, "{\"a\"", SRV_CUT}, {"GET", 200, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 200,
	 "{}",
	 NULL,
	 false},
	{"a create that is reset may have taken effect",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 "{}",
	 {{"POST", 0, NULL, NULL, SRV_RESET}},
	 ERR_UNAVAILABLE,
	 0,
	 "",
	 NULL,
	 true},
	{"a create whose answer is cut",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 "{}",
	 {{"POST", 201, NULL, "{\"a\"", SRV_CUT}},
	 ERR_UNAVAILABLE,
	 0,
	 "",
	 NULL,
	 true},
	{"a dry run that is reset",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n", .dry_run = true},
	 "{}",
	 {{"POST", 0, NULL, NULL, SRV_RESET}, {"POST", 201, NULL, "{}", SRV_WHOLE}},
	 ERR_NONE,
	 201,
	 "{}",
	 NULL,
	 false},
	{"no name",
	 {.verb = KUBE_DELETE, .resource = &KUBE_PODS, .ns = "n"},
	 NULL,
	 {{NULL}},
	 ERR_INVALID,
	 0,
	 "no name of the Pod was given",
	 "",
	 false},
	{"no body",
	 {.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n"},
	 NULL,
	 {{NULL}},
	 ERR_INVALID,
	 0,
	 "the request has no body",
	 "",
	 false},
};

static void start_row(const struct row *row, struct seen *s, struct scope *scope)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	CLEANUP_JMUT struct jmut_doc *out = jmut_doc_new();
	struct kube_request req = row->req;
	struct err err = ERR_INIT;
	*s = (struct seen){.calls = 0};
	if (row->json && json_parse(str_of(row->json), &doc, &err) < 0 &&
	    json_parse(str_of(row->json), &doc, &err) < 0)
		bail_out(err.msg);
	if (row->json)
		req.json = jmut_copy(out, json_root(doc));
	kube_call_start(client, &req, on_call, s, scope);
}

static size_t count_steps(const struct row *row)
{
	size_t n = 0;
	while (n < MAX_STEPS && row->steps[n].expect)
		n++;
	return n;
}

static void test_rows(void)
{
	for (size_t i = 0; i < SIZE(rows); i++) {
		const struct row *row = &rows[i];
		for (size_t piece = 0; piece < 2; piece++) {
			struct seen s;
			row_begin("%s%s", row->name, piece ? ", byte by byte" : "");
			srv_script(srv, row->steps, count_steps(row), piece);
			open_client("tok");
			start_row(row, &s, NULL);
			is_int(s.calls, 0, "not from within start");
			RUN_UNTIL(s.calls > 0, 10);
			run(5, 10);
			is_int(s.calls, 1, "called back once");
			is_int(s.err.kind, row->kind, "kind");
			is_int(s.status, row->status, "status");
			if (row->kind == ERR_NONE)
				is_str(s.body, row->msg, "body");
			else
				has_str(s.err.msg, row->msg, "message");
			is_int(s.err.maybe_applied, row->maybe, "maybe applied");
			is_uint(srv->next, srv->n_steps, "requests");
			is_uint(srv->surprises, 0, "no others");
			if (row->log)
				is_str(srv->log, row->log, "what was sent");
			close_client();
		}
	}
	row_end();
}

static void test_cancel(void)
{
	for (size_t i = 0; i < SIZE(rows); i++) {
		unsigned late = 0;
		for (unsigned turns = 0; turns < 30; turns++) {
			struct seen s;
			struct scope scope;
			scope_init(&scope);
			srv_script(srv, rows[i].steps, count_steps(&rows[i]), 1);
			open_client("tok");
			start_row(&rows[i], &s, &scope);
			run(turns, 100);
			int calls = s.calls;
			scope_cancel(&scope);
			scope_cancel(&scope);
			run(2, 5000);
			late += s.calls != calls;
			close_client();
		}
		is_uint(late, 0, "cancelled at every step: %s", rows[i].name);
	}
}

/* Each allocation whose size a peer decides fails once: one answer all the same, which doesn't say
 * for ever what isn't so, and no leak. */
static void test_memory(void)
{
	for (size_t i = 0; i < SIZE(rows); i++) {
		unsigned wrong = 0;
		struct no_memory m = {.most = 30};

		while (no_memory_next(&m)) {
			struct seen s;
			srv_script(srv, rows[i].steps, count_steps(&rows[i]), 0);
			srv->any_order = true;
			open_client("tok");
			no_memory_begin(&m);
			start_row(&rows[i], &s, NULL);
			RUN_UNTIL(s.calls > 0, 100);
			no_memory_end(&m);
			run(2, 100);
			if (rows[i].kind == ERR_NONE && s.err.kind != ERR_NONE &&
			    !err_is_retryable(&s.err)) {
				diag("allocation %lu: %s", m.n, s.err.msg);
				wrong++;
			}
			wrong += s.calls != 1;
			srv->any_order = false;
			close_client();
		}
		is_uint(wrong, 0, "each allocation fails once: %s", rows[i].name);
	}
}

static void test_deadlines(void)
{
	static const struct srv_step hang[] = {{"", 0, NULL, NULL, SRV_HANG}};
	for (int writes = 0; writes < 2; writes++) {
		struct seen s = {.calls = 0};
		struct kube_request req = {.verb = writes ? KUBE_CREATE : KUBE_GET,
					   .resource = &KUBE_PODS,
					   .ns = "n",
					   .name = writes ? NULL : "p",
					   .body = writes ? STR("{}") : STR_NULL,
					   .deadline_ms = 5000};
		srv_script(srv, hang, 1, 0);
		open_client(NULL);
		kube_call_start(client, &req, on_call, &s, NULL);
		RUN_UNTIL(srv->next == 1, 0);
		clock_advance(4900);
		run(3, 0);
		is_int(s.calls, 0, "4.9 s: not yet");
		clock_advance(200);
		run(3, 0);
		is_int(s.err.kind, ERR_TIMEOUT, "5.1 s: the deadline");
		is_int(s.err.maybe_applied, writes, "it may have taken effect, if it writes");
		close_client();
	}
}

/* Many calls share a few connections, which are kept. */
/* How long the API server has said nothing, although it was asked. */
static void test_silence(void)
{
	static const struct srv_step steps[] = {
		{"GET ", 0, NULL, NULL, SRV_HANG},
		{"GET /api/v1/namespaces/n/pods/good", 200, NULL, "{}", SRV_WHOLE},
	};
	const struct kube_request hangs = {.verb = KUBE_GET,
					   .resource = &KUBE_PODS,
					   .ns = "n",
					   .name = "p",
					   .deadline_ms = 10000,
					   .no_retry = true};
	struct kube_request good = hangs, list = hangs, more = hangs;
	struct seen s = {.calls = 0};
	struct kube_client *other = NULL;
	struct err err;

	good.name = "good";
	list.verb = KUBE_LIST;
	list.name = NULL;
	srv_script(srv, steps, 2, 0);
	srv->any_order = true;
	open_client(NULL);
	const struct kube_client_opts opts = {
		.loop = loop, .net = net, .config = config, .hears_with = client};
	if (kube_client_new(&opts, &other, &err) < 0)
		bail_out(err.msg);
	kube_call_start(client, &list, on_call, &s, NULL);
	RUN_UNTIL(srv->hits[0] == 1, 0);
	clock_advance(9000);
	is_int(kube_client_silence_ms(client), 0, "a list may take its time");
	kube_call_start(client, &hangs, on_call, &s, NULL);
	RUN_UNTIL(srv->hits[0] == 2, 0);
	clock_advance(4000);
	is_int(kube_client_silence_ms(client), 4000, "since it was asked");
	is_int(kube_client_silence_ms(other), 4000, "by whomever");
	kube_call_start(other, &good, on_call, &s, NULL);
	RUN_UNTIL(s.status == 200, 0);
	is_int(kube_client_silence_ms(client), 0, "a word to one of them ends it");
	clock_advance(3000);
	is_int(kube_client_silence_ms(client), 0,
	       "the one that hangs since before that word doesn't count: one slow answer");
	more.deadline_ms = 1000;
	kube_call_start(client, &more, on_call, &s, NULL);
	clock_advance(1000);
	run(3, 0);
	is_int(s.err.kind, ERR_TIMEOUT, "given up");
	clock_advance(6000);
	run(3, 0);
	is_int(kube_client_silence_ms(client), 7000, "goes on while another waits");
	close_client();
	kube_client_free(other);

	open_client(NULL);
	s = (struct seen){.calls = 0};
	kube_call_start(client, &more, on_call, &s, NULL);
	clock_advance(1000);
	RUN_UNTIL(s.calls == 1, 0);
	clock_advance(5000);
	is_int(kube_client_silence_ms(client), 6000, "between two tries");
	kube_call_start(client, &more, on_call, &s, NULL);
	is_int(kube_client_silence_ms(client), 6000, "the second goes on");
	clock_advance(1000);
	RUN_UNTIL(s.calls == 2, 0);
	clock_advance(5001);
	is_int(kube_client_silence_ms(client), 0, "when nobody asks any more it's forgotten");
	close_client();
	srv->any_order = false;
}

static void test_connections(void)
{
	enum { N = 100 };
	static struct srv_step steps[N];
	static struct seen seen[N];
	struct kube_request req = {.verb = KUBE_GET, .path = "/x"};
	unsigned done = 0;
	for (size_t i = 0; i < N; i++)
		steps[i] = (struct srv_step){"GET /x", 200, NULL, "{}", SRV_WHOLE};
	srv_script(srv, steps, N, 0);
	open_client(NULL);
	srv->accepted = srv->most_open = 0;
	for (size_t i = 0; i < N; i++)
		kube_call_start(client, &req, on_call, &seen[i], NULL);
	RUN_UNTIL(srv->next == N, 1);
	run(5, 1);
	for (size_t i = 0; i < N; i++)
		done += seen[i].calls == 1 && seen[i].err.kind == ERR_NONE;
	is_uint(done, N, "all of them");
	ok(srv->most_open <= KUBE_MAX_CONNECTIONS && srv->most_open > 1, "over %u connections",
	   srv->most_open);
	is_uint(srv->accepted, srv->most_open, "which were kept");
	close_client();
}

/* ---- reviews over connections that break ---- */

static void on_token(void *arg, const struct err *err, const struct kube_identity *who)
{
	struct seen *s = arg;
	s->calls++;
	s->err = err ? *err : (struct err)ERR_INIT;
	snprintf(s->body, sizeof(s->body), "%s", who ? who->username : "");
}

static void on_access(void *arg, const struct err *err)
{
	on_token(arg, err, NULL);
}

#define TOKENS "POST /apis/authentication.k8s.io/v1/tokenreviews"
#define ACCESS "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
#define WARM   {"GET " POD_URL, 200, NULL, "{}", SRV_WHOLE}

/* Who asks may ask again; who can't find out lets nobody in. */
static void test_reviews(void)
{
	static const struct {
		const char *name;
		bool token;
		struct srv_step steps[4];
		enum err_kind kind;
	} reviews[] = {
		{"a token's, whose connection breaks",
		 true,
		 {WARM,
		  {TOKENS, 0, NULL, NULL, SRV_RESET},
		  {TOKENS, 201, NULL,
		   "{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"x\"}}}",
		   SRV_WHOLE}},
		 ERR_NONE},
		{"a token's, whose connections all break",
		 true,
		 {WARM,
		  {TOKENS, 0, NULL, NULL, SRV_RESET},
		  {TOKENS, 0, NULL, NULL, SRV_RESET},
		  {TOKENS, 0, NULL, NULL, SRV_RESET}},
		 ERR_UNAVAILABLE},
		{"an access', whose connection breaks",
		 false,
		 {WARM,
		  {ACCESS, 0, NULL, NULL, SRV_RESET},
		  {ACCESS, 201, NULL, "{\"status\":{\"allowed\":true}}", SRV_WHOLE}},
		 ERR_NONE},
		{"an access', whose connections all break",
		 false,
		 {WARM,
		  {ACCESS, 0, NULL, NULL, SRV_RESET},
		  {ACCESS, 0, NULL, NULL, SRV_RESET},
		  {ACCESS, 0, NULL, NULL, SRV_RESET}},
		 ERR_UNAVAILABLE},
	};
	const struct kube_request get = {
		.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = "n", .name = "p"};
	const struct kube_identity who = {.username = "x",
					  .uid = "",
					  .ns = "",
					  .service_account = "",
					  .pod_name = "",
					  .pod_uid = "",
					  .node_name = ""};
	const struct kube_access access = {.verb = "get", .path = "/metrics"};

	for (size_t i = 0; i < SIZE(reviews); i++) {
		struct kube_reviewer_opts opts = {.deadline_ms = 5000};
		struct seen s = {.calls = 0};
		size_t n = 0;
		row_begin("%s", reviews[i].name);
		while (n < 4 && reviews[i].steps[n].expect)
			n++;
		srv_script(srv, reviews[i].steps, n, 0);
		open_client("tok");
		struct kube_reviewer *reviewer = kube_reviewer_new(client, &opts);
		kube_call_start(client, &get, on_call, &s, NULL);
		RUN_UNTIL(s.calls == 1, 0);
		if (reviews[i].token)
			kube_review_token_start(reviewer, STR("theirs"), on_token, &s, NULL);
		else
			kube_review_access_start(client, &who, &access, 5000, on_access, &s, NULL);
		RUN_UNTIL(s.calls == 2, 10);
		is_int(s.err.kind, reviews[i].kind, "ends so");
		is_uint(srv->next, n, "so often was asked");
		is_uint(srv->surprises, 0, "as expected");
		kube_reviewer_free(reviewer);
		close_client();
	}
	row_end();
}

/* Whatever stands in front of the server says what was sent. */
static void test_own_token(void)
{
	static const struct srv_step says_it[] = {
		{"GET /x", 403, NULL, STATUS("403", "Forbidden", "not for sixteen-bytes-or-more"),
		 SRV_WHOLE},
	};
	struct kube_request req = {.verb = KUBE_GET, .path = "/x"};
	struct seen s = {.calls = 0};
	srv_script(srv, says_it, 1, 0);
	open_client("sixteen-bytes-or-more");
	kube_call_start(client, &req, on_call, &s, NULL);
	RUN_UNTIL(s.calls > 0, 10);
	is_int(s.err.kind, ERR_DENIED, "an answer with our token");
	is_str(s.err.msg, "not for", "which isn't told");
	close_client();
}

static void test_no_server(void)
{
	struct seen s = {.calls = 0};
	struct kube_request req = {
		.verb = KUBE_CREATE, .resource = &KUBE_PODS, .ns = "n", .body = STR("{}")};
	struct net_listener *gone = srv->listener;
	open_client(NULL);
	net_listener_close(gone);
	srv->listener = NULL;
	kube_call_start(client, &req, on_call, &s, NULL);
	RUN_UNTIL(s.calls > 0, 10);
	is_int(s.err.kind, ERR_UNAVAILABLE, "nobody listens");
	ok(!s.err.maybe_applied, "nothing was applied");
	ok(err_is_retryable(&s.err), "worth another try");
	has_str(s.err.msg, "127.0.0.1:", "names the address");
	close_client();
}

static void test_metrics(void)
{
	struct buf out = BUF_INIT(1 << 20);
	size_t len;
	is_int(metrics_write(&out, METRICS_TEXT, NULL), 0, "metrics");
	CLEANUP_FREE char *text = buf_steal(&out, &len);
	has_str(text,
		"ipu_operator_kube_requests_total{verb=\"get\",resource=\"other\",code=\"429\"} ",
		"by status");
	has_str(text,
		"ipu_operator_kube_requests_total{verb=\"create\",resource=\"pods\",code=\"201\"} ",
		"by resource");
	has_str(text,
		"ipu_operator_kube_requests_total{verb=\"create\",resource=\"pods\",code=\"error\"} ",
		"without an answer");
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_begin();
	rand_seed(5);
	srv = srv_new(NULL);
	test_rows();
	test_cancel();
	test_memory();
	test_deadlines();
	test_silence();
	test_connections();
	test_reviews();
	test_own_token();
	test_metrics();
	test_no_server(); /* closes the listener */
	srv_free(srv);
	test_end();
	return done_testing();
}
