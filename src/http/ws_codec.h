/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket frames (RFC 6455, 5) without I/O: bytes in, events out, for either role.
 * One codec a connection, embedded in its owner; it borrows the bytes that it's fed and calls
 * nobody. Uses core/.
 */
#ifndef IPU_HTTP_WS_CODEC_H
#define IPU_HTTP_WS_CODEC_H

#include "core/buf.h"
#include "http/websocket.h"

#define WS_CONTROL_BYTES 125 /* the largest payload of a control frame */
#define WS_HEAD_BYTES    14  /* the largest frame header */

enum ws_opcode {
	WS_OP_CONTINUATION = 0,
	WS_OP_TEXT = 1,
	WS_OP_BINARY = 2,
	WS_OP_CLOSE = 8,
	WS_OP_PING = 9,
	WS_OP_PONG = 10,
};

enum ws_role { WS_CLIENT, WS_SERVER };

enum ws_event_type {
	WS_EVENT_MORE,  /* nothing yet: feed more */
	WS_EVENT_PIECE, /* piece */
	WS_EVENT_PING,  /* control: the payload, which a pong repeats */
	WS_EVENT_PONG,  /* control */
	WS_EVENT_CLOSE, /* code, control: the reason. Nothing is read behind it */
};

struct ws_event {
	enum ws_event_type type;
	struct ws_piece piece;
	struct str control;
	int code;
};

struct ws_codec {
	enum ws_role role;
	uint64_t max_message_bytes;
	/* The frame. */
	uint8_t head[WS_HEAD_BYTES];
	size_t head_len;
	bool in_payload;
	uint8_t opcode;
	bool fin;
	uint8_t mask[4];
	unsigned mask_at;
	uint64_t left; /* of its payload */
	/* The message. */
	bool in_message, binary, begun; /* begun: a piece of it was handed over */
	uint64_t message_bytes;
	uint8_t utf8_left, utf8_low, utf8_high; /* of a sequence that isn't complete */
	uint8_t control[WS_CONTROL_BYTES];
	size_t control_len;
	char *unmasked; /* a piece, of a server's peer; allocated when it's needed */
	bool closed;
	enum ws_code failure_code; /* to tell the peer */
	struct err failure;        /* kind 0: none */
};

void ws_codec_init(struct ws_codec *c, enum ws_role role, uint64_t max_message_bytes);
void ws_codec_done(struct ws_codec *c);

/* Reads from s until there is an event or s is used up; *ret_used bytes of it are done with. What
 * the event points to lives until the next call, and as long as s. Behind a Close all bytes are
 * used up without an event.
 * Errors: ERR_PROTOCOL, and ERR_LIMIT for a message over its limit, and the same again from every
 * later call; failure_code is what a Close should say. Refused: bits and opcodes that nobody has
 * agreed on, control frames that are large or in fragments, continuations of nothing, messages
 * within messages, a mask where none belongs and none where one does, lengths that aren't written
 * in the shortest way, text that isn't UTF-8, Close codes that mustn't be sent. */
int ws_codec_feed(struct ws_codec *c, struct str s, size_t *ret_used, struct ws_event *ret,
		  struct err *err);

/* Appends one frame whose payload is the parts one after the other; a client's is masked with a
 * fresh key. ERR_LIMIT (then nothing was appended). */
int ws_write_frame(struct buf *out, enum ws_role role, enum ws_opcode opcode, bool fin,
		   const struct str *parts, size_t n_parts, struct err *err);
/* A Close; code WS_CODE_NONE: an empty one. The reason is cut to what fits. */
int ws_write_close(struct buf *out, enum ws_role role, int code, struct str reason,
		   struct err *err);
bool ws_code_may_be_sent(int code); /* RFC 6455, 7.4 */

/* Sec-WebSocket-Accept for a key (RFC 6455, 4.2.2). */
#define WS_ACCEPT_SIZE 29
#define WS_KEY_SIZE    25
void ws_accept_of(struct str key, char ret_z[WS_ACCEPT_SIZE]);
void ws_new_key(char ret_z[WS_KEY_SIZE]);
/* 16 bytes in Base64. */
bool ws_is_key(struct str key);

#endif
