/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher Pod: the worker template with its first container alone, the launcher's command and
 * environment in it, and rights to start processes in the workers. Pure.
 */
#include "job/launcher.h"

#include <inttypes.h>

#include "core/str.h"
#include "job/launcher_env.h"
#include "job/pod_parts.h"

#define WAIT_NAME "ipu-launcher-wait"

const char *job_launcher_problem(const struct job *job, const struct job_pod_settings *settings)
{
	if (!job_has_launcher(job) || (settings->launcher_image && settings->launcher_image[0]))
		return NULL;
	return "The operator's configuration names no image with ipu-launcher (launcher.image): "
	       "jobs with a launcher and interactive ones wait until it does.";
}

bool job_is_own_container(struct str name)
{
	return str_eqz(name, JOB_INSTALL_NAME) || str_eqz(name, WAIT_NAME);
}

bool job_is_own_volume(struct str name)
{
	return str_eqz(name, JOB_PROGRAM_VOLUME) || str_eqz(name, JOB_MPI_VOLUME);
}

bool job_is_own_mount(struct str path)
{
	return str_eqz(path, JOB_LAUNCHER_DIR) || str_eqz(path, JOB_MPI_DIR);
}

/* ---- the main container ---- */

/* They were written for the program that runs in the workers. */
static void drop_the_workers_own(struct jmut_doc *doc, struct jmut *container)
{
	static const char *const fields[] = {
		"args",      "ports",        "livenessProbe", "readinessProbe", "startupProbe",
		"lifecycle", "resizePolicy", "restartPolicy", "resources",
	};
	struct jmut *plain = job_plain_resources(doc, jmut_view(container));

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		jmut_del(container, fields[i]);
	jmut_set(doc, container, "resources", plain);
}

static void set_command(struct jmut_doc *doc, struct jmut *container, const struct job *job,
			const struct json *spec)
{
	struct jmut *command = jmut_copy(doc, json_at(spec, "launcher", "command", NULL));

	if (job->interactive) {
		command = jmut_array(doc);
		jmut_push(doc, command, jmut_strz(doc, JOB_LAUNCHER_PROGRAM));
		jmut_push(doc, command, jmut_strz(doc, "init"));
		jmut_push(doc, command, jmut_strz(doc, "--for"));
		jmut_push(doc, command, jmut_strf(doc, "%" PRId64, job->ttl_ms / 1000));
	}
	jmut_del(container, "command");
	jmut_set(doc, container, "command", command);
}

/* launcher.env over the template's, behind it: it may refer to that as $(NAME). */
static void add_own_env(struct jmut_doc *doc, struct jmut *container, const struct json *own)
{
	struct json_iter names = json_iter(own), it = json_iter(own);
	struct jmut *env = json_len(own) ? jmut_need_array(doc, container, "env") : NULL;

	while (env && json_next(&names))
		job_env_drop(env, json_str(json_get(names.value, "name")));
	while (env && json_next(&it))
		jmut_push(doc, env, jmut_copy(doc, it.value));
}

/* Of several GCDs each worker has its own, and MPICH would hand the launcher's on to all. */
static void hide_gcd(struct jmut *container, const struct job *job)
{
	if (job->workers > 1)
		job_env_drop(jmut_get(container, "env"), STR("IPUOF_VIPU_API_GCD_ID"));
}

/* How many of the operator's variables stand in front. */
static size_t count_ipuof(struct jmut *env)
{
	size_t n = 0;

	while (str_has_prefix(json_str(json_get(jmut_view(jmut_item(env, n)), "name")),
			      STR("IPUOF_")))
		n++;
	return n;
}

static int build_main(struct jmut_doc *doc, struct jmut *container, const struct job *job,
		      const struct json *spec, const struct job_ipus *ipus,
		      const struct jmut *pod_spec, const struct job_pod_settings *settings,
		      struct err *err)
{
	drop_the_workers_own(doc, container);
	set_command(doc, container, job, spec);
	add_own_env(doc, container, json_at(spec, "launcher", "env", NULL));
	/* A restart takes the log away: its end goes into the status, and an Event. */
	if (!jmut_get(container, "terminationMessagePolicy"))
		jmut_set_str(doc, container, "terminationMessagePolicy", "FallbackToLogsOnError");
	if (job_container_build(doc, container, ipus, settings, err) < 0)
		return -1;
	hide_gcd(container, job);
	job_mpi_apply(doc, container, count_ipuof(jmut_get(container, "env")), pod_spec, settings);
	return 0;
}

/* ---- the Pod ---- */

/* What arranges workers among themselves, or gives them devices and accounts. */
static void drop_the_pods_own(struct jmut *pod_spec)
{
	static const char *const fields[] = {
		"initContainers", "ephemeralContainers",       "resourceClaims",
		"serviceAccount", "topologySpreadConstraints",
	};
	struct jmut *affinity = jmut_get(pod_spec, "affinity");

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		jmut_del(pod_spec, fields[i]);
	jmut_del(affinity, "podAffinity");
	jmut_del(affinity, "podAntiAffinity");
}

/* A worker may have several containers: an exec names the one that waits. */
static void name_worker(struct jmut_doc *doc, struct jmut *in, const struct jmut *container)
{
	const char *name = json_cstr(json_get(jmut_view(container), "name"));
	size_t front = 0;

	job_env_offer(doc, jmut_need_array(doc, in, "env"), &front, "IPU_WORKER_CONTAINER",
		      name ? name : "");
}

/* Behind `install`: ends when each worker has answered. */
static void add_wait(struct jmut_doc *doc, struct jmut *pod_spec, struct jmut *container,
		     const struct job_pod_settings *settings)
{
	struct jmut *helper = job_helper(doc, WAIT_NAME, jmut_view(container), settings);
	struct jmut *command = jmut_array(doc);

	jmut_push(doc, command, jmut_strz(doc, JOB_LAUNCHER_SOURCE));
	jmut_push(doc, command, jmut_strz(doc, "wait"));
	jmut_push(doc, command, jmut_strz(doc, "--hostfile"));
	jmut_push(doc, command, jmut_strz(doc, JOB_MPI_DIR "/" JOB_MPI_HOSTFILE));
	jmut_push(doc, command, jmut_strz(doc, "--timeout"));
	jmut_push(doc, command, jmut_strf(doc, "%u", settings->worker_wait_s));
	jmut_set(doc, helper, "command", command);
	name_worker(doc, helper, container);
	job_mount(doc, helper, JOB_MPI_VOLUME, JOB_MPI_DIR, true);
	jmut_push(doc, jmut_get(pod_spec, "initContainers"), helper);
}

int job_launcher_build(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		       uint32_t instance, const struct job_ipus *ipus,
		       const struct job_pod_settings *settings, struct err *err)
{
	CLEANUP_FREE char *name = job_launcher_name(job, instance);
	struct job_ipus first = *ipus;
	struct jmut *pod_spec, *container, *containers;

	first.gcd = 0;
	if (job_pod_begin(doc, spec, job, instance, JOB_ROLE_LAUNCHER, name, ipus, &pod_spec, err) <
	    0)
		return -1;
	drop_the_pods_own(pod_spec);
	containers = jmut_get(pod_spec, "containers");
	while (jmut_len(containers) > 1)
		jmut_remove(containers, jmut_len(containers) - 1);
	container = jmut_item(containers, 0);
	job_pod_finish(doc, pod_spec, &first, settings);
	if (build_main(doc, container, job, spec, &first, pod_spec, settings, err) < 0)
		return -1;
	name_worker(doc, container, container);
	job_deliver(doc, pod_spec, container, settings);
	add_wait(doc, pod_spec, container, settings);
	job_mpi_files(doc, pod_spec, container, job, &instance);
	jmut_set(doc, pod_spec, "serviceAccountName", jmut_strf(doc, "%s-launcher", job->name));
	jmut_set_bool(doc, pod_spec, "automountServiceAccountToken", true);
	return 0;
}
