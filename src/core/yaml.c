/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML streams: libfyaml's events become values of one mutable JSON document, and beside them a
 * table of places by value. A struct yaml owns all of it.
 * Uses buf, err, json, map and str.
 */
#include "core/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/file.h"
#include "core/yaml_load.h"

static int compare_places(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct yaml_place *)a)->v;
	uintptr_t y = (uintptr_t)((const struct yaml_place *)b)->v;

	return x < y ? -1 : x > y;
}

/* What YAML's c-printable excludes, and what isn't UTF-8; libfyaml lets some of it through. */
static int check_characters(struct yaml *y, struct str s, struct err *err)
{
	struct yaml_mark at = {1, 1};

	while (s.len > 0) {
		unsigned char c = (unsigned char)s.p[0];
		size_t n = str_utf8_first(s);
		if (n == 0)
			return yaml_impl_error(y, at, ERR_INVALID, err, "a byte that isn't UTF-8");
		if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
			return yaml_impl_error(y, at, ERR_INVALID, err, "control character 0x%02x",
					       c);
		at.column++;
		if (c == '\n')
			at = (struct yaml_mark){at.line + 1, 1};
		s.p += n;
		s.len -= n;
	}
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* libfyaml before 0.9 frees a key twice where, while an explicit key ("? k") is open, blanks with a
 * tab stand between a colon and another indicator. It would have been an error there anyway. */
static int check_tabs(struct yaml *y, struct str s, struct err *err)
{
	struct yaml_mark at = {1, 1};
	bool has_explicit_key = false;

	for (size_t i = 0; i < s.len; i++) {
		char next = (char)(i + 1 < s.len ? s.p[i + 1] : '\n');
		if (s.p[i] == '?' && (is_blank(next) || next == '\n' || next == '\r'))
			has_explicit_key = true;
		if (s.p[i] == ':' && is_blank(next) && has_explicit_key) {
			size_t end = i + 1;
			while (end < s.len && is_blank(s.p[end]))
				end++;
			if (end < s.len && strchr("?:|>-", s.p[end]) &&
			    memchr(s.p + i, '\t', end - i))
				return yaml_impl_error(y, at, ERR_INVALID, err,
						       "a tab can't stand between this and '%c'",
						       s.p[end]);
		}
		if (s.p[i] == '\n')
			at = (struct yaml_mark){at.line + 1, 1};
		else if (((unsigned char)s.p[i] & 0xc0) != 0x80)
			at.column++;
	}
	return 0;
}

int yaml_parse(const char *name, struct str s, struct yaml **ret, struct err *err)
{
	struct yaml *y;

	if (s.len > YAML_MAX_BYTES)
		return err_set(err, ERR_LIMIT, 0, "%s: more than %zu bytes", name, YAML_MAX_BYTES);
	y = xcalloc(1, sizeof(*y));
	y->name = xstrdup(name);
	y->values = jmut_doc_new();
	if (check_characters(y, s, err) < 0 || check_tabs(y, s, err) < 0 ||
	    yaml_impl_load(y, s, err) < 0) {
		yaml_free(y);
		return -1;
	}
	if (y->n_places > 0)
		qsort(y->places, y->n_places, sizeof(*y->places), compare_places);
	*ret = y;
	return 0;
}

int yaml_load(const char *path, struct yaml **ret, struct err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	const char *name = is_stdin ? "standard input" : path;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct buf text = BUF_INIT(YAML_MAX_BYTES);

	if (fd < 0) {
		int errnum = errno;
		err_errno(err, errnum, "%s", name);
		if (errnum == ENOENT && err)
			err->kind = ERR_NOT_FOUND;
		return -1;
	}
	int r = file_read_all(fd, &text, err);
	if (r < 0)
		err_wrap(err, "%s", name);
	if (!is_stdin)
		close(fd);
	if (r == 0)
		r = yaml_parse(name, buf_str(&text), ret, err);
	buf_done(&text);
	return r;
}

void yaml_free(struct yaml *y)
{
	if (!y)
		return;
	jmut_doc_free(y->values);
	free(y->docs);
	free(y->places);
	free(y->name);
	free(y);
}

void yaml_freep(struct yaml **y)
{
	yaml_free(*y);
}

size_t yaml_len(const struct yaml *y)
{
	return y->n_docs;
}

const struct json *yaml_doc(const struct yaml *y, size_t i)
{
	return i < y->n_docs ? y->docs[i] : NULL;
}

/* ---- places ---- */

static const struct yaml_place *find_place(const struct yaml *y, const struct json *v)
{
	struct yaml_place wanted = {.v = v};

	if (!v || y->n_places == 0)
		return NULL;
	return bsearch(&wanted, y->places, y->n_places, sizeof(*y->places), compare_places);
}

/* The next reference token of a JSON pointer, with ~1 and ~0 taken back. */
static struct str next_token(const char **pointer, struct buf *room)
{
	const char *p = *pointer + 1; /* behind the slash */

	buf_clear(room);
	for (; *p && *p != '/'; p++) {
		char c = *p;
		if (c == '~' && (p[1] == '0' || p[1] == '1')) {
			c = p[1] == '0' ? '~' : '/';
			p++;
		}
		buf_append(room, &c, 1, NULL);
	}
	*pointer = p;
	return buf_str(room);
}

static const struct json *step(const struct json *v, struct str token)
{
	int64_t i;

	if (json_type(v) == JSON_OBJECT)
		return json_getn(v, token);
	if (json_type(v) == JSON_ARRAY && str_to_int(token, 0, INT32_MAX, &i, NULL) == 0)
		return json_item(v, (size_t)i);
	return NULL;
}

/* ret_exact: whether it's the very value that was asked for. */
static const struct yaml_place *walk(const struct yaml *y, size_t i, const char *pointer,
				     bool *ret_exact)
{
	const struct json *v = yaml_doc(y, i);
	const struct yaml_place *best = find_place(y, v), *place;
	struct buf room = BUF_INIT(SIZE_MAX);

	*ret_exact = best != NULL;
	while (v && *pointer == '/') {
		v = step(v, next_token(&pointer, &room));
		place = find_place(y, v);
		*ret_exact = place != NULL;
		if (place)
			best = place;
	}
	buf_done(&room);
	return best;
}

void yaml_pos(const struct yaml *y, size_t i, const char *pointer, unsigned *ret_line,
	      unsigned *ret_column)
{
	bool exact;
	const struct yaml_place *place = walk(y, i, pointer, &exact);

	*ret_line = place ? place->value.line : 1;
	*ret_column = place ? place->value.column : 1;
}

void yaml_key_pos(const struct yaml *y, size_t i, const char *pointer, unsigned *ret_line,
		  unsigned *ret_column)
{
	bool exact;
	const struct yaml_place *place = walk(y, i, pointer, &exact);

	if (!exact || place->key.line == 0) {
		yaml_pos(y, i, pointer, ret_line, ret_column);
		return;
	}
	*ret_line = place->key.line;
	*ret_column = place->key.column;
}

/* ---- messages ---- */

int yaml_impl_error(const struct yaml *y, struct yaml_mark at, enum err_kind kind, struct err *err,
		    const char *fmt, ...)
{
	char msg[sizeof(err->msg)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return err_set(err, kind, 0, "%s:%u:%u: %s", y->name, at.line, at.column, msg);
}

int yaml_error(const struct yaml *y, size_t i, const char *pointer, struct err *err,
	       const char *fmt, ...)
{
	char msg[sizeof(err->msg)];
	struct yaml_mark at;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	yaml_pos(y, i, pointer, &at.line, &at.column);
	return yaml_impl_error(y, at, ERR_INVALID, err, "%s", msg);
}

int yaml_key_error(const struct yaml *y, size_t i, const char *pointer, struct err *err,
		   const char *fmt, ...)
{
	char msg[sizeof(err->msg)];
	struct yaml_mark at;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	yaml_key_pos(y, i, pointer, &at.line, &at.column);
	return yaml_impl_error(y, at, ERR_INVALID, err, "%s", msg);
}
