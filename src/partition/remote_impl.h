/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What remote.c (owners' asks, what they are told) and remote_call.c (requests and answers) share.
 * A seat is an owner's instance at the proxy, as far as this process knows.
 */
#ifndef IPU_PARTITION_REMOTE_IMPL_H
#define IPU_PARTITION_REMOTE_IMPL_H

#include "core/json.h"
#include "core/list.h"
#include "core/map.h"
#include "http/client.h"
#include "loop/backoff.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "partition/remote.h"
#include "partition/tracker.h"

enum seat_step { SEAT_NOTHING, SEAT_ASK, SEAT_RELEASE, SEAT_LOOK, SEAT_FILES };

struct seat {
	struct partition_remote *r;
	/* As it's wanted, or as the tracker says; its attempt as the proxy's status has it. */
	struct partition_ask ask;
	uint32_t attempt; /* that is wanted */
	bool wanted;
	bool ours;      /* by its keeper's word here; else the tracker says that somebody asked */
	bool taken;     /* the proxy has the ask as it's wanted now */
	bool leaving;   /* its keeper has released it, and the proxy hasn't answered to that */
	bool abandoned; /* … and doesn't wait for the removal */
	uint32_t leaving_attempt; /* what was asked for when it was released */
	bool attempt_unknown;     /* the proxy has another one: that's looked at first */
	unsigned word, sent_word; /* how often its keeper spoke; as of the request under way */
	bool held;                /* the proxy may have an ask or a partition of this one */
	int64_t news_ms;          /* mono: when the tracker told of it last; 0: looked at since */
	bool stale;               /* its status has to be asked for */
	int64_t look_ms;          /* mono: when it's asked for without news */
	unsigned keys;            /* of the tracker that are about it */
	struct partition_status status;
	bool has_status;
	char *id, *controller, *host, *label_key, *label_value; /* of status */

	/* The IPUoF configuration, where its Pods get it as files. */
	struct json_doc *files; /* {"files": {NAME: TEXT}}; NULL: not asked for yet */
	uint64_t files_read;    /* which they are, by the status */
	bool files_stale;

	enum seat_step calling; /* the request about it that is under way */
	int64_t asked_ms;       /* mono: when that was sent */
	int64_t not_before_ms;  /* mono: after a refusal */
	struct backoff backoff;
	struct list link; /* in keeper->seats */
	struct keeper *keeper;
	struct list due;     /* in r->due: something is to be asked, perhaps */
	struct list changed; /* in r->changed: its owner is to be told */
};

/* An owner, with all its instances; it goes with the last of them. */
struct keeper {
	struct list seats;
	char uid[];
};

struct partition_remote {
	struct partition_service service;
	struct loop *loop;
	struct http_client *http;
	struct http_origin origin;
	char *host, *server_name, *token_file;
	char *authorization;   /* "Bearer …" */
	int64_t token_read_ms; /* mono */
	struct tracker *tracker;
	struct map *seats;   /* by "instance/UID" */
	struct map *keepers; /* by UID */
	struct map *keys;    /* of the tracker: whose seat it's about */
	struct list due, changed;
	struct { /* remote_tell.c */
		struct told_paper {
			char *text; /* owned; NULL: never given */
			uint8_t digest[32];
			bool due;
			int64_t not_before_ms; /* mono */
		} papers[PARTITION_TOLD];
		bool busy;
		unsigned telling;                /* which of them */
		int64_t again_ms, not_before_ms; /* mono */
		struct loop_timer timer;
	} told;
	unsigned busy;         /* requests under way */
	int64_t not_before_ms; /* mono: the proxy didn't answer */
	int64_t failed_ms;     /* mono: when that was seen; 0: never */
	struct backoff backoff;
	struct err err;
	bool secure; /* https: nothing is sent without TLS */
	bool synced;
	partitions_synced_fn *on_synced;
	partitions_change_fn *on_change;
	bool (*may_act)(void *arg); /* or NULL */
	void *arg;
	struct scope calls;
	struct loop_work work; /* asks and tells */
	struct loop_timer timer, look_timer;
};

/* The tracker's watch may be faster than the answer to the proxy's own write: so long after news, a
 * look is repeated. */
#define SEAT_ECHO_MS 500

/* Not all news is in the tracker: configuration files that have come, a controller's health, that
 * it's drained. So long after a status it's asked for again: while something is under way, and
 * else. */
#define SEAT_SOON_MS 2000
#define SEAT_LATE_MS 30000

/* ---- remote.c ---- */

/* Something about it may have to be asked or told. */
void seat_touch(struct seat *seat);
void seat_changed(struct seat *seat); /* what its owner sees changed */
/* Takes a status object of the proxy's; ERR_PROTOCOL if it's none. */
int seat_take_status(struct seat *seat, const struct json *object, struct err *err);
void seat_forget_status(struct seat *seat);

/* ---- remote_tell.c ---- */

void remote_tell_init(struct partition_remote *r);
void remote_tell_done(struct partition_remote *r);

/* ---- remote_call.c ---- */

/* Starts the one request that is due for this seat, if there is one. */
void seat_step(struct seat *seat);
void partition_remote_read_token(struct partition_remote *r); /* again, where it isn't fresh */
void partition_remote_drop_token(struct partition_remote *r); /* wiped */

#endif
