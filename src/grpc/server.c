/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unary gRPC server: connections, requests, replies, deadlines. The server owns connections;
 * calls belong to the handler until it finishes them, and hold copies of what was asked.
 * Uses core, loop, net.
 */
#include "grpc/server.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/log.h"
#include "core/trace.h"
#include "net/listen.h"
#include "net/tls.h"
#include "h2/transport.h"

#define LINGER_MS 1000

struct grpc_server {
	struct net *net;
	struct loop *loop;
	struct net_listener *listener;
	struct h2_limits limits;
	unsigned idle_ms;
	grpc_handler_fn *handler;
	void *arg;
	struct list conns;
	unsigned n_conns;
	bool freed;
};

struct server_conn {
	struct list place; /* in the server's connections */
	struct grpc_server *server;
	struct h2_transport transport;
	struct list calls;
	struct loop_timer idle;
	bool ended;
};

struct grpc_server_call {
	struct list place;        /* in its connection's calls */
	struct server_conn *conn; /* NULL: nobody waits */
	int32_t stream;
	struct loop_timer timer;
	char *path;
	struct h2_header *headers; /* pointing into text */
	size_t n_headers;
	char *text;
	char *message;
	size_t message_len;
};

/* ---- calls ---- */

static void detach_call(struct grpc_server_call *call)
{
	struct server_conn *conn = call->conn;

	loop_timer_stop(&call->timer);
	list_unlink(&call->place);
	call->conn = NULL;
	if (conn && list_empty(&conn->calls) && !conn->ended && conn->server->idle_ms)
		loop_timer_start_in(&conn->idle, conn->server->idle_ms);
}

static void free_call(struct grpc_server_call *call)
{
	free(call->path);
	free(call->headers);
	free(call->text);
	free(call->message);
	free(call);
}

static void send_response(struct server_conn *conn, int32_t stream, int status, const char *message,
			  struct str body)
{
	struct buf coded = BUF_INIT((size_t)8 << 10);
	struct err err = ERR_INIT;
	char number[16];
	size_t n = 0, n_trailers = 0;
	struct h2_header head[4], trailers[2];

	snprintf(number, sizeof(number), "%d", status);
	if (message && grpc_message_encode(str_of(message), &coded, NULL) < 0)
		buf_clear(&coded); /* longer than any sane message: sent without */
	struct h2_header *last = status == GRPC_OK ? trailers : head;
	size_t *n_last = status == GRPC_OK ? &n_trailers : &n;
	head[n++] = (struct h2_header){STR(":status"), STR("200")};
	head[n++] = (struct h2_header){STR("content-type"), STR("application/grpc")};
	last[(*n_last)++] = (struct h2_header){STR("grpc-status"), str_of(number)};
	if (coded.len > 0)
		last[(*n_last)++] = (struct h2_header){STR("grpc-message"), buf_str(&coded)};
	if (h2_session_respond(conn->transport.session, stream, head, n, body, trailers, n_trailers,
			       &err) < 0)
		log_warn("grpc", net_conn_peer(conn->transport.conn), "no response: %s", err.msg);
	h2_transport_kick(&conn->transport);
	buf_done(&coded);
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct grpc_server_call *call = arg;
	struct server_conn *conn = call->conn;
	(void)timer;

	detach_call(call);
	send_response(conn, call->stream, GRPC_DEADLINE_EXCEEDED, "the deadline passed", STR_NULL);
}

/* Copies the fields, without pseudo-headers. */
static void copy_headers(struct grpc_server_call *call, const struct h2_message *msg)
{
	size_t bytes = 1;

	for (size_t i = 0; i < msg->n_headers; i++)
		bytes += msg->headers[i].name.len + msg->headers[i].value.len;
	call->headers = xcalloc(msg->n_headers + 1, sizeof(*call->headers));
	call->text = xcalloc(1, bytes);
	char *p = call->text;
	for (size_t i = 0; i < msg->n_headers; i++) {
		struct str name = msg->headers[i].name, value = msg->headers[i].value;
		if (name.len == 0 || name.p[0] == ':')
			continue;
		struct h2_header *h = &call->headers[call->n_headers++];
		*h = (struct h2_header){{p, name.len}, {p + name.len, value.len}, false};
		memcpy(p, name.p, name.len);
		p += name.len;
		if (value.len > 0)
			memcpy(p, value.p, value.len);
		p += value.len;
	}
}

static void start_call(struct server_conn *conn, int32_t stream, const struct h2_message *msg,
		       struct str message, int64_t timeout_ms)
{
	struct grpc_server_call *call = xcalloc(1, sizeof(*call));
	struct trace *trace, *before;

	call->conn = conn;
	call->stream = stream;
	call->path = str_dup(h2_header_get(msg->headers, msg->n_headers, ":path"));
	copy_headers(call, msg);
	call->message = xstrndup(message.p ? message.p : "", message.len);
	call->message_len = message.len;
	list_append(&conn->calls, &call->place);
	loop_timer_stop(&conn->idle);
	loop_timer_init(&call->timer, conn->server->loop, on_deadline, call);
	if (timeout_ms >= 0) {
		loop_timer_start_in(&call->timer, timeout_ms);
	}
	trace = trace_parse(h2_header_get(call->headers, call->n_headers, "traceparent"),
			    h2_header_get(call->headers, call->n_headers, "tracestate"));
	before = trace_enter(trace);
	conn->server->handler(conn->server->arg, call);
	trace_leave(before);
	trace_unref(trace);
}

static void send_http_status(struct server_conn *conn, int32_t stream, const char *status)
{
	const struct h2_header head[] = {{STR(":status"), str_of(status)}};

	h2_session_respond(conn->transport.session, stream, head, 1, STR_NULL, NULL, 0, NULL);
	h2_transport_kick(&conn->transport);
}

static void on_request(struct server_conn *conn, int32_t stream)
{
	const struct h2_message *msg = h2_session_message(conn->transport.session, stream);
	struct str message, timeout, type;
	int64_t timeout_ms = -1;
	struct err err = ERR_INIT;

	if (!msg)
		return;
	type = h2_header_get(msg->headers, msg->n_headers, "content-type");
	timeout = h2_header_get(msg->headers, msg->n_headers, "grpc-timeout");
	if (!str_eqz(h2_header_get(msg->headers, msg->n_headers, ":method"), "POST"))
		send_http_status(conn, stream, "405");
	else if (!str_has_prefix(type, STR("application/grpc")))
		send_http_status(conn, stream, "415");
	else if ((timeout.p && grpc_timeout_parse(timeout, &timeout_ms, &err) < 0) ||
		 grpc_frame_parse(msg->body, &message, &err) < 0)
		send_response(conn, stream, GRPC_INTERNAL, err.msg, STR_NULL);
	else
		start_call(conn, stream, msg, message, timeout_ms);
}

/* ---- connections ---- */

static void free_conn(void *conn)
{
	free(conn);
}

static void end_conn(struct server_conn *conn, unsigned linger_ms)
{
	if (conn->ended)
		return;
	conn->ended = true;
	while (!list_empty(&conn->calls))
		detach_call(CONTAINER_OF(conn->calls.next, struct grpc_server_call, place));
	loop_timer_stop(&conn->idle);
	h2_transport_end(&conn->transport, linger_ms);
	list_unlink(&conn->place);
	conn->server->n_conns--;
	loop_reap(conn->server->loop, conn, free_conn);
}

static void on_reset(struct server_conn *conn, int32_t stream)
{
	LIST_FOREACH(pos, tmp, &conn->calls) {
		struct grpc_server_call *call = CONTAINER_OF(pos, struct grpc_server_call, place);
		if (call->stream == stream)
			detach_call(call);
	}
}

static void on_event(void *arg, const struct h2_event *ev)
{
	if (ev->type == H2_EVENT_MESSAGE)
		on_request(arg, ev->stream);
	else if (ev->type == H2_EVENT_RESET)
		on_reset(arg, ev->stream);
	else if (ev->type == H2_EVENT_LATE)
		send_response(arg, ev->stream, GRPC_DEADLINE_EXCEEDED,
			      "the request didn't come whole in time", STR_NULL);
}

static void on_lost(void *arg, const struct err *why)
{
	struct server_conn *conn = arg;

	log_debug("grpc", net_conn_peer(conn->transport.conn), "connection ended: %s", why->msg);
	end_conn(conn, conn->transport.sound ? LINGER_MS : 0);
}

static void on_idle(struct loop_timer *timer, void *arg)
{
	struct server_conn *conn = arg;
	(void)timer;
	h2_session_goaway(conn->transport.session, H2_NO_ERROR);
	end_conn(conn, LINGER_MS);
}

static void on_accept(struct net_listener *listener, struct net_conn *net_conn, void *arg)
{
	static const struct h2_transport_ops ops = {on_event, on_lost};
	struct grpc_server *server = arg;
	struct server_conn *conn = xcalloc(1, sizeof(*conn));
	(void)listener;

	conn->server = server;
	list_init(&conn->calls);
	list_append(&server->conns, &conn->place);
	server->n_conns++;
	loop_timer_init(&conn->idle, server->loop, on_idle, conn);
	loop_timer_start_in(&conn->idle, server->idle_ms);
	h2_transport_start(&conn->transport, net_conn, h2_session_new(H2_SERVER, &server->limits),
			   &ops, conn);
}

/* ---- the server ---- */

int grpc_server_new(struct net *net, const struct grpc_server_config *config,
		    grpc_handler_fn *handler, void *arg, struct grpc_server **ret, struct err *err)
{
	struct grpc_server *server = xcalloc(1, sizeof(*server));
	struct net_listen_opts opts = {
		.addr = config->addr ? config->addr : "127.0.0.1:0",
		.tls = config->tls,
		.max_conns = config->max_conns ? config->max_conns : 256,
	};

	server->net = net;
	server->loop = net_loop(net);
	server->limits = config->limits;
	server->idle_ms = config->idle_ms ? config->idle_ms : 600000;
	server->handler = handler;
	server->arg = arg;
	list_init(&server->conns);
	if (net_listener_new(net, &opts, on_accept, server, &server->listener, err) < 0) {
		free(server);
		return -1;
	}
	*ret = server;
	return 0;
}

static void free_server(void *server)
{
	free(server);
}

void grpc_server_free(struct grpc_server *server)
{
	if (!server || server->freed)
		return;
	server->freed = true;
	net_listener_close(server->listener);
	while (!list_empty(&server->conns))
		end_conn(CONTAINER_OF(server->conns.next, struct server_conn, place), 0);
	loop_reap(server->loop, server, free_server);
}

uint16_t grpc_server_port(const struct grpc_server *server)
{
	return net_listener_port(server->listener);
}

void grpc_server_drain(struct grpc_server *server)
{
	LIST_FOREACH(pos, tmp, &server->conns) {
		struct server_conn *conn = CONTAINER_OF(pos, struct server_conn, place);
		h2_session_goaway(conn->transport.session, H2_NO_ERROR);
		h2_transport_kick(&conn->transport);
	}
}

void grpc_server_cut(struct grpc_server *server)
{
	while (!list_empty(&server->conns))
		end_conn(CONTAINER_OF(server->conns.next, struct server_conn, place), 0);
}

unsigned grpc_server_connections(const struct grpc_server *server)
{
	return server->n_conns;
}

struct str grpc_server_call_path(const struct grpc_server_call *call)
{
	return str_of(call->path);
}

struct str grpc_server_call_message(const struct grpc_server_call *call)
{
	return (struct str){call->message, call->message_len};
}

struct str grpc_server_call_metadata(const struct grpc_server_call *call, const char *name)
{
	return h2_header_get(call->headers, call->n_headers, name);
}

bool grpc_server_call_is_gone(const struct grpc_server_call *call)
{
	return call->conn == NULL;
}

void grpc_server_call_reply(struct grpc_server_call *call, struct str message)
{
	struct server_conn *conn = call->conn;
	uint8_t header[GRPC_FRAME_HEADER_BYTES];
	char *body;

	if (conn) {
		grpc_frame_header(message.len, header);
		body = xcalloc(1, sizeof(header) + message.len);
		memcpy(body, header, sizeof(header));
		if (message.len > 0)
			memcpy(body + sizeof(header), message.p, message.len);
		detach_call(call);
		send_response(conn, call->stream, GRPC_OK, NULL,
			      (struct str){body, sizeof(header) + message.len});
		free(body);
	}
	free_call(call);
}

void grpc_server_call_fail(struct grpc_server_call *call, int status, const char *message)
{
	struct server_conn *conn = call->conn;

	if (conn) {
		detach_call(call);
		send_response(conn, call->stream, status == GRPC_OK ? GRPC_UNKNOWN : status,
			      message, STR_NULL);
	}
	free_call(call);
}

void grpc_server_call_reset(struct grpc_server_call *call, uint32_t h2_code)
{
	struct server_conn *conn = call->conn;

	if (conn) {
		detach_call(call);
		h2_session_reset(conn->transport.session, call->stream, h2_code);
		h2_transport_kick(&conn->transport);
	}
	free_call(call);
}

void grpc_server_call_cut(struct grpc_server_call *call)
{
	struct server_conn *conn = call->conn;

	if (conn)
		end_conn(conn, 0);
	free_call(call);
}
