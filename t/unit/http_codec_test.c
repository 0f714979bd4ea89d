/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec against tables: every input whole, a byte at a time, and in two pieces at each place.
 * A run is written down as one line, so that all ways of cutting must give the same.
 */
#include "http/codec.h"

#include "core/rand.h"
#include "tap.h"

struct script {
	enum http_codec_role role;
	struct http_limits limits;
	enum http_method expect;
	bool eof;       /* the peer closes behind the bytes */
	bool want_code; /* of an error: its code too */
};

static void add(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct buf *out, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (buf_vprintf(out, NULL, fmt, ap) < 0)
		bail_out("the transcript is too long");
	va_end(ap);
}

static void add_head(struct buf *out, enum http_codec_role role, const struct http_head *h)
{
	if (role == HTTP_CODEC_REQUESTS)
		add(out, "<%s %.*s", http_method_name(h->method), STR_ARG(h->target));
	else
		add(out, "<%d %.*s", h->status, STR_ARG(h->reason));
	add(out, " 1.%d%s%s%s%s%s", h->minor, h->keep_alive ? "" : " close",
	    h->chunked ? " chunked" : "", h->until_close ? " until-close" : "",
	    h->expect_continue ? " expect" : "", h->upgrade ? " upgrade" : "");
	if (h->content_length >= 0)
		add(out, " length=%lld", (long long)h->content_length);
	if (h->has_body)
		add(out, " body");
	for (size_t i = 0; i < h->headers.len; i++) {
		struct http_header f = http_headers_at(&h->headers, i);
		if (!str_ieqz(f.name, "host") && !str_ieqz(f.name, "content-length") &&
		    !str_ieqz(f.name, "transfer-encoding"))
			add(out, " [%.*s=%.*s]", STR_ARG(f.name), STR_ARG(f.value));
	}
	add(out, ">");
}

/* Feeds one piece; -1 after a failure, which is in the transcript then. */
static int feed(struct http_codec *c, const struct script *script, struct str s, struct buf *out)
{
	for (;;) {
		enum http_codec_event event;
		size_t used;
		struct str body;
		struct err err = ERR_INIT;
		if (http_codec_feed(c, s, &used, &event, &body, &err) < 0) {
			add(out, "!%s", err_kind_name(err.kind));
			if (err.code)
				add(out, " %d", err.code);
			return -1;
		}
		if (used > s.len)
			bail_out("the codec used more than it was given");
		s.p += used;
		s.len -= used;
		if (event == HTTP_CODEC_MORE)
			return 0;
		if (event == HTTP_CODEC_HEAD)
			add_head(out, script->role, http_codec_head(c));
		else if (event == HTTP_CODEC_BODY)
			add(out, "%.*s", STR_ARG(body));
		else
			add(out, ".");
	}
}

/* cut 0: a byte at a time; else the first piece's length. */
static char *transcript(const struct script *script, struct str s, size_t cut)
{
	struct http_codec *c = http_codec_new(script->role, &script->limits);
	struct buf out = BUF_INIT(1 << 20);
	int rc = 0;

	http_codec_expect(c, script->expect);
	while (rc == 0 && s.len > 0) {
		size_t n = cut == 0 ? 1 : cut < s.len ? cut : s.len;
		/* A copy of exact size, so that reading beyond is seen. */
		char *exact = xstrndup(s.p, n);
		exact = xrealloc(exact, n);
		rc = feed(c, script, (struct str){exact, n}, &out);
		free(exact);
		s.p += n;
		s.len -= n;
		if (cut)
			cut = s.len;
	}
	if (rc == 0 && script->eof) {
		enum http_codec_event event;
		struct err err = ERR_INIT;
		if (http_codec_eof(c, &event, &err) < 0)
			add(&out, "!%s", err_kind_name(err.kind));
		else
			add(&out, event == HTTP_CODEC_END ? ".$" : "$");
	}
	http_codec_free(c);
	return buf_steal(&out, NULL);
}

static void check(const char *name, const struct script *script, struct str s, const char *want)
{
	CLEANUP_FREE char *whole = transcript(script, s, s.len);
	CLEANUP_FREE char *bytes = transcript(script, s, 0);
	size_t differ = 0;

	row_begin("%s", name);
	is_str(whole, want, "fed whole");
	is_str(bytes, want, "fed a byte at a time");
	for (size_t cut = 1; cut < s.len && s.len < 4096; cut++) {
		CLEANUP_FREE char *got = transcript(script, s, cut);
		if (strcmp(got, want) != 0 && differ++ == 0)
			diag("cut at %zu: %s", cut, got);
	}
	is_uint(differ, 0, "cut in two at each place");
	row_end();
}

#define H "Host: x\r\n"

static const struct {
	const char *name, *in, *want;
} requests[] = {
	{"plain", "GET / HTTP/1.1\r\n" H "\r\n", "<GET / 1.1>."},
	{"fields", "GET /a?b=c HTTP/1.1\r\n" H "A: 1\r\nB:2  \r\nC:\r\nD: x y\r\n\r\n",
	 "<GET /a?b=c 1.1 [A=1] [B=2] [C=] [D=x y]>."},
	{"length", "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello",
	 "<POST / 1.1 length=5 body>hello."},
	{"length 0", "PUT / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", "<PUT / 1.1 length=0>."},
	{"chunked",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n"
	 "0\r\n\r\n",
	 "<POST / 1.1 chunked body>abc0123456789."},
	{"chunked without body",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
	 "<POST / 1.1 chunked body>."},
	{"chunk extension and trailer",
	 "POST / HTTP/1.1\r\n" H
	 "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: 1\r\nU: 2\r\n\r\n"
	 "GET /2 HTTP/1.1\r\n" H "\r\n",
	 "<POST / 1.1 chunked body>abc.<GET /2 1.1>."},
	{"pipelined",
	 "GET /1 HTTP/1.1\r\n" H "\r\nPOST /2 HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nab"
	 "DELETE /3 HTTP/1.1\r\n" H "\r\n",
	 "<GET /1 1.1>.<POST /2 1.1 length=2 body>ab.<DELETE /3 1.1>."},
	{"empty lines before", "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", "<GET / 1.1>."},
	{"close, and what follows is dropped",
	 "GET / HTTP/1.1\r\n" H "Connection: x, Close\r\n\r\nGET /2 HTTP/1.1\r\n" H "\r\n",
	 "<GET / 1.1 close [Connection=x, Close]>."},
	{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "<GET / 1.0 close>."},
	{"HTTP/1.0 kept alive",
	 "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n",
	 "<GET / 1.0 [Connection=keep-alive]>.<GET /2 1.0 close>."},
	{"expect", "POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
	 "<POST / 1.1 expect length=1 body [Expect=100-Continue]>x."},
	{"other method", "MKCOL /a HTTP/1.1\r\n" H "\r\n", "<? /a 1.1>."},
	{"upgrade isn't followed",
	 "GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
	 "GET /2 HTTP/1.1\r\n" H "\r\n",
	 "<GET / 1.1 upgrade [Connection=upgrade] [Upgrade=websocket]>.<GET /2 1.1>."},
	{"asterisk", "OPTIONS * HTTP/1.1\r\n" H "\r\n", "<OPTIONS * 1.1>."},
	{"absolute form", "GET http://x/a HTTP/1.1\r\n" H "\r\n", "<GET http://x/a 1.1>."},
	{"bytes over 0x7f in a value", "GET / HTTP/1.1\r\n" H "A: \xc3\xa4\r\n\r\n",
	 "<GET / 1.1 [A=\xc3\xa4]>."},

	/* Smuggling, and what else is refused. */
	{"both lengths",
	 "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	 "!protocol 400"},
	{"both lengths, other order",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	 "!protocol 400"},
	{"two equal lengths",
	 "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
	 "!protocol 400"},
	{"list of lengths", "POST / HTTP/1.1\r\n" H "Content-Length: 1, 1\r\n\r\nx",
	 "!protocol 400"},
	{"signed length", "POST / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\nx", "!protocol 400"},
	{"negative length", "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\nx", "!protocol 400"},
	{"hexadecimal length", "POST / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\nx",
	 "!protocol 400"},
	{"no length", "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", "!protocol 400"},
	{"length over 64 bits",
	 "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551617\r\n\r\nx", "!protocol 400"},
	{"length over 63 bits",
	 "POST / HTTP/1.1\r\n" H "Content-Length: 9223372036854775808\r\n\r\nx", "!protocol 400"},
	{"chunked twice",
	 "POST / HTTP/1.1\r\n" H
	 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	 "!protocol 400"},
	{"chunked isn't last",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
	 "!protocol 400"},
	{"identity", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n",
	 "!protocol 501"},
	{"gzip, chunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n",
	 "!protocol 501"},
	{"xchunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n",
	 "!protocol 501"},
	{"chunked in HTTP/1.0",
	 "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "!protocol 400"},
	{"space before the colon",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "!protocol 400"},
	{"tab before the colon", "GET / HTTP/1.1\r\n" H "A\t: b\r\n\r\n", "!protocol 400"},
	{"obs-fold", "GET / HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n", "!protocol 400"},
	{"obs-fold at the first field", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", "!protocol 400"},
	{"bare LF", "GET / HTTP/1.1\nHost: x\n\n", "!protocol 400"},
	{"bare LF behind a field", "GET / HTTP/1.1\r\n" H "A: b\n\r\n", "!protocol 400"},
	{"bare CR in a value", "GET / HTTP/1.1\r\n" H "A: b\rC: d\r\n\r\n", "!protocol 400"},
	{"control character in a value", "GET / HTTP/1.1\r\n" H "A: \x01\r\n\r\n", "!protocol 400"},
	{"bad name", "GET / HTTP/1.1\r\n" H "A(: b\r\n\r\n", "!protocol 400"},
	{"no name", "GET / HTTP/1.1\r\n" H ": b\r\n\r\n", "!protocol 400"},
	{"no colon", "GET / HTTP/1.1\r\n" H "Abc\r\n\r\n", "!protocol 400"},
	{"no Host", "GET / HTTP/1.1\r\n\r\n", "!protocol 400"},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "!protocol 400"},
	{"bad Host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "!protocol 400"},
	{"bad chunk size",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
	 "<POST / 1.1 chunked body>!protocol 400"},
	{"chunk size with 0x",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n",
	 "<POST / 1.1 chunked body>!protocol 400"},
	{"negative chunk size",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n",
	 "<POST / 1.1 chunked body>!protocol 400"},
	{"chunk size over 64 bits",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n",
	 "<POST / 1.1 chunked body>!protocol 400"},
	{"chunk longer than it says",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
	 "<POST / 1.1 chunked body>abc!protocol 400"},
	{"chunk ends with LF alone",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
	 "<POST / 1.1 chunked body>!protocol 400"},
	{"space behind a chunk size",
	 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
	 "<POST / 1.1 chunked body>!protocol 400"},
	{"unknown method", "FROB / HTTP/1.1\r\n" H "\r\n", "!protocol 501"},
	{"longer method", "GETX / HTTP/1.1\r\n" H "\r\n", "!protocol 501"},
	{"lower case method", "get / HTTP/1.1\r\n" H "\r\n", "!protocol 501"},
	{"not HTTP", "\x16\x03\x01\x02", "!protocol 400"},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "!protocol 505"},
	{"HTTP/2.0", "GET / HTTP/2.0\r\n" H "\r\n", "!protocol 505"},
	{"HTTP/1.2", "GET / HTTP/1.2\r\n" H "\r\n", "!protocol 505"},
	{"HTTP/0.9", "GET / HTTP/0.9\r\n" H "\r\n", "!protocol 505"},
	{"HTTP/x", "GET / HTTP/x\r\n" H "\r\n", "!protocol 400"},
	{"HTTQ", "GET / HTTQ/1.1\r\n" H "\r\n", "!protocol 400"},
	{"fragment", "GET /a#b HTTP/1.1\r\n" H "\r\n", "!protocol 400"},
	{"byte over 0x7f in the target", "GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n", "!protocol 400"},
	{"other expectation", "GET / HTTP/1.1\r\n" H "Expect: tea\r\n\r\n", "!unsupported 417"},
};

static void test_requests(void)
{
	const struct script script = {.role = HTTP_CODEC_REQUESTS};
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		check(requests[i].name, &script, str_of(requests[i].in), requests[i].want);

	check("NUL in a value", &script, STR("GET / HTTP/1.1\r\n" H "A: b\0c\r\n\r\n"),
	      "!protocol 400");
	check("NUL in the target", &script, STR("GET /\0 HTTP/1.1\r\n" H "\r\n"), "!protocol 400");
}

static const struct {
	const char *name, *in, *want;
	enum http_method expect;
	bool eof;
} responses[] = {
	{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
	 "<200 OK 1.1 length=2 body>ab."},
	{"no reason", "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", "<404  1.1 length=0>."},
	{"chunked",
	 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
	 "<200 OK 1.1 chunked body>a."},
	{"two on one connection",
	 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 201 Created\r\nContent-Length: "
	 "1\r\n\r\nb",
	 "<200 OK 1.1 length=1 body>a.<201 Created 1.1 length=1 body>b."},
	{"until close", "HTTP/1.1 200 OK\r\n\r\nabc", "<200 OK 1.1 close until-close body>abc.$",
	 .eof = true},
	{"until close, empty", "HTTP/1.1 200 OK\r\n\r\n", "<200 OK 1.1 close until-close body>.$",
	 .eof = true},
	{"until close, HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nabc",
	 "<200 OK 1.0 close until-close body>abc.$", .eof = true},
	{"HEAD with a length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
	 "<200 OK 1.1 length=9>.", HTTP_METHOD_HEAD},
	{"HEAD without a length", "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 404 x\r\n\r\n",
	 "<200 OK 1.1>.<404 x 1.1>.", HTTP_METHOD_HEAD},
	{"HEAD with chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	 "<200 OK 1.1 chunked>.", HTTP_METHOD_HEAD},
	{"204", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	 "<204 No Content 1.1>.<200 OK 1.1 length=0>."},
	{"304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
	 "<304 Not Modified 1.1 length=7>."},
	{"1xx first",
	 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: "
	 "x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
	 "<100 Continue 1.1>.<103 Early Hints 1.1 [Link=x]>.<200 OK 1.1 length=1 body>a."},
	{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\naJUNK",
	 "<200 OK 1.1 close length=1 body [Connection=close]>a."},
	{"101", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
	 "<101 Switching Protocols 1.1 close upgrade [Connection=Upgrade] [Upgrade=x]>."},
	{"nothing came", "", "$", .eof = true},
	{"ended in the head", "HTTP/1.1 200 OK\r\nA: b", "!protocol", .eof = true},
	{"ended in a body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
	 "<200 OK 1.1 length=5 body>ab!protocol", .eof = true},
	{"ended before the last chunk",
	 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
	 "<200 OK 1.1 chunked body>ab!protocol", .eof = true},
	{"ended between messages", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	 "<200 OK 1.1 length=0>.$", .eof = true},
	{"both lengths",
	 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "!protocol"},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
	 "!protocol"},
	{"gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "!protocol"},
	{"obs-fold", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "!protocol"},
	{"not HTTP", "SSH-2.0-OpenSSH\r\n", "!protocol"},
	{"bad status", "HTTP/1.1 2x0 OK\r\n\r\n", "!protocol"},
	{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", "!protocol"},
};

static void test_responses(void)
{
	for (size_t i = 0; i < sizeof(responses) / sizeof(responses[0]); i++) {
		const struct script script = {.role = HTTP_CODEC_RESPONSES,
					      .expect = responses[i].expect,
					      .eof = responses[i].eof};
		check(responses[i].name, &script, str_of(responses[i].in), responses[i].want);
	}
}

/* Builds "START a… END" with n times c in the middle. */
static char *padded(const char *start, char c, size_t n, const char *end)
{
	char *fill = xcalloc(1, n + 1);
	memset(fill, c, n);
	char *all = xasprintf("%s%s%s", start, fill, end);
	free(fill);
	return all;
}

static void test_limits(void)
{
	const struct http_limits limits = {.max_head_bytes = 200,
					   .max_headers = 4,
					   .max_target_bytes = 50,
					   .max_body_bytes = 10};
	const struct script script = {.role = HTTP_CODEC_REQUESTS, .limits = limits};
	static const struct {
		const char *name, *start;
		size_t n;
		const char *end, *want;
	} rows[] = {
		{"target fits", "GET /", 49, " HTTP/1.1\r\n" H "\r\n", NULL},
		{"target too long", "GET /", 50, " HTTP/1.1\r\n" H "\r\n", "!limit 414"},
		{"head fits", "GET / HTTP/1.1\r\n" H "A: ", 200 - 32, "\r\n\r\n", NULL},
		{"head too large", "GET / HTTP/1.1\r\n" H "A: ", 200 - 31, "\r\n\r\n",
		 "!limit 431"},
		{"name too long", "GET / HTTP/1.1\r\n" H "A", 400, ": b\r\n\r\n", "!limit 431"},
		{"four fields", "GET / HTTP/1.1\r\n" H "A:b\r\nA:b\r\nA: ", 1, "\r\n\r\n", NULL},
		{"five fields", "GET / HTTP/1.1\r\n" H "A:b\r\nA:b\r\nA:b\r\nA: ", 1, "\r\n\r\n",
		 "!limit 431"},
		{"body fits", "PUT / HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\n", 10, "", NULL},
		{"length too large", "PUT / HTTP/1.1\r\n" H "Content-Length: 11\r\n\r\n", 11, "",
		 "!limit 413"},
		{"chunks too large",
		 "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nb\r\n", 11,
		 "\r\n0\r\n\r\n", "<PUT / 1.1 chunked body>"},
		{"endless extension",
		 "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3;a=", 400, "",
		 "<PUT / 1.1 chunked body>!limit 400"},
		{"endless trailer",
		 "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nA: ", 400, "",
		 "<PUT / 1.1 chunked body>!limit 400"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_FREE char *in = padded(rows[i].start, 'a', rows[i].n, rows[i].end);
		CLEANUP_FREE char *whole = transcript(&script, str_of(in), strlen(in));
		CLEANUP_FREE char *bytes = transcript(&script, str_of(in), 0);
		row_begin("%s", rows[i].name);
		if (!rows[i].want) {
			ok(whole[strlen(whole) - 1] == '.' && !strchr(whole, '!'), "passes: %s",
			   whole);
			is_str(bytes, whole, "a byte at a time too");
		} else if (strchr(rows[i].want, '!')) {
			is_str(whole, rows[i].want, "refused");
			is_str(bytes, rows[i].want, "refused a byte at a time");
		} else {
			has_str(whole, "!limit 413", "refused");
			has_str(bytes, "!limit 413", "refused a byte at a time");
		}
		row_end();
	}
}

/* Many small chunks are an ordinary stream: their framing mustn't add up to the limit. */
static void test_long_stream(void)
{
	const struct http_limits limits = {.max_head_bytes = 100};
	struct http_codec *c = http_codec_new(HTTP_CODEC_RESPONSES, &limits);
	const struct script script = {.role = HTTP_CODEC_RESPONSES};
	struct buf out = BUF_INIT(1 << 16);
	int rc = feed(c, &script, STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
		      &out);
	for (int i = 0; i < 10000 && rc == 0; i++)
		rc = feed(c, &script, STR("1;x=y\r\na\r\n"), &out);
	is_int(rc, 0, "10000 chunks of one byte pass");
	http_codec_free(c);
	buf_done(&out);
}

static void test_failure_stays(void)
{
	struct http_codec *c = http_codec_new(HTTP_CODEC_REQUESTS, NULL);
	struct err first = ERR_INIT, second = ERR_INIT;
	enum http_codec_event event = HTTP_CODEC_MORE;
	size_t used = 77;
	struct str body = STR("untouched");

	ok(http_codec_idle(c), "idle at first");
	is_int(http_codec_feed(c, STR("?"), &used, &event, &body, &first), -1, "refused");
	is_int(http_codec_feed(c, STR("GET / HTTP/1.1\r\n" H "\r\n"), &used, &event, &body,
			       &second),
	       -1, "refused again");
	is_str(second.msg, first.msg, "with the same error");
	is_int(http_codec_eof(c, &event, &second), -1, "also at the end");
	ok(!http_codec_idle(c), "not idle any more");
	http_codec_free(c);
}

/* Inputs with bytes changed, dropped and doubled: whatever the codec makes of them, the way they
 * are cut mustn't matter. */
static void test_mutations(void)
{
	const size_t n = sizeof(requests) / sizeof(requests[0]);
	static const char bytes[] = "\r\n :,;0aZ\t\x7f\xff\x01";
	unsigned differ = 0;

	rand_seed(20240601);
	for (unsigned i = 0; i < 4000; i++) {
		const struct script script = {
			.role = HTTP_CODEC_REQUESTS,
			.limits = {.max_head_bytes = 300, .max_body_bytes = 20}};
		CLEANUP_FREE char *in = xstrdup(requests[rand_below(n)].in);
		size_t len = strlen(in);
		for (uint64_t edits = 1 + rand_below(3); edits > 0 && len > 1; edits--) {
			size_t at = (size_t)rand_below(len);
			if (rand_below(3) == 0)
				memmove(in + at, in + at + 1, len-- - at);
			else
				in[at] = bytes[rand_below(sizeof(bytes) - 1)];
		}
		CLEANUP_FREE char *whole = transcript(&script, (struct str){in, len}, len);
		CLEANUP_FREE char *single = transcript(&script, (struct str){in, len}, 0);
		CLEANUP_FREE char *two = transcript(&script, (struct str){in, len},
						    1 + (size_t)rand_below(len));
		/* Within the limit a piece of a body may be handed out before what follows fails.
		 */
		if (strcmp(single, whole) != 0 && !strstr(whole, "!limit") && differ++ == 0)
			diag("%s\n   whole %s\n  single %s", in, whole, single);
		if (strcmp(two, whole) != 0 && !strstr(whole, "!limit") && differ++ == 0)
			diag("%s\n   whole %s\n  in two %s", in, whole, two);
	}
	is_uint(differ, 0, "4000 changed inputs give the same, however they're cut");
}

static void test_write(void)
{
	struct buf b = BUF_INIT(4096);
	struct err err = ERR_INIT;
	const struct http_header fields[] = {HTTP_H("A", "b"), HTTP_H("C", "")};

	is_int(http_write_request(&b, HTTP_METHOD_POST, STR("/x?y"), "h:1", fields, 2, 3, &err), 0,
	       "a request");
	CLEANUP_FREE char *req = buf_steal(&b, NULL);
	is_str(req, "POST /x?y HTTP/1.1\r\nHost: h:1\r\nA: b\r\nC: \r\nContent-Length: 3\r\n\r\n",
	       "as it should be");

	static const struct {
		int status;
		enum http_framing framing;
		bool keep;
		const char *want;
	} rows[] = {
		{200, HTTP_FRAMING_LENGTH, true, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"},
		{404, HTTP_FRAMING_LENGTH, false,
		 "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\n"},
		{200, HTTP_FRAMING_CHUNKED, true,
		 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{200, HTTP_FRAMING_CLOSE, true, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
		{204, HTTP_FRAMING_NONE, true, "HTTP/1.1 204 No Content\r\n\r\n"},
		{100, HTTP_FRAMING_NONE, false, "HTTP/1.1 100 Continue\r\n\r\n"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		http_write_response(&b, rows[i].status, NULL, 0, rows[i].framing, 4, rows[i].keep,
				    &err);
		CLEANUP_FREE char *got = buf_steal(&b, NULL);
		is_str(got, rows[i].want, "response %zu", i);
	}
	http_write_chunk(&b, STR("0123456789"), &err);
	http_write_chunk(&b, STR(""), &err);
	http_write_last_chunk(&b, &err);
	CLEANUP_FREE char *chunks = buf_steal(&b, NULL);
	is_str(chunks, "a\r\n0123456789\r\n0\r\n\r\n", "chunks");
}

static void test_write_refuses(void)
{
	static const struct http_header bad[] = {
		{STR("A"), STR("b\r\nX: y")}, {STR("A"), STR("b\nX: y")}, {STR("A"), STR("b\0c")},
		{STR("A b"), STR("c")},       {STR("A:"), STR("c")},      {STR(""), STR("c")},
		{STR("A\r\nB"), STR("c")},    {STR("A"), STR("\x7f")},
	};
	struct buf b = BUF_INIT(4096);
	struct err err = ERR_INIT;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		is_int(http_write_request(&b, HTTP_METHOD_GET, STR("/"), "h", &bad[i], 1, -1, &err),
		       -1, "field %zu is refused in a request", i);
		is_int(http_write_response(&b, 200, &bad[i], 1, HTTP_FRAMING_LENGTH, 0, true, &err),
		       -1, "and in a response");
	}
	static const char *const targets[] = {"",     "a",     "/a b",     "/a\r\nX: y",
					      "/a#b", "/\x7f", "http://x/"};
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		is_int(http_write_request(&b, HTTP_METHOD_GET, str_of(targets[i]), "h", NULL, 0, -1,
					  &err),
		       -1, "target %zu is refused", i);
	is_int(http_write_request(&b, HTTP_METHOD_GET, STR("/"), "h\r\nA: b", NULL, 0, -1, &err),
	       -1, "a host with a line break is refused");
	is_int(http_write_request(&b, HTTP_METHOD_OTHER, STR("/"), "h", NULL, 0, -1, &err), -1,
	       "no method is refused");
	is_int(http_write_response(&b, 42, NULL, 0, HTTP_FRAMING_LENGTH, 0, true, &err), -1,
	       "no status is refused");
	is_uint(b.len, 0, "nothing was written");
	struct buf tiny = BUF_INIT(8);
	is_int(http_write_chunk(&tiny, STR("0123456789"), &err), -1, "a chunk over the limit");
	is_uint(tiny.len, 0, "leaves nothing behind");
	buf_done(&tiny);
	buf_done(&b);
}

int main(void)
{
	test_requests();
	test_responses();
	test_limits();
	test_long_stream();
	test_failure_stays();
	test_mutations();
	test_write();
	test_write_refuses();
	return done_testing();
}
