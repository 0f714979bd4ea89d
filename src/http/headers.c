/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header lists: bounded, in their order, names without case. The list owns copies of all texts,
 * in one buffer with offsets, so that growing doesn't cost an allocation a field. Uses core/.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "http/message.h"

/* Offsets into the text; the value begins behind the name's NUL. */
struct http_header_pos {
	size_t name, name_len, value, value_len;
};

void http_headers_init(struct http_headers *h, size_t max_fields, size_t max_bytes)
{
	*h = (struct http_headers){0};
	h->max_fields = max_fields ? max_fields : HTTP_MAX_HEADERS;
	/* Two NULs a field come on top of what the limit counts. */
	buf_init_secret(&h->text,
			(max_bytes ? max_bytes : HTTP_MAX_HEAD_BYTES) + 2 * h->max_fields);
}

void http_headers_done(struct http_headers *h)
{
	buf_done(&h->text);
	free(h->pos);
	h->pos = NULL;
	h->len = h->cap = 0;
}

void http_headers_clear(struct http_headers *h)
{
	buf_clear(&h->text);
	h->len = 0;
}

int http_header_check(struct str name, struct str value, struct err *err)
{
	if (!http_is_token(name))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no name of a header field",
			       (int)(name.len > 64 ? 64 : name.len), name.p ? name.p : "");
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return err_set(err, ERR_INVALID, 0,
				       "control character in the value of the field \"%.*s\"",
				       (int)(name.len > 64 ? 64 : name.len), name.p);
	}
	return 0;
}

static struct str trim_blanks(struct str s)
{
	while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.len--;
	}
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

int http_headers_add(struct http_headers *h, struct str name, struct str value, struct err *err)
{
	char *room;

	if (http_header_check(name, value, err) < 0)
		return -1;
	value = trim_blanks(value);
	if (h->len >= h->max_fields)
		return err_set(err, ERR_LIMIT, 0, "more than %zu header fields", h->max_fields);
	if (buf_reserve(&h->text, name.len + value.len + 2, &room, err) < 0)
		return err_wrap(err, "header fields");
	if (h->len == h->cap) {
		h->cap = h->cap ? 2 * h->cap : 16;
		h->pos = xrealloc(h->pos, h->cap * sizeof(*h->pos));
	}
	memcpy(room, name.p, name.len);
	room[name.len] = '\0';
	if (value.len > 0)
		memcpy(room + name.len + 1, value.p, value.len);
	room[name.len + 1 + value.len] = '\0';
	h->pos[h->len++] = (struct http_header_pos){
		.name = h->text.len,
		.name_len = name.len,
		.value = h->text.len + name.len + 1,
		.value_len = value.len,
	};
	buf_commit(&h->text, name.len + value.len + 2);
	return 0;
}

struct http_header http_headers_at(const struct http_headers *h, size_t i)
{
	const struct http_header_pos *pos = &h->pos[i];
	return (struct http_header){{h->text.p + pos->name, pos->name_len},
				    {h->text.p + pos->value, pos->value_len}};
}

struct str http_headers_get(const struct http_headers *h, const char *name)
{
	for (size_t i = 0; i < h->len; i++) {
		struct http_header field = http_headers_at(h, i);
		if (str_ieqz(field.name, name))
			return field.value;
	}
	return STR_NULL;
}

bool http_headers_has(const struct http_headers *h, const char *name)
{
	return http_headers_get(h, name).p != NULL;
}

size_t http_headers_count(const struct http_headers *h, const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < h->len; i++)
		n += str_ieqz(http_headers_at(h, i).name, name);
	return n;
}

bool http_headers_has_token(const struct http_headers *h, const char *name, const char *token)
{
	for (size_t i = 0; i < h->len; i++) {
		struct http_header field = http_headers_at(h, i);
		struct str rest = field.value, item;
		if (!str_ieqz(field.name, name))
			continue;
		while (rest.len > 0) {
			str_cut(rest, ',', &item, &rest);
			if (str_ieqz(trim_blanks(item), token))
				return true;
		}
	}
	return false;
}

struct str http_headers_bearer(const struct http_headers *h)
{
	static const char others[] = "-._~+/=";
	struct str scheme, token;

	if (http_headers_count(h, "authorization") != 1 ||
	    !str_cut(http_headers_get(h, "authorization"), ' ', &scheme, &token) ||
	    !str_ieqz(scheme, "bearer"))
		return STR_NULL;
	token = str_trim(token);
	for (size_t i = 0; i < token.len; i++) {
		char c = token.p[i];
		bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9');

		if (!alnum && (c == '\0' || !strchr(others, c)))
			return STR_NULL;
	}
	return token.len ? token : STR_NULL;
}

char *http_bearer(struct str token)
{
	static const char scheme[] = "Bearer ";
	char *z = xcalloc(1, sizeof(scheme) + token.len);

	memcpy(z, scheme, sizeof(scheme) - 1);
	if (token.len > 0)
		memcpy(z + sizeof(scheme) - 1, token.p, token.len);
	return z;
}

struct str http_bearer_token(const char *authorization)
{
	return authorization ? str_of(authorization + strlen("Bearer ")) : STR_NULL;
}

/* A shorter one than that may be a word like any other, and whoever wants it can guess it. */
#define TOKEN_TOLD_BYTES 16

struct str http_without_token(struct str words, struct str ours)
{
	const struct str marks[] = {
		STR("Bearer "),
		STR("eyJ"), /* a JWT's first three characters */
		ours.len >= TOKEN_TOLD_BYTES ? ours : STR_NULL,
	};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (words.len == 0 || marks[i].len == 0)
			continue;
		const char *at = memmem(words.p, words.len, marks[i].p, marks[i].len);
		if (at)
			words.len = (size_t)(at - words.p);
	}
	return str_trim(words);
}

bool http_headers_has_tag(const struct http_headers *h, const char *etag)
{
	struct str list = http_headers_get(h, "if-none-match"), item;

	while (list.len) {
		str_cut(list, ',', &item, &list);
		item = str_trim(item);
		if (str_has_prefix(item, STR("W/"))) {
			item.p += 2;
			item.len -= 2;
		}
		if (str_eqz(item, etag) || str_eqz(item, "*"))
			return true;
	}
	return false;
}

unsigned http_headers_retry_after_ms(const struct http_headers *h)
{
	const int64_t most_ms = 3600 * 1000;
	struct str value = http_headers_get(h, "retry-after");
	int64_t n;

	if (value.len == 0)
		return 0;
	if (str_to_int(value, 0, INT64_MAX, &n, NULL) == 0)
		n = n > most_ms / 1000 ? most_ms : n * 1000;
	else if (http_date_parse(value, &n, NULL) == 0)
		n -= clock_wall_ms();
	else
		return 0;
	if (n < 0)
		return 0;
	return (unsigned)(n > most_ms ? most_ms : n);
}
