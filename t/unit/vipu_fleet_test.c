/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet against simulated controllers: views, reachability, changes of configuration while
 * calls go on, holds, rhythm on a frozen clock. Uses core, loop, net, grpc, vipu and the simulator.
 */
#include "tap.h"

#include "core/clock.h"
#include "core/log.h"
#include "net/net.h"
#include "sim/vipu_sim.h"
#include "vipu/fleet.h"

static struct loop *loop;
static struct net *net;

static void turns(int n)
{
	while (n-- > 0)
		loop_turn(loop, 2);
}

static struct vipu_sim *simulate(unsigned agents)
{
	struct vipu_sim_config config = {.agents = agents, .create_ms = 10};
	struct vipu_sim *sim = NULL;
	struct err err = ERR_INIT;

	if (vipu_sim_new(net, &config, &sim, &err) < 0)
		bail_out(err.msg);
	return sim;
}

static void configure(struct vipu_fleet *fleet, const char *text)
{
	struct vipu_address_list list;
	struct vipu_fleet_entry entries[8] = {{0}};

	vipu_address_parse(str_of(text), &list);
	for (size_t i = 0; i < list.n; i++)
		entries[i].address = &list.items[i];
	vipu_fleet_configure(fleet, entries, list.n);
	vipu_address_list_done(&list);
}

static bool await_reach(struct vipu_fleet *fleet, const char *name, enum vipu_reach reach)
{
	for (int i = 0; i < 500; i++) {
		const struct vipu_controller *c = vipu_fleet_find(fleet, name);
		if (c && c->reach == reach)
			return true;
		loop_turn(loop, 10);
	}
	return false;
}

struct seen {
	int refreshed, changes, list_changes;
	struct err err;
	uint64_t generation;
	bool gone;
};

static void on_refreshed(void *arg, const struct err *err, const struct vipu_controller *c)
{
	struct seen *s = arg;
	s->refreshed++;
	s->err = err ? *err : (struct err)ERR_INIT;
	s->gone = c == NULL;
}

static void on_change(void *arg, const char *name)
{
	struct seen *s = arg;
	s->changes++;
	s->list_changes += name == NULL;
}

static bool await_refresh(struct vipu_fleet *fleet, const char *name, struct seen *s)
{
	int before = s->refreshed;

	vipu_fleet_refresh_start(fleet, name, on_refreshed, s, NULL);
	for (int i = 0; i < 500 && s->refreshed == before; i++)
		loop_turn(loop, 10);
	return s->refreshed == before + 1;
}

static void test_views(void)
{
	struct vipu_sim *a = simulate(16), *b = simulate(1);
	struct vipu_fleet *fleet = vipu_fleet_new(net, NULL);
	struct vipu_fleet_watch watch;
	struct vipu_fleet_sums sums;
	struct seen seen = {0};
	char name_a[64], name_b[64], both[160];

	snprintf(name_a, sizeof(name_a), "127.0.0.1:%u", vipu_sim_port(a));
	snprintf(name_b, sizeof(name_b), "127.0.0.1:%u", vipu_sim_port(b));
	snprintf(both, sizeof(both), "%s:pod=a,%s:pod=b", name_a, name_b);
	vipu_fleet_watch_start(fleet, &watch, on_change, &seen);
	vipu_fleet_sum(fleet, &sums);
	is_uint(sums.free_ipus, 0, "an empty fleet has no room");
	configure(fleet, both);
	is_uint(vipu_fleet_len(fleet), 2, "two controllers");
	is_int(vipu_fleet_at(fleet, 0)->reach, VIPU_REACH_UNKNOWN, "nothing is known at once");
	ok(await_reach(fleet, name_a, VIPU_REACH_YES) && await_reach(fleet, name_b, VIPU_REACH_YES),
	   "both answer");
	const struct vipu_controller *c = vipu_fleet_find(fleet, name_a);
	is_str(c->version, "1.18.0", "a version");
	is_uint(c->capacity.total_ipus, 64, "64 IPUs");
	is_uint(c->machines.n, 16, "of 16 agents");
	is_str(c->address.value, "a", "the label");
	turns(2);
	ok(seen.list_changes >= 1 && seen.changes >= 3, "the watch was told");
	vipu_fleet_sum(fleet, &sums);
	is_uint(sums.total_ipus, 68, "68 IPUs in all");
	is_uint(sums.largest, 64, "the largest block");
	is_uint(sums.free_ipus, 68, "all free");
	is_uint(c->capacity.blocks[6], 1, "as one domain");

	vipu_sim_create_by_hand(a, "hand", 32, NULL);
	int changes = seen.changes;
	uint64_t generation = c->generation;
	ok(await_refresh(fleet, name_a, &seen) && seen.err.kind == ERR_NONE, "asked for a view");
	is_uint(c->capacity.free_ipus, 32, "it has what was made by hand");
	is_uint(c->capacity.blocks[6], 0, "no room for 64 now");
	turns(2);
	ok(seen.changes > changes && c->generation > generation, "which is a change");
	changes = seen.changes;
	ok(await_refresh(fleet, name_a, &seen), "asked again");
	turns(2);
	is_int(seen.changes, changes, "nothing changed: nobody is told");
	ok(vipu_partitions_find(&c->partitions, STR("hand")), "the partition is in the list");
	vipu_fleet_watch_stop(&watch);
	vipu_fleet_watch_stop(&watch);
	vipu_fleet_free(fleet);
	vipu_sim_free(a);
	vipu_sim_free(b);
	turns(3);
}

static void test_unreachable(void)
{
	struct vipu_sim *sim = simulate(4);
	/* Each look asks for everything. */
	struct vipu_fleet_options options = {.call_ms = 1000, .urgent_ms = 1};
	struct vipu_fleet *fleet = vipu_fleet_new(net, &options);
	struct vipu_fleet_sums sums;
	struct seen seen = {0};
	char name[64];

	snprintf(name, sizeof(name), "127.0.0.1:%u", vipu_sim_port(sim));
	configure(fleet, name);
	ok(await_reach(fleet, name, VIPU_REACH_YES), "it answers");
	const struct vipu_controller *c = vipu_fleet_find(fleet, name);
	vipu_sim_go_down(sim);
	ok(await_refresh(fleet, name, &seen), "asked when it's down");
	is_int(seen.err.kind, ERR_UNAVAILABLE, "it can't be reached");
	is_int(c->reach, VIPU_REACH_NO, "the view says so");
	has_str(c->reason, name, "in words: %s", c->reason);
	ok(c->failing_since_ms > 0, "since when it fails");
	is_uint(c->capacity.total_ipus, 16, "the last view stays");
	vipu_fleet_sum(fleet, &sums);
	is_uint(sums.total_ipus, 0, "but counts for nothing");
	int64_t since = c->failing_since_ms;
	await_refresh(fleet, name, &seen);
	is_int(c->failing_since_ms, since, "it still fails since then");
	is_int(vipu_sim_come_up(sim, NULL), 0, "it comes up on its port");
	ok(await_refresh(fleet, name, &seen) && seen.err.kind == ERR_NONE,
	   "and is reached at once");
	is_int(c->failing_since_ms, 0, "it doesn't fail any more");
	is_str(c->reason, "", "no reason");

	static const struct {
		const char *name;
		struct vipu_sim_fault fault;
		enum err_kind kind;
	} rows[] = {
		{"denied",
		 {.kind = VIPU_SIM_STATUS,
		  .method = VIPU_LIST_PARTITIONS,
		  .status = GRPC_PERMISSION_DENIED,
		  .count = 1},
		 ERR_DENIED},
		{"garbage",
		 {.kind = VIPU_SIM_GARBAGE, .method = VIPU_LIST_IPU_ATTRIBUTES, .count = 1},
		 ERR_PROTOCOL},
		{"cut", {.kind = VIPU_SIM_CUT, .method = -1, .count = 1}, ERR_UNAVAILABLE},
		{"silence",
		 {.kind = VIPU_SIM_HANG, .method = VIPU_GET_VERSION, .count = 1},
		 ERR_TIMEOUT},
		{"no GetVersion",
		 {.kind = VIPU_SIM_STATUS,
		  .method = VIPU_GET_VERSION,
		  .status = GRPC_UNIMPLEMENTED,
		  .count = 1},
		 ERR_NONE},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		turns(3); /* a millisecond, at least */
		vipu_sim_inject(sim, &rows[i].fault);
		ok(await_refresh(fleet, name, &seen), "an answer comes");
		is_int(seen.err.kind, rows[i].kind, "kind (%s)", seen.err.msg);
		is_int(c->reach, rows[i].kind == ERR_NONE ? VIPU_REACH_YES : VIPU_REACH_NO,
		       "reach");
		vipu_sim_clear_faults(sim);
		ok(await_refresh(fleet, name, &seen) && c->reach == VIPU_REACH_YES,
		   "then it's well");
	}
	row_end();
	vipu_fleet_free(fleet);
	vipu_sim_free(sim);
	turns(3);
}

static void test_configuration(void)
{
	struct vipu_sim *sim = simulate(4);
	struct vipu_fleet *fleet = vipu_fleet_new(net, NULL);
	struct seen seen = {0}, pending = {0};
	char name[64], labelled[120];
	struct err err = ERR_INIT;

	snprintf(name, sizeof(name), "127.0.0.1:%u", vipu_sim_port(sim));
	snprintf(labelled, sizeof(labelled), "gone.invalid,%s:pod=z", name);
	configure(fleet, name);
	await_reach(fleet, name, VIPU_REACH_YES);
	struct vipu_controller *c = vipu_fleet_find(fleet, name);
	struct vipu_client *client = c->client;
	configure(fleet, labelled);
	ok(vipu_fleet_find(fleet, name) == c && c->client == client, "it keeps its connection");
	is_int(c->reach, VIPU_REACH_YES, "and its view");
	is_str(c->address.value, "z", "and has the new label");
	is_str(vipu_fleet_at(fleet, 0)->name, "gone.invalid:8090", "in the new order");
	ok(await_reach(fleet, "gone.invalid:8090", VIPU_REACH_NO), "a name that isn't known");
	c = vipu_fleet_find(fleet, "gone.invalid:8090");
	ok(c->reason_kind == ERR_UNAVAILABLE, "isn't reachable (%s)", c->reason);

	is_int(vipu_fleet_hold(fleet, name, NULL), 0, "held");
	configure(fleet, "");
	is_uint(vipu_fleet_len(fleet), 1, "what is held stays");
	ok(!vipu_fleet_at(fleet, 0)->configured, "not configured any more");
	ok(await_refresh(fleet, name, &seen) && seen.err.kind == ERR_NONE, "it's still asked");
	configure(fleet, name);
	ok(vipu_fleet_find(fleet, name)->configured, "configured again");
	vipu_fleet_release(fleet, name);
	is_uint(vipu_fleet_len(fleet), 1, "released, it stays");
	vipu_fleet_hold(fleet, name, NULL);
	configure(fleet, "");
	vipu_fleet_refresh_start(fleet, name, on_refreshed, &pending, NULL);
	vipu_fleet_release(fleet, name);
	is_uint(vipu_fleet_len(fleet), 0, "released, it goes");
	turns(3);
	ok(pending.refreshed == 1 && pending.gone && pending.err.kind == ERR_NOT_FOUND,
	   "who waited for its view is told");
	vipu_fleet_release(fleet, name);

	is_int(vipu_fleet_hold(fleet, name, NULL), 0, "holding a controller that isn't configured");
	ok(await_reach(fleet, name, VIPU_REACH_YES), "makes it known, and asks it");
	ok(!vipu_fleet_find(fleet, name)->configured, "but not configured");
	is_int(vipu_fleet_hold(fleet, "no address", &err), -1, "a name that is no address");
	is_int(err.kind, ERR_INVALID, "is refused");
	pending = (struct seen){0};
	vipu_fleet_refresh_start(fleet, "nobody:1", on_refreshed, &pending, NULL);
	is_int(pending.refreshed, 0, "never within the call");
	turns(3);
	ok(pending.gone, "there's no such controller");
	vipu_fleet_refresh_start(fleet, "nobody:1", on_refreshed, &seen, NULL);
	vipu_fleet_refresh_start(fleet, name, on_refreshed, &seen, NULL);
	int before = seen.refreshed;
	vipu_fleet_free(fleet);
	vipu_sim_free(sim);
	turns(5);
	is_int(seen.refreshed, before, "nobody is told once the fleet has ended");
}

/* Its Secret is being read while the list of controllers is known already. */
static void test_expected(void)
{
	struct vipu_fleet *fleet = vipu_fleet_new(net, NULL);
	struct vipu_address_list list;
	struct vipu_fleet_entry entry = {.unusable = "Secret x hasn't been read yet",
					 .expected = true};
	struct seen seen = {0};

	vipu_address_parse(STR("127.0.0.1:1"), &list);
	entry.address = &list.items[0];
	clock_freeze(clock_mono_ms(), clock_wall_ms());
	vipu_fleet_configure(fleet, &entry, 1);
	const struct vipu_controller *c = vipu_fleet_at(fleet, 0);
	ok(await_refresh(fleet, c->name, &seen) && seen.err.kind != ERR_NONE, "it can't be asked");
	is_int(c->reach, VIPU_REACH_UNKNOWN, "which is no trouble yet");
	is_str(c->reason, "", "and isn't told");
	for (int i = 0; i < 100; i++) { /* ten seconds: a few looks */
		clock_advance(100);
		turns(3);
	}
	is_int(c->reach, VIPU_REACH_NO, "after seconds it is");
	is_str(c->reason, entry.unusable, "and is told");
	entry.expected = false;
	entry.unusable = "Secret x isn't there";
	vipu_fleet_configure(fleet, &entry, 1);
	turns(5);
	is_str(c->reason, entry.unusable, "what is known is told at once");
	clock_unfreeze();
	vipu_fleet_free(fleet);
	vipu_address_list_done(&list);
	turns(3);
}

static void test_rhythm(void)
{
	struct vipu_sim *sim = simulate(4);
	struct vipu_fleet *fleet = vipu_fleet_new(net, NULL);
	char name[64];

	snprintf(name, sizeof(name), "127.0.0.1:%u", vipu_sim_port(sim));
	clock_freeze(clock_mono_ms(), clock_wall_ms());
	configure(fleet, name);
	await_reach(fleet, name, VIPU_REACH_YES);
	unsigned long asked = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS);
	for (int i = 0; i < 120; i++) { /* two minutes */
		clock_advance(1000);
		turns(4);
	}
	unsigned long idle = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS) - asked;
	ok(idle >= 3 && idle <= 5, "idle: every 30 s (%lu times in 120 s)", idle);
	asked = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS);
	vipu_fleet_wait_begin(fleet);
	vipu_fleet_wait_begin(fleet);
	for (int i = 0; i < 200; i++) { /* twenty seconds */
		clock_advance(100);
		turns(3);
	}
	unsigned long quick = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS) - asked;
	ok(quick >= 6 && quick <= 10, "while something waits: every 2.5 s (%lu times in 20 s)",
	   quick);
	vipu_fleet_wait_end(fleet);
	vipu_fleet_wait_end(fleet);
	vipu_fleet_wait_end(fleet);
	asked = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS);
	for (int i = 0; i < 60; i++) {
		clock_advance(1000);
		turns(4);
	}
	idle = vipu_sim_calls(sim, VIPU_LIST_PARTITIONS) - asked;
	ok(idle <= 4, "then idle again (%lu times in 60 s)", idle);
	clock_unfreeze();
	vipu_fleet_free(fleet);
	vipu_sim_free(sim);
	turns(3);
}

/* Looks that come one after the other ask for partitions alone. */
static void test_soon_again(void)
{
	static const enum vipu_method rest[] = {VIPU_GET_VERSION, VIPU_LIST_IPU_ATTRIBUTES};
	struct vipu_sim *sim = simulate(4);
	struct vipu_fleet *fleet = vipu_fleet_new(net, NULL);
	const struct vipu_controller *c;
	struct seen seen = {0};
	char name[64];

	snprintf(name, sizeof(name), "127.0.0.1:%u", vipu_sim_port(sim));
	clock_freeze(clock_mono_ms(), clock_wall_ms());
	configure(fleet, name);
	await_reach(fleet, name, VIPU_REACH_YES);
	c = vipu_fleet_find(fleet, name);
	vipu_sim_create_by_hand(sim, "hand", 8, NULL);
	clock_advance(1000);
	ok(await_refresh(fleet, name, &seen) && seen.err.kind == ERR_NONE, "a look soon after");
	is_uint(c->capacity.free_ipus, 8, "has the new partition");
	is_uint(c->machines.n, 4, "and knows the IPUs");
	is_int(c->fresh_ms, clock_mono_ms(), "it's as fresh as any");
	for (size_t i = 0; i < 2; i++)
		is_uint(vipu_sim_calls(sim, rest[i]), 1, "but asked for partitions alone");
	clock_advance(1500);
	ok(await_refresh(fleet, name, &seen), "2.5 s after the first");
	for (size_t i = 0; i < 2; i++)
		is_uint(vipu_sim_calls(sim, rest[i]), 2, "everything is asked for again");
	is_uint(vipu_sim_calls(sim, VIPU_LIST_PARTITIONS), 3, "in three looks in all");
	vipu_sim_go_down(sim);
	await_refresh(fleet, name, &seen);
	is_int(c->reach, VIPU_REACH_NO, "it goes away");
	vipu_sim_come_up(sim, NULL);
	ok(await_refresh(fleet, name, &seen) && seen.err.kind == ERR_NONE, "and comes back");
	for (size_t i = 0; i < 2; i++)
		is_uint(vipu_sim_calls(sim, rest[i]), 3, "so everything is, without a wait");
	clock_unfreeze();
	vipu_fleet_free(fleet);
	vipu_sim_free(sim);
	turns(3);
}

/* A callback of a watch may do anything. */
struct wild {
	struct vipu_fleet *fleet;
	struct vipu_fleet_watch one, two;
	int calls;
};

static void on_wild(void *arg, const char *name)
{
	struct wild *w = arg;
	(void)name;
	w->calls++;
	vipu_fleet_free(w->fleet);
}

static void test_wild(void)
{
	struct wild w = {.fleet = vipu_fleet_new(net, NULL)};

	vipu_fleet_watch_start(w.fleet, &w.one, on_wild, &w);
	vipu_fleet_watch_start(w.fleet, &w.two, on_wild, &w);
	configure(w.fleet, "127.0.0.1:1,127.0.0.1:2");
	turns(10);
	is_int(w.calls, 1, "a watch that frees the fleet is the last that is told");
}

/* Of two who wait for one look. */
struct ending {
	struct vipu_fleet *fleet;
	int calls;
};

static void on_ending(void *arg, const struct err *err, const struct vipu_controller *c)
{
	struct ending *e = arg;
	(void)err, (void)c;
	e->calls++;
	vipu_fleet_free(e->fleet);
}

static void test_ending(void)
{
	struct vipu_sim *sim = simulate(1);
	struct ending e = {.fleet = vipu_fleet_new(net, NULL)};
	char name[64];

	snprintf(name, sizeof(name), "127.0.0.1:%u", vipu_sim_port(sim));
	configure(e.fleet, name);
	vipu_fleet_refresh_start(e.fleet, name, on_ending, &e, NULL);
	vipu_fleet_refresh_start(e.fleet, name, on_ending, &e, NULL);
	for (int i = 0; i < 500 && e.calls == 0; i++)
		loop_turn(loop, 10);
	turns(3);
	is_int(e.calls, 1, "a look at whose end the fleet is freed is told to nobody else");
	vipu_sim_free(sim);
	turns(3);
}

int main(void)
{
	struct err err = ERR_INIT;

	log_init(LOG_ERROR, LOG_TEXT, 2);
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		bail_out(err.msg);
	test_views();
	test_unreachable();
	test_configuration();
	test_expected();
	test_rhythm();
	test_soon_again();
	test_wild();
	test_ending();
	net_free(net);
	loop_free(loop);
	return done_testing();
}
