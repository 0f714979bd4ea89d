/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker Pods from templates, whole, and what is read from Pods as kubelets report them.
 */
#include "core/yaml.h"
#include "job/pod.h"
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

static const struct job job = {.ns = TEXT("default"),
			       .name = TEXT("j"),
			       .uid = TEXT("uid-of-j"),
			       .instances = 2,
			       .workers = 2};

static const struct job_ipus literal = {
	.partition_id = "part-1", .host = "vipu.example", .port = 8090, .gcd = 1};

static int build(struct jmut_doc *doc, const char *spec, const struct job_ipus *ipus,
		 const struct job_pod_settings *settings, struct err *err)
{
	CLEANUP_YAML struct yaml *y = parse(spec);

	return job_pod_build(doc, &job, yaml_doc(y, 0), 1, 0, ipus, settings, err);
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

/* ---- the whole Pod ---- */

static const char template_spec[] =
	"jobInstances: 2\n"
	"workers:\n"
	"  template:\n"
	"    metadata:\n"
	"      name: not-this\n"
	"      uid: nor-this\n"
	"      labels: {app: mine, app.kubernetes.io/name: theirs, graphcore.ai/job: forged}\n"
	"      annotations: {k8s.v1.cni.cncf.io/networks: rdma-net}\n"
	"      someday: {a: [1, 2.5, null]}\n"
	"    status: {phase: Running}\n"
	"    spec:\n"
	"      hostIPC: true\n"
	"      unknownField: {deep: [true]}\n"
	"      terminationGracePeriodSeconds: 5\n"
	"      nodeSelector: {zone: a}\n"
	"      initContainers:\n"
	"      - {name: init, image: i, env: [{name: X, value: 'y'}]}\n"
	"      volumes:\n"
	"      - {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}}\n"
	"      containers:\n"
	"      - name: c\n"
	"        image: im:latest\n"
	"        args:\n"
	"        - |\n"
	"          set -e\n"
	"            echo \"$A\"  # kept\n"
	"        env:\n"
	"        - {name: A, value: $(IPUOF_VIPU_API_HOST)}\n"
	"        - {name: IPUOF_VIPU_API_HOST, value: forged}\n"
	"        - {name: IPUOF_VIPU_API_TIMEOUT, value: '7'}\n"
	"        - {name: IPUOF_LOG_LEVEL, value: INFO}\n"
	"        volumeMounts: [{name: shm, mountPath: /dev/shm}]\n"
	"        securityContext: {capabilities: {add: [IPC_LOCK]}}\n"
	"        resources: {limits: {memory: 64Gi, rdma/rdma_shared_device_a: 1}}\n"
	"        newField: 1.50\n"
	"      - {name: side, image: s}\n";

static const char whole_pod[] =
	"apiVersion: v1\n"
	"kind: Pod\n"
	"metadata:\n"
	"  name: j-worker-2\n"
	"  namespace: default\n"
	"  labels:\n"
	"    app: mine\n"
	"    app.kubernetes.io/name: theirs\n"
	"    app.kubernetes.io/component: worker\n"
	"    app.kubernetes.io/instance: j\n"
	"    app.kubernetes.io/managed-by: ipu-operator\n"
	"    graphcore.ai/job: j\n"
	"    graphcore.ai/instance: '1'\n"
	"    graphcore.ai/role: worker\n"
	"  annotations:\n"
	"    k8s.v1.cni.cncf.io/networks: rdma-net\n"
	"    graphcore.ai/partition: part-1\n"
	"  someday: {a: [1, 2.5, null]}\n"
	"  ownerReferences:\n"
	"  - {apiVersion: graphcore.ai/v1alpha1, kind: IPUJob, name: j, uid: uid-of-j,\n"
	"     controller: true, blockOwnerDeletion: true}\n"
	"spec:\n"
	"  hostIPC: true\n"
	"  unknownField: {deep: [true]}\n"
	"  terminationGracePeriodSeconds: 5\n"
	"  nodeSelector: {zone: a, pod: a}\n"
	"  initContainers:\n"
	"  - {name: init, image: i, env: [{name: X, value: 'y'}]}\n"
	"  volumes:\n"
	"  - {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}}\n"
	"  containers:\n"
	"  - name: c\n"
	"    image: im:latest\n"
	"    args:\n"
	"    - |\n"
	"      set -e\n"
	"        echo \"$A\"  # kept\n"
	"    env:\n"
	"    - {name: IPUOF_VIPU_API_HOST, value: vipu.example}\n"
	"    - {name: IPUOF_VIPU_API_PORT, value: '8090'}\n"
	"    - {name: IPUOF_VIPU_API_PARTITION_ID, value: part-1}\n"
	"    - {name: IPUOF_VIPU_API_GCD_ID, value: '1'}\n"
	"    - {name: A, value: $(IPUOF_VIPU_API_HOST)}\n"
	"    - {name: IPUOF_VIPU_API_TIMEOUT, value: '7'}\n"
	"    - {name: IPUOF_LOG_LEVEL, value: INFO}\n"
	"    volumeMounts: [{name: shm, mountPath: /dev/shm}]\n"
	"    securityContext: {capabilities: {add: [IPC_LOCK]}, privileged: true}\n"
	"    resources: {limits: {memory: 64Gi, rdma/rdma_shared_device_a: 1}}\n"
	"    newField: 1.50\n"
	"  - name: side\n"
	"    image: s\n"
	"    env:\n"
	"    - {name: IPUOF_VIPU_API_HOST, value: vipu.example}\n"
	"    - {name: IPUOF_VIPU_API_PORT, value: '8090'}\n"
	"    - {name: IPUOF_VIPU_API_PARTITION_ID, value: part-1}\n"
	"    - {name: IPUOF_VIPU_API_GCD_ID, value: '1'}\n"
	"    - {name: IPUOF_VIPU_API_TIMEOUT, value: '120'}\n"
	"    securityContext: {privileged: true}\n"
	"  restartPolicy: Never\n"
	"  hostNetwork: true\n"
	"  dnsPolicy: ClusterFirstWithHostNet\n";

static void test_whole(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job_pod_settings settings = {.host_network = true, .privileged = true};
	struct job_ipus ipus = literal;
	struct err err = ERR_INIT;

	ipus.label_key = "pod";
	ipus.label_value = "a";
	ok(build(doc, template_spec, &ipus, &settings, &err) == 0, "built");
	is_yaml(jmut_view(jmut_root(doc)), whole_pod, "the whole Pod");
}

/* ---- settings, one by one ---- */

#define PLAIN "{workers: {template: {spec: {containers: [{name: c%s}]%s}}}}"

static void test_settings(void)
{
	static const struct {
		const char *name, *container, *spec; /* what the template adds */
		struct job_pod_settings settings;
		const char *want_container, *want_spec; /* what the Pod has of it; env apart */
	} rows[] = {
		{"nothing is set", "", "", {0}, "", ""},
		{"the template's own, kept",
		 ", securityContext: {privileged: true}",
		 ", hostNetwork: true, dnsPolicy: None",
		 {0},
		 ", securityContext: {privileged: true}",
		 ", hostNetwork: true, dnsPolicy: None"},
		{"host network",
		 "",
		 ", dnsPolicy: Default",
		 {.host_network = true},
		 "",
		 ", hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"},
		{"host network over the template's",
		 "",
		 ", hostNetwork: false",
		 {.host_network = true},
		 "",
		 ", hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"},
		{"DNS policy",
		 "",
		 ", dnsPolicy: None",
		 {.dns_policy = "Default"},
		 "",
		 ", dnsPolicy: Default"},
		{"both",
		 "",
		 "",
		 {.host_network = true, .dns_policy = "ClusterFirst"},
		 "",
		 ", hostNetwork: true, dnsPolicy: ClusterFirst"},
		{"privileged",
		 ", securityContext: {allowPrivilegeEscalation: false, runAsUser: 7}",
		 "",
		 {.privileged = true},
		 ", securityContext: {privileged: true, runAsUser: 7}",
		 ""},
		{"privileged over null",
		 ", securityContext: null",
		 "",
		 {.privileged = true},
		 ", securityContext: {privileged: true}",
		 ""},
		{"restartPolicy", "", ", restartPolicy: Always", {0}, "", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		char spec[512], want[512];
		struct err err = ERR_INIT;
		struct jmut *pod_spec;

		row_begin("%s", rows[i].name);
		snprintf(spec, sizeof(spec), PLAIN, rows[i].container, rows[i].spec);
		snprintf(want, sizeof(want), "{containers: [{name: c%s}]%s, restartPolicy: Never}",
			 rows[i].want_container, rows[i].want_spec);
		ok(build(doc, spec, &literal, &rows[i].settings, &err) == 0, "built");
		pod_spec = jmut_get(jmut_root(doc), "spec");
		jmut_del(jmut_item(jmut_get(pod_spec, "containers"), 0), "env");
		is_yaml(jmut_view(pod_spec), want, "spec");
	}
	row_end();
}

static void test_rdma(void)
{
	static const struct job_pod_settings how = {
		.rdma = {.network = "n", .resource = "rdma/a", .amount = 1, .ipc_lock = true}};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct err err = ERR_INIT;

	ok(build(doc,
		 "{workers: {template: {spec: {initContainers: [{name: i}], containers: [{name: c, "
		 "env: null, resources: {limits: {cpu: 2}}}, {name: side, resources: {limits: {rdma/a: "
		 "4}}}]}}}}",
		 &literal, &how, &err) == 0,
	   "built");
	for (size_t i = 0; i < 2; i++)
		jmut_del(jmut_item(jmut_get(jmut_get(jmut_root(doc), "spec"), "containers"), i),
			 "env");
	is_yaml(jmut_view(jmut_get(jmut_root(doc), "spec")),
		"restartPolicy: Never\n"
		"initContainers: [{name: i}]\n"
		"containers:\n"
		"- name: c\n"
		"  resources: {limits: {cpu: 2, rdma/a: 1}, requests: {rdma/a: 1}}\n"
		"  securityContext: {capabilities: {add: [IPC_LOCK]}}\n"
		"- name: side\n"
		"  resources: {limits: {rdma/a: 4}}\n"
		"  securityContext: {capabilities: {add: [IPC_LOCK]}}\n",
		"devices for each container, and neither network nor privileges of the host's");
}

static void test_network(void)
{
	static const struct {
		const char *name, *spec, *network, *want; /* NULL: none */
	} rows[] = {
		{"a network", "", "fabric/n", "fabric/n"},
		{"of the job's namespace", "", "n", "n"},
		{"none for its host's network",
		 ", spec: {hostNetwork: true, containers: [{name: c}]}", "n", NULL},
		{"beside the template's",
		 ", metadata: {annotations: {k8s.v1.cni.cncf.io/networks: a}}", "fabric/n",
		 "a,fabric/n"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		const struct job_pod_settings how = {.rdma = {.network = rows[i].network}};
		const struct json *annotations;
		struct err err = ERR_INIT;
		char spec[512];

		row_begin("%s", rows[i].name);
		snprintf(spec, sizeof(spec), "{workers: {template: {x: y%s%s}}}",
			 strstr(rows[i].spec, "spec:") ? "" : ", spec: {containers: [{name: c}]}",
			 rows[i].spec);
		ok(build(doc, spec, &literal, &how, &err) == 0, "built");
		annotations = json_at(jmut_view(jmut_root(doc)), "metadata", "annotations", NULL);
		is_str(json_cstr(json_get(annotations, JOB_ANNOTATION_NETWORKS)), rows[i].want,
		       "the annotation");
	}
	row_end();
}

/* ---- the three sources of values ---- */

static void test_values(void)
{
	static const struct job_pod_settings none = {0};
	struct job_ipus ipus = literal;
	struct jmut_doc *doc = jmut_doc_new();
	char spec[512];
	struct err err = ERR_INIT;
	struct jmut *pod;

	snprintf(spec, sizeof(spec), PLAIN, "", "");
	row_begin("keys");
	ipus.values = JOB_VALUES_KEYS;
	ipus.config_map = "cm";
	ipus.partition_id = NULL;
	ok(build(doc, spec, &ipus, &none, &err) == 0, "built");
	pod = jmut_get(jmut_root(doc), "spec");
	is_yaml(jmut_view(jmut_get(jmut_item(jmut_get(pod, "containers"), 0), "env")),
		"- name: IPUOF_CONFIG_PATH\n"
		"  valueFrom: {configMapKeyRef: {name: cm, key: IPUOF_CONFIG_PATH, optional: true}}\n"
		"- name: IPUOF_VIPU_API_HOST\n"
		"  valueFrom: {configMapKeyRef: {name: cm, key: IPUOF_VIPU_API_HOST, optional: true}}\n"
		"- name: IPUOF_VIPU_API_PORT\n"
		"  valueFrom: {configMapKeyRef: {name: cm, key: IPUOF_VIPU_API_PORT, optional: true}}\n"
		"- name: IPUOF_VIPU_API_PARTITION_ID\n"
		"  valueFrom: {configMapKeyRef: {name: cm, key: IPUOF_VIPU_API_PARTITION_ID, optional: "
		"true}}\n"
		"- {name: IPUOF_VIPU_API_GCD_ID, value: '1'}\n"
		"- {name: IPUOF_VIPU_API_TIMEOUT, value: '120'}\n",
		"environment");
	is_yaml(jmut_view(jmut_get(pod, "volumes")),
		"[{name: ipuof-config, configMap: {name: cm, optional: true, items: [{key: "
		"ipuof-1.conf, path: partition.conf}]}}]",
		"the file, if there is one");
	jmut_doc_free(doc);

	row_begin("file");
	doc = jmut_doc_new();
	ipus.values = JOB_VALUES_FILE;
	ipus.partition_id = "part-1";
	snprintf(spec, sizeof(spec), PLAIN, ", env: [{name: IPUOF_CONFIG_PATH, value: x}]",
		 ", volumes: [{name: v}]");
	ok(build(doc, spec, &ipus, &none, &err) == 0, "built");
	is_yaml(jmut_view(jmut_get(jmut_root(doc), "spec")),
		"containers:\n"
		"- name: c\n"
		"  env: [{name: IPUOF_CONFIG_PATH, value: /etc/ipuof.conf.d/part-1.conf}]\n"
		"  volumeMounts: [{name: ipuof-config, mountPath: /etc/ipuof.conf.d, readOnly: true}]\n"
		"volumes:\n"
		"- name: v\n"
		"- name: ipuof-config\n"
		"  configMap: {name: cm, items: [{key: ipuof-1.conf, path: part-1.conf}]}\n"
		"restartPolicy: Never\n",
		"mounted, with its path");
	jmut_doc_free(doc);
	row_end();
}

/* ---- workers that wait for a launcher ---- */

static const char waiting_spec[] = "workers:\n"
				   "  template:\n"
				   "    spec:\n"
				   "      serviceAccountName: theirs\n"
				   "      initContainers: [{name: fetch, image: i}]\n"
				   "      volumes: [{name: data, emptyDir: {}}]\n"
				   "      containers:\n"
				   "      - name: c\n"
				   "        image: im\n"
				   "        command: [serve]\n"
				   "        args: [loudly]\n"
				   "        readinessProbe: {exec: {command: [x]}}\n"
				   "        volumeMounts: [{name: data, mountPath: /data}]\n"
				   "        resources: {limits: {cpu: 2, rdma/x: 1}}\n"
				   "      - {name: side, image: s, command: [x], args: ['y']}\n";

static const char waiting_pod_spec[] =
	"serviceAccountName: theirs\n"
	"restartPolicy: Never\n"
	"initContainers:\n"
	"- name: ipu-launcher-install\n"
	"  image: reg/launcher:1\n"
	"  imagePullPolicy: IfNotPresent\n"
	"  command: [/ipu-launcher, install, /.ipu/ipu-launcher]\n"
	"  volumeMounts: [{name: ipu-launcher, mountPath: /.ipu}]\n"
	"  resources: {limits: {cpu: 2}}\n"
	"  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]},\n"
	"    readOnlyRootFilesystem: true, runAsNonRoot: true, runAsUser: 65532,\n"
	"    seccompProfile: {type: RuntimeDefault}}\n"
	"  terminationMessagePolicy: FallbackToLogsOnError\n"
	"- {name: fetch, image: i}\n"
	"volumes:\n"
	"- {name: data, emptyDir: {}}\n"
	"- {name: ipu-launcher, emptyDir: {}}\n"
	"- {name: mpi-config, configMap: {name: j-config, defaultMode: 365,\n"
	"    items: [{key: kubeexec.sh, path: kubeexec.sh}]}}\n"
	"containers:\n"
	"- name: c\n"
	"  image: im\n"
	"  command: [/.ipu/ipu-launcher, init]\n"
	"  readinessProbe: {exec: {command: [x]}}\n"
	"  volumeMounts:\n"
	"  - {name: data, mountPath: /data}\n"
	"  - {name: ipu-launcher, mountPath: /.ipu, readOnly: true}\n"
	"  - {name: mpi-config, mountPath: /etc/mpi, readOnly: true}\n"
	"  resources: {limits: {cpu: 2, rdma/x: 1}}\n"
	"- {name: side, image: s, command: [x], args: ['y']}\n";

static void test_waiting(void)
{
	static const struct job_pod_settings settings = {.launcher_image = "reg/launcher:1",
							 .launcher_pull = "IfNotPresent"};
	CLEANUP_YAML struct yaml *y = parse(waiting_spec);

	for (int interactive = 0; interactive < 2; interactive++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct job j = job;
		struct err err = ERR_INIT;
		struct jmut *spec, *containers;

		j.launcher = !interactive;
		j.interactive = interactive;
		j.template_hash = 0x123456789abcdef0;
		ok(job_pod_build(doc, &j, yaml_doc(y, 0), 0, 1, &literal, &settings, &err) == 0,
		   "built");
		spec = jmut_get(jmut_root(doc), "spec");
		containers = jmut_get(spec, "containers");
		for (size_t i = 0; i < jmut_len(containers); i++)
			jmut_del(jmut_item(containers, i), "env");
		is_yaml(jmut_view(spec), waiting_pod_spec, "its first container waits");
		ok(str_eqz(json_str(json_at(jmut_view(jmut_root(doc)), "metadata", "annotations",
					    "graphcore.ai/template", NULL)),
			   "123456789abcdef0"),
		   "and it says what it was made from");
	}
}

/* A worker's share in the replicas, where the job says how many there are. */
static void test_popdist(void)
{
	static const struct {
		const char *name;
		uint32_t workers, slots, ipus, replicas, worker;
		const char *container; /* what the template adds */
		const char *want;
	} rows[] = {
		{"the first", 4, 2, 16, 8, 0, "", "8 2 2 1 0 0"},
		{"the last", 4, 2, 16, 8, 3, "", "8 2 2 1 6 0"},
		{"the template's own", 4, 2, 16, 8, 3,
		 ", env: [{name: POPDIST_NUM_LOCAL_REPLICAS, value: '9'}]", "8 2 9 1 6 0"},
		{"one worker needs none", 1, 8, 16, 8, 0, "", "- - - - - -"},
		{"nobody said how many", 4, 1, 16, 0, 1, "", "- - - - - -"},
		{"they aren't the same in each", 3, 2, 4, 4, 1, "", "- - - - - -"},
		{"IPUs that can't be shared out", 3, 1, 4, 3, 1, "", "- - - - - -"},
	};
	static const char *const names[] = {
		"POPDIST_NUM_TOTAL_REPLICAS",   "POPDIST_NUM_IPUS_PER_REPLICA",
		"POPDIST_NUM_LOCAL_REPLICAS",   "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE",
		"POPDIST_REPLICA_INDEX_OFFSET", "POPDIST_LOCAL_INSTANCE_INDEX",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		static const struct job_pod_settings settings = {.launcher_image = "l"};
		struct job j = job;
		char spec[256], got[128] = "";
		struct err err = ERR_INIT;
		struct jmut *env;

		row_begin("%s", rows[i].name);
		j.launcher = true;
		j.workers = rows[i].workers;
		j.slots = rows[i].slots;
		j.ipus = rows[i].ipus;
		j.options.replicas = rows[i].replicas;
		snprintf(spec, sizeof(spec), PLAIN, rows[i].container, "");
		CLEANUP_YAML struct yaml *y = parse(spec);
		ok(job_pod_build(doc, &j, yaml_doc(y, 0), 1, rows[i].worker, &literal, &settings,
				 &err) == 0,
		   "built");
		env = jmut_get(
			jmut_item(jmut_get(jmut_get(jmut_root(doc), "spec"), "containers"), 0),
			"env");
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			const char *value = "-";

			for (size_t n = 0; n < jmut_len(env); n++) {
				const struct json *v = jmut_view(jmut_item(env, n));

				if (str_eqz(json_str(json_get(v, "name")), names[k]))
					value = json_cstr(json_get(v, "value"));
			}
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", k ? " " : "",
				 value);
		}
		is_str(got, rows[i].want, "its share");
	}
	row_end();
}

static void test_bad_templates(void)
{
	static const struct {
		const char *spec, *says;
	} rows[] = {
		{"{}", "containers: must be a list"},
		{"{workers: {template: {spec: {containers: {}}}}}", "containers: must be a list"},
		{"{workers: {template: {spec: {containers: [7]}}}}", "must hold objects"},
		{"{workers: {template: {metadata: 7, spec: {containers: [{name: c}]}}}}",
		 "metadata: must be an object"},
		{"{workers: {template: {metadata: {labels: []}, spec: {containers: [{name: c}]}}}}",
		 "labels and annotations must be objects"},
		{"{workers: {template: {spec: {containers: [{name: c, securityContext: 1}]}}}}",
		 "securityContext must be an object"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		static const struct job_pod_settings settings = {.privileged = true};
		struct err err = ERR_INIT;

		row_begin("%s", rows[i].spec);
		ok(build(doc, rows[i].spec, &literal, &settings, &err) < 0, "refused");
		is_int(err.kind, ERR_INVALID, "kind");
		has_str(err.msg, rows[i].says, "in words");
	}
	row_end();
}

static void test_warning(void)
{
	CLEANUP_YAML struct yaml *never = parse(
		"{workers: {template: {spec: {restartPolicy: Never}}}}");
	CLEANUP_YAML struct yaml *always = parse(
		"{workers: {template: {spec: {restartPolicy: Always}}}}");
	CLEANUP_FREE char *warning = job_template_warning(yaml_doc(always, 0));

	ok(!job_template_warning(yaml_doc(never, 0)), "Never is fine");
	has_str(warning, "restartPolicy is Always", "Always is said");
}

/* ---- what is read from Pods ---- */

struct seen {
	const char *name, *status, *metadata;
	enum job_pod_phase phase;
	const char *why, *message; /* NULL: none; message: a part of it */
	int exit_code;
	bool cant_start, deleting, ready;
};

/* clang-format off */
static const struct seen seen[] = {
	{"nothing yet", "{}", "", JOB_POD_PENDING, NULL, NULL, 0, false, false, false},
	{"no status at all", "null", "", JOB_POD_PENDING, NULL, NULL, 0, false, false, false},
	{"unschedulable", "{phase: Pending, conditions: [{type: PodScheduled, status: 'False', "
	 "reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient memory.'}]}", "",
	 JOB_POD_PENDING, "Unschedulable", "no node takes it: 0/3 nodes are available", 0, true, false,
	 false},
	{"starting", "{phase: Pending, conditions: [{type: PodScheduled, status: 'True'}], "
	 "containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]}", "",
	 JOB_POD_PENDING, NULL, NULL, 0, false, false, false},
	{"no image", "{phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: "
	 "ImagePullBackOff, message: 'Back-off pulling image \"x\"'}}}]}", "", JOB_POD_PENDING,
	 "ImagePullBackOff", "container c can't start: ImagePullBackOff: Back-off pulling image \"x\"",
	 0, true, false, false},
	{"bad configuration", "{phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: "
	 "CreateContainerConfigError, message: 'configmap \"x\" not found'}}}]}", "", JOB_POD_PENDING,
	 "CreateContainerConfigError", "configmap \"x\" not found", 0, true, false, false},
	{"running", "{phase: Running, conditions: [{type: Ready, status: 'True'}], "
	 "containerStatuses: [{name: c, state: {running: {}}}]}", "", JOB_POD_RUNNING, NULL, NULL, 0,
	 false, false, true},
	{"running, leaving", "{phase: Running}", ", deletionTimestamp: '2024-06-01T00:00:00Z'",
	 JOB_POD_RUNNING, NULL, NULL, 0, false, true, false},
	{"succeeded", "{phase: Succeeded, containerStatuses: [{name: c, state: {terminated: {exitCode: 0, "
	 "reason: Completed}}}]}", "", JOB_POD_SUCCEEDED, NULL, NULL, 0, false, false, false},
	{"succeeded, then deleted", "{phase: Succeeded, containerStatuses: [{name: c, state: {terminated: "
	 "{exitCode: 0, finishedAt: '2024-06-01T00:00:09Z'}}}]}",
	 ", deletionTimestamp: '2024-06-01T00:00:40Z', deletionGracePeriodSeconds: 30",
	 JOB_POD_SUCCEEDED, NULL, NULL, 0, false, true, false},
	{"deleted, and left in order", "{phase: Succeeded, containerStatuses: [{name: c, state: "
	 "{terminated: {exitCode: 0, finishedAt: '2024-06-01T00:00:10Z'}}}]}",
	 ", deletionTimestamp: '2024-06-01T00:00:40Z', deletionGracePeriodSeconds: 30",
	 JOB_POD_FAILED, "Deleted", "it was deleted before it had ended", 137, false, true, false},
	{"failed", "{phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 3, "
	 "reason: Error, message: \" boom\\n\"}}}]}", "", JOB_POD_FAILED, "Error",
	 "container c exited with 3 (Error): boom", 3, false, false, false},
	{"out of memory", "{phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: "
	 "137, reason: OOMKilled}}}]}", "", JOB_POD_FAILED, "OOMKilled",
	 "container c exited with 137 (OOMKilled)", 137, false, false, false},
	{"the one that failed first", "{phase: Failed, containerStatuses: ["
	 "{name: side, state: {terminated: {exitCode: 143, finishedAt: '2024-06-01T00:00:09Z'}}}, "
	 "{name: done, state: {terminated: {exitCode: 0, finishedAt: '2024-06-01T00:00:01Z'}}}, "
	 "{name: c, state: {terminated: {exitCode: 2, finishedAt: '2024-06-01T00:00:05Z'}}}]}", "",
	 JOB_POD_FAILED, NULL, "container c exited with 2", 2, false, false, false},
	{"init container", "{phase: Failed, initContainerStatuses: [{name: i, state: {terminated: "
	 "{exitCode: 1, reason: Error}}}], containerStatuses: [{name: c, state: {waiting: {reason: "
	 "PodInitializing}}}]}", "", JOB_POD_FAILED, "Error", "init container i exited with 1 (Error)",
	 1, false, false, false},
	{"for another processor", "{phase: Failed, initContainerStatuses: [{name: i, state: {terminated: "
	 "{exitCode: 255, reason: Error, message: 'exec /ipu-launcher: exec format error'}}}]}", "",
	 JOB_POD_FAILED, "Error", "init container i exited with 255 (Error): exec /ipu-launcher: exec format "
	 "error; its image is for another processor architecture than its node", 255, false, false, false},
	{"... which isn't even pulled", "{phase: Pending, containerStatuses: [{name: c, state: {waiting: "
	 "{reason: ErrImagePull, message: 'i: no match for platform in manifest: not found'}}}]}", "",
	 JOB_POD_PENDING, "ErrImagePull", "container c can't start: ErrImagePull: i: no match for platform in "
	 "manifest: not found; its image is for another processor architecture than its node", 0, true, false,
	 false},
	{"evicted", "{phase: Failed, reason: Evicted, message: 'The node was low on resource: memory.', "
	 "containerStatuses: [{name: c, state: {terminated: {exitCode: 137}}}]}", "", JOB_POD_FAILED,
	 "Evicted", "Evicted: The node was low on resource: memory.", 137, false, false, false},
	{"node lost", "{phase: Failed, reason: NodeLost}", "", JOB_POD_FAILED, "NodeLost", "NodeLost", 137,
	 false, false, false},
	{"failed, without a word", "{phase: Failed}", "", JOB_POD_FAILED, NULL, NULL, 137, false, false,
	 false},
	{"unknown", "{phase: Unknown}", "", JOB_POD_UNKNOWN, NULL, NULL, 0, false, false, false},
	{"a phase of the future", "{phase: Dreaming}", "", JOB_POD_PENDING, NULL, NULL, 0, false, false,
	 false},
};
/* clang-format on */

static struct job_pod *observe(const char *metadata, const char *status)
{
	CLEANUP_FREE char *text = xasprintf(
		"{metadata: {name: j-worker-3, namespace: ns, uid: u, labels: {graphcore.ai/job: j, "
		"graphcore.ai/instance: '1'}, annotations: {graphcore.ai/partition: p}, "
		"ownerReferences: [{uid: other}, {uid: uid-of-j, controller: true}]%s}, status: %s}",
		metadata, status);
	CLEANUP_YAML struct yaml *y = parse(text);
	struct err err = ERR_INIT;
	struct job_pod *pod = NULL;

	if (job_pod_decode(yaml_doc(y, 0), &pod, &err) < 0)
		bail_out(err.msg);
	return pod;
}

static void test_seen(void)
{
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		const struct seen *r = &seen[i];
		struct job_pod *pod = observe(r->metadata, r->status);
		struct job_pod *same = observe(r->metadata, r->status);

		row_begin("%s", r->name);
		is_int(pod->phase, r->phase, "phase");
		is_str(pod->why ? pod->why : "", r->why ? r->why : "", "why");
		if (r->message)
			has_str(pod->message ? pod->message : "", r->message, "message");
		else
			ok(!pod->message, "no message");
		is_int(pod->exit_code, r->exit_code, "exit code");
		is_int(pod->fault != JOB_POD_FAULT_NONE, r->cant_start, "can't start");
		is_int(pod->deleting, r->deleting, "in deletion");
		is_int(pod->ready, r->ready, "ready");
		ok(job_pod_equal(pod, same), "equal to itself");
		job_pod_free(pod);
		job_pod_free(same);
	}
	row_end();
}

static void test_identity(void)
{
	struct job_pod *pod = observe("", "{phase: Running}"), *other;
	char words[2000], status[2300];
	CLEANUP_YAML struct yaml *bare = parse("{metadata: {name: x, namespace: ns, uid: u}}");
	CLEANUP_YAML struct yaml *none = parse("{metadata: {name: x}}");
	struct err err = ERR_INIT;

	is_str(pod->job_key, "ns/j", "its job");
	is_str(pod->owner_uid, "uid-of-j", "its owner is the one that controls it");
	is_str(pod->partition, "p", "its partition");
	is_int(pod->instance, 1, "its instance");
	other = observe("", "{phase: Failed}");
	ok(!job_pod_equal(pod, other), "another phase is a difference");
	job_pod_free(other);
	job_pod_free(pod);

	ok(job_pod_decode(yaml_doc(bare, 0), &pod, &err) == 0, "somebody's Pod");
	ok(pod->instance == -1 && !pod->owner_uid && !pod->partition, "has nothing of ours");
	job_pod_free(pod);
	ok(job_pod_decode(yaml_doc(none, 0), &pod, &err) < 0, "without a UID it's none");

	memset(words, 'w', sizeof(words));
	words[sizeof(words) - 1] = '\0';
	snprintf(status, sizeof(status),
		 "{phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 1, "
		 "message: %s}}}]}",
		 words);
	pod = observe("", status);
	ok(strlen(pod->message) < 400, "pages aren't kept: %zu", strlen(pod->message));
	is_str(pod->message + strlen(pod->message) - 6, "www…", "and it shows");
	job_pod_free(pod);

	memset(words, 'x', sizeof(words));
	snprintf(words + 300, sizeof(words) - 300, "\\nthe dataset äö\\n  isn't there\\n");
	snprintf(status, sizeof(status),
		 "{phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 1, "
		 "message: \"%s\"}}}]}",
		 words);
	pod = observe("", status);
	has_str(pod->message, "exited with 1: …xx", "of a log the end");
	has_str(pod->message, "xx the dataset äö   isn't there", "in one line");
	job_pod_free(pod);

	memset(words, 'y', 300);
	words[300] = '\0';
	snprintf(status, sizeof(status),
		 "{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: "
		 "Unschedulable, message: %s}]}",
		 words);
	pod = observe("", status);
	is_str(pod->message + strlen(pod->message) - 6, "yyy…", "a scheduler's words, cut");
	job_pod_free(pod);
}

/* What Kueue says of a Pod, and our own gate. */
static void test_queues(void)
{
	static const struct {
		const char *pod, *group;
		bool gated, queued, preempted;
	} rows[] = {
		{"{metadata: {name: a, namespace: b, uid: c}}", NULL, false, false, false},
		{"{metadata: {name: a, namespace: b, uid: c, labels: {kueue.x-k8s.io/pod-group-name: "
		 "j-0-1}}, spec: {schedulingGates: [{name: graphcore.ai/partition}]}}",
		 "j-0-1", true, false, false},
		{"{metadata: {name: a, namespace: b, uid: c}, spec: {schedulingGates: [{name: "
		 "kueue.x-k8s.io/admission}, {name: graphcore.ai/partition}]}}",
		 NULL, true, true, false},
		{"{metadata: {name: a, namespace: b, uid: c}, spec: {schedulingGates: [{name: x}]}}",
		 NULL, false, true, false},
		{"{metadata: {name: a, namespace: b, uid: c}, status: {conditions: [{type: "
		 "TerminationTarget, status: 'True'}]}}",
		 NULL, false, false, true},
	};
	struct job_pod *pods[sizeof(rows) / sizeof(rows[0])];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_YAML struct yaml *y = parse(rows[i].pod);
		struct err err = ERR_INIT;

		row_begin("%s", rows[i].pod);
		if (job_pod_decode(yaml_doc(y, 0), &pods[i], &err) < 0)
			bail_out(err.msg);
		is_str(pods[i]->queue_group ? pods[i]->queue_group : "none",
		       rows[i].group ? rows[i].group : "none", "its group");
		ok(pods[i]->gated == rows[i].gated, "our gate");
		ok(pods[i]->queued == rows[i].queued, "another one");
		ok(pods[i]->preempted == rows[i].preempted, "its place is taken away");
		for (size_t k = 0; k < i; k++)
			ok(!job_pod_equal(pods[k], pods[i]), "news after row %zu", k);
	}
	row_end();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		job_pod_free(pods[i]);
}

int main(void)
{
	test_whole();
	test_settings();
	test_rdma();
	test_network();
	test_values();
	test_waiting();
	test_popdist();
	test_bad_templates();
	test_warning();
	test_seen();
	test_identity();
	test_queues();
	return done_testing();
}
