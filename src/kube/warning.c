/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warning-value = warn-code SP warn-agent SP warn-text [ SP warn-date ], and a field is a list of
 * these. Texts and dates are quoted strings. Pure.
 */
#include "warning.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

#define CODE "299" /* "miscellaneous persistent warning": the only one that API servers send */

static void drop(struct str *s, size_t n)
{
	s->p += n;
	s->len -= n;
}

static void drop_spaces(struct str *s, bool commas)
{
	while (s->len && (s->p[0] == ' ' || s->p[0] == '\t' || (commas && s->p[0] == ',')))
		drop(s, 1);
}

static bool take_word(struct str *s, struct str *ret)
{
	size_t n = 0;

	while (n < s->len && s->p[n] != ' ' && s->p[n] != '"' && s->p[n] != ',')
		n++;
	*ret = (struct str){s->p, n};
	drop(s, n);
	if (!n || !s->len || s->p[0] != ' ')
		return false;
	drop_spaces(s, false);
	return true;
}

static bool take_quoted(struct str *s, struct buf *out)
{
	if (!s->len || s->p[0] != '"')
		return false;
	for (drop(s, 1); s->len; drop(s, 1)) {
		if (s->p[0] == '"') {
			drop(s, 1);
			return true;
		}
		if (s->p[0] == '\\' && s->len > 1)
			drop(s, 1);
		if (out && buf_append(out, s->p, 1, NULL) < 0)
			return false;
	}
	return false;
}

static void add(struct kube_warning_list *list, struct str text)
{
	text = str_trim(text);
	if (!text.len || !str_is_utf8(text) || memchr(text.p, '\0', text.len) ||
	    list->n == KUBE_MAX_WARNINGS || list->bytes + text.len > KUBE_MAX_WARNING_BYTES)
		return;
	for (size_t i = 0; i < list->n; i++) {
		if (str_eqz(text, list->items[i]))
			return;
	}
	list->items[list->n++] = str_dup(text);
	list->bytes += text.len;
}

static bool take_value(struct str *s, struct kube_warning_list *list)
{
	struct buf text = BUF_INIT(KUBE_MAX_WARNING_BYTES);
	struct str code, agent;
	bool good = take_word(s, &code) && take_word(s, &agent) && take_quoted(s, &text);

	if (good) {
		drop_spaces(s, false);
		if (s->len && s->p[0] == '"')
			good = take_quoted(s, NULL);
		drop_spaces(s, false);
		good = good && (!s->len || s->p[0] == ',');
	}
	if (good && str_eqz(code, CODE))
		add(list, buf_str(&text));
	buf_done(&text);
	return good;
}

void kube_warnings_add(struct kube_warning_list *list, const struct http_headers *headers)
{
	for (size_t i = 0; i < headers->len; i++) {
		struct http_header h = http_headers_at(headers, i);

		if (!str_ieqz(h.name, "warning"))
			continue;
		for (drop_spaces(&h.value, true); h.value.len; drop_spaces(&h.value, true)) {
			if (!take_value(&h.value, list))
				break;
		}
	}
}

void kube_warnings_clear(struct kube_warning_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	list->n = list->bytes = 0;
}
