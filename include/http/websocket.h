/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSockets (RFC 6455, version 13, no extensions): a client, a server's upgrade of an exchange,
 * and what both are afterwards, struct ws. Its owner frees it; a connecting one is an operation.
 * Messages are handed over in pieces as they come, and never held whole. Uses core/, loop/, net/.
 */
#ifndef IPU_HTTP_WEBSOCKET_H
#define IPU_HTTP_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "http/client.h"
#include "http/message.h"
#include "http/server.h"
#include "loop/op.h"

struct net; /* net/net.h */
struct ws;

/* Status codes of a Close (RFC 6455, 7.4.1). The last two are never sent. */
enum ws_code {
	WS_CODE_NORMAL = 1000,
	WS_CODE_GOING_AWAY = 1001,
	WS_CODE_PROTOCOL = 1002,
	WS_CODE_UNSUPPORTED = 1003,
	WS_CODE_BAD_TEXT = 1007,
	WS_CODE_POLICY = 1008,
	WS_CODE_TOO_BIG = 1009,
	WS_CODE_INTERNAL = 1011,
	WS_CODE_NONE = 1005,     /* the peer's Close had none */
	WS_CODE_ABNORMAL = 1006, /* there was no Close */
};

/* 0 everywhere: the default. */
struct ws_opts {
	uint64_t max_message_bytes; /* of a message in all its frames; 16 MiB; beyond: 1009 */
	unsigned ping_ms;  /* nothing came from the peer for so long: it's sent a ping; 30 s */
	unsigned pong_ms;  /* and then nothing for so long either: ERR_TIMEOUT; 30 s */
	unsigned stall_ms; /* output waits, and the peer takes none of it; 60 s */
	unsigned close_ms; /* from our Close until the peer's and the connection's end; 5 s */
	size_t high_water_bytes; /* of output that waits; 256 KiB; drained at a quarter of it */
	size_t max_output_bytes; /* beyond it ws_send fails; 16 MiB */
};

/* ---- using it ---- */

/* A part of a message, borrowed for the call. All parts of one come in their order, with no part of
 * another between; the first one isn't empty unless the message is; the last may be. */
struct ws_piece {
	struct str data;
	bool binary; /* else text: well-formed UTF-8 on the whole, where a piece may cut a sequence
		      */
	bool first, last;
};

/* How it ended. */
struct ws_closed {
	int code;              /* of the peer's Close; WS_CODE_NONE; WS_CODE_ABNORMAL */
	struct str reason;     /* of the peer's Close; UTF-8, at most 123 bytes, may be empty */
	const struct err *err; /* NULL: both sides have sent a Close, and the peer's code is there;
				* else ERR_UNAVAILABLE (lost), ERR_TIMEOUT (silence, stall, no
				* answer to our Close), ERR_PROTOCOL and ERR_LIMIT (what the peer
				* sent; it was told so by a Close) */
};

/* Each may send, pause, close and free it. None is called from within a call of ours, none after
 * ws_free. */
struct ws_handler {
	void (*on_message)(struct ws *ws, const struct ws_piece *piece, void *arg);
	/* After ws_is_full was true: what waits has fallen to the low-water mark. May be NULL. */
	void (*on_drain)(struct ws *ws, void *arg);
	/* Last, once. The owner still has to free it. A Close of the peer's is answered by itself,
	 * behind what is queued; nothing can be sent from then on. */
	void (*on_close)(struct ws *ws, const struct ws_closed *closed, void *arg);
};

/* handler is borrowed while the ws lives (static). A new ws is paused and has none: set it, then
 * ws_resume. */
void ws_set_handler(struct ws *ws, const struct ws_handler *handler, void *arg);

/* Sends one message in one frame: the parts one after the other, copied (a client's masked).
 * Errors: ERR_LIMIT (more than max_output_bytes would wait; nothing was queued), ERR_UNAVAILABLE (a
 * Close was sent or has come, or the connection is dead; on_close tells the story). */
int ws_send(struct ws *ws, bool binary, const struct str *parts, size_t n_parts, struct err *err);
/* More than the high-water mark waits for the peer: stop what feeds it until on_drain. */
bool ws_is_full(const struct ws *ws);
/* How much that is. For tests: what an answer of ours costs shows here alone. */
size_t ws_queued_bytes(const struct ws *ws);

/* Back-pressure: from a pause on no piece comes until the resume; nor is the peer's Close or end
 * seen, and no ping is sent (TCP's own keep-alive notices a peer that vanished). The end of the
 * connection by an error or a stall comes all the same. Idempotent. */
void ws_pause(struct ws *ws);
void ws_resume(struct ws *ws);

/* Begins to close: sends a Close behind what is queued, and drops the messages that still come.
 * on_close follows when the peer has answered, or after close_ms; a paused ws goes on reading.
 * reason may be NULL; it is cut to 123 bytes. Idempotent. */
void ws_close(struct ws *ws, enum ws_code code, const char *reason);
/* Ends it. What is queued is sent in the background for a short while if the ws has sent its Close
 * (a server's last words), else it is lost. Never calls back. NULL is fine. */
void ws_free(struct ws *ws);

const char *ws_protocol(const struct ws *ws); /* the subprotocol agreed on; "" for none */
const char *ws_peer(const struct ws *ws);     /* "ADDRESS:PORT", for logs */

/* ---- client ---- */

struct ws_request {
	struct http_origin origin; /* as for http_call_start */
	struct str target;         /* "/path?query", escaped already; copied */
	const struct http_header
		*headers;             /* copied: Authorization and the like; Host and those of */
	size_t n_headers;             /* the handshake are added. ERR_INVALID if one is there */
	const char *const *protocols; /* to offer, best first, NULL-terminated, at most 8; NULL:
				       * none. With some offered, the server must choose one. */
	const char *user_agent;       /* NULL: "ipu-operator" */
	unsigned connect_ms;          /* names, TCP and TLS; 0: 10 s */
	unsigned handshake_ms; /* from the start until the upgrade's answer is complete; 0: 30 s */
	struct ws_opts opts;
};

/* Once. ws is the callee's, paused and without a handler; or ws is NULL and err says why:
 * - the server refused the upgrade: the kind of http_status_kind, code the HTTP status,
 *   retry_after_ms, and as the message the one of its Kubernetes Status (or the beginning of a
 *   textual body): "GET PATH: 403 Forbidden: pods \"x\" is forbidden: …";
 * - ERR_PROTOCOL: 101 without the right Upgrade, Connection, Sec-WebSocket-Accept, with a
 *   subprotocol that wasn't offered or none of those that were, or with an extension;
 * - ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_DENIED (TLS), ERR_INVALID (request), ERR_LIMIT as usual.
 * err->maybe_applied: the request was handed to the socket, and no answer came. */
typedef void ws_connect_fn(struct ws *ws, const struct err *err, void *arg);

/* Never calls back before it returns; errors of the request come by cb too. Cancel by op_cancel. */
struct op *ws_connect_start(struct net *net, struct scope *scope, const struct ws_request *req,
			    ws_connect_fn *cb, void *arg);

/* ---- server ---- */

/* Whether the request asks for a WebSocket at all (Upgrade and Connection fields). */
bool ws_is_upgrade(const struct http_exchange *ex);

/* Looks at a request before it is accepted: method, version, key, and which of our subprotocols
 * (NULL-terminated, best first; NULL: none are spoken) the client offers: the first of ours that
 * it has; "" if protocols is NULL. Errors: ERR_INVALID; err->code is the HTTP status to answer
 * with (400, 405, 426). *ret_protocol is one of protocols. */
int ws_check_upgrade(const struct http_exchange *ex, const char *const *protocols,
		     const char **ret_protocol, struct err *err);

/* Answers 101 and takes the connection out of the HTTP server, which doesn't know it from then on:
 * neither its stop nor http_server_free ends it. The exchange is gone, on_abort isn't called.
 * protocol: from ws_check_upgrade, which it does once more; opts may be NULL. Errors (then nothing
 * was sent, and the exchange is the caller's to answer): those of ws_check_upgrade, and other
 * requests before or behind this one on the connection. */
int ws_accept(struct http_exchange *ex, const char *protocol, const struct ws_opts *opts,
	      struct ws **ret, struct err *err);

#endif
