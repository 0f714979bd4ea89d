/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy role's two REST ports (doc/openapi.yaml): questions for everybody, answered from
 * memory, and partitions for their owners. Partitions, fleet, HTTP client and the callers' tokens
 * are borrowed; it owns the requests that it hasn't answered. Uses http, partition, vipu.
 */
#ifndef IPU_PROXY_PROXY_H
#define IPU_PROXY_PROXY_H

#include <stdbool.h>

#include "core/err.h"
#include "http/client.h"
#include "http/server.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "partition/manager.h"
#include "vipu/fleet.h"

struct proxy;

/* Who a token belongs to, as the API server says. Borrowed. */
struct proxy_token {
	const char *account;            /* "system:serviceaccount:NS:NAME" */
	const char *pod_name, *pod_uid; /* of the Pod that the token is bound to, or NULL */
};
/* Once. err NULL and a token, or ERR_DENIED: it isn't good for the audience ipu-operator-proxy; any
 * other error: that can't be said now. */
typedef void proxy_reviewed_fn(void *arg, const struct err *err, const struct proxy_token *token);
/* Never calls back before it returns. The text is copied and never logged. */
typedef struct op *proxy_review_fn(void *review_arg, struct str text, proxy_reviewed_fn *cb,
				   void *arg, struct scope *scope);

struct proxy_config {
	struct loop *loop;
	struct partitions *partitions;
	struct vipu_fleet *fleet;
	bool details;         /* /queue, /partitions and /controllers are answered */
	const char *accounts; /* that may ask for any owner, separated by commas; copied */
	unsigned wait_ms;     /* a GET with wait is answered after that at the latest; 0: 60 s */
	unsigned call_ms;     /* for calls to V-IPU controllers; 0: 10 s */
	proxy_review_fn *review;
	void *review_arg;
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

/* For partitions_change_fn: wakes those that wait for this owner. */
void proxy_partition_changed(struct proxy *p, const struct partition_owner *owner);

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
