/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An IPUJob under review: its defaults, and its check with and without what a cluster knows.
 * Input: the object's JSON, or an array of what is stored and what is to take its place.
 */
#include <string.h>

#include "admission/job.h"
#include "fuzz.h"

static const struct partition_policy policy = {16, 8, 60, -1, 30};
static const struct job_pod_settings pods = {.host_network = true, .privileged = true};
static const struct admission_job_view view = {
	.policy = &policy, .largest_ipus = 48, .pods = &pods};

/* How many problems there are. */
static size_t check(const struct admission_job_view *v, const struct json *before,
		    const struct json *now)
{
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	size_t n;

	admission_job_check(v, before, now, &f);
	for (size_t i = 0; i < f.n_problems; i++) {
		const struct admission_cause *c = &f.problems[i];

		MUST(c->path[0] && c->message[0]);
		MUST(strcmp(admission_kind_text(c->kind), "") != 0);
		MUST(str_is_utf8(str_of(c->path)) && str_is_utf8(str_of(c->message)));
	}
	for (size_t i = 0; i < f.n_warnings; i++)
		MUST(strlen(f.warnings[i]) <= ADMISSION_MAX_WARNING_BYTES &&
		     str_is_utf8(str_of(f.warnings[i])));
	MUST(!f.denied);
	n = f.n_problems + f.n_more;
	admission_findings_done(&f);
	return n;
}

static void try_defaults(const struct json *before, const struct json *now)
{
	CLEANUP_JMUT struct jmut_doc *once = jmut_doc_new(), *twice = jmut_doc_new();
	struct err err = ERR_INIT;

	if (admission_job_default(once, before, now, &err) < 0) {
		MUST(err.kind == ERR_INVALID && json_type(now) != JSON_OBJECT);
		return;
	}
	const struct json *full = jmut_view(jmut_root(once));
	MUST(admission_job_default(twice, before, full, &err) == 0);
	MUST(json_equal(full, jmut_view(jmut_root(twice))));
	/* What was right stays so; what left the spec alone passes. */
	if (check(NULL, before, now) == 0)
		MUST(check(NULL, before, full) == 0);
	MUST(check(&view, now, now) == 0);
	if (!before)
		MUST(check(&view, now, full) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	const struct json *before = NULL, *now;

	if (json_parse(fuzz_str(p, len), &doc, NULL) < 0)
		return 0;
	now = json_root(doc);
	if (json_type(now) == JSON_ARRAY) {
		before = json_item(now, 0);
		now = json_item(now, 1);
	}
	(void)check(&view, before, now);
	try_defaults(before, now);
	return 0;
}
