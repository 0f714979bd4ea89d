/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What validate.c (rules in words) and shape.c (rules of the schema) share. Private to job.
 */
#ifndef IPU_JOB_VALIDATE_H
#define IPU_JOB_VALIDATE_H

#include "job/model.h"

struct job_check {
	job_report_fn *report;
	void *arg;
	size_t n; /* reported so far */
	bool name_too_long_for_workers, name_too_long_for_launchers;
};

void job_report(struct job_check *c, const char *kind, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Types, required fields, ranges and enums: what a structural schema says. */
void job_check_shape(struct job_check *c, const struct json *spec);

/* The parts of the Pod template that the operator itself writes into. */
void job_check_template(struct job_check *c, const struct json *template);

/* Worker Pods of one instance, at least 1: where the number is none, only its own rule speaks. */
int64_t job_workers_of(const struct json *spec);

bool job_is_worker_count(const struct json *v); /* a string that is a number from 1 to 10000 */

/* ^([0-9]+(-[0-9]+)?)(,([0-9]+(-[0-9]+)?))*$, at most 256 characters. */
bool job_has_code_form(struct str s);

#endif
