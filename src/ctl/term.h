/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a terminal gets that a file doesn't: colours on standard output, and a line on standard
 * error while an answer takes long. Uses core.
 */
#ifndef IPU_CTL_TERM_H
#define IPU_CTL_TERM_H

#include <stdbool.h>

#include "core/str.h"
#include "ctl/options.h"

enum ctl_style { CTL_PLAIN, CTL_BOLD, CTL_RED, CTL_YELLOW, CTL_GREEN, CTL_DIM };

/* Once. AUTO: where standard output is a terminal that isn't "dumb", and NO_COLOR (no-color.org) is
 * unset or empty. */
void ctl_term_init(enum ctl_color color);

/* What begins a style and what ends it: "" without colours. */
const char *ctl_style(enum ctl_style style);
const char *ctl_style_end(void);

/* TERM names a terminal that isn't "dumb". */
bool ctl_term_is_able(void);

/* A peer's text, or a manifest's, fit for a terminal: what isn't UTF-8 or controls a
 * terminal becomes '?', the end of a line a space. The caller frees. */
char *ctl_printable(struct str text);

/* Standard error is a terminal that can go back to a line's begin. */
bool ctl_term_has_progress(void);
/* Shows one line there in the place of the last one; NULL: takes it away. Nothing without one. */
void ctl_progress(const char *text);

#endif
