/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reviews of tokens and of access against the simulated API server: who it is, for which audience,
 * what is kept and for how long, what is shared, and what an answer that is no answer means.
 */
#include "partition_rig.h"

#include "kube/review.h"
#include "sim/api_internal.h"

#define AUDIENCE "ipu-operator-proxy"

static const char *const ours[] = {AUDIENCE, NULL};
static struct kube_reviewer *reviewer;

/* ---- tokens of the simulator ---- */

static char *new_token;

static void on_token(void *arg, const struct err *err, const struct kube_response *response)
{
	(void)arg;
	free(new_token);
	new_token = xstrdup(err ? "" : json_cstr(json_at(response->json, "status", "token", NULL)));
}

/* Asks for one as kubectl create token does; returns it, to be freed. */
static char *make_token(const char *account, const char *spec)
{
	CLEANUP_FREE char *body = xasprintf("{\"apiVersion\":\"authentication.k8s.io/v1\","
					    "\"kind\":\"TokenRequest\",\"spec\":%s}",
					    spec);
	struct kube_request req = {.verb = KUBE_CREATE,
				   .resource = &KUBE_SERVICEACCOUNTS,
				   .ns = NS,
				   .name = account,
				   .subresource = "token",
				   .body = str_of(body)};
	char *z;

	kube_call_start(kube, &req, on_token, NULL, NULL);
	if (!WITHIN(5000, new_token))
		bail_out("no answer about a token");
	z = new_token;
	new_token = NULL;
	return z;
}

/* ---- answers ---- */

struct answer {
	unsigned calls;
	struct err err;
	char text[512];
	char group[64]; /* the first */
};

static void on_reviewed(void *arg, const struct err *err, const struct kube_identity *who)
{
	struct answer *a = arg;

	a->calls++;
	a->err.kind = ERR_NONE;
	if (err) {
		a->err = *err;
		return;
	}
	snprintf(a->group, sizeof(a->group), "%.*s", STR_ARG(json_str(json_item(who->groups, 0))));
	snprintf(a->text, sizeof(a->text), "%s|%s|%s|%s|%s|%zu", who->username, who->ns,
		 who->service_account, who->pod_name, who->node_name, json_len(who->groups));
}

static struct answer review(const char *token)
{
	struct answer a = {0};

	kube_review_token_start(reviewer, str_of(token), on_reviewed, &a, NULL);
	is_int(a.calls, 0, "no callback from within");
	ok(WITHIN(15000, a.calls), "an answer");
	turns(3, 0);
	is_int(a.calls, 1, "one");
	return a;
}

static int64_t reviews(void)
{
	return api_calls("create tokenreviews");
}

static void begin(const char *const *audiences, unsigned max_entries)
{
	struct kube_reviewer_opts opts = {.audiences = audiences, .max_entries = max_entries};

	rig_begin(1);
	reviewer = kube_reviewer_new(kube, &opts);
	make_object("serviceaccounts", "{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\","
				       "\"metadata\":{\"name\":\"sa\",\"namespace\":\"" NS "\"}}");
	make_object("pods", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\","
			    "\"namespace\":\"" NS "\"},\"spec\":{\"nodeName\":\"n1\"}}");
}

static void finish(void)
{
	kube_reviewer_free(reviewer);
	rig_end();
}

static void remove_object(const char *plural, const char *name)
{
	const struct sim_resource *r = sim_resource_find(STR(""), str_of(plural));

	sim_objects_remove(objects, sim_objects_get(objects, r, STR(NS), str_of(name)));
}

/* ---- who it is ---- */

static void test_who(void)
{
	static const struct {
		const char *name, *account, *spec, *text, *error;
	} rows[] = {
		{"a Pod's token", "sa",
		 "{\"audiences\":[\"" AUDIENCE "\"],\"boundObjectRef\":{\"kind\":\"Pod\","
		 "\"apiVersion\":\"v1\",\"name\":\"p\"}}",
		 "system:serviceaccount:" NS ":sa|" NS "|sa|p|n1|3", NULL},
		{"one of two audiences is ours", "sa", "{\"audiences\":[\"x\",\"" AUDIENCE "\"]}",
		 "system:serviceaccount:" NS ":sa|" NS "|sa|||3", NULL},
		{"the default account", "default", "{\"audiences\":[\"" AUDIENCE "\"]}",
		 "system:serviceaccount:" NS ":default|" NS "|default|||3", NULL},
		{"another audience", "sa", "{\"audiences\":[\"x\"]}", NULL, "audiences"},
		{"the API server's audience", "sa", "{}", NULL, "audiences"},
	};

	begin(ours, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		CLEANUP_FREE char *token = make_token(rows[i].account, rows[i].spec);
		struct answer a = review(token);

		is_int(a.err.kind, rows[i].error ? ERR_DENIED : ERR_NONE, "accepted or not");
		if (rows[i].error)
			has_str(a.err.msg, rows[i].error, "why");
		else
			is_str(a.text, rows[i].text, "who");
		ok(!strstr(a.err.msg, token), "the token isn't in the message");
		is_str(a.group, rows[i].error ? "" : "system:serviceaccounts", "its groups");
	}
	row_begin("not a token");
	is_int(review("nonsense").err.kind, ERR_DENIED, "denied");
	int64_t before = reviews();
	is_int(review("").err.kind, ERR_DENIED, "an empty one");
	CLEANUP_FREE char *large = xcalloc(1, KUBE_REVIEW_MAX_TOKEN + 2);
	memset(large, 'x', KUBE_REVIEW_MAX_TOKEN + 1);
	is_int(review(large).err.kind, ERR_DENIED, "one that is too long");
	is_int(reviews(), before, "neither is asked about");
	finish();
	row_begin("no audience wanted");
	begin(NULL, 0);
	CLEANUP_FREE char *plain = make_token("sa", "{}");
	is_int(review(plain).err.kind, ERR_NONE, "the API server's own");
	struct answer a = review("a-token");
	is_str(a.text,
	       "admin||||"
	       "|2",
	       "the kubeconfig's token");
	is_str(a.group, "system:masters", "its groups");
	finish();
	row_end();
}

/* An API server that knows no audiences says nothing of them; it can't be simulated otherwise. */
static void on_raw(struct http_exchange *ex, void *arg)
{
	http_reply(ex, 201, "application/json", NULL, 0, str_of(arg));
}

static void test_odd(void)
{
	static const struct {
		const char *name, *body;
		enum err_kind kind;
	} rows[] = {
		{"no audiences",
		 "{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"u\"}}}", ERR_DENIED},
		{"another one",
		 "{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"u\"},\"audiences\":[\"x\"]}}",
		 ERR_DENIED},
		{"nobody",
		 "{\"status\":{\"authenticated\":true,\"user\":{},\"audiences\":[\"" AUDIENCE
		 "\"]}}",
		 ERR_DENIED},
		{"authenticated isn't true",
		 "{\"status\":{\"authenticated\":\"yes\",\"user\":{\"username\":\"u\"},\"audiences\":[\"" AUDIENCE
		 "\"]}}",
		 ERR_DENIED},
		{"no status", "{}", ERR_PROTOCOL},
		{"no JSON", "nonsense", ERR_PROTOCOL},
		{"an account without a name",
		 "{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"system:serviceaccount:x\"},"
		 "\"audiences\":[\"" AUDIENCE "\"]}}",
		 ERR_NONE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = ERR_INIT;
		unsigned port;

		row_begin("odd answer: %s", rows[i].name);
		begin(ours, 0);
		http_server_free(server);
		server = http_server_new(net, NULL);
		if (http_server_listen(server, "127.0.0.1:0", NULL, on_raw, TEXT(rows[i].body),
				       &port, &err) < 0)
			bail_out(err.msg);
		CLEANUP_FREE char *url = xasprintf("http://127.0.0.1:%u", port);
		free(kube_config->server);
		free(kube_config->prefix);
		if (kube_config_set_server(kube_config, url, &err) < 0)
			bail_out(err.msg);
		struct answer a = review("t");
		is_int(a.err.kind, rows[i].kind, "what it means");
		if (rows[i].kind == ERR_NONE)
			is_str(a.text, "system:serviceaccount:x|||||0", "no ServiceAccount");
		finish();
	}
	row_end();
}

/* ---- what is kept ---- */

static void test_kept(void)
{
	begin(ours, 3);
	CLEANUP_FREE char *token = make_token("sa", "{\"audiences\":[\"" AUDIENCE "\"],"
						    "\"boundObjectRef\":{\"kind\":\"Pod\","
						    "\"name\":\"p\"}}");
	row_begin("an answer");
	for (int i = 0; i < 20; i++)
		is_int(review(token).err.kind, ERR_NONE, "accepted");
	is_int(reviews(), 1, "is kept");
	turns(1000, 10);
	review(token);
	is_int(reviews(), 2, "for some seconds");
	row_begin("the Pod goes");
	remove_object("pods", "p");
	is_int(review(token).err.kind, ERR_NONE, "not known at once");
	turns(1000, 10);
	is_int(review(token).err.kind, ERR_DENIED, "but soon");
	row_begin("a refusal");
	int64_t before = reviews();
	review("bad");
	review("bad");
	is_int(reviews() - before, 1, "is kept");
	turns(101, 10);
	review("bad");
	is_int(reviews() - before, 2, "for a second");
	row_begin("many tokens");
	for (int i = 0; i < 10; i++) {
		CLEANUP_FREE char *z = xasprintf("token-%d", i);

		review(z);
		ok(kube_reviewer_entries(reviewer) <= 3, "only so many are kept");
	}
	before = reviews();
	review("token-9");
	is_int(reviews(), before, "the newest is among them");
	review("token-0");
	is_int(reviews(), before + 1, "the oldest isn't");
	finish();
	row_end();
}

static void test_shared(void)
{
	struct answer a[5] = {0};
	struct op *ops[5];

	begin(ours, 2);
	CLEANUP_FREE char *token = make_token("sa", "{\"audiences\":[\"" AUDIENCE "\"]}");
	row_begin("five at the same time");
	for (int i = 0; i < 5; i++)
		ops[i] = kube_review_token_start(reviewer, str_of(token), on_reviewed, &a[i], NULL);
	op_cancel(ops[2]);
	ok(WITHIN(5000, a[0].calls && a[1].calls && a[3].calls && a[4].calls), "all have it");
	is_int(reviews(), 1, "by one request");
	is_int(a[2].calls, 0, "but the one that was cancelled");
	row_begin("the first one is cancelled");
	turns(1100, 10);
	ops[0] = kube_review_token_start(reviewer, str_of(token), on_reviewed, &a[0], NULL);
	ops[1] = kube_review_token_start(reviewer, str_of(token), on_reviewed, &a[1], NULL);
	op_cancel(ops[0]);
	op_cancel(ops[0]);
	ok(WITHIN(5000, a[1].calls == 2), "the other has it");
	row_begin("more at the same time than there is room for");
	inject_api("{\"kind\":\"hang\",\"resource\":\"tokenreviews\",\"count\":0}");
	memset(a, 0, sizeof(a));
	kube_review_token_start(reviewer, STR("x"), on_reviewed, &a[0], NULL);
	kube_review_token_start(reviewer, STR("y"), on_reviewed, &a[1], NULL);
	kube_review_token_start(reviewer, STR("z"), on_reviewed, &a[2], NULL);
	ok(WITHIN(100, a[2].calls), "refused at once");
	is_int(a[2].err.kind, ERR_BUSY, "as busy");
	ok(WITHIN(11000, a[0].calls && a[1].calls), "the others have a deadline");
	is_int(a[0].err.kind, ERR_TIMEOUT, "and its error");
	is_int(kube_reviewer_entries(reviewer), 0, "which isn't kept");
	row_begin("the API server is silent");
	memset(a, 0, sizeof(a));
	kube_review_token_start(reviewer, STR("x"), on_reviewed, &a[0], NULL);
	ok(WITHIN(100, a[0].calls), "nobody waits for it again");
	is_int(a[0].err.kind, ERR_UNAVAILABLE, "it's said");
	turns(51, 100);
	row_begin("freed while it runs");
	kube_review_token_start(reviewer, STR("x"), on_reviewed, &a[3], NULL);
	turns(3, 10);
	finish();
	is_int(a[3].calls, 0, "no callback");
	row_end();
}

static void test_api_errors(void)
{
	static const struct {
		const char *fault;
		enum err_kind kind;
	} rows[] = {
		{"{\"kind\":\"status\",\"status\":403,\"message\":\"forbidden\"}", ERR_UNAVAILABLE},
		{"{\"kind\":\"status\",\"status\":404}", ERR_UNAVAILABLE},
		{"{\"kind\":\"status\",\"status\":500}", ERR_INTERNAL},
		{"{\"kind\":\"cut\",\"count\":9}", ERR_UNAVAILABLE},
		{"{\"kind\":\"garbage\"}", ERR_PROTOCOL},
	};

	begin(ours, 0);
	CLEANUP_FREE char *token = make_token("sa", "{\"audiences\":[\"" AUDIENCE "\"]}");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].fault);
		inject_api(rows[i].fault);
		struct answer a = review(token);
		ok(a.err.kind != ERR_DENIED && a.err.kind != ERR_NONE, "nothing was found out");
		if (rows[i].kind != ERR_UNAVAILABLE || i < 2)
			is_int(a.err.kind, rows[i].kind, "the kind");
		sim_api_clear_faults(api);
		is_int(review(token).err.kind, ERR_NONE, "the next one is asked again");
		turns(1100, 10);
	}
	row_end();
	finish();
}

/* ---- access ---- */

static void on_access(void *arg, const struct err *err)
{
	struct answer *a = arg;

	a->calls++;
	a->err.kind = ERR_NONE;
	if (err)
		a->err = *err;
}

static struct answer may(const struct kube_access *access)
{
	struct kube_identity who = {.username = "system:serviceaccount:x:y",
				    .uid = "u",
				    .ns = "x",
				    .service_account = "y",
				    .pod_name = "",
				    .pod_uid = "",
				    .node_name = ""};
	struct answer a = {0};

	kube_review_access_start(kube, &who, access, 0, on_access, &a, NULL);
	is_int(a.calls, 0, "no callback from within");
	ok(WITHIN(15000, a.calls == 1), "an answer");
	return a;
}

static void deny(const char *json)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (json_parse(str_of(json), &doc, NULL) < 0)
		bail_out("a rule of the test");
	sim_api_deny(api, json_root(doc));
}

static void test_access(void)
{
	static const struct kube_access pods = {
		.verb = "create", .ns = "x", .resource = "pods", .subresource = "exec"};
	static const struct kube_access metrics = {.verb = "get", .path = "/metrics"};
	struct answer a;

	begin(ours, 0);
	row_begin("access");
	is_int(may(&pods).err.kind, ERR_NONE, "to a resource");
	is_int(may(&metrics).err.kind, ERR_NONE, "to a path");
	deny("{\"path\":\"/metrics\",\"user\":\"system:serviceaccount:x:y\"}");
	deny("{\"resource\":\"pods\",\"user\":\"somebody else\"}");
	a = may(&metrics);
	is_int(a.err.kind, ERR_DENIED, "a path that is forbidden");
	has_str(a.err.msg, "a test has forbidden it", "with the reason");
	is_int(may(&pods).err.kind, ERR_NONE, "a resource that is forbidden to somebody else");
	deny("{\"verb\":\"create\",\"subresource\":\"exec\"}");
	is_int(may(&pods).err.kind, ERR_DENIED, "a resource that is forbidden");
	sim_api_allow_all(api);
	is_int(may(&pods).err.kind, ERR_NONE, "allowed again");
	inject_api("{\"kind\":\"status\",\"status\":403,\"resource\":\"subjectaccessreviews\"}");
	is_int(may(&pods).err.kind, ERR_UNAVAILABLE, "we may not ask");
	inject_api("{\"kind\":\"hang\",\"resource\":\"subjectaccessreviews\"}");
	is_int(may(&pods).err.kind, ERR_TIMEOUT, "no answer");
	row_begin("cancelled");
	struct answer none = {0};
	struct kube_identity who = {.username = "u", .uid = ""};
	struct op *op = kube_review_access_start(kube, &who, &pods, 0, on_access, &none, NULL);
	turns(1, 0);
	op_cancel(op);
	turns(20, 10);
	is_int(none.calls, 0, "no callback");
	row_end();
	finish();
}

/* ---- the simulator's tokens ---- */

static void test_requests(void)
{
	static const struct {
		const char *name, *account, *spec;
	} rows[] = {
		{"no such account", "nobody", "{}"},
		{"too short", "sa", "{\"expirationSeconds\":599}"},
		{"no such Pod", "sa", "{\"boundObjectRef\":{\"kind\":\"Pod\",\"name\":\"q\"}}"},
		{"another Pod of that name", "sa",
		 "{\"boundObjectRef\":{\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"x\"}}"},
		{"bound to something else", "sa",
		 "{\"boundObjectRef\":{\"kind\":\"Secret\",\"name\":\"p\"}}"},
		{"audiences that are no strings", "sa", "{\"audiences\":[1]}"},
	};

	begin(ours, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("a token: %s", rows[i].name);
		CLEANUP_FREE char *z = make_token(rows[i].account, rows[i].spec);
		is_str(z, "", "refused");
	}
	row_begin("a token that runs out");
	CLEANUP_FREE char *z = make_token("sa", "{\"audiences\":[\"" AUDIENCE "\"],"
						"\"expirationSeconds\":600}");
	is_int(review(z).err.kind, ERR_NONE, "is good");
	clock_advance(600000);
	struct answer a = review(z);
	is_int(a.err.kind, ERR_DENIED, "until then");
	has_str(a.err.msg, "expired", "why");
	row_begin("its account goes");
	CLEANUP_FREE char *y = make_token("sa", "{\"audiences\":[\"" AUDIENCE "\"]}");
	remove_object("serviceaccounts", "sa");
	is_int(review(y).err.kind, ERR_DENIED, "no good any more");
	row_end();
	finish();
}

/* ---- TokenRequest in protobuf ---- */

static const struct sim_wire {
	const char *name, *bytes;
	size_t len;
	const char *json; /* NULL: an error */
} wires[] = {
#define WIRE(z) z, sizeof(z) - 1
	{"all fields",
	 WIRE("k8s\0\x0a\x02\x0a\x00\x12\x23"
	      "\x0a\x00\x12\x1f\x0a\x01"
	      "a\x0a\x02"
	      "bc\x1a\x13\x0a\x03Pod\x12\x02v1\x1a\x01p\x22\x05u-u-u\x20\xb0\x09"),
	 "{\"spec\":{\"audiences\":[\"a\",\"bc\"],\"boundObjectRef\":{\"kind\":\"Pod\","
	 "\"apiVersion\":\"v1\",\"name\":\"p\",\"uid\":\"u-u-u\"},\"expirationSeconds\":1200}}"},
	{"nothing but the envelope", WIRE("k8s\0"), "{}"},
	{"no envelope", WIRE("\x0a\x00"), NULL},
	{"empty", WIRE(""), NULL},
	{"a length beyond the end", WIRE("k8s\0\x12\x05\x12\x01"), NULL},
	{"a spec that is cut", WIRE("k8s\0\x12\x04\x12\x02\x0a\x05"), NULL},
	{"a number without an end", WIRE("k8s\0\x12\xff"), NULL},
	{"a type that isn't used", WIRE("k8s\0\x15\x00\x00\x00\x00"), NULL},
#undef WIRE
};

static void test_wire(void)
{
	for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct buf out = BUF_INIT(4096);
		struct jmut *root = NULL;
		struct err err = ERR_INIT;
		int rc = sim_token_request_decode((struct str){wires[i].bytes, wires[i].len}, doc,
						  &root, &err);

		row_begin("protobuf: %s", wires[i].name);
		is_int(rc, wires[i].json ? 0 : -1, "read or not");
		if (rc == 0)
			jmut_write(root, JSON_COMPACT, &out, NULL);
		is_mem(out.p ? out.p : "", out.len, wires[i].json ? wires[i].json : "",
		       wires[i].json ? strlen(wires[i].json) : 0, "what it says");
		buf_done(&out);
	}
	row_end();
}

int main(void)
{
	log_set_level(LOG_ERROR);
	test_who();
	test_odd();
	test_kept();
	test_shared();
	test_api_errors();
	test_access();
	test_requests();
	test_wire();
	return done_testing();
}
