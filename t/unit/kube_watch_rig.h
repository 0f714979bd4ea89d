/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of list and watch: a watch on a scripted API server, what its answers are made of,
 * and what it told. Included once by each test.
 */
#ifndef IPU_T_UNIT_KUBE_WATCH_RIG_H
#define IPU_T_UNIT_KUBE_WATCH_RIG_H

#include "kube_server.h"

#include "kube/watch.h"

#define SIZE(a)   (sizeof(a) / sizeof((a)[0]))
#define MAX_STEPS 12

#define META(name, uid, rv)                                                                        \
	"\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"uid\":\"" uid                   \
	"\",\"resourceVersion\":\"" rv "\"}"
#define OBJ(name, uid, rv) "{" META(name, uid, rv) "}"
#define NO_UID(name, rv)                                                                           \
	"{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"resourceVersion\":\"" rv "\"}}"
#define LIST(rv, more, items)                                                                      \
	"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"" rv      \
	"\"" more "},\"items\":[" items "]}\n"
/* … of which only this much came. */
#define PART(rv, more, items)                                                                      \
	"{\"metadata\":{\"resourceVersion\":\"" rv "\"" more "},\"items\":[" items ",{\"meta"
#define MORE(token)         ",\"continue\":\"" token "\""
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(rv)        EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" rv "\"}}")
#define STATUS(code, reason)                                                                       \
	"{\"kind\":\"Status\",\"code\":" code ",\"reason\":\"" reason "\",\"message\":\"said\"}"
#define DEEP10     "[[[[[[[[[["
#define DEEP10_END "]]]]]]]]]]"
#define DEEP                                                                                       \
	DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10
#define DEEP_END                                                                                   \
	DEEP10_END DEEP10_END DEEP10_END DEEP10_END DEEP10_END DEEP10_END DEEP10_END DEEP10_END    \
		DEEP10_END DEEP10_END DEEP10_END DEEP10_END DEEP10_END
#define X100                                                                                       \
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LARGE(name, uid, rv) "{" META(name, uid, rv) ",\"x\":\"" X100 X100 X100 "\"}"

#define LIST_URL "GET /api/v1/pods?labelSelector=l&limit=2"
#define WATCH_URL(rv)                                                                              \
	"GET /api/v1/pods?labelSelector=l&resourceVersion=" rv                                     \
	"&watch=true&allowWatchBookmarks=true&timeoutSeconds="
#define TOKEN    "sixteen-bytes-or-more"
#define HOLD(rv) {WATCH_URL(rv), 200, NULL, NULL, SRV_STREAM}
#define PAGE_1   {LIST_URL, 200, NULL, LIST("10", MORE("t1"), OBJ("a", "1", "5")), SRV_WHOLE}
#define ONE_LIST {LIST_URL, 200, NULL, LIST("10", "", OBJ("a", "1", "5")), SRV_WHOLE}

struct row {
	const char *name;
	struct srv_step steps[MAX_STEPS];
	const char *want;
};

struct watcher {
	struct kube_watch *w;
	char log[8192];
	unsigned callbacks, cancel_at; /* cancels within that callback; 0: never */
};

static void called(struct watcher *x)
{
	if (++x->callbacks == x->cancel_at)
		kube_watch_cancel(x->w);
}

static void on_event(void *arg, const struct kube_watch_event *ev)
{
	struct watcher *x = arg;
	add_text(x->log, sizeof(x->log), "%c%.*s.%.*s@%.*s%s ", "+*-"[ev->type], STR_ARG(ev->name),
		 STR_ARG(ev->uid), STR_ARG(ev->version),
		 ev -> type == KUBE_DELETED && ev -> object ? "o" : "");
	called(x);
}

static void on_synced(void *arg)
{
	struct watcher *x = arg;
	add_text(x->log, sizeof(x->log), "S ");
	called(x);
}

static void on_relist(void *arg, bool done, struct str version)
{
	struct watcher *x = arg;
	add_text(x->log, sizeof(x->log), done ? "] " : "[ ");
	if (done != (version.len > 0))
		add_text(x->log, sizeof(x->log), "WITH-THE-WRONG-VERSION ");
	called(x);
}

static void on_bad(void *arg, struct str ns, struct str name, const struct err *err)
{
	struct watcher *x = arg;
	add_text(x->log, sizeof(x->log), "!%.*s/%.*s(%s) ", STR_ARG(ns), STR_ARG(name),
		 err_kind_name(err->kind == ERR_INVALID ? ERR_PROTOCOL : err->kind));
	called(x);
}

static void on_state(void *arg)
{
	called(arg);
}

static const struct kube_watch_ops watch_ops = {on_event, on_synced, on_relist, on_bad, on_state};

static struct srv *srv;
static struct kube_config *config;
static struct kube_client *client;

static size_t count_steps(const struct row *row)
{
	size_t n = 0;
	while (n < MAX_STEPS && row->steps[n].expect)
		n++;
	return n;
}

static void begin(const struct row *row, size_t piece, struct watcher *x, unsigned cancel_at)
{
	struct kube_watch_opts opts = {.resource = &KUBE_PODS,
				       .label_selector = "l",
				       .page_limit = 2,
				       .max_object_bytes = 300};
	*x = (struct watcher){.cancel_at = cancel_at};
	srv_script(srv, row->steps, count_steps(row), piece);
	config = srv_config(srv, TOKEN);
	client = client_for(config, NULL);
	x->w = kube_watch_start(client, &opts, &watch_ops, x, NULL);
}

static void end(struct watcher *x)
{
	kube_watch_cancel(x->w);
	x->w = NULL;
	close_client_of(srv, client, config);
}

#endif
