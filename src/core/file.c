/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops around read(2) and write(2), and the new file that takes an old one's name.
 * Uses buf, err and str.
 */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)16 << 10)

int file_read_all(int fd, struct buf *out, struct err *err)
{
	for (;;) {
		size_t room = out->limit - out->len;
		char *to, beyond;

		room = room < PIECE_BYTES ? room : PIECE_BYTES;
		/* A buffer that is full is enough if this was all. */
		if (room == 0)
			to = &beyond;
		else if (buf_reserve(out, room, &to, err) < 0)
			return -1;
		ssize_t n = read(fd, to, room ? room : 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, errno, "%s", strerror(errno));
		if (n == 0)
			return 0;
		if (room == 0)
			return err_set(err, ERR_LIMIT, 0, "more than %zu bytes", out->limit);
		buf_commit(out, (size_t)n);
	}
}

int file_write_all(int fd, struct str text, struct err *err)
{
	while (text.len > 0) {
		ssize_t n = write(fd, text.p, text.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, ERR_IO, n < 0 ? errno : EIO, "%s",
				       strerror(n < 0 ? errno : EIO));
		text = (struct str){text.p + n, text.len - (size_t)n};
	}
	return 0;
}

int file_replace(const char *path, struct str text, mode_t mode, struct err *err)
{
	CLEANUP_FREE char *next = xasprintf("%s.new", path);
	/* Closed to others until it has its mode: it may hold a secret. */
	int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int status;

	if (fd < 0)
		return err_errno(err, errno, "%s", path);
	status = file_write_all(fd, text, err);
	if (status < 0)
		err_wrap(err, "%s", path);
	else if (fchmod(fd, mode) < 0)
		status = err_errno(err, errno, "%s", path);
	if (close(fd) < 0 && status == 0)
		status = err_errno(err, errno, "%s", path);
	if (status == 0 && rename(next, path) < 0)
		status = err_errno(err, errno, "%s", path);
	if (status < 0)
		unlink(next);
	return status;
}
