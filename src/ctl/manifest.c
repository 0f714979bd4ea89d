/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests are walked as kubectl walks them; judging is the webhook's own code.
 */
#include "ctl/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "admission/job.h"
#include "ctl/term.h"
#include "job/model.h"
#include "kube/object.h"
#include "pod/fields.h"

#define MAX_POINTER ((size_t)4 << 10)

struct walk {
	ctl_object_fn *fn;
	ctl_broken_fn *broken;
	void *arg;
	bool stdin_read;
};

/* ---- files ---- */

static int walk_object(const struct walk *w, const struct ctl_object *o, struct err *err)
{
	struct str kind = json_str(json_get(o->json, "kind"));
	struct json_iter it = json_iter(json_get(o->json, "items"));

	if (!str_eqz(kind, "List") && !str_eqz(kind, JOB_KIND "List"))
		return w->fn(w->arg, o, err);
	while (json_next(&it)) {
		CLEANUP_FREE char *at = xasprintf("%s/items/%zu", o->root, it.index);
		struct ctl_object item = *o;

		item.root = at;
		item.json = it.value;
		if (walk_object(w, &item, err) < 0)
			return -1;
	}
	return 0;
}

static int walk_file(struct walk *w, const char *path, struct err *err)
{
	CLEANUP_YAML struct yaml *yaml = NULL;
	bool is_stdin = strcmp(path, "-") == 0;
	const char *name = is_stdin ? "standard input" : path;
	struct err why = ERR_INIT;

	if (is_stdin && w->stdin_read)
		return err_set(err, ERR_INVALID, 0, "standard input can be read once only");
	w->stdin_read = w->stdin_read || is_stdin;
	if (yaml_load(path, &yaml, &why) < 0) {
		/* A file that is there, and is no YAML, is a wrong manifest. */
		if (why.kind == ERR_INVALID || why.kind == ERR_LIMIT)
			return w->broken(w->arg, name, &why, err);
		why.kind = ERR_INVALID;
		why.code = 0;
		return err_copy(err, &why);
	}
	for (size_t i = 0; i < yaml_len(yaml); i++) {
		struct ctl_object o = {name, yaml, i, "", yaml_doc(yaml, i)};

		if (walk_object(w, &o, err) < 0)
			return -1;
	}
	return 0;
}

static int is_manifest(const struct dirent *entry)
{
	struct str name = str_of(entry->d_name);

	return name.p[0] != '.' &&
	       (str_has_suffix(name, STR(".yaml")) || str_has_suffix(name, STR(".yml")) ||
		str_has_suffix(name, STR(".json")));
}

static int walk_path(struct walk *w, const char *path, struct err *err)
{
	struct dirent **names = NULL;
	struct stat st;
	int n, result = 0;

	if (strcmp(path, "-") == 0 || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return walk_file(w, path, err);
	n = scandir(path, &names, is_manifest, alphasort);
	if (n < 0)
		return err_set(err, ERR_INVALID, 0, "%s: %s", path, strerror(errno));
	if (n == 0)
		result = err_set(err, ERR_INVALID, 0,
				 "%s: the folder has no *.yaml, *.yml or *.json", path);
	for (int i = 0; i < n; i++) {
		CLEANUP_FREE char *one = xasprintf("%s/%s", path, names[i]->d_name);

		if (result == 0)
			result = walk_file(w, one, err);
		free(names[i]);
	}
	free(names);
	return result;
}

int ctl_manifests_each(const struct ctl_options *o, ctl_object_fn *fn, ctl_broken_fn *broken,
		       void *arg, struct err *err)
{
	struct walk w = {.fn = fn, .broken = broken, .arg = arg};

	if (o->n_files + o->n_words == 0)
		return err_set(err, ERR_INVALID, 0, "a manifest is needed: -f FILE");
	for (size_t i = 0; i < o->n_files; i++) {
		if (walk_path(&w, o->files[i], err) < 0)
			return -1;
	}
	for (size_t i = 0; i < o->n_words; i++) {
		if (walk_path(&w, o->words[i], err) < 0)
			return -1;
	}
	return 0;
}

/* ---- places ---- */

/* "spec.containers[0].name" as "/spec/containers/0/name", behind where the object is. What is
 * between brackets may have dots. */
static void place_of(struct buf *pointer, struct str path)
{
	size_t begin = 0;

	for (size_t i = 0; i <= path.len; i++) {
		bool bracket = i < path.len && path.p[i] == '[';

		if (i < path.len && path.p[i] != '.' && !bracket)
			continue;
		if (i > begin)
			(void)json_pointer_append(pointer, (struct str){path.p + begin, i - begin},
						  NULL);
		if (bracket) {
			const char *end = memchr(path.p + i, ']', path.len - i);
			size_t last = end ? (size_t)(end - path.p) : path.len;

			(void)json_pointer_append(pointer,
						  (struct str){path.p + i + 1, last - i - 1}, NULL);
			i = last;
		}
		begin = i + 1;
	}
}

void ctl_object_pos(const struct ctl_object *object, struct str path, unsigned *ret_line,
		    unsigned *ret_column)
{
	struct buf pointer = BUF_INIT(MAX_POINTER);

	(void)buf_append_str(&pointer, str_of(object->root), NULL);
	place_of(&pointer, path);
	(void)buf_append(&pointer, "", 1, NULL);
	yaml_key_pos(object->yaml, object->doc, buf_str(&pointer).p, ret_line, ret_column);
	buf_done(&pointer);
}

/* ---- what it is ---- */

/* Where a kind's Pod template is. */
static const struct {
	const char *kind, *path;
} templates[] = {
	{"Pod", ""},
	{"Deployment", "spec.template"},
	{"StatefulSet", "spec.template"},
	{"DaemonSet", "spec.template"},
	{"ReplicaSet", "spec.template"},
	{"ReplicationController", "spec.template"},
	{"Job", "spec.template"},
	{"CronJob", "spec.jobTemplate.spec.template"},
	{"PodTemplate", "template"},
};

static const struct json *at_path(const struct json *v, const char *path)
{
	struct str rest = str_of(path), key;

	while (rest.len) {
		str_cut(rest, '.', &key, &rest);
		v = json_getn(v, key);
	}
	return v;
}

static bool is_of_our_group(const struct json *object)
{
	return str_has_prefix(json_str(json_get(object, "apiVersion")), STR("graphcore.ai/"));
}

enum ctl_object_kind ctl_object_kind(const struct json *object, const struct json **ret_template,
				     char **ret_path)
{
	struct str kind = json_str(json_get(object, "kind"));

	*ret_template = NULL;
	*ret_path = NULL;
	if (str_eqz(kind, JOB_KIND) || is_of_our_group(object))
		return CTL_OBJECT_JOB;
	for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
		const struct json *template;

		if (!str_eqz(kind, templates[i].kind))
			continue;
		template = at_path(object, templates[i].path);
		if (!pod_is_annotated(template))
			return CTL_OBJECT_OTHER;
		*ret_template = template;
		*ret_path = xstrdup(templates[i].path);
		return CTL_OBJECT_POD;
	}
	return CTL_OBJECT_OTHER;
}

/* ---- judging ---- */

/* Newer API servers may know it. */
static void on_unknown(void *findings, const char *path, const char *kind, const char *words)
{
	(void)kind;
	admission_warn(findings, "%s: %s", path, words);
}

void ctl_judge_job(struct jmut_doc *doc, const struct json *job, struct admission_findings *f,
		   struct jmut **ret)
{
	*ret = NULL;
	/* Of what is something else nothing more can be said. */
	if (!str_eqz(json_str(json_get(job, "apiVersion")), JOB_API_VERSION)) {
		admission_problem(f, "apiVersion", "Unsupported", "must be " JOB_API_VERSION);
		return;
	}
	if (!str_eqz(json_str(json_get(job, "kind")), JOB_KIND)) {
		admission_problem(f, "kind", "Unsupported", "must be " JOB_KIND);
		return;
	}
	job_unknown_fields(job, admission_report, f);
	pod_unknown_fields(json_at(job, "spec", "workers", "template", NULL), "PodTemplateSpec",
			   "spec.workers.template", on_unknown, f);
	pod_unknown_fields(json_at(job, "spec", "launcher", "env", NULL), "EnvVar",
			   "spec.launcher.env", on_unknown, f);
	if (admission_job_default(doc, NULL, job, NULL) < 0)
		return;
	*ret = jmut_root(doc);
	admission_job_check(NULL, NULL, jmut_view(*ret), f);
}

struct injecting {
	const char *path;
	struct admission_findings *f;
};

static void on_warning(void *arg, const char *warning)
{
	const struct injecting *in = arg;

	admission_warn(in->f, "%s%s%s", in->path, in->path[0] ? "." : "", warning);
}

void ctl_judge_pod(struct jmut_doc *doc, const struct json *pod, const struct json *written,
		   const char *path, const char *token, const struct pod_inject_settings *settings,
		   struct admission_findings *f, struct jmut **ret)
{
	struct pod_inject_settings defaults = {
		.worker = {.host_network = true, .privileged = true}};
	struct injecting in = {path, f};
	struct err err = ERR_INIT;
	struct str field, words;
	CLEANUP_FREE char *whole = NULL;
	int result = pod_inject(doc, pod, token, settings ? settings : &defaults, on_warning, &in,
				&err);

	pod_unknown_fields(written, path[0] ? "PodTemplateSpec" : "Pod", path, on_unknown, f);
	*ret = result > 0 ? jmut_root(doc) : NULL;
	if (result >= 0)
		return;
	if (err.kind != ERR_INVALID) { /* this configuration can't */
		admission_deny(f, 403, "%s", err.msg);
		return;
	}
	str_cut(str_of(err.msg), ':', &field, &words);
	whole = xasprintf("%s%s%.*s", path, path[0] ? "." : "", STR_ARG(field));
	admission_problem(f, whole, "Invalid", "%.*s", STR_ARG(str_trim(words)));
}

/* A manifest may be somebody else's. */
char *ctl_finding_shown(struct str path, struct str words)
{
	CLEANUP_FREE char *both = xasprintf("%.*s%s%.*s", STR_ARG(path), path.len ? ": " : "",
					    STR_ARG(words));

	return ctl_printable(str_of(both));
}

void ctl_findings_each(const struct admission_findings *f, ctl_finding_fn *fn, void *arg)
{
	if (f->denied)
		fn(arg, true, "Forbidden", STR_NULL, str_of(f->denied));
	for (size_t i = 0; i < f->n_problems; i++) {
		const struct admission_cause *c = &f->problems[i];
		CLEANUP_FREE char *words = xasprintf("%s: %s", admission_kind_text(c->kind),
						     c->message);

		fn(arg, true, c->kind, str_of(c->path), str_of(words));
	}
	for (size_t i = 0; i < f->n_warnings; i++) {
		struct str path, words, all = str_of(f->warnings[i]);

		/* They begin with their path. */
		str_cut(all, ':', &path, &words);
		fn(arg, false, NULL, words.len ? path : STR_NULL,
		   words.len ? str_trim(words) : all);
	}
	if (f->n_more) {
		CLEANUP_FREE char *more = xasprintf("and %zu more", f->n_more);

		fn(arg, true, NULL, STR_NULL, str_of(more));
	}
}
