/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pods/log: what a container has written, and goes on to write. A follower holds the log, so that
 * it outlives the Pod. Uses core and http.
 */
#include <stdlib.h>
#include <string.h>

#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/run.h"

struct follower {
	struct http_exchange *ex;
	struct sim_api *api;
	struct sim_log *log;
	struct sim_log_watcher watcher;
	uint64_t at;
	bool full;
};

static void follower_free(struct follower *f)
{
	list_unlink(&f->watcher.link);
	sim_log_unref(f->log);
	free(f);
}

static void on_abort(struct http_exchange *ex, void *arg)
{
	(void)ex;
	follower_free(arg);
}

/* Writes what is new. The last of it ends the answer. */
static void follow(void *arg)
{
	struct follower *f = arg;
	const struct sim_log *log = f->log;
	uint64_t end = log->begin + log->text.len;

	if (f->full)
		return;
	if (f->at < log->begin)
		f->at = log->begin;
	if (f->at < end) {
		struct str news = {log->text.p + (f->at - log->begin), (size_t)(end - f->at)};
		f->at = end;
		f->full = http_reply_write(f->ex, news);
	}
	if (f->full || !log->ended)
		return;
	http_exchange_on_abort(f->ex, NULL, NULL);
	http_reply_end(f->ex);
	follower_free(f);
}

static void on_drain(struct http_exchange *ex, void *arg)
{
	struct follower *f = arg;

	(void)ex;
	f->full = false;
	follow(f);
}

static int number(struct str query, const char *name, int64_t *ret, struct err *err)
{
	CLEANUP_FREE char *z = http_query_get(query, name, NULL);

	*ret = -1;
	if (z && str_to_int(str_of(z), 0, INT32_MAX, ret, NULL) < 0)
		return err_set(err, ERR_INVALID, 400, "%s: must be a number", name);
	return 0;
}

/* Where the last lines begin; an end of line belongs to what is before it. */
static size_t tail(struct str text, int64_t lines)
{
	size_t at = text.len;

	if (lines == 0)
		return at;
	if (at > 0 && text.p[at - 1] == '\n')
		at--;
	for (; at > 0; at--)
		if (text.p[at - 1] == '\n' && --lines == 0)
			return at;
	return 0;
}

static void answer(struct sim_request *req, struct sim_log *log, bool follows, int64_t lines,
		   int64_t limit)
{
	struct str text = buf_str(&log->text);
	size_t from = lines >= 0 ? tail(text, lines) : 0;
	struct follower *f;

	text = (struct str){text.p ? text.p + from : "", text.len - from};
	if (!follows || limit >= 0) {
		if (limit >= 0 && text.len > (size_t)limit)
			text.len = (size_t)limit;
		http_reply(req->ex, 200, "text/plain", NULL, 0, text);
		return;
	}
	f = xcalloc(1, sizeof(*f));
	f->ex = req->ex;
	f->log = sim_log_ref(log);
	f->at = log->begin + from;
	f->watcher = (struct sim_log_watcher){.on_more = follow, .arg = f};
	list_init(&f->watcher.link);
	list_append(&log->watchers, &f->watcher.link);
	http_exchange_on_abort(f->ex, on_abort, f);
	http_exchange_on_drain(f->ex, on_drain, f);
	http_reply_begin(f->ex, 200, "text/plain", NULL, 0);
	follow(f);
}

/* Parameters that change what is shown, and that aren't known here. */
static int check_query(struct str query, struct err *err)
{
	static const char *const unknown[] = {"previous", "timestamps", "sinceSeconds",
					      "sinceTime"};

	for (size_t i = 0; i < 4; i++) {
		CLEANUP_FREE char *z = http_query_get(query, unknown[i], NULL);
		if (z && strcmp(z, "false") != 0)
			return err_set(err, ERR_INVALID, 400, "ipu-sim's logs have no %s",
				       unknown[i]);
	}
	return 0;
}

void sim_pod_log(struct sim_request *req)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct sim_object *o = sim_objects_get(req->api->objects, req->resource, str_of(req->ns),
					       str_of(req->name));
	char *container = http_query_get(req->ex->query, "container", NULL);
	bool follows = http_query_bool(req->ex->query, "follow", false);
	struct sim_container *c = NULL;
	int64_t lines = -1, limit = -1;
	struct err err = ERR_INIT;

	if (!container)
		container = xstrdup("");
	if (!o)
		err_set(&err, ERR_NOT_FOUND, 404, "pods \"%s\" not found", req->name);
	else if (sim_choose_container(sim_object_json(o), &container, &err) == 0 &&
		 check_query(req->ex->query, &err) == 0 &&
		 number(req->ex->query, "tailLines", &lines, &err) == 0 &&
		 number(req->ex->query, "limitBytes", &limit, &err) == 0)
		c = sim_run_find(req->api->run, str_of(o->uid), str_of(container));
	if (!err.kind && !c)
		err_set(&err, ERR_INVALID, 400,
			"container \"%s\" in pod \"%s\" is waiting to start: ContainerCreating",
			container, req->name);
	if (err.kind)
		sim_reply_err(req, doc, &err, NULL);
	else
		answer(req, sim_container_log(c), follows, lines, limit);
	free(container);
}
