/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's conventions: codes, messages, timeouts, frames, and how responses are judged.
 * Tables against the pure functions. Uses core and grpc.
 */
#include "tap.h"

#include "grpc/reply.h"
#include "grpc/status.h"

static void test_codes(void)
{
	static const struct {
		int status;
		enum err_kind kind;
		bool maybe_applied;
	} rows[] = {
		{GRPC_CANCELLED, ERR_INTERNAL, true},
		{GRPC_UNKNOWN, ERR_INTERNAL, true},
		{GRPC_INVALID_ARGUMENT, ERR_INVALID, false},
		{GRPC_DEADLINE_EXCEEDED, ERR_TIMEOUT, true},
		{GRPC_NOT_FOUND, ERR_NOT_FOUND, false},
		{GRPC_ALREADY_EXISTS, ERR_EXISTS, false},
		{GRPC_PERMISSION_DENIED, ERR_DENIED, false},
		{GRPC_RESOURCE_EXHAUSTED, ERR_BUSY, false},
		{GRPC_FAILED_PRECONDITION, ERR_BUSY, false},
		{GRPC_ABORTED, ERR_CONFLICT, true},
		{GRPC_OUT_OF_RANGE, ERR_INVALID, false},
		{GRPC_UNIMPLEMENTED, ERR_UNSUPPORTED, false},
		{GRPC_INTERNAL, ERR_INTERNAL, true},
		{GRPC_UNAVAILABLE, ERR_UNAVAILABLE, true},
		{GRPC_DATA_LOSS, ERR_INTERNAL, true},
		{GRPC_UNAUTHENTICATED, ERR_DENIED, false},
		{17, ERR_INTERNAL, true},
		{-1, ERR_INTERNAL, true},
		{1000000, ERR_INTERNAL, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = ERR_INIT;
		enum grpc_status back;
		row_begin("%d %s", rows[i].status, grpc_status_name(rows[i].status));
		is_int(grpc_status_to_err(rows[i].status, STR("why"), &err), -1, "fails");
		is_int(err.kind, rows[i].kind, "kind");
		is_int(err.maybe_applied, rows[i].maybe_applied, "maybe applied");
		has_str(err.msg, "why", "message");
		has_str(err.msg, grpc_status_name(rows[i].status), "name");
		ok(grpc_status_from_name(str_of(grpc_status_name(rows[i].status)), &back, NULL) ==
			   0,
		   "the name is read back");
		is_int(back, err.code, "code");
	}
	row_end();
	struct err err = ERR_INIT;
	char longer[1000];
	memset(longer, 'x', sizeof(longer));
	grpc_status_to_err(GRPC_NOT_FOUND, (struct str){longer, sizeof(longer)}, &err);
	has_str(err.msg, "(NOT_FOUND)", "a long message leaves room for the code's name");
	grpc_status_to_err(GRPC_NOT_FOUND, STR_NULL, &err);
	is_str(err.msg, "the server answered NOT_FOUND", "without a message");
	enum grpc_status ignored;
	is_int(grpc_status_from_name(STR("NOPE"), &ignored, &err), -1, "an unknown name");
	is_int(err.kind, ERR_INVALID, "is invalid");
}

static void test_messages(void)
{
	static const struct {
		const char *plain, *coded;
	} both[] =
		{
			{"", ""},
			{"plain words", "plain words"},
			{"100%", "100%25"},
			{"J\xc3\xb6rg \xe2\x82\xac", "J%C3%B6rg %E2%82%AC"},
		},
	  decode[] = {
		  {"a%", "a%"},     {"a%2", "a%2"}, {"a%zzb", "a%zzb"},     {"a?b", "a%0Ab"},
		  {"a?b", "a%FFb"}, {"?", "%C3"},   {"\xc3\xb6", "%c3%b6"}, {"??x", "%C3%28x"},
	  };
	char z[64];

	for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		struct buf out = BUF_INIT(64);
		row_begin("\"%s\"", both[i].coded);
		is_int(grpc_message_encode(str_of(both[i].plain), &out, NULL), 0, "encodes");
		is_mem(out.p ? out.p : "", out.len, both[i].coded, strlen(both[i].coded), "coded");
		grpc_message_decode(str_of(both[i].coded), z, sizeof(z));
		is_str(z, both[i].plain, "decoded");
		buf_done(&out);
	}
	for (size_t i = 0; i < sizeof(decode) / sizeof(decode[0]); i++) {
		row_begin("\"%s\"", decode[i].coded);
		grpc_message_decode(str_of(decode[i].coded), z, sizeof(z));
		if (i == 7)
			is_str(z, "?(x", "broken UTF-8");
		else
			is_str(z, decode[i].plain, "decoded");
	}
	row_end();
	grpc_message_decode(STR("aaaaaaaaaa%C3%B6"), z, 12);
	is_str(z, "aaaaaaaaaa?", "cut within a character");
}

static void test_timeouts(void)
{
	static const struct {
		int64_t ms;
		const char *z;
	} format[] = {{0, "1m"},
		      {-5, "1m"},
		      {1, "1m"},
		      {10000, "10000m"},
		      {99999999, "99999999m"},
		      {100000000, "100000S"},
		      {INT64_C(99999999) * 1000 + 1000, "1666666M"}};
	static const struct {
		const char *z;
		int64_t ms; /* -1: refused */
	} parse[] = {{"10S", 10000},
		     {"1H", 3600000},
		     {"2M", 120000},
		     {"5m", 5},
		     {"1500u", 1},
		     {"999999n", 0},
		     {"99999999H", INT64_C(99999999) * 3600000},
		     {"", -1},
		     {"5", -1},
		     {"S", -1},
		     {"-5S", -1},
		     {"123456789S", -1},
		     {"5x", -1},
		     {"5 S", -1}};

	for (size_t i = 0; i < sizeof(format) / sizeof(format[0]); i++) {
		char z[GRPC_TIMEOUT_SIZE];
		grpc_timeout_format(format[i].ms, z);
		is_str(z, format[i].z, "%" PRId64 " ms", format[i].ms);
	}
	for (size_t i = 0; i < sizeof(parse) / sizeof(parse[0]); i++) {
		int64_t ms = -1;
		int rc = grpc_timeout_parse(str_of(parse[i].z), &ms, NULL);
		is_int(rc, parse[i].ms < 0 ? -1 : 0, "timeout \"%s\" is %s", parse[i].z,
		       parse[i].ms < 0 ? "refused" : "read");
		is_int(ms, parse[i].ms, "its value");
	}
}

static void test_frames(void)
{
	static const struct {
		const char *name;
		struct str body;
		const char *message; /* NULL: refused */
	} rows[] = {
		{"empty message", {"\0\0\0\0\0", 5}, ""},
		{"three bytes", {"\0\0\0\0\3abc", 8}, "abc"},
		{"nothing", {NULL, 0}, NULL},
		{"half a header", {"\0\0\0", 3}, NULL},
		{"cut short", {"\0\0\0\0\3ab", 7}, NULL},
		{"two messages", {"\0\0\0\0\1a\0\0\0\0\1b", 12}, NULL},
		{"compressed", {"\1\0\0\0\1a", 6}, NULL},
		{"unknown flags", {"\2\0\0\0\1a", 6}, NULL},
		{"huge", {"\0\xff\xff\xff\xff", 5}, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct str message = STR("untouched");
		struct err err = ERR_INIT;
		int rc = grpc_frame_parse(rows[i].body, &message, &err);
		row_begin("%s", rows[i].name);
		is_int(rc, rows[i].message ? 0 : -1, "result");
		if (rows[i].message)
			is_mem(message.p, message.len, rows[i].message, strlen(rows[i].message),
			       "message");
		else
			ok(err.kind == ERR_PROTOCOL && message.len == 9, "a protocol error");
	}
	row_end();
	uint8_t header[GRPC_FRAME_HEADER_BYTES];
	grpc_frame_header(0x01020304, header);
	is_mem(header, 5, "\0\1\2\3\4", 5, "a header");
}

/* "name: value" lines as header fields. */
static size_t fields_of(const char *text, struct h2_header *fields)
{
	struct str rest = str_of(text), line;
	size_t n = 0;

	while (rest.len > 0) {
		str_cut(rest, '\n', &line, &rest);
		const char *gap = memmem(line.p, line.len, ": ", 2);
		size_t at = (size_t)(gap - line.p);
		fields[n++] = (struct h2_header){{line.p, at}, {gap + 2, line.len - at - 2}};
	}
	return n;
}

#define OK_HEAD "content-type: application/grpc\n:status: 200"
static const struct {
	const char *name, *head, *trailers;
	struct str body;
	enum err_kind kind; /* ERR_NONE: the message is "hi" */
	int code;
	bool maybe_applied;
	const char *words;
} responses[] = {
#define HI {"\0\0\0\0\2hi", 7}
	{"a reply", OK_HEAD, "grpc-status: 0", HI, ERR_NONE, 0, false, NULL},
	{"proto subtype", "content-type: application/grpc+proto\n:status: 200", "grpc-status: 0",
	 HI, ERR_NONE, 0, false, NULL},
	{"type with parameter", "content-type: application/grpc;x=y\n:status: 200",
	 "grpc-status: 0", HI, ERR_NONE, 0, false, NULL},
	{"encoding named, not used", OK_HEAD "\ngrpc-encoding: gzip", "grpc-status: 0", HI,
	 ERR_NONE, 0, false, NULL},
	{"trailers only", OK_HEAD "\ngrpc-status: 5\ngrpc-message: no partition %22p%22", "",
	 STR_NULL, ERR_NOT_FOUND, GRPC_NOT_FOUND, false, "no partition \"p\" (NOT_FOUND)"},
	{"status in trailers", OK_HEAD, "grpc-status: 8\ngrpc-message: full", STR_NULL, ERR_BUSY,
	 GRPC_RESOURCE_EXHAUSTED, false, "full"},
	{"status after a message", OK_HEAD, "grpc-status: 13", HI, ERR_INTERNAL, GRPC_INTERNAL,
	 true, "INTERNAL"},
	{"OK without a message", OK_HEAD, "grpc-status: 0", STR_NULL, ERR_PROTOCOL, GRPC_INTERNAL,
	 true, "no message"},
	{"OK, trailers only", OK_HEAD "\ngrpc-status: 0", "", STR_NULL, ERR_PROTOCOL, GRPC_INTERNAL,
	 true, "no message"},
	{"compressed",
	 OK_HEAD,
	 "grpc-status: 0",
	 {"\1\0\0\0\2hi", 7},
	 ERR_PROTOCOL,
	 GRPC_INTERNAL,
	 true,
	 "compressed"},
	{"no status", OK_HEAD, "x: y", HI, ERR_INTERNAL, GRPC_UNKNOWN, true, "no grpc-status"},
	{"no status at all", OK_HEAD, "", HI, ERR_INTERNAL, GRPC_UNKNOWN, true, "no grpc-status"},
	{"status isn't a number", OK_HEAD, "grpc-status: five", HI, ERR_INTERNAL, GRPC_UNKNOWN,
	 true, "UNKNOWN"},
	{"status out of range", OK_HEAD, "grpc-status: 99", HI, ERR_INTERNAL, GRPC_UNKNOWN, true,
	 "UNKNOWN"},
	{"HTML page",
	 "content-type: text/html\n:status: 200",
	 "",
	 {"<html>", 6},
	 ERR_INTERNAL,
	 GRPC_UNKNOWN,
	 true,
	 "text/html"},
	{"no content-type", ":status: 200", "grpc-status: 0", HI, ERR_INTERNAL, GRPC_UNKNOWN, true,
	 "content-type"},
	{"nearly the type", "content-type: application/grpcx\n:status: 200", "grpc-status: 0", HI,
	 ERR_INTERNAL, GRPC_UNKNOWN, true, "application/grpcx"},
	{"400", "content-type: text/plain\n:status: 400", "", STR_NULL, ERR_INTERNAL, GRPC_INTERNAL,
	 true, "HTTP status 400"},
	{"401", ":status: 401", "", STR_NULL, ERR_DENIED, GRPC_UNAUTHENTICATED, false, "401"},
	{"403", ":status: 403", "", STR_NULL, ERR_DENIED, GRPC_PERMISSION_DENIED, false, "403"},
	{"404", ":status: 404", "", STR_NULL, ERR_UNSUPPORTED, GRPC_UNIMPLEMENTED, false, "404"},
	{"429", ":status: 429", "", STR_NULL, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, true, "429"},
	{"502", ":status: 502", "", STR_NULL, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, true, "502"},
	{"503", ":status: 503", "", STR_NULL, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, true, "503"},
	{"504", ":status: 504", "", STR_NULL, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, true, "504"},
	{"418", ":status: 418", "", STR_NULL, ERR_INTERNAL, GRPC_UNKNOWN, true, "418"},
	{"503 with a gRPC status", "content-type: application/grpc\n:status: 503\ngrpc-status: 7",
	 "", STR_NULL, ERR_DENIED, GRPC_PERMISSION_DENIED, false, "PERMISSION_DENIED"},
};

static void test_responses(void)
{
	for (size_t i = 0; i < sizeof(responses) / sizeof(responses[0]); i++) {
		struct h2_header head[8], trailers[8];
		struct h2_message msg = {
			.headers = head, .trailers = trailers, .body = responses[i].body};
		struct err err = ERR_INIT;
		struct str message = STR_NULL;
		msg.n_headers = fields_of(responses[i].head, head);
		msg.n_trailers = fields_of(responses[i].trailers, trailers);
		int rc = grpc_reply_judge(&msg, &message, &err);
		row_begin("%s", responses[i].name);
		is_int(rc, responses[i].kind == ERR_NONE ? 0 : -1, "result");
		is_int(err.kind, responses[i].kind, "kind");
		is_int(err.code, responses[i].code, "code");
		is_int(err.maybe_applied, responses[i].maybe_applied, "maybe applied");
		if (responses[i].words)
			has_str(err.msg, responses[i].words, "words");
		else
			is_mem(message.p, message.len, "hi", 2, "message");
	}
	row_end();
	struct h2_header head[4];
	struct h2_message msg = {.headers = head};
	struct err err = ERR_INIT;
	struct str none;
	msg.n_headers = fields_of(OK_HEAD "\ngrpc-status: 14\ngrpc-retry-pushback-ms: 1500", head);
	grpc_reply_judge(&msg, &none, &err);
	is_uint(err.retry_after_ms, 1500, "the server's wish to wait");
}

static void test_resets(void)
{
	static const struct {
		uint32_t code;
		bool by_peer;
		enum err_kind kind;
		int status;
		bool maybe_applied;
	} rows[] = {
		{0, true, ERR_UNAVAILABLE, GRPC_INTERNAL, true},
		{2, true, ERR_UNAVAILABLE, GRPC_INTERNAL, true},
		{H2_REFUSED_STREAM, true, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, false},
		{H2_REFUSED_STREAM, false, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, false},
		{H2_CANCEL, true, ERR_UNAVAILABLE, GRPC_CANCELLED, true},
		{H2_ENHANCE_YOUR_CALM, true, ERR_UNAVAILABLE, GRPC_RESOURCE_EXHAUSTED, true},
		{H2_ENHANCE_YOUR_CALM, false, ERR_LIMIT, GRPC_RESOURCE_EXHAUSTED, true},
		{H2_PROTOCOL_ERROR, false, ERR_PROTOCOL, GRPC_INTERNAL, true},
		{12, true, ERR_UNAVAILABLE, GRPC_PERMISSION_DENIED, true},
		{77, true, ERR_UNAVAILABLE, GRPC_UNKNOWN, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct h2_event ev = {
			.type = H2_EVENT_RESET, .code = rows[i].code, .by_peer = rows[i].by_peer};
		struct err err = ERR_INIT;
		row_begin("code %u %s", rows[i].code, rows[i].by_peer ? "from the peer" : "ours");
		is_int(grpc_reply_reset(&ev, &err), -1, "fails");
		is_int(err.kind, rows[i].kind, "kind");
		is_int(err.code, rows[i].status, "status");
		is_int(err.maybe_applied, rows[i].maybe_applied, "maybe applied");
	}
	row_end();
}

int main(void)
{
	test_codes();
	test_messages();
	test_timeouts();
	test_frames();
	test_responses();
	test_resets();
	return done_testing();
}
