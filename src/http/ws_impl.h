/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket's insides, for those who make one: ws_connect.c and ws_accept.c.
 */
#ifndef IPU_HTTP_WS_IMPL_H
#define IPU_HTTP_WS_IMPL_H

#include "net/conn.h"
#include "ws_codec.h"

/* Takes the connection over, on which the handshake is complete; reading is stopped by it. What the
 * connection's former handler leaves over is the first that it reads. protocol is copied. */
struct ws *ws_new(struct net_conn *net, enum ws_role role, const char *protocol,
		  const struct ws_opts *opts);

#endif
