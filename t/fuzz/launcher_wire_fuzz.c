/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of remote execution: whole and in pieces they are the same, none is larger than it may be,
 * and a command's strings are where they are said to be.
 * Input: a byte that chooses the pieces; the bytes.
 */
#include "fuzz.h"
#include "launcher/wire.h"

static void add_start(struct buf *out, const struct wire_start *s)
{
	char **args, **env;
	size_t bytes = 0;
	wire_start_vectors(s, &args, &env);
	for (size_t i = 0; i < s->n_args; i++)
		bytes += strlen(args[i]) + 1;
	for (size_t i = 0; i < s->n_env; i++)
		bytes += strlen(env[i]) + 1;
	MUST(bytes == s->strings.len && !args[s->n_args] && !env[s->n_env]);
	fuzz_add(out, "%u %u %u %s", s->ping_ms, s->silence_ms, s->grace_ms, args[0]);
	free(args);
	free(env);
}

static struct buf transcript(struct str s, int way)
{
	struct fuzz_pieces it = FUZZ_PIECES(s, way);
	struct buf out = FUZZ_TEXT;
	struct wire_reader r;
	struct str piece;
	int got = 0;
	wire_reader_init(&r);
	while (fuzz_pieces_next(&it, &piece)) {
		/* No piece is larger than a frame, as nothing that is read at once is. */
		while (got >= 0 && piece.len > 0) {
			size_t len = piece.len < WIRE_MAX_PAYLOAD ? piece.len : WIRE_MAX_PAYLOAD;
			struct wire_frame f;
			struct err err = ERR_INIT;
			MUST(wire_feed(&r, (struct str){piece.p, len}, NULL) == 0);
			piece.p += len;
			piece.len -= len;
			while ((got = wire_next(&r, &f, &err)) > 0) {
				MUST(f.stream < WIRE_STREAMS && f.data.len < WIRE_MAX_PAYLOAD);
				fuzz_add(&out, "%d %d %u ", f.type, f.stream, f.n);
				fuzz_add_str(&out, f.data);
				if (f.type == WIRE_START)
					add_start(&out, &f.start);
				fuzz_add(&out, "|");
			}
			MUST(got == 0 || err.kind == ERR_PROTOCOL);
		}
	}
	fuzz_add(&out, "%d", got);
	wire_reader_done(&r);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	int seed = (unsigned char)fuzz_take(&s, '.');
	struct buf whole = transcript(s, FUZZ_WHOLE), pieces = transcript(s, seed);
	struct buf bytes = transcript(s, FUZZ_BYTES);
	MUST(str_eq(buf_str(&whole), buf_str(&bytes)));
	buf_done(&bytes);
	fuzz_same(&whole, &pieces);
	return 0;
}
