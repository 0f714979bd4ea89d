/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an IPUJob asks for, from its JSON to struct job: the sizes of both generations, policies,
 * times, and a hash of what its Pods are made from.
 */
#include "job/model_spec.h"

#include <stdlib.h>
#include <string.h>

#include "core/intern.h"
#include "core/str.h"
#include "vipu/api.h"

#define DEFAULT_BACKOFF_LIMIT 3
#define DEFAULT_SHARE         25 /* per cent of the instances: maxSurge and maxUnavailable */

static uint32_t number_text(const struct json *v, uint32_t otherwise)
{
	int64_t n;

	if (json_type(v) != JSON_STRING || str_to_int(json_str(v), 1, UINT32_MAX, &n, NULL) < 0)
		return otherwise;
	return (uint32_t)n;
}

static uint32_t number_of(const struct json *v, uint32_t otherwise)
{
	int64_t n = json_int(v, 0);

	return n >= 1 && n <= UINT32_MAX ? (uint32_t)n : otherwise;
}

/* A field in seconds as milliseconds. */
static int64_t ms_of(const struct json *v, int64_t least_s, int64_t otherwise_ms)
{
	int64_t n = json_int(v, -1);

	return n >= least_s && n <= INT32_MAX ? n * 1000 : otherwise_ms;
}

static const char *word_of(const struct json *v)
{
	return intern_or_null(json_str(v));
}

static bool is_given(const struct json *obj, const char *key)
{
	enum json_type type = json_type(json_get(obj, key));

	return type != JSON_NONE && type != JSON_NULL;
}

/* ---- sizes and partitions ---- */

static void decode_sizes(struct job *job, const struct json *spec)
{
	const struct json *workers = json_get(spec, "workers");
	uint32_t replicas = number_of(json_get(workers, "replicas"), 1);

	job->first_generation = is_given(spec, "modelReplicas") ||
				is_given(spec, "ipusPerModelReplica");
	if (job->first_generation) {
		uint32_t models = number_text(json_get(spec, "modelReplicas"), 0);

		job->instances = 1;
		job->workers = replicas;
		job->ipus = models * number_text(json_get(spec, "ipusPerModelReplica"), 0);
		job->options.replicas = models;
		job->slots = models / replicas + (models % replicas != 0);
	} else {
		job->slots = number_text(json_get(spec, "modelReplicasPerWorker"), 0);
		job->instances = number_of(json_get(spec, "jobInstances"), 0);
		job->workers = number_text(json_get(spec, "workersPerJobInstance"), replicas);
		job->ipus = number_text(json_get(spec, "ipusPerJobInstance"), 0);
		job->options.replicas = job->slots * job->workers;
	}
	if (job->slots == 0)
		job->slots = 1;
	/* doc/design/decisions.md, "Partition options of a job": frameworks want a reconfigurable
	 * partition; several workers need a GCD each, which goes with one that isn't. */
	job->options.gcds = job->workers;
	job->options.reconfigurable = job->workers == 1;
	if (job->workers == 1)
		job->options.replicas = 0;
}

/* What the job says of its partitions itself. */
static void decode_partition(struct job *job, const struct json *v)
{
	struct partition_options *o = &job->options;
	enum vipu_routing routing = VIPU_IRT_UNDEFINED;
	enum vipu_sync sync = VIPU_ST_UNDEFINED;

	job->keeps_partitions = str_eqz(json_str(json_get(v, "release")), "OnDeletion");
	o->reconfigurable = json_bool(json_get(v, "reconfigurable"), o->reconfigurable);
	o->gcds = number_of(json_get(v, "gcds"), o->gcds);
	o->replicas = number_of(json_get(v, "replicas"), o->replicas);
	(void)vipu_routing_parse(json_str(json_get(v, "routingType")), &routing, NULL);
	(void)vipu_sync_parse(json_str(json_get(v, "syncType")), &sync, NULL);
	o->routing_type = routing;
	o->sync_type = sync;
	o->allocation = str_dup_or_null(json_str(json_get(v, "allocation")));
}

/* ---- policies ---- */

static enum job_clean clean_of(const struct json *v)
{
	return str_eqz(json_str(v), "All")       ? JOB_CLEAN_ALL
	       : str_eqz(json_str(v), "Workers") ? JOB_CLEAN_WORKERS
						 : JOB_CLEAN_NONE;
}

static enum job_restart restart_of(const struct json *v)
{
	return str_eqz(json_str(v), "Always")      ? JOB_RESTART_ALWAYS
	       : str_eqz(json_str(v), "OnFailure") ? JOB_RESTART_ON_FAILURE
	       : str_eqz(json_str(v), "ExitCode")  ? JOB_RESTART_EXIT_CODE
						   : JOB_RESTART_NEVER;
}

/* "1,3-5,137": a part that isn't codes names none. */
static void decode_codes(uint8_t codes[32], struct str rest)
{
	struct str range, from, to;
	int64_t low, high;

	while (rest.len) {
		str_cut(rest, ',', &range, &rest);
		if (!str_cut(range, '-', &from, &to))
			to = from;
		if (str_to_int(from, 0, 255, &low, NULL) < 0 ||
		    str_to_int(to, 0, 255, &high, NULL) < 0)
			continue;
		for (int64_t code = low; code <= high; code++)
			codes[code / 8] |= (uint8_t)(1u << (code % 8));
	}
}

static void decode_restart(struct job *job, const struct json *policy)
{
	int64_t limit = json_int(json_get(policy, "backOffLimit"), DEFAULT_BACKOFF_LIMIT);

	job->restart = restart_of(json_get(policy, "type"));
	job->backoff_limit = limit < 0 || limit > INT32_MAX ? DEFAULT_BACKOFF_LIMIT
							    : (uint32_t)limit;
	if (job->restart == JOB_RESTART_EXIT_CODE)
		decode_codes(job->restart_codes, json_str(json_get(policy, "exitCodes")));
}

/* A number of instances, or a percentage of them, rounded up or down; never more than there are:
 * names are only good for twice as many Pods. */
static uint32_t share_of(const struct json *v, uint32_t instances, bool up)
{
	struct str s = json_str(v);
	int64_t n = DEFAULT_SHARE;
	uint64_t hundredths;

	if (json_type(v) == JSON_INT) {
		n = json_int(v, 0);
		return n < 0 ? 0 : n > instances ? instances : (uint32_t)n;
	}
	if (s.len && s.p[s.len - 1] == '%') {
		s.len--;
		if (str_to_int(s, 0, 999, &n, NULL) < 0)
			n = DEFAULT_SHARE;
	}
	hundredths = (uint64_t)instances * (uint64_t)n + (up ? 99 : 0);
	return hundredths / 100 > instances ? instances : (uint32_t)(hundredths / 100);
}

static void decode_strategy(struct job *job, const struct json *strategy)
{
	const struct json *rolling = json_get(strategy, "rollingUpdate");

	job->strategy = str_eqz(json_str(json_get(strategy, "type")), "Recreate")
				? JOB_RECREATE
				: JOB_ROLLING_UPDATE;
	job->max_surge = share_of(json_get(rolling, "maxSurge"), job->instances, true);
	job->max_unavailable = share_of(json_get(rolling, "maxUnavailable"), job->instances, false);
	if (job->max_surge == 0 && job->max_unavailable == 0)
		job->max_unavailable = 1;
}

static void decode_times(struct job *job, const struct json *spec)
{
	job->suspend = json_bool(json_get(spec, "suspend"), false);
	job->ttl_ms = ms_of(json_at(spec, "interactive", "ttl", NULL), 1, 0);
	job->deadline_ms = ms_of(json_get(spec, "activeDeadlineSeconds"), 1, 0);
	job->start_deadline_ms = ms_of(json_get(spec, "startDeadlineSeconds"), 1, 0);
	job->finished_ttl_ms = ms_of(json_get(spec, "ttlSecondsAfterFinished"), 0, -1);
}

/* ---- what Pods are made from ---- */

/* Pods carry the result (JOB_ANNOTATION_TEMPLATE), so it must stay the same from release to
 * release: another one would roll every job. */
static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
	return hash_fnv(h, (struct str){bytes, n});
}

static uint64_t hash_str(uint64_t h, struct str s)
{
	h = hash_bytes(h, &s.len, sizeof(s.len));
	return hash_fnv(h, s);
}

struct member {
	struct str key;
	const struct json *value;
};

static int by_key(const void *a, const void *b)
{
	struct str x = ((const struct member *)a)->key, y = ((const struct member *)b)->key;
	int order = memcmp(x.p, y.p, x.len < y.len ? x.len : y.len);

	return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* Type, length and value of everything, members in the order of their keys: whoever writes the
 * same in another order has changed nothing. A member that is null isn't there, as in a Pod. */
static uint64_t hash_json(uint64_t h, const struct json *v)
{
	struct json_iter it = json_iter(v);
	enum json_type type = json_type(v);
	struct member *members;
	int64_t i = json_int(v, 0);
	double d = json_real(v, 0);
	size_t n = 0;

	h = hash_bytes(h, &type, sizeof(type));
	if (type == JSON_BOOL)
		i = json_bool(v, false);
	if (type == JSON_STRING)
		return hash_str(h, json_str(v));
	if (type == JSON_REAL)
		return hash_bytes(h, &d, sizeof(d));
	if (type != JSON_ARRAY && type != JSON_OBJECT)
		return hash_bytes(h, &i, sizeof(i));
	members = xcalloc(json_len(v) + 1, sizeof(*members));
	while (json_next(&it)) {
		if (type == JSON_ARRAY || json_type(it.value) != JSON_NULL)
			members[n++] = (struct member){it.key, it.value};
	}
	if (type == JSON_OBJECT)
		qsort(members, n, sizeof(*members), by_key);
	h = hash_bytes(h, &n, sizeof(n));
	for (size_t k = 0; k < n; k++) {
		if (type == JSON_OBJECT)
			h = hash_str(h, members[k].key);
		h = hash_json(h, members[k].value);
	}
	free(members);
	return h;
}

static uint64_t template_hash(const struct json *spec)
{
	const struct json *template = json_at(spec, "workers", "template", NULL);
	uint64_t h;

	if (json_type(template) != JSON_OBJECT)
		return 0;
	h = hash_json(HASH_FNV, template);
	h = hash_json(h, json_get(spec, "launcher"));
	h = hash_json(h, json_get(spec, "interactive"));
	return h ? h : 1;
}

static uint64_t group_hash(const struct json *spec, uint32_t workers)
{
	const struct json *policy = json_get(spec, "schedulingPolicy");
	uint64_t h;

	if (json_type(policy) != JSON_OBJECT)
		return 0;
	h = hash_bytes(hash_json(HASH_FNV, policy), &workers, sizeof(workers));
	return h ? h : 1;
}

uint64_t job_hash_parse(struct str hex)
{
	uint64_t n = 0;

	if (hex.len != 16)
		return 0;
	for (size_t i = 0; i < hex.len; i++) {
		if (hex_digit(hex.p[i]) < 0)
			return 0;
		n = n << 4 | (uint64_t)hex_digit(hex.p[i]);
	}
	return n;
}

/* ---- all of it ---- */

static bool is_others(struct str manager)
{
	return manager.len && !str_eqz(manager, JOB_MANAGER);
}

void job_decode_spec(struct job *job, const struct json *object)
{
	const struct json *spec = json_get(object, "spec"), *meta = json_get(object, "metadata");
	struct str manager = json_str(json_get(spec, "managedBy"));

	decode_sizes(job, spec);
	decode_partition(job, json_get(spec, "partition"));
	job->launcher = json_type(json_get(spec, "launcher")) == JSON_OBJECT;
	job->interactive = json_type(json_get(spec, "interactive")) == JSON_OBJECT;
	job->clean = clean_of(json_get(spec, "cleanPodPolicy"));
	decode_restart(job, json_get(spec, "restartPolicy"));
	decode_strategy(job, json_at(spec, "workers", "strategy", NULL));
	decode_times(job, spec);
	job->template_hash = template_hash(spec);
	job->scheduler = word_of(
		json_at(spec, "workers", "template", "spec", "schedulerName", NULL));
	job->managed_by = is_others(manager) ? intern(manager) : NULL;
	job->queue_name = word_of(json_at(meta, "labels", JOB_LABEL_QUEUE, NULL));
	/* In a queue of Kueue's it's Kueue that lets them go together. */
	job->group_hash = job->queue_name ? 0 : group_hash(spec, job->workers);
	job->force_release = str_eqz(
		json_str(json_at(meta, "annotations", JOB_ANNOTATION_FORCE_RELEASE, NULL)), "true");
	job->priority_class = word_of(
		json_at(spec, "workers", "template", "spec", "priorityClassName", NULL));
}
