/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the live page knows of partitions that were made by hand: which they are, and since when one
 * is in error. Owns the latter, in struct live's `broken`. Uses vipu.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "live_impl.h"

bool live_is_by_hand(const struct live_controller *at, size_t listed)
{
	return !at->owned[listed] && at->c->partitions.items[listed].ready != VIPU_PS_REMOVED;
}

char *live_by_hand_index(const struct live_controller *at, const struct vipu_partition *listed)
{
	return xasprintf("%s/%s", at->c->name, listed->id);
}

static void see_broken(struct live *l, const struct live_controller *at,
		       const struct vipu_partition *listed)
{
	CLEANUP_FREE char *index = live_by_hand_index(at, listed);
	struct live_broken *b = map_get(l->broken, str_of(index));

	if (!b) {
		b = xcalloc(1, sizeof(*b));
		b->wall_ms = clock_wall_ms();
		map_put(l->broken, str_of(index), b);
	}
	b->look = l->looks;
}

void live_see_by_hand(struct live *l)
{
	struct map_iter it = MAP_ITER(l->broken);

	for (size_t i = 0; i < l->view.n_controllers; i++) {
		const struct live_controller *at = &l->view.controllers[i];
		const struct vipu_partitions *list = &at->c->partitions;

		for (size_t k = 0; k < list->n; k++)
			if (list->items[k].ready == VIPU_PS_ERROR && live_is_by_hand(at, k))
				see_broken(l, at, &list->items[k]);
	}
	while (map_next(&it))
		if (((struct live_broken *)it.value)->look != l->looks)
			free(map_del(l->broken, it.key));
}
