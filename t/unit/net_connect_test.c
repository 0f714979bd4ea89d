/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and accepting connections: refused and silent peers, several addresses, deadlines,
 * cancelling at every step, limits, running out of descriptors.
 */
#include "net_test.h"

#include <sys/resource.h>
#include <time.h>

#include "core/log.h"
#include "net_dns.h"

static const struct dns_name zone[] = {
	{"one.test", {"127.0.0.1"}, {NULL}},
	{"two.test", {"127.0.0.2", "127.0.0.3"}, {NULL}},
	{"second.test", {"127.0.0.2", "127.0.0.1"}, {NULL}},
	{"hole.test", {"127.0.0.4", "127.0.0.1"}, {NULL}},
	{"both.test", {"127.0.0.1"}, {"::1"}},
};

static struct end a, b;
static struct net_listener *listener;

static void listen_on(const char *addr, unsigned max_conns)
{
	struct err err = ERR_INIT;
	struct net_listen_opts opts = {.addr = addr, .max_conns = max_conns};
	a = b = (struct end)END_INIT;
	if (net_listener_new(net, &opts, end_accepted, &b, &listener, &err) < 0)
		bail_out(err.msg);
}

static void drop_all(void)
{
	net_listener_close(listener);
	listener = NULL;
	end_done(&a);
	end_done(&b);
	settle();
}

/* A socket that is bound, listens not, and so refuses. */
static int reserve(const char *host, uint16_t port, uint16_t *ret_port)
{
	struct net_addr addr;
	net_addr_parse(host, port, &addr);
	int fd = socket(addr.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, &addr.sa, addr.len) < 0 || getsockname(fd, &addr.sa, &addr.len) < 0)
		bail_out("no socket");
	*ret_port = ntohs(addr.in.sin_port);
	return fd;
}

/* A peer that never answers: it listens, and its backlog is full. */
struct hole {
	int fd, fill[16];
};

static void hole_open(struct hole *h, const char *host, uint16_t port, uint16_t *ret_port)
{
	struct net_addr addr;
	h->fd = reserve(host, port, ret_port);
	net_addr_parse(host, *ret_port, &addr);
	if (listen(h->fd, 0) < 0)
		bail_out("no listen");
	for (size_t i = 0; i < 16; i++) {
		h->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(h->fill[i], &addr.sa, addr.len) < 0 && errno != EINPROGRESS)
			bail_out("no connect");
	}
}

static void hole_close(struct hole *h)
{
	for (size_t i = 0; i < 16; i++)
		close(h->fill[i]);
	close(h->fd);
}

static void test_refused(void)
{
	uint16_t port;
	int fd = reserve("127.0.0.1", 0, &port);
	char want[64];
	a = b = (struct end)END_INIT;
	end_connect(&a, "127.0.0.1", port, NULL, NULL);
	is_uint(a.called_back, 0, "no answer before it returns");
	ok(PUMP(a.called_back > 0), "refused");
	is_int(a.err.kind, ERR_UNAVAILABLE, "which may be better later");
	is_int(a.err.code, ECONNREFUSED, "its errno");
	snprintf(want, sizeof(want), "127.0.0.1:%u: Connection refused", port);
	is_str(a.err.msg, want, "in words");

	a.called_back = 0;
	end_connect(&a, "one.test", port, NULL, NULL);
	ok(PUMP(a.called_back > 0), "refused, by name");
	snprintf(want, sizeof(want), "one.test:%u (127.0.0.1:%u): Connection refused", port, port);
	is_str(a.err.msg, want, "name and address in words");

	a.called_back = 0;
	end_connect(&a, "two.test", port, NULL, NULL);
	ok(PUMP(a.called_back > 0), "both addresses refuse");
	has_str(a.err.msg, "none of 2 addresses answers; the last: two.test:", "in words");

	a.called_back = 0;
	end_connect(&a, "nosuch.test", port, NULL, NULL);
	ok(PUMP(a.called_back > 0), "no such name");
	is_int(a.err.kind, ERR_NOT_FOUND, "%s", a.err.msg);
	close(fd);
}

static void test_addresses(void)
{
	char text[NET_ADDR_TEXT];
	listen_on("127.0.0.1:0", 0);
	uint16_t port = net_listener_port(listener);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	end_connect(&a, "second.test", port, NULL, NULL);
	ok(PUMP(a.conn && b.conn), "one address refuses: the other is taken at once");
	is_str(net_conn_peer(a.conn), text, "which is this one");
	drop_all();

	struct hole hole;
	listen_on("127.0.0.1:0", 0);
	port = net_listener_port(listener);
	hole_open(&hole, "127.0.0.4", port, &port);
	unsigned queries = dns.queries;
	end_connect(&a, "hole.test", port, NULL, NULL);
	ok(PUMP(dns.queries >= queries + 2), "one address is silent");
	settle();
	/* Sorting may put the good one first; then it's there at once. */
	if (!a.conn) {
		clock_advance(249);
		settle();
		ok(!a.conn, "waited for 250 ms");
		clock_advance(1);
	} else {
		skip(1, "the good address came first");
	}
	ok(PUMP(a.conn && b.conn), "then the other is tried beside it");
	hole_close(&hole);
	drop_all();

	int fd6 = socket(AF_INET6, SOCK_STREAM, 0);
	struct net_addr v6;
	net_addr_parse("::1", 0, &v6);
	bool has_v6 = fd6 >= 0 && bind(fd6, &v6.sa, v6.len) == 0;
	if (fd6 >= 0)
		close(fd6);
	listen_on(":0", 0);
	static const char *const hosts[] = {"127.0.0.1", "::1", "both.test"};
	for (size_t i = 0; i < 3; i++) {
		if (strchr(hosts[i], ':') && !has_v6) {
			skip(1, "no IPv6 on loopback");
			continue;
		}
		end_connect(&a, hosts[i], net_listener_port(listener), NULL, NULL);
		ok(PUMP(a.conn && b.conn), "all addresses: %s", hosts[i]);
		end_close(&a);
		end_close(&b);
	}
	drop_all();
}

static void test_deadline(void)
{
	struct hole hole;
	uint16_t port;
	char want[64];
	hole_open(&hole, "127.0.0.1", 0, &port);
	a = b = (struct end)END_INIT;
	end_connect(&a, "127.0.0.1", port, NULL, NULL);
	settle();
	clock_advance(4999);
	settle();
	is_uint(a.called_back, 0, "a silent peer is waited for");
	clock_advance(1);
	settle();
	is_uint(a.called_back, 1, "until the deadline");
	is_int(a.err.kind, ERR_TIMEOUT, "a time-out");
	snprintf(want, sizeof(want), "127.0.0.1:%u: the connection wasn't accepted in time", port);
	is_str(a.err.msg, want, "in words");

	dns.behaviour = SILENT;
	a.called_back = 0;
	end_connect(&a, "one.test", port, NULL, NULL);
	settle();
	clock_advance(5000);
	settle();
	is_uint(a.called_back, 1, "a silent DNS server: the deadline");
	has_str(a.err.msg, "its name wasn't resolved in time", "in words");
	dns.behaviour = ANSWER;
	hole_close(&hole);
}

static void test_cancel(void)
{
	/* After each number of turns, until the connection comes first. */
	unsigned turns;
	for (turns = 0; turns < 50; turns++) {
		struct scope scope;
		listen_on("127.0.0.1:0", 0);
		struct net_connect_opts opts = {.host = "one.test",
						.port = net_listener_port(listener),
						.deadline_ms = clock_mono_ms() + 5000};
		scope_init(&scope);
		struct op *op = net_connect_start(net, &scope, &opts, end_connected, &a);
		for (unsigned i = 0; i < turns && a.called_back == 0; i++)
			loop_turn(loop, 1);
		bool came = a.called_back > 0;
		if (!came) {
			if (turns % 2)
				scope_cancel(&scope);
			op_cancel(op);
			op_cancel(op);
			settle();
			if (a.called_back > 0)
				fail("called back after a cancel (%u turns)", turns);
		}
		drop_all();
		if (came)
			break;
	}
	ok(turns > 1 && turns < 50, "cancelled in each of the %u turns before it's done", turns);
}

/* ---- by a proxy ---- */

static struct net_proxy proxy;

static struct op *connect_by_proxy(uint16_t port)
{
	struct net_connect_opts opts = {.host = "no.such.name",
					.port = 443,
					.proxy = &proxy,
					.deadline_ms = clock_mono_ms() + 5000};

	snprintf(proxy.host, sizeof(proxy.host), "one.test");
	proxy.port = port;
	return net_connect_start(net, NULL, &opts, end_connected, &a);
}

static void say(const char *text)
{
	if (net_conn_write(b.conn, text, strlen(text), NULL) < 0)
		bail_out("the proxy can't speak");
}

static void test_proxy_answers(void)
{
	static char basic[] = "Basic dTpw", much[20000];
	static const struct {
		const char *says; /* NULL: it closes; "": nothing */
		int kind;         /* 0: it's a way */
		const char *why;
	} rows[] = {
		{"HTTP/1.1 200 Connection established\r\n\r\n", 0, NULL},
		{"HTTP/1.0 204 x\r\nVia: y\r\n\r\n", 0, NULL},
		{"HTTP/1.1 407 Proxy Authentication Required\r\n\r\nsorry", ERR_DENIED,
		 "it wants another user and password (status 407): give them in its URL"},
		{"HTTP/1.1 403 Forbidden\r\n\r\n", ERR_DENIED,
		 "it makes no connection to there (status 403)"},
		{"HTTP/1.1 502 \033[31m\r\n\r\n", ERR_UNAVAILABLE,
		 "it makes no connection to there (status 502)"},
		{"HTTP/1.1 200 OK\r\n\r\nx", ERR_PROTOCOL,
		 "it answers CONNECT by what isn't HTTP/1.1"},
		{"SSH-2.0-x\r\n\r\n", ERR_PROTOCOL, "it answers CONNECT by what isn't HTTP/1.1"},
		{"\r\n\r\n", ERR_PROTOCOL, "it answers CONNECT by what isn't HTTP/1.1"},
		{much, ERR_LIMIT, "its answer to CONNECT"},
		{NULL, ERR_UNAVAILABLE, "it closed the connection without an answer"},
		{"", ERR_TIMEOUT, "CONNECT wasn't answered in time"},
	};

	memset(much, 'x', sizeof(much) - 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		static const char asked[] = "CONNECT no.such.name:443 HTTP/1.1\r\n"
					    "Host: no.such.name:443\r\n";

		row_begin("a proxy, %zu", i);
		listen_on("127.0.0.1:0", 0);
		proxy.authorization = i == 1 ? basic : NULL;
		connect_by_proxy(net_listener_port(listener));
		ok(PUMP(b.in.len > 4 && memcmp(b.in.p + b.in.len - 4, "\r\n\r\n", 4) == 0),
		   "it is asked");
		ok(b.in.len > strlen(asked) && memcmp(b.in.p, asked, strlen(asked)) == 0,
		   "for what");
		is_int(memmem(b.in.p, b.in.len, "\r\nProxy-Authorization: Basic dTpw\r\n", 35) !=
			       NULL,
		       i == 1, "who asks");
		is_uint(a.called_back, 0, "its answer is waited for");
		if (!rows[i].says)
			end_close(&b);
		else if (i == 0) /* a byte at a time */
			for (const char *p = rows[i].says; *p; p++) {
				const char one[] = {*p, '\0'};

				say(one);
				settle();
			}
		else
			say(rows[i].says);
		if (rows[i].kind == ERR_TIMEOUT)
			clock_advance(5000);
		ok(PUMP(a.called_back > 0), "over");
		is_int(a.err.kind, rows[i].kind, "how: %s", a.err.msg);
		if (rows[i].why) {
			has_str(a.err.msg, rows[i].why, "why");
			has_str(a.err.msg,
				"no.such.name:443 by the proxy one.test:", "whose fault");
		} else {
			b.in.len = 0;
			say("hello");
			ok(PUMP(a.in.len == 5), "the other end speaks");
			ok(net_conn_write(a.conn, "you", 3, NULL) == 0 && PUMP(b.in.len == 3),
			   "and hears");
		}
		drop_all();
	}
	row_end();
}

static void test_proxy_gone(void)
{
	uint16_t port;
	int fd = reserve("127.0.0.1", 0, &port);
	unsigned turns;

	a = b = (struct end)END_INIT;
	proxy.authorization = NULL;
	connect_by_proxy(port);
	ok(PUMP(a.called_back > 0), "a proxy that isn't there");
	has_str(a.err.msg, "no.such.name:443 by the proxy one.test:", "in words");
	has_str(a.err.msg, "Connection refused", "and why");
	close(fd);

	for (turns = 0; turns < 100; turns++) {
		struct op *op;
		bool came;

		listen_on("127.0.0.1:0", 0);
		op = connect_by_proxy(net_listener_port(listener));
		for (unsigned i = 0; i < turns && a.called_back == 0; i++) {
			loop_turn(loop, 1);
			if (b.conn && b.in.len > 4 && b.in.p[0] == 'C') {
				b.in.len = 0;
				say("HTTP/1.1 200 OK\r\n\r\n");
			}
		}
		came = a.called_back > 0;
		if (!came)
			op_cancel(op);
		settle();
		if (!came && a.called_back > 0)
			fail("called back after a cancel (%u turns)", turns);
		drop_all();
		if (came)
			break;
	}
	ok(turns > 2 && turns < 100, "cancelled in each of the %u turns", turns);
}

static void test_limits(void)
{
	enum { N = 4 };
	struct end ends[N];
	listen_on("127.0.0.1:0", 2);
	for (size_t i = 0; i < N; i++) {
		ends[i] = (struct end)END_INIT;
		end_connect(&ends[i], "127.0.0.1", net_listener_port(listener), NULL, NULL);
	}
	PUMP(ends[N - 1].conn);
	settle();
	/* end_accepted closes all but the first, so they pass one by one. */
	ok(PUMP(b.called_back == N),
	   "those beyond the limit wait, and come when others have ended");
	is_uint(net_listener_conns(listener), 1, "one is alive");
	end_close(&b);
	is_uint(net_listener_conns(listener), 0, "none is alive");
	for (size_t i = 0; i < N; i++)
		end_done(&ends[i]);
	drop_all();

	listen_on("127.0.0.1:0", 1);
	struct end second = END_INIT;
	end_connect(&a, "127.0.0.1", net_listener_port(listener), NULL, NULL);
	ok(PUMP(b.called_back == 1), "the only one that may be alive");
	end_connect(&second, "127.0.0.1", net_listener_port(listener), NULL, NULL);
	PUMP(second.conn);
	settle();
	is_uint(b.called_back, 1, "the next one waits");
	end_close(&b);
	ok(PUMP(b.called_back == 2), "until the first has ended");
	end_done(&second);
	drop_all();
}

static int64_t real_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void test_no_descriptors(void)
{
	struct rlimit old, low;
	listen_on("127.0.0.1:0", 0);
	end_connect(&a, "127.0.0.1", net_listener_port(listener), NULL, NULL);
	int raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct net_addr addr;
	net_addr_parse("127.0.0.1", net_listener_port(listener), &addr);
	PUMP(b.called_back == 1);
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = (rlim_t)raw + 1;
	int top = dup(0);
	if (top >= 0)
		close(top);
	if (top > raw)
		low.rlim_cur = (rlim_t)top;
	if (setrlimit(RLIMIT_NOFILE, &low) < 0 || connect(raw, &addr.sa, addr.len) < 0)
		bail_out("no connect");
	settle();
	is_uint(b.called_back, 1, "without a descriptor nothing is accepted");
	/* Paused: the socket is readable all the time, and yet turns wait for their time. */
	int64_t began_us = real_us();
	loop_turn(loop, 30);
	int64_t took_us = real_us() - began_us;
	ok(took_us > 10000, "and the loop doesn't spin (%lld us)", (long long)took_us);
	struct end c = END_INIT;
	end_connect(&c, "127.0.0.1", net_listener_port(listener), NULL, NULL);
	ok(PUMP(c.called_back > 0), "nor can one connect");
	is_int(c.err.kind, ERR_BUSY, "our own shortage is told as such (%s)", c.err.msg);
	setrlimit(RLIMIT_NOFILE, &old);
	clock_advance(100);
	/* One more, as valgrind drops the one that waited when it says EMFILE. */
	end_connect(&c, "127.0.0.1", net_listener_port(listener), NULL, NULL);
	ok(PUMP(b.called_back >= 2), "accepting goes on when there are some again");
	PUMP(c.conn);
	end_done(&c);
	close(raw);
	drop_all();
}

static void test_listen_errors(void)
{
	static const struct {
		const char *addr;
		enum err_kind kind;
		const char *msg;
	} rows[] = {
		{"127.0.0.1", ERR_INVALID, "a port is missing"},
		{"localhost:80", ERR_INVALID, "\"localhost\" is no numeric address"},
		{"127.0.0.1:99999", ERR_INVALID, "no number up to 65535"},
		{"192.0.2.1:0", ERR_IO, "listening on 192.0.2.1:0: "},
	};
	struct net_listener *l = NULL;
	struct err err = ERR_INIT;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_listen_opts opts = {.addr = rows[i].addr};
		row_begin("%s", rows[i].addr);
		is_int(net_listener_new(net, &opts, end_accepted, &b, &l, &err), -1, "refused");
		is_int(err.kind, rows[i].kind, "kind");
		has_str(err.msg, rows[i].msg, "message");
	}
	row_end();
	listen_on("127.0.0.1:0", 0);
	CLEANUP_FREE char *same = xasprintf("127.0.0.1:%u", net_listener_port(listener));
	struct net_listen_opts taken = {.addr = same};
	is_int(net_listener_new(net, &taken, end_accepted, &b, &l, &err), -1, "a port in use");
	is_int(err.code, EADDRINUSE, "%s", err.msg);
	drop_all();

	struct net_listen_opts given = {.use_fd = true, .fd = dup(1)};
	is_int(net_listener_new(net, &given, end_accepted, &b, &l, &err), -1,
	       "a descriptor that doesn't listen");
	is_int(err.kind, ERR_INVALID, "%s", err.msg);
	close(given.fd);
	uint16_t port;
	a = b = (struct end)END_INIT;
	given.fd = reserve("127.0.0.1", 0, &port);
	if (listen(given.fd, 4) < 0)
		bail_out("no listen");
	is_int(net_listener_new(net, &given, end_accepted, &b, &listener, &err), 0,
	       "a listening socket from outside");
	is_uint(net_listener_port(listener), port, "its port");
	end_connect(&a, "127.0.0.1", port, NULL, NULL);
	ok(PUMP(a.conn && b.conn), "and it accepts");
	net_listener_close(listener);
	net_listener_close(listener);
	struct net_conn *server = b.conn;
	ok(net_conn_write(server, "x", 1, NULL) == 0 && PUMP(a.in.len == 1),
	   "what was accepted lives on after the listener");
	drop_all();
}

static void on_gone(void *arg)
{
	++*(unsigned *)arg;
}

static unsigned left;

static void leave_at_once(struct net_listener *l, struct net_conn *conn, void *arg)
{
	end_accepted(l, conn, arg);
	net_listener_leave(l, on_gone, &left);
}

/* Whoever is accepted may make the listener go, which leaves a socket that is others', too, at
 * once: what waits in it is theirs. */
static void test_left_within(void)
{
	struct net_addr addr;
	struct err err = ERR_INIT;
	uint16_t port;
	char said[400];
	int peers[2], log[2];
	struct net_listen_opts given = {.use_fd = true, .fd = reserve("127.0.0.1", 0, &port)};

	b = (struct end)END_INIT;
	if (listen(given.fd, 4) < 0 || pipe2(log, O_NONBLOCK | O_CLOEXEC) < 0)
		bail_out("no sockets");
	int others = dup(given.fd);
	net_addr_parse("127.0.0.1", port, &addr);
	for (size_t i = 0; i < 2; i++) {
		peers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(peers[i], &addr.sa, addr.len) < 0)
			bail_out("no connection");
	}
	if (net_listener_new(net, &given, leave_at_once, &b, &listener, &err) < 0)
		bail_out(err.msg);
	log_init(LOG_WARN, LOG_TEXT, log[1]);
	ok(PUMP(left), "it's told that the listener has left");
	settle();
	log_init(LOG_INFO, LOG_TEXT, STDERR_FILENO);
	ssize_t n = read(log[0], said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	is_str(said, "", "nothing is wrong");
	is_uint(b.called_back, 1, "one was accepted");
	int fd = accept(others, NULL, NULL);
	ok(fd >= 0, "the other one is there for who listens, too");
	drop_all();
	int fds[] = {fd, others, peers[0], peers[1], log[0], log[1]};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
}

int main(void)
{
	test_begin();
	dns_start(zone, sizeof(zone) / sizeof(zone[0]));
	test_refused();
	test_addresses();
	test_deadline();
	test_cancel();
	test_proxy_answers();
	test_proxy_gone();
	test_limits();
	test_no_descriptors();
	test_listen_errors();
	test_left_within();
	dns_stop();
	test_end();
	return done_testing();
}
