/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which limit holds where, and what it lets through: the table of doc/design/queue.md.
 */
#include "tap.h"

#include "core/str.h"
#include "partition/policy.h"

#define X PARTITION_UNSET

static void test_which(void)
{
	static const struct {
		const char *name;
		int64_t fallback, named, annotated; /* X: there is none */
		int64_t want;
	} rows[] = {
		{"for all", 16, X, X, 16},
		{"no limit for all", -1, X, X, -1},
		{"its entry instead", 16, 64, X, 64},
		{"its entry lifts the limit", 16, -1, X, -1},
		{"its annotation instead", 16, X, 64, 64},
		{"its annotation lifts the limit", 16, X, -1, -1},
		{"its annotation is lower", 16, X, 0, 0},
		{"both: the entry is lower", 16, 32, 64, 32},
		{"both: the annotation is lower", 16, 32, 8, 8},
		{"both: no annotation goes above the entry", 16, 32, -1, 32},
		{"both: the entry has no limit", 16, -1, 8, 8},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct partition_policy_of_ns named = {(char *)(uintptr_t)"a",
						       {rows[i].named, rows[i].named, rows[i].named,
							rows[i].named, rows[i].named}};
		struct partition_rules rules = {.fallback = {rows[i].fallback, rows[i].fallback,
							     rows[i].fallback, rows[i].fallback,
							     rows[i].fallback},
						.named = &named,
						.n = 1};
		struct partition_policy annotated = {rows[i].annotated, rows[i].annotated,
						     rows[i].annotated, rows[i].annotated,
						     rows[i].annotated};
		struct partition_policy p = partition_policy_for(&rules, "a", &annotated);

		row_begin("%s", rows[i].name);
		is_int(p.max_ipus, rows[i].want, "IPUs");
		is_int(p.max_job_ipus, rows[i].want, "IPUs of a job");
		is_int(p.max_deadline_s, rows[i].want, "time");
		is_int(p.default_deadline_s, rows[i].want, "time of those that name none");
		is_int(p.max_interactive_s, rows[i].want, "time of a session");
		p = partition_policy_for(&rules, "b", NULL);
		is_int(p.max_ipus, rows[i].fallback, "another namespace");
	}
	row_end();
}

static void test_annotations(void)
{
	static const struct {
		const char *json;
		bool good;
		int64_t ipus, job, deadline_s, default_s, session_s;
	} rows[] = {
		{"{}", true, X, X, X, X, X},
		{"null", true, X, X, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"16\"}", true, 16, X, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"-1\",\"graphcore.ai/max-job-ipus\":\"0\"}", true, -1,
		 0, X, X, X},
		{"{\"graphcore.ai/max-deadline-seconds\":\"3600\"}", true, X, X, 3600, X, X},
		{"{\"graphcore.ai/default-deadline-seconds\":\"60\","
		 "\"graphcore.ai/max-interactive-seconds\":\"7\"}",
		 true, X, X, X, 60, 7},
		{"{\"graphcore.ai/max-ipus\":\"many\",\"graphcore.ai/max-job-ipus\":\"8\"}", false,
		 X, 8, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"-2\"}", false, X, X, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"\"}", false, X, X, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"99999999999999999999\"}", false, X, X, X, X, X},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct partition_policy p;
		struct err err = ERR_INIT;

		row_begin("%s", rows[i].json);
		if (json_parse(str_of(rows[i].json), &doc, NULL) < 0)
			bail_out("the test's JSON");
		is_int(partition_policy_read(json_root(doc), &p, &err), rows[i].good, "good");
		if (!rows[i].good)
			has_str(err.msg, "graphcore.ai/max-ipus", "what is wrong is said");
		is_int(p.max_ipus, rows[i].ipus, "IPUs");
		is_int(p.max_job_ipus, rows[i].job, "IPUs of a job");
		is_int(p.max_deadline_s, rows[i].deadline_s, "time");
		is_int(p.default_deadline_s, rows[i].default_s, "time of those that name none");
		is_int(p.max_interactive_s, rows[i].session_s, "time of a session");
	}
	row_end();
}

static void test_allows(void)
{
	static const struct {
		const char *name;
		struct partition_policy policy;
		uint64_t ipus;
		int64_t deadline_ms;
		bool interactive;
		const char *says; /* NULL: it's allowed */
	} rows[] = {
		{"no limits", {-1, -1, -1, -1, -1}, 1 << 20, 1 << 30, true, NULL},
		{"as large as may be", {-1, 32, -1, -1, -1}, 32, 0, false, NULL},
		{"larger",
		 {-1, 32, -1, -1, -1},
		 64,
		 0,
		 false,
		 "asks for 64 IPUs, a job in namespace team-a may have 32"},
		{"nothing at all", {-1, 0, -1, -1, -1}, 1, 0, false, "may have 0"},
		{"as long as may be", {-1, -1, 60, -1, -1}, 1, 60000, true, NULL},
		{"longer", {-1, -1, 60, -1, -1}, 1, 61000, true, "may run for 61 s"},
		{"names no time", {-1, -1, 60, -1, -1}, 1, 0, false, NULL},
		{"a session as long as may be", {-1, -1, -1, -1, 60}, 1, 60000, true, NULL},
		{"a longer one", {-1, -1, 90, -1, 60}, 1, 61000, true, "an interactive job"},
		{"no session", {-1, -1, 90, -1, 60}, 1, 61000, false, NULL},
		{"the quota is another's business", {4, -1, -1, -1, -1}, 64, 0, false, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct partition_ask ask = {.owner.ns = (char *)(uintptr_t)"team-a"};
		char message[256] = "";
		bool allowed;

		row_begin("%s", rows[i].name);
		ask.deadline_ms = rows[i].deadline_ms;
		ask.interactive = rows[i].interactive;
		allowed = partition_policy_allows(&rows[i].policy, rows[i].ipus, &ask, message,
						  sizeof(message));
		is_int(allowed, rows[i].says == NULL, "allowed");
		if (rows[i].says)
			has_str(message, rows[i].says, "in words");
	}
	row_end();
}

static void test_default(void)
{
	static const struct {
		int64_t most, otherwise, want_ms;
	} rows[] = {
		{-1, -1, 0},     {-1, 0, 0},      {60, -1, 0},    {-1, 60, 60000},
		{90, 60, 60000}, {30, 60, 30000}, {0, 60, 60000}, {0, -1, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct partition_policy p = {-1, -1, rows[i].most, rows[i].otherwise, -1};

		is_int(partition_policy_default_ms(&p), rows[i].want_ms,
		       "at most %d s, %d s by default", (int)rows[i].most, (int)rows[i].otherwise);
	}
}

int main(void)
{
	test_which();
	test_annotations();
	test_allows();
	test_default();
	return done_testing();
}
