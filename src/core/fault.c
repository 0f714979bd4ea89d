/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter behind core/fault.h. One thread, so plain variables will do.
 * Uses nothing.
 */
#include "core/fault.h"

#include <stdlib.h>

static unsigned long count;
static unsigned long fail_at;

void fault_alloc_fail_at(unsigned long n)
{
	count = 0;
	fail_at = n;
}

unsigned long fault_alloc_count(void)
{
	return count;
}

void *fault_realloc(void *p, size_t size)
{
	if (++count == fail_at)
		return NULL;
	return realloc(p, size ? size : 1);
}
