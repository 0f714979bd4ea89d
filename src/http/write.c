/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes heads and chunks of HTTP/1.1 messages into a buffer. A field that would break out of its
 * line is refused before anything of the message is in the buffer. Uses core/.
 */
#include "http/codec.h"

static int write_fields(struct buf *out, const struct http_header *headers, size_t n,
			struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (http_header_check(headers[i].name, headers[i].value, err) < 0 ||
		    buf_append_str(out, headers[i].name, err) < 0 ||
		    buf_append(out, ": ", 2, err) < 0 ||
		    buf_append_str(out, headers[i].value, err) < 0 ||
		    buf_append(out, "\r\n", 2, err) < 0)
			return -1;
	}
	return 0;
}

static int check_target(struct str target, struct err *err)
{
	if (target.len == 0 || (target.p[0] != '/' && !str_eqz(target, "*")))
		return err_set(err, ERR_INVALID, 0, "a request's target that doesn't begin with /");
	for (size_t i = 0; i < target.len; i++) {
		unsigned char c = (unsigned char)target.p[i];
		if (c <= 0x20 || c >= 0x7f || c == '#')
			return err_set(err, ERR_INVALID, 0,
				       "a character in a request's target that must be escaped");
	}
	return 0;
}

/* Appends all of part to out, or nothing. */
static int append_part(struct buf *out, struct buf *part, int rc, struct err *err)
{
	if (rc == 0)
		rc = buf_append_str(out, buf_str(part), err);
	buf_done(part);
	return rc;
}

int http_write_request(struct buf *out, enum http_method method, struct str target,
		       const char *host, const struct http_header *headers, size_t n_headers,
		       int64_t content_length, struct err *err)
{
	struct buf part = BUF_SECRET(out->limit);
	int rc;

	if (check_target(target, err) < 0)
		return -1;
	if (http_header_check(STR("Host"), str_of(host), err) < 0)
		return -1;
	if (method <= HTTP_METHOD_NONE || method >= HTTP_METHOD_OTHER)
		return err_set(err, ERR_INVALID, 0, "no method");
	rc = buf_printf(&part, err, "%s %.*s HTTP/1.1\r\nHost: %s\r\n", http_method_name(method),
			STR_ARG(target), host);
	if (rc == 0)
		rc = write_fields(&part, headers, n_headers, err);
	if (rc == 0 && content_length >= 0)
		rc = buf_printf(&part, err, "Content-Length: %lld\r\n", (long long)content_length);
	if (rc == 0)
		rc = buf_append(&part, "\r\n", 2, err);
	return append_part(out, &part, rc, err);
}

int http_write_response(struct buf *out, int status, const struct http_header *headers,
			size_t n_headers, enum http_framing framing, uint64_t content_length,
			bool keep_alive, struct err *err)
{
	struct buf part = BUF_INIT(out->limit);
	int rc;

	if (status < 100 || status > 599)
		return err_set(err, ERR_INVALID, 0, "%d is no status code", status);
	rc = buf_printf(&part, err, "HTTP/1.1 %d %s\r\n", status, http_status_reason(status));
	if (rc == 0)
		rc = write_fields(&part, headers, n_headers, err);
	if (rc == 0 && framing == HTTP_FRAMING_LENGTH)
		rc = buf_printf(&part, err, "Content-Length: %llu\r\n",
				(unsigned long long)content_length);
	if (rc == 0 && framing == HTTP_FRAMING_CHUNKED)
		rc = buf_append_str(&part, STR("Transfer-Encoding: chunked\r\n"), err);
	if (rc == 0 && (!keep_alive || framing == HTTP_FRAMING_CLOSE) && status >= 200)
		rc = buf_append_str(&part, STR("Connection: close\r\n"), err);
	if (rc == 0)
		rc = buf_append(&part, "\r\n", 2, err);
	return append_part(out, &part, rc, err);
}

int http_write_chunk(struct buf *out, struct str data, struct err *err)
{
	size_t before = out->len;

	/* An empty chunk would be the last one. */
	if (data.len == 0)
		return 0;
	if (buf_printf(out, err, "%zx\r\n", data.len) < 0)
		return -1;
	size_t head = out->len - before;
	if (out->limit - out->len < data.len + 2) {
		out->len -= head;
		return err_set(err, ERR_LIMIT, 0, "output over %zu bytes", out->limit);
	}
	if (buf_append_str(out, data, err) < 0 || buf_append(out, "\r\n", 2, err) < 0) {
		out->len = before;
		return -1;
	}
	return 0;
}

int http_write_last_chunk(struct buf *out, struct err *err)
{
	return buf_append(out, "0\r\n\r\n", 5, err);
}
