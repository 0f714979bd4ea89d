/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PodGroups as API calls. One is made whole, before its Pods, and never changed: what it should say
 * otherwise is made anew.
 */
#include <stdlib.h>
#include <string.h>

#include "core/intern.h"
#include "core/str.h"
#include "job/call.h"
#include "job/groups.h"

/* Its API may have gone since it was asked, and the store with it. */
static void note(const struct job_call *call, const struct json *object)
{
	struct kube_store *store = job_groups_store(call->ctx->c->groups, call->group);

	if (store)
		kube_store_note(store, object);
}

static void on_own_found(struct job_call *call, const struct json *object)
{
	note(call, object);
	job_call_end(call, NULL);
}

static void on_created(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_call *call = arg;
	struct job_ctx *ctx = call->ctx;

	if (err && err->kind == ERR_EXISTS) {
		job_look_for(call, job_group_resource(call->group), on_own_found);
		return;
	}
	if (err && err->kind == ERR_NOT_FOUND)
		job_groups_doubt(ctx->c->groups); /* or the namespace goes, and the job with it */
	else if (err && !err_is_retryable(err))
		job_set_trouble(ctx, "PodGroupRefused",
				xasprintf("PodGroup %s isn't taken by the API server: %s",
					  call->object, err->msg));
	if (!err) {
		job_set_trouble(ctx, NULL, NULL);
		note(call, response->json);
	}
	job_call_end(call, err);
}

void job_group_create(struct job_ctx *ctx, const struct job_item *item, uint32_t instance)
{
	enum job_group_api api = job_groups_api(ctx->c->groups, item->job);
	CLEANUP_FREE char *name = job_group_name(item->job, instance);
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *spec = NULL;
	struct kube_request req = {.verb = KUBE_CREATE, .ns = item->job->ns};
	struct job_call *call;
	struct err err;

	if (api == JOB_GROUP_NONE)
		return;
	if (json_parse(intern_str(item->spec), &spec, &err) < 0) {
		ctx->run.calls++;
		job_call_ended(ctx, &err);
		return;
	}
	job_group_build(doc, item->job, json_root(spec), instance, api);
	req.resource = job_group_resource(api);
	req.json = jmut_root(doc);
	call = job_call_new(ctx, name);
	call->group = api;
	kube_call_start(ctx->c->opts.kube, &req, on_created, call, &ctx->scope);
}

/* Gone, or another one by now: the watch says which. */
static void on_deleted(void *arg, const struct err *err, const struct kube_response *response)
{
	(void)response;
	if (err && (err->kind == ERR_NOT_FOUND || err->kind == ERR_CONFLICT))
		err = NULL;
	job_call_end(arg, err);
}

void job_group_delete(struct job_ctx *ctx, const struct job_group *group)
{
	struct kube_request req = {
		.verb = KUBE_DELETE,
		.resource = job_group_resource(group->api),
		.ns = group->ns,
		.name = group->name,
		.uid = group->uid,
	};

	kube_call_start(ctx->c->opts.kube, &req, on_deleted, job_call_new(ctx, group->name),
			&ctx->scope);
}

void job_group_tell(struct job_ctx *ctx, const struct job *job)
{
	if (job->group_hash == 0 || ctx->told_group || !job_groups_known(ctx->c->groups) ||
	    job_groups_api(ctx->c->groups, job) != JOB_GROUP_NONE)
		return;
	ctx->told_group = true;
	if (job->scheduler)
		job_tell(ctx, job, KUBE_EVENT_WARNING, "NoGangScheduling",
			 "schedulingPolicy has no effect: scheduler %s has no PodGroups in this "
			 "cluster that the operator knows",
			 job->scheduler);
	else
		job_tell(ctx, job, KUBE_EVENT_WARNING, "NoGangScheduling",
			 "schedulingPolicy has no effect: there is neither Volcano nor the "
			 "coscheduling of scheduler-plugins in this cluster");
}
