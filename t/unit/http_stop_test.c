/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graceful end and connections that the kernel has taken, but the server not yet: none of them
 * is reset. Clients are the kernel's own sockets, so that nothing is accepted unless the loop
 * turns.
 */
#include "http_server_rig.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#define HELLO_REQUEST "GET /hello HTTP/1.1\r\n" H "\r\n"
#define WAITING       20

static void on_stopped(void *arg)
{
	++*(unsigned *)arg;
}

static int try_connect(unsigned to)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)to),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS) {
		int errnum = errno;
		close(fd);
		errno = errnum;
		return -1;
	}
	return fd;
}

/* How connecting ended. */
static int fate(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int why = 0;
	socklen_t len = sizeof(why);
	if (fd < 0)
		return errno;
	PUMP(poll(&p, 1, 0) != 0);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len);
	close(fd);
	return why;
}

/* On the loopback a handshake is done once connect has returned. */
static int open_and_ask(unsigned to, const char *text)
{
	int fd = try_connect(to);
	if (fd < 0 || send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
		bail_out("can't connect to the server under test");
	return fd;
}

struct got {
	int fd;
	char text[4096];
	size_t len;
	int errnum; /* 0: the end */
};

/* Takes what is there. True: it's over. */
static bool take(struct got *g)
{
	ssize_t n = recv(g->fd, g->text + g->len, sizeof(g->text) - 1 - g->len, 0);
	if (n > 0)
		g->len += (size_t)n;
	g->errnum = n < 0 ? errno : 0;
	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* All that comes is want, and then the end; a reset is none. */
static bool takes(int fd, const char *want)
{
	struct got g = {.fd = fd};
	bool ended = PUMP(take(&g));
	close(fd);
	if (g.errnum)
		diag("after %zu bytes: %s", g.len, strerror(g.errnum));
	return ended && g.errnum == 0 && strcmp(g.text, want) == 0;
}

static void test_backlog(void)
{
	int fd[WAITING];
	unsigned stopped = 0, good = 0;
	begin(NULL);
	for (int i = 0; i < WAITING; i++)
		fd[i] = open_and_ask(port, HELLO_REQUEST);
	http_server_stop(server, 5000, on_stopped, &stopped);
	for (int i = 0; i < WAITING; i++)
		good += takes(fd[i], HELLO_CLOSE);
	is_uint(good, WAITING, "all that waited are accepted and answered");
	is_uint(stopped, 0, "the socket stays for those that are in their handshake");
	clock_advance(99);
	settle();
	is_uint(stopped, 0, "for 100 ms");
	clock_advance(1);
	ok(PUMP(stopped == 1), "then it's over");
	int fd_late = try_connect(port);
	is_int(fate(fd_late), ECONNREFUSED, "and others are refused");
	end();
}

/* Nobody comes between the last look and the end. */
static void test_nobody_begins(void)
{
	unsigned stopped = 0;
	begin(NULL);
	http_server_stop(server, 5000, on_stopped, &stopped);
	int fd = try_connect(port);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	is_int(poll(&p, 1, 0), 0, "a connection that would begin now isn't taken");
	settle();
	is_uint(stats().accepted, 0, "nor accepted");
	clock_advance(100);
	ok(PUMP(stopped == 1), "stopped");
	/* The kernel tries again after a second of the real time. */
	is_int(fate(fd), ECONNREFUSED, "then it's refused, not reset");
	end();
}

/* A request whose connection was accepted by the stop comes a little later. */
static void test_late_request(void)
{
	unsigned stopped = 0;
	begin(NULL);
	int quick = open_and_ask(port, "GET /hel"), silent = open_and_ask(port, "");
	http_server_stop(server, 5000, on_stopped, &stopped);
	settle();
	clock_advance(299);
	settle();
	is_int(send(quick, "lo HTTP/1.1\r\n" H "\r\n", strlen("lo HTTP/1.1\r\n" H "\r\n"),
		    MSG_NOSIGNAL) > 0,
	       1, "299 ms later");
	ok(takes(quick, HELLO_CLOSE), "is answered");
	is_uint(stopped, 0, "one without a request is waited for");
	clock_advance(1);
	ok(takes(silent, ""), "until 300 ms: it's closed in order");
	ok(PUMP(stopped == 1), "and that was all");
	end();
}

/* Accepting had to wait, since there were as many connections as there may be. */
static void test_no_room(void)
{
	const struct http_server_config config = {.max_connections = 2};
	int fd[WAITING];
	unsigned stopped = 0, good = 0;
	begin(&config);
	int busy[2] = {open_and_ask(port, "GET /late HTTP/1.1\r\n" H "\r\n"),
		       open_and_ask(port, "GET /late HTTP/1.1\r\n" H "\r\n")};
	PUMP(n_held == 2);
	for (int i = 0; i < WAITING; i++)
		fd[i] = open_and_ask(port, HELLO_REQUEST);
	settle();
	http_server_stop(server, 5000, on_stopped, &stopped);
	clock_advance(100);
	settle();
	is_uint(stats().accepted, 2, "there is no room yet");
	is_uint(stopped, 0, "those who wait aren't given up");
	for (int i = 0; i < 2; i++)
		http_reply(held[i], 200, NULL, NULL, 0, STR("x"));
	for (int i = 0; i < 2; i++)
		takes(busy[i],
		      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx");
	for (int i = 0; i < WAITING; i++)
		good += takes(fd[i], HELLO_CLOSE);
	is_uint(good, WAITING, "all have their answers once there is");
	ok(PUMP(stopped == 1), "then it stops");
	end();

	begin(&config);
	for (int i = 0; i < 3; i++)
		fd[i] = open_and_ask(port, "GET /late HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 2);
	http_server_stop(server, 5000, on_stopped, &stopped);
	clock_advance(100);
	settle();
	clock_advance(4900);
	ok(PUMP(stopped == 2), "it waits for room until the deadline");
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	end();
}

/* The socket is the service manager's, too: what waits is the next process's. */
static void test_given_socket(void)
{
	struct err err = ERR_INIT;
	unsigned given_port = 0, stopped = 0;
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(ours, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(ours, 10) < 0)
		bail_out("listening");
	begin(NULL);
	is_int(http_server_listen_fd(server, dup(ours), NULL, route, NULL, &given_port, &err), 0,
	       "a socket that was given");
	int fd = open_and_ask(given_port, HELLO_REQUEST);
	http_server_stop(server, 5000, on_stopped, &stopped);
	int later = open_and_ask(given_port, HELLO_REQUEST);
	clock_advance(100);
	ok(PUMP(stopped == 1), "stopped");
	is_uint(stats().accepted, 0, "what waits there is left");
	end();
	begin(NULL);
	http_server_listen_fd(server, ours, NULL, route, NULL, NULL, &err);
	http_server_leave(server, true);
	ok(takes(fd, HELLO_CLOSE), "the next one has it");
	ok(takes(later, HELLO_CLOSE), "and what came meanwhile");
	end();
}

static void test_handshakes(void)
{
	struct test_tls tls;
	struct err err = ERR_INIT;
	struct end e = END_INIT;
	unsigned secure = 0, stopped = 0;
	test_tls_init(&tls);
	begin(NULL);
	is_int(http_server_listen(server, "127.0.0.1:0", tls.for_server, route, NULL, &secure,
				  &err),
	       0, "with TLS");
	end_connect(&e, "127.0.0.1", (uint16_t)secure, tls.for_client, NULL);
	int silent = open_and_ask(secure, "");
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	is_uint(stats().accepted, 0, "two have begun their handshake");
	http_server_stop(server, 5000, on_stopped, &stopped);
	clock_advance(100);
	ok(PUMP(e.conn || e.called_back), "its handshake is finished");
	raw_send(&e, HELLO_REQUEST);
	ok(raw_wait_eof(&e), "and the request taken");
	CLEANUP_FREE char *text = raw_text(&e);
	is_str(text, HELLO_CLOSE, "answered");
	end_done(&e);
	settle();
	is_uint(stopped, 0, "another one's is waited for");
	clock_advance(4900);
	ok(PUMP(stopped == 1), "until the deadline");
	close(silent);
	end();
	test_tls_done(&tls);
}

int main(void)
{
	test_begin();
	test_backlog();
	test_nobody_begins();
	test_late_request();
	test_no_room();
	test_given_socket();
	test_handshakes();
	test_end();
	return done_testing();
}
