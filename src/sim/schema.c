/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structural schemas, as far as our CRD uses them (Kubernetes: Extend the API with
 * CustomResourceDefinitions, "Field pruning" and "Defaulting").
 */
#include "sim/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "core/yaml.h"
#include "job/model.h"
#include "kube/object.h"

struct sim_schema {
	struct yaml *yaml;
	const struct json *crd, *version, *schema;
	bool has_rules;
};

static bool holds_rules(const struct json *v)
{
	struct json_iter it = json_iter(v);

	while (json_next(&it)) {
		if (str_eqz(it.key, "x-kubernetes-validations") || holds_rules(it.value))
			return true;
	}
	return false;
}

int sim_schema_load(const char *crd_path, struct sim_schema **ret, struct err *err)
{
	struct sim_schema *s = xcalloc(1, sizeof(*s));

	if (yaml_load(crd_path, &s->yaml, err) < 0) {
		free(s);
		return -1;
	}
	s->crd = yaml_doc(s->yaml, 0);
	s->version = json_item(json_at(s->crd, "spec", "versions", NULL), 0);
	s->schema = json_at(s->version, "schema", "openAPIV3Schema", NULL);
	if (!s->schema) {
		sim_schema_free(s);
		return err_set(err, ERR_INVALID, 0,
			       "%s: not a CustomResourceDefinition with a schema", crd_path);
	}
	s->has_rules = holds_rules(s->schema);
	*ret = s;
	return 0;
}

void sim_schema_free(struct sim_schema *s)
{
	if (!s)
		return;
	yaml_free(s->yaml);
	free(s);
}

const struct json *sim_schema_columns(const struct sim_schema *s)
{
	return json_get(s->version, "additionalPrinterColumns");
}

/* ---- pruning ---- */

struct prune {
	sim_unknown_fn *unknown;
	void *arg;
};

static void prune(const struct prune *p, const struct json *schema, struct jmut *v,
		  const char *path);

static void prune_object(const struct prune *p, const struct json *schema, struct jmut *v,
			 const char *path)
{
	const struct json *properties = json_get(schema, "properties");
	bool keeps = json_bool(json_get(schema, "x-kubernetes-preserve-unknown-fields"), false) ||
		     json_get(schema, "additionalProperties");
	struct json_iter it = json_iter(jmut_view(v));
	char **keys = xcalloc(json_len(jmut_view(v)) + 1, sizeof(*keys));
	size_t n = 0;

	while (json_next(&it))
		keys[n++] = str_dup(it.key);
	for (size_t i = 0; i < n; i++) {
		const struct json *inner = json_get(properties, keys[i]);
		CLEANUP_FREE char *at = xasprintf("%s%s%s", path, path[0] ? "." : "", keys[i]);

		if (inner) {
			prune(p, inner, jmut_get(v, keys[i]), at);
		} else if (!keeps) {
			p->unknown(p->arg, at);
			jmut_del(v, keys[i]);
		}
		free(keys[i]);
	}
	free(keys);
}

static void prune(const struct prune *p, const struct json *schema, struct jmut *v,
		  const char *path)
{
	const struct json *items = json_get(schema, "items");
	enum json_type type = json_type(jmut_view(v));

	if (type == JSON_OBJECT)
		prune_object(p, schema, v, path);
	for (size_t i = 0; type == JSON_ARRAY && items && i < jmut_len(v); i++) {
		CLEANUP_FREE char *at = xasprintf("%s[%zu]", path, i);

		prune(p, items, jmut_item(v, i), at);
	}
}

/* Whether the schema names it or not. */
static bool every_object_has(const char *key)
{
	return strcmp(key, "apiVersion") == 0 || strcmp(key, "kind") == 0 ||
	       strcmp(key, "metadata") == 0;
}

void sim_schema_prune(const struct sim_schema *s, struct jmut *root, sim_unknown_fn *unknown,
		      void *arg)
{
	const struct prune p = {unknown, arg};
	struct json_iter it = json_iter(json_get(s->schema, "properties"));

	while (json_next(&it)) {
		CLEANUP_FREE char *key = str_dup(it.key);

		if (!every_object_has(key) && jmut_get(root, key))
			prune(&p, it.value, jmut_get(root, key), key);
	}
	for (struct json_iter top = json_iter(jmut_view(root)); json_next(&top);) {
		CLEANUP_FREE char *key = str_dup(top.key);

		if (every_object_has(key) || json_get(json_get(s->schema, "properties"), key))
			continue;
		unknown(arg, key);
		jmut_del(root, key);
		top = json_iter(jmut_view(root)); /* it changed under the iterator */
	}
}

/* ---- defaulting ---- */

static void apply_defaults(struct jmut_doc *doc, const struct json *schema, struct jmut *v)
{
	const struct json *items = json_get(schema, "items");
	struct json_iter it = json_iter(json_get(schema, "properties"));

	if (json_type(jmut_view(v)) == JSON_ARRAY) {
		for (size_t i = 0; items && i < jmut_len(v); i++)
			apply_defaults(doc, items, jmut_item(v, i));
		return;
	}
	if (json_type(jmut_view(v)) != JSON_OBJECT)
		return;
	while (json_next(&it)) {
		CLEANUP_FREE char *key = str_dup(it.key);
		const struct json *value = json_get(it.value, "default");

		if (!jmut_get(v, key) && value)
			jmut_set(doc, v, key, jmut_copy(doc, value));
		if (jmut_get(v, key))
			apply_defaults(doc, it.value, jmut_get(v, key));
	}
}

void sim_schema_default(const struct sim_schema *s, struct jmut_doc *doc, struct jmut *root)
{
	apply_defaults(doc, s->schema, root);
}

/* ---- the rules ---- */

struct causes {
	struct jmut_doc *doc;
	struct jmut *list;
	struct buf words;
	size_t n;
};

static void add_cause(void *arg, const char *path, const char *kind, const char *message)
{
	static const char *const reasons[][3] = {
		{"Required", "FieldValueRequired", "Required value"},
		{"Forbidden", "FieldValueForbidden", "Forbidden"},
		{"Invalid", "FieldValueInvalid", "Invalid value"},
		{"Unsupported", "FieldValueNotSupported", "Unsupported value"},
		{"Too long", "FieldValueTooLong", "Too long"},
	};
	struct causes *c = arg;
	struct jmut *cause = jmut_object(c->doc);
	const char *reason = "FieldValueInvalid", *word = "Invalid value";

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (strcmp(kind, reasons[i][0]) == 0) {
			reason = reasons[i][1];
			word = reasons[i][2];
		}
	}
	jmut_set_str(c->doc, cause, "reason", reason);
	jmut_set(c->doc, cause, "message", jmut_strf(c->doc, "%s: %s", word, message));
	jmut_set_str(c->doc, cause, "field", path);
	jmut_push(c->doc, c->list, cause);
	if (buf_printf(&c->words, NULL, "%s%s: %s: %s", c->n ? ", " : "", path, word, message) == 0)
		c->n++;
}

int sim_schema_check(const struct sim_schema *s, const struct json *before,
		     const struct json *object, struct jmut_doc *doc, struct jmut **ret_causes,
		     struct err *err)
{
	struct causes c = {.doc = doc, .list = jmut_array(doc), .words = BUF_INIT(65536)};
	struct str name = kube_name(object);

	/* A CRD without rules takes anything: what the operator's own check is for. */
	if (s->has_rules)
		job_validate(object, add_cause, &c);
	if (s->has_rules && before)
		job_validate_update(before, object, add_cause, &c);
	if (c.n == 0) {
		buf_done(&c.words);
		return 0;
	}
	*ret_causes = c.list;
	err_set(err, ERR_INVALID, 422, "IPUJob.graphcore.ai \"%.*s\" is invalid: %s%.*s%s",
		STR_ARG(name), c.n > 1 ? "[" : "", STR_ARG(buf_str(&c.words)), c.n > 1 ? "]" : "");
	buf_done(&c.words);
	return -1;
}
