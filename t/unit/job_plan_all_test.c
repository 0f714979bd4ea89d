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

	len = (size_t)snprintf(z, size, "%ux%u%s%s%s%s%s:", w->instances, w->workers,
			       w->launcher ? " launcher" : "", w->suspend ? " suspend" : "",
			       w->deleting ? " deleting" : "", w->finalizer ? "" : " no-finalizer",
			       w->status.completion_ms ? " ended" : "");
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
	for (size_t i = 0; i < w->status.n_instances; i++) {
		const struct job_instance *mem = &w->status.instances[i];

		len += (size_t)snprintf(z + len, size - len, " {%s %u/%u%s%s%s}",
					job_instance_phase_name(mem->phase), mem->run,
					w->parts[i].run, mem->complete ? " complete" : "",
					mem->over ? " over" : "", mem->yields ? " yields" : "");
	}
	for (unsigned n = 0; n < MAX_PODS; n++) {
		const struct wpod *pod = &w->pods[n];

		if (pod->there)
			len += (size_t)snprintf(z + len, size - len, " %u:%s%s%s%s", n,
						phases[pod->phase],
						pod->stuck      ? "k"
						: pod->deleting ? "!"
								: "",
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

static bool is_anybody_there(const struct world *w, unsigned instance)
{
	for (unsigned n = 0; n < MAX_PODS; n++) {
		if (w->pods[n].there && instance_of_pod(w, n) == instance)
			return true;
	}
	return false;
}

static bool are_workers_ready(const struct world *w, unsigned instance)
{
	for (unsigned k = 0; k < w->workers; k++) {
		const struct wpod *pod = &w->pods[instance * w->workers + k];

		if (!pod->there || pod->phase != JOB_POD_RUNNING || pod->unready || pod->deleting)
			return false;
	}
	return true;
}

/* Its launcher hasn't ended well, and its workers run: for a time nobody knows what else does. */
static bool may_have_ranks(const struct world *w, unsigned instance)
{
	const struct job_instance *mem = instance < w->status.n_instances
						 ? &w->status.instances[instance]
						 : NULL;
	bool ended = w->status.completion_ms != 0;

	if (!has_launcher(w) || !mem || (ended && !job_condition_on(&w->status, JOB_FAILED)) ||
	    mem->phase != JOB_INSTANCE_FAILED ||
	    (mem->release_ms && NOW + w->later_ms >= mem->release_ms))
		return false;
	for (unsigned n = 0; n < MAX_WORKERS; n++) {
		if (is_live(&w->pods[n]) && w->pods[n].phase != JOB_POD_PENDING &&
		    !w->pods[n].stuck && instance_of_pod(w, n) == instance)
			return true;
	}
	return false;
}

static const char *wrong_action(const struct world *w, const struct job_action *a)
{
	const struct wpart *part = &w->parts[a->instance];
	bool ended = w->status.completion_ms != 0;

	switch (a->kind) {
	case JOB_CREATE_LAUNCHER:
	case JOB_CREATE_POD:
		if (part->state != PARTITION_STATE_ACTIVE)
			return "a Pod without an active partition";
		if (part->run != run_of(w, a->instance) && !is_anybody_there(w, a->instance))
			return "a run on a partition that wasn't reset";
		if (a->kind == JOB_CREATE_LAUNCHER && !are_workers_ready(w, a->instance))
			return "a launcher before its workers";
		if (w->suspend)
			return "a Pod of a suspended job";
		if (w->pods[number_of_action(w, a)].there)
			return "a Pod whose name is taken";
		if (lacks_files(w, a->instance))
			return "a Pod without its configuration";
		return ended || w->deleting ? "a Pod after the end" : NULL;
	case JOB_KILL_POD:
		if (!w->pods[number_of_action(w, a)].stuck &&
		    !w->pods[number_of_action(w, a)].deleting)
			return "a Pod is removed without having been told to end";
		part = &w->parts[instance_of_pod(w, number_of_action(w, a)) % MAX_INSTANCES];
		if (part->state != PARTITION_STATE_NONE && !w->pods[number_of_action(w, a)].stale)
			return "a Pod on a silent node goes before its IPUs";
		return NULL;
	case JOB_DELETE_POD:
		return w->pods[number_of_action(w, a)].foreign ? "somebody else's Pod goes" : NULL;
	case JOB_ENSURE:
		if (is_used(w, a->instance))
			return "another partition while a Pod may run";
		if (w->suspend)
			return "a partition for a suspended job";
		return ended || w->deleting ? "a partition after the end" : NULL;
	case JOB_ADOPT:
		if (part->state != PARTITION_STATE_NONE)
			return "taken over although something is asked for";
		return ended || w->deleting ? "a partition after the end" : NULL;
	case JOB_RELEASE:
		if (may_have_ranks(w, a->instance))
			return "a partition goes that ranks may use";
		return is_used(w, a->instance) ? "a partition in use goes" : NULL;
	case JOB_RELEASE_ALL:
		for (unsigned i = 0; i < MAX_INSTANCES; i++) {
			if (is_used(w, i))
				return "a partition in use goes";
			if (may_have_ranks(w, i))
				return "a partition goes that ranks may use";
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
		on += job_condition_on(&plan->status, i);
	if (on != 1 && !w->deleting) /* of a job that nobody has seen, none is */
		return "not one condition is True";
	if (w->status.completion_ms) {
		job_status_copy(&kept, &plan->status);
		kept.partition_created = w->status.partition_created;
		for (size_t i = 0; i < kept.n_instances; i++)
			kept.instances[i].release_ms = w->status.instances[i].release_ms;
		job_status_say(&kept, w->status.launcher_status, "%s", w->status.last_message);
		same = job_status_equal(&kept, &w->status);
		job_status_done(&kept);
		return same ? NULL : "an ended job's status changes";
	}
	for (size_t i = 0; i < plan->status.n_instances; i++) {
		if (plan->status.instances[i].restarts > w->limit)
			return "more restarts than it may have";
	}
	if (!job_condition_on(&plan->status, JOB_SUCCEEDED))
		return NULL;
	for (unsigned n = has_launcher(w) ? MAX_WORKERS : 0;
	     n < (has_launcher(w) ? MAX_WORKERS + w->instances : w->instances * w->workers); n++) {
		if (w->pods[n].there && w->pods[n].phase != JOB_POD_SUCCEEDED)
			return "Completed while a Pod hasn't succeeded";
	}
	return NULL;
}

static bool is_about_a_pod(const struct job_action *a)
{
	return a->kind == JOB_CREATE_POD || a->kind == JOB_CREATE_LAUNCHER ||
	       a->kind == JOB_DELETE_POD || a->kind == JOB_KILL_POD;
}

static const char *wrong_names(const struct world *w, const struct job_plan *plan)
{
	for (size_t i = 0; i < plan->n_actions; i++) {
		for (size_t k = 0; k < i; k++) {
			const struct job_action *a = &plan->actions[i], *b = &plan->actions[k];

			if (is_about_a_pod(a) && is_about_a_pod(b) &&
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
	/* A crash behind each action, before the status was written. */
	for (size_t n = 1; n <= plan.n_actions && good; n++) {
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

enum before { NEVER_THERE, WAS_THERE, IS_OVER, ENDED, N_BEFORES };

static void set_before(struct world *w, enum before before)
{
	struct job_status *s = &w->status;

	if (before == NEVER_THERE)
		return;
	s->partition_created = true;
	job_status_set(s, before == ENDED ? JOB_FAILED : JOB_RUNNING, NOW - 5000, "X", "x");
	if (before == ENDED) {
		job_status_say(s, "Failed", "x");
		s->completion_ms = NOW - 5000;
		return;
	}
	s->n_instances = w->instances;
	s->instances = xcalloc(w->instances, sizeof(*s->instances));
	for (unsigned i = 0; i < w->instances; i++) {
		s->instances[i].phase = before == IS_OVER ? JOB_INSTANCE_RESTARTING
							  : JOB_INSTANCE_RUNNING;
		s->instances[i].complete = true;
		s->instances[i].over = before == IS_OVER;
	}
}

struct variant {
	const char *name;
	unsigned instances, workers;
	bool by_file; /* with each kind of ConfigMap, the configuration fetched or not; else without
		       */
	bool launcher, suspend;
	enum job_restart restart;
};

/* Deletion, and what is cleaned then; where there are worlds enough, neither. */
static unsigned n_ends(const struct variant *v)
{
	return v->instances * v->workers + v->launcher > 1 && (v->by_file || v->launcher) ? 1 : 4;
}

static void set_world(struct world *w, const struct variant *v, unsigned k)
{
	unsigned n_workers = v->instances * v->workers;
	unsigned ends = n_ends(v);

	*w = (struct world){
		.instances = v->instances,
		.workers = v->workers,
		.launcher = v->launcher,
		.suspend = v->suspend,
		.restart = v->restart,
		.limit = 2,
		.finalizer = true,
	};
	for (unsigned i = 0; i < MAX_PODS; i++)
		w->pods[i].instance = -1;
	for (unsigned i = 0; i < n_workers; i++, k /= POD_KINDS)
		set_pod(&w->pods[i], k % POD_KINDS);
	if (v->launcher) {
		set_pod(&w->pods[MAX_WORKERS], k % POD_KINDS);
		k /= POD_KINDS;
	}
	w->parts[0] = part_kinds[k % PART_KINDS];
	k /= PART_KINDS;
	set_before(w, (enum before)(k % N_BEFORES));
	k /= N_BEFORES;
	w->deleting = ends > 1 && k & 1;
	w->clean = ends > 1 && k & 2 ? JOB_CLEAN_ALL : JOB_CLEAN_NONE;
	k /= ends;
	set_files(w, v->by_file ? k % FILES_KINDS : 0);
	w->parts[0].fetched = k / FILES_KINDS;
}

static void test_every_world(const struct variant *v)
{
	unsigned n_pods = v->instances * v->workers + v->launcher, kinds = 1;
	unsigned ends = n_ends(v);
	bool good = true;

	worlds = 0;
	for (unsigned i = 0; i < n_pods; i++)
		kinds *= POD_KINDS;
	if (v->by_file)
		kinds *= FILES_KINDS * 2;
	for (unsigned k = 0; k < kinds * PART_KINDS * N_BEFORES * ends && good; k++) {
		struct world w;

		set_world(&w, v, k);
		good = try_world(&w);
		job_status_done(&w.status);
	}
	ok(good, "%s: %lu worlds, %lu plans so far", v->name, worlds, plans);
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
		*p = (struct wpart){.state = PARTITION_STATE_ACTIVE, .run = p->run};
		break;
	case PARTITION_STATE_RELEASING:
		p->state = PARTITION_STATE_NONE;
		break;
	case PARTITION_STATE_ACTIVE:
		p->fetched |= kindly || roll(2);
		if (kindly || roll(4))
			break;
		*p = (struct wpart){
			.state = PARTITION_STATE_FAILED, .broken = roll(2), .run = p->run};
		break;
	case PARTITION_STATE_FAILED:
		if (p->broken && !kindly)
			*p = (struct wpart){.state = PARTITION_STATE_ACTIVE, .run = p->run};
		break;
	default:
		break;
	}
}

static void move_pod(struct world *w, unsigned n, bool kindly)
{
	struct wpod *pod = &w->pods[n];

	if (!pod->there || pod->stuck)
		return;
	if (!kindly && roll(10) == 0)
		pod->deleting = true; /* somebody's kubectl */
	if (pod->deleting && (!is_live(pod) || kindly || roll(2))) {
		*pod = (struct wpod){.instance = -1};
	} else if (pod->phase == JOB_POD_PENDING) {
		pod->phase = JOB_POD_RUNNING;
		pod->unready = !kindly && roll(3) == 0;
	} else if (pod->unready) {
		pod->unready = false;
	} else if (has_launcher(w) && n < MAX_WORKERS && (kindly || roll(6))) {
		pod->phase = JOB_POD_RUNNING; /* it waits for its launcher's processes */
	} else if (pod->phase == JOB_POD_RUNNING || pod->phase == JOB_POD_UNKNOWN) {
		pod->phase = kindly || roll(3) ? JOB_POD_SUCCEEDED : JOB_POD_FAILED;
		if (!kindly && roll(8) == 0)
			pod->phase = JOB_POD_UNKNOWN;
	}
}

static void silence(struct wpod *pod)
{
	pod->stuck = pod->deleting = pod->there && !pod->foreign;
}

static void move_people(struct world *w)
{
	struct wfiles *files;

	switch (roll(16)) {
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
	case 6:
		w->suspend = !w->suspend;
		break;
	case 7: /* another template */
		for (unsigned n = 0; n < MAX_PODS; n++)
			w->pods[n].outdated = w->pods[n].there;
		break;
	case 8: /* a node falls silent */
		if (roll(3) == 0)
			silence(&w->pods[roll(MAX_PODS)]);
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
	w->suspend = false;
	for (int step = 0; step < 400 && !w->gone; step++) {
		if (!take_turn(w, true))
			return false;
		w->later_ms += 20000;
		for (unsigned i = 0; i < MAX_INSTANCES; i++)
			move_part(w, i, true);
		for (unsigned n = 0; n < MAX_PODS; n++)
			move_pod(w, n, true);
	}
	for (unsigned i = 0; i < MAX_INSTANCES && !w->gone; i++) {
		if (w->parts[i].state != PARTITION_STATE_NONE || !w->status.completion_ms ||
		    (w->files[i].there && !has_launcher(w))) { /* waiting workers mount it */
			struct job_plan plan;
			struct sight s;

			plan_world(w, &s, &plan);
			broken(w, &plan, "no end");
			job_plan_done(&plan);
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
	w.launcher = roll(2);
	w.restart = (enum job_restart)roll(3);
	w.limit = roll(4);
	w.surge = roll(2);
	w.unavailable = w.surge ? roll(2) : 1;
	w.recreate = roll(4) == 0;
	w.unsupporting = roll(2);
	w.uncovered = roll(4);
	for (unsigned n = 0; n < MAX_PODS; n++)
		w.pods[n].instance = -1;
	for (int step = 0; step < 60 && good && !w.gone; step++) {
		unsigned what = roll(8);

		w.later_ms += roll(3) ? 0 : 20000;

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
	static const struct variant variants[] = {
		{"one", 1, 1, false, false, false, JOB_RESTART_NEVER},
		{"two", 1, 2, false, false, false, JOB_RESTART_NEVER},
		{"one by file", 1, 1, true, false, false, JOB_RESTART_NEVER},
		{"two by file", 1, 2, true, false, false, JOB_RESTART_NEVER},
		{"one with a launcher", 1, 1, false, true, false, JOB_RESTART_NEVER},
		{"one that may restart", 1, 1, false, false, false, JOB_RESTART_ON_FAILURE},
		{"with a launcher, and may restart", 1, 1, false, true, false, JOB_RESTART_ALWAYS},
		{"suspended", 1, 1, false, false, true, JOB_RESTART_NEVER},
		{"suspended, with a launcher", 1, 1, false, true, true, JOB_RESTART_ON_FAILURE},
	};

	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		test_every_world(&variants[i]);
	test_walks(3000);
	return done_testing();
}
