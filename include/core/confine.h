/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's own seccomp filter: from then on, only the system calls of confine.c's list, for
 * good, no memory that is written and executed, and no files that are written. Uses err.
 */
#ifndef IPU_CORE_CONFINE_H
#define IPU_CORE_CONFINE_H

#include <stdbool.h>

#include "core/err.h"

enum confine_mode {
	CONFINE_OFF,
	CONFINE_LOG,     /* other calls are made, and the kernel's audit log names them */
	CONFINE_ENFORCE, /* other calls fail, and are counted */
};

typedef void confine_heard_fn(void *arg);

struct confine_opts {
	enum confine_mode mode;
	bool uses_devices; /* what there is may be opened for writing, but nothing made or cut */
	bool renames;      /* files may be renamed and removed */
	/* Called after each refused call, in a signal's handler, with what is allowed there; NULL:
	 * nobody. */
	confine_heard_fn *heard;
	void *arg;
};

/* Takes privileges by execve(2) away too (no_new_privs). Children inherit it; what was forked
 * before is free. Errors: ERR_UNSUPPORTED, ERR_IO; then nothing is filtered. */
int confine_start(const struct confine_opts *opts, struct err *err);

/* How often the call of that number was refused; all greater ones count as the last one. */
#define CONFINE_CALLS 512
unsigned long confine_refused(unsigned call);
unsigned long confine_refused_in_all(void);
void confine_hush(void); /* nobody is called any more */

#endif
