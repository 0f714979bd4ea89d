/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For rows that are tried without memory: in each try one allocation more goes well and the next
 * one fails, once, until a try needs no more than went well.
 *
 *	struct no_memory m = {0};
 *
 *	while (no_memory_next(&m)) {
 *		no_memory_begin(&m);
 *		… what is tried …
 *		no_memory_end(&m);
 *		… how it went: diag("allocation %lu", m.n) …
 *	}
 *	no_memory_ok(&m, 20);
 */
#ifndef IPU_T_UNIT_NO_MEMORY_H
#define IPU_T_UNIT_NO_MEMORY_H

#include "tap.h"

#include "core/fault.h"

struct no_memory {
	unsigned long most; /* allocations at which it's given up; 0: 2000 */
	unsigned sparse;    /* 0: each fails; else ever fewer: n + 1 + n / sparse follows on n */
	/* NULL: those of core/fault.h, whose size a peer decides. */
	void (*fail_at)(unsigned long n);
	unsigned long (*count)(void);

	unsigned long n; /* which one fails in this try */
	unsigned tries;
	bool whole; /* a try needed fewer: all have failed */
};

static inline bool no_memory_next(struct no_memory *m)
{
	if (m->whole || m->n >= (m->most ? m->most : 2000))
		return false;
	m->n += 1 + (m->sparse ? m->n / m->sparse : 0);
	m->tries++;
	return true;
}

static inline void no_memory_begin(struct no_memory *m)
{
	if (!m->fail_at) {
		m->fail_at = fault_alloc_fail_at;
		m->count = fault_alloc_count;
	}
	m->fail_at(m->n);
}

static inline void no_memory_end(struct no_memory *m)
{
	m->whole = m->count() < m->n;
	m->fail_at(0);
}

/* All have failed, and there were at least so many: what is tried was reached. */
static inline void no_memory_ok(const struct no_memory *m, unsigned long least)
{
	ok(m->whole && m->n > least, "it takes %s%lu allocations", m->sparse ? "no more than " : "",
	   m->n - 1);
}

#endif
