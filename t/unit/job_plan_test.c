/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job planner against its tables in doc/design/job-states.md: rows in their order, in words.
 * Partitions: a word an instance, "*" behind it: asked for with another size; "+" and "-": by file,
 * which has come or hasn't. ConfigMaps: "INSTANCE", behind it as with Pods, "o" other content.
 * Pods: "NUMBER:phase", behind it "!" in deletion, "s" stale, "x" not ours, "u" label lost, "c"
 * can't start.
 */
#include "job_plan_rig.h"

struct row {
	const char *name;
	const char *job; /* "1x2", then words: deleting, no-finalizer, launcher, all, broken */
	const char *was; /* the stored status: "", or "DESIRED active succeeded failed", "done" */
	const char *parts;
	const char *pods;
	const char *does;
	const char *shows; /* launcherStatus; "-": the status is left alone */
	const char *says;  /* part of lastMessage */
	const char *files; /* ConfigMaps; NULL: none */
};

#define WAITS "Waiting for resources"

static const struct row job_rows[] = {
	{"deletion, not ours to end", "1x1 deleting no-finalizer", "", "active", "0:running", "",
	 "-", ""},
	{"deletion, Pods", "1x2 deleting", "", "active", "0:running 1:succeeded",
	 "delete-pod/0 delete-pod/1", "-", ""},
	{"deletion, Pods in deletion", "1x1 deleting", "", "active", "0:running!", "", "-", ""},
	{"deletion, somebody else's Pod", "1x1 deleting", "", "active", "0:running x",
	 "release-all", "-", ""},
	{"deletion, no Pod", "1x1 deleting", "", "waiting", "", "release-all", "-", ""},
	{"deletion, being released", "1x1 deleting", "", "releasing", "", "release-all", "-", ""},
	{"deletion, vanished", "1x1 deleting", "", "vanished", "", "release-all", "-", ""},
	{"deletion, nothing held", "1x1 deleting", "", "none", "", "remove-finalizer", "-", ""},
	{"deletion of a broken one", "1x1 deleting broken", "", "none", "", "remove-finalizer", "-",
	 ""},
	{"deletion of an ended one", "1x1 deleting", "done", "active", "0:succeeded",
	 "delete-pod/0", "-", ""},

	{"older, running", "1x1 older", "", "none", "", "", "-", ""},
	{"older, running, taken over", "1x1 older", "", "active", "", "", "-", ""},
	{"older, ended", "1x1 older", "done", "active", "", "release-all", "-", ""},
	{"older, ended, nothing held", "1x1 older", "done", "none", "", "", "-", ""},
	{"older, deletion", "1x1 older deleting", "", "active", "", "release-all", "-", ""},
	{"ended, a Pod runs", "1x2", "done", "active", "0:failed 1:running", "delete-pod/1", "-",
	 ""},
	{"ended, a Pod is leaving", "1x2", "done", "active", "0:failed 1:running!", "", "-", ""},
	{"ended, none runs", "1x1", "done", "active", "0:succeeded", "release-all", "-", ""},
	{"ended, keeps its partitions", "1x1 keeps", "done", "active", "0:succeeded", "", "-", ""},
	{"deletion, keeps its partitions", "1x1 keeps deleting", "done", "active", "",
	 "release-all", "-", ""},
	{"ended, clean all", "1x1 all", "done", "active", "0:succeeded", "delete-pod/0 release-all",
	 "-", ""},
	{"ended, being released", "1x1", "done", "releasing", "", "release-all", "-", ""},
	{"ended, nothing held", "1x1", "done", "none", "0:succeeded", "", "Completed", "done"},
	{"ended, nothing held, said", "1x1", "done-released", "none", "0:succeeded", "", "-", ""},
	{"ended, its spec broken since", "1x1 broken", "done-released", "none", "", "", "-", ""},
	{"ended, no finalizer", "1x1 no-finalizer", "done-released", "none", "", "", "-", ""},

	{"broken, Pods run", "1x1 broken", "1 1 0 0", "active", "0:running", "", "Failed",
	 "it is broken"},
	{"broken, none runs", "1x1 broken", "", "active", "0:failed", "release-all", "Failed",
	 "it is broken"},
	{"broken, nothing held", "1x1 broken no-finalizer", "", "none", "", "", "Failed",
	 "it is broken"},
	{"not in this version", "1x1 launcher no-finalizer", "", "none", "", "", "Pending",
	 "no launcher in this version"},
	{"not in this version, Pods run", "1x1 launcher", "1 1 0 0", "active", "0:running", "",
	 "Pending", "no launcher in this version"},
	{"not in this version, none runs", "1x1 launcher", "1 1 0 0", "active", "", "release-all",
	 "Pending", "no launcher in this version"},
	{"no finalizer", "1x1 no-finalizer", "", "none", "", "add-finalizer", "-", ""},
	{"no finalizer, although it runs", "1x1 no-finalizer", "1 1 0 0", "active", "0:running",
	 "add-finalizer", "-", ""},
};

static const struct row instance_rows[] = {
	{"any: conflict", "1x1", "", "none", "0:running x", "", "Pending", "isn't this job's"},
	{"active: conflict", "1x2", "", "active", "0:running 1:running x", "", "Pending",
	 "Pod j-worker-1 exists"},
	{"waiting: stale", "1x1", "1 1 0 0", "waiting", "0:running s", "delete-pod/0", "Pending",
	 "an earlier partition"},
	{"creating: stale", "1x2", "", "creating", "0:running!s 1:failed s", "delete-pod/1",
	 "Pending", "an earlier partition"},
	{"active: stale", "1x2", "", "active", "0:pending s", "delete-pod/0", "Pending",
	 "an earlier partition"},
	{"in error: stale", "1x1", "", "error", "0:running s", "delete-pod/0", "Pending",
	 "an earlier partition"},

	{"none: a Pod failed", "1x2", "1 1 0 0", "none", "0:failed 1:succeeded", "", "Failed",
	 "Pod j-worker-0 failed: exited with 3"},
	{"releasing: a Pod failed, another runs", "1x2", "", "releasing", "0:failed 1:running",
	 "delete-pod/1", "Failed", "exited with 3"},
	{"none: all succeeded", "1x2", "1 1 1 0", "none", "0:succeeded 1:succeeded", "",
	 "Completed", "All instances done"},
	{"none: lost", "1x1", "1 1 0 0", "none", "", "", "Failed", "was deleted before it ended"},
	{"none: one lost, one runs", "1x2", "1 2 0 0", "none", "0:running", "delete-pod/0",
	 "Failed", "was deleted before it ended"},
	{"none: some made, others never", "1x2", "", "none", "1:running", "delete-pod/1", "Pending",
	 "an earlier partition"},
	{"none: Pods go on", "1x1", "1 1 0 0", "none", "0:running", "adopt/0", "Running",
	 "Running"},
	{"none: one of two goes on", "1x2", "1 2 0 0", "none", "0:succeeded 1:running", "adopt/0",
	 "Running", "Running"},
	{"adopting: Pods go on", "1x1", "1 1 0 0", "waiting@", "0:running", "", "Running",
	 "Running"},
	{"adopting: one failed", "1x2", "1 2 0 0", "waiting@", "0:running 1:failed", "delete-pod/0",
	 "Failed", "exited with 3"},
	{"adopting: lost", "1x1", "1 1 0 0", "waiting@", "", "", "Failed",
	 "was deleted before it ended"},
	{"adopted, not recorded yet", "1x1", "1 1 0 0", "creating@", "0:running", "", "Running",
	 "Running"},
	{"releasing: Pods go on", "1x1", "1 1 0 0", "releasing", "0:running!", "", "Running", ""},
	{"none", "1x1", "", "none", "", "ensure/0", "Pending", WAITS},
	{"releasing", "1x1", "", "releasing", "", "ensure/0", "Pending", WAITS},

	{"waiting", "1x1", "", "waiting", "", "", "Pending", "no room"},
	{"waiting for another size", "1x1", "", "waiting*", "", "ensure/0", "Pending", "no room"},
	{"creating", "1x1", "", "creating", "", "", "Pending", WAITS},
	{"creating with another size", "1x1", "", "creating*", "", "ensure/0", "Pending", WAITS},
	{"creating, read back after a restart", "1x1", "1 1 0 0", "creating", "0:running", "",
	 "Pending", WAITS},
	{"resetting", "1x1", "1 1 0 0", "resetting", "0:running", "", "Pending", WAITS},

	{"vanished: none was there", "1x1", "", "vanished", "", "release/0", "Pending", "is gone"},
	{"vanished: all ended well", "1x1", "1 1 0 0", "vanished", "0:succeeded", "", "Completed",
	 ""},
	{"vanished: all ended, one badly", "1x2", "1 2 0 0", "vanished", "0:succeeded 1:failed", "",
	 "Failed", "exited with 3"},
	{"vanished: a Pod runs", "1x1", "1 1 0 0", "vanished", "0:running", "delete-pod/0",
	 "Failed", "is gone"},
	{"vanished: it was there", "1x1", "1 1 0 0", "vanished", "", "", "Failed", "is gone"},

	{"active: one failed", "1x1", "1 1 0 0", "active", "0:failed", "", "Failed",
	 "Pod j-worker-0 failed: exited with 3"},
	{"active: one failed, one runs", "1x2", "1 2 0 0", "active", "0:running 1:failed",
	 "delete-pod/0", "Failed", "Pod j-worker-1 failed"},
	{"active: one failed, one never made", "1x2", "", "active", "0:failed", "", "Failed",
	 "Pod j-worker-0 failed"},
	{"active: all succeeded", "1x2", "", "active", "0:succeeded 1:succeeded", "", "Completed",
	 "All instances done"},
	{"active: lost", "1x1", "1 1 0 0", "active", "", "", "Failed", "deleted before it ended"},
	{"active: lost, with another that runs", "1x2", "1 2 0 0", "active", "1:running",
	 "delete-pod/1", "Failed", "deleted before it ended"},
	{"active: lost, with another that is leaving", "1x2", "1 2 0 0", "active", "1:running!", "",
	 "Failed", "deleted before it ended"},
	{"active: one leaving, one never made", "1x2", "", "active", "1:running!", "", "Pending",
	 "in deletion"},
	{"active: one not made", "1x1", "", "active", "", "create-pod/0", "Pending", WAITS},
	{"active: one of two not made", "1x2", "", "active", "0:running", "create-pod/1", "Pending",
	 WAITS},
	{"active: one refused", "1x1 trouble", "", "active", "", "create-pod/0", "Pending",
	 "quota is used up"},
	{"active with another size, none there", "1x1", "", "active*", "", "ensure/0", "Pending",
	 WAITS},
	{"active with another size, in use", "1x1", "1 1 0 0", "active*", "0:running", "",
	 "Running", ""},
	{"active: not running yet", "1x2", "", "active", "0:running 1:pending", "", "Pending",
	 WAITS},
	{"active: can't start", "1x1", "", "active", "0:pending c", "", "Pending",
	 "Pod j-worker-0: ImagePullBackOff"},
	{"active: leaving before it ran", "1x1", "1 1 0 0", "active", "0:pending!", "", "Pending",
	 "in deletion"},
	{"active: unknown", "1x1", "1 1 0 0", "active", "0:unknown", "", "Pending",
	 "its node doesn't answer"},
	{"active: running", "1x2", "", "active", "0:running 1:succeeded", "", "Running", "Running"},
	{"active: running, its controller is drained", "1x1", "1 1 0 0", "active%", "0:running", "",
	 "Running", "c:8090 is being emptied"},
	{"active: running, leaving", "1x1", "1 1 0 0", "active", "0:running!", "", "Running", ""},
	{"active: running, label lost", "1x1", "1 1 0 0", "active", "0:running u", "", "Running",
	 ""},
	{"in error: in use", "1x1", "1 1 0 0", "error", "0:running", "", "Running", "in PS_ERROR"},
	{"in error: one failed", "1x1", "1 1 0 0", "error", "0:failed", "", "Failed",
	 "exited with 3"},
	{"in error: none was there", "1x1", "", "error", "", "release/0", "Pending", "in PS_ERROR"},
	{"in error: some made, others never", "1x2", "", "error", "1:pending", "delete-pod/1",
	 "Pending", "in PS_ERROR"},
};

static const struct row files_rows[] = {
	{"creating", "1x1", "", "creating-", "", "", "Pending", WAITS, NULL},
	{"active: not fetched", "1x1", "", "active-", "", "", "Pending",
	 "waiting for the IPUoF configuration", NULL},
	{"active: not fetched, of an earlier one", "1x1", "", "active-", "", "", "Pending",
	 "waiting for the IPUoF configuration", "0o"},
	{"active: not fetched, all run", "1x1", "1 1 0 0", "active-", "0:running", "", "Running",
	 "Running", NULL},
	{"active: none", "1x2", "", "active+", "", "write-files/0", "Pending", WAITS, NULL},
	{"active: another content", "1x1", "", "active+", "", "write-files/0", "Pending", WAITS,
	 "0o"},
	{"active: another content, some made", "1x2", "", "active+", "0:running", "write-files/0",
	 "Pending", WAITS, "0o"},
	{"active: another content, all made", "1x1", "1 1 0 0", "active+", "0:running", "",
	 "Running", "Running", "0o"},
	{"active: not ours", "1x1", "", "active+", "", "", "Pending",
	 "ConfigMap j-ipuof-0 exists and isn't this job's", "0x"},
	{"active: in deletion", "1x1", "", "active+", "", "", "Pending",
	 "waiting for the IPUoF configuration", "0!"},
	{"active: refused", "1x1 trouble", "", "active+", "", "write-files/0", "Pending",
	 "quota is used up", NULL},
	{"active: written", "1x2", "", "active+", "", "create-pod/0 create-pod/1", "Pending", WAITS,
	 "0"},
	{"active: not needed", "1x1", "", "active", "", "create-pod/0", "Pending", WAITS, "0x"},
	{"active: one failed", "1x1", "1 0 0 1", "active+", "0:failed", "", "Failed",
	 "exited with 3", "0"},

	{"releasing: ended", "2x1", "2 1 1 0", "releasing active+", "0:succeeded 1:running",
	 "delete-files/0", "Running", "", "0 1"},
	{"releasing: a Pod may run", "1x1", "", "releasing", "0:running!", "", "Running", "", "0"},
	{"waiting again", "1x1", "", "waiting", "", "delete-files/0", "Pending", "no room", "0"},
	{"not ours", "1x1", "", "waiting", "", "", "Pending", "no room", "0x"},
	{"going already", "1x1", "", "waiting", "", "", "Pending", "no room", "0!"},
	{"fewer instances: its Pod is leaving", "1x1", "1 1 0 0", "active+ active+",
	 "0:running 1:running!", "", "Running", "", "0 1"},
	{"fewer instances: none runs", "1x1", "1 1 0 0", "active+ active+", "0:running",
	 "release/1 delete-files/1", "Running", "", "0 1"},
	{"the job has ended", "1x1", "done", "releasing", "0:succeeded",
	 "release-all delete-files/0", "-", "", "0"},
	{"the job has ended, a Pod is leaving", "1x2", "done", "active+", "0:failed 1:running!", "",
	 "-", "", "0"},
	{"in deletion: left to the owner reference", "1x1 deleting", "", "none", "",
	 "remove-finalizer", "-", "", "0"},
};

static const struct row several_rows[] = {
	{"each for itself", "3x1", "", "none waiting active", "", "ensure/0 create-pod/2",
	 "Pending", "no room"},
	{"one runs, one waits", "2x1", "", "active waiting", "0:running", "", "Pending", "no room"},
	{"both run", "2x2", "", "active active", "0:running 1:running 2:running 3:running", "",
	 "Running", "Running"},
	{"one ends well: it's said first", "2x1", "2 2 0 0", "active active",
	 "0:succeeded 1:running", "", "Running", ""},
	{"one ends well, one runs", "2x1", "2 1 1 0", "active active", "0:succeeded 1:running",
	 "release/0", "Running", ""},
	{"one has ended well, one runs", "2x1", "2 1 1 0", "none active", "0:succeeded 1:running",
	 "", "Running", ""},
	{"one has ended well and is cleared away", "2x1", "2 1 1 0", "none active", "1:running", "",
	 "Running", ""},
	{"cleared away, and the other ends well", "2x1", "2 1 1 0", "none active", "1:succeeded",
	 "", "Completed", "All instances done"},
	{"one has ended well and keeps its partition", "2x1 keeps", "2 1 1 0", "active active",
	 "0:succeeded 1:running", "", "Running", ""},
	{"one has failed and keeps its partition", "2x1 keeps", "2 1 0 1", "active active",
	 "0:failed 1:running", "", "Running", ""},
	{"one fails, one runs", "2x1", "2 1 0 1", "active active", "0:failed 1:running",
	 "release/0", "Running", ""},
	{"one has failed, the other ends well", "2x1", "2 1 0 1", "none active",
	 "0:failed 1:succeeded", "", "Failed", "Pod j-worker-0 failed"},
	{"one is lost, one runs", "2x1", "2 1 0 1", "active active", "1:running", "release/0",
	 "Running", ""},
	{"one was lost, one runs", "2x1", "2 1 0 1", "none active", "1:running", "", "Running", ""},
	{"one was lost, the other ends well", "2x1", "2 1 0 1", "none active", "1:succeeded", "",
	 "Failed", "of instance 0 was deleted"},
	{"a gang fails alone", "2x2", "2 4 0 0", "active active",
	 "0:running 1:failed 2:running 3:running", "delete-pod/0", "Running", ""},

	{"fewer instances: Pods go first", "1x1", "2 2 0 0", "active active", "0:running 1:running",
	 "delete-pod/1", "Running", ""},
	{"fewer instances: its Pod is leaving", "1x1", "1 1 0 0", "active active",
	 "0:running 1:running!", "", "Running", ""},
	{"fewer instances: then the partition", "1x1", "1 1 0 0", "active active", "0:running",
	 "release/1", "Running", ""},
	{"fewer instances: ended Pods too", "1x1", "1 1 0 0", "active none", "0:running 1:failed",
	 "delete-pod/1", "Running", ""},
	{"fewer instances: those that waited", "1x1", "1 1 0 0", "active waiting waiting",
	 "0:running", "release/1 release/2", "Running", ""},
	{"fewer instances: going already", "1x1", "1 1 0 0", "active releasing", "0:running", "",
	 "Running", ""},
	{"more instances", "2x1", "1 1 0 0", "active none", "0:running", "ensure/1", "Pending",
	 WAITS},
	{"fewer, while one isn't made", "1x1", "2 0 0 2", "active none", "", "create-pod/0",
	 "Pending", WAITS},
};

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

static void read_job(struct world *w, const char *z)
{
	char text[32];

	w->finalizer = true;
	if (sscanf(z, "%ux%u", &w->instances, &w->workers) != 2)
		bail_out("a row's job");
	for (z = word(z, text, sizeof(text)); *(z = word(z, text, sizeof(text))) || text[0];) {
		if (strcmp(text, "deleting") == 0)
			w->deleting = true;
		else if (strcmp(text, "no-finalizer") == 0)
			w->finalizer = false;
		else if (strcmp(text, "launcher") == 0)
			w->launcher = true;
		else if (strcmp(text, "older") == 0)
			w->older = true;
		else if (strcmp(text, "keeps") == 0)
			w->keeps = true;
		else if (strcmp(text, "all") == 0)
			w->clean = JOB_CLEAN_ALL;
		else if (strcmp(text, "broken") == 0)
			w->problem = "it is broken";
		else if (strcmp(text, "trouble") == 0)
			w->trouble = "quota is used up";
		else
			bail_out("a word of a row's job");
	}
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
		if (p->otherwise || p->adopting || p->fetched || p->draining ||
		    (len && text[len - 1] == '-'))
			text[len - 1] = '\0';
		p->broken = strcmp(text, "error") == 0;
		if (p->broken || strcmp(text, "vanished") == 0) {
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

		if (sscanf(text, "%u:%15[a-z]", &n, phase) == 2) {
			w->pods[n].there = true;
			for (size_t k = 0; k < 5; k++) {
				if (strcmp(phase, phases[k]) == 0)
					w->pods[n].phase = (enum job_pod_phase)k;
			}
			flags = text + strcspn(text, "!");
		}
		w->pods[n].deleting |= strchr(flags, '!') != NULL;
		w->pods[n].stale |= strchr(flags, 's') != NULL;
		w->pods[n].foreign |= strchr(flags, 'x') != NULL;
		w->pods[n].unlabelled |= strchr(flags, 'u') != NULL;
		w->pods[n].cant_start |= strchr(flags, 'c') != NULL;
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

static void read_status(struct world *w, const char *z)
{
	struct job_status *s = &w->status;

	if (sscanf(z, "%d %d %d %d", &s->desired_replicas, &s->active, &s->succeeded, &s->failed) ==
	    4)
		return;
	if (strncmp(z, "done", 4) != 0)
		return;
	s->partition_created = strcmp(z, "done") == 0;
	job_status_set(s, JOB_SUCCEEDED, NOW - 5000, "IPUJobSucceeded", "done");
	job_status_end(s, NOW - 5000, "Completed", "done");
}

/* ---- the rows ---- */

static void run_row(const struct row *r)
{
	struct world w = {0};
	struct sight s;
	struct job_plan plan;
	char does[256];

	row_begin("%s", r->name);
	read_job(&w, r->job);
	read_parts(&w, r->parts);
	read_pods(&w, r->pods);
	read_files(&w, r->files);
	read_status(&w, r->was);
	look(&w, &s);
	job_plan(&s.view, &plan);
	say_plan(&w, &plan, does, sizeof(does));
	is_str(does, r->does, "actions");
	is_str(plan.has_status ? plan.status.launcher_status : "-", r->shows, "launcherStatus");
	if (plan.has_status)
		has_str(plan.status.last_message, r->says, "lastMessage");
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

static void plan_of(const char *job, const char *was, const char *parts, const char *pods,
		    struct job_plan *ret)
{
	struct world w = {0};
	struct sight s;

	read_job(&w, job);
	read_parts(&w, parts);
	read_pods(&w, pods);
	read_status(&w, was);
	look(&w, &s);
	job_plan(&s.view, ret);
	job_status_done(&w.status);
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
	is_str(s->selector, "graphcore.ai/job=j,graphcore.ai/role=worker", "selector");
	is_str(s->conditions[JOB_PENDING].reason, "IPUJobPending", "reason");
	is_str(s->conditions[JOB_PENDING].message,
	       "IPUJob ns/j is waiting for resources to be ready.", "message");
	is_int(s->conditions[JOB_PENDING].transition_ms, NOW, "since now");
	job_plan_done(&plan);

	row_begin("lost ones are counted as failed, cleared ones as succeeded");
	plan_of("3x1", "3 2 1 0", "none active active", "2:running", &plan);
	is_int(s->active, 1, "active");
	is_int(s->succeeded, 1, "succeeded");
	is_int(s->failed, 1, "failed");
	job_plan_done(&plan);

	row_begin("stale ones aren't counted");
	plan_of("1x1", "1 1 0 0", "waiting", "0:running s", &plan);
	is_int(s->active + s->succeeded + s->failed, 0, "none");
	job_plan_done(&plan);

	row_begin("an end");
	plan_of("1x1", "1 1 0 0", "active", "0:failed", &plan);
	is_int(s->completion_ms, NOW, "completionTime");
	ok(s->conditions[JOB_FAILED].on, "Failed is True");
	is_str(s->conditions[JOB_FAILED].reason, "IPUJobFailed", "its reason");
	ok(s->partition_created, "its partition is still there");
	job_plan_done(&plan);

	row_begin("a broken one");
	plan_of("1x1 broken", "3 3 0 0", "active", "0:running", &plan);
	is_str(s->conditions[JOB_FAILED].reason, "InvalidSpec", "reason");
	is_int(s->completion_ms, 0, "it hasn't ended");
	is_int(s->desired_replicas, 3, "what was wanted isn't forgotten");
	job_plan_done(&plan);
	row_end();
}

/* Conditions keep their times and words until they change. */
static void test_condition_times(void)
{
	struct world w = {0};
	struct sight s;
	struct job_plan plan;
	const struct job_condition *c = w.status.conditions;

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
	ok(c[JOB_RUNNING].on && !c[JOB_PENDING].on && c[JOB_PENDING].present,
	   "from one to the other");
	is_int(c[JOB_RUNNING].transition_ms, NOW, "one began");
	is_int(c[JOB_PENDING].transition_ms, NOW, "when the other ended");
	has_str(c[JOB_PENDING].message, "no room", "which keeps its words");
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
		is_str(s.conditions[JOB_PENDING].message, rows[i].want, "condition");
		job_status_done(&s);
	}
	row_end();
}

int main(void)
{
	test_rows(job_rows, sizeof(job_rows) / sizeof(job_rows[0]));
	test_rows(instance_rows, sizeof(instance_rows) / sizeof(instance_rows[0]));
	test_rows(files_rows, sizeof(files_rows) / sizeof(files_rows[0]));
	test_rows(several_rows, sizeof(several_rows) / sizeof(several_rows[0]));
	test_status();
	test_condition_times();
	test_words();
	return done_testing();
}
