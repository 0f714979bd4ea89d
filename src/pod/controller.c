/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches annotated Pods and their ConfigMaps, and runs one pass for each Pod that something
 * happened to, or that is only known as a partition's owner: observe from the stores, plan, apply.
 * Owns the stores and the queue; the partition layer is borrowed.
 */
#include "pod/controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"
#include "pod/internal.h"

/* ---- what is remembered of a Pod ---- */

static struct pod_ctx *need_ctx(struct pod_controller *c, const char *ns, const char *name,
				const char *uid)
{
	struct pod_ctx *ctx = map_get(c->ctxs, str_of(uid));

	if (ctx)
		return ctx;
	ctx = xcalloc(1, sizeof(*ctx));
	ctx->c = c;
	ctx->ns = xstrdup(ns);
	ctx->name = xstrdup(name);
	ctx->uid = xstrdup(uid);
	ctx->object = xasprintf("%s/%s", ns, name);
	scope_init(&ctx->scope);
	list_init(&ctx->pending);
	map_put_borrowed(c->ctxs, str_of(ctx->uid), ctx);
	return ctx;
}

static void free_ctx(struct pod_ctx *ctx)
{
	pod_apply_cancel(ctx);
	pod_told_free(ctx);
	free(ctx->ns);
	free(ctx->name);
	free(ctx->uid);
	free(ctx->object);
	free(ctx->trouble);
	free(ctx);
}

/* ---- the pass ---- */

static const struct job_files *files_of(const struct pod_controller *c, const struct pod *pod)
{
	char name[POD_CONFIG_MAP_SIZE], key[KUBE_KEY_SIZE];

	if (!pod_token_is(str_of(pod->token)))
		return NULL;
	pod_config_map_name(pod->token, name);
	return kube_store_get(c->files, kube_key(str_of(pod->ns), str_of(name), key));
}

static bool asks(const struct pod_controller *c, const char *uid)
{
	struct partition_service *ps = c->opts.partitions;
	uint32_t any;

	return ps->ops->asked_from(ps, uid, 0, &any, 1) > 0;
}

/* Of two with the same token: which one is it for? */
static bool comes_before(const struct pod_controller *c, const struct pod *a, const struct pod *b,
			 const struct job_files *files)
{
	bool a_asks = asks(c, a->uid), b_asks = asks(c, b->uid);

	if (files && files->owner_uid && strcmp(files->owner_uid, a->uid) == 0)
		return true;
	if (files && files->owner_uid && strcmp(files->owner_uid, b->uid) == 0)
		return false;
	if (a_asks != b_asks)
		return a_asks;
	if (a->created_ms != b->created_ms)
		return a->created_ms < b->created_ms;
	return strcmp(a->uid, b->uid) < 0;
}

static bool is_copy(const struct pod_controller *c, const struct pod *pod,
		    const struct job_files *files)
{
	struct kube_store_iter it = kube_store_iter_index(c->pods, 0, str_of(pod->token_key));

	while (kube_store_next(&it)) {
		const struct pod *other = it.item;

		if (strcmp(other->uid, pod->uid) != 0 && comes_before(c, other, pod, files))
			return true;
	}
	return false;
}

/* What was refused is tried again now. */
static void end_wait(struct pod_ctx *ctx)
{
	if (!ctx->retry_ms || clock_mono_ms() < ctx->retry_ms)
		return;
	ctx->retry_ms = 0;
	ctx->trouble_event = NULL;
	free(ctx->trouble);
	ctx->trouble = NULL;
}

/* As the planner has it, by the wall's clock, which may be set while it waits. */
static int64_t retry_wall_ms(const struct pod_ctx *ctx, int64_t now_ms)
{
	return ctx->retry_ms ? now_ms + (ctx->retry_ms - clock_mono_ms()) : 0;
}

static void pass_over(struct pod_ctx *ctx, const struct pod *pod)
{
	struct partition_service *ps = ctx->c->opts.partitions;
	const struct job_files *files = files_of(ctx->c, pod);
	struct partition_status part;
	int64_t now_ms = clock_wall_ms();
	struct pod_view view;
	struct pod_plan plan;

	end_wait(ctx);
	ps->ops->get_status(ps, pod->uid, 0, &part);
	if (part.state != PARTITION_STATE_NONE)
		ctx->adopted = true; /* it isn't lost; if it goes, it has been given back */
	view = (struct pod_view){
		.pod = pod,
		.now_ms = now_ms,
		.unreachable_ms = ctx->c->opts.unreachable_ms,
		.partition = &part,
		.files = files,
		.copy = pod->gated && is_copy(ctx->c, pod, files),
		.adopted = ctx->adopted,
		.fenced = ctx->fenced,
		.retry_ms = retry_wall_ms(ctx, now_ms),
		.trouble_event = ctx->trouble_event,
		.trouble = ctx->trouble,
	};
	pod_plan(&view, &plan);
	pod_tell_partition(ctx, pod, &part);
	pod_tell_plan(ctx, pod, &plan);
	ctx->looked = true;
	pod_apply(ctx, pod, &plan, &part, files);
	if (plan.next_ms)
		kube_workqueue_add_after(ctx->c->queue, str_of(ctx->uid),
					 plan.next_ms - view.now_ms);
}

/* An owner that the store hasn't got. */
static void pass_over_owner(struct pod_ctx *ctx)
{
	struct partition_service *ps = ctx->c->opts.partitions;
	struct partition_status part;

	ps->ops->get_status(ps, ctx->uid, 0, &part);
	pod_tell_partition(ctx, NULL, &part);
	ctx->looked = true;
	if (asks(ctx->c, ctx->uid))
		pod_look_for_owner(ctx);
}

static void end_pass(struct pod_ctx *ctx, const struct err *err)
{
	struct pod_controller *c = ctx->c;

	/* A conflict is news, not trouble. */
	if (err && err->kind != ERR_CONFLICT && log_limit_ok(&ctx->quiet, 60000))
		log_warn("pod", ctx->object, "%s", err->msg);
	kube_workqueue_done(c->queue, str_of(ctx->uid), err);
	if (err || kube_store_by_uid(c->pods, str_of(ctx->uid)) ||
	    c->opts.partitions->ops->held(c->opts.partitions, ctx->uid) > 0)
		return;
	map_del(c->ctxs, str_of(ctx->uid)); /* nothing is left of it */
	free_ctx(ctx);
}

void pod_call_ended(struct pod_ctx *ctx, const struct err *err)
{
	CLEANUP_FREE struct err *first = NULL;

	if (kube_run_call_ended(&ctx->run, ctx->c->queue, err, &first))
		end_pass(ctx, first);
}

static void run(void *arg, struct str key)
{
	struct pod_controller *c = arg;
	const struct pod *pod = kube_store_by_uid(c->pods, key);
	struct pod_ctx *ctx = pod ? need_ctx(c, pod->ns, pod->name, pod->uid)
				  : map_get(c->ctxs, key);

	if (!ctx) {
		kube_workqueue_done(c->queue, key, NULL);
		return;
	}
	kube_run_begin(&ctx->run);
	if (pod)
		pass_over(ctx, pod);
	else
		pass_over_owner(ctx);
	pod_call_ended(ctx, NULL);
}

/* ---- the stores ---- */

static int project_pod(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct pod *pod;

	(void)arg;
	if (pod_decode(object, &pod, err) < 0)
		return -1;
	*ret_item = pod;
	return 0;
}

static void free_pod_item(void *arg, void *item)
{
	(void)arg;
	pod_free(item);
}

static bool same_pod(void *arg, const void *old, const void *item)
{
	(void)arg;
	return pod_equal(old, item);
}

static void add_all_of(struct pod_controller *c, const char *token_key)
{
	struct kube_store_iter it = kube_store_iter_index(c->pods, 0, str_of(token_key));

	while (kube_store_next(&it))
		kube_workqueue_add(c->queue, it.uid);
}

static void on_pod_change(void *arg, struct str key, const void *old, const void *item)
{
	struct pod_controller *c = arg;
	const struct pod *was = old, *is = item;

	(void)key;
	/* Its copies may be next. */
	if (was && (!is || strcmp(was->token_key, is->token_key) != 0))
		add_all_of(c, was->token_key);
	/* Gone, or without its label now: its owner has to be looked for. */
	if (was && !is)
		need_ctx(c, was->ns, was->name, was->uid);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a change has an old or a new one */
	kube_workqueue_add(c->queue, str_of(is ? is->uid : was->uid));
	if (c->opts.on_change)
		c->opts.on_change(c->opts.on_change_arg);
}

static struct str index_pod(const void *item)
{
	return str_of(((const struct pod *)item)->token_key);
}

static int project_files(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct job_files *files;

	(void)arg;
	if (job_files_decode(object, POD_LABEL, &files, err) < 0)
		return -1;
	*ret_item = files;
	return 0;
}

static void on_files_change(void *arg, struct str key, const void *old, const void *item)
{
	struct pod_controller *c = arg;
	const struct job_files *was = old, *is = item;

	(void)key;
	if (was)
		add_all_of(c, was->key);
	if (is)
		add_all_of(c, is->key);
}

/* ---- the start ---- */

static bool is_mine(const struct pod_controller *c, const struct partition_owner *owner)
{
	return strcmp(owner->kind, POD_KIND) == 0 && (!c->ns || strcmp(c->ns, owner->ns) == 0);
}

static void add_owner(const struct partition_ask *ask, const struct partition_status *st, void *arg)
{
	struct pod_controller *c = arg;
	const struct partition_owner *o = &ask->owner;

	(void)st;
	if (!is_mine(c, o))
		return;
	need_ctx(c, o->ns, o->name, o->uid);
	kube_workqueue_add(c->queue, str_of(o->uid));
}

bool pod_controller_ready(const struct pod_controller *c, struct err *ret_why)
{
	if (kube_store_check_synced(c->pods, "annotated Pods", ret_why) < 0 ||
	    kube_store_check_synced(c->files, "their ConfigMaps", ret_why) < 0)
		return false;
	if (!c->opts.partitions->ops->synced(c->opts.partitions)) {
		err_set(ret_why, ERR_UNAVAILABLE, 0, "the partition tracker hasn't been read yet");
		return false;
	}
	return true;
}

static void start_when_ready(struct pod_controller *c)
{
	if (c->started || !pod_controller_ready(c, NULL))
		return;
	c->started = true;
	if (c->opts.on_change)
		c->opts.on_change(c->opts.on_change_arg);
	/* Those too that ended while nobody was looking. */
	c->opts.partitions->ops->each(c->opts.partitions, add_owner, c);
	kube_workqueue_resume(c->queue);
	log_info("pod", NULL, "ready: pods=%zu", kube_store_len(c->pods));
}

static void on_store_synced(void *arg)
{
	start_when_ready(arg);
}

void pod_controller_partitions_synced(struct pod_controller *c)
{
	start_when_ready(c);
}

void pod_controller_partition_changed(struct pod_controller *c, const struct partition_owner *owner)
{
	if (!is_mine(c, owner))
		return;
	need_ctx(c, owner->ns, owner->name, owner->uid);
	kube_workqueue_add(c->queue, str_of(owner->uid));
}

static int64_t active_since(const struct pod_controller *c, const struct pod *pod)
{
	struct partition_service *ps = c->opts.partitions;
	struct partition_status part;

	ps->ops->get_status(ps, pod->uid, 0, &part);
	return part.state == PARTITION_STATE_ACTIVE ? part.since_ms : 0;
}

bool pod_controller_each_held(const struct pod_controller *c, pod_held_fn *fn, void *arg,
			      int64_t *due_ms)
{
	struct kube_store_iter it = kube_store_iter(c->pods);
	int64_t now_ms = clock_wall_ms();
	struct job_held held;

	while (c->started && kube_store_next(&it)) {
		const struct pod *pod = it.item;

		if (pod->started)
			continue;
		if (pod_is_held(pod, active_since(c, pod), now_ms, &held))
			fn(pod, &held, arg);
		else if (held.due_ms && (!*due_ms || held.due_ms < *due_ms))
			*due_ms = held.due_ms;
	}
	return c->started;
}

void pod_controller_count(const struct pod_controller *c, size_t ret[POD_STAGES])
{
	struct kube_store_iter it = kube_store_iter(c->pods);

	memset(ret, 0, POD_STAGES * sizeof(*ret));
	while (kube_store_next(&it))
		ret[pod_stage(it.item)]++;
}

struct pod_controller *pod_controller_new(const struct pod_controller_opts *opts)
{
	struct pod_controller *c = xcalloc(1, sizeof(*c));
	struct kube_store_ops pod_ops = {
		.component = "pod",
		.project = project_pod,
		.free_item = free_pod_item,
		.same = same_pod,
		.on_change = on_pod_change,
		.on_synced = on_store_synced,
		.index = {index_pod},
		.by_uid = true,
	};
	struct kube_store_ops files_ops = {
		.component = "pod",
		.project = project_files,
		.on_change = on_files_change,
		.on_synced = on_store_synced,
	};
	struct kube_workqueue_opts queue_opts = {
		.loop = opts->loop,
		.name = "pod",
		.max_running = KUBE_RUNS_AT_ONCE,
		.backoff_max_ms = 60000,
		.step_s = KUBE_DEADLINE_MS / 1000,
	};

	job_files_store(&files_ops);
	c->opts = *opts;
	c->ns = xstrdup(opts->ns);
	c->ctxs = map_new();
	c->queue = kube_workqueue_new(&queue_opts, run, c);
	kube_workqueue_pause(c->queue);
	c->pods = kube_store_new(&pod_ops, c);
	c->files = kube_store_new(&files_ops, c);
	kube_store_watch(c->pods, opts->kube,
			 &(struct kube_watch_opts){
				 .resource = &KUBE_PODS, .ns = c->ns, .label_selector = POD_LABEL});
	kube_store_watch(c->files, opts->kube,
			 &(struct kube_watch_opts){.resource = &KUBE_CONFIGMAPS,
						   .ns = c->ns,
						   .label_selector = POD_LABEL});
	return c;
}

void pod_controller_set(struct pod_controller *c, int64_t unreachable_ms)
{
	struct kube_store_iter it = kube_store_iter(c->pods);

	c->opts.unreachable_ms = unreachable_ms;
	while (kube_store_next(&it))
		kube_workqueue_add(c->queue, it.uid);
}

void pod_controller_free(struct pod_controller *c)
{
	struct map_iter it;

	if (!c)
		return;
	kube_workqueue_pause(c->queue);
	it = (struct map_iter)MAP_ITER(c->ctxs);
	while (map_next(&it))
		free_ctx(it.value);
	map_free(c->ctxs);
	kube_store_free(c->pods);
	kube_store_free(c->files);
	kube_workqueue_free(c->queue);
	free(c->ns);
	free(c);
}
