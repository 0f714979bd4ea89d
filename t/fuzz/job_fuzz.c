/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An IPUJob: decoded, checked, planned for, its status written and read again, and its worker Pods
 * built in each of the ways that a container learns of its IPUs.
 * Input: the object's JSON.
 */
#include "core/json.h"
#include "fuzz.h"
#include "job/plan.h"
#include "job/pod.h"

#define MOST_INSTANCES 4

static void count_report(void *arg, const char *path, const char *kind, const char *message)
{
	size_t *n = arg;

	MUST(path && kind[0] && message[0]);
	(*n)++;
}

static void try_status(const struct job *job, const struct json *object)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job *again = NULL;
	struct jmut *patch = job_status_encode(doc, job, &job->status);
	struct jmut *copy = jmut_copy(doc, object);

	copy = jmut_merge_patch(doc, copy, jmut_view(patch));
	MUST(job_decode(jmut_view(copy), &again, NULL) == 0);
	struct job *twice = NULL;
	patch = job_status_encode(doc, again, &again->status);
	copy = jmut_merge_patch(doc, copy, jmut_view(patch));
	MUST(job_decode(jmut_view(copy), &twice, NULL) == 0);
	MUST(job_status_equal(&again->status, &twice->status));
	job_free(again);
	job_free(twice);
}

static void try_pod(const struct job *job, const struct json *spec, uint32_t instance,
		    uint32_t worker, enum job_values values)
{
	const struct job_ipus ipus = {
		.values = values,
		.partition_id = "job-ns-0-0123456789",
		.host = "10.0.0.1",
		.port = 8090,
		.gcd = worker,
		.config_map = "map",
		.label_key = "vipu",
		.label_value = "a",
	};
	const struct job_pod_settings settings = {
		.host_network = values == JOB_VALUES_LITERAL,
		.privileged = values == JOB_VALUES_FILE,
	};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_FREE char *name = job_worker_name(job, instance, worker);
	struct buf text = FUZZ_TEXT;
	struct job_pod *pod = NULL;
	struct err err = ERR_INIT;

	if (job_pod_build(doc, job, spec, instance, worker, &ipus, &settings, &err) < 0) {
		MUST(err.kind == ERR_INVALID);
		return;
	}
	const struct json *root = jmut_view(jmut_root(doc));
	MUST(jmut_write(jmut_root(doc), JSON_COMPACT, &text, NULL) == 0);
	MUST(str_eqz(json_str(json_at(root, "metadata", "name", NULL)), name));
	MUST(str_eqz(json_str(json_at(root, "spec", "restartPolicy", NULL)), "Never"));

	/* The API server gives it a UID. */
	jmut_set_str(doc, jmut_get(jmut_root(doc), "metadata"), "uid", "u");
	MUST(job_pod_decode(root, &pod, NULL) == 0);
	MUST(pod->instance == instance);
	job_pod_free(pod);
	buf_done(&text);
}

static void try_pods(const struct job *job, const struct json *spec)
{
	CLEANUP_FREE char *warning = job_template_warning(spec);

	MUST(!warning || warning[0]);
	for (uint32_t i = 0; i < job->instances && i < 2; i++) {
		for (uint32_t w = 0; w < job->workers && w < 2; w++) {
			for (int values = JOB_VALUES_LITERAL; values <= JOB_VALUES_FILE; values++)
				try_pod(job, spec, i, w, (enum job_values)values);
		}
	}
}

static void try_plan(const struct job *job)
{
	/* As many again for a rolling update. */
	struct partition_status partitions[2 * MOST_INSTANCES] = {{.state = PARTITION_STATE_NONE}};
	static const struct job_timing timing = {1000, 8000, 900000, 60000};
	struct job_plan plan;
	struct job_view view = {
		.job = job,
		.timing = &timing,
		.now_ms = 1000,
		.partitions = partitions,
	};

	for (int state = PARTITION_STATE_NONE; state <= PARTITION_STATE_RELEASING; state++) {
		view.n_partitions = job->problem ? 0 : job->instances + job->max_surge;
		for (size_t i = 0; i < 2 * MOST_INSTANCES; i++)
			partitions[i].state = (enum partition_state)state;
		job_plan(&view, &plan);
		for (size_t i = 0; i < plan.n_actions; i++)
			MUST(job_action_name(plan.actions[i].kind)[0]);
		job_plan_done(&plan);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct job *job = NULL;
	size_t n = 0;

	if (json_parse(fuzz_str(p, len), &doc, NULL) < 0)
		return 0;
	MUST(job_validate(json_root(doc), count_report, &n) == n);
	n = 0;
	MUST(job_unknown_fields(json_root(doc), count_report, &n) == n);
	if (job_decode(json_root(doc), &job, NULL) < 0)
		return 0;
	CLEANUP_FREE char *selector = job_selector(job);
	MUST(selector && selector[0]);
	MUST(job->problem || (job->instances > 0 && job->ipus > 0 && job->workers > 0));
	try_status(job, json_root(doc));
	if (!job->problem)
		try_pods(job, json_get(json_root(doc), "spec"));
	if (job->problem || (job->instances <= MOST_INSTANCES && job->max_surge <= MOST_INSTANCES))
		try_plan(job);
	job_free(job);
	return 0;
}
