/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of Events: counts repeats, limits what one object may say, and sends one at a time.
 * Owns its series (what was said of whom) and buckets, both bounded; of what is sent it keeps no
 * words, since who says it again says them again. Uses core/, loop/, kube/client.h.
 */
#include "kube/event.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/log.h"
#include "core/map.h"
#include "core/metrics.h"
#include "core/rand.h"
#include "kube/object.h"
#include "loop/backoff.h"
#include "loop/op.h"

#define MAX_BUCKETS 4096
#define SWEEP_MS    (KUBE_EVENT_AGGREGATE_MS / 2)
#define MAX_TRIES   4
#define CALL_MS     10000
#define MESSAGE_MAX 1024
#define ID_SIZE     16 /* of a SHA-256: far more than tells a few thousand apart */

struct words { /* NULL: not given */
	const char *api_version, *kind, *ns, *name, *uid, *version, *field_path;
	const char *reason, *message;
	char text[]; /* all of them */
};

/* The same object, level, reason and message: one Event. */
struct series {
	struct list link;    /* in recorder->series, least recently used first */
	struct list queue;   /* in recorder->queue, or alone */
	uint8_t id[ID_SIZE]; /* its key in the map */
	struct words *words; /* as long as it's in the queue or being sent */
	enum kube_event_level level;
	uint16_t number, salt; /* of the Event's name */
	int64_t first_ms;      /* wall clock */
	int64_t last_ms;       /* wall clock */
	int64_t last_mono_ms;  /* for the aggregation's end */
	unsigned count, sent;  /* sent: the count that the server has; 0: not created yet */
	unsigned tries;
};

struct bucket { /* what one object may still say */
	struct list link;
	uint8_t id[ID_SIZE];
	unsigned tokens;
	int64_t refilled_ms;
};

struct kube_recorder {
	struct kube_client *client;
	char *component, *instance;
	struct map *by_id, *buckets;
	struct list series, bucket_list, queue;
	size_t queued;
	struct scope scope;
	struct series
		*sending; /* out of the queue, its call is running or waits for its back-off */
	unsigned sending_count;
	struct loop_timer retry, sweep;
	struct backoff backoff;
	struct loop_work work;
	struct log_limit quiet;
};

static struct metric *dropped_metric, *sent_metric;

static void count_dropped(const char *why)
{
	const char *const values[] = {why};
	metric_add(dropped_metric, values, 1);
}

static struct str key_of(const uint8_t id[ID_SIZE])
{
	return (struct str){(const char *)id, ID_SIZE};
}

static void series_free(struct kube_recorder *r, struct series *s)
{
	map_del(r->by_id, key_of(s->id));
	list_unlink(&s->link);
	if (!list_empty(&s->queue))
		r->queued--;
	list_unlink(&s->queue);
	free(s->words);
	free(s);
}

static void bucket_free(struct kube_recorder *r, struct bucket *b)
{
	map_del(r->buckets, key_of(b->id));
	list_unlink(&b->link);
	free(b);
}

/* ---- forgetting ---- */

static bool is_over(const struct kube_recorder *r, const struct series *s)
{
	return s != r->sending && list_empty(&s->queue) &&
	       clock_mono_ms() - s->last_mono_ms > KUBE_EVENT_AGGREGATE_MS;
}

/* What is as old as that is told anew, not counted; an object that may say as much as one which has
 * never said anything is as good as new. */
static void on_sweep(struct loop_timer *timer, void *arg)
{
	struct kube_recorder *r = arg;
	int64_t now = clock_mono_ms();
	LIST_FOREACH(pos, tmp, &r->series) {
		struct series *s = CONTAINER_OF(pos, struct series, link);
		if (is_over(r, s))
			series_free(r, s);
	}
	LIST_FOREACH(pos, tmp2, &r->bucket_list) {
		struct bucket *b = CONTAINER_OF(pos, struct bucket, link);
		int64_t missing = KUBE_EVENT_BURST - (int64_t)b->tokens;
		if (now - b->refilled_ms >= missing * KUBE_EVENT_REFILL_MS)
			bucket_free(r, b);
	}
	if (map_len(r->by_id) > 0 || map_len(r->buckets) > 0)
		loop_timer_start_in(timer, SWEEP_MS);
}

/* ---- limits ---- */

static bool take_token(struct kube_recorder *r, const uint8_t id[ID_SIZE])
{
	int64_t now = clock_mono_ms();
	struct bucket *b = map_get(r->buckets, key_of(id));
	if (!b) {
		if (map_len(r->buckets) >= MAX_BUCKETS)
			bucket_free(r, CONTAINER_OF(r->bucket_list.next, struct bucket, link));
		b = xcalloc(1, sizeof(*b));
		memcpy(b->id, id, ID_SIZE);
		b->tokens = KUBE_EVENT_BURST;
		b->refilled_ms = now;
		map_put_borrowed(r->buckets, key_of(b->id), b);
	} else {
		list_unlink(&b->link);
	}
	list_append(&r->bucket_list, &b->link);
	int64_t refill = (now - b->refilled_ms) / KUBE_EVENT_REFILL_MS;
	if (refill > 0) {
		b->refilled_ms += refill * KUBE_EVENT_REFILL_MS;
		b->tokens = refill > KUBE_EVENT_BURST - (int64_t)b->tokens
				    ? KUBE_EVENT_BURST
				    : b->tokens + (unsigned)refill;
	}
	if (b->tokens == 0)
		return false;
	b->tokens--;
	return true;
}

/* ---- sending ---- */

static const char *event_ns(const struct words *w)
{
	return w->ns && w->ns[0] ? w->ns : "default";
}

#define EVENT_NAME_SIZE 254

/* By time, and in the order of their making within it: lists come sorted by name, so that people
 * read what happened in its order. The end keeps two replicas apart. The same for each repeat. */
static void name_event(const struct series *s, char name_z[EVENT_NAME_SIZE])
{
	const char *name = s->words->name;
	char base[201];
	size_t len;
	snprintf(base, sizeof(base), "%s", name && name[0] ? name : "ipu-operator");
	for (len = strlen(base); len > 1 && (base[len - 1] == '.' || base[len - 1] == '-'); len--)
		base[len - 1] = '\0';
	snprintf(name_z, EVENT_NAME_SIZE, "%s.%012llx%04x%04x", base,
		 (unsigned long long)s->first_ms, s->number, s->salt);
}

static void set_opt(struct jmut_doc *doc, struct jmut *to, const char *key, const char *z)
{
	if (z && z[0])
		jmut_set_str(doc, to, key, z);
}

static struct jmut *make_event(const struct kube_recorder *r, const struct series *s,
			       const char *name, struct jmut_doc *doc)
{
	const struct words *w = s->words;
	char first[CLOCK_RFC3339_SIZE], last[CLOCK_RFC3339_SIZE];
	struct jmut *root = jmut_object(doc);
	clock_format(s->first_ms, first);
	clock_format(s->last_ms, last);
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "Event");
	struct jmut *meta = jmut_need_object(doc, root, "metadata");
	jmut_set_str(doc, meta, "name", name);
	jmut_set_str(doc, meta, "namespace", event_ns(w));
	struct jmut *about = jmut_need_object(doc, root, "involvedObject");
	set_opt(doc, about, "apiVersion", w->api_version);
	set_opt(doc, about, "kind", w->kind);
	set_opt(doc, about, "namespace", w->ns);
	set_opt(doc, about, "name", w->name);
	set_opt(doc, about, "uid", w->uid);
	set_opt(doc, about, "resourceVersion", w->version);
	set_opt(doc, about, "fieldPath", w->field_path);
	jmut_set_str(doc, root, "type", s->level == KUBE_EVENT_WARNING ? "Warning" : "Normal");
	jmut_set_str(doc, root, "reason", w->reason);
	jmut_set_str(doc, root, "message", w->message);
	jmut_set_str(doc, root, "firstTimestamp", first);
	jmut_set_str(doc, root, "lastTimestamp", last);
	jmut_set_int(doc, root, "count", s->count);
	set_opt(doc, jmut_need_object(doc, root, "source"), "component", r->component);
	jmut_set_str(doc, root, "reportingComponent", r->component);
	jmut_set_str(doc, root, "reportingInstance", r->instance);
	return root;
}

static struct jmut *make_patch(const struct series *s, struct jmut_doc *doc)
{
	char last[CLOCK_RFC3339_SIZE];
	struct jmut *root = jmut_object(doc);
	clock_format(s->last_ms, last);
	jmut_set_int(doc, root, "count", s->count);
	jmut_set_str(doc, root, "lastTimestamp", last);
	return root;
}

static void enqueue(struct kube_recorder *r, struct series *s)
{
	list_append(&r->queue, &s->queue);
	r->queued++;
	loop_work_post(&r->work);
}

static void on_sent(void *arg, const struct err *err, const struct kube_response *response)
{
	struct kube_recorder *r = arg;
	struct series *s = r->sending;
	(void)response;
	/* The Event is there already: an attempt of ours whose answer was lost. */
	if (err && err->kind == ERR_EXISTS && s->sent == 0)
		err = NULL;
	if (err && err->kind == ERR_NOT_FOUND && s->sent > 0) {
		s->sent = 0; /* it has expired there: once more, from the beginning */
		s->tries++;
	} else if (err && err_is_retryable(err) && ++s->tries < MAX_TRIES) {
		loop_timer_start_in(&r->retry, backoff_next_ms(&r->backoff, err));
		return;
	} else if (err) {
		count_dropped("refused");
		if (log_limit_ok(&r->quiet, 60000))
			log_warn("kube", s->words->name, "an Event wasn't taken: %s reason=%s",
				 err->msg, s->words->reason);
		s->sent = r->sending_count; /* so that repeats are tried as repeats */
	} else {
		const char *const values[] = {s->sent == 0 ? "create" : "patch"};
		metric_add(sent_metric, values, 1);
		s->sent = r->sending_count;
		s->tries = 0;
	}
	r->sending = NULL;
	backoff_reset(&r->backoff);
	if (s->sent == 0 && s->tries < MAX_TRIES && list_empty(&s->queue))
		enqueue(r, s);
	if (list_empty(&s->queue)) {
		free(s->words);
		s->words = NULL;
	}
	loop_work_post(&r->work);
}

static void send_one(struct kube_recorder *r)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct series *s = r->sending;
	char name[EVENT_NAME_SIZE];
	struct kube_request req = {
		.verb = s->sent == 0 ? KUBE_CREATE : KUBE_PATCH,
		.resource = &KUBE_EVENTS,
		.ns = event_ns(s->words),
		.deadline_ms = CALL_MS,
	};
	r->sending_count = s->count;
	name_event(s, name);
	if (s->sent == 0) {
		req.json = make_event(r, s, name, doc);
	} else {
		req.name = name;
		req.json = make_patch(s, doc);
		req.patch = KUBE_PATCH_MERGE;
	}
	kube_call_start(r->client, &req, on_sent, r, &r->scope);
}

static void on_retry(struct loop_timer *timer, void *arg)
{
	(void)timer;
	send_one(arg);
}

static void on_work(struct loop_work *work, void *arg)
{
	struct kube_recorder *r = arg;
	(void)work;
	if (r->sending || list_empty(&r->queue))
		return;
	r->sending = CONTAINER_OF(r->queue.next, struct series, queue);
	list_unlink(&r->sending->queue);
	r->queued--;
	send_one(r);
}

/* ---- recording ---- */

/* All in one piece. */
static struct words *words_new(const struct kube_ref *about, const char *reason,
			       const char *message)
{
	const char *const from[] = {about->api_version, about->kind, about->ns,
				    about->name,        about->uid,  about->version,
				    about->field_path,  reason,      message};
	size_t size = 0;
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		size += from[i] ? strlen(from[i]) + 1 : 0;
	struct words *w = xcalloc(1, sizeof(*w) + size);
	const char **const to[] = {&w->api_version, &w->kind,       &w->ns,     &w->name,   &w->uid,
				   &w->version,     &w->field_path, &w->reason, &w->message};
	char *at = w->text;
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		if (!from[i])
			continue;
		size_t len = strlen(from[i]) + 1;
		*to[i] = memcpy(at, from[i], len);
		at += len;
	}
	return w;
}

static struct series *series_new(struct kube_recorder *r, enum kube_event_level level,
				 const uint8_t id[ID_SIZE])
{
	static uint16_t count;

	if (map_len(r->by_id) >= KUBE_EVENT_SERIES) {
		/* The oldest that isn't about to be sent. The queue is shorter than this list. */
		LIST_FOREACH(pos, tmp, &r->series) {
			struct series *old = CONTAINER_OF(pos, struct series, link);
			if (old == r->sending || !list_empty(&old->queue))
				continue;
			series_free(r, old);
			break;
		}
	}
	struct series *s = xcalloc(1, sizeof(*s));
	memcpy(s->id, id, ID_SIZE);
	s->level = level;
	s->number = count++;
	s->salt = (uint16_t)rand_u64();
	s->first_ms = clock_wall_ms();
	list_init(&s->queue);
	list_append(&r->series, &s->link);
	map_put_borrowed(r->by_id, key_of(s->id), s);
	if (!loop_timer_active(&r->sweep))
		loop_timer_start_in(&r->sweep, SWEEP_MS);
	return s;
}

/* The series that this is one more of, if it's recent enough. */
static struct series *find_series(struct kube_recorder *r, const uint8_t id[ID_SIZE])
{
	struct series *s = map_get(r->by_id, key_of(id));
	if (!s)
		return NULL;
	if (is_over(r, s)) {
		series_free(r, s);
		return NULL;
	}
	list_unlink(&s->link);
	list_append(&r->series, &s->link);
	return s;
}

/* One of whom, and one of whom and what. */
static void identify(const struct kube_ref *about, enum kube_event_level level, const char *reason,
		     const char *message, uint8_t ret_object[ID_SIZE], uint8_t ret_id[ID_SIZE])
{
	const char *const texts[] = {about->kind,
				     about->ns,
				     about->name,
				     about->uid,
				     about->field_path,
				     level == KUBE_EVENT_WARNING ? "w" : "n",
				     reason,
				     message};
	struct str parts[2 * sizeof(texts) / sizeof(texts[0])];
	uint8_t digest[32];
	size_t n = 0;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		parts[n++] = str_of(texts[i]);
		parts[n++] = (struct str){"", 1}; /* a NUL ends each */
	}
	hash_sha256(parts, 2 * 5, digest);
	memcpy(ret_object, digest, ID_SIZE);
	hash_sha256(parts, n, digest);
	memcpy(ret_id, digest, ID_SIZE);
}

void kube_event(struct kube_recorder *r, const struct kube_ref *about, enum kube_event_level level,
		const char *reason, const char *fmt, ...)
{
	char message[MESSAGE_MAX + 1];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	message[str_utf8_cut(str_of(message), MESSAGE_MAX)] = '\0';

	uint8_t object[ID_SIZE], id[ID_SIZE];
	identify(about, level, reason, message, object, id);
	struct series *s = find_series(r, id);
	if (!s && r->queued >= KUBE_EVENT_QUEUE) {
		count_dropped("queue");
		return;
	}
	bool allowed = take_token(r, object);
	if (!s && !allowed) {
		count_dropped("rate");
		return;
	}
	if (!s)
		s = series_new(r, level, id);
	s->count++;
	s->last_ms = clock_wall_ms();
	s->last_mono_ms = clock_mono_ms();
	/* While it waits in the queue, the count just grows. */
	if (list_empty(&s->queue) && allowed && r->queued < KUBE_EVENT_QUEUE) {
		s->tries = 0;
		if (!s->words)
			s->words = words_new(about, reason, message);
		enqueue(r, s);
	}
}

size_t kube_recorder_waiting(const struct kube_recorder *r)
{
	return r->queued + (r->sending != NULL);
}

size_t kube_recorder_remembered(const struct kube_recorder *r)
{
	return map_len(r->by_id);
}

/* ---- life ---- */

static void metrics_open(void)
{
	static const char *const by_reason[] = {"reason", NULL};
	static const char *const by_verb[] = {"verb", NULL};
	static const char *const reasons[] = {"refused", "queue", "rate"};
	if (dropped_metric)
		return;
	dropped_metric = metric_new(METRIC_COUNTER, "ipu_operator_events_dropped_total",
				    "Events that weren't sent, by reason.", by_reason, NULL, 0);
	sent_metric = metric_new(METRIC_COUNTER, "ipu_operator_events_sent_total",
				 "Events that the API server took, new or counted.", by_verb, NULL,
				 0);
	/* From the beginning, so that a first one is seen to be one more. */
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		metric_add(dropped_metric, &reasons[i], 0);
}

struct kube_recorder *kube_recorder_new(struct kube_client *client, const char *component,
					const char *instance)
{
	struct kube_recorder *r = xcalloc(1, sizeof(*r));
	r->client = client;
	r->component = xstrdup(component);
	r->instance = xstrdup(instance);
	r->by_id = map_new();
	r->buckets = map_new();
	list_init(&r->series);
	list_init(&r->bucket_list);
	list_init(&r->queue);
	scope_init(&r->scope);
	loop_timer_init(&r->retry, kube_client_loop(client), on_retry, r);
	loop_timer_init(&r->sweep, kube_client_loop(client), on_sweep, r);
	loop_work_init(&r->work, kube_client_loop(client), on_work, r);
	r->backoff = (struct backoff)BACKOFF_INIT(500, 30000);
	metrics_open();
	return r;
}

void kube_recorder_free(struct kube_recorder *r)
{
	if (!r)
		return;
	scope_cancel(&r->scope);
	loop_timer_stop(&r->retry);
	loop_timer_stop(&r->sweep);
	loop_work_cancel(&r->work);
	LIST_FOREACH(pos, tmp, &r->series)
		series_free(r, CONTAINER_OF(pos, struct series, link));
	LIST_FOREACH(pos, tmp2, &r->bucket_list)
		bucket_free(r, CONTAINER_OF(pos, struct bucket, link));
	map_free(r->by_id);
	map_free(r->buckets);
	free(r->component);
	free(r->instance);
	free(r);
}
