/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four objects that a job's launchers need, as the job wants them, and whether one that is
 * there is such. Pure; support_write.c makes them.
 */
#include <inttypes.h>
#include <string.h>

#include "core/buf.h"
#include "core/str.h"
#include "job/launcher.h"
#include "job/launcher_env.h"
#include "job/pod_parts.h"
#include "kube/client.h"
#include "kube/object.h"

#define RBAC_GROUP "rbac.authorization.k8s.io"

static const char script[] = "#!/bin/sh\n"
			     "# kubeexec.sh HOST COMMAND...: runs COMMAND in a worker, for mpirun, "
			     "mpiexec and poprun.\n"
			     "exec " JOB_LAUNCHER_PROGRAM " rsh \"$@\"\n";

const struct kube_resource *job_support_resource(enum job_support which)
{
	static const struct kube_resource *const resources[] = {
		[JOB_SUPPORT_CONFIG] = &KUBE_CONFIGMAPS,
		[JOB_SUPPORT_ACCOUNT] = &KUBE_SERVICEACCOUNTS,
		[JOB_SUPPORT_ROLE] = &KUBE_ROLES,
		[JOB_SUPPORT_BINDING] = &KUBE_ROLEBINDINGS,
	};

	return resources[which];
}

char *job_support_name(const struct job *job, enum job_support which)
{
	return xasprintf(which == JOB_SUPPORT_CONFIG ? "%s-config" : "%s-launcher", job->name);
}

/* ---- what each of them says ---- */

static struct jmut *hosts_of(struct jmut_doc *doc, const struct job *job, uint32_t instance,
			     const char *fmt)
{
	struct buf text = BUF_INIT(SIZE_MAX);
	struct jmut *v;

	for (uint32_t i = 0; i < job->workers; i++) {
		CLEANUP_FREE char *name = job_worker_name(job, instance, i);
		CLEANUP_FREE char *line = xasprintf("%s%s%" PRIu32 "\n", name, fmt, job->slots);

		(void)buf_append_str(&text, str_of(line), NULL);
	}
	v = jmut_str(doc, (struct str){text.p, text.len});
	buf_done(&text);
	return v;
}

static void add_hosts(struct jmut_doc *doc, struct jmut *data, const struct job *job,
		      uint32_t instance, const char *name, const char *between)
{
	CLEANUP_FREE char *key = instance ? xasprintf("%s-%" PRIu32, name, instance)
					  : xstrdup(name);

	jmut_set(doc, data, key, hosts_of(doc, job, instance, between));
}

static void set_config(struct jmut_doc *doc, struct jmut *root, const struct job *job,
		       uint32_t instances)
{
	struct jmut *data = jmut_object(doc);

	jmut_set_str(doc, data, JOB_MPI_SCRIPT, script);
	for (uint32_t i = 0; i < instances; i++) {
		add_hosts(doc, data, job, i, JOB_MPI_HOSTFILE, " slots=");
		add_hosts(doc, data, job, i, JOB_MPI_MACHINEFILE, ":");
	}
	jmut_set(doc, root, "data", data);
	jmut_del(root, "binaryData");
}

static unsigned digits_of(uint64_t n)
{
	unsigned digits = 1;

	while (n /= 10)
		digits++;
	return digits;
}

/* Of all numbers from 0 to n - 1, one after the other. */
static uint64_t digits_below(uint64_t n)
{
	uint64_t digits = n;

	for (uint64_t power = 10; power < n && power <= UINT64_MAX / 10; power *= 10)
		digits += n - power;
	return digits;
}

uint64_t job_config_bytes(const struct job *job)
{
	uint64_t workers = (uint64_t)job->instances * job->workers;
	size_t prefix = strlen(job->name) + strlen("-worker-");
	uint64_t each = 2 * (prefix + digits_of(job->slots)) + strlen(" slots=\n:\n");

	return sizeof(script) - 1 + workers * each + 2 * digits_below(workers);
}

static struct jmut *list_of(struct jmut_doc *doc, const char *a, const char *b)
{
	struct jmut *list = jmut_array(doc);

	jmut_push(doc, list, jmut_strz(doc, a));
	if (b)
		jmut_push(doc, list, jmut_strz(doc, b));
	return list;
}

static void add_rule(struct jmut_doc *doc, struct jmut *rules, const char *resource,
		     struct jmut *verbs, const struct job *job, uint32_t instances)
{
	struct jmut *rule = jmut_object(doc), *names = jmut_array(doc);

	for (uint64_t i = 0; i < (uint64_t)instances * job->workers; i++) {
		CLEANUP_FREE char *name = job_worker_name(job, 0, (uint32_t)i);

		jmut_push(doc, names, jmut_strz(doc, name));
	}
	/* Without a name it would be a rule about all Pods. */
	if (jmut_len(names) == 0)
		return;
	jmut_set(doc, rule, "apiGroups", list_of(doc, "", NULL));
	jmut_set(doc, rule, "resources", list_of(doc, resource, NULL));
	jmut_set(doc, rule, "resourceNames", names);
	jmut_set(doc, rule, "verbs", verbs);
	jmut_push(doc, rules, rule);
}

/* doc/design/decisions.md, "Permissions": newer API servers ask for create, and a WebSocket begins
 * as GET. */
static void set_rules(struct jmut_doc *doc, struct jmut *root, const struct job *job,
		      uint32_t instances)
{
	struct jmut *rules = jmut_array(doc);

	add_rule(doc, rules, "pods", list_of(doc, "get", NULL), job, instances);
	add_rule(doc, rules, "pods/exec", list_of(doc, "get", "create"), job, instances);
	jmut_set(doc, root, "rules", rules);
}

static void set_binding(struct jmut_doc *doc, struct jmut *root, const struct job *job)
{
	CLEANUP_FREE char *name = job_support_name(job, JOB_SUPPORT_BINDING);
	struct jmut *ref = jmut_object(doc), *subject = jmut_object(doc);
	struct jmut *subjects = jmut_array(doc);

	jmut_set_str(doc, ref, "apiGroup", RBAC_GROUP);
	jmut_set_str(doc, ref, "kind", "Role");
	jmut_set_str(doc, ref, "name", name);
	jmut_set(doc, root, "roleRef", ref);
	jmut_set_str(doc, subject, "kind", "ServiceAccount");
	jmut_set_str(doc, subject, "name", name);
	jmut_set_str(doc, subject, "namespace", job->ns);
	jmut_push(doc, subjects, subject);
	jmut_set(doc, root, "subjects", subjects);
}

/* ---- the objects ---- */

static void set_metadata(struct jmut_doc *doc, struct jmut *root, const struct job *job,
			 enum job_support which)
{
	CLEANUP_FREE char *name = job_support_name(job, which);
	struct jmut *meta = jmut_need_object(doc, root, "metadata"), *labels;

	labels = jmut_need_object(doc, meta, "labels");
	jmut_set_str(doc, meta, "name", name);
	jmut_set_str(doc, meta, "namespace", job->ns);
	jmut_del(meta, "managedFields");
	jmut_set_str(doc, labels, "app.kubernetes.io/managed-by", "ipu-operator");
	jmut_set_str(doc, labels, JOB_LABEL_JOB, job->name);
	kube_set_owner(doc, meta, JOB_API_VERSION, JOB_KIND, job->name, job->uid);
}

void job_support_build(struct jmut_doc *doc, const struct job *job, enum job_support which,
		       uint32_t instances, const struct json *before)
{
	const struct kube_resource *r = job_support_resource(which);
	/* What others have added to it stays: pull secrets of an account, annotations. */
	struct jmut *root = before ? jmut_copy(doc, before) : jmut_object(doc);
	char version[KUBE_API_VERSION_SIZE];

	jmut_set_str(doc, root, "apiVersion", kube_api_version(r, version));
	jmut_set_str(doc, root, "kind", r->kind);
	set_metadata(doc, root, job, which);
	if (which == JOB_SUPPORT_CONFIG)
		set_config(doc, root, job, instances);
	else if (which == JOB_SUPPORT_ROLE)
		set_rules(doc, root, job, instances);
	else if (which == JOB_SUPPORT_BINDING)
		set_binding(doc, root, job);
	jmut_set_root(doc, root);
}

char *job_support_account_to_ask(const struct json *spec)
{
	const struct json *pod = json_at(spec, "workers", "template", "spec", NULL);
	struct str name = json_str(json_get(pod, "serviceAccountName"));

	if (json_len(json_get(pod, "imagePullSecrets")) > 0)
		return NULL;
	if (name.len == 0)
		name = json_str(json_get(pod, "serviceAccount"));
	return name.len ? str_dup(name) : xstrdup("default");
}

void job_support_take_secrets(struct jmut_doc *doc, const struct json *account)
{
	const struct json *secrets = json_get(account, "imagePullSecrets");

	if (json_len(secrets) > 0)
		jmut_set(doc, jmut_root(doc), "imagePullSecrets", jmut_copy(doc, secrets));
}

bool job_support_is_ours(const struct json *object, const struct job *job)
{
	return kube_is_owned_by(object, str_of(job->uid)) &&
	       str_eqz(kube_label(object, JOB_LABEL_JOB), job->name);
}

bool job_support_is_current(const struct json *object, const struct job *job,
			    enum job_support which, uint32_t instances)
{
	static const char *const says[] = {"data", "rules", "roleRef", "subjects"};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct json *wanted;

	if (!job_support_is_ours(object, job))
		return false;
	job_support_build(doc, job, which, instances, NULL);
	wanted = jmut_view(jmut_root(doc));
	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		const struct json *want = json_get(wanted, says[i]);

		if (want && !json_equal(want, json_get(object, says[i])))
			return false;
	}
	return true;
}
