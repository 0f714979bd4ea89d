/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tracker.c (keys: what is wanted, what the owner has heard), tracker_shard.c (one ConfigMap:
 * what is there, reads and writes) and tracker_keep.c (contents that aren't ours) share.
 */
#ifndef IPU_PARTITION_TRACKER_INTERNAL_H
#define IPU_PARTITION_TRACKER_INTERNAL_H

#include "core/list.h"
#include "core/map.h"
#include "kube/watch.h"
#include "loop/backoff.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "partition/tracker.h"

#define TRACKER_MAX_SHARDS 64
#define TRACKER_GATHER_MS  45           /* between a write's answer and the next write */
#define TRACKER_SPLIT      (512 << 10)  /* bytes: no new key goes where there are more */
#define TRACKER_FULL       (1000 << 10) /* bytes: the API server takes 1 MiB */
#define TRACKER_CALL_MS    15000

#define TRACKER_TAKEN_OVER "TrackerTakenOver" /* reasons of on_report */
#define TRACKER_DAMAGED    "TrackerDamaged"
#define TRACKER_SUPERSEDED "TrackerSuperseded"
#define TRACKER_UNWRITABLE "TrackerUnwritable"

/* A value, counted: what is wanted and what is there are mostly the same one. Its bytes are needed
 * while it's told or written; then its hash tells whether another is the same, and they are dropped
 * where the owner can say them again. */
struct text {
	unsigned refs;
	uint32_t len;
	uint64_t hash;
	char *bytes; /* NULL: dropped */
};

struct text *text_new(struct str s);
struct text *text_ref(struct text *x); /* NULL is fine, here and below */
void text_unref(struct text *x);
bool text_same(const struct text *a, const struct text *b);
bool text_is(const struct text *x, struct str s);
static inline struct str text_str(const struct text *x) /* nothing, where they were dropped */
{
	return x && x->bytes ? (struct str){x->bytes, x->len} : STR_NULL;
}

struct record {
	struct text *want; /* put: what is to be there, NULL: nothing; else: what on_found said */
	bool put;          /* the owner has said what it wants */
	bool bad;          /* rejected: the owner can't read it */
	bool inflight;     /* in a write whose outcome isn't known yet */
	int home;          /* its shard; -1: not chosen yet */
	unsigned copies;   /* of the key, in other shards */
	uint64_t seen;     /* the count of copies that saw it last */
	uint32_t hash;     /* of its owner's UID */
	struct list unsettled; /* in tracker.unsettled: put, and not known to be there */
	struct list news;      /* in tracker.news: the owner is to hear of it */
	char key[];
};

enum shard_state {
	SHARD_IDLE,
	SHARD_READING, /* GET */
	SHARD_KEEPING, /* what isn't ours is being written under another name */
	SHARD_WRITING, /* POST or PATCH */
	SHARD_WAITING, /* back-off */
};

struct shard {
	struct tracker *t;
	int index;
	char *name;
	enum shard_state state;
	bool known;   /* it was seen, or seen not to be there */
	bool exists;  /* also: its contents count */
	bool in_use;  /* keys are meant to be here */
	bool foreign; /* in a format that isn't ours: left alone, and nothing goes on */
	bool alien;   /* somebody else's contents, without a format */
	bool immutable;
	bool said_leaving; /* that it's being deleted */
	bool fenced;       /* this process has written it: nothing older can land any more */
	bool uncertain;    /* a write of ours may land yet */
	bool mislabelled;
	bool must_read; /* what is there may not be what we believe */
	bool carries;   /* the write on its way has keys in it */
	bool full;      /* a key didn't go in any more */
	bool meddled;   /* what was recorded was changed by somebody else */
	char *version;  /* its resourceVersion */
	char *uid;      /* the last that was seen; NULL: none was */
	char *passed;   /* of news that came during a call and wasn't looked at; NULL: none */
	bool passed_deletion;
	struct map *stored; /* key → struct text: what is there */
	size_t bytes;       /* of it */
	size_t pending;     /* bytes that keys meant to be here will need */
	unsigned copies;    /* keys here whose home is another shard */
	struct kept *kept;  /* tracker_keep.c's: alien contents on their way */
	unsigned fences, lost, restores;
	int64_t restored_ms, write_at_ms, sent_us;
	struct err err;
	struct loop_timer timer;
	struct backoff backoff;
};

struct tracker {
	struct kube_client *kube;
	struct kube_watch *watch; /* in scope */
	struct loop *loop;
	char *ns, *name;
	bool follow;
	struct tracker_ops ops;
	void *arg;
	struct map *records; /* by key */
	struct list unsettled, news;
	struct shard *shards[TRACKER_MAX_SHARDS];
	int n; /* shards from 0 that there are or were, gaps included */
	bool listed, relisting, all_read, synced, superseded, told_superseded;
	bool recount; /* keys may be in two shards */
	uint64_t counts;
	int64_t epoch;  /* of this writer; grows until its first write */
	char id[9];     /* tells writers of the same epoch apart */
	bool has_epoch; /* it has written, or is about to */
	int64_t taken_over_ms;
	int64_t made_ms; /* creation of the first ConfigMap */
	unsigned bad;
	struct err err, watch_err, news_err, superseded_err;
	struct loop_timer again; /* to look once more: there was no memory */
	struct scope scope;
	struct loop_work work;
	unsigned long writes;
};

/* ---- tracker.c ---- */

struct record *tracker_find(const struct tracker *t, struct str key);
/* What the key's home has; NULL: nothing. */
struct text *tracker_stored(const struct tracker *t, const struct record *r);
/* The key has another value in this shard now; NULL: it's gone. Never calls the owner. */
void tracker_key_changed(struct tracker *t, struct shard *s, struct str key, struct text *has);
/* The bytes of what is wanted, which isn't NULL, are there again; false: nobody knows them. */
bool tracker_need_bytes(struct tracker *t, struct record *r);
bool tracker_is_halted(const struct tracker *t);
void tracker_look_soon(struct tracker *t);
void tracker_report(struct tracker *t, const char *reason, const char *object, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- tracker_shard.c ---- */

struct shard *shard_new(struct tracker *t, int index);
void shard_free(struct shard *s);
/* The one thing that is to be done now, if any. True: it began a write. */
bool shard_step(struct shard *s);
void shard_note_event(struct shard *s, const struct kube_watch_event *event);
void shard_retry_later(struct shard *s, const struct err *err);

/* ---- tracker_keep.c ---- */

/* Remembers what is in an object that isn't ours; replaces what was remembered before. */
void keep_begin(struct shard *s, const struct json *object);
void keep_forget(struct shard *s);
bool keep_is_done(const struct shard *s);
void keep_start(struct shard *s);
/* Into a merge patch: takes away what is kept. data: the patch's, with what is to be there. */
void keep_clear(const struct shard *s, struct jmut_doc *doc, struct jmut *root, struct jmut *data);
const char *keep_name(const struct shard *s);

#endif
