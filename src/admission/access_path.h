/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a field of a Pod that was made for an IPUJob back to the field of the IPUJob that it came
 * from. Pure. Private to src/admission.
 */
#ifndef IPU_ADMISSION_ACCESS_PATH_H
#define IPU_ADMISSION_ACCESS_PATH_H

#include <stdbool.h>

#include "core/json.h"

/*
 * pod: as it was built from the IPUJob's spec; path: one of its fields as Kubernetes writes it,
 * "spec.containers[0].env[7].name", which need not be there. Both are walked side by side: elements
 * of lists are found again by what names them, since the operator puts its own in front and behind.
 * Returns the path in the IPUJob, to be freed; NULL: the field is the operator's own making.
 */
char *access_path_map(const struct json *pod, const struct json *spec, bool launcher,
		      const char *path);

#endif
