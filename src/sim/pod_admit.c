/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods when they are written: defaults. Nothing is kept here.
 */
#include "sim/pod_admit.h"

static void default_text(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z)
{
	if (!jmut_get(obj, key))
		jmut_set_str(doc, obj, key, z);
}

void sim_pod_default(struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *spec = jmut_need_object(doc, root, "spec"), *status = jmut_object(doc);

	if (!spec)
		return;
	default_text(doc, spec, "restartPolicy", "Always");
	default_text(doc, spec, "dnsPolicy", "ClusterFirst");
	default_text(doc, spec, "serviceAccountName", "default");
	default_text(doc, spec, "schedulerName", "default-scheduler");
	if (!jmut_get(spec, "terminationGracePeriodSeconds"))
		jmut_set_int(doc, spec, "terminationGracePeriodSeconds", SIM_POD_GRACE_S);
	jmut_set_str(doc, status, "phase", "Pending");
	jmut_set_str(doc, status, "qosClass", "BestEffort");
	jmut_set(doc, root, "status", status);
}
