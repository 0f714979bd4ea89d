/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TokenRequest in protobuf, as kubectl sends it to ipu-sim. What is understood can be written.
 * Input: the body.
 */
#include "core/json.h"
#include "fuzz.h"
#include "sim/api_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf out = FUZZ_TEXT;
	struct err err = ERR_INIT;
	struct jmut *root = NULL;

	if (sim_token_request_decode(fuzz_str(p, len), doc, &root, &err) < 0) {
		MUST(err.kind == ERR_INVALID && err.code == 400 && !root);
		return 0;
	}
	const struct json *spec = json_get(jmut_view(root), "spec");
	MUST(json_int(json_get(spec, "expirationSeconds"), 0) >= 0);
	MUST(json_len(json_get(spec, "audiences")) <= len);
	if (jmut_write(root, JSON_COMPACT, &out, NULL) == 0)
		MUST(out.len > 0);
	buf_done(&out);
	return 0;
}
