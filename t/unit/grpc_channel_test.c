/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channel and server over loopback, with peers that misbehave by script: refusals, GOAWAY, resets,
 * silence, lost connections, deadlines and keep-alive on a frozen clock, cancelling at every step.
 * Uses core, loop, net and grpc.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "grpc/channel.h"
#include "grpc/server.h"
#include "net/conn.h"
#include "net/listen.h"
#include "net/net.h"

static struct loop *loop;
static struct net *net;

/* ---- outcomes ---- */

struct outcome {
	int calls; /* how often it was called back */
	struct err err;
	char reply[64];
};

static void on_reply(void *arg, const struct err *err, struct str reply)
{
	struct outcome *o = arg;

	o->calls++;
	o->err = err ? *err : (struct err)ERR_INIT;
	snprintf(o->reply, sizeof(o->reply), "%.*s", STR_ARG(reply));
}

/* Turns the loop until the outcome is there, at most about five seconds. */
static bool await(const struct outcome *o)
{
	for (int i = 0; i < 500 && o->calls == 0; i++)
		loop_turn(loop, 10);
	return o->calls == 1;
}

static void turns(int n)
{
	while (n-- > 0)
		loop_turn(loop, 2);
}

/* ---- a scripted gRPC server ---- */

enum script {
	ECHO,         /* the message back */
	KEEP,         /* kept until the test finishes it */
	REFUSE_ONCE,  /* RST_STREAM REFUSED_STREAM, then echo */
	RESET_CANCEL, /* RST_STREAM CANCEL */
	CUT,          /* the connection goes */
	FAIL_BUSY,    /* RESOURCE_EXHAUSTED */
};

struct scripted {
	struct grpc_server *server;
	enum script script;
	int requests;
	struct grpc_server_call *kept[64];
	int n_kept;
	char user[32], order[32]; /* … of the messages, their first bytes */
	bool timed;               /* the last one has a deadline */
};

static void on_call(void *arg, struct grpc_server_call *call)
{
	struct scripted *s = arg;

	if (s->requests < (int)sizeof(s->order) - 1 && grpc_server_call_message(call).len > 0)
		s->order[s->requests] = *grpc_server_call_message(call).p;
	s->requests++;
	s->timed = grpc_server_call_metadata(call, "grpc-timeout").len > 0;
	snprintf(s->user, sizeof(s->user), "%.*s",
		 STR_ARG(grpc_server_call_metadata(call, "x-user")));
	switch (s->script) {
	case REFUSE_ONCE:
		s->script = ECHO;
		grpc_server_call_reset(call, H2_REFUSED_STREAM);
		break;
	case RESET_CANCEL:
		grpc_server_call_reset(call, H2_CANCEL);
		break;
	case CUT:
		grpc_server_call_cut(call);
		break;
	case FAIL_BUSY:
		grpc_server_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "no room");
		break;
	case KEEP:
		s->kept[s->n_kept++] = call;
		break;
	case ECHO:
		grpc_server_call_reply(call, grpc_server_call_message(call));
		break;
	}
}

static void serve(struct scripted *s, enum script script, unsigned streams)
{
	struct grpc_server_config config = {.limits = {.streams = streams}};
	struct err err = ERR_INIT;

	*s = (struct scripted){.script = script};
	if (grpc_server_new(net, &config, on_call, s, &s->server, &err) < 0)
		bail_out(err.msg);
}

static void finish_kept(struct scripted *s)
{
	for (int i = 0; i < s->n_kept; i++)
		grpc_server_call_reply(s->kept[i], STR("late"));
	s->n_kept = 0;
}

static void unserve(struct scripted *s)
{
	finish_kept(s);
	grpc_server_free(s->server);
	s->server = NULL;
	turns(2);
}

static struct grpc_channel *open_channel(uint16_t port)
{
	static const struct grpc_metadata metadata[] = {{"x-user", "me"}};
	struct grpc_channel_config config = {.host = "127.0.0.1",
					     .port = port,
					     .metadata = metadata,
					     .n_metadata = 1,
					     .message_bytes = 1000,
					     .max_queued = 20};

	return grpc_channel_new(net, &config);
}

static void call(struct grpc_channel *ch, const char *text, unsigned deadline_ms, struct outcome *o)
{
	*o = (struct outcome){0};
	grpc_call_start(ch, "/a.B/C", str_of(text), deadline_ms, on_reply, o, NULL);
}

static void is_error(const struct outcome *o, enum err_kind kind, int code, bool maybe_applied,
		     const char *what)
{
	is_int(o->calls, 1, "%s: called back once", what);
	is_int(o->err.kind, kind, "%s: kind", what);
	is_int(o->err.code, code, "%s: code (%s)", what, o->err.msg);
	is_int(o->err.maybe_applied, maybe_applied, "%s: maybe applied", what);
}

/* ---- tests ---- */

static void test_calls(void)
{
	struct scripted s;
	struct outcome o, many[50];

	serve(&s, ECHO, 3);
	struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
	is_int(grpc_channel_state(ch), GRPC_CHANNEL_IDLE, "nothing is connected");
	call(ch, "hello", 5000, &o);
	is_int(o.calls, 0, "no call back before start returns");
	ok(await(&o), "an answer");
	is_str(o.reply, "hello", "the message");
	is_str(s.user, "me", "metadata went along");
	ok(s.timed, "a deadline too");
	is_int(grpc_channel_state(ch), GRPC_CHANNEL_READY, "the connection stays");
	for (int i = 0; i < 20; i++)
		call(ch, "x", 5000, &many[i]);
	int answered = 0;
	for (int i = 0; i < 20; i++)
		answered += await(&many[i]) && many[i].err.kind == ERR_NONE;
	is_int(answered, 20, "twenty calls over three streams");
	is_uint(grpc_server_connections(s.server), 1, "and one connection");
	for (int i = 0; i < 50; i++)
		call(ch, "x", 5000, &many[i]);
	int refused = 0;
	for (int i = 0; i < 50; i++)
		refused += await(&many[i]) && many[i].err.kind == ERR_UNAVAILABLE &&
			   !many[i].err.maybe_applied;
	is_int(refused, 30, "beyond twenty that wait, calls are refused");
	s.script = FAIL_BUSY;
	call(ch, "x", 5000, &o);
	await(&o);
	is_error(&o, ERR_BUSY, GRPC_RESOURCE_EXHAUSTED, false, "no room");
	s.script = RESET_CANCEL;
	call(ch, "x", 5000, &o);
	await(&o);
	is_error(&o, ERR_UNAVAILABLE, GRPC_CANCELLED, true, "reset by the server");
	s.script = REFUSE_ONCE;
	call(ch, "x", 5000, &o);
	await(&o);
	is_error(&o, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, false, "stream refused");
	grpc_channel_free(ch);
	unserve(&s);
}

static void test_large(void)
{
	struct scripted s;
	struct outcome o;
	char text[1200];

	memset(text, 'x', sizeof(text));
	serve(&s, ECHO, 0);
	struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
	*(&o) = (struct outcome){0};
	grpc_call_start(ch, "/a.B/C", (struct str){text, 1000}, 5000, on_reply, &o, NULL);
	ok(await(&o) && o.err.kind == ERR_NONE, "a reply of just the limit");
	o = (struct outcome){0};
	grpc_call_start(ch, "/a.B/C", (struct str){text, 1001}, 5000, on_reply, &o, NULL);
	await(&o);
	is_error(&o, ERR_LIMIT, GRPC_RESOURCE_EXHAUSTED, true, "a byte more");
	grpc_channel_free(ch);
	unserve(&s);
}

static void test_lost(void)
{
	struct scripted s;
	struct outcome o, other;

	serve(&s, ECHO, 0);
	uint16_t port = grpc_server_port(s.server);
	struct grpc_channel *ch = open_channel(port);
	call(ch, "x", 5000, &o);
	await(&o);
	s.script = CUT;
	call(ch, "x", 5000, &o);
	await(&o);
	is_error(&o, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, true, "connection cut after the request");
	s.script = ECHO;
	call(ch, "again", 5000, &o);
	ok(await(&o) && strcmp(o.reply, "again") == 0, "the next call connects anew, at once");
	unserve(&s);
	turns(10);
	call(ch, "x", 5000, &o);
	await(&o);
	is_error(&o, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, false, "nobody listens");
	is_int(grpc_channel_state(ch), GRPC_CHANNEL_BACKOFF, "it backs off");
	call(ch, "x", 5000, &o);
	call(ch, "x", 5000, &other);
	is_int(o.calls, 0, "not within the call");
	turns(3);
	is_error(&o, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, false, "while it does");
	is_int(other.calls, 1, "so does another");
	grpc_channel_retry_now(ch);
	is_int(grpc_channel_state(ch), GRPC_CHANNEL_IDLE, "told to, it tries again");
	grpc_channel_free(ch);
}

static void test_goaway(void)
{
	struct scripted s;
	struct outcome first, second;

	serve(&s, KEEP, 0);
	struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
	call(ch, "one", 5000, &first);
	for (int i = 0; i < 100 && s.n_kept < 1; i++)
		loop_turn(loop, 5);
	grpc_server_drain(s.server);
	turns(10);
	s.script = ECHO;
	call(ch, "two", 5000, &second);
	ok(await(&second) && strcmp(second.reply, "two") == 0,
	   "after a GOAWAY a call goes over a new connection");
	is_int(first.calls, 0, "the first one still waits");
	is_uint(grpc_server_connections(s.server), 2, "on the old connection");
	finish_kept(&s);
	ok(await(&first), "and is called back");
	is_str(first.reply, "late", "with its answer (%s)", first.err.msg);
	turns(20);
	is_uint(grpc_server_connections(s.server), 1, "which closes then");
	grpc_channel_free(ch);
	unserve(&s);
}

/* Calls that were on their way when the server said goodbye begin anew in their order, before those
 * that waited all the time. */
static void test_order(void)
{
	struct outcome kept, o[6];
	struct scripted s;

	serve(&s, KEEP, 4);
	struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
	call(ch, "0", 5000, &kept);
	for (int i = 0; i < 100 && s.n_kept < 1; i++)
		loop_turn(loop, 5);
	for (int i = 0; i < 6; i++)
		call(ch, (const char[]){(char)('a' + i), '\0'}, 5000, &o[i]);
	loop_turn(loop, 0); /* three are sent, and not yet read */
	grpc_server_drain(s.server);
	s.script = ECHO;
	for (int i = 0; i < 6; i++)
		ok(await(&o[i]), "an answer: %s", o[i].err.msg);
	is_str(s.order, "0abcdef", "as they were started");
	finish_kept(&s);
	ok(await(&kept), "and the first one's");
	grpc_channel_free(ch);
	unserve(&s);
}

static void test_deadline(void)
{
	struct scripted s;
	struct outcome o;

	serve(&s, ECHO, 1);
	struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
	call(ch, "x", 5000, &o);
	await(&o);
	s.script = KEEP;
	clock_freeze(clock_mono_ms(), clock_wall_ms());
	struct outcome queued;
	call(ch, "x", 2000, &o);
	call(ch, "y", 2000, &queued);
	for (int i = 0; i < 100 && s.n_kept < 1; i++)
		loop_turn(loop, 5);
	clock_advance(1999);
	turns(5);
	is_int(o.calls, 0, "just before the deadline");
	clock_advance(1);
	turns(5);
	is_error(&o, ERR_TIMEOUT, GRPC_DEADLINE_EXCEEDED, true, "at the deadline");
	is_error(&queued, ERR_TIMEOUT, GRPC_DEADLINE_EXCEEDED, false,
		 "one that waited for a stream");
	turns(5);
	ok(grpc_server_call_is_gone(s.kept[0]), "the server knows that nobody waits");
	clock_unfreeze();
	finish_kept(&s);
	s.script = ECHO;
	call(ch, "z", 5000, &o);
	ok(await(&o) && strcmp(o.reply, "z") == 0, "the connection goes on");
	grpc_channel_free(ch);
	unserve(&s);
}

static void test_keepalive(void)
{
	struct scripted s;
	struct outcome o;

	serve(&s, ECHO, 0);
	struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
	call(ch, "x", 5000, &o);
	await(&o);
	s.script = KEEP;
	clock_freeze(clock_mono_ms(), clock_wall_ms());
	call(ch, "x", 600000, &o);
	for (int i = 0; i < 100 && s.n_kept < 1; i++)
		loop_turn(loop, 5);
	for (int i = 0; i < 12; i++) {
		clock_advance(20000);
		turns(5);
	}
	is_int(o.calls, 0, "a server that answers PINGs is waited for");
	finish_kept(&s);
	ok(await(&o) && o.err.kind == ERR_NONE, "until it answers");
	clock_advance(299000);
	turns(5);
	is_uint(grpc_server_connections(s.server), 1, "idle for less than five minutes");
	clock_advance(2000);
	turns(20);
	is_uint(grpc_server_connections(s.server), 0, "an idle connection is closed");
	is_int(grpc_channel_state(ch), GRPC_CHANNEL_IDLE, "and the channel is idle");
	clock_unfreeze();
	grpc_channel_free(ch);
	unserve(&s);
}

/* ---- peers that aren't gRPC servers ---- */

struct raw {
	struct net_listener *listener;
	struct net_conn *conn;
	struct str says; /* at once, NULL: nothing */
	bool closes;
	int accepted;
};

static size_t raw_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	(void)conn;
	(void)p;
	(void)arg;
	return len;
}

static void raw_eof(struct net_conn *conn, void *arg)
{
	struct raw *raw = arg;
	net_conn_close(conn);
	raw->conn = NULL;
}

static void raw_error(struct net_conn *conn, const struct err *why, void *arg)
{
	(void)why;
	raw_eof(conn, arg);
}

static void raw_accept(struct net_listener *l, struct net_conn *conn, void *arg)
{
	static const struct net_conn_handler handler = {raw_data, raw_eof, raw_error, NULL};
	struct raw *raw = arg;
	(void)l;

	raw->accepted++;
	if (raw->conn)
		net_conn_close(raw->conn);
	raw->conn = conn;
	net_conn_set_handler(conn, &handler, raw);
	net_conn_read_start(conn);
	if (raw->says.len > 0)
		net_conn_write(conn, raw->says.p, raw->says.len, NULL);
	if (raw->closes) {
		net_conn_finish(conn, 100);
		raw->conn = NULL;
	}
}

#define SETTINGS "\0\0\0\4\0\0\0\0\0"
static const struct {
	const char *name;
	struct str says;
	bool closes, advance;
	enum err_kind kind;
	int code;
	bool maybe_applied;
	const char *words;
} peers[] = {
	{"closes at once", STR_NULL, true, false, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, false,
	 "closed"},
	{"HTTP/1.1",
	 {"HTTP/1.1 400 Bad Request\r\n\r\n", 28},
	 false,
	 false,
	 ERR_UNAVAILABLE,
	 GRPC_UNAVAILABLE,
	 false,
	 "HTTP/2"},
	{"says nothing", STR_NULL, false, true, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, false,
	 "didn't begin to speak HTTP/2"},
	{"no stream is allowed",
	 {"\0\0\6\4\0\0\0\0\0\0\3\0\0\0\0", 15},
	 false,
	 false,
	 ERR_UNAVAILABLE,
	 GRPC_UNAVAILABLE,
	 false,
	 "lets no call begin"},
	{"greets, then GOAWAY",
	 {SETTINGS "\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\0", 26},
	 true,
	 false,
	 ERR_UNAVAILABLE,
	 GRPC_UNAVAILABLE,
	 false,
	 ""},
	{"greets and is silent",
	 {SETTINGS, 9},
	 false,
	 true,
	 ERR_UNAVAILABLE,
	 GRPC_UNAVAILABLE,
	 true,
	 "doesn't answer a PING"},
	{"breaks HTTP/2 later",
	 {SETTINGS "\0\0\1\0\0\0\0\0\0x", 19},
	 false,
	 false,
	 ERR_UNAVAILABLE,
	 GRPC_UNAVAILABLE,
	 false,
	 ""},
};

static void test_foreign(void)
{
	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
		struct raw raw = {.says = peers[i].says, .closes = peers[i].closes};
		struct net_listen_opts opts = {.addr = "127.0.0.1:0"};
		struct outcome o;
		struct err err = ERR_INIT;
		row_begin("%s", peers[i].name);
		if (net_listener_new(net, &opts, raw_accept, &raw, &raw.listener, &err) < 0)
			bail_out(err.msg);
		struct grpc_channel *ch = open_channel(net_listener_port(raw.listener));
		clock_freeze(clock_mono_ms(), clock_wall_ms());
		call(ch, "x", 120000, &o);
		for (int n = 0; n < 300 && o.calls == 0; n++) {
			loop_turn(loop, 5);
			if (peers[i].advance && n % 10 == 9)
				clock_advance(10000);
		}
		is_int(o.calls, 1, "called back once");
		is_int(o.err.kind, peers[i].kind, "kind (%s)", o.err.msg);
		is_int(o.err.code, peers[i].code, "code");
		is_int(o.err.maybe_applied, peers[i].maybe_applied, "maybe applied");
		has_str(o.err.msg, peers[i].words, "words");
		ok(raw.accepted <= 5, "not connected to in a frenzy (%d)", raw.accepted);
		clock_unfreeze();
		grpc_channel_free(ch);
		net_listener_close(raw.listener);
		net_conn_close(raw.conn);
		turns(3);
	}
	row_end();
}

/* ---- cancelling ---- */

/* After any number of turns, by the operation, by its scope, or with the channel. */
static void test_cancel(void)
{
	for (int how = 0; how < 3; how++) {
		int wrong = 0;
		for (int after = 0; after < 12; after++) {
			struct scripted s;
			struct outcome o = {0};
			struct scope scope;
			serve(&s, after % 2 ? KEEP : ECHO, 0);
			struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
			scope_init(&scope);
			struct op *op = grpc_call_start(ch, "/a.B/C", STR("x"), 5000, on_reply, &o,
							how == 1 ? &scope : NULL);
			for (int i = 0; i < after && o.calls == 0; i++)
				loop_turn(loop, 1);
			int before = o.calls;
			if (how == 0 && before == 0) {
				op_cancel(op);
				op_cancel(op);
			} else if (how == 1) {
				scope_cancel(&scope);
			} else if (how == 2) {
				grpc_channel_free(ch);
				ch = NULL;
			}
			turns(10);
			wrong += o.calls != before;
			if (ch) {
				struct outcome next;
				s.script = ECHO;
				call(ch, "next", 5000, &next);
				wrong += !await(&next) || strcmp(next.reply, "next") != 0;
			}
			grpc_channel_free(ch);
			unserve(&s);
		}
		is_int(wrong, 0,
		       "cancelled %s after any number of turns: no call back, and the "
		       "channel goes on",
		       how == 0   ? "by itself"
		       : how == 1 ? "by its scope"
				  : "with the channel");
	}
}

struct freer {
	struct grpc_channel *ch;
	int calls;
};

static void free_in_callback(void *arg, const struct err *err, struct str reply)
{
	struct freer *f = arg;
	(void)err;
	(void)reply;
	f->calls++;
	grpc_channel_free(f->ch);
}

/* The first that is told frees the channel: the others never hear of it. */
static void test_free_in_callback(void)
{
	static const char *const names[] = {"answered", "connection cut", "nobody listens"};

	for (int kind = 0; kind < 3; kind++) {
		struct scripted s;
		struct outcome o;
		serve(&s, ECHO, 0);
		struct freer f = {.ch = open_channel(grpc_server_port(s.server))};
		if (kind < 2) {
			call(f.ch, "x", 5000, &o);
			await(&o);
		}
		s.script = kind == 1 ? CUT : ECHO;
		if (kind == 2)
			unserve(&s);
		for (int i = 0; i < 5; i++)
			grpc_call_start(f.ch, "/a.B/C", STR("x"), 5000, free_in_callback, &f, NULL);
		for (int i = 0; i < 200 && f.calls == 0; i++)
			loop_turn(loop, 5);
		turns(10);
		is_int(f.calls, 1, "%s: freed in the first of five call backs", names[kind]);
		if (kind != 2)
			unserve(&s);
	}
}

/* One call over a fresh connection, on both ends of which the n-th allocation fails. */
static bool call_once(unsigned long n, struct outcome *o)
{
	struct scripted s;

	serve(&s, ECHO, 0);
	struct grpc_channel *ch = open_channel(grpc_server_port(s.server));
	fault_alloc_fail_at(n);
	call(ch, "x", 100, o);
	bool once = await(o);
	unsigned long count = fault_alloc_count();
	fault_alloc_fail_at(0);
	grpc_channel_free(ch);
	unserve(&s);
	if (n == 0)
		o->calls = (int)count;
	return once;
}

static void test_memory(void)
{
	struct outcome o;
	int answered = 0, wrong = 0;

	ok(call_once(0, &o), "a call with memory enough");
	int total = o.calls;
	for (int n = 1; n <= total; n++) {
		wrong += !call_once((unsigned long)n, &o);
		answered += o.err.kind == ERR_NONE;
	}
	ok(total > 30, "it takes %d allocations that a peer decides", total);
	is_int(wrong, 0, "without the n-th, it's called back once all the same");
	ok(answered < total, "mostly with an error (%d of %d were answered)", answered, total);
}

/* A client that sends all of a request but its last byte. */
static void test_unfinished(void)
{
	const struct h2_header headers[] = {{STR(":method"), STR("POST")},
					    {STR(":scheme"), STR("http")},
					    {STR(":path"), STR("/a.B/C")},
					    {STR(":authority"), STR("localhost")},
					    {STR("content-type"), STR("application/grpc")}};
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct h2_session *client = h2_session_new(H2_CLIENT, NULL);
	struct buf out = BUF_INIT(1 << 20);
	struct h2_event ev = {0};
	struct scripted s;
	char in[4096];
	int32_t stream = 0;
	ssize_t n;

	clock_freeze(clock_mono_ms(), clock_wall_ms());
	serve(&s, ECHO, 0);
	addr.sin_port = htons(grpc_server_port(s.server));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		bail_out("no connection");
	h2_session_request(client, headers, 5, (struct str){"\0\0\0\0\1x", 6}, &stream, NULL);
	h2_session_output(client, &out, out.limit, NULL);
	is_int(send(fd, out.p, out.len - 1, 0), (int64_t)out.len - 1, "sent");
	turns(20);
	clock_advance(29999);
	turns(20);
	while ((n = recv(fd, in, sizeof(in), MSG_DONTWAIT)) > 0)
		h2_session_feed(client, in, (size_t)n, NULL);
	ok(!h2_session_message(client, stream), "it has 30 s");
	clock_advance(1);
	turns(20);
	while ((n = recv(fd, in, sizeof(in), MSG_DONTWAIT)) > 0)
		h2_session_feed(client, in, (size_t)n, NULL);
	while (ev.type != H2_EVENT_MESSAGE && h2_session_next(client, &ev))
		;
	const struct h2_message *m = h2_session_message(client, stream);
	ok(m && str_eqz(h2_header_get(m->headers, m->n_headers, "grpc-status"), "4"),
	   "then its deadline is exceeded");
	is_int(s.requests, 0, "the handler hears nothing of it");
	h2_session_free(client);
	buf_done(&out);
	close(fd);
	unserve(&s);
	clock_unfreeze();
}

int main(void)
{
	struct err err = ERR_INIT;

	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		bail_out(err.msg);
	test_calls();
	test_large();
	test_lost();
	test_goaway();
	test_order();
	test_deadline();
	test_keepalive();
	test_foreign();
	test_cancel();
	test_free_in_callback();
	test_unfinished();
	test_memory();
	net_free(net);
	loop_free(loop);
	return done_testing();
}
