/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Events of an annotated Pod: its partition's steps, and what keeps it waiting, each told when
 * a pass sees it for the first time. What an earlier process of the operator saw isn't told again.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "pod/internal.h"

void pod_tell(struct pod_ctx *ctx, enum kube_event_level level, const char *reason, const char *fmt,
	      ...)
{
	struct kube_ref about = {
		.api_version = "v1",
		.kind = POD_KIND,
		.ns = ctx->ns,
		.name = ctx->name,
		.uid = ctx->uid,
	};
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	kube_event(ctx->c->opts.recorder, &about, level, reason, "%s", message);
}

static bool is_delayed(const struct partition_status *st)
{
	return st->state == PARTITION_STATE_RELEASING && st->message[0];
}

static bool is_same_id(const struct pod_told *t, const struct partition_status *st)
{
	return t->id && st->id && strcmp(t->id, st->id) == 0;
}

void pod_told_free(struct pod_ctx *ctx)
{
	free(ctx->told.id);
	free(ctx->told.controller);
	ctx->told = (struct pod_told){0};
}

static void remember(struct pod_ctx *ctx, const struct partition_status *st)
{
	struct pod_told *t = &ctx->told;

	t->state = st->state;
	t->draining = st->draining;
	t->delayed = is_delayed(st);
	if (st->ask)
		t->ipus = st->ask->ipus;
	if (!st->id || is_same_id(t, st))
		return; /* releasing: what it was stays known until it's gone */
	free(t->id);
	free(t->controller);
	t->id = xstrdup(st->id);
	t->controller = xstrdup(st->controller);
}

static void tell_new(struct pod_ctx *ctx, const struct partition_status *st)
{
	unsigned ipus = st->ask ? st->ask->ipus : 0;

	if (st->adopted)
		pod_tell(ctx, KUBE_EVENT_WARNING, "PartitionAdopted",
			 "Partition %s with %u IPU%s on %s wasn't in the tracker and is taken over",
			 st->id, ipus, ipus == 1 ? "" : "s", st->controller);
	else
		pod_tell(ctx, KUBE_EVENT_NORMAL, "PartitionRequested",
			 "Partition %s with %u IPU%s was asked of %s", st->id, ipus,
			 ipus == 1 ? "" : "s", st->controller);
}

static void tell_active(struct pod_ctx *ctx, const struct partition_status *st)
{
	const struct pod_told *t = &ctx->told;
	unsigned ipus = st->ask ? st->ask->ipus : 0;

	if (is_same_id(t, st) && t->state == PARTITION_STATE_RESETTING)
		pod_tell(ctx, KUBE_EVENT_NORMAL, "PartitionReset",
			 "Partition %s with %u IPU%s on %s was reset", st->id, ipus,
			 ipus == 1 ? "" : "s", st->controller);
	else if (!is_same_id(t, st) || t->state != PARTITION_STATE_ACTIVE)
		pod_tell(ctx, KUBE_EVENT_NORMAL, "PartitionActive",
			 "Partition %s with %u IPU%s on %s is active", st->id, ipus,
			 ipus == 1 ? "" : "s", st->controller);
}

void pod_tell_partition(struct pod_ctx *ctx, const struct pod *pod,
			const struct partition_status *st)
{
	struct pod_told *t = &ctx->told;

	if (!ctx->looked) {
		remember(ctx, st);
		return;
	}
	if (st->state == PARTITION_STATE_NONE) {
		if (t->id)
			pod_tell(ctx, KUBE_EVENT_NORMAL, "PartitionReleased",
				 "Partition %s on %s is gone, its IPUs are free", t->id,
				 t->controller);
		pod_told_free(ctx);
		return;
	}
	if (st->id && !is_same_id(t, st))
		tell_new(ctx, st);
	if (st->state == PARTITION_STATE_ACTIVE)
		tell_active(ctx, st);
	if (st->draining && !(is_same_id(t, st) && t->draining) && pod && !pod->gated)
		pod_tell(ctx, KUBE_EVENT_WARNING, "ControllerDraining",
			 "V-IPU controller %s, which has partition %s, is being emptied: nothing "
			 "new starts there, and this Pod should end or be made anew",
			 st->controller, st->id);
	if (is_delayed(st) && !t->delayed)
		pod_tell(ctx, KUBE_EVENT_WARNING, "ReleaseDelayed", "%s", st->message);
	remember(ctx, st);
}

static bool is_same_event(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* By an earlier process: its annotation says it, or it runs on what had failed before. */
static bool was_told(const struct pod_ctx *ctx, const struct pod *pod, const char *event)
{
	struct str reason, rest;

	if (!ctx->looked && pod->partition && !pod->deleting)
		return true;
	return !ctx->told_event && !ctx->said && pod->waiting &&
	       str_cut(str_of(pod->waiting), ':', &reason, &rest) && str_eqz(reason, event);
}

void pod_tell_plan(struct pod_ctx *ctx, const struct pod *pod, const struct pod_plan *plan)
{
	bool told = is_same_event(plan->event, ctx->told_event) ||
		    (plan->event && was_told(ctx, pod, plan->event));

	ctx->told_event = plan->event;
	if (plan->event && !told)
		pod_tell(ctx, plan->warning ? KUBE_EVENT_WARNING : KUBE_EVENT_NORMAL, plan->event,
			 "%s", plan->message);
}
