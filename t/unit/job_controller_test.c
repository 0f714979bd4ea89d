/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job controller, with the partition layer under it, against a simulated API server, kubelet
 * and V-IPU controller: jobs from their creation to their end, and what comes between.
 */
#include <malloc.h>

#include "job_controller_rig.h"

#include "job/call.h"
#include "job/groups.h"

/* ---- a life ---- */

static void test_life(void)
{
	static const char *const events[] = {"PartitionRequested", "PartitionActive",
					     "PodCreated",         "JobRunning",
					     "JobCompleted",       "PartitionReleased"};
	int64_t writes;

	row_begin("a life");
	begin();
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	ok(json_bool(json_at(job_json("j"), "status", "iPUPartitionCreated", NULL), false),
	   "with a partition");
	ok(kube_has_finalizer(job_json("j"), "ipu.finalizers.graphcore.ai"), "with our finalizer");
	ok(WITHIN(20000, is_job("j", "Completed")), "Completed");
	is_str(job_status("j", "lastMessage"), "All instances done", "lastMessage");
	ok(WITHIN(20000, is_free()), "its IPUs are free");
	ok(WITHIN(5000,
		  !json_bool(json_at(job_json("j"), "status", "iPUPartitionCreated", NULL), true)),
	   "which the status says");
	ok(is_pod("j-worker-0", "Succeeded"), "its Pod is kept");
	WITHIN(20000, false);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		is_uint(n_events(events[i]), 1, "Event %s", events[i]);
	writes = all_writes();
	ok(writes <= 16, "%" PRId64 " writes in all", writes);
	WITHIN(300000, false);
	is_int(all_writes(), writes, "and none when all is over");
	end();
}

static void test_ends(void)
{
	static const struct {
		const char *name, *kubelet, *status, *message;
	} rows[] = {
		{"fails", "{\"exitCode\":3}", "Failed", "container c exited with 3"},
		{"is evicted", "{\"evict\":true}", "Failed", "Evicted"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		begin();
		set_kubelet(rows[i].kubelet);
		make_job("j", "");
		ok(WITHIN(20000, is_job("j", rows[i].status)), "%s", rows[i].status);
		has_str(job_status("j", "lastMessage"), rows[i].message, "why");
		ok(WITHIN(20000, is_free()), "its IPUs are free");
		WITHIN(2000, false);
		is_uint(n_events("JobFailed"), 1, "Event JobFailed");
		end();
	}
}

/* A job's beginning is measured once, whoever looks, and how often it has to begin again. */
static void test_measures(void)
{
	double partitions = N_PARTITIONS, made = N_PODS;

	row_begin("an image that isn't there, and other operators");
	begin();
	set_kubelet("{\"startError\":\"ErrImagePull\",\"startErrorMs\":3600000}");
	make_job("j", ",\"startDeadlineSeconds\":60");
	ok(WITHIN(20000, N_PODS == made + 1 && N_PARTITIONS == partitions + 1), "first ones");
	for (int i = 0; i < 2; i++) {
		process_end();
		make_client();
		process_begin();
		WITHIN(10000, false);
	}
	ok(is_pod("j-worker-0", "Pending"), "its Pod is still there");
	edit_job("j", "{\"spec\":{\"suspend\":true}}");
	ok(WITHIN(60000, is_free()), "suspended");
	edit_job("j", "{\"spec\":{\"suspend\":false}}");
	ok(WITHIN(60000, pod_object("j-worker-0")) && WITHIN(120000, !pod_object("j-worker-0")) &&
		   WITHIN(120000, pod_object("j-worker-0")) && !WITHIN(5000, false),
	   "let go, requeued and tried again");
	ok(N_PARTITIONS == partitions + 1 && N_PODS == made + 1, "those that come later aren't");
	end();
	made = N_PODS;

	row_begin("a job that is made anew between two looks");
	begin();
	set_kubelet("{\"runMs\":3600000}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")) && N_PODS == made + 1, "the first one");
	sim_api_delete_now(api, pod_object("j-worker-0"));
	sim_api_delete_now(api, sim_objects_get(objects, ipujobs(), STR("default"), STR("j")));
	make_job("j", "");
	ok(WITHIN(120000, is_job("j", "Running")), "another one under its name");
	ok(N_PODS == made + 2, "is measured for itself");
	end();
}

/* ---- PodGroups ---- */

#define CRDS "customresourcedefinitions"

static void install_volcano(void)
{
	make_of(sim_resource_find(STR("apiextensions.k8s.io"), STR(CRDS)),
		"{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
		"\"metadata\":{\"name\":\"podgroups.scheduling.volcano.sh\"},\"spec\":{\"group\":"
		"\"scheduling.volcano.sh\",\"scope\":\"Namespaced\",\"names\":{\"kind\":\"PodGroup\","
		"\"plural\":\"podgroups\",\"singular\":\"podgroup\"},\"versions\":[{\"name\":"
		"\"v1beta1\",\"served\":true,\"storage\":true}]}}");
}

static void uninstall_volcano(void)
{
	sim_api_delete_now(
		api,
		sim_objects_get(objects, sim_resource_find(STR("apiextensions.k8s.io"), STR(CRDS)),
				STR_NULL, STR("podgroups.scheduling.volcano.sh")));
}

/* The job's own, and of none of its instances: it's in the way. */
static void make_group(const char *job)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"scheduling.volcano.sh/v1beta1\",\"kind\":\"PodGroup\",\"metadata\":{"
		"\"name\":\"%s-0\",\"namespace\":\"default\",\"labels\":{\"graphcore.ai/job\":\"%s\"},"
		"\"ownerReferences\":[{\"apiVersion\":\"graphcore.ai/v1alpha1\",\"kind\":\"IPUJob\","
		"\"name\":\"%s\",\"uid\":\"%s\",\"controller\":true}]}}",
		job, job, job, json_cstr(json_at(job_json(job), "metadata", "uid", NULL)));

	make_of(sim_resource_find(STR("scheduling.volcano.sh"), STR("podgroups")), json);
}

static struct scope hung;

static void on_nothing(void *arg, const struct err *err, const struct kube_response *response)
{
	(void)arg, (void)err, (void)response;
}

/* All connections but one wait for an answer: requests go one behind the other. */
static void fill_connections(void)
{
	const struct kube_request req = {
		.verb = KUBE_GET, .resource = &KUBE_SERVICEACCOUNTS, .ns = "default", .name = "x"};

	inject_api("{\"verb\":\"get\",\"resource\":\"serviceaccounts\",\"count\":100,"
		   "\"kind\":\"hang\"}");
	for (int i = 1; i < KUBE_MAX_CONNECTIONS; i++)
		kube_call_start(kube, &req, on_nothing, NULL, &hung);
}

/* Its create is on its way. */
static bool is_asked_for(const char *key, const char *object)
{
	const struct job_ctx *ctx = map_get(jobs->ctxs, str_of(key));

	if (!ctx)
		return false;
	LIST_FOREACH(pos, tmp, &ctx->pending) {
		const struct job_call *call = CONTAINER_OF(pos, struct job_call, link);

		if (call->object && strcmp(call->object, object) == 0)
			return true;
	}
	return false;
}

/* Volcano goes and comes again while the API server is asked whose a PodGroup's name is. */
static void test_group_api_gone(void)
{
	row_begin("Volcano goes while a PodGroup is looked at");
	begin();
	install_volcano();
	make_job("j", ",\"schedulingPolicy\":{}");
	for (int i = 0; i < 4000 && !is_asked_for("default/j", "j-0"); i++)
		turn(i % 4 ? 0 : 10);
	ok(is_asked_for("default/j", "j-0"), "its PodGroup is being made");
	is_int(api_calls("create podgroups"), 0, "and isn't yet");
	scope_init(&hung);
	fill_connections();
	make_group("j");
	job_groups_doubt(jobs->groups);
	for (int i = 0; i < 100 && api_calls("create podgroups") == 0; i++)
		turn(0);
	uninstall_volcano();
	for (int i = 0; i < 100 && job_groups_store(jobs->groups, JOB_GROUP_VOLCANO); i++)
		turn(0);
	ok(!job_groups_store(jobs->groups, JOB_GROUP_VOLCANO), "the API is gone");
	is_int(api_calls("get podgroups"), 0, "before the look");
	install_volcano();
	make_group("j");
	for (int i = 0; i < 100 && api_calls("get podgroups") == 0; i++)
		turn(0);
	is_int(api_calls("get podgroups"), 1, "which finds it");
	scope_cancel(&hung);
	ok(WITHIN(120000, is_job("j", "Completed")), "the job goes on");
	end();
}

/* The kubelet's word of one Pod. */
static void end_pod(const char *name)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root;

	if (!pod_object(name))
		bail_out(name);
	root = jmut_copy(doc, sim_object_json(pod_object(name)));
	jmut_set_str(doc, jmut_get(root, "status"), "phase", "Succeeded");
	jmut_set_root(doc, root);
	sim_objects_put(objects, pods(), doc, root);
}

/* doc/design/api-writes.md: how many Pods there are is written now and then. */
static void test_counts(void)
{
	int64_t writes;

	row_begin("a gang that ends one by one, under a new process");
	begin();
	set_kubelet("{\"runMs\":3600000}");
	make_job("j", ",\"workersPerJobInstance\":\"4\"");
	ok(WITHIN(20000, is_job("j", "Running")), "it runs");
	process_end();
	make_client();
	process_begin();
	WITHIN(5000, false);
	writes = api_calls("patch ipujobs/status");
	end_pod("j-worker-0");
	WITHIN(200, false);
	end_pod("j-worker-1");
	WITHIN(200, false);
	end_pod("j-worker-2");
	WITHIN(200, false);
	is_int(api_calls("patch ipujobs/status") - writes, 1, "the first is told, …");
	WITHIN(5000, false);
	is_int(api_calls("patch ipujobs/status") - writes, 2, "the others together");
	end();
}

static void test_waits(void)
{
	int64_t writes;

	row_begin("an image that isn't there, for a while");
	begin();
	set_kubelet("{\"startError\":\"ErrImagePull\",\"startErrorMs\":30000}");
	make_job("j", "");
	ok(WITHIN(20000, strstr(job_status("j", "lastMessage"), "ErrImagePull") != NULL),
	   "is said");
	ok(is_job("j", "Pending"), "Pending");
	ok(WITHIN(90000, is_job("j", "Completed")), "it goes on by itself");
	end();

	row_begin("no room, for a while");
	begin();
	if (vipu_sim_create_by_hand(sim, "hand", 64, NULL) < 0)
		bail_out("a partition by hand");
	make_job("j", "");
	ok(WITHIN(20000, strstr(job_status("j", "lastMessage"), "waiting for 4 IPUs") != NULL),
	   "is said");
	ok(WITHIN(5000, n_events("WaitingForIPUs") == 1), "with an Event");
	writes = all_writes();
	WITHIN(120000, false);
	is_int(all_writes(), writes, "waiting costs nothing");
	edit_job("j", "{\"spec\":{\"ipusPerJobInstance\":\"128\"}}");
	ok(WITHIN(20000, strstr(job_status("j", "lastMessage"), "128 IPUs asked for") != NULL),
	   "another size is another ask");
	edit_job("j", "{\"spec\":{\"ipusPerJobInstance\":\"2\"}}");
	vipu_sim_remove_by_hand(sim, "hand", NULL);
	ok(WITHIN(60000, is_job("j", "Completed")), "it goes on by itself");
	end();
}

/* ---- people ---- */

static void edit_pod(const char *name, const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	if (!pod_object(name) || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to edit");
	jmut_set_root(doc, jmut_merge_patch(doc, jmut_copy(doc, sim_object_json(pod_object(name))),
					    json_root(p)));
	sim_objects_put(objects, pods(), doc, jmut_root(doc));
}

static void test_deletions(void)
{
	row_begin("deleted at each moment");
	for (unsigned moment = 0; moment < 150; moment += 3) {
		begin();
		set_kubelet("{\"runMs\":0}");
		make_job("j", "");
		turns(moment, 10);
		delete_job("j");
		if (!WITHIN(60000, !job_json("j") && is_free() && !pod_object("j-worker-0")))
			fail("after %u turns: something is left", moment);
		end();
	}

	row_begin("its Pod is deleted");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	sim_api_delete_now(api, pod_object("j-worker-0"));
	ok(WITHIN(20000, is_job("j", "Failed")), "Failed");
	has_str(job_status("j", "lastMessage"), "was deleted before it ended", "why");
	ok(WITHIN(20000, is_free()), "its IPUs are free");
	end();

	row_begin("its Pod is made another job's");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	edit_pod("j-worker-0", "{\"metadata\":{\"labels\":{\"graphcore.ai/job\":\"k\"}}}");
	ok(WITHIN(20000, is_job("j", "Failed")), "it has lost its Pod");
	end();

	row_begin("another job under its name");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	/* Somebody takes the finalizer away: the job is gone at once, its partition isn't. */
	sim_objects_remove(objects, sim_objects_get(objects, ipujobs(), STR("default"), STR("j")));
	sim_api_delete_now(api, pod_object("j-worker-0"));
	make_job("j", "");
	ok(WITHIN(40000, is_job("j", "Running")), "it runs too");
	ok(WITHIN(60000, vipu_sim_len(sim) == 1 && n_entries() == 1),
	   "the first one's IPUs are free");
	end();
}

/* Runs, of the template with annotation v: that. */
static bool is_version(const char *pod, const char *version)
{
	const struct sim_object *o = pod_object(pod);
	const char *v = o ? json_cstr(json_at(sim_object_json(o), "metadata", "annotations", "v",
					      NULL))
			  : NULL;

	return is_pod(pod, "Running") && v && strcmp(v, version) == 0;
}

static void test_scale(void)
{
	row_begin("up and down");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	edit_job("j", "{\"spec\":{\"jobInstances\":3}}");
	ok(WITHIN(20000, is_pod("j-worker-2", "Running") && is_pod("j-worker-1", "Running")),
	   "three");
	ok(WITHIN(5000, is_job("j", "Running")), "Running");
	is_int(json_int(json_at(job_json("j"), "status", "desiredReplicas", NULL), 0), 3,
	       "desired");
	edit_job("j", "{\"spec\":{\"jobInstances\":1}}");
	ok(WITHIN(40000, !pod_object("j-worker-1") && !pod_object("j-worker-2")), "one");
	ok(WITHIN(40000, vipu_sim_len(sim) == 1 && n_entries() == 1), "and one partition");
	ok(is_pod("j-worker-0", "Running") && is_job("j", "Running"), "which runs on");
	ok(WITHIN(5000, n_events("PartitionReleased") == 2), "both are told to be gone");
	end();
}

/* A new template where no IPUs are free for a surge instance: after a minute it goes on without. */
static void test_full_pod(void)
{
	static const char *const change =
		"{\"spec\":{\"workers\":{\"template\":{\"metadata\":{\"annotations\":{\"v\":\"2\"}}}}}}";
	static const struct {
		const char *name, *spec;
		int instances;
	} rows[] = {
		{"one instance", "{\"spec\":{\"ipusPerJobInstance\":\"64\"}}", 1},
		{"four",
		 "{\"spec\":{\"ipusPerJobInstance\":\"16\",\"jobInstances\":4,\"workers\":{"
		 "\"strategy\":{\"type\":\"RollingUpdate\",\"rollingUpdate\":{\"maxSurge\":1,"
		 "\"maxUnavailable\":0}}}}}",
		 4},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_FREE char *last = xasprintf("j-worker-%d", rows[i].instances - 1);

		row_begin("a full pod: %s", rows[i].name);
		begin();
		set_kubelet("{\"runMs\":0}");
		make_job("j", "");
		edit_job("j", rows[i].spec);
		edit_job("j",
			 "{\"spec\":{\"workers\":{\"template\":{\"metadata\":{\"annotations\":{"
			 "\"v\":\"1\"}}}}}}");
		ok(WITHIN(60000, is_version("j-worker-0", "1") && is_version(last, "1")),
		   "Running");
		WITHIN(5000, false);
		edit_job("j", change);
		ok(WITHIN(20000, n_waits() == 1), "a surge instance waits");
		ok(!WITHIN(50000, !is_version("j-worker-0", "1")), "the old ones run on");
		ok(WITHIN(120000, is_version("j-worker-0", "2") && is_version(last, "2")),
		   "after a minute they are replaced without it");
		ok(WITHIN(20000, n_waits() == 0), "and nobody waits any more");
		is_int((int)vipu_sim_len(sim), rows[i].instances, "no more partitions than before");
		ok(WITHIN(5000, is_job("j", "Running")), "Running");
		end();
	}
}

static void test_conflict(void)
{
	int64_t writes;

	row_begin("somebody else's Pod");
	begin();
	make_object("pods",
		    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":"
		    "\"j-worker-0\",\"namespace\":\"default\"},\"spec\":{\"containers\":[]}}");
	make_job("j", "");
	ok(WITHIN(20000, strstr(job_status("j", "lastMessage"), "isn't this job's") != NULL),
	   "said");
	writes = all_writes() + api_calls("get pods");
	WITHIN(300000, false);
	writes = all_writes() + api_calls("get pods") - writes;
	ok(writes <= 30, "%" PRId64 " calls in five minutes", writes);
	sim_api_delete_now(api, pod_object("j-worker-0"));
	ok(WITHIN(120000, is_job("j", "Completed")), "it goes on by itself");
	end();
}

static void test_broken_spec(void)
{
	row_begin("a spec that breaks rules, in the store");
	begin();
	make_job("bad", ",\"ipusPerModelReplica\":7");
	make_job("good", "");
	ok(WITHIN(20000, is_job("bad", "Failed")), "Failed");
	has_str(job_status("bad", "lastMessage"), "spec.ipusPerModelReplica", "why");
	ok(WITHIN(5000, n_events("InvalidSpec") == 1), "with an Event");
	ok(WITHIN(40000, is_job("good", "Completed")), "others go on");
	edit_job("bad", "{\"spec\":{\"ipusPerModelReplica\":null}}");
	ok(WITHIN(40000, is_job("bad", "Completed")), "mended, it runs");
	delete_job("bad");
	ok(WITHIN(20000, !job_json("bad")), "and goes");
	end();
}

/* ---- the API server ---- */

static void test_refusals(void)
{
	static const struct {
		const char *name, *fault, *says;
	} rows[] = {
		{"Pods are refused",
		 "{\"verb\":\"create\",\"resource\":\"pods\",\"count\":0,\"kind\":\"status\","
		 "\"status\":403,\"message\":\"exceeded quota: gpu\"}",
		 "exceeded quota: gpu"},
		{"jobs may not be written",
		 "{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":0,\"kind\":\"status\","
		 "\"status\":403,\"message\":\"forbidden\"}",
		 NULL},
		{"everything fails",
		 "{\"count\":0,\"kind\":\"status\",\"status\":500,\"message\":\"etcd\"}", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t writes;

		row_begin("%s", rows[i].name);
		begin();
		turns(50, 10);
		inject_api(rows[i].fault);
		make_job("j", "");
		if (rows[i].says)
			ok(WITHIN(20000, strstr(job_status("j", "lastMessage"), rows[i].says)),
			   "said");
		writes = all_writes();
		WITHIN(300000, false);
		writes = all_writes() - writes;
		ok(writes <= 40, "%" PRId64 " writes in five minutes", writes);
		sim_api_clear_faults(api);
		ok(WITHIN(200000, is_job("j", "Completed")), "it goes on by itself");
		end();
	}
}

/* What a launcher needs isn't taken: one object, and no more than that is asked for again. */
static void test_launcher_refused(void)
{
	int64_t writes;

	row_begin("a launcher's Role is refused");
	begin();
	set_kubelet("{\"runMs\":0}"); /* for ever */
	turns(50, 10);
	inject_api("{\"verb\":\"create\",\"resource\":\"roles\",\"count\":0,\"kind\":\"status\","
		   "\"status\":403,\"message\":\"attempting to grant extra privileges\"}");
	make_job("j", ",\"launcher\":{\"command\":[\"m\"]}");
	ok(WITHIN(20000, strstr(job_status("j", "lastMessage"), "Role j-launcher isn't taken by")),
	   "said");
	is_uint(n_events("LauncherObjectRefused"), 1, "told");
	writes = all_writes() + api_calls("create roles");
	WITHIN(300000, false);
	writes = all_writes() + api_calls("create roles") - writes;
	ok(writes <= 40, "%" PRId64 " writes in five minutes", writes);
	ok(!pod_object("j-launcher"), "no launcher without it");
	sim_api_clear_faults(api);
	ok(WITHIN(200000, is_pod("j-launcher", "Running")), "it goes on by itself");
	end();
}

static void test_lost_answers(void)
{
	static const char *const faults[] = {
		"{\"verb\":\"create\",\"resource\":\"pods\",\"count\":2,\"kind\":\"lose\"}",
		"{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":3,\"kind\":\"lose\"}",
		"{\"verb\":\"create\",\"resource\":\"pods\",\"count\":2,\"kind\":\"hang\"}",
		"{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":2,\"kind\":\"garbage\"}",
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		row_begin("%s", faults[i]);
		begin();
		inject_api(faults[i]);
		make_job("j", "");
		ok(WITHIN(200000, is_job("j", "Completed")), "Completed");
		ok(WITHIN(60000, is_free()), "its IPUs are free");
		end();
	}
}

/* What was written takes effect, and the answer is lost: it's told and counted all the same, once.
 */
static void test_lost_tellings(void)
{
	row_begin("a suspension");
	begin();
	inject_api("{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":6,\"kind\":\"lose\"}");
	make_job("j", ",\"suspend\":true");
	ok(WITHIN(200000, is_job("j", "Suspended")), "Suspended");
	ok(WITHIN(60000, n_events("JobSuspended") == 1), "told");
	sim_api_clear_faults(api);
	edit_job("j", "{\"spec\":{\"suspend\":false}}");
	ok(WITHIN(200000, is_job("j", "Completed")), "Completed");
	WITHIN(60000, false);
	is_uint(n_events("JobSuspended"), 1, "once");
	is_uint(n_events("JobCompleted"), 1, "and so is what follows");
	end();

	row_begin("an end");
	begin();
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	inject_api("{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":0,\"kind\":\"lose\"}");
	ok(WITHIN(200000, is_job("j", "Completed")), "Completed");
	ok(WITHIN(60000, n_events("JobCompleted") == 1), "told");
	end();
}

/* A CRD of an older release drops fields of the status: they aren't written for ever. */
static void test_older_crd(void)
{
	char path[] = "/tmp/ipu-older-crd-XXXXXX";
	CLEANUP_FREE char *shipped = xasprintf("%s/crds/graphcore.ai_ipujobs.yaml",
					       getenv("TOP_SRCDIR") ? getenv("TOP_SRCDIR") : ".");
	FILE *from = fopen(shipped, "re"), *to;
	char line[4096];
	int fd = mkstemp(path), skip = 0;
	int64_t writes;

	row_begin("an older CRD");
	to = fd < 0 ? NULL : fdopen(fd, "w");
	if (!from || !to)
		bail_out("the CRD");
	while (fgets(line, sizeof(line), from)) {
		size_t indent = strspn(line, " ");

		if (strstr(line, " observedGeneration:") || strstr(line, " startTime:") ||
		    strstr(line, " instances:"))
			skip = (int)indent;
		else if (skip && (int)indent <= skip)
			skip = 0;
		if (!skip)
			fputs(line, to);
	}
	fclose(from);
	fclose(to);
	begin_with(path);
	unlink(path);
	set_kubelet("{\"runMs\":0}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	ok(!json_at(job_json("j"), "status", "observedGeneration", NULL), "a field isn't kept");
	ok(!json_at(job_json("j"), "status", "instances", NULL), "nor is what is remembered");
	turns(100, 10);
	writes = all_writes();
	for (int i = 0; i < 10; i++) {
		edit_job("j", i % 2 ? "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}"
				    : "{\"metadata\":{\"labels\":null}}");
		WITHIN(3000, false);
	}
	is_int(all_writes() - writes, 0, "looks don't write it again");
	sim_api_delete_now(api, pod_object("j-worker-0"));
	ok(WITHIN(20000, is_job("j", "Failed")), "what changes is, and what was is known");
	end();
}

/* ---- crashes ---- */

static void test_crashes(void)
{
	unsigned moment;
	bool good = true;

	row_begin("killed at each moment");
	for (moment = 0; moment < 360 && good; moment += 5) {
		CLEANUP_FREE char *uid = NULL;

		begin();
		set_kubelet("{\"runMs\":1500}");
		make_job("j", "");
		turns(moment, 10);
		process_end();
		make_client();
		if (pod_object("j-worker-0"))
			uid = xstrdup(pod_object("j-worker-0")->uid);
		process_begin();
		good = WITHIN(120000, is_job("j", "Completed")) && WITHIN(120000, is_free());
		if (!good || (uid && (!pod_object("j-worker-0") ||
				      strcmp(pod_object("j-worker-0")->uid, uid) != 0)))
			fail("after %u turns: %s, %s", moment, job_status("j", "launcherStatus"),
			     job_status("j", "lastMessage"));
		end();
	}
	ok(good, "%u moments", moment / 5);
	row_end();
}

/* Looks at a job that has nothing new about it: no request, and no memory that stays. */
static void test_idle(void)
{
	static const char *const shapes[] = {
		"\"jobInstances\":16",
		"\"ipusPerJobInstance\":\"64\",\"workersPerJobInstance\":\"16\"",
	};
	struct partition_owner owner = {
		.kind = TEXT("IPUJob"), .ns = TEXT("default"), .name = TEXT("j")};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		CLEANUP_FREE char *spec = xasprintf("{\"spec\":{%s}}", shapes[i]);
		int64_t requests = 0, looks = 0;
		size_t bytes = 0;

		row_begin("a thousand looks, %s", shapes[i]);
		begin();
		set_kubelet("{\"runMs\":0}");
		make_job("j", "");
		edit_job("j", spec);
		ok(WITHIN(60000, is_job("j", "Running")), "Running");
		turns(500, 10);
		for (unsigned n = 0; n < 1100; n++) {
			if (n == 100) {
				requests = all_requests();
				looks = n_looks();
				bytes = mallinfo2().uordblks;
			}
			job_controller_partition_changed(jobs, &owner);
			loop_turn(loop, 0);
		}
		is_int(n_looks() - looks, 1000, "looks");
		is_int(all_requests() - requests, 0, "requests to the API server");
		is_uint(mallinfo2().uordblks, bytes, "bytes in use");
		end();
	}
}

static bool all_are(const char *status, unsigned n)
{
	char name[8];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "j%u", i);
		if (!is_job(name, status))
			return false;
	}
	return true;
}

/* What only tells how far a job has come doesn't go before what brings it further. */
static void test_turns(void)
{
	char name[8];

	row_begin("statuses, while Pods are made");
	begin();
	for (unsigned i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "j%u", i);
		make_job(name, ",\"workersPerJobInstance\":\"4\"");
	}
	ok(WITHIN(20000, api_calls("create pods") == 64), "all are made");
	ok(api_calls("patch ipujobs/status") <= 24, "%" PRId64 " statuses before the last",
	   api_calls("patch ipujobs/status"));
	ok(WITHIN(20000, all_are("Running", 16)), "then all are told");
	end();

	row_begin("a Pod that can't be made");
	begin();
	make_object("pods", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":"
			    "\"j0-worker-0\",\"namespace\":\"default\"}}");
	make_job("j0", "");
	ok(WITHIN(2000, api_calls("create pods") == 1), "is tried");
	ok(WITHIN(700, strstr(job_status("j0", "lastMessage"), "isn't this job's") != NULL),
	   "trouble is told with the next try");
	WITHIN(2300, false);
	ok(api_calls("create pods") <= 4, "news cuts no back-off short: %" PRId64 " tries",
	   api_calls("create pods"));
	end();

	row_begin("a Pod that takes its time");
	begin();
	inject_api("{\"verb\":\"create\",\"resource\":\"pods\",\"count\":1,\"kind\":\"hang\"}");
	make_job("slow", "");
	ok(WITHIN(20000, api_calls("create pods") == 1), "is asked for");
	make_job("other", ",\"suspend\":true");
	ok(WITHIN(1000, is_job("other", "Suspended")), "what is more than news is told at once");
	for (uint32_t size = 4; size <= 32; size *= 2) {
		snprintf(name, sizeof(name), "hand%u", size);
		if (vipu_sim_create_by_hand(sim, name, size, NULL) < 0)
			bail_out("partitions by hand");
	}
	make_job("late", "");
	ok(!WITHIN(1900, job_status("late", "lastMessage")[0]), "news of another gives way");
	ok(WITHIN(1000, strstr(job_status("late", "lastMessage"), "waiting for 4 IPUs") != NULL),
	   "but not for long");
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(5);
	test_life();
	test_idle();
	test_ends();
	test_waits();
	test_measures();
	test_group_api_gone();
	test_counts();
	test_deletions();
	test_scale();
	test_full_pod();
	test_conflict();
	test_broken_spec();
	test_refusals();
	test_launcher_refused();
	test_lost_answers();
	test_lost_tellings();
	test_older_crd();
	test_crashes();
	test_turns();
	return done_testing();
}
