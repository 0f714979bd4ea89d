/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an HTTP/2 session knows of its streams: fields, body, what is to be sent, how far it is.
 * The session owns the set, the set owns its streams. Private to src/h2.
 */
#ifndef IPU_H2_SESSION_STREAM_H
#define IPU_H2_SESSION_STREAM_H

#include <nghttp2/nghttp2.h>

#include "core/buf.h"
#include "core/map.h"
#include "h2/session.h"

#define H2_MAX_OUT_FIELDS 64

/* Header fields whose text is in one buffer. While they are being added only their lengths count;
 * h2_fields_settle lets them point at their text. */
struct h2_fields {
	struct buf text;
	struct h2_header *items;
	size_t n, cap;
};

int h2_fields_add(struct h2_fields *f, struct str name, struct str value); /* -1: memory */
void h2_fields_settle(struct h2_fields *f);
void h2_fields_done(struct h2_fields *f);
/* Borrowed: nva is good as long as the fields are. nghttp2 copies. */
void h2_fields_to_nv(const struct h2_header *fields, size_t n, nghttp2_nv *nva);

struct h2_stream {
	int32_t id;
	struct h2_fields head, trailers;
	size_t field_bytes; /* of both, as RFC 9113 6.5.2 counts */
	struct buf body;
	struct h2_message message; /* a view of the three */

	struct buf out;
	struct h2_fields out_trailers;

	bool in_pieces;     /* a response that comes by HEAD, DATA and END */
	bool has_head;      /* the (final) header block came */
	bool complete;      /* the peer's half has ended in order */
	bool unfinished;    /* a request that isn't complete; counted in the set */
	int64_t due_ms;     /* when it, or its head, has to be */
	bool cut;           /* LATE or NO_ROOM was told; the rest isn't waited for */
	bool answered;      /* a server's driver has responded */
	bool open;          /* our body may grow: h2_session_write */
	bool deferred;      /* nghttp2 waits for more of it */
	bool sent;          /* our header block may have left */
	bool all_sent;      /* our last frame has been handed to nghttp2 */
	bool closed;        /* nghttp2 has closed it */
	bool reset_by_peer; /* RST_STREAM came */
	const char *limit;  /* the limit of ours that it broke, or NULL */
	const char *breach; /* the rule of HTTP/2's that it broke, or NULL */
};

struct h2_streams {
	struct map *by_id;
	size_t n_closed; /* of those in the map */
	size_t n_over;   /* went over a limit and aren't reset yet */
	unsigned n_unfinished;
	size_t body_bytes;    /* received and not yet released */
	struct h2_room *room; /* where they count too; NULL: nowhere */
};

void h2_streams_init(struct h2_streams *set, struct h2_room *room);
void h2_streams_done(struct h2_streams *set);
struct h2_stream *h2_streams_get(const struct h2_streams *set, int32_t id); /* or NULL */
/* The stream may be there already (then it's returned as it is). */
struct h2_stream *h2_streams_add(struct h2_streams *set, int32_t id, size_t body_limit);
void h2_streams_remove(struct h2_streams *set, struct h2_stream *st); /* frees it */
void h2_streams_set_unfinished(struct h2_streams *set, struct h2_stream *st, bool on);
/* Bytes of its body have come. */
void h2_streams_count_body(struct h2_streams *set, size_t len);
/* The stream has none any more, and what it had is ret's. */
void h2_streams_move_body(struct h2_streams *set, struct h2_stream *st, struct buf *ret);
void h2_streams_drop_message(struct h2_streams *set, struct h2_stream *st);

#endif
