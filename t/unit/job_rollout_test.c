/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rolling updates: the rows of doc/design/rollout.md, then many worlds with few IPUs in which
 * instances start, fail and end while templates and sizes change.
 */
#include "core/rand.h"
#include "job/rollout.h"
#include "tap.h"

#define NOW     INT64_C(1000000)
#define MINUTE  60000
#define MAX_ALL 16
#define BAD     3 /* a template whose Pods are never Ready */

/* ---- rows ---- */

/* An instance is a letter, the surge ones come behind '|':
 *   o, O  of the old template: available, not available
 *   n, N  of the present template, the same
 *   g     of the old template, on its way out      G  of the present one
 *   w     waits for a partition since 10 s         W  since a minute
 *   e, E  has ended, of the old template, of the present one
 *   -     isn't there, or has no Pods */
static struct rollout_instance instance(char letter)
{
	struct rollout_instance i = {0};

	i.outdated = strchr("oOge", letter) != NULL;
	i.available = strchr("on", letter) != NULL;
	i.going = strchr("gG", letter) != NULL;
	i.ended = strchr("eE", letter) != NULL;
	i.starved_ms = letter == 'w' ? NOW - 10000 : letter == 'W' ? NOW - MINUTE : 0;
	return i;
}

static const struct row {
	const char *name;
	enum job_strategy strategy;
	uint32_t max_surge, max_unavailable;
	const char *world;
	const char *replaced; /* x: replaced now */
	uint32_t surge;
	int64_t next_ms; /* from now */
} rows[] = {
	/* clang-format off */
	{"nothing outdated", JOB_ROLLING_UPDATE, 1, 1, "nnnn|-", ".....", 0, 0},
	{"nothing outdated, Recreate", JOB_RECREATE, 1, 1, "nnnn|-", ".....", 0, 0},
	{"nothing outdated, some fail", JOB_ROLLING_UPDATE, 1, 0, "nNGw|-", ".....", 0, 0},
	{"no instance", JOB_ROLLING_UPDATE, 1, 0, "|-", ".", 0, 0},

	{"25 % and 25 % of four begin", JOB_ROLLING_UPDATE, 1, 1, "oooo|-", "x....", 1, 0},
	{"… the first is on its way", JOB_ROLLING_UPDATE, 1, 1, "gooo|N", ".....", 1, 0},
	{"… the surge one is there", JOB_ROLLING_UPDATE, 1, 1, "gooo|n", ".x...", 1, 0},
	{"… the first is back", JOB_ROLLING_UPDATE, 1, 1, "nooo|N", ".x...", 1, 0},
	{"… the last goes", JOB_ROLLING_UPDATE, 1, 1, "nnNo|n", "...x.", 1, 0},
	{"… two start: the surge one is needed", JOB_ROLLING_UPDATE, 1, 1, "nnNN|n", ".....", 1, 0},
	{"… one starts: it isn't", JOB_ROLLING_UPDATE, 1, 1, "nnnN|n", ".....", 0, 0},
	{"… all are back", JOB_ROLLING_UPDATE, 1, 1, "nnnn|n", ".....", 0, 0},

	{"no more surge ones than outdated ones", JOB_ROLLING_UPDATE, 3, 0, "nnno|---", ".......", 1, 0},
	{"… but for those that are needed", JOB_ROLLING_UPDATE, 3, 0, "nNNo|nnn", ".......", 2, 0},
	{"a needed one keeps those below it", JOB_ROLLING_UPDATE, 2, 0, "nnnN|Nn", "......", 2, 0},
	{"several surge ones", JOB_ROLLING_UPDATE, 2, 0, "oooo|nn", "xx....", 2, 0},
	{"several may be unavailable", JOB_ROLLING_UPDATE, 0, 3, "oooo|", "xxx.", 0, 0},
	{"all may be unavailable", JOB_ROLLING_UPDATE, 0, 9, "oooo|", "xxxx", 0, 0},

	{"those that aren't available go at once", JOB_ROLLING_UPDATE, 1, 0, "oOoO|-", ".x.x.", 1, 0},
	{"… and count", JOB_ROLLING_UPDATE, 0, 2, "ooOO|", "..xx", 0, 0},
	{"those that go aren't replaced twice", JOB_ROLLING_UPDATE, 0, 1, "ggoo|", "....", 0, 0},
	{"what starts badly stops the update", JOB_ROLLING_UPDATE, 1, 1, "Nooo|N", ".....", 1, 0},
	{"ended ones stay", JOB_ROLLING_UPDATE, 0, 1, "eoEo|", ".x..", 0, 0},
	{"all ended", JOB_ROLLING_UPDATE, 1, 0, "eee|-", "....", 0, 0},
	{"all ended, Recreate", JOB_RECREATE, 0, 1, "eee|", "...", 0, 0},

	{"Recreate", JOB_RECREATE, 1, 0, "oOgne|-", "xx....", 0, 0},
	{"Recreate, a surge one is left over", JOB_RECREATE, 1, 0, "oo|n", "xx.", 0, 0},

	/* The template changed once more: what was surge serves on. */
	{"an outdated surge one serves", JOB_ROLLING_UPDATE, 1, 0, "Oooo|o", "x....", 1, 0},
	{"… for the next", JOB_ROLLING_UPDATE, 1, 0, "nooo|o", ".x...", 1, 0},
	{"… where more could go, too", JOB_ROLLING_UPDATE, 1, 1, "nnno|o", "...x.", 1, 0},
	{"… to the end", JOB_ROLLING_UPDATE, 1, 0, "nnnN|o", ".....", 1, 0},
	{"… unless it isn't available", JOB_ROLLING_UPDATE, 1, 0, "oooo|O", "....x", 1, 0},
	{"changed back: one was through, one goes", JOB_ROLLING_UPDATE, 1, 0, "oGnn|o", ".....", 1, 0},
	{"… and is back", JOB_ROLLING_UPDATE, 1, 0, "onnn|o", "x....", 1, 0},

	/* A full pod. */
	{"the surge one waits", JOB_ROLLING_UPDATE, 1, 0, "o|w", "..", 1, 50000},
	{"… for a minute", JOB_ROLLING_UPDATE, 1, 0, "o|W", "x.", 1, 0},
	{"… one at a time", JOB_ROLLING_UPDATE, 1, 0, "goo|W", "....", 1, 0},
	{"… and the next", JOB_ROLLING_UPDATE, 1, 0, "noo|W", ".x..", 1, 0},
	{"… gone with the last", JOB_ROLLING_UPDATE, 1, 0, "nnN|W", "....", 0, 0},
	{"one surge one waits, one is there", JOB_ROLLING_UPDATE, 2, 0, "oooo|nW", "x.....", 2, 0},
	{"one surge one waits, one starts", JOB_ROLLING_UPDATE, 2, 0, "oooo|NW", "......", 2, 0},
	{"both wait", JOB_ROLLING_UPDATE, 2, 0, "oooo|WW", "x.....", 2, 0},
	{"the second has waited for less", JOB_ROLLING_UPDATE, 2, 0, "oooo|Ww", "......", 2, 50000},
	{"the surge one has ended", JOB_ROLLING_UPDATE, 1, 0, "oo|E", "x..", 1, 0},
	{"… and one is unavailable", JOB_ROLLING_UPDATE, 1, 0, "go|E", "...", 1, 0},
	{"no extra where one may be unavailable", JOB_ROLLING_UPDATE, 1, 1, "goo|W", "....", 1, 0},

	/* Wanted ones that have no IPUs. */
	{"a wanted one waits", JOB_ROLLING_UPDATE, 0, 1, "ooow|", "....", 0, 50000},
	{"… for a minute", JOB_ROLLING_UPDATE, 0, 1, "oooW|", "x...", 0, 0},
	{"… with a surge one that waits too", JOB_ROLLING_UPDATE, 1, 0, "oooW|W", "x....", 1, 0},
	{"… because of the surge one", JOB_ROLLING_UPDATE, 1, 0, "nnnw|n", ".....", 0, 0},
	{"only one has IPUs", JOB_ROLLING_UPDATE, 1, 0, "WWoW|W", "..x..", 1, 0},
	/* clang-format on */
};

static void check_row(const struct row *row)
{
	struct rollout_instance items[MAX_ALL];
	struct rollout_view v = {.strategy = row->strategy,
				 .max_surge = row->max_surge,
				 .max_unavailable = row->max_unavailable,
				 .items = items,
				 .now_ms = NOW};
	struct rollout_plan plan;
	bool replace[MAX_ALL];
	char got[MAX_ALL + 1] = "";
	bool going_on = false;

	for (const char *z = row->world; *z; z++) {
		if (*z == '|') {
			v.wanted = (uint32_t)v.n;
			continue;
		}
		items[v.n] = instance(*z);
		if (z < strchr(row->world, '|'))
			going_on |= items[v.n].outdated && !items[v.n].ended;
		v.n++;
	}
	memset(replace, true, sizeof(replace));
	row_begin("%s (%s)", row->name, row->world);
	rollout_plan(&v, replace, &plan);
	for (size_t i = 0; i < v.n; i++)
		got[i] = replace[i] ? 'x' : '.';
	is_str(got, row->replaced, "replaced");
	is_uint(plan.surge, row->surge, "surge");
	is_int(plan.next_ms, row->next_ms ? NOW + row->next_ms : 0, "looked at again");
	is_int(plan.going_on, going_on, "going on");
}

/* ---- worlds ---- */

enum state {
	NONE,     /* not there, or without Pods while its partition is made ready */
	WAITING,  /* for IPUs */
	STARTING, /* Pods, not all Ready */
	READY,
	GOING, /* its Pods end; then it starts again, or is gone */
	ENDED,
};

struct thing {
	enum state state;
	unsigned template;
	int64_t since_ms;
	bool ipus;       /* has a partition */
	bool dropped;    /* GOING: not to come again */
	bool taken_down; /* replaced while it was available, and not back since */
};

struct world {
	struct thing things[MAX_ALL];
	enum job_strategy strategy;
	uint32_t wanted, max_surge, max_unavailable, capacity;
	unsigned template;
	bool troubled; /* things fail and end by themselves, the user edits */
	int64_t now_ms;
	bool asked[MAX_ALL]; /* planned at the last look */
};

static uint64_t seed;
static unsigned long passes, replacements;

static uint32_t ipus_taken(const struct world *w)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < MAX_ALL; i++)
		n += w->things[i].ipus;
	return n;
}

static void become(struct world *w, struct thing *t, enum state state)
{
	t->state = state;
	t->since_ms = w->now_ms;
	if (state != GOING && state != STARTING && state != NONE)
		t->taken_down = false;
}

static bool is_old(const struct world *w, const struct thing *t)
{
	bool has_pods = t->state == STARTING || t->state == READY || t->state == GOING ||
			t->state == ENDED;

	return has_pods && t->template != w->template;
}

static void observe(const struct world *w, struct rollout_instance *items, struct rollout_view *v)
{
	*v = (struct rollout_view){.strategy = w->strategy,
				   .wanted = w->wanted,
				   .max_surge = w->max_surge,
				   .max_unavailable = w->max_unavailable,
				   .items = items,
				   .n = w->wanted + w->max_surge,
				   .now_ms = w->now_ms};
	for (size_t i = 0; i < v->n; i++) {
		const struct thing *t = &w->things[i];

		items[i] = (struct rollout_instance){
			.ended = t->state == ENDED,
			.outdated = is_old(w, t),
			.going = t->state == GOING,
			.available = t->state == READY,
			.starved_ms = t->state == WAITING ? t->since_ms : 0,
		};
	}
}

/* Always false. */
static bool dump(const struct world *w, const char *what)
{
	static const char letters[] = "-wNnge";
	char z[MAX_ALL + 2] = "";
	size_t len = 0;

	for (unsigned i = 0; i < MAX_ALL; i++) {
		const struct thing *t = &w->things[i];
		char c = letters[t->state];

		if (i == w->wanted)
			z[len++] = '|';
		z[len++] = is_old(w, t) ? (c == 'N' ? 'O' : c == 'n' ? 'o' : c) : c;
	}
	fail("seed %" PRIu64 ": %s: %s, surge %u, unavailable %u, capacity %u, at %" PRId64, seed,
	     what, z, w->max_surge, w->max_unavailable, w->capacity, w->now_ms);
	return false;
}

/* All surge ones that were planned wait since a minute, or have ended. */
static bool no_surge_to_be_had(const struct world *w, uint32_t surge)
{
	uint32_t without = 0;

	for (uint32_t i = w->wanted; i < w->wanted + surge; i++) {
		const struct thing *t = &w->things[i];

		without += t->state == ENDED ||
			   (t->state == WAITING && w->now_ms - t->since_ms >= MINUTE);
	}
	return surge > 0 && without == surge;
}

/* What the update itself has taken down, less what surge gives, is within what's allowed. */
static bool is_within(const struct world *w, uint32_t surge, bool surge_starved)
{
	uint32_t down = 0, instead = 0, allowed = w->max_unavailable;

	if (surge_starved && allowed == 0)
		allowed = 1;
	for (uint32_t i = 0; i < w->wanted; i++)
		down += w->things[i].taken_down;
	for (uint32_t i = w->wanted; i < w->wanted + surge; i++)
		instead += w->things[i].state == READY;
	return w->strategy == JOB_RECREATE || down <= allowed + instead;
}

static void drop(struct world *w, struct thing *t)
{
	if (t->state == GOING && t->dropped)
		return;
	if (t->state == NONE || t->state == WAITING || t->state == ENDED) {
		*t = (struct thing){0};
		return;
	}
	if (t->state != GOING)
		become(w, t, GOING);
	t->dropped = true;
	t->taken_down = false;
}

static bool look(struct world *w)
{
	struct rollout_instance items[MAX_ALL];
	bool replace[MAX_ALL], took = false, outdated = false, any = false, starved;
	struct rollout_view v;
	struct rollout_plan plan;

	observe(w, items, &v);
	rollout_plan(&v, replace, &plan);
	passes++;
	starved = no_surge_to_be_had(w, plan.surge);
	if (plan.surge > w->max_surge)
		return dump(w, "too many surge ones");
	for (uint32_t i = 0; i < v.n; i++) {
		struct thing *t = &w->things[i];

		outdated |= items[i].outdated && !items[i].ended;
		any |= replace[i];
		if (!replace[i])
			continue;
		if (t->state == GOING || t->state == ENDED || !is_old(w, t))
			return dump(w, "one is replaced that mustn't be");
		took |= t->state == READY;
		t->taken_down |= t->state == READY;
		become(w, t, GOING);
		replacements++;
	}
	if (any && !outdated)
		return dump(w, "replaced where nothing is outdated");
	for (uint32_t i = w->wanted; i < MAX_ALL; i++) {
		if (i >= w->wanted + plan.surge) {
			took |= w->things[i].state == READY;
			drop(w, &w->things[i]);
		}
	}
	if (took && !is_within(w, plan.surge, starved))
		return dump(w, "too few are available");
	for (uint32_t i = 0; i < MAX_ALL; i++) {
		struct thing *t = &w->things[i];

		w->asked[i] = i < w->wanted + plan.surge;
		if (w->asked[i] && t->state == NONE && !t->ipus)
			become(w, t, WAITING);
		if (w->asked[i] && t->state == GOING && i < w->wanted)
			t->dropped = false;
	}
	return true;
}

static void fail_by_itself(struct world *w, struct thing *t)
{
	if (t->state != READY && t->state != STARTING)
		return;
	t->taken_down = false;
	switch (rand_below(4)) {
	case 0: /* not Ready for a while */
		become(w, t, STARTING);
		break;
	case 1: /* it starts again */
		become(w, t, GOING);
		break;
	case 2: /* … and its IPUs go back meanwhile */
		become(w, t, WAITING);
		t->ipus = false;
		break;
	default:
		if (rand_below(4) == 0) {
			become(w, t, ENDED);
			t->ipus = false;
		}
	}
	t->taken_down = false;
}

static void edit(struct world *w)
{
	uint32_t now = w->wanted;

	switch (rand_below(6)) {
	case 0:
	case 1:
		w->template = 1 + (unsigned)rand_below(4); /* often one that was there before */
		return;
	case 2:
		now = 1 + (uint32_t)rand_below(6);
		break;
	case 3:
		w->strategy = rand_below(4) ? JOB_ROLLING_UPDATE : JOB_RECREATE;
		break;
	default:
		return;
	}
	/* Those that the user takes away, or asks for, aren't the update's doing. */
	for (uint32_t i = 0; i < MAX_ALL; i++)
		w->things[i].taken_down = false;
	for (uint32_t i = now + w->max_surge; i < MAX_ALL; i++)
		drop(w, &w->things[i]);
	w->wanted = now;
}

static void move_thing(struct world *w, uint32_t i)
{
	struct thing *t = &w->things[i];

	switch (t->state) {
	case WAITING:
		if (ipus_taken(w) < w->capacity) {
			t->ipus = true;
			become(w, t, NONE);
		}
		break;
	case NONE:
		if (t->ipus) {
			t->template = w->template;
			become(w, t, STARTING);
		}
		break;
	case STARTING:
		if (t->template != BAD)
			become(w, t, READY);
		break;
	case GOING:
		if (t->dropped)
			*t = (struct thing){0};
		else
			become(w, t, NONE);
		break;
	default:
		break;
	}
}

/* A while in which each thing may move by one step, and something may go wrong. */
static bool step(struct world *w)
{
	w->now_ms += 1000 + (int64_t)rand_below(20000);
	for (unsigned n = 0; n < MAX_ALL; n++) {
		if (rand_below(2) == 0)
			move_thing(w, (uint32_t)rand_below(MAX_ALL));
		if (w->troubled && rand_below(60) == 0)
			fail_by_itself(w, &w->things[rand_below(MAX_ALL)]);
		if (rand_below(8) == 0 && !look(w))
			return false;
	}
	if (w->troubled && rand_below(12) == 0)
		edit(w);
	return look(w);
}

static bool is_done(const struct world *w)
{
	uint32_t live = 0, ready = 0, others = 0;

	for (uint32_t i = 0; i < MAX_ALL; i++) {
		const struct thing *t = &w->things[i];

		if (i >= w->wanted) {
			others += t->state != NONE;
		} else if (t->state != ENDED) {
			live++;
			ready += t->state == READY && t->template == w->template;
		}
	}
	return others == 0 && ready == (live < w->capacity ? live : w->capacity);
}

static bool play(void)
{
	struct world w = {.now_ms = NOW, .template = 1};
	bool edits;

	rand_seed(seed);
	w.wanted = 1 + (uint32_t)rand_below(5);
	w.max_surge = (uint32_t)rand_below(4);
	w.max_unavailable = (uint32_t)rand_below(4);
	if (w.max_surge == 0 && w.max_unavailable == 0)
		w.max_unavailable = 1;
	w.capacity = rand_below(3) ? w.wanted + (uint32_t)rand_below(4)
				   : 1 + (uint32_t)rand_below(w.wanted);
	edits = rand_below(3) != 0;
	for (unsigned n = 0; n < 40; n++) {
		if (!step(&w))
			return false;
	}
	w.template = 2;
	w.troubled = edits;
	for (unsigned n = 0; n < 80; n++) {
		if (!step(&w))
			return false;
	}
	w.troubled = false;
	if (w.template == BAD)
		w.template = 1 + (unsigned)rand_below(2);
	w.strategy = rand_below(8) ? JOB_ROLLING_UPDATE : JOB_RECREATE;
	for (unsigned n = 0; n < 400 && !is_done(&w); n++) {
		if (!step(&w))
			return false;
	}
	if (!is_done(&w)) {
		dump(&w, "it never ends");
		return false;
	}
	/* At rest it stays so. */
	for (unsigned n = 0; n < 10; n++) {
		if (!step(&w))
			return false;
		if (!is_done(&w)) {
			dump(&w, "it doesn't stay done");
			return false;
		}
	}
	return true;
}

/* One instance, with all that can be set: it's always updated; with a surge one and IPUs for it
 * there's always one available. */
static void check_one(uint32_t max_surge, uint32_t max_unavailable, uint32_t capacity)
{
	struct world w = {.now_ms = NOW,
			  .template = 1,
			  .wanted = 1,
			  .max_surge = max_surge,
			  .max_unavailable = max_unavailable,
			  .capacity = capacity};
	int64_t without_ms = 0, begin_ms, last_ms;
	unsigned n = 0;

	row_begin("one instance, surge %u, unavailable %u, %u fit", max_surge, max_unavailable,
		  capacity);
	rand_seed(max_surge * 100 + max_unavailable * 10 + capacity);
	while (!is_done(&w) && n++ < 100)
		step(&w);
	w.template = 2;
	begin_ms = last_ms = w.now_ms;
	for (n = 0; n < 100 && !is_done(&w); n++) {
		unsigned ready = 0;

		step(&w);
		for (unsigned i = 0; i < MAX_ALL; i++)
			ready += w.things[i].state == READY;
		if (ready == 0)
			without_ms += w.now_ms - last_ms;
		last_ms = w.now_ms;
	}
	ok(is_done(&w), "updated");
	if (max_surge > 0 && max_unavailable == 0 && capacity > 1)
		is_int(without_ms, 0, "never without one");
	else
		ok(without_ms > 0, "it was away meanwhile");
	if (max_surge > 0 && max_unavailable == 0 && capacity == 1)
		ok(w.now_ms - begin_ms >= MINUTE, "but not before a minute");
}

int main(void)
{
	uint64_t first = 1, n = 20000;
	unsigned long failed = 0;

	if (getenv("IPU_SEED")) {
		first = strtoull(getenv("IPU_SEED"), NULL, 10);
		n = 1;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_row(&rows[i]);
	for (uint32_t s = 0; s < 3; s++) {
		for (uint32_t u = 0; u < 3; u++) {
			for (uint32_t c = 1; s + u > 0 && c < 3; c++)
				check_one(s, u, c);
		}
	}
	row_end();
	for (seed = first; seed < first + n && failed < 5; seed++)
		failed += !play();
	is_uint(failed, 0, "worlds that broke a rule");
	ok(replacements > n, "and that is no idle word");
	note("%lu passes, %lu replacements", passes, replacements);
	return done_testing();
}
