/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rig of the server's tests: a server with handlers that answer at once, hold their exchange or
 * stream, for raw ends to talk to. Included once by each test.
 */
#ifndef IPU_T_UNIT_HTTP_SERVER_RIG_H
#define IPU_T_UNIT_HTTP_SERVER_RIG_H

#include "http_test.h"

#define H     "Host: x\r\n"
#define HELLO "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n"
#define HELLO_CLOSE                                                                                \
	"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n"                     \
	"Connection: close\r\n\r\nhello\n"

#define MAX_HELD 64

static struct http_server *server;
static unsigned port;
static struct http_exchange *held[MAX_HELD]; /* by /late and /stream */
static unsigned n_held, n_aborted, n_drained, n_called;

static inline void on_abort(struct http_exchange *ex, void *arg)
{
	(void)arg;
	n_aborted++;
	for (unsigned i = 0; i < n_held; i++)
		if (held[i] == ex)
			held[i] = NULL;
}

static inline void on_drain(struct http_exchange *ex, void *arg)
{
	(void)ex, (void)arg;
	n_drained++;
}

static inline void get_hello(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "text/plain", NULL, 0, STR("hello\n"));
}

static inline void post_echo(struct http_exchange *ex, void *arg)
{
	(void)arg;
	if (ex->body.p[ex->body.len] != '\0')
		bail_out("the body isn't terminated");
	http_reply(ex, 200, NULL, NULL, 0, ex->body);
}

static inline void hold(struct http_exchange *ex, void *arg)
{
	(void)arg;
	if (n_held == MAX_HELD)
		bail_out("too many exchanges are held");
	held[n_held++] = ex;
	http_exchange_on_abort(ex, on_abort, NULL);
}

static inline void get_stream(struct http_exchange *ex, void *arg)
{
	hold(ex, arg);
	http_exchange_on_drain(ex, on_drain, NULL);
	http_reply_begin(ex, 200, "text/plain", NULL, 0);
}

static inline void get_pod(struct http_exchange *ex, void *arg)
{
	char text[200];
	(void)arg;
	snprintf(text, sizeof(text), "ns=%s name=%s rest=%s none=%s", http_exchange_param(ex, "ns"),
		 http_exchange_param(ex, "name"), http_exchange_param(ex, "rest"),
		 http_exchange_param(ex, "none"));
	http_reply(ex, 200, NULL, NULL, 0, str_of(text));
}

static inline void get_target(struct http_exchange *ex, void *arg)
{
	char text[200];
	(void)arg;
	snprintf(text, sizeof(text), "path=%.*s query=%.*s peer=%.10s tls=%d", STR_ARG(ex->path),
		 STR_ARG(ex->query), ex->peer, ex->tls);
	http_reply(ex, 200, NULL, NULL, 0, str_of(text));
}

static inline void get_nothing(struct http_exchange *ex, void *arg)
{
	(void)ex, (void)arg;
}

static inline void get_bad_header(struct http_exchange *ex, void *arg)
{
	const struct http_header bad = {STR("X"), STR("a\r\nY: b")};
	(void)arg;
	http_reply(ex, 200, NULL, &bad, 1, STR("x"));
}

static inline void get_err(struct http_exchange *ex, void *arg)
{
	struct err err = ERR_INIT;
	(void)arg;
	err_set(&err, ERR_BUSY, 0, "come \"back\"");
	err.retry_after_ms = 1500;
	http_reply_err(ex, &err);
}

static inline void get_no_content(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 204, NULL, NULL, 0, STR("dropped"));
}

static const struct http_route routes[] = {
	{HTTP_METHOD_GET, "/hello", get_hello},
	{HTTP_METHOD_POST, "/echo", post_echo},
	{HTTP_METHOD_GET, "/late", hold},
	{HTTP_METHOD_POST, "/late", hold},
	{HTTP_METHOD_GET, "/stream", get_stream},
	{HTTP_METHOD_GET, "/ns/{ns}/pods/{name}", get_pod},
	{HTTP_METHOD_DELETE, "/ns/{ns}/pods/{name}", get_pod},
	{HTTP_METHOD_GET, "/files/{rest...}", get_pod},
	{HTTP_METHOD_GET, "/target", get_target},
	{HTTP_METHOD_GET, "/nothing", get_nothing},
	{HTTP_METHOD_GET, "/bad-header", get_bad_header},
	{HTTP_METHOD_GET, "/err", get_err},
	{HTTP_METHOD_GET, "/no-content", get_no_content},
	{HTTP_METHOD_NONE, NULL, NULL},
};

static inline void route(struct http_exchange *ex, void *arg)
{
	n_called++;
	http_route(ex, routes, arg);
}

static inline void begin(const struct http_server_config *config)
{
	struct err err = ERR_INIT;
	server = http_server_new(net, config);
	if (http_server_listen(server, "127.0.0.1:0", NULL, route, NULL, &port, &err) < 0)
		bail_out(err.msg);
	n_held = n_aborted = n_drained = n_called = 0;
}

static inline void end(void)
{
	http_server_free(server);
	settle();
}

static inline struct http_server_stats stats(void)
{
	struct http_server_stats s;
	http_server_stats(server, &s);
	return s;
}

#endif
