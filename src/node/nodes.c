/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of Nodes. Which controllers a Node reaches is found by looking up each of its labels in
 * the fleet's, once for each version of that list, and kept beside it.
 */
#include "node/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/log.h"
#include "core/map.h"
#include "kube/object.h"
#include "kube/store.h"

#define MAX_LABELS_BYTES ((size_t)1 << 20) /* the API server takes no such object */
#define MAX_IPUS         INT64_C(1000000)

struct nodes {
	struct kube_store *store;
	struct vipu_fleet *fleet;
	void (*on_change)(void *arg);
	void *arg;
	/* The fleet's labels. */
	uint8_t digest[32];
	uint64_t version;    /* of them, from 1 */
	struct map *labels;  /* "key=value" → struct reach */
	struct map *keys;    /* their keys */
	struct reach always; /* of controllers without a label */
	bool failed;         /* said once */
};

bool reach_is_empty(const struct reach *r)
{
	uint64_t any = 0;

	for (size_t i = 0; i < sizeof(r->bits) / sizeof(r->bits[0]); i++)
		any |= r->bits[i];
	return any == 0;
}

/* ---- one Node ---- */

static bool is_control_plane_key(struct str key)
{
	return str_eqz(key, "node-role.kubernetes.io/control-plane") ||
	       str_eqz(key, "node-role.kubernetes.io/master");
}

static bool is_control_plane(const struct json *object)
{
	struct json_iter labels = json_iter(json_at(object, "metadata", "labels", NULL));
	struct json_iter taints = json_iter(json_at(object, "spec", "taints", NULL));

	while (json_next(&labels)) {
		if (is_control_plane_key(labels.key))
			return true;
	}
	while (json_next(&taints)) {
		if (is_control_plane_key(json_str(json_get(taints.value, "key"))))
			return true;
	}
	return false;
}

/* A quantity that is no whole number isn't of our writing. */
static int64_t count_at(const struct json *object, const char *key)
{
	const struct json *v = json_at(object, "status", key, NODES_RESOURCE, NULL);
	int64_t n;

	if (!v)
		return -1;
	if (json_type(v) == JSON_INT)
		return json_int(v, -2);
	return str_to_int(json_str(v), 0, MAX_IPUS, &n, NULL) == 0 ? n : -2;
}

static int write_labels(const struct json *labels, struct buf *out, struct err *err)
{
	struct json_iter it = json_iter(labels);

	while (json_next(&it)) {
		struct str value = json_str(it.value);

		if (buf_printf(out, err, "%.*s=%.*s\n", STR_ARG(it.key), STR_ARG(value)) < 0)
			return -1;
	}
	return buf_append(out, "", 1, err);
}

int node_item_decode(const struct json *object, struct node_item **ret, struct err *err)
{
	struct buf labels = BUF_INIT(MAX_LABELS_BYTES);
	struct node_item *item;
	int64_t noted;

	if (write_labels(json_at(object, "metadata", "labels", NULL), &labels, err) < 0) {
		buf_done(&labels);
		return err_wrap(err, "metadata.labels");
	}
	item = xcalloc(1, sizeof(*item));
	item->labels = xstrdup(labels.p);
	buf_done(&labels);
	item->shown = count_at(object, "capacity");
	item->allocatable = count_at(object, "allocatable");
	item->noted = str_to_int(kube_annotation(object, NODES_ANNOTATION), 0, MAX_IPUS, &noted,
				 NULL) == 0
			      ? noted
			      : -1;
	item->control_plane = is_control_plane(object);
	item->deleting = kube_is_deleting(object);
	*ret = item;
	return 0;
}

void node_item_free(struct node_item *item)
{
	if (!item)
		return;
	free(item->labels);
	free(item);
}

static bool is_same_item(const struct node_item *a, const struct node_item *b)
{
	return strcmp(a->labels, b->labels) == 0 && a->shown == b->shown &&
	       a->allocatable == b->allocatable && a->noted == b->noted &&
	       a->control_plane == b->control_plane && a->deleting == b->deleting;
}

/* ---- the store ---- */

static int project(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct node_item *item;

	(void)arg;
	if (node_item_decode(object, &item, err) < 0)
		return -1;
	*ret_item = item;
	return 0;
}

static void free_item(void *arg, void *item)
{
	(void)arg;
	node_item_free(item);
}

static bool is_same(void *arg, const void *old, const void *item)
{
	(void)arg;
	return is_same_item(old, item);
}

static void on_store_change(void *arg, struct str key, const void *old, const void *item)
{
	const struct nodes *n = arg;

	(void)key, (void)old, (void)item;
	if (nodes_synced(n))
		n->on_change(n->arg);
}

static void on_synced(void *arg)
{
	const struct nodes *n = arg;

	n->on_change(n->arg);
}

static void on_state(void *arg)
{
	struct nodes *n = arg;
	struct err err;

	nodes_error(n, &err);
	if (err.kind != ERR_NONE && !n->failed && !nodes_synced(n))
		log_warn("node", NULL, "%s", err.msg);
	n->failed = err.kind != ERR_NONE;
}

struct nodes *nodes_new(struct kube_client *kube, struct vipu_fleet *fleet,
			void (*on_change)(void *arg), void *arg)
{
	static const struct kube_store_ops ops = {
		.project = project,
		.free_item = free_item,
		.same = is_same,
		.on_change = on_store_change,
		.on_synced = on_synced,
		.on_state = on_state,
	};
	struct nodes *n = xcalloc(1, sizeof(*n));

	n->fleet = fleet;
	n->on_change = on_change;
	n->arg = arg;
	n->labels = map_new();
	n->keys = map_new();
	n->store = kube_store_new(&ops, n);
	if (kube)
		kube_store_watch(n->store, kube,
				 &(struct kube_watch_opts){.resource = &KUBE_NODES});
	return n;
}

static void forget_labels(struct nodes *n)
{
	struct map_iter it = MAP_ITER(n->labels);

	while (map_next(&it))
		free(it.value);
	map_free(n->labels);
	map_free(n->keys);
}

void nodes_free(struct nodes *n)
{
	if (!n)
		return;
	kube_store_free(n->store);
	forget_labels(n);
	free(n);
}

bool nodes_synced(const struct nodes *n)
{
	return kube_store_is_synced(n->store);
}

void nodes_error(const struct nodes *n, struct err *ret)
{
	struct kube_watch_status st;

	kube_watch_status(kube_store_get_watch(n->store), &st);
	*ret = st.err;
	if (ret->kind != ERR_NONE)
		err_wrap(ret, "Nodes can't be read");
}

size_t nodes_len(const struct nodes *n)
{
	return kube_store_len(n->store);
}

void nodes_note(struct nodes *n, const struct json *object)
{
	kube_store_note(n->store, object);
}

/* ---- who reaches what ---- */

/* Of what a Node's reach depends on. */
static void digest_labels(const struct vipu_fleet *fleet, uint8_t ret_digest[32])
{
	size_t n = vipu_fleet_len(fleet);
	struct str *parts;

	if (n > VIPU_MAX_CONTROLLERS)
		n = VIPU_MAX_CONTROLLERS;
	parts = xcalloc(3 * n + 1, sizeof(*parts));
	for (size_t i = 0; i < n; i++) {
		const struct vipu_controller *c = vipu_fleet_at(fleet, i);

		parts[3 * i] = c->configured ? STR("\n=") : STR("\n");
		parts[3 * i + 1] = (struct str){c->address.label, strlen(c->address.label) + 1};
		parts[3 * i + 2] = str_of(c->address.value);
	}
	hash_sha256(parts, 3 * n, ret_digest);
	free(parts);
}

static void add_label(struct nodes *n, const struct vipu_address *a, size_t i)
{
	CLEANUP_FREE char *text = xasprintf("%s=%s", a->label, a->value);
	struct reach *r = &n->always;

	if (a->label[0]) {
		r = map_get(n->labels, str_of(text));
		if (!r) {
			r = xcalloc(1, sizeof(*r));
			map_put(n->labels, str_of(text), r);
		}
		map_put(n->keys, str_of(a->label), n);
	}
	r->bits[i / 64] |= UINT64_C(1) << (i % 64);
}

void nodes_look(struct nodes *n)
{
	uint8_t digest[32];

	digest_labels(n->fleet, digest);
	if (n->version > 0 && memcmp(digest, n->digest, sizeof(digest)) == 0)
		return;
	memcpy(n->digest, digest, sizeof(digest));
	n->version++;
	forget_labels(n);
	n->labels = map_new();
	n->keys = map_new();
	n->always = (struct reach){0};
	for (size_t i = 0; i < vipu_fleet_len(n->fleet) && i < VIPU_MAX_CONTROLLERS; i++) {
		const struct vipu_controller *c = vipu_fleet_at(n->fleet, i);

		if (c->configured)
			add_label(n, &c->address, i);
	}
}

static void add_reach(const struct nodes *n, struct str label, struct reach *r)
{
	const struct reach *more = map_get(n->labels, label);

	for (size_t i = 0; more && i < sizeof(r->bits) / sizeof(r->bits[0]); i++)
		r->bits[i] |= more->bits[i];
}

static void bring_up(const struct nodes *n, struct node_item *item)
{
	struct str rest = str_of(item->labels), label;

	if (item->reach_version == n->version)
		return;
	item->reach = n->always;
	while (rest.len) {
		str_cut(rest, '\n', &label, &rest);
		add_reach(n, label, &item->reach);
	}
	item->reach_version = n->version;
}

const struct node_item *nodes_get(struct nodes *n, struct str name)
{
	struct node_item *item = kube_store_get(n->store, name);

	if (item)
		bring_up(n, item);
	return item;
}

void nodes_each(struct nodes *n, nodes_fn *fn, void *arg)
{
	struct kube_store_iter it = kube_store_iter(n->store);

	while (kube_store_next(&it)) {
		bring_up(n, it.item);
		fn(it.key, it.item, arg);
	}
}

void nodes_reach(const struct nodes *n, const struct json *labels, struct reach *ret)
{
	struct json_iter it = json_iter(labels);

	*ret = n->always;
	while (json_next(&it)) {
		CLEANUP_FREE char *label = NULL;
		struct str value = json_str(it.value);

		if (!map_get(n->keys, it.key))
			continue;
		label = xasprintf("%.*s=%.*s", STR_ARG(it.key), STR_ARG(value));
		add_reach(n, str_of(label), ret);
	}
}

bool nodes_is_key(const struct nodes *n, struct str key)
{
	return map_get(n->keys, key) != NULL;
}

char *nodes_labels(struct nodes *n, struct str name)
{
	const struct node_item *item = kube_store_get(n->store, name);
	struct str rest = str_of(item ? item->labels : ""), label;
	struct buf out = BUF_INIT(MAX_LABELS_BYTES);

	while (rest.len) {
		str_cut(rest, '\n', &label, &rest);
		if (map_get(n->labels, label))
			buf_printf(&out, NULL, "%s%.*s", out.len ? "," : "", STR_ARG(label));
	}
	return out.len ? buf_steal(&out, NULL) : NULL;
}
