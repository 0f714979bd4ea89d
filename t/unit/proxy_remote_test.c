/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions through another process: the keeper's end (partition_remote), the proxy's TLS port and
 * the manager behind it, in one loop. Requests are held back, answers are lost, both ends are made
 * anew; what is asked for comes, what is released goes, and what others asked for is left alone.
 */
#include "proxy_rig.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "partition/remote.h"
#include "proxy/internal.h"

static struct proxy *proxy;
static struct http_server *front_server;
static unsigned front_port;
static char token_file[] = "/tmp/proxy_remote_test.XXXXXX";

static struct kube_client *remote_kube;
static struct partition_remote *remote;
static struct partition_service *ps;
static bool remote_synced;

/* ---- the proxy's end, and somebody between who delays and loses ---- */

static bool holding;               /* requests wait here … */
static struct http_exchange *held; /* … as this one does */
static int lose = -1;              /* a method whose next request takes effect, unanswered */
static struct partition_ask lost;  /* what that one says */
static const char *says;           /* the answer to all requests; NULL: the proxy's */
static unsigned n_lost;
static unsigned long n_requests;

static void on_held_abort(struct http_exchange *ex, void *arg)
{
	(void)arg;
	if (held == ex)
		held = NULL;
}

static void act_and_lose(struct http_exchange *ex)
{
	if (ex->method == HTTP_METHOD_POST)
		partition_ensure(parts, &lost);
	else
		partition_release(parts, lost.owner.uid, lost.instance);
	n_lost++;
	lose = -1;
	http_reply_begin(ex, 200, "application/json", NULL, 0);
	http_reply_write(ex, STR("{"));
	http_reply_abort(ex);
}

static void front(struct http_exchange *ex, void *arg)
{
	n_requests++;
	if ((int)ex->method == lose) {
		act_and_lose(ex);
	} else if (says) {
		http_reply(ex, 200, "application/json", NULL, 0, str_of(says));
	} else if (holding && !held) {
		held = ex;
		http_exchange_on_abort(ex, on_held_abort, NULL);
	} else {
		proxy_handle_partitions(ex, arg);
	}
}

static void let_go(void)
{
	struct http_exchange *ex = held;

	holding = false;
	held = NULL;
	if (ex)
		proxy_handle_partitions(ex, proxy);
}

static void on_parts_changed(const struct partition_owner *owner, void *arg)
{
	(void)arg;
	if (proxy)
		proxy_partition_changed(proxy, owner);
}

static enum proxy_page page = PROXY_PAGE_OFF;

static void proxy_begin(void)
{
	struct partitions_config pc = {
		.ns = NS, .tracker_name = TRACKER, .times = partition_times_default, .rules = site};
	struct proxy_config config;
	struct http_server_config sc = {.on_answered = proxy_on_answered};
	CLEANUP_FREE char *listen = xasprintf("127.0.0.1:%u", front_port);
	struct err err = ERR_INIT;

	synced = false;
	parts = partitions_new(loop, kube, fleet, &pc, on_synced, on_parts_changed, NULL);
	config = (struct proxy_config){.loop = loop,
				       .partitions = parts,
				       .fleet = fleet,
				       .accounts = TRUSTED,
				       .page = page,
				       .kube = kube};
	proxy = sc.on_answered_arg = proxy_new(&config);
	front_server = http_server_new(net, &sc);
	if (http_server_listen(front_server, listen, tls.for_server, front, proxy, &front_port,
			       &err) < 0)
		bail_out(err.msg);
}

static void proxy_end(void)
{
	holding = false;
	held = NULL;
	http_server_free(front_server);
	proxy_free(proxy);
	proxy = NULL;
	partitions_free(parts);
	parts = NULL;
}

/* As kill -9, with nobody there for a while. */
static void proxy_restart(unsigned away_ms)
{
	proxy_end();
	vipu_fleet_free(fleet);
	kube_client_free(kube);
	turns(away_ms / 10 + 4, 10);
	make_client();
	fleet = vipu_fleet_new(net, NULL);
	configure(true);
	proxy_begin();
}

/* ---- the keeper's end ---- */

static void on_remote_synced(void *arg)
{
	(void)arg;
	remote_synced = true;
}

static bool leads = true;

static bool may_act(void *arg)
{
	(void)arg;
	return leads;
}

static bool late_tls; /* the keeper begins before it knows whom to trust */

static void remote_begin(void)
{
	CLEANUP_FREE char *url = xasprintf("https://127.0.0.1:%u", front_port);
	struct partition_remote_config config = {.url = url,
						 .tls = late_tls ? NULL : tls.for_client,
						 .server_name = "localhost",
						 .token_file = token_file,
						 .ns = NS,
						 .tracker_name = TRACKER,
						 .may_act = may_act};
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = kube_config};
	struct err err = ERR_INIT;

	remote_synced = false;
	if (kube_client_new(&opts, &remote_kube, &err) < 0 ||
	    partition_remote_new(net, remote_kube, &config, on_remote_synced, on_change, NULL,
				 &remote, &err) < 0)
		bail_out(err.msg);
	ps = partition_remote_service(remote);
}

static void remote_end(void)
{
	partition_remote_free(remote);
	kube_client_free(remote_kube);
	turns(4, 0);
}

static void write_token(const char *text)
{
	FILE *f = fopen(token_file, "w");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		bail_out("the token's file");
}

/* One row: both ends, which have heard of each other. */
static void both_begin(const char *what)
{
	row_begin("%s", what);
	rig_begin(16);
	fleet = vipu_fleet_new(net, NULL);
	configure(true);
	front_port = 0;
	credentials_make();
	write_token(token);
	proxy_begin();
	remote_begin();
	ok(WITHIN(5000, synced && remote_synced), "both have read the tracker");
	ok(WITHIN(5000, partitions_count_fits(parts, 64) == 1), "and the proxy its controller");
}

static void both_end(void)
{
	remote_end();
	proxy_end();
	ok(!violated, "the invariants held");
	vipu_fleet_free(fleet);
	credentials_done();
	rig_end();
	row_end();
}

static void ask_for(const char *uid, uint32_t ipus)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ps->ops->ensure(ps, &ask);
}

static void let(const char *uid)
{
	ps->ops->release(ps, uid, 0);
}

static struct partition_status told(const char *uid)
{
	struct partition_status st;

	ps->ops->get_status(ps, uid, 0, &st);
	return st;
}

static bool hears(const char *uid, enum partition_state state)
{
	return told(uid).state == state;
}

static void count_seat(const struct partition_ask *ask, const struct partition_status *st,
		       void *arg)
{
	(void)ask;
	(void)st;
	++*(unsigned *)arg;
}

static unsigned n_seats(void)
{
	unsigned n = 0;

	ps->ops->each(ps, count_seat, &n);
	return n;
}

/* Neither end remembers anything, and no key is left in the tracker. */
static bool all_over(const char *uid)
{
	return is_over(uid) && n_waits() == 0 && ps->ops->held(ps, uid) == 0 && n_seats() == 0;
}

static void ends_well(const char *uid)
{
	let(uid);
	ok(WITHIN(60000, all_over(uid)), "released: nothing is left anywhere");
}

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

/* Whatever stands there, nothing overflows. */
static void test_large_numbers(void)
{
	struct partition_status st;

	both_begin("numbers that nobody can mean");
	says = "{\"state\":\"active\",\"id\":\"p\",\"limitSeconds\":9223372036854775807,"
	       "\"position\":-1,\"attempt\":4294967296,\"resets\":99999999999,\"port\":74626}";
	ask_for("u", 4);
	ok(WITHIN(20000, hears("u", PARTITION_STATE_ACTIVE)), "the answer counts");
	st = told("u");
	is_int(st.deadline_ms, 0, "no limit");
	is_uint(st.position, 0, "no place in the queue");
	is_uint(st.resets, 0, "no resets");
	is_uint(st.port, 0, "no port, and not another one");
	is_uint(st.wanted_attempt, 0, "no attempt");
	says = NULL;
	ends_well("u");
	both_end();
}

static int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* What a pass over one job asks. */
static int64_t time_looks(void)
{
	int64_t began = cpu_us();
	uint32_t more;

	for (int i = 0; i < 3000; i++) {
		(void)ps->ops->held(ps, "u-0");
		(void)ps->ops->asked_from(ps, "u-0", 0, &more, 1);
		ps->ops->release_all(ps, "nobody");
	}
	return cpu_us() - began;
}

static void ask_for_many(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		CLEANUP_FREE char *uid = xasprintf("u-%u", i);

		ask_for(uid, 4);
	}
}

static void test_many(void)
{
	int64_t few, many;

	both_begin("a look at one of many");
	leads = false; /* nothing is sent */
	ask_for_many(0, 8);
	few = time_looks();
	ask_for_many(8, 4096);
	many = time_looks();
	ok(many < 20 * few + 1000, "costs what one of few does: %" PRId64 " us, %" PRId64 " us",
	   few, many);
	is_uint(ps->ops->held(ps, "u-77"), 1, "each is there");
	for (unsigned i = 0; i < 4096; i++) {
		CLEANUP_FREE char *uid = xasprintf("u-%u", i);

		ps->ops->release_all(ps, uid);
	}
	leads = true;
	ok(WITHIN(20000, n_seats() == 0), "and goes");
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

#define HELD(n, items) "{\"held\":" n ",\"items\":[" items "]}"

/* How many are held, as far as the proxy knows; -1: it doesn't. */
static int64_t known(void)
{
	size_t more = 0;

	return told_each(proxy, NULL, NULL, &more) ? (int64_t)more : -1;
}

/* Tells it all the time, as the daemon does. Returns how many requests that were. */
static unsigned long tell_for(unsigned ms, const char *json)
{
	unsigned long before = n_requests;

	for (unsigned i = 0; i < ms / 100; i++) {
		partition_remote_tell_held(remote, str_of(json));
		turns(10, 10);
	}
	return n_requests - before;
}

static void test_held(void)
{
	page = PROXY_PAGE_USAGE;
	both_begin("what is held");
	is_int(known(), -1, "nobody has told");
	is_uint(tell_for(1000, HELD("3", "")), 1, "it's told once");
	is_int(known(), 3, "and known");
	is_uint(tell_for(1000, HELD("4", "")), 1, "something else is told");
	is_int(known(), 4, "and known");
	tell_for(60000, HELD("4", ""));
	is_int(known(), 4, "what stays so is told again, and is known");
	leads = false;
	is_uint(tell_for(30000, HELD("5", "")), 0, "who doesn't lead tells nothing");
	is_int(known(), 4, "it's known a while longer");
	turns(2000, 10);
	is_int(known(), -1, "and then not any more");
	leads = true;
	tell_for(1000, HELD("0", ""));
	is_int(known(), 0, "that there is none is known, too");
	write_token("nobody's");
	turns(7000, 10);
	is_int(known(), -1, "nor for ever");
	unsigned long n = tell_for(60000, HELD("1", ""));
	ok(n > 1 && n <= 13, "where it's refused it's tried now and then: %lu", n);
	is_int(known(), -1, "and not known");
	write_token(token);
	ok(WITHIN(120000, (tell_for(100, HELD("1", "")), known() == 1)), "until the token is good");
	both_end();

	page = PROXY_PAGE_OFF;
	both_begin("what is held, without a page");
	is_uint(tell_for(50000, HELD("3", "")), 1, "is told once a minute");
	is_int(known(), -1, "and not kept");
	both_end();
}

int main(void)
{
	int fd = mkstemp(token_file);

	if (fd < 0)
		bail_out("no file for the token");
	close(fd);
	test_life();
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
	test_conflict();
	test_only_adopt();
	test_large_numbers();
	test_many();
	test_held();
	metrics_reset();
	unlink(token_file);
	return done_testing();
}
