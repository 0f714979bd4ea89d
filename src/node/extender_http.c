/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extender's two end-points, and what is counted of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/metrics.h"
#include "node/extender.h"

struct extender {
	extender_view_fn *view;
	void *arg;
};

static struct {
	struct metric *requests, *seconds;
} m;

static void reply(struct http_exchange *ex, struct extender *e, enum extender_verb verb)
{
	struct buf out = BUF_INIT(extender_limit(ex->body));
	struct extender_view view = {0};
	struct err err = ERR_INIT, why = ERR_INIT;
	int rc;

	if (e->view(e->arg, &view, &why))
		rc = extender_answer(&view, verb, ex->body, &out, &err);
	else if (verb == EXTENDER_FILTER)
		rc = extender_refuse(why.msg, &out, &err);
	else
		rc = err_copy(&err, &why);
	if (rc == 0)
		http_reply(ex, 200, "application/json", NULL, 0, buf_str(&out));
	else
		http_reply_err(ex, &err);
	buf_done(&out);
}

static void handle_filter(struct http_exchange *ex, void *arg)
{
	static const char name[] = "filter";

	ex->user = (void *)(uintptr_t)name;
	reply(ex, arg, EXTENDER_FILTER);
}

static void handle_prioritize(struct http_exchange *ex, void *arg)
{
	static const char name[] = "prioritize";

	ex->user = (void *)(uintptr_t)name;
	reply(ex, arg, EXTENDER_PRIORITIZE);
}

void extender_handle(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_POST, "/scheduler/filter", handle_filter},
		{HTTP_METHOD_POST, "/scheduler/prioritize", handle_prioritize},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}

void extender_on_answered(const struct http_answered *a, void *arg)
{
	const char *handler = a->ex->user ? a->ex->user : "other";
	char code[16];
	const char *values[] = {handler, code};

	(void)arg;
	snprintf(code, sizeof(code), "%d", a->status);
	metric_add(m.requests, values, 1);
	metric_observe(m.seconds, values, (double)a->took_us / 1e6);
}

struct extender *extender_new(extender_view_fn *view, void *arg)
{
	static const double bounds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.1, 1};
	static const char *const by_code[] = {"handler", "code", NULL};
	static const char *const by_handler[] = {"handler", NULL};
	struct extender *e = xcalloc(1, sizeof(*e));

	e->view = view;
	e->arg = arg;
	m.requests = metric_new(METRIC_COUNTER, "ipu_operator_extender_requests_total",
				"Answers of the scheduler's extender.", by_code, NULL, 0);
	m.seconds = metric_new(METRIC_HISTOGRAM, "ipu_operator_extender_request_seconds",
			       "From a request's end to its answer.", by_handler, bounds,
			       sizeof(bounds) / sizeof(bounds[0]));
	return e;
}

void extender_free(struct extender *e)
{
	free(e);
}
