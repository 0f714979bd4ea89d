/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building is job/'s; here is what a dry run needs different, and how complaints about Pods become
 * complaints about IPUJobs (doc/design/decisions.md, "The dry run of Pods at
 * admission").
 */
#include "access_pods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access_path.h"
#include "core/str.h"
#include "job/files.h"
#include "job/launcher.h"
#include "job/model.h"
#include "job/queue.h"

#define NO_UID      "00000000-0000-0000-0000-000000000000"
#define NO_IMAGE    "ipu-launcher" /* none is configured: such a job waits, but can be told now */
#define MAX_OURS    160
#define ROLE_OF(is) ((is) ? "launcher" : "worker")

/* ---- building ---- */

/* In the webhook an object may have no name yet, nor a UID, nor a namespace in it. */
static const struct json *complete(struct jmut_doc *doc, const struct admission_review *r)
{
	const struct json *meta = json_get(r->object, "metadata");
	struct str base = json_str(json_get(meta, "generateName"));
	struct jmut *object, *to;

	if (json_str(json_get(meta, "name")).len && json_str(json_get(meta, "uid")).len &&
	    json_str(json_get(meta, "namespace")).len)
		return r->object;
	object = jmut_copy(doc, r->object);
	to = jmut_need_object(doc, object, "metadata");
	if (!json_str(json_get(meta, "name")).len)
		jmut_set(doc, to, "name", jmut_strf(doc, "%.*s12345", STR_ARG(base)));
	if (!json_str(json_get(meta, "uid")).len)
		jmut_set_str(doc, to, "uid", NO_UID);
	jmut_set_str(doc, to, "namespace", r->ns);
	return jmut_view(object);
}

static void unname(struct jmut_doc *doc, const struct job *job, const char *role)
{
	struct jmut *meta = jmut_get(jmut_root(doc), "metadata");

	jmut_del(meta, "name");
	jmut_set(doc, meta, "generateName", jmut_strf(doc, "%s-%s-", job->name, role));
}

static int build(struct access_pods *pods, const struct job *job, const struct json *spec,
		 const struct job_pod_settings *settings, struct err *err)
{
	CLEANUP_FREE char *files = job_files_name(job, 0);
	struct job_ipus ipus = {
		.values = job->queue_name ? JOB_VALUES_KEYS : JOB_VALUES_LITERAL,
		.config_map = files,
		.partition_id = job->queue_name ? NULL : "dry-run",
		.host = "dry-run.invalid",
		.port = 8090,
	};

	if (job_pod_build(pods->worker, job, spec, 0, 0, &ipus, settings, err) < 0)
		return -1;
	if (job->queue_name)
		job_queue_mark(pods->worker, job, 0);
	unname(pods->worker, job, "worker");
	if (!job_has_launcher(job))
		return 0;
	pods->launcher = jmut_doc_new();
	if (job_launcher_build(pods->launcher, job, spec, 0, &ipus, settings, err) < 0)
		return -1;
	unname(pods->launcher, job, "launcher");
	jmut_del(jmut_get(jmut_root(pods->launcher), "spec"), "serviceAccountName");
	return 0;
}

int access_pods_build(struct access_pods *pods, const struct admission_review *r,
		      const struct job_pod_settings *settings, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct job_pod_settings with_image = *settings;
	const struct json *object = complete(doc, r);
	struct job *job;
	int rc;

	if (!settings->launcher_image || !settings->launcher_image[0])
		with_image.launcher_image = NO_IMAGE;
	if (job_decode(object, &job, err) < 0)
		return -1;
	/* Sizes that are wrong have been told, and say nothing of the rest. */
	job->instances = job->instances ? job->instances : 1;
	job->workers = job->workers ? job->workers : 1;
	job->ipus = job->ipus ? job->ipus : 1;
	pods->worker = jmut_doc_new();
	rc = build(pods, job, json_get(object, "spec"), &with_image, err);
	job_free(job);
	if (rc < 0)
		access_pods_done(pods);
	return rc;
}

void access_pods_done(struct access_pods *pods)
{
	jmut_doc_free(pods->worker);
	jmut_doc_free(pods->launcher);
	*pods = (struct access_pods){0};
}

static const struct json *pod_of(const struct access_pods *pods, bool launcher)
{
	return jmut_view(jmut_root(launcher ? pods->launcher : pods->worker));
}

/* ---- the API server's complaints ---- */

static const char *const kinds[] = {"Required", "Forbidden", "Invalid",   "Unsupported",
				    "Too long", "Duplicate", "Not found", "Too many"};

/* The kind, and the message without the words that stand for it. */
static const char *kind_of(struct str reason, struct str *message)
{
	const char *kind = "Invalid"; /* of a type, too */
	struct str words;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (str_eqz(reason, admission_kind_cause(kinds[i])))
			kind = kinds[i];
	}
	words = str_of(admission_kind_text(kind));
	if (!str_has_prefix(*message, words))
		return kind;
	message->p += words.len;
	message->len -= words.len;
	if (str_has_prefix(*message, STR(": "))) {
		message->p += 2;
		message->len -= 2;
	}
	return kind;
}

static void tell_cause(const struct admission_review *r, const struct access_pods *pods,
		       bool launcher, const struct json *cause, struct admission_findings *out)
{
	struct str message = json_str(json_get(cause, "message"));
	const char *field = json_cstr(json_get(cause, "field"));
	const char *kind = kind_of(json_str(json_get(cause, "reason")), &message);
	CLEANUP_FREE char *path = access_path_map(pod_of(pods, launcher),
						  json_get(r->object, "spec"), launcher, field);

	if (!message.len)
		message = strcmp(kind, "Required") == 0 ? STR("is required") : STR("is wrong");
	if (path)
		admission_problem(out, path, kind, "%.*s", STR_ARG(message));
	else
		admission_problem(out, "spec.workers.template", kind,
				  "doesn't go with what the operator makes of it: %s of a %s Pod: "
				  "%.*s",
				  field, ROLE_OF(launcher), STR_ARG(message));
}

/* Whether there were causes that name fields; a policy's refusal has none. */
static bool tell_causes(const struct admission_review *r, const struct access_pods *pods,
			bool launcher, const struct json *status, struct admission_findings *out)
{
	struct json_iter it = json_iter(json_at(status, "details", "causes", NULL));
	bool any = false;

	while (json_next(&it)) {
		if (!json_str(json_get(it.value, "field")).len)
			continue;
		tell_cause(r, pods, launcher, it.value, out);
		any = true;
	}
	return any;
}

static bool holds(struct str s, const char *part)
{
	return s.len && memmem(s.p, s.len, part, strlen(part));
}

/* A Pod that isn't one: a string where a list should be. The place has no index in it, so that it
 * is only told, and not as a path. */
static bool tell_undecodable(struct str message, struct admission_findings *out)
{
	static const char words[] = " cannot be handled as a Pod: ";
	const char *at = message.len ? memmem(message.p, message.len, words, strlen(words)) : NULL;

	if (!at)
		return false;
	admission_problem(out, "spec.workers.template", "Invalid", "no Pod can be made of it: %s",
			  at + strlen(words));
	return true;
}

/* The operator's own words say it of the IPUJob's fields (access_pods_warn). */
#define INSECURE_WORDS "would violate PodSecurity"

/* "PATH: WORDS", as the API server has it, with the IPUJob's path where the field is from there. */
static void pass_on(const struct admission_review *r, const struct access_pods *pods, bool launcher,
		    const char *warning, struct admission_findings *out)
{
	const char *end = strstr(warning, ": ");
	CLEANUP_FREE char *field = end ? str_dup((struct str){warning, (size_t)(end - warning)})
				       : NULL;
	CLEANUP_FREE char *path = NULL;

	if (field && str_has_prefix(str_of(field), STR("spec.")))
		path = access_path_map(pod_of(pods, launcher), json_get(r->object, "spec"),
				       launcher, field);
	if (path)
		admission_warn(out, "%s%s", path, end);
	else
		admission_warn(out, "of the job's %s Pod: %s", ROLE_OF(launcher), warning);
}

static void pass_all_on(const struct admission_review *r, const struct access_pods *pods,
			bool launcher, const struct kube_response *response,
			struct admission_findings *out)
{
	for (size_t i = 0; i < response->n_warnings; i++) {
		if (!str_has_prefix(str_of(response->warnings[i]), STR(INSECURE_WORDS)))
			pass_on(r, pods, launcher, response->warnings[i], out);
	}
}

enum access_verdict access_pods_judge(const struct admission_review *r,
				      const struct access_pods *pods, bool launcher,
				      const struct err *err, const struct kube_response *response,
				      struct admission_findings *out, char **ret_why)
{
	const struct json *status = response ? response->json : NULL;
	struct str message = json_str(json_get(status, "message"));
	/* Another webhook's word may be another tomorrow. */
	bool final = !holds(message, "admission webhook \"");

	if (!response) {
		admission_warn(out, "The job's %s Pod hasn't been tried: %s", ROLE_OF(launcher),
			       err->msg);
		return ACCESS_NOT_TRIED;
	}
	if (!err) {
		pass_all_on(r, pods, launcher, response, out);
		return ACCESS_TAKEN;
	}
	if (final && response->status == 422 && tell_causes(r, pods, launcher, status, out))
		return ACCESS_REFUSED;
	if (final && response->status == 400 && tell_undecodable(message, out))
		return ACCESS_REFUSED;
	if (final && response->status == 403 && holds(message, "violates PodSecurity \"")) {
		*ret_why = str_dup(message);
		return ACCESS_INSECURE;
	}
	if (response->status == 401 || response->status == 429 || response->status >= 500) {
		admission_warn(out, "The job's %s Pod hasn't been tried: %s", ROLE_OF(launcher),
			       err->msg);
		return ACCESS_NOT_TRIED;
	}
	admission_warn(out, "The job's %s Pod wouldn't be taken as things are now: %s",
		       ROLE_OF(launcher), err->msg);
	return ACCESS_DOUBTFUL;
}

/* ---- Pod Security ---- */

struct securing {
	const struct admission_review *r;
	const struct json *pod;
	enum admission_level level;
	bool launcher;
	struct admission_findings *out;
	char ours[MAX_OURS]; /* names of fields that the operator sets */
	size_t found;
};

/* What of a path a person looks for: "capabilities.drop", "hostPort". */
static struct str short_name(const char *path)
{
	static const char context[] = "securityContext.";
	const char *from = strstr(path, context), *bracket = strrchr(path, ']');
	struct str name, rest;

	if (from)
		from += strlen(context);
	else if (bracket && bracket[1] == '.')
		from = bracket + 2;
	else
		from = str_has_prefix(str_of(path), STR("spec.")) ? path + strlen("spec.") : path;
	str_cut(str_of(from), '[', &name, &rest);
	return name;
}

static void add_name(char list[MAX_OURS], const char *path)
{
	struct str name = short_name(path);
	size_t used = strlen(list);

	if (str_list_has(str_of(list), name))
		return;
	if (used + name.len + 3 <= MAX_OURS)
		snprintf(list + used, MAX_OURS - used, "%s%.*s", used ? ", " : "", STR_ARG(name));
}

static void on_insecure(void *arg, const char *path, const char *message)
{
	struct securing *s = arg;
	CLEANUP_FREE char *field = access_path_map(s->pod, json_get(s->r->object, "spec"),
						   s->launcher, path);
	s->found++;
	if (field)
		admission_problem(s->out, field, "Forbidden",
				  "%s: the Pod Security level of namespace %s is %s", message,
				  s->r->ns, admission_level_name(s->level));
	else
		add_name(s->ours, path);
}

static void each_pod(struct securing *s, const struct access_pods *pods,
		     admission_security_fn *report)
{
	for (int launcher = 0; launcher < 2; launcher++) {
		if (launcher && !pods->launcher)
			return;
		s->launcher = launcher;
		s->pod = pod_of(pods, launcher);
		admission_security_check(s->pod, s->level, report, s);
	}
}

/* What of the configuration they come from. */
static const char *keys_of(const char *ours)
{
	const char *lock = strstr(ours, "capabilities.add");
	bool others = strstr(ours, "hostNetwork") || strstr(ours, "privileged");

	return !lock    ? "worker.hostNetwork, worker.privileged"
	       : others ? "worker.hostNetwork, worker.privileged, worker.ipcLock"
			: "worker.ipcLock";
}

size_t access_pods_secure(const struct admission_review *r, const struct access_pods *pods,
			  enum admission_level level, struct admission_findings *out)
{
	struct securing s = {.r = r, .level = level, .out = out};

	each_pod(&s, pods, on_insecure);
	if (s.ours[0])
		admission_deny(out, 403,
			       "jobs can't run in namespace %s: its Pod Security level is %s, and "
			       "the operator is configured to set %s in their Pods (%s)",
			       r->ns, admission_level_name(level), s.ours, keys_of(s.ours));
	return s.found;
}

static void on_unwise(void *arg, const char *path, const char *message)
{
	struct securing *s = arg;
	(void)message;
	s->found++;
	add_name(s->ours, path);
}

void access_pods_warn(const struct admission_review *r, const struct access_pods *pods,
		      enum admission_level level, struct admission_findings *out)
{
	struct securing s = {.r = r, .level = level, .out = out};

	each_pod(&s, pods, on_unwise);
	if (s.found)
		admission_warn(out,
			       "The Pods of this job would violate the Pod Security level %s, of "
			       "which namespace %s warns, by: %s",
			       admission_level_name(level), r->ns, s.ours);
}
