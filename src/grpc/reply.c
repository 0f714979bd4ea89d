/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges responses by the gRPC protocol ("Responses" and "Errors" of grpc/grpc
 * doc/PROTOCOL-HTTP2.md). Pure.
 * Uses core only.
 */
#include "reply.h"

#include <stdio.h>

#include "grpc/status.h"

/* "application/grpc", alone or with a "+subtype" or ";parameter" behind it. */
static bool is_grpc_type(struct str type)
{
	static const struct str want = {"application/grpc", sizeof("application/grpc") - 1};

	return str_has_prefix(type, want) &&
	       (type.len == want.len || type.p[want.len] == '+' || type.p[want.len] == ';');
}

/* The response isn't gRPC's: a proxy's error page, or another kind of server. */
static int judge_foreign(int http_status, struct str type, struct err *err)
{
	enum grpc_status status = grpc_status_from_http(http_status);
	char text[160];

	if (http_status == 200)
		snprintf(text, sizeof(text), "the server answered with content-type \"%.*s\"",
			 (int)(type.len < 80 ? type.len : 80), type.p ? type.p : "");
	else
		snprintf(text, sizeof(text), "the server answered with HTTP status %d",
			 http_status);
	return grpc_status_to_err(status, str_of(text), err);
}

/* -1: it isn't there; GRPC_UNKNOWN: it isn't a number. */
static int read_status(struct str value)
{
	int64_t status = GRPC_UNKNOWN;

	if (!value.p)
		return -1;
	if (str_to_int(value, 0, INT32_MAX, &status, NULL) < 0)
		return GRPC_UNKNOWN;
	return (int)status;
}

static unsigned read_pushback(const struct h2_header *fields, size_t n)
{
	int64_t ms = 0;

	if (str_to_int(h2_header_get(fields, n, "grpc-retry-pushback-ms"), 0, 3600000, &ms, NULL) <
	    0)
		return 0;
	return (unsigned)ms;
}

int grpc_reply_judge(const struct h2_message *msg, struct str *ret_message, struct err *err)
{
	struct str type = h2_header_get(msg->headers, msg->n_headers, "content-type");
	int64_t http_status = 0;
	const struct h2_header *last = msg->trailers;
	size_t n_last = msg->n_trailers;
	char text[220];

	str_to_int(h2_header_get(msg->headers, msg->n_headers, ":status"), 100, 999, &http_status,
		   NULL);
	if (n_last == 0) { /* trailers only: all is in the one header block */
		last = msg->headers;
		n_last = msg->n_headers;
	}
	int status = read_status(h2_header_get(last, n_last, "grpc-status"));
	if (!is_grpc_type(type) || (http_status != 200 && status < 0))
		return judge_foreign((int)http_status, type, err);
	if (status < 0)
		return grpc_status_to_err(GRPC_UNKNOWN, STR("the server sent no grpc-status"), err);
	if (status != GRPC_OK) {
		grpc_message_decode(h2_header_get(last, n_last, "grpc-message"), text,
				    sizeof(text));
		grpc_status_to_err(status, str_of(text), err);
		if (err)
			err->retry_after_ms = read_pushback(last, n_last);
		return -1;
	}
	if (grpc_frame_parse(msg->body, ret_message, err) < 0) {
		if (err)
			err->maybe_applied = true;
		return err_wrap(err, "the server's reply");
	}
	return 0;
}

int grpc_reply_reset(const struct h2_event *ev, struct err *err)
{
	bool maybe_applied = true;
	enum grpc_status status = grpc_status_from_h2(ev->code, &maybe_applied);

	if (!ev->by_peer && ev->code == H2_ENHANCE_YOUR_CALM)
		err_set(err, ERR_LIMIT, GRPC_RESOURCE_EXHAUSTED, "the server's reply: %s",
			ev->text);
	else if (!ev->by_peer && ev->code != H2_REFUSED_STREAM)
		err_set(err, ERR_PROTOCOL, GRPC_INTERNAL, "the server's reply: %s",
			ev->text[0] ? ev->text : "broken HTTP/2");
	else /* a transport's doing, whatever the number says about the request */
		err_set(err, ERR_UNAVAILABLE, status,
			"the server reset the stream (HTTP/2 code %u, %s)", ev->code,
			grpc_status_name(status));
	if (err)
		err->maybe_applied = maybe_applied;
	return -1;
}
