/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from strings to pointers, keyed SipHash with a per-process seed (keys come from
 * peers). It copies keys, where it isn't told to borrow them, and borrows values: whoever puts a
 * value in frees it.
 */
#ifndef IPU_CORE_MAP_H
#define IPU_CORE_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "core/str.h"

struct map;

struct map *map_new(void);
void map_free(struct map *m); /* NULL is fine; values are the caller's */
size_t map_len(const struct map *m);
void *map_get(const struct map *m, struct str key); /* NULL: not there */
/* Puts or replaces; returns the value that was there before, NULL if none. value isn't NULL. */
void *map_put(struct map *m, struct str key, void *value);
/* The same with a key that is part of its value, or lives as long: its bytes aren't copied, and
 * stay as they are until the entry is deleted or replaced, or the map is freed. */
void *map_put_borrowed(struct map *m, struct str key, void *value);
void *map_del(struct map *m, struct str key); /* returns what was there, NULL if nothing */

/* In no particular order. Deleting the entry that the iterator stands on is allowed; putting
 * isn't. key stays valid while its entry does. */
struct map_iter {
	const struct map *map;
	size_t pos;
	struct str key;
	void *value;
};
#define MAP_ITER(m) {.map = (m)}
bool map_next(struct map_iter *it);

/* What its tables are ordered by, for tables of another shape. With 64 bits it tells two texts from
 * each other, whoever made them: the key is secret, and the process's own. */
uint32_t map_hash(struct str key);
uint64_t map_hash64(struct str key);

#endif
