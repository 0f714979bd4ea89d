/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of who gets which controller's IPUs next: from what is known of the controllers, and
 * one ask after the other in the queue's order, to what becomes of each (doc/design/queue.md).
 * Pure: no I/O, no clock; what is handed in is borrowed. Uses vipu/capacity.h.
 */
#ifndef IPU_PARTITION_SCHEDULE_H
#define IPU_PARTITION_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipu/capacity.h"

#define SCHEDULE_SIZES 17 /* partitions of 1 to 65536 IPUs */
#define SCHEDULE_NEVER INT64_MAX
#define SCHEDULE_SLACK_MS                                                                          \
	60000 /* from a create to the use, and from its end to the IPUs' return                    \
	       */

enum schedule_choice { SCHEDULE_FIRST_FIT, SCHEDULE_BEST_FIT };

/* IPUs of one domain in a partition that is expected to go. What is taken and has no hold stays. */
struct schedule_hold {
	uint32_t domain;
	uint64_t mask;
	int64_t until_ms; /* wall, or SCHEDULE_NEVER */
};

/* IPUs of a partition that are expected back, wherever they are. */
struct schedule_return {
	int64_t until_ms; /* wall, or SCHEDULE_NEVER */
	uint32_t ipus;
};

struct schedule_controller {
	bool open;              /* configured, answers, not cordoned, with a node that is ready */
	bool no_node;           /* it would be open, but for that */
	bool fresh;             /* its view may be relied on */
	const char *allocation; /* NULL or "": any that an ask names */
	const char *label;      /* of its nodes, "key=value"; NULL or "": any node's */
	unsigned total_ipus, free_ipus;
	const uint64_t *taken; /* n_domains words, as in struct vipu_layout */
	size_t n_domains;
	const struct schedule_hold *holds;
	size_t n_holds;
	/* Recorded, and not in its list yet, in the order in which they were. */
	const struct schedule_return *pending;
	size_t n_pending;
	unsigned unanswered, max_unanswered; /* creates that it was asked for */
};

/* A namespace's IPUs. Kept up while the queue is gone through. */
struct schedule_quota {
	int64_t max_ipus; /* -1: no limit */
	int64_t used_ipus;
	struct schedule_return *returns; /* what is used; put in order when that's needed */
	size_t n_returns;
	bool closed;      /* one waits for it: what is left is that one's */
	int64_t start_ms; /* when enough is expected back for that one */
};

/* A block of the ask's size: its first domain, and the IPUs in each of its domains. */
struct schedule_block {
	size_t controller, domain;
	uint64_t mask;
};

struct schedule_ask {
	uint32_t ipus;
	int64_t deadline_ms;          /* longest use; 0: not known */
	const char *allocation;       /* NULL or "": none */
	const char *node_labels;      /* of its node, with commas; NULL or "": it's on none yet */
	const unsigned *refusals;     /* by each controller, NULL: none */
	struct schedule_quota *quota; /* NULL: none */
	/* What was reserved for it the last time, NULL: nothing. It only moves for the better: what
	 * isn't listed yet, and may be anywhere, doesn't drive it away. */
	const struct schedule_block *kept;
};

enum schedule_verdict {
	SCHEDULE_SERVE,     /* ask .controller for it */
	SCHEDULE_LOOK,      /* .controller has room by an old view: look there, then again */
	SCHEDULE_BUSY,      /* .controller has room, and enough to do for now */
	SCHEDULE_NO_ROOM,   /* waits for others' end */
	SCHEDULE_QUEUED,    /* there's room, kept for one ahead of it */
	SCHEDULE_NO_NODE,   /* .controller could, and none of its nodes is ready */
	SCHEDULE_TOO_LARGE, /* for all that may be asked */
	SCHEDULE_NOBODY,    /* none may be asked */
	SCHEDULE_QUOTA,     /* the namespace has enough */
};

struct schedule_decision {
	enum schedule_verdict verdict;
	size_t controller;           /* of SERVE, LOOK, BUSY and NO_NODE */
	bool reserved;               /* a block is kept for it */
	struct schedule_block block; /* which one */
	int64_t start_ms; /* when that is expected to be free; SCHEDULE_NEVER: not known */
};

/* Whether the controller is one of those that a node with these labels reaches; NULL or "": each.
 */
bool schedule_reaches(const struct schedule_controller *c, const char *node_labels);

struct schedule;

/* controllers is borrowed until schedule_free. */
struct schedule *schedule_new(enum schedule_choice choice, int64_t now_ms,
			      const struct schedule_controller *controllers, size_t n);
void schedule_free(struct schedule *s); /* NULL is fine */

/* What becomes of the next one in the queue. What is served, looked for or reserved here counts for
 * those that come after. */
void schedule_decide(struct schedule *s, const struct schedule_ask *ask,
		     struct schedule_decision *ret);

/* After the queue: free IPUs kept on a controller, and how many partitions of size (a power of two;
 * 0 for others) one more ask without an end could have there. */
unsigned schedule_reserved(const struct schedule *s, size_t controller);
unsigned schedule_count(const struct schedule *s, size_t controller, uint32_t size);

#endif
