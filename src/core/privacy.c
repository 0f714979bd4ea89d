/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's attribute "dumpable", taken away. A limit of core files would be inherited by the
 * programs that it starts, which may want theirs.
 */
#include "core/privacy.h"

#include <sys/prctl.h>

void privacy_keep(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
