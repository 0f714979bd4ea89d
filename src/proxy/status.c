/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an owner is told, as JSON (Status in doc/openapi.yaml), and its ETag. Pure.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "internal.h"

static void render(struct jmut_doc *doc, struct jmut *obj, const struct partition_ask *ask,
		   const struct partition_status *status)
{
	char since[CLOCK_RFC3339_SIZE];

	partition_ask_encode(doc, obj, ask);
	if (status->ask && status->wanted_attempt != ask->attempt)
		jmut_set_int(doc, obj, "wantedAttempt", status->wanted_attempt);
	jmut_set_str(doc, obj, "state", partition_state_name(status->state));
	jmut_set_str(doc, obj, "reason", partition_why_name(status->why));
	jmut_set_str(doc, obj, "message", status->message);
	if (status->id)
		jmut_set_str(doc, obj, "id", status->id);
	if (status->controller)
		jmut_set_str(doc, obj, "controller", status->controller);
	if (status->host) {
		jmut_set_str(doc, obj, "host", status->host);
		jmut_set_int(doc, obj, "port", status->port);
	}
	if (status->label_key)
		jmut_set(doc, obj, "label",
			 jmut_strf(doc, "%s=%s", status->label_key, status->label_value));
	jmut_set_bool(doc, obj, "byFile", status->by_file);
	if (status->files)
		jmut_set(doc, obj, "files", jmut_strf(doc, "%016" PRIx64, status->files));
	jmut_set_bool(doc, obj, "draining", status->draining);
	if (status->deadline_ms)
		jmut_set_int(doc, obj, "limitSeconds", (status->deadline_ms + 999) / 1000);
	jmut_set_bool(doc, obj, "adopting", status->adopting);
	jmut_set_bool(doc, obj, "adopted", status->adopted);
	jmut_set_int(doc, obj, "position", status->position);
	jmut_set_int(doc, obj, "resets", status->resets);
	clock_format(status->since_ms, since);
	jmut_set_str(doc, obj, "since", since);
}

struct one {
	uint32_t instance;
	struct jmut_doc *doc;
	struct jmut *obj; /* NULL: not found */
};

static void take_one(const struct partition_ask *ask, const struct partition_status *status,
		     void *arg)
{
	struct one *one = arg;

	if (ask->instance != one->instance)
		return;
	one->obj = jmut_object(one->doc);
	render(one->doc, one->obj, ask, status);
}

int status_text(const struct partitions *partitions, const char *uid, uint32_t instance,
		struct buf *out, char ret_etag[ETAG_SIZE], struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct one one = {.instance = instance, .doc = doc};

	partitions_each_of(partitions, uid, take_one, &one);
	if (!one.obj)
		return err_set(err, ERR_NOT_FOUND, 0, NOT_HELD);
	if (jmut_write(one.obj, JSON_COMPACT, out, err) < 0 || buf_append(out, "\n", 1, err) < 0)
		return -1;
	etag_of(buf_str(out), ret_etag);
	return 0;
}

/* ---- lists ---- */

struct item {
	char *uid;
	uint32_t instance;
	struct jmut *obj;
};

struct items {
	struct jmut_doc *doc;
	struct item *p;
	size_t n, cap;
};

static void take_item(const struct partition_ask *ask, const struct partition_status *status,
		      void *arg)
{
	struct items *items = arg;
	struct item *item;

	if (items->n == items->cap) {
		items->cap = items->cap ? 2 * items->cap : 16;
		items->p = xrealloc(items->p, items->cap * sizeof(*items->p));
	}
	item = &items->p[items->n++];
	item->uid = xstrdup(ask->owner.uid);
	item->instance = ask->instance;
	item->obj = jmut_object(items->doc);
	render(items->doc, item->obj, ask, status);
}

static int by_owner(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = strcmp(x->uid, y->uid);

	if (order)
		return order;
	return x->instance < y->instance ? -1 : x->instance > y->instance;
}

size_t status_list_render(const struct partitions *partitions, const char *uid,
			  struct jmut_doc *doc, struct jmut *root)
{
	struct items items = {.doc = doc};
	struct jmut *list = jmut_array(doc);
	size_t held = 0;

	if (uid)
		partitions_each_of(partitions, uid, take_item, &items);
	else
		partitions_each(partitions, take_item, &items);
	if (items.n > 1)
		qsort(items.p, items.n, sizeof(*items.p), by_owner);
	for (size_t i = 0; i < items.n; i++) {
		if (i == 0 || strcmp(items.p[i - 1].uid, items.p[i].uid) != 0)
			held += partition_held(partitions, items.p[i].uid);
		jmut_push(doc, list, items.p[i].obj);
	}
	for (size_t i = 0; i < items.n; i++)
		free(items.p[i].uid);
	free(items.p);
	jmut_set(doc, root, "items", list);
	jmut_set_int(doc, root, "held", (int64_t)held);
	return items.n;
}

int status_list(const struct partitions *partitions, const char *uid, struct buf *out,
		size_t *ret_n, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	size_t n = status_list_render(partitions, uid, doc, root);

	if (jmut_write(root, JSON_COMPACT, out, err) < 0 || buf_append(out, "\n", 1, err) < 0)
		return -1;
	*ret_n = n;
	return 0;
}
