/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The near end's side of one command: our standard descriptors and signals on one hand, frames on
 * the other. Owned by who started it. Uses loop, net and core.
 */
#ifndef IPU_LAUNCHER_NEAR_H
#define IPU_LAUNCHER_NEAR_H

#include "launcher/remote.h"

#define NEAR_LOST 255 /* as ssh: it isn't the command that failed */

struct near_opts {
	struct remote_opts remote;
	const char *const *args; /* both end with NULL, and outlive it */
	const char *const *env;
	bool no_input;
};

/* Runs the command to its end: its exit status as shells have it, or NEAR_LOST, having said why on
 * standard error. A command that leaves daemons behind returns twice: in the caller with its
 * status, and in a process that stays for as long as they live, without terminal and descriptors.
 */
int near_run(struct net *net, const struct near_opts *opts);

#endif
