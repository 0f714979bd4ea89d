/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter and the list of places behind core/fault.h. One thread, so plain variables will do.
 * Uses core/str.h.
 */
#include "core/fault.h"

#include <stdlib.h>
#include <time.h>

#include "core/str.h"

static unsigned long count;
static unsigned long fail_at;
static bool spare;

void fault_alloc_fail_at(unsigned long n)
{
	count = 0;
	fail_at = n;
}

unsigned long fault_alloc_count(void)
{
	return count;
}

void fault_alloc_spare(bool spared)
{
	spare = spared;
}

void *fault_realloc(void *p, size_t size)
{
	if (!spare && ++count == fail_at)
		return NULL;
	return realloc(p, size ? size : 1);
}

const char *fault_places;

void fault_set(const char *places)
{
	fault_places = places && places[0] ? places : NULL;
}

static bool take(struct str *from, const char *word)
{
	struct str prefix = str_of(word);

	if (!str_has_prefix(*from, prefix))
		return false;
	from->p += prefix.len;
	from->len -= prefix.len;
	return true;
}

bool fault_named(const char *action, const char *kind, const char *name)
{
	struct str list = str_of(fault_places), place;

	for (bool more = true; more;) {
		more = str_cut(list, ',', &place, &list);
		if (take(&place, action) && take(&place, ":") && take(&place, kind) &&
		    take(&place, ":") && str_eqz(place, name))
			return true;
	}
	return false;
}

void fault_pause(const char *kind, const char *name)
{
	if (fault_named("slow", kind, name))
		nanosleep(&(struct timespec){.tv_nsec = FAULT_SLOW_MS * 1000000L}, NULL);
}
