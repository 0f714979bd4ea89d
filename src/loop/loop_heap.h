/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timers' binary heap, earliest first. Timers are embedded in their owners and know their
 * place in it; the heap owns its array only.
 */
#ifndef IPU_LOOP_LOOP_HEAP_H
#define IPU_LOOP_LOOP_HEAP_H

#include "loop/loop.h"

struct timer_heap {
	struct loop_timer **at; /* 1 … len; 0 is unused */
	size_t len, cap;
	uint64_t next_seq;
};

void timer_heap_done(struct timer_heap *h);
void timer_heap_add(struct timer_heap *h, struct loop_timer *t);    /* t isn't in it */
void timer_heap_remove(struct timer_heap *h, struct loop_timer *t); /* may be outside */
struct loop_timer *timer_heap_first(const struct timer_heap *h);    /* NULL: empty */

#endif
