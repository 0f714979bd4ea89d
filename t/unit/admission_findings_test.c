/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: kept once, cut within their bounds, and what they mean together.
 */
#include "admission/findings.h"
#include "core/str.h"
#include "job/model.h"
#include "tap.h"

static void test_problems(void)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	job_report_fn *report = admission_report; /* fits, so that job_validate can be given it */

	ok(admission_is_allowed(&f), "nothing found: allowed");
	admission_problem(&f, "spec.a", "Invalid", "must be from %d to %d", 1, 3);
	admission_problem(&f, "spec.a", "Invalid", "must be from 1 to 3");
	report(&f, "spec.a", "Required", "is required");
	report(&f, "spec.a", "Required", "is required");
	report(&f, "spec.b", "Required", "is required");
	is_uint(f.n_problems, 3, "the same twice counts once");
	is_str(f.problems[0].path, "spec.a", "path");
	is_str(f.problems[0].kind, "Invalid", "kind");
	is_str(f.problems[0].message, "must be from 1 to 3", "message");
	is_str(f.problems[2].path, "spec.b", "in the order of the reports");
	ok(!admission_is_allowed(&f), "a problem refuses");
	for (int i = 0; i < ADMISSION_MAX_PROBLEMS; i++)
		admission_problem(&f, "spec.c", "Invalid", "number %d", i);
	is_uint(f.n_problems, ADMISSION_MAX_PROBLEMS, "a bound");
	is_uint(f.n_more, 3, "and a count of the rest");
	admission_findings_done(&f);
	is_uint(f.n_problems, 0, "empty after done");
	ok(admission_is_allowed(&f), "and usable");
	admission_findings_done(&f);
}

static void test_deny(void)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;

	admission_deny(&f, 403, "%s may not", "jane");
	admission_deny(&f, 400, "later");
	is_str(f.denied, "jane may not", "the first refusal stays");
	is_int(f.code, 403, "with its code");
	ok(!admission_is_allowed(&f), "it refuses");
	admission_findings_done(&f);
}

static void test_warnings(void)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	char text[600];

	admission_warn(&f, "one\ntwo\tthree\x7f.");
	is_str(f.warnings[0], "one two three .", "control characters are spaces");
	admission_warn(&f, "one two three .");
	is_uint(f.n_warnings, 1, "each text once, as it is shown");
	admission_warn(&f, "%s", "");
	is_uint(f.n_warnings, 1, "nothing is no warning");
	ok(admission_is_allowed(&f), "a warning doesn't refuse");
	/* 'é' has two bytes: at every length the cut falls before it, into it or behind it. */
	for (size_t n = 240; n < 260; n++) {
		memset(text, 'x', n);
		memcpy(text + n, "\u00e9", 2);
		memset(text + n + 2, 'y', 100);
		text[n + 102] = '\0';
		admission_findings_done(&f);
		admission_warn(&f, "%s", text);
		row_begin("%zu", n);
		ok(strlen(f.warnings[0]) <= ADMISSION_MAX_WARNING_BYTES, "within the bound");
		ok(strlen(f.warnings[0]) >= ADMISSION_MAX_WARNING_BYTES - 1,
		   "no shorter than needed");
		ok(str_is_utf8(str_of(f.warnings[0])), "well-formed");
		ok(str_has_suffix(str_of(f.warnings[0]), STR("…")), "says that it was cut");
	}
	row_end();
	admission_findings_done(&f);
	memset(text, 'z', ADMISSION_MAX_WARNING_BYTES);
	text[ADMISSION_MAX_WARNING_BYTES] = '\0';
	admission_warn(&f, "%s", text);
	is_str(f.warnings[0], text, "what just fits stays");
	for (int i = 0; i < ADMISSION_MAX_WARNINGS * 2; i++)
		admission_warn(&f, "warning %d", i);
	is_uint(f.n_warnings, ADMISSION_MAX_WARNINGS, "a bound");
	has_str(f.warnings[ADMISSION_MAX_WARNINGS - 1], "more warnings", "the last one says so");
	is_str(f.warnings[ADMISSION_MAX_WARNINGS - 2], "warning 13", "the one before is whole");
	admission_findings_done(&f);
}

static void test_kinds(void)
{
	static const struct {
		const char *kind, *text, *cause;
	} rows[] = {
		{"Required", "Required value", "FieldValueRequired"},
		{"Forbidden", "Forbidden", "FieldValueForbidden"},
		{"Invalid", "Invalid value", "FieldValueInvalid"},
		{"Unsupported", "Unsupported value", "FieldValueNotSupported"},
		{"Too long", "Too long", "FieldValueTooLong"},
		{"Duplicate", "Duplicate value", "FieldValueDuplicate"},
		{"Strange", "Strange", "FieldValueInvalid"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		is_str(admission_kind_text(rows[i].kind), rows[i].text, "%s", rows[i].kind);
		is_str(admission_kind_cause(rows[i].kind), rows[i].cause, "%s: cause",
		       rows[i].kind);
	}
}

int main(void)
{
	test_problems();
	test_deny();
	test_warnings();
	test_kinds();
	return done_testing();
}
