/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test Pod: made with the network, the resource and IPC_LOCK, waited for, read, and removed
 * whatever happens, upon ^C too. It ends by itself should this program be killed.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rand.h"
#include "ctl/facts.h"
#include "ctl/rdma.h"
#include "ctl/term.h"
#include "kube/object.h"

#define WAIT_S   120 /* for its end */
#define LOOK_MS  500
#define MAX_LOG  ((size_t)4 << 20)
#define PROGRAM  "/usr/bin/ipuctl"
#define NETWORKS "k8s.v1.cni.cncf.io/networks"

static volatile sig_atomic_t interrupted;

static void on_signal(int signum)
{
	(void)signum;
	interrupted = 1;
}

struct trial {
	struct ctl_link *link;
	const struct ctl_options *o;
	const struct ctl_rdma_question *q;
	struct jmut_doc *doc;
	struct jmut *ret;
	char *name;
};

static void say(struct trial *t, const char *reason, const char *error)
{
	jmut_set_str(t->doc, t->ret, "reason", reason);
	jmut_set_str(t->doc, t->ret, "error", error);
}

/* ---- the object ---- */

/* What one of the operator's Pods runs. */
static const char *operator_image(const struct json *facts)
{
	struct json_iter it = json_iter(json_get(ctl_fact(facts, "operatorPods"), "items"));

	while (json_next(&it)) {
		const struct json *all = json_at(it.value, "spec", "containers", NULL);
		const char *image = json_cstr(json_get(json_item(all, 0), "image"));

		if (image && image[0])
			return image;
	}
	return NULL;
}

static struct jmut *make_security(const struct trial *t)
{
	struct jmut_doc *doc = t->doc;
	struct jmut *security = jmut_object(doc), *caps = jmut_object(doc);
	struct jmut *add = jmut_array(doc), *drop = jmut_array(doc);

	jmut_push(doc, add, jmut_strz(doc, "IPC_LOCK"));
	jmut_push(doc, drop, jmut_strz(doc, "ALL"));
	jmut_set(doc, caps, "add", add);
	jmut_set(doc, caps, "drop", drop);
	jmut_set(doc, security, "capabilities", caps);
	jmut_set_int(doc, security, "runAsUser", t->o->user);
	jmut_set_bool(doc, security, "allowPrivilegeEscalation", false);
	jmut_set_bool(doc, security, "readOnlyRootFilesystem", true);
	return security;
}

static struct jmut *make_container(const struct trial *t, const char *image, struct str resource)
{
	static const char *const command[] = {PROGRAM, "rdma", "check", "--inside", NULL};
	struct jmut_doc *doc = t->doc;
	struct jmut *c = jmut_object(doc), *words = jmut_array(doc), *limits = jmut_object(doc);
	struct jmut *resources = jmut_object(doc);

	for (size_t i = 0; command[i]; i++)
		jmut_push(doc, words, jmut_strz(doc, command[i]));
	jmut_set_str(doc, c, "name", "check");
	jmut_set_str(doc, c, "image", image);
	jmut_set(doc, c, "command", words);
	jmut_set(doc, c, "securityContext", make_security(t));
	if (resource.len) {
		jmut_setn(doc, limits, resource, jmut_strz(doc, "1"));
		jmut_set(doc, resources, "limits", limits);
		jmut_set(doc, c, "resources", resources);
	}
	return c;
}

/* By the scheduler, so that the node's taints and resources count, but on that node alone. */
static struct jmut *make_affinity(struct jmut_doc *doc, struct str node)
{
	struct jmut *field = jmut_object(doc), *term = jmut_object(doc);
	struct jmut *required = jmut_object(doc), *node_affinity = jmut_object(doc);
	struct jmut *affinity = jmut_object(doc), *values = jmut_array(doc);
	struct jmut *fields = jmut_array(doc), *terms = jmut_array(doc);

	jmut_push(doc, values, jmut_str(doc, node));
	jmut_set_str(doc, field, "key", "metadata.name");
	jmut_set_str(doc, field, "operator", "In");
	jmut_set(doc, field, "values", values);
	jmut_push(doc, fields, field);
	jmut_set(doc, term, "matchFields", fields);
	jmut_push(doc, terms, term);
	jmut_set(doc, required, "nodeSelectorTerms", terms);
	jmut_set(doc, node_affinity, "requiredDuringSchedulingIgnoredDuringExecution", required);
	jmut_set(doc, affinity, "nodeAffinity", node_affinity);
	return affinity;
}

static struct jmut *make_pod(const struct trial *t, const char *image, const struct json *facts)
{
	const struct json *node = ctl_rdma_node(facts, t->q);
	struct jmut_doc *doc = t->doc;
	struct jmut *pod = jmut_object(doc), *meta = jmut_object(doc), *spec = jmut_object(doc);
	struct jmut *annotations = jmut_object(doc), *containers = jmut_array(doc);

	jmut_set(doc, annotations, NETWORKS,
		 jmut_strf(doc, "%s/%s", t->q->network_ns, t->q->network));
	jmut_set_str(doc, meta, "name", t->name);
	jmut_set(doc, meta, "annotations", annotations);
	jmut_push(doc, containers, make_container(t, image, ctl_rdma_resource(node, t->q)));
	jmut_set(doc, spec, "containers", containers);
	jmut_set_str(doc, spec, "restartPolicy", "Never");
	jmut_set_bool(doc, spec, "automountServiceAccountToken", false);
	jmut_set_bool(doc, spec, "enableServiceLinks", false);
	jmut_set_int(doc, spec, "activeDeadlineSeconds", t->o->wait_s ? t->o->wait_s : WAIT_S);
	jmut_set_int(doc, spec, "terminationGracePeriodSeconds", 0);
	if (node)
		jmut_set(doc, spec, "affinity", make_affinity(doc, kube_name(node)));
	jmut_set_str(doc, pod, "apiVersion", "v1");
	jmut_set_str(doc, pod, "kind", "Pod");
	jmut_set(doc, pod, "metadata", meta);
	jmut_set(doc, pod, "spec", spec);
	return pod;
}

/* ---- its life ---- */

static int create(struct trial *t, const char *image, const struct json *facts, struct err *err)
{
	CLEANUP_JSON struct json_doc *made = NULL;
	struct kube_request r = {.verb = KUBE_CREATE,
				 .resource = &KUBE_PODS,
				 .ns = t->q->ns,
				 .json = make_pod(t, image, facts),
				 .field_manager = "ipuctl"};

	return ctl_link_kube(t->link, &r, &made, err);
}

static bool has_ended(const struct json *pod)
{
	struct str phase = json_str(json_at(pod, "status", "phase", NULL));

	return str_eqz(phase, "Succeeded") || str_eqz(phase, "Failed");
}

/* Until it has ended, the time is over or a signal came. What it was at last is in ret. */
static void wait_end(struct trial *t)
{
	int64_t deadline_ms = clock_mono_ms() +
			      1000 * (int64_t)(t->o->wait_s ? t->o->wait_s : WAIT_S);
	struct kube_request r = {
		.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = t->q->ns, .name = t->name};

	for (;;) {
		CLEANUP_JSON struct json_doc *pod = NULL;
		struct err err = ERR_INIT;

		if (ctl_link_kube(t->link, &r, &pod, &err) == 0) {
			jmut_set(t->doc, t->ret, "pod", jmut_copy(t->doc, json_root(pod)));
			if (has_ended(json_root(pod)))
				break;
		} else if (!err_is_retryable(&err)) {
			say(t, "gone", err.msg);
			break;
		}
		if (interrupted || clock_mono_ms() > deadline_ms)
			break;
		ctl_progress("waiting for the test Pod");
		ctl_link_pause(t->link, LOOK_MS);
	}
	ctl_progress(NULL);
	if (interrupted)
		say(t, "interrupted", "");
}

/* What it printed: the last line that is JSON. */
static void read_log(struct trial *t)
{
	CLEANUP_FREE char *path = xasprintf("/api/v1/namespaces/%s/pods/%s/log?limitBytes=%zu",
					    t->q->ns, t->name, MAX_LOG);
	CLEANUP_FREE char *text = NULL;
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	size_t len;

	if (ctl_link_text(t->link, path, &text, &len, &err) < 0 ||
	    json_parse(str_trim((struct str){text, len}), &doc, &err) < 0)
		say(t, "", err.msg);
	else
		jmut_set(t->doc, t->ret, "inside", jmut_copy(t->doc, json_root(doc)));
}

/* Why it doesn't start, in the kubelet's words: the newest warning. */
static void read_events(struct trial *t)
{
	CLEANUP_FREE char *fields = xasprintf("involvedObject.name=%s", t->name);
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct kube_request r = {.verb = KUBE_LIST,
				 .resource = &KUBE_EVENTS,
				 .ns = t->q->ns,
				 .field_selector = fields,
				 .limit = 100};
	const char *why = "";
	struct json_iter it;

	if (ctl_link_kube(t->link, &r, &doc, NULL) < 0)
		return;
	it = json_iter(json_get(json_root(doc), "items"));
	while (json_next(&it)) {
		const char *message = json_cstr(json_get(it.value, "message"));

		if (message && str_eqz(json_str(json_get(it.value, "type")), "Warning"))
			why = message;
	}
	say(t, "", why);
}

/* Tried a few times: nobody else would do it. */
static void remove_pod(struct trial *t)
{
	struct kube_request r = {.verb = KUBE_DELETE,
				 .resource = &KUBE_PODS,
				 .ns = t->q->ns,
				 .name = t->name,
				 .has_grace = true,
				 .grace_seconds = 0};
	struct err err = ERR_INIT;

	for (int tries = 0; tries < 3; tries++) {
		CLEANUP_JSON struct json_doc *gone = NULL;

		if (ctl_link_kube(t->link, &r, &gone, &err) == 0 || err.kind == ERR_NOT_FOUND)
			return;
		ctl_link_pause(t->link, LOOK_MS);
	}
	jmut_set_str(t->doc, t->ret, "left", err.msg);
}

static void run(struct trial *t, const char *image, const struct json *facts)
{
	struct err err = ERR_INIT;

	if (create(t, image, facts, &err) < 0) {
		say(t, "refused", err.msg);
		/* It may be there all the same, if only the answer was lost. */
		if (err.maybe_applied)
			remove_pod(t);
		return;
	}
	wait_end(t);
	if (!interrupted && has_ended(json_get(jmut_view(t->ret), "pod")))
		read_log(t);
	else if (!interrupted)
		read_events(t);
	remove_pod(t);
}

void ctl_rdma_pod_run(struct ctl_link *link, const struct ctl_options *o, const struct json *facts,
		      const struct ctl_rdma_question *q, struct jmut_doc *doc, struct jmut *ret)
{
	const char *image = o->image ? o->image : operator_image(facts);
	struct trial t = {.link = link, .o = o, .q = q, .doc = doc, .ret = ret};
	struct sigaction action = {.sa_handler = on_signal}, old[3];
	static const int signals[3] = {SIGINT, SIGTERM, SIGHUP};

	t.name = xasprintf("ipuctl-rdma-check-%08" PRIx32, (uint32_t)rand_u64());
	jmut_set_str(doc, ret, "name", t.name);
	if (!image) {
		say(&t, "no-image", "the operator's Pods can't be seen, and --image isn't given");
	} else {
		for (size_t i = 0; i < 3; i++)
			sigaction(signals[i], &action, &old[i]);
		run(&t, image, facts);
		for (size_t i = 0; i < 3; i++)
			sigaction(signals[i], &old[i], NULL);
	}
	free(t.name);
}
