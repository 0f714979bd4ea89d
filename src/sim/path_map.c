/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds mount points in texts and replaces them, once, from left to right. Pure.
 */
#include "sim/path_map.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

#define TEXT_LIMIT ((size_t)16 << 20)

const char *path_map_find(const struct path_map *m, const char *from)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->pairs[i].from, from) == 0)
			return m->pairs[i].to;
	return NULL;
}

void path_map_add(struct path_map *m, struct str from, const char *to)
{
	while (from.len > 1 && from.p[from.len - 1] == '/')
		from.len--;
	char *z = str_dup(from);
	if (path_map_find(m, z)) {
		free(z);
		return;
	}
	m->pairs = xrealloc(m->pairs, (m->n + 1) * sizeof(*m->pairs));
	m->pairs[m->n++] = (struct path_pair){z, xstrdup(to)};
}

void path_map_done(struct path_map *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->pairs[i].from);
		free(m->pairs[i].to);
	}
	free(m->pairs);
	*m = (struct path_map){0};
}

static bool is_of_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* The longest pair whose path stands at that place, neither within nor at the beginning of another
 * one's name. */
static const struct path_pair *find_at(const struct path_map *m, struct str text, size_t at)
{
	const struct path_pair *best = NULL;

	if (text.p[at] != '/' || (at > 0 && (is_of_name(text.p[at - 1]) || text.p[at - 1] == '/')))
		return NULL;
	for (size_t i = 0; i < m->n; i++) {
		size_t len = strlen(m->pairs[i].from);
		if (len > text.len - at || memcmp(text.p + at, m->pairs[i].from, len) != 0 ||
		    (at + len < text.len && is_of_name(text.p[at + len])))
			continue;
		if (!best || len > strlen(best->from))
			best = &m->pairs[i];
	}
	return best;
}

char *path_map_apply(const struct path_map *m, struct str text)
{
	struct buf out = BUF_INIT(TEXT_LIMIT);

	for (size_t at = 0; at < text.len;) {
		const struct path_pair *pair = find_at(m, text, at);
		buf_append_str(&out, pair ? str_of(pair->to) : (struct str){text.p + at, 1}, NULL);
		at += pair ? strlen(pair->from) : 1;
	}
	return buf_steal(&out, NULL);
}
