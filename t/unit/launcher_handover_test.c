/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session takes for an offer of another connection, and that nothing else that comes in its
 * place stays open here.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "launcher/handover.h"
#include "launcher/wire.h"
#include "tap.h"

#define MOST 4

static const struct {
	const char *name;
	size_t n_fds, n_bytes;
	bool is_offer;
} rows[] = {
	{"two descriptors and a byte", 2, 1, true},
	{"none", 0, 1, false},
	{"one", 1, 1, false},
	{"more than two", 3, 1, false},
	{"many more", MOST, 1, false},
	{"two, and no byte", 2, 0, false},
	{"one, and no byte", 1, 0, false},
};

static int null_fd, client;

static unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		bail_out("no /proc");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int connect_to(const char *id)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int n = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "ipu-session-%s", id);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    connect(fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0)
		bail_out("no connection");
	return fd;
}

static void send_fds(size_t n_fds, size_t n_bytes)
{
	union {
		char bytes[CMSG_SPACE(MOST * sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	char byte = 0;
	struct iovec iov = {&byte, n_bytes};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds > 0) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		for (size_t i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &null_fd, sizeof(int));
	}
	if (sendmsg(client, &msg, MSG_NOSIGNAL) < 0)
		bail_out("nothing could be sent");
}

static void accept_one(int listener, bool is_offer)
{
	struct err err = ERR_INIT;
	int fds[2] = {-1, -1}, connection = -1;
	int rc = handover_accept(listener, fds, &connection, &err);

	is_int(rc, is_offer ? 0 : -1, "whether it's an offer");
	is_int(err.kind, is_offer ? ERR_NONE : ERR_DENIED, "kind");
	if (rc == 0) {
		ok(fcntl(fds[0], F_GETFD) == FD_CLOEXEC && fcntl(fds[1], F_GETFD) == FD_CLOEXEC,
		   "both are here, and closed by exec");
		close(fds[0]);
		close(fds[1]);
		close(connection);
	}
}

static void test_offers(void)
{
	char id[WIRE_ID_BYTES + 1];
	struct err err = ERR_INIT;
	int listener;

	if (handover_listen(id, &listener, &err) < 0)
		bail_out(err.msg);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned before = open_fds();

		row_begin("%s", rows[i].name);
		client = connect_to(id);
		send_fds(rows[i].n_fds, rows[i].n_bytes);
		accept_one(listener, rows[i].is_offer);
		close(client);
		is_int(open_fds(), before, "descriptors afterwards");
	}
	row_end();
	close(listener);
}

static void offer_now(int signo)
{
	(void)signo;
	send_fds(2, 1);
}

/* What the command has left behind ends: SIGCHLD comes to a session at any moment. */
static void test_signal(void)
{
	struct sigaction action = {.sa_handler = offer_now};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	const struct itimerspec soon = {.it_value = {.tv_nsec = 20000000}};
	char id[WIRE_ID_BYTES + 1];
	struct err err = ERR_INIT;
	timer_t timer;
	int listener;

	row_begin("a signal before the offer");
	if (handover_listen(id, &listener, &err) < 0)
		bail_out(err.msg);
	client = connect_to(id);
	sigaction(SIGUSR1, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
		bail_out("no timer");
	timer_settime(timer, 0, &soon, NULL);
	accept_one(listener, true);
	timer_delete(timer);
	close(client);
	close(listener);
	row_end();
}

int main(void)
{
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	test_offers();
	test_signal();
	close(null_fd);
	return done_testing();
}
