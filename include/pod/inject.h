/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotated Pods: what a Pod asks for, and what the webhook makes of it (doc/design/admission.md,
 * "Annotated Pods"). Owns nothing. Pure. Uses job's way of building Pods.
 */
#ifndef IPU_POD_INJECT_H
#define IPU_POD_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "job/pod.h"
#include "job/queue.h"
#include "partition/policy.h"

/* ---- names ---- */

#define POD_ANNOTATION_IPUS "graphcore.ai/ipus" /* how many IPUs, as text */
#define POD_ANNOTATION_IPU  "graphcore.ai/ipu"  /* the same; with both, they must agree */
/* Which containers use IPUs, by name, with commas between them; init containers too. Without it:
 * all ordinary ones. */
#define POD_ANNOTATION_CONTAINERS "graphcore.ai/containers"
#define POD_ANNOTATION_STATUS     "graphcore.ai/status"
#define POD_STATUS_INJECTED       "injected"
/* Gate mode, on a Pod whose gate is open: the node selector that came with that, as "key=value",
 * where the Pod had none for that key. A copy of the Pod loses it again. */
#define POD_ANNOTATION_SELECTOR "graphcore.ai/node-selector"
#define POD_LABEL               "graphcore.ai/pod" /* a token: another one for each Pod */
#define POD_GATE                JOB_GATE
#define POD_INIT_NAME           "ipu-partition" /* init mode: the init container */

/* A token: random, 32 hex digits. */
#define POD_TOKEN_SIZE 33
void pod_token_make(char ret_z[POD_TOKEN_SIZE]);
bool pod_token_is(struct str s);
/* The ConfigMap of a Pod in gate mode, in its namespace: "ipuof-TOKEN". Its keys are those of
 * JOB_VALUES_KEYS. */
#define POD_CONFIG_MAP_SIZE (POD_TOKEN_SIZE + 6)
void pod_config_map_name(const char *token, char ret_z[POD_CONFIG_MAP_SIZE]);

/* ---- what a Pod asks for ---- */

/* Whether one of the two annotations is there, whatever it says. */
bool pod_is_annotated(const struct json *pod);
/* ERR_NOT_FOUND: neither is there. ERR_INVALID: no power of two, or the two don't agree; the
 * message begins with the field's path. */
int pod_ipus(const struct json *pod, uint32_t *ret, struct err *err);
/* The options of an annotated Pod's partition: one GCD. */
extern const struct partition_options pod_partition_options;
/* From its activeDeadlineSeconds, in milliseconds; 0: it names none. */
int64_t pod_deadline_ms(const struct json *pod);

/* ---- injection ---- */

enum pod_mode {
	POD_MODE_GATE, /* the operator makes the partition before a node is chosen */
	POD_MODE_INIT, /* an init container asks the proxy for it */
};

struct pod_inject_settings {
	enum pod_mode mode;
	struct job_pod_settings worker; /* network, privileges, DNS, the launcher's image */
	const char *ns;                 /* the Pod's namespace; NULL: as the Pod itself says */
	uint32_t reach_ipus; /* of the controller that has most; 0: not known, nothing is refused */
	const struct partition_policy *policy; /* of the Pod's namespace; NULL: no limits */
	/* Init mode: */
	const char *proxy_url; /* "https://ipu-operator-vipu-proxy.NAMESPACE.svc:443" */
	const char *proxy_ca;  /* what the proxy's certificate must be signed by (PEM) */
	unsigned wait_s;       /* how long the init container waits for IPUs; 0: for ever */
};

/* What of the user's settings stands against ours, by its path, and which of the two won. Borrowed.
 */
typedef void pod_warn_fn(void *arg, const char *warning);

/* 1: the root of doc is the Pod as it's to be; 0: it stays as it is; -1: it's refused. ERR_INVALID,
 * beginning with the path of the field: its user's to mend; ERR_UNSUPPORTED: this operator can't,
 * as it is configured; ERR_UNAVAILABLE: it can't yet. Injecting what was injected before gives the
 * same with the new token. */
int pod_inject(struct jmut_doc *doc, const struct json *pod, const char *token,
	       const struct pod_inject_settings *settings, pod_warn_fn *warn, void *arg,
	       struct err *err);

#endif
