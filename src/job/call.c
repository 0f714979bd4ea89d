/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calls of a pass have in common: their counting, their end, and whose an object is that
 * has a name which the job needs.
 */
#include "job/call.h"

#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "kube/object.h"

struct job_call *job_call_new(struct job_ctx *ctx, const char *object)
{
	struct job_call *call = xcalloc(1, sizeof(*call));

	call->ctx = ctx;
	call->object = xstrdup(object);
	list_append(&ctx->pending, &call->link);
	ctx->run.calls++;
	ctx->c->n_calls++;
	return call;
}

static void call_free(struct job_call *call)
{
	struct job_controller *c = call->ctx->c;

	c->n_calls--;
	c->n_statuses -= call->has_status;
	list_unlink(&call->link);
	free(call->object);
	if (call->has_status) {
		job_status_done(&call->status);
		job_status_done(&call->before);
	}
	free(call);
	job_turn_next(c);
}

void job_apply_cancel(struct job_ctx *ctx)
{
	scope_cancel(&ctx->scope);
	LIST_FOREACH(pos, tmp, &ctx->pending)
		call_free(CONTAINER_OF(pos, struct job_call, link));
	kube_run_cancel(&ctx->run);
}

const struct job *job_now(const struct job_ctx *ctx)
{
	const struct job_item *item = kube_store_get(ctx->c->jobs, str_of(ctx->key));

	return item && strcmp(item->job->uid, ctx->uid) == 0 ? item->job : NULL;
}

void job_call_end(struct job_call *call, const struct err *err)
{
	struct job_ctx *ctx = call->ctx;

	call_free(call);
	job_call_ended(ctx, err);
}

void job_set_trouble(struct job_ctx *ctx, const char *event, char *message)
{
	free(ctx->trouble);
	ctx->trouble = message;
	ctx->trouble_event = event;
}

/* Also by its label: without it the store would never hear of it. */
static bool is_own(const struct job_ctx *ctx, const struct json *object)
{
	const struct job *job = job_now(ctx);

	return kube_is_owned_by(object, str_of(ctx->uid)) && job &&
	       str_eqz(kube_label(object, JOB_LABEL_JOB), job->name);
}

static void on_object_found(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;
	struct job_ctx *ctx = call->ctx;
	const char *kind = call->found->kind;
	struct err conflict;

	if (!err && is_own(ctx, response->json)) {
		call->on_own(call, response->json);
		return;
	}
	if (err && err->kind != ERR_NOT_FOUND) {
		job_call_end(call, err);
		return;
	}
	if (!err && kube_is_owned_by(response->json, str_of(ctx->uid)))
		job_set_trouble(ctx, "NameConflict",
				xasprintf("%s %s is this job's, and another operator made it: the "
					  "job begins when it has gone",
					  kind, call->object));
	else if (!err)
		job_set_trouble(ctx, "NameConflict",
				xasprintf("%s %s exists and isn't this job's: remove it, or give "
					  "the job another name",
					  kind, call->object));
	err_set(&conflict, ERR_EXISTS, 0, "%s %s: one of that name is there", kind, call->object);
	job_call_end(call, &conflict);
}

void job_look_for(struct job_call *call, const struct kube_resource *resource,
		  job_call_own_fn *on_own)
{
	struct job_ctx *ctx = call->ctx;
	const struct job *job = job_now(ctx);
	struct kube_request req = {
		.verb = KUBE_GET,
		.resource = resource,
		.ns = job ? job->ns : NULL,
		.name = call->object,
	};

	if (!job) {
		job_call_end(call, NULL);
		return;
	}
	call->found = resource;
	call->on_own = on_own;
	kube_workqueue_step(ctx->c->queue);
	kube_call_start(ctx->c->opts.kube, &req, on_object_found, call, &ctx->scope);
}

static void note_own(struct job_call *call, const struct json *object)
{
	kube_store_note(call->store, object);
	job_call_end(call, NULL);
}

void job_look_for_stored(struct job_call *call, const struct kube_resource *resource,
			 struct kube_store *store)
{
	call->store = store;
	job_look_for(call, resource, note_own);
}
