/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ConfigMap of the tracker: a level-triggered machine that compares what is wanted with what is
 * there and has at most one request on its way. The watch brings news from outside; an answer to a
 * write, and a GET after a failure, bring it sooner. Uses kube.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "core/metrics.h"
#include "kube/object.h"
#include "partition/tracker_internal.h"

#define FORMAT_ANNOTATION  "graphcore.ai/tracker-format"
#define TRACKER_ANNOTATION "graphcore.ai/tracker"
#define SHARD_ANNOTATION   "graphcore.ai/tracker-shard"
#define WRITER_ANNOTATION  "graphcore.ai/tracker-writer"
#define TAKEN_ANNOTATION   "graphcore.ai/taken-over"
#define NAME_LABEL         "app.kubernetes.io/name"
#define COMPONENT_LABEL    "app.kubernetes.io/component"
#define FORMAT             "1"
#define LOST_AT_ONCE       3 /* conflicts in a row that are tried again without a wait */
#define RESTORED_AT_ONCE   8 /* meddling that is mended without a wait, in … */
#define RESTORE_QUIET_MS   60000
#define RESTORE_MAX_MS     30000

static void fail(struct shard *s, const struct err *err)
{
	bool news = err ? strcmp(err->msg, s->err.msg) != 0 || s->err.kind == ERR_NONE
			: s->err.kind != ERR_NONE;

	s->err = err ? *err : (struct err)ERR_INIT;
	if (news)
		tracker_look_soon(s->t);
}

void shard_retry_later(struct shard *s, const struct err *err)
{
	s->state = SHARD_WAITING;
	s->must_read = true;
	fail(s, err);
	loop_timer_start_in(&s->timer, backoff_next_ms(&s->backoff, err));
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct shard *s = arg;

	(void)timer;
	if (s->state == SHARD_WAITING)
		s->state = SHARD_IDLE;
	tracker_look_soon(s->t);
}

/* ---- what is there ---- */

static void free_texts(struct map *m)
{
	struct map_iter it = MAP_ITER(m);

	while (map_next(&it))
		text_unref(it.value);
	map_free(m);
}

/* The same text once: what is wanted or was there already. */
static struct text *take_text(struct shard *s, struct str key, struct str value, struct text *had)
{
	const struct record *r;

	if (had && text_is(had, value))
		return text_ref(had);
	r = tracker_find(s->t, key);
	if (r && r->want && text_is(r->want, value))
		return text_ref(r->want);
	return text_new(value);
}

/* All keys and values of the ConfigMap as it is now; data NULL: none. */
static void note_data(struct shard *s, const struct json *data)
{
	struct map *before = s->stored, *now = map_new();
	struct json_iter it = json_iter(data);
	struct map_iter pos;

	s->stored = now;
	s->bytes = s->pending = 0;
	s->meddled = false;
	while (json_next(&it)) {
		if (json_type(it.value) != JSON_STRING)
			continue;
		s->bytes += it.key.len + json_str(it.value).len;
		text_unref(
			map_put(now, it.key,
				take_text(s, it.key, json_str(it.value), map_get(before, it.key))));
	}
	/* In the document's order, so that two runs do the same. */
	for (it = json_iter(data); json_next(&it);) {
		struct text *has = map_get(now, it.key);

		if (has != map_get(before, it.key))
			tracker_key_changed(s->t, s, it.key, has);
	}
	pos = (struct map_iter)MAP_ITER(before);
	while (map_next(&pos)) {
		if (!map_get(now, pos.key))
			tracker_key_changed(s->t, s, pos.key, NULL);
	}
	if (s->meddled) {
		s->restores++;
		s->restored_ms = clock_mono_ms();
	}
	free_texts(before);
}

/* ---- whose it is ---- */

/* "EPOCH.ID.N": who wrote it last. */
static bool parse_writer(struct str s, int64_t *ret_epoch, struct str *ret_id)
{
	struct str epoch, rest, tail;

	return str_cut(s, '.', &epoch, &rest) && str_cut(rest, '.', ret_id, &tail) &&
	       str_to_int(epoch, 0, INT64_MAX / 2, ret_epoch, NULL) == 0;
}

static bool is_greater(int64_t epoch, struct str id, const struct tracker *t)
{
	if (epoch != t->epoch)
		return epoch > t->epoch;
	for (size_t i = 0; i < id.len && t->id[i]; i++) {
		if (id.p[i] != t->id[i])
			return id.p[i] > t->id[i];
	}
	return false;
}

static void supersede(struct shard *s, struct str writer)
{
	struct tracker *t = s->t;

	if (t->superseded)
		return;
	t->superseded = true;
	err_set(&t->superseded_err, ERR_CONFLICT, 0,
		"another process (%.*s) has taken the tracker over, nothing is done here any more",
		(int)(writer.len > 60 ? 60 : writer.len), writer.p);
	tracker_report(t, TRACKER_SUPERSEDED, s->name, "%s", t->superseded_err.msg);
	tracker_look_soon(t);
}

/* True: this process wrote it last. */
static bool weigh_writer(struct shard *s, const struct json *object)
{
	struct tracker *t = s->t;
	struct str writer = kube_annotation(object, WRITER_ANNOTATION), id;
	int64_t epoch;

	if (!parse_writer(writer, &epoch, &id))
		return false;
	if (!t->has_epoch) {
		if (epoch >= t->epoch)
			t->epoch = epoch + 1;
		return false;
	}
	if (epoch == t->epoch && str_eqz(id, t->id))
		return true;
	if (is_greater(epoch, id, t))
		supersede(s, writer);
	return false;
}

enum owner { OURS, FOREIGN, ALIEN, UNREAD };

/* UNREAD: of none that could be read, and there was no memory to read all. */
static enum owner owner_of_data(const struct shard *s, const struct json *data, struct err *err)
{
	struct json_iter it = json_iter(data);
	enum owner owner = ALIEN;

	while (s->t->ops.is_ours && json_next(&it)) {
		CLEANUP_FREE char *key = str_dup(it.key);
		struct err why = ERR_INIT;

		if (s->t->ops.is_ours(s->t->arg, key, json_str(it.value), &why))
			return OURS;
		if (err_is_no_memory(&why)) {
			err_copy(err, &why);
			owner = UNREAD;
		}
	}
	return owner;
}

static enum owner owner_of(const struct shard *s, const struct json *object, struct err *err)
{
	struct str format = kube_annotation(object, FORMAT_ANNOTATION);
	struct str tracker = kube_annotation(object, TRACKER_ANNOTATION);
	const struct json *data = json_get(object, "data");

	if (s->index > 0 && tracker.len && !str_eqz(tracker, s->t->name))
		return ALIEN; /* another tracker's, whose name ends in a number */
	if (format.len)
		return str_eqz(format, FORMAT) ? OURS : FOREIGN;
	/* The format is lost, or never was: by what else would we know our own? */
	if (tracker.len || kube_annotation(object, WRITER_ANNOTATION).len)
		return OURS;
	if (json_len(data) + json_len(json_get(object, "binaryData")) == 0)
		return OURS;
	return owner_of_data(s, data, err);
}

static bool is_mislabelled(const struct shard *s, const struct json *object, bool our_write)
{
	char index[16];

	snprintf(index, sizeof(index), "%d", s->index);
	return !our_write || !str_eqz(kube_label(object, NAME_LABEL), "ipu-operator") ||
	       !str_eqz(kube_label(object, COMPONENT_LABEL), "partition-tracker") ||
	       !str_eqz(kube_annotation(object, FORMAT_ANNOTATION), FORMAT) ||
	       !str_eqz(kube_annotation(object, TRACKER_ANNOTATION), s->t->name) ||
	       !str_eqz(kube_annotation(object, SHARD_ANNOTATION), index);
}

/* ---- an object ---- */

/* News that was passed over while an answer was awaited: is it newer than that answer? */
static void weigh_passed(struct shard *s)
{
	s->must_read = s->passed_deletion;
	if (s->passed &&
	    (!s->version || kube_version_cmp(str_of(s->passed), str_of(s->version)) > 0))
		s->must_read = true;
	s->passed_deletion = false;
	free(s->passed);
	s->passed = NULL;
}

static void note_foreign(struct shard *s, const struct json *object)
{
	struct str format = kube_annotation(object, FORMAT_ANNOTATION);
	struct err err;

	s->foreign = true;
	err_set(&err, ERR_INVALID, 0,
		"ConfigMap %s/%s is in a format that this version doesn't know (annotation " FORMAT_ANNOTATION
		" is \"%.*s\", not \"" FORMAT "\"): it isn't touched",
		s->t->ns, s->name, (int)(format.len > 20 ? 20 : format.len), format.p);
	/* Without our labels the watch doesn't show it: asked for again, now and then. */
	shard_retry_later(s, &err);
}

static void note_alien(struct shard *s, const struct json *object)
{
	struct tracker *t = s->t;

	if (!s->alien && s->index > 0)
		tracker_report(t, TRACKER_DAMAGED, s->name,
			       "ConfigMap %s/%s has the name of a part of the tracker and isn't "
			       "one: it is left alone",
			       t->ns, s->name);
	s->alien = true;
	s->exists = s->index == 0 && !t->follow;
	s->in_use = s->exists;
	note_data(s, NULL);
	if (s->index == 0 && !t->follow)
		keep_begin(s, object);
}

static void note_leaving(struct shard *s, const struct json *object)
{
	if (!kube_is_deleting(object) || s->said_leaving)
		return;
	s->said_leaving = true;
	tracker_report(s->t, TRACKER_DAMAGED, s->name,
		       "ConfigMap %s/%s is being deleted, and only a finalizer keeps it: it is "
		       "written anew when it's gone",
		       s->t->ns, s->name);
}

static void note_ours(struct shard *s, const struct json *object)
{
	struct tracker *t = s->t;
	bool our_write = weigh_writer(s, object), first = !s->fenced;
	int64_t taken_ms;

	if (t->superseded)
		return;
	s->alien = false;
	keep_forget(s);
	s->in_use = true;
	s->immutable = json_bool(json_get(object, "immutable"), false);
	note_leaving(s, object);
	if (s->index == 0)
		t->made_ms = kube_creation_ms(object);
	if (s->index == 0 &&
	    clock_parse(kube_annotation(object, TAKEN_ANNOTATION), &taken_ms, NULL) == 0)
		t->taken_over_ms = taken_ms;
	/* What is read before our first write may change until then: it isn't believed. What can't
	 * be changed by anybody can. */
	if (!t->follow && first && !s->immutable)
		return;
	s->mislabelled = is_mislabelled(s, object, our_write);
	note_data(s, json_get(object, "data"));
}

static void note_object(struct shard *s, const struct json *object)
{
	struct err err;
	enum owner owner = owner_of(s, object, &err);

	if (owner == UNREAD) {
		shard_retry_later(s, &err);
		return;
	}
	free(s->version);
	s->version = str_dup(kube_version(object));
	free(s->uid);
	s->uid = str_dup(kube_uid(object));
	s->exists = s->known = true;
	if (s->index >= s->t->n)
		s->t->n = s->index + 1;
	weigh_passed(s);
	if (s->foreign || s->immutable)
		fail(s, NULL);
	if (s->foreign && s->state == SHARD_WAITING) {
		loop_timer_stop(&s->timer);
		s->state = SHARD_IDLE;
	}
	s->foreign = false;
	switch (owner) {
	case OURS:
		note_ours(s, object);
		break;
	case FOREIGN:
		note_foreign(s, object);
		break;
	case ALIEN:
	case UNREAD:
		note_alien(s, object);
		break;
	}
	tracker_look_soon(s->t);
}

/* Entries that nobody could read were in what is gone: they are written again too. */
static void keep_bad(struct shard *s)
{
	struct map_iter it = MAP_ITER(s->stored);

	while (!s->t->follow && map_next(&it)) {
		struct record *r = tracker_find(s->t, it.key);

		if (r && r->bad && r->home == s->index)
			r->put = true;
	}
}

static void note_absent(struct shard *s)
{
	free(s->version);
	s->version = NULL;
	s->known = true;
	s->exists = s->foreign = s->immutable = s->alien = s->fenced = s->mislabelled = false;
	s->said_leaving = false;
	keep_forget(s);
	weigh_passed(s);
	keep_bad(s);
	note_data(s, NULL);
	tracker_look_soon(s->t);
}

void shard_note_event(struct shard *s, const struct kube_watch_event *event)
{
	int order = s->version ? kube_version_cmp(event->version, str_of(s->version)) : 1;

	if (event->type == KUBE_DELETED) {
		/* Or it has only lost its labels: then it's still there. */
		s->must_read = s->passed_deletion = true;
	} else if (s->state == SHARD_READING || s->state == SHARD_WRITING ||
		   s->state == SHARD_KEEPING) {
		/* The answer brings it, unless it's newer than that. */
		if (order > 0 || s->t->relisting) {
			free(s->passed);
			s->passed = str_dup(event->version);
		}
	} else if (order > 0) {
		note_object(s, event->object);
	} else if (order < 0 && s->t->relisting) {
		/* An older state in a new list: etcd was set back, or the list was made before our
		 * last write. A GET tells. */
		s->must_read = true;
	}
	tracker_look_soon(s->t);
}

/* ---- requests ---- */

static void end_inflight(struct shard *s)
{
	LIST_FOREACH(pos, tmp, &s->t->unsettled) {
		struct record *r = CONTAINER_OF(pos, struct record, unsettled);

		if (r->home == s->index)
			r->inflight = false;
	}
}

static void on_read(void *arg, const struct err *err, const struct kube_response *response)
{
	struct shard *s = arg;

	s->state = SHARD_IDLE;
	if (err && err->kind != ERR_NOT_FOUND)
		shard_retry_later(s, err);
	else if (err)
		note_absent(s);
	else
		note_object(s, response->json);
}

static void count_write(struct shard *s, const struct err *err)
{
	static const char *const result[] = {"result", NULL};
	static const double buckets[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15};
	const char *value[] = {!err ? "ok" : err->kind == ERR_CONFLICT ? "conflict" : "error"};

	metric_add(metric_new(METRIC_COUNTER, "ipu_operator_tracker_writes_total",
			      "Writes of the partition tracker.", result, NULL, 0),
		   value, 1);
	metric_observe(metric_new(METRIC_HISTOGRAM, "ipu_operator_tracker_write_seconds",
				  "How long they took.", NULL, buckets,
				  sizeof(buckets) / sizeof(buckets[0])),
		       NULL, (double)(clock_mono_us() - s->sent_us) / 1e6);
}

/* The first time: until it can be written again nothing is asked of a controller. Where nobody
 * answers at all, nobody would take the Event either, and readiness says so. */
static void tell_unwritable(struct shard *s, const struct err *err)
{
	if (s->err.kind == ERR_NONE && err->kind != ERR_UNAVAILABLE)
		tracker_report(
			s->t, TRACKER_UNWRITABLE, s->name,
			"ConfigMap %s/%s can't be written, and no partition is made, reset or "
			"removed meanwhile: %.200s",
			s->t->ns, s->name, err->msg);
}

static void write_failed(struct shard *s, const struct err *err)
{
	if (err->maybe_applied)
		s->uncertain = true;
	if (!s->uncertain)
		end_inflight(s);
	s->must_read = true;
	/* Somebody else was faster: look, then write what is still missing; but not at the
	 * network's speed, if that goes on (or the namespace isn't there). */
	if ((err->kind == ERR_CONFLICT || err->kind == ERR_EXISTS || err->kind == ERR_NOT_FOUND) &&
	    ++s->lost <= LOST_AT_ONCE) {
		tracker_look_soon(s->t);
		return;
	}
	tell_unwritable(s, err);
	shard_retry_later(s, err);
}

static void on_write(void *arg, const struct err *err, const struct kube_response *response)
{
	struct shard *s = arg;
	struct tracker *t = s->t;

	s->state = SHARD_IDLE;
	count_write(s, err);
	if (err) {
		write_failed(s, err);
		return;
	}
	t->writes++;
	s->lost = 0;
	if (s->carries)
		s->write_at_ms = clock_mono_ms() + TRACKER_GATHER_MS;
	s->fenced = true;
	s->uncertain = false;
	backoff_reset(&s->backoff);
	fail(s, NULL);
	end_inflight(s);
	if (s->alien)
		tracker_report(t, TRACKER_TAKEN_OVER, s->name,
			       "ConfigMap %s/%s held something else: that is kept as %s, and the "
			       "tracker begins there",
			       t->ns, s->name, keep_name(s));
	note_object(s, response->json);
}

static void start_read(struct shard *s)
{
	struct kube_request req = {
		.verb = KUBE_GET,
		.resource = &KUBE_CONFIGMAPS,
		.ns = s->t->ns,
		.name = s->name,
		.deadline_ms = TRACKER_CALL_MS,
		.urgent = true,
	};

	s->state = SHARD_READING;
	s->passed_deletion = false;
	kube_call_start(s->t->kube, &req, on_read, s, &s->t->scope);
}

/* ---- writing ---- */

/* Into data, what differs; false: nothing does. */
static bool add_differences(struct shard *s, struct jmut_doc *doc, struct jmut *data)
{
	size_t bytes = s->bytes;
	bool any = false;

	s->full = false;
	LIST_FOREACH(pos, tmp, &s->t->unsettled) {
		struct record *r = CONTAINER_OF(pos, struct record, unsettled);
		struct text *has;
		size_t more;

		if (r->home != s->index || !r->put)
			continue;
		has = tracker_stored(s->t, r);
		if (text_same(r->want, has) || (r->want && !tracker_need_bytes(s->t, r)))
			continue;
		more = r->want ? strlen(r->key) + r->want->len : 0;
		if (more && bytes + more > TRACKER_FULL) {
			s->full = true;
			continue;
		}
		bytes += more;
		r->inflight = any = true;
		jmut_add(doc, data, str_of(r->key),
			 r->want ? jmut_str(doc, text_str(r->want)) : jmut_null(doc));
	}
	return any;
}

/* Keys whose home is another shard go when that one has what is wanted. */
static bool add_copies(const struct shard *s, struct jmut_doc *doc, struct jmut *data)
{
	struct map_iter it = MAP_ITER(s->stored);
	bool any = false;

	while (s->copies && map_next(&it)) {
		const struct record *r = tracker_find(s->t, it.key);

		if (!r || !r->put || r->home == s->index || r->inflight ||
		    !text_same(r->want, tracker_stored(s->t, r)))
			continue;
		log_warn("partition", s->name, "%.*s is in another ConfigMap too: taken out: %.*s",
			 STR_ARG(it.key), STR_ARG(text_str(it.value)));
		jmut_add(doc, data, it.key, jmut_null(doc));
		any = true;
	}
	return any;
}

static void add_metadata(struct shard *s, struct jmut_doc *doc, struct jmut *meta, bool fence)
{
	struct tracker *t = s->t;
	struct jmut *labels = jmut_object(doc), *annotations = jmut_object(doc);
	char taken[CLOCK_RFC3339_SIZE];

	/* A merge patch that changes nothing makes no new resourceVersion. */
	s->fences += fence;
	jmut_set_str(doc, labels, NAME_LABEL, "ipu-operator");
	jmut_set_str(doc, labels, COMPONENT_LABEL, "partition-tracker");
	jmut_set(doc, meta, "labels", labels);
	jmut_set_str(doc, annotations, FORMAT_ANNOTATION, FORMAT);
	jmut_set_str(doc, annotations, TRACKER_ANNOTATION, t->name);
	jmut_set(doc, annotations, SHARD_ANNOTATION, jmut_strf(doc, "%d", s->index));
	jmut_set(doc, annotations, WRITER_ANNOTATION,
		 jmut_strf(doc, "%" PRId64 ".%s.%u", t->epoch, t->id, s->fences));
	if (s->index == 0 && (s->alien || t->taken_over_ms)) {
		clock_format(s->alien ? clock_wall_ms() : t->taken_over_ms, taken);
		jmut_set_str(doc, annotations, TAKEN_ANNOTATION, taken);
	}
	jmut_set(doc, meta, "annotations", annotations);
}

static void start_write(struct shard *s, struct jmut_doc *doc, struct jmut *data, bool fence)
{
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc);
	struct kube_request req = {
		.verb = s->exists ? KUBE_PATCH : KUBE_CREATE,
		.resource = &KUBE_CONFIGMAPS,
		.ns = s->t->ns,
		.name = s->exists ? s->name : NULL,
		.patch = KUBE_PATCH_MERGE,
		.json = root,
		.deadline_ms = TRACKER_CALL_MS,
		.urgent = true,
	};

	if (s->exists) {
		jmut_set_str(doc, meta, "resourceVersion", s->version);
	} else {
		jmut_set_str(doc, root, "apiVersion", "v1");
		jmut_set_str(doc, root, "kind", "ConfigMap");
		jmut_set_str(doc, meta, "name", s->name);
		jmut_set_str(doc, meta, "namespace", s->t->ns);
	}
	add_metadata(s, doc, meta, fence);
	jmut_set(doc, root, "metadata", meta);
	if (s->alien)
		keep_clear(s, doc, root, data);
	jmut_set(doc, root, "data", data);
	s->state = SHARD_WRITING;
	s->t->has_epoch = true;
	s->sent_us = clock_mono_us();
	kube_call_start(s->t->kube, &req, on_write, s, &s->t->scope);
}

/* Somebody who changes it again and again isn't answered at the network's speed. */
static int64_t meddled_wait_ms(struct shard *s)
{
	unsigned over;

	if (clock_mono_ms() - s->restored_ms > RESTORE_QUIET_MS)
		s->restores = 0;
	if (s->restores <= RESTORED_AT_ONCE)
		return 0;
	over = s->restores - RESTORED_AT_ONCE;
	return over > 9 ? RESTORE_MAX_MS : (int64_t)TRACKER_GATHER_MS << over;
}

static void stuck(struct shard *s)
{
	struct err err;

	if (s->immutable)
		err_set(&err, ERR_INVALID, 0,
			"ConfigMap %s/%s was made immutable: delete it, and it's written anew at "
			"once (kubectl delete configmap %s -n %s)",
			s->t->ns, s->name, s->name, s->t->ns);
	else
		err_set(&err, ERR_LIMIT, 0,
			"ConfigMap %s/%s is full: %zu bytes, the API server takes 1 MiB", s->t->ns,
			s->name, s->bytes);
	if (s->err.kind == ERR_NONE)
		tracker_report(s->t, TRACKER_DAMAGED, s->name, "%s", err.msg);
	fail(s, &err);
}

static bool write_what_differs(struct shard *s)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *data = jmut_object(doc);
	/* The first one is made even if it's empty: an earlier writer's create can't land then. */
	bool fence = (s->exists || s->index == 0) && !s->immutable && (!s->fenced || s->uncertain);
	int64_t at_ms = s->write_at_ms;
	bool any;

	if (s->restores > RESTORED_AT_ONCE && at_ms < s->restored_ms + meddled_wait_ms(s))
		at_ms = s->restored_ms + meddled_wait_ms(s);
	if (clock_mono_ms() < at_ms) {
		loop_timer_start_at(&s->timer, at_ms);
		return false;
	}
	any = add_differences(s, doc, data);
	any = add_copies(s, doc, data) || any;
	if ((any || s->full) && s->immutable) {
		end_inflight(s);
		stuck(s);
	} else if (any || fence || s->alien || (s->exists && s->mislabelled && !s->immutable)) {
		s->carries = any;
		start_write(s, doc, data, fence);
		return true;
	} else if (s->full) {
		stuck(s);
	} else if (s->err.kind != ERR_NONE) {
		fail(s, NULL); /* it was read, and there is nothing to be written */
	}
	s->lost = 0;
	return false;
}

bool shard_step(struct shard *s)
{
	const struct tracker *t = s->t;

	if (!t->listed || s->state != SHARD_IDLE || t->superseded)
		return false;
	if (s->must_read) {
		start_read(s);
		return false;
	}
	if (s->foreign || !t->all_read)
		return false;
	if (t->follow || (s->alien && s->index > 0)) {
		if (s->err.kind != ERR_NONE)
			fail(s, NULL);
		return false;
	}
	if (tracker_is_halted(t))
		return false;
	if (s->alien && !keep_is_done(s)) {
		keep_start(s);
		return true;
	}
	return write_what_differs(s);
}

/* ---- life ---- */

struct shard *shard_new(struct tracker *t, int index)
{
	struct shard *s = xcalloc(1, sizeof(*s));

	s->t = t;
	s->index = index;
	s->name = index ? xasprintf("%s-%d", t->name, index) : xstrdup(t->name);
	s->stored = map_new();
	s->backoff = (struct backoff)BACKOFF_INIT(250, 30000);
	loop_timer_init(&s->timer, t->loop, on_timer, s);
	return s;
}

void shard_free(struct shard *s)
{
	if (!s)
		return;
	loop_timer_stop(&s->timer);
	keep_forget(s);
	free_texts(s->stored);
	free(s->version);
	free(s->uid);
	free(s->passed);
	free(s->name);
	free(s);
}
