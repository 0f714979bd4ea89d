/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_job_check by the tables of doc/reference/validation.md: each row of its "Rules of the
 * webhook" and "Warnings" is broken or provoked here, and kinds and words are read from there, so
 * that the two can't drift apart. Manifests are written with ' for ".
 */
#include <ctype.h>

#include "admission/job.h"
#include "core/str.h"
#include "tap.h"

/* ---- the reference ---- */

struct rule {
	char id[64], kind[32], message[320];
	bool warning, tested;
};

static struct rule rules[128];
static size_t n_rules;

static void take_cell(char *to, size_t size, const char *from, size_t len)
{
	struct str s = str_trim((struct str){from, len});

	snprintf(to, size, "%.*s", STR_ARG(s));
}

/* "| id | path | kind | rule | message |", and of warnings "| id | where | when | warning |". */
static void take_line(const char *line, bool warning)
{
	const char *cells[6];
	size_t n = 0, want = warning ? 5 : 6;
	struct rule *r = &rules[n_rules];

	for (const char *p = line; *p && n < 6; p++) {
		if (*p == '|')
			cells[n++] = p + 1;
	}
	if (n != want || line[1] == '-' || strncmp(line, "| id |", 6) == 0)
		return;
	take_cell(r->id, sizeof(r->id), cells[0], (size_t)(cells[1] - cells[0]) - 1);
	if (!warning)
		take_cell(r->kind, sizeof(r->kind), cells[2], (size_t)(cells[3] - cells[2]) - 1);
	take_cell(r->message, sizeof(r->message), cells[want - 2],
		  (size_t)(cells[want - 1] - cells[want - 2]) - 1);
	r->warning = warning;
	n_rules++;
}

static void read_reference(void)
{
	CLEANUP_FREE char *path = xasprintf("%s/doc/reference/validation.md",
					    getenv("TOP_SRCDIR") ? getenv("TOP_SRCDIR") : ".");
	FILE *f = fopen(path, "re");
	char line[2048];
	enum { OTHER, RULES, WARNINGS } part = OTHER;

	if (!f)
		bail_out(path);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "## ", 3) == 0)
			part = strncmp(line, "## Rules of the webhook", 23) == 0 ? RULES
			       : strncmp(line, "## Warnings", 11) == 0           ? WARNINGS
										 : OTHER;
		if (line[0] == '|' && part != OTHER)
			take_line(line, part == WARNINGS);
	}
	fclose(f);
	ok(n_rules > 60, "%zu rules and warnings in the reference", n_rules);
}

static struct rule *find_rule(const char *id)
{
	for (size_t i = 0; i < n_rules; i++) {
		if (strcmp(rules[i].id, id) == 0)
			return &rules[i];
	}
	return NULL;
}

/* N stands for a number, NAME for anything without blanks. */
static bool is_like(const char *text, const char *pattern)
{
	for (; *pattern; pattern++) {
		bool word = !isalnum((unsigned char)pattern[1]);

		if (pattern[0] == 'N' && word && isdigit((unsigned char)*text)) {
			while (isdigit((unsigned char)*text))
				text++;
		} else if (strncmp(pattern, "NAME", 4) == 0 &&
			   !isalnum((unsigned char)pattern[4])) {
			while (*text && *text != ' ' && *text != ';' && *text != ',')
				text++;
			pattern += 3;
		} else if (*text++ != *pattern) {
			return false;
		}
	}
	return !*text;
}

/* ---- manifests ---- */

/* With ' for ". The caller frees. */
static char *quoted(const char *text)
{
	char *z = xstrdup(text);

	for (char *p = z; *p; p++) {
		if (*p == '\'')
			*p = '"';
	}
	return z;
}

/* A job with nothing wrong, and a merge patch over it. The root of doc is the result. */
static const struct json *make_job(struct jmut_doc *doc, const char *patch)
{
	CLEANUP_FREE char *base = quoted(
		"{'metadata':{'name':'j'},'spec':{'jobInstances':1,'ipusPerJobInstance':'4',"
		"'workers':{'template':{'spec':{'containers':[{'name':'c','image':'i'}]}}}}}");
	CLEANUP_FREE char *change = quoted(patch);
	CLEANUP_JSON struct json_doc *first = NULL, *second = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(base), &first, &err) < 0 ||
	    json_parse(str_of(change), &second, &err) < 0)
		bail_out(err.msg);
	jmut_set_root(doc,
		      jmut_merge_patch(doc, jmut_copy(doc, json_root(first)), json_root(second)));
	return jmut_view(jmut_root(doc));
}

static void show(const struct admission_findings *f)
{
	for (size_t i = 0; i < f->n_problems; i++)
		diag("%s: %s: %s", f->problems[i].path, f->problems[i].kind,
		     f->problems[i].message);
	for (size_t i = 0; i < f->n_warnings; i++)
		diag("warning: %s", f->warnings[i]);
}

/* ---- what is known beside the object ---- */

#define NONE PARTITION_UNLIMITED

static const struct job_pod_settings plain = {.launcher_image = "ipu-launcher:1"};
static const struct job_pod_settings host = {
	.host_network = true, .privileged = true, .launcher_image = "ipu-launcher:1"};
static const struct job_pod_settings bare = {.launcher_image = ""};
static const struct partition_policy small = {.max_ipus = NONE,
					      .max_job_ipus = 16,
					      .max_deadline_s = 3600,
					      .default_deadline_s = NONE,
					      .max_interactive_s = 600};
static const struct partition_policy quota = {.max_ipus = 16,
					      .max_job_ipus = NONE,
					      .max_deadline_s = 60,
					      .default_deadline_s = NONE,
					      .max_interactive_s = NONE};

static const struct admission_job_view on_plain = {.pods = &plain};
static const struct admission_job_view on_host = {.pods = &host};
static const struct job_pod_settings networked = {.launcher_image = "l",
						  .rdma = {.network = "rdma-net"}};
static const struct admission_job_view with_rdma = {.pods = &networked};
static const struct admission_job_view no_image = {.pods = &bare};
static const struct admission_job_view of_64 = {.largest_ipus = 64};
static const struct admission_job_view of_48 = {.largest_ipus = 48};
static const struct admission_job_view limited = {.policy = &small};
static const struct admission_job_view with_quota = {.policy = &quota};

/* ---- each rule alone ---- */

struct row {
	const char *id, *patch, *path;
	const struct admission_job_view *view;
	const char *message; /* NULL: the reference's */
};

/* clang-format off */
#define SPEC(x)      "{'spec':{" x "}}"
#define WORKERS(x)   SPEC("'workers':{" x "}")
#define TEMPLATE(x)  WORKERS("'template':{" x "}")
#define META(x)      TEMPLATE("'metadata':{" x "}")
#define POD(x)       TEMPLATE("'spec':{" x "}")
#define MAIN(x)      POD("'containers':[{'name':'c','image':'i'," x "}]")
#define OLD          "'jobInstances':null,'ipusPerJobInstance':null,"
#define MODELS(n, i) OLD "'modelReplicas':'" n "','ipusPerModelReplica':'" i "'"
#define LAUNCHER     "'launcher':{'command':['mpirun']}"
#define WITH_LAUNCHER(pod) SPEC(LAUNCHER ",'workers':{'template':{'spec':{" pod "}}}")
#define SESSION      "'interactive':{'ttl':600}"
#define STRATEGY(x)  WORKERS("'strategy':{'rollingUpdate':{" x "}}")
#define IN_POD(x)    "spec.workers.template.spec." x
#define IN_MAIN(x)   IN_POD("containers[0]." x)
#define IN_META(x)   "spec.workers.template.metadata." x

/* The longest for so many. */
#define LONG_NAME     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SPEC_OF_10000 "'spec':{'ipusPerJobInstance':'8192'"

static const struct row rows[] = {
	{"name-missing", "{'metadata':{'name':null}}", "metadata.name"},
	{"name-form", "{'metadata':{'name':'Mnist'}}", "metadata.name"},
	{"name-form", "{'metadata':{'name':'a_b'}}", "metadata.name"},
	{"name-form", "{'metadata':{'name':'-a'}}", "metadata.name"},
	{"name-form", "{'metadata':{'name':'a.-b'}}", "metadata.name"},
	{"name-form", "{'metadata':{'name':'a..b'}}", "metadata.name"},
	{"name-form", "{'metadata':{'name':'a-'}}", "metadata.name"},
	{"shares-of-replicas", SPEC(MODELS("4", "1") ",'workers':{'replicas':3}"), "spec.workers.replicas"},
	{"shares-of-replicas", SPEC(MODELS("4", "2") ",'workers':{'replicas':8}"), "spec.workers.replicas"},
	{"shares-of-ipus", SPEC("'workersPerJobInstance':'3'"), "spec.workersPerJobInstance"},
	{"shares-of-ipus", SPEC("'workersPerJobInstance':'8'"), "spec.workersPerJobInstance"},
	{"shares-of-ipus", WORKERS("'replicas':3"), "spec.workers.replicas"},
	{"ipus-of-replicas", SPEC("'workersPerJobInstance':'2','modelReplicasPerWorker':'3'"),
	 "spec.modelReplicasPerWorker"},
	{"ipus-of-replicas", SPEC("'modelReplicasPerWorker':'8'"), "spec.modelReplicasPerWorker"},
	{"ipus-of-gcds", SPEC("'partition':{'gcds':3}"), "spec.partition.gcds"},
	{"ipus-of-gcds", SPEC("'partition':{'gcds':8}"), "spec.partition.gcds"},
	{"shares-of-partition", SPEC("'workersPerJobInstance':'2','partition':{'replicas':3}"),
	 "spec.partition.replicas"},
	{"hostfiles", "{'metadata':{'name':'" LONG_NAME "'}," SPEC_OF_10000 ",'workersPerJobInstance':'8192'," LAUNCHER "}}",
	 "spec.workersPerJobInstance", NULL,
	 "the hostfiles of the launchers would have 1112024 bytes for 8192 workers, and a ConfigMap has room for 1048576: give fewer "
	 "workers, or the job a shorter name"},
	{"hostfiles", "{'metadata':{'name':'" LONG_NAME "'}," SPEC_OF_10000 ",'jobInstances':2,'workersPerJobInstance':'4096'," LAUNCHER "}}",
	 "spec.jobInstances"},
	{"reach", SPEC("'ipusPerJobInstance':'128'"), "spec.ipusPerJobInstance", &of_64,
	 "no V-IPU controller has 128 IPUs for one instance: the largest has 64, so give at most 64"},
	{"reach", SPEC("'ipusPerJobInstance':'64'"), "spec.ipusPerJobInstance", &of_48,
	 "no V-IPU controller has 64 IPUs for one instance: the largest has 48, so give at most 32"},
	{"reach", SPEC(MODELS("64", "2")), "spec.modelReplicas", &of_64},
	{"limit-job", SPEC("'ipusPerJobInstance':'32'"), "spec.ipusPerJobInstance", &limited},
	{"limit-job", SPEC(MODELS("16", "2")), "spec.modelReplicas", &limited},
	{"limit-instances", SPEC("'jobInstances':5"), "spec.jobInstances", &limited,
	 "asks for 20 IPUs; a job in this namespace may have at most 16, which are 4 instances of 4"},
	{"limit-namespace", SPEC("'ipusPerJobInstance':'32'"), "spec.ipusPerJobInstance", &with_quota},
	{"limit-deadline", SPEC("'activeDeadlineSeconds':3601"), "spec.activeDeadlineSeconds", &limited},
	{"limit-session", SPEC("'interactive':{'ttl':601}"), "spec.interactive.ttl", &limited},
	{"limit-session", SPEC("'interactive':{'ttl':61}"), "spec.interactive.ttl", &with_quota,
	 "a session in this namespace may last for 60 seconds at most"},
	{"strategy-all", STRATEGY("'maxUnavailable':'101%'"),
	 "spec.workers.strategy.rollingUpdate.maxUnavailable"},

	{"pod-bool", POD("'hostIPC':'true'"), IN_POD("hostIPC")},
	{"pod-bool", MAIN("'tty':1"), IN_MAIN("tty")},
	{"pod-bool", POD("'volumes':[{'name':'v'}],'containers':[{'name':'c','image':'i','volumeMounts':"
	 "[{'name':'v','mountPath':'/v','readOnly':'yes'}]}]"), IN_MAIN("volumeMounts[0].readOnly")},
	{"pod-number", POD("'terminationGracePeriodSeconds':'30'"), IN_POD("terminationGracePeriodSeconds")},
	{"pod-number", MAIN("'ports':[{'containerPort':'80'}]"), IN_MAIN("ports[0].containerPort")},
	{"pod-text", POD("'schedulerName':7"), IN_POD("schedulerName")},
	{"pod-text", MAIN("'env':[{'name':'A','value':1}]"), IN_MAIN("env[0].value")},
	{"pod-text", MAIN("'env':[{'name':'A'},{'name':'B','value':true}]"), IN_MAIN("env[1].value")},
	{"pod-text", MAIN("'args':['-n',4]"), IN_MAIN("args[1]")},
	{"pod-text", SPEC("'launcher':{'command':['x'],'env':[{'name':'A','value':1}]}"),
	 "spec.launcher.env[0].value"},
	{"pod-words", MAIN("'command':'python3 train.py'"), IN_MAIN("command")},
	{"pod-list", POD("'initContainers':{}"), IN_POD("initContainers")},
	{"pod-list", MAIN("'ports':80"), IN_MAIN("ports")},
	{"pod-object", MAIN("'resources':[]"), IN_MAIN("resources")},
	{"pod-object", POD("'volumes':['v']"), IN_POD("volumes[0]")},
	{"pod-object", POD("'imagePullSecrets':['regcred']"), IN_POD("imagePullSecrets[0]")},
	{"pod-object", MAIN("'resources':{'limits':'all'}"), IN_MAIN("resources.limits")},
	{"pod-object", POD("'volumes':[{'name':'v','configMap':'c'}]"), IN_POD("volumes[0].configMap")},
	{"pod-quantity", MAIN("'resources':{'limits':{'memory':'64GB'}}"), IN_MAIN("resources.limits[memory]")},
	{"pod-quantity", MAIN("'resources':{'requests':{'cpu':-1}}"), IN_MAIN("resources.requests[cpu]")},
	{"pod-quantity", MAIN("'resources':{'requests':{'cpu':true}}"), IN_MAIN("resources.requests[cpu]")},
	{"pod-required", POD("'containers':[{'name':'c'}]"), IN_MAIN("image")},
	{"pod-required", POD("'containers':[{'name':'c','image':''}]"), IN_MAIN("image")},
	{"pod-required", POD("'initContainers':[{'name':'a'}]"), IN_POD("initContainers[0].image")},
	{"pod-required", MAIN("'env':[{'value':'1'}]"), IN_MAIN("env[0].name")},
	{"pod-required", MAIN("'volumeMounts':[{'mountPath':'/a'}]"), IN_MAIN("volumeMounts[0].name")},
	{"pod-required", POD("'volumes':[{'emptyDir':{}}]"), IN_POD("volumes[0].name")},
	{"pod-required", MAIN("'ports':[{'name':'a'}]"), IN_MAIN("ports[0].containerPort")},
	{"pod-choice", POD("'restartPolicy':'ExitCode'"), IN_POD("restartPolicy"), NULL,
	 "must be one of Always, OnFailure, Never"},
	{"pod-choice", MAIN("'imagePullPolicy':'never'"), IN_MAIN("imagePullPolicy"), NULL,
	 "must be one of Always, IfNotPresent, Never"},
	{"pod-choice", MAIN("'ports':[{'containerPort':80,'protocol':'tcp'}]"), IN_MAIN("ports[0].protocol"),
	 NULL, "must be one of TCP, UDP, SCTP"},
	{"pod-range", MAIN("'ports':[{'containerPort':65536}]"), IN_MAIN("ports[0].containerPort"), NULL,
	 "must be from 1 to 65535"},
	{"pod-range", POD("'activeDeadlineSeconds':0"), IN_POD("activeDeadlineSeconds"), NULL,
	 "must be from 1 to 2147483647"},
	{"pod-label", POD("'containers':[{'name':'My_App','image':'i'}]"), IN_MAIN("name")},
	{"pod-label", POD("'containers':[{'name':'a.b','image':'i'}]"), IN_MAIN("name")},
	{"pod-label", POD("'volumes':[{'name':'a b'}]"), IN_POD("volumes[0].name")},
	{"pod-port-name", MAIN("'ports':[{'containerPort':80,'name':'123'}]"), IN_MAIN("ports[0].name")},
	{"pod-port-name", MAIN("'ports':[{'containerPort':80,'name':'a--b'}]"), IN_MAIN("ports[0].name")},
	{"pod-port-name", MAIN("'ports':[{'containerPort':80,'name':'abcdefghijklmnop'}]"),
	 IN_MAIN("ports[0].name")},
	{"pod-env-name", MAIN("'env':[{'name':'A=B'}]"), IN_MAIN("env[0].name")},
	{"pod-env-name", SPEC("'launcher':{'command':['x'],'env':[{'name':'A=B'}]}"), "spec.launcher.env[0].name"},
	{"pod-image", POD("'containers':[{'name':'c','image':'i '}]"), IN_MAIN("image")},
	{"pod-env-twofold", MAIN("'env':[{'name':'A','value':'1','valueFrom':{}}]"), IN_MAIN("env[0].valueFrom")},
	{"pod-host-port", POD("'hostNetwork':true,'containers':[{'name':'c','image':'i','ports':"
	 "[{'containerPort':80,'hostPort':81}]}]"), IN_MAIN("ports[0].hostPort")},
	{"pod-host-port", MAIN("'ports':[{'containerPort':80,'hostPort':81}]"), IN_MAIN("ports[0].hostPort"), &on_host},
	{"pod-volume-kinds", POD("'volumes':[{'name':'v','emptyDir':{},'hostPath':{'path':'/'}}]"), IN_POD("volumes[0]")},
	{"pod-ephemeral", POD("'ephemeralContainers':[{'name':'x'}]"), IN_POD("ephemeralContainers")},
	{"meta-key", META("'labels':{'a b':'c'}"), IN_META("labels[a b]")},
	{"meta-key", "{'metadata':{'labels':{'a/b/c':'d'}}}", "metadata.labels[a/b/c]"},
	{"meta-key", "{'metadata':{'annotations':{'a b':'any thing'}}}", "metadata.annotations[a b]"},
	{"meta-label", "{'metadata':{'labels':{'team':'a b'}}}", "metadata.labels[team]"},
	{"meta-type", "{'metadata':{'labels':{'n':1}}}", "metadata.labels[n]", NULL, "must be a string"},
	{"meta-type", "{'metadata':{'annotations':['x']}}", "metadata.annotations", NULL, "must be an object"},
	{"meta-type", META("'labels':{'n':true}"), IN_META("labels[n]"), NULL, "must be a string"},
	{"meta-key", META("'annotations':{'a/b/c':'d e'}"), IN_META("annotations[a/b/c]")},
	{"meta-key", META("'labels':{'Example.com/a':'b'}"), IN_META("labels[Example.com/a]")},
	{"meta-label", META("'labels':{'app':'my app'}"), IN_META("labels[app]")},
	{"meta-label", META("'labels':{'app':'-x'}"), IN_META("labels[app]")},
	{"twice-container", POD("'containers':[{'name':'c','image':'i'},{'name':'c','image':'i'}]"),
	 IN_POD("containers[1].name")},
	{"twice-container", POD("'initContainers':[{'name':'c','image':'i'}]"), IN_POD("initContainers[0].name")},
	{"twice-volume", POD("'volumes':[{'name':'v'},{'name':'w'},{'name':'v'}]"), IN_POD("volumes[2].name")},
	{"twice-mount", POD("'volumes':[{'name':'v'}],'containers':[{'name':'c','image':'i','volumeMounts':"
	 "[{'name':'v','mountPath':'/a'},{'name':'v','mountPath':'/a'}]}]"), IN_MAIN("volumeMounts[1].mountPath")},
	{"twice-port", MAIN("'ports':[{'containerPort':80,'name':'a'},{'containerPort':81,'name':'a'}]"),
	 IN_MAIN("ports[1].name")},
	{"twice-on-node", MAIN("'ports':[{'containerPort':80,'hostPort':9},{'containerPort':81,'hostPort':9}]"),
	 IN_MAIN("ports[1].hostPort")},
	{"twice-on-node", POD("'containers':[{'name':'c','image':'i','ports':[{'containerPort':80}]},"
	 "{'name':'d','image':'i','ports':[{'containerPort':80,'protocol':'TCP'}]}]"),
	 IN_POD("containers[1].ports[0].containerPort"), &on_host},
	{"mount-unknown", MAIN("'volumeMounts':[{'name':'data','mountPath':'/data'}]"),
	 IN_MAIN("volumeMounts[0].name"), NULL, "data isn't among spec.workers.template.spec.volumes"},
	{"own-container", WITH_LAUNCHER("'initContainers':[{'name':'ipu-launcher-install','image':'i'}]"),
	 IN_POD("initContainers[0].name")},
	{"own-volume", WITH_LAUNCHER("'volumes':[{'name':'mpi-config'}]"), IN_POD("volumes[0].name")},
	{"own-mount", WITH_LAUNCHER("'volumes':[{'name':'v'}],'containers':[{'name':'c','image':'i',"
	 "'volumeMounts':[{'name':'v','mountPath':'/etc/mpi'}]}]"), IN_MAIN("volumeMounts[0].mountPath")},

	{"launcher-image", SPEC(LAUNCHER), "spec.launcher", &no_image},
	{"launcher-image", SPEC(SESSION), "spec.interactive", &no_image},
	{"command-one-word", SPEC("'launcher':{'command':['mpirun -np 4 train']}"), "spec.launcher.command"},
	{"command-one-word", MAIN("'command':['python3 train.py']"), IN_MAIN("command")},
	{"limit-unused", SPEC("'restartPolicy':{'type':'Never','backOffLimit':5}"), "spec.restartPolicy.backOffLimit"},
	{"limit-zero", SPEC("'restartPolicy':{'type':'OnFailure','backOffLimit':0}"),
	 "spec.restartPolicy.backOffLimit"},
	{"codes-unused", SPEC("'restartPolicy':{'type':'OnFailure','exitCodes':'1'}"), "spec.restartPolicy.exitCodes"},
	{"session-always", SPEC(SESSION ",'restartPolicy':{'type':'Always'}"), "spec.restartPolicy.type"},
	{"session-cut", SPEC(SESSION ",'activeDeadlineSeconds':60"), "spec.activeDeadlineSeconds"},
	{"gone-at-once", SPEC("'ttlSecondsAfterFinished':0"), "spec.ttlSecondsAfterFinished"},
	{"surge-beyond", STRATEGY("'maxSurge':'200%'"), "spec.workers.strategy.rollingUpdate.maxSurge"},
	{"some-at-a-time", SPEC("'jobInstances':8"), "spec.jobInstances", &with_quota,
	 "at most 4 of 8 run at a time, since the namespace may have 16 IPUs"},
	{"gcds-few", SPEC("'workersPerJobInstance':'4','partition':{'gcds':2}"), "spec.partition.gcds", NULL,
	 "fewer graph compile domains (2) than workers (4): workers from number 2 on have no IPUs"},
	{"group-unused", "{'metadata':{'labels':{'kueue.x-k8s.io/queue-name':'q'}},'spec':{'schedulingPolicy':{}}}",
	 "spec.schedulingPolicy"},
	{"name-dots", "{'metadata':{'name':'a.b'}}", "metadata.name"},
	{"pod-restart", POD("'restartPolicy':'OnFailure'"), IN_POD("restartPolicy")},
	{"pod-dns", POD("'dnsPolicy':'Default'"), IN_POD("dnsPolicy"), &on_host},
	{"pod-network", POD("'hostNetwork':false"), IN_POD("hostNetwork"), &on_host},
	{"pod-networks", TEMPLATE("'metadata':{'annotations':{'k8s.v1.cni.cncf.io/networks':'[rdma-net'}}"),
	 IN_META("annotations[k8s.v1.cni.cncf.io/networks]"), &with_rdma},
	{"pod-privileged", MAIN("'securityContext':{'privileged':false}"),
	 IN_MAIN("securityContext.privileged"), &on_host},
	{"pod-node", POD("'nodeName':'n'"), IN_POD("nodeName")},
	{"pod-hostname", SPEC("'jobInstances':2,'workers':{'template':{'spec':{'hostname':'h'}}}"), IN_POD("hostname")},
	{"pod-deadline", POD("'activeDeadlineSeconds':60"), IN_POD("activeDeadlineSeconds")},
	{"env-own", MAIN("'env':[{'name':'IPUOF_VIPU_API_HOST','value':'x'}]"), IN_MAIN("env[0]")},
	{"env-own", SPEC("'launcher':{'command':['x'],'env':[{'name':'IPUOF_CONFIG_PATH','value':'x'}]}"),
	 "spec.launcher.env[0]"},
	{"env-twice", MAIN("'env':[{'name':'A','value':'1'},{'name':'A','value':'2'}]"), IN_MAIN("env[1]")},
	{"waiting-command", WITH_LAUNCHER("'containers':[{'name':'c','image':'i','args':['x']}]"), IN_POD("containers[0]")},
	{"waiting-probe", WITH_LAUNCHER("'containers':[{'name':'c','image':'i','readinessProbe':{'exec':{}}}]"),
	 IN_MAIN("readinessProbe")},
	{"port-on-node", SPEC("'jobInstances':2,'workers':{'template':{'spec':{'containers':[{'name':'c','image':'i',"
	 "'ports':[{'containerPort':80,'hostPort':80},{'containerPort':81,'hostPort':81}]}]}}}"), IN_MAIN("ports[0]")},
	{"resource-ipu", MAIN("'resources':{'limits':{'graphcore.ai/ipu':4}}"), IN_MAIN("resources")},
	{"resource-ipu", MAIN("'resources':{'requests':{'graphcore.ai/ipu':'4'}}"), IN_MAIN("resources")},
	{"resource-ipu", POD("'initContainers':[{'name':'a','image':'i','resources':{'limits':{'graphcore.ai/ipu':4}}}]"),
	 IN_POD("initContainers[0].resources")},
	{"meta-unused", META("'name':'x'"), IN_META("name")},
	{"meta-own", META("'labels':{'graphcore.ai/role':'x'}"), IN_META("labels[graphcore.ai/role]")},
};
/* clang-format on */

static bool judge_warning(const struct row *row, const struct rule *rule,
			  const struct admission_findings *f)
{
	size_t len = strlen(row->path);
	const char *text = f->n_warnings ? f->warnings[0] : "";

	return is_uint(f->n_problems, 0, "nothing is wrong") &&
	       is_uint(f->n_warnings, 1, "one warning") &&
	       ok(strncmp(text, row->path, len) == 0 && strncmp(text + len, ": ", 2) == 0 &&
			  is_like(text + len + 2, row->message ? row->message : rule->message),
		  "its path and words");
}

static bool judge_problem(const struct row *row, const struct rule *rule,
			  const struct admission_findings *f)
{
	const struct admission_cause *c = f->problems;

	return is_uint(f->n_problems, 1, "one rule is broken") &&
	       is_str(c->path, row->path, "path") && is_str(c->kind, rule->kind, "kind") &&
	       ok(is_like(c->message, row->message ? row->message : rule->message), "message");
}

static void run_row(const struct row *row)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *full = jmut_doc_new();
	struct admission_findings f = ADMISSION_FINDINGS_INIT, again = ADMISSION_FINDINGS_INIT;
	const struct json *job = make_job(doc, row->patch);
	struct rule *rule = find_rule(row->id);

	row_begin("%s %s", row->id, row->patch);
	if (!ok(rule != NULL, "the reference has it"))
		return;
	rule->tested = true;
	admission_job_check(row->view, NULL, job, &f);
	if (!(rule->warning ? judge_warning(row, rule, &f) : judge_problem(row, rule, &f)))
		show(&f);
	ok(admission_job_default(full, NULL, job, NULL) == 0, "defaults");
	admission_job_check(row->view, NULL, jmut_view(jmut_root(full)), &again);
	is_uint(again.n_problems, f.n_problems, "defaults change nothing about it");
	admission_findings_done(&f);
	admission_findings_done(&again);
}

/* ---- several at once, and those that aren't wrong ---- */

static size_t check(const struct admission_job_view *view, const char *before, const char *now,
		    struct admission_findings *f)
{
	CLEANUP_JMUT struct jmut_doc *old_doc = jmut_doc_new(), *new_doc = jmut_doc_new();

	admission_job_check(view, before ? make_job(old_doc, before) : NULL, make_job(new_doc, now),
			    f);
	return f->n_problems;
}

static bool has(const struct admission_findings *f, const char *path, const char *kind)
{
	for (size_t i = 0; i < f->n_problems; i++) {
		if (strcmp(f->problems[i].path, path) == 0 &&
		    strcmp(f->problems[i].kind, kind) == 0)
			return true;
	}
	return false;
}

static void test_all_at_once(void)
{
	static const char *const wrong[][2] = {
		{"spec.jobInstances", "Required"},
		{"spec.workersPerJobInstance", "Invalid"},
		{"spec.restartPolicy.exitCodes", "Invalid"},
		{"spec.interactive", "Forbidden"},
		{"spec.interactive.ttl", "Invalid"},
		{"spec.ttlSecondsAfterFinished", "Invalid"},
		{"spec.cleanPodPolicy", "Unsupported"},
		{"spec.workers.strategy.rollingUpdate", "Forbidden"},
		{"spec.activeDeadlineSeconds", "Forbidden"},
		{"spec.workers.template.spec.containers[0].image", "Required"},
		{"spec.workers.template.spec.containers[1].name", "Duplicate"},
		{"spec.workers.template.spec.volumes[1].name", "Duplicate"},
		{"spec.workers.template.metadata.labels[x]", "Invalid"},
	};
	struct admission_findings f = ADMISSION_FINDINGS_INIT;

	check(&limited, NULL,
	      "{'spec':{'jobInstances':null,'workersPerJobInstance':'x','launcher':{'command':['x']},"
	      "'interactive':{'ttl':-1},'ttlSecondsAfterFinished':-1,'cleanPodPolicy':'Some',"
	      "'activeDeadlineSeconds':9999,'restartPolicy':{'type':'ExitCode','exitCodes':'9-1'},"
	      "'workers':{'strategy':{'type':'Recreate','rollingUpdate':{}},'template':{'metadata':"
	      "{'labels':{'x':'a b'}},'spec':{'restartPolicy':'Always','containers':[{'name':'c'},"
	      "{'name':'c','image':'i'}],'volumes':[{'name':'v'},{'name':'v'}]}}}}}",
	      &f);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ok(has(&f, wrong[i][0], wrong[i][1]), "%s: %s", wrong[i][0], wrong[i][1]);
	is_uint(f.n_problems, sizeof(wrong) / sizeof(wrong[0]), "and nothing else");
	is_uint(f.n_warnings, 1, "the warning is there as well");
	admission_findings_done(&f);
}

/* clang-format off */
static const char *const good[] = {
	"{}",
	"{'metadata':{'name':null,'generateName':'j-'}}",
	"{'metadata':{'name':'a--b0'}}",
	SPEC(MODELS("4", "2") ",'workers':{'replicas':4}"),
	SPEC("'workersPerJobInstance':'2','modelReplicasPerWorker':'2'"),
	SPEC("'workersPerJobInstance':'3','partition':{'gcds':4}"),
	STRATEGY("'maxSurge':'100%','maxUnavailable':'100%'"),
	POD("'restartPolicy':'Never','dnsPolicy':'','hostNetwork':null,'terminationGracePeriodSeconds':-1"),
	POD("'volumes':[{'name':'v'},{'name':'w','emptyDir':{},'hostPath':null},{'name':'x','whatever':{}}]"),
	MAIN("'env':[{'name':'A','value':''},{'name':'B','value':'','valueFrom':{'fieldRef':{}}},"
	     "{'name':'a.b-c/d','value':null}]"),
	MAIN("'ports':[{'containerPort':80,'name':'http'},{'containerPort':80,'protocol':'UDP','name':'quic'}]"),
	MAIN("'ports':[{'containerPort':80,'hostPort':80},{'containerPort':80,'hostPort':80,'protocol':'UDP'},"
	     "{'containerPort':80,'hostPort':80,'hostIP':'10.0.0.1'}]"),
	MAIN("'command':['/bin/sh','-c','a b c']"),
	MAIN("'resources':{'limits':{'cpu':0.5,'memory':'64Gi','rdma/a':1},'requests':{'cpu':'500m','memory':null}}"),
	META("'labels':{'app':'','example.com/a.b_c':'A-b.c_9'},'annotations':{'k8s.v1.cni.cncf.io/networks':'rdma net','Example.com/A':'x'},"
	     "'creationTimestamp':null,'name':''"),
	WITH_LAUNCHER("'volumes':[{'name':'v'}],'containers':[{'name':'c','image':'i'},{'name':'side','image':'i',"
		      "'volumeMounts':[{'name':'mpi-config','mountPath':'/etc/mpi'}]}]"),
	POD("'initContainers':[{'name':'i','image':'i','ports':[{'containerPort':80,'hostPort':80}]}],"
	    "'containers':[{'name':'c','image':'i','ports':[{'containerPort':80,'hostPort':80}]}]"),
	SPEC("'restartPolicy':{'type':'Never','backOffLimit':0}"),
	SPEC("'restartPolicy':{'type':'ExitCode','backOffLimit':3,'exitCodes':'0,1-255'}"),
	SPEC("'ipusPerJobInstance':'16','activeDeadlineSeconds':60,'ttlSecondsAfterFinished':1"),
};
/* clang-format on */

static void test_good(void)
{
	static const struct admission_job_view *const views[] = {NULL,   &on_plain, &of_64,
								 &of_48, &limited,  &with_quota};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		for (size_t v = 0; v < sizeof(views) / sizeof(views[0]); v++) {
			struct admission_findings f = ADMISSION_FINDINGS_INIT;

			row_begin("%zu %s", v, good[i]);
			if (!is_uint(check(views[v], NULL, good[i], &f), 0, "nothing is wrong") ||
			    !is_uint(f.n_warnings, 0, "nothing is unwise"))
				show(&f);
			admission_findings_done(&f);
		}
	}
	row_end();
}

/* ---- a name that isn't there yet ---- */

static void test_generated_name(void)
{
	char patch[256];
	struct admission_findings f = ADMISSION_FINDINGS_INIT;

	snprintf(patch, sizeof(patch), "{'metadata':{'name':null,'generateName':'%s'}}",
		 "nnnnnnnnn-nnnnnnnnn-nnnnnnnnn-nnnnnnnnn-nnnnnnnn-");
	is_uint(check(NULL, NULL, patch, &f), 0, "49 characters, and five to come, leave room");
	snprintf(patch, sizeof(patch), "{'metadata':{'name':null,'generateName':'%s'}}",
		 "nnnnnnnnn-nnnnnnnnn-nnnnnnnnn-nnnnnnnnn-nnnnnnnnn-");
	is_uint(check(NULL, NULL, patch, &f), 1, "50 don't");
	ok(has(&f, "metadata.name", "Invalid"), "which is said of the name");
	admission_findings_done(&f);
}

/* ---- updates ---- */

/* clang-format off */
static const struct {
	const char *what, *before, *now;
	const struct admission_job_view *view;
	const char *path; /* NULL: nothing is wrong */
	const char *kind;
} updates[] = {
	{"too large since, and labelled", SPEC("'ipusPerJobInstance':'32'"),
	 "{'metadata':{'labels':{'a':'b'}},'spec':{'ipusPerJobInstance':'32'}}", &limited, NULL, NULL},
	{"too large since, and stopped", SPEC("'ipusPerJobInstance':'32'"),
	 SPEC("'ipusPerJobInstance':'32','suspend':true"), &limited, NULL, NULL},
	{"too large, and larger", SPEC("'ipusPerJobInstance':'32'"), SPEC("'ipusPerJobInstance':'64'"),
	 &limited, "spec.ipusPerJobInstance", "Forbidden"},
	{"beyond reach since, and stopped", SPEC("'ipusPerJobInstance':'128'"),
	 SPEC("'ipusPerJobInstance':'128','suspend':true"), &of_64, NULL, NULL},
	{"another time than it may", "{}", SPEC("'activeDeadlineSeconds':4000"), &limited,
	 "spec.activeDeadlineSeconds", "Forbidden"},
	{"an old template with a fault, and stopped", POD("'volumes':[{'name':'v'},{'name':'v'}]"),
	 SPEC("'suspend':true,'workers':{'template':{'spec':{'volumes':[{'name':'v'},{'name':'v'}]}}}"),
	 NULL, NULL, NULL},
	{"an old template with a fault, and changed", POD("'volumes':[{'name':'v'},{'name':'v'}]"),
	 POD("'hostIPC':true,'volumes':[{'name':'v'},{'name':'v'}]"), NULL, IN_POD("volumes[1].name"), "Duplicate"},
	{"a broken rule from before it, and a finalizer", SPEC("'ipusPerJobInstance':'3'"),
	 "{'metadata':{'finalizers':['a/b']},'spec':{'ipusPerJobInstance':'3'}}", NULL, NULL, NULL},
	{"a broken rule, and defaults that are new", SPEC("'ipusPerJobInstance':'3'"),
	 SPEC("'ipusPerJobInstance':'3','cleanPodPolicy':'None','restartPolicy':{'type':'Never','backOffLimit':3},"
	      "'workers':{'replicas':1,'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':'25%',"
	      "'maxUnavailable':'25%'}}}"), NULL, NULL, NULL},
	{"a broken rule, and something else", SPEC("'ipusPerJobInstance':'3'"),
	 SPEC("'ipusPerJobInstance':'3','suspend':true"), NULL, "spec.ipusPerJobInstance", "Invalid"},
	{"a broken rule, in deletion", SPEC("'ipusPerJobInstance':'3'"),
	 "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'},'spec':{'ipusPerJobInstance':'5'}}", NULL, NULL, NULL},
	{"other workers", SPEC("'workersPerJobInstance':'2'"), SPEC("'workersPerJobInstance':'4'"), NULL,
	 "spec.workersPerJobInstance", "Forbidden"},
	{"a launcher", "{}", SPEC(LAUNCHER), NULL, "spec.launcher", "Forbidden"},
	{"another manager", "{}", SPEC("'managedBy':'a/b'"), NULL, "spec.managedBy", "Forbidden"},
	{"its instances", "{}", SPEC("'jobInstances':4"), &limited, NULL, NULL},
	{"too many instances", "{}", SPEC("'jobInstances':5"), &limited, "spec.jobInstances", "Forbidden"},
	{"another's, too large", SPEC("'managedBy':'a/b'"), SPEC("'managedBy':'a/b','ipusPerJobInstance':'64'"),
	 &limited, NULL, NULL},
	{"a name that no new job could have", "{'metadata':{'name':'A'}}",
	 "{'metadata':{'name':'A'},'spec':{'suspend':true}}", NULL, NULL, NULL},
};
/* clang-format on */

static void test_updates(void)
{
	for (size_t i = 0; i < sizeof(updates) / sizeof(updates[0]); i++) {
		struct admission_findings f = ADMISSION_FINDINGS_INIT;
		size_t n = check(updates[i].view, updates[i].before, updates[i].now, &f);

		row_begin("%s", updates[i].what);
		if (!is_uint(n, updates[i].path ? 1 : 0, "problems") ||
		    !ok(!updates[i].path || has(&f, updates[i].path, updates[i].kind), "its own"))
			show(&f);
		admission_findings_done(&f);
	}
	row_end();
}

/* One that is sized in model replicas is told why it can't be scaled, beside the rule of sizes. */
static void test_scaling(void)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct rule *rule = find_rule("one-instance");

	check(NULL, SPEC(MODELS("4", "1")),
	      SPEC("'ipusPerJobInstance':null,'jobInstances':2,'modelReplicas':'4',"
		   "'ipusPerModelReplica':'1'"),
	      &f);
	ok(has(&f, "spec.jobInstances", rule ? rule->kind : ""), "scaling says so");
	ok(has(&f, "spec", "Forbidden"), "with the rule of sizes");
	if (rule)
		rule->tested = true;
	admission_findings_done(&f);
}

/* ---- defaults ---- */

#define WHOLE                                                                                      \
	"'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':'25%','maxUnavailable':"   \
	"'25%'}}"
#define REST "'cleanPodPolicy':'None','restartPolicy':{'type':'Never','backOffLimit':3}"

/* clang-format off */
static const struct {
	const char *what, *before, *in, *out; /* out: a merge patch over in */
} defaults[] = {
	{"all of them", NULL, "{}", SPEC(REST ",'workers':{'replicas':1," WHOLE "}")},
	{"nulls are absent", NULL, SPEC("'cleanPodPolicy':null,'restartPolicy':null,'workers':{'replicas':null,'strategy':null}"),
	 SPEC(REST ",'workers':{'replicas':1," WHOLE "}")},
	{"what is there stays", NULL,
	 SPEC("'cleanPodPolicy':'All','restartPolicy':{'type':'OnFailure','backOffLimit':0},'workers':{'replicas':2,"
	      "'strategy':{'type':'Recreate'}}"), "{}"},
	{"parts", NULL, SPEC("'cleanPodPolicy':'All','restartPolicy':{'type':'Always'},'workers':{'replicas':2,"
	      "'strategy':{'rollingUpdate':{'maxSurge':1}}}"),
	 SPEC("'restartPolicy':{'backOffLimit':3},'workers':{'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxUnavailable':'25%'}}}")},
	{"shares beside their type", NULL, SPEC(REST ",'workers':{'replicas':2,'strategy':{'type':'RollingUpdate'}}"),
	 WORKERS(WHOLE)},
	{"a type that is missing stays missing", NULL, SPEC("'restartPolicy':{},'cleanPodPolicy':'None','workers':{'replicas':1," WHOLE "}"),
	 SPEC("'restartPolicy':{'backOffLimit':3}")},
	{"1.0 as it's written", NULL, SPEC(MODELS("4", "1") "," REST ",'workers':{'replicas':1," WHOLE "}"), "{}"},
	{"no shape", NULL, SPEC("'cleanPodPolicy':7,'restartPolicy':'x','workers':{'replicas':'x','strategy':[]}"), "{}"},
	{"no workers", NULL, SPEC("'workers':null"), SPEC(REST)},
	{"no spec", NULL, "{'spec':7}", "{}"},
	{"a rollingUpdate that stayed behind", WORKERS(WHOLE),
	 SPEC(REST ",'workers':{'replicas':1,'strategy':{'type':'Recreate','rollingUpdate':{'maxSurge':'25%','maxUnavailable':'25%'}}}"),
	 WORKERS("'strategy':{'rollingUpdate':null}")},
	{"one that was written anew", WORKERS(WHOLE),
	 SPEC(REST ",'workers':{'replicas':1,'strategy':{'type':'Recreate','rollingUpdate':{'maxSurge':1,'maxUnavailable':'25%'}}}"), "{}"},
	{"one that was there with Recreate", WORKERS("'strategy':{'type':'Recreate','rollingUpdate':{'maxSurge':1,'maxUnavailable':1}}"),
	 SPEC(REST ",'workers':{'replicas':1,'strategy':{'type':'Recreate','rollingUpdate':{'maxSurge':1,'maxUnavailable':1}}}"), "{}"},
};
/* clang-format on */

static void test_defaults(void)
{
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *old_doc = jmut_doc_new(), *in = jmut_doc_new(),
					     *want = jmut_doc_new(), *got = jmut_doc_new(),
					     *twice = jmut_doc_new();
		CLEANUP_FREE char *patch = quoted(defaults[i].out);
		CLEANUP_JSON struct json_doc *change = NULL;
		const struct json *before = defaults[i].before
						    ? make_job(old_doc, defaults[i].before)
						    : NULL;
		const struct json *given = make_job(in, defaults[i].in);
		struct err err = ERR_INIT;

		row_begin("%s", defaults[i].what);
		if (json_parse(str_of(patch), &change, &err) < 0)
			bail_out(err.msg);
		jmut_set_root(want,
			      jmut_merge_patch(want, jmut_copy(want, given), json_root(change)));
		ok(admission_job_default(got, before, given, &err) == 0, "done");
		ok(json_equal(jmut_view(jmut_root(got)), jmut_view(jmut_root(want))),
		   "as it should be");
		ok(admission_job_default(twice, before, jmut_view(jmut_root(got)), &err) == 0,
		   "again");
		ok(json_equal(jmut_view(jmut_root(twice)), jmut_view(jmut_root(got))),
		   "which changes nothing");
	}
	row_end();
}

static void test_no_object(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct err err = ERR_INIT;

	ok(admission_job_default(doc, NULL, NULL, &err) < 0 && err.kind == ERR_INVALID,
	   "no object, no defaults");
	admission_job_check(NULL, NULL, NULL, &f);
	ok(has(&f, "spec", "Required") && has(&f, "metadata.name", "Required"),
	   "and much is wrong");
	admission_findings_done(&f);
}

/* A peer decides how long the lists are. */
static void test_long_lists(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct jmut *pod, *list, *container, *env;

	make_job(doc, "{}");
	pod = jmut_get(jmut_get(jmut_get(jmut_get(jmut_root(doc), "spec"), "workers"), "template"),
		       "spec");
	list = jmut_get(pod, "containers");
	env = jmut_array(doc);
	for (int i = 0; i < 50000; i++) {
		container = jmut_object(doc);
		jmut_set(doc, container, "name", jmut_strf(doc, "c%d", i % 25000));
		jmut_push(doc, list, container);
		container = jmut_object(doc);
		jmut_set(doc, container, "name", jmut_strf(doc, "E%d", i % 25000));
		jmut_push(doc, env, container);
	}
	jmut_set(doc, jmut_item(list, 0), "env", env);
	admission_job_check(&on_host, NULL, jmut_view(jmut_root(doc)), &f);
	is_uint(f.n_problems, ADMISSION_MAX_PROBLEMS, "as many as are listed");
	is_uint(f.n_problems + f.n_more, 75000,
		"all are counted: images, and names that come twice");
	is_uint(f.n_warnings, ADMISSION_MAX_WARNINGS, "warnings have an end, too");
	admission_findings_done(&f);
}

int main(void)
{
	read_reference();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&rows[i]);
	row_end();
	test_all_at_once();
	test_good();
	test_generated_name();
	test_updates();
	test_scaling();
	test_defaults();
	test_no_object();
	test_long_lists();
	for (size_t i = 0; i < n_rules; i++)
		ok(rules[i].tested, "%s has a test", rules[i].id);
	return done_testing();
}
