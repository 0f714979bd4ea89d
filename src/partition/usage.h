/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has held how many IPUs for how long, by namespace: a counter that is brought up to date at
 * each look at an entry, and before each scrape. The sums are the process's, whoever leads.
 */
#ifndef IPU_PARTITION_USAGE_H
#define IPU_PARTITION_USAGE_H

#include <stdbool.h>
#include <stdint.h>

/* More namespaces than that: the one that has held nothing for longest makes room. */
#define USAGE_MAX_NAMESPACES 1000

struct usage_namespace;

/* Of one entry; zeroed: it holds nothing. */
struct usage {
	struct usage_namespace *ns; /* whose time runs; NULL: nobody's */
	uint32_t ipus;
	int64_t from_ms; /* mono: counted until then */
};

/* Counts what it has held since the last call. holds: what it does from now on. */
void usage_count(struct usage *u, const char *ns, uint32_t ipus, bool holds);

#endif
