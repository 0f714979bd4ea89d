/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List and watch, for ever: a level-triggered state machine over one list or one stream at a time.
 * Owns what it knows of the objects; what is reported is borrowed. Uses core/, loop/,
 * http/message.h.
 */
#include "kube/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "core/rand.h"
#include "client_priv.h"
#include "known.h"
#include "kube/object.h"
#include "path.h"
#include "split.h"
#include "xfer.h"
#include "loop/backoff.h"
#include "loop/pulse.h"

#define MAX_TARGET   ((size_t)16 << 10)
#define MIN_STREAM_S 300 /* the server ends a watch after a random time in between … */
#define MAX_STREAM_S 600
#define SILENCE_S    30 /* … and we do, so long after that */
/* A bookmark comes about once a minute (Kubernetes API concepts, "Watch bookmarks"): where not even
 * that is heard, the connection is dead, whatever TCP believes. */
#define SILENT_S        150
#define SHORT_STREAM_MS 5000   /* a stream that ends sooner and said nothing counts as a failure */
#define REREAD_MAX_MS   300000 /* between lists for the sake of what couldn't be read */

struct kube_watch {
	struct op op;
	struct kube_client *client;
	struct kube_watch_opts opts;
	char *ns, *label_selector, *field_selector;
	const struct kube_watch_ops *ops;
	void *arg;

	enum kube_watch_state state;
	struct scope scope;      /* the list or stream that runs */
	struct loop_timer timer; /* the end of a back-off; while it watches, the list for missed */
	struct backoff backoff, reread;
	int64_t missed_ms;
	struct kube_list_place place; /* where the list goes on that broke off */
	unsigned pages;               /* of it, when it last failed */
	struct kube_lines lines;
	struct kube_known *known; /* NULL: the owner's business */
	char *version;            /* to watch from; NULL: list first */
	bool list_unsure;         /* an object that couldn't even be named was in this list */
	bool list_short;          /* there was no memory for an object of this list */
	bool missed;              /* an event couldn't be read, and a new list may mend that */
	bool synced;
	int64_t began_ms;      /* the stream */
	bool spoke;            /* a line came on it */
	struct err stream_err; /* an ERROR event: why the stream is given up */

	int64_t since_ms, heard_ms;
	unsigned failures;
	struct err err;
	uint64_t lists, bad;
	struct log_limit quiet;
	struct pulse pulse;
};

static struct metric *lists_metric, *bad_metric, *restarts_metric;

const char *kube_watch_state_name(enum kube_watch_state state)
{
	static const char *const names[] = {
		[KUBE_WATCH_LISTING] = "listing",   [KUBE_WATCH_CONNECTING] = "connecting",
		[KUBE_WATCH_WATCHING] = "watching", [KUBE_WATCH_WAITING] = "waiting",
		[KUBE_WATCH_ENDED] = "ended",
	};
	return names[state];
}

void kube_watch_status(const struct kube_watch *w, struct kube_watch_status *ret)
{
	*ret = (struct kube_watch_status){
		.state = w->state,
		.synced = w->synced,
		.since_ms = w->since_ms,
		.heard_ms = w->heard_ms,
		.failures = w->failures,
		.err = w->err,
		.objects = w->known ? kube_known_len(w->known) : 0,
		.lists = w->lists,
		.bad = w->bad,
	};
}

static void enter(struct kube_watch *w, enum kube_watch_state state)
{
	log_debug("kube", w->opts.resource->plural, "watch: %s, was %s",
		  kube_watch_state_name(state), kube_watch_state_name(w->state));
	w->state = state;
	w->since_ms = clock_mono_ms();
	pulse_beat(&w->pulse);
	if (w->ops->on_state && state != KUBE_WATCH_ENDED)
		w->ops->on_state(w->arg);
}

/* ---- telling ---- */

static void emit(struct kube_watch *w, enum kube_event_type type, const struct json *object,
		 struct str key, struct str uid, struct str version)
{
	struct kube_watch_event ev = {
		.type = type, .object = object, .key = key, .uid = uid, .version = version};
	kube_key_split(key, &ev.ns, &ev.name);
	if (w->ops->on_event && !w->op.ended)
		w->ops->on_event(w->arg, &ev);
}

static void report_bad(struct kube_watch *w, struct str ns, struct str name, const struct err *err)
{
	char key[KUBE_KEY_SIZE];
	const char *const values[] = {w->opts.resource->plural};
	w->bad++;
	metric_add(bad_metric, values, 1);
	/* It can't be read, but it's there: it mustn't count as vanished. */
	struct str k = kube_key(ns, name, key);
	if (k.len == 0)
		w->list_unsure = true;
	else if (w->known)
		kube_known_mark(w->known, k);
	if (log_limit_ok(&w->quiet, 60000))
		log_warn("kube", k.len > 0 ? key : w->opts.resource->plural, "%s", err->msg);
	if (w->ops->on_bad)
		w->ops->on_bad(w->arg, ns, name, err);
}

/* Checks what everything else relies on. */
static int identify(const struct kube_watch *w, const struct json *object,
		    char key_z[KUBE_KEY_SIZE], struct str *ret_key, struct err *err)
{
	struct str uid = kube_uid(object), version = kube_version(object);
	*ret_key = kube_object_key(object, key_z);
	if (ret_key->len == 0)
		return err_set(err, ERR_PROTOCOL, 0, "a %s without a usable name came",
			       w->opts.resource->kind);
	if (uid.len == 0 || uid.len >= sizeof(((struct kube_known_old *)0)->uid))
		return err_set(err, ERR_PROTOCOL, 0, "the %s has no usable uid",
			       w->opts.resource->kind);
	if (version.len == 0 || version.len >= sizeof(((struct kube_known_old *)0)->version))
		return err_set(err, ERR_PROTOCOL, 0, "the %s has no usable resourceVersion",
			       w->opts.resource->kind);
	return 0;
}

static void see(struct kube_watch *w, const struct json *object)
{
	char key_z[KUBE_KEY_SIZE];
	struct kube_known_old old;
	struct err err = ERR_INIT;
	struct str key, uid = kube_uid(object), version = kube_version(object);
	if (identify(w, object, key_z, &key, &err) < 0) {
		report_bad(w, kube_namespace(object), kube_name(object), &err);
		return;
	}
	if (!w->known) {
		emit(w, KUBE_MODIFIED, object, key, uid, version);
		return;
	}
	switch (kube_known_see(w->known, key, uid, version, &old)) {
	case KUBE_CHANGE_NONE:
		break;
	case KUBE_CHANGE_ADDED:
		emit(w, KUBE_ADDED, object, key, uid, version);
		break;
	case KUBE_CHANGE_MODIFIED:
		emit(w, KUBE_MODIFIED, object, key, uid, version);
		break;
	case KUBE_CHANGE_REPLACED:
		emit(w, KUBE_DELETED, NULL, key, str_of(old.uid), str_of(old.version));
		emit(w, KUBE_ADDED, object, key, uid, version);
		break;
	}
}

/* It's gone; whether that is news. */
static bool forget(struct kube_watch *w, struct str key, struct str uid)
{
	return !w->known || kube_known_remove(w->known, key, uid);
}

static void see_deleted(struct kube_watch *w, const struct json *object)
{
	char key_z[KUBE_KEY_SIZE];
	struct err err = ERR_INIT;
	struct str key, uid = kube_uid(object);
	if (identify(w, object, key_z, &key, &err) < 0)
		report_bad(w, kube_namespace(object), kube_name(object), &err);
	else if (forget(w, key, uid))
		emit(w, KUBE_DELETED, object, key, uid, kube_version(object));
}

/* ---- failing and going on ---- */

static void start_list(struct kube_watch *w);
static void start_stream(struct kube_watch *w);

static void set_version(struct kube_watch *w, struct str version)
{
	free(w->version);
	w->version = version.len > 0 ? str_dup(version) : NULL;
}

static void count_restart(const struct kube_watch *w, const char *reason)
{
	const char *const values[] = {w->opts.resource->plural, reason};
	metric_add(restarts_metric, values, 1);
}

static void go_on(struct kube_watch *w)
{
	if (w->op.ended)
		return;
	if (w->missed)
		set_version(w, STR_NULL);
	if (w->version)
		start_stream(w);
	else
		start_list(w);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct kube_watch *w = arg;
	(void)timer;
	if (w->state == KUBE_WATCH_WATCHING) {
		count_restart(w, err_kind_name(ERR_PROTOCOL));
		scope_cancel(&w->scope);
	}
	go_on(w);
}

/* What this event said, or a list left out, only a list can tell. Not for each of many, and the
 * stream goes on until then. */
static void miss(struct kube_watch *w)
{
	int64_t now = clock_mono_ms();
	if (w->missed)
		return;
	if (now - w->missed_ms > 2 * REREAD_MAX_MS)
		backoff_reset(&w->reread);
	w->missed = true;
	w->missed_ms = now;
	loop_timer_start_in(&w->timer, backoff_next_ms(&w->reread, NULL));
}

void kube_watch_missed(struct kube_watch *w)
{
	if (w->state == KUBE_WATCH_LISTING)
		w->list_short = true;
	else
		miss(w);
}

static void well(struct kube_watch *w)
{
	if (w->failures > 0)
		log_info("kube", w->opts.resource->plural, "watch: works again");
	w->failures = 0;
	w->err = (struct err)ERR_INIT;
}

static void failed(struct kube_watch *w, const struct err *err)
{
	count_restart(w, err_kind_name(err->kind));
	/* Said by the server, these mean that it can't go on from where we are: the version is too
	 * old (410), none of its own (400), or from a future that a restored etcd doesn't know
	 * (504 "Too large resource version"). */
	if (w->version && err->code != 0 &&
	    (err->kind == ERR_GONE || err->kind == ERR_INVALID || err->kind == ERR_TIMEOUT))
		set_version(w, STR_NULL);
	w->failures++;
	w->err = *err;
	if (err->kind == ERR_GONE) /* happens to every watch that was cut off for long */
		log_info("kube", w->opts.resource->plural, "watch: listing again: %s", err->msg);
	else if (log_limit_ok(&w->quiet, 60000))
		log_warn("kube", w->opts.resource->plural, "watch: %s failures=%u", err->msg,
			 w->failures);
	loop_timer_start_in(&w->timer, backoff_next_ms(&w->backoff, err));
	enter(w, KUBE_WATCH_WAITING);
}

/* ---- listing ---- */

static void begin_round(struct kube_watch *w)
{
	w->list_unsure = w->list_short = w->missed = false;
	if (w->known)
		kube_known_begin_list(w->known);
	if (w->ops->on_relist)
		w->ops->on_relist(w->arg, false, STR_NULL);
}

static void on_listed(void *arg, const struct json *object, bool again)
{
	struct kube_watch *w = arg;
	char key_z[KUBE_KEY_SIZE];
	struct str key;
	w->heard_ms = clock_mono_ms();
	pulse_beat(&w->pulse);
	/* What it has of bad names was said when it came first. */
	if (!again || identify(w, object, key_z, &key, NULL) == 0)
		see(w, object);
}

static void on_list_bad(void *arg, struct str ns, struct str name, const struct err *err)
{
	report_bad(arg, ns, name, err);
}

static void on_list_missed(void *arg)
{
	struct kube_watch *w = arg;
	w->list_short = true;
}

static void on_list_restart(void *arg)
{
	begin_round(arg);
}

static void report_vanished(struct kube_watch *w)
{
	struct kube_known_old old;
	struct str key;
	/* What couldn't be named may be any of them: better one list late than a false DELETED. */
	if (!w->known || w->list_unsure)
		return;
	while (!w->op.ended && kube_known_next_unseen(w->known, &key, &old))
		emit(w, KUBE_DELETED, NULL, key, str_of(old.uid), str_of(old.version));
}

static void on_list_done(void *arg, const struct err *err, struct str version)
{
	struct kube_watch *w = arg;
	const char *const values[] = {w->opts.resource->plural};
	if (err) {
		if (w->place.pages > w->pages) /* slowly, but it gets on */
			backoff_reset(&w->backoff);
		w->pages = w->place.pages;
		failed(w, err);
		return;
	}
	w->lists++;
	metric_add(lists_metric, values, 1);
	set_version(w, version);
	report_vanished(w);
	if (w->op.ended)
		return;
	w->synced = true;
	well(w);
	if (w->ops->on_relist)
		w->ops->on_relist(w->arg, true, str_of(w->version));
	if (!w->op.ended && w->ops->on_synced)
		w->ops->on_synced(w->arg);
	go_on(w);
}

static void start_list(struct kube_watch *w)
{
	static const struct kube_list_ops ops = {
		.on_object = on_listed,
		.on_bad = on_list_bad,
		.on_restart = on_list_restart,
		.on_missed = on_list_missed,
		.on_done = on_list_done,
	};
	struct kube_list_opts opts = {
		.resource = w->opts.resource,
		.ns = w->ns,
		.label_selector = w->label_selector,
		.field_selector = w->field_selector,
		.page_limit = w->opts.page_limit,
		.max_object_bytes = w->opts.max_object_bytes,
		.place = &w->place,
	};
	enter(w, KUBE_WATCH_LISTING);
	if (w->op.ended)
		return;
	if (!w->place.token)
		begin_round(w);
	if (!w->op.ended)
		kube_list_start(w->client, &opts, &ops, w, &w->scope);
}

/* ---- watching ---- */

static void take_line(struct kube_watch *w, const struct json *event)
{
	struct str type = json_str(json_get(event, "type"));
	const struct json *object = json_get(event, "object");
	struct str version = kube_version(object);
	struct err err = ERR_INIT;
	if (str_eqz(type, "ERROR")) {
		kube_status_decode(0, object, 0, kube_cred_token(w->client->cred), &w->stream_err);
		return;
	}
	if (json_type(object) != JSON_OBJECT)
		miss(w);
	if (str_eqz(type, "ADDED") || str_eqz(type, "MODIFIED")) {
		see(w, object);
	} else if (str_eqz(type, "DELETED")) {
		see_deleted(w, object);
	} else if (!str_eqz(type, "BOOKMARK")) {
		err_set(&err, ERR_PROTOCOL, 0, "a watch event of unknown type \"%.*s\" came",
			type.len > 30 ? 30 : (int)type.len, type.p ? type.p : "");
		report_bad(w, kube_namespace(object), kube_name(object), &err);
	}
	if (!w->op.ended && version.len > 0 && !str_eqz(version, "0"))
		set_version(w, version);
}

static void bad_line(struct kube_watch *w, const struct kube_piece *piece, struct err *err)
{
	struct kube_peek seen;
	kube_peek(piece->bytes, true, &seen);
	/* Else the same line would come again after each reconnect. */
	if (seen.version[0])
		set_version(w, str_of(seen.version));
	/* Broken bytes or a lack of memory pass; an object over its limit stays what it is. */
	if (piece->bytes.len < w->lines.buf.limit)
		miss(w);
	/* That something is gone can be told without reading it. */
	char key_z[KUBE_KEY_SIZE];
	struct str key = kube_key(str_of(seen.ns), str_of(seen.name), key_z);
	if (strcmp(seen.type, "DELETED") == 0 && key.len > 0 && forget(w, key, str_of(seen.uid))) {
		emit(w, KUBE_DELETED, NULL, key, str_of(seen.uid), str_of(seen.version));
		return;
	}
	report_bad(w, str_of(seen.ns), str_of(seen.name), err);
}

static void on_stream_head(void *arg, const struct http_headers *headers)
{
	struct kube_watch *w = arg;
	(void)headers;
	w->heard_ms = w->began_ms = clock_mono_ms();
	kube_lines_done(&w->lines);
	well(w);
	if (w->list_short)
		miss(w);
	enter(w, KUBE_WATCH_WATCHING); /* whoever hears of it may cancel the watch */
}

static void on_stream_body(void *arg, struct str chunk)
{
	struct kube_watch *w = arg;
	struct kube_piece piece;
	w->heard_ms = clock_mono_ms();
	pulse_beat(&w->pulse);
	loop_about(w->client->loop, "watch", w->opts.resource->plural, NULL);
	while (!w->op.ended && w->stream_err.kind == ERR_NONE &&
	       kube_lines_next(&w->lines, &chunk, &piece)) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct err err = ERR_INIT;
		if (piece.cut) {
			err_set(&err, ERR_LIMIT, 0,
				"the %s's event is larger than %zu bytes and is passed over",
				w->opts.resource->kind, w->opts.max_object_bytes);
			bad_line(w, &piece, &err);
		} else if (kube_parse(w->opts.resource, piece.bytes, &doc, &err) < 0) {
			err_wrap(&err, "the %s's event can't be read", w->opts.resource->kind);
			bad_line(w, &piece, &err);
		} else {
			w->spoke = true;
			backoff_reset(&w->backoff);
			take_line(w, json_root(doc));
		}
	}
	if (!w->op.ended && w->stream_err.kind != ERR_NONE) {
		struct err err = w->stream_err;
		scope_cancel(&w->scope);
		failed(w, &err);
	}
}

static void on_stream_done(void *arg, const struct err *err, int status, struct str body,
			   const struct json *json)
{
	struct kube_watch *w = arg;
	struct err ended = ERR_INIT;
	(void)status;
	(void)body;
	(void)json;
	/* What is left of a line comes again: the version wasn't set forward. */
	bool began = w->state == KUBE_WATCH_WATCHING;
	bool lasted = began && (w->spoke || clock_mono_ms() - w->began_ms >= SHORT_STREAM_MS);
	if (began && lasted && (!err || err->kind == ERR_UNAVAILABLE || err->kind == ERR_TIMEOUT)) {
		/* Its time was over, or the connection's: the ordinary end of a watch. */
		backoff_reset(&w->backoff);
		count_restart(w,
			      err && err->kind == ERR_TIMEOUT ? err_kind_name(err->kind) : "ended");
		if (err && err->kind == ERR_TIMEOUT)
			log_info("kube", w->opts.resource->plural, "watch: made anew: %s",
				 err->msg);
		loop_timer_start_in(&w->timer, err ? (int64_t)rand_below(500) : 0);
		enter(w, KUBE_WATCH_CONNECTING);
		return;
	}
	if (!err)
		err_set(&ended, ERR_UNAVAILABLE, 0,
			"the API server ended a watch as soon as it began");
	failed(w, err ? err : &ended);
}

static int make_target(const struct kube_watch *w, unsigned seconds, struct buf *out,
		       struct err *err)
{
	char timeout[16];
	struct kube_request r = {
		.verb = KUBE_LIST,
		.resource = w->opts.resource,
		.ns = w->ns,
		.label_selector = w->label_selector,
		.field_selector = w->field_selector,
		.resource_version = w->version,
	};
	snprintf(timeout, sizeof(timeout), "%u", seconds);
	if (kube_path_build(w->client->config->prefix, &r, out, err) < 0 ||
	    http_query_append(out, STR("watch"), STR("true"), err) < 0 ||
	    http_query_append(out, STR("allowWatchBookmarks"), STR("true"), err) < 0)
		return -1;
	return http_query_append(out, STR("timeoutSeconds"), str_of(timeout), err);
}

static void start_stream(struct kube_watch *w)
{
	static const struct kube_xfer_handler handler = {on_stream_head, on_stream_body,
							 on_stream_done};
	unsigned seconds = MIN_STREAM_S + (unsigned)rand_below(MAX_STREAM_S - MIN_STREAM_S + 1);
	struct buf target = BUF_INIT(MAX_TARGET);
	struct err err = ERR_INIT;
	size_t len;
	w->spoke = false;
	w->stream_err = (struct err)ERR_INIT;
	if (make_target(w, seconds, &target, &err) < 0) {
		buf_done(&target);
		failed(w, &err);
		return;
	}
	enter(w, KUBE_WATCH_CONNECTING);
	if (w->op.ended) {
		buf_done(&target);
		return;
	}
	struct kube_xfer_req req = {
		.verb = "watch",
		.resource = w->opts.resource->plural,
		.method = HTTP_METHOD_GET,
		.target = buf_steal(&target, &len),
		.reads = true,
		.streaming = true,
		.no_retry = true, /* the back-off is ours */
		.stream_ms = (seconds + SILENCE_S) * 1000,
		.silent_ms = SILENT_S * 1000,
	};
	kube_xfer_start(w->client, &req, &handler, w, &w->scope);
}

/* ---- life ---- */

static void watch_free(void *p)
{
	struct kube_watch *w = p;
	kube_lines_done(&w->lines);
	kube_known_free(w->known);
	kube_list_place_done(&w->place);
	free(w->ns);
	free(w->label_selector);
	free(w->field_selector);
	free(w->version);
	free(w);
}

static void on_cancel(struct op *op)
{
	struct kube_watch *w = CONTAINER_OF(op, struct kube_watch, op);
	scope_cancel(&w->scope);
	loop_timer_stop(&w->timer);
	pulse_stop(&w->pulse);
	w->state = KUBE_WATCH_ENDED;
	loop_reap(w->client->loop, w, watch_free);
}

static void metrics_open(void)
{
	static const char *const labels[] = {"resource", NULL};
	static const char *const by_reason[] = {"resource", "reason", NULL};
	if (lists_metric)
		return;
	restarts_metric = metric_new(METRIC_COUNTER, "ipu_operator_kube_watch_restarts_total",
				     "Watches that ended or failed and begin again, by why.",
				     by_reason, NULL, 0);
	lists_metric = metric_new(METRIC_COUNTER, "ipu_operator_kube_lists_total",
				  "Whole lists that began a watch.", labels, NULL, 0);
	bad_metric = metric_new(METRIC_COUNTER, "ipu_operator_kube_bad_objects_total",
				"Objects that couldn't be read and were passed over.", labels, NULL,
				0);
}

/* From the beginning, so that a first one is seen to be one more: those that outages bring. */
static void begin_series(const struct kube_watch *w)
{
	static const enum err_kind kinds[] = {ERR_GONE,    ERR_DENIED,   ERR_UNAVAILABLE,
					      ERR_TIMEOUT, ERR_PROTOCOL, ERR_IO};
	const char *values[] = {w->opts.resource->plural, "ended"};

	metric_add(bad_metric, values, 0);
	metric_add(restarts_metric, values, 0);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		values[1] = err_kind_name(kinds[i]);
		metric_add(restarts_metric, values, 0);
	}
}

struct kube_watch *kube_watch_start(struct kube_client *client, const struct kube_watch_opts *opts,
				    const struct kube_watch_ops *ops, void *arg,
				    struct scope *scope)
{
	struct kube_watch *w = xcalloc(1, sizeof(*w));
	metrics_open();
	w->client = client;
	w->opts = *opts;
	begin_series(w);
	if (w->opts.max_object_bytes == 0)
		w->opts.max_object_bytes = KUBE_MAX_OBJECT_BYTES;
	w->ns = xstrdup(opts->ns);
	w->label_selector = xstrdup(opts->label_selector);
	w->field_selector = xstrdup(opts->field_selector);
	w->ops = ops;
	w->arg = arg;
	w->known = opts->bare ? NULL : kube_known_new();
	/* Short at its longest: a server that is back is heard of within seconds. */
	w->backoff = (struct backoff)BACKOFF_INIT(500, 5000);
	w->state = KUBE_WATCH_LISTING;
	w->since_ms = clock_mono_ms();
	w->heard_ms = -1;
	/* The object's envelope comes on top: {"type":"MODIFIED","object":…}. */
	kube_lines_init(&w->lines, w->opts.max_object_bytes + 64);
	w->lines.buf.secret = kube_is_secret(opts->resource);
	scope_init(&w->scope);
	w->reread = (struct backoff)BACKOFF_INIT(500, REREAD_MAX_MS);
	/* It always has something to do; a stream may be silent for a while. */
	pulse_start(&w->pulse, "watch", opts->resource->plural, SILENT_S + SILENCE_S);
	w->pulse.busy = true;
	op_begin(&w->op, scope, on_cancel);
	loop_timer_init(&w->timer, client->loop, on_timer, w);
	loop_timer_start_in(&w->timer, 0);
	return w;
}

void kube_watch_cancel(struct kube_watch *w)
{
	if (w)
		op_cancel(&w->op);
}
