/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in use, by namespace, and what could be made now: sums over the tracker's entries and the
 * fleet's views, as reference/chart-and-endpoints.md words them.
 */
#include "proxy/proxy.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/json.h"
#include "core/map.h"
#include "core/str.h"

#define REPLY_LIMIT ((size_t)1 << 20)

static void reply_json(struct http_exchange *ex, const struct jmut *root)
{
	struct buf out = BUF_INIT(REPLY_LIMIT);
	struct err err;

	if (jmut_write(root, JSON_COMPACT, &out, &err) < 0 || buf_append(&out, "\n", 1, &err) < 0)
		http_reply_err(ex, &err);
	else
		http_reply(ex, 200, "application/json", NULL, 0, buf_str(&out));
	buf_done(&out);
}

/* ---- /stats ---- */

struct used {
	const struct partitions *partitions;
	struct map *by_ns; /* namespace → count, as a pointer to int64_t */
	int64_t total;
};

static void add_entry(const struct partition_entry *e, void *arg)
{
	struct used *u = arg;
	struct str ns = str_of(e->ask.owner.ns);
	int64_t *n;

	if (!partition_holds_ipus(u->partitions, e))
		return;
	n = map_get(u->by_ns, ns);
	if (!n) {
		n = xcalloc(1, sizeof(*n));
		map_put(u->by_ns, ns, n);
	}
	*n += e->ask.ipus;
	u->total += e->ask.ipus;
}

/* IPUs of the pod: of every configured controller that has ever answered. */
static int64_t count_ipus(const struct vipu_fleet *fleet)
{
	int64_t n = 0;

	for (size_t i = 0; i < vipu_fleet_len(fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(fleet, i);

		if (c->configured && c->fresh_ms)
			n += c->capacity.total_ipus;
	}
	return n;
}

static struct jmut *counts(struct jmut_doc *doc, int64_t used, int64_t available)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_int(doc, obj, "used", used);
	jmut_set_int(doc, obj, "available", available);
	return obj;
}

static void handle_stats(struct http_exchange *ex, void *arg)
{
	const struct proxy *p = arg;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	struct used used = {.partitions = p->partitions, .by_ns = map_new()};
	struct map_iter it = MAP_ITER(used.by_ns);
	int64_t available;

	partitions_each_entry(p->partitions, add_entry, &used);
	available = count_ipus(p->fleet) - used.total;
	if (available < 0)
		available = 0;
	while (map_next(&it)) {
		jmut_setn(doc, root, it.key, counts(doc, *(int64_t *)it.value, available));
		free(it.value);
	}
	jmut_set(doc, root, "total", counts(doc, used.total, available));
	map_free(used.by_ns);
	reply_json(ex, root);
}

/* ---- /query ---- */

static bool any_answers(const struct vipu_fleet *fleet)
{
	struct vipu_fleet_sums sums;

	vipu_fleet_sum(fleet, &sums);
	return sums.reachable > 0;
}

static void handle_query(struct http_exchange *ex, void *arg)
{
	const struct proxy *p = arg;
	CLEANUP_JSON struct json_doc *body = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	const struct json *size;
	bool power, answers = any_answers(p->fleet);
	struct err err;
	int64_t n;

	if (json_parse(ex->body, &body, &err) < 0) {
		http_reply_problem(ex, 400, "the body must be JSON, such as {\"size\":2}: %s",
				   err.msg);
		return;
	}
	size = json_get(json_root(body), "size");
	n = json_int(size, 0);
	if (json_type(size) != JSON_INT || n <= 0) {
		http_reply_problem(
			ex, 400,
			"\"size\" must be a whole number of IPUs above 0, such as {\"size\":2}");
		return;
	}
	power = n <= UINT32_MAX && vipu_is_power_of_two((uint32_t)n);
	jmut_set_bool(doc, root, "available", answers);
	jmut_set_int(doc, root, "numOfPartitions",
		     power ? partitions_count_fits(p->partitions, (uint32_t)n) : 0);
	jmut_set_str(doc, root, "message",
		     !power     ? "the size of a partition is a power of two: 1, 2, 4, 8 and so on"
		     : !answers ? "no V-IPU controller answers"
				: "");
	reply_json(ex, root);
}

static void handle_health(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "text/plain; charset=utf-8", NULL, 0, STR("ok\n"));
}

void proxy_handle(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_GET, "/stats", handle_stats},
		{HTTP_METHOD_POST, "/query", handle_query},
		{HTTP_METHOD_GET, "/health", handle_health},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}
