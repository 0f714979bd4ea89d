/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An abstract Unix socket: no file that a read-only image lacks room for. Its name space is the
 * network's, which Pods of a node may share, so the name is 128 random bits, and whose process the
 * other side is gets looked at. Uses core.
 */
#include "launcher/handover.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/rand.h"
#include "core/str.h"
#include "launcher/wire.h"

#define OFFER_MS 500 /* who connects offers at once */

static socklen_t address(const char *id, struct sockaddr_un *ret)
{
	static const char prefix[] = "ipu-session-";
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(ret->sun_path + 1, prefix, sizeof(prefix) - 1);
	memcpy(ret->sun_path + sizeof(prefix), id, WIRE_ID_BYTES);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(prefix) + WIRE_ID_BYTES);
}

int handover_listen(char *ret_id_z, int *ret_fd, struct err *err)
{
	uint8_t random[WIRE_ID_BYTES / 2];
	struct sockaddr_un addr;
	rand_bytes(random, sizeof(random));
	hex_encode(random, sizeof(random), ret_id_z);
	socklen_t len = address(ret_id_z, &addr);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, errno, "a socket");
	if (bind(fd, (struct sockaddr *)&addr, len) < 0 || listen(fd, 4) < 0) {
		err_errno(err, errno, "a socket");
		close(fd);
		return -1;
	}
	*ret_fd = fd;
	return 0;
}

/* Of this container too: processes of other PID name spaces, which see the socket's name where Pods
 * share a node's network, have no number here. */
static bool is_neighbour(int connection)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       peer.uid == geteuid() && peer.pid > 0;
}

union control {
	char bytes[CMSG_SPACE(2 * sizeof(int))];
	struct cmsghdr align;
};

/* Both descriptors of an offer; whatever else came is closed. */
static int take_descriptors(struct msghdr *msg, bool is_offer, int ret_fds[2])
{
	int fds[2];
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	/* There is room for two, and the system closes those beyond. */
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	if (is_offer && n == 2 && !(msg->msg_flags & MSG_CTRUNC)) {
		memcpy(ret_fds, fds, sizeof(fds));
		return 0;
	}
	while (n > 0)
		close(fds[--n]);
	return -1;
}

static int receive(int connection, int ret_fds[2])
{
	union control control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct pollfd ready = {.fd = connection, .events = POLLIN};
	int is_ready;
	while ((is_ready = poll(&ready, 1, OFFER_MS)) < 0 && errno == EINTR)
		;
	if (is_ready <= 0)
		return -1;
	ssize_t got = recvmsg(connection, &msg, MSG_CMSG_CLOEXEC);
	if (got < 0)
		return -1;
	return take_descriptors(&msg, got == 1, ret_fds);
}

int handover_accept(int listener, int ret_fds[2], int *ret_connection, struct err *err)
{
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (connection < 0)
		return err_errno(err, errno, "a handover");
	if (!is_neighbour(connection) || receive(connection, ret_fds) < 0) {
		close(connection);
		return err_set(err, ERR_DENIED, 0, "a handover that isn't one");
	}
	*ret_connection = connection;
	return 0;
}

static int offer(int fd, struct err *err)
{
	union control control = {.bytes = {0}};
	static const int fds[2] = {STDIN_FILENO, STDOUT_FILENO};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) != 1)
		return err_errno(err, errno, "the session");
	/* The session has its own of them now; the runtime must see the end of them with its. */
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
	return 0;
}

int handover_offer(const char *id, struct err *err)
{
	struct sockaddr_un addr;
	socklen_t len = address(id, &addr);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, errno, "a socket");
	int status = 0;
	if (connect(fd, (struct sockaddr *)&addr, len) < 0)
		status = err_set(err, ERR_NOT_FOUND, errno, "there is no session %s", id);
	else
		status = offer(fd, err);
	close(fd);
	return status;
}
