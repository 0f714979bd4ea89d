/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket's client handshake (RFC 6455, 4.1): connects, asks for the upgrade, looks hard at the
 * answer. One operation; the connection is its own until a struct ws takes it over. Uses core/,
 * loop/, net/.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/json.h"
#include "http/codec.h"
#include "ws_impl.h"

#define DEFAULT_CONNECT_MS   10000
#define DEFAULT_HANDSHAKE_MS 30000
#define MAX_PROTOCOLS        8
#define MAX_INTERIM          16
#define MAX_REQUEST_BYTES    ((size_t)256 << 10)
#define MAX_REFUSAL_BYTES    ((size_t)16 << 10) /* of a refusal's body */
#define SHOWN_BYTES          120                /* of one that is plain text, in a message */
#define SHOWN_PATH_BYTES     100
#define OWN_FIELDS           6

struct connecting {
	struct op op;
	struct loop *loop;
	struct op *connect; /* until there is a connection */
	struct net_conn *conn;
	struct http_codec *codec;
	char *path; /* for messages */
	char *protocols[MAX_PROTOCOLS];
	size_t n_protocols;
	char key[WS_KEY_SIZE];
	struct buf request;
	struct buf body; /* of a refusal */
	unsigned n_interim;
	struct loop_timer timer; /* of the handshake */
	struct loop_work refuse; /* what is wrong with the request is told later */
	struct err refusal;
	struct ws_opts opts;
	ws_connect_fn *cb;
	void *arg;
};

static void connecting_free(void *p)
{
	struct connecting *c = p;
	http_codec_free(c->codec);
	buf_done(&c->request);
	buf_done(&c->body);
	for (size_t i = 0; i < c->n_protocols; i++)
		free(c->protocols[i]);
	free(c->path);
	free(c);
}

/* Lets go of all but the connection, which is the caller's. */
static struct net_conn *detach(struct connecting *c)
{
	struct net_conn *conn = c->conn;

	c->conn = NULL;
	op_cancel(c->connect);
	c->connect = NULL;
	loop_timer_stop(&c->timer);
	loop_work_cancel(&c->refuse);
	loop_reap(c->loop, c, connecting_free);
	return conn;
}

static void on_cancel(struct op *op)
{
	net_conn_close(detach(CONTAINER_OF(op, struct connecting, op)));
}

static void fail(struct connecting *c, const struct err *why)
{
	struct err err = *why;

	err.maybe_applied = c->conn && net_conn_sent_bytes(c->conn) > 0 && err.code < 100;
	if (!op_end(&c->op))
		return;
	net_conn_close(detach(c));
	c->cb(NULL, &err, c->arg);
}

static void fail_with(struct connecting *c, enum err_kind kind, const char *what)
{
	struct err err = ERR_INIT;
	err_set(&err, kind, 0, "GET %.*s: %s", SHOWN_PATH_BYTES, c->path, what);
	fail(c, &err);
}

/* ---- the request ---- */

static bool is_own_field(struct str name)
{
	static const char *const own[] = {
		"host",
		"connection",
		"upgrade",
		"content-length",
		"transfer-encoding",
		"sec-websocket-key",
		"sec-websocket-version",
		"sec-websocket-protocol",
		"sec-websocket-extensions",
	};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (str_ieqz(name, own[i]))
			return true;
	return false;
}

static int take_protocols(struct connecting *c, const char *const *protocols, struct err *err)
{
	for (; protocols && protocols[c->n_protocols]; c->n_protocols++) {
		const char *name = protocols[c->n_protocols];
		if (c->n_protocols == MAX_PROTOCOLS)
			return err_set(err, ERR_INVALID, 0, "more than %d subprotocols",
				       MAX_PROTOCOLS);
		if (!http_is_token(str_of(name)))
			return err_set(err, ERR_INVALID, 0, "a subprotocol that is no token");
		c->protocols[c->n_protocols] = xstrdup(name);
	}
	return 0;
}

static int write_request(struct connecting *c, const struct ws_request *req, struct err *err)
{
	struct http_header *headers = xcalloc(req->n_headers + OWN_FIELDS, sizeof(*headers));
	struct buf offer = BUF_INIT(MAX_REQUEST_BYTES);
	char authority[NET_HOST_SIZE + 16];
	size_t n = 0;
	int rc = 0;

	headers[n++] = (struct http_header)HTTP_H("Connection", "Upgrade");
	headers[n++] = (struct http_header)HTTP_H("Upgrade", "websocket");
	headers[n++] = (struct http_header)HTTP_H("Sec-WebSocket-Version", "13");
	headers[n++] = (struct http_header){STR("Sec-WebSocket-Key"), str_of(c->key)};
	headers[n++] = (struct http_header){
		STR("User-Agent"), str_of(req->user_agent ? req->user_agent : "ipu-operator")};
	for (size_t i = 0; rc == 0 && i < c->n_protocols; i++)
		rc = buf_printf(&offer, err, "%s%s", i > 0 ? ", " : "", c->protocols[i]);
	if (offer.len > 0)
		headers[n++] = (struct http_header){STR("Sec-WebSocket-Protocol"), buf_str(&offer)};
	for (size_t i = 0; rc == 0 && i < req->n_headers; i++) {
		if (is_own_field(req->headers[i].name))
			rc = err_set(err, ERR_INVALID, 0, "the field \"%.*s\" isn't the caller's",
				     STR_ARG(req->headers[i].name));
		headers[n++] = req->headers[i];
	}
	http_authority(req->origin.host, req->origin.port, req->origin.tls, authority,
		       sizeof(authority));
	if (rc == 0)
		rc = http_write_request(&c->request, HTTP_METHOD_GET, req->target, authority,
					headers, n, -1, err);
	free(headers);
	buf_done(&offer);
	return rc;
}

static int prepare(struct connecting *c, const struct ws_request *req, struct err *err)
{
	const struct http_origin *o = &req->origin;

	if (!o->host || !*o->host || strlen(o->host) >= NET_HOST_SIZE)
		return err_set(err, ERR_INVALID, 0, "no host, or one that is too long");
	if (o->port == 0 || o->port > 65535)
		return err_set(err, ERR_INVALID, 0, "%u is no port", o->port);
	if (take_protocols(c, req->protocols, err) < 0)
		return -1;
	return write_request(c, req, err);
}

/* ---- the answer ---- */

/* The one value of a field that must be there once. */
static bool has_only(const struct http_headers *h, const char *name, const char *value)
{
	return http_headers_count(h, name) == 1 && str_eqz(http_headers_get(h, name), value);
}

/* What was agreed on: one of ours, "" for none where none was offered; NULL: not acceptable. */
static const char *agreed_protocol(const struct connecting *c, const struct http_headers *h)
{
	struct str name = http_headers_get(h, "sec-websocket-protocol");

	if (!name.p && c->n_protocols == 0)
		return "";
	if (http_headers_count(h, "sec-websocket-protocol") != 1)
		return NULL;
	for (size_t i = 0; i < c->n_protocols; i++)
		if (str_eqz(name, c->protocols[i]))
			return c->protocols[i];
	return NULL;
}

/* RFC 6455, 4.1, the list behind "the client MUST validate the server's response". */
static const char *check_answer(const struct connecting *c, const struct http_head *head,
				const char **ret_protocol)
{
	const struct http_headers *h = &head->headers;
	char accept[WS_ACCEPT_SIZE];

	ws_accept_of(str_of(c->key), accept);
	if (http_headers_count(h, "upgrade") != 1 ||
	    !str_ieqz(http_headers_get(h, "upgrade"), "websocket"))
		return "101 to another protocol than websocket";
	if (!http_headers_has_token(h, "connection", "upgrade"))
		return "101 without Connection: Upgrade";
	if (!has_only(h, "sec-websocket-accept", accept))
		return "101 with a wrong Sec-WebSocket-Accept";
	if (http_headers_has(h, "sec-websocket-extensions"))
		return "101 with an extension that nobody has offered";
	*ret_protocol = agreed_protocol(c, h);
	if (!*ret_protocol)
		return c->n_protocols > 0 ? "101 with none of the subprotocols that were offered"
					  : "101 with a subprotocol, where none was offered";
	return NULL;
}

static void upgraded(struct connecting *c)
{
	const char *protocol = "";
	const char *wrong = check_answer(c, http_codec_head(c->codec), &protocol);

	if (wrong) {
		fail_with(c, ERR_PROTOCOL, wrong);
		return;
	}
	if (!op_end(&c->op))
		return;
	struct ws *ws = ws_new(c->conn, WS_CLIENT, protocol, &c->opts);
	detach(c);
	c->cb(ws, NULL, c->arg);
}

/* That of the request, by which the server knows us; empty: none. */
static struct str our_token(const struct connecting *c)
{
	static const char field[] = "\r\nAuthorization: Bearer ";
	struct str head = buf_str(&c->request), token = STR_NULL, rest;
	const char *at = memmem(head.p, head.len, field, sizeof(field) - 1);

	if (at) {
		at += sizeof(field) - 1;
		str_cut((struct str){at, head.len - (size_t)(at - head.p)}, '\r', &token, &rest);
	}
	return token;
}

/* Another status than 101: its body is complete, or as much of it as is read. */
static void refused(struct connecting *c)
{
	const struct http_head *head = http_codec_head(c->codec);
	struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	struct str text = str_trim(buf_str(&c->body)), token = our_token(c);

	if (text.len > 0 && json_parse(text, &doc, NULL) == 0)
		text = http_without_token(json_str(json_get(json_root(doc), "message")), token);
	else {
		text = http_without_token(text, token);
		text.len = str_utf8_cut(text, SHOWN_BYTES);
	}
	err_set(&err, http_status_kind(head->status), head->status, "GET %.*s: %d %s%s%.*s",
		SHOWN_PATH_BYTES, c->path, head->status, http_status_reason(head->status),
		text.len > 0 ? ": " : "", STR_ARG(text));
	/* A success that isn't what was asked for. */
	if (err.kind == ERR_NONE)
		err.kind = ERR_PROTOCOL;
	err.retry_after_ms = http_headers_retry_after_ms(&head->headers);
	json_doc_free(doc);
	fail(c, &err);
}

/* One event of the codec's. False when the answer has been dealt with. */
static bool take(struct connecting *c, enum http_codec_event event, struct str piece)
{
	int status = http_codec_head(c->codec)->status;

	switch (event) {
	case HTTP_CODEC_MORE:
		return false;
	case HTTP_CODEC_HEAD:
		if (status == 101) {
			upgraded(c);
			return false;
		}
		if (status < 200 && ++c->n_interim > MAX_INTERIM) {
			fail_with(c, ERR_PROTOCOL, "too many interim responses");
			return false;
		}
		return true;
	case HTTP_CODEC_BODY:
		if (buf_append_str(&c->body, piece, NULL) == 0)
			return true;
		refused(c);
		return false;
	case HTTP_CODEC_END:
		if (status < 200)
			return true;
		refused(c);
		return false;
	}
	return false;
}

static size_t on_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	struct connecting *c = arg;
	struct str s = {p, len};
	bool more = true;

	(void)conn;
	while (more) {
		enum http_codec_event event;
		struct err err = ERR_INIT;
		struct str piece;
		size_t used;

		if (http_codec_feed(c->codec, s, &used, &event, &piece, &err) < 0) {
			fail_with(c, err.kind, err.msg);
			break;
		}
		s.p += used;
		s.len -= used;
		more = take(c, event, piece);
	}
	/* Behind a 101 the rest is frames, which the new owner of the connection reads. */
	return len - s.len;
}

static void on_eof(struct net_conn *conn, void *arg)
{
	struct connecting *c = arg;
	enum http_codec_event event;

	(void)conn;
	if (http_codec_eof(c->codec, &event, NULL) == 0 && event == HTTP_CODEC_END)
		refused(c);
	else
		fail_with(c, ERR_UNAVAILABLE, "the connection was closed without an answer");
}

static void on_error(struct net_conn *conn, const struct err *why, void *arg)
{
	struct connecting *c = arg;
	(void)conn;
	fail_with(c, why->kind == ERR_IO ? ERR_UNAVAILABLE : why->kind, why->msg);
}

/* ---- the operation ---- */

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct connecting *c = arg;
	(void)timer;
	fail_with(c, ERR_TIMEOUT,
		  c->conn ? "no answer to the upgrade in time" : "no connection in time");
}

static void on_refuse(struct loop_work *work, void *arg)
{
	struct connecting *c = arg;
	(void)work;
	fail(c, &c->refusal);
}

static void on_connected(struct net_conn *conn, const struct err *err, void *arg)
{
	static const struct net_conn_handler handler = {
		.on_data = on_data, .on_eof = on_eof, .on_error = on_error};
	struct connecting *c = arg;
	struct err why = ERR_INIT;

	c->connect = NULL;
	if (!conn) {
		fail(c, err);
		return;
	}
	c->conn = conn;
	net_conn_set_handler(conn, &handler, c);
	if (net_conn_write(conn, c->request.p, c->request.len, &why) < 0) {
		fail(c, &why);
		return;
	}
	net_conn_read_start(conn);
}

struct op *ws_connect_start(struct net *net, struct scope *scope, const struct ws_request *req,
			    ws_connect_fn *cb, void *arg)
{
	struct connecting *c = xcalloc(1, sizeof(*c));
	unsigned connect_ms = req->connect_ms ? req->connect_ms : DEFAULT_CONNECT_MS;
	unsigned handshake_ms = req->handshake_ms ? req->handshake_ms : DEFAULT_HANDSHAKE_MS;
	const struct net_connect_opts opts = {
		.host = req->origin.host,
		.port = (uint16_t)req->origin.port,
		.tls = req->origin.tls,
		.server_name = req->origin.server_name,
		.proxy = req->origin.proxy,
		.deadline_ms = clock_mono_ms() +
			       (connect_ms < handshake_ms ? connect_ms : handshake_ms),
	};
	struct str path, query;

	op_begin(&c->op, scope, on_cancel);
	c->loop = net_loop(net);
	c->cb = cb;
	c->arg = arg;
	c->opts = req->opts;
	c->codec = http_codec_new(HTTP_CODEC_RESPONSES, NULL);
	http_codec_expect(c->codec, HTTP_METHOD_GET);
	buf_init_secret(&c->request, MAX_REQUEST_BYTES);
	buf_init(&c->body, MAX_REFUSAL_BYTES);
	loop_timer_init(&c->timer, c->loop, on_timer, c);
	loop_work_init(&c->refuse, c->loop, on_refuse, c);
	/* The query may be long, and hold what isn't for logs. */
	http_target_split(req->target, &path, &query);
	c->path = str_dup(path);
	ws_new_key(c->key);
	if (prepare(c, req, &c->refusal) < 0) {
		loop_work_post(&c->refuse);
		return &c->op;
	}
	loop_timer_start_in(&c->timer, handshake_ms);
	c->connect = net_connect_start(net, NULL, &opts, on_connected, c);
	return &c->op;
}
