/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process between the simulator and a container's: subreaper of all that it starts. The two
 * speak over a socket in packets.
 */
#ifndef IPU_SIM_SUPERVISOR_H
#define IPU_SIM_SUPERVISOR_H

#include <stdbool.h>

enum supervisor_word {
	SUPERVISOR_TERMINATE, /* to it: SIGTERM to the process */
	SUPERVISOR_KILL,      /* to it: SIGKILL to all, and end */
	SUPERVISOR_CANT_RUN,  /* from it: value is an errno, of exec or chdir */
	SUPERVISOR_CANT_ENTER,
	SUPERVISOR_ENDED, /* from it: value is a status of waitpid */
};

struct supervisor_packet {
	enum supervisor_word word;
	int value;
};

struct supervisor_opts {
	int control;
	int in, out, err; /* the process's; with a terminal all the same */
	char *const *argv;
	char **env;
	const char *dir;
	bool tty, ends_others;
};

/* In the fork: never returns. */
_Noreturn void supervisor_run(const struct supervisor_opts *opts);

#endif
