/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of interned texts: open addressing with linear probing over the texts' own headers, so
 * that one costs its bytes, twelve more, and a pointer. Owns them all. Uses map (its hash) and str.
 */
#include "core/intern.h"

#include <stdlib.h>

#include "core/fault.h"
#include "core/list.h"
#include "core/map.h"

#define MIN_CAP 64

struct word {
	uint32_t hash, refs, len;
	char z[];
};

static struct {
	struct word **slots;
	size_t cap; /* a power of two, or 0 */
	size_t len;
} table;

static struct word *word_of(const char *interned)
{
	return CONTAINER_OF((char *)(uintptr_t)interned, struct word, z);
}

static size_t next(size_t i)
{
	return (i + 1) & (table.cap - 1);
}

/* Where it is, or where it would go. */
static size_t find(struct str s, uint32_t hash)
{
	size_t i = hash & (table.cap - 1);

	for (; table.slots[i]; i = next(i)) {
		const struct word *w = table.slots[i];

		if (w->hash == hash && w->len == s.len && (!s.len || !memcmp(w->z, s.p, s.len)))
			break;
	}
	return i;
}

static void resize(size_t cap)
{
	struct word **old = table.slots;
	size_t old_cap = table.cap;

	table.slots = xcalloc(cap, sizeof(struct word *));
	table.cap = cap;
	for (size_t i = 0; i < old_cap; i++) {
		size_t at;

		if (!old[i])
			continue;
		for (at = old[i]->hash & (cap - 1); table.slots[at]; at = next(at)) {
		}
		table.slots[at] = old[i];
	}
	free(old);
}

/* allocate: realloc, or one that aborts. */
static const char *take(struct str s, void *(*allocate)(void *p, size_t size))
{
	uint32_t hash = map_hash(s);
	struct word *w;
	size_t i;

	if ((table.len + 1) * 4 > table.cap * 3)
		resize(table.cap ? table.cap * 2 : MIN_CAP);
	i = find(s, hash);
	w = table.slots[i];
	if (!w) {
		w = s.len < UINT32_MAX ? allocate(NULL, sizeof(*w) + s.len + 1) : NULL;
		if (!w)
			return NULL;
		*w = (struct word){.hash = hash, .len = (uint32_t)s.len};
		if (s.len)
			memcpy(w->z, s.p, s.len);
		w->z[s.len] = '\0';
		table.slots[i] = w;
		table.len++;
	}
	w->refs++;
	return w->z;
}

const char *intern(struct str s)
{
	const char *z = take(s, xrealloc);

	if (!z)
		abort();
	return z;
}

const char *intern_try(struct str s)
{
	return take(s, fault_realloc);
}

const char *intern_or_null(struct str s)
{
	return s.len ? intern(s) : NULL;
}

const char *intern_z(const char *z)
{
	return z ? intern(str_of(z)) : NULL;
}

const char *intern_ref(const char *interned)
{
	if (interned)
		word_of(interned)->refs++;
	return interned;
}

/* Those behind it move up, so that there is never a gap between a text and the place where the
 * search for it begins. */
static void take_out(size_t gap)
{
	table.slots[gap] = NULL;
	table.len--;
	for (size_t i = next(gap); table.slots[i]; i = next(i)) {
		size_t home = table.slots[i]->hash & (table.cap - 1);

		if (((i - home) & (table.cap - 1)) < ((i - gap) & (table.cap - 1)))
			continue;
		table.slots[gap] = table.slots[i];
		table.slots[i] = NULL;
		gap = i;
	}
}

void intern_drop(const char *interned)
{
	struct word *w;
	size_t i;

	if (!interned)
		return;
	w = word_of(interned);
	if (--w->refs)
		return;
	for (i = w->hash & (table.cap - 1); table.slots[i] != w; i = next(i)) {
	}
	take_out(i);
	free(w);
	if (table.len == 0) {
		free(table.slots);
		table.slots = NULL;
		table.cap = 0;
	} else if (table.cap > MIN_CAP && table.len < table.cap / 8) {
		resize(table.cap / 2);
	}
}

struct str intern_str(const char *interned)
{
	return interned ? (struct str){interned, word_of(interned)->len} : STR_NULL;
}

size_t intern_len(void)
{
	return table.len;
}
