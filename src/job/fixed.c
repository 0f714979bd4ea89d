/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can't be changed in a job that is there: "Rules on updates" of doc/reference/validation.md,
 * in its order and with its words. The API server has them as transition rules; here they are for
 * who sees both objects without it.
 */
#include "core/str.h"
#include "job/model.h"
#include "job/validate.h"

#define AGAIN "delete the job and make it again"

struct change {
	struct job_check check;
	const struct json *before, *now; /* the specs */
};

static bool has(const struct json *spec, const char *key)
{
	const struct json *v = json_get(spec, key);

	return v && json_type(v) != JSON_NULL;
}

static bool was_or_is(const struct change *c, const char *key)
{
	return has(c->before, key) || has(c->now, key);
}

static bool comes_or_goes(const struct change *c, const char *key)
{
	return has(c->before, key) != has(c->now, key);
}

static bool is_first(const struct json *spec)
{
	return has(spec, "modelReplicas") || has(spec, "ipusPerModelReplica");
}

static bool is_second(const struct json *spec)
{
	return has(spec, "jobInstances") || has(spec, "ipusPerJobInstance");
}

/* Whether the number of workers can be told: what is no number breaks a rule of its own. */
static bool has_workers(const struct json *spec)
{
	return !has(spec, "workersPerJobInstance") ||
	       job_is_worker_count(json_get(spec, "workersPerJobInstance"));
}

static void check_workers(struct change *c)
{
	bool by_instance = was_or_is(c, "workersPerJobInstance");

	if (has_workers(c->before) && has_workers(c->now) &&
	    job_workers_of(c->before) != job_workers_of(c->now))
		job_report(&c->check, "Forbidden",
			   by_instance ? "spec.workersPerJobInstance" : "spec.workers.replicas",
			   "workers can't be added or taken away, since they are numbered through "
			   "all instances: change jobInstances, or " AGAIN);
}

static void check_same(struct change *c, const char *key, const char *path)
{
	if (has(c->before, key) && has(c->now, key) &&
	    !json_equal(json_get(c->before, key), json_get(c->now, key)))
		job_report(&c->check, "Forbidden", path,
			   "a size that is given in model replicas can't be changed: " AGAIN);
}

static void check_manager(struct change *c)
{
	if (comes_or_goes(c, "managedBy") ||
	    (has(c->now, "managedBy") &&
	     !json_equal(json_get(c->before, "managedBy"), json_get(c->now, "managedBy"))))
		job_report(&c->check, "Forbidden", "spec.managedBy",
			   "who manages a job can't be changed: " AGAIN);
}

size_t job_validate_update(const struct json *before, const struct json *object,
			   job_report_fn *report, void *arg)
{
	struct change c = {
		.check = {.report = report, .arg = arg},
		.before = json_get(before, "spec"),
		.now = json_get(object, "spec"),
	};

	check_workers(&c);
	check_same(&c, "modelReplicas", "spec.modelReplicas");
	check_same(&c, "ipusPerModelReplica", "spec.ipusPerModelReplica");
	if (is_first(c.before) != is_second(c.before) && is_first(c.before) != is_first(c.now))
		job_report(&c.check, "Forbidden", "spec",
			   "a job keeps the way in which its size is given: " AGAIN);
	if (comes_or_goes(&c, "launcher"))
		job_report(&c.check, "Forbidden", "spec.launcher",
			   "a job can't be given a launcher, or lose it: " AGAIN);
	if (comes_or_goes(&c, "interactive"))
		job_report(&c.check, "Forbidden", "spec.interactive",
			   "a job can't become interactive, or cease to be: " AGAIN);
	check_manager(&c);
	return c.check.n;
}
