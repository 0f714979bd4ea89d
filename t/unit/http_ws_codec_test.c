/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket frames: RFC 6455's own examples, what is refused, UTF-8 over frames and pieces, limits,
 * and everything once more a byte at a time.
 */
#include "tap.h"

#include "core/rand.h"
#include "http/ws_codec.h"

#define ROLE(z) ((z)[0] == 'S' ? WS_SERVER : WS_CLIENT)

/* "t(Hel~lo)" is text in two pieces of one message, b() binary, "ping(x)", "close(1000 bye)", and
 * "!1002" what a Close should say of an error. */
static void add_event(struct buf *out, const struct ws_event *e)
{
	if (e->type == WS_EVENT_PIECE) {
		if (e->piece.first)
			buf_printf(out, NULL, "%c(", e->piece.binary ? 'b' : 't');
		buf_append_str(out, e->piece.data, NULL);
		if (e->piece.last)
			buf_append(out, ")", 1, NULL);
	} else if (e->type == WS_EVENT_CLOSE) {
		buf_printf(out, NULL, "close(%d %.*s)", e->code, STR_ARG(e->control));
	} else {
		buf_printf(out, NULL, "%s(%.*s)", e->type == WS_EVENT_PING ? "ping" : "pong",
			   STR_ARG(e->control));
	}
}

/* All of s in pieces of at most size bytes; the caller frees. */
static char *read_all(enum ws_role role, uint64_t limit, struct str s, size_t size)
{
	struct buf out = BUF_INIT(1 << 20);
	struct ws_codec c;
	bool fine = true;

	ws_codec_init(&c, role, limit);
	while (fine && s.len > 0) {
		size_t len = s.len < size ? s.len : size;
		char *exact = xstrndup(s.p, len);
		struct str piece = {exact, len};
		struct ws_event event = {.type = WS_EVENT_PING};
		s.p += len;
		s.len -= len;
		while (fine && event.type != WS_EVENT_MORE) {
			struct err err = ERR_INIT;
			size_t used = 0;
			if (ws_codec_feed(&c, piece, &used, &event, &err) < 0) {
				fine = false;
				buf_printf(&out, NULL, "!%d", c.failure_code);
				is_int(err.kind, c.failure_code == 1009 ? ERR_LIMIT : ERR_PROTOCOL,
				       "kind");
				is_int(ws_codec_feed(&c, STR_NULL, &used, &event, NULL), -1,
				       "it stays broken");
				break;
			}
			piece.p += used;
			piece.len -= used;
			if (event.type != WS_EVENT_MORE)
				add_event(&out, &event);
			else
				is_uint(piece.len, 0, "all is used up");
		}
		free(exact);
	}
	ws_codec_done(&c);
	buf_append(&out, "", 1, NULL);
	return buf_steal(&out, NULL);
}

/* A row's bytes come without the final NUL. */
#define BYTES(literal) STR(literal)

static const struct {
	const char *name, *role; /* role: who reads, "C" or "S" */
	struct str in;
	const char *want;
	uint64_t limit;
} cases[] = {
	/* RFC 6455, 5.7 */
	{"unmasked text", "C", BYTES("\x81\x05Hello"), "t(Hello)", 0},
	{"masked text", "S", BYTES("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "t(Hello)", 0},
	{"fragments", "C", BYTES("\x01\x03Hel\x80\x02lo"), "t(Hello)", 0},
	{"ping", "C", BYTES("\x89\x05Hello"), "ping(Hello)", 0},
	{"masked pong", "S", BYTES("\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "pong(Hello)",
	 0},
	/* More that is right. */
	{"empty message", "C", BYTES("\x82\x00"), "b()", 0},
	{"empty fragments", "C", BYTES("\x02\x00\x00\x00\x80\x00"), "b()", 0},
	{"empty last fragment", "C",
	 BYTES("\x02\x01"
	       "a\x80\x00"),
	 "b(a)", 0},
	{"ping between fragments", "C",
	 BYTES("\x02\x01"
	       "a\x89\x01p\x80\x01"
	       "b"),
	 "b(aping(p)b)", 0},
	{"16 bits of length", "C", BYTES("\x89\x00\x82\x7e\x00\x7e"), "ping()", 0},
	{"close", "C",
	 BYTES("\x88\x05\x03\xe8"
	       "bye"),
	 "close(1000 bye)", 0},
	{"close without a code", "C", BYTES("\x88\x00"), "close(1005 )", 0},
	{"close of an application's", "C", BYTES("\x88\x02\x0f\xa0"), "close(4000 )", 0},
	{"nothing is read behind a close", "C",
	 BYTES("\x88\x00\xff\xff\x81\x01"
	       "a"),
	 "close(1005 )", 0},
	{"a sequence over two frames", "C",
	 BYTES("\x01\x02"
	       "a\xc3\x80\x01\xa4"),
	 "t(aä)", 0},
	{"four bytes of a sequence", "C", BYTES("\x81\x04\xf0\x9d\x84\x9e"), "t(𝄞)", 0},
	{"binary needn't be UTF-8", "C", BYTES("\x82\x02\xff\xfe"), "b(\xff\xfe)", 0},
	{"as large as the limit", "C",
	 BYTES("\x02\x02"
	       "ab\x80\x01"
	       "c"),
	 "b(abc)", 3},
	{"the limit is a message's", "C",
	 BYTES("\x82\x03"
	       "abc\x82\x03"
	       "abc"),
	 "b(abc)b(abc)", 3},
	{"pings don't count", "C",
	 BYTES("\x02\x01"
	       "a\x89\x04ping\x80\x01"
	       "b"),
	 "b(aping(ping)b)", 3},
	/* Refused. */
	{"reserved bit 1", "C", BYTES("\xc1\x00"), "!1002", 0},
	{"reserved bit 2", "C", BYTES("\xa1\x00"), "!1002", 0},
	{"reserved bit 3 of a ping", "C", BYTES("\x99\x00"), "!1002", 0},
	{"opcode 3", "C", BYTES("\x83\x00"), "!1002", 0},
	{"opcode 7", "C", BYTES("\x87\x00"), "!1002", 0},
	{"opcode 11", "C", BYTES("\x8b\x00"), "!1002", 0},
	{"opcode 15", "C", BYTES("\x8f\x00"), "!1002", 0},
	{"a server that masks", "C", BYTES("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "!1002",
	 0},
	{"a client that doesn't", "S", BYTES("\x81\x05Hello"), "!1002", 0},
	{"ping in fragments", "C", BYTES("\x09\x00"), "!1002", 0},
	{"ping of 126 bytes", "C", BYTES("\x89\x7e\x00\x7e"), "!1002", 0},
	{"close of 64 bits of length", "C", BYTES("\x88\x7f"), "!1002", 0},
	{"continuation of nothing", "C", BYTES("\x80\x00"), "!1002", 0},
	{"continuation behind a message", "C",
	 BYTES("\x81\x01"
	       "a\x80\x00"),
	 "t(a)!1002", 0},
	{"message in a message", "C",
	 BYTES("\x01\x01"
	       "a\x81\x01"
	       "b"),
	 "t(a!1002", 0},
	{"16 bits for 125", "C", BYTES("\x82\x7e\x00\x7d"), "!1002", 0},
	{"64 bits for 65535", "C", BYTES("\x82\x7f\0\0\0\0\0\0\xff\xff"), "!1002", 0},
	{"highest bit of the length", "C", BYTES("\x82\x7f\x80\0\0\0\0\0\0\0"), "!1002", 0},
	{"close of one byte", "C", BYTES("\x88\x01\x03"), "!1002", 0},
	{"close with 999", "C", BYTES("\x88\x02\x03\xe7"), "!1002", 0},
	{"close with 1004", "C", BYTES("\x88\x02\x03\xec"), "!1002", 0},
	{"close with 1005", "C", BYTES("\x88\x02\x03\xed"), "!1002", 0},
	{"close with 1006", "C", BYTES("\x88\x02\x03\xee"), "!1002", 0},
	{"close with 1015", "C", BYTES("\x88\x02\x03\xf7"), "!1002", 0},
	{"close with 5000", "C", BYTES("\x88\x02\x13\x88"), "!1002", 0},
	{"close with a bad reason", "C", BYTES("\x88\x03\x03\xe8\xff"), "!1007", 0},
	{"text with a byte of nothing", "C", BYTES("\x81\x01\xff"), "!1007", 0},
	{"text with an overlong sequence", "C", BYTES("\x81\x02\xc0\x80"), "!1007", 0},
	{"text with a surrogate", "C", BYTES("\x81\x03\xed\xa0\x80"), "!1007", 0},
	{"text beyond Unicode", "C", BYTES("\x81\x04\xf4\x90\x80\x80"), "!1007", 0},
	{"text that ends in a sequence", "C", BYTES("\x01\x01\xc3\x80\x00"), "t(\xc3!1007", 0},
	{"frame over the limit", "C", BYTES("\x82\x04"), "!1009", 3},
	{"fragments over the limit", "C",
	 BYTES("\x02\x02"
	       "ab\x80\x02"),
	 "b(ab!1009", 3},
	{"63 bits of length over a limit", "C", BYTES("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"),
	 "!1009", 1 << 20},
};

static void test_cases(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		row_begin("%s", cases[i].name);
		for (size_t size = 1; size <= cases[i].in.len; size++) {
			char *got = read_all(ROLE(cases[i].role), cases[i].limit, cases[i].in,
					     size);
			/* What is handed over before a fault depends on the pieces. */
			const char *said = *cases[i].want == '!' ? strchr(got, '!') : got;
			is_str(said, cases[i].want, "in pieces of %zu", size);
			free(got);
		}
	}
	row_end();
}

/* What one role writes the other one reads, at the sizes where the header changes. */
static void test_round_trip(void)
{
	static const size_t sizes[] = {0, 1, 7, 8, 9, 125, 126, 65535, 65536, 100000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int role = WS_CLIENT; role <= WS_SERVER; role++) {
			size_t len = sizes[i];
			char *text = xcalloc(1, len + 1);
			struct buf out = BUF_INIT(1 << 20);
			struct buf want = BUF_INIT(1 << 20);
			for (size_t j = 0; j < len; j++)
				text[j] = (char)('a' + j % 23);
			const struct str parts[] = {
				{text, len / 3}, STR_NULL, {text + len / 3, len - len / 3}};
			buf_printf(&want, NULL, "b(%s)", text);
			buf_append(&want, "", 1, NULL);
			row_begin("%zu bytes from a %s", len,
				  role == WS_CLIENT ? "client" : "server");
			is_int(ws_write_frame(&out, (enum ws_role)role, WS_OP_BINARY, true, parts,
					      3, NULL),
			       0, "written");
			ok(len < 32 || !memmem(out.p, out.len, text, 32) == (role == WS_CLIENT),
			   "masked by a client alone");
			char *got = read_all(role == WS_CLIENT ? WS_SERVER : WS_CLIENT, 0,
					     buf_str(&out), 4099);
			is_str(got, want.p, "read");
			free(got);
			free(text);
			buf_done(&out);
			buf_done(&want);
		}
	}
	row_end();
}

static void test_write(void)
{
	struct buf out = BUF_INIT(16);
	const struct str parts[] = {STR("0123456789abcdef")};
	char reason[200];
	struct err err = ERR_INIT;

	is_int(ws_write_frame(&out, WS_SERVER, WS_OP_TEXT, true, parts, 1, &err), -1, "too large");
	is_int(err.kind, ERR_LIMIT, "is a limit's error");
	is_uint(out.len, 0, "and leaves nothing");
	is_int(ws_write_close(&out, WS_SERVER, 1005, STR_NULL, NULL), 0, "a Close without a code");
	is_mem(out.p, out.len, "\x88\x00", 2, "is empty");
	buf_done(&out);
	buf_init(&out, 1000);
	memset(reason, 'x', sizeof(reason));
	memcpy(reason + 122, "ä", 2);
	is_int(ws_write_close(&out, WS_SERVER, 1000, (struct str){reason, 200}, NULL), 0,
	       "a long reason");
	is_uint(out.len, 2 + 2 + 122, "is cut before a sequence that doesn't fit");
	buf_done(&out);
}

static void test_keys(void)
{
	char accept[WS_ACCEPT_SIZE], key[WS_KEY_SIZE], other[WS_KEY_SIZE];

	ws_accept_of(STR("dGhlIHNhbXBsZSBub25jZQ=="), accept);
	is_str(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "RFC 6455, 1.3's example");
	ws_new_key(key);
	ws_new_key(other);
	ok(ws_is_key(str_of(key)), "a key of ours is one");
	ok(strcmp(key, other) != 0, "each is fresh");
	ok(!ws_is_key(STR("dGhlIHNhbXBsZSBub25jZQ")), "one without padding is none");
	ok(!ws_is_key(STR("dGhlIHNhbXBsZSBub25jZSEh")), "nor are 18 bytes");
	ok(!ws_is_key(STR("!GhlIHNhbXBsZSBub25jZQ==")), "nor is what isn't Base64");
	ok(!ws_is_key(STR_NULL), "nor is nothing");
}

int main(void)
{
	rand_seed(1);
	test_cases();
	test_round_trip();
	test_write();
	test_keys();
	return done_testing();
}
