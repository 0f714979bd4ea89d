/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of uids: the review that was sent away first is the first to be forgotten.
 */
#include "away.h"

#include <string.h>

#include "core/clock.h"

static struct away_entry *find(struct away *a, const char *uid)
{
	for (size_t i = 0; i < AWAY_ENTRIES; i++) {
		if (strcmp(a->entries[i].uid, uid) == 0)
			return &a->entries[i];
	}
	return NULL;
}

bool away_may(struct away *a, const char *uid, unsigned deadline_ms, unsigned *ret_pause_s)
{
	size_t len = strlen(uid);
	struct away_entry *e;

	if (!len || len >= AWAY_UID_SIZE)
		return false;
	e = find(a, uid);
	if (!e) {
		e = &a->entries[a->next];
		a->next = (a->next + 1) % AWAY_ENTRIES;
		*e = (struct away_entry){.first_ms = clock_mono_ms()};
		memcpy(e->uid, uid, len + 1);
	}
	*ret_pause_s = e->times < AWAY_AT_ONCE ? 0 : AWAY_PAUSE_S;
	if (e->times >= AWAY_TIMES ||
	    clock_mono_ms() + (int64_t)*ret_pause_s * 1000 > e->first_ms + (int64_t)deadline_ms)
		return false;
	e->times++;
	return true;
}
