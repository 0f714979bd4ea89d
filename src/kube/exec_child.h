/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the program and the helper process that runs credential plugins: two fixed-size
 * messages over a stream socket, and the helper's own main function.
 */
#ifndef IPU_KUBE_EXEC_CHILD_H
#define IPU_KUBE_EXEC_CHILD_H

#include <stdint.h>

#include "config_priv.h"

enum kube_exec_ask { KUBE_EXEC_RUN = 1, KUBE_EXEC_CANCEL = 2 };

struct kube_exec_request {
	uint32_t ask; /* enum kube_exec_ask */
	uint32_t seq;
};

enum kube_exec_outcome {
	KUBE_EXEC_EXITED = 1, /* code: as waitpid gives it */
	KUBE_EXEC_CANT_START, /* code: errno */
	KUBE_EXEC_TOO_MUCH,
	KUBE_EXEC_CANCELLED,
};

struct kube_exec_reply {
	uint32_t seq;
	uint32_t outcome;
	int32_t code;
	uint32_t out_len; /* that many bytes of standard output follow … */
	uint32_t err_len; /* … and the end of standard error */
};

#define KUBE_EXEC_STDERR_BYTES 2048

/* The helper: serves until the socket closes. exec is borrowed from before the fork. */
__attribute__((noreturn)) void kube_exec_child(int sock, const struct kube_exec_config *exec);

#endif
