/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass: puts the queue in order, gathers what is known, asks the scheduler about each slot, and
 * does what it says. Where room is old news, the controller is asked first; its answer to the
 * create is the truth. A pass does so much and no more, and comes again.
 */
#include "partition/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "partition/adopt.h"
#include "partition/gather.h"
#include "partition/namespaces.h"

#define FRESH_MS     1000 /* a view older than this is asked for again before a create */
#define SERVE_AT_ONE 128  /* slots that one pass serves at most */
#define SAY_AT_ONE   256  /* … and that it tells something new */
/* Times as long as a pass took, before the next: with thousands of partitions each looks at all. */
#define REST 4

/* What the queue knows of one controller. */
struct look {
	struct partitions *p;
	bool asking;
	int64_t answered_ms; /* mono: when the last one that was asked for here came; 0: none */
	unsigned reserved;   /* free IPUs that are kept there, by the last pass */
	unsigned fits[SCHEDULE_SIZES]; /* of partitions_count_fits, those that are there */
};

static struct look *look_at(struct partitions *p, const char *controller)
{
	struct look *look = map_get(p->looks, str_of(controller));

	if (look)
		return look;
	look = xcalloc(1, sizeof(*look));
	look->p = p;
	map_put(p->looks, str_of(controller), look);
	item_count_failed_releases(controller, 0);
	return look;
}

void queue_pass_at(struct partitions *p, int64_t mono_ms)
{
	if (!loop_timer_active(&p->pass_timer) || p->pass_timer.at_ms > mono_ms)
		loop_timer_start_at(&p->pass_timer, mono_ms);
}

/* ---- order ---- */

static int compare(const struct slot *a, const struct slot *b)
{
	int by_uid;

	if (a->ask.priority != b->ask.priority)
		return a->ask.priority > b->ask.priority ? -1 : 1;
	if (a->arrived_ms != b->arrived_ms)
		return a->arrived_ms < b->arrived_ms ? -1 : 1;
	by_uid = strcmp(a->ask.owner.uid, b->ask.owner.uid);
	if (by_uid)
		return by_uid;
	return a->ask.instance < b->ask.instance ? -1 : a->ask.instance > b->ask.instance;
}

static int compare_at(const void *a, const void *b)
{
	return compare(*(struct slot *const *)a, *(struct slot *const *)b);
}

static void put_in_order(struct partitions *p)
{
	size_t n = partitions_waiting(p), i = 0;
	struct slot **all;

	if (!p->queue_mixed)
		return;
	p->queue_mixed = false;
	all = xcalloc(n + 1, sizeof(struct slot *));
	LIST_FOREACH(pos, tmp, &p->queue) {
		all[i++] = CONTAINER_OF(pos, struct slot, queue);
		list_unlink(pos);
	}
	qsort(all, n, sizeof(struct slot *), compare_at);
	for (i = 0; i < n; i++)
		list_append(&p->queue, &all[i]->queue);
	free(all);
}

void queue_add(struct slot *s)
{
	struct partitions *p = s->owner->p;
	struct list *last = p->queue.prev;

	/* No two arrive at once: the order is the same when the tracker has been read again. */
	if (!s->arrived_ms) {
		s->arrived_ms = clock_wall_ms();
		if (s->arrived_ms <= p->last_arrived_ms)
			s->arrived_ms = p->last_arrived_ms + 1;
		p->last_arrived_ms = s->arrived_ms;
	}
	if (list_empty(&s->queue)) {
		if (last != &p->queue && compare(CONTAINER_OF(last, struct slot, queue), s) > 0)
			p->queue_mixed = true;
		list_append(&p->queue, &s->queue);
	}
	partitions_pass_soon(p);
}

void queue_move(struct slot *s, const struct partition_ask *ask)
{
	struct partitions *p = s->owner->p;

	if (s->ask.priority == ask->priority && s->ask.deadline_ms == ask->deadline_ms &&
	    s->ask.interactive == ask->interactive)
		return;
	s->ask.interactive = ask->interactive;
	s->ask.priority = ask->priority;
	s->ask.deadline_ms = ask->deadline_ms;
	if (s->serving) { /* in the tracker with its next phase */
		s->serving->entry->ask.priority = ask->priority;
		s->serving->entry->ask.deadline_ms = ask->deadline_ms;
		s->serving->entry->ask.interactive = ask->interactive;
	}
	p->queue_mixed = true;
	slot_changed(s);
	partitions_pass_soon(p);
}

static void forget_kept(struct slot *s)
{
	free(s->place.kept_at);
	s->place.kept_at = NULL;
}

static void forget_refusals(struct slot *s)
{
	for (size_t i = 0; i < s->place.n_refusals; i++)
		free(s->place.refusals[i].controller);
	free(s->place.refusals);
	s->place.refusals = NULL;
	s->place.n_refusals = 0;
}

void queue_remove(struct slot *s)
{
	list_unlink(&s->queue);
	s->place.position = s->place.said_position = 0;
	forget_kept(s);
	partitions_pass_soon(s->owner->p);
}

void queue_forget(struct slot *s)
{
	forget_kept(s);
	forget_refusals(s);
}

/* ---- refusals ---- */

static void count_refusal(struct slot *s, const char *controller)
{
	struct queue_place *place = &s->place;
	size_t i = 0;

	while (i < place->n_refusals && strcmp(place->refusals[i].controller, controller) != 0)
		i++;
	if (i == place->n_refusals) {
		place->refusals = xrealloc(place->refusals, (i + 1) * sizeof(place->refusals[0]));
		place->refusals[i].controller = xstrdup(controller);
		place->refusals[i].n = 0;
		place->n_refusals++;
	}
	place->refusals[i].n++;
}

void queue_lost(struct slot *s, const struct partition_entry *entry, enum partition_phase was)
{
	if (was == PARTITION_CREATING) {
		if (s->why)
			count_refusal(s, entry->controller);
		return;
	}
	/* It had what it asked for: it begins anew. */
	s->arrived_ms = 0;
	forget_refusals(s);
}

/* One number for each controller of the fleet; NULL: none refused. The caller frees. */
static unsigned *refusals_of(const struct slot *s, size_t n)
{
	unsigned *by_index;

	if (s->place.n_refusals == 0)
		return NULL;
	by_index = xcalloc(n + 1, sizeof(*by_index));
	for (size_t i = 0; i < s->place.n_refusals; i++)
		by_index[gather_index(s->owner->p, s->place.refusals[i].controller)] =
			s->place.refusals[i].n;
	return by_index;
}

/* ---- what is done ---- */

static void on_refreshed(void *arg, const struct err *err, const struct vipu_controller *c)
{
	struct look *look = arg;

	(void)c;
	look->asking = false;
	look->answered_ms = err ? 0 : clock_mono_ms();
	partitions_pass_soon(look->p);
}

/* By when it was asked for, or by when it came: a controller that takes longer to answer than a
 * view is fresh must be believed too. */
static bool is_fresh(const struct partitions *p, const struct vipu_controller *c)
{
	int64_t now_ms = clock_mono_ms();
	const struct look *look = map_get(p->looks, str_of(c->name));

	return (c->fresh_ms && now_ms - c->fresh_ms < FRESH_MS) ||
	       (look && look->answered_ms && now_ms - look->answered_ms < FRESH_MS);
}

static void refresh(struct partitions *p, const struct vipu_controller *c)
{
	struct look *look = look_at(p, c->name);

	if (look->asking)
		return;
	look->asking = true;
	vipu_fleet_refresh_start(p->fleet, c->name, on_refreshed, look, &p->calls);
}

struct partition_policy partitions_policy(const struct partitions *p, const char *ns)
{
	return partition_policy_for(&p->rules, ns, namespaces_policy(p->namespaces, ns));
}

int64_t queue_limit_ms(const struct slot *s)
{
	struct partition_policy policy = partitions_policy(s->owner->p, s->ask.owner.ns);

	return partition_policy_default_ms(&policy);
}

static void serve(struct slot *s, const struct vipu_controller *c)
{
	struct partitions *p = s->owner->p;
	struct partition_entry *e = xcalloc(1, sizeof(*e));
	static uint64_t last_incarnation;
	uint64_t incarnation = (uint64_t)clock_wall_ms();

	/* A new incarnation has a new identifier, however fast it follows. */
	if (incarnation <= last_incarnation)
		incarnation = last_incarnation + 1;
	last_incarnation = incarnation;
	partition_ask_copy(&e->ask, &s->ask);
	e->controller = intern_z(c->name);
	e->limit_ms = queue_limit_ms(s);
	partition_id_make(&s->ask.owner, s->ask.instance, incarnation, e->id);
	partition_entry_stamp(e, PARTITION_CREATING, true, clock_wall_ms(), &p->times);
	slot_serve(s, e, ITEM_MADE);
}

/* ---- words ---- */

#define WORDS_SIZE 384

/* There are some that may be asked, and none of them is for it: by its node, or by its allocation?
 */
static void write_none_fits(const struct slot *s, const struct gathered *g, char z[WORDS_SIZE])
{
	const char *labels = s->ask.node_labels, *allocation = s->ask.options.allocation;
	bool reached = false;

	for (size_t i = 0; i < g->n; i++)
		reached |= g->controllers[i].open && schedule_reaches(&g->controllers[i], labels);
	if (!reached)
		snprintf(z, WORDS_SIZE,
			 "no V-IPU controller that may be asked is reached from its node (%.150s)",
			 labels ? labels : "");
	else if (labels)
		snprintf(z, WORDS_SIZE,
			 "no V-IPU controller that may be asked and is reached from its node "
			 "(%.150s) has the allocation \"%.100s\"",
			 labels, allocation ? allocation : "");
	else
		snprintf(z, WORDS_SIZE,
			 "no V-IPU controller that may be asked has the allocation \"%.100s\"",
			 allocation ? allocation : "");
}

static bool wait_nobody(struct slot *s, const struct gathered *g)
{
	char z[WORDS_SIZE];

	if (g->configured == 0)
		return slot_wait_because(s, PARTITION_WHY_NO_CONTROLLER,
					 "no V-IPU controller is configured");
	if (g->reachable == 0 && !g->reason)
		return slot_wait_because(s, PARTITION_WHY_STARTING,
					 "the V-IPU controllers haven't been asked to the end yet");
	if (g->reachable == 0) {
		snprintf(z, sizeof(z), "no V-IPU controller answers: %.200s", g->reason);
		return slot_wait_because(s, PARTITION_WHY_UNREACHABLE, z);
	}
	if (g->open > 0) {
		write_none_fits(s, g, z);
		return slot_wait_because(s, PARTITION_WHY_NO_CONTROLLER, z);
	}
	snprintf(z, sizeof(z), "no V-IPU controller that answers takes new partitions: %s",
		 g->closed);
	return slot_wait_because(s, PARTITION_WHY_NO_ROOM, z);
}

/* With its name and its nodes' label, which people need to look at them. */
static bool wait_for_node(struct slot *s, const struct gathered *g, size_t controller)
{
	const char *name = vipu_fleet_at(s->owner->p->fleet, controller)->name;
	const char *label = g->controllers[controller].label;
	char z[WORDS_SIZE];

	snprintf(z, sizeof(z),
		 "no node of V-IPU controller %.60s is ready (condition IPUFabricReady): \"kubectl "
		 "describe node -l %.80s\" says why, \"ipuctl rdma check\" there what to do",
		 name, label ? label : "");
	return slot_wait_because(s, PARTITION_WHY_NO_NODE, z);
}

static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

static bool wait_for_room(struct slot *s, struct gathered *g, const struct schedule_decision *d)
{
	char z[WORDS_SIZE];
	const char *foreign;

	if (d->verdict == SCHEDULE_TOO_LARGE && s->ask.ipus > g->largest_pod &&
	    g->sized == g->configured) {
		snprintf(z, sizeof(z), "%u IPUs asked for, the largest V-IPU controller has %u",
			 s->ask.ipus, g->largest_pod);
		return slot_wait_because(s, PARTITION_WHY_TOO_LARGE, z);
	}
	if (d->verdict == SCHEDULE_QUEUED) {
		snprintf(z, sizeof(z),
			 "waiting for %u IPU%s, place %u in the queue: those that are free are "
			 "kept for one ahead of it",
			 s->ask.ipus, plural(s->ask.ipus), s->place.position);
		return slot_wait_because(s, PARTITION_WHY_QUEUED, z);
	}
	foreign = gather_foreign(s->owner->p, g);
	snprintf(z, sizeof(z),
		 "waiting for %u IPU%s, place %u in the queue: %u of %u are free, at most %u side "
		 "by side%s%s%s%s%s%.60s",
		 s->ask.ipus, plural(s->ask.ipus), s->place.position, g->free_ipus, g->total_ipus,
		 g->largest, foreign[0] ? "; " : "", foreign, g->closed[0] ? "; " : "", g->closed,
		 g->reason ? "; " : "", g->reason ? g->reason : "");
	return slot_wait_because(s, PARTITION_WHY_NO_ROOM, z);
}

static bool wait_for_quota(struct slot *s, const struct space *space)
{
	char z[WORDS_SIZE];
	bool fits = space->held_ipus + s->ask.ipus <= space->policy.max_ipus;

	snprintf(z, sizeof(z),
		 "namespace %s uses %" PRId64 " of its %" PRId64 " IPUs, this job wants %u%s",
		 s->ask.owner.ns, space->held_ipus, space->policy.max_ipus, s->ask.ipus,
		 fits ? "; what is left is kept for one ahead of it" : "");
	return slot_wait_because(s, PARTITION_WHY_QUOTA, z);
}

static bool wait_as_decided(struct slot *s, struct gathered *g, const struct space *space,
			    const struct schedule_decision *d)
{
	if (d->verdict == SCHEDULE_QUOTA)
		return wait_for_quota(s, space);
	if (d->verdict == SCHEDULE_NOBODY)
		return wait_nobody(s, g);
	if (d->verdict == SCHEDULE_NO_NODE)
		return wait_for_node(s, g, d->controller);
	return wait_for_room(s, g, d);
}

/* ---- one slot ---- */

/* What one pass has done. */
struct doings {
	unsigned served, said;
};

/* All that its job asks for, counted once a pass. */
static uint64_t job_ipus(const struct slot *s)
{
	struct owner *o = s->owner;

	if (o->summed == o->p->passes)
		return o->asked_ipus;
	o->summed = o->p->passes;
	o->asked_ipus = 0;
	for (size_t i = 0; i < o->n_slots; i++)
		o->asked_ipus += o->slots[i]->asking ? o->slots[i]->ask.ipus : 0;
	return o->asked_ipus;
}

static void decide(struct slot *s, struct schedule *schedule, const struct gathered *g,
		   struct space *space, struct schedule_decision *ret)
{
	CLEANUP_FREE unsigned *refusals = refusals_of(s, g->n);
	struct schedule_block kept = {.domain = s->place.kept_domain, .mask = s->place.kept_mask};
	struct schedule_ask ask = {
		.ipus = s->ask.ipus,
		.deadline_ms = s->ask.deadline_ms ? s->ask.deadline_ms
						  : partition_policy_default_ms(&space->policy),
		.allocation = s->ask.options.allocation,
		.node_labels = s->ask.node_labels,
		.refusals = refusals,
		.quota = &space->quota,
	};

	if (s->place.kept_at) {
		kept.controller = gather_index(s->owner->p, s->place.kept_at);
		ask.kept = &kept;
	}
	schedule_decide(schedule, &ask, ret);
	forget_kept(s);
	if (ret->reserved) {
		s->place.kept_at = xstrdup(
			vipu_fleet_at(s->owner->p->fleet, ret->block.controller)->name);
		s->place.kept_domain = ret->block.domain;
		s->place.kept_mask = ret->block.mask;
		s->place.kept_start_ms = ret->start_ms;
	}
}

static void consider(struct slot *s, struct schedule *schedule, struct gathered *g,
		     struct doings *done)
{
	struct partitions *p = s->owner->p;
	struct space *space = gather_space(p, g, s->ask.owner.ns);
	struct schedule_decision d;
	char z[WORDS_SIZE];

	if (!partition_policy_allows(&space->policy,
				     space->policy.max_job_ipus < 0 ? 0 : job_ipus(s), &s->ask, z,
				     sizeof(z))) {
		if (!p->following)
			done->said += slot_wait_because(s, PARTITION_WHY_POLICY, z);
		return;
	}
	decide(s, schedule, g, space, &d);
	if (p->following)
		return;
	switch (d.verdict) {
	case SCHEDULE_SERVE:
		serve(s, vipu_fleet_at(p->fleet, d.controller));
		gather_take(g, s->ask.ipus);
		done->served++;
		break;
	case SCHEDULE_LOOK:
		refresh(p, vipu_fleet_at(p->fleet, d.controller));
		break;
	case SCHEDULE_BUSY: /* the pass comes again with its answers */
		break;
	default:
		done->said += wait_as_decided(s, g, space, &d);
		break;
	}
}

/* ---- the pass ---- */

static bool is_starting(const struct partitions *p)
{
	return !tracker_is_synced(p->tracker) || !p->fleet_known || !p->nodes_known ||
	       !namespaces_known(p->namespaces);
}

static void go_through(struct partitions *p, struct schedule *schedule, struct gathered *g)
{
	int64_t now_ms = clock_mono_ms();
	struct doings done = {0};
	unsigned position = 0;

	LIST_FOREACH(pos, tmp, &p->queue) {
		struct slot *s = CONTAINER_OF(pos, struct slot, queue);

		p->generation += s->place.position != ++position;
		s->place.position = position;
		if (done.served >= SERVE_AT_ONE || done.said >= SAY_AT_ONE) {
			partitions_pass_soon(p);
			break;
		}
		if (is_starting(p))
			done.said += !p->following &&
				     slot_wait_because(
					     s, PARTITION_WHY_STARTING,
					     "the operator is reading the partition tracker, the "
					     "namespaces, the nodes and the list of V-IPU "
					     "controllers");
		else if (s->not_before_ms > now_ms)
			queue_pass_at(p, s->not_before_ms);
		else if (p->following || !adopt_try(s))
			consider(s, schedule, g, &done);
	}
}

static unsigned note_fits(struct partitions *p, const struct schedule *schedule, size_t i,
			  unsigned k)
{
	unsigned fits = schedule_count(schedule, i, UINT32_C(1) << k);

	look_at(p, vipu_fleet_at(p->fleet, i)->name)->fits[k] = fits;
	return fits;
}

static void note_outcome(struct partitions *p, const struct schedule *schedule,
			 const struct gathered *g)
{
	for (unsigned k = 0; k < SCHEDULE_SIZES; k++) {
		unsigned fits = 0;

		for (size_t i = 0; i < g->n; i++)
			fits += note_fits(p, schedule, i, k);
		p->generation += p->fits[k] != fits;
		p->fits[k] = fits;
	}
	for (size_t i = 0; i < g->n; i++) {
		unsigned reserved = schedule_reserved(schedule, i);
		const char *name = vipu_fleet_at(p->fleet, i)->name;

		if (reserved == partitions_reserved(p, name))
			continue;
		look_at(p, name)->reserved = reserved;
		p->generation++;
	}
}

static void pass(struct loop_work *work, void *arg)
{
	struct partitions *p = arg;
	struct schedule *schedule;
	struct gathered g;
	bool waiting;

	int64_t began_us = clock_mono_us();

	(void)work;
	if (clock_mono_ms() < p->rest_until_ms) {
		queue_pass_at(p, p->rest_until_ms);
		return;
	}
	p->passes++;
	put_in_order(p);
	gather(p, &g);
	for (size_t i = 0; i < g.n; i++)
		g.controllers[i].fresh = is_fresh(p, vipu_fleet_at(p->fleet, i));
	schedule = schedule_new(p->choice, clock_wall_ms(), g.controllers, g.n);
	go_through(p, schedule, &g);
	note_outcome(p, schedule, &g);
	schedule_free(schedule);
	gather_done(&g);
	waiting = !list_empty(&p->queue) && !p->following;
	if (waiting && !p->waiting)
		vipu_fleet_wait_begin(p->fleet);
	else if (!waiting && p->waiting)
		vipu_fleet_wait_end(p->fleet);
	p->waiting = waiting;
	p->rest_until_ms = clock_mono_ms() + (clock_mono_us() - began_us) * REST / 1000;
}

static void on_pass_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	partitions_pass_soon(arg);
}

void partitions_pass_soon(struct partitions *p)
{
	loop_work_post(&p->pass_work);
}

static void on_policy_change(void *arg)
{
	partitions_pass_soon(arg);
}

void queue_init(struct partitions *p, struct kube_client *kube,
		const struct partitions_config *config)
{
	list_init(&p->queue);
	scope_init(&p->calls);
	p->looks = map_new();
	p->choice = config->choice;
	p->rules.fallback = partition_policy_none;
	if (config->rules)
		partition_rules_copy(&p->rules, config->rules);
	loop_work_init(&p->pass_work, p->loop, pass, p);
	loop_timer_init(&p->pass_timer, p->loop, on_pass_timer, p);
	p->namespaces = namespaces_new(kube, on_policy_change, p);
}

void partitions_set_policy(struct partitions *p, const struct partition_rules *rules,
			   enum schedule_choice choice)
{
	partition_rules_done(&p->rules);
	partition_rules_copy(&p->rules, rules);
	p->choice = choice;
	partitions_pass_soon(p);
}

void queue_done(struct partitions *p)
{
	struct map_iter it = MAP_ITER(p->looks);

	namespaces_free(p->namespaces);
	scope_cancel(&p->calls);
	loop_work_cancel(&p->pass_work);
	loop_timer_stop(&p->pass_timer);
	while (map_next(&it))
		free(it.value);
	map_free(p->looks);
	partition_rules_done(&p->rules);
	if (p->waiting)
		vipu_fleet_wait_end(p->fleet);
}

/* ---- for those who look on ---- */

void partitions_each_waiting(struct partitions *p, partitions_waiting_fn *fn, void *arg)
{
	struct partition_waiting w = {0};
	int64_t now_ms = clock_mono_ms();

	put_in_order(p);
	LIST_FOREACH(pos, tmp, &p->queue) {
		const struct slot *s = CONTAINER_OF(pos, struct slot, queue);

		w.position++;
		w.ask = &s->ask;
		w.since_ms = s->arrived_ms;
		w.why = s->why;
		w.message = str_kept(s->message);
		w.as_of_ms = s->outdated ? s->words_ms : 0;
		/* While it backs off, nothing is. */
		w.kept_at = s->not_before_ms > now_ms ? NULL : s->place.kept_at;
		w.kept_domain = s->place.kept_domain;
		w.kept_domains = (s->ask.ipus + VIPU_DOMAIN_IPUS - 1) / VIPU_DOMAIN_IPUS;
		w.kept_mask = s->place.kept_mask;
		w.start_ms = w.kept_at ? s->place.kept_start_ms : SCHEDULE_NEVER;
		fn(&w, arg);
	}
}

unsigned partitions_reserved(struct partitions *p, const char *controller)
{
	const struct look *look = map_get(p->looks, str_of(controller));

	return look ? look->reserved : 0;
}

unsigned partitions_count_fits(struct partitions *p, uint32_t size)
{
	if (!vipu_is_power_of_two(size) || size > UINT32_C(1) << (SCHEDULE_SIZES - 1))
		return 0;
	return p->fits[__builtin_ctz(size)];
}

unsigned partitions_count_fits_on(struct partitions *p, const char *controller, uint32_t size)
{
	const struct look *look = map_get(p->looks, str_of(controller));

	if (!look || !vipu_is_power_of_two(size) || size > UINT32_C(1) << (SCHEDULE_SIZES - 1))
		return 0;
	return look->fits[__builtin_ctz(size)];
}
