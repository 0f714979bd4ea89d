/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the partition layer speaks of: owners, asks, the tracker's entries, and what an owner sees.
 * Owners are known by kind, namespace, name and UID; what they are is nobody's business here.
 */
#ifndef IPU_PARTITION_TYPES_H
#define IPU_PARTITION_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define PARTITION_ID_MAX 36 /* longer ones fail inside Poplar */

struct partition_owner {
	const char *kind, *ns, *name, *uid; /* of a copy: interned (core/intern.h) */
};

/* Of the wire's PartitionRequirements; 0 lets the controller choose. */
struct partition_options {
	uint32_t gcds, replicas;
	uint32_t sync_type, routing_type; /* enums of vipu/api.h */
	bool reconfigurable;
	char *allocation; /* owned; NULL: none */
};

/* What an owner asks for, one for each of its instances. */
struct partition_ask {
	struct partition_owner owner;
	uint32_t instance;
	uint32_t ipus; /* a power of two */
	struct partition_options options;
	/* Which run of the owner's it is for: any number, another one for each run that must find a
	 * partition that nobody has used. Asked for with another one (manager.h), what is active is
	 * reset first. It's ready for a run when it's active and its status' ask has that run's
	 * number. */
	uint32_t attempt;

	/* Of the waiting; none of it makes another partition necessary when it changes. */
	int32_t priority;    /* higher goes first */
	int64_t deadline_ms; /* from becoming active, the longest time it's used; 0: not known */
	/* A partition that the owner knows to be its own (its Pods name it): taken over where the
	 * tracker has lost it. And the name that Graphcore's operator 1.2 gave it: taken over by
	 * owners that are older than the tracker. What is taken over is in use by this attempt.
	 * Of a copy interned; NULL: none. */
	const char *adopt, *legacy;
	/* Its owner is on a node with these labels ("key=value", with commas between them): only a
	 * controller with one of them, or with none, may serve it. Owned; NULL: any may. */
	char *node_labels;
	bool interactive; /* deadline_ms is a session's, for which policy has a limit of its own */
	bool only_adopt;  /* nothing is made: if there's none to take over, that's the end of it */
	int64_t created_ms; /* the owner's creation, wall clock; 0: not known */
};

enum partition_phase {
	PARTITION_CREATING,
	PARTITION_ACTIVE,
	PARTITION_RESETTING,
	PARTITION_RELEASING,
	PARTITION_ORPHAN,
};

/* One entry of the tracker. Times are wall-clock milliseconds. */
struct partition_entry {
	char id[PARTITION_ID_MAX + 1];
	struct partition_ask ask; /* its attempt: the run that it was made or last reset for */
	const char *controller;   /* "host:port"; interned */
	enum partition_phase phase;
	int64_t since_ms;  /* when this phase was recorded */
	int64_t settle_ms; /* from here on nothing sent for it can take effect */
	int64_t active_ms; /* when it became active first; 0: not yet */
	int64_t limit_ms;  /* where its ask names no deadline: policy's, as it was then; 0: none */
	char *reason;      /* why it's releasing, for people; owned, may be NULL */
};

/* Why an ask waits, or a partition failed: words for machines beside the message for people. */
enum partition_why {
	PARTITION_WHY_NONE,
	PARTITION_WHY_STARTING,      /* the tracker or the fleet hasn't been read yet */
	PARTITION_WHY_NO_CONTROLLER, /* none is configured */
	PARTITION_WHY_UNREACHABLE,   /* none answers */
	PARTITION_WHY_TOO_LARGE,     /* larger than any controller that answers */
	PARTITION_WHY_NO_NODE,       /* none of the nodes of the controller that could is ready */
	PARTITION_WHY_NO_ROOM,       /* fits, but not now */
	PARTITION_WHY_QUEUED,        /* would fit, but the IPUs are kept for one ahead of it */
	PARTITION_WHY_QUOTA,         /* its namespace has as many IPUs as it may */
	PARTITION_WHY_POLICY,        /* more IPUs, or longer, than a job there may */
	PARTITION_WHY_REFUSED,       /* a controller said no to the create */
	PARTITION_WHY_ERROR,    /* PS_ERROR, a failed operation, or too slow to become active */
	PARTITION_WHY_VANISHED, /* gone from its controller without our doing */
	PARTITION_WHY_TAKEN,    /* the identifier belongs to a partition that isn't ours */
	PARTITION_WHY_TRACKER,  /* the tracker ConfigMap can't be written */
	PARTITION_WHY_CONFIG,   /* active, but its IPUoF configuration can't be had */
	PARTITION_WHY_PROXY,    /* the process that decides about partitions doesn't answer */
};

/* An ask that nothing serves, as the tracker records it: it keeps its place in the queue when
 * another process goes on, and tells those that watch. */
struct partition_wait {
	struct partition_ask ask;
	int64_t since_ms; /* wall: its arrival in the queue */
	bool failed;      /* its partition vanished while in use: waits for its owner's word */
	enum partition_why why;
};

enum partition_state {
	PARTITION_STATE_NONE,
	PARTITION_STATE_WAITING,
	PARTITION_STATE_CREATING,
	PARTITION_STATE_ACTIVE,
	PARTITION_STATE_RESETTING,
	PARTITION_STATE_FAILED,
	PARTITION_STATE_RELEASING,
};

/* What an owner sees of one instance. Strings are borrowed until the next turn of the loop. */
struct partition_status {
	enum partition_state state;
	enum partition_why why;
	char message[256];      /* for people: what it waits for, or what went wrong */
	const char *id;         /* of the serving entry, or NULL */
	const char *controller; /* its "host:port", or NULL */
	const char *host;       /* for IPUOF_VIPU_API_HOST, or NULL */
	uint16_t port;
	const char *label_key, *label_value; /* node selector of that controller, or NULL */
	bool by_file;   /* its Pods get the IPUoF configuration as a file, not the address */
	bool adopting;  /* what the owner knows as its own is being looked for */
	bool adopted;   /* its partition was taken over, not made */
	uint64_t files; /* by_file: what partition_ipuof_files gives, as a sum of hashes; 0: not
			 * there yet */
	bool draining;  /* its controller is being emptied: the owner should move */
	/* From becoming active, the longest time it may be used: its ask's deadline, or the
	 * namespace's default where that names none (of a partition that is there: as it was when
	 * it was made). 0: no limit. Its owner keeps to it; nothing here ends it. */
	int64_t deadline_ms;
	unsigned position; /* in the queue, from 1; 0: isn't in it */
	/* What is asked for; NULL: nothing. Its attempt is the one that the partition was made or
	 * last reset for (or is being), where there is one: ACTIVE is for that run. */
	const struct partition_ask *ask;
	/* The one that is asked for; another one than its owner's where a person has asked for a
	 * reset: the owner asks again. */
	uint32_t wanted_attempt;
	uint32_t resets; /* resets that have been completed since this process started */
	/* Wall clock: when the present state was recorded; it outlives processes. ACTIVE, FAILED
	 * with an id: when it became active for its attempt, WAITING: when it was first asked for
	 * what it hasn't got, RELEASING: of what is on its way out, the earliest. */
	int64_t since_ms;
};

void partition_owner_done(struct partition_owner *o);
void partition_owner_copy(struct partition_owner *to, const struct partition_owner *from);
void partition_ask_done(struct partition_ask *a);
void partition_ask_copy(struct partition_ask *to, const struct partition_ask *from);
bool partition_ask_same_need(const struct partition_ask *a, const struct partition_ask *b);
void partition_entry_free(struct partition_entry *e); /* NULL is fine */

const char *partition_phase_name(enum partition_phase phase); /* "creating", … */
int partition_phase_parse(struct str s, enum partition_phase *ret, struct err *err);
int partition_why_parse(struct str s, enum partition_why *ret, struct err *err);
const char *partition_state_name(enum partition_state state);
/* Its owner waits for IPUs, or for what is done with them. */
bool partition_state_asks(enum partition_state state);
const char *partition_why_name(enum partition_why why); /* "NoRoom", …: an Event's reason */

/* Legible and unique: what fits of "<name>-<namespace>-<instance>-", then ten hex digits of
 * SHA-256 over UID, instance and incarnation. Lower-case letters, digits and '-'; begins with a
 * letter. */
void partition_id_make(const struct partition_owner *owner, uint32_t instance, uint64_t incarnation,
		       char ret_id[PARTITION_ID_MAX + 1]);

/* How long it is without those digits; 0: it doesn't end in them, and is no such identifier. */
size_t partition_id_stem(const char *id);

/* What stands for an owner where its name isn't told (doc/design/page.md): whoever knows its UID
 * can compute it, and nobody can go back. */
#define PARTITION_OWNER_KEY_SIZE 17
void partition_owner_key(const char *owner_uid, char ret_key[PARTITION_OWNER_KEY_SIZE]);

/* The key of a wait in the tracker: "ask." and hex digits; no identifier has a dot. */
#define PARTITION_WAIT_KEY_SIZE 24
void partition_wait_key(const char *owner_uid, uint32_t instance,
			char ret_key[PARTITION_WAIT_KEY_SIZE]);
bool partition_is_wait_key(struct str key);
void partition_wait_done(struct partition_wait *w);
int partition_wait_encode(const struct partition_wait *w, struct buf *out, struct err *err);
int partition_wait_decode(struct str json, struct partition_wait *ret, struct err *err);

/* The IPUoF configuration as files, one for each GCD: the keys of a ConfigMap. */
#define PARTITION_MAX_GCDS       4096
#define PARTITION_FILES_BYTES    (960u << 10) /* all of them: a ConfigMap holds 1 MiB */
#define PARTITION_FILE_NAME_SIZE 24
void partition_file_name(uint32_t gcd, char ret_z[PARTITION_FILE_NAME_SIZE]); /* "ipuof-0.conf" */
typedef void partition_file_fn(const char *name, struct str text, void *arg);
/* Never 0. The sum over all files, whatever their order, tells whether they are the same. */
uint64_t partition_file_hash(struct str name, struct str text);

/* An ask as members of a JSON object (owner, instance, ipus, options, priority …), for the tracker
 * and for REST. Decoding takes one member at a time; ERR_INVALID for one that isn't an ask's. */
void partition_ask_encode(struct jmut_doc *doc, struct jmut *root, const struct partition_ask *ask);
int partition_ask_decode_member(struct partition_ask *ask, struct str key, const struct json *v,
				struct err *err);

/* The tracker's form of an entry: one JSON object. Unknown members are refused (ERR_INVALID):
 * the ConfigMap's format version says what may be there. */
int partition_entry_encode(const struct partition_entry *e, struct buf *out, struct err *err);
int partition_entry_decode(const char *id, struct str json, struct partition_entry **ret,
			   struct err *err);

#endif
