/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PodGroups of Volcano and of scheduler-plugins. Field names are those of volcano.sh/apis
 * (scheduling/v1beta1) and of sigs.k8s.io/scheduler-plugins (apis/scheduling/v1alpha1).
 */
#include "job/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "kube/object.h"

#define VOLCANO_GROUP      "scheduling.volcano.sh"
#define COSCHEDULING_GROUP "scheduling.x-k8s.io"
#define VOLCANO_SCHEDULER  "volcano"
/* How a Pod names its group: Volcano by an annotation, scheduler-plugins by a label. */
#define VOLCANO_MEMBER      "scheduling.k8s.io/group-name"
#define COSCHEDULING_MEMBER "scheduling.x-k8s.io/pod-group"

static const struct kube_resource resources[JOB_GROUP_APIS] = {
	[JOB_GROUP_VOLCANO] = {VOLCANO_GROUP, "v1beta1", "podgroups", "PodGroup", true},
	[JOB_GROUP_COSCHEDULING] = {COSCHEDULING_GROUP, "v1alpha1", "podgroups", "PodGroup", true},
};

const struct kube_resource *job_group_resource(enum job_group_api api)
{
	return &resources[api];
}

enum job_group_api job_group_choose(const struct job *job, const bool there[JOB_GROUP_APIS])
{
	bool named = job->scheduler != NULL;
	bool volcano = !named || strcmp(job->scheduler, VOLCANO_SCHEDULER) == 0;

	if (volcano && there[JOB_GROUP_VOLCANO])
		return JOB_GROUP_VOLCANO;
	return (!named || !volcano) && there[JOB_GROUP_COSCHEDULING] ? JOB_GROUP_COSCHEDULING
								     : JOB_GROUP_NONE;
}

/* ---- what the store keeps ---- */

static enum job_group_api api_of(struct str version)
{
	for (int api = JOB_GROUP_NONE + 1; api < JOB_GROUP_APIS; api++) {
		char z[KUBE_API_VERSION_SIZE];

		if (str_eqz(version, kube_api_version(&resources[api], z)))
			return api;
	}
	return JOB_GROUP_NONE;
}

int job_group_decode(const struct json *object, struct job_group **ret, struct err *err)
{
	enum job_group_api api = api_of(json_str(json_get(object, "apiVersion")));
	char key[KUBE_KEY_SIZE];
	struct job_group *g;
	int64_t n;

	if (!kube_name(object).len || !kube_uid(object).len || api == JOB_GROUP_NONE)
		return err_set(err, ERR_INVALID, 0,
			       "a PodGroup without metadata.name or uid, or of another API");
	g = xcalloc(1, sizeof(*g));
	g->api = api;
	g->ns = str_dup(kube_namespace(object));
	g->name = str_dup(kube_name(object));
	g->uid = str_dup(kube_uid(object));
	g->job_key = str_dup(
		kube_key(kube_namespace(object), kube_label(object, JOB_LABEL_JOB), key));
	g->owner_uid = str_dup_or_null(json_str(json_get(kube_controller_ref(object), "uid")));
	g->hash = job_hash_parse(kube_annotation(object, JOB_ANNOTATION_TEMPLATE));
	g->instance = str_to_int(kube_label(object, JOB_LABEL_INSTANCE), 0, UINT32_MAX, &n, NULL) <
				      0
			      ? -1
			      : n;
	g->deleting = kube_is_deleting(object);
	*ret = g;
	return 0;
}

void job_group_free(struct job_group *g)
{
	if (!g)
		return;
	free(g->ns);
	free(g->name);
	free(g->uid);
	free(g->job_key);
	free(g->owner_uid);
	free(g);
}

bool job_group_equal(const struct job_group *a, const struct job_group *b)
{
	return str_same(a->uid, b->uid) && str_same(a->job_key, b->job_key) &&
	       str_same(a->owner_uid, b->owner_uid) && a->hash == b->hash &&
	       a->instance == b->instance && a->deleting == b->deleting;
}

/* ---- the object ---- */

char *job_group_name(const struct job *job, uint32_t instance)
{
	return xasprintf("%s-%" PRIu32, job->name, instance);
}

static void set_text(struct jmut_doc *doc, struct jmut *to, const char *key,
		     const struct json *from)
{
	struct str s = json_str(from);

	if (s.len)
		jmut_set(doc, to, key, jmut_str(doc, s));
}

static struct jmut *build_spec(struct jmut_doc *doc, const struct job *job,
			       const struct json *policy, enum job_group_api api)
{
	const struct json *resources_wanted = json_get(policy, "minResources");
	int64_t timeout_s = json_int(json_get(policy, "scheduleTimeoutSeconds"), 0);
	struct jmut *spec = jmut_object(doc);

	jmut_set_int(doc, spec, "minMember",
		     json_int(json_get(policy, "minAvailable"), job->workers));
	if (json_len(resources_wanted) > 0)
		jmut_set(doc, spec, "minResources", jmut_copy(doc, resources_wanted));
	if (api == JOB_GROUP_VOLCANO) {
		set_text(doc, spec, "queue", json_get(policy, "queue"));
		set_text(doc, spec, "priorityClassName", json_get(policy, "priorityClass"));
	} else if (timeout_s > 0) {
		jmut_set_int(doc, spec, "scheduleTimeoutSeconds", timeout_s);
	}
	return spec;
}

void job_group_build(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		     uint32_t instance, enum job_group_api api)
{
	CLEANUP_FREE char *name = job_group_name(job, instance);
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *labels = jmut_object(doc);
	struct jmut *annotations = jmut_object(doc);
	char version[KUBE_API_VERSION_SIZE];

	jmut_set_str(doc, root, "apiVersion", kube_api_version(&resources[api], version));
	jmut_set_str(doc, root, "kind", resources[api].kind);
	jmut_set_str(doc, meta, "name", name);
	jmut_set_str(doc, meta, "namespace", job->ns);
	jmut_set_str(doc, labels, "app.kubernetes.io/managed-by", "ipu-operator");
	jmut_set_str(doc, labels, JOB_LABEL_JOB, job->name);
	jmut_set(doc, labels, JOB_LABEL_INSTANCE, jmut_strf(doc, "%" PRIu32, instance));
	jmut_set(doc, meta, "labels", labels);
	jmut_set(doc, annotations, JOB_ANNOTATION_TEMPLATE,
		 jmut_strf(doc, "%016" PRIx64, job->group_hash));
	jmut_set(doc, meta, "annotations", annotations);
	kube_set_owner(doc, meta, JOB_API_VERSION, JOB_KIND, job->name, job->uid);
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "spec", build_spec(doc, job, json_get(spec, "schedulingPolicy"), api));
	jmut_set_root(doc, root);
}

void job_group_mark(struct jmut_doc *doc, const struct job *job, uint32_t instance,
		    enum job_group_api api)
{
	struct jmut *root = jmut_root(doc);
	struct jmut *meta = jmut_need_object(doc, root, "metadata");
	CLEANUP_FREE char *name = job_group_name(job, instance);

	if (api == JOB_GROUP_NONE)
		return;
	if (api == JOB_GROUP_COSCHEDULING) {
		jmut_set_str(doc, jmut_need_object(doc, meta, "labels"), COSCHEDULING_MEMBER, name);
		return;
	}
	jmut_set_str(doc, jmut_need_object(doc, meta, "annotations"), VOLCANO_MEMBER, name);
	if (!job->scheduler)
		jmut_set_str(doc, jmut_need_object(doc, root, "spec"), "schedulerName",
			     VOLCANO_SCHEDULER);
}
