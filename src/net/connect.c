/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing connections: resolve, race the addresses (RFC 8305), ask a proxy for a tunnel if there
 * is one, then the TLS handshake.
 * The operation owns all that it started until it hands the connection out. Uses core and loop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_impl.h"
#include "core/clock.h"
#include "core/str.h"
#include "net/resolve.h"
#include "net_impl.h"
#include "tunnel.h"

#define NEXT_ADDRESS_MS 250 /* RFC 8305 5, Connection Attempt Delay */
#define LINGER_MS       1000
#define LABEL_SIZE      (NET_HOST_SIZE + 16)
#define WHOLE_SIZE      (2 * LABEL_SIZE + 32) /* with a proxy's name */

struct connect;

struct attempt {
	struct connect *connect;
	int fd; /* -1: not started, or over */
	struct loop_io io;
	struct net_addr *addr;
};

struct connect {
	struct op op;
	struct net *net;
	char *host, *server_name;
	uint16_t port;
	char label[LABEL_SIZE];        /* "api.example:6443" */
	const struct net_proxy *proxy; /* or NULL */
	struct tunnel tunnel;          /* with it */
	struct tls_config *tls;
	int64_t deadline_ms;
	struct op *resolve;
	struct net_addr addrs[NET_RESOLVE_MAX];
	struct attempt attempts[NET_RESOLVE_MAX];
	size_t n_addrs, next, n_running;
	struct loop_timer next_timer, deadline;
	struct net_conn *conn; /* in its TLS handshake, or before it in the proxy's hands */
	bool tunnelling;
	struct err last; /* what came of the latest address */
	net_connect_fn *cb;
	void *arg;
};

static void free_connect(void *p)
{
	struct connect *c = p;
	tls_config_unref(c->tls);
	free(c->host);
	free(c->server_name);
	free(c);
}

static void stop_attempt(struct attempt *a, bool keep_fd)
{
	if (a->fd < 0)
		return;
	loop_io_stop(&a->io);
	if (!keep_fd)
		close(a->fd);
	a->fd = -1;
	a->connect->n_running--;
}

static void stop_attempts(struct connect *c)
{
	loop_timer_stop(&c->next_timer);
	for (size_t i = 0; i < c->n_addrs; i++)
		stop_attempt(&c->attempts[i], false);
}

/* Everything but the connection that was handed out, and the memory. */
static void stop(struct connect *c)
{
	op_cancel(c->resolve);
	c->resolve = NULL;
	stop_attempts(c);
	loop_timer_stop(&c->deadline);
	net_conn_close(c->conn);
	c->conn = NULL;
	tunnel_done(&c->tunnel);
	loop_reap(c->net->loop, c, free_connect);
}

static void on_cancel(struct op *op)
{
	stop(CONTAINER_OF(op, struct connect, op));
}

static void end(struct connect *c, struct net_conn *conn, const struct err *err)
{
	if (!op_end(&c->op))
		return;
	stop(c);
	c->cb(conn, err, c->arg);
}

/* The proxy's name belongs to what it, or the way to it, is at fault for. */
static const char *label_of(const struct connect *c, char z[WHOLE_SIZE])
{
	bool is_ip6 = c->proxy && strchr(c->proxy->host, ':');
	if (!c->proxy)
		return c->label;
	snprintf(z, WHOLE_SIZE, "%s by the proxy %s%s%s:%u", c->label, is_ip6 ? "[" : "",
		 c->proxy->host, is_ip6 ? "]" : "", c->proxy->port);
	return z;
}

static void on_handshake(struct net_conn *conn, const struct err *why, void *arg)
{
	struct connect *c = arg;
	struct err err = ERR_INIT;
	c->conn = NULL;
	if (!why) {
		end(c, conn, NULL);
		return;
	}
	err_copy(&err, why);
	/* What is about the certificate names the peer itself. */
	if (strncmp(err.msg, "certificate of ", strlen("certificate of ")) != 0)
		err_wrap(&err, "%s", c->label);
	net_conn_finish(conn, LINGER_MS);
	end(c, NULL, &err);
}

static void secure(struct connect *c, struct net_conn *conn)
{
	struct err err = ERR_INIT;
	c->conn = NULL;
	if (!c->tls) {
		end(c, conn, NULL);
		return;
	}
	if (net_conn_handshake(conn, c->tls, c->server_name ? c->server_name : c->host, c->label,
			       c->deadline_ms, on_handshake, c, &err) < 0) {
		net_conn_close(conn);
		end(c, NULL, &err);
		return;
	}
	c->conn = conn;
}

static void on_tunnel(const struct err *why, void *arg)
{
	struct connect *c = arg;
	char label[WHOLE_SIZE];
	struct err err = ERR_INIT;
	c->tunnelling = false;
	if (!why) {
		secure(c, c->conn);
		return;
	}
	err_copy(&err, why);
	err_wrap(&err, "%s", label_of(c, label));
	end(c, NULL, &err);
}

static void won(struct attempt *a)
{
	struct connect *c = a->connect;
	int fd = a->fd;
	stop_attempt(a, true);
	stop_attempts(c);
	struct net_conn *conn = net_conn_of_fd(c->net, fd);
	if (!c->proxy) {
		secure(c, conn);
		return;
	}
	c->conn = conn;
	c->tunnelling = true;
	tunnel_start(&c->tunnel, conn, c->label, c->proxy, on_tunnel, c);
}

static void note_failure(struct connect *c, const struct net_addr *addr, int errnum)
{
	char text[NET_ADDR_TEXT], label[WHOLE_SIZE];
	const char *to = label_of(c, label);
	struct net_addr numeric;
	if (net_addr_parse(c->proxy ? c->proxy->host : c->host, 0, &numeric) == 0)
		net_err_errno(&c->last, errnum, "%s", to);
	else
		net_err_errno(&c->last, errnum, "%s (%s)", to, net_addr_format(addr, text));
}

static void try_next(struct connect *c);

static void on_attempt(struct loop_io *io, int revents, void *arg)
{
	struct attempt *a = arg;
	struct connect *c = a->connect;
	int errnum = 0;
	socklen_t len = sizeof(errnum);
	(void)io, (void)revents;
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
		errnum = errno;
	if (errnum == 0) {
		won(a);
		return;
	}
	note_failure(c, a->addr, errnum);
	stop_attempt(a, false);
	try_next(c);
}

/* True: under way or won. False: over, with the reason in c->last. */
static bool start_attempt(struct connect *c, struct attempt *a)
{
	int fd = socket(a->addr->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		note_failure(c, a->addr, errno);
		return false;
	}
	int status;
	do
		status = connect(fd, &a->addr->sa, a->addr->len);
	while (status < 0 && errno == EINTR);
	if (status < 0 && errno != EINPROGRESS) {
		note_failure(c, a->addr, errno);
		close(fd);
		return false;
	}
	a->fd = fd;
	c->n_running++;
	loop_io_init(&a->io, c->net->loop, fd, on_attempt, a);
	loop_io_watch(&a->io, EV_WRITE);
	return true;
}

/* Starts on the next address; ends the operation when there is none and nothing runs. */
static void try_next(struct connect *c)
{
	while (c->next < c->n_addrs) {
		struct attempt *a = &c->attempts[c->next];
		a->connect = c;
		a->addr = &c->addrs[c->next++];
		if (start_attempt(c, a)) {
			if (c->next < c->n_addrs)
				loop_timer_start_in(&c->next_timer, NEXT_ADDRESS_MS);
			return;
		}
	}
	if (c->n_running == 0) {
		if (c->n_addrs > 1)
			err_wrap(&c->last, "none of %zu addresses answers; the last", c->n_addrs);
		end(c, NULL, &c->last);
	}
}

static void on_next_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	try_next(arg);
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct connect *c = arg;
	struct err err = ERR_INIT;
	const char *doing = "the connection wasn't accepted";
	char label[WHOLE_SIZE];
	(void)timer;
	if (c->resolve)
		doing = "its name wasn't resolved";
	else if (c->tunnelling)
		doing = "CONNECT wasn't answered";
	else if (c->conn)
		doing = "the TLS handshake wasn't done";
	err_set(&err, ERR_TIMEOUT, 0, "%s: %s in time", label_of(c, label), doing);
	end(c, NULL, &err);
}

/* RFC 8305 4: the families take turns, beginning with the one that sorting put first. */
static void interleave(struct connect *c, const struct net_addr *addrs, size_t n)
{
	size_t same = 0, other = 0;
	sa_family_t first = addrs[0].sa.sa_family;
	while (c->n_addrs < n) {
		bool want_first = c->n_addrs % 2 == 0;
		while (same < n && addrs[same].sa.sa_family != first)
			same++;
		while (other < n && addrs[other].sa.sa_family == first)
			other++;
		if ((want_first && same < n) || other >= n)
			c->addrs[c->n_addrs++] = addrs[same++];
		else
			c->addrs[c->n_addrs++] = addrs[other++];
	}
}

static void on_resolved(const struct net_addr *addrs, size_t n, const struct err *why, void *arg)
{
	struct connect *c = arg;
	struct err err = ERR_INIT;
	c->resolve = NULL;
	if (why) {
		char label[WHOLE_SIZE];
		err_copy(&err, why);
		err_wrap(&err, "%s", label_of(c, label));
		end(c, NULL, &err);
		return;
	}
	interleave(c, addrs, n);
	for (size_t i = 0; i < c->n_addrs; i++)
		c->attempts[i].fd = -1;
	try_next(c);
}

struct op *net_connect_start(struct net *net, struct scope *scope,
			     const struct net_connect_opts *opts, net_connect_fn *cb, void *arg)
{
	struct connect *c = xcalloc(1, sizeof(*c));
	c->net = net;
	c->host = xstrdup(opts->host);
	c->server_name = xstrdup(opts->server_name);
	c->port = opts->port;
	c->proxy = opts->proxy;
	c->tls = tls_config_ref(opts->tls);
	c->deadline_ms = opts->deadline_ms;
	c->cb = cb;
	c->arg = arg;
	snprintf(c->label, sizeof(c->label), strchr(opts->host, ':') ? "[%s]:%u" : "%s:%u",
		 opts->host, opts->port);
	loop_timer_init(&c->next_timer, net->loop, on_next_timer, c);
	loop_timer_init(&c->deadline, net->loop, on_deadline, c);
	loop_timer_start_at(&c->deadline, opts->deadline_ms);
	op_begin(&c->op, scope, on_cancel);
	c->resolve = net_resolve_start(net, NULL, c->proxy ? c->proxy->host : opts->host,
				       c->proxy ? c->proxy->port : opts->port, opts->deadline_ms,
				       on_resolved, c);
	return &c->op;
}
