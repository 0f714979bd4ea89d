/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotated Pods as the store keeps them, what they ask for, and the patches that they get.
 */
#include "pod/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "job/files.h"
#include "job/model.h"
#include "job/queue.h"
#include "kube/object.h"

/* ---- the projection ---- */

static void find_gates(struct pod *pod, const struct json *gates)
{
	struct json_iter it = json_iter(gates);

	while (json_next(&it)) {
		struct str name = json_str(json_get(it.value, "name"));

		if (str_eqz(name, POD_GATE))
			pod->gated = true;
		else if (!pod->other_gate)
			pod->other_gate = str_dup(name);
	}
}

/* Neither a key nor a value of a label has a line's end in it. */
static char *selector_of(const struct json *selector)
{
	struct json_iter it = json_iter(selector);
	struct buf text = BUF_INIT(1 << 20);
	size_t len;

	while (json_next(&it))
		(void)buf_printf(&text, NULL, "%.*s=%.*s\n", STR_ARG(it.key),
				 STR_ARG(json_str(it.value)));
	if (json_len(selector) == 0) {
		buf_done(&text);
		return NULL;
	}
	return buf_steal(&text, &len);
}

static bool is_of_job(const struct json *object)
{
	const struct json *owner = kube_controller_ref(object);

	return str_eqz(json_str(json_get(owner, "kind")), JOB_KIND) &&
	       str_eqz(json_str(json_get(owner, "apiVersion")), JOB_API_VERSION);
}

static void take_wishes(struct pod *pod, const struct json *object)
{
	struct err err = ERR_INIT;

	if (!pod_token_is(str_of(pod->token)))
		pod->problem = xasprintf("metadata.labels[" POD_LABEL "]: isn't a token of the "
					 "webhook's: the Pod hasn't been admitted by it");
	else if (pod_ipus(object, &pod->ipus, &err) < 0)
		pod->problem = xstrdup(err.msg);
	if (pod->problem)
		pod->ipus = 0;
}

int pod_decode(const struct json *object, struct pod **ret, struct err *err)
{
	const struct json *spec = json_get(object, "spec");
	struct str phase = json_str(json_at(object, "status", "phase", NULL));
	struct pod *pod;

	if (!kube_name(object).len || !kube_uid(object).len)
		return err_set(err, ERR_INVALID, 0, "a Pod without metadata.name or uid");
	pod = xcalloc(1, sizeof(*pod));
	pod->ns = str_dup(kube_namespace(object));
	pod->name = str_dup(kube_name(object));
	pod->uid = str_dup(kube_uid(object));
	pod->version = str_dup(kube_version(object));
	pod->token = str_dup(kube_label(object, POD_LABEL));
	pod->token_key = xasprintf("%s/%s", pod->ns, pod->token);
	pod->waiting = str_dup_or_null(kube_annotation(object, POD_ANNOTATION_WAITING));
	pod->priority = (int32_t)json_int(json_get(spec, "priority"), 0);
	pod->deadline_ms = pod_deadline_ms(object);
	pod->created_ms = kube_creation_ms(object);
	(void)clock_parse(json_str(json_at(object, "status", "startTime", NULL)), &pod->start_ms,
			  NULL);
	pod->deletion_ms = kube_deletion_ms(object);
	pod->deleting = kube_is_deleting(object);
	pod->started = json_str(json_get(spec, "nodeName")).len > 0;
	pod->ended = str_eqz(phase, "Succeeded") || str_eqz(phase, "Failed");
	pod->of_job = is_of_job(object);
	find_gates(pod, json_get(spec, "schedulingGates"));
	if (pod->gated)
		pod->selector = selector_of(json_get(spec, "nodeSelector"));
	else
		pod->partition = str_dup_or_null(kube_annotation(object, POD_ANNOTATION_PARTITION));
	take_wishes(pod, object);
	*ret = pod;
	return 0;
}

void pod_free(struct pod *pod)
{
	if (!pod)
		return;
	free(pod->ns);
	free(pod->name);
	free(pod->uid);
	free(pod->version);
	free(pod->token);
	free(pod->token_key);
	free(pod->partition);
	free(pod->waiting);
	free(pod->selector);
	free(pod->other_gate);
	free(pod->problem);
	free(pod);
}

bool pod_equal(const struct pod *a, const struct pod *b)
{
	return str_same(a->ns, b->ns) && str_same(a->name, b->name) && str_same(a->uid, b->uid) &&
	       str_same(a->token, b->token) && str_same(a->partition, b->partition) &&
	       str_same(a->waiting, b->waiting) && str_same(a->selector, b->selector) &&
	       str_same(a->problem, b->problem) && a->ipus == b->ipus &&
	       a->priority == b->priority && a->deadline_ms == b->deadline_ms &&
	       a->created_ms == b->created_ms && a->start_ms == b->start_ms &&
	       a->deletion_ms == b->deletion_ms && a->gated == b->gated &&
	       str_same(a->other_gate, b->other_gate) && a->deleting == b->deleting &&
	       a->started == b->started && a->ended == b->ended && a->of_job == b->of_job;
}

struct partition_ask pod_ask(const struct pod *pod, uint32_t attempt)
{
	return (struct partition_ask){
		.owner = {.kind = POD_KIND, .ns = pod->ns, .name = pod->name, .uid = pod->uid},
		.ipus = pod->ipus,
		.options = pod_partition_options,
		.attempt = attempt,
		.priority = pod->priority,
		.deadline_ms = pod->deadline_ms,
		.created_ms = pod->created_ms,
	};
}

struct str pod_selector_value(const struct pod *pod, const char *key)
{
	struct str rest = str_of(pod->selector), line, name, value;

	while (rest.len) {
		str_cut(rest, '\n', &line, &rest);
		str_cut(line, '=', &name, &value);
		if (str_eqz(name, key))
			return value;
	}
	return STR_NULL;
}

/* ---- the ConfigMap ---- */

uint64_t pod_files_wanted(const struct partition_status *part)
{
	if (!part->id || (part->by_file && !part->files) || (!part->by_file && !part->host))
		return 0;
	return part->files + job_files_keys_hash(part);
}

void pod_files_build(struct jmut_doc *doc, const struct pod *pod, const char *partition_id,
		     const struct job_files *before, struct jmut **ret_data)
{
	char config_map[POD_CONFIG_MAP_SIZE];
	struct job_files_owner whose = {
		.ns = pod->ns,
		.config_map = config_map,
		.api_version = "v1",
		.kind = POD_KIND,
		.name = pod->name,
		.uid = pod->uid,
		.label = POD_LABEL,
		.value = pod->token,
	};

	pod_config_map_name(pod->token, config_map);
	job_files_build_for(doc, &whose, partition_id, before, ret_data);
}

/* ---- patches ---- */

static struct jmut *begin_patch(struct jmut_doc *doc, const struct pod *pod,
				struct jmut **ret_annotations)
{
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc);

	*ret_annotations = jmut_object(doc);
	jmut_set_str(doc, meta, "uid", pod->uid);
	jmut_set(doc, meta, "annotations", *ret_annotations);
	jmut_set(doc, root, "metadata", meta);
	jmut_set_root(doc, root);
	return root;
}

static void set_deadline(struct jmut_doc *doc, struct jmut *spec, int64_t seconds)
{
	jmut_set_int(doc, spec, "activeDeadlineSeconds", seconds < INT32_MAX ? seconds : INT32_MAX);
}

void pod_open_patch(struct jmut_doc *doc, const struct pod *pod,
		    const struct partition_status *part)
{
	bool selects = part->label_key && !pod_selector_value(pod, part->label_key).p;
	int64_t limit_s = part->deadline_ms / 1000;
	struct jmut *meta, *annotations;

	job_gate_open(doc, pod->uid, part->id, selects ? part->label_key : NULL, part->label_value);
	meta = jmut_get(jmut_root(doc), "metadata");
	annotations = jmut_get(meta, "annotations");
	jmut_set_str(doc, meta, "resourceVersion", pod->version);
	if (pod->waiting)
		jmut_set(doc, annotations, POD_ANNOTATION_WAITING, jmut_null(doc));
	if (selects)
		jmut_set(doc, annotations, POD_ANNOTATION_SELECTOR,
			 jmut_strf(doc, "%s=%s", part->label_key, part->label_value));
	if (!pod->deadline_ms && limit_s > 0)
		set_deadline(doc, jmut_get(jmut_root(doc), "spec"), limit_s);
}

void pod_limit_patch(struct jmut_doc *doc, const struct pod *pod,
		     const struct partition_status *part)
{
	struct jmut *annotations, *spec = jmut_object(doc);
	struct jmut *root = begin_patch(doc, pod, &annotations);
	int64_t waited_ms = part->since_ms > pod->start_ms ? part->since_ms - pod->start_ms : 0;

	set_deadline(doc, spec, (waited_ms + part->deadline_ms + 999) / 1000);
	jmut_set(doc, root, "spec", spec);
}

void pod_say_patch(struct jmut_doc *doc, const struct pod *pod, const char *words)
{
	struct jmut *annotations;

	begin_patch(doc, pod, &annotations);
	jmut_set_str(doc, annotations, POD_ANNOTATION_WAITING, words);
}
