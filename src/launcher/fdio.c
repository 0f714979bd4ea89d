/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small reads and writes, each only after the loop said that it won't wait; of sockets by flag. A
 * descriptor that couldn't be opened anew is written in pieces of PIPE_BUF, which a pipe that is
 * ready has room for. Uses loop and core.
 */
#include "launcher/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* With the head of a frame, the channel and the head of a client's WebSocket frame before it that
 * fills a TLS record, and four of them go into a pipe. */
#define READ_BYTES    (((size_t)16 << 10) - 14)
#define READS_A_TURN  8
#define WRITES_A_TURN 16

int fdio_set_nonblocking(int fd, struct err *err)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_errno(err, errno, "descriptor %d", fd);
	return 0;
}

int fdio_open_standard(int fd, bool for_writing, int *ret_fd, bool *ret_alone, struct err *err)
{
	char path[32];
	struct stat st;
	int own = -1;
	if (fstat(fd, &st) < 0)
		return err_errno(err, errno, "descriptor %d", fd);
	/* A file opened anew would begin at its start, and a socket can't be. */
	if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		own = open(path,
			   (for_writing ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	}
	*ret_alone = own >= 0;
	if (own < 0)
		own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (own < 0)
		return err_errno(err, errno, "descriptor %d", fd);
	*ret_fd = own;
	return 0;
}

/* ---- reading ---- */

static bool is_ready(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	return poll(&p, 1, 0) > 0;
}

static ssize_t read_some(int fd, bool alone, char *p, size_t len)
{
	if (alone)
		return read(fd, p, len);
	ssize_t n = recv(fd, p, len, MSG_DONTWAIT);
	if (n >= 0 || errno != ENOTSOCK)
		return n;
	if (!is_ready(fd, POLLIN)) {
		errno = EAGAIN;
		return -1;
	}
	return read(fd, p, len);
}

static void update_in(struct fdio_in *in)
{
	if (in->fd >= 0)
		loop_io_watch(&in->io, !in->ended && in->room > 0 ? EV_READ : 0);
}

static void on_readable(struct loop_io *io, int revents, void *arg)
{
	struct fdio_in *in = arg;
	char bytes[READ_BYTES];
	(void)io, (void)revents;
	for (int i = 0; i < READS_A_TURN && in->fd >= 0 && !in->ended && in->room > 0; i++) {
		size_t len = in->room < sizeof(bytes) ? in->room : sizeof(bytes);
		ssize_t n = read_some(in->fd, in->alone, bytes, len);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		in->ended = n <= 0;
		if (n > 0)
			in->room -= (size_t)n;
		in->cb(in, (struct str){bytes, n > 0 ? (size_t)n : 0}, in->arg);
		if (n < (ssize_t)len)
			break; /* there is no more now */
	}
	update_in(in);
}

void fdio_in_init(struct fdio_in *in, struct loop *loop, int fd, bool alone, fdio_in_fn *cb,
		  void *arg)
{
	*in = (struct fdio_in){.fd = fd, .alone = alone, .cb = cb, .arg = arg};
	loop_io_init(&in->io, loop, fd, on_readable, in);
}

void fdio_in_set_room(struct fdio_in *in, size_t bytes)
{
	in->room = bytes;
	update_in(in);
}

void fdio_in_done(struct fdio_in *in)
{
	if (in->fd < 0 || !in->cb)
		return;
	loop_io_stop(&in->io);
	close(in->fd);
	in->fd = -1;
}

/* ---- writing ---- */

static ssize_t write_some(int fd, bool alone, const char *p, size_t len)
{
	if (alone)
		return write(fd, p, len);
	ssize_t n = send(fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0 || errno != ENOTSOCK)
		return n;
	int flags = fcntl(fd, F_GETFL);
	if (flags >= 0 && (flags & O_NONBLOCK))
		return write(fd, p, len);
	if (!is_ready(fd, POLLOUT)) {
		errno = EAGAIN;
		return -1;
	}
	return write(fd, p, len < PIPE_BUF ? len : PIPE_BUF);
}

static void end_out(struct fdio_out *out)
{
	loop_io_stop(&out->io);
	loop_work_cancel(&out->work);
	close(out->fd);
	out->fd = -1;
}

static void write_queue(struct fdio_out *out)
{
	size_t written = 0;
	struct err err = ERR_INIT;
	for (int i = 0; i < WRITES_A_TURN && out->queue.len > 0; i++) {
		size_t len = out->queue.len;
		ssize_t n = write_some(out->fd, out->alone, out->queue.p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			err_errno(&err, errno, "writing");
			out->failed = true;
			break;
		}
		buf_consume(&out->queue, (size_t)n);
		written += (size_t)n;
		/* A pipe that is full; a little more would go as a message of its own. */
		if (out->alone && (size_t)n < len)
			break;
	}
	if (out->failed)
		buf_done(&out->queue);
	loop_io_watch(&out->io, out->queue.len > 0 ? EV_WRITE : 0);
	if (out->close_when_empty && out->queue.len == 0)
		end_out(out);
	if (written > 0 || out->failed)
		out->cb(out, written, out->failed ? &err : NULL, out->arg);
}

static void on_writable(struct loop_io *io, int revents, void *arg)
{
	(void)io, (void)revents;
	write_queue(arg);
}

static void on_kicked(struct loop_work *work, void *arg)
{
	struct fdio_out *out = arg;
	(void)work;
	if (out->fd >= 0 && !out->failed)
		write_queue(out);
}

void fdio_out_init(struct fdio_out *out, struct loop *loop, int fd, bool alone, size_t limit_bytes,
		   fdio_out_fn *cb, void *arg)
{
	*out = (struct fdio_out){
		.fd = fd, .alone = alone, .cb = cb, .arg = arg, .queue = BUF_INIT(limit_bytes)};
	loop_io_init(&out->io, loop, fd, on_writable, out);
	loop_work_init(&out->work, loop, on_kicked, out);
}

void fdio_out_kick(struct fdio_out *out)
{
	if (out->fd >= 0 && !out->failed && !ev_is_active(&out->io.ev))
		loop_work_post(&out->work);
}

void fdio_out_finish(struct fdio_out *out)
{
	if (out->fd < 0)
		return;
	out->close_when_empty = true;
	if (out->queue.len == 0)
		end_out(out);
}

void fdio_out_done(struct fdio_out *out)
{
	if (!out->cb)
		return;
	if (out->fd >= 0)
		end_out(out);
	buf_done(&out->queue);
}
