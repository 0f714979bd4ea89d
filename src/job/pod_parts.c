/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces that worker and launcher Pods are made of. What the user's template says stays, but
 * for the fields that the operator has an opinion on.
 */
#include "job/pod_parts.h"

#include <inttypes.h>
#include <string.h>

#include "core/str.h"
#include "kube/object.h"

#define HELPER_USER 65532 /* nobody's in particular: any but root */

/* ---- environment ---- */

bool job_env_has(struct jmut *env, const char *name)
{
	struct json_iter it = json_iter(jmut_view(env));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "name")), name))
			return true;
	}
	return false;
}

static bool has_name(const struct json *var, void *arg)
{
	return str_eq(json_str(json_get(var, "name")), *(const struct str *)arg);
}

void job_env_drop(struct jmut *env, struct str name)
{
	(void)jmut_remove_if(env, has_name, &name);
}

void job_env_offer(struct jmut_doc *doc, struct jmut *env, size_t *at, const char *name,
		   const char *value)
{
	struct jmut *item;

	if (job_env_has(env, name))
		return;
	item = jmut_object(doc);
	jmut_set_str(doc, item, "name", name);
	jmut_set_str(doc, item, "value", value);
	jmut_insert(doc, env, (*at)++, item);
}

/* ---- containers ---- */

bool job_names_ipu_resource(const struct json *container)
{
	const struct json *resources = json_get(container, "resources");

	return json_at(resources, "limits", JOB_IPU_RESOURCE, NULL) ||
	       json_at(resources, "requests", JOB_IPU_RESOURCE, NULL);
}

void job_mount(struct jmut_doc *doc, struct jmut *container, const char *volume, const char *path,
	       bool read_only)
{
	struct jmut *mounts = jmut_need_array(doc, container, "volumeMounts");
	struct jmut *mount;

	if (!mounts)
		return;
	mount = jmut_object(doc);
	jmut_set_str(doc, mount, "name", volume);
	jmut_set_str(doc, mount, "mountPath", path);
	if (read_only)
		jmut_set_bool(doc, mount, "readOnly", true);
	jmut_push(doc, mounts, mount);
}

int job_container_build(struct jmut_doc *doc, struct jmut *container, const struct job_ipus *ipus,
			const struct job_pod_settings *settings, struct err *err)
{
	struct jmut *security;

	if (json_type(jmut_view(container)) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0,
			       "spec.workers.template.spec.containers: must hold objects");
	job_env_apply(doc, container, ipus);
	if (!settings->privileged)
		return 0;
	security = jmut_need_object(doc, container, "securityContext");
	if (!security)
		return err_set(err, ERR_INVALID, 0,
			       "spec.workers.template.spec.containers: securityContext must be an "
			       "object");
	/* The API server takes no privileged container that may not gain privileges. */
	jmut_del(security, "allowPrivilegeEscalation");
	jmut_set_bool(doc, security, "privileged", true);
	return 0;
}

/* Kubernetes: "Extended resources are fully-qualified resource names outside the kubernetes.io
 * domain". cpu, memory, ephemeral-storage and huge pages have no domain. */
static struct jmut *without_devices(struct jmut_doc *doc, const struct json *amounts)
{
	struct json_iter it = json_iter(amounts);
	struct jmut *kept = jmut_object(doc);

	while (json_next(&it)) {
		if (it.key.len && !memchr(it.key.p, '/', it.key.len))
			jmut_setn(doc, kept, it.key, jmut_copy(doc, it.value));
	}
	return jmut_len(kept) ? kept : NULL;
}

struct jmut *job_plain_resources(struct jmut_doc *doc, const struct json *container)
{
	static const char *const kinds[] = {"limits", "requests"};
	const struct json *all = json_get(container, "resources");
	struct jmut *plain = jmut_object(doc);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		jmut_set(doc, plain, kinds[i], without_devices(doc, json_get(all, kinds[i])));
	return jmut_len(plain) ? plain : NULL;
}

struct jmut *job_helper(struct jmut_doc *doc, const char *name, const struct json *like,
			const struct job_pod_settings *settings)
{
	struct jmut *helper = jmut_object(doc), *security = jmut_object(doc);
	struct jmut *capabilities = jmut_object(doc), *drop = jmut_array(doc);
	struct jmut *seccomp = jmut_object(doc);

	jmut_set_str(doc, helper, "name", name);
	jmut_set_str(doc, helper, "image", settings->launcher_image);
	if (settings->launcher_pull)
		jmut_set_str(doc, helper, "imagePullPolicy", settings->launcher_pull);
	jmut_set(doc, helper, "resources", job_plain_resources(doc, like));
	/* What the Pod Security Standards' level "restricted" asks for. */
	jmut_set_bool(doc, security, "allowPrivilegeEscalation", false);
	jmut_push(doc, drop, jmut_strz(doc, "ALL"));
	jmut_set(doc, capabilities, "drop", drop);
	jmut_set(doc, security, "capabilities", capabilities);
	jmut_set_bool(doc, security, "readOnlyRootFilesystem", true);
	jmut_set_bool(doc, security, "runAsNonRoot", true);
	jmut_set_int(doc, security, "runAsUser", HELPER_USER);
	jmut_set_str(doc, seccomp, "type", "RuntimeDefault");
	jmut_set(doc, security, "seccompProfile", seccomp);
	jmut_set(doc, helper, "securityContext", security);
	/* Why it failed stands in the Pod's status. */
	jmut_set_str(doc, helper, "terminationMessagePolicy", "FallbackToLogsOnError");
	return helper;
}

/* ---- the Pod ---- */

static void set_labels(struct jmut_doc *doc, struct jmut *labels, const struct job *job,
		       uint32_t instance, const char *role)
{
	const char *const soft[][2] = {
		{"app.kubernetes.io/name", "ipujob"},
		{"app.kubernetes.io/component", role},
		{"app.kubernetes.io/instance", job->name},
	};

	for (size_t i = 0; i < sizeof(soft) / sizeof(soft[0]); i++) {
		if (!jmut_get(labels, soft[i][0]))
			jmut_set_str(doc, labels, soft[i][0], soft[i][1]);
	}
	jmut_set_str(doc, labels, "app.kubernetes.io/managed-by", "ipu-operator");
	jmut_set_str(doc, labels, JOB_LABEL_JOB, job->name);
	jmut_set(doc, labels, JOB_LABEL_INSTANCE, jmut_strf(doc, "%" PRIu32, instance));
	jmut_set_str(doc, labels, JOB_LABEL_ROLE, role);
}

static int build_metadata(struct jmut_doc *doc, struct jmut *pod, const struct job *job,
			  uint32_t instance, const char *role, const char *name,
			  const struct job_ipus *ipus, struct err *err)
{
	static const char *const not_the_templates[] = {
		"name",
		"generateName",
		"namespace",
		"uid",
		"ownerReferences",
		"generation",
		"resourceVersion",
		"selfLink",
		"creationTimestamp",
		"managedFields",
		"deletionTimestamp",
		"deletionGracePeriodSeconds",
	};
	struct jmut *meta = jmut_need_object(doc, pod, "metadata"), *labels, *annotations;

	if (!meta)
		return err_set(err, ERR_INVALID, 0,
			       "spec.workers.template.metadata: must be an object");
	for (size_t i = 0; i < sizeof(not_the_templates) / sizeof(not_the_templates[0]); i++)
		jmut_del(meta, not_the_templates[i]);
	labels = jmut_need_object(doc, meta, "labels");
	annotations = jmut_need_object(doc, meta, "annotations");
	if (!labels || !annotations)
		return err_set(
			err, ERR_INVALID, 0,
			"spec.workers.template.metadata: labels and annotations must be objects");
	jmut_set_str(doc, meta, "name", name);
	jmut_set_str(doc, meta, "namespace", job->ns);
	set_labels(doc, labels, job, instance, role);
	if (ipus->partition_id)
		jmut_set_str(doc, annotations, JOB_ANNOTATION_PARTITION, ipus->partition_id);
	if (job->template_hash)
		jmut_set(doc, annotations, JOB_ANNOTATION_TEMPLATE,
			 jmut_strf(doc, "%016" PRIx64, job->template_hash));
	kube_set_owner(doc, meta, JOB_API_VERSION, JOB_KIND, job->name, job->uid);
	return 0;
}

int job_pod_begin(struct jmut_doc *doc, const struct json *spec, const struct job *job,
		  uint32_t instance, const char *role, const char *name,
		  const struct job_ipus *ipus, struct jmut **ret_spec, struct err *err)
{
	const struct json *template = json_at(spec, "workers", "template", NULL);
	const struct json *containers = json_at(template, "spec", "containers", NULL);
	struct jmut *pod;

	if (json_type(containers) != JSON_ARRAY || json_len(containers) == 0)
		return err_set(err, ERR_INVALID, 0,
			       "spec.workers.template.spec.containers: must be a list");
	pod = jmut_copy(doc, template);
	jmut_set_root(doc, pod);
	jmut_set_str(doc, pod, "apiVersion", "v1");
	jmut_set_str(doc, pod, "kind", "Pod");
	jmut_del(pod, "status");
	if (build_metadata(doc, pod, job, instance, role, name, ipus, err) < 0)
		return -1;
	*ret_spec = jmut_get(pod, "spec");
	return 0;
}

void job_pod_finish(struct jmut_doc *doc, struct jmut *pod_spec, const struct job_ipus *ipus,
		    const struct job_pod_settings *settings)
{
	const char *dns = settings->dns_policy,
		   *ns = json_cstr(
			   jmut_view(jmut_get(jmut_get(jmut_root(doc), "metadata"), "namespace")));
	struct jmut *selector = NULL;

	if (!dns && settings->host_network)
		dns = "ClusterFirstWithHostNet";
	job_volume_apply(doc, pod_spec, ipus);
	jmut_set_str(doc, pod_spec, "restartPolicy", "Never");
	if (settings->host_network)
		jmut_set_bool(doc, pod_spec, "hostNetwork", true);
	(void)job_network_add(doc, jmut_root(doc), ns, &settings->rdma);
	if (dns)
		jmut_set_str(doc, pod_spec, "dnsPolicy", dns);
	if (ipus->label_key)
		selector = jmut_need_object(doc, pod_spec, "nodeSelector");
	if (selector)
		jmut_set_str(doc, selector, ipus->label_key, ipus->label_value);
}

void job_deliver(struct jmut_doc *doc, struct jmut *pod_spec, struct jmut *container,
		 const struct job_pod_settings *settings)
{
	static const char *const words[] = {JOB_LAUNCHER_SOURCE, "install", JOB_LAUNCHER_PROGRAM};
	struct jmut *inits = jmut_need_array(doc, pod_spec, "initContainers");
	struct jmut *volumes = jmut_need_array(doc, pod_spec, "volumes");
	struct jmut *helper = job_helper(doc, JOB_INSTALL_NAME, jmut_view(container), settings);
	struct jmut *command = jmut_array(doc), *volume = jmut_object(doc);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		jmut_push(doc, command, jmut_strz(doc, words[i]));
	jmut_set(doc, helper, "command", command);
	job_mount(doc, helper, JOB_PROGRAM_VOLUME, JOB_LAUNCHER_DIR, false);
	jmut_insert(doc, inits, 0, helper);
	jmut_set_str(doc, volume, "name", JOB_PROGRAM_VOLUME);
	jmut_set(doc, volume, "emptyDir", jmut_object(doc));
	jmut_push(doc, volumes, volume);
	job_mount(doc, container, JOB_PROGRAM_VOLUME, JOB_LAUNCHER_DIR, true);
}
