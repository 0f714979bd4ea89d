/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPU-seconds by namespace: exact whenever it's looked at, and bounded however many there are.
 */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "partition/usage.h"

static double seconds(const char *ns)
{
	static const char *const labels[] = {"namespace", NULL};

	return metric_value(
		metric_new(METRIC_COUNTER, "ipu_operator_ipu_seconds_total", "", labels, NULL, 0),
		&ns);
}

static double held(const char *ns)
{
	static const char *const labels[] = {"namespace", NULL};

	return metric_value(metric_new(METRIC_GAUGE, "ipu_operator_ipus_held", "", labels, NULL, 0),
			    &ns);
}

static void test_exact(void)
{
	struct usage a = {0}, b = {0}, c = {0};

	clock_freeze(1000, 1700000000000);
	usage_count(&a, "one", 4, true);
	usage_count(&b, "one", 2, true);
	usage_count(&c, "two", 16, true);
	ok(held("one") == 6 && held("two") == 16, "held at once");
	ok(seconds("one") == 0, "nothing yet");
	clock_advance(1500);
	usage_count(&a, "one", 4, true);
	ok(seconds("one") == 6, "4 IPUs for 1.5 s");
	clock_advance(500);
	usage_count(&a, "one", 4, false);
	usage_count(&b, "one", 2, true);
	ok(seconds("one") == 8 + 4, "4 IPUs for 2 s and 2 for 2 s: %g", seconds("one"));
	clock_advance(3600000);
	usage_count(&a, "one", 4, false);
	ok(seconds("one") == 12, "what has ended counts no more");
	usage_count(&a, "one", 8, true);
	ok(held("one") == 10, "held again, and larger");
	clock_advance(1000);
	usage_count(&a, NULL, 0, false);
	usage_count(&b, NULL, 0, false);
	usage_count(&c, NULL, 0, false);
	ok(seconds("one") == 12 + 8 + 2 * 3601.0, "to the end: %g", seconds("one"));
	ok(seconds("two") == 16 * 3603.0, "the other namespace: %g", seconds("two"));
	ok(held("one") == 0 && held("two") == 0, "nothing is held");
}

static void test_bound(void)
{
	static struct usage many[USAGE_MAX_NAMESPACES + 100];
	size_t n = sizeof(many) / sizeof(many[0]);
	char name[32];

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "ns-%zu", i);
		usage_count(&many[i], i == 1 ? "other" : name, 1, true);
	}
	ok(held("ns-0") == 1, "the first have their own series");
	ok(held("(other)") == 100, "those that find no room are together: %g", held("(other)"));
	ok(held("other") == 1, "a namespace of that name isn't among them");
	clock_advance(1000);
	for (size_t i = 0; i < n; i++)
		usage_count(&many[i], NULL, 0, false);
	ok(seconds("(other)") == 100, "and counted");
	ok(seconds("one") == 0, "who held nothing made room");
	clock_advance(1000);
	usage_count(&many[0], "new", 1, true);
	ok(held("new") == 1, "there is room again");
	usage_count(&many[0], NULL, 0, false);
}

int main(void)
{
	test_exact();
	test_bound();
	return done_testing();
}
