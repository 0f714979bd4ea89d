/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices and the allocations that abort. A slice owns nothing; what xcalloc, str_dup and their
 * like return is the caller's to free.
 * Uses err.
 */
#include "core/str.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

bool str_eq(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

bool str_eqz(struct str a, const char *z)
{
	return str_eq(a, str_of(z));
}

static unsigned char ascii_lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

bool str_same(const char *a, const char *b)
{
	return str_eq(str_of(a), str_of(b));
}

bool str_ieqz(struct str a, const char *z)
{
	struct str b = str_of(z);

	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
			return false;
	}
	return true;
}

bool str_has_prefix(struct str s, struct str prefix)
{
	return s.len >= prefix.len && str_eq((struct str){s.p, prefix.len}, prefix);
}

bool str_has_suffix(struct str s, struct str suffix)
{
	if (s.len < suffix.len)
		return false;
	return suffix.len == 0 ||
	       str_eq((struct str){s.p + (s.len - suffix.len), suffix.len}, suffix);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
	while (s.len > 0 && is_blank(s.p[0])) {
		s.p++;
		s.len--;
	}
	while (s.len > 0 && is_blank(s.p[s.len - 1]))
		s.len--;
	return s;
}

bool str_cut(struct str s, char sep, struct str *ret_head, struct str *ret_tail)
{
	const char *at = s.len ? memchr(s.p, sep, s.len) : NULL;

	if (!at) {
		*ret_head = s;
		*ret_tail = STR_NULL;
		return false;
	}
	size_t head_len = (size_t)(at - s.p);
	*ret_head = (struct str){s.p, head_len};
	*ret_tail = (struct str){at + 1, s.len - head_len - 1};
	return true;
}

bool str_list_has(struct str list, struct str item)
{
	struct str one;

	while (list.len && item.len) {
		str_cut(list, ',', &one, &list);
		if (str_eq(str_trim(one), item))
			return true;
	}
	return false;
}

struct str str_parameter(struct str params, const char *name)
{
	struct str one, key, value;

	while (params.len) {
		str_cut(params, ';', &one, &params);
		str_cut(str_trim(one), '=', &key, &value);
		if (!str_ieqz(str_trim(key), name))
			continue;
		value = str_trim(value);
		if (value.len >= 2 && value.p[0] == '"' && value.p[value.len - 1] == '"')
			value = (struct str){value.p + 1, value.len - 2};
		return value;
	}
	return STR_NULL;
}

unsigned str_weight(struct str params)
{
	struct str q = str_parameter(params, "q");
	unsigned n = 0;

	if (!q.p)
		return 1000;
	if (q.len == 0 || q.len > 5 || (q.p[0] != '0' && q.p[0] != '1') ||
	    (q.len > 1 && q.p[1] != '.'))
		return 0;
	n = (unsigned)(q.p[0] - '0');
	for (size_t i = 2; i < 5; i++) {
		if (i < q.len && (q.p[i] < '0' || q.p[i] > '9'))
			return 0;
		n = n * 10 + (i < q.len ? (unsigned)(q.p[i] - '0') : 0);
	}
	return n > 1000 ? 1000 : n;
}

#define MAX_TYPED 40

size_t str_distance(struct str a, struct str b)
{
	size_t row[MAX_TYPED + 1];

	if (a.len > MAX_TYPED || b.len > MAX_TYPED)
		return MAX_TYPED;
	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			bool same = tolower((unsigned char)a.p[i - 1]) ==
				    tolower((unsigned char)b.p[j - 1]);
			size_t best = corner + !same;

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			corner = row[j];
			row[j] = best;
		}
	}
	return row[b.len];
}

#define MISSPELT 2 /* two slips are one name misspelt, three are another name */

void str_meant(struct str typed, struct str name, struct str *near)
{
	size_t slips = str_distance(typed, name);

	if (slips <= MISSPELT && (!near->p || slips < str_distance(typed, *near)))
		*near = name;
}

int str_to_int(struct str s, int64_t min, int64_t max, int64_t *ret, struct err *err)
{
	bool negative = s.len > 0 && s.p[0] == '-';
	size_t i = negative;
	/* Summed up below zero, where there is room for one more than above. */
	int64_t n = 0;
	bool fits = true;

	if (i == s.len)
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" isn't a number", STR_ARG(s));
	for (; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return err_set(err, ERR_INVALID, 0, "\"%.*s\" isn't a whole number",
				       STR_ARG(s));
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_sub_overflow(n, s.p[i] - '0', &n))
			fits = false;
	}
	if (!negative && fits)
		fits = !__builtin_sub_overflow((int64_t)0, n, &n);
	if (!fits || n < min || n > max)
		return err_set(err, ERR_INVALID, 0, "%.*s isn't between %lld and %lld", STR_ARG(s),
			       (long long)min, (long long)max);
	*ret = n;
	return 0;
}

/* Second byte's range for each lead byte, by Table 3-7 of the Unicode standard. */
size_t str_utf8_first(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	unsigned char low = 0x80, high = 0xbf;
	size_t len;

	if (s.len == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		len = 2;
	} else if (p[0] >= 0xe0 && p[0] <= 0xef) {
		len = 3;
		if (p[0] == 0xe0)
			low = 0xa0;
		else if (p[0] == 0xed)
			high = 0x9f; /* no surrogates */
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		len = 4;
		if (p[0] == 0xf0)
			low = 0x90;
		else if (p[0] == 0xf4)
			high = 0x8f;
	} else {
		return 0;
	}
	if (s.len < len || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return len;
}

size_t str_control_first(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p;

	if (s.len > 0 && (p[0] < 0x20 || p[0] == 0x7f))
		return 1;
	return s.len > 1 && p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

bool str_is_utf8(struct str s)
{
	while (s.len > 0) {
		uint64_t word;
		/* Eight ASCII bytes at once. */
		if (s.len >= sizeof(word)) {
			memcpy(&word, s.p, sizeof(word));
			if (!(word & UINT64_C(0x8080808080808080))) {
				s.p += sizeof(word);
				s.len -= sizeof(word);
				continue;
			}
		}
		size_t n = str_utf8_first(s);
		if (n == 0)
			return false;
		s.p += n;
		s.len -= n;
	}
	return true;
}

size_t str_utf8_cut(struct str s, size_t max)
{
	if (s.len <= max)
		return s.len;
	for (size_t back = 0; back < 4 && back < max; back++) {
		unsigned char c = (unsigned char)s.p[max - back];
		if ((c & 0xc0) != 0x80)
			return max - back;
	}
	return max; /* not UTF-8 anyway */
}

static void *check_memory(void *p, size_t size)
{
	if (!p) {
		/* No stdio: it might want memory itself. */
		char line[64];
		int n = snprintf(line, sizeof(line), "out of memory: %zu bytes\n", size);
		ssize_t written = write(STDERR_FILENO, line, (size_t)n);
		(void)written;
		abort();
	}
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	if (n == 0 || size == 0)
		n = size = 1;
	return check_memory(calloc(n, size), n > SIZE_MAX / size ? SIZE_MAX : n * size);
}

void *xrealloc(void *p, size_t size)
{
	return check_memory(realloc(p, size ? size : 1), size);
}

char *xstrndup(const char *p, size_t len)
{
	char *z = xrealloc(NULL, len + 1);

	if (len)
		memcpy(z, p, len);
	z[len] = '\0';
	return z;
}

char *xstrdup(const char *z)
{
	return z ? xstrndup(z, strlen(z)) : NULL;
}

char *str_dup(struct str s)
{
	return xstrndup(s.p, s.len);
}

char *str_dup_or_null(struct str s)
{
	return s.len ? str_dup(s) : NULL;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *z = NULL;

	va_start(ap, fmt);
	int n = vasprintf(&z, fmt, ap);
	va_end(ap);
	return check_memory(n < 0 ? NULL : z, 0);
}

void str_keep(char **line, const char *text)
{
	char *copy = text && text[0] ? xstrdup(text) : NULL;

	free(*line); /* text may stand within it */
	*line = copy;
}

void str_keepf(char **line, const char *fmt, ...)
{
	va_list ap;
	char *z = NULL;

	va_start(ap, fmt);
	int n = vasprintf(&z, fmt, ap);
	va_end(ap);
	free(*line);
	*line = check_memory(n < 0 ? NULL : z, 0);
}

const char *str_kept(const char *line)
{
	return line ? line : "";
}

void cleanup_freep(void *p)
{
	free(*(void **)p);
}

void str_wipe(void *p, size_t len)
{
	if (len)
		explicit_bzero(p, len);
}
