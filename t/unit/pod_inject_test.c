/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotated Pods: whole Pods as they come out, what is refused and in which words, whose settings
 * win, and that injecting twice is injecting once.
 */
#include "core/yaml.h"
#include "pod/inject.h"
#include "tap.h"

#define T1 "0123456789abcdef0123456789abcdef"
#define T2 "ffffffffffffffffffffffffffffffff"

static const struct pod_inject_settings gate = {
	.mode = POD_MODE_GATE, .worker = {.host_network = true, .privileged = true}};
static const struct pod_inject_settings plain = {.mode = POD_MODE_GATE};
static const struct pod_inject_settings init = {
	.mode = POD_MODE_INIT,
	.worker = {.host_network = true, .privileged = true, .launcher_image = "launcher:1"},
	.proxy_url = "https://proxy.ops.svc:443",
	.proxy_ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
static const struct pod_inject_settings init_plain = {.mode = POD_MODE_INIT,
						      .worker = {.launcher_image = "launcher:1"},
						      .proxy_url = "https://proxy.ops.svc:443",
						      .proxy_ca = "CA",
						      .wait_s = 600};

static struct yaml *parse(const char *text)
{
	struct yaml *y = NULL;
	struct err err = ERR_INIT;

	if (yaml_parse("a row", str_of(text), &y, &err) < 0)
		bail_out(err.msg);
	return y;
}

static void is_json(const struct json *got, const struct json *want, const char *what)
{
	struct buf out = BUF_INIT(1 << 20);

	if (ok(json_equal(got, want), "%s", what))
		return;
	if (yaml_write(got, &out, NULL) == 0)
		diag("got:\n%.*s", (int)out.len, out.p);
	buf_done(&out);
}

static void is_yaml(const struct json *got, const char *want, const char *what)
{
	CLEANUP_YAML struct yaml *y = parse(want);

	is_json(got, yaml_doc(y, 0), what);
}

static void collect(void *arg, const char *warning)
{
	buf_printf(arg, NULL, "%s\n", warning);
}

static int inject(struct jmut_doc *doc, const char *pod, const struct pod_inject_settings *settings,
		  struct buf *warnings, struct err *err)
{
	CLEANUP_YAML struct yaml *y = parse(pod);

	return pod_inject(doc, yaml_doc(y, 0), T1, settings, collect, warnings, err);
}

/* ---- whole Pods ---- */

static const char guides_pod[] = "apiVersion: v1\n"
				 "kind: Pod\n"
				 "metadata:\n"
				 "  name: sharding-app\n"
				 "  annotations: {graphcore.ai/ipus: \"2\"}\n"
				 "spec:\n"
				 "  someday: {a: [1, 2.5, null]}\n"
				 "  restartPolicy: Always\n"
				 "  volumes: [{name: data, emptyDir: {}}]\n"
				 "  initContainers: [{name: prepare, image: i}]\n"
				 "  containers:\n"
				 "  - name: demo\n"
				 "    image: localhost:5000/sharding:latest\n"
				 "    env: [{name: A, value: $(IPUOF_CONFIG_PATH)}]\n"
				 "    resources: {limits: {cpu: 2, example.com/nic: 1}}\n"
				 "    volumeMounts: [{name: data, mountPath: /data}]\n"
				 "  - name: beside\n"
				 "    image: b\n";

#define KEY(name)                                                                                  \
	"    - {name: " name ", valueFrom: {configMapKeyRef: {name: ipuof-" T1 ", key: " name      \
	", optional: true}}}\n"
#define KEYS                                                                                       \
	KEY("IPUOF_CONFIG_PATH")                                                                   \
	KEY("IPUOF_VIPU_API_HOST")                                                                 \
	KEY("IPUOF_VIPU_API_PORT")                                                                 \
	KEY("IPUOF_VIPU_API_PARTITION_ID")                                                         \
	"    - {name: IPUOF_VIPU_API_GCD_ID, value: '0'}\n"                                        \
	"    - {name: IPUOF_VIPU_API_TIMEOUT, value: '120'}\n"
#define MOUNT "    - {name: ipuof-config, mountPath: /etc/ipuof.conf.d, readOnly: true}\n"
#define VOLUME                                                                                     \
	"  - name: ipuof-config\n"                                                                 \
	"    configMap:\n"                                                                         \
	"      name: ipuof-" T1 "\n"                                                               \
	"      items: [{key: ipuof-0.conf, path: partition.conf}]\n"                               \
	"      optional: true\n"

/* What both modes make of the guide's Pod on the host's network, but for containers and volumes. */
#define HEAD                                                                                       \
	"apiVersion: v1\n"                                                                         \
	"kind: Pod\n"                                                                              \
	"metadata:\n"                                                                              \
	"  name: sharding-app\n"                                                                   \
	"  annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/status: injected}\n"               \
	"  labels: {graphcore.ai/pod: " T1 "}\n"                                                   \
	"spec:\n"                                                                                  \
	"  someday: {a: [1, 2.5, null]}\n"                                                         \
	"  restartPolicy: Always\n"
#define NETWORK                                                                                    \
	"  hostNetwork: true\n"                                                                    \
	"  dnsPolicy: ClusterFirstWithHostNet\n"
#define DEMO                                                                                       \
	"  - name: demo\n"                                                                         \
	"    image: localhost:5000/sharding:latest\n"                                              \
	"    resources: {limits: {cpu: 2, example.com/nic: 1}}\n"                                  \
	"    volumeMounts:\n"                                                                      \
	"    - {name: data, mountPath: /data}\n" MOUNT
#define BESIDE                                                                                     \
	"  - name: beside\n"                                                                       \
	"    image: b\n"                                                                           \
	"    volumeMounts:\n" MOUNT
#define PRIVILEGED "    securityContext: {privileged: true}\n"
#define OWN_ENV    "    - {name: A, value: $(IPUOF_CONFIG_PATH)}\n"

static const char gate_pod[] = HEAD NETWORK
	"  schedulingGates: [{name: graphcore.ai/partition}]\n"
	"  volumes:\n"
	"  - {name: data, emptyDir: {}}\n" VOLUME "  initContainers: [{name: prepare, image: i}]\n"
	"  containers:\n" DEMO PRIVILEGED "    env:\n" KEYS OWN_ENV BESIDE PRIVILEGED
	"    env:\n" KEYS;

static const char plain_pod[] = HEAD
	"  schedulingGates: [{name: graphcore.ai/partition}]\n"
	"  volumes:\n"
	"  - {name: data, emptyDir: {}}\n" VOLUME "  initContainers: [{name: prepare, image: i}]\n"
	"  containers:\n" DEMO "    env:\n" KEYS OWN_ENV BESIDE "    env:\n" KEYS;

#define PATH "    - {name: IPUOF_CONFIG_PATH, value: /etc/ipuof.conf.d/partition.conf}\n"
#define HELPER_HEAD                                                                                \
	"  initContainers:\n"                                                                      \
	"  - name: ipu-partition\n"                                                                \
	"    image: launcher:1\n"                                                                  \
	"    terminationMessagePolicy: FallbackToLogsOnError\n"                                    \
	"    securityContext:\n"                                                                   \
	"      allowPrivilegeEscalation: false\n"                                                  \
	"      capabilities: {drop: [ALL]}\n"                                                      \
	"      readOnlyRootFilesystem: true\n"                                                     \
	"      runAsNonRoot: true\n"                                                               \
	"      runAsUser: 65532\n"                                                                 \
	"      seccompProfile: {type: RuntimeDefault}\n"                                           \
	"    volumeMounts:\n"                                                                      \
	"    - {name: ipuof-config, mountPath: /etc/ipuof.conf.d}\n"                               \
	"    - name: ipu-partition-token\n"                                                        \
	"      mountPath: /var/run/secrets/ipu-operator\n"                                         \
	"      readOnly: true\n"
#define HELPER_ENV                                                                                 \
	"    env:\n"                                                                               \
	"    - name: IPU_POD_NAMESPACE\n"                                                          \
	"      valueFrom: {fieldRef: {fieldPath: metadata.namespace}}\n"                           \
	"    - {name: IPU_POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"          \
	"    - {name: IPU_POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}\n"
#define INIT_VOLUMES                                                                               \
	"  - {name: ipuof-config, emptyDir: {}}\n"                                                 \
	"  - name: ipu-partition-token\n"                                                          \
	"    projected:\n"                                                                         \
	"      sources:\n"                                                                         \
	"      - serviceAccountToken:\n"                                                           \
	"          {audience: ipu-operator-proxy, expirationSeconds: 3600, path: token}\n"

static const char init_pod[] = HEAD NETWORK
	"  volumes:\n"
	"  - {name: data, emptyDir: {}}\n" INIT_VOLUMES HELPER_HEAD
	"    resources: {limits: {cpu: 2}}\n"
	"    command: [/ipu-launcher, partition, --ipus, '2', --output,\n"
	"      /etc/ipuof.conf.d/partition.conf, --token-file,\n"
	"      /var/run/secrets/ipu-operator/token, \"https://proxy.ops.svc:443\"]\n" HELPER_ENV
	"    - name: IPU_PROXY_CA\n"
	"      value: \"-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n\"\n"
	"  - {name: prepare, image: i}\n"
	"  containers:\n" DEMO PRIVILEGED "    env:\n" PATH OWN_ENV BESIDE PRIVILEGED
	"    env:\n" PATH;

static const char small_pod[] = "metadata:\n"
				"  annotations: {graphcore.ai/ipu: \"1\"}\n"
				"spec:\n"
				"  activeDeadlineSeconds: 3600\n"
				"  containers: [{name: c}]\n";
static const char small_init_pod[] =
	"metadata:\n"
	"  annotations: {graphcore.ai/ipu: \"1\", graphcore.ai/status: injected}\n"
	"  labels: {graphcore.ai/pod: " T1 "}\n"
	"spec:\n"
	"  activeDeadlineSeconds: 3600\n"
	"  volumes:\n" INIT_VOLUMES HELPER_HEAD
	"    command: [/ipu-launcher, partition, --ipus, '1', --output,\n"
	"      /etc/ipuof.conf.d/partition.conf, --token-file,\n"
	"      /var/run/secrets/ipu-operator/token, --timeout, '600', --deadline, '3600',\n"
	"      \"https://proxy.ops.svc:443\"]\n" HELPER_ENV
	"    - {name: IPU_PROXY_CA, value: CA}\n"
	"  containers:\n"
	"  - name: c\n"
	"    env:\n" PATH "    volumeMounts:\n" MOUNT;

/* Only what uses IPUs is touched. */
static const char named_pod[] =
	"metadata:\n"
	"  annotations: {graphcore.ai/ipus: \"4\", graphcore.ai/containers: 'train, warm'}\n"
	"spec:\n"
	"  initContainers: [{name: fetch}, {name: warm}]\n"
	"  containers: [{name: mesh, securityContext: {runAsUser: 7}}, {name: train}]\n";
static const char named_gate_pod[] =
	"metadata:\n"
	"  annotations: {graphcore.ai/ipus: \"4\", graphcore.ai/containers: 'train, warm',\n"
	"    graphcore.ai/status: injected}\n"
	"  labels: {graphcore.ai/pod: " T1 "}\n"
	"spec:\n" NETWORK "  schedulingGates: [{name: graphcore.ai/partition}]\n"
	"  volumes:\n" VOLUME "  initContainers:\n"
	"  - {name: fetch}\n"
	"  - name: warm\n"
	"    env:\n" KEYS "    volumeMounts:\n" MOUNT PRIVILEGED "  containers:\n"
	"  - {name: mesh, securityContext: {runAsUser: 7}}\n"
	"  - name: train\n"
	"    env:\n" KEYS "    volumeMounts:\n" MOUNT PRIVILEGED;

static const struct {
	const char *name, *pod;
	const struct pod_inject_settings *settings;
	const char *want;
} whole[] = {
	{"gate mode", guides_pod, &gate, gate_pod},
	{"gate mode without the host's network", guides_pod, &plain, plain_pod},
	{"init mode", guides_pod, &init, init_pod},
	{"init mode with a deadline", small_pod, &init_plain, small_init_pod},
	{"named containers", named_pod, &gate, named_gate_pod},
};

static void test_whole(void)
{
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct buf warnings = BUF_INIT(1 << 16);
		struct err err = ERR_INIT;

		row_begin("%s", whole[i].name);
		is_int(inject(doc, whole[i].pod, whole[i].settings, &warnings, &err), 1, "changed");
		is_str(err.msg, "", "no error");
		is_int((int)warnings.len, 0, "no warning");
		is_yaml(jmut_view(jmut_root(doc)), whole[i].want, "the Pod");
		buf_done(&warnings);
	}
	row_end();
}

/* ---- whose settings win ---- */

#define ANNOTATED "metadata: {annotations: {graphcore.ai/ipus: \"2\"}}\n"

static const struct {
	const char *name, *pod;
	const struct pod_inject_settings *settings;
	const char *warnings;
	const char *path[6]; /* of one value that comes out; numbers are list indices */
	const char *value;   /* as YAML; NULL: it isn't there */
} settings_rows[] = {
	{"the API server's own DNS policy",
	 ANNOTATED "spec: {dnsPolicy: ClusterFirst, containers: [{name: c}]}",
	 &gate,
	 "",
	 {"spec", "dnsPolicy"},
	 "ClusterFirstWithHostNet"},
	{"a DNS policy of its author's",
	 ANNOTATED "spec: {dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1]}, "
		   "containers: [{name: c}]}",
	 &gate,
	 "spec.dnsPolicy: None is kept, and not made ClusterFirstWithHostNet\n",
	 {"spec", "dnsPolicy"},
	 "None"},
	{"the resource that gives no IPUs",
	 ANNOTATED "spec: {containers: [{name: c, resources: {limits: {graphcore.ai/ipu: 2}}}]}",
	 &gate,
	 "spec.containers[0].resources: graphcore.ai/ipu gives no IPUs, which come by the "
	 "annotation: where no node shows it (advertise.ipus), the Pod isn't placed while it "
	 "holds its partition\n",
	 {"spec", "containers", "0", "resources"},
	 "{limits: {graphcore.ai/ipu: 2}}"},
	{"… which the scheduler wants in mode init",
	 ANNOTATED "spec: {containers: [{name: c, resources: {limits: {graphcore.ai/ipu: 2}}}]}",
	 &init,
	 "",
	 {"spec", "containers", "0", "resources"},
	 "{limits: {graphcore.ai/ipu: 2}}"},
	{"the same as ours",
	 ANNOTATED "spec: {dnsPolicy: ClusterFirstWithHostNet, containers: [{name: c}]}",
	 &gate,
	 "",
	 {"spec", "dnsPolicy"},
	 "ClusterFirstWithHostNet"},
	{"an author's host network, where it isn't configured",
	 ANNOTATED "spec: {hostNetwork: true, dnsPolicy: Default, containers: [{name: c}]}",
	 &plain,
	 "",
	 {"spec", "hostNetwork"},
	 "true"},
	{"privileged: false",
	 ANNOTATED "spec: {containers: [{name: c, securityContext: {privileged: false}}]}",
	 &gate,
	 "spec.containers[0].securityContext.privileged: false is kept: the container isn't "
	 "privileged, and may not reach its IPUs\n",
	 {"spec", "containers", "0", "securityContext"},
	 "{privileged: false}"},
	{"allowPrivilegeEscalation: false",
	 ANNOTATED
	 "spec: {containers: [{name: c, securityContext: {allowPrivilegeEscalation: false}}]}",
	 &gate,
	 "spec.containers[0].securityContext.allowPrivilegeEscalation: false is kept: the "
	 "container isn't privileged, and may not reach its IPUs\n",
	 {"spec", "containers", "0", "securityContext"},
	 "{allowPrivilegeEscalation: false}"},
	{"other settings of security stay",
	 ANNOTATED "spec: {containers: [{name: c, securityContext: {runAsUser: 5}}]}",
	 &gate,
	 "",
	 {"spec", "containers", "0", "securityContext"},
	 "{runAsUser: 5, privileged: true}"},
	{"a timeout of its author's",
	 ANNOTATED
	 "spec: {containers: [{name: c, env: [{name: IPUOF_VIPU_API_TIMEOUT, value: '9'}]}]}",
	 &gate,
	 "spec.containers[0].env[IPUOF_VIPU_API_TIMEOUT]: kept as it is\n",
	 {"spec", "containers", "0", "env", "5"},
	 "{name: IPUOF_VIPU_API_TIMEOUT, value: '9'}"},
	{"another partition",
	 ANNOTATED "spec: {containers: [{name: c, env: [{name: IPUOF_VIPU_API_PARTITION_ID, "
		   "value: other}]}]}",
	 &gate,
	 "spec.containers[0].env[IPUOF_VIPU_API_PARTITION_ID]: replaced: the operator says where "
	 "the Pod's IPUs are\n",
	 {"spec", "containers", "0", "env", "3"},
	 "{name: IPUOF_VIPU_API_PARTITION_ID, valueFrom: {configMapKeyRef: {name: ipuof-" T1
	 ", key: IPUOF_VIPU_API_PARTITION_ID, optional: true}}}"},
	{"another controller, in init mode",
	 ANNOTATED
	 "spec: {containers: [{name: c, env: [{name: IPUOF_VIPU_API_HOST, value: other}]}]}",
	 &init,
	 "spec.containers[0].env[IPUOF_VIPU_API_HOST]: replaced: the operator says where the Pod's "
	 "IPUs are\n",
	 {"spec", "containers", "0", "env", "1"},
	 NULL},
	{"another gate",
	 ANNOTATED "spec: {schedulingGates: [{name: theirs}], containers: [{name: c}]}",
	 &gate,
	 "",
	 {"spec", "schedulingGates"},
	 "[{name: theirs}, {name: graphcore.ai/partition}]"},
	{"a node, in init mode",
	 ANNOTATED "spec: {nodeName: n1, containers: [{name: c}]}",
	 &init,
	 "",
	 {"spec", "nodeName"},
	 "n1"},
	{"a label without the annotation",
	 "metadata: {labels: {a: b, graphcore.ai/pod: " T2 "}}\nspec: {containers: [{name: c}]}",
	 &gate,
	 "metadata.labels[graphcore.ai/pod]: removed: the label is the operator's, and the Pod "
	 "asks for no IPUs (metadata.annotations[graphcore.ai/ipus])\n",
	 {"metadata", "labels"},
	 "{a: b}"},
	{"the partition of another",
	 "metadata: {annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/partition: theirs}}\n"
	 "spec: {containers: [{name: c}]}",
	 &gate,
	 "",
	 {"metadata", "annotations"},
	 "{graphcore.ai/ipus: \"2\", graphcore.ai/status: injected}"},
	{"a Pod of a job, with a label",
	 "metadata: {labels: {graphcore.ai/job: j, graphcore.ai/pod: " T2 "}, "
	 "annotations: {graphcore.ai/ipus: \"2\"}, ownerReferences: [{apiVersion: "
	 "graphcore.ai/v1alpha1, kind: IPUJob, name: j, uid: u, controller: true}]}\n"
	 "spec: {containers: [{name: c, env: [{name: IPUOF_VIPU_API_GCD_ID, value: '0'}]}]}",
	 &gate,
	 "metadata.annotations[graphcore.ai/ipus]: ignored: the Pod is of an IPUJob, and has the "
	 "job's IPUs\n",
	 {"metadata", "labels"},
	 "{graphcore.ai/job: j}"},
};

static const struct json *walk(const struct json *v, const char *const path[6])
{
	for (size_t i = 0; i < 6 && path[i]; i++)
		v = json_type(v) == JSON_ARRAY ? json_item(v, (size_t)atoi(path[i]))
					       : json_get(v, path[i]);
	return v;
}

static void test_settings(void)
{
	for (size_t i = 0; i < sizeof(settings_rows) / sizeof(settings_rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct buf warnings = BUF_INIT(1 << 16);
		const struct json *got;
		struct err err = ERR_INIT;

		row_begin("%s", settings_rows[i].name);
		is_int(inject(doc, settings_rows[i].pod, settings_rows[i].settings, &warnings,
			      &err),
		       1, "changed");
		buf_append(&warnings, "", 1, NULL);
		is_str(warnings.p, settings_rows[i].warnings, "the warnings");
		got = walk(jmut_view(jmut_root(doc)), settings_rows[i].path);
		if (settings_rows[i].value)
			is_yaml(got, settings_rows[i].value, "the value");
		else
			ok(!got, "nothing is there");
		buf_done(&warnings);
	}
	row_end();
}

/* ---- what stays as it is ---- */

static const struct {
	const char *name, *pod, *warnings;
} untouched[] = {
	{"no annotation", "metadata: {name: p}\nspec: {containers: [{name: c}]}", ""},
	{"others' annotations",
	 "metadata: {annotations: {graphcore.ai/status: injected, graphcore.ai/ipux: \"1\"}}\n"
	 "spec: {containers: [{name: c}]}",
	 ""},
	{"no metadata", "spec: 5", ""},
	{"a worker of a job",
	 "metadata: {annotations: {graphcore.ai/ipu: \"2\"}, ownerReferences: [{apiVersion: "
	 "graphcore.ai/v1alpha1, kind: IPUJob, name: j, uid: u, controller: true}]}\n",
	 "metadata.annotations[graphcore.ai/ipu]: ignored: the Pod is of an IPUJob, and has the "
	 "job's IPUs\n"},
	{"a static Pod",
	 "metadata: {annotations: {graphcore.ai/ipus: \"2\", kubernetes.io/config.mirror: x}}\n"
	 "spec: {containers: [{name: c}]}",
	 "metadata.annotations[graphcore.ai/ipus]: ignored: a static Pod runs already, without "
	 "IPUs\n"},
};

static void test_untouched(void)
{
	for (size_t i = 0; i < sizeof(untouched) / sizeof(untouched[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct buf warnings = BUF_INIT(1 << 16);
		struct err err = ERR_INIT;

		row_begin("%s", untouched[i].name);
		is_int(inject(doc, untouched[i].pod, &gate, &warnings, &err), 0, "not changed");
		buf_append(&warnings, "", 1, NULL);
		is_str(warnings.p, untouched[i].warnings, "the warnings");
		buf_done(&warnings);
	}
	row_end();
}

/* ---- what is refused ---- */

static const struct partition_policy tight = {.max_ipus = 16,
					      .max_job_ipus = 4,
					      .max_deadline_s = 3600,
					      .default_deadline_s = PARTITION_UNLIMITED,
					      .max_interactive_s = PARTITION_UNLIMITED};
static const struct partition_policy few = {.max_ipus = 2,
					    .max_job_ipus = PARTITION_UNLIMITED,
					    .max_deadline_s = PARTITION_UNLIMITED,
					    .default_deadline_s = PARTITION_UNLIMITED,
					    .max_interactive_s = PARTITION_UNLIMITED};
static const struct pod_inject_settings small = {
	.mode = POD_MODE_GATE, .reach_ipus = 64, .policy = &tight};
static const struct pod_inject_settings least = {.mode = POD_MODE_GATE, .policy = &few};
static const struct pod_inject_settings no_image = {
	.mode = POD_MODE_INIT, .proxy_url = "https://p", .proxy_ca = "CA"};
static const struct pod_inject_settings no_ca = {
	.mode = POD_MODE_INIT, .worker = {.launcher_image = "l"}, .proxy_url = "https://p"};

#define VALUE(v) "metadata: {annotations: {graphcore.ai/ipus: " v "}}\nspec: {containers: [{}]}"
#define NOT(v)                                                                                     \
	"metadata.annotations[graphcore.ai/ipus]: must be a power of two from 1 to 65536, such "   \
	"as \"2\", not \"" v "\""

static const struct {
	const char *pod;
	const struct pod_inject_settings *settings;
	enum err_kind kind;
	const char *message;
} refused[] = {
	{VALUE("\"0\""), &gate, ERR_INVALID, NOT("0")},
	{VALUE("\"-1\""), &gate, ERR_INVALID, NOT("-1")},
	{VALUE("\"3\""), &gate, ERR_INVALID, NOT("3")},
	{VALUE("two"), &gate, ERR_INVALID, NOT("two")},
	{VALUE("\"\""), &gate, ERR_INVALID, NOT("")},
	{VALUE("\" 2\""), &gate, ERR_INVALID, NOT(" 2")},
	{VALUE("\"2.0\""), &gate, ERR_INVALID, NOT("2.0")},
	{VALUE("\"131072\""), &gate, ERR_INVALID, NOT("131072")},
	{VALUE("\"99999999999999999999999999999999999999\""), &gate, ERR_INVALID,
	 NOT("99999999999999999999999999999999…")},
	{VALUE("2"), &gate, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/ipus]: must be a number of IPUs as text, such as "
	 "\"2\", not an integer"},
	{"metadata: {annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/ipu: \"4\"}}", &gate,
	 ERR_INVALID, "spec: must be an object"},
	{"metadata: {annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/ipu: \"4\"}}\n"
	 "spec: {containers: [{}]}",
	 &gate, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/ipu]: says 4, and graphcore.ai/ipus says 2: leave one "
	 "of the two out"},
	{"metadata: {annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/ipu: two}}\n"
	 "spec: {containers: [{}]}",
	 &gate, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/ipu]: must be a power of two from 1 to 65536, such as "
	 "\"2\", not \"two\""},
	{VALUE("\"128\""), &small, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/ipus]: 128 IPUs are more than any V-IPU controller "
	 "has: at most 64"},
	{VALUE("\"8\""), &small, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/ipus]: 8 IPUs are more than a Pod may have in its "
	 "namespace: at most 4"},
	{VALUE("\"4\""), &least, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/ipus]: 4 IPUs are more than all of its namespace may "
	 "have: at most 2"},
	{ANNOTATED "spec: {activeDeadlineSeconds: 3601, containers: [{}]}", &small, ERR_INVALID,
	 "spec.activeDeadlineSeconds: 3601 s are more than a Pod with IPUs may run in its "
	 "namespace: at most 3600"},
	{"metadata: {labels: {graphcore.ai/job: j}, annotations: {graphcore.ai/ipu: \"2\"}}\n"
	 "spec: {containers: [{}]}",
	 &gate, ERR_INVALID,
	 "metadata.labels[graphcore.ai/job]: a Pod of an IPUJob has the job's IPUs: leave out this "
	 "label, or the annotation graphcore.ai/ipu"},
	{ANNOTATED "spec: {os: {name: windows}, containers: [{}]}", &gate, ERR_INVALID,
	 "spec.os.name: must be linux, or left out, for a Pod with IPUs"},
	{ANNOTATED "spec: {nodeName: n1, containers: [{}]}", &gate, ERR_INVALID,
	 "spec.nodeName: must be left out: until there is a partition, the Pod waits behind a "
	 "scheduling gate; spec.nodeSelector can name a node (kubernetes.io/hostname)"},
	{ANNOTATED "spec: {volumes: [{name: ipuof-config, secret: {}}], containers: [{}]}", &gate,
	 ERR_INVALID,
	 "spec.volumes[0].name: ipuof-config is the operator's own volume in a Pod with IPUs: "
	 "choose another name"},
	{ANNOTATED "spec: {volumes: [{name: ipuof-config, emptyDir: {}}], containers: [{}]}", &gate,
	 ERR_INVALID,
	 "spec.volumes[0].name: ipuof-config is the operator's own volume in a Pod with IPUs: "
	 "choose another name"},
	{ANNOTATED "spec: {volumes: [{}, {name: ipu-partition-token}], containers: [{}]}", &init,
	 ERR_INVALID,
	 "spec.volumes[1].name: ipu-partition-token is the operator's own volume in a Pod with "
	 "IPUs: choose another name"},
	{ANNOTATED "spec: {initContainers: [{name: ipu-partition}], containers: [{}]}", &init,
	 ERR_INVALID,
	 "spec.initContainers[0].name: ipu-partition is the operator's own container in a Pod with "
	 "IPUs: choose another name"},
	{ANNOTATED "spec: {containers: [{}, {volumeMounts: [{name: x, mountPath: "
		   "/etc/ipuof.conf.d/}]}]}",
	 &gate, ERR_INVALID,
	 "spec.containers[1].volumeMounts[0].mountPath: /etc/ipuof.conf.d is where the operator "
	 "mounts the IPUoF configuration: choose another path"},
	{"metadata: {annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/containers: 'a,b'}}\n"
	 "spec: {containers: [{name: a}]}",
	 &gate, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/containers]: must be names of the Pod's containers, "
	 "with commas between them: there is no container \"b\""},
	{"metadata: {annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/containers: ''}}\n"
	 "spec: {containers: [{name: a}]}",
	 &gate, ERR_INVALID,
	 "metadata.annotations[graphcore.ai/containers]: must be names of the Pod's containers, "
	 "with commas between them: there is no container \"\""},
	{ANNOTATED "spec: {containers: []}", &gate, ERR_INVALID,
	 "spec.containers: must not be empty"},
	{ANNOTATED "spec: {containers: {}}", &gate, ERR_INVALID, "spec.containers: must be a list"},
	{ANNOTATED "spec: {containers: [5]}", &gate, ERR_INVALID,
	 "spec.containers[0]: must be an object"},
	{ANNOTATED "spec: {containers: [{env: {}}]}", &gate, ERR_INVALID,
	 "spec.containers[0].env: must be a list"},
	{ANNOTATED "spec: {containers: [{securityContext: []}]}", &gate, ERR_INVALID,
	 "spec.containers[0].securityContext: must be an object"},
	{ANNOTATED "spec: {schedulingGates: 1, containers: [{}]}", &gate, ERR_INVALID,
	 "spec.schedulingGates: must be a list"},
	{ANNOTATED "spec: {containers: [{}]}", &no_image, ERR_UNSUPPORTED,
	 "the operator's configuration names no image with ipu-launcher (launcher.image), which "
	 "pods.mode init needs"},
	{ANNOTATED "spec: {containers: [{}]}", &no_ca, ERR_UNAVAILABLE,
	 "the operator has no authority yet that Pods could trust the proxy by: try again"},
};

static void test_refused(void)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct buf warnings = BUF_INIT(1 << 16);
		struct err err = ERR_INIT;

		row_begin("%zu", i);
		is_int(inject(doc, refused[i].pod, refused[i].settings, &warnings, &err), -1,
		       "refused");
		is_int(err.kind, refused[i].kind, "the kind");
		is_str(err.msg, refused[i].message, "the message");
		buf_done(&warnings);
	}
	row_end();
}

/* ---- what the annotations say ---- */

static void test_asks(void)
{
	CLEANUP_YAML struct yaml *none = parse("metadata: {labels: {graphcore.ai/pod: x}}");
	CLEANUP_YAML struct yaml *both = parse(
		"metadata: {annotations: {graphcore.ai/ipus: \"16\", graphcore.ai/ipu: \"16\"}}");
	CLEANUP_YAML struct yaml *wrong = parse("spec: {activeDeadlineSeconds: 99999999999}");
	char one[POD_TOKEN_SIZE], other[POD_TOKEN_SIZE], name[POD_CONFIG_MAP_SIZE];
	struct err err = ERR_INIT;
	uint32_t ipus = 0;

	ok(!pod_is_annotated(yaml_doc(none, 0)), "a label is no annotation");
	is_int(pod_ipus(yaml_doc(none, 0), &ipus, &err), -1, "it asks for nothing");
	is_int(err.kind, ERR_NOT_FOUND, "which is no fault of its author's");
	is_int(pod_ipus(yaml_doc(both, 0), &ipus, &err), 0, "both names");
	is_int((int)ipus, 16, "that agree");
	ok(pod_deadline_ms(yaml_doc(wrong, 0)) == 0, "a deadline that Kubernetes doesn't take");
	pod_token_make(one);
	pod_token_make(other);
	ok(pod_token_is(str_of(one)) && strcmp(one, other) != 0, "tokens are random");
	ok(!pod_token_is(STR("0123456789ABCDEF0123456789abcdef")), "in lower case");
	pod_config_map_name(T1, name);
	is_str(name, "ipuof-" T1, "the ConfigMap");
}

/* ---- again ---- */

/* A Pod that was injected with T1, as `kubectl get -o yaml` shows it once it runs. */
static const char running_pod[] =
	"apiVersion: v1\n"
	"kind: Pod\n"
	"metadata:\n"
	"  name: sharding-app\n"
	"  namespace: default\n"
	"  uid: 2b0c\n"
	"  resourceVersion: '99'\n"
	"  annotations: {graphcore.ai/ipus: \"2\", graphcore.ai/status: injected,\n"
	"    graphcore.ai/partition: sharding-app-default-0-0123456789,\n"
	"    graphcore.ai/node-selector: ipunode=pod001}\n"
	"  labels: {graphcore.ai/pod: " T1 "}\n"
	"spec:\n"
	"  hostNetwork: true\n"
	"  dnsPolicy: ClusterFirstWithHostNet\n"
	"  nodeName: node-7\n"
	"  nodeSelector: {ipunode: pod001, zone: a}\n"
	"  restartPolicy: Always\n"
	"  volumes:\n"
	"  - name: ipuof-config\n"
	"    configMap: {name: ipuof-" T1 ", defaultMode: 420, optional: true,\n"
	"      items: [{key: ipuof-0.conf, path: partition.conf}]}\n"
	"  - name: kube-api-access-abcde\n"
	"    projected: {defaultMode: 420, sources: []}\n"
	"  containers:\n"
	"  - name: demo\n"
	"    image: im\n"
	"    env:\n" KEYS OWN_ENV PRIVILEGED "    volumeMounts:\n" MOUNT
	"    - {name: kube-api-access-abcde, mountPath: /var/run/x, readOnly: true}\n"
	"status: {phase: Running}\n";

static void test_copy(void)
{
	CLEANUP_YAML struct yaml *y = parse(running_pod);
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *bare = jmut_doc_new();
	struct buf warnings = BUF_INIT(1 << 16), text = BUF_INIT(1 << 20);
	struct jmut *copy = jmut_copy(bare, yaml_doc(y, 0));
	const struct json *pod, *spec;
	struct err err = ERR_INIT;

	row_begin("a copy of a running Pod");
	is_int(pod_inject(doc, yaml_doc(y, 0), T2, &gate, collect, &warnings, &err), 1, "taken");
	buf_append(&warnings, "", 1, NULL);
	is_str(warnings.p, "spec.nodeName: node-7 is removed: the scheduler chooses a node again\n",
	       "the warning");
	pod = jmut_view(jmut_root(doc));
	spec = json_get(pod, "spec");
	is_yaml(json_at(pod, "metadata", "annotations", NULL),
		"{graphcore.ai/ipus: \"2\", graphcore.ai/status: injected}", "its annotations");
	is_yaml(json_get(spec, "schedulingGates"), "[{name: graphcore.ai/partition}]", "its gate");
	is_yaml(json_get(spec, "nodeSelector"), "{zone: a}", "its own node selector");
	is_int((int)json_len(json_get(spec, "volumes")), 2, "no volume twice");
	is_int((int)json_len(json_at(json_item(json_get(spec, "containers"), 0), "env", NULL)), 7,
	       "no variable twice");
	ok(jmut_write(jmut_root(doc), JSON_COMPACT, &text, NULL) == 0 &&
		   buf_append(&text, "", 1, NULL) == 0 && !strstr(text.p, T1),
	   "nothing of the old token");

	row_begin("a copy without its annotation");
	jmut_del(jmut_get(jmut_get(copy, "metadata"), "annotations"), POD_ANNOTATION_IPUS);
	is_int(pod_inject(doc, jmut_view(copy), T2, &gate, NULL, NULL, &err), 1, "changed");
	pod = jmut_view(jmut_root(doc));
	ok(!json_at(pod, "metadata", "labels", NULL) &&
		   !json_at(pod, "metadata", "annotations", NULL),
	   "no label, no annotation");
	spec = json_get(pod, "spec");
	is_int((int)json_len(json_get(spec, "volumes")), 1, "no volume of ours");
	is_yaml(json_get(json_item(json_get(spec, "containers"), 0), "env"),
		"[{name: A, value: $(IPUOF_CONFIG_PATH)}]", "its own environment");
	row_end();
	buf_done(&warnings);
	buf_done(&text);
}

/* Whatever it was injected as, injecting is a matter of the Pod's own words. */
static void test_twice(void)
{
	static const struct pod_inject_settings *const all[] = {&gate, &plain, &init, &init_plain};
	static const char *const pods[] = {
		guides_pod, small_pod, named_pod,
		ANNOTATED "spec: {containers: [{name: c, env: [], volumeMounts: []}], volumes: "
			  "[], schedulingGates: [{name: graphcore.ai/partition}]}"};
	const size_t n = sizeof(all) / sizeof(all[0]);

	for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]) * n * n; i++) {
		CLEANUP_JMUT struct jmut_doc *once = jmut_doc_new(), *first = jmut_doc_new(),
					     *second = jmut_doc_new();
		CLEANUP_YAML struct yaml *y = parse(pods[i / n / n]);
		const struct pod_inject_settings *before = all[i / n % n], *now = all[i % n];
		struct err err = ERR_INIT;

		/* What an injection can't know to be its own. */
		if (before->worker.host_network && !now->worker.host_network)
			continue;
		row_begin("Pod %zu, settings %zu, then %zu", i / n / n, i / n % n, i % n);
		ok(pod_inject(once, yaml_doc(y, 0), T2, now, NULL, NULL, &err) == 1 &&
			   pod_inject(first, yaml_doc(y, 0), T1, before, NULL, NULL, &err) == 1 &&
			   pod_inject(second, jmut_view(jmut_root(first)), T2, now, NULL, NULL,
				      &err) == 1,
		   "injected");
		is_json(jmut_view(jmut_root(second)), jmut_view(jmut_root(once)), "twice is once");
	}
	row_end();
}

/* Long lists of a peer's choice hold nobody up: this would take hours if each element were looked
 * for among the others. */
static void test_long(void)
{
	enum { LONG = 20000 };
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *in = jmut_doc_new();
	CLEANUP_YAML struct yaml *y = parse(
		"{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {graphcore.ai/ipus: "
		"\"2\"}}, spec: {containers: []}}");
	struct jmut *pod = jmut_copy(in, yaml_doc(y, 0)), *spec = jmut_get(pod, "spec");
	struct jmut *containers = jmut_get(spec, "containers"), *env = jmut_array(in);
	struct jmut *gates = jmut_array(in), *last = NULL;
	struct buf names = BUF_INIT(1 << 20);
	struct err err = ERR_INIT;

	for (int i = 0; i < LONG; i++) {
		struct jmut *c = jmut_object(in), *var = jmut_object(in), *one = jmut_object(in);

		jmut_set(in, c, "name", jmut_strf(in, "c%d", i));
		jmut_push(in, containers, c);
		buf_printf(&names, NULL, "%sc%d", i ? "," : "", LONG - 1 - i);
		jmut_set(in, var, "name",
			 i % 2 ? jmut_strf(in, "E%d", i) : jmut_strz(in, "IPUOF_CONFIG_PATH"));
		jmut_push(in, env, var);
		jmut_set(in, one, "name",
			 i % 2 ? jmut_strf(in, "g%d", i) : jmut_strz(in, POD_GATE));
		jmut_push(in, gates, one);
		last = c;
	}
	jmut_set(in, last, "env", env);
	jmut_set(in, spec, "schedulingGates", gates);
	jmut_set(in, jmut_get(jmut_get(pod, "metadata"), "annotations"), POD_ANNOTATION_CONTAINERS,
		 jmut_str(in, buf_str(&names)));
	is_int(pod_inject(doc, jmut_view(pod), T1, &gate, NULL, NULL, &err), 1, "a long Pod");
	spec = jmut_get(jmut_root(doc), "spec");
	is_uint(jmut_len(jmut_get(spec, "schedulingGates")), LONG / 2 + 1, "one gate of ours");
	last = jmut_item(jmut_get(spec, "containers"), LONG - 1);
	is_uint(jmut_len(jmut_get(last, "env")), LONG / 2 + 6, "its own variables, and ours");
	ok(jmut_get(jmut_item(jmut_get(spec, "containers"), 0), "env"), "each listed one has them");
	buf_done(&names);
}

int main(void)
{
	test_whole();
	test_settings();
	test_untouched();
	test_refused();
	test_asks();
	test_copy();
	test_twice();
	test_long();
	return done_testing();
}
