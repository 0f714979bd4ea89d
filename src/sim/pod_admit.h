/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server itself does to Pods that are written: defaults, as far as a kubelet and
 * kubectl look at them, and checks. Used within sim/.
 */
#ifndef IPU_SIM_POD_ADMIT_H
#define IPU_SIM_POD_ADMIT_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"

#define SIM_POD_GRACE_S 30

void sim_pod_default(struct jmut_doc *doc, struct jmut *root);
/* The status that a new one has. */
void sim_pod_begin(struct jmut_doc *doc, struct jmut *root);

/* A Pod as a whole; before: what it was, NULL: it's new. Its spec changes only as a real API server
 * lets it. ERR_INVALID: the field's path is in field, and err is what is wrong with it. */
#define SIM_POD_FIELD 96
int sim_pod_check(const struct json *pod, const struct json *before, char field[SIM_POD_FIELD],
		  struct err *err);

/* pod_security.c: does the namespace's Pod Security level take it? Else why gets the words. */
bool sim_pod_is_secure(const struct json *pod, const struct json *namespace, struct buf *why);

#endif
