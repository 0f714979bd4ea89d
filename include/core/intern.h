/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of which the process has one copy each, counted: names, UIDs and words that many objects
 * share. Whoever took one gives it back by intern_drop; nobody writes to it, nobody frees it.
 */
#ifndef IPU_CORE_INTERN_H
#define IPU_CORE_INTERN_H

#include <stddef.h>

#include "core/str.h"

/* A terminated text; equal ones are the same pointer. Aborts when memory is out. */
const char *intern(struct str s);
/* The same of what may be as large as a peer likes: NULL when memory is out (core/fault.h). */
const char *intern_try(struct str s);
const char *intern_or_null(struct str s); /* NULL of what is empty */
/* Of a terminated text, or of one that is interned: one more. NULL stays NULL. */
const char *intern_z(const char *z);
const char *intern_ref(const char *interned);
void intern_drop(const char *interned); /* NULL is fine */

struct str intern_str(const char *interned); /* without counting its length; NULL: empty */
size_t intern_len(void);                     /* how many there are, for tests */

#endif
