/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON back-end of the static launcher: a tree of nodes in an arena, which json_fy_parse.c
 * makes from libfyaml's events. A document, parsed or built, is an arena and a root; a struct json
 * and a struct jmut are both a node. Uses buf, err, fault and str.
 */
#include "core/json_fy.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"

/* ---- memory ---- */

#define CHUNK_BYTES ((size_t)4000)

static void *take(struct fy_json_doc *doc, size_t size)
{
	size = (size + 7) & ~(size_t)7;
	if (size > doc->left) {
		size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
		struct fy_json_chunk *c = doc->may_fail ? fault_realloc(NULL, sizeof(*c) + room)
							: xrealloc(NULL, sizeof(*c) + room);
		if (!c)
			return NULL;
		c->next = doc->chunks;
		doc->chunks = c;
		doc->free = c->p;
		doc->left = room;
	}
	void *p = doc->free;
	doc->free += size;
	doc->left -= size;
	return p;
}

const char *json_fy_text(struct fy_json_doc *doc, struct str s)
{
	char *p = take(doc, s.len + 1);

	if (p) {
		if (s.len)
			memcpy(p, s.p, s.len);
		p[s.len] = '\0';
	}
	return p;
}

struct fy_json_node *json_fy_node(struct fy_json_doc *doc, enum json_type type)
{
	struct fy_json_node *v = take(doc, sizeof(*v));

	if (v)
		*v = (struct fy_json_node){.type = type};
	return v;
}

void json_fy_free(struct fy_json_doc *doc)
{
	if (!doc)
		return;
	while (doc->chunks) {
		struct fy_json_chunk *c = doc->chunks;
		doc->chunks = c->next;
		if (doc->secret)
			str_wipe(c, malloc_usable_size(c));
		free(c);
	}
	free(doc);
}

void json_fy_append(struct fy_json_node *container, struct fy_json_node *v)
{
	v->next = NULL;
	if (container->last)
		container->last->next = v;
	else
		container->first = v;
	container->last = v;
	container->count++;
}

struct fy_json_node *json_fy_string(struct fy_json_doc *doc, struct str s)
{
	struct fy_json_node *v = json_fy_node(doc, JSON_STRING);

	if (!v)
		return NULL;
	v->p = json_fy_text(doc, s);
	v->len = s.len;
	return v->p ? v : NULL;
}

/* ---- reading ---- */

static const struct fy_json_node *node_of(const struct json *v)
{
	return (const struct fy_json_node *)v;
}

static struct fy_json_node *mut_of(const struct jmut *v)
{
	return (struct fy_json_node *)(uintptr_t)v;
}

static struct jmut *of_mut(struct fy_json_node *v)
{
	return (struct jmut *)v;
}

static const struct json *of_node(const struct fy_json_node *v)
{
	return (const struct json *)v;
}

static struct fy_json_doc *doc_of(struct jmut_doc *doc)
{
	return (struct fy_json_doc *)doc;
}

const struct json *jmut_view(const struct jmut *v)
{
	return (const struct json *)v;
}

struct jmut *jmut_of(const struct json *view)
{
	return (struct jmut *)(uintptr_t)view;
}

void json_doc_free(struct json_doc *doc)
{
	json_fy_free((struct fy_json_doc *)doc);
}

const struct json *json_root(const struct json_doc *doc)
{
	return doc ? of_node(((const struct fy_json_doc *)doc)->root) : NULL;
}

enum json_type json_type(const struct json *v)
{
	return v ? node_of(v)->type : JSON_NONE;
}

static bool is_container(const struct fy_json_node *v)
{
	return v && (v->type == JSON_ARRAY || v->type == JSON_OBJECT);
}

static bool has_key(const struct fy_json_node *v, struct str key)
{
	return str_eq((struct str){v->key, v->key_len}, key);
}

/* The member, and the one in front of it (NULL if it's the first). */
static struct fy_json_node *find(const struct fy_json_node *obj, struct str key,
				 struct fy_json_node **ret_before)
{
	struct fy_json_node *before = NULL;

	if (!obj || obj->type != JSON_OBJECT)
		return NULL;
	for (struct fy_json_node *v = obj->first; v; before = v, v = v->next) {
		if (has_key(v, key)) {
			*ret_before = before;
			return v;
		}
	}
	return NULL;
}

static struct fy_json_node *item(const struct fy_json_node *arr, size_t i)
{
	struct fy_json_node *v;

	if (!arr || arr->type != JSON_ARRAY || i >= arr->count)
		return NULL;
	for (v = arr->first; i > 0; i--)
		v = v->next;
	return v;
}

const struct json *json_getn(const struct json *obj, struct str key)
{
	struct fy_json_node *before;

	return of_node(find(node_of(obj), key, &before));
}

size_t json_len(const struct json *v)
{
	return is_container(node_of(v)) ? node_of(v)->count : 0;
}

const struct json *json_item(const struct json *arr, size_t i)
{
	return of_node(item(node_of(arr), i));
}

const char *json_cstr(const struct json *v)
{
	return json_type(v) == JSON_STRING ? node_of(v)->p : NULL;
}

struct str json_str(const struct json *v)
{
	if (json_type(v) != JSON_STRING)
		return STR_NULL;
	return (struct str){node_of(v)->p, node_of(v)->len};
}

int64_t json_int(const struct json *v, int64_t otherwise)
{
	return json_type(v) == JSON_INT ? node_of(v)->n : otherwise;
}

double json_real(const struct json *v, double otherwise)
{
	if (json_type(v) == JSON_INT)
		return (double)node_of(v)->n;
	return json_type(v) == JSON_REAL ? node_of(v)->d : otherwise;
}

bool json_bool(const struct json *v, bool otherwise)
{
	return json_type(v) == JSON_BOOL ? node_of(v)->b : otherwise;
}

struct json_iter json_iter(const struct json *container)
{
	return (struct json_iter){.container = container};
}

bool json_next(struct json_iter *it)
{
	const struct fy_json_node *container = node_of(it->container);
	const struct fy_json_node *v = it->value ? node_of(it->value)->next : NULL;

	if (!is_container(container))
		return false;
	if (!it->value)
		v = container->first;
	else
		it->index += v != NULL;
	if (!v)
		return false;
	it->value = of_node(v);
	if (container->type == JSON_OBJECT)
		it->key = (struct str){v->key, v->key_len};
	return true;
}

/* ---- building ---- */

static struct jmut_doc *doc_new(bool secret)
{
	struct fy_json_doc *doc = xcalloc(1, sizeof(*doc));

	doc->secret = secret;
	return (struct jmut_doc *)doc;
}

struct jmut_doc *jmut_doc_new(void)
{
	return doc_new(false);
}

struct jmut_doc *jmut_doc_new_secret(void)
{
	return doc_new(true);
}

void jmut_doc_free(struct jmut_doc *doc)
{
	json_fy_free(doc_of(doc));
}

struct jmut *jmut_root(const struct jmut_doc *doc)
{
	return of_mut(((const struct fy_json_doc *)doc)->root);
}

void jmut_set_root(struct jmut_doc *doc, struct jmut *v)
{
	doc_of(doc)->root = mut_of(v);
}

struct jmut *jmut_object(struct jmut_doc *doc)
{
	return of_mut(json_fy_node(doc_of(doc), JSON_OBJECT));
}

struct jmut *jmut_array(struct jmut_doc *doc)
{
	return of_mut(json_fy_node(doc_of(doc), JSON_ARRAY));
}

struct jmut *json_impl_str(struct jmut_doc *doc, struct str s)
{
	return of_mut(json_fy_string(doc_of(doc), s));
}

struct jmut *jmut_int(struct jmut_doc *doc, int64_t n)
{
	struct fy_json_node *v = json_fy_node(doc_of(doc), JSON_INT);

	v->n = n;
	return of_mut(v);
}

struct jmut *jmut_real(struct jmut_doc *doc, double d)
{
	char text[40];
	size_t len = 0;
	struct fy_json_node *v;

	if (!isfinite(d))
		return jmut_null(doc);
	/* The shortest digits that give the same number again, and still look like a real. */
	for (int digits = 15; digits <= 17; digits++) {
		len = (size_t)snprintf(text, sizeof(text) - 2, "%.*g", digits, d);
		if (strtod(text, NULL) == d)
			break;
	}
	if (!strpbrk(text, ".e")) {
		memcpy(text + len, ".0", 3);
		len += 2;
	}
	v = json_fy_node(doc_of(doc), JSON_REAL);
	v->p = json_fy_text(doc_of(doc), (struct str){text, len});
	v->len = len;
	v->d = d;
	return of_mut(v);
}

struct jmut *jmut_bool(struct jmut_doc *doc, bool b)
{
	struct fy_json_node *v = json_fy_node(doc_of(doc), JSON_BOOL);

	v->b = b;
	return of_mut(v);
}

struct jmut *jmut_null(struct jmut_doc *doc)
{
	return of_mut(json_fy_node(doc_of(doc), JSON_NULL));
}

static struct fy_json_node *copy_node(struct fy_json_doc *doc, const struct fy_json_node *from)
{
	struct fy_json_node *v = json_impl_check(json_fy_node(doc, from->type));

	switch (from->type) {
	case JSON_BOOL:
		v->b = from->b;
		break;
	case JSON_INT:
		v->n = from->n;
		break;
	case JSON_REAL:
	case JSON_STRING:
		v->p = json_fy_text(doc, (struct str){from->p, from->len});
		v->len = from->len;
		v->d = from->type == JSON_REAL ? from->d : 0;
		break;
	case JSON_ARRAY:
	case JSON_OBJECT:
		for (const struct fy_json_node *child = from->first; child; child = child->next) {
			struct fy_json_node *copy = copy_node(doc, child);
			if (from->type == JSON_OBJECT) {
				copy->key = json_fy_text(doc,
							 (struct str){child->key, child->key_len});
				copy->key_len = child->key_len;
			}
			json_fy_append(v, copy);
		}
		break;
	default:
		break;
	}
	return v;
}

struct jmut *jmut_copy(struct jmut_doc *doc, const struct json *v)
{
	return v ? of_mut(copy_node(doc_of(doc), node_of(v))) : NULL;
}

struct jmut *jmut_clone(struct jmut_doc *doc, const struct jmut *v)
{
	return jmut_copy(doc, jmut_view(v));
}

void json_impl_add(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v)
{
	mut_of(v)->key = json_fy_text(doc_of(doc), key);
	mut_of(v)->key_len = key.len;
	json_fy_append(mut_of(obj), mut_of(v));
}

void json_impl_set(struct jmut_doc *doc, struct jmut *obj, struct str key, struct jmut *v)
{
	struct fy_json_node *container = mut_of(obj), *to = mut_of(v), *before;
	struct fy_json_node *old = find(container, key, &before);

	if (!old) {
		json_impl_add(doc, obj, key, v);
		return;
	}
	if (old == to)
		return;
	to->key = old->key;
	to->key_len = old->key_len;
	to->next = old->next;
	if (before)
		before->next = to;
	else
		container->first = to;
	if (container->last == old)
		container->last = to;
}

/* before: the one in front of it, NULL if it's the first. */
static void unlink_node(struct fy_json_node *container, struct fy_json_node *before,
			struct fy_json_node *v)
{
	if (before)
		before->next = v->next;
	else
		container->first = v->next;
	if (container->last == v)
		container->last = before;
	container->count--;
}

void jmut_deln(struct jmut *obj, struct str key)
{
	struct fy_json_node *before, *v;

	while ((v = find(mut_of(obj), key, &before)))
		unlink_node(mut_of(obj), before, v);
}

struct jmut *jmut_getn(const struct jmut *obj, struct str key)
{
	struct fy_json_node *before;

	return of_mut(find(mut_of(obj), key, &before));
}

void jmut_push(struct jmut_doc *doc, struct jmut *arr, struct jmut *v)
{
	(void)doc;
	if (v && json_type(jmut_view(arr)) == JSON_ARRAY)
		json_fy_append(mut_of(arr), mut_of(v));
}

void jmut_insert(struct jmut_doc *doc, struct jmut *arr, size_t i, struct jmut *v)
{
	struct fy_json_node *container = mut_of(arr);

	if (!v || json_type(jmut_view(arr)) != JSON_ARRAY || i > container->count)
		return;
	if (i == container->count) {
		jmut_push(doc, arr, v);
		return;
	}
	struct fy_json_node *before = i > 0 ? item(container, i - 1) : NULL;
	mut_of(v)->next = before ? before->next : container->first;
	if (before)
		before->next = mut_of(v);
	else
		container->first = mut_of(v);
	container->count++;
}

void jmut_remove(struct jmut *arr, size_t i)
{
	struct fy_json_node *v = item(mut_of(arr), i);

	if (v)
		unlink_node(mut_of(arr), i > 0 ? item(mut_of(arr), i - 1) : NULL, v);
}

size_t jmut_remove_if(struct jmut *arr, json_test_fn *test, void *arg)
{
	struct fy_json_node *before = NULL, *next;
	size_t n = 0;

	if (json_type(jmut_view(arr)) != JSON_ARRAY)
		return 0;
	for (struct fy_json_node *v = mut_of(arr)->first; v; v = next) {
		next = v->next;
		if (test(jmut_view(of_mut(v)), arg)) {
			unlink_node(mut_of(arr), before, v);
			n++;
		} else {
			before = v;
		}
	}
	return n;
}

struct jmut *jmut_item(const struct jmut *arr, size_t i)
{
	return of_mut(item(mut_of(arr), i));
}

/* ---- writing ---- */

static int write_break(struct buf *out, size_t indent, struct err *err)
{
	return buf_printf(out, err, "\n%*s", (int)indent, "");
}

static int write_node(const struct fy_json_node *v, bool pretty, size_t indent, struct buf *out,
		      struct err *err)
{
	bool is_object = v->type == JSON_OBJECT;

	switch (v->type) {
	case JSON_BOOL:
		return buf_append_str(out, v->b ? STR("true") : STR("false"), err);
	case JSON_INT:
		return buf_printf(out, err, "%lld", (long long)v->n);
	case JSON_REAL:
		return buf_append(out, v->p, v->len, err);
	case JSON_STRING:
		return json_write_str((struct str){v->p, v->len}, out, err);
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	default:
		return buf_append_str(out, STR("null"), err);
	}
	if (buf_append(out, is_object ? "{" : "[", 1, err) < 0)
		return -1;
	for (const struct fy_json_node *child = v->first; child; child = child->next) {
		if ((child != v->first && buf_append(out, ",", 1, err) < 0) ||
		    (pretty && write_break(out, indent + 4, err) < 0))
			return -1;
		if (is_object &&
		    (json_write_str((struct str){child->key, child->key_len}, out, err) < 0 ||
		     buf_append_str(out, pretty ? STR(": ") : STR(":"), err) < 0))
			return -1;
		if (write_node(child, pretty, indent + 4, out, err) < 0)
			return -1;
	}
	if (pretty && v->first && write_break(out, indent, err) < 0)
		return -1;
	return buf_append(out, is_object ? "}" : "]", 1, err);
}

int json_write(const struct json *v, enum json_write_flags flags, struct buf *out, struct err *err)
{
	size_t before = out->len;

	if (!v)
		return err_set(err, ERR_INVALID, 0, "there is no JSON value to write");
	if (write_node(node_of(v), flags & JSON_PRETTY, 0, out, err) < 0) {
		out->len = before;
		return -1;
	}
	return 0;
}
