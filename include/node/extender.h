/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's extender, version 1 (k8s.io/kube-scheduler/extender/v1): filter and prioritize
 * for Pods that ask for IPUs and aren't bound to a controller's Nodes yet. Answers from memory.
 * Owns nothing. Uses http, partition, pod.
 */
#ifndef IPU_NODE_EXTENDER_H
#define IPU_NODE_EXTENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "http/server.h"
#include "node/nodes.h"

/* ---- the answer, without a server ---- */

/* One controller as a Pod of a certain size sees it. */
struct extender_controller {
	const char *name;   /* "host:port" */
	const char *closed; /* "doesn't answer", "is cordoned", …; NULL: it may be asked */
	int64_t total_ipus;
	unsigned fits; /* partitions of this size that could be made now */
	int score;     /* 0 to 10: how well the Pod's partition fits into what is free */
};

/* What there is at this moment. */
struct extender_view {
	struct nodes *nodes; /* looked at (nodes_look) */
	size_t n;            /* controllers, as in a struct reach */
	/* Asked for each of them at most once an answer. */
	void (*controller)(void *arg, size_t i, uint32_t ipus, struct extender_controller *ret);
	void *arg;
};

enum extender_verb { EXTENDER_FILTER, EXTENDER_PRIORITIZE };

/* IPUs that the Pod asks for, rounded up to a partition's size; 0: this isn't for the extender to
 * say (it asks for none, has its partition, or names a controller's Nodes by itself). ERR_INVALID:
 * it asks for what there can't be. */
int extender_size(const struct nodes *nodes, const struct json *pod, uint32_t *ret,
		  struct err *err);
/* Nodes of one request; Kubernetes is good for 5,000. */
#define EXTENDER_MAX_NODES 10000
/* What an answer may have. */
size_t extender_limit(struct str body);
/* Body of a request to body of an answer. ERR_INVALID: it's no ExtenderArgs; ERR_LIMIT: it has too
 * many Nodes, or the answer more than out takes. */
int extender_answer(const struct extender_view *view, enum extender_verb verb, struct str body,
		    struct buf *out, struct err *err);
/* As an answer that says only why there's none (ExtenderFilterResult's Error). */
int extender_refuse(const char *why, struct buf *out, struct err *err);

/* How well a partition fits into what is free: 10 into a block of just its size, less with each
 * doubling of the smallest one that there is. */
int extender_score(const struct vipu_capacity *capacity, uint32_t ipus);

/* ---- the handler ---- */

struct extender;

/* False: nobody can say yet, and err why. Else view is filled, good until control returns to the
 * loop. */
typedef bool extender_view_fn(void *arg, struct extender_view *view, struct err *err);

struct extender *extender_new(extender_view_fn *view, void *arg);
void extender_free(struct extender *e); /* its server has been freed; NULL is fine */
/* For http_server_listen: arg is the extender. And its http_server_config.on_answered. */
void extender_handle(struct http_exchange *ex, void *arg);
void extender_on_answered(const struct http_answered *answered, void *arg);

#endif
