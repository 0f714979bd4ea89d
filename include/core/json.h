/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON behind one header with two link-time back-ends: yyjson for the daemon, libfyaml for the
 * static launcher. Nothing above sees either's types. Values read are const and live as long as
 * their document; values built are mutable and live as long as theirs.
 */
#ifndef IPU_CORE_JSON_H
#define IPU_CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

/* ---- reading ---- */

struct json_doc; /* owns all its values */
struct json;     /* one value; NULL stands for "not there" and is accepted by every reader */

enum json_type {
	JSON_NONE, /* not there */
	JSON_NULL,
	JSON_BOOL,
	JSON_INT,  /* fits int64 */
	JSON_REAL, /* every other number */
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

#define JSON_MAX_DEPTH 128 /* deeper documents are refused: ERR_LIMIT */

/* Copies what it needs from s, which may go afterwards. Errors: ERR_INVALID with line and column,
 * ERR_LIMIT. Strict RFC 8259: UTF-8 is checked, trailing bytes are an error; of a key that comes
 * twice in one object, readers see the first. */
int json_parse(struct str s, struct json_doc **ret, struct err *err);
/* The same, and what the document holds is wiped when it's freed. (Of the launcher's back-end, what
 * libfyaml itself holds meanwhile isn't.) */
int json_parse_secret(struct str s, struct json_doc **ret, struct err *err);
/* Overwrites a string where it stands, in a document that was parsed; nothing for others. */
void json_blank(const struct json *v);
void json_doc_free(struct json_doc *doc); /* NULL is fine */
void json_doc_freep(struct json_doc **doc);
#define CLEANUP_JSON __attribute__((cleanup(json_doc_freep)))
const struct json *json_root(const struct json_doc *doc);

enum json_type json_type(const struct json *v);
const char *json_type_name(enum json_type type); /* "a string", "an object": for messages */
/* NULL if absent, or no object. */
const struct json *json_get(const struct json *obj, const char *key);
const struct json *json_getn(const struct json *obj, struct str key);
/* A walk by keys, last one NULL: json_at(pod, "metadata", "name", NULL). */
const struct json *json_at(const struct json *v, ...) __attribute__((sentinel));
size_t json_len(const struct json *v); /* members or elements, else 0 */
/* O(1) or O(n) by back-end: iterate. */
const struct json *json_item(const struct json *arr, size_t i);

const char *json_cstr(const struct json *v); /* a string's bytes, NUL-terminated; else NULL */
struct str json_str(const struct json *v);   /* a string; else STR_NULL */
int64_t json_int(const struct json *v, int64_t otherwise);
double json_real(const struct json *v, double otherwise); /* any number */
bool json_bool(const struct json *v, bool otherwise);
/* Deep; key order doesn't count; numbers are equal when their values are (1 and 1.0), those that
 * no double holds when they are written alike. */
bool json_equal(const struct json *a, const struct json *b);

struct json_iter {
	const struct json *container;
	struct str key; /* of an object's member; STR_NULL in arrays */
	const struct json *value;
	size_t index;
	void *private_[4];
};
/* Over an array's elements or an object's members, in the document's order; nothing for others. */
struct json_iter json_iter(const struct json *container);
bool json_next(struct json_iter *it);

/* ---- building ---- */

struct jmut_doc; /* owns all its values; arena: what is replaced in it goes with it */
struct jmut;     /* NULL stands for "not there" */

struct jmut_doc *jmut_doc_new(void);
struct jmut_doc *jmut_doc_new_secret(void); /* wiped when it's freed */
void jmut_doc_free(struct jmut_doc *doc);   /* NULL is fine */
void jmut_doc_freep(struct jmut_doc **doc);
#define CLEANUP_JMUT __attribute__((cleanup(jmut_doc_freep)))
struct jmut *jmut_root(const struct jmut_doc *doc);
void jmut_set_root(struct jmut_doc *doc, struct jmut *v);

/* New values, owned by doc. Strings are copied; bytes in them that aren't UTF-8 become U+FFFD, so
 * that a document can always be written. */
struct jmut *jmut_object(struct jmut_doc *doc);
struct jmut *jmut_array(struct jmut_doc *doc);
struct jmut *jmut_str(struct jmut_doc *doc, struct str s);
struct jmut *jmut_strz(struct jmut_doc *doc, const char *z);
struct jmut *jmut_strf(struct jmut_doc *doc, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
struct jmut *jmut_int(struct jmut_doc *doc, int64_t n);
struct jmut *jmut_real(struct jmut_doc *doc, double d); /* infinite, not a number: null */
struct jmut *jmut_bool(struct jmut_doc *doc, bool b);
struct jmut *jmut_null(struct jmut_doc *doc);
struct jmut *jmut_copy(struct jmut_doc *doc, const struct json *v);  /* deep; NULL of NULL */
struct jmut *jmut_clone(struct jmut_doc *doc, const struct jmut *v); /* deep; NULL of NULL */

/* Objects: set replaces (position kept) or appends. A value is put into one container only. With
 * v NULL, or obj NULL or no object, nothing happens. Costs a look at each member: build a large
 * object by jmut_add, which appends without looking (the caller knows that the key is new). */
void jmut_set(struct jmut_doc *doc, struct jmut *obj, const char *key, struct jmut *v);
void jmut_setn(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v);
void jmut_set_str(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z);
void jmut_set_int(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t n);
void jmut_set_bool(struct jmut_doc *doc, struct jmut *obj, const char *key, bool b);
void jmut_add(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v);
void jmut_del(struct jmut *obj, const char *key);
void jmut_deln(struct jmut *obj, struct str key);
struct jmut *jmut_get(const struct jmut *obj, const char *key);
struct jmut *jmut_getn(const struct jmut *obj, struct str key);
/* The member as an object (or array), made if it's absent or null; NULL if it's something else. */
struct jmut *jmut_need_object(struct jmut_doc *doc, struct jmut *obj, const char *key);
struct jmut *jmut_need_array(struct jmut_doc *doc, struct jmut *obj, const char *key);

/* Arrays. Nothing happens with v NULL, arr NULL or no array, or i out of range. */
void jmut_push(struct jmut_doc *doc, struct jmut *arr, struct jmut *v);
void jmut_insert(struct jmut_doc *doc, struct jmut *arr, size_t i, struct jmut *v); /* i <= len */
void jmut_remove(struct jmut *arr, size_t i);
struct jmut *jmut_item(const struct jmut *arr, size_t i);
/* Removes what the test says; returns how many. */
typedef bool json_test_fn(const struct json *item, void *arg);
size_t jmut_remove_if(struct jmut *arr, json_test_fn *test, void *arg);
size_t jmut_len(const struct jmut *v);

/* A mutable value can be read with the readers above: the view lives as long as doc, and shows
 * later changes. (The back-ends make this cheap.) */
const struct json *jmut_view(const struct jmut *v);
/* Back from a view. An array's elements are a list: jmut_item() walks to each from the first, so go
 * through long ones by json_iter() over the view. NULL of NULL. */
struct jmut *jmut_of(const struct json *view);

/* RFC 7386: applies patch to target (may be NULL or no object), returns the result, in doc. */
struct jmut *jmut_merge_patch(struct jmut_doc *doc, struct jmut *target, const struct json *patch);

/* ---- writing ---- */

/* Appends "/" and the key as a reference token of a JSON pointer (RFC 6901). */
int json_pointer_append(struct buf *pointer, struct str key, struct err *err);

enum json_write_flags { JSON_COMPACT = 0, JSON_PRETTY = 1 };
int json_write(const struct json *v, enum json_write_flags flags, struct buf *out, struct err *err);
int jmut_write(const struct jmut *v, enum json_write_flags flags, struct buf *out, struct err *err);
/* One JSON string with its quotes, for hand-made output. */
int json_write_str(struct str s, struct buf *out, struct err *err);

#endif
