/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Events of a job: one for each step that a user would ask about, told when a pass sees it for
 * the first time. After a restart of the operator the first look at a job tells nothing of the
 * past.
 */
#include "job/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/intern.h"
#include "core/str.h"

void job_tell(struct job_ctx *ctx, const struct job *job, enum kube_event_level level,
	      const char *reason, const char *fmt, ...)
{
	struct kube_ref about = {
		.api_version = JOB_API_VERSION,
		.kind = JOB_KIND,
		.ns = job->ns,
		.name = job->name,
		.uid = job->uid,
		.version = job->version,
	};
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	kube_event(ctx->c->opts.recorder, &about, level, reason, "%s", message);
}

static void forget_told(struct job_told *t)
{
	intern_drop(t->id);
	intern_drop(t->controller);
	*t = (struct job_told){0};
}

static bool is_delayed(const struct partition_status *st)
{
	return st->state == PARTITION_STATE_RELEASING && st->message[0];
}

static void remember(struct job_told *t, const struct partition_status *st)
{
	t->state = st->state;
	t->draining = st->draining;
	t->delayed = is_delayed(st);
	if (st->state == PARTITION_STATE_ACTIVE && st->ask)
		t->attempt = st->ask->attempt;
	if (!st->id)
		return; /* releasing: what it was stays known until it's gone */
	if (t->id && strcmp(t->id, st->id) == 0)
		return;
	if (st->ask)
		t->attempt = st->ask->attempt; /* a new one was never reset */
	intern_drop(t->id);
	intern_drop(t->controller);
	t->id = intern_z(st->id);
	t->controller = intern_z(st->controller);
}

static void tell_gone(struct job_ctx *ctx, const struct job *job, struct job_told *t)
{
	if (t->id)
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "PartitionReleased",
			 "Partition %s on %s is gone, its IPUs are free", t->id, t->controller);
	forget_told(t);
}

/* A reset may have begun and ended between two looks: the run that it's for tells. */
static void tell_active(struct job_ctx *ctx, const struct job *job, const struct job_told *t,
			const struct partition_status *st)
{
	bool same_id = t->id && st->id && strcmp(t->id, st->id) == 0;
	bool reset = same_id && (t->state == PARTITION_STATE_RESETTING ||
				 (st->ask && st->ask->attempt != t->attempt));

	if (reset)
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "PartitionReset",
			 "Partition %s with %u IPU%s on %s was reset", st->id, job->ipus,
			 job->ipus == 1 ? "" : "s", st->controller);
	else if (!same_id || t->state != PARTITION_STATE_ACTIVE)
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "PartitionActive",
			 "Partition %s with %u IPU%s on %s is active", st->id, job->ipus,
			 job->ipus == 1 ? "" : "s", st->controller);
}

static void tell_partition(struct job_ctx *ctx, const struct job *job, struct job_told *t,
			   const struct partition_status *st)
{
	bool same_id = t->id && st->id && strcmp(t->id, st->id) == 0;

	if (st->state == PARTITION_STATE_NONE) {
		tell_gone(ctx, job, t);
		return;
	}
	if (st->id && !same_id && st->adopted)
		job_tell(ctx, job, KUBE_EVENT_WARNING, "PartitionAdopted",
			 "Partition %s with %u IPU%s on %s wasn't in the tracker and is taken over",
			 st->id, job->ipus, job->ipus == 1 ? "" : "s", st->controller);
	else if (st->id && !same_id)
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "PartitionRequested",
			 "Partition %s with %u IPU%s was asked of %s", st->id, job->ipus,
			 job->ipus == 1 ? "" : "s", st->controller);
	if (st->state == PARTITION_STATE_ACTIVE)
		tell_active(ctx, job, t, st);
	if (st->state == PARTITION_STATE_FAILED && t->state != PARTITION_STATE_FAILED)
		job_tell(ctx, job, KUBE_EVENT_WARNING, partition_why_name(st->why), "%s",
			 st->message);
	if (st->draining && !(same_id && t->draining))
		job_tell(ctx, job, KUBE_EVENT_WARNING, "ControllerDraining",
			 "V-IPU controller %s, which has partition %s, is being emptied: nothing "
			 "new starts there, and this job should end or move",
			 st->controller, st->id);
	if (is_delayed(st) && !t->delayed)
		job_tell(ctx, job, KUBE_EVENT_WARNING, "ReleaseDelayed", "%s", st->message);
	remember(t, st);
}

/* What the job, scaled down, has no place for any more. */
static void tell_surplus(struct job_ctx *ctx, const struct job *job, size_t from)
{
	const struct partition_service *ps = ctx->c->opts.partitions;
	struct partition_status st;

	for (size_t i = from; i < ctx->n_told; i++) {
		if (!ctx->told[i].id)
			continue;
		ps->ops->get_status(ps, job->uid, (uint32_t)i, &st);
		tell_partition(ctx, job, &ctx->told[i], &st);
	}
}

void job_tell_partitions(struct job_ctx *ctx, const struct job *job,
			 const struct partition_status *partitions, size_t n)
{
	/* A job that an earlier process of the operator began with: its past was told. */
	bool first = ctx->n_told == 0 && job->status.observed_generation != 0;

	if (n > ctx->n_told) {
		ctx->told = xrealloc(ctx->told, n * sizeof(*ctx->told));
		memset(ctx->told + ctx->n_told, 0, (n - ctx->n_told) * sizeof(*ctx->told));
		ctx->n_told = n;
	}
	for (size_t i = 0; i < n; i++) {
		if (first)
			remember(&ctx->told[i], &partitions[i]);
		else
			tell_partition(ctx, job, &ctx->told[i], &partitions[i]);
	}
	tell_surplus(ctx, job, n);
}

void job_tell_waiting(struct job_ctx *ctx, const struct job *job, const struct job_plan *plan)
{
	const char *reason = plan->wait_event;
	bool normal;

	if (reason == ctx->told_wait ||
	    (reason && ctx->told_wait && strcmp(reason, ctx->told_wait) == 0))
		return;
	ctx->told_wait = reason;
	if (!reason || !reason[0])
		return;
	normal = plan->waits == PARTITION_WHY_NO_ROOM || plan->waits == PARTITION_WHY_QUEUED ||
		 plan->waits == PARTITION_WHY_STARTING || strcmp(reason, "WaitingForKueue") == 0 ||
		 strcmp(reason, "DeletionWaiting") == 0;
	job_tell(ctx, job, normal ? KUBE_EVENT_NORMAL : KUBE_EVENT_WARNING, reason, "%s",
		 plan->wait_message);
}

void job_tell_template(struct job_ctx *ctx, const struct job_item *item)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	CLEANUP_FREE char *warning = NULL;
	struct err err;

	if (ctx->warned)
		return;
	if (json_parse(intern_str(item->spec), &doc, &err) < 0) {
		ctx->run.calls++;
		job_call_ended(ctx, &err);
		return;
	}
	ctx->warned = true;
	warning = job_template_warning(json_root(doc));
	if (warning)
		job_tell(ctx, item->job, KUBE_EVENT_WARNING, "RestartPolicyIgnored", "%s", warning);
}

static const struct job_instance *instance_of(const struct job_status *s, size_t i)
{
	static const struct job_instance nothing;

	return i < s->n_instances ? &s->instances[i] : &nothing;
}

/* Each end of a run, while the job goes on. */
static void tell_instances(struct job_ctx *ctx, const struct job *job,
			   const struct job_status *before, const struct job_status *stored)
{
	for (size_t i = 0; i < stored->n_instances; i++) {
		const struct job_instance *was = instance_of(before, i),
					  *is = instance_of(stored, i);
		const char *message = is->message ? is->message : "";

		if (is->release_ms && !was->release_ms)
			job_tell(ctx, job, KUBE_EVENT_NORMAL, "ReleaseHeld",
				 "The IPUs of instance %zu are kept for up to %" PRId64
				 " s, since what its launcher started in its workers may still be "
				 "ending",
				 i, ctx->c->opts.timing.ranks_end_ms / 1000);
		if (is->restarts > was->restarts)
			job_tell(ctx, job, KUBE_EVENT_WARNING, "JobRestarting",
				 "Instance %zu is restarted (restart %u of at most %u): %s", i,
				 is->restarts, job->backoff_limit, message);
		else if (is->over && !was->over && message[0])
			job_tell(ctx, job, KUBE_EVENT_NORMAL, "InstanceReplaced",
				 "Instance %zu begins anew: %s", i, message);
		else if (is->phase == JOB_INSTANCE_FAILED && was->phase != JOB_INSTANCE_FAILED &&
			 !stored->completion_ms)
			job_tell(ctx, job, KUBE_EVENT_WARNING, "InstanceFailed",
				 "Instance %zu has failed: %s", i, message);
	}
}

static void tally_done(struct job_tally *t)
{
	free(t->first);
	free(t->message);
	*t = (struct job_tally){0};
}

static void tell_failed_pods(struct job_ctx *ctx, const struct job *job)
{
	const struct job_tally *failed = &ctx->failed;

	if (failed->n == 1)
		job_tell(ctx, job, KUBE_EVENT_WARNING, "PodFailed", "Pod %s failed: %s",
			 failed->first, failed->message);
	else if (failed->n > 1)
		job_tell(ctx, job, KUBE_EVENT_WARNING, "PodFailed",
			 "Pod %s failed: %s; %u more failed with it", failed->first,
			 failed->message, failed->n - 1);
	tally_done(&ctx->failed);
}

void job_tell_status(struct job_ctx *ctx, const struct job *job, const struct job_status *before,
		     const struct job_status *stored)
{
	const struct job_condition *failed = job_condition(stored, JOB_FAILED);
	bool invalid = str_eqz(str_of(failed->reason), "InvalidSpec");

	tell_failed_pods(ctx, job); /* first the cause, then what came of it */
	if (job_condition_on(stored, JOB_RUNNING) && !job_condition_on(before, JOB_RUNNING))
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "JobRunning", "%s",
			 job_condition(stored, JOB_RUNNING)->message);
	tell_instances(ctx, job, before, stored);
	if (job_condition_on(stored, JOB_SUSPENDED) && !job_condition_on(before, JOB_SUSPENDED))
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "JobSuspended", "%s",
			 job_condition(stored, JOB_SUSPENDED)->message);
	if (!job_condition_on(stored, JOB_SUSPENDED) && job_condition_on(before, JOB_SUSPENDED))
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "JobResumed", "IPUJob %s/%s is resumed.",
			 job->ns, job->name);
	if (job_condition_on(stored, JOB_SUCCEEDED) && !job_condition_on(before, JOB_SUCCEEDED))
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "JobCompleted", "%s",
			 job_condition(stored, JOB_SUCCEEDED)->message);
	if (failed->on &&
	    (!job_condition_on(before, JOB_FAILED) ||
	     !str_eq(str_of(failed->message), str_of(job_condition(before, JOB_FAILED)->message))))
		job_tell(ctx, job, KUBE_EVENT_WARNING, invalid ? "InvalidSpec" : "JobFailed", "%s",
			 failed->message);
}

/* ---- Pods ---- */

static void count_pod(struct job_tally *t, const char *name, const char *message)
{
	if (t->n++ > 0)
		return;
	t->first = xstrdup(name);
	t->message = xstrdup(message);
}

void job_count_created(struct job_ctx *ctx, const char *pod)
{
	count_pod(&ctx->created, pod, NULL);
}

void job_count_failed(struct job_ctx *ctx, const struct job_pod *pod)
{
	count_pod(&ctx->failed, pod->name, pod->message ? pod->message : "no reason is known");
}

void job_tell_pods(struct job_ctx *ctx, const struct job *job)
{
	const struct job_tally *made = &ctx->created;

	if (made->n == 1)
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "PodCreated", "Pod %s was created",
			 made->first);
	else if (made->n > 1)
		job_tell(ctx, job, KUBE_EVENT_NORMAL, "PodCreated",
			 "Pod %s and %u more were created", made->first, made->n - 1);
	tally_done(&ctx->created);
	tell_failed_pods(ctx, job);
}

void job_told_free(struct job_ctx *ctx)
{
	for (size_t i = 0; i < ctx->n_told; i++)
		forget_told(&ctx->told[i]);
	free(ctx->told);
	ctx->told = NULL;
	ctx->n_told = 0;
	tally_done(&ctx->created);
	tally_done(&ctx->failed);
}
