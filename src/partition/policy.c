/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which limit holds where: the configuration's default or its entry for the namespace, and the
 * Namespace's annotations. Pure.
 */
#include "partition/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

const struct partition_policy partition_policy_none = {PARTITION_UNLIMITED, PARTITION_UNLIMITED,
						       PARTITION_UNLIMITED};

void partition_rules_copy(struct partition_rules *to, const struct partition_rules *from)
{
	*to = (struct partition_rules){.fallback = from->fallback, .n = from->n};
	to->named = xcalloc(from->n + 1, sizeof(*to->named));
	for (size_t i = 0; i < from->n; i++) {
		to->named[i].ns = xstrdup(from->named[i].ns);
		to->named[i].policy = from->named[i].policy;
	}
}

void partition_rules_done(struct partition_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		free(rules->named[i].ns);
	free(rules->named);
	*rules = (struct partition_rules){.fallback = partition_policy_none};
}

/* ---- annotations ---- */

static bool read_one(const struct json *annotations, const char *name, int64_t *ret,
		     struct err *err)
{
	const struct json *v = json_get(annotations, name);
	int64_t n;

	*ret = PARTITION_UNSET;
	if (json_type(v) != JSON_STRING)
		return true;
	if (str_to_int(json_str(v), PARTITION_UNLIMITED, PARTITION_POLICY_MAX, &n, NULL) < 0) {
		err_set(err, ERR_INVALID, 0,
			"annotation %s: \"%.*s\" isn't a number of at least 0, or -1 for no limit",
			name, (int)(json_str(v).len < 40 ? json_str(v).len : 40), json_str(v).p);
		return false;
	}
	*ret = n;
	return true;
}

bool partition_policy_read(const struct json *annotations, struct partition_policy *ret,
			   struct err *err)
{
	bool ipus = read_one(annotations, PARTITION_ANNOTATION_MAX_IPUS, &ret->max_ipus, err);
	bool job = read_one(annotations, PARTITION_ANNOTATION_MAX_JOB_IPUS, &ret->max_job_ipus,
			    err);
	bool time = read_one(annotations, PARTITION_ANNOTATION_MAX_DEADLINE, &ret->max_deadline_s,
			     err);

	return ipus && job && time;
}

/* ---- what holds ---- */

static const struct partition_policy *find_named(const struct partition_rules *rules,
						 const char *ns)
{
	for (size_t i = 0; i < rules->n; i++) {
		if (strcmp(rules->named[i].ns, ns) == 0)
			return &rules->named[i].policy;
	}
	return NULL;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a == PARTITION_UNLIMITED ? b : b == PARTITION_UNLIMITED || a < b ? a : b;
}

static int64_t limit(int64_t fallback, int64_t named, int64_t annotated)
{
	if (annotated == PARTITION_UNSET)
		return named == PARTITION_UNSET ? fallback : named;
	return named == PARTITION_UNSET ? annotated : smaller(named, annotated);
}

struct partition_policy partition_policy_for(const struct partition_rules *rules, const char *ns,
					     const struct partition_policy *annotated)
{
	static const struct partition_policy unset = {PARTITION_UNSET, PARTITION_UNSET,
						      PARTITION_UNSET};
	const struct partition_policy *f = &rules->fallback, *n = find_named(rules, ns);
	const struct partition_policy *a = annotated ? annotated : &unset;

	n = n ? n : &unset;
	return (struct partition_policy){
		.max_ipus = limit(f->max_ipus, n->max_ipus, a->max_ipus),
		.max_job_ipus = limit(f->max_job_ipus, n->max_job_ipus, a->max_job_ipus),
		.max_deadline_s = limit(f->max_deadline_s, n->max_deadline_s, a->max_deadline_s),
	};
}

bool partition_policy_allows(const struct partition_policy *p, const char *ns, uint64_t job_ipus,
			     int64_t deadline_ms, char *ret_message, size_t size)
{
	if (p->max_job_ipus >= 0 && job_ipus > (uint64_t)p->max_job_ipus) {
		snprintf(ret_message, size,
			 "asks for %" PRIu64 " IPUs, a job in namespace %s may have %" PRId64,
			 job_ipus, ns, p->max_job_ipus);
		return false;
	}
	if (p->max_deadline_s >= 0 && deadline_ms > p->max_deadline_s * 1000) {
		snprintf(ret_message, size,
			 "may run for %" PRId64 " s, a job in namespace %s for %" PRId64
			 " s at most",
			 deadline_ms / 1000, ns, p->max_deadline_s);
		return false;
	}
	return true;
}
