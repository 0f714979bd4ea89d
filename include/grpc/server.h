/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small gRPC server for unary methods, h2c with prior knowledge or TLS with ALPN h2; the V-IPU
 * simulator serves with it. It owns its listener and connections; a call is its handler's until the
 * handler has finished it. Uses core, loop, net.
 */
#ifndef IPU_GRPC_SERVER_H
#define IPU_GRPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "h2/session.h"
#include "grpc/status.h"
#include "loop/loop.h"

struct grpc_server;
struct grpc_server_call;
struct net;
struct tls_config;

/* Called with each complete request. The handler must finish the call exactly once, now or later,
 * with one of the four functions below; when the peer goes away or its deadline passes first, the
 * call stays valid and finishing it only frees it. */
typedef void grpc_handler_fn(void *arg, struct grpc_server_call *call);

/* Zero means the default. */
struct grpc_server_config {
	const char *addr;       /* as net_listen_opts has it; default "127.0.0.1:0" */
	struct tls_config *tls; /* NULL: h2c; it must have ALPN "h2". A reference is taken */
	struct h2_limits limits;
	unsigned max_conns; /* default 256; beyond it nothing is accepted until one ends */
	unsigned idle_ms;   /* a connection without a stream for that long is closed (10 min) */
};

int grpc_server_new(struct net *net, const struct grpc_server_config *config,
		    grpc_handler_fn *handler, void *arg, struct grpc_server **ret, struct err *err);
/* Closes everything. All calls must have been finished, or must be finished in the same turn. */
void grpc_server_free(struct grpc_server *server); /* NULL is fine */
uint16_t grpc_server_port(const struct grpc_server *server);
/* GOAWAY on all connections; they close when their streams have ended. New ones are welcome. */
void grpc_server_drain(struct grpc_server *server);
/* Closes all connections at once, as a crash would. */
void grpc_server_cut(struct grpc_server *server);
/* How many are open. For tests: that a client keeps to one, and lets go of it, shows here alone. */
unsigned grpc_server_connections(const struct grpc_server *server);

/* What was asked: borrowed, valid until the call is finished. */
struct str grpc_server_call_path(const struct grpc_server_call *call);
struct str grpc_server_call_message(const struct grpc_server_call *call);
struct str grpc_server_call_metadata(const struct grpc_server_call *call, const char *name);
/* Nobody waits for it. For tests: that a client gave up shows nowhere else. */
bool grpc_server_call_is_gone(const struct grpc_server_call *call);

/* The four ways to finish. */
void grpc_server_call_reply(struct grpc_server_call *call, struct str message);
void grpc_server_call_fail(struct grpc_server_call *call, int status, const char *message);
void grpc_server_call_reset(struct grpc_server_call *call, uint32_t h2_code);
void grpc_server_call_cut(struct grpc_server_call *call); /* closes the whole connection */

#endif
