/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What systemd's unit files say of a service: whether it is installed, its LimitMEMLOCK=, and the
 * default ulimits that dockerd is started with (systemd.unit(5), systemd.exec(5)). Reads what
 * systemd would: the first unit file of the load path, then every drop-in by name. Uses core.
 */
#ifndef IPU_NODE_UNITS_H
#define IPU_NODE_UNITS_H

#include "files.h"
#include "node/facts.h"

struct unit_facts {
	bool installed; /* there is a file, and it isn't masked */
	bool sets_memlock;
	uint64_t memlock_bytes; /* the soft limit, FABRIC_UNLIMITED: infinity */
	bool sets_ulimit;       /* --default-ulimit memlock=… among ExecStart's arguments */
	uint64_t ulimit_bytes;
	/* The files that say so; file: the unit's own. "": none. */
	char file[NODE_TEXT_SIZE], memlock_file[NODE_TEXT_SIZE], ulimit_file[NODE_TEXT_SIZE];
};

/* name: "containerd.service". */
void unit_read(const struct files *files, const char *name, struct unit_facts *ret);

/* One file's text, over what earlier ones said; path is for the facts. */
void unit_parse(struct str text, const char *path, struct unit_facts *facts);

/* systemd's limits in bytes: "infinity", "64M", "1.5G", "soft:hard"; -1: systemd would ignore it.
 */
int unit_parse_limit(struct str text, uint64_t *ret_soft_bytes);
/* docker's: "-1", "65536", "soft:hard", in bytes. */
int unit_parse_ulimit(struct str text, uint64_t *ret_soft_bytes);

#endif
