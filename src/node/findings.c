/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of findings, whoever made them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "node/checks.h"

const char *node_result_name(enum node_result result)
{
	switch (result) {
	case NODE_PASS:
		return "pass";
	case NODE_WARN:
		return "warn";
	case NODE_FAIL:
		return "fail";
	case NODE_SKIP:
		break;
	}
	return "skip";
}

void node_findings_done(struct node_findings *f)
{
	free(f->items);
	*f = (struct node_findings){0};
}

/* Controls of a terminal and what isn't UTF-8 become '?'. */
static void clean(char *z)
{
	struct str rest = str_of(z);
	char *end = z;

	while (rest.len > 0) {
		size_t n = str_utf8_first(rest);

		if (n == 0 || str_control_first(rest) > 0) {
			*end++ = rest.p[0] == '\n' ? ' ' : '?';
		} else {
			memmove(end, rest.p, n);
			end += n;
		}
		n = n ? n : 1;
		rest = (struct str){rest.p + n, rest.len - n};
	}
	*end = 0;
}

static void take_text(char *ret, size_t size, const char *z)
{
	size_t len = str_utf8_cut(str_of(z), size - 1);

	memcpy(ret, z, len);
	ret[len] = '\0';
	clean(ret);
}

void node_find(struct node_findings *f, const struct node_rule *rule, const char *subject,
	       const char *fmt, ...)
{
	struct node_finding *new;
	char seen[NODE_SEEN_SIZE + 1]; /* one byte more tells where the last character ends */
	va_list ap;

	if (f->n == NODE_MAX_FINDINGS) {
		f->n_left_out[rule->result]++;
		return;
	}
	f->items = xrealloc(f->items, (f->n + 1) * sizeof(*f->items));
	new = &f->items[f->n++];
	new->rule = rule;
	va_start(ap, fmt);
	vsnprintf(seen, sizeof(seen), fmt, ap);
	va_end(ap);
	take_text(new->subject, sizeof(new->subject), subject ? subject : "");
	take_text(new->seen, sizeof(new->seen), seen);
}

size_t node_findings_count(const struct node_findings *f, enum node_result result)
{
	size_t n = f->n_left_out[result];

	for (size_t i = 0; i < f->n; i++)
		n += f->items[i].rule->result == result;
	return n;
}

size_t node_findings_left_out(const struct node_findings *f)
{
	size_t n = 0;

	for (int r = NODE_PASS; r <= NODE_SKIP; r++)
		n += f->n_left_out[r];
	return n;
}

char *node_finding_help(const struct node_finding *finding)
{
	static const char word[] = "SUBJECT";
	struct buf out = BUF_INIT((size_t)1 << 16);
	const char *rest = finding->rule->help, *at;
	size_t len;

	while ((at = strstr(rest, word))) {
		(void)buf_append(&out, rest, (size_t)(at - rest), NULL);
		(void)buf_append_str(&out, str_of(finding->subject), NULL);
		rest = at + sizeof(word) - 1;
	}
	(void)buf_append_str(&out, str_of(rest), NULL);
	return buf_steal(&out, &len);
}
