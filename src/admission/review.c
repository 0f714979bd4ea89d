/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdmissionReview, both versions: they differ in their apiVersion alone, as far as we read them.
 */
#include "admission/review.h"

#include <stdlib.h>
#include <string.h>

#include "kube/object.h"

#define API_V1      "admission.k8s.io/v1"
#define API_V1BETA1 "admission.k8s.io/v1beta1"
#define PATCH_LIMIT ((size_t)12 << 20)

static const char *const operations[] = {"CREATE", "UPDATE", "DELETE", "CONNECT"};

const char *admission_operation_name(enum admission_operation operation)
{
	return operations[operation];
}

/* ---- the request ---- */

static const char *text(const struct json *v)
{
	const char *z = json_cstr(v);

	return z ? z : "";
}

static int read_operation(const struct json *v, enum admission_operation *ret, struct err *err)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (str_eqz(json_str(v), operations[i])) {
			*ret = (enum admission_operation)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0,
		       "request.operation must be CREATE, UPDATE, DELETE or CONNECT");
}

static int read_object(const struct json *request, const char *key, const struct json **ret,
		       struct err *err)
{
	const struct json *v = json_get(request, key);
	enum json_type type = json_type(v);

	if (type != JSON_NONE && type != JSON_NULL && type != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "request.%s must be an object, and is %s", key,
			       json_type_name(type));
	*ret = type == JSON_OBJECT ? v : NULL;
	return 0;
}

static void read_names(struct admission_review *r, const struct json *request)
{
	const struct json *kind = json_get(request, "kind");
	const struct json *resource = json_get(request, "resource");

	r->group = text(json_get(kind, "group"));
	r->version = text(json_get(kind, "version"));
	r->kind = text(json_get(kind, "kind"));
	r->resource_group = text(json_get(resource, "group"));
	r->resource_version = text(json_get(resource, "version"));
	r->resource = text(json_get(resource, "resource"));
	r->subresource = text(json_get(request, "subResource"));
	r->ns = text(json_get(request, "namespace"));
	r->name = text(json_get(request, "name"));
	r->dry_run = json_bool(json_get(request, "dryRun"), false);
}

static int check_operands(const struct admission_review *r, struct err *err)
{
	if ((r->operation == ADMISSION_CREATE || r->operation == ADMISSION_UPDATE) && !r->object)
		return err_set(err, ERR_INVALID, 0, "request.object is missing: operation=%s",
			       operations[r->operation]);
	if (r->operation == ADMISSION_UPDATE && !r->old_object)
		return err_set(err, ERR_INVALID, 0,
			       "request.oldObject is missing: operation=UPDATE");
	return 0;
}

static int read_request(struct admission_review *r, const struct json *request, struct err *err)
{
	if (json_type(request) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "request must be an object");
	r->uid = text(json_get(request, "uid"));
	if (!r->uid[0])
		return err_set(err, ERR_INVALID, 0,
			       "request.uid must be a string that isn't empty");
	read_names(r, request);
	if (read_operation(json_get(request, "operation"), &r->operation, err) < 0 ||
	    read_object(request, "object", &r->object, err) < 0 ||
	    read_object(request, "oldObject", &r->old_object, err) < 0 ||
	    check_operands(r, err) < 0)
		return -1;
	kube_identity_init(&r->user, json_get(request, "userInfo"));
	return 0;
}

static int read_review(struct admission_review *r, struct err *err)
{
	const struct json *root = json_root(r->doc);
	struct str version = json_str(json_get(root, "apiVersion"));

	if (json_type(root) != JSON_OBJECT ||
	    !str_eqz(json_str(json_get(root, "kind")), "AdmissionReview"))
		return err_set(err, ERR_INVALID, 0, "this isn't an AdmissionReview");
	r->beta = str_eqz(version, API_V1BETA1);
	if (!r->beta && !str_eqz(version, API_V1))
		return err_set(err, ERR_INVALID, 0,
			       "apiVersion must be " API_V1 " or " API_V1BETA1);
	return read_request(r, json_get(root, "request"), err);
}

int admission_review_decode(struct str body, struct admission_review *ret, struct err *err)
{
	struct admission_review r = {0};

	if (json_parse(body, &r.doc, err) < 0)
		return -1;
	if (read_review(&r, err) < 0) {
		admission_review_done(&r);
		return -1;
	}
	*ret = r;
	return 0;
}

void admission_review_done(struct admission_review *r)
{
	json_doc_free(r->doc);
	kube_identity_done(&r->user);
	*r = (struct admission_review){0};
}

bool admission_review_is_deleting(const struct admission_review *r)
{
	return kube_is_deleting(r->old_object);
}

/* ---- the response ---- */

static const char *reason_of(int code)
{
	static const struct {
		int code;
		const char *reason;
	} reasons[] = {
		{400, "BadRequest"},    {401, "Unauthorized"},
		{403, "Forbidden"},     {404, "NotFound"},
		{409, "Conflict"},      {413, "RequestEntityTooLarge"},
		{422, "Invalid"},       {429, "TooManyRequests"},
		{500, "InternalError"}, {503, "ServiceUnavailable"},
		{504, "Timeout"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].code == code)
			return reasons[i].reason;
	}
	return "Forbidden";
}

/* "spec.x: Invalid value: must be …": as the API server words a field's error. */
static char *cause_text(const struct admission_cause *c, bool with_path)
{
	return xasprintf("%s%s%s: %s", with_path ? c->path : "",
			 with_path && c->path[0] ? ": " : "", admission_kind_text(c->kind),
			 c->message);
}

/* All causes in one line, in brackets where there are several, as Kubernetes joins errors. */
static int list_problems(const struct admission_findings *f, struct buf *out, struct err *err)
{
	bool many = f->n_problems + f->n_more > 1;

	if (many && buf_append(out, "[", 1, err) < 0)
		return -1;
	for (size_t i = 0; i < f->n_problems; i++) {
		CLEANUP_FREE char *z = cause_text(&f->problems[i], true);

		if (buf_printf(out, err, "%s%s", i ? ", " : "", z) < 0)
			return -1;
	}
	if (f->n_more && buf_printf(out, err, ", and %zu more", f->n_more) < 0)
		return -1;
	return many ? buf_append(out, "]", 1, err) : 0;
}

static const char *name_of(const struct admission_review *r)
{
	const char *z = json_cstr(json_at(r->object, "metadata", "generateName", NULL));

	return r->name[0] ? r->name : z ? z : "";
}

static int status_message(const struct admission_review *r, const struct admission_findings *f,
			  struct buf *out, struct err *err)
{
	if (f->denied && buf_printf(out, err, "%s", f->denied) < 0)
		return -1;
	if (!f->n_problems)
		return 0;
	if (f->denied ? buf_printf(out, err, "; ") < 0
		      : buf_printf(out, err, "%s%s%s \"%s\" is invalid: ", r->kind,
				   r->group[0] ? "." : "", r->group, name_of(r)) < 0)
		return -1;
	return list_problems(f, out, err);
}

static struct jmut *causes_of(struct jmut_doc *doc, const struct admission_findings *f)
{
	struct jmut *causes = jmut_array(doc);

	for (size_t i = 0; i < f->n_problems; i++) {
		CLEANUP_FREE char *z = cause_text(&f->problems[i], false);
		struct jmut *c = jmut_object(doc);

		jmut_add(doc, c, STR("reason"),
			 jmut_strz(doc, admission_kind_cause(f->problems[i].kind)));
		jmut_add(doc, c, STR("message"), jmut_strz(doc, z));
		jmut_add(doc, c, STR("field"), jmut_strz(doc, f->problems[i].path));
		jmut_push(doc, causes, c);
	}
	return causes;
}

/* metav1.Status. */
static int add_status(struct jmut_doc *doc, struct jmut *response, const struct admission_review *r,
		      const struct admission_findings *f, struct err *err)
{
	struct buf message = BUF_INIT(PATCH_LIMIT);
	struct jmut *status = jmut_object(doc), *details;
	int code = f->denied ? f->code : 422;

	if (status_message(r, f, &message, err) < 0) {
		buf_done(&message);
		return -1;
	}
	jmut_set_str(doc, status, "status", "Failure");
	jmut_set(doc, status, "message", jmut_str(doc, buf_str(&message)));
	buf_done(&message);
	jmut_set_str(doc, status, "reason", reason_of(code));
	jmut_set_int(doc, status, "code", code);
	details = jmut_need_object(doc, status, "details");
	jmut_set_str(doc, details, "name", name_of(r));
	jmut_set_str(doc, details, "group", r->group);
	jmut_set_str(doc, details, "kind", r->kind);
	/* The API server passes it on as Retry-After, and Kubernetes' own clients heed it. */
	if (code == 503)
		jmut_set_int(doc, details, "retryAfterSeconds", 1);
	if (f->n_problems)
		jmut_set(doc, details, "causes", causes_of(doc, f));
	jmut_set(doc, response, "status", status);
	return 0;
}

static int add_patch(struct jmut_doc *doc, struct jmut *response, const struct jmut *patch,
		     struct err *err)
{
	struct buf text = BUF_INIT(PATCH_LIMIT);
	CLEANUP_FREE char *encoded = NULL;
	int rc = jmut_write(patch, JSON_COMPACT, &text, err);

	if (rc == 0) {
		encoded = base64_encode(text.p, text.len);
		jmut_set_str(doc, response, "patchType", "JSONPatch");
		jmut_set_str(doc, response, "patch", encoded);
	}
	buf_done(&text);
	return rc;
}

static void add_warnings(struct jmut_doc *doc, struct jmut *response,
			 const struct admission_findings *f)
{
	struct jmut *warnings;

	if (!f->n_warnings)
		return;
	warnings = jmut_need_array(doc, response, "warnings");
	for (size_t i = 0; i < f->n_warnings; i++)
		jmut_push(doc, warnings, jmut_strz(doc, f->warnings[i]));
}

int admission_review_answer(const struct admission_review *r, const struct admission_findings *f,
			    const struct jmut *patch, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *response = jmut_object(doc);
	bool allowed = admission_is_allowed(f);

	jmut_set_str(doc, root, "apiVersion", r->beta ? API_V1BETA1 : API_V1);
	jmut_set_str(doc, root, "kind", "AdmissionReview");
	jmut_set(doc, root, "response", response);
	jmut_set_str(doc, response, "uid", r->uid);
	jmut_set_bool(doc, response, "allowed", allowed);
	if (!allowed && add_status(doc, response, r, f, err) < 0)
		return -1;
	if (allowed && patch && add_patch(doc, response, patch, err) < 0)
		return -1;
	add_warnings(doc, response, f);
	return jmut_write(root, JSON_COMPACT, out, err);
}
