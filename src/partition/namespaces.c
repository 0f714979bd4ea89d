/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of Namespaces, cut down to the limits.
 */
#include "partition/namespaces.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/str.h"
#include "kube/object.h"
#include "kube/store.h"

struct namespaces {
	struct kube_store *store;
	void (*on_change)(void *arg);
	void *arg;
	bool failed; /* to be read, before it was for the first time */
};

static int project(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct partition_policy *p = xcalloc(1, sizeof(*p));
	struct err why = ERR_INIT;

	(void)arg;
	(void)err;
	if (!partition_policy_read(json_at(object, "metadata", "annotations", NULL), p, &why)) {
		CLEANUP_FREE char *name = str_dup(kube_name(object));

		log_warn("partition", name, "a limit of this namespace doesn't count: %s", why.msg);
	}
	*ret_item = p;
	return 0;
}

static void free_policy(void *arg, void *item)
{
	(void)arg;
	free(item);
}

static bool is_same(void *arg, const void *old, const void *item)
{
	(void)arg;
	return memcmp(old, item, sizeof(struct partition_policy)) == 0;
}

static void on_store_change(void *arg, struct str key, const void *old, const void *item)
{
	const struct namespaces *n = arg;

	(void)key;
	if ((old && !partition_policy_is_unset(old)) || (item && !partition_policy_is_unset(item)))
		n->on_change(n->arg);
}

static void on_synced(void *arg)
{
	const struct namespaces *n = arg;

	n->on_change(n->arg);
}

static void on_state(void *arg)
{
	struct namespaces *n = arg;
	struct kube_watch_status st;

	if (n->failed || kube_store_is_synced(n->store))
		return;
	kube_watch_status(kube_store_get_watch(n->store), &st);
	if (st.err.kind == ERR_NONE)
		return;
	n->failed = true;
	log_warn("partition", NULL,
		 "Namespaces can't be read, so limits that are annotated there don't count until "
		 "they can: %s",
		 st.err.msg);
	n->on_change(n->arg);
}

struct namespaces *namespaces_new(struct kube_client *kube, void (*on_change)(void *arg), void *arg)
{
	static const struct kube_store_ops ops = {
		.component = "partition",
		.project = project,
		.free_item = free_policy,
		.same = is_same,
		.on_change = on_store_change,
		.on_synced = on_synced,
		.on_state = on_state,
	};
	struct namespaces *n = xcalloc(1, sizeof(*n));

	n->on_change = on_change;
	n->arg = arg;
	n->store = kube_store_new(&ops, n);
	kube_store_watch(n->store, kube, &(struct kube_watch_opts){.resource = &KUBE_NAMESPACES});
	return n;
}

void namespaces_free(struct namespaces *n)
{
	if (!n)
		return;
	kube_store_free(n->store);
	free(n);
}

bool namespaces_known(const struct namespaces *n)
{
	return n->failed || kube_store_is_synced(n->store);
}

const struct partition_policy *namespaces_policy(const struct namespaces *n, const char *ns)
{
	const struct partition_policy *p = kube_store_get(n->store, str_of(ns));

	return p && !partition_policy_is_unset(p) ? p : NULL;
}
