/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the registry (metrics.c) holds, for its text forms (metrics_text.c). Private to core.
 */
#ifndef IPU_CORE_METRICS_IMPL_H
#define IPU_CORE_METRICS_IMPL_H

#include "core/list.h"
#include "core/map.h"
#include "core/metrics.h"

struct series {
	char *key; /* the label values one behind the other, each ended by a NUL */
	size_t key_len;
	size_t pos;        /* in its family's series */
	double value;      /* a histogram's sum */
	uint64_t count;    /* a histogram's observations */
	uint64_t *buckets; /* those up to each bound that were over the bound before */
};

struct metric {
	struct list link; /* of families, sorted by name */
	enum metric_type type;
	const char *name;
	const char *help;
	const char *labels[METRIC_MAX_LABELS];
	size_t n_labels;
	const double *bounds;
	size_t n_bounds;
	struct map *by_key;
	struct series **series; /* in the order of their making */
	size_t n_series;
	size_t cap;
};

struct collector {
	struct list link;
	metrics_collect_fn *fn;
	void *arg;
};

extern struct list metrics_families, metrics_collectors;

#endif
