/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label and field selectors, matched against an object.
 * Input: a line with the label selector, one with the field selector, the object's JSON.
 */
#include "core/json.h"
#include "fuzz.h"
#include "sim/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	struct str labels = fuzz_line(&s), fields = fuzz_line(&s);
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct sim_selector *both = NULL, *one = NULL, *other = NULL;
	struct err err = ERR_INIT;

	if (json_parse(s, &doc, NULL) < 0)
		return 0;
	if (sim_selector_parse(labels, fields, &both, &err) < 0) {
		MUST(err.kind == ERR_INVALID && !both);
		return 0;
	}
	/* Both hold where each of them holds. */
	MUST(sim_selector_parse(labels, STR_NULL, &one, NULL) == 0);
	MUST(sim_selector_parse(STR_NULL, fields, &other, NULL) == 0);
	MUST(sim_selector_matches(both, json_root(doc)) ==
	     (sim_selector_matches(one, json_root(doc)) &&
	      sim_selector_matches(other, json_root(doc))));
	sim_selector_free(both);
	sim_selector_free(one);
	sim_selector_free(other);
	return 0;
}
