/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON back-end of the daemon: a struct json_doc is a yyjson_doc, a struct jmut a
 * yyjson_mut_val, and a struct json * one of yyjson's two kinds of value. Values are aligned, so
 * the lowest bit of the pointer tells which: set, it is a mutable one (what jmut_view returns).
 * Every reader looks at it first.
 * Uses buf, err, fault and str.
 */
#include "core/json_impl.h"

#include <errno.h>
#include <float.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>

#include <yyjson.h>

#include "core/fault.h"

#define VIEW_BIT ((uintptr_t)1)

static bool is_view(const struct json *v)
{
	return (uintptr_t)v & VIEW_BIT;
}

static yyjson_mut_val *mut_of(const struct json *v)
{
	return (yyjson_mut_val *)((uintptr_t)v & ~VIEW_BIT);
}

static yyjson_val *val_of(const struct json *v)
{
	return (yyjson_val *)(uintptr_t)v;
}

static const struct json *of_val(const yyjson_val *v)
{
	return (const struct json *)v;
}

static yyjson_mut_val *raw(const struct jmut *v)
{
	return (yyjson_mut_val *)(uintptr_t)v;
}

static struct jmut *of_mut(yyjson_mut_val *v)
{
	return (struct jmut *)v;
}

static yyjson_mut_doc *raw_doc(const struct jmut_doc *doc)
{
	return (yyjson_mut_doc *)(uintptr_t)doc;
}

const struct json *jmut_view(const struct jmut *v)
{
	return v ? (const struct json *)((uintptr_t)v | VIEW_BIT) : NULL;
}

struct jmut *jmut_of(const struct json *view)
{
	return view ? of_mut(mut_of(view)) : NULL;
}

/* Both kinds of value begin with the same two words, which is what yyjson's own accessors rely
 * on, and so do we: this is good for everything but containers' content. */
static yyjson_val *head_of(const struct json *v)
{
	return is_view(v) ? (yyjson_val *)mut_of(v) : val_of(v);
}

/* ---- reading ---- */

static void *alc_malloc(void *ctx, size_t size)
{
	(void)ctx;
	return fault_realloc(NULL, size);
}

static void *alc_realloc(void *ctx, void *p, size_t old_size, size_t size)
{
	(void)ctx;
	(void)old_size;
	return fault_realloc(p, size);
}

static void alc_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static const yyjson_alc counted_alc = {alc_malloc, alc_realloc, alc_free, NULL};

/* The same for what holds secrets. yyjson says at no free how much it is. */
static void secret_free(void *ctx, void *p)
{
	(void)ctx;
	if (p)
		str_wipe(p, malloc_usable_size(p));
	free(p);
}

static void *secret_realloc(void *ctx, void *p, size_t old_size, size_t size)
{
	void *moved = alc_malloc(ctx, size);
	if (moved) {
		memcpy(moved, p, old_size < size ? old_size : size);
		secret_free(ctx, p);
	}
	return moved;
}

static void *small_malloc(void *ctx, size_t size)
{
	(void)ctx;
	return malloc(size);
}

static const yyjson_alc secret_alc = {alc_malloc, secret_realloc, secret_free, NULL};
/* A document that is built grows by pieces, and never moves any. */
static const yyjson_alc secret_mut_alc = {small_malloc, secret_realloc, secret_free, NULL};

static bool is_container(yyjson_val *v)
{
	return yyjson_is_arr(v) || yyjson_is_obj(v);
}

/* yyjson reads any depth in a loop, and keeps a document's values one behind the other: a walk
 * over them with the ends of the containers that are open. */
static bool is_too_deep(yyjson_doc *doc)
{
	yyjson_val *v = yyjson_doc_get_root(doc);
	const yyjson_val *ends[JSON_MAX_DEPTH];
	const yyjson_val *end = v + yyjson_doc_get_val_count(doc);
	size_t depth = 0;

	for (; v < end; v++) {
		while (depth > 0 && v >= ends[depth - 1])
			depth--;
		if (is_container(v)) {
			if (depth == JSON_MAX_DEPTH)
				return true;
			ends[depth++] = unsafe_yyjson_get_next(v);
		}
	}
	return false;
}

static int parse(struct str s, const yyjson_alc *alc, struct json_doc **ret, struct err *err)
{
	yyjson_read_err why;
	char *p = (char *)(uintptr_t)s.p; /* only read, without YYJSON_READ_INSITU */
	yyjson_doc *doc = NULL;

	if (s.len == 0)
		return json_impl_invalid(s, 0, err, "the document is empty");
	doc = yyjson_read_opts(p, s.len, YYJSON_READ_BIGNUM_AS_RAW, alc, &why);
	if (!doc) {
		if (why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
			return err_set(err, ERR_LIMIT, ENOMEM, "no memory to parse %zu bytes",
				       s.len);
		return json_impl_invalid(s, why.pos, err, why.msg);
	}
	if (is_too_deep(doc)) {
		yyjson_doc_free(doc);
		return json_impl_too_deep(err);
	}
	*ret = (struct json_doc *)doc;
	return 0;
}

int json_parse(struct str s, struct json_doc **ret, struct err *err)
{
	return parse(s, &counted_alc, ret, err);
}

int json_parse_secret(struct str s, struct json_doc **ret, struct err *err)
{
	return parse(s, &secret_alc, ret, err);
}

void json_doc_free(struct json_doc *doc)
{
	yyjson_doc_free((yyjson_doc *)doc);
}

const struct json *json_root(const struct json_doc *doc)
{
	return of_val(yyjson_doc_get_root((yyjson_doc *)(uintptr_t)doc));
}

enum json_type json_type(const struct json *v)
{
	yyjson_val *head = head_of(v);

	switch (yyjson_get_type(head)) {
	case YYJSON_TYPE_NULL:
		return JSON_NULL;
	case YYJSON_TYPE_BOOL:
		return JSON_BOOL;
	case YYJSON_TYPE_NUM:
		if (yyjson_is_sint(head) ||
		    (yyjson_is_uint(head) && yyjson_get_uint(head) <= INT64_MAX))
			return JSON_INT;
		return JSON_REAL;
	case YYJSON_TYPE_RAW: /* a number that neither 64 bits nor a double hold */
		return JSON_REAL;
	case YYJSON_TYPE_STR:
		return JSON_STRING;
	case YYJSON_TYPE_ARR:
		return JSON_ARRAY;
	case YYJSON_TYPE_OBJ:
		return JSON_OBJECT;
	default:
		return JSON_NONE;
	}
}

const struct json *json_getn(const struct json *obj, struct str key)
{
	const char *p = key.p ? key.p : "";

	if (is_view(obj))
		return jmut_view(of_mut(yyjson_mut_obj_getn(mut_of(obj), p, key.len)));
	return of_val(yyjson_obj_getn(val_of(obj), p, key.len));
}

size_t json_len(const struct json *v)
{
	yyjson_val *head = head_of(v);

	return is_container(head) ? unsafe_yyjson_get_len(head) : 0;
}

const struct json *json_item(const struct json *arr, size_t i)
{
	if (is_view(arr))
		return jmut_view(of_mut(yyjson_mut_arr_get(mut_of(arr), i)));
	return of_val(yyjson_arr_get(val_of(arr), i));
}

const char *json_cstr(const struct json *v)
{
	return yyjson_get_str(head_of(v));
}

struct str json_str(const struct json *v)
{
	yyjson_val *head = head_of(v);

	if (!yyjson_is_str(head))
		return STR_NULL;
	return (struct str){yyjson_get_str(head), yyjson_get_len(head)};
}

int64_t json_int(const struct json *v, int64_t otherwise)
{
	return json_type(v) == JSON_INT ? yyjson_get_sint(head_of(v)) : otherwise;
}

double json_real(const struct json *v, double otherwise)
{
	yyjson_val *head = head_of(v);
	const char *raw = yyjson_get_raw(head);

	if (raw) {
		double d = strtod(raw, NULL);
		return isinf(d) ? copysign(DBL_MAX, d) : d;
	}
	return yyjson_is_num(head) ? yyjson_get_num(head) : otherwise;
}

bool json_bool(const struct json *v, bool otherwise)
{
	yyjson_val *head = head_of(v);

	return yyjson_is_bool(head) ? yyjson_get_bool(head) : otherwise;
}

struct json_iter json_iter(const struct json *container)
{
	return (struct json_iter){.container = container};
}

/* private_[0]: where the last value stands, NULL before the first. A mutable container points at
 * its last element or key, and its members form a ring. */
static bool next_of_mut(struct json_iter *it, size_t i)
{
	yyjson_mut_val *container = mut_of(it->container);
	yyjson_mut_val *at = it->private_[0];

	if (yyjson_mut_is_obj(container)) {
		yyjson_mut_val *key = i > 0 ? at->next
					    : ((yyjson_mut_val *)container->uni.ptr)->next->next;
		it->key = (struct str){yyjson_mut_get_str(key), yyjson_mut_get_len(key)};
		at = key->next;
	} else {
		at = i > 0 ? at->next : ((yyjson_mut_val *)container->uni.ptr)->next;
	}
	it->private_[0] = at;
	it->value = jmut_view(of_mut(at));
	return true;
}

bool json_next(struct json_iter *it)
{
	/* index is that of the value; so it is one behind what was visited. */
	size_t i = it->value ? it->index + 1 : 0;

	if (i >= json_len(it->container))
		return false;
	it->index = i;
	if (is_view(it->container))
		return next_of_mut(it, i);

	yyjson_val *container = val_of(it->container);
	yyjson_val *at = it->private_[0];
	at = at ? unsafe_yyjson_get_next(at) : unsafe_yyjson_get_first(container);
	if (yyjson_is_obj(container)) {
		it->key = (struct str){yyjson_get_str(at), yyjson_get_len(at)};
		at++;
	}
	it->private_[0] = at;
	it->value = of_val(at);
	return true;
}

/* ---- building ---- */

struct jmut_doc *jmut_doc_new(void)
{
	return json_impl_check(yyjson_mut_doc_new(NULL));
}

struct jmut_doc *jmut_doc_new_secret(void)
{
	return json_impl_check(yyjson_mut_doc_new(&secret_mut_alc));
}

void jmut_doc_free(struct jmut_doc *doc)
{
	yyjson_mut_doc_free(raw_doc(doc));
}

struct jmut *jmut_root(const struct jmut_doc *doc)
{
	return of_mut(yyjson_mut_doc_get_root(raw_doc(doc)));
}

void jmut_set_root(struct jmut_doc *doc, struct jmut *v)
{
	yyjson_mut_doc_set_root(raw_doc(doc), raw(v));
}

struct jmut *jmut_object(struct jmut_doc *doc)
{
	return json_impl_check(yyjson_mut_obj(raw_doc(doc)));
}

struct jmut *jmut_array(struct jmut_doc *doc)
{
	return json_impl_check(yyjson_mut_arr(raw_doc(doc)));
}

struct jmut *json_impl_str(struct jmut_doc *doc, struct str s)
{
	return json_impl_check(yyjson_mut_strncpy(raw_doc(doc), s.p ? s.p : "", s.len));
}

struct jmut *jmut_int(struct jmut_doc *doc, int64_t n)
{
	/* As the parser has it: what isn't negative is unsigned. */
	return json_impl_check(n < 0 ? yyjson_mut_sint(raw_doc(doc), n)
				     : yyjson_mut_uint(raw_doc(doc), (uint64_t)n));
}

struct jmut *jmut_real(struct jmut_doc *doc, double d)
{
	return isfinite(d) ? json_impl_check(yyjson_mut_real(raw_doc(doc), d)) : jmut_null(doc);
}

struct jmut *jmut_bool(struct jmut_doc *doc, bool b)
{
	return json_impl_check(yyjson_mut_bool(raw_doc(doc), b));
}

struct jmut *jmut_null(struct jmut_doc *doc)
{
	return json_impl_check(yyjson_mut_null(raw_doc(doc)));
}

struct jmut *jmut_copy(struct jmut_doc *doc, const struct json *v)
{
	if (!v)
		return NULL;
	return json_impl_check(is_view(v) ? yyjson_mut_val_mut_copy(raw_doc(doc), mut_of(v))
					  : yyjson_val_mut_copy(raw_doc(doc), val_of(v)));
}

struct jmut *jmut_clone(struct jmut_doc *doc, const struct jmut *v)
{
	return jmut_copy(doc, jmut_view(v));
}

/* The key's node, NULL if there is none. */
static yyjson_mut_val *find_key(yyjson_mut_val *obj, struct str key)
{
	yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(obj);
	yyjson_mut_val *k;

	while ((k = yyjson_mut_obj_iter_next(&it))) {
		if (yyjson_mut_equals_strn(k, key.p ? key.p : "", key.len))
			return k;
	}
	return NULL;
}

void json_impl_add(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v)
{
	yyjson_mut_obj_add(raw(obj), raw(json_impl_str(doc, key)), raw(v));
}

void json_impl_set(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v)
{
	yyjson_mut_val *k = find_key(raw(obj), key);

	if (!k) {
		json_impl_add(doc, obj, key, v);
	} else if (k->next != raw(v)) {
		/* In the ring a key's value comes behind it; the new one takes its place. */
		raw(v)->next = k->next->next;
		k->next = raw(v);
	}
}

void jmut_deln(struct jmut *obj, struct str key)
{
	if (yyjson_mut_is_obj(raw(obj)))
		yyjson_mut_obj_remove_keyn(raw(obj), key.p ? key.p : "", key.len);
}

struct jmut *jmut_getn(const struct jmut *obj, struct str key)
{
	return of_mut(yyjson_mut_obj_getn(raw(obj), key.p ? key.p : "", key.len));
}

void jmut_push(struct jmut_doc *doc, struct jmut *arr, struct jmut *v)
{
	(void)doc;
	yyjson_mut_arr_append(raw(arr), raw(v));
}

void jmut_insert(struct jmut_doc *doc, struct jmut *arr, size_t i, struct jmut *v)
{
	(void)doc;
	yyjson_mut_arr_insert(raw(arr), raw(v), i);
}

void jmut_remove(struct jmut *arr, size_t i)
{
	yyjson_mut_arr_remove(raw(arr), i);
}

/* An array points at its last element, which points at the first. */
size_t jmut_remove_if(struct jmut *arr, json_test_fn *test, void *arg)
{
	size_t len = yyjson_mut_arr_size(raw(arr)), n = 0;
	yyjson_mut_val *before = len > 0 ? raw(arr)->uni.ptr : NULL;

	for (size_t i = 0; i < len; i++) {
		yyjson_mut_val *v = before->next;

		if (test(jmut_view(of_mut(v)), arg)) {
			before->next = v->next;
			n++;
		} else {
			before = v;
		}
	}
	if (n > 0) {
		raw(arr)->uni.ptr = before;
		unsafe_yyjson_set_len(raw(arr), len - n);
	}
	return n;
}

struct jmut *jmut_item(const struct jmut *arr, size_t i)
{
	return of_mut(yyjson_mut_arr_get(raw(arr), i));
}

/* ---- writing ---- */

int json_write(const struct json *v, enum json_write_flags flags, struct buf *out, struct err *err)
{
	yyjson_write_flag yy_flags = flags & JSON_PRETTY ? YYJSON_WRITE_PRETTY
							 : YYJSON_WRITE_NOFLAG;
	yyjson_write_err why;
	size_t len = 0;
	const yyjson_alc *alc = out->secret ? &secret_alc : &counted_alc;

	if (!v)
		return err_set(err, ERR_INVALID, 0, "there is no JSON value to write");
	char *text = is_view(v) ? yyjson_mut_val_write_opts(mut_of(v), yy_flags, alc, &len, &why)
				: yyjson_val_write_opts(val_of(v), yy_flags, alc, &len, &why);
	if (!text && why.code == YYJSON_WRITE_ERROR_MEMORY_ALLOCATION)
		return err_set(err, ERR_LIMIT, ENOMEM, "no memory to write a JSON document");
	if (!text)
		return err_set(err, ERR_INTERNAL, 0, "JSON can't be written: %s", why.msg);
	int rc = buf_append(out, text, len, err);
	alc->free(NULL, text);
	return rc;
}
