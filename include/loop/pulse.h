/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life: what should make progress while it has something to do (a work queue, a watch)
 * says so with each step, and whoever ticks now and then sees what has stopped. Counted in ticks,
 * not in time: a clock that jumps, or a process that was stopped, makes nothing look stuck.
 */
#ifndef IPU_LOOP_PULSE_H
#define IPU_LOOP_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"

/* Embedded in its owner. */
struct pulse {
	struct list link;
	const char *kind, *name; /* "work queue", "ipujob"; static */
	unsigned patience_s;     /* so long on top it may do nothing, by its own deadlines */
	bool busy;               /* it has something to do; set as it is */
	uint64_t beats;          /* steps so far */
	uint64_t seen;           /* private: beats at the last tick that saw any, or it idle */
	unsigned silent;         /* private: ticks since then */
};

void pulse_start(struct pulse *p, const char *kind, const char *name, unsigned patience_s);
void pulse_stop(struct pulse *p);
static inline void pulse_beat(struct pulse *p)
{
	p->beats++;
}

void pulses_tick(void); /* of all that are started */
/* One that was busy without a step for stuck_s and its patience, in ticks of tick_ms; NULL: none.
 */
const struct pulse *pulses_stuck(unsigned stuck_s, unsigned tick_ms);

#endif
