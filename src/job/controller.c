/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches IPUJobs and their Pods, and runs one pass for each job that something happened to:
 * observe from the stores, plan, apply. Owns the stores and the queue; the partition layer is
 * borrowed.
 */
#include "job/controller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/log.h"
#include "core/str.h"
#include "job/groups.h"
#include "job/internal.h"
#include "job/launcher.h"
#include "kube/object.h"

#define SURPLUS_AT_ONCE 64 /* the news of their release brings the next pass */

/* ---- what is remembered of a job ---- */

static void free_ctx(struct job_ctx *ctx)
{
	job_apply_cancel(ctx);
	job_told_free(ctx);
	job_apply_forget(ctx);
	list_unlink(&ctx->news);
	intern_drop(ctx->key);
	intern_drop(ctx->uid);
	free(ctx->trouble);
	free(ctx->lost);
	free(ctx);
}

static struct job_ctx *need_ctx(struct job_controller *c, const struct job *job, struct str key)
{
	struct job_ctx *ctx = map_get(c->ctxs, key);

	if (ctx && strcmp(ctx->uid, job->uid) == 0)
		return ctx;
	if (ctx) { /* another job under the same name: nothing of the first one counts */
		map_del(c->ctxs, key);
		free_ctx(ctx);
	}
	ctx = xcalloc(1, sizeof(*ctx));
	ctx->c = c;
	ctx->key = intern(key);
	ctx->uid = intern_ref(job->uid);
	scope_init(&ctx->scope);
	list_init(&ctx->pending);
	list_init(&ctx->news);
	map_put_borrowed(c->ctxs, str_of(ctx->key), ctx);
	return ctx;
}

/* ---- the pass ---- */

struct pod_list {
	const struct job_pod **items;
	size_t n;
};

static void find_pods(const struct job_controller *c, struct str key, struct pod_list *ret)
{
	struct kube_store_iter it = kube_store_iter_index(c->pods, 0, key);

	*ret = (struct pod_list){0};
	while (kube_store_next(&it)) {
		if ((ret->n & (ret->n - 1)) == 0)
			ret->items = xrealloc(ret->items,
					      (ret->n ? ret->n * 2 : 1) * sizeof(*ret->items));
		ret->items[ret->n++] = it.item;
	}
}

static const struct job_files **find_files(const struct job_controller *c, struct str key,
					   size_t *ret_n)
{
	struct kube_store_iter it = kube_store_iter_index(c->files, 0, key);
	const struct job_files **items = NULL;
	size_t n = 0;

	while (kube_store_next(&it)) {
		if ((n & (n - 1)) == 0)
			items = xrealloc(items, (n ? n * 2 : 1) * sizeof(*items));
		items[n++] = it.item;
	}
	*ret_n = n;
	return items;
}

static size_t count_partitions(const struct job *job)
{
	return job->problem ? 0 : job->instances;
}

/* With those that a rolling update may have beside them. */
static size_t count_places(const struct job *job)
{
	return job->problem ? 0 : (size_t)job->instances + job->max_surge;
}

static void rank(struct job_ctx *ctx, struct job *job)
{
	bool known;

	job->priority = job_classes_value(ctx->c->classes, job->priority_class, &known);
	if (!known && log_limit_ok(&ctx->class_quiet, 3600000))
		log_warn("job", ctx->key,
			 "there is no PriorityClass %s: the job waits with priority 0",
			 job->priority_class);
}

/* Graphcore's operator began it: its status has no trace of ours, nor has it Pods of ours. */
static bool is_older(const struct job_ctx *ctx, const struct job *job, size_t n_pods)
{
	struct partition_service *ps = ctx->c->opts.partitions;
	int64_t began_ms = ps->ops->began_ms(ps);
	const char *word = job->status.launcher_status;

	return began_ms && job->created_ms && job->created_ms < began_ms && n_pods == 0 &&
	       job->status.observed_generation == 0 && word && word[0] &&
	       strcmp(word, "Pending") != 0;
}

/* Its partitions are kept for it, under the names that they have. Once: what isn't found then isn't
 * there. */
static void claim_older(struct job_ctx *ctx, const struct job *job)
{
	struct partition_service *ps = ctx->c->opts.partitions;

	if (ctx->claimed)
		return;
	ctx->claimed = true;
	for (uint32_t i = 0; i < count_partitions(job); i++) {
		struct partition_ask ask = job_ask(job, i);
		CLEANUP_FREE char *legacy = job_legacy_partition(job, i);

		ask.legacy = legacy;
		ask.only_adopt = true;
		ps->ops->ensure(ps, &ask);
	}
	job_tell(ctx, job, KUBE_EVENT_NORMAL, "RunByAnother",
		 "Graphcore's operator ran this job: it's left as it is, and its partitions are "
		 "kept until it has ended or is deleted");
}

static void pass_over(struct job_ctx *ctx, const struct job_item *item)
{
	const struct job *job = item->job;
	struct partition_service *ps = ctx->c->opts.partitions;
	size_t n = count_places(job);
	CLEANUP_FREE struct partition_status *partitions = xcalloc(n + 1, sizeof(*partitions));
	const struct job_files **files;
	const struct job_group **groups;
	uint32_t surplus[SURPLUS_AT_ONCE];
	struct pod_list pods;
	size_t n_files, n_groups;
	struct job_view view;
	struct job_plan plan;

	rank(ctx, item->job);
	if (ctx->kept && !job->status.n_instances) /* its CRD is of another release */
		job_status_copy_memory(&item->job->status, &ctx->kept->other);
	for (size_t i = 0; i < n; i++)
		ps->ops->get_status(ps, job->uid, (uint32_t)i, &partitions[i]);
	find_pods(ctx->c, str_of(ctx->key), &pods);
	if (is_older(ctx, job, pods.n))
		claim_older(ctx, job);
	files = find_files(ctx->c, str_of(ctx->key), &n_files);
	if (job->group_hash)
		job_groups_want(ctx->c->groups, job);
	groups = job_groups_of(ctx->c->groups, str_of(ctx->key), &n_groups);
	view = (struct job_view){
		.job = job,
		.timing = &ctx->c->opts.timing,
		.now_ms = clock_wall_ms(),
		.unsure = job_unsure(ctx, job),
		.pods = pods.items,
		.n_pods = pods.n,
		.lost = ctx->lost,
		.n_lost = ctx->n_lost,
		.files = files,
		.n_files = n_files,
		.group_known = job_groups_known(ctx->c->groups),
		.group_api = job_groups_api(ctx->c->groups, job),
		.groups = groups,
		.n_groups = n_groups,
		.partitions = partitions,
		.n_partitions = n,
		.surplus = surplus,
		.n_surplus = n ? ps->ops->asked_from(ps, job->uid, (uint32_t)n, surplus,
						     SURPLUS_AT_ONCE)
			       : 0,
		.older = is_older(ctx, job, pods.n),
		.first = !ctx->looked,
		.held = ps->ops->held(ps, job->uid),
		.configured = job_is_configured(ctx, job),
		.supported = job_supported(ctx, job),
		.unsupported = job_launcher_problem(job, &ctx->c->opts.pods),
		.trouble = ctx->trouble,
		.trouble_event = ctx->trouble_event,
	};
	job_plan(&view, &plan);
	ctx->looked = true;
	job_tell_partitions(ctx, job, partitions, n);
	job_tell_template(ctx, item);
	job_group_tell(ctx, job);
	job_tell_waiting(ctx, job, &plan);
	job_apply(ctx, item, &plan, partitions);
	if (plan.next_ms)
		kube_workqueue_add_after(ctx->c->queue, str_of(ctx->key),
					 plan.next_ms - view.now_ms);
	job_plan_done(&plan);
	free(pods.items);
	free(files);
	free(groups);
}

static void end_pass(struct job_controller *c, struct str key, const struct err *err)
{
	struct job_ctx *ctx = map_get(c->ctxs, key);

	/* A conflict is news, not trouble; the status says what goes wrong, the log now and then.
	 */
	if (err && err->kind != ERR_CONFLICT && ctx && log_limit_ok(&ctx->quiet, 60000))
		log_warn("job", ctx->key, "%s", err->msg);
	kube_workqueue_done(c->queue, key, err);
}

void job_call_ended(struct job_ctx *ctx, const struct err *err)
{
	CLEANUP_FREE struct err *first = NULL;
	const struct job_item *item;

	if (!kube_run_call_ended(&ctx->run, ctx->c->queue, err, &first))
		return;
	item = kube_store_get(ctx->c->jobs, str_of(ctx->key));
	if (item && strcmp(item->job->uid, ctx->uid) == 0)
		job_tell_pods(ctx, item->job);
	end_pass(ctx->c, str_of(ctx->key), first);
}

static void forget_job(struct job_controller *c, struct str key)
{
	struct job_ctx *ctx = map_del(c->ctxs, key);

	if (ctx) {
		c->opts.partitions->ops->release_all(c->opts.partitions, ctx->uid);
		free_ctx(ctx);
	}
}

static void run(void *arg, struct str key)
{
	struct job_controller *c = arg;
	const struct job_item *item = kube_store_get(c->jobs, key);
	struct job_ctx *ctx;

	if (!item) {
		forget_job(c, key);
		end_pass(c, key, NULL);
		return;
	}
	ctx = need_ctx(c, item->job, key);
	kube_run_begin(&ctx->run);
	pass_over(ctx, item);
	job_call_ended(ctx, NULL);
}

/* ---- the stores ---- */

static int project_job(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct job_item *item = xcalloc(1, sizeof(*item));
	struct buf spec = BUF_INIT(4 << 20);
	const struct json *v = json_get(object, "spec");

	(void)arg;
	if (job_decode(object, &item->job, err) < 0) {
		free(item);
		return -1;
	}
	if (v && json_write(v, JSON_COMPACT, &spec, err) < 0) {
		buf_done(&spec);
		job_free(item->job);
		free(item);
		return -1;
	}
	item->spec = intern_try(buf_str(&spec));
	buf_done(&spec);
	if (!item->spec) {
		job_free(item->job);
		free(item);
		return err_set(err, ERR_LIMIT, ENOMEM, "no memory for its spec");
	}
	*ret_item = item;
	return 0;
}

static void free_job_item(void *arg, void *p)
{
	struct job_item *item = p;

	(void)arg;
	job_free(item->job);
	intern_drop(item->spec);
	free(item);
}

static void on_job_change(void *arg, struct str key, const void *old, const void *item)
{
	struct job_controller *c = arg;
	const struct job_item *was = old;

	/* Gone without our finalizer, by whatever means: its IPUs come back all the same. */
	if (was && !item)
		c->opts.partitions->ops->release_all(c->opts.partitions, was->job->uid);
	kube_workqueue_add(c->queue, key);
	if (c->opts.on_change)
		c->opts.on_change(c->opts.on_change_arg, NULL, false);
}

static int project_pod(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct job_pod *pod;

	(void)arg;
	if (job_pod_decode(object, &pod, err) < 0)
		return -1;
	*ret_item = pod;
	return 0;
}

static void free_pod_item(void *arg, void *item)
{
	(void)arg;
	job_pod_free(item);
}

static bool same_pod(void *arg, const void *old, const void *item)
{
	(void)arg;
	return job_pod_equal(old, item);
}

static void tell_of_pod(struct job_controller *c, struct str key, const struct job_pod *was,
			const struct job_pod *is)
{
	struct job_ctx *ctx = map_get(c->ctxs, key);
	const struct job_item *item = kube_store_get(c->jobs, key);

	if (ctx && item && is && is->phase == JOB_POD_FAILED && was &&
	    was->phase != JOB_POD_FAILED && !is->deleting && is->owner_uid &&
	    strcmp(is->owner_uid, item->job->uid) == 0)
		job_count_failed(ctx, is);
}

/* It was there, and isn't: where nobody saw it in deletion, its absence alone would say that it was
 * never made. */
static void note_lost(struct job_controller *c, struct str key, const struct job_pod *pod)
{
	struct job_ctx *ctx = map_get(c->ctxs, key);
	const struct job_item *item = kube_store_get(c->jobs, key);
	const struct job_instance *mem;
	size_t i = 0;

	if (!ctx || !item || !pod->partition || pod->gated || !pod->owner_uid ||
	    strcmp(pod->owner_uid, item->job->uid) != 0 || strcmp(ctx->uid, item->job->uid) != 0 ||
	    pod->instance < 0 || (size_t)pod->instance >= count_places(item->job))
		return;
	mem = job_memory(item->job, (uint32_t)pod->instance);
	if (mem->complete || mem->over)
		return; /* what follows from that is known without it */
	while (i < ctx->n_lost && ctx->lost[i].instance != pod->instance)
		i++;
	if (i == ctx->n_lost)
		ctx->lost = xrealloc(ctx->lost, ++ctx->n_lost * sizeof(*ctx->lost));
	ctx->lost[i] = (struct job_lost){
		.instance = (uint32_t)pod->instance,
		.run = mem->run,
	};
	snprintf(ctx->lost[i].partition, sizeof(ctx->lost[i].partition), "%s", pod->partition);
}

/* NULL: one job's Pod has become another's. */
static const char *owner_of(const struct job_pod *was, const struct job_pod *is)
{
	if (was && is && !str_same(was->owner_uid, is->owner_uid))
		return NULL;
	return is ? is->owner_uid : was->owner_uid;
}

static void on_pod_change(void *arg, struct str key, const void *old, const void *item)
{
	struct job_controller *c = arg;
	const struct job_pod *was = old, *is = item;
	struct str job_key = str_of(is ? is->job_key : was->job_key);

	(void)key;
	if (c->started)
		tell_of_pod(c, job_key, was, is);
	if (was && (!is || strcmp(was->uid, is->uid) != 0))
		note_lost(c, str_of(was->job_key), was);
	/* A label that somebody changed takes it from one job to another. */
	if (was && is && strcmp(was->job_key, is->job_key) != 0)
		kube_workqueue_add(c->queue, str_of(was->job_key));
	kube_workqueue_add(c->queue, job_key);
	if (c->opts.on_change)
		c->opts.on_change(c->opts.on_change_arg, owner_of(was, is), true);
}

static struct str index_pod(const void *item)
{
	return str_of(((const struct job_pod *)item)->job_key);
}

static int project_files(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct job_files *files;

	(void)arg;
	if (job_files_decode(object, JOB_LABEL_JOB, &files, err) < 0)
		return -1;
	*ret_item = files;
	return 0;
}

static void on_files_change(void *arg, struct str key, const void *old, const void *item)
{
	struct job_controller *c = arg;
	const struct job_files *was = old, *is = item;

	(void)key;
	if (was)
		kube_workqueue_add(c->queue, str_of(was->key));
	if (is)
		kube_workqueue_add(c->queue, str_of(is->key));
}

static struct str index_files(const void *item)
{
	return str_of(((const struct job_files *)item)->key);
}

static void on_group_change(void *arg, const char *job_key)
{
	struct job_controller *c = arg;

	kube_workqueue_add(c->queue, str_of(job_key));
}

/* Jobs that wait for a PodGroup can go on. */
static void on_groups_known(void *arg)
{
	struct job_controller *c = arg;
	struct kube_store_iter it = kube_store_iter(c->jobs);

	while (kube_store_next(&it)) {
		const struct job_item *item = it.item;

		if (item->job->group_hash)
			kube_workqueue_add(c->queue, it.key);
	}
}

/* ---- the start ---- */

struct uids {
	char **items;
	size_t n;
};

static bool is_left_behind(const struct job_controller *c, const struct partition_owner *owner)
{
	const struct job_item *item;
	char key[KUBE_KEY_SIZE];

	if (strcmp(owner->kind, JOB_KIND) != 0 || (c->ns && strcmp(c->ns, owner->ns) != 0))
		return false;
	item = kube_store_get(c->jobs, kube_key(str_of(owner->ns), str_of(owner->name), key));
	return !item || !str_same(item->job->uid, owner->uid);
}

static void note_left_behind(const struct partition_ask *ask, const struct partition_status *st,
			     void *arg)
{
	struct uids *uids = ((void **)arg)[0];
	const struct job_controller *c = ((void **)arg)[1];

	(void)st;
	if (!is_left_behind(c, &ask->owner))
		return;
	uids->items = xrealloc(uids->items, (uids->n + 1) * sizeof(*uids->items));
	uids->items[uids->n++] = xstrdup(ask->owner.uid);
}

/* Partitions of jobs that went while nobody was looking. */
static void release_left_behind(struct job_controller *c)
{
	struct partition_service *ps = c->opts.partitions;
	struct uids uids = {0};
	void *arg[] = {&uids, c};

	ps->ops->each(ps, note_left_behind, arg);
	for (size_t i = 0; i < uids.n; i++) {
		log_info("job", NULL, "partitions of a job that is gone are released: uid=%s",
			 uids.items[i]);
		ps->ops->release_all(ps, uids.items[i]);
		free(uids.items[i]);
	}
	free(uids.items);
}

bool job_controller_ready(const struct job_controller *c, struct err *ret_why)
{
	if (kube_store_check_synced(c->jobs, "IPUJobs", ret_why) < 0 ||
	    kube_store_check_synced(c->pods, "Pods", ret_why) < 0 ||
	    kube_store_check_synced(c->files, "ConfigMaps", ret_why) < 0)
		return false;
	if (!job_classes_known(c->classes)) {
		err_set(ret_why, ERR_UNAVAILABLE, 0, "PriorityClasses haven't been read yet");
		return false;
	}
	if (!c->opts.partitions->ops->synced(c->opts.partitions)) {
		err_set(ret_why, ERR_UNAVAILABLE, 0, "the partition tracker hasn't been read yet");
		return false;
	}
	return true;
}

static void start_when_ready(struct job_controller *c)
{
	if (c->started || !job_controller_ready(c, NULL))
		return;
	c->started = true;
	if (c->opts.on_change)
		c->opts.on_change(c->opts.on_change_arg, NULL, true);
	release_left_behind(c);
	kube_workqueue_resume(c->queue);
	log_info("job", NULL, "ready: jobs=%zu pods=%zu", kube_store_len(c->jobs),
		 kube_store_len(c->pods));
}

static void on_store_synced(void *arg)
{
	start_when_ready(arg);
}

/* Who waits may have another place now. */
static void on_classes_change(void *arg)
{
	struct job_controller *c = arg;
	struct kube_store_iter it = kube_store_iter(c->jobs);

	if (!c->started) {
		start_when_ready(c);
		return;
	}
	while (kube_store_next(&it))
		kube_workqueue_add(c->queue, it.key);
}

void job_controller_partitions_synced(struct job_controller *c)
{
	start_when_ready(c);
}

void job_controller_partition_changed(struct job_controller *c, const struct partition_owner *owner)
{
	char z[KUBE_KEY_SIZE];

	if (strcmp(owner->kind, JOB_KIND) != 0)
		return;
	/* Asked for on behalf of a job that is gone: a request that came late. */
	if (c->started && is_left_behind(c, owner))
		c->opts.partitions->ops->release_all(c->opts.partitions, owner->uid);
	kube_workqueue_add(c->queue, kube_key(str_of(owner->ns), str_of(owner->name), z));
}

void job_controller_each_pod(const struct job_controller *c, const struct partition_owner *job,
			     uint32_t instance, job_pod_fn *fn, void *arg)
{
	char z[KUBE_KEY_SIZE];
	struct kube_store_iter it = kube_store_iter_index(
		c->pods, 0, kube_key(str_of(job->ns), str_of(job->name), z));

	while (kube_store_next(&it)) {
		const struct job_pod *pod = it.item;

		if (pod->instance == (int64_t)instance && pod->owner_uid &&
		    strcmp(pod->owner_uid, job->uid) == 0)
			fn(pod, arg);
	}
}

bool job_controller_each_held(const struct job_controller *c, job_held_fn *fn, void *arg,
			      int64_t *due_ms)
{
	struct kube_store_iter it = kube_store_iter(c->jobs);
	int64_t now_ms = clock_wall_ms();
	struct job_held held;

	while (c->started && kube_store_next(&it)) {
		const struct job_item *item = it.item;

		if (job_is_held(item->job, now_ms, &held))
			fn(item->job, &held, arg);
		else if (held.due_ms && (!*due_ms || held.due_ms < *due_ms))
			*due_ms = held.due_ms;
	}
	return c->started;
}

void job_controller_count(const struct job_controller *c, size_t ret[JOB_STAGES])
{
	struct kube_store_iter it = kube_store_iter(c->jobs);

	memset(ret, 0, JOB_STAGES * sizeof(*ret));
	while (kube_store_next(&it)) {
		const struct job_item *item = it.item;
		int at = JOB_PENDING;

		for (int i = 0; i < JOB_STAGES; i++) {
			if (job_condition_on(&item->job->status, i))
				at = i;
		}
		ret[at]++;
	}
}

struct job_controller *job_controller_new(const struct job_controller_opts *opts)
{
	struct job_controller *c = xcalloc(1, sizeof(*c));
	struct kube_store_ops job_ops = {
		.component = "job",
		.project = project_job,
		.free_item = free_job_item,
		.on_change = on_job_change,
		.on_synced = on_store_synced,
	};
	struct kube_store_ops pod_ops = {
		.component = "job",
		.project = project_pod,
		.free_item = free_pod_item,
		.same = same_pod,
		.on_change = on_pod_change,
		.on_synced = on_store_synced,
		.index = {index_pod},
	};
	struct kube_store_ops files_ops = {
		.component = "job",
		.project = project_files,
		.on_change = on_files_change,
		.on_synced = on_store_synced,
		.index = {index_files},
	};
	static const struct job_groups_ops group_ops = {on_groups_known, on_group_change};
	struct kube_workqueue_opts queue_opts = {
		.loop = opts->loop,
		.name = "ipujob",
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
	job_turn_init(c);
	job_measure_open();
	c->jobs = kube_store_new(&job_ops, c);
	c->pods = kube_store_new(&pod_ops, c);
	c->files = kube_store_new(&files_ops, c);
	c->classes = job_classes_new(opts->kube, on_classes_change, c);
	c->groups = job_groups_new(opts->kube, c->ns, &group_ops, c);
	kube_store_watch(c->jobs, opts->kube,
			 &(struct kube_watch_opts){.resource = &KUBE_IPUJOBS, .ns = c->ns});
	kube_store_watch(c->pods, opts->kube,
			 &(struct kube_watch_opts){.resource = &KUBE_PODS,
						   .ns = c->ns,
						   .label_selector = JOB_LABEL_JOB});
	kube_store_watch(c->files, opts->kube,
			 &(struct kube_watch_opts){.resource = &KUBE_CONFIGMAPS,
						   .ns = c->ns,
						   .label_selector = JOB_LABEL_JOB});
	return c;
}

void job_controller_set(struct job_controller *c, const struct job_pod_settings *pods,
			const struct job_timing *timing)
{
	struct kube_store_iter it = kube_store_iter(c->jobs);

	c->opts.pods = *pods;
	c->opts.timing = *timing;
	while (kube_store_next(&it))
		kube_workqueue_add(c->queue, it.key);
}

void job_controller_free(struct job_controller *c)
{
	struct map_iter it;

	if (!c)
		return;
	kube_workqueue_pause(c->queue);
	it = (struct map_iter)MAP_ITER(c->ctxs);
	while (map_next(&it))
		free_ctx(it.value);
	map_free(c->ctxs);
	job_turn_done(c);
	kube_store_free(c->jobs);
	kube_store_free(c->pods);
	kube_store_free(c->files);
	job_classes_free(c->classes);
	job_groups_free(c->groups);
	kube_workqueue_free(c->queue);
	free(c->ns);
	free(c);
}
