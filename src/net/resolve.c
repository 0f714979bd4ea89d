/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolution by c-ares, one channel an operation. c-ares' callbacks record; the operation ends
 * from posted work, so that its owner may cancel or free anything. Uses core and loop.
 */
#include "net/resolve.h"

#include <ares.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "net_impl.h"

#define QUERY_TIMEOUT_MS 2000
#define QUERY_TRIES      3

struct resolve {
	struct op op;
	struct net *net;
	ares_channel channel; /* NULL: none */
	struct list socks;    /* struct sock */
	struct loop_timer ares_timer, deadline;
	struct loop_work done;
	char *host;
	uint16_t port;
	struct net_addr addrs[NET_RESOLVE_MAX];
	size_t n_addrs;
	struct err err; /* kind ERR_NONE: there is no answer yet, or addresses */
	bool answered;
	net_resolve_fn *cb;
	void *arg;
};

struct sock {
	struct list link;
	struct loop_io io;
};

static void drop_sock(struct resolve *r, struct sock *s)
{
	loop_io_stop(&s->io);
	list_unlink(&s->link);
	loop_reap(r->net->loop, s, free);
}

static void free_resolve(void *p)
{
	struct resolve *r = p;
	free(r->host);
	free(r);
}

/* Everything but the memory. ares_destroy reports the end of its queries to on_addrinfo. */
static void stop(struct resolve *r)
{
	r->answered = true;
	if (r->channel) {
		ares_channel channel = r->channel;
		r->channel = NULL;
		ares_destroy(channel);
	}
	LIST_FOREACH(link, tmp, &r->socks)
		drop_sock(r, CONTAINER_OF(link, struct sock, link));
	loop_timer_stop(&r->ares_timer);
	loop_timer_stop(&r->deadline);
	loop_work_cancel(&r->done);
	loop_reap(r->net->loop, r, free_resolve);
}

static void on_cancel(struct op *op)
{
	stop(CONTAINER_OF(op, struct resolve, op));
}

static void on_done(struct loop_work *work, void *arg)
{
	struct resolve *r = arg;
	(void)work;
	bool failed = r->err.kind != ERR_NONE;
	stop(r);
	if (op_end(&r->op))
		r->cb(failed ? NULL : r->addrs, failed ? 0 : r->n_addrs, failed ? &r->err : NULL,
		      r->arg);
}

static void answer(struct resolve *r)
{
	r->answered = true;
	loop_timer_stop(&r->deadline);
	loop_work_post(&r->done);
}

static void set_failure(struct resolve *r, int status)
{
	switch (status) {
	case ARES_ENOTFOUND:
		err_set(&r->err, ERR_NOT_FOUND, status, "no such host: %s", r->host);
		break;
	case ARES_ENODATA:
		err_set(&r->err, ERR_NOT_FOUND, status, "host %s has no address", r->host);
		break;
	case ARES_EBADNAME:
	case ARES_EBADSTR:
		err_set(&r->err, ERR_INVALID, status, "\"%s\" is no host name", r->host);
		break;
	case ARES_ETIMEOUT:
		err_set(&r->err, ERR_UNAVAILABLE, status, "no DNS server answered about %s",
			r->host);
		break;
	default:
		err_set(&r->err, ERR_UNAVAILABLE, status, "resolving %s: %s", r->host,
			ares_strerror(status));
	}
}

static void on_addrinfo(void *arg, int status, int timeouts, struct ares_addrinfo *result)
{
	struct resolve *r = arg;
	(void)timeouts;
	if (r->answered) {
		ares_freeaddrinfo(result);
		return;
	}
	if (status == ARES_SUCCESS) {
		struct ares_addrinfo_node *node = result->nodes;
		for (; node && r->n_addrs < NET_RESOLVE_MAX; node = node->ai_next) {
			struct net_addr *addr = &r->addrs[r->n_addrs];
			if ((size_t)node->ai_addrlen > sizeof(addr->ss))
				continue;
			memcpy(&addr->ss, node->ai_addr, (size_t)node->ai_addrlen);
			addr->len = (socklen_t)node->ai_addrlen;
			if (addr->sa.sa_family == AF_INET)
				addr->in.sin_port = htons(r->port);
			else if (addr->sa.sa_family == AF_INET6)
				addr->in6.sin6_port = htons(r->port);
			else
				continue;
			r->n_addrs++;
		}
		if (r->n_addrs == 0)
			status = ARES_ENODATA;
	}
	if (status != ARES_SUCCESS)
		set_failure(r, status);
	ares_freeaddrinfo(result);
	answer(r);
}

/* c-ares counts in real time; a clock that a test moved makes us ask it early, no more. */
static void rearm(struct resolve *r)
{
	struct timeval tv;
	if (r->answered || !ares_timeout(r->channel, NULL, &tv)) {
		loop_timer_stop(&r->ares_timer);
		return;
	}
	int64_t ms = (int64_t)tv.tv_sec * 1000 + tv.tv_usec / 1000;
	loop_timer_start_in(&r->ares_timer, ms > 0 ? ms : 1);
}

static void on_sock(struct loop_io *io, int revents, void *arg)
{
	struct resolve *r = arg;
	ares_socket_t fd = io->ev.fd;
	ares_process_fd(r->channel, revents & EV_READ ? fd : ARES_SOCKET_BAD,
			revents & EV_WRITE ? fd : ARES_SOCKET_BAD);
	rearm(r);
}

static void on_ares_timer(struct loop_timer *timer, void *arg)
{
	struct resolve *r = arg;
	(void)timer;
	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	rearm(r);
}

/* c-ares opened or is about to close fd, or waits for something else on it. */
static void on_sock_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolve *r = arg;
	struct sock *s = NULL;
	LIST_FOREACH(link, tmp, &r->socks) {
		struct sock *each = CONTAINER_OF(link, struct sock, link);
		if (each->io.ev.fd == fd)
			s = each;
	}
	if (!readable && !writable) {
		if (s)
			drop_sock(r, s);
		return;
	}
	if (!s) {
		s = xcalloc(1, sizeof(*s));
		loop_io_init(&s->io, r->net->loop, fd, on_sock, r);
		list_append(&r->socks, &s->link);
	}
	loop_io_watch(&s->io, (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct resolve *r = arg;
	(void)timer;
	err_set(&r->err, ERR_TIMEOUT, 0, "no answer about host %s in time", r->host);
	answer(r);
}

static int open_channel(struct resolve *r)
{
	char lookups[] = "fb"; /* the hosts file, then DNS */
	struct ares_options options = {
		.timeout = QUERY_TIMEOUT_MS,
		.tries = QUERY_TRIES,
		.lookups = lookups,
		.sock_state_cb = on_sock_state,
		.sock_state_cb_data = r,
	};
	int status = ares_init_options(&r->channel, &options,
				       ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
					       ARES_OPT_SOCK_STATE_CB);
	if (status != ARES_SUCCESS) {
		r->channel = NULL;
		return status;
	}
	if (r->net->dns_servers)
		status = ares_set_servers_ports_csv(r->channel, r->net->dns_servers);
	return status;
}

static void query(struct resolve *r)
{
	struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	int status = open_channel(r);
	if (status != ARES_SUCCESS) {
		set_failure(r, status);
		answer(r);
		return;
	}
	ares_getaddrinfo(r->channel, r->host, NULL, &hints, on_addrinfo, r);
	rearm(r);
}

struct op *net_resolve_start(struct net *net, struct scope *scope, const char *host, uint16_t port,
			     int64_t deadline_ms, net_resolve_fn *cb, void *arg)
{
	struct resolve *r = xcalloc(1, sizeof(*r));
	size_t len = strlen(host);
	r->net = net;
	r->host = xstrdup(host);
	r->port = port;
	r->cb = cb;
	r->arg = arg;
	list_init(&r->socks);
	loop_timer_init(&r->ares_timer, net->loop, on_ares_timer, r);
	loop_timer_init(&r->deadline, net->loop, on_deadline, r);
	loop_work_init(&r->done, net->loop, on_done, r);
	op_begin(&r->op, scope, on_cancel);
	if (net_addr_parse(host, port, &r->addrs[0]) == 0) {
		r->n_addrs = 1;
		answer(r);
	} else if (len == 0 || len >= NET_HOST_SIZE) {
		err_set(&r->err, ERR_INVALID, 0,
			len ? "a host name of %zu bytes is too long" : "no host is named", len);
		answer(r);
	} else {
		loop_timer_start_at(&r->deadline, deadline_ms);
		query(r);
	}
	return &r->op;
}
