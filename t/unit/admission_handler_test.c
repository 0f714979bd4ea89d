/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler behind an HTTP server, with a scripted API server to ask: its answers in time, late,
 * never; callers that hang up; a stop in the middle; and how long a review may take.
 */
#include "kube_server.h"
#include "no_memory.h"

#include "admission/admission.h"
#include "core/log.h"
#include "core/metrics.h"
#include "http_test.h"

static struct srv *srv;
static struct kube_config *config;
static struct kube_client *client;
static struct admission_access *access_;
static struct admission *admission;
static admission_leave_fn *leave; /* of the next one */
static struct http_server *server;
static unsigned port;

/* ---- the rig ---- */

#define SAR       "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
#define NAMESPACE "GET /api/v1/namespaces/ns"
#define YES       {SAR, 201, NULL, "{\"status\":{\"allowed\":true}}", SRV_WHOLE}
#define NO        {SAR, 201, NULL, "{\"status\":{\"allowed\":false}}", SRV_WHOLE}
#define FREE      {NAMESPACE, 200, NULL, "{\"metadata\":{\"name\":\"ns\"}}", SRV_WHOLE}
#define SILENCE   {SAR, 0, NULL, NULL, SRV_HANG}

static void fill_site(void *arg, const char *ns, struct admission_site *ret)
{
	(void)arg, (void)ns, (void)ret; /* nothing is known */
}

static void begin(void)
{
	const struct http_server_config sc = {
		.limits = {.max_body_bytes = ADMISSION_MAX_BODY_BYTES},
		.on_answered = admission_on_answered};
	struct admission_access_opts opts = {.pods = {.launcher_image = "l", .worker_wait_s = 1}};
	struct kube_client_opts copts = {.loop = loop, .net = net};
	struct admission_config ac = {.loop = loop, .site = fill_site, .leave = leave};
	struct err err = ERR_INIT;

	config = srv_config(srv, "tok");
	copts.config = config;
	if (kube_client_new(&copts, &client, &err) < 0)
		bail_out(err.msg);
	ac.access = access_ = admission_access_new(client, &opts);
	admission = admission_new(&ac);
	server = http_server_new(net, &sc);
	if (http_server_listen(server, "127.0.0.1:0", NULL, admission_handle, admission, &port,
			       &err) < 0)
		bail_out(err.msg);
}

static void finish(void)
{
	http_server_free(server);
	admission_free(admission);
	admission_access_free(access_);
	close_client_of(srv, client, config);
}

/* Of the checks of jobs. */
static double counted(const char *result)
{
	static const char *const labels[] = {"webhook", "result", NULL};
	const char *values[] = {"validate-ipujob", result};

	return metric_value(metric_new(METRIC_COUNTER, "ipu_operator_admission_reviews_total",
				       "Reviews by what became of them.", labels, NULL, 0),
			    values);
}

#define JOB                                                                                        \
	"{\"metadata\":{\"name\":\"j\",\"namespace\":\"ns\",\"uid\":\"u\"},\"spec\":{"             \
	"\"jobInstances\":1,\"ipusPerJobInstance\":\"1\",\"restartPolicy\":{\"type\":\"Never\"},"  \
	"\"workers\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}" \
	"}}}"

static void send_review(struct end *e, const char *query, const char *object)
{
	CLEANUP_FREE char *body = xasprintf(
		"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{"
		"\"uid\":\"1\",\"kind\":{\"group\":\"graphcore.ai\",\"version\":\"v1alpha1\","
		"\"kind\":\"IPUJob\"},\"resource\":{\"group\":\"graphcore.ai\",\"version\":"
		"\"v1alpha1\",\"resource\":\"ipujobs\"},\"namespace\":\"ns\",\"operation\":"
		"\"CREATE\",\"userInfo\":{\"username\":\"ann\"},\"object\":%s}}",
		object);
	CLEANUP_FREE char *text = xasprintf(
		"POST " ADMISSION_PATH_VALIDATE_JOB
		"%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		query, strlen(body), body);

	raw_open(e, port, NULL);
	raw_send(e, text);
}

/* ---- one review ---- */

struct row {
	const char *name, *query, *object;
	struct srv_step steps[2];
	int64_t within_ms; /* of the clock's time, and not much before; 0: at once */
	const char *says, *result;
};

static const struct row rows[] = {
	{"allowed", "?timeout=10s", JOB, {YES, FREE}, 0, "\"allowed\":true", "allowed"},
	{"not allowed", "?timeout=10s", JOB, {NO, FREE}, 0, "\"code\":403", "refused"},
	{"wrong, and not allowed",
	 "?timeout=10s",
	 "{\"metadata\":{\"name\":\"j\"},\"spec\":{}}",
	 {NO, FREE},
	 0,
	 "\"code\":403",
	 "refused"},
	{"no answer", "?timeout=10s", JOB, {SILENCE, FREE}, 8750, "\"code\":503", "refused"},
	{"no answer in a short time",
	 "?timeout=1s",
	 JOB,
	 {SILENCE, FREE},
	 500,
	 "\"code\":503",
	 "refused"},
	{"no answer in a time that isn't said",
	 "",
	 JOB,
	 {SILENCE, FREE},
	 8750,
	 "\"code\":503",
	 "refused"},
};

static void test_rows(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct end e;
		int64_t began = clock_mono_ms(), took;
		double before;

		row_begin("%s", row->name);
		srv_script(srv, row->steps, 2, 0);
		srv->any_order = true;
		begin();
		before = counted(row->result);
		send_review(&e, row->query, row->object);
		ok(RUN_UNTIL(e.in.len > 0, row->within_ms ? 20 : 0), "an answer");
		settle();
		took = clock_mono_ms() - began;
		if (row->within_ms)
			ok(took >= row->within_ms - 50 && took <= row->within_ms + 190,
			   "after %lld ms", (long long)took);
		CLEANUP_FREE char *text = raw_text(&e);
		has_str(text, "HTTP/1.1 200 OK", "is an answer");
		has_str(text, row->says, "says");
		is_uint((uintmax_t)(counted(row->result) - before), 1, "counted");
		end_done(&e);
		finish();
	}
	row_end();
}

/* ---- elsewhere ---- */

static bool say_yes(void *arg, bool leaves)
{
	(void)arg;
	http_server_leave(server, leaves);
	return leaves;
}

static bool say_no(void *arg, bool leaves)
{
	(void)arg, (void)leaves;
	return false;
}

/* The answer to one review, and how long it took on the clock. */
static char *review_silently(int64_t *ret_ms)
{
	int64_t began = clock_mono_ms();
	char *text;
	struct end e;

	send_review(&e, "?timeout=30s", JOB);
	ok(RUN_UNTIL(e.in.len > 0, 50), "an answer");
	settle();
	*ret_ms = clock_mono_ms() - began;
	text = raw_text(&e);
	end_done(&e);
	return text;
}

/* Each allocation fails once whose size a peer decides: the API server is told to try again, and
 * never that its review is bad. */
static void test_memory(void)
{
	static const struct srv_step steps[] = {YES, FREE};
	unsigned again = 0, wrong = 0;

	srv_script(srv, steps, 2, 0);
	srv->any_order = true;
	begin();
	struct no_memory m = {.most = 59};

	while (no_memory_next(&m)) {
		struct end e;

		send_review(&e, "?timeout=10s", JOB);
		no_memory_begin(&m);
		RUN_UNTIL(e.in.len > 0 || e.eof || e.errors > 0, 10);
		no_memory_end(&m);
		settle();
		CLEANUP_FREE char *text = raw_text(&e);
		again += strncmp(text, "HTTP/1.1 503 ", 13) == 0;
		if (strncmp(text, "HTTP/1.1 4", 10) == 0 &&
		    strncmp(text, "HTTP/1.1 431 ", 13) != 0) {
			diag("allocation %lu: %s", m.n, text);
			wrong++;
		}
		end_done(&e);
	}
	is_uint(wrong, 0, "without memory, a review said to be bad");
	ok(again > 0, "but one to send again: %u times", again);
	finish();
}

/* The API server says nothing: other replicas may know more, and are asked before it's refused. */
static void test_elsewhere(void)
{
	static const struct srv_step steps[] = {SILENCE, {NAMESPACE, 0, NULL, NULL, SRV_HANG}};
	double before;
	int64_t ms;

	for (int may = 0; may < 2; may++) {
		row_begin(may ? "sent away" : "nobody refuses in our place");
		srv_script(srv, steps, 2, 0);
		srv->any_order = true;
		leave = may ? say_yes : say_no;
		begin();
		before = counted("elsewhere");
		for (unsigned i = 0; may && i < 9; i++) {
			CLEANUP_FREE char *text = review_silently(&ms);

			has_str(text, "HTTP/1.1 503 ", "no review");
			has_str(text, i < 3 ? "Retry-After: 0\r\n" : "Retry-After: 1\r\n", "when");
			has_str(text, "Connection: close", "by another connection");
			ok(i ? ms <= 300 : ms >= 4000 && ms <= 4500, "after %lld ms",
			   (long long)ms);
			clock_advance(i < 3 ? 0 : 1000);
		}
		CLEANUP_FREE char *text = review_silently(&ms);
		has_str(text, "HTTP/1.1 200 OK", "in the end it's answered");
		has_str(text, "\"code\":503", "refused");
		is_uint((uintmax_t)(counted("elsewhere") - before), may ? 9 : 0, "counted");
		finish();
	}
	row_end();
	leave = NULL;
}

/* The first answer that needed the API server, and had it, ends the leaving. */
static void test_heard_again(void)
{
	static const struct srv_step nothing[] = {SILENCE, {NAMESPACE, 0, NULL, NULL, SRV_HANG}};
	static const struct srv_step all[] = {YES, FREE};
	int64_t ms;

	srv_script(srv, nothing, 2, 0);
	srv->any_order = true;
	leave = say_yes;
	begin();
	for (int heard = 0; heard < 3; heard++) {
		CLEANUP_FREE char *text = review_silently(&ms);

		has_str(text, heard ? "HTTP/1.1 200 OK" : "HTTP/1.1 503 ", "an answer, or not");
		ok(!strstr(text, "Connection: close") == (heard > 1),
		   "what was begun meanwhile is the last of its connection, too");
		for (size_t i = 0; !heard && i < SRV_CONNS; i++)
			srv_drop(&srv->conns[i], false);
		settle();
		if (heard)
			continue;
		clock_advance(60000); /* what wasn't answered then is forgotten */
		srv_script(srv, all, 2, 0);
		srv->any_order = true;
	}
	finish();
	leave = NULL;
}

/* ---- ends ---- */

static void test_abandoned(void)
{
	static const struct srv_step steps[] = {SILENCE, {NAMESPACE, 0, NULL, NULL, SRV_HANG}};
	struct http_server_stats stats = {0};
	struct end e[8];

	srv_script(srv, steps, 2, 0);
	srv->any_order = true;
	begin();
	for (size_t i = 0; i < 8; i++)
		send_review(&e[i], "?timeout=30s", JOB);
	ok(PUMP((http_server_stats(server, &stats), stats.exchanges == 8)),
	   "the API server is being asked");
	for (size_t i = 0; i < 4; i++)
		end_done(&e[i]);
	ok(PUMP(counted("abandoned") >= 4), "callers hang up");
	is_uint((uintmax_t)counted("abandoned"), 4, "each counts once");
	finish(); /* with four in the middle: AddressSanitizer would tell of what is left */
	is_uint((uintmax_t)counted("abandoned"), 8, "the server's end too");
	for (size_t i = 4; i < 8; i++)
		end_done(&e[i]);
}

static void on_stopped(void *arg)
{
	++*(unsigned *)arg;
}

static void test_stop(void)
{
	static const struct srv_step steps[] = {SILENCE, FREE};
	unsigned stopped = 0;
	struct end e;

	srv_script(srv, steps, 2, 0);
	srv->any_order = true;
	begin();
	send_review(&e, "?timeout=3s", JOB);
	ok(PUMP(srv->next >= 2), "the API server is being asked");
	http_server_stop(server, 25000, on_stopped, &stopped);
	settle();
	is_uint(stopped, 0, "a review is under way: the stop waits");
	ok(RUN_UNTIL(stopped > 0, 20), "and ends");
	CLEANUP_FREE char *text = raw_text(&e);
	has_str(text, "\"code\":503", "with its answer");
	has_str(text, "Connection: close", "as the last");
	end_done(&e);
	finish();
}

/* ---- deadlines ---- */

static void test_deadlines(void)
{
	static const struct {
		const char *query;
		unsigned want_ms;
	} deadlines[] = {
		{"timeout=10s", 8750},
		{"timeout=30s", 28750},
		{"timeout=1s", 500},
		{"timeout=2s", 1000},
		{"timeout=3s", 1750},
		{"timeout=1m30s", 58750},
		{"timeout=1.5s", 750},
		{"timeout=500ms", 250},
		{"timeout=5s500ms", 4250},
		{"a=b&timeout=4s", 2750},
		{"timeout=1h", 58750},
		{"timeout=2000000us", 1000},
		{"", 8750},
		{"timeout=", 8750},
		{"timeout=0s", 8750},
		{"timeout=-5s", 8750},
		{"timeout=10", 8750},
		{"timeout=s", 8750},
		{"timeout=.s", 8750},
		{"timeout=1.2.3s", 8750},
		{"timeout=5x", 8750},
		{"timeout=10s%", 8750},
		{"timeout=99999999999h", 58750},
		{"timeout=9999999999999999s", 8750},
	};

	for (size_t i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++)
		is_uint(admission_deadline_ms(str_of(deadlines[i].query)), deadlines[i].want_ms,
			"?%s", deadlines[i].query);
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_begin();
	srv = srv_new(NULL);
	test_rows();
	test_memory();
	test_elsewhere();
	test_heard_again();
	test_abandoned();
	test_stop();
	test_deadlines();
	srv_free(srv);
	test_end();
	return done_testing();
}
