/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that neither run nor have ended, and that aren't in the queue: suspended, by Kueue or by
 * hand, or kept from running by something else than IPUs. Known to who runs jobs; the newest are
 * shown. Borrows them for one look. Uses partition.
 */
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

static void see(void *arg, const struct proxy_held *held)
{
	struct live *l = arg;
	struct live_view *v = &l->view;
	bool asks = false;
	size_t at;

	partitions_each_of(l->partitions, held->uid, note_asking, &asks);
	if (asks)
		return;
	at = v->n_held < LIVE_HELD ? v->n_held : LIVE_HELD;
	v->n_held++;
	for (; at > 0 && held->since_ms > v->held[at - 1].since_ms; at--)
		if (at < LIVE_HELD)
			v->held[at] = v->held[at - 1];
	if (at < LIVE_HELD)
		v->held[at] = *held;
}

void live_see_held(struct live *l)
{
	struct live_view *v = &l->view;

	v->n_held = 0;
	v->knows_held = l->helds && l->helds(l->helds_arg, see, l);
	for (size_t i = 0; i < v->n_held && i < LIVE_HELD; i++)
		item_held(l, &v->held[i]);
}
