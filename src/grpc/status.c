/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's conventions without I/O: what codes mean, how messages, timeouts and frames are written.
 * Tables and parsers; owns nothing. Uses core only.
 */
#include "grpc/status.h"

#include <inttypes.h>
#include <stdio.h>

/* What each status means to us. certain: a server that gives it hasn't done what was asked. */
static const struct {
	const char *name;
	enum err_kind kind;
	bool certain;
} statuses[GRPC_STATUS_COUNT] = {
	[GRPC_OK] = {"OK", ERR_NONE, true},
	[GRPC_CANCELLED] = {"CANCELLED", ERR_INTERNAL, false},
	[GRPC_UNKNOWN] = {"UNKNOWN", ERR_INTERNAL, false},
	[GRPC_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", ERR_INVALID, true},
	[GRPC_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", ERR_TIMEOUT, false},
	[GRPC_NOT_FOUND] = {"NOT_FOUND", ERR_NOT_FOUND, true},
	[GRPC_ALREADY_EXISTS] = {"ALREADY_EXISTS", ERR_EXISTS, true},
	[GRPC_PERMISSION_DENIED] = {"PERMISSION_DENIED", ERR_DENIED, true},
	[GRPC_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", ERR_BUSY, true},
	[GRPC_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", ERR_BUSY, true},
	[GRPC_ABORTED] = {"ABORTED", ERR_CONFLICT, false},
	[GRPC_OUT_OF_RANGE] = {"OUT_OF_RANGE", ERR_INVALID, true},
	[GRPC_UNIMPLEMENTED] = {"UNIMPLEMENTED", ERR_UNSUPPORTED, true},
	[GRPC_INTERNAL] = {"INTERNAL", ERR_INTERNAL, false},
	[GRPC_UNAVAILABLE] = {"UNAVAILABLE", ERR_UNAVAILABLE, false},
	[GRPC_DATA_LOSS] = {"DATA_LOSS", ERR_INTERNAL, false},
	[GRPC_UNAUTHENTICATED] = {"UNAUTHENTICATED", ERR_DENIED, true},
};

static int known_status(int status)
{
	return status >= 0 && status < GRPC_STATUS_COUNT ? status : GRPC_UNKNOWN;
}

const char *grpc_status_name(int status)
{
	return statuses[known_status(status)].name;
}

int grpc_status_from_name(struct str name, enum grpc_status *ret, struct err *err)
{
	for (int i = 0; i < GRPC_STATUS_COUNT; i++) {
		if (str_ieqz(name, statuses[i].name)) {
			*ret = (enum grpc_status)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no gRPC status", STR_ARG(name));
}

int grpc_status_to_err(int status, struct str message, struct err *err)
{
	int known = known_status(status);
	size_t cut = str_utf8_cut(message, 200); /* the name behind it must fit */

	if (known == GRPC_OK)
		known = GRPC_UNKNOWN;
	if (cut > 0)
		err_set(err, statuses[known].kind, known, "%.*s (%s)", (int)cut, message.p,
			statuses[known].name);
	else
		err_set(err, statuses[known].kind, known, "the server answered %s",
			statuses[known].name);
	if (err)
		err->maybe_applied = known != status || !statuses[known].certain;
	return -1;
}

enum grpc_status grpc_status_from_http(int http_status)
{
	switch (http_status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

enum grpc_status grpc_status_from_h2(uint32_t error_code, bool *ret_maybe_applied)
{
	/* RFC 9113, 7, by the table of grpc/grpc doc/PROTOCOL-HTTP2.md, "Errors". */
	static const enum grpc_status by_code[] = {
		GRPC_INTERNAL,           /* NO_ERROR */
		GRPC_INTERNAL,           /* PROTOCOL_ERROR */
		GRPC_INTERNAL,           /* INTERNAL_ERROR */
		GRPC_INTERNAL,           /* FLOW_CONTROL_ERROR */
		GRPC_INTERNAL,           /* SETTINGS_TIMEOUT */
		GRPC_UNKNOWN,            /* STREAM_CLOSED */
		GRPC_INTERNAL,           /* FRAME_SIZE_ERROR */
		GRPC_UNAVAILABLE,        /* REFUSED_STREAM */
		GRPC_CANCELLED,          /* CANCEL */
		GRPC_INTERNAL,           /* COMPRESSION_ERROR */
		GRPC_INTERNAL,           /* CONNECT_ERROR */
		GRPC_RESOURCE_EXHAUSTED, /* ENHANCE_YOUR_CALM */
		GRPC_PERMISSION_DENIED,  /* INADEQUATE_SECURITY */
	};
	*ret_maybe_applied = error_code != 7;
	return error_code < sizeof(by_code) / sizeof(by_code[0]) ? by_code[error_code]
								 : GRPC_UNKNOWN;
}

int grpc_message_encode(struct str message, struct buf *out, struct err *err)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < message.len; i++) {
		unsigned char c = (unsigned char)message.p[i];
		char coded[3] = {'%', hex[c >> 4], hex[c & 15]};
		bool plain = c >= 0x20 && c <= 0x7e && c != '%';
		if (buf_append(out, plain ? &message.p[i] : coded, plain ? 1 : 3, err) < 0)
			return -1;
	}
	return 0;
}

void grpc_message_decode(struct str encoded, char *ret_z, size_t size)
{
	size_t raw = 0, out = 0;

	for (size_t i = 0; i < encoded.len && raw + 1 < size; raw++) {
		int high = -1, low = -1;
		if (encoded.p[i] == '%' && encoded.len - i > 2) {
			high = hex_digit(encoded.p[i + 1]);
			low = hex_digit(encoded.p[i + 2]);
		}
		if (high >= 0 && low >= 0) {
			ret_z[raw] = (char)(high << 4 | low);
			i += 3;
		} else {
			ret_z[raw] = encoded.p[i++];
		}
	}
	for (size_t i = 0; i < raw;) {
		size_t n = str_utf8_first((struct str){ret_z + i, raw - i});
		unsigned char c = (unsigned char)ret_z[i];
		if (n == 0 || c < 0x20 || c == 0x7f) {
			ret_z[out++] = '?';
			i++;
			continue;
		}
		memmove(ret_z + out, ret_z + i, n);
		out += n;
		i += n;
	}
	ret_z[out] = '\0';
}

void grpc_timeout_format(int64_t ms, char ret_z[GRPC_TIMEOUT_SIZE])
{
	static const struct {
		int64_t ms;
		char unit;
	} units[] = {{1, 'm'}, {1000, 'S'}, {60000, 'M'}, {3600000, 'H'}};
	const int64_t most = 99999999; /* eight digits */
	size_t i = 0;

	if (ms < 1)
		ms = 1;
	while (ms / units[i].ms > most && i + 1 < sizeof(units) / sizeof(units[0]))
		i++;
	int64_t n = ms / units[i].ms;
	snprintf(ret_z, GRPC_TIMEOUT_SIZE, "%" PRId64 "%c", n > most ? most : n, units[i].unit);
}

int grpc_timeout_parse(struct str s, int64_t *ret_ms, struct err *err)
{
	int64_t n, ms;

	if (s.len < 2 || s.len > 9 || s.p[0] == '-' ||
	    str_to_int((struct str){s.p, s.len - 1}, 0, 99999999, &n, NULL) < 0)
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL, "bad grpc-timeout \"%.*s\"",
			       STR_ARG(s));
	switch (s.p[s.len - 1]) {
	case 'H':
		ms = n * 3600000;
		break;
	case 'M':
		ms = n * 60000;
		break;
	case 'S':
		ms = n * 1000;
		break;
	case 'm':
		ms = n;
		break;
	case 'u':
		ms = n / 1000;
		break;
	case 'n':
		ms = n / 1000000;
		break;
	default:
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL,
			       "bad unit of grpc-timeout \"%.*s\"", STR_ARG(s));
	}
	*ret_ms = ms;
	return 0;
}

void grpc_frame_header(size_t len, uint8_t ret[GRPC_FRAME_HEADER_BYTES])
{
	ret[0] = 0; /* not compressed */
	for (int i = 0; i < 4; i++)
		ret[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

int grpc_frame_parse(struct str body, struct str *ret_message, struct err *err)
{
	const uint8_t *p = (const uint8_t *)body.p;

	if (body.len == 0)
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL, "no message came");
	if (body.len < GRPC_FRAME_HEADER_BYTES)
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL, "a message was cut short");
	if (p[0] > 1)
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL,
			       "a message has the unknown flags %u", p[0]);
	if (p[0] == 1)
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL,
			       "a message is compressed, and no encoding was agreed on");
	size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (len > body.len - GRPC_FRAME_HEADER_BYTES)
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL, "a message was cut short");
	if (len < body.len - GRPC_FRAME_HEADER_BYTES)
		return err_set(err, ERR_PROTOCOL, GRPC_INTERNAL, "more than one message came");
	*ret_message = (struct str){body.p + GRPC_FRAME_HEADER_BYTES, len};
	return 0;
}
