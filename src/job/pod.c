/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store keeps of a Pod: whose it is, how far it has come, and in words what went wrong or
 * keeps it from starting.
 */
#include "job/pod.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/str.h"
#include "job/queue.h"
#include "job/status.h"
#include "kube/object.h"

#define WORDS_MAX 256
#define KILLED    137 /* 128 + SIGKILL */

static const char *const phase_names[] = {
	[JOB_POD_PENDING] = "Pending",     [JOB_POD_RUNNING] = "Running",
	[JOB_POD_SUCCEEDED] = "Succeeded", [JOB_POD_FAILED] = "Failed",
	[JOB_POD_UNKNOWN] = "Unknown",
};

const char *job_pod_phase_name(enum job_pod_phase phase)
{
	return phase_names[phase];
}

static enum job_pod_phase phase_of(struct str s)
{
	for (int phase = JOB_POD_PENDING; phase <= JOB_POD_UNKNOWN; phase++) {
		if (str_eqz(s, phase_names[phase]))
			return (enum job_pod_phase)phase;
	}
	return JOB_POD_PENDING;
}

static bool condition_is(const struct json *status, const char *type, const char *value,
			 const struct json **ret_condition)
{
	struct json_iter it = json_iter(json_get(status, "conditions"));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "type")), type) &&
		    str_eqz(json_str(json_get(it.value, "status")), value)) {
			if (ret_condition)
				*ret_condition = it.value;
			return true;
		}
	}
	return false;
}

static void say(struct job_pod *pod, struct str why, char *message)
{
	if (pod->why || pod->message) {
		free(message);
		return;
	}
	pod->why = intern_or_null(why);
	pod->message = message;
}

struct words {
	char z[2 * WORDS_MAX];
};

/* What a container said at its end may be pages: as much as people read in a status, in one line.
 */
static struct words brief(struct str said)
{
	struct words ret;

	snprintf(ret.z, sizeof(ret.z), "%.*s", STR_ARG(str_trim(said)));
	job_status_clean(ret.z, WORDS_MAX);
	return ret;
}

/* Of several lines, the last ones: they are the end of a log, and that is where programs say what
 * was wrong. */
static struct words last_words(struct str said)
{
	struct words ret, end;
	size_t skip;

	said = str_trim(said);
	if (said.len <= WORDS_MAX || !memchr(said.p, '\n', said.len))
		return brief(said);
	skip = said.len - (WORDS_MAX - strlen("…"));
	while (skip < said.len && ((unsigned char)said.p[skip] & 0xc0) == 0x80)
		skip++;
	end = brief((struct str){said.p + skip, said.len - skip});
	snprintf(ret.z, sizeof(ret.z), "…%.*s", WORDS_MAX, end.z);
	return ret;
}

/* What a kernel and a container runtime say of programs for another processor, in words that people
 * understand. */
static const char *more_words(const struct words *said)
{
	bool is_foreign = strstr(said->z, "exec format error") ||
			  strstr(said->z, "no match for platform");

	return is_foreign ? "; its image is for another processor architecture than its node" : "";
}

/* ---- failed ---- */

struct failed {
	const struct json *container, *ended;
	const char *what;
};

/* The container that failed first; those that don't say when come after those that do. */
static void find_failed(const struct json *statuses, const char *what, struct failed *first)
{
	struct json_iter it = json_iter(statuses);

	while (json_next(&it)) {
		const struct json *ended = json_at(it.value, "state", "terminated", NULL);
		const char *at = json_cstr(json_get(ended, "finishedAt"));
		const char *first_at = json_cstr(json_get(first->ended, "finishedAt"));

		if (!ended || json_int(json_get(ended, "exitCode"), 0) == 0)
			continue;
		/* All in one form, RFC 3339 in UTC: their order is that of the text. */
		if (!first->ended || (at && (!first_at || strcmp(at, first_at) < 0)))
			*first = (struct failed){it.value, ended, what};
	}
}

static void explain_failure(struct job_pod *pod, const struct json *status)
{
	struct str reason = json_str(json_get(status, "reason"));
	struct words words = brief(json_str(json_get(status, "message")));
	struct failed first = {0};
	int64_t code;

	/* Evicted, NodeLost, …: the kubelet's word comes before the containers'. */
	if (reason.len)
		say(pod, reason,
		    xasprintf("%.*s%s%s", STR_ARG(reason), words.z[0] ? ": " : "", words.z));
	find_failed(json_get(status, "initContainerStatuses"), "init container", &first);
	find_failed(json_get(status, "containerStatuses"), "container", &first);
	if (!first.ended) {
		pod->exit_code = KILLED;
		return;
	}
	code = json_int(json_get(first.ended, "exitCode"), 0);
	reason = json_str(json_get(first.ended, "reason"));
	words = last_words(json_str(json_get(first.ended, "message")));
	pod->exit_code = (int32_t)code;
	say(pod, reason,
	    xasprintf("%s %.*s exited with %" PRId64 "%s%.*s%s%s%s%s", first.what,
		      STR_ARG(json_str(json_get(first.container, "name"))), code,
		      reason.len ? " (" : "", STR_ARG(reason), reason.len ? ")" : "",
		      words.z[0] ? ": " : "", words.z, more_words(&words)));
}

/* ---- not starting ---- */

static bool is_start_error(struct str reason)
{
	static const char *const errors[] = {
		"ErrImagePull",         "ImagePullBackOff",           "InvalidImageName",
		"ErrImageNeverPull",    "ImageInspectError",          "RegistryUnavailable",
		"CreateContainerError", "CreateContainerConfigError", "RunContainerError",
		"CrashLoopBackOff",
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (str_eqz(reason, errors[i]))
			return true;
	}
	return false;
}

static void find_waiting_container(struct job_pod *pod, const struct json *statuses)
{
	struct json_iter it = json_iter(statuses);

	while (json_next(&it)) {
		const struct json *waiting = json_at(it.value, "state", "waiting", NULL);
		struct str reason = json_str(json_get(waiting, "reason"));
		struct words words = brief(json_str(json_get(waiting, "message")));
		struct str name = json_str(json_get(it.value, "name"));

		if (!is_start_error(reason))
			continue;
		pod->fault = JOB_POD_FAULT_OWN;
		say(pod, reason,
		    xasprintf("container %.*s can't start: %.*s%s%s%s", STR_ARG(name),
			      STR_ARG(reason), words.z[0] ? ": " : "", words.z,
			      more_words(&words)));
	}
}

static void explain_waiting(struct job_pod *pod, const struct json *status)
{
	const struct json *condition;

	if (condition_is(status, "PodScheduled", "False", &condition)) {
		struct str reason = json_str(json_get(condition, "reason"));

		if (str_eqz(reason, "SchedulingGated"))
			return;
		pod->fault = JOB_POD_FAULT_NODE;
		say(pod, reason.len ? reason : STR("Unschedulable"),
		    xasprintf("no node takes it: %s",
			      brief(json_str(json_get(condition, "message"))).z));
	}
	find_waiting_container(pod, json_get(status, "initContainerStatuses"));
	find_waiting_container(pod, json_get(status, "containerStatuses"));
}

/* ---- the projection ---- */

static void find_gates(struct job_pod *pod, const struct json *gates)
{
	struct json_iter it = json_iter(gates);

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "name")), JOB_GATE))
			pod->gated = true;
		else
			pod->queued = true;
	}
}

static int64_t instance_of(const struct json *object)
{
	int64_t n;

	return str_to_int(kube_label(object, JOB_LABEL_INSTANCE), 0, UINT32_MAX, &n, NULL) < 0 ? -1
											       : n;
}

/* It ended after its deletion was asked for, so by that: what leaves in order when it's told to (a
 * server whose node is drained, ipu-launcher init) hasn't done what it was there for. */
static bool was_stopped(const struct job_pod *pod, const struct json *object)
{
	int64_t grace_s = json_int(json_at(object, "metadata", "deletionGracePeriodSeconds", NULL),
				   0);
	int64_t asked_ms = pod->deletion_ms - grace_s * 1000, ended_ms;
	struct json_iter it = json_iter(json_at(object, "status", "containerStatuses", NULL));

	if (pod->phase != JOB_POD_SUCCEEDED || !pod->deletion_ms)
		return false;
	while (json_next(&it)) {
		const struct json *at = json_at(it.value, "state", "terminated", "finishedAt",
						NULL);

		if (clock_parse(json_str(at), &ended_ms, NULL) == 0 && ended_ms >= asked_ms)
			return true;
	}
	return false;
}

static struct job_pod *pod_new(struct str name, struct str uid)
{
	struct job_pod *pod = xcalloc(1, sizeof(*pod) + name.len + uid.len + 2);

	char *text = (char *)(pod + 1);

	memcpy(text, name.p, name.len);
	memcpy(text + name.len + 1, uid.p, uid.len);
	pod->name = text;
	pod->uid = text + name.len + 1;
	return pod;
}

int job_pod_decode(const struct json *object, struct job_pod **ret, struct err *err)
{
	const struct json *status = json_get(object, "status"),
			  *owner = kube_controller_ref(object);
	char key[KUBE_KEY_SIZE];
	struct job_pod *pod;

	if (!kube_name(object).len || !kube_uid(object).len)
		return err_set(err, ERR_INVALID, 0, "a Pod without metadata.name or uid");
	pod = pod_new(kube_name(object), kube_uid(object));
	pod->ns = intern(kube_namespace(object));
	pod->job_key = intern(
		kube_key(kube_namespace(object), kube_label(object, JOB_LABEL_JOB), key));
	pod->owner_uid = intern_or_null(json_str(json_get(owner, "uid")));
	pod->partition = intern_or_null(kube_annotation(object, JOB_ANNOTATION_PARTITION));
	pod->template_hash = job_hash_parse(kube_annotation(object, JOB_ANNOTATION_TEMPLATE));
	pod->instance = instance_of(object);
	pod->launcher = str_eqz(kube_label(object, JOB_LABEL_ROLE), JOB_ROLE_LAUNCHER);
	pod->node = intern_or_null(json_str(json_at(object, "spec", "nodeName", NULL)));
	pod->deleting = kube_is_deleting(object);
	/* The grace period is counted in: the API server sets the time that it ends at. */
	(void)clock_parse(json_str(json_at(object, "metadata", "deletionTimestamp", NULL)),
			  &pod->deletion_ms, NULL);
	pod->phase = phase_of(json_str(json_get(status, "phase")));
	pod->scheduled = condition_is(status, "PodScheduled", "True", NULL);
	pod->ready = condition_is(status, "Ready", "True", NULL);
	pod->preempted = condition_is(status, "TerminationTarget", "True", NULL);
	pod->queue_group = intern_or_null(kube_label(object, JOB_QUEUE_GROUP));
	find_gates(pod, json_at(object, "spec", "schedulingGates", NULL));
	if (was_stopped(pod, object)) {
		pod->phase = JOB_POD_FAILED;
		pod->exit_code = KILLED;
		say(pod, STR("Deleted"), xstrdup("it was deleted before it had ended"));
	} else if (pod->phase == JOB_POD_FAILED) {
		explain_failure(pod, status);
	} else if (pod->phase == JOB_POD_PENDING || pod->phase == JOB_POD_RUNNING) {
		explain_waiting(pod, status);
	}
	*ret = pod;
	return 0;
}

void job_pod_free(struct job_pod *pod)
{
	if (!pod)
		return;
	intern_drop(pod->ns);
	intern_drop(pod->job_key);
	intern_drop(pod->owner_uid);
	intern_drop(pod->partition);
	intern_drop(pod->node);
	intern_drop(pod->queue_group);
	intern_drop(pod->why);
	free(pod->message);
	free(pod);
}

bool job_pod_equal(const struct job_pod *a, const struct job_pod *b)
{
	return str_same(a->name, b->name) && str_same(a->ns, b->ns) && str_same(a->uid, b->uid) &&
	       str_same(a->job_key, b->job_key) && str_same(a->owner_uid, b->owner_uid) &&
	       str_same(a->partition, b->partition) && str_same(a->node, b->node) &&
	       a->instance == b->instance && a->phase == b->phase && a->deleting == b->deleting &&
	       a->scheduled == b->scheduled && a->ready == b->ready &&
	       a->exit_code == b->exit_code && str_same(a->why, b->why) &&
	       str_same(a->message, b->message) && a->fault == b->fault && a->gated == b->gated &&
	       a->queued == b->queued && a->preempted == b->preempted &&
	       a->template_hash == b->template_hash && a->launcher == b->launcher &&
	       a->deletion_ms == b->deletion_ms;
}
