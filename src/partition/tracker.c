/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A level-triggered machine of one step: step() compares what is wanted with what is there and
 * starts at most one request. The watch brings news from outside; an answer to a write, and a GET
 * after a failure, bring it sooner.
 */
#include "partition/tracker.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "core/map.h"
#include "kube/object.h"
#include "kube/watch.h"
#include "loop/backoff.h"
#include "loop/loop.h"
#include "loop/op.h"

#define FORMAT_ANNOTATION "graphcore.ai/tracker-format"
#define FORMAT            "1"
#define WRITE_DEADLINE_MS 15000
#define LOST_AT_ONCE      3 /* conflicts in a row that are tried again without a wait */

struct record {
	char *want;   /* NULL: not wanted in the ConfigMap */
	char *stored; /* NULL: not there */
	bool put;     /* the owner has said what it wants */
	bool told;    /* … and has heard that it's there */
};

enum tracker_state {
	TRACKER_IDLE,    /* wanted and stored agree, or the watch hasn't synced */
	TRACKER_READING, /* GET, after a failure or a conflict */
	TRACKER_WRITING, /* POST or PATCH */
	TRACKER_WAITING, /* back-off */
};

struct tracker {
	struct kube_client *kube;
	struct kube_watch *watch; /* in scope */
	struct loop *loop;
	char *ns, *name;
	bool follow;
	struct tracker_ops ops;
	void *arg;
	struct map *records; /* id → struct record */
	enum tracker_state state;
	bool synced;
	bool exists;    /* the ConfigMap is there */
	bool foreign;   /* … in a format that isn't ours: left alone */
	bool must_read; /* what is stored may not be what we believe */
	char *version;  /* its resourceVersion */
	char *passed;   /* of news that came during a call and wasn't looked at; NULL: none */
	unsigned lost;  /* writes in a row that somebody else was faster than */
	struct err err;
	struct scope scope;
	struct loop_work step_work;
	struct loop_timer retry;
	struct backoff backoff;
	int64_t taken_over_ms;
	unsigned long writes;
};

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct record *need_record(struct tracker *t, struct str id)
{
	struct record *r = map_get(t->records, id);

	if (!r) {
		r = xcalloc(1, sizeof(*r));
		map_put(t->records, id, r);
	}
	return r;
}

static void free_record(struct record *r)
{
	free(r->want);
	free(r->stored);
	free(r);
}

static void set_error(struct tracker *t, const struct err *err)
{
	bool was_well = t->err.kind == ERR_NONE;

	if (err && (was_well || strcmp(err->msg, t->err.msg) != 0))
		log_warn("partition", t->name, "the tracker ConfigMap: %s", err->msg);
	else if (!err && !was_well)
		log_info("partition", t->name, "the tracker ConfigMap can be written again");
	t->err = err ? *err : (struct err)ERR_INIT;
	if (was_well != (err == NULL))
		t->ops.on_error(t->arg);
}

/* ---- what is there ---- */

/* One key as the ConfigMap has it now; json NULL: it's gone. */
static void note_stored(struct tracker *t, struct str id, const char *json)
{
	struct record *r = need_record(t, id);
	char *key = str_dup(id);

	if (!same(r->stored, json)) {
		free(r->stored);
		r->stored = xstrdup(json);
		r->told = r->told && same(r->want, r->stored);
	}
	if (!r->put && json && !same(r->want, json)) {
		free(r->want);
		r->want = xstrdup(json);
		t->ops.on_found(t->arg, key, str_of(json));
	} else if (r->put && !r->told && same(r->want, r->stored)) {
		r->told = true;
		t->ops.on_recorded(t->arg, key);
	}
	r = map_get(t->records, str_of(key));
	if (r && !r->stored && (!r->want || !r->put)) {
		if (!r->put && t->ops.on_gone)
			t->ops.on_gone(t->arg, key);
		free_record(map_del(t->records, str_of(key)));
	}
	free(key);
}

/* Keys that we believe in and that aren't in data: gone from the ConfigMap. */
static void note_missing(struct tracker *t, const struct json *data)
{
	struct map_iter it = MAP_ITER(t->records);
	struct str *gone = NULL;
	size_t n = 0;

	while (map_next(&it)) {
		const struct record *r = it.value;
		bool dropped = r->put && !r->want;

		if (!json_getn(data, it.key) && (r->stored || dropped)) {
			gone = xrealloc(gone, (n + 1) * sizeof(*gone));
			gone[n++] = str_of(str_dup(it.key));
		}
	}
	for (size_t i = 0; i < n; i++) {
		note_stored(t, gone[i], NULL);
		free((char *)(uintptr_t)gone[i].p);
	}
	free(gone);
}

/* News that was passed over while an answer was awaited: is it newer than that answer? */
static void weigh_passed(struct tracker *t)
{
	if (t->passed && kube_version_cmp(str_of(t->passed), str_of(t->version)) > 0)
		t->must_read = true;
	free(t->passed);
	t->passed = NULL;
}

static void note_object(struct tracker *t, const struct json *object)
{
	const struct json *data = json_get(object, "data");
	struct str format = kube_annotation(object, FORMAT_ANNOTATION);
	struct json_iter it;

	free(t->version);
	t->version = str_dup(kube_version(object));
	t->exists = true;
	t->must_read = false;
	weigh_passed(t);
	t->foreign = format.len == 0 ? json_len(data) > 0 : !str_eqz(format, FORMAT);
	if (t->foreign) {
		struct err err;

		err_set(&err, ERR_INVALID, 0,
			"ConfigMap %s/%s holds something else (annotation " FORMAT_ANNOTATION
			" is \"%.*s\", not \"" FORMAT "\"): rename or remove it, it isn't touched",
			t->ns, t->name, STR_ARG(format));
		set_error(t, &err);
		return;
	}
	for (it = json_iter(data); json_next(&it);) {
		if (json_cstr(it.value))
			note_stored(t, it.key, json_cstr(it.value));
	}
	note_missing(t, data);
}

static void note_absent(struct tracker *t)
{
	free(t->version);
	t->version = NULL;
	t->exists = t->foreign = false;
	t->must_read = t->passed != NULL;
	free(t->passed);
	t->passed = NULL;
	note_missing(t, NULL);
}

/* ---- writing ---- */

/* {"<id>": "<json>" or null, …} of all that differs; NULL when nothing does. */
static struct jmut *differences(struct tracker *t, struct jmut_doc *doc)
{
	struct jmut *data = NULL;
	struct map_iter it = MAP_ITER(t->records);

	while (map_next(&it)) {
		const struct record *r = it.value;

		if (!r->put || same(r->want, r->stored))
			continue;
		if (!data)
			data = jmut_object(doc);
		jmut_setn(doc, data, it.key, r->want ? jmut_strz(doc, r->want) : jmut_null(doc));
	}
	return data;
}

static void retry_later(struct tracker *t, const struct err *err)
{
	t->state = TRACKER_WAITING;
	t->must_read = true;
	set_error(t, err);
	loop_timer_start_in(&t->retry, backoff_next_ms(&t->backoff, err));
}

static void on_retry(struct loop_timer *timer, void *arg)
{
	struct tracker *t = arg;

	(void)timer;
	t->state = TRACKER_IDLE;
	loop_work_post(&t->step_work);
}

static void on_read(void *arg, const struct err *err, const struct kube_response *response)
{
	struct tracker *t = arg;

	t->state = TRACKER_IDLE;
	if (err && err->kind != ERR_NOT_FOUND) {
		retry_later(t, err);
		return;
	}
	if (err)
		note_absent(t);
	else
		note_object(t, response->json);
	loop_work_post(&t->step_work);
}

static void on_write(void *arg, const struct err *err, const struct kube_response *response)
{
	struct tracker *t = arg;

	t->state = TRACKER_IDLE;
	if (err &&
	    (err->kind == ERR_CONFLICT || err->kind == ERR_EXISTS || err->kind == ERR_NOT_FOUND)) {
		/* Somebody else was faster: look, then write what is still missing; but not at the
		 * network's speed, if that goes on (or the namespace isn't there). */
		if (++t->lost > LOST_AT_ONCE) {
			retry_later(t, err);
			return;
		}
		t->must_read = true;
		loop_work_post(&t->step_work);
		return;
	}
	if (err) {
		retry_later(t, err);
		return;
	}
	t->writes++;
	t->lost = 0;
	backoff_reset(&t->backoff);
	set_error(t, NULL);
	note_object(t, response->json);
	loop_work_post(&t->step_work);
}

static void start_read(struct tracker *t)
{
	struct kube_request req = {
		.verb = KUBE_GET,
		.resource = &KUBE_CONFIGMAPS,
		.ns = t->ns,
		.name = t->name,
		.deadline_ms = WRITE_DEADLINE_MS,
	};

	t->state = TRACKER_READING;
	kube_call_start(t->kube, &req, on_read, t, &t->scope);
}

static void start_write(struct tracker *t, struct jmut_doc *doc, struct jmut *data)
{
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc);
	struct jmut *labels = jmut_object(doc), *annotations = jmut_object(doc);
	struct kube_request req = {
		.verb = t->exists ? KUBE_PATCH : KUBE_CREATE,
		.resource = &KUBE_CONFIGMAPS,
		.ns = t->ns,
		.name = t->exists ? t->name : NULL,
		.patch = KUBE_PATCH_MERGE,
		.json = root,
		.deadline_ms = WRITE_DEADLINE_MS,
	};

	if (t->exists) {
		jmut_set_str(doc, meta, "resourceVersion", t->version);
	} else {
		jmut_set_str(doc, root, "apiVersion", "v1");
		jmut_set_str(doc, root, "kind", "ConfigMap");
		jmut_set_str(doc, meta, "name", t->name);
		jmut_set_str(doc, meta, "namespace", t->ns);
	}
	jmut_set_str(doc, labels, "app.kubernetes.io/name", "ipu-operator");
	jmut_set_str(doc, labels, "app.kubernetes.io/component", "partition-tracker");
	jmut_set(doc, meta, "labels", labels);
	jmut_set_str(doc, annotations, FORMAT_ANNOTATION, FORMAT);
	jmut_set(doc, meta, "annotations", annotations);
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "data", data);
	t->state = TRACKER_WRITING;
	kube_call_start(t->kube, &req, on_write, t, &t->scope);
}

static void step(struct loop_work *work, void *arg)
{
	struct tracker *t = arg;
	CLEANUP_JMUT struct jmut_doc *doc = NULL;
	struct jmut *data;

	(void)work;
	if (!t->synced || t->state != TRACKER_IDLE || t->foreign)
		return;
	if (t->must_read) {
		start_read(t);
		return;
	}
	doc = jmut_doc_new();
	data = t->follow ? NULL : differences(t, doc);
	if (data) {
		start_write(t, doc, data);
		return;
	}
	t->lost = 0;
	set_error(t, NULL); /* it was read, and there is nothing to be written */
}

/* ---- the watch ---- */

static void on_watch_event(void *arg, const struct kube_watch_event *event)
{
	struct tracker *t = arg;

	/* News older than an answer that we had: the answer counts. */
	if (t->version && kube_version_cmp(event->version, str_of(t->version)) < 0)
		return;
	if (t->state == TRACKER_READING || t->state == TRACKER_WRITING) {
		/* The answer brings it, unless it's newer than that. */
		free(t->passed);
		t->passed = str_dup(event->version);
		return;
	}
	if (event->type == KUBE_DELETED)
		note_absent(t);
	else
		note_object(t, event->object);
	loop_work_post(&t->step_work);
}

static void on_watch_synced(void *arg)
{
	struct tracker *t = arg;

	if (t->synced)
		return;
	t->synced = true;
	t->ops.on_synced(t->arg);
	loop_work_post(&t->step_work);
}

/* Why it can't even be read: later on, reads and writes of its own say so. */
static void on_watch_state(void *arg)
{
	struct tracker *t = arg;
	struct kube_watch_status st;

	kube_watch_status(t->watch, &st);
	if (!t->synced && st.err.kind != ERR_NONE)
		set_error(t, &st.err);
}

static const struct kube_watch_ops watch_ops = {
	.on_event = on_watch_event,
	.on_synced = on_watch_synced,
	.on_state = on_watch_state,
};

struct tracker *tracker_new(struct kube_client *kube, const struct tracker_opts *opts,
			    const struct tracker_ops *ops, void *arg)
{
	struct tracker *t = xcalloc(1, sizeof(*t));
	CLEANUP_FREE char *selector = xasprintf("metadata.name=%s", opts->name);
	struct kube_watch_opts watch_opts = {
		.resource = &KUBE_CONFIGMAPS,
		.ns = opts->ns,
		.field_selector = selector,
	};

	t->kube = kube;
	t->loop = kube_client_loop(kube);
	t->ns = xstrdup(opts->ns);
	t->name = xstrdup(opts->name);
	t->follow = opts->follow;
	t->ops = *ops;
	t->arg = arg;
	t->records = map_new();
	t->backoff = (struct backoff)BACKOFF_INIT(250, 30000);
	scope_init(&t->scope);
	loop_work_init(&t->step_work, t->loop, step, t);
	loop_timer_init(&t->retry, t->loop, on_retry, t);
	t->watch = kube_watch_start(kube, &watch_opts, &watch_ops, t, &t->scope);
	return t;
}

void tracker_free(struct tracker *t)
{
	struct map_iter it;

	if (!t)
		return;
	scope_cancel(&t->scope);
	loop_work_cancel(&t->step_work);
	loop_timer_stop(&t->retry);
	it = (struct map_iter)MAP_ITER(t->records);
	while (map_next(&it))
		free_record(it.value);
	map_free(t->records);
	free(t->version);
	free(t->passed);
	free(t->ns);
	free(t->name);
	free(t);
}

bool tracker_is_synced(const struct tracker *t)
{
	return t->synced;
}

const struct err *tracker_error(const struct tracker *t)
{
	return &t->err;
}

bool tracker_is_superseded(const struct tracker *t)
{
	(void)t;
	return false;
}

void tracker_reject(struct tracker *t, const char *key, const struct err *why)
{
	(void)t;
	log_error("partition", key, "an entry of the tracker can't be read, it's kept: %s",
		  why->msg);
}

void tracker_put(struct tracker *t, const char *id, const char *owner_uid, struct str json)
{
	struct record *r = need_record(t, str_of(id));

	(void)owner_uid;
	free(r->want);
	r->want = str_dup(json);
	r->put = true;
	r->told = false;
	loop_work_post(&t->step_work);
}

void tracker_drop(struct tracker *t, const char *id)
{
	struct record *r = need_record(t, str_of(id));

	free(r->want);
	r->want = NULL;
	r->put = true;
	r->told = false;
	/* Even if it was never written, it's the next read or write that says so. */
	if (!r->stored)
		t->must_read = true;
	loop_work_post(&t->step_work);
}

bool tracker_is_recorded(const struct tracker *t, const char *id)
{
	const struct record *r = map_get(t->records, str_of(id));

	return r ? same(r->want, r->stored) : true;
}

int64_t tracker_taken_over_ms(const struct tracker *t)
{
	return t->taken_over_ms;
}

unsigned long tracker_writes(const struct tracker *t)
{
	return t->writes;
}
