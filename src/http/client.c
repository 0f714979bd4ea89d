/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's pools: one for each origin, with its connections and the calls that wait for one.
 * Ordinary and streaming calls have slots of their own. Uses core/, loop/, net/.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client_impl.h"
#include "core/clock.h"
#include "core/log.h"
#include "net/net.h"

static void pump(struct loop_work *work, void *arg);
static void on_patience(struct loop_timer *timer, void *arg);

/* So long an attempt at a connection that may become one of HTTP/2 is the only one. */
#define PATIENCE_MS 2000

struct http_client *http_client_new(struct net *net, const struct http_client_config *config)
{
	struct http_client *client = xcalloc(1, sizeof(*client));

	if (config)
		client->config = *config;
	if (client->config.max_unary == 0)
		client->config.max_unary = 8;
	if (client->config.max_streaming == 0)
		client->config.max_streaming = 64;
	if (client->config.max_urgent == 0)
		client->config.max_urgent = 2;
	if (client->config.max_queued == 0)
		client->config.max_queued = 1024;
	if (client->config.idle_ms == 0)
		client->config.idle_ms = 60000;
	client->user_agent = xstrdup(client->config.user_agent ? client->config.user_agent
							       : "ipu-operator");
	client->config.user_agent = client->user_agent;
	client->net = net;
	client->loop = net_loop(net);
	list_init(&client->pools);
	return client;
}

static void drop_all(struct list *conns)
{
	while (!list_empty(conns))
		conn_close(CONTAINER_OF(conns->next, struct conn, link));
}

static void cancel_all(struct list *calls)
{
	while (!list_empty(calls))
		op_cancel(&CONTAINER_OF(calls->next, struct call, link)->pub.op);
}

void http_client_free(struct http_client *client)
{
	if (!client)
		return;
	while (!list_empty(&client->pools)) {
		struct pool *pool = CONTAINER_OF(client->pools.next, struct pool, link);
		/* Held, so that the last call or connection doesn't take it away meanwhile. */
		pool->refs++;
		for (int kind = 0; kind < N_KINDS; kind++)
			cancel_all(&pool->queue[kind]);
		cancel_all(&pool->calls);
		if (pool->may_be_h2)
			client->config.h2->leave(pool);
		drop_all(&pool->busy);
		drop_all(&pool->idle);
		drop_all(&pool->connecting);
		pool_unref(pool);
	}
	free(client->user_agent);
	loop_reap(client->loop, client, free);
}

void http_client_drop_idle(struct http_client *client)
{
	LIST_FOREACH(p, next_pool, &client->pools) {
		struct pool *pool = CONTAINER_OF(p, struct pool, link);
		pool->refs++;
		LIST_FOREACH(c, next, &pool->busy)
			CONTAINER_OF(c, struct conn, link)->no_reuse = true;
		LIST_FOREACH(c, next, &pool->connecting)
			CONTAINER_OF(c, struct conn, link)->no_reuse = true;
		drop_all(&pool->idle);
		if (pool->may_be_h2)
			client->config.h2->leave(pool);
		pool_unref(pool);
	}
}

void http_client_stats(const struct http_client *client, struct http_client_stats *ret)
{
	*ret = client->stats;
	LIST_FOREACH(p, next, &client->pools) {
		const struct pool *pool = CONTAINER_OF(p, struct pool, link);
		ret->idle += pool->n_idle + pool->n_h2_idle;
		ret->connections += pool->n_idle + pool->n_h2 - pool->n_h2_calls;
		for (int kind = 0; kind < N_KINDS; kind++) {
			ret->queued += pool->n_queued[kind];
			ret->calls += pool->n_queued[kind] + pool->n_busy[kind];
			ret->connections += pool->n_busy[kind] + pool->n_connecting[kind];
		}
	}
}

/* ---- pools ---- */

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

struct pool *pool_get(struct http_client *client, const struct http_origin *origin)
{
	LIST_FOREACH(p, next, &client->pools) {
		struct pool *pool = CONTAINER_OF(p, struct pool, link);
		if (pool->port == origin->port && pool->tls == origin->tls &&
		    pool->proxy == origin->proxy && strcmp(pool->host, origin->host) == 0 &&
		    same_text(pool->server_name, origin->server_name)) {
			pool->refs++;
			return pool;
		}
	}
	struct pool *pool = xcalloc(1, sizeof(*pool));
	pool->client = client;
	pool->refs = 1;
	pool->host = xstrdup(origin->host);
	pool->server_name = xstrdup(origin->server_name);
	pool->port = origin->port;
	pool->tls = tls_config_ref(origin->tls);
	pool->proxy = origin->proxy;
	http_authority(pool->host, pool->port, pool->tls != NULL, pool->authority,
		       sizeof(pool->authority));
	snprintf(pool->name, sizeof(pool->name),
		 strchr(pool->host, ':') ? "[%.255s]:%u" : "%.255s:%u", pool->host, pool->port);
	pool->may_be_h2 = client->config.h2 && pool->tls && tls_config_offers(pool->tls, "h2");
	list_init(&pool->h2);
	loop_timer_init(&pool->patience, client->loop, on_patience, pool);
	list_init(&pool->calls);
	for (int kind = 0; kind < N_KINDS; kind++)
		list_init(&pool->queue[kind]);
	list_init(&pool->connecting);
	list_init(&pool->idle);
	list_init(&pool->busy);
	loop_work_init(&pool->pump, client->loop, pump, pool);
	list_append(&client->pools, &pool->link);
	return pool;
}

static void pool_free(void *p)
{
	struct pool *pool = p;
	free(pool->host);
	free(pool->server_name);
	tls_config_unref(pool->tls);
	free(pool);
}

void pool_unref(struct pool *pool)
{
	if (--pool->refs > 0)
		return;
	loop_work_cancel(&pool->pump);
	loop_timer_stop(&pool->patience);
	list_unlink(&pool->link);
	loop_reap(pool->client->loop, pool, pool_free);
}

void pool_pump(struct pool *pool)
{
	loop_work_post(&pool->pump);
}

/* ---- connections ---- */

static void conn_free(void *p)
{
	struct conn *conn = p;
	http_codec_free(conn->codec);
	free(conn);
}

/* Out of the list and the counts that it's in. */
static void conn_leave(struct conn *conn)
{
	struct pool *pool = conn->pool;
	list_unlink(&conn->link);
	if (conn->call)
		pool->n_busy[conn->kind]--;
	else if (conn->net)
		pool->n_idle--;
	else
		pool->n_connecting[conn->kind]--;
	loop_timer_stop(&conn->idle_timer);
}

void conn_close(struct conn *conn)
{
	struct pool *pool = conn->pool;

	conn_leave(conn);
	conn->call = NULL;
	op_cancel(conn->connecting);
	conn->connecting = NULL;
	net_conn_close(conn->net);
	conn->net = NULL;
	loop_reap(pool->client->loop, conn, conn_free);
	pool_pump(pool);
	pool_unref(pool);
}

static void on_idle_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	conn_close(arg);
}

static void conn_make_idle(struct conn *conn)
{
	struct pool *pool = conn->pool;
	/* In front: those that were needed for a peak only grow old at the end, and go. */
	list_append(pool->idle.next, &conn->link);
	pool->n_idle++;
	loop_timer_start_in(&conn->idle_timer, pool->client->config.idle_ms);
	/* Also after a call that was paused: the peer's end must be seen. */
	net_conn_read_start(conn->net);
	if (pool->n_idle > pool->client->config.max_unary)
		conn_close(CONTAINER_OF(pool->idle.prev, struct conn, link));
	pool_pump(pool);
}

void conn_release(struct conn *conn, bool reusable)
{
	if (!reusable || conn->no_reuse) {
		conn_close(conn);
		return;
	}
	conn_leave(conn);
	conn->call = NULL;
	conn->served++;
	conn_make_idle(conn);
}

/* Not every kind means to a call's owner what it means to a resolver: a name that isn't there is no
 * 404. */
static const struct err *connect_error(struct err *why)
{
	if (why->kind != ERR_DENIED && why->kind != ERR_INVALID && why->kind != ERR_PROTOCOL)
		why->kind = ERR_UNAVAILABLE;
	why->maybe_applied = false;
	return why;
}

static unsigned max_of(const struct pool *pool, int kind)
{
	const struct http_client_config *config = &pool->client->config;

	return kind == KIND_URGENT  ? config->max_urgent
	       : kind == KIND_UNARY ? config->max_unary
				    : config->max_streaming;
}

/* Each attempt at a connection is for one call, and the one that waits longest takes the blame; for
 * the others it's tried again. An attempt that may lead to HTTP/2 stands for as many as would have
 * been made without it. */
static void blame_first(struct pool *pool, int kind, unsigned n, const struct err *why)
{
	struct list *queue = &pool->queue[kind];

	while (n-- > 0 && !list_empty(queue))
		call_fail(CONTAINER_OF(queue->next, struct call, link), why);
}

static bool is_shared(const struct pool *pool)
{
	return pool->may_be_h2 && pool->protocol != PROTOCOL_HTTP1;
}

static void blame(struct pool *pool, int kind, const struct err *why)
{
	unsigned n[N_KINDS] = {0};

	n[kind] = 1;
	for (int k = 0; is_shared(pool) && k < N_KINDS; k++) {
		unsigned room = max_of(pool, k) - pool->n_busy[k];
		n[k] = pool->n_queued[k] < room ? pool->n_queued[k] : room;
	}
	for (int k = 0; k < N_KINDS; k++)
		blame_first(pool, k, n[k], why);
}

static void use(struct conn *conn, struct net_conn *net)
{
	struct pool *pool = conn->pool;
	const struct http_limits limits = {.max_head_bytes = pool->client->config.max_head_bytes};
	const char *alpn = net_conn_alpn(net);

	pool->client->stats.opened++;
	if (pool->may_be_h2 && alpn && strcmp(alpn, "h2") == 0) {
		pool->protocol = PROTOCOL_HTTP2;
		if (conn->no_reuse)
			net_conn_close(net);
		else
			pool->client->config.h2->start(pool, net);
		conn_close(conn);
		return;
	}
	pool->protocol = PROTOCOL_HTTP1;
	conn_leave(conn);
	conn->net = net;
	conn->codec = http_codec_new(HTTP_CODEC_RESPONSES, &limits);
	net_conn_set_handler(net, &conn_handler, conn);
	conn_make_idle(conn);
}

static void on_connected(struct net_conn *net, const struct err *err, void *arg)
{
	struct conn *conn = arg;
	struct pool *pool = conn->pool;
	int kind = conn->kind;

	conn->connecting = NULL;
	if (net) {
		use(conn, net);
		return;
	}
	struct err why = *err;
	log_debug("http", pool->name, "no connection: %s", why.msg);
	pool->refs++;
	conn_close(conn);
	/* A time-out was that of a call that has had its own by now, and need not be this one's. */
	if (why.kind == ERR_TIMEOUT)
		err_copy(&pool->last_timeout, &why);
	else
		blame(pool, kind, connect_error(&why));
	pool_unref(pool);
}

static void conn_open(struct pool *pool, int kind, int64_t deadline_ms)
{
	struct http_client *client = pool->client;
	struct conn *conn = xcalloc(1, sizeof(*conn));
	const struct net_connect_opts opts = {
		.host = pool->host,
		.port = (uint16_t)pool->port,
		.tls = pool->tls,
		.server_name = pool->server_name,
		.proxy = pool->proxy,
		.deadline_ms = deadline_ms,
	};

	conn->pool = pool;
	pool->refs++;
	conn->kind = kind;
	loop_timer_init(&conn->idle_timer, client->loop, on_idle_timer, conn);
	list_append(&pool->connecting, &conn->link);
	pool->n_connecting[kind]++;
	pool->opened_ms = clock_mono_ms();
	conn->connecting = net_connect_start(client->net, NULL, &opts, on_connected, conn);
}

/* An idle connection for the call, NULL if none will do. */
static struct conn *find_idle(struct pool *pool, const struct call *call)
{
	LIST_FOREACH(c, next, &pool->idle) {
		struct conn *conn = CONTAINER_OF(c, struct conn, link);
		if (!call->retried || conn->served == 0)
			return conn;
	}
	return NULL;
}

/* One connection of HTTP/2 would do for all: while one is being made nobody makes another, unless
 * it takes long, since a server may be lost on the way to one and there for the next. */
static bool may_open(struct pool *pool)
{
	unsigned connecting = 0;

	for (int kind = 0; kind < N_KINDS; kind++)
		connecting += pool->n_connecting[kind];
	if (!is_shared(pool) || connecting == 0 || clock_mono_ms() - pool->opened_ms >= PATIENCE_MS)
		return true;
	loop_timer_start_at(&pool->patience, pool->opened_ms + PATIENCE_MS);
	return false;
}

static void on_patience(struct loop_timer *timer, void *arg)
{
	(void)timer;
	pool_pump(arg);
}

/* Gives connections to calls that wait, and opens what is missing. */
static void pump_kind(struct pool *pool, int kind)
{
	unsigned max = max_of(pool, kind);

	while (pool->n_queued[kind] > 0 && pool->n_busy[kind] < max) {
		struct call *call = CONTAINER_OF(pool->queue[kind].next, struct call, link);
		if (pool->n_h2 > 0 && pool->client->config.h2->send(pool, call))
			continue;
		struct conn *conn = find_idle(pool, call);
		if (!conn)
			break;
		conn_leave(conn);
		conn->kind = kind;
		conn->call = call;
		list_append(&pool->busy, &conn->link);
		pool->n_busy[kind]++;
		if (conn->served > 0)
			pool->client->stats.reused++;
		call_send(call, conn);
	}
	unsigned missing = pool->n_queued[kind];
	while (pool->n_connecting[kind] < missing &&
	       pool->n_connecting[kind] + pool->n_busy[kind] < max) {
		const struct call *first = CONTAINER_OF(pool->queue[kind].next, struct call, link);
		if (first->connect_at_ms <= clock_mono_ms() || !may_open(pool))
			break;
		conn_open(pool, kind, first->connect_at_ms);
	}
}

static void pump(struct loop_work *work, void *arg)
{
	struct pool *pool = arg;
	(void)work;
	/* A call that fails at once may be the last that keeps the pool. */
	pool->refs++;
	for (int kind = 0; kind < N_KINDS; kind++)
		pump_kind(pool, kind);
	pool_unref(pool);
}
