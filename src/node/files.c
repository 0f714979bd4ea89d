/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below a root. openat2's RESOLVE_IN_ROOT keeps the host's absolute links where they belong;
 * where the kernel or a filter doesn't have it, paths are put together, and such a link leads into
 * our own files: then it's missing or the same. Uses core.
 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBER_BYTES 64
#define MAX_TRIES    100

void files_open(struct files *files, const char *root)
{
	files->ours = !root || !root[0];
	files->root_fd = files->ours ? -1 : open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void files_close(struct files *files)
{
	if (files->root_fd >= 0)
		close(files->root_fd);
	files->root_fd = -1;
}

static int open_at(const struct files *files, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT,
	};

	if (files->ours)
		return open(path, flags | O_CLOEXEC);
	if (files->root_fd < 0) {
		errno = ENOENT;
		return -1;
	}
	/* EAGAIN: something was renamed or mounted while a ".." was resolved. */
	int fd = -1;
	for (unsigned i = 0; i < MAX_TRIES && fd < 0 && (i == 0 || errno == EAGAIN); i++)
		fd = (int)syscall(SYS_openat2, files->root_fd, path, &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		while (*path == '/')
			path++;
		fd = openat(files->root_fd, path, flags | O_CLOEXEC);
	}
	return fd;
}

/* A plain file; a pipe or a device isn't even waited for. */
static int open_plain(const struct files *files, const char *path)
{
	int fd = open_at(files, path, O_RDONLY | O_NONBLOCK | O_NOCTTY), errnum;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	errnum = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	close(fd);
	errno = errnum;
	return -1;
}

int files_read(const struct files *files, const char *path, struct buf *out)
{
	int fd = open_plain(files, path), errnum = 0;

	if (fd < 0)
		return -1;
	while (out->len < out->limit) {
		size_t room = out->limit - out->len;
		char *p;

		room = room < 4096 ? room : 4096;
		if (buf_reserve(out, room, &p, NULL) < 0)
			break;
		ssize_t n = read(fd, p, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			errnum = errno;
		if (n <= 0)
			break;
		buf_commit(out, (size_t)n);
	}
	close(fd);
	errno = errnum;
	return errnum ? -1 : 0;
}

bool files_exist(const struct files *files, const char *path)
{
	int fd = open_at(files, path, O_PATH);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

bool files_link_to(const struct files *files, const char *path, const char *target)
{
	int fd = open_at(files, path, O_PATH | O_NOFOLLOW);
	size_t len = strlen(target);
	char text[256];

	if (fd < 0)
		return false;
	ssize_t n = readlinkat(fd, "", text, sizeof(text));
	close(fd);
	return n == (ssize_t)len && memcmp(text, target, len) == 0;
}

DIR *files_opendir(const struct files *files, const char *path)
{
	int fd = open_at(files, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

int files_read_number(const struct files *files, const char *path, uint64_t *ret)
{
	struct buf text = BUF_INIT(NUMBER_BYTES);
	int64_t number = 0;
	int result = files_read(files, path, &text);

	if (result == 0)
		result = str_to_int(str_trim(buf_str(&text)), 0, INT64_MAX, &number, NULL);
	if (result == 0)
		*ret = (uint64_t)number;
	buf_done(&text);
	return result;
}
