/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy between its parts: who may what, answers that are kept until something changes,
 * requests that wait for a change, and those that go on to the process that leads. On the partition
 * layer's rig.
 */
#include "proxy_rig.h"
#include "no_memory.h"

#include <sys/mman.h>

#define BODY(uid, ipus)                                                                             \
	"{\"owner\":{\"kind\":\"IPUJob\",\"namespace\":\"default\",\"name\":\"job\",\"uid\":\"" uid \
	"\"},\"instance\":0,\"ipus\":" ipus "}"

/* ---- the rig: replicas with their ports, and a client ---- */

static const char
	*page_token; /* NULL: replicas have no page; else the file that their token is in */

struct replica {
	struct proxy *proxy;
	struct http_server *server;
	unsigned open, secure;
};

static struct http_client *client;

static void replica_begin(struct replica *r)
{
	struct proxy_config config = {.loop = loop,
				      .partitions = parts,
				      .fleet = fleet,
				      .details = true,
				      .accounts = "somebody, " TRUSTED,
				      .kube = kube,
				      .http = client,
				      .page = page_token ? PROXY_PAGE_FULL : PROXY_PAGE_OFF,
				      .token_file = page_token};
	struct http_server_config sc = {.on_answered = proxy_on_answered};
	struct err err = ERR_INIT;

	r->proxy = sc.on_answered_arg = proxy_new(&config);
	proxy_set_peer_tls(r->proxy, tls.for_client, "localhost");
	r->server = http_server_new(net, &sc);
	if (http_server_listen(r->server, "127.0.0.1:0", NULL, proxy_handle_open, r->proxy,
			       &r->open, &err) < 0 ||
	    http_server_listen(r->server, "127.0.0.1:0", tls.for_server, proxy_handle_partitions,
			       r->proxy, &r->secure, &err) < 0)
		bail_out(err.msg);
}

static void replica_end(struct replica *r)
{
	http_server_free(r->server);
	proxy_free(r->proxy);
	turns(4, 0);
}

static void replica_follow(struct replica *r, unsigned leader_port)
{
	CLEANUP_FREE char *address = xasprintf("127.0.0.1:%u", leader_port);

	proxy_set_leader(r->proxy, false, leader_port ? address : NULL);
}

static void rest_begin(void)
{
	begin();
	client = http_client_new(net, &(struct http_client_config){.max_unary = 16});
	credentials_make();
	ok(WITHIN(5000, synced), "the tracker is read");
	ok(WITHIN(5000, partitions_count_fits(parts, 64) == 1), "and the controller");
}

static void rest_end(void)
{
	http_client_free(client);
	credentials_done();
	end();
}

/* ---- requests ---- */

struct reply {
	int status; /* 0: none yet; -1: no answer */
	char *body;
	char etag[32], location[128], retry_after[16];
};

static void take_field(const struct http_head *head, const char *name, char *z, size_t size)
{
	snprintf(z, size, "%.*s", STR_ARG(http_headers_get(&head->headers, name)));
}

static void on_reply(void *arg, const struct http_response *response, const struct err *err)
{
	struct reply *r = arg;

	if (err) {
		r->status = -1;
		return;
	}
	r->status = response->head->status;
	r->body = str_dup(response->body);
	take_field(response->head, "ETag", r->etag, sizeof(r->etag));
	take_field(response->head, "Location", r->location, sizeof(r->location));
	take_field(response->head, "Retry-After", r->retry_after, sizeof(r->retry_after));
}

static struct op *send_to(unsigned port, bool secure, enum http_method method, const char *target,
			  const char *body, const char *etag, struct reply *ret)
{
	CLEANUP_FREE char *bearer = xasprintf("Bearer %s", token);
	struct http_header fields[] = {{STR("Authorization"), str_of(bearer)},
				       {STR("If-None-Match"), str_of(etag)}};
	const struct http_request request = {
		.origin = {.host = "127.0.0.1",
			   .port = port,
			   .tls = secure ? tls.for_client : NULL,
			   .server_name = "localhost"},
		.method = method,
		.target = str_of(target),
		.headers = fields,
		.n_headers = etag ? 2 : 1,
		.body = str_of(body),
		.total_ms = 120000,
		.first_byte_ms = 120000,
	};

	free(ret->body);
	*ret = (struct reply){0};
	return http_fetch_start(client, &request, on_reply, ret, NULL);
}

static void ask(const struct replica *r, enum http_method method, const char *target,
		const char *body, int want, struct reply *ret)
{
	send_to(r->secure, true, method, target, body, NULL, ret);
	ok(WITHIN(30000, ret->status), "%s %s: answered", http_method_name(method), target);
	is_int(ret->status, want, "%s %s: %s", http_method_name(method), target,
	       ret->body ? ret->body : "");
}

/* ---- who may what ---- */

static void test_callers(void)
{
	const struct kube_identity pod = {.username = "system:serviceaccount:a:b",
					  .uid = "",
					  .ns = "a",
					  .service_account = "b",
					  .pod_name = "p",
					  .pod_uid = "u",
					  .node_name = ""};
	struct kube_identity plain = pod;
	struct partition_ask own = {
		.owner = {
			.kind = TEXT("Pod"), .ns = TEXT("a"), .name = TEXT("p"), .uid = TEXT("u")}};
	struct proxy_caller c;
	struct err err = ERR_INIT;

	proxy_caller_init(&c, &pod, "x, system:serviceaccount:a:bb,");
	ok(!c.trusted && proxy_caller_may(&c, "u") && !proxy_caller_may(&c, "v"),
	   "a Pod for itself");
	is_int(proxy_caller_check_ask(&c, &own, &err), 0, "and it may ask");
	own.created_ms = 1;
	is_int(proxy_caller_check_ask(&c, &own, &err), -1, "but not say how old it is");
	is_int(err.kind, ERR_DENIED, "which is denied");
	proxy_caller_done(&c);
	plain.pod_uid = plain.pod_name = "";
	proxy_caller_init(&c, &plain, "");
	ok(!proxy_caller_may(&c, "u") && !proxy_caller_may(&c, ""),
	   "an account without a Pod: nobody");
	proxy_caller_done(&c);
	proxy_caller_init(&c, &plain, " y,system:serviceaccount:a:b ");
	ok(c.trusted && proxy_caller_may(&c, "v"), "a trusted one: anybody");
	is_int(proxy_caller_check_ask(&c, &own, &err), 0, "with everything");
	proxy_caller_done(&c);
}

/* ---- what is kept ---- */

static char *get(const struct replica *r, const char *path)
{
	struct reply reply = {0};

	send_to(r->open, false, HTTP_METHOD_GET, path, NULL, NULL, &reply);
	ok(WITHIN(5000, reply.status == 200), "GET %s", path);
	return reply.body;
}

static bool shows(const struct replica *r, const char *path, const char *words)
{
	CLEANUP_FREE char *text = get(r, path);

	return strstr(text, words) != NULL;
}

static void test_views(void)
{
	struct replica r = {0};
	char *before, *after;

	rest_begin();
	replica_begin(&r);
	before = get(&r, "/stats");
	is_str(before, "{\"total\":{\"used\":0,\"available\":64}}\n", "nothing is used");
	free(before);
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "a partition");
	before = get(&r, "/partitions");
	has_str(before, "\"state\":\"active\"", "is shown");
	partition_release(parts, "u", 0);
	after = get(&r, "/partitions");
	has_str(after, "\"state\":\"releasing\"", "and that it goes, at once");
	free(before);
	free(after);
	ok(WITHIN(20000, is_over("u")), "it's gone");
	after = get(&r, "/partitions");
	is_str(after, "{\"items\":[]}\n", "from the list too");
	free(after);
	vipu_fleet_configure(fleet, NULL, 0);
	turns(2, 0);
	after = get(&r, "/controllers");
	is_str(after, "{\"items\":[]}\n", "a controller that goes is gone");
	free(after);
	configure(true);
	replica_end(&r);
	rest_end();
}

/* A file that a token is in. */
static int token_file(char **ret_path)
{
	int fd = memfd_create("token", MFD_CLOEXEC);

	if (fd < 0 || write(fd, "a-token", 7) != 7)
		bail_out("a file for a token");
	*ret_path = xasprintf("/proc/self/fd/%d", fd);
	return fd;
}

#define HELD "{\"held\":7,\"items\":[]}"
#define PODS                                                                                             \
	"{\"items\":[{\"owner\":\"u\",\"instance\":0,\"pods\":[{\"name\":\"p-0\",\"phase\":\"Running\"," \
	"\"node\":\"n\"}]}]}"

static const struct question {
	const char *what;
	bool secure;
	enum http_method method;
	const char *target, *body;
	int want;        /* the only answer that tells something */
	const char *has; /* what is in it; NULL: whatever there is */
} questions[] = {
	{"sums", false, HTTP_METHOD_GET, "/stats", NULL, 200, "\"used\":4"},
	{"asking for one", true, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), 200, "IPUJob"},
	{"looking at it", true, HTTP_METHOD_GET, "/v1/partitions/u/0", NULL, 200, "active"},
	{"its files", true, HTTP_METHOD_GET, "/v1/partitions/u/0/ipuof", NULL, 200, "files"},
	{"an owner's", true, HTTP_METHOD_GET, "/v1/partitions?uid=u", NULL, 200, "active"},
	{"all", true, HTTP_METHOD_GET, "/v1/partitions", NULL, 200, "active"},
	{"a size", false, HTTP_METHOD_GET, "/query?size=2", NULL, 200, "{"},
	{"a size in a body", false, HTTP_METHOD_POST, "/query", "{\"size\":2}", 200, "{"},
	{"what is held", true, HTTP_METHOD_PUT, "/v1/held", HELD, 204, NULL},
	{"what was held", true, HTTP_METHOD_GET, "/v1/held", NULL, 200, "\"held\":7"},
	{"something else", true, HTTP_METHOD_PUT, "/v1/held", "{\"same\":\"x\"}", 409, NULL},
	{"Pods", true, HTTP_METHOD_PUT, "/v1/pods/3", PODS, 204, NULL},
	{"Pods that there were", true, HTTP_METHOD_GET, "/v1/pods", NULL, 200, "p-0"},
	{"another attempt's end", true, HTTP_METHOD_DELETE, "/v1/partitions/u/0?attempt=7", NULL,
	 409, NULL},
	{"its end", true, HTTP_METHOD_DELETE, "/v1/partitions/u/0", NULL, 202, "releasing"},
};

static void put_question(const struct replica *r, const struct question *q, struct reply *ret)
{
	send_to(q->secure ? r->secure : r->open, q->secure, q->method, q->target, q->body, NULL,
		ret);
}

static bool is_right(const struct question *q, const struct reply *reply)
{
	return reply->status == q->want &&
	       (!q->has || (reply->body && strstr(reply->body, q->has)));
}

/* As it's to be before each question: u has a partition, and the page has been told all. */
static void make_ready(const struct replica *r)
{
	struct reply reply = {0};

	want("u", 4);
	WITHIN(20000, is("u", PARTITION_STATE_ACTIVE));
	ask(r, HTTP_METHOD_PUT, "/v1/held", HELD, 204, &reply);
	ask(r, HTTP_METHOD_PUT, "/v1/pods/3", PODS, 204, &reply);
	free(reply.body);
	turns(2, 1500); /* so that answers are made anew */
}

/* Each allocation on the way of a question and its answer, and whose size one of the two decides,
 * fails once: there's the right answer, or none, or one of the kind 5xx, and the next one is
 * answered. */
static void lose_memory(const struct replica *r, const struct question *q)
{
	unsigned stuck = 0, wrong = 0, lost = 0;
	struct no_memory m = {0};

	row_begin("%s", q->what);
	while (no_memory_next(&m)) {
		struct reply reply = {0};

		make_ready(r);
		no_memory_begin(&m);
		put_question(r, q, &reply);
		stuck += !WITHIN(15000, reply.status);
		no_memory_end(&m);
		if (reply.status > 0 && reply.status < 500 && !is_right(q, &reply)) {
			diag("allocation %lu: %d %s", m.n, reply.status, reply.body);
			wrong++;
		}
		make_ready(r);
		put_question(r, q, &reply);
		lost += !WITHIN(15000, reply.status) || !is_right(q, &reply);
		free(reply.body);
	}
	no_memory_ok(&m, 5);
	is_uint(stuck, 0, "none leaves the one who asked without an end");
	is_uint(wrong, 0, "nor with an answer that isn't right");
	is_uint(lost, 0, "nor the next one without an answer");
}

static void test_memory(void)
{
	struct replica r = {0};
	CLEANUP_FREE char *path = NULL;
	int fd = token_file(&path);

	page_token = path;
	rest_begin();
	replica_begin(&r);
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
		lose_memory(&r, &questions[i]);
	row_end();
	replica_end(&r);
	rest_end();
	page_token = NULL;
	close(fd);
}

/* ---- waiting ---- */

static void changed(const struct partition_owner *owner, void *arg)
{
	proxy_partition_changed(arg, owner);
}

/* The layer's notices go where they go in the daemon. */
static void listen_to_parts(struct replica *r)
{
	struct partitions_config config = {
		.ns = NS, .tracker_name = TRACKER, .times = partition_times_default};

	partitions_free(parts);
	synced = false;
	parts = partitions_new(loop, kube, fleet, &config, on_synced, changed, r->proxy);
	proxy_set_partitions(r->proxy, parts);
	ok(WITHIN(5000, synced), "read again");
}

static void test_waiting(void)
{
	struct reply first = {0}, replies[9] = {{0}}, gone = {0};
	struct replica r = {0};
	struct op *op;
	unsigned n = 0;

	rest_begin();
	replica_begin(&r);
	listen_to_parts(&r);
	ask(&r, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), 201, &first);
	is_str(first.location, "/v1/partitions/u/0", "where it is");
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	ask(&r, HTTP_METHOD_GET, "/v1/partitions/u/0", NULL, 200, &first);
	for (size_t i = 0; i < 9; i++)
		send_to(r.secure, true, HTTP_METHOD_GET, "/v1/partitions/u/0?wait=60", NULL,
			first.etag, &replies[i]);
	turns(200, 10);
	for (size_t i = 0; i < 9; i++)
		n += replies[i].status == 304;
	is_uint(n, 1, "of nine for one owner, eight wait");
	op = send_to(r.secure, true, HTTP_METHOD_GET, "/v1/partitions/none/0?wait=60", NULL, NULL,
		     &gone);
	ok(WITHIN(5000, gone.status == 404), "for nothing nobody waits");
	partition_reset(parts, "u", 0);
	n = 0;
	for (size_t i = 0; i < 9; i++) {
		ok(WITHIN(5000, replies[i].status), "a change wakes it");
		n += replies[i].status == 200 && strstr(replies[i].body, "resetting");
	}
	is_uint(n, 8, "all that waited are told");
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "reset");
	ask(&r, HTTP_METHOD_GET, "/v1/partitions/u/0", NULL, 200, &first);
	op = send_to(r.secure, true, HTTP_METHOD_GET, "/v1/partitions/u/0?wait=60", NULL,
		     first.etag, &gone);
	turns(100, 10);
	op_cancel(op);
	turns(100, 10);
	send_to(r.secure, true, HTTP_METHOD_GET, "/v1/partitions/u/0?wait=5", NULL, first.etag,
		&replies[0]);
	ok(WITHIN(8000, replies[0].status == 304),
	   "one that left hurts nobody; five seconds are up");
	send_to(r.secure, true, HTTP_METHOD_GET, "/v1/partitions/u/0?wait=60", NULL, first.etag,
		&replies[0]);
	turns(100, 10);
	listen_to_parts(&r);
	ok(WITHIN(5000, replies[0].status == 503), "made anew: ask again");
	is_str(replies[0].retry_after, "1", "soon");
	send_to(r.secure, true, HTTP_METHOD_GET, "/v1/partitions/u/0?wait=60", NULL, NULL,
		&replies[0]);
	turns(100, 10);
	proxy_stop(r.proxy);
	ok(WITHIN(1000, replies[0].status == 200), "the end isn't waited for");
	free(first.body);
	free(gone.body);
	for (size_t i = 0; i < 9; i++)
		free(replies[i].body);
	replica_end(&r);
	rest_end();
}

/* ---- passing on ---- */

static unsigned n_cut;

/* A leader that takes the request and breaks off. */
static void cut_off(struct http_exchange *ex, void *arg)
{
	(void)arg;
	n_cut++;
	http_reply_begin(ex, 200, "application/json", NULL, 0);
	http_reply_write(ex, STR("{"));
	http_reply_abort(ex);
}

/* A leader that has taken a reset, of which the tracker doesn't know yet. */
static void say_resetting(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "application/json", NULL, 0, STR("{\"state\":\"resetting\"}"));
}

static void test_behind(void)
{
	struct replica follower = {0};
	struct http_server *ahead;
	struct reply r = {0};
	struct err err = ERR_INIT;
	unsigned port;

	rest_begin();
	replica_begin(&follower);
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active, by what the follower knows");
	ahead = http_server_new(net, NULL);
	if (http_server_listen(ahead, "127.0.0.1:0", tls.for_server, say_resetting, NULL, &port,
			       &err) < 0)
		bail_out(err.msg);
	replica_follow(&follower, port);
	ask(&follower, HTTP_METHOD_GET, "/v1/partitions/u/0", NULL, 200, &r);
	has_str(r.body, "resetting", "the leader's word counts");
	replica_follow(&follower, 0);
	ask(&follower, HTTP_METHOD_GET, "/v1/partitions/u/0?wait=5", NULL, 503, &r);
	ask(&follower, HTTP_METHOD_GET, "/v1/partitions?uid=u", NULL, 503, &r);
	ask(&follower, HTTP_METHOD_GET, "/v1/partitions", NULL, 200, &r);
	has_str(r.body, "active", "the list of all is for people, and answered by everybody");
	http_server_free(ahead);
	free(r.body);
	replica_end(&follower);
	rest_end();
}

static void on_silent_abort(struct http_exchange *ex, void *arg)
{
	(void)ex;
	(void)arg;
}

static void say_nothing(struct http_exchange *ex, void *arg)
{
	unsigned *n = arg;

	(*n)++;
	http_exchange_on_abort(ex, on_silent_abort, NULL);
}

/* Whom the follower passes its requests on to takes them, and dies. */
static void test_another_leads(struct replica *follower, const struct replica *leader)
{
	struct http_server *dead = http_server_new(net, NULL);
	struct reply looks = {0}, asks = {0};
	struct err err = ERR_INIT;
	unsigned port, n = 0;

	if (http_server_listen(dead, "127.0.0.1:0", tls.for_server, say_nothing, &n, &port, &err) <
	    0)
		bail_out(err.msg);
	replica_follow(follower, port);
	send_to(follower->secure, true, HTTP_METHOD_GET, "/v1/partitions/u/0", NULL, NULL, &looks);
	send_to(follower->secure, true, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), NULL,
		&asks);
	ok(WITHIN(5000, n == 2), "both are passed on");
	replica_follow(follower, port);
	replica_follow(follower, 0);
	turns(100, 10);
	ok(!looks.status && !asks.status, "nobody else leads yet: they wait");
	replica_follow(follower, leader->secure);
	ok(WITHIN(100, looks.status && asks.status), "another leads: they are answered at once");
	is_int(looks.status, 503, "the look: %s", looks.body);
	is_str(looks.retry_after, "1", "to be asked again");
	is_int(asks.status, 502, "the ask");
	has_str(asks.body, "may have taken effect", "which may be in effect");

	replica_follow(follower, port);
	send_to(follower->secure, true, HTTP_METHOD_GET, "/v1/partitions/u/0", NULL, NULL, &looks);
	ok(WITHIN(5000, n == 3), "passed on");
	proxy_set_leader(follower->proxy, true, NULL);
	ok(WITHIN(100, looks.status), "the follower itself leads");
	is_int(looks.status, 503, "the look: %s", looks.body);
	free(looks.body);
	free(asks.body);
	http_server_free(dead);
	turns(4, 0);
}

static void test_passing_on(void)
{
	struct replica leader = {0}, follower = {0};
	struct http_server *rude;
	struct reply r = {0};
	struct err err = ERR_INIT;
	unsigned rude_port, mute_port = 0;

	rest_begin();
	replica_begin(&leader);
	replica_begin(&follower);
	replica_follow(&follower, leader.secure);
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions?reset=false", BODY("u", "4"), 201, &r);
	is_str(r.location, "/v1/partitions/u/0", "passed on: where it is");
	is_uint(strlen(r.etag), 18, "and its tag");
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "3"), 400, &r);
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), 200, &r);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "the leader has made it");
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions/u/0/reset", NULL, 202, &r);
	ask(&follower, HTTP_METHOD_GET, "/v1/partitions/u/0", NULL, 200, &r);
	ask(&follower, HTTP_METHOD_GET, "/v1/partitions/none/0", NULL, 404, &r);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "reset");
	ask(&follower, HTTP_METHOD_GET, "/v1/partitions/u/0/ipuof", NULL, 200, &r);
	has_str(r.body, "ipuof-0.conf", "the leader asks the controller");
	ask(&follower, HTTP_METHOD_DELETE, "/v1/partitions/u/0", NULL, 202, &r);
	ok(WITHIN(20000, is_over("u")), "gone");
	ask(&follower, HTTP_METHOD_DELETE, "/v1/partitions/u", NULL, 204, &r);

	replica_follow(&leader, follower.secure);
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), 503, &r);
	is_str(r.retry_after, "1", "two that follow each other: once, and no further");
	replica_follow(&follower, 0);
	ask(&follower, HTTP_METHOD_DELETE, "/v1/partitions/u", NULL, 503, &r);
	is_str(r.retry_after, "1", "nobody leads: ask again");
	is_uint(partition_held(parts, "u"), 0, "nothing was asked for");

	rude = http_server_new(net, NULL);
	if (http_server_listen(rude, "127.0.0.1:0", tls.for_server, cut_off, NULL, &rude_port,
			       &err) < 0)
		bail_out(err.msg);
	replica_follow(&follower, rude_port);
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), 502, &r);
	has_str(r.body, "may have taken effect", "a leader that breaks off: who knows");
	is_uint(n_cut, 1, "and it isn't asked twice");
	http_server_free(rude);
	turns(4, 0);
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), 503, &r);

	int mute = mute_begin(&mute_port);
	replica_follow(&follower, mute_port);
	int64_t began = clock_mono_ms();
	ask(&follower, HTTP_METHOD_POST, "/v1/partitions", BODY("u", "4"), 503, &r);
	int64_t took = clock_mono_ms() - began;
	ok(took >= 2000 && took < 2500, "a leader that is gone: after 2 s (%lld ms)",
	   (long long)took);
	is_str(r.retry_after, "1", "ask again");
	close(mute);
	test_another_leads(&follower, &leader);
	free(r.body);
	replica_end(&follower);
	replica_end(&leader);
	rest_end();
}

/* ---- what who leads says is held ---- */

static struct http_exchange *held_back; /* the answer, where it's given later */
static bool holds_back;
static const char *held_tag; /* of the next answer; NULL: none */
static unsigned n_held, n_tagged, n_pods;

static void say_held(struct http_exchange *ex, void *arg)
{
	struct http_header field = {STR("ETag"), str_of(held_tag)};

	(void)arg;
	if (!str_eqz(ex->path, "/v1/held")) {
		n_pods++;
		http_reply(ex, 200, "application/json", NULL, 0, STR("{\"items\":[]}"));
		return;
	}
	n_held++;
	n_tagged += http_headers_has(ex->headers, "if-none-match");
	if (holds_back) {
		http_exchange_on_abort(ex, on_silent_abort, NULL);
		held_back = ex;
		return;
	}
	http_reply(ex, 200, "application/json", &field, held_tag ? 1 : 0,
		   STR("{\"held\":0,\"items\":[]}"));
}

/* Looks at the follower's page until the leader has been asked once more. */
static void look_until_asked(struct replica *follower, const char *tag, bool asks_with_tag)
{
	unsigned asked = n_held, tagged = n_tagged;
	struct reply r = {0};

	held_tag = tag;
	for (int64_t end = clock_mono_ms() + 20000; n_held == asked && clock_mono_ms() < end;) {
		send_to(follower->open, false, HTTP_METHOD_GET, "/live", NULL, NULL, &r);
		if (!WITHIN(5000, r.status))
			break;
		turns(30, 10);
	}
	is_uint(n_held, asked + 1, "who leads is asked");
	is_uint(n_tagged - tagged, asks_with_tag ? 1 : 0, "with the tag that it gave last: %s",
		asks_with_tag ? "yes" : "no");
	free(r.body);
}

static void test_tags(void)
{
	struct replica follower = {0};
	struct http_server *ahead;
	struct err err = ERR_INIT;
	CLEANUP_FREE char *path = NULL;
	unsigned port;
	int fd = token_file(&path);

	page_token = path;
	rest_begin();
	replica_begin(&follower);
	ahead = http_server_new(net, NULL);
	if (http_server_listen(ahead, "127.0.0.1:0", tls.for_server, say_held, NULL, &port, &err) <
	    0)
		bail_out(err.msg);
	replica_follow(&follower, port);
	look_until_asked(&follower, NULL, false);
	look_until_asked(&follower, "\"0123456789abcdef\"", false);
	look_until_asked(&follower, "\"one that is longer than any of ours\"", true);
	look_until_asked(&follower, NULL, false);
	holds_back = true;
	look_until_asked(&follower, NULL, false);
	replica_follow(&follower, 0); /* who leads gives its Lease back meanwhile */
	http_reply(held_back, 200, NULL, NULL, 0, STR("{\"held\":0,\"items\":[]}"));
	turns(100, 10);
	is_uint(n_pods, 4,
		"Pods are asked for behind each answer, but nobody is when nobody leads");
	http_server_free(ahead);
	replica_end(&follower);
	rest_end();
	page_token = NULL;
	close(fd);
}

/* ---- Pods on their nodes ---- */

static const char *labels_now; /* "": none; NULL: not known yet */

static int find_labels(void *arg, const char *node, char **ret, struct err *err)
{
	(void)arg;
	is_str(node, "n1", "the node of the token");
	if (!labels_now)
		return err_set(err, ERR_UNAVAILABLE, 0, "in a moment");
	*ret = labels_now[0] ? xstrdup(labels_now) : NULL;
	return 0;
}

/* A Pod on n1, and a token that is bound to it instead of the trusted one. */
static const char *become_pod(const char *name)
{
	static const char spec[] =
		"\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}";
	CLEANUP_FREE char *pod = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{"
					   "\"name\":\"%s\",\"namespace\":\"" NS "\"},%s}",
					   name, spec);
	CLEANUP_FREE char *body = NULL;
	const struct sim_object *o;
	struct kube_request request = {.verb = KUBE_CREATE,
				       .resource = &KUBE_SERVICEACCOUNTS,
				       .ns = NS,
				       .name = "default",
				       .subresource = "token"};
	static char uid[64];

	make_object("pods", pod);
	o = sim_objects_get(objects, sim_resource_find(STR(""), STR("pods")), STR(NS),
			    str_of(name));
	snprintf(uid, sizeof(uid), "%.*s", STR_ARG(kube_uid(o ? sim_object_json(o) : NULL)));
	body = xasprintf("{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\","
			 "\"spec\":{\"audiences\":[\"" PROXY_AUDIENCE "\"],\"boundObjectRef\":{"
			 "\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"%s\",\"uid\":\"%s\"}}}",
			 name, uid);
	request.body = str_of(body);
	free(token);
	token = NULL;
	kube_call_start(kube, &request, on_token, NULL, NULL);
	if (!WITHIN(5000, token) || !token[0])
		bail_out("no token of a Pod's");
	return uid;
}

static void ask_as_pod(const struct replica *r, const char *name, const char *options, int want,
		       struct reply *ret)
{
	const char *uid = become_pod(name);
	CLEANUP_FREE char *body = xasprintf("{\"owner\":{\"kind\":\"Pod\",\"namespace\":\"" NS "\","
					    "\"name\":\"%s\",\"uid\":\"%s\"},\"instance\":0,"
					    "\"ipus\":2%s}",
					    name, uid, options);

	ask(r, HTTP_METHOD_POST, "/v1/partitions", body, want, ret);
}

static void test_nodes(void)
{
	struct replica r = {0};
	struct reply reply = {0};
	char *text;

	rest_begin();
	replica_begin(&r);
	listen_to_parts(&r);
	proxy_set_node_labels(r.proxy, find_labels, NULL);
	labels_now = NULL;
	ask_as_pod(&r, "early", "", 503, &reply);
	labels_now = "pod=b";
	ask_as_pod(&r, "elsewhere", "", 201, &reply);
	turns(100, 10);
	text = get(&r, "/queue");
	has_str(text, "is reached from its node (pod=b)", "it waits for its own node's controller");
	free(text);
	ask_as_pod(&r, "allocated", ",\"options\":{\"allocation\":\"x\"}", 201, &reply);
	turns(100, 10);
	text = get(&r, "/queue");
	ok(!strstr(text, "has the allocation"), "it's the node, not the allocation: %s", text);
	free(text);
	labels_now = "pod=c,pod=a";
	ask_as_pod(&r, "here", "", 201, &reply);
	ok(WITHIN(5000, shows(&r, "/partitions", "\"name\":\"here\"")),
	   "one of its node's controllers serves it");
	labels_now = "";
	ask_as_pod(&r, "anywhere", "", 201, &reply);
	ok(WITHIN(5000, shows(&r, "/partitions", "\"name\":\"anywhere\"")),
	   "a node that says nothing: any does");
	free(reply.body);
	replica_end(&r);
	rest_end();
}

int main(void)
{
	test_callers();
	test_views();
	test_memory();
	test_waiting();
	test_nodes();
	test_behind();
	test_passing_on();
	test_tags();
	metrics_reset();
	return done_testing();
}
