/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Init mode: `ipu-launcher partition` as the Pod's first init container, with a token of its own
 * for the proxy, and the volume in which it leaves the IPUoF configuration. Pure.
 */
#include <inttypes.h>

#include "core/str.h"
#include "pod/parts.h"

#define TOKEN_SECONDS 3600 /* the kubelet renews it in time */

static struct jmut *field_env(struct jmut_doc *doc, const char *name, const char *path)
{
	struct jmut *item = jmut_object(doc), *from = jmut_object(doc), *ref = jmut_object(doc);

	jmut_set_str(doc, ref, "fieldPath", path);
	jmut_set(doc, from, "fieldRef", ref);
	jmut_set_str(doc, item, "name", name);
	jmut_set(doc, item, "valueFrom", from);
	return item;
}

static void set_env(struct jmut_doc *doc, struct jmut *container, const char *ca)
{
	struct jmut *env = jmut_array(doc), *item = jmut_object(doc);

	jmut_push(doc, env, field_env(doc, "IPU_POD_NAMESPACE", "metadata.namespace"));
	jmut_push(doc, env, field_env(doc, "IPU_POD_NAME", "metadata.name"));
	jmut_push(doc, env, field_env(doc, "IPU_POD_UID", "metadata.uid"));
	jmut_set_str(doc, item, "name", "IPU_PROXY_CA");
	jmut_set_str(doc, item, "value", ca);
	jmut_push(doc, env, item);
	jmut_set(doc, container, "env", env);
}

static void set_command(struct jmut_doc *doc, struct jmut *container, uint32_t ipus,
			int64_t deadline_ms, const struct pod_inject_settings *settings)
{
	struct jmut *command = jmut_array(doc);

	jmut_push(doc, command, jmut_strz(doc, JOB_LAUNCHER_SOURCE));
	jmut_push(doc, command, jmut_strz(doc, "partition"));
	jmut_push(doc, command, jmut_strz(doc, "--ipus"));
	jmut_push(doc, command, jmut_strf(doc, "%" PRIu32, ipus));
	jmut_push(doc, command, jmut_strz(doc, "--output"));
	jmut_push(doc, command, jmut_strz(doc, POD_FILE));
	jmut_push(doc, command, jmut_strz(doc, "--token-file"));
	jmut_push(doc, command, jmut_strz(doc, POD_TOKEN_DIR "/token"));
	if (settings->wait_s > 0) {
		jmut_push(doc, command, jmut_strz(doc, "--timeout"));
		jmut_push(doc, command, jmut_strf(doc, "%u", settings->wait_s));
	}
	if (deadline_ms > 0) {
		jmut_push(doc, command, jmut_strz(doc, "--deadline"));
		jmut_push(doc, command, jmut_strf(doc, "%" PRId64, deadline_ms / 1000));
	}
	jmut_push(doc, command, jmut_strz(doc, settings->proxy_url));
	jmut_set(doc, container, "command", command);
}

static void add_volumes(struct jmut_doc *doc, struct jmut *volumes)
{
	struct jmut *shared = jmut_object(doc), *token = jmut_object(doc);
	struct jmut *projected = jmut_object(doc), *sources = jmut_array(doc);
	struct jmut *source = jmut_object(doc), *account = jmut_object(doc);

	jmut_set_str(doc, shared, "name", JOB_IPUOF_VOLUME);
	jmut_set(doc, shared, "emptyDir", jmut_object(doc));
	jmut_push(doc, volumes, shared);
	jmut_set_str(doc, account, "audience", POD_TOKEN_AUDIENCE);
	jmut_set_int(doc, account, "expirationSeconds", TOKEN_SECONDS);
	jmut_set_str(doc, account, "path", "token");
	jmut_set(doc, source, "serviceAccountToken", account);
	jmut_push(doc, sources, source);
	jmut_set(doc, projected, "sources", sources);
	jmut_set_str(doc, token, "name", POD_TOKEN_VOLUME);
	jmut_set(doc, token, "projected", projected);
	jmut_push(doc, volumes, token);
}

int pod_add_init(struct jmut_doc *doc, struct jmut *spec, uint32_t ipus, int64_t deadline_ms,
		 const struct pod_inject_settings *settings, struct err *err)
{
	const struct job_pod_settings *worker = &settings->worker;
	struct jmut *inits = jmut_need_array(doc, spec, "initContainers");
	struct jmut *volumes = jmut_need_array(doc, spec, "volumes"), *helper;

	if (!worker->launcher_image || !worker->launcher_image[0] || !settings->proxy_url)
		return err_set(err, ERR_UNSUPPORTED, 0,
			       "the operator's configuration names no image with ipu-launcher "
			       "(launcher.image), which pods.mode init needs");
	if (!settings->proxy_ca || !settings->proxy_ca[0])
		return err_set(err, ERR_UNAVAILABLE, 0,
			       "the operator has no authority yet that Pods could trust the proxy "
			       "by: try again");
	helper = job_helper(doc, POD_INIT_NAME,
			    jmut_view(jmut_item(jmut_get(spec, "containers"), 0)), worker);
	set_command(doc, helper, ipus, deadline_ms, settings);
	set_env(doc, helper, settings->proxy_ca);
	job_mount(doc, helper, JOB_IPUOF_VOLUME, JOB_IPUOF_DIR, false);
	job_mount(doc, helper, POD_TOKEN_VOLUME, POD_TOKEN_DIR, true);
	jmut_insert(doc, inits, 0, helper);
	add_volumes(doc, volumes);
	return 0;
}
