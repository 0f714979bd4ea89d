/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker Pod from the job's template: copied whole, then what the operator has an opinion on is
 * put over it, field by field. The V-IPU environment is made in one place for all kinds of Pods.
 */
#include "job/pod.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "kube/object.h"

#define IPUOF_VOLUME    "ipuof-config"
#define IPUOF_DIRECTORY "/etc/ipuof.conf.d"
#define IPUOF_TIMEOUT   "120"

/* ---- the V-IPU environment ---- */

struct variable {
	const char *name;
	char value[PARTITION_ID_MAX + 512]; /* as the literal; a key's name is the variable's */
};

/* Drops what the template says of a variable; true if it was there. */
static bool drop_env(struct jmut *env, const char *name)
{
	bool was_there = false;

	for (size_t i = 0; i < jmut_len(env);) {
		if (str_eqz(json_str(json_get(jmut_view(jmut_item(env, i)), "name")), name)) {
			jmut_remove(env, i);
			was_there = true;
		} else {
			i++;
		}
	}
	return was_there;
}

static bool has_env(struct jmut *env, const char *name)
{
	for (size_t i = 0; i < jmut_len(env); i++) {
		if (str_eqz(json_str(json_get(jmut_view(jmut_item(env, i)), "name")), name))
			return true;
	}
	return false;
}

/* In front, so that the template's own variables can refer to it as $(NAME). */
static void put_env(struct jmut_doc *doc, struct jmut *env, size_t at, const struct variable *var,
		    const char *config_map)
{
	struct jmut *item = jmut_object(doc), *from, *ref;

	drop_env(env, var->name);
	jmut_set_str(doc, item, "name", var->name);
	if (config_map) {
		from = jmut_object(doc);
		ref = jmut_object(doc);
		jmut_set_str(doc, ref, "name", config_map);
		jmut_set_str(doc, ref, "key", var->name);
		jmut_set(doc, from, "configMapKeyRef", ref);
		jmut_set(doc, item, "valueFrom", from);
	} else {
		jmut_set_str(doc, item, "value", var->value);
	}
	jmut_insert(doc, env, at, item);
}

static const char *file_name(const struct job_ipus *ipus)
{
	return ipus->partition_id ? ipus->partition_id : "partition";
}

static void apply_file(struct jmut_doc *doc, struct jmut *container, struct jmut *env,
		       const struct job_ipus *ipus)
{
	struct variable path = {.name = "IPUOF_CONFIG_PATH"};
	struct jmut *mounts = jmut_need_array(doc, container, "volumeMounts");
	struct jmut *mount = jmut_object(doc);

	snprintf(path.value, sizeof(path.value), IPUOF_DIRECTORY "/%s.conf", file_name(ipus));
	put_env(doc, env, 0, &path, NULL);
	if (!mounts)
		return;
	jmut_set_str(doc, mount, "name", IPUOF_VOLUME);
	jmut_set_str(doc, mount, "mountPath", IPUOF_DIRECTORY);
	jmut_set_bool(doc, mount, "readOnly", true);
	jmut_push(doc, mounts, mount);
}

void job_env_apply(struct jmut_doc *doc, struct jmut *container, const struct job_ipus *ipus)
{
	struct variable vars[] = {
		{.name = "IPUOF_VIPU_API_HOST"},
		{.name = "IPUOF_VIPU_API_PORT"},
		{.name = "IPUOF_VIPU_API_PARTITION_ID"},
		{.name = "IPUOF_VIPU_API_GCD_ID"},
	};
	struct variable timeout = {.name = "IPUOF_VIPU_API_TIMEOUT", .value = IPUOF_TIMEOUT};
	struct jmut *env = jmut_need_array(doc, container, "env");
	const char *config_map = ipus->values == JOB_VALUES_KEYS ? ipus->config_map : NULL;
	size_t n = sizeof(vars) / sizeof(vars[0]);

	if (!env)
		return;
	if (ipus->values == JOB_VALUES_FILE) {
		apply_file(doc, container, env, ipus);
		return;
	}
	if (!config_map) {
		snprintf(vars[0].value, sizeof(vars[0].value), "%s", ipus->host);
		snprintf(vars[1].value, sizeof(vars[1].value), "%u", ipus->port);
		snprintf(vars[2].value, sizeof(vars[2].value), "%s", ipus->partition_id);
		snprintf(vars[3].value, sizeof(vars[3].value), "%" PRIu32, ipus->gcd);
	}
	for (size_t i = 0; i < n; i++)
		put_env(doc, env, i, &vars[i], config_map);
	if (!has_env(env, timeout.name))
		put_env(doc, env, n, &timeout, NULL);
}

void job_volume_apply(struct jmut_doc *doc, struct jmut *pod_spec, const struct job_ipus *ipus)
{
	struct jmut *volumes, *volume, *source, *items, *item;

	if (ipus->values != JOB_VALUES_FILE)
		return;
	volumes = jmut_need_array(doc, pod_spec, "volumes");
	if (!volumes)
		return;
	volume = jmut_object(doc);
	source = jmut_object(doc);
	items = jmut_array(doc);
	item = jmut_object(doc);
	jmut_set(doc, item, "key", jmut_strf(doc, "ipuof-%" PRIu32 ".conf", ipus->gcd));
	jmut_set(doc, item, "path", jmut_strf(doc, "%s.conf", file_name(ipus)));
	jmut_push(doc, items, item);
	jmut_set_str(doc, source, "name", ipus->config_map);
	jmut_set(doc, source, "items", items);
	jmut_set_str(doc, volume, "name", IPUOF_VOLUME);
	jmut_set(doc, volume, "configMap", source);
	jmut_push(doc, volumes, volume);
}

/* ---- the Pod ---- */

static int build_metadata(struct jmut_doc *doc, struct jmut *pod, const struct job *job,
			  uint32_t instance, const char *name, const struct job_ipus *ipus,
			  struct err *err)
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
	static const char *const soft[][2] = {
		{"app.kubernetes.io/name", "ipujob"},
		{"app.kubernetes.io/component", JOB_ROLE_WORKER},
	};
	struct jmut *meta = jmut_need_object(doc, pod, "metadata"), *labels, *annotations, *owners;

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
	for (size_t i = 0; i < sizeof(soft) / sizeof(soft[0]); i++) {
		if (!jmut_get(labels, soft[i][0]))
			jmut_set_str(doc, labels, soft[i][0], soft[i][1]);
	}
	if (!jmut_get(labels, "app.kubernetes.io/instance"))
		jmut_set_str(doc, labels, "app.kubernetes.io/instance", job->name);
	jmut_set_str(doc, labels, "app.kubernetes.io/managed-by", "ipu-operator");
	jmut_set_str(doc, labels, JOB_LABEL_JOB, job->name);
	jmut_set(doc, labels, JOB_LABEL_INSTANCE, jmut_strf(doc, "%" PRIu32, instance));
	jmut_set_str(doc, labels, JOB_LABEL_ROLE, JOB_ROLE_WORKER);
	if (ipus->partition_id)
		jmut_set_str(doc, annotations, JOB_ANNOTATION_PARTITION, ipus->partition_id);
	owners = jmut_array(doc);
	jmut_push(doc, owners, kube_owner_ref(doc, JOB_API_VERSION, JOB_KIND, job->name, job->uid));
	jmut_set(doc, meta, "ownerReferences", owners);
	return 0;
}

static int build_container(struct jmut_doc *doc, struct jmut *container,
			   const struct job_ipus *ipus, const struct job_pod_settings *settings,
			   struct err *err)
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

static void build_node_selector(struct jmut_doc *doc, struct jmut *spec,
				const struct job_ipus *ipus)
{
	struct jmut *selector;

	if (!ipus->label_key)
		return;
	selector = jmut_need_object(doc, spec, "nodeSelector");
	if (selector)
		jmut_set_str(doc, selector, ipus->label_key, ipus->label_value);
}

static int build_spec(struct jmut_doc *doc, struct jmut *pod, const struct job_ipus *ipus,
		      const struct job_pod_settings *settings, struct err *err)
{
	struct jmut *spec = jmut_get(pod, "spec"), *containers = jmut_get(spec, "containers");
	const char *dns = settings->dns_policy;

	if (!dns && settings->host_network)
		dns = "ClusterFirstWithHostNet";
	for (size_t i = 0; i < jmut_len(containers); i++) {
		if (build_container(doc, jmut_item(containers, i), ipus, settings, err) < 0)
			return -1;
	}
	job_volume_apply(doc, spec, ipus);
	jmut_set_str(doc, spec, "restartPolicy", "Never");
	if (settings->host_network)
		jmut_set_bool(doc, spec, "hostNetwork", true);
	if (dns)
		jmut_set_str(doc, spec, "dnsPolicy", dns);
	build_node_selector(doc, spec, ipus);
	return 0;
}

int job_pod_build(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		  uint32_t instance, uint32_t worker, const struct job_ipus *ipus,
		  const struct job_pod_settings *settings, struct err *err)
{
	const struct json *template = json_at(spec, "workers", "template", NULL);
	CLEANUP_FREE char *name = job_worker_name(job, instance, worker);
	struct jmut *pod;

	if (json_type(json_at(template, "spec", "containers", NULL)) != JSON_ARRAY)
		return err_set(err, ERR_INVALID, 0,
			       "spec.workers.template.spec.containers: must be a list");
	pod = jmut_copy(doc, template);
	jmut_set_root(doc, pod);
	jmut_set_str(doc, pod, "apiVersion", "v1");
	jmut_set_str(doc, pod, "kind", "Pod");
	jmut_del(pod, "status");
	if (build_metadata(doc, pod, job, instance, name, ipus, err) < 0)
		return -1;
	return build_spec(doc, pod, ipus, settings, err);
}

char *job_template_warning(const struct json *spec)
{
	struct str policy = json_str(
		json_at(spec, "workers", "template", "spec", "restartPolicy", NULL));

	if (policy.len == 0 || str_eqz(policy, "Never"))
		return NULL;
	return xasprintf(
		"The template's restartPolicy is %.*s; its Pods are made with Never, since "
		"the job's own restartPolicy decides",
		STR_ARG(policy));
}
