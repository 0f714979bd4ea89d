/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of plain files in POSIX's ustar format (IEEE Std 1003.1, pax, "ustar Interchange
 * Format"). Pure. Uses core.
 */
#ifndef IPU_CTL_TAR_H
#define IPU_CTL_TAR_H

#include <stdint.h>

#include "core/buf.h"
#include "core/str.h"

#define CTL_TAR_BLOCK 512

/* A file of mode 0600. ERR_INVALID: a name that the format can't hold (ASCII, at most 255 bytes,
 * with a slash that leaves at most 100 behind it); ERR_LIMIT. */
int ctl_tar_add(struct buf *out, const char *name, struct str content, int64_t mtime_s,
		struct err *err);
int ctl_tar_end(struct buf *out, struct err *err);

#endif
