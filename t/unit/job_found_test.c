/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job controller, and what it finds that isn't its own doing: jobs of other namespaces and of
 * Graphcore's operator, partitions of jobs that are gone.
 */
#include "job_controller_rig.h"

static void test_namespace(void)
{
	row_begin("one namespace only");
	only_ns = "other";
	begin();
	make_job("j", "");
	WITHIN(10000, false);
	is_str(job_status("j", "lastMessage"), "", "others are left alone");
	is_int(api_calls("patch ipujobs") + api_calls("patch ipujobs/status"), 0,
	       "nothing is written");
	end();
	only_ns = NULL;

	row_begin("one namespace only, and partitions of another one's job");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	process_end();
	make_client();
	only_ns = "other";
	process_begin();
	ok(!WITHIN(60000, vipu_sim_len(sim) != 1 || n_entries() != 1), "it keeps its IPUs");
	end();
	only_ns = NULL;
}

/* A job with that launcherStatus, and what Graphcore's operator left as its record. */
static void begin_after_older(const char *launcher_status)
{
	CLEANUP_FREE char *status = xasprintf("{\"status\":{\"launcherStatus\":\"%s\"}}",
					      launcher_status);

	begin();
	turns(100, 10);
	process_end();
	make_client();
	sim_objects_remove(objects, tracker_object());
	make_object("configmaps", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
				  "\"name\":\"" TRACKER "\",\"namespace\":\"" NS "\"},"
				  "\"data\":{\"tracker\":\"something of its own\"}}");
	make_job("j", "");
	edit_job("j", status);
	turns(300, 10);
	process_begin();
}

static void test_older(void)
{
	struct err err = ERR_INIT;

	row_begin("a job that Graphcore's operator runs");
	begin_after_older("Running");
	if (vipu_sim_create_by_hand(sim, "p-j-default-0", 4, &err) < 0)
		bail_out(err.msg);
	guarded = false; /* the simulator knows it as made by hand */
	ok(WITHIN(20000, n_events("RunByAnother") == 1 && n_entries() == 1),
	   "its partition is kept for it, and that's said");
	WITHIN(60000, false);
	ok(!pod_object("j-worker-0") && n_events("RunByAnother") == 1, "once, and nothing else");
	is_uint(vipu_sim_calls(sim, VIPU_CREATE_PARTITION), 0, "no other one is made");
	delete_job("j");
	ok(WITHIN(60000, is_free()), "and it goes with the job");
	guarded = true;
	end();

	row_begin("a job that it hadn't begun");
	begin_after_older("Pending");
	ok(WITHIN(20000, is_job("j", "Running")), "is run");
	is_uint(n_events("RunByAnother"), 0, "as any other");
	end();
}

static void test_replaced_unseen(void)
{
	row_begin("another job under its name, while nobody looks");
	begin();
	set_kubelet("{\"runMs\":0}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	process_end();
	make_client();
	sim_objects_remove(objects, sim_objects_get(objects, ipujobs(), STR("default"), STR("j")));
	sim_api_delete_now(api, pod_object("j-worker-0"));
	make_job("j", ",\"suspend\":true");
	process_begin();
	ok(WITHIN(60000, is_free()), "the first one's IPUs are free");
	end();
}

/* As a request for a job that is gone does, which comes late. */
static void test_late_ask(void)
{
	struct partition_ask ask = {.owner = {.kind = TEXT("IPUJob"),
					      .ns = TEXT("default"),
					      .name = TEXT("gone"),
					      .uid = TEXT("uid-of-gone")},
				    .ipus = 4,
				    .options = {.gcds = 1}};

	row_begin("asked for on behalf of a job that is gone");
	begin();
	make_job("j", "");
	ok(WITHIN(10000, vipu_sim_len(sim) == 1), "another one is served");
	partition_ensure(parts, &ask);
	ok(WITHIN(60000, partition_held(parts, "uid-of-gone") == 0), "it's released");
	is_int((int)vipu_sim_len(sim), 1, "the other keeps its own");
	ask.owner.kind = TEXT("Pod");
	ask.owner.uid = TEXT("uid-of-a-pod");
	partition_ensure(parts, &ask);
	ok(!WITHIN(20000, partition_held(parts, "uid-of-a-pod") == 0), "a Pod's is no job's");
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(5);
	test_namespace();
	test_replaced_unseen();
	test_older();
	test_late_ask();
	return done_testing();
}
