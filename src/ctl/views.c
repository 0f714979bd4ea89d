/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of each answer (doc/openapi.yaml has their meaning).
 */
#include "ctl/views.h"

#include <inttypes.h>

#include "core/clock.h"

/* ---- numbers ---- */

int64_t ctl_count_of(const struct json *obj, const char *key)
{
	int64_t n = json_int(json_get(obj, key), 0);

	return n > 0 ? n : 0;
}

int64_t ctl_sum(int64_t a, int64_t b)
{
	int64_t n;

	return __builtin_add_overflow(a, b, &n) ? INT64_MAX : n;
}

/* ---- cells ---- */

static void add_text(struct ctl_table *t, const struct json *obj, const char *key)
{
	ctl_table_add(t, json_str(json_get(obj, key)));
}

static void add_number(struct ctl_table *t, const struct json *obj, const char *key)
{
	const struct json *n = json_get(obj, key);

	if (json_type(n) == JSON_INT)
		ctl_table_addf(t, "%" PRId64, json_int(n, 0));
	else
		ctl_table_add(t, STR_NULL);
}

static void add_age(struct ctl_table *t, const struct json *obj, const char *key)
{
	char z[CLOCK_AGE_SIZE];
	int64_t then_ms;

	if (clock_parse(json_str(json_get(obj, key)), &then_ms, NULL) < 0) {
		ctl_table_add(t, STR("<unknown>"));
		return;
	}
	clock_format_age(clock_wall_ms() - then_ms, z);
	ctl_table_add(t, str_of(z));
}

/* As kubectl names things of several kinds. */
void ctl_view_owner(struct ctl_table *t, const struct json *owner)
{
	CLEANUP_FREE char *kind = str_dup(json_str(json_get(owner, "kind")));
	struct str name = json_str(json_get(owner, "name"));
	CLEANUP_FREE char *both = NULL;

	for (char *p = kind; *p; p++)
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 'a' - 'A' : *p);
	both = xasprintf("%s/%.*s", kind, STR_ARG(name));
	ctl_table_add(t, str_of(both));
}

/* One word for all that is to be known about whether a controller gets new partitions. */
static void add_controller_status(struct ctl_table *t, const struct json *c)
{
	bool draining = json_bool(json_get(c, "draining"), false);
	bool cordoned = json_bool(json_get(c, "cordoned"), false);
	bool no_node = json_bool(json_get(c, "noReadyNode"), false);

	ctl_table_addf(t, "%s%s%s%s",
		       json_bool(json_get(c, "reachable"), false) ? "Ready" : "Unreachable",
		       draining   ? ",Draining"
		       : cordoned ? ",Cordoned"
				  : "",
		       no_node ? ",NoReadyNode" : "",
		       json_bool(json_get(c, "configured"), true) ? "" : ",Removed");
}

/* ---- tables ---- */

static void add_usage(struct ctl_table *t, struct str name, const struct json *usage)
{
	ctl_table_add(t, name);
	add_number(t, usage, "used");
	add_number(t, usage, "available");
}

/* The sum's row is in capitals, which no namespace is; the namespace "total" has a name of its own
 * in the answer. */
struct ctl_table *ctl_view_stats(const struct json *stats, bool wide)
{
	static const char *const heads[] = {"NAMESPACE", "USED", "AVAILABLE", NULL};
	struct ctl_table *t = ctl_table_new(heads, 3, wide);
	struct json_iter it = json_iter(stats);

	while (json_next(&it)) {
		if (!str_eqz(it.key, "total"))
			add_usage(t, str_eqz(it.key, "namespace/total") ? STR("total") : it.key,
				  it.value);
	}
	add_usage(t, STR("TOTAL"), json_get(stats, "total"));
	return t;
}

struct ctl_table *ctl_view_query(const struct json *answer, bool wide)
{
	static const char *const heads[] = {"AVAILABLE", "PARTITIONS", "MESSAGE", NULL};
	struct ctl_table *t = ctl_table_new(heads, 3, wide);

	ctl_table_add(t, json_bool(json_get(answer, "available"), false) ? STR("yes") : STR("no"));
	add_number(t, answer, "numOfPartitions");
	add_text(t, answer, "message");
	return t;
}

static void add_capacity(struct ctl_table *t, const struct json *c)
{
	static const char *const members[] = {"totalIPUs",    "usedIPUs", "externalIPUs",
					      "reservedIPUs", "freeIPUs", "largest"};

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		add_number(t, c, members[i]);
}

/* "0:32/64 1:64/64": free and all IPUs of each IPU-Link domain. */
static void add_domains(struct ctl_table *t, const struct json *domains)
{
	struct buf b = BUF_INIT((size_t)64 << 10);
	struct json_iter it = json_iter(domains);

	while (json_next(&it))
		buf_printf(&b, NULL, "%s%" PRId64 ":%" PRId64 "/%" PRId64, b.len ? " " : "",
			   json_int(json_get(it.value, "domain"), 0),
			   json_int(json_get(it.value, "freeIPUs"), 0),
			   json_int(json_get(it.value, "totalIPUs"), 0));
	ctl_table_add(t, buf_str(&b));
	buf_done(&b);
}

struct ctl_table *ctl_view_capacity(const struct json *capacity, bool wide)
{
	static const char *const heads[] = {"CONTROLLER", "STATUS",   "IPUS", "USED",
					    "EXTERNAL",   "RESERVED", "FREE", "LARGEST",
					    "DOMAINS",    NULL};
	struct ctl_table *t = ctl_table_new(heads, 8, wide);
	struct json_iter it = json_iter(json_get(capacity, "controllers"));

	while (json_next(&it)) {
		add_text(t, it.value, "name");
		add_controller_status(t, it.value);
		add_capacity(t, it.value);
		add_domains(t, json_get(it.value, "domains"));
	}
	ctl_table_add(t, STR("TOTAL"));
	ctl_table_add(t, STR("-"));
	add_capacity(t, json_get(capacity, "total"));
	ctl_table_add(t, STR("-"));
	return t;
}

struct ctl_table *ctl_view_queue(const struct json *queue, bool wide)
{
	static const char *const heads[] = {"POSITION", "NAMESPACE", "OWNER",  "INSTANCE", "IPUS",
					    "PRIORITY", "AGE",       "REASON", "MESSAGE",  NULL};
	struct ctl_table *t = ctl_table_new(heads, 8, wide);
	struct json_iter it = json_iter(json_get(queue, "items"));

	while (json_next(&it)) {
		add_number(t, it.value, "position");
		add_text(t, it.value, "namespace");
		ctl_view_owner(t, it.value);
		add_number(t, it.value, "instance");
		add_number(t, it.value, "ipus");
		add_number(t, it.value, "priority");
		add_age(t, it.value, "since");
		add_text(t, it.value, "reason");
		add_text(t, it.value, "message");
	}
	return t;
}

struct ctl_table *ctl_view_partitions(const struct json *partitions, bool wide)
{
	static const char *const heads[] = {"NAMESPACE",  "OWNER", "INSTANCE",  "IPUS",   "STATE",
					    "CONTROLLER", "AGE",   "PARTITION", "REASON", NULL};
	struct ctl_table *t = ctl_table_new(heads, 8, wide);
	struct json_iter it = json_iter(json_get(partitions, "items"));

	while (json_next(&it)) {
		const struct json *owner = json_get(it.value, "owner");

		add_text(t, owner, "namespace");
		ctl_view_owner(t, owner);
		add_number(t, it.value, "instance");
		add_number(t, it.value, "ipus");
		add_text(t, it.value, "state");
		add_text(t, it.value, "controller");
		add_age(t, it.value, "since");
		add_text(t, it.value, "id");
		add_text(t, it.value, "reason");
	}
	return t;
}

static const struct json *capacity_of(const struct json *capacity, struct str name)
{
	struct json_iter it = json_iter(json_get(capacity, "controllers"));

	while (json_next(&it)) {
		if (str_eq(json_str(json_get(it.value, "name")), name))
			return it.value;
	}
	return NULL;
}

struct ctl_table *ctl_view_controllers(const struct json *controllers, const struct json *capacity,
				       bool wide)
{
	static const char *const heads[] = {"NAME",     "STATUS", "IPUS",       "USED",
					    "EXTERNAL", "FREE",   "PARTITIONS", "LABEL",
					    "VERSION",  "REASON", NULL};
	struct ctl_table *t = ctl_table_new(heads, 8, wide);
	struct json_iter it = json_iter(json_get(controllers, "items"));

	while (json_next(&it)) {
		struct str name = json_str(json_get(it.value, "name"));
		const struct json *sums = capacity_of(capacity, name);

		ctl_table_add(t, name);
		add_controller_status(t, it.value);
		add_number(t, it.value, "ipus");
		add_number(t, sums, "usedIPUs");
		add_number(t, sums, "externalIPUs");
		add_number(t, sums, "freeIPUs");
		add_number(t, it.value, "partitions");
		add_text(t, it.value, "label");
		add_text(t, it.value, "version");
		add_text(t, it.value, "reason");
	}
	return t;
}
