/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of annotated Pods, with the partition layer under it, against a simulated API
 * server, kubelet and V-IPU controller: Pods from their creation to their end, and what comes
 * between.
 */
#include "pod_rig.h"

/* ---- a life ---- */

static void test_life(void)
{
	static const char *const events[] = {"PartitionRequested", "PartitionActive",
					     "PartitionReleased"};
	CLEANUP_FREE char *id = NULL;
	const struct json *data;

	row_begin("a life");
	begin();
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	ok(!is_gated("p"), "its gate is open");
	id = xstrdup(note_of("p", "graphcore.ai/partition"));
	ok(strncmp(id, "p-default-0-", 12) == 0, "its partition is named: %s", id);
	is_str(json_cstr(json_at(pod_json("p"), "spec", "nodeSelector", "pod", NULL)), "a",
	       "the nodes of its controller");
	is_str(note_of("p", "graphcore.ai/node-selector"), "pod=a", "… as ours");
	is_str(note_of("p", "graphcore.ai/waiting"), "", "it never had to wait");
	data = json_get(files_json(TOKEN_A), "data");
	ok(json_get(data, "ipuof-0.conf"), "its ConfigMap has the configuration");
	is_str(json_cstr(json_get(data, "IPUOF_CONFIG_PATH")), "/etc/ipuof.conf.d/partition.conf",
	       "… and its path");
	ok(kube_is_owned_by(files_json(TOKEN_A), kube_uid(pod_json("p"))), "… and is the Pod's");
	ok(WITHIN(20000, is_pod("p", "Succeeded")), "it ends");
	ok(WITHIN(20000, is_free()), "its IPUs are free");
	WITHIN(2000, false);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		is_uint(n_events(events[i]), 1, "Event %s", events[i]);
	is_int(api_calls("patch pods"), 1, "one write of the Pod");
	is_int(api_calls("create configmaps"), 2, "… and of its ConfigMap, beside the tracker's");
	is_int(api_calls("get pods"), 0, "nobody had to ask for it");
	is_idle(300000, 0, "when all is over");
	sim_api_delete_now(api, object_of("pods", "p"));
	WITHIN(1000, false);
	ok(!files_json(TOKEN_A), "its ConfigMap goes with it");
	end();

	row_begin("by address");
	ipuof = "api";
	begin();
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	data = json_get(files_json(TOKEN_A), "data");
	is_str(json_cstr(json_get(data, "IPUOF_VIPU_API_HOST")), "127.0.0.1", "the address");
	is_str(json_cstr(json_get(data, "IPUOF_VIPU_API_PARTITION_ID")),
	       note_of("p", "graphcore.ai/partition"), "the partition");
	is_uint(json_len(data), 3, "and no files");
	end();
	ipuof = NULL;
}

static void test_waits(void)
{
	row_begin("no room, for a while");
	begin();
	if (vipu_sim_create_by_hand(sim, "hand", 64, NULL) < 0)
		bail_out("a partition by hand");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000,
		  strncmp(note_of("p", "graphcore.ai/waiting"), "WaitingForIPUs: ", 16) == 0),
	   "is said at the Pod: %s", note_of("p", "graphcore.ai/waiting"));
	ok(WITHIN(5000, n_events("WaitingForIPUs") == 1), "with an Event");
	is_idle(300000, 0, "while it waits");
	ok(is_gated("p"), "behind its gate");
	restart();
	WITHIN(20000, false);
	is_uint(n_events("WaitingForIPUs"), 1, "another process doesn't tell it again");
	vipu_sim_remove_by_hand(sim, "hand", NULL);
	ok(WITHIN(60000, is_pod("p", "Running")), "it goes on by itself");
	is_str(note_of("p", "graphcore.ai/waiting"), "", "and waits no more");
	end();

	row_begin("behind another gate");
	begin();
	make_pod("p", TOKEN_A);
	edit("pods", "p",
	     "{\"spec\":{\"schedulingGates\":[{\"name\":\"" JOB_GATE "\"},{\"name\":"
	     "\"kueue.x-k8s.io/admission\"}]}}");
	ok(WITHIN(20000, strncmp(note_of("p", "graphcore.ai/waiting"), "OtherGates", 10) == 0),
	   "is said");
	ok(WITHIN(20000, is_free()), "it holds nothing");
	edit("pods", "p", "{\"spec\":{\"schedulingGates\":[{\"name\":\"" JOB_GATE "\"}]}}");
	ok(WITHIN(60000, is_pod("p", "Running")), "it goes on when that is open");
	end();
}

static void test_names(void)
{
	char name[254];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	row_begin("the longest name");
	begin();
	make_pod(name, TOKEN_A);
	ok(WITHIN(20000, is_pod(name, "Succeeded")), "it runs");
	ok(strlen(note_of(name, "graphcore.ai/partition")) <= PARTITION_ID_MAX,
	   "its partition has a name that Poplar takes");
	ok(WITHIN(20000, is_free()), "its IPUs are free");
	WITHIN(2000, false);
	is_uint(n_events("PartitionReleased"), 1, "its Events are taken");
	end();
}

/* ---- ends ---- */

static void test_ends(void)
{
	static const struct {
		const char *name, *kubelet, *phase;
	} rows[] = {
		{"fails", "{\"exitCode\":3}", "Failed"},
		{"is evicted", "{\"evict\":true}", "Failed"},
		{"succeeds", "{}", "Succeeded"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		begin();
		set_kubelet(rows[i].kubelet);
		make_pod("p", TOKEN_A);
		ok(WITHIN(20000, is_pod("p", rows[i].phase)), "%s", rows[i].phase);
		ok(WITHIN(20000, is_free()), "its IPUs are free");
		end();
	}

	/* A ConfigMap that is written when its Pod has just gone is the garbage collector's. */
	row_begin("deleted at each moment");
	for (unsigned moment = 0; moment < 180; moment += 3) {
		begin();
		set_kubelet("{\"runMs\":0}");
		make_pod("p", TOKEN_A);
		turns(moment, 10);
		delete_pod("p");
		if (!WITHIN(60000, is_free() && !pod_json("p")))
			fail("after %u turns: something is left", moment);
		end();
	}

	row_begin("removed without its node's word");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	sim_api_delete_now(api, object_of("pods", "p"));
	ok(WITHIN(20000, is_free()), "its IPUs are free");
	ok(WITHIN(5000, n_events("PartitionReleased") == 1), "which is told");
	end();

	row_begin("its node is lost");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	if (sim_kubelet_lose_node(kubelet, "sim0", 1000, 1000, NULL) < 0)
		bail_out("a lost node");
	ok(WITHIN(20000, kube_is_deleting(pod_json("p"))), "it's deleted");
	WITHIN(80000, false);
	is_uint(vipu_sim_len(sim), 1, "its containers may run");
	ok(WITHIN(30000, is_free()), "but not for ever");
	ok(pod_json("p") != NULL, "the Pod is left to Kubernetes");
	ok(WITHIN(5000, n_events("NodeLost") == 1), "which is told");
	end();

	row_begin("its node is lost, and waits are shorter from now on");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	if (sim_kubelet_lose_node(kubelet, "sim0", 1000, 1000, NULL) < 0)
		bail_out("a lost node");
	ok(WITHIN(20000, kube_is_deleting(pod_json("p"))), "it's deleted");
	WITHIN(50000, false);
	is_uint(vipu_sim_len(sim), 1, "its containers may run");
	pod_controller_set(controller, 1000);
	ok(WITHIN(2000, n_events("NodeLost") == 1), "it's looked at at once");
	ok(WITHIN(5000, is_free()), "and its IPUs are free");
	end();
}

static void test_operator_away(void)
{
	static const char *const how[] = {"ends", "is deleted", "is replaced by another one"};

	for (int i = 0; i < 3; i++) {
		row_begin("the operator is away when it %s", how[i]);
		begin();
		set_kubelet(i == 0 ? "{\"runMs\":3000}" : "{\"runMs\":0}");
		make_pod("p", TOKEN_A);
		ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
		process_end();
		if (i > 0)
			sim_api_delete_now(api, object_of("pods", "p"));
		if (i == 2)
			make_pod_as("p", &(struct wish){.open = true});
		WITHIN(10000, false);
		make_client();
		process_begin();
		ok(WITHIN(20000, is_free()), "its IPUs are free");
		end();
	}

	row_begin("killed at each moment");
	for (unsigned moment = 0; moment < 200; moment += 2) {
		begin();
		set_kubelet("{\"runMs\":0}");
		make_pod("p", TOKEN_A);
		turns(moment, 10);
		restart();
		if (!WITHIN(60000, is_pod("p", "Running") && n_entries() == 1))
			fail("after %u turns: it doesn't run", moment);
		else if (!WITHIN(90000, vipu_sim_len(sim) == 1))
			fail("after %u turns: a partition is left over", moment);
		else if (!json_get(tracker_data(), note_of("p", "graphcore.ai/partition")))
			fail("after %u turns: it runs on another partition", moment);
		delete_pod("p");
		turns(moment % 20, 10);
		restart();
		if (!WITHIN(60000, is_free()))
			fail("after %u turns: something is left", moment);
		end();
	}

	row_begin("the tracker is lost while it's away");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	process_end();
	guarded = false;
	sim_api_delete_now(api, tracker_object());
	make_client();
	process_begin();
	ok(WITHIN(60000, n_entries() == 1), "the partition that it runs on is taken over");
	ok(json_get(tracker_data(), note_of("p", "graphcore.ai/partition")), "that very one");
	guarded = true;
	delete_pod("p");
	ok(WITHIN(60000, is_free()), "its IPUs are free in the end");
	end();
}

/* ---- what people do ---- */

static void test_copies(void)
{
	row_begin("a copy");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "the first one runs");
	make_pod("copy", TOKEN_A);
	ok(WITHIN(20000, strncmp(note_of("copy", "graphcore.ai/waiting"), "TokenTaken", 10) == 0),
	   "the copy is refused");
	ok(WITHIN(5000, n_events("TokenTaken") == 1), "with an Event");
	delete_pod("copy");
	WITHIN(20000, false);
	ok(!pod_json("copy") && vipu_sim_len(sim) == 1, "its end releases nothing");
	make_pod("copy", TOKEN_A);
	WITHIN(5000, false);
	restart();
	WITHIN(10000, false);
	ok(is_gated("copy") && is_pod("p", "Running"), "another process knows which is which");
	delete_pod("p");
	ok(WITHIN(60000, is_pod("copy", "Running")), "when the first one has gone, it's the next");
	end();

	row_begin("the same token in another namespace");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_object("namespaces", "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
				  "\"metadata\":{\"name\":\"other\"}}");
	make_object("pods", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\","
			    "\"namespace\":\"other\",\"labels\":{\"graphcore.ai/pod\":\"" TOKEN_A
			    "\"},\"annotations\":{\"graphcore.ai/ipu\":\"2\"}},\"spec\":{"
			    "\"schedulingGates\":[{\"name\":\"" JOB_GATE "\"}]," DEFAULTS
			    "\"containers\":[{"
			    "\"name\":\"c\",\"image\":\"i\"}]}}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "is no copy");
	is_uint(vipu_sim_len(sim), 2, "both have their IPUs");
	WITHIN(2000, false);
	is_idle(300000, 0, "while they run");
	end();
}

static void test_labels(void)
{
	row_begin("its label is taken away while it runs");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	edit("pods", "p", "{\"metadata\":{\"labels\":null}}");
	is_idle(290000, 6, "it's asked for once a minute");
	is_uint(vipu_sim_len(sim), 1, "its IPUs are still its own");
	edit("pods", "p", "{\"status\":{\"phase\":\"Succeeded\"}}");
	ok(WITHIN(90000, is_free()), "when it has ended, they are free");
	end();

	row_begin("bad annotations");
	begin();
	make_pod_as("p", &(struct wish){.token = TOKEN_A, .ipus = "3"});
	make_pod_as("q", &(struct wish){.token = "foo"});
	ok(WITHIN(5000, n_events("InvalidAnnotation") == 2), "are told");
	has_str(note_of("p", "graphcore.ai/waiting"), "power of two", "the number");
	has_str(note_of("q", "graphcore.ai/waiting"), "isn't a token", "the label");
	is_idle(120000, 0, "and no more");
	edit("pods", "p", "{\"metadata\":{\"annotations\":{\"graphcore.ai/ipus\":\"2\"}}}");
	ok(WITHIN(20000, is_pod("p", "Running")), "mended, it goes on");
	end();

	row_begin("another number while it waits");
	begin();
	if (vipu_sim_create_by_hand(sim, "hand", 32, NULL) < 0)
		bail_out("a partition by hand");
	make_pod_as("p", &(struct wish){.token = TOKEN_A, .ipus = "64"});
	ok(WITHIN(20000, n_events("WaitingForIPUs") == 1), "it waits");
	edit("pods", "p", "{\"metadata\":{\"annotations\":{\"graphcore.ai/ipus\":\"8\"}}}");
	ok(WITHIN(20000, is_pod("p", "Running")), "it's another ask");
	end();
}

static void test_own_asks(void)
{
	struct partition_ask ask = {
		.owner = {.kind = TEXT("Pod"), .ns = TEXT("default"), .name = TEXT("p")},
		.ipus = 2,
		.options = pod_partition_options,
	};
	CLEANUP_FREE char *uid = NULL;

	row_begin("a Pod that asked by REST");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod_as("p", &(struct wish){.open = true});
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	ask.owner.uid = uid = str_dup(kube_uid(pod_json("p")));
	partition_ensure(parts, &ask);
	ok(WITHIN(20000, n_entries() == 1), "it has its IPUs");
	WITHIN(600000, false);
	ok(api_calls("get pods") <= 11, "it's asked for once a minute: %" PRId64 " times",
	   api_calls("get pods"));
	is_uint(n_entries(), 1, "as long as it's there");
	edit("pods", "p", "{\"status\":{\"phase\":\"Failed\"}}");
	ok(WITHIN(90000, is_free()), "when it has ended, they are free");
	end();

	row_begin("a Pod in mode init");
	begin();
	make_pod_as("p", &(struct wish){.token = TOKEN_A, .open = true});
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	free(uid);
	ask.owner.uid = uid = str_dup(kube_uid(pod_json("p")));
	partition_ensure(parts, &ask);
	ok(WITHIN(20000, is_pod("p", "Succeeded")), "it ends");
	ok(WITHIN(20000, is_free()), "its IPUs are free");
	is_int(api_calls("patch pods"), 0, "nothing was written at it");
	is_int(api_calls("get pods"), 0, "nor asked");
	ok(!files_json(TOKEN_A), "it needs no ConfigMap");
	end();

	row_begin("an ask for a Pod that is gone");
	begin();
	WITHIN(2000, false);
	ask.owner.uid = TEXT("nobody");
	partition_ensure(parts, &ask);
	ok(WITHIN(20000, api_calls("get pods") == 1), "it's asked for");
	WITHIN(5000, false);
	ok(is_free(), "and given up");
	end();
}

static void test_selectors(void)
{
	row_begin("its own node selector");
	begin();
	make_pod_as("p",
		    &(struct wish){.token = TOKEN_A,
				   .spec = ",\"nodeSelector\":{\"pod\":\"b\",\"disk\":\"ssd\"}"});
	ok(WITHIN(20000, n_events("NodeSelectorConflict") == 1), "stands against the controller's");
	has_str(note_of("p", "graphcore.ai/waiting"), "pod=b", "which is said");
	ok(WITHIN(20000, is_free()), "it holds no IPUs meanwhile");
	ok(is_gated("p"), "and stays behind its gate");
	WITHIN(1800000, false);
	ok(n_events("PartitionRequested") <= 8, "it's tried again now and then: %u times",
	   n_events("PartitionRequested"));
	ok(is_gated("p"), "and stays behind its gate");
	delete_pod("p");
	ok(WITHIN(20000, is_free()), "nothing is left");
	end();

	row_begin("the same as the controller's");
	begin();
	make_pod_as("p",
		    &(struct wish){.token = TOKEN_A, .spec = ",\"nodeSelector\":{\"pod\":\"a\"}"});
	ok(WITHIN(20000, is_pod("p", "Running")), "is no conflict");
	is_str(note_of("p", "graphcore.ai/node-selector"), "", "and isn't ours");
	end();
}

static void test_limits(void)
{
	struct partition_ask ask = {
		.owner = {.kind = TEXT("Pod"), .ns = TEXT("default"), .name = TEXT("p")},
		.ipus = 2,
		.options = pod_partition_options,
	};
	CLEANUP_FREE char *uid = NULL;
	int64_t s;

	row_begin("a namespace's time");
	rules = (struct partition_rules){.fallback = partition_policy_none};
	rules.fallback.default_deadline_s = 3600;
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	make_pod_as("q", &(struct wish){.token = TOKEN_B, .spec = ",\"activeDeadlineSeconds\":60"});
	ok(WITHIN(20000, is_pod("p", "Running") && is_pod("q", "Running")), "both run");
	is_int(json_int(json_at(pod_json("p"), "spec", "activeDeadlineSeconds", NULL), 0), 3600,
	       "is that of a Pod that names none");
	is_int(json_int(json_at(pod_json("q"), "spec", "activeDeadlineSeconds", NULL), 0), 60,
	       "one that names its own keeps it");
	end();

	row_begin("a namespace's time, of one that asked by itself");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod_as("p", &(struct wish){.token = TOKEN_A, .open = true});
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	WITHIN(10000, false);
	ask.owner.uid = uid = str_dup(kube_uid(pod_json("p")));
	partition_ensure(parts, &ask);
	ok(WITHIN(20000,
		  json_get(json_get(pod_json("p"), "spec"), "activeDeadlineSeconds") != NULL),
	   "it gets one");
	s = json_int(json_at(pod_json("p"), "spec", "activeDeadlineSeconds", NULL), 0);
	ok(s >= 3609 && s <= 3620, "from when it had its IPUs: %" PRId64 " s", s);
	end();
	rules = (struct partition_rules){.fallback = partition_policy_none};
}

/* ---- what goes wrong ---- */

/* A Pod that was held back since somebody's ConfigMap had the name of its own, which has gone. */
static void begin_behind_a_name(void)
{
	begin();
	make_object("configmaps", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
				  "\"name\":\"ipuof-" TOKEN_A "\",\"namespace\":\"default\"}}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, n_events("NameConflict") == 1), "is told");
	ok(WITHIN(20000, is_free()), "it holds no IPUs meanwhile");
	sim_api_delete_now(api, object_of("configmaps", "ipuof-" TOKEN_A));
}

static void test_loss(void)
{
	CLEANUP_FREE char *id = NULL;

	row_begin("its partition vanishes while it runs");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	id = xstrdup(note_of("p", "graphcore.ai/partition"));
	vipu_sim_remove_by_hand(sim, id, NULL);
	ok(WITHIN(90000, n_events("PartitionVanished") == 1), "is told");
	WITHIN(60000, false);
	ok(is_pod("p", "Running") && vipu_sim_len(sim) == 0, "nothing is done under it");
	restart();
	WITHIN(20000, false);
	is_uint(n_events("PartitionVanished"), 1, "nor told twice");
	is_uint(vipu_sim_len(sim), 0, "nor replaced");
	delete_pod("p");
	ok(WITHIN(20000, is_free()), "in the end nothing is left");
	end();

	row_begin("its ConfigMap is deleted while it runs");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, is_pod("p", "Running")), "it runs");
	sim_api_delete_now(api, object_of("configmaps", "ipuof-" TOKEN_A));
	ok(WITHIN(20000, files_json(TOKEN_A) != NULL), "it's written again");
	edit("configmaps", "ipuof-" TOKEN_A, "{\"data\":{\"x\":\"y\"}}");
	ok(WITHIN(20000, json_len(json_get(files_json(TOKEN_A), "data")) == 2), "also when edited");
	end();

	row_begin("a ConfigMap of its name is there");
	begin_behind_a_name();
	ok(WITHIN(120000, is_pod("p", "Running")), "when it's gone, the Pod goes on");
	end();

	row_begin("the clock is set back while it's held back");
	begin_behind_a_name();
	clock_freeze(clock_mono_ms(), clock_wall_ms() - 3600000);
	ok(WITHIN(120000, is_pod("p", "Running")), "it waits no longer for that");
	end();

	row_begin("the controller is emptied while it waits at its gate");
	begin();
	inject_api("{\"verb\":\"create\",\"resource\":\"configmaps\",\"skip\":1,\"count\":3,"
		   "\"kind\":\"status\",\"status\":500}");
	make_pod("p", TOKEN_A);
	ok(WITHIN(20000, n_events("PartitionActive") == 1), "it has its partition");
	configure_fleet(true);
	ok(WITHIN(60000, is_free() || n_waits() == 1), "gives it back");
	ok(is_gated("p"), "and waits");
	configure_fleet(false);
	ok(WITHIN(60000, is_pod("p", "Running")), "it goes on");
	end();
}

static void test_refusals(void)
{
	static const struct {
		const char *name, *fault, *event;
	} rows[] = {
		{"its opening is refused",
		 "{\"verb\":\"patch\",\"resource\":\"pods\",\"count\":1,\"kind\":\"status\","
		 "\"status\":422,\"message\":\"no\"}",
		 "PodRefused"},
		{"its ConfigMap is refused",
		 "{\"verb\":\"create\",\"resource\":\"configmaps\",\"skip\":1,\"count\":1,\"kind\":"
		 "\"status\",\"status\":403,\"message\":\"exceeded quota\"}",
		 "ConfigMapRefused"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		begin();
		inject_api(rows[i].fault);
		make_pod("p", TOKEN_A);
		ok(WITHIN(20000, n_events(rows[i].event) == 1), "is told");
		ok(WITHIN(20000, is_free()), "its IPUs are free meanwhile");
		ok(WITHIN(90000, is_pod("p", "Running")), "it's tried again");
		end();
	}
}

static void test_lost_answers(void)
{
	static const char *const faults[] = {
		"{\"kind\":\"lose\",\"verb\":\"patch\",\"resource\":\"pods\",\"count\":1}",
		"{\"kind\":\"lose\",\"verb\":\"create\",\"resource\":\"configmaps\",\"count\":2}",
		"{\"kind\":\"hang\",\"verb\":\"patch\",\"resource\":\"pods\",\"count\":1}",
		"{\"kind\":\"status\",\"status\":409,\"verb\":\"patch\",\"count\":2}",
		"{\"kind\":\"status\",\"status\":503,\"count\":5}",
		"{\"kind\":\"cut\",\"verb\":\"patch\",\"count\":3}",
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		row_begin("%s", faults[i]);
		begin();
		set_kubelet("{\"runMs\":0}");
		WITHIN(1000, false);
		inject_api(faults[i]);
		make_pod("p", TOKEN_A);
		ok(WITHIN(120000, is_pod("p", "Running")), "it runs all the same");
		sim_api_clear_faults(api);
		ok(json_get(tracker_data(), note_of("p", "graphcore.ai/partition")),
		   "on its own partition");
		is_uint(vipu_sim_len(sim), 1, "and there's no other");
		end();
	}
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(5);
	rules = (struct partition_rules){.fallback = partition_policy_none};
	test_life();
	test_waits();
	test_names();
	test_ends();
	test_operator_away();
	test_copies();
	test_labels();
	test_own_asks();
	test_selectors();
	test_limits();
	test_loss();
	test_refusals();
	test_lost_answers();
	return done_testing();
}
