/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads env, envFrom, command and args of a container (Kubernetes: Define Environment Variables,
 * Dependent Environment Variables).
 */
#include "sim/pod_env.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "kube/object.h"
#include "sim/api.h"
#include "sim/pod_files.h"

#define VALUE_LIMIT ((size_t)2 << 20)

/* ---- a list of variables ---- */

static size_t place_of(const struct pod_env *e, struct str name)
{
	for (size_t i = 0; i < e->n; i++)
		if (strncmp(e->items[i], name.p, name.len) == 0 && e->items[i][name.len] == '=')
			return i;
	return e->n;
}

void pod_env_set(struct pod_env *e, struct str name, struct str value)
{
	size_t at = place_of(e, name);

	if (at == e->n) {
		e->items = xrealloc(e->items, (e->n + 2) * sizeof(*e->items));
		e->items[++e->n] = NULL;
	} else {
		free(e->items[at]);
	}
	e->items[at] = xasprintf("%.*s=%.*s", STR_ARG(name), STR_ARG(value));
}

static struct str pod_env_get(const struct pod_env *e, struct str name)
{
	size_t at = place_of(e, name);

	return at == e->n ? STR_NULL : str_of(e->items[at] + name.len + 1);
}

void pod_env_done(struct pod_env *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->items[i]);
	free(e->items);
	*e = (struct pod_env){0};
}

/* "$(NAME)" where it's known, and "$$" for "$". */
static char *expand(const struct pod_env *e, struct str text)
{
	struct buf out = BUF_INIT(VALUE_LIMIT);

	for (size_t i = 0; i < text.len; i++) {
		struct str rest = {text.p + i, text.len - i}, name, behind;
		if (str_has_prefix(rest, STR("$$"))) {
			i++;
		} else if (str_has_prefix(rest, STR("$("))) {
			rest.p += 2;
			rest.len -= 2;
			if (str_cut(rest, ')', &name, &behind) && pod_env_get(e, name).p) {
				buf_append_str(&out, pod_env_get(e, name), NULL);
				i = (size_t)(behind.p - text.p) - 1;
				continue;
			}
		}
		buf_append(&out, text.p + i, 1, NULL);
	}
	return buf_steal(&out, NULL);
}

/* ---- where values come from ---- */

struct reader {
	struct pod_env *e;
	const struct sim_objects *objects;
	const struct json *pod;
	const struct path_map *map;
};

static void set_mapped(const struct reader *r, struct str name, struct str value)
{
	CLEANUP_FREE char *z = path_map_apply(r->map, value);

	pod_env_set(r->e, name, str_of(z));
}

/* NULL: there's none, and err says so unless it's optional. */
static const struct json *find_data(const struct reader *r, const struct json *ref, bool secret,
				    struct err *err)
{
	struct str name = json_str(json_get(ref, "name"));
	struct sim_object *o = sim_objects_get(
		r->objects,
		sim_resource_find(STR_NULL, secret ? STR("secrets") : STR("configmaps")),
		kube_namespace(r->pod), name);

	if (!o && !json_bool(json_get(ref, "optional"), false))
		err_set(err, ERR_NOT_FOUND, 0, "%s \"%.*s\" not found",
			secret ? "secret" : "configmap", STR_ARG(name));
	return o ? json_get(sim_object_json(o), "data") : NULL;
}

/* A value as text, the caller's to free; a Secret's is Base64. */
static char *text_of(const struct json *v, bool secret)
{
	uint8_t *bytes;
	size_t len;

	if (!secret)
		return str_dup(json_str(v));
	return base64_decode(json_str(v), &bytes, &len, NULL) == 0 ? (char *)bytes : xstrdup("");
}

static int read_key(const struct reader *r, struct str name, const struct json *ref, bool secret,
		    struct err *err)
{
	struct err why = ERR_INIT;
	const struct json *data = find_data(r, ref, secret, &why);
	struct str key = json_str(json_get(ref, "key"));
	const struct json *v = json_getn(data, key);

	if (why.kind)
		return err_copy(err, &why);
	if (v) {
		CLEANUP_FREE char *z = text_of(v, secret);
		set_mapped(r, name, str_of(z));
		return 0;
	}
	if (json_bool(json_get(ref, "optional"), false))
		return 0;
	return err_set(err, ERR_NOT_FOUND, 0, "couldn't find key %.*s in %s %.*s/%.*s",
		       STR_ARG(key), secret ? "Secret" : "ConfigMap",
		       STR_ARG(kube_namespace(r->pod)), STR_ARG(json_str(json_get(ref, "name"))));
}

static int read_field(const struct reader *r, struct str name, const struct json *ref,
		      struct err *err)
{
	struct str path = json_str(json_get(ref, "fieldPath"));
	CLEANUP_FREE char *z = pod_field(r->pod, path);

	if (!z)
		return err_set(err, ERR_UNSUPPORTED, 0, "unsupported fieldPath: %.*s",
			       STR_ARG(path));
	pod_env_set(r->e, name, str_of(z));
	return 0;
}

static int read_one(const struct reader *r, const struct json *var, struct err *err)
{
	const struct json *from = json_get(var, "valueFrom");
	struct str name = json_str(json_get(var, "name"));

	if (json_get(from, "configMapKeyRef"))
		return read_key(r, name, json_get(from, "configMapKeyRef"), false, err);
	if (json_get(from, "secretKeyRef"))
		return read_key(r, name, json_get(from, "secretKeyRef"), true, err);
	if (json_get(from, "fieldRef"))
		return read_field(r, name, json_get(from, "fieldRef"), err);
	if (json_type(from) == JSON_OBJECT)
		return err_set(err, ERR_UNSUPPORTED, 0, "ipu-sim has no such source for %.*s",
			       STR_ARG(name));
	CLEANUP_FREE char *z = expand(r->e, json_str(json_get(var, "value")));
	set_mapped(r, name, str_of(z));
	return 0;
}

static int read_all_of(const struct reader *r, const struct json *from, struct err *err)
{
	bool secret = json_get(from, "secretRef") != NULL;
	const struct json *ref = json_get(from, secret ? "secretRef" : "configMapRef");
	struct str prefix = json_str(json_get(from, "prefix"));
	struct err why = ERR_INIT;
	struct json_iter it = json_iter(find_data(r, ref, secret, &why));

	while (json_next(&it)) {
		CLEANUP_FREE char *name = xasprintf("%.*s%.*s", STR_ARG(prefix), STR_ARG(it.key));
		CLEANUP_FREE char *z = text_of(it.value, secret);
		set_mapped(r, str_of(name), str_of(z));
	}
	return why.kind ? err_copy(err, &why) : 0;
}

int pod_env_read(struct pod_env *e, const struct sim_objects *objects, const struct json *pod,
		 const struct json *container, const struct path_map *map, struct err *err)
{
	const struct reader r = {e, objects, pod, map};
	struct json_iter it = json_iter(json_get(container, "envFrom"));

	while (json_next(&it))
		if (read_all_of(&r, it.value, err) < 0)
			return -1;
	it = json_iter(json_get(container, "env"));
	while (json_next(&it))
		if (read_one(&r, it.value, err) < 0)
			return -1;
	return 0;
}

/* ---- command lines ---- */

char **pod_words(const struct pod_env *e, const struct json *command, const struct json *args,
		 const struct path_map *programs, const struct path_map *map)
{
	char **words = xcalloc(json_len(command) + json_len(args) + 1, sizeof(*words));
	size_t n = 0;

	for (int i = 0; i < 2; i++) {
		struct json_iter it = json_iter(i ? args : command);
		while (json_next(&it)) {
			CLEANUP_FREE char *z = e ? expand(e, json_str(it.value))
						 : str_dup(json_str(it.value));
			const char *program = n == 0 ? path_map_find(programs, z) : NULL;
			words[n++] = program ? xstrdup(program) : path_map_apply(map, str_of(z));
		}
	}
	return words;
}

void pod_words_free(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}
