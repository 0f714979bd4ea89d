/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata accessors, keys, versions, names; requests' paths; Status objects: tables.
 */
#include "kube/object.h"

#include "core/json.h"
#include "kube/client.h"
#include "kube/path.h"
#include "tap.h"

#define SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const char full[] =
	"{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u-1\",\"resourceVersion\":"
	"\"42\","
	"\"generation\":3,\"labels\":{\"x\":\"y\"},\"annotations\":{\"p\":\"q\"},"
	"\"creationTimestamp\":\"2024-03-01T10:00:00Z\",\"deletionTimestamp\":\"2024-03-01T10:00:"
	"30Z\","
	"\"finalizers\":[\"f1\",\"f2\"],\"ownerReferences\":[{\"uid\":\"o-1\",\"name\":\"first\"},"
	"{\"uid\":\"o-2\",\"name\":\"second\",\"controller\":true}]}}";

static void test_accessors(void)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	char key[KUBE_KEY_SIZE];
	if (!ok(json_parse(str_of(full), &doc, &err) == 0, "parsed"))
		return;
	const struct json *o = json_root(doc);
	ok(str_eqz(kube_name(o), "a"), "name");
	ok(str_eqz(kube_namespace(o), "n"), "namespace");
	ok(str_eqz(kube_uid(o), "u-1"), "uid");
	ok(str_eqz(kube_version(o), "42"), "resourceVersion");
	is_int(kube_generation(o), 3, "generation");
	ok(str_eqz(kube_label(o, "x"), "y"), "label");
	is_uint(kube_label(o, "none").len, 0, "no such label");
	ok(str_eqz(kube_annotation(o, "p"), "q"), "annotation");
	ok(kube_is_deleting(o), "is being deleted");
	is_int(kube_deletion_ms(o) - kube_creation_ms(o), 30000, "times");
	ok(kube_has_finalizer(o, "f2"), "finalizer");
	ok(!kube_has_finalizer(o, "f"), "no such finalizer");
	ok(str_eqz(json_str(json_get(kube_controller_ref(o), "name")), "second"), "controller");
	ok(kube_is_owned_by(o, STR("o-1")), "owned");
	ok(!kube_is_owned_by(o, STR("o-3")), "not owned");
	ok(!kube_is_owned_by(o, STR("")), "nobody owns by an empty UID");
	ok(str_eqz(kube_object_key(o, key), "n/a"), "key");
	ok(kube_name(NULL).len == 0 && kube_generation(NULL) == 0 && !kube_is_deleting(NULL) &&
		   kube_deletion_ms(NULL) == 0 && !kube_controller_ref(NULL),
	   "of nothing: nothing");

	CLEANUP_JMUT struct jmut_doc *out = jmut_doc_new();
	struct jmut *meta = jmut_object(out);
	struct buf text = BUF_INIT(1000);
	kube_set_owner(out, meta, "v1", "Pod", "p", "u");
	is_int(jmut_write(meta, JSON_COMPACT, &text, &err), 0, "written");
	ok(str_eqz(buf_str(&text),
		   "{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"u\","
		   "\"controller\":true,\"blockOwnerDeletion\":true}]}"),
	   "owner reference");
	buf_done(&text);
}

static void test_keys(void)
{
	char key[KUBE_KEY_SIZE], long_name[400];
	struct str ns, name;
	ok(str_eqz(kube_key(STR("n"), STR("a"), key), "n/a"), "namespaced");
	ok(str_eqz(kube_key(STR(""), STR("a"), key), "a"), "not namespaced");
	is_uint(kube_key(STR("n"), STR(""), key).len, 0, "no name, no key");
	memset(long_name, 'a', sizeof(long_name));
	is_uint(kube_key(STR("n"), (struct str){long_name, 316}, key).len, 0, "too long");
	is_uint(kube_key(STR("n"), (struct str){long_name, 253}, key).len, 255,
		"as long as it may be");
	kube_key_split(STR("n/a"), &ns, &name);
	ok(str_eqz(ns, "n") && str_eqz(name, "a"), "split");
	kube_key_split(STR("a"), &ns, &name);
	ok(ns.len == 0 && str_eqz(name, "a"), "split without namespace");
}

static void test_versions(void)
{
	static const struct {
		const char *a, *b;
		int want;
	} rows[] = {
		{"1", "1", 0},   {"1", "2", -1},
		{"10", "9", 1},  {"9", "10", -1},
		{"007", "7", 0}, {"18446744073709551616", "18446744073709551615", 1},
		{"a", "a", 0},   {"a", "b", 1},
		{"1", "b", 1},   {"", "1", 1},
	};
	for (size_t i = 0; i < SIZE(rows); i++)
		is_int(kube_version_cmp(str_of(rows[i].a), str_of(rows[i].b)), rows[i].want,
		       "%s and %s", rows[i].a, rows[i].b);
}

static void test_names(void)
{
	static const struct {
		const char *s;
		bool label, subdomain, key, value;
	} rows[] = {
		{"a", true, true, true, true},
		{"a-b", true, true, true, true},
		{"a.b", false, true, true, true},
		{"A", false, false, true, true},
		{"a_b", false, false, true, true},
		{"-a", false, false, false, false},
		{"a-", false, false, false, false},
		{"a..b", false, false, true, true},
		{"a.", false, false, false, false},
		{"", false, false, false, true},
		{"a b", false, false, false, false},
		{"graphcore.ai/job", false, false, true, false},
		{"/job", false, false, false, false},
		{"a/", false, false, false, false},
		{"a/b/c", false, false, false, false},
		{"0", true, true, true, true},
		{"\xc3\xa9", false, false, false, false},
	};
	char z64[65], z254[255];
	memset(z64, 'a', 64);
	memset(z254, 'a', 254);
	z64[64] = z254[254] = '\0';
	for (size_t i = 0; i < SIZE(rows); i++) {
		struct str s = str_of(rows[i].s);
		row_begin("name \"%s\"", rows[i].s);
		is_int(kube_is_dns1123_label(s), rows[i].label, "label");
		is_int(kube_is_dns1123_subdomain(s), rows[i].subdomain, "subdomain");
		is_int(kube_is_label_key(s), rows[i].key, "label's key");
		is_int(kube_is_label_value(s), rows[i].value, "label's value");
	}
	row_end();
	ok(!kube_is_dns1123_label(str_of(z64)), "64 are too many for a label");
	ok(kube_is_dns1123_label((struct str){z64, 63}), "63 aren't");
	ok(!kube_is_dns1123_subdomain(str_of(z254)), "254 are too many for a subdomain");
	ok(!kube_is_label_value(str_of(z64)), "64 are too many for a value");

	struct err err = ERR_INIT;
	is_int(kube_check_name("instance", STR("Foo"), false, &err), -1, "refused");
	is_int(err.kind, ERR_INVALID, "kind");
	is_str(err.msg,
	       "instance \"Foo\" isn't a valid name: lower-case letters, digits and '-' are "
	       "allowed, "
	       "with a letter or digit at both ends",
	       "what is wrong");
	is_int(kube_check_name("job", str_of(z64), false, &err), -1, "refused");
	has_str(err.msg, "has 64 characters; at most 63 are allowed", "too long");
	is_int(kube_check_name("job", STR("a.b"), true, &err), 0, "a subdomain is fine");
}

/* ---- paths ---- */

static const struct {
	const char *name;
	struct kube_request req;
	const char *prefix, *want, *error; /* one of the last two */
} path_rows[] = {
	{"a pod",
	 {.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = "n", .name = "p"},
	 "",
	 "/api/v1/namespaces/n/pods/p",
	 NULL},
	{"behind a prefix",
	 {.verb = KUBE_GET, .resource = &KUBE_NODES, .name = "n1"},
	 "/k8s/c-1",
	 "/k8s/c-1/api/v1/nodes/n1",
	 NULL},
	{"a status",
	 {.verb = KUBE_PATCH,
	  .resource = &KUBE_IPUJOBS,
	  .ns = "n",
	  .name = "j",
	  .subresource = "status"},
	 "",
	 "/apis/graphcore.ai/v1alpha1/namespaces/n/ipujobs/j/status",
	 NULL},
	{"a create",
	 {.verb = KUBE_CREATE, .resource = &KUBE_CONFIGMAPS, .ns = "n"},
	 "",
	 "/api/v1/namespaces/n/configmaps",
	 NULL},
	{"all namespaces",
	 {.verb = KUBE_LIST, .resource = &KUBE_PODS, .ns = ""},
	 "",
	 "/api/v1/pods",
	 NULL},
	{"selectors are escaped",
	 {.verb = KUBE_LIST,
	  .resource = &KUBE_PODS,
	  .label_selector = "a in (b,c),graphcore.ai/job=x&y",
	  .field_selector = "spec.nodeName=n+1"},
	 "",
	 "/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29%2Cgraphcore.ai%2Fjob%3Dx%26y"
	 "&fieldSelector=spec.nodeName%3Dn%2B1",
	 NULL},
	{"a page",
	 {.verb = KUBE_LIST, .resource = &KUBE_PODS, .limit = 500, .continue_token = "a/b="},
	 "",
	 "/api/v1/pods?limit=500&continue=a%2Fb%3D",
	 NULL},
	{"dry run",
	 {.verb = KUBE_CREATE,
	  .resource = &KUBE_PODS,
	  .ns = "n",
	  .dry_run = true,
	  .field_manager = "ipu"},
	 "",
	 "/api/v1/namespaces/n/pods?dryRun=All&fieldManager=ipu",
	 NULL},
	{"a name with odd characters",
	 {.verb = KUBE_GET, .resource = &KUBE_ROLES, .ns = "n", .name = "system:x y?z"},
	 "",
	 "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/system%3Ax%20y%3Fz",
	 NULL},
	{"a raw path", {.verb = KUBE_GET, .path = "/version"}, "/x", "/x/version", NULL},
	{"a slash in a name",
	 {.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = "n", .name = "a/b"},
	 "",
	 NULL,
	 "a name \"a/b\" may hold neither '/' nor '%'"},
	{"dots as a name",
	 {.verb = KUBE_DELETE, .resource = &KUBE_PODS, .ns = "n", .name = ".."},
	 "",
	 NULL,
	 "\"..\" can't be a name"},
	{"dots as a namespace",
	 {.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = ".", .name = "a"},
	 "",
	 NULL,
	 "\".\" can't be a namespace"},
	{"no name",
	 {.verb = KUBE_DELETE, .resource = &KUBE_PODS, .ns = "n"},
	 "",
	 NULL,
	 "no name of the Pod was given"},
	{"no namespace",
	 {.verb = KUBE_GET, .resource = &KUBE_PODS, .name = "a"},
	 "",
	 NULL,
	 "no namespace of the Pod was given"},
	{"a relative path",
	 {.verb = KUBE_GET, .path = "version"},
	 "",
	 NULL,
	 "path \"version\" isn't absolute"},
};

static void test_paths(void)
{
	for (size_t i = 0; i < SIZE(path_rows); i++) {
		struct buf out = BUF_INIT(4096);
		struct err err = ERR_INIT;
		row_begin("path, %s", path_rows[i].name);
		int rc = kube_path_build(path_rows[i].prefix, &path_rows[i].req, &out, &err);
		if (path_rows[i].want) {
			is_int(rc, 0, "built");
			is_mem(out.p, out.len, path_rows[i].want, strlen(path_rows[i].want),
			       "the path");
		} else {
			is_int(rc, -1, "refused");
			is_int(err.kind, ERR_INVALID, "kind");
			is_str(err.msg, path_rows[i].error, "what is wrong");
		}
		buf_done(&out);
	}
	row_end();
	char version[KUBE_API_VERSION_SIZE];
	is_str(kube_api_version(&KUBE_PODS, version), "v1", "core's apiVersion");
	is_str(kube_api_version(&KUBE_IPUJOBS, version), "graphcore.ai/v1alpha1",
	       "a group's apiVersion");
}

/* ---- Status ---- */

#define OUR_TOKEN "an-opaque-token-of-ours"
#define STATUS(code, reason, rest)                                                                 \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":" #code ",\"reason\":\"" reason      \
	"\"" rest "}"

static const struct {
	const char *name;
	int http;
	const char *body; /* NULL: no JSON */
	unsigned retry_after_ms;
	enum err_kind kind;
	int code;
	unsigned want_retry_ms;
	bool maybe;
	const char *msg;
} status_rows[] = {
	{"not found", 404, STATUS(404, "NotFound", ",\"message\":\"pods \\\"x\\\" not found\""), 0,
	 ERR_NOT_FOUND, 404, 0, false, "pods \"x\" not found"},
	{"exists", 409, STATUS(409, "AlreadyExists", ",\"message\":\"m\""), 0, ERR_EXISTS, 409, 0,
	 false, "m"},
	{"conflict", 409, STATUS(409, "Conflict", ",\"message\":\"m\""), 0, ERR_CONFLICT, 409, 0,
	 false, "m"},
	{"conflict without a reason", 409, NULL, 0, ERR_CONFLICT, 409, 0, false,
	 "the API server answered 409"},
	{"gone", 410, STATUS(410, "Gone", ",\"message\":\"m\""), 0, ERR_GONE, 410, 0, false, "m"},
	{"expired", 410, STATUS(410, "Expired", ",\"message\":\"m\""), 0, ERR_GONE, 410, 0, false,
	 "m"},
	{"unauthorized", 401, STATUS(401, "Unauthorized", ",\"message\":\"Unauthorized\""), 0,
	 ERR_DENIED, 401, 0, false, "Unauthorized"},
	{"forbidden", 403, STATUS(403, "Forbidden", ",\"message\":\"no\""), 0, ERR_DENIED, 403, 0,
	 false, "no"},
	{"invalid", 422, STATUS(422, "Invalid", ",\"message\":\"spec.x: bad\""), 0, ERR_INVALID,
	 422, 0, false, "spec.x: bad"},
	{"invalid, since it's another object", 422,
	 STATUS(422, "Invalid",
		",\"message\":\"metadata.uid: is immutable\",\"details\":{\"causes\":["
		"{\"reason\":\"FieldValueInvalid\",\"field\":\"metadata.uid\"}]}"),
	 0, ERR_CONFLICT, 422, 0, false, "metadata.uid: is immutable"},
	{"invalid, another field", 422,
	 STATUS(422, "Invalid",
		",\"message\":\"m\",\"details\":{\"causes\":[{\"field\":\"spec.uid\"}]}"),
	 0, ERR_INVALID, 422, 0, false, "m"},
	{"bad request", 400, STATUS(400, "BadRequest", ",\"message\":\"m\""), 0, ERR_INVALID, 400,
	 0, false, "m"},
	{"too large", 413, STATUS(413, "RequestEntityTooLarge", ",\"message\":\"m\""), 0, ERR_LIMIT,
	 413, 0, false, "m"},
	{"media type", 415, STATUS(415, "UnsupportedMediaType", ",\"message\":\"m\""), 0,
	 ERR_UNSUPPORTED, 415, 0, false, "m"},
	{"busy, by the header", 429, STATUS(429, "TooManyRequests", ",\"message\":\"m\""), 2000,
	 ERR_BUSY, 429, 2000, false, "m"},
	{"busy, by the details", 429,
	 STATUS(429, "TooManyRequests", ",\"message\":\"m\",\"details\":{\"retryAfterSeconds\":3}"),
	 0, ERR_BUSY, 429, 3000, false, "m"},
	{"a very long wait", 429,
	 STATUS(429, "TooManyRequests",
		",\"message\":\"m\",\"details\":{\"retryAfterSeconds\":999999999999}"),
	 0, ERR_BUSY, 429, 3600000, false, "m"},
	{"internal", 500, STATUS(500, "InternalError", ",\"message\":\"m\""), 0, ERR_INTERNAL, 500,
	 0, true, "m"},
	{"server timeout", 500, STATUS(500, "ServerTimeout", ",\"message\":\"m\""), 0,
	 ERR_UNAVAILABLE, 500, 0, false, "m"},
	{"unavailable", 503, STATUS(503, "ServiceUnavailable", ",\"message\":\"m\""), 0,
	 ERR_UNAVAILABLE, 503, 0, false, "m"},
	{"a gateway's 502", 502, NULL, 0, ERR_UNAVAILABLE, 502, 0, true,
	 "the API server answered 502"},
	{"timeout", 504, STATUS(504, "Timeout", ",\"message\":\"m\""), 0, ERR_TIMEOUT, 504, 0, true,
	 "m"},
	{"an ERROR event", 0,
	 STATUS(410, "Expired", ",\"message\":\"too old resource version: 5 (9)\""), 0, ERR_GONE,
	 410, 0, false, "too old resource version: 5 (9)"},
	{"an ERROR event that isn't one", 0, "{\"kind\":\"Pod\"}", 0, ERR_INTERNAL, 500, 0, true,
	 "the API server answered 500"},
	{"a redirect", 302, NULL, 0, ERR_PROTOCOL, 302, 0, false, "the API server answered 302"},
	{"an ERROR event that says all is well", 0, STATUS(200, "", ",\"message\":\"m\""), 0,
	 ERR_PROTOCOL, 200, 0, false, "m"},
	{"a precondition", 412, NULL, 0, ERR_CONFLICT, 412, 0, false,
	 "the API server answered 412"},
	{"a request that is said again", 403,
	 STATUS(403, "Forbidden", ",\"message\":\"denied: Authorization: Bearer abc\""), 0,
	 ERR_DENIED, 403, 0, false, "denied: Authorization:"},
	{"a token that was to be reviewed", 422,
	 STATUS(422, "Invalid", ",\"message\":\"eyJhbGciOi is invalid\""), 0, ERR_INVALID, 422, 0,
	 false, "the API server answered 422 Invalid"},
	{"our own token, without a scheme", 403,
	 STATUS(403, "Forbidden", ",\"message\":\"nobody has " OUR_TOKEN " here\""), 0, ERR_DENIED,
	 403, 0, false, "nobody has"},
	{"our own token as a reason", 403, STATUS(403, OUR_TOKEN, ""), 0, ERR_DENIED, 403, 0, false,
	 "the API server answered 403"},
	{"a reason alone", 418, STATUS(418, "Teapot", ""), 0, ERR_INVALID, 418, 0, false,
	 "the API server answered 418 Teapot"},
	{"JSON, but no Status", 404, "{\"message\":\"x\"}", 0, ERR_NOT_FOUND, 404, 0, false,
	 "the API server answered 404"},
	{"members of other types", 404,
	 "{\"kind\":\"Status\",\"message\":7,\"reason\":[],\"code\":\"x\"}", 0, ERR_NOT_FOUND, 404,
	 0, false, "the API server answered 404"},
};

static void test_status(void)
{
	for (size_t i = 0; i < SIZE(status_rows); i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct err err = ERR_INIT;
		row_begin("Status, %s", status_rows[i].name);
		if (status_rows[i].body && json_parse(str_of(status_rows[i].body), &doc, &err) < 0)
			fail("the row's JSON: %s", err.msg);
		is_int(kube_status_decode(status_rows[i].http, doc ? json_root(doc) : NULL,
					  status_rows[i].retry_after_ms, STR(OUR_TOKEN), &err),
		       -1, "an error");
		is_int(err.kind, status_rows[i].kind, "kind");
		is_int(err.code, status_rows[i].code, "code");
		is_uint(err.retry_after_ms, status_rows[i].want_retry_ms, "retry-after");
		is_int(err.maybe_applied, status_rows[i].maybe, "maybe applied");
		is_str(err.msg, status_rows[i].msg, "message");
	}
	row_end();

	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	if (json_parse(STR(STATUS(404, "NotFound", ",\"message\":\"no train-0\"")), &doc, &err) < 0)
		bail_out(err.msg);
	kube_status_decode(404, json_root(doc), 0, STR("train"), &err);
	is_str(err.msg, "no train-0", "a token that may be any word");
}

int main(void)
{
	test_accessors();
	test_keys();
	test_versions();
	test_names();
	test_paths();
	test_status();
	return done_testing();
}
