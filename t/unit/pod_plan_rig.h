/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for the tests of the annotated Pods' planner: a Pod, its partition and its
 * ConfigMap, and what the planner sees of them. Included once by each test.
 */
#ifndef IPU_T_UNIT_POD_PLAN_RIG_H
#define IPU_T_UNIT_POD_PLAN_RIG_H

#include "core/str.h"
#include "job/files.h"
#include "pod/plan.h"
#include "tap.h"

#define NOW     INT64_C(1700000000000)
#define FILES   UINT64_C(42) /* the hash of any partition's files */
#define TEXT(z) ((char *)(uintptr_t)(z))
#define TOKEN   "00112233445566778899aabbccddeeff"

enum wpod_kind { BEHIND_GATE, OPENED, ON_ITS_OWN };

struct world {
	enum wpod_kind kind;
	bool started, ended, deleting, stuck;
	bool others, of_job, copy, bad, picky; /* picky: its node selector says otherwise */
	unsigned opened_with;                  /* OPENED: which partition, by its number */

	enum partition_state state;
	unsigned number; /* which partition it is; a new one gets the next */
	bool broken;     /* failed, and still there */
	bool otherwise;  /* asked for with another number of IPUs */
	bool fetched;    /* its files have come */
	bool draining;
	bool by_address; /* not by file */

	enum { NO_FILES, GOOD_FILES, OTHER_FILES, FOREIGN_FILES, DYING_FILES } files;
	unsigned files_of; /* which partition's, by its number */

	bool adopted, fenced, held_back;
};

/* Lives until the next look. */
struct sight {
	struct pod pod;
	struct partition_ask ask;
	struct partition_status part;
	struct job_files files;
	char id[16], opened_with[16], files_of[16];
	struct pod_view view;
};

static inline bool is_asked(const struct world *w)
{
	return w->state != PARTITION_STATE_NONE && w->state != PARTITION_STATE_RELEASING;
}

static inline bool has_id(const struct world *w)
{
	return w->state == PARTITION_STATE_CREATING || w->state == PARTITION_STATE_ACTIVE ||
	       w->state == PARTITION_STATE_RESETTING ||
	       (w->state == PARTITION_STATE_FAILED && w->broken);
}

static inline void see_pod(const struct world *w, struct sight *s)
{
	snprintf(s->opened_with, sizeof(s->opened_with), "p%u", w->opened_with);
	s->pod = (struct pod){
		.ns = TEXT("ns"),
		.name = TEXT("p"),
		.uid = TEXT("uid-of-p"),
		.version = TEXT("7"),
		.token = TEXT(TOKEN),
		.token_key = TEXT("ns/" TOKEN),
		.partition = w->kind == OPENED ? s->opened_with : NULL,
		.selector = w->picky ? TEXT("disk=ssd\npod=other\n") : TEXT("disk=ssd\n"),
		.problem = w->bad ? TEXT("must be a power of two") : NULL,
		.ipus = w->bad ? 0 : 4,
		.gated = w->kind == BEHIND_GATE,
		.other_gate = w->others ? (char *)(uintptr_t)"example.com/other" : NULL,
		.deleting = w->deleting,
		.deletion_ms = w->deleting ? NOW - (w->stuck ? 61000 : 0) : 0,
		.started = w->started,
		.ended = w->ended,
		.of_job = w->of_job,
	};
}

static inline void see_part(const struct world *w, struct sight *s)
{
	snprintf(s->id, sizeof(s->id), "p%u", w->number);
	s->ask = pod_ask(&s->pod, 0);
	s->ask.ipus = w->otherwise ? 8 : 4;
	s->part = (struct partition_status){
		.state = w->state,
		.ask = is_asked(w) ? &s->ask : NULL,
		.id = has_id(w) ? s->id : NULL,
		.controller = has_id(w) ? "c:8090" : NULL,
		.host = has_id(w) ? "c" : NULL,
		.port = 8090,
		.label_key = has_id(w) ? "pod" : NULL,
		.label_value = has_id(w) ? "a" : NULL,
		.by_file = has_id(w) && !w->by_address,
		.files = has_id(w) && !w->by_address && w->fetched ? FILES : 0,
		.draining = w->draining && has_id(w),
	};
	if (w->state == PARTITION_STATE_WAITING) {
		s->part.why = PARTITION_WHY_NO_ROOM;
		snprintf(s->part.message, sizeof(s->part.message), "waiting for 4 IPUs");
	} else if (w->state == PARTITION_STATE_FAILED) {
		s->part.why = w->broken ? PARTITION_WHY_ERROR : PARTITION_WHY_VANISHED;
		snprintf(s->part.message, sizeof(s->part.message), "it has gone wrong");
	} else if (w->state == PARTITION_STATE_ACTIVE && !w->fetched && !w->by_address) {
		s->part.why = PARTITION_WHY_CONFIG;
		snprintf(s->part.message, sizeof(s->part.message), "can't be had");
	}
}

static inline void see_files(const struct world *w, struct sight *s)
{
	snprintf(s->files_of, sizeof(s->files_of), "p%u", w->files_of);
	s->files = (struct job_files){
		.ns = TEXT("ns"),
		.name = TEXT("ipuof-" TOKEN),
		.uid = TEXT("uid-of-files"),
		.owner_uid = w->files == FOREIGN_FILES ? TEXT("somebody") : TEXT("uid-of-p"),
		.partition = s->files_of,
		.hash = w->files == OTHER_FILES ? 1 : pod_files_wanted(&s->part),
		.deleting = w->files == DYING_FILES,
	};
}

static inline void look(const struct world *w, struct sight *s)
{
	see_pod(w, s);
	see_part(w, s);
	see_files(w, s);
	s->view = (struct pod_view){
		.pod = &s->pod,
		.now_ms = NOW,
		.unreachable_ms = 60000,
		.partition = &s->part,
		.files = w->files == NO_FILES ? NULL : &s->files,
		.copy = w->copy,
		.adopted = w->adopted,
		.fenced = w->fenced,
		.retry_ms = w->held_back ? NOW + 30000 : 0,
		.trouble_event = w->held_back ? "PodRefused" : NULL,
		.trouble = w->held_back ? "no" : NULL,
	};
}

#endif
