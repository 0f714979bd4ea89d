/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges: writing answers, at once or in pieces, and telling the handler of drains and aborts.
 * An exchange belongs to its connection; answered, it stays there until it was sent. Uses core/.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "core/trace.h"
#include "server_impl.h"

#define PROBLEM_BYTES 4096

static struct exchange *of(struct http_exchange *pub)
{
	return CONTAINER_OF(pub, struct exchange, pub);
}

struct exchange *exchange_new(struct sconn *conn)
{
	struct exchange *ex = xcalloc(1, sizeof(*ex));

	list_init(&ex->link);
	ex->conn = conn;
	ex->minor = 1;
	/* One more for the NUL behind the body. */
	buf_init_secret(&ex->body, (size_t)conn->server->config.limits.max_body_bytes + 1);
	buf_init_secret(&ex->out, SIZE_MAX / 2);
	ex->pub.server = conn->server;
	ex->pub.headers = &ex->headers;
	ex->pub.peer = net_conn_peer(conn->net);
	ex->pub.tls = net_conn_is_tls(conn->net);
	return ex;
}

void exchange_free(void *p)
{
	struct exchange *ex = p;
	http_headers_done(&ex->headers);
	free(ex->target);
	buf_done(&ex->body);
	buf_done(&ex->out);
	trace_unref(ex->trace);
	for (size_t i = 0; i < ex->n_params; i++)
		free(ex->params[i].value);
	free(ex);
}

/* ---- requests ---- */

static bool has_good_escapes(struct str s)
{
	static const char hex[] = "0123456789abcdefABCDEF";
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] != '%')
			continue;
		if (i + 2 >= s.len || !strchr(hex, s.p[i + 1]) || !strchr(hex, s.p[i + 2]))
			return false;
		if (s.p[i + 1] == '0' && s.p[i + 2] == '0')
			return false;
	}
	return true;
}

/* RFC 9112, 3.2: origin form, absolute form (its authority is ours by definition), or "*". */
static int take_target(struct exchange *ex, struct str target)
{
	struct str t;

	ex->target = xstrndup(target.p, target.len);
	ex->pub.target = t = (struct str){ex->target, target.len};
	if (t.len > 7 && (str_ieqz((struct str){t.p, 7}, "http://") ||
			  (t.len > 8 && str_ieqz((struct str){t.p, 8}, "https://")))) {
		const char *from = strstr(t.p, "//") + 2;
		size_t skip = (size_t)(from - t.p) + strcspn(from, "/?");
		t = (struct str){t.p + skip, t.len - skip};
	}
	http_target_split(t, &ex->pub.path, &ex->pub.query);
	if (ex->pub.path.len == 0 && t.len < target.len)
		ex->pub.path = STR("/");
	if (str_eqz(ex->pub.path, "*"))
		return ex->pub.method == HTTP_METHOD_OPTIONS ? 0 : -1;
	return ex->pub.path.len > 0 && ex->pub.path.p[0] == '/' && has_good_escapes(ex->pub.path)
		       ? 0
		       : -1;
}

/* Bodies are taken as they are: one that would have to be unpacked first may grow without a bound.
 */
static bool is_encoded(const struct http_headers *headers)
{
	struct str coding = http_headers_get(headers, "content-encoding");

	return (coding.len > 0 && !str_ieqz(coding, "identity")) ||
	       http_headers_count(headers, "content-encoding") > 1;
}

const char *exchange_check(struct exchange *ex, struct str target, int *ret_status)
{
	bool bad_target = take_target(ex, target) < 0;

	*ret_status = ex->pub.method == HTTP_METHOD_OTHER ? 501 : bad_target ? 400 : 415;
	if (ex->pub.method == HTTP_METHOD_OTHER)
		return "a method that this server doesn't know";
	if (bad_target)
		return "bad target";
	return is_encoded(&ex->headers) ? "the body is encoded: send it as it is" : NULL;
}

void http_exchange_drop_body(struct http_exchange *pub)
{
	struct exchange *ex = of(pub);

	buf_done(&ex->body);
	pub->body = STR_NULL;
	pub->server->bodies.bytes -= ex->counted;
	ex->counted = 0;
}

void exchange_abort(struct exchange *ex)
{
	if (ex->ended)
		return;
	ex->ended = true;
	if (ex->dispatched && ex->on_abort)
		ex->on_abort(&ex->pub, ex->on_abort_arg);
}

void http_exchange_on_abort(struct http_exchange *pub, http_exchange_fn *fn, void *arg)
{
	of(pub)->on_abort = fn;
	of(pub)->on_abort_arg = arg;
}

void http_exchange_on_drain(struct http_exchange *pub, http_exchange_fn *fn, void *arg)
{
	of(pub)->on_drain = fn;
	of(pub)->on_drain_arg = arg;
}

/* ---- heads ---- */

static bool is_last(const struct exchange *ex)
{
	const struct sconn *conn = ex->conn;
	return ex->link.next == &conn->exchanges && !conn->reading &&
	       (conn->last_read || http_codec_idle(conn->codec));
}

static bool has_no_body(const struct exchange *ex, int status)
{
	return ex->pub.method == HTTP_METHOD_HEAD || status < 200 || status == 204 || status == 304;
}

struct answer {
	int status;
	const char *content_type;
	const struct http_header *headers;
	size_t n_headers;
	enum http_framing framing;
	size_t length;
};

/* Decides whether the connection ends behind the answer, and writes the head. */
static int write_head(struct exchange *ex, const struct answer *a, struct err *err)
{
	const struct http_server *server = ex->conn->server;
	struct http_header *headers = xcalloc(a->n_headers + 3, sizeof(*headers));
	char date[HTTP_DATE_SIZE];
	enum http_framing framing = a->framing;
	size_t n = 0;

	if (a->status < 200 || a->status == 204 || a->status == 304 ||
	    (ex->conn->h2 && framing == HTTP_FRAMING_CHUNKED))
		framing = HTTP_FRAMING_NONE;
	ex->closes = !ex->conn->h2 && is_last(ex) &&
		     (!ex->keep_alive || server->leaving || ex->conn->leaving ||
		      ex->conn->last_read);
	if (framing == HTTP_FRAMING_CLOSE)
		ex->closes = true;
	if (ex->closes)
		ex->conn->last_read = true;
	if (a->content_type)
		headers[n++] = (struct http_header){STR("Content-Type"), str_of(a->content_type)};
	if (server->config.date) {
		http_date_format(clock_wall_ms(), date);
		headers[n++] = (struct http_header){STR("Date"), str_of(date)};
	}
	if (ex->minor == 0 && !ex->closes)
		headers[n++] = (struct http_header){STR("Connection"), STR("keep-alive")};
	for (size_t i = 0; i < a->n_headers; i++)
		headers[n++] = a->headers[i];
	int rc = http_write_response(&ex->out, a->status, headers, n, framing, a->length,
				     !ex->closes, err);
	ex->head_bytes = ex->out.len;
	free(headers);
	return rc;
}

/* The handler's own mistake, or its data's: the peer gets a plain 500; where there's no memory for
 * the answer, 503. */
static void write_fallback(struct exchange *ex, const struct err *why)
{
	const struct answer a = {.status = err_is_no_memory(why) ? 503 : 500,
				 .framing = HTTP_FRAMING_LENGTH};

	log_error(ex->conn->server->name, ex->pub.peer, "%s %.*s: bad answer: %s",
		  http_method_name(ex->pub.method), STR_ARG(ex->pub.path), why->msg);
	ex->status = a.status;
	ex->body_bytes = 0;
	write_head(ex, &a, NULL);
}

static void log_answer(const struct exchange *ex, int status)
{
	log_trace(ex->conn->server->name, ex->pub.peer, "%s %.*s: %d",
		  http_method_name(ex->pub.method), STR_ARG(ex->pub.path), status);
}

static void tell_answered(const struct exchange *ex)
{
	const struct http_server_config *config = &ex->conn->server->config;
	const struct http_answered answered = {
		.ex = &ex->pub,
		.handler_arg = ex->conn->handler_arg,
		.status = ex->status,
		.body_bytes = ex->body_bytes,
		.took_us = ex->began_us ? clock_mono_us() - ex->began_us : 0,
	};

	if (config->on_answered) {
		struct trace *before = trace_enter(ex->trace);
		config->on_answered(&answered, config->on_answered_arg);
		trace_leave(before);
	}
}

static void flush(struct exchange *ex)
{
	if (ex->conn->h2)
		sh2_flush(ex);
	else
		sconn_flush(ex->conn);
}

/* Its part is done; the connection sends it when its turn comes. */
static void end(struct exchange *ex)
{
	ex->ended = true;
	tell_answered(ex);
	flush(ex);
}

/* No handler may answer what has gone; that it's checked keeps a mistake from becoming a crash as
 * long as the memory is there. */
static bool is_open(const struct exchange *ex)
{
	return !ex->ended && ex->conn->net;
}

/* ---- answers at once ---- */

void http_reply(struct http_exchange *pub, int status, const char *content_type,
		const struct http_header *headers, size_t n_headers, struct str body)
{
	struct exchange *ex = of(pub);
	struct err err = ERR_INIT;
	const struct answer a = {status,    content_type,        headers,
				 n_headers, HTTP_FRAMING_LENGTH, body.len};

	if (!is_open(ex) || ex->begun)
		return;
	ex->begun = true;
	ex->status = status;
	ex->body_bytes = has_no_body(ex, status) ? 0 : body.len;
	log_answer(ex, status);
	if (write_head(ex, &a, &err) < 0) {
		write_fallback(ex, &err);
	} else if (!has_no_body(ex, status) && buf_append_str(&ex->out, body, &err) < 0) {
		buf_clear(&ex->out);
		write_fallback(ex, &err);
	}
	end(ex);
}

static void reply_problem(struct exchange *ex, int status, const struct http_header *headers,
			  size_t n_headers, const char *detail)
{
	struct buf text = BUF_INIT(PROBLEM_BYTES);
	struct err err = ERR_INIT;

	int rc = buf_printf(&text, &err, "{\"status\":%d,\"title\":", status);
	if (rc == 0)
		rc = json_write_str(str_of(http_status_reason(status)), &text, &err);
	size_t before = text.len;
	if (rc == 0 && detail &&
	    (buf_append(&text, ",\"detail\":", 10, &err) < 0 ||
	     json_write_str(str_of(detail), &text, &err) < 0))
		text.len = before; /* no UTF-8, or too long: the status says enough */
	if (rc == 0)
		rc = buf_append(&text, "}\n", 2, &err);
	http_reply(&ex->pub, status, "application/problem+json", headers, n_headers,
		   rc == 0 ? buf_str(&text) : STR("{}"));
	buf_done(&text);
}

void http_reply_problem(struct http_exchange *pub, int status, const char *fmt, ...)
{
	char detail[1024];
	va_list ap;

	if (fmt) {
		va_start(ap, fmt);
		vsnprintf(detail, sizeof(detail), fmt, ap);
		va_end(ap);
	}
	reply_problem(of(pub), status, NULL, 0, fmt ? detail : NULL);
}

void http_reply_unauthorized(struct http_exchange *pub, const char *realm, bool bad,
			     const char *detail)
{
	char value[160];
	struct http_header field = {STR("WWW-Authenticate"), STR_NULL};

	snprintf(value, sizeof(value), "Bearer realm=\"%s\"%s", realm,
		 bad ? ", error=\"invalid_token\"" : "");
	field.value = str_of(value);
	reply_problem(of(pub), 401, &field, 1, detail);
}

static int status_of_kind(enum err_kind kind)
{
	switch (kind) {
	case ERR_INVALID:
		return 400;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_EXISTS:
	case ERR_CONFLICT:
		return 409;
	case ERR_GONE:
		return 410;
	case ERR_DENIED:
		return 403;
	case ERR_LIMIT:
		return 413;
	case ERR_BUSY:
		return 429;
	case ERR_UNAVAILABLE:
		return 503;
	case ERR_TIMEOUT:
		return 504;
	case ERR_PROTOCOL:
		return 502;
	case ERR_UNSUPPORTED:
		return 501;
	default:
		return 500;
	}
}

void http_reply_err(struct http_exchange *pub, const struct err *err)
{
	char seconds[16];
	struct http_header header = {STR("Retry-After"), STR_NULL};

	snprintf(seconds, sizeof(seconds), "%u", (err->retry_after_ms + 999U) / 1000U);
	header.value = str_of(seconds);
	reply_problem(of(pub), err_is_no_memory(err) ? 503 : status_of_kind(err->kind), &header,
		      err->retry_after_ms > 0, err->msg);
}

void exchange_refuse(struct exchange *ex, int status, const char *detail)
{
	ex->conn->server->stats.refused++;
	log_debug(ex->conn->server->name, ex->pub.peer, "refused with %d: %s", status, detail);
	ex->keep_alive = false;
	reply_problem(ex, status, NULL, 0, detail);
}

void exchange_continue(struct exchange *ex)
{
	/* Only where nothing is before it: behind other answers it would come too late to help, and
	 * a client doesn't wait for ever (RFC 9110, 10.1.1). */
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct err err = ERR_INIT;
	if (list_empty(&ex->conn->exchanges))
		net_conn_write(ex->conn->net, text, sizeof(text) - 1, &err);
}

int exchange_take_conn(struct http_exchange *pub, int status, struct net_conn **ret,
		       struct err *err)
{
	struct exchange *ex = of(pub);
	struct sconn *conn = ex->conn;

	if (!is_open(ex) || ex->begun || conn->broken || conn->closing)
		return err_set(err, ERR_UNAVAILABLE, 503, "the connection is closing");
	if (ex->minor == 0 || conn->h2)
		return err_set(err, ERR_INVALID, 400, "%s has no upgrade",
			       conn->h2 ? "HTTP/2" : "HTTP/1.0");
	if (conn->n_exchanges != 1 || conn->reading || !http_codec_idle(conn->codec))
		return err_set(err, ERR_INVALID, 400,
			       "other requests are on the connection that is to be upgraded");
	ex->begun = true;
	ex->status = status;
	log_answer(ex, status);
	tell_answered(ex);
	*ret = sconn_release(conn);
	return 0;
}

/* ---- answers in pieces ---- */

void http_reply_begin(struct http_exchange *pub, int status, const char *content_type,
		      const struct http_header *headers, size_t n_headers)
{
	struct exchange *ex = of(pub);
	struct err err = ERR_INIT;
	const struct answer a = {status,
				 content_type,
				 headers,
				 n_headers,
				 ex->minor > 0 ? HTTP_FRAMING_CHUNKED : HTTP_FRAMING_CLOSE,
				 0};

	if (!is_open(ex) || ex->begun)
		return;
	ex->begun = true;
	ex->status = status;
	log_answer(ex, status);
	if (write_head(ex, &a, &err) < 0) {
		/* The pieces have nowhere to go; the handler learns of it as of a peer that left.
		 */
		log_error(ex->conn->server->name, ex->pub.peer, "%s %.*s: bad answer: %s",
			  http_method_name(pub->method), STR_ARG(pub->path), err.msg);
		ex->conn->broken = true;
		loop_work_post(&ex->conn->step);
		return;
	}
	ex->no_body = has_no_body(ex, status);
	ex->chunked = ex->minor > 0 && !ex->no_body && !ex->conn->h2;
	flush(ex);
}

static bool is_first(const struct exchange *ex)
{
	return ex->conn->exchanges.next == &ex->link;
}

/* What of the answer waits for the peer, or for its turn. */
static size_t waiting(const struct exchange *ex)
{
	if (ex->conn->h2)
		return ex->out.len + sh2_waiting(ex);
	return ex->out.len + (is_first(ex) ? net_conn_queued(ex->conn->net) : 0);
}

void http_exchange_set_high_water(struct http_exchange *pub, size_t bytes)
{
	struct exchange *ex = of(pub);

	if (is_open(ex))
		sconn_set_high_water(ex->conn, bytes);
}

void http_exchange_be_last(struct http_exchange *pub)
{
	struct exchange *ex = of(pub);

	if (is_open(ex) && !ex->conn->h2)
		ex->conn->last_read = true;
}

size_t http_reply_waiting(const struct http_exchange *pub)
{
	/* The public part is the first member. */
	const struct exchange *ex = (const struct exchange *)(const void *)pub;

	return is_open(ex) ? waiting(ex) : 0;
}

/* The peer can't be given the rest: the handler is told by the step. */
static void break_off(struct exchange *ex)
{
	if (ex->conn->h2) {
		sh2_give_up(ex);
		return;
	}
	ex->conn->broken = true;
	loop_work_post(&ex->conn->step);
}

bool http_reply_write(struct http_exchange *pub, struct str data)
{
	struct exchange *ex = of(pub);
	const struct http_server_config *config = &ex->conn->server->config;
	struct err err = ERR_INIT;
	int rc;

	if (!is_open(ex) || !ex->begun || ex->conn->broken || ex->given_up)
		return true;
	if (data.len > config->max_output_bytes - (waiting(ex) < config->max_output_bytes
							   ? waiting(ex)
							   : config->max_output_bytes)) {
		log_warn(ex->conn->server->name, pub->peer,
			 "%s %.*s: the peer is too slow for its stream: closed",
			 http_method_name(pub->method), STR_ARG(pub->path));
		break_off(ex);
		return true;
	}
	if (ex->no_body)
		return false;
	ex->body_bytes += data.len;
	rc = ex->chunked ? http_write_chunk(&ex->out, data, &err)
			 : buf_append_str(&ex->out, data, &err);
	if (rc < 0) {
		break_off(ex);
		return true;
	}
	if (ex->conn->h2) {
		sh2_flush(ex);
		ex->above = waiting(ex) > ex->conn->high_bytes;
		return ex->above;
	}
	if (is_first(ex))
		sconn_flush(ex->conn);
	ex->above = is_first(ex) && ex->conn->net ? net_conn_is_full(ex->conn->net)
						  : waiting(ex) > ex->conn->high_bytes;
	return ex->above;
}

void http_reply_end(struct http_exchange *pub)
{
	struct exchange *ex = of(pub);

	if (!is_open(ex) || !ex->begun)
		return;
	/* An end behind what was broken off would make a whole answer of it. */
	if (ex->conn->broken || ex->given_up ||
	    (ex->chunked && http_write_last_chunk(&ex->out, NULL) < 0))
		http_reply_abort(pub);
	else
		end(ex);
}

void http_reply_abort(struct http_exchange *pub)
{
	struct exchange *ex = of(pub);

	if (!is_open(ex))
		return;
	ex->ended = true;
	if (ex->conn->h2) {
		sh2_reset(ex);
		return;
	}
	ex->conn->broken = true;
	loop_work_post(&ex->conn->step);
}
