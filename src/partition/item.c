/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tracker entry at work: gathers what is known about it, asks the planner, does the one step
 * that it names, and looks again when the answer or news of it come. Uses vipu.
 */
#include "partition/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "partition/ipuof.h"

static const struct vipu_controller *controller_of(const struct item *item)
{
	return vipu_fleet_find(item->p->fleet, item->entry->controller);
}

/* ---- what is known ---- */

static int64_t wall_of_mono(int64_t mono_ms)
{
	return clock_wall_ms() - (clock_mono_ms() - mono_ms);
}

static void facts_of_list(struct partition_facts *f, const struct item *item,
			  const struct vipu_controller *c)
{
	/* Two clocks, read one after the other: on the safe side by their grain. */
	int64_t asked_ms = c->fresh_ms ? wall_of_mono(c->fresh_ms) - 2 : 0;

	partition_facts_listed(f, item->entry,
			       vipu_partitions_find(&c->partitions, str_of(item->entry->id)),
			       asked_ms);
}

bool item_is_unlisted(const struct item *item)
{
	const struct vipu_controller *c = controller_of(item);
	struct partition_facts f = item->facts;

	if (!c)
		return false;
	facts_of_list(&f, item, c);
	return f.listed == PARTITION_NOT_FOUND;
}

static void gather(struct item *item)
{
	struct partition_facts *f = &item->facts;
	const struct slot *slot = item->slot;
	const struct vipu_controller *c = controller_of(item);

	f->now_ms = clock_wall_ms();
	f->recorded = item->in_tracker && tracker_is_recorded(item->p->tracker, item->entry->id);
	f->wanted = slot->serving == item && slot->asking;
	if (item->entry->phase == PARTITION_ACTIVE && f->recorded && f->wanted &&
	    ipuof_step(item, c))
		item->usable = true;
	f->attempt = slot->ask.attempt;
	f->abandoned = slot->abandoned;
	f->configured = c && (c->configured || (!item->p->fleet_known && !item_is_orphan(item)));
	if (!c) {
		f->listed = PARTITION_UNSEEN;
		f->unreachable_since_ms = item->entry->since_ms;
		return;
	}
	f->unreachable_since_ms = c->reach == VIPU_REACH_NO && c->failing_since_ms
					  ? wall_of_mono(c->failing_since_ms)
					  : 0;
	facts_of_list(f, item, c);
}

/* What it has held until now, as it was; what it holds from now on. */
void item_count_usage(struct item *item)
{
	const struct partition_ask *ask = &item->entry->ask;

	usage_count(&item->usage, ask->owner.ns, ask->ipus,
		    !item->p->following && !item->forgotten &&
			    partition_holds_ipus(item->p, item->entry));
}

/* ---- calls ---- */

static void call_failed(struct item *item, const struct err *err)
{
	str_keep(&item->message, err->msg);
	item->facts.not_before_ms = clock_wall_ms() + backoff_next_ms(&item->backoff, err);
	log_debug("partition", item->entry->id, "%s on %s: %s",
		  partition_step_name(item->facts.calling), item->entry->controller, err->msg);
}

/* The call's answer, put into the facts, is no failure, or err. */
static void call_ended(struct item *item, const struct err *err)
{
	const struct partition_facts *f = &item->facts;

	if (err) {
		call_failed(item, err);
	} else {
		/* A look that finds nothing is no progress: a request that fails between such looks
		 * keeps backing off. */
		if (f->calling != PARTITION_CALL_STATUS || f->status == PARTITION_PRESENT)
			backoff_reset(&item->backoff);
		if (f->status != PARTITION_PRESENT || f->health != PARTITION_BROKEN)
			str_keep(&item->message, NULL);
	}
	item_touch(item);
}

static void take_answer(struct item *item, const struct err *err, const struct vipu_status *status)
{
	bool failed = partition_facts_answered(&item->facts, err, status, clock_wall_ms());

	call_ended(item, failed ? err : NULL);
}

static void describe_refused(struct item *item, const struct err *err)
{
	const struct partition_entry *e = item->entry;

	if (err->kind == ERR_EXISTS)
		str_keepf(&item->message,
			  "partition %s is on %s already, and the operator didn't make it", e->id,
			  e->controller);
	else
		str_keepf(&item->message, "%s refuses partition %s with %u IPU%s: %.120s",
			  e->controller, e->id, e->ask.ipus, e->ask.ipus == 1 ? "" : "s", err->msg);
}

static void on_created(void *arg, const struct err *err, const char *id)
{
	struct item *item = arg;

	(void)id;
	vipu_fleet_refresh(item->p->fleet, item->entry->controller);
	take_answer(item, err, NULL);
	if (err)
		describe_refused(item, err);
}

static void on_done(void *arg, const struct err *err)
{
	take_answer(arg, err, NULL);
}

void item_count_failed_releases(const char *controller, unsigned n)
{
	static const char *const labels[] = {"controller", NULL};

	metric_add(
		metric_new(METRIC_COUNTER, "ipu_operator_releases_failed_total",
			   "Removals of partitions that their controller refused or didn't answer.",
			   labels, NULL, 0),
		&controller, n);
}

static void on_removed(void *arg, const struct err *err)
{
	struct item *item = arg;

	if (err && err->kind != ERR_NOT_FOUND)
		item_count_failed_releases(item->entry->controller, 1);
	take_answer(item, err, NULL);
}

static void describe_broken(struct item *item, const struct vipu_status *s)
{
	char resets[48] = "";

	if (s->max_auto_resets)
		snprintf(resets, sizeof(resets), " (auto-reset %u of %u)", s->auto_resets,
			 s->max_auto_resets);
	str_keepf(&item->message, "partition %s on %s is in %s%s%.150s%s", item->entry->id,
		  item->entry->controller,
		  s->operation == VIPU_POS_FAILED ? vipu_operation_name(s->operation)
						  : vipu_ready_name(s->ready),
		  s->n_errors ? ": " : "", s->n_errors ? s->errors[0] : "", resets);
}

static void on_status(void *arg, const struct err *err, struct vipu_status *got)
{
	struct item *item = arg;

	take_answer(item, err, got);
	if (!err && item->facts.health == PARTITION_BROKEN)
		describe_broken(item, got);
}

static void on_list(void *arg, const struct err *err, const struct vipu_controller *c)
{
	(void)c;
	take_answer(arg, err, NULL);
}

static void call_create(struct item *item, struct vipu_client *client,
			const struct vipu_controller *c)
{
	const struct partition_ask *ask = &item->entry->ask;
	const struct partition_options *o = &ask->options;
	/* More than one IPU-Link domain: a segment in each, joined by the gateways. */
	bool spans = ask->ipus > VIPU_DOMAIN_IPUS;
	struct vipu_create req = {
		.id = item->entry->id,
		.size = ask->ipus,
		.cluster_id = c->address.cluster,
		.routing = (enum vipu_routing)o->routing_type,
		.sync = (enum vipu_sync)o->sync_type,
		.gcds = o->gcds,
		.replicas = o->replicas,
		.reconfigurable = o->reconfigurable,
		.segments = spans ? ask->ipus / VIPU_DOMAIN_IPUS : 0,
		.gw_routing = spans ? VIPU_GRT_RING : VIPU_GRT_UNDEFINED,
		.allocation_id = o->allocation ? o->allocation : c->address.allocation,
	};

	/* Once for people: what is asked again is the same. */
	log_msg(item->facts.answer == PARTITION_UNSENT ? LOG_INFO : LOG_DEBUG, "partition",
		item->entry->id, "asked for: controller=%s ipus=%u owner=%s/%s",
		item->entry->controller, ask->ipus, ask->owner.ns, ask->owner.name);
	vipu_create_partition_start(client, &req, (unsigned)item->p->times.call_ms, on_created,
				    item, &item->calls);
}

static void call(struct item *item, enum partition_step step)
{
	unsigned deadline_ms = (unsigned)item->p->times.call_ms;
	const struct vipu_controller *c = controller_of(item);
	const char *id = item->entry->id;
	struct vipu_remove remove = {.id = id, .force = step == PARTITION_CALL_REMOVE_FORCED};
	struct vipu_reset reset = {.id = id};

	if (!c) { /* its name isn't an address: nobody to ask, ever */
		item->facts.not_before_ms = clock_wall_ms() + item->p->times.orphan_ms;
		loop_timer_start_in(&item->timer, item->p->times.orphan_ms);
		return;
	}
	partition_facts_sent(&item->facts, step, clock_wall_ms());
	switch (step) {
	case PARTITION_CALL_CREATE:
		call_create(item, c->client, c);
		break;
	case PARTITION_CALL_STATUS:
		vipu_get_partition_status_start(c->client, id, deadline_ms, on_status, item,
						&item->calls);
		break;
	case PARTITION_CALL_LIST:
		vipu_fleet_refresh_start(item->p->fleet, c->name, on_list, item, &item->calls);
		break;
	case PARTITION_CALL_RESET:
		vipu_reset_partition_start(c->client, &reset, deadline_ms, on_done, item,
					   &item->calls);
		break;
	default:
		vipu_remove_partition_start(c->client, &remove, deadline_ms, on_removed, item,
					    &item->calls);
		break;
	}
}

/* ---- steps ---- */

/* One that can't be written down at all isn't recorded: nothing is asked of its controller. With
 * what there was no memory for nothing goes on until there is. */
static void put(struct item *item)
{
	struct buf json = BUF_INIT(16384);
	struct err err;

	if (item->unwritten)
		str_keep(&item->message, NULL);
	item->unwritten = false;
	if (partition_entry_encode(item->entry, &json, &err) < 0) {
		item->unwritten = err_is_no_memory(&err);
		log_error("partition", item->entry->id, "can't be written down: %s", err.msg);
		str_keepf(&item->message, "partition %s can't be put into the tracker: %.150s",
			  item->entry->id, err.msg);
		if (item->unwritten)
			loop_timer_start_in(&item->timer, PARTITION_UNWRITTEN_MS);
	} else {
		tracker_put(item->p->tracker, item->entry->id, item->entry->ask.owner.uid,
			    buf_str(&json));
		item->in_tracker = true;
	}
	buf_done(&json);
}

static const char *reason_of(const struct item *item, enum partition_why why)
{
	if (item->facts.abandoned)
		return "its owner doesn't wait for its removal";
	return why == PARTITION_WHY_NONE ? NULL
	       : item->message           ? item->message
					 : partition_why_name(why);
}

static void step_record(struct item *item, const struct partition_plan *plan)
{
	struct partition_entry *e = item->entry;
	enum partition_phase from = e->phase;

	scope_cancel(&item->calls);
	ipuof_drop(item->ipuof);
	item->usable = false;
	partition_facts_record(&item->facts, e, plan->phase, clock_wall_ms(), &item->p->times);
	backoff_reset(&item->backoff);
	if (plan->phase == PARTITION_RELEASING || (plan->phase == PARTITION_ORPHAN && !e->reason)) {
		free(e->reason);
		e->reason = xstrdup(reason_of(item, plan->why));
	}
	log_info("partition", e->id, "%s: was %s, controller=%s%s%s",
		 partition_phase_name(e->phase), partition_phase_name(from), e->controller,
		 e->reason ? ", " : "", e->reason ? e->reason : "");
	put(item);
	if (from == PARTITION_RESETTING && plan->phase == PARTITION_ACTIVE)
		item->slot->resets++;
	if (plan->phase == PARTITION_ACTIVE)
		backoff_reset(&item->slot->backoff);
	if (plan->phase == PARTITION_RELEASING || plan->phase == PARTITION_ORPHAN)
		slot_lost_item(item->slot, item, from, plan->why);
	slot_changed(item->slot);
}

static void step_forget(struct item *item, enum partition_why why)
{
	scope_cancel(&item->calls);
	partition_facts_cut(&item->facts);
	item->forgotten = true;
	item_count_usage(item);
	log_info("partition", item->entry->id, "leaves the tracker: was %s%s%s",
		 partition_phase_name(item->entry->phase), why ? ", " : "",
		 partition_why_name(why));
	tracker_drop(item->p->tracker, item->entry->id);
	vipu_fleet_refresh(item->p->fleet, item->entry->controller);
	slot_lost_item(item->slot, item, item->entry->phase, why);
	slot_changed(item->slot);
	item_touch(item);
}

static void run(struct loop_work *work, void *arg)
{
	struct item *item = arg;
	struct partition_plan plan;

	(void)work;
	item_count_usage(item);
	if (item->p->following || (item->p->may_act && !item->p->may_act(item->p->arg)))
		return;
	if (item->forgotten) {
		if (tracker_is_recorded(item->p->tracker, item->entry->id))
			slot_item_gone(item->slot, item);
		return;
	}
	if (item->unwritten) {
		put(item);
		slot_changed(item->slot);
		if (item->unwritten)
			return;
	}
	gather(item);
	if (!item->in_tracker && !item->facts.wanted) { /* nobody has heard of it */
		step_forget(item, PARTITION_WHY_NONE);
		return;
	}
	plan = partition_plan(item->entry, &item->facts, &item->p->times);
	loop_timer_stop(&item->timer);
	switch (plan.step) {
	case PARTITION_WAIT:
		if (plan.again_ms)
			loop_timer_start_in(&item->timer, plan.again_ms - item->facts.now_ms);
		slot_changed(item->slot);
		break;
	case PARTITION_RECORD:
		step_record(item, &plan);
		break;
	case PARTITION_FORGET:
		step_forget(item, plan.why);
		break;
	default:
		call(item, plan.step);
		slot_changed(item->slot);
		break;
	}
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	item_touch(arg);
}

void item_touch(struct item *item)
{
	loop_work_post(&item->work);
}

bool item_is_orphan(const struct item *item)
{
	return item->entry->phase == PARTITION_ORPHAN && !item->unwritten &&
	       tracker_is_recorded(item->p->tracker, item->entry->id);
}

struct item *item_new(struct slot *slot, struct partition_entry *entry, enum item_origin origin)
{
	struct item *item = xcalloc(1, sizeof(*item));
	struct partitions *p = slot->owner->p;
	int64_t now_ms = clock_wall_ms();
	struct err err;

	item->p = p;
	item->slot = slot;
	item->entry = entry;
	item->backoff = (struct backoff)BACKOFF_INIT(500, 30000);
	if (origin == ITEM_READ && !p->following)
		partition_entry_loaded(entry, now_ms);
	partition_facts_init(&item->facts, entry->phase, origin == ITEM_MADE ? 0 : now_ms);
	item->in_tracker = origin == ITEM_READ;
	item->usable = origin == ITEM_READ && entry->phase == PARTITION_ACTIVE;
	scope_init(&item->calls);
	loop_work_init(&item->work, p->loop, run, item);
	loop_timer_init(&item->timer, p->loop, on_timer, item);
	list_append(&slot->items, &item->link);
	map_put_borrowed(p->items, str_of(entry->id), item);
	item->held = vipu_fleet_hold(p->fleet, entry->controller, &err) == 0;
	if (!item->held)
		log_warn("partition", entry->id, "its controller in the tracker: %s", err.msg);
	if (origin != ITEM_READ)
		put(item);
	item_count_usage(item);
	item_touch(item);
	return item;
}

void item_free(struct item *item)
{
	usage_count(&item->usage, NULL, 0, false);
	scope_cancel(&item->calls);
	loop_work_cancel(&item->work);
	loop_timer_stop(&item->timer);
	ipuof_free(item->ipuof);
	if (item->held)
		vipu_fleet_release(item->p->fleet, item->entry->controller);
	map_del(item->p->items, str_of(item->entry->id));
	list_unlink(&item->link);
	partition_entry_free(item->entry);
	free(item->message);
	free(item);
}
