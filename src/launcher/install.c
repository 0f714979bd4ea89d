/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher install PATH: copies this program to where the Pod's other containers find it, an
 * emptyDir that an init container shares with them. Uses core.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/err.h"
#include "core/str.h"
#include "launcher/launcher.h"

#define PIECE_BYTES ((size_t)1 << 20)

static int copy(int from, int to, struct err *err)
{
	for (;;) {
		ssize_t n = sendfile(to, from, NULL, PIECE_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, errno, "copying");
		if (n == 0)
			return 0;
	}
}

/* Whole or not at all: another container may be looking for it already. */
static int install(const char *path, struct err *err)
{
	CLEANUP_FREE char *next = xasprintf("%s.new", path);
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return err_errno(err, errno, "/proc/self/exe");
	int to = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	int status = to < 0 ? err_errno(err, errno, "%s", next) : copy(from, to, err);
	close(from);
	/* The mode counts whatever the umask is: the workers may run as another user. */
	if (status == 0 && fchmod(to, 0755) < 0)
		status = err_errno(err, errno, "%s", next);
	if (to >= 0 && close(to) < 0 && status == 0)
		status = err_errno(err, errno, "%s", next);
	if (status == 0 && rename(next, path) < 0)
		status = err_errno(err, errno, "%s", path);
	if (status < 0)
		unlink(next);
	return status;
}

int launcher_install(int argc, char **argv)
{
	struct err err = ERR_INIT;
	if (argc != 2)
		return launcher_fail(EXIT_USAGE, "install: exactly one PATH is wanted");
	if (install(argv[1], &err) < 0)
		return launcher_fail(EXIT_FAILURE, "install: %s", err.msg);
	return EXIT_SUCCESS;
}
