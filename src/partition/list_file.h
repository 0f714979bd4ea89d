/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a file by inotify: an edit in place, an editor's rename, Kubernetes' swap of `..data`, a
 * folder on the way that comes, goes or is linked elsewhere. Owns its descriptors and what it read.
 * Uses loop.
 */
#ifndef IPU_PARTITION_LIST_FILE_H
#define IPU_PARTITION_LIST_FILE_H

#include "core/err.h"
#include "core/str.h"
#include "loop/loop.h"

#define LIST_FILE_MAX_BYTES ((size_t)1 << 20)
#define LIST_FILE_QUIET_MS  100   /* from a change to the look at it: it may be one of several */
#define LIST_FILE_POLL_MS   30000 /* between looks where no watch could be had */

struct list_file;

/* What the file holds now, or why it can't be read: ERR_NOT_FOUND, ERR_LIMIT, ERR_IO,
 * ERR_INVALID (it isn't a file). Called from the loop after the first look, and after each that
 * found something else. text is borrowed. */
typedef void list_file_fn(void *arg, const struct err *err, struct str text);

/* A relative path counts from the folder that the process is in now. */
struct list_file *list_file_new(struct loop *loop, const char *path, list_file_fn *cb, void *arg);
void list_file_free(struct list_file *f); /* NULL is fine; not from within cb */

#endif
