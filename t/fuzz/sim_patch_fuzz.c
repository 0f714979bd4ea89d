/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON patch and merge patch: what comes out can be written and read; a merge patch that is applied
 * twice changes nothing more.
 * Input: an array of two: the document, and the patch (an array: JSON patch; else a merge patch).
 */
#include "core/json.h"
#include "fuzz.h"
#include "sim/jsonpatch.h"

static void must_be_whole(const struct jmut *v)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct buf text = FUZZ_TEXT;
	struct err err = ERR_INIT;

	MUST(jmut_write(v, JSON_COMPACT, &text, NULL) == 0);
	if (json_parse(buf_str(&text), &doc, &err) < 0)
		MUST(err.kind == ERR_LIMIT);
	else
		MUST(json_equal(json_root(doc), jmut_view(v)));
	buf_done(&text);
}

static void try_json_patch(const struct json *document, const struct json *patch)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, document);
	struct err err = ERR_INIT;

	if (sim_json_patch(doc, &root, patch, &err) < 0)
		MUST(err.kind != ERR_NONE && err.msg[0]);
	else if (root)
		must_be_whole(root);
}

static void try_merge_patch(const struct json *document, const struct json *patch)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *once = jmut_merge_patch(doc, jmut_copy(doc, document), patch);
	struct jmut *twice = jmut_merge_patch(doc, jmut_clone(doc, once), patch);

	must_be_whole(once);
	MUST(json_equal(jmut_view(once), jmut_view(twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (json_parse(fuzz_str(p, len), &doc, NULL) < 0 || json_len(json_root(doc)) != 2 ||
	    json_type(json_root(doc)) != JSON_ARRAY)
		return 0;
	const struct json *document = json_item(json_root(doc), 0);
	const struct json *patch = json_item(json_root(doc), 1);
	if (json_type(patch) == JSON_ARRAY)
		try_json_patch(document, patch);
	else
		try_merge_patch(document, patch);
	return 0;
}
