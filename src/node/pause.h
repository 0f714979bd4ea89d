/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to leave alone what was looked at, by how long that took: a storm of events costs a part
 * of the loop's time, whatever a look costs on this machine.
 */
#ifndef IPU_NODE_PAUSE_H
#define IPU_NODE_PAUSE_H

#include <stdint.h>

#define LOOK_SHARE  20  /* looking takes no more than one part in so many of the time … */
#define LOOK_MAX_MS 500 /* … but is done as often as this */

static inline int64_t look_pause_ms(int64_t took_us, int64_t least_ms)
{
	int64_t ms = took_us / (1000 / LOOK_SHARE); /* without overflow */

	ms = ms > least_ms ? ms : least_ms;
	return ms < LOOK_MAX_MS ? ms : LOOK_MAX_MS;
}

#endif
