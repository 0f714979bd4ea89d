/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/2 session without I/O, client and server, around nghttp2: bytes in, bytes out, and a
 * queue of events that its driver takes after the library has returned. Messages come whole, or a
 * response in pieces, of which the driver says when they're used up. The session owns everything
 * that it hands out. Uses core (its clock for flood limits).
 */
#ifndef IPU_H2_SESSION_H
#define IPU_H2_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

struct h2_session;

enum h2_role { H2_CLIENT, H2_SERVER };

/* RFC 9113, 7. */
enum h2_code {
	H2_NO_ERROR = 0,
	H2_PROTOCOL_ERROR = 1,
	H2_INTERNAL_ERROR = 2,
	H2_FLOW_CONTROL_ERROR = 3,
	H2_REFUSED_STREAM = 7,
	H2_CANCEL = 8,
	H2_HTTP_1_1_REQUIRED = 13,
	H2_ENHANCE_YOUR_CALM = 11,
};

/* What several may hold together: the bodies that a server's sessions are receiving, and whoever
 * shares it with them. */
struct h2_room {
	size_t bytes; /* now; never more than most */
	size_t most;  /* 0: no limit */
};
static inline bool h2_room_has(const struct h2_room *room, size_t len)
{
	return !room->most || len <= room->most - room->bytes;
}

/* 0 means the default. */
struct h2_limits {
	size_t header_bytes; /* of a stream's fields, counted as in RFC 9113, 6.5.2 (16 KiB) */
	size_t body_bytes;   /* of one message's body (default 4 MiB and a frame header) */
	unsigned streams;    /* a server's: how many the peer may have open at once (default 128) */
	/* How many frames that carry nothing (RST_STREAM, PING, SETTINGS, PRIORITY, empty DATA,
	 * WINDOW_UPDATE beyond two for each DATA of ours, unknown and broken ones, those of calls
	 * that are over …) may come in a burst (default 1000); a tenth of it is refilled a second.
	 */
	unsigned control_frames;
	size_t connection_bytes; /* of all bodies being received at once (default 4 body_bytes) */
	/* A server's, shared: what has no room there is NO_ROOM. NULL: there is always room.
	 * Borrowed until the session is freed. */
	struct h2_room *room;
	/* A server's: how long a request's head may take from its first bytes on (10 s), and what
	 * is behind it from there on (30 s). */
	unsigned head_ms, body_ms;
};

struct h2_header {
	struct str name, value; /* name in lower case; pseudo-headers begin with ':' */
	bool secret;            /* ours: stays out of every compression table (RFC 7541, 7.1.3) */
};

/* A received request or response. Trailers-only responses have their fields in headers. */
struct h2_message {
	const struct h2_header *headers;
	size_t n_headers;
	const struct h2_header *trailers;
	size_t n_trailers;
	struct str body;
};

enum h2_event_type {
	H2_EVENT_NONE,
	H2_EVENT_MESSAGE, /* the peer's half of a stream is complete: look at h2_session_message */
	H2_EVENT_RESET,   /* the stream ended before that (a server's: before it responded) and is
			   * gone; code and text say why. REFUSED_STREAM: nothing was processed */
	H2_EVENT_GOAWAY,  /* last_stream and code; streams of ours above it were reset as refused */
	H2_EVENT_PONG,    /* the answer to h2_session_ping */
	H2_EVENT_SETTINGS, /* the peer's settings came: h2_session_room may have changed */
	/* Of streams that h2_session_open began, in this order: */
	H2_EVENT_HEAD, /* the response's head is there (h2_session_message) */
	H2_EVENT_DATA, /* a piece of its body: h2_session_consume, now or later */
	H2_EVENT_END,  /* it's complete: h2_session_release */
	/* Of a server's stream after h2_session_respond_begin: all that was written has been taken
	 * by h2_session_output. */
	H2_EVENT_DRAINED,
	/* A server's: the rest of a request isn't there in time, or there is no room for it
	 * (h2_limits). Nothing of it is told any more, and its driver answers it
	 * (h2_session_respond) or resets it. */
	H2_EVENT_LATE,
	H2_EVENT_NO_ROOM,
};

struct h2_event {
	enum h2_event_type type;
	int32_t stream;
	uint32_t code; /* enum h2_code, or whatever number the peer sent */
	bool by_peer;  /* RESET: the peer sent RST_STREAM. Else a limit of ours (then the code is
			* ENHANCE_YOUR_CALM), a breach of HTTP/2, or a GOAWAY (REFUSED_STREAM) */
	int32_t last_stream;
	struct str piece; /* DATA's: part of the bytes that h2_session_feed was given */
	char text[128];   /* GOAWAY's debug data or the reason of a RESET, printable */
};

/* limits may be NULL. Queues the connection preface and our SETTINGS. Never NULL. */
struct h2_session *h2_session_new(enum h2_role role, const struct h2_limits *limits);
void h2_session_free(struct h2_session *s); /* NULL is fine */

/* Bytes that the peer sent, any number at a time. Errors: ERR_PROTOCOL, ERR_LIMIT (a flood, or
 * memory): the connection is lost; what is still to be sent (a GOAWAY) should go out, then close.
 * Breaches that HTTP/2 answers with a GOAWAY aren't errors here: h2_session_is_over is true once it
 * has been taken with h2_session_output, and h2_session_reason tells. */
int h2_session_feed(struct h2_session *s, const void *p, size_t len, struct err *err);

/* Appends what is to be sent to out until about max bytes stand there. Errors as above. */
int h2_session_output(struct h2_session *s, struct buf *out, size_t max, struct err *err);
bool h2_session_wants_write(const struct h2_session *s);
bool h2_session_is_over(const struct h2_session *s); /* nothing to read or write any more: close */
/* What was wrong with the peer, in words; "" while nothing was. */
const char *h2_session_reason(const struct h2_session *s);

/* Takes the oldest event; false when there is none. Events refer to streams by number; a stream
 * may have gone meanwhile. All are to be taken while the bytes of the last h2_session_feed are
 * still there. */
bool h2_session_next(struct h2_session *s, struct h2_event *ret);

/* What came on a stream, until h2_session_release, _reset or _respond. NULL: no such. In pieces:
 * the head, from its event on; LATE, NO_ROOM: what there is. */
const struct h2_message *h2_session_message(const struct h2_session *s, int32_t stream);
/* Moves a whole request's body out, into ret, which is empty; what it held of h2_limits.room is
 * given back. Unknown streams have none. */
void h2_session_take_body(struct h2_session *s, int32_t stream, struct buf *ret);
/* The value of the first header of that name, or STR_NULL. */
struct str h2_header_get(const struct h2_header *headers, size_t n, const char *name);

/* A server's: how many requests have begun to come and aren't complete; when h2_session_expire is
 * to be called for them, by core's monotonic clock (perhaps too soon), INT64_MAX: never. */
unsigned h2_session_unfinished(const struct h2_session *s);
int64_t h2_session_due_ms(const struct h2_session *s);
/* Gives up what isn't there in time: LATE for a request whose head is there. Behind a head that
 * doesn't end nothing else can come: then it's the connection's end, with a GOAWAY. */
void h2_session_expire(struct h2_session *s);

/* A client's: how many requests may start now (the peer's MAX_CONCURRENT_STREAMS, what is open,
 * GOAWAY, stream numbers left). */
unsigned h2_session_room(const struct h2_session *s);
/* Copies headers (pseudo-headers first) and body. Errors: ERR_BUSY without room, ERR_LIMIT. */
int h2_session_request(struct h2_session *s, const struct h2_header *headers, size_t n,
		       struct str body, int32_t *ret_stream, struct err *err);
/* The same, but the response comes in pieces (HEAD, DATA …, END), and of its body no more than the
 * stream's window of 256 KiB without h2_session_consume; other streams aren't held up by it. An
 * empty body is none. */
int h2_session_open(struct h2_session *s, const struct h2_header *headers, size_t n,
		    struct str body, int32_t *ret_stream, struct err *err);
/* Lets the peer send so many bytes more on that stream. Unknown streams are ignored. */
void h2_session_consume(struct h2_session *s, int32_t stream, size_t len);
/* True once the request's header block may have been handed out by h2_session_output. */
bool h2_session_was_sent(const struct h2_session *s, int32_t stream);

/* A server's answer, copied; the stream is the session's from here on. Without body and trailers
 * it's one header block that ends the stream. A stream that has gone meanwhile is no error. What is
 * missing of a request (LATE, NO_ROOM) isn't waited for: behind the answer comes a RST_STREAM with
 * NO_ERROR (RFC 9113, 8.1). */
int h2_session_respond(struct h2_session *s, int32_t stream, const struct h2_header *headers,
		       size_t n_headers, struct str body, const struct h2_header *trailers,
		       size_t n_trailers, struct err *err);

/* A server's answer in pieces: its head, copied; then the body as it's written, copied too, and the
 * end. Errors: ERR_LIMIT (memory; the stream is reset). A stream that has gone is no error. */
int h2_session_respond_begin(struct h2_session *s, int32_t stream, const struct h2_header *headers,
			     size_t n_headers, struct err *err);
int h2_session_write(struct h2_session *s, int32_t stream, struct str data, struct err *err);
void h2_session_finish(struct h2_session *s, int32_t stream);
/* Bytes of a stream's body that h2_session_output hasn't taken yet. */
size_t h2_session_waiting(const struct h2_session *s, int32_t stream);

/* Ends interest in a stream: RST_STREAM with code unless both halves are done, its memory goes, no
 * more events of it. Unknown streams are ignored. */
void h2_session_reset(struct h2_session *s, int32_t stream, uint32_t code);
/* A client's driver has read the response: the same with CANCEL, unless all of the request is out.
 * Servers respond instead. */
void h2_session_release(struct h2_session *s, int32_t stream);

void h2_session_ping(struct h2_session *s);
/* No new streams; those that go on may finish. A second call changes nothing. */
void h2_session_goaway(struct h2_session *s, uint32_t code);

unsigned h2_session_streams(const struct h2_session *s); /* how many are open */

#endif
