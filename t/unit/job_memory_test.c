/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job without memory: each allocation on its way whose size a peer decides fails once. It runs
 * all the same, with all that belongs to it, and nothing is left of it.
 */
#define TAP_DEADLINE_S 600
#include "job_controller_rig.h"

#include "core/fault.h"

#define MOST    4000
#define NEXT(n) ((n) + 1 + (n) / 40)

/* What is made from the text of its spec: the warning, the account, the Pods. */
static void make_whole_job(const char *name)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"graphcore.ai/v1alpha1\",\"kind\":\"IPUJob\",\"metadata\":{"
		"\"name\":\"%s\",\"namespace\":\"default\"},\"spec\":{\"jobInstances\":1,"
		"\"ipusPerJobInstance\":\"4\",\"cleanPodPolicy\":\"All\",\"launcher\":{\"command\":"
		"[\"mpirun\"]},\"workers\":{\"template\":{\"spec\":{\"restartPolicy\":\"OnFailure\","
		"\"serviceAccountName\":\"puller\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]"
		"}}}}}",
		name);

	make_of(ipujobs(), json);
}

static size_t secrets_of(const char *name)
{
	CLEANUP_FREE char *account = xasprintf("%s-launcher", name);
	struct sim_object *o = sim_objects_get(objects,
					       sim_resource_find(STR(""), STR("serviceaccounts")),
					       STR("default"), str_of(account));

	return o ? json_len(json_get(sim_object_json(o), "imagePullSecrets")) : 0;
}

int main(void)
{
	unsigned tries = 0, late = 0, unwarned = 0, poor = 0, left = 0;
	unsigned long n;
	bool whole = false;

	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(5);
	begin();
	set_kubelet("{\"runMs\":0}");
	make_object(
		"serviceaccounts",
		"{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\",\"metadata\":{\"name\":"
		"\"puller\",\"namespace\":\"default\"},\"imagePullSecrets\":[{\"name\":\"r\"}]}");
	for (n = 1; !whole && n < MOST; n = NEXT(n)) {
		CLEANUP_FREE char *name = xasprintf("j%lu", n);
		CLEANUP_FREE char *launcher = xasprintf("%s-launcher", name);

		tries++;
		make_whole_job(name);
		fault_alloc_fail_at(n);
		if (!WITHIN(60000, is_job(name, "Running") && is_pod(launcher, "Running"))) {
			diag("allocation %lu: %s: %s", n, job_status(name, "launcherStatus"),
			     job_status(name, "lastMessage"));
			late++;
		}
		if (!WITHIN(20000, n_events("RestartPolicyIgnored") + unwarned == tries)) {
			diag("allocation %lu: no warning", n);
			unwarned++;
		}
		if (secrets_of(name) != 1) {
			diag("allocation %lu: its launcher's account has no secret", n);
			poor++;
		}
		whole = fault_alloc_count() < n;
		fault_alloc_fail_at(0);
		delete_job(name);
		left += !WITHIN(60000, !job_json(name) && is_free());
		turns(650, 1000); /* back-offs are over */
	}
	ok(n > 100 && whole, "it takes no more than %lu allocations", n);
	is_uint(late, 0, "it runs each time");
	is_uint(unwarned, 0, "its user is warned");
	is_uint(poor, 0, "its launcher's image can be pulled");
	is_uint(left, 0, "and nothing is left");
	end();
	return done_testing();
}
