/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work queue: an item a key, in one of the lists below or waiting on its timer.
 * Owns its items; runs are the owner's, who says when they have ended. Uses core/ and loop/.
 */
#include "kube/workqueue.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/map.h"
#include "core/metrics.h"
#include "loop/backoff.h"
#include "loop/pulse.h"

#define DEFAULT_BUDGET          32
#define DEFAULT_BACKOFF_BASE_MS 500
#define DEFAULT_BACKOFF_MAX_MS  (5 * 60000)

struct item {
	struct kube_workqueue *q;
	struct list link; /* in q->ready, else alone */
	struct loop_timer timer;
	struct backoff backoff;
	int64_t ready_us; /* since then it waits for its run */
	int64_t began_us; /* of the run */
	bool ready, running;
	bool again;        /* news came while it ran */
	bool again_polite; /* the same, but a back-off goes first */
	char key[];
};

struct kube_workqueue {
	struct loop *loop;
	const char *name;
	kube_work_fn *run;
	void *arg;
	unsigned budget, max_running;
	unsigned backoff_base_ms, backoff_max_ms;
	struct map *items;
	struct list ready;
	size_t n_ready, n_running;
	struct loop_work work;
	struct pulse pulse;
	bool paused;
};

static struct {
	struct metric *depth, *adds, *retries, *queued, *work, *unfinished, *longest;
	struct metric *active, *reconciles, *errors, *seconds;
} m;

/* As controller-runtime and client-go name them, whose dashboards and rules then fit. */
static void metrics_open(void)
{
	static const char *const name[] = {"name", NULL};
	static const char *const controller[] = {"controller", NULL};
	static const char *const by_result[] = {"controller", "result", NULL};
	static const double bounds[] = {0.0001, 0.001, 0.01, 0.1, 1, 10, 60, 600};
	const size_t n = sizeof(bounds) / sizeof(bounds[0]);

	if (m.depth)
		return;
	m.depth = metric_new(METRIC_GAUGE, "workqueue_depth",
			     "Keys that are ready and wait for their run.", name, NULL, 0);
	m.adds = metric_new(METRIC_COUNTER, "workqueue_adds_total",
			    "Keys that became ready for a run.", name, NULL, 0);
	m.retries = metric_new(METRIC_COUNTER, "workqueue_retries_total",
			       "Runs that failed and come again.", name, NULL, 0);
	m.queued = metric_new(METRIC_HISTOGRAM, "workqueue_queue_duration_seconds",
			      "How long keys were ready before their run.", name, bounds, n);
	m.work = metric_new(METRIC_HISTOGRAM, "workqueue_work_duration_seconds",
			    "From the beginning of a run to its end.", name, bounds, n);
	m.unfinished = metric_new(METRIC_GAUGE, "workqueue_unfinished_work_seconds",
				  "The time that the present runs have taken, all together.", name,
				  NULL, 0);
	m.longest = metric_new(METRIC_GAUGE, "workqueue_longest_running_processor_seconds",
			       "The time that the longest of the present runs has taken.", name,
			       NULL, 0);
	m.active = metric_new(METRIC_GAUGE, "controller_runtime_active_workers",
			      "Runs that have begun and not ended.", controller, NULL, 0);
	m.reconciles = metric_new(METRIC_COUNTER, "controller_runtime_reconcile_total",
				  "Runs that have ended, by result.", by_result, NULL, 0);
	m.errors = metric_new(METRIC_COUNTER, "controller_runtime_reconcile_errors_total",
			      "Runs that have failed.", controller, NULL, 0);
	m.seconds = metric_new(METRIC_HISTOGRAM, "controller_runtime_reconcile_time_seconds",
			       "From the beginning of a run to its end.", controller, bounds, n);
}

/* From the beginning, so that a first failure is seen to be one more. */
static void begin_series(const char *const *name)
{
	static const char *const results[] = {"success", "error"};

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		metric_add(m.reconciles, (const char *const[]){*name, results[i]}, 0);
	metric_add(m.errors, name, 0);
	metric_add(m.retries, name, 0);
	metric_add(m.adds, name, 0);
}

static void collect(void *arg)
{
	const struct kube_workqueue *q = arg;
	const char *const values[] = {q->name};
	struct map_iter it = MAP_ITER(q->items);
	int64_t now_us = clock_mono_us(), sum_us = 0, longest_us = 0;

	while (q->n_running > 0 && map_next(&it)) {
		const struct item *item = it.value;
		int64_t us = item->running ? now_us - item->began_us : 0;

		sum_us += us;
		longest_us = us > longest_us ? us : longest_us;
	}
	metric_set(m.depth, values, (double)q->n_ready);
	metric_set(m.active, values, (double)q->n_running);
	metric_set(m.unfinished, values, (double)sum_us / 1e6);
	metric_set(m.longest, values, (double)longest_us / 1e6);
}

/* Whether it has something to do: what the judge of its pulse asks. */
static void note_busy(struct kube_workqueue *q)
{
	q->pulse.busy = !q->paused && (q->n_ready > 0 || q->n_running > 0);
}

/* ---- items ---- */

static void item_free(struct item *it)
{
	struct kube_workqueue *q = it->q;
	loop_timer_stop(&it->timer);
	list_unlink(&it->link);
	q->n_ready -= it->ready;
	q->n_running -= it->running;
	note_busy(q);
	free(it);
}

static void item_drop(struct item *it)
{
	map_del(it->q->items, str_of(it->key));
	item_free(it);
}

static void kick(struct kube_workqueue *q)
{
	note_busy(q);
	if (!q->paused && q->n_ready > 0 && (q->max_running == 0 || q->n_running < q->max_running))
		loop_work_post(&q->work);
}

static void make_ready(struct item *it)
{
	struct kube_workqueue *q = it->q;
	loop_timer_stop(&it->timer);
	if (it->running) {
		it->again = true;
		return;
	}
	if (it->ready)
		return;
	it->ready = true;
	it->ready_us = clock_mono_us();
	q->n_ready++;
	metric_add(m.adds, &q->name, 1);
	list_append(&q->ready, &it->link);
	kick(q);
}

static void on_time(struct loop_timer *timer, void *arg)
{
	(void)timer;
	make_ready(arg);
}

static struct item *item_get(struct kube_workqueue *q, struct str key)
{
	struct item *it = map_get(q->items, key);
	if (it)
		return it;
	it = xcalloc(1, sizeof(*it) + key.len + 1);
	it->q = q;
	list_init(&it->link);
	loop_timer_init(&it->timer, q->loop, on_time, it);
	it->backoff = (struct backoff)BACKOFF_INIT(q->backoff_base_ms, q->backoff_max_ms);
	memcpy(it->key, key.p, key.len);
	map_put_borrowed(q->items, str_of(it->key), it);
	return it;
}

/* ---- running ---- */

static void run_ready(struct loop_work *work, void *arg)
{
	struct kube_workqueue *q = arg;
	(void)work;
	for (unsigned n = 0; n < q->budget && !q->paused && !list_empty(&q->ready) &&
			     (q->max_running == 0 || q->n_running < q->max_running);
	     n++) {
		struct item *it = CONTAINER_OF(q->ready.next, struct item, link);
		list_unlink(&it->link);
		it->ready = false;
		q->n_ready--;
		it->running = true;
		q->n_running++;
		it->began_us = clock_mono_us();
		metric_observe(m.queued, &q->name, (double)(it->began_us - it->ready_us) / 1e6);
		pulse_beat(&q->pulse);
		loop_about(q->loop, "work queue", q->name, it->key);
		/* The item may be gone when this returns. */
		q->run(q->arg, str_of(it->key));
	}
	kick(q);
}

static void count_run(const struct kube_workqueue *q, const struct item *it, const struct err *err)
{
	const char *const by_result[] = {q->name, err ? "error" : "success"};
	double seconds = (double)(clock_mono_us() - it->began_us) / 1e6;

	metric_add(m.reconciles, by_result, 1);
	metric_observe(m.work, &q->name, seconds);
	metric_observe(m.seconds, &q->name, seconds);
	metric_add(m.errors, &q->name, err ? 1 : 0);
	metric_add(m.retries, &q->name, err ? 1 : 0);
}

int64_t kube_workqueue_done(struct kube_workqueue *q, struct str key, const struct err *err)
{
	struct item *it = map_get(q->items, key);
	int64_t delay = 0;
	if (!it || !it->running || fault_lose("work queue", q->name))
		return 0;
	count_run(q, it, err);
	pulse_beat(&q->pulse);
	it->running = false;
	q->n_running--;
	kick(q); /* a place for others */
	bool again = it->again, polite = it->again_polite;
	it->again = it->again_polite = false;
	if (err) {
		delay = backoff_next_ms(&it->backoff, err);
		if (!loop_timer_active(&it->timer) || it->timer.at_ms > clock_mono_ms() + delay)
			loop_timer_start_in(&it->timer, delay);
	} else {
		backoff_reset(&it->backoff);
	}
	if (again || (polite && !err))
		make_ready(it);
	else if (!loop_timer_active(&it->timer))
		item_drop(it);
	return delay;
}

void kube_workqueue_step(struct kube_workqueue *q)
{
	pulse_beat(&q->pulse);
}

/* ---- runs of several calls ---- */

void kube_run_begin(struct kube_run *run)
{
	kube_run_cancel(run); /* what is left of one that was given up */
	run->calls = 1;
}

bool kube_run_call_ended(struct kube_run *run, struct kube_workqueue *q, const struct err *err,
			 struct err **ret)
{
	kube_workqueue_step(q);
	if (err && !run->err) {
		run->err = xcalloc(1, sizeof(*run->err));
		*run->err = *err;
	}
	if (--run->calls > 0)
		return false;
	*ret = run->err;
	run->err = NULL;
	return true;
}

void kube_run_cancel(struct kube_run *run)
{
	free(run->err);
	*run = (struct kube_run){0};
}

/* ---- adding ---- */

void kube_workqueue_add(struct kube_workqueue *q, struct str key)
{
	make_ready(item_get(q, key));
}

void kube_workqueue_add_after(struct kube_workqueue *q, struct str key, int64_t delay_ms)
{
	struct item *it = item_get(q, key);
	int64_t at_ms = clock_mono_ms() + (delay_ms > 0 ? delay_ms : 0);
	if (delay_ms <= 0) {
		make_ready(it);
		return;
	}
	if (!it->ready && (!loop_timer_active(&it->timer) || it->timer.at_ms > at_ms))
		loop_timer_start_at(&it->timer, at_ms);
}

void kube_workqueue_add_polite(struct kube_workqueue *q, struct str key)
{
	struct item *it = item_get(q, key);
	if (it->running)
		it->again_polite = true;
	else if (it->backoff.tries == 0 || !loop_timer_active(&it->timer))
		make_ready(it);
}

/* ---- looking ---- */

unsigned kube_workqueue_failures(const struct kube_workqueue *q, struct str key)
{
	const struct item *it = map_get(q->items, key);
	return it ? it->backoff.tries : 0;
}

size_t kube_workqueue_depth(const struct kube_workqueue *q)
{
	return q->n_ready;
}

size_t kube_workqueue_running(const struct kube_workqueue *q)
{
	return q->n_running;
}

size_t kube_workqueue_waiting(const struct kube_workqueue *q)
{
	struct map_iter it = MAP_ITER(q->items);
	size_t n = 0;
	while (map_next(&it)) {
		const struct item *item = it.value;
		n += loop_timer_active(&item->timer);
	}
	return n;
}

void kube_workqueue_pause(struct kube_workqueue *q)
{
	q->paused = true;
	note_busy(q);
}

void kube_workqueue_resume(struct kube_workqueue *q)
{
	q->paused = false;
	kick(q);
}

struct kube_workqueue *kube_workqueue_new(const struct kube_workqueue_opts *opts, kube_work_fn *run,
					  void *arg)
{
	struct kube_workqueue *q = xcalloc(1, sizeof(*q));
	q->loop = opts->loop;
	q->name = opts->name;
	q->run = run;
	q->arg = arg;
	q->budget = opts->budget ? opts->budget : DEFAULT_BUDGET;
	q->max_running = opts->max_running;
	q->backoff_base_ms = opts->backoff_base_ms ? opts->backoff_base_ms
						   : DEFAULT_BACKOFF_BASE_MS;
	q->backoff_max_ms = opts->backoff_max_ms ? opts->backoff_max_ms : DEFAULT_BACKOFF_MAX_MS;
	q->items = map_new();
	list_init(&q->ready);
	loop_work_init(&q->work, q->loop, run_ready, q);
	pulse_start(&q->pulse, "work queue", q->name, opts->step_s);
	metrics_open();
	begin_series(&q->name);
	metrics_on_collect(collect, q);
	return q;
}

void kube_workqueue_free(struct kube_workqueue *q)
{
	if (!q)
		return;
	metrics_off_collect(collect, q);
	pulse_stop(&q->pulse);
	loop_work_cancel(&q->work);
	struct map_iter it = MAP_ITER(q->items);
	while (map_next(&it))
		item_free(it.value);
	map_free(q->items);
	free(q);
}
