/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at the API server's groups, then a store for each API of PodGroups that is there. An API
 * whose objects can't be listed counts as one that isn't there.
 */
#include "job/groups.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "kube/store.h"

#define ASK_AGAIN_MS (180 * 1000) /* what isn't there may have been installed meanwhile */
#define RETRY_MS     5000

/* One API. */
struct side {
	struct job_groups *groups;
	enum job_group_api api;
	struct kube_store *store; /* NULL: it isn't there */
	bool failed;              /* to be listed, before it was for the first time */
};

struct job_groups {
	struct kube_client *kube;
	const char *ns;
	const struct job_groups_ops *ops;
	void *arg;
	struct side sides[JOB_GROUP_APIS];
	bool asking, answered;
	int64_t asked_ms; /* mono */
	struct loop_timer retry;
	struct scope scope;
};

/* ---- the stores ---- */

static int project(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct job_group *g;

	(void)arg;
	if (job_group_decode(object, &g, err) < 0)
		return -1;
	*ret_item = g;
	return 0;
}

static void free_item(void *arg, void *item)
{
	(void)arg;
	job_group_free(item);
}

static bool is_same(void *arg, const void *old, const void *item)
{
	(void)arg;
	return job_group_equal(old, item);
}

static void on_store_change(void *arg, struct str key, const void *old, const void *item)
{
	const struct side *side = arg;
	const struct job_group *was = old, *is = item;

	(void)key;
	if (was)
		side->groups->ops->on_change(side->groups->arg, was->job_key);
	if (is)
		side->groups->ops->on_change(side->groups->arg, is->job_key);
}

static void on_synced(void *arg)
{
	struct side *side = arg;

	side->failed = false;
	side->groups->ops->on_known(side->groups->arg);
}

static void on_state(void *arg)
{
	struct side *side = arg;
	struct kube_watch_status st;

	if (side->failed || kube_store_is_synced(side->store))
		return;
	kube_watch_status(kube_store_get_watch(side->store), &st);
	if (st.err.kind == ERR_NONE)
		return;
	side->failed = true;
	log_warn("job", NULL, "podgroups.%s can't be read, so no job gets one until they can: %s",
		 job_group_resource(side->api)->group, st.err.msg);
	side->groups->ops->on_known(side->groups->arg);
}

static struct str index_job(const void *item)
{
	return str_of(((const struct job_group *)item)->job_key);
}

static void open_side(struct side *side)
{
	static const struct kube_store_ops ops = {
		.component = "job",
		.project = project,
		.free_item = free_item,
		.same = is_same,
		.on_change = on_store_change,
		.on_synced = on_synced,
		.on_state = on_state,
		.index = {index_job},
	};

	side->failed = false;
	side->store = kube_store_new(&ops, side);
	kube_store_watch(side->store, side->groups->kube,
			 &(struct kube_watch_opts){.resource = job_group_resource(side->api),
						   .ns = side->groups->ns,
						   .label_selector = JOB_LABEL_JOB});
}

static void close_side(struct side *side)
{
	kube_store_free(side->store);
	side->store = NULL;
}

/* ---- which APIs there are ---- */

static bool serves(const struct json *list, const struct kube_resource *r)
{
	struct json_iter it = json_iter(json_get(list, "groups"));

	while (json_next(&it)) {
		struct json_iter versions = json_iter(json_get(it.value, "versions"));

		if (!str_eqz(json_str(json_get(it.value, "name")), r->group))
			continue;
		while (json_next(&versions)) {
			if (str_eqz(json_str(json_get(versions.value, "version")), r->version))
				return true;
		}
	}
	return false;
}

static void on_answer(void *arg, const struct err *err, const struct kube_response *response)
{
	struct job_groups *g = arg;

	g->asking = false;
	/* One that came cut off says nothing of what isn't there. */
	if (err || !json_get(response->json, "groups")) {
		log_warn("job", NULL, "which APIs there are can't be asked: %s",
			 err ? err->msg : "the answer isn't an APIGroupList");
		loop_timer_start_in(&g->retry, RETRY_MS);
		return;
	}
	for (int api = JOB_GROUP_NONE + 1; api < JOB_GROUP_APIS; api++) {
		struct side *side = &g->sides[api];
		bool there = serves(response->json, job_group_resource(api));

		if (there && !side->store)
			open_side(side);
		else if (!there && side->store)
			close_side(side);
	}
	g->answered = true;
	if (job_groups_known(g))
		g->ops->on_known(g->arg);
}

static void ask(struct job_groups *g)
{
	const struct kube_request req = {.verb = KUBE_GET, .path = "/apis"};

	if (g->asking)
		return;
	g->asking = true;
	g->asked_ms = clock_mono_ms();
	loop_timer_stop(&g->retry);
	kube_call_start(g->kube, &req, on_answer, g, &g->scope);
}

static void on_retry(struct loop_timer *timer, void *arg)
{
	(void)timer;
	ask(arg);
}

/* ---- for the controller ---- */

struct job_groups *job_groups_new(struct kube_client *kube, const char *ns,
				  const struct job_groups_ops *ops, void *arg)
{
	struct job_groups *g = xcalloc(1, sizeof(*g));

	g->kube = kube;
	g->ns = ns;
	g->ops = ops;
	g->arg = arg;
	for (int api = 0; api < JOB_GROUP_APIS; api++)
		g->sides[api] = (struct side){.groups = g, .api = api};
	loop_timer_init(&g->retry, kube_client_loop(kube), on_retry, g);
	scope_init(&g->scope);
	return g;
}

void job_groups_free(struct job_groups *g)
{
	if (!g)
		return;
	scope_cancel(&g->scope);
	loop_timer_stop(&g->retry);
	for (int api = 0; api < JOB_GROUP_APIS; api++)
		close_side(&g->sides[api]);
	free(g);
}

void job_groups_want(struct job_groups *g, const struct job *job)
{
	bool stale = clock_mono_ms() - g->asked_ms >= ASK_AGAIN_MS;

	if (g->answered ? stale && job_groups_api(g, job) == JOB_GROUP_NONE
			: !loop_timer_active(&g->retry))
		ask(g);
}

void job_groups_doubt(struct job_groups *g)
{
	g->answered = false;
	ask(g);
}

bool job_groups_known(const struct job_groups *g)
{
	for (int api = JOB_GROUP_NONE + 1; api < JOB_GROUP_APIS; api++) {
		const struct side *side = &g->sides[api];

		if (side->store && !side->failed && !kube_store_is_synced(side->store))
			return false;
	}
	return g->answered;
}

enum job_group_api job_groups_api(const struct job_groups *g, const struct job *job)
{
	bool there[JOB_GROUP_APIS] = {false};

	for (int api = JOB_GROUP_NONE + 1; api < JOB_GROUP_APIS; api++)
		there[api] = g->sides[api].store && !g->sides[api].failed;
	return job_group_choose(job, there);
}

const struct job_group **job_groups_of(const struct job_groups *g, struct str job_key,
				       size_t *ret_n)
{
	const struct job_group **items = NULL;
	size_t n = 0;

	for (int api = JOB_GROUP_NONE + 1; api < JOB_GROUP_APIS; api++) {
		struct kube_store_iter it;

		if (!g->sides[api].store)
			continue;
		it = kube_store_iter_index(g->sides[api].store, 0, job_key);
		while (kube_store_next(&it)) {
			if ((n & (n - 1)) == 0)
				items = xrealloc(items, (n ? n * 2 : 1) * sizeof(*items));
			items[n++] = it.item;
		}
	}
	*ret_n = n;
	return items;
}

struct kube_store *job_groups_store(struct job_groups *g, enum job_group_api api)
{
	return g->sides[api].store;
}
