/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which limit holds where: the configuration's default or its entry for the namespace, and the
 * Namespace's annotations. Pure.
 */
#include "partition/policy.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

/* The limits, by what says them on a Namespace. */
static const struct {
	const char *annotation;
	size_t at;
} limits[] = {
	{PARTITION_ANNOTATION_MAX_IPUS, offsetof(struct partition_policy, max_ipus)},
	{PARTITION_ANNOTATION_MAX_JOB_IPUS, offsetof(struct partition_policy, max_job_ipus)},
	{PARTITION_ANNOTATION_MAX_DEADLINE, offsetof(struct partition_policy, max_deadline_s)},
	{PARTITION_ANNOTATION_DEFAULT_DEADLINE,
	 offsetof(struct partition_policy, default_deadline_s)},
	{PARTITION_ANNOTATION_MAX_INTERACTIVE,
	 offsetof(struct partition_policy, max_interactive_s)},
};
#define N_LIMITS (sizeof(limits) / sizeof(limits[0]))

const struct partition_policy partition_policy_none = {PARTITION_UNLIMITED, PARTITION_UNLIMITED,
						       PARTITION_UNLIMITED, PARTITION_UNLIMITED,
						       PARTITION_UNLIMITED};
const struct partition_policy partition_policy_unset = {
	PARTITION_UNSET, PARTITION_UNSET, PARTITION_UNSET, PARTITION_UNSET, PARTITION_UNSET};

static int64_t get(const struct partition_policy *p, size_t i)
{
	int64_t v;

	memcpy(&v, (const char *)p + limits[i].at, sizeof(v));
	return v;
}

static int64_t *at(struct partition_policy *p, size_t i)
{
	return (int64_t *)(void *)((char *)p + limits[i].at);
}

bool partition_policy_is_unset(const struct partition_policy *p)
{
	for (size_t i = 0; i < N_LIMITS; i++) {
		if (get(p, i) != PARTITION_UNSET)
			return false;
	}
	return true;
}

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
	bool good = true;

	for (size_t i = 0; i < N_LIMITS; i++) {
		/* The first one that is wrong is told. */
		if (!read_one(annotations, limits[i].annotation, at(ret, i), good ? err : NULL))
			good = false;
	}
	return good;
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
	const struct partition_policy *n = find_named(rules, ns);
	struct partition_policy p;

	for (size_t i = 0; i < N_LIMITS; i++)
		*at(&p, i) = limit(get(&rules->fallback, i),
				   get(n ? n : &partition_policy_unset, i),
				   get(annotated ? annotated : &partition_policy_unset, i));
	return p;
}

bool partition_policy_allows(const struct partition_policy *p, uint64_t job_ipus,
			     const struct partition_ask *ask, char *ret_message, size_t size)
{
	const char *ns = ask->owner.ns;
	int64_t time_s = ask->deadline_ms / 1000;

	if (p->max_job_ipus >= 0 && job_ipus > (uint64_t)p->max_job_ipus)
		snprintf(ret_message, size,
			 "asks for %" PRIu64 " IPUs, a job in namespace %s may have %" PRId64,
			 job_ipus, ns, p->max_job_ipus);
	else if (p->max_deadline_s >= 0 && ask->deadline_ms > p->max_deadline_s * 1000)
		snprintf(ret_message, size,
			 "may run for %" PRId64 " s, a job in namespace %s for %" PRId64
			 " s at most",
			 time_s, ns, p->max_deadline_s);
	else if (ask->interactive && p->max_interactive_s >= 0 &&
		 ask->deadline_ms > p->max_interactive_s * 1000)
		snprintf(ret_message, size,
			 "may stay for %" PRId64 " s, an interactive job in namespace %s for "
			 "%" PRId64 " s at most",
			 time_s, ns, p->max_interactive_s);
	else
		return true;
	return false;
}

int64_t partition_policy_default_ms(const struct partition_policy *p)
{
	/* Where jobs may name no time at all, theirs is still the default, and not none. */
	int64_t most_s = p->max_deadline_s ? p->max_deadline_s : PARTITION_UNLIMITED;

	if (p->default_deadline_s <= 0)
		return 0;
	return smaller(p->default_deadline_s, most_s) * 1000;
}
