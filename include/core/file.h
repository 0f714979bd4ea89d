/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole contents of files and pipes, in and out. These wait: they are for local files, and for
 * pipes to a process that does nothing else.
 */
#ifndef IPU_CORE_FILE_H
#define IPU_CORE_FILE_H

#include <sys/types.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

/* Appends what fd has up to its end. ERR_LIMIT when that is more than out takes, ERR_IO. Messages
 * don't name the file: the caller does. */
int file_read_all(int fd, struct buf *out, struct err *err);

/* Writes all of text. ERR_IO; messages as above. A pipe's SIGPIPE is the caller's to ignore. */
int file_write_all(int fd, struct str text, struct err *err);

/* Puts a file of this text and mode, whatever the umask is, in the place of what is at path: whole
 * or not at all, so who waits for it never reads half of it. ERR_IO, with the name. */
int file_replace(const char *path, struct str text, mode_t mode, struct err *err);

#endif
