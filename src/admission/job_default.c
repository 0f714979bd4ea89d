/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The defaults of an IPUJob: those of the CRD, for a cluster whose CRD has none, and the one that
 * a schema can't say. What has a meaning that may change (the configuration's times, the
 * controller's choices, the second of two sizes) isn't written into anybody's object.
 */
#include "admission/job.h"

#include "core/str.h"

#define BACKOFF_LIMIT 3
#define SHARE         "25%"

/* A member that is null isn't there, as in the API server's own defaulting. */
static bool is_absent(const struct jmut *obj, const char *key)
{
	enum json_type type = json_type(jmut_view(jmut_get(obj, key)));

	return type == JSON_NONE || type == JSON_NULL;
}

static void default_str(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z)
{
	if (is_absent(obj, key))
		jmut_set_str(doc, obj, key, z);
}

static void default_int(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t n)
{
	if (is_absent(obj, key))
		jmut_set_int(doc, obj, key, n);
}

static bool is_type(const struct json *strategy, const char *type)
{
	return str_eqz(json_str(json_get(strategy, "type")), type);
}

/* Whoever changes the strategy to Recreate by `kubectl apply` can't know of the shares that a
 * default had put beside it, and which stay there: they can't have been meant. */
static void drop_leftover(struct jmut *strategy, const struct json *before)
{
	const struct json *was = json_at(before, "spec", "workers", "strategy", NULL);
	const struct json *rolling = json_get(was, "rollingUpdate");

	if (is_type(jmut_view(strategy), "Recreate") && is_type(was, "RollingUpdate") && rolling &&
	    json_equal(rolling, jmut_view(jmut_get(strategy, "rollingUpdate"))))
		jmut_del(strategy, "rollingUpdate");
}

static void default_shares(struct jmut_doc *doc, struct jmut *strategy)
{
	struct jmut *rolling;

	/* Beside Recreate it's an error, which isn't ours to make; and what somebody wrote there is
	 * completed as the CRD does, so that he reads of it as it stands. */
	if (is_absent(strategy, "rollingUpdate") && !is_type(jmut_view(strategy), "RollingUpdate"))
		return;
	rolling = jmut_need_object(doc, strategy, "rollingUpdate");
	if (!rolling)
		return;
	default_str(doc, rolling, "maxSurge", SHARE);
	default_str(doc, rolling, "maxUnavailable", SHARE);
}

static void default_strategy(struct jmut_doc *doc, struct jmut *workers, const struct json *before)
{
	struct jmut *strategy = jmut_need_object(doc, workers, "strategy");

	if (!strategy)
		return;
	default_str(doc, strategy, "type", "RollingUpdate");
	default_shares(doc, strategy);
	drop_leftover(strategy, before);
}

static void default_restart(struct jmut_doc *doc, struct jmut *spec)
{
	bool whole = is_absent(spec, "restartPolicy");
	struct jmut *policy = jmut_need_object(doc, spec, "restartPolicy");

	/* One that is written must say its type: "backOffLimit: 5" alone would else mean Never. */
	if (whole)
		jmut_set_str(doc, policy, "type", "Never");
	if (policy)
		default_int(doc, policy, "backOffLimit", BACKOFF_LIMIT);
}

int admission_job_default(struct jmut_doc *doc, const struct json *before,
			  const struct json *object, struct err *err)
{
	struct jmut *root, *spec, *workers;

	if (json_type(object) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "an IPUJob must be an object, not %s",
			       json_type_name(json_type(object)));
	root = jmut_copy(doc, object);
	jmut_set_root(doc, root);
	spec = jmut_get(root, "spec");
	if (json_type(jmut_view(spec)) != JSON_OBJECT)
		return 0;
	workers = jmut_get(spec, "workers");
	if (json_type(jmut_view(workers)) == JSON_OBJECT) {
		default_int(doc, workers, "replicas", 1);
		default_strategy(doc, workers, before);
	}
	default_restart(doc, spec);
	default_str(doc, spec, "cleanPodPolicy", "None");
	return 0;
}
