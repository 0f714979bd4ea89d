/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this machine fit for IPU work over RDMA? A pure judgement of its facts, for a person: a list
 * of findings, each with what was seen and what to do. The rules are a table, which
 * doc/design/head-node.md shows too; a test compares the two. Others' findings (ipuctl's, of a
 * cluster) have the same form and are added to the same list. Uses core.
 */
#ifndef IPU_NODE_CHECKS_H
#define IPU_NODE_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/str.h"
#include "node/facts.h"
#include "vipu/address.h"

#define NODE_MAX_FINDINGS 1024
#define NODE_SEEN_SIZE    320

enum node_result {
	NODE_PASS,
	NODE_WARN, /* it may work, or others' work may not */
	NODE_FAIL,
	NODE_SKIP, /* couldn't be looked at, or there is nothing to look at: not anybody's fault */
};
const char *node_result_name(enum node_result result); /* "pass", "warn", "fail", "skip" */

/* One row of the table: what can be found by one check. */
struct node_rule {
	const char *check, *finding; /* "driver", "missing" */
	enum node_result result;
	/* What a person can do; "": nothing. The word SUBJECT in it stands for the finding's. */
	const char *help;
};

struct node_finding {
	const struct node_rule *rule;
	char subject[NODE_TEXT_SIZE]; /* a device, controller, runtime, …; "": the machine */
	char seen[NODE_SEEN_SIZE];    /* one sentence without a stop */
};

struct node_findings {
	struct node_finding *items; /* NODE_MAX_FINDINGS at most */
	size_t n;
	size_t n_left_out[NODE_SKIP + 1]; /* beyond that, by result */
};
void node_findings_done(struct node_findings *f);

/* Peers' bytes in the arguments are made fit for a terminal. */
void node_find(struct node_findings *f, const struct node_rule *rule, const char *subject,
	       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Those that are left out too. */
size_t node_findings_count(const struct node_findings *f, enum node_result result);
size_t node_findings_left_out(const struct node_findings *f); /* of all results */
/* The rule's help with its subject put in. The caller frees. */
char *node_finding_help(const struct node_finding *finding);

/* Those of this machine; the last one has a NULL check. */
extern const struct node_rule node_rules[];

/* Adds what is found. */
void node_check(const struct fabric_facts *facts, struct node_findings *f);
/* The entries that can't be used. */
void node_check_entries(const struct vipu_address_list *list, struct node_findings *f);

#endif
