/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files that others replace now and then: certificates, keys and tokens.
 */
#ifndef IPU_KUBE_FILE_H
#define IPU_KUBE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* A whole file of at most KUBE_FILE_MAX_BYTES. ERR_NOT_FOUND, ERR_IO, ERR_LIMIT. *ret is terminated
 * and the caller's. ret_stamp (may be NULL): changes when the file does. */
int kube_read_file(const char *path, char **ret, size_t *ret_len, uint64_t *ret_stamp,
		   struct err *err);
int kube_stat_file(const char *path, uint64_t *ret_stamp); /* -1: not there now */

#endif
