/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage of the simulated API server.
 */
#include "sim/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "core/map.h"
#include "kube/object.h"

#define HISTORY_LENGTH 4096
#define OBJECT_LIMIT   ((size_t)4 << 20)

struct sim_objects {
	struct map *kinds; /* "group/plural" → struct map: "ns/name" → struct sim_object */
	uint64_t version;
	struct sim_event *history; /* a ring of HISTORY_LENGTH */
	size_t first, length;
	uint64_t forgotten; /* the newest version that the history no longer has */
	struct list watchers;
};

/* ---- objects ---- */

struct sim_object *sim_object_ref(struct sim_object *o)
{
	if (o)
		o->refs++;
	return o;
}

void sim_object_unref(struct sim_object *o)
{
	if (!o || --o->refs > 0)
		return;
	free(o->ns);
	free(o->name);
	free(o->uid);
	json_doc_free(o->doc);
	free(o);
}

const struct json *sim_object_json(const struct sim_object *o)
{
	return json_root(o->doc);
}

static char *key_of(struct str ns, struct str name)
{
	return xasprintf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
}

/* NULL: there has never been one. */
static struct map *kind_of(const struct sim_objects *s, const struct sim_resource *r)
{
	CLEANUP_FREE char *key = xasprintf("%s/%s", r->group, r->plural);

	return map_get(s->kinds, str_of(key));
}

static struct map *need_kind(struct sim_objects *s, const struct sim_resource *r)
{
	CLEANUP_FREE char *key = xasprintf("%s/%s", r->group, r->plural);
	struct map *kind = map_get(s->kinds, str_of(key));

	if (!kind) {
		kind = map_new();
		map_put(s->kinds, str_of(key), kind);
	}
	return kind;
}

/* A fresh immutable object from a mutable tree. The tree was checked when it came in. */
static struct sim_object *freeze(const struct sim_resource *r, const struct jmut *root,
				 uint64_t version)
{
	struct sim_object *o = xcalloc(1, sizeof(*o));
	struct buf bytes = BUF_INIT(OBJECT_LIMIT);
	struct err err;

	fault_alloc_spare(true);
	if (jmut_write(root, JSON_COMPACT, &bytes, &err) < 0 ||
	    json_parse(buf_str(&bytes), &o->doc, &err) < 0) {
		fprintf(stderr, "ipu-sim: an object can't be stored: %s\n", err.msg);
		abort();
	}
	fault_alloc_spare(false);
	buf_done(&bytes);
	o->refs = 1;
	o->resource = r;
	o->version = version;
	o->ns = str_dup(kube_namespace(json_root(o->doc)));
	o->name = str_dup(kube_name(json_root(o->doc)));
	o->uid = str_dup(kube_uid(json_root(o->doc)));
	return o;
}

/* ---- history and watchers ---- */

static void forget_oldest(struct sim_objects *s)
{
	struct sim_event *e = &s->history[s->first];

	s->forgotten = e->version;
	sim_object_unref(e->now);
	sim_object_unref(e->before);
	s->first = (s->first + 1) % HISTORY_LENGTH;
	s->length--;
}

static void remember(struct sim_objects *s, const struct sim_event *e)
{
	struct sim_event *slot;

	if (s->length == HISTORY_LENGTH)
		forget_oldest(s);
	slot = &s->history[(s->first + s->length++) % HISTORY_LENGTH];
	*slot = *e;
	sim_object_ref(slot->now);
	sim_object_ref(slot->before);
}

static void happened(struct sim_objects *s, const struct sim_event *e)
{
	remember(s, e);
	LIST_FOREACH(pos, tmp, &s->watchers) {
		struct sim_watcher *w = CONTAINER_OF(pos, struct sim_watcher, link);

		w->on_event(w->arg, e);
	}
}

void sim_objects_watch(struct sim_objects *s, struct sim_watcher *w)
{
	list_append(&s->watchers, &w->link);
}

void sim_objects_unwatch(struct sim_watcher *w)
{
	list_unlink(&w->link);
}

int sim_objects_replay(struct sim_objects *s, uint64_t after,
		       void (*fn)(void *arg, const struct sim_event *event), void *arg,
		       struct err *err)
{
	if (after < s->forgotten)
		return err_set(err, ERR_GONE, 410,
			       "too old resource version: %" PRIu64 " (%" PRIu64 ")", after,
			       s->forgotten);
	for (size_t i = 0; i < s->length; i++) {
		const struct sim_event *e = &s->history[(s->first + i) % HISTORY_LENGTH];

		if (e->version > after)
			fn(arg, e);
	}
	return 0;
}

void sim_objects_compact(struct sim_objects *s)
{
	while (s->length > 0)
		forget_oldest(s);
	/* A version that nothing was written at: whoever saw the newest one has to list as well. */
	s->forgotten = ++s->version;
}

/* ---- the store ---- */

struct sim_objects *sim_objects_new(void)
{
	struct sim_objects *s = xcalloc(1, sizeof(*s));

	s->kinds = map_new();
	s->history = xcalloc(HISTORY_LENGTH, sizeof(*s->history));
	s->version = 1;
	list_init(&s->watchers);
	return s;
}

static void free_kind(struct map *kind)
{
	struct map_iter it = MAP_ITER(kind);

	while (map_next(&it))
		sim_object_unref(it.value);
	map_free(kind);
}

void sim_objects_free(struct sim_objects *s)
{
	struct map_iter it;

	if (!s)
		return;
	while (s->length > 0)
		forget_oldest(s);
	it = (struct map_iter)MAP_ITER(s->kinds);
	while (map_next(&it))
		free_kind(it.value);
	map_free(s->kinds);
	free(s->history);
	free(s);
}

uint64_t sim_objects_version(const struct sim_objects *s)
{
	return s->version;
}

struct sim_object *sim_objects_get(const struct sim_objects *s, const struct sim_resource *r,
				   struct str ns, struct str name)
{
	CLEANUP_FREE char *key = key_of(ns, name);
	const struct map *kind = kind_of(s, r);

	return kind ? map_get(kind, str_of(key)) : NULL;
}

static int by_key(const void *a, const void *b)
{
	const struct sim_object *x = *(struct sim_object *const *)a;
	const struct sim_object *y = *(struct sim_object *const *)b;
	int order = strcmp(x->ns, y->ns);

	return order ? order : strcmp(x->name, y->name);
}

struct sim_object **sim_objects_list(const struct sim_objects *s, const struct sim_resource *r,
				     struct str ns, size_t *ret_n)
{
	const struct map *kind = kind_of(s, r);
	struct sim_object **found = xcalloc((kind ? map_len(kind) : 0) + 1,
					    sizeof(struct sim_object *));
	struct map_iter it = MAP_ITER(kind);
	size_t n = 0;

	while (kind && map_next(&it)) {
		struct sim_object *o = it.value;

		if (o->resource == r && (ns.len == 0 || str_eqz(ns, o->ns)))
			found[n++] = o;
	}
	qsort(found, n, sizeof(struct sim_object *), by_key);
	*ret_n = n;
	return found;
}

struct sim_object **sim_objects_owned(const struct sim_objects *s, struct str uid, size_t *ret_n)
{
	struct sim_object **found = NULL;
	struct map_iter kinds = MAP_ITER(s->kinds);
	size_t n = 0;

	while (map_next(&kinds)) {
		struct map_iter it = MAP_ITER(kinds.value);

		while (map_next(&it)) {
			struct sim_object *o = it.value;

			if (!kube_is_owned_by(sim_object_json(o), uid))
				continue;
			found = xrealloc(found, (n + 1) * sizeof(struct sim_object *));
			found[n++] = o;
		}
	}
	if (n)
		qsort(found, n, sizeof(struct sim_object *), by_key);
	*ret_n = n;
	return found;
}

struct sim_object *sim_objects_put(struct sim_objects *s, const struct sim_resource *r,
				   struct jmut_doc *doc, struct jmut *root)
{
	uint64_t version = ++s->version;
	struct jmut *meta = jmut_need_object(doc, root, "metadata");
	struct sim_object *o, *before;
	struct sim_event event;
	char *key;

	jmut_set(doc, meta, "resourceVersion", jmut_strf(doc, "%" PRIu64, version));
	o = freeze(r, root, version);
	key = key_of(str_of(o->ns), str_of(o->name));
	before = map_put(need_kind(s, r), str_of(key), o);
	free(key);
	event = (struct sim_event){
		.change = before ? SIM_MODIFIED : SIM_ADDED,
		.version = version,
		.now = o,
		.before = before,
	};
	happened(s, &event);
	sim_object_unref(before);
	return o;
}

void sim_objects_remove(struct sim_objects *s, struct sim_object *o)
{
	CLEANUP_FREE char *key = key_of(str_of(o->ns), str_of(o->name));
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, sim_object_json(o));
	struct jmut *meta = jmut_need_object(doc, root, "metadata");
	uint64_t version = ++s->version;
	struct sim_object *last;
	struct sim_event event;

	/* The last word on it carries the version of its removal, as etcd's do. */
	jmut_set(doc, meta, "resourceVersion", jmut_strf(doc, "%" PRIu64, version));
	last = freeze(o->resource, root, version);
	map_del(need_kind(s, o->resource), str_of(key));
	event = (struct sim_event){
		.change = SIM_DELETED, .version = version, .now = last, .before = o};
	happened(s, &event);
	sim_object_unref(last);
	sim_object_unref(o);
}
