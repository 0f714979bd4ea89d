/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a review: what isn't one is refused in words; what is one gets an answer that can be
 * read, under its uid and in its version, and its object a patch that leads to what it should be,
 * after which there is no other.
 */
#include "admission/job.h"
#include "admission/patch.h"
#include "admission/review.h"
#include "fuzz.h"
#include "pod/inject.h"
#include "sim/jsonpatch.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static const struct pod_inject_settings settings = {
	.mode = POD_MODE_GATE,
	.worker = {.host_network = true, .privileged = true, .launcher_image = "l"},
};

static void warn(void *arg, const char *warning)
{
	admission_warn(arg, "%s", warning);
}

static bool is_pod(const struct admission_review *r)
{
	return strcmp(r->kind, "Pod") == 0;
}

/* What should be, in doc; false: nothing is to be done. */
static bool make(const struct admission_review *r, const struct json *object, struct jmut_doc *doc,
		 struct admission_findings *f)
{
	struct err err = ERR_INIT;
	int rc;

	if (is_pod(r)) {
		rc = pod_inject(doc, object, TOKEN, &settings, warn, f, &err);
		if (rc < 0)
			admission_problem(f, "", "Invalid", "%s", err.msg);
		return rc > 0;
	}
	return admission_job_default(doc, r->old_object, object, &err) == 0;
}

static struct jmut *patch_of(const struct admission_review *r, struct jmut_doc *doc,
			     struct admission_findings *f)
{
	CLEANUP_JMUT struct jmut_doc *again = jmut_doc_new();
	struct jmut *ops = NULL, *root, *more = NULL;
	struct err err = ERR_INIT;

	if (!r->object || !make(r, r->object, doc, f))
		return NULL;
	if (admission_patch_make(doc, r->object, jmut_view(jmut_root(doc)), &ops, &err) < 0)
		return NULL;
	if (!ops)
		return NULL;
	root = jmut_copy(doc, r->object);
	MUST(sim_json_patch(doc, &root, jmut_view(ops), &err) == 0);
	MUST(json_equal(jmut_view(root), jmut_view(jmut_root(doc))));
	if (make(r, jmut_view(root), again, f)) {
		MUST(admission_patch_make(again, jmut_view(root), jmut_view(jmut_root(again)),
					  &more, &err) == 0);
		MUST(!more);
	}
	return ops;
}

static void check_answer(const struct admission_review *r, const struct admission_findings *f,
			 const struct jmut *patch)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct buf text = FUZZ_TEXT;
	struct err err = ERR_INIT;
	const struct json *response;

	MUST(admission_review_answer(r, f, patch, &text, &err) == 0);
	MUST(json_parse(buf_str(&text), &doc, &err) == 0);
	response = json_get(json_root(doc), "response");
	MUST(str_eqz(json_str(json_get(json_root(doc), "apiVersion")),
		     r->beta ? "admission.k8s.io/v1beta1" : "admission.k8s.io/v1"));
	MUST(str_eqz(json_str(json_get(response, "uid")), r->uid));
	MUST(json_bool(json_get(response, "allowed"), !admission_is_allowed(f)) ==
	     admission_is_allowed(f));
	MUST(!json_get(response, "status") == admission_is_allowed(f));
	MUST(!json_get(response, "patch") == !(patch && admission_is_allowed(f)));
	MUST(json_len(json_get(response, "warnings")) == f->n_warnings);
	buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct admission_job_view view = {.policy = NULL};
	struct admission_review r = {0};
	struct err err = ERR_INIT;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *patch;

	if (admission_review_decode(fuzz_str(p, len), &r, &err) < 0) {
		MUST((err.kind == ERR_INVALID || err.kind == ERR_LIMIT) && err.msg[0]);
		return 0;
	}
	MUST(r.uid[0] && r.group && r.version && r.kind && r.resource && r.subresource && r.ns &&
	     r.name && r.user.username && r.user.ns && r.user.service_account);
	patch = patch_of(&r, doc, &f);
	if (r.object && !is_pod(&r))
		admission_job_check(&view, r.old_object, r.object, &f);
	(void)admission_review_is_deleting(&r);
	check_answer(&r, &f, patch);
	admission_findings_done(&f);
	admission_review_done(&r);
	return 0;
}
