/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of annotated Pods in every world, after a crash behind each of its actions, and on
 * long ways through a world that moves by itself, in which patches take effect after their sender
 * gave up or died and the store is behind: what it may never do, and that it comes to rest.
 */
#include "core/rand.h"
#include "pod_plan_rig.h"

static unsigned long plans;

static void broken(const struct world *w, const struct pod_plan *plan, const char *what)
{
	static const char *const kinds[] = {"gated", "opened", "on its own"};
	static const char *const files[] = {"none", "good", "other", "foreign", "dying"};

	fail("%s: %s%s%s%s%s%s%s%s, %s%s of %u%s%s%s, files %s of %u%s%s%s: does %s", what,
	     kinds[w->kind], w->started ? " started" : "", w->ended ? " ended" : "",
	     w->stuck      ? " stuck"
	     : w->deleting ? " deleting"
			   : "",
	     w->others ? " others" : "", w->copy ? " copy" : "", w->bad ? " bad" : "",
	     w->picky ? " picky" : "", partition_state_name(w->state), w->broken ? " (error)" : "",
	     w->number, w->otherwise ? " otherwise" : "", w->fetched ? " fetched" : "",
	     w->draining ? " draining" : "", files[w->files], w->files_of,
	     w->adopted ? " adopted" : "", w->fenced ? " fenced" : "",
	     w->held_back ? " held back" : "", pod_action_name(plan->action));
}

/* ---- what may never happen ---- */

static bool may_run(const struct world *w)
{
	return w->kind != BEHIND_GATE && w->started && !w->ended && !w->stuck;
}

static bool is_served(const struct world *w)
{
	return w->kind == BEHIND_GATE && !w->ended && !w->deleting && !w->bad && !w->copy &&
	       !w->others && !w->held_back && !w->of_job;
}

static const char *wrong_action(const struct world *w, const struct pod_plan *plan)
{
	switch (plan->action) {
	case POD_RELEASE:
		if (!is_asked(w))
			return "nothing is released";
		return may_run(w) ? "a partition in use goes" : NULL;
	case POD_ENSURE:
		return is_served(w) ? NULL : "a partition for one that isn't to have one";
	case POD_ADOPT:
		return w->kind == OPENED && w->state == PARTITION_STATE_NONE && !w->adopted
			       ? NULL
			       : "taken over for no reason";
	case POD_OPEN:
		if (!is_served(w) || w->picky || w->draining || w->otherwise)
			return "opened although it may not";
		if (w->state != PARTITION_STATE_ACTIVE)
			return "opened without an active partition";
		return w->files == GOOD_FILES && w->files_of == w->number
			       ? NULL
			       : "opened without its configuration";
	case POD_WRITE_FILES:
		if (w->files == FOREIGN_FILES)
			return "somebody else's ConfigMap is written";
		if (w->state != PARTITION_STATE_ACTIVE || (!w->fetched && !w->by_address))
			return "a configuration that isn't there is written";
		return w->ended || w->deleting ? "a ConfigMap after the end" : NULL;
	case POD_FENCE:
	case POD_HOLD_BACK:
		return w->kind == BEHIND_GATE && !w->ended && !w->deleting && plan->event
			       ? NULL
			       : "words for nobody";
	case POD_LIMIT:
		return "a time that nobody has set";
	case POD_NOTHING:
		return w->ended && is_asked(w) ? "an ended Pod keeps its IPUs" : NULL;
	}
	return "an action without a name";
}

static bool plan_world(const struct world *w, struct pod_plan *ret)
{
	struct sight s;
	const char *what;

	look(w, &s);
	pod_plan(&s.view, ret);
	plans++;
	what = wrong_action(w, ret);
	if (what)
		broken(w, ret, what);
	return what == NULL;
}

/* ---- to rest ---- */

static void forget(struct world *w)
{
	w->adopted = w->fenced = w->held_back = false;
}

static void ensure(struct world *w)
{
	if (is_asked(w) && !w->otherwise)
		return;
	w->state = PARTITION_STATE_WAITING;
	w->otherwise = w->broken = w->fetched = w->draining = false;
}

static void do_action(struct world *w, const struct pod_plan *plan)
{
	switch (plan->action) {
	case POD_ENSURE:
		ensure(w);
		break;
	case POD_ADOPT:
		w->adopted = true;
		w->state = PARTITION_STATE_WAITING;
		break;
	case POD_RELEASE:
		w->state = has_id(w) ? PARTITION_STATE_RELEASING : PARTITION_STATE_NONE;
		break;
	case POD_WRITE_FILES:
		if (w->files != DYING_FILES) {
			w->files = GOOD_FILES;
			w->files_of = w->number;
		}
		break;
	case POD_OPEN:
		w->kind = OPENED;
		w->opened_with = w->number;
		w->fenced = false;
		break;
	case POD_FENCE:
		w->fenced = true;
		break;
	case POD_HOLD_BACK:
		w->held_back = true;
		break;
	case POD_LIMIT:
	case POD_NOTHING:
		break;
	}
}

static bool comes_to_rest(struct world w)
{
	struct pod_plan plan;

	for (int pass = 0; pass < 8; pass++) {
		if (!plan_world(&w, &plan))
			return false;
		if (plan.action == POD_NOTHING)
			return true;
		do_action(&w, &plan);
	}
	broken(&w, &plan, "no rest");
	return false;
}

/* ---- every world ---- */

static unsigned take(unsigned *k, unsigned n)
{
	unsigned v = *k % n;

	*k /= n;
	return v;
}

#define N_PODS  (3 * 2 * 2 * 3 * 2 * 2 * 2 * 2)
#define N_PARTS (8 * 2 * 2 * 2)
#define N_FILES (5 * 2)
#define N_MEM   (2 * 2 * 2)

static void set_world(struct world *w, unsigned k)
{
	static const enum partition_state states[] = {
		PARTITION_STATE_NONE,      PARTITION_STATE_WAITING,  PARTITION_STATE_CREATING,
		PARTITION_STATE_ACTIVE,    PARTITION_STATE_FAILED,   PARTITION_STATE_FAILED,
		PARTITION_STATE_RESETTING, PARTITION_STATE_RELEASING};
	unsigned end, state;

	*w = (struct world){.opened_with = 1, .number = 1};
	w->kind = (enum wpod_kind)take(&k, 3);
	w->started = take(&k, 2) && w->kind != BEHIND_GATE;
	w->ended = take(&k, 2) && w->kind != BEHIND_GATE;
	end = take(&k, 3);
	w->deleting = end > 0;
	w->stuck = end > 1;
	w->others = take(&k, 2);
	w->copy = take(&k, 2);
	w->bad = take(&k, 2);
	w->picky = take(&k, 2);
	state = take(&k, 8);
	w->state = states[state];
	w->broken = state == 4;
	w->otherwise = take(&k, 2) && is_asked(w);
	w->fetched = take(&k, 2);
	w->draining = take(&k, 2);
	w->files = take(&k, 5);
	w->files_of = 1 + take(&k, 2);
	w->adopted = take(&k, 2);
	w->fenced = take(&k, 2);
	w->held_back = take(&k, 2);
}

static void test_every_world(void)
{
	bool good = true;

	for (unsigned k = 0; k < N_PODS * N_PARTS * N_FILES * N_MEM && good; k++) {
		struct pod_plan plan;
		struct world w;

		set_world(&w, k);
		good = plan_world(&w, &plan) && comes_to_rest(w);
		/* A crash behind the action. */
		do_action(&w, &plan);
		forget(&w);
		good = good && comes_to_rest(w);
	}
	ok(good, "every world: %lu plans", plans);
}

/* ---- ways through a world that moves ---- */

/* w is what the process sees and remembers. What is true of the Pod may be ahead of that. */
struct wide {
	struct world w;
	struct {
		enum wpod_kind kind;
		unsigned opened_with;
		bool started, ended, deleting, gone;
		unsigned version;
	} pod;
	unsigned seen_version;
	/* Opening patches that were sent, and whose outcome nobody knows. */
	struct {
		bool sent;
		unsigned version, number;
	} late[3];
	unsigned numbers; /* of partitions so far */
};

static unsigned roll(unsigned n)
{
	return (unsigned)rand_below(n);
}

static void see_all(struct wide *x)
{
	x->w.kind = x->pod.kind;
	x->w.opened_with = x->pod.opened_with;
	x->w.started = x->pod.started;
	x->w.ended = x->pod.ended;
	x->w.deleting = x->pod.deleting;
	x->seen_version = x->pod.version;
}

static void land(struct wide *x, unsigned i)
{
	if (!x->late[i].sent)
		return;
	x->late[i].sent = false;
	if (x->pod.gone || x->pod.kind != BEHIND_GATE || x->pod.version != x->late[i].version)
		return;
	x->pod.kind = OPENED;
	x->pod.opened_with = x->late[i].number;
	x->pod.version++;
}

static void send_open(struct wide *x)
{
	unsigned i = roll(3);

	land(x, i); /* it's as late as it gets */
	x->late[i].sent = true;
	x->late[i].version = x->seen_version;
	x->late[i].number = x->w.number;
	x->w.fenced = false;
	if (roll(2)) {
		land(x, i);
		if (roll(2))
			see_all(x); /* its answer came */
	}
}

/* True: none of its containers runs on what is taken from it. */
static bool is_safe(const struct wide *x)
{
	return x->pod.gone || x->pod.ended || x->w.stuck || x->pod.kind == BEHIND_GATE ||
	       (x->pod.deleting && !x->pod.started) || x->pod.opened_with != x->w.number;
}

static bool act(struct wide *x, const struct pod_plan *plan)
{
	bool takes = plan->action == POD_RELEASE ||
		     (plan->action == POD_ENSURE && x->w.otherwise && has_id(&x->w));

	if (takes && !is_safe(x)) {
		broken(&x->w, plan, "IPUs of a Pod that has been opened go");
		return false;
	}
	if (plan->action == POD_OPEN) {
		send_open(x);
	} else if (plan->action == POD_FENCE) {
		if (!x->pod.gone && roll(4)) {
			x->pod.version++;
			see_all(x);
			x->w.fenced = x->pod.kind == BEHIND_GATE;
		}
	} else {
		do_action(&x->w, plan);
	}
	return true;
}

static void move_part(struct wide *x, bool kindly)
{
	struct world *w = &x->w;

	switch (w->state) {
	case PARTITION_STATE_WAITING:
		w->state = PARTITION_STATE_CREATING;
		/* Taken over: the one that it was opened with. */
		w->number = w->kind == OPENED ? w->opened_with : ++x->numbers;
		break;
	case PARTITION_STATE_CREATING:
	case PARTITION_STATE_RESETTING:
		w->state = PARTITION_STATE_ACTIVE;
		w->fetched = kindly || roll(2);
		break;
	case PARTITION_STATE_ACTIVE:
		w->fetched = true;
		if (!kindly && roll(4) == 0) {
			w->state = PARTITION_STATE_FAILED;
			w->broken = roll(2);
		}
		if (!kindly && roll(6) == 0)
			w->state = PARTITION_STATE_RESETTING; /* a person's */
		w->draining = !kindly && roll(5) == 0;
		break;
	case PARTITION_STATE_RELEASING:
		w->state = PARTITION_STATE_NONE;
		break;
	default:
		break;
	}
}

static void move_pod(struct wide *x)
{
	if (x->pod.gone)
		return;
	if (x->pod.kind != BEHIND_GATE && !x->pod.started && !x->pod.deleting)
		x->pod.started = true;
	else if (x->pod.deleting && (x->pod.ended || !x->pod.started))
		x->pod.gone = true;
	else if (x->pod.started && !x->pod.ended)
		x->pod.ended = x->pod.deleting || roll(3) == 0;
	x->pod.version++;
}

static void move_people(struct wide *x)
{
	switch (roll(8)) {
	case 0:
		x->pod.deleting |= !x->pod.gone;
		x->pod.version++;
		break;
	case 1:
		x->w.otherwise = is_asked(&x->w) && x->w.state != PARTITION_STATE_RELEASING;
		break;
	case 2:
		x->w.bad = !x->w.bad && roll(2);
		break;
	case 3:
		x->w.files = (unsigned)roll(5);
		break;
	case 4:
		x->w.held_back = false; /* its time is over */
		break;
	case 5: /* somebody writes an annotation */
		x->pod.version++;
		break;
	case 6: /* gates of others */
		x->w.others = x->w.kind == BEHIND_GATE && roll(3) == 0;
		break;
	default:
		break;
	}
}

static bool take_turn(struct wide *x)
{
	struct pod_plan plan;

	/* The store hasn't got it any more, and the API server has said so. */
	if (x->pod.gone && x->seen_version == UINT32_MAX) {
		if (is_asked(&x->w))
			x->w.state = has_id(&x->w) ? PARTITION_STATE_RELEASING
						   : PARTITION_STATE_NONE;
		return true;
	}
	return plan_world(&x->w, &plan) && act(x, &plan);
}

static void hear(struct wide *x)
{
	see_all(x);
	if (x->pod.gone)
		x->seen_version = UINT32_MAX;
}

/* In the end everything goes its way, and the Pod must end with nothing held. */
static bool finish(struct wide *x)
{
	struct pod_plan plan;

	x->w.bad = x->w.others = false;
	for (int step = 0; step < 200; step++) {
		x->w.held_back = x->w.held_back && step % 10;
		if (!take_turn(x))
			return false;
		for (unsigned i = 0; i < 3; i++)
			land(x, i);
		if (x->w.files > GOOD_FILES)
			x->w.files = NO_FILES;
		move_part(x, true);
		move_pod(x);
		hear(x);
	}
	if ((x->pod.gone || x->pod.ended) && x->w.state == PARTITION_STATE_NONE)
		return true;
	plan_world(&x->w, &plan);
	broken(&x->w, &plan, "no end");
	return false;
}

static bool walk(void)
{
	struct wide x = {.numbers = 0};
	bool good = true;

	for (int step = 0; step < 80 && good; step++) {
		switch (roll(8)) {
		case 0:
		case 1:
		case 2:
			good = take_turn(&x);
			break;
		case 3:
			move_part(&x, false);
			break;
		case 4:
			move_pod(&x);
			break;
		case 5:
			if (roll(3))
				hear(&x);
			else
				land(&x, roll(3));
			break;
		case 6:
			if (roll(4) == 0) {
				forget(&x.w); /* another process, which reads everything */
				hear(&x);
			}
			break;
		default:
			move_people(&x);
			break;
		}
	}
	return good && finish(&x);
}

static void test_walks(unsigned n)
{
	bool good = true;
	unsigned i;

	rand_seed(4711);
	for (i = 0; i < n && good; i++)
		good = walk();
	ok(good, "%u ways, %lu plans so far", i, plans);
}

int main(void)
{
	test_every_world();
	test_walks(20000);
	return done_testing();
}
