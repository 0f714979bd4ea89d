/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a run of an instance ends, and whether another one follows. Only what is remembered changes
 * here: it's stored before anything is done about it, so that no crash makes an end happen twice,
 * or not at all.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/intern.h"
#include "core/str.h"
#include "job/plan_impl.h"
#include "job/status.h"

#define WORDS_MAX   511
#define TRIES_MAX   100    /* any back-off is at its longest long before */
#define LONG_RUN_MS 600000 /* who ran for so long begins with the shortest back-off again */

static void say(struct job_instance *mem, const char *message)
{
	CLEANUP_FREE char *words = xstrdup(message);

	if (words)
		job_status_clean(words, WORDS_MAX);
	intern_drop(mem->message);
	mem->message = intern_z(words);
}

static int64_t back_off_ms(const struct job_timing *t, uint32_t n)
{
	int64_t ms = t->backoff_ms;

	while (n-- > 1 && ms > 0 && ms < t->backoff_max_ms)
		ms *= 2;
	return ms < t->backoff_max_ms ? ms : t->backoff_max_ms;
}

/* The status has whole seconds: upwards, since a back-off is what is waited at least. */
static int64_t retry_ms(const struct work *w, uint32_t n)
{
	int64_t at_ms = w->v->now_ms + back_off_ms(w->v->timing, n);

	return (at_ms + 999) / 1000 * 1000;
}

static void end_run(struct gang *g, enum job_instance_phase phase, bool yields)
{
	g->mem->phase = phase;
	g->mem->over = true;
	g->mem->yields = yields;
	g->mem->since_ms = g->mem->running_ms = 0;
}

static void end_for_good(struct gang *g, enum job_instance_phase phase, const char *message)
{
	end_run(g, phase, false);
	g->mem->over = false;
	g->mem->retry_ms = 0;
	g->mem->tries = 0;
	say(g->mem, message);
}

static bool wants_another(const struct job *job, int exit_code)
{
	switch (job->restart) {
	case JOB_RESTART_ALWAYS:
	case JOB_RESTART_ON_FAILURE:
		return true;
	case JOB_RESTART_EXIT_CODE:
		return exit_code >= 0 && exit_code <= 255 &&
		       job->restart_codes[exit_code / 8] >> (exit_code % 8) & 1;
	default:
		return false;
	}
}

static void restart(struct work *w, struct gang *g, bool yields, const char *message)
{
	struct job_instance *mem = g->mem;
	bool long_run = mem->running_ms && w->v->now_ms - mem->running_ms >= LONG_RUN_MS;

	end_run(g, JOB_INSTANCE_RESTARTING, yields);
	mem->restarts++;
	mem->retry_ms = retry_ms(w, long_run ? 1 : mem->restarts);
	say(mem, message);
}

void job_run_failed(struct work *w, struct gang *g, int exit_code, bool yields, const char *fmt,
		    ...)
{
	char message[1024];
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	n = str_of(message).len;
	if (!wants_another(w->job, exit_code)) {
		if (w->job->restart == JOB_RESTART_EXIT_CODE)
			snprintf(message + n, sizeof(message) - n,
				 "; exit code %d isn't one of those that lead to a restart",
				 exit_code);
		end_for_good(g, JOB_INSTANCE_FAILED, message);
	} else if (g->mem->restarts >= w->job->backoff_limit) {
		snprintf(message + n, sizeof(message) - n,
			 "; BackoffLimitExceeded: it was restarted %" PRIu32
			 " time%s, and backOffLimit is %" PRIu32,
			 g->mem->restarts, g->mem->restarts == 1 ? "" : "s", w->job->backoff_limit);
		end_for_good(g, JOB_INSTANCE_FAILED, message);
	} else {
		restart(w, g, yields, message);
	}
}

void job_run_succeeded(struct work *w, struct gang *g)
{
	if (w->job->restart == JOB_RESTART_ALWAYS && !w->job->interactive &&
	    g->mem->restarts < w->job->backoff_limit)
		restart(w, g, false, "it has completed, and its restartPolicy is Always");
	else
		end_for_good(g, JOB_INSTANCE_SUCCEEDED, NULL);
}

void job_run_given_up(struct work *w, struct gang *g, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	(void)w;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	end_for_good(g, JOB_INSTANCE_FAILED, message);
}

void job_run_unstartable(struct work *w, struct gang *g, bool counts, const char *why)
{
	struct job_instance *mem = g->mem;

	if (counts && mem->restarts >= w->job->backoff_limit) {
		job_run_given_up(
			w, g, "%s; BackoffLimitExceeded: it couldn't be started %" PRIu32 " time%s",
			why, mem->restarts + 1, mem->restarts == 0 ? "" : "s");
		return;
	}
	end_run(g, JOB_INSTANCE_RESTARTING, true);
	mem->restarts += counts;
	mem->tries += mem->tries < TRIES_MAX;
	mem->retry_ms = retry_ms(w, mem->tries);
	say(mem, why);
}

void job_run_renew(struct gang *g, bool yields, const char *message)
{
	end_run(g, JOB_INSTANCE_WAITING, yields);
	g->mem->retry_ms = 0;
	say(g->mem, message);
}

void job_run_next(struct gang *g)
{
	struct job_instance *mem = g->mem;

	mem->over = mem->yields = mem->complete = false;
	mem->run = mem->run < INT32_MAX ? mem->run + 1
					: 1; /* another than the last one's is enough */
}
