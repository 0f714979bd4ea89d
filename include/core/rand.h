/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Randomness: the kernel's, or in tests a sequence from a seed, so that a run can be repeated.
 */
#ifndef IPU_CORE_RAND_H
#define IPU_CORE_RAND_H

#include <stddef.h>
#include <stdint.h>

void rand_bytes(void *p, size_t len); /* fit for keys unless seeded; aborts if the kernel refuses */
uint64_t rand_u64(void);
uint64_t rand_below(uint64_t n); /* even over [0, n), n > 0 */
void rand_seed(uint64_t seed);   /* tests only: from here on a fixed sequence */

#endif
