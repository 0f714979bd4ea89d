/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of remote execution say to each other (doc/design/remote-execution.md): frames
 * of a type, a length of three bytes and a payload, over the exec's stdin (near → far) and stdout
 * (far → near). No I/O; uses core.
 */
#ifndef IPU_LAUNCHER_WIRE_H
#define IPU_LAUNCHER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

#define WIRE_VERSION      1
#define WIRE_HEAD_BYTES   4
#define WIRE_MAX_PAYLOAD  ((size_t)256 << 10)
#define WIRE_MAX_DATA     ((size_t)16 << 10)    /* of a stream in one frame */
#define WIRE_WINDOW_BYTES ((uint32_t)256 << 10) /* of a stream, on its way at the beginning */
#define WIRE_ID_BYTES     32                    /* hex digits */
#define WIRE_MAX_STRINGS  8192

enum wire_stream { WIRE_STDIN, WIRE_STDOUT, WIRE_STDERR, WIRE_STREAMS };

enum wire_type {
	WIRE_HELLO = 1,   /* far: the first thing that it says */
	WIRE_START = 2,   /* near: run this. Once, after the hello. */
	WIRE_STARTED = 3, /* far: it runs */
	WIRE_FAILED = 4,  /* far: it can't be run; nothing follows */
	WIRE_DATA = 5,    /* bytes of a stream, within the credit that its reader gave */
	WIRE_CLOSE = 6,   /* of a stream: its writer has no more, or its reader wants no more */
	WIRE_CREDIT = 7,  /* the reader of a stream takes so many bytes more */
	WIRE_SIGNAL = 8,  /* near: for the command's process group */
	WIRE_PING = 9,    /* either is still there */
	WIRE_EXITED = 10, /* far: the command has ended */
	WIRE_LEFT = 11,   /* far: and its output too, but it has left processes behind */
	WIRE_ENDED = 12,  /* far: nothing of it is left; nothing follows */
	WIRE_END = 13,    /* near: end all of it */
};

struct wire_start {
	uint32_t ping_ms;    /* each side says something at least so often */
	uint32_t silence_ms; /* who heard nothing for so long gives the other up */
	uint32_t grace_ms;   /* between TERM and KILL */
	uint16_t n_args, n_env;
	struct str strings; /* the arguments, then "NAME=value"; each ends with a NUL. Borrowed. */
};

struct wire_frame {
	enum wire_type type;
	enum wire_stream stream; /* DATA, CLOSE, CREDIT */
	struct str data;         /* DATA; FAILED: why; LEFT: the session's name, for another near
				  * end. Borrowed until the next call. */
	uint32_t n;              /* HELLO: version; CREDIT: bytes; SIGNAL: which; STARTED: pid;
				  * FAILED and EXITED: an exit status as shells have it */
	struct wire_start start;
};

/* ---- reading ---- */

struct wire_reader {
	struct buf in;
	size_t taken; /* the frame that was handed out last */
};

void wire_reader_init(struct wire_reader *r);
void wire_reader_done(struct wire_reader *r);
/* ERR_LIMIT: whoever feeds doesn't take the frames out. */
int wire_feed(struct wire_reader *r, struct str bytes, struct err *err);
/* 1: a frame; 0: more bytes are needed; -1: ERR_PROTOCOL, and nothing more can be read. */
int wire_next(struct wire_reader *r, struct wire_frame *ret, struct err *err);

/* The strings of a START as vectors that end with NULL, in one allocation each, freed with free():
 * pointers into start->strings. */
void wire_start_vectors(const struct wire_start *start, char ***ret_args, char ***ret_env);

/* ---- writing: appended to out, which must have room ---- */

int wire_put(struct buf *out, enum wire_type type, struct err *err); /* those without payload */
int wire_put_hello(struct buf *out, struct err *err);
/* ERR_LIMIT where the command is too long. args and env end with NULL; env may be NULL. */
int wire_put_start(struct buf *out, const struct wire_start *start, const char *const *args,
		   const char *const *env, struct err *err);
int wire_put_failed(struct buf *out, uint8_t status, const char *why, struct err *err);
/* len: 1 to WIRE_MAX_DATA. */
int wire_put_data(struct buf *out, enum wire_stream stream, struct str data, struct err *err);
/* id_z: WIRE_ID_BYTES hex digits. */
int wire_put_left(struct buf *out, const char *id_z, struct err *err);
/* Whether it can be a session's name. */
bool wire_is_id(struct str id);
int wire_put_close(struct buf *out, enum wire_stream stream, struct err *err);
/* STARTED, CREDIT, SIGNAL, EXITED: what has a number; stream counts for CREDIT. */
int wire_put_number(struct buf *out, enum wire_type type, enum wire_stream stream, uint32_t n,
		    struct err *err);

/* ---- credit ---- */

/* What a stream's reader has used up; returns what it should grant now, or 0: not worth a frame
 * yet. */
uint32_t wire_credit_due(uint32_t *used, uint32_t more);
/* A grant that came: ERR_PROTOCOL where it makes no sense. */
int wire_credit_add(uint32_t *credit, uint32_t more, struct err *err);

#endif
