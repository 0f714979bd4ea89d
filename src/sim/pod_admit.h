/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server itself does to Pods that are written: defaults, as far as a kubelet and
 * kubectl look at them, and checks. Used within sim/.
 */
#ifndef IPU_SIM_POD_ADMIT_H
#define IPU_SIM_POD_ADMIT_H

#include "core/err.h"
#include "core/json.h"

#define SIM_POD_GRACE_S 30

void sim_pod_default(struct jmut_doc *doc, struct jmut *root);

#endif
