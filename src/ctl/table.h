/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables as kubectl prints them: heads in capitals, columns aligned by characters, three spaces
 * between. Pure; a table owns its cells. Uses core.
 */
#ifndef IPU_CTL_TABLE_H
#define IPU_CTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/str.h"

struct ctl_table;

/* heads: borrowed, ends with NULL. wide: only the first n_narrow columns are printed without it. */
struct ctl_table *ctl_table_new(const char *const *heads, size_t n_narrow, bool wide);
void ctl_table_free(struct ctl_table *t); /* NULL is fine */

/* The next cell, from left to right; after the last column's the next row begins. Empty text is
 * shown as <none>. A peer's text is made fit for a terminal (ctl_printable). */
void ctl_table_add(struct ctl_table *t, struct str text);
void ctl_table_addf(struct ctl_table *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

size_t ctl_table_rows(const struct ctl_table *t); /* complete ones */

/* No spaces behind a line's last cell. ERR_LIMIT. */
int ctl_table_write(const struct ctl_table *t, bool heads, struct buf *out, struct err *err);

#endif
