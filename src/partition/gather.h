/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler looks at, gathered from the fleet's views, the tracker's entries and the
 * site's policy: for one pass over the queue. Private to partition. Uses vipu.
 */
#ifndef IPU_PARTITION_GATHER_H
#define IPU_PARTITION_GATHER_H

#include "partition/internal.h"
#include "partition/policy.h"
#include "partition/schedule.h"

/* A namespace that somebody has or waits for IPUs in. */
struct space {
	struct partition_policy policy;
	struct schedule_quota quota;
	int64_t held_ipus; /* at the pass's beginning */
};

struct gathered {
	struct schedule_controller *controllers; /* in the fleet's order */
	size_t n;
	struct map *spaces;  /* by name */
	struct space *last;  /* of them, that of the last entry, */
	const char *last_ns; /* … whose namespace's name is this pointer */
	struct pod_facts *pods;
	/* Sums over those that may be asked, and over those that answer. */
	unsigned open, free_ipus, total_ipus, largest;
	unsigned configured, reachable, sized, largest_pod; /* sized: whose IPUs are known */
	unsigned n_closed, n_no_node;                       /* the second among the first */
	const char *first_closed;
	const char *reason; /* why the first that doesn't answer doesn't; NULL: none */
	char foreign[128];  /* gather_foreign's */
	bool foreign_known;
	char closed[112]; /* which of those that answer take nothing new, for people; "": none */
};

void gather(const struct partitions *p, struct gathered *ret);
void gather_done(struct gathered *g);
/* How many IPUs of those that may be asked are in partitions that aren't the operator's, and which
 * these are, for people: "16 are in …"; "": none. Counted once a pass, when somebody wants to know.
 */
const char *gather_foreign(const struct partitions *p, struct gathered *g);
/* These aren't free any more, for the words that follow. */
void gather_take(struct gathered *g, uint32_t ipus);
struct space *gather_space(const struct partitions *p, struct gathered *g, const char *ns);
/* The fleet's index of a controller; n: it isn't there. */
size_t gather_index(const struct partitions *p, const char *controller);

#endif
