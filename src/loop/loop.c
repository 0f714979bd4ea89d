/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn: wait in libev, run due timers, run posted work, free what was handed to the reaper.
 * The loop owns its queues, never what is queued (but the reaper's memory). Uses core's clock.
 */
#include "loop/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/log.h"
#include "core/str.h"
#include "core/trace.h"
#include "loop_heap.h"

/* With a test's clock page mapped, how often the clock is looked at, in real time. */
#define PAGE_LOOK_MS     2
#define SLOW_TURN_LOG_MS 1000
#define WAIT_FOR_EVER    UINT_MAX
#define PART_LEAST_US    1000 /* shorter parts of a callback aren't remembered */

struct reap_entry {
	void *p;
	void (*free_fn)(void *p);
};

/* Of a callback, since loop_about said what it's about. */
struct part {
	const char *kind, *name; /* kind NULL: none */
	char detail[LOOP_DETAIL_SIZE];
	int64_t us; /* when it began; of those remembered: how long it took */
};

struct loop {
	struct ev_loop *ev;
	struct ev_timer wake;   /* bounds the wait, and does nothing else */
	struct ev_check polled; /* runs first after the wait: a turn's time counts from there */
	struct timer_heap timers;
	int64_t timers_ms; /* mono, when they were run last */
	struct list work;
	struct reap_entry *reap;
	size_t reap_len, reap_cap;
	bool stopped;
	int status;
	int64_t turn_began_us;
	/* Within the turn: */
	int64_t ended_us;               /* the last callback */
	unsigned ran;                   /* callbacks */
	struct part part, longest_part; /* of the callback that runs */
	struct {
		const char *kind, *name;
		int64_t us;
		struct part part;
	} slowest;
	uint64_t slow_turns;
	int64_t longest_us;
	unsigned slow_ms;
	struct log_limit slow_limit;
};

/* Real time, whatever a test's clock says: this measures how long callbacks keep others waiting. */
static int64_t real_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void on_wake(struct ev_loop *ev, struct ev_timer *w, int revents)
{
	(void)ev, (void)w, (void)revents;
}

static void on_polled(struct ev_loop *ev, struct ev_check *w, int revents)
{
	(void)ev, (void)revents;
	struct loop *loop = w->data;
	loop->turn_began_us = loop->ended_us = real_us();
	loop->ran = 0;
	loop->slowest.us = 0;
	loop->part.kind = loop->longest_part.kind = NULL;
}

static void end_part(struct loop *loop, int64_t now_us)
{
	struct part *part = &loop->part, *longest = &loop->longest_part;
	int64_t took_us = now_us - part->us;

	if (part->kind && took_us >= PART_LEAST_US && (!longest->kind || took_us > longest->us)) {
		*longest = *part;
		longest->us = took_us;
	}
	part->kind = NULL;
}

void loop_about(struct loop *loop, const char *kind, const char *name, const char *detail)
{
	struct part *part = &loop->part;
	size_t len = detail ? strnlen(detail, LOOP_DETAIL_SIZE - 1) : 0;

	if (part->kind == kind && part->name == name && len == 0 && !part->detail[0])
		return;
	int64_t now_us = real_us();
	end_part(loop, now_us);
	part->kind = kind;
	part->name = name;
	part->us = now_us;
	if (len > 0)
		memcpy(part->detail, detail, len);
	part->detail[len] = '\0';
	fault_slow(kind, name);
}

/* What was called has returned. It may be gone: its name was asked for before. */
static void note(struct loop *loop, const char *kind, const char *name)
{
	int64_t now_us = real_us(), took_us = now_us - loop->ended_us;

	end_part(loop, now_us);
	loop->ended_us = now_us;
	loop->ran++;
	if (took_us > loop->slowest.us) {
		loop->slowest.us = took_us;
		loop->slowest.kind = kind;
		loop->slowest.name = name;
		if (loop->longest_part.kind)
			loop->slowest.part = loop->longest_part;
		else
			loop->slowest.part.kind = NULL;
	}
	loop->longest_part.kind = NULL;
}

int loop_new(struct loop **ret, struct err *err)
{
	struct ev_loop *ev = ev_loop_new(EVFLAG_AUTO);
	if (!ev)
		return err_set(err, ERR_IO, errno, "no event loop: libev found no way to wait");
	struct loop *loop = xcalloc(1, sizeof(*loop));
	loop->ev = ev;
	list_init(&loop->work);
	ev_init(&loop->wake, on_wake);
	ev_check_init(&loop->polled, on_polled);
	loop->polled.data = loop;
	ev_set_priority(&loop->polled, EV_MAXPRI);
	ev_check_start(ev, &loop->polled);
	*ret = loop;
	return 0;
}

static void run_reaper(struct loop *loop)
{
	/* free_fn may hand over more; those go in the same pass, the array may move meanwhile. */
	for (size_t i = 0; i < loop->reap_len; i++) {
		struct reap_entry entry = loop->reap[i];
		entry.free_fn(entry.p);
	}
	loop->reap_len = 0;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	run_reaper(loop);
	ev_timer_stop(loop->ev, &loop->wake);
	ev_check_stop(loop->ev, &loop->polled);
	ev_loop_destroy(loop->ev);
	timer_heap_done(&loop->timers);
	free(loop->reap);
	free(loop);
}

struct ev_loop *loop_ev(struct loop *loop)
{
	return loop->ev;
}

static void run_timers(struct loop *loop)
{
	/* Not those that are started meanwhile, so that one that restarts itself with no delay
	 * can't keep the turn from ending. They're behind all others that are due. */
	uint64_t end = loop->timers.next_seq;
	if (loop->timers.len == 0)
		return;
	int64_t now_ms = loop->timers_ms = clock_mono_ms();
	for (;;) {
		struct loop_timer *t = timer_heap_first(&loop->timers);
		if (!t || t->at_ms > now_ms || t->seq >= end)
			return;
		const char *name = t->name;
		timer_heap_remove(&loop->timers, t);
		fault_slow("timer", name);
		t->cb(t, t->arg);
		note(loop, "timer", name);
	}
}

static void run_work(struct loop *loop)
{
	struct list now; /* what was posted until here; cancelling takes it out of this list too */
	if (list_empty(&loop->work))
		return;
	now = loop->work;
	now.next->prev = &now;
	now.prev->next = &now;
	list_init(&loop->work);
	while (!list_empty(&now)) {
		struct loop_work *w = CONTAINER_OF(now.next, struct loop_work, link);
		const char *name = w->name;
		struct trace *trace = w->trace, *before = trace_enter(trace);
		list_unlink(&w->link);
		w->trace = NULL;
		fault_slow("work", name);
		w->cb(w, w->arg);
		trace_leave(before);
		trace_unref(trace);
		note(loop, "work", name);
	}
}

/* How long this turn may wait for descriptors, in real milliseconds. */
static unsigned wait_limit_ms(struct loop *loop, unsigned max_wait_ms)
{
	if (!list_empty(&loop->work) || loop->reap_len > 0 || loop->stopped)
		return 0;
	struct loop_timer *first = timer_heap_first(&loop->timers);
	if (!first)
		return max_wait_ms;
	int64_t delay_ms = first->at_ms - clock_mono_ms();
	if (delay_ms <= 0)
		return 0;
	if (clock_is_page() && delay_ms > PAGE_LOOK_MS)
		delay_ms = PAGE_LOOK_MS;
	return delay_ms < max_wait_ms ? (unsigned)delay_ms : max_wait_ms;
}

static void report_slow(const struct loop *loop, int64_t took_us)
{
	const struct part *part = &loop->slowest.part;
	char about[LOOP_DETAIL_SIZE + 160] = "";

	if (loop->slowest.us && part->kind)
		snprintf(about, sizeof(about), " about=\"%s %s%s%s\" about_ms=%lld", part->kind,
			 part->name, part->detail[0] ? " " : "", part->detail,
			 (long long)(part->us / 1000));
	log_warn("loop", NULL,
		 "a turn of the event loop took long: took_ms=%lld callbacks=%u longest=%s:%s "
		 "longest_ms=%lld%s",
		 (long long)(took_us / 1000), loop->ran,
		 loop->slowest.us ? loop->slowest.kind : "none",
		 loop->slowest.us ? loop->slowest.name : "-", (long long)(loop->slowest.us / 1000),
		 about);
}

static void note_turn(struct loop *loop)
{
	int64_t took_us = real_us() - loop->turn_began_us;
	if (took_us > loop->longest_us)
		loop->longest_us = took_us;
	if (loop->slow_ms == 0 || took_us <= (int64_t)loop->slow_ms * 1000)
		return;
	loop->slow_turns++;
	if (log_limit_ok(&loop->slow_limit, SLOW_TURN_LOG_MS))
		report_slow(loop, took_us);
}

void loop_turn(struct loop *loop, unsigned max_wait_ms)
{
	unsigned wait_ms = wait_limit_ms(loop, max_wait_ms);
	if (wait_ms == 0) {
		ev_run(loop->ev, EVRUN_NOWAIT);
	} else {
		if (wait_ms != WAIT_FOR_EVER) {
			/* libev counts from its own idea of now, which is as old as the last wait.
			 */
			ev_now_update(loop->ev);
			ev_timer_set(&loop->wake, wait_ms / 1e3, 0.);
			ev_timer_start(loop->ev, &loop->wake);
		}
		ev_run(loop->ev, EVRUN_ONCE);
		ev_timer_stop(loop->ev, &loop->wake);
	}
	run_timers(loop);
	run_work(loop);
	if (loop->reap_len > 0) {
		run_reaper(loop);
		note(loop, "reaper", "all");
	}
	note_turn(loop);
}

int loop_run(struct loop *loop)
{
	while (!loop->stopped)
		loop_turn(loop, WAIT_FOR_EVER);
	loop->stopped = false;
	return loop->status;
}

void loop_stop(struct loop *loop, int status)
{
	loop->stopped = true;
	loop->status = status;
}

void loop_timer_init_as(struct loop_timer *t, struct loop *loop, loop_timer_fn *cb, void *arg,
			const char *name)
{
	*t = (struct loop_timer){.cb = cb, .arg = arg, .name = name, .loop = loop};
}

void loop_timer_start_at(struct loop_timer *t, int64_t mono_ms)
{
	struct timer_heap *heap = &t->loop->timers;
	timer_heap_remove(heap, t);
	/* What is long past waits behind all that is due: one that sets itself there again and
	 * again would be the first for ever. */
	t->at_ms = mono_ms < t->loop->timers_ms ? t->loop->timers_ms : mono_ms;
	timer_heap_add(heap, t);
}

void loop_timer_start_in(struct loop_timer *t, int64_t delay_ms)
{
	int64_t now_ms = clock_mono_ms();
	if (delay_ms < 0)
		delay_ms = 0;
	loop_timer_start_at(t, delay_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + delay_ms);
}

void loop_timer_stop(struct loop_timer *t)
{
	if (t->heap_pos != 0)
		timer_heap_remove(&t->loop->timers, t);
}

static void on_io(struct ev_loop *ev, struct ev_io *w, int revents)
{
	(void)ev;
	struct loop_io *io = w->data;
	struct loop *loop = io->loop;
	const char *name = io->name;

	fault_slow("io", name);
	io->cb(io, revents & (EV_READ | EV_WRITE), io->arg);
	note(loop, "io", name);
}

void loop_io_init_as(struct loop_io *io, struct loop *loop, int fd, loop_io_fn *cb, void *arg,
		     const char *name)
{
	*io = (struct loop_io){.cb = cb, .arg = arg, .name = name, .loop = loop};
	ev_io_init(&io->ev, on_io, fd, 0);
	io->ev.data = io;
}

void loop_io_watch(struct loop_io *io, int events)
{
	if ((io->ev.events & (EV_READ | EV_WRITE)) == events && ev_is_active(&io->ev) == !!events)
		return;
	ev_io_stop(io->loop->ev, &io->ev);
	if (events == 0)
		return;
	ev_io_modify(&io->ev, events);
	ev_io_start(io->loop->ev, &io->ev);
}

void loop_io_stop(struct loop_io *io)
{
	ev_io_stop(io->loop->ev, &io->ev);
}

static void on_signal(struct ev_loop *ev, struct ev_signal *w, int revents)
{
	(void)ev, (void)revents;
	struct loop_signal *s = w->data;
	struct loop *loop = s->loop;
	const char *name = s->name;

	s->cb(s, w->signum, s->arg);
	note(loop, "signal", name);
}

void loop_signal_start_as(struct loop_signal *s, struct loop *loop, int signum, loop_signal_fn *cb,
			  void *arg, const char *name)
{
	*s = (struct loop_signal){.cb = cb, .arg = arg, .name = name, .loop = loop};
	ev_signal_init(&s->ev, on_signal, signum);
	s->ev.data = s;
	ev_signal_start(loop->ev, &s->ev);
}

void loop_signal_stop(struct loop_signal *s)
{
	if (s->loop)
		ev_signal_stop(s->loop->ev, &s->ev);
}

void loop_work_init_as(struct loop_work *w, struct loop *loop, loop_work_fn *cb, void *arg,
		       const char *name)
{
	*w = (struct loop_work){.cb = cb, .arg = arg, .name = name, .loop = loop};
	list_init(&w->link);
}

void loop_work_post(struct loop_work *w)
{
	struct trace *trace = trace_current();

	if (list_empty(&w->link)) {
		list_append(&w->loop->work, &w->link);
		w->trace = trace_ref(trace);
	} else if (trace && trace != w->trace) {
		trace_unref(w->trace);
		w->trace = NULL;
	}
}

void loop_work_cancel(struct loop_work *w)
{
	list_unlink(&w->link);
	trace_unref(w->trace);
	w->trace = NULL;
}

void loop_reap(struct loop *loop, void *p, void (*free_fn)(void *p))
{
	if (loop->reap_len == loop->reap_cap) {
		loop->reap_cap = loop->reap_cap ? loop->reap_cap * 2 : 64;
		loop->reap = xrealloc(loop->reap, loop->reap_cap * sizeof(*loop->reap));
	}
	loop->reap[loop->reap_len++] = (struct reap_entry){p, free_fn};
}

int64_t loop_longest_turn_us(struct loop *loop)
{
	int64_t us = loop->longest_us;
	loop->longest_us = 0;
	return us;
}

void loop_set_slow_turn_ms(struct loop *loop, unsigned ms)
{
	loop->slow_ms = ms;
}

uint64_t loop_slow_turns(const struct loop *loop)
{
	return loop->slow_turns;
}
