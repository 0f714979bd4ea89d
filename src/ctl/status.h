/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ipuctl's exit status says, by the error that ended it. Pure.
 */
#ifndef IPU_CTL_STATUS_H
#define IPU_CTL_STATUS_H

#include "core/err.h"

enum {
	CTL_EXIT_NO = 1,    /* the server or a check said no, a manifest is wrong, a wait in vain */
	CTL_EXIT_USAGE = 2, /* command line, kubeconfig, a file that can't be read */
	CTL_EXIT_UNREACHABLE = 3, /* no answer, or none of the operator's */
};

static inline int ctl_exit_status(const struct err *err)
{
	switch (err->kind) {
	case ERR_INVALID: /* with an HTTP status: the server's opinion */
		return err->code ? CTL_EXIT_NO : CTL_EXIT_USAGE;
	case ERR_DENIED: /* without: TLS */
		return err->code ? CTL_EXIT_NO : CTL_EXIT_UNREACHABLE;
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT:
	case ERR_PROTOCOL:
		return CTL_EXIT_UNREACHABLE;
	default:
		return CTL_EXIT_NO;
	}
}

#endif
