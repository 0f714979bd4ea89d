/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: its configuration, listeners and graceful end. It owns the listeners and the
 * connections. Uses core/, loop/, net/.
 */
#include <stdlib.h>

#include "core/log.h"
#include "net/net.h"
#include "server_impl.h"

#define HANDSHAKE_MS 10000 /* at most; a head that may take less makes it less */

static void set_default(unsigned *value, unsigned otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void close_listener(struct listener *l)
{
	list_unlink(&l->link);
	net_listener_close(l->net);
	loop_reap(l->server->loop, l, free);
}

static void close_all(struct http_server *server)
{
	while (!list_empty(&server->listeners))
		close_listener(CONTAINER_OF(server->listeners.next, struct listener, link));
	while (!list_empty(&server->conns))
		sconn_abort(CONTAINER_OF(server->conns.next, struct sconn, link));
}

static void check_stopped(struct http_server *server)
{
	if (!server->stopping || !list_empty(&server->listeners) || !list_empty(&server->conns))
		return;
	loop_timer_stop(&server->deadline);
	loop_work_post(&server->stopped);
}

void server_conn_gone(struct http_server *server)
{
	check_stopped(server);
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct http_server *server = arg;
	struct http_server_stats stats;

	(void)timer;
	http_server_stats(server, &stats);
	if (stats.connections)
		log_warn("http", NULL, "%s: connections closed at the deadline: %u", server->name,
			 stats.connections);
	close_all(server);
	check_stopped(server);
}

static void on_stopped(struct loop_work *work, void *arg)
{
	struct http_server *server = arg;
	http_server_stopped_fn *fn = server->on_stopped;
	(void)work;
	server->on_stopped = NULL;
	if (fn)
		fn(server->on_stopped_arg);
}

struct http_server *http_server_new(struct net *net, const struct http_server_config *config)
{
	struct http_server *server = xcalloc(1, sizeof(*server));
	struct http_server_config *c = &server->config;

	if (config)
		*c = *config;
	if (c->limits.max_body_bytes == 0)
		c->limits.max_body_bytes = (uint64_t)4 << 20;
	if (c->limits.max_head_bytes == 0)
		c->limits.max_head_bytes = HTTP_MAX_HEAD_BYTES;
	set_default(&c->header_ms, 10000);
	set_default(&c->body_ms, 30000);
	set_default(&c->idle_ms, 60000);
	set_default(&c->write_ms, 30000);
	set_default(&c->max_connections, 512);
	set_default(&c->max_pipelined, 8);
	if (c->high_water_bytes == 0)
		c->high_water_bytes = (size_t)256 << 10;
	if (c->max_output_bytes == 0)
		c->max_output_bytes = (size_t)16 << 20;
	server->bodies.most = c->max_bodies_bytes;
	server->name = xstrdup(c->name ? c->name : "http");
	c->name = server->name;
	server->net = net;
	server->loop = net_loop(net);
	list_init(&server->listeners);
	list_init(&server->conns);
	loop_timer_init(&server->deadline, server->loop, on_deadline, server);
	loop_work_init(&server->stopped, server->loop, on_stopped, server);
	return server;
}

static void server_free(void *p)
{
	struct http_server *server = p;
	free(server->name);
	free(server);
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	server->on_stopped = NULL;
	close_all(server);
	loop_timer_stop(&server->deadline);
	loop_work_cancel(&server->stopped);
	loop_reap(server->loop, server, server_free);
}

static void on_accept(struct net_listener *net_listener, struct net_conn *net, void *arg)
{
	struct listener *l = arg;
	(void)net_listener;
	l->server->stats.accepted++;
	sconn_start(l->server, l, net);
}

/* where says what to listen on; the rest of it is filled in here. */
static int listen_on(struct http_server *server, struct net_listen_opts where,
		     http_handler_fn *handler, void *arg, unsigned *ret_port, struct err *err)
{
	struct listener *l = xcalloc(1, sizeof(*l));

	where.max_conns = server->config.max_connections;
	where.handshake_ms = server->config.header_ms < HANDSHAKE_MS ? server->config.header_ms
								     : HANDSHAKE_MS;
	if (net_listener_new(server->net, &where, on_accept, l, &l->net, err) < 0) {
		free(l);
		return -1;
	}
	l->server = server;
	l->tls = where.tls;
	l->handler = handler;
	l->arg = arg;
	list_append(&server->listeners, &l->link);
	if (ret_port)
		*ret_port = net_listener_port(l->net);
	return 0;
}

int http_server_listen(struct http_server *server, const char *addr, struct tls_config *tls,
		       http_handler_fn *handler, void *arg, unsigned *ret_port, struct err *err)
{
	return listen_on(server, (struct net_listen_opts){.addr = addr, .tls = tls}, handler, arg,
			 ret_port, err);
}

int http_server_listen_fd(struct http_server *server, int fd, struct tls_config *tls,
			  http_handler_fn *handler, void *arg, unsigned *ret_port, struct err *err)
{
	return listen_on(server, (struct net_listen_opts){.use_fd = true, .fd = fd, .tls = tls},
			 handler, arg, ret_port, err);
}

void http_server_switch_tls(struct http_server *server, const struct tls_config *from,
			    struct tls_config *to)
{
	LIST_FOREACH(i, next, &server->listeners) {
		struct listener *l = CONTAINER_OF(i, struct listener, link);
		/* A listener without TLS stays so. */
		if (!l->tls || l->tls != from)
			continue;
		l->tls = to;
		net_listener_set_tls(l->net, to);
	}
}

void http_server_leave(struct http_server *server, bool leaves)
{
	server->leaving = leaves || server->stopping;
}

void http_server_drop_idle(struct http_server *server)
{
	LIST_FOREACH(i, next, &server->conns)
		sconn_drop_idle(CONTAINER_OF(i, struct sconn, link));
}

void http_server_renew(struct http_server *server)
{
	LIST_FOREACH(i, next, &server->conns)
		sconn_renew(CONTAINER_OF(i, struct sconn, link));
}

static void on_listener_gone(void *arg)
{
	struct listener *l = arg;
	struct http_server *server = l->server;
	close_listener(l);
	check_stopped(server);
}

void http_server_stop(struct http_server *server, unsigned deadline_ms, http_server_stopped_fn *fn,
		      void *arg)
{
	server->on_stopped = fn;
	server->on_stopped_arg = arg;
	server->leaving = server->stopping = true;
	loop_timer_start_in(&server->deadline, deadline_ms);
	LIST_FOREACH(i, next, &server->listeners) {
		struct listener *l = CONTAINER_OF(i, struct listener, link);
		net_listener_leave(l->net, on_listener_gone, l);
	}
	LIST_FOREACH(i, next, &server->conns)
		sconn_stop(CONTAINER_OF(i, struct sconn, link));
	check_stopped(server);
}

void http_server_stats(const struct http_server *server, struct http_server_stats *ret)
{
	*ret = server->stats;
	LIST_FOREACH(i, next, &server->conns)
		ret->connections++;
}
