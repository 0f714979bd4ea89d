/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two places are moved along one path: one in the Pod, one in the IPUJob. Where the second can't
 * follow, or ends at something else than the first, the operator wrote what is there.
 */
#include "access_path.h"

#include <stdlib.h>

#include "core/buf.h"
#include "core/str.h"

#define MAX_PATH ((size_t)4096)
#define TEMPLATE "spec.workers.template"
/* The launcher's one container is made of the template's first, and of spec.launcher. */
#define MAIN TEMPLATE ".spec.containers[0]"

struct walk {
	const struct json *at;   /* in the Pod; NULL: not there */
	const struct json *from; /* in the IPUJob; NULL: not there */
	const struct json *spec;
	struct buf path; /* of from */
	bool launcher;   /* the Pod is a launcher's */
	bool ours;       /* no place in the IPUJob stands for it */
};

static const struct json *given(const struct json *v)
{
	return json_type(v) == JSON_NULL ? NULL : v;
}

/* ---- elements of lists ---- */

/* What Kubernetes merges such elements by; mounts may share a volume's name. */
static const char *identity_of(const struct json *element)
{
	static const char *const keys[] = {"mountPath", "devicePath", "name", "containerPort"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (json_get(element, keys[i]))
			return keys[i];
	}
	return NULL;
}

static bool is_same(const struct json *a, const struct json *b, const char *identity)
{
	return identity ? json_equal(json_get(a, identity), json_get(b, identity))
			: json_equal(a, b);
}

/* How many before this one are the same: two of one name are told apart by their order. */
static size_t rank_of(const struct json *list, size_t index, const char *identity)
{
	const struct json *element = json_item(list, index);
	struct json_iter it = json_iter(list);
	size_t rank = 0;

	while (json_next(&it) && it.index < index)
		rank += is_same(it.value, element, identity);
	return rank;
}

/* The element of `list` that `element` was made from; the rank-th of them. -1: none. */
static int64_t find(const struct json *list, const struct json *element, const char *identity,
		    size_t rank)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		if (is_same(it.value, element, identity) && rank-- == 0)
			return (int64_t)it.index;
	}
	return -1;
}

static void go_to(struct walk *w, const struct json *list, int64_t index)
{
	w->from = json_item(list, (size_t)index);
	if (buf_printf(&w->path, NULL, "[%lld]", (long long)index) < 0)
		w->ours = true;
}

static void restart_at(struct walk *w, const char *path)
{
	buf_clear(&w->path);
	if (buf_append_str(&w->path, str_of(path), NULL) < 0)
		w->ours = true;
}

static void enter_element(struct walk *w, size_t index)
{
	const struct json *list = w->at, *element = json_item(list, index);
	const struct json *own_env = json_at(w->spec, "launcher", "env", NULL);
	const char *identity = identity_of(element);
	size_t rank = rank_of(list, index, identity);
	int64_t found = find(w->from, element, identity, rank);
	bool is_env = w->launcher && str_eqz(buf_str(&w->path), MAIN ".env");

	w->at = element;
	if (is_env && find(own_env, element, identity, rank) >= 0) {
		restart_at(w, "spec.launcher.env");
		go_to(w, own_env, find(own_env, element, identity, rank));
	} else if (found >= 0) {
		go_to(w, w->from, found);
	} else {
		w->ours = true;
	}
}

/* ---- members ---- */

static void enter_member(struct walk *w, struct str key, bool bracketed)
{
	w->at = given(json_getn(w->at, key));
	if (w->launcher && str_eqz(key, "command") && str_eqz(buf_str(&w->path), MAIN) &&
	    given(json_get(w->spec, "launcher"))) {
		w->from = given(json_at(w->spec, "launcher", "command", NULL));
		restart_at(w, "spec.launcher.command");
		return;
	}
	w->from = given(json_getn(w->from, key));
	if (buf_printf(&w->path, NULL, bracketed ? "[%.*s]" : ".%.*s", STR_ARG(key)) < 0)
		w->ours = true;
}

/* ---- the path ---- */

/* Takes one part off the front: "name", ".name" or "[name or number]". */
static bool next_part(struct str *rest, struct str *ret_part, bool *ret_bracketed)
{
	size_t end = 0;

	if (rest->len && rest->p[0] == '.')
		*rest = (struct str){rest->p + 1, rest->len - 1};
	if (!rest->len)
		return false;
	*ret_bracketed = rest->p[0] == '[';
	if (*ret_bracketed) {
		str_cut((struct str){rest->p + 1, rest->len - 1}, ']', ret_part, rest);
		return true;
	}
	while (end < rest->len && rest->p[end] != '.' && rest->p[end] != '[')
		end++;
	*ret_part = (struct str){rest->p, end};
	*rest = (struct str){rest->p + end, rest->len - end};
	return true;
}

/* At the end: both have it, and alike; or neither has it, and the user could. */
static bool is_the_users(const struct walk *w)
{
	enum json_type type = json_type(w->at);

	if (w->ours || !w->at != !w->from)
		return false;
	if (!w->at || type == JSON_OBJECT ||
	    (type == JSON_ARRAY && json_type(json_item(w->at, 0)) == JSON_OBJECT))
		return true;
	return json_equal(w->at, w->from);
}

char *access_path_map(const struct json *pod, const struct json *spec, bool launcher,
		      const char *path)
{
	struct walk w = {
		.at = pod,
		.from = json_at(spec, "workers", "template", NULL),
		.spec = spec,
		.path = BUF_INIT(MAX_PATH),
		.launcher = launcher,
	};
	struct str rest = str_of(path), part;
	char *mapped = NULL;
	bool bracketed;
	size_t len;

	restart_at(&w, TEMPLATE);
	while (!w.ours && next_part(&rest, &part, &bracketed)) {
		int64_t index;

		if (bracketed && json_type(w.at) == JSON_ARRAY &&
		    str_to_int(part, 0, INT32_MAX, &index, NULL) == 0)
			enter_element(&w, (size_t)index);
		else
			enter_member(&w, part, bracketed);
		/* The operator took it away. */
		w.ours = w.ours || (!w.at && w.from);
	}
	if (is_the_users(&w))
		mapped = buf_steal(&w.path, &len);
	buf_done(&w.path);
	return mapped;
}
