/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation after the other; a JSON pointer (RFC 6901) is walked to its parent, where the
 * change happens.
 */
#include "sim/jsonpatch.h"

#include <stdlib.h>
#include <string.h>

#include "core/str.h"

/* Each copy of the whole into itself doubles it: as the real API server does, we end that. */
#define MAX_COPY_BYTES ((size_t)3 << 20)

struct patch {
	struct jmut_doc *doc;
	struct jmut **root;
	size_t copied;
};

struct place {
	struct jmut *parent; /* NULL: the root itself */
	char *key;           /* owned: member, or index, or "-" */
};

static char *unescape(struct str token)
{
	char *z = str_dup(token), *out = z;

	for (const char *in = z; *in; in++) {
		if (in[0] == '~' && (in[1] == '0' || in[1] == '1'))
			*out++ = *++in == '0' ? '~' : '/';
		else
			*out++ = *in;
	}
	*out = '\0';
	return z;
}

static struct jmut *child(struct jmut *v, const char *key)
{
	int64_t i;

	if (json_type(jmut_view(v)) == JSON_OBJECT)
		return jmut_get(v, key);
	if (json_type(jmut_view(v)) == JSON_ARRAY &&
	    str_to_int(str_of(key), 0, INT32_MAX, &i, NULL) == 0)
		return jmut_item(v, (size_t)i);
	return NULL;
}

static int walk(struct jmut *root, struct str pointer, struct place *ret, struct err *err)
{
	struct jmut *v = root;

	*ret = (struct place){0};
	if (pointer.len == 0)
		return 0;
	if (pointer.p[0] != '/')
		return err_set(err, ERR_INVALID, 0, "JSON pointer \"%.*s\" must begin with /",
			       STR_ARG(pointer));
	pointer = (struct str){pointer.p + 1, pointer.len - 1};
	for (;;) {
		struct str token, rest;
		bool more = str_cut(pointer, '/', &token, &rest);
		char *key = unescape(token);

		if (!more) {
			*ret = (struct place){v, key};
			return 0;
		}
		v = child(v, key);
		free(key);
		if (!v)
			return err_set(err, ERR_INVALID, 0, "JSON pointer leads nowhere");
		pointer = rest;
	}
}

static struct jmut *value_at(struct jmut *root, const struct place *p)
{
	return p->parent ? child(p->parent, p->key) : root;
}

static int add(struct jmut_doc *doc, struct jmut **root, const struct place *p, struct jmut *v,
	       struct err *err)
{
	int64_t i;

	if (!p->parent) {
		*root = v;
		return 0;
	}
	if (json_type(jmut_view(p->parent)) == JSON_OBJECT) {
		jmut_set(doc, p->parent, p->key, v);
		return 0;
	}
	if (json_type(jmut_view(p->parent)) != JSON_ARRAY)
		return err_set(err, ERR_INVALID, 0, "add: the parent is no container");
	if (strcmp(p->key, "-") == 0) {
		jmut_push(doc, p->parent, v);
		return 0;
	}
	if (str_to_int(str_of(p->key), 0, (int64_t)jmut_len(p->parent), &i, NULL) < 0)
		return err_set(err, ERR_INVALID, 0, "add: index %s is out of range", p->key);
	jmut_insert(doc, p->parent, (size_t)i, v);
	return 0;
}

static int drop(struct jmut *root, const struct place *p, struct err *err)
{
	int64_t i;

	if (!p->parent || !value_at(root, p))
		return err_set(err, ERR_INVALID, 0, "remove: there is no such value");
	if (json_type(jmut_view(p->parent)) == JSON_OBJECT)
		jmut_del(p->parent, p->key);
	else if (str_to_int(str_of(p->key), 0, INT32_MAX, &i, NULL) == 0)
		jmut_remove(p->parent, (size_t)i);
	return 0;
}

/* About how many bytes a copy of v takes. */
static size_t weigh(const struct json *v)
{
	struct json_iter it = json_iter(v);
	size_t bytes = 32 + json_str(v).len;

	while (json_next(&it))
		bytes += it.key.len + weigh(it.value);
	return bytes;
}

/* The target is looked for after the source has gone (RFC 6902, 4.4), so that nothing is moved
 * into itself. */
static int run_two(struct patch *patch, const struct json *op, bool move, struct err *err)
{
	struct place from, to;
	struct jmut *v;
	int failed = -1;

	if (walk(*patch->root, json_str(json_get(op, "from")), &from, err) < 0)
		return -1;
	v = value_at(*patch->root, &from);
	if (!v) {
		err_set(err, ERR_INVALID, 0, "from: there is no such value");
	} else if (!move && (patch->copied += weigh(jmut_view(v))) > MAX_COPY_BYTES) {
		err_set(err, ERR_INVALID, 0, "the copies are larger than %zu bytes",
			MAX_COPY_BYTES);
	} else {
		v = jmut_clone(patch->doc, v);
		failed = move ? drop(*patch->root, &from, err) : 0;
	}
	free(from.key);
	if (failed || walk(*patch->root, json_str(json_get(op, "path")), &to, err) < 0)
		return -1;
	failed = add(patch->doc, patch->root, &to, v, err);
	free(to.key);
	return failed;
}

static int run_one(struct patch *patch, struct str name, const struct json *op,
		   const struct place *to, struct err *err)
{
	struct jmut_doc *doc = patch->doc;
	struct jmut **root = patch->root;
	const struct json *value = json_get(op, "value");
	bool needs_value = str_eqz(name, "add") || str_eqz(name, "replace") ||
			   str_eqz(name, "test");

	if (needs_value && !value)
		return err_set(err, ERR_INVALID, 0, "%.*s: needs a value", STR_ARG(name));
	if (str_eqz(name, "add"))
		return add(doc, root, to, jmut_copy(doc, value), err);
	if (str_eqz(name, "remove"))
		return drop(*root, to, err);
	if (str_eqz(name, "replace")) {
		if (to->parent && drop(*root, to, err) < 0)
			return -1;
		return add(doc, root, to, jmut_copy(doc, value), err);
	}
	if (str_eqz(name, "test"))
		return json_equal(jmut_view(value_at(*root, to)), value)
			       ? 0
			       : err_set(err, ERR_INVALID, 0, "test: the value is another one");
	return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no operation", STR_ARG(name));
}

static int run(struct patch *patch, const struct json *op, struct err *err)
{
	struct str name = json_str(json_get(op, "op"));
	struct place to;
	int failed;

	if (str_eqz(name, "move") || str_eqz(name, "copy"))
		return run_two(patch, op, str_eqz(name, "move"), err);
	if (walk(*patch->root, json_str(json_get(op, "path")), &to, err) < 0)
		return -1;
	failed = run_one(patch, name, op, &to, err);
	free(to.key);
	return failed;
}

int sim_json_patch(struct jmut_doc *doc, struct jmut **root, const struct json *patch,
		   struct err *err)
{
	struct patch state = {.doc = doc, .root = root};
	struct json_iter it = json_iter(patch);

	if (json_type(patch) != JSON_ARRAY)
		return err_set(err, ERR_INVALID, 0, "a JSON patch is a list of operations");
	while (json_next(&it)) {
		if (run(&state, it.value, err) < 0)
			return err_wrap(err, "operation %zu", it.index);
	}
	return 0;
}

/* ---- strategic merge patch ---- */

/* Of an item of a list, by the key that its items are told apart by. */
static struct jmut *find_item(struct jmut *list, const char *key, struct str value, size_t *ret_i)
{
	struct json_iter it = json_iter(jmut_view(list));

	while (json_next(&it)) {
		*ret_i = it.index;
		if (str_eq(json_str(json_get(it.value, key)), value))
			return jmut_of(it.value);
	}
	return NULL;
}

static int merge_object(struct jmut_doc *doc, struct jmut *target, const struct json *patch,
			struct err *err);

static int merge_list(struct jmut_doc *doc, struct jmut *target, struct str name,
		      const char *item_key, const struct json *patch, struct err *err)
{
	CLEANUP_FREE char *key = str_dup(name);
	struct jmut *list = jmut_need_array(doc, target, key);
	struct json_iter it = json_iter(patch);

	while (json_next(&it)) {
		struct str value = json_str(json_get(it.value, item_key));
		size_t i;
		struct jmut *item = find_item(list, item_key, value, &i);

		if (!value.len)
			return err_set(err, ERR_INVALID, 400,
				       "map: %.*s does not contain declared merge key: %s",
				       STR_ARG(name), item_key);
		if (str_eqz(json_str(json_get(it.value, "$patch")), "delete")) {
			if (item)
				jmut_remove(list, i);
			continue;
		}
		if (!item) {
			item = jmut_object(doc);
			jmut_push(doc, list, item);
		}
		if (merge_object(doc, item, it.value, err) < 0)
			return -1;
	}
	return 0;
}

static int merge_member(struct jmut_doc *doc, struct jmut *target, struct str name,
			const struct json *value, struct err *err)
{
	if (name.len && name.p[0] == '$')
		return err_set(err, ERR_UNSUPPORTED, 415,
			       "strategic merge patch: %.*s isn't simulated", STR_ARG(name));
	switch (json_type(value)) {
	case JSON_NULL:
		jmut_deln(target, name);
		return 0;
	case JSON_OBJECT: {
		struct jmut *inner = jmut_getn(target, name);

		if (json_type(jmut_view(inner)) != JSON_OBJECT) {
			inner = jmut_object(doc);
			jmut_setn(doc, target, name, inner);
		}
		return merge_object(doc, inner, value, err);
	}
	case JSON_ARRAY:
		if (str_eqz(name, "conditions"))
			return merge_list(doc, target, name, "type", value, err);
		if (!str_eqz(name, "taints")) /* those are replaced */
			return err_set(
				err, ERR_UNSUPPORTED, 415,
				"strategic merge patch: how the list %.*s is merged isn't simulated",
				STR_ARG(name));
		break;
	default:
		break;
	}
	jmut_setn(doc, target, name, jmut_copy(doc, value));
	return 0;
}

static int merge_object(struct jmut_doc *doc, struct jmut *target, const struct json *patch,
			struct err *err)
{
	struct json_iter it = json_iter(patch);

	while (json_next(&it)) {
		if (merge_member(doc, target, it.key, it.value, err) < 0)
			return -1;
	}
	return 0;
}

int sim_strategic_patch(struct jmut_doc *doc, struct jmut *root, const struct json *patch,
			struct err *err)
{
	if (json_type(patch) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 400, "a strategic merge patch is an object");
	return merge_object(doc, root, patch, err);
}
