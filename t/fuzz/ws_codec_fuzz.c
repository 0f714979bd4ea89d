/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket frames: whole and in pieces they give the same events, up to the text in which a fault
 * is; and an event that is written as a frame reads the same.
 * Input: a letter (C: read by a client, S: by a server; in lower case with a small limit), a byte
 * that chooses the pieces, the bytes.
 */
#include "core/rand.h"
#include "fuzz.h"
#include "http/ws_codec.h"

#define SMALL_LIMIT 24

struct run {
	enum ws_role role;
	uint64_t limit;
	bool rewrite;
	bool in_message;
	size_t message_at; /* where in the transcript the message begins, or the next one will */
};

/* The other side writes it, and it's read again. */
static void must_read_back(const struct run *run, const struct ws_event *e)
{
	enum ws_role other = run->role == WS_CLIENT ? WS_SERVER : WS_CLIENT;
	struct buf out = FUZZ_TEXT;
	struct ws_codec c;
	struct ws_event back;
	size_t used;

	if (e->type == WS_EVENT_PIECE)
		MUST(ws_write_frame(&out, other, e->piece.binary ? WS_OP_BINARY : WS_OP_TEXT, true,
				    &e->piece.data, 1, NULL) == 0);
	else if (e->type == WS_EVENT_CLOSE)
		MUST(ws_write_close(&out, other, e->code, e->control, NULL) == 0);
	else
		MUST(ws_write_frame(&out, other, e->type == WS_EVENT_PING ? WS_OP_PING : WS_OP_PONG,
				    true, &e->control, 1, NULL) == 0);
	ws_codec_init(&c, run->role, 0);
	MUST(ws_codec_feed(&c, buf_str(&out), &used, &back, NULL) == 0);
	MUST(used == out.len && back.type == e->type);
	if (e->type == WS_EVENT_PIECE)
		MUST(back.piece.first && back.piece.last && back.piece.binary == e->piece.binary &&
		     str_eq(back.piece.data, e->piece.data));
	else
		MUST(str_eq(back.control, e->control));
	MUST(e->type != WS_EVENT_CLOSE || back.code == e->code);
	ws_codec_done(&c);
	buf_done(&out);
}

static void add_event(struct run *run, const struct ws_event *e, struct buf *out)
{
	if (e->type == WS_EVENT_PIECE) {
		MUST(e->piece.data.len > 0 || e->piece.last);
		if (e->piece.first)
			fuzz_add(out, "<%d", e->piece.binary);
		fuzz_add_str(out, e->piece.data);
		if (e->piece.last)
			fuzz_add(out, ">");
	} else {
		MUST(e->control.len <= WS_CONTROL_BYTES);
		fuzz_add(out, "{%d %d ", e->type, e->code);
		fuzz_add_str(out, e->control);
		fuzz_add(out, "}");
	}
	if (e->type == WS_EVENT_PIECE)
		run->in_message = !e->piece.last;
	if (!run->in_message)
		run->message_at = out->len;
}

/* False after an error, which is in the transcript then. */
static bool feed(struct ws_codec *c, struct run *run, struct str s, struct buf *out)
{
	for (;;) {
		struct ws_event e;
		struct err err = ERR_INIT;
		size_t used;

		if (ws_codec_feed(c, s, &used, &e, &err) < 0) {
			MUST(err.kind == ERR_PROTOCOL || err.kind == ERR_LIMIT);
			MUST(ws_code_may_be_sent((int)c->failure_code));
			if (c->failure_code == WS_CODE_BAD_TEXT)
				out->len = run->message_at;
			fuzz_add(out, "!%d", (int)c->failure_code);
			return false;
		}
		MUST(used <= s.len);
		s.p += used;
		s.len -= used;
		if (e.type == WS_EVENT_MORE) {
			MUST(s.len == 0);
			return true;
		}
		add_event(run, &e, out);
		if (run->rewrite &&
		    (e.type != WS_EVENT_PIECE || e.piece.binary || (e.piece.first && e.piece.last)))
			must_read_back(run, &e);
	}
}

static struct buf transcript(struct run *run, struct str s, int way)
{
	struct fuzz_pieces it = FUZZ_PIECES(s, way);
	struct buf out = FUZZ_TEXT;
	struct ws_codec c;
	struct str piece;
	bool fine = true;

	run->in_message = false;
	run->message_at = 0;
	ws_codec_init(&c, run->role, run->limit);
	while (fuzz_pieces_next(&it, &piece))
		fine = fine && feed(&c, run, piece, &out);
	ws_codec_done(&c);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	char letter = fuzz_take(&s, 'C');
	int seed = (unsigned char)fuzz_take(&s, '.');
	struct run run = {
		.role = (letter & ~0x20) == 'S' ? WS_SERVER : WS_CLIENT,
		.limit = letter & 0x20 ? SMALL_LIMIT : 0,
		.rewrite = true,
	};
	struct buf whole, bytes, pieces;

	rand_seed(1);
	whole = transcript(&run, s, FUZZ_WHOLE);
	run.rewrite = false;
	pieces = transcript(&run, s, seed);
	bytes = transcript(&run, s, FUZZ_BYTES);
	MUST(str_eq(buf_str(&bytes), buf_str(&whole)));
	buf_done(&bytes);
	fuzz_same(&whole, &pieces);
	return 0;
}
