/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission webhooks of the simulated API server: their configurations
 * (admissionregistration.k8s.io/v1) as they are checked when they are written, which of them want
 * to see a write, and how they are asked. Used within sim/.
 */
#ifndef IPU_SIM_WEBHOOK_H
#define IPU_SIM_WEBHOOK_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "sim/objects.h"

struct net; /* net/net.h */
struct sim_webhooks;
struct sim_request; /* sim/api_internal.h */

/* ---- configurations: webhook_config.c ---- */

#define SIM_FIELD_PATH 192

/* One of the two kinds of configurations? */
bool sim_is_webhook_config(const struct sim_resource *r);

/* Fills in the defaults of a configuration, and checks it. ERR_INVALID: the field's path is in
 * field, and err is what is wrong with it. */
int sim_webhook_config_check(const struct sim_resource *r, struct jmut_doc *doc, struct jmut *root,
			     char field[SIM_FIELD_PATH], struct err *err);

/* ---- a write that they are asked about ---- */

struct sim_admission {
	struct sim_request *req; /* takes warnings */
	const char *operation;   /* "CREATE", "UPDATE", "DELETE" */
	struct jmut_doc *doc;
	struct jmut **root;     /* in doc, changed by what they answer; *root NULL: a deletion */
	const struct json *old; /* what is there; NULL: nothing yet */
	/* Defaults once more, after a patch. */
	void (*settle)(void *arg);
	void *arg;
};

/* ---- who is asked: webhook_match.c ---- */

enum sim_match { SIM_NO_MATCH, SIM_MATCH, SIM_MATCH_UNKNOWN };

/* Does a webhook's rule name this resource and operation? */
bool sim_webhook_has_rule(const struct json *webhook, const struct sim_admission *a);
/* The rest: selectors, and conditions over request (the AdmissionReview's). SIM_MATCH_UNKNOWN: a
 * condition can't be told, and failurePolicy is Fail; err says why. */
enum sim_match sim_webhook_matches(const struct json *webhook, const struct sim_admission *a,
				   const struct json *request, struct err *err);

/* ---- what they are asked, and what they say: webhook_review.c ---- */

/* The request member of an AdmissionReview, in doc. */
struct jmut *sim_review_request(const struct sim_admission *a, struct jmut_doc *doc,
				const char *uid);
/* The version to speak ("v1", "v1beta1"): the first of the webhook's that we know. */
const char *sim_review_version(const struct json *webhook);

struct sim_verdict {
	bool allowed;
	const struct json *status, *warnings; /* within the answer; NULL: none */
	char *patch;                          /* JSON, the caller's to free; NULL: none */
};
/* Reads an answer as the API server verifies it. Errors: ERR_PROTOCOL, in its words. */
int sim_review_read(const struct json *answer, const char *version, const char *uid, bool mutating,
		    struct sim_verdict *ret, struct err *err);
/* Statuses, in doc: of a refusal by a webhook's own status, and of a call that failed. */
struct jmut *sim_review_denied(struct jmut_doc *doc, const char *webhook,
			       const struct json *status);
struct jmut *sim_review_failed(struct jmut_doc *doc, const char *message);

/* ---- asking them: webhook.c ---- */

enum sim_phase { SIM_MUTATING, SIM_VALIDATING };

struct sim_webhooks *sim_webhooks_new(struct loop *loop, struct sim_objects *objects,
				      struct net *net);
void sim_webhooks_free(struct sim_webhooks *w); /* NULL is fine */

/* Is there any whose rules name this? */
bool sim_webhooks_want(const struct sim_webhooks *w, enum sim_phase phase,
		       const struct sim_admission *a);
/* Asks all that want to see it: mutating ones one after the other, validating ones at once. cb runs
 * once, never before this returns; status NULL: it may go on, else the Status to answer with,
 * borrowed. a is copied, what it points to is borrowed until then. */
typedef void sim_admitted_fn(void *arg, const struct json *status);
struct op *sim_webhooks_start(struct sim_webhooks *w, enum sim_phase phase,
			      const struct sim_admission *a, sim_admitted_fn *cb, void *arg);

#endif
