/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diagnosis: one row a case, the first one that fits is the answer. doc/design/explain.md has
 * the same table, and a test compares the two.
 */
#include <inttypes.h>
#include <string.h>

#include "ctl/explain.h"
#include "ctl/facts.h"
#include "kube/object.h"

#define MAX_NAMED 5 /* of things that are listed */

/* ---- looks ---- */

static const struct json *items(const struct ctl_look *l, const char *fact)
{
	return json_get(ctl_fact(l->facts, fact), "items");
}

static bool is_state(const struct ctl_look *l, const char *state)
{
	return str_eqz(l->state, state);
}

static struct str text(const struct json *obj, const char *key)
{
	return json_str(json_get(obj, key));
}

/* The newest word of the operator, without a full stop. */
static void say_last(struct ctl_look *l)
{
	struct str said = text(l->status, "lastMessage");

	while (said.len && said.p[said.len - 1] == '.')
		said.len--;
	if (said.len)
		ctl_say(l, "The operator says: %.*s.", STR_ARG(said));
}

static bool has_condition_reason(const struct ctl_look *l, const char *type, const char *reason)
{
	return ctl_is_on(l->object, type) &&
	       str_eqz(text(ctl_condition(l->object, type), "reason"), reason);
}

/* ---- it isn't there ---- */

static bool no_crd(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	/* Where IPUJobs can be listed they are known, whatever defines them. */
	if (l->object || ctl_fact_code(l->facts, "crd") != 404 ||
	    ctl_fact_code(l->facts, "others") != 404)
		return false;
	ctl_say(l, "The cluster doesn't know IPUJobs: their CustomResourceDefinition "
		   "(ipujobs.graphcore.ai) isn't installed.");
	return true;
}

static bool not_there(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct json_iter it = json_iter(items(l, "others"));
	unsigned n = 0;

	(void)rule;
	if (l->object)
		return false;
	ctl_say(l, "There is no %s %.*s in namespace %.*s.", l->is_pod ? "Pod" : "IPUJob",
		STR_ARG(l->name), STR_ARG(l->ns));
	while (json_next(&it) && n++ < MAX_NAMED)
		ctl_say(l, "There is one of that name in namespace %.*s.",
			STR_ARG(kube_namespace(it.value)));
	return true;
}

static bool pod_not_there(struct ctl_look *l, const struct ctl_rule *rule)
{
	return l->is_pod && not_there(l, rule);
}

/* ---- jobs: what they are ---- */

static bool other_manager(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct str manager = text(json_get(l->object, "spec"), "managedBy");

	(void)rule;
	if (l->is_pod || !manager.len || str_eqz(manager, "graphcore.ai/ipu-operator"))
		return false;
	ctl_say(l, "Its spec.managedBy is %.*s: another controller looks after it.",
		STR_ARG(manager));
	return true;
}

static bool is_older(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (l->is_pod || !str_eqz(l->reason, "RunByAnother"))
		return false;
	ctl_say(l, "Graphcore's operator ran it, before this one came.");
	return true;
}

static bool deleting_foreign(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct json_iter it = json_iter(json_at(l->object, "metadata", "finalizers", NULL));

	(void)rule;
	if (!kube_is_deleting(l->object) || l->is_pod ||
	    kube_has_finalizer(l->object, "ipu.finalizers.graphcore.ai"))
		return false;
	l->state = STR("Deleting");
	ctl_say(l, "It is in deletion; its IPUs have been given back.");
	while (json_next(&it))
		ctl_say(l, "The finalizer %.*s holds it, which isn't the operator's.",
			STR_ARG(json_str(it.value)));
	return true;
}

static bool deleting_delayed(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!kube_is_deleting(l->object) || !has_condition_reason(l, "Stalled", "ReleaseDelayed"))
		return false;
	l->state = STR("Deleting");
	ctl_say(l, "It is in deletion, and its IPUs can't be given back now.");
	say_last(l);
	return true;
}

static bool deleting(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!kube_is_deleting(l->object))
		return false;
	l->state = STR("Deleting");
	l->out->since_ms = kube_deletion_ms(l->object);
	ctl_say(l, "It is in deletion, until its Pods have ended and its IPUs are given back.");
	say_last(l);
	return true;
}

static bool completed(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (l->is_pod || !is_state(l, "Completed"))
		return false;
	ctl_say(l, "It has done its work.");
	return true;
}

static bool pod_completed(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!l->is_pod || !is_state(l, "Succeeded"))
		return false;
	ctl_say(l, "It has done its work.");
	return true;
}

static bool invalid(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (l->is_pod || !has_condition_reason(l, "Failed", "InvalidSpec"))
		return false;
	ctl_say(l, "It can't be run as it is written: %.*s",
		STR_ARG(text(ctl_condition(l->object, "Failed"), "message")));
	return true;
}

static bool failed(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!is_state(l, "Failed"))
		return false;
	if (l->is_pod)
		ctl_say(l, "It has ended badly. %.*s", STR_ARG(text(l->status, "message")));
	else
		say_last(l);
	if (!l->out->why.len)
		ctl_say(l, "It has failed.");
	return true;
}

static bool suspended(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (l->is_pod || !is_state(l, "Suspended"))
		return false;
	ctl_say(l, "Its spec.suspend is true: it has neither Pods nor IPUs.");
	return true;
}

static bool running(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!is_state(l, "Running") || (l->is_pod && !ctl_is_on(l->object, "Ready")))
		return false;
	if (l->is_pod)
		ctl_say(l, "It has its IPUs, and runs.");
	else
		ctl_say(l, "It runs: %" PRId64 " of %" PRId64 " instances.",
			json_int(json_get(l->status, "currentReplicas"), 0),
			json_int(json_get(l->status, "desiredReplicas"), 0));
	if (!l->is_pod && ctl_is_on(l->object, "Reconciling"))
		say_last(l);
	return true;
}

static bool restarting(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (l->is_pod || !is_state(l, "Restarting") || l->reason.len)
		return false;
	say_last(l);
	ctl_say(l, "So far it has begun anew %" PRId64 " times.",
		json_int(json_get(l->status, "restartCount"), 0));
	return true;
}

/* ---- Pods: what they are ---- */

static bool not_asking(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!l->is_pod || kube_annotation(l->object, "graphcore.ai/ipus").len ||
	    kube_annotation(l->object, "graphcore.ai/ipu").len)
		return false;
	if (kube_label(l->object, "graphcore.ai/job").len)
		ctl_say(l, "It is a Pod of IPUJob %.*s.",
			STR_ARG(kube_label(l->object, "graphcore.ai/job")));
	else
		ctl_say(l, "It asks for no IPUs: it has no annotation graphcore.ai/ipus.");
	return true;
}

/* An entry of the webhooks' configurations; NULL: it isn't there, or can't be seen. */
static const struct json *webhook(const struct ctl_look *l, const char *fact, const char *name)
{
	struct json_iter it = json_iter(items(l, fact));

	while (json_next(&it)) {
		struct json_iter hooks = json_iter(json_get(it.value, "webhooks"));

		while (json_next(&hooks)) {
			if (str_eqz(text(hooks.value, "name"), name))
				return hooks.value;
		}
	}
	return NULL;
}

static bool is_injected(const struct ctl_look *l)
{
	return kube_label(l->object, "graphcore.ai/pod").len > 0;
}

static bool no_pod_webhook(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!l->is_pod || is_injected(l) || !ctl_fact(l->facts, "mutating") ||
	    webhook(l, "mutating", "mpod.graphcore.ai"))
		return false;
	ctl_say(l, "It asks for IPUs by annotation, and nobody has seen that: the webhook for Pods "
		   "(mpod.graphcore.ai) isn't registered.");
	return true;
}

static bool not_injected(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!l->is_pod || is_injected(l))
		return false;
	ctl_say(l, "It asks for IPUs by annotation, and the webhook has not seen it: it was made "
		   "before the webhook was there, or in a namespace that this leaves out "
		   "(webhook.scope; kube-system and the operator's own).");
	return true;
}

/* ---- the operator ---- */

static bool is_ready(const struct json *pod)
{
	return ctl_is_on(pod, "Ready") && !kube_is_deleting(pod);
}

static size_t count_ready(const struct ctl_look *l)
{
	struct json_iter it = json_iter(items(l, "operatorPods"));
	size_t n = 0;

	while (json_next(&it))
		n += is_ready(it.value);
	return n;
}

/* Whether anything of it answers: outside a cluster it has no Pods. */
static bool answers(const struct ctl_look *l)
{
	return ctl_fact(l->facts, "queue") || ctl_fact(l->facts, "capacity") ||
	       ctl_fact_code(l->facts, "queue") == 403;
}

static bool no_operator(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (answers(l) || !ctl_fact(l->facts, "operatorPods") ||
	    json_len(items(l, "operatorPods")) > 0)
		return false;
	ctl_say(l,
		"The operator isn't there: namespace %.*s has no Pods of it, and its proxy "
		"doesn't answer (%.*s).",
		STR_ARG(text(l->facts, "operatorNamespace")),
		STR_ARG(ctl_fact_error(l->facts, "capacity")));
	return true;
}

/* Why a container doesn't run: its own words. */
static const struct json *waiting_of(const struct json *pod, const char *list)
{
	struct json_iter it = json_iter(json_at(pod, "status", list, NULL));

	while (json_next(&it)) {
		const struct json *w = json_at(it.value, "state", "waiting", NULL);

		if (w && !str_eqz(text(w, "reason"), "PodInitializing"))
			return w;
	}
	return NULL;
}

static const struct json *waiting(const struct json *pod)
{
	const struct json *w = waiting_of(pod, "initContainerStatuses");

	return w ? w : waiting_of(pod, "containerStatuses");
}

static bool operator_down(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct json_iter it = json_iter(items(l, "operatorPods"));
	unsigned n = 0;

	(void)rule;
	if (answers(l) || json_len(items(l, "operatorPods")) == 0 || count_ready(l) > 0)
		return false;
	ctl_say(l, "The operator is installed in namespace %.*s, and none of its Pods is ready.",
		STR_ARG(text(l->facts, "operatorNamespace")));
	while (json_next(&it) && n++ < MAX_NAMED) {
		struct str reason = text(waiting(it.value), "reason");
		const struct json *placed = ctl_condition(it.value, "PodScheduled");

		if (!reason.len && str_eqz(text(placed, "status"), "False"))
			reason = text(placed, "message");
		ctl_say(l, "Pod %.*s is %.*s%s%.*s.", STR_ARG(kube_name(it.value)),
			STR_ARG(json_str(json_at(it.value, "status", "phase", NULL))),
			reason.len ? ": " : "", STR_ARG(reason));
	}
	return true;
}

static bool unseen(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (l->is_pod || json_len(json_get(l->status, "conditions")) > 0)
		return false;
	ctl_say(l, "The operator hasn't looked at it yet.");
	return true;
}

/* ---- what it waits for, by the operator's word ---- */

static bool by_reason(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct str words = l->words;

	if (!l->reason.len || !str_eqz(l->reason, rule->reason))
		return false;
	while (words.len && words.p[words.len - 1] == '.')
		words.len--;
	if (words.len)
		ctl_say(l, "The operator says: %.*s.", STR_ARG(words));
	ctl_say_place(l);
	return l->out->why.len > 0;
}

static bool no_controller(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct str list = json_str(
		json_at(ctl_fact(l->facts, "configMap"), "data", "controllers.yaml", NULL));

	if (!by_reason(l, rule))
		return false;
	if (ctl_fact_code(l->facts, "configMap") == 404)
		ctl_say(l, "There is no ConfigMap with controllers in namespace %.*s.",
			STR_ARG(text(l->facts, "operatorNamespace")));
	else if (ctl_fact(l->facts, "configMap") && !str_trim(list).len)
		ctl_say(l, "The controllers' ConfigMap names none.");
	return true;
}

/* Why it gets no new partitions; NULL: it does. */
static const char *out_of_service(const struct json *c)
{
	if (json_bool(json_get(c, "draining"), false))
		return "draining";
	if (json_bool(json_get(c, "cordoned"), false))
		return "cordoned";
	return json_bool(json_get(c, "noReadyNode"), false) ? "no ready node" : NULL;
}

static void say_controllers(struct ctl_look *l, bool unreachable)
{
	struct json_iter it = json_iter(items(l, "controllers"));
	unsigned n = 0;

	while (json_next(&it) && n < MAX_NAMED) {
		struct str name = text(it.value, "name"), reason = text(it.value, "reason");
		const char *out = out_of_service(it.value);

		if (unreachable && !json_bool(json_get(it.value, "reachable"), true)) {
			ctl_say(l, "%.*s doesn't answer%s%.*s.", STR_ARG(name),
				reason.len ? ": " : "", STR_ARG(reason));
			n++;
		} else if (!unreachable && out) {
			ctl_say(l, "%.*s is out of service (%s).", STR_ARG(name), out);
			n++;
		}
	}
}

static bool unreachable(struct ctl_look *l, const struct ctl_rule *rule)
{
	if (!by_reason(l, rule))
		return false;
	say_controllers(l, true);
	return true;
}

/* Who has the IPUs that it waits for: those with most of them. */
static void say_holders(struct ctl_look *l)
{
	struct str seen[MAX_NAMED] = {STR_NULL};

	for (size_t n = 0; n < 3; n++) {
		struct json_iter it = json_iter(items(l, "partitions"));
		const struct json *most = NULL;

		while (json_next(&it)) {
			bool known = false;

			for (size_t i = 0; i < n; i++)
				known = known || str_eq(seen[i], text(it.value, "id"));
			if (!known && json_int(json_get(it.value, "ipus"), 0) >
					      json_int(json_get(most, "ipus"), 0))
				most = it.value;
		}
		if (!most)
			return;
		seen[n] = text(most, "id");
		ctl_say(l, "%s%.*s/%.*s has %" PRId64 ".", n == 0 ? "Of those in use, " : "",
			STR_ARG(json_str(json_at(most, "owner", "namespace", NULL))),
			STR_ARG(json_str(json_at(most, "owner", "name", NULL))),
			json_int(json_get(most, "ipus"), 0));
	}
}

static bool no_room(struct ctl_look *l, const struct ctl_rule *rule)
{
	if (!by_reason(l, rule))
		return false;
	say_controllers(l, true);
	say_controllers(l, false);
	say_holders(l);
	return true;
}

static bool quota(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct json_iter it = json_iter(items(l, "quotas"));

	if (!str_eqz(l->reason, rule->reason) || !l->words.len ||
	    !memmem(l->words.p, l->words.len, "exceeded quota", strlen("exceeded quota")))
		return false;
	ctl_say(l, "A ResourceQuota of namespace %.*s doesn't let its Pods in: %.*s.",
		STR_ARG(l->ns), STR_ARG(l->words));
	while (json_next(&it)) {
		struct json_iter hard = json_iter(json_at(it.value, "status", "hard", NULL));

		while (json_next(&hard)) {
			struct str used = json_str(
				json_getn(json_at(it.value, "status", "used", NULL), hard.key));

			ctl_say(l, "%.*s: %.*s of %.*s %.*s are used.",
				STR_ARG(kube_name(it.value)), STR_ARG(used),
				STR_ARG(json_str(hard.value)), STR_ARG(hard.key));
		}
	}
	return true;
}

/* ---- what its Pods wait for ---- */

static void say_pod(struct ctl_look *l)
{
	if (!l->is_pod)
		ctl_say(l, "It has its IPUs, but Pod %.*s doesn't run yet.",
			STR_ARG(kube_name(l->pod)));
}

static const struct json *unplaced(const struct ctl_look *l)
{
	const struct json *c = ctl_condition(l->pod, "PodScheduled");

	return str_eqz(text(c, "status"), "False") ? c : NULL;
}

static bool foreign_gate(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct json_iter it = json_iter(json_at(l->pod, "spec", "schedulingGates", NULL));

	(void)rule;
	while (json_next(&it)) {
		struct str gate = text(it.value, "name");

		if (str_eqz(gate, "graphcore.ai/partition"))
			continue;
		ctl_say(l,
			"The scheduling gate %.*s of Pod %.*s is closed, which isn't the "
			"operator's.",
			STR_ARG(gate), STR_ARG(kube_name(l->pod)));
		return true;
	}
	return false;
}

static bool fits_node(const struct json *selector, const struct json *node)
{
	struct json_iter it = json_iter(selector);

	while (json_next(&it)) {
		const struct json *labels = json_at(node, "metadata", "labels", NULL);

		if (!str_eq(json_str(json_getn(labels, it.key)), json_str(it.value)))
			return false;
	}
	return true;
}

static bool no_node_label(struct ctl_look *l, const struct ctl_rule *rule)
{
	const struct json *selector = json_at(l->pod, "spec", "nodeSelector", NULL);
	struct json_iter it = json_iter(items(l, "nodes")), wanted = json_iter(selector);

	(void)rule;
	if (!unplaced(l) || json_len(selector) == 0 || !ctl_fact(l->facts, "nodes"))
		return false;
	while (json_next(&it)) {
		if (fits_node(selector, it.value))
			return false;
	}
	say_pod(l);
	ctl_say(l, "No node of the cluster has all the labels that it must be on:");
	while (json_next(&wanted))
		ctl_say(l, "%.*s=%.*s", STR_ARG(wanted.key), STR_ARG(json_str(wanted.value)));
	return true;
}

static bool unschedulable(struct ctl_look *l, const struct ctl_rule *rule)
{
	const struct json *c = unplaced(l);

	(void)rule;
	if (!c || str_eqz(text(c, "reason"), "SchedulingGated"))
		return false;
	say_pod(l);
	ctl_say(l, "No node takes it: %.*s", STR_ARG(text(c, "message")));
	return true;
}

static bool starts_with_one_of(struct str s, const char *const *prefixes)
{
	for (; *prefixes; prefixes++) {
		if (str_has_prefix(s, str_of(*prefixes)))
			return true;
	}
	return false;
}

static bool container_waits(struct ctl_look *l, const char *const *reasons, const char *what)
{
	const struct json *w = waiting(l->pod);
	struct str reason = text(w, "reason"), message = text(w, "message");

	if (!reason.len || !starts_with_one_of(reason, reasons))
		return false;
	say_pod(l);
	ctl_say(l, "%s: %.*s%s%.*s", what, STR_ARG(reason), message.len ? ": " : "",
		STR_ARG(message));
	return true;
}

static bool image(struct ctl_look *l, const struct ctl_rule *rule)
{
	static const char *const reasons[] = {"ImagePull", "ErrImage", "InvalidImageName",
					      "RegistryUnavailable", NULL};

	(void)rule;
	return container_waits(l, reasons, "An image can't be had");
}

static bool container(struct ctl_look *l, const struct ctl_rule *rule)
{
	static const char *const reasons[] = {"Create",     "RunContainerError", "CrashLoopBackOff",
					      "StartError", "PostStartHook",     NULL};

	(void)rule;
	return container_waits(l, reasons, "A container can't be started");
}

static bool starting(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	if (!l->pod || !json_str(json_at(l->pod, "spec", "nodeName", NULL)).len)
		return false;
	if (!l->is_pod)
		ctl_say(l, "It has its IPUs, and Pod %.*s is being started on its node.",
			STR_ARG(kube_name(l->pod)));
	else
		ctl_say(l, "It is being started on node %.*s.",
			STR_ARG(json_str(json_at(l->pod, "spec", "nodeName", NULL))));
	return true;
}

static bool no_scheduler(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct str scheduler = json_str(json_at(l->pod, "spec", "schedulerName", NULL));

	(void)rule;
	if (!l->pod || ctl_condition(l->pod, "PodScheduled"))
		return false;
	say_pod(l);
	ctl_say(l, "Its scheduler (%.*s) hasn't looked at it.",
		STR_ARG(scheduler.len ? scheduler : STR("default-scheduler")));
	return true;
}

/* ---- partitions ---- */

static bool making(struct ctl_look *l, const struct ctl_rule *rule)
{
	struct json_iter it = json_iter(items(l, "partitions"));

	(void)rule;
	while (json_next(&it)) {
		struct str state = text(it.value, "state");

		if (!str_eq(json_str(json_at(it.value, "owner", "uid", NULL)), l->uid) ||
		    str_eqz(state, "active"))
			continue;
		ctl_say(l, "Its partition %.*s on %.*s is %.*s.", STR_ARG(text(it.value, "id")),
			STR_ARG(text(it.value, "controller")), STR_ARG(state));
		return true;
	}
	return false;
}

static bool anything(struct ctl_look *l, const struct ctl_rule *rule)
{
	(void)rule;
	say_last(l);
	if (!l->out->why.len)
		ctl_say(l, "It is %.*s, and nothing that can be seen from here holds it up.",
			STR_ARG(l->state));
	return true;
}

/* ---- the table ---- */

#define WAITING_NEXT "It goes on by itself when the cause is gone; nothing need be done again."
#define ITSELF       "It goes on by itself."
#define NOTHING      "Nothing, by itself."

/* clang-format off */
const struct ctl_rule ctl_rules[] = {
	{"no-crd", no_crd, NULL, NOTHING, "An administrator installs the operator by helm, or the definition alone by `ipuctl crd apply`."},
	{"pod-not-there", pod_not_there, NULL, NOTHING, "Name its namespace by -n; `kubectl get pods -A` lists all."},
	{"not-there", not_there, NULL, NOTHING, "Name its namespace by -n; `kubectl get ipujobs -A` lists all."},
	{"other-manager", other_manager, NULL, NOTHING, "Ask the controller that is named there, or make the job anew without spec.managedBy."},
	{"run-by-another", is_older, "RunByAnother", "It is left as it is, and its IPUs are looked after.", "Make it anew, if it's to run under this operator."},
	{"deleting-foreign", deleting_foreign, NULL, "It goes when that finalizer does.", "Find out who has set the finalizer."},
	{"deleting-delayed", deleting_delayed, NULL, "The release is tried again until it works.", "Mend the V-IPU controller; or, if it won't come back, set the annotation graphcore.ai/force-release to \"true\" on the job."},
	{"deleting", deleting, NULL, "It goes by itself when that's done.", "Wait; a Pod on a node that is lost takes a minute longer."},
	{"completed", completed, NULL, "It stays until somebody deletes it, or its ttlSecondsAfterFinished has passed.", "Look at the logs of its Pods, or delete it."},
	{"pod-completed", pod_completed, NULL, "It stays until somebody deletes it, or what owns it does.", "Look at its logs, or delete it."},
	{"invalid", invalid, NULL, NOTHING, "Correct it, and make it anew; `ipuctl validate` shows the places in the manifest."},
	{"failed", failed, NULL, "It isn't begun again.", "Look at the logs of its Pods and at its Events; make it anew, with a restartPolicy if it may be tried again."},
	{"suspended", suspended, NULL, NOTHING, "Set spec.suspend to false."},
	{"not-asking", not_asking, NULL, NOTHING, "Give the Pod the annotation graphcore.ai/ipus before it's made; of a job's Pod explain the job."},
	{"no-pod-webhook", no_pod_webhook, NULL, NOTHING, "An administrator sees to the operator's webhook role (roles, webhook.mutatingConfiguration); then make the Pod anew."},
	{"not-injected", not_injected, NULL, NOTHING, "Make it anew, where the webhook looks."},
	{"running", running, NULL, "It ends by itself.", "Follow its logs."},
	{"no-operator", no_operator, NULL, "Nothing, until the operator is there.", "Install the operator, or say by --operator-namespace and --service where it is."},
	{"operator-down", operator_down, NULL, WAITING_NEXT, "An administrator looks at the operator's Pods: `kubectl describe` and `kubectl logs`; `ipuctl support-bundle` gathers all of it."},
	{"unseen", unseen, NULL, "It looks within seconds.", "If that doesn't change: look at the operator's log, and whether it serves this namespace."},
	{"OperatorStarting", by_reason, "OperatorStarting", ITSELF, "Wait: this takes seconds, or until the V-IPU controllers answer."},
	{"WaitingForKueue", by_reason, "WaitingForKueue", "It goes on when Kueue admits its workload.", "`kubectl get workloads` shows what Kueue thinks of it; its queue and quota are Kueue's."},
	{"NoController", no_controller, "NoController", WAITING_NEXT, "An administrator names the V-IPU controllers: vipuControllers of the chart, or the ConfigMap's key controllers.yaml."},
	{"ControllerUnreachable", unreachable, "ControllerUnreachable", WAITING_NEXT, "See whether the V-IPU controller runs, and whether the operator's Pods reach its address: network, firewall, TLS."},
	{"NoReadyNode", by_reason, "NoReadyNode", WAITING_NEXT, "An administrator looks at the nodes with the controller's label: `kubectl describe node` says in IPUFabricReady what is wrong, `ipuctl rdma check` there what to do."},
	{"TooLarge", by_reason, "TooLarge", NOTHING, "Ask for fewer IPUs, at most as many as the largest controller has (`ipuctl controllers`)."},
	{"WaitingForIPUs", no_room, "WaitingForIPUs", "It gets them in its turn, as others give theirs back.", "Wait; ask for fewer IPUs; or free some (`ipuctl top`)."},
	{"WaitingInQueue", no_room, "WaitingInQueue", "It follows the larger job ahead of it, or goes before where that's no loss to it.", "Wait; a priorityClassName of a higher priority changes its place."},
	{"QuotaExceeded", by_reason, "QuotaExceeded", "It goes on when other jobs of the namespace give IPUs back.", "Wait for the namespace's other jobs, or ask an administrator for more (annotation graphcore.ai/max-ipus on the Namespace)."},
	{"PolicyForbids", by_reason, "PolicyForbids", NOTHING, "Ask for fewer IPUs or for a shorter time, or ask an administrator (policy of the configuration, annotations on the Namespace)."},
	{"PartitionRefused", by_reason, "PartitionRefused", "It's tried again.", "An administrator looks at the V-IPU controller: its words say what it doesn't like."},
	{"PartitionFailed", by_reason, "PartitionFailed", "It's tried again, on another partition.", "An administrator looks at the V-IPU controller and its agents."},
	{"PartitionVanished", by_reason, "PartitionVanished", ITSELF, "Find out who has removed a partition of the operator's by hand."},
	{"PartitionTaken", by_reason, "PartitionTaken", "Nothing while that partition is there.", "Remove the other partition by hand, if nobody needs it."},
	{"TrackerUnwritable", by_reason, "TrackerUnwritable", WAITING_NEXT, "An administrator looks at the ConfigMap ipu-partitions-tracker: rights, a quota, a webhook of others."},
	{"NoIPUoFConfig", by_reason, "NoIPUoFConfig", WAITING_NEXT, "An administrator looks at the V-IPU controller: it must give the IPUoF configuration (GetPartitionIpuofConfig)."},
	{"ProxyUnreachable", by_reason, "ProxyUnreachable", WAITING_NEXT, "An administrator looks at the Pods of the operator's proxy."},
	{"NotSupported", by_reason, "NotSupported", "Nothing, until the operator's configuration has what is missing.", "An administrator sets what is named there (launcher.image)."},
	{"NameConflict", by_reason, "NameConflict", "It looks again now and then.", "Remove or rename the other object."},
	{"InvalidAnnotation", by_reason, "InvalidAnnotation", NOTHING, "Correct the annotation: a gated Pod's may be changed."},
	{"TokenTaken", by_reason, "TokenTaken", NOTHING, "Make the Pod anew; see to the webhook."},
	{"OtherGates", by_reason, "OtherGates", "It goes on when these gates are open.", "Find out who has set the gate, and what that waits for."},
	{"NodeSelectorConflict", by_reason, "NodeSelectorConflict", "It's tried again.", "Change the Pod's nodeSelector, or wait for IPUs of a controller whose nodes it may be on."},
	{"resource-quota", quota, "PodRefused", "It's tried again.", "Ask for less in the Pods, wait for others of the namespace, or ask an administrator for a larger ResourceQuota."},
	{"PodRefused", by_reason, "PodRefused", "It's tried again.", "Correct what the API server doesn't like: the template, an account that is missing, another webhook's rule."},
	{"ConfigMapRefused", by_reason, "ConfigMapRefused", "It's tried again.", "Mend what the API server names: a quota, rights, another webhook's rule."},
	{"LauncherObjectRefused", by_reason, "LauncherObjectRefused", "It's tried again.", "Mend what the API server names: a quota, the operator's rights, another webhook's rule."},
	{"PodGroupRefused", by_reason, "PodGroupRefused", "It's tried again.", "Look at the gang scheduler's own webhook and definitions."},
	{"ControllerDraining", by_reason, "ControllerDraining", "It moves by itself if it may be restarted.", "An administrator may end the draining by `ipuctl uncordon`."},
	{"restarting", restarting, NULL, "The next run begins by itself, each time after a longer wait, until backOffLimit.", "Look at the logs of the Pods that failed, and at the Events."},
	{"making", making, NULL, ITSELF, "Wait: a V-IPU controller takes seconds for that."},
	{"gated-by-others", foreign_gate, NULL, "It goes on when that gate is open.", "Find out who has set the gate: Kueue's means its queue."},
	{"no-node-label", no_node_label, NULL, WAITING_NEXT, "Give the nodes that reach the V-IPU controller that label (`kubectl label node`), or correct the controller's selector, or the template's nodeSelector."},
	{"unschedulable", unschedulable, NULL, "After startDeadlineSeconds the IPUs are given back, and it queues again.", "Make room on the nodes, or ask for less: the scheduler's words say of what there is too little."},
	{"image", image, NULL, "It's tried again; after startDeadlineSeconds that counts as a failure.", "Correct the image's name or the pull secret, or see to the registry."},
	{"container", container, NULL, "It's tried again; after startDeadlineSeconds that counts as a failure.", "Mend what is named: a ConfigMap or Secret that is missing, a command that isn't in the image."},
	{"starting", starting, NULL, ITSELF, "Wait: an image may still be coming; `kubectl describe pod` shows it."},
	{"no-scheduler", no_scheduler, NULL, WAITING_NEXT, "See whether the scheduler runs that the template's schedulerName means."},
	{"other", anything, NULL, ITSELF, "`kubectl describe` shows its Events; `ipuctl support-bundle` gathers what an expert needs."},
	{.id = NULL},
};
/* clang-format on */

/* ---- remarks ---- */

static bool is_over(const struct ctl_look *l)
{
	return is_state(l, "Completed") || is_state(l, "Succeeded") || is_state(l, "Failed");
}

static void remark_webhooks(struct ctl_look *l)
{
	if (l->is_pod)
		return;
	if (ctl_fact(l->facts, "mutating") && !webhook(l, "mutating", "mipujob.graphcore.ai"))
		ctl_remark(l, "The webhook that gives IPUJobs their defaults "
			      "(mipujob.graphcore.ai) isn't registered.");
	if (ctl_fact(l->facts, "validating") && !webhook(l, "validating", "vipujob.graphcore.ai"))
		ctl_remark(l, "The webhook that checks IPUJobs (vipujob.graphcore.ai) isn't "
			      "registered: what is wrong is found out later.");
}

void ctl_remarks(struct ctl_look *l)
{
	static const char *const wanted[] = {"operatorPods", "queue", "events", "pods"};
	struct buf missing = BUF_INIT(1024);

	if (is_over(l) || !l->out->id)
		return;
	if (ctl_fact(l->facts, "crd") && !ctl_is_on(ctl_fact(l->facts, "crd"), "Established"))
		ctl_remark(l, "The CustomResourceDefinition of IPUJobs isn't established.");
	remark_webhooks(l);
	if (strcmp(l->out->id, "no-operator") != 0 && strcmp(l->out->id, "operator-down") != 0) {
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (ctl_fact_error(l->facts, wanted[i]).len)
				(void)buf_printf(&missing, NULL, "%s%s (%.*s)",
						 missing.len ? ", " : "", wanted[i],
						 STR_ARG(ctl_fact_error(l->facts, wanted[i])));
		}
	}
	if (missing.len)
		ctl_remark(l,
			   "What is said here may lack something: these couldn't be asked: %.*s.",
			   STR_ARG(buf_str(&missing)));
	buf_done(&missing);
}
