/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job planner against its tables in doc/design/job-states.md; job_plan_rows.h has the rows, and
 * says how they are to be read.
 */
#include "job_plan_rig.h"
#include "job_plan_rows.h"

#include "core/intern.h"

/* ---- from words ---- */

static const char *const phases[] = {"pending", "running", "succeeded", "failed", "unknown"};

static const char *word(const char *z, char *to, size_t size)
{
	size_t n;

	z += strspn(z, " ");
	n = strcspn(z, " ");
	snprintf(to, size, "%.*s", (int)n, z);
	return z + n;
}

/* Words that say yes to something. */
static void read_job_word(struct world *w, const char *text)
{
	const struct {
		const char *word;
		bool *flag;
	} flags[] = {
		{"deleting", &w->deleting},
		{"long", &w->deleting_long},
		{"launcher", &w->launcher},
		{"interactive", &w->interactive},
		{"older", &w->older},
		{"keeps", &w->keeps},
		{"suspend", &w->suspend},
		{"recreate", &w->recreate},
		{"unsupported", &w->unsupported},
		{"force", &w->force},
		{"unsupporting", &w->unsupporting},
		{"deadline", &w->deadline},
		{"ttl", &w->ttl},
		{"foreign", &w->foreign},
		{"lost", &w->lost},
		{"first", &w->first},
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (strcmp(text, flags[i].word) == 0) {
			*flags[i].flag = true;
			return;
		}
	}
	if (strcmp(text, "no-finalizer") == 0)
		w->finalizer = false;
	else if (strcmp(text, "all") == 0)
		w->clean = JOB_CLEAN_ALL;
	else if (strcmp(text, "workers") == 0)
		w->clean = JOB_CLEAN_WORKERS;
	else if (strcmp(text, "broken") == 0)
		w->problem = "it is broken";
	else if (strcmp(text, "trouble") == 0)
		w->trouble = "quota is used up";
	else if ((w->taken = strcmp(text, "taken") == 0))
		w->trouble = "the name is taken";
	else if (strcmp(text, "onfailure") == 0)
		w->restart = JOB_RESTART_ON_FAILURE;
	else if (strcmp(text, "always") == 0)
		w->restart = JOB_RESTART_ALWAYS;
	else if (sscanf(text, "code%d", &w->codes) == 1)
		w->restart = JOB_RESTART_EXIT_CODE;
	else if (sscanf(text, "limit%u", &w->limit) != 1 &&
		 sscanf(text, "surge%u", &w->surge) != 1 &&
		 sscanf(text, "uncovered%u", &w->uncovered) != 1 &&
		 sscanf(text, "unavailable%u", &w->unavailable) != 1)
		bail_out("a word of a row's job");
}

static void read_job(struct world *w, const char *z)
{
	char text[32];

	w->finalizer = true;
	w->limit = 3;
	if (sscanf(z, "%ux%u", &w->instances, &w->workers) != 2)
		bail_out("a row's job");
	for (z = word(z, text, sizeof(text)); *(z = word(z, text, sizeof(text))) || text[0];)
		read_job_word(w, text);
}

static void read_parts(struct world *w, const char *z)
{
	char text[32];

	for (unsigned i = 0; i < MAX_INSTANCES; i++) {
		struct wpart *p = &w->parts[i];
		size_t len;

		z = word(z, text, sizeof(text));
		len = strlen(text);
		p->otherwise = len && text[len - 1] == '*';
		p->fetched = len && text[len - 1] == '+';
		w->by_file |= p->fetched || (len && text[len - 1] == '-');
		p->adopting = len && text[len - 1] == '@';
		p->draining = len && text[len - 1] == '%';
		p->run = len && text[len - 1] == '~' ? 7 : RUN_OF_JOB;
		if (p->run != RUN_OF_JOB || (len && text[len - 1] == '!'))
			text[--len] = '\0';
		p->broken = len && z[-1] == '!';
		if (p->otherwise || p->adopting || p->fetched || p->draining ||
		    (len && text[len - 1] == '-'))
			text[len - 1] = '\0';
		p->broken |= strcmp(text, "error") == 0;
		if (strcmp(text, "error") == 0 || strcmp(text, "vanished") == 0) {
			p->state = PARTITION_STATE_FAILED;
			continue;
		}
		for (int k = PARTITION_STATE_NONE; text[0] && k <= PARTITION_STATE_RELEASING; k++) {
			if (strcmp(text, partition_state_name(k)) == 0)
				p->state = k;
		}
	}
}

static void read_pods(struct world *w, const char *z)
{
	char text[32], phase[16];
	unsigned n;

	for (unsigned i = 0; i < MAX_PODS; i++)
		w->pods[i].instance = -1;
	while (*(z = word(z, text, sizeof(text))) || text[0]) {
		const char *flags = text;
		bool launcher = text[0] == 'L';

		if (sscanf(text + launcher, "%u:%15[a-z]", &n, phase) == 2) {
			n += launcher ? MAX_WORKERS : 0;
			w->pods[n].there = true;
			if (strchr(text, '@'))
				w->pods[n].instance = atoi(strchr(text, '@') + 1);
			for (size_t k = 0; k < 5; k++) {
				if (strcmp(phase, phases[k]) == 0)
					w->pods[n].phase = (enum job_pod_phase)k;
			}
			flags = text + strcspn(text, "!@");
		}
		w->pods[n].deleting |= strchr(flags, '!') != NULL;
		w->pods[n].stale |= strchr(flags, 's') != NULL;
		w->pods[n].foreign |= strchr(flags, 'x') != NULL;
		w->pods[n].unlabelled |= strchr(flags, 'u') != NULL;
		w->pods[n].cant_start |= strchr(flags, 'c') != NULL;
		w->pods[n].nowhere |= strchr(flags, 'w') != NULL;
		w->pods[n].unready |= strchr(flags, 'n') != NULL;
		w->pods[n].stuck |= strchr(flags, 'k') != NULL;
		w->pods[n].outdated |= strchr(flags, 'o') != NULL;
	}
}

static void read_files(struct world *w, const char *z)
{
	char text[32];
	unsigned n;

	while (z && (*(z = word(z, text, sizeof(text))) || text[0])) {
		if (sscanf(text, "%u", &n) != 1 || n >= MAX_INSTANCES)
			bail_out("a row's ConfigMaps");
		w->files[n].there = true;
		w->files[n].foreign = strchr(text, 'x') != NULL;
		w->files[n].other = strchr(text, 'o') != NULL;
		w->files[n].deleting = strchr(text, '!') != NULL;
	}
}

/* A word of letters: r, R, S, F the phase; c complete, o over, t waits for its Pods with its
 * partition for an hour, y yields, b backs off, k its IPUs are kept, K were; and the run's number.
 * "." nothing. */
static void read_memory(struct job_instance *mem, const char *z)
{
	static const char phases_of[] = {'.', 'r', 'R', 'S', 'F'};

	for (size_t i = 0; i < sizeof(phases_of); i++) {
		if (strchr(z, phases_of[i]))
			mem->phase = (enum job_instance_phase)i;
	}
	mem->complete = strchr(z, 'c') != NULL;
	mem->over = strchr(z, 'o') != NULL;
	mem->yields = strchr(z, 'y') != NULL;
	mem->start_ms = strpbrk(z, "rt") ? NOW - 3600000 : 0;
	mem->since_ms = strchr(z, 't') ? NOW - 3600000 : 0;
	mem->running_ms = strchr(z, 'r') ? NOW - 7200000 : 0;
	mem->retry_ms = strchr(z, 'b') ? NOW + 5000 : 0;
	mem->release_ms = strchr(z, 'k') ? NOW + 5000 : strchr(z, 'K') ? NOW : 0;
	mem->run = (uint32_t)strtoul(z + strcspn(z, "0123456789"), NULL, 10);
	mem->message = strchr(z, 'F') ? intern_z("it ended badly") : NULL;
}

static void say_memory(const struct job_instance *mem, char *z, size_t size)
{
	static const char *const phases_of[] = {"", "r", "R", "S", "F"};

	snprintf(z, size, "%s%s%s%s%s%s%s", phases_of[mem->phase], mem->complete ? "c" : "",
		 mem->over ? "o" : "", mem->since_ms ? "t" : "", mem->yields ? "y" : "",
		 mem->retry_ms > NOW ? "b" : "",
		 mem->release_ms > NOW ? "k"
		 : mem->release_ms     ? "K"
				       : "");
	if (mem->run)
		snprintf(z + strlen(z), size - strlen(z), "%u", mem->run);
	else if (!z[0])
		snprintf(z, size, ".");
}

static void say_memories(const struct job_status *s, char *z, size_t size)
{
	size_t n = s->n_instances, len = 0;
	char text[16];

	for (; n; n--) { /* what has nothing to say at the end isn't there */
		say_memory(&s->instances[n - 1], text, sizeof(text));
		if (strcmp(text, ".") != 0)
			break;
	}
	z[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		say_memory(&s->instances[i], text, sizeof(text));
		len += (size_t)snprintf(z + len, size - len, "%s%s", i ? " " : "", text);
	}
}

static void read_status(struct world *w, const char *z)
{
	struct job_status *s = &w->status;
	char text[32];

	if (strncmp(z, "done", 4) == 0) {
		s->partition_created = strcmp(z, "done") == 0;
		job_status_set(s, JOB_SUCCEEDED, NOW - 5000, "IPUJobSucceeded", "done");
		job_status_say(s, "Completed", "done");
		s->completion_ms = NOW - 5000;
		return;
	}
	if (strncmp(z, "badly ", 6) == 0) {
		s->partition_created = true;
		job_status_set(s, JOB_FAILED, NOW - 5000, "IPUJobFailed", "it ended badly");
		job_status_say(s, "Failed", "it ended badly");
		s->completion_ms = NOW - 5000;
		z += 6;
	}
	s->instances = xcalloc(MAX_INSTANCES, sizeof(*s->instances));
	while (*(z = word(z, text, sizeof(text))) || text[0])
		read_memory(&s->instances[s->n_instances++], text);
}

/* ---- the rows ---- */

static void run_row(const struct row *r)
{
	struct world w = {0};
	struct sight s;
	struct job_plan plan;
	char does[256], was[64], becomes[64];

	row_begin("%s", r->name);
	read_job(&w, r->job);
	read_parts(&w, r->parts);
	read_pods(&w, r->pods);
	read_files(&w, r->files);
	read_status(&w, r->was);
	say_memories(&w.status, was, sizeof(was));
	look(&w, &s);
	job_plan(&s.view, &plan);
	say_plan(&w, &plan, does, sizeof(does));
	is_str(does, r->does, "actions");
	is_str(!plan.has_status              ? "-"
	       : plan.status.launcher_status ? plan.status.launcher_status
					     : "",
	       r->shows, "launcherStatus");
	if (plan.has_status) {
		has_str(plan.status.last_message, r->says, "lastMessage");
		say_memories(&plan.status, becomes, sizeof(becomes));
		is_str(becomes, r->becomes ? r->becomes : was, "what is remembered");
	}
	job_plan_done(&plan);
	job_status_done(&w.status);
	row_end();
}

static void test_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		run_row(&rows[i]);
}

/* ---- what the status holds ---- */

static void plan_at(int64_t now_ms, const char *job, const char *was, const char *parts,
		    const char *pods, struct job_plan *ret)
{
	struct world w = {.later_ms = now_ms - NOW};
	struct sight s;

	read_job(&w, job);
	read_parts(&w, parts);
	read_pods(&w, pods);
	read_status(&w, was);
	look(&w, &s);
	job_plan(&s.view, ret);
	job_status_done(&w.status);
}

static void plan_of(const char *job, const char *was, const char *parts, const char *pods,
		    struct job_plan *ret)
{
	plan_at(NOW, job, was, parts, pods, ret);
}

/* A release that takes long is told while it does, and no longer. */
static void test_delayed(void)
{
	struct world w = {0};
	struct sight s;
	struct job_plan plan;

	row_begin("a job that has ended, whose partition can't go");
	read_job(&w, "1x1");
	read_parts(&w, "releasing");
	read_status(&w, "done");
	look(&w, &s);
	snprintf(s.parts[0].message, sizeof(s.parts[0].message), "no link");
	job_plan(&s.view, &plan);
	is_str(plan.status.last_message, "done", "its last word stays");
	take_status(&w, &plan);
	ok(job_condition_on(&w.status, JOB_STALLED), "it's stalled");
	has_str(job_condition(&w.status, JOB_STALLED)->message, "no link",
		"in the controller's words");
	job_plan_done(&plan);
	row_begin("and then it has gone");
	read_parts(&w, "none");
	look(&w, &s);
	job_plan(&s.view, &plan);
	take_status(&w, &plan);
	ok(!job_condition_on(&w.status, JOB_STALLED), "it's not stalled any more");
	job_plan_done(&plan);
	look(&w, &s);
	job_plan(&s.view, &plan);
	ok(!plan.has_status, "that is all");
	job_plan_done(&plan);
	job_status_done(&w.status);
	row_end();
}

static void test_status(void)
{
	struct job_plan plan;
	const struct job_status *s = &plan.status;

	row_begin("the first");
	plan_of("2x2", "", "active none", "0:running 1:pending", &plan);
	is_int(s->desired_replicas, 2, "desired");
	is_int(s->current_replicas, 0, "none runs whole");
	is_int(s->active, 2, "active");
	ok(s->partition_created, "a partition is there");
	is_int(s->start_ms, NOW, "it has begun");
	is_int(s->completion_ms, 0, "and not ended");
	is_int(s->observed_generation, 1, "generation");
	ok(s->selects, "selector");
	is_str(job_condition(s, JOB_PENDING)->reason, "IPUJobPending", "reason");
	is_str(job_condition(s, JOB_PENDING)->message,
	       "IPUJob ns/j is waiting for resources to be ready.", "message");
	is_int(job_condition(s, JOB_PENDING)->transition_ms, NOW, "since now");
	job_plan_done(&plan);

	row_begin("lost ones are counted as failed, cleared ones as succeeded");
	plan_of("3x1", "Sct Fct rct", "none none active", "2:running", &plan);
	is_int(s->active, 1, "active");
	is_int(s->succeeded, 1, "succeeded");
	is_int(s->failed, 1, "failed");
	job_plan_done(&plan);

	row_begin("stale ones aren't counted");
	plan_of("1x1", "rct", "waiting", "0:running s", &plan);
	is_int(s->active + s->succeeded + s->failed, 0, "none");
	job_plan_done(&plan);

	row_begin("an end");
	plan_of("1x1", "rct", "active", "0:failed", &plan);
	is_int(s->completion_ms, NOW, "completionTime");
	ok(job_condition_on(s, JOB_FAILED), "Failed is True");
	is_str(job_condition(s, JOB_FAILED)->reason, "IPUJobFailed", "its reason");
	ok(s->partition_created, "its partition is still there");
	job_plan_done(&plan);

	row_begin("an end, while another one runs");
	plan_of("1x2", "rct", "active", "0:failed 1:running", &plan);
	is_int(s->active, 0, "none is active any more");
	is_int(s->failed, 1, "one has failed");
	job_plan_done(&plan);

	row_begin("suspended from the start");
	plan_of("1x1 suspend", "", "none", "", &plan);
	is_int(s->start_ms, 0, "it hasn't begun");
	job_plan_done(&plan);

	row_begin("a name that is taken");
	plan_of("1x1 taken", "", "active", "", &plan);
	ok(job_condition_on(s, JOB_STALLED), "it won't go on by itself");
	is_str(job_condition(s, JOB_STALLED)->reason, "NameConflict", "and why");
	ok(plan.next_ms > NOW && plan.next_ms <= NOW + 60000, "it's looked at again soon");
	job_plan_done(&plan);

	row_begin("a back-off, from the middle of a second");
	plan_at(NOW + 300, "1x1 onfailure", "rct", "active", "0:failed", &plan);
	is_int(s->instances[0].retry_ms, NOW + 11000, "is never shorter in the status");
	job_plan_done(&plan);

	row_begin("a broken one");
	plan_of("1x1 broken", "rct", "active", "0:running", &plan);
	is_str(job_condition(s, JOB_FAILED)->reason, "InvalidSpec", "reason");
	is_int(s->completion_ms, 0, "it hasn't ended");
	job_plan_done(&plan);
	row_end();
}

/* Conditions keep their times and words until they change. */
static void test_condition_times(void)
{
	struct world w = {0};
	struct sight s;
	struct job_plan plan;

	read_job(&w, "1x1");
	read_parts(&w, "waiting");
	read_pods(&w, "");
	look(&w, &s);
	s.view.now_ms = NOW - 60000;
	job_plan(&s.view, &plan);
	take_status(&w, &plan);
	job_plan_done(&plan);
	look(&w, &s);
	job_plan(&s.view, &plan);
	ok(job_status_equal(&plan.status, &w.status), "nothing new: nothing to write");
	job_plan_done(&plan);

	read_parts(&w, "active");
	read_pods(&w, "0:running");
	look(&w, &s);
	job_plan(&s.view, &plan);
	take_status(&w, &plan);
	job_plan_done(&plan);
	ok(job_condition_on(&w.status, JOB_RUNNING) && !job_condition_on(&w.status, JOB_PENDING) &&
		   job_condition_present(&w.status, JOB_PENDING),
	   "from one to the other");
	is_int(job_condition(&w.status, JOB_RUNNING)->transition_ms, NOW, "one began");
	is_int(job_condition(&w.status, JOB_PENDING)->transition_ms, NOW, "when the other ended");
	has_str(job_condition(&w.status, JOB_PENDING)->message, "no room", "which keeps its words");
	is_int(w.status.start_ms, NOW - 60000, "the start stays");
	job_status_done(&w.status);
}

/* Words of peers may hold anything and be cut anywhere: what is planned must be what the API server
 * gives back, or it would be written for ever. */
static void test_words(void)
{
	static const struct {
		const char *name, *message, *want;
	} rows[] = {
		{"lines", "a\nb\tc\r", "a b c "},
		{"bytes that aren't UTF-8", "a\xff\xc3(b",
		 "a?"
		 "?(b"},
		{"a sequence cut off", "ab\xe2\x82", "ab??"},
		{"whole sequences", "\xe2\x82\xac \xc3\xa9", "\xe2\x82\xac \xc3\xa9"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job_status s = {0};

		row_begin("%s", rows[i].name);
		job_status_say(&s, "Pending", "%s", rows[i].message);
		is_str(s.last_message, rows[i].want, "lastMessage");
		job_status_set(&s, JOB_PENDING, NOW, "X", "%s", rows[i].message);
		is_str(job_condition(&s, JOB_PENDING)->message, rows[i].want, "condition");
		job_status_done(&s);
	}
	row_end();
}

/* Who ran for ten minutes begins with the shortest wait again. */
static void test_long_run(void)
{
	static const struct {
		int64_t ran_ms, wait_ms;
	} rows[] = {{0, 80000}, {599999, 80000}, {600000, 10000}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w = {0};
		struct sight s;
		struct job_plan plan;
		const struct job_instance *mem;

		row_begin("a fourth failure, after %" PRId64 " ms", rows[i].ran_ms);
		read_job(&w, "1x1 onfailure limit9");
		read_parts(&w, "active");
		read_pods(&w, "0:failed");
		read_status(&w, "rc");
		w.status.instances[0].restarts = 3;
		w.status.instances[0].running_ms = rows[i].ran_ms ? NOW - rows[i].ran_ms : 0;
		look(&w, &s);
		job_plan(&s.view, &plan);
		mem = &plan.status.instances[0];
		is_uint(mem->restarts, 4, "counted");
		is_int(mem->retry_ms - NOW, rows[i].wait_ms, "the wait");
		job_plan_done(&plan);
		job_status_done(&w.status);
	}
	row_end();
}

/* The wait before another try goes by the tries in vain, not by how often the instance ran before.
 */
static void test_tries(void)
{
	static const struct {
		const char *job, *pods;
		uint32_t run, tries, then;
		int64_t wait_ms;
	} rows[] = {
		{"1x1 limit9", "0:pending c", 0, 0, 1, 10000},
		{"1x1 limit9", "0:pending c", 50, 0, 1, 10000},
		{"1x1 limit9", "0:pending w", 50, 0, 1, 10000},
		{"1x1 limit9", "0:pending w", 2, 1, 2, 20000},
		{"1x1 limit9", "0:pending c", INT32_MAX, 3, 4, 80000},
		{"1x1 limit9", "0:pending w", 5, 100, 100, 300000},
		{"1x1 limit9", "0:running", 5, 3, 0, 0},
		{"1x1 limit9", "0:pending", 5, 3, 3, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w = {0};
		struct sight s;
		struct job_plan plan;
		const struct job_instance *mem;

		row_begin("%s after %u in vain", rows[i].pods, rows[i].tries);
		read_job(&w, rows[i].job);
		read_parts(&w, "active");
		read_pods(&w, rows[i].pods);
		read_status(&w, "ct");
		w.status.instances[0].run = rows[i].run;
		w.status.instances[0].tries = rows[i].tries;
		look(&w, &s);
		job_plan(&s.view, &plan);
		mem = &plan.status.instances[0];
		is_uint(mem->tries, rows[i].then, "how many it has been");
		is_int(mem->retry_ms ? mem->retry_ms - NOW : 0, rows[i].wait_ms, "the wait");
		job_plan_done(&plan);
		job_status_done(&w.status);
	}
	row_end();
}

/* Written while the clock was years ahead, or by hand: no wait is longer than the longest back-off,
 * and a deadline counts from now. */
static void test_strange_memory(void)
{
	static const int64_t years_ms = INT64_C(10) * 366 * 86400000;
	struct world w = {0};
	struct sight s;
	struct job_plan plan;
	struct job_instance *mem;

	read_job(&w, "2x1 onfailure");
	read_parts(&w, "none active");
	read_pods(&w, "1:running");
	w.status.n_instances = 2;
	w.status.instances = mem = xcalloc(2, sizeof(*mem));
	mem[0].retry_ms = NOW + years_ms;
	mem[1].start_ms = mem[1].since_ms = mem[1].running_ms = NOW + years_ms;
	mem[0].restarts = mem[1].restarts = INT32_MAX;
	look(&w, &s);
	job_plan(&s.view, &plan);
	mem = plan.status.instances;
	is_int(mem[0].retry_ms, NOW + timing.backoff_max_ms, "the longest back-off");
	is_int(plan.next_ms, NOW + timing.backoff_max_ms, "then it's looked at");
	is_int(mem[1].start_ms, NOW, "its IPUs: since now");
	is_int(mem[1].running_ms, NOW, "it runs: since now");
	is_int(plan.status.restart_count, INT32_MAX, "restarts are counted as far as it goes");
	job_plan_done(&plan);
	job_status_done(&w.status);
}

int main(void)
{
	test_rows(job_rows, sizeof(job_rows) / sizeof(job_rows[0]));
	test_rows(instance_rows, sizeof(instance_rows) / sizeof(instance_rows[0]));
	test_rows(launcher_rows, sizeof(launcher_rows) / sizeof(launcher_rows[0]));
	test_rows(run_rows, sizeof(run_rows) / sizeof(run_rows[0]));
	test_rows(rollout_rows, sizeof(rollout_rows) / sizeof(rollout_rows[0]));
	test_rows(files_rows, sizeof(files_rows) / sizeof(files_rows[0]));
	test_rows(several_rows, sizeof(several_rows) / sizeof(several_rows[0]));
	test_status();
	test_delayed();
	test_condition_times();
	test_words();
	test_long_run();
	test_tries();
	test_strange_memory();
	return done_testing();
}
