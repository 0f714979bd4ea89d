/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields that no Pod has: where they are told, with which words, and that those of today are none.
 */
#include "core/yaml.h"
#include "pod/fields.h"
#include "tap.h"

#define POD   "PodTemplateSpec"
#define MEANT "a Pod of Kubernetes 1.36 has no such field: did you mean "
#define NO_SUCH                                                                                    \
	"a Pod of Kubernetes 1.36 has no such field: an API server that doesn't know it drops it"

static const struct {
	const char *name, *type, *path, *yaml, *want;
} cases[] = {
	{"nothing", POD, "t", "{}", ""},
	{"no object", POD, "t", "[]", ""},
	{"no object in it", POD, "t", "spec: {containers: 3, volumes: [x, [y: z]]}", ""},
	{"a right one", POD, "t",
	 "metadata: {labels: {anything: x}, annotations: {a: b}}\n"
	 "spec: {nodeSelector: {any: x}, tolerations: [{key: a, operator: Exists}], "
	 "securityContext: {runAsUser: 1, fsGroup: 2}, overhead: {cpu: 1}, containers: [{name: c, "
	 "resources: {limits: {any: 1}, requests: {cpu: 1}, claims: [{name: x}]}, env: [{name: a, "
	 "valueFrom: {secretKeyRef: {name: s, key: k}}}], livenessProbe: {exec: {command: [a]}}}], "
	 "volumes: [{name: v, csi: {driver: d, volumeAttributes: {any: x}}}], "
	 "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
	 "[{topologyKey: a, labelSelector: {matchLabels: {any: x}}}]}}}",
	 ""},
	{"at the top", POD, "t", "spce: {}", "t.spce: Unknown: " MEANT "spec?\n"},
	{"in the spec", POD, "t", "spec: {contianers: []}",
	 "t.spec.contianers: Unknown: " MEANT "containers?\n"},
	{"in a list", POD, "t", "spec: {containers: [{name: a}, {imagePullPolciy: x}]}",
	 "t.spec.containers[1].imagePullPolciy: Unknown: " MEANT "imagePullPolicy?\n"},
	{"in an object of it", POD, "t", "spec: {initContainers: [{resources: {limit: {cpu: 1}}}]}",
	 "t.spec.initContainers[0].resources.limit: Unknown: " MEANT "limits?\n"},
	{"by its case", POD, "t", "spec: {hostnetwork: true}",
	 "t.spec.hostnetwork: Unknown: " MEANT "hostNetwork?\n"},
	{"that is like none", POD, "t", "spec: {parallelism: 2}",
	 "t.spec.parallelism: Unknown: " NO_SUCH "\n"},
	{"of another place", POD, "t", "spec: {image: x}", "t.spec.image: Unknown: " NO_SUCH "\n"},
	{"in what is unknown nothing is", POD, "t", "spec: {newThing: {a: {b: c}}}",
	 "t.spec.newThing: Unknown: " NO_SUCH "\n"},
	{"two", POD, "", "{a: 1, metadata: {label: {}}}",
	 "a: Unknown: " NO_SUCH "\nmetadata.label: Unknown: " MEANT "labels?\n"},
	{"a whole Pod", "Pod", "", "{kind: Pod, apiVersion: v1, status: {any: x}, specs: {}}",
	 "specs: Unknown: " MEANT "spec?\n"},
	{"variables", "EnvVar", "e", "[{name: a, vaule: b}]",
	 "e[0].vaule: Unknown: " MEANT "value?\n"},
	{"a type that there isn't", "Pods", "e", "{a: b}", ""},
};

static void collect(void *arg, const char *path, const char *kind, const char *message)
{
	buf_printf(arg, NULL, "%s: %s: %s\n", path, kind, message);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_YAML struct yaml *y = NULL;
		struct buf said = BUF_INIT(1 << 16);
		struct err err = ERR_INIT;
		size_t n, lines = 0;

		row_begin("%s", cases[i].name);
		if (yaml_parse("a row", str_of(cases[i].yaml), &y, &err) < 0)
			bail_out(err.msg);
		n = pod_unknown_fields(yaml_doc(y, 0), cases[i].type, cases[i].path, collect,
				       &said);
		for (size_t k = 0; k < said.len; k++)
			lines += said.p[k] == '\n';
		is_int(n, lines, "their number");
		(void)buf_append(&said, "", 1, NULL);
		is_str(said.p, cases[i].want, "what is told");
		buf_done(&said);
	}
	row_end();
	return done_testing();
}
