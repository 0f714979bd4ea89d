/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Patch (RFC 6902), for the simulated API server.
 */
#ifndef IPU_SIM_JSONPATCH_H
#define IPU_SIM_JSONPATCH_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"

/* Applies all operations to *root, in doc; on an error what it was is partly changed: throw it
 * away. ERR_INVALID for a patch that can't be read or applied. */
int sim_json_patch(struct jmut_doc *doc, struct jmut **root, const struct json *patch,
		   struct err *err);

/* A strategic merge patch that says the same as a merge patch: without lists and directives. */
bool sim_patch_is_plain(const struct json *patch);

#endif
