/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON: both back-ends give the same verdict and the same value, and what either writes the other
 * reads as the same. Input: the text.
 */
#include "fuzz.h"
#include "json_text.h"

/* json_text with the other back-end. */
void fy_json_text(struct str s, struct buf *out, struct buf *ret_written);

static void try_text(struct str s, struct buf *ret_written)
{
	struct buf one = FUZZ_TEXT, other = FUZZ_TEXT, by_other = FUZZ_TEXT;

	json_text(s, &one, ret_written);
	fy_json_text(s, &other, &by_other);
	fuzz_same(&one, &other);
	if (by_other.len > 0) {
		/* How a number is written may differ, what it is may not. */
		struct buf back = FUZZ_TEXT, cross = FUZZ_TEXT, none = FUZZ_TEXT;
		json_text(buf_str(&by_other), &back, &none);
		buf_clear(&none);
		fy_json_text(buf_str(ret_written), &cross, &none);
		buf_done(&none);
		fuzz_same(&back, &cross);
	}
	buf_done(&by_other);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct buf written = FUZZ_TEXT;

	try_text(fuzz_str(p, len), &written);
	buf_done(&written);
	return 0;
}
