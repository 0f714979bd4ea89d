/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work queue on a loop with a frozen clock: order, one run a key at a time, budget, back-off,
 * news while running, politeness, a pause.
 */
#include "kube/workqueue.h"

#include "core/clock.h"
#include "core/fault.h"
#include "core/metrics.h"
#include "core/rand.h"
#include "loop/pulse.h"
#include "tap.h"

#define KEY(z) str_of(z)
#define STEP_S 30

struct fixture {
	struct loop *loop;
	struct kube_workqueue *q;
	char ran[2000]; /* the keys, in their order */
	bool finish;    /* each run ends at once */
	struct err *fail;
	const char *add_within; /* added from within a run */
};

static void run(void *arg, struct str key)
{
	struct fixture *f = arg;
	size_t used = strlen(f->ran);
	snprintf(f->ran + used, sizeof(f->ran) - used, "%.*s ", STR_ARG(key));
	if (f->add_within) {
		const char *z = f->add_within;
		f->add_within = NULL;
		kube_workqueue_add(f->q, KEY(z));
	}
	if (f->finish)
		kube_workqueue_done(f->q, key, f->fail);
}

static void setup(struct fixture *f, unsigned budget, unsigned max_running)
{
	struct err err = ERR_INIT;
	clock_freeze(1000000, 1700000000000);
	rand_seed(7);
	*f = (struct fixture){.finish = true};
	if (loop_new(&f->loop, &err) < 0)
		bail_out(err.msg);
	struct kube_workqueue_opts opts = {
		.loop = f->loop,
		.name = "test",
		.budget = budget,
		.max_running = max_running,
		.backoff_base_ms = 1000,
		.backoff_max_ms = 8000,
		.step_s = STEP_S,
	};
	f->q = kube_workqueue_new(&opts, run, f);
}

static void teardown(struct fixture *f)
{
	kube_workqueue_free(f->q);
	loop_free(f->loop);
}

static void turns(struct fixture *f, int n)
{
	while (n-- > 0)
		loop_turn(f->loop, 0);
}

static void test_order(void)
{
	struct fixture f;
	setup(&f, 0, 0);
	kube_workqueue_add(f.q, KEY("a"));
	kube_workqueue_add(f.q, KEY("b"));
	kube_workqueue_add(f.q, KEY("a"));
	is_str(f.ran, "", "never from within add");
	is_uint(kube_workqueue_depth(f.q), 2, "each key once");
	turns(&f, 3);
	is_str(f.ran, "a b ", "in their order");
	is_uint(kube_workqueue_depth(f.q) + kube_workqueue_running(f.q) +
			kube_workqueue_waiting(f.q),
		0, "nothing stays");
	teardown(&f);
}

static void test_budget(void)
{
	struct fixture f;
	char key[16];
	setup(&f, 3, 0);
	for (int i = 0; i < 7; i++) {
		snprintf(key, sizeof(key), "%d", i);
		kube_workqueue_add(f.q, KEY(key));
	}
	turns(&f, 1);
	is_str(f.ran, "0 1 2 ", "three in the first turn");
	turns(&f, 1);
	is_str(f.ran, "0 1 2 3 4 5 ", "three in the second");
	turns(&f, 1);
	is_str(f.ran, "0 1 2 3 4 5 6 ", "the rest in the third");
	teardown(&f);
}

static void test_one_run(void)
{
	struct fixture f;
	setup(&f, 0, 0);
	f.finish = false;
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 1);
	is_uint(kube_workqueue_running(f.q), 1, "it runs");
	kube_workqueue_add(f.q, KEY("a"));
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 3);
	is_str(f.ran, "a ", "no second run beside it");
	kube_workqueue_done(f.q, KEY("a"), NULL);
	turns(&f, 2);
	is_str(f.ran, "a a ", "one more after it");
	kube_workqueue_done(f.q, KEY("a"), NULL);
	kube_workqueue_done(f.q, KEY("a"), NULL);
	turns(&f, 2);
	is_str(f.ran, "a a ", "and no more");
	f.finish = true;
	f.add_within = "a";
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 3);
	is_str(f.ran, "a a a a ", "added from within its own run");
	teardown(&f);
}

static void test_max_running(void)
{
	struct fixture f;
	setup(&f, 0, 2);
	f.finish = false;
	kube_workqueue_add(f.q, KEY("a"));
	kube_workqueue_add(f.q, KEY("b"));
	kube_workqueue_add(f.q, KEY("c"));
	turns(&f, 3);
	is_str(f.ran, "a b ", "two at a time");
	is_uint(kube_workqueue_depth(f.q), 1, "one waits");
	kube_workqueue_done(f.q, KEY("b"), NULL);
	turns(&f, 2);
	is_str(f.ran, "a b c ", "the next when one has ended");
	teardown(&f);
}

static void test_backoff(void)
{
	struct fixture f;
	struct err err = {.kind = ERR_UNAVAILABLE};
	setup(&f, 0, 0);
	f.finish = false;
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 1);
	int64_t last = 0;
	for (unsigned i = 1; i <= 6; i++) {
		int64_t top = i > 4 ? 8000 : 1000 << (i - 1);
		int64_t delay = kube_workqueue_done(f.q, KEY("a"), &err);
		ok(delay >= top / 2 && delay <= top, "failure %u: %lld ms within %lld/2 and %lld",
		   i, (long long)delay, (long long)top, (long long)top);
		is_uint(kube_workqueue_failures(f.q, KEY("a")), i, "counted");
		clock_advance(delay - 1);
		turns(&f, 2);
		is_uint(kube_workqueue_running(f.q), 0, "not yet");
		clock_advance(1);
		turns(&f, 2);
		is_uint(kube_workqueue_running(f.q), 1, "now");
		last = delay;
	}
	(void)last;
	err.retry_after_ms = 60000;
	is_int(kube_workqueue_done(f.q, KEY("a"), &err), 60000, "a longer Retry-After wins");
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 2);
	is_uint(kube_workqueue_running(f.q), 1, "news cut it short");
	is_uint(kube_workqueue_failures(f.q, KEY("a")), 7, "the failures stay");
	kube_workqueue_done(f.q, KEY("a"), NULL);
	is_uint(kube_workqueue_failures(f.q, KEY("a")), 0, "success forgets them");
	turns(&f, 2);
	is_uint(kube_workqueue_waiting(f.q), 0, "nothing waits");
	teardown(&f);
}

static void test_polite(void)
{
	struct fixture f;
	struct err err = {.kind = ERR_UNAVAILABLE};
	setup(&f, 0, 0);
	kube_workqueue_add_polite(f.q, KEY("a"));
	turns(&f, 2);
	is_str(f.ran, "a ", "at once without failures");
	f.finish = false;
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 1);
	kube_workqueue_add_polite(f.q, KEY("a"));
	int64_t delay = kube_workqueue_done(f.q, KEY("a"), &err);
	kube_workqueue_add_polite(f.q, KEY("a"));
	turns(&f, 2);
	is_str(f.ran, "a a ", "it doesn't cut a back-off short");
	clock_advance(delay);
	turns(&f, 2);
	is_str(f.ran, "a a a ", "the back-off's end does");
	kube_workqueue_add_polite(f.q, KEY("a"));
	kube_workqueue_done(f.q, KEY("a"), NULL);
	turns(&f, 2);
	is_str(f.ran, "a a a a ", "after a run that went well it's at once");
	teardown(&f);
}

static void test_after(void)
{
	struct fixture f;
	setup(&f, 0, 0);
	kube_workqueue_add_after(f.q, KEY("a"), 5000);
	kube_workqueue_add_after(f.q, KEY("a"), 9000);
	kube_workqueue_add_after(f.q, KEY("b"), 9000);
	kube_workqueue_add_after(f.q, KEY("b"), 2000);
	kube_workqueue_add_after(f.q, KEY("c"), 0);
	is_uint(kube_workqueue_waiting(f.q), 2, "two wait");
	turns(&f, 2);
	is_str(f.ran, "c ", "no delay: at once");
	clock_advance(2000);
	turns(&f, 2);
	is_str(f.ran, "c b ", "the earliest wins");
	clock_advance(3000);
	turns(&f, 2);
	is_str(f.ran, "c b a ", "also where it was the first");
	clock_advance(10000);
	turns(&f, 2);
	is_str(f.ran, "c b a ", "and each only once");
	f.finish = false;
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 1);
	kube_workqueue_add_after(f.q, KEY("a"), 1000);
	kube_workqueue_done(f.q, KEY("a"), NULL);
	is_uint(kube_workqueue_waiting(f.q), 1, "asked for within a run");
	clock_advance(1000);
	turns(&f, 2);
	is_str(f.ran, "c b a a a ", "it comes");
	kube_workqueue_add_after(f.q, KEY("a"), 500);
	clock_advance(500);
	turns(&f, 2);
	is_str(f.ran, "c b a a a ", "due while it runs: not beside it");
	kube_workqueue_done(f.q, KEY("a"), NULL);
	turns(&f, 2);
	is_str(f.ran, "c b a a a a ", "but after it");
	teardown(&f);
}

static void test_pause(void)
{
	struct fixture f;
	struct err err = {.kind = ERR_INTERNAL};
	setup(&f, 0, 0);
	f.finish = false;
	kube_workqueue_pause(f.q);
	kube_workqueue_add(f.q, KEY("z"));
	turns(&f, 3);
	is_str(f.ran, "", "paused: nothing runs");
	is_uint(kube_workqueue_depth(f.q), 1, "but it's kept");
	kube_workqueue_resume(f.q);
	turns(&f, 1);
	is_str(f.ran, "z ", "resumed");

	struct buf out = BUF_INIT(1 << 20);
	kube_workqueue_add(f.q, KEY("y"));
	is_int(metrics_write(&out, METRICS_TEXT, &err), 0, "metrics");
	CLEANUP_FREE char *text = buf_steal(&out, &(size_t){0});
	has_str(text, "workqueue_depth{name=\"test\"} 1", "the depth");
	has_str(text, "controller_runtime_active_workers{controller=\"test\"} 1", "the runs");
	has_str(text, "controller_runtime_reconcile_total{controller=\"test\",result=\"error\"} ",
		"the failures");
	has_str(text, "workqueue_longest_running_processor_seconds{name=\"test\"} ",
		"how long the longest has taken");
	teardown(&f);
}

static void seconds(unsigned n)
{
	while (n-- > 0)
		pulses_tick();
}

/* A run that waits for calls isn't stuck before a call's deadline; one whose end is lost is. */
static void test_pulse(void)
{
	struct fixture f;

	setup(&f, 0, 0);
	f.finish = false;
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 1);
	for (int i = 0; i < 3; i++) {
		seconds(STEP_S);
		ok(!pulses_stuck(1, 1000), "a call that lasts to its deadline");
		kube_workqueue_step(f.q);
	}
	fault_set("lose:work queue:other");
	kube_workqueue_done(f.q, KEY("a"), NULL);
	seconds(100);
	ok(!pulses_stuck(1, 1000), "it has ended");

	fault_set("lose:work queue:test");
	kube_workqueue_add(f.q, KEY("a"));
	turns(&f, 1);
	kube_workqueue_done(f.q, KEY("a"), NULL);
	fault_set(NULL);
	is_uint(kube_workqueue_running(f.q), 1, "an end that isn't heard of");
	seconds(STEP_S); /* the first of which saw it begin */
	ok(!pulses_stuck(1, 1000), "not yet");
	seconds(2);
	ok(pulses_stuck(1, 1000) != NULL, "it's stuck");
	kube_workqueue_done(f.q, KEY("a"), NULL);
	seconds(1);
	ok(!pulses_stuck(1, 1000), "it gets on");
	teardown(&f);
}

static void test_calls(void)
{
	struct kube_run r = {0};
	struct err first = ERR_INIT, second = ERR_INIT, *got = NULL;
	struct fixture f;

	setup(&f, 0, 0);
	err_set(&first, ERR_BUSY, 429, "first");
	err_set(&second, ERR_DENIED, 403, "second");
	kube_run_begin(&r);
	r.calls += 2;
	ok(!kube_run_call_ended(&r, f.q, &first, &got), "one of three has ended");
	ok(!kube_run_call_ended(&r, f.q, &second, &got), "two");
	ok(kube_run_call_ended(&r, f.q, NULL, &got), "all");
	ok(got && strcmp(got->msg, "first") == 0, "the first error is the run's");
	free(got);
	kube_run_begin(&r);
	ok(kube_run_call_ended(&r, f.q, NULL, &got) && !got, "the next run knows nothing of it");
	kube_run_begin(&r);
	r.calls++;
	kube_run_call_ended(&r, f.q, &first, &got);
	kube_run_cancel(&r);
	kube_run_begin(&r);
	ok(kube_run_call_ended(&r, f.q, NULL, &got) && !got, "nor of one that was given up");
	teardown(&f);
}

int main(void)
{
	test_order();
	test_budget();
	test_one_run();
	test_max_running();
	test_backoff();
	test_polite();
	test_after();
	test_pause();
	test_pulse();
	test_calls();
	return done_testing();
}
