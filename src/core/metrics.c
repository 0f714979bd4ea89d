/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics registry. It owns families, families own their series; names, help and bounds are
 * borrowed for ever. Uses list, map and str.
 */
#include "core/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/map.h"
#include "metrics_impl.h"

struct list metrics_families = LIST_INIT(metrics_families);
struct list metrics_collectors = LIST_INIT(metrics_collectors);

/* ---- registration ---- */

static bool is_name(const char *z, bool colons)
{
	if (!z || !*z || (*z >= '0' && *z <= '9'))
		return false;
	for (; *z; z++) {
		if (!((*z >= 'a' && *z <= 'z') || (*z >= 'A' && *z <= 'Z') || *z == '_' ||
		      (*z >= '0' && *z <= '9') || (colons && *z == ':')))
			return false;
	}
	return true;
}

/* What only a mistake in the program can bring about. */
static void require(bool holds, const char *name, const char *what)
{
	if (!holds) {
		log_msg(LOG_FATAL, "metrics", name, "%s", what);
		abort();
	}
}

static struct series *find(const struct metric *m, const char *const *values);
static struct series *need(struct metric *m, const char *const *values);

static bool is_same(const struct metric *m, enum metric_type type, const char *const *labels)
{
	size_t n = 0;

	while (labels && labels[n] && n < m->n_labels && strcmp(labels[n], m->labels[n]) == 0)
		n++;
	return m->type == type && n == m->n_labels && !(labels && labels[n]);
}

struct metric *metric_new(enum metric_type type, const char *name, const char *help,
			  const char *const *labels, const double *buckets, size_t n_buckets)
{
	struct list *after = &metrics_families;

	require(is_name(name, true), name, "not a metric's name");
	require((type == METRIC_COUNTER) == str_has_suffix(str_of(name), STR("_total")), name,
		"a counter's name ends with _total, and no other's");
	LIST_FOREACH(l, next, &metrics_families) {
		struct metric *other = CONTAINER_OF(l, struct metric, link);
		if (strcmp(other->name, name) == 0) {
			require(is_same(other, type, labels), name, "registered twice");
			return other;
		}
		if (strcmp(other->name, name) < 0)
			after = l;
	}

	struct metric *m = xcalloc(1, sizeof(*m));
	m->type = type;
	m->name = name;
	m->help = help;
	m->by_key = map_new();
	for (; labels && labels[m->n_labels]; m->n_labels++) {
		require(m->n_labels < METRIC_MAX_LABELS, name, "too many labels");
		require(is_name(labels[m->n_labels], false) &&
				strncmp(labels[m->n_labels], "__", 2) != 0 &&
				!(type == METRIC_HISTOGRAM &&
				  strcmp(labels[m->n_labels], "le") == 0),
			name, "not a label's name");
		m->labels[m->n_labels] = labels[m->n_labels];
	}
	if (type == METRIC_HISTOGRAM) {
		for (size_t i = 0; i < n_buckets; i++)
			require(isfinite(buckets[i]) && (i == 0 || buckets[i - 1] < buckets[i]),
				name, "bounds aren't ascending");
		m->bounds = buckets;
		m->n_bounds = n_buckets;
	}
	/* list_append puts before its first argument: behind the one that precedes in the alphabet.
	 */
	list_append(after->next, &m->link);
	if (m->n_labels == 0)
		need(m, NULL); /* there from the beginning, at 0 */
	return m;
}

static void series_free(struct series *s)
{
	free(s->key);
	free(s->buckets);
	free(s);
}

void metrics_reset(void)
{
	LIST_FOREACH(l, next, &metrics_families) {
		struct metric *m = CONTAINER_OF(l, struct metric, link);
		list_unlink(l);
		for (size_t i = 0; i < m->n_series; i++)
			series_free(m->series[i]);
		map_free(m->by_key);
		free(m->series);
		free(m);
	}
	LIST_FOREACH(l, next, &metrics_collectors) {
		list_unlink(l);
		free(CONTAINER_OF(l, struct collector, link));
	}
}

/* ---- series ---- */

static char *make_key(const struct metric *m, const char *const *values, size_t *ret_len)
{
	size_t n = values ? m->n_labels : 0, len = 0;

	for (size_t i = 0; i < n; i++)
		len += strlen(values[i]) + 1;
	char *key = xcalloc(len, 1);
	*ret_len = len;
	len = 0;
	for (size_t i = 0; i < n; i++) {
		memcpy(key + len, values[i], strlen(values[i]) + 1);
		len += strlen(values[i]) + 1;
	}
	return key;
}

static struct series *find(const struct metric *m, const char *const *values)
{
	size_t len;
	CLEANUP_FREE char *key = make_key(m, values, &len);

	return map_get(m->by_key, (struct str){key, len});
}

static struct series *add_series(struct metric *m, char *key, size_t key_len)
{
	struct series *s = xcalloc(1, sizeof(*s));

	s->key = key;
	s->key_len = key_len;
	if (m->type == METRIC_HISTOGRAM)
		s->buckets = xcalloc(m->n_bounds, sizeof(*s->buckets));
	if (m->n_series == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 4;
		m->series = xrealloc(m->series, m->cap * sizeof(struct series *));
	}
	s->pos = m->n_series;
	m->series[m->n_series++] = s;
	map_put(m->by_key, (struct str){key, key_len}, s);
	return s;
}

static struct series *need(struct metric *m, const char *const *values)
{
	static const char *const other[METRIC_MAX_LABELS] = {"other", "other", "other", "other"};
	size_t len;
	char *key = make_key(m, values, &len);
	struct series *s = map_get(m->by_key, (struct str){key, len});

	if (!s && m->n_series >= METRIC_MAX_SERIES && values != other) {
		free(key);
		return need(m, other);
	}
	if (!s)
		return add_series(m, key, len);
	free(key);
	return s;
}

void metric_add(struct metric *m, const char *const *values, double delta)
{
	/* A counter never goes back. */
	if (isnan(delta) || (m->type == METRIC_COUNTER && delta < 0))
		return;
	if (m->type != METRIC_HISTOGRAM)
		need(m, values)->value += delta;
}

void metric_set(struct metric *m, const char *const *values, double v)
{
	struct series *s;

	if (m->type == METRIC_HISTOGRAM)
		return;
	s = need(m, values);
	if (m->type == METRIC_GAUGE || v > s->value)
		s->value = v;
}

void metric_observe(struct metric *m, const char *const *values, double v)
{
	if (m->type != METRIC_HISTOGRAM || isnan(v))
		return;

	struct series *s = need(m, values);
	s->count++;
	s->value += v;
	for (size_t i = 0; i < m->n_bounds; i++) {
		if (v <= m->bounds[i]) {
			s->buckets[i]++;
			break;
		}
	}
}

double metric_value(const struct metric *m, const char *const *values)
{
	const struct series *s = find(m, values);

	if (!s)
		return 0;
	return m->type == METRIC_HISTOGRAM ? (double)s->count : s->value;
}

void metric_drop(struct metric *m, const char *const *values)
{
	struct series *s = find(m, values);

	if (!s)
		return;
	map_del(m->by_key, (struct str){s->key, s->key_len});
	m->n_series--;
	for (size_t i = s->pos; i < m->n_series; i++) {
		m->series[i] = m->series[i + 1];
		m->series[i]->pos = i;
	}
	series_free(s);
}

void metric_clear(struct metric *m)
{
	for (size_t i = 0; i < m->n_series; i++) {
		map_del(m->by_key, (struct str){m->series[i]->key, m->series[i]->key_len});
		series_free(m->series[i]);
	}
	m->n_series = 0;
}

/* ---- collectors ---- */

void metrics_on_collect(metrics_collect_fn *fn, void *arg)
{
	struct collector *c = xcalloc(1, sizeof(*c));

	c->fn = fn;
	c->arg = arg;
	list_append(&metrics_collectors, &c->link);
}

void metrics_off_collect(metrics_collect_fn *fn, void *arg)
{
	LIST_FOREACH(l, next, &metrics_collectors) {
		struct collector *c = CONTAINER_OF(l, struct collector, link);
		if (c->fn == fn && c->arg == arg) {
			list_unlink(l);
			free(c);
		}
	}
}
