/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponential back-off with full jitter on the upper half: the delay is between half and the
 * whole of base · 2^n, at most max. A peer's Retry-After wins when it's longer.
 */
#ifndef IPU_LOOP_BACKOFF_H
#define IPU_LOOP_BACKOFF_H

#include <stdint.h>

#include "core/err.h"

struct backoff {
	unsigned base_ms, max_ms;
	unsigned tries;
};

#define BACKOFF_INIT(base, max) {.base_ms = (base), .max_ms = (max)}

int64_t backoff_next_ms(struct backoff *b, const struct err *why); /* why may be NULL */
void backoff_reset(struct backoff *b);

#endif
