/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trackers alone, without a manager: owners that put, drop and listen, what the API server has, and
 * hands that meddle with it. Included once by each test, after partition_rig.h.
 */
#ifndef IPU_T_UNIT_PARTITION_TRACKER_RIG_H
#define IPU_T_UNIT_PARTITION_TRACKER_RIG_H

#include "partition_rig.h"

#include "core/map.h"
#include "partition/tracker.h"

struct keeper {
	struct tracker *t;
	bool adopts; /* it puts what it finds, as the manager does */
	bool synced;
	unsigned found, gone, recorded, again, errors, reports;
	char reason[32], report[512], report_uid[64], found_last[64], gone_last[64];
	struct map
		*want; /* key → what was put last or found, as text; absent: dropped or unknown */
	void (*on_recorded)(struct keeper *k, const char *key);
};

static inline void keeper_set(struct keeper *k, const char *key, struct str json)
{
	free(json.p ? map_put(k->want, str_of(key), str_dup(json)) : map_del(k->want, str_of(key)));
}

static inline void put(struct keeper *k, const char *key, const char *uid, const char *json)
{
	keeper_set(k, key, str_of(json));
	tracker_put(k->t, key, uid, str_of(json));
}

static inline void drop(struct keeper *k, const char *key)
{
	keeper_set(k, key, STR_NULL);
	tracker_drop(k->t, key);
}

static inline void keeper_synced(void *arg)
{
	struct keeper *k = arg;

	k->synced = true;
}

static inline bool readable(struct str json)
{
	return str_has_prefix(json, STR("{\"v\":"));
}

static inline bool keeper_is_ours(void *arg, const char *key, struct str json, struct err *err)
{
	(void)arg;
	(void)key;
	(void)err;
	return readable(json);
}

static inline int keeper_found(void *arg, const char *key, struct str json, struct err *err)
{
	struct keeper *k = arg;
	struct err why;

	(void)err;
	k->found++;
	snprintf(k->found_last, sizeof(k->found_last), "%s", key);
	if (!readable(json)) {
		err_set(&why, ERR_INVALID, 0, "it doesn't begin with v");
		tracker_reject(k->t, key, &why);
		return 0;
	}
	keeper_set(k, key, json);
	if (k->adopts)
		tracker_put(k->t, key, "found", json);
	return 0;
}

static inline void keeper_gone(void *arg, const char *key)
{
	struct keeper *k = arg;

	k->gone++;
	snprintf(k->gone_last, sizeof(k->gone_last), "%s", key);
	keeper_set(k, key, STR_NULL);
}

static inline void keeper_recorded(void *arg, const char *key)
{
	struct keeper *k = arg;

	k->recorded++;
	if (k->on_recorded)
		k->on_recorded(k, key);
}

static inline bool keeper_again(void *arg, const char *key, struct buf *out, struct err *err)
{
	struct keeper *k = arg;
	const char *json = map_get(k->want, str_of(key));

	k->again++;
	return json && buf_append_str(out, str_of(json), err) == 0;
}

static inline void keeper_error(void *arg)
{
	struct keeper *k = arg;

	k->errors++;
}

static inline void keeper_report(void *arg, const char *reason, const char *object, const char *uid,
				 const char *message)
{
	struct keeper *k = arg;

	k->reports++;
	snprintf(k->report_uid, sizeof(k->report_uid), "%s", uid);
	snprintf(k->reason, sizeof(k->reason), "%s", reason);
	snprintf(k->report, sizeof(k->report), "%s: %s", object, message);
}

static const struct tracker_ops keeper_ops = {
	.on_synced = keeper_synced,
	.on_found = keeper_found,
	.on_gone = keeper_gone,
	.on_recorded = keeper_recorded,
	.on_again = keeper_again,
	.on_error = keeper_error,
	.on_report = keeper_report,
	.is_ours = keeper_is_ours,
};

static inline struct keeper *keeper_of(const char *name, bool follow)
{
	struct keeper *k = xcalloc(1, sizeof(*k));
	struct tracker_opts opts = {.ns = NS, .name = name, .follow = follow};

	k->want = map_new();
	k->adopts = !follow;
	k->t = tracker_new(kube, &opts, &keeper_ops, k);
	return k;
}

static inline struct keeper *lead(void)
{
	return keeper_of(TRACKER, false);
}

static inline struct keeper *follow(void)
{
	return keeper_of(TRACKER, true);
}

static inline void keeper_free(struct keeper *k)
{
	struct map_iter it = MAP_ITER(k->want);

	tracker_free(k->t);
	while (map_next(&it))
		free(it.value);
	map_free(k->want);
	free(k);
}

/* ---- what the API server has ---- */

static inline struct sim_object *object_of(const char *name)
{
	return sim_objects_get(objects, configmaps(), STR(NS), str_of(name));
}

static inline const struct json *json_of(const char *name)
{
	struct sim_object *o = object_of(name);

	return o ? sim_object_json(o) : NULL;
}

static inline const char *shard_name(int index)
{
	static char z[64];

	if (index)
		snprintf(z, sizeof(z), "%s-%d", TRACKER, index);
	else
		snprintf(z, sizeof(z), "%s", TRACKER);
	return z;
}

static inline int n_shards(void)
{
	int n = 0;

	for (int i = 0; i < 64; i++)
		n += object_of(shard_name(i)) != NULL;
	return n;
}

static inline const char *value_in(const char *name, const char *key)
{
	return json_cstr(json_get(json_get(json_of(name), "data"), key));
}

/* In how many shards; *ret_value: of the first, may be NULL. */
static inline unsigned n_homes(const char *key, const char **ret_value)
{
	unsigned n = 0;

	for (int i = 0; i < 64; i++) {
		const char *z = value_in(shard_name(i), key);

		if (z && !n++ && ret_value)
			*ret_value = z;
	}
	return n;
}

static inline bool is_stored(const char *key, const char *json)
{
	const char *z = NULL;

	return json ? n_homes(key, &z) == 1 && strcmp(z, json) == 0 : n_homes(key, NULL) == 0;
}

/* ---- hands ---- */

static inline void edit(const char *name, const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root;

	if (!json_of(name) || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to edit");
	root = jmut_merge_patch(doc, jmut_copy(doc, json_of(name)), json_root(p));
	jmut_set_root(doc, root);
	sim_objects_put(objects, configmaps(), doc, root);
}

static inline void make_map(const char *name, const char *meta, const char *rest)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s\","
		"\"namespace\":\"" NS "\"%s},%s}",
		name, meta, rest);

	make_object("configmaps", json);
}

static inline void delete_map(const char *name)
{
	sim_api_delete_now(api, object_of(name));
}

static inline int64_t n_written(void)
{
	return api_calls("create configmaps") + api_calls("patch configmaps") +
	       api_calls("update configmaps") + api_calls("delete configmaps");
}

#define OURS(n)                                                                                    \
	",\"labels\":{\"app.kubernetes.io/name\":\"ipu-operator\","                                \
	"\"app.kubernetes.io/component\":\"partition-tracker\"},\"annotations\":{"                 \
	"\"graphcore.ai/tracker-format\":\"1\",\"graphcore.ai/tracker\":\"" TRACKER "\","          \
	"\"graphcore.ai/tracker-shard\":\"" n "\",\"graphcore.ai/tracker-writer\":\"5.abcd.1\"}"

#endif
