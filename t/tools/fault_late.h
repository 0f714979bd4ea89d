/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fault tests: a request that is held back on its way, so that it comes when its sender has
 * given up on it. Owns a copy of it; borrows net and client. Uses http/.
 */
#ifndef IPU_T_TOOLS_FAULT_LATE_H
#define IPU_T_TOOLS_FAULT_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "http/client.h"
#include "http/server.h"

struct fault_late;

struct fault_late *fault_late_new(struct http_client *client);
void fault_late_free(struct fault_late *l); /* NULL is fine */

/* "METHOD /path", as a request's target says it: the next one is held back. One that was held back
 * before is forgotten. ERR_INVALID: it isn't of that form. */
int fault_late_want(struct fault_late *l, struct str request, struct err *err);
/* True: it was that one; its exchange was broken off, and is gone. */
bool fault_late_take(struct fault_late *l, struct http_exchange *ex);
bool fault_late_holds(const struct fault_late *l); /* one, until it's delivered */
/* Hands it on to that port of this machine, and answers ex with the status that it got there, as
 * text; 409 where nothing is held. */
void fault_late_deliver(struct fault_late *l, uint16_t port, struct http_exchange *ex);

#endif
