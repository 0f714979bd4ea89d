/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the cluster of this node's fabric: watches its own Node and the Pods on it, asks the
 * planner (node/publish.h) whenever one of them or the facts change, and carries out what it says.
 * Owns its stores; load doesn't grow with the cluster. Uses core, loop, kube, vipu.
 */
#ifndef IPU_NODE_PUBLISHER_H
#define IPU_NODE_PUBLISHER_H

#include <stdbool.h>

#include "core/err.h"
#include "kube/client.h"
#include "kube/event.h"
#include "loop/loop.h"
#include "node/facts.h"
#include "node/publish.h"
#include "node/verdict.h"
#include "vipu/address.h"

struct publisher;

struct publisher_opts {
	struct loop *loop;
	struct kube_client *kube;
	struct kube_recorder *recorder;
	const char *node; /* the Node's name; copied */
	/* The facts as they are now; borrowed until the next turn. */
	const struct fabric_facts *(*facts)(void *arg);
	void *arg;
	/* Whose labels are published; copied. NULL: not known yet, and nothing is published. */
	const struct vipu_address_list *controllers;
	enum fabric_need need;
	struct publish_settings settings; /* copied */
};

struct publisher *publisher_new(const struct publisher_opts *opts);
void publisher_free(struct publisher *p); /* NULL is fine */

void publisher_look(struct publisher *p); /* the facts have changed */
/* From now on; copied. */
void publisher_set_controllers(struct publisher *p, const struct vipu_address_list *controllers);
void publisher_set(struct publisher *p, enum fabric_need need,
		   const struct publish_settings *settings);

/* The Node has been found, and its Pods have been read; otherwise ret_why says what is missing. */
bool publisher_ready(const struct publisher *p, struct err *ret_why);
/* As of the last look; borrowed. */
const struct fabric_verdict *publisher_verdict(const struct publisher *p);
/* Of a Node that has been read: publish_is_head. */
bool publisher_is_head(const struct publisher *p);
enum fabric_need publisher_need(const struct publisher *p);

#endif
