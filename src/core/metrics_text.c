/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry as text: Prometheus' format 0.0.4, and OpenMetrics 1.0, which differ in a few
 * places; and which of the two somebody wants. Uses buf, err and str.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics_impl.h"

/* The shortest digits that give the same number again. */
static int write_number(double v, struct buf *out, struct err *err)
{
	char text[40];

	if (isnan(v))
		return buf_append_str(out, STR("NaN"), err);
	if (isinf(v))
		return buf_append_str(out, v > 0 ? STR("+Inf") : STR("-Inf"), err);
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return buf_append_str(out, str_of(text), err);
}

/* Backslashes and line breaks, and in label values quotes, are escaped; bytes that aren't UTF-8
 * become U+FFFD. */
static int write_escaped(struct str s, bool quotes, struct buf *out, struct err *err)
{
	while (s.len > 0) {
		size_t n = str_utf8_first(s);
		struct str piece = {s.p, n};
		if (n == 0)
			piece = STR("\xef\xbf\xbd");
		else if (s.p[0] == '\\')
			piece = STR("\\\\");
		else if (s.p[0] == '\n')
			piece = STR("\\n");
		else if (s.p[0] == '"' && quotes)
			piece = STR("\\\"");
		if (buf_append_str(out, piece, err) < 0)
			return -1;
		s.p += n ? n : 1;
		s.len -= n ? n : 1;
	}
	return 0;
}

/* OpenMetrics wants whole numbers of bounds with a fraction ("Considerations: Canonical Numbers").
 */
static int write_bound(double le, enum metrics_format format, struct buf *out, struct err *err)
{
	bool whole = format == METRICS_OPEN && isfinite(le) && le == floor(le) && le < 1e6;

	if (write_number(le, out, err) < 0)
		return -1;
	return whole ? buf_append_str(out, STR(".0"), err) : 0;
}

/* name suffix{labels,le="bound"}, then a space. le: NULL for none. */
static int write_sample(const struct metric *m, const struct series *s, const char *suffix,
			const double *le, enum metrics_format format, struct buf *out,
			struct err *err)
{
	const char *value = s->key;

	if (buf_printf(out, err, "%s%s", m->name, suffix) < 0)
		return -1;
	for (size_t i = 0; i < m->n_labels; i++) {
		if (buf_printf(out, err, "%s%s=\"", i ? "," : "{", m->labels[i]) < 0 ||
		    write_escaped(str_of(value), true, out, err) < 0 ||
		    buf_append(out, "\"", 1, err) < 0)
			return -1;
		value += strlen(value) + 1;
	}
	if (le && (buf_printf(out, err, "%sle=\"", m->n_labels ? "," : "{") < 0 ||
		   write_bound(*le, format, out, err) < 0 || buf_append(out, "\"", 1, err) < 0))
		return -1;
	return buf_append_str(out, m->n_labels || le ? STR("} ") : STR(" "), err);
}

static int write_histogram(const struct metric *m, const struct series *s,
			   enum metrics_format format, struct buf *out, struct err *err)
{
	const double infinite = INFINITY;
	uint64_t up_to = 0;

	for (size_t i = 0; i < m->n_bounds; i++) {
		up_to += s->buckets[i];
		if (write_sample(m, s, "_bucket", &m->bounds[i], format, out, err) < 0 ||
		    buf_printf(out, err, "%llu\n", (unsigned long long)up_to) < 0)
			return -1;
	}
	if (write_sample(m, s, "_bucket", &infinite, format, out, err) < 0 ||
	    buf_printf(out, err, "%llu\n", (unsigned long long)s->count) < 0 ||
	    write_sample(m, s, "_sum", NULL, format, out, err) < 0 ||
	    write_number(s->value, out, err) < 0 || buf_append(out, "\n", 1, err) < 0 ||
	    write_sample(m, s, "_count", NULL, format, out, err) < 0)
		return -1;
	return buf_printf(out, err, "%llu\n", (unsigned long long)s->count);
}

/* OpenMetrics names the family of a counter without the "_total" of its sample. */
static struct str family_name(const struct metric *m, enum metrics_format format)
{
	struct str name = str_of(m->name);

	if (format == METRICS_OPEN && m->type == METRIC_COUNTER)
		name.len -= strlen("_total");
	return name;
}

static int write_family(const struct metric *m, enum metrics_format format, struct buf *out,
			struct err *err)
{
	static const char *const types[] = {
		[METRIC_COUNTER] = "counter",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram",
	};
	struct str name = family_name(m, format);

	if (m->n_series == 0)
		return 0;
	if (buf_printf(out, err, "# HELP %.*s ", STR_ARG(name)) < 0 ||
	    write_escaped(str_of(m->help), format == METRICS_OPEN, out, err) < 0 ||
	    buf_printf(out, err, "\n# TYPE %.*s %s\n", STR_ARG(name), types[m->type]) < 0)
		return -1;
	for (size_t i = 0; i < m->n_series; i++) {
		const struct series *s = m->series[i];
		if (m->type == METRIC_HISTOGRAM) {
			if (write_histogram(m, s, format, out, err) < 0)
				return -1;
		} else if (write_sample(m, s, "", NULL, format, out, err) < 0 ||
			   write_number(s->value, out, err) < 0 ||
			   buf_append(out, "\n", 1, err) < 0) {
			return -1;
		}
	}
	return 0;
}

int metrics_write(struct buf *out, enum metrics_format format, struct err *err)
{
	LIST_FOREACH(l, next, &metrics_collectors) {
		struct collector *c = CONTAINER_OF(l, struct collector, link);
		c->fn(c->arg);
	}
	LIST_FOREACH(l, next, &metrics_families) {
		if (write_family(CONTAINER_OF(l, struct metric, link), format, out, err) < 0)
			return -1;
	}
	return format == METRICS_OPEN ? buf_append_str(out, STR("# EOF\n"), err) : 0;
}

/* ---- which one ---- */

enum metrics_format metrics_choose(struct str accept)
{
	unsigned open = 0, text = 0, *best;
	struct str range, type, params, version;

	while (accept.len) {
		str_cut(accept, ',', &range, &accept);
		str_cut(range, ';', &type, &params);
		type = str_trim(type);
		version = str_parameter(params, "version");
		if (str_ieqz(type, "application/openmetrics-text") &&
		    (!version.p || str_eqz(version, "1.0.0") || str_eqz(version, "0.0.1")))
			best = &open;
		else if (str_ieqz(type, "text/plain") || str_ieqz(type, "text/*") ||
			 str_eqz(type, "*/*"))
			best = &text;
		else
			continue;
		if (str_weight(params) > *best)
			*best = str_weight(params);
	}
	return open > 0 && open >= text ? METRICS_OPEN : METRICS_TEXT;
}
