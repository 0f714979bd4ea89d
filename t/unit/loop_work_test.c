/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work, reaper, descriptors, signals, the slow-turn report: their order within a turn, and
 * cancelling from within one another.
 */
#include "tap.h"

#include <fcntl.h>
#include <time.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/log.h"
#include "core/str.h"
#include "core/trace.h"
#include "loop/loop.h"

static struct loop *loop;
static char trace[256];

/* Instead of libc's: time passes in sleep alone, so that a turn is as slow as it's made here, and
 * not as busy as the machine is. */
static int64_t slept_ns = 1000000000;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = slept_ns / 1000000000;
	ts->tv_nsec = slept_ns % 1000000000;
	return 0;
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	(void)left;
	slept_ns += wanted->tv_sec * INT64_C(1000000000) + wanted->tv_nsec;
	return 0;
}

static void put(char c)
{
	size_t len = strlen(trace);
	trace[len] = c;
	trace[len + 1] = '\0';
}

static const char *turn(void)
{
	trace[0] = '\0';
	loop_turn(loop, 0);
	return trace;
}

struct step {
	struct loop_work work;
	char name;
	struct step *posts, *cancels;
	bool reaps;
};

static void free_traced(void *p)
{
	put('R');
	free(p);
}

static void free_nested(void *p)
{
	put('N');
	loop_reap(loop, p, free_traced);
}

static void on_step(struct loop_work *work, void *arg)
{
	struct step *s = arg;
	(void)work;
	put(s->name);
	if (s->posts)
		loop_work_post(&s->posts->work);
	if (s->cancels)
		loop_work_cancel(&s->cancels->work);
	if (s->reaps)
		loop_reap(loop, xcalloc(1, 16), free_traced);
}

static void step_init(struct step *s, char name)
{
	*s = (struct step){.name = name};
	loop_work_init(&s->work, loop, on_step, s);
}

static void test_work(void)
{
	struct step a, b, c;
	step_init(&a, 'a');
	step_init(&b, 'b');
	step_init(&c, 'c');
	loop_work_post(&a.work);
	loop_work_post(&b.work);
	loop_work_post(&a.work);
	is_str(turn(), "ab", "in order, once, though posted twice");
	is_str(turn(), "", "and not again");

	a.posts = &a;
	loop_work_post(&a.work);
	is_str(turn(), "a", "what posts itself runs once a turn");
	is_str(turn(), "a", "and again in the next");
	loop_work_cancel(&a.work);
	is_str(turn(), "", "until cancelled");

	a.posts = &c;
	a.cancels = &b;
	loop_work_post(&a.work);
	loop_work_post(&b.work);
	is_str(turn(), "a", "cancelled by the one before it");
	is_str(turn(), "c", "posted by work: next turn");

	a.posts = NULL;
	a.cancels = NULL;
	a.reaps = true;
	loop_work_post(&a.work);
	loop_work_post(&b.work);
	is_str(turn(), "abR", "the reaper comes after all work");
	loop_reap(loop, xcalloc(1, 16), free_nested);
	is_str(turn(), "NR", "what a release hands over goes too");
}

static struct trace *seen;

static void on_traced(struct loop_work *work, void *arg)
{
	(void)work, (void)arg;
	seen = trace_current();
	put('t');
}

/* Who posts what is posted already adds no trace, but may take one away. */
static void test_traces(void)
{
	static const char *const parents[] = {
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-01",
	};
	struct trace *traces[3] = {NULL};
	static const struct {
		const char *name;
		int posters[3], n, want; /* of traces; 2: none */
	} rows[] = {
		{"one", {0}, 1, 0},
		{"one, twice", {0, 0}, 2, 0},
		{"one, and somebody without", {0, 2}, 2, 0},
		{"somebody without, and one", {2, 0}, 2, 2},
		{"two", {0, 1}, 2, 2},
		{"two, the first again", {0, 1, 0}, 3, 2},
	};
	struct loop_work work;

	for (int i = 0; i < 2; i++)
		traces[i] = trace_parse(str_of(parents[i]), STR_NULL);
	loop_work_init(&work, loop, on_traced, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		for (int k = 0; k < rows[i].n; k++) {
			struct trace *before = trace_enter(traces[rows[i].posters[k]]);

			loop_work_post(&work);
			trace_leave(before);
		}
		is_str(turn(), "t", "it runs");
		ok(seen == traces[rows[i].want], "with that trace");
	}
	row_end();
	for (int i = 0; i < 2; i++)
		trace_unref(traces[i]);
}

static struct step io_step;
static int pipe_fds[2];

static void on_readable(struct loop_io *io, int revents, void *arg)
{
	char c;
	(void)arg;
	ok(revents == EV_READ, "readable");
	if (read(io->ev.fd, &c, 1) == 1)
		put(c);
	loop_work_post(&io_step.work);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer, (void)arg;
	put('t');
}

static void test_io_and_order(void)
{
	struct loop_io io;
	struct loop_timer timer;
	step_init(&io_step, 'w');
	io_step.reaps = true;
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		bail_out("no pipe");
	loop_io_init(&io, loop, pipe_fds[0], on_readable, NULL);
	loop_io_watch(&io, EV_READ);
	loop_io_watch(&io, EV_READ);
	loop_timer_init(&timer, loop, on_timer, NULL);
	loop_timer_start_in(&timer, 0);
	if (write(pipe_fds[1], "xy", 2) != 2)
		bail_out("no write");
	is_str(turn(), "xtwR", "descriptor, timer, work, reaper");
	loop_io_watch(&io, 0);
	is_str(turn(), "", "not watched, not told");
	loop_io_watch(&io, EV_READ);
	is_str(turn(), "ywR", "watched again");
	loop_io_stop(&io);
	loop_io_stop(&io);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	(void)s, (void)arg;
	is_int(signum, SIGUSR1, "the signal's number");
	put('s');
}

static void test_signal(void)
{
	struct loop_signal s;
	loop_signal_start(&s, loop, SIGUSR1, on_signal, NULL);
	raise(SIGUSR1);
	trace[0] = '\0';
	loop_turn(loop, 1000);
	is_str(trace, "s", "told once");
	loop_signal_stop(&s);
	loop_signal_stop(&s);
}

static void on_slow(struct loop_work *work, void *arg)
{
	(void)work, (void)arg;
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* Three parts: the second took longest. */
static void on_slow_parts(struct loop_work *work, void *arg)
{
	char key[] = "default/job-1";
	(void)arg;
	loop_about(work->loop, "GET", "/path/{name}", NULL);
	on_slow(work, NULL);
	loop_about(work->loop, "work queue", "ipujob", key);
	key[0] = '!'; /* it was copied */
	on_slow(work, NULL);
	on_slow(work, NULL);
	loop_about(work->loop, "watch", "pods", NULL);
	on_slow(work, NULL);
}

/* What the loop says of one turn with this in it. */
static const char *say_slow(loop_work_fn *cb, char *text, size_t size)
{
	struct loop_work work;
	ssize_t n;

	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		bail_out("no pipe");
	log_init(LOG_INFO, LOG_TEXT, pipe_fds[1]);
	clock_advance(2000); /* it's told once a second at most */
	loop_set_slow_turn_ms(loop, 5);
	loop_work_init_as(&work, loop, cb, NULL, "it");
	loop_work_post(&work);
	loop_turn(loop, 0);
	loop_set_slow_turn_ms(loop, 0);
	n = read(pipe_fds[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	log_init(LOG_INFO, LOG_TEXT, 2);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return text;
}

static void on_nothing(struct loop_work *work, void *arg)
{
	(void)work, (void)arg;
}

static void on_turn_about(struct loop_work *work, void *arg)
{
	(void)arg;
	loop_about(work->loop, "watch", "nodes", NULL);
}

static void test_about(void)
{
	char text[512];

	has_str(say_slow(on_slow_parts, text, sizeof(text)),
		"longest=work:it longest_ms=", "the callback");
	has_str(text, " about=\"work queue ipujob default/job-1\" about_ms=",
		"what the longest part of it was about");
	say_slow(on_slow, text, sizeof(text));
	has_str(text, "longest=work:it", "one that says nothing of what it's about");
	ok(!strstr(text, "about="), "isn't said to be about what the one before was");

	fault_set("lose:work:it,slow:work:other");
	is_str(say_slow(on_nothing, text, sizeof(text)), "", "a fault elsewhere");
	fault_set("slow:work:other,slow:work:it");
	has_str(say_slow(on_nothing, text, sizeof(text)),
		"longest=work:it longest_ms=", "a fault here");
	fault_set("slow:watch:nodes");
	has_str(say_slow(on_turn_about, text, sizeof(text)),
		" about=\"watch nodes\" about_ms=", "in what it's about");
	fault_set(NULL);
}

static void test_slow_turn(void)
{
	struct loop_work work;
	char text[512];
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		bail_out("no pipe");
	log_init(LOG_INFO, LOG_TEXT, pipe_fds[1]);
	loop_longest_turn_us(loop);
	loop_set_slow_turn_ms(loop, 5);
	loop_work_init(&work, loop, on_slow, NULL);
	for (int i = 0; i < 2; i++) {
		loop_work_post(&work);
		loop_turn(loop, 0);
	}
	loop_set_slow_turn_ms(loop, 0);
	ssize_t n = read(pipe_fds[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	char *line = strstr(text, "took long");
	ok(line != NULL, "a slow turn is reported");
	ok(line && !strstr(line + 1, "took long"), "once a second at most");
	has_str(text,
		"callbacks=1 longest=work:loop_work_test.c:on_slow longest_ms=", "with what ran");
	is_uint(loop_slow_turns(loop), 2, "all of them are counted");
	is_int(loop_longest_turn_us(loop), 20000, "the longest turn");
	is_int(loop_longest_turn_us(loop), 0, "counts anew after each look");
	log_init(LOG_INFO, LOG_TEXT, 2);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

int main(void)
{
	struct err err = ERR_INIT;
	clock_freeze(1000, 1700000000000);
	if (loop_new(&loop, &err) < 0)
		bail_out(err.msg);
	test_work();
	test_traces();
	test_io_and_order();
	test_signal();
	test_slow_turn();
	test_about();
	trace[0] = '\0';
	loop_reap(loop, xcalloc(1, 16), free_traced);
	loop_free(loop);
	is_str(trace, "R", "loop_free runs the reaper");
	loop_free(NULL);
	return done_testing();
}
