/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted API server in the test's own process, on its loop: each request gets the script's next
 * answer, whole, in pieces, broken off or reset. It records what was asked. Included once by each
 * test.
 */
#ifndef IPU_T_UNIT_KUBE_SERVER_H
#define IPU_T_UNIT_KUBE_SERVER_H

#include "net_test.h"

#include "kube/client.h"
#include "kube/config_priv.h"

enum srv_end {
	SRV_WHOLE,      /* with a length, and the connection is kept */
	SRV_STREAM,     /* chunked, and more may follow (srv_push) */
	SRV_STREAM_END, /* chunked, and ended in order */
	SRV_CUT,        /* chunked, and the connection closed in the middle */
	SRV_RESET,      /* what is there, then RST */
	SRV_HANG,       /* no answer at all */
};

struct srv_step {
	/* What the request must begin with, "GET /api/v1/pods"; NULL: anything. With any_order also
	 * what it must hold, behind a '|': "POST /api/v1|generateName". */
	const char *expect;
	int status;
	const char *headers; /* whole lines, or NULL */
	const char *body;
	enum srv_end end;
};

#define SRV_CONNS 64

struct srv_conn {
	struct srv *srv;
	struct net_conn *conn;
	struct buf in, out;
	struct loop_work drip;
	enum srv_end end;
	bool streaming, answering;
};

struct srv {
	struct net_listener *listener;
	struct tls_config *tls;
	const struct srv_step *steps;
	size_t n_steps, next;
	size_t piece; /* bytes of a body that are sent at once; 0: all */
	char log[16384];
	unsigned surprises; /* requests that the script didn't expect */
	bool any_order;     /* each request gets the last answer that expects it, others 500 */
	unsigned hits[64];  /* … and how often each was given */
	unsigned accepted, open, most_open;
	struct srv_conn conns[SRV_CONNS];
};

__attribute__((format(printf, 3, 4))) static void add_text(char *to, size_t size, const char *fmt,
							   ...)
{
	size_t used = strlen(to);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(to + used, size - used, fmt, ap);
	va_end(ap);
}

/* Tests make an allocation fail, once; it mustn't be the server's. */
static void srv_append(struct buf *b, const char *p, size_t len)
{
	if (buf_append(b, p, len, NULL) < 0 && buf_append(b, p, len, NULL) < 0)
		bail_out("the test's server has no room");
}

static void srv_drop(struct srv_conn *c, bool reset)
{
	if (!c->conn)
		return;
	if (reset) {
		struct linger hard = {.l_onoff = 1, .l_linger = 0};
		setsockopt(net_conn_fd(c->conn), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	}
	net_conn_close(c->conn);
	c->conn = NULL;
	loop_work_cancel(&c->drip);
	buf_done(&c->in);
	buf_done(&c->out);
	c->srv->open--;
}

static void srv_write(struct srv_conn *c, const char *p, size_t len)
{
	struct err err = ERR_INIT;
	if (net_conn_write(c->conn, p, len, &err) < 0 && err.kind == ERR_LIMIT)
		net_conn_write(c->conn, p, len, NULL);
}

static void srv_finish_answer(struct srv_conn *c)
{
	c->answering = false;
	switch (c->end) {
	case SRV_STREAM_END:
		srv_write(c, "0\r\n\r\n", 5);
		c->streaming = false;
		break;
	case SRV_CUT:
	case SRV_RESET:
		srv_drop(c, c->end == SRV_RESET);
		break;
	default:
		break;
	}
}

/* The next piece of the body, each turn one. */
static void srv_on_drip(struct loop_work *work, void *arg)
{
	struct srv_conn *c = arg;
	size_t n = c->srv->piece > 0 && c->srv->piece < c->out.len ? c->srv->piece : c->out.len;
	char head[32];
	if (n > 0) {
		if (c->streaming) {
			snprintf(head, sizeof(head), "%zx\r\n", n);
			srv_write(c, head, strlen(head));
		}
		srv_write(c, c->out.p, n);
		if (c->streaming)
			srv_write(c, "\r\n", 2);
		buf_consume(&c->out, n);
		loop_work_post(work);
		return;
	}
	/* What was written goes out at the end of the turn; the end comes in a later one. */
	if (net_conn_queued(c->conn) > 0)
		loop_work_post(work);
	else if (c->answering)
		srv_finish_answer(c);
}

static bool srv_expects(const char *expect, const char *line)
{
	const char *bar = strchr(expect, '|');
	size_t len = bar ? (size_t)(bar - expect) : strlen(expect);
	return strncmp(line, expect, len) == 0 && (!bar || strstr(line, bar + 1));
}

static const struct srv_step *srv_pick(struct srv *s)
{
	static const struct srv_step over = {NULL, 500, NULL, "", SRV_WHOLE};
	size_t len = strlen(s->log);
	const char *line = s->log + len;
	while (line > s->log && (line == s->log + len || line[-1] != '\n'))
		line--;
	if (!s->any_order && s->next == s->n_steps) {
		s->surprises++;
		diag("a request after the script's end: %s", line);
		return &over;
	}
	if (!s->any_order)
		return &s->steps[s->next++];
	const struct srv_step *found = &over;
	for (size_t i = s->n_steps; i > 0 && found == &over; i--)
		if (srv_expects(s->steps[i - 1].expect, line))
			found = &s->steps[i - 1];
	if (found != &over && found - s->steps < 64)
		s->hits[found - s->steps]++;
	s->next++;
	s->log[0] = '\0';
	return found;
}

static void srv_answer(struct srv_conn *c)
{
	const struct srv_step *step = srv_pick(c->srv);
	char head[1024];
	if (step->end == SRV_HANG)
		return;
	c->end = step->end;
	c->streaming = step->end != SRV_WHOLE && step->status != 0;
	c->answering = true;
	if (step->status != 0) {
		snprintf(head, sizeof(head),
			 "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%s", step->status,
			 step->headers ? step->headers : "");
		if (c->streaming)
			add_text(head, sizeof(head), "Transfer-Encoding: chunked\r\n\r\n");
		else
			add_text(head, sizeof(head), "Content-Length: %zu\r\n\r\n",
				 step->body ? strlen(step->body) : 0);
		srv_write(c, head, strlen(head));
		if (step->body)
			srv_append(&c->out, step->body, strlen(step->body));
	}
	loop_work_post(&c->drip);
}

static struct str srv_header(struct str head, const char *name)
{
	CLEANUP_FREE char *text = str_dup(head);
	CLEANUP_FREE char *want = xasprintf("\r\n%s: ", name);
	const char *at = strcasestr(text, want);
	if (!at)
		return STR_NULL;
	size_t from = (size_t)(at - text) + strlen(want);
	const char *end = strstr(text + from, "\r\n");
	return (struct str){head.p + from, (size_t)(end - text) - from};
}

static size_t srv_take_request(struct srv_conn *c)
{
	struct srv *s = c->srv;
	const char *end = c->in.len ? memmem(c->in.p, c->in.len, "\r\n\r\n", 4) : NULL;
	int64_t len = 0;
	if (!end)
		return 0;
	struct str head = {c->in.p, (size_t)(end - c->in.p) + 4};
	struct str length = srv_header(head, "Content-Length");
	if (length.len > 0)
		str_to_int(length, 0, 1 << 30, &len, NULL);
	if (c->in.len < head.len + (size_t)len)
		return 0;
	const char *line_end = memmem(head.p, head.len, " HTTP/1.1\r\n", 11);
	struct str line = {head.p, (size_t)(line_end - head.p)};
	struct str auth = srv_header(head, "Authorization"),
		   type = srv_header(head, "Content-Type");
	struct str agent = srv_header(head, "User-Agent");
	add_text(s->log, sizeof(s->log), "%.*s", STR_ARG(line));
	if (auth.len > 0)
		add_text(s->log, sizeof(s->log), " auth=%.*s", STR_ARG(auth));
	if (type.len > 0)
		add_text(s->log, sizeof(s->log), " type=%.*s", STR_ARG(type));
	if (net_conn_peer_subject(c->conn))
		add_text(s->log, sizeof(s->log), " subject=%s", net_conn_peer_subject(c->conn));
	if (len > 0)
		add_text(s->log, sizeof(s->log), " body=%.*s", (int)len, head.p + head.len);
	add_text(s->log, sizeof(s->log), "\n");
	if (!str_has_prefix(agent, STR("ipu-operator/")))
		fail("the User-Agent is %.*s", STR_ARG(agent));
	if (!s->any_order && s->next < s->n_steps && s->steps[s->next].expect &&
	    !str_has_prefix(line, str_of(s->steps[s->next].expect))) {
		s->surprises++;
		diag("step %zu: got %.*s, want %s", s->next, STR_ARG(line),
		     s->steps[s->next].expect);
	}
	return head.len + (size_t)len;
}

static size_t srv_on_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	struct srv_conn *c = arg;
	(void)conn;
	srv_append(&c->in, p, len);
	size_t used = srv_take_request(c);
	if (used > 0) {
		buf_consume(&c->in, used);
		srv_answer(c);
	}
	return len;
}

static void srv_on_eof(struct net_conn *conn, void *arg)
{
	(void)conn;
	srv_drop(arg, false);
}

static void srv_on_error(struct net_conn *conn, const struct err *why, void *arg)
{
	(void)conn;
	(void)why;
	srv_drop(arg, false);
}

static const struct net_conn_handler srv_handler = {
	.on_data = srv_on_data, .on_eof = srv_on_eof, .on_error = srv_on_error};

static void srv_on_accept(struct net_listener *l, struct net_conn *conn, void *arg)
{
	struct srv *s = arg;
	(void)l;
	for (size_t i = 0; i < SRV_CONNS; i++) {
		struct srv_conn *c = &s->conns[i];
		if (c->conn)
			continue;
		*c = (struct srv_conn){.srv = s, .conn = conn};
		buf_init(&c->in, 16 << 20);
		buf_init(&c->out, 64 << 20);
		loop_work_init(&c->drip, loop, srv_on_drip, c);
		net_conn_set_marks(conn, 1 << 20, 4 << 20, 64 << 20);
		net_conn_set_handler(conn, &srv_handler, c);
		net_conn_read_start(conn);
		s->accepted++;
		s->open++;
		if (s->open > s->most_open)
			s->most_open = s->open;
		return;
	}
	bail_out("too many connections to the test's server");
}

/* tls may be NULL; a reference is taken over. */
static struct srv *srv_new(struct tls_config *tls)
{
	struct err err = ERR_INIT;
	struct srv *s = xcalloc(1, sizeof(*s));
	struct net_listen_opts opts = {.addr = "127.0.0.1:0", .tls = tls};
	if (net_listener_new(net, &opts, srv_on_accept, s, &s->listener, &err) < 0)
		bail_out(err.msg);
	s->tls = tls; /* only to know that there is one */
	tls_config_unref(tls);
	return s;
}

static void srv_free(struct srv *s)
{
	net_listener_close(s->listener);
	for (size_t i = 0; i < SRV_CONNS; i++)
		srv_drop(&s->conns[i], false);
	settle();
	free(s);
}

static void srv_script(struct srv *s, const struct srv_step *steps, size_t n, size_t piece)
{
	s->steps = steps;
	s->n_steps = n;
	s->next = 0;
	s->piece = piece;
	s->surprises = 0;
	s->log[0] = '\0';
	memset(s->hits, 0, sizeof(s->hits));
}

/* More on the stream that is open; there is one. */
__attribute__((unused)) static void srv_push(struct srv *s, const char *text, enum srv_end end)
{
	for (size_t i = 0; i < SRV_CONNS; i++) {
		struct srv_conn *c = &s->conns[i];
		if (!c->conn || !c->streaming)
			continue;
		srv_append(&c->out, text, strlen(text));
		c->end = end;
		c->answering = true;
		loop_work_post(&c->drip);
		return;
	}
	bail_out("no stream is open");
}

/* A configuration for it. */
static struct kube_config *srv_config(const struct srv *s, const char *token)
{
	struct err err = ERR_INIT;
	struct kube_config *c = xcalloc(1, sizeof(*c));
	CLEANUP_FREE char *url = xasprintf("http%s://127.0.0.1:%u", s->tls ? "s" : "",
					   net_listener_port(s->listener));
	if (kube_config_set_server(c, url, &err) < 0)
		bail_out(err.msg);
	c->source = xstrdup("the test");
	if (token) {
		c->token.data = xstrdup(token);
		c->token.len = strlen(token);
	}
	return c;
}

__attribute__((unused)) static struct kube_client *client_for(struct kube_config *config,
							      struct kube_exec_helper *helper)
{
	struct err err = ERR_INIT;
	struct kube_client *c = NULL;
	struct kube_client_opts opts = {
		.loop = loop, .net = net, .config = config, .helper = helper};
	if (kube_client_new(&opts, &c, &err) < 0)
		bail_out(err.msg);
	return c;
}

/* The end of what began with these, its connections too. */
__attribute__((unused)) static void close_client_of(struct srv *s, struct kube_client *client,
						    struct kube_config *config)
{
	settle();
	kube_client_free(client);
	kube_config_free(config);
	for (size_t i = 0; i < SRV_CONNS; i++)
		srv_drop(&s->conns[i], false);
	settle();
}

/* Turns the loop and moves the clock, so that back-offs pass without waiting. */
__attribute__((unused)) static void run(unsigned turns, unsigned ms_each)
{
	for (unsigned i = 0; i < turns; i++) {
		loop_turn(loop, 0);
		loop_turn(loop, 0);
		clock_advance(ms_each);
	}
}

#define RUN_UNTIL(cond, ms_each)                                                                   \
	__extension__({                                                                            \
		for (int run_ = 0; run_ < 20000 && !(cond); run_++) {                              \
			loop_turn(loop, run_ % 50 == 49 ? 1 : 0);                                  \
			clock_advance(ms_each);                                                    \
		}                                                                                  \
		(cond);                                                                            \
	})

#endif
