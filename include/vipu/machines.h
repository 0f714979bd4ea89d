/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of the IPU-Machines that a controller lists: how many IPUs there are, and what they
 * say of their health. Their other attributes, which nobody asks for, would be several hundred
 * bytes for each machine. Pure; uses core only.
 */
#ifndef IPU_VIPU_MACHINES_H
#define IPU_VIPU_MACHINES_H

#include <stdbool.h>
#include <stddef.h>

#include "vipu/api.h"

struct vipu_machine {
	char *name;                        /* its agent's; owned */
	double die_celsius, board_celsius; /* the hottest one's; NAN: there is no sensor */
	bool has_state;                    /* its IPUs say whether they have errors */
	unsigned faulty;                   /* those whose error state isn't "no errors" */
};

struct vipu_machines {
	struct vipu_machine *items;
	size_t n;
	size_t n_ipus; /* of all of them */
};

/* From a controller's answer, whose names move over. ERR_LIMIT: there's no memory for so many. */
int vipu_machines_take(struct vipu_agents *from, struct vipu_machines *ret, struct err *err);
void vipu_machines_done(struct vipu_machines *m);

#endif
