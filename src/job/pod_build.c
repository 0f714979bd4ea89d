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
#include "job/launcher_env.h"
#include "job/pod_parts.h"

#define IPUOF_TIMEOUT "120"

/* ---- the V-IPU environment ---- */

struct variable {
	const char *name;
	char value[PARTITION_ID_MAX + 512]; /* as the literal; a key's name is the variable's */
};

/* In front, so that the template's own variables can refer to it as $(NAME). */
static void put_env(struct jmut_doc *doc, struct jmut *env, size_t at, const struct variable *var,
		    const char *config_map)
{
	struct jmut *item = jmut_object(doc), *from, *ref;

	job_env_drop(env, str_of(var->name));
	jmut_set_str(doc, item, "name", var->name);
	if (config_map) {
		from = jmut_object(doc);
		ref = jmut_object(doc);
		jmut_set_str(doc, ref, "name", config_map);
		jmut_set_str(doc, ref, "key", var->name);
		jmut_set_bool(doc, ref, "optional", true);
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

/* What comes of the two is known when there is a partition: variables, or the path of a file. What
 * has no key then isn't set. */
static void apply_keys(struct jmut_doc *doc, struct jmut *container, struct jmut *env,
		       const struct job_ipus *ipus)
{
	static const char *const names[] = {"IPUOF_CONFIG_PATH", "IPUOF_VIPU_API_HOST",
					    "IPUOF_VIPU_API_PORT", "IPUOF_VIPU_API_PARTITION_ID"};
	struct variable gcd = {.name = "IPUOF_VIPU_API_GCD_ID"};
	size_t n = sizeof(names) / sizeof(names[0]);

	for (size_t i = 0; i < n; i++)
		put_env(doc, env, i, &(struct variable){.name = names[i]}, ipus->config_map);
	snprintf(gcd.value, sizeof(gcd.value), "%" PRIu32, ipus->gcd);
	put_env(doc, env, n, &gcd, NULL);
	job_mount(doc, container, JOB_IPUOF_VOLUME, JOB_IPUOF_DIR, true);
}

static void apply_file(struct jmut_doc *doc, struct jmut *container, struct jmut *env,
		       const struct job_ipus *ipus)
{
	struct variable path = {.name = "IPUOF_CONFIG_PATH"};

	snprintf(path.value, sizeof(path.value), JOB_IPUOF_DIR "/%s.conf", file_name(ipus));
	put_env(doc, env, 0, &path, NULL);
	job_mount(doc, container, JOB_IPUOF_VOLUME, JOB_IPUOF_DIR, true);
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
	size_t n = sizeof(vars) / sizeof(vars[0]);

	if (!env)
		return;
	if (ipus->values == JOB_VALUES_FILE) {
		apply_file(doc, container, env, ipus);
		return;
	}
	if (ipus->values == JOB_VALUES_KEYS) {
		apply_keys(doc, container, env, ipus);
		n = 5;
	} else {
		snprintf(vars[0].value, sizeof(vars[0].value), "%s", ipus->host);
		snprintf(vars[1].value, sizeof(vars[1].value), "%u", ipus->port);
		snprintf(vars[2].value, sizeof(vars[2].value), "%s", ipus->partition_id);
		snprintf(vars[3].value, sizeof(vars[3].value), "%" PRIu32, ipus->gcd);
		for (size_t i = 0; i < n; i++)
			put_env(doc, env, i, &vars[i], NULL);
	}
	if (!job_env_has(env, timeout.name))
		put_env(doc, env, n, &timeout, NULL);
}

void job_volume_apply(struct jmut_doc *doc, struct jmut *pod_spec, const struct job_ipus *ipus)
{
	struct jmut *volumes, *volume, *source, *items, *item;

	if (ipus->values == JOB_VALUES_LITERAL)
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
	if (ipus->values == JOB_VALUES_KEYS)
		jmut_set_bool(doc, source, "optional", true);
	jmut_set_str(doc, volume, "name", JOB_IPUOF_VOLUME);
	jmut_set(doc, volume, "configMap", source);
	jmut_push(doc, volumes, volume);
}

/* ---- the worker Pod ---- */

/* Waits for what a launcher starts in it. */
static void make_wait(struct jmut_doc *doc, struct jmut *pod_spec, struct jmut *container,
		      const struct job *job, const struct job_pod_settings *settings)
{
	struct jmut *command = jmut_array(doc);

	jmut_push(doc, command, jmut_strz(doc, JOB_LAUNCHER_PROGRAM));
	jmut_push(doc, command, jmut_strz(doc, "init"));
	jmut_set(doc, container, "command", command);
	jmut_del(container, "args");
	job_deliver(doc, pod_spec, container, settings);
	job_mpi_files(doc, pod_spec, container, job, NULL);
}

/* What a launcher's container hasn't: it runs nothing on IPUs. */
static int add_rdma(struct jmut_doc *doc, struct jmut *container, const struct job_rdma *rdma,
		    struct err *err)
{
	const char *wrong = job_rdma_apply(doc, container, rdma);

	if (!wrong)
		return 0;
	return err_set(err, ERR_INVALID, 0,
		       "spec.workers.template.spec.containers: %s isn't what it must be in a Pod",
		       wrong);
}

int job_pod_build(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		  uint32_t instance, uint32_t worker, const struct job_ipus *ipus,
		  const struct job_pod_settings *settings, struct err *err)
{
	CLEANUP_FREE char *name = job_worker_name(job, instance, worker);
	struct jmut *pod_spec, *containers;

	if (job_pod_begin(doc, spec, job, instance, JOB_ROLE_WORKER, name, ipus, &pod_spec, err) <
	    0)
		return -1;
	containers = jmut_get(pod_spec, "containers");
	for (size_t i = 0; i < jmut_len(containers); i++) {
		struct jmut *container = jmut_item(containers, i);

		if (job_container_build(doc, container, ipus, settings, err) < 0 ||
		    add_rdma(doc, container, &settings->rdma, err) < 0)
			return -1;
	}
	if (job_has_launcher(job)) {
		job_popdist_apply(doc, jmut_item(containers, 0), job, worker);
		make_wait(doc, pod_spec, jmut_item(containers, 0), job, settings);
	}
	job_pod_finish(doc, pod_spec, ipus, settings);
	return 0;
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
