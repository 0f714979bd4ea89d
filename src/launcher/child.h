/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a command in a session of its own, with pipes for its standard descriptors. No state;
 * uses core.
 */
#ifndef IPU_LAUNCHER_CHILD_H
#define IPU_LAUNCHER_CHILD_H

#include <sys/types.h>

#include "core/err.h"

struct child {
	pid_t pid;    /* its process group and session, too */
	int stdio[3]; /* our ends of its pipes, not blocking; the caller's to close */
};

/* args[0] is looked for in PATH; env ("NAME=value", up to NULL) is added to ours. Returns when the
 * command runs, or not: err->code is the errno (ENOENT, EACCES …). It is killed when we are. */
int child_start(char *const *args, char *const *env, struct child *ret, struct err *err);

/* An exit status as shells have it: 128 + the signal that ended it. */
int child_exit_status(int wait_status);

#endif
