/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the simulated kubelet share: kubelet.c (what there is, and what has changed),
 * kubelet_life.c (one Pod's life), kubelet_run.c (that of a Pod whose processes run), pod_rules.c
 * (settings), pod_status.c (what is written of a Pod), kubelet_nodes.c (Nodes, the choice of one,
 * Events), kubelet_lost.c (Nodes that don't answer).
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

/* ---- Pods ---- */

enum pod_stage {
	POD_NEW,           /* until schedule_ms have passed */
	POD_UNSCHEDULABLE, /* no Node takes it, or it's gated; looked at when that may have changed
			    */
	POD_STARTING,      /* bound; until start_ms have passed */
	POD_INITIALIZING,  /* one init container runs, for init_ms */
	POD_CANT_START,    /* its start error shows */
	POD_RUNNING,       /* until run_ms have passed, or for ever */
	POD_BACKING_OFF,   /* its containers have ended; until they start again */
	POD_ENDED,         /* Succeeded or Failed */
	POD_ENDING,        /* in deletion; until its containers have had their time */
};

struct pod {
	struct sim_kubelet *k;
	struct list link; /* in dirty, or alone */
	char *ns, *name, *uid, *node;
	size_t *counted; /* its Node's number of Pods that has it in it; NULL: none */
	char *told;      /* the last reason for which it wasn't scheduled, to say it once */
	enum pod_stage stage;
	struct sim_pod_behaviour b;
	struct loop_timer timer;
	int64_t error_since_ms;
	int64_t end_ms, ready_at_ms; /* Running: when; end_ms 0: not by itself */
	size_t init;                 /* Initializing: which one */
	struct sim_run_pod *run;     /* NULL: nothing of it runs */
	size_t started;              /* of its containers, where they run */
	unsigned restarts;
	bool due;   /* the timer has run, and nobody has acted on it */
	bool ready; /* Running: its containers are */
	bool backing_off;
};

struct sim_kubelet {
	struct loop *loop;
	struct sim_objects *objects;
	struct sim_api *api;
	const struct sim_resource *pods, *nodes;
	struct pod_rules rules;
	struct map *by_uid;  /* struct pod */
	struct map *pods_on; /* size_t, by the Node's name: its Pods that aren't over */
	size_t n_unschedulable;
	struct map *lost;    /* struct lost_node, by the Node's name */
	struct sim_run *run; /* borrowed; NULL: no Pod can run */
	struct list dirty;
	struct loop_work work;
	struct sim_watcher watcher;
	unsigned next_ip;
};

/* ---- Pods' lives ---- */

void kubelet_step(struct pod *p); /* does what is due; may remove the Pod */
void kubelet_mark(struct pod *p); /* a look at it is due */
/* Its stage from now on; what was due of the last one isn't any more. */
void kubelet_enter(struct pod *p, enum pod_stage stage);
/* The Node that it is on; takes node, which is the heap's. */
void kubelet_settle(struct pod *p, char *node);
bool kubelet_is_over(const struct json *pod);
const char *kubelet_stage_name(enum pod_stage stage);

/* ---- Pods that run ---- */

void kubelet_run_begin(struct pod *p, const struct sim_object *o);
void kubelet_run_step(struct pod *p, const struct sim_object *o);
void kubelet_run_end(struct pod *p, const struct sim_object *o); /* it is deleted */

/* ---- Nodes that don't answer ---- */

bool kubelet_is_lost(const struct sim_kubelet *k, const char *node);
void kubelet_lost_done(struct sim_kubelet *k);

/* ---- what is written of a Pod: root is a whole Pod, in doc ---- */

struct pod_end {
	const char *phase;  /* Succeeded, Failed */
	const char *reason; /* of the containers: Completed, Error, OOMKilled */
	const char *message;
	const char *pod_reason; /* status.reason: Evicted; NULL */
	const char *container;  /* the only one that ended so, the others well; NULL: all did */
	int exit_code;
};
void pod_status_scheduled(struct jmut_doc *doc, struct jmut *root, const char *node);
void pod_status_unscheduled(struct jmut_doc *doc, struct jmut *root, const char *reason,
			    const char *message);
/* The kubelet has taken it on; its containers wait, for the reason. */
void pod_status_waiting(struct jmut_doc *doc, struct jmut *root, const char *host_ip,
			const char *reason, const char *message);
/* The init container at that place runs; those before it are done. */
void pod_status_initializing(struct jmut_doc *doc, struct jmut *root, size_t at);
void pod_status_init_failed(struct jmut_doc *doc, struct jmut *root, size_t at,
			    const struct pod_end *end);
/* The init container at that place can't start. */
void pod_status_init_waiting(struct jmut_doc *doc, struct jmut *root, size_t at, const char *reason,
			     const char *message);
/* One container has ended, the others go on; then all have. False: that is known. */
bool pod_status_one_ended(struct jmut_doc *doc, struct jmut *root, size_t at,
			  const struct pod_end *end);
void pod_status_over(struct jmut_doc *doc, struct jmut *root, bool good);
/* ready: its containers are; readiness gates then decide whether the Pod is. */
void pod_status_running(struct jmut_doc *doc, struct jmut *root, const char *pod_ip, bool ready);
bool pod_status_is_right(const struct json *pod, bool ready);
void pod_status_readiness(struct jmut_doc *doc, struct jmut *root, bool ready);
/* Its containers have ended and wait for being started again; and then are (restartPolicy). */
void pod_status_backing_off(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end,
			    const char *message);
void pod_status_restarted(struct jmut_doc *doc, struct jmut *root, bool ready);
void pod_status_ended(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end);
/* As the node controller does for Pods on a Node that doesn't answer: not Ready. */
void pod_status_unreachable(struct jmut_doc *doc, struct jmut *root);
/* Why somebody deletes it: condition DisruptionTarget. */
void pod_status_disrupted(struct jmut_doc *doc, struct jmut *root, const char *reason,
			  const char *message);

/* ---- nodes and Events ---- */

int kubelet_nodes_create(const struct sim_kubelet_config *config, struct err *err);
/* The name of the Node that takes the Pod, the caller's to free; NULL with why in a scheduler's
 * words. pods_on has a size_t of how many Pods a Node has, by its name; none: 0. */
char *kubelet_nodes_pick(const struct sim_objects *objects, const struct json *pod,
			 const struct map *pods_on, char ret_why[SIM_POD_TEXT]);
/* The Node's InternalIP into ret_z; "" when there's no such Node. */
void kubelet_nodes_ip(const struct sim_objects *objects, const char *node, char *ret_z,
		      size_t size);
/* What the node controller and the kubelet write of a Node that has gone silent, or is back:
 * conditions, and the taints node.kubernetes.io/unreachable. */
void kubelet_nodes_set_reachable(struct sim_objects *objects, const char *node, bool reachable);
/* A Pod that tolerates a Node that has gone silent for ever. */
bool kubelet_nodes_stays(const struct json *pod);
struct jmut *kubelet_nodes_to_json(const struct sim_kubelet *k, struct jmut_doc *doc);

/* An Event of a Pod. container NULL: of the whole Pod. host NULL: of the scheduler. */
struct kubelet_event {
	const char *type, *reason, *container, *host;
};
void kubelet_event(struct sim_api *api, const struct json *pod, const struct kubelet_event *event,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
