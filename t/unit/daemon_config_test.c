/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: etc/operator.yaml holds every key with its default, and what is wrong is said
 * with its place, whether it comes from the file, the environment or a flag.
 */
#include <errno.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/str.h"
#include "core/yaml.h"
#include "daemon/config.h"
#include "daemon/config_keys.h"
#include "daemon/options.h"
#include "tap.h"

static char file[] = "/tmp/ipu-daemon-config-XXXXXX";
static char *const no_environ[] = {NULL};

static void write_file(const char *text)
{
	FILE *f = fopen(file, "we");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		bail_out("the test's file can't be written");
}

static int load_from(const char *path, const char *const *sets, size_t n_sets,
		     char *const *environ_, struct config *ret, struct err *err)
{
	const struct config_source source = {path, sets, n_sets, environ_};

	return config_load(&source, NULL, NULL, ret, err);
}

static int load(const char *text, struct config *ret, struct err *err)
{
	write_file(text);
	return load_from(file, NULL, 0, no_environ, ret, err);
}

#define MUTATING   "ipu-operator-mutating-webhook-configuration"
#define VALIDATING "ipu-operator-validating-webhook-configuration"

/* All that a configuration holds, in words. */
static char *describe(const struct config *c)
{
	return xasprintf(
		"%s|%u|%s|%s|%zu|%ld|%ld|%ld|%ld|%ld|%ld|%d|%s|%s|%s|%s|%s|%s|%ld|%ld|%ld|%ld|%s|"
		"%ld|%ld|%ld|%s|%s|%s|%ld|%s|%s|%s|%d|%s|%s|%s|%s|%d|%s|%s|%s|%s|%s|%" PRId64
		"|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64
		"|%zu|%s|%s|%s|%s|%s|%ld|%ld|%ld|%ld|%ld|%d|%s|%d|%s|%d|%s|%s|%s|%s|%s|%s|%s|%s|%ld|%ld|%s|%s|%ld|%ld|%ld|%s|%d|%s|%s|%s|%ld|%s|%s|%s|%d|%s|%ld|%s|%s|%d|%ld|%ld|%s|%s|%s|%s|%s|",
		c->operator_ns, c->roles, c->kubeconfig, c->context, c->controllers.n, c->call_s,
		c->active_s, c->remove_grace_s, c->orphan_s, c->waiting_refresh_s,
		c->idle_refresh_s, c->host_network, c->privileged, c->dns_policy, c->tracker,
		c->proxy_listen, c->health_listen, c->metrics_listen, c->proxy_read_s,
		c->proxy_write_s, c->proxy_idle_s, c->log_level, c->log_format, c->connections,
		c->header_bytes, c->body_bytes, c->controllers_file, c->controllers_config_map,
		c->server.n ? c->server.items[0].name : "", c->server_port,
		c->server.n ? c->server.items[0].cluster : "", c->user_key, c->access_key,
		c->lease_enabled, c->lease_prefix, c->lease_identity, c->advertise,
		c->proxy_tls_listen, c->proxy_details, c->proxy_accounts, c->proxy_url,
		c->proxy_token, c->proxy_ca, c->choice, c->policy.fallback.max_ipus,
		c->policy.fallback.max_job_ipus, c->policy.fallback.max_deadline_s,
		c->policy.fallback.default_deadline_s, c->policy.fallback.max_interactive_s,
		c->policy.n, c->certificate_secret, c->certificate_names, c->launcher_image,
		c->launcher_pull, c->mpi_interface, c->worker_wait_s, c->backoff_s,
		c->backoff_max_s, c->start_deadline_s, c->unreachable_s, c->dry_run_pods,
		c->template_paths, c->template_privileged, c->template_accounts, c->template_nodes,
		c->webhook_cert, c->webhook_key, c->webhook_ca, c->webhook_mutating,
		c->webhook_validating, c->webhook_url, c->webhook_scope, c->webhook_failure_policy,
		c->webhook_timeout_s, c->ranks_end_s, c->pods_mode, c->pods_proxy_url,
		c->pods_wait_s, c->slow_turn_ms, c->stop_s, c->advertise_ipus,
		c->advertise_on_control_plane, c->scheduler_listen, c->rdma_network,
		c->rdma_resource, c->rdma_amount, c->ipc_lock, c->node_name, c->node_rdma,
		c->node_labels, c->node_taint, c->node_calm_s, c->node_root, c->node_cni,
		c->heed_nodes, c->node_silent_s, c->scheduler_body_bytes, c->scheduler_client_ca,
		c->scheduler_client_names, c->proxy_page, c->seccomp, c->kube_http2 ? "" : "http1");
}

/* ---- the file that comes with the project ---- */

static unsigned count_keys(const struct json *v)
{
	struct json_iter it = json_iter(v);
	unsigned n = 0;

	while (json_next(&it))
		n += json_type(it.value) == JSON_OBJECT ? count_keys(it.value) : 1;
	return n;
}

static char *shipped(void)
{
	const char *top = getenv("TOP_SRCDIR");

	return xasprintf("%s/etc/operator.yaml", top ? top : ".");
}

static void test_shipped_file(void)
{
	CLEANUP_FREE char *path = shipped(), *defaults = NULL, *as_shipped = NULL;
	CLEANUP_YAML struct yaml *y = NULL;
	struct config c;
	struct err err = ERR_INIT;

	ok(load("# nothing\n", &c, &err) == 0, "an empty file is complete");
	defaults = describe(&c);
	config_done(&c);
	ok(load_from(path, NULL, 0, no_environ, &c, &err) == 0, "etc/operator.yaml: %s", err.msg);
	as_shipped = describe(&c);
	config_done(&c);
	is_str(as_shipped, defaults, "it holds the defaults");
	is_str(defaults,
	       "|3|||0|10|300|30|600|3|30|1|auto|auto|ipu-partitions-tracker|:8080|:8081|127.0.0.1:8444|"
	       "30|300|60|4|auto|1024|16384|65536||ipu-operator-vipu-controllers||8090||"
	       "api-user-id|api-access-key|1|ipu-operator|||:8445|1|||/var/run/secrets/ipu-operator/token||"
	       "firstFit|-1|-1|-1|-1|-1|0|ipu-operator-certificates|||auto||300|10|300|900|60|1|*|1|*|1|"
	       "|||" MUTATING "|" VALIDATING "|||Fail|30|105|gate||0|100|0|none|0||||1|auto|"
	       "|route|1|graphcore.ai/fabric-not-ready|10|||1|900|2097152|||usage|enforce||",
	       "which are those of the reference");
	if (yaml_load(path, &y, &err) < 0)
		bail_out(err.msg);
	is_uint(count_keys(yaml_doc(y, 0)), 110, "and every key");
}

/* ---- good values, each by the file, the environment and a flag ---- */

struct value {
	const char *yaml, *env, *set;
	const char *want; /* part of describe() */
};

static const struct value values[] = {
	{"operatorNamespace: ops", "IPUOPERATOR_OPERATOR_NAMESPACE=ops", "operatorNamespace=ops",
	 "ops|"},
	{"roles: [proxy]", "IPUOPERATOR_ROLES=proxy", "roles=proxy", "|2|"},
	{"roles: controller", "IPUOPERATOR_ROLES=controller", "roles=controller", "|1|"},
	{"kubernetes: {kubeconfig: /k}", "IPUOPERATOR_KUBERNETES_KUBECONFIG=/k",
	 "kubernetes.kubeconfig=/k", "|/k|"},
	{"kubernetes: {context: con}", "IPUOPERATOR_KUBERNETES_CONTEXT=con",
	 "kubernetes.context=con", "|con|"},
	{"kubernetes: {http2: false}", "IPUOPERATOR_KUBERNETES_HTTP2=false",
	 "kubernetes.http2=false", "|http1|"},
	{"controllers: 'a:8090:x=y,[fd00::7]:8090'",
	 "IPUOPERATOR_CONTROLLERS=a:8090:x=y,[fd00::7]:8090",
	 "controllers=a:8090:x=y,[fd00::7]:8090", "|3|||2|"},
	{"controllers: [{address: a, selector: x=y}, {address: b}]", NULL, NULL, "|3|||2|"},
	{"controllersFile: /etc/c", "IPUOPERATOR_CONTROLLERS_FILE=/etc/c", "controllersFile=/etc/c",
	 "|/etc/c|"},
	{"controllersConfigMap: ''",
	 "IPUOPERATOR_CONTROLLERS_CONFIG_MAP=", "controllersConfigMap=", "|65536||||8090|"},
	{"vipu: {serverAddr: Host, clusterName: c}", "IPUOPERATOR_VIPU_SERVER_ADDR=host", NULL,
	 "|host:8090|8090|"},
	{"vipu: {serverAddr: 'fd00::7', serverPort: 8191}", NULL, NULL, "|[fd00::7]:8191|8191||"},
	{"vipu: {serverAddr: '[fd00::7]', clusterName: test}", NULL, NULL,
	 "|[fd00::7]:8090|8090|test|"},
	{"vipu: {userKey: x-user}", "IPUOPERATOR_VIPU_USER_KEY=x-user", "vipu.userKey=x-user",
	 "|x-user|api-access-key"},
	{"vipu: {accessKey: x_key.2}", "IPUOPERATOR_VIPU_ACCESS_KEY=x_key.2",
	 "vipu.accessKey=x_key.2", "|api-user-id|x_key.2"},
	{"queue: {choice: bestFit}", "IPUOPERATOR_QUEUE_CHOICE=bestFit", "queue.choice=bestFit",
	 "|bestFit|-1|"},
	{"policy: {maxIpus: 0}", "IPUOPERATOR_POLICY_MAX_IPUS=0", "policy.maxIpus=0",
	 "|firstFit|0|-1|-1|"},
	{"policy: {maxJobIpus: 64}", "IPUOPERATOR_POLICY_MAX_JOB_IPUS=64", "policy.maxJobIpus=64",
	 "|firstFit|-1|64|-1|"},
	{"policy: {maxDeadlineSeconds: 60}", "IPUOPERATOR_POLICY_MAX_DEADLINE_SECONDS=60",
	 "policy.maxDeadlineSeconds=60", "|firstFit|-1|-1|60|-1|-1|"},
	{"policy: {defaultDeadlineSeconds: 60}", "IPUOPERATOR_POLICY_DEFAULT_DEADLINE_SECONDS=60",
	 "policy.defaultDeadlineSeconds=60", "|firstFit|-1|-1|-1|60|-1|"},
	{"policy: {maxInteractiveSeconds: 0}", "IPUOPERATOR_POLICY_MAX_INTERACTIVE_SECONDS=0",
	 "policy.maxInteractiveSeconds=0", "|firstFit|-1|-1|-1|-1|0|"},
	{"policy: {namespaces: {a: {maxIpus: 4, defaultDeadlineSeconds: 60}, b: {maxInteractiveSeconds: -1}}}",
	 NULL, NULL, "|firstFit|-1|-1|-1|-1|-1|2"},
	{"vipu: {callTimeoutSeconds: 300}", "IPUOPERATOR_VIPU_CALL_TIMEOUT_SECONDS=300",
	 "vipu.callTimeoutSeconds=300", "|0|300|300|30|"},
	{"vipu: {activeTimeoutSeconds: 1}", "IPUOPERATOR_VIPU_ACTIVE_TIMEOUT_SECONDS=1",
	 "vipu.activeTimeoutSeconds=1", "|10|1|30|"},
	{"vipu: {removeGraceSeconds: 0}", "IPUOPERATOR_VIPU_REMOVE_GRACE_SECONDS=0",
	 "vipu.removeGraceSeconds=0", "|300|0|600|"},
	{"vipu: {orphanAfterSeconds: 60}", "IPUOPERATOR_VIPU_ORPHAN_AFTER_SECONDS=60",
	 "vipu.orphanAfterSeconds=60", "|30|60|3|"},
	{"vipu: {waitingRefreshSeconds: 7}", "IPUOPERATOR_VIPU_WAITING_REFRESH_SECONDS=7",
	 "vipu.waitingRefreshSeconds=7", "|600|7|30|"},
	{"vipu: {idleRefreshSeconds: 3600}", "IPUOPERATOR_VIPU_IDLE_REFRESH_SECONDS=3600",
	 "vipu.idleRefreshSeconds=3600", "|3|3600|1|"},
	{"worker: {hostNetwork: false}", "IPUOPERATOR_WORKER_HOST_NETWORK=false",
	 "worker.hostNetwork=false", "|30|0|auto|"},
	{"worker: {privileged: true}", "IPUOPERATOR_WORKER_PRIVILEGED=true",
	 "worker.privileged=true", "|1|true|auto|"},
	{"worker: {privileged: 'false'}", "IPUOPERATOR_WORKER_PRIVILEGED=false",
	 "worker.privileged=false", "|1|false|auto|"},
	{"worker: {dnsPolicy: Default}", "IPUOPERATOR_WORKER_DNS_POLICY=Default",
	 "worker.dnsPolicy=Default", "|auto|Default|"},
	{"worker: {rdmaNetwork: fabric/rdma-net@rdma0}",
	 "IPUOPERATOR_WORKER_RDMA_NETWORK=fabric/rdma-net@rdma0",
	 "worker.rdmaNetwork=fabric/rdma-net@rdma0", "|fabric/rdma-net@rdma0||1|auto|"},
	{"worker: {rdmaResource: rdma/rdma_shared_device_a}",
	 "IPUOPERATOR_WORKER_RDMA_RESOURCE=rdma/rdma_shared_device_a",
	 "worker.rdmaResource=rdma/rdma_shared_device_a", "||rdma/rdma_shared_device_a|1|auto|"},
	{"worker: {rdmaResourceCount: 2}", "IPUOPERATOR_WORKER_RDMA_RESOURCE_COUNT=2",
	 "worker.rdmaResourceCount=2", "|||2|auto|"},
	{"worker: {ipcLock: false}", "IPUOPERATOR_WORKER_IPC_LOCK=false", "worker.ipcLock=false",
	 "|||1|false|"},
	{"launcher: {image: 'reg.example:5000/l@sha256:0'}",
	 "IPUOPERATOR_LAUNCHER_IMAGE=reg.example:5000/l@sha256:0",
	 "launcher.image=reg.example:5000/l@sha256:0", "||reg.example:5000/l@sha256:0|auto||300|"},
	{"proxy: {advertise: fd00::7}", "IPUOPERATOR_PROXY_ADVERTISE=fd00::7",
	 "proxy.advertise=fd00::7", "|[fd00::7]:8445|:8445|"},
	{"proxy: {advertise: 10.0.0.1}", "IPUOPERATOR_PROXY_ADVERTISE=10.0.0.1",
	 "proxy.advertise=10.0.0.1", "|10.0.0.1:8445|:8445|"},
	{"proxy: {advertise: '[fd00::7]:1'}", "IPUOPERATOR_PROXY_ADVERTISE=[fd00::7]:1",
	 "proxy.advertise=[fd00::7]:1", "|[fd00::7]:1|:8445|"},
	{"launcher: {imagePullPolicy: Never}", "IPUOPERATOR_LAUNCHER_IMAGE_PULL_POLICY=Never",
	 "launcher.imagePullPolicy=Never", "|||Never||300|"},
	{"launcher: {mpiInterface: 'ens1f0.7,10.5.0.0/16,fd00::/64'}",
	 "IPUOPERATOR_LAUNCHER_MPI_INTERFACE=ens1f0.7,10.5.0.0/16,fd00::/64",
	 "launcher.mpiInterface=ens1f0.7,10.5.0.0/16,fd00::/64",
	 "|auto|ens1f0.7,10.5.0.0/16,fd00::/64|300|"},
	{"launcher: {workerTimeoutSeconds: 9}", "IPUOPERATOR_LAUNCHER_WORKER_TIMEOUT_SECONDS=9",
	 "launcher.workerTimeoutSeconds=9", "|9|10|300|900|60"},
	{"jobs: {restartBackoffSeconds: 1}", "IPUOPERATOR_JOBS_RESTART_BACKOFF_SECONDS=1",
	 "jobs.restartBackoffSeconds=1", "|300|1|300|900|60"},
	{"jobs: {restartBackoffMaxSeconds: 10}", "IPUOPERATOR_JOBS_RESTART_BACKOFF_MAX_SECONDS=10",
	 "jobs.restartBackoffMaxSeconds=10", "|300|10|10|900|60"},
	{"jobs: {startDeadlineSeconds: 1}", "IPUOPERATOR_JOBS_START_DEADLINE_SECONDS=1",
	 "jobs.startDeadlineSeconds=1", "|300|10|300|1|60"},
	{"jobs: {unreachableNodeSeconds: 0}", "IPUOPERATOR_JOBS_UNREACHABLE_NODE_SECONDS=0",
	 "jobs.unreachableNodeSeconds=0", "|300|10|300|900|0"},
	{"jobs: {ranksEndSeconds: 0}", "IPUOPERATOR_JOBS_RANKS_END_SECONDS=0",
	 "jobs.ranksEndSeconds=0", "|Fail|30|0|"},
	{"pods: {mode: init}", "IPUOPERATOR_PODS_MODE=init", "pods.mode=init", "|init||0|"},
	{"pods: {proxyUrl: 'https://p:1'}", "IPUOPERATOR_PODS_PROXY_URL=https://p:1",
	 "pods.proxyUrl=https://p:1", "|gate|https://p:1|0|"},
	{"pods: {waitSeconds: 60}", "IPUOPERATOR_PODS_WAIT_SECONDS=60", "pods.waitSeconds=60",
	 "|gate||60|"},
	{"webhook: {dryRunPods: false}", "IPUOPERATOR_WEBHOOK_DRY_RUN_PODS=false",
	 "webhook.dryRunPods=false", "|60|0|*|1|*|1|"},
	{"templates: {hostPaths: '/data,/dev/shm'}",
	 "IPUOPERATOR_TEMPLATES_HOST_PATHS=/data,/dev/shm", "templates.hostPaths=/data,/dev/shm",
	 "|60|1|/data,/dev/shm|1|*|1|"},
	{"templates: {hostPaths: ''}",
	 "IPUOPERATOR_TEMPLATES_HOST_PATHS=", "templates.hostPaths=", "|60|1||1|*|1|"},
	{"templates: {privileged: false}", "IPUOPERATOR_TEMPLATES_PRIVILEGED=false",
	 "templates.privileged=false", "|60|1|*|0|*|1|"},
	{"templates: {serviceAccounts: 'a, b'}", "IPUOPERATOR_TEMPLATES_SERVICE_ACCOUNTS=a, b",
	 "templates.serviceAccounts=a, b", "|60|1|*|1|a, b|1|"},
	{"templates: {nodeNames: false}", "IPUOPERATOR_TEMPLATES_NODE_NAMES=false",
	 "templates.nodeNames=false", "|60|1|*|1|*|0|"},
	{"webhook: {certFile: /c, keyFile: /k}", NULL, NULL, "|1|/c|/k||" MUTATING "|"},
	{"webhook: {certFile: /c, keyFile: /k, caFile: /a}", NULL, NULL, "|1|/c|/k|/a|" MUTATING},
	{"webhook: {mutatingConfiguration: m}", "IPUOPERATOR_WEBHOOK_MUTATING_CONFIGURATION=m",
	 "webhook.mutatingConfiguration=m", "|m|" VALIDATING "|||Fail|30|"},
	{"webhook: {validatingConfiguration: v}", "IPUOPERATOR_WEBHOOK_VALIDATING_CONFIGURATION=v",
	 "webhook.validatingConfiguration=v", "|" MUTATING "|v|||Fail|30|"},
	{"webhook: {url: 'https://a:1/b'}", "IPUOPERATOR_WEBHOOK_URL=https://a:1/b",
	 "webhook.url=https://a:1/b", "|https://a:1/b||Fail|30|"},
	{"webhook: {scope: 'a, b'}", "IPUOPERATOR_WEBHOOK_SCOPE=a, b", "webhook.scope=a, b",
	 "||a, b|Fail|30|"},
	{"webhook: {failurePolicy: Ignore}", "IPUOPERATOR_WEBHOOK_FAILURE_POLICY=Ignore",
	 "webhook.failurePolicy=Ignore", "|Ignore|30|"},
	{"webhook: {timeoutSeconds: 1}", "IPUOPERATOR_WEBHOOK_TIMEOUT_SECONDS=1",
	 "webhook.timeoutSeconds=1", "|Fail|1|"},
	{"tracker: {configMap: t}", "IPUOPERATOR_TRACKER_CONFIG_MAP=t", "tracker.configMap=t",
	 "|auto|t|:8080|"},
	{"proxy: {listen: '[::1]:1'}", "IPUOPERATOR_PROXY_LISTEN=[::1]:1", "proxy.listen=[::1]:1",
	 "|[::1]:1|:8081|"},
	{"proxy: {readTimeoutSeconds: 1}", "IPUOPERATOR_PROXY_READ_TIMEOUT_SECONDS=1",
	 "proxy.readTimeoutSeconds=1", "|1|300|60|4|"},
	{"proxy: {writeTimeoutSeconds: 2}", "IPUOPERATOR_PROXY_WRITE_TIMEOUT_SECONDS=2",
	 "proxy.writeTimeoutSeconds=2", "|30|2|60|4|"},
	{"proxy: {idleTimeoutSeconds: 3}", "IPUOPERATOR_PROXY_IDLE_TIMEOUT_SECONDS=3",
	 "proxy.idleTimeoutSeconds=3", "|30|300|3|4|"},
	{"health: {listen: 'localhost:9'}", "IPUOPERATOR_HEALTH_LISTEN=localhost:9",
	 "health.listen=localhost:9", "|:8080|localhost:9|"},
	{"metrics: {listen: ''}", "IPUOPERATOR_METRICS_LISTEN=", "metrics.listen=", "|:8081||30|"},
	{"log: {level: 6}", "IPUOPERATOR_LOG_LEVEL=6", "log.level=6", "|60|6|auto|"},
	{"log: {format: journald}", "IPUOPERATOR_LOG_FORMAT=journald", "log.format=journald",
	 "|4|journald|1024|"},
	{"seccomp: log", "IPUOPERATOR_SECCOMP=log", "seccomp=log", "|usage|log|"},
	{"roles: [node]", "IPUOPERATOR_ROLES=node", "roles=node", "|8|"},
	{"node: {name: n1.example.com}", "IPUOPERATOR_NODE_NAME=n1.example.com",
	 "node.name=n1.example.com", "|n1.example.com|route|"},
	{"node: {rdma: any}", "IPUOPERATOR_NODE_RDMA=any", "node.rdma=any", "|any|1|"},
	{"node: {labels: false}", "IPUOPERATOR_NODE_LABELS=false", "node.labels=false",
	 "|route|0|"},
	{"node: {taint: ''}", "IPUOPERATOR_NODE_TAINT=", "node.taint=", "|route|1||10|"},
	{"node: {calmSeconds: 0}", "IPUOPERATOR_NODE_CALM_SECONDS=0", "node.calmSeconds=0",
	 "fabric-not-ready|0||"},
	{"partitions: {heedNodes: false}", "IPUOPERATOR_PARTITIONS_HEED_NODES=false",
	 "partitions.heedNodes=false", "|0|900|2097152|"},
	{"node: {silentSeconds: 0}", "IPUOPERATOR_NODE_SILENT_SECONDS=0", "node.silentSeconds=0",
	 "|1|0|2097152|"},
	{"{roles: [node], node: {root: /host}}", NULL, NULL, "|10|/host||"},
	{"{roles: [node], node: {cniFolder: /var/cni}}", NULL, NULL, "|10||/var/cni|"},
	{"limits: {connections: 65536}", "IPUOPERATOR_LIMITS_CONNECTIONS=65536",
	 "limits.connections=65536", "|auto|65536|16384|"},
	{"limits: {requestHeaderBytes: 1024}", "IPUOPERATOR_LIMITS_REQUEST_HEADER_BYTES=1024",
	 "limits.requestHeaderBytes=1024", "|1024|1024|65536"},
	{"limits: {requestBodyBytes: 1024}", "IPUOPERATOR_LIMITS_REQUEST_BODY_BYTES=1024",
	 "limits.requestBodyBytes=1024", "|16384|1024"},
	{"scheduler: {requestBodyBytes: 65536}", "IPUOPERATOR_SCHEDULER_REQUEST_BODY_BYTES=65536",
	 "scheduler.requestBodyBytes=65536", "|||1|900|65536|"},
	{"scheduler: {clientCAFile: /c}", "IPUOPERATOR_SCHEDULER_CLIENT_CA_FILE=/c",
	 "scheduler.clientCAFile=/c", "|2097152|/c||"},
	{"scheduler: {clientCAFile: /c, clientNames: 'a,b'}", NULL, NULL, "|2097152|/c|a,b|"},
	{"proxy: {tlsListen: 'localhost:9'}", "IPUOPERATOR_PROXY_TLS_LISTEN=localhost:9",
	 "proxy.tlsListen=localhost:9", "|localhost:9|1|"},
	{"proxy: {details: false}", "IPUOPERATOR_PROXY_DETAILS=false", "proxy.details=false",
	 "|:8445|0|"},
	{"proxy: {page: 'off'}", "IPUOPERATOR_PROXY_PAGE=off", "proxy.page=off", "|2097152|||off|"},
	{"proxy: {page: full}", NULL, NULL, "|2097152|||full|"},
	{"proxy: {controllerAccounts: 'a,b'}", "IPUOPERATOR_PROXY_CONTROLLER_ACCOUNTS=a,b",
	 "proxy.controllerAccounts=a,b", "|1|a,b"},
	{"proxy: {tlsCertFile: /c, tlsKeyFile: /k}", NULL, NULL, "|:8445|1|"},
};

static void has_value(const struct value *v, const char *yaml, const char *env, const char *set,
		      const char *by)
{
	char *environ_[] = {(char *)(uintptr_t)env, NULL};
	struct config c;
	struct err err = ERR_INIT;
	char *text;

	write_file(yaml);
	if (!ok(load_from(file, &set, set ? 1 : 0, environ_, &c, &err) == 0, "%s: %s", by, err.msg))
		return;
	text = describe(&c);
	has_str(text, v->want, "%s", by);
	free(text);
	config_done(&c);
}

static void test_values(void)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		const struct value *v = &values[i];

		row_begin("%s", v->yaml);
		has_value(v, v->yaml, NULL, NULL, "file");
		if (v->env)
			has_value(v, "", v->env, NULL, "environment");
		if (v->set)
			has_value(v, "", NULL, v->set, "flag");
	}
	row_end();
}

static void test_precedence(void)
{
	static const char *const sets[] = {"log.level=5", "log.level=6"};
	char *environ_[] = {(char *)(uintptr_t)"PATH=/bin",
			    (char *)(uintptr_t)"IPUOPERATOR_LOG_LEVEL=3",
			    (char *)(uintptr_t)"IPUOPERATOR_LIMITS_CONNECTIONS=7", NULL};
	struct config c;
	struct err err = ERR_INIT;

	write_file("log: {level: 2, format: json}\nlimits: {connections: 9}\n");
	ok(load_from(file, sets, 2, environ_, &c, &err) == 0, "all three");
	is_int(c.log_level, 6, "the last flag wins");
	is_int(c.connections, 7, "then the environment");
	is_str(c.log_format, "json", "then the file");
	is_int(c.call_s, 10, "then the default");
	config_done(&c);
}

/* ---- what is wrong ---- */

static const struct {
	const char *text, *says; /* behind the file's name */
} bad_files[] = {
	{"vipu:\n  callTimeoutSeconds: 301\n",
	 ":2:23: vipu.callTimeoutSeconds: must be from 1 to 300"},
	{"vipu:\n  callTimeoutSeconds: '10'\n",
	 ":2:24: vipu.callTimeoutSeconds: must be a whole number, not a string"},
	{"vipu:\n  callTimeoutSeconds: 1.5\n",
	 ":2:23: vipu.callTimeoutSeconds: must be a whole number, not one with a fraction"},
	{"vipu:\n  callTimeout: 3\n", ":2:3: vipu.callTimeout: there is no such key"},
	{"typo: 1\n", ":1:1: typo: there is no such key"},
	{"vipu: 3\n", ":1:7: vipu: must be a map of keys, not "},
	{"worker:\n  hostNetwork: 'yes'\n", ":2:17: worker.hostNetwork: must be true or false"},
	{"worker:\n  hostNetwork: yes\n", ":2:16: worker.hostNetwork: must be true or false"},
	{"worker: {privileged: maybe}\n",
	 ":1:22: worker.privileged: must be one of auto, true, false"},
	{"roles: [controller, admin]\n",
	 ":1:21: roles: \"admin\" isn't a role, only controller, proxy, webhook and node are"},
	{"pods: {mode: none}\n", ":1:14: pods.mode: must be one of gate, init"},
	{"roles: []\n", ":1:8: roles: must name at least one role"},
	{"roles: 3\n", ":1:8: roles: must be a list of roles, not "},
	{"roles: ''\n", ":1:9: roles: \"\" isn't a role"},
	{"proxy: {listen: 'a:b'}\n", "proxy.listen: must be HOST:PORT, [IPV6]:PORT, :PORT or \"\""},
	{"proxy: {listen: 8080}\n", ":1:17: proxy.listen: must be a string, not "},
	{"tracker: {configMap: ''}\n", "tracker.configMap is empty"},
	{"controllers: 'a:99999'\n", ":1:15: controllers: \"a:99999\": port"},
	{"controllers: 'a,a:8090'\n", "controllers: \"a:8090\": "},
	{"controllers: [{address: a, selektor: x=y}]\n", ":1:15: controllers: "},
	{"controllers: [{address: a, secretName: s, tls: false}]\n",
	 ":1:14: controllers: a:8090: with tls: false, the keys of Secret s would go"},
	{"controllers: [{address: a, secretName: S_1}]\n", "a:8090: secretName "},
	{"controllersConfigMap: A_b\n", ":1:23: controllersConfigMap "},
	{"vipu: {userKey: X-User}\n", ":1:17: vipu.userKey: must be lower-case"},
	{"vipu: {userKey: ''}\n", "vipu.userKey: must be lower-case"},
	{"vipu: {accessKey: grpc-x}\n", "vipu.accessKey: must be lower-case"},
	{"vipu: {accessKey: x-bin}\n", "vipu.accessKey: must be lower-case"},
	{"queue: {choice: best}\n", "queue.choice: must be one of firstFit, bestFit"},
	{"templates: {hostPaths: data}\n", "templates.hostPaths: must be \"*\", or absolute paths"},
	{"templates: {serviceAccounts: 'a,B'}\n",
	 "templates.serviceAccounts: must be \"*\", or names"},
	{"webhook: {url: 'http://a'}\n", "webhook.url: must be https://HOST[:PORT][/PATH]"},
	{"webhook: {url: 'https://a/?b'}\n", "webhook.url: must be https://HOST[:PORT][/PATH]"},
	{"webhook: {scope: '*'}\n", "webhook.scope: must be namespaces with commas"},
	{"webhook: {scope: 'a,B'}\n", "webhook.scope: must be namespaces with commas"},
	{"webhook: {timeoutSeconds: 31}\n", "webhook.timeoutSeconds: must be from 1 to 30"},
	{"policy: {maxIpus: -2}\n", "policy.maxIpus: must be from -1 to "},
	{"policy: {namespaces: a}\n", "policy.namespaces: it's a map, and only the file"},
	{"policy: {namespaces: [a]}\n", "policy.namespaces: must be a map of namespaces"},
	{"policy: {namespaces: {A_b: {}}}\n", "policy.namespaces "},
	{"policy: {namespaces: {a: 3}}\n", "policy.namespaces: must be a map of limits"},
	{"policy:\n  namespaces:\n    a: {maxIpu: 3}\n",
	 ":3:17: policy.namespaces: there is no such key"},
	{"policy:\n  namespaces:\n    a: {maxIpus: '3'}\n", ":3:19: maxIpus: must be from"},
	{"worker: {rdmaNetwork: a/b/c}\n",
	 ":1:23: worker.rdmaNetwork: must be [NAMESPACE/]NAME[@INTERFACE]"},
	{"worker: {rdmaNetwork: 'a,b'}\n", "worker.rdmaNetwork: must be [NAMESPACE/]NAME"},
	{"worker: {rdmaResource: rdma}\n",
	 "worker.rdmaResource: must be an extended resource, DOMAIN/NAME"},
	{"worker: {rdmaResourceCount: 0}\n", "worker.rdmaResourceCount: must be from 1 to 1000"},
	{"worker: {ipcLock: maybe}\n", "worker.ipcLock: must be one of auto, true, false"},
	{"launcher: {mpiInterface: 'eth0, eth1'}\n",
	 ":1:27: launcher.mpiInterface: must be a network interface or a subnet"},
	{"launcher: {mpiInterface: 10.5.0.0/33}\n", "launcher.mpiInterface: must be"},
	{"launcher: {mpiInterface: 'fd00::/129'}\n", "launcher.mpiInterface: must be"},
	{"launcher: {mpiInterface: 'eth0/24'}\n", "launcher.mpiInterface: must be"},
	{"launcher: {mpiInterface: 'an-interface-too-long'}\n", "launcher.mpiInterface: must"},
	{"jobs: {startDeadlineSeconds: 0}\n", "jobs.startDeadlineSeconds: must be from 1 to"},
	{"log: {format: xml}\n", "log.format: must be one of auto, text, json, journald"},
	{"log: {level: 0}\n", "log.level: must be from 1 to 6"},
	{"log:\n  level: 1\n  level: 2\n", ":3:"},
	{"- 1\n", ":1:1: the configuration must be a map of keys, not "},
	{"log: {level: 1}\n---\nlog: {level: 1}\n", "is one document, not several"},
	{"log: {level: [}\n", ":1:"},
	{"node: {rdma: maybe}\n", ":1:14: node.rdma: must be one of route, any, none"},
	{"node: {taint: 'a b'}\n", ":1:16: node.taint: must be a key as labels have them"},
	{"node: {name: A}\n", ":1:14: node.name \"A\" isn't a valid name"},
	{"node: {silentSeconds: 86401}\n", ":1:23: node.silentSeconds: must be from 0 to 86400"},
	{"partitions: {heedNodes: perhaps}\n", ":1:25: partitions.heedNodes: must be "},
	{"node: {calmSeconds: 3601}\n", ":1:21: node.calmSeconds: must be from 0 to 3600"},
};

static void test_errors_in_file(void)
{
	for (size_t i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
		struct config c;
		struct err err = ERR_INIT;

		row_begin("%s", bad_files[i].text);
		if (!ok(load(bad_files[i].text, &c, &err) < 0, "refused")) {
			config_done(&c);
			continue;
		}
		is_int(err.kind, ERR_INVALID, "kind");
		has_str(err.msg, file, "names the file");
		has_str(err.msg, bad_files[i].says, "place and words");
	}
	row_end();
}

static void add_line(void *arg, const char *fault)
{
	const char *at = strstr(fault, file);

	buf_printf(arg, NULL, "%s\n", at == fault ? fault + strlen(file) : fault);
}

/* Whoever mends one needn't start again to hear of the next. */
static void test_all_errors(void)
{
	static const char text[] = "log:\n"
				   "  level: 9\n"
				   "  format: json\n"
				   "a/b~c: 1\n"
				   "healht: {listen: ''}\n"
				   "health: {lisen: ''}\n"
				   "roles: [king, proxy, queen]\n"
				   "controllers:\n"
				   "- a:0\n"
				   "- b:8090\n"
				   "- {address: c, secretName: s, tls: false}\n"
				   "- {adress: d}\n"
				   "policy:\n"
				   "  namespaces:\n"
				   "    A_b: {}\n"
				   "    c: {maxIpus: x, maxJobIpus: 3, most: 1}\n"
				   "webhook: {certFile: /c}\n";
	static const char together[] = "webhook: {certFile: /c}\nproxy: {tlsKeyFile: /k}\n"
				       "jobs: {restartBackoffMaxSeconds: 1}\n";
	static const char *const sets[] = {"log.level=many", "log.levle=1", "log.format=text"};
	char *environ_[] = {(char *)(uintptr_t)"IPUOPERATOR_LOG_LEVEL=0", NULL};
	struct config_source source = {file, sets, 3, environ_};
	struct buf all = BUF_INIT(8192);
	struct config c;
	struct err err = ERR_INIT;
	char *lines;

	write_file(text);
	ok(config_load(&source, add_line, &all, &c, &err) < 0, "refused");
	lines = buf_steal(&all, NULL);
	is_str(lines,
	       ":2:10: log.level: must be from 1 to 6\n"
	       ":4:1: a/b~c: there is no such key\n"
	       ":5:1: healht: there is no such key: did you mean health?\n"
	       ":6:10: health.lisen: there is no such key: did you mean health.listen?\n"
	       ":7:9: roles: \"king\" isn't a role, only controller, proxy, webhook and node are\n"
	       ":7:22: roles: \"queen\" isn't a role, only controller, proxy, webhook and node "
	       "are\n"
	       ":9:3: controllers: \"a:0\": port \"0\" isn't a number from 1 to 65535\n"
	       ":12:3: controllers: \"entry 4 of the list\": there is no key \"adress\"\n"
	       ":9:1: controllers: c:8090: with tls: false, the keys of Secret s would go over the "
	       "network for all to read; leave tls out\n"
	       ":15:10: policy.namespaces \"A_b\" isn't a valid name: lower-case letters, digits "
	       "and '-' are allowed, with a letter or digit at both ends\n"
	       ":16:18: maxIpus: must be from -1 to 1000000000\n"
	       ":16:42: policy.namespaces: there is no such key\n"
	       "environment: IPUOPERATOR_LOG_LEVEL: log.level: must be from 1 to 6\n"
	       "--set log.level=many: log.level: must be from 1 to 6\n"
	       "--set log.levle=1: there is no such key: did you mean log.level?\n",
	       "all that is wrong, where it stands");
	has_str(err.msg, ":2:10: log.level: must be", "the error is the first");
	free(lines);

	source = (struct config_source){file, NULL, 0, no_environ};
	write_file(together);
	ok(config_load(&source, add_line, &all, &c, NULL) < 0, "refused");
	lines = buf_steal(&all, NULL);
	is_str(lines,
	       "proxy.tlsCertFile and proxy.tlsKeyFile: give both, or neither\n"
	       "webhook.certFile and webhook.keyFile: give both, or neither; webhook.caFile only "
	       "with them\n"
	       "jobs.restartBackoffMaxSeconds: must not be below jobs.restartBackoffSeconds\n",
	       "keys that don't go together, once each is good by itself");
	free(lines);
}

static void test_other_errors(void)
{
	static const struct {
		const char *env, *set, *says;
	} rows[] = {
		{"IPUOPERATOR_LOG_LEVEL=many", NULL,
		 "environment: IPUOPERATOR_LOG_LEVEL: log.level: must be from 1 to 6"},
		{"IPUOPERATOR_LOG_LEVLE=1", NULL,
		 "environment: IPUOPERATOR_LOG_LEVLE stands for no key"},
		{NULL, "log.level=many", "--set log.level=many: log.level: must be from 1 to 6"},
		{NULL, "log.levle=1", "--set log.levle=1: there is no such key"},
		{NULL, "log.level", "--set log.level: must be KEY=VALUE"},
		{"IPUOPERATOR_NODE_ROOT=host", "roles=node", "node.root: must be an absolute path"},
		{"IPUOPERATOR_NODE_CNI_FOLDER=cni", "roles=proxy,node",
		 "node.cniFolder: must be an absolute path"},
		{NULL, "scheduler.clientNames=a", "scheduler.clientNames: are of certificates"},
		{"IPUOPERATOR_SCHEDULER_CLIENT_CA_FILE=/c", "scheduler.clientNames= ,",
		 "scheduler.clientNames: must be names with commas"},
		{NULL, "controllers=a:0", "controllers: \"a:0\": "},
		{NULL, "vipu.serverAddr=a b", "vipu.serverAddr: \"a b\": "},
		{NULL, "vipu.serverAddr=a,b", "vipu.serverAddr: must be one host name"},
		{NULL, "proxy.advertise=:8445", "proxy.advertise: must be HOST:PORT or "},
		{NULL, "proxy.advertise=10.0.0.1:0", "proxy.advertise: must be HOST:PORT or "},
		{NULL, "vipu.serverPort=0", "vipu.serverPort: must be from 1 to 65535"},
		{NULL, "webhook.certFile=/c", "webhook.certFile and webhook.keyFile: give both"},
		{NULL, "metrics.certFile=/c", "metrics.certFile and metrics.keyFile: give both"},
		{NULL, "launcher.imagePullPolicy=Sometimes",
		 "launcher.imagePullPolicy: must be one of auto, Always, IfNotPresent, Never"},
		{NULL, "metrics.secure=yes", "metrics.secure: must be true or false"},
		{NULL, "health.stuckSeconds=0", "health.stuckSeconds: must be from 1 to 86400"},
		{NULL, "webhook.caFile=/c", "webhook.caFile only with them"},
		{NULL, "jobs.restartBackoffMaxSeconds=9",
		 "jobs.restartBackoffMaxSeconds: must not be below jobs.restartBackoffSeconds"},
		{NULL, "vipu.clusterName=c", "vipu.clusterName: says something of vipu.serverAddr"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *environ_[] = {(char *)(uintptr_t)rows[i].env, NULL};
		struct config c;
		struct err err = ERR_INIT;

		row_begin("%s", rows[i].env ? rows[i].env : rows[i].set);
		write_file("");
		ok(load_from(file, &rows[i].set, rows[i].set ? 1 : 0, environ_, &c, &err) < 0,
		   "refused");
		is_int(err.kind, ERR_INVALID, "kind");
		has_str(err.msg, rows[i].says, "in words");
	}
	row_end();
}

static void test_init_mode(void)
{
	static const char image[] = "roles: [webhook]\npods: {mode: init}\n";
	static const char trust[] = "roles: [webhook]\npods: {mode: init}\nlauncher: {image: i}\n"
				    "proxy: {tlsCertFile: c, tlsKeyFile: k}\n";
	struct config c;
	struct err err = ERR_INIT;

	ok(load(image, &c, &err) < 0, "init mode needs an image");
	has_str(err.msg, "pods.mode: init needs launcher.image", "and says so");
	ok(load(trust, &c, &err) < 0, "and somebody to trust");
	has_str(err.msg, "pods.mode: init needs proxy.caFile beside proxy.tlsCertFile", "likewise");
}

static void test_no_file(void)
{
	struct config c;
	struct err err = ERR_INIT;

	ok(load_from("/nowhere/operator.yaml", NULL, 0, no_environ, &c, &err) < 0,
	   "a file that was named must be there");
	has_str(err.msg, "/nowhere/operator.yaml", "and is named");
}

/* ---- the command line ---- */

static void test_options(void)
{
	static const struct {
		const char *argv[6], *sets; /* sets: with commas between; NULL: refused */
		const char *says;
	} rows[] = {
		{{"x", "--roles", "proxy", "--set", "log.level=5"},
		 "roles=proxy,log.level=5",
		 NULL},
		{{"x", "--kubeconfig=/k", "--context=c"},
		 "kubernetes.kubeconfig=/k,kubernetes.context=c",
		 NULL},
		{{"x", "--check-config"}, "", NULL},
		{{"x", "--set"}, NULL, "--set: needs a value"},
		{{"x", "--frobnicate"}, NULL, "--frobnicate: there is no such option"},
		{{"x", "-q"}, NULL, "-q: there is no such option"},
		{{"x", "more"}, NULL, "more: not an option"},
		{{"x", "--set", "a=b", "more"}, NULL, "more: not an option"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *argv[6];
		struct options o;
		struct err err = ERR_INIT;
		char sets[256] = "";
		int argc = 0;

		row_begin("%s %s", rows[i].argv[1], rows[i].argv[2] ? rows[i].argv[2] : "");
		for (; argc < 6 && rows[i].argv[argc]; argc++)
			argv[argc] = (char *)(uintptr_t)rows[i].argv[argc];
		if (!rows[i].sets) {
			ok(options_parse(argc, argv, &o, &err) < 0, "refused");
			has_str(err.msg, rows[i].says, "in words");
			continue;
		}
		if (!ok(options_parse(argc, argv, &o, &err) == 0, "taken"))
			continue;
		for (size_t k = 0; k < o.n_sets; k++)
			snprintf(sets + strlen(sets), sizeof(sets) - strlen(sets), "%s%s",
				 k ? "," : "", o.sets[k]);
		is_str(sets, rows[i].sets, "what it sets");
		options_done(&o);
	}
	row_end();
}

/* ---- reading it again ---- */

static void test_taking_on(void)
{
	struct config running, fresh;
	struct config_changes changes;
	struct err err;

	ok(load("log: {level: 3}\nproxy: {listen: ':1'}\npolicy: {maxIpus: 4, namespaces: {a: {maxIpus: 1}}}\n"
		"controllers: a:1\n",
		&running, &err) == 0,
	   "what runs");
	ok(load("log: {level: 6}\nproxy: {listen: ':2'}\nroles: [controller]\n"
		"policy: {maxIpus: 8, maxJobIpus: 2, namespaces: {a: {maxIpus: 2}, b: {}}}\n"
		"controllers: a:1,b:2\nworker: {hostNetwork: false, dnsPolicy: Default}\n"
		"vipu: {serverAddr: c, callTimeoutSeconds: 3}\nleaderElection: {enabled: false}\n",
		&fresh, &err) == 0,
	   "what is read");
	config_take_on(&running, &fresh, &changes);
	is_str(changes.now,
	       "controllers, vipu.serverAddr, worker.hostNetwork, worker.dnsPolicy, policy.maxIpus, "
	       "policy.maxJobIpus, policy.namespaces, log.level",
	       "what counts now");
	is_str(changes.later,
	       "roles, vipu.callTimeoutSeconds, leaderElection.enabled, proxy.listen",
	       "what doesn't");
	config_done(&fresh);
	is_int(running.log_level, 6, "a number");
	is_int(running.host_network, false, "a boolean");
	is_str(running.dns_policy, "Default", "a text");
	is_int((long)running.controllers.n, 2, "the controllers");
	is_str(running.server.n ? running.server.items[0].name : "", "c:8090", "the server");
	is_int((long)running.policy.n, 2, "policies of namespaces");
	is_int((long)running.policy.fallback.max_ipus, 8, "the policy for all");
	is_int((long)running.policy.fallback.max_job_ipus, 2, "... and its other limit");
	is_str(running.proxy_listen, ":1", "a listener stays");
	is_int(running.roles, ROLE_CONTROLLER | ROLE_PROXY, "roles stay");
	is_int(running.lease_enabled, true, "the Lease stays");
	config_done(&running);
}

/* Who takes on a configuration goes by these names: none may be left out. */
static void test_all_names_fit(void)
{
	struct config_changes changes;
	size_t len = 1;

	for (size_t i = 0; i < config_n_keys; i++)
		len += strlen(config_keys[i].name) + strlen(", ");
	ok(len <= sizeof(changes.now) && len <= sizeof(changes.later),
	   "the names of all keys, %zu bytes, fit into what has changed", len);
}

int main(void)
{
	int fd = mkstemp(file);

	if (fd < 0)
		bail_out("no temporary file");
	close(fd);
	test_shipped_file();
	test_values();
	test_precedence();
	test_errors_in_file();
	test_all_errors();
	test_other_errors();
	test_init_mode();
	test_no_file();
	test_options();
	test_taking_on();
	test_all_names_fit();
	unlink(file);
	return done_testing();
}
