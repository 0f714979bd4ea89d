/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources that the operator knows, and the URL that a request goes to.
 * Pure. Uses core/ and http/message.h.
 */
#include "kube/client.h"

#include "client_priv.h"

#include <stdio.h>

#include "http/message.h"
#include "path.h"

const struct kube_resource KUBE_PODS = {"", "v1", "pods", "Pod", true};
const struct kube_resource KUBE_CONFIGMAPS = {"", "v1", "configmaps", "ConfigMap", true};
const struct kube_resource KUBE_SECRETS = {"", "v1", "secrets", "Secret", true};
const struct kube_resource KUBE_NODES = {"", "v1", "nodes", "Node", false};
const struct kube_resource KUBE_NAMESPACES = {"", "v1", "namespaces", "Namespace", false};
const struct kube_resource KUBE_PRIORITYCLASSES = {"scheduling.k8s.io", "v1", "priorityclasses",
						   "PriorityClass", false};
const struct kube_resource KUBE_EVENTS = {"", "v1", "events", "Event", true};
const struct kube_resource KUBE_SERVICEACCOUNTS = {"", "v1", "serviceaccounts", "ServiceAccount",
						   true};
const struct kube_resource KUBE_ROLES = {"rbac.authorization.k8s.io", "v1", "roles", "Role", true};
const struct kube_resource KUBE_ROLEBINDINGS = {"rbac.authorization.k8s.io", "v1", "rolebindings",
						"RoleBinding", true};
const struct kube_resource KUBE_LEASES = {"coordination.k8s.io", "v1", "leases", "Lease", true};
const struct kube_resource KUBE_TOKENREVIEWS = {"authentication.k8s.io", "v1", "tokenreviews",
						"TokenReview", false};
const struct kube_resource KUBE_SUBJECTACCESSREVIEWS = {
	"authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false};
const struct kube_resource KUBE_MUTATINGWEBHOOKS = {"admissionregistration.k8s.io", "v1",
						    "mutatingwebhookconfigurations",
						    "MutatingWebhookConfiguration", false};
const struct kube_resource KUBE_VALIDATINGWEBHOOKS = {"admissionregistration.k8s.io", "v1",
						      "validatingwebhookconfigurations",
						      "ValidatingWebhookConfiguration", false};
const struct kube_resource KUBE_CRDS = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
					"CustomResourceDefinition", false};
const struct kube_resource KUBE_IPUJOBS = {"graphcore.ai", "v1alpha1", "ipujobs", "IPUJob", true};

const char *kube_api_version(const struct kube_resource *r, char ret_z[KUBE_API_VERSION_SIZE])
{
	if (r->group[0])
		snprintf(ret_z, KUBE_API_VERSION_SIZE, "%s/%s", r->group, r->version);
	else
		snprintf(ret_z, KUBE_API_VERSION_SIZE, "%s", r->version);
	return ret_z;
}

/* Kubernetes refuses the same as path segments (apimachinery, path validation). */
static int check_segment(const char *what, const char *z, struct err *err)
{
	if (strcmp(z, ".") == 0 || strcmp(z, "..") == 0)
		return err_set(err, ERR_INVALID, 0, "\"%s\" can't be %s", z, what);
	if (strpbrk(z, "/%"))
		return err_set(err, ERR_INVALID, 0, "%s \"%.100s\" may hold neither '/' nor '%%'",
			       what, z);
	return 0;
}

static const char *given(const char *z)
{
	return z && z[0] ? z : NULL;
}

static int append_object(const struct kube_request *r, struct buf *out, struct err *err)
{
	const char *ns = given(r->ns), *name = given(r->name), *sub = given(r->subresource);
	bool wants_name = r->verb != KUBE_LIST && r->verb != KUBE_CREATE;
	if (wants_name && !name)
		return err_set(err, ERR_INVALID, 0, "no name of the %s was given",
			       r->resource->kind);
	if (!wants_name && name && !sub)
		return err_set(err, ERR_INVALID, 0, "a name can't be given to this request");
	if (r->resource->namespaced && !ns && r->verb != KUBE_LIST)
		return err_set(err, ERR_INVALID, 0, "no namespace of the %s was given",
			       r->resource->kind);
	if ((ns && check_segment("a namespace", ns, err) < 0) ||
	    (name && check_segment("a name", name, err) < 0) ||
	    (sub && check_segment("a subresource", sub, err) < 0))
		return -1;
	if (r->resource->namespaced && ns && http_path_append(out, err, "namespaces", ns, NULL) < 0)
		return -1;
	if (http_path_append(out, err, r->resource->plural, NULL) < 0)
		return -1;
	if (name && http_path_append(out, err, name, NULL) < 0)
		return -1;
	return sub ? http_path_append(out, err, sub, NULL) : 0;
}

static int append_param(struct buf *out, const char *name, const char *value, struct err *err)
{
	return given(value) ? http_query_append(out, str_of(name), str_of(value), err) : 0;
}

int kube_path_build(const char *prefix, const struct kube_request *r, struct buf *out,
		    struct err *err)
{
	char limit[16] = "";
	if (buf_append_str(out, str_of(prefix), err) < 0)
		return -1;
	if (given(r->path)) {
		if (r->path[0] != '/')
			return err_set(err, ERR_INVALID, 0, "path \"%.100s\" isn't absolute",
				       r->path);
		if (buf_append_str(out, str_of(r->path), err) < 0)
			return -1;
	} else {
		int rc = r->resource->group[0]
				 ? http_path_append(out, err, "apis", r->resource->group,
						    r->resource->version, NULL)
				 : http_path_append(out, err, "api", r->resource->version, NULL);
		if (rc < 0 || append_object(r, out, err) < 0)
			return -1;
	}
	if (r->limit > 0)
		snprintf(limit, sizeof(limit), "%u", r->limit);
	if (append_param(out, "labelSelector", r->label_selector, err) < 0 ||
	    append_param(out, "fieldSelector", r->field_selector, err) < 0 ||
	    append_param(out, "limit", limit, err) < 0 ||
	    append_param(out, "continue", r->continue_token, err) < 0 ||
	    append_param(out, "resourceVersion", r->resource_version, err) < 0 ||
	    append_param(out, "dryRun", r->dry_run ? "All" : NULL, err) < 0 ||
	    append_param(out, "fieldManager", r->field_manager, err) < 0)
		return -1;
	return 0;
}

const char *kube_verb_name(enum kube_verb verb)
{
	static const char *const names[] = {
		[KUBE_GET] = "get",       [KUBE_LIST] = "list",   [KUBE_CREATE] = "create",
		[KUBE_UPDATE] = "update", [KUBE_PATCH] = "patch", [KUBE_DELETE] = "delete",
	};
	return names[verb];
}

bool kube_is_secret(const struct kube_resource *r)
{
	return r == &KUBE_SECRETS || r == &KUBE_TOKENREVIEWS;
}

int kube_parse(const struct kube_resource *r, struct str s, struct json_doc **ret, struct err *err)
{
	return kube_is_secret(r) ? json_parse_secret(s, ret, err) : json_parse(s, ret, err);
}
