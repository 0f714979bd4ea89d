/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 messages: whole and in pieces they give the same events, and a head that was read and is
 * written again reads the same.
 * Input: a letter (Q: requests, R: responses, H: responses to HEAD, U and V: Q and R with small
 * limits; in lower case the peer closes behind the bytes), a byte that chooses the pieces, the
 * bytes.
 */
#include "fuzz.h"
#include "http/codec.h"

struct run {
	enum http_codec_role role;
	enum http_method expect;
	struct http_limits limits;
	bool eof, rewrite;
	size_t body_at; /* where in the transcript the message's body begins */
};

#define SMALL_LIMITS                                                                               \
	{.max_head_bytes = 96, .max_headers = 3, .max_target_bytes = 16, .max_body_bytes = 32}

static void add_head(struct buf *out, const struct http_head *h)
{
	fuzz_add(out, "<%s %.*s %d %.*s 1.%d %d%d%d%d%d%d %lld", http_method_name(h->method),
		 STR_ARG(h->target), h->status, STR_ARG(h->reason), h->minor, h->keep_alive,
		 h->chunked, h->has_body, h->until_close, h->expect_continue, h->upgrade,
		 (long long)h->content_length);
	for (size_t i = 0; i < h->headers.len; i++) {
		struct http_header f = http_headers_at(&h->headers, i);
		MUST(f.name.p[f.name.len] == '\0' && f.value.p[f.value.len] == '\0');
		MUST(http_header_check(f.name, f.value, NULL) == 0);
		fuzz_add(out, "|%.*s=%.*s", STR_ARG(f.name), STR_ARG(f.value));
	}
	fuzz_add(out, ">");
}

/* The fields that http_write_request takes from its caller. */
static size_t own_fields(const struct http_head *h, struct http_header *ret)
{
	static const char *const written[] = {"host", "content-length", "transfer-encoding",
					      "connection"};
	size_t n = 0;

	for (size_t i = 0; i < h->headers.len; i++) {
		struct http_header f = http_headers_at(&h->headers, i);
		bool skip = false;
		for (size_t j = 0; j < 4; j++)
			skip = skip || str_ieqz(f.name, written[j]);
		if (!skip)
			ret[n++] = f;
	}
	return n;
}

static void must_be_head(const struct run *run, struct str bytes, const struct http_head *was,
			 const struct http_header *fields, size_t n)
{
	struct http_codec *c = http_codec_new(run->role, NULL);
	struct http_header back[HTTP_MAX_HEADERS];
	enum http_codec_event event;
	struct str body;
	size_t used;

	http_codec_expect(c, run->expect);
	MUST(http_codec_feed(c, bytes, &used, &event, &body, NULL) == 0);
	MUST(event == HTTP_CODEC_HEAD);
	const struct http_head *h = http_codec_head(c);
	MUST(h->method == was->method && h->status == was->status);
	MUST(str_eq(h->target, was->target));
	MUST(own_fields(h, back) == n);
	for (size_t i = 0; i < n; i++)
		MUST(str_eq(back[i].name, fields[i].name) &&
		     str_eq(back[i].value, fields[i].value));
	http_codec_free(c);
}

static void rewrite(const struct run *run, const struct http_head *h)
{
	struct http_header fields[HTTP_MAX_HEADERS];
	size_t n = own_fields(h, fields);
	struct str host = http_headers_get(&h->headers, "host");
	struct buf out = FUZZ_TEXT;
	int rc;

	/* What is written is of 1.1, which has rules of its own. One field may come to it, and one
	 * space to each. */
	if (h->minor == 0 || n + 2 > HTTP_MAX_HEADERS ||
	    h->headers.text.len > HTTP_MAX_HEAD_BYTES / 2)
		return;
	if (run->role == HTTP_CODEC_REQUESTS)
		rc = http_write_request(&out, h->method, h->target, host.p ? host.p : "x", fields,
					n, -1, NULL);
	else
		rc = http_write_response(&out, h->status, fields, n, HTTP_FRAMING_NONE, 0, true,
					 NULL);
	if (rc == 0)
		must_be_head(run, buf_str(&out), h, fields, n);
	else
		MUST(out.len == 0);
	buf_done(&out);
}

/* False after an error, which is in the transcript then. */
static bool feed(struct http_codec *c, struct run *run, struct str s, struct buf *out)
{
	for (;;) {
		enum http_codec_event event;
		size_t used;
		struct str body;
		struct err err = ERR_INIT;

		if (http_codec_feed(c, s, &used, &event, &body, &err) < 0) {
			MUST(err.kind == ERR_PROTOCOL || err.kind == ERR_LIMIT ||
			     err.kind == ERR_UNSUPPORTED);
			/* How much of a body comes before its limit is met depends on the pieces,
			 * and so does what is met first, that or something broken behind it. */
			if (run->limits.max_head_bytes > 0) {
				out->len = run->body_at;
				fuzz_add(out, "!");
				return false;
			}
			fuzz_add(out, "!%s %d", err_kind_name(err.kind), err.code);
			MUST(http_codec_feed(c, STR_NULL, &used, &event, &body, NULL) < 0);
			return false;
		}
		MUST(used <= s.len);
		s.p += used;
		s.len -= used;
		if (event == HTTP_CODEC_MORE) {
			MUST(s.len == 0);
			return true;
		}
		if (event == HTTP_CODEC_HEAD) {
			add_head(out, http_codec_head(c));
			run->body_at = out->len;
			if (run->rewrite)
				rewrite(run, http_codec_head(c));
		} else if (event == HTTP_CODEC_BODY) {
			fuzz_add_str(out, body);
		} else {
			fuzz_add(out, ".");
			run->body_at = out->len;
		}
	}
}

static struct buf transcript(struct run *run, struct str s, int way)
{
	struct http_codec *c = http_codec_new(run->role, &run->limits);
	struct fuzz_pieces it = FUZZ_PIECES(s, way);
	struct buf out = FUZZ_TEXT;
	struct str piece;
	bool fine = true;

	run->body_at = 0;
	http_codec_expect(c, run->expect);
	while (fuzz_pieces_next(&it, &piece))
		fine = fine && feed(c, run, piece, &out);
	if (fine && run->eof) {
		enum http_codec_event event;
		struct err err = ERR_INIT;
		if (http_codec_eof(c, &event, &err) < 0)
			fuzz_add(&out, "!%s", err_kind_name(err.kind));
		else
			fuzz_add(&out, "$%d", event);
	}
	http_codec_free(c);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	char letter = fuzz_take(&s, 'Q');
	char upper = (char)(letter & ~0x20);
	int seed = (unsigned char)fuzz_take(&s, '.');
	struct run run = {
		.role = upper == 'Q' || upper == 'U' ? HTTP_CODEC_REQUESTS : HTTP_CODEC_RESPONSES,
		.expect = upper == 'H' ? HTTP_METHOD_HEAD : HTTP_METHOD_GET,
		.eof = letter != upper,
		.rewrite = true,
	};
	struct buf whole, bytes, pieces;

	if (upper == 'U' || upper == 'V')
		run.limits = (struct http_limits)SMALL_LIMITS;
	whole = transcript(&run, s, FUZZ_WHOLE);
	run.rewrite = false;
	pieces = transcript(&run, s, seed);
	bytes = transcript(&run, s, FUZZ_BYTES);
	MUST(str_eq(buf_str(&bytes), buf_str(&whole)));
	buf_done(&bytes);
	fuzz_same(&whole, &pieces);
	return 0;
}
