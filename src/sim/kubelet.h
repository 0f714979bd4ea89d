/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated scheduler and kubelet: binds Pods of all namespaces to simulated Nodes, lets them
 * start, run and end on core's clock, and writes what a real one writes (status, Events). It sees
 * the store as a watcher and borrows store and API. A Pod's end is a setting, or that of its
 * processes, where it runs.
 */
#ifndef IPU_SIM_KUBELET_H
#define IPU_SIM_KUBELET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/json.h"
#include "loop/loop.h"
#include "sim/api.h"
#include "sim/objects.h"
#include "sim/run.h"

struct sim_kubelet;

#define SIM_POD_TEXT 256
#define SIM_NEVER    UINT_MAX

/* How a Pod goes. It's fixed when the Pod is first seen: changes are for Pods to come. */
struct sim_pod_behaviour {
	unsigned schedule_ms; /* from its creation to a look for a Node */
	unsigned start_ms;    /* from there to Running */
	unsigned run_ms;      /* from there to its end; 0: until it's deleted */
	unsigned term_ms;     /* from deletion to its containers' end (at most its grace period) */
	unsigned init_ms;     /* each init container's time, before Running */
	unsigned init_exit_code; /* 0: init containers end well; else the Pod is Failed */
	unsigned ready_ms;       /* from Running to its containers being ready; SIM_NEVER */
	unsigned exit_code;      /* 0: Succeeded, else Failed */
	bool evict;              /* ends as one that the kubelet has evicted */
	bool run;                /* its containers are processes of this machine */
	bool oom;                /* ends as one that needed too much memory */
	unsigned start_error_ms; /* how long start_error lasts; 0: for ever */
	char container[64];      /* the only one that exit_code and oom are for; "": all */
	char init_container[64]; /* the one that init_exit_code is for; "": the last one */
	char start_error[64]; /* a waiting reason (ErrImagePull, …) instead of Running; "": none */
	char message[SIM_POD_TEXT]; /* of the end, or of the start error; "": a usual one */
};
#define SIM_POD_BEHAVIOUR_INIT {.schedule_ms = 50, .start_ms = 500, .run_ms = 2000, .term_ms = 200}

/* Borrowed during sim_kubelet_new. */
struct sim_kubelet_config {
	struct loop *loop;
	struct sim_objects *objects;
	struct sim_api *api;
	struct sim_run *run;            /* for Pods that run; NULL: none does */
	unsigned nodes;                 /* sim0, sim1, …; at most SIM_MAX_NODES */
	const char *const *node_labels; /* "KEY=VALUE" for all, "NODE:KEY=VALUE" for one */
	size_t n_node_labels;
	struct sim_pod_behaviour behaviour;
};
#define SIM_MAX_NODES 200

/* Creates the Nodes; Pods that exist already are taken on. ERR_INVALID for what is wrong with a
 * label. */
int sim_kubelet_new(const struct sim_kubelet_config *config, struct sim_kubelet **ret,
		    struct err *err);
void sim_kubelet_free(struct sim_kubelet *k); /* before objects and API; NULL is fine */

/* {"scheduleMs","startMs","runMs", …} (doc/reference/ipu-sim.md, "Settings of Pods"): the new
 * defaults; what isn't named stays. With {"name":"*-worker-0"} (a glob for the Pod's name, or with
 * a slash for NAMESPACE/NAME) a rule, that goes over the defaults and over older rules, for the
 * next "count" Pods (0 or absent: all). ERR_INVALID says what is wrong; then nothing has changed.
 */
int sim_kubelet_set(struct sim_kubelet *k, const struct json *settings, struct err *err);
void sim_kubelet_clear_rules(struct sim_kubelet *k);

/* The Node's kubelet doesn't answer any more: no word of its Pods, and they don't end. After
 * not_ready_ms the Node and its Pods aren't Ready, evict_ms later its Pods are deleted.
 * ERR_NOT_FOUND: there's no such Node; ERR_CONFLICT: it's lost already. */
int sim_kubelet_lose_node(struct sim_kubelet *k, const char *node, unsigned not_ready_ms,
			  unsigned evict_ms, struct err *err);
/* It's back, and does what it has missed. ERR_NOT_FOUND: it wasn't lost. */
int sim_kubelet_return_node(struct sim_kubelet *k, const char *node, struct err *err);

/* {"defaults":{…},"rules":[…],"nodes":[{"name","labels","lost"}],"pods":[{"namespace","name","stage","node"}]}
 */
struct jmut *sim_kubelet_to_json(const struct sim_kubelet *k, struct jmut_doc *doc);

#endif
