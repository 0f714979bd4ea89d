/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page shows (doc/design/page.md): looks at partitions and fleet when something may have
 * changed, and makes of it one snapshot, and frames that say what has become different. It knows
 * no HTTP. Owns the history, the last steps and the frames that it keeps; partitions and fleet are
 * borrowed. Uses partition and vipu.
 */
#ifndef IPU_PROXY_LIVE_H
#define IPU_PROXY_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/list.h"
#include "core/str.h"
#include "loop/loop.h"
#include "partition/manager.h"
#include "proxy/held.h"
#include "proxy/proxy.h"
#include "vipu/fleet.h"

/* The first frame after a pause comes at once; from then on they are this far apart, so that what
 * viewers cost doesn't grow with how fast things change. */
#define LIVE_FRAME_MS    250
#define LIVE_KEEP_FRAMES 128         /* for those who come back */
#define LIVE_KEEP_BYTES  (256 << 10) /* … and of them, so many bytes */
#define LIVE_STEPS       200
#define LIVE_HELD        PROXY_HELD_NEWEST /* jobs that are held and shown: the newest */
#define LIVE_POINTS      1440              /* of a minute each */
#define LIVE_ID_SIZE     32                /* "EPOCH-N" */

struct live;

struct live_config {
	struct loop *loop;
	struct partitions *partitions;
	struct vipu_fleet *fleet;
	bool full;           /* names of jobs, Pods and controllers; else namespaces and keys */
	proxy_pods_fn *pods; /* with full; NULL: Pods aren't known */
	void *pods_arg;
	proxy_helds_fn *helds; /* NULL: what is held isn't known */
	void *helds_arg;
};

struct live *live_new(const struct live_config *config);
void live_free(struct live *l); /* NULL is fine; no watch is left */
/* The partition layer was made anew; history and steps go on. */
void live_set_partitions(struct live *l, struct partitions *partitions);
/* Something may have changed: it's looked at soon, never from within. Cheap. Changes of the fleet
 * it hears of itself. */
void live_changed(struct live *l);

/* Whether an owner waits for IPUs, or for what is done with them: then it isn't held. */
bool live_asks(struct partitions *partitions, const char *uid);

/* All of it as JSON, as of now (or of less than LIVE_FRAME_MS ago), and the id of the frame that it
 * includes. Borrowed until control returns to the loop. ERR_UNAVAILABLE: the tracker hasn't been
 * read yet; ERR_LIMIT: it's larger than 64 MiB. */
int live_snapshot(struct live *l, struct str *ret_json, char ret_id[LIVE_ID_SIZE], struct err *err);

/* One frame: its id, and its JSON without a line's end in it. */
struct live_frame {
	char id[LIVE_ID_SIZE];
	struct str json;
};
/* For a viewer that has all up to last_id: false where that isn't known, or not kept any more (it
 * needs a snapshot). Else *ret_next is what live_next takes. */
bool live_resume(const struct live *l, const char *last_id, uint64_t *ret_next);
/* The frame with that number, and moves on: false where there is none yet, or (*next unchanged,
 * *ret_gone true) it isn't kept any more. Borrowed until control returns to the loop. */
bool live_next(const struct live *l, uint64_t *next, struct live_frame *ret, bool *ret_gone);

/* fn is called once for each new frame, from the loop; it may stop any watch. */
struct live_watch {
	struct list link;
	void (*fn)(void *arg);
	void *arg;
};
void live_watch_start(struct live *l, struct live_watch *w, void (*fn)(void *arg), void *arg);
void live_watch_stop(struct live_watch *w); /* idempotent; zeroed memory is fine */

#endif
