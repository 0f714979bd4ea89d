/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For those who look on: one owner's instances, how an entry's partition is, and whether anything
 * has changed since the last look. Owns nothing. Uses core only.
 */
#include "partition/internal.h"

void partitions_each_of(const struct partitions *p, const char *owner_uid, partitions_each_fn *fn,
			void *arg)
{
	const struct owner *o = map_get(p->owners, str_of(owner_uid));

	if (!o)
		return;
	for (size_t i = 0; i < o->n_slots; i++) {
		const struct slot *s = o->slots[i];
		struct partition_status st;

		partition_get_status(p, owner_uid, s->ask.instance, &st);
		fn(st.ask ? st.ask : &s->ask, &st, arg);
	}
}

void partitions_each_entry(const struct partitions *p, partitions_entry_fn *fn, void *arg)
{
	struct map_iter it = MAP_ITER(p->items);

	while (map_next(&it)) {
		const struct item *item = it.value;

		if (!item->forgotten)
			fn(item->entry, arg);
	}
}

size_t partitions_waiting(const struct partitions *p)
{
	size_t n = 0;

	LIST_FOREACH(pos, tmp, &p->queue)
		n++;
	return n;
}

bool partition_is_broken(const struct partitions *p, const struct partition_entry *entry)
{
	const struct item *item = map_get(p->items, str_of(entry->id));

	return item && entry->phase == PARTITION_ACTIVE &&
	       item->facts.status == PARTITION_PRESENT && item->facts.health != PARTITION_HEALTHY;
}

bool partitions_is_external(const struct partitions *p, const struct vipu_partition *listed)
{
	const struct item *item = map_get(p->items, str_of(listed->id));

	return listed->ready != VIPU_PS_REMOVED && (!item || item->forgotten);
}

int64_t partitions_external(const struct partitions *p, const struct vipu_controller *c)
{
	int64_t n = 0;

	for (size_t i = 0; i < c->partitions.n; i++) {
		const struct vipu_partition *listed = &c->partitions.items[i];

		if (partitions_is_external(p, listed))
			n += (int64_t)listed->n_ipus;
	}
	return n;
}

void partitions_count_usage(struct partitions *p)
{
	struct map_iter it = MAP_ITER(p->items);

	while (map_next(&it))
		item_count_usage(it.value);
}

uint64_t partitions_generation(const struct partitions *p)
{
	return p->generation;
}
