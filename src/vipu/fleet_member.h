/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the fleet: a member is one controller, its view, and the questions that are being asked.
 * The fleet owns members. Private to src/vipu.
 */
#ifndef IPU_VIPU_FLEET_MEMBER_H
#define IPU_VIPU_FLEET_MEMBER_H

#include "core/clock.h"
#include "core/list.h"
#include "net/tls.h"
#include "vipu/fleet.h"

struct vipu_fleet {
	struct net *net;
	struct loop *loop;
	struct vipu_fleet_options options;
	struct list members; /* in the configuration's order, then those that are only held */
	struct list watches;
	struct list gone; /* refreshes whose controller has gone: told in the next turn */
	struct loop_work change_work;
	unsigned waiting; /* how many wait for room: the quick rhythm */
	bool list_changed;
	bool freed;
};

/* One look at a controller: up to three questions at once, one verdict. */
struct fleet_member {
	struct list place; /* in the fleet's members */
	struct vipu_fleet *fleet;
	struct vipu_controller c;
	struct tls_config *tls;
	bool unusable;           /* its client refuses calls */
	bool expected;           /* … for moments, as it seems */
	struct loop_timer timer; /* the next look */
	struct scope calls;      /* of the look that goes on */
	unsigned unanswered;     /* of its questions; 0: no look goes on */
	int64_t asked_ms;        /* when it began */
	int64_t all_ms;          /* when the last that asked for all, and was answered, began */
	bool asks_all;           /* the look that goes on: also for version and IPUs */
	bool again;              /* somebody asked for a later one */
	struct err failure;      /* the first of this look, ERR_NONE: none yet */
	struct vipu_machines machines;
	struct vipu_partitions partitions;
	struct list served; /* refreshes that this look answers */
	struct list later;  /* those that came after it had begun */
	bool changed;       /* to be told to the watches */
	bool gone;
};

/* vipu_fleet_refresh_start's operation. */
struct fleet_refresh {
	struct op op;      /* first: the caller holds it */
	struct list place; /* in its member's served or later, or in the fleet's gone */
	struct vipu_fleet *fleet;
	struct loop_work work; /* says that there's no such controller */
	vipu_refreshed_fn *cb;
	void *arg;
};

/* fleet.c */
void fleet_member_changed(struct fleet_member *m);
void fleet_refresh_end(struct fleet_refresh *r, const struct err *err,
		       const struct vipu_controller *c);
/* There's no such controller any more: said in the next turn, or never if the fleet ends too. */
void fleet_refresh_gone(struct fleet_refresh *r);

/* fleet_refresh.c; none calls users back before it returns. */
void fleet_member_init(struct fleet_member *m); /* and begins the first look */
void fleet_member_done(
	struct fleet_member *m); /* cancels; those who wait are told in the next turn */
void fleet_member_ask(struct fleet_member *m); /* a look now, unless one goes on */
void fleet_member_await(struct fleet_member *m, struct fleet_refresh *r);
void fleet_member_schedule(
	struct fleet_member *m); /* brings the next look forward if it's urgent */
void fleet_member_set_address(struct fleet_member *m, struct vipu_address *fresh); /* taken over */

#endif
