/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet: the V-IPU controllers of the configuration, their clients, and a view of each that is
 * kept fresh (reachable or why not, IPUs, partitions, capacity). It knows no jobs and no tracker.
 * It owns clients and views; users refer to controllers by name. Uses core, loop, net, grpc.
 */
#ifndef IPU_VIPU_FLEET_H
#define IPU_VIPU_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/list.h"
#include "core/str.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "vipu/address.h"
#include "vipu/api.h"
#include "vipu/capacity.h"
#include "vipu/client.h"
#include "vipu/machines.h"

struct vipu_fleet;
struct net;
struct tls_config;

enum vipu_reach {
	VIPU_REACH_UNKNOWN, /* not asked to the end yet */
	VIPU_REACH_YES,
	VIPU_REACH_NO,
};

/* What is known of one controller. Read only for users; the pointer lives until the controller
 * goes, that is, at most until control returns to the loop: keep the name instead. */
struct vipu_controller {
	const char *name; /* "host:port" */
	struct vipu_address address;
	struct vipu_client *client;
	bool configured; /* false: gone from the configuration, and held */
	bool cordoned;   /* no new partitions here */
	bool draining;   /* cordoned, and those that are here should go elsewhere */
	bool no_node;    /* none of its nodes is ready: no new partitions here, either */
	unsigned holds;

	enum vipu_reach reach;
	char reason[256]; /* why it isn't reachable, in words for people; else "" */
	enum err_kind reason_kind;
	int64_t since_ms; /* monotonic: since when reach is what it is */
	int64_t fresh_ms; /* monotonic: when the last whole answer was asked for; 0: never */
	int64_t failing_since_ms; /* monotonic: the first failure in a row, 0: not failing */
	uint64_t generation;      /* grows with every change of what stands below */

	char *version; /* of the controller's software; "" until known */
	struct vipu_machines machines;
	struct vipu_partitions partitions;
	struct vipu_layout layout;
	struct vipu_capacity capacity;
};

struct vipu_fleet_options { /* zero means the default */
	unsigned call_ms;   /* deadline of each question, 10 s */
	unsigned idle_ms;   /* between refreshes, 30 s */
	unsigned urgent_ms; /* the same while something waits, 2.5 s; both are jittered a little */
};

struct vipu_fleet *vipu_fleet_new(struct net *net, const struct vipu_fleet_options *options);
void vipu_fleet_free(struct vipu_fleet *fleet); /* cancels everything; NULL is fine */

/* One controller to be: the address (copied) and what its Secret held (copied, never logged). */
struct vipu_fleet_entry {
	const struct vipu_address *address;
	struct tls_config *tls;                            /* NULL: none; a reference is taken */
	const char *user_key, *access_key, *user, *access; /* as in vipu_client_config */
	const char *unusable;    /* also: shown as the reason for which it isn't reachable */
	bool expected;           /* unusable, but for moments: not shown for the first seconds */
	bool cordoned, draining; /* draining implies cordoned */
};
/* The whole list as it is to be from now on. Controllers that are in both keep connection and view
 * (other credentials or TLS settings reach the next calls); new ones are asked at once; ones that
 * are gone go, or stay with configured false while somebody holds them. */
void vipu_fleet_configure(struct vipu_fleet *fleet, const struct vipu_fleet_entry *entries,
			  size_t n);

/* What is known of its nodes, by who looks at them; false until then. It stays with the controller,
 * whatever is configured. */
void vipu_fleet_set_no_node(struct vipu_fleet *fleet, const char *name, bool no_node);

size_t vipu_fleet_len(const struct vipu_fleet *fleet);
/* In the configuration's order, then those that are only held. */
struct vipu_controller *vipu_fleet_at(const struct vipu_fleet *fleet, size_t i);
struct vipu_controller *vipu_fleet_find(const struct vipu_fleet *fleet,
					const char *name); /* or NULL */
struct vipu_client *vipu_fleet_client(const struct vipu_fleet *fleet,
				      const char *name); /* or NULL */

/* Keeps a controller that leaves the configuration (it has partitions of the user's), counted.
 * Holding a name that the fleet doesn't have makes it known, without credentials (after a restart
 * the tracker may name a controller that is no longer configured). -1: the name isn't an address.
 */
int vipu_fleet_hold(struct vipu_fleet *fleet, const char *name, struct err *err);
void vipu_fleet_release(struct vipu_fleet *fleet, const char *name);

/* While something waits for room (counted): the quick rhythm. */
void vipu_fleet_wait_begin(struct vipu_fleet *fleet);
void vipu_fleet_wait_end(struct vipu_fleet *fleet);

/* Asks now, unless it's being asked; ends a connection's back-off. NULL: all of them. */
void vipu_fleet_refresh(struct vipu_fleet *fleet, const char *name);
/* A view that was asked for after this call: cb when it's there (err NULL) or the controller failed
 * to answer. c is NULL when the controller has gone. */
typedef void vipu_refreshed_fn(void *arg, const struct err *err, const struct vipu_controller *c);
struct op *vipu_fleet_refresh_start(struct vipu_fleet *fleet, const char *name,
				    vipu_refreshed_fn *cb, void *arg, struct scope *scope);

/* Sums over the configured controllers that are reachable. */
struct vipu_fleet_sums {
	unsigned controllers, reachable;
	unsigned total_ipus, taken_ipus, free_ipus, largest;
};
void vipu_fleet_sum(const struct vipu_fleet *fleet, struct vipu_fleet_sums *ret);

/* Called from the loop after any controller's reach, capacity, partitions or configuration changed;
 * several changes may be one call. name is NULL when the list itself changed. */
struct vipu_fleet_watch;
typedef void vipu_fleet_change_fn(void *arg, const char *name);
struct vipu_fleet_watch { /* embedded in its owner */
	struct list link;
	vipu_fleet_change_fn *cb;
	void *arg;
	bool in_turn; /* private: still to be told of the present change */
};
void vipu_fleet_watch_start(struct vipu_fleet *fleet, struct vipu_fleet_watch *w,
			    vipu_fleet_change_fn *cb, void *arg);
void vipu_fleet_watch_stop(struct vipu_fleet_watch *w); /* idempotent after a start */

#endif
