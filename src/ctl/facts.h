/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of the cluster and of the operator for one explanation: one JSON object, whose
 * members are {"value": …}, or {"error": {"code": …, "message": …}} where it couldn't be had. What
 * follows from them is explain.c's, and needs nobody.
 */
#ifndef IPU_CTL_FACTS_H
#define IPU_CTL_FACTS_H

#include <stdbool.h>

#include "core/json.h"
#include "ctl/link.h"

/* In doc, its root. ERR_UNAVAILABLE and so on: the API server doesn't answer at all. */
int ctl_facts_gather(struct ctl_link *link, const struct ctl_options *o, const char *ns,
		     const char *name, bool is_pod, struct jmut_doc *doc, struct err *err);

/* One more of them. Returns the error's kind, ERR_NONE where it was had. */
enum err_kind ctl_fact_ask(struct ctl_link *link, struct jmut_doc *doc, struct jmut *facts,
			   const char *name, const struct kube_request *request);

/* A list to its end, page by page, as {"items": [...]}, without the parts of metadata and status
 * that are long and nobody's here. One with no end in sight is an error: who would find a thing
 * missing has not seen all. */
enum err_kind ctl_fact_list(struct ctl_link *link, struct jmut_doc *doc, struct jmut *facts,
			    const char *name, const struct kube_request *request);

const struct json *ctl_fact(const struct json *facts, const char *name); /* NULL: not had */
int ctl_fact_code(const struct json *facts, const char *name);           /* 0: no error */
struct str ctl_fact_error(const struct json *facts, const char *name);

/* Of an object's status.conditions; NULL: it has none of this type. */
const struct json *ctl_condition(const struct json *object, const char *type);
bool ctl_is_on(const struct json *object, const char *type); /* its status is "True" */

#endif
