/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the two JSON back-ends and what they share (json_common.c, in both libraries).
 * Nothing outside this folder includes it.
 */
#ifndef IPU_CORE_JSON_IMPL_H
#define IPU_CORE_JSON_IMPL_H

#include "core/json.h"

/* ---- what a back-end gives beside the public functions ---- */

/* jmut_str, jmut_setn and jmut_add of what is known to be UTF-8, of an object and a value. */
struct jmut *json_impl_str(struct jmut_doc *doc, struct str s);
void json_impl_set(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v);
void json_impl_add(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v);

/* ---- what they share ---- */

/* ERR_INVALID, "line L, column C: what"; columns count characters. Returns -1. */
int json_impl_invalid(struct str s, size_t pos, struct err *err, const char *what);
int json_impl_too_deep(struct err *err);
/* For what can't fail but by memory. */
void *json_impl_check(void *p);

#endif
