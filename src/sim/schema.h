/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IPUJob's CRD as the simulated API server applies it: defaulting, pruning, and the rules (by
 * the code that the operator itself checks them with; doc/design/decisions.md, "What ipu-sim is,
 * and isn't").
 */
#ifndef IPU_SIM_SCHEMA_H
#define IPU_SIM_SCHEMA_H

#include "core/err.h"
#include "core/json.h"

struct sim_schema;

int sim_schema_load(const char *crd_path, struct sim_schema **ret, struct err *err);
void sim_schema_free(struct sim_schema *s); /* NULL is fine */

/* The CRD's additionalPrinterColumns. */
const struct json *sim_schema_columns(const struct sim_schema *s);

/* Removes what the schema doesn't know; unknown is told of each, by its path ("spec.foo"). */
typedef void sim_unknown_fn(void *arg, const char *path);
void sim_schema_prune(const struct sim_schema *s, struct jmut *root, sim_unknown_fn *unknown,
		      void *arg);
void sim_schema_default(const struct sim_schema *s, struct jmut_doc *doc, struct jmut *root);

/* ERR_INVALID with the words of a 422, and its causes as a JSON array in doc. before: what is
 * written over, NULL: a new object. */
int sim_schema_check(const struct sim_schema *s, const struct json *before,
		     const struct json *object, struct jmut_doc *doc, struct jmut **ret_causes,
		     struct err *err);

#endif
