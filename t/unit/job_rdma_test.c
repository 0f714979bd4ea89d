/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Pods get without the host's network: the annotation in both of its forms, what containers
 * ask for, and which values of the configuration can be meant.
 */
#include "core/yaml.h"
#include "job/rdma.h"
#include "tap.h"

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

/* ---- the annotation ---- */

#define ADDED  JOB_NETWORK_ADDED
#define THERE  JOB_NETWORK_THERE
#define BROKEN JOB_NETWORK_BROKEN

static const struct {
	const char *name, *network, *ns, *before; /* before: NULL, no annotation */
	enum job_network result;
	const char *after; /* NULL: as before */
} networks[] = {
	{"the first", "default/rdma-net", "team", NULL, ADDED, "default/rdma-net"},
	{"of its own namespace", "team/rdma-net", "team", NULL, ADDED, "rdma-net"},
	{"a bare name is of default", "rdma-net", "team", NULL, ADDED, "default/rdma-net"},
	{"... which may be the Pod's", "rdma-net", "default", NULL, ADDED, "rdma-net"},
	{"a Pod without a namespace", "rdma-net", NULL, NULL, ADDED, "default/rdma-net"},
	{"an interface", "rdma-net@rdma0", "team", NULL, ADDED, "default/rdma-net@rdma0"},
	{"nothing in it", "rdma-net", "team", " \t", ADDED, "default/rdma-net"},
	{"a comma at its end", "rdma-net", "team", "a , ", ADDED, "a,default/rdma-net"},
	{"behind the others", "rdma-net", "team", " b,other/c@x1", ADDED,
	 "b,other/c@x1,default/rdma-net"},
	{"there", "rdma-net", "team", "a, default/rdma-net", THERE, NULL},
	{"there, by a bare name", "rdma-net", "default", "rdma-net", THERE, NULL},
	{"there, by an interface", "rdma-net", "team", "default/rdma-net@net7", THERE, NULL},
	{"there, by another interface", "rdma-net@rdma0", "team", "default/rdma-net@x", THERE,
	 NULL},
	{"its name in another namespace", "rdma-net", "team", "rdma-net", ADDED,
	 "rdma-net,default/rdma-net"},
	{"no names", "rdma-net", "team", "what is this", BROKEN, NULL},
	{"several slashes", "rdma-net", "team", "a/b/c", BROKEN, NULL},
	{"a list", "rdma-net", "team", "[ {\"name\": \"a\", \"ips\": [\"10.0.0.2\"]} ]", ADDED,
	 "[{\"name\":\"a\",\"ips\":[\"10.0.0.2\"]},{\"name\":\"rdma-net\",\"namespace\":\"default\"}]"},
	{"a list of none", "team/n@i0", "team", "[]", ADDED,
	 "[{\"name\":\"n\",\"namespace\":\"team\",\"interface\":\"i0\"}]"},
	{"there in a list", "rdma-net", "default", "[{\"name\":\"rdma-net\"}]", THERE, NULL},
	{"there in a list, by its namespace", "rdma-net", "team",
	 "[{\"name\":\"a\"},{\"name\":\"rdma-net\",\"namespace\":\"default\"}]", THERE, NULL},
	{"in a list of another namespace", "rdma-net", "team", "[{\"name\":\"rdma-net\"}]", ADDED,
	 "[{\"name\":\"rdma-net\"},{\"name\":\"rdma-net\",\"namespace\":\"default\"}]"},
	{"a list of names", "rdma-net", "team", "[\"rdma-net\"]", BROKEN, NULL},
	{"an object", "rdma-net", "team", "{\"name\":\"rdma-net\"}", BROKEN, NULL},
	{"half a list", "rdma-net", "team", "[{\"name\":\"rdma-net\"}", BROKEN, NULL},
	{"quotes", "rdma-net", "team", "\"rdma-net\"", BROKEN, NULL},
};

static void check_network(size_t row, const struct json *before)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct job_rdma rdma = {.network = networks[row].network};
	const char *want = networks[row].after ? networks[row].after : networks[row].before;
	struct jmut *pod = jmut_copy(doc, before);

	is_int(job_network_look(before, networks[row].ns, &rdma), networks[row].result,
	       "looked at");
	is_int(job_network_add(doc, pod, networks[row].ns, &rdma), networks[row].result, "added");
	is_str(json_cstr(json_at(jmut_view(pod), "metadata", "annotations", JOB_ANNOTATION_NETWORKS,
				 NULL)),
	       want, "the annotation");
	if (networks[row].result == ADDED)
		is_int(job_network_add(doc, pod, networks[row].ns, &rdma), THERE,
		       "and never twice");
}

static void test_networks(void)
{
	for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *pod = jmut_object(doc), *meta = jmut_object(doc);

		row_begin("%s", networks[i].name);
		jmut_set(doc, pod, "metadata", meta);
		if (networks[i].before)
			jmut_set_str(doc, jmut_need_object(doc, meta, "annotations"),
				     JOB_ANNOTATION_NETWORKS, networks[i].before);
		check_network(i, jmut_view(pod));
	}
	row_end();
}

static void test_no_network(void)
{
	static const struct {
		const char *name, *network, *pod;
		enum job_network result;
	} rows[] = {
		{"none is configured", NULL, "{metadata: {}}", JOB_NETWORK_NONE},
		{"a Pod on its host's network", "n", "{metadata: {}, spec: {hostNetwork: true}}",
		 JOB_NETWORK_NONE},
		{"no text", "n", "{metadata: {annotations: {" JOB_ANNOTATION_NETWORKS ": [n]}}}",
		 JOB_NETWORK_BROKEN},
		{"annotations that are none", "n", "{metadata: {annotations: 7}}",
		 JOB_NETWORK_BROKEN},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_YAML struct yaml *y = parse(rows[i].pod);
		struct jmut *pod = jmut_copy(doc, yaml_doc(y, 0));
		const struct job_rdma rdma = {.network = rows[i].network};

		row_begin("%s", rows[i].name);
		is_int(job_network_add(doc, pod, "default", &rdma), rows[i].result, "nothing");
		is_yaml(jmut_view(pod), rows[i].pod, "the Pod is what it was");
	}
	row_end();
}

/* ---- a container ---- */

#define ASKS "resources: {limits: {rdma/a: 2}, requests: {rdma/a: 2}}"
#define LOCK "securityContext: {capabilities: {add: [IPC_LOCK]}}"

static void test_containers(void)
{
	static const struct job_rdma all = {.resource = "rdma/a", .amount = 2, .ipc_lock = true};
	static const struct job_rdma lock = {.ipc_lock = true};
	static const struct job_rdma device = {.resource = "rdma/a", .amount = 2};
	static const struct job_rdma none = {.network = "n"};
	static const struct {
		const char *name, *before;
		const struct job_rdma *rdma;
		const char *after, *wrong;
	} rows[] = {
		{"nothing", "{name: c}", &none, "{name: c}", NULL},
		{"both", "{name: c}", &all, "{name: c, " ASKS ", " LOCK "}", NULL},
		{"the device alone", "{}", &device, "{" ASKS "}", NULL},
		{"the capability alone", "{}", &lock, "{" LOCK "}", NULL},
		{"nulls", "{resources: null, securityContext: {capabilities: null}}", &all,
		 "{" ASKS ", " LOCK "}", NULL},
		{"beside others",
		 "{resources: {limits: {cpu: 2}, claims: [{name: x}]}, securityContext: {runAsUser: 7, "
		 "capabilities: {add: [SYS_NICE], drop: [ALL]}}}",
		 &all,
		 "{resources: {limits: {cpu: 2, rdma/a: 2}, requests: {rdma/a: 2}, claims: [{name: "
		 "x}]}, securityContext: {runAsUser: 7, capabilities: {add: [SYS_NICE, IPC_LOCK], drop: "
		 "[ALL]}}}",
		 NULL},
		{"its own amount", "{resources: {limits: {rdma/a: 5}}}", &device,
		 "{resources: {limits: {rdma/a: 5}}}", NULL},
		{"its own amount, none", "{resources: {requests: {rdma/a: '0'}}}", &device,
		 "{resources: {requests: {rdma/a: '0'}}}", NULL},
		{"another device", "{resources: {limits: {rdma/b: 1}}}", &device,
		 "{resources: {limits: {rdma/b: 1, rdma/a: 2}, requests: {rdma/a: 2}}}", NULL},
		{"its own capability", "{" LOCK "}", &lock, "{" LOCK "}", NULL},
		{"all capabilities", "{securityContext: {capabilities: {add: [all]}}}", &lock,
		 "{securityContext: {capabilities: {add: [all]}}}", NULL},
		{"one that it drops", "{securityContext: {capabilities: {drop: [IPC_LOCK]}}}",
		 &lock, "{securityContext: {capabilities: {drop: [IPC_LOCK]}}}", NULL},
		{"no resources", "{resources: 1}", &all, NULL, "resources"},
		{"no limits", "{resources: {limits: []}}", &all, NULL, "resources.limits"},
		{"no requests", "{resources: {requests: x}}", &all, NULL, "resources.requests"},
		{"no context", "{securityContext: []}", &all, NULL, "securityContext"},
		{"no capabilities", "{securityContext: {capabilities: x}}", &all, NULL,
		 "securityContext.capabilities"},
		{"no list of them", "{securityContext: {capabilities: {add: {}}}}", &all, NULL,
		 "securityContext.capabilities.add"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_YAML struct yaml *y = parse(rows[i].before);
		struct jmut *container = jmut_copy(doc, yaml_doc(y, 0));

		row_begin("%s", rows[i].name);
		is_str(job_rdma_apply(doc, container, rows[i].rdma), rows[i].wrong,
		       "what is wrong");
		if (rows[i].after)
			is_yaml(jmut_view(container), rows[i].after, "the container");
		if (rows[i].after && !job_rdma_apply(doc, container, rows[i].rdma))
			is_yaml(jmut_view(container), rows[i].after, "and once more");
	}
	row_end();
}

/* ---- the configuration ---- */

static void test_values(void)
{
	static const struct {
		bool host;
		const char *network, *resource, *lock;
		bool want_network, want_resource, want_lock;
	} rows[] = {
		{false, "", "", "auto", false, false, false},
		{false, "n", "", "auto", true, false, true},
		{false, "", "rdma/a", "auto", false, true, true},
		{false, "n", "rdma/a", "false", true, true, false},
		{false, "", "", "true", false, false, true},
		{true, "n", "rdma/a", "true", false, false, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job_rdma rdma = job_rdma_of(rows[i].host, rows[i].network, rows[i].resource,
						   3, rows[i].lock);

		row_begin("values %zu", i);
		is_str(rdma.network, rows[i].want_network ? rows[i].network : NULL, "network");
		is_str(rdma.resource, rows[i].want_resource ? rows[i].resource : NULL, "resource");
		is_int(rdma.ipc_lock, rows[i].want_lock, "IPC_LOCK");
	}
	row_end();
}

static void test_names(void)
{
	static const char *const networks_[] = {"rdma-net", "default/rdma-net", "a/b@rdma0", "n@x",
						"0/1"};
	static const char *const no_networks[] = {
		"",    "a/b/c", "a/",  "/b",   "a.b",  "A",   "a,b",
		"a b", " a",    "a@",  "a@@b", "a@b@", "a@B", "a@an-interface-too-long",
		"a\n", "[]",    "a/@x"};
	static const char *const resources[] = {"rdma/rdma_shared_device_a", "nvidia.com/a.b-c_D9",
						"a/b", "my-kubernetes.io/x"};
	static const char *const no_resources[] = {
		"",
		"rdma",
		"rdma/",
		"/a",
		"rdma/-a",
		"rdma/a_",
		"rdma/a/b",
		"Rdma/a",
		"cpu ",
		"rdma/a ",
		"kubernetes.io/a",
		"x.kubernetes.io/a",
		"requests.rdma/a",
		"rdma/a1234567890123456789012345678901234567890123456789012345678901234"};

	row_begin("networks");
	for (size_t i = 0; i < sizeof(networks_) / sizeof(networks_[0]); i++)
		ok(job_rdma_is_network(str_of(networks_[i])), "%s", networks_[i]);
	for (size_t i = 0; i < sizeof(no_networks) / sizeof(no_networks[0]); i++)
		ok(!job_rdma_is_network(str_of(no_networks[i])), "not \"%s\"", no_networks[i]);
	row_begin("resources");
	for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
		ok(job_rdma_is_resource(str_of(resources[i])), "%s", resources[i]);
	for (size_t i = 0; i < sizeof(no_resources) / sizeof(no_resources[0]); i++)
		ok(!job_rdma_is_resource(str_of(no_resources[i])), "not \"%s\"", no_resources[i]);
	ok(!job_rdma_is_resource((struct str){"rdma/a\0b", 8}), "nor one with a NUL");
	row_end();
}

int main(void)
{
	test_networks();
	test_no_network();
	test_containers();
	test_values();
	test_names();
	return done_testing();
}
