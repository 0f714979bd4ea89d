/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ask after the other: quota, then a controller with room, then whether that room is kept for
 * somebody ahead, and a reservation for the first that has none. What was found out for one size
 * holds for the rest of the queue, since room only becomes less: so a long queue costs little.
 */
#include "partition/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "partition/block.h"

struct pod {
	const struct schedule_controller *c;
	struct schedule_return *pending; /* the controller's, and those of this round */
	size_t n_pending;
	unsigned of_size[SCHEDULE_SIZES]; /* how many of them */
	unsigned unanswered;
	unsigned fits[SCHEDULE_SIZES]; /* free blocks of its view */
	unsigned fits_known;           /* a bit for each size */
	/* From the first reservation on: what is kept, and the layout with what isn't listed yet
	 * placed in both ways that controllers are known to choose. By the first of them, the IPUs
	 * that come back some time, and when. */
	uint64_t *reserved, *by_first, *by_best, *going;
	int64_t *at_ms;
	unsigned n_reserved;
	int64_t start_ms; /* the earliest of the reservations */
	bool ready;       /* nothing is in the way of one of them any more */
};

/* Asks with the same controllers to choose from share a reservation and what doesn't fit. */
struct group {
	bool served; /* its reservation is made */
	/* By size, a bit each: no room at all; none beside the reservations; no block that could be
	 * reserved. */
	unsigned no_room, queued, no_spot;
};

struct schedule {
	enum schedule_choice choice;
	int64_t now_ms;
	struct pod *pods;
	size_t n;
	/* No allocation, one that no controller has, then by the first controller that has it. */
	struct group *groups;
	struct labelled *labelled; /* those of asks with node_labels */
};

struct labelled {
	struct labelled *next;
	char *allocation, *node_labels;
	struct group group;
};

static unsigned level_of(uint32_t size)
{
	unsigned k = 0;

	while (k + 1 < SCHEDULE_SIZES && (UINT32_C(1) << k) < size)
		k++;
	return k;
}

static bool is_given(const char *z)
{
	return z && z[0];
}

static void add_pending(struct pod *pod, struct schedule_return what)
{
	if ((pod->n_pending & (pod->n_pending - 1)) == 0)
		pod->pending = xrealloc(pod->pending, (pod->n_pending ? pod->n_pending * 2 : 1) *
							      sizeof(*pod->pending));
	pod->pending[pod->n_pending++] = what;
	pod->of_size[level_of(what.ipus)]++;
}

struct schedule *schedule_new(enum schedule_choice choice, int64_t now_ms,
			      const struct schedule_controller *controllers, size_t n)
{
	struct schedule *s = xcalloc(1, sizeof(*s));

	s->choice = choice;
	s->now_ms = now_ms;
	s->n = n;
	s->pods = xcalloc(n + 1, sizeof(*s->pods));
	s->groups = xcalloc(n + 2, sizeof(*s->groups));
	for (size_t i = 0; i < n; i++) {
		s->pods[i].c = &controllers[i];
		s->pods[i].unanswered = controllers[i].unanswered;
		s->pods[i].start_ms = SCHEDULE_NEVER;
		for (size_t k = 0; k < controllers[i].n_pending; k++)
			add_pending(&s->pods[i], controllers[i].pending[k]);
	}
	return s;
}

void schedule_free(struct schedule *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->pods[i].pending);
		free(s->pods[i].reserved);
		free(s->pods[i].by_first);
		free(s->pods[i].by_best);
		free(s->pods[i].going);
		free(s->pods[i].at_ms);
	}
	while (s->labelled) {
		struct labelled *next = s->labelled->next;

		free(s->labelled->allocation);
		free(s->labelled->node_labels);
		free(s->labelled);
		s->labelled = next;
	}
	free(s->pods);
	free(s->groups);
	free(s);
}

/* ---- room ---- */

bool schedule_reaches(const struct schedule_controller *c, const char *node_labels)
{
	return !is_given(node_labels) || !is_given(c->label) ||
	       str_list_has(str_of(node_labels), str_of(c->label));
}

static bool is_for(const struct schedule_controller *c, const struct schedule_ask *ask)
{
	return schedule_reaches(c, ask->node_labels) &&
	       (!is_given(ask->allocation) || !is_given(c->allocation) ||
		strcmp(ask->allocation, c->allocation) == 0);
}

static bool is_open_to(const struct pod *pod, const struct schedule_ask *ask)
{
	return pod->c->open && is_for(pod->c, ask);
}

static unsigned count_fits(struct pod *pod, unsigned k)
{
	const struct schedule_controller *c = pod->c;
	unsigned by_count = c->free_ipus >> k;

	if (!(pod->fits_known >> k & 1)) {
		pod->fits[k] = block_count(c->taken, c->n_domains, k);
		pod->fits_known |= 1U << k;
	}
	return pod->fits[k] < by_count ? pod->fits[k] : by_count;
}

/* Blocks of a size that what isn't listed yet takes away, at most. */
static unsigned count_pending(const struct pod *pod, unsigned k)
{
	unsigned n = 0;

	for (unsigned j = 0; j < SCHEDULE_SIZES; j++)
		n += pod->of_size[j] << (j > k ? j - k : 0);
	return n;
}

/* Could it ever, with nothing in it? */
static bool could_fit(const struct pod *pod, uint32_t ipus, unsigned k)
{
	const struct schedule_controller *c = pod->c;

	if (ipus > UINT32_C(1) << k)
		return false;
	if (k > BLOCK_DOMAIN_LEVEL)
		return c->total_ipus / VIPU_DOMAIN_IPUS >= 1U << (k - BLOCK_DOMAIN_LEVEL);
	return c->total_ipus >= 1U << k;
}

/* ---- a controller with a reservation ---- */

static void expect(struct pod *pod, size_t domain, uint64_t mask, int64_t until_ms)
{
	pod->going[domain] |= mask;
	for (; mask; mask &= mask - 1)
		pod->at_ms[domain * VIPU_DOMAIN_IPUS + (unsigned)__builtin_ctzll(mask)] = until_ms;
}

static void place(struct pod *pod, struct schedule_return what)
{
	unsigned k = level_of(what.ipus);
	struct block b;

	if (block_best(pod->by_best, pod->c->n_domains, k, &b))
		block_set(pod->by_best, &b);
	if (!block_first(pod->by_first, pod->c->n_domains, k, &b))
		return;
	block_set(pod->by_first, &b);
	for (size_t d = b.domain; d < b.domain + b.n_domains; d++)
		expect(pod, d, b.mask, what.until_ms);
}

static void need_layouts(struct pod *pod)
{
	const struct schedule_controller *c = pod->c;
	size_t n = c->n_domains;

	if (pod->reserved)
		return;
	pod->reserved = xcalloc(n + 1, sizeof(uint64_t));
	pod->by_first = xcalloc(n + 1, sizeof(uint64_t));
	pod->by_best = xcalloc(n + 1, sizeof(uint64_t));
	pod->going = xcalloc(n + 1, sizeof(uint64_t));
	pod->at_ms = xcalloc(n * VIPU_DOMAIN_IPUS + 1, sizeof(int64_t));
	memcpy(pod->by_first, c->taken, n * sizeof(uint64_t));
	memcpy(pod->by_best, c->taken, n * sizeof(uint64_t));
	for (size_t i = 0; i < c->n_holds; i++)
		expect(pod, c->holds[i].domain, c->holds[i].mask, c->holds[i].until_ms);
	for (size_t i = 0; i < pod->n_pending; i++)
		place(pod, pod->pending[i]);
}

static bool ends_before(const struct schedule *s, const struct schedule_ask *ask, int64_t start_ms)
{
	return ask->deadline_ms > 0 &&
	       (start_ms == SCHEDULE_NEVER ||
		ask->deadline_ms <= start_ms - s->now_ms - SCHEDULE_SLACK_MS);
}

static bool may_overtake(const struct schedule *s, const struct pod *pod,
			 const struct schedule_ask *ask, unsigned k)
{
	size_t n = pod->c->n_domains;
	struct block b;

	if (pod->n_reserved == 0)
		return true;
	if (pod->ready)
		return false;
	if (ends_before(s, ask, pod->start_ms))
		return true;
	/* What isn't listed yet may have been given its place before something else came free. */
	return block_first(pod->by_first, n, k, &b) && !block_meets(pod->reserved, &b) &&
	       block_best(pod->by_best, n, k, &b) && !block_meets(pod->reserved, &b) &&
	       block_first(pod->c->taken, n, k, &b) && !block_meets(pod->reserved, &b) &&
	       block_best(pod->c->taken, n, k, &b) && !block_meets(pod->reserved, &b);
}

/* ---- the choice ---- */

struct candidate {
	size_t controller;
	unsigned refusals;
	uint32_t hole, free_ipus;
};

static struct candidate candidate_of(const struct schedule *s, size_t i,
				     const struct schedule_ask *ask, unsigned k)
{
	const struct schedule_controller *c = s->pods[i].c;
	struct candidate it = {.controller = i, .refusals = ask->refusals ? ask->refusals[i] : 0};
	struct block b;

	if (s->choice == SCHEDULE_BEST_FIT) {
		it.hole = block_best(c->taken, c->n_domains, k, &b) ? b.hole : UINT32_MAX;
		it.free_ipus = c->free_ipus;
	}
	return it;
}

static bool is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->refusals != b->refusals)
		return a->refusals < b->refusals;
	if (a->hole != b->hole)
		return a->hole < b->hole;
	return a->free_ipus < b->free_ipus;
}

/* What looking for a controller has shown. */
struct search {
	bool any_open, could, room, found;
	struct candidate best;
};

static void search(struct schedule *s, const struct schedule_ask *ask, unsigned k,
		   struct search *ret)
{
	*ret = (struct search){0};
	for (size_t i = 0; i < s->n; i++) {
		struct pod *pod = &s->pods[i];
		struct candidate it;

		if (!is_open_to(pod, ask))
			continue;
		ret->any_open = true;
		ret->could |= could_fit(pod, ask->ipus, k);
		if (count_fits(pod, k) <= count_pending(pod, k))
			continue;
		ret->room = true;
		if (!may_overtake(s, pod, ask, k))
			continue;
		it = candidate_of(s, i, ask, k);
		if (ret->found && !is_better(&it, &ret->best))
			continue;
		ret->found = true;
		ret->best = it;
		if (s->choice == SCHEDULE_FIRST_FIT && it.refusals == 0)
			return;
	}
}

/* ---- reservations ---- */

struct spot {
	bool found, kept; /* kept: it was this one before */
	size_t controller;
	struct block block;
	int64_t start_ms, listed_ms; /* the second by what is listed alone */
	unsigned in_way;             /* IPUs */
	unsigned endless;            /* of them, those that come back nobody knows when */
};

/* Adds a part of a block within one domain. False: it can't be reserved. */
static bool add_part(const struct pod *pod, size_t d, uint64_t mask, struct spot *spot)
{
	uint64_t taken = (spot->kept ? pod->c->taken[d] : pod->by_first[d]) & mask;

	if ((taken & ~pod->going[d]) || (pod->reserved[d] & mask))
		return false;
	spot->in_way += (unsigned)__builtin_popcountll(taken);
	for (; taken; taken &= taken - 1) {
		unsigned bit = (unsigned)__builtin_ctzll(taken);
		int64_t at_ms = pod->at_ms[d * VIPU_DOMAIN_IPUS + bit];

		spot->endless += at_ms == SCHEDULE_NEVER;
		if (at_ms > spot->start_ms)
			spot->start_ms = at_ms;
		if ((pod->c->taken[d] >> bit & 1) && at_ms > spot->listed_ms)
			spot->listed_ms = at_ms;
	}
	return true;
}

/* Those that end don't count before those that don't: else who is let in by its end would drive the
 * reservation elsewhere, and its old place would be open to all. */
static bool is_better_spot(const struct spot *a, const struct spot *b)
{
	if (a->start_ms != b->start_ms)
		return a->start_ms < b->start_ms;
	if (a->endless != b->endless)
		return a->endless < b->endless;
	if (a->in_way != b->in_way)
		return a->in_way < b->in_way;
	return a->kept;
}

static void consider_spot(const struct pod *pod, const struct spot *at, int64_t now_ms,
			  struct spot *best)
{
	struct spot spot = *at;

	spot.start_ms = spot.listed_ms = now_ms;
	for (size_t d = at->block.domain; d < at->block.domain + at->block.n_domains; d++) {
		if (!add_part(pod, d, at->block.mask, &spot))
			return;
	}
	if (best->found && !is_better_spot(&spot, best))
		return;
	spot.found = true;
	*best = spot;
}

/* From the last place to the first: controllers fill up from the first. */
static void find_spots(const struct pod *pod, size_t controller, unsigned k, int64_t now_ms,
		       const struct schedule_block *kept, struct spot *best)
{
	size_t n = pod->c->n_domains;
	size_t width = k > BLOCK_DOMAIN_LEVEL ? (size_t)1 << (k - BLOCK_DOMAIN_LEVEL) : 1;
	unsigned step = k < BLOCK_DOMAIN_LEVEL ? 1U << k : VIPU_DOMAIN_IPUS;
	struct spot at = {.found = true, .controller = controller};

	for (size_t d = n >= width ? n - width + 1 : 0; d-- > 0;) {
		for (unsigned bit = VIPU_DOMAIN_IPUS; bit > 0; bit -= step) {
			at.block = (struct block){
				d, width,
				block_mask_at(k < BLOCK_DOMAIN_LEVEL ? k : BLOCK_DOMAIN_LEVEL,
					      bit - step),
				0};
			at.kept = kept && kept->controller == controller && kept->domain == d &&
				  kept->mask == at.block.mask;
			consider_spot(pod, &at, now_ms, best);
		}
	}
}

static bool reserve(struct schedule *s, const struct schedule_ask *ask, unsigned k,
		    struct schedule_decision *ret)
{
	struct spot best = {0};
	struct pod *pod;

	for (size_t i = 0; i < s->n; i++) {
		if (!is_open_to(&s->pods[i], ask) || !could_fit(&s->pods[i], ask->ipus, k))
			continue;
		need_layouts(&s->pods[i]);
		find_spots(&s->pods[i], i, k, s->now_ms, ask->kept, &best);
	}
	if (!best.found)
		return false;
	pod = &s->pods[best.controller];
	block_set(pod->reserved, &best.block);
	pod->n_reserved++;
	pod->ready |= best.in_way == 0 && count_fits(pod, k) > 0;
	/* Nobody is let in by its end because others' isn't known yet. */
	if (best.listed_ms < pod->start_ms)
		pod->start_ms = best.listed_ms;
	ret->block = (struct schedule_block){best.controller, best.block.domain, best.block.mask};
	ret->reserved = true;
	ret->start_ms = best.start_ms;
	return true;
}

/* ---- decisions ---- */

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static struct group *group_of_labels(struct schedule *s, const struct schedule_ask *ask)
{
	struct labelled *l = s->labelled;

	while (l && (!same_text(l->allocation, ask->allocation) ||
		     !same_text(l->node_labels, ask->node_labels)))
		l = l->next;
	if (l)
		return &l->group;
	l = xcalloc(1, sizeof(*l));
	l->allocation = xstrdup(ask->allocation);
	l->node_labels = xstrdup(ask->node_labels);
	l->next = s->labelled;
	s->labelled = l;
	return &l->group;
}

static struct group *group_of(struct schedule *s, const struct schedule_ask *ask)
{
	if (is_given(ask->node_labels))
		return group_of_labels(s, ask);
	if (!is_given(ask->allocation))
		return &s->groups[0];
	for (size_t i = 0; i < s->n; i++) {
		const char *a = s->pods[i].c->allocation;

		if (is_given(a) && strcmp(a, ask->allocation) == 0)
			return &s->groups[2 + i];
	}
	return &s->groups[1];
}

static bool could_fit_any(const struct schedule *s, const struct schedule_ask *ask, unsigned k)
{
	for (size_t i = 0; i < s->n; i++) {
		if (is_open_to(&s->pods[i], ask) && could_fit(&s->pods[i], ask->ipus, k))
			return true;
	}
	return false;
}

static int compare_returns(const void *a, const void *b)
{
	int64_t x = ((const struct schedule_return *)a)->until_ms;
	int64_t y = ((const struct schedule_return *)b)->until_ms;

	return x < y ? -1 : x > y;
}

/* Who waits for quota keeps what is left of it from those behind it that won't be done when the
 * rest comes back. */
static void close_quota(const struct schedule *s, struct schedule_quota *q, uint32_t ipus)
{
	int64_t missing = q->used_ipus + ipus - q->max_ipus;

	q->closed = true;
	q->start_ms = SCHEDULE_NEVER;
	if (q->n_returns)
		qsort(q->returns, q->n_returns, sizeof(q->returns[0]), compare_returns);
	for (size_t i = 0; i < q->n_returns && missing > 0; i++) {
		missing -= q->returns[i].ipus;
		if (missing <= 0)
			q->start_ms = q->returns[i].until_ms;
	}
	if (q->start_ms < s->now_ms)
		q->start_ms = s->now_ms;
}

static bool is_over_quota(const struct schedule *s, const struct schedule_ask *ask, unsigned k)
{
	struct schedule_quota *q = ask->quota;

	if (!q || q->max_ipus < 0)
		return false;
	if (q->used_ipus + ask->ipus <= q->max_ipus &&
	    (!q->closed || ends_before(s, ask, q->start_ms)))
		return false;
	if (!q->closed && ask->ipus <= q->max_ipus && could_fit_any(s, ask, k))
		close_quota(s, q, ask->ipus);
	return true;
}

static void take(struct schedule *s, const struct schedule_ask *ask, const struct search *found,
		 struct schedule_decision *ret)
{
	struct pod *pod = &s->pods[found->best.controller];
	struct schedule_return it = {
		.until_ms = ask->deadline_ms > 0 && ask->deadline_ms < SCHEDULE_NEVER - s->now_ms
				    ? s->now_ms + ask->deadline_ms
				    : SCHEDULE_NEVER,
		.ipus = ask->ipus,
	};

	ret->controller = found->best.controller;
	ret->verdict = !pod->c->fresh                              ? SCHEDULE_LOOK
		       : pod->unanswered >= pod->c->max_unanswered ? SCHEDULE_BUSY
								   : SCHEDULE_SERVE;
	add_pending(pod, it);
	pod->unanswered++;
	if (pod->reserved)
		place(pod, it);
	if (ask->quota)
		ask->quota->used_ipus += ask->ipus;
}

/* None that may be asked could ever serve it. Would another, if one of its nodes were ready? */
static void put_off_for_good(const struct schedule *s, const struct schedule_ask *ask, unsigned k,
			     const struct search *found, struct schedule_decision *ret)
{
	ret->verdict = found->any_open ? SCHEDULE_TOO_LARGE : SCHEDULE_NOBODY;
	for (size_t i = 0; i < s->n; i++) {
		const struct pod *pod = &s->pods[i];

		if (!pod->c->no_node || !is_for(pod->c, ask) || !could_fit(pod, ask->ipus, k))
			continue;
		ret->verdict = SCHEDULE_NO_NODE;
		ret->controller = i;
		return;
	}
}

static void put_off(struct schedule *s, const struct schedule_ask *ask, unsigned k,
		    const struct search *found, struct group *group, struct schedule_decision *ret)
{
	if (!found->could) {
		put_off_for_good(s, ask, k, found, ret);
		return;
	}
	ret->verdict = found->room ? SCHEDULE_QUEUED : SCHEDULE_NO_ROOM;
	if (!group->served && !(group->no_spot >> k & 1)) {
		group->served = reserve(s, ask, k, ret);
		if (!group->served)
			group->no_spot |= 1U << k;
		else if (ask->quota)
			ask->quota->used_ipus += ask->ipus;
	}
	if (!found->room)
		group->no_room |= 1U << k;
	else
		group->queued |= 1U << k;
}

/* It was found out for one of this size before. */
static bool is_known(const struct group *group, const struct schedule_ask *ask, unsigned k,
		     enum schedule_verdict *ret)
{
	if (!group->served && !(group->no_spot >> k & 1))
		return false;
	if (group->no_room >> k & 1)
		*ret = SCHEDULE_NO_ROOM;
	else if ((group->queued >> k & 1) && ask->deadline_ms <= 0)
		*ret = SCHEDULE_QUEUED;
	else
		return false;
	return true;
}

void schedule_decide(struct schedule *s, const struct schedule_ask *ask,
		     struct schedule_decision *ret)
{
	struct group *group = group_of(s, ask);
	unsigned k = level_of(ask->ipus);
	struct search found;

	*ret = (struct schedule_decision){.start_ms = SCHEDULE_NEVER};
	if (is_over_quota(s, ask, k)) {
		ret->verdict = SCHEDULE_QUOTA;
		return;
	}
	if (is_known(group, ask, k, &ret->verdict))
		return;
	search(s, ask, k, &found);
	if (found.found)
		take(s, ask, &found, ret);
	else
		put_off(s, ask, k, &found, group, ret);
}

/* ---- after the queue ---- */

unsigned schedule_reserved(const struct schedule *s, size_t controller)
{
	const struct pod *pod = &s->pods[controller];
	unsigned n = 0;

	for (size_t d = 0; pod->reserved && d < pod->c->n_domains; d++)
		n += (unsigned)__builtin_popcountll(pod->reserved[d] & ~pod->c->taken[d]);
	return n;
}

unsigned schedule_count(const struct schedule *s, size_t controller, uint32_t size)
{
	const struct pod *pod = &s->pods[controller];
	size_t n_domains = pod->c->n_domains;
	unsigned k = level_of(size), n, free_ipus = pod->c->free_ipus, kept, pending;
	uint64_t *taken;

	if (!vipu_is_power_of_two(size) || !pod->c->open || pod->ready)
		return 0;
	taken = xcalloc(n_domains + 1, sizeof(*taken));
	for (size_t d = 0; d < n_domains; d++)
		taken[d] = pod->c->taken[d] | (pod->reserved ? pod->reserved[d] : 0);
	n = block_count(taken, n_domains, k);
	free(taken);
	kept = schedule_reserved(s, controller);
	free_ipus = free_ipus > kept ? free_ipus - kept : 0;
	if (n > free_ipus >> k)
		n = free_ipus >> k;
	pending = count_pending(pod, k);
	return n > pending ? n - pending : 0;
}
