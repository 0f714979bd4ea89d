/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/trace.h: what is a traceparent by W3C Trace Context 3.2.2, what is passed on, and which
 * trace is current. Uses core.
 */
#include "core/trace.h"

#include <string.h>

#include "tap.h"

#define ID   "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static const struct {
	const char *name, *parent;
	const char *flags; /* passed on; NULL: it's none */
} rows[] = {
	{"sampled", "00-" ID "-" SPAN "-01", "01"},
	{"not sampled", "00-" ID "-" SPAN "-00", "00"},
	{"random trace id", "00-" ID "-" SPAN "-03", "03"},
	{"flags that nobody knows yet", "00-" ID "-" SPAN "-fd", "01"},
	{"a version to come", "01-" ID "-" SPAN "-01", "01"},
	{"a version to come, with more", "cc-" ID "-" SPAN "-01-what-the-future-holds", "01"},
	{"a version to come, more without a dash", "cc-" ID "-" SPAN "-01.x", NULL},
	{"version 00 with more", "00-" ID "-" SPAN "-01-x", NULL},
	{"version 00 with a dash", "00-" ID "-" SPAN "-01-", NULL},
	{"version ff", "ff-" ID "-" SPAN "-01", NULL},
	{"a version that is no number", "0x-" ID "-" SPAN "-01", NULL},
	{"upper case in the version", "0A-" ID "-" SPAN "-01", NULL},
	{"upper case in the trace id", "00-0AF7651916cd43dd8448eb211c80319c-" SPAN "-01", NULL},
	{"upper case in the span id", "00-" ID "-B7ad6b7169203331-01", NULL},
	{"upper case in the flags", "00-" ID "-" SPAN "-0A", NULL},
	{"trace id zero", "00-00000000000000000000000000000000-" SPAN "-01", NULL},
	{"span id zero", "00-" ID "-0000000000000000-01", NULL},
	{"a short trace id", "00-0af7651916cd43dd8448eb211c80319-" SPAN "-01", NULL},
	{"one flag's digit", "00-" ID "-" SPAN "-1", NULL},
	{"other dashes", "00_" ID "_" SPAN "_01", NULL},
	{"a dash at the wrong place", "00-" ID SPAN "--01", NULL},
	{"a blank before", " 00-" ID "-" SPAN "-01", NULL},
	{"a blank behind", "00-" ID "-" SPAN "-01 ", NULL},
	{"two of them", "00-" ID "-" SPAN "-01,00-" ID "-" SPAN "-01", NULL},
	{"nothing", "", NULL},
};

static void test_parents(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct trace *t = trace_parse(str_of(rows[i].parent), STR_NULL);
		char z[TRACE_PARENT_SIZE], want[TRACE_PARENT_SIZE];

		row_begin("%s", rows[i].name);
		if (!ok(!t == !rows[i].flags, "taken or not") || !t)
			continue;
		is_str(trace_id(t), ID, "the trace is the same");
		ok(strcmp(trace_span(t), SPAN) != 0, "the span is our own");
		trace_write(t, z);
		snprintf(want, sizeof(want), "00-" ID "-%s-%s", trace_span(t), rows[i].flags);
		is_str(z, want, "what is passed on");
		trace_unref(t);
	}
	row_end();
}

static void test_state(void)
{
	const struct str parent = STR("00-" ID "-" SPAN "-01");
	char large[600];
	struct trace *t = trace_parse(parent, STR("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));

	is_str(trace_state(t), "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "passed on as it is");
	trace_unref(t);
	memset(large, 'a', sizeof(large));
	t = trace_parse(parent, (struct str){large, 512});
	is_uint(strlen(trace_state(t)), 512, "512 characters are passed on");
	trace_unref(t);
	t = trace_parse(parent, (struct str){large, 513});
	is_str(trace_state(t), "", "more aren't");
	trace_unref(t);
	t = trace_parse(parent, STR("a=b\r\nX: y"));
	is_str(trace_state(t), "", "nor what would end the field");
	trace_unref(t);
}

static void test_current(void)
{
	struct trace *a = trace_parse(STR("00-" ID "-" SPAN "-01"), STR_NULL), *before, *outer;

	ok(trace_current() == NULL, "none at first");
	outer = trace_enter(a);
	ok(trace_current() == a, "entered");
	before = trace_enter(NULL);
	ok(trace_current() == NULL, "nobody's, within");
	trace_leave(before);
	ok(trace_current() == a, "left again");
	trace_leave(outer);
	ok(trace_current() == NULL, "and none");
	ok(trace_ref(a) == a, "counted");
	trace_unref(a);
	is_str(trace_id(a), ID, "still there");
	trace_unref(a);
	trace_unref(NULL);
}

int main(void)
{
	test_parents();
	test_state();
	test_current();
	return done_testing();
}
