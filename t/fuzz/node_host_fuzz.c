/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host's files say: a process' limits and cgroups, meminfo, systemd's units, dockerd's
 * settings. Facts have their files and stay within their sizes; a limit that was read and written
 * in bytes is read again.
 * Input: a letter (which file), then the file's text.
 */
#include "fuzz.h"
#include "node/host.h"
#include "node/units.h"

static void try_limit(struct str text)
{
	uint64_t bytes, again;
	char written[32];

	if (unit_parse_limit(text, &bytes) < 0)
		return;
	if (bytes == FABRIC_UNLIMITED)
		snprintf(written, sizeof(written), "infinity");
	else
		snprintf(written, sizeof(written), "%ju", (uintmax_t)bytes);
	MUST(unit_parse_limit(str_of(written), &again) == 0 && again == bytes);
}

static void try_ulimit(struct str text)
{
	uint64_t bytes, again;
	char written[32];

	if (unit_parse_ulimit(text, &bytes) < 0)
		return;
	snprintf(written, sizeof(written), bytes == FABRIC_UNLIMITED ? "-1" : "%ju",
		 (uintmax_t)bytes);
	MUST(unit_parse_ulimit(str_of(written), &again) == 0 && again == bytes);
}

/* A file over itself says what it said. */
static void try_unit(struct str text)
{
	struct unit_facts once = {0}, twice;

	unit_parse(text, "/a", &once);
	MUST(once.sets_memlock == (strcmp(once.memlock_file, "/a") == 0));
	MUST(once.sets_ulimit == (strcmp(once.ulimit_file, "/a") == 0));
	MUST(!once.installed && !once.file[0]);
	twice = once;
	unit_parse(text, "/a", &twice);
	MUST(twice.sets_memlock == once.sets_memlock && twice.sets_ulimit == once.sets_ulimit);
	MUST(twice.memlock_bytes == once.memlock_bytes);
	MUST(!once.sets_ulimit || twice.ulimit_bytes == once.ulimit_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str text = fuzz_str(p, len);
	char unit[NODE_NAME_SIZE];
	uint64_t number;

	switch (fuzz_take(&text, 0)) {
	case 'c':
		memset(unit, 'x', sizeof(unit));
		(void)host_parse_cgroup(text, unit);
		MUST(memchr(unit, '\0', sizeof(unit)));
		break;
	case 'd':
		(void)host_parse_docker(text, &number);
		break;
	case 'l':
		(void)host_parse_memlock(text, &number);
		break;
	case 'm':
		(void)host_parse_meminfo(text, "Hugepagesize", &number);
		break;
	case 's':
		try_limit(text);
		break;
	case 'u':
		try_unit(text);
		break;
	case 'w':
		try_ulimit(text);
		break;
	}
	return 0;
}
