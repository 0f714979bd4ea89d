/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs in a queue of Kueue's: the table of doc/design/kueue.md, rows in its order, and what their
 * Pods and ConfigMaps are made of. A Pod: "NUMBER:" and "kueue" (behind both gates), "gated"
 * (behind ours), "open" (behind none), "running", "failed"; behind it "!" in deletion, "p"
 * preempted.
 */
#include "core/yaml.h"
#include "job/files.h"
#include "job/plan.h"
#include "job/queue.h"
#include "tap.h"

#define TEXT(z) ((char *)(uintptr_t)(z))
#define NOW     INT64_C(1717200000000)
#define WORKERS 2

static void is_yaml(const struct json *got, const char *want, const char *what)
{
	CLEANUP_YAML struct yaml *y = NULL;
	struct buf out = BUF_INIT(1 << 20);
	struct err err = ERR_INIT;

	if (yaml_parse("a row", str_of(want), &y, &err) < 0)
		bail_out(err.msg);
	if (ok(json_equal(got, yaml_doc(y, 0)), "%s", what))
		return;
	if (yaml_write(got, &out, NULL) == 0)
		diag("got:\n%.*s", (int)out.len, out.p);
	buf_done(&out);
}

/* ---- the planner ---- */

enum part { NONE, WAITING, EARLIER, ACTIVE, RELEASING, BROKEN, VANISHED };
enum files { NO_FILES, FILES, OLD_FILES };

static const struct row {
	const char *name;
	enum part part;
	enum files files;
	bool complete, trouble;
	const char *pods, *does, *says;
} rows[] = {
	{"nothing yet", NONE, 0, false, false, "", "create-pod/0 create-pod/1",
	 "in Kueue's queue team"},
	{"refused", NONE, 0, false, true, "", "create-pod/0 create-pod/1", "no quota"},
	{"some made", NONE, 0, false, false, "0:kueue", "create-pod/1", "in Kueue's queue team"},
	{"one is going", NONE, 0, false, false, "0:kueue! 1:kueue", "delete-workload",
	 "in deletion"},
	{"in the queue", NONE, 0, false, false, "0:kueue 1:kueue", "", "Kueue to let its Pods go"},
	{"in the queue, IPUs of an earlier run", EARLIER, 0, false, false, "0:kueue 1:kueue",
	 "release/0", "Kueue to let its Pods go"},
	{"in the queue, half of them", NONE, 0, false, false, "0:gated 1:kueue", "",
	 "Kueue to let its Pods go"},
	{"one was replaced, the other runs", ACTIVE, FILES, false, false, "0:running 1:kueue", "",
	 "Kueue to let its Pods go"},
	{"let go", NONE, 0, false, false, "0:gated 1:gated", "ensure/0", "Waiting for resources"},
	{"let go, releasing", RELEASING, 0, false, false, "0:gated 1:gated", "ensure/0",
	 "Waiting for resources"},
	{"waits for IPUs", WAITING, 0, false, false, "0:gated 1:gated", "", "no room"},
	{"for another run", EARLIER, 0, false, false, "0:gated 1:gated", "ensure/0",
	 "Waiting for resources"},
	{"active, no ConfigMap", ACTIVE, NO_FILES, false, false, "0:gated 1:gated", "write-files/0",
	 "Waiting for resources"},
	{"active, another's ConfigMap", ACTIVE, OLD_FILES, false, false, "0:gated 1:gated",
	 "write-files/0", "Waiting for resources"},
	{"active", ACTIVE, FILES, false, false, "0:gated 1:gated", "open-pod/0 open-pod/1",
	 "Waiting for resources"},
	{"active, one is open", ACTIVE, FILES, false, false, "0:open 1:gated", "open-pod/1",
	 "Waiting for resources"},
	{"lost by the tracker, one is open", NONE, FILES, false, false, "0:open 1:gated", "adopt/0",
	 "Waiting for resources"},
	{"in error before they began", BROKEN, FILES, false, false, "0:gated 1:gated", "release/0",
	 "in PS_ERROR"},
	{"vanished before they began", VANISHED, FILES, false, false, "0:gated 1:gated",
	 "release/0", "is gone"},
	{"all are open", ACTIVE, FILES, false, false, "0:open 1:open", "", "Waiting for resources"},
	{"all run", ACTIVE, FILES, false, false, "0:running 1:running", "", "Running"},
	{"one failed before the other was open", ACTIVE, FILES, false, false, "0:failed 1:gated",
	 "", "exited with 3"},
	{"Kueue wants its place", ACTIVE, FILES, true, false, "0:running!p 1:running!p", "",
	 "Waiting for resources"},
};

struct sight {
	struct job job;
	struct job_instance memory[1];
	struct partition_status part;
	struct partition_ask ask;
	struct job_pod pods[WORKERS];
	char names[WORKERS][16];
	const struct job_pod *listed[WORKERS];
	struct job_files files;
	const struct job_files *all_files[1];
	struct job_view view;
};

static void see_pods(struct sight *s, const char *text)
{
	unsigned number;
	char word[16];
	int n;

	for (; sscanf(text, " %u:%15s%n", &number, word, &n) == 2; text += n) {
		struct job_pod *pod = &s->pods[number];
		bool is_gated = strncmp(word, "kueue", 5) == 0 || strncmp(word, "gated", 5) == 0;

		snprintf(s->names[number], sizeof(s->names[0]), "j-worker-%u", number);
		*pod = (struct job_pod){
			.ns = TEXT("ns"),
			.name = s->names[number],
			.uid = s->names[number],
			.owner_uid = TEXT("uid-of-j"),
			.queue_group = TEXT("j-0-0"),
			.partition = is_gated ? NULL : TEXT("p"),
			.instance = 0,
			.phase = strncmp(word, "running", 7) == 0  ? JOB_POD_RUNNING
				 : strncmp(word, "failed", 6) == 0 ? JOB_POD_FAILED
								   : JOB_POD_PENDING,
			.exit_code = strncmp(word, "failed", 6) == 0 ? 3 : 0,
			.message = TEXT("exited with 3"),
			.gated = is_gated,
			.queued = strncmp(word, "kueue", 5) == 0,
			.deleting = strchr(word, '!') != NULL,
			.preempted = strstr(word, "!p") != NULL,
			.deletion_ms = NOW + 30000,
			.ready = true,
		};
		s->listed[s->view.n_pods++] = pod;
	}
}

static void see_part(struct sight *s, enum part part)
{
	static const enum partition_state states[] = {
		[NONE] = PARTITION_STATE_NONE,           [WAITING] = PARTITION_STATE_WAITING,
		[EARLIER] = PARTITION_STATE_ACTIVE,      [ACTIVE] = PARTITION_STATE_ACTIVE,
		[RELEASING] = PARTITION_STATE_RELEASING, [BROKEN] = PARTITION_STATE_FAILED,
		[VANISHED] = PARTITION_STATE_FAILED,
	};
	bool here = part == EARLIER || part == ACTIVE || part == BROKEN;

	s->ask = job_ask(&s->job, 0);
	s->ask.attempt = part == EARLIER ? 7 : 0;
	s->part = (struct partition_status){
		.state = states[part],
		.id = here ? TEXT("p") : NULL,
		.host = here ? TEXT("vipu.example") : NULL,
		.port = 8090,
		.ask = part == NONE || part == RELEASING ? NULL : &s->ask,
		.why = part == WAITING    ? PARTITION_WHY_NO_ROOM
		       : part == BROKEN   ? PARTITION_WHY_ERROR
		       : part == VANISHED ? PARTITION_WHY_VANISHED
					  : PARTITION_WHY_NONE,
	};
	snprintf(s->part.message, sizeof(s->part.message), "%s",
		 part == WAITING    ? "no room"
		 : part == BROKEN   ? "it's in PS_ERROR"
		 : part == VANISHED ? "it is gone"
				    : "");
}

static void look(struct sight *s, const struct row *row)
{
	static const struct job_timing timing = {
		.backoff_ms = 10000,
		.backoff_max_ms = 300000,
		.start_deadline_ms = 900000,
		.unreachable_ms = 60000,
	};

	*s = (struct sight){
		.job = {.ns = TEXT("ns"),
			.name = TEXT("j"),
			.uid = TEXT("uid-of-j"),
			.generation = 1,
			.has_finalizer = true,
			.instances = 1,
			.workers = WORKERS,
			.ipus = 4,
			.slots = 1,
			.backoff_limit = 3,
			.queue_name = TEXT("team"),
			.finished_ttl_ms = -1,
			.template_hash = 2},
		.memory = {{.complete = row->complete}},
	};
	s->job.status.instances = s->memory;
	s->job.status.n_instances = 1;
	see_part(s, row->part);
	s->view = (struct job_view){
		.job = &s->job,
		.timing = &timing,
		.now_ms = NOW,
		.pods = s->listed,
		.partitions = &s->part,
		.n_partitions = 1,
		.files = s->all_files,
		.configured = true,
		.supported = UINT32_MAX,
		.group_known = true,
		.held = row->part != NONE,
		.trouble = row->trouble ? "no quota" : NULL,
		.trouble_event = row->trouble ? "PodRefused" : NULL,
	};
	see_pods(s, row->pods);
	s->files = (struct job_files){
		.name = TEXT("j-ipuof-0"),
		.uid = TEXT("f"),
		.owner_uid = TEXT("uid-of-j"),
		.partition = TEXT("p"),
		.hash = job_files_wanted(&s->job, &s->part) + (row->files == OLD_FILES),
	};
	s->all_files[0] = &s->files;
	s->view.n_files = row->files != NO_FILES;
}

static void say_plan(const struct job_plan *plan, char *z, size_t size)
{
	size_t len = 0;

	z[0] = '\0';
	for (size_t i = 0; i < plan->n_actions; i++) {
		const struct job_action *a = &plan->actions[i];
		bool by_pod = a->kind == JOB_OPEN_POD || a->kind == JOB_DELETE_POD;

		if (a->kind == JOB_DELETE_FILES)
			continue;
		len += (size_t)snprintf(z + len, size - len, "%s%s", len ? " " : "",
					job_action_name(a->kind));
		if (by_pod)
			len += (size_t)snprintf(z + len, size - len, "/%s", a->pod->name + 9);
		else if (a->kind != JOB_DELETE_WORKLOAD)
			len += (size_t)snprintf(z + len, size - len, "/%u",
						a->kind == JOB_CREATE_POD ? a->worker
									  : a->instance);
	}
}

static void test_plans(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sight s;
		struct job_plan plan;
		char does[256];

		row_begin("%s", rows[i].name);
		look(&s, &rows[i]);
		job_plan(&s.view, &plan);
		say_plan(&plan, does, sizeof(does));
		is_str(does, rows[i].does, "what is done");
		has_str(plan.status.last_message ? plan.status.last_message : "", rows[i].says,
			"what is said");
		job_plan_done(&plan);
	}
	row_end();
}

/* That is nobody's failure, and the IPUs go too. */
static void test_preemption(void)
{
	struct sight s;
	struct job_plan plan;
	const struct job_instance *mem;

	look(&s, &rows[sizeof(rows) / sizeof(rows[0]) - 1]);
	job_plan(&s.view, &plan);
	mem = &plan.status.instances[0];
	ok(mem->over && mem->yields, "the run is over, and gives its IPUs back");
	is_uint(mem->restarts, 0, "which doesn't count against the limit");
	has_str(mem->message ? mem->message : "", "Kueue needs its place", "and is remembered");
	job_plan_done(&plan);
}

/* One look for each group, and none for what Kueue doesn't hold. */
static void test_leaving(void)
{
	static const struct row leaving = {"", NONE, 0, false, false, "0:kueue! 1:gated!", "", ""};
	struct sight s;
	struct job_plan plan;
	char does[256];

	look(&s, &leaving);
	s.job.deleting = true;
	job_plan(&s.view, &plan);
	say_plan(&plan, does, sizeof(does));
	is_str(does, "delete-workload", "in deletion: one for the group");
	job_plan_done(&plan);
	s.pods[1].queue_group = TEXT("j-0-1");
	job_plan(&s.view, &plan);
	is_uint(plan.n_actions, 2, "one for each group");
	job_plan_done(&plan);
	s.pods[0].gated = s.pods[0].queued = false;
	s.pods[1].owner_uid = TEXT("somebody");
	job_plan(&s.view, &plan);
	is_uint(plan.n_actions, 0, "none for Pods that have begun, or aren't ours");
	job_plan_done(&plan);
}

/* ---- what things are made of ---- */

static const struct job job = {.ns = TEXT("default"),
			       .name = TEXT("j"),
			       .uid = TEXT("u"),
			       .instances = 2,
			       .workers = 3,
			       .queue_name = TEXT("team")};

static void test_members(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job_instance memory[2] = {{.run = 0}, {.run = 4}};
	struct job j = job;

	j.status.instances = memory;
	j.status.n_instances = 2;
	jmut_set_root(doc, jmut_object(doc));
	jmut_set(doc, jmut_root(doc), "spec", jmut_object(doc));
	job_queue_mark(doc, &j, 1);
	is_yaml(jmut_view(jmut_root(doc)),
		"{spec: {schedulingGates: [{name: graphcore.ai/partition}]}, metadata: {labels: "
		"{kueue.x-k8s.io/queue-name: team, kueue.x-k8s.io/pod-group-name: j-1-4}, annotations: "
		"{kueue.x-k8s.io/pod-group-total-count: '3', kueue.x-k8s.io/retriable-in-group: "
		"'false'}}}",
		"a member of the run's group, behind our gate");
}

static void test_opening(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	job_gate_open(doc, "uid-of-pod", "p", "ipunode", "pod001");
	is_yaml(jmut_view(jmut_root(doc)),
		"{metadata: {uid: uid-of-pod, annotations: {graphcore.ai/partition: p}}, spec: "
		"{schedulingGates: [], nodeSelector: {ipunode: pod001}}}",
		"the patch");
	job_gate_open(doc, "uid-of-pod", "p", NULL, NULL);
	is_yaml(jmut_view(jmut_root(doc)),
		"{metadata: {uid: uid-of-pod, annotations: {graphcore.ai/partition: p}}, spec: "
		"{schedulingGates: []}}",
		"to any node");
}

struct values {
	char text[256];
};

static void note_value(void *arg, const char *key, const char *value)
{
	struct values *v = arg;
	size_t len = strlen(v->text);

	snprintf(v->text + len, sizeof(v->text) - len, "%s%s=%s", len ? " " : "", key, value);
}

static void test_values(void)
{
	struct partition_status part = {.id = TEXT("p"), .host = TEXT("h"), .port = 8090};
	struct job j = job;
	struct values v = {""};
	uint64_t plain;

	job_files_values(&j, &part, note_value, &v);
	is_str(v.text,
	       "IPUOF_VIPU_API_HOST=h IPUOF_VIPU_API_PORT=8090 IPUOF_VIPU_API_PARTITION_ID=p",
	       "variables");
	plain = job_files_wanted(&j, &part);
	ok(job_files_needed(&j, &part) && plain != 0, "a ConfigMap is needed");
	part.port = 8091;
	ok(job_files_wanted(&j, &part) != plain, "another one for another port");
	part.by_file = true;
	v.text[0] = '\0';
	job_files_values(&j, &part, note_value, &v);
	is_str(v.text, "IPUOF_CONFIG_PATH=/etc/ipuof.conf.d/partition.conf", "by file: its path");
	ok(job_files_wanted(&j, &part) == 0, "the files haven't come");
	part.files = 42;
	ok(job_files_wanted(&j, &part) != 42, "they have: with the path beside them");
	j.queue_name = NULL;
	v.text[0] = '\0';
	job_files_values(&j, &part, note_value, &v);
	is_str(v.text, "", "nothing beside them without a queue");
	ok(job_files_wanted(&j, &part) == 42 && job_files_needed(&j, &part), "the files alone");
	part.by_file = false;
	ok(!job_files_needed(&j, &part), "and none where they aren't needed");
}

int main(void)
{
	test_plans();
	test_preemption();
	test_leaving();
	test_members();
	test_opening();
	test_values();
	return done_testing();
}
