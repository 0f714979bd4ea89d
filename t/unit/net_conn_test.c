/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain connections between two ends: bytes, back-pressure, ends of every kind, time-outs, and
 * closing inside every callback.
 */
#include "net_test.h"
#include "no_memory.h"

#include <netinet/in.h>

static struct end a, b;

/* Two ends of ours. */
static void make_pair(void)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		bail_out("no socketpair");
	a = b = (struct end)END_INIT;
	end_take(&a, net_conn_of_fd(net, fds[0]));
	end_take(&b, net_conn_of_fd(net, fds[1]));
}

/* One end of ours, and a bare descriptor. */
static int make_half_pair(void)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		bail_out("no socketpair");
	a = b = (struct end)END_INIT;
	end_take(&a, net_conn_of_fd(net, fds[0]));
	return fds[1];
}

static void drop_pair(void)
{
	end_done(&a);
	end_done(&b);
	settle();
}

static void must_write(struct end *e, const char *p, size_t len)
{
	struct err err = ERR_INIT;
	if (net_conn_write(e->conn, p, len, &err) < 0)
		bail_out(err.msg);
}

static void test_exchange(void)
{
	make_pair();
	must_write(&a, "one ", 4);
	must_write(&a, "two", 3);
	is_uint(net_conn_queued(a.conn), 7, "queued, not sent yet");
	ok(PUMP(b.in.len == 7), "arrived");
	is_mem(b.in.p, b.in.len, "one two", 7, "whole");
	is_uint(b.data_calls, 1, "what is written in one turn goes out together");
	must_write(&b, "back", 4);
	ok(PUMP(a.in.len == 4), "and the other way");
	is_str(net_conn_peer(a.conn), "unix", "a peer without address");
	ok(!net_conn_is_tls(a.conn) && !net_conn_alpn(a.conn) && !net_conn_tls_version(a.conn) &&
		   !net_conn_peer_subject(a.conn),
	   "nothing of TLS");

	net_conn_shutdown(a.conn);
	net_conn_shutdown(a.conn);
	ok(PUMP(b.eof), "half-closed: the peer sees the end");
	is_uint(b.errors, 0, "which is no error");
	struct err err = ERR_INIT;
	is_int(net_conn_write(a.conn, "x", 1, &err), -1, "no writing after it");
	is_int(err.kind, ERR_UNAVAILABLE, "says so");
	must_write(&b, "still", 5);
	ok(PUMP(a.in.len == 9), "the other direction goes on");
	end_close(&b);
	ok(PUMP(a.eof), "until its end");
	drop_pair();
}

static void test_one_byte_writes(void)
{
	int fd = make_half_pair();
	for (int i = 0; i < 100; i++) {
		char c = (char)('a' + i % 26);
		if (write(fd, &c, 1) != 1)
			bail_out("no write");
		PUMP(a.in.len == (size_t)i + 1);
	}
	is_uint(a.data_calls, 100, "each byte by itself");
	is_mem(a.in.p, 5, "abcde", 5, "in order");
	close(fd);
	drop_pair();
}

static void test_large_both_ways(void)
{
	size_t len = 5 << 20;
	char *bytes = pattern(len);
	make_pair();
	must_write(&a, bytes, len);
	must_write(&b, bytes, len);
	ok(net_conn_is_full(a.conn), "above the high-water mark");
	ok(PUMP(a.in.len == len && b.in.len == len), "5 MiB both ways");
	ok(memcmp(a.in.p, bytes, len) == 0 && memcmp(b.in.p, bytes, len) == 0, "unharmed");
	is_uint(a.drains, 1, "told once that the queue has drained");
	ok(!net_conn_is_full(a.conn), "and it has");
	struct err err = ERR_INIT;
	net_conn_set_marks(a.conn, 1000, 2000, 4000);
	is_int(net_conn_write(a.conn, bytes, 4001, &err), -1, "beyond the hard limit");
	is_int(err.kind, ERR_LIMIT, "says so (%s)", err.msg);
	is_uint(net_conn_queued(a.conn), 0, "and nothing is queued");
	free(bytes);
	drop_pair();
}

static void test_back_pressure(void)
{
	size_t len = 3 << 20;
	char *bytes = pattern(len);
	make_pair();
	/* b echoes and stops reading while its queue is full; a doesn't read at first. */
	b.echo = true;
	net_conn_read_stop(a.conn);
	net_conn_set_timeouts(b.conn, 0, 0);
	must_write(&a, bytes, len);
	for (int i = 0; i < 200; i++)
		loop_turn(loop, 0);
	is_uint(a.in.len, 0, "a stopped end gets nothing");
	ok(net_conn_queued(b.conn) < (1 << 20) && b.in.len < (2 << 20),
	   "its peer stops taking more (%zu taken, %zu queued)", b.in.len, net_conn_queued(b.conn));
	net_conn_read_start(a.conn);
	net_conn_read_start(a.conn);
	ok(PUMP(a.in.len == len), "all comes back once it reads");
	ok(memcmp(a.in.p, bytes, len) == 0, "unharmed");
	ok(b.drains >= 1, "through %u fillings of the queue", b.drains);
	free(bytes);
	drop_pair();
}

static void test_left_over(void)
{
	int fd = make_half_pair();
	a.take = 2;
	if (write(fd, "abcde", 5) != 5)
		bail_out("no write");
	ok(PUMP(a.data_calls == 1), "offered once");
	settle();
	is_uint(a.data_calls, 1, "not again before more comes");
	if (write(fd, "f", 1) != 1)
		bail_out("no write");
	ok(PUMP(a.data_calls == 2), "then together with it");
	is_mem(a.in.p, a.in.len, "abcd", 4, "in order");
	a.stop_after = true;
	net_conn_read_stop(a.conn);
	net_conn_read_start(a.conn);
	settle();
	is_mem(a.in.p, a.in.len, "abcdef", 6, "offered again when reading starts again");
	if (write(fd, "gh", 2) != 2)
		bail_out("no write");
	settle();
	is_uint(a.in.len, 6, "stopped: nothing is read");
	net_conn_read_start(a.conn);
	settle();
	is_mem(a.in.p, a.in.len, "abcdefgh", 8, "started: read without another event");
	close(fd);
	drop_pair();

	fd = make_half_pair();
	char *bytes = pattern(200000);
	a.take = 1;
	int size = 400000;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	ssize_t sent = write(fd, bytes, 200000);
	ok(sent > 150000, "more than can be left over is sent");
	ok(PUMP(a.errors > 0), "ends the connection");
	is_int(a.err.kind, ERR_LIMIT, "over the limit (%s)", a.err.msg);
	free(bytes);
	close(fd);
	drop_pair();
}

static void test_read_budget(void)
{
	/* A peer that sends without end doesn't keep others waiting. */
	int fd = make_half_pair(), fd2;
	struct end first = a;
	net_conn_set_handler(first.conn, &end_handler, &first);
	fd2 = make_half_pair();
	char *bytes = pattern(1 << 20);
	int size = 2 << 20;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (write(fd, bytes, 1 << 20) < (64 << 10) || write(fd2, "x", 1) != 1)
		bail_out("no write");
	size_t most = 0;
	for (int i = 0; i < 50; i++) {
		size_t before = first.in.len;
		ssize_t more = write(fd, bytes, 1 << 20);
		loop_turn(loop, 0);
		if (first.in.len - before > most)
			most = first.in.len - before;
		(void)more;
	}
	ok(most > 0 && most <= 320 << 10, "at most the budget a turn (%zu bytes)", most);
	is_uint(a.in.len, 1, "the other one had its turn");
	free(bytes);
	close(fd);
	close(fd2);
	end_done(&first);
	drop_pair();
}

/* A pair over TCP: resets and lingering need a real one. */
static struct net_listener *tcp_listener;

static void make_tcp_pair(void)
{
	struct err err = ERR_INIT;
	struct net_listen_opts opts = {.addr = "127.0.0.1:0"};
	a = b = (struct end)END_INIT;
	if (net_listener_new(net, &opts, end_accepted, &b, &tcp_listener, &err) < 0)
		bail_out(err.msg);
	end_connect(&a, "127.0.0.1", net_listener_port(tcp_listener), NULL, NULL);
	if (!PUMP(a.conn && b.conn))
		bail_out("no connection");
}

static void drop_tcp_pair(void)
{
	net_listener_close(tcp_listener);
	drop_pair();
}

static void reset_now(struct end *e)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	setsockopt(net_conn_fd(e->conn), SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	end_close(e);
}

static void test_reset(void)
{
	make_tcp_pair();
	char want[NET_ADDR_TEXT];
	snprintf(want, sizeof(want), "127.0.0.1:%u", net_listener_port(tcp_listener));
	is_str(net_conn_peer(a.conn), want, "the peer's address");
	reset_now(&b);
	ok(PUMP(a.errors > 0), "a reset is an error");
	is_int(a.err.kind, ERR_UNAVAILABLE, "which may be better later (%s)", a.err.msg);
	is_int(a.err.code, ECONNRESET, "its errno");
	ok(!a.eof, "and no end of file");
	struct err err = ERR_INIT;
	is_int(net_conn_write(a.conn, "x", 1, &err), -1, "no writing after it");
	net_conn_read_stop(a.conn);
	net_conn_read_start(a.conn);
	net_conn_shutdown(a.conn);
	net_conn_finish(a.conn, 1000);
	a.conn = NULL;
	settle();
	is_uint(a.errors, 1, "told once, whatever is asked of it later");
	drop_tcp_pair();

	/* The peer says why, and closes while we still send: its words are read. */
	make_tcp_pair();
	char *bytes = pattern(4 << 20);
	net_conn_read_stop(b.conn);
	must_write(&b, "413 too large", 13);
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	net_conn_read_stop(a.conn);
	must_write(&a, bytes, 4 << 20);
	settle();
	end_close(&b);
	net_conn_read_start(a.conn);
	ok(PUMP(a.errors > 0 || a.eof), "sending fails");
	is_mem(a.in.p, a.in.len, "413 too large", 13, "what the peer said before is read first");
	free(bytes);
	drop_tcp_pair();
}

static void test_finish(void)
{
	size_t len = 2 << 20;
	char *bytes = pattern(len);
	make_tcp_pair();
	must_write(&a, bytes, len);
	must_write(&b, "the rest of a request", 21);
	net_conn_finish(a.conn, 5000);
	net_conn_finish(a.conn, 5000);
	a.conn = NULL;
	ok(PUMP(b.eof), "finished: the peer sees the end");
	is_uint(b.in.len, len, "after everything that was queued");
	is_uint(b.errors, 0, "and no reset");
	is_uint(a.data_calls + a.errors + a.eof, 0, "the owner hears no more");
	drop_tcp_pair();

	make_tcp_pair();
	net_conn_finish(b.conn, 5000);
	b.conn = NULL;
	ok(PUMP(a.eof), "a peer that stays");
	is_uint(net_listener_conns(tcp_listener), 1, "is waited for");
	clock_advance(5001);
	settle();
	is_uint(net_listener_conns(tcp_listener), 0, "until the lingering is over");
	drop_tcp_pair();

	make_tcp_pair();
	net_conn_finish(b.conn, 50000);
	b.conn = NULL;
	PUMP(a.eof);
	for (int i = 0; i < 40 && net_listener_conns(tcp_listener) > 0; i++) {
		net_conn_write(a.conn, bytes, 100000, NULL);
		PUMP(a.errors > 0 || net_conn_queued(a.conn) == 0);
	}
	is_uint(net_listener_conns(tcp_listener), 0, "a peer that talks on without end is cut off");
	drop_tcp_pair();

	make_tcp_pair();
	net_conn_shutdown(a.conn);
	PUMP(b.eof);
	end_close(&b);
	PUMP(a.eof);
	net_conn_finish(a.conn, 5000);
	a.conn = NULL;
	settle();
	pass("finishing what has ended both ways");
	drop_tcp_pair();
	free(bytes);
}

static void test_timeouts(void)
{
	make_pair();
	net_conn_set_timeouts(a.conn, 1000, 0);
	clock_advance(999);
	settle();
	is_uint(a.errors, 0, "idle, but not for long enough");
	must_write(&b, "x", 1);
	PUMP(a.in.len == 1);
	clock_advance(999);
	settle();
	is_uint(a.errors, 0, "a byte begins the time anew");
	clock_advance(1);
	settle();
	is_uint(a.errors, 1, "idle for too long");
	is_int(a.err.kind, ERR_TIMEOUT, "%s", a.err.msg);
	drop_pair();

	make_pair();
	char *bytes = pattern(4 << 20);
	net_conn_read_stop(b.conn);
	net_conn_set_timeouts(a.conn, 0, 2000);
	clock_advance(10000);
	settle();
	must_write(&a, bytes, 4 << 20);
	settle();
	clock_advance(1999);
	settle();
	is_uint(a.errors, 0, "the peer takes nothing, not for long enough");
	net_conn_read_start(b.conn);
	size_t before = b.in.len;
	PUMP(b.in.len > before);
	net_conn_read_stop(b.conn);
	settle();
	clock_advance(1999);
	settle();
	is_uint(a.errors, 0, "taking some begins the time anew");
	clock_advance(1);
	settle();
	is_int(a.err.kind, ERR_TIMEOUT, "the peer takes nothing for too long (%s)", a.err.msg);
	free(bytes);
	drop_pair();
}

static void test_close_in_callbacks(void)
{
	char *bytes = pattern(1 << 20);
	make_pair();
	a.close_on = CLOSE_ON_DATA;
	must_write(&b, bytes, 1 << 20);
	ok(PUMP(!a.conn), "closed in on_data");
	is_uint(a.data_calls, 1, "and nothing more came");
	ok(PUMP(b.errors > 0 || b.eof), "the peer notices");
	drop_pair();

	make_pair();
	a.close_on = CLOSE_ON_EOF;
	net_conn_shutdown(b.conn);
	ok(PUMP(!a.conn), "closed in on_eof");
	drop_pair();

	make_pair();
	a.close_on = CLOSE_ON_DRAIN;
	must_write(&a, bytes, 1 << 20);
	ok(PUMP(!a.conn), "closed in on_drain");
	drop_pair();

	make_tcp_pair();
	a.close_on = CLOSE_ON_ERROR;
	reset_now(&b);
	ok(PUMP(!a.conn), "closed in on_error");
	drop_tcp_pair();

	make_pair();
	struct net_conn *conn = a.conn;
	net_conn_close(conn);
	net_conn_close(conn);
	net_conn_finish(conn, 1000);
	net_conn_read_start(conn);
	net_conn_shutdown(conn);
	is_int(net_conn_write(conn, "x", 1, NULL), -1, "a closed one takes no output");
	a.conn = NULL;
	net_conn_close(NULL);
	net_conn_finish(NULL, 0);
	settle();
	pass("whatever is asked of a closed one in the same turn");
	drop_pair();
	free(bytes);
}

/* Buffers whose size the peer decides: whichever allocation fails, the connection ends in order. */
static void test_no_memory(void)
{
	unsigned refused = 0, ended = 0;
	struct no_memory m = {0};
	char *bytes = pattern(100000);
	while (no_memory_next(&m)) {
		int fd = make_half_pair();
		a.take = 1000;
		/* The test's own buffer is to have its memory before. */
		if (buf_append(&a.in, bytes, 100000, NULL) < 0)
			bail_out("no memory");
		buf_clear(&a.in);
		no_memory_begin(&m);
		for (int i = 0; i < 4 && !a.errors; i++) {
			struct err err = ERR_INIT;
			if (write(fd, bytes, 2000) != 2000)
				bail_out("no write");
			if (net_conn_write(a.conn, bytes, 100000, &err) < 0) {
				refused++;
				is_int(err.kind, ERR_LIMIT, "failing %lu: %s", m.n, err.msg);
			}
			settle();
		}
		no_memory_end(&m);
		if (a.errors) {
			ended++;
			is_int(a.err.kind, ERR_LIMIT, "failing %lu: %s", m.n, a.err.msg);
		}
		close(fd);
		drop_pair();
	}
	no_memory_ok(&m, 2);
	ok(refused > 0 && ended > 0, "%u writes refused, %u connections ended", refused, ended);
	free(bytes);
}

static void test_net_free_closes_lingering(void)
{
	make_pair();
	net_conn_finish(a.conn, 1000000);
	a.conn = NULL;
	settle();
	end_done(&b);
	/* main frees the net next; the leak checker is the judge. */
}

int main(void)
{
	test_begin();
	test_exchange();
	test_one_byte_writes();
	test_large_both_ways();
	test_back_pressure();
	test_left_over();
	test_read_budget();
	test_reset();
	test_finish();
	test_timeouts();
	test_close_in_callbacks();
	test_no_memory();
	test_net_free_closes_lingering();
	test_end();
	return done_testing();
}
