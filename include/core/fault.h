/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fault suites: makes the n-th allocation fail whose size a peer decides (buffers, parsed
 * documents). Always compiled in, off unless a test asks; small fixed allocations aren't counted,
 * they abort when memory is out.
 */
#ifndef IPU_CORE_FAULT_H
#define IPU_CORE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* From now on, the n-th such allocation fails, once (1: the next one; 0: none). Counting begins
 * anew. */
void fault_alloc_fail_at(unsigned long n);
/* How many there were since the last fault_alloc_fail_at. */
unsigned long fault_alloc_count(void);

/* realloc(3) (malloc when p is NULL) that counts, and fails when it's told to: NULL, p is kept. */
void *fault_realloc(void *p, size_t size);

#endif
