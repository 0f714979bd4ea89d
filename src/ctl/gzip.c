/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression by gzip(1), which is on every machine where people work; a library for this alone
 * isn't worth its place in an image.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "ctl/commands.h"

static int spawn_gzip(int in, int out, pid_t *ret)
{
	static char name[] = "gzip", flag[] = "-nc";
	char *argv[] = {name, flag, NULL};
	posix_spawn_file_actions_t actions;
	int rc;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	rc = posix_spawnp(ret, name, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

int ctl_gzip(struct str text, int fd, struct err *err)
{
	int ends[2], rc, status = 0;
	pid_t pid = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, errno, "gzip");
	rc = spawn_gzip(ends[0], fd, &pid);
	close(ends[0]);
	if (rc != 0) {
		close(ends[1]);
		return err_set(err, ERR_INVALID, 0, "gzip: %s; a name that ends in .tar needs none",
			       strerror(rc));
	}
	rc = file_write_all(ends[1], text, NULL); /* SIGPIPE is ignored: net_new */
	close(ends[1]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc < 0 || status != 0)
		return err_set(err, ERR_IO, 0, "gzip couldn't compress the bundle");
	return 0;
}
