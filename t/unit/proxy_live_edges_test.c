/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page's data where it isn't plain sailing: several controllers that come and go, what is
 * too large, what is taken over or vanishes, a process that follows, names of hostile peers.
 */
#include "proxy_live_rig.h"

#include "proxy/internal.h"

/* ---- what looking costs ---- */

#define LOOKERS 500

static void on_look(void *arg)
{
	++*(unsigned long *)arg;
}

/* So that what is answered is answered before the clock goes on, and both runs are alike. */
static void pass_slowly(int64_t until_ms)
{
	while (clock_mono_ms() < until_ms) {
		live_turns(6, 0);
		live_turns(1, 50);
	}
}

/* The calls that a controller has in ten minutes, with something in use and something that waits.
 */
static void count_calls(unsigned n_viewers, unsigned long ret[VIPU_METHODS])
{
	static struct live_watch watches[LOOKERS];
	unsigned long looks = 0;
	char id[LIVE_ID_SIZE];
	int64_t began_ms;

	row_begin("looking costs the controllers nothing: %u viewers", n_viewers);
	rand_seed(7);
	begin();
	began_ms = clock_mono_ms();
	live_begin(true);
	pass_slowly(began_ms + 5000);
	want("job", 32);
	want("waits", 64);
	pass_slowly(began_ms + 20000);
	ok(is("job", PARTITION_STATE_ACTIVE) && is("waits", PARTITION_STATE_WAITING),
	   "one is in use, one waits");
	for (unsigned i = 0; i < n_viewers; i++)
		live_watch_start(live, &watches[i], on_look, &looks);
	for (int m = 0; m < VIPU_METHODS; m++)
		ret[m] = vipu_sim_calls(sim, (enum vipu_method)m);
	for (int64_t s = 1; s <= 600; s++) {
		pass_slowly(began_ms + 20000 + s * 1000);
		if (n_viewers)
			json_doc_free(snapshot(id));
	}
	for (int m = 0; m < VIPU_METHODS; m++)
		ret[m] = vipu_sim_calls(sim, (enum vipu_method)m) - ret[m];
	for (unsigned i = 0; i < n_viewers; i++)
		live_watch_stop(&watches[i]);
	ok(n_viewers == 0 || looks >= n_viewers, "%lu frames were seen", looks);
	end_live();
}

static void test_cost(void)
{
	unsigned long without[VIPU_METHODS], with[VIPU_METHODS], all = 0;

	count_calls(0, without);
	count_calls(LOOKERS, with);
	row_begin("looking costs the controllers nothing");
	for (int m = 0; m < VIPU_METHODS; m++) {
		is_uint(with[m], without[m], "%s", vipu_method_name((enum vipu_method)m));
		all += without[m];
	}
	ok(all > 0, "%lu calls of its own", all);
	row_end();
}

/* ---- controllers ---- */

static struct vipu_sim *second;

/* order: their numbers. */
static void configure_list(const char *order, bool cordoned)
{
	struct vipu_address_list lists[2];
	struct vipu_fleet_entry entries[2] = {{.address = NULL}};
	struct vipu_sim *both[] = {sim, second};
	size_t n = 0;

	for (; *order; order++) {
		CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u:pod=%c",
						    vipu_sim_port(both[*order - '0']), *order);

		vipu_address_parse(str_of(text), &lists[n]);
		entries[n].address = &lists[n].items[0];
		entries[n].cordoned = cordoned;
		n++;
	}
	vipu_fleet_configure(fleet, entries, n);
	while (n-- > 0)
		vipu_address_list_done(&lists[n]);
}

static void configure_two(bool first, bool cordoned)
{
	configure_list(first ? "01" : "1", cordoned);
}

static const struct json *place(const struct json *p, size_t i, const char *name)
{
	return json_get(json_item(json_get(p, "places"), i), name);
}

/* 128 IPUs on the first, 64 on the second. */
static void test_controllers(void)
{
	struct vipu_sim_config config = {.agents = 16};
	struct err err = ERR_INIT;
	char id[LIVE_ID_SIZE];
	const struct json *p;

	row_begin("controllers");
	rig_begin(32);
	process_begin(true);
	if (vipu_sim_new(net, &config, &second, &err) < 0)
		bail_out(err.msg);
	guarded = false;
	configure_two(true, false);
	live_begin(false);
	ok(SOON(synced && partitions_count_fits(parts, 64) == 3), "two controllers");
	view();
	is_uint(viewer.n[0], 2, "are shown");
	want("wide", 128);
	want("small", 16);
	ok(SOON(is("wide", PARTITION_STATE_ACTIVE) && is("small", PARTITION_STATE_ACTIVE)),
	   "something is on each");
	live_turns(100, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);

		p = item_where(doc, "partitions", "controller", "c1");
		is_uint(json_len(json_get(p, "places")), 2, "128 IPUs have two places");
		is_int(json_int(place(p, 1, "domain"), -1), 1, "the other in the second domain,");
		is_str(json_cstr(place(p, 1, "mask")), "ffffffffffffffff", "all of it");
		p = item_where(doc, "partitions", "controller", "c2");
		is_int(json_int(json_get(p, "ipus"), 0), 16, "16 IPUs are on the second");
		p = item_where(doc, "controllers", "key", "c1");
		is_uint(json_len(json_get(p, "domains")), 2, "the first has two domains");
		is_int(json_int(json_at(p, "fits", "128", NULL), -1), 0, "128 don't fit any more");
		p = json_get(json_root(doc), "partitions");
		is_str(json_cstr(json_get(json_item(p, 1), "controller")), "c2",
		       "partitions are in their controllers' order");
	}
	configure_two(true, true);
	ok(is_right(), "cordoned");
	json_doc_free(snapshot(id));
	has_str(last_snapshot, "\"cordoned\":true", "which is told");
	configure_two(true, false);
	vipu_fleet_set_no_node(fleet, vipu_fleet_at(fleet, 1)->name, true);
	ok(is_right(), "one has no ready node");
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);

		p = item_where(doc, "controllers", "key", "c2");
		ok(json_bool(json_get(p, "noReadyNode"), false), "which is told,");
		is_int(json_int(json_get(p, "freeIPUs"), -1), 48, "48 are free there,");
		is_int(json_int(json_at(p, "fits", "1", NULL), -1), 0, "and nothing fits");
		p = item_where(doc, "controllers", "key", "c1");
		ok(!json_bool(json_get(p, "noReadyNode"), true), "the other has");
	}
	vipu_fleet_set_no_node(fleet, vipu_fleet_at(fleet, 1)->name, false);
	configure_two(false, false);
	ok(is_right(), "the first leaves the configuration, and is held");
	is_uint(viewer.n[0], 2, "both are shown");
	json_doc_free(snapshot(id));
	has_str(last_snapshot, "\"configured\":false", "one as not configured");
	partition_release(parts, "wide", 0);
	ok(SOON(partition_held(parts, "wide") == 0), "what is there goes");
	ok(is_right(), "and the controller with it");
	is_uint(viewer.n[0], 1, "one is left");
	is_uint(viewer.snapshots, 1, "a viewer saw it all by frames");
	live_end();
	partitions_free(parts);
	vipu_fleet_free(fleet);
	vipu_sim_free(second);
	rig_end();
	row_end();
}

/* What is sent to `path`'s callers. */
static const char *view_text(enum view_kind kind)
{
	struct proxy p = {.partitions = parts, .fleet = fleet};
	struct err err = ERR_INIT;
	struct str text;
	static char z[4096];

	if (view_get(&p, kind, &text, &err) < 0)
		bail_out(err.msg);
	snprintf(z, sizeof(z), "%.*s", (int)text.len, text.p);
	view_forget_all(&p);
	return z;
}

static void is_total(const char *when, const char *live_says, const char *stats_say)
{
	char id[LIVE_ID_SIZE];
	CLEANUP_JSON struct json_doc *doc = snapshot(id);
	CLEANUP_FREE char *total = text_of(json_get(json_root(doc), "total"));

	ok(strncmp(total, live_says, strlen(live_says)) == 0, "%s: %s", when, total);
	has_str(view_text(VIEW_CAPACITY), live_says + 1, "... by /capacity, too");
	has_str(view_text(VIEW_STATS), stats_say, "... and by /stats");
}

/* 128 IPUs on the first, 64 on the second; another process begins while the first is away. */
static void test_sums(void)
{
	struct vipu_sim_config config = {.agents = 16};
	struct err err = ERR_INIT;

	row_begin("sums");
	rig_begin(32);
	process_begin(true);
	if (vipu_sim_new(net, &config, &second, &err) < 0)
		bail_out(err.msg);
	guarded = false;
	configure_two(true, false);
	live_begin(false);
	ok(SOON(synced && partitions_count_fits(parts, 64) == 3), "two controllers");
	want("wide", 128);
	want("small", 16);
	ok(SOON(is("wide", PARTITION_STATE_ACTIVE) && is("small", PARTITION_STATE_ACTIVE)),
	   "something is on each");
	live_turns(100, 10);
	is_total("both answer",
		 "{\"totalIPUs\":192,\"usedIPUs\":144,\"externalIPUs\":0,\"freeIPUs\":48",
		 "\"total\":{\"used\":144,\"available\":48}");
	live_end();
	process_kill();
	vipu_sim_go_down(sim);
	process_begin(true);
	configure_two(true, false);
	live_begin(false);
	ok(SOON(synced && partitions_count_fits(parts, 16) == 3), "another process");
	is_total("the first is away",
		 "{\"totalIPUs\":192,\"usedIPUs\":144,\"externalIPUs\":0,\"freeIPUs\":48",
		 "\"total\":{\"used\":144,\"available\":48}");
	live_end();
	partitions_free(parts);
	vipu_fleet_free(fleet);
	vipu_sim_free(second);
	rig_end();
	row_end();
}

/* "made 128@c1 …": steps with sizes and controllers. */
static const char *steps_at_controllers(const struct json_doc *doc)
{
	struct json_iter it = json_iter(json_get(json_root(doc), "steps"));
	static char z[1000];

	z[0] = '\0';
	while (json_next(&it)) {
		size_t len = strlen(z);

		snprintf(z + len, sizeof(z) - len, "%s%s %" PRId64 "@%s", len ? ", " : "",
			 json_cstr(json_get(it.value, "step")),
			 json_int(json_get(it.value, "ipus"), 0),
			 json_cstr(json_get(it.value, "controller")));
	}
	return z;
}

static void is_at(const char *steps, const char *when)
{
	char id[LIVE_ID_SIZE];
	CLEANUP_JSON struct json_doc *doc = snapshot(id);
	const struct json *p = item_where(doc, "partitions", "state", "active");

	is_int(json_int(json_get(p, "ipus"), 0), 16, "%s: the small one", when);
	is_str(json_cstr(json_get(p, "controller")), "c2", "%s: is where it was", when);
	is_str(steps_at_controllers(doc), steps, "%s: so are the steps", when);
}

/* Whatever becomes of the configuration's list, a controller is the one that it was. */
static void test_moved(void)
{
	static const char gone[] =
		"made 128@c1, active 128@c1, made 16@c2, active 16@c2, released 128@c1";
	struct vipu_sim_config config = {.agents = 16};
	struct err err = ERR_INIT;

	row_begin("moved controllers");
	rig_begin(32);
	process_begin(true);
	if (vipu_sim_new(net, &config, &second, &err) < 0)
		bail_out(err.msg);
	guarded = false;
	configure_list("01", false);
	live_begin(false);
	ok(SOON(synced && partitions_count_fits(parts, 64) == 3), "two controllers");
	view();
	want("wide", 128);
	ok(SOON(is("wide", PARTITION_STATE_ACTIVE)), "one on the first");
	live_turns(100, 10);
	want("small", 16);
	ok(SOON(is("small", PARTITION_STATE_ACTIVE)), "another on the second");
	live_turns(100, 10);
	partition_release(parts, "wide", 0);
	ok(SOON(partition_held(parts, "wide") == 0), "the first has nothing any more");
	live_turns(100, 10);
	is_at(gone, "before");
	configure_list("10", false);
	ok(is_right(), "turned round");
	ok(strcmp(vipu_fleet_at(fleet, 0)->name, seen("small").controller) == 0,
	   "the second comes first");
	is_at(gone, "turned round");
	configure_list("1", false);
	ok(is_right(), "the first is taken out");
	is_uint(viewer.n[0], 1, "one is left");
	is_at(gone, "taken out");
	configure_list("01", false);
	ok(SOON(viewer.n[0] == 2), "it's back");
	ok(is_right(), "as another one");
	is_at(gone, "back");
	ok(viewer.n[0] == 2 && strcmp(viewer.items[0][1].key, "c3") == 0,
	   "which no step is told of");
	live_end();
	partitions_free(parts);
	vipu_fleet_free(fleet);
	vipu_sim_free(second);
	rig_end();
	row_end();
}

/* ---- before anything is known ---- */

static void test_nothing_yet(void)
{
	struct err err = ERR_INIT;
	char id[LIVE_ID_SIZE];
	struct str text;
	uint64_t next = 0;

	row_begin("nothing yet");
	begin();
	live_begin(false);
	is_int(live_snapshot(live, &text, id, &err), -1, "no snapshot");
	is_int(err.kind, ERR_UNAVAILABLE, "for now");
	ok(!live_resume(live, "x-1", &next), "and nothing to go on from");
	live_watch_start(live, &watch, on_frame, NULL);
	ok(WITHIN(5000, viewer.snapshots == 1), "who waits is told when there is one");
	live_end();
	end();
}

/* ---- too large ---- */

static void test_large_frame(void)
{
	char uid[64];

	row_begin("a large frame");
	begin_live(false);
	view();
	for (int i = 0; i < 1500; i++) {
		snprintf(uid, sizeof(uid), "%08d-of-many", i);
		want(uid, 64);
	}
	live_changed(live);
	ok(SOON(viewer.n[2] == 1499), "all that wait are seen");
	is_uint(viewer.snapshots, 2, "by another snapshot");
	ok(is_right(), "and what follows");
	ok(viewer.snapshots < 4, "by frames");
	live_end();
	end();
}

static char *long_name;

static void many_pods(void *arg, const struct partition_owner *owner, uint32_t instance,
		      proxy_pod_fn *fn, void *fn_arg)
{
	const struct proxy_pod pod = {long_name, "Running", "node-1"};

	(void)owner;
	(void)instance;
	for (unsigned i = 0; i < *(unsigned *)arg; i++)
		fn(fn_arg, &pod);
}

static void test_large_snapshot(void)
{
	unsigned n_pods = 1;
	const struct live_config config = {.loop = NULL, .full = true, .pods = many_pods};
	struct live_config c = config;
	struct err err = ERR_INIT;
	char id[LIVE_ID_SIZE];
	struct str text;

	row_begin("a large snapshot");
	begin();
	long_name = xcalloc(1, 1 << 20);
	memset(long_name, 'x', (1 << 20) - 1);
	c.loop = loop;
	c.partitions = parts;
	c.fleet = fleet;
	c.pods_arg = &n_pods;
	live = live_new(&c);
	want("uid-1", 1);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "one partition");
	ok(live_snapshot(live, &text, id, &err) == 0 && text.len > 1 << 20, "a Pod with a name");
	n_pods = 70;
	clock_advance(1000);
	is_int(live_snapshot(live, &text, id, &err), -1, "too many of them");
	is_int(err.kind, ERR_LIMIT, "are said to be too large");
	has_str(err.msg, "larger than 64 MiB", "in words");
	n_pods = 1;
	clock_advance(1000);
	ok(live_snapshot(live, &text, id, &err) == 0, "and it goes on when it's smaller");
	free(long_name);
	live_end();
	end();
}

/* ---- watches ---- */

static struct live_watch watches[3];
static unsigned calls[3];

static void on_own(void *arg)
{
	calls[1]++;
	live_watch_stop(arg);
}

static void on_all(void *arg)
{
	(void)arg;
	calls[0]++;
	live_watch_stop(&watches[2]);
	live_watch_stop(&watches[2]);
}

static void on_third(void *arg)
{
	(void)arg;
	calls[2]++;
}

static void test_watches(void)
{
	static struct live_watch never;

	row_begin("watches");
	begin_live(false);
	live_watch_stop(&never);
	live_watch_start(live, &watches[0], on_all, NULL);
	live_watch_start(live, &watches[1], on_own, &watches[1]);
	live_watch_start(live, &watches[2], on_third, NULL);
	want("uid-1", 8);
	live_changed(live);
	turns(40, 10);
	want("uid-2", 8);
	live_changed(live);
	turns(40, 10);
	ok(calls[0] > 1, "one is called for each frame");
	is_uint(calls[1], 1, "one that stops itself once");
	is_uint(calls[2], 0, "one that another stops not at all");
	live_watch_stop(&watches[0]);
	live_end();
	end();
}

/* ---- what is taken over, what vanishes, what is left ---- */

static void test_adopted(void)
{
	struct partition_ask ask = ask_of("uid-1", 0, 8);
	char id[PARTITION_ID_MAX + 1];

	row_begin("taken over");
	begin_live(false);
	guarded = false;
	partition_id_make(&ask.owner, 0, 1, id);
	ok(vipu_sim_create_by_hand(sim, id, 8, NULL) == 0, "the tracker has lost one");
	vipu_fleet_refresh(fleet, NULL);
	view();
	live_turns(200, 10);
	is_uint(viewer.n[1], 1, "it's shown,");
	has_str(viewer.items[1][0].text, "\"external\":true", "as nobody's");
	ask.adopt = id;
	partition_ensure(parts, &ask);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "its owner asks for it");
	ok(is_right(), "and has it");
	has_str(viewer.items[1][0].text, "\"external\":false", "it's the operator's now");
	is_uint(viewer.n[1], 1, "once");
	is_str(steps_seen(), "active", "it wasn't made");
	live_end();
	end();
}

static void test_vanished(void)
{
	CLEANUP_FREE char *id = NULL;

	row_begin("vanished");
	begin_live(false);
	guarded = false;
	want("uid-1", 8);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "active");
	live_turns(100, 10);
	id = xstrdup(seen("uid-1").id);
	ok(vipu_sim_remove_by_hand(sim, id, NULL) == 0, "somebody removes it");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON(is_because("uid-1", PARTITION_STATE_FAILED, PARTITION_WHY_VANISHED)), "gone");
	live_turns(100, 10);
	is_str(steps_seen(), "made active failed", "which is a failure");
	live_end();
	end();
}

static void test_abandoned(void)
{
	row_begin("abandoned");
	begin_live(false);
	view();
	want("uid-1", 8);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "active");
	vipu_sim_go_down(sim);
	partition_abandon(parts, "uid-1", 0);
	ok(SOON(partition_held(parts, "uid-1") == 0), "its owner doesn't wait");
	ok(is_right(), "it's there all the same");
	has_str(viewer.items[1][0].text, "\"state\":\"orphan\"", "as an orphan");
	is_str(steps_seen(), "made active", "still there");
	if (vipu_sim_come_up(sim, NULL) < 0)
		bail_out("the controller");
	ok(SOON(n_entries() == 0), "removed at last");
	live_turns(200, 10);
	is_str(steps_seen(), "made active released", "and told so");
	live_end();
	end();
}

/* ---- a process that follows ---- */

static void test_follower(void)
{
	struct partitions *leader;
	const char *id;

	row_begin("follower");
	begin_live(false);
	want("uid-1", 8);
	want("uid-2", 64);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE) && n_waits() == 1), "one is active, one waits");
	view();
	leader = parts;
	parts = partitions_new(loop, kube, fleet,
			       &(struct partitions_config){.ns = NS,
							   .tracker_name = TRACKER,
							   .times = partition_times_default,
							   .follow = true},
			       on_synced, on_change, NULL);
	live_set_partitions(live, parts);
	ok(WITHIN(5000, partitions_synced(parts)), "it reads what the leader writes");
	ok(is_right(), "and shows it");
	is_uint(viewer.n[2], 1, "the queue too");
	has_str(viewer.items[0][0].text, "ffffffffffffffff", "and the block that is planned");
	partition_release(leader, "uid-2", 0);
	ok(SOON(viewer.n[2] == 0), "what becomes of it");
	id = seen("uid-1").id;
	ok(vipu_sim_break(sim, id ? id : "", "broken", false, NULL) == 0, "one breaks");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON(strstr(viewer.items[1][0].text, "\"state\":\"error\"")),
	   "by its controller's list");
	ok(is_right(), "it's right");
	live_end();
	partitions_free(leader);
	end();
}

static void want_of_team(const char *uid, uint32_t ipus)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ask.owner.ns = TEXT("team-a");
	partition_ensure(parts, &ask);
}

/* It says what the leader says, also by a namespace's annotation; and where names are shown it has
 * words for it, though it isn't told the leader's. */
static void test_follower_quota(bool full)
{
	struct partitions *leader;

	row_begin("follower, quota, %s", full ? "full" : "usage");
	begin_live(full);
	make_object("namespaces",
		    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":"
		    "\"team-a\",\"annotations\":{\"graphcore.ai/max-ipus\":\"10\"}}}");
	want_of_team("uid-1", 8);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "one has 8 of its namespace's 10");
	want_of_team("uid-2", 4);
	ok(SOON(is_because("uid-2", PARTITION_STATE_WAITING, PARTITION_WHY_QUOTA)),
	   "another waits");
	leader = parts;
	parts = partitions_new(loop, kube, fleet,
			       &(struct partitions_config){.ns = NS,
							   .tracker_name = TRACKER,
							   .times = partition_times_default,
							   .follow = true},
			       on_synced, on_change, NULL);
	live_set_partitions(live, parts);
	ok(WITHIN(5000, partitions_synced(parts)), "one that follows reads it");
	view();
	ok(WITHIN(5000, strstr(viewer.items[2][0].text ? viewer.items[2][0].text : "",
			       "its namespace uses 8 of its 10 IPUs, and this asks for 4")),
	   "in words");
	has_str(viewer.items[2][0].text, "\"quota\":{\"limit\":10,\"used\":8}", "and in numbers");
	live_end();
	partitions_free(leader);
	end();
}

/* ---- what breaks ---- */

static void test_broken(void)
{
	CLEANUP_FREE char *failed_at = NULL;
	char id[LIVE_ID_SIZE], before[CLOCK_RFC3339_SIZE];
	const struct json *p;

	row_begin("broken");
	begin_live(true);
	want("uid-1", 8);
	ok(SOON(is("uid-1", PARTITION_STATE_ACTIVE)), "active");
	live_turns(300, 10);
	clock_advance(60000);
	clock_format(clock_wall_ms(), before);
	ok(vipu_sim_break(sim, seen("uid-1").id, "IPU 5 is too hot", false, NULL) == 0, "broken");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON(is("uid-1", PARTITION_STATE_FAILED)), "its owner is told so");
	live_turns(100, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);

		p = item_where(doc, "partitions", "state", "error");
		has_str(json_cstr(json_get(p, "reason")), "IPU 5 is too hot",
			"the controller's words");
		failed_at = xstrdup(json_cstr(json_get(p, "since")));
		ok(strcmp(failed_at, before) >= 0, "since %s, not before %s", failed_at, before);
		p = item_where(doc, "steps", "step", "failed");
		has_str(json_cstr(json_get(p, "message")), "IPU 5 is too hot", "also at the step");
	}
	live_turns(300, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);

		p = item_where(doc, "partitions", "state", "error");
		is_str(json_cstr(json_get(p, "since")), failed_at, "its time stays");
	}
	live_end();
	end();
}

/* ---- what is made by hand ---- */

/* One that has been asked for, and isn't listed yet, doesn't hide any of it. */
static void test_by_hand(void)
{
	bool exact = true;
	char id[LIVE_ID_SIZE], before[CLOCK_RFC3339_SIZE], after[CLOCK_RFC3339_SIZE];

	row_begin("by hand");
	begin_live(false);
	guarded = false;
	ok(vipu_sim_create_by_hand(sim, "by-hand", 4, NULL) == 0, "four IPUs");
	vipu_fleet_refresh(fleet, NULL);
	live_turns(200, 10);
	want("uid-1", 16);
	for (int i = 0; i < 200 && !is("uid-1", PARTITION_STATE_ACTIVE); i++) {
		live_turns(1, 10);
		live_look(live, true);
		json_doc_free(snapshot(id));
		exact = exact && strstr(last_snapshot, "\"externalIPUs\":4,") &&
			(strstr(last_snapshot,
				"\"usedIPUs\":16,\"externalIPUs\":4,\"freeIPUs\":44,") ||
			 strstr(last_snapshot,
				"\"usedIPUs\":0,\"externalIPUs\":4,\"freeIPUs\":60,"));
		if (!exact) {
			diag("%s", last_snapshot);
			break;
		}
	}
	ok(exact && is("uid-1", PARTITION_STATE_ACTIVE), "are four all the time");
	live_end();
	live_begin(true);
	live_turns(200, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *p = item_where(doc, "partitions", "id", "by-hand");

		ok(p && !json_get(p, "since") && !json_get(p, "reason"), "it's of no age");
	}
	clock_format(clock_wall_ms(), before);
	ok(vipu_sim_break(sim, "by-hand", "a cable", false, NULL) == 0, "it breaks");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON((json_doc_free(snapshot(id)), strstr(last_snapshot, "\"state\":\"error\""))),
	   "which is seen");
	clock_advance(60000);
	live_turns(200, 10);
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *p = item_where(doc, "partitions", "state", "error");
		CLEANUP_FREE char *since = xstrdup(json_cstr(json_get(p, "since")));

		clock_format(clock_wall_ms() - 60000, after);
		ok(strcmp(since, before) >= 0 && strcmp(since, after) <= 0, "since %s", since);
		has_str(json_cstr(json_get(p, "reason")), "in ERROR", "and why");
	}
	live_end();
	end();
}

/* ---- names of hostile peers ---- */

static void test_hostile(void)
{
	static const char by_hand[] = "<img src=x onerror=\"alert(1)\">\n\\u0000 ";
	char id[LIVE_ID_SIZE];

	row_begin("hostile");
	begin_live(true);
	view();
	guarded = false;
	ok(vipu_sim_create_by_hand(sim, by_hand, 4, NULL) == 0, "a partition with a name");
	vipu_fleet_refresh(fleet, NULL);
	ok(SOON(viewer.n[1] == 1), "is seen");
	{
		CLEANUP_JSON struct json_doc *doc = snapshot(id);
		const struct json *p = item_where(doc, "partitions", "controller", "c1");

		has_str(json_cstr(json_get(p, "id")), "<img src=x onerror=\"alert(1)\">\n\\u0000 ",
			"its name is text");
	}
	live_end();
	end();
}

int main(void)
{
	test_cost();
	test_controllers();
	test_sums();
	test_moved();
	test_nothing_yet();
	test_large_frame();
	test_large_snapshot();
	test_watches();
	test_adopted();
	test_vanished();
	test_abandoned();
	test_follower();
	test_follower_quota(false);
	test_follower_quota(true);
	test_broken();
	test_by_hand();
	test_hostile();
	return done_testing();
}
