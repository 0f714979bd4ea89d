/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: everything wired together on one loop, from a checked configuration to the end.
 */
#ifndef IPU_DAEMON_DAEMON_H
#define IPU_DAEMON_DAEMON_H

#include "core/err.h"
#include "daemon/config.h"
#include "kube/config.h"

struct daemon;

/* config, kube_config and what source names are borrowed until daemon_free; config changes when
 * it's read again. Forks the exec helper if it's needed, binds the listeners, writes ports_file
 * (NULL: none). ERR_IO, ERR_INVALID. */
int daemon_new(struct config *config, const struct config_source *source,
	       struct kube_config *kube_config, const char *ports_file, struct daemon **ret,
	       struct err *err);
int daemon_run(struct daemon *d);   /* until SIGTERM or SIGINT; returns the exit status */
void daemon_free(struct daemon *d); /* NULL and half-built ones are fine */

#endif
