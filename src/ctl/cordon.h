/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of names as the annotations graphcore.ai/cordon and graphcore.ai/drain hold them:
 * "HOST:PORT,HOST:PORT". Pure.
 */
#ifndef IPU_CTL_CORDON_H
#define IPU_CTL_CORDON_H

#include <stdbool.h>

#include "core/str.h"

/* The list with these names, or without them; the others stay in their order, without spaces and
 * empty places. The caller's to free. */
char *ctl_list_edit(struct str list, const char *const *names, size_t n_names, bool with);

#endif
