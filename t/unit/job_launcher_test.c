/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launcher Pods from the worker template, whole and field by field; the environment of MPI and
 * PopDist; the ConfigMap, ServiceAccount, Role and RoleBinding of a job's launchers.
 */
#include <dirent.h>

#include "core/yaml.h"
#include "job/launcher.h"
#include "tap.h"

#define TEXT(z) ((char *)(uintptr_t)(z))

static struct yaml *parse(const char *text)
{
	struct yaml *y = NULL;
	struct err err = ERR_INIT;

	if (yaml_parse("a row", str_of(text), &y, &err) < 0)
		bail_out(err.msg);
	return y;
}

static void is_yaml(const struct json *got, const char *want, const char *what)
{
	CLEANUP_YAML struct yaml *y = parse(want);
	struct buf out = BUF_INIT(1 << 20);

	if (ok(json_equal(got, yaml_doc(y, 0)), "%s", what))
		return;
	if (yaml_write(got, &out, NULL) == 0)
		diag("got:\n%.*s", (int)out.len, out.p);
	buf_done(&out);
}

static const struct job job = {.ns = TEXT("default"),
			       .name = TEXT("j"),
			       .uid = TEXT("uid-of-j"),
			       .instances = 2,
			       .workers = 2,
			       .slots = 4,
			       .ipus = 16,
			       .options = {.replicas = 8},
			       .template_hash = 0xabc123,
			       .launcher = true};
static const struct job_pod_settings settings = {.launcher_image = "reg/launcher:1",
						 .worker_wait_s = 77};
static const struct job_ipus ipus = {
	.partition_id = "part-1", .host = "vipu.example", .port = 8090, .gcd = 1};

static struct jmut *build_with(struct jmut_doc *doc, const struct job *j, const char *spec,
			       uint32_t instance, const struct job_ipus *at,
			       const struct job_pod_settings *how)
{
	CLEANUP_YAML struct yaml *y = parse(spec);
	struct err err = ERR_INIT;

	if (job_launcher_build(doc, j, yaml_doc(y, 0), instance, at, how, &err) < 0)
		bail_out(err.msg);
	return jmut_root(doc);
}

static struct jmut *main_container(struct jmut *pod)
{
	return jmut_item(jmut_get(jmut_get(pod, "spec"), "containers"), 0);
}

/* What a variable of the main container is; "" if it isn't set. */
static const char *env_value(struct jmut *pod, const char *name)
{
	struct jmut *env = jmut_get(main_container(pod), "env");
	const char *value = "";

	for (size_t i = 0; i < jmut_len(env); i++) {
		const struct json *v = jmut_view(jmut_item(env, i));

		if (str_eqz(json_str(json_get(v, "name")), name))
			value = json_cstr(json_get(v, "value")) ? json_cstr(json_get(v, "value"))
								: "not a literal";
	}
	return value;
}

/* ---- the whole Pod ---- */

static const char whole_spec[] =
	"launcher:\n"
	"  command: [mpirun, -np, '8', python3, 'train.py']\n"
	"  env:\n"
	"  - {name: A, value: of the launcher}\n"
	"  - {name: B, value: $(C)}\n"
	"workers:\n"
	"  template:\n"
	"    metadata:\n"
	"      labels: {app: mine}\n"
	"      annotations: {k8s.v1.cni.cncf.io/networks: rdma-net}\n"
	"    spec:\n"
	"      hostIPC: true\n"
	"      unknownField: {deep: [true]}\n"
	"      nodeSelector: {zone: a}\n"
	"      tolerations: [{key: ipu, operator: Exists}]\n"
	"      imagePullSecrets: [{name: s}]\n"
	"      securityContext: {runAsUser: 0}\n"
	"      serviceAccountName: theirs\n"
	"      serviceAccount: theirs\n"
	"      automountServiceAccountToken: false\n"
	"      restartPolicy: Always\n"
	"      resourceClaims: [{name: nic}]\n"
	"      topologySpreadConstraints: [{maxSkew: 1}]\n"
	"      affinity:\n"
	"        nodeAffinity: {kept: true}\n"
	"        podAffinity: {gone: true}\n"
	"        podAntiAffinity: {gone: true}\n"
	"      initContainers: [{name: fetch, image: i}]\n"
	"      volumes: [{name: data, persistentVolumeClaim: {claimName: d}}]\n"
	"      containers:\n"
	"      - name: c\n"
	"        image: im:latest\n"
	"        imagePullPolicy: Always\n"
	"        workingDir: /work\n"
	"        command: [sleep]\n"
	"        args: [forever]\n"
	"        env:\n"
	"        - {name: A, value: of the template}\n"
	"        - {name: C, value: c}\n"
	"        envFrom: [{configMapRef: {name: e}}]\n"
	"        ports: [{containerPort: 80, hostPort: 80}]\n"
	"        readinessProbe: {exec: {command: [x]}}\n"
	"        livenessProbe: {exec: {command: [x]}}\n"
	"        startupProbe: {exec: {command: [x]}}\n"
	"        lifecycle: {preStop: {exec: {command: [x]}}}\n"
	"        volumeMounts: [{name: data, mountPath: /data}]\n"
	"        securityContext: {capabilities: {add: [IPC_LOCK]}}\n"
	"        resources:\n"
	"          claims: [{name: nic}]\n"
	"          limits: {cpu: 32, memory: 64Gi, rdma/rdma_shared_device_a: 1, graphcore.ai/ipu: 4}\n"
	"          requests: {hugepages-2Mi: 2Mi, rdma/rdma_shared_device_a: 1}\n"
	"        newField: 1.50\n"
	"      - {name: side, image: s}\n";

#define HELPER                                                                                     \
	"    image: reg/launcher:1\n"                                                              \
	"    resources: {limits: {cpu: 32, memory: 64Gi}, requests: {hugepages-2Mi: 2Mi}}\n"       \
	"    securityContext:\n"                                                                   \
	"      allowPrivilegeEscalation: false\n"                                                  \
	"      capabilities: {drop: [ALL]}\n"                                                      \
	"      readOnlyRootFilesystem: true\n"                                                     \
	"      runAsNonRoot: true\n"                                                               \
	"      runAsUser: 65532\n"                                                                 \
	"      seccompProfile: {type: RuntimeDefault}\n"                                           \
	"    terminationMessagePolicy: FallbackToLogsOnError\n"

static const char whole_pod[] =
	"apiVersion: v1\n"
	"kind: Pod\n"
	"metadata:\n"
	"  name: j-launcher-1\n"
	"  namespace: default\n"
	"  labels:\n"
	"    app: mine\n"
	"    app.kubernetes.io/name: ipujob\n"
	"    app.kubernetes.io/component: launcher\n"
	"    app.kubernetes.io/instance: j\n"
	"    app.kubernetes.io/managed-by: ipu-operator\n"
	"    graphcore.ai/job: j\n"
	"    graphcore.ai/instance: '1'\n"
	"    graphcore.ai/role: launcher\n"
	"  annotations:\n"
	"    k8s.v1.cni.cncf.io/networks: rdma-net\n"
	"    graphcore.ai/partition: part-1\n"
	"    graphcore.ai/template: '0000000000abc123'\n"
	"  ownerReferences:\n"
	"  - {apiVersion: graphcore.ai/v1alpha1, kind: IPUJob, name: j, uid: uid-of-j,\n"
	"     controller: true, blockOwnerDeletion: true}\n"
	"spec:\n"
	"  hostIPC: true\n"
	"  unknownField: {deep: [true]}\n"
	"  nodeSelector: {zone: a, pod: a}\n"
	"  tolerations: [{key: ipu, operator: Exists}]\n"
	"  imagePullSecrets: [{name: s}]\n"
	"  securityContext: {runAsUser: 0}\n"
	"  serviceAccountName: j-launcher\n"
	"  automountServiceAccountToken: true\n"
	"  restartPolicy: Never\n"
	"  hostNetwork: true\n"
	"  dnsPolicy: ClusterFirstWithHostNet\n"
	"  affinity: {nodeAffinity: {kept: true}}\n"
	"  initContainers:\n"
	"  - name: ipu-launcher-install\n"
	"    command: [/ipu-launcher, install, /.ipu/ipu-launcher]\n"
	"    volumeMounts: [{name: ipu-launcher, mountPath: /.ipu}]\n" HELPER
	"  - name: ipu-launcher-wait\n"
	"    command: [/ipu-launcher, wait, --hostfile, /etc/mpi/hostfile, --timeout, '77']\n"
	"    env: [{name: IPU_WORKER_CONTAINER, value: c}]\n"
	"    volumeMounts: [{name: mpi-config, mountPath: /etc/mpi, readOnly: true}]\n" HELPER
	"  volumes:\n"
	"  - {name: data, persistentVolumeClaim: {claimName: d}}\n"
	"  - {name: ipu-launcher, emptyDir: {}}\n"
	"  - name: mpi-config\n"
	"    configMap:\n"
	"      name: j-config\n"
	"      defaultMode: 365\n"
	"      items:\n"
	"      - {key: kubeexec.sh, path: kubeexec.sh}\n"
	"      - {key: hostfile-1, path: hostfile}\n"
	"      - {key: machinefile-1, path: machinefile}\n"
	"  containers:\n"
	"  - name: c\n"
	"    image: im:latest\n"
	"    imagePullPolicy: Always\n"
	"    workingDir: /work\n"
	"    command: [mpirun, -np, '8', python3, 'train.py']\n"
	"    env:\n"
	"    - {name: IPU_WORKER_CONTAINER, value: c}\n"
	"    - {name: IPUOF_VIPU_API_HOST, value: vipu.example}\n"
	"    - {name: IPUOF_VIPU_API_PORT, value: '8090'}\n"
	"    - {name: IPUOF_VIPU_API_PARTITION_ID, value: part-1}\n"
	"    - {name: IPUOF_VIPU_API_TIMEOUT, value: '120'}\n"
	"    - {name: OMPI_MCA_plm_rsh_agent, value: /etc/mpi/kubeexec.sh}\n"
	"    - {name: OMPI_MCA_plm_rsh_no_tree_spawn, value: '1'}\n"
	"    - {name: OMPI_MCA_orte_leave_session_attached, value: '1'}\n"
	"    - {name: OMPI_MCA_plm_rsh_num_concurrent, value: '100000'}\n"
	"    - {name: OMPI_MCA_orte_default_hostfile, value: /etc/mpi/hostfile}\n"
	"    - {name: OMPI_MCA_orte_keep_fqdn_hostnames, value: '1'}\n"
	"    - {name: OMPI_ALLOW_RUN_AS_ROOT, value: '1'}\n"
	"    - {name: OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, value: '1'}\n"
	"    - {name: PRTE_MCA_plm_ssh_agent, value: /etc/mpi/kubeexec.sh}\n"
	"    - {name: PRTE_MCA_plm_ssh_no_tree_spawn, value: '1'}\n"
	"    - {name: PRTE_MCA_prte_leave_session_attached, value: '1'}\n"
	"    - {name: PRTE_MCA_plm_ssh_num_concurrent, value: '100000'}\n"
	"    - {name: PRTE_MCA_prte_default_hostfile, value: /etc/mpi/hostfile}\n"
	"    - {name: PRTE_MCA_prte_keep_fqdn_hostnames, value: '1'}\n"
	"    - {name: PRTE_ALLOW_RUN_AS_ROOT, value: '1'}\n"
	"    - {name: PRTE_ALLOW_RUN_AS_ROOT_CONFIRM, value: '1'}\n"
	"    - {name: HYDRA_LAUNCHER, value: rsh}\n"
	"    - {name: HYDRA_LAUNCHER_EXEC, value: /etc/mpi/kubeexec.sh}\n"
	"    - {name: HYDRA_HOST_FILE, value: /etc/mpi/machinefile}\n"
	"    - {name: HYDRA_HOSTNAME_PROPAGATION, value: '0'}\n"
	"    - {name: OMPI_MCA_btl_vader_backing_directory, value: /tmp}\n"
	"    - {name: OMPI_MCA_btl_sm_backing_directory, value: /tmp}\n"
	"    - {name: OMPI_MCA_btl_tcp_if_include, value: ens1}\n"
	"    - {name: OMPI_MCA_oob_tcp_if_include, value: ens1}\n"
	"    - {name: PRTE_MCA_prte_if_include, value: ens1}\n"
	"    - {name: HYDRA_IFACE, value: ens1}\n"
	"    - {name: C, value: c}\n"
	"    - {name: A, value: of the launcher}\n"
	"    - {name: B, value: $(C)}\n"
	"    envFrom: [{configMapRef: {name: e}}]\n"
	"    volumeMounts:\n"
	"    - {name: data, mountPath: /data}\n"
	"    - {name: ipu-launcher, mountPath: /.ipu, readOnly: true}\n"
	"    - {name: mpi-config, mountPath: /etc/mpi, readOnly: true}\n"
	"    securityContext: {capabilities: {add: [IPC_LOCK]}, privileged: true}\n"
	"    resources: {limits: {cpu: 32, memory: 64Gi}, requests: {hugepages-2Mi: 2Mi}}\n"
	"    newField: 1.50\n"
	"    terminationMessagePolicy: FallbackToLogsOnError\n";

static void test_whole(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job_pod_settings how = settings;
	struct job_ipus at = ipus;

	how.host_network = how.privileged = true;
	how.mpi_interface = "ens1";
	at.label_key = "pod";
	at.label_value = "a";
	is_yaml(jmut_view(build_with(doc, &job, whole_spec, 1, &at, &how)), whole_pod,
		"the whole Pod");
}

/* ---- the main container, field by field ---- */

#define PLAIN                                                                                      \
	"{launcher: {command: [m]%s}, workers: {template: {spec: {containers: [{name: c%s}]%s}}}}"

static void test_interactive(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job j = job;
	struct jmut *pod;

	j.launcher = false;
	j.interactive = true;
	j.ttl_ms = 3600000;
	pod = build_with(doc, &j,
			 "{interactive: {ttl: 3600}, workers: {template: {spec: {containers: "
			 "[{name: c, command: [x], args: ['y']}]}}}}",
			 0, &ipus, &settings);
	is_yaml(jmut_view(jmut_get(main_container(pod), "command")),
		"[/.ipu/ipu-launcher, init, --for, '3600']", "it sleeps for its time");
	ok(!jmut_get(main_container(pod), "args"), "without the template's arguments");
	pod = build_with(doc, &j,
			 "{interactive: {ttl: 3600}, workers: {template: {spec: {containers: "
			 "[{name: c, terminationMessagePolicy: File}]}}}}",
			 0, &ipus, &settings);
	is_str(json_cstr(json_get(jmut_view(main_container(pod)), "terminationMessagePolicy")),
	       "File", "where its last words are, the template may say");
	pod = build_with(doc, &j,
			 "{interactive: {ttl: 3600}, workers: {template: {spec: {containers: "
			 "[{name: c, command: [x]}]}}}}",
			 0, &ipus, &settings);
	is_str(env_value(pod, "OMPI_MCA_plm_rsh_agent"), "/etc/mpi/kubeexec.sh",
	       "mpirun can be called by hand");
}

/* What somebody says himself stays as he says it, but for where the IPUs are. */
static void test_environment(void)
{
	static const struct {
		const char *name, *launcher, *container, *spec; /* what the manifest adds */
		const char *interface;                          /* of the configuration */
		const char *variable, *want;
	} rows[] = {
		{"of the template", "", ", env: [{name: HYDRA_LAUNCHER, value: ssh}]", "", NULL,
		 "HYDRA_LAUNCHER", "ssh"},
		{"of launcher.env", ", env: [{name: OMPI_MCA_plm_rsh_agent, value: /mine}]", "", "",
		 NULL, "OMPI_MCA_plm_rsh_agent", "/mine"},
		{"launcher.env over the template", ", env: [{name: A, value: l}]",
		 ", env: [{name: A, value: t}, {name: A, value: u}]", "", NULL, "A", "l"},
		{"where the IPUs are", ", env: [{name: IPUOF_VIPU_API_PARTITION_ID, value: x}]",
		 ", env: [{name: IPUOF_VIPU_API_PARTITION_ID, value: 'y'}]", "", NULL,
		 "IPUOF_VIPU_API_PARTITION_ID", "part-1"},
		{"how long to wait for them", ", env: [{name: IPUOF_VIPU_API_TIMEOUT, value: '9'}]",
		 "", "", NULL, "IPUOF_VIPU_API_TIMEOUT", "9"},
		{"the GCD is each worker's own", "",
		 ", env: [{name: IPUOF_VIPU_API_GCD_ID, value: '7'}]", "", NULL,
		 "IPUOF_VIPU_API_GCD_ID", ""},
		{"no interface", "", "", "", NULL, "OMPI_MCA_btl_tcp_if_include", ""},
		{"a Pod's own interface", "", "", "", NULL, "HYDRA_IFACE", "eth0"},
		{"on the host's network, there's no saying", "", "", ", hostNetwork: true", NULL,
		 "HYDRA_IFACE", ""},
		{"a configured one", "", "", ", hostNetwork: true", "ib0", "HYDRA_IFACE", "ib0"},
		{"hydra takes no subnets", "", "", "", "10.0.0.0/8", "HYDRA_IFACE", ""},
		{"nor several", "", "", "", "a,b", "HYDRA_IFACE", ""},
		{"Open MPI does", "", "", "", "a,10.0.0.0/8", "OMPI_MCA_oob_tcp_if_include",
		 "a,10.0.0.0/8"},
		{"PRRTE too", "", "", "", "a,b", "PRTE_MCA_prte_if_include", "a,b"},
		{"the user's interface",
		 ", env: [{name: OMPI_MCA_btl_tcp_if_include, value: mine}]", "", "", "a",
		 "OMPI_MCA_btl_tcp_if_include", "mine"},
		{"memory shared with the host", "", "", ", hostIPC: true", NULL,
		 "OMPI_MCA_btl_vader_backing_directory", "/tmp"},
		{"in Open MPI 5 too", "", "", ", hostIPC: true", NULL,
		 "OMPI_MCA_btl_sm_backing_directory", "/tmp"},
		{"each container has its own", "",
		 ", volumeMounts: [{name: m, mountPath: /dev/shm}]", ", hostIPC: true", NULL,
		 "OMPI_MCA_btl_vader_backing_directory", ""},
		{"each Pod has its own", "", "", "", NULL, "OMPI_MCA_btl_vader_backing_directory",
		 ""},
		{"no share in the replicas: it's no worker", "", "", "", NULL,
		 "POPDIST_NUM_TOTAL_REPLICAS", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct job_pod_settings how = settings;
		char spec[512];
		struct jmut *pod;

		row_begin("%s", rows[i].name);
		how.mpi_interface = rows[i].interface;
		snprintf(spec, sizeof(spec), PLAIN, rows[i].launcher, rows[i].container,
			 rows[i].spec);
		pod = build_with(doc, &job, spec, 0, &ipus, &how);
		is_str(env_value(pod, rows[i].variable), rows[i].want, "%s", rows[i].variable);
	}
	row_end();
}

static void test_config_bytes(void)
{
	static const struct {
		const char *name;
		uint32_t instances, workers, slots;
	} rows[] = {{"j", 1, 1, 1}, {"mnist", 3, 7, 16}, {"a.b", 1, 1234, 4}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct job of = job;
		struct json_iter it;
		uint64_t bytes = 0;

		of.name = (char *)(uintptr_t)rows[i].name;
		of.instances = rows[i].instances;
		of.workers = rows[i].workers;
		of.slots = rows[i].slots;
		job_support_build(doc, &of, JOB_SUPPORT_CONFIG, of.instances, NULL);
		it = json_iter(json_get(jmut_view(jmut_root(doc)), "data"));
		while (json_next(&it))
			bytes += json_str(it.value).len;
		is_uint(job_config_bytes(&of), bytes, "bytes of %s", of.name);
	}
}

static void test_resources(void)
{
	static const struct {
		const char *has, *keeps; /* "": none at all */
	} rows[] = {
		{"{limits: {cpu: 1}}", "{limits: {cpu: 1}}"},
		{"{limits: {rdma/x: 1}}", ""},
		{"{limits: {rdma/x: 1}, requests: {ephemeral-storage: 1Gi, rdma/x: 1}}",
		 "{requests: {ephemeral-storage: 1Gi}}"},
		{"{limits: {graphcore.ai/ipu: 1, example.com/ipu: 2}, claims: [{name: a}]}", ""},
		{"null", ""},
		{"{limits: 7}", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		char spec[512], resources[300];
		struct jmut *pod, *inits, *of_main;

		row_begin("%s", rows[i].has);
		snprintf(resources, sizeof(resources), ", resources: %s", rows[i].has);
		snprintf(spec, sizeof(spec), PLAIN, "", resources, "");
		pod = build_with(doc, &job, spec, 0, &ipus, &settings);
		inits = jmut_get(jmut_get(pod, "spec"), "initContainers");
		of_main = jmut_get(main_container(pod), "resources");
		for (size_t k = 0; k < jmut_len(inits); k++) {
			struct jmut *of_init = jmut_get(jmut_item(inits, k), "resources");

			ok(of_main ? json_equal(jmut_view(of_main), jmut_view(of_init)) : !of_init,
			   "an init container asks for as much, no more");
		}
		if (rows[i].keeps[0])
			is_yaml(jmut_view(of_main), rows[i].keeps, "what is kept");
		else
			ok(!of_main, "nothing is kept");
	}
	row_end();
}

/* It talks to the workers by what they talk by, and uses no devices. */
static void test_rdma(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job_pod_settings how = settings;
	char spec[512];
	struct jmut *pod;

	how.host_network = how.privileged = false;
	how.rdma = job_rdma_of(false, "fabric/rdma-net", "rdma/x", 1, "auto");
	snprintf(spec, sizeof(spec), PLAIN, "", ", resources: {limits: {rdma/x: 1}}", "");
	pod = build_with(doc, &job, spec, 0, &ipus, &how);
	is_yaml(json_at(jmut_view(pod), "metadata", "annotations", JOB_ANNOTATION_NETWORKS, NULL),
		"fabric/rdma-net", "it's in the network");
	ok(!jmut_get(main_container(pod), "resources"), "it asks for no device");
	ok(!jmut_get(main_container(pod), "securityContext"), "and may lock no memory");
	ok(!jmut_get(jmut_get(pod, "spec"), "hostNetwork"), "nor is it on the host's network");
}

static void test_one_worker_and_files(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *files = jmut_doc_new();
	struct job j = job;
	struct job_ipus at = ipus;
	char spec[512];
	struct jmut *pod;

	snprintf(spec, sizeof(spec), PLAIN, "", "", "");
	j.workers = 1;
	pod = build_with(doc, &j, spec, 0, &ipus, &settings);
	is_str(env_value(pod, "IPUOF_VIPU_API_GCD_ID"), "0", "with one worker, its GCD");

	at.values = JOB_VALUES_FILE;
	at.config_map = "cm";
	pod = build_with(files, &job, spec, 0, &at, &settings);
	is_str(env_value(pod, "IPUOF_CONFIG_PATH"), "/etc/ipuof.conf.d/part-1.conf",
	       "the configuration as a file");
	is_yaml(jmut_view(jmut_item(jmut_get(jmut_get(pod, "spec"), "volumes"), 0)),
		"{name: ipuof-config, configMap: {name: cm, items: "
		"[{key: ipuof-0.conf, path: part-1.conf}]}}",
		"that of the first GCD");
}

static void test_bad(void)
{
	static const char *const specs[] = {
		"{launcher: {command: [m]}}",
		"{launcher: {command: [m]}, workers: {template: {spec: {containers: []}}}}",
		"{launcher: {command: [m]}, workers: {template: {spec: {containers: [7]}}}}",
	};
	struct job j = job;
	struct job_pod_settings none = settings;

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_YAML struct yaml *y = parse(specs[i]);
		struct err err = ERR_INIT;

		row_begin("%s", specs[i]);
		ok(job_launcher_build(doc, &job, yaml_doc(y, 0), 0, &ipus, &settings, &err) < 0,
		   "refused");
		has_str(err.msg, "spec.workers.template.spec.containers: must", "in words");
	}
	row_end();
	ok(!job_launcher_problem(&job, &settings), "with an image there's no problem");
	none.launcher_image = "";
	has_str(job_launcher_problem(&job, &none), "launcher.image", "without one it's named");
	none.launcher_image = NULL;
	ok(job_launcher_problem(&job, &none) != NULL, "nor with none at all");
	j.launcher = false;
	ok(!job_launcher_problem(&j, &none), "a job without a launcher needs no image");
}

/* ---- what launchers need ---- */

static const char *const supports[JOB_SUPPORTS] = {
	[JOB_SUPPORT_CONFIG] =
		"apiVersion: v1\n"
		"kind: ConfigMap\n"
		"metadata: {name: j-config, namespace: default,\n"
		"  labels: {app.kubernetes.io/managed-by: ipu-operator, graphcore.ai/job: j},\n"
		"  ownerReferences: [{apiVersion: graphcore.ai/v1alpha1, kind: IPUJob, name: j,\n"
		"    uid: uid-of-j, controller: true, blockOwnerDeletion: true}]}\n"
		"data:\n"
		"  kubeexec.sh: |\n"
		"    #!/bin/sh\n"
		"    # kubeexec.sh HOST COMMAND...: runs COMMAND in a worker, for mpirun, mpiexec and "
		"poprun.\n"
		"    exec /.ipu/ipu-launcher rsh \"$@\"\n"
		"  hostfile: |\n"
		"    j-worker-0 slots=4\n"
		"    j-worker-1 slots=4\n"
		"  machinefile: |\n"
		"    j-worker-0:4\n"
		"    j-worker-1:4\n"
		"  hostfile-1: |\n"
		"    j-worker-2 slots=4\n"
		"    j-worker-3 slots=4\n"
		"  machinefile-1: |\n"
		"    j-worker-2:4\n"
		"    j-worker-3:4\n",
	[JOB_SUPPORT_ACCOUNT] =
		"apiVersion: v1\n"
		"kind: ServiceAccount\n"
		"metadata: {name: j-launcher, namespace: default,\n"
		"  labels: {app.kubernetes.io/managed-by: ipu-operator, graphcore.ai/job: j},\n"
		"  ownerReferences: [{apiVersion: graphcore.ai/v1alpha1, kind: IPUJob, name: j,\n"
		"    uid: uid-of-j, controller: true, blockOwnerDeletion: true}]}\n",
	[JOB_SUPPORT_ROLE] =
		"apiVersion: rbac.authorization.k8s.io/v1\n"
		"kind: Role\n"
		"metadata: {name: j-launcher, namespace: default,\n"
		"  labels: {app.kubernetes.io/managed-by: ipu-operator, graphcore.ai/job: j},\n"
		"  ownerReferences: [{apiVersion: graphcore.ai/v1alpha1, kind: IPUJob, name: j,\n"
		"    uid: uid-of-j, controller: true, blockOwnerDeletion: true}]}\n"
		"rules:\n"
		"- apiGroups: ['']\n"
		"  resources: [pods]\n"
		"  resourceNames: [j-worker-0, j-worker-1, j-worker-2, j-worker-3]\n"
		"  verbs: [get]\n"
		"- apiGroups: ['']\n"
		"  resources: [pods/exec]\n"
		"  resourceNames: [j-worker-0, j-worker-1, j-worker-2, j-worker-3]\n"
		"  verbs: [get, create]\n",
	[JOB_SUPPORT_BINDING] =
		"apiVersion: rbac.authorization.k8s.io/v1\n"
		"kind: RoleBinding\n"
		"metadata: {name: j-launcher, namespace: default,\n"
		"  labels: {app.kubernetes.io/managed-by: ipu-operator, graphcore.ai/job: j},\n"
		"  ownerReferences: [{apiVersion: graphcore.ai/v1alpha1, kind: IPUJob, name: j,\n"
		"    uid: uid-of-j, controller: true, blockOwnerDeletion: true}]}\n"
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: j-launcher}\n"
		"subjects: [{kind: ServiceAccount, name: j-launcher, namespace: default}]\n",
};

static void test_supports(void)
{
	for (unsigned i = 0; i < JOB_SUPPORTS; i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_FREE char *name = job_support_name(&job, i);
		const struct json *got;

		row_begin("%s", job_support_resource(i)->kind);
		job_support_build(doc, &job, i, 2, NULL);
		got = jmut_view(jmut_root(doc));
		is_yaml(got, supports[i], "the whole object");
		ok(str_eqz(json_str(json_at(got, "metadata", "name", NULL)), name), "its name");
		ok(job_support_is_ours(got, &job) && job_support_is_current(got, &job, i, 2),
		   "the job's, and current");
	}
	row_end();
}

/* One made for two instances, changed by a merge patch: is it still the job's, is it current? */
static void test_changed(void)
{
	static const struct {
		const char *name, *patch;
		enum job_support which;
		uint32_t instances;
		bool ours, current;
	} rows[] = {
		{"what others add", "{metadata: {annotations: {x: 'y'}, labels: {z: a}}}",
		 JOB_SUPPORT_CONFIG, 2, true, true},
		{"fewer instances", "{}", JOB_SUPPORT_CONFIG, 1, true, false},
		{"more of them", "{}", JOB_SUPPORT_ROLE, 3, true, false},
		{"an account says nothing", "{imagePullSecrets: [{name: s}]}", JOB_SUPPORT_ACCOUNT,
		 3, true, true},
		{"another hostfile", "{data: {hostfile: x}}", JOB_SUPPORT_CONFIG, 2, true, false},
		{"a key too many", "{data: {x: x}}", JOB_SUPPORT_CONFIG, 2, true, false},
		{"no data", "{data: null}", JOB_SUPPORT_CONFIG, 2, true, false},
		{"a wider role", "{rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}",
		 JOB_SUPPORT_ROLE, 2, true, false},
		{"another subject", "{subjects: [{kind: User, name: eve}]}", JOB_SUPPORT_BINDING, 2,
		 true, false},
		{"no subject", "{subjects: null}", JOB_SUPPORT_BINDING, 2, true, false},
		{"nobody's", "{metadata: {ownerReferences: null}}", JOB_SUPPORT_ACCOUNT, 2, false,
		 false},
		{"an earlier job's of the name", "{metadata: {ownerReferences: [{uid: other}]}}",
		 JOB_SUPPORT_CONFIG, 2, false, false},
		{"without its label", "{metadata: {labels: null}}", JOB_SUPPORT_CONFIG, 2, false,
		 false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *again = jmut_doc_new();
		CLEANUP_YAML struct yaml *patch = parse(rows[i].patch);
		const struct json *got;

		row_begin("%s", rows[i].name);
		job_support_build(doc, &job, rows[i].which, 2, NULL);
		got = jmut_view(jmut_merge_patch(doc, jmut_root(doc), yaml_doc(patch, 0)));
		is_int(job_support_is_ours(got, &job), rows[i].ours, "the job's");
		is_int(job_support_is_current(got, &job, rows[i].which, rows[i].instances),
		       rows[i].current, "current");
		job_support_build(again, &job, rows[i].which, rows[i].instances, got);
		ok(job_support_is_current(jmut_view(jmut_root(again)), &job, rows[i].which,
					  rows[i].instances),
		   "put right");
	}
	row_end();
}

static void test_replaced(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_YAML struct yaml *before = parse(
		"{apiVersion: v1, kind: ConfigMap, binaryData: {x: AA==}, data: {old: x},\n"
		" metadata: {name: j-config, uid: u, resourceVersion: '7', labels: {z: a},\n"
		"  annotations: {kept: 'yes'}, managedFields: [{manager: m}],\n"
		"  ownerReferences: [{uid: uid-of-j}]}}");
	struct jmut *meta;

	job_support_build(doc, &job, JOB_SUPPORT_CONFIG, 1, yaml_doc(before, 0));
	meta = jmut_get(jmut_root(doc), "metadata");
	is_yaml(jmut_view(meta),
		"{name: j-config, namespace: default, uid: u, resourceVersion: '7',\n"
		" annotations: {kept: 'yes'},\n"
		" labels: {z: a, app.kubernetes.io/managed-by: ipu-operator, graphcore.ai/job: j},\n"
		" ownerReferences: [{apiVersion: graphcore.ai/v1alpha1, kind: IPUJob, name: j,\n"
		"  uid: uid-of-j, controller: true, blockOwnerDeletion: true}]}",
		"only the version that was looked at is replaced, and others' words stay");
	ok(!jmut_get(jmut_root(doc), "binaryData") &&
		   !jmut_get(jmut_get(jmut_root(doc), "data"), "old"),
	   "what was in it goes");
}

/* A rule without names would be one about all Pods. */
static void test_no_instances(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	job_support_build(doc, &job, JOB_SUPPORT_ROLE, 0, NULL);
	is_yaml(jmut_view(jmut_get(jmut_root(doc), "rules")), "[]", "no Pods, no rules");
}

/* Whose pull secrets a launcher's account gets. */
static void test_secrets(void)
{
	static const struct {
		const char *pod_spec, *account, *want; /* NULL: the template has its own */
	} rows[] = {
		{"{}", "{imagePullSecrets: [{name: a}, {name: b}]}", "default"},
		{"{serviceAccountName: x, serviceAccount: 'y'}", "{imagePullSecrets: [{name: a}]}",
		 "x"},
		{"{serviceAccount: 'y'}", "{}", "y"},
		{"{imagePullSecrets: []}", "{imagePullSecrets: []}", "default"},
		{"{imagePullSecrets: [{name: s}]}", "{}", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_FREE char *text = xasprintf("{workers: {template: {spec: %s}}}",
						    rows[i].pod_spec);
		CLEANUP_YAML struct yaml *spec = parse(text), *account = parse(rows[i].account);
		CLEANUP_FREE char *ask = job_support_account_to_ask(yaml_doc(spec, 0));
		const struct json *theirs = json_get(yaml_doc(account, 0), "imagePullSecrets");
		const struct json *got;

		row_begin("%s", rows[i].pod_spec);
		is_str(ask ? ask : "none", rows[i].want ? rows[i].want : "none", "who is asked");
		job_support_build(doc, &job, JOB_SUPPORT_ACCOUNT, 2, NULL);
		job_support_take_secrets(doc, yaml_doc(account, 0));
		got = json_get(jmut_view(jmut_root(doc)), "imagePullSecrets");
		ok(json_len(theirs) ? json_equal(got, theirs) : !got, "what is taken");
	}
	row_end();
}

/* ---- doc/examples ---- */

/* Every example is a job that can be run, and all its Pods can be made. */
static void check_example(const char *folder, const char *file)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s", folder, file);
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *worker = jmut_doc_new(),
				     *launcher = jmut_doc_new();
	CLEANUP_YAML struct yaml *y = NULL;
	struct jmut *object, *meta;
	const struct json *spec;
	struct err err = ERR_INIT;
	struct job *j;

	row_begin("%s", file);
	if (yaml_load(path, &y, &err) < 0)
		bail_out(err.msg);
	object = jmut_copy(doc, yaml_doc(y, 0));
	meta = jmut_get(object, "metadata");
	jmut_set_str(doc, meta, "uid", "u");
	jmut_set_str(doc, meta, "namespace", "default");
	if (!jmut_get(meta, "name"))
		jmut_set_str(doc, meta, "name", "generated-abcde");
	if (job_decode(jmut_view(object), &j, &err) < 0)
		bail_out(err.msg);
	spec = json_get(jmut_view(object), "spec");
	is_str(j->problem ? j->problem : "", "", "it breaks no rule");
	ok(job_pod_build(worker, j, spec, 0, 0, &ipus, &settings, &err) == 0, "a worker");
	if (job_has_launcher(j))
		ok(job_launcher_build(launcher, j, spec, 0, &ipus, &settings, &err) == 0,
		   "its launcher");
	job_free(j);
	row_end();
}

static void test_examples(void)
{
	const char *top = getenv("TOP_SRCDIR");
	CLEANUP_FREE char *folder = xasprintf("%s/doc/examples", top ? top : ".");
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned n = 0;

	while (dir && (entry = readdir(dir))) {
		if (!str_has_suffix(str_of(entry->d_name), STR(".yaml")))
			continue;
		check_example(folder, entry->d_name);
		n++;
	}
	if (dir)
		closedir(dir);
	ok(n >= 7, "%u examples", n);
}

int main(void)
{
	test_whole();
	test_interactive();
	test_environment();
	test_resources();
	test_rdma();
	test_one_worker_and_files();
	test_bad();
	test_supports();
	test_config_bytes();
	test_changed();
	test_replaced();
	test_no_instances();
	test_secrets();
	test_examples();
	return done_testing();
}
