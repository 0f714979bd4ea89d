/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Container runtimes of a host: their units, their running processes and those processes' limits.
 * Uses core.
 */
#ifndef IPU_NODE_RUNTIMES_H
#define IPU_NODE_RUNTIMES_H

#include "files.h"
#include "node/facts.h"

struct runtimes;

struct runtimes *runtimes_new(const struct files *files);
void runtimes_free(struct runtimes *runtimes); /* NULL is fine */
/* Looks at so many processes; true: at all. */
bool runtimes_step(struct runtimes *runtimes, unsigned processes);
/* Those that run; with units, which are read then, also those that are installed. */
void runtimes_list(struct runtimes *runtimes, bool units, struct fabric_runtime **ret,
		   size_t *ret_n);

#endif
