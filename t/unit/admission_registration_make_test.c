/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the webhook configurations should say, and the patches that make them say it: tables.
 */
#include "tap.h"

#include <stdlib.h>

#include "admission/registration.h"
#include "core/buf.h"
#include "core/fault.h"
#include "kube/object.h"

#define PEM(body) "-----BEGIN CERTIFICATE-----\n" body "\n-----END CERTIFICATE-----\n"
#define CA1       PEM("AAAA\nBBBB")
#define CA2       PEM("CCCC\nDDDD")
#define CA3       PEM("EEEE\nFFFF")
#define OUT       "https://ops.example:8443"

static const struct admission_webhooks chart = {.ns = "ipu-operator"};
static const struct admission_webhooks outside = {
	.url = OUT, .ns = "ipu-operator", .failure_policy = "Fail", .timeout_s = 30};

static char *text_of(const struct json *v)
{
	struct buf b = BUF_INIT(1 << 20);
	size_t len;

	if (json_write(v, JSON_COMPACT, &b, NULL) < 0)
		bail_out("JSON can't be written");
	return buf_steal(&b, &len);
}

static struct json_doc *parse(const char *text)
{
	struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(text), &doc, &err) < 0)
		bail_out(err.msg);
	return doc;
}

/* ---- bundles ---- */

static enum admission_match compare(struct jmut_doc *doc, const struct json *object,
				    const struct admission_webhooks *w, struct str ca_pem,
				    struct jmut **ret_ops)
{
	enum admission_match match = ADMISSION_MATCH_RIGHT;
	struct err err = ERR_INIT;

	ok(admission_registration_compare(doc, object, ADMISSION_MUTATING, w, ca_pem, &match,
					  ret_ops, &err) == 0,
	   "it can be judged");
	return match;
}

/* Two entries of ours and one of somebody else's; ca1, ca2: as PEM, NULL: no caBundle. */
static char *chart_object(const char *ca1, const char *ca2)
{
	CLEANUP_FREE char *one = ca1 ? base64_encode(ca1, strlen(ca1)) : NULL;
	CLEANUP_FREE char *two = ca2 ? base64_encode(ca2, strlen(ca2)) : NULL;

	return xasprintf(
		"{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"7\"},\"webhooks\":["
		"{\"name\":\"mipujob.graphcore.ai\",\"clientConfig\":{\"service\":{}%s%s%s}},"
		"{\"name\":\"their.example.org\",\"clientConfig\":{\"service\":{}}},"
		"{\"name\":\"mpod.graphcore.ai\",\"clientConfig\":{\"service\":{}%s%s%s}}]}",
		one ? ",\"caBundle\":\"" : "", one ? one : "", one ? "\"" : "",
		two ? ",\"caBundle\":\"" : "", two ? two : "", two ? "\"" : "");
}

static const struct {
	const char *name, *one, *two, *ours;
	enum admission_match want;
	size_t ops; /* 1: the version */
} bundles[] = {
	{"both are right", CA1, CA1, CA1, ADMISSION_MATCH_RIGHT, 0},
	{"nothing yet", NULL, NULL, CA1, ADMISSION_MATCH_EMPTY, 3},
	{"the chart's line break", "\n", "\n", CA1, ADMISSION_MATCH_EMPTY, 3},
	{"one of two", CA1, NULL, CA1, ADMISSION_MATCH_UNTRUSTED, 2},
	{"the other one", NULL, CA1, CA1, ADMISSION_MATCH_UNTRUSTED, 2},
	{"another authority", CA2, CA2, CA1, ADMISSION_MATCH_UNTRUSTED, 3},
	{"a certificate that is cut off", "-----BEGIN CERTIFICATE-----\nAAAA", NULL, CA1,
	 ADMISSION_MATCH_EMPTY, 3},
	{"the old authority, and we have a new one", CA1, CA1, CA2 CA1, ADMISSION_MATCH_NOW, 3},
	{"a newer one than ours, and ours", CA2 CA1, CA2 CA1, CA1, ADMISSION_MATCH_LATER, 3},
	{"one that is over", CA2 CA1, CA2 CA1, CA2, ADMISSION_MATCH_LATER, 3},
	{"only the new one, and we know the old one too", CA2, CA2, CA2 CA1, ADMISSION_MATCH_LATER,
	 3},
	{"the same in other lines", PEM("AAAABBBB"), CA1, CA1, ADMISSION_MATCH_LATER, 2},
	{"two bundles, none ours", CA2 CA3, CA3, CA1, ADMISSION_MATCH_UNTRUSTED, 3},
	{"the administrator's", CA2, NULL, "", ADMISSION_MATCH_RIGHT, 0},
};

static void test_bundles(void)
{
	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++) {
		CLEANUP_FREE char *text = chart_object(bundles[i].one, bundles[i].two);
		CLEANUP_JSON struct json_doc *object = parse(text);
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *ops = NULL;

		row_begin("%s", bundles[i].name);
		is_int(compare(doc, json_root(object), &chart, str_of(bundles[i].ours), &ops),
		       bundles[i].want, "the judgement");
		is_uint(jmut_len(ops), bundles[i].ops, "operations");
	}
	row_end();
}

/* A bundle that there's no memory to read is neither empty nor another authority's. */
static void test_memory(void)
{
	CLEANUP_FREE char *text = chart_object(CA2 CA1, CA2 CA1);
	CLEANUP_JSON struct json_doc *object = parse(text);
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	enum admission_match match = ADMISSION_MATCH_RIGHT;
	struct err err = ERR_INIT;
	struct jmut *ops = NULL;

	for (unsigned long n = 1; n <= 2; n++) {
		row_begin("no memory for bundle %lu", n);
		fault_alloc_fail_at(n);
		ok(admission_registration_compare(doc, json_root(object), ADMISSION_MUTATING,
						  &chart, STR(CA1), &match, &ops, &err) < 0,
		   "isn't judged");
		fault_alloc_fail_at(0);
		ok(err_is_no_memory(&err) && !ops, "for want of memory, and there's no patch");
	}
	is_int(compare(doc, json_root(object), &chart, STR(CA1), &ops), ADMISSION_MATCH_LATER,
	       "with memory it is");
	row_end();
}

static void test_patch(void)
{
	CLEANUP_FREE char *text = chart_object(CA1, CA2), *got = NULL, *want = NULL;
	CLEANUP_FREE char *encoded = base64_encode(CA1, strlen(CA1));
	CLEANUP_JSON struct json_doc *object = parse(text);
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *ops = NULL;

	row_begin("the patch");
	compare(doc, json_root(object), &chart, STR(CA1), &ops);
	got = text_of(jmut_view(ops));
	want = xasprintf(
		"[{\"op\":\"replace\",\"path\":\"/metadata/resourceVersion\",\"value\":\"7\"},"
		"{\"op\":\"add\",\"path\":\"/webhooks/2/clientConfig/caBundle\",\"value\":\"%s\"}]",
		encoded);
	is_str(got, want, "is of this version, and of one field");
	row_end();
}

/* ---- whole objects ---- */

static void test_make(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct admission_webhooks w = outside;
	const struct json *made, *pod;
	CLEANUP_FREE char *got = NULL, *encoded = base64_encode(CA1, strlen(CA1));
	CLEANUP_FREE char *want = xasprintf(
		"{\"name\":\"vipujob.graphcore.ai\",\"clientConfig\":{\"url\":\"" OUT
		"/base/validate-graphcore-ai-v1alpha1-ipujob\",\"caBundle\":\"%s\"},\"rules\":[{"
		"\"apiGroups\":[\"graphcore.ai\"],\"apiVersions\":[\"v1alpha1\"],"
		"\"operations\":[\"CREATE\",\"UPDATE\"],\"resources\":[\"ipujobs\"],"
		"\"scope\":\"Namespaced\"}],\"failurePolicy\":\"Ignore\","
		"\"matchPolicy\":\"Equivalent\",\"namespaceSelector\":{\"matchExpressions\":[{"
		"\"key\":\"kubernetes.io/metadata.name\",\"operator\":\"In\",\"values\":[\"a\","
		"\"b\"]}]},\"objectSelector\":{},\"sideEffects\":\"None\",\"timeoutSeconds\":7,"
		"\"admissionReviewVersions\":[\"v1\",\"v1beta1\"],\"matchConditions\":[{"
		"\"name\":\"not-in-deletion\",\"expression\":"
		"\"!has(object.metadata.deletionTimestamp)\"}]}",
		encoded);

	row_begin("the validating one");
	w.url = OUT "/base/";
	w.scope = " a,, b ";
	w.failure_policy = "Ignore";
	w.timeout_s = 7;
	made = jmut_view(
		admission_registration_make(doc, ADMISSION_VALIDATING, "v", &w, STR(CA1), NULL));
	is_str(json_cstr(json_get(made, "kind")), "ValidatingWebhookConfiguration", "kind");
	is_str(json_cstr(json_get(made, "apiVersion")), "admissionregistration.k8s.io/v1",
	       "version");
	is_str(json_cstr(json_at(made, "metadata", "name", NULL)), "v", "name");
	is_uint(json_len(json_get(made, "webhooks")), 1, "one entry");
	got = text_of(json_item(json_get(made, "webhooks"), 0));
	is_str(got, want, "all of it");
	row_begin("the mutating one");
	made = jmut_view(admission_registration_make(doc, ADMISSION_MUTATING, "m", &outside,
						     STR_NULL, NULL));
	is_uint(json_len(json_get(made, "webhooks")), 2, "two entries");
	pod = json_item(json_get(made, "webhooks"), 1);
	is_str(json_cstr(json_at(pod, "clientConfig", "url", NULL)), OUT "/mutate-v1-pod", "URL");
	ok(!json_at(pod, "clientConfig", "caBundle", NULL), "no bundle where none is ours");
	is_str(json_cstr(json_get(pod, "reinvocationPolicy")), "Never", "Pods are asked for once");
	free(got);
	got = text_of(json_at(pod, "namespaceSelector", "matchExpressions", NULL));
	is_str(got,
	       "[{\"key\":\"kubernetes.io/metadata.name\",\"operator\":\"NotIn\",\"values\":["
	       "\"kube-system\",\"ipu-operator\"]}]",
	       "which Pods are not");
	free(got);
	got = text_of(json_get(json_item(json_get(pod, "rules"), 0), "operations"));
	is_str(got, "[\"CREATE\"]", "what is created");
	is_str(json_cstr(json_get(json_item(json_get(pod, "matchConditions"), 0), "expression")),
	       ADMISSION_CONDITION_POD, "and only on request");
	row_end();
}

/* A later API server's default, and what a person may do to an object of ours. */
static const struct {
	const char *name;
	const char *path; /* of the merge: a member of the first webhook */
	const char *value;
	enum admission_match want;
} edits[] = {
	{"as it was made", NULL, NULL, ADMISSION_MATCH_RIGHT},
	{"a field that isn't known", "later", "\"x\"", ADMISSION_MATCH_RIGHT},
	{"an empty selector is left out", "objectSelector", NULL, ADMISSION_MATCH_RIGHT},
	{"another policy", "failurePolicy", "\"Ignore\"", ADMISSION_MATCH_NOW},
	{"another time", "timeoutSeconds", "10", ADMISSION_MATCH_NOW},
	{"a selector", "objectSelector", "{\"matchLabels\":{\"a\":\"b\"}}", ADMISSION_MATCH_NOW},
	{"conditions gone", "matchConditions", NULL, ADMISSION_MATCH_NOW},
	{"a Service instead", "clientConfig",
	 "{\"service\":{\"name\":\"x\",\"namespace\":\"y\",\"port\":443}}",
	 ADMISSION_MATCH_UNTRUSTED},
	{"another name", "name", "\"x.graphcore.ai\"", ADMISSION_MATCH_NOW},
};

static void test_compare(void)
{
	for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *out = jmut_doc_new();
		struct jmut *object = admission_registration_make(doc, ADMISSION_MUTATING, "m",
								  &outside, STR(CA1), NULL);
		struct jmut *first = jmut_item(jmut_get(object, "webhooks"), 0), *ops;
		CLEANUP_JSON struct json_doc *value = edits[i].value ? parse(edits[i].value) : NULL;

		row_begin("%s", edits[i].name);
		if (value)
			jmut_set(doc, first, edits[i].path, jmut_copy(doc, json_root(value)));
		else if (edits[i].path)
			jmut_del(first, edits[i].path);
		is_int(compare(out, jmut_view(object), &outside, STR(CA1), &ops), edits[i].want,
		       "the judgement");
		is_uint(jmut_len(ops), edits[i].want == ADMISSION_MATCH_RIGHT ? 0 : 2,
			"operations");
		if (edits[i].want != ADMISSION_MATCH_RIGHT)
			is_str(json_cstr(json_get(json_item(jmut_view(ops), 1), "path")),
			       "/webhooks", "all entries are written");
	}
	row_begin("a bundle that is the administrator's");
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *out = jmut_doc_new();
	struct jmut *object = admission_registration_make(doc, ADMISSION_MUTATING, "m", &outside,
							  STR(CA1), NULL),
		    *ops;
	is_int(compare(out, jmut_view(object), &outside, STR_NULL, &ops), ADMISSION_MATCH_RIGHT,
	       "is right as it is");
	jmut_set_int(doc, jmut_item(jmut_get(object, "webhooks"), 1), "timeoutSeconds", 1);
	is_int(compare(out, jmut_view(object), &outside, STR_NULL, &ops), ADMISSION_MATCH_NOW,
	       "another field isn't");
	CLEANUP_FREE char *encoded = base64_encode(CA1, strlen(CA1));
	const struct json *made = json_item(json_get(json_item(jmut_view(ops), 1), "value"), 0);
	is_str(json_cstr(json_at(made, "clientConfig", "caBundle", NULL)), encoded,
	       "and the bundle stays");
	row_end();
}

int main(void)
{
	test_bundles();
	test_memory();
	test_patch();
	test_make();
	test_compare();
	return done_testing();
}
