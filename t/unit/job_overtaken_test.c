/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job controller, where a job is written by others: a status that was made of an older version
 * isn't stored, and the next one is made of what is there.
 */
#include "job_controller_rig.h"

#define STATUSES "patch ipujobs/status"

/* Of requests for a status, by their answer. */
static int64_t n_answers(const char *code)
{
	static const char *const labels[] = {"verb", "resource", "code", NULL};
	const char *values[] = {"patch", "ipujobs", code};

	return (int64_t)metric_value(metric_new(METRIC_COUNTER, "ipu_operator_kube_requests_total",
						"Requests to the Kubernetes API server, by HTTP "
						"status.",
						labels, NULL, 0),
				     values);
}

/* Its watch has broken, and doesn't come again. */
static void blind(void)
{
	inject_api("{\"verb\":\"watch\",\"resource\":\"ipujobs\",\"count\":0,\"kind\":\"cut\"}");
	inject_api("{\"verb\":\"list\",\"resource\":\"ipujobs\",\"count\":0,\"kind\":\"cut\"}");
	sim_api_cut_watches(api);
}

static bool is_edited(void)
{
	return str_eqz(kube_label(job_json("j"), "team"), "a");
}

static void test_unseen(void)
{
	int64_t refused = n_answers("409"), statuses;

	row_begin("a change that the watch hasn't brought");
	begin();
	set_kubelet("{\"runMs\":5000}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	blind();
	edit_job("j", "{\"metadata\":{\"labels\":{\"team\":\"a\"}}}");
	ok(WITHIN(20000, is_pod("j-worker-0", "Succeeded")), "its Pod ends");
	ok(!WITHIN(20000, !is_job("j", "Running")),
	   "a status that was made without it isn't stored");
	ok(n_answers("409") > refused, "but refused");
	statuses = api_calls(STATUSES);
	WITHIN(300000, false);
	statuses = api_calls(STATUSES) - statuses;
	ok(statuses <= 10, "%" PRId64 " tries in five minutes", statuses);
	sim_api_clear_faults(api);
	ok(WITHIN(60000, is_job("j", "Completed")), "it goes on with the watch");
	ok(is_edited(), "and the change is there");
	WITHIN(10000, false);
	is_uint(n_events("JobCompleted"), 1, "told once");
	end();
}

static void test_unanswered(void)
{
	int64_t refused = n_answers("409");

	row_begin("an end that was stored, and not answered");
	begin();
	set_kubelet("{\"runMs\":5000}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	blind();
	inject_api("{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":1,\"kind\":\"lose\"}");
	ok(WITHIN(20000, is_job("j", "Completed")), "Completed");
	WITHIN(20000, false);
	ok(n_answers("409") > refused, "what is sent once more is refused");
	is_uint(n_events("JobCompleted"), 0, "nobody knows of the first");
	sim_api_clear_faults(api);
	ok(WITHIN(60000, n_events("JobCompleted") == 1), "told, when the watch has brought it");
	WITHIN(10000, false);
	is_uint(n_events("JobCompleted"), 1, "once");
	end();
}

/* What the API server has refused hasn't taken effect, whatever is lost after it. */
static void test_refused_and_unanswered(void)
{
	row_begin("an end that was refused, then stored, and not answered");
	begin();
	set_kubelet("{\"runMs\":5000}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	blind();
	inject_api("{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":3,\"kind\":\"status\","
		   "\"status\":403}");
	inject_api("{\"verb\":\"patch\",\"resource\":\"ipujobs\",\"count\":1,\"kind\":\"lose\"}");
	ok(WITHIN(60000, is_job("j", "Completed")), "Completed");
	WITHIN(60000, false);
	is_uint(n_events("JobCompleted"), 0, "nobody knows of it");
	sim_api_clear_faults(api);
	ok(WITHIN(60000, n_events("JobCompleted") == 1), "told, when the watch has brought it");
	WITHIN(10000, false);
	is_uint(n_events("JobCompleted"), 1, "once");
	end();
}

/* An edit each 50 ms, what comes while a status is on its way among them. */
static bool is_completed_in_haste(void)
{
	static int64_t next_ms;
	static unsigned n;
	CLEANUP_FREE char *edit = xasprintf(
		"{\"metadata\":{\"labels\":{\"team\":\"a\",\"n\":\"%u\"}}}", n);

	if (clock_mono_ms() >= next_ms) {
		edit_job("j", edit);
		next_ms = clock_mono_ms() + 50;
		n++;
	}
	return is_job("j", "Completed");
}

static void test_haste(void)
{
	int64_t refused = n_answers("409"), statuses;

	row_begin("somebody who writes all the time");
	begin();
	make_job("j", "");
	ok(WITHIN(60000, is_completed_in_haste()), "Completed");
	statuses = api_calls(STATUSES);
	ok(statuses <= 40, "%" PRId64 " statuses were sent", statuses);
	ok(n_answers("409") > refused, "some of them too late");
	ok(is_edited(), "and the changes are there");
	ok(WITHIN(60000, is_free()), "its IPUs are free");
	end();
}

/* The same job's name, and another one: what was made of the first isn't the second's. */
static void test_another(void)
{
	row_begin("another job of its name");
	begin();
	set_kubelet("{\"runMs\":5000}");
	make_job("j", "");
	ok(WITHIN(20000, is_job("j", "Running")), "Running");
	blind();
	sim_api_delete_now(api, sim_objects_get(objects, ipujobs(), STR("default"), STR("j")));
	make_job("j", ",\"suspend\":true");
	WITHIN(20000, false);
	is_str(job_status("j", "launcherStatus"), "", "has nothing of the first one's");
	sim_api_clear_faults(api);
	ok(WITHIN(60000, is_job("j", "Suspended")), "and its own status with the watch");
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(5);
	test_unseen();
	test_unanswered();
	test_refused_and_unanswered();
	test_haste();
	test_another();
	return done_testing();
}
