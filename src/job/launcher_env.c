/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables by which Open MPI 4 (orte), Open MPI 5 (PRRTE) and MPICH (hydra) start processes
 * in the workers by ipu-launcher, and those by which a PopDist program knows its share. Pure.
 */
#include "job/launcher_env.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "job/pod_parts.h"

#define READ_EXECUTE 0555

#define SCRIPT      JOB_MPI_DIR "/" JOB_MPI_SCRIPT
#define HOSTFILE    JOB_MPI_DIR "/" JOB_MPI_HOSTFILE
#define CONCURRENT  "100000"
#define MACHINEFILE JOB_MPI_DIR "/" JOB_MPI_MACHINEFILE

/* The launcher starts every daemon itself (no_tree_spawn): a worker may start nothing in another.
 * Then the daemons would go to the background, and one that fails there fails unheard, with mpirun
 * waiting for it: they stay (leave_session_attached). As none of those calls returns then, there
 * must be no limit on how many there are at a time (num_concurrent; 128 else, and no job beyond
 * it). hydra hands its host names on to the programs as addresses to connect to, which a Pod's name
 * isn't: they find their own (HYDRA_HOSTNAME_PROPAGATION). As rsh, it adds no option of ssh's. */
static const char *const always[][2] = {
	{"OMPI_MCA_plm_rsh_agent", SCRIPT},
	{"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
	{"OMPI_MCA_orte_leave_session_attached", "1"},
	{"OMPI_MCA_plm_rsh_num_concurrent", CONCURRENT},
	{"OMPI_MCA_orte_default_hostfile", HOSTFILE},
	{"OMPI_MCA_orte_keep_fqdn_hostnames", "1"},
	{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
	{"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
	{"PRTE_MCA_plm_ssh_agent", SCRIPT},
	{"PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
	{"PRTE_MCA_prte_leave_session_attached", "1"},
	{"PRTE_MCA_plm_ssh_num_concurrent", CONCURRENT},
	{"PRTE_MCA_prte_default_hostfile", HOSTFILE},
	{"PRTE_MCA_prte_keep_fqdn_hostnames", "1"},
	{"PRTE_ALLOW_RUN_AS_ROOT", "1"},
	{"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
	{"HYDRA_LAUNCHER", "rsh"},
	{"HYDRA_LAUNCHER_EXEC", SCRIPT},
	{"HYDRA_HOST_FILE", MACHINEFILE},
	{"HYDRA_HOSTNAME_PROPAGATION", "0"},
};

/* These take names and subnets, several with commas. */
static const char *const interfaces[] = {
	"OMPI_MCA_btl_tcp_if_include",
	"OMPI_MCA_oob_tcp_if_include",
	"PRTE_MCA_prte_if_include",
};

#define HYDRA_IFACE "HYDRA_IFACE" /* one name */
#define POD_IFACE   "eth0"        /* what container runtimes call a Pod's first interface */

/* With the host's IPC and no /dev/shm of their own, two workers on one node would open the same
 * files: Open MPI names them by host and rank on it, and crashes. */
static const char *const shared_memory[] = {
	"OMPI_MCA_btl_vader_backing_directory",
	"OMPI_MCA_btl_sm_backing_directory", /* its name in Open MPI 5 */
};

static bool shares_memory(const struct json *pod_spec, const struct json *container)
{
	struct json_iter it = json_iter(json_get(container, "volumeMounts"));

	if (!json_bool(json_get(pod_spec, "hostIPC"), false))
		return false;
	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "mountPath")), "/dev/shm"))
			return false;
	}
	return true;
}

void job_mpi_apply(struct jmut_doc *doc, struct jmut *container, size_t at,
		   const struct jmut *pod_spec, const struct job_pod_settings *settings)
{
	const struct json *spec = jmut_view(pod_spec);
	bool host_network = json_bool(json_get(spec, "hostNetwork"), false);
	bool shared = shares_memory(spec, jmut_view(container));
	struct jmut *env = jmut_need_array(doc, container, "env");
	const char *wanted = settings->mpi_interface;

	if (!env)
		return;
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		job_env_offer(doc, env, &at, always[i][0], always[i][1]);
	for (size_t i = 0; shared && i < sizeof(shared_memory) / sizeof(shared_memory[0]); i++)
		job_env_offer(doc, env, &at, shared_memory[i], "/tmp");
	for (size_t i = 0; wanted && i < sizeof(interfaces) / sizeof(interfaces[0]); i++)
		job_env_offer(doc, env, &at, interfaces[i], wanted);
	if (wanted && !strpbrk(wanted, "/,"))
		job_env_offer(doc, env, &at, HYDRA_IFACE, wanted);
	else if (!wanted && !host_network)
		job_env_offer(doc, env, &at, HYDRA_IFACE, POD_IFACE);
}

static void add_item(struct jmut_doc *doc, struct jmut *items, const char *name, uint32_t instance)
{
	struct jmut *item = jmut_object(doc);

	jmut_set(doc, item, "key",
		 instance ? jmut_strf(doc, "%s-%" PRIu32, name, instance) : jmut_strz(doc, name));
	jmut_set_str(doc, item, "path", name);
	jmut_push(doc, items, item);
}

void job_mpi_files(struct jmut_doc *doc, struct jmut *pod_spec, struct jmut *container,
		   const struct job *job, const uint32_t *instance)
{
	struct jmut *volumes = jmut_need_array(doc, pod_spec, "volumes");
	struct jmut *volume = jmut_object(doc), *source = jmut_object(doc),
		    *items = jmut_array(doc);

	add_item(doc, items, JOB_MPI_SCRIPT, 0);
	if (instance) {
		add_item(doc, items, JOB_MPI_HOSTFILE, *instance);
		add_item(doc, items, JOB_MPI_MACHINEFILE, *instance);
	}
	jmut_set(doc, source, "name", jmut_strf(doc, "%s-config", job->name));
	jmut_set_int(doc, source, "defaultMode", READ_EXECUTE);
	jmut_set(doc, source, "items", items);
	jmut_set_str(doc, volume, "name", JOB_MPI_VOLUME);
	jmut_set(doc, volume, "configMap", source);
	jmut_push(doc, volumes, volume);
	job_mount(doc, container, JOB_MPI_VOLUME, JOB_MPI_DIR, true);
}

void job_popdist_apply(struct jmut_doc *doc, struct jmut *container, const struct job *job,
		       uint32_t worker)
{
	uint64_t total = (uint64_t)job->workers * job->slots;
	struct jmut *env;
	size_t at = 0;

	/* options.replicas: 0 where the job says nothing. */
	if (job->workers < 2 || total == 0 || job->options.replicas != total ||
	    job->ipus % total != 0)
		return;
	env = jmut_need_array(doc, container, "env");
	const struct {
		const char *name;
		uint64_t value;
	} vars[] = {
		{"POPDIST_NUM_TOTAL_REPLICAS", total},
		{"POPDIST_NUM_IPUS_PER_REPLICA", job->ipus / total},
		{"POPDIST_NUM_LOCAL_REPLICAS", job->slots},
		{"POPDIST_UNIFORM_REPLICAS_PER_INSTANCE", 1},
		{"POPDIST_REPLICA_INDEX_OFFSET", (uint64_t)worker * job->slots},
		{"POPDIST_LOCAL_INSTANCE_INDEX", 0},
	};
	for (size_t i = 0; env && i < sizeof(vars) / sizeof(vars[0]); i++) {
		char text[24];

		snprintf(text, sizeof(text), "%" PRIu64, vars[i].value);
		job_env_offer(doc, env, &at, vars[i].name, text);
	}
}
