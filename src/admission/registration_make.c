/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the webhook configurations should say, and by which patch they do. Pure. Uses core, kube's
 * accessors and net's PEM.
 */
#include <stdlib.h>
#include <string.h>

#include "admission/registration.h"
#include "kube/object.h"
#include "net/tls.h"

#define OURS ".graphcore.ai"

struct entry {
	const char *name, *path;
	const char *group, *version, *resource;
	bool updates; /* not only what is created */
	const char *condition_name, *condition;
};

static const struct entry mutating[] = {
	{ADMISSION_WEBHOOK_MUTATE_JOB, ADMISSION_PATH_MUTATE_JOB, "graphcore.ai", "v1alpha1",
	 "ipujobs", true, ADMISSION_CONDITION_JOB_NAME, ADMISSION_CONDITION_JOB},
	{ADMISSION_WEBHOOK_MUTATE_POD, ADMISSION_PATH_MUTATE_POD, "", "v1", "pods", false,
	 ADMISSION_CONDITION_POD_NAME, ADMISSION_CONDITION_POD},
};

static const struct entry validating[] = {
	{ADMISSION_WEBHOOK_VALIDATE_JOB, ADMISSION_PATH_VALIDATE_JOB, "graphcore.ai", "v1alpha1",
	 "ipujobs", true, ADMISSION_CONDITION_JOB_NAME, ADMISSION_CONDITION_JOB},
};

static const struct {
	const struct kube_resource *resource;
	const struct entry *entries;
	size_t n;
} kinds[] = {
	[ADMISSION_MUTATING] = {&KUBE_MUTATINGWEBHOOKS, mutating, 2},
	[ADMISSION_VALIDATING] = {&KUBE_VALIDATINGWEBHOOKS, validating, 1},
};

static bool given(const char *z)
{
	return z && z[0];
}

/* ---- bundles ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Lines may be of any length. */
static bool same_certificate(struct str a, struct str b)
{
	for (size_t i = 0, k = 0;; i++, k++) {
		while (i < a.len && is_space(a.p[i]))
			i++;
		while (k < b.len && is_space(b.p[k]))
			k++;
		if (i == a.len || k == b.len)
			return i == a.len && k == b.len;
		if (a.p[i] != b.p[k])
			return false;
	}
}

static bool holds(struct str pem, struct str certificate)
{
	struct str one;

	while (tls_pem_next(&pem, &one)) {
		if (same_certificate(one, certificate))
			return true;
	}
	return false;
}

static enum admission_match compare_bundle(struct str there, struct str ca_pem)
{
	struct str look = there, rest = ca_pem, one;
	bool some = false, has_first = false;

	if (!tls_pem_next(&look, &one))
		return ADMISSION_MATCH_EMPTY;
	for (size_t i = 0; tls_pem_next(&rest, &one); i++) {
		bool is_there = holds(there, one);

		some |= is_there;
		has_first |= is_there && i == 0;
	}
	return has_first ? ADMISSION_MATCH_LATER
	       : some    ? ADMISSION_MATCH_NOW
			 : ADMISSION_MATCH_UNTRUSTED;
}

/* encoded: ca_pem as it stands in an object. */
static int compare_entry(const struct json *entry, struct str ca_pem, const char *encoded,
			 enum admission_match *ret_match, struct err *err)
{
	struct str there = json_str(json_at(entry, "clientConfig", "caBundle", NULL));
	struct err why = ERR_INIT;
	uint8_t *pem;
	size_t len;

	if (ca_pem.len == 0 || str_eqz(there, encoded)) {
		*ret_match = ADMISSION_MATCH_RIGHT;
		return 0;
	}
	if (base64_decode(there, &pem, &len, &why) < 0) {
		/* What isn't read isn't said to be empty: that would be written over at once. */
		if (err_is_no_memory(&why)) {
			err_copy(err, &why);
			return err_wrap(err, "clientConfig.caBundle");
		}
		*ret_match = ADMISSION_MATCH_EMPTY;
		return 0;
	}
	*ret_match = compare_bundle((struct str){(const char *)pem, len}, ca_pem);
	free(pem);
	return 0;
}

static enum admission_match worse(enum admission_match a, enum admission_match b)
{
	/* Empty is said only of the whole. */
	if ((a == ADMISSION_MATCH_EMPTY) != (b == ADMISSION_MATCH_EMPTY))
		return ADMISSION_MATCH_UNTRUSTED;
	return a > b ? a : b;
}

/* ---- whole objects ---- */

static void push_strings(struct jmut_doc *doc, struct jmut *obj, const char *key,
			 const char *const *items)
{
	struct jmut *arr = jmut_need_array(doc, obj, key);

	for (; *items; items++)
		jmut_push(doc, arr, jmut_strz(doc, *items));
}

static struct jmut *make_rules(struct jmut_doc *doc, const struct entry *e)
{
	struct jmut *rules = jmut_array(doc), *rule = jmut_object(doc);

	push_strings(doc, rule, "apiGroups", (const char *const[]){e->group, NULL});
	push_strings(doc, rule, "apiVersions", (const char *const[]){e->version, NULL});
	push_strings(doc, rule, "operations",
		     (const char *const[]){"CREATE", e->updates ? "UPDATE" : NULL, NULL});
	push_strings(doc, rule, "resources", (const char *const[]){e->resource, NULL});
	jmut_set_str(doc, rule, "scope", "Namespaced");
	jmut_push(doc, rules, rule);
	return rules;
}

static struct jmut *push_names(struct jmut_doc *doc, struct jmut *selector, const char *op)
{
	struct jmut *one = jmut_object(doc);

	jmut_set_str(doc, one, "key", "kubernetes.io/metadata.name");
	jmut_set_str(doc, one, "operator", op);
	jmut_push(doc, jmut_need_array(doc, selector, "matchExpressions"), one);
	return jmut_need_array(doc, one, "values");
}

static struct jmut *make_namespaces(struct jmut_doc *doc, const struct entry *e,
				    const struct admission_webhooks *w)
{
	struct jmut *selector = jmut_object(doc), *values = NULL;
	struct str rest = str_of(given(w->scope) ? w->scope : ""), name;

	/* A Pod that the cluster, or the operator, needs to come up never waits for us. */
	if (!e->updates) {
		values = push_names(doc, selector, "NotIn");
		jmut_push(doc, values, jmut_strz(doc, "kube-system"));
		if (strcmp(w->ns, "kube-system") != 0)
			jmut_push(doc, values, jmut_strz(doc, w->ns));
	}
	values = NULL;
	while (rest.len) {
		str_cut(rest, ',', &name, &rest);
		name = str_trim(name);
		if (!name.len)
			continue;
		if (!values)
			values = push_names(doc, selector, "In");
		jmut_push(doc, values, jmut_str(doc, name));
	}
	return selector;
}

static struct str url_base(const char *url)
{
	struct str base = str_of(url);

	while (base.len && base.p[base.len - 1] == '/')
		base.len--;
	return base;
}

static const struct json *find_entry(const struct json *object, const char *name)
{
	struct json_iter it = json_iter(json_get(object, "webhooks"));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "name")), name))
			return it.value;
	}
	return NULL;
}

static struct jmut *make_entry(struct jmut_doc *doc, enum admission_kind kind,
			       const struct entry *e, const struct admission_webhooks *w,
			       const char *encoded, const struct json *before)
{
	struct jmut *hook = jmut_object(doc), *client, *condition = jmut_object(doc);

	jmut_set_str(doc, hook, "name", e->name);
	client = jmut_need_object(doc, hook, "clientConfig");
	jmut_set(doc, client, "url", jmut_strf(doc, "%.*s%s", STR_ARG(url_base(w->url)), e->path));
	if (encoded)
		jmut_set_str(doc, client, "caBundle", encoded);
	else
		jmut_set(doc, client, "caBundle",
			 jmut_copy(doc, json_at(find_entry(before, e->name), "clientConfig",
						"caBundle", NULL)));
	jmut_set(doc, hook, "rules", make_rules(doc, e));
	jmut_set_str(doc, hook, "failurePolicy", w->failure_policy);
	jmut_set_str(doc, hook, "matchPolicy", "Equivalent");
	jmut_set(doc, hook, "namespaceSelector", make_namespaces(doc, e, w));
	jmut_set(doc, hook, "objectSelector", jmut_object(doc));
	jmut_set_str(doc, hook, "sideEffects", "None");
	jmut_set_int(doc, hook, "timeoutSeconds", w->timeout_s);
	push_strings(doc, hook, "admissionReviewVersions",
		     (const char *const[]){"v1", "v1beta1", NULL});
	if (kind == ADMISSION_MUTATING)
		jmut_set_str(doc, hook, "reinvocationPolicy", "Never");
	jmut_set_str(doc, condition, "name", e->condition_name);
	jmut_set_str(doc, condition, "expression", e->condition);
	jmut_push(doc, jmut_need_array(doc, hook, "matchConditions"), condition);
	return hook;
}

static struct jmut *make_entries(struct jmut_doc *doc, enum admission_kind kind,
				 const struct admission_webhooks *w, const char *encoded,
				 const struct json *before)
{
	struct jmut *hooks = jmut_array(doc);

	for (size_t i = 0; i < kinds[kind].n; i++)
		jmut_push(doc, hooks,
			  make_entry(doc, kind, &kinds[kind].entries[i], w, encoded, before));
	return hooks;
}

static char *encode(struct str ca_pem)
{
	return ca_pem.len ? base64_encode(ca_pem.p, ca_pem.len) : NULL;
}

struct jmut *admission_registration_make(struct jmut_doc *doc, enum admission_kind kind,
					 const char *name, const struct admission_webhooks *w,
					 struct str ca_pem, const struct json *before)
{
	CLEANUP_FREE char *encoded = encode(ca_pem);
	struct jmut *root = jmut_object(doc), *meta, *labels;
	char api_version[KUBE_API_VERSION_SIZE];

	jmut_set_str(doc, root, "apiVersion", kube_api_version(kinds[kind].resource, api_version));
	jmut_set_str(doc, root, "kind", kinds[kind].resource->kind);
	meta = jmut_need_object(doc, root, "metadata");
	jmut_set_str(doc, meta, "name", name);
	labels = jmut_need_object(doc, meta, "labels");
	jmut_set_str(doc, labels, "app.kubernetes.io/name", "ipu-operator");
	jmut_set_str(doc, labels, "app.kubernetes.io/component", "webhook");
	jmut_set_str(doc, labels, "app.kubernetes.io/managed-by", "ipu-operator");
	jmut_set(doc, root, "webhooks", make_entries(doc, kind, w, encoded, before));
	return root;
}

/* ---- comparing ---- */

/* What we say of an entry is so; what a later API server adds of itself is no difference. */
static bool says_the_same(const struct json *there, const struct json *wanted)
{
	struct json_iter it = json_iter(wanted);

	while (json_next(&it)) {
		const struct json *v = json_getn(there, it.key);
		bool client = str_eqz(it.key, "clientConfig");

		if (!v && json_len(it.value) == 0 && json_type(it.value) == JSON_OBJECT)
			continue;
		/* Of a bundle that is only said otherwise, compare_entry speaks. */
		if (client &&
		    str_eq(json_str(json_get(v, "url")), json_str(json_get(it.value, "url"))) &&
		    !json_get(v, "service"))
			continue;
		if (!json_equal(v, it.value))
			return false;
	}
	return true;
}

static bool same_entries(const struct json *there, const struct json *wanted)
{
	struct json_iter a = json_iter(there), b = json_iter(wanted);

	if (json_len(there) != json_len(wanted))
		return false;
	while (json_next(&a) && json_next(&b)) {
		if (!says_the_same(a.value, b.value))
			return false;
	}
	return true;
}

static struct jmut *add_op(struct jmut_doc *doc, struct jmut *ops, const char *op, const char *path,
			   struct jmut *value)
{
	struct jmut *one = jmut_object(doc);

	jmut_set_str(doc, one, "op", op);
	jmut_set_str(doc, one, "path", path);
	jmut_set(doc, one, "value", value);
	jmut_push(doc, ops, one);
	return ops;
}

/* A patch that sets the version which it's for is refused on any other, with Conflict. */
static struct jmut *begin_ops(struct jmut_doc *doc, const struct json *object)
{
	return add_op(doc, jmut_array(doc), "replace", "/metadata/resourceVersion",
		      jmut_str(doc, kube_version(object)));
}

static bool is_ours(const struct json *entry)
{
	return str_has_suffix(json_str(json_get(entry, "name")), str_of(OURS));
}

int admission_registration_compare(struct jmut_doc *doc, const struct json *object,
				   enum admission_kind kind, const struct admission_webhooks *w,
				   struct str ca_pem, enum admission_match *ret_match,
				   struct jmut **ret_ops, struct err *err)
{
	CLEANUP_FREE char *encoded = encode(ca_pem);
	const struct json *hooks = json_get(object, "webhooks");
	struct jmut *ops = begin_ops(doc, object);
	enum admission_match match = ADMISSION_MATCH_RIGHT;
	struct json_iter it = json_iter(hooks);
	bool any = false;

	while (json_next(&it)) {
		CLEANUP_FREE char *path = xasprintf("/webhooks/%zu/clientConfig/caBundle",
						    it.index);
		enum admission_match one;

		if (!is_ours(it.value))
			continue;
		if (compare_entry(it.value, ca_pem, encoded, &one, err) < 0)
			return -1;
		if (one != ADMISSION_MATCH_RIGHT)
			add_op(doc, ops, "add", path, jmut_strz(doc, encoded));
		match = any ? worse(match, one) : one;
		any = true;
	}
	if (given(w->url)) {
		struct jmut *wanted = make_entries(doc, kind, w, encoded, object);

		if (match < ADMISSION_MATCH_NOW && !same_entries(hooks, jmut_view(wanted)))
			match = ADMISSION_MATCH_NOW;
		ops = add_op(doc, begin_ops(doc, object), "add", "/webhooks", wanted);
	}
	*ret_match = match;
	*ret_ops = match == ADMISSION_MATCH_RIGHT ? NULL : ops;
	return 0;
}
