/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET, lists by pages, and watches of the simulated API.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "core/str.h"
#include "sim/api_internal.h"

#define BOOKMARK_MS      5000
#define DEFAULT_WATCH_S  1800
#define WATCH_LINE_LIMIT ((size_t)8 << 20)

/* ---- get ---- */

static void refuse(struct sim_request *req, const struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	sim_reply_err(req, doc, err, NULL);
}

void sim_reply_scale(struct sim_request *req, const struct sim_object *o)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct json *v = sim_object_json(o), *meta = json_get(v, "metadata");
	struct jmut *root = jmut_object(doc), *m = jmut_object(doc), *spec = jmut_object(doc);
	struct jmut *status = jmut_object(doc);
	static const char *const kept[] = {"name", "namespace", "uid", "resourceVersion",
					   "creationTimestamp"};

	for (size_t i = 0; i < 5; i++) {
		if (json_get(meta, kept[i]))
			jmut_set(doc, m, kept[i], jmut_copy(doc, json_get(meta, kept[i])));
	}
	jmut_set_str(doc, root, "kind", "Scale");
	jmut_set_str(doc, root, "apiVersion", "autoscaling/v1");
	jmut_set(doc, root, "metadata", m);
	jmut_set_int(doc, spec, "replicas", json_int(json_at(v, "spec", "jobInstances", NULL), 0));
	jmut_set(doc, root, "spec", spec);
	jmut_set_int(doc, status, "replicas",
		     json_int(json_at(v, "status", "desiredReplicas", NULL), 0));
	if (json_at(v, "status", "selector", NULL))
		jmut_set(doc, status, "selector",
			 jmut_copy(doc, json_at(v, "status", "selector", NULL)));
	jmut_set(doc, root, "status", status);
	sim_reply(req, 200, root);
}

static void get(struct sim_request *req)
{
	const struct sim_object *o = sim_objects_get(req->api->objects, req->resource,
						     str_of(req->ns), str_of(req->name));
	struct err err;

	if (!o) {
		err_set(&err, ERR_NOT_FOUND, 404, "%s%s%s \"%s\" not found", req->resource->plural,
			req->resource->group[0] ? "." : "", req->resource->group, req->name);
		refuse(req, &err);
	} else if (strcmp(req->subresource, "scale") == 0) {
		sim_reply_scale(req, o);
	} else {
		sim_reply_object(req, 200, o);
	}
}

/* ---- list ---- */

struct page {
	struct jmut_doc *doc;
	struct jmut *root, *items; /* items NULL: a Table */
	int64_t n, left;
	char *last; /* "ns/name" of the last one on it */
};

static void page_init(struct sim_request *req, struct page *p)
{
	const struct sim_resource *r = req->resource;

	*p = (struct page){.doc = jmut_doc_new()};
	if (req->table) {
		p->root = sim_table(req->api, p->doc, r);
		return;
	}
	p->root = jmut_object(p->doc);
	p->items = jmut_array(p->doc);
	jmut_set(p->doc, p->root, "kind", jmut_strf(p->doc, "%sList", r->kind));
	jmut_set(p->doc, p->root, "apiVersion",
		 jmut_strf(p->doc, "%s%s%s", r->group, r->group[0] ? "/" : "", r->version));
	jmut_set(p->doc, p->root, "items", p->items);
}

static void page_add(struct sim_request *req, struct page *p, const struct sim_object *o)
{
	if (req->limit > 0 && p->n >= req->limit) {
		p->left++;
		return;
	}
	p->n++;
	free(p->last);
	p->last = xasprintf("%s/%s", o->ns, o->name);
	if (p->items)
		jmut_push(p->doc, p->items, jmut_copy(p->doc, sim_object_json(o)));
	else
		sim_table_add(req->api, p->doc, p->root, o, req->include_object);
}

static void page_finish(struct sim_request *req, struct page *p, uint64_t version)
{
	struct jmut *meta = jmut_object(p->doc);

	jmut_set(p->doc, meta, "resourceVersion", jmut_strf(p->doc, "%" PRIu64, version));
	if (p->left > 0) {
		CLEANUP_FREE char *token = xasprintf("%" PRIu64 "/%s", version, p->last);
		CLEANUP_FREE char *encoded = base64_encode(token, strlen(token));

		jmut_set_str(p->doc, meta, "continue", encoded);
		jmut_set_int(p->doc, meta, "remainingItemCount", p->left);
	}
	jmut_set(p->doc, p->root, "metadata", meta);
	sim_reply(req, 200, p->root);
	free(p->last);
	jmut_doc_free(p->doc);
}

/* "VERSION/NS/NAME" → the version that the list began with, and where it goes on. */
static int read_continue(const struct sim_request *req, uint64_t *ret_version, char **ret_after,
			 struct err *err)
{
	uint8_t *bytes = NULL;
	size_t len;
	struct str version, after;
	int64_t n;

	if (base64_decode(str_of(req->continue_token), &bytes, &len, err) < 0)
		return err_set(err, ERR_INVALID, 400, "continue key is not valid");
	str_cut((struct str){(char *)bytes, len}, '/', &version, &after);
	if (str_to_int(version, 1, INT64_MAX, &n, NULL) < 0) {
		free(bytes);
		return err_set(err, ERR_INVALID, 400, "continue key is not valid");
	}
	*ret_version = (uint64_t)n;
	*ret_after = str_dup(after);
	free(bytes);
	return 0;
}

static void list(struct sim_request *req, const struct sim_selector *selector)
{
	uint64_t version = sim_objects_version(req->api->objects);
	CLEANUP_FREE char *after = NULL;
	struct sim_object **all;
	struct page page;
	struct err err;
	size_t n;

	if (req->continue_token[0] && read_continue(req, &version, &after, &err) < 0) {
		refuse(req, &err);
		return;
	}
	all = sim_objects_list(req->api->objects, req->resource, str_of(req->ns), &n);
	page_init(req, &page);
	for (size_t i = 0; i < n; i++) {
		CLEANUP_FREE char *key = xasprintf("%s/%s", all[i]->ns, all[i]->name);

		if (after && strcmp(key, after) <= 0)
			continue;
		if (sim_selector_matches(selector, sim_object_json(all[i])))
			page_add(req, &page, all[i]);
	}
	free(all);
	page_finish(req, &page, version);
}

/* ---- watch ---- */

struct watch {
	struct list link; /* in api->watches */
	struct sim_watcher watcher;
	struct sim_api *api;
	struct http_exchange *ex;
	const struct sim_resource *resource;
	struct sim_selector *selector;
	char *ns, *include_object;
	bool table, bookmarks;
	struct loop_timer end, bookmark;
};

static void watch_free(struct watch *w)
{
	list_unlink(&w->link);
	sim_objects_unwatch(&w->watcher);
	loop_timer_stop(&w->end);
	loop_timer_stop(&w->bookmark);
	sim_selector_free(w->selector);
	free(w->ns);
	free(w->include_object);
	free(w);
}

static void on_watch_abort(struct http_exchange *ex, void *arg)
{
	(void)ex;
	watch_free(arg);
}

static void send_event(struct watch *w, struct jmut_doc *doc, const char *type, struct jmut *object)
{
	struct buf line = BUF_INIT(WATCH_LINE_LIMIT);
	struct jmut *root = jmut_object(doc);
	struct err err;

	jmut_set_str(doc, root, "type", type);
	jmut_set(doc, root, "object", object);
	fault_alloc_spare(true); /* nobody would hear of it */
	if (jmut_write(root, JSON_COMPACT, &line, &err) == 0 &&
	    buf_append(&line, "\n", 1, &err) == 0)
		http_reply_write(w->ex, buf_str(&line));
	fault_alloc_spare(false);
	buf_done(&line);
}

static void send_object(struct watch *w, const char *type, const struct sim_object *o)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *object;

	if (w->table) {
		object = sim_table(w->api, doc, w->resource);
		sim_table_add(w->api, doc, object, o, w->include_object);
	} else {
		object = jmut_copy(doc, sim_object_json(o));
	}
	send_event(w, doc, type, object);
}

static void on_watched(void *arg, const struct sim_event *e)
{
	struct watch *w = arg;
	bool was, is;

	if (e->now->resource != w->resource || (w->ns[0] && strcmp(w->ns, e->now->ns) != 0))
		return;
	was = e->before && sim_selector_matches(w->selector, sim_object_json(e->before));
	is = e->change != SIM_DELETED && sim_selector_matches(w->selector, sim_object_json(e->now));
	if (is)
		send_object(w, was ? "MODIFIED" : "ADDED", e->now);
	else if (was)
		send_object(w, "DELETED", e->now);
}

static void send_bookmark(struct watch *w)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *object = jmut_object(doc), *meta = jmut_object(doc);
	const struct sim_resource *r = w->resource;

	jmut_set_str(doc, object, "kind", r->kind);
	jmut_set(doc, object, "apiVersion",
		 jmut_strf(doc, "%s%s%s", r->group, r->group[0] ? "/" : "", r->version));
	jmut_set(doc, meta, "resourceVersion",
		 jmut_strf(doc, "%" PRIu64, sim_objects_version(w->api->objects)));
	jmut_set(doc, object, "metadata", meta);
	send_event(w, doc, "BOOKMARK", object);
}

static void on_bookmark(struct loop_timer *timer, void *arg)
{
	struct watch *w = arg;

	loop_timer_start_in(timer, BOOKMARK_MS);
	send_bookmark(w);
}

static void on_watch_end(struct loop_timer *timer, void *arg)
{
	struct watch *w = arg;
	struct http_exchange *ex = w->ex;

	(void)timer;
	if (w->bookmarks)
		send_bookmark(w);
	watch_free(w);
	http_reply_end(ex);
}

void sim_watches_cut(struct sim_api *api)
{
	LIST_FOREACH(pos, tmp, &api->watches) {
		struct watch *w = CONTAINER_OF(pos, struct watch, link);
		struct http_exchange *ex = w->ex;

		watch_free(w);
		http_reply_abort(ex);
	}
}

static struct watch *watch_new(struct sim_request *req, struct sim_selector *selector)
{
	struct watch *w = xcalloc(1, sizeof(*w));
	int64_t seconds = req->timeout_s > 0 ? req->timeout_s : DEFAULT_WATCH_S;

	w->api = req->api;
	w->ex = req->ex;
	w->resource = req->resource;
	w->selector = selector;
	w->ns = xstrdup(req->ns);
	w->include_object = xstrdup(req->include_object);
	w->table = req->table;
	w->bookmarks = req->bookmarks;
	w->watcher = (struct sim_watcher){.on_event = on_watched, .arg = w};
	list_init(&w->watcher.link); /* it may end before it's put in */
	loop_timer_init(&w->end, req->api->loop, on_watch_end, w);
	loop_timer_init(&w->bookmark, req->api->loop, on_bookmark, w);
	loop_timer_start_in(&w->end, seconds * 1000);
	if (w->bookmarks)
		loop_timer_start_in(&w->bookmark, BOOKMARK_MS);
	http_exchange_on_abort(req->ex, on_watch_abort, w);
	http_reply_begin(req->ex, 200, "application/json", NULL, 0);
	list_append(&req->api->watches, &w->link);
	return w;
}

static void send_all(struct watch *w)
{
	size_t n;
	struct sim_object **all = sim_objects_list(w->api->objects, w->resource, str_of(w->ns), &n);

	for (size_t i = 0; i < n; i++) {
		if (sim_selector_matches(w->selector, sim_object_json(all[i])))
			send_object(w, "ADDED", all[i]);
	}
	free(all);
}

static void send_gone(struct watch *w, const struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct http_exchange *ex = w->ex;

	send_event(w, doc, "ERROR", sim_status(doc, NULL, err, NULL));
	watch_free(w);
	http_reply_end(ex);
}

/* Takes the selector. */
static void watch(struct sim_request *req, struct sim_selector *selector)
{
	struct watch *w;
	struct err err;
	int64_t after = 0;

	if (req->version[0] && str_to_int(str_of(req->version), 0, INT64_MAX, &after, NULL) < 0) {
		sim_selector_free(selector);
		err_set(&err, ERR_INVALID, 400, "invalid resource version \"%s\"", req->version);
		refuse(req, &err);
		return;
	}
	w = watch_new(req, selector);
	if (after == 0) {
		send_all(w);
	} else if (sim_objects_replay(req->api->objects, (uint64_t)after, on_watched, w, &err) <
		   0) {
		send_gone(w, &err);
		return;
	}
	sim_objects_watch(req->api->objects, &w->watcher);
}

void sim_read(struct sim_request *req)
{
	CLEANUP_FREE char *by_name = NULL;
	struct sim_selector *selector;
	struct err err;

	if (req->verb == SIM_GET) {
		get(req);
		return;
	}
	/* GET of one name with watch=true is a watch of that name. */
	if (req->name[0])
		by_name = xasprintf("metadata.name=%s", req->name);
	if (sim_selector_parse(str_of(req->labels), str_of(by_name ? by_name : req->fields),
			       &selector, &err) < 0) {
		refuse(req, &err);
		return;
	}
	if (req->verb == SIM_WATCH) {
		watch(req, selector);
		return;
	}
	list(req, selector);
	sim_selector_free(selector);
}
