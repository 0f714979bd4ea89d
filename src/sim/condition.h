/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conditions of webhooks (matchConditions) that ipu-sim understands: it has no CEL, only what
 * conditions about labels, annotations and the request need: has(), in, ==, !=, !, &&, ||, paths
 * with optional members, strings, lists of strings, true, false and null. Used within sim/.
 */
#ifndef IPU_SIM_CONDITION_H
#define IPU_SIM_CONDITION_H

#include "core/err.h"
#include "core/json.h"

/* What names stand for. NULL: null. */
struct sim_condition_vars {
	const struct json *object, *old_object, *request;
};

/* ERR_UNSUPPORTED for what we don't understand: refuse the webhook then. */
int sim_condition_check(const char *text, struct err *err);
/* 1: it holds; 0: not; -1: it can't be told (a member isn't there), in CEL's words. As in CEL, a
 * side of || or && that can't be told doesn't matter where the other one decides. text has been
 * checked. */
int sim_condition_holds(const char *text, const struct sim_condition_vars *vars, struct err *err);

#endif
