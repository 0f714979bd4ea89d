/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket's server handshake (RFC 6455, 4.2): an exchange becomes a struct ws. Uses core/,
 * net/.
 */
#include <stdlib.h>

#include "server_impl.h"
#include "ws_impl.h"

#define MAX_ANSWER_BYTES ((size_t)4 << 10)

bool ws_is_upgrade(const struct http_exchange *ex)
{
	return http_headers_has_token(ex->headers, "connection", "upgrade") &&
	       http_headers_has_token(ex->headers, "upgrade", "websocket");
}

int ws_check_upgrade(const struct http_exchange *ex, const char *const *protocols,
		     const char **ret_protocol, struct err *err)
{
	const struct http_headers *h = ex->headers;

	if (!ws_is_upgrade(ex))
		return err_set(err, ERR_INVALID, 400, "the request doesn't ask for a WebSocket");
	if (ex->method != HTTP_METHOD_GET)
		return err_set(err, ERR_INVALID, 405, "a WebSocket begins with GET");
	if (http_headers_count(h, "sec-websocket-version") != 1 ||
	    !str_eqz(http_headers_get(h, "sec-websocket-version"), "13"))
		return err_set(err, ERR_INVALID, 426, "another version of WebSocket than 13");
	if (http_headers_count(h, "sec-websocket-key") != 1 ||
	    !ws_is_key(http_headers_get(h, "sec-websocket-key")))
		return err_set(err, ERR_INVALID, 400, "no Sec-WebSocket-Key of 16 bytes");
	if (!protocols) {
		*ret_protocol = "";
		return 0;
	}
	for (; *protocols; protocols++) {
		if (!http_headers_has_token(h, "sec-websocket-protocol", *protocols))
			continue;
		*ret_protocol = *protocols;
		return 0;
	}
	return err_set(err, ERR_INVALID, 400, "none of the subprotocols that are spoken here");
}

int ws_accept(struct http_exchange *ex, const char *protocol, const struct ws_opts *opts,
	      struct ws **ret, struct err *err)
{
	const char *const protocols[] = {protocol, NULL};
	struct http_header headers[4] = {
		HTTP_H("Upgrade", "websocket"),
		HTTP_H("Connection", "Upgrade"),
	};
	struct buf answer = BUF_INIT(MAX_ANSWER_BYTES);
	char accept[WS_ACCEPT_SIZE];
	const char *chosen;
	struct net_conn *net;
	size_t n = 2;

	if (ws_check_upgrade(ex, *protocol ? protocols : NULL, &chosen, err) < 0)
		return -1;
	ws_accept_of(http_headers_get(ex->headers, "sec-websocket-key"), accept);
	headers[n++] = (struct http_header){STR("Sec-WebSocket-Accept"), str_of(accept)};
	if (*protocol)
		headers[n++] = (struct http_header){STR("Sec-WebSocket-Protocol"),
						    str_of(protocol)};
	if (http_write_response(&answer, 101, headers, n, HTTP_FRAMING_NONE, 0, true, err) < 0 ||
	    exchange_take_conn(ex, 101, &net, err) < 0) {
		buf_done(&answer);
		return -1;
	}
	*ret = ws_new(net, WS_SERVER, protocol, opts);
	/* A connection that is dead already tells its new owner. */
	net_conn_write(net, answer.p, answer.len, NULL);
	buf_done(&answer);
	return 0;
}
