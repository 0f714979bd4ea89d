/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's beginning and end, the open port's end-points, and what is counted and logged of
 * every answer. Uses http, partition, vipu.
 */
#include "proxy/proxy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/metrics.h"
#include "internal.h"
#include "net/tls.h"
#include "proxy/page.h"
#include "stream.h"

/* Who asks here while this replica alone can't reach the API server soon asks another one. */
#define REVIEW_MS 4000
#define WAIT_MS   60000
#define CALL_MS   10000
#define VIEWERS   384

static struct {
	struct metric *requests, *seconds;
} m;

/* ---- the open port ---- */

static void set_note(struct http_exchange *ex, const struct note *note)
{
	ex->user = (void *)(uintptr_t)note;
}

static void reply_view(struct http_exchange *ex, struct proxy *p, enum view_kind kind)
{
	struct err err = ERR_INIT;
	struct str text;

	if (view_get(p, kind, &text, &err) < 0)
		http_reply_problem(ex, 500, "%s", err.msg);
	else
		http_reply(ex, 200, "application/json", NULL, 0, text);
}

/* The same where names of owners and controllers are in it. */
static void reply_details(struct http_exchange *ex, struct proxy *p, enum view_kind kind)
{
	if (!p->details)
		http_reply_problem(
			ex, 403,
			"this is turned off here: proxy.details is false. /stats, /query "
			"and /capacity answer");
	else if (guard_lets_in(ex, true))
		reply_view(ex, p, kind);
}

static void handle_stats(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"stats", NULL};

	set_note(ex, &note);
	reply_view(ex, arg, VIEW_STATS);
}

static void handle_capacity(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"capacity", NULL};

	set_note(ex, &note);
	reply_view(ex, arg, VIEW_CAPACITY);
}

static void handle_queue(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"queue", NULL};

	set_note(ex, &note);
	reply_details(ex, arg, VIEW_QUEUE);
}

static void handle_partitions(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"partitions", NULL};

	set_note(ex, &note);
	reply_details(ex, arg, VIEW_PARTITIONS);
}

static void handle_controllers(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"controllers", NULL};

	set_note(ex, &note);
	reply_details(ex, arg, VIEW_CONTROLLERS);
}

static const struct note query_note = {"query", NULL};

static void reply_query(struct http_exchange *ex, struct proxy *p, int64_t size)
{
	struct err err = ERR_INIT;
	struct str text;

	if (view_get_query(p, size, &text, &err) < 0)
		http_reply_problem(ex, 500, "%s", err.msg);
	else
		http_reply(ex, 200, "application/json", NULL, 0, text);
}

/* As the POST, for those who may only read. */
static void handle_query_get(struct http_exchange *ex, void *arg)
{
	struct err err = ERR_INIT;
	CLEANUP_FREE char *text = http_query_get(ex->query, "size", &err);
	int64_t n;

	set_note(ex, &query_note);
	if (err_is_no_memory(&err))
		http_reply_err(ex, &err);
	else if (str_to_int(str_of(text), 1, INT64_MAX, &n, NULL) < 0)
		http_reply_problem(ex, 400,
				   "\"size\" must be a whole number of IPUs above 0, such as "
				   "/query?size=2");
	else
		reply_query(ex, arg, n);
}

static void handle_query(struct http_exchange *ex, void *arg)
{
	CLEANUP_JSON struct json_doc *body = NULL;
	const struct json *size;
	struct err err = ERR_INIT;
	int64_t n;

	set_note(ex, &query_note);
	if (json_parse(ex->body, &body, &err) < 0) {
		http_reply_problem(ex, err_is_no_memory(&err) ? 503 : 400,
				   "the body must be JSON, such as {\"size\":2}: %s", err.msg);
		return;
	}
	size = json_get(json_root(body), "size");
	n = json_int(size, 0);
	if (json_type(size) != JSON_INT || n <= 0)
		http_reply_problem(
			ex, 400,
			"\"size\" must be a whole number of IPUs above 0, such as {\"size\":2}");
	else
		reply_query(ex, arg, n);
}

static void handle_health(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"health", NULL};

	(void)arg;
	set_note(ex, &note);
	http_reply(ex, 200, "text/plain; charset=utf-8", NULL, 0, STR("ok\n"));
}

/* ---- the live page ---- */

/* False: there is none here, or not for who asks, and it's answered. linked: as of guard_lets_in.
 */
static bool has_page(struct http_exchange *ex, const struct proxy *p, bool linked)
{
	if (p->live)
		return guard_lets_in(ex, linked);
	http_reply_problem(
		ex, 404,
		"the live page is turned off here: proxy.page is off. /stats, /query and "
		"/capacity answer");
	return false;
}

static void reply_file(struct http_exchange *ex, const struct proxy *p, enum page_file file)
{
	static const struct note note = {"page", NULL};

	set_note(ex, &note);
	if (has_page(ex, p, file == PAGE_HTML))
		page_reply(ex, file);
}

static void handle_page(struct http_exchange *ex, void *arg)
{
	reply_file(ex, arg, PAGE_HTML);
}

static void handle_css(struct http_exchange *ex, void *arg)
{
	reply_file(ex, arg, PAGE_CSS);
}

static void handle_js(struct http_exchange *ex, void *arg)
{
	reply_file(ex, arg, PAGE_JS);
}

static void handle_icon(struct http_exchange *ex, void *arg)
{
	reply_file(ex, arg, PAGE_SVG);
}

static void handle_live(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"live", NULL};
	struct proxy *p = arg;

	set_note(ex, &note);
	if (has_page(ex, p, false))
		stream_reply_snapshot(p->stream, ex);
}

static void handle_events(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"events", NULL};
	struct proxy *p = arg;

	set_note(ex, &note);
	if (has_page(ex, p, false))
		stream_reply_events(p->stream, ex);
}

/* Who asks here hasn't said who he is; ipuctl ui knows its user, and answers this itself. */
static void handle_names(struct http_exchange *ex, void *arg)
{
	static const struct note note = {"names", NULL};

	set_note(ex, &note);
	if (has_page(ex, arg, false))
		http_reply(ex, 200, "application/json", page_fields, PAGE_FIELDS,
			   STR("{\"names\":false,\"items\":[]}\n"));
}

void proxy_handle_open(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_GET, "/stats", handle_stats},
		{HTTP_METHOD_POST, "/query", handle_query},
		{HTTP_METHOD_GET, "/query", handle_query_get},
		{HTTP_METHOD_GET, "/health", handle_health},
		{HTTP_METHOD_GET, "/capacity", handle_capacity},
		{HTTP_METHOD_GET, "/queue", handle_queue},
		{HTTP_METHOD_GET, "/partitions", handle_partitions},
		{HTTP_METHOD_GET, "/controllers", handle_controllers},
		{HTTP_METHOD_GET, "/", handle_page},
		{HTTP_METHOD_GET, "/page.css", handle_css},
		{HTTP_METHOD_GET, "/page.js", handle_js},
		{HTTP_METHOD_GET, "/icon.svg", handle_icon},
		{HTTP_METHOD_GET, "/live", handle_live},
		{HTTP_METHOD_GET, "/live/events", handle_events},
		{HTTP_METHOD_GET, "/names", handle_names},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}

/* ---- what is told of answers ---- */

static const double bounds[] = {0.0001, 0.001, 0.01, 0.1, 1, 10, 60};

static void register_metrics(void)
{
	static const char *const by_code[] = {"handler", "code", NULL};
	static const char *const by_handler[] = {"handler", NULL};

	m.requests = metric_new(METRIC_COUNTER, "ipu_operator_proxy_requests_total",
				"Answers of the proxy's REST ports.", by_code, NULL, 0);
	m.seconds = metric_new(METRIC_HISTOGRAM, "ipu_operator_proxy_request_seconds",
			       "From a request's end to its answer, waiting included.", by_handler,
			       bounds, sizeof(bounds) / sizeof(bounds[0]));
}

void proxy_on_answered(const struct http_answered *a, void *arg)
{
	const struct note *note = a->ex->user;
	const char *handler = note ? note->handler : "other";
	const char *caller = note && note->caller ? note->caller : "-";
	char code[16];
	const char *values[] = {handler, code};

	if (a->handler_arg != arg)
		return; /* another part's listener on the same server */
	snprintf(code, sizeof(code), "%d", a->status);
	metric_add(m.requests, values, 1);
	metric_observe(m.seconds, values, (double)a->took_us / 1e6);
	log_debug("proxy", a->ex->peer, "%s %.*s: status=%d bytes=%" PRIu64 " ms=%.1f caller=%s",
		  http_method_name(a->ex->method),
		  a->ex->path.len > 300 ? 300 : (int)a->ex->path.len,
		  a->ex->path.p ? a->ex->path.p : "", a->status, a->body_bytes,
		  (double)a->took_us / 1e3, caller);
}

/* ---- beginning and end ---- */

static void on_fleet_change(void *arg, const char *name)
{
	struct proxy *p = arg;

	(void)name;
	p->fleet_generation++;
}

static void start_page(struct proxy *p, const struct proxy_config *config)
{
	const struct live_config lc = {
		.loop = p->loop,
		.partitions = p->partitions,
		.fleet = p->fleet,
		.full = config->page == PROXY_PAGE_FULL,
		.pods = told_pods,
		.pods_arg = p,
		.helds = told_each,
		.helds_arg = p,
	};

	p->full = lc.full;
	p->live = live_new(&lc);
	p->stream = stream_new(p->loop, p->live, config->viewers ? config->viewers : VIEWERS);
}

struct proxy *proxy_new(const struct proxy_config *config)
{
	static const char *const audiences[] = {PROXY_AUDIENCE, NULL};
	const struct kube_reviewer_opts review = {.audiences = audiences, .deadline_ms = REVIEW_MS};
	struct proxy *p = xcalloc(1, sizeof(*p));

	p->loop = config->loop;
	p->partitions = config->partitions;
	p->fleet = config->fleet;
	p->details = config->details;
	p->wait_ms = config->wait_ms ? config->wait_ms : WAIT_MS;
	p->call_ms = config->call_ms ? config->call_ms : CALL_MS;
	p->http = config->http;
	p->leading = true;
	list_init(&p->requests);
	list_init(&p->waiting);
	p->accounts = xstrdup(config->accounts ? config->accounts : "");
	p->reviewer = kube_reviewer_new(config->kube, &review);
	vipu_fleet_watch_start(p->fleet, &p->fleet_watch, on_fleet_change, p);
	register_metrics();
	p->pods = config->pods;
	p->helds = config->helds;
	p->pods_arg = config->pods_arg;
	p->token_file = xstrdup(config->token_file ? config->token_file : "");
	told_init(p);
	follow_init(p);
	if (config->page != PROXY_PAGE_OFF)
		start_page(p, config);
	return p;
}

void proxy_free(struct proxy *p)
{
	if (!p)
		return;
	follow_stop(p);
	told_forget(p);
	stream_free(p->stream);
	live_free(p->live);
	vipu_fleet_watch_stop(&p->fleet_watch);
	kube_reviewer_free(p->reviewer);
	free(p->accounts);
	free(p->token_file);
	view_forget_all(p);
	tls_config_unref(p->peer_tls);
	free(p->peer_name);
	free(p->leader);
	free(p);
}

void proxy_stop(struct proxy *p)
{
	p->stopping = true;
	if (p->stream)
		stream_stop(p->stream);
	LIST_FOREACH(pos, tmp, &p->waiting)
		rest_look(CONTAINER_OF(pos, struct request, waiting));
}

void proxy_partition_changed(struct proxy *p, const struct partition_owner *owner)
{
	if (p->live)
		live_changed(p->live);
	LIST_FOREACH(pos, tmp, &p->waiting) {
		struct request *r = CONTAINER_OF(pos, struct request, waiting);

		if (strcmp(r->uid, owner->uid) == 0)
			rest_look(r);
	}
}

void proxy_pods_changed(struct proxy *p)
{
	if (p->full)
		live_changed(p->live);
}

void proxy_set_partitions(struct proxy *p, struct partitions *partitions)
{
	p->partitions = partitions;
	view_forget_all(p);
	if (p->live) {
		live_set_partitions(p->live, partitions);
		stream_forget(p->stream);
	}
	LIST_FOREACH(pos, tmp, &p->waiting)
		rest_look(CONTAINER_OF(pos, struct request, waiting));
}

void proxy_set_leader(struct proxy *p, bool leading, const char *address)
{
	char *copy = xstrdup(address);

	/* Who begins to follow has been told nothing that still counts. */
	if (leading != p->leading) {
		follow_stop(p);
		if (!leading)
			told_forget(p);
	}
	free(p->leader);
	p->leader = copy;
	p->leading = leading;
	LIST_FOREACH(pos, tmp, &p->requests)
		forward_look(CONTAINER_OF(pos, struct request, link));
}

void proxy_set_node_labels(struct proxy *p, proxy_node_labels_fn *fn, void *arg)
{
	p->node_labels = fn;
	p->node_labels_arg = arg;
}

void proxy_set_peer_tls(struct proxy *p, struct tls_config *tls, const char *server_name)
{
	char *copy = xstrdup(server_name);

	tls_config_ref(tls);
	tls_config_unref(p->peer_tls);
	p->peer_tls = tls;
	free(p->peer_name);
	p->peer_name = copy;
}
