/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMap of an instance's IPUoF configuration, as an object and as the store keeps it.
 */
#include "job/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "kube/object.h"
#include "partition/types.h"

char *job_files_name(const struct job *job, uint32_t instance)
{
	return xasprintf("%s-ipuof-%" PRIu32, job->name, instance);
}

void job_files_put(const char *name, struct str text, void *arg)
{
	struct job_files_data *data = arg;

	jmut_set(data->doc, data->object, name, jmut_str(data->doc, text));
}

void job_files_put_value(void *arg, const char *key, const char *value)
{
	job_files_put(key, str_of(value), arg);
}

void job_files_build_for(struct jmut_doc *doc, const struct job_files_owner *whose,
			 const char *partition_id, const struct job_files *before,
			 struct jmut **ret_data)
{
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *labels = jmut_object(doc);
	struct jmut *annotations = jmut_object(doc);

	*ret_data = jmut_object(doc);
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "ConfigMap");
	jmut_set_str(doc, meta, "name", whose->config_map);
	jmut_set_str(doc, meta, "namespace", whose->ns);
	if (before) {
		jmut_set_str(doc, meta, "uid", before->uid);
		jmut_set_str(doc, meta, "resourceVersion", before->version);
	}
	jmut_set_str(doc, labels, "app.kubernetes.io/managed-by", "ipu-operator");
	jmut_set_str(doc, labels, whose->label, whose->value);
	jmut_set(doc, meta, "labels", labels);
	jmut_set_str(doc, annotations, JOB_ANNOTATION_PARTITION, partition_id);
	jmut_set(doc, meta, "annotations", annotations);
	kube_set_owner(doc, meta, whose->api_version, whose->kind, whose->name, whose->uid);
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "data", *ret_data);
	jmut_set_root(doc, root);
}

void job_files_build(struct jmut_doc *doc, const struct job *job, uint32_t instance,
		     const char *partition_id, const struct job_files *before,
		     struct jmut **ret_data)
{
	CLEANUP_FREE char *config_map = job_files_name(job, instance);
	struct job_files_owner whose = {
		.ns = job->ns,
		.config_map = config_map,
		.api_version = JOB_API_VERSION,
		.kind = JOB_KIND,
		.name = job->name,
		.uid = job->uid,
		.label = JOB_LABEL_JOB,
		.value = job->name,
	};
	struct jmut *meta;

	job_files_build_for(doc, &whose, partition_id, before, ret_data);
	meta = jmut_get(jmut_root(doc), "metadata");
	jmut_set(doc, jmut_get(meta, "labels"), JOB_LABEL_INSTANCE,
		 jmut_strf(doc, "%" PRIu32, instance));
}

/* The path that JOB_VALUES_KEYS mounts its file at. */
#define LATER_PATH "/etc/ipuof.conf.d/partition.conf"

void job_files_keys(const struct partition_status *part, job_files_value_fn *fn, void *arg)
{
	char port[8];

	if (part->by_file) {
		fn(arg, "IPUOF_CONFIG_PATH", LATER_PATH);
		return;
	}
	snprintf(port, sizeof(port), "%u", part->port);
	fn(arg, "IPUOF_VIPU_API_HOST", part->host ? part->host : "");
	fn(arg, "IPUOF_VIPU_API_PORT", port);
	fn(arg, "IPUOF_VIPU_API_PARTITION_ID", part->id);
}

void job_files_values(const struct job *job, const struct partition_status *part,
		      job_files_value_fn *fn, void *arg)
{
	if (job->queue_name && part->id)
		job_files_keys(part, fn, arg);
}

bool job_files_needed(const struct job *job, const struct partition_status *part)
{
	return part->by_file || (job->queue_name && part->id);
}

static void add_hash(void *arg, const char *key, const char *value)
{
	*(uint64_t *)arg += partition_file_hash(str_of(key), str_of(value));
}

uint64_t job_files_keys_hash(const struct partition_status *part)
{
	uint64_t hash = 0;

	job_files_keys(part, add_hash, &hash);
	return hash;
}

uint64_t job_files_wanted(const struct job *job, const struct partition_status *part)
{
	if (part->by_file && !part->files)
		return 0;
	return part->files + (job->queue_name && part->id ? job_files_keys_hash(part) : 0);
}

uint64_t job_files_hash(const struct json *object)
{
	struct json_iter it = json_iter(json_get(object, "data"));
	uint64_t hash = 0;

	while (json_next(&it))
		hash += partition_file_hash(it.key, json_str(it.value));
	return hash;
}

int job_files_decode(const struct json *object, const char *label, struct job_files **ret,
		     struct err *err)
{
	char key[KUBE_KEY_SIZE];
	struct job_files *f;

	if (!kube_name(object).len || !kube_uid(object).len)
		return err_set(err, ERR_INVALID, 0, "a ConfigMap without metadata.name or uid");
	f = xcalloc(1, sizeof(*f));
	f->ns = str_dup(kube_namespace(object));
	f->name = str_dup(kube_name(object));
	f->uid = str_dup(kube_uid(object));
	f->version = str_dup(kube_version(object));
	f->key = str_dup(kube_key(kube_namespace(object), kube_label(object, label), key));
	f->owner_uid = str_dup_or_null(json_str(json_get(kube_controller_ref(object), "uid")));
	f->partition = str_dup_or_null(kube_annotation(object, JOB_ANNOTATION_PARTITION));
	f->deleting = kube_is_deleting(object);
	f->hash = job_files_hash(object);
	*ret = f;
	return 0;
}

void job_files_free(struct job_files *f)
{
	if (!f)
		return;
	free(f->ns);
	free(f->name);
	free(f->uid);
	free(f->version);
	free(f->key);
	free(f->owner_uid);
	free(f->partition);
	free(f);
}

bool job_files_equal(const struct job_files *a, const struct job_files *b)
{
	return str_same(a->uid, b->uid) && str_same(a->version, b->version) &&
	       str_same(a->key, b->key) && str_same(a->owner_uid, b->owner_uid) &&
	       str_same(a->partition, b->partition) && a->hash == b->hash &&
	       a->deleting == b->deleting;
}

static void free_item(void *arg, void *item)
{
	(void)arg;
	job_files_free(item);
}

static bool is_same(void *arg, const void *old, const void *item)
{
	(void)arg;
	return job_files_equal(old, item);
}

void job_files_store(struct kube_store_ops *ops)
{
	ops->free_item = free_item;
	ops->same = is_same;
}
