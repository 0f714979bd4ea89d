/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rig of the client's tests: a listener whose connections are raw ends for the test to play the
 * server with, and calls that write down what happens to them. Included once by each test.
 */
#ifndef IPU_T_UNIT_HTTP_CLIENT_RIG_H
#define IPU_T_UNIT_HTTP_CLIENT_RIG_H

#include "http_test.h"

#define MAX_ENDS 32

/* ---- the other side ---- */

static struct net_listener *listener;
static struct end ends[MAX_ENDS]; /* the connections that came, in their order */
static unsigned n_ends;

static inline void on_accept(struct net_listener *l, struct net_conn *conn, void *arg)
{
	(void)l, (void)arg;
	if (n_ends == MAX_ENDS)
		bail_out("too many connections");
	ends[n_ends] = (struct end)END_INIT;
	end_take(&ends[n_ends++], conn);
}

static struct http_client *client;
static struct http_origin origin;

static inline void begin(const struct http_client_config *config, struct tls_config *tls)
{
	const struct net_listen_opts opts = {.addr = "127.0.0.1:0", .tls = tls};
	struct err err = ERR_INIT;
	n_ends = 0;
	if (net_listener_new(net, &opts, on_accept, NULL, &listener, &err) < 0)
		bail_out(err.msg);
	origin = (struct http_origin){.host = "127.0.0.1", .port = net_listener_port(listener)};
	client = http_client_new(net, config);
}

static inline void end(void)
{
	http_client_free(client);
	net_listener_close(listener);
	for (unsigned i = 0; i < n_ends; i++)
		end_done(&ends[i]);
	settle();
}

static inline struct http_client_stats stats(void)
{
	struct http_client_stats s;
	http_client_stats(client, &s);
	return s;
}

/* Waits for the n-th connection (from 0) to have sent a whole head. */
static inline bool got_request(unsigned n)
{
	return PUMP(n_ends > n && ends[n].in.len > 4 &&
		    memmem(ends[n].in.p, ends[n].in.len, "\r\n\r\n", 4));
}

static inline void answer(unsigned n, const char *text)
{
	buf_clear(&ends[n].in);
	raw_send(&ends[n], text);
}

/* ---- this side ---- */

enum step { AT_NEVER, AT_HEAD, AT_BODY, AT_DONE };

struct rec {
	struct http_call *call;
	struct op *fetch;
	struct buf text; /* "<200>body." or "<200>bo!unavailable" */
	struct err err;
	unsigned dones;
	enum step cancel_at, pause_at;
};

#define REC_INIT {.text = BUF_INIT(64 << 20)}

static inline void step_done(struct rec *r, enum step step)
{
	if (r->pause_at == step)
		http_call_pause(r->call);
	if (r->cancel_at == step)
		op_cancel(&r->call->op);
}

static inline void rec_head(void *arg, const struct http_head *head)
{
	struct rec *r = arg;
	buf_printf(&r->text, NULL, "<%d>", head->status);
	step_done(r, AT_HEAD);
}

static inline void rec_body(void *arg, struct str piece)
{
	struct rec *r = arg;
	if (buf_append_str(&r->text, piece, NULL) < 0)
		bail_out("the record is full");
	step_done(r, AT_BODY);
}

static inline void rec_done(void *arg, const struct err *err)
{
	struct rec *r = arg;
	r->dones++;
	if (err) {
		r->err = *err;
		buf_printf(&r->text, NULL, "!%s%s", err_kind_name(err->kind),
			   err->maybe_applied ? " maybe" : "");
	} else {
		buf_append(&r->text, ".", 1, NULL);
	}
	step_done(r, AT_DONE);
}

__attribute__((unused)) static const struct http_call_handler recorder = {rec_head, rec_body,
									  rec_done};

static inline struct http_request request(enum http_method method)
{
	return (struct http_request){.origin = origin, .method = method, .target = STR("/x")};
}

static inline void rec_start(struct rec *r, const struct http_request *req)
{
	r->call = http_call_start(client, req, &recorder, r, NULL);
}

static inline char *rec_text(const struct rec *r)
{
	return xstrndup(r->text.p ? r->text.p : "", r->text.len);
}

/* One answer over the connection, so that it's a used one. */
static inline void warm_up(unsigned n)
{
	struct rec r = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);
	rec_start(&r, &req);
	got_request(n);
	answer(n, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	if (!PUMP(r.dones))
		bail_out("no answer");
	buf_done(&r.text);
}

#endif
