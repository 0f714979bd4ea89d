/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that descend from one, whatever group or session they have gone to: found by the
 * parents that /proc names. Whoever wants them all must be their subreaper. No state; uses core.
 */
#ifndef IPU_LAUNCHER_TREE_H
#define IPU_LAUNCHER_TREE_H

#include <stddef.h>
#include <sys/types.h>

#include "core/err.h"

/* Orphans among our descendants become our children instead of PID 1's. */
int tree_adopt_orphans(struct err *err);
/* Sends signum to all that descend from root (root itself not). Returns how many there were,
 * zombies not counted; -1 where /proc can't be read. signum 0 only counts. */
int tree_signal(pid_t root, int signum, struct err *err);

#endif
