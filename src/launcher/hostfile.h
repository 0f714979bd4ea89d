/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names of an MPI hostfile: a line a host, "NAME slots=N" (Open MPI) or "NAME:N" (MPICH), '#'
 * begins a comment. Pure; uses core.
 */
#ifndef IPU_LAUNCHER_HOSTFILE_H
#define IPU_LAUNCHER_HOSTFILE_H

#include <stddef.h>

#include "core/err.h"
#include "core/str.h"

/* The names, each once, in their order; the caller frees each and the array. ERR_INVALID: there is
 * none. */
int hostfile_parse(struct str text, char ***ret_hosts, size_t *ret_n, struct err *err);
void hostfile_free(char **hosts, size_t n);

#endif
