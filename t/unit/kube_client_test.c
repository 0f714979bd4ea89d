/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls against a scripted API server: what is sent, what comes back, what is tried again;
 * deadlines, cancelling, connections; tokens, certificates and plugins as they rotate.
 */
#include "kube_server.h"

#include <sys/stat.h>

#include "core/json.h"
#include "core/log.h"
#include "core/metrics.h"
#include "kube/client.h"

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
static char dir[] = "/tmp/kube-client-XXXXXX";

static void open_client(const char *token)
{
	config = srv_config(srv, token);
	client = client_for(config, NULL);
}

static void close_client(void)
{
	settle();
	kube_client_free(client);
	kube_config_free(config);
	for (size_t i = 0; i < SRV_CONNS; i++)
		srv_drop(&srv->conns[i], false);
	settle();
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
	if (row->json && json_parse(str_of(row->json), &doc, &err) < 0)
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

/* ---- credentials ---- */

static char *in_dir(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	CLEANUP_FREE char *path = in_dir(name);
	CLEANUP_FREE char *fresh = xasprintf("%s.new", path);
	FILE *f = fopen(fresh, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0 || chmod(fresh, mode) != 0 ||
	    rename(fresh, path) != 0)
		bail_out(path);
}

/* One GET; the answer's status is 200, or what the script says. Returns the error's kind. */
static enum err_kind get_x(struct seen *s)
{
	struct kube_request req = {.verb = KUBE_GET, .path = "/x"};
	*s = (struct seen){.calls = 0};
	kube_call_start(client, &req, on_call, s, NULL);
	if (!PUMP(s->calls > 0))
		diag("no answer");
	return s->err.kind;
}

static const struct srv_step fine[] = {
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
};
static const struct srv_step denied_then_fine[] = {
	{"GET /x", 401, NULL, "", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
};

static void test_token_file(void)
{
	struct seen s;
	config = srv_config(srv, NULL);
	config->token.path = in_dir("token");
	write_file("token", "one\n", 0600);
	client = client_for(config, NULL);
	srv_script(srv, fine, 4, 0);
	get_x(&s);
	write_file("token", "two\n", 0600);
	get_x(&s);
	is_str(srv->log, "GET /x auth=Bearer one\nGET /x auth=Bearer one\n",
	       "not looked at for a minute");
	clock_advance(60000);
	get_x(&s);
	has_str(srv->log, "auth=Bearer two\n", "then read again");
	write_file("token", "three\n", 0600);
	srv_script(srv, denied_then_fine, 2, 0);
	is_int(get_x(&s), ERR_NONE, "401");
	is_str(srv->log, "GET /x auth=Bearer two\nGET /x auth=Bearer three\n",
	       "makes it be read at once");
	unlink(config->token.path);
	clock_advance(61000);
	srv_script(srv, fine, 2, 0);
	is_int(get_x(&s), ERR_NONE, "a file that is gone for a moment");
	write_file("token", "bad token\n", 0600);
	clock_advance(61000);
	is_int(get_x(&s), ERR_NONE, "a file that is no token");
	is_str(srv->log, "GET /x auth=Bearer three\nGET /x auth=Bearer three\n",
	       "the last good one is used");
	close_client();
}

static struct tls_config *tls_for(const struct test_cert *cert, const struct test_cert *client_ca)
{
	struct err err = ERR_INIT;
	struct tls_config *c = NULL;
	struct tls_server_opts opts = {.cert_pem = str_of(cert->cert_pem),
				       .key_pem = str_of(cert->key_pem),
				       .client_ca_pem = str_of(client_ca->cert_pem)};
	if (tls_config_new_server(&opts, &c, &err) < 0)
		bail_out(err.msg);
	return c;
}

static void test_certificates(void)
{
	struct seen s;
	struct test_cert *ca = cert_new(&(struct cert_spec){.subject = "CN=ca", .is_ca = true},
					NULL);
	struct test_cert *ca2 = cert_new(&(struct cert_spec){.subject = "CN=ca2", .is_ca = true},
					 NULL);
	struct cert_spec server_spec = {
		.subject = "CN=api", .dns = {"api.test"}, .ip4 = {127, 0, 0, 1}};
	struct test_cert *server = cert_new(&server_spec, ca),
			 *server2 = cert_new(&server_spec, ca2);
	struct test_cert *me = cert_new(&(struct cert_spec){.subject = "CN=first"}, ca);
	struct test_cert *me2 = cert_new(&(struct cert_spec){.subject = "CN=second"}, ca);
	srv = srv_new(tls_for(server, ca));
	write_file("ca", ca->cert_pem, 0600);
	write_file("cert", me->cert_pem, 0600);
	write_file("key", me->key_pem, 0600);
	config = srv_config(srv, NULL);
	config->ca.path = in_dir("ca");
	config->cert.path = in_dir("cert");
	config->key.path = in_dir("key");
	client = client_for(config, NULL);
	srv_script(srv, fine, 4, 0);
	is_int(get_x(&s), ERR_NONE, "over TLS: %s", s.err.msg);
	is_str(srv->log, "GET /x subject=CN=first\n", "with our certificate");

	write_file("cert", me2->cert_pem, 0600);
	clock_advance(60000);
	is_int(get_x(&s), ERR_NONE, "a certificate without its key, in the middle of a rotation");
	write_file("key", me2->key_pem, 0600);
	clock_advance(6000);
	is_int(get_x(&s), ERR_NONE, "and now the key");
	is_str(srv->log,
	       "GET /x subject=CN=first\nGET /x subject=CN=first\nGET /x subject=CN=second\n",
	       "the new one is shown as soon as it's whole");

	struct tls_config *other = tls_for(server2, ca);
	net_listener_set_tls(srv->listener, other);
	tls_config_unref(other);
	for (size_t i = 0; i < SRV_CONNS; i++)
		srv_drop(&srv->conns[i], false);
	settle();
	is_int(get_x(&s), ERR_DENIED, "a server of another authority");
	has_str(s.err.msg, "certificate of 127.0.0.1:", "in words");
	ok(!s.err.maybe_applied, "nothing was sent");
	write_file("ca", ca2->cert_pem, 0600);
	clock_advance(60000);
	is_int(get_x(&s), ERR_NONE, "trusted once the authority's file has changed: %s", s.err.msg);
	close_client();

	struct err err = ERR_INIT;
	config = srv_config(srv, NULL);
	config->ca.data = xstrdup("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n");
	config->ca.len = strlen(config->ca.data);
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = config};
	client = NULL;
	is_int(kube_client_new(&opts, &client, &err), -1, "an authority that can't be read");
	is_int(err.kind, ERR_INVALID, "a person must mend it");
	has_str(err.msg, "the test: ", "names the configuration");
	close_client();
	srv_free(srv);
	struct test_cert *all[] = {ca, ca2, server, server2, me, me2};
	for (size_t i = 0; i < SIZE(all); i++)
		cert_free(all[i]);
}

/* A plugin that counts its runs, and says what is in the file "answer". */
static struct kube_exec_config *plugin(void)
{
	struct kube_exec_config *e = xcalloc(1, sizeof(*e));
	e->api_version = xstrdup("client.authentication.k8s.io/v1");
	e->command = in_dir("plugin");
	e->args = xcalloc(1, sizeof(*e->args));
	e->env = xcalloc(2, sizeof(*e->env));
	e->env[0] = xasprintf("DIR=%s", dir);
	e->info = xstrdup("{}");
	return e;
}

static unsigned plugin_runs(void)
{
	CLEANUP_FREE char *path = in_dir("runs");
	struct stat st;
	return stat(path, &st) == 0 ? (unsigned)st.st_size : 0;
}

#define CRED(status)                                                                                         \
	"{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":" status \
	"}"

static void write_token(const char *token, int64_t lives_ms)
{
	char expires[CLOCK_RFC3339_SIZE];
	clock_format(clock_wall_ms() + lives_ms, expires);
	CLEANUP_FREE char *answer = xasprintf(
		CRED("{\"token\":\"%s\",\"expirationTimestamp\":\"%s\"}"), token, expires);
	write_file("answer", answer, 0600);
}

static void test_plugin(void)
{
	struct seen s, t;
	struct kube_exec_helper *helper = NULL;
	struct err err = ERR_INIT;
	write_file(
		"plugin",
		"#!/bin/sh\nprintf x >> $DIR/runs\ncat $DIR/answer || { echo log in first >&2; exit 1; }\n",
		0700);
	config = srv_config(srv, NULL);
	config->exec = plugin();
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = config};
	is_int(kube_client_new(&opts, &client, &err), -1, "without the helper");
	is_int(err.kind, ERR_INVALID, "refused");
	is_int(kube_exec_helper_fork(config, &helper, &err), 0, "forked");
	client = client_for(config, helper);
	is_uint(plugin_runs(), 0, "not before it's needed");

	srv_script(srv, fine, 4, 0);
	is_int(get_x(&s), ERR_DENIED, "a plugin that fails");
	has_str(s.err.msg, "ended with status 1: log in first", "in its own words");
	is_uint(srv->next, 0, "nothing was sent");
	get_x(&s);
	is_uint(plugin_runs(), 1, "it isn't run at once again");

	clock_advance(60000);
	write_token("one", 3600000);
	struct kube_request req = {.verb = KUBE_GET, .path = "/x"};
	t = (struct seen){.calls = 0};
	kube_call_start(client, &req, on_call, &t, NULL);
	is_int(get_x(&s), ERR_NONE, "the person has logged in: %s", s.err.msg);
	PUMP(t.calls > 0);
	is_int(t.err.kind, ERR_NONE, "the other call too");
	is_uint(plugin_runs(), 2, "one run for both");
	is_str(srv->log, "GET /x auth=Bearer one\nGET /x auth=Bearer one\n", "with its token");

	write_file("answer", CRED("{\"token\":\"two\"}"), 0600);
	get_x(&s);
	is_uint(plugin_runs(), 2, "while it's valid, it isn't asked");
	clock_advance(3600000);
	get_x(&s);
	is_uint(plugin_runs(), 3, "when it has expired, it is");
	has_str(srv->log, "auth=Bearer two\n", "the new token");

	write_file("answer", CRED("{\"token\":\"three\"}"), 0600);
	clock_advance(10000);
	srv_script(srv, denied_then_fine, 2, 0);
	is_int(get_x(&s), ERR_NONE, "401");
	is_str(srv->log, "GET /x auth=Bearer two\nGET /x auth=Bearer three\n",
	       "makes it run again");

	write_token("four", -3600000);
	clock_advance(10000);
	srv_script(srv, denied_then_fine, 2, 0);
	unsigned runs = plugin_runs();
	is_int(get_x(&s), ERR_NONE, "401, and a plugin whose clock is behind");
	is_uint(plugin_runs(), runs + 1, "one run is enough");
	has_str(srv->log, "auth=Bearer four\n", "and what it gave is tried");

	struct scope scope;
	scope_init(&scope);
	clock_advance(10000);
	srv_script(srv, denied_then_fine, 2, 0);
	t = (struct seen){.calls = 0};
	kube_call_start(client, &req, on_call, &t, &scope);
	settle();
	scope_cancel(&scope);
	settle();
	is_int(t.calls, 0, "cancelled while the plugin runs");
	settle();
	kube_client_free(client);
	client = NULL;
	kube_exec_helper_free(helper);
	close_client();
}

static void test_metrics(void)
{
	struct buf out = BUF_INIT(1 << 20);
	size_t len;
	is_int(metrics_write(&out, NULL), 0, "metrics");
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
	if (!mkdtemp(dir))
		bail_out("no folder for the test's files");
	srv = srv_new(NULL);
	test_rows();
	test_cancel();
	test_deadlines();
	test_connections();
	test_token_file();
	test_plugin();
	test_metrics();
	test_no_server(); /* closes the listener */
	srv_free(srv);
	test_certificates();
	test_end();
	CLEANUP_FREE char *clean = xasprintf("rm -rf '%s'", dir);
	if (system(clean) != 0)
		diag("%s stays", dir);
	return done_testing();
}
