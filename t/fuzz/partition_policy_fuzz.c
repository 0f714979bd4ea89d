/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits in a Namespace's annotations: each within its bounds or unset, and what holds with them is
 * never more than what the site says of that namespace.
 * Input: the annotations, JSON.
 */
#include "fuzz.h"
#include "partition/policy.h"

#define N_LIMITS 5

static void list(const struct partition_policy *p, int64_t ret[N_LIMITS])
{
	ret[0] = p->max_ipus;
	ret[1] = p->max_job_ipus;
	ret[2] = p->max_deadline_s;
	ret[3] = p->default_deadline_s;
	ret[4] = p->max_interactive_s;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct partition_policy_of_ns named = {(char[]){"a"}, {64, 32, 3600, 600, 60}};
	const struct partition_rules rules = {
		.fallback = partition_policy_none, .named = &named, .n = 1};
	struct partition_policy said, held;
	struct json_doc *doc;
	struct err err = ERR_INIT;
	int64_t limits[N_LIMITS], most[N_LIMITS], now[N_LIMITS];

	if (json_parse(fuzz_str(p, len), &doc, NULL) < 0)
		return 0;
	if (!partition_policy_read(json_root(doc), &said, &err))
		MUST(err.kind == ERR_INVALID && err.msg[0]);
	list(&said, limits);
	held = partition_policy_for(&rules, "a", &said);
	list(&named.policy, most);
	list(&held, now);
	for (int i = 0; i < N_LIMITS; i++) {
		MUST(limits[i] >= PARTITION_UNSET && limits[i] <= PARTITION_POLICY_MAX);
		MUST(now[i] >= 0 && now[i] <= most[i]);
	}
	held = partition_policy_for(&rules, "b", &said);
	list(&held, now);
	for (int i = 0; i < N_LIMITS; i++)
		MUST(now[i] == (limits[i] == PARTITION_UNSET ? PARTITION_UNLIMITED : limits[i]) ||
		     limits[i] == PARTITION_UNSET);
	json_doc_free(doc);
	return 0;
}
