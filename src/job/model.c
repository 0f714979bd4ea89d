/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an IPUJob's JSON to struct job: identity, the sizes of both generations, policies, and the
 * status as it was stored. Rules are validate.c's; here an object that breaks them only gets a
 * problem, and fields that can still be read.
 */
#include "job/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"
#include "vipu/api.h"

#define PROBLEM_MAX 900 /* what fits a condition's message beside its frame */

/* ---- the spec ---- */

static uint32_t number_text(const struct json *v, uint32_t otherwise)
{
	int64_t n;

	if (json_type(v) != JSON_STRING || str_to_int(json_str(v), 1, UINT32_MAX, &n, NULL) < 0)
		return otherwise;
	return (uint32_t)n;
}

static uint32_t number_of(const struct json *v, uint32_t otherwise)
{
	int64_t n = json_int(v, 0);

	return n >= 1 && n <= UINT32_MAX ? (uint32_t)n : otherwise;
}

static bool is_given(const struct json *obj, const char *key)
{
	enum json_type type = json_type(json_get(obj, key));

	return type != JSON_NONE && type != JSON_NULL;
}

static void decode_sizes(struct job *job, const struct json *spec)
{
	const struct json *workers = json_get(spec, "workers");
	uint32_t replicas = number_of(json_get(workers, "replicas"), 1);

	job->first_generation = is_given(spec, "modelReplicas") ||
				is_given(spec, "ipusPerModelReplica");
	if (job->first_generation) {
		uint32_t models = number_text(json_get(spec, "modelReplicas"), 0);

		job->instances = 1;
		job->workers = replicas;
		job->ipus = models * number_text(json_get(spec, "ipusPerModelReplica"), 0);
		job->options.replicas = models;
	} else {
		uint32_t per_worker = number_text(json_get(spec, "modelReplicasPerWorker"), 0);

		job->instances = number_of(json_get(spec, "jobInstances"), 0);
		job->workers = number_text(json_get(spec, "workersPerJobInstance"), replicas);
		job->ipus = number_text(json_get(spec, "ipusPerJobInstance"), 0);
		job->options.replicas = per_worker * job->workers;
	}
	/* decisions.md, "Partition options of a job": frameworks want a reconfigurable partition;
	 * several workers need a GCD each, which goes with one that isn't. */
	job->options.gcds = job->workers;
	job->options.reconfigurable = job->workers == 1;
	if (job->workers == 1)
		job->options.replicas = 0;
}

/* What the job says of its partitions itself. Bad values stand in problem. */
static void decode_partition(struct job *job, const struct json *v)
{
	struct partition_options *o = &job->options;
	enum vipu_routing routing = VIPU_IRT_UNDEFINED;
	enum vipu_sync sync = VIPU_ST_UNDEFINED;
	struct str allocation = json_str(json_get(v, "allocation"));

	job->keeps_partitions = str_eqz(json_str(json_get(v, "release")), "OnDeletion");
	o->reconfigurable = json_bool(json_get(v, "reconfigurable"), o->reconfigurable);
	o->gcds = number_of(json_get(v, "gcds"), o->gcds);
	o->replicas = number_of(json_get(v, "replicas"), o->replicas);
	(void)vipu_routing_parse(json_str(json_get(v, "routingType")), &routing, NULL);
	(void)vipu_sync_parse(json_str(json_get(v, "syncType")), &sync, NULL);
	o->routing_type = routing;
	o->sync_type = sync;
	o->allocation = allocation.len ? str_dup(allocation) : NULL;
}

static enum job_clean decode_clean(const struct json *v)
{
	return str_eqz(json_str(v), "All")       ? JOB_CLEAN_ALL
	       : str_eqz(json_str(v), "Workers") ? JOB_CLEAN_WORKERS
						 : JOB_CLEAN_NONE;
}

static enum job_restart decode_restart(const struct json *v)
{
	return str_eqz(json_str(v), "Always")      ? JOB_RESTART_ALWAYS
	       : str_eqz(json_str(v), "OnFailure") ? JOB_RESTART_ON_FAILURE
	       : str_eqz(json_str(v), "ExitCode")  ? JOB_RESTART_EXIT_CODE
						   : JOB_RESTART_NEVER;
}

static const char *find_unsupported(const struct job *job)
{
	if (job->launcher)
		return "This version of the operator runs jobs without a launcher only: leave "
		       "spec.launcher out and give the workers a command.";
	if (job->interactive)
		return "This version of the operator has no interactive jobs: leave "
		       "spec.interactive out and give the workers a command.";
	return NULL;
}

static char *text_of(const struct json *v)
{
	return json_cstr(v) ? str_dup(json_str(v)) : NULL;
}

static void decode_spec(struct job *job, const struct json *spec)
{
	decode_sizes(job, spec);
	decode_partition(job, json_get(spec, "partition"));
	job->launcher = json_type(json_get(spec, "launcher")) == JSON_OBJECT;
	job->interactive = json_type(json_get(spec, "interactive")) == JSON_OBJECT;
	job->clean = decode_clean(json_get(spec, "cleanPodPolicy"));
	job->restart = decode_restart(json_at(spec, "restartPolicy", "type", NULL));
	job->priority_class = text_of(
		json_at(spec, "workers", "template", "spec", "priorityClassName", NULL));
	job->unsupported = xstrdup(find_unsupported(job));
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
		struct job_condition *c = &s->conditions[i];

		if (!str_eqz(json_str(json_get(v, "type")), job_condition_name(i)) || c->present)
			continue;
		*c = (struct job_condition){
			.present = true,
			.on = str_eqz(json_str(json_get(v, "status")), "True"),
			.reason = text_of(json_get(v, "reason")),
			.message = text_of(json_get(v, "message")),
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

static void decode_status(struct job_status *s, const struct json *st)
{
	const struct json *workers = json_get(st, "workersStatus");
	struct json_iter it = json_iter(json_get(st, "conditions"));

	while (json_next(&it))
		decode_condition(s, it.value);
	s->launcher_status = text_of(json_get(st, "launcherStatus"));
	s->last_message = text_of(json_get(st, "lastMessage"));
	s->selector = text_of(json_get(st, "selector"));
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
	s->observed_generation = json_int(json_get(st, "observedGeneration"), 0);
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

	job->finalizers = xcalloc(json_len(list) + 1, sizeof(*job->finalizers));
	while (json_next(&it)) {
		if (json_cstr(it.value))
			job->finalizers[job->n_finalizers++] = str_dup(json_str(it.value));
	}
}

int job_decode(const struct json *object, struct job **ret, struct err *err)
{
	struct str name = kube_name(object), ns = kube_namespace(object), uid = kube_uid(object);
	struct job *job;

	if (!name.len || !ns.len || !uid.len)
		return err_set(err, ERR_INVALID, 0,
			       "an IPUJob without metadata.name, namespace or uid");
	job = xcalloc(1, sizeof(*job));
	job->name = str_dup(name);
	job->ns = str_dup(ns);
	job->uid = str_dup(uid);
	job->version = str_dup(kube_version(object));
	job->generation = kube_generation(object);
	job->created_ms = kube_creation_ms(object);
	job->deleting = kube_is_deleting(object);
	job->has_finalizer = kube_has_finalizer(object, JOB_FINALIZER);
	decode_finalizers(job, json_at(object, "metadata", "finalizers", NULL));
	job_validate(object, add_problem, job);
	decode_spec(job, json_get(object, "spec"));
	decode_status(&job->status, json_get(object, "status"));
	*ret = job;
	return 0;
}

void job_free(struct job *job)
{
	if (!job)
		return;
	free(job->ns);
	free(job->name);
	free(job->uid);
	free(job->version);
	for (size_t i = 0; i < job->n_finalizers; i++)
		free(job->finalizers[i]);
	free(job->finalizers);
	free(job->options.allocation);
	free(job->priority_class);
	free(job->problem);
	free(job->unsupported);
	job_status_done(&job->status);
	free(job);
}

char *job_worker_name(const struct job *job, uint32_t instance, uint32_t worker)
{
	return xasprintf("%s-worker-%" PRIu64, job->name,
			 (uint64_t)instance * job->workers + worker);
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
		.owner = {.kind = (char *)(uintptr_t)JOB_KIND,
			  .ns = job->ns,
			  .name = job->name,
			  .uid = job->uid},
		.instance = instance,
		.ipus = job->ipus,
		.options = job->options,
		.priority = job->priority,
		.created_ms = job->created_ms,
	};
}
