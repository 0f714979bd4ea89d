/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's read-only REST end-points: /stats, /query, /health. Answered from memory, looking
 * costs the controllers nothing. Partitions and fleet are borrowed. Uses http, partition, vipu.
 */
#ifndef IPU_PROXY_PROXY_H
#define IPU_PROXY_PROXY_H

#include "http/server.h"
#include "partition/manager.h"
#include "vipu/fleet.h"

struct proxy {
	struct partitions *partitions;
	struct vipu_fleet *fleet;
};

/* The handler for http_server_listen; arg is a struct proxy that outlives the server. */
void proxy_handle(struct http_exchange *ex, void *arg);

#endif
