/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdmissionReviews as API servers send them, bad ones, and the answers.
 */
#include "admission/review.h"
#include "core/str.h"
#include "tap.h"
#include "no_memory.h"

#define V1      "\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\""
#define V1BETA1 "\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\""
#define KIND    "\"kind\":{\"group\":\"graphcore.ai\",\"version\":\"v1alpha1\",\"kind\":\"IPUJob\"}"
#define RESOURCE                                                                                   \
	"\"resource\":{\"group\":\"graphcore.ai\",\"version\":\"v1alpha1\",\"resource\":\"ipujobs\"}"
#define USER                                                                                       \
	"\"userInfo\":{\"username\":\"system:serviceaccount:ml:builder\",\"uid\":\"u1\","          \
	"\"groups\":[\"system:authenticated\"],\"extra\":{\"a\":[\"b\"]}}"
#define REQUEST(more) "{" V1 ",\"request\":{\"uid\":\"r1\"," KIND "," RESOURCE "," USER more "}}"

static const struct {
	const char *name, *body, *error; /* error NULL: decoded */
} bad[] = {
	{"empty", "", ""},
	{"garbage", "POST / HTTP/1.1", ""},
	{"half", "{" V1 ",\"request\":{\"uid\":\"r1\"", ""},
	{"an array", "[]", "this isn't an AdmissionReview"},
	{"another kind", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}",
	 "this isn't an AdmissionReview"},
	{"a version to come",
	 "{\"apiVersion\":\"admission.k8s.io/v2\",\"kind\":\"AdmissionReview\"}",
	 "apiVersion must be admission.k8s.io/v1 or admission.k8s.io/v1beta1"},
	{"no request", "{" V1 "}", "request must be an object"},
	{"a response", "{" V1 ",\"response\":{\"uid\":\"r1\"}}", "request must be an object"},
	{"request is a list", "{" V1 ",\"request\":[]}", "request must be an object"},
	{"no uid", "{" V1 ",\"request\":{}}", "request.uid must be a string that isn't empty"},
	{"empty uid", "{" V1 ",\"request\":{\"uid\":\"\"}}",
	 "request.uid must be a string that isn't empty"},
	{"uid is a number", "{" V1 ",\"request\":{\"uid\":7}}",
	 "request.uid must be a string that isn't empty"},
	{"no operation", REQUEST(""),
	 "request.operation must be CREATE, UPDATE, DELETE or CONNECT"},
	{"another operation", REQUEST(",\"operation\":\"PATCH\""),
	 "request.operation must be CREATE, UPDATE, DELETE or CONNECT"},
	{"create without object", REQUEST(",\"operation\":\"CREATE\""),
	 "request.object is missing: operation=CREATE"},
	{"create with null", REQUEST(",\"operation\":\"CREATE\",\"object\":null"),
	 "request.object is missing: operation=CREATE"},
	{"object is a string", REQUEST(",\"operation\":\"CREATE\",\"object\":\"x\""),
	 "request.object must be an object, and is a string"},
	{"oldObject is a list", REQUEST(",\"operation\":\"UPDATE\",\"object\":{},\"oldObject\":[]"),
	 "request.oldObject must be an object, and is an array"},
	{"update without the old one", REQUEST(",\"operation\":\"UPDATE\",\"object\":{}"),
	 "request.oldObject is missing: operation=UPDATE"},
	{"create", REQUEST(",\"operation\":\"CREATE\",\"object\":{},\"oldObject\":null"), NULL},
	{"update", REQUEST(",\"operation\":\"UPDATE\",\"object\":{},\"oldObject\":{}"), NULL},
	{"delete", REQUEST(",\"operation\":\"DELETE\",\"object\":null,\"oldObject\":{}"), NULL},
	{"connect", REQUEST(",\"operation\":\"CONNECT\",\"object\":{}"), NULL},
	{"no user", "{" V1 ",\"request\":{\"uid\":\"r1\",\"operation\":\"DELETE\"}}", NULL},
};

static void test_bad(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct admission_review r = {0};
		struct err err = ERR_INIT;
		int rc = admission_review_decode(str_of(bad[i].body), &r, &err);

		row_begin("%s", bad[i].name);
		is_int(rc, bad[i].error ? -1 : 0, "result");
		if (bad[i].error && bad[i].error[0])
			is_str(err.msg, bad[i].error, "message");
		if (bad[i].error) {
			is_int(err.kind, ERR_INVALID, "kind");
			ok(!r.doc, "nothing is returned");
		}
		admission_review_done(&r);
	}
	row_end();
}

static void test_fields(void)
{
	struct admission_review r;
	struct err err;

	if (admission_review_decode(
		    STR(REQUEST(",\"operation\":\"UPDATE\",\"namespace\":\"ml\",\"name\":\"mnist\","
				"\"subResource\":\"scale\",\"dryRun\":true,"
				"\"object\":{\"metadata\":{\"name\":\"mnist\"}},"
				"\"oldObject\":{\"metadata\":{\"name\":\"old\"}}")),
		    &r, &err) < 0) {
		fail("%s", err.msg);
		return;
	}
	ok(!r.beta, "v1");
	is_str(r.uid, "r1", "uid");
	is_str(admission_operation_name(r.operation), "UPDATE", "operation");
	ok(r.dry_run, "dry run");
	is_str(r.group, "graphcore.ai", "group");
	is_str(r.version, "v1alpha1", "version");
	is_str(r.kind, "IPUJob", "kind");
	is_str(r.resource_group, "graphcore.ai", "resource's group");
	is_str(r.resource_version, "v1alpha1", "resource's version");
	is_str(r.resource, "ipujobs", "resource");
	is_str(r.subresource, "scale", "subresource");
	is_str(r.ns, "ml", "namespace");
	is_str(r.name, "mnist", "name");
	is_str(r.user.username, "system:serviceaccount:ml:builder", "user");
	is_str(r.user.uid, "u1", "user's uid");
	is_str(r.user.ns, "ml", "account's namespace");
	is_str(r.user.service_account, "builder", "account");
	is_str(r.user.pod_name, "", "no Pod");
	is_str(json_cstr(json_item(r.user.groups, 0)), "system:authenticated", "groups");
	is_str(json_cstr(json_item(json_get(r.user.extra, "a"), 0)), "b", "extra");
	is_str(json_cstr(json_at(r.object, "metadata", "name", NULL)), "mnist", "object");
	is_str(json_cstr(json_at(r.old_object, "metadata", "name", NULL)), "old", "old object");
	ok(!admission_review_is_deleting(&r), "isn't being deleted");
	admission_review_done(&r);
}

static void test_deleting(void)
{
	static const struct {
		const char *body;
		bool want;
	} rows[] = {
		{REQUEST(",\"operation\":\"UPDATE\",\"object\":{\"metadata\":{\"deletionTimestamp\":"
			 "\"2026-01-01T00:00:00Z\"}},\"oldObject\":{}"),
		 false}, /* only said so */
		{REQUEST(",\"operation\":\"UPDATE\",\"object\":{},\"oldObject\":{\"metadata\":{"
			 "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}"),
		 true},
		{REQUEST(",\"operation\":\"CREATE\",\"object\":{\"metadata\":{\"deletionTimestamp\":"
			 "\"2026-01-01T00:00:00Z\"}}"),
		 false},
		{REQUEST(",\"operation\":\"DELETE\",\"oldObject\":{\"metadata\":{"
			 "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}"),
		 true},
		{"{" V1 ",\"request\":{\"uid\":\"r1\",\"operation\":\"DELETE\"}}", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct admission_review r = {0};

		admission_review_decode(str_of(rows[i].body), &r, NULL);
		is_int(admission_review_is_deleting(&r), rows[i].want, "deleting: %zu", i);
		admission_review_done(&r);
	}
}

/* ---- answers ---- */

struct answer {
	struct buf text;
	struct json_doc *doc;
	const struct json *root, *response;
};

static struct answer answer(const char *body, const struct admission_findings *f,
			    const struct jmut *patch)
{
	struct answer a = {.text = BUF_INIT(1 << 20)};
	struct admission_review r = {0};
	struct err err = ERR_INIT;

	if (admission_review_decode(str_of(body), &r, &err) < 0 ||
	    admission_review_answer(&r, f, patch, &a.text, &err) < 0 ||
	    json_parse(buf_str(&a.text), &a.doc, &err) < 0)
		diag("%s", err.msg);
	a.root = json_root(a.doc);
	a.response = json_get(a.root, "response");
	admission_review_done(&r);
	return a;
}

static void answer_done(struct answer *a)
{
	json_doc_free(a->doc);
	buf_done(&a->text);
}

#define CREATE REQUEST(",\"operation\":\"CREATE\",\"name\":\"mnist\",\"object\":{}")

static void test_allowed(void)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct answer a = answer(CREATE, &f, NULL);

	is_str(json_cstr(json_get(a.root, "apiVersion")), "admission.k8s.io/v1", "version");
	is_str(json_cstr(json_get(a.root, "kind")), "AdmissionReview", "kind");
	is_str(json_cstr(json_get(a.response, "uid")), "r1", "uid");
	ok(json_bool(json_get(a.response, "allowed"), false), "allowed");
	is_uint(json_len(a.response), 2, "and nothing else");
	answer_done(&a);
	a = answer("{" V1BETA1 ",\"request\":{\"uid\":\"r2\",\"operation\":\"DELETE\"}}", &f, NULL);
	is_str(json_cstr(json_get(a.root, "apiVersion")), "admission.k8s.io/v1beta1",
	       "v1beta1 is answered as v1beta1");
	is_str(json_cstr(json_get(a.response, "uid")), "r2", "with its uid");
	answer_done(&a);
}

static void test_patch(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *ops = jmut_array(doc), *op = jmut_object(doc);
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	uint8_t *text = NULL;
	size_t len = 0;
	struct answer a;

	jmut_set_str(doc, op, "op", "remove");
	jmut_set_str(doc, op, "path", "/a");
	jmut_push(doc, ops, op);
	admission_warn(&f, "careful");
	a = answer(CREATE, &f, ops);
	is_str(json_cstr(json_get(a.response, "patchType")), "JSONPatch", "patch type");
	base64_decode(json_str(json_get(a.response, "patch")), &text, &len, NULL);
	is_str((char *)text, "[{\"op\":\"remove\",\"path\":\"/a\"}]", "patch");
	is_str(json_cstr(json_item(json_get(a.response, "warnings"), 0)), "careful",
	       "warnings beside it");
	free(text);
	answer_done(&a);
	admission_problem(&f, "spec", "Required", "is required");
	a = answer(CREATE, &f, ops);
	ok(!json_get(a.response, "patch") && !json_get(a.response, "patchType"),
	   "no patch with a refusal");
	is_str(json_cstr(json_item(json_get(a.response, "warnings"), 0)), "careful",
	       "but the warnings");
	answer_done(&a);
	admission_findings_done(&f);
}

static const struct {
	const char *name;
	const char *problems[3][3]; /* path, kind, message */
	size_t n;
	int code; /* of a denial; 0: none */
	const char *body, *want_message, *want_reason;
	int want_code;
} refusals[] = {
	{"one problem",
	 {{"spec.jobInstances", "Invalid", "must be at least 0"}},
	 1,
	 0,
	 CREATE,
	 "IPUJob.graphcore.ai \"mnist\" is invalid: spec.jobInstances: Invalid value: must be at least "
	 "0",
	 "Invalid",
	 422},
	{"several",
	 {{"spec.a", "Required", "is required"},
	  {"", "Forbidden", "no"},
	  {"x", "Too long", "long"}},
	 3,
	 0,
	 CREATE,
	 "IPUJob.graphcore.ai \"mnist\" is invalid: [spec.a: Required value: is required, Forbidden: "
	 "no, x: Too long: long]",
	 "Invalid",
	 422},
	{"a generated name",
	 {{"spec.a", "Unsupported", "must be one of A, B"}},
	 1,
	 0,
	 REQUEST(",\"operation\":\"CREATE\",\"object\":{\"metadata\":{\"generateName\":\"n-\"}}"),
	 "IPUJob.graphcore.ai \"n-\" is invalid: spec.a: Unsupported value: must be one of A, B",
	 "Invalid",
	 422},
	{"denied", {{0}}, 0, 403, CREATE, "jane may not", "Forbidden", 403},
	{"denied, with problems",
	 {{"spec.a", "Duplicate", "twice"}},
	 1,
	 403,
	 CREATE,
	 "jane may not; spec.a: Duplicate value: twice",
	 "Forbidden",
	 403},
	{"busy", {{0}}, 0, 503, CREATE, "jane may not", "ServiceUnavailable", 503},
	{"a code without a name", {{0}}, 0, 418, CREATE, "jane may not", "Forbidden", 418},
};

static void test_refusals(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct admission_findings f = ADMISSION_FINDINGS_INIT;
		const struct json *status, *causes;
		struct answer a;

		row_begin("%s", refusals[i].name);
		for (size_t k = 0; k < refusals[i].n; k++)
			admission_report(&f, refusals[i].problems[k][0], refusals[i].problems[k][1],
					 refusals[i].problems[k][2]);
		if (refusals[i].code)
			admission_deny(&f, refusals[i].code, "jane may not");
		a = answer(refusals[i].body, &f, NULL);
		status = json_get(a.response, "status");
		causes = json_at(status, "details", "causes", NULL);
		ok(!json_bool(json_get(a.response, "allowed"), true), "refused");
		is_str(json_cstr(json_get(status, "status")), "Failure", "status");
		is_str(json_cstr(json_get(status, "message")), refusals[i].want_message, "message");
		is_str(json_cstr(json_get(status, "reason")), refusals[i].want_reason, "reason");
		is_int(json_int(json_get(status, "code"), 0), refusals[i].want_code, "code");
		is_str(json_cstr(json_at(status, "details", "kind", NULL)), "IPUJob", "kind");
		is_str(json_cstr(json_at(status, "details", "group", NULL)), "graphcore.ai",
		       "group");
		is_uint(json_len(causes), refusals[i].n, "causes");
		if (refusals[i].n)
			is_str(json_cstr(json_get(json_item(causes, 0), "field")),
			       refusals[i].problems[0][0], "the first one's field");
		answer_done(&a);
		admission_findings_done(&f);
	}
	row_end();
}

static void test_causes(void)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	const struct json *cause;
	struct answer a;

	for (int i = 0; i < ADMISSION_MAX_PROBLEMS + 5; i++)
		admission_problem(&f, "spec.a", "Too long", "%d \"quoted\" \xff", i);
	a = answer(CREATE, &f, NULL);
	cause = json_item(json_at(a.response, "status", "details", "causes", NULL), 1);
	is_str(json_cstr(json_get(cause, "reason")), "FieldValueTooLong", "reason");
	is_str(json_cstr(json_get(cause, "message")), "Too long: 1 \"quoted\" \xef\xbf\xbd",
	       "message, in UTF-8");
	has_str(json_cstr(json_at(a.response, "status", "message", NULL)), ", and 5 more]",
		"what isn't listed is counted");
	answer_done(&a);
	admission_findings_done(&f);
}

static void test_limit(void)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct buf small = BUF_INIT(20);
	struct admission_review r = {0};
	struct err err = ERR_INIT;

	admission_review_decode(STR(CREATE), &r, NULL);
	is_int(admission_review_answer(&r, &f, NULL, &small, &err), -1, "no room");
	is_int(err.kind, ERR_LIMIT, "says so");
	admission_review_done(&r);
	buf_done(&small);
}

/* Each allocation whose size the peer decides fails once: the review isn't read, or not answered.
 */
static void test_memory(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *patch = jmut_array(doc);
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct no_memory m = {0};

	jmut_push(doc, patch, jmut_strz(doc, "of no account"));
	while (no_memory_next(&m)) {
		struct buf out = BUF_INIT(1 << 20);
		struct admission_review r = {0};
		struct err err = ERR_INIT;
		no_memory_begin(&m);
		int rc = admission_review_decode(STR(CREATE), &r, &err);
		if (rc == 0)
			rc = admission_review_answer(&r, &f, patch, &out, &err);
		no_memory_end(&m);
		is_int(rc, m.whole ? 0 : -1, "allocation %lu", m.n);
		is_int(err.kind, m.whole ? ERR_NONE : ERR_LIMIT, "says so");
		admission_review_done(&r);
		buf_done(&out);
	}
	no_memory_ok(&m, 4);
}

int main(void)
{
	test_bad();
	test_fields();
	test_deleting();
	test_allowed();
	test_patch();
	test_refusals();
	test_causes();
	test_limit();
	test_memory();
	return done_testing();
}
