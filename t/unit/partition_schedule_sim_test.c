/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thousands of jobs through the scheduler, against controllers that place partitions in their own
 * ways and list them a while later. What must hold at every step: nobody gets more than there is or
 * than its quota, equals are served in their order, who is first in the queue is served when it was
 * promised to be, and everybody in the end. Beside it, what a plain queue would have made of the
 * same jobs. A failing seed can be given as SEED=….
 */
#include "tap.h"

#include "core/rand.h"
#include "core/str.h"
#include "partition/block.h"
#include "partition/schedule.h"

#define PODS         4
#define MAX_DOMAINS  4
#define JOBS         1500
#define SPACES       4
#define LAG_MS       700 /* from a create until the list shows it */
#define MAX_USE_MS   (4 * 3600000)
#define TOLERANCE_MS (SCHEDULE_SLACK_MS + 2 * LAG_MS + 70000)

enum mode { SCHEDULED, PLAIN, GREEDY }; /* the scheduler; strictly in order; whatever fits */
enum placing { FIRST, BEST, ANYWHERE };

enum state { TO_COME, WAITING, RUNNING, DONE };

struct job {
	enum state state;
	int64_t arrives_ms, use_ms, deadline_ms;
	int64_t served_ms, ends_ms, not_before_ms;
	uint32_t ipus;
	int priority;
	unsigned space, pod, refused;
	struct block block;
	struct schedule_block kept;
	int64_t promised_ms; /* as first in the queue; 0: nothing */
	int64_t first_ms;    /* since when it is that; 0: it isn't */
};

struct world {
	enum mode mode;
	enum placing placing;
	enum schedule_choice choice;
	int64_t now_ms;
	uint64_t real[PODS][MAX_DOMAINS];
	struct job jobs[JOBS];
	struct job *queue[JOBS]; /* in its order */
	size_t n_queue, to_come;
	int64_t max_ipus[SPACES], used[SPACES];
	/* What is told in the end. */
	int64_t used_ms, busy_until_ms, longest_first_ms, wait_ms;
	unsigned refusals, overtakes;
	const char *broken;
};

static const unsigned domains[PODS] = {1, 1, 2, 4};
static struct world w;

static void violated(const char *what, const struct job *j)
{
	if (!w.broken)
		diag("%s: job %zu of %u IPUs, priority %d, at %" PRId64 " s", what,
		     (size_t)(j - w.jobs), j->ipus, j->priority, w.now_ms / 1000);
	w.broken = what;
}

/* ---- jobs ---- */

static void make_jobs(bool with_quotas)
{
	int64_t at_ms = 1000;

	for (size_t i = 0; i < JOBS; i++) {
		struct job *j = &w.jobs[i];
		unsigned kind = (unsigned)rand_below(100);

		at_ms += (int64_t)rand_below(50000);
		*j = (struct job){.arrives_ms = at_ms,
				  .space = (unsigned)rand_below(SPACES),
				  .ipus = kind < 50   ? 1U << rand_below(3)
					  : kind < 80 ? 8U << rand_below(2)
					  : kind < 98 ? 32U << rand_below(2)
						      : 128U << rand_below(2)};
		j->use_ms = 60000 + (int64_t)rand_below(MAX_USE_MS / 2);
		if (rand_below(2))
			j->deadline_ms = j->use_ms + (int64_t)rand_below(MAX_USE_MS / 2);
		j->priority = rand_below(10) == 0 ? 100 : 0;
	}
	for (size_t i = 0; i < SPACES; i++)
		w.max_ipus[i] = with_quotas && i > 0 ? 256 >> (i - 1) : -1;
}

static bool goes_before(const struct job *a, const struct job *b)
{
	return a->priority > b->priority || (a->priority == b->priority && a < b);
}

static void join_queue(struct job *j)
{
	size_t at = w.n_queue++;

	j->state = WAITING;
	for (; at > 0 && goes_before(j, w.queue[at - 1]); at--)
		w.queue[at] = w.queue[at - 1];
	w.queue[at] = j;
}

static void leave_queue(size_t at)
{
	w.n_queue--;
	for (; at < w.n_queue; at++)
		w.queue[at] = w.queue[at + 1];
}

/* ---- controllers ---- */

static unsigned level_of(uint32_t ipus)
{
	return (unsigned)__builtin_ctz(ipus);
}

static bool find_anywhere(const uint64_t *taken, size_t n, unsigned level, struct block *ret)
{
	size_t from = rand_below(n);

	if (!block_first(taken + from, n - from, level, ret))
		return block_first(taken, n, level, ret);
	ret->domain += from;
	return true;
}

static bool create(struct job *j, unsigned pod)
{
	unsigned level = level_of(j->ipus);
	uint64_t *taken = w.real[pod];
	size_t n = domains[pod];
	bool there = w.placing == FIRST  ? block_first(taken, n, level, &j->block)
		     : w.placing == BEST ? block_best(taken, n, level, &j->block)
					 : find_anywhere(taken, n, level, &j->block);

	if (!there)
		return false;
	if (block_meets(taken, &j->block))
		violated("an IPU was given twice", j);
	block_set(taken, &j->block);
	j->state = RUNNING;
	j->pod = pod;
	j->served_ms = w.now_ms;
	j->ends_ms = w.now_ms + j->use_ms;
	w.used[j->space] += j->ipus;
	w.wait_ms += w.now_ms - j->arrives_ms;
	if (w.max_ipus[j->space] >= 0 && w.used[j->space] > w.max_ipus[j->space])
		violated("over its quota", j);
	return true;
}

static void end(struct job *j)
{
	for (size_t d = j->block.domain; d < j->block.domain + j->block.n_domains; d++)
		w.real[j->pod][d] &= ~j->block.mask;
	j->state = DONE;
	w.used[j->space] -= j->ipus;
	w.used_ms += j->use_ms * j->ipus;
	w.busy_until_ms = w.now_ms;
}

/* ---- what the operator sees ---- */

struct view {
	struct schedule_controller c[PODS];
	struct schedule_quota quotas[SPACES];
	struct schedule_return returns[SPACES][JOBS];
	struct schedule_return pending[PODS][JOBS];
	uint64_t taken[PODS][MAX_DOMAINS];
	struct schedule_hold holds[PODS][MAX_DOMAINS * 64];
};
static struct view view;

static void see_job(const struct job *j)
{
	struct schedule_controller *c = &view.c[j->pod];
	struct schedule_quota *q = &view.quotas[j->space];
	int64_t until_ms = j->deadline_ms ? j->served_ms + j->deadline_ms : SCHEDULE_NEVER;

	q->returns[q->n_returns++] = (struct schedule_return){until_ms, j->ipus};
	if (w.now_ms - j->served_ms < LAG_MS) {
		view.pending[j->pod][c->n_pending++] = (struct schedule_return){until_ms, j->ipus};
		return;
	}
	block_set(view.taken[j->pod], &j->block);
	c->free_ipus -= j->ipus;
	for (size_t d = j->block.domain; d < j->block.domain + j->block.n_domains; d++)
		view.holds[j->pod][c->n_holds++] = (struct schedule_hold){(uint32_t)d,
									  j->block.mask, until_ms};
}

static void see(void)
{
	for (unsigned i = 0; i < PODS; i++) {
		view.c[i] = (struct schedule_controller){.open = true,
							 .fresh = true,
							 .total_ipus = domains[i] * 64,
							 .free_ipus = domains[i] * 64,
							 .pending = view.pending[i],
							 .taken = view.taken[i],
							 .n_domains = domains[i],
							 .holds = view.holds[i],
							 .max_unanswered = 64};
		memset(view.taken[i], 0, sizeof(view.taken[i]));
	}
	for (size_t i = 0; i < SPACES; i++)
		view.quotas[i] = (struct schedule_quota){.max_ipus = w.max_ipus[i],
							 .used_ipus = w.used[i],
							 .returns = view.returns[i]};
	for (size_t i = 0; i < w.to_come; i++) {
		if (w.jobs[i].state == RUNNING)
			see_job(&w.jobs[i]);
	}
}

/* ---- passes ---- */

/* One that could have been in its place is still waiting, ahead of it. */
static void check_order(const struct job *j, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		const struct job *k = w.queue[i];

		if (k->ipus == j->ipus && k->space == j->space &&
		    (!j->deadline_ms || k->deadline_ms == j->deadline_ms) &&
		    k->not_before_ms <= w.now_ms)
			violated("served before its elder", j);
	}
}

static void check_promise(const struct job *j)
{
	int64_t first_ms = j->first_ms ? w.now_ms - j->first_ms : 0;

	if (first_ms > w.longest_first_ms)
		w.longest_first_ms = first_ms;
	if (w.placing == ANYWHERE)
		return;
	if (j->promised_ms && w.now_ms > j->promised_ms + TOLERANCE_MS)
		violated("later than promised", j);
	if (first_ms > 2 * MAX_USE_MS + TOLERANCE_MS)
		violated("starved", j);
}

static void note_first(struct job *j, const struct schedule_decision *d)
{
	if (!d->reserved) {
		if (d->verdict != SCHEDULE_SERVE)
			j->first_ms = j->promised_ms = 0;
		return;
	}
	j->kept = d->block;
	if (!j->first_ms)
		j->first_ms = w.now_ms;
	if (d->start_ms != SCHEDULE_NEVER && view.c[d->block.controller].n_pending == 0 &&
	    (!j->promised_ms || d->start_ms < j->promised_ms))
		j->promised_ms = d->start_ms;
}

/* True if one was served, and the queue is another. */
static bool decide(struct schedule *s, size_t at)
{
	struct job *j = w.queue[at];
	struct schedule_ask ask = {
		.ipus = j->ipus, .deadline_ms = j->deadline_ms, .quota = &view.quotas[j->space]};
	struct schedule_decision d;

	if (j->not_before_ms > w.now_ms)
		return false;
	if (j->first_ms)
		ask.kept = &j->kept;
	schedule_decide(s, &ask, &d);
	note_first(j, &d);
	if (d.verdict != SCHEDULE_SERVE)
		return false;
	check_order(j, at);
	if (!create(j, (unsigned)d.controller)) {
		w.refusals++;
		j->refused++;
		j->not_before_ms = w.now_ms + (1000 << (j->refused < 6 ? j->refused : 6));
		return false;
	}
	check_promise(j);
	w.overtakes += at > 0;
	leave_queue(at);
	/* What was promised to those behind it was promised without it. */
	for (; at < w.n_queue; at++)
		w.queue[at]->promised_ms = w.queue[at]->first_ms = 0;
	return true;
}

static void pass_scheduled(void)
{
	struct schedule *s;

	see();
	s = schedule_new(w.choice, w.now_ms, view.c, PODS);
	for (size_t i = 0; i < w.n_queue;)
		i += !decide(s, i);
	schedule_free(s);
}

static bool is_over(const struct job *j)
{
	return w.max_ipus[j->space] >= 0 && w.used[j->space] + j->ipus > w.max_ipus[j->space];
}

static bool serve_plainly(struct job *j)
{
	for (unsigned pod = 0; pod < PODS; pod++) {
		if (create(j, pod))
			return true;
	}
	return false;
}

/* In order: one that waits holds up those behind it, one that waits for quota its namespace's. */
static void pass_plain(void)
{
	bool closed[SPACES] = {false};

	for (size_t i = 0; i < w.n_queue;) {
		struct job *j = w.queue[i];

		if (is_over(j) || closed[j->space]) {
			closed[j->space] = w.mode == PLAIN &&
					   (closed[j->space] || j->ipus <= w.max_ipus[j->space]);
			i++;
		} else if (serve_plainly(j)) {
			leave_queue(i);
		} else if (w.mode == PLAIN) {
			return;
		} else {
			i++;
		}
	}
}

/* ---- time ---- */

static void sooner(int64_t *next, int64_t at_ms)
{
	if (at_ms > w.now_ms && (!*next || at_ms < *next))
		*next = at_ms;
}

static int64_t next_event(void)
{
	int64_t next = 0;

	for (size_t i = 0; i < w.to_come; i++) {
		const struct job *j = &w.jobs[i];

		if (j->state == RUNNING) {
			sooner(&next, j->ends_ms);
			sooner(&next, j->served_ms + LAG_MS);
		} else if (j->state == WAITING) {
			sooner(&next, j->not_before_ms);
		}
	}
	if (w.to_come < JOBS)
		sooner(&next, w.jobs[w.to_come].arrives_ms);
	return next;
}

static void run_world(void)
{
	int64_t next;

	while ((next = next_event()) != 0) {
		w.now_ms = next;
		for (size_t i = 0; i < w.to_come; i++) {
			if (w.jobs[i].state == RUNNING && w.jobs[i].ends_ms <= w.now_ms)
				end(&w.jobs[i]);
		}
		while (w.to_come < JOBS && w.jobs[w.to_come].arrives_ms <= w.now_ms)
			join_queue(&w.jobs[w.to_come++]);
		if (w.mode == SCHEDULED)
			pass_scheduled();
		else
			pass_plain();
	}
	for (size_t i = 0; i < w.n_queue; i++) {
		if (w.max_ipus[w.queue[i]->space] < 0 ||
		    w.queue[i]->ipus <= w.max_ipus[w.queue[i]->space])
			violated("never served", w.queue[i]);
	}
}

struct outcome {
	double usage; /* of all IPUs, from the first arrival to the last end */
	double wait_s;
};

static struct outcome run(uint64_t seed, bool with_quotas, enum mode mode, enum placing placing,
			  enum schedule_choice choice)
{
	double ipus = 0;

	rand_seed(seed);
	memset(&w, 0, sizeof(w));
	w.mode = mode;
	w.placing = placing;
	w.choice = choice;
	make_jobs(with_quotas);
	run_world();
	for (size_t i = 0; i < PODS; i++)
		ipus += domains[i] * 64;
	return (struct outcome){(double)w.used_ms /
					((double)(w.busy_until_ms - w.jobs[0].arrives_ms) * ipus),
				(double)w.wait_ms / JOBS / 1000};
}

static void test_seed(uint64_t seed)
{
	static const char *const placings[] = {"first", "best", "anywhere"};
	bool with_quotas = seed % 3 == 0;

	for (enum placing placing = FIRST; placing <= ANYWHERE; placing++) {
		enum schedule_choice choice = seed % 2 ? SCHEDULE_BEST_FIT : SCHEDULE_FIRST_FIT;
		struct outcome plain = run(seed, with_quotas, PLAIN, placing, choice);
		struct outcome greedy = run(seed, with_quotas, GREEDY, placing, choice);
		struct outcome ours = run(seed, with_quotas, SCHEDULED, placing, choice);

		row_begin("seed %" PRIu64 ", %s fit, controllers place %s%s", seed,
			  choice == SCHEDULE_BEST_FIT ? "best" : "first", placings[placing],
			  with_quotas ? ", quotas" : "");
		ok(!w.broken, "the rules held%s%s", w.broken ? ": " : "", w.broken ? w.broken : "");
		ok(ours.usage > plain.usage * 0.98,
		   "in use %.1f %% (in order only: %.1f, whatever fits: %.1f)", ours.usage * 100,
		   plain.usage * 100, greedy.usage * 100);
		ok(ours.wait_s < plain.wait_s * 1.02,
		   "waited %.0f s on average (in order only: %.0f, whatever fits: %.0f)",
		   ours.wait_s, plain.wait_s, greedy.wait_s);
		ok(w.refusals < JOBS / 10 || placing == ANYWHERE, "refused creates: %u",
		   w.refusals);
		note("%u overtook; first in the queue for at most %" PRId64 " s", w.overtakes,
		     w.longest_first_ms / 1000);
	}
	row_end();
}

int main(void)
{
	if (getenv("SEED")) {
		test_seed(strtoull(getenv("SEED"), NULL, 10));
		return done_testing();
	}
	for (uint64_t seed = 1; seed <= 6; seed++)
		test_seed(seed);
	return done_testing();
}
