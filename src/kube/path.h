/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a request goes: path and query, escaped so that no name can become another path.
 * The caller owns the buffer.
 */
#ifndef IPU_KUBE_PATH_H
#define IPU_KUBE_PATH_H

#include "core/buf.h"
#include "core/err.h"
#include "kube/client.h"

/* Appends "PREFIX/api/v1/namespaces/…?…". prefix: the server URL's own path, "" or "/x". Errors:
 * ERR_INVALID (names that can't be in a path, a name or namespace missing), ERR_LIMIT. */
int kube_path_build(const char *prefix, const struct kube_request *request, struct buf *out,
		    struct err *err);

const char *kube_verb_name(enum kube_verb verb); /* as RBAC names it */

#endif
