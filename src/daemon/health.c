/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /healthz: would a new process do better than this one? The answer comes from the loop itself, so
 * a loop that is stuck gives none, and the probe times out. A loop that turns while something in it
 * doesn't get on is told here. What is outside (an API server, a controller that is away) is no
 * reason: it would be away for a new process, too. /readyz: what of each role can't be used yet.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "loop/pulse.h"

#define MAX_TICK_MS 10000
#define MAX_TEXT    16384

struct health {
	struct daemon *d;
	struct loop_timer timer;
	unsigned tick_ms;
	int64_t due_ms;
	struct loop_work late_work;
	bool is_late; /* after the timers of a turn had run */
};

static struct metric *stuck_metric, *proxy_metric;

/* ---- /healthz ---- */

static void on_tick(struct loop_timer *timer, void *arg)
{
	struct health *h = arg;

	(void)timer;
	h->is_late = false;
	pulses_tick();
	h->due_ms = clock_mono_ms() + h->tick_ms;
	loop_timer_start_at(&h->timer, h->due_ms);
}

static bool tick_is_late(const struct health *h)
{
	return clock_mono_ms() - h->due_ms > (int64_t)h->d->config->stuck_s * 1000;
}

static void on_late(struct loop_work *work, void *arg)
{
	struct health *h = arg;

	(void)work;
	h->is_late = tick_is_late(h);
}

/* A turn reads requests, then runs timers, then posted work: only who is late then is late, not who
 * is asked early in a turn after a pause, or on a clock that has jumped. */
static bool timers_are_late(struct health *h)
{
	if (tick_is_late(h))
		loop_work_post(&h->late_work);
	return h->is_late;
}

bool health_is_stuck(struct daemon *d, struct err *why)
{
	unsigned stuck_s = (unsigned)d->config->stuck_s;
	const struct pulse *p = pulses_stuck(stuck_s, d->health->tick_ms);

	if (timers_are_late(d->health))
		err_set(why, ERR_INTERNAL, 0, "timers don't run: one is late by more than %u s",
			stuck_s);
	else if (p)
		err_set(why, ERR_INTERNAL, 0, "%s %s: nothing has moved there for %u s", p->kind,
			p->name, stuck_s + p->patience_s);
	else
		return false;
	return true;
}

static void collect(void *arg)
{
	const struct daemon *d = arg;
	struct err why;

	metric_set(stuck_metric, NULL, health_is_stuck(arg, &why));
	if (d->remote)
		metric_set(proxy_metric, NULL, partition_remote_error(d->remote)->kind == ERR_NONE);
	else
		metric_clear(proxy_metric);
}

static void handle_healthz(struct http_exchange *ex, void *arg)
{
	struct err why;

	if (health_is_stuck(arg, &why))
		http_reply_problem(ex, 503, "%s", why.msg);
	else
		http_reply(ex, 200, "text/plain; charset=utf-8", NULL, 0, STR("ok\n"));
}

/* ---- /readyz ---- */

/* Each says of its part whether it can be used; if not, why. With a reason and yet true: the
 * process is of use without it. */
typedef bool ready_fn(const struct daemon *d, struct err *why);

static bool process_ready(const struct daemon *d, struct err *why)
{
	if (d->stopping)
		err_set(why, ERR_UNAVAILABLE, 0, "stopping");
	return !d->stopping;
}

/* Others may reach it, and who asks here needs it. */
static bool api_ready(const struct daemon *d, struct err *why)
{
	int64_t silence_ms = kube_client_silence_ms(d->kube);

	if (silence_ms < KUBE_SILENT_MS)
		return true;
	err_set(why, ERR_UNAVAILABLE, 0, "no word from the API server for %" PRId64 " s",
		silence_ms / 1000);
	return false;
}

static bool lead_ready(const struct daemon *d, struct err *why)
{
	if (d->lease && kube_lease_error(d->lease)) {
		err_set(why, ERR_UNAVAILABLE, 0, "%s", kube_lease_error(d->lease)->msg);
		return false;
	}
	/* Nobody has led yet, and this one could: it's a matter of seconds. */
	if (!d->leading && d->lease && !kube_lease_holder(d->lease)[0]) {
		err_set(why, ERR_UNAVAILABLE, 0, "no process leads yet");
		return false;
	}
	return true;
}

static bool cert_ready(const struct daemon *d, struct err *why)
{
	if (!d->cert || cert_tls(d->cert))
		return true;
	err_set(why, ERR_UNAVAILABLE, 0, "there is none yet");
	return false;
}

static bool proxy_ready(const struct daemon *d, struct err *why)
{
	if (d->controllers && controllers_check(d->controllers, why) < 0)
		return false;
	if (d->partitions && !partitions_synced(d->partitions)) {
		err_set(why, ERR_UNAVAILABLE, 0, "the partition tracker hasn't been read yet");
		return false;
	}
	return true;
}

/* It asks another process for partitions. The API server needs whoever has the webhooks, whether
 * that one is there or not. */
static bool link_ready(const struct daemon *d, struct err *why)
{
	if (!d->remote || partition_remote_error(d->remote)->kind == ERR_NONE)
		return true;
	err_set(why, ERR_UNAVAILABLE, 0, "%s", partition_remote_error(d->remote)->msg);
	return d->webhook != NULL;
}

static bool controller_ready(const struct daemon *d, struct err *why)
{
	if (d->remote && d->webhook) {
		const struct partition_service *ps = partition_remote_service(d->remote);

		if (!ps->ops->synced(ps))
			return true; /* as above: it still waits for the proxy's answers */
	}
	return (!d->jobs || job_controller_ready(d->jobs, why)) &&
	       (!d->pods || pod_controller_ready(d->pods, why));
}

static bool webhooks_ready(const struct daemon *d, struct err *why)
{
	return !d->webhook || webhook_ready(d->webhook, why);
}

static bool scheduler_ready(const struct daemon *d, struct err *why)
{
	return advert_ready(d, why);
}

static const struct part {
	const char *name;
	unsigned roles; /* of which it's a part; 0: of every process */
	ready_fn *ready;
} parts[] = {
	{"process", 0, process_ready},
	{"api", 0, api_ready},
	{"leadership", ROLE_CONTROLLER | ROLE_PROXY, lead_ready},
	{"proxy", ROLE_CONTROLLER, link_ready},
	{"proxy", ROLE_PROXY, proxy_ready},
	{"certificates", 0, cert_ready},
	{"controller", ROLE_CONTROLLER, controller_ready},
	{"webhook", ROLE_WEBHOOK, webhooks_ready},
	{"node", ROLE_NODE, node_ready},
	{"nodes", ROLE_PROXY, scheduler_ready},
};
#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

static bool has_part(const struct daemon *d, const struct part *p)
{
	if (p->ready == scheduler_ready && !d->advert)
		return false;
	if (p->ready == link_ready && (d->config->roles & ROLE_PROXY))
		return false;
	return !p->roles || (p->roles & d->config->roles);
}

/* "part: why" of each that isn't ready; what already begins with its part's name stays as it is. */
static void write_reason(const char *name, const struct err *why, struct buf *out)
{
	bool named = str_has_prefix(str_of(why->msg), str_of(name)) || strcmp(name, "process") == 0;

	buf_printf(out, NULL, "%s%s%s%s", out->len ? "; " : "", named ? "" : name,
		   named ? "" : ": ", why->msg);
}

static void write_line(const char *name, bool ready, const struct err *why, struct buf *out)
{
	if (why->kind == ERR_NONE)
		buf_printf(out, NULL, "[+]%s ok\n", name);
	else
		buf_printf(out, NULL, "[%c]%s %s: %s\n", ready ? '!' : '-', name,
			   ready ? "degraded" : "failed", why->msg);
}

static void write_member(const char *name, bool ready, const struct err *why, struct buf *out)
{
	buf_printf(out, NULL, "%s{\"name\":\"%s\",\"ready\":%s", out->len ? "," : "", name,
		   ready ? "true" : "false");
	if (why->kind != ERR_NONE) {
		buf_append(out, ",\"reason\":", strlen(",\"reason\":"), NULL);
		json_write_str(str_of(why->msg), out, NULL);
	}
	buf_append(out, "}", 1, NULL);
}

bool health_is_ready(const struct daemon *d, struct err *why)
{
	struct buf reasons = BUF_INIT(1000);

	for (size_t i = 0; i < N_PARTS; i++) {
		struct err reason = ERR_INIT;

		if (has_part(d, &parts[i]) && !parts[i].ready(d, &reason))
			write_reason(parts[i].name, &reason, &reasons);
	}
	if (reasons.len)
		err_set(why, ERR_UNAVAILABLE, 0, "%.*s", STR_ARG(buf_str(&reasons)));
	bool ready = reasons.len == 0;
	buf_done(&reasons);
	return ready;
}

static void handle_readyz(struct http_exchange *ex, void *arg)
{
	struct daemon *d = arg;
	struct buf lines = BUF_INIT(MAX_TEXT);
	struct buf members = BUF_INIT(MAX_TEXT), json = BUF_INIT(MAX_TEXT + 100);
	bool wants_json = http_headers_has_token(ex->headers, "accept", "application/json");
	bool verbose = http_query_bool(ex->query, "verbose", false);
	struct err reasons;
	bool ready = health_is_ready(d, &reasons);
	bool silent = kube_client_silence_ms(d->kube) >= KUBE_SILENT_MS;

	/* Who is told so takes it out of its Service: clients then go elsewhere with their next
	 * answer, and not when their connections end some day. Without the API server that answer
	 * would be none, so they go at once. */
	http_server_leave(d->server, !ready);
	if (silent)
		http_server_drop_idle(d->server);
	webhook_leave(d->webhook, !ready, silent);
	advert_leave(d, !ready);
	for (size_t i = 0; i < N_PARTS; i++) {
		struct err why = ERR_INIT;
		bool good;

		if (!has_part(d, &parts[i]))
			continue;
		good = parts[i].ready(d, &why);
		write_line(parts[i].name, good, &why, &lines);
		write_member(parts[i].name, good, &why, &members);
	}
	buf_printf(&lines, NULL, "readyz check %s\n", ready ? "passed" : "failed");
	buf_printf(&json, NULL, "{\"ready\":%s,\"parts\":[%.*s]}\n", ready ? "true" : "false",
		   STR_ARG(buf_str(&members)));
	if (wants_json)
		http_reply(ex, ready ? 200 : 503, "application/json", NULL, 0, buf_str(&json));
	else if (verbose)
		http_reply(ex, ready ? 200 : 503, "text/plain; charset=utf-8", NULL, 0,
			   buf_str(&lines));
	else if (ready)
		http_reply(ex, 200, "text/plain; charset=utf-8", NULL, 0, STR("ok\n"));
	else
		http_reply_problem(ex, 503, "%s", reasons.msg);
	buf_done(&lines);
	buf_done(&members);
	buf_done(&json);
}

void health_handle(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_GET, "/healthz", handle_healthz},
		{HTTP_METHOD_GET, "/readyz", handle_readyz},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}

/* ---- life ---- */

void health_start(struct daemon *d)
{
	struct health *h = xcalloc(1, sizeof(*h));
	int64_t tick_ms = (int64_t)d->config->stuck_s * 1000 / 10;

	d->health = h;
	h->d = d;
	h->tick_ms = (unsigned)(tick_ms < MAX_TICK_MS ? tick_ms : MAX_TICK_MS);
	loop_timer_init(&h->timer, d->loop, on_tick, h);
	loop_work_init(&h->late_work, d->loop, on_late, h);
	h->due_ms = clock_mono_ms() + h->tick_ms;
	loop_timer_start_at(&h->timer, h->due_ms);
	stuck_metric = metric_new(METRIC_GAUGE, "ipu_operator_loop_stuck",
				  "1: /healthz says that this process is stuck.", NULL, NULL, 0);
	proxy_metric = metric_new(METRIC_GAUGE, "ipu_operator_proxy_up",
				  "0: this process waits for a proxy that can't be asked.", NULL,
				  NULL, 0);
	metrics_on_collect(collect, d);
}

void health_stop(struct daemon *d)
{
	if (!d->health)
		return;
	metrics_off_collect(collect, d);
	loop_timer_stop(&d->health->timer);
	loop_work_cancel(&d->health->late_work);
	free(d->health);
	d->health = NULL;
}
