/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks through the test's own memory for what should have been wiped.
 */
#ifndef IPU_T_UNIT_WIPED_H
#define IPU_T_UNIT_WIPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

/* What was freed stays as it was only without a sanitizer, which doesn't let it be read either. */
#if defined(__SANITIZE_ADDRESS__)
static const bool keeps_freed = true;
#elif defined(__has_feature)
static const bool keeps_freed = __has_feature(address_sanitizer);
#else
static const bool keeps_freed = false;
#endif

/* How often it stands in all that this process may write, but for itself. */
static unsigned places(const char *secret, size_t len)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[1000], rights[8];
	unsigned n = 0;
	if (!maps)
		bail_out("no /proc");
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || rights[1] != 'w' ||
		    rights[0] != 'r' || strstr(line, "[v"))
			continue;
		const char *p = (const char *)from, *past = (const char *)to;
		while ((p = memmem(p, (size_t)(past - p), secret, len))) {
			n += p != secret;
			p++;
		}
	}
	fclose(maps);
	return n;
}

#endif
