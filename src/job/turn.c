/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a status is written: one that only says how far a job has come on its way to its Pods gives
 * way to the requests that bring jobs further, and then has them all in one. Uses core/ and loop/.
 */
#include "core/clock.h"
#include "job/internal.h"

#define AT_ONCE 8    /* statuses on their way: as many as requests go at a time */
#define MOST_MS 2000 /* so long one gives way at most */

/* Nothing is done about it once it's stored, but that people read it. */
static bool is_only_news(const struct job *job, const struct job_status *want)
{
	if (!job_condition_on(want, JOB_PENDING))
		return false;
	for (int stage = JOB_PENDING + 1; stage < JOB_STAGES; stage++) {
		if (job_condition_on(&job->status, stage))
			return false;
	}
	for (size_t i = 0; i < want->n_instances; i++) {
		const struct job_instance *to = &want->instances[i];
		const struct job_instance *from = job_memory(job, (uint32_t)i);

		if (to->phase != from->phase || to->run != from->run || to->over != from->over ||
		    to->restarts != from->restarts || to->tries != from->tries)
			return false;
	}
	return true;
}

static bool has_waited(const struct job_ctx *ctx)
{
	return ctx->news_since_ms && clock_mono_ms() - ctx->news_since_ms >= MOST_MS;
}

static bool is_quiet(const struct job_controller *c)
{
	return c->n_calls == c->n_statuses;
}

bool job_turn_take(struct job_ctx *ctx, const struct job *job, const struct job_status *want)
{
	struct job_controller *c = ctx->c;
	bool first = !ctx->news_since_ms;

	list_unlink(&ctx->news);
	if (ctx->trouble || !is_only_news(job, want) || has_waited(ctx) ||
	    (is_quiet(c) && c->n_statuses < AT_ONCE)) {
		ctx->news_since_ms = 0;
		return true;
	}
	if (first)
		ctx->news_since_ms = clock_mono_ms();
	/* One that had its turn, and then hadn't, waits longer than all others. */
	list_append(first ? &c->news : c->news.next, &ctx->news);
	if (!loop_timer_active(&c->news_timer))
		loop_timer_start_at(&c->news_timer, ctx->news_since_ms + MOST_MS);
	return false;
}

static struct job_ctx *first_in_line(const struct job_controller *c)
{
	return list_empty(&c->news) ? NULL : CONTAINER_OF(c->news.next, struct job_ctx, news);
}

/* A pass makes it anew, as it is then: not before a back-off, since it does all else too. */
static void give_turn(struct job_ctx *ctx)
{
	list_unlink(&ctx->news);
	kube_workqueue_add_polite(ctx->c->queue, str_of(ctx->key));
}

void job_turn_next(struct job_controller *c)
{
	unsigned n = c->n_statuses;
	struct job_ctx *ctx;

	while (is_quiet(c) && n++ < AT_ONCE && (ctx = first_in_line(c)))
		give_turn(ctx);
}

void job_turn_leave(struct job_ctx *ctx)
{
	if (!ctx->news_since_ms)
		return;
	list_unlink(&ctx->news);
	ctx->news_since_ms = 0;
	job_turn_next(ctx->c);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct job_controller *c = arg;
	struct job_ctx *ctx = first_in_line(c);

	while (ctx && has_waited(ctx)) {
		give_turn(ctx);
		ctx = first_in_line(c);
	}
	if (ctx)
		loop_timer_start_at(timer, ctx->news_since_ms + MOST_MS);
}

void job_turn_init(struct job_controller *c)
{
	list_init(&c->news);
	loop_timer_init(&c->news_timer, c->opts.loop, on_timer, c);
}

void job_turn_done(struct job_controller *c)
{
	loop_timer_stop(&c->news_timer);
}
