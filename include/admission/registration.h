/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's two webhook configurations, kept right: the authority's certificate in every entry
 * of ours, through renewals; and, for an operator outside the cluster, the whole objects.
 * doc/design/certificates.md says who writes when.
 */
#ifndef IPU_ADMISSION_REGISTRATION_H
#define IPU_ADMISSION_REGISTRATION_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "kube/client.h"

#define ADMISSION_PATH_MUTATE_JOB   "/mutate-graphcore-ai-v1alpha1-ipujob"
#define ADMISSION_PATH_VALIDATE_JOB "/validate-graphcore-ai-v1alpha1-ipujob"
#define ADMISSION_PATH_MUTATE_POD   "/mutate-v1-pod"

#define ADMISSION_WEBHOOK_MUTATE_JOB   "mipujob.graphcore.ai"
#define ADMISSION_WEBHOOK_VALIDATE_JOB "vipujob.graphcore.ai"
#define ADMISSION_WEBHOOK_MUTATE_POD   "mpod.graphcore.ai"

/* Match conditions: what the API server asks itself, with the operator up or down. */
#define ADMISSION_CONDITION_JOB_NAME "not-in-deletion"
#define ADMISSION_CONDITION_JOB      "!has(object.metadata.deletionTimestamp)"
#define ADMISSION_CONDITION_POD_NAME "asks-for-ipus"
#define ADMISSION_CONDITION_POD                                                                     \
	"(has(object.metadata.annotations) && ('graphcore.ai/ipus' in object.metadata.annotations " \
	"|| 'graphcore.ai/ipu' in object.metadata.annotations)) || "                                \
	"(has(object.metadata.labels) && 'graphcore.ai/pod' in object.metadata.labels)"

#define ADMISSION_SETTLE_MS   30000  /* before a bundle that is trusted is put in order */
#define ADMISSION_FILE_LAG_MS 120000 /* so much later may a replica see new certificate files */
#define ADMISSION_BACKOFF_MS  300000
#define ADMISSION_CALM_MS     300000 /* right for so long: the back-off begins anew */

enum admission_kind { ADMISSION_MUTATING, ADMISSION_VALIDATING, ADMISSION_KINDS };

/* ---- what is registered: pure ---- */

struct admission_webhooks {
	/* https://HOST[:PORT][/PREFIX] under which the API server reaches the listener. NULL or "":
	 * the objects are the chart's, and only caBundle is ours. */
	const char *url;
	const char *ns;    /* the operator's */
	const char *scope; /* namespaces, separated by commas; NULL or "": all */
	const char *failure_policy;
	unsigned timeout_s;
};

/*
 * The whole object, with everything that the API server would default written out. ca_pem empty:
 * what `before` (the object as it is; NULL: there's none) holds as caBundle stays. resourceVersion
 * isn't in it.
 */
struct jmut *admission_registration_make(struct jmut_doc *doc, enum admission_kind kind,
					 const char *name, const struct admission_webhooks *w,
					 struct str ca_pem, const struct json *before);

enum admission_match {
	ADMISSION_MATCH_RIGHT,
	ADMISSION_MATCH_LATER,     /* only trusts more, or says it otherwise: no hurry */
	ADMISSION_MATCH_NOW,       /* what is served is trusted, but must be changed */
	ADMISSION_MATCH_UNTRUSTED, /* an entry of ours trusts none of the bundle's authorities */
	ADMISSION_MATCH_EMPTY,     /* the same, and no entry of ours trusts anything */
};

/*
 * Judges the object, and says by which JSON patch (RFC 6902) it becomes right, in doc; it's for
 * this very resourceVersion, else the API server answers Conflict. *ret_ops is NULL with
 * ADMISSION_MATCH_RIGHT. Entries are ours by the end of their name, ".graphcore.ai". Fails only
 * where there's no memory to read a bundle (err_is_no_memory).
 */
int admission_registration_compare(struct jmut_doc *doc, const struct json *object,
				   enum admission_kind kind, const struct admission_webhooks *w,
				   struct str ca_pem, enum admission_match *ret_match,
				   struct jmut **ret_ops, struct err *err);

/* ---- keeping them so ---- */

/* What the listener's certificate is signed by. */
struct admission_bundle {
	bool known;        /* there is something to serve with */
	struct str ca_pem; /* borrowed; empty: what is trusted is the administrator's, untouched */
	bool shared;       /* all replicas have it; else only entries that trust nothing get it */
};
typedef void admission_bundle_fn(void *arg, struct admission_bundle *ret);

/* Strings are copied. */
struct admission_registration_opts {
	const char *mutating, *validating; /* the objects' names */
	struct admission_webhooks webhooks;
	admission_bundle_fn *bundle; /* asked whenever it matters; may not call back */
	void *bundle_arg;
	/* How much later than others this process may hear of a new bundle: so long one that
	 * another has written over ours isn't touched. */
	unsigned lag_ms;
};

struct admission_registration;

/* Watches both objects, by name, and writes what is wrong, for ever. Begin it once the listener
 * serves: where it makes the objects, the API server calls from then on. */
struct admission_registration *
admission_registration_new(struct kube_client *client,
			   const struct admission_registration_opts *opts);
/* The bundle may be another one. */
void admission_registration_changed(struct admission_registration *r);
/* Ready unless the API server would call us and not trust what we serve: an entry of ours trusts
 * none of the bundle, nobody knows yet, or (with url) the object isn't made yet. why may be NULL.
 */
bool admission_registration_ready(const struct admission_registration *r, struct err *why);
/* Whether an IPUJob is refused where no webhook gives an answer: as far as the object is known. */
bool admission_registration_fails_closed(const struct admission_registration *r);
void admission_registration_free(struct admission_registration *r); /* NULL is fine */

#endif
