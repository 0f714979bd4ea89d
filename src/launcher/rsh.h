/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `rsh` was asked to do: the options of ssh that MPI's launchers use, or that users give them.
 * Pure; borrows from argv, owns the command.
 */
#ifndef IPU_LAUNCHER_RSH_H
#define IPU_LAUNCHER_RSH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

#define RSH_MAX_ENV 64

struct rsh_options {
	const char *host;
	char *command;                    /* for a shell: the words, joined by blanks */
	const char *env[RSH_MAX_ENV + 1]; /* -o SetEnv=NAME=VALUE */
	size_t n_env;
	unsigned connect_s; /* -o ConnectTimeout=SECONDS; 0: not given */
	bool no_input;      /* -n */
};

/* argv[0] is skipped. ERR_INVALID says what is wrong; then nothing is left to free. */
int rsh_options_parse(int argc, char **argv, struct rsh_options *ret, struct err *err);
void rsh_options_done(struct rsh_options *o);

#endif
