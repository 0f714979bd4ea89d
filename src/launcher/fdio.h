/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that bytes are read from and written to without waiting: a command's pipes, and our
 * own standard ones, which others may share, so that O_NONBLOCK can't just be set on them. Each is
 * embedded in its owner, who ends it with its _done. Uses loop and core.
 */
#ifndef IPU_LAUNCHER_FDIO_H
#define IPU_LAUNCHER_FDIO_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"
#include "loop/loop.h"

/* A descriptor of our own for one that was inherited: opened anew without blocking where that is
 * possible and changes nothing for others (pipes, devices; then *ret_alone), else a duplicate. */
int fdio_open_standard(int fd, bool for_writing, int *ret_fd, bool *ret_alone, struct err *err);
/* For descriptors that nobody shares. */
int fdio_set_nonblocking(int fd, struct err *err);

/* ---- reading ---- */

struct fdio_in;
/* Bytes (borrowed), or len 0: the end, or an error that amounts to it; nothing follows. May end the
 * reader and limit it. */
typedef void fdio_in_fn(struct fdio_in *in, struct str bytes, void *arg);

struct fdio_in {
	struct loop_io io;
	fdio_in_fn *cb;
	void *arg;
	int fd;      /* -1: ended */
	size_t room; /* so many bytes are still wanted */
	bool alone, ended;
};

/* Takes fd over. alone: it's no socket, doesn't block, and nobody else can change that. */
void fdio_in_init(struct fdio_in *in, struct loop *loop, int fd, bool alone, fdio_in_fn *cb,
		  void *arg);
/* Reads only while there is room; sets how much. */
void fdio_in_set_room(struct fdio_in *in, size_t bytes);
void fdio_in_done(struct fdio_in *in); /* closes; idempotent */

/* ---- writing ---- */

struct fdio_out;
/* written: bytes that have left the queue. err: nobody reads, or worse; nothing can be written any
 * more. May end the writer. */
typedef void fdio_out_fn(struct fdio_out *out, size_t written, const struct err *err, void *arg);

struct fdio_out {
	struct loop_io io;
	struct loop_work work;
	fdio_out_fn *cb;
	void *arg;
	int fd;           /* -1: ended */
	struct buf queue; /* frames may be appended to it directly, followed by fdio_out_kick */
	bool alone, failed, close_when_empty;
};

/* Takes fd over; at most limit bytes wait. alone: as above. */
void fdio_out_init(struct fdio_out *out, struct loop *loop, int fd, bool alone, size_t limit_bytes,
		   fdio_out_fn *cb, void *arg);
void fdio_out_kick(struct fdio_out *out);   /* something is in the queue */
void fdio_out_finish(struct fdio_out *out); /* closes behind what is queued */
void fdio_out_done(struct fdio_out *out);   /* closes now; idempotent */

#endif
