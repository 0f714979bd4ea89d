/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From fields of Pods back to those of the IPUJob, by Pods as the operator really builds them.
 */
#include "admission/access_path.h"
#include "core/str.h"
#include "job/launcher.h"
#include "job/pod.h"
#include "tap.h"

/* The template's env begins with what the operator replaces, has one name twice, and its volumes,
 * mounts and labels get company. */
static const char object[] =
	"{\"metadata\":{\"name\":\"j\",\"namespace\":\"ns\",\"uid\":\"u\"},\"spec\":{"
	"\"jobInstances\":1,\"ipusPerJobInstance\":\"4\",\"workersPerJobInstance\":\"2\","
	"\"modelReplicasPerWorker\":\"1\","
	"\"launcher\":{\"command\":[\"mpirun\",\"x\"],\"env\":[{\"name\":\"L\",\"value\":\"1\"}]},"
	"\"workers\":{\"template\":{"
	"\"metadata\":{\"labels\":{\"my.example/label\":\"v\"},\"annotations\":{\"a/b\":\"c\"}},"
	"\"spec\":{\"restartPolicy\":\"Always\",\"dnsPolicy\":\"Default\","
	"\"initContainers\":[{\"name\":\"prepare\",\"image\":\"i0\"}],"
	"\"tolerations\":[{\"key\":\"k\",\"operator\":\"Exists\"}],"
	"\"containers\":[{\"name\":\"main\",\"image\":\"i\",\"command\":[\"w\"],"
	"\"args\":[\"one\",\"two\"],"
	"\"ports\":[{\"containerPort\":80},{\"containerPort\":81,\"hostPort\":82}],"
	"\"resources\":{\"limits\":{\"cpu\":\"1\",\"example.com/dev\":\"1\"}},"
	"\"securityContext\":{\"capabilities\":{\"add\":[\"CHOWN\",\"IPC_LOCK\"]}},"
	"\"env\":[{\"name\":\"IPUOF_VIPU_API_HOST\",\"value\":\"mine\"},"
	"{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"1\"},"
	"{\"name\":\"A\",\"value\":\"2\"}],"
	"\"volumeMounts\":[{\"name\":\"data\",\"mountPath\":\"/a\"},"
	"{\"name\":\"data\",\"mountPath\":\"/b\"}]},"
	"{\"name\":\"side\",\"image\":\"i2\"}],"
	"\"volumes\":[{\"name\":\"data\",\"hostPath\":{\"path\":\"/d\"}},"
	"{\"name\":\"ipu-launcher\",\"emptyDir\":{}}]}}}}}";

#define T  "spec.workers.template."
#define TC T "spec.containers[0]."

/* path: with %NAME, the place of the element that is called so, since operators' variables may come
 * and go. */
struct row {
	bool launcher;
	const char *path, *want; /* want NULL: the operator's */
};

/* clang-format off */
static const struct row rows[] = {
	{false, "metadata.labels", T "metadata.labels"},
	{false, "metadata.labels[my.example/label]", T "metadata.labels[my.example/label]"},
	{false, "metadata.labels[graphcore.ai/job]", NULL},
	{false, "metadata.annotations[a/b]", T "metadata.annotations[a/b]"},
	{false, "metadata.name", NULL},
	{false, "metadata.ownerReferences[0].uid", NULL},
	{false, "spec", T "spec"},
	{false, "spec.containers[0].image", TC "image"},
	{false, "spec.containers[1].image", T "spec.containers[1].image"},
	{false, "spec.containers[1].imagePullPolicy", T "spec.containers[1].imagePullPolicy"},
	{false, "spec.containers[0].ports[1].hostPort", TC "ports[1].hostPort"},
	{false, "spec.containers[0].resources.limits[cpu]", TC "resources.limits[cpu]"},
	{false, "spec.containers[0].resources.requests[memory]", TC "resources.requests[memory]"},
	{false, "spec.containers[0].securityContext.capabilities.add[1]", TC "securityContext.capabilities.add[1]"},
	{false, "spec.containers[0].securityContext.privileged", NULL},
	{false, "spec.containers[0].securityContext.runAsNonRoot", TC "securityContext.runAsNonRoot"},
	{false, "spec.containers[1].securityContext.runAsNonRoot", T "spec.containers[1].securityContext.runAsNonRoot"},
	{false, "spec.containers[0].env[%A].name", TC "env[1].name"},
	{false, "spec.containers[0].env[%+A].name", TC "env[3].name"},
	{false, "spec.containers[0].env[%B].valueFrom", TC "env[2].valueFrom"},
	{false, "spec.containers[0].env[%IPUOF_VIPU_API_HOST].value", NULL},
	{false, "spec.containers[0].env[%IPUOF_VIPU_API_PORT].value", NULL},
	{false, "spec.containers[0].env[999].value", NULL},
	{false, "spec.containers[0].volumeMounts[1].mountPath", TC "volumeMounts[1].mountPath"},
	{false, "spec.containers[0].volumeMounts[2].mountPath", NULL},
	{false, "spec.containers[0].command", NULL},
	{false, "spec.containers[0].command[0]", NULL},
	{false, "spec.containers[0].args[1]", NULL},
	{false, "spec.initContainers[0].image", NULL},
	{false, "spec.initContainers[1].image", T "spec.initContainers[0].image"},
	{false, "spec.volumes[0].hostPath.path", T "spec.volumes[0].hostPath.path"},
	{false, "spec.volumes[1].name", T "spec.volumes[1].name"},
	{false, "spec.volumes[2].name", NULL},
	{false, "spec.tolerations[0].effect", T "spec.tolerations[0].effect"},
	{false, "spec.hostNetwork", NULL},
	{false, "spec.hostIPC", T "spec.hostIPC"},
	{false, "spec.restartPolicy", NULL},
	{false, "spec.nodeSelector", NULL},
	{false, "", "spec.workers.template"},
	{false, "spec.containers[", T "spec.containers[]"},
	{true, "spec.containers[0].image", TC "image"},
	{true, "spec.containers[0].command", "spec.launcher.command"},
	{true, "spec.containers[0].command[1]", "spec.launcher.command[1]"},
	{true, "spec.containers[0].env[%L].name", "spec.launcher.env[0].name"},
	{true, "spec.containers[0].env[%B].name", TC "env[2].name"},
	{true, "spec.containers[0].resources.limits[cpu]", TC "resources.limits[cpu]"},
	{true, "spec.initContainers[0].image", NULL},
	{true, "spec.initContainers[1].image", NULL},
	{true, "spec.serviceAccountName", NULL},
	{true, "spec.volumes[0].hostPath.path", T "spec.volumes[0].hostPath.path"},
};
/* clang-format on */

static const struct job_ipus ipus = {
	.partition_id = "p", .host = "h", .port = 1, .label_key = "k", .label_value = "v"};
static const struct job_pod_settings settings = {
	.host_network = true, .privileged = true, .launcher_image = "l", .worker_wait_s = 1};

static void build(struct jmut_doc *doc, const struct json *obj, bool launcher)
{
	struct err err = ERR_INIT;
	struct job *job;
	const struct json *spec = json_get(obj, "spec");

	if (job_decode(obj, &job, &err) < 0 ||
	    (launcher ? job_launcher_build(doc, job, spec, 0, &ipus, &settings, &err)
		      : job_pod_build(doc, job, spec, 0, 0, &ipus, &settings, &err)) < 0)
		bail_out(err.msg);
	job_free(job);
}

/* Puts the index of a variable in the place of %NAME (the first of the name) or %+NAME (the last).
 */
static char *resolve(const struct json *pod, const char *path)
{
	const char *from = strchr(path, '%'), *end;
	struct json_iter it = json_iter(
		json_get(json_item(json_at(pod, "spec", "containers", NULL), 0), "env"));
	size_t found = 1000;
	bool last;

	if (!from)
		return xstrdup(path);
	last = from[1] == '+';
	end = strchr(from, ']');
	while (json_next(&it)) {
		const char *name = from + 1 + last;

		if (str_eq(json_str(json_get(it.value, "name")),
			   (struct str){name, (size_t)(end - name)}) &&
		    (last || found == 1000))
			found = it.index;
	}
	ok(found < 1000, "the Pod has %s", path);
	return xasprintf("%.*s%zu%s", (int)(from - path), path, found, end);
}

/* Paths are an API server's words: whatever they are, the walk ends, and a path that it finds
 * begins with a field of the IPUJob. */
static void test_nonsense(const struct json *pod, const struct json *spec)
{
	static const char *const parts[] = {"spec",
					    "metadata",
					    "containers",
					    "[0]",
					    "[1]",
					    "[",
					    "]",
					    ".",
					    "..",
					    "env",
					    "volumeMounts",
					    "[-1]",
					    "[99999999999999999999]",
					    "command",
					    "labels",
					    "[my.example/label]",
					    "x",
					    "securityContext"};
	unsigned bad = 0;
	uint64_t seed = 88172645463325252u;

	for (int i = 0; i < 50000; i++) {
		char path[256] = "";

		for (int k = 0; k < 8; k++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s%s",
				 seed & 64 ? "." : "",
				 parts[seed % (sizeof(parts) / sizeof(parts[0]))]);
		}
		CLEANUP_FREE char *got = access_path_map(pod, spec, seed & 1, path);

		if (got && strncmp(got, "spec.workers.template", 21) != 0 &&
		    strncmp(got, "spec.launcher.", 14) != 0 && bad++ < 5)
			diag("%s: %s", path, got);
	}
	is_uint(bad, 0, "nonsense leads nowhere else");
}

int main(void)
{
	CLEANUP_JSON struct json_doc *in = NULL;
	struct jmut_doc *docs[2] = {jmut_doc_new(), jmut_doc_new()};
	struct err err = ERR_INIT;

	if (json_parse(str_of(object), &in, &err) < 0)
		bail_out(err.msg);
	build(docs[0], json_root(in), false);
	build(docs[1], json_root(in), true);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct json *pod = jmut_view(jmut_root(docs[rows[i].launcher]));
		CLEANUP_FREE char *path = resolve(pod, rows[i].path);
		CLEANUP_FREE char *got = access_path_map(pod, json_get(json_root(in), "spec"),
							 rows[i].launcher, path);

		row_begin("%s %s", rows[i].launcher ? "launcher" : "worker", rows[i].path);
		is_str(got, rows[i].want, "the field");
	}
	row_end();
	for (int i = 0; i < 2; i++)
		test_nonsense(jmut_view(jmut_root(docs[i])), json_get(json_root(in), "spec"));
	jmut_doc_free(docs[0]);
	jmut_doc_free(docs[1]);
	return done_testing();
}
