/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what is known of an IPUJob or an annotated Pod to plain words: what it does, why, since
 * when, what will happen by itself, what a person can do. Pure: the table is doc/design/explain.md.
 */
#ifndef IPU_CTL_EXPLAIN_H
#define IPU_CTL_EXPLAIN_H

#include <stdint.h>

#include "core/buf.h"
#include "core/json.h"

#define CTL_MAX_REMARKS 8

/* Every buffer is bounded: what doesn't fit is cut. */
struct ctl_explanation {
	const char *id;   /* of the rule that fits */
	struct str state; /* "Pending", …; borrowed from the facts */
	int64_t since_ms; /* wall clock; 0: not known */
	struct buf why;   /* sentences */
	const char *next; /* what will happen by itself */
	const char *help; /* what a person can do */
	struct buf remarks[CTL_MAX_REMARKS];
	size_t n_remarks;
};

/* facts: as ctl_facts_gather makes them; must outlive ret. */
void ctl_explain(const struct json *facts, struct ctl_explanation *ret);
void ctl_explanation_done(struct ctl_explanation *e);

/* explain_rules.c: looks at one case, and says why where it fits. */
struct ctl_look {
	const struct json *facts, *object, *status;
	bool is_pod;
	struct str name, ns, uid, state;
	/* What it waits for, by the operator's own word: one of its reasons; STR_NULL: it doesn't
	 * say. */
	struct str reason, words;
	const struct json *queued; /* its entry in /queue; NULL: it has none */
	const struct json *pod;    /* the first Pod that has trouble; the Pod itself */
	struct ctl_explanation *out;
};
struct ctl_rule {
	const char *id;
	bool (*fits)(struct ctl_look *l, const struct ctl_rule *rule);
	const char *reason; /* for those that go by the operator's word */
	const char *next, *help;
};
extern const struct ctl_rule ctl_rules[]; /* in their order; ends with a NULL id */

void ctl_say(struct ctl_look *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* In the queue, where the operator's words don't say it, or another one: they are older then. */
void ctl_say_place(struct ctl_look *l);

/* explain_rules.c: remarks on what is there beside the case. */
void ctl_remarks(struct ctl_look *l);
void ctl_remark(struct ctl_look *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
