/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's own conventions on top of HTTP/2, without I/O: status codes and what they mean to us,
 * percent-encoded messages, timeouts, message framing (grpc/grpc doc/PROTOCOL-HTTP2.md).
 * Uses core only.
 */
#ifndef IPU_GRPC_STATUS_H
#define IPU_GRPC_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED,
	GRPC_UNKNOWN,
	GRPC_INVALID_ARGUMENT,
	GRPC_DEADLINE_EXCEEDED,
	GRPC_NOT_FOUND,
	GRPC_ALREADY_EXISTS,
	GRPC_PERMISSION_DENIED,
	GRPC_RESOURCE_EXHAUSTED,
	GRPC_FAILED_PRECONDITION,
	GRPC_ABORTED,
	GRPC_OUT_OF_RANGE,
	GRPC_UNIMPLEMENTED,
	GRPC_INTERNAL,
	GRPC_UNAVAILABLE,
	GRPC_DATA_LOSS,
	GRPC_UNAUTHENTICATED,
};
#define GRPC_STATUS_COUNT 17

const char *grpc_status_name(int status); /* "NOT_FOUND"; "UNKNOWN" for numbers that aren't one */
int grpc_status_from_name(struct str name, enum grpc_status *ret, struct err *err);

/* Fills err with a status that came from the server: code is the status, the kind is what it means
 * to us, maybe_applied is false where the status says for certain that nothing was done (true for
 * CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, ABORTED, INTERNAL, UNAVAILABLE, DATA_LOSS and numbers that
 * aren't in the list). message may be empty. Returns -1. */
int grpc_status_to_err(int status, struct str message, struct err *err);

/* What a response without grpc-status means, by its HTTP status (grpc/grpc
 * doc/http-grpc-status-mapping.md).
 */
enum grpc_status grpc_status_from_http(int http_status);

/* What an HTTP/2 error code on RST_STREAM means. *ret_applied: whether the request may have been
 * processed; false for REFUSED_STREAM only (RFC 9113, 8.7). */
enum grpc_status grpc_status_from_h2(uint32_t error_code, bool *ret_maybe_applied);

/* Percent-encoding of grpc-message. Decoding never fails: broken sequences stay as they are, and
 * bytes that aren't UTF-8 or are control characters become '?'. z holds at most size - 1 bytes. */
int grpc_message_encode(struct str message, struct buf *out, struct err *err);
void grpc_message_decode(struct str encoded, char *ret_z, size_t size);

/* grpc-timeout: at most eight digits and a unit. Rounded down so that the peer gives up first. */
#define GRPC_TIMEOUT_SIZE 24
void grpc_timeout_format(int64_t ms, char ret_z[GRPC_TIMEOUT_SIZE]);
int grpc_timeout_parse(struct str s, int64_t *ret_ms, struct err *err);

/* One length-prefixed message, which is all that a unary call's body holds in each direction. */
#define GRPC_FRAME_HEADER_BYTES 5
void grpc_frame_header(size_t len, uint8_t ret[GRPC_FRAME_HEADER_BYTES]);
/* The message in body, borrowed. Errors (ERR_PROTOCOL, code is the gRPC status that they stand
 * for): none, cut short, more than one, compressed. */
int grpc_frame_parse(struct str body, struct str *ret_message, struct err *err);

#endif
