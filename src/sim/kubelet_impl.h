/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the simulated kubelet share: kubelet.c (who is where in its life),
 * pod_rules.c (settings), pod_status.c (what is written of a Pod), kubelet_nodes.c (Nodes, the
 * choice of one, Events).
 */
#ifndef IPU_SIM_KUBELET_IMPL_H
#define IPU_SIM_KUBELET_IMPL_H

#include <stdint.h>

#include "core/list.h"
#include "core/map.h"
#include "sim/kubelet.h"

/* ---- settings ---- */

struct pod_rules {
	struct sim_pod_behaviour defaults;
	struct list rules; /* newest first */
};
void pod_rules_init(struct pod_rules *r, const struct sim_pod_behaviour *defaults);
void pod_rules_clear(struct pod_rules *r);
int pod_rules_set(struct pod_rules *r, const struct json *settings, struct err *err);
/* The behaviour of a new Pod; uses up a rule's count. */
struct sim_pod_behaviour pod_rules_take(struct pod_rules *r, const char *ns, const char *name);
void pod_rules_to_json(const struct pod_rules *r, struct jmut_doc *doc, struct jmut *root);

/* ---- what is written of a Pod: root is a whole Pod, in doc ---- */

struct pod_end {
	const char *phase;  /* Succeeded, Failed */
	const char *reason; /* of the containers: Completed, Error */
	const char *message;
	const char *pod_reason; /* status.reason: Evicted; NULL */
	int exit_code;
};
void pod_status_scheduled(struct jmut_doc *doc, struct jmut *root, const char *node);
void pod_status_unscheduled(struct jmut_doc *doc, struct jmut *root, const char *reason,
			    const char *message);
/* The kubelet has taken it on; its containers wait, for the reason. */
void pod_status_waiting(struct jmut_doc *doc, struct jmut *root, const char *host_ip,
			const char *reason, const char *message);
void pod_status_running(struct jmut_doc *doc, struct jmut *root, const char *pod_ip);
/* Its containers have ended and wait for being started again; and then are (restartPolicy). */
void pod_status_backing_off(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end,
			    const char *message);
void pod_status_restarted(struct jmut_doc *doc, struct jmut *root);
void pod_status_ended(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end);

/* ---- nodes and Events ---- */

int kubelet_nodes_create(const struct sim_kubelet_config *config, struct err *err);
/* The name of the Node that takes the Pod, the caller's to free; NULL with why in a scheduler's
 * words. pods_on counts the Pods that a Node has. */
char *kubelet_nodes_pick(const struct sim_objects *objects, const struct json *pod,
			 size_t (*pods_on)(void *arg, const char *node), void *arg,
			 char ret_why[SIM_POD_TEXT]);
/* The Node's InternalIP into ret_z; "" when there's no such Node. */
void kubelet_nodes_ip(const struct sim_objects *objects, const char *node, char *ret_z,
		      size_t size);
struct jmut *kubelet_nodes_to_json(const struct sim_objects *objects, struct jmut_doc *doc);

/* An Event of a Pod. container NULL: of the whole Pod. host NULL: of the scheduler. */
struct kubelet_event {
	const char *type, *reason, *container, *host;
};
void kubelet_event(struct sim_api *api, const struct json *pod, const struct kubelet_event *event,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
