/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job planner in every world of one instance with one and with two workers, after a crash
 * behind each of its actions, and on long ways through a world that moves by itself: what it may
 * never do, and that it comes to rest.
 */
#include "core/rand.h"
#include "job_plan_rig.h"

static unsigned long plans, worlds;

/* ---- what may never happen ---- */

static void describe(const struct world *w, char *z, size_t size)
{
	static const char *const phases[] = {"pending", "running", "succeeded", "failed",
					     "unknown"};
	size_t len;

	len = (size_t)snprintf(z, size, "%ux%u%s%s [%d %d %d %d]%s:", w->instances, w->workers,
			       w->deleting ? " deleting" : "", w->finalizer ? "" : " no-finalizer",
			       w->status.desired_replicas, w->status.active, w->status.succeeded,
			       w->status.failed, w->status.completion_ms ? " ended" : "");
	for (unsigned i = 0; i < MAX_INSTANCES; i++)
		len += (size_t)snprintf(z + len, size - len, " %s%s",
					partition_state_name(w->parts[i].state),
					w->parts[i].broken ? "(error)" : "");
	for (unsigned i = 0; i < MAX_INSTANCES && w->by_file; i++)
		len += (size_t)snprintf(
			z + len, size - len, " %s%s%s%s%s",
			w->parts[i].fetched ? "fetched" : "unfetched",
			w->files[i].there ? "/files" : "", w->files[i].foreign ? "x" : "",
			w->files[i].other ? "o" : "", w->files[i].deleting ? "!" : "");
	for (unsigned n = 0; n < MAX_PODS; n++) {
		const struct wpod *pod = &w->pods[n];

		if (pod->there)
			len += (size_t)snprintf(z + len, size - len, " %u:%s%s%s%s", n,
						phases[pod->phase], pod->deleting ? "!" : "",
						pod->stale ? "s" : "", pod->foreign ? "x" : "");
	}
}

static void broken(const struct world *w, const struct job_plan *plan, const char *what)
{
	char now[512], does[512];

	describe(w, now, sizeof(now));
	say_plan(w, plan, does, sizeof(does));
	fail("%s: %s does %s", what, now, does);
}

static const char *wrong_files(const struct world *w, const struct job_action *a)
{
	const struct wfiles *f;

	if (a->kind == JOB_DELETE_FILES) {
		f = &w->files[number_of_action(w, a)];
		return f->foreign                           ? "somebody else's ConfigMap goes"
		       : is_used(w, number_of_action(w, a)) ? "what a Pod has mounted goes"
							    : NULL;
	}
	f = &w->files[a->instance];
	if (f->there && f->foreign)
		return "somebody else's ConfigMap is written";
	if (w->parts[a->instance].state != PARTITION_STATE_ACTIVE || !w->parts[a->instance].fetched)
		return "a configuration that isn't there is written";
	return w->status.completion_ms || w->deleting ? "a ConfigMap after the end" : NULL;
}

static bool lacks_files(const struct world *w, unsigned instance)
{
	const struct wfiles *f = &w->files[instance];

	return w->by_file && (!f->there || f->foreign || f->other || f->deleting);
}

static const char *wrong_action(const struct world *w, const struct job_action *a)
{
	const struct wpart *part = &w->parts[a->instance];
	bool ended = w->status.completion_ms != 0;

	switch (a->kind) {
	case JOB_CREATE_POD:
		if (part->state != PARTITION_STATE_ACTIVE)
			return "a Pod without an active partition";
		if (w->pods[number_of_action(w, a)].there)
			return "a Pod whose name is taken";
		if (lacks_files(w, a->instance))
			return "a Pod without its configuration";
		return ended || w->deleting ? "a Pod after the end" : NULL;
	case JOB_DELETE_POD:
		return w->pods[number_of_action(w, a)].foreign ? "somebody else's Pod goes" : NULL;
	case JOB_ENSURE:
		if (is_used(w, a->instance))
			return "another partition while a Pod may run";
		return ended || w->deleting ? "a partition after the end" : NULL;
	case JOB_ADOPT:
		if (part->state != PARTITION_STATE_NONE)
			return "taken over although something is asked for";
		return ended || w->deleting ? "a partition after the end" : NULL;
	case JOB_RELEASE:
		return is_used(w, a->instance) ? "a partition in use goes" : NULL;
	case JOB_RELEASE_ALL:
		for (unsigned i = 0; i < MAX_INSTANCES; i++) {
			if (is_used(w, i))
				return "a partition in use goes";
		}
		return NULL;
	case JOB_WRITE_FILES:
	case JOB_DELETE_FILES:
		return wrong_files(w, a);
	case JOB_REMOVE_FINALIZER:
		for (unsigned i = 0; i < MAX_INSTANCES; i++) {
			if (w->parts[i].state != PARTITION_STATE_NONE)
				return "the finalizer goes while something is held";
		}
		return w->deleting ? NULL : "the finalizer goes";
	default:
		return ended ? "something after the end" : NULL;
	}
}

static const char *wrong_status(const struct world *w, const struct job_plan *plan)
{
	struct job_status kept;
	unsigned on = 0;
	bool same;

	if (!plan->has_status)
		return NULL;
	for (int i = 0; i < JOB_STAGES; i++)
		on += plan->status.conditions[i].on;
	if (on != 1)
		return "not one condition is True";
	if (w->status.completion_ms) {
		job_status_copy(&kept, &plan->status);
		kept.partition_created = w->status.partition_created;
		same = job_status_equal(&kept, &w->status);
		job_status_done(&kept);
		return same ? NULL : "an ended job's status changes";
	}
	if (!plan->status.conditions[JOB_SUCCEEDED].on)
		return NULL;
	for (unsigned n = 0; n < w->instances * w->workers; n++) {
		if (w->pods[n].there && w->pods[n].phase != JOB_POD_SUCCEEDED)
			return "Completed while a Pod hasn't succeeded";
	}
	return NULL;
}

static const char *wrong_names(const struct world *w, const struct job_plan *plan)
{
	for (size_t i = 0; i < plan->n_actions; i++) {
		for (size_t k = 0; k < i; k++) {
			const struct job_action *a = &plan->actions[i], *b = &plan->actions[k];

			if ((a->kind == JOB_CREATE_POD || a->kind == JOB_DELETE_POD) &&
			    (b->kind == JOB_CREATE_POD || b->kind == JOB_DELETE_POD) &&
			    number_of_action(w, a) == number_of_action(w, b))
				return "two actions on one name";
		}
	}
	return NULL;
}

/* Plans, and looks at the plan. */
static bool plan_world(const struct world *w, struct sight *s, struct job_plan *ret)
{
	const char *what;

	look(w, s);
	job_plan(&s->view, ret);
	plans++;
	what = wrong_names(w, ret);
	for (size_t i = 0; i < ret->n_actions && !what; i++)
		what = wrong_action(w, &ret->actions[i]);
	if (!what)
		what = wrong_status(w, ret);
	if (what)
		broken(w, ret, what);
	return what == NULL;
}

/* ---- to rest ---- */

/* Does the first n actions of a plan, and stores the status if all were done. */
static void do_plan(struct world *w, const struct job_plan *plan, size_t n)
{
	for (size_t i = 0; i < plan->n_actions && i < n; i++)
		do_action(w, &plan->actions[i]);
	if (n > plan->n_actions)
		take_status(w, plan);
}

static bool comes_to_rest(const struct world *from)
{
	struct world w = copy_world(from);
	bool good = true, rests = false;

	for (int pass = 0; pass < 8 && good && !rests; pass++) {
		struct world before = copy_world(&w);
		struct job_plan plan;
		struct sight s;

		good = plan_world(&w, &s, &plan);
		do_plan(&w, &plan, SIZE_MAX);
		rests = w.gone || same_world(&before, &w);
		if (pass == 7 && !rests)
			broken(&before, &plan, "no rest");
		job_plan_done(&plan);
		job_status_done(&before.status);
	}
	job_status_done(&w.status);
	return good && rests;
}

static bool try_world(const struct world *w)
{
	struct job_plan plan;
	struct sight s;
	bool good = plan_world(w, &s, &plan) && comes_to_rest(w);

	worlds++;
	/* A crash behind each action, the status written or not. */
	for (size_t n = 0; n <= plan.n_actions && good; n++) {
		struct world after = copy_world(w);

		do_plan(&after, &plan, n);
		good = comes_to_rest(&after);
		job_status_done(&after.status);
	}
	job_plan_done(&plan);
	return good;
}

/* ---- every world ---- */

#define POD_KINDS (1 + 5 * 2 * 2 + 1) /* none; phases, in deletion, stale; not ours */

static void set_pod(struct wpod *pod, unsigned kind)
{
	*pod = (struct wpod){.instance = -1, .there = kind > 0};
	if (kind == POD_KINDS - 1) {
		pod->foreign = true;
		pod->phase = JOB_POD_RUNNING;
	} else if (kind > 0) {
		pod->phase = (enum job_pod_phase)((kind - 1) / 4);
		pod->deleting = (kind - 1) & 1;
		pod->stale = (kind - 1) & 2;
	}
}

static const struct wpart part_kinds[] = {
	{.state = PARTITION_STATE_NONE},
	{.state = PARTITION_STATE_WAITING},
	{.state = PARTITION_STATE_WAITING, .otherwise = true},
	{.state = PARTITION_STATE_WAITING, .adopting = true},
	{.state = PARTITION_STATE_CREATING},
	{.state = PARTITION_STATE_CREATING, .adopting = true},
	{.state = PARTITION_STATE_ACTIVE},
	{.state = PARTITION_STATE_ACTIVE, .otherwise = true},
	{.state = PARTITION_STATE_RESETTING},
	{.state = PARTITION_STATE_FAILED, .broken = true},
	{.state = PARTITION_STATE_FAILED},
	{.state = PARTITION_STATE_RELEASING},
};
#define PART_KINDS (sizeof(part_kinds) / sizeof(part_kinds[0]))

#define FILES_KINDS 6 /* not needed; there, lacking, another content, not ours, in deletion */

static void set_files(struct world *w, unsigned kind)
{
	static const struct wfiles kinds[FILES_KINDS] = {
		{.there = false},
		{.there = true},
		{.there = false},
		{.there = true, .other = true},
		{.there = true, .foreign = true},
		{.there = true, .deleting = true},
	};

	w->by_file = kind > 0;
	w->files[0] = kinds[kind];
}

enum before { NEVER_THERE, WAS_THERE, ENDED, N_BEFORES };

static void set_before(struct world *w, enum before before)
{
	struct job_status *s = &w->status;

	if (before == NEVER_THERE)
		return;
	s->desired_replicas = (int32_t)w->instances;
	s->active = (int32_t)(w->instances * w->workers);
	s->partition_created = true;
	job_status_set(s, before == ENDED ? JOB_FAILED : JOB_RUNNING, NOW - 5000, "X", "x");
	if (before == ENDED)
		job_status_end(s, NOW - 5000, "Failed", "x");
}

/* by_file: with each kind of ConfigMap, the configuration fetched or not; else without. */
static void test_every_world(unsigned instances, unsigned workers, bool by_file)
{
	unsigned n_pods = instances * workers, kinds = 1;
	unsigned ends = by_file && n_pods > 1 ? 1 : 4; /* deletion, and what is cleaned then */
	bool good = true;

	worlds = 0;
	for (unsigned i = 0; i < n_pods; i++)
		kinds *= POD_KINDS;
	if (by_file)
		kinds *= FILES_KINDS * 2;
	for (unsigned k = 0; k < kinds * PART_KINDS * N_BEFORES * ends && good; k++) {
		struct world w = {.instances = instances, .workers = workers};
		unsigned rest = k;

		for (unsigned i = 0; i < n_pods; i++, rest /= POD_KINDS)
			set_pod(&w.pods[i], rest % POD_KINDS);
		for (unsigned i = n_pods; i < MAX_PODS; i++)
			w.pods[i].instance = -1;
		w.parts[0] = part_kinds[rest % PART_KINDS];
		rest /= PART_KINDS;
		set_before(&w, (enum before)(rest % N_BEFORES));
		rest /= N_BEFORES;
		w.deleting = ends > 1 && rest & 1;
		w.clean = ends > 1 && rest & 2 ? JOB_CLEAN_ALL : JOB_CLEAN_NONE;
		rest /= ends;
		set_files(&w, by_file ? rest % FILES_KINDS : 0);
		w.parts[0].fetched = rest / FILES_KINDS;
		w.finalizer = true;
		good = try_world(&w);
		job_status_done(&w.status);
	}
	ok(good, "%ux%u%s: %lu worlds, %lu plans so far", instances, workers,
	   by_file ? " by file" : "", worlds, plans);
}

/* ---- ways through a world that moves ---- */

static unsigned roll(unsigned n)
{
	return (unsigned)rand_below(n);
}

static void drop_pods_of_old(struct world *w, unsigned instance)
{
	w->files[instance].other = w->files[instance].there;
	for (unsigned n = 0; n < MAX_PODS; n++) {
		if (w->pods[n].there && instance_of_pod(w, n) == instance)
			w->pods[n].stale = true;
	}
}

/* One partition goes a step further; kindly: towards what is asked for. */
static void move_part(struct world *w, unsigned i, bool kindly)
{
	struct wpart *p = &w->parts[i];

	switch (p->state) {
	case PARTITION_STATE_WAITING:
		if (p->adopting && !kindly && roll(3) == 0) { /* it's nowhere */
			*p = (struct wpart){.state = PARTITION_STATE_FAILED};
			break;
		}
		p->state = PARTITION_STATE_CREATING;
		if (!p->adopting)
			drop_pods_of_old(w, i);
		break;
	case PARTITION_STATE_CREATING:
	case PARTITION_STATE_RESETTING:
		*p = (struct wpart){.state = PARTITION_STATE_ACTIVE};
		break;
	case PARTITION_STATE_RELEASING:
		p->state = PARTITION_STATE_NONE;
		break;
	case PARTITION_STATE_ACTIVE:
		p->fetched |= kindly || roll(2);
		if (kindly || roll(4))
			break;
		*p = (struct wpart){.state = PARTITION_STATE_FAILED, .broken = roll(2)};
		break;
	case PARTITION_STATE_FAILED:
		if (p->broken && !kindly)
			*p = (struct wpart){.state = PARTITION_STATE_ACTIVE};
		break;
	default:
		break;
	}
}

static void move_pod(struct world *w, unsigned n, bool kindly)
{
	struct wpod *pod = &w->pods[n];

	if (!pod->there)
		return;
	if (!kindly && roll(10) == 0)
		pod->deleting = true; /* somebody's kubectl */
	if (pod->deleting && (!is_live(pod) || kindly || roll(2))) {
		*pod = (struct wpod){.instance = -1};
	} else if (pod->phase == JOB_POD_PENDING) {
		pod->phase = JOB_POD_RUNNING;
	} else if (pod->phase == JOB_POD_RUNNING || pod->phase == JOB_POD_UNKNOWN) {
		pod->phase = kindly || roll(3) ? JOB_POD_SUCCEEDED : JOB_POD_FAILED;
		if (!kindly && roll(8) == 0)
			pod->phase = JOB_POD_UNKNOWN;
	}
}

static void move_people(struct world *w)
{
	struct wfiles *files;

	switch (roll(12)) {
	case 0:
		w->instances = 1 + roll(3);
		break;
	case 1:
		w->problem = w->problem ? NULL : "broken";
		break;
	case 2:
		w->deleting |= roll(4) == 0;
		w->gone = w->deleting && !w->finalizer;
		break;
	case 3: /* the record is lost while the operator is away */
		if (roll(3) == 0)
			w->parts[roll(3)] = (struct wpart){.state = PARTITION_STATE_NONE};
		break;
	case 4: /* somebody edits a ConfigMap */
		files = &w->files[roll(3)];
		files->other = files->there;
		break;
	case 5: /* … or deletes one */
		w->files[roll(3)] = (struct wfiles){.there = false};
		break;
	default:
		break;
	}
}

static bool take_turn(struct world *w, bool whole)
{
	struct job_plan plan;
	struct sight s;
	bool good = plan_world(w, &s, &plan);

	do_plan(w, &plan, whole ? SIZE_MAX : roll((unsigned)plan.n_actions + 2));
	job_plan_done(&plan);
	return good;
}

/* In the end everything goes its way, and the job must end, or be gone, with nothing held. */
static bool finish(struct world *w)
{
	w->problem = NULL;
	for (int step = 0; step < 200 && !w->gone; step++) {
		if (!take_turn(w, true))
			return false;
		for (unsigned i = 0; i < MAX_INSTANCES; i++)
			move_part(w, i, true);
		for (unsigned n = 0; n < MAX_PODS; n++)
			move_pod(w, n, true);
	}
	for (unsigned i = 0; i < MAX_INSTANCES && !w->gone; i++) {
		if (w->parts[i].state != PARTITION_STATE_NONE || !w->status.completion_ms ||
		    w->files[i].there) {
			char now[512];

			describe(w, now, sizeof(now));
			fail("no end: %s", now);
			return false;
		}
	}
	return true;
}

static bool walk(void)
{
	struct world w = {.instances = 1 + roll(3), .workers = 1 + roll(2)};
	bool good = true;

	w.clean = roll(2) ? JOB_CLEAN_ALL : JOB_CLEAN_NONE;
	w.by_file = roll(2);
	for (unsigned n = 0; n < MAX_PODS; n++)
		w.pods[n].instance = -1;
	for (int step = 0; step < 60 && good && !w.gone; step++) {
		unsigned what = roll(8);

		if (what < 4)
			good = take_turn(&w, what < 3);
		else if (what == 4)
			move_people(&w);
		else if (what == 5)
			move_part(&w, roll(MAX_INSTANCES), false);
		else
			move_pod(&w, roll(MAX_PODS), false);
	}
	good = good && (w.gone || finish(&w));
	job_status_done(&w.status);
	return good;
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
	test_every_world(1, 1, false);
	test_every_world(1, 2, false);
	test_every_world(1, 1, true);
	test_every_world(1, 2, true);
	test_walks(3000);
	return done_testing();
}
