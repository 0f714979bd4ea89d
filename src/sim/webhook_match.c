/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which writes a webhook wants to see: rules, selectors of namespaces and objects, conditions.
 */
#include <string.h>

#include "core/str.h"
#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/condition.h"
#include "sim/webhook.h"

static bool has_text(const struct json *list, struct str wanted)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		if (str_eqz(json_str(it.value), "*") || str_eq(json_str(it.value), wanted))
			return true;
	}
	return false;
}

/* "pods", "pods/status", "pods/" and an asterisk, one on both sides; "*" alone has no subresources.
 */
static bool has_resource(const struct json *list, const char *plural, const char *subresource)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		struct str name, sub;

		str_cut(json_str(it.value), '/', &name, &sub);
		if ((str_eqz(name, "*") || str_eqz(name, plural)) &&
		    (str_eqz(sub, subresource) || str_eqz(sub, "*")))
			return true;
	}
	return false;
}

static bool in_scope(struct str scope, bool namespaced)
{
	return str_eqz(scope, "*") || str_eqz(scope, namespaced ? "Namespaced" : "Cluster");
}

bool sim_webhook_has_rule(const struct json *webhook, const struct sim_admission *a)
{
	const struct sim_resource *r = a->req->resource;
	struct json_iter it = json_iter(json_get(webhook, "rules"));

	while (json_next(&it)) {
		const struct json *rule = it.value;

		if (has_text(json_get(rule, "apiGroups"), str_of(r->group)) &&
		    has_text(json_get(rule, "apiVersions"), str_of(r->version)) &&
		    has_text(json_get(rule, "operations"), str_of(a->operation)) &&
		    has_resource(json_get(rule, "resources"), r->plural, a->req->subresource) &&
		    in_scope(json_str(json_get(rule, "scope")), r->namespaced))
			return true;
	}
	return false;
}

/* ---- selectors ---- */

static bool meets(const struct json *expression, const struct json *labels)
{
	const struct json *v = json_getn(labels, json_str(json_get(expression, "key")));
	struct str op = json_str(json_get(expression, "operator"));
	bool listed = false;
	struct json_iter it = json_iter(json_get(expression, "values"));

	while (json_next(&it))
		listed = listed || (v && json_equal(it.value, v));
	if (str_eqz(op, "In"))
		return listed;
	if (str_eqz(op, "NotIn"))
		return !listed;
	return str_eqz(op, "Exists") ? v != NULL : v == NULL;
}

static bool selects(const struct json *selector, const struct json *labels)
{
	struct json_iter it = json_iter(json_get(selector, "matchLabels"));

	while (json_next(&it)) {
		if (!json_getn(labels, it.key) || !json_equal(json_getn(labels, it.key), it.value))
			return false;
	}
	it = json_iter(json_get(selector, "matchExpressions"));
	while (json_next(&it)) {
		if (!meets(it.value, labels))
			return false;
	}
	return true;
}

static const struct json *labels_of(const struct json *object)
{
	return json_at(object, "metadata", "labels", NULL);
}

/* What is in no namespace is selected; a Namespace goes by its own labels. */
static bool selects_namespace(const struct json *selector, const struct sim_admission *a)
{
	const struct sim_resource *r = a->req->resource;
	const struct sim_object *ns;

	if (strcmp(r->kind, "Namespace") == 0)
		return selects(selector, labels_of(*a->root ? jmut_view(*a->root) : a->old));
	if (!r->namespaced)
		return true;
	ns = sim_objects_get(a->req->api->objects, sim_resource_find(STR_NULL, STR("namespaces")),
			     STR_NULL, str_of(a->req->ns));
	return selects(selector, labels_of(ns ? sim_object_json(ns) : NULL));
}

static bool selects_object(const struct json *selector, const struct sim_admission *a)
{
	return (*a->root && selects(selector, labels_of(jmut_view(*a->root)))) ||
	       (a->old && selects(selector, labels_of(a->old)));
}

/* ---- conditions ---- */

static enum sim_match meets_conditions(const struct json *webhook, const struct sim_admission *a,
				       const struct json *request, struct err *err)
{
	struct json_iter it = json_iter(json_get(webhook, "matchConditions"));
	struct sim_condition_vars vars = {*a->root ? jmut_view(*a->root) : NULL, a->old, request};
	bool unknown = false;

	while (json_next(&it)) {
		struct err why = ERR_INIT;
		int holds = sim_condition_holds(json_cstr(json_get(it.value, "expression")), &vars,
						&why);

		if (holds == 0)
			return SIM_NO_MATCH; /* also where another one couldn't be told */
		if (holds < 0 && !unknown)
			err_set(err, ERR_INVALID, 403, "expression '%s' resulted in error: %s",
				json_cstr(json_get(it.value, "expression")), why.msg);
		unknown = unknown || holds < 0;
	}
	if (!unknown)
		return SIM_MATCH;
	return str_eqz(json_str(json_get(webhook, "failurePolicy")), "Ignore") ? SIM_NO_MATCH
									       : SIM_MATCH_UNKNOWN;
}

enum sim_match sim_webhook_matches(const struct json *webhook, const struct sim_admission *a,
				   const struct json *request, struct err *err)
{
	if (!selects_namespace(json_get(webhook, "namespaceSelector"), a) ||
	    !selects_object(json_get(webhook, "objectSelector"), a))
		return SIM_NO_MATCH;
	return meets_conditions(webhook, a, request, err);
}
