/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMap that gives an instance's Pods their IPUoF configuration as files, where its V-IPU
 * controller is secure: its name, the object, and what the store keeps of one. Also an annotated
 * Pod's.
 */
#ifndef IPU_JOB_FILES_H
#define IPU_JOB_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "job/model.h"
#include "kube/store.h"

/* What the store keeps: whose it is, and a hash instead of what is in it. */
struct job_files {
	char *ns, *name, *uid, *version;
	char *key;       /* "namespace/value", of the label that it's found by */
	char *owner_uid; /* controller reference; NULL: none */
	char *partition; /* annotation graphcore.ai/partition; NULL: none */
	uint64_t hash;   /* sum of partition_file_hash over its keys */
	bool deleting;
};

uint64_t job_files_hash(const struct json *object);
/* label: what it's found by, JOB_LABEL_JOB or a Pod's token. */
int job_files_decode(const struct json *object, const char *label, struct job_files **ret,
		     struct err *err);
void job_files_free(struct job_files *f); /* NULL is fine */
bool job_files_equal(const struct job_files *a, const struct job_files *b);
/* A store of them: how it frees and compares them. */
void job_files_store(struct kube_store_ops *ops);

/* The keys that pod.h's JOB_VALUES_KEYS refers to, of a partition that has an id. Also for
 * annotated Pods. */
typedef void job_files_value_fn(void *arg, const char *key, const char *value);
void job_files_keys(const struct partition_status *part, job_files_value_fn *fn, void *arg);
uint64_t job_files_keys_hash(const struct partition_status *part);
/* What is in it beside the files: nothing, but for a job whose Pods are made before their partition
 * (job/queue.h), which read these keys. */
void job_files_values(const struct job *job, const struct partition_status *part,
		      job_files_value_fn *fn, void *arg);
/* Whether there is to be one while the partition is active, and its hash; 0: its contents haven't
 * come yet. */
bool job_files_needed(const struct job *job, const struct partition_status *part);
uint64_t job_files_wanted(const struct job *job, const struct partition_status *part);

char *job_files_name(const struct job *job, uint32_t instance); /* the caller frees */

/* Data that is yet to be put into an object. */
struct job_files_data {
	struct jmut_doc *doc;
	struct jmut *object;
};
/* A partition_file_fn and a job_files_value_fn; arg is the data. */
void job_files_put(const char *name, struct str text, void *arg);
void job_files_put_value(void *arg, const char *key, const char *value);

/* Whose it is: its name, its owner, and the label that it's found by. */
struct job_files_owner {
	const char *ns, *config_map;
	const char *api_version, *kind, *name, *uid;
	const char *label, *value;
};
/* The object without its data: that's added to *ret_data. before: what it replaces, or NULL. The
 * root of doc. */
void job_files_build_for(struct jmut_doc *doc, const struct job_files_owner *whose,
			 const char *partition_id, const struct job_files *before,
			 struct jmut **ret_data);
/* The same for an instance of a job. */
void job_files_build(struct jmut_doc *doc, const struct job *job, uint32_t instance,
		     const char *partition_id, const struct job_files *before,
		     struct jmut **ret_data);

#endif
