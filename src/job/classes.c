/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of PriorityClasses, of each its value and whether it is the default.
 */
#include "job/classes.h"

#include <stdlib.h>

#include "core/json.h"
#include "core/log.h"
#include "core/str.h"
#include "kube/store.h"

struct class
{
	int32_t value;
	bool is_default;
};

struct job_classes {
	struct kube_store *store;
	void (*on_change)(void *arg);
	void *arg;
	bool failed; /* to be read, before they were for the first time */
};

static int project(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct class *class = xcalloc(1, sizeof(*class));
	int64_t value = json_int(json_get(object, "value"), 0);

	(void)arg;
	(void)err;
	class->value = value > INT32_MAX   ? INT32_MAX
		       : value < INT32_MIN ? INT32_MIN
					   : (int32_t)value;
	class->is_default = json_bool(json_get(object, "globalDefault"), false);
	*ret_item = class;
	return 0;
}

static void free_class(void *arg, void *item)
{
	(void)arg;
	free(item);
}

static bool is_same(void *arg, const void *old, const void *item)
{
	const struct class *a = old, *b = item;

	(void)arg;
	return a->value == b->value && a->is_default == b->is_default;
}

static void on_store_change(void *arg, struct str key, const void *old, const void *item)
{
	const struct job_classes *c = arg;

	(void)key;
	(void)old;
	(void)item;
	if (job_classes_known(c))
		c->on_change(c->arg);
}

static void on_synced(void *arg)
{
	const struct job_classes *c = arg;

	c->on_change(c->arg);
}

static void on_state(void *arg)
{
	struct job_classes *c = arg;
	struct kube_watch_status st;

	if (c->failed || kube_store_is_synced(c->store))
		return;
	kube_watch_status(kube_store_get_watch(c->store), &st);
	if (st.err.kind == ERR_NONE)
		return;
	c->failed = true;
	log_warn(
		"job", NULL,
		"PriorityClasses can't be read, so all jobs have the same priority until they can: "
		"%s",
		st.err.msg);
	c->on_change(c->arg);
}

struct job_classes *job_classes_new(struct kube_client *kube, void (*on_change)(void *arg),
				    void *arg)
{
	static const struct kube_store_ops ops = {
		.component = "job",
		.project = project,
		.free_item = free_class,
		.same = is_same,
		.on_change = on_store_change,
		.on_synced = on_synced,
		.on_state = on_state,
	};
	struct job_classes *c = xcalloc(1, sizeof(*c));

	c->on_change = on_change;
	c->arg = arg;
	c->store = kube_store_new(&ops, c);
	kube_store_watch(c->store, kube,
			 &(struct kube_watch_opts){.resource = &KUBE_PRIORITYCLASSES});
	return c;
}

void job_classes_free(struct job_classes *c)
{
	if (!c)
		return;
	kube_store_free(c->store);
	free(c);
}

bool job_classes_known(const struct job_classes *c)
{
	return c->failed || kube_store_is_synced(c->store);
}

static const struct class *find_default(const struct job_classes *c)
{
	struct kube_store_iter it = kube_store_iter(c->store);
	const struct class *found = NULL;

	while (kube_store_next(&it)) {
		const struct class *class = it.item;

		/* Of several, Kubernetes takes the one with the lowest value. */
		if (class->is_default && (!found || class->value < found->value))
			found = class;
	}
	return found;
}

int32_t job_classes_value(const struct job_classes *c, const char *name, bool *ret_known)
{
	bool named = name && name[0];
	const struct class *class = named ? kube_store_get(c->store, str_of(name))
					  : find_default(c);

	if (ret_known)
		*ret_known = class || !named;
	return class ? class->value : 0;
}
