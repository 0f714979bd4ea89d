/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timers' binary heap: O(log n) to start, move and stop, O(1) to look at the earliest.
 */
#include "loop_heap.h"

#include <stdlib.h>

#include "core/str.h"

static bool is_before(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->seq < b->seq;
}

static void put(struct timer_heap *h, size_t pos, struct loop_timer *t)
{
	h->at[pos] = t;
	t->heap_pos = pos;
}

static void sift_up(struct timer_heap *h, size_t pos, struct loop_timer *t)
{
	for (; pos > 1 && is_before(t, h->at[pos / 2]); pos /= 2)
		put(h, pos, h->at[pos / 2]);
	put(h, pos, t);
}

static void sift_down(struct timer_heap *h, size_t pos, struct loop_timer *t)
{
	for (;;) {
		size_t child = pos * 2;
		if (child > h->len)
			break;
		if (child < h->len && is_before(h->at[child + 1], h->at[child]))
			child++;
		if (!is_before(h->at[child], t))
			break;
		put(h, pos, h->at[child]);
		pos = child;
	}
	put(h, pos, t);
}

void timer_heap_done(struct timer_heap *h)
{
	for (size_t i = 1; i <= h->len; i++)
		h->at[i]->heap_pos = 0;
	free(h->at);
	*h = (struct timer_heap){0};
}

void timer_heap_add(struct timer_heap *h, struct loop_timer *t)
{
	if (h->len + 1 >= h->cap) {
		h->cap = h->cap ? h->cap * 2 : 64;
		h->at = xrealloc(h->at, h->cap * sizeof(struct loop_timer *));
	}
	t->seq = h->next_seq++;
	sift_up(h, ++h->len, t);
}

void timer_heap_remove(struct timer_heap *h, struct loop_timer *t)
{
	size_t pos = t->heap_pos;
	if (pos == 0)
		return;
	t->heap_pos = 0;
	struct loop_timer *last = h->at[h->len--];
	if (last == t)
		return;
	if (pos > 1 && is_before(last, h->at[pos / 2]))
		sift_up(h, pos, last);
	else
		sift_down(h, pos, last);
}

struct loop_timer *timer_heap_first(const struct timer_heap *h)
{
	return h->len > 0 ? h->at[1] : NULL;
}
