/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods when they are written: defaults, and the checks of Kubernetes' validation that matter to who
 * makes Pods and holds them by scheduling gates. Nothing is kept here.
 */
#include "sim/pod_admit.h"

#include <stdio.h>
#include <string.h>

#include "core/str.h"

/* ---- defaults ---- */

static void default_text(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z)
{
	if (!jmut_get(obj, key))
		jmut_set_str(doc, obj, key, z);
}

void sim_pod_default(struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *spec = jmut_need_object(doc, root, "spec");

	if (!spec)
		return;
	default_text(doc, spec, "restartPolicy", "Always");
	default_text(doc, spec, "dnsPolicy", "ClusterFirst");
	default_text(doc, spec, "serviceAccountName", "default");
	default_text(doc, spec, "schedulerName", "default-scheduler");
	if (!jmut_get(spec, "terminationGracePeriodSeconds"))
		jmut_set_int(doc, spec, "terminationGracePeriodSeconds", SIM_POD_GRACE_S);
}

void sim_pod_begin(struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *status = jmut_object(doc);

	jmut_set_str(doc, status, "phase", "Pending");
	jmut_set_str(doc, status, "qosClass", "BestEffort");
	jmut_set(doc, root, "status", status);
}

/* ---- checks of a whole Pod ---- */

static int wrong(char field[SIM_POD_FIELD], const char *path, struct err *err, const char *message)
{
	snprintf(field, SIM_POD_FIELD, "%s", path);
	return err_set(err, ERR_INVALID, 422, "%s", message);
}

static int check_containers(const struct json *spec, char field[SIM_POD_FIELD], struct err *err)
{
	struct json_iter it = json_iter(json_get(spec, "containers"));

	if (json_len(it.container) == 0)
		return wrong(field, "spec.containers", err, "Required value");
	while (json_next(&it)) {
		char path[64];

		snprintf(path, sizeof(path), "spec.containers[%zu].image", it.index);
		if (!json_str(json_get(it.value, "image")).len)
			return wrong(field, path, err, "Required value");
	}
	return 0;
}

static bool is_gated(const struct json *spec)
{
	return json_len(json_get(spec, "schedulingGates")) > 0;
}

static int check_gates(const struct json *spec, char field[SIM_POD_FIELD], struct err *err)
{
	const struct json *gates = json_get(spec, "schedulingGates");
	struct json_iter it = json_iter(gates);
	char path[64];

	while (json_next(&it)) {
		snprintf(path, sizeof(path), "spec.schedulingGates[%zu]", it.index);
		if (!json_str(json_get(it.value, "name")).len)
			return wrong(field, path, err, "Required value");
		for (size_t i = 0; i < it.index; i++) {
			if (json_equal(json_get(json_item(gates, i), "name"),
				       json_get(it.value, "name")))
				return wrong(field, path, err, "Duplicate value");
		}
	}
	return 0;
}

/* ---- checks of a change ---- */

static bool has_gate(const struct json *spec, const struct json *gate)
{
	struct json_iter it = json_iter(json_get(spec, "schedulingGates"));

	while (json_next(&it)) {
		if (json_equal(it.value, gate))
			return true;
	}
	return false;
}

/* Labels that every Node had to have, it still has to have. */
static bool only_adds(const struct json *before, const struct json *now)
{
	struct json_iter it = json_iter(before);

	while (json_next(&it)) {
		const struct json *v = json_getn(now, it.key);

		if (!v || !json_equal(v, it.value))
			return false;
	}
	return true;
}

/* What may differ: these, and of containers the image. */
static bool may_differ(struct str key)
{
	static const char *const keys[] = {
		"schedulingGates",
		"nodeSelector",
		"tolerations",
		"containers",
		"activeDeadlineSeconds",
		"initContainers",
		"affinity",
		"terminationGracePeriodSeconds",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (str_eqz(key, keys[i]))
			return true;
	}
	return false;
}

static bool same_members(const struct json *a, const struct json *b, bool (*skip)(struct str key))
{
	struct json_iter it = json_iter(a);

	while (json_next(&it)) {
		const struct json *other = json_getn(b, it.key);

		if (!skip(it.key) && (!other || !json_equal(it.value, other)))
			return false;
	}
	return true;
}

static bool is_image(struct str key)
{
	return str_eqz(key, "image");
}

static bool same_containers(const struct json *a, const struct json *b)
{
	struct json_iter it = json_iter(a);

	if (json_len(a) != json_len(b))
		return false;
	while (json_next(&it)) {
		const struct json *other = json_item(b, it.index);

		if (!same_members(it.value, other, is_image) ||
		    !same_members(other, it.value, is_image))
			return false;
	}
	return true;
}

static int check_change(const struct json *was, const struct json *spec, char field[SIM_POD_FIELD],
			struct err *err)
{
	static const char *const lists[] = {"containers", "initContainers"};
	struct json_iter it = json_iter(json_get(spec, "schedulingGates"));
	bool same = same_members(was, spec, may_differ) && same_members(spec, was, may_differ);

	while (json_next(&it)) {
		if (!has_gate(was, it.value))
			return wrong(
				field, "spec.schedulingGates", err,
				"Forbidden: only deletion is allowed, but found new scheduling "
				"gates");
	}
	if (is_gated(was) &&
	    !only_adds(json_get(was, "nodeSelector"), json_get(spec, "nodeSelector")))
		return wrong(
			field, "spec.nodeSelector", err,
			"Invalid value: only additions are allowed (no mutations or deletions)");
	if (!is_gated(was))
		same = same &&
		       json_len(json_get(was, "nodeSelector")) ==
			       json_len(json_get(spec, "nodeSelector")) &&
		       only_adds(json_get(was, "nodeSelector"), json_get(spec, "nodeSelector"));
	for (size_t i = 0; i < 2; i++)
		same = same && same_containers(json_get(was, lists[i]), json_get(spec, lists[i]));
	if (!same)
		return wrong(field, "spec", err,
			     "Forbidden: pod updates may not change fields other than "
			     "`spec.containers[*].image`,`spec.initContainers[*].image`,"
			     "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
			     "existing tolerations)");
	return 0;
}

int sim_pod_check(const struct json *pod, const struct json *before, char field[SIM_POD_FIELD],
		  struct err *err)
{
	const struct json *spec = json_get(pod, "spec");

	if (before)
		return check_change(json_get(before, "spec"), spec, field, err);
	if (is_gated(spec) && json_str(json_get(spec, "nodeName")).len)
		return wrong(
			field, "spec.nodeName", err,
			"Forbidden: cannot be set until all schedulingGates have been cleared");
	return check_containers(spec, field, err) < 0 ? -1 : check_gates(spec, field, err);
}
