/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webhook configurations when they are written: the API server's defaults, and what it refuses (in
 * its words). Nothing is kept here.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "sim/condition.h"
#include "sim/webhook.h"

#define LONGEST_S 30
#define DEFAULT_S 10

bool sim_is_webhook_config(const struct sim_resource *r)
{
	return strcmp(r->kind, "MutatingWebhookConfiguration") == 0 ||
	       strcmp(r->kind, "ValidatingWebhookConfiguration") == 0;
}

/* ---- defaults ---- */

static void default_str(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z)
{
	if (!jmut_get(obj, key))
		jmut_set_str(doc, obj, key, z);
}

static void default_one(struct jmut_doc *doc, struct jmut *webhook, bool mutating)
{
	struct jmut *service = jmut_get(jmut_get(webhook, "clientConfig"), "service");
	struct jmut *rules = jmut_get(webhook, "rules");

	default_str(doc, webhook, "failurePolicy", "Fail");
	default_str(doc, webhook, "matchPolicy", "Equivalent");
	jmut_need_object(doc, webhook, "namespaceSelector");
	jmut_need_object(doc, webhook, "objectSelector");
	if (!jmut_get(webhook, "timeoutSeconds"))
		jmut_set_int(doc, webhook, "timeoutSeconds", DEFAULT_S);
	if (mutating)
		default_str(doc, webhook, "reinvocationPolicy", "Never");
	if (service && !jmut_get(service, "port"))
		jmut_set_int(doc, service, "port", 443);
	for (size_t i = 0; i < jmut_len(rules); i++)
		default_str(doc, jmut_item(rules, i), "scope", "*");
}

/* ---- checks ---- */

/* Where a complaint belongs: "webhooks[0]" and what is below. */
struct place {
	char *field; /* SIM_FIELD_PATH bytes */
	size_t index;
};

static int wrong(const struct place *p, const char *path, struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int wrong(const struct place *p, const char *path, struct err *err, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(p->field, SIM_FIELD_PATH, "webhooks[%zu]%s%s", p->index, path[0] ? "." : "", path);
	return err_set(err, ERR_INVALID, 422, "%s", text);
}

static int check_one_of(const struct place *p, const struct json *webhook, const char *key,
			const char *const *allowed, struct err *err)
{
	struct str value = json_str(json_get(webhook, key));

	if (!value.len)
		return wrong(p, key, err, "Required value: must be one of %s, %s", allowed[0],
			     allowed[1]);
	for (size_t i = 0; allowed[i]; i++) {
		if (str_eqz(value, allowed[i]))
			return 0;
	}
	return wrong(p, key, err, "Unsupported value: \"%.*s\": supported values: \"%s\", \"%s\"",
		     STR_ARG(value), allowed[0], allowed[1]);
}

static int check_client(const struct place *p, const struct json *webhook, struct err *err)
{
	const struct json *c = json_get(webhook, "clientConfig"), *service = json_get(c, "service");
	struct str url = json_str(json_get(c, "url")), bundle = json_str(json_get(c, "caBundle"));
	CLEANUP_FREE uint8_t *pem = NULL;
	size_t len;

	if (!url.len == !service)
		return wrong(p, "clientConfig", err,
			     "Required value: exactly one of url or service is required");
	if (url.len && (!str_has_prefix(url, STR("https://")) || memchr(url.p, '?', url.len) ||
			memchr(url.p, '#', url.len) || memchr(url.p, '@', url.len)))
		return wrong(p, "clientConfig.url", err,
			     "Invalid value: \"%.*s\": 'https' is the only allowed URL scheme, and "
			     "user information, query and fragment are not permitted",
			     STR_ARG(url));
	if (service && (!json_str(json_get(service, "name")).len ||
			!json_str(json_get(service, "namespace")).len))
		return wrong(p, "clientConfig.service", err,
			     "Required value: service name and namespace are required");
	if (bundle.len && base64_decode(bundle, &pem, &len, NULL) < 0)
		return wrong(p, "clientConfig.caBundle", err, "Invalid value: no base64");
	return 0;
}

static bool has_texts(const struct json *list)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		if (!json_str(it.value).len)
			return false;
	}
	return it.index > 0 || json_len(list) > 0;
}

static int check_rules(const struct place *p, const struct json *webhook, struct err *err)
{
	static const char *const lists[] = {"operations", "apiVersions", "resources"};
	struct json_iter it = json_iter(json_get(webhook, "rules"));
	char path[64];

	while (json_next(&it)) {
		struct str scope = json_str(json_get(it.value, "scope"));

		for (size_t i = 0; i < 3; i++) {
			snprintf(path, sizeof(path), "rules[%zu].%s", it.index, lists[i]);
			if (!has_texts(json_get(it.value, lists[i])))
				return wrong(p, path, err, "Required value");
		}
		snprintf(path, sizeof(path), "rules[%zu].apiGroups", it.index);
		if (json_len(json_get(it.value, "apiGroups")) == 0)
			return wrong(p, path, err, "Required value");
		snprintf(path, sizeof(path), "rules[%zu].scope", it.index);
		if (!str_eqz(scope, "*") && !str_eqz(scope, "Namespaced") &&
		    !str_eqz(scope, "Cluster"))
			return wrong(p, path, err,
				     "Unsupported value: \"%.*s\": supported values: \"*\", "
				     "\"Cluster\", \"Namespaced\"",
				     STR_ARG(scope));
	}
	return 0;
}

static int check_versions(const struct place *p, const struct json *webhook, struct err *err)
{
	struct json_iter it = json_iter(json_get(webhook, "admissionReviewVersions"));

	if (!has_texts(it.container))
		return wrong(p, "admissionReviewVersions", err,
			     "Required value: must specify one of v1, v1beta1");
	while (json_next(&it)) {
		if (str_eqz(json_str(it.value), "v1") || str_eqz(json_str(it.value), "v1beta1"))
			return 0;
	}
	return wrong(p, "admissionReviewVersions", err,
		     "Invalid value: must include at least one of v1, v1beta1");
}

static int check_conditions(const struct place *p, const struct json *webhook, struct err *err)
{
	struct json_iter it = json_iter(json_get(webhook, "matchConditions"));
	char path[64];

	while (json_next(&it)) {
		const char *text = json_cstr(json_get(it.value, "expression"));
		struct err why;

		snprintf(path, sizeof(path), "matchConditions[%zu].name", it.index);
		if (!json_str(json_get(it.value, "name")).len)
			return wrong(p, path, err, "Required value");
		snprintf(path, sizeof(path), "matchConditions[%zu].expression", it.index);
		if (!text || !text[0])
			return wrong(p, path, err, "Required value");
		if (sim_condition_check(text, &why) < 0)
			return wrong(p, path, err, "Invalid value: %s", why.msg);
	}
	return 0;
}

/* A name as the API wants it: at least three labels of DNS. */
static int check_name(const struct place *p, const struct json *webhooks, struct str name,
		      struct err *err)
{
	struct str head, rest = name;
	size_t labels = 0;

	while (rest.len) {
		str_cut(rest, '.', &head, &rest);
		labels++;
	}
	if (!name.len)
		return wrong(p, "name", err, "Required value");
	if (labels < 3)
		return wrong(p, "name", err,
			     "Invalid value: \"%.*s\": should be a domain with at least three "
			     "segments separated by dots",
			     STR_ARG(name));
	for (size_t i = 0; i < p->index; i++) {
		if (str_eq(json_str(json_get(json_item(webhooks, i), "name")), name))
			return wrong(p, "name", err, "Duplicate value: \"%.*s\"", STR_ARG(name));
	}
	return 0;
}

static int check_one(const struct place *p, const struct json *webhooks, bool mutating,
		     struct err *err)
{
	static const char *const side_effects[] = {"None", "NoneOnDryRun", NULL};
	static const char *const policies[] = {"Fail", "Ignore", NULL};
	static const char *const matching[] = {"Equivalent", "Exact", NULL};
	static const char *const again[] = {"Never", "IfNeeded", NULL};
	const struct json *w = json_item(webhooks, p->index);
	int64_t timeout_s = json_int(json_get(w, "timeoutSeconds"), 0);

	if (json_type(w) != JSON_OBJECT)
		return wrong(p, "", err, "Invalid value: must be an object");
	if (timeout_s < 1 || timeout_s > LONGEST_S)
		return wrong(p, "timeoutSeconds", err,
			     "Invalid value: the timeout value must be between 1 and 30 seconds");
	if (mutating && check_one_of(p, w, "reinvocationPolicy", again, err) < 0)
		return -1;
	return check_name(p, webhooks, json_str(json_get(w, "name")), err) < 0 ||
			       check_client(p, w, err) < 0 || check_rules(p, w, err) < 0 ||
			       check_versions(p, w, err) < 0 || check_conditions(p, w, err) < 0 ||
			       check_one_of(p, w, "sideEffects", side_effects, err) < 0 ||
			       check_one_of(p, w, "failurePolicy", policies, err) < 0 ||
			       check_one_of(p, w, "matchPolicy", matching, err) < 0
		       ? -1
		       : 0;
}

int sim_webhook_config_check(const struct sim_resource *r, struct jmut_doc *doc, struct jmut *root,
			     char field[SIM_FIELD_PATH], struct err *err)
{
	bool mutating = r->kind[0] == 'M';
	struct jmut *list = jmut_get(root, "webhooks");
	struct place p = {.field = field};

	for (p.index = 0; p.index < jmut_len(list); p.index++) {
		default_one(doc, jmut_item(list, p.index), mutating);
		if (check_one(&p, jmut_view(list), mutating, err) < 0)
			return -1;
	}
	return 0;
}
