/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads requests to the simulated API, meets them with the faults that a test has set, and hands
 * them to their verbs.
 */
#include "sim/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "core/log.h"
#include "core/str.h"
#include "http/client.h"
#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/webhook.h"

struct sim_resource sim_resources[SIM_MAX_RESOURCES] = {
	{"", "v1", "namespaces", "namespace", "Namespace", "ns", false, true, false, false},
	{"", "v1", "nodes", "node", "Node", "no", false, true, false, false},
	{"", "v1", "pods", "pod", "Pod", "po", true, true, false, false},
	{"", "v1", "configmaps", "configmap", "ConfigMap", "cm", true, false, false, false},
	{"", "v1", "secrets", "secret", "Secret", NULL, true, false, false, false},
	{"", "v1", "services", "service", "Service", "svc", true, true, false, false},
	{"", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", "sa", true, false, false,
	 false},
	{"", "v1", "events", "event", "Event", "ev", true, false, false, false},
	{"coordination.k8s.io", "v1", "leases", "lease", "Lease", NULL, true, false, false, false},
	{"rbac.authorization.k8s.io", "v1", "roles", "role", "Role", NULL, true, false, false,
	 false},
	{"rbac.authorization.k8s.io", "v1", "rolebindings", "rolebinding", "RoleBinding", NULL,
	 true, false, false, false},
	{"scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass", "pc",
	 false, false, false, false},
	{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "customresourcedefinition",
	 "CustomResourceDefinition", "crd", false, true, false, false},
	{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
	 "mutatingwebhookconfiguration", "MutatingWebhookConfiguration", NULL, false, false, false,
	 false},
	{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
	 "validatingwebhookconfiguration", "ValidatingWebhookConfiguration", NULL, false, false,
	 false, false},
	{"authentication.k8s.io", "v1", "tokenreviews", "tokenreview", "TokenReview", NULL, false,
	 false, false, true},
	{"authorization.k8s.io", "v1", "subjectaccessreviews", "subjectaccessreview",
	 "SubjectAccessReview", NULL, false, false, false, true},
	{"graphcore.ai", "v1alpha1", "ipujobs", "ipujob", "IPUJob", NULL, true, true, true, false},
};

const struct sim_resource *sim_resource_find(struct str group, struct str plural)
{
	for (const struct sim_resource *r = sim_resources; r->plural; r++) {
		if (str_eqz(group, r->group) && str_eqz(plural, r->plural))
			return r;
	}
	return NULL;
}

/* ---- faults ---- */

enum fault_kind { FAULT_STATUS, FAULT_HANG, FAULT_CUT, FAULT_LOSE, FAULT_GARBAGE };

struct fault {
	struct list link;
	enum fault_kind kind;
	char *verb, *resource; /* "": any */
	char *ns;              /* "": requests of no namespace; NULL: any */
	int64_t count, skip;   /* count 0: until cleared */
	int status;
	unsigned retry_after_s;
	char *message;
};

static const char *const fault_names[] = {"status", "hang", "cut", "lose", "garbage"};
static const char *const verb_names[] = {"get",    "list",  "watch",  "create",
					 "update", "patch", "delete", "deletecollection"};

static char *text_member(const struct json *obj, const char *key, const char *otherwise)
{
	const char *z = json_cstr(json_get(obj, key));

	return xstrdup(z ? z : otherwise);
}

static void free_fault(struct fault *f)
{
	list_unlink(&f->link);
	free(f->verb);
	free(f->resource);
	free(f->ns);
	free(f->message);
	free(f);
}

int sim_api_inject(struct sim_api *api, const struct json *fault, struct err *err)
{
	struct str kind = json_str(json_get(fault, "kind"));
	struct fault *f;
	size_t k = 0;

	while (k < 5 && !str_eqz(kind, fault_names[k]))
		k++;
	if (k == 5)
		return err_set(err, ERR_INVALID, 0,
			       "kind: must be one of status, hang, cut, lose, garbage");
	f = xcalloc(1, sizeof(*f));
	f->kind = (enum fault_kind)k;
	f->verb = text_member(fault, "verb", "");
	f->resource = text_member(fault, "resource", "");
	f->ns = xstrdup(json_cstr(json_get(fault, "namespace")));
	f->message = text_member(fault, "message", "a fault that a test has set");
	f->count = json_int(json_get(fault, "count"), 1);
	f->skip = json_int(json_get(fault, "skip"), 0);
	f->status = (int)json_int(json_get(fault, "status"), 500);
	f->retry_after_s = (unsigned)json_int(json_get(fault, "retryAfter"), 0);
	list_append(&api->faults, &f->link);
	return 0;
}

void sim_api_clear_faults(struct sim_api *api)
{
	LIST_FOREACH(pos, tmp, &api->faults)
		free_fault(CONTAINER_OF(pos, struct fault, link));
}

static struct fault *meet_fault(const struct sim_request *req)
{
	LIST_FOREACH(pos, tmp, &req->api->faults) {
		struct fault *f = CONTAINER_OF(pos, struct fault, link);

		/* Discovery meets a fault that names it, and no other. */
		if (!req->resource && strcmp(f->resource, "apis") == 0)
			return f;
		if (!req->resource || (f->verb[0] && strcmp(f->verb, verb_names[req->verb]) != 0) ||
		    (f->resource[0] && strcmp(f->resource, req->resource->plural) != 0) ||
		    (f->ns && strcmp(f->ns, req->ns) != 0))
			continue;
		if (f->skip > 0) {
			f->skip--;
			continue;
		}
		return f;
	}
	return NULL;
}

static void on_hung_up(struct http_exchange *ex, void *arg)
{
	(void)ex;
	(void)arg;
}

/* True: the fault was the answer. */
static bool suffer(struct sim_request *req)
{
	struct fault *f = meet_fault(req);
	enum fault_kind kind;

	if (!f)
		return false;
	kind = f->kind;
	if (kind == FAULT_STATUS) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct err err;

		err_set(&err, ERR_INTERNAL, f->status, "%s", f->message);
		err.retry_after_ms = f->retry_after_s * 1000;
		sim_reply_err(req, doc, &err, NULL);
	} else if (kind == FAULT_HANG) {
		http_exchange_on_abort(req->ex, on_hung_up, NULL);
	} else if (kind == FAULT_CUT) {
		http_reply_abort(req->ex);
	} else if (kind == FAULT_GARBAGE) {
		http_reply(req->ex, 200, "application/json", NULL, 0, STR("{\"kind\":\"Po"));
	} else {
		req->lose = true;
	}
	if (f->count > 0 && --f->count == 0)
		free_fault(f);
	return kind != FAULT_LOSE;
}

/* ---- answers ---- */

void sim_reply_json(struct http_exchange *ex, int status, const struct jmut *root)
{
	struct buf out = BUF_INIT((size_t)64 << 20);
	struct err err;

	if (jmut_write(root, JSON_COMPACT, &out, &err) < 0 || buf_append(&out, "\n", 1, &err) < 0)
		http_reply_err(ex, &err);
	else
		http_reply(ex, status, "application/json", NULL, 0, buf_str(&out));
	buf_done(&out);
}

#define MOST_WARNINGS      64
#define MOST_WARNING_BYTES 4096

/* Quoted as RFC 9110's quoted-string; "" where a header can't carry it. */
static char *quoted(struct str text)
{
	char *z = xcalloc(2 * text.len + 16, 1), *out = z + sprintf(z, "299 - \"");

	for (size_t i = 0; i < text.len; i++) {
		if ((unsigned char)text.p[i] < ' ' || text.p[i] == '\x7f') {
			z[0] = '\0';
			return z;
		}
		if (text.p[i] == '"' || text.p[i] == '\\')
			*out++ = '\\';
		*out++ = text.p[i];
	}
	*out = '"';
	return z;
}

void sim_warn(struct sim_request *req, struct str text)
{
	CLEANUP_FREE char *z = quoted(text);

	if (!text.len || !z[0] || req->warnings.n == MOST_WARNINGS ||
	    req->warnings.bytes + text.len > MOST_WARNING_BYTES)
		return;
	for (size_t i = 0; i < req->warnings.n; i++) {
		if (strcmp(req->warnings.items[i], z) == 0)
			return;
	}
	req->warnings.items = xrealloc(req->warnings.items,
				       (req->warnings.n + 1) * sizeof(*req->warnings.items));
	req->warnings.items[req->warnings.n++] = xstrdup(z);
	req->warnings.bytes += text.len;
}

/* An answer with the request's warnings, and Retry-After where it isn't 0. */
static void answer(struct sim_request *req, int status, const struct jmut *root, unsigned retry_s)
{
	struct http_header headers[MOST_WARNINGS + 1];
	struct buf out = BUF_INIT((size_t)64 << 20);
	char seconds[16];
	struct err err;
	size_t n = 0;

	for (; n < req->warnings.n; n++)
		headers[n] = (struct http_header){STR("Warning"), str_of(req->warnings.items[n])};
	if (retry_s) {
		snprintf(seconds, sizeof(seconds), "%u", retry_s);
		headers[n++] = (struct http_header){STR("Retry-After"), str_of(seconds)};
	}
	if (jmut_write(root, JSON_COMPACT, &out, &err) < 0 || buf_append(&out, "\n", 1, &err) < 0)
		http_reply_err(req->ex, &err);
	else
		http_reply(req->ex, status, "application/json", headers, n, buf_str(&out));
	buf_done(&out);
}

void sim_reply(struct sim_request *req, int status, const struct jmut *root)
{
	if (req->lose)
		http_reply_abort(req->ex);
	else
		answer(req, status, root, 0);
}

static const char *reason_of(const struct err *err)
{
	static const struct {
		int code;
		const char *reason;
	} reasons[] = {
		{400, "BadRequest"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "NotFound"},
		{405, "MethodNotAllowed"},
		{406, "NotAcceptable"},
		{410, "Expired"},
		{413, "RequestEntityTooLarge"},
		{415, "UnsupportedMediaType"},
		{422, "Invalid"},
		{429, "TooManyRequests"},
		{500, "InternalError"},
		{503, "ServiceUnavailable"},
		{504, "Timeout"},
	};

	if (err->kind == ERR_EXISTS)
		return "AlreadyExists";
	if (err->kind == ERR_CONFLICT)
		return "Conflict";
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].code == err->code)
			return reasons[i].reason;
	}
	return "InternalError";
}

struct jmut *sim_status(struct jmut_doc *doc, const struct sim_request *req, const struct err *err,
			struct jmut *causes)
{
	struct jmut *root = jmut_object(doc), *details = jmut_object(doc);

	jmut_set_str(doc, root, "kind", "Status");
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set(doc, root, "metadata", jmut_object(doc));
	jmut_set_str(doc, root, "status", "Failure");
	jmut_set_str(doc, root, "message", err->msg);
	jmut_set_str(doc, root, "reason", reason_of(err));
	if (req && req->resource) {
		if (req->name[0])
			jmut_set_str(doc, details, "name", req->name);
		jmut_set_str(doc, details, "group", req->resource->group);
		jmut_set_str(doc, details, "kind",
			     err->code == 422 ? req->resource->kind : req->resource->plural);
	}
	if (causes)
		jmut_set(doc, details, "causes", causes);
	if (err->retry_after_ms)
		jmut_set_int(doc, details, "retryAfterSeconds", err->retry_after_ms / 1000);
	jmut_set(doc, root, "details", details);
	jmut_set_int(doc, root, "code", err->code);
	return root;
}

struct jmut *sim_status_forbidden(struct jmut_doc *doc, const struct sim_request *req,
				  const char *why)
{
	struct err err;
	struct jmut *root;

	err_set(&err, ERR_DENIED, 403, "forbidden");
	root = sim_status(doc, req, &err, NULL);
	jmut_set(doc, root, "message",
		 jmut_strf(doc, "%s%s%s \"%s\" is forbidden: %s", req->resource->plural,
			   req->resource->group[0] ? "." : "", req->resource->group, req->name,
			   why));
	return root;
}

void sim_reply_err(struct sim_request *req, struct jmut_doc *doc, const struct err *err,
		   struct jmut *causes)
{
	answer(req, err->code, sim_status(doc, req, err, causes), err->retry_after_ms / 1000);
}

void sim_reply_object(struct sim_request *req, int status, const struct sim_object *o)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *table;

	if (!req->table) {
		sim_reply(req, status, jmut_copy(doc, sim_object_json(o)));
		return;
	}
	table = sim_table(req->api, doc, o->resource);
	sim_table_add(req->api, doc, table, o, req->include_object);
	sim_reply(req, status, table);
}

/* ---- reading a request ---- */

static char *decoded(struct str s, bool query)
{
	struct buf b = BUF_INIT(65536);
	char *z;

	fault_alloc_spare(true);
	z = http_unescape(&b, s, query, NULL) == 0 ? buf_steal(&b, NULL) : xstrdup("");
	fault_alloc_spare(false);
	buf_done(&b);
	return z;
}

static bool is_true(struct str s)
{
	return str_eqz(s, "true") || str_eqz(s, "1") || s.len == 0;
}

static int64_t number(struct str s)
{
	int64_t n;

	return str_to_int(s, 0, INT32_MAX, &n, NULL) < 0 ? -1 : n;
}

static void take_text(char **field, struct str value)
{
	free(*field);
	*field = decoded(value, true);
}

bool sim_request_query(struct sim_request *req)
{
	struct http_query_iter it = HTTP_QUERY_ITER(req->ex->query);
	bool watch = false;

	while (http_query_next(&it)) {
		if (str_eqz(it.name, "watch"))
			watch = is_true(it.value);
		else if (str_eqz(it.name, "labelSelector"))
			take_text(&req->labels, it.value);
		else if (str_eqz(it.name, "fieldSelector"))
			take_text(&req->fields, it.value);
		else if (str_eqz(it.name, "resourceVersion"))
			take_text(&req->version, it.value);
		else if (str_eqz(it.name, "continue"))
			take_text(&req->continue_token, it.value);
		else if (str_eqz(it.name, "fieldValidation"))
			take_text(&req->field_validation, it.value);
		else if (str_eqz(it.name, "includeObject"))
			take_text(&req->include_object, it.value);
		else if (str_eqz(it.name, "limit"))
			req->limit = number(it.value);
		else if (str_eqz(it.name, "timeoutSeconds"))
			req->timeout_s = number(it.value);
		else if (str_eqz(it.name, "gracePeriodSeconds"))
			req->grace_s = number(it.value);
		else if (str_eqz(it.name, "allowWatchBookmarks"))
			req->bookmarks = is_true(it.value);
		else if (str_eqz(it.name, "dryRun"))
			req->dry_run = true;
	}
	return watch;
}

bool sim_request_path(struct sim_request *req)
{
	struct http_path_iter it = HTTP_PATH_ITER(req->ex->path);
	char *words[8] = {0};
	size_t n = 0, at;
	struct str group, version;
	bool nowhere = false;

	while (n < 8 && http_path_next(&it))
		words[n++] = decoded(it.segment, false);
	at = n && strcmp(words[0], "api") == 0 ? 2 : 3;
	group = at == 2 ? STR_NULL : str_of(n > 1 ? words[1] : "");
	version = str_of(n >= at ? words[at - 1] : "");
	if (n > at + 2 && strcmp(words[at], "namespaces") == 0 &&
	    sim_resource_find(group, str_of(words[at + 2]))) {
		req->ns = xstrdup(words[at + 1]);
		nowhere = !req->ns[0]; /* a namespace without a name isn't all of them */
		at += 2;
	}
	if (n > at) {
		req->resource = sim_resource_find(group, str_of(words[at]));
		req->name = xstrdup(n > at + 1 ? words[at + 1] : "");
		req->subresource = xstrdup(n > at + 2 ? words[at + 2] : "");
	}
	if (nowhere || (req->resource && !str_eqz(version, req->resource->version)))
		req->resource = NULL;
	if (!req->ns)
		req->ns = xstrdup("");
	if (!req->name)
		req->name = xstrdup("");
	if (!req->subresource)
		req->subresource = xstrdup("");
	for (size_t i = 0; i < n; i++)
		free(words[i]);
	return req->resource != NULL;
}

static bool is_stream(const char *subresource)
{
	return strcmp(subresource, "exec") == 0 || strcmp(subresource, "attach") == 0;
}

static bool read_verb(struct sim_request *req, bool watch)
{
	bool named = req->name[0] != '\0', proxy = strcmp(req->subresource, "proxy") == 0;
	bool asks = strcmp(req->subresource, "token") == 0 ||
		    strcmp(req->subresource, "eviction") == 0;
	bool creates = req->resource->create_only || asks;

	if (creates && req->ex->method != HTTP_METHOD_POST)
		return false;
	switch (req->ex->method) {
	case HTTP_METHOD_GET:
	case HTTP_METHOD_HEAD:
		req->verb = watch ? SIM_WATCH : named ? SIM_GET : SIM_LIST;
		return true;
	case HTTP_METHOD_POST:
		req->verb = SIM_CREATE;
		return !named || proxy || asks || is_stream(req->subresource);
	case HTTP_METHOD_PUT:
		req->verb = SIM_UPDATE;
		return named;
	case HTTP_METHOD_PATCH:
		req->verb = SIM_PATCH;
		return named;
	case HTTP_METHOD_DELETE:
		req->verb = named ? SIM_DELETE : SIM_DELETE_COLLECTION;
		return true;
	default:
		return false;
	}
}

static bool wants_table(const struct http_exchange *ex)
{
	struct str accept = http_headers_get(ex->headers, "Accept"), first, rest;

	str_cut(accept, ',', &first, &rest);
	return memmem(first.p ? first.p : "", first.len, "as=Table", strlen("as=Table")) != NULL;
}

static void count_request(const struct sim_request *req)
{
	CLEANUP_FREE char *key = xasprintf("%s %s%s%s", verb_names[req->verb],
					   req->resource->plural, req->subresource[0] ? "/" : "",
					   req->subresource);
	int64_t *n = map_get(req->api->counts, str_of(key));

	if (!n) {
		n = xcalloc(1, sizeof(*n));
		map_put(req->api->counts, str_of(key), n);
	}
	++*n;
}

static bool is_allowed(const struct sim_request *req)
{
	struct str auth = http_headers_get(req->ex->headers, "Authorization");
	CLEANUP_FREE char *wanted = xasprintf("Bearer %s", req->api->token);

	if (!req->api->token[0] || str_eqz(auth, wanted))
		return true;
	if (!str_has_prefix(auth, STR("Bearer ")))
		return false;
	return sim_token_is_good(req->api, (struct str){auth.p + 7, auth.len - 7});
}

static void refuse(struct sim_request *req, enum err_kind kind, int code, const char *message)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct err err;

	err_set(&err, kind, code, "%s", message);
	sim_reply_err(req, doc, &err, NULL);
}

static bool has_subresource(const struct sim_request *req)
{
	const char *sub = req->subresource;

	if (strcmp(sub, "token") == 0)
		return req->name[0] && strcmp(req->resource->kind, "ServiceAccount") == 0;
	if (is_stream(sub) || strcmp(sub, "log") == 0)
		return req->name[0] && strcmp(req->resource->kind, "Pod") == 0 && req->api->run;
	if (strcmp(sub, "eviction") == 0)
		return req->name[0] && strcmp(req->resource->kind, "Pod") == 0;
	return !sub[0] || (strcmp(sub, "status") == 0 && req->resource->has_status) ||
	       (strcmp(sub, "scale") == 0 && req->resource->has_scale) ||
	       (strcmp(sub, "proxy") == 0 && strcmp(req->resource->plural, "services") == 0 &&
		req->api->http);
}

static void serve(struct sim_request *req)
{
	bool watch = sim_request_query(req);

	if (!is_allowed(req)) {
		refuse(req, ERR_DENIED, 401, "Unauthorized");
	} else if (str_eqz(req->ex->path, "/apis") && suffer(req)) {
		return;
	} else if (sim_discovery(req->api, req->ex)) {
		return;
	} else if (!sim_request_path(req) || !has_subresource(req)) {
		req->resource = NULL;
		refuse(req, ERR_NOT_FOUND, 404, "the server could not find the requested resource");
	} else if (!read_verb(req, watch)) {
		refuse(req, ERR_UNSUPPORTED, 405,
		       "the server does not allow this method on the requested resource");
	} else {
		count_request(req);
		if (suffer(req))
			return;
		if (strcmp(req->subresource, "proxy") == 0)
			sim_forward(req);
		else if (strcmp(req->subresource, "eviction") == 0)
			sim_evict(req);
		else if (is_stream(req->subresource))
			sim_stream(req);
		else if (strcmp(req->subresource, "log") == 0)
			sim_pod_log(req);
		else if (req->verb == SIM_GET || req->verb == SIM_LIST || req->verb == SIM_WATCH)
			sim_read(req);
		else
			sim_write(req);
	}
}

void sim_request_free(struct sim_request *req)
{
	for (size_t i = 0; i < req->warnings.n; i++)
		free(req->warnings.items[i]);
	free(req->warnings.items);
	free(req->ns);
	free(req->name);
	free(req->subresource);
	free(req->labels);
	free(req->fields);
	free(req->version);
	free(req->continue_token);
	free(req->field_validation);
	free(req->include_object);
	free(req);
}

/* Answered here, or held by who answers later: then it may be gone already. */
void sim_api_handle(struct http_exchange *ex, void *arg)
{
	struct sim_request *req = xcalloc(1, sizeof(*req));

	log_debug("api", ex->peer, "%s %.*s", http_method_name(ex->method), STR_ARG(ex->path));
	*req = (struct sim_request){
		.api = arg,
		.ex = ex,
		.labels = xstrdup(""),
		.fields = xstrdup(""),
		.version = xstrdup(""),
		.continue_token = xstrdup(""),
		.field_validation = xstrdup(""),
		.include_object = xstrdup(""),
		.limit = -1,
		.timeout_s = -1,
		.grace_s = -1,
		.table = wants_table(ex),
	};
	serve(req);
	if (!req->held)
		sim_request_free(req);
}

/* ---- life ---- */

struct sim_api *sim_api_new(struct loop *loop, struct sim_objects *objects,
			    const struct sim_schema *schema, const char *token)
{
	struct sim_api *api = xcalloc(1, sizeof(*api));

	api->loop = loop;
	api->objects = objects;
	api->schema = schema;
	api->token = xstrdup(token ? token : "");
	api->counts = map_new();
	list_init(&api->watches);
	list_init(&api->faults);
	list_init(&api->streams);
	sim_auth_init(api);
	return api;
}

void sim_api_use_run(struct sim_api *api, struct sim_run *run)
{
	api->run = run;
}

void sim_api_free(struct sim_api *api)
{
	struct map_iter it;

	if (!api)
		return;
	sim_streams_close(api);
	sim_api_clear_faults(api);
	sim_custom_clear();
	sim_auth_done(api);
	sim_webhooks_free(api->webhooks);
	http_client_free(api->http);
	it = (struct map_iter)MAP_ITER(api->counts);
	while (map_next(&it))
		free(it.value);
	map_free(api->counts);
	free(api->token);
	free(api);
}

void sim_api_cut_watches(struct sim_api *api)
{
	sim_watches_cut(api);
}

struct jmut *sim_api_stats(const struct sim_api *api, struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc), *requests = jmut_object(doc);
	struct map_iter it = MAP_ITER(api->counts);
	int64_t watches = 0;

	while (map_next(&it))
		jmut_setn(doc, requests, it.key, jmut_int(doc, *(int64_t *)it.value));
	LIST_FOREACH(pos, tmp, &api->watches)
		watches++;
	jmut_set(doc, root, "requests", requests);
	jmut_set_int(doc, root, "watches", watches);
	return root;
}
