/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes what a job's launchers need, and knows when it's all there: each object is created, or
 * looked at where one of its name is there, and put right if it's the job's own.
 */
#include <stdlib.h>
#include <string.h>

#include "core/intern.h"
#include "core/str.h"
#include "job/call.h"
#include "kube/object.h"

#define ALL_OF_THEM ((1U << JOB_SUPPORTS) - 1)

#define OF_WORKERS (1U << JOB_SUPPORT_CONFIG | 1U << JOB_SUPPORT_ACCOUNT)

/* What their content follows from, beside the job's name. */
static bool is_for(const struct job_supported *s, const struct job *job)
{
	return s->instances == job->instances && s->workers == job->workers &&
	       s->slots == job->slots;
}

static uint32_t instances_in(const struct job_ctx *ctx, enum job_support which)
{
	return which == JOB_SUPPORT_ROLE ? ctx->support.covered : ctx->support.instances;
}

/* The ConfigMap is watched: was it removed, or changed by hand? */
static bool has_config(const struct job_ctx *ctx, const struct job *job)
{
	CLEANUP_FREE char *name = job_support_name(job, JOB_SUPPORT_CONFIG);
	char key[KUBE_KEY_SIZE];
	const struct job_files *f = kube_store_get(ctx->c->files,
						   kube_key(str_of(job->ns), str_of(name), key));

	return f && !f->deleting && f->owner_uid && strcmp(f->owner_uid, job->uid) == 0 &&
	       f->hash == ctx->support.config_hash;
}

bool job_is_configured(const struct job_ctx *ctx, const struct job *job)
{
	return (ctx->support.good & OF_WORKERS) == OF_WORKERS && is_for(&ctx->support, job) &&
	       has_config(ctx, job);
}

uint32_t job_supported(const struct job_ctx *ctx, const struct job *job)
{
	return ctx->support.good == ALL_OF_THEM && job_is_configured(ctx, job)
		       ? ctx->support.covered
		       : 0;
}

static void write_binding(struct job_ctx *ctx);

/* The API server has it as it should be. */
static void note_good(struct job_call *call, const struct json *object)
{
	struct job_ctx *ctx = call->ctx;

	if (call->support == JOB_SUPPORT_CONFIG) {
		ctx->support.config_hash = job_files_hash(object);
		kube_store_note(ctx->c->files, object);
	}
	ctx->support.good |= 1U << call->support;
	if (call->support == JOB_SUPPORT_ROLE)
		write_binding(ctx);
	/* Only the ConfigMap is watched: no news of the others would bring the next pass. */
	if (ctx->support.good == (ctx->support.covered ? ALL_OF_THEM : OF_WORKERS)) {
		job_set_trouble(ctx, NULL, NULL);
		kube_workqueue_add(ctx->c->queue, str_of(ctx->key));
	}
	job_call_end(call, NULL);
}

static void refuse(struct job_call *call, const struct err *err)
{
	if (!err_is_retryable(err) && err->kind != ERR_CONFLICT && err->kind != ERR_NOT_FOUND)
		job_set_trouble(call->ctx, "LauncherObjectRefused",
				xasprintf("%s %s isn't taken by the API server: %s",
					  job_support_resource(call->support)->kind, call->object,
					  err->msg));
	job_call_end(call, err);
}

static void on_updated(void *arg, const struct err *err, const struct kube_response *response)
{
	if (err)
		refuse(arg, err);
	else
		note_good(arg, response->json);
}

/* Put in the place of the one that was looked at, and of no other. */
static void look_at_own(struct job_call *call, const struct json *object)
{
	struct job_ctx *ctx = call->ctx;
	const struct job *job = job_now(ctx);
	CLEANUP_JMUT struct jmut_doc *doc = NULL;
	struct kube_request req = {
		.verb = KUBE_UPDATE,
		.resource = job_support_resource(call->support),
		.name = call->object,
	};

	if (!job || kube_is_deleting(object)) { /* the next pass makes it again */
		struct err going;

		err_set(&going, ERR_CONFLICT, 0, "%s %s is being deleted", req.resource->kind,
			call->object);
		job_call_end(call, job ? &going : NULL);
		return;
	}
	if (job_support_is_current(object, job, call->support, instances_in(ctx, call->support))) {
		note_good(call, object);
		return;
	}
	doc = jmut_doc_new();
	job_support_build(doc, job, call->support, instances_in(ctx, call->support), object);
	req.ns = job->ns;
	req.json = jmut_root(doc);
	kube_workqueue_step(ctx->c->queue);
	kube_call_start(ctx->c->opts.kube, &req, on_updated, call, &ctx->scope);
}

static void on_created(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;

	if (err && err->kind == ERR_EXISTS)
		job_look_for(call, job_support_resource(call->support), look_at_own);
	else if (err)
		refuse(call, err);
	else
		note_good(call, response->json);
}

/* like: the account that workers run under, or NULL. */
static void create(struct job_call *call, const struct job *job, const struct json *like)
{
	struct job_ctx *ctx = call->ctx;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct kube_request req = {
		.verb = KUBE_CREATE,
		.resource = job_support_resource(call->support),
		.ns = job->ns,
	};

	job_support_build(doc, job, call->support, instances_in(ctx, call->support), NULL);
	if (like)
		job_support_take_secrets(doc, like);
	req.json = jmut_root(doc);
	kube_workqueue_step(ctx->c->queue);
	kube_call_start(ctx->c->opts.kube, &req, on_created, call, &ctx->scope);
}

/* It isn't there, or isn't for us to see: then its secrets aren't needed, or the launcher's Pod
 * says that they are. */
static void on_workers_account(void *arg, const struct err *err,
			       const struct kube_response *response)
{
	struct job_call *call = arg;
	const struct job *job = job_now(call->ctx);

	if (!job)
		job_call_end(call, NULL);
	else if (err && err->kind != ERR_NOT_FOUND && err->kind != ERR_DENIED)
		job_call_end(call, err);
	else
		create(call, job, err ? NULL : response->json);
}

static void create_account(struct job_call *call, const struct job *job, const char *workers)
{
	struct kube_request req = {
		.verb = KUBE_GET,
		.resource = &KUBE_SERVICEACCOUNTS,
		.ns = job->ns,
		.name = workers,
	};

	kube_call_start(call->ctx->c->opts.kube, &req, on_workers_account, call, &call->ctx->scope);
}

static void write_one(struct job_ctx *ctx, const struct job_item *item, enum job_support which)
{
	CLEANUP_FREE char *name = job_support_name(item->job, which);
	CLEANUP_JSON struct json_doc *spec = NULL;
	CLEANUP_FREE char *workers = NULL;
	struct job_call *call;
	struct err err;

	if (which == JOB_SUPPORT_ACCOUNT) {
		if (json_parse(intern_str(item->spec), &spec, &err) < 0) {
			ctx->run.calls++;
			job_call_ended(ctx, &err);
			return;
		}
		workers = job_support_account_to_ask(json_root(spec));
	}
	call = job_call_new(ctx, name);
	call->is_support = true;
	call->support = which;
	if (workers)
		create_account(call, item->job, workers);
	else
		create(call, item->job, NULL);
}

/* Several instances of one pass may want it. */
static bool is_asked_for(struct job_ctx *ctx, enum job_support which)
{
	LIST_FOREACH(pos, tmp, &ctx->pending) {
		const struct job_call *call = CONTAINER_OF(pos, struct job_call, link);

		if (call->is_support && call->support == which)
			return true;
	}
	return false;
}

/* Once its Role is there: an API server that must see whether we may give that away looks at it. */
static void write_binding(struct job_ctx *ctx)
{
	const struct job *job = job_now(ctx);
	CLEANUP_FREE char *name = NULL;
	struct job_call *call;

	if (!job || ctx->support.good & (1U << JOB_SUPPORT_BINDING) ||
	    is_asked_for(ctx, JOB_SUPPORT_BINDING))
		return;
	name = job_support_name(job, JOB_SUPPORT_BINDING);
	call = job_call_new(ctx, name);
	call->is_support = true;
	call->support = JOB_SUPPORT_BINDING;
	create(call, job, NULL);
}

void job_support_start(struct job_ctx *ctx, const struct job_item *item, uint32_t covered)
{
	struct job_supported *known = &ctx->support;
	const struct job *job = item->job;

	if (!is_for(known, job))
		*known = (struct job_supported){
			.instances = job->instances, .workers = job->workers, .slots = job->slots};
	else if (known->good & (1U << JOB_SUPPORT_CONFIG) && !has_config(ctx, job))
		known->good &= ~(1U << JOB_SUPPORT_CONFIG);
	if (covered > known->covered) {
		known->covered = covered;
		known->good &= ~(1U << JOB_SUPPORT_ROLE);
	}
	if (known->good & (1U << JOB_SUPPORT_ROLE))
		write_binding(ctx);
	for (unsigned i = 0; i < JOB_SUPPORTS; i++) {
		bool is_wanted = known->covered || OF_WORKERS & (1U << i);

		if (i != JOB_SUPPORT_BINDING && is_wanted && !(known->good & (1U << i)) &&
		    !is_asked_for(ctx, i))
			write_one(ctx, item, i);
	}
}
