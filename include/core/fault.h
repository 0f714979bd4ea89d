/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fault suites: makes the n-th allocation fail whose size a peer decides (buffers, parsed
 * documents); small fixed allocations aren't counted, they abort when memory is out. And makes a
 * program that runs slow, or forgetful, at a named place. Always compiled in, off unless a test
 * asks.
 */
#ifndef IPU_CORE_FAULT_H
#define IPU_CORE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* From now on, the n-th such allocation fails, once (1: the next one; 0: none). Counting begins
 * anew. */
void fault_alloc_fail_at(unsigned long n);
/* How many there were since the last fault_alloc_fail_at. */
unsigned long fault_alloc_count(void);
/* While it's so, none counts and none fails: of a simulator, in one process with what is tried,
 * where a peer would only be lost, or tell what isn't so. */
void fault_alloc_spare(bool spared);

/* realloc(3) (malloc when p is NULL) that counts, and fails when it's told to: NULL, p is kept. */
void *fault_realloc(void *p, size_t size);

/* What goes wrong where, "ACTION:KIND:NAME[,…]" (from the environment variable IPU_FAULT by the
 * daemon); NULL or "": nothing. Borrowed. Actions: "slow" (each time that the loop comes there, the
 * process does nothing for FAULT_SLOW_MS), "lose" (an end that is never heard of). */
#define FAULT_SLOW_MS 250
void fault_set(const char *places);
extern const char *fault_places; /* private */
bool fault_named(const char *action, const char *kind, const char *name);
void fault_pause(const char *kind, const char *name);

static inline bool fault_lose(const char *kind, const char *name)
{
	return fault_places && fault_named("lose", kind, name);
}

static inline void fault_slow(const char *kind, const char *name)
{
	if (fault_places)
		fault_pause(kind, name);
}

#endif
