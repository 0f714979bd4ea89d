/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warnings of the Pod template: what the operator replaces in it, what has no effect in the Pods of
 * this job, and what keeps them from running beside each other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission/job_check.h"
#include "core/map.h"
#include "core/str.h"
#include "job/launcher.h"

static bool is_given(const struct json *obj, const char *key)
{
	enum json_type type = json_type(json_get(obj, key));

	return type != JSON_NONE && type != JSON_NULL;
}

/* More than one Pod may be made from the template at a time. */
static bool has_several(const struct job_look *l)
{
	return !l->broken_sizes && (uint64_t)l->job->workers * l->job->instances > 1;
}

/* ---- the Pod ---- */

static void warn_metadata(const struct job_look *l)
{
	static const char *const names[] = {"name", "generateName", "namespace"};
	static const char *const ours[] = {JOB_LABEL_JOB, JOB_LABEL_INSTANCE, JOB_LABEL_ROLE};
	const struct json *template = json_at(l->spec, "workers", "template", NULL);
	const struct json *meta = json_get(template, "metadata");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_str(json_get(meta, names[i])).len)
			admission_warn(l->out,
				       POD_META ".%s: has no effect: Pods are called by their job "
						"and number, and are in its namespace",
				       names[i]);
	}
	if (l->view->pods &&
	    job_network_look(template, l->job->ns, &l->view->pods->rdma) == JOB_NETWORK_BROKEN)
		admission_warn(l->out,
			       POD_META ".annotations[" JOB_ANNOTATION_NETWORKS
					"]: is kept as it is: it's no list of networks, and the "
					"RDMA network %s can't be added",
			       l->view->pods->rdma.network);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (is_given(json_get(meta, "labels"), ours[i]))
			admission_warn(l->out,
				       POD_META ".labels[%s]: is the operator's own, and replaced",
				       ours[i]);
	}
}

static void warn_replaced(const struct job_look *l, const struct json *pod)
{
	CLEANUP_FREE char *restart = job_template_warning(l->spec);
	const struct job_pod_settings *pods = l->view->pods;
	struct str dns = json_str(json_get(pod, "dnsPolicy"));
	const char *own = pods && pods->dns_policy     ? pods->dns_policy
			  : pods && pods->host_network ? "ClusterFirstWithHostNet"
						       : NULL;

	if (restart)
		admission_warn(l->out, POD_SPEC ".restartPolicy: %s", restart);
	if (own && dns.len && !str_eqz(dns, own))
		admission_warn(l->out,
			       POD_SPEC ".dnsPolicy: is replaced by %s, by the operator's "
					"configuration",
			       own);
	if (pods && pods->host_network && is_given(pod, "hostNetwork") &&
	    !json_bool(json_get(pod, "hostNetwork"), true))
		admission_warn(l->out, POD_SPEC ".hostNetwork: is replaced by true, by the "
						"operator's configuration");
}

static void warn_pod(const struct job_look *l, const struct json *pod)
{
	if (json_str(json_get(pod, "nodeName")).len)
		admission_warn(l->out, POD_SPEC
			       ".nodeName: goes past the scheduler: a node without room "
			       "fails the Pods instead of letting them wait; a nodeSelector "
			       "is better");
	if (json_str(json_get(pod, "hostname")).len && has_several(l))
		admission_warn(l->out, POD_SPEC ".hostname: all Pods of the job would have the "
						"same host name");
	if (json_int(json_get(pod, "activeDeadlineSeconds"), 0) > 0)
		admission_warn(l->out,
			       POD_SPEC ".activeDeadlineSeconds: lets single Pods fail, which a "
					"restartPolicy may answer; the job's own is "
					"spec.activeDeadlineSeconds");
}

/* ---- a container ---- */

static void warn_env(const struct job_look *l, const char *path, const struct json *env)
{
	static const char *const ours[] = {"IPUOF_CONFIG_PATH", "IPUOF_VIPU_API_HOST",
					   "IPUOF_VIPU_API_PORT", "IPUOF_VIPU_API_PARTITION_ID",
					   "IPUOF_VIPU_API_GCD_ID"};
	struct json_iter it = json_iter(env);
	struct map *seen = map_new();

	while (json_next(&it)) {
		struct str name = json_str(json_get(it.value, "name"));
		struct str shown = {name.p, str_utf8_cut(name, 60)};

		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
			if (str_eqz(name, ours[i]))
				admission_warn(l->out,
					       "%s[%zu]: %s is the operator's own, and replaced",
					       path, it.index, ours[i]);
		}
		if (name.len && map_put(seen, name, seen))
			admission_warn(l->out, "%s[%zu]: %.*s is there before; the last one counts",
				       path, it.index, STR_ARG(shown));
	}
	map_free(seen);
}

/* The first container of a worker that only waits for its launcher. */
static void warn_waiting(const struct job_look *l, const struct json *container)
{
	static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};

	if (is_given(container, "command") || is_given(container, "args"))
		admission_warn(l->out,
			       POD_SPEC ".containers[0]: its command has no effect: workers wait "
					"for what the launcher starts in them");
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		if (is_given(container, probes[i]))
			admission_warn(l->out,
				       POD_SPEC ".containers[0].%s: asks a program that isn't "
						"running while the worker waits for its launcher",
				       probes[i]);
	}
}

static void warn_ports(const struct job_look *l, const char *path, const struct json *container)
{
	struct json_iter it = json_iter(json_get(container, "ports"));

	while (has_several(l) && json_next(&it)) {
		int64_t port = json_int(json_get(it.value, "hostPort"), 0);

		if (port == 0 && l->host_network)
			port = json_int(json_get(it.value, "containerPort"), 0);
		if (port > 0) {
			admission_warn(l->out,
				       "%s.ports[%zu]: is a port of the node (%" PRId64
				       "): no node can have two Pods of this job",
				       path, it.index, port);
			break;
		}
	}
}

static void warn_resource(const struct job_look *l, const char *list, const struct json *pod)
{
	struct json_iter it = json_iter(json_get(pod, list));

	while (json_next(&it)) {
		if (job_names_ipu_resource(it.value))
			admission_warn(
				l->out,
				POD_SPEC
				".%s[%zu].resources: " JOB_IPU_RESOURCE
				" gives no IPUs, which come by the job's size: where no "
				"node shows it (advertise.ipus), the Pods aren't placed while "
				"the job holds its partition",
				list, it.index);
	}
}

static void warn_container(const struct job_look *l, const char *path, const struct json *container)
{
	const struct json *privileged = json_at(container, "securityContext", "privileged", NULL);
	char at[JOB_LOOK_PATH];

	job_look_path(at, "%s.env", path);
	warn_env(l, at, json_get(container, "env"));
	job_look_path(at, "%s.command", path);
	job_look_warn_command(l, at, json_get(container, "command"));
	if (l->view->pods && l->view->pods->privileged && !json_bool(privileged, true))
		admission_warn(l->out,
			       "%s.securityContext.privileged: is replaced by true, by the "
			       "operator's configuration",
			       path);
	warn_ports(l, path, container);
}

void job_look_warn_pod(const struct job_look *l)
{
	const struct json *pod = job_look_pod(l);
	struct json_iter it = json_iter(json_get(pod, "containers"));

	warn_replaced(l, pod);
	warn_pod(l, pod);
	if (job_has_launcher(l->job))
		warn_waiting(l, json_item(json_get(pod, "containers"), 0));
	while (json_next(&it)) {
		char path[JOB_LOOK_PATH];

		job_look_path(path, POD_SPEC ".containers[%zu]", it.index);
		warn_container(l, path, it.value);
	}
	warn_resource(l, "initContainers", pod);
	warn_resource(l, "containers", pod);
	warn_env(l, "spec.launcher.env", json_at(l->spec, "launcher", "env", NULL));
	warn_metadata(l);
}
