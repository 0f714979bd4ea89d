/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64: bytes that are encoded decode to themselves; a text that decodes is, without its line
 * breaks, what its bytes encode to.
 * Input: the text, and the bytes.
 */
#include "fuzz.h"

static void try_bytes(struct str s)
{
	CLEANUP_FREE char *text = base64_encode(s.p, s.len);
	uint8_t *back = NULL;
	size_t len;

	MUST(base64_decode(str_of(text), &back, &len, NULL) == 0);
	MUST(len == s.len && memcmp(back, s.p, len) == 0 && back[len] == '\0');
	free(back);
}

/* Bits that stand for nothing may be set in the last letter (RFC 4648, 3.5). */
static void try_text(struct str s)
{
	uint8_t *bytes = NULL;
	size_t len, at = 0;
	struct err err = ERR_INIT;

	if (base64_decode(s, &bytes, &len, &err) < 0) {
		MUST(err.kind == ERR_INVALID && !bytes);
		return;
	}
	CLEANUP_FREE char *again = base64_encode(bytes, len);
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] == '\r' || s.p[i] == '\n' || s.p[i] == ' ')
			continue;
		MUST(again[at] && (s.p[i] == again[at] || again[at + 1] == '='));
		at++;
	}
	MUST(again[at] == '\0');
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	try_bytes(fuzz_str(p, len));
	try_text(fuzz_str(p, len));
	return 0;
}
