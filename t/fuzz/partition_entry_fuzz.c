/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracker's entries: decoded, encoded, decoded and encoded again, nothing is lost or refused.
 * Input: an entry's JSON.
 */
#include "fuzz.h"
#include "partition/types.h"

static void try_id(const struct partition_entry *e)
{
	char id[PARTITION_ID_MAX + 1], again[PARTITION_ID_MAX + 1];

	partition_id_make(&e->ask.owner, e->ask.instance, (uint64_t)e->since_ms, id);
	partition_id_make(&e->ask.owner, e->ask.instance, (uint64_t)e->since_ms, again);
	MUST(strlen(id) >= 12 && strcmp(id, again) == 0);
	MUST(id[0] >= 'a' && id[0] <= 'z');
	for (const char *c = id; *c; c++)
		MUST((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-');
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct partition_entry *e = NULL, *again = NULL;
	struct buf one = FUZZ_TEXT, other = FUZZ_TEXT;
	struct err err = ERR_INIT;

	if (partition_entry_decode("job-ns-0-0123456789", fuzz_str(p, len), &e, &err) < 0) {
		MUST(err.msg[0] && !e);
		return 0;
	}
	try_id(e);
	MUST(partition_entry_encode(e, &one, NULL) == 0);
	if (partition_entry_decode(e->id, buf_str(&one), &again, &err) < 0)
		fprintf(stderr, "%.*s\n%s\n", STR_ARG(buf_str(&one)), err.msg);
	MUST(again);
	MUST(partition_ask_same_need(&e->ask, &again->ask));
	MUST(e->phase == again->phase && e->ask.instance == again->ask.instance);
	MUST(partition_entry_encode(again, &other, NULL) == 0);
	fuzz_same(&one, &other);
	partition_entry_free(e);
	partition_entry_free(again);
	return 0;
}
