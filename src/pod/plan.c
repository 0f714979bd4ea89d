/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of doc/design/annotated-pods.md, line by line.
 */
#include "pod/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"

struct work {
	const struct pod_view *v;
	const struct pod *pod;
	const struct partition_status *part;
	struct pod_plan *out;
};

/* ---- words ---- */

__attribute__((format(printf, 3, 4))) static void tell(struct work *w, const char *event,
						       const char *fmt, ...)
{
	va_list ap;

	w->out->event = event;
	w->out->warning = true;
	va_start(ap, fmt);
	vsnprintf(w->out->message, sizeof(w->out->message), fmt, ap);
	va_end(ap);
}

/* What keeps it from its IPUs: shown at the Pod. */
static void wait_because(struct work *w, const char *event, const char *message)
{
	tell(w, event, "%s", message);
	w->out->waits = true;
}

static void wait_for_partition(struct work *w)
{
	const struct partition_status *part = w->part;

	if (!part->message[0] || !part->why)
		return;
	wait_because(w, partition_why_name(part->why), part->message);
	w->out->warning = part->why != PARTITION_WHY_NO_ROOM && part->why != PARTITION_WHY_QUEUED &&
			  part->why != PARTITION_WHY_STARTING;
	/* A matter of seconds, after each start: people needn't read it at each Pod. */
	w->out->waits = part->why != PARTITION_WHY_STARTING;
}

/* ---- what is seen ---- */

static bool asks(const struct work *w)
{
	return w->part->ask != NULL;
}

static void release(struct work *w)
{
	if (asks(w))
		w->out->action = POD_RELEASE;
}

/* Its partition was given to it, so a patch that opens its gate may be under way, of this process
 * or of one that has died: that one has to fail before the partition goes. */
static bool must_fence(struct work *w)
{
	enum partition_state state = w->part->state;

	if (w->v->fenced || (state != PARTITION_STATE_ACTIVE && state != PARTITION_STATE_FAILED &&
			     state != PARTITION_STATE_RESETTING))
		return false;
	if (!w->out->event)
		wait_because(w, "AskedOtherwise", "it asks for something else now");
	w->out->action = POD_FENCE;
	return true;
}

static void give_back(struct work *w)
{
	if (asks(w) && !must_fence(w))
		w->out->action = POD_RELEASE;
}

static void ask_otherwise(struct work *w)
{
	if (!must_fence(w))
		w->out->action = POD_ENSURE;
}

static bool wants_otherwise(const struct work *w)
{
	struct partition_ask ask = pod_ask(w->pod, w->part->wanted_attempt);
	const struct partition_ask *now = w->part->ask;

	return !now || !partition_ask_same_need(now, &ask) || now->priority != ask.priority ||
	       now->deadline_ms != ask.deadline_ms;
}

static bool is_mine(const struct work *w, const struct job_files *f)
{
	return f->owner_uid && strcmp(f->owner_uid, w->pod->uid) == 0;
}

static bool is_same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

/* ---- in deletion ---- */

static void plan_deletion(struct work *w)
{
	const struct pod *pod = w->pod;
	int64_t stuck_ms = pod->deletion_ms + w->v->unreachable_ms;

	if (pod->gated || !pod->started) {
		release(w);
		return;
	}
	if (!asks(w) || !w->v->unreachable_ms || !pod->deletion_ms)
		return;
	if (w->v->now_ms < stuck_ms) {
		w->out->next_ms = stuck_ms;
		return;
	}
	tell(w, "NodeLost",
	     "its node doesn't answer, %" PRId64
	     " s after its grace period: its IPUs are taken back, the Pod is left to Kubernetes",
	     (w->v->now_ms - pod->deletion_ms) / 1000);
	release(w);
}

/* ---- behind the gate ---- */

static void hold_back(struct work *w, const char *event, const char *message)
{
	wait_because(w, event, message);
	w->out->action = POD_HOLD_BACK;
}

/* Where its own node selector forbids what the partition asks for. */
static bool is_elsewhere(struct work *w)
{
	const struct partition_status *part = w->part;
	struct str own;
	char z[256];

	if (!part->label_key)
		return false;
	own = pod_selector_value(w->pod, part->label_key);
	if (!own.p || str_eqz(own, part->label_value))
		return false;
	snprintf(z, sizeof(z),
		 "its node selector says %.60s=%.*s, and the IPUs of %.80s are reached from nodes "
		 "with %.60s",
		 part->label_key, own.len < 60 ? (int)own.len : 60, own.p,
		 part->controller ? part->controller : "", part->label_value);
	hold_back(w, "NodeSelectorConflict", z);
	return true;
}

/* True: what its containers read is there, as it should be. */
static bool plan_files(struct work *w)
{
	const struct job_files *f = w->v->files;
	uint64_t hash = pod_files_wanted(w->part);
	char z[256];

	if (!hash) {
		if (w->pod->gated)
			wait_for_partition(w);
		return false;
	}
	if (f && !is_mine(w, f)) {
		snprintf(z, sizeof(z),
			 "ConfigMap %.80s exists and isn't this Pod's: remove it, or make the Pod "
			 "anew",
			 f->name);
		if (w->pod->gated)
			hold_back(w, "NameConflict", z);
		return false;
	}
	if (f && f->deleting)
		return false;
	if (f && f->hash == hash && is_same(f->partition, w->part->id))
		return true;
	w->out->action = POD_WRITE_FILES;
	return false;
}

static void plan_active(struct work *w)
{
	if (wants_otherwise(w)) {
		ask_otherwise(w);
		return;
	}
	if (w->part->draining) {
		tell(w, "ControllerDraining",
		     "V-IPU controller %.80s, which has partition %s, is being emptied: the Pod "
		     "gets IPUs elsewhere",
		     w->part->controller ? w->part->controller : "",
		     w->part->id ? w->part->id : "");
		give_back(w);
		return;
	}
	if (!is_elsewhere(w) && plan_files(w))
		w->out->action = POD_OPEN;
}

static void plan_partition(struct work *w)
{
	switch (w->part->state) {
	case PARTITION_STATE_NONE:
	case PARTITION_STATE_RELEASING:
		w->out->action = POD_ENSURE;
		return;
	case PARTITION_STATE_WAITING:
	case PARTITION_STATE_CREATING:
	case PARTITION_STATE_RESETTING:
		wait_for_partition(w);
		if (wants_otherwise(w))
			ask_otherwise(w);
		return;
	case PARTITION_STATE_ACTIVE:
		plan_active(w);
		return;
	case PARTITION_STATE_FAILED:
		wait_for_partition(w);
		give_back(w);
		return;
	}
}

static void plan_gated(struct work *w)
{
	const struct pod *pod = w->pod;

	if (pod->problem) {
		wait_because(w, "InvalidAnnotation", pod->problem);
		give_back(w);
	} else if (pod->of_job) {
		return;
	} else if (w->v->copy) {
		wait_because(
			w, "TokenTaken",
			"another Pod has the same label " POD_LABEL
			": this one was made without the webhook, as a copy, and gets no IPUs");
	} else if (pod->other_gate) {
		wait_because(w, "OtherGates", "waiting for its other scheduling gates to open");
		w->out->warning = false;
		give_back(w);
	} else if (w->v->now_ms < w->v->retry_ms) {
		wait_because(w, w->v->trouble_event, w->v->trouble ? w->v->trouble : "");
		w->out->next_ms = w->v->retry_ms;
		give_back(w);
	} else {
		plan_partition(w);
	}
}

/* ---- its containers may run ---- */

static void plan_opened(struct work *w)
{
	const struct partition_status *part = w->part;

	if (part->state == PARTITION_STATE_NONE && !w->v->adopted && !w->pod->problem)
		w->out->action = POD_ADOPT;
	else if (part->state == PARTITION_STATE_ACTIVE && is_same(part->id, w->pod->partition))
		(void)plan_files(w);
	else if (part->state == PARTITION_STATE_FAILED)
		tell(w, partition_why_name(part->why), "%s", part->message);
}

/* It asked for itself, and named no time: the namespace's holds for it too. */
static void plan_own(struct work *w)
{
	const struct partition_status *part = w->part;

	if (part->state == PARTITION_STATE_ACTIVE && part->deadline_ms > 0 && part->ask &&
	    !part->ask->deadline_ms && !w->pod->deadline_ms && w->pod->start_ms &&
	    w->v->now_ms >= w->v->retry_ms)
		w->out->action = POD_LIMIT;
}

void pod_plan(const struct pod_view *view, struct pod_plan *ret)
{
	struct work w = {.v = view, .pod = view->pod, .part = view->partition, .out = ret};

	*ret = (struct pod_plan){.action = POD_NOTHING};
	if (w.pod->ended)
		release(&w);
	else if (w.pod->deleting)
		plan_deletion(&w);
	else if (w.pod->gated)
		plan_gated(&w);
	else if (w.pod->partition)
		plan_opened(&w);
	else
		plan_own(&w);
}

const char *pod_action_name(enum pod_action action)
{
	static const char *const names[] = {
		[POD_NOTHING] = "nothing",
		[POD_ENSURE] = "ensure",
		[POD_ADOPT] = "adopt",
		[POD_RELEASE] = "release",
		[POD_WRITE_FILES] = "write-files",
		[POD_OPEN] = "open",
		[POD_FENCE] = "fence",
		[POD_LIMIT] = "limit",
		[POD_HOLD_BACK] = "hold-back",
	};

	return names[action];
}

enum pod_stage pod_stage(const struct pod *pod)
{
	if (pod->ended)
		return POD_STAGE_ENDED;
	if (!pod->gated)
		return POD_STAGE_SERVED;
	return pod->problem ? POD_STAGE_REFUSED : POD_STAGE_WAITING;
}

const char *pod_stage_name(enum pod_stage stage)
{
	static const char *const names[] = {
		[POD_STAGE_WAITING] = "waiting",
		[POD_STAGE_REFUSED] = "refused",
		[POD_STAGE_SERVED] = "served",
		[POD_STAGE_ENDED] = "ended",
	};

	return names[stage];
}
