/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write under way: what api_write.c and api_delete.c make of a request, which may have to wait
 * for webhooks between its steps. A draft ends with its answer, or when the client goes away. Used
 * within sim/.
 */
#ifndef IPU_SIM_DRAFT_H
#define IPU_SIM_DRAFT_H

#include "core/buf.h"
#include "sim/api_internal.h"
#include "sim/webhook.h"

struct sim_draft {
	struct sim_request *req;
	struct jmut_doc *doc;
	struct jmut *root;      /* the object that is being made; NULL: it's a deletion */
	struct jmut *causes;    /* of a refusal; NULL: none */
	struct sim_object *old; /* what is written over, counted; NULL: nothing */
	struct buf unknown;     /* fields that the schema doesn't know, for a strict client */
	size_t n_unknown;
	struct json_doc *options; /* a deletion's; NULL: none */
	unsigned tries;           /* how often it was begun again, because old had changed */
	struct op *op;            /* webhooks that it waits for */
	void (*next)(struct sim_draft *d);
	void (*settle)(struct sim_draft *d);
};

struct sim_draft *sim_draft_new(struct sim_request *req);
/* Behind every answer. */
void sim_draft_end(struct sim_draft *d);
/* Answers with the error, and ends. */
void sim_draft_fail(struct sim_draft *d, const struct err *err);
/* Forgets what was made so far. */
void sim_draft_restart(struct sim_draft *d);

/* Asks webhooks, and goes on with next, at once where nobody is to be asked; a refusal is answered
 * here. settle: defaults, after a patch; NULL: none. */
void sim_draft_ask(struct sim_draft *d, enum sim_phase phase, const char *operation,
		   void (*settle)(struct sim_draft *d), void (*next)(struct sim_draft *d));

/* api_delete.c: DELETE, of one or of many. Ends the draft. */
void sim_remove(struct sim_draft *d);

/* The request's body: JSON or YAML. Errors: with the status as their code. */
int sim_parse_body(struct sim_request *req, struct json_doc **ret, struct err *err);

/* ---- small things that writes share ---- */

bool sim_is_kind(const struct sim_resource *r, const char *kind);
/* "ipujobs.graphcore.ai", "pods" */
#define SIM_QUALIFIED 128
const char *sim_qualified(const struct sim_resource *r, char z[SIM_QUALIFIED]);
void sim_set_time(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t wall_ms);
bool sim_has_finalizers(const struct json *o);

#endif
