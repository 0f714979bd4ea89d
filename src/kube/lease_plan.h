/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a contender knows of a Lease, and the one next step that follows from it: the rules of
 * doc/design/leadership.md, without I/O and on a clock that is handed in. Uses core/ and
 * kube/object.h.
 */
#ifndef IPU_KUBE_LEASE_PLAN_H
#define IPU_KUBE_LEASE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "kube/lease.h"

#define LEASE_VERSION_SIZE   64
#define LEASE_MAX_FOREIGN_MS 600000 /* a holder that claims more time than that isn't believed */

/* One version of the Lease, as far as it concerns us. */
struct lease_record {
	char holder[KUBE_LEASE_WORD_SIZE]; /* "": none; cut where it's too long to be ours */
	char address[KUBE_LEASE_WORD_SIZE];
	char version[LEASE_VERSION_SIZE], uid[LEASE_VERSION_SIZE];
	int64_t duration_ms; /* 0: not said */
	int64_t transitions;
};

enum lease_known { LEASE_UNKNOWN, LEASE_ABSENT, LEASE_THERE };

/* All times are the contender's own monotonic milliseconds. */
struct lease_state {
	/* Settings. */
	char identity[KUBE_LEASE_WORD_SIZE];
	int64_t duration_ms, renew_ms, retry_ms;
	/* What is known. */
	enum lease_known known;
	bool stale;                 /* a write met another version: look before anything else */
	bool was_there;             /* in this process' life */
	struct lease_record record; /* the newest; kept when it's absent */
	int64_t free_ms;            /* before this, somebody else may hold it */
	/* What is ours. */
	bool held;
	int64_t sent_ms; /* of the last successful write: held until renew_ms later */
	/* Pace. */
	int64_t renew_at_ms; /* the next renewal */
	int64_t try_at_ms;   /* no call before: after a failure */
	int64_t look_at_ms;  /* the next look when nobody tells us of changes */
	unsigned conflicts;  /* in a row */
};

enum lease_action {
	LEASE_WAIT,
	LEASE_LOOK,   /* get it */
	LEASE_CREATE, /* make it, with us as its holder */
	LEASE_TAKE,   /* write us into it, if it's still of the version that we know */
	LEASE_RENEW,  /* the same, as its holder */
};

struct lease_step {
	enum lease_action action;
	int64_t at_ms; /* of LEASE_WAIT: look at the plan again then */
};

void lease_init(struct lease_state *s, const struct kube_lease_opts *opts, int64_t now_ms);

/* live: a watch tells us of changes, at least that the holder renews: see lease_silent_ms.
 * Level-triggered: changes nothing but `held`, which ends here when its time is over. */
struct lease_step lease_plan(struct lease_state *s, int64_t now_ms, bool live);

/* If nothing is seen of it until this time, a watch that seems to work is no reason not to look. */
int64_t lease_silent_ms(const struct lease_state *s);

/* Until this time we hold it. */
int64_t lease_lost_ms(const struct lease_state *s);
bool lease_holds(const struct lease_state *s, int64_t now_ms);
/* Who holds it, as far as we know; NULL: nobody. */
const struct lease_record *lease_holder(const struct lease_state *s, int64_t now_ms);

/* The Lease was seen in this state: by a watch (which may lag behind), or by asking. NULL: it isn't
 * there. */
void lease_saw(struct lease_state *s, const struct lease_record *r, int64_t now_ms);
void lease_saw_by_watch(struct lease_state *s, const struct lease_record *r, int64_t now_ms);
/* A write of ours that was sent at sent_ms has succeeded, and made this version. */
void lease_written(struct lease_state *s, const struct lease_record *r, int64_t sent_ms,
		   int64_t now_ms);
/* A look or a write that was sent at sent_ms has failed. */
void lease_failed(struct lease_state *s, enum lease_action action, const struct err *err,
		  int64_t sent_ms, int64_t now_ms);

/* ---- documents ---- */

/* Reads what may be foreign or odd: what isn't there or of another type is as if it weren't said.
 */
void lease_read(const struct json *object, struct lease_record *ret);
/* The body of a create (LEASE_CREATE), of a merge patch (LEASE_TAKE, LEASE_RENEW), or of one that
 * gives it back (LEASE_WAIT). */
struct jmut *lease_write(const struct lease_state *s, enum lease_action action, const char *name,
			 const char *ns, const char *address, int64_t wall_ms,
			 struct jmut_doc *doc);

#endif
