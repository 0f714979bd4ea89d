/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of doc/reference/validation.md, in its order and with its words: first the shape that
 * the schema wants, then the rules that the CRD says in CEL. Every broken one is reported; a rule
 * whose values have no shape to judge is passed over.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "job/model.h"
#include "job/validate.h"

#define MAX_WORKERS   10000
#define MAX_INSTANCES 2000 /* what the status has room for: doc/design/job-states.md */
#define MAX_IPUS      65536

void job_report(struct job_check *c, const char *kind, const char *path, const char *fmt, ...)
{
	char message[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	c->n++;
	c->report(c->arg, path, kind, message);
}

/* ---- small judgements ---- */

static bool is_there(const struct json *v)
{
	return v && json_type(v) != JSON_NULL;
}

/* A field that is null isn't there. */
static const struct json *given(const struct json *obj, const char *key)
{
	const struct json *v = json_get(obj, key);

	return is_there(v) ? v : NULL;
}

/* A number as the API writes it in strings: decimal, no sign, no leading zero. */
static int64_t text_number(const struct json *v, int64_t max)
{
	struct str s = json_str(v);
	int64_t n;

	if (s.len == 0 || s.p[0] < '1' || s.p[0] > '9' || str_to_int(s, 1, max, &n, NULL) < 0)
		return 0;
	return n;
}

static bool is_power_of_two(int64_t n)
{
	return n > 0 && n <= MAX_IPUS && (n & (n - 1)) == 0;
}

static unsigned digits_of(int64_t n)
{
	char z[24];

	return (unsigned)snprintf(z, sizeof(z), "%" PRId64, n);
}

/* ---- sizes ---- */

struct sizes {
	const struct json *instances, *ipus, *per_instance, *per_worker, *models, *replica_ipus;
	bool second, first; /* generation: fields of 1.1 and of 1.0 are there */
};

static void check_pairs(struct job_check *c, const struct sizes *s)
{
	if (!s->second && !s->first)
		job_report(c, "Required", "spec",
			   "the job has no size: give jobInstances and ipusPerJobInstance (or "
			   "modelReplicas and ipusPerModelReplica, as in release 1.0)");
	if (s->second && s->first)
		job_report(c, "Forbidden", "spec",
			   "the size is given twice: keep jobInstances and ipusPerJobInstance, or "
			   "modelReplicas and ipusPerModelReplica, not fields of both");
	if (s->ipus && !s->instances)
		job_report(c, "Required", "spec.jobInstances",
			   "goes with ipusPerJobInstance; 1 for one instance");
	if (s->instances && !s->ipus)
		job_report(c, "Required", "spec.ipusPerJobInstance",
			   "goes with jobInstances; the IPUs of one instance, such as \"4\"");
	if (s->replica_ipus && !s->models)
		job_report(
			c, "Required", "spec.modelReplicas",
			"goes with ipusPerModelReplica; the replicas of the model in all, such as "
			"\"4\"");
	if (s->models && !s->replica_ipus)
		job_report(c, "Required", "spec.ipusPerModelReplica",
			   "goes with modelReplicas; the IPUs of one replica, such as \"1\"");
	if (s->per_instance && s->first)
		job_report(c, "Forbidden", "spec.workersPerJobInstance",
			   "goes with jobInstances only; beside modelReplicas, give "
			   "workers.replicas");
	if (s->per_worker && s->first)
		job_report(c, "Forbidden", "spec.modelReplicasPerWorker",
			   "goes with jobInstances only; beside modelReplicas, leave it out");
}

static void check_number(struct job_check *c, const struct json *v, const char *path, int64_t max,
			 const char *example)
{
	if (json_type(v) == JSON_STRING && json_str(v).len <= 16 && !text_number(v, max))
		job_report(c, "Invalid", path,
			   "must be a whole number from 1 to %" PRId64
			   ", written as a string, such as \"%s\"",
			   max, example);
}

static void check_numbers(struct job_check *c, const struct sizes *s)
{
	int64_t models = text_number(s->models, 99999);
	int64_t replica_ipus = text_number(s->replica_ipus, 99999);
	int64_t instances = json_int(s->instances, 0);

	if (json_type(s->instances) == JSON_INT && !(instances >= 1 && instances <= MAX_INSTANCES))
		job_report(c, "Invalid", "spec.jobInstances",
			   "must be from 1 to 2000; to stop a job for a while, set spec.suspend to "
			   "true");
	if (json_type(s->ipus) == JSON_STRING && json_str(s->ipus).len <= 16 &&
	    !is_power_of_two(text_number(s->ipus, MAX_IPUS)))
		job_report(c, "Invalid", "spec.ipusPerJobInstance",
			   "must be a power of two from 1 to 65536, written as a string, such as "
			   "\"4\"");
	check_number(c, s->per_instance, "spec.workersPerJobInstance", MAX_WORKERS, "2");
	check_number(c, s->per_worker, "spec.modelReplicasPerWorker", 99999, "2");
	check_number(c, s->models, "spec.modelReplicas", 99999, "4");
	check_number(c, s->replica_ipus, "spec.ipusPerModelReplica", 99999, "1");
	if (models && replica_ipus && !is_power_of_two(models * replica_ipus))
		job_report(
			c, "Invalid", "spec.modelReplicas",
			"modelReplicas x ipusPerModelReplica is the partition's size and must be a "
			"power of two from 1 to 65536: both must be powers of two");
}

bool job_is_worker_count(const struct json *v)
{
	return text_number(v, MAX_WORKERS) > 0;
}

int64_t job_workers_of(const struct json *spec)
{
	int64_t replicas = json_int(json_at(spec, "workers", "replicas", NULL), 1);
	const struct json *per_instance = given(spec, "workersPerJobInstance");

	if (per_instance) {
		int64_t n = text_number(per_instance, MAX_WORKERS);

		return n ? n : 1;
	}
	return replicas < 1 ? 1 : replicas;
}

static void check_counts(struct job_check *c, const struct json *object, const struct json *spec,
			 const struct sizes *s)
{
	int64_t instances = json_int(s->instances, 1), workers = job_workers_of(spec);
	size_t name = json_str(json_at(object, "metadata", "name", NULL)).len;
	bool launcher = is_there(json_get(spec, "launcher")) ||
			is_there(json_get(spec, "interactive"));

	if (instances < 1 || workers > MAX_WORKERS)
		return;
	if (instances * workers > MAX_WORKERS)
		job_report(c, "Invalid", "spec.jobInstances",
			   "a job has at most 10000 worker Pods (jobInstances x workers of one "
			   "instance)");
	if (name + 8 + digits_of(2 * instances * workers - 1) > 63)
		c->name_too_long_for_workers = true;
	if (launcher && instances > 1 && name + 10 + digits_of(2 * instances - 1) > 63)
		c->name_too_long_for_launchers = true;
}

static void check_sizes(struct job_check *c, const struct json *object, const struct json *spec)
{
	struct sizes s = {
		.instances = given(spec, "jobInstances"),
		.ipus = given(spec, "ipusPerJobInstance"),
		.per_instance = given(spec, "workersPerJobInstance"),
		.per_worker = given(spec, "modelReplicasPerWorker"),
		.models = given(spec, "modelReplicas"),
		.replica_ipus = given(spec, "ipusPerModelReplica"),
	};

	s.second = s.instances || s.ipus;
	s.first = s.models || s.replica_ipus;
	check_pairs(c, &s);
	check_numbers(c, &s);
	check_counts(c, object, spec, &s);
}

/* ---- policies ---- */

/* "3" or "3-5" with codes of at most three digits, 0 to 255, upwards. */
static bool is_code_range(struct str range)
{
	struct str from, to;
	int64_t low, high;

	if (!str_cut(range, '-', &from, &to))
		to = from;
	return from.len >= 1 && from.len <= 3 && to.len >= 1 && to.len <= 3 &&
	       str_to_int(from, 0, 255, &low, NULL) == 0 &&
	       str_to_int(to, 0, 255, &high, NULL) == 0 && low <= high;
}

static void check_restart(struct job_check *c, const struct json *policy)
{
	const struct json *codes = given(policy, "exitCodes");
	struct str rest = json_str(codes), range;

	if (str_eqz(json_str(json_get(policy, "type")), "ExitCode") && !codes)
		job_report(c, "Required", "spec.restartPolicy.exitCodes",
			   "with type ExitCode, say which exit codes lead to a restart, such as "
			   "\"1,3-5,137\"");
	if (json_type(codes) != JSON_STRING || !job_has_code_form(rest))
		return;
	do {
		str_cut(rest, ',', &range, &rest);
		if (!is_code_range(range)) {
			job_report(
				c, "Invalid", "spec.restartPolicy.exitCodes",
				"each code must be from 0 to 255, and a range must begin with its "
				"lower end, as in \"1,3-5,137\"");
			return;
		}
	} while (rest.len);
}

static bool is_zero(const struct json *v)
{
	struct str s = json_str(v);

	if (json_type(v) == JSON_INT)
		return json_int(v, 1) == 0;
	return str_eqz(s, "0") || str_eqz(s, "0%") || str_eqz(s, "00%") || str_eqz(s, "000%");
}

static void check_strategy(struct job_check *c, const struct json *strategy)
{
	const struct json *rolling = json_get(strategy, "rollingUpdate");

	if (str_eqz(json_str(json_get(strategy, "type")), "Recreate") && is_there(rolling))
		job_report(c, "Forbidden", "spec.workers.strategy.rollingUpdate",
			   "goes with type RollingUpdate only; leave it out, or change the type");
	if (is_zero(json_get(rolling, "maxSurge")) && is_zero(json_get(rolling, "maxUnavailable")))
		job_report(c, "Invalid", "spec.workers.strategy.rollingUpdate",
			   "maxSurge and maxUnavailable can't both be 0, or nothing could ever be "
			   "replaced");
}

static void check_group(struct job_check *c, const struct json *spec)
{
	int64_t least = json_int(json_at(spec, "schedulingPolicy", "minAvailable", NULL), 0);

	if (least > job_workers_of(spec))
		job_report(c, "Invalid", "spec.schedulingPolicy.minAvailable",
			   "must be at most the worker Pods of one instance: a launcher is made "
			   "when they run, so nothing can wait for it");
}

size_t job_validate(const struct json *object, job_report_fn *report, void *arg)
{
	struct job_check c = {.report = report, .arg = arg};
	const struct json *spec = json_get(object, "spec");

	job_check_shape(&c, spec);
	check_sizes(&c, object, spec);
	if (is_there(json_get(spec, "launcher")) && is_there(json_get(spec, "interactive")))
		job_report(
			&c, "Forbidden", "spec.interactive",
			"a job has a launcher or is interactive, not both; leave one of them out");
	check_restart(&c, json_get(spec, "restartPolicy"));
	check_strategy(&c, json_at(spec, "workers", "strategy", NULL));
	check_group(&c, spec);
	if (c.name_too_long_for_workers)
		job_report(&c, "Invalid", "metadata.name",
			   "the name is too long for its Pods: with \"-worker-\" and the highest "
			   "number it must fit into 63 characters");
	if (c.name_too_long_for_launchers)
		job_report(&c, "Invalid", "metadata.name",
			   "the name is too long for its Pods: with \"-launcher-\" and the highest "
			   "number it must fit into 63 characters");
	return c.n;
}
