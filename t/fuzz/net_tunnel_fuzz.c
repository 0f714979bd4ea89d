/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy's answer to CONNECT, as it comes a byte at a time.
 * Input: the answer.
 */
#include "fuzz.h"
#include "net/tunnel.h"

static bool ends_head(struct str s)
{
	return s.len >= 4 && memcmp(s.p + s.len - 4, "\r\n\r\n", 4) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str all = fuzz_str(p, len);
	bool was_whole = false;

	if (len > 4096)
		return 0;
	for (size_t n = 0; n <= len; n++) {
		CLEANUP_FREE uint8_t *bytes = xcalloc(n ? n : 1, 1); /* of exactly that size */
		struct str s = fuzz_str(bytes, n);
		struct err err = ERR_INIT;
		bool is_whole = false;

		if (n > 0)
			memcpy(bytes, p, n);
		int rc = tunnel_parse(s, &is_whole, &err);

		MUST(rc == 0 ? err.kind == ERR_NONE : err.kind != ERR_NONE && err.msg[0]);
		MUST(is_whole == (was_whole || ends_head(s)));
		MUST(is_whole || rc == 0);
		if (rc == 0 && is_whole)
			MUST(!was_whole && str_has_prefix(all, STR("HTTP/1.")) && s.p[9] == '2');
		was_whole = is_whole;
	}
	return 0;
}
