/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator's configuration lets Pod templates use (templates.*), whoever asks: it comes on
 * top of what the namespace and the requester's own rights allow. Pure. Uses core/.
 */
#ifndef IPU_ADMISSION_TEMPLATE_H
#define IPU_ADMISSION_TEMPLATE_H

#include <stdbool.h>

#include "admission/findings.h"
#include "core/json.h"

/* Lists have commas between their entries; "*" is any, "" none. NULL counts as "*". */
struct admission_template_rules {
	const char *host_paths; /* templates.hostPaths: folders, with all that is below them */
	const char *service_accounts; /* templates.serviceAccounts: names, besides "default" */
	/* templates.privileged false: privileged containers, hostPID, Windows' host processes and
	 * capabilities beyond the usual ones and IPC_LOCK are refused. */
	bool no_privileged;
	bool no_node_name; /* templates.nodeNames false: spec.nodeName passes the scheduler by */
};

/* template_: spec.workers.template. Each breach is a problem of its own, of kind Forbidden, with
 * the field's path in the IPUJob. before: the template as it is stored, or NULL; one that hasn't
 * changed isn't looked at, so that stricter rules hold nothing up that is there. */
void admission_template_check(const struct admission_template_rules *rules,
			      const struct json *before, const struct json *template_,
			      struct admission_findings *out);

#endif
