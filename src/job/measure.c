/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a job takes to get under way, how often it's restarted, and how it ends: metrics that
 * name no job. What a status that was stored says for the first time is counted then, and Pods when
 * this process has seen them come, so that neither a restart of the operator nor another leader
 * counts anything again.
 */
#include "job/internal.h"

#include "core/clock.h"
#include "core/metrics.h"

static struct {
	struct metric *partition, *pods, *running, *restarts, *ended;
} m;

void job_measure_open(void)
{
	static const char *const by_result[] = {"result", NULL};
	const char *const results[] = {job_stage_word(JOB_SUCCEEDED), job_stage_word(JOB_FAILED)};
	static const double bounds[] = {0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600};
	const size_t n = sizeof(bounds) / sizeof(bounds[0]);

	if (m.partition)
		return;
	m.partition = metric_new(METRIC_HISTOGRAM, "ipu_operator_job_partition_active_seconds",
				 "From a job's creation to its first active partition.", NULL,
				 bounds, n);
	m.pods = metric_new(METRIC_HISTOGRAM, "ipu_operator_job_pods_created_seconds",
			    "From a job's creation until all its workers' Pods were there.", NULL,
			    bounds, n);
	m.running = metric_new(METRIC_HISTOGRAM, "ipu_operator_job_running_seconds",
			       "From a job's creation until it ran for the first time.", NULL,
			       bounds, n);
	m.restarts = metric_new(METRIC_COUNTER, "ipu_operator_job_restarts_total",
				"Restarts of instances.", NULL, NULL, 0);
	m.ended = metric_new(METRIC_COUNTER, "ipu_operator_jobs_ended_total",
			     "Jobs that have ended, by how.", by_result, NULL, 0);
	for (size_t i = 0; i < 2; i++)
		metric_add(m.ended, &results[i], 0);
}

/* From a job that was suspended, the time counts from when it was let go. Creation is known to the
 * second only. */
static void observe(struct metric *metric, const struct job *job, const struct job_status *s)
{
	bool resumed = job_condition_present(s, JOB_SUSPENDED) && s->start_ms;
	int64_t from_ms = resumed ? s->start_ms : job->created_ms;
	int64_t took_ms = clock_wall_ms() - from_ms;

	if (from_ms)
		metric_observe(metric, NULL, took_ms > 0 ? (double)took_ms / 1000 : 0);
}

/* Also of jobs that Graphcore's operator began. */
static bool has_run(const struct job_status *s)
{
	return job_condition_present(s, JOB_RUNNING) || job_condition_present(s, JOB_RESTARTING) ||
	       s->completion_ms;
}

/* Some instance is in another run than its first, whether that one has got anywhere or not. */
static bool is_beyond_first_run(const struct job_status *s)
{
	for (size_t i = 0; i < s->n_instances; i++) {
		if (s->instances[i].run)
			return true;
	}
	return has_run(s);
}

static bool had_partition(const struct job_status *s)
{
	for (size_t i = 0; i < s->n_instances; i++) {
		if (s->instances[i].start_ms)
			return true;
	}
	return s->partition_created || is_beyond_first_run(s);
}

void job_measure_status(const struct job *job, const struct job_status *before,
			const struct job_status *stored)
{
	const char *completed = job_stage_word(JOB_SUCCEEDED), *failed = job_stage_word(JOB_FAILED);

	if (!had_partition(before) && stored->partition_created)
		observe(m.partition, job, stored);
	if (!has_run(before) && job_condition_on(stored, JOB_RUNNING))
		observe(m.running, job, stored);
	if (stored->restart_count > before->restart_count)
		metric_add(m.restarts, NULL, stored->restart_count - before->restart_count);
	if (job_condition_on(stored, JOB_SUCCEEDED) && !job_condition_on(before, JOB_SUCCEEDED))
		metric_add(m.ended, &completed, 1);
	if (job_condition_on(stored, JOB_FAILED) && !job_condition_on(before, JOB_FAILED))
		metric_add(m.ended, &failed, 1);
}

void job_measure_pods(struct job_ctx *ctx, const struct job *job, const struct job_status *now)
{
	uint64_t want = (uint64_t)job->instances * job->workers;
	bool first_look = !ctx->looked_at_pods;

	ctx->looked_at_pods = true;
	if (ctx->pods_measured || !want ||
	    (uint64_t)now->active + (uint64_t)now->succeeded + (uint64_t)now->failed < want)
		return;
	ctx->pods_measured = true;
	if (!first_look && !is_beyond_first_run(&job->status))
		observe(m.pods, job, now);
}
