/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions through another process: requests are held back, answers are lost, both ends are made
 * anew; what is asked for comes, what is released goes, and what others asked for is left alone.
 */
#include "proxy_remote_rig.h"
#include "no_memory.h"

/* ---- rows ---- */

static void test_life(void)
{
	struct vipu_sim_partition p;

	both_begin("a life");
	ask_for("u", 4);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	ok(vipu_sim_find(sim, told("u").id, &p) && p.size == 4, "there it is");
	ok(told("u").label_key && strcmp(told("u").label_key, "pod") == 0, "with its label");
	is_uint(ps->ops->held(ps, "u"), 1, "one is held");
	ends_well("u");
	ask_for("v", 64);
	ask_for("w", 64);
	ok(WITHIN(5000, hears("v", PARTITION_STATE_ACTIVE) && hears("w", PARTITION_STATE_WAITING)),
	   "one has it all, the other waits");
	ok(WITHIN(5000, told("w").why == PARTITION_WHY_NO_ROOM), "and knows for what");
	let("v");
	ok(WITHIN(20000, hears("w", PARTITION_STATE_ACTIVE)), "then it's the other's turn");
	ok(WITHIN(5000, hears("v", PARTITION_STATE_NONE)), "the first has gone");
	ends_well("w");
	both_end();
}

/* Each of the first allocations fails once whose size a peer decides, at either end: the partition
 * comes, once, is never said to be refused, and goes. (With more of them the token runs out.) */
static void test_memory(void)
{
	unsigned late = 0, refused = 0, left = 0;

	both_begin("without memory");
	struct no_memory m = {.most = 400};

	while (no_memory_next(&m)) {
		no_memory_begin(&m);
		ask_for("u", 4);
		for (int i = 0; i < 6000 && !hears("u", PARTITION_STATE_ACTIVE); i++) {
			turn(10);
			if (strstr(told("u").message, "the proxy refuses")) {
				diag("allocation %lu: %s", m.n, told("u").message);
				refused++;
				break;
			}
		}
		late += !WITHIN(60000, hears("u", PARTITION_STATE_ACTIVE));
		let("u");
		left += !WITHIN(60000, all_over("u"));
		no_memory_end(&m);
	}
	is_uint(late, 0, "each time it comes");
	is_uint(refused, 0, "and isn't refused");
	is_uint(left, 0, "nothing is left of it");
	is_uint(vipu_sim_created(sim), m.tries, "nor is another made");
	both_end();
}

static void begin_held(const char *what)
{
	both_begin(what);
	holding = true;
	ask_for("u", 4);
	ok(WITHIN(5000, held), "the request is on its way");
}

static void test_on_the_way(void)
{
	struct vipu_sim_partition p;

	begin_held("asked otherwise while the first word is on its way");
	ask_for("u", 8);
	let_go();
	ok(WITHIN(20000, told("u").id && hears("u", PARTITION_STATE_ACTIVE) &&
				 vipu_sim_find(sim, told("u").id, &p) && p.size == 8),
	   "the last word counts");
	ok(WITHIN(20000, vipu_sim_len(sim) == 1), "and there is only one");
	ends_well("u");
	both_end();

	begin_held("released while the ask is on its way");
	let("u");
	turns(10, 10);
	ok(hears("u", PARTITION_STATE_RELEASING), "it may have it yet");
	let_go();
	ok(WITHIN(60000, all_over("u")), "nothing is left");
	both_end();

	begin_held("released and asked for again while the ask is on its way");
	let("u");
	ask_for("u", 4);
	let_go();
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	ends_well("u");
	both_end();

	both_begin("released and asked for again at once");
	ask_for("u", 4);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	CLEANUP_FREE char *id = xstrdup(told("u").id);
	let("u");
	ask_for("u", 4);
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE) && strcmp(told("u").id, id) != 0),
	   "another one");
	ok(WITHIN(20000, vipu_sim_len(sim) == 1), "the first goes");
	ends_well("u");
	both_end();

	begin_held("an owner that is made again");
	let("u");
	ask_for("u2", 4);
	let_go();
	ok(WITHIN(20000, hears("u2", PARTITION_STATE_ACTIVE)), "active");
	ok(WITHIN(20000, hears("u", PARTITION_STATE_NONE)), "the old one has gone");
	ends_well("u2");
	both_end();
}

static void test_lost(void)
{
	unsigned before = 0;

	both_begin("answers are lost");
	lost = ask_of("u", 0, 4);
	n_lost = 0;
	lose = HTTP_METHOD_POST;
	ask_for("u", 4);
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE)), "active all the same");
	is_uint(n_lost, 1, "the answer to the ask was lost");
	is_uint(vipu_sim_created(sim), 1, "one was made");
	before = told("u").resets;
	lose = HTTP_METHOD_POST;
	lost.attempt = 1;
	ps->ops->ensure(ps, &lost);
	ok(!hears("u", PARTITION_STATE_ACTIVE), "what there is isn't for another run");
	is_uint(told("u").ask->attempt, 0, "it's for the one before");
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE)), "active again");
	is_uint(told("u").ask->attempt, 1, "for that run");
	is_uint(told("u").resets - before, 1, "by one reset");
	is_uint(n_lost, 2, "that answer was lost too");
	lose = HTTP_METHOD_DELETE;
	ends_well("u");
	is_uint(n_lost, 3, "and that to the release");
	both_end();
}

static void test_restarts(void)
{
	both_begin("the proxy is killed");
	ask_for("u", 64);
	ask_for("v", 64);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	ok(WITHIN(5000, told("v").why == PARTITION_WHY_NO_ROOM), "the other waits");
	CLEANUP_FREE char *id = xstrdup(told("u").id);
	proxy_restart(30000);
	ok(WITHIN(30000, synced), "it's back");
	ok(hears("u", PARTITION_STATE_ACTIVE) && strcmp(told("u").id, id) == 0, "what runs, runs");
	proxy_end();
	let("u");
	turns(500, 10);
	ok(hears("u", PARTITION_STATE_RELEASING), "released while nobody is there");
	ok(WITHIN(5000, told("v").why == PARTITION_WHY_PROXY), "which who waits is told");
	vipu_fleet_free(fleet);
	fleet = vipu_fleet_new(net, NULL);
	configure(true);
	proxy_begin();
	ok(WITHIN(60000, hears("v", PARTITION_STATE_ACTIVE)), "then the other has them");
	ends_well("v");
	both_end();

	both_begin("the keeper is killed");
	ask_for("u", 64);
	ask_for("v", 64);
	ok(WITHIN(5000,
		  hears("u", PARTITION_STATE_ACTIVE) && told("v").why == PARTITION_WHY_NO_ROOM),
	   "one has it all, one waits");
	remote_end();
	remote_begin();
	ok(WITHIN(5000, remote_synced), "it has read the tracker");
	ok(hears("u", PARTITION_STATE_ACTIVE) && hears("v", PARTITION_STATE_WAITING),
	   "and knows what its predecessor asked for");
	let("u");
	ok(WITHIN(20000, hears("v", PARTITION_STATE_ACTIVE)), "one after the other");
	remote_end();
	partition_release(parts, "v", 0);
	remote_begin();
	ok(WITHIN(20000, all_over("v")), "what was released meanwhile isn't asked for again");
	both_end();
}

static void test_token(void)
{
	both_begin("a token that isn't good any more");
	write_token("stale");
	clock_advance(61000);
	ask_for("u", 4);
	ok(WITHIN(5000, told("u").why == PARTITION_WHY_PROXY), "the owner is told");
	ok(partition_remote_error(remote)->kind != ERR_NONE, "and health");
	write_token(token);
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE)), "a new one is read by itself");
	ends_well("u");
	both_end();
}

static void test_health(void)
{
	late_tls = true;
	both_begin("whom to trust is known late");
	ok(partition_remote_error(remote)->kind == ERR_NONE, "nobody asks: nothing is wrong");
	ask_for("u", 4);
	ok(WITHIN(5000, told("u").why == PARTITION_WHY_PROXY), "an owner is told");
	ok(partition_remote_error(remote)->kind != ERR_NONE, "and health");
	leads = false;
	ok(partition_remote_error(remote)->kind == ERR_NONE, "not of one that doesn't lead");
	leads = true;
	partition_remote_set_tls(remote, tls.for_client);
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE)), "then it has its IPUs");
	ok(partition_remote_error(remote)->kind == ERR_NONE, "nothing is wrong");
	ends_well("u");
	proxy_end();
	ask_for("v", 4);
	ok(WITHIN(5000, partition_remote_error(remote)->kind != ERR_NONE), "the proxy is away");
	proxy_begin();
	late_tls = false;
	ends_well("v");
	ok(partition_remote_error(remote)->kind == ERR_NONE, "nothing is wrong");
	both_end();
}

/* Its Service has others, and may lead there next time. */
static void test_gone(void)
{
	both_begin("a proxy that is gone without a word");
	ask_for("u", 4);
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	proxy_end();
	turns(4, 10);
	int mute = mute_begin(&front_port);
	int64_t began = clock_mono_ms();
	ask_for("v", 4);
	ok(WITHIN(20000, partition_remote_error(remote)->kind != ERR_NONE), "it's found out");
	int64_t took = clock_mono_ms() - began;
	ok(took >= 3000 && took < 3500, "after 3 s (%lld ms)", (long long)took);
	close(mute);
	proxy_begin();
	ok(WITHIN(20000, hears("v", PARTITION_STATE_ACTIVE)), "another one answers");
	let("u");
	ends_well("v");
	both_end();
}

/* Partitions that a Pod asked for with its own token, or the keeper of other namespaces. */
static void test_others(void)
{
	static const char *const kinds[] = {"Pod", "IPUJob"};

	for (size_t i = 0; i < 2; i++) {
		struct partition_ask ask = ask_of("other", 0, 4);

		both_begin("somebody else's partition");
		ask.owner.kind = TEXT(kinds[i]);
		partition_ensure(parts, &ask);
		ok(WITHIN(5000, is("other", PARTITION_STATE_ACTIVE)), "%s: active", kinds[i]);
		turns(2000, 10);
		ok(is("other", PARTITION_STATE_ACTIVE), "%s: stays so", kinds[i]);
		remote_end();
		remote_begin();
		ok(WITHIN(5000, remote_synced), "this end is made anew");
		turns(2000, 10);
		ok(is("other", PARTITION_STATE_ACTIVE), "%s: stays so", kinds[i]);
		partition_release(parts, "other", 0);
		ok(WITHIN(60000, all_over("other")), "%s: its owner's word ends it", kinds[i]);
		both_end();
	}
}

/* What isn't written in the tracker is heard of too. */
static void test_quiet_news(void)
{
	both_begin("PS_ERROR");
	ask_for("u", 4);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	turns(300, 10);
	vipu_sim_break(sim, told("u").id, "IPU 3 is hot", false, NULL);
	ok(WITHIN(120000, is("u", PARTITION_STATE_FAILED)), "the proxy sees it");
	ok(WITHIN(70000, hears("u", PARTITION_STATE_FAILED)), "and this end");
	ends_well("u");
	both_end();
}

static void test_files(void)
{
	struct vipu_address_list list;
	CLEANUP_FREE char *text = NULL;
	struct vipu_fleet_entry entry;

	both_begin("IPUoF configuration that comes late");
	text = xasprintf("127.0.0.1:%u:pod=a", vipu_sim_port(sim));
	vipu_address_parse(str_of(text), &list);
	list.items[0].ipuof = VIPU_IPUOF_FILE;
	entry = (struct vipu_fleet_entry){.address = &list.items[0]};
	vipu_fleet_configure(fleet, &entry, 1);
	vipu_address_list_done(&list);
	inject_status(VIPU_GET_IPUOF_CONFIG, 14, "not now", 6);
	ask_for("u", 4);
	ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "the proxy has it at last");
	ok(WITHIN(10000, hears("u", PARTITION_STATE_ACTIVE) && told("u").files), "and this end");
	is_uint(ps->ops->ipuof_files(ps, "u", 0, NULL, NULL), 1, "with its file");
	ends_well("u");
	both_end();
}

static void test_orphan(void)
{
	both_begin("a controller that is gone for good");
	ask_for("u", 4);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	vipu_sim_go_down(sim);
	configure(false);
	let("u");
	ok(WITHIN(1200000, partition_held(parts, "u") == 0), "an orphan at last");
	ok(WITHIN(20000, ps->ops->held(ps, "u") == 0), "its owner may go");
	unsigned long n = n_requests;
	turns(6000, 10);
	ok(n_requests - n < 3, "and nobody asks any more: %lu", n_requests - n);
	both_end();
}

static void test_abandoned(void)
{
	both_begin("a controller that doesn't answer, and nobody waits");
	ask_for("u", 4);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	vipu_sim_go_down(sim);
	let("u");
	WITHIN(60000, false);
	is_uint(ps->ops->held(ps, "u"), 1, "held");
	ps->ops->abandon(ps, "u");
	ok(WITHIN(5000, ps->ops->held(ps, "u") == 0), "not any more");
	is_uint(n_entries(), 1, "an orphan is in the tracker");
	ask_for("v", 4);
	ok(WITHIN(5000, hears("v", PARTITION_STATE_WAITING)), "another one waits");
	ps->ops->abandon(ps, "v");
	ps->ops->abandon(ps, "nobody");
	ok(WITHIN(5000, ps->ops->held(ps, "v") == 0), "one that only waits is over at once");
	vipu_sim_come_up(sim, NULL);
	ok(WITHIN(60000, n_entries() == 0 && vipu_sim_len(sim) == 0), "removed in the end");
	both_end();
}

/* Whoever asked, and isn't heard of any more, mustn't take what is asked for since. */
static void test_attempts(void)
{
	struct partition_ask ask = ask_of("u", 0, 4);

	both_begin("another asks for another run");
	ask.attempt = 1;
	ps->ops->ensure(ps, &ask);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	is_uint(told("u").ask->attempt, 1, "for its run");
	partition_reset(parts, "u", 0);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE) && told("u").ask->attempt == 2),
	   "a person resets it: it's for another one");
	ps->ops->ensure(ps, &ask);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE) && told("u").ask->attempt == 1),
	   "its owner has its own again");
	partition_reset(parts, "u", 0);
	let("u"); /* with the number that it knows */
	ok(WITHIN(20000, ps->ops->held(ps, "u") == 0 && n_entries() == 0),
	   "a release is the owner's word all the same");
	ask.attempt = 3;
	ps->ops->ensure(ps, &ask);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "again");
	let("u");
	ask.attempt = 4;
	ps->ops->ensure(ps, &ask);
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE) && told("u").ask->attempt == 4),
	   "released and asked for at once");
	is_uint(n_entries(), 1, "it has one");
	both_end();
}

static void test_lead_lost(void)
{
	both_begin("a keeper that has lost the lead and hasn't been told yet");
	ask_for("u", 4);
	ok(WITHIN(5000, hears("u", PARTITION_STATE_ACTIVE)), "active");
	turns(200, 10);
	leads = false;
	unsigned long n = n_requests;
	let("u");
	ask_for("v", 4);
	turns(2000, 10);
	is_uint(n_requests - n, 0, "asks for nothing and releases nothing");
	ok(is("u", PARTITION_STATE_ACTIVE), "so what is used stays");
	leads = true;
	ask_for("w", 4);
	ok(WITHIN(5000, hears("v", PARTITION_STATE_ACTIVE) && hears("w", PARTITION_STATE_ACTIVE)),
	   "one that leads does");
	let("v");
	ends_well("w");
	both_end();
}

static void test_volley(void)
{
	static const char *const owners[] = {"a", "b", "c", "d", "e", "f"};

	both_begin("six requests fail with each other");
	proxy_end();
	for (size_t i = 0; i < 6; i++)
		ask_for(owners[i], 1);
	ok(WITHIN(5000, told("f").why == PARTITION_WHY_PROXY), "nobody is there");
	proxy_begin();
	ok(WITHIN(1500, hears("a", PARTITION_STATE_ACTIVE)),
	   "it's asked again as after one that failed");
	for (size_t i = 0; i < 6; i++)
		ok(WITHIN(5000, hears(owners[i], PARTITION_STATE_ACTIVE)), "%s: active", owners[i]);
	for (size_t i = 0; i < 5; i++)
		let(owners[i]);
	ends_well("f");
	both_end();
}

static void test_conflict(void)
{
	struct partition_ask other = ask_of("u", 1, 4);

	both_begin("a UID that is another owner's");
	other.owner.name = TEXT("another");
	partition_ensure(parts, &other);
	ok(WITHIN(5000, n_entries() == 1), "somebody has it");
	ask_for("u", 4);
	ok(WITHIN(5000, told("u").why == PARTITION_WHY_REFUSED), "refused");
	partition_release(parts, "u", 1);
	ok(WITHIN(120000, hears("u", PARTITION_STATE_ACTIVE)), "until that one has gone");
	ends_well("u");
	both_end();
}

static void test_only_adopt(void)
{
	struct partition_ask ask = ask_of("u", 0, 4);

	both_begin("only what is there");
	ask.legacy = TEXT("p-job-default-0");
	ask.only_adopt = true;
	ps->ops->ensure(ps, &ask);
	turns(2000, 10);
	unsigned long n = n_requests;
	turns(6000, 10);
	ok(n_requests - n < 3, "isn't asked for again and again: %lu", n_requests - n);
	ok(hears("u", PARTITION_STATE_NONE), "there is none");
	ends_well("u");
	both_end();
}

int main(void)
{
	token_file_make();
	test_life();
	test_memory();
	test_on_the_way();
	test_lost();
	test_restarts();
	test_token();
	test_health();
	test_gone();
	test_others();
	test_quiet_news();
	test_files();
	test_orphan();
	test_abandoned();
	test_attempts();
	test_lead_lost();
	test_volley();
	test_conflict();
	test_only_adopt();
	token_file_done();
	return done_testing();
}
