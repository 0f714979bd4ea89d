/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash map: open addressing with linear probing and marks for deleted entries. The map owns
 * its keys' copies; values, and keys that are said to be, are borrowed.
 * Uses rand and str.
 */
#include "core/map.h"

#include <stdlib.h>

#include "core/rand.h"

#define MIN_CAP 8

struct slot {
	const char *key; /* NULL: never used since the last rehash; deleted_mark: deleted */
	uint32_t len : 31;
	uint32_t borrowed : 1; /* the key is the value's */
	uint32_t hash;
	void *value;
};

struct map {
	struct slot *slots;
	size_t cap;  /* a power of two, or 0 */
	size_t len;  /* entries */
	size_t used; /* entries and marks */
};

static char deleted_mark[1];
#define DELETED (deleted_mark)

static uint64_t seed[2];
static bool seeded;

static uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotl(s->v1, 13) ^ s->v0;
	s->v0 = rotl(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotl(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotl(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotl(s->v1, 17) ^ s->v2;
	s->v2 = rotl(s->v2, 32);
}

/* SipHash-1-3 (Aumasson and Bernstein, with one round a word and three at the end). */
uint64_t map_hash64(struct str key)
{
	if (!seeded) {
		rand_bytes(seed, sizeof(seed));
		seeded = true;
	}
	struct sip s = {
		seed[0] ^ UINT64_C(0x736f6d6570736575),
		seed[1] ^ UINT64_C(0x646f72616e646f6d),
		seed[0] ^ UINT64_C(0x6c7967656e657261),
		seed[1] ^ UINT64_C(0x7465646279746573),
	};
	const unsigned char *p = (const unsigned char *)key.p;
	size_t left = key.len;

	for (; left >= 8; left -= 8, p += 8) {
		uint64_t m;
		memcpy(&m, p, 8);
		s.v3 ^= m;
		sip_round(&s);
		s.v0 ^= m;
	}
	uint64_t last = (uint64_t)key.len << 56;
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)p[i] << (8 * i);
	s.v3 ^= last;
	sip_round(&s);
	s.v0 ^= last;
	s.v2 ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint32_t map_hash(struct str key)
{
	uint64_t h = map_hash64(key);

	return (uint32_t)(h ^ h >> 32);
}

struct map *map_new(void)
{
	return xcalloc(1, sizeof(struct map));
}

static bool is_entry(const struct slot *s)
{
	return s->key && s->key != DELETED;
}

static void free_key(struct slot *s)
{
	if (!s->borrowed)
		free((void *)(uintptr_t)s->key); /* ours: str_dup's */
}

void map_free(struct map *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->cap; i++) {
		if (is_entry(&m->slots[i]))
			free_key(&m->slots[i]);
	}
	free(m->slots);
	free(m);
}

size_t map_len(const struct map *m)
{
	return m->len;
}

static struct slot *find(const struct map *m, struct str key, uint32_t hash)
{
	if (m->cap == 0)
		return NULL;
	for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct slot *s = &m->slots[i];
		if (!s->key)
			return NULL;
		if (s->hash == hash && s->key != DELETED && s->len == key.len &&
		    (key.len == 0 || memcmp(s->key, key.p, key.len) == 0))
			return s;
	}
}

/* Into a table that has room and no such key. */
static void insert(struct map *m, struct slot entry)
{
	size_t i = entry.hash & (m->cap - 1);

	while (is_entry(&m->slots[i]))
		i = (i + 1) & (m->cap - 1);
	if (!m->slots[i].key)
		m->used++;
	m->slots[i] = entry;
	m->len++;
}

/* Grows, or shrinks after many deletions, or only clears the marks away. */
static void rehash(struct map *m)
{
	struct slot *old = m->slots;
	size_t old_cap = m->cap;
	size_t cap = MIN_CAP;

	while (cap / 2 < m->len + 1)
		cap *= 2;
	m->slots = xcalloc(cap, sizeof(*m->slots));
	m->cap = cap;
	m->len = m->used = 0;
	for (size_t i = 0; i < old_cap; i++) {
		if (is_entry(&old[i]))
			insert(m, old[i]);
	}
	free(old);
}

void *map_get(const struct map *m, struct str key)
{
	if (m->len == 0)
		return NULL;
	struct slot *s = find(m, key, map_hash(key));
	return s ? s->value : NULL;
}

static void *put(struct map *m, struct str key, void *value, bool borrowed)
{
	uint32_t hash = map_hash(key);
	struct slot *s = find(m, key, hash);

	if (s) {
		void *before = s->value;
		if (borrowed || s->borrowed) { /* the old value's key may go with it */
			const char *mine = borrowed ? key.p : str_dup(key);
			free_key(s);
			s->key = mine;
			s->borrowed = borrowed;
		}
		s->value = value;
		return before;
	}
	if (key.len > INT32_MAX)
		abort();
	if ((m->used + 1) * 4 > m->cap * 3 || (m->cap > 64 && m->len < m->cap / 16))
		rehash(m);
	insert(m, (struct slot){borrowed ? key.p : str_dup(key), (uint32_t)key.len & INT32_MAX,
				borrowed, hash, value});
	return NULL;
}

void *map_put(struct map *m, struct str key, void *value)
{
	return put(m, key, value, false);
}

void *map_put_borrowed(struct map *m, struct str key, void *value)
{
	return put(m, key, value, true);
}

void *map_del(struct map *m, struct str key)
{
	struct slot *s = m->len ? find(m, key, map_hash(key)) : NULL;

	if (!s)
		return NULL;
	void *value = s->value;
	free_key(s);
	*s = (struct slot){.key = DELETED};
	m->len--;
	if (m->len == 0) {
		/* An iterator that stands here sees a table of size 0 and ends. */
		free(m->slots);
		*m = (struct map){0};
		return value;
	}
	/* Marks in front of a slot that was never used stop no search: take them away. */
	size_t i = (size_t)(s - m->slots);
	if (!m->slots[(i + 1) & (m->cap - 1)].key) {
		while (m->slots[i].key == DELETED) {
			m->slots[i].key = NULL;
			m->used--;
			i = (i - 1) & (m->cap - 1);
		}
	}
	return value;
}

bool map_next(struct map_iter *it)
{
	const struct map *m = it->map;

	while (it->pos < m->cap) {
		const struct slot *s = &m->slots[it->pos++];
		if (is_entry(s)) {
			it->key = (struct str){s->key, s->len};
			it->value = s->value;
			return true;
		}
	}
	return false;
}
