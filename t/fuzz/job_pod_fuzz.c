/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The projection of a Pod.
 * Input: the Pod's JSON.
 */
#include "core/json.h"
#include "fuzz.h"
#include "job/pod.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct job_pod *pod = NULL, *again = NULL;

	if (json_parse(fuzz_str(p, len), &doc, NULL) < 0)
		return 0;
	if (job_pod_decode(json_root(doc), &pod, NULL) < 0)
		return 0;
	MUST(pod->name[0] && pod->uid[0] && pod->ns && pod->job_key);
	MUST(pod->instance >= -1 && pod->instance <= UINT32_MAX);
	MUST(!pod->fault || (pod->why && pod->message));
	MUST(job_pod_decode(json_root(doc), &again, NULL) == 0);
	MUST(job_pod_equal(pod, again));
	job_pod_free(pod);
	job_pod_free(again);
	return 0;
}
