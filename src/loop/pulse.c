/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of all that are started, of one process. Uses core/list.h.
 */
#include "loop/pulse.h"

#include <stddef.h>

static struct list pulses = LIST_INIT(pulses);

void pulse_start(struct pulse *p, const char *kind, const char *name, unsigned patience_s)
{
	*p = (struct pulse){.kind = kind, .name = name, .patience_s = patience_s};
	list_append(&pulses, &p->link);
}

void pulse_stop(struct pulse *p)
{
	list_unlink(&p->link);
}

void pulses_tick(void)
{
	LIST_FOREACH(pos, tmp, &pulses) {
		struct pulse *p = CONTAINER_OF(pos, struct pulse, link);

		p->silent = p->busy && p->beats == p->seen ? p->silent + 1 : 0;
		p->seen = p->beats;
	}
}

const struct pulse *pulses_stuck(unsigned stuck_s, unsigned tick_ms)
{
	LIST_FOREACH(pos, tmp, &pulses) {
		const struct pulse *p = CONTAINER_OF(pos, struct pulse, link);

		if ((uint64_t)p->silent * tick_ms >= ((uint64_t)stuck_s + p->patience_s) * 1000)
			return p;
	}
	return NULL;
}
