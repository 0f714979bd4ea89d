/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page's data on the partition layer's rig: what a viewer has after its frames is what is
 * there, whatever happens; when frames come; steps; what isn't told in the mode usage.
 */
#include "proxy_live_rig.h"

/* ---- a snapshot ---- */

static int64_t total_of(const char *name)
{
	char id[LIVE_ID_SIZE];
	CLEANUP_JSON struct json_doc *doc = snapshot(id);

	return json_int(json_at(json_root(doc), "total", name, NULL), -1);
}

static void test_snapshot(void)
{
	char id[LIVE_ID_SIZE], again[LIVE_ID_SIZE], key[PARTITION_OWNER_KEY_SIZE];
	const struct json *c, *p, *w;

	row_begin("snapshot");
	begin_live(true);
	want("uid-1", 16);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "one is active");
	want("uid-2", 64);
	ok(vipu_sim_create_by_hand(sim, "by-hand", 4, NULL) == 0, "one is made by hand");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON(is_because("uid-2", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)), "one waits");
	live_turns(300, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *root = json_root(doc);

		is_str(json_cstr(json_get(root, "id")), id, "its id");
		is_str(json_cstr(json_get(root, "mode")), "full", "its mode");
		is_int(json_int(json_at(root, "total", "usedIPUs", NULL), -1), 16, "used");
		is_int(json_int(json_at(root, "total", "externalIPUs", NULL), -1), 4, "by hand");
		is_int(json_int(json_at(root, "total", "freeIPUs", NULL), -1), 44, "free");
		is_int(json_int(json_at(root, "total", "waiting", NULL), -1), 1, "waiting");
		is_int(json_int(json_at(root, "total", "fits", "16", NULL), -1), 2, "16 fit twice");
		is_int(json_int(json_at(root, "total", "fits", "64", NULL), -1), 0, "64 don't");
		c = item_where(doc, "controllers", "key", "c1");
		is_str(json_cstr(json_get(c, "reach")), "yes", "the controller answers");
		is_int(json_int(json_item(json_get(c, "domains"), 0), 0), 64, "a domain of 64");
		is_int(json_int(json_at(c, "fits", "32", NULL), -1), 1, "32 fit there");
		has_str(json_cstr(json_get(c, "name")), "127.0.0.1:", "its name");
		p = item_where(doc, "partitions", "name", "job");
		partition_owner_key("uid-1", key);
		is_str(json_cstr(json_get(p, "owner")), key, "its owner's key");
		is_str(json_cstr(json_get(p, "state")), "active", "its state");
		is_str(json_cstr(json_at(json_item(json_get(p, "places"), 0), "mask", NULL)),
		       "000000000000ffff", "its place");
		p = item_where(doc, "partitions", "id", "by-hand");
		ok(json_bool(json_get(p, "external"), false), "what was made by hand");
		ok(!json_get(p, "owner") && !json_get(p, "since"), "has no owner, and no age");
		is_str(json_cstr(json_at(json_item(json_get(p, "places"), 0), "mask", NULL)),
		       "00000000000f0000", "and a place");
		w = item_where(doc, "waiting", "name", "job");
		is_str(json_cstr(json_get(w, "reason")), "WaitingForIPUs", "why one waits");
		has_str(json_cstr(json_get(w, "message")),
			"waiting for 64 IPUs, place 1 in the queue", "in its words");
		ok(!json_get(w, "quota"), "no quota has to do with it");
	}
	json_doc_free(snapshot(again));
	is_str(again, id, "the same id while nothing changes");
	end_live();
}

/* ---- when frames come ---- */

static void test_rhythm(void)
{
	unsigned before;

	row_begin("rhythm");
	begin_live(false);
	view();
	live_turns(300, 10);
	before = told;
	want("uid-1", 1);
	live_changed(live);
	is_uint(told, before, "never from within");
	turn(0);
	turn(0);
	is_uint(told, before + 1, "after a pause a frame comes at once");
	want("uid-2", 1);
	live_changed(live);
	turns(24, 10);
	is_uint(told, before + 1, "the next one");
	turns(3, 10);
	is_uint(told, before + 2, "comes %d ms later", LIVE_FRAME_MS);
	live_turns(1000, 10);
	before = told;
	for (int i = 0; i < 200; i++) {
		live_changed(live);
		turn(10);
	}
	is_uint(told, before, "nothing is different: no frame");
	want("uid-3", 128); /* waits: nothing else tells of it */
	turns(110, 10);
	ok(told > before, "what changes without a word is seen within a second");
	end_live();
}

/* A block is planned for the first that waits, and the queue alone knows. */
static void test_reserved(void)
{
	char id[LIVE_ID_SIZE];
	const struct json *reserved, *w;

	row_begin("reserved");
	begin_live(false);
	view();
	want("uid-1", 32);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "half of it is in use");
	want("uid-2", 64);
	ok(SOON(is_because("uid-2", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)), "all wanted");
	live_turns(200, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *c = item_where(doc, "controllers", "key", "c1");

		reserved = json_item(json_get(c, "reserved"), 0);
		w = item_where(doc, "waiting", "reason", "WaitingForIPUs");
		is_str(json_cstr(json_get(reserved, "mask")), "ffffffffffffffff",
		       "the block that is planned for it");
		is_str(json_cstr(json_get(reserved, "for")), json_cstr(json_get(w, "key")),
		       "it's named");
		is_int(json_int(json_get(c, "reservedIPUs"), -1), 32, "those that are free");
	}
	partition_release(parts, "uid-2", 0);
	ok(SOON(partition_held(parts, "uid-2") == 0), "it goes");
	live_turns(200, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *c = item_where(doc, "controllers", "key", "c1");

		is_uint(json_len(json_get(c, "reserved")), 0, "and its block with it");
	}
	ok(is_right(), "frames said so");
	end_live();
}

static void want_until(const char *uid, uint32_t ipus, int64_t deadline_ms)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ask.deadline_ms = deadline_ms;
	partition_ensure(parts, &ask);
}

/* Of the only partition that has one; the head's. "": it has none. */
static void is_due(const char *ends, const char *starts, const char *when)
{
	char id[LIVE_ID_SIZE];
	CLEANUP_JSON struct json_doc *doc = snapshot(id);
	struct json_iter it = json_iter(json_get(json_root(doc), "partitions"));
	const struct json *head = json_item(json_get(json_root(doc), "waiting"), 0);
	const char *seen_end = "";

	while (json_next(&it))
		if (json_get(it.value, "endsBy"))
			seen_end = json_cstr(json_get(it.value, "endsBy"));
	is_str(seen_end, ends, "%s: until when it's used", when);
	is_str(json_get(head, "startsBy") ? json_cstr(json_get(head, "startsBy")) : "", starts,
	       "... and when it's the head's turn");
}

/* "When is my turn?": deadlines say, where all that is in the way has one. */
static void test_turn(void)
{
	char ends[CLOCK_RFC3339_SIZE], starts[CLOCK_RFC3339_SIZE];
	int64_t end_ms;

	row_begin("turn");
	begin_live(false);
	want_until("uid-1", 32, 600000);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "one has ten minutes");
	end_ms = seen("uid-1").since_ms + 600000;
	clock_format(end_ms, ends);
	clock_format((end_ms + 60000 + 59999) / 60000 * 60000, starts);
	live_turns(200, 10);
	is_due(ends, "", "nobody waits");
	want("uid-2", 64);
	want_until("uid-4", 16, 600000);
	ok(SOON(is_because("uid-2", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM)), "all wanted");
	live_turns(200, 10);
	is_due(ends, starts, "one waits");
	clock_advance(90000);
	live_turns(200, 10);
	is_due(ends, starts, "a while later");
	{
		char id[LIVE_ID_SIZE];
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *w = item_where(doc, "waiting", "reason", "WaitingInQueue");

		ok(w && !json_get(w, "startsBy"), "nobody knows of the second");
	}
	partition_release(parts, "uid-4", 0);
	want_until("uid-1", 32, 0);
	live_turns(200, 10);
	is_due("", "", "no end is known any more");
	ok(is_right(), "frames said so");
	end_live();
}

/* ---- steps ---- */

static void test_steps(void)
{
	row_begin("steps");
	begin_live(false);
	want_run("uid-1", 8, 1);
	ok(SOON(is_for("uid-1", 1)), "active");
	live_turns(200, 10);
	is_str(steps_seen(), "made active", "a life:");
	want_run("uid-1", 8, 2);
	ok(SOON(is_for("uid-1", 2)), "another run");
	live_turns(200, 10);
	is_str(steps_seen(), "made active reset active", "goes on");
	partition_release(parts, "uid-1", 0);
	ok(SOON(partition_held(parts, "uid-1") == 0), "released");
	live_turns(200, 10);
	is_str(steps_seen(), "made active reset active released", "and ends");
	want("uid-2", 8);
	turns(2010, 10);
	is_uint(live->steps->n, 7, "looked at without a word, and without viewers");
	is_str(steps_seen(), "made active reset active released made active",
	       "what was skipped is told all the same");
	end_live();
}

static void test_trouble(void)
{
	row_begin("trouble");
	begin_live(true);
	inject_status(VIPU_CREATE_PARTITION, 9, "not today", 1);
	want("uid-1", 8);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "refused once, then active");
	live_turns(200, 10);
	is_str(steps_seen(), "refused made active", "refused, so fast that its entry wasn't seen");
	has_str(last_snapshot, "not today", "in the controller's words");
	ok(vipu_sim_break(sim, seen("uid-1").id, "a link is down", false, NULL) == 0, "it breaks");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON(is("uid-1", PARTITION_STATE_FAILED)), "its owner is told");
	live_turns(200, 10);
	is_str(steps_seen(), "refused made active failed", "failed");
	has_str(last_snapshot, "\"state\":\"error\"", "its state");
	partition_release(parts, "uid-1", 0);
	ok(SOON(partition_held(parts, "uid-1") == 0), "released");
	live_turns(200, 10);
	is_str(steps_seen(), "refused made active failed released", "released");
	end_live();
}

/* Another layer in the place of the first, as with another leader. */
static void test_takeover(void)
{
	struct partitions *old;
	static char before[1000];

	row_begin("take-over");
	begin_live(false);
	view();
	want("uid-1", 8);
	want("uid-2", 64);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "one is active");
	live_turns(200, 10);
	snprintf(before, sizeof(before), "%s", steps_seen());
	old = parts;
	parts = partitions_new(loop, kube, fleet,
			       &(struct partitions_config){.ns = NS,
							   .tracker_name = TRACKER,
							   .times = partition_times_default},
			       on_synced, on_change, NULL);
	live_set_partitions(live, parts);
	partitions_free(old);
	synced = false;
	turns(3, 10);
	ok(!partitions_synced(parts), "nothing is read yet");
	is_int(total_of("usedIPUs"), 8, "what was there stays");
	want("uid-1", 8);
	want("uid-2", 64);
	ok(SOON(synced), "it's read");
	live_turns(300, 10);
	is_str(steps_seen(), before, "no steps come of it");
	ok(is_right(), "and a viewer has what is there");
	is_uint(viewer.snapshots, 1, "without another snapshot");
	end_live();
}

/* ---- who comes back ---- */

static void test_resume(void)
{
	uint64_t next = 0;
	struct live_frame f;
	bool gone;
	char id[LIVE_ID_SIZE], other[LIVE_ID_SIZE + 1];

	row_begin("resume");
	begin_live(false);
	view();
	snprintf(id, sizeof(id), "%s", viewer.id);
	ok(live_resume(live, id, &next), "from the last one");
	ok(!live_resume(live, "", &next) && !live_resume(live, "x", &next) &&
		   !live_resume(live, "00000000-1", &next),
	   "not from elsewhere");
	snprintf(other, sizeof(other), "%s9", id);
	ok(!live_resume(live, other, &next), "nor from what is still to come");
	snprintf(other, sizeof(other), "%.8s-0", id);
	ok(!live_resume(live, other, &next), "nor from before the first");
	live_watch_stop(&watch);
	want("uid-1", 8);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "while nobody looks");
	live_turns(500, 10);
	ok(live_resume(live, id, &next), "who comes back goes on");
	live_watch_start(live, &watch, on_frame, NULL);
	ok(is_right(), "with one frame that has it all");
	is_uint(viewer.snapshots, 1, "and no snapshot");
	live_watch_stop(&watch);
	turns(100, 1000);
	ok(!live_resume(live, viewer.id, &next), "not after a long time");
	live_watch_start(live, &watch, on_frame, NULL);
	ok(is_right() && viewer.snapshots == 2, "then it's a snapshot");
	for (int i = 0; i < LIVE_KEEP_FRAMES + 20; i++) {
		want("uid-3", i & 1 ? 1 : 2);
		live_changed(live);
		turns(30, 10);
	}
	ok(!live_resume(live, id, &next), "the last %d are kept", LIVE_KEEP_FRAMES);
	next = 2;
	ok(!live_next(live, &next, &f, &gone) && gone && next == 2, "who is slower hears so");
	next = live->n + 1;
	ok(!live_next(live, &next, &f, &gone) && !gone, "who has them all has to wait");
	snprintf(id, sizeof(id), "%s", viewer.id);
	ok(is_right(), "and a viewer has seen them all");
	is_uint(viewer.snapshots, 2, "by frames");
	end_live();
}

/* ---- names ---- */

static void want_named(const char *uid, const char *ns, const char *name, uint32_t ipus)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ask.owner.kind = TEXT("Secretkind");
	ask.owner.ns = TEXT(ns);
	ask.owner.name = TEXT(name);
	partition_ensure(parts, &ask);
}

static unsigned n_named;

static bool names_any(struct str text)
{
	static const char *const names[] = {"alice",      "bobby",   "secretkind",
					    "Secretkind", "127.0.0", "uid-",
					    "handy",      "pod=a",   "no-such-link"};
	char *z = str_dup(text);
	bool found = false;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strstr(z, names[i])) {
			diag("%s: %s", names[i], strstr(z, names[i]));
			found = true;
		}
	}
	free(z);
	return found;
}

static void look_for_names(void *arg)
{
	uint64_t *next = arg;
	struct live_frame f;
	bool gone;

	while (live_next(live, next, &f, &gone))
		n_named += names_any(f.json);
}

static void check_names(const char *when)
{
	char id[LIVE_ID_SIZE];

	live_turns(200, 10);
	json_doc_free(snapshot(id));
	ok(!names_any(str_of(last_snapshot)), "%s: nothing is named in a snapshot", when);
	ok(n_named == 0, "%s: nor in a frame", when);
}

static void test_names(void)
{
	static struct partition_rules rules;
	struct partition_policy_of_ns team = {.ns = TEXT("team-q"),
					      .policy = partition_policy_none};
	uint64_t next = 0;
	char id[LIVE_ID_SIZE];

	row_begin("usage");
	team.policy.max_ipus = 4;
	rules = (struct partition_rules){partition_policy_none, &team, 1};
	site = &rules;
	begin_live(false);
	site = NULL;
	n_named = 0;
	json_doc_free(snapshot(id));
	if (!live_resume(live, id, &next))
		bail_out("no id");
	live_watch_start(live, &watch, look_for_names, &next);
	want_named("uid-1", "team-a", "alice-train", 16);
	vipu_sim_create_by_hand(sim, "handy", 4, NULL);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "one is active");
	want_named("uid-2", "team-a", "bobby", 64);
	want_named("uid-3", "team-q", "bobby", 8);
	want_named("uid-4", "team-q", "bobby-two", 128);
	ok(SOON(is_because("uid-3", PARTITION_STATE_WAITING, PARTITION_WHY_QUOTA)), "some wait");
	check_names("waiting");
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *w = item_where(doc, "waiting", "reason", "QuotaExceeded");

		is_int(json_int(json_at(w, "quota", "limit", NULL), -1), 4, "the quota's limit");
		is_int(json_int(json_at(w, "quota", "used", NULL), -1), 0,
		       "and what is used of it");
		is_str(json_cstr(json_get(w, "message")),
		       "its namespace uses 0 of its 4 IPUs, and this asks for 8", "in words");
	}
	ok(vipu_sim_break(sim, seen("uid-1").id, "no-such-link", false, NULL) == 0, "one breaks");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON(is("uid-1", PARTITION_STATE_FAILED)), "one fails");
	check_names("failed");
	vipu_sim_go_down(sim);
	ok(SOON(vipu_fleet_at(fleet, 0)->reach == VIPU_REACH_NO), "the controller is away");
	check_names("away");
	has_str(last_snapshot, "\"reach\":\"no\",\"reason\":\"it doesn't answer\"",
		"which is said");
	has_str(last_snapshot, "\"mode\":\"usage\"", "the mode");
	has_str(last_snapshot, "\"namespace\":\"team-a\"", "namespaces are told");
	guarded = false;
	end_live();
}

/* ---- a random load ---- */

/* Something that isn't the operator's doing. */
static void disturb(void)
{
	struct vipu_sim_partition p;

	switch (rand_below(12)) {
	case 0:
		inject_status(VIPU_CREATE_PARTITION, 9, "not today", 1);
		break;
	case 1:
		if (vipu_sim_create_by_hand(sim, "by-hand", 2, NULL) < 0)
			vipu_sim_remove_by_hand(sim, "by-hand", NULL);
		vipu_fleet_refresh(fleet, NULL);
		break;
	case 2:
		if (vipu_sim_at(sim, (size_t)rand_below(4), &p))
			vipu_sim_break(sim, p.id, "a link is down", false, NULL);
		break;
	case 3:
		vipu_sim_cut(sim);
		break;
	default:
		break;
	}
}

/* Of one partition. */
static bool may_follow(enum live_step before, enum live_step step)
{
	static const char *const after[] = {
		[LIVE_MADE] = " active refused failed released",
		[LIVE_BECAME_ACTIVE] = " reset failed released",
		[LIVE_RESET] = " active reset failed released",
		[LIVE_RELEASED] = "",
		[LIVE_REFUSED] = " released",
		[LIVE_FAILED] = " active reset released",
	};

	return strstr(after[before], live_step_name(step)) != NULL;
}

/* Each partition's life makes sense, and ends when it's gone. */
static bool steps_are_lives(void)
{
	const struct steps *s = live->steps;
	bool good = true;

	for (uint64_t i = steps_first(s); i < s->n; i++) {
		const struct live_step_record *r = steps_at(s, i), *before = NULL;

		for (uint64_t k = steps_first(s); k < i && r->id[0]; k++)
			if (strcmp(steps_at(s, k)->id, r->id) == 0)
				before = steps_at(s, k);
		if (!r->id[0] || (!before && (steps_first(s) || r->step == LIVE_MADE)) ||
		    (before && may_follow(before->step, r->step)))
			continue;
		diag("%s: %s after %s", r->id, live_step_name(r->step),
		     before ? live_step_name(before->step) : "nothing");
		good = false;
	}
	return good;
}

static void test_load(bool full)
{
	char uid[32];

	row_begin("load, %s", full ? "full" : "usage");
	rand_seed(full ? 7 : 8);
	begin_live(full);
	view();
	for (int i = 0; i < 150; i++) {
		struct partition_ask ask;

		snprintf(uid, sizeof(uid), "uid-%d", (int)rand_below(24));
		ask = ask_of(uid, 0, UINT32_C(1) << rand_below(6));
		ask.priority = (int32_t)rand_below(3);
		ask.attempt = (uint32_t)rand_below(3);
		if (rand_below(3) == 0)
			partition_release(parts, uid, 0);
		else
			partition_ensure(parts, &ask);
		disturb();
		live_changed(live);
		live_turns((unsigned)rand_below(40), 10);
		if (i % 30 == 29)
			ok(is_right(), "after %d changes", i + 1);
	}
	ok(viewer.frames > 50, "%u frames", viewer.frames);
	is_uint(viewer.snapshots, 1, "one snapshot");
	ok(viewer.step > 20, "%" PRId64 " steps", viewer.step);
	ok(steps_are_lives(), "each partition's make sense");
	end_live();
}

/* ---- history ---- */

static void test_history(void)
{
	char id[LIVE_ID_SIZE];
	size_t had;

	row_begin("history");
	begin_live(false);
	view();
	had = viewer.n_points;
	want("uid-1", 16);
	live_turns(30, 10);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "16 IPUs");
	live_turns(3 * 600, 100);
	is_uint(viewer.n_points, had + 3, "a point a minute, in frames");
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *points = json_at(json_root(doc), "history", "points", NULL);
		const struct json *usage = item_where(doc, "usage", "namespace", "default");

		is_uint(json_len(points), viewer.n_points, "as many as in a snapshot");
		ok(json_real(json_item(json_item(points, json_len(points) - 1), 0), 0) == 16,
		   "what was used");
		ok(json_real(json_get(usage, "ipuHours"), 0) >= 0.5, "by whom");
	}
	live_watch_stop(&watch);
	turns(120, 1000);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *points = json_at(json_root(doc), "history", "points", NULL);

		is_uint(json_len(points), viewer.n_points + 2, "without viewers too");
	}
	end_live();
}

int main(void)
{
	test_snapshot();
	test_rhythm();
	test_reserved();
	test_turn();
	test_steps();
	test_trouble();
	test_takeover();
	test_resume();
	test_names();
	test_load(false);
	test_load(true);
	test_history();
	return done_testing();
}
