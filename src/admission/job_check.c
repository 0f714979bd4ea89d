/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_job_check: the rules that the CRD has too (job/), then those that only a webhook can
 * have, then warnings. Which of them a change could have broken is decided here.
 */
#include "admission/job_check.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "kube/object.h"

#define GENERATED_CHARS 5  /* what the API server puts behind a generateName … */
#define GENERATED_FROM  58 /* … of which it keeps so much */
#define NAME_MAX_CHARS  253

/* ---- what could have been made wrong ---- */

static const struct json *value_at(const struct json *spec, const char *path)
{
	struct str rest = str_of(path), key;
	const struct json *v = spec;

	while (str_cut(rest, '.', &key, &rest))
		v = json_getn(v, key);
	return json_getn(v, key);
}

bool job_look_is_new(const struct job_look *l, const char *path)
{
	return !l->was || !json_equal(value_at(l->was, path), value_at(l->spec, path));
}

void job_look_path(char ret[JOB_LOOK_PATH], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret, JOB_LOOK_PATH, fmt, ap);
	va_end(ap);
}

const struct json *job_look_pod(const struct job_look *l)
{
	return json_at(l->spec, "workers", "template", "spec", NULL);
}

/* ---- names ---- */

bool job_look_is_subdomain(struct str name)
{
	char before = '.';

	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.p[i];
		bool end = i + 1 == name.len || name.p[i + 1] == '.';

		if (!islower(c) && !isdigit(c) && c != '-' && c != '.')
			return false;
		if ((c == '.' || c == '-') && (before == '.' || end))
			return false;
		before = name.p[i];
	}
	return name.len > 0 && name.len <= NAME_MAX_CHARS;
}

/* The rules of lengths are judged by a name as long as the one that it gets. The root of doc is the
 * object with that. */
static const struct json *with_name(const struct json *object, struct jmut_doc *doc)
{
	struct str begin = json_str(json_at(object, "metadata", "generateName", NULL));
	struct jmut *meta = jmut_object(doc), *root = jmut_object(doc);

	if (kube_name(object).len || !begin.len)
		return object;
	if (begin.len > GENERATED_FROM)
		begin.len = GENERATED_FROM;
	jmut_set(doc, meta, "name",
		 jmut_strf(doc, "%.*s%.*s", STR_ARG(begin), GENERATED_CHARS, "xxxxx"));
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "spec", jmut_copy(doc, json_get(object, "spec")));
	jmut_set_root(doc, root);
	return jmut_view(root);
}

static void check_name(const struct job_look *l, struct str name)
{
	if (l->was)
		return; /* nobody can change it */
	if (!name.len)
		admission_problem(l->out, "metadata.name", "Required",
				  "a job needs a name, or a generateName to which one is added");
	else if (!job_look_is_subdomain(name))
		admission_problem(l->out, "metadata.name", "Invalid",
				  "must be small letters, digits, \"-\" and \".\", and begin and "
				  "end with a letter or digit, such as \"mnist-training\"");
}

/* ---- the rules of the CRD ---- */

struct noted {
	struct admission_findings *out;
	bool sizes;
};

static void note(void *arg, const char *path, const char *kind, const char *message)
{
	static const char *const sizes[] = {
		"spec",
		"spec.jobInstances",
		"spec.ipusPerJobInstance",
		"spec.workersPerJobInstance",
		"spec.modelReplicasPerWorker",
		"spec.modelReplicas",
		"spec.ipusPerModelReplica",
		"spec.workers",
		"spec.workers.replicas",
		"spec.partition",
		"spec.partition.gcds",
		"spec.partition.replicas",
	};
	struct noted *n = arg;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (strcmp(path, sizes[i]) == 0)
			n->sizes = true;
	}
	admission_report(n->out, path, kind, message);
}

/* ---- rules that only we have ---- */

/* A Deployment's can't be more than all either. */
static void check_strategy(const struct job_look *l)
{
	const struct json *v = json_at(l->spec, "workers", "strategy", "rollingUpdate",
				       "maxUnavailable", NULL);

	if (job_look_is_new(l, "workers.strategy") && job_look_is_beyond_all(v))
		admission_problem(l->out, "spec.workers.strategy.rollingUpdate.maxUnavailable",
				  "Invalid", "must be at most 100%%, which is all instances");
}

/* doc/design/decisions.md, "Which generation is an IPUJob?": one of release 1.0 is one instance. */
static void check_scaling(const struct job_look *l)
{
	static const char *const second[] = {"jobInstances", "ipusPerJobInstance"};
	bool was_first = value_at(l->was, "modelReplicas") && !value_at(l->was, second[0]) &&
			 !value_at(l->was, second[1]);

	if (was_first && value_at(l->spec, "modelReplicas") && value_at(l->spec, second[0]))
		admission_problem(l->out, "spec.jobInstances", "Forbidden",
				  "a job that is sized in model replicas is one instance and can't "
				  "be scaled: delete the job and make it again, with jobInstances "
				  "and ipusPerJobInstance");
}

/* ---- all of it ---- */

static void look(struct job_look *l, const struct json *before)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct json *named = with_name(l->object, doc);
	struct noted n = {.out = l->out};

	check_name(l, kube_name(named));
	if (!l->was)
		job_look_at_metadata(l);
	job_validate(named, note, &n);
	if (before)
		job_validate_update(before, l->object, admission_report, l->out);
	l->broken_sizes = n.sizes;
	check_scaling(l);
	job_look_at_sizes(l);
	check_strategy(l);
	if (job_look_is_new(l, "workers.template") || job_look_is_new(l, "launcher")) {
		job_look_at_template(l);
		job_look_at_names(l);
	}
	job_look_warn(l);
}

void admission_job_check(const struct admission_job_view *view, const struct json *before,
			 const struct json *now, struct admission_findings *out)
{
	static const struct admission_job_view nothing;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job_look l = {
		.view = view ? view : &nothing,
		.object = now,
		.spec = json_get(now, "spec"),
		.out = out,
	};
	struct job *job;

	if (kube_is_deleting(now))
		return;
	/* A default that is new to what was stored is no change of the user's. */
	if (before && admission_job_default(doc, NULL, before, NULL) == 0)
		l.was = json_get(jmut_view(jmut_root(doc)), "spec");
	if (before && (json_equal(l.was, l.spec) || json_equal(json_get(before, "spec"), l.spec)))
		return;
	job = job_preview(now);
	l.job = job;
	l.by_another = job->managed_by;
	l.host_network = json_bool(json_get(job_look_pod(&l), "hostNetwork"), false) ||
			 (l.view->pods && l.view->pods->host_network);
	look(&l, before);
	job_free(job);
}
