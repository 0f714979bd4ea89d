/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's rules, a row for each line of doc/design/queue.md's table and more: controllers
 * as strings of IPUs, the queue as a string of asks, and what becomes of each. Then what a decision
 * costs.
 */
#include "tap.h"

#include <time.h>

#include "core/rand.h"
#include "core/str.h"
#include "partition/schedule.h"

#define NOW_MS  INT64_C(1717200000000)
#define MOST    4 /* controllers of a row */
#define QUOTAS  3
#define DOMAINS 8

/* A controller: flags, a blank, its IPUs. Flags: '!' may not be asked, '?' none of its
 * nodes is ready, '~' an old view, '%' has
 * enough to do, '+N' a partition of N that isn't listed yet, '@X' allocation X, '=XY' label of its
 * nodes, '_' none. IPUs: '.'
 * free, 'h' in a partition made by hand, 'n' in one whose end isn't known, '1' to '9' in one that
 * ends in so many hundred seconds; "X*N" is N of them. An ask: size, "/S" longest use in seconds,
 * "@X" allocation, "=XY,XY" labels of its node, "^N" refused by controller N, "#N" of namespace N.
 * The quotas: "max:used". A verdict: "sN" served by N, "lN" look, "bN" busy, 'w' no room, 'q'
 * queued, 't' too large, 'dN' N could if a node of it were ready, 'n' nobody, 'u' quota; "rN"
 * behind it: with a reservation there, "rN+S" expected in S seconds. */
static const struct {
	const char *name;
	bool best;
	const char *controllers[MOST];
	const char *asks, *want;
	const char *quotas[QUOTAS];
} rows[] = {
	/* choice */
	{"fits, nothing is reserved", false, {"_ .*8"}, "4 4", "s0 s0", {0}},
	{"the first of the list", false, {"_ .*8", "_ .*8"}, "4", "s0", {0}},
	{"the first with room", false, {"_ nnn.", "_ .*8"}, "2 1", "s1 s0", {0}},
	{"best fit: the smallest hole", true, {"_ .*64", "_ nn..n*4", "_ .*8"}, "2", "s1", {0}},
	{"best fit: then the fewest free", true, {"_ ..nn..nn", "_ ..nnnnnn"}, "2", "s1", {0}},
	{"best fit: then the first", true, {"_ .*8", "_ .*8"}, "2", "s0", {0}},
	{"best fit: a row of domains", true, {"_ .*256", "_ .*128"}, "128", "s1", {0}},
	{"aligned within a domain", false, {"_ n......n"}, "4 2", "wr0 s0", {0}},
	{"128 takes two whole domains", false, {"_ .*256"}, "128 128 1", "s0 s0 wr0", {0}},
	{"256 takes four", false, {"_ .*256"}, "256", "s0", {0}},
	{"128 not in two that aren't neighbours", false, {"_ .*64n.*63.*64"}, "128", "wr0", {0}},
	{"128 in any two neighbours", false, {"_ n*64.*128n*64"}, "128", "s0", {0}},
	{"what isn't listed yet takes room", false, {"+4 .*8"}, "8 4 4", "wr0 q q", {0}},
	{"… of its own size", false, {"+4 .*8"}, "4 4", "s0 wr0", {0}},
	{"… wherever it may be", false, {"+1 .*8"}, "4 4", "s0 wr0", {0}},
	/* who may be asked */
	{"fits, by an old view", false, {"~ .*8", "_ .*8"}, "8 8", "l0 s1", {0}},
	{"fits where enough is asked for", false, {"% .*8"}, "4 4 4", "b0 b0 wr0", {0}},
	{"cordoned", false, {"! .*8", "_ ...."}, "8 4", "t s1", {0}},
	{"no controller may be asked", false, {"! .*8"}, "4 4", "n n", {0}},
	{"no controller at all", false, {NULL}, "4", "n", {0}},
	{"larger than any", false, {"_ .*8", "_ ...."}, "16 8", "t s0", {0}},
	{"65536 and more", false, {"_ .*64"}, "65536 131072", "t t", {0}},
	{"an allocation that one has", false, {"@a .*4", "@b .*4"}, "2@b 2 2@c", "s1 s0 n", {0}},
	{"one that any may have", false, {"@a .*4", "_ .*4"}, "2@x 2@a", "s1 s0", {0}},
	{"from its node", false, {"=ka .*4", "=kb .*4"}, "2=kb 2=ka,kb 2 2=kc", "s1 s0 s0 n", {0}},
	{"from any node", false, {"=ka ....", "_ .*4"}, "4=kb 4=kb 4=ka", "s1 wr1 s0", {0}},
	{"its own controller has no room",
	 false,
	 {"=ka nnnn", "=kb .*4"},
	 "2=ka 2=ka 2=kb 2",
	 "wr0 w s1 s1",
	 {0}},
	{"what waits for one node keeps nothing of another",
	 false,
	 {"=ka n.nn", "=kb .*4"},
	 "2=ka 1=ka 4=kb 1=kb",
	 "wr0 q s1 wr1",
	 {0}},
	{"larger than what its node reaches", false, {"=ka .*4", "=kb .*8"}, "8=ka 8", "t s1", {0}},
	{"none of its nodes is ready", false, {"? .*8"}, "4 4", "d0 d0", {0}},
	{"… and another controller's are", false, {"? .*8", "_ .*8"}, "4", "s1", {0}},
	{"… and another has no room now", false, {"? .*8", "_ n*8"}, "4", "wr1", {0}},
	{"… and another is too small", false, {"? .*8", "_ .*4"}, "8 16 4", "d0 t s1", {0}},
	{"… and another may not be asked", false, {"! .*8", "? .*8"}, "4", "d1", {0}},
	{"… nor is it for the ask", false, {"?@a .*8", "! .*8"}, "4@a 4@b", "d0 n", {0}},
	{"… nor is it reached", false, {"?=ka .*4", "_ .*4"}, "2=ka 4=kb 2=ka", "s1 wr1 q", {0}},
	{"the only one that is reached", false, {"?=ka .*4", "=kb .*4"}, "2=ka 2=kb", "d0 s1", {0}},
	{"what has no node that is ready keeps nothing", false, {"? n.*7"}, "8 4", "d0 d0", {0}},
	{"… and its quota is for others", false, {"? .*8", "_ .*4"}, "8#0 4#0", "u s1", {"4:0"}},
	{"refused by one: the other", false, {"_ .*4", "_ .*4"}, "2^0 2", "s1 s0", {0}},
	{"refused by the only one: again", false, {"_ .*4"}, "2^0", "s0", {0}},
	/* reservations */
	{"the first that has no room", false, {"_ n.*7"}, "8 4", "wr0 q", {0}},
	{"only the first", false, {"_ n.*7", "_ n.*7"}, "8 8 4", "wr0 w s1", {0}},
	{"the block that is free first", false, {"_ 2*8", "_ 1*8"}, "8", "wr1+100", {0}},
	{"then the least in the way", false, {"_ nn......", "_ n......."}, "8 4", "wr1 s0", {0}},
	{"then the first controller", false, {"_ n*8", "_ n*8"}, "8", "wr0", {0}},
	{"the last place there", false, {"_ n...n..."}, "4 2 2 2", "wr0 s0 q q", {0}},
	{"a known end is before none", false, {"_ .......n", "_ 9*8"}, "8 2", "wr1+900 s0", {0}},
	{"an end that has passed is now", false, {"_ 0*8"}, "8", "wr0+0", {0}},
	{"by hand: no reservation", false, {"_ h.*7"}, "8 4", "w s0", {0}},
	{"by hand in one block only", false, {"_ h...n*4"}, "4 1 4", "wr0 s0 w", {0}},
	{"the next size has it then", false, {"_ h.n.n.n."}, "8 2 1", "w wr0 s0", {0}},
	{"cordoned holds none", false, {"! n.*7", "_ n*8"}, "8", "wr1", {0}},
	{"too large holds none", false, {"_ n.*7"}, "16 4", "t s0", {0}},
	{"two rows of domains", false, {"_ n*64n*64.*64n.*63"}, "128 64 32", "wr0 q q", {0}},
	{"one for each allocation",
	 false,
	 {"@a n.*7", "@b n.*7"},
	 "8@a 8@b 4@a 4@b",
	 "wr0 wr1 q q",
	 {0}},
	{"names that no controller has are one",
	 false,
	 {"_ n.*7", "_ n.*7"},
	 "8@x 8@y 4@z",
	 "wr0 w s1",
	 {0}},
	/* overtaking */
	{"inside, no known start, no end", false, {"_ n.*7"}, "8 1", "wr0 q", {0}},
	{"inside, no known start, ends", false, {"_ n.*7"}, "8 1/3600", "wr0 s0", {0}},
	{"inside, ends before the start", false, {"_ 2.*7"}, "8 1/140", "wr0+200 s0", {0}},
	{"inside, ends after it", false, {"_ 2.*7"}, "8 1/141", "wr0+200 q", {0}},
	{"outside in both ways", false, {"_ .n..n..."}, "4 1", "wr0 s0", {0}},
	{"outside until that is full", false, {"_ n.nn...n"}, "4 1 1", "wr0 s0 q", {0}},
	{"the smallest hole is inside", false, {"_ ..nnnnnn.*4n.nn"}, "8 1", "wr0 q", {0}},
	{"the first place is inside", false, {"_ n..n..nn.*4nnnnnn"}, "4 2 1", "s0 s0 s0", {0}},
	{"what isn't listed goes first", false, {"+1 n.nn...n"}, "4 1", "wr0 q", {0}},
	{"on another controller", false, {"_ n.*7", "_ .*4"}, "8 4 1", "wr0 s1 q", {0}},
	{"a block is free: nobody else goes there",
	 false,
	 {"+1 n*4.*60.*64"},
	 "64 1 1/9",
	 "wr0+0 q q",
	 {0}},
	{"first in its group has it, whatever the size", false, {"_ n*8"}, "1 8 4", "wr0 w w", {0}},
	/* quotas */
	{"under its quota", false, {"_ .*8"}, "2#0", "s0", {"16:14"}},
	{"over its quota", false, {"_ .*8"}, "4#0 1#1 4", "u s0 s0", {"16:14", "-1:99"}},
	{"those behind it wait too", false, {"_ .*8"}, "4#0 2#0", "u u", {"16:14"}},
	{"… unless they end", false, {"_ .*8"}, "4#0 2/9#0", "u s0", {"16:14"}},
	{"more than the quota by itself", false, {"_ .*8"}, "4#0 2#0", "u s0", {"2:0"}},
	{"a quota is used up", false, {"_ .*8"}, "2#0 2#0 2#0", "s0 s0 u", {"4:0"}},
	{"what a reservation will need counts",
	 false,
	 {"_ n.*7", "_ .*4"},
	 "8#0 4#0 4",
	 "wr0 u s1",
	 {"8:0"}},
	{"one that fits nowhere keeps no quota", false, {"_ .*4"}, "8#0 2#0", "u s0", {"8:4"}},
};

/* ---- from strings ---- */

struct pod {
	struct schedule_controller c;
	uint64_t taken[DOMAINS];
	struct schedule_hold holds[DOMAINS * 64];
	struct schedule_return pending[4];
	char allocation[4], label[4];
};

static unsigned long number(const char **z)
{
	char *end;
	unsigned long n = strtoul(*z, &end, 10);

	*z = end;
	return n;
}

static void add_ipu(struct pod *p, unsigned at, char what)
{
	uint64_t bit = UINT64_C(1) << (at % 64);
	int64_t until = what == 'n' ? SCHEDULE_NEVER : NOW_MS + (what - '0') * INT64_C(100000);

	if (what == '.') {
		p->taken[at / 64] &= ~bit;
		p->c.free_ipus++;
	} else if (what != 'h') {
		if (what == '0')
			until = NOW_MS - 5000;
		p->holds[p->c.n_holds++] = (struct schedule_hold){at / 64, bit, until};
	}
	p->c.total_ipus++;
}

static void make_pod(struct pod *p, const char *z)
{
	unsigned at = 0;

	*p = (struct pod){.c = {.open = true, .fresh = true, .max_unanswered = 64}};
	memset(p->taken, 0xff, sizeof(p->taken));
	while (*z != ' ') {
		char flag = *z++;

		if (flag == '!')
			p->c.open = false;
		else if (flag == '?')
			p->c.open = !(p->c.no_node = true);
		else if (flag == '~')
			p->c.fresh = false;
		else if (flag == '%')
			p->c.unanswered = 64;
		else if (flag == '@')
			p->allocation[0] = *z++;
		else if (flag == '=')
			z += snprintf(p->label, 3, "%s", z) ? 2 : 0;
		else if (flag == '+')
			p->pending[p->c.n_pending++] = (struct schedule_return){
				SCHEDULE_NEVER, (uint32_t)number(&z)};
	}
	for (z++; *z;) {
		char what = *z++;
		unsigned long n = 1;

		if (*z == '*') {
			z++;
			n = number(&z);
		}
		while (n-- > 0)
			add_ipu(p, at++, what);
	}
	p->c.pending = p->pending;
	p->c.taken = p->taken;
	p->c.n_domains = (at + 63) / 64;
	p->c.holds = p->holds;
	p->c.allocation = p->allocation;
	p->c.label = p->label;
}

struct ask {
	struct schedule_ask a;
	char allocation[4], labels[16];
	unsigned refusals[MOST];
};

static const char *make_ask(struct ask *ask, const char *z, struct schedule_quota *quotas)
{
	*ask = (struct ask){.a = {.ipus = (uint32_t)number(&z)}};
	for (; *z && *z != ' ';) {
		char what = *z++;

		if (what == '/') {
			ask->a.deadline_ms = (int64_t)number(&z) * 1000;
		} else if (what == '@') {
			ask->allocation[0] = *z++;
			ask->a.allocation = ask->allocation;
		} else if (what == '=') {
			size_t len = strcspn(z, " ");

			snprintf(ask->labels, sizeof(ask->labels), "%.*s", (int)len, z);
			ask->a.node_labels = ask->labels;
			z += len;
		} else if (what == '^') {
			ask->refusals[number(&z)]++;
			ask->a.refusals = ask->refusals;
		} else if (what == '#') {
			ask->a.quota = &quotas[number(&z)];
		}
	}
	return *z ? z + 1 : z;
}

static void make_quotas(struct schedule_quota *q, const char *const *texts)
{
	for (size_t i = 0; i < QUOTAS && texts[i]; i++) {
		long max = 0, used = 0;

		sscanf(texts[i], "%ld:%ld", &max, &used);
		q[i] = (struct schedule_quota){.max_ipus = max, .used_ipus = used};
	}
}

static size_t describe(const struct schedule_decision *d, bool with_time, char *out, size_t room)
{
	static const char letters[] = "slbwqdtnu";
	size_t len = (size_t)snprintf(out, room, "%c", letters[d->verdict]);

	if (d->verdict <= SCHEDULE_BUSY || d->verdict == SCHEDULE_NO_NODE)
		len += (size_t)snprintf(out + len, room - len, "%zu", d->controller);
	if (d->reserved)
		len += (size_t)snprintf(out + len, room - len, "r%zu", d->block.controller);
	if (d->reserved && d->start_ms != SCHEDULE_NEVER && with_time)
		len += (size_t)snprintf(out + len, room - len, "+%" PRId64,
					(d->start_ms - NOW_MS) / 1000);
	return len;
}

static void test_rows(void)
{
	static struct pod pods[MOST];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct schedule_controller controllers[MOST];
		struct schedule_quota quotas[QUOTAS] = {{0}};
		struct schedule *s;
		char got[256] = "";
		size_t n = 0, len = 0;

		row_begin("%s", rows[i].name);
		for (; n < MOST && rows[i].controllers[n]; n++) {
			make_pod(&pods[n], rows[i].controllers[n]);
			controllers[n] = pods[n].c;
		}
		make_quotas(quotas, rows[i].quotas);
		s = schedule_new(rows[i].best ? SCHEDULE_BEST_FIT : SCHEDULE_FIRST_FIT, NOW_MS,
				 controllers, n);
		for (const char *z = rows[i].asks; *z;) {
			struct schedule_decision d;
			struct ask ask;

			z = make_ask(&ask, z, quotas);
			schedule_decide(s, &ask.a, &d);
			len += (size_t)snprintf(got + len, sizeof(got) - len, len ? " " : "");
			len += describe(&d, true, got + len, sizeof(got) - len);
		}
		is_str(got, rows[i].want, "verdicts");
		schedule_free(s);
	}
	row_end();
}

static void test_after(void)
{
	static struct pod pods[2];
	struct schedule_controller controllers[2];
	struct schedule_ask ask = {.ipus = 8};
	struct schedule_decision d;
	struct schedule *s;

	row_begin("after the queue");
	make_pod(&pods[0], "_ n...n.*11");
	make_pod(&pods[1], "+4 .*16");
	controllers[0] = pods[0].c;
	controllers[1] = pods[1].c;
	controllers[1].open = false;
	s = schedule_new(SCHEDULE_FIRST_FIT, NOW_MS, controllers, 2);
	is_int(schedule_count(s, 0, 8), 1, "eight side by side");
	is_int(schedule_count(s, 0, 4), 2, "two of four");
	is_int(schedule_count(s, 0, 3), 0, "three is no size");
	is_int(schedule_count(s, 1, 4), 0, "none on one that may not be asked");
	schedule_decide(s, &ask, &d);
	is_int(d.verdict, SCHEDULE_SERVE, "one is served");
	schedule_decide(s, &ask, &d);
	ok(d.reserved, "the next waits");
	is_int(schedule_reserved(s, 0), 6, "what is free of its block is kept");
	is_int(schedule_count(s, 0, 4), 0, "with what was just served, none of four is left");
	is_int(schedule_reserved(s, 1), 0, "nothing elsewhere");
	schedule_free(s);
	controllers[1].open = true;
	s = schedule_new(SCHEDULE_FIRST_FIT, NOW_MS, controllers, 2);
	is_int(schedule_count(s, 1, 4), 3, "what isn't listed yet is taken off");
	schedule_free(s);
	row_end();
}

/* ---- what it costs ---- */

static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#define FLEET 16

/* 16 controllers of 256 IPUs with about 1,000 partitions of four. */
static void make_fleet(struct pod *pods, struct schedule_controller *controllers)
{
	for (size_t i = 0; i < FLEET; i++) {
		make_pod(&pods[i], "_ .*256");
		for (unsigned at = 0; at < 256; at += 4) {
			struct pod *p = &pods[i];
			int64_t until = rand_below(2) ? SCHEDULE_NEVER
						      : NOW_MS + (int64_t)rand_below(3600000);

			if (rand_below(64) == 0)
				continue;
			p->taken[at / 64] |= UINT64_C(15) << (at % 64);
			p->holds[p->c.n_holds++] = (struct schedule_hold){
				at / 64, UINT64_C(15) << (at % 64), until};
			p->c.free_ipus -= 4;
		}
		controllers[i] = pods[i].c;
	}
}

/* Of a queue of n: nanoseconds for the whole of it. */
static int64_t run_queue(const struct schedule_controller *controllers, unsigned n)
{
	int64_t begin = cpu_ns();
	struct schedule *s = schedule_new(SCHEDULE_BEST_FIT, NOW_MS, controllers, FLEET);

	for (unsigned i = 0; i < n; i++) {
		struct schedule_ask ask = {.ipus = 1U << rand_below(9)};
		struct schedule_decision d;

		ask.deadline_ms = rand_below(2) ? 0 : (int64_t)rand_below(7200) * 1000;
		schedule_decide(s, &ask, &d);
	}
	schedule_free(s);
	return cpu_ns() - begin;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int64_t median_of(const struct schedule_controller *controllers, unsigned n)
{
	int64_t ns[21];

	for (size_t i = 0; i < 21; i++)
		ns[i] = run_queue(controllers, n);
	qsort(ns, 21, sizeof(ns[0]), compare);
	return ns[10];
}

static void test_speed(void)
{
	static struct pod pods[FLEET];
	struct schedule_controller controllers[FLEET];
	int64_t one, many, most;
	size_t n = 0;

	row_begin("speed");
	rand_seed(7);
	make_fleet(pods, controllers);
	for (size_t i = 0; i < FLEET; i++)
		n += controllers[i].n_holds;
	one = median_of(controllers, 1);
	many = median_of(controllers, 500);
	most = median_of(controllers, 5000);
	note("%zu partitions, %d controllers: one decision %" PRId64 " us, a queue of 500 %" PRId64
	     " us, of 5000 %" PRId64 " us (medians of 21, processor time)",
	     n, FLEET, one / 1000, many / 1000, most / 1000);
	ok(one < 1000000, "one decision in less than a millisecond: %" PRId64 " us", one / 1000);
	ok(most < 200000000, "5000 in less than 200: %" PRId64 " us", most / 1000);
	row_end();
}

int main(void)
{
	test_rows();
	test_after();
	test_speed();
	return done_testing();
}
