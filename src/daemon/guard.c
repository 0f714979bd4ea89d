/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's own restrictions, once everything is open: the seccomp filter as the configuration
 * has it, and what it refuses as a metric and in the log.
 */
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/confine.h"
#include "core/log.h"
#include "core/metrics.h"
#include "core/str.h"
#include "daemon/internal.h"

#define TELL_EVERY_MS 10000
#define LINE_BYTES    1024

struct guard {
	struct loop *loop;
	struct ev_async heard; /* what a signal's handler may set off */
	struct loop_timer again;
	unsigned long told[CONFINE_CALLS];
	struct metric *refused;
};

/* All since the last line, how long ago that was whatever. */
static void tell(struct guard *g)
{
	struct buf calls = BUF_INIT(LINE_BYTES);
	unsigned long n = 0;

	for (unsigned i = 0; i < CONFINE_CALLS; i++) {
		unsigned long now = confine_refused(i), more = now - g->told[i];

		if (more == 0)
			continue;
		n += more;
		g->told[i] = now;
		/* What has no room is in the sum. */
		(void)buf_printf(&calls, NULL, "%s%u*%lu", calls.len ? "," : "", i, more);
	}
	if (n > 0) {
		log_warn("daemon", NULL,
			 "the seccomp filter has refused system calls, which is a fault of the "
			 "operator's; \"seccomp: log\" lets them pass: calls=%.*s number=%lu",
			 STR_ARG(buf_str(&calls)), n);
		loop_timer_start_in(&g->again, TELL_EVERY_MS);
	}
	buf_done(&calls);
}

static void on_again(struct loop_timer *timer, void *arg)
{
	(void)timer;
	tell(arg);
}

static void on_heard(struct ev_loop *ev, struct ev_async *w, int revents)
{
	struct guard *g = w->data;

	(void)ev;
	(void)revents;
	if (!loop_timer_active(&g->again))
		tell(g);
}

/* In a signal's handler. */
static void wake(void *arg)
{
	struct guard *g = arg;

	ev_async_send(loop_ev(g->loop), &g->heard);
}

static void collect(void *arg)
{
	struct guard *g = arg;

	metric_set(g->refused, NULL, (double)confine_refused_in_all());
}

static enum confine_mode mode_of(const struct config *c)
{
	if (strcmp(c->seccomp, "off") == 0)
		return CONFINE_OFF;
	return strcmp(c->seccomp, "log") == 0 ? CONFINE_LOG : CONFINE_ENFORCE;
}

struct guard *guard_new(struct loop *loop, const struct config *c, bool awaits_ports)
{
	struct guard *g = xcalloc(1, sizeof(*g));
	struct confine_opts opts;
	struct err err;

	g->loop = loop;
	loop_timer_init(&g->again, loop, on_again, g);
	ev_async_init(&g->heard, on_heard);
	g->heard.data = g;
	ev_async_start(loop_ev(loop), &g->heard);
	g->refused = metric_new(METRIC_COUNTER, "ipu_operator_refused_calls_total",
				"System calls that the process's own filter has refused.", NULL,
				NULL, 0);
	metrics_on_collect(collect, g);
	/* A kernel without it, or a sandbox around us that has its own: the others hold. */
	opts = (struct confine_opts){.mode = mode_of(c),
				     .uses_devices = c->roles & ROLE_NODE,
				     .renames = awaits_ports,
				     .heard = wake,
				     .arg = g};
	if (confine_start(&opts, &err) < 0)
		log_warn("daemon", NULL, "goes on without a seccomp filter of its own: %s",
			 err.msg);
	return g;
}

void guard_free(struct guard *g)
{
	if (!g)
		return;
	tell(g);
	confine_hush();
	metrics_off_collect(collect, g);
	loop_timer_stop(&g->again);
	ev_async_stop(loop_ev(g->loop), &g->heard);
	free(g);
}
