/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's hot-plug messages, and the socket that they come from. Uses core, loop.
 */
#include "node/uevent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KERNEL_GROUP   1    /* group 2 is udev's */
#define MESSAGE_BYTES  8192 /* the kernel's own limit is 2048 and the path */
#define MESSAGE_BUDGET 64   /* a turn */
#define QUEUE_BYTES    (256 << 10)

static enum uevent_action action_of(struct str s)
{
	static const char *const names[] = {
		[UEVENT_ADD] = "add",
		[UEVENT_REMOVE] = "remove",
		[UEVENT_CHANGE] = "change",
		[UEVENT_MOVE] = "move",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (str_eqz(s, names[i]))
			return (enum uevent_action)i;
	}
	return UEVENT_OTHER;
}

int uevent_parse(struct str message, struct uevent *ret, struct err *err)
{
	struct uevent e = {.action = UEVENT_OTHER};
	struct str head, key, value, action = STR_NULL, rest = message;

	if (!str_cut(rest, '\0', &head, &rest) || !memchr(head.p, '@', head.len))
		return err_set(err, ERR_PROTOCOL, 0, "not a hot-plug message of the kernel's");
	while (rest.len > 0) {
		struct str line;

		str_cut(rest, '\0', &line, &rest);
		if (!str_cut(line, '=', &key, &value))
			continue;
		if (str_eqz(key, "ACTION"))
			action = value;
		else if (str_eqz(key, "DEVPATH"))
			e.devpath = value;
		else if (str_eqz(key, "SUBSYSTEM"))
			e.subsystem = value;
		else if (str_eqz(key, "DEVNAME"))
			e.devname = value;
		else if (str_eqz(key, "INTERFACE"))
			e.interface = value;
	}
	if (action.len == 0 || e.devpath.len == 0 || e.subsystem.len == 0)
		return err_set(err, ERR_PROTOCOL, 0,
			       "a hot-plug message without action, path or subsystem");
	e.action = action_of(action);
	e.name = e.devpath;
	for (size_t i = 0; i < e.devpath.len; i++) {
		if (e.devpath.p[i] == '/')
			e.name = (struct str){e.devpath.p + i + 1, e.devpath.len - i - 1};
	}
	*ret = e;
	return 0;
}

/* ---- the socket ---- */

struct uevents {
	struct loop *loop;
	struct loop_io io;
	int fd;
	uevent_fn *cb;
	void *arg;
	bool closed;
	char message[MESSAGE_BYTES];
};

/* Takes one message and hands it on. False: there is none. */
static bool take(struct uevents *u)
{
	struct sockaddr_nl from = {0};
	struct iovec part = {u->message, sizeof(u->message)};
	struct msghdr head = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &part,
		.msg_iovlen = 1,
	};
	ssize_t n = recvmsg(u->fd, &head, MSG_DONTWAIT);
	struct uevent event;

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == ENOBUFS) {
		u->cb(NULL, u->arg);
		return true;
	}
	if (n < 0)
		return false;
	/* Only the kernel's: a process with the rights to send here has a port of its own. */
	if (from.nl_pid != 0 || from.nl_groups != KERNEL_GROUP)
		return true;
	if (head.msg_flags & MSG_TRUNC)
		u->cb(NULL, u->arg);
	else if (uevent_parse((struct str){u->message, (size_t)n}, &event, NULL) == 0)
		u->cb(&event, u->arg);
	return true;
}

static void on_readable(struct loop_io *io, int revents, void *arg)
{
	struct uevents *u = arg;

	(void)io;
	(void)revents;
	for (int i = 0; i < MESSAGE_BUDGET && !u->closed; i++) {
		if (!take(u))
			return;
	}
}

int uevents_new(struct loop *loop, uevent_fn *cb, void *arg, struct uevents **ret, struct err *err)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};
	int bytes = QUEUE_BYTES;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd < 0)
		return err_errno(err, errno, "hot-plug messages");
	/* A hint: with less, messages get lost, which we hear of. */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int errnum = errno;

		close(fd);
		return err_errno(err, errnum, "hot-plug messages");
	}

	struct uevents *u = xcalloc(1, sizeof(*u));

	u->loop = loop;
	u->fd = fd;
	u->cb = cb;
	u->arg = arg;
	loop_io_init(&u->io, loop, fd, on_readable, u);
	loop_io_watch(&u->io, EV_READ);
	*ret = u;
	return 0;
}

void uevents_free(struct uevents *u)
{
	if (!u || u->closed)
		return;
	u->closed = true;
	loop_io_stop(&u->io);
	close(u->fd);
	loop_reap(u->loop, u, free);
}
