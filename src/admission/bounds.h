/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long lists may be in an object that is judged: judging compares their elements with each
 * other. Pure. Private to admission.
 */
#ifndef IPU_ADMISSION_BOUNDS_H
#define IPU_ADMISSION_BOUNDS_H

#include <stdbool.h>

#include "admission/findings.h"
#include "core/json.h"

#define ADMISSION_MAX_ELEMENTS 2000

/* Each list below v with more elements is a problem ("Too many"), by its path, which begins with
 * path. False: there is one. */
bool admission_bounds_check(const struct json *v, const char *path, struct admission_findings *out);

#endif
