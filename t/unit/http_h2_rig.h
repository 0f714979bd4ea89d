/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rig of the client's tests over HTTP/2: servers that the test plays with sessions of its own,
 * and calls that write down what happens to them. Included once.
 */
#ifndef IPU_T_UNIT_HTTP_H2_RIG_H
#define IPU_T_UNIT_HTTP_H2_RIG_H

#include "http_test.h"

#include "core/clock.h"
#include "h2/transport.h"

#define MAX_PEERS   8
#define MAX_STREAMS 128

/* ---- the other side ---- */

struct peer {
	struct h2_transport t;
	int32_t streams[MAX_STREAMS]; /* whose requests are complete, in their order */
	unsigned n_streams, n_resets, n_pings;
	uint32_t reset_code;
	bool lost;
};

static struct net_listener *listener;
static struct peer peers[MAX_PEERS];
static unsigned n_peers;
static struct h2_limits peer_limits;
static struct test_tls certs;
static struct tls_config *h2_server, *h2_client, *h2_client2;

static struct h2_session *of(unsigned n)
{
	return peers[n].t.session;
}

static void peer_event(void *arg, const struct h2_event *ev)
{
	struct peer *p = arg;

	if (ev->type == H2_EVENT_MESSAGE && p->n_streams < MAX_STREAMS)
		p->streams[p->n_streams++] = ev->stream;
	if (ev->type == H2_EVENT_RESET && ev->by_peer) {
		p->n_resets++;
		p->reset_code = ev->code;
	}
}

static void peer_lost(void *arg, const struct err *why)
{
	struct peer *p = arg;
	(void)why;
	p->lost = true;
}

static void on_accept(struct net_listener *l, struct net_conn *conn, void *arg)
{
	static const struct h2_transport_ops ops = {peer_event, peer_lost};
	(void)l, (void)arg;
	if (n_peers == MAX_PEERS)
		bail_out("too many connections");
	struct peer *p = &peers[n_peers++];
	*p = (struct peer){0};
	h2_transport_start(&p->t, conn, h2_session_new(H2_SERVER, &peer_limits), &ops, p);
}

/* The i-th request (from 0) of the n-th connection. */
static bool got(unsigned n, unsigned i)
{
	return PUMP(n_peers > n && peers[n].n_streams > i);
}

static void send_now(unsigned n)
{
	h2_transport_kick(&peers[n].t);
	settle();
}

static void reply(unsigned n, unsigned i, const char *status, struct str body)
{
	const struct h2_header headers[] = {{STR(":status"), str_of(status)}};
	h2_session_respond(of(n), peers[n].streams[i], headers, 1, body, NULL, 0, NULL);
	send_now(n);
}

static void begin_reply(unsigned n, unsigned i, struct str piece)
{
	const struct h2_header headers[] = {{STR(":status"), STR("200")}};
	h2_session_respond_begin(of(n), peers[n].streams[i], headers, 1, NULL);
	h2_session_write(of(n), peers[n].streams[i], piece, NULL);
	send_now(n);
}

static void write_reply(unsigned n, unsigned i, struct str piece)
{
	h2_session_write(of(n), peers[n].streams[i], piece, NULL);
	send_now(n);
}

static void end_reply(unsigned n, unsigned i)
{
	h2_session_finish(of(n), peers[n].streams[i]);
	send_now(n);
}

/* ---- this side ---- */

static struct http_client *client;
static struct http_origin origin;

enum step { AT_NEVER, AT_HEAD, AT_BODY };

struct rec {
	struct http_call *call;
	struct buf text; /* "<200>body." or "<200>bo!unavailable" */
	size_t body_bytes;
	struct err err;
	unsigned dones;
	enum step cancel_at, pause_at;
	bool counts; /* the body instead of writing it down */
};

#define REC_INIT {.text = BUF_INIT(64 << 20)}

static void rec_step(struct rec *r, enum step step)
{
	if (r->pause_at == step)
		http_call_pause(r->call);
	if (r->cancel_at == step)
		op_cancel(&r->call->op);
}

static void rec_head(void *arg, const struct http_head *head)
{
	struct rec *r = arg;
	buf_printf(&r->text, NULL, "<%d>", head->status);
	rec_step(r, AT_HEAD);
}

static void rec_body(void *arg, struct str piece)
{
	struct rec *r = arg;
	r->body_bytes += piece.len;
	if (!r->counts)
		buf_append_str(&r->text, piece, NULL);
	rec_step(r, AT_BODY);
}

static void rec_done(void *arg, const struct err *err)
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
}

static const struct http_call_handler recorder = {rec_head, rec_body, rec_done};

static struct http_request request(enum http_method method)
{
	return (struct http_request){.method = method, .target = STR("/x?y=z")};
}

/* To the server that there is now; with TLS settings of its own only where req has some. */
static void rec_start(struct rec *r, const struct http_request *req)
{
	struct http_request full = *req;

	full.origin = origin;
	if (req->origin.tls)
		full.origin.tls = req->origin.tls;
	r->call = http_call_start(client, &full, &recorder, r, NULL);
}

static void rec_is(struct rec *r, const char *want, const char *what)
{
	CLEANUP_FREE char *text = xstrndup(r->text.p ? r->text.p : "", r->text.len);
	is_str(text, want, "%s", what);
}

static struct http_client_stats stats(void)
{
	struct http_client_stats s;
	http_client_stats(client, &s);
	return s;
}

static void begin_with(const struct http_client_config *config, struct tls_config *server)
{
	const struct net_listen_opts opts = {.addr = "127.0.0.1:0", .tls = server};
	struct http_client_config c = config ? *config : (struct http_client_config){0};
	struct err err = ERR_INIT;

	n_peers = 0;
	if (net_listener_new(net, &opts, on_accept, NULL, &listener, &err) < 0)
		bail_out(err.msg);
	origin = (struct http_origin){
		.host = "127.0.0.1", .port = net_listener_port(listener), .tls = h2_client};
	c.h2 = &http_h2;
	client = http_client_new(net, &c);
}

static void begin(const struct http_client_config *config)
{
	peer_limits = (struct h2_limits){0};
	begin_with(config, h2_server);
}

static void end(void)
{
	http_client_free(client);
	net_listener_close(listener);
	settle();
	for (unsigned i = 0; i < n_peers; i++)
		h2_transport_end(&peers[i].t, 0);
	settle();
}

/* One answer over the first connection, so that it's a used one. */
static void warm_up(void)
{
	struct rec r = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);
	rec_start(&r, &req);
	got(0, 0);
	reply(0, 0, "200", STR_NULL);
	if (!PUMP(r.dones))
		bail_out("no answer");
	buf_done(&r.text);
}

#endif
