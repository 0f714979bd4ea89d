/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who schedules gangs, as a simulated API server says it: nobody asks before a job wants it, what
 * is installed later is found, what goes is noticed, and what can't be read isn't waited for.
 */
#include "partition_rig.h"

#include "job/groups.h"
#include "kube/store.h"

static struct job_groups *groups;
static unsigned n_known, n_changed;
static struct job job;

static void on_known(void *arg)
{
	(void)arg;
	n_known++;
}

static void on_changed(void *arg, const char *job_key)
{
	(void)arg;
	is_str(job_key, "default/j", "news of the job");
	n_changed++;
}

static void begin(const char *name)
{
	static const struct job_groups_ops ops = {on_known, on_changed};

	row_begin("%s", name);
	rig_begin(4);
	job = (struct job){
		.ns = TEXT("default"), .name = TEXT("j"), .uid = TEXT("u"), .group_hash = 7};
	n_known = n_changed = 0;
	groups = job_groups_new(kube, NULL, &ops, NULL);
}

static void end(void)
{
	job_groups_free(groups);
	rig_end();
	row_end();
}

static void install(const char *group, const char *version)
{
	CLEANUP_FREE char *crd = xasprintf(
		"{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
		"\"metadata\":{\"name\":\"podgroups.%s\"},\"spec\":{\"group\":\"%s\",\"scope\":"
		"\"Namespaced\",\"names\":{\"kind\":\"PodGroup\",\"plural\":\"podgroups\","
		"\"singular\":\"podgroup\"},\"versions\":[{\"name\":\"%s\",\"served\":true,"
		"\"storage\":true}]}}",
		group, group, version);

	make_of(sim_resource_find(STR("apiextensions.k8s.io"), STR("customresourcedefinitions")),
		crd);
}

static void install_volcano(void)
{
	install("scheduling.volcano.sh", "v1beta1");
}

static void uninstall(const char *group)
{
	CLEANUP_FREE char *name = xasprintf("podgroups.%s", group);
	struct sim_object *o = sim_objects_get(
		objects,
		sim_resource_find(STR("apiextensions.k8s.io"), STR("customresourcedefinitions")),
		STR_NULL, str_of(name));

	if (!o)
		bail_out(name);
	sim_api_delete_now(api, o);
}

static void test_nobody(void)
{
	begin("a cluster without gang scheduling");
	turns(50, 10);
	ok(!job_groups_known(groups), "nobody asks before a job wants it");
	job_groups_want(groups, &job);
	ok(WITHIN(2000, job_groups_known(groups)), "a job wants it: it's known");
	is_int(job_groups_api(groups, &job), JOB_GROUP_NONE, "that there's nobody");
	is_uint(n_known, 1, "told once");
	end();
}

static void test_later(void)
{
	begin("installed later");
	job_groups_want(groups, &job);
	ok(WITHIN(2000, job_groups_known(groups)), "there's nobody");
	install_volcano();
	job_groups_want(groups, &job);
	turns(50, 10);
	is_int(job_groups_api(groups, &job), JOB_GROUP_NONE, "it isn't asked at once again");
	clock_advance(180000);
	job_groups_want(groups, &job);
	ok(WITHIN(2000,
		  job_groups_api(groups, &job) == JOB_GROUP_VOLCANO && job_groups_known(groups)),
	   "but after some minutes");
	ok(n_known >= 2, "told again");
	end();
}

static void test_both(void)
{
	size_t n;
	const struct job_group **found;

	begin("both are there");
	install_volcano();
	install("scheduling.x-k8s.io", "v1alpha1");
	job_groups_want(groups, &job);
	ok(WITHIN(2000, job_groups_known(groups)), "known when both have been read");
	is_int(job_groups_api(groups, &job), JOB_GROUP_VOLCANO, "Volcano first");
	job.scheduler = TEXT("mine");
	is_int(job_groups_api(groups, &job), JOB_GROUP_COSCHEDULING, "another by its name");
	make_of(sim_resource_find(STR("scheduling.x-k8s.io"), STR("podgroups")),
		"{\"apiVersion\":\"scheduling.x-k8s.io/v1alpha1\",\"kind\":\"PodGroup\",\"metadata\":{"
		"\"name\":\"j-0\",\"namespace\":\"default\",\"labels\":{\"graphcore.ai/job\":\"j\"}}}");
	ok(WITHIN(2000, n_changed == 1), "one that comes is told");
	found = job_groups_of(groups, STR("default/j"), &n);
	is_uint(n, 1, "and found");
	if (n)
		is_str(found[0]->name, "j-0", "by its job");
	free(found);
	end();
}

static void test_other_version(void)
{
	begin("another version of the API");
	install("scheduling.volcano.sh", "v2");
	job_groups_want(groups, &job);
	ok(WITHIN(2000, job_groups_known(groups)), "known");
	is_int(job_groups_api(groups, &job), JOB_GROUP_NONE, "it isn't the one that we speak");
	end();
}

static void test_removed(void)
{
	begin("removed");
	install_volcano();
	job_groups_want(groups, &job);
	ok(WITHIN(2000, job_groups_known(groups)), "there is one");
	uninstall("scheduling.volcano.sh");
	job_groups_doubt(groups);
	ok(!job_groups_known(groups), "a 404 raises a doubt");
	ok(WITHIN(2000, job_groups_known(groups)), "it's asked at once");
	is_int(job_groups_api(groups, &job), JOB_GROUP_NONE, "there's nobody any more");
	ok(!job_groups_store(groups, JOB_GROUP_VOLCANO), "and nothing to watch");
	end();
}

static void test_unreadable(void)
{
	begin("PodGroups can't be listed");
	install_volcano();
	inject_api("{\"verb\":\"list\",\"resource\":\"podgroups\",\"count\":1,\"kind\":\"status\","
		   "\"status\":403,\"message\":\"no\"}");
	job_groups_want(groups, &job);
	ok(WITHIN(2000, job_groups_known(groups)), "nobody waits for that");
	is_int(job_groups_api(groups, &job), JOB_GROUP_NONE, "as if there were nobody");
	ok(WITHIN(120000, job_groups_api(groups, &job) == JOB_GROUP_VOLCANO),
	   "until they can be read");
	end();
}

/* The API server has another address for a while, where nobody is. */
static void move_server(char *url)
{
	struct err err = ERR_INIT;

	free(kube_config->server);
	free(kube_config->prefix);
	if (kube_config_set_server(kube_config, url, &err) < 0)
		bail_out(err.msg);
}

static void test_silent(void)
{
	CLEANUP_FREE char *url = NULL;

	begin("the API server can't be reached");
	url = xstrdup(kube_config->server);
	move_server(TEXT("http://127.0.0.1:1"));
	job_groups_want(groups, &job);
	turns(200, 10);
	ok(!job_groups_known(groups), "nobody knows");
	job_groups_want(groups, &job);
	move_server(url);
	ok(WITHIN(60000, job_groups_known(groups)), "asked again by itself");
	end();
}

static void test_garbage(void)
{
	begin("the list of APIs comes cut off");
	install_volcano();
	inject_api("{\"resource\":\"apis\",\"count\":1,\"kind\":\"garbage\"}");
	job_groups_want(groups, &job);
	turns(200, 10);
	ok(!job_groups_known(groups), "nobody knows");
	ok(WITHIN(20000, job_groups_known(groups)), "asked again soon");
	is_int(job_groups_api(groups, &job), JOB_GROUP_VOLCANO, "and what is there is found");
	end();
}

int main(void)
{
	test_nobody();
	test_later();
	test_both();
	test_other_version();
	test_removed();
	test_unreadable();
	test_silent();
	test_garbage();
	return done_testing();
}
