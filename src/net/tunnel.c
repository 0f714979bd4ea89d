/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CONNECT: one request, and the head of one answer. Nothing of the other end may come before we
 * have spoken to it, so a byte behind that head is a fault. Uses core.
 */
#include "tunnel.h"

#include <string.h>

#define MAX_HEAD_BYTES ((size_t)16 << 10)

static void end(struct tunnel *t, const struct err *why)
{
	tunnel_fn *cb = t->cb;

	if (!cb)
		return;
	t->cb = NULL;
	net_conn_read_stop(t->conn);
	net_conn_set_handler(t->conn, NULL, NULL);
	cb(why, t->arg);
}

/* "HTTP/1.1 200 …": 200. 0: it's something else. */
static unsigned status_of(struct str head)
{
	unsigned status = 0;

	if (head.len < 12 || memcmp(head.p, "HTTP/1.", 7) != 0 || head.p[8] != ' ')
		return 0;
	for (size_t i = 9; i < 12; i++) {
		if (head.p[i] < '0' || head.p[i] > '9')
			return 0;
		status = 10 * status + (unsigned)(head.p[i] - '0');
	}
	return status;
}

int tunnel_parse(struct str s, bool *ret_whole, struct err *err)
{
	const char *blank = s.len > 0 ? memmem(s.p, s.len, "\r\n\r\n", 4) : NULL;
	unsigned status = status_of(s);

	*ret_whole = blank != NULL;
	if (!blank)
		return 0;
	if (status / 100 == 2 && blank + 4 == s.p + s.len)
		return 0;
	if (status == 0 || status / 100 == 2)
		return err_set(err, ERR_PROTOCOL, 0, "it answers CONNECT by what isn't HTTP/1.1");
	if (status == 407)
		return err_set(
			err, ERR_DENIED, 0,
			"it wants another user and password (status 407): give them in its URL");
	return err_set(err, status == 403 ? ERR_DENIED : ERR_UNAVAILABLE, 0,
		       "it makes no connection to there (status %u)", status);
}

static size_t on_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	struct tunnel *t = arg;
	struct err err = ERR_INIT;
	bool is_whole;

	(void)conn;
	if (buf_append(&t->head, p, len, &err) < 0) {
		err_wrap(&err, "its answer to CONNECT");
		end(t, &err);
		return len;
	}
	if (tunnel_parse(buf_str(&t->head), &is_whole, &err) < 0)
		end(t, &err);
	else if (is_whole)
		end(t, NULL);
	return len;
}

static void on_eof(struct net_conn *conn, void *arg)
{
	struct err err = ERR_INIT;

	(void)conn;
	err_set(&err, ERR_UNAVAILABLE, 0, "it closed the connection without an answer");
	end(arg, &err);
}

static void on_error(struct net_conn *conn, const struct err *why, void *arg)
{
	(void)conn;
	end(arg, why);
}

void tunnel_start(struct tunnel *t, struct net_conn *conn, const char *target,
		  const struct net_proxy *proxy, tunnel_fn *cb, void *arg)
{
	static const struct net_conn_handler handler = {
		.on_data = on_data, .on_eof = on_eof, .on_error = on_error};
	struct buf request = BUF_SECRET(MAX_HEAD_BYTES);
	bool has_key = proxy->authorization != NULL;
	struct err err = ERR_INIT;

	*t = (struct tunnel){.conn = conn, .head = BUF_INIT(MAX_HEAD_BYTES), .cb = cb, .arg = arg};
	net_conn_set_handler(conn, &handler, t);
	if (buf_printf(&request, &err, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", target,
		       target, has_key ? "Proxy-Authorization: " : "",
		       has_key ? proxy->authorization : "", has_key ? "\r\n" : "") == 0)
		(void)net_conn_write(conn, request.p, request.len, &err);
	/* A new connection has room; what goes wrong from here on is told by on_error. */
	buf_done(&request);
	net_conn_read_start(conn);
}

void tunnel_done(struct tunnel *t)
{
	t->cb = NULL;
	buf_done(&t->head);
}
