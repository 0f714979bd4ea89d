/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of ServiceAccounts (TokenRequest), TokenReview of them, and SubjectAccessReview, which
 * allows all but what a test has forbidden. Owns the tokens and the rules.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rand.h"
#include "core/str.h"
#include "kube/object.h"
#include "sim/api_internal.h"

#define API_AUDIENCE  "https://kubernetes.default.svc"
#define DEFAULT_S     3600
#define LEAST_S       600
#define MOST_S        (INT64_C(1) << 32)
#define MAX_AUDIENCES 16
#define POD_TOKEN_S   (INT64_C(365) * 86400) /* nobody renews a running Pod's */

/* A token that was handed out. */
struct token {
	char *ns, *account, *account_uid;
	char *pod, *pod_uid;        /* "" where it's bound to no Pod */
	struct json_doc *audiences; /* an array of strings */
	int64_t until_ms;           /* wall clock */
};

/* What a test forbids: members that aren't "" must be the request's. */
struct rule {
	struct list link;
	char *of[8]; /* as rule_keys */
};

const char *const sim_access_keys[] = {"user",        "verb", "namespace", "group", "resource",
				       "subresource", "name", "path",      NULL};

static void free_token(struct token *t)
{
	free(t->ns);
	free(t->account);
	free(t->account_uid);
	free(t->pod);
	free(t->pod_uid);
	json_doc_free(t->audiences);
	free(t);
}

static void refuse(struct sim_request *req, struct jmut_doc *doc, enum err_kind kind, int code,
		   const char *message)
{
	struct err err;

	err_set(&err, kind, code, "%s", message);
	sim_reply_err(req, doc, &err, NULL);
}

/* ---- tokens ---- */

static const struct json *find_object(const struct sim_api *api, const char *plural, const char *ns,
				      const char *name)
{
	const struct sim_resource *r = sim_resource_find(STR_NULL, str_of(plural));
	const struct sim_object *o = sim_objects_get(api->objects, r, str_of(ns), str_of(name));

	return o ? sim_object_json(o) : NULL;
}

/* The account, which every namespace has one of by the name of "default". */
static const struct json *need_account(struct sim_api *api, const char *ns, const char *name)
{
	const struct json *o = find_object(api, "serviceaccounts", ns, name);
	CLEANUP_JMUT struct jmut_doc *doc = NULL;
	struct jmut *root, *meta;

	if (o || strcmp(name, "default") != 0 || !find_object(api, "namespaces", "", ns))
		return o;
	doc = jmut_doc_new();
	root = jmut_object(doc);
	meta = jmut_object(doc);
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "ServiceAccount");
	jmut_set_str(doc, meta, "name", name);
	jmut_set_str(doc, meta, "namespace", ns);
	jmut_set(doc, root, "metadata", meta);
	jmut_set_root(doc, root);
	return sim_object_json(sim_api_create(
		api, sim_resource_find(STR_NULL, STR("serviceaccounts")), doc, root));
}

static const char *text_or(const struct json *v, const char *otherwise)
{
	const char *z = json_cstr(v);

	return z ? z : otherwise;
}

static int bind_pod(struct sim_request *req, const struct json *ref, struct token *t,
		    struct err *err)
{
	const char *name = text_or(json_get(ref, "name"), "");
	struct str uid = json_str(json_get(ref, "uid"));
	const struct json *pod;

	if (!ref || json_type(ref) == JSON_NULL)
		return 0;
	if (!str_eqz(json_str(json_get(ref, "kind")), "Pod"))
		return err_set(err, ERR_INVALID, 422,
			       "spec.boundObjectRef: ipu-sim binds tokens to Pods only");
	pod = find_object(req->api, "pods", req->ns, name);
	if (!pod)
		return err_set(err, ERR_NOT_FOUND, 404, "pods \"%s\" not found", name);
	if (uid.len && !str_eq(uid, kube_uid(pod)))
		return err_set(
			err, ERR_CONFLICT, 409,
			"the UID in the bound object reference (%.*s) does not match the UID "
			"in record",
			STR_ARG(uid));
	t->pod = xstrdup(name);
	t->pod_uid = str_dup(kube_uid(pod));
	return 0;
}

static int read_audiences(const struct json *spec, struct token *t, struct err *err)
{
	const struct json *list = json_get(spec, "audiences");
	struct buf out = BUF_INIT(65536);
	struct json_iter it = json_iter(list);
	int rc;

	if (json_len(list) > MAX_AUDIENCES)
		return err_set(err, ERR_INVALID, 422, "spec.audiences: too many");
	while (json_next(&it)) {
		if (json_type(it.value) != JSON_STRING)
			return err_set(err, ERR_INVALID, 400, "spec.audiences: must be strings");
	}
	rc = json_len(list) ? json_write(list, JSON_COMPACT, &out, err)
			    : buf_append_str(&out, STR("[\"" API_AUDIENCE "\"]"), err);
	if (rc == 0)
		rc = json_parse(buf_str(&out), &t->audiences, err);
	buf_done(&out);
	return rc;
}

static int read_request(struct sim_request *req, const struct json *body, struct token *t,
			struct err *err)
{
	const struct json *account = need_account(req->api, req->ns, req->name);
	const struct json *spec = json_get(body, "spec");
	int64_t seconds = json_int(json_get(spec, "expirationSeconds"), DEFAULT_S);

	if (!account)
		return err_set(err, ERR_NOT_FOUND, 404, "serviceaccounts \"%s\" not found",
			       req->name);
	if (seconds < LEAST_S || seconds > MOST_S)
		return err_set(err, ERR_INVALID, 422,
			       "spec.expirationSeconds: Invalid value: may not specify a duration "
			       "less than 10 minutes or larger than 2^32 seconds");
	t->ns = xstrdup(req->ns);
	t->account = xstrdup(req->name);
	t->account_uid = str_dup(kube_uid(account));
	t->until_ms = clock_wall_ms() + seconds * 1000;
	if (read_audiences(spec, t, err) < 0 ||
	    bind_pod(req, json_get(spec, "boundObjectRef"), t, err) < 0)
		return -1;
	if (!t->pod) {
		t->pod = xstrdup("");
		t->pod_uid = xstrdup("");
	}
	return 0;
}

/* Takes it over; its text is the caller's to free. */
static char *keep_token(struct sim_api *api, struct token *t)
{
	char hex[2 * 24 + 1];
	uint8_t random[24];

	rand_bytes(random, sizeof(random));
	hex_encode(random, sizeof(random), hex);
	char *z = xasprintf("ipu-sim-%s", hex);
	map_put(api->tokens, str_of(z), t);
	return z;
}

void sim_token_request(struct sim_request *req, struct jmut_doc *doc, const struct json *body)
{
	struct token *t = xcalloc(1, sizeof(*t));
	struct jmut *root = body ? jmut_copy(doc, body) : jmut_object(doc), *status;
	char until[CLOCK_RFC3339_SIZE];
	struct err err;

	if (read_request(req, body, t, &err) < 0) {
		free_token(t);
		sim_reply_err(req, doc, &err, NULL);
		return;
	}
	CLEANUP_FREE char *z = keep_token(req->api, t);
	clock_format(t->until_ms, until);
	jmut_set_str(doc, root, "apiVersion", "authentication.k8s.io/v1");
	jmut_set_str(doc, root, "kind", "TokenRequest");
	status = jmut_object(doc);
	jmut_set_str(doc, status, "token", z);
	jmut_set_str(doc, status, "expirationTimestamp", until);
	jmut_set(doc, root, "status", status);
	sim_reply(req, 201, root);
}

char *sim_api_mint_token(struct sim_api *api, const struct json *pod, struct str audience,
			 struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *list = jmut_array(doc);
	CLEANUP_FREE char *ns = str_dup(kube_namespace(pod));
	const char *account = text_or(json_at(pod, "spec", "serviceAccountName", NULL), "default");
	const struct json *found = need_account(api, ns, account);
	struct buf out = BUF_INIT(65536);
	struct token *t;

	if (!found) {
		err_set(err, ERR_NOT_FOUND, 404, "serviceaccount \"%s\" not found", account);
		return NULL;
	}
	t = xcalloc(1, sizeof(*t));
	t->ns = xstrdup(ns);
	t->account = xstrdup(account);
	t->account_uid = str_dup(kube_uid(found));
	t->pod = str_dup(kube_name(pod));
	t->pod_uid = str_dup(kube_uid(pod));
	t->until_ms = clock_wall_ms() + POD_TOKEN_S * 1000;
	jmut_push(doc, list, jmut_str(doc, audience.len ? audience : STR(API_AUDIENCE)));
	int rc = jmut_write(list, JSON_COMPACT, &out, err);
	if (rc == 0)
		rc = json_parse(buf_str(&out), &t->audiences, err);
	buf_done(&out);
	if (rc < 0) {
		free_token(t);
		return NULL;
	}
	return keep_token(api, t);
}

/* Is it good now? An error in the API server's words, else NULL. */
static const char *why_not(const struct sim_api *api, const struct token *t)
{
	const struct json *account = find_object(api, "serviceaccounts", t->ns, t->account);
	const struct json *pod = t->pod[0] ? find_object(api, "pods", t->ns, t->pod) : NULL;

	if (clock_wall_ms() >= t->until_ms)
		return "[invalid bearer token, service account token has expired]";
	if (!account || !str_eqz(kube_uid(account), t->account_uid))
		return "[invalid bearer token, service account token has been invalidated]";
	if (t->pod[0] && (!pod || !str_eqz(kube_uid(pod), t->pod_uid)))
		return "[invalid bearer token, service account token has been invalidated]";
	return NULL;
}

static bool has_audience(const struct token *t, struct str audience)
{
	struct json_iter it = json_iter(json_root(t->audiences));

	while (json_next(&it)) {
		if (str_eq(json_str(it.value), audience))
			return true;
	}
	return false;
}

bool sim_token_is_good(const struct sim_api *api, struct str z)
{
	const struct token *t = map_get(api->tokens, z);

	return t && !why_not(api, t) && has_audience(t, STR(API_AUDIENCE));
}

/* ---- TokenReview ---- */

static void add_extra(struct jmut_doc *doc, struct jmut *extra, const char *key, struct str value)
{
	struct jmut *list = jmut_array(doc);

	if (!value.len)
		return;
	jmut_push(doc, list, jmut_str(doc, value));
	jmut_set(doc, extra, key, list);
}

static struct jmut *user_of(const struct sim_api *api, const struct token *t, struct jmut_doc *doc)
{
	struct jmut *user = jmut_object(doc), *groups = jmut_array(doc), *extra = jmut_object(doc);
	const struct json *pod = find_object(api, "pods", t->ns, t->pod);

	jmut_set(doc, user, "username",
		 jmut_strf(doc, "system:serviceaccount:%s:%s", t->ns, t->account));
	jmut_set_str(doc, user, "uid", t->account_uid);
	jmut_push(doc, groups, jmut_strz(doc, "system:serviceaccounts"));
	jmut_push(doc, groups, jmut_strf(doc, "system:serviceaccounts:%s", t->ns));
	jmut_push(doc, groups, jmut_strz(doc, "system:authenticated"));
	jmut_set(doc, user, "groups", groups);
	if (t->pod[0]) {
		add_extra(doc, extra, "authentication.kubernetes.io/pod-name", str_of(t->pod));
		add_extra(doc, extra, "authentication.kubernetes.io/pod-uid", str_of(t->pod_uid));
		add_extra(doc, extra, "authentication.kubernetes.io/node-name",
			  json_str(json_at(pod, "spec", "nodeName", NULL)));
		jmut_set(doc, user, "extra", extra);
	}
	return user;
}

static struct jmut *admin_of(struct jmut_doc *doc)
{
	struct jmut *user = jmut_object(doc), *groups = jmut_array(doc);

	jmut_set_str(doc, user, "username", "admin");
	jmut_push(doc, groups, jmut_strz(doc, "system:masters"));
	jmut_push(doc, groups, jmut_strz(doc, "system:authenticated"));
	jmut_set(doc, user, "groups", groups);
	return user;
}

/* As kube-apiserver completes it: everybody is authenticated, and an account in its groups. */
static struct jmut *impersonated(const struct sim_request *req, struct str name,
				 struct jmut_doc *doc)
{
	struct jmut *user = jmut_object(doc), *groups = jmut_array(doc);
	struct str prefix = STR("system:serviceaccount:"), ns, rest;

	jmut_set(doc, user, "username", jmut_str(doc, name));
	for (size_t i = 0; i < req->ex->headers->len; i++) {
		struct http_header h = http_headers_at(req->ex->headers, i);

		if (str_ieqz(h.name, "Impersonate-Group"))
			jmut_push(doc, groups, jmut_str(doc, h.value));
		else if (str_ieqz(h.name, "Impersonate-Uid"))
			jmut_set(doc, user, "uid", jmut_str(doc, h.value));
	}
	if (str_has_prefix(name, prefix)) {
		str_cut((struct str){name.p + prefix.len, name.len - prefix.len}, ':', &ns, &rest);
		jmut_push(doc, groups, jmut_strz(doc, "system:serviceaccounts"));
		jmut_push(doc, groups, jmut_strf(doc, "system:serviceaccounts:%.*s", STR_ARG(ns)));
	}
	jmut_push(doc, groups, jmut_strz(doc, "system:authenticated"));
	jmut_set(doc, user, "groups", groups);
	return user;
}

struct jmut *sim_user_info(const struct sim_request *req, struct jmut_doc *doc)
{
	struct str auth = http_headers_get(req->ex->headers, "Authorization");
	struct str as = http_headers_get(req->ex->headers, "Impersonate-User");
	struct str prefix = STR("Bearer ");
	const struct token *t = str_has_prefix(auth, prefix)
					? map_get(req->api->tokens,
						  (struct str){auth.p + prefix.len,
							       auth.len - prefix.len})
					: NULL;

	if (t)
		return user_of(req->api, t, doc);
	return as.len ? impersonated(req, as, doc) : admin_of(doc);
}

/* Those of the wanted audiences that the token has; the API's own where none is wanted. t NULL: the
 * token of the kubeconfig, which is for the API. */
static struct jmut *common_audiences(const struct token *t, const struct json *wanted,
				     struct jmut_doc *doc)
{
	struct jmut *list = jmut_array(doc);
	struct json_iter it = json_iter(wanted);
	struct str api = STR(API_AUDIENCE);

	if (json_len(wanted) == 0 && (!t || has_audience(t, api)))
		jmut_push(doc, list, jmut_str(doc, api));
	while (json_next(&it)) {
		struct str a = json_str(it.value);

		if (t ? has_audience(t, a) : str_eq(a, api))
			jmut_push(doc, list, jmut_str(doc, a));
	}
	return list;
}

static void review_token(struct sim_request *req, struct jmut_doc *doc, const struct json *body)
{
	const struct json *spec = json_get(body, "spec"), *wanted = json_get(spec, "audiences");
	struct str z = json_str(json_get(spec, "token"));
	bool is_admin = z.len && str_eqz(z, req->api->token);
	const struct token *t = is_admin ? NULL : map_get(req->api->tokens, z);
	struct jmut *root = jmut_copy(doc, body), *status = jmut_object(doc);
	struct jmut *common = common_audiences(t, wanted, doc);
	const char *why = t ? why_not(req->api, t) : is_admin ? NULL : "[invalid bearer token]";

	if (!z.len) {
		refuse(req, doc, ERR_INVALID, 422, "spec.token: Required value");
		return;
	}
	if (!why && jmut_len(common) == 0)
		why = "[invalid bearer token, token audiences are none of those asked for]";
	if (why) {
		jmut_set_str(doc, status, "error", why);
	} else {
		jmut_set_bool(doc, status, "authenticated", true);
		jmut_set(doc, status, "user", t ? user_of(req->api, t, doc) : admin_of(doc));
		jmut_set(doc, status, "audiences", common);
	}
	jmut_set(doc, root, "status", status);
	sim_reply(req, 201, root);
}

/* ---- SubjectAccessReview ---- */

static bool rule_fits(const struct rule *rule, const struct json *spec)
{
	const struct json *of[2] = {json_get(spec, "resourceAttributes"),
				    json_get(spec, "nonResourceAttributes")};

	for (size_t i = 0; i < 8; i++) {
		const struct json *v = i == 0 ? json_get(spec, "user")
					      : json_get(of[0] ? of[0] : of[1], sim_access_keys[i]);

		if (rule->of[i][0] && !str_eqz(json_str(v), rule->of[i]))
			return false;
	}
	return true;
}

static void review_access(struct sim_request *req, struct jmut_doc *doc, const struct json *body)
{
	const struct json *spec = json_get(body, "spec");
	struct jmut *root = jmut_copy(doc, body), *status = jmut_object(doc);
	bool allowed = true;

	if (!json_get(spec, "resourceAttributes") == !json_get(spec, "nonResourceAttributes")) {
		refuse(req, doc, ERR_INVALID, 422,
		       "spec: exactly one of nonResourceAttributes or resourceAttributes must be "
		       "specified");
		return;
	}
	LIST_FOREACH(pos, tmp, &req->api->denied)
		allowed = allowed && !rule_fits(CONTAINER_OF(pos, struct rule, link), spec);
	jmut_set_bool(doc, status, "allowed", allowed);
	if (!allowed)
		jmut_set_str(doc, status, "reason", "a test has forbidden it");
	jmut_set(doc, root, "status", status);
	sim_reply(req, 201, root);
}

void sim_review(struct sim_request *req, struct jmut_doc *doc, const struct json *body)
{
	if (strcmp(req->resource->kind, "TokenReview") == 0)
		review_token(req, doc, body);
	else
		review_access(req, doc, body);
}

void sim_api_deny(struct sim_api *api, const struct json *rule)
{
	struct rule *r = xcalloc(1, sizeof(*r));

	for (size_t i = 0; i < 8; i++)
		r->of[i] = xstrdup(text_or(json_get(rule, sim_access_keys[i]), ""));
	list_append(&api->denied, &r->link);
}

void sim_api_allow_all(struct sim_api *api)
{
	LIST_FOREACH(pos, tmp, &api->denied) {
		struct rule *r = CONTAINER_OF(pos, struct rule, link);

		list_unlink(&r->link);
		for (size_t i = 0; i < 8; i++)
			free(r->of[i]);
		free(r);
	}
}

/* ---- life ---- */

void sim_auth_init(struct sim_api *api)
{
	api->tokens = map_new();
	list_init(&api->denied);
}

void sim_auth_done(struct sim_api *api)
{
	struct map_iter it = MAP_ITER(api->tokens);

	while (map_next(&it))
		free_token(it.value);
	map_free(api->tokens);
	sim_api_allow_all(api);
}
