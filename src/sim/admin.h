/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-sim's own end-points, for tests and scripts: what the simulation holds, how Pods are to go,
 * and faults (doc/reference/ipu-sim.md). Borrows all that it shows.
 */
#ifndef IPU_SIM_ADMIN_H
#define IPU_SIM_ADMIN_H

#include <stddef.h>

#include "http/server.h"
#include "sim/api.h"
#include "sim/kubelet.h"
#include "sim/objects.h"
#include "sim/vipu_sim.h"

struct sim_admin {
	struct sim_objects *objects; /* NULL with the next two: V-IPU controllers only */
	struct sim_api *api;
	struct sim_kubelet *kubelet;
	struct vipu_sim **vipu;
	size_t n_vipu;
};

/* For http_server_listen; arg is the struct sim_admin. */
void sim_admin_handle(struct http_exchange *ex, void *arg);

#endif
