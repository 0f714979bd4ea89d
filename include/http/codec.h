/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.0 and 1.1 messages without I/O: bytes in, events out, over llhttp in its strict mode.
 * One codec a connection and direction; it owns the head it reports, borrows the bytes it is fed,
 * and calls nobody: the driver asks for one event after the other. Uses core/.
 */
#ifndef IPU_HTTP_CODEC_H
#define IPU_HTTP_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"
#include "http/message.h"

struct http_codec;

enum http_codec_role {
	HTTP_CODEC_REQUESTS,  /* a server's: reads requests */
	HTTP_CODEC_RESPONSES, /* a client's: reads responses */
};

struct http_limits {
	size_t max_head_bytes;   /* start line and fields, also of trailers; 0: 64 KiB */
	size_t max_headers;      /* fields; 0: 128 */
	size_t max_target_bytes; /* of requests; 0: 16 KiB */
	uint64_t max_body_bytes; /* of one message, without the framing; 0: no limit */
};

enum http_codec_event {
	HTTP_CODEC_MORE, /* nothing yet: feed more */
	HTTP_CODEC_HEAD, /* http_codec_head() is filled */
	HTTP_CODEC_BODY, /* a piece of the body, borrowed from the bytes that were fed */
	HTTP_CODEC_END,  /* the message is complete; the next call begins the next one */
};

struct http_head {
	enum http_method method; /* requests */
	struct str target;       /* requests: as sent, origin form or "*" */
	int status;              /* responses */
	struct str reason;       /* responses; may be empty */
	int minor;               /* of HTTP/1.x: 0 or 1 */
	bool keep_alive;         /* the connection may carry another message after this one */
	bool chunked;
	bool has_body;               /* framing says that a body follows (it may be empty) */
	bool until_close;            /* responses: the body ends with the connection */
	bool expect_continue;        /* requests: the peer waits for 100 before it sends the body */
	bool upgrade;                /* asks for, or agrees to, another protocol: not followed */
	int64_t content_length;      /* -1: not said */
	struct http_headers headers; /* of the message; trailers are read and dropped */
};

/* limits may be NULL: the defaults. */
struct http_codec *http_codec_new(enum http_codec_role role, const struct http_limits *limits);
void http_codec_free(struct http_codec *c); /* NULL is fine */

/* Before each response: what it answers. A response to HEAD has no body whatever its head says. */
void http_codec_expect(struct http_codec *c, enum http_method method);
/* Body limit of the message that is being read or comes next; 0: none. Stays until set again. */
void http_codec_set_max_body(struct http_codec *c, uint64_t max_body_bytes);

/* Reads from s until there is an event or s is used up; *ret_used bytes of it are done with, the
 * caller keeps the rest and calls again (also with what is left being empty, until it gets MORE).
 * body (for BODY) points into s.
 * Errors: ERR_PROTOCOL and ERR_LIMIT, ERR_UNSUPPORTED for an Expect that isn't known, and the same
 * again from every later call. On a server's side err->code is the status to answer with: 400, 413,
 * 414, 417, 431, 501, 505; else 0.
 * Refused although some accept it (RFC 9112, 11.2): Content-Length beside Transfer-Encoding or
 * twice or not plain digits, a Transfer-Encoding other than one "chunked", bad chunk sizes, bare
 * LF, obs-fold, spaces before a colon, HTTP/1.1 requests without exactly one Host. */
int http_codec_feed(struct http_codec *c, struct str s, size_t *ret_used,
		    enum http_codec_event *ret_event, struct str *ret_body, struct err *err);

/* The peer has closed its side: END where that ends the body, MORE where no message had begun,
 * ERR_PROTOCOL in the middle of one. */
int http_codec_eof(struct http_codec *c, enum http_codec_event *ret_event, struct err *err);

/* From HEAD until the next message begins. */
const struct http_head *http_codec_head(const struct http_codec *c);
/* Moves the head's fields out, for those who need them for longer; the head has none afterwards. */
void http_codec_take_headers(struct http_codec *c, struct http_headers *ret_headers);
bool http_codec_idle(const struct http_codec *c); /* not a byte of a next message has come */
/* What is wrong with a request's target or Host, in any version; NULL: nothing. */
const char *http_request_check(struct str target, const struct http_headers *headers,
			       bool needs_host);

/* ---- writing ---- */

/* Each appends to out. Fields are checked (http_header_check): ERR_INVALID; ERR_LIMIT. */

/* Ends with the empty line. host: see http_authority. content_length -1: no body and no field. The
 * caller's headers mustn't hold Host, Content-Length, Transfer-Encoding or Connection. */
int http_write_request(struct buf *out, enum http_method method, struct str target,
		       const char *host, const struct http_header *headers, size_t n_headers,
		       int64_t content_length, struct err *err);

enum http_framing {
	HTTP_FRAMING_LENGTH,  /* Content-Length */
	HTTP_FRAMING_CHUNKED, /* Transfer-Encoding: chunked */
	HTTP_FRAMING_CLOSE,   /* the connection's end ends it (for HTTP/1.0 peers) */
	HTTP_FRAMING_NONE,    /* 1xx, 204, 304: no body and no length */
};
int http_write_response(struct buf *out, int status, const struct http_header *headers,
			size_t n_headers, enum http_framing framing, uint64_t content_length,
			bool keep_alive, struct err *err);
int http_write_chunk(struct buf *out, struct str data, struct err *err); /* empty: nothing */
int http_write_last_chunk(struct buf *out, struct err *err);

#endif
