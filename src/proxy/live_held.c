/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs and Pods that neither run nor have ended, and that aren't in the queue: suspended, by Kueue
 * or by hand, or kept from running by something else than IPUs. Known to who runs them; the newest
 * are shown. Borrows them for one look. Uses partition.
 */
#include <string.h>

#include "live_impl.h"

/* It waits for IPUs, or for what is done with them: that is shown already. */
static void note_asking(const struct partition_ask *ask, const struct partition_status *status,
			void *arg)
{
	bool *asks = arg;

	(void)ask;
	*asks |= status->state == PARTITION_STATE_WAITING ||
		 status->state == PARTITION_STATE_CREATING ||
		 status->state == PARTITION_STATE_RESETTING;
}

/* The newest first. Kubernetes' times are whole seconds, so that many are as old as each other:
 * these are told apart by what doesn't change from look to look. */
static int compare(const struct proxy_held *a, const struct proxy_held *b)
{
	if (a->since_ms != b->since_ms)
		return a->since_ms > b->since_ms ? -1 : 1;
	return strcmp(a->uid, b->uid);
}

/* A heap of the newest ones, the oldest of them at its top; what is at `at` may stand too high. */
static void sink(struct proxy_held *heap, size_t n, size_t at)
{
	struct proxy_held moved = heap[at];

	for (size_t below; (below = 2 * at + 1) < n; at = below) {
		if (below + 1 < n && compare(&heap[below + 1], &heap[below]) > 0)
			below++;
		if (compare(&heap[below], &moved) <= 0)
			break;
		heap[at] = heap[below];
	}
	heap[at] = moved;
}

static void take(struct live_view *v, const struct proxy_held *held)
{
	if (v->n_held < LIVE_HELD) {
		v->held[v->n_held++] = *held;
		if (v->n_held == LIVE_HELD)
			for (size_t at = LIVE_HELD / 2; at-- > 0;)
				sink(v->held, LIVE_HELD, at);
		return;
	}
	v->n_held++;
	if (compare(held, &v->held[0]) > 0)
		return;
	v->held[0] = *held;
	sink(v->held, LIVE_HELD, 0);
}

static void see(void *arg, const struct proxy_held *held)
{
	struct live *l = arg;
	bool asks = false;

	partitions_each_of(l->partitions, held->uid, note_asking, &asks);
	if (!asks)
		take(&l->view, held);
}

void live_see_held(struct live *l)
{
	struct live_view *v = &l->view;
	size_t n;

	v->n_held = 0;
	v->knows_held = l->helds && l->helds(l->helds_arg, see, l);
	n = v->n_held < LIVE_HELD ? v->n_held : LIVE_HELD;
	for (size_t i = 0; i < n; i++)
		item_held(l, &v->held[i]);
}
