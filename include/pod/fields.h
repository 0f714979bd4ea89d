/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields that no Pod has, in what people write. An API server drops them with a warning at most,
 * and newer ones have more: so they are told, and never refused. Owns nothing. Pure.
 */
#ifndef IPU_POD_FIELDS_H
#define IPU_POD_FIELDS_H

#include "core/json.h"
#include "job/model.h"

/* Each is reported with its path and the kind "Unknown". v is of the Kubernetes type ("Pod",
 * "PodTemplateSpec", or a list of "EnvVar"); path: where it is, "" for a whole object. Returns how
 * many there are. */
size_t pod_unknown_fields(const struct json *v, const char *type, const char *path,
			  job_report_fn *report, void *arg);

#endif
