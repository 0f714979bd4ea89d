/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 sessions as client and as server: whole and in pieces the same events; and a driver that
 * answers, pings and says goodbye between the pieces; what doesn't end is given up.
 * Input: S (server), C (client, with two requests on their way) or P (the same, its responses read
 * in pieces), in lower case with small limits; a byte that chooses the pieces; the peer's bytes.
 */
#include "core/clock.h"
#include "fuzz.h"
#include "h2/session.h"

static const struct h2_limits small_limits = {
	.header_bytes = 256,
	.body_bytes = 32,
	.streams = 2,
	.control_frames = 8,
	.connection_bytes = 64,
};

static bool in_pieces;
static struct buf bodies[2]; /* in pieces: what came of each */
static bool over_limit;      /* in one of the runs */
static bool left;            /* so did the peer say */

static void request_twice(struct h2_session *s)
{
	const struct h2_header headers[] = {
		{STR(":method"), STR("POST")}, {STR(":scheme"), STR("http")},
		{STR(":path"), STR("/a.B/C")}, {STR(":authority"), STR("h:1")},
		{STR("te"), STR("trailers")},  {STR("authorization"), STR("x"), .secret = true},
	};
	int32_t stream;

	for (int i = 0; i < 2; i++)
		(in_pieces ? h2_session_open
			   : h2_session_request)(s, headers, 6, STR("\0\0\0\0\1x"), &stream, NULL);
}

static void drain_output(struct h2_session *s)
{
	struct buf out = FUZZ_TEXT;
	struct err err = ERR_INIT;

	if (h2_session_output(s, &out, FUZZ_TEXT_BYTES, &err) < 0)
		MUST(err.kind == ERR_PROTOCOL || err.kind == ERR_LIMIT);
	buf_done(&out);
}

static void add_fields(struct buf *out, const struct h2_header *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fuzz_add(out, "|%.*s=%.*s", STR_ARG(fields[i].name), STR_ARG(fields[i].value));
}

static void add_message(struct buf *out, const struct h2_message *m)
{
	add_fields(out, m->headers, m->n_headers);
	fuzz_add(out, "|%zu:%.*s", m->body.len, STR_ARG(m->body));
	add_fields(out, m->trailers, m->n_trailers);
}

static void answer(struct h2_session *s, enum h2_role role, int32_t stream, struct str body)
{
	const struct h2_header headers[] = {{STR(":status"), STR("200")}};
	const struct h2_header trailers[] = {{STR("grpc-status"), STR("0")}};

	if (role == H2_CLIENT)
		h2_session_release(s, stream);
	else
		h2_session_respond(s, stream, headers, 1, body, trailers, 1, NULL);
	MUST(!h2_session_message(s, stream));
}

/* Of responses in pieces, which are the same however the bytes were cut. */
static void take_piece(struct h2_session *s, const struct h2_event *ev, struct buf *out)
{
	MUST(ev->stream == 1 || ev->stream == 3);
	struct buf *body = &bodies[ev->stream / 2];

	if (ev->type == H2_EVENT_DATA) {
		buf_append_str(body, ev->piece, NULL);
		h2_session_consume(s, ev->stream, ev->piece.len);
		return;
	}
	const struct h2_message *m = h2_session_message(s, ev->stream);
	fuzz_add(out, "\n%d %d", ev->type, ev->stream);
	if (ev->type == H2_EVENT_HEAD) {
		MUST(m);
		add_fields(out, m->headers, m->n_headers);
	}
	if (ev->type == H2_EVENT_END) {
		MUST(m);
		fuzz_add(out, "|%zu:%.*s", body->len, STR_ARG(buf_str(body)));
		add_fields(out, m->trailers, m->n_trailers);
	}
}

static void take_events(struct h2_session *s, enum h2_role role, struct buf *out)
{
	struct h2_event ev;

	while (h2_session_next(s, &ev)) {
		if (ev.type == H2_EVENT_HEAD || ev.type == H2_EVENT_DATA ||
		    ev.type == H2_EVENT_END) {
			take_piece(s, &ev, out);
			continue;
		}
		over_limit |= ev.code == H2_ENHANCE_YOUR_CALM && !ev.by_peer;
		left |= ev.type == H2_EVENT_GOAWAY && ev.by_peer;
		fuzz_add(out, "\n%d %d %u %d %d %s", ev.type, ev.stream, ev.code, ev.by_peer,
			 ev.last_stream, ev.text);
		if (ev.type != H2_EVENT_MESSAGE && ev.type != H2_EVENT_LATE)
			continue;
		const struct h2_message *m = h2_session_message(s, ev.stream);
		if (!m)
			continue;
		add_message(out, m);
		CLEANUP_FREE char *copy = str_dup(m->body);
		answer(s, role, ev.stream, (struct str){copy, m->body.len});
	}
}

/* What has begun and doesn't go on is given up, head or body; nothing is left to wait for. */
static void wait_for_late(struct h2_session *s, enum h2_role role, struct buf *out)
{
	int64_t due_ms = h2_session_due_ms(s);

	MUST(h2_session_unfinished(s) == 0 || due_ms <= clock_mono_ms() + 30000);
	clock_advance(30000);
	h2_session_expire(s);
	MUST(h2_session_unfinished(s) == 0 && h2_session_due_ms(s) == INT64_MAX);
	take_events(s, role, out);
	drain_output(s);
	take_events(s, role, out);
}

/* lively: the driver does its part after each piece; else only at the end. */
static struct buf run(enum h2_role role, const struct h2_limits *limits, struct str bytes, int way,
		      bool lively)
{
	struct h2_session *s = h2_session_new(role, limits);
	struct fuzz_pieces it = FUZZ_PIECES(bytes, way);
	struct buf out = FUZZ_TEXT;
	struct str piece;
	bool fine = true;
	unsigned n = 0;

	for (int i = 0; i < 2; i++)
		bodies[i] = (struct buf)FUZZ_TEXT;
	if (role == H2_CLIENT)
		request_twice(s);
	drain_output(s);
	while (fuzz_pieces_next(&it, &piece)) {
		struct err err = ERR_INIT;
		if (fine && h2_session_feed(s, piece.p, piece.len, &err) < 0) {
			MUST(err.kind == ERR_PROTOCOL || err.kind == ERR_LIMIT);
			fuzz_add(&out, "!%s", err_kind_name(err.kind));
			fine = false;
		}
		if (in_pieces)
			take_events(s, role, &out);
		if (lively) {
			take_events(s, role, &out);
			if (++n % 8 == 3)
				h2_session_ping(s);
			if (n == 50)
				h2_session_reset(s, 1, H2_CANCEL);
			if (n == 100)
				h2_session_goaway(s, H2_NO_ERROR);
			drain_output(s);
		}
	}
	take_events(s, role, &out);
	drain_output(s);
	take_events(s, role, &out);
	if (fine)
		wait_for_late(s, role, &out);
	MUST(h2_session_reason(s));
	h2_session_is_over(s);
	h2_session_room(s);
	h2_session_streams(s);
	h2_session_free(s);
	for (int i = 0; i < 2; i++)
		buf_done(&bodies[i]);
	return out;
}

/* nghttp2 counts the reads within the heads of CONTINUATION frames where it means the frames, so
 * that it ends a connection that brings them in crumbs. */
static bool has_open_headers(struct str s)
{
	enum { HEAD = 9, HEADERS = 1, PUSH = 5, END_HEADERS = 4 };
	struct str preface = STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	size_t at = str_has_prefix(s, preface) ? preface.len : 0;

	while (s.len >= at + HEAD) {
		const uint8_t *p = (const uint8_t *)s.p + at;
		if ((p[3] == HEADERS || p[3] == PUSH) && !(p[4] & END_HEADERS))
			return true;
		at += HEAD + ((size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2]);
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	char letter = fuzz_take(&s, 'S');
	int seed = (unsigned char)fuzz_take(&s, '.');
	in_pieces = (letter & ~0x20) == 'P';
	enum h2_role role = (letter & ~0x20) == 'C' || in_pieces ? H2_CLIENT : H2_SERVER;
	const struct h2_limits *limits = letter & 0x20 ? &small_limits : NULL;

	clock_freeze(1000, 1000);
	over_limit = left = false;
	struct buf lively = run(role, limits, s, seed, true);
	buf_done(&lively);
	struct buf whole = run(role, limits, s, FUZZ_WHOLE, false);
	struct buf pieces = run(role, limits, s, seed, false);
	/* What goes over a limit is reset once the library has returned: in pieces that's earlier,
	 * and what comes behind it may find another limit, or a connection that still goes on.
	 * Where the peer has said that it leaves, and no stream goes on, the library passes over
	 * what is behind that, but from the next read on. */
	if (over_limit || left || has_open_headers(s)) {
		buf_done(&whole);
		buf_done(&pieces);
		return 0;
	}
	fuzz_sort_lines(&whole);
	fuzz_sort_lines(&pieces);
	fuzz_same(&whole, &pieces);
	return 0;
}
