/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponential back-off: pure arithmetic on core's randomness.
 */
#include "loop/backoff.h"

#include "core/rand.h"

int64_t backoff_next_ms(struct backoff *b, const struct err *why)
{
	uint64_t whole = b->base_ms;
	for (unsigned i = 0; i < b->tries && whole < b->max_ms; i++)
		whole *= 2;
	if (whole > b->max_ms)
		whole = b->max_ms;
	if (b->tries < 64)
		b->tries++;
	uint64_t half = whole / 2;
	int64_t delay = (int64_t)(whole - half + rand_below(half + 1));
	if (why && why->retry_after_ms > delay)
		delay = why->retry_after_ms;
	return delay;
}

void backoff_reset(struct backoff *b)
{
	b->tries = 0;
}
