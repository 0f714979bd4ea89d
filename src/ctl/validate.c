/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate: manifests judged as the operator's webhook judges them, with the place in the file, as
 * lines that editors understand or as JSON. Asks nobody: what only a cluster knows (its limits, its
 * controllers) isn't looked at.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/manifest.h"
#include "ctl/term.h"
#include "kube/object.h"

#define MAX_OUT  ((size_t)64 << 20)
#define NO_TOKEN "00000000000000000000000000000000"

struct validation {
	const struct ctl_options *o;
	struct buf *out;
	struct jmut_doc *doc; /* JSON, instead of lines; NULL: lines */
	struct jmut *findings, *objects;
	const struct ctl_object *object; /* that findings are of; NULL: the file has none */
	size_t looked_at, wrong;         /* of all files */
};

static void say_json(struct validation *v, const char *file, unsigned line, unsigned column,
		     bool is_error, struct str path, struct str words)
{
	struct jmut *f = jmut_object(v->doc);

	jmut_set_str(v->doc, f, "file", file);
	jmut_set_int(v->doc, f, "line", line);
	jmut_set_int(v->doc, f, "column", column);
	jmut_set_str(v->doc, f, "severity", is_error ? "error" : "warning");
	jmut_set(v->doc, f, "path", jmut_str(v->doc, path));
	jmut_set(v->doc, f, "message", jmut_str(v->doc, words));
	jmut_push(v->doc, v->findings, f);
}

static void say(void *arg, bool is_error, const char *kind, struct str path, struct str words)
{
	struct validation *v = arg;
	CLEANUP_FREE char *shown = NULL;
	unsigned line, column;

	(void)kind;
	ctl_object_pos(v->object, path, &line, &column);
	if (v->doc) {
		say_json(v, v->object->file, line, column, is_error, path, words);
		return;
	}
	shown = ctl_finding_shown(path, words);
	(void)buf_printf(v->out, NULL, "%s:%u:%u: %s%s%s: %s\n", v->object->file, line, column,
			 ctl_style(is_error ? CTL_RED : CTL_YELLOW), is_error ? "error" : "warning",
			 ctl_style_end(), shown);
}

/* An object that is judged, at the end of its findings. */
static void say_verdict(struct validation *v, bool is_valid)
{
	const struct json *object = v->object->json;
	struct str kind = json_str(json_get(object, "kind")), name = kube_name(object);
	struct jmut *one;
	unsigned line, column;

	if (!name.len)
		name = json_str(json_at(object, "metadata", "generateName", NULL));
	if (!v->doc) {
		CLEANUP_FREE char *shown = ctl_printable(name);

		if (is_valid)
			(void)buf_printf(v->out, NULL, "%s: %.*s %s is %svalid%s\n",
					 v->object->file, STR_ARG(kind), shown,
					 ctl_style(CTL_GREEN), ctl_style_end());
		return;
	}
	one = jmut_object(v->doc);
	ctl_object_pos(v->object, STR_NULL, &line, &column);
	jmut_set_str(v->doc, one, "file", v->object->file);
	jmut_set_int(v->doc, one, "line", line);
	jmut_set(v->doc, one, "kind", jmut_str(v->doc, kind));
	jmut_set(v->doc, one, "name", jmut_str(v->doc, name));
	jmut_set_bool(v->doc, one, "valid", is_valid);
	jmut_push(v->doc, v->objects, one);
}

static int check(void *arg, const struct ctl_object *object, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct validation *v = arg;
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	CLEANUP_FREE char *path = NULL;
	CLEANUP_FREE char *kind = NULL;
	const struct json *template;
	struct jmut *made;
	unsigned line, column;

	(void)err;
	v->object = object;
	switch (ctl_object_kind(object->json, &template, &path)) {
	case CTL_OBJECT_JOB:
		ctl_judge_job(doc, object->json, &f, &made);
		break;
	case CTL_OBJECT_POD:
		ctl_judge_pod(doc, template, template, path, NO_TOKEN, NULL, &f, &made);
		break;
	default:
		ctl_object_pos(object, STR_NULL, &line, &column);
		kind = ctl_printable(json_str(json_get(object->json, "kind")));
		fprintf(stderr, "%s:%u:%u: %s isn't an IPUJob, and not looked at\n", object->file,
			line, column, kind[0] ? kind : "what has no kind");
		return 0;
	}
	v->looked_at++;
	ctl_findings_each(&f, say, v);
	say_verdict(v, admission_is_allowed(&f));
	v->wrong += !admission_is_allowed(&f);
	admission_findings_done(&f);
	return 0;
}

/* The message begins with the place: "FILE:LINE:COLUMN: …". */
static int say_broken(void *arg, const char *file, const struct err *why, struct err *err)
{
	struct validation *v = arg;
	struct str rest = str_of(why->msg), words = rest;
	unsigned line = 1, column = 1;
	int used = 0;

	(void)err;
	v->looked_at++;
	v->wrong++;
	if (!v->doc) {
		(void)buf_printf(v->out, NULL, "%s\n", why->msg);
		return 0;
	}
	if (str_has_prefix(rest, str_of(file)) &&
	    sscanf(why->msg + strlen(file), ":%u:%u: %n", &line, &column, &used) == 2)
		words = str_of(why->msg + strlen(file) + used);
	say_json(v, file, line, column, true, STR_NULL, words);
	return 0;
}

static int finish(struct validation *v, struct err *err)
{
	struct jmut *root;

	if (!v->doc)
		return 0;
	root = jmut_object(v->doc);
	jmut_set_bool(v->doc, root, "valid", v->looked_at > 0 && v->wrong == 0);
	jmut_set(v->doc, root, "objects", v->objects);
	jmut_set(v->doc, root, "findings", v->findings);
	return ctl_write_value(jmut_view(root), v->o->output, v->out, err);
}

int ctl_run_validate(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = NULL;
	struct buf out = BUF_INIT(MAX_OUT);
	struct validation v = {.o = o, .out = &out};
	int result;

	(void)link;
	if (o->output == CTL_JSON || o->output == CTL_YAML) {
		v.doc = doc = jmut_doc_new();
		v.findings = jmut_array(doc);
		v.objects = jmut_array(doc);
	}
	result = ctl_manifests_each(o, check, say_broken, &v, err);
	if (finish(&v, result == 0 ? err : NULL) < 0 ||
	    ctl_write_out(buf_str(&out), result == 0 ? err : NULL) < 0)
		result = -1;
	buf_done(&out);
	if (result < 0)
		return -1;
	if (v.wrong)
		return err_set(err, ERR_INVALID, 422, "%zu of %zu can't be accepted", v.wrong,
			       v.looked_at);
	if (!v.looked_at)
		return err_set(err, ERR_NOT_FOUND, 0, "there is no IPUJob in what was given");
	return 0;
}
