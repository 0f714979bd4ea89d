/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What doesn't depend on the JSON back-end: walks, comparison, merge patch, conveniences. It is
 * linked into both libraries; documents own their values as core/json.h says.
 * Uses buf, err, map and str.
 */
#include "core/json_impl.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/map.h"

/* ---- messages ---- */

int json_impl_invalid(struct str s, size_t pos, struct err *err, const char *what)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < pos && i < s.len; i++) {
		if (s.p[i] == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)s.p[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	return err_set(err, ERR_INVALID, 0, "line %zu, column %zu: %s", line, column, what);
}

void json_blank(const struct json *v)
{
	struct str s = json_str(v);
	str_wipe((char *)(uintptr_t)s.p, s.len);
}

int json_impl_too_deep(struct err *err)
{
	return err_set(err, ERR_LIMIT, 0, "nested deeper than %d levels", JSON_MAX_DEPTH);
}

void *json_impl_check(void *p)
{
	if (!p) {
		fputs("out of memory for a JSON document\n", stderr);
		abort();
	}
	return p;
}

/* ---- reading ---- */

void json_doc_freep(struct json_doc **doc)
{
	json_doc_free(*doc);
}

const char *json_type_name(enum json_type type)
{
	switch (type) {
	case JSON_NONE:
		return "nothing";
	case JSON_NULL:
		return "null";
	case JSON_BOOL:
		return "a boolean";
	case JSON_INT:
		return "an integer";
	case JSON_REAL:
		return "a number";
	case JSON_STRING:
		return "a string";
	case JSON_ARRAY:
		return "an array";
	case JSON_OBJECT:
		return "an object";
	}
	return "nothing";
}

const struct json *json_get(const struct json *obj, const char *key)
{
	return json_getn(obj, str_of(key));
}

const struct json *json_at(const struct json *v, ...)
{
	va_list ap;
	const char *key;

	va_start(ap, v);
	while (v && (key = va_arg(ap, const char *)))
		v = json_get(v, key);
	va_end(ap);
	return v;
}

static bool equal_numbers(const struct json *a, const struct json *b)
{
	double x = json_real(a, 0), y = json_real(b, 0);
	bool a_is_int = json_type(a) == JSON_INT;

	if (a_is_int && json_type(b) == JSON_INT)
		return json_int(a, 0) == json_int(b, 0);
	if (x < y || x > y)
		return false;
	if (fabs(x) < 0x1p53)
		return true;
	if (a_is_int || json_type(b) == JSON_INT) {
		/* The int64 is what counts: is it the double, or was it rounded to it? */
		const struct json *whole = a_is_int ? a : b;
		return fabs(x) < 0x1p63 && (int64_t)x == json_int(whole, 0);
	}

	struct buf a_text = BUF_INIT(SIZE_MAX), b_text = BUF_INIT(SIZE_MAX);
	bool same = json_write(a, JSON_COMPACT, &a_text, NULL) == 0 &&
		    json_write(b, JSON_COMPACT, &b_text, NULL) == 0 &&
		    str_eq(buf_str(&a_text), buf_str(&b_text));
	buf_done(&a_text);
	buf_done(&b_text);
	return same;
}

static bool equal_arrays(const struct json *a, const struct json *b)
{
	struct json_iter i = json_iter(a), j = json_iter(b);

	if (json_len(a) != json_len(b))
		return false;
	while (json_next(&i) && json_next(&j)) {
		if (!json_equal(i.value, j.value))
			return false;
	}
	return true;
}

/* Above this, an object's members are looked up in a map: a peer chooses how many there are. */
#define LINEAR_MEMBERS 32

/* The members that readers see, by key; a map can't hold NULL, and no value is. */
static struct map *members_of(const struct json *obj)
{
	struct map *m = map_new();
	struct json_iter it = json_iter(obj);

	while (json_next(&it)) {
		if (!map_get(m, it.key))
			map_put(m, it.key, (void *)(uintptr_t)it.value);
	}
	return m;
}

static const struct json *member(const struct json *obj, const struct map *m, struct str key)
{
	return m ? map_get(m, key) : json_getn(obj, key);
}

static bool equal_objects(const struct json *a, const struct json *b)
{
	size_t most = json_len(a) > json_len(b) ? json_len(a) : json_len(b);
	struct map *in_a = most > LINEAR_MEMBERS ? members_of(a) : NULL;
	struct map *in_b = most > LINEAR_MEMBERS ? members_of(b) : NULL;
	struct json_iter it = json_iter(a);
	bool same = true;

	while (same && json_next(&it)) {
		const struct json *other = member(b, in_b, it.key);
		/* Of a key that came twice, the first counts. */
		same = other &&
		       (member(a, in_a, it.key) != it.value || json_equal(it.value, other));
	}
	it = json_iter(b);
	while (same && json_next(&it))
		same = member(a, in_a, it.key) != NULL;
	map_free(in_a);
	map_free(in_b);
	return same;
}

bool json_equal(const struct json *a, const struct json *b)
{
	enum json_type type = json_type(a), other = json_type(b);
	bool a_is_number = type == JSON_INT || type == JSON_REAL;

	if (a_is_number && (other == JSON_INT || other == JSON_REAL))
		return equal_numbers(a, b);
	if (type != other)
		return false;
	switch (type) {
	case JSON_BOOL:
		return json_bool(a, false) == json_bool(b, false);
	case JSON_STRING:
		return str_eq(json_str(a), json_str(b));
	case JSON_ARRAY:
		return equal_arrays(a, b);
	case JSON_OBJECT:
		return equal_objects(a, b);
	default:
		return true;
	}
}

/* ---- building ---- */

void jmut_doc_freep(struct jmut_doc **doc)
{
	jmut_doc_free(*doc);
}

/* A copy of s in which U+FFFD stands for every byte that isn't UTF-8. */
static struct str mend_utf8(struct str s, char **ret_owned)
{
	char *p = xcalloc(s.len, 3);
	size_t len = 0;

	*ret_owned = p;
	while (s.len > 0) {
		size_t n = str_utf8_first(s);
		memcpy(p + len, n ? s.p : "\xef\xbf\xbd", n ? n : 3);
		len += n ? n : 3;
		s.p += n ? n : 1;
		s.len -= n ? n : 1;
	}
	return (struct str){p, len};
}

struct jmut *jmut_str(struct jmut_doc *doc, struct str s)
{
	CLEANUP_FREE char *owned = NULL;

	return json_impl_str(doc, str_is_utf8(s) ? s : mend_utf8(s, &owned));
}

struct jmut *jmut_strz(struct jmut_doc *doc, const char *z)
{
	return jmut_str(doc, str_of(z));
}

struct jmut *jmut_strf(struct jmut_doc *doc, const char *fmt, ...)
{
	CLEANUP_FREE char *z = NULL;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&z, fmt, ap);
	va_end(ap);
	if (n < 0) {
		z = NULL; /* undefined by then */
		json_impl_check(NULL);
	}
	return jmut_strz(doc, z);
}

static bool is_object(const struct jmut *v)
{
	return json_type(jmut_view(v)) == JSON_OBJECT;
}

void jmut_setn(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v)
{
	CLEANUP_FREE char *owned = NULL;

	if (v && is_object(obj))
		json_impl_set(doc, obj, str_is_utf8(key) ? key : mend_utf8(key, &owned), v);
}

void jmut_add(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v)
{
	CLEANUP_FREE char *owned = NULL;

	if (v && is_object(obj))
		json_impl_add(doc, obj, str_is_utf8(key) ? key : mend_utf8(key, &owned), v);
}

void jmut_set(struct jmut_doc *doc, struct jmut *obj, const char *key, struct jmut *v)
{
	jmut_setn(doc, obj, str_of(key), v);
}

void jmut_set_str(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z)
{
	jmut_set(doc, obj, key, jmut_strz(doc, z));
}

void jmut_set_int(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t n)
{
	jmut_set(doc, obj, key, jmut_int(doc, n));
}

void jmut_set_bool(struct jmut_doc *doc, struct jmut *obj, const char *key, bool b)
{
	jmut_set(doc, obj, key, jmut_bool(doc, b));
}

void jmut_del(struct jmut *obj, const char *key)
{
	jmut_deln(obj, str_of(key));
}

struct jmut *jmut_get(const struct jmut *obj, const char *key)
{
	return jmut_getn(obj, str_of(key));
}

static struct jmut *need(struct jmut_doc *doc, struct jmut *obj, const char *key,
			 enum json_type type)
{
	if (!is_object(obj))
		return NULL;

	struct jmut *v = jmut_get(obj, key);
	enum json_type is = json_type(jmut_view(v));
	if (is == JSON_NONE || is == JSON_NULL) {
		v = type == JSON_OBJECT ? jmut_object(doc) : jmut_array(doc);
		jmut_set(doc, obj, key, v);
		return v;
	}
	return is == type ? v : NULL;
}

struct jmut *jmut_need_object(struct jmut_doc *doc, struct jmut *obj, const char *key)
{
	return need(doc, obj, key, JSON_OBJECT);
}

struct jmut *jmut_need_array(struct jmut_doc *doc, struct jmut *obj, const char *key)
{
	return need(doc, obj, key, JSON_ARRAY);
}

size_t jmut_len(const struct jmut *v)
{
	return json_len(jmut_view(v));
}

struct jmut *jmut_merge_patch(struct jmut_doc *doc, struct jmut *target, const struct json *patch)
{
	if (json_type(patch) != JSON_OBJECT)
		return jmut_copy(doc, patch);
	if (!is_object(target))
		target = jmut_object(doc);

	struct json_iter it = json_iter(patch);
	while (json_next(&it)) {
		if (json_type(it.value) == JSON_NULL) {
			jmut_deln(target, it.key);
			continue;
		}
		struct jmut *before = jmut_getn(target, it.key);
		struct jmut *after = jmut_merge_patch(doc, before, it.value);
		if (after != before)
			jmut_setn(doc, target, it.key, after);
	}
	return target;
}

/* ---- writing ---- */

int jmut_write(const struct jmut *v, enum json_write_flags flags, struct buf *out, struct err *err)
{
	return json_write(jmut_view(v), flags, out, err);
}

int json_pointer_append(struct buf *pointer, struct str key, struct err *err)
{
	size_t before = pointer->len;
	int rc = buf_append(pointer, "/", 1, err);

	for (size_t i = 0; rc == 0 && i < key.len; i++) {
		const char *p = &key.p[i];
		struct str s = *p == '~' ? STR("~0") : *p == '/' ? STR("~1") : (struct str){p, 1};

		rc = buf_append_str(pointer, s, err);
	}
	if (rc < 0)
		pointer->len = before;
	return rc;
}

/* What stands for a byte that can't stand for itself in a string; NULL if it can. */
static const char *escape_of(unsigned char c, char room[8])
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\b':
		return "\\b";
	case '\f':
		return "\\f";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	default:
		if (c >= 0x20)
			return NULL;
		snprintf(room, 8, "\\u%04X", c);
		return room;
	}
}

int json_write_str(struct str s, struct buf *out, struct err *err)
{
	size_t before = out->len;
	char room[8];
	size_t i = 0, from = 0; /* [from, i) can be copied as it is */

	if (buf_append(out, "\"", 1, err) < 0)
		return -1;
	while (i < s.len) {
		size_t n = str_utf8_first((struct str){s.p + i, s.len - i});
		const char *instead = n == 0 ? "\xef\xbf\xbd"
					     : escape_of((unsigned char)s.p[i], room);
		if (!instead) {
			i += n;
			continue;
		}
		if (buf_append(out, s.p + from, i - from, err) < 0 ||
		    buf_append_str(out, str_of(instead), err) < 0)
			goto fail;
		from = ++i;
	}
	if (buf_append(out, s.p + from, i - from, err) < 0 || buf_append(out, "\"", 1, err) < 0)
		goto fail;
	return 0;
fail:
	out->len = before;
	return -1;
}
