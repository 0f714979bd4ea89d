/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a kubeconfig's exec credential plugin in a process of its own, forked before the program
 * restricts itself, so that the loop never waits and the program needs no right to start others.
 * The helper runs the one command that the kubeconfig names, and nothing else that it's asked.
 */
#ifndef IPU_KUBE_EXEC_HELPER_H
#define IPU_KUBE_EXEC_HELPER_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "kube/config.h"
#include "loop/loop.h"
#include "loop/op.h"

struct kube_exec_helper;

#define KUBE_EXEC_MAX_OUTPUT_BYTES ((size_t)1 << 20)
#define KUBE_EXEC_DEADLINE_MS      60000

/*
 * Forks the helper: early, before threads, loop and restrictions. A configuration without an exec
 * plugin needs none: success, and *ret is NULL. The helper ends by itself when its socket closes,
 * and takes a running plugin (its whole process group) along.
 */
int kube_exec_helper_fork(const struct kube_config *config, struct kube_exec_helper **ret,
			  struct err *err);
/* Closes the socket and reaps the process. All operations must have ended, and not from within
 * one's callback. NULL is fine. */
void kube_exec_helper_free(struct kube_exec_helper *helper);

/* output: what the plugin wrote to standard output, borrowed, NULL on error. Errors: ERR_INVALID
 * (can't be started, the install hint is in the message; exit status other than 0, with the last
 * line of its standard error), ERR_TIMEOUT, ERR_LIMIT, ERR_UNAVAILABLE (the helper is gone). */
typedef void kube_exec_done_fn(void *arg, const struct err *err, const char *output, size_t len);

/* One run; those started meanwhile wait their turn. deadline_ms: from now, 0 for the default. */
struct op *kube_exec_start(struct kube_exec_helper *helper, struct loop *loop, unsigned deadline_ms,
			   kube_exec_done_fn *cb, void *arg, struct scope *scope);

#endif
