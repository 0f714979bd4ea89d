/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of RFC 3339: what was read and is written reads the same.
 * Input: the time.
 */
#include "core/clock.h"
#include "fuzz.h"

/* What four digits of a year can say. */
#define FIRST_MS INT64_C(-62167219200000)
#define LAST_MS  INT64_C(253402300799999)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	char z[CLOCK_RFC3339_SIZE];
	int64_t ms, again;

	if (clock_parse(fuzz_str(p, len), &ms, NULL) < 0)
		return 0;
	clock_format_micro(ms, z);
	MUST(clock_parse(str_of(z), &again, NULL) == 0);
	MUST(ms < FIRST_MS || ms > LAST_MS || again == ms);
	clock_format(ms, z);
	MUST(clock_parse(str_of(z), &again, NULL) == 0);
	MUST(again % 1000 == 0);
	MUST(ms < FIRST_MS || ms > LAST_MS || (again <= ms && ms - again < 1000));
	return 0;
}
