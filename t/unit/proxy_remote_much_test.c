/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions through another process: numbers that nobody can mean, thousands of owners, and what
 * the keeper tells for the page.
 */
#include "proxy_remote_rig.h"

#include <inttypes.h>
#include <time.h>

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

#define HELD(n, items) "{\"held\":" n ",\"items\":[" items "]}"

/* How many are held, as far as the proxy knows; -1: it doesn't. */
static int64_t known(void)
{
	size_t more = 0;

	return told_each(proxy, NULL, NULL, &more) ? (int64_t)more : -1;
}

/* Returns how many requests there were in that time. */
static unsigned long let_pass(unsigned ms)
{
	unsigned long before = n_requests;

	turns(ms / 10, 10);
	return n_requests - before;
}

static unsigned long tell_for(unsigned ms, unsigned which, const char *json)
{
	unsigned long before = n_requests;

	partition_remote_tell(remote, which, str_of(json));
	let_pass(ms);
	return n_requests - before;
}

static unsigned n_pods;

static void count_pod(void *arg, const struct proxy_pod *pod)
{
	(void)arg;
	n_pods += strcmp(pod->name, "train-0") == 0 && strcmp(pod->phase, "Running") == 0;
}

static unsigned known_pods(void)
{
	const struct partition_owner owner = {.uid = (char[]){"u"}};

	n_pods = 0;
	told_pods(proxy, &owner, 0, count_pod, NULL);
	return n_pods;
}

#define PODS                                                                                       \
	"{\"items\":[{\"owner\":\"u\",\"instance\":0,\"pods\":[{\"name\":\"train-0\","             \
	"\"phase\":\"Running\",\"node\":\"n\"}]}]}"

static void test_told(void)
{
	page = PROXY_PAGE_FULL;
	both_begin("what is told");
	is_int(known(), -1, "nobody has told");
	is_uint(let_pass(60000), 0, "and nothing is asked");
	is_uint(tell_for(1000, 0, HELD("3", "")), 1, "it's told once");
	is_int(known(), 3, "and known");
	is_uint(tell_for(1000, 0, HELD("4", "")), 1, "something else is told");
	is_int(known(), 4, "and known");
	is_uint(tell_for(1000, 0, HELD("4", "")), 0, "the same isn't");
	is_uint(tell_for(1000, 5, PODS), 1, "Pods, too");
	is_uint(known_pods(), 1, "and known");
	is_uint(let_pass(150000), 10, "that it's the same is said each 15 s");
	is_int(known(), 4, "and it's known");
	is_uint(known_pods(), 1, "all of it");
	leads = false;
	is_uint(tell_for(40000, 0, HELD("5", "")), 0, "who doesn't lead tells nothing");
	is_int(known(), 4, "it's known a while longer");
	let_pass(10000);
	ok(known() == -1 && known_pods() == 0, "and then not any more");
	leads = true;
	ok(WITHIN(6000, known() == 5), "until it leads again");
	ok(WITHIN(20000, known_pods() == 1), "and what hasn't changed is told again");
	told_forget(proxy);
	ok(WITHIN(20000, known() == 5 && known_pods() == 1), "to another process, too");
	tell_for(1000, 3, "{\"items\":7}");
	is_uint(tell_for(1000, 0, HELD("6", "")), 1, "what isn't taken holds nothing else up");
	let_pass(120000);
	ok(known() == 6 && known_pods() == 1, "nor does anything go by it");
	tell_for(1000, 3, "{\"items\":[]}");
	let_pass(60000);
	write_token("nobody's");
	let_pass(120000);
	is_int(known(), -1, "nor for ever");
	unsigned long n = tell_for(60000, 0, HELD("1", ""));
	ok(n > 1 && n <= 13, "where it's refused it's tried now and then: %lu", n);
	is_int(known(), -1, "and not known");
	write_token(token);
	ok(WITHIN(120000, known() == 1), "until the token is good");
	both_end();

	page = PROXY_PAGE_OFF;
	both_begin("what is told, without a page");
	is_uint(tell_for(50000, 0, HELD("3", "")), 1, "is told once a minute");
	is_int(known(), -1, "and not kept");
	both_end();
}

int main(void)
{
	token_file_make();
	test_large_numbers();
	test_many();
	test_told();
	token_file_done();
	return done_testing();
}
