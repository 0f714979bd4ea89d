/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/metrics.h: the text form, escaping, the bound on series, collectors.
 * Uses core.
 */
#include "core/metrics.h"

#include <math.h>

#include "core/str.h"
#include "tap.h"

static char *write_all(void)
{
	struct buf out = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;

	if (metrics_write(&out, METRICS_TEXT, &e) < 0)
		bail_out(e.msg);
	return buf_steal(&out, NULL);
}

#define is_text(want, ...)                                                                         \
	do {                                                                                       \
		char *got_ = write_all();                                                          \
		is_str(got_, want, __VA_ARGS__);                                                   \
		free(got_);                                                                        \
	} while (0)

static void test_families(void)
{
	static const char *const labels[] = {"method", "code", NULL};
	static const double bounds[] = {0.1, 1, 2.5};

	is_text("", "nothing registered");
	struct metric *z = metric_new(METRIC_GAUGE, "ipu_z", "Last.", NULL, NULL, 0);
	struct metric *a = metric_new(METRIC_COUNTER, "ipu_a_total", "First\\ \"of\"\nall.", labels,
				      NULL, 0);
	struct metric *h = metric_new(METRIC_HISTOGRAM, "ipu_h_seconds", "H.", NULL, bounds, 3);
	is_text("# HELP ipu_h_seconds H.\n# TYPE ipu_h_seconds histogram\n"
		"ipu_h_seconds_bucket{le=\"0.1\"} 0\nipu_h_seconds_bucket{le=\"1\"} 0\n"
		"ipu_h_seconds_bucket{le=\"2.5\"} 0\nipu_h_seconds_bucket{le=\"+Inf\"} 0\n"
		"ipu_h_seconds_sum 0\nipu_h_seconds_count 0\n"
		"# HELP ipu_z Last.\n# TYPE ipu_z gauge\nipu_z 0\n",
		"families without labels are there from the beginning");

	metric_add(a, (const char *const[]){"get", "200"}, 1);
	metric_add(a, (const char *const[]){"put", "a\\b\"c\nd\xff"}, 2);
	metric_add(a, (const char *const[]){"get", "200"}, 1e16);
	metric_add(a, (const char *const[]){"get", "200"}, -5);
	metric_add(a, (const char *const[]){"get", "200"}, NAN);
	metric_set(z, NULL, -0.5);
	metric_add(z, NULL, 0.75);
	metric_observe(h, NULL, 0.1);
	metric_observe(h, NULL, 0.5);
	metric_observe(h, NULL, 2);
	metric_observe(h, NULL, 100);
	metric_observe(h, NULL, NAN);
	is_text("# HELP ipu_a_total First\\\\ \"of\"\\nall.\n# TYPE ipu_a_total counter\n"
		"ipu_a_total{method=\"get\",code=\"200\"} 1e+16\n"
		"ipu_a_total{method=\"put\",code=\"a\\\\b\\\"c\\nd\xef\xbf\xbd\"} 2\n"
		"# HELP ipu_h_seconds H.\n# TYPE ipu_h_seconds histogram\n"
		"ipu_h_seconds_bucket{le=\"0.1\"} 1\nipu_h_seconds_bucket{le=\"1\"} 2\n"
		"ipu_h_seconds_bucket{le=\"2.5\"} 3\nipu_h_seconds_bucket{le=\"+Inf\"} 4\n"
		"ipu_h_seconds_sum 102.6\nipu_h_seconds_count 4\n"
		"# HELP ipu_z Last.\n# TYPE ipu_z gauge\nipu_z 0.25\n",
		"sorted, escaped, cumulative");
	ok(metric_value(z, NULL) == 0.25 && metric_value(h, NULL) == 4 &&
		   metric_value(a, (const char *const[]){"get", "404"}) == 0,
	   "values");
	metric_set(a, (const char *const[]){"put", "x"}, 7);
	metric_set(a, (const char *const[]){"put", "x"}, 6);
	ok(metric_value(a, (const char *const[]){"put", "x"}) == 7, "a counter doesn't go back");
	ok(metric_new(METRIC_COUNTER, "ipu_a_total", "x", labels, NULL, 0) == a,
	   "the same family again");
	metrics_reset();
	is_text("", "forgotten");
}

static void test_numbers(void)
{
	static const struct {
		double v;
		const char *text;
	} rows[] = {
		{0, "g 0\n"},
		{1e15, "g 1e+15\n"},
		{123456789012345, "g 123456789012345\n"},
		{1.0 / 3, "g 0.3333333333333333\n"},
		{INFINITY, "g +Inf\n"},
		{-INFINITY, "g -Inf\n"},
		{NAN, "g NaN\n"},
		{5e-324, "g 4.94065645841247e-324\n"},
	};
	struct metric *g = metric_new(METRIC_GAUGE, "g", "G.", NULL, NULL, 0);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		metric_set(g, NULL, rows[i].v);
		char *text = write_all();
		has_str(text, rows[i].text, "row %zu", i);
		free(text);
	}
	metrics_reset();
}

static void test_series(void)
{
	static const char *const labels[] = {"job", NULL};
	struct metric *m = metric_new(METRIC_COUNTER, "jobs_total", "J.", labels, NULL, 0);
	char name[32];
	const char *values[] = {name};

	is_text("", "a family without series isn't written");
	for (int i = 0; i < METRIC_MAX_SERIES + 500; i++) {
		snprintf(name, sizeof(name), "job-%d", i);
		metric_add(m, values, 1);
	}
	ok(metric_value(m, (const char *const[]){"other"}) == 500, "what is too much is other");
	ok(metric_value(m, (const char *const[]){"job-1023"}) == 1, "the last that has its own");
	ok(metric_value(m, (const char *const[]){"job-1024"}) == 0, "the first that hasn't");
	for (int i = 0; i < METRIC_MAX_SERIES; i++) {
		if (i != 500) {
			snprintf(name, sizeof(name), "job-%d", i);
			metric_drop(m, values);
		}
	}
	metric_drop(m, values);
	is_text("# HELP jobs_total J.\n# TYPE jobs_total counter\n"
		"jobs_total{job=\"job-500\"} 1\njobs_total{job=\"other\"} 500\n",
		"series that have ended are gone");
	snprintf(name, sizeof(name), "new");
	metric_add(m, values, 3);
	ok(metric_value(m, (const char *const[]){"new"}) == 3, "and there is room again");
	/* Values that only differ in where they are cut. */
	metrics_reset();
	static const char *const two[] = {"a", "b", NULL};
	m = metric_new(METRIC_GAUGE, "two", "T.", two, NULL, 0);
	metric_set(m, (const char *const[]){"x", "yz"}, 1);
	metric_set(m, (const char *const[]){"xy", "z"}, 2);
	ok(metric_value(m, (const char *const[]){"x", "yz"}) == 1, "two series");
	metrics_reset();
}

static void collect(void *arg)
{
	metric_set(*(struct metric **)arg, NULL, 5);
}

static void test_collect(void)
{
	struct metric *g = metric_new(METRIC_GAUGE, "g", "G.", NULL, NULL, 0);

	metrics_on_collect(collect, &g);
	is_text("# HELP g G.\n# TYPE g gauge\ng 5\n", "a collector is called before");
	metrics_off_collect(collect, &g);
	metric_set(g, NULL, 1);
	is_text("# HELP g G.\n# TYPE g gauge\ng 1\n", "and no longer");

	struct buf small = BUF_INIT(20);
	struct err e = ERR_INIT;
	is_int(metrics_write(&small, METRICS_TEXT, &e), -1, "no room");
	is_int(e.kind, ERR_LIMIT, "kind");
	buf_done(&small);
	metrics_reset();
}

static void test_open(void)
{
	static const double bounds[] = {0.1, 1, 3600};
	static const char *const labels[] = {"a", NULL};
	struct buf out = BUF_INIT(4096);
	struct err e = ERR_INIT;

	struct metric *c = metric_new(METRIC_COUNTER, "ipu_c_total", "Of \"all\".", labels, NULL,
				      0);
	metric_add(c, (const char *const[]){"x\ny"}, 2);
	metric_new(METRIC_HISTOGRAM, "ipu_h", "H.", NULL, bounds, 3);
	is_int(metrics_write(&out, METRICS_OPEN, &e), 0, "OpenMetrics");
	CLEANUP_FREE char *text = buf_steal(&out, &(size_t){0});
	is_str(text,
	       "# HELP ipu_c Of \\\"all\\\".\n# TYPE ipu_c counter\n"
	       "ipu_c_total{a=\"x\\ny\"} 2\n"
	       "# HELP ipu_h H.\n# TYPE ipu_h histogram\n"
	       "ipu_h_bucket{le=\"0.1\"} 0\nipu_h_bucket{le=\"1.0\"} 0\n"
	       "ipu_h_bucket{le=\"3600.0\"} 0\nipu_h_bucket{le=\"+Inf\"} 0\n"
	       "ipu_h_sum 0\nipu_h_count 0\n# EOF\n",
	       "its text");
	metric_clear(c);
	is_int((int)metric_value(c, (const char *const[]){"x\ny"}), 0, "cleared");
	metric_add(c, (const char *const[]){"z"}, 1);
	is_int((int)metric_value(c, (const char *const[]){"z"}), 1, "and used again");
	metrics_reset();
}

int main(void)
{
	test_open();
	test_families();
	test_numbers();
	test_series();
	test_collect();
	return done_testing();
}
