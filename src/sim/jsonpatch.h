/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Patch (RFC 6902) and what is needed of strategic merge patch, for the simulated API server.
 */
#ifndef IPU_SIM_JSONPATCH_H
#define IPU_SIM_JSONPATCH_H

#include "core/err.h"
#include "core/json.h"

/* Applies all operations to *root, in doc; on an error what it was is partly changed: throw it
 * away. ERR_INVALID for a patch that can't be read or applied. */
int sim_json_patch(struct jmut_doc *doc, struct jmut **root, const struct json *patch,
		   struct err *err);

/* A strategic merge patch of *root (Kubernetes: Update API Objects in Place Using kubectl patch):
 * conditions are merged by their type, and deleted by "$patch"; taints are replaced; other lists
 * and directives aren't known: ERR_UNSUPPORTED. */
int sim_strategic_patch(struct jmut_doc *doc, struct jmut *root, const struct json *patch,
			struct err *err);

#endif
