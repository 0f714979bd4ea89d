/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of Events against a scripted API server: what is sent, what is counted instead, what
 * is dropped, and what happens when the server says no.
 */
#include "kube_server.h"

#include <malloc.h>

#include "core/json.h"
#include "core/log.h"
#include "core/metrics.h"
#include "kube/event.h"

#define SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define POST    "POST /api/v1/namespaces/n/events"
#define PATCH   "PATCH /api/v1/namespaces/n/events/j."
#define STATUS(code, reason)                                                                       \
	"{\"kind\":\"Status\",\"code\":" code ",\"reason\":\"" reason "\",\"message\":\"said\"}"
#define TAKEN(method) {method, 201, NULL, "{}", SRV_WHOLE}

static struct srv *srv;
static struct kube_config *config;
static struct kube_client *client;
static struct kube_recorder *recorder;

static const struct kube_ref job = {.api_version = "graphcore.ai/v1alpha1",
				    .kind = "IPUJob",
				    .ns = "n",
				    .name = "j",
				    .uid = "u-1",
				    .version = "7"};

static void begin(const struct srv_step *steps, size_t n)
{
	srv_script(srv, steps, n, 0);
	config = srv_config(srv, NULL);
	client = client_for(config, NULL);
	recorder = kube_recorder_new(client, "ipu-operator", "replica-0");
}

static void end(void)
{
	kube_recorder_free(recorder);
	close_client_of(srv, client, config);
}

static bool flush(void)
{
	return RUN_UNTIL(kube_recorder_waiting(recorder) == 0, 1);
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;
	for (const char *p = text; (p = strstr(p, part)); p++)
		n++;
	return n;
}

static void test_one(void)
{
	static const struct srv_step steps[] = {TAKEN(POST),
						TAKEN("POST /api/v1/namespaces/default/events")};
	CLEANUP_JSON struct json_doc *doc = NULL;
	begin(steps, 2);
	kube_event(recorder, &job, KUBE_EVENT_WARNING, "PartitionRefused",
		   "no room for %d \"IPUs\"", 4);
	is_uint(srv->next, 0, "never at once");
	is_uint(kube_recorder_waiting(recorder), 1, "it waits");
	ok(flush(), "sent");
	const char *body = strstr(srv->log, "body=");
	struct err err = ERR_INIT;
	CLEANUP_FREE char *copy = xstrndup(body + 5, strcspn(body + 5, "\n"));
	if (!ok(json_parse(str_of(copy), &doc, &err) == 0, "JSON: %s", err.msg))
		return;
	const struct json *e = json_root(doc);
	static const struct {
		const char *a, *b, *want;
	} members[] = {
		{"kind", NULL, "Event"},
		{"apiVersion", NULL, "v1"},
		{"metadata", "namespace", "n"},
		{"involvedObject", "kind", "IPUJob"},
		{"involvedObject", "apiVersion", "graphcore.ai/v1alpha1"},
		{"involvedObject", "namespace", "n"},
		{"involvedObject", "name", "j"},
		{"involvedObject", "uid", "u-1"},
		{"involvedObject", "resourceVersion", "7"},
		{"type", NULL, "Warning"},
		{"reason", NULL, "PartitionRefused"},
		{"message", NULL, "no room for 4 \"IPUs\""},
		{"source", "component", "ipu-operator"},
		{"reportingComponent", NULL, "ipu-operator"},
		{"reportingInstance", NULL, "replica-0"},
		{"firstTimestamp", NULL, "2024-06-01T00:00:00Z"},
		{"lastTimestamp", NULL, "2024-06-01T00:00:00Z"},
	};
	for (size_t i = 0; i < SIZE(members); i++)
		is_str(json_cstr(json_at(e, members[i].a, members[i].b, NULL)), members[i].want,
		       "%s %s", members[i].a, members[i].b ? members[i].b : "");
	is_int(json_int(json_get(e, "count"), 0), 1, "count");
	struct str name = json_str(json_at(e, "metadata", "name", NULL));
	ok(str_has_prefix(name, STR("j.")) && name.len == 2 + 20, "its name: %.*s", STR_ARG(name));

	const struct kube_ref node = {
		.api_version = "v1", .kind = "Node", .name = "n1", .uid = "u-2"};
	kube_event(recorder, &node, KUBE_EVENT_NORMAL, "Seen", "hello");
	ok(flush(), "sent");
	is_uint(srv->surprises, 0, "of a cluster's object: in default");
	end();
}

static void test_counting(void)
{
	static const struct srv_step steps[] = {TAKEN(POST), TAKEN(PATCH), TAKEN(POST), TAKEN(POST),
						TAKEN(POST)};
	begin(steps, SIZE(steps));
	for (int i = 0; i < 3; i++)
		kube_event(recorder, &job, KUBE_EVENT_NORMAL, "Waiting", "for IPUs");
	ok(flush(), "sent");
	has_str(srv->log, "\"count\":3", "what comes while it waits is counted in it");
	clock_advance(5000);
	kube_event(recorder, &job, KUBE_EVENT_NORMAL, "Waiting", "for IPUs");
	ok(flush(), "sent");
	has_str(srv->log,
		"type=application/merge-patch+json body={\"count\":4,\"lastTimestamp\":\"2024-06-01T",
		"later ones are a patch");
	kube_event(recorder, &job, KUBE_EVENT_NORMAL, "Waiting", "for more IPUs");
	kube_event(recorder, &job, KUBE_EVENT_WARNING, "Waiting", "for IPUs");
	ok(flush(), "sent");
	clock_advance(KUBE_EVENT_AGGREGATE_MS + 1);
	kube_event(recorder, &job, KUBE_EVENT_NORMAL, "Waiting", "for IPUs");
	ok(flush(), "sent");
	is_uint(srv->next, 5, "another message, another level, and after ten minutes: new Events");
	is_uint(srv->surprises, 0, "and nothing else");
	end();
}

static void test_limits(void)
{
	enum { N = KUBE_EVENT_BURST + 2 };
	static struct srv_step steps[N];
	for (size_t i = 0; i < N; i++)
		steps[i] = (struct srv_step)TAKEN(POST);
	begin(steps, N);
	for (int i = 0; i < 100; i++)
		kube_event(recorder, &job, KUBE_EVENT_NORMAL, "R", "number %d", i);
	ok(flush(), "sent");
	is_uint(srv->next, KUBE_EVENT_BURST, "a burst");
	const struct kube_ref other = {
		.api_version = "v1", .kind = "Pod", .ns = "n", .name = "p", .uid = "u-9"};
	kube_event(recorder, &other, KUBE_EVENT_NORMAL, "R", "of another object");
	ok(flush(), "sent");
	is_uint(srv->next, KUBE_EVENT_BURST + 1, "another object has a budget of its own");
	clock_advance(KUBE_EVENT_REFILL_MS);
	for (int i = 0; i < 3; i++)
		kube_event(recorder, &job, KUBE_EVENT_NORMAL, "R", "later number %d", i);
	ok(flush(), "sent");
	is_uint(srv->next, KUBE_EVENT_BURST + 2, "then one more each five minutes");
	end();
}

static void test_queue(void)
{
	static const struct srv_step hang[] = {{POST, 0, NULL, NULL, SRV_HANG}};
	char name[32];
	begin(hang, 1);
	for (int i = 0; i < KUBE_EVENT_QUEUE + 200; i++) {
		struct kube_ref ref = job;
		snprintf(name, sizeof(name), "j%d", i);
		ref.name = ref.uid = name;
		kube_event(recorder, &ref, KUBE_EVENT_NORMAL, "R", "m");
	}
	is_uint(kube_recorder_waiting(recorder), KUBE_EVENT_QUEUE, "the queue is bounded");
	run(5, 1);
	is_uint(srv->next, 1, "one at a time");
	end();
	pass("freed with a full queue");
}

static const struct {
	const char *name;
	struct srv_step steps[6];
} refusals[] = {
	{"busy, then taken",
	 {{POST, 429, "Retry-After: 1\r\n", "", SRV_WHOLE}, TAKEN(POST), TAKEN(PATCH)}},
	{"unavailable, then taken", {{POST, 503, NULL, "", SRV_WHOLE}, TAKEN(POST), TAKEN(PATCH)}},
	{"the answer was lost, and it's there",
	 {{POST, 0, NULL, NULL, SRV_RESET},
	  {POST, 409, NULL, STATUS("409", "AlreadyExists"), SRV_WHOLE},
	  TAKEN(PATCH)}},
	{"refused: given up",
	 {{POST, 403, NULL, STATUS("403", "Forbidden"), SRV_WHOLE},
	  {PATCH, 403, NULL, STATUS("403", "Forbidden"), SRV_WHOLE}}},
	{"expired there: made again",
	 {TAKEN(POST), {PATCH, 404, NULL, STATUS("404", "NotFound"), SRV_WHOLE}, TAKEN(POST)}},
	{"a server that is gone: given up after a few",
	 {{POST, 503, NULL, "", SRV_WHOLE},
	  {POST, 503, NULL, "", SRV_WHOLE},
	  {POST, 503, NULL, "", SRV_WHOLE},
	  {POST, 503, NULL, "", SRV_WHOLE},
	  TAKEN(PATCH)}},
};

static void test_refusals(void)
{
	for (size_t i = 0; i < SIZE(refusals); i++) {
		size_t n = 0;
		while (n < SIZE(refusals[i].steps) && refusals[i].steps[n].expect)
			n++;
		row_begin("%s", refusals[i].name);
		begin(refusals[i].steps, n);
		kube_event(recorder, &job, KUBE_EVENT_NORMAL, "R", "m");
		ok(RUN_UNTIL(kube_recorder_waiting(recorder) == 0, 10), "the first is done with");
		kube_event(recorder, &job, KUBE_EVENT_NORMAL, "R", "m");
		ok(RUN_UNTIL(kube_recorder_waiting(recorder) == 0, 10), "the second is done with");
		is_uint(srv->next, n, "requests");
		is_uint(srv->surprises, 0, "no others");
		end();
	}
	row_end();
}

static void test_cut(void)
{
	static const struct srv_step steps[] = {TAKEN(POST), TAKEN(POST)};
	char large[3000];
	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\0';
	begin(steps, 2);
	kube_event(recorder, &job, KUBE_EVENT_NORMAL, "R", "%s", large);
	ok(flush(), "sent");
	is_uint(count(srv->log, "x"), 1024, "the message is cut");
	srv->log[0] = '\0';
	struct kube_ref ref = job;
	large[253] = '\0';
	large[199] = '.';
	ref.name = large;
	kube_event(recorder, &ref, KUBE_EVENT_NORMAL, "R", "m");
	ok(flush(), "sent");
	const char *name = strstr(srv->log, "\"name\":\"");
	size_t len = name ? strcspn(name + 8, "\"") : 0;
	is_uint(len, 199 + 21, "a long name is cut, not at a dot");
	kube_recorder_free(NULL);
	end();
}

/* What it has told it forgets: by number at once, by age later. */
static void test_forgetting(void)
{
	enum { EVENTS = 10000, AT_ONCE = 500 };
	static const struct srv_step steps[] = {TAKEN(POST)};
	struct kube_ref ref = job;
	char name[32], uid[40];
	size_t most = 0;

	begin(steps, 1);
	srv->any_order = true;
	kube_event(recorder, &job, KUBE_EVENT_NORMAL, "R", "m"); /* makes metrics' series */
	flush();
	size_t bytes = mallinfo2().uordblks;
	ref.name = name;
	ref.uid = uid;
	for (int i = 0; i < EVENTS; i++) {
		snprintf(name, sizeof(name), "job-with-a-name-%d", i);
		snprintf(uid, sizeof(uid), "b0d1e6d2-0000-4000-8000-%012d", i);
		kube_event(recorder, &ref, KUBE_EVENT_NORMAL, "PartitionCreated",
			   "partition %s-0123456789 of 16 IPUs was created on controller c1", name);
		if (i % AT_ONCE == AT_ONCE - 1 &&
		    !RUN_UNTIL(kube_recorder_waiting(recorder) == 0, 0))
			fail("they can't be sent");
		if (kube_recorder_remembered(recorder) > most)
			most = kube_recorder_remembered(recorder);
	}
	is_uint(most, KUBE_EVENT_SERIES, "so many are remembered, and no more");
	ok(mallinfo2().uordblks < bytes + (1400 << 10), "without their words: %zu KB",
	   (mallinfo2().uordblks - bytes) >> 10);
	run(1, KUBE_EVENT_AGGREGATE_MS * 3 / 2 + 1000);
	run(2, 0);
	is_uint(kube_recorder_remembered(recorder), 0, "none any more a while later");
	ok(mallinfo2().uordblks < bytes + (400 << 10), "nor do they need memory: %zu KB",
	   (mallinfo2().uordblks - bytes) >> 10);
	srv->any_order = false;
	end();
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_begin();
	rand_seed(3);
	srv = srv_new(NULL);
	test_one();
	test_counting();
	test_limits();
	test_queue();
	test_refusals();
	test_cut();
	test_forgetting();
	srv_free(srv);
	test_end();
	return done_testing();
}
