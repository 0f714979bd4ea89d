/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Last-Event-ID of who comes back to the live page: what is known leads to a frame that is kept, or
 * to the next one, and no other text does. Input: the field's value.
 */
#include "fuzz.h"
#include "proxy/live_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_FREE char *text = str_dup(fuzz_str(p, len));
	struct live *l = xcalloc(1, sizeof(*l));
	char id[LIVE_ID_SIZE];
	uint64_t next = 0, again = 0;

	snprintf(l->epoch, sizeof(l->epoch), "0123abcd");
	l->valid = true;
	l->first = 5;
	l->n = 20;
	if (live_resume(l, text, &next)) {
		MUST(next >= l->first && next <= l->n + 1);
		frames_id(l, next - 1, id);
		MUST(live_resume(l, id, &again) && again == next);
		l->valid = false;
		MUST(!live_resume(l, text, &again));
	}
	free(l);
	return 0;
}
