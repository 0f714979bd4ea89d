/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partition planner in a model of its world (partition_model.h): millions of random steps, the
 * five invariants of the architecture after each of them, and an end to every episode in which all
 * comes right. What breaks is made short and told. doc/design/partition-model.md says how to
 * replay.
 */
#define TAP_DEADLINE_S 1800
#include "partition_model.h"
#include "tap.h"

#include <time.h>

#define EPISODE 800

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define STEPS 600000 /* sanitizers make it slow */
#else
#define STEPS 5000000
#endif

/* How often each action is tried, so that none is rare. */
static const uint16_t weights[ACTIONS] = {
	[ACT_TICK] = 30,
	[ACT_PAUSE] = 6,
	[ACT_LONG_PAUSE] = 8,
	[ACT_LAND] = 1500,
	[ACT_DELIVER] = 1400,
	[ACT_LOSE_REQUEST] = 300,
	[ACT_LOSE_REPLY] = 140,
	[ACT_OPERATION] = 900,
	[ACT_BREAK] = 20,
	[ACT_OUTAGE] = 6,
	[ACT_UP] = 30,
	[ACT_LIE] = 40,
	[ACT_HONEST] = 12,
	[ACT_HAND_MAKE] = 6,
	[ACT_HAND_REMOVE] = 120,
	[ACT_HAND_REMOVE_OURS] = 24,
	[ACT_HAND_SQUAT] = 400,
	[ACT_LEAVE_CONFIG] = 6,
	[ACT_ENTER_CONFIG] = 10,
	[ACT_TRACKER_LAND] = 4000,
	[ACT_TRACKER_DELIVER] = 4000,
	[ACT_TRACKER_LOSE_REQUEST] = 500,
	[ACT_TRACKER_LOSE_REPLY] = 240,
	[ACT_TRACKER_WATCH] = 180,
	[ACT_TRACKER_TOUCH] = 3,
	[ACT_RUN] = 3000,
	[ACT_SERVE] = 1500,
	[ACT_TRACKER_STEP] = 2000,
	[ACT_REFRESH] = 30,
	[ACT_RENEW] = 20,
	[ACT_LEASE_LOST] = 5,
	[ACT_TAKE_LEASE] = 300,
	[ACT_STOP] = 4,
	[ACT_CRASH] = 6,
	[ACT_START] = 120,
	[ACT_MIND] = 8,
	[ACT_RESIZE] = 4,
	[ACT_NEXT_RUN] = 400,
	[ACT_END_USERS] = 30,
	[ACT_SYNC] = 60,
	[ACT_SEE] = 1000,
	[ACT_LEAVE] = 40,
};

static const char *const rules[] = {
	[RULE_TRACKED] = "1: no partition that the operator made is without a tracker entry",
	[RULE_OWN] = "2: a partition has one owner, and is safe under its Pods",
	[RULE_FOREIGN] = "3: what the tracker doesn't name is never reset or removed",
	[RULE_HELD] = "4: who holds nothing by our word holds nothing",
	[RULE_CAPACITY] = "5: what is free is given",
	[RULE_PROGRESS] = "in the end all comes right",
};

struct step {
	uint8_t action;
	uint64_t number; /* all that is random in it */
};

static struct world world;  /* large */
static uint8_t lots[32768]; /* actions by weight */
static unsigned n_lots;

static void fill_lots(void)
{
	for (int a = 0; a < ACTIONS; a++) {
		for (int n = 0; n < weights[a]; n++)
			lots[n_lots++] = (uint8_t)a;
	}
}

static bool do_step(struct world *w, const struct step *s)
{
	struct dice d = {s->number};

	if (w->talk)
		world_say(w, "- %s", action_names[s->action]);
	if (!world_act(w, (enum action)s->action, &d))
		return false;
	w->now_ms += 1 + (int64_t)roll(&d, 12);
	world_expire(w);
	world_check(w);
	return true;
}

/* Faults that an episode has or hasn't: with all of them in each, two of a kind seldom meet. */
static const uint8_t faults[] = {
	ACT_PAUSE,
	ACT_LONG_PAUSE,
	ACT_LOSE_REQUEST,
	ACT_LOSE_REPLY,
	ACT_BREAK,
	ACT_OUTAGE,
	ACT_LIE,
	ACT_HAND_MAKE,
	ACT_HAND_REMOVE,
	ACT_HAND_REMOVE_OURS,
	ACT_HAND_SQUAT,
	ACT_LEAVE_CONFIG,
	ACT_TRACKER_TOUCH,
	ACT_TRACKER_LOSE_REPLY,
	ACT_TRACKER_LOSE_REQUEST,
	ACT_LEASE_LOST,
	ACT_STOP,
	ACT_CRASH,
	ACT_RESIZE,
	ACT_NEXT_RUN,
	ACT_LEAVE,
};

static uint64_t draw_faults(struct dice *d)
{
	uint64_t left_out = 0;

	for (size_t i = 0; i < sizeof(faults); i++) {
		if (roll(d, 2))
			left_out |= UINT64_C(1) << faults[i];
	}
	return left_out;
}

/* An episode of random steps into trace; returns how many. */
static unsigned play(struct world *w, uint64_t seed, struct step trace[EPISODE])
{
	struct dice d = {seed * UINT64_C(0x2545f4914f6cdd1d)};
	uint64_t left_out = draw_faults(&d);
	unsigned n = 0;

	world_init(w, seed);
	while (n < EPISODE && !w->broken) {
		uint64_t number = (uint64_t)roll(&d, UINT32_MAX) << 32 | roll(&d, UINT32_MAX);

		trace[n] = (struct step){lots[roll(&d, n_lots)], number};
		if (!(left_out >> trace[n].action & 1) && do_step(w, &trace[n]))
			counted[trace[n++].action]++;
	}
	if (!w->broken)
		world_settle(w);
	return n;
}

/* ---- what broke, made short ---- */

static enum rule replay(struct world *w, uint64_t seed, const struct step *trace, unsigned n,
			bool talk)
{
	w->talk = talk;
	world_init(w, seed);
	for (unsigned k = 0; k < n && !w->broken; k++)
		do_step(w, &trace[k]);
	if (!w->broken)
		world_settle(w);
	w->talk = false;
	return w->broken;
}

/* Leaves out whatever isn't needed to break the same rule. */
static unsigned shrink(struct world *w, uint64_t seed, struct step *trace, unsigned n,
		       enum rule rule)
{
	static struct step shorter[EPISODE];

	for (unsigned chunk = n / 2; chunk > 0; chunk = chunk == 1 ? 0 : chunk / 2) {
		for (unsigned at = 0; at + chunk <= n;) {
			memcpy(shorter, trace, at * sizeof(*trace));
			memcpy(shorter + at, trace + at + chunk, (n - at - chunk) * sizeof(*trace));
			if (replay(w, seed, shorter, n - chunk, false) == rule) {
				n -= chunk;
				memcpy(trace, shorter, n * sizeof(*trace));
			} else {
				at += chunk;
			}
		}
	}
	return n;
}

static void tell(struct world *w, uint64_t seed, struct step *trace, unsigned n)
{
	enum rule rule = w->broken;
	unsigned was = n;

	diag("%s: %s", rules[rule], w->why);
	diag("again: IPU_MODEL_SEED=%" PRIu64 " IPU_MODEL_STEPS=1 t/unit/partition_model_test",
	     seed);
	n = shrink(w, seed, trace, n, rule);
	n = shrink(w, seed, trace, n, rule);
	diag("%u steps, of which these are enough:", was);
	for (int r = 0; r < REPLICAS; r++)
		diag("replica %d's clock: %+" PRId64 " ms", r, w->replicas[r].skew_ms);
	replay(w, seed, trace, n, true);
	diag("%s", w->why);
}

/* ---- the test ---- */

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
	const char *z = getenv(variable);

	return z && *z ? strtoull(z, NULL, 10) : otherwise;
}

static void check_counts(unsigned long steps)
{
	for (int a = 0; a < ACTIONS; a++)
		ok(counted[a] >= steps / 20000, "%s: %lu", action_names[a], counted[a]);
	for (int e = 0; e < EVENTS; e++)
		ok(happened[e] >= steps / 50000, "%s: %lu", event_names[e], happened[e]);
}

int main(int argc, char **argv)
{
	static struct step trace[EPISODE];
	uint64_t seed = number_of("IPU_MODEL_SEED", 1);
	uint64_t want = number_of("IPU_MODEL_STEPS", STEPS);
	bool brief = argc > 1 && strcmp(argv[1], "--brief") == 0; /* as t/80-mutants.t asks */
	unsigned long steps = 0, episodes = 0;
	clock_t began = clock();
	unsigned n = 0;

	fill_lots();
	do {
		n = play(&world, seed + episodes, trace);
		steps += n;
		episodes++;
	} while (steps < want && !world.broken);
	if (brief) {
		printf("%s after %lu steps: %s\n", world.broken ? "broken" : "well", steps,
		       world.broken ? rules[world.broken] : "");
		return world.broken ? 1 : 0;
	}
	note("%lu steps in %lu episodes, %.0f steps a second", steps, episodes,
	     (double)steps * CLOCKS_PER_SEC / (double)(clock() - began + 1));
	ok(!world.broken, "the invariants hold at every step, and in the end all comes right");
	if (world.broken)
		tell(&world, seed + episodes - 1, trace, n);
	else if (steps >= STEPS / 2)
		check_counts(steps);
	return done_testing();
}
