/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: unary gRPC calls to one host and port over one HTTP/2 connection (h2c with prior
 * knowledge, or TLS with ALPN h2), made on demand and made again with jittered back-off.
 * The channel owns its connection and copies its configuration. Uses core, loop, net.
 */
#ifndef IPU_GRPC_CHANNEL_H
#define IPU_GRPC_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "h2/session.h"
#include "grpc/status.h"
#include "loop/loop.h"
#include "loop/op.h"

struct grpc_channel;
struct net;
struct tls_config;

struct grpc_metadata { /* one header; names in lower case */
	const char *name;
	const char *value;
};

/* Zero means the default. */
struct grpc_channel_config {
	const char *host; /* name, IPv4 or IPv6 address without brackets */
	uint16_t port;
	struct tls_config *tls;  /* NULL: h2c; it must offer ALPN "h2". A reference is taken */
	const char *server_name; /* what the certificate must name; NULL: host */
	const struct grpc_metadata *metadata; /* sent with every call */
	size_t n_metadata;
	const char *user_agent;                   /* default "ipu-operator" */
	size_t message_bytes;                     /* largest reply (default 4 MiB) */
	unsigned connect_timeout_ms;              /* default 10 s */
	unsigned backoff_base_ms, backoff_max_ms; /* defaults 500 ms, 15 s */
	unsigned keepalive_ms;         /* a PING after that much silence while calls wait (20 s) */
	unsigned keepalive_timeout_ms; /* no answer to it for that long: reconnect (10 s) */
	bool keepalive_without_calls;  /* the same when idle; off: servers dislike it */
	unsigned idle_ms;              /* close when no call came for that long (default 5 min) */
	unsigned max_queued;           /* calls that wait for a connection or a stream (1000) */
};

/* Connects nothing yet. Never NULL. */
struct grpc_channel *grpc_channel_new(struct net *net, const struct grpc_channel_config *config);
/* Cancels the calls that are still going: none of them calls back. NULL is fine. */
void grpc_channel_free(struct grpc_channel *ch);

/* reply is borrowed and empty on error. err is NULL on success; otherwise
 *  code: the gRPC status (grpc/status.h), the server's or the one that stands for what happened;
 *  kind: what it means to us (grpc_status_to_err);
 *  maybe_applied: false only when the request can't have been processed (it was never written, the
 *  server refused the stream or said so by GOAWAY, no connection came about) or when the server
 *  gave a status that excludes it. */
typedef void grpc_call_fn(void *arg, const struct err *err, struct str reply);

/* Starts a call: path as "/package.Service/Method", request is copied. deadline_ms from now (not 0)
 * covers everything, connecting too; it's sent as grpc-timeout, and enforced here. Calls beyond
 * the peer's concurrent streams wait; calls made while the channel backs off after a failed
 * connection fail in the next turn with that failure. Never NULL, never calls back before it
 * returns. Cancelling resets the stream. */
struct op *grpc_call_start(struct grpc_channel *ch, const char *path, struct str request,
			   unsigned deadline_ms, grpc_call_fn *cb, void *arg, struct scope *scope);

enum grpc_channel_state {
	GRPC_CHANNEL_IDLE,       /* no connection, none wanted */
	GRPC_CHANNEL_CONNECTING, /* resolving, connecting, TLS, until the server's SETTINGS came */
	GRPC_CHANNEL_READY,
	GRPC_CHANNEL_BACKOFF, /* the last attempt failed; calls fail until the next may start */
};
enum grpc_channel_state grpc_channel_state(const struct grpc_channel *ch);
/* Ends a back-off: the next call tries to connect at once. */
void grpc_channel_retry_now(struct grpc_channel *ch);
/* Other metadata for the calls from now on (keys that rotate). Copied; the old is wiped. */
void grpc_channel_set_metadata(struct grpc_channel *ch, const struct grpc_metadata *metadata,
			       size_t n);
/* Other TLS settings and name to verify. If one differs from what there is, the present connection
 * finishes its calls and closes, and the next ones go over a new one. */
void grpc_channel_set_tls(struct grpc_channel *ch, struct tls_config *tls, const char *server_name);

#endif
