/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fault tests: an API server's port, whose requests are handed on to another one, and answered
 * as the plan wants it. Owns its server and client; borrows the plan. Uses http/ and the
 * simulator's certificates.
 */
#ifndef IPU_T_TOOLS_FAULT_HTTP_H
#define IPU_T_TOOLS_FAULT_HTTP_H

#include "fault_plan.h"
#include "net/net.h"

struct fault_http;
struct fault_late; /* fault_late.h */

struct fault_http_config {
	struct fault_plan *plan; /* borrowed */
	uint16_t port;           /* of this machine, without TLS, where requests lead */
	unsigned hold_ms;        /* how long an answer that has gone silent stays */
};

int fault_http_new(struct net *net, const struct fault_http_config *config, struct fault_http **ret,
		   struct err *err);
void fault_http_free(struct fault_http *h);                  /* NULL is fine */
uint16_t fault_http_port(const struct fault_http *h);        /* over TLS */
const char *fault_http_cert_pem(const struct fault_http *h); /* by whom it is verified */
unsigned fault_http_count(const struct fault_http *h, enum fault_kind kind);
void fault_http_aim(struct fault_http *h, uint16_t port); /* where requests lead from now on */
uint16_t fault_http_leads_to(const struct fault_http *h);
struct fault_late *fault_http_late(const struct fault_http *h); /* what it holds back */

#endif
