/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pod Security Standards, as the API server's own admission applies them at their latest
 * version (Kubernetes: "Pod Security Standards"; the rules of 1.36): which fields of a Pod a level
 * forbids. Pure. Uses core/.
 */
#ifndef IPU_ADMISSION_SECURITY_H
#define IPU_ADMISSION_SECURITY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/json.h"
#include "core/str.h"

enum admission_level { ADMISSION_PRIVILEGED, ADMISSION_BASELINE, ADMISSION_RESTRICTED };

/* Labels of a namespace. */
#define ADMISSION_LABEL_ENFORCE "pod-security.kubernetes.io/enforce"
#define ADMISSION_LABEL_WARN    "pod-security.kubernetes.io/warn"

const char *admission_level_name(enum admission_level level);
/* What a label's value means: one that isn't a level counts as restricted, as the API server has
 * it; "": privileged. */
enum admission_level admission_level_of(struct str label);

/* path: of the field that must be another, "spec.containers[0].securityContext.privileged"; it need
 * not be there. message: what it must be, "must be false". Both borrowed. */
typedef void admission_security_fn(void *arg, const char *path, const char *message);

/* Returns how many fields the level forbids; 0: it takes the Pod. pod: metadata and spec, as it is
 * to be created. report may be NULL. */
size_t admission_security_check(const struct json *pod, enum admission_level level,
				admission_security_fn *report, void *arg);

/* The capabilities that baseline lets a container add, by name. */
bool admission_capability_is_common(struct str name);

#endif
