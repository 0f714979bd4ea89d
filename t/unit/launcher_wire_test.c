/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of remote execution: each kind there and back, in one piece and byte by byte, those that
 * are malformed, and the arithmetic of credit.
 */
#include "core/buf.h"
#include "launcher/wire.h"
#include "tap.h"
#include "no_memory.h"

static const char *const args[] = {"/bin/sh", "-c", "echo \"$A\"", NULL};
static const char *const env[] = {"A=b c", "EMPTY=", NULL};
static const struct wire_start start = {.ping_ms = 10000, .silence_ms = 60000, .grace_ms = 500};

static struct buf put_all(void)
{
	struct buf out = BUF_INIT(WIRE_MAX_PAYLOAD);
	wire_put_hello(&out, NULL);
	wire_put_start(&out, &start, args, env, NULL);
	wire_put_number(&out, WIRE_STARTED, WIRE_STDIN, 4711, NULL);
	wire_put_failed(&out, 127, "no such thing", NULL);
	wire_put_data(&out, WIRE_STDERR, STR("some bytes"), NULL);
	wire_put_close(&out, WIRE_STDIN, NULL);
	wire_put_number(&out, WIRE_CREDIT, WIRE_STDOUT, 65536, NULL);
	wire_put_number(&out, WIRE_SIGNAL, WIRE_STDIN, 15, NULL);
	wire_put_number(&out, WIRE_EXITED, WIRE_STDIN, 143, NULL);
	wire_put(&out, WIRE_PING, NULL);
	wire_put_left(&out, "0123456789abcdef0123456789abcdef", NULL);
	wire_put(&out, WIRE_ENDED, NULL);
	wire_put(&out, WIRE_END, NULL);
	return out;
}

static const struct {
	enum wire_type type;
	enum wire_stream stream;
	uint32_t n;
	const char *data;
} wanted[] = {
	{WIRE_HELLO, WIRE_STDIN, WIRE_VERSION, ""},
	{WIRE_START, WIRE_STDIN, WIRE_VERSION, ""},
	{WIRE_STARTED, WIRE_STDIN, 4711, ""},
	{WIRE_FAILED, WIRE_STDIN, 127, "no such thing"},
	{WIRE_DATA, WIRE_STDERR, 0, "some bytes"},
	{WIRE_CLOSE, WIRE_STDIN, 0, ""},
	{WIRE_CREDIT, WIRE_STDOUT, 65536, ""},
	{WIRE_SIGNAL, WIRE_STDIN, 15, ""},
	{WIRE_EXITED, WIRE_STDIN, 143, ""},
	{WIRE_PING, WIRE_STDIN, 0, ""},
	{WIRE_LEFT, WIRE_STDIN, 0, "0123456789abcdef0123456789abcdef"},
	{WIRE_ENDED, WIRE_STDIN, 0, ""},
	{WIRE_END, WIRE_STDIN, 0, ""},
};
#define N_WANTED (sizeof(wanted) / sizeof(wanted[0]))

static void check_start(const struct wire_start *s)
{
	char **got_args, **got_env;
	is_uint(s->ping_ms, start.ping_ms, "ping");
	is_uint(s->silence_ms, start.silence_ms, "silence");
	is_uint(s->grace_ms, start.grace_ms, "grace");
	wire_start_vectors(s, &got_args, &got_env);
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
		is_str(got_args[i], args[i], "argument %zu", i);
	for (size_t i = 0; i < sizeof(env) / sizeof(env[0]); i++)
		is_str(got_env[i], env[i], "variable %zu", i);
	free(got_args);
	free(got_env);
}

static void there_and_back(size_t piece)
{
	struct buf bytes = put_all();
	struct wire_reader r;
	struct wire_frame f;
	struct err err = ERR_INIT;
	size_t n = 0;
	row_begin("pieces of %zu", piece);
	wire_reader_init(&r);
	for (size_t at = 0; at < bytes.len; at += piece) {
		size_t len = bytes.len - at < piece ? bytes.len - at : piece;
		int got;
		wire_feed(&r, (struct str){bytes.p + at, len}, NULL);
		while ((got = wire_next(&r, &f, &err)) > 0 && n < N_WANTED) {
			is_int(f.type, wanted[n].type, "frame %zu: type", n);
			is_int(f.stream, wanted[n].stream, "frame %zu: stream", n);
			is_uint(f.n, wanted[n].n, "frame %zu: number", n);
			is_mem(f.data.len ? f.data.p : "", f.data.len, wanted[n].data,
			       strlen(wanted[n].data), "frame %zu: bytes", n);
			if (f.type == WIRE_START)
				check_start(&f.start);
			n++;
		}
		if (got != 0)
			break;
	}
	is_uint(n, N_WANTED, "all of them");
	is_int(wire_next(&r, &f, &err), 0, "and no more");
	wire_reader_done(&r);
	buf_done(&bytes);
	row_end();
}

#define BYTES(literal) STR(literal)
#define START_HEAD     "\1\0\0\x27\x10\0\0\xea\x60\0\0\0\0" /* version, ping, silence, grace */

static const struct {
	const char *name;
	struct str bytes;
	int want;
} malformed[] = {
	{"nothing", BYTES(""), 0},
	{"half a head", BYTES("\x09\0\0"), 0},
	{"half a payload", BYTES("\x08\0\0\4\0\0"), 0},
	{"a ping", BYTES("\x09\0\0\0"), 1},
	{"type 0", BYTES("\0\0\0\0"), -1},
	{"type 14", BYTES("\x0e\0\0\0"), -1},
	{"text", BYTES("HTTP/1.1 400 Bad Request\r\n"), -1},
	{"longer than any", BYTES("\5\4\0\1"), -1},
	{"a ping with something", BYTES("\x09\0\0\1x"), -1},
	{"another's hello", BYTES("\1\0\0\x0cipu-sessiom\1"), -1},
	{"a short hello", BYTES("\1\0\0\x0bipu-session"), -1},
	{"a later version's hello", BYTES("\1\0\0\x0cipu-session\2"), 1},
	{"data without a stream", BYTES("\5\0\0\0"), -1},
	{"data without data", BYTES("\5\0\0\1\1"), -1},
	{"data of stream 3", BYTES("\5\0\0\2\3x"), -1},
	{"a close of two", BYTES("\6\0\0\2\1\1"), -1},
	{"no credit", BYTES("\7\0\0\5\1\0\0\0\0"), -1},
	{"credit without a number", BYTES("\7\0\0\1\1"), -1},
	{"a signal of five bytes", BYTES("\x08\0\0\5\0\0\0\x0f\0"), -1},
	{"an exit status of 256", BYTES("\x0a\0\0\4\0\0\1\0"), -1},
	{"a session without a name", BYTES("\x0b\0\0\0"), -1},
	{"a session with a bad one", BYTES("\x0b\0\0\x20../../../../../../../../../etc/pass"), -1},
	{"a failure with status 0", BYTES("\4\0\0\2\0x"), -1},
	{"a start", BYTES("\2\0\0\x13" START_HEAD "\0\1\0\0x\0"), 1},
	{"a start of nothing", BYTES("\2\0\0\x11" START_HEAD "\0\0\0\0"), -1},
	{"a start cut short", BYTES("\2\0\0\x10" START_HEAD "\0\1\0"), -1},
	{"a start of two, with one", BYTES("\2\0\0\x13" START_HEAD "\0\2\0\0x\0"), -1},
	{"a start of one, with two", BYTES("\2\0\0\x14" START_HEAD "\0\1\0\0x\0\0"), -1},
	{"a start without an end", BYTES("\2\0\0\x12" START_HEAD "\0\1\0\0x"), -1},
	{"a start of version 2", BYTES("\2\0\0\x13\2\0\0\x27\x10\0\0\xea\x60\0\0\0\0\0\1\0\0x\0"),
	 -1},
	{"a start that never pings", BYTES("\2\0\0\x13\1\0\0\0\0\0\0\xea\x60\0\0\0\0\0\1\0\0x\0"),
	 -1},
	{"a start more patient than silent",
	 BYTES("\2\0\0\x13\1\0\0\xea\x60\0\0\x27\x10\0\0\0\0\0\1\0\0x\0"), -1},
};

static void refuse(void)
{
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		struct wire_reader r;
		struct wire_frame f;
		struct err err = ERR_INIT;
		wire_reader_init(&r);
		wire_feed(&r, malformed[i].bytes, NULL);
		is_int(wire_next(&r, &f, &err), malformed[i].want, "%s", malformed[i].name);
		is_int(err.kind, malformed[i].want < 0 ? ERR_PROTOCOL : ERR_NONE, "%s: error",
		       malformed[i].name);
		wire_reader_done(&r);
	}
}

static void limits(void)
{
	struct buf out = BUF_INIT(2 * WIRE_MAX_PAYLOAD);
	struct err err = ERR_INIT;
	char *word = malloc(WIRE_MAX_PAYLOAD + 1);
	const char *const one[] = {word, NULL};
	memset(word, 'x', WIRE_MAX_PAYLOAD);
	word[WIRE_MAX_PAYLOAD - 18] = '\0';
	is_int(wire_put_start(&out, &start, one, NULL, &err), 0, "the longest command");
	is_uint(out.len, WIRE_HEAD_BYTES + WIRE_MAX_PAYLOAD, "fills a frame");
	word[WIRE_MAX_PAYLOAD - 18] = 'x';
	word[WIRE_MAX_PAYLOAD - 17] = '\0';
	is_int(wire_put_start(&out, &start, one, NULL, &err), -1, "one that is longer");
	is_int(err.kind, ERR_LIMIT, "is refused as such");
	free(word);
	buf_done(&out);
}

static void credit(void)
{
	uint32_t used = 0, have = WIRE_WINDOW_BYTES;
	struct err err = ERR_INIT;
	is_uint(wire_credit_due(&used, 1000), 0, "a little isn't granted again at once");
	is_uint(used, 1000, "but kept");
	is_uint(wire_credit_due(&used, WIRE_WINDOW_BYTES / 4 - 1000), WIRE_WINDOW_BYTES / 4,
		"a quarter of the window is");
	is_uint(used, 0, "all of it");
	is_int(wire_credit_add(&have, 1, &err), -1, "more than the window is refused");
	have = 0;
	is_int(wire_credit_add(&have, WIRE_WINDOW_BYTES, &err), 0, "the window isn't");
	is_int(wire_credit_add(&have, UINT32_MAX, &err), -1, "nor does it overflow");
	is_uint(have, WIRE_WINDOW_BYTES, "a refusal changes nothing");
}

/* Each allocation whose size the other end decides fails once: it's told, and nothing is read. */
static void memory(void)
{
	struct buf all = put_all();
	struct wire_frame frame;
	struct no_memory m = {0};

	while (no_memory_next(&m)) {
		struct wire_reader r;
		struct err err = ERR_INIT;
		size_t frames = 0, fed = 0;
		wire_reader_init(&r);
		no_memory_begin(&m);
		for (; fed < all.len && err.kind == ERR_NONE; fed++) {
			if (wire_feed(&r, (struct str){all.p + fed, 1}, &err) == 0)
				frames += wire_next(&r, &frame, NULL) == 1;
		}
		no_memory_end(&m);
		if (m.whole)
			is_uint(frames, N_WANTED, "with memory all frames come");
		else
			is_int(err.kind, ERR_LIMIT, "allocation %lu fails: says so", m.n);
		wire_reader_done(&r);
	}
	no_memory_ok(&m, 1);
	buf_done(&all);
}

int main(void)
{
	static const size_t pieces[] = {SIZE_MAX, 1, 3, 7};
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		there_and_back(pieces[i] == SIZE_MAX ? 4096 : pieces[i]);
	refuse();
	limits();
	credit();
	memory();
	return done_testing();
}
