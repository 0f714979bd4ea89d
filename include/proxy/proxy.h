/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy role's two REST ports (doc/openapi.yaml): questions for everybody, answered from
 * memory, and partitions for their owners. Partitions, fleet and clients are borrowed; it
 * owns the requests that it hasn't answered. Uses http, kube, partition, vipu.
 */
#ifndef IPU_PROXY_PROXY_H
#define IPU_PROXY_PROXY_H

#include <stdbool.h>

#include "core/err.h"
#include "http/client.h"
#include "http/server.h"
#include "kube/client.h"
#include "loop/loop.h"
#include "partition/manager.h"
#include "vipu/fleet.h"

struct proxy;

/* The live page (doc/design/page.md). */
enum proxy_page {
	PROXY_PAGE_OFF,
	PROXY_PAGE_USAGE, /* namespaces and numbers */
	PROXY_PAGE_FULL   /* names of jobs, Pods and controllers */
};

/* A Pod that uses an owner's partition; borrowed. */
struct proxy_pod {
	const char *name, *phase, *node; /* node: "" until it has one */
};
typedef void proxy_pod_fn(void *arg, const struct proxy_pod *pod);
/* Calls fn for the Pods of one owner's instance that are known. */
typedef void proxy_pods_fn(void *arg, const struct partition_owner *owner, uint32_t instance,
			   proxy_pod_fn *fn, void *fn_arg);

/* A job that neither runs nor has ended, and perhaps isn't in the queue; borrowed until control
 * returns to the loop. */
struct proxy_held {
	const char *uid, *ns, *kind, *name;
	int64_t ipus, since_ms;      /* wall */
	const char *reason;          /* a word in camel case */
	const char *message, *plain; /* plain: nothing is named in it */
};
typedef void proxy_held_fn(void *arg, const struct proxy_held *held);
/* Calls fn for all of them, or for the newest: *ret_more is how many there are besides, if any.
 * False: they aren't known. */
typedef bool proxy_helds_fn(void *arg, proxy_held_fn *fn, void *fn_arg, size_t *ret_more);

struct proxy_config {
	struct loop *loop;
	struct partitions *partitions;
	struct vipu_fleet *fleet;
	bool details; /* /queue, /partitions and /controllers are answered */
	enum proxy_page page;
	proxy_pods_fn *pods;    /* for PROXY_PAGE_FULL; NULL: Pods aren't known */
	proxy_helds_fn *helds;  /* NULL: another process tells of them, or they aren't known */
	void *pods_arg;         /* of both */
	const char *token_file; /* while this process follows: to ask who leads for these; copied;
				 * NULL or "": it has none, and they aren't known */
	unsigned viewers;       /* of the live page, at a time; 0: 384 */
	const char *accounts;   /* that may ask for any owner, separated by commas; copied */
	unsigned wait_ms;       /* a GET with wait is answered after that at the latest; 0: 60 s */
	unsigned call_ms;       /* for calls to V-IPU controllers; 0: 10 s */
	struct kube_client *kube; /* to ask who a token belongs to */
	struct http_client *http; /* to pass requests on to the leader; NULL: they get 503 */
};

struct proxy *proxy_new(const struct proxy_config *config);
/* The server that it answers on has been freed before. NULL is fine. */
void proxy_free(struct proxy *p);
/* Answers those that wait for a change, so that a graceful end needn't. */
void proxy_stop(struct proxy *p);

/* For http_server_listen: arg is the proxy. */
void proxy_handle_open(struct http_exchange *ex, void *arg);
void proxy_handle_partitions(struct http_exchange *ex, void *arg);
/* For http_server_config.on_answered: counts and logs what either of them has answered. */
void proxy_on_answered(const struct http_answered *answered, void *arg);

/* Of a Node, its labels by which V-IPU controllers' nodes are known, as an ask's node_labels; NULL
 * where it has none, or nobody can say. -1 and ERR_UNAVAILABLE: it can be said in a moment. */
typedef int proxy_node_labels_fn(void *arg, const char *node, char **ret, struct err *err);
/* From now on a Pod that asks for itself gets IPUs that are reached from its node. */
void proxy_set_node_labels(struct proxy *p, proxy_node_labels_fn *fn, void *arg);

/* For partitions_change_fn: wakes those that wait for this owner. */
void proxy_partition_changed(struct proxy *p, const struct partition_owner *owner);

/* What pods tells has changed. */
void proxy_pods_changed(struct proxy *p);

/* The partition layer was made anew (leading and following are two lives of it): from now on it's
 * this one. Those that wait for a change are told to ask again. */
void proxy_set_partitions(struct proxy *p, struct partitions *partitions);
/* Whether this process decides, as it does in the beginning. If not, address ("host:port", copied)
 * is the TLS port of the one that does, to which changing requests go; NULL: nobody does now. */
void proxy_set_leader(struct proxy *p, bool leading, const char *address);
/* How to trust that one: a client's settings (a reference is taken), and the name that its
 * certificate must have (copied). */
void proxy_set_peer_tls(struct proxy *p, struct tls_config *tls, const char *server_name);

#endif
