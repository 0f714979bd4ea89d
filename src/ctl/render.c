/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render: what would be created for manifests, by the code that creates it, as YAML documents or
 * one JSON list that kubectl can read. What only a cluster knows is written in angle brackets.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/manifest.h"
#include "ctl/settings.h"
#include "ctl/term.h"
#include "job/files.h"
#include "job/launcher.h"
#include "job/make.h"
#include "kube/object.h"
#include "pod/model.h"

#define MAX_OUT   ((size_t)256 << 20)
#define TOKEN     "00000000000000000000000000000000"
#define PARTITION "<partition>"
#define HOST      "<V-IPU controller>"
#define UID       "<uid>"
#define MAX_NOTE  512

struct rendering {
	const struct ctl_options *o;
	struct ctl_settings settings;
	bool by_file;
	struct buf *out;
	struct jmut_doc *doc; /* JSON: of the whole list; NULL: YAML */
	struct jmut *items, *requests;
	const struct ctl_object *object;
	size_t rendered, wrong;
};

/* ---- out ---- */

/* As people write it: what it is first. */
static struct jmut *in_order(struct jmut_doc *doc, const struct json *object)
{
	static const char *const first[] = {"apiVersion", "kind", "metadata"};
	struct jmut *root = jmut_object(doc);
	struct json_iter it = json_iter(object);

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		jmut_set(doc, root, first[i], jmut_copy(doc, json_get(object, first[i])));
	while (json_next(&it))
		jmut_setn(doc, root, it.key, jmut_copy(doc, it.value));
	return root;
}

/* note: a line above it. */
static int emit(struct rendering *r, const struct jmut *object, const char *note, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	if (r->doc) {
		jmut_push(r->doc, r->items, in_order(r->doc, jmut_view(object)));
		return 0;
	}
	if (buf_printf(r->out, err, "---\n%s# %s%s\n", ctl_style(CTL_DIM), note, ctl_style_end()) <
	    0)
		return -1;
	return yaml_write(jmut_view(in_order(doc, jmut_view(object))), r->out, err);
}

/* No object of Kubernetes': what is asked of the partition layer. A comment, in YAML. */
static int emit_ask(struct rendering *r, const struct partition_ask *ask, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(r->doc ? r->doc : doc);

	partition_ask_encode(r->doc ? r->doc : doc, root, ask);
	if (r->doc) {
		jmut_push(r->doc, r->requests, root);
		return 0;
	}
	if (buf_printf(r->out, err, "---\n%s# Partition request: ", ctl_style(CTL_DIM)) < 0 ||
	    jmut_write(root, JSON_COMPACT, r->out, err) < 0)
		return -1;
	return buf_printf(r->out, err, "%s\n", ctl_style_end());
}

static void on_finding(void *arg, bool is_error, const char *kind, struct str path,
		       struct str words)
{
	struct rendering *r = arg;
	CLEANUP_FREE char *shown = ctl_finding_shown(path, words);
	unsigned line, column;

	(void)kind;
	ctl_object_pos(r->object, path, &line, &column);
	fprintf(stderr, "%s:%u:%u: %s: %s\n", r->object->file, line, column,
		is_error ? "error" : "warning", shown);
}

/* ---- jobs ---- */

static struct partition_status partition_of(const struct rendering *r)
{
	return (struct partition_status){
		.state = PARTITION_STATE_ACTIVE,
		.id = PARTITION,
		.controller = HOST,
		.host = HOST,
		.port = 8090,
		.by_file = r->by_file,
		.files = 1,
	};
}

static void add_gcds(struct job_files_data *data, uint32_t gcds)
{
	for (uint32_t i = 0; i < gcds; i++) {
		char name[PARTITION_FILE_NAME_SIZE];

		partition_file_name(i, name);
		jmut_set_str(data->doc, data->object, name,
			     "<what the V-IPU controller says of the partition>");
	}
}

static int render_support(struct rendering *r, const struct job *job, struct err *err)
{
	static const char *const notes[] = {
		[JOB_SUPPORT_CONFIG] = "How the launcher's ranks get into the workers",
		[JOB_SUPPORT_ACCOUNT] = "The launcher's account",
		[JOB_SUPPORT_ROLE] = "... may reach this job's workers and nothing else",
		[JOB_SUPPORT_BINDING] = "... by this",
	};

	for (unsigned i = 0; i < JOB_SUPPORTS; i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

		job_support_build(doc, job, i, job->instances, NULL);
		if (emit(r, jmut_root(doc), notes[i], err) < 0)
			return -1;
	}
	return 0;
}

static int render_files(struct rendering *r, const struct job *job, uint32_t instance,
			struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct partition_status part = partition_of(r);
	struct job_files_data data = {.doc = doc};
	char note[MAX_NOTE];

	if (!job_files_needed(job, &part))
		return 0;
	job_files_build(doc, job, instance, part.id, NULL, &data.object);
	if (part.by_file)
		add_gcds(&data, job->options.gcds ? job->options.gcds : job->workers);
	job_files_values(job, &part, job_files_put_value, &data);
	snprintf(note, sizeof(note), "The IPUoF configuration of instance %" PRIu32, instance);
	return emit(r, jmut_root(doc), note, err);
}

static int render_group(struct rendering *r, const struct job *job, const struct json *spec,
			uint32_t instance, enum job_group_api api, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	char note[MAX_NOTE];

	if (!job->group_hash)
		return 0;
	job_group_build(doc, job, spec, instance, api);
	snprintf(note, sizeof(note), "The gang of instance %" PRIu32 "%s", instance,
		 job->scheduler ? "" : ", if the cluster has Volcano");
	return emit(r, jmut_root(doc), note, err);
}

static int render_pod(struct rendering *r, const struct job *job, const struct json *spec,
		      uint32_t instance, int64_t worker, enum job_group_api api, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct partition_status part = partition_of(r);
	char note[MAX_NOTE];

	if (job_make_pod(doc, job, spec, instance, worker < 0 ? 0 : (uint32_t)worker, worker < 0,
			 &part, api, &r->settings.pods.worker, err) < 0)
		return -1;
	if (worker < 0)
		snprintf(note, sizeof(note),
			 "Launcher of instance %" PRIu32 ", when its workers are ready%s", instance,
			 r->settings.has_image
				 ? ""
				 : "; launcher.image isn't configured: it would wait");
	else
		snprintf(note, sizeof(note),
			 "Worker %" PRId64 " of instance %" PRIu32 ", %s; with the node selector "
			 "of its controller, if that has one",
			 worker, instance,
			 job->queue_name ? "behind a gate until it has its partition"
					 : "when its partition is active");
	return emit(r, jmut_root(doc), note, err);
}

static int render_instances(struct rendering *r, const struct job *job, const struct json *spec,
			    struct err *err)
{
	static const bool there[JOB_GROUP_APIS] = {
		[JOB_GROUP_VOLCANO] = true, [JOB_GROUP_COSCHEDULING] = true};
	enum job_group_api api = job->group_hash ? job_group_choose(job, there) : JOB_GROUP_NONE;

	for (uint32_t i = 0; i < job->instances; i++) {
		struct partition_ask ask = job_ask(job, i);

		if (emit_ask(r, &ask, err) < 0 || render_files(r, job, i, err) < 0 ||
		    render_group(r, job, spec, i, api, err) < 0)
			return -1;
		for (uint32_t w = 0; w < job->workers; w++) {
			if (render_pod(r, job, spec, i, w, api, err) < 0)
				return -1;
		}
		if (job_has_launcher(job) && render_pod(r, job, spec, i, -1, api, err) < 0)
			return -1;
	}
	return 0;
}

static const char *namespace_of(const struct rendering *r, const struct json *object)
{
	const char *own = json_cstr(json_at(object, "metadata", "namespace", NULL));

	return r->o->job_ns ? r->o->job_ns : own && own[0] ? own : "default";
}

/* What the API server would add to an object. A name that is to be made up gets its end here. */
static void complete(const struct rendering *r, struct jmut_doc *doc, struct jmut *object)
{
	struct jmut *meta = jmut_need_object(doc, object, "metadata");
	struct str base = json_str(jmut_view(jmut_get(meta, "generateName")));

	if (!kube_name(jmut_view(object)).len)
		jmut_set(doc, meta, "name",
			 jmut_strf(doc, "%.*sxxxxx", STR_ARG(base.len ? base : STR("pod-"))));
	jmut_set_str(doc, meta, "namespace", namespace_of(r, jmut_view(object)));
	jmut_set_str(doc, meta, "uid", UID);
	jmut_del(jmut_get(meta, "annotations"), "kubectl.kubernetes.io/last-applied-configuration");
}

static int render_job(struct rendering *r, struct jmut_doc *doc, struct jmut *object,
		      struct err *err)
{
	struct job *job;
	int result;

	complete(r, doc, object);
	if (job_decode(jmut_view(object), &job, err) < 0)
		return -1;
	jmut_del(jmut_get(object, "metadata"), "uid");
	result = emit(r, object, "The IPUJob with its defaults", err);
	if (result == 0 && job_has_launcher(job))
		result = render_support(r, job, err);
	if (result == 0)
		result = render_instances(r, job, json_get(jmut_view(object), "spec"), err);
	job_free(job);
	return result;
}

/* ---- annotated Pods ---- */

static int render_injected(struct rendering *r, struct jmut_doc *doc, struct jmut *object,
			   bool is_pod, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *files = jmut_doc_new();
	struct partition_status part = partition_of(r);
	struct job_files_data data = {.doc = files};
	bool is_gated = r->settings.pods.mode == POD_MODE_GATE;
	struct partition_ask ask;
	struct pod *pod;
	int result;

	/* Where nobody has said how, its Pods get files: doc/design/decisions.md, "Secure
	 * controllers". */
	part.by_file = r->by_file || !r->o->controller;
	complete(r, doc, object);
	if (pod_decode(jmut_view(object), &pod, err) < 0)
		return -1;
	jmut_del(jmut_get(object, "metadata"), "uid");
	ask = pod_ask(pod, 0);
	result = emit_ask(r, &ask, err);
	if (result == 0)
		result = emit(r, object,
			      is_pod ? "The Pod as the webhook makes it, with a token of its own"
				     : "A Pod of the template as the webhook makes it, with a "
				       "token of its own",
			      err);
	if (result == 0 && is_gated) {
		pod_files_build(files, pod, part.id, NULL, &data.object);
		if (part.by_file)
			add_gcds(&data, 1);
		job_files_keys(&part, job_files_put_value, &data);
		result = emit(r, jmut_root(files), "Its IPUoF configuration, when it has IPUs",
			      err);
	}
	pod_free(pod);
	return result;
}

/* The Pod that a controller would make of a template. */
static struct jmut *pod_from(struct jmut_doc *doc, const struct json *owner,
			     const struct json *template)
{
	struct jmut *pod = jmut_object(doc), *meta;

	jmut_set_str(doc, pod, "apiVersion", "v1");
	jmut_set_str(doc, pod, "kind", "Pod");
	jmut_set(doc, pod, "metadata", jmut_copy(doc, json_get(template, "metadata")));
	jmut_set(doc, pod, "spec", jmut_copy(doc, json_get(template, "spec")));
	meta = jmut_need_object(doc, pod, "metadata");
	if (!str_eqz(json_str(json_get(owner, "kind")), "Pod"))
		jmut_set(doc, meta, "generateName",
			 jmut_strf(doc, "%.*s-", STR_ARG(kube_name(owner))));
	if (kube_namespace(owner).len)
		jmut_set(doc, meta, "namespace", jmut_str(doc, kube_namespace(owner)));
	return pod;
}

/* ---- all ---- */

static int render_one(void *arg, const struct ctl_object *object, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct rendering *r = arg;
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	CLEANUP_FREE char *path = NULL;
	const struct json *template;
	enum ctl_object_kind kind = ctl_object_kind(object->json, &template, &path);
	struct jmut *made = NULL;
	int result = 0;

	if (kind == CTL_OBJECT_OTHER)
		return 0;
	r->object = object;
	if (kind == CTL_OBJECT_JOB) {
		ctl_judge_job(doc, object->json, &f, &made);
	} else {
		const struct json *pod = jmut_view(pod_from(doc, object->json, template));

		r->settings.pods.ns = namespace_of(r, pod);
		ctl_judge_pod(doc, pod, template, path, TOKEN, &r->settings.pods, &f, &made);
	}
	ctl_findings_each(&f, on_finding, r);
	if (!admission_is_allowed(&f))
		r->wrong++;
	else if (made)
		result = kind == CTL_OBJECT_JOB ? render_job(r, doc, made, err)
						: render_injected(r, doc, made, !path[0], err);
	r->rendered++;
	admission_findings_done(&f);
	return result;
}

static int on_broken(void *arg, const char *file, const struct err *why, struct err *err)
{
	(void)arg;
	(void)file;
	return err_set(err, ERR_INVALID, 422, "%s", why->msg);
}

static int finish(struct rendering *r, struct err *err)
{
	struct jmut *root;

	if (!r->doc)
		return 0;
	root = jmut_object(r->doc);
	jmut_set_str(r->doc, root, "apiVersion", "v1");
	jmut_set_str(r->doc, root, "kind", "List");
	jmut_set(r->doc, root, "metadata", jmut_object(r->doc));
	jmut_set(r->doc, root, "items", r->items);
	jmut_set(r->doc, root, "partitionRequests", r->requests);
	return ctl_write_value(jmut_view(root), CTL_JSON, r->out, err);
}

static int begin(struct rendering *r, const struct ctl_options *o, struct err *err)
{
	r->o = o;
	r->by_file = o->controller && strcmp(o->controller, "file") == 0;
	if (o->controller && !r->by_file && strcmp(o->controller, "api") != 0)
		return err_set(err, ERR_INVALID, 0, "--controller: must be api or file, not \"%s\"",
			       o->controller);
	if (o->job_ns && kube_check_name("--namespace", str_of(o->job_ns), false, err) < 0)
		return -1;
	if (ctl_settings_load(o->config, &r->settings, err) < 0)
		return -1;
	if (o->output == CTL_JSON) {
		r->doc = jmut_doc_new();
		r->items = jmut_array(r->doc);
		r->requests = jmut_array(r->doc);
	}
	return 0;
}

int ctl_run_render(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct buf out = BUF_INIT(MAX_OUT);
	struct rendering r = {.out = &out};
	int result = begin(&r, o, err);

	(void)link;
	if (result == 0)
		result = ctl_manifests_each(o, render_one, on_broken, &r, err);
	if (result == 0)
		result = finish(&r, err);
	if (result == 0)
		result = ctl_write_out(buf_str(&out), err);
	buf_done(&out);
	jmut_doc_free(r.doc);
	ctl_settings_done(&r.settings);
	if (result < 0)
		return -1;
	if (r.wrong)
		return err_set(err, ERR_INVALID, 422, "%zu of %zu can't be accepted", r.wrong,
			       r.rendered);
	if (!r.rendered)
		return err_set(err, ERR_NOT_FOUND, 0,
			       "there is neither an IPUJob nor a Pod that asks for IPUs in what "
			       "was given");
	return 0;
}
