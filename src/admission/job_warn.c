/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is legal in an IPUJob, but hardly meant: settings without effect, settings that the operator
 * replaces, and those that end in surprise. The job itself; its template is job_warn_pod.c's.
 */
#include <inttypes.h>
#include <string.h>

#include "admission/job_check.h"
#include "core/str.h"
#include "job/launcher.h"
#include "kube/object.h"

#define BACKOFF_LIMIT 3 /* the default: nobody may have written it */

static void warn_name(const struct job_look *l)
{
	struct str name = kube_name(l->object);

	if (name.len && memchr(name.p, '.', name.len))
		admission_warn(l->out, "metadata.name: has dots, and Pods' host names have none: "
				       "those of this job's Pods will be cut or changed");
}

static void warn_restart(const struct job_look *l)
{
	const struct json *policy = json_get(l->spec, "restartPolicy");
	struct str type = json_str(json_get(policy, "type"));
	int64_t limit = json_int(json_get(policy, "backOffLimit"), BACKOFF_LIMIT);

	if (str_eqz(type, "Never") && limit != BACKOFF_LIMIT && limit != 0)
		admission_warn(l->out, "spec.restartPolicy.backOffLimit: has no effect with type "
				       "Never, which restarts nothing");
	if (!str_eqz(type, "Never") && type.len && limit == 0)
		admission_warn(l->out,
			       "spec.restartPolicy.backOffLimit: 0 allows no restart, so type %.*s "
			       "does what Never does",
			       STR_ARG(type));
	if (!str_eqz(type, "ExitCode") && json_str(json_get(policy, "exitCodes")).len)
		admission_warn(l->out, "spec.restartPolicy.exitCodes: has no effect but with type "
				       "ExitCode");
	if (str_eqz(type, "Always") && l->job->interactive)
		admission_warn(l->out,
			       "spec.restartPolicy.type: Always does what OnFailure does in an "
			       "interactive job: a session whose time is over isn't begun again");
}

static void warn_times(const struct job_look *l)
{
	const struct job *job = l->job;

	if (job->interactive && job->deadline_ms && job->deadline_ms < job->ttl_ms)
		admission_warn(l->out,
			       "spec.activeDeadlineSeconds: ends the session after %" PRId64
			       " seconds, before its ttl of %" PRId64,
			       job->deadline_ms / 1000, job->ttl_ms / 1000);
	if (job->finished_ttl_ms == 0)
		admission_warn(l->out, "spec.ttlSecondsAfterFinished: 0 deletes the job in the "
				       "moment that it ends, with its status and its logs");
}

bool job_look_is_beyond_all(const struct json *v)
{
	struct str s = json_str(v);
	int64_t n;

	if (s.len == 0 || s.p[s.len - 1] != '%')
		return false;
	s.len--;
	return str_to_int(s, 0, 999, &n, NULL) == 0 && n > 100;
}

static void warn_strategy(const struct job_look *l)
{
	const struct json *rolling = json_at(l->spec, "workers", "strategy", "rollingUpdate", NULL);

	if (job_look_is_beyond_all(json_get(rolling, "maxSurge")))
		admission_warn(l->out, "spec.workers.strategy.rollingUpdate.maxSurge: counts as "
				       "100%%, since there are at most as many instances again");
}

static void warn_size(const struct job_look *l)
{
	const struct partition_policy *p = l->view->policy;
	const struct job *job = l->job;

	if (l->broken_sizes)
		return;
	if (p && p->max_ipus >= job->ipus &&
	    (uint64_t)job->ipus * job->instances > (uint64_t)p->max_ipus)
		admission_warn(l->out,
			       "spec.jobInstances: at most %" PRId64 " of %" PRIu32
			       " run at a time, since the namespace may have %" PRId64 " IPUs",
			       p->max_ipus / job->ipus, job->instances, p->max_ipus);
	if (job->options.gcds < job->workers)
		admission_warn(l->out,
			       "spec.partition.gcds: fewer graph compile domains (%" PRIu32
			       ") than workers (%" PRIu32 "): workers from number %" PRIu32
			       " on have no IPUs",
			       job->options.gcds, job->workers, job->options.gcds);
}

static void warn_groups(const struct job_look *l)
{
	enum json_type type = json_type(json_get(l->spec, "schedulingPolicy"));

	if (l->job->queue_name && type == JSON_OBJECT)
		admission_warn(
			l->out,
			"spec.schedulingPolicy: has no effect in a queue of Kueue's (label " JOB_LABEL_QUEUE
			"), which starts workers together itself");
}

static void warn_launcher(const struct job_look *l)
{
	const struct json *command = json_at(l->spec, "launcher", "command", NULL);
	const char *problem = l->view->pods ? job_launcher_problem(l->job, l->view->pods) : NULL;

	if (problem)
		admission_warn(l->out, "%s: %s",
			       l->job->launcher ? "spec.launcher" : "spec.interactive", problem);
	job_look_warn_command(l, "spec.launcher.command", command);
}

void job_look_warn_command(const struct job_look *l, const char *path, const struct json *command)
{
	struct str word = json_str(json_item(command, 0));

	if (json_len(command) == 1 && word.len && memchr(word.p, ' ', word.len))
		admission_warn(l->out,
			       "%s: is one word with blanks in it, and so the name of a program: "
			       "write each argument as an item of its own",
			       path);
}

void job_look_warn(const struct job_look *l)
{
	if (l->by_another)
		return;
	warn_launcher(l);
	warn_restart(l);
	warn_times(l);
	warn_strategy(l);
	warn_size(l);
	warn_groups(l);
	warn_name(l);
	job_look_warn_pod(l);
}
