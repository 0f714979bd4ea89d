/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths in containers and where they are on this machine: there are no mount namespaces, so texts
 * that name a mount point get the other name. Owns its strings. Uses core.
 */
#ifndef IPU_SIM_PATH_MAP_H
#define IPU_SIM_PATH_MAP_H

#include <stddef.h>

#include "core/str.h"

struct path_map {
	struct path_pair {
		char *from, *to;
	} *pairs;
	size_t n;
};

/* from is absolute; slashes at its end don't count. Of two alike the first stays. */
void path_map_add(struct path_map *m, struct str from, const char *to);
/* text with each from, where it stands as a whole path or with a path below it, replaced by its to;
 * the longest counts. The caller's to free. */
char *path_map_apply(const struct path_map *m, struct str text);
const char *path_map_find(const struct path_map *m, const char *from); /* exactly; NULL */
void path_map_done(struct path_map *m);

#endif
