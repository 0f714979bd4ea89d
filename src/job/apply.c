/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's actions as API calls and as asks of the partition layer. Every call counts in the
 * pass that started it; its answer goes into the store at once, so that the next pass sees it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/log.h"
#include "core/str.h"
#include "job/call.h"
#include "job/groups.h"
#include "job/queue.h"
#include "job/internal.h"
#include "job/make.h"
#include "kube/object.h"

#define COUNTS_WAIT_MS     1000  /* doubled with each write of counts alone, … */
#define COUNTS_WAIT_MAX_MS 32000 /* … to this */

/* ---- Pods ---- */

static void on_pod_created(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;
	struct job_ctx *ctx = call->ctx;

	if (err && err->kind == ERR_EXISTS) {
		job_look_for_stored(call, &KUBE_PODS, ctx->c->pods);
		return;
	}
	if (err) {
		if (!err_is_retryable(err))
			job_set_trouble(ctx, "PodRefused",
					xasprintf("Pod %s isn't taken by the API server: %s",
						  call->object, err->msg));
		job_call_end(call, err);
		return;
	}
	job_set_trouble(ctx, NULL, NULL);
	job_count_created(ctx, call->object);
	kube_store_note(ctx->c->pods, response->json);
	job_call_end(call, NULL);
}

static int build_pod(struct jmut_doc *doc, const struct job_ctx *ctx, const struct job_item *item,
		     const struct job_action *a, const struct partition_status *part,
		     struct err *err)
{
	CLEANUP_JSON struct json_doc *spec = NULL;

	if (json_parse(intern_str(item->spec), &spec, err) < 0)
		return -1;
	return job_make_pod(doc, item->job, json_root(spec), a->instance, a->worker,
			    a->kind == JOB_CREATE_LAUNCHER, part,
			    item->job->group_hash ? job_groups_api(ctx->c->groups, item->job)
						  : JOB_GROUP_NONE,
			    &ctx->c->opts.pods, err);
}

static void create_pod(struct job_ctx *ctx, const struct job_item *item, const struct job_action *a,
		       const struct partition_status *part)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_FREE char *name = a->kind == JOB_CREATE_LAUNCHER
					  ? job_launcher_name(item->job, a->instance)
					  : job_worker_name(item->job, a->instance, a->worker);
	struct kube_request req = {
		.verb = KUBE_CREATE,
		.resource = &KUBE_PODS,
		.ns = item->job->ns,
	};
	struct err err;

	/* The controller left the fleet between plan and now: the next pass sees it. */
	if ((!part->id || !part->host) &&
	    (a->kind == JOB_CREATE_LAUNCHER || !item->job->queue_name))
		return;
	if (build_pod(doc, ctx, item, a, part, &err) < 0) {
		job_set_trouble(ctx, "PodRefused",
				xasprintf("Pod %s can't be made: %s", name, err.msg));
		ctx->run.calls++;
		job_call_ended(ctx, &err);
		return;
	}
	req.json = jmut_root(doc);
	kube_call_start(ctx->c->opts.kube, &req, on_pod_created, job_call_new(ctx, name),
			&ctx->scope);
}

/* The answer isn't taken into the store: it may be gone by now, and the watch have said so. */
static void on_deleted(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;

	(void)response;

	/* Gone, or another one by now: the watch says which. */
	if (err && (err->kind == ERR_NOT_FOUND || err->kind == ERR_CONFLICT))
		err = NULL;
	job_call_end(call, err);
}

/* force: without its node's word. */
static void delete_pod(struct job_ctx *ctx, const struct job_pod *pod, bool force)
{
	struct kube_request req = {
		.verb = KUBE_DELETE,
		.resource = &KUBE_PODS,
		.ns = pod->ns,
		.name = pod->name,
		.uid = pod->uid,
		.has_grace = force,
	};

	kube_call_start(ctx->c->opts.kube, &req, on_deleted, job_call_new(ctx, pod->name),
			&ctx->scope);
}

static void on_pod_opened(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;

	if (!err)
		kube_store_note(call->ctx->c->pods, response->json);
	else if (err->kind == ERR_NOT_FOUND || err->kind == ERR_CONFLICT)
		err = NULL; /* gone, or another one by now: the watch says which */
	else if (!err_is_retryable(err))
		job_set_trouble(call->ctx, "PodRefused",
				xasprintf("Pod %s can't be let go: %s", call->object, err->msg));
	job_call_end(call, err);
}

static void open_pod(struct job_ctx *ctx, const struct job_pod *pod,
		     const struct partition_status *part)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct kube_request req = {
		.verb = KUBE_PATCH,
		.resource = &KUBE_PODS,
		.ns = pod->ns,
		.name = pod->name,
		.patch = KUBE_PATCH_MERGE,
	};

	if (!part->id)
		return; /* gone between plan and now */
	job_gate_open(doc, pod->uid, part->id, part->label_key, part->label_value);
	req.json = jmut_root(doc);
	kube_call_start(ctx->c->opts.kube, &req, on_pod_opened, job_call_new(ctx, pod->name),
			&ctx->scope);
}

static void delete_workload(struct job_ctx *ctx, const struct job_pod *pod)
{
	struct kube_request req = {
		.verb = KUBE_DELETE,
		.resource = &JOB_WORKLOADS,
		.ns = pod->ns,
		.name = pod->queue_group,
	};

	kube_call_start(ctx->c->opts.kube, &req, on_deleted, job_call_new(ctx, pod->queue_group),
			&ctx->scope);
}

/* ---- ConfigMaps with IPUoF configuration ---- */

static void on_files_written(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;
	struct job_ctx *ctx = call->ctx;

	if (err && err->kind == ERR_EXISTS) {
		job_look_for_stored(call, &KUBE_CONFIGMAPS, ctx->c->files);
		return;
	}
	if (err && !err_is_retryable(err) && err->kind != ERR_CONFLICT &&
	    err->kind != ERR_NOT_FOUND)
		job_set_trouble(ctx, "ConfigMapRefused",
				xasprintf("ConfigMap %s isn't taken by the API server: %s",
					  call->object, err->msg));
	if (!err) {
		job_set_trouble(ctx, NULL, NULL);
		kube_store_note(ctx->c->files, response->json);
	}
	job_call_end(call, err);
}

/* Whole: made, or put in the place of the one that was looked at and of no other. */
static void write_files(struct job_ctx *ctx, const struct job_item *item,
			const struct job_action *a, const struct partition_status *part)
{
	const struct partition_service *ps = ctx->c->opts.partitions;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_FREE char *name = job_files_name(item->job, a->instance);
	struct job_files_data data = {.doc = doc};
	struct kube_request req = {
		.verb = a->files ? KUBE_UPDATE : KUBE_CREATE,
		.resource = &KUBE_CONFIGMAPS,
		.ns = item->job->ns,
		.name = a->files ? name : NULL,
	};

	job_files_build(doc, item->job, a->instance, part->id, a->files, &data.object);
	if (part->by_file)
		ps->ops->ipuof_files(ps, item->job->uid, a->instance, job_files_put, &data);
	job_files_values(item->job, part, job_files_put_value, &data);
	req.json = jmut_root(doc);
	kube_call_start(ctx->c->opts.kube, &req, on_files_written, job_call_new(ctx, name),
			&ctx->scope);
}

static void delete_files(struct job_ctx *ctx, const struct job_files *files)
{
	struct kube_request req = {
		.verb = KUBE_DELETE,
		.resource = &KUBE_CONFIGMAPS,
		.ns = files->ns,
		.name = files->name,
		.uid = files->uid,
	};

	kube_call_start(ctx->c->opts.kube, &req, on_deleted, job_call_new(ctx, files->name),
			&ctx->scope);
}

/* ---- the job itself ---- */

static void forget_sent(struct job_sent **p)
{
	if (!*p)
		return;
	job_status_done(&(*p)->first);
	job_status_done(&(*p)->sent);
	job_status_done(&(*p)->other);
	free(*p);
	*p = NULL;
}

static void note_sent(struct job_sent **p, const struct job_status *sent,
		      const struct job_status *other)
{
	forget_sent(p);
	*p = xcalloc(1, sizeof(**p));
	job_status_copy(&(*p)->sent, sent);
	job_status_copy(&(*p)->other, other);
}

/* An older CRD drops what it doesn't know: what was sent isn't sent again and again. */
static void note_kept(struct job_ctx *ctx, const struct job_status *sent, const struct json *answer)
{
	struct job *stored;

	if (job_decode(answer, &stored, NULL) < 0)
		return;
	forget_sent(&ctx->kept);
	if (!job_status_equal(&stored->status, sent)) {
		/* What is remembered must not be lost: it's kept here, for as long as this process
		 * lives. */
		if (!stored->status.n_instances)
			job_status_copy_memory(&stored->status, sent);
		note_sent(&ctx->kept, sent, &stored->status);
		log_warn("job", ctx->key,
			 "the API server keeps another status than was written: is its CRD of "
			 "another release?");
	}
	job_free(stored);
}

/* It was written, and this is what became of it. Times that weren't kept are made anew each time:
 * they don't count. */
static bool is_sent(const struct job_ctx *ctx, const struct job_status *want,
		    const struct job_status *have)
{
	const struct job_status *sent;
	struct job_status like_sent;
	bool same;

	if (!ctx->kept || !job_status_equal(have, &ctx->kept->other))
		return false;
	sent = &ctx->kept->sent;
	job_status_copy(&like_sent, want);
	like_sent.start_ms = sent->start_ms;
	like_sent.completion_ms = sent->completion_ms;
	for (unsigned i = 0; i < like_sent.n_conditions; i++) {
		struct job_condition *c = &like_sent.conditions[i];

		c->transition_ms = job_condition(sent, c->type)->transition_ms;
	}
	for (size_t i = 0; i < like_sent.n_instances && i < sent->n_instances; i++) {
		struct job_instance *mem = &like_sent.instances[i];

		mem->start_ms = sent->instances[i].start_ms;
		mem->since_ms = sent->instances[i].since_ms;
		mem->running_ms = sent->instances[i].running_ms;
		mem->retry_ms = sent->instances[i].retry_ms;
	}
	same = job_status_equal(&like_sent, sent);
	job_status_done(&like_sent);
	return same;
}

static bool is_first(const struct job_sent *unsure, const struct job_status *status)
{
	return unsure->has_first && job_status_equal(status, &unsure->first);
}

const struct job_status *job_unsure(const struct job_ctx *ctx, const struct job *job)
{
	const struct job_sent *unsure = ctx->unsure;

	return unsure && (job_status_equal(&job->status, &unsure->other) ||
			  is_first(unsure, &job->status))
		       ? &unsure->sent
		       : NULL;
}

/* The write failed. Of several upon the same status one at most has taken effect: the first that
 * reached the API server and wasn't refused. */
static void note_unsure(struct job_ctx *ctx, const struct job_call *call, const struct err *err)
{
	struct job_sent *unsure = ctx->unsure;

	if (!unsure || !job_status_equal(&call->before, &unsure->other)) {
		note_sent(&ctx->unsure, &call->status, &call->before);
		unsure = ctx->unsure;
	} else {
		job_status_done(&unsure->sent);
		job_status_copy(&unsure->sent, &call->status);
	}
	if (err->maybe_applied && !unsure->has_first) {
		job_status_copy(&unsure->first, &call->status);
		unsure->has_first = true;
	}
}

/* A write has taken effect although its answer was lost: that is measured and told as ever, for
 * the next plan has nothing to change any more. */
static void settle_unsure(struct job_ctx *ctx, const struct job *job)
{
	const struct job_sent *unsure = ctx->unsure;

	if (!unsure || job_status_equal(&job->status, &unsure->other))
		return;
	if (is_first(unsure, &job->status) || job_status_equal(&job->status, &unsure->sent)) {
		job_measure_status(job, &unsure->other, &job->status);
		job_tell_status(ctx, job, &unsure->other, &job->status);
	}
	forget_sent(&ctx->unsure);
}

void job_apply_forget(struct job_ctx *ctx)
{
	forget_sent(&ctx->kept);
	forget_sent(&ctx->unsure);
}

static void on_job_patched(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;
	struct job_ctx *ctx = call->ctx;
	const struct job *job = job_now(ctx);

	if (!err && call->has_status && job) {
		job_measure_status(job, &call->before, &call->status);
		job_tell_status(ctx, job, &call->before, &call->status);
	}
	if (!err && call->has_status) {
		forget_sent(&ctx->unsure);
		note_kept(ctx, &call->status, response->json);
	}
	if (err && call->has_status)
		note_unsure(ctx, call, err);
	if (!err)
		kube_store_note(ctx->c->jobs, response->json);
	/* Then it's the Event that says so: some of what a stored object lacks is asked for in
	 * every write of it. */
	if (err && err->kind == ERR_INVALID && call->has_status && job && job->problem) {
		job_tell(ctx, job, KUBE_EVENT_WARNING, "InvalidSpec", "%s", job->problem);
	}
	if (err && err->kind == ERR_NOT_FOUND)
		err = NULL;
	job_call_end(call, err);
}

static void patch_job(struct job_ctx *ctx, const struct job *job, struct job_call *call,
		      const char *subresource, const struct jmut *body)
{
	struct kube_request req = {
		.verb = KUBE_PATCH,
		.resource = &KUBE_IPUJOBS,
		.ns = job->ns,
		.name = job->name,
		.subresource = subresource,
		.patch = KUBE_PATCH_MERGE,
		.json = body,
	};

	kube_call_start(ctx->c->opts.kube, &req, on_job_patched, call, &ctx->scope);
}

/* What is written was made of the job as it was then: a write that comes late, whoever has sent it,
 * changes nothing that is newer, nor another job that has its name by now. */
static void set_version(struct jmut_doc *doc, struct jmut *meta, const struct job *job)
{
	jmut_set_str(doc, meta, "uid", job->uid);
	jmut_set_str(doc, meta, "resourceVersion", job->version);
}

static void patch_finalizer(struct job_ctx *ctx, const struct job_item *item, bool add)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *arr = jmut_array(doc);

	for (size_t i = 0; i < item->job->n_finalizers; i++)
		jmut_push(doc, arr, jmut_strz(doc, item->job->finalizers[i]));
	if (add)
		jmut_push(doc, arr, jmut_strz(doc, JOB_FINALIZER));
	set_version(doc, meta, item->job);
	jmut_set(doc, meta, "finalizers", arr);
	jmut_set(doc, root, "metadata", meta);
	patch_job(ctx, item->job, job_call_new(ctx, NULL), NULL, root);
}

static void patch_status(struct job_ctx *ctx, const struct job *job,
			 const struct job_status *status)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job_call *call = job_call_new(ctx, NULL);
	struct jmut *root, *meta = jmut_object(doc);

	job_status_copy(&call->status, status);
	job_status_copy(&call->before, &job->status);
	call->has_status = true;
	ctx->c->n_statuses++;
	call->status.reconcile_ms = clock_wall_ms();
	root = job_status_encode(doc, job, &call->status);
	set_version(doc, meta, job);
	jmut_set(doc, root, "metadata", meta);
	patch_job(ctx, job, call, "status", root);
}

static void delete_job(struct job_ctx *ctx, const struct job *job)
{
	struct kube_request req = {
		.verb = KUBE_DELETE,
		.resource = &KUBE_IPUJOBS,
		.ns = job->ns,
		.name = job->name,
		.uid = job->uid,
	};

	kube_call_start(ctx->c->opts.kube, &req, on_deleted, job_call_new(ctx, NULL), &ctx->scope);
}

/* ---- the plan ---- */

static void apply_action(struct job_ctx *ctx, const struct job_item *item,
			 const struct job_action *a, const struct partition_status *partitions)
{
	struct partition_service *ps = ctx->c->opts.partitions;
	CLEANUP_FREE char *legacy = NULL;
	struct partition_ask ask;

	log_debug("job", ctx->key, "%s instance=%u worker=%u", job_action_name(a->kind),
		  a->instance, a->worker);
	switch (a->kind) {
	case JOB_ADD_FINALIZER:
	case JOB_REMOVE_FINALIZER:
		patch_finalizer(ctx, item, a->kind == JOB_ADD_FINALIZER);
		break;
	case JOB_CLAIM:
		ask = job_ask(item->job, a->instance);
		ask.adopt = a->pod->partition;
		ask.only_adopt = true;
		ps->ops->ensure(ps, &ask);
		break;
	case JOB_ENSURE:
	case JOB_ADOPT:
		ask = job_ask(item->job, a->instance);
		ask.adopt = a->pod ? a->pod->partition : NULL;
		legacy = job_legacy_partition(item->job, a->instance);
		ask.legacy = legacy;
		ps->ops->ensure(ps, &ask);
		break;
	case JOB_RELEASE:
		ps->ops->release(ps, item->job->uid, a->instance);
		break;
	case JOB_RELEASE_ALL:
		ps->ops->release_all(ps, item->job->uid);
		break;
	case JOB_ABANDON:
		ps->ops->abandon(ps, item->job->uid);
		break;
	case JOB_WRITE_FILES:
		write_files(ctx, item, a, &partitions[a->instance]);
		break;
	case JOB_DELETE_FILES:
		delete_files(ctx, a->files);
		break;
	case JOB_CREATE_POD:
	case JOB_CREATE_LAUNCHER:
		create_pod(ctx, item, a, &partitions[a->instance]);
		break;
	case JOB_DELETE_WORKLOAD:
		delete_workload(ctx, a->pod);
		break;
	case JOB_OPEN_POD:
		open_pod(ctx, a->pod, &partitions[a->instance]);
		break;
	case JOB_CREATE_GROUP:
		job_group_create(ctx, item, a->instance);
		break;
	case JOB_DELETE_GROUP:
		job_group_delete(ctx, a->group);
		break;
	case JOB_WRITE_SUPPORT:
		job_support_start(ctx, item, a->instance);
		break;
	case JOB_DELETE_POD:
	case JOB_KILL_POD:
		delete_pod(ctx, a->pod, a->kind == JOB_KILL_POD);
		break;
	case JOB_DELETE_JOB:
		delete_job(ctx, item->job);
		break;
	}
}

/* How many Pods there are of each kind, and nothing else, is news. */
static bool only_counts_differ(const struct job_status *want, const struct job_status *have)
{
	struct job_status like;
	bool same;

	job_status_copy(&like, want);
	like.active = have->active;
	like.succeeded = have->succeeded;
	like.failed = have->failed;
	same = job_status_equal(&like, have);
	job_status_done(&like);
	return same;
}

/* A gang of 64 that comes or goes one by one isn't told one by one: doc/design/api-writes.md. */
static void write_status(struct job_ctx *ctx, const struct job *job,
			 const struct job_status *status)
{
	int64_t now = clock_mono_ms();
	bool counts = only_counts_differ(status, &job->status);

	if (counts && now < ctx->counts_at_ms) {
		kube_workqueue_add_after(ctx->c->queue, str_of(ctx->key), ctx->counts_at_ms - now);
		return;
	}
	if (!job_turn_take(ctx, job, status))
		return;
	if (!counts)
		ctx->counts_wait_ms = COUNTS_WAIT_MS;
	else if (ctx->counts_wait_ms < COUNTS_WAIT_MAX_MS)
		ctx->counts_wait_ms *= 2;
	ctx->counts_at_ms = now + ctx->counts_wait_ms;
	patch_status(ctx, job, status);
}

void job_apply(struct job_ctx *ctx, const struct job_item *item, const struct job_plan *plan,
	       const struct partition_status *partitions)
{
	if (!ctx->counts_wait_ms) /* whoever wrote the status that is there may just have */
		ctx->counts_wait_ms = COUNTS_WAIT_MS;
	settle_unsure(ctx, item->job);
	for (size_t i = 0; i < plan->n_actions; i++)
		apply_action(ctx, item, &plan->actions[i], partitions);
	if (plan->has_status)
		job_measure_pods(ctx, item->job, &plan->status);
	if (plan->has_status && !job_status_equal(&plan->status, &item->job->status) &&
	    !is_sent(ctx, &plan->status, &item->job->status))
		write_status(ctx, item->job, &plan->status);
	else
		job_turn_leave(ctx);
}
