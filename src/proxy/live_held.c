/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs and Pods that neither run nor have ended, and that aren't in the queue: suspended, by Kueue
 * or by hand, or kept from running by something else than IPUs. Known to who runs them; the newest
 * are shown. Borrows them for one look. Uses partition.
 */
#include "live_impl.h"

static void note_asking(const struct partition_ask *ask, const struct partition_status *status,
			void *arg)
{
	bool *asks = arg;

	(void)ask;
	*asks |= partition_state_asks(status->state);
}

bool live_asks(struct partitions *partitions, const char *uid)
{
	bool asks = false;

	partitions_each_of(partitions, uid, note_asking, &asks);
	return asks;
}

static void see(void *arg, const struct proxy_held *held)
{
	struct live *l = arg;

	if (!live_asks(l->partitions, held->uid))
		proxy_newest_take(&l->view.held, held);
}

void live_see_held(struct live *l)
{
	struct live_view *v = &l->view;
	size_t n, more = 0;

	v->held.n = 0;
	v->knows_held = l->helds && l->helds(l->helds_arg, see, l, &more);
	v->n_held = v->held.n + more;
	n = proxy_newest_len(&v->held);
	for (size_t i = 0; i < n; i++)
		item_held(l, &v->held.items[i]);
}
