/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the job planner takes for jobs of 64 workers, in the moments that make most work:
 * nothing is there, all Pods are to be made, all run, all are of another template. The world is
 * made of what the planner asks for, with Pods as they are really built.
 */
#include <time.h>

#include "core/str.h"
#include "job/plan.h"
#include "tap.h"

#define NOW      INT64_C(1700000000000)
#define WORKERS  64
#define LIMIT_NS 50000
#define ROUNDS   2001
#define TEXT(z)  ((char *)(uintptr_t)(z))

/* What is measured is the code as it's shipped. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNLIKE 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__) || defined(UNLIKE)
#define SLOWER 40
#else
#define SLOWER 1
#endif

static struct job *job;
static struct json_doc *object;
static struct partition_status parts[2 * WORKERS];
static struct partition_ask asks[2 * WORKERS];
static const struct job_pod *pods[2 * WORKERS];
static size_t n_pods;
static struct job_view view;

static const struct job_timing timing = {.backoff_ms = 10000,
					 .backoff_max_ms = 300000,
					 .start_deadline_ms = 900000,
					 .unreachable_ms = 60000};

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

/* The quickest counts: what others do on this machine only ever adds. */
static void measure(const char *what)
{
	static int64_t took[ROUNDS];
	struct job_plan plan;

	for (unsigned i = 0; i < ROUNDS; i++) {
		int64_t from = now_ns();

		job_plan(&view, &plan);
		took[i] = now_ns() - from;
		job_plan_done(&plan);
	}
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	note("%s: quickest %.1f us, median %.1f us, 10 %% over %.1f", what, (double)took[0] / 1000,
	     (double)took[ROUNDS / 2] / 1000, (double)took[ROUNDS - ROUNDS / 10] / 1000);
	ok(took[0] < (int64_t)LIMIT_NS * SLOWER, "%s: under 50 us", what);
}

/* ---- the world ---- */

static void make_job(unsigned instances, unsigned workers)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"graphcore.ai/v1alpha1\",\"kind\":\"IPUJob\",\"metadata\":{"
		"\"name\":\"large\",\"namespace\":\"default\",\"uid\":\"u-1\",\"generation\":1,"
		"\"finalizers\":[\"" JOB_FINALIZER "\"]},\"spec\":{\"jobInstances\":%u,"
		"\"ipusPerJobInstance\":\"64\",\"workersPerJobInstance\":\"%u\",\"workers\":{"
		"\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}}",
		instances, workers);
	struct err err = ERR_INIT;

	if (json_parse(str_of(json), &object, &err) < 0 ||
	    job_decode(json_root(object), &job, &err) < 0 || job->problem)
		bail_out("the job");
	view = (struct job_view){.job = job,
				 .timing = &timing,
				 .now_ms = NOW,
				 .pods = pods,
				 .partitions = parts,
				 .n_partitions = job->instances + job->max_surge,
				 .configured = true,
				 .supported = UINT32_MAX};
}

static void end_job(void)
{
	for (size_t i = 0; i < n_pods; i++)
		job_pod_free((struct job_pod *)(uintptr_t)pods[i]);
	n_pods = 0;
	memset(parts, 0, sizeof(parts));
	job_free(job);
	json_doc_free(object);
}

/* One that runs and is Ready. */
static void make_pod(const struct job_action *a)
{
	static const struct job_pod_settings settings = {.host_network = true};
	struct job_ipus ipus = {.partition_id = parts[a->instance].id,
				.host = "vipu",
				.port = 8090,
				.gcd = a->worker};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *runs = NULL;
	struct jmut *root, *meta;
	struct err err = ERR_INIT;
	struct job_pod *pod;

	if (job_pod_build(doc, job, json_get(json_root(object), "spec"), a->instance, a->worker,
			  &ipus, &settings, &err) < 0 ||
	    json_parse(STR("{\"phase\":\"Running\",\"conditions\":[{\"type\":\"PodScheduled\","
			   "\"status\":\"True\"},{\"type\":\"Ready\",\"status\":\"True\"}]}"),
		       &runs, &err) < 0)
		bail_out(err.msg);
	root = jmut_root(doc);
	meta = jmut_get(root, "metadata");
	jmut_set(doc, meta, "uid", jmut_clone(doc, jmut_get(meta, "name")));
	jmut_set(doc, root, "status", jmut_copy(doc, json_root(runs)));
	if (job_pod_decode(jmut_view(root), &pod, &err) < 0)
		bail_out(err.msg);
	pods[n_pods++] = pod;
}

static void make_partition(uint32_t instance)
{
	static char ids[2 * WORKERS][16];

	snprintf(ids[instance], sizeof(ids[instance]), "large-%u", instance);
	asks[instance] = job_ask(job, instance);
	parts[instance] = (struct partition_status){
		.state = PARTITION_STATE_ACTIVE,
		.id = ids[instance],
		.controller = "vipu:8090",
		.host = "vipu",
		.port = 8090,
		.ask = &asks[instance],
	};
	view.held++;
}

/* Does what the planner says, and takes its status; returns how many actions there were. */
static size_t step(void)
{
	struct job_plan plan;
	size_t n;

	job_plan(&view, &plan);
	n = plan.n_actions;
	for (size_t i = 0; i < n; i++) {
		const struct job_action *a = &plan.actions[i];

		if (a->kind == JOB_ENSURE)
			make_partition(a->instance);
		else if (a->kind == JOB_CREATE_POD)
			make_pod(a);
		else
			fail("it does %s", job_action_name(a->kind));
	}
	view.n_pods = n_pods;
	if (plan.has_status) {
		job_status_done(&job->status);
		job_status_copy(&job->status, &plan.status);
	}
	job_plan_done(&plan);
	return n;
}

static void test_size(unsigned instances, unsigned workers)
{
	struct job_plan plan;
	unsigned n = 0;

	row_begin("%u x %u", instances, workers);
	make_job(instances, workers);
	measure("nothing there");
	is_uint(step(), instances, "asks for IPUs");
	measure("all Pods are to be made");
	is_uint(step(), WORKERS, "makes them");
	while (step() > 0 && n++ < 10)
		;
	is_uint(n_pods, WORKERS, "and no more");
	is_str(job->status.launcher_status, "Running", "Running");
	measure("all run");
	job_plan(&view, &plan);
	is_uint(plan.n_actions, 0, "nothing to do");
	ok(!plan.has_status || job_status_equal(&plan.status, &job->status),
	   "and nothing new to say");
	job_plan_done(&plan);
	job->template_hash++;
	measure("another template");
	end_job();
	row_end();
}

int main(void)
{
	test_size(1, WORKERS);
	test_size(WORKERS, 1);
	test_size(8, 8);
	return done_testing();
}
