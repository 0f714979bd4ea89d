/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened between two looks at an entry, by the table in doc/design/page.md, and the last
 * steps. Pure, in memory that doesn't grow; uses core only.
 */
#include <string.h>

#include "live_impl.h"

const char *live_step_name(enum live_step step)
{
	static const char *const names[] = {
		[LIVE_MADE] = "made",       [LIVE_BECAME_ACTIVE] = "active",
		[LIVE_RESET] = "reset",     [LIVE_RELEASED] = "released",
		[LIVE_REFUSED] = "refused", [LIVE_FAILED] = "failed",
	};

	return names[step];
}

/* m made, a active, r reset, x released, f failed; A active, where it has been; F how it was lost,
 * where it was; X how it was lost, else released. */
/* clang-format off */
static const char table[LIVE_N_STATES][LIVE_N_STATES][LIVE_STEPS_AT_ONCE + 1] = {
	/*                   NONE CREATING ACTIVE ERROR  RESETTING RELEASING */
	[LIVE_NONE]      = { "",  "m",     "ma",  "maf", "mar",    "mAF" },
	[LIVE_CREATING]  = { "X", "",      "a",   "af",  "ar",     "AF" },
	[LIVE_ACTIVE]    = { "X", "",      "",    "f",   "r",      "F" },
	[LIVE_ERROR]     = { "x", "",      "a",   "",    "r",      "" },
	[LIVE_RESETTING] = { "X", "",      "a",   "af",  "",       "F" },
	[LIVE_RELEASING] = { "x", "",      "",    "",    "",       "" },
};
/* clang-format on */

static bool was_used(enum live_state state)
{
	return state == LIVE_ACTIVE || state == LIVE_ERROR || state == LIVE_RESETTING;
}

size_t live_steps_between(const struct live_change *c, enum live_step ret[LIVE_STEPS_AT_ONCE])
{
	const char *steps = table[c->before][c->after];
	size_t n = 0;

	/* For another run it has been reset, whatever it was between the looks. */
	if (c->another_run && was_used(c->before) && was_used(c->after))
		steps = c->after == LIVE_ACTIVE ? "ra" : c->after == LIVE_ERROR ? "raf" : "r";
	for (; *steps; steps++) {
		enum live_step step = *steps == 'm'                    ? LIVE_MADE
				      : *steps == 'a' || *steps == 'A' ? LIVE_BECAME_ACTIVE
				      : *steps == 'r'                  ? LIVE_RESET
				      : *steps == 'f'                  ? LIVE_FAILED
								       : LIVE_RELEASED;

		if ((*steps == 'F' && c->loss == LIVE_KEPT) || (*steps == 'A' && !c->been_active))
			continue;
		if ((*steps == 'F' || *steps == 'X') && c->loss != LIVE_KEPT)
			step = c->loss == LIVE_LOST_REFUSED ? LIVE_REFUSED : LIVE_FAILED;
		ret[n++] = step;
	}
	return n;
}

/* ---- the last ones ---- */

uint64_t steps_first(const struct steps *s)
{
	return s->n > LIVE_STEPS ? s->n - LIVE_STEPS : 0;
}

const struct live_step_record *steps_at(const struct steps *s, uint64_t i)
{
	return i < s->n && i >= steps_first(s) ? &s->kept[i % LIVE_STEPS] : NULL;
}

void steps_add(struct steps *s, uint64_t from, const struct live_step_record *r)
{
	uint64_t at = s->n++;

	if (from < steps_first(s))
		from = steps_first(s);
	while (at > from && s->kept[(at - 1) % LIVE_STEPS].time_ms > r->time_ms) {
		s->kept[at % LIVE_STEPS] = s->kept[(at - 1) % LIVE_STEPS];
		at--;
	}
	s->kept[at % LIVE_STEPS] = *r;
}
