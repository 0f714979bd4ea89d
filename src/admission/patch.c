/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Patch making: objects member by member; arrays by an alignment of least cost, after what is
 * equal at both ends is set aside. Operations come in the order in which they must be applied.
 */
#include "admission/patch.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/buf.h"
#include "core/map.h"
#include "core/str.h"

/* Above this, an object's members are looked up in a map: a peer chooses how many there are. */
#define LINEAR_MEMBERS 32
/* Above so many pairs of elements that differ, arrays are compared place by place. */
#define MAX_PAIRS  4096
#define PATH_LIMIT ((size_t)1 << 20)

struct maker {
	struct jmut_doc *doc;
	struct jmut *ops; /* NULL: none yet */
	size_t n_ops;
	struct buf path; /* a JSON Pointer (RFC 6901) */
};

static int diff(struct maker *m, const struct json *before, const struct json *after,
		struct err *err);

/* ---- pointers and operations ---- */

static int push_index(struct maker *m, size_t i, struct err *err)
{
	return buf_printf(&m->path, err, "/%zu", i);
}

/* What is there is what was there when the path had this length. */
static void pop_to(struct maker *m, size_t len)
{
	m->path.len = len;
}

static int emit(struct maker *m, const char *op, const struct json *value, struct err *err)
{
	struct jmut *o = jmut_object(m->doc);

	if (m->n_ops == ADMISSION_PATCH_MAX)
		return err_set(err, ERR_LIMIT, 0, "the patch would have more than %d operations",
			       ADMISSION_PATCH_MAX);
	m->n_ops++;
	if (!m->ops)
		m->ops = jmut_array(m->doc);
	jmut_add(m->doc, o, STR("op"), jmut_strz(m->doc, op));
	jmut_add(m->doc, o, STR("path"), jmut_str(m->doc, buf_str(&m->path)));
	if (value)
		jmut_add(m->doc, o, STR("value"), jmut_copy(m->doc, value));
	jmut_push(m->doc, m->ops, o);
	return 0;
}

/* The same at an element's place. */
static int emit_at(struct maker *m, size_t i, const char *op, const struct json *value,
		   struct err *err)
{
	size_t len = m->path.len;

	if (push_index(m, i, err) < 0 || emit(m, op, value, err) < 0)
		return -1;
	pop_to(m, len);
	return 0;
}

/* ---- objects ---- */

struct members {
	const struct json *obj;
	struct map *map; /* NULL: few enough to search */
};

static void members_init(struct members *ms, const struct json *obj)
{
	struct json_iter it = json_iter(obj);

	*ms = (struct members){.obj = obj};
	if (json_len(obj) <= LINEAR_MEMBERS)
		return;
	ms->map = map_new();
	while (json_next(&it)) {
		if (!map_get(ms->map, it.key))
			map_put(ms->map, it.key, (void *)(uintptr_t)it.value);
	}
}

static const struct json *members_get(const struct members *ms, struct str key)
{
	return ms->map ? map_get(ms->map, key) : json_getn(ms->obj, key);
}

static int diff_member(struct maker *m, struct str key, const struct json *before,
		       const struct json *after, struct err *err)
{
	size_t len = m->path.len;
	int rc;

	if (json_pointer_append(&m->path, key, err) < 0)
		return -1;
	if (!after)
		rc = emit(m, "remove", NULL, err);
	else if (!before)
		rc = emit(m, "add", after, err);
	else
		rc = diff(m, before, after, err);
	pop_to(m, len);
	return rc;
}

static int diff_members(struct maker *m, const struct members *before, const struct members *after,
			struct err *err)
{
	struct json_iter it = json_iter(before->obj);

	while (json_next(&it)) {
		/* Of a key that comes twice, the first counts. */
		if (members_get(before, it.key) != it.value)
			continue;
		if (diff_member(m, it.key, it.value, members_get(after, it.key), err) < 0)
			return -1;
	}
	it = json_iter(after->obj);
	while (json_next(&it)) {
		if (members_get(before, it.key) || members_get(after, it.key) != it.value)
			continue;
		if (diff_member(m, it.key, NULL, it.value, err) < 0)
			return -1;
	}
	return 0;
}

static int diff_objects(struct maker *m, const struct json *before, const struct json *after,
			struct err *err)
{
	struct members b, a;
	int rc;

	members_init(&b, before);
	members_init(&a, after);
	rc = diff_members(m, &b, &a, err);
	map_free(b.map);
	map_free(a.map);
	return rc;
}

/* ---- arrays ---- */

/* A run of elements. */
struct run {
	const struct json **items; /* owned */
	size_t len;
};

static struct run run_of(const struct json *arr)
{
	struct run r = {.items = xcalloc(json_len(arr) + 1, sizeof(*r.items))};
	struct json_iter it = json_iter(arr);

	while (json_next(&it))
		r.items[r.len++] = it.value;
	return r;
}

/* What it costs to make one element of another: nothing, an operation, or more than to take it out
 * and put in the other. Containers, volumes and variables are told apart by their names. */
static unsigned pair_cost(const struct json *a, const struct json *b)
{
	struct str a_name = json_str(json_get(a, "name")), b_name = json_str(json_get(b, "name"));

	if (json_equal(a, b))
		return 0;
	return json_type(a) == json_type(b) && str_eq(a_name, b_name) ? 1 : 3;
}

/* cost[i][j]: of the first i elements before and j after. */
static unsigned *align(const struct run *b, const struct run *a)
{
	size_t w = a->len + 1;
	unsigned *cost = xcalloc((b->len + 1) * w, sizeof(*cost));

	for (size_t i = 0; i <= b->len; i++) {
		for (size_t j = 0; j <= a->len; j++) {
			unsigned best = UINT32_MAX, c;

			if (i == 0 && j == 0)
				continue;
			if (i && (c = cost[(i - 1) * w + j] + 1) < best)
				best = c;
			if (j && (c = cost[i * w + j - 1] + 1) < best)
				best = c;
			if (i && j) {
				c = cost[(i - 1) * w + j - 1] +
				    pair_cost(b->items[i - 1], a->items[j - 1]);
				if (c <= best)
					best = c;
			}
			cost[i * w + j] = best;
		}
	}
	return cost;
}

enum step { STEP_PAIR, STEP_REMOVE, STEP_ADD };

/* The steps that lead to the end, in their order; returns how many. ret has room for all. */
static size_t walk_back(const unsigned *cost, const struct run *b, const struct run *a,
			unsigned char *ret)
{
	size_t w = a->len + 1, i = b->len, j = a->len, n = 0;

	while (i || j) {
		unsigned here = cost[i * w + j];

		if (i && j &&
		    here == cost[(i - 1) * w + j - 1] +
				    pair_cost(b->items[i - 1], a->items[j - 1])) {
			ret[n++] = STEP_PAIR;
			i--;
			j--;
		} else if (j && here == cost[i * w + j - 1] + 1) {
			ret[n++] = STEP_ADD;
			j--;
		} else {
			ret[n++] = STEP_REMOVE;
			i--;
		}
	}
	for (size_t k = 0; k < n / 2; k++) {
		unsigned char s = ret[k];

		ret[k] = ret[n - 1 - k];
		ret[n - 1 - k] = s;
	}
	return n;
}

/* Pairs as far as there are any; then removals from the end, or additions. */
static size_t place_by_place(const struct run *b, const struct run *a, unsigned char *ret)
{
	size_t n = 0, i = 0;

	for (; i < b->len && i < a->len; i++)
		ret[n++] = STEP_PAIR;
	for (size_t j = i; j < b->len; j++)
		ret[n++] = STEP_REMOVE;
	for (size_t j = i; j < a->len; j++)
		ret[n++] = STEP_ADD;
	return n;
}

/* at: the place of the first element in the array as it is when these steps begin. */
static int take_steps(struct maker *m, const struct run *b, const struct run *a, size_t at,
		      const unsigned char *steps, size_t n, struct err *err)
{
	size_t i = 0, j = 0, len = m->path.len;

	for (size_t k = 0; k < n; k++) {
		int rc;

		if (steps[k] == STEP_REMOVE) {
			rc = emit_at(m, at + j, "remove", NULL, err);
			i++;
		} else if (steps[k] == STEP_ADD) {
			rc = emit_at(m, at + j, "add", a->items[j], err);
			j++;
		} else {
			rc = push_index(m, at + j, err);
			if (rc == 0)
				rc = diff(m, b->items[i], a->items[j], err);
			pop_to(m, len);
			i++;
			j++;
		}
		if (rc < 0)
			return -1;
	}
	return 0;
}

static int diff_runs(struct maker *m, struct run b, struct run a, struct err *err)
{
	size_t at = 0, n;
	unsigned char *steps;
	int rc;

	while (b.len && a.len && json_equal(b.items[0], a.items[0])) {
		b.items++;
		b.len--;
		a.items++;
		a.len--;
		at++;
	}
	while (b.len && a.len && json_equal(b.items[b.len - 1], a.items[a.len - 1])) {
		b.len--;
		a.len--;
	}
	steps = xcalloc(a.len + b.len + 1, 1);
	if (b.len && a.len && b.len <= MAX_PAIRS / a.len) {
		unsigned *cost = align(&b, &a);

		n = walk_back(cost, &b, &a, steps);
		free(cost);
	} else {
		n = place_by_place(&b, &a, steps);
	}
	rc = take_steps(m, &b, &a, at, steps, n, err);
	free(steps);
	return rc;
}

static int diff_arrays(struct maker *m, const struct json *before, const struct json *after,
		       struct err *err)
{
	struct run b = run_of(before), a = run_of(after);
	int rc = diff_runs(m, b, a, err);

	free(b.items);
	free(a.items);
	return rc;
}

/* ---- all ---- */

static int diff(struct maker *m, const struct json *before, const struct json *after,
		struct err *err)
{
	enum json_type type = json_type(after);

	if (type == json_type(before) && type == JSON_OBJECT)
		return diff_objects(m, before, after, err);
	if (type == json_type(before) && type == JSON_ARRAY)
		return diff_arrays(m, before, after, err);
	return json_equal(before, after) ? 0 : emit(m, "replace", after, err);
}

int admission_patch_make(struct jmut_doc *doc, const struct json *before, const struct json *after,
			 struct jmut **ret_ops, struct err *err)
{
	struct maker m = {.doc = doc, .path = BUF_INIT(PATH_LIMIT)};
	int rc = diff(&m, before, after, err);

	buf_done(&m.path);
	if (rc < 0)
		return -1;
	*ret_ops = m.ops;
	return 0;
}
