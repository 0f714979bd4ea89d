/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery: /version, /api, /apis and what kubectl asks of OpenAPI before it applies something.
 */
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "sim/api_internal.h"

#define SIM_KUBERNETES_VERSION "v1.33.0"

static struct jmut *version(struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc);

	jmut_set_str(doc, root, "major", "1");
	jmut_set_str(doc, root, "minor", "33");
	jmut_set_str(doc, root, "gitVersion", SIM_KUBERNETES_VERSION "+ipu-sim");
	jmut_set_str(doc, root, "platform", "linux/amd64");
	return root;
}

static struct jmut *api_versions(struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc), *list = jmut_array(doc);

	jmut_set_str(doc, root, "kind", "APIVersions");
	jmut_push(doc, list, jmut_strz(doc, "v1"));
	jmut_set(doc, root, "versions", list);
	jmut_set(doc, root, "serverAddressByClientCIDRs", jmut_array(doc));
	return root;
}

static bool is_first_of_group(const struct sim_resource *r)
{
	for (const struct sim_resource *q = sim_resources; q < r; q++) {
		if (strcmp(q->group, r->group) == 0)
			return false;
	}
	return true;
}

static struct jmut *group(struct jmut_doc *doc, const struct sim_resource *r)
{
	struct jmut *g = jmut_object(doc), *versions = jmut_array(doc), *v = jmut_object(doc);

	jmut_set_str(doc, g, "name", r->group);
	jmut_set(doc, v, "groupVersion", jmut_strf(doc, "%s/%s", r->group, r->version));
	jmut_set_str(doc, v, "version", r->version);
	jmut_push(doc, versions, v);
	jmut_set(doc, g, "versions", versions);
	jmut_set(doc, g, "preferredVersion", jmut_clone(doc, v));
	return g;
}

static struct jmut *groups(struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc), *list = jmut_array(doc);

	jmut_set_str(doc, root, "kind", "APIGroupList");
	jmut_set_str(doc, root, "apiVersion", "v1");
	for (const struct sim_resource *r = sim_resources; r->plural; r++) {
		if (r->group[0] && is_first_of_group(r))
			jmut_push(doc, list, group(doc, r));
	}
	jmut_set(doc, root, "groups", list);
	return root;
}

/* Subresources whose objects are of another kind. */
static const struct other_kind {
	const char *subresource, *group, *version, *kind;
} other_kinds[] = {
	{"/scale", "autoscaling", "v1", "Scale"},
	{"/token", "authentication.k8s.io", "v1", "TokenRequest"},
	{"/eviction", "policy", "v1", "Eviction"},
	{"/attach", "", "v1", "PodAttachOptions"},
	{"/exec", "", "v1", "PodExecOptions"},
};

static const struct other_kind *find_other_kind(const char *subresource)
{
	for (size_t i = 0; i < sizeof(other_kinds) / sizeof(other_kinds[0]); i++) {
		if (strcmp(other_kinds[i].subresource, subresource) == 0)
			return &other_kinds[i];
	}
	return NULL;
}

static void add_resource(struct jmut_doc *doc, struct jmut *list, const struct sim_resource *r,
			 const char *subresource, const char *const *verbs)
{
	struct jmut *item = jmut_object(doc), *v = jmut_array(doc), *names = jmut_array(doc);
	const struct other_kind *other = find_other_kind(subresource);

	jmut_set(doc, item, "name", jmut_strf(doc, "%s%s", r->plural, subresource));
	jmut_set_str(doc, item, "singularName", subresource[0] ? "" : r->singular);
	jmut_set_bool(doc, item, "namespaced", r->namespaced);
	jmut_set_str(doc, item, "kind", other ? other->kind : r->kind);
	if (other && other->group[0]) {
		jmut_set_str(doc, item, "group", other->group);
		jmut_set_str(doc, item, "version", other->version);
	}
	for (; *verbs; verbs++)
		jmut_push(doc, v, jmut_strz(doc, *verbs));
	jmut_set(doc, item, "verbs", v);
	if (r->short_name && !subresource[0]) {
		jmut_push(doc, names, jmut_strz(doc, r->short_name));
		jmut_set(doc, item, "shortNames", names);
	}
	jmut_push(doc, list, item);
}

static void add_pod_parts(struct jmut_doc *doc, struct jmut *list, const struct sim_resource *r)
{
	static const char *const create[] = {"create", NULL};
	static const char *const stream[] = {"create", "get", NULL};
	static const char *const get[] = {"get", NULL};

	add_resource(doc, list, r, "/attach", stream);
	add_resource(doc, list, r, "/eviction", create);
	add_resource(doc, list, r, "/exec", stream);
	add_resource(doc, list, r, "/log", get);
}

static struct jmut *resources(struct jmut_doc *doc, struct str name, struct str version_name)
{
	static const char *const all[] = {"create", "delete", "deletecollection",
					  "get",    "list",   "patch",
					  "update", "watch",  NULL};
	static const char *const one[] = {"create", NULL};
	static const char *const some[] = {"get", "patch", "update", NULL};
	struct jmut *root = jmut_object(doc), *list = jmut_array(doc);
	size_t n = 0;

	jmut_set_str(doc, root, "kind", "APIResourceList");
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set(doc, root, "groupVersion",
		 jmut_strf(doc, "%.*s%s%.*s", STR_ARG(name), name.len ? "/" : "",
			   STR_ARG(version_name)));
	for (const struct sim_resource *r = sim_resources; r->plural; r++) {
		if (!str_eqz(name, r->group) || !str_eqz(version_name, r->version))
			continue;
		n++;
		add_resource(doc, list, r, "", r->create_only ? one : all);
		if (strcmp(r->kind, "ServiceAccount") == 0)
			add_resource(doc, list, r, "/token", one);
		if (strcmp(r->kind, "Pod") == 0)
			add_pod_parts(doc, list, r);
		if (r->has_status)
			add_resource(doc, list, r, "/status", some);
		if (r->has_scale)
			add_resource(doc, list, r, "/scale", some);
	}
	jmut_set(doc, root, "resources", list);
	return n ? root : NULL;
}

/* ---- OpenAPI v3: that PATCH and POST know fieldValidation is all that kubectl looks for ---- */

static struct jmut *operation(struct jmut_doc *doc, const struct sim_resource *r)
{
	struct jmut *op = jmut_object(doc), *parameters = jmut_array(doc), *gvk = jmut_object(doc);
	struct jmut *parameter = jmut_object(doc), *responses = jmut_object(doc);

	jmut_set_str(doc, parameter, "name", "fieldValidation");
	jmut_set_str(doc, parameter, "in", "query");
	jmut_push(doc, parameters, parameter);
	jmut_set(doc, op, "parameters", parameters);
	jmut_set(doc, op, "responses", responses);
	jmut_set_str(doc, gvk, "group", r->group);
	jmut_set_str(doc, gvk, "version", r->version);
	jmut_set_str(doc, gvk, "kind", r->kind);
	jmut_set(doc, op, "x-kubernetes-group-version-kind", gvk);
	return op;
}

static void add_openapi_path(struct jmut_doc *doc, struct jmut *paths, const struct sim_resource *r)
{
	CLEANUP_FREE char *path = xasprintf(
		"/%s%s%s/%s/%s%s/{name}", r->group[0] ? "apis" : "api", r->group[0] ? "/" : "",
		r->group, r->version, r->namespaced ? "namespaces/{namespace}/" : "", r->plural);
	struct jmut *item = jmut_object(doc);

	jmut_set(doc, item, "patch", operation(doc, r));
	jmut_set(doc, paths, path, item);
}

static struct jmut *openapi_document(struct jmut_doc *doc, struct str name, struct str version_name)
{
	struct jmut *root = jmut_object(doc), *info = jmut_object(doc), *paths = jmut_object(doc);

	jmut_set_str(doc, root, "openapi", "3.0.0");
	jmut_set_str(doc, info, "title", "ipu-sim");
	jmut_set_str(doc, info, "version", SIM_KUBERNETES_VERSION);
	jmut_set(doc, root, "info", info);
	for (const struct sim_resource *r = sim_resources; r->plural; r++) {
		if (str_eqz(name, r->group) && str_eqz(version_name, r->version))
			add_openapi_path(doc, paths, r);
	}
	jmut_set(doc, root, "paths", paths);
	return root;
}

static struct jmut *openapi_index(struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc), *paths = jmut_object(doc);

	for (const struct sim_resource *r = sim_resources; r->plural; r++) {
		if (!r->plural[0])
			continue;
		CLEANUP_FREE char *path = xasprintf("%s%s%s/%s", r->group[0] ? "apis" : "api",
						    r->group[0] ? "/" : "", r->group, r->version);
		struct jmut *item = jmut_object(doc);

		jmut_set(doc, item, "serverRelativeURL", jmut_strf(doc, "/openapi/v3/%s", path));
		jmut_set(doc, paths, path, item);
	}
	jmut_set(doc, root, "paths", paths);
	return root;
}

/* ---- paths ---- */

/* What follows prefix: "v1" or "GROUP/VERSION"; false if it's anything longer. */
static bool group_version(struct str path, const char *prefix, struct str *ret_group,
			  struct str *ret_version)
{
	struct str rest, more;

	if (!str_has_prefix(path, str_of(prefix)))
		return false;
	rest = (struct str){path.p + strlen(prefix), path.len - strlen(prefix)};
	if (!str_cut(rest, '/', ret_group, &more)) {
		*ret_version = rest;
		*ret_group = STR_NULL;
		return true;
	}
	*ret_version = more;
	return !memchr(more.p, '/', more.len);
}

static struct jmut *build(struct jmut_doc *doc, struct str path)
{
	struct str name, version_name;

	if (str_eqz(path, "/version"))
		return version(doc);
	if (str_eqz(path, "/api"))
		return api_versions(doc);
	if (str_eqz(path, "/apis"))
		return groups(doc);
	if (str_eqz(path, "/openapi/v3"))
		return openapi_index(doc);
	if (group_version(path, "/openapi/v3/apis/", &name, &version_name) ||
	    group_version(path, "/openapi/v3/api/", &name, &version_name))
		return openapi_document(doc, name, version_name);
	if (group_version(path, "/apis/", &name, &version_name) && name.len)
		return resources(doc, name, version_name);
	if (group_version(path, "/api/", &name, &version_name) && !name.len)
		return resources(doc, STR_NULL, version_name);
	return NULL;
}

/* What older parts of kubectl ask when they meet a kind that nobody knows: a Document of OpenAPI v2
 * with nothing but its version (field 1), as protobuf, the one form that they take. */
static void reply_openapi_v2(struct http_exchange *ex)
{
	http_reply(ex, 200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", NULL, 0,
		   STR("\n\0032.0"));
}

bool sim_discovery(struct sim_api *api, struct http_exchange *ex)
{
	CLEANUP_JMUT struct jmut_doc *doc = NULL;
	struct jmut *root;

	(void)api;
	if (ex->method != HTTP_METHOD_GET && ex->method != HTTP_METHOD_HEAD)
		return false;
	if (str_eqz(ex->path, "/healthz") || str_eqz(ex->path, "/readyz") ||
	    str_eqz(ex->path, "/livez")) {
		http_reply(ex, 200, "text/plain; charset=utf-8", NULL, 0, STR("ok"));
		return true;
	}
	if (str_eqz(ex->path, "/openapi/v2")) {
		reply_openapi_v2(ex);
		return true;
	}
	doc = jmut_doc_new();
	root = build(doc, ex->path);
	if (!root)
		return false;
	sim_reply_json(ex, 200, root);
	return true;
}
