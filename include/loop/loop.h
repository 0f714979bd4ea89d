/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one event loop: libev with a timer heap of our own on core's clock under it (so that tests
 * move time), deferred work, deferred release of memory, and the slow-turn report.
 * One loop a process; everything runs on its thread.
 */
#ifndef IPU_LOOP_LOOP_H
#define IPU_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "core/err.h"
#include "core/list.h"

struct loop;
struct trace;

int loop_new(struct loop **ret, struct err *err);
/* Everything started on it must have ended; runs what was handed to the reaper. NULL is fine. */
void loop_free(struct loop *loop);
/* Until loop_stop; returns the exit status given there. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop, int status);
/* One turn: waits at most max_wait_ms for events, handles them. For tests, and for draining. */
void loop_turn(struct loop *loop, unsigned max_wait_ms);
struct ev_loop *loop_ev(struct loop *loop); /* for c-ares and the few who need libev itself */

/* What is watched is called by its callback and that one's file, for the slow-turn report. */
#define LOOP_NAME(cb) __FILE_NAME__ ":" #cb

/* Timers. Embedded in their owner; a deadline on the clock of clock_mono_ms. Starting a started
 * timer moves it; stopping a stopped one is harmless. cb may start, stop and free anything. */
struct loop_timer;
typedef void loop_timer_fn(struct loop_timer *timer, void *arg);
struct loop_timer {
	loop_timer_fn *cb;
	void *arg;
	const char *name;
	struct loop *loop;
	int64_t at_ms;
	uint64_t seq;    /* of two that are due at the same time the one started first runs first */
	size_t heap_pos; /* 0: stopped */
};
#define loop_timer_init(t, loop, cb, arg) loop_timer_init_as(t, loop, cb, arg, LOOP_NAME(cb))
void loop_timer_init_as(struct loop_timer *t, struct loop *loop, loop_timer_fn *cb, void *arg,
			const char *name);
void loop_timer_start_at(struct loop_timer *t, int64_t mono_ms); /* past: behind all that is due */
void loop_timer_start_in(struct loop_timer *t, int64_t delay_ms);
void loop_timer_stop(struct loop_timer *t);
static inline bool loop_timer_active(const struct loop_timer *t)
{
	return t->heap_pos != 0;
}

/* Descriptors. The owner keeps fd open while watching and stops before closing. */
struct loop_io;
typedef void loop_io_fn(struct loop_io *io, int revents, void *arg); /* EV_READ, EV_WRITE */
struct loop_io {
	struct ev_io ev;
	loop_io_fn *cb;
	void *arg;
	const char *name;
	struct loop *loop;
};
#define loop_io_init(io, loop, fd, cb, arg) loop_io_init_as(io, loop, fd, cb, arg, LOOP_NAME(cb))
void loop_io_init_as(struct loop_io *io, struct loop *loop, int fd, loop_io_fn *cb, void *arg,
		     const char *name);
void loop_io_watch(struct loop_io *io, int events); /* 0 stops; changing is cheap */
void loop_io_stop(struct loop_io *io);

/* Signals. */
struct loop_signal;
typedef void loop_signal_fn(struct loop_signal *s, int signum, void *arg);
struct loop_signal {
	struct ev_signal ev;
	loop_signal_fn *cb;
	void *arg;
	const char *name;
	struct loop *loop;
};
#define loop_signal_start(s, loop, signum, cb, arg)                                                \
	loop_signal_start_as(s, loop, signum, cb, arg, LOOP_NAME(cb))
void loop_signal_start_as(struct loop_signal *s, struct loop *loop, int signum, loop_signal_fn *cb,
			  void *arg, const char *name);
void loop_signal_stop(struct loop_signal *s);

/* Deferred work: runs once, later in this turn or in the next, never from within the call.
 * Posting what is posted already changes nothing but its trace. Within a turn: descriptors and
 * signals, timers, work posted until then, the reaper. What work itself posts runs in the next
 * turn, so that others have theirs between. */
struct loop_work;
typedef void loop_work_fn(struct loop_work *work, void *arg);
struct loop_work {
	struct list link;
	loop_work_fn *cb;
	void *arg;
	const char *name;
	struct loop *loop;
	/* For whose sake it was posted: it runs with that (core/trace.h). Several: none. */
	struct trace *trace;
};
#define loop_work_init(w, loop, cb, arg) loop_work_init_as(w, loop, cb, arg, LOOP_NAME(cb))
void loop_work_init_as(struct loop_work *w, struct loop *loop, loop_work_fn *cb, void *arg,
		       const char *name);
void loop_work_post(struct loop_work *w);
void loop_work_cancel(struct loop_work *w);

/* Hands memory to the reaper: free_fn(p) runs between events and nowhere else. */
void loop_reap(struct loop *loop, void *p, void (*free_fn)(void *p));

/* What the present callback is about from here on, for the slow-turn report: a request and its
 * route, a queue and its key. Until the next one, or the callback's end. kind and name: static,
 * never a peer's; detail is copied (the first LOOP_DETAIL_SIZE - 1 bytes), NULL: none. Costs a look
 * at the clock; nothing is formatted unless the turn was slow. */
#define LOOP_DETAIL_SIZE 128
void loop_about(struct loop *loop, const char *kind, const char *name, const char *detail);

/* Time that callbacks took: the longest turn since the last call, for the loop-lag metric. */
int64_t loop_longest_turn_us(struct loop *loop);
/* A turn longer than this (default 0: off, since commands talk to people) is logged, with which
 * callback took longest and what of that it was about, once a second at most; 0 turns it off. */
void loop_set_slow_turn_ms(struct loop *loop, unsigned ms);
uint64_t loop_slow_turns(const struct loop *loop); /* how many there have been */

#endif
