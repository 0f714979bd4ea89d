/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA without the host's network in annotated Pods: the network for the whole Pod, devices and the
 * capability for the containers that use IPUs, and what of its author's stays.
 */
#include "core/yaml.h"
#include "pod/inject.h"
#include "tap.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static const struct pod_inject_settings rdma = {.mode = POD_MODE_GATE,
						.worker = {.rdma = {.network = "rdma-net",
								    .resource = "rdma/a",
								    .amount = 1,
								    .ipc_lock = true}},
						.ns = "team"};

static struct yaml *parse(const char *text)
{
	struct yaml *y = NULL;
	struct err err = ERR_INIT;

	if (yaml_parse("a row", str_of(text), &y, &err) < 0)
		bail_out(err.msg);
	return y;
}

/* want NULL: nothing is there. */
static void is_yaml(const struct json *got, const char *want, const char *what)
{
	CLEANUP_YAML struct yaml *y = parse(want ? want : "null");
	struct buf out = BUF_INIT(1 << 20);

	if (!want) {
		ok(!got, "%s", what);
		return;
	}
	if (ok(json_equal(got, yaml_doc(y, 0)), "%s", what))
		return;
	if (got && yaml_write(got, &out, NULL) == 0)
		diag("got:\n%.*s", (int)out.len, out.p);
	buf_done(&out);
}

static void collect(void *arg, const char *warning)
{
	buf_printf(arg, NULL, "%s\n", warning);
}

#define NETWORKS   "k8s.v1.cni.cncf.io/networks"
#define META(more) "metadata: {annotations: {graphcore.ai/ipus: '2'" more "}}\n"
#define LOCK       "{capabilities: {add: [IPC_LOCK]}}"
#define ASKS       "{limits: {rdma/a: 1}, requests: {rdma/a: 1}}"

struct row {
	const char *name, *pod;
	const char *network; /* the annotation; NULL: there is none */
	/* Of the first init container, the first and the second container: their context and
	 * resources as YAML; NULL: none. */
	const char *security[3], *resources[3];
	const char *warnings, *error;
};

static const struct row rows[] = {
	{.name = "all ordinary containers",
	 .pod = META("") "spec: {initContainers: [{name: i}], containers: [{name: a}, {name: b}]}",
	 .network = "default/rdma-net",
	 .security = {NULL, LOCK, LOCK},
	 .resources = {NULL, ASKS, ASKS}},
	{.name = "those that are named",
	 .pod = META(", graphcore.ai/containers: 'i,b'") "spec: {initContainers: [{name: i}], "
							 "containers: [{name: a}, {name: b}]}",
	 .network = "default/rdma-net",
	 .security = {LOCK, NULL, LOCK},
	 .resources = {ASKS, NULL, ASKS}},
	{.name = "its author's network and amount",
	 .pod = META(", " NETWORKS ": a@x") "spec: {containers: [{name: a, resources: {limits: "
					    "{cpu: 2, rdma/a: 3}}}]}",
	 .network = "a@x,default/rdma-net",
	 .security = {NULL, LOCK},
	 .resources = {NULL, "{limits: {cpu: 2, rdma/a: 3}}"}},
	{.name = "the same network",
	 .pod = META(", " NETWORKS ": default/rdma-net@x") "spec: {containers: [{name: a}]}",
	 .network = "default/rdma-net@x",
	 .security = {NULL, LOCK},
	 .resources = {NULL, ASKS}},
	{.name = "its author's host network",
	 .pod = META("") "spec: {hostNetwork: true, containers: [{name: a}]}",
	 .security = {NULL, LOCK},
	 .resources = {NULL, ASKS}},
	{.name = "no list of networks",
	 .pod = META(", " NETWORKS ": '[x'") "spec: {containers: [{name: a}]}",
	 .network = "[x",
	 .security = {NULL, LOCK},
	 .resources = {NULL, ASKS},
	 .warnings = "metadata.annotations[" NETWORKS "]: is kept as it is: it's no list of "
		     "networks, and the RDMA network rdma-net can't be added\n"},
	{.name = "no resources",
	 .pod = META("") "spec: {containers: [{name: a, resources: {limits: 1}}]}",
	 .error = "spec.containers[0].resources.limits: must be an object"},
	{.name = "no capabilities",
	 .pod = META(
		 "") "spec: {containers: [{name: a, securityContext: {capabilities: {add: 1}}}]}",
	 .error = "spec.containers[0].securityContext.capabilities.add: must be a list"},
};

static void check_container(const struct json *container, const struct row *row, size_t i)
{
	CLEANUP_FREE char *what = xasprintf("container %zu", i);

	is_yaml(json_get(container, "securityContext"), row->security[i], what);
	is_yaml(json_get(container, "resources"), row->resources[i], what);
}

static void check(const struct row *row, const struct json *pod)
{
	const struct json *spec = json_get(pod, "spec");

	is_str(json_cstr(json_at(pod, "metadata", "annotations", NETWORKS, NULL)), row->network,
	       "its networks");
	for (size_t i = 0; i < 3; i++) {
		const struct json *container = json_item(
			json_get(spec, i ? "containers" : "initContainers"), i ? i - 1 : 0);

		if (container)
			check_container(container, row, i);
	}
}

static void test_rows(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *again = jmut_doc_new();
		CLEANUP_YAML struct yaml *y = parse(rows[i].pod);
		CLEANUP_FREE char *told = NULL;
		struct buf warnings = BUF_INIT(1 << 16);
		struct err err = ERR_INIT;
		int rc = pod_inject(doc, yaml_doc(y, 0), TOKEN, &rdma, collect, &warnings, &err);

		row_begin("%s", rows[i].name);
		is_str(rc < 0 ? err.msg : NULL, rows[i].error, "refused");
		told = str_dup(buf_str(&warnings));
		is_str(told, rows[i].warnings ? rows[i].warnings : "", "its warnings");
		buf_done(&warnings);
		if (rc < 0)
			continue;
		check(&rows[i], jmut_view(jmut_root(doc)));
		ok(pod_inject(again, jmut_view(jmut_root(doc)), TOKEN, &rdma, NULL, NULL, &err) ==
				   1 &&
			   json_equal(jmut_view(jmut_root(again)), jmut_view(jmut_root(doc))),
		   "a copy of it gets nothing twice");
	}
	row_end();
}

/* Where the webhook can't say which it is, the Pod does. */
static void test_namespace(void)
{
	static const struct {
		const char *ns, *meta, *want;
	} cases[] = {{"default", "", "rdma-net"},
		     {NULL, ", namespace: default", "rdma-net"},
		     {NULL, ", namespace: team", "default/rdma-net"},
		     {NULL, "", "default/rdma-net"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_FREE char *text = xasprintf(
			"{metadata: {annotations: {graphcore.ai/ipus: '2'}%s}, "
			"spec: {containers: [{name: a}]}}",
			cases[i].meta);
		CLEANUP_YAML struct yaml *y = parse(text);
		struct pod_inject_settings settings = rdma;
		struct err err = ERR_INIT;

		row_begin("namespace %zu", i);
		settings.ns = cases[i].ns;
		is_int(pod_inject(doc, yaml_doc(y, 0), TOKEN, &settings, NULL, NULL, &err), 1,
		       "injected");
		is_str(json_cstr(json_at(jmut_view(jmut_root(doc)), "metadata", "annotations",
					 NETWORKS, NULL)),
		       cases[i].want, "its networks");
	}
	row_end();
}

int main(void)
{
	test_rows();
	test_namespace();
	return done_testing();
}
