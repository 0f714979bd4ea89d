/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PodGroups: whose, what is in one, how a Pod becomes a member, and when there is to be one.
 */
#include "core/yaml.h"
#include "job/group.h"
#include "job/plan_groups.h"
#include "tap.h"

#define TEXT(z) ((char *)(uintptr_t)(z))

static const struct job job = {.ns = TEXT("default"),
			       .name = TEXT("j"),
			       .uid = TEXT("uid-of-j"),
			       .instances = 2,
			       .workers = 4,
			       .group_hash = 0x1234};

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

/* ---- whose ---- */

static void test_choice(void)
{
	static const struct {
		const char *scheduler;
		bool volcano, plugins;
		enum job_group_api want;
	} rows[] = {
		{NULL, false, false, JOB_GROUP_NONE},
		{NULL, true, false, JOB_GROUP_VOLCANO},
		{NULL, false, true, JOB_GROUP_COSCHEDULING},
		{NULL, true, true, JOB_GROUP_VOLCANO},
		{"volcano", true, true, JOB_GROUP_VOLCANO},
		{"volcano", false, true, JOB_GROUP_NONE},
		{"mine", true, true, JOB_GROUP_COSCHEDULING},
		{"default-scheduler", true, false, JOB_GROUP_NONE},
		{"default-scheduler", false, true, JOB_GROUP_COSCHEDULING},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool there[JOB_GROUP_APIS] = {
			[JOB_GROUP_VOLCANO] = rows[i].volcano,
			[JOB_GROUP_COSCHEDULING] = rows[i].plugins,
		};
		struct job j = job;

		j.scheduler = TEXT(rows[i].scheduler);
		is_int(job_group_choose(&j, there), rows[i].want, "%s, Volcano %d, plugins %d",
		       rows[i].scheduler ? rows[i].scheduler : "no scheduler", rows[i].volcano,
		       rows[i].plugins);
	}
}

/* ---- the object ---- */

#define META                                                                                       \
	"metadata: {name: j-1, namespace: default, labels: {app.kubernetes.io/managed-by: "        \
	"ipu-operator, graphcore.ai/job: j, graphcore.ai/instance: '1'}, annotations: "            \
	"{graphcore.ai/template: '0000000000001234'}, ownerReferences: [{apiVersion: "             \
	"graphcore.ai/v1alpha1, kind: IPUJob, name: j, uid: uid-of-j, controller: true, "          \
	"blockOwnerDeletion: true}]}"
#define VOLCANO "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, " META ", spec: "
#define PLUGINS "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, " META ", spec: "
#define ALL                                                                                        \
	"{schedulingPolicy: {minAvailable: 3, queue: q, priorityClass: high, "                     \
	"scheduleTimeoutSeconds: 60, minResources: {cpu: 4, memory: 8Gi}}}"

static void test_objects(void)
{
	static const struct {
		enum job_group_api api;
		const char *spec, *want;
	} rows[] = {
		{JOB_GROUP_VOLCANO, "{schedulingPolicy: {}}", VOLCANO "{minMember: 4}}"},
		{JOB_GROUP_VOLCANO, ALL,
		 VOLCANO "{minMember: 3, minResources: {cpu: 4, memory: 8Gi}, queue: q, "
			 "priorityClassName: high}}"},
		{JOB_GROUP_VOLCANO, "{schedulingPolicy: {queue: '', minResources: {}}}",
		 VOLCANO "{minMember: 4}}"},
		{JOB_GROUP_COSCHEDULING, "{schedulingPolicy: {}}", PLUGINS "{minMember: 4}}"},
		{JOB_GROUP_COSCHEDULING, ALL,
		 PLUGINS "{minMember: 3, minResources: {cpu: 4, memory: 8Gi}, "
			 "scheduleTimeoutSeconds: 60}}"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_YAML struct yaml *y = parse(rows[i].spec);
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct job_group *g = NULL;
		struct err err = ERR_INIT;

		row_begin("%s", rows[i].want);
		job_group_build(doc, &job, yaml_doc(y, 0), 1, rows[i].api);
		is_yaml(jmut_view(jmut_root(doc)), rows[i].want, "the object");
		jmut_set_str(doc, jmut_get(jmut_root(doc), "metadata"), "uid", "u");
		if (job_group_decode(jmut_view(jmut_root(doc)), &g, &err) < 0)
			bail_out(err.msg);
		is_int(g->api, rows[i].api, "read again: its API");
		is_str(g->name, "j-1", "its name");
		is_str(g->job_key, "default/j", "its job");
		is_str(g->owner_uid, "uid-of-j", "its owner");
		is_int(g->instance, 1, "its instance");
		ok(g->hash == 0x1234, "what it was made for");
		job_group_free(g);
	}
	row_end();
}

static void test_odd_objects(void)
{
	static const struct {
		const char *object;
		bool readable;
		uint64_t hash;
		int64_t instance;
	} rows[] = {
		{"{apiVersion: scheduling.volcano.sh/v1beta1, metadata: {name: a, namespace: b, uid: c}}",
		 true, 0, -1},
		{"{apiVersion: scheduling.volcano.sh/v1beta1, metadata: {name: a, namespace: b, uid: c, "
		 "labels: {graphcore.ai/instance: x}, annotations: {graphcore.ai/template: "
		 "'000000000000123g'}}}",
		 true, 0, -1},
		{"{apiVersion: scheduling.volcano.sh/v1beta1, metadata: {name: a, namespace: b, uid: c, "
		 "labels: {graphcore.ai/instance: '7'}, annotations: {graphcore.ai/template: "
		 "fedcba9876543210}}}",
		 true, 0xfedcba9876543210, 7},
		{"{apiVersion: scheduling.volcano.sh/v1, metadata: {name: a, namespace: b, uid: c}}",
		 false, 0, 0},
		{"{apiVersion: scheduling.volcano.sh/v1beta1, metadata: {name: a, namespace: b}}",
		 false, 0, 0},
		{"[]", false, 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_YAML struct yaml *y = parse(rows[i].object);
		struct job_group *g = NULL;
		struct err err = ERR_INIT;
		int result = job_group_decode(yaml_doc(y, 0), &g, &err);

		row_begin("%s", rows[i].object);
		is_int(result, rows[i].readable ? 0 : -1, "can be read, or not");
		if (result == 0) {
			ok(g->hash == rows[i].hash, "hash");
			is_int(g->instance, rows[i].instance, "instance");
		}
		job_group_free(g);
	}
	row_end();
}

/* ---- its Pods ---- */

static void test_members(void)
{
	static const struct {
		enum job_group_api api;
		const char *scheduler, *pod, *want;
	} rows[] = {
		{JOB_GROUP_NONE, NULL, "{spec: {a: b}}", "{metadata: {}, spec: {a: b}}"},
		{JOB_GROUP_VOLCANO, NULL, "{spec: {a: b}}",
		 "{metadata: {annotations: {scheduling.k8s.io/group-name: j-1}}, spec: {a: b, "
		 "schedulerName: volcano}}"},
		{JOB_GROUP_VOLCANO, "volcano",
		 "{metadata: {annotations: {c: d}}, spec: {schedulerName: volcano}}",
		 "{metadata: {annotations: {c: d, scheduling.k8s.io/group-name: j-1}}, spec: "
		 "{schedulerName: volcano}}"},
		{JOB_GROUP_COSCHEDULING, NULL, "{metadata: {labels: {c: d}}, spec: {}}",
		 "{metadata: {labels: {c: d, scheduling.x-k8s.io/pod-group: j-1}}, spec: {}}"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_YAML struct yaml *y = parse(rows[i].pod);
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct job j = job;

		row_begin("%s", rows[i].want);
		j.scheduler = TEXT(rows[i].scheduler);
		jmut_set_root(doc, jmut_copy(doc, yaml_doc(y, 0)));
		job_group_mark(doc, &j, 1, rows[i].api);
		is_yaml(jmut_view(jmut_root(doc)), rows[i].want, "the Pod");
	}
	row_end();
}

/* ---- when there is to be one ---- */

static struct job_group group_of(const char *uid, uint64_t hash)
{
	return (struct job_group){.ns = TEXT("default"),
				  .name = TEXT("j-1"),
				  .uid = TEXT("g"),
				  .owner_uid = TEXT(uid),
				  .api = JOB_GROUP_VOLCANO,
				  .instance = 1,
				  .hash = hash};
}

static void test_looks(void)
{
	enum { THERE = 1, DELETING = 2, OTHERS = 4, CHANGED = 8, PODS = 16, ENDED = 32, IPUS = 64 };
	static const struct {
		const char *name;
		bool wanted, known;
		enum job_group_api api;
		unsigned what;
		enum job_group_look look;
		bool cleared;
	} rows[] = {
		{"not wanted", false, false, JOB_GROUP_NONE, 0, JOB_GROUP_READY, false},
		{"not wanted any more", false, true, JOB_GROUP_VOLCANO, THERE, JOB_GROUP_READY,
		 true},
		{"nobody knows yet", true, false, JOB_GROUP_NONE, 0, JOB_GROUP_COMING, false},
		{"there's nobody for it", true, true, JOB_GROUP_NONE, 0, JOB_GROUP_READY, false},
		{"none is there", true, true, JOB_GROUP_VOLCANO, IPUS, JOB_GROUP_LACKING, false},
		{"another API's is there", true, true, JOB_GROUP_COSCHEDULING, THERE | IPUS,
		 JOB_GROUP_LACKING, false},
		{"it is there", true, true, JOB_GROUP_VOLCANO, THERE | IPUS, JOB_GROUP_READY,
		 false},
		{"it's going", true, true, JOB_GROUP_VOLCANO, THERE | DELETING, JOB_GROUP_COMING,
		 false},
		{"it's somebody else's", true, true, JOB_GROUP_VOLCANO, THERE | OTHERS,
		 JOB_GROUP_CONFLICT, false},
		{"it says something else", true, true, JOB_GROUP_VOLCANO, THERE | CHANGED | IPUS,
		 JOB_GROUP_OLD, false},
		{"it says something else, and is used", true, true, JOB_GROUP_VOLCANO,
		 THERE | CHANGED | PODS | IPUS, JOB_GROUP_READY, false},
		{"it says something else, and was used", true, true, JOB_GROUP_VOLCANO,
		 THERE | CHANGED | PODS | ENDED, JOB_GROUP_OLD, true},
		{"its Pods run on without IPUs", true, true, JOB_GROUP_VOLCANO, THERE | PODS,
		 JOB_GROUP_READY, false},
		{"nobody uses it", true, true, JOB_GROUP_VOLCANO, THERE | PODS | ENDED,
		 JOB_GROUP_READY, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned what = rows[i].what;
		struct job_group g = group_of(what & OTHERS ? "other" : "uid-of-j",
					      what & CHANGED ? 1 : 0x1234);
		struct job_pod pod = {.owner_uid = TEXT("uid-of-j"),
				      .instance = 1,
				      .phase = what & ENDED ? JOB_POD_FAILED : JOB_POD_PENDING};
		const struct job_group *groups[] = {&g}, *found;
		const struct job_pod *pods[] = {&pod};
		struct partition_status parts[2] = {{.id = NULL}};
		struct job j = job;
		struct job_plan plan = {0};
		struct job_view v = {.job = &j,
				     .group_known = rows[i].known,
				     .group_api = rows[i].api,
				     .groups = groups,
				     .n_groups = what & THERE ? 1 : 0,
				     .pods = pods,
				     .n_pods = what & PODS ? 1 : 0,
				     .partitions = parts,
				     .n_partitions = 2};

		row_begin("%s", rows[i].name);
		j.group_hash = rows[i].wanted ? 0x1234 : 0;
		g.deleting = what & DELETING;
		parts[1].id = what & IPUS ? TEXT("p") : NULL;
		is_int(job_group_look_at(&v, 1, &found), rows[i].look, "the look");
		job_plan_clear_groups(&v, &plan);
		is_uint(plan.n_actions, rows[i].cleared, "is deleted, or not");
		if (plan.n_actions)
			ok(plan.actions[0].kind == JOB_DELETE_GROUP && plan.actions[0].group == &g,
			   "this one");
		free(plan.actions);
	}
	row_end();
}

/* ---- the whole planner ---- */

/* The PodGroup of the instance. */
enum state { UNWANTED, UNKNOWN, NOBODY, LACKING, THERE, FOREIGN, OLD, LEAVING };

static const struct row {
	const char *name;
	enum state group;
	enum partition_state part;
	bool pod;         /* the first of two runs */
	const char *word; /* of the job: "suspend", "done", "deleting", "files" */
	const char *does, *says;
} plans[] = {
	{"not wanted", UNWANTED, PARTITION_STATE_ACTIVE, false, "", "create-pod create-pod",
	 "Waiting for resources"},
	{"nobody knows by whom", UNKNOWN, PARTITION_STATE_ACTIVE, false, "", "",
	 "waiting for its PodGroup"},
	{"by nobody", NOBODY, PARTITION_STATE_ACTIVE, false, "", "create-pod create-pod",
	 "Waiting for resources"},
	{"no partition yet", LACKING, PARTITION_STATE_WAITING, false, "", "", "no room"},
	{"files first", LACKING, PARTITION_STATE_ACTIVE, false, "files", "write-files",
	 "Waiting for resources"},
	{"none is there", LACKING, PARTITION_STATE_ACTIVE, false, "", "create-group",
	 "Waiting for resources"},
	{"it is there", THERE, PARTITION_STATE_ACTIVE, false, "", "create-pod create-pod",
	 "Waiting for resources"},
	{"somebody else's", FOREIGN, PARTITION_STATE_ACTIVE, false, "", "",
	 "PodGroup j-0 exists and isn't this job's"},
	{"an earlier policy's", OLD, PARTITION_STATE_ACTIVE, false, "", "delete-group",
	 "Waiting for resources"},
	{"an earlier policy's, used", OLD, PARTITION_STATE_ACTIVE, true, "", "create-pod",
	 "Waiting for resources"},
	{"it's going", LEAVING, PARTITION_STATE_ACTIVE, false, "", "", "waiting for its PodGroup"},
	{"nobody uses it", THERE, PARTITION_STATE_WAITING, false, "", "delete-group", "no room"},
	{"suspended", THERE, PARTITION_STATE_NONE, false, "suspend", "delete-group", ""},
	{"the job has ended", THERE, PARTITION_STATE_NONE, false, "done", "delete-group", ""},
	{"in deletion", THERE, PARTITION_STATE_NONE, false, "deleting", "remove-finalizer", ""},
};

struct sight {
	struct job job;
	struct job_instance memory[1];
	struct partition_ask ask;
	struct partition_status part;
	struct job_pod pod;
	struct job_group group;
	const struct job_pod *pods[1];
	const struct job_group *groups[1];
	struct job_view view;
};

static void look(struct sight *s, const struct row *row)
{
	static const struct job_timing timing = {.backoff_ms = 10000, .backoff_max_ms = 300000};
	bool active = row->part == PARTITION_STATE_ACTIVE, done = strcmp(row->word, "done") == 0;

	*s = (struct sight){
		.job = {.ns = TEXT("ns"),
			.name = TEXT("j"),
			.uid = TEXT("uid-of-j"),
			.generation = 1,
			.has_finalizer = true,
			.instances = 1,
			.workers = 2,
			.ipus = 4,
			.slots = 1,
			.backoff_limit = 3,
			.finished_ttl_ms = -1,
			.group_hash = row->group == UNWANTED ? 0 : 7,
			.suspend = strcmp(row->word, "suspend") == 0,
			.deleting = strcmp(row->word, "deleting") == 0},
		.memory = {{.since_ms = active ? 1 : 0, .start_ms = active ? 1 : 0}},
		.pod = {.name = TEXT("j-worker-0"),
			.uid = TEXT("p0"),
			.owner_uid = TEXT("uid-of-j"),
			.partition = TEXT("p"),
			.phase = JOB_POD_RUNNING,
			.ready = true},
		.group = {.name = TEXT("j-0"),
			  .api = JOB_GROUP_VOLCANO,
			  .owner_uid = row->group == FOREIGN ? TEXT("other") : TEXT("uid-of-j"),
			  .hash = row->group == OLD ? 8 : 7,
			  .deleting = row->group == LEAVING},
	};
	s->job.status.instances = s->memory;
	s->job.status.n_instances = 1;
	if (done)
		job_condition_need(&s->job.status, JOB_SUCCEEDED)->on = true;
	s->job.status.completion_ms = done ? 1 : 0;
	s->ask = job_ask(&s->job, 0);
	s->part = (struct partition_status){
		.state = row->part,
		.id = active ? TEXT("p") : NULL,
		.ask = row->part == PARTITION_STATE_NONE ? NULL : &s->ask,
		.by_file = strcmp(row->word, "files") == 0,
		.files = strcmp(row->word, "files") == 0 ? 42 : 0,
	};
	snprintf(s->part.message, sizeof(s->part.message), "%s", active ? "" : "no room");
	s->pods[0] = &s->pod;
	s->groups[0] = &s->group;
	s->view = (struct job_view){
		.job = &s->job,
		.timing = &timing,
		.now_ms = 1000,
		.pods = s->pods,
		.n_pods = row->pod,
		.partitions = &s->part,
		.n_partitions = 1,
		.configured = true,
		.supported = UINT32_MAX,
		.group_known = row->group != UNKNOWN,
		.group_api = row->group <= NOBODY && row->group != UNWANTED ? JOB_GROUP_NONE
									    : JOB_GROUP_VOLCANO,
		.groups = s->groups,
		.n_groups = row->group >= THERE,
	};
}

static void test_plans(void)
{
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		struct sight s;
		struct job_plan plan;
		char does[256] = "";
		size_t len = 0;

		row_begin("%s", plans[i].name);
		look(&s, &plans[i]);
		job_plan(&s.view, &plan);
		for (size_t k = 0; k < plan.n_actions; k++)
			len += (size_t)snprintf(does + len, sizeof(does) - len, "%s%s",
						len ? " " : "",
						job_action_name(plan.actions[k].kind));
		is_str(does, plans[i].does, "what is done");
		if (plans[i].says[0])
			has_str(plan.status.last_message ? plan.status.last_message : "",
				plans[i].says, "what is said");
		job_plan_done(&plan);
		s.job.status.n_instances = 0; /* the sight's own */
		s.job.status.instances = NULL;
		job_status_done(&s.job.status);
	}
	row_end();
}

int main(void)
{
	test_choice();
	test_objects();
	test_odd_objects();
	test_members();
	test_looks();
	test_plans();
	return done_testing();
}
