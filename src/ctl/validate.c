/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate: IPUJobs in manifests, judged as the operator's webhook judges them, with the place in
 * the file. Asks nobody: what only a cluster knows (its limits, its controllers) isn't looked at.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "admission/job.h"
#include "core/yaml.h"
#include "ctl/commands.h"
#include "job/model.h"
#include "kube/object.h"

#define MAX_POINTER ((size_t)4 << 10)
#define MAX_OUT     ((size_t)64 << 20)

struct validation {
	const char *file;
	const struct yaml *yaml;
	size_t doc;
	struct buf *out;
	size_t jobs, wrong; /* of all files */
};

/* ---- places ---- */

/* One token of a JSON pointer (RFC 6901). */
static void add_token(struct buf *pointer, struct str token)
{
	(void)buf_append_str(pointer, STR("/"), NULL);
	for (size_t i = 0; i < token.len; i++) {
		struct str one = {token.p + i, 1};

		(void)buf_append_str(pointer,
				     token.p[i] == '~'   ? STR("~0")
				     : token.p[i] == '/' ? STR("~1")
							 : one,
				     NULL);
	}
}

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
			add_token(pointer, (struct str){path.p + begin, i - begin});
		if (bracket) {
			const char *end = memchr(path.p + i, ']', path.len - i);
			size_t last = end ? (size_t)(end - path.p) : path.len;

			add_token(pointer, (struct str){path.p + i + 1, last - i - 1});
			i = last;
		}
		begin = i + 1;
	}
}

static void say(struct validation *v, const char *root, struct str path, const char *what,
		struct str words)
{
	struct buf pointer = BUF_INIT(MAX_POINTER);
	unsigned line, column;

	(void)buf_append_str(&pointer, str_of(root), NULL);
	place_of(&pointer, path);
	(void)buf_append(&pointer, "", 1, NULL);
	yaml_key_pos(v->yaml, v->doc, buf_str(&pointer).p, &line, &column);
	(void)buf_printf(v->out, NULL, "%s:%u:%u: %s: %.*s: %.*s\n", v->file, line, column, what,
			 STR_ARG(path), STR_ARG(words));
	buf_done(&pointer);
}

/* ---- an object ---- */

static void say_findings(struct validation *v, const char *root, const struct admission_findings *f)
{
	for (size_t i = 0; i < f->n_problems; i++) {
		const struct admission_cause *c = &f->problems[i];
		CLEANUP_FREE char *words = xasprintf("%s: %s", admission_kind_text(c->kind),
						     c->message);

		say(v, root, str_of(c->path), "error", str_of(words));
	}
	for (size_t i = 0; i < f->n_warnings; i++) {
		struct str path, words, all = str_of(f->warnings[i]);

		/* They begin with their path. */
		str_cut(all, ':', &path, &words);
		say(v, root, words.len ? path : STR_NULL, "warning",
		    words.len ? str_trim(words) : all);
	}
	if (f->n_more)
		(void)buf_printf(v->out, NULL, "%s: error: and %zu more\n", v->file, f->n_more);
}

static void check_job(struct validation *v, const char *root, const struct json *object)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	struct str version = json_str(json_get(object, "apiVersion"));
	struct str name = kube_name(object);
	struct str generated = json_str(json_at(object, "metadata", "generateName", NULL));

	v->jobs++;
	if (!str_eqz(version, JOB_API_VERSION))
		admission_problem(&f, "apiVersion", "Unsupported", "must be " JOB_API_VERSION);
	job_unknown_fields(object, admission_report, &f);
	if (admission_job_default(doc, NULL, object, NULL) == 0)
		admission_job_check(NULL, NULL, jmut_view(jmut_root(doc)), &f);
	say_findings(v, root, &f);
	if (admission_is_allowed(&f))
		(void)buf_printf(v->out, NULL, "%s: IPUJob %.*s is valid\n", v->file,
				 STR_ARG(name.len ? name : generated));
	else
		v->wrong++;
	admission_findings_done(&f);
}

static void check_object(struct validation *v, const char *root, const struct json *object)
{
	struct str kind = json_str(json_get(object, "kind"));
	struct json_iter it = json_iter(json_get(object, "items"));
	unsigned line, column;

	if (str_eqz(kind, JOB_KIND)) {
		check_job(v, root, object);
		return;
	}
	if (str_eqz(kind, "List") || str_eqz(kind, JOB_KIND "List")) {
		while (json_next(&it)) {
			CLEANUP_FREE char *at = xasprintf("%s/items/%zu", root, it.index);

			check_object(v, at, it.value);
		}
		return;
	}
	yaml_pos(v->yaml, v->doc, root, &line, &column);
	fprintf(stderr, "%s:%u:%u: %.*s%sisn't an " JOB_KIND ", and not looked at\n", v->file, line,
		column, STR_ARG(kind), kind.len ? " " : "what has no kind ");
}

/* ---- files ---- */

static int check_file(struct validation *v, const char *path, struct err *err)
{
	CLEANUP_YAML struct yaml *yaml = NULL;

	v->file = strcmp(path, "-") == 0 ? "standard input" : path;
	if (yaml_load(path, &yaml, err) < 0) {
		/* A file that is there, and is no YAML, is a wrong manifest. */
		if (err->kind != ERR_INVALID && err->kind != ERR_LIMIT) {
			err->kind = ERR_INVALID;
			err->code = 0;
			return -1;
		}
		(void)buf_printf(v->out, NULL, "%s\n", err->msg);
		v->wrong++;
		v->jobs++;
		return 0;
	}
	v->yaml = yaml;
	for (v->doc = 0; v->doc < yaml_len(yaml); v->doc++)
		check_object(v, "", yaml_doc(yaml, v->doc));
	return 0;
}

int ctl_run_validate(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct buf out = BUF_INIT(MAX_OUT);
	struct validation v = {.out = &out};
	int result = 0;

	(void)link;
	for (size_t i = 0; i < o->n_words && result == 0; i++)
		result = check_file(&v, o->words[i], err);
	if (ctl_write_out(buf_str(&out), result == 0 ? err : NULL) < 0)
		result = -1;
	buf_done(&out);
	if (result < 0)
		return -1;
	if (v.wrong)
		return err_set(err, ERR_INVALID, 422, "%zu of %zu can't be accepted", v.wrong,
			       v.jobs);
	if (!v.jobs)
		return err_set(err, ERR_NOT_FOUND, 0, "there is no IPUJob in what was given");
	return 0;
}
