/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contenders for one Lease against the simulated API server: gaining, losing, giving back, people's
 * edits, and two of them through random faults. The rules by themselves are
 * kube_lease_model_test's.
 */
#include "partition_rig.h"

#include "kube/lease.h"

#define LEASE "the-lease"

struct contender {
	struct kube_lease *lease;
	const char *name;
	unsigned gained, lost, released;
	bool leads; /* as it was told */
	char holder[KUBE_LEASE_WORD_SIZE], address[KUBE_LEASE_WORD_SIZE];
	int64_t gained_ms, lost_ms;
	bool frees; /* ends itself when it's told that it has lost */
	struct err release_err;
};

static struct contender a, b;

static void on_gained(void *arg)
{
	struct contender *c = arg;

	ok(!c->leads, "%s: gained what it hadn't", c->name);
	c->leads = true;
	c->gained++;
	c->gained_ms = clock_mono_ms();
}

static void on_lost(void *arg)
{
	struct contender *c = arg;

	ok(c->leads, "%s: lost what it had", c->name);
	c->leads = false;
	c->lost++;
	c->lost_ms = clock_mono_ms();
	if (c->frees) {
		kube_lease_free(c->lease);
		c->lease = NULL;
	}
}

static void on_holder(void *arg, const char *identity, const char *address)
{
	struct contender *c = arg;

	snprintf(c->holder, sizeof(c->holder), "%s", identity);
	snprintf(c->address, sizeof(c->address), "%s", address);
}

static void on_released(void *arg, const struct err *err)
{
	struct contender *c = arg;

	c->released++;
	c->release_err.kind = ERR_NONE;
	if (err)
		c->release_err = *err;
}

static const struct kube_lease_ops ops = {on_gained, on_lost, on_holder};

static void contend(struct contender *c, const char *name, const char *address)
{
	struct kube_lease_opts opts = {
		.ns = NS, .name = LEASE, .identity = name, .address = address};
	struct err err = ERR_INIT;

	*c = (struct contender){.name = name};
	if (kube_lease_start(kube, &opts, &ops, c, &c->lease, &err) < 0)
		bail_out(err.msg);
}

static void end(struct contender *c)
{
	kube_lease_free(c->lease);
	*c = (struct contender){.name = "ended"};
}

static bool holds(const struct contender *c)
{
	return c->lease && kube_lease_held(c->lease);
}

static const struct sim_resource *leases(void)
{
	return sim_resource_find(STR("coordination.k8s.io"), STR("leases"));
}

static const struct json *stored(void)
{
	const struct sim_object *o = sim_objects_get(objects, leases(), STR(NS), STR(LEASE));

	return o ? sim_object_json(o) : NULL;
}

static struct str spec_text(const char *key)
{
	return json_str(json_at(stored(), "spec", key, NULL));
}

static int64_t spec_int(const char *key)
{
	return json_int(json_at(stored(), "spec", key, NULL), -1);
}

static void edit(const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root;

	if (json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("a patch of the test");
	root = jmut_merge_patch(doc, jmut_copy(doc, stored()), json_root(p));
	sim_objects_put(objects, leases(), doc, root);
}

static void begin(void)
{
	rig_begin(1);
	contend(&a, "a", "10.0.0.1:8445");
	ok(WITHIN(1000, holds(&a)), "the first one gets it within a second");
}

static void finish(void)
{
	end(&a);
	end(&b);
	rig_end();
}

/* ---- by itself ---- */

static void test_first(void)
{
	char acquired[64];

	row_begin("alone");
	begin();
	is_int(a.gained, 1, "told once");
	is_str(a.holder, "a", "it's the holder itself");
	is_str(kube_lease_holder(a.lease), "a", "and says so when asked");
	is_str(a.address, "10.0.0.1:8445", "with its address");
	ok(!kube_lease_error(a.lease), "nothing is wrong");
	ok(str_eqz(spec_text("holderIdentity"), "a"), "holderIdentity");
	is_int(spec_int("leaseDurationSeconds"), 12, "leaseDurationSeconds");
	is_int(spec_int("leaseTransitions"), 0, "leaseTransitions");
	ok(str_eq(spec_text("acquireTime"), spec_text("renewTime")), "both times are the same");
	is_int(spec_text("renewTime").len, 27, "a MicroTime");
	ok(str_eqz(kube_annotation(stored(), "graphcore.ai/address"), "10.0.0.1:8445"),
	   "the address");
	snprintf(acquired, sizeof(acquired), "%.*s", STR_ARG(spec_text("acquireTime")));
	turns(6000, 10);
	ok(holds(&a), "still there a minute later");
	is_int(a.lost, 0, "without a break");
	ok(str_eqz(spec_text("acquireTime"), acquired), "acquireTime stays");
	ok(!str_eqz(spec_text("renewTime"), acquired), "renewTime doesn't");
	is_int(spec_int("leaseTransitions"), 0, "leaseTransitions stays");
	int64_t renewals = api_calls("patch leases");
	ok(renewals >= 28 && renewals <= 36, "%lld renewals, one each 2 s", (long long)renewals);
	is_int(api_calls("get leases"), 0, "no look: the watch tells");
	finish();
	row_end();
}

static void test_opts(void)
{
	static const struct {
		const char *name;
		struct kube_lease_opts opts;
		const char *error;
	} rows[] = {
		{"no identity", {.ns = NS, .name = LEASE}, "needs an identity"},
		{"no name", {.ns = NS, .identity = "a"}, "needs a name"},
		{"renew not shorter than duration by a fifth of itself",
		 {.ns = NS, .name = LEASE, .identity = "a", .duration_ms = 9599},
		 "times must be"},
		{"no time for a second renewal",
		 {.ns = NS, .name = LEASE, .identity = "a", .retry_ms = 4001},
		 "times must be"},
	};

	rig_begin(1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kube_lease *lease = NULL;
		struct err err = ERR_INIT;

		row_begin("%s", rows[i].name);
		is_int(kube_lease_start(kube, &rows[i].opts, &ops, &a, &lease, &err), -1, "is no");
		has_str(err.msg, rows[i].error, "and says why");
	}
	row_end();
	rig_end();
}

/* ---- a successor ---- */

static void test_release(void)
{
	int64_t at;

	row_begin("given back");
	begin();
	contend(&b, "b", NULL);
	ok(WITHIN(1000, strcmp(b.holder, "a") == 0), "the follower knows who leads");
	is_str(b.address, "10.0.0.1:8445", "and where");
	turns(500, 10);
	at = clock_mono_ms();
	kube_lease_release(a.lease, 5000, on_released, &a);
	ok(!kube_lease_held(a.lease), "not held from the moment it's given back");
	is_int(a.released, 0, "no callback from within");
	ok(WITHIN(1000, holds(&b)), "the successor has it within a second");
	note("after %lld ms", (long long)(clock_mono_ms() - at));
	is_int(a.released, 1, "it was told");
	is_int(a.release_err.kind, ERR_NONE, "without an error");
	is_int(a.lost, 0, "and wasn't told what it knew");
	is_int(spec_int("leaseTransitions"), 1, "leaseTransitions");
	is_int((int64_t)kube_annotation(stored(), "graphcore.ai/address").len, 0,
	       "the address of the old holder has gone");
	is_int(spec_int("leaseDurationSeconds"), 12, "leaseDurationSeconds is the new holder's");
	turns(500, 10);
	is_int(a.gained, 1, "who gave it back contends no more");
	finish();
	row_begin("given back, and nobody is there");
	begin();
	kube_lease_release(a.lease, 5000, on_released, &a);
	ok(WITHIN(1000, a.released == 1), "done");
	ok(stored() && spec_text("holderIdentity").len == 0, "no holder");
	is_int(spec_int("leaseDurationSeconds"), 1, "as client-go leaves it");
	finish();
	row_begin("given back while the API is away");
	begin();
	inject_api("{\"kind\":\"cut\",\"count\":0}");
	kube_lease_release(a.lease, 3000, on_released, &a);
	kube_lease_release(a.lease, 3000, on_released, &a);
	ok(WITHIN(3100, a.released == 1), "it ends when it was to, whatever the back-off is");
	ok(a.release_err.kind != ERR_NONE, "and says that it couldn't");
	finish();
	row_begin("given back, and the answer is lost");
	begin();
	inject_api("{\"kind\":\"lose\",\"verb\":\"patch\",\"count\":1}");
	kube_lease_release(a.lease, 3000, on_released, &a);
	ok(WITHIN(3000, a.released == 1), "it ends");
	is_int(a.release_err.kind, ERR_NONE, "well");
	ok(spec_text("holderIdentity").len == 0, "no holder");
	finish();
	row_begin("given back by one who doesn't have it");
	begin();
	contend(&b, "b", NULL);
	turns(100, 10);
	kube_lease_release(b.lease, 3000, on_released, &b);
	ok(WITHIN(1000, b.released == 1), "it ends");
	ok(holds(&a), "nothing happens to who has it");
	finish();
	row_end();
}

static void test_crash(void)
{
	int64_t at;

	row_begin("the holder dies");
	begin();
	contend(&b, "b", "10.0.0.2:8445");
	turns(500, 10);
	at = clock_mono_ms();
	end(&a);
	ok(!WITHIN(9900, holds(&b)), "nobody has it for 12 s from its last renewal");
	ok(WITHIN(3000, holds(&b)), "then the follower does");
	note("after %lld ms", (long long)(clock_mono_ms() - at));
	ok(str_eqz(kube_annotation(stored(), "graphcore.ai/address"), "10.0.0.2:8445"),
	   "the address is the new holder's");
	finish();
	row_begin("a holder that was started anew under the same identity");
	begin();
	end(&a);
	contend(&a, "a", NULL);
	ok(WITHIN(1000, holds(&a)), "has it at once");
	is_int(spec_int("leaseTransitions"), 0, "leaseTransitions stays");
	finish();
	row_end();
}

/* ---- the API is away ---- */

static void test_away(void)
{
	int64_t at;

	row_begin("no answer to renewals");
	begin();
	contend(&b, "b", NULL);
	turns(500, 10);
	at = clock_mono_ms();
	inject_api("{\"kind\":\"hang\",\"verb\":\"patch\",\"count\":0}");
	ok(WITHIN(9000, a.lost == 1), "it's lost");
	ok(a.lost_ms - at <= 8010, "within 8 s, after %lld ms", (long long)(a.lost_ms - at));
	ok(kube_lease_error(a.lease), "with an error for health");
	turns(2000, 10);
	ok(!holds(&a) && !holds(&b), "nobody has it");
	sim_api_clear_faults(api);
	ok(WITHIN(10000, holds(&a) || holds(&b)), "somebody has it when the API is back");
	ok(WITHIN(10000, !kube_lease_error(holds(&a) ? a.lease : b.lease)), "the error has gone");
	finish();
	row_begin("no answer to who would take it, until another has");
	begin();
	contend(&b, "b", NULL);
	turns(500, 10);
	inject_api("{\"kind\":\"hang\",\"verb\":\"patch\",\"count\":0}");
	ok(WITHIN(9000, a.lost == 1), "it's lost");
	ok(WITHIN(30000, kube_lease_error(b.lease)),
	   "nor does the other one get it, with an error for health");
	sim_api_clear_faults(api);
	edit("{\"spec\":{\"holderIdentity\":\"c\",\"leaseTransitions\":7}}");
	ok(WITHIN(15000, !kube_lease_error(a.lease) && !kube_lease_error(b.lease)),
	   "a third one leads: nothing is wrong any more");
	ok(!holds(&a) && !holds(&b), "and they follow");
	finish();
	row_begin("forbidden");
	rig_begin(1);
	inject_api("{\"kind\":\"status\",\"status\":403,\"resource\":\"leases\",\"count\":0,"
		   "\"message\":\"leases is forbidden\"}");
	contend(&a, "a", NULL);
	ok(WITHIN(5000, kube_lease_error(a.lease)), "an error for health");
	has_str(kube_lease_error(a.lease) ? kube_lease_error(a.lease)->msg : "", "forbidden",
		"that says it");
	sim_api_clear_faults(api);
	ok(WITHIN(60000, holds(&a)), "allowed, it goes on");
	finish();
	row_begin("the answer of a renewal is lost");
	begin();
	inject_api("{\"kind\":\"lose\",\"verb\":\"patch\",\"count\":3}");
	turns(3000, 10);
	ok(holds(&a), "it goes on");
	is_int(a.lost, 0, "without a break");
	finish();
	row_begin("watches aren't allowed");
	begin();
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"watch\",\"count\":0}");
	sim_api_cut_watches(api);
	contend(&b, "b", NULL);
	ok(WITHIN(5000, strcmp(b.holder, "a") == 0), "a follower asks instead");
	turns(1000, 10);
	kube_lease_release(a.lease, 5000, on_released, &a);
	ok(WITHIN(4000, holds(&b)), "and takes over by the retry timer");
	finish();
	row_end();
}

/* ---- people ---- */

static void test_edits(void)
{
	row_begin("deleted by hand");
	begin();
	contend(&b, "b", NULL);
	turns(300, 10);
	sim_objects_remove(objects, sim_objects_get(objects, leases(), STR(NS), STR(LEASE)));
	ok(WITHIN(1000, stored()), "made anew");
	turns(3000, 10);
	ok(holds(&a), "by its holder");
	is_int(a.lost, 0, "without a break");
	is_int(b.gained, 0, "nobody else had it");
	row_begin("given to somebody else by hand");
	edit("{\"spec\":{\"holderIdentity\":\"somebody\",\"leaseDurationSeconds\":null}}");
	ok(WITHIN(500, a.lost == 1), "lost at once");
	is_str(a.holder, "somebody", "who leads");
	ok(!WITHIN(11900, holds(&a) || holds(&b)), "nobody has it for 12 s");
	ok(WITHIN(3000, holds(&a) || holds(&b)), "then it's taken");
	row_begin("emptied by hand");
	int64_t was = a.gained + b.gained;
	edit("{\"spec\":null}");
	turns(3000, 10);
	is_int(a.gained + b.gained, was, "its holder keeps it");
	ok(spec_text("holderIdentity").len == 1, "and writes itself in");
	row_begin("annotated by hand");
	edit("{\"metadata\":{\"annotations\":{\"x\":\"y\"},\"labels\":{\"l\":\"m\"}}}");
	turns(1000, 10);
	ok(str_eqz(kube_annotation(stored(), "x"), "y"), "what isn't ours stays");
	finish();
	row_end();
}

static void test_frees(void)
{
	row_begin("freed by its own callback");
	begin();
	a.frees = true;
	edit("{\"spec\":{\"holderIdentity\":\"somebody\"}}");
	ok(WITHIN(500, a.lost == 1), "lost");
	ok(!a.lease, "and freed");
	turns(10, 10);
	finish();
	row_begin("the loop was held up");
	begin();
	turns(300, 10);
	clock_advance(20000);
	ok(a.leads && !holds(&a), "held says no before it was told");
	turn(0);
	turn(0);
	is_int(a.lost, 1, "then it's told");
	ok(WITHIN(3000, holds(&a)), "and takes it again");
	finish();
	row_end();
}

/* ---- two, through faults ---- */

static void disturb(void)
{
	static const char *const faults[] = {
		"{\"kind\":\"lose\",\"resource\":\"leases\",\"count\":2}",
		"{\"kind\":\"hang\",\"resource\":\"leases\",\"count\":2}",
		"{\"kind\":\"cut\",\"resource\":\"leases\",\"count\":20}",
		"{\"kind\":\"status\",\"status\":503,\"resource\":\"leases\",\"count\":3}",
		"{\"kind\":\"status\",\"status\":409,\"resource\":\"leases\",\"verb\":\"patch\"}",
		"{\"kind\":\"garbage\",\"resource\":\"leases\",\"count\":1}",
	};
	struct contender *c = rand_below(2) ? &a : &b;
	const char *name = c == &a ? "a" : "b";
	uint64_t what = rand_below(12);

	if (what < 6) {
		inject_api(faults[what]);
	} else if (what == 6) {
		sim_api_cut_watches(api);
	} else if (what == 7) {
		sim_api_clear_faults(api);
	} else if (what == 8) {
		sim_objects_compact(objects);
		sim_api_cut_watches(api);
	} else if (what == 9) {
		end(c);
		contend(c, name, NULL);
	} else if (what == 10) {
		clock_advance((int64_t)rand_below(30000));
	} else if (c->lease) {
		kube_lease_release(c->lease, 2000, on_released, c);
		for (unsigned i = 0; i < 100 && !c->released; i++)
			turn(20);
		end(c);
		contend(c, name, NULL);
	}
}

static void test_two(void)
{
	bool both = false;
	uint64_t held = 0, steps = 0;
	unsigned changes = 0;

	row_begin("two through faults");
	rand_seed(7);
	begin();
	contend(&b, "b", NULL);
	for (unsigned i = 0; i < 400 && !both; i++) {
		disturb();
		for (unsigned j = 0; j < 100 && !both; j++, steps++) {
			bool was = holds(&b);
			turn((unsigned)rand_below(150));
			both = holds(&a) && holds(&b);
			held += holds(&a) || holds(&b);
			changes += holds(&b) != was;
		}
	}
	ok(!both, "never both");
	note("%llu steps, held in %llu, %u changes", (unsigned long long)steps,
	     (unsigned long long)held, changes);
	ok(held > steps / 3, "mostly somebody");
	ok(changes > 20, "it changed hands");
	finish();
	row_end();
}

int main(void)
{
	log_set_level(LOG_ERROR);
	test_first();
	test_opts();
	test_release();
	test_crash();
	test_away();
	test_edits();
	test_frees();
	test_two();
	return done_testing();
}
