/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server says of an exec's end on the error channel, a Status object, and what the
 * errors of its beginning mean to a person. Pure; uses core.
 */
#ifndef IPU_LAUNCHER_REMOTE_STATUS_H
#define IPU_LAUNCHER_REMOTE_STATUS_H

#include <stdbool.h>

#include "core/err.h"
#include "core/str.h"

/* 0 and the exit status of what ran; or -1: it never ran, or nobody knows how it ended. */
int remote_status_decode(struct str text, int *ret_exit_status, struct err *err);
/* Puts before the message what can be done about it: of an attempt that failed with err on a Pod.
 */
void remote_explain(struct err *err, const char *ns, const char *pod, const char *launcher);
/* Whether another attempt can end differently without anybody's doing. */
bool remote_may_retry(const struct err *err);

#endif
