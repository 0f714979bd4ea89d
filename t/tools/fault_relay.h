/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fault tests: a link, which hands a port's connections on to another port, byte by byte as the
 * plan wants it. Owns its listener and its connections; borrows the plan. Uses loop/ and net/.
 */
#ifndef IPU_T_TOOLS_FAULT_RELAY_H
#define IPU_T_TOOLS_FAULT_RELAY_H

#include "fault_plan.h"
#include "net/net.h"

struct fault_relay;

struct fault_relay_config {
	const char *name;              /* copied */
	const struct fault_plan *plan; /* borrowed */
	uint16_t port;                 /* of this machine, where connections lead */
	bool secure;                   /* they speak TLS */
	unsigned hold_ms; /* how long a connection that has gone silent stays before its RST */
};

int fault_relay_new(struct net *net, const struct fault_relay_config *config,
		    struct fault_relay **ret, struct err *err);
void fault_relay_free(struct fault_relay *r); /* NULL is fine */
const char *fault_relay_name(const struct fault_relay *r);
uint16_t fault_relay_port(const struct fault_relay *r);
unsigned fault_relay_count(const struct fault_relay *r, enum fault_kind kind);

/* Where connections lead from now on. */
void fault_relay_aim(struct fault_relay *r, uint16_t port);
/* Parted, nothing passes in either direction, and new connections get no further; then what was
 * held passes, as after a cable was plugged in again. Idempotent both. */
void fault_relay_part(struct fault_relay *r);
void fault_relay_mend(struct fault_relay *r);
/* Resets all connections. */
void fault_relay_cut(struct fault_relay *r);

#endif
