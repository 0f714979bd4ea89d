/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's certificates without memory: an allocation of mbedTLS's fails once while a set is
 * judged, and while it's renewed; the first ones each, then one in so many, since a signature takes
 * thousands. What is good needs nothing, and the authority stays.
 */
#include "tap.h"
#include "no_memory.h"

#include "cert/set.h"
#include "core/clock.h"
#include "net_calloc.h"

static const char *const name = "proxy.ns.svc";
static struct cert_names names;
static struct cert_policy policy;

static void make_set(struct cert_set *ret)
{
	struct cert_set none = {0};
	struct cert_judgement j;
	struct err err = ERR_INIT;

	cert_judge(&none, &names, &policy, clock_wall_ms(), &j);
	if (cert_renew(&none, &j, &names, &policy, clock_wall_ms(), ret, &err) < 0)
		bail_out(err.msg);
}

static void test_judging(const struct cert_set *set)
{
	unsigned needy = 0, unread = 0;
	struct no_memory m = {NO_MEMORY_OF_MBEDTLS, .sparse = 60, .most = 100000};

	while (no_memory_next(&m)) {
		struct cert_judgement j;

		no_memory_begin(&m);
		cert_judge(set, &names, &policy, clock_wall_ms(), &j);
		no_memory_end(&m);
		unread += j.unread;
		if (j.need != CERT_NOTHING || j.damaged || (!j.unread && !j.usable)) {
			diag("allocation %lu: %s", m.n, j.why);
			needy++;
		}
	}
	no_memory_ok(&m, 20);
	ok(unread > 20, "%u times it isn't known", unread);
	is_uint(needy, 0, "it never needs anything");
}

/* Its leaf has had its time. */
static void test_renewing(const struct cert_set *set)
{
	unsigned others = 0, failed = 0;
	struct no_memory m = {NO_MEMORY_OF_MBEDTLS, .sparse = 60, .most = 100000};
	struct cert_judgement j;

	cert_judge(set, &names, &policy, clock_wall_ms(), &j);
	is_int(j.need, CERT_NEW_LEAF, "the leaf is due");
	while (no_memory_next(&m)) {
		struct cert_set anew = {0};
		struct err err = ERR_INIT;

		no_memory_begin(&m);
		failed += cert_renew(set, &j, &names, &policy, clock_wall_ms(), &anew, &err) < 0;
		no_memory_end(&m);
		if (anew.ca && strcmp(anew.ca, set->ca) != 0) {
			diag("allocation %lu: another authority", m.n);
			others++;
		}
		cert_set_done(&anew);
	}
	no_memory_ok(&m, 20);
	ok(failed > 20, "%u times it isn't done", failed);
	is_uint(others, 0, "the authority stays");
}

int main(void)
{
	struct cert_set set = {0};

	clock_freeze(1000000, INT64_C(1717200000000));
	names = (struct cert_names){.v = (char **)(uintptr_t)&name, .n = 1};
	cert_policy_fill(&policy);
	make_set(&set);
	test_judging(&set);
	clock_advance(70 * CERT_DAY_MS);
	test_renewing(&set);
	cert_set_done(&set);
	return done_testing();
}
