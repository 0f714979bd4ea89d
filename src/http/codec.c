/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads HTTP/1.x messages: llhttp's callbacks record into the codec and pause, and the driver is
 * told one event at a time. Owns the head; borrows the bytes that it's fed. Uses core/, llhttp.
 */
#include "http/codec.h"

#include <errno.h>
#include <stdlib.h>

#include <llhttp.h>

#define DEFAULT_TARGET_BYTES ((size_t)16 << 10)
/* What framing may cost on top of the body: a chunk of one byte needs six others. */
#define FRAMING_PER_PIECE 16

struct http_codec {
	llhttp_t parser;
	enum http_codec_role role;
	struct http_limits limits;
	enum http_method expect; /* what the next response answers */
	struct http_head head;
	struct buf line;        /* the request's target or the response's reason */
	struct buf name, value; /* the field that is being read */
	struct str body;        /* the piece that was just read, len 0: none */
	size_t head_bytes;      /* of the head that is being read */
	uint64_t body_bytes;    /* of the body so far */
	uint64_t framing_bytes; /* chunk heads and trailers that the body's size doesn't justify */
	bool begun;             /* the first byte of a message has come */
	bool in_head;           /* the head isn't complete */
	bool head_ready, end_ready; /* events that the driver hasn't seen */
	bool paused;                /* llhttp waits to be resumed */
	bool closed;                /* the last message was the connection's last */
	bool failed;
	struct err failure;
};

/* Records the first failure; returns what an llhttp callback returns for an error. Its code is, of
 * requests, the answer's status. */
static int fail(struct http_codec *c, enum err_kind kind, int status, const char *what)
{
	if (!c->failed) {
		c->failed = true;
		err_set(&c->failure, kind, c->role == HTTP_CODEC_REQUESTS ? status : 0, "%s", what);
	}
	return -1;
}

/* What of a head couldn't be kept: too large, or there's no memory for it. */
static int fail_head(struct http_codec *c, const struct err *why)
{
	if (!err_is_no_memory(why))
		return fail(c, ERR_LIMIT, 431, "the head is too large");
	fail(c, ERR_LIMIT, 503, why->msg);
	if (c->role == HTTP_CODEC_RESPONSES)
		c->failure.code = ENOMEM;
	return -1;
}

/* ---- llhttp's callbacks ---- */

static int on_begin(llhttp_t *parser)
{
	struct http_codec *c = parser->data;
	c->begun = true;
	buf_clear(&c->line);
	buf_clear(&c->name);
	buf_clear(&c->value);
	http_headers_clear(&c->head.headers);
	c->head = (struct http_head){.headers = c->head.headers, .content_length = -1};
	c->body_bytes = c->framing_bytes = 0;
	return 0;
}

static int on_line(llhttp_t *parser, const char *p, size_t len)
{
	struct http_codec *c = parser->data;
	struct err why = ERR_INIT;

	if (c->role == HTTP_CODEC_REQUESTS && c->line.len + len > c->limits.max_target_bytes)
		return fail(c, ERR_LIMIT, 414, "the request's target is too long");
	return buf_append(&c->line, p, len, &why) < 0 ? fail_head(c, &why) : 0;
}

static int on_version(llhttp_t *parser)
{
	struct http_codec *c = parser->data;
	if (llhttp_get_http_major(parser) != 1 || llhttp_get_http_minor(parser) > 1)
		return fail(c, ERR_PROTOCOL, 505, "neither HTTP/1.0 nor HTTP/1.1");
	return 0;
}

static int append_text(struct http_codec *c, struct buf *to, const char *p, size_t len)
{
	struct err why = ERR_INIT;

	/* Trailers are read and dropped; their size counts as framing. */
	if (!c->in_head)
		return 0;
	return buf_append(to, p, len, &why) < 0 ? fail_head(c, &why) : 0;
}

static int on_field(llhttp_t *parser, const char *p, size_t len)
{
	struct http_codec *c = parser->data;
	return append_text(c, &c->name, p, len);
}

static int on_value(llhttp_t *parser, const char *p, size_t len)
{
	struct http_codec *c = parser->data;
	return append_text(c, &c->value, p, len);
}

static int on_value_complete(llhttp_t *parser)
{
	struct http_codec *c = parser->data;
	struct err why = ERR_INIT;

	if (!c->in_head)
		return 0;
	if (http_headers_add(&c->head.headers, buf_str(&c->name), buf_str(&c->value), &why) < 0) {
		if (err_is_no_memory(&why))
			return fail_head(c, &why);
		return fail(c, why.kind == ERR_LIMIT ? ERR_LIMIT : ERR_PROTOCOL,
			    why.kind == ERR_LIMIT ? 431 : 400, why.msg);
	}
	buf_clear(&c->name);
	buf_clear(&c->value);
	return 0;
}

/* RFC 9112, 6: how the body is framed, and nothing that two readers might take in two ways. */
static int check_framing(struct http_codec *c)
{
	struct http_head *h = &c->head;
	size_t lengths = http_headers_count(&h->headers, "content-length");
	size_t encodings = http_headers_count(&h->headers, "transfer-encoding");
	struct str length = http_headers_get(&h->headers, "content-length");

	if (lengths > 0 && encodings > 0)
		return fail(c, ERR_PROTOCOL, 400, "both Content-Length and Transfer-Encoding");
	if (lengths > 1)
		return fail(c, ERR_PROTOCOL, 400, "more than one Content-Length");
	if (lengths == 1) {
		for (size_t i = 0; i < length.len; i++)
			if (length.p[i] < '0' || length.p[i] > '9')
				return fail(c, ERR_PROTOCOL, 400, "bad Content-Length");
		if (str_to_int(length, 0, INT64_MAX, &h->content_length, NULL) < 0)
			return fail(c, ERR_PROTOCOL, 400, "bad Content-Length");
	}
	if (encodings > 0) {
		if (h->minor == 0)
			return fail(c, ERR_PROTOCOL, 400, "Transfer-Encoding in HTTP/1.0");
		if (encodings > 1)
			return fail(c, ERR_PROTOCOL, 400, "more than one Transfer-Encoding");
		if (!str_ieqz(http_headers_get(&h->headers, "transfer-encoding"), "chunked"))
			return fail(c, ERR_PROTOCOL, 501, "a Transfer-Encoding other than chunked");
		h->chunked = true;
	}
	return 0;
}

static bool is_good_host(struct str host)
{
	for (size_t i = 0; i < host.len; i++)
		if (host.p[i] <= 0x20 || host.p[i] >= 0x7f || strchr("/?#@\\<>\"{}|^`,", host.p[i]))
			return false;
	return true;
}

const char *http_request_check(struct str target, const struct http_headers *headers,
			       bool needs_host)
{
	size_t hosts = http_headers_count(headers, "host");

	for (size_t i = 0; i < target.len; i++) {
		unsigned char b = (unsigned char)target.p[i];
		if (b <= 0x20 || b >= 0x7f || b == '#')
			return "bad character in the request's target";
	}
	if (hosts > 1 || (hosts == 0 && needs_host))
		return "not exactly one Host field";
	if (hosts == 1 && !is_good_host(http_headers_get(headers, "host")))
		return "bad Host field";
	return NULL;
}

static int check_request(struct http_codec *c)
{
	struct http_head *h = &c->head;
	const char *wrong;
	struct str expect = http_headers_get(&h->headers, "expect");

	h->method = http_method_of(
		str_of(llhttp_method_name((llhttp_method_t)llhttp_get_method(&c->parser))));
	h->target = buf_str(&c->line);
	wrong = http_request_check(h->target, &h->headers, h->minor >= 1);
	if (wrong)
		return fail(c, ERR_PROTOCOL, 400, wrong);
	if (expect.p && h->minor >= 1) {
		if (!str_ieqz(expect, "100-continue"))
			return fail(c, ERR_UNSUPPORTED, 417,
				    "an expectation other than 100-continue");
		h->expect_continue = true;
	}
	h->has_body = h->chunked || h->content_length > 0;
	return 0;
}

static void look_at_response(struct http_codec *c)
{
	struct http_head *h = &c->head;
	h->status = llhttp_get_status_code(&c->parser);
	h->reason = buf_str(&c->line);
	bool never = c->expect == HTTP_METHOD_HEAD || h->status < 200 || h->status == 204 ||
		     h->status == 304;
	h->until_close = !never && !h->chunked && h->content_length < 0;
	h->has_body = !never && (h->chunked || h->content_length > 0 || h->until_close);
}

/* 0: llhttp reads a body if there is one; 1: there is none, whatever the fields say. */
static int on_head(llhttp_t *parser)
{
	struct http_codec *c = parser->data;
	struct http_head *h = &c->head;

	if (on_version(parser) < 0)
		return -1;
	h->minor = llhttp_get_http_minor(parser);
	if (check_framing(c) < 0)
		return -1;
	if (c->role == HTTP_CODEC_REQUESTS) {
		if (check_request(c) < 0)
			return -1;
	} else {
		look_at_response(c);
	}
	h->upgrade = llhttp_get_upgrade(parser) != 0;
	parser->upgrade = 0;
	bool close = http_headers_has_token(&h->headers, "connection", "close");
	/* Behind a 101 comes another protocol: for the driver, if it asked for that. */
	h->keep_alive = !close && !h->until_close && h->status != 101 &&
			(h->minor >= 1 ||
			 http_headers_has_token(&h->headers, "connection", "keep-alive"));
	if (c->limits.max_body_bytes > 0 && h->has_body && h->content_length > 0 &&
	    (uint64_t)h->content_length > c->limits.max_body_bytes)
		return fail(c, ERR_LIMIT, 413, "the body is too large");
	c->in_head = false;
	c->head_ready = true;
	return c->role == HTTP_CODEC_RESPONSES && !h->has_body ? 1 : HPE_PAUSED;
}

static int on_body(llhttp_t *parser, const char *p, size_t len)
{
	struct http_codec *c = parser->data;
	if (len == 0)
		return 0;
	c->body_bytes += len;
	if (c->limits.max_body_bytes > 0 && c->body_bytes > c->limits.max_body_bytes)
		return fail(c, ERR_LIMIT, 413, "the body is too large");
	c->body = (struct str){p, len};
	return HPE_PAUSED;
}

static int on_complete(llhttp_t *parser)
{
	struct http_codec *c = parser->data;
	if (!llhttp_should_keep_alive(parser))
		c->head.keep_alive = false;
	c->end_ready = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_message_begin = on_begin,
	.on_url = on_line,
	.on_status = on_line,
	.on_version_complete = on_version,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_headers_complete = on_head,
	.on_body = on_body,
	.on_message_complete = on_complete,
};

/* ---- the driver's side ---- */

struct http_codec *http_codec_new(enum http_codec_role role, const struct http_limits *limits)
{
	struct http_codec *c = xcalloc(1, sizeof(*c));

	c->role = role;
	if (limits)
		c->limits = *limits;
	if (c->limits.max_head_bytes == 0)
		c->limits.max_head_bytes = HTTP_MAX_HEAD_BYTES;
	if (c->limits.max_target_bytes == 0)
		c->limits.max_target_bytes = DEFAULT_TARGET_BYTES;
	llhttp_init(&c->parser, role == HTTP_CODEC_REQUESTS ? HTTP_REQUEST : HTTP_RESPONSE,
		    &settings);
	c->parser.data = c;
	c->in_head = true;
	c->head.content_length = -1;
	http_headers_init(&c->head.headers, c->limits.max_headers, c->limits.max_head_bytes);
	buf_init(&c->line, c->limits.max_head_bytes);
	buf_init(&c->name, c->limits.max_head_bytes);
	buf_init_secret(&c->value, c->limits.max_head_bytes);
	return c;
}

void http_codec_free(struct http_codec *c)
{
	if (!c)
		return;
	http_headers_done(&c->head.headers);
	buf_done(&c->line);
	buf_done(&c->name);
	buf_done(&c->value);
	free(c);
}

void http_codec_expect(struct http_codec *c, enum http_method method)
{
	c->expect = method;
}

void http_codec_set_max_body(struct http_codec *c, uint64_t max_body_bytes)
{
	c->limits.max_body_bytes = max_body_bytes;
}

const struct http_head *http_codec_head(const struct http_codec *c)
{
	return &c->head;
}

void http_codec_take_headers(struct http_codec *c, struct http_headers *ret_headers)
{
	*ret_headers = c->head.headers;
	http_headers_init(&c->head.headers, c->limits.max_headers, c->limits.max_head_bytes);
}

bool http_codec_idle(const struct http_codec *c)
{
	return !c->begun && !c->failed;
}

/* What llhttp found wrong, in the terms of an HTTP server. */
static void fail_by_llhttp(struct http_codec *c, llhttp_errno_t errno_, struct str s)
{
	const char *reason = llhttp_get_error_reason(&c->parser);
	const char *at = llhttp_get_error_pos(&c->parser);
	int status = 400;

	if (!reason || !*reason)
		reason = "malformed message";
	if (errno_ == HPE_INVALID_METHOD && at && s.len > 0 && at >= s.p && at < s.p + s.len &&
	    http_is_token((struct str){at, 1}))
		status = 501;
	else if (errno_ == HPE_INVALID_VERSION && !strcmp(reason, "Invalid HTTP version"))
		status = 505;
	fail(c, ERR_PROTOCOL, status, reason);
}

/* One run of llhttp, up to its next pause or the end of s. Returns the bytes it has read. */
static size_t run(struct http_codec *c, struct str s)
{
	size_t used = s.len;

	if (c->paused) {
		llhttp_resume(&c->parser);
		c->paused = false;
	}
	llhttp_errno_t rc = llhttp_execute(&c->parser, s.len > 0 ? s.p : "", s.len);
	if (rc == HPE_PAUSED) {
		c->paused = true;
		used = s.len > 0 ? (size_t)(llhttp_get_error_pos(&c->parser) - s.p) : 0;
	} else if (rc != HPE_OK) {
		fail_by_llhttp(c, rc, s);
	}
	return used;
}

/* Counts what was read against the limits that aren't those of a buffer. */
static void count(struct http_codec *c, size_t used, bool was_in_head)
{
	if (was_in_head) {
		c->head_bytes += used;
		return;
	}
	c->framing_bytes += used - c->body.len;
	uint64_t fair = 2 * (uint64_t)c->body.len + FRAMING_PER_PIECE;
	if (c->body.len > 0)
		c->framing_bytes -= c->framing_bytes < fair ? c->framing_bytes : fair;
	if (c->framing_bytes > c->limits.max_head_bytes)
		fail(c, ERR_LIMIT, 400, "too much framing around the body");
}

static enum http_codec_event end_message(struct http_codec *c)
{
	c->end_ready = c->begun = false;
	c->in_head = true;
	c->head_bytes = 0;
	c->closed = !c->head.keep_alive;
	return HTTP_CODEC_END;
}

int http_codec_feed(struct http_codec *c, struct str s, size_t *ret_used,
		    enum http_codec_event *ret_event, struct str *ret_body, struct err *err)
{
	size_t used = 0;

	for (;;) {
		if (c->failed)
			return err_copy(err, &c->failure);
		*ret_used = used;
		*ret_body = c->body;
		if (c->head_ready) {
			c->head_ready = false;
			*ret_event = HTTP_CODEC_HEAD;
			return 0;
		}
		if (c->body.len > 0) {
			c->body = STR_NULL;
			*ret_event = HTTP_CODEC_BODY;
			return 0;
		}
		if (c->end_ready) {
			*ret_event = end_message(c);
			return 0;
		}
		if (c->closed) {
			/* Bytes behind the last message belong to nothing. */
			*ret_used = s.len;
			*ret_event = HTTP_CODEC_MORE;
			return 0;
		}
		if (used == s.len && !c->paused) {
			*ret_event = HTTP_CODEC_MORE;
			return 0;
		}
		bool was_in_head = c->in_head;
		struct str rest = {s.p + used, s.len - used};
		if (was_in_head && rest.len > c->limits.max_head_bytes - c->head_bytes)
			rest.len = c->limits.max_head_bytes - c->head_bytes;
		if (was_in_head && rest.len == 0 && used < s.len) {
			fail(c, ERR_LIMIT, 431, "the head is too large");
			continue;
		}
		size_t n = run(c, rest);
		used += n;
		if (!c->failed)
			count(c, n, was_in_head);
	}
}

int http_codec_eof(struct http_codec *c, enum http_codec_event *ret_event, struct err *err)
{
	if (c->failed)
		return err_copy(err, &c->failure);
	if (c->closed || !c->begun) {
		*ret_event = HTTP_CODEC_MORE;
		return 0;
	}
	if (!c->in_head && c->head.until_close) {
		*ret_event = end_message(c);
		return 0;
	}
	fail(c, ERR_PROTOCOL, 400,
	     c->in_head ? "the connection ended within the head of a message"
			: "the connection ended within the body of a message");
	return err_copy(err, &c->failure);
}
