/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells are kept as one list, row after row; widths are counted when the table is written.
 */
#include "ctl/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "ctl/term.h"

#define GAP 3

struct ctl_table {
	const char *const *heads;
	size_t n_columns, n_shown;
	char **cells;
	size_t n_cells, cap;
};

struct ctl_table *ctl_table_new(const char *const *heads, size_t n_narrow, bool wide)
{
	struct ctl_table *t = xcalloc(1, sizeof(*t));

	t->heads = heads;
	while (heads[t->n_columns])
		t->n_columns++;
	t->n_shown = wide || n_narrow > t->n_columns ? t->n_columns : n_narrow;
	return t;
}

void ctl_table_free(struct ctl_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
}

void ctl_table_add(struct ctl_table *t, struct str text)
{
	if (t->n_cells == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->cells = xrealloc(t->cells, t->cap * sizeof(*t->cells));
	}
	t->cells[t->n_cells++] = ctl_printable(text.len > 0 ? text : STR("<none>"));
}

void ctl_table_addf(struct ctl_table *t, const char *fmt, ...)
{
	char z[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(z, sizeof(z), fmt, ap);
	va_end(ap);
	ctl_table_add(t, str_of(z));
}

size_t ctl_table_rows(const struct ctl_table *t)
{
	return t->n_cells / t->n_columns;
}

/* Characters, each of which is taken to fill one column of the terminal. */
static size_t width_of(const char *z)
{
	size_t n = 0;

	for (; *z; z++)
		n += ((unsigned char)*z & 0xc0) != 0x80;
	return n;
}

static const char *cell_at(const struct ctl_table *t, size_t row, size_t column)
{
	return row == 0 ? t->heads[column] : t->cells[(row - 1) * t->n_columns + column];
}

static int write_row(const struct ctl_table *t, size_t row, const size_t *widths, struct buf *out,
		     struct err *err)
{
	for (size_t c = 0; c < t->n_shown; c++) {
		const char *z = cell_at(t, row, c);
		bool is_last = c + 1 == t->n_shown;
		size_t pad = is_last ? 0 : widths[c] - width_of(z) + GAP;

		const char *style = ctl_style(row == 0 ? CTL_BOLD : CTL_PLAIN);

		if (buf_printf(out, err, "%s%s%s%*s%s", style, z, row == 0 ? ctl_style_end() : "",
			       (int)pad, "", is_last ? "\n" : "") < 0)
			return -1;
	}
	return 0;
}

int ctl_table_write(const struct ctl_table *t, bool heads, struct buf *out, struct err *err)
{
	size_t rows = ctl_table_rows(t), first = heads ? 0 : 1;
	size_t *widths = xcalloc(t->n_columns, sizeof(*widths));
	int result = 0;

	for (size_t r = first; r <= rows; r++) {
		for (size_t c = 0; c < t->n_shown; c++) {
			size_t w = width_of(cell_at(t, r, c));

			if (w > widths[c])
				widths[c] = w;
		}
	}
	for (size_t r = first; r <= rows && result == 0; r++)
		result = write_row(t, r, widths, out, err);
	free(widths);
	return result;
}
