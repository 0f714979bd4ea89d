/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated API server's storage: objects as immutable versions, one counter of resource
 * versions, a bounded history for watches, and those who watch. It knows keys, not kinds.
 */
#ifndef IPU_SIM_OBJECTS_H
#define IPU_SIM_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "core/list.h"
#include "core/str.h"
#include "sim/selector.h"

struct sim_resource {
	const char *group, *version, *plural, *singular, *kind;
	const char *short_name; /* NULL: none */
	bool namespaced;
	bool has_status; /* a status subresource: writes elsewhere leave status alone */
	bool has_scale;
	bool create_only; /* a review: answered, and not kept */
};

/* One version of an object: never changes, counted. */
struct sim_object {
	unsigned refs;
	const struct sim_resource *resource;
	char *ns, *name, *uid; /* ns "" for what has no namespace */
	uint64_t version;
	struct json_doc *doc;
};
struct sim_object *sim_object_ref(struct sim_object *o);
void sim_object_unref(struct sim_object *o); /* NULL is fine */
const struct json *sim_object_json(const struct sim_object *o);

struct sim_objects;

struct sim_objects *sim_objects_new(void);
void sim_objects_free(struct sim_objects *s);
uint64_t sim_objects_version(const struct sim_objects *s); /* the newest */

/* Borrowed until the next write. */
struct sim_object *sim_objects_get(const struct sim_objects *s, const struct sim_resource *r,
				   struct str ns, struct str name);

/* Objects of a resource in the order of their keys; ns "": of all namespaces. Fills an array of
 * borrowed pointers that the caller frees. */
struct sim_object **sim_objects_list(const struct sim_objects *s, const struct sim_resource *r,
				     struct str ns, size_t *ret_n);

/* Those that name this UID as an owner, of all kinds; else as above, and NULL where there's none.
 */
struct sim_object **sim_objects_owned(const struct sim_objects *s, struct str uid, size_t *ret_n);

enum sim_change { SIM_ADDED, SIM_MODIFIED, SIM_DELETED };

/* Writes root (whose metadata.resourceVersion is set here) as the object's new version, made or
 * replaced. Watchers are told before it returns. */
struct sim_object *sim_objects_put(struct sim_objects *s, const struct sim_resource *r,
				   struct jmut_doc *doc, struct jmut *root);
void sim_objects_remove(struct sim_objects *s, struct sim_object *o);

/* A write or removal, as the history keeps it. now is the last state of what was deleted. */
struct sim_event {
	enum sim_change change;
	uint64_t version;
	struct sim_object *now, *before; /* before NULL: new */
};

/* Told of every event from here on. May write, but not stop others' watches. */
struct sim_watcher {
	struct list link;
	void (*on_event)(void *arg, const struct sim_event *event);
	void *arg;
};
void sim_objects_watch(struct sim_objects *s, struct sim_watcher *w);
void sim_objects_unwatch(struct sim_watcher *w);

/* Events after a version, for those who come back: calls fn for each, in order. -1 with ERR_GONE
 * when the history doesn't reach back that far. */
int sim_objects_replay(struct sim_objects *s, uint64_t after,
		       void (*fn)(void *arg, const struct sim_event *event), void *arg,
		       struct err *err);
/* Forgets the history: who comes back now has to list (a test's 410). */
void sim_objects_compact(struct sim_objects *s);

#endif
