/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners: accept within a budget, pause when descriptors or room run out, do the handshakes; end
 * without resetting what the kernel has taken.
 * The listener's memory lives until its last connection has ended, which is how it counts them.
 * Uses core and loop.
 */
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_impl.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "net_impl.h"

#define ACCEPT_BUDGET        32
#define ACCEPT_PAUSE_MS      100
#define BACKLOG              1024
#define MAX_CONNS_DEFAULT    1024
#define HANDSHAKE_MS_DEFAULT 10000
#define LINGER_MS            1000
#define LOG_EVERY_MS         10000
/* For handshakes that have begun: a round trip, with room. Whoever would begin one meanwhile tries
 * again a second later, so it's no longer than that takes. */
#define LEAVE_MS 100

struct net_listener {
	struct net *net;
	int fd; /* -1: nothing is accepted any more */
	struct loop_io io;
	struct loop_timer pause; /* active: nothing is accepted */
	struct tls_config *tls;
	unsigned max_conns, handshake_ms;
	unsigned n_conns;
	struct list handshakes; /* connections, by their link */
	struct net_addr bound;
	char addr[NET_ADDR_TEXT];
	struct log_limit limit;
	net_accept_fn *cb;
	void *arg;
	bool closed;
	bool given; /* the socket is others', too */
	/* From net_listener_leave on. */
	struct loop_timer leave;
	struct loop_work gone;
	bool leaving, is_shut, overdue; /* is_shut: nobody can begin */
	net_listener_gone_fn *on_gone;
	void *on_gone_arg;
};

static void free_listener(void *p)
{
	struct net_listener *l = p;
	tls_config_unref(l->tls);
	free(l);
}

static void watch(struct net_listener *l)
{
	bool accepting = l->n_conns < l->max_conns && !loop_timer_active(&l->pause);
	if (l->overdue && accepting)
		loop_timer_start_in(&l->leave, 0);
	else
		loop_io_watch(&l->io, accepting ? EV_READ : 0);
}

/* Closing is the caller's. */
static void tell_gone(struct net_listener *l)
{
	if (l->leaving && l->fd < 0 && list_empty(&l->handshakes))
		loop_work_post(&l->gone);
}

static void on_gone_work(struct loop_work *work, void *arg)
{
	struct net_listener *l = arg;
	(void)work;
	l->on_gone(l->on_gone_arg);
}

static void end_accepting(struct net_listener *l)
{
	loop_io_stop(&l->io);
	loop_timer_stop(&l->pause);
	loop_timer_stop(&l->leave);
	close(l->fd);
	l->fd = -1;
	tell_gone(l);
}

static void on_pause_over(struct loop_timer *timer, void *arg)
{
	(void)timer;
	watch(arg);
}

static void on_conn_closed(void *arg)
{
	struct net_listener *l = arg;
	l->n_conns--;
	if (l->fd >= 0)
		watch(l);
	else if (l->closed && l->n_conns == 0)
		loop_reap(l->net->loop, l, free_listener);
}

static void on_handshake(struct net_conn *conn, const struct err *why, void *arg)
{
	struct net_listener *l = arg;
	list_unlink(&conn->link);
	tell_gone(l);
	if (!why) {
		l->cb(l, conn, l->arg);
		return;
	}
	if (log_limit_ok(&l->limit, LOG_EVERY_MS))
		log_info("net", l->addr, "TLS handshake failed: %s peer=%s", why->msg, conn->peer);
	net_conn_finish(conn, LINGER_MS);
}

static void accepted(struct net_listener *l, int fd)
{
	struct err err = ERR_INIT;
	struct net_conn *conn = net_conn_of_fd(l->net, fd);
	l->n_conns++;
	conn->on_closed = on_conn_closed;
	conn->on_closed_arg = l;
	if (!l->tls) {
		l->cb(l, conn, l->arg);
		return;
	}
	if (net_conn_handshake(conn, l->tls, NULL, conn->peer, clock_mono_ms() + l->handshake_ms,
			       on_handshake, l, &err) < 0) {
		log_warn("net", l->addr, "%s peer=%s", err.msg, conn->peer);
		net_conn_close(conn);
		return;
	}
	list_append(&l->handshakes, &conn->link);
}

/* accept(2): those are about the connection that was being accepted, the next one may be fine. */
static bool is_transient(int errnum)
{
	switch (errnum) {
	case EINTR:
	case ECONNABORTED:
	case EPROTO:
	case EPERM:
	case ENETDOWN:
	case ENOPROTOOPT:
	case EHOSTDOWN:
	case ENONET:
	case EHOSTUNREACH:
	case EOPNOTSUPP:
	case ENETUNREACH:
		return true;
	default:
		return false;
	}
}

/* So many at most; until one of them has it closed or left. True: none waits. */
static bool accept_some(struct net_listener *l, int budget)
{
	for (int i = 0; i < budget && l->fd >= 0 && l->n_conns < l->max_conns; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			accepted(l, fd);
			continue;
		}
		if (errno == EAGAIN)
			return true;
		if (is_transient(errno))
			continue;
		/* Out of descriptors or memory: the peer waits in the backlog, and so do we. */
		if (log_limit_ok(&l->limit, LOG_EVERY_MS))
			log_warn("net", l->addr, "accepting is paused: %s", strerror(errno));
		loop_timer_start_in(&l->pause, ACCEPT_PAUSE_MS);
		break;
	}
	return false;
}

static void on_acceptable(struct loop_io *io, int revents, void *arg)
{
	struct net_listener *l = arg;
	(void)io, (void)revents;
	accept_some(l, ACCEPT_BUDGET);
	if (l->fd >= 0)
		watch(l);
}

/* Those that wait for room to be accepted are waited for, as no others come. */
static void on_leave(struct loop_timer *timer, void *arg)
{
	struct net_listener *l = arg;
	(void)timer;
	l->overdue = true;
	bool none_waits = accept_some(l, 2 * BACKLOG);
	if (l->fd < 0)
		return;
	if (none_waits || !l->is_shut)
		end_accepting(l);
	else
		watch(l);
}

/* Drops what would begin a connection. The end of a handshake that has begun passes, and so does
 * all that belongs to connections, which inherit this. Linux looks from the TCP header on. */
static void shut(struct net_listener *l)
{
	struct sock_filter only_begun[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),    /* the flags */
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12), /* SYN, ACK */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	const struct sock_fprog program = {sizeof(only_begun) / sizeof(only_begun[0]), only_begun};
	l->is_shut = setsockopt(l->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ==
		     0;
	if (!l->is_shut)
		log_debug("net", l->addr, "connections may still begin while it ends: %s",
			  strerror(errno));
}

static int bind_to(struct net_addr *addr, const char *text, int *ret_fd, struct err *err)
{
	int yes = 1, no = 0;
	int fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, errno, "listening on %s", text);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (addr->sa.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	if (bind(fd, &addr->sa, addr->len) < 0 || listen(fd, BACKLOG) < 0) {
		int errnum = errno;
		close(fd);
		return err_errno(err, errnum, "listening on %s", text);
	}
	*ret_fd = fd;
	return 0;
}

static int open_addr(const char *text, int *ret_fd, struct err *err)
{
	char host[NET_HOST_SIZE];
	uint16_t port;
	struct net_addr addr;
	if (net_split_host_port(text, 0, host, &port, err) < 0)
		return err_wrap(err, "listening address");
	if (host[0] == '\0') {
		/* Both families through one socket; without IPv6 in the kernel, the other one. */
		net_addr_parse("::", port, &addr);
		if (bind_to(&addr, text, ret_fd, err) == 0)
			return 0;
		if (err && err->code != EAFNOSUPPORT && err->code != EADDRNOTAVAIL)
			return -1;
		net_addr_parse("0.0.0.0", port, &addr);
	} else if (net_addr_parse(host, port, &addr) < 0) {
		return err_set(err, ERR_INVALID, 0,
			       "listening address \"%s\": \"%s\" is no numeric address", text,
			       host);
	}
	return bind_to(&addr, text, ret_fd, err);
}

static int check_fd(int fd, struct err *err)
{
	int listening = 0;
	socklen_t len = sizeof(listening);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 || !listening)
		return err_set(err, ERR_INVALID, 0,
			       "descriptor %d given to listen on isn't a listening socket", fd);
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_errno(err, errno, "descriptor %d given to listen on", fd);
	return 0;
}

int net_listener_new(struct net *net, const struct net_listen_opts *opts, net_accept_fn *cb,
		     void *arg, struct net_listener **ret, struct err *err)
{
	int fd = opts->fd;
	struct err local = ERR_INIT;
	if (opts->use_fd ? check_fd(fd, &local) < 0 : open_addr(opts->addr, &fd, &local) < 0)
		return err_copy(err, &local);
	struct net_listener *l = xcalloc(1, sizeof(*l));
	l->net = net;
	l->fd = fd;
	l->tls = tls_config_ref(opts->tls);
	l->max_conns = opts->max_conns ? opts->max_conns : MAX_CONNS_DEFAULT;
	l->handshake_ms = opts->handshake_ms ? opts->handshake_ms : HANDSHAKE_MS_DEFAULT;
	l->cb = cb;
	l->arg = arg;
	list_init(&l->handshakes);
	l->bound.len = sizeof(l->bound.ss);
	if (getsockname(fd, &l->bound.sa, &l->bound.len) < 0)
		l->bound.len = 0;
	net_addr_format(&l->bound, l->addr);
	l->given = opts->use_fd;
	loop_timer_init(&l->pause, net->loop, on_pause_over, l);
	loop_timer_init(&l->leave, net->loop, on_leave, l);
	loop_work_init(&l->gone, net->loop, on_gone_work, l);
	loop_io_init(&l->io, net->loop, fd, on_acceptable, l);
	watch(l);
	*ret = l;
	return 0;
}

void net_listener_close(struct net_listener *l)
{
	if (!l || l->closed)
		return;
	/* Held while its connections go, so that the last of them doesn't end it twice. */
	l->n_conns++;
	l->closed = true;
	if (l->fd >= 0)
		end_accepting(l);
	loop_work_cancel(&l->gone);
	while (!list_empty(&l->handshakes))
		net_conn_close(CONTAINER_OF(l->handshakes.next, struct net_conn, link));
	on_conn_closed(l);
}

void net_listener_leave(struct net_listener *l, net_listener_gone_fn *on_gone, void *arg)
{
	if (l->closed || l->leaving)
		return;
	l->leaving = true;
	l->on_gone = on_gone;
	l->on_gone_arg = arg;
	if (l->given) {
		end_accepting(l);
		return;
	}
	shut(l);
	loop_timer_start_in(&l->leave, LEAVE_MS);
}

uint16_t net_listener_port(const struct net_listener *l)
{
	return ntohs(l->bound.sa.sa_family == AF_INET6 ? l->bound.in6.sin6_port
						       : l->bound.in.sin_port);
}

unsigned net_listener_conns(const struct net_listener *l)
{
	return l->n_conns;
}

void net_listener_set_tls(struct net_listener *l, struct tls_config *tls)
{
	struct tls_config *old = l->tls;
	l->tls = tls_config_ref(tls);
	tls_config_unref(old);
}
