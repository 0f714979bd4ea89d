/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics registry: counters, gauges and histograms with label values, written as
 * Prometheus text or OpenMetrics. Families live as long as the process; the number of series of a
 * family is bounded, and what comes beyond is counted under "other".
 */
#ifndef IPU_CORE_METRICS_H
#define IPU_CORE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

enum metric_type {
	METRIC_COUNTER, /* its name ends with "_total" */
	METRIC_GAUGE,
	METRIC_HISTOGRAM,
};

#define METRIC_MAX_LABELS 4
#define METRIC_MAX_SERIES 1024

struct metric; /* a family */

/* A family, registered once at start-up (static strings are borrowed for ever; labels: names,
 * NULL-terminated or NULL). Buckets: ascending upper bounds, without +Inf, for histograms. The same
 * name with the same type and labels again gives the same family; anything else that only a
 * mistake in the program can bring about aborts. */
struct metric *metric_new(enum metric_type type, const char *name, const char *help,
			  const char *const *labels, const double *buckets, size_t n_buckets);

/* values: as many as the family has labels (NULL when it has none); copied. */
void metric_add(struct metric *m, const char *const *values,
		double delta);                                          /* counters: >= 0 only */
void metric_set(struct metric *m, const char *const *values, double v); /* a counter only rises */
void metric_observe(struct metric *m, const char *const *values, double v);
/* For tests: 0 if absent; of a histogram, how many observations. */
double metric_value(const struct metric *m, const char *const *values);
void metric_drop(struct metric *m, const char *const *values); /* a series that has ended */
void metric_clear(struct metric *m); /* all of them: for what each collection says anew */

/* Called before each write to bring gauges up to date. */
typedef void metrics_collect_fn(void *arg);
void metrics_on_collect(metrics_collect_fn *fn, void *arg);
void metrics_off_collect(metrics_collect_fn *fn, void *arg);

enum metrics_format {
	METRICS_TEXT, /* text/plain; version=0.0.4 */
	METRICS_OPEN, /* application/openmetrics-text; version=1.0.0 */
};
/* The one that an Accept field (RFC 9110, 12.5.1) likes better; text where it likes neither. */
enum metrics_format metrics_choose(struct str accept);
/* Every family that has series, sorted by name. */
int metrics_write(struct buf *out, enum metrics_format format, struct err *err);
void metrics_reset(void); /* unit tests: forget all families */

#endif
