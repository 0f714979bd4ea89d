/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defaults are those of etc/operator.yaml; t/65-ipuctl-render.t compares.
 */
#include "ctl/settings.h"

#include <string.h>

#include "core/str.h"

static int check(const struct yaml *yaml, const char *pointer, const struct json *v,
		 enum json_type want, struct err *err)
{
	if (!v || json_type(v) == want)
		return 0;
	return yaml_error(yaml, 0, pointer, err, "must be %s, not %s", json_type_name(want),
			  json_type_name(json_type(v)));
}

/* "auto" or text; "auto" is NULL. */
static const char *chosen(const struct json *v)
{
	const char *z = json_cstr(v);

	return z && strcmp(z, "auto") != 0 && z[0] ? z : NULL;
}

static int take_rdma(struct ctl_settings *s, const struct json *worker, struct err *err)
{
	const struct json *network = json_get(worker, "rdmaNetwork");
	const struct json *resource = json_get(worker, "rdmaResource");
	const struct json *count = json_get(worker, "rdmaResourceCount");
	const struct json *lock = json_get(worker, "ipcLock");
	const char *lock_z = json_type(lock) == JSON_BOOL
				     ? json_bool(lock, false) ? "true" : "false"
			     : chosen(lock) ? chosen(lock)
					    : "auto";

	if (check(s->yaml, "/worker/rdmaNetwork", network, JSON_STRING, err) < 0 ||
	    check(s->yaml, "/worker/rdmaResource", resource, JSON_STRING, err) < 0 ||
	    check(s->yaml, "/worker/rdmaResourceCount", count, JSON_INT, err) < 0)
		return -1;
	if (json_str(network).len && !job_rdma_is_network(json_str(network)))
		return yaml_error(s->yaml, 0, "/worker/rdmaNetwork", err,
				  "must be [NAMESPACE/]NAME[@INTERFACE]");
	if (json_str(resource).len && !job_rdma_is_resource(json_str(resource)))
		return yaml_error(s->yaml, 0, "/worker/rdmaResource", err,
				  "must be an extended resource, DOMAIN/NAME");
	s->pods.worker.rdma = job_rdma_of(s->pods.worker.host_network, json_cstr(network),
					  json_cstr(resource), json_int(count, 1), lock_z);
	return 0;
}

static int take_worker(struct ctl_settings *s, const struct json *root, struct err *err)
{
	struct job_pod_settings *w = &s->pods.worker;
	const struct json *network = json_at(root, "worker", "hostNetwork", NULL);
	const struct json *privileged = json_at(root, "worker", "privileged", NULL);
	const char *words = chosen(privileged);

	if (check(s->yaml, "/worker/hostNetwork", network, JSON_BOOL, err) < 0)
		return -1;
	w->host_network = json_bool(network, true);
	w->privileged = w->host_network;
	if (json_type(privileged) == JSON_BOOL)
		w->privileged = json_bool(privileged, false);
	else if (words)
		w->privileged = strcmp(words, "true") == 0;
	w->dns_policy = chosen(json_at(root, "worker", "dnsPolicy", NULL));
	return take_rdma(s, json_get(root, "worker"), err);
}

static int take_all(struct ctl_settings *s, const struct json *root, struct err *err)
{
	const struct json *image = json_at(root, "launcher", "image", NULL);
	const struct json *wait = json_at(root, "launcher", "workerTimeoutSeconds", NULL);
	const struct json *mode = json_at(root, "pods", "mode", NULL);
	const struct json *pods_wait = json_at(root, "pods", "waitSeconds", NULL);

	if (check(s->yaml, "", root, JSON_OBJECT, err) < 0 || take_worker(s, root, err) < 0 ||
	    check(s->yaml, "/launcher/image", image, JSON_STRING, err) < 0 ||
	    check(s->yaml, "/launcher/workerTimeoutSeconds", wait, JSON_INT, err) < 0 ||
	    check(s->yaml, "/pods/mode", mode, JSON_STRING, err) < 0 ||
	    check(s->yaml, "/pods/waitSeconds", pods_wait, JSON_INT, err) < 0)
		return -1;
	s->has_image = json_str(image).len > 0;
	s->pods.worker.launcher_image = s->has_image ? json_cstr(image) : CTL_NO_IMAGE;
	s->pods.worker.launcher_pull = chosen(json_at(root, "launcher", "imagePullPolicy", NULL));
	s->pods.worker.mpi_interface = chosen(json_at(root, "launcher", "mpiInterface", NULL));
	s->pods.worker.worker_wait_s = (unsigned)json_int(wait, 300);
	s->pods.wait_s = (unsigned)json_int(pods_wait, 0);
	s->pods.mode = str_eqz(json_str(mode), "init") ? POD_MODE_INIT : POD_MODE_GATE;
	s->pods.proxy_url = json_cstr(json_at(root, "pods", "proxyUrl", NULL));
	if (!s->pods.proxy_url || !s->pods.proxy_url[0])
		s->pods.proxy_url = "https://ipu-operator-vipu-proxy.ipu-operator.svc:443";
	s->pods.proxy_ca = "<the certificate authority of the proxy>";
	return 0;
}

int ctl_settings_load(const char *path, struct ctl_settings *ret, struct err *err)
{
	struct ctl_settings s = {.yaml = NULL};
	const struct json *root = NULL;

	if (path && yaml_load(path, &s.yaml, err) < 0) {
		err->kind = ERR_INVALID;
		err->code = 0;
		return err_wrap(err, "--config");
	}
	if (s.yaml && yaml_len(s.yaml) > 0)
		root = yaml_doc(s.yaml, 0);
	if (take_all(&s, root, err) < 0) {
		yaml_free(s.yaml);
		return -1;
	}
	*ret = s;
	return 0;
}

void ctl_settings_done(struct ctl_settings *s)
{
	yaml_free(s->yaml);
	s->yaml = NULL;
}
