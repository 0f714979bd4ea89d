/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two JSON documents, a line each: the patch from the first leads to the second, and there is none
 * where they are equal. The simulator's code applies it.
 */
#include "admission/patch.h"
#include "fuzz.h"
#include "sim/jsonpatch.h"

#define MAX_INPUT 65536

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str rest = fuzz_str(p, len < MAX_INPUT ? len : MAX_INPUT), line = fuzz_line(&rest);
	CLEANUP_JSON struct json_doc *before = NULL, *after = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *ops = NULL, *root;
	struct err err = ERR_INIT;

	if (json_parse(line, &before, NULL) < 0 || json_parse(rest, &after, NULL) < 0)
		return 0;
	root = jmut_copy(doc, json_root(before));
	if (admission_patch_make(doc, json_root(before), json_root(after), &ops, &err) < 0) {
		MUST(err.kind == ERR_LIMIT && err.msg[0]);
		return 0;
	}
	MUST(!ops == json_equal(json_root(before), json_root(after)));
	if (!ops)
		return 0;
	MUST(jmut_len(ops) > 0 && jmut_len(ops) <= ADMISSION_PATCH_MAX);
	MUST(sim_json_patch(doc, &root, jmut_view(ops), &err) == 0);
	MUST(json_equal(jmut_view(root), json_root(after)));
	return 0;
}
