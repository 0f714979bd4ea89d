/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading files of the host's, which may be mounted under a root of its own: symbolic links of it
 * stay below that root. Only plain files are read, and only so much of them; nothing waits. Uses
 * core.
 */
#ifndef IPU_NODE_FILES_H
#define IPU_NODE_FILES_H

#include <dirent.h>
#include <stdbool.h>

#include "core/buf.h"
#include "core/str.h"

struct files {
	int root_fd; /* -1: the root is ours, or can't be opened */
	bool ours;
};

void files_open(struct files *files, const char *root); /* NULL and "": ours */
void files_close(struct files *files);

/* Appends at most so many bytes of a file as fit into out's limit; the rest is left out. -1 with
 * errno: it can't be read, or is none (EISDIR for a folder, EINVAL for a device or pipe). */
int files_read(const struct files *files, const char *path, struct buf *out);
bool files_exist(const struct files *files, const char *path); /* of any kind */
/* Is the path itself a symbolic link with this text? */
bool files_link_to(const struct files *files, const char *path, const char *target);
DIR *files_opendir(const struct files *files, const char *path);
/* All that the file has but white space around it. -1: it isn't there, or is no number. */
int files_read_number(const struct files *files, const char *path, uint64_t *ret);

#endif
