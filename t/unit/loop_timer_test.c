/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers on a frozen clock: order, moving, stopping from within callbacks, and a heap of many
 * against a plain list.
 */
#include "tap.h"

#include "core/clock.h"
#include "core/rand.h"
#include "loop/loop.h"

#define N_MANY 2000

static struct loop *loop;
static char trace[256];

struct named {
	struct loop_timer timer;
	char name;
	struct named *stops;
	int64_t restart_ms; /* < 0: doesn't */
	bool restarts_past;
};

static void on_named(struct loop_timer *timer, void *arg)
{
	struct named *n = arg;
	size_t len = strlen(trace);
	ok(timer == &n->timer && !loop_timer_active(timer), "%c: its own timer, stopped", n->name);
	trace[len] = n->name;
	trace[len + 1] = '\0';
	if (n->stops)
		loop_timer_stop(&n->stops->timer);
	if (n->restart_ms >= 0)
		loop_timer_start_in(timer, n->restart_ms);
	if (n->restarts_past)
		loop_timer_start_at(timer, 0);
}

static void named_init(struct named *n, char name)
{
	*n = (struct named){.name = name, .restart_ms = -1};
	loop_timer_init(&n->timer, loop, on_named, n);
}

static const char *advance(int64_t ms)
{
	trace[0] = '\0';
	clock_advance(ms);
	loop_turn(loop, 0);
	return trace;
}

static void test_order(void)
{
	struct named a, b, c, d;
	named_init(&a, 'a');
	named_init(&b, 'b');
	named_init(&c, 'c');
	named_init(&d, 'd');
	loop_timer_start_in(&c.timer, 30);
	loop_timer_start_in(&b.timer, 20);
	loop_timer_start_in(&a.timer, 10);
	loop_timer_start_in(&d.timer, 20);
	is_str(advance(0), "", "nothing is due at first");
	is_str(advance(9), "", "nor a millisecond early");
	is_str(advance(1), "a", "the first in time");
	is_str(advance(20), "bdc", "equal times in the order of starting");

	loop_timer_start_in(&a.timer, 10);
	loop_timer_start_in(&a.timer, 50);
	is_str(advance(10), "", "starting again moves it");
	is_str(advance(40), "a", "and it runs once, at the new time");

	loop_timer_start_in(&a.timer, 5);
	loop_timer_stop(&a.timer);
	loop_timer_stop(&a.timer);
	is_str(advance(5), "", "a stopped one doesn't run; stopping twice is harmless");

	a.stops = &b;
	loop_timer_start_in(&a.timer, 5);
	loop_timer_start_in(&b.timer, 5);
	is_str(advance(5), "a", "a due timer that another one stops doesn't run");

	a.stops = NULL;
	a.restart_ms = 0;
	loop_timer_start_in(&a.timer, 5);
	is_str(advance(5), "a", "one that restarts itself with no delay runs once a turn");
	is_str(advance(0), "a", "and again in the next");
	loop_timer_stop(&a.timer);

	loop_timer_start_in(&b.timer, -5);
	is_str(advance(0), "b", "a negative delay is none");
	loop_timer_start_in(&b.timer, INT64_MAX);
	is_str(advance(1000), "", "a delay beyond the end of time isn't due");
	loop_timer_stop(&b.timer);
}

static void test_past(void)
{
	struct named a, b, c;
	named_init(&a, 'a');
	named_init(&b, 'b');
	named_init(&c, 'c');
	a.restarts_past = true;
	loop_timer_start_in(&a.timer, 5);
	loop_timer_start_in(&b.timer, 6);
	loop_timer_start_in(&c.timer, 6);
	is_str(advance(5), "a", "one that sets itself into the past runs once a turn");
	is_str(advance(1), "abc", "and holds up nobody");
	is_str(advance(0), "a", "... also when it's alone");
	loop_timer_stop(&a.timer);
}

static struct loop_timer many[N_MANY];
static int64_t last_at_ms;
static unsigned ran, out_of_order;

static void on_many(struct loop_timer *timer, void *arg)
{
	(void)arg;
	if (timer->at_ms < last_at_ms || timer->at_ms > clock_mono_ms())
		out_of_order++;
	last_at_ms = timer->at_ms;
	ran++;
}

static void test_many(void)
{
	unsigned stopped = 0;
	int64_t start_ms = clock_mono_ms();
	for (size_t i = 0; i < N_MANY; i++) {
		loop_timer_init(&many[i], loop, on_many, NULL);
		loop_timer_start_at(&many[i], start_ms + (int64_t)rand_below(1000));
	}
	for (size_t i = 0; i < N_MANY; i++) {
		if (rand_below(3) == 0) {
			loop_timer_stop(&many[i]);
			stopped++;
		} else if (rand_below(3) == 0) {
			loop_timer_start_at(&many[i], start_ms + (int64_t)rand_below(2000));
		}
	}
	for (int i = 0; i < 100; i++) {
		clock_advance(20);
		loop_turn(loop, 0);
	}
	is_uint(ran, N_MANY - stopped, "all that weren't stopped ran");
	is_uint(out_of_order, 0, "none early, none out of order");
}

static void on_real(struct loop_timer *timer, void *arg)
{
	(void)timer;
	loop_stop(arg, 7);
}

static void test_real_clock(void)
{
	struct loop_timer t;
	clock_unfreeze();
	int64_t before_ms = clock_mono_ms();
	loop_timer_init(&t, loop, on_real, loop);
	loop_timer_start_in(&t, 30);
	is_int(loop_run(loop), 7, "loop_run returns the status of loop_stop");
	int64_t took_ms = clock_mono_ms() - before_ms;
	ok(took_ms >= 30 && took_ms < 5000, "the real clock was waited for (%d ms)", (int)took_ms);
}

int main(void)
{
	struct err err = ERR_INIT;
	clock_freeze(1000, 1700000000000);
	rand_seed(1);
	if (loop_new(&loop, &err) < 0)
		bail_out(err.msg);
	test_order();
	test_past();
	test_many();
	test_real_clock();
	loop_free(loop);
	return done_testing();
}
