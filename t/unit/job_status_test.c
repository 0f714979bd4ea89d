/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's status to JSON and back, its words, and how large it gets.
 */
#include "job/held.h"
#include "core/intern.h"
#include "core/yaml.h"
#include "job/model.h"
#include "job/status.h"
#include "tap.h"

#define POD "template: {spec: {containers: [{name: c}]}}"

static struct job *decode(const struct json *object)
{
	struct err err = ERR_INIT;
	struct job *job = NULL;

	if (job_decode(object, &job, &err) < 0)
		bail_out(err.msg);
	return job;
}

/* The text of a spec, in YAML's flow style. */
static struct job *decode_spec(const char *spec)
{
	CLEANUP_FREE char *text = xasprintf(
		"{metadata: {name: j, namespace: ns, uid: u, resourceVersion: '7', generation: 3}, "
		"spec: %s}",
		spec);
	CLEANUP_YAML struct yaml *y = NULL;
	struct err err = ERR_INIT;

	if (yaml_parse("a row", str_of(text), &y, &err) < 0)
		bail_out(err.msg);
	return decode(yaml_doc(y, 0));
}

/* ---- there and back ---- */

static struct job *decode_status(const char *status)
{
	CLEANUP_FREE char *text = xasprintf("{\"metadata\":{\"name\":\"j\",\"namespace\":\"n\","
					    "\"uid\":\"u\"},\"status\":%s}",
					    status);
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(text), &doc, &err) < 0)
		bail_out(err.msg);
	return decode(json_root(doc));
}

static const struct job named = {.name = "j"};

static struct job *round_trip(const struct job_status *s)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf out = BUF_INIT(4 * 1024 * 1024);
	CLEANUP_FREE char *text = NULL;
	struct jmut *root = job_status_encode(doc, &named, s);

	if (jmut_write(jmut_get(root, "status"), JSON_COMPACT, &out, NULL) < 0)
		bail_out("a status can't be written");
	text = str_dup(buf_str(&out));
	buf_done(&out);
	return decode_status(text);
}

static void test_status(void)
{
	const char *text =
		"{\"conditions\":[{\"type\":\"Pending\",\"status\":\"False\",\"reason\":\"R\","
		"\"message\":\"M\",\"lastUpdateTime\":\"2024-06-01T00:00:00Z\","
		"\"lastTransitionTime\":\"2024-06-01T00:00:01Z\"},{\"type\":\"Running\","
		"\"status\":\"True\"},{\"type\":\"Other\",\"status\":\"True\"}],"
		"\"launcherStatus\":\"Running\",\"iPUPartitionCreated\":true,\"restartCount\":2,"
		"\"startTime\":\"2024-06-01T00:00:00Z\",\"completionTime\":\"2024-06-01T00:00:09Z\","
		"\"workersStatus\":{\"active\":1,\"succeeded\":2,\"failed\":3},\"currentReplicas\":4,"
		"\"desiredReplicas\":5,\"lastMessage\":\"hello\","
		"\"selector\":\"graphcore.ai/job=j,graphcore.ai/role=worker\","
		"\"observedGeneration\":6}";
	struct job *job = decode_status(text), *again;
	const struct job_status *s = &job->status;

	ok(job_condition_present(s, JOB_PENDING) && !job_condition_on(s, JOB_PENDING),
	   "Pending: False");
	is_str(job_condition(s, JOB_PENDING)->message, "M", "its message");
	is_int(job_condition(s, JOB_PENDING)->transition_ms, INT64_C(1717200001000), "since when");
	ok(job_condition_on(s, JOB_RUNNING) && !job_condition_present(s, JOB_FAILED),
	   "Running: True");
	ok(s->partition_created, "a partition");
	is_int(s->completion_ms, INT64_C(1717200009000), "completionTime");
	is_int(s->active * 100 + s->succeeded * 10 + s->failed, 123, "workers");
	is_int(s->restart_count, 2, "restarts");
	is_int(s->current_replicas * 10 + s->desired_replicas, 45, "replicas");
	is_int(s->observed_generation, 6, "generation");
	ok(s->selects, "the job's selector");
	again = round_trip(s);
	ok(job_status_equal(s, &again->status), "there and back");
	again->status.active++;
	ok(!job_status_equal(s, &again->status), "and a difference is one");
	job_free(again);
	job_free(job);
}

static void test_odd_statuses(void)
{
	static const char *const odd[] = {
		"null",
		"[]",
		"{}",
		"{\"conditions\":[1,{},{\"type\":7}],\"startTime\":\"yesterday\"}",
		"{\"selector\":\"graphcore.ai/job=another,graphcore.ai/role=worker\"}",
		"{\"workersStatus\":{\"active\":-1,\"failed\":99999999999}}",
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		struct job *job = decode_status(odd[i]), *again = round_trip(&job->status);

		row_begin("%s", odd[i]);
		is_int(job->status.active + job->status.failed + job->status.start_ms, 0,
		       "nothing");
		ok(!job->status.selects, "nor its selector");
		ok(job_status_equal(&job->status, &again->status) || !job->status.launcher_status,
		   "there and back");
		job_free(again);
		job_free(job);
	}
	row_end();
}

/* The API keeps whole seconds: what was set with milliseconds isn't another status. */
static void test_seconds(void)
{
	struct job_status s = {0};
	struct job *again;

	job_status_set(&s, JOB_FAILED, INT64_C(1717200000123), "IPUJobFailed", "why");
	job_status_say(&s, "Failed", "why");
	s.completion_ms = INT64_C(1717200000999);
	s.instances = xcalloc(2, sizeof(*s.instances));
	s.n_instances = 2; /* the first has nothing to say, and isn't written */
	s.instances[1] = (struct job_instance){
		.phase = JOB_INSTANCE_RESTARTING,
		.run = 3,
		.restarts = 2,
		.complete = true,
		.over = true,
		.yields = true,
		.start_ms = INT64_C(1717200000001),
		.since_ms = INT64_C(1717200001002),
		.running_ms = INT64_C(1717200002003),
		.retry_ms = INT64_C(1717200003004),
		.message = intern_z("how it ended"),
	};
	s.start_ms = INT64_C(1717200000500);
	s.selects = true;
	again = round_trip(&s);
	ok(job_status_equal(&s, &again->status), "equal");
	job_free(again);
	job_status_done(&s);
}

static void test_clean(void)
{
	static const struct {
		const char *from;
		size_t max;
		const char *to;
	} rows[] = {
		{"", 9, ""},           {"abc", 3, "abc"},
		{"abcd", 3, "…"},      {"abcdef", 5, "ab…"},
		{"aäöüz", 8, "aäöüz"}, {"aäöüz", 7, "aä…"},
		{"€€€", 8, "€…"},      {"a\nb\tc\x7f", 9, "a b c "},
		{"a\xc3", 9, "a?"},    {"\xe2\x82", 9, "??"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char z[32];

		row_begin("what becomes of the words in row %zu", i);
		snprintf(z, sizeof(z), "%s", rows[i].from);
		job_status_clean(z, rows[i].max);
		is_str(z, rows[i].to, "cut");
	}
	row_end();
}

/* Numbers that no operator has written. */
static void test_strange_numbers(void)
{
	struct job *job = decode_status(
		"{\"instances\":[{\"index\":0,\"run\":99999999999,\"restarts\":2147483648,"
		"\"tries\":7000000},{\"index\":1,\"run\":-5,\"restarts\":-1,\"tries\":\"x\"},"
		"{\"index\":4000,\"run\":1},{\"index\":-1,\"run\":1}]}");
	const struct job_instance *mem = job->status.instances;

	row_begin("numbers that a hand has written");
	is_uint(job->status.n_instances, 2, "indices beyond the last one are none");
	is_uint(mem[0].run, INT32_MAX, "the highest run");
	is_uint(mem[0].restarts, INT32_MAX, "restarts as far as they go");
	is_uint(mem[0].tries, 100, "tries");
	is_uint(mem[1].run + mem[1].restarts + mem[1].tries, 0, "below 0 is 0");
	row_end();
	job_free(job);
}

/* ---- the largest job ---- */

#define ETCD_BYTES (1536 * 1024) /* the most that etcd takes in one request */
#define SPEC_BYTES (384 * 1024)  /* what must be left for everything else of the object */

/* As the API server stores it, which writes JSON that is safe inside HTML. */
static size_t stored_bytes(const struct job_status *s)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf out = BUF_INIT(16 * 1024 * 1024);
	size_t n;

	if (jmut_write(job_status_encode(doc, &named, s), JSON_COMPACT, &out, NULL) < 0)
		bail_out("a status can't be written");
	n = buf_str(&out).len;
	for (size_t i = 0; i < buf_str(&out).len; i++)
		n += strchr("<>&", buf_str(&out).p[i]) ? 5 : 0;
	buf_done(&out);
	return n;
}

static void fill(struct job_instance *mem, const char *message)
{
	*mem = (struct job_instance){
		.phase = JOB_INSTANCE_RESTARTING,
		.run = INT32_MAX,
		.restarts = INT32_MAX,
		.tries = 100,
		.complete = true,
		.over = true,
		.yields = true,
		.start_ms = INT64_C(1717200000000),
		.retry_ms = INT64_C(1717200003000),
		.message = intern_z(message),
	};
}

/* Each instance has everything to say at once, in characters that are stored as six bytes. */
static void test_largest(void)
{
	struct job *job = decode_spec("{jobInstances: 2000, ipusPerJobInstance: '1', workers: "
				      "{strategy: {rollingUpdate: {maxSurge: 9999}}, " POD "}}");
	size_t n = (size_t)job->instances + job->max_surge, stored;
	char words[512], long_words[1023];
	struct job_status s = {
		.n_instances = n, .instances = xcalloc(n, sizeof(*s.instances)), .selects = true};
	struct job *again;

	is_str(job->problem ? job->problem : "", "", "as many instances as a job may have");
	is_uint(n, 4000, "and as many again while they are replaced");
	memset(words, '<', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	memset(long_words, '<', sizeof(long_words) - 1);
	long_words[sizeof(long_words) - 1] = '\0';
	for (size_t i = 0; i < n; i++)
		fill(&s.instances[i], words);
	for (int i = 0; i < JOB_CONDITIONS; i++)
		job_status_mark(&s, i, true, INT64_C(1717200000000), "BackoffLimitExceeded", "%s",
				long_words);
	job_status_say(&s, "Restarting", "%s", long_words);
	job_status_bound(&s);
	stored = stored_bytes(&s);
	ok(stored < ETCD_BYTES - SPEC_BYTES, "they fit, and leave room for the rest");
	diag("the largest status has %zu bytes, %zu of each instance but for its words", stored,
	     (stored - 256 * 1024) / n);
	is_str(s.instances[0].message + strlen(s.instances[0].message) - 3, "…",
	       "their words are cut");
	again = round_trip(&s);
	is_uint(again->status.n_instances, n, "all of them come back");
	ok(job_status_equal(&s, &again->status), "as they were");
	job_status_bound(&again->status);
	ok(job_status_equal(&s, &again->status), "and cut once");
	job_free(again);
	job_free(job);
	job_status_done(&s);
	job = decode_spec("{jobInstances: 2001, ipusPerJobInstance: '1', workers: {" POD "}}");
	is_str(job->problem ? job->problem : "",
	       "spec.jobInstances: must be from 1 to 2000; to stop a job for a while, set "
	       "spec.suspend to true",
	       "one more is refused");
	job_free(job);
}

/* Words are cut at a character, and only as far as they must be. */
static void test_cut(void)
{
	static const struct {
		const char *pattern;
		size_t n, bytes; /* instances, and what is left of the words of each */
	} rows[] = {
		{"x", 1, 510},    {"ä", 1, 510},  {"x", 600, 433},  {"ä", 600, 433},
		{"ä€", 600, 433}, {"<", 600, 74}, {"\"", 600, 218},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job_status s = {.n_instances = rows[i].n,
				       .instances = xcalloc(rows[i].n, sizeof(*s.instances))};
		char words[512] = "";
		const char *cut;

		row_begin("%zu times %s", rows[i].n, rows[i].pattern);
		while (strlen(words) + strlen(rows[i].pattern) < 511)
			strcat(words, rows[i].pattern);
		for (size_t k = 0; k < rows[i].n; k++)
			s.instances[k].message = intern_z(words);
		job_status_bound(&s);
		cut = s.instances[rows[i].n - 1].message;
		is_uint(strlen(cut), rows[i].bytes, "bytes");
		ok(str_is_utf8(str_of(cut)), "whole characters");
		job_status_done(&s);
	}
	row_end();
}

/* ---- what is held ---- */

#define SPEC                                                                                       \
	"jobInstances: 1, ipusPerJobInstance: '4', workers: {template: {spec: {containers: [{name: c, image: i}]}}}"
#define AT       "2027-01-15T08:00:00Z"
#define AT_MS    INT64_C(1800000000000)
#define IS(what) "{type: " what ", status: 'True', lastTransitionTime: '" AT "'}"

static void test_held(void)
{
	static const struct held_row {
		const char *name, *metadata, *spec, *status;
		int64_t after_ms;
		const char *reason, *message; /* NULL: it isn't */
	} rows[] = {
		{"suspended", "", ", suspend: true",
		 "conditions: [" IS("Suspended") "], lastMessage: Suspended", 0, "Suspended",
		 "it asks for no IPUs until it's let go (spec.suspend)"},
		{"by Kueue", ", labels: {kueue.x-k8s.io/queue-name: q}", ", suspend: true",
		 "conditions: [" IS("Suspended") "], lastMessage: Suspended", 0, "HeldByKueue",
		 "Kueue hasn't admitted it: until then it asks for no IPUs"},
		{"in its status's words", "", ", suspend: true",
		 "conditions: [" IS("Suspended") "], lastMessage: waiting for its Pods to end", 0,
		 "Suspended", "waiting for its Pods to end"},
		{"just made", "", "", "conditions: [" IS("Pending") "], lastMessage: so", 9999,
		 NULL, NULL},
		{"not running", "", "", "conditions: [" IS("Pending") "], lastMessage: so", 10000,
		 "NotRunning", "so"},
		{"restarting", "", "", "conditions: [" IS("Restarting") "], lastMessage: so", 10000,
		 "NotRunning", "so"},
		{"running", "", "", "conditions: [" IS("Running") "], lastMessage: so", 10000, NULL,
		 NULL},
		{"suspended when it has ended", "", ", suspend: true",
		 "conditions: [" IS("Succeeded") "]", 10000, NULL, NULL},
		{"going", ", deletionTimestamp: '" AT "'", ", suspend: true",
		 "conditions: [" IS("Suspended") "]", 0, NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct held_row *r = &rows[i];
		CLEANUP_FREE char *text = xasprintf(
			"{metadata: {name: j, namespace: n, uid: u%s}, spec: {" SPEC
			"%s}, status: {%s}}",
			r->metadata, r->spec, r->status);
		CLEANUP_YAML struct yaml *y = NULL;
		struct err err = ERR_INIT;
		struct job_held held;
		struct job *job;
		bool is;

		row_begin("%s", r->name);
		if (yaml_parse("a row", str_of(text), &y, &err) < 0)
			bail_out(err.msg);
		job = decode(yaml_doc(y, 0));
		is = job_is_held(job, AT_MS + r->after_ms, &held);
		ok(is == (r->reason != NULL), "held or not");
		if (is && r->reason) {
			is_str(held.reason, r->reason, "the reason");
			is_str(held.message, r->message, "the words");
			is_int(held.since_ms, AT_MS, "since when");
			is_int(held.ipus, 4, "how many IPUs");
		}
		job_free(job);
		row_end();
	}
}

int main(void)
{
	test_status();
	test_odd_statuses();
	test_seconds();
	test_clean();
	test_strange_numbers();
	test_cut();
	test_largest();
	test_held();
	return done_testing();
}
