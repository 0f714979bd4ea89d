/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an IPUJob's JSON to struct job: identity, the spec (model_spec.c), and the status as it was
 * stored. Rules are validate.c's; here an object that breaks them only gets a problem, and fields
 * that can still be read.
 */
#include "job/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/str.h"
#include "job/model_spec.h"
#include "kube/object.h"

#define PROBLEM_MAX   900  /* what fits a condition's message beside its frame */
#define INSTANCES_MAX 4000 /* a rolling update has up to twice as many as a job */

static const char *word_of(const struct json *v)
{
	return json_cstr(v) ? intern(json_str(v)) : NULL;
}

/* ---- the status ---- */

static int64_t time_of(const struct json *v)
{
	int64_t wall_ms;

	return clock_parse(json_str(v), &wall_ms, NULL) < 0 ? 0 : wall_ms;
}

static void decode_condition(struct job_status *s, const struct json *v)
{
	for (int i = 0; i < JOB_CONDITIONS; i++) {
		if (!str_eqz(json_str(json_get(v, "type")), job_condition_name(i)) ||
		    job_condition_present(s, i))
			continue;
		*job_condition_need(s, i) = (struct job_condition){
			.type = i,
			.on = str_eqz(json_str(json_get(v, "status")), "True"),
			.reason = word_of(json_get(v, "reason")),
			.message = word_of(json_get(v, "message")),
			.update_ms = time_of(json_get(v, "lastUpdateTime")),
			.transition_ms = time_of(json_get(v, "lastTransitionTime")),
		};
	}
}

static int32_t int32_of(const struct json *v)
{
	int64_t n = json_int(v, 0);

	return n < 0 || n > INT32_MAX ? 0 : (int32_t)n;
}

/* A number that a hand has written is as good as it can be. */
static uint32_t count_of(const struct json *v, uint32_t max)
{
	int64_t n = json_int(v, 0);

	return n < 0 ? 0 : n > max ? max : (uint32_t)n;
}

static enum job_instance_phase phase_of(struct str s)
{
	for (int i = JOB_INSTANCE_WAITING; i <= JOB_INSTANCE_FAILED; i++) {
		if (str_eqz(s, job_instance_phase_name(i)))
			return i;
	}
	return JOB_INSTANCE_WAITING;
}

static void decode_instance(struct job_status *s, const struct json *v)
{
	int64_t index = json_int(json_get(v, "index"), -1);
	struct job_instance *mem;

	if (index < 0 || index >= INSTANCES_MAX)
		return;
	if ((size_t)index >= s->n_instances) {
		s->instances = xrealloc(s->instances, (size_t)(index + 1) * sizeof(*s->instances));
		memset(s->instances + s->n_instances, 0,
		       ((size_t)index + 1 - s->n_instances) * sizeof(*s->instances));
		s->n_instances = (size_t)index + 1;
	}
	mem = &s->instances[index];
	intern_drop(mem->message);
	*mem = (struct job_instance){
		.phase = phase_of(json_str(json_get(v, "phase"))),
		.run = count_of(json_get(v, "run"), INT32_MAX),
		.restarts = count_of(json_get(v, "restarts"), INT32_MAX),
		.tries = count_of(json_get(v, "tries"), 100),
		.complete = json_bool(json_get(v, "complete"), false),
		.over = json_bool(json_get(v, "over"), false),
		.yields = json_bool(json_get(v, "yields"), false),
		.start_ms = time_of(json_get(v, "startTime")),
		.since_ms = time_of(json_get(v, "since")),
		.running_ms = time_of(json_get(v, "runningTime")),
		.retry_ms = time_of(json_get(v, "retryTime")),
		.release_ms = time_of(json_get(v, "releaseTime")),
		.message = word_of(json_get(v, "message")),
	};
}

static void decode_status(struct job *job, const struct json *st)
{
	CLEANUP_FREE char *selector = job_selector(job);
	struct job_status *s = &job->status;
	const struct json *workers = json_get(st, "workersStatus");
	struct json_iter it = json_iter(json_get(st, "conditions"));

	while (json_next(&it))
		decode_condition(s, it.value);
	it = json_iter(json_get(st, "instances"));
	while (json_next(&it))
		decode_instance(s, it.value);
	s->launcher_status = word_of(json_get(st, "launcherStatus"));
	s->last_message = word_of(json_get(st, "lastMessage"));
	s->selects = str_eqz(json_str(json_get(st, "selector")), selector);
	s->partition_created = json_bool(json_get(st, "iPUPartitionCreated"), false);
	s->start_ms = time_of(json_get(st, "startTime"));
	s->completion_ms = time_of(json_get(st, "completionTime"));
	s->reconcile_ms = time_of(json_get(st, "lastReconcileTime"));
	s->restart_count = int32_of(json_get(st, "restartCount"));
	s->active = int32_of(json_get(workers, "active"));
	s->succeeded = int32_of(json_get(workers, "succeeded"));
	s->failed = int32_of(json_get(workers, "failed"));
	s->current_replicas = int32_of(json_get(st, "currentReplicas"));
	s->desired_replicas = int32_of(json_get(st, "desiredReplicas"));
	/* The CRD says -1 of a job that nobody has seen. */
	s->observed_generation = json_int(json_get(st, "observedGeneration"), 0);
	if (s->observed_generation < 0)
		s->observed_generation = 0;
}

/* ---- the object ---- */

static void add_problem(void *arg, const char *path, const char *kind, const char *message)
{
	struct job *job = arg;
	char *longer;

	(void)kind;
	if (job->problem && strlen(job->problem) > PROBLEM_MAX)
		return;
	longer = xasprintf("%s%s%s: %s", job->problem ? job->problem : "", job->problem ? "; " : "",
			   path, message);
	free(job->problem);
	job->problem = longer;
}

static void decode_finalizers(struct job *job, const struct json *list)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		if (!json_cstr(it.value))
			continue;
		if (str_eqz(json_str(it.value), JOB_FINALIZER)) {
			job->has_finalizer = true;
			continue;
		}
		if (!job->finalizers)
			job->finalizers = xcalloc(json_len(list), sizeof(*job->finalizers));
		job->finalizers[job->n_finalizers++] = intern(json_str(it.value));
	}
}

/* Identity and spec. */
static struct job *decode(const struct json *object)
{
	struct job *job = xcalloc(1, sizeof(*job));

	job->name = intern(kube_name(object));
	job->ns = intern(kube_namespace(object));
	job->uid = intern(kube_uid(object));
	job->version = intern(kube_version(object));
	job->generation = kube_generation(object);
	job->created_ms = kube_creation_ms(object);
	job->deleting = kube_is_deleting(object);
	job->deletion_ms = time_of(json_at(object, "metadata", "deletionTimestamp", NULL));
	decode_finalizers(job, json_at(object, "metadata", "finalizers", NULL));
	job_decode_spec(job, object);
	return job;
}

int job_decode(const struct json *object, struct job **ret, struct err *err)
{
	struct job *job;

	if (!kube_name(object).len || !kube_namespace(object).len || !kube_uid(object).len)
		return err_set(err, ERR_INVALID, 0,
			       "an IPUJob without metadata.name, namespace or uid");
	job = decode(object);
	job_validate(object, add_problem, job);
	decode_status(job, json_get(object, "status"));
	*ret = job;
	return 0;
}

struct job *job_preview(const struct json *object)
{
	return decode(object);
}

void job_free(struct job *job)
{
	if (!job)
		return;
	intern_drop(job->ns);
	intern_drop(job->name);
	intern_drop(job->uid);
	intern_drop(job->version);
	for (size_t i = 0; i < job->n_finalizers; i++)
		intern_drop(job->finalizers[i]);
	free(job->finalizers);
	free(job->options.allocation);
	intern_drop(job->priority_class);
	intern_drop(job->managed_by);
	intern_drop(job->queue_name);
	intern_drop(job->scheduler);
	free(job->problem);
	job_status_done(&job->status);
	free(job);
}

char *job_worker_name(const struct job *job, uint32_t instance, uint32_t worker)
{
	return xasprintf("%s-worker-%" PRIu64, job->name,
			 (uint64_t)instance * job->workers + worker);
}

char *job_launcher_name(const struct job *job, uint32_t instance)
{
	return instance == 0 ? xasprintf("%s-launcher", job->name)
			     : xasprintf("%s-launcher-%" PRIu32, job->name, instance);
}

bool job_has_launcher(const struct job *job)
{
	return job->launcher || job->interactive;
}

const struct job_instance *job_memory(const struct job *job, uint32_t instance)
{
	static const struct job_instance nothing;

	return instance < job->status.n_instances ? &job->status.instances[instance] : &nothing;
}

char *job_selector(const struct job *job)
{
	return xasprintf(JOB_LABEL_JOB "=%s," JOB_LABEL_ROLE "=" JOB_ROLE_WORKER, job->name);
}

char *job_legacy_partition(const struct job *job, uint32_t instance)
{
	return xasprintf("p-%s-%s-%" PRIu32, job->name, job->ns, instance);
}

struct partition_ask job_ask(const struct job *job, uint32_t instance)
{
	return (struct partition_ask){
		.owner = {.kind = JOB_KIND, .ns = job->ns, .name = job->name, .uid = job->uid},
		.instance = instance,
		.ipus = job->ipus,
		.options = job->options,
		.attempt = job_memory(job, instance)->run,
		.interactive = job->interactive,
		.priority = job->priority,
		.deadline_ms = job->interactive ? job->ttl_ms : job->deadline_ms,
		.created_ms = job->created_ms,
	};
}
