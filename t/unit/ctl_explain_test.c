/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diagnosis of `ipuctl explain`: facts for each row of doc/design/explain.md, and what is said.
 */
#include "ctl/explain.h"

#include <stdlib.h>

#include "core/clock.h"
#include "ctl/facts.h"
#include "tap.h"

/* Facts that most cases have; a case's own come before them, and win. */
#define AROUND                                                                                     \
	"\"now\":\"2026-01-01T00:10:00Z\",\"kind\":\"IPUJob\",\"namespace\":\"default\","          \
	"\"name\":\"bert\",\"operatorNamespace\":\"ipu-operator\","                                \
	"\"crd\":{\"value\":{\"status\":{\"conditions\":[{\"type\":\"Established\",\"status\":"    \
	"\"True\"}]}}},"                                                                           \
	"\"operatorPods\":{\"value\":{\"items\":[{\"metadata\":{\"name\":\"op\"},\"status\":{"     \
	"\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}]}},"    \
	"\"queue\":{\"value\":{\"items\":[]}},\"capacity\":{\"value\":{}},"                        \
	"\"mutating\":{\"value\":{\"items\":[{\"webhooks\":[{\"name\":\"mipujob.graphcore.ai\"},"  \
	"{\"name\":\"mpod.graphcore.ai\"}]}]}},"                                                   \
	"\"validating\":{\"value\":{\"items\":[{\"webhooks\":[{\"name\":"                          \
	"\"vipujob.graphcore.ai\"}]}]}},"                                                          \
	"\"nodes\":{\"value\":{\"items\":[{\"metadata\":{\"labels\":{\"ipunode\":\"a\"}}}]}}"

#define META "\"metadata\":{\"name\":\"bert\",\"uid\":\"u1\"},"
#define IN_STAGE(type, state, more)                                                                \
	"\"object\":{\"value\":{" META "\"status\":{\"launcherStatus\":\"" state                   \
	"\",\"conditions\":[{\"type\":\"" type "\",\"status\":\"True\",\"lastTransitionTime\":"    \
	"\"2026-01-01T00:00:00Z\"" more "}],\"lastMessage\":\"Last word.\"}}},"
#define PENDING IN_STAGE("Pending", "Pending", "")
#define EVENT(reason, words)                                                                       \
	PENDING "\"events\":{\"value\":{\"items\":[{\"reason\":\"" reason                          \
		"\",\"message\":\"" words "\",\"lastTimestamp\":\"2026-01-01T00:05:00Z\","         \
		"\"involvedObject\":{\"uid\":\"u1\"},\"source\":{\"component\":\"ipu-operator\"}}" \
		"]}},"
#define QUEUED(reason, words)                                                                      \
	PENDING "\"queue\":{\"value\":{\"items\":[{\"position\":3,\"kind\":\"IPUJob\","            \
		"\"namespace\":\"default\",\"name\":\"bert\",\"reason\":\"" reason                 \
		"\",\"message\":\"" words "\",\"since\":\"2026-01-01T00:01:00Z\"}]}},"
#define POD_OF(status, spec)                                                                       \
	PENDING "\"pods\":{\"value\":{\"items\":[{\"metadata\":{\"name\":\"bert-worker-0\"},"      \
		"\"spec\":{" spec "},\"status\":{\"phase\":\"Pending\"," status "}}]}},"
#define UNPLACED                                                                                   \
	"\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"              \
	"\"Unschedulable\",\"message\":\"0/3 nodes\"}]"
#define CONTAINER(reason)                                                                          \
	"\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\"}],"                        \
	"\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":\"" reason                     \
	"\",\"message\":\"its words\"}}}]"
#define POD(meta, status)                                                                              \
	"\"kind\":\"Pod\",\"object\":{\"value\":{\"metadata\":{\"name\":\"bert\",\"uid\":\"u1\"," meta \
	"},\"status\":{" status "}}},"
#define ASKS     "\"annotations\":{\"graphcore.ai/ipus\":\"2\"}"
#define INJECTED "\"labels\":{\"graphcore.ai/pod\":\"0\"},"
#define SILENT                                                                                     \
	"\"queue\":{\"error\":{\"code\":404,\"message\":\"no service\"}},\"capacity\":{\"error\":" \
	"{\"code\":404,\"message\":\"no service\"}},"

static const struct {
	const char *facts, *id, *why; /* why: a part of it, of which | is the end */
} cases[] = {
	{"\"object\":{\"error\":{\"code\":404}},\"crd\":{\"error\":{\"code\":404}},"
	 "\"others\":{\"error\":{\"code\":404}},",
	 "no-crd", "isn't installed"},
	{"\"object\":{\"error\":{\"code\":404}},\"crd\":{\"error\":{\"code\":404}},"
	 "\"others\":{\"value\":{\"items\":[]}},",
	 "not-there", "no IPUJob bert in namespace default"},
	{"\"kind\":\"Pod\",\"object\":{\"error\":{\"code\":404}},\"others\":{\"value\":{\"items\":[]}},",
	 "pod-not-there", "no Pod bert in namespace default"},
	{"\"object\":{\"error\":{\"code\":404}},\"others\":{\"value\":{\"items\":[{\"metadata\":{"
	 "\"namespace\":\"team\"}}]}},",
	 "not-there",
	 "no IPUJob bert in namespace default. There is one of that name in namespace team"},
	{"\"object\":{\"value\":{" META "\"spec\":{\"managedBy\":\"kueue.x-k8s.io/multikueue\"}}},",
	 "other-manager", "kueue.x-k8s.io/multikueue"},
	{EVENT("RunByAnother", "x"), "run-by-another", "Graphcore's operator"},
	{"\"object\":{\"value\":{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
	 "\"finalizers\":[\"x.example.com\"]}}},",
	 "deleting-foreign", "The finalizer x.example.com holds it"},
	{"\"object\":{\"value\":{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
	 "\"finalizers\":[\"ipu.finalizers.graphcore.ai\"]},\"status\":{\"conditions\":[{\"type\":"
	 "\"Stalled\",\"status\":\"True\",\"reason\":\"ReleaseDelayed\"}]}}},",
	 "deleting-delayed", "can't be given back now"},
	{"\"object\":{\"value\":{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
	 "\"finalizers\":[\"ipu.finalizers.graphcore.ai\"]}}},",
	 "deleting", "until its Pods have ended"},
	{IN_STAGE("Succeeded", "Completed", ""), "completed", "has done its work"},
	{POD(ASKS, "\"phase\":\"Succeeded\""), "pod-completed", "has done its work"},
	{IN_STAGE("Failed", "Failed", ",\"reason\":\"InvalidSpec\",\"message\":\"spec.x: wrong\""),
	 "invalid", "spec.x: wrong"},
	{IN_STAGE("Failed", "Failed", ""), "failed", "Last word."},
	{IN_STAGE("Suspended", "Suspended", ""), "suspended", "spec.suspend is true"},
	{POD("\"labels\":{}", "\"phase\":\"Pending\""), "not-asking", "asks for no IPUs"},
	{POD(ASKS, "\"phase\":\"Pending\"") "\"mutating\":{\"value\":{\"items\":[]}},",
	 "no-pod-webhook", "mpod.graphcore.ai) isn't registered"},
	{POD(ASKS, "\"phase\":\"Pending\""), "not-injected", "the webhook has not seen it"},
	{IN_STAGE("Running", "Running", ""), "running", "It runs"},
	{POD(INJECTED ASKS, "\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
			    "\"True\"}]"),
	 "running", "has its IPUs, and runs"},
	{PENDING SILENT "\"operatorPods\":{\"value\":{\"items\":[]}},", "no-operator",
	 "namespace ipu-operator has no Pods of it, and its proxy doesn't answer (no service)"},
	{PENDING SILENT
	 "\"operatorPods\":{\"value\":{\"items\":[{\"metadata\":{\"name\":\"op\"},\"status\":{"
	 "\"phase\":\"Pending\",\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":"
	 "\"ImagePullBackOff\"}}}]}}]}},",
	 "operator-down", "Pod op is Pending: ImagePullBackOff."},
	{"\"object\":{\"value\":{" META "\"status\":{}}},", "unseen", "hasn't looked at it"},
	{QUEUED("OperatorStarting", "reading"), "OperatorStarting", "reading. It is at place 3"},
	{EVENT("WaitingForKueue", "in queue team"), "WaitingForKueue", "in queue team."},
	{QUEUED("NoController",
		"none is configured") "\"configMap\":{\"error\":{\"code\":404,\"message\":\"x\"}},",
	 "NoController", "There is no ConfigMap with controllers in namespace ipu-operator"},
	{QUEUED("NoController",
		"none is configured") "\"configMap\":{\"value\":{\"data\":{\"controllers.yaml\":\" \"}}},",
	 "NoController", "ConfigMap names none"},
	{QUEUED("ControllerUnreachable",
		"none answers") "\"controllers\":{\"value\":{\"items\":[{\"name\":\"a:1\",\"reachable\":false,\"reason\":"
				"\"refused\"},{\"name\":\"b:1\",\"reachable\":true}]}},",
	 "ControllerUnreachable",
	 "none answers. It is at place 3 of the queue. a:1 doesn't answer: refused."},
	{QUEUED("NoReadyNode", "no node is ready"), "NoReadyNode", "no node is ready. It is at"},
	{QUEUED("WaitingForIPUs",
		"none is free") "\"controllers\":{\"value\":{\"items\":[{\"name\":\"a:1\",\"reachable\":true,\"noReadyNode\":"
				"true}]}},",
	 "WaitingForIPUs", "a:1 is out of service (no ready node)."},
	{QUEUED("TooLarge", "64 are more"), "TooLarge", "64 are more."},
	{QUEUED("WaitingForIPUs", "waiting for 2 IPUs, place 3 in the queue: 0 of 8 are free"),
	 "WaitingForIPUs", "place 3 in the queue: 0 of 8 are free.|"},
	{QUEUED("WaitingForIPUs", "waiting for 2 IPUs, place 30 in the queue: 0 of 8 are free"),
	 "WaitingForIPUs", "0 of 8 are free. It is at place 3 of the queue by now.|"},
	{QUEUED("WaitingForIPUs",
		"4 of 8 are free") "\"controllers\":{\"value\":{\"items\":[{\"name\":\"a:1\",\"reachable\":true,\"cordoned\":"
				   "true}]}},\"partitions\":{\"value\":{\"items\":[{\"id\":\"p1\",\"ipus\":2,\"owner\":{"
				   "\"namespace\":\"x\",\"name\":\"small\"}},{\"id\":\"p2\",\"ipus\":8,\"owner\":{"
				   "\"namespace\":\"y\",\"name\":\"large\"}}]}},",
	 "WaitingForIPUs",
	 "a:1 is out of service (cordoned). Of those in use, y/large has 8. x/small has 2."},
	{QUEUED("WaitingInQueue", "kept for another"), "WaitingInQueue", "kept for another."},
	{QUEUED("QuotaExceeded", "8 of 8"), "QuotaExceeded", "8 of 8."},
	{QUEUED("PolicyForbids", "at most 8"), "PolicyForbids", "at most 8."},
	{QUEUED("PartitionRefused", "no"), "PartitionRefused", "no."},
	{QUEUED("PartitionFailed", "error"), "PartitionFailed", "error."},
	{EVENT("PartitionVanished", "gone"), "PartitionVanished", "gone."},
	{EVENT("PartitionTaken", "taken"), "PartitionTaken", "taken."},
	{EVENT("TrackerUnwritable", "quota"), "TrackerUnwritable", "quota."},
	{EVENT("NoIPUoFConfig", "none"), "NoIPUoFConfig", "none."},
	{EVENT("ProxyUnreachable", "refused"), "ProxyUnreachable", "refused."},
	{EVENT("NotSupported", "launcher.image"), "NotSupported", "launcher.image."},
	{EVENT("NameConflict", "Pod x"), "NameConflict", "Pod x."},
	{POD(INJECTED "\"annotations\":{\"graphcore.ai/ipus\":\"3\",\"graphcore.ai/waiting\":"
		      "\"InvalidAnnotation: no power of two\"}",
	     "\"phase\":\"Pending\""),
	 "InvalidAnnotation", "no power of two."},
	{POD(INJECTED "\"annotations\":{\"graphcore.ai/ipus\":\"2\",\"graphcore.ai/waiting\":"
		      "\"TokenTaken: a copy\"}",
	     "\"phase\":\"Pending\""),
	 "TokenTaken", "a copy."},
	{POD(INJECTED "\"annotations\":{\"graphcore.ai/ipus\":\"2\",\"graphcore.ai/waiting\":"
		      "\"OtherGates: x/y\"}",
	     "\"phase\":\"Pending\""),
	 "OtherGates", "x/y."},
	{POD(INJECTED "\"annotations\":{\"graphcore.ai/ipus\":\"2\",\"graphcore.ai/waiting\":"
		      "\"NodeSelectorConflict: plan9\"}",
	     "\"phase\":\"Pending\""),
	 "NodeSelectorConflict", "plan9."},
	{EVENT("PodRefused",
	       "forbidden: exceeded quota: gpu") "\"quotas\":{\"value\":{\"items\":[{\"metadata\":{\"name\":\"gpu\"},\"status\":{\"hard\":"
						 "{\"pods\":\"2\"},\"used\":{\"pods\":\"2\"}}}]}},",
	 "resource-quota", "gpu: 2 of 2 pods are used."},
	{EVENT("PodRefused", "no such account"), "PodRefused", "no such account."},
	{EVENT("ConfigMapRefused", "no"), "ConfigMapRefused", "no."},
	{EVENT("LauncherObjectRefused", "no"), "LauncherObjectRefused", "no."},
	{EVENT("PodGroupRefused", "no"), "PodGroupRefused", "no."},
	{EVENT("ControllerDraining", "a:1"), "ControllerDraining", "a:1."},
	{IN_STAGE("Restarting", "Restarting", ""), "restarting", "begun anew 0 times"},
	{PENDING "\"partitions\":{\"value\":{\"items\":[{\"id\":\"p1\",\"state\":\"creating\","
		 "\"controller\":\"a:1\",\"owner\":{\"uid\":\"u1\"}}]}},",
	 "making", "Its partition p1 on a:1 is creating."},
	{POD_OF("\"conditions\":[]", "\"schedulingGates\":[{\"name\":\"graphcore.ai/partition\"},"
				     "{\"name\":\"kueue.x-k8s.io/admission\"}]"),
	 "gated-by-others", "kueue.x-k8s.io/admission of Pod bert-worker-0"},
	{POD_OF(UNPLACED, "\"nodeSelector\":{\"ipunode\":\"b\"}"), "no-node-label",
	 "labels that it must be on: ipunode=b"},
	{POD_OF(UNPLACED, "\"nodeSelector\":{\"ipunode\":\"a\"}"), "unschedulable", "0/3 nodes"},
	{POD_OF(CONTAINER("ImagePullBackOff"), "\"nodeName\":\"n\""), "image",
	 "ImagePullBackOff: its words"},
	{POD_OF(CONTAINER("CreateContainerConfigError"), "\"nodeName\":\"n\""), "container",
	 "CreateContainerConfigError: its words"},
	{POD_OF(CONTAINER("ContainerCreating"), "\"nodeName\":\"n\""), "starting",
	 "being started on its node"},
	{POD_OF("\"conditions\":[]", "\"schedulerName\":\"volcano\""), "no-scheduler",
	 "Its scheduler (volcano) hasn't looked"},
	{PENDING, "other", "Last word."},
	/* An Event that is older than a word of progress says nothing any more. */
	{PENDING "\"events\":{\"value\":{\"items\":[{\"reason\":\"TooLarge\",\"lastTimestamp\":"
		 "\"2026-01-01T00:05:00Z\",\"involvedObject\":{\"uid\":\"u1\"},\"source\":{"
		 "\"component\":\"ipu-operator\"}},{\"reason\":\"PartitionActive\","
		 "\"lastTimestamp\":\"2026-01-01T00:06:00Z\",\"involvedObject\":{\"uid\":\"u1\"},"
		 "\"source\":{\"component\":\"ipu-operator\"}}]}},",
	 "other", "Last word."},
	/* One about another object of that name, too. */
	{PENDING "\"events\":{\"value\":{\"items\":[{\"reason\":\"TooLarge\",\"lastTimestamp\":"
		 "\"2026-01-01T00:05:00Z\",\"involvedObject\":{\"uid\":\"u2\"},\"source\":{"
		 "\"component\":\"ipu-operator\"}}]}},",
	 "other", "Last word."},
};

static void explain(const char *own, struct json_doc **ret_doc, struct ctl_explanation *ret)
{
	/* Of a key that comes twice readers see the first. */
	CLEANUP_FREE char *text = xasprintf("{%s" AROUND "}", own);
	struct err err = ERR_INIT;

	if (json_parse(str_of(text), ret_doc, &err) < 0) {
		fail("%s: %s", err.msg, text);
		exit(done_testing());
	}
	ctl_explain(json_root(*ret_doc), ret);
}

static void each_rule_has_a_case(void)
{
	for (const struct ctl_rule *r = ctl_rules; r->id; r++) {
		bool found = false;

		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			found = found || strcmp(cases[i].id, r->id) == 0;
		ok(found, "%s has a case", r->id);
		ok(r->next[0] && r->help[0], "... and says what comes next and what helps");
	}
}

static void remarks(void)
{
	struct json_doc *doc;
	struct ctl_explanation e;
	CLEANUP_FREE char *last = NULL;

	explain(PENDING
		"\"mutating\":{\"value\":{\"items\":[]}},\"validating\":{\"value\":{\"items\":"
		"[]}},\"crd\":{\"value\":{}},\"events\":{\"error\":{\"code\":403,\"message\":"
		"\"not allowed\"}},",
		&doc, &e);
	is_int(e.n_remarks, 4, "all remarks are made");
	last = str_dup(buf_str(&e.remarks[3]));
	has_str(last, "couldn't be asked: events (not allowed)",
		"... and what wasn't had is named");
	is_int(e.since_ms, 1767225600000, "since the condition's transition");
	ctl_explanation_done(&e);
	json_doc_free(doc);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_doc *doc;
		struct ctl_explanation e;
		CLEANUP_FREE char *why = NULL;

		row_begin("%zu: %s", i, cases[i].id);
		explain(cases[i].facts, &doc, &e);
		is_str(e.id, cases[i].id, "the row");
		why = xasprintf("%.*s|", STR_ARG(buf_str(&e.why)));
		has_str(why, cases[i].why, "the words");
		ctl_explanation_done(&e);
		json_doc_free(doc);
	}
	row_end();
	each_rule_has_a_case();
	remarks();
	return done_testing();
}
