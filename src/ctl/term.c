/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours by ECMA-48's SGR sequences, which every terminal knows that isn't "dumb".
 */
#include "ctl/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool colors, progress, shown;

bool ctl_term_is_able(void)
{
	const char *term = getenv("TERM");

	return term && term[0] && strcmp(term, "dumb") != 0;
}

void ctl_term_init(enum ctl_color color)
{
	const char *no = getenv("NO_COLOR");

	progress = isatty(STDERR_FILENO) && ctl_term_is_able();
	colors = color == CTL_COLOR_ALWAYS || (color == CTL_COLOR_AUTO && !(no && no[0]) &&
					       isatty(STDOUT_FILENO) && ctl_term_is_able());
}

const char *ctl_style(enum ctl_style style)
{
	static const char *const begins[] = {
		[CTL_PLAIN] = "",          [CTL_BOLD] = "\033[1m",   [CTL_RED] = "\033[1;31m",
		[CTL_YELLOW] = "\033[33m", [CTL_GREEN] = "\033[32m", [CTL_DIM] = "\033[2m",
	};

	return colors ? begins[style] : "";
}

const char *ctl_style_end(void)
{
	return colors ? "\033[0m" : "";
}

char *ctl_printable(struct str text)
{
	char *z = xcalloc(text.len + 1, 1), *end = z;

	while (text.len > 0) {
		size_t n = str_utf8_first(text);

		if (n == 0 || str_control_first(text) > 0) {
			*end++ = text.p[0] == '\n' ? ' ' : '?';
		} else {
			memcpy(end, text.p, n);
			end += n;
		}
		n = n ? n : 1;
		text = (struct str){text.p + n, text.len - n};
	}
	return z;
}

bool ctl_term_has_progress(void)
{
	return progress;
}

void ctl_progress(const char *text)
{
	if (!progress || (!text && !shown))
		return;
	fprintf(stderr, "\r\033[K%s", text ? text : "");
	fflush(stderr);
	shown = text != NULL;
}
