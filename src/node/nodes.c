/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of Nodes. Which controllers a Node reaches is found by looking up each of its labels in
 * the fleet's, once for each version of that list, and kept beside it. Of a label there's a hash:
 * most Nodes have some twenty that nobody here asks for.
 */
#include "node/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/map.h"
#include "kube/object.h"
#include "kube/store.h"
#include "node/publish.h"

#define MAX_LABELS_BYTES ((size_t)1 << 20) /* the API server takes no such object */
#define MAX_IPUS         INT64_C(1000000)

struct nodes {
	struct kube_store *store;
	struct vipu_fleet *fleet;
	nodes_change_fn *on_change;
	void *arg;
	/* The fleet's labels. */
	uint8_t digest[32];
	uint64_t version;    /* of them, from 1 */
	struct map *labels;  /* by hash: struct label */
	struct map *keys;    /* their keys */
	struct reach always; /* of controllers without a label */
	bool failed;         /* said once */
};

struct label {
	struct reach reach;
	char text[]; /* "key=value" */
};

bool reach_is_empty(const struct reach *r)
{
	uint64_t any = 0;

	for (size_t i = 0; i < sizeof(r->bits) / sizeof(r->bits[0]); i++)
		any |= r->bits[i];
	return any == 0;
}

/* ---- amounts ---- */

/* What stands behind the digits; of whole numbers no other suffix is left (k8s.io/apimachinery,
 * resource.Quantity, whose canonical form has no fraction where one can be done without). */
static bool factor_of(struct str suffix, int64_t *ret)
{
	static const struct {
		const char *suffix;
		int64_t factor;
	} factors[] = {
		{"", 1},
		{"k", 1000},
		{"M", 1000000},
		{"G", 1000000000},
		{"Ki", INT64_C(1) << 10},
		{"Mi", INT64_C(1) << 20},
		{"Gi", INT64_C(1) << 30},
		{"e3", 1000},
		{"e6", 1000000},
		{"e9", 1000000000},
	};

	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		if (str_eqz(suffix, factors[i].suffix)) {
			*ret = factors[i].factor;
			return true;
		}
	}
	return false;
}

bool nodes_amount(const struct json *quantity, int64_t max, int64_t *ret)
{
	struct str s = json_str(quantity);
	int64_t n = json_int(quantity, -1), factor = 1;
	size_t digits = 0;

	if (json_type(quantity) == JSON_STRING) {
		while (digits < s.len && s.p[digits] >= '0' && s.p[digits] <= '9')
			digits++;
		if (str_to_int((struct str){s.p, digits}, 0, max, &n, NULL) < 0 ||
		    !factor_of((struct str){s.p + digits, s.len - digits}, &factor))
			return false;
	} else if (json_type(quantity) != JSON_INT) {
		return false;
	}
	if (n < 0 || n > max / factor)
		return false;
	*ret = n * factor;
	return true;
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
	return nodes_amount(v, MAX_IPUS, &n) ? n : -2;
}

static uint64_t hash_label(struct str key, struct str value)
{
	const struct str parts[] = {key, STR("="), value};
	uint8_t digest[32];
	uint64_t hash;

	hash_sha256(parts, sizeof(parts) / sizeof(parts[0]), digest);
	memcpy(&hash, digest, sizeof(hash));
	return hash;
}

static struct str hash_key(const uint64_t *hash)
{
	return (struct str){(const char *)hash, sizeof(*hash)};
}

static void take_labels(const struct json *labels, struct node_item *item)
{
	struct json_iter it = json_iter(labels);

	item->labels = xcalloc(json_len(labels) + 1, sizeof(*item->labels));
	while (json_next(&it))
		item->labels[item->n_labels++] = hash_label(it.key, json_str(it.value));
}

static void take_fabric(const struct json *object, struct node_fabric *f)
{
	struct publish_condition c;

	publish_condition_decode(object, &c);
	*f = (struct node_fabric){
		.known = c.known,
		.silent = strcmp(c.reason, FABRIC_SILENT) == 0,
		.status = c.status,
		.heartbeat_ms = c.heartbeat_ms,
		.seen_ms = clock_mono_ms(),
	};
	publish_condition_done(&c);
}

struct node_item *node_item_decode(const struct json *object)
{
	struct node_item *item = xcalloc(1, sizeof(*item));
	struct str version = kube_version(object);
	int64_t noted;

	take_labels(json_at(object, "metadata", "labels", NULL), item);
	take_fabric(object, &item->fabric);
	if (version.len > 0 && version.len < sizeof(item->version))
		memcpy(item->version, version.p, version.len);
	item->shown = count_at(object, "capacity");
	item->allocatable = count_at(object, "allocatable");
	item->noted = str_to_int(kube_annotation(object, NODES_ANNOTATION), 0, MAX_IPUS, &noted,
				 NULL) == 0
			      ? noted
			      : -1;
	item->control_plane = is_control_plane(object);
	item->deleting = kube_is_deleting(object);
	return item;
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
	return a->n_labels == b->n_labels &&
	       memcmp(a->labels, b->labels, a->n_labels * sizeof(a->labels[0])) == 0 &&
	       a->shown == b->shown && a->allocatable == b->allocatable && a->noted == b->noted &&
	       a->control_plane == b->control_plane && a->deleting == b->deleting;
}

static bool is_same_fabric(const struct node_fabric *a, const struct node_fabric *b)
{
	return a->known == b->known && a->silent == b->silent && a->status == b->status &&
	       a->heartbeat_ms == b->heartbeat_ms;
}

/* ---- the store ---- */

static int project(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	const struct nodes *n = arg;
	const struct node_item *old = kube_store_get(n->store, kube_name(object));
	struct node_item *item;

	(void)err;
	item = node_item_decode(object);
	/* Its age is as it was seen here: the node's clock may be another one. */
	if (old && old->fabric.known && old->fabric.heartbeat_ms == item->fabric.heartbeat_ms)
		item->fabric.seen_ms = old->fabric.seen_ms;
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
	const struct node_item *a = old, *b = item;

	(void)arg;
	return is_same_item(a, b) && is_same_fabric(&a->fabric, &b->fabric);
}

static void on_store_change(void *arg, struct str key, const void *old, const void *item)
{
	const struct nodes *n = arg;

	(void)key;
	if (nodes_synced(n))
		n->on_change(n->arg, old && item && is_same_item(old, item));
}

static void on_synced(void *arg)
{
	const struct nodes *n = arg;

	n->on_change(n->arg, false);
}

static void on_state(void *arg)
{
	struct nodes *n = arg;
	struct err err;

	nodes_error(n, &err);
	if (err.kind != ERR_NONE && !n->failed && !nodes_synced(n))
		log_warn("node", NULL, "%s", err.msg);
	n->failed = err.kind != ERR_NONE;
	if (n->failed)
		n->on_change(n->arg, true);
}

struct nodes *nodes_new(struct kube_client *kube, struct vipu_fleet *fleet,
			nodes_change_fn *on_change, void *arg)
{
	static const struct kube_store_ops ops = {
		.component = "node",
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
	uint64_t hash = hash_label(str_of(a->label), str_of(a->value));
	struct reach *r = &n->always;

	if (a->label[0]) {
		struct label *label = map_get(n->labels, hash_key(&hash));

		if (!label) {
			label = xcalloc(1, sizeof(*label) + strlen(text) + 1);
			memcpy(label->text, text, strlen(text) + 1);
			map_put(n->labels, hash_key(&hash), label);
		}
		r = &label->reach;
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

static void add_reach(const struct nodes *n, uint64_t hash, struct reach *r)
{
	const struct label *more = map_get(n->labels, hash_key(&hash));

	for (size_t i = 0; more && i < sizeof(r->bits) / sizeof(r->bits[0]); i++)
		r->bits[i] |= more->reach.bits[i];
}

static void bring_up(const struct nodes *n, struct node_item *item)
{
	if (item->reach_version == n->version)
		return;
	item->reach = n->always;
	for (size_t i = 0; i < item->n_labels; i++)
		add_reach(n, item->labels[i], &item->reach);
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
		if (map_get(n->keys, it.key))
			add_reach(n, hash_label(it.key, json_str(it.value)), ret);
	}
}

bool nodes_is_key(const struct nodes *n, struct str key)
{
	return map_get(n->keys, key) != NULL;
}

char *nodes_labels(struct nodes *n, struct str name)
{
	const struct node_item *item = kube_store_get(n->store, name);
	struct buf out = BUF_INIT(MAX_LABELS_BYTES);

	for (size_t i = 0; item && i < item->n_labels; i++) {
		const struct label *label = map_get(n->labels, hash_key(&item->labels[i]));

		if (label)
			buf_printf(&out, NULL, "%s%s", out.len ? "," : "", label->text);
	}
	return out.len ? buf_steal(&out, NULL) : NULL;
}
