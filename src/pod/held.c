/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An annotated Pod that waits for something else than IPUs, by its gates and what is written at it.
 * Owns nothing. Uses the model.
 */
#include "pod/held.h"

#include "core/str.h"

/* Gates of https://kueue.sigs.k8s.io: "…/admission", "…/topology". */
#define KUEUE_GATES "kueue.x-k8s.io/"

/* What keeps it, where it isn't time alone; NULL: nothing that is known. */
static const char *find_reason(const struct pod *pod, struct job_held *out)
{
	if (pod->problem) {
		out->message = pod->problem;
		out->plain = "what it asks for can't be had: its annotations say why";
		return "InvalidAnnotation";
	}
	if (pod->other_gate && str_has_prefix(str_of(pod->other_gate), STR(KUEUE_GATES))) {
		out->plain = "Kueue hasn't admitted it: until then it asks for no IPUs";
		return "HeldByKueue";
	}
	if (pod->other_gate) {
		out->plain = "it asks for no IPUs until its other scheduling gates are open";
		return "OtherGates";
	}
	if (pod->gated && pod->waiting) {
		out->message = pod->waiting;
		out->plain = "it asks for no IPUs now: its annotations say why";
		return "HeldBack";
	}
	return NULL;
}

bool pod_is_held(const struct pod *pod, int64_t active_ms, int64_t now_ms, struct job_held *ret)
{
	int64_t since_ms = active_ms > pod->created_ms ? active_ms : pod->created_ms;
	bool is_new = now_ms - since_ms < JOB_HELD_AFTER_MS;
	struct job_held out = {.since_ms = since_ms, .ipus = pod->ipus};

	ret->due_ms = 0;
	if (pod->deleting || pod->started || pod->ended || pod->of_job)
		return false;
	out.reason = find_reason(pod, &out);
	/* With a partition, its gate is just being opened. */
	if (is_new && (!out.reason || active_ms)) {
		ret->due_ms = since_ms + JOB_HELD_AFTER_MS;
		return false;
	}
	if (!out.reason) {
		out.reason = "NotRunning";
		out.plain = pod->gated ? "it isn't in the queue for IPUs"
				       : "no node has been chosen for it";
	}
	if (!out.message)
		out.message = out.plain;
	*ret = out;
	return true;
}
