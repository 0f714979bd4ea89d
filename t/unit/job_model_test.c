/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPUJobs of both generations to struct job. Statuses are job_status_test's.
 */
#include <inttypes.h>

#include "core/yaml.h"
#include "job/model.h"
#include "tap.h"
#include "vipu/api.h"

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

/* ---- doc/examples ---- */

static void test_examples(void)
{
	static const struct {
		const char *file;
		bool first_generation;
		uint32_t instances, ipus, workers;
	} rows[] = {
		{"mnist-training.yaml", false, 1, 1, 1},
		{"single-worker-1.0.yaml", true, 1, 4, 1},
		{"script-in-args.yaml", false, 1, 4, 1},
		{"shared-memory.yaml", false, 1, 16, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_FREE char *path = xasprintf(
			"%s/doc/examples/%s", getenv("TOP_SRCDIR") ? getenv("TOP_SRCDIR") : ".",
			rows[i].file);
		CLEANUP_YAML struct yaml *y = NULL;
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct err err = ERR_INIT;
		struct jmut *root, *meta;
		struct job *job;

		row_begin("%s", rows[i].file);
		if (yaml_load(path, &y, &err) < 0)
			bail_out(err.msg);
		root = jmut_copy(doc, yaml_doc(y, 0));
		meta = jmut_get(root, "metadata");
		jmut_set_str(doc, meta, "namespace", "default");
		jmut_set_str(doc, meta, "uid", "u");
		if (!jmut_get(meta, "name"))
			jmut_set_str(doc, meta, "name", "made-by-the-server");
		job = decode(jmut_view(root));
		is_str(job->problem ? job->problem : "", "", "nothing is wrong");
		is_int(job->first_generation, rows[i].first_generation, "generation");
		is_uint(job->instances, rows[i].instances, "instances");
		is_uint(job->ipus, rows[i].ipus, "IPUs");
		is_uint(job->workers, rows[i].workers, "workers");
		job_free(job);
	}
	row_end();
}

/* ---- sizes and options ---- */

#define POD "template: {spec: {containers: [{name: c}]}}"
#define NEW "jobInstances: 1, ipusPerJobInstance: '4'"

static void test_sizes(void)
{
	static const struct {
		const char *spec;
		uint32_t instances, ipus, workers, gcds, replicas;
		bool reconfigurable;
	} rows[] = {
		{"{" NEW ", workers: {" POD "}}", 1, 4, 1, 1, 0, true},
		{"{jobInstances: 3, ipusPerJobInstance: '16', workers: {" POD "}}", 3, 16, 1, 1, 0,
		 true},
		{"{" NEW ", workersPerJobInstance: '2', workers: {" POD "}}", 1, 4, 2, 2, 0, false},
		{"{" NEW ", workersPerJobInstance: '2', modelReplicasPerWorker: '2', workers: {" POD
		 "}}",
		 1, 4, 2, 2, 4, false},
		{"{" NEW ", workers: {replicas: 4, " POD "}}", 1, 4, 4, 4, 0, false},
		{"{" NEW ", workersPerJobInstance: '2', workers: {replicas: 4, " POD "}}", 1, 4, 2,
		 2, 0, false},
		{"{" NEW ", modelReplicasPerWorker: '4', workers: {" POD "}}", 1, 4, 1, 1, 0, true},
		{"{modelReplicas: '4', ipusPerModelReplica: '2', workers: {" POD "}}", 1, 8, 1, 1,
		 0, true},
		{"{modelReplicas: '4', ipusPerModelReplica: '1', workers: {replicas: 2, " POD "}}",
		 1, 4, 2, 2, 4, false},
		{"{modelReplicas: '4', ipusPerModelReplica: '1', jobInstances: null, workers: {" POD
		 "}}",
		 1, 4, 1, 1, 0, true},
		{"{" NEW ", modelReplicas: null, workers: {" POD "}}", 1, 4, 1, 1, 0, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job *job = decode_spec(rows[i].spec);
		struct partition_ask ask = job_ask(job, 1);

		row_begin("%s", rows[i].spec);
		is_str(job->problem ? job->problem : "", "", "nothing is wrong");
		is_uint(job->instances, rows[i].instances, "instances");
		is_uint(job->workers, rows[i].workers, "workers");
		is_uint(ask.ipus, rows[i].ipus, "IPUs");
		is_uint(ask.options.gcds, rows[i].gcds, "GCDs");
		is_uint(ask.options.replicas, rows[i].replicas, "replicas");
		is_int(ask.options.reconfigurable, rows[i].reconfigurable, "reconfigurable");
		is_uint(ask.instance, 1, "instance");
		job_free(job);
	}
	row_end();
}

static void test_policies(void)
{
	static const struct {
		const char *spec;
		enum job_clean clean;
		enum job_restart restart;
		bool launcher;
	} rows[] = {
		{"", JOB_CLEAN_NONE, JOB_RESTART_NEVER, false},
		{", cleanPodPolicy: All, restartPolicy: {type: Always}", JOB_CLEAN_ALL,
		 JOB_RESTART_ALWAYS, false},
		{", cleanPodPolicy: Workers, restartPolicy: {type: OnFailure}", JOB_CLEAN_WORKERS,
		 JOB_RESTART_ON_FAILURE, false},
		{", cleanPodPolicy: None, restartPolicy: {type: ExitCode, exitCodes: '1'}",
		 JOB_CLEAN_NONE, JOB_RESTART_EXIT_CODE, false},
		{", launcher: {command: [mpirun]}", JOB_CLEAN_NONE, JOB_RESTART_NEVER, true},
		{", interactive: {ttl: 60}", JOB_CLEAN_NONE, JOB_RESTART_NEVER, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_FREE char *spec = xasprintf("{" NEW ", workers: {" POD "}%s}",
						    rows[i].spec);
		struct job *job = decode_spec(spec);

		row_begin("%s", spec);
		is_int(job->clean, rows[i].clean, "cleanPodPolicy");
		is_int(job->restart, rows[i].restart, "restartPolicy");
		is_int(job_has_launcher(job), rows[i].launcher, "a launcher Pod");
		job_free(job);
	}
	row_end();
}

/* ---- policies and times ---- */

static void test_slots(void)
{
	static const struct {
		const char *spec;
		uint32_t slots;
	} rows[] = {
		{"{" NEW ", workers: {" POD "}}", 1},
		{"{" NEW ", workersPerJobInstance: '4', workers: {" POD "}}", 1},
		{"{" NEW ", modelReplicasPerWorker: '2', workers: {" POD "}}", 2},
		{"{modelReplicas: '4', ipusPerModelReplica: '1', workers: {" POD "}}", 4},
		{"{modelReplicas: '4', ipusPerModelReplica: '1', workers: {replicas: 2, " POD "}}",
		 2},
		{"{modelReplicas: '4', ipusPerModelReplica: '1', workers: {replicas: 3, " POD "}}",
		 2},
		{"{modelReplicas: '1', ipusPerModelReplica: '1', workers: {replicas: 3, " POD "}}",
		 1},
		{"{modelReplicas: 'x', ipusPerModelReplica: '1', workers: {" POD "}}", 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job *job = decode_spec(rows[i].spec);

		row_begin("%s", rows[i].spec);
		is_uint(job->slots, rows[i].slots, "slots of a worker");
		job_free(job);
	}
	row_end();
}

static void test_strategy(void)
{
	static const struct {
		uint32_t instances;
		const char *strategy;
		enum job_strategy want;
		uint32_t surge, unavailable;
	} rows[] = {
		{1, "{}", JOB_ROLLING_UPDATE, 1, 0},
		{4, "{}", JOB_ROLLING_UPDATE, 1, 1},
		{10, "{}", JOB_ROLLING_UPDATE, 3, 2},
		{10, "{type: RollingUpdate}", JOB_ROLLING_UPDATE, 3, 2},
		{10, "{rollingUpdate: {maxSurge: 0}}", JOB_ROLLING_UPDATE, 0, 2},
		{10, "{rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}", JOB_ROLLING_UPDATE, 2, 0},
		{10, "{rollingUpdate: {maxSurge: '0%', maxUnavailable: '5%'}}", JOB_ROLLING_UPDATE,
		 0, 1},
		{3, "{rollingUpdate: {maxSurge: 100, maxUnavailable: 100}}", JOB_ROLLING_UPDATE, 3,
		 3},
		{3, "{rollingUpdate: {maxSurge: '999%', maxUnavailable: '100%'}}",
		 JOB_ROLLING_UPDATE, 3, 3},
		{3, "{rollingUpdate: {maxSurge: '34%', maxUnavailable: '34%'}}", JOB_ROLLING_UPDATE,
		 2, 1},
		{10000, "{}", JOB_ROLLING_UPDATE, 2500, 2500},
		{4, "{type: Recreate}", JOB_RECREATE, 1, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_FREE char *spec = xasprintf(
			"{jobInstances: %u, ipusPerJobInstance: '1', workers: {strategy: %s, " POD
			"}}",
			rows[i].instances, rows[i].strategy);
		struct job *job = decode_spec(spec);

		row_begin("%s", spec);
		is_int(job->strategy, rows[i].want, "strategy");
		is_uint(job->max_surge, rows[i].surge, "maxSurge");
		is_uint(job->max_unavailable, rows[i].unavailable, "maxUnavailable");
		job_free(job);
	}
	row_end();
}

static bool restarts(const struct job *job, unsigned code)
{
	return job->restart_codes[code / 8] >> (code % 8) & 1;
}

static void test_restart_codes(void)
{
	struct job *job = decode_spec("{" NEW ", workers: {" POD
				      "}, restartPolicy: {type: ExitCode, "
				      "backOffLimit: 0, exitCodes: '0,3-5,137,255'}}");
	unsigned n = 0;

	for (unsigned code = 0; code < 256; code++)
		n += restarts(job, code);
	is_uint(n, 6, "six codes");
	ok(restarts(job, 0) && restarts(job, 3) && restarts(job, 4) && restarts(job, 5) &&
		   restarts(job, 137) && restarts(job, 255),
	   "those that are named");
	is_uint(job->backoff_limit, 0, "a limit of 0");
	job_free(job);
	job = decode_spec("{" NEW ", workers: {" POD
			  "}, restartPolicy: {type: ExitCode, exitCodes: "
			  "'1-2-3,7,256,x,'}}");
	ok(restarts(job, 7) && !restarts(job, 1) && !restarts(job, 0),
	   "what can be read of others");
	is_uint(job->backoff_limit, 3, "the default limit");
	job_free(job);
	job = decode_spec("{" NEW ", workers: {" POD
			  "}, restartPolicy: {type: Always, exitCodes: '7'}}");
	ok(!restarts(job, 7), "no codes without ExitCode");
	job_free(job);
}

static void test_times(void)
{
	struct job *job = decode_spec("{" NEW ", workers: {" POD "}}");

	ok(!job->suspend && job->deadline_ms == 0 && job->start_deadline_ms == 0 &&
		   job->ttl_ms == 0 && job->finished_ttl_ms == -1,
	   "each is off where it isn't given");
	job_free(job);
	job = decode_spec(
		"{" NEW ", workers: {" POD "}, suspend: true, activeDeadlineSeconds: 2147483647, "
		"startDeadlineSeconds: 5, ttlSecondsAfterFinished: 0, interactive: {ttl: 60}}");
	is_str(job->problem ? job->problem : "", "", "nothing is wrong");
	ok(job->suspend, "suspend");
	is_int(job->deadline_ms, INT64_C(2147483647000), "activeDeadlineSeconds");
	is_int(job->start_deadline_ms, 5000, "startDeadlineSeconds");
	is_int(job->finished_ttl_ms, 0, "ttlSecondsAfterFinished");
	is_int(job->ttl_ms, 60000, "interactive.ttl");
	job_free(job);
	job = decode_spec(
		"{" NEW ", workers: {" POD "}, activeDeadlineSeconds: 0, "
		"startDeadlineSeconds: 9223372036854775807, ttlSecondsAfterFinished: -1}");
	ok(job->deadline_ms == 0 && job->start_deadline_ms == 0 && job->finished_ttl_ms == -1,
	   "what breaks a rule is as if it weren't there");
	job_free(job);
}

static void test_managers(void)
{
	static const struct {
		const char *more, *want;
	} rows[] = {
		{"", NULL},
		{", managedBy: graphcore.ai/ipu-operator", NULL},
		{", managedBy: kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/multikueue"},
		{", managedBy: ''", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_FREE char *spec = xasprintf("{" NEW ", workers: {" POD "}%s}",
						    rows[i].more);
		struct job *job = decode_spec(spec);

		row_begin("%s", spec);
		is_str(job->managed_by ? job->managed_by : "ours",
		       rows[i].want ? rows[i].want : "ours", "who manages it");
		job_free(job);
	}
	row_end();
}

static struct job *decode_metadata(const char *metadata)
{
	CLEANUP_FREE char *text = xasprintf("{\"metadata\":{\"name\":\"j\",\"namespace\":\"n\","
					    "\"uid\":\"u\"%s}}",
					    metadata);
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(text), &doc, &err) < 0)
		bail_out(err.msg);
	return decode(json_root(doc));
}

static void test_metadata(void)
{
	struct job *job = decode_metadata("");

	ok(!job->queue_name && !job->force_release, "neither queue nor force");
	job_free(job);
	job = decode_metadata(",\"labels\":{\"kueue.x-k8s.io/queue-name\":\"team\"},"
			      "\"annotations\":{\"graphcore.ai/force-release\":\"true\"}");
	is_str(job->queue_name, "team", "Kueue's queue");
	ok(job->force_release, "force");
	job_free(job);
	job = decode_metadata(",\"labels\":{\"kueue.x-k8s.io/queue-name\":\"\"},"
			      "\"annotations\":{\"graphcore.ai/force-release\":\"yes\"}");
	ok(!job->queue_name && !job->force_release, "an empty queue; another word than true");
	job_free(job);
}

#define GOLDEN_HASH UINT64_C(0xa71d39317c687809)
#define HASHED(more)                                                                               \
	"{" NEW ", workers: {template: {spec: {containers: [{name: c, image: i}" more "]}}}}"

/* What Pods carry must mean the same in every release: the number stands here as it was first. */
static void test_template_hash(void)
{
	static const struct {
		const char *spec;
		bool same;
	} rows[] = {
		{HASHED(""), true},
		{"{workers: {template: {spec: {containers: [{image: i, name: c}]}}}, " NEW "}",
		 true},
		{"{" NEW
		 ", workers: {template: {spec: {hostIPC: null, containers: [{name: c, image: "
		 "i}]}}}}",
		 true},
		{"{jobInstances: 9, ipusPerJobInstance: '16', suspend: true, workers: {replicas: 1, "
		 "template: {spec: {containers: [{name: c, image: i}]}}}}",
		 true},
		{HASHED(", {name: d}"), false},
		{"{" NEW ", workers: {template: {spec: {containers: [{name: c, image: j}]}}}}",
		 false},
		{"{" NEW ", workers: {template: {spec: {containers: [{name: ci, image: ''}]}}}}",
		 false},
		{"{" NEW
		 ", workers: {template: {spec: {hostIPC: false, containers: [{name: c, image: "
		 "i}]}}}}",
		 false},
		{"{" NEW ", launcher: {command: [a, b]}, workers: {template: {spec: {containers: "
		 "[{name: c, image: i}]}}}}",
		 false},
		{"{" NEW ", launcher: {command: [b, a]}, workers: {template: {spec: {containers: "
		 "[{name: c, image: i}]}}}}",
		 false},
		{"{" NEW
		 ", interactive: {ttl: 60}, workers: {template: {spec: {containers: [{name: c, "
		 "image: i}]}}}}",
		 false},
		{"{" NEW
		 ", interactive: {ttl: 61}, workers: {template: {spec: {containers: [{name: c, "
		 "image: i}]}}}}",
		 false},
	};
	uint64_t seen[sizeof(rows) / sizeof(rows[0])], first = 0;
	struct job *job;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		job = decode_spec(rows[i].spec);
		row_begin("%s", rows[i].spec);
		seen[i] = job->template_hash;
		first = seen[0];
		ok(seen[i] != 0, "it isn't 0");
		for (size_t k = 1; k < i; k++)
			ok(rows[i].same || seen[k] != seen[i], "none is like row %zu", k);
		ok((seen[i] == first) == rows[i].same, "the same, or not");
		job_free(job);
	}
	row_end();
	ok(first == GOLDEN_HASH, "release to release: 0x%016" PRIx64, first);
	job = decode_spec("{" NEW ", workers: {template: []}}");
	ok(job->template_hash == 0, "0 without a template");
	job_free(job);
}

static void test_problems(void)
{
	struct job *job = decode_spec("{jobInstances: 0, ipusPerJobInstance: '3', workers: {}}");

	is_str(job->problem,
	       "spec.workers.template: is required; spec.jobInstances: must be from 1 to 2000; "
	       "to stop a job for a while, set spec.suspend to true; "
	       "spec.ipusPerJobInstance: must be a power of two from 1 to 65536, written as a string, "
	       "such as \"4\"",
	       "every broken rule");
	job_free(job);
	job = decode_spec("null");
	is_str(job->problem,
	       "spec: is required; spec: the job has no size: give jobInstances and "
	       "ipusPerJobInstance (or modelReplicas and ipusPerModelReplica, as in release 1.0)",
	       "no spec");
	job_free(job);
	job = decode_spec("{" NEW ", workers: {template: {spec: {containers: ["
			  "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}}}}");
	ok(strlen(job->problem) < 1024, "what fits a message: %zu", strlen(job->problem));
	job_free(job);
}

/* ---- the object ---- */

static void test_identity(void)
{
	CLEANUP_YAML struct yaml *y = NULL;
	struct err err = ERR_INIT;
	struct job *job;

	if (yaml_parse("a row",
		       STR("{metadata: {name: a, namespace: b, uid: c, resourceVersion: '12', "
			   "generation: 5, creationTimestamp: '2024-06-01T00:00:00Z', "
			   "deletionTimestamp: '2024-06-01T00:01:00Z', "
			   "finalizers: [x/y, ipu.finalizers.graphcore.ai]}}\n---\n"
			   "{metadata: {name: a, uid: c}}\n---\n[]\n"),
		       &y, &err) < 0)
		bail_out(err.msg);
	job = decode(yaml_doc(y, 0));
	is_str(job->name, "a", "name");
	is_str(job->ns, "b", "namespace");
	is_str(job->uid, "c", "uid");
	is_str(job->version, "12", "version");
	is_int(job->generation, 5, "generation");
	is_int(job->created_ms, INT64_C(1717200000000), "created");
	ok(job->deleting && job->has_finalizer, "in deletion, with the finalizer");
	is_uint(job->n_finalizers, 1, "and another");
	is_str(job->finalizers[0], "x/y", "which is that");
	job_free(job);
	ok(job_decode(yaml_doc(y, 1), &job, &err) < 0 && err.kind == ERR_INVALID, "no namespace");
	ok(job_decode(yaml_doc(y, 2), &job, &err) < 0 && err.kind == ERR_INVALID, "no object");
}

static void test_names(void)
{
	struct job *job = decode_spec("{jobInstances: 3, ipusPerJobInstance: '1', "
				      "workersPerJobInstance: '2', workers: {" POD "}}");
	CLEANUP_FREE char *first = job_worker_name(job, 0, 0), *last = job_worker_name(job, 2, 1);
	CLEANUP_FREE char *selector = job_selector(job);

	is_str(first, "j-worker-0", "the first worker");
	is_str(last, "j-worker-5", "the last: counted through all instances");
	is_str(selector, "graphcore.ai/job=j,graphcore.ai/role=worker", "selector");
	job_free(job);
}

static void test_partition(void)
{
	struct partition_ask ask;
	struct job *job;

	row_begin("spec.partition");
	job = decode_spec(
		"{" NEW ", workersPerJobInstance: '2', partition: {release: OnDeletion, "
		"reconfigurable: true, gcds: 4, replicas: 8, syncType: POD_NATIVE_DEFAULT, "
		"routingType: SWNC, allocation: team-a}, workers: {" POD "}}");
	is_str(job->problem ? job->problem : "", "", "nothing is wrong");
	ok(job->keeps_partitions, "they stay until the job is deleted");
	ask = job_ask(job, 0);
	is_uint(ask.options.gcds, 4, "GCDs");
	is_uint(ask.options.replicas, 8, "replicas");
	ok(ask.options.reconfigurable, "reconfigurable");
	is_uint(ask.options.sync_type, VIPU_ST_POD_NATIVE_DEFAULT, "sync type");
	is_uint(ask.options.routing_type, VIPU_IRT_SWNC, "routing type");
	is_str(ask.options.allocation, "team-a", "allocation");
	job_free(job);
	job = decode_spec("{" NEW ", partition: {release: OnCompletion}, workers: {" POD "}}");
	ok(!job->keeps_partitions, "they go when the job has finished");
	job_free(job);
	row_end();
}

int main(void)
{
	test_examples();
	test_sizes();
	test_partition();
	test_policies();
	test_slots();
	test_strategy();
	test_restart_codes();
	test_times();
	test_managers();
	test_metadata();
	test_template_hash();
	test_problems();
	test_identity();
	test_names();
	return done_testing();
}
