/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two NETLINK_ROUTE sockets: one to ask, one to hear of changes. Uses core, loop.
 */
#include "links.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "core/str.h"
#include "loop/backoff.h"

/* The kernel fills a datagram of a list up to 32 KiB, or as long as its one message is. */
#define DATAGRAM_BYTES ((size_t)64 << 10)
/* A list's datagrams: some 100,000 links. */
#define MAX_DATAGRAMS 4096
/* Of events, in one turn. */
#define MAX_EVENTS 64

struct links {
	struct loop *loop;
	links_changed_fn *cb;
	void *arg;
	int ask_fd; /* -1: none */
	uint32_t seq;
	struct loop_io events; /* fd -1: none */
	int event_fd;
	struct loop_timer retry;
	struct backoff backoff;
	uint8_t *datagram;
};

/* ---- events ---- */

static void listen_again(struct links *links);

static void stop_listening(struct links *links)
{
	if (links->event_fd < 0)
		return;
	loop_io_stop(&links->events);
	close(links->event_fd);
	links->event_fd = -1;
}

static void on_retry(struct loop_timer *timer, void *arg)
{
	struct links *links = arg;

	(void)timer;
	listen_again(links);
	if (links->event_fd >= 0)
		links->cb(links->arg);
}

/* What was said doesn't matter, only that something was. ENOBUFS: more than the socket holds. */
static void on_event(struct loop_io *io, int revents, void *arg)
{
	struct links *links = arg;
	int failed = 0;

	(void)io;
	(void)revents;
	for (unsigned i = 0; i < MAX_EVENTS && !failed; i++) {
		if (recv(links->event_fd, links->datagram, DATAGRAM_BYTES, MSG_DONTWAIT) >= 0)
			continue;
		if (errno == EAGAIN || errno == EINTR)
			break;
		if (errno != ENOBUFS)
			failed = errno;
	}
	if (failed) {
		log_warn("node", NULL, "netlink's events ended: %s", strerror(failed));
		stop_listening(links);
		loop_timer_start_in(&links->retry, backoff_next_ms(&links->backoff, NULL));
	} else {
		backoff_reset(&links->backoff);
	}
	links->cb(links->arg);
}

static int open_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
}

static void listen_again(struct links *links)
{
	const uint32_t groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
				RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE |
				UINT32_C(1) << (RTNLGRP_IPV6_RULE - 1) |
				UINT32_C(1) << (RTNLGRP_NEXTHOP - 1);
	struct sockaddr_nl us = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = open_socket();

	if (fd < 0 || bind(fd, (struct sockaddr *)&us, sizeof(us)) < 0) {
		int errnum = errno;

		if (fd >= 0)
			close(fd);
		if (links->backoff.tries == 0)
			log_warn("node", NULL,
				 "no events of links and routes (netlink): %s; they are looked at "
				 "every so often all the same",
				 strerror(errnum));
		loop_timer_start_in(&links->retry, backoff_next_ms(&links->backoff, NULL));
		return;
	}
	links->event_fd = fd;
	loop_io_init(&links->events, links->loop, fd, on_event, links);
	loop_io_watch(&links->events, EV_READ);
}

struct links *links_new(struct loop *loop, links_changed_fn *cb, void *arg)
{
	struct links *links = xcalloc(1, sizeof(*links));

	links->loop = loop;
	links->cb = cb;
	links->arg = arg;
	links->ask_fd = links->event_fd = -1;
	links->backoff = (struct backoff)BACKOFF_INIT(1000, 60000);
	links->datagram = xcalloc(1, DATAGRAM_BYTES);
	loop_timer_init(&links->retry, loop, on_retry, links);
	listen_again(links);
	return links;
}

static void free_links(void *p)
{
	struct links *links = p;

	free(links->datagram);
	free(links);
}

void links_free(struct links *links)
{
	if (!links)
		return;
	stop_listening(links);
	loop_timer_stop(&links->retry);
	if (links->ask_fd >= 0)
		close(links->ask_fd);
	loop_reap(links->loop, links, free_links);
}

/* ---- questions ---- */

/* Each message of an answer. */
typedef void each_fn(const struct nl_message *message, void *arg);

static int open_to_ask(struct links *links, struct err *err)
{
	const int on = 1;
	int fd;

	if (links->ask_fd >= 0)
		return 0;
	fd = open_socket();
	if (fd < 0)
		return err_errno(err, errno, "opening a netlink socket");
	/* Lists are filtered by the kernel (5.0 and newer; we filter once more), and errors come
	 * without a copy of the question. */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	links->ask_fd = fd;
	return 0;
}

/* One datagram from the kernel; what anybody else sent is dropped. */
static int receive(struct links *links, struct str *ret, struct err *err)
{
	struct sockaddr_nl from;
	struct iovec iov = {links->datagram, DATAGRAM_BYTES};

	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		struct msghdr msg = {
			.msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &iov,
			.msg_iovlen = 1,
		};
		ssize_t n = recvmsg(links->ask_fd, &msg, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return err_set(err, ERR_UNAVAILABLE, 0, "netlink gave no answer");
		if (n < 0)
			return err_errno(err, errno, "reading from netlink");
		if (msg.msg_namelen < sizeof(from) || from.nl_pid != 0)
			continue;
		if (msg.msg_flags & MSG_TRUNC)
			return err_set(err, ERR_LIMIT, 0, "an answer of netlink's is too long");
		*ret = (struct str){(const char *)links->datagram, (size_t)n};
		return 0;
	}
	return err_set(err, ERR_UNAVAILABLE, 0, "netlink gave no answer");
}

/* One datagram's messages: 1 when the answer is whole. list: until NL_DONE; else the first is it.
 */
static int read_answer(struct links *links, struct str datagram, bool list, each_fn *each,
		       void *arg, int *ret_errnum, struct err *err)
{
	struct nl_message message;
	int more;

	while ((more = nl_next(&datagram, &message, err)) > 0) {
		if (message.seq != links->seq)
			continue;
		if (message.kind == NL_DONE || message.kind == NL_ERROR) {
			*ret_errnum = message.error;
			return 1;
		}
		each(&message, arg);
		if (!list)
			return 1;
	}
	return more;
}

/* Errors of the socket, not what the kernel answers, which goes to ret_errnum. */
static int exchange(struct links *links, const uint8_t *question, size_t len, bool list,
		    each_fn *each, void *arg, int *ret_errnum, struct err *err)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	int whole = 0;

	if (sendto(links->ask_fd, question, len, MSG_DONTWAIT, (struct sockaddr *)&kernel,
		   sizeof(kernel)) < 0)
		return err_errno(err, errno, "asking netlink");
	for (unsigned i = 0; !whole; i++) {
		struct str datagram;

		if (i == MAX_DATAGRAMS)
			return err_set(err, ERR_LIMIT, 0, "a list of netlink's is too long");
		if (receive(links, &datagram, err) < 0)
			return -1;
		whole = read_answer(links, datagram, list, each, arg, ret_errnum, err);
		if (whole < 0)
			return -1;
	}
	return 0;
}

/* A list that changes while it is read (NLM_F_DUMP_INTR) is taken as it is: the change's event is
 * on its way, and then everything is asked again. */
static int ask(struct links *links, const uint8_t *question, size_t len, bool list, each_fn *each,
	       void *arg, int *ret_errnum, struct err *err)
{
	*ret_errnum = 0;
	if (open_to_ask(links, err) < 0)
		return -1;
	if (exchange(links, question, len, list, each, arg, ret_errnum, err) == 0)
		return 0;
	/* Whatever still lies in it belongs to no question of ours. */
	close(links->ask_fd);
	links->ask_fd = -1;
	return -1;
}

static void on_link(const struct nl_message *message, void *arg)
{
	if (message->kind == NL_LINK)
		*(struct nl_link *)arg = message->link;
}

int links_get(struct links *links, int index, struct nl_link *ret, struct err *err)
{
	uint8_t question[NL_QUESTION_BYTES];
	struct nl_link link = {0};
	size_t len = nl_ask_link(question, ++links->seq, index);
	int errnum;

	if (ask(links, question, len, false, on_link, &link, &errnum, err) < 0)
		return -1;
	if (errnum == ENODEV || (errnum == 0 && link.index != index))
		return err_set(err, ERR_NOT_FOUND, errnum, "there is no link %d", index);
	if (errnum)
		return err_errno(err, errnum, "asking netlink for link %d", index);
	*ret = link;
	return 0;
}

struct members {
	struct nl_link *links;
	int master;
	size_t n, max;
};

static void on_member(const struct nl_message *message, void *arg)
{
	struct members *m = arg;

	if (message->kind == NL_LINK && message->link.master == m->master && m->n < m->max)
		m->links[m->n++] = message->link;
}

int links_members(struct links *links, int master, struct nl_link *ret, size_t max, size_t *ret_n,
		  struct err *err)
{
	uint8_t question[NL_QUESTION_BYTES];
	struct members m = {.links = ret, .master = master, .max = max};
	size_t len = nl_ask_links(question, ++links->seq, master);
	int errnum;

	if (ask(links, question, len, true, on_member, &m, &errnum, err) < 0)
		return -1;
	if (errnum)
		return err_errno(err, errnum, "asking netlink for the parts of link %d", master);
	*ret_n = m.n;
	return 0;
}

struct addrs {
	int family, link;
	links_addr_fn *cb;
	void *arg;
};

static void on_addr(const struct nl_message *message, void *arg)
{
	const struct addrs *a = arg;

	if (message->kind == NL_ADDR && message->addr.ip.family == a->family &&
	    (a->link == 0 || message->addr.link == a->link))
		a->cb(&message->addr, a->arg);
}

int links_addrs(struct links *links, int family, int link, links_addr_fn *cb, void *arg,
		struct err *err)
{
	uint8_t question[NL_QUESTION_BYTES];
	struct addrs a = {.family = family, .link = link, .cb = cb, .arg = arg};
	size_t len = nl_ask_addrs(question, ++links->seq, family, link);
	int errnum;

	if (ask(links, question, len, true, on_addr, &a, &errnum, err) < 0)
		return -1;
	if (errnum == ENODEV)
		return err_set(err, ERR_NOT_FOUND, errnum, "there is no link %d", link);
	if (errnum)
		return err_errno(err, errnum, "asking netlink for addresses");
	return 0;
}

static void on_route(const struct nl_message *message, void *arg)
{
	if (message->kind == NL_ROUTE)
		*(struct nl_route *)arg = message->route;
}

/* A route's type, where it leads nowhere, as the errno that others get. */
static int errno_of(unsigned char type)
{
	switch (type) {
	case RTN_BLACKHOLE:
		return EINVAL;
	case RTN_PROHIBIT:
		return EACCES;
	case RTN_UNREACHABLE:
		return EHOSTUNREACH;
	case RTN_UNICAST:
	case RTN_LOCAL:
	case RTN_BROADCAST:
	case RTN_ANYCAST:
	case RTN_MULTICAST:
		return 0;
	default:
		return ENETUNREACH;
	}
}

int links_route(struct links *links, const struct nl_ip *to, int zone, struct nl_route *ret,
		struct err *err)
{
	uint8_t question[NL_QUESTION_BYTES];
	struct nl_route route = {0};
	char text[NODE_ADDR_SIZE];
	size_t len = nl_ask_route(question, ++links->seq, to, zone);
	int errnum;

	if (ask(links, question, len, false, on_route, &route, &errnum, err) < 0)
		return -1;
	nl_ip_format(to, text);
	if (errnum == 0)
		errnum = errno_of(route.type);
	switch (errnum) {
	case 0:
		break;
	case EACCES:
		return err_set(err, ERR_NOT_FOUND, errnum, "the route to %s is prohibited", text);
	case EINVAL:
		return err_set(err, ERR_NOT_FOUND, errnum, "the route to %s is a black hole", text);
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENODEV:
		return err_set(err, ERR_NOT_FOUND, errnum, "there is no route to %s", text);
	default:
		return err_errno(err, errnum, "asking netlink for the route to %s", text);
	}
	if (route.link <= 0)
		return err_set(err, ERR_NOT_FOUND, 0, "the route to %s has no interface", text);
	*ret = route;
	return 0;
}
