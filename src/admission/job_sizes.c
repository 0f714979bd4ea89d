/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's size against itself (workers and what they share), against the largest controller, and
 * its size and times against the limits of its namespace.
 */
#include <inttypes.h>

#include "admission/job_check.h"
#include "core/str.h"
#include "job/launcher.h"

static bool is_given(const struct json *obj, const char *key)
{
	enum json_type type = json_type(json_get(obj, key));

	return type != JSON_NONE && type != JSON_NULL;
}

static bool any_new(const struct job_look *l, const char *const *paths)
{
	for (; *paths; paths++) {
		if (job_look_is_new(l, *paths))
			return true;
	}
	return false;
}

/* ---- workers and what they share ---- */

/* Where the job says how many workers an instance has. */
static const char *workers_path(const struct job_look *l)
{
	return is_given(l->spec, "workersPerJobInstance") ? "spec.workersPerJobInstance"
							  : "spec.workers.replicas";
}

static const char *ipus_path(const struct job *job)
{
	return job->first_generation ? "spec.modelReplicas" : "spec.ipusPerJobInstance";
}

/* Release 1.0: the replicas of the model are spread over the workers. */
static void check_replicas(const struct job_look *l)
{
	const struct job *job = l->job;
	int64_t models = 0;

	/* Its rule holds: sizes aren't broken. */
	(void)str_to_int(json_str(json_get(l->spec, "modelReplicas")), 1, UINT32_MAX, &models,
			 NULL);

	if (models % job->workers)
		admission_problem(l->out, workers_path(l), "Invalid",
				  "%" PRIu32 " workers can't have equally many of %" PRId64
				  " model replicas: must be a power of two from 1 to %" PRId64,
				  job->workers, models, models);
}

/* Each worker has a graph compile domain, and these are of one size. */
static void check_domains(const struct job_look *l)
{
	const struct job *job = l->job;
	uint64_t total = (uint64_t)job->workers * job->slots;

	if (job->ipus % job->workers)
		admission_problem(l->out, workers_path(l), "Invalid",
				  "%" PRIu32 " workers can't have equally many of the %" PRIu32
				  " IPUs of an instance: must be a power of two from 1 to %" PRIu32,
				  job->workers, job->ipus, job->ipus);
	else if (job->ipus % total)
		admission_problem(l->out, "spec.modelReplicasPerWorker", "Invalid",
				  "%" PRIu64 " replicas of the model (workers x "
				  "modelReplicasPerWorker) can't have equally many of the %" PRIu32
				  " IPUs of an instance: must be a power of two from 1 to %" PRIu32,
				  total, job->ipus, job->ipus / job->workers);
}

static void check_shares(const struct job_look *l)
{
	const struct json *partition = json_get(l->spec, "partition");
	const struct job *job = l->job;
	uint32_t gcds = job->options.gcds, replicas = job->options.replicas;
	bool own_gcds = is_given(partition, "gcds"), own_replicas = is_given(partition, "replicas");

	if (own_gcds && job->ipus % gcds)
		admission_problem(l->out, "spec.partition.gcds", "Invalid",
				  "%" PRIu32
				  " graph compile domains can't have equally many of the "
				  "%" PRIu32 " IPUs of an instance: must be a power of two from 1 "
				  "to %" PRIu32,
				  gcds, job->ipus, job->ipus);
	if (own_replicas && replicas % job->workers)
		admission_problem(l->out, "spec.partition.replicas", "Invalid",
				  "%" PRIu32 " workers can't have equally many of %" PRIu32
				  " replicas: must be a multiple of %" PRIu32,
				  job->workers, replicas, job->workers);
	if (job->first_generation)
		check_replicas(l);
	else if (!own_gcds && !own_replicas)
		check_domains(l);
}

/* Their names stand twice in one ConfigMap, in the two forms that MPI's launchers read. */
static void check_hostfiles(const struct job_look *l)
{
	const struct job *job = l->job;
	uint64_t bytes = job_config_bytes(job);

	if (job_has_launcher(job) && bytes > JOB_CONFIG_MAX_BYTES)
		admission_problem(
			l->out, job->instances > 1 ? "spec.jobInstances" : workers_path(l),
			"Invalid",
			"the hostfiles of the launchers would have %" PRIu64 " bytes for %" PRIu64
			" workers, and a ConfigMap has room for %d: give fewer workers, "
			"or the job a shorter name",
			bytes, (uint64_t)job->instances * job->workers, JOB_CONFIG_MAX_BYTES);
}

/* ---- the controllers ---- */

static uint32_t power_of_two_below(uint32_t n)
{
	uint32_t p = 1;

	while (p <= n / 2)
		p *= 2;
	return p;
}

static void check_reach(const struct job_look *l)
{
	uint32_t largest = l->view->largest_ipus;

	if (largest && l->job->ipus > largest)
		admission_problem(l->out, ipus_path(l->job), "Invalid",
				  "no V-IPU controller has %" PRIu32
				  " IPUs for one instance: the largest has %" PRIu32
				  ", so give at most %" PRIu32,
				  l->job->ipus, largest, power_of_two_below(largest));
}

/* ---- the namespace's limits ---- */

static void check_size_policy(const struct job_look *l, const struct partition_policy *p)
{
	const struct job *job = l->job;
	uint64_t all = (uint64_t)job->ipus * job->instances;
	int64_t most = p->max_job_ipus;
	bool too_large = most >= 0 && job->ipus > (uint64_t)most;

	if (too_large || (most >= 0 && job->instances == 1 && all > (uint64_t)most))
		admission_problem(l->out, ipus_path(job), "Forbidden",
				  "asks for %" PRIu64 " IPUs; a job in this namespace may have at "
				  "most %" PRId64,
				  all, most);
	else if (most >= 0 && all > (uint64_t)most)
		admission_problem(l->out, "spec.jobInstances", "Forbidden",
				  "asks for %" PRIu64 " IPUs; a job in this namespace may have at "
				  "most %" PRId64 ", which are %" PRId64 " instances of %" PRIu32,
				  all, most, most / job->ipus, job->ipus);
	if (p->max_ipus >= 0 && job->ipus > (uint64_t)p->max_ipus)
		admission_problem(l->out, ipus_path(job), "Forbidden",
				  "an instance asks for %" PRIu32 " IPUs, and this namespace may "
				  "have at most %" PRId64 " at a time: it would wait for ever",
				  job->ipus, p->max_ipus);
}

static void check_time_policy(const struct job_look *l, const struct partition_policy *p)
{
	const struct job *job = l->job;
	int64_t longest = p->max_deadline_s;

	if (longest >= 0 && job_look_is_new(l, "activeDeadlineSeconds") &&
	    job->deadline_ms > longest * 1000)
		admission_problem(l->out, "spec.activeDeadlineSeconds", "Forbidden",
				  "a job in this namespace may run for %" PRId64 " seconds at most",
				  longest);
	if (p->max_interactive_s >= 0 && (longest < 0 || p->max_interactive_s < longest))
		longest = p->max_interactive_s;
	if (longest >= 0 && job_look_is_new(l, "interactive") && job->interactive &&
	    job->ttl_ms > longest * 1000)
		admission_problem(l->out, "spec.interactive.ttl", "Forbidden",
				  "a session in this namespace may last for %" PRId64
				  " seconds at most",
				  longest);
}

void job_look_at_sizes(const struct job_look *l)
{
	static const char *const shares[] = {
		"ipusPerJobInstance",
		"workersPerJobInstance",
		"modelReplicasPerWorker",
		"modelReplicas",
		"ipusPerModelReplica",
		"workers.replicas",
		"partition",
		NULL,
	};
	static const char *const ipus[] = {
		"jobInstances", "ipusPerJobInstance", "modelReplicas", "ipusPerModelReplica", NULL,
	};
	static const char *const workers[] = {"jobInstances", "workersPerJobInstance",
					      "workers.replicas", "launcher", NULL};
	const struct partition_policy *p = l->view->policy;

	if (!l->broken_sizes && any_new(l, shares))
		check_shares(l);
	if (l->by_another)
		return;
	if (!l->broken_sizes && any_new(l, workers))
		check_hostfiles(l);
	if (!l->broken_sizes && any_new(l, ipus + 1))
		check_reach(l);
	if (!l->broken_sizes && p && any_new(l, ipus))
		check_size_policy(l, p);
	if (p)
		check_time_policy(l, p);
}
