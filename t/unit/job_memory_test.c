/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job without memory: each allocation on its way whose size a peer decides fails once. It runs
 * all the same, with all that belongs to it, and nothing is left of it.
 */
#include "job_controller_rig.h"
#include "no_memory.h"

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
	unsigned late = 0, unwarned = 0, poor = 0, left = 0;
	struct no_memory m = {.sparse = 40, .most = 4000};

	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(5);
	begin();
	set_kubelet("{\"runMs\":0}");
	make_object(
		"serviceaccounts",
		"{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\",\"metadata\":{\"name\":"
		"\"puller\",\"namespace\":\"default\"},\"imagePullSecrets\":[{\"name\":\"r\"}]}");
	while (no_memory_next(&m)) {
		CLEANUP_FREE char *name = xasprintf("j%lu", m.n);
		CLEANUP_FREE char *launcher = xasprintf("%s-launcher", name);

		make_whole_job(name);
		no_memory_begin(&m);
		if (!WITHIN(60000, is_job(name, "Running") && is_pod(launcher, "Running"))) {
			diag("allocation %lu: %s: %s", m.n, job_status(name, "launcherStatus"),
			     job_status(name, "lastMessage"));
			late++;
		}
		if (!WITHIN(20000, n_events("RestartPolicyIgnored") + unwarned == m.tries)) {
			diag("allocation %lu: no warning", m.n);
			unwarned++;
		}
		if (secrets_of(name) != 1) {
			diag("allocation %lu: its launcher's account has no secret", m.n);
			poor++;
		}
		no_memory_end(&m);
		delete_job(name);
		left += !WITHIN(60000, !job_json(name) && is_free());
		turns(650, 1000); /* back-offs are over */
	}
	no_memory_ok(&m, 100);
	is_uint(late, 0, "it runs each time");
	is_uint(unwarned, 0, "its user is warned");
	is_uint(poor, 0, "its launcher's image can be pulled");
	is_uint(left, 0, "and nothing is left");
	end();
	return done_testing();
}
