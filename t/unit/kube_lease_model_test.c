/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of leadership on their own: a table of what follows from what is known, and a model of
 * contenders with clocks of their own, late requests, lost replies, crashes and people's edits, in
 * which never two may hold the Lease at the same time. IPU_TEST_SEED and IPU_TEST_STEPS set its
 * run.
 */
#include "tap.h"

#include "core/rand.h"
#include "kube/lease_plan.h"

/* ---- the table ---- */

static const struct kube_lease_opts opts_a = {.ns = "ns", .name = "l", .identity = "a"};

static struct lease_record record(const char *holder, int version, int64_t duration_ms)
{
	struct lease_record r = {.duration_ms = duration_ms};

	snprintf(r.holder, sizeof(r.holder), "%s", holder);
	snprintf(r.version, sizeof(r.version), "%d", version);
	snprintf(r.uid, sizeof(r.uid), "uid");
	return r;
}

/* A contender that began at time 0. */
static struct lease_state begun(void)
{
	struct lease_state s;

	lease_init(&s, &opts_a, 0);
	return s;
}

static void expect(struct lease_state *s, int64_t now, bool live, enum lease_action action)
{
	struct lease_step step = lease_plan(s, now, live);

	is_int(step.action, action, "the action at %lld", (long long)now);
	if (step.action == LEASE_WAIT)
		ok(step.at_ms > now, "waits until %lld, which is later", (long long)step.at_ms);
}

static struct lease_state held_since(int64_t sent_ms)
{
	struct lease_state s = begun();
	struct lease_record r = record("a", 5, KUBE_LEASE_DURATION_MS);

	lease_saw(&s, NULL, sent_ms);
	lease_written(&s, &r, sent_ms, sent_ms + 10);
	return s;
}

static void test_nobody(void)
{
	struct lease_state s = begun();
	struct lease_record r = record("", 7, 1000);

	row_begin("nothing is known");
	expect(&s, 0, true, LEASE_WAIT);
	expect(&s, 2000, true, LEASE_LOOK);
	row_begin("it isn't there, and never was");
	lease_saw(&s, NULL, 10);
	expect(&s, 10, true, LEASE_CREATE);
	ok(!lease_holder(&s, 10), "nobody holds it");
	row_begin("given back by its holder");
	lease_saw(&s, &r, 20);
	expect(&s, 20, true, LEASE_TAKE);
	ok(!lease_holder(&s, 20), "nobody holds it");
}

static void test_theirs(void)
{
	static const struct {
		const char *name, *holder;
		int64_t duration_ms, before_ms, after_ms;
	} rows[] = {
		{"another's", "b", 12000, 11999, 12400},
		{"another's, with less time than ours", "b", 3000, 11999, 12400},
		{"another's, with more time than ours", "b", 60000, 59999, 60400},
		{"another's, that says no time", "b", 0, 11999, 12400},
		{"no holder, but not given back either", "", 12000, 11999, 12400},
		{"nothing in it", "", 0, 11999, 12400},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lease_state s = begun();
		struct lease_record r = record(rows[i].holder, 5, rows[i].duration_ms);

		row_begin("%s", rows[i].name);
		lease_saw(&s, &r, 0);
		expect(&s, 2500, false, LEASE_LOOK);
		expect(&s, 2999, true, LEASE_WAIT);
		expect(&s, 3400, true, LEASE_LOOK); /* the watch may be dead */
		lease_saw(&s, &r, rows[i].before_ms - 100);
		expect(&s, rows[i].before_ms, true, LEASE_WAIT);
		ok(!lease_holder(&s, 1) == !rows[i].holder[0], "who holds it");
		lease_saw(&s, &r, 9000);
		expect(&s, rows[i].after_ms, true, LEASE_TAKE);
		ok(!lease_holder(&s, rows[i].after_ms), "nobody holds it when the time is over");
		snprintf(r.version, sizeof(r.version), "6");
		lease_saw(&s, &r, rows[i].before_ms);
		expect(&s, rows[i].after_ms, true, LEASE_WAIT);
	}
	row_end();
}

static void test_ours(void)
{
	struct lease_state s = begun();
	struct lease_record r = record("a", 5, KUBE_LEASE_DURATION_MS);

	row_begin("ours, from an earlier life");
	lease_saw(&s, &r, 0);
	ok(!lease_holds(&s, 0), "isn't held");
	ok(!lease_holder(&s, 0), "nobody holds it");
	expect(&s, 0, true, LEASE_TAKE);
	row_begin("held");
	s = held_since(1000);
	ok(lease_holds(&s, 8999), "until just before its time is over");
	ok(!lease_holds(&s, 9000), "not when it's over, by the sending");
	is_str(lease_holder(&s, 5000)->holder, "a", "we are the holder");
	expect(&s, 1010, true, LEASE_WAIT);
	expect(&s, 3000, true, LEASE_RENEW);
	expect(&s, 9000, true, LEASE_TAKE);
	row_begin("the reply of a renewal comes too late");
	s = held_since(1000);
	r.version[0] = '6';
	lease_written(&s, &r, 3000, 13000);
	ok(!lease_holds(&s, 13000), "isn't held");
	expect(&s, 13000, true, LEASE_TAKE);
	row_begin("another's while we hold it");
	s = held_since(1000);
	r = record("b", 9, KUBE_LEASE_DURATION_MS);
	lease_saw_by_watch(&s, &r, 2000);
	ok(!lease_holds(&s, 2000), "lost at once");
	expect(&s, 3000, true, LEASE_WAIT);
	row_begin("an older version by the watch while we hold it");
	s = held_since(1000);
	r = record("b", 4, KUBE_LEASE_DURATION_MS);
	lease_saw_by_watch(&s, &r, 2000);
	ok(lease_holds(&s, 2000), "is nothing new");
	row_begin("emptied by hand while we hold it");
	s = held_since(1000);
	r = record("", 9, 1000);
	lease_saw_by_watch(&s, &r, 1500);
	ok(lease_holds(&s, 1500), "still held");
	expect(&s, 1500, true, LEASE_RENEW);
	row_end();
}

static void test_deleted(void)
{
	struct lease_state s = held_since(1000);
	struct lease_record r = record("b", 5, KUBE_LEASE_DURATION_MS);

	row_begin("deleted while we hold it");
	lease_saw_by_watch(&s, NULL, 2000);
	ok(lease_holds(&s, 2000), "still held");
	expect(&s, 2000, true, LEASE_CREATE);
	ok(!lease_holds(&s, 9000), "no longer than without it");
	row_begin("another's, deleted");
	s = begun();
	lease_saw(&s, &r, 0);
	lease_saw_by_watch(&s, NULL, 5000);
	expect(&s, 6999, true, LEASE_WAIT);
	expect(&s, 7400, true, LEASE_CREATE);
	r = record("a", 7, KUBE_LEASE_DURATION_MS);
	snprintf(r.uid, sizeof(r.uid), "another");
	lease_written(&s, &r, 7400, 7500);
	ok(!lease_holds(&s, 7500), "made anew, it isn't held at once");
	lease_saw(&s, &r, 19000);
	expect(&s, 19499, true, LEASE_WAIT);
	expect(&s, 19900, true, LEASE_TAKE);
	row_begin("another's, then ours by a request that came late");
	s = begun();
	r = record("b", 5, KUBE_LEASE_DURATION_MS);
	lease_saw(&s, &r, 0);
	r = record("a", 6, KUBE_LEASE_DURATION_MS);
	lease_saw(&s, &r, 100);
	lease_saw(&s, &r, 11000);
	expect(&s, 11999, true, LEASE_WAIT);
	expect(&s, 12400, true, LEASE_TAKE);
	row_end();
}

static struct err failure(enum err_kind kind, unsigned retry_after_ms)
{
	struct err err = ERR_INIT;

	err_set(&err, kind, 0, "a test");
	err.retry_after_ms = retry_after_ms;
	return err;
}

static void test_failures(void)
{
	struct lease_state s = held_since(1000);
	struct err err = failure(ERR_CONFLICT, 0);

	row_begin("409 on a renewal");
	lease_failed(&s, LEASE_RENEW, &err, 2990, 3000);
	ok(lease_holds(&s, 3000), "still held");
	expect(&s, 3000, true, LEASE_LOOK);
	lease_failed(&s, LEASE_RENEW, &err, 3000, 3001);
	lease_failed(&s, LEASE_RENEW, &err, 3001, 3002);
	row_begin("409 again and again");
	expect(&s, 3003, true, LEASE_WAIT);
	expect(&s, 4500, true, LEASE_LOOK);
	row_begin("no reply to a renewal: time is left for another");
	s = held_since(1000);
	err = failure(ERR_TIMEOUT, 0);
	lease_failed(&s, LEASE_RENEW, &err, 3000, 7000);
	expect(&s, 7000, true, LEASE_RENEW);
	ok(!lease_holds(&s, 9000), "counts as none");
	row_begin("a renewal is refused at once");
	s = held_since(1000);
	lease_failed(&s, LEASE_RENEW, &err, 3000, 3010);
	expect(&s, 3999, true, LEASE_WAIT);
	expect(&s, 4400, true, LEASE_RENEW);
	row_begin("a wait that the server asks for");
	s = begun();
	lease_saw(&s, NULL, 0);
	err = failure(ERR_BUSY, 30000);
	lease_failed(&s, LEASE_CREATE, &err, 0, 0);
	expect(&s, 29999, true, LEASE_WAIT);
	expect(&s, 30000, true, LEASE_CREATE);
	row_begin("404 on a renewal");
	s = held_since(1000);
	err = failure(ERR_NOT_FOUND, 0);
	lease_failed(&s, LEASE_RENEW, &err, 2990, 3000);
	expect(&s, 3000, true, LEASE_CREATE);
	row_begin("404 on a create: no namespace");
	s = begun();
	lease_saw(&s, NULL, 0);
	lease_failed(&s, LEASE_CREATE, &err, 0, 0);
	expect(&s, 1, true, LEASE_WAIT);
	row_end();
}

/* ---- the model ---- */

#define CONTENDERS 3
#define LIMBO      64

/* The server's one object. */
static struct {
	bool there;
	struct lease_record r;
	int version, uid;
} server;

struct contender {
	struct lease_state s;
	char identity[16];
	unsigned lives;
	double rate;       /* of its clock */
	int64_t offset_ms; /* of its clock */
	int64_t paused_until_ms;
	bool away; /* can't reach the server */
	bool calling;
	enum lease_action action;
	int64_t sent_ms, give_up_ms; /* its own clock */
	unsigned call_id;
	int seen_event; /* the watch has shown this version of the server */
};

/* A request on its way, or an answer. Its sender may have given it up, or died. */
struct message {
	bool used, is_answer;
	unsigned contender, call_id, lives;
	enum lease_action action;
	char identity[16];
	int version; /* the precondition */
	int64_t at_ms;
	enum err_kind kind; /* of an answer; ERR_NONE: record */
	bool there;
	struct lease_record r;
};

static struct contender all[CONTENDERS];
static struct message limbo[LIMBO];
static int64_t now_ms; /* the world's time */
static int64_t deleted_ms;
static unsigned call_ids;

enum count {
	N_GAINED,
	N_LOST_BY_TIME,
	N_TAKEN_OVER,
	N_CONFLICT,
	N_LATE_EFFECT,
	N_LOST_REPLY,
	N_DELETED,
	N_EDITED,
	N_CRASH,
	N_PAUSE,
	N_AWAY,
	N_GIVEN_BACK,
	N_COUNTS
};
static unsigned long counts[N_COUNTS];
static const char *const count_names[] = {
	"gained",  "lost by time", "taken over", "conflicts", "late effects", "lost replies",
	"deleted", "edited",       "crashes",    "pauses",    "API away",     "given back"};

static int64_t clock_of(const struct contender *c)
{
	return (int64_t)((double)now_ms * c->rate) + c->offset_ms;
}

static int chance(unsigned per_mille)
{
	return rand_below(1000) < per_mille;
}

static void live_again(unsigned i)
{
	struct contender *c = &all[i];
	struct kube_lease_opts opts = {.ns = "ns", .name = "l", .identity = c->identity};

	snprintf(c->identity, sizeof(c->identity), "%c%u", 'a' + (char)i, ++c->lives);
	c->rate = 0.9 + (double)rand_below(201) / 1000;
	c->offset_ms = (int64_t)rand_below(1000000000);
	c->paused_until_ms = 0;
	c->away = false;
	c->calling = false;
	c->seen_event = -1;
	lease_init(&c->s, &opts, clock_of(c));
}

static void send(struct message m)
{
	for (size_t i = 0; i < LIMBO; i++) {
		if (!limbo[i].used) {
			limbo[i] = m;
			limbo[i].used = true;
			return;
		}
	}
	/* No room: it's lost. */
}

static void write_server(const char *holder, int64_t duration_ms)
{
	server.version++;
	server.there = true;
	server.r.duration_ms = duration_ms;
	snprintf(server.r.holder, sizeof(server.r.holder), "%s", holder);
	snprintf(server.r.version, sizeof(server.r.version), "%d", server.version);
	snprintf(server.r.uid, sizeof(server.r.uid), "%d", server.uid);
}

static bool is_sender_there(const struct message *m)
{
	const struct contender *c = &all[m->contender];

	return c->lives == m->lives && c->calling && c->call_id == m->call_id;
}

/* A request takes effect. */
static void arrive(const struct message *m)
{
	struct message answer = *m;

	answer.is_answer = true;
	answer.kind = ERR_NONE;
	if (m->action == LEASE_CREATE) {
		if (server.there) {
			answer.kind = ERR_EXISTS;
		} else {
			server.uid++;
			write_server(m->identity, KUBE_LEASE_DURATION_MS);
		}
	} else if (!server.there) {
		answer.kind = ERR_NOT_FOUND;
	} else if (m->action != LEASE_LOOK) {
		if (m->version != server.version) {
			answer.kind = ERR_CONFLICT;
			counts[N_CONFLICT]++;
		} else {
			bool gives_back = m->action == LEASE_WAIT;

			counts[N_TAKEN_OVER] += strcmp(server.r.holder, m->identity) != 0;
			counts[N_LATE_EFFECT] += !is_sender_there(m);
			write_server(gives_back ? "" : m->identity,
				     gives_back ? 1000 : KUBE_LEASE_DURATION_MS);
		}
	}
	answer.r = server.r;
	answer.at_ms = now_ms + (int64_t)rand_below(chance(50) ? 20000 : 50);
	if (chance(950))
		send(answer);
	else
		counts[N_LOST_REPLY]++;
}

static void hear(const struct message *m)
{
	struct contender *c = &all[m->contender];
	struct err err = failure(m->kind, 0);

	if (!is_sender_there(m))
		return;
	c->calling = false;
	if (m->kind != ERR_NONE)
		lease_failed(&c->s, m->action, &err, c->sent_ms, clock_of(c));
	else if (m->action == LEASE_LOOK)
		lease_saw(&c->s, &m->r, clock_of(c));
	else
		lease_written(&c->s, &m->r, c->sent_ms, clock_of(c));
}

static void act(unsigned i)
{
	struct contender *c = &all[i];
	int64_t now = clock_of(c);
	bool held = c->s.held;

	if (c->calling && now >= c->give_up_ms) {
		struct err err = failure(ERR_TIMEOUT, 0);

		c->calling = false;
		lease_failed(&c->s, c->action, &err, c->sent_ms, now);
	}
	/* The watch shows the newest version, sooner or later. */
	if (!c->away && c->seen_event != server.version * 2 + server.there && chance(300)) {
		lease_saw_by_watch(&c->s, server.there ? &server.r : NULL, now);
		c->seen_event = server.version * 2 + server.there;
	}
	if (c->calling)
		return;
	struct lease_step step = lease_plan(&c->s, now, !c->away);
	counts[N_LOST_BY_TIME] += held && !c->s.held;
	if (step.action == LEASE_WAIT)
		return;
	c->calling = true;
	c->action = step.action;
	c->sent_ms = now;
	c->give_up_ms = now + KUBE_LEASE_RENEW_MS / 2;
	c->call_id = ++call_ids;
	struct message m = {.contender = i,
			    .call_id = c->call_id,
			    .lives = c->lives,
			    .action = step.action,
			    .version = atoi(c->s.record.version)};
	memcpy(m.identity, c->identity, sizeof(m.identity));
	m.at_ms = now_ms + (int64_t)rand_below(chance(50) ? 60000 : 50);
	if (!c->away)
		send(m);
}

/* The one thing that the rules can't cover (doc/design/leadership.md): the Lease is deleted by hand
 * while its holder can't be reached, and one that never saw it makes it. */
static bool may_delete(void)
{
	bool all_saw = server.there;

	for (unsigned i = 0; i < CONTENDERS; i++)
		all_saw = all_saw && all[i].s.was_there;
	return all_saw;
}

/* Whoever holds it gives it back and is started anew, or dies. */
static void end_life(unsigned i)
{
	struct contender *c = &all[i];

	if (now_ms - deleted_ms < 30000)
		return;
	if (lease_holds(&c->s, clock_of(c)) && !c->s.stale && c->s.known == LEASE_THERE &&
	    !c->away && chance(500)) {
		struct message m = {.contender = i,
				    .action = LEASE_WAIT,
				    .version = atoi(c->s.record.version),
				    .at_ms = now_ms + (int64_t)rand_below(200)};

		memcpy(m.identity, c->identity, sizeof(m.identity));
		send(m);
		counts[N_GIVEN_BACK]++;
	} else {
		counts[N_CRASH]++;
	}
	live_again(i);
}

static void disturb(void)
{
	unsigned i = (unsigned)rand_below(CONTENDERS);
	struct contender *c = &all[i];

	switch (rand_below(6)) {
	case 0:
		end_life(i);
		break;
	case 1:
		c->paused_until_ms = now_ms + (int64_t)rand_below(40000);
		counts[N_PAUSE]++;
		break;
	case 2:
	case 3:
		c->away = !c->away;
		counts[N_AWAY] += c->away;
		break;
	case 4:
		if (may_delete()) {
			server.there = false;
			server.version++;
			deleted_ms = now_ms;
			counts[N_DELETED]++;
		}
		break;
	default:
		/* An annotation, or the holder taken out by hand: not as its holder gives it back.
		 */
		if (server.there)
			write_server(chance(500) ? server.r.holder : "", KUBE_LEASE_DURATION_MS);
		counts[N_EDITED] += server.there;
		break;
	}
}

static unsigned holders(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CONTENDERS; i++)
		n += lease_holds(&all[i].s, clock_of(&all[i]));
	return n;
}

static void step_world(void)
{
	unsigned before = holders();

	now_ms += (int64_t)rand_below(200);
	for (size_t i = 0; i < LIMBO; i++) {
		struct message m = limbo[i];

		if (!m.used || m.at_ms > now_ms)
			continue;
		if (m.is_answer && all[m.contender].paused_until_ms > now_ms)
			continue;
		limbo[i].used = false;
		if (m.is_answer)
			hear(&m);
		else
			arrive(&m);
	}
	for (unsigned i = 0; i < CONTENDERS; i++) {
		if (all[i].paused_until_ms <= now_ms)
			act(i);
	}
	if (chance(6))
		disturb();
	counts[N_GAINED] += holders() > before;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *z = getenv(name);

	return z && z[0] ? strtoull(z, NULL, 10) : otherwise;
}

static void test_model(void)
{
	uint64_t seed = setting("IPU_TEST_SEED", 1), steps = setting("IPU_TEST_STEPS", 2000000);
	uint64_t with_holder = 0, step = 0;
	bool two = false;

	rand_seed(seed);
	for (unsigned i = 0; i < CONTENDERS; i++)
		live_again(i);
	deleted_ms = -1000000;
	for (; step < steps && !two; step++) {
		step_world();
		two = holders() > 1;
		with_holder += holders() == 1;
	}
	if (two)
		diag("seed %llu, step %llu", (unsigned long long)seed, (unsigned long long)step);
	ok(!two, "never two hold it at the same time");
	note("%llu steps, somebody held it in %llu", (unsigned long long)step,
	     (unsigned long long)with_holder);
	ok(with_holder > step / 3, "somebody holds it, most of the time");
	for (size_t i = 0; i < N_COUNTS; i++) {
		note("%s: %lu", count_names[i], counts[i]);
		ok(counts[i] > steps / 20000, "not rare: %s", count_names[i]);
	}
}

int main(void)
{
	test_nobody();
	test_theirs();
	test_ours();
	test_deleted();
	test_failures();
	test_model();
	return done_testing();
}
