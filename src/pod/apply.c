/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's actions as API calls and as asks of the partition layer, and the question whether
 * an owner is still there. Every call counts in the pass that started it; its answer goes into the
 * store at once, so that the next pass sees it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "job/files.h"
#include "kube/object.h"
#include "pod/internal.h"

#define SAY_MS         60000        /* what it waits for: at most once in so long */
#define HOLD_BACK_MS   30000        /* doubled with each refusal, … */
#define HOLD_BACK_MAX  5            /* … so often at most: 16 minutes and less, … */
#define HOLD_BACK_TOP  (10 * 60000) /* … and never longer */
#define OWNER_SOON_MS  5000         /* the watch will bring it */
#define OWNER_LATER_MS 60000        /* it isn't one that is watched */

/* ---- calls ---- */

struct pod_call {
	struct pod_ctx *ctx;
	struct list link;
};

static struct pod_call *call_new(struct pod_ctx *ctx)
{
	struct pod_call *call = xcalloc(1, sizeof(*call));

	call->ctx = ctx;
	list_append(&ctx->pending, &call->link);
	ctx->run.calls++;
	return call;
}

static void call_free(struct pod_call *call)
{
	list_unlink(&call->link);
	free(call);
}

static void call_end(struct pod_call *call, const struct err *err)
{
	struct pod_ctx *ctx = call->ctx;

	call_free(call);
	pod_call_ended(ctx, err);
}

void pod_apply_cancel(struct pod_ctx *ctx)
{
	scope_cancel(&ctx->scope);
	LIST_FOREACH(pos, tmp, &ctx->pending)
		call_free(CONTAINER_OF(pos, struct pod_call, link));
	kube_run_cancel(&ctx->run);
}

static void start(struct pod_ctx *ctx, const struct kube_request *req, kube_call_fn *fn)
{
	kube_call_start(ctx->c->opts.kube, req, fn, call_new(ctx), &ctx->scope);
}

/* ---- refusals ---- */

/* It's tried again later, since that was refused. */
static void hold_back(struct pod_ctx *ctx, const char *event, const char *message)
{
	int64_t wait_ms = (int64_t)HOLD_BACK_MS << ctx->refusals;

	if (wait_ms > HOLD_BACK_TOP)
		wait_ms = HOLD_BACK_TOP;
	ctx->refusals += ctx->refusals < HOLD_BACK_MAX;
	free(ctx->trouble);
	ctx->trouble = xstrdup(message);
	ctx->trouble_event = event;
	ctx->retry_ms = clock_mono_ms() + wait_ms;
	kube_workqueue_add(ctx->c->queue, str_of(ctx->uid));
}

static bool is_refusal(const struct err *err)
{
	return !err_is_retryable(err) && err->kind != ERR_CONFLICT && err->kind != ERR_NOT_FOUND;
}

/* ---- the Pod ---- */

static bool is_gated(const struct pod_ctx *ctx, const struct json *object)
{
	struct json_iter it = json_iter(json_at(object, "spec", "schedulingGates", NULL));

	if (!str_eqz(kube_uid(object), ctx->uid))
		return false;
	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "name")), POD_GATE))
			return true;
	}
	return false;
}

static void on_said(void *arg, const struct err *err, const struct kube_response *response)
{
	struct pod_call *call = arg;
	struct pod_ctx *ctx = call->ctx;

	if (!err) {
		kube_store_note(ctx->c->pods, response->json);
		ctx->fenced = is_gated(ctx, response->json);
	} else if (err->kind == ERR_NOT_FOUND || err->kind == ERR_CONFLICT) {
		err = NULL; /* gone, or another one by now: the watch says which */
	}
	call_end(call, err);
}

static void patch_pod(struct pod_ctx *ctx, const struct pod *pod, const struct jmut_doc *doc,
		      kube_call_fn *fn)
{
	struct kube_request req = {
		.verb = KUBE_PATCH,
		.resource = &KUBE_PODS,
		.ns = pod->ns,
		.name = pod->name,
		.patch = KUBE_PATCH_MERGE,
		.json = jmut_root(doc),
	};

	start(ctx, &req, fn);
}

static void write_words(struct pod_ctx *ctx, const struct pod *pod, const char *words)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	ctx->said = true;
	ctx->said_ms = clock_mono_ms();
	pod_say_patch(doc, pod, words);
	patch_pod(ctx, pod, doc, on_said);
}

/* What it waits for, as of the last minute. */
static void say(struct pod_ctx *ctx, const struct pod *pod, const struct pod_plan *plan)
{
	CLEANUP_FREE char *words = NULL;
	int64_t now_ms = clock_mono_ms();

	if (!plan->waits)
		return;
	words = xasprintf("%s: %s", plan->event, plan->message);
	if (pod->waiting && strcmp(pod->waiting, words) == 0)
		return;
	if (ctx->said && now_ms < ctx->said_ms + SAY_MS)
		kube_workqueue_add_after(ctx->c->queue, str_of(ctx->uid),
					 ctx->said_ms + SAY_MS - now_ms);
	else
		write_words(ctx, pod, words);
}

/* A patch that changes nothing leaves an object its version. */
static void fence(struct pod_ctx *ctx, const struct pod *pod, const struct pod_plan *plan)
{
	CLEANUP_FREE char *words = xasprintf("%s: %s", plan->event, plan->message);
	CLEANUP_FREE char *other = xasprintf("%s (its IPUs go to others)", words);

	write_words(ctx, pod, pod->waiting && strcmp(pod->waiting, words) == 0 ? other : words);
}

static void on_opened(void *arg, const struct err *err, const struct kube_response *response)
{
	struct pod_call *call = arg;
	struct pod_ctx *ctx = call->ctx;
	char z[300];

	if (!err) {
		kube_store_note(ctx->c->pods, response->json);
		ctx->refusals = 0;
	} else if (err->kind == ERR_NOT_FOUND) {
		err = NULL;
	} else if (is_refusal(err)) {
		snprintf(z, sizeof(z), "the API server doesn't let the Pod be opened: %.220s",
			 err->msg);
		hold_back(ctx, "PodRefused", z);
	}
	call_end(call, err);
}

static void open_pod(struct pod_ctx *ctx, const struct pod *pod,
		     const struct partition_status *part)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	ctx->fenced = false;
	pod_open_patch(doc, pod, part);
	patch_pod(ctx, pod, doc, on_opened);
}

static void on_limited(void *arg, const struct err *err, const struct kube_response *response)
{
	struct pod_call *call = arg;
	struct pod_ctx *ctx = call->ctx;
	char z[300];

	if (!err) {
		kube_store_note(ctx->c->pods, response->json);
	} else if (err->kind == ERR_NOT_FOUND || err->kind == ERR_CONFLICT) {
		err = NULL;
	} else if (is_refusal(err)) {
		snprintf(z, sizeof(z),
			 "the API server doesn't let the Pod have its namespace's time: %.220s",
			 err->msg);
		pod_tell(ctx, KUBE_EVENT_WARNING, "PodRefused", "%s", z);
		hold_back(ctx, "PodRefused", z);
	}
	call_end(call, err);
}

static void limit(struct pod_ctx *ctx, const struct pod *pod, const struct partition_status *part)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	pod_limit_patch(doc, pod, part);
	patch_pod(ctx, pod, doc, on_limited);
}

/* ---- its ConfigMap ---- */

static void on_files_found(void *arg, const struct err *err, const struct kube_response *response)
{
	struct pod_call *call = arg;
	struct pod_ctx *ctx = call->ctx;
	char z[300];

	if (!err && kube_is_owned_by(response->json, str_of(ctx->uid)) &&
	    kube_label(response->json, POD_LABEL).len) {
		kube_store_note(ctx->c->files, response->json);
	} else if (!err) {
		snprintf(z, sizeof(z),
			 "ConfigMap %.*s exists and isn't this Pod's: remove it, or make the Pod "
			 "anew",
			 STR_ARG(kube_name(response->json)));
		hold_back(ctx, "NameConflict", z);
	}
	if (err && err->kind == ERR_NOT_FOUND) {
		err = NULL; /* gone meanwhile: it's written again */
		kube_workqueue_add(ctx->c->queue, str_of(ctx->uid));
	}
	call_end(call, err);
}

/* One of that name is there, and the store hasn't got it. */
static void look_for_files(struct pod_ctx *ctx)
{
	const struct pod *pod = kube_store_by_uid(ctx->c->pods, str_of(ctx->uid));
	char name[POD_CONFIG_MAP_SIZE];
	struct kube_request req = {
		.verb = KUBE_GET, .resource = &KUBE_CONFIGMAPS, .ns = ctx->ns, .name = name};

	if (!pod || pod->problem)
		return;
	pod_config_map_name(pod->token, name);
	start(ctx, &req, on_files_found);
}

static void on_files_written(void *arg, const struct err *err, const struct kube_response *response)
{
	struct pod_call *call = arg;
	struct pod_ctx *ctx = call->ctx;
	char z[300];

	if (!err) {
		kube_store_note(ctx->c->files, response->json);
	} else if (err->kind == ERR_EXISTS) {
		look_for_files(ctx);
		err = NULL;
	} else if (is_refusal(err)) {
		snprintf(z, sizeof(z),
			 "its ConfigMap with the IPUoF configuration isn't taken by the API "
			 "server: %.200s",
			 err->msg);
		hold_back(ctx, "ConfigMapRefused", z);
	}
	call_end(call, err);
}

/* Whole: made, or put in the place of the one that was looked at and of no other. */
static void write_files(struct pod_ctx *ctx, const struct pod *pod,
			const struct partition_status *part, const struct job_files *before)
{
	const struct partition_service *ps = ctx->c->opts.partitions;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	char name[POD_CONFIG_MAP_SIZE];
	struct job_files_data data = {.doc = doc};
	struct kube_request req = {
		.verb = before ? KUBE_UPDATE : KUBE_CREATE,
		.resource = &KUBE_CONFIGMAPS,
		.ns = pod->ns,
		.name = before ? name : NULL,
	};

	pod_config_map_name(pod->token, name);
	pod_files_build(doc, pod, part->id, before, &data.object);
	if (part->by_file)
		ps->ops->ipuof_files(ps, pod->uid, 0, job_files_put, &data);
	job_files_keys(part, job_files_put_value, &data);
	req.json = jmut_root(doc);
	start(ctx, &req, on_files_written);
}

/* ---- who is gone ---- */

static bool has_ended(const struct json *pod)
{
	struct str phase = json_str(json_at(pod, "status", "phase", NULL));

	return str_eqz(phase, "Succeeded") || str_eqz(phase, "Failed");
}

static void release_owner(struct pod_ctx *ctx, const char *why)
{
	struct partition_service *ps = ctx->c->opts.partitions;

	log_info("pod", ctx->object, "its IPUs are released: %s, uid=%s", why, ctx->uid);
	ps->ops->release_all(ps, ctx->uid);
}

static void on_owner(void *arg, const struct err *err, const struct kube_response *response)
{
	struct pod_call *call = arg;
	struct pod_ctx *ctx = call->ctx;
	int64_t again_ms;

	if (err && err->kind == ERR_NOT_FOUND) {
		release_owner(ctx, "the Pod is gone");
		err = NULL;
	} else if (!err && !str_eqz(kube_uid(response->json), ctx->uid)) {
		release_owner(ctx, "the Pod is gone, another one has its name");
	} else if (!err && has_ended(response->json)) {
		release_owner(ctx, "the Pod has ended");
	} else if (!err) {
		again_ms = kube_label(response->json, POD_LABEL).len ? OWNER_SOON_MS
								     : OWNER_LATER_MS;
		kube_workqueue_add_after(ctx->c->queue, str_of(ctx->uid), again_ms);
	}
	call_end(call, err);
}

void pod_look_for_owner(struct pod_ctx *ctx)
{
	struct kube_request req = {
		.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = ctx->ns, .name = ctx->name};

	start(ctx, &req, on_owner);
}

/* ---- the plan ---- */

static void ensure(struct pod_ctx *ctx, const struct pod *pod, const struct partition_status *part,
		   bool adopt)
{
	struct partition_service *ps = ctx->c->opts.partitions;
	struct partition_ask ask = pod_ask(pod, part->ask ? part->wanted_attempt : 0);

	if (adopt) {
		ask.adopt = pod->partition;
		ask.only_adopt = true;
		ctx->adopted = true;
	}
	ps->ops->ensure(ps, &ask);
}

void pod_apply(struct pod_ctx *ctx, const struct pod *pod, const struct pod_plan *plan,
	       const struct partition_status *part, const struct job_files *files)
{
	struct partition_service *ps = ctx->c->opts.partitions;

	if (plan->action != POD_NOTHING)
		log_debug("pod", ctx->object, "%s", pod_action_name(plan->action));
	switch (plan->action) {
	case POD_FENCE:
		fence(ctx, pod, plan);
		return;
	case POD_OPEN:
		open_pod(ctx, pod, part);
		return;
	case POD_ENSURE:
	case POD_ADOPT:
		ensure(ctx, pod, part, plan->action == POD_ADOPT);
		break;
	case POD_RELEASE:
		ps->ops->release(ps, pod->uid, 0);
		break;
	case POD_WRITE_FILES:
		write_files(ctx, pod, part, files);
		break;
	case POD_LIMIT:
		limit(ctx, pod, part);
		break;
	case POD_HOLD_BACK:
		hold_back(ctx, plan->event, plan->message);
		break;
	case POD_NOTHING:
		break;
	}
	say(ctx, pod, plan);
}
