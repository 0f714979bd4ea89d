/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judgement of a node's fabric: a pure function from facts to the Node condition
 * IPUFabricReady. doc/design/head-node.md has its table. No I/O, no memory, no allocation.
 * Uses core.
 */
#ifndef IPU_NODE_VERDICT_H
#define IPU_NODE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "node/facts.h"

#define FABRIC_CONDITION "IPUFabricReady" /* of the Node: its type */

/* A condition's status; the worse, the larger. */
enum fabric_status {
	FABRIC_TRUE,
	FABRIC_UNKNOWN,
	FABRIC_FALSE,
};
const char *fabric_status_name(enum fabric_status status); /* "True", … */

/* What is asked of RDMA: the key node.rdma. */
enum fabric_need {
	FABRIC_RDMA_ROUTE, /* the interface that leads to the controller has an active port */
	FABRIC_RDMA_ANY,   /* any port of this machine is active: another network leads there */
	FABRIC_RDMA_NONE,  /* nothing */
};

struct fabric_question {
	enum fabric_need need;
	/* By facts' reach: the Node has this controller's label, so it belongs to it. NULL: to
	 * none that is known. */
	const bool *own;
};

#define FABRIC_MESSAGE_SIZE 384

struct fabric_verdict {
	enum fabric_status status;
	const char *id;     /* of the table's row; static */
	const char *reason; /* static */
	char message[FABRIC_MESSAGE_SIZE];
	bool complete; /* else only Unknown for want of a first look */
	/* Whether this machine has RDMA devices to use, whatever their ports' state. */
	enum fabric_status rdma;
	bool has_device; /* and whether it has any, in whatever state */
};

void fabric_judge(const struct fabric_facts *facts, const struct fabric_question *question,
		  struct fabric_verdict *ret);

/* Whether this machine is on the controller's fabric now: facts->reach[i] has no trouble. */
bool fabric_reaches(const struct fabric_facts *facts, enum fabric_need need, size_t i);

/* Whether that says that this machine belongs to the controller, and so may have its label. A way
 * by a gateway says so only where it must lead through an RDMA port (FABRIC_RDMA_ROUTE): a default
 * route leads anywhere. */
bool fabric_belongs(const struct fabric_facts *facts, enum fabric_need need, size_t i);

#endif
