/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with an object under review, and what is unwise: gathered, so that all of it is
 * said at once. Pure; owns copies of all strings. Uses core/.
 */
#ifndef IPU_ADMISSION_FINDINGS_H
#define IPU_ADMISSION_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

/* More problems than this aren't listed one by one, only counted. */
#define ADMISSION_MAX_PROBLEMS 100
/* The API server cuts warnings beyond these (4096 characters in all), so the last ones that are
 * kept here are whole. */
#define ADMISSION_MAX_WARNINGS      16
#define ADMISSION_MAX_WARNING_BYTES 256

struct admission_cause {
	char *path; /* "spec.workers.template"; "" for the whole object */
	char *kind; /* "Required", "Forbidden", "Invalid", "Unsupported", "Too long", "Duplicate",
		     * "Not found", "Too many" */
	char *message;
};

/* Zeroed (or ADMISSION_FINDINGS_INIT) is empty. The fields are for reading. */
struct admission_findings {
	struct admission_cause *problems; /* as they were reported */
	size_t n_problems, n_more;        /* n_more: found, but not listed */
	char *denied;                     /* refused as a whole; NULL: isn't */
	int code;                         /* HTTP status of that */
	char *warnings[ADMISSION_MAX_WARNINGS];
	size_t n_warnings;
	bool warnings_cut; /* the last one says that there are more */
};
#define ADMISSION_FINDINGS_INIT {.n_problems = 0}

void admission_findings_done(struct admission_findings *f); /* frees; empty afterwards */

/* A field that can't be as it is: one cause of a 422. kind as above (the words of
 * doc/reference/validation.md). The same path, kind and message twice count once. */
void admission_problem(struct admission_findings *f, const char *path, const char *kind,
		       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The request is refused as a whole, with this HTTP status (403 …): stands before problems, which
 * are told all the same. The first one stays. */
void admission_deny(struct admission_findings *f, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Legal, but unwise: shown to the user, whatever the answer. One line (control characters become
 * spaces), at most ADMISSION_MAX_WARNING_BYTES, cut at a character; each text once. */
void admission_warn(struct admission_findings *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Nothing that refuses: warnings don't count. */
bool admission_is_allowed(const struct admission_findings *f);

/* job_report_fn (job/model.h), with the findings as arg. */
void admission_report(void *findings, const char *path, const char *kind, const char *message);

/* How Kubernetes words a kind in messages: "Invalid value", "Required value", "Forbidden" …; and
 * the type of a cause in a Status: "FieldValueInvalid" … Never NULL. */
const char *admission_kind_text(const char *kind);
const char *admission_kind_cause(const char *kind);

#endif
