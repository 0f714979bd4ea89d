/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects in manifests: files, folders, standard input, several documents, lists; and what the
 * webhook would say of one, each with its place. Asks nobody. Uses admission, pod and core.
 */
#ifndef IPU_CTL_MANIFEST_H
#define IPU_CTL_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>

#include "admission/findings.h"
#include "core/json.h"
#include "core/yaml.h"
#include "ctl/options.h"
#include "pod/inject.h"

/* One object; all of it borrowed for the time of the call. */
struct ctl_object {
	const char *file; /* as messages name it */
	const struct yaml *yaml;
	size_t doc;
	const char *root; /* JSON pointer to it in the document */
	const struct json *json;
};

typedef int ctl_object_fn(void *arg, const struct ctl_object *object, struct err *err);
/* A file that is there, and is no YAML; why begins with the place. */
typedef int ctl_broken_fn(void *arg, const char *file, const struct err *why, struct err *err);

/* Those of -f, then those of the operands, until one of the functions fails. A folder's *.yaml,
 * *.yml and *.json are taken in the order of their names. Errors: ERR_INVALID with code 0, a file
 * that can't be read. */
int ctl_manifests_each(const struct ctl_options *o, ctl_object_fn *fn, ctl_broken_fn *broken,
		       void *arg, struct err *err);

/* Where a field path ("spec.workers.template.metadata.labels[example.com/a.b]") stands. */
void ctl_object_pos(const struct ctl_object *object, struct str path, unsigned *ret_line,
		    unsigned *ret_column);

enum ctl_object_kind {
	CTL_OBJECT_OTHER, /* nothing of ours */
	CTL_OBJECT_JOB,   /* or what is no kind of its API group: judged as a job, and refused */
	CTL_OBJECT_POD,   /* it, or its Pod template, asks for IPUs by annotation */
};

/* *ret_template: the Pod or template, and its field path, "" for a Pod; the caller frees. Of OTHER
 * and JOB: NULL. */
enum ctl_object_kind ctl_object_kind(const struct json *object, const struct json **ret_template,
				     char **ret_path);

/* What the webhook would say of an IPUJob, or of a Pod that asks by annotation (from the template
 * at path). written: of the Pod what stands in the manifest, whose fields are looked at. *ret: with
 * the defaults, or as it would be injected with token; in doc, NULL where that can't be. settings
 * NULL: the configuration's defaults. */
void ctl_judge_job(struct jmut_doc *doc, const struct json *job, struct admission_findings *f,
		   struct jmut **ret);
void ctl_judge_pod(struct jmut_doc *doc, const struct json *pod, const struct json *written,
		   const char *path, const char *token, const struct pod_inject_settings *settings,
		   struct admission_findings *f, struct jmut **ret);

/* One finding, as validate says it. path: STR_NULL, the object itself. */
typedef void ctl_finding_fn(void *arg, bool is_error, const char *kind, struct str path,
			    struct str words);
char *ctl_finding_shown(struct str path, struct str words); /* as a line's part; caller frees */
void ctl_findings_each(const struct admission_findings *f, ctl_finding_fn *fn, void *arg);

#endif
