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
		struct partition_policy_of_ns named = {
			(char *)(uintptr_t)"a", {rows[i].named, rows[i].named, rows[i].named}};
		struct partition_rules rules = {
			.fallback = {rows[i].fallback, rows[i].fallback, rows[i].fallback},
			.named = &named,
			.n = 1};
		struct partition_policy annotated = {rows[i].annotated, rows[i].annotated,
						     rows[i].annotated};
		struct partition_policy p = partition_policy_for(&rules, "a", &annotated);

		row_begin("%s", rows[i].name);
		is_int(p.max_ipus, rows[i].want, "IPUs");
		is_int(p.max_job_ipus, rows[i].want, "IPUs of a job");
		is_int(p.max_deadline_s, rows[i].want, "time");
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
		int64_t ipus, job, deadline_s;
	} rows[] = {
		{"{}", true, X, X, X},
		{"null", true, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"16\"}", true, 16, X, X},
		{"{\"graphcore.ai/max-ipus\":\"-1\",\"graphcore.ai/max-job-ipus\":\"0\"}", true, -1,
		 0, X},
		{"{\"graphcore.ai/max-deadline-seconds\":\"3600\"}", true, X, X, 3600},
		{"{\"graphcore.ai/max-ipus\":\"many\",\"graphcore.ai/max-job-ipus\":\"8\"}", false,
		 X, 8, X},
		{"{\"graphcore.ai/max-ipus\":\"-2\"}", false, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"\"}", false, X, X, X},
		{"{\"graphcore.ai/max-ipus\":\"99999999999999999999\"}", false, X, X, X},
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
		const char *says; /* NULL: it's allowed */
	} rows[] = {
		{"no limits", {-1, -1, -1}, 1 << 20, 1 << 30, NULL},
		{"as large as may be", {-1, 32, -1}, 32, 0, NULL},
		{"larger",
		 {-1, 32, -1},
		 64,
		 0,
		 "asks for 64 IPUs, a job in namespace team-a may have 32"},
		{"nothing at all", {-1, 0, -1}, 1, 0, "may have 0"},
		{"as long as may be", {-1, -1, 60}, 1, 60000, NULL},
		{"longer", {-1, -1, 60}, 1, 61000, "may run for 61 s"},
		{"names no time", {-1, -1, 60}, 1, 0, NULL},
		{"the quota is another's business", {4, -1, -1}, 64, 0, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char message[256] = "";
		bool allowed;

		row_begin("%s", rows[i].name);
		allowed = partition_policy_allows(&rows[i].policy, "team-a", rows[i].ipus,
						  rows[i].deadline_ms, message, sizeof(message));
		is_int(allowed, rows[i].says == NULL, "allowed");
		if (rows[i].says)
			has_str(message, rows[i].says, "in words");
	}
	row_end();
}

int main(void)
{
	test_which();
	test_annotations();
	test_allows();
	return done_testing();
}
