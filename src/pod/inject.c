/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the webhook makes of an annotated Pod. First everything is looked at that can be wrong, then
 * what an earlier injection left is taken out, and ours is put in. Pure. Uses job's pieces of Pods.
 */
#include "pod/inject.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/map.h"
#include "core/str.h"
#include "pod/parts.h"

#define MIRROR_ANNOTATION "kubernetes.io/config.mirror"
#define MAX_WARNING       512

struct injection {
	struct jmut_doc *doc;
	struct jmut *pod, *meta, *spec;
	const char *token;
	const struct pod_inject_settings *settings;
	uint32_t ipus;
	int64_t deadline_ms;
	struct str containers; /* POD_ANNOTATION_CONTAINERS; p NULL: all ordinary ones */
	struct map *listed;    /* the names in it */
	bool injected;         /* before */
	pod_warn_fn *warn;
	void *arg;
	struct err *err;
};

__attribute__((format(printf, 2, 3))) static void warn(const struct injection *in, const char *fmt,
						       ...)
{
	char text[MAX_WARNING];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (in->warn)
		in->warn(in->arg, text);
}

static struct str text_at(const struct jmut *obj, const char *key)
{
	return json_str(jmut_view(jmut_get(obj, key)));
}

/* The name of a container, a volume and so on, as much of it as Kubernetes allows. */
#define NAME_ARG(s) ((s).len > 63 ? 63 : (int)(s).len), ((s).p ? (s).p : "")

/* ---- whose Pod it is ---- */

/* metadata.ownerReferences: the controller is an IPUJob, of whatever version. */
static bool is_of_a_job(const struct json *pod)
{
	struct json_iter it = json_iter(json_at(pod, "metadata", "ownerReferences", NULL));

	while (json_next(&it)) {
		if (json_bool(json_get(it.value, "controller"), false) &&
		    str_eqz(json_str(json_get(it.value, "kind")), JOB_KIND) &&
		    str_has_prefix(json_str(json_get(it.value, "apiVersion")),
				   STR("graphcore.ai/")))
			return true;
	}
	return false;
}

static const char *ipus_annotation(const struct injection *in)
{
	return jmut_get(jmut_get(in->meta, "annotations"), POD_ANNOTATION_IPUS)
		       ? POD_ANNOTATION_IPUS
		       : POD_ANNOTATION_IPU;
}

/* A Pod that gets no IPUs here: the label would have the operator watch it. */
static int leave_alone(const struct injection *in, bool annotated, const char *why)
{
	struct jmut *labels = jmut_get(in->meta, "labels");
	bool labelled = jmut_get(labels, POD_LABEL) != NULL;

	if (annotated)
		warn(in, "metadata.annotations[%s]: ignored: %s", ipus_annotation(in), why);
	jmut_del(labels, POD_LABEL);
	return labelled;
}

/* Its author took the annotation away, or never gave it: nothing of ours stays. */
static int take_out(struct injection *in)
{
	pod_strip(in->pod, &in->injected);
	warn(in, "metadata.labels[" POD_LABEL
		 "]: removed: the label is the operator's, and the Pod asks for no IPUs "
		 "(metadata.annotations[" POD_ANNOTATION_IPUS "])");
	return 1;
}

/* ---- what is refused ---- */

static int refuse_size(const struct injection *in, const char *whose, int64_t most)
{
	return err_set(in->err, ERR_INVALID, 0,
		       "metadata.annotations[%s]: %" PRIu32
		       " IPUs are more than %s: at most %" PRId64,
		       ipus_annotation(in), in->ipus, whose, most);
}

/* What would wait for ever. */
static int check_size(const struct injection *in)
{
	const struct pod_inject_settings *s = in->settings;
	const struct partition_policy *p = s->policy ? s->policy : &partition_policy_none;
	int64_t ipus = in->ipus, most_s = p->max_deadline_s;

	if (s->reach_ipus > 0 && ipus > s->reach_ipus)
		return refuse_size(in, "any V-IPU controller has", s->reach_ipus);
	if (p->max_job_ipus >= 0 && ipus > p->max_job_ipus)
		return refuse_size(in, "a Pod may have in its namespace", p->max_job_ipus);
	if (p->max_ipus >= 0 && ipus > p->max_ipus)
		return refuse_size(in, "all of its namespace may have", p->max_ipus);
	if (most_s >= 0 && in->deadline_ms > most_s * 1000)
		return err_set(in->err, ERR_INVALID, 0,
			       "spec.activeDeadlineSeconds: %" PRId64
			       " s are more than a Pod with IPUs may run in its namespace: at most "
			       "%" PRId64,
			       in->deadline_ms / 1000, most_s);
	return 0;
}

static int check_map(const struct injection *in, const struct jmut *v, const char *path)
{
	if (!v || json_type(jmut_view(v)) == JSON_OBJECT || json_type(jmut_view(v)) == JSON_NULL)
		return 0;
	return err_set(in->err, ERR_INVALID, 0, "%s: must be an object", path);
}

static int check_list(const struct injection *in, const struct jmut *v, const char *path)
{
	const struct json *list = jmut_view(v);
	struct json_iter it = json_iter(list);

	if (!v || json_type(list) == JSON_NULL)
		return 0;
	if (json_type(list) != JSON_ARRAY)
		return err_set(in->err, ERR_INVALID, 0, "%s: must be a list", path);
	while (json_next(&it)) {
		if (json_type(it.value) != JSON_OBJECT)
			return err_set(in->err, ERR_INVALID, 0, "%s[%zu]: must be an object", path,
				       it.index);
	}
	return 0;
}

static int check_containers(const struct injection *in, const char *key)
{
	static const char *const lists[] = {"env", "volumeMounts"};
	const struct jmut *list = jmut_get(in->spec, key);
	struct json_iter it = json_iter(jmut_view(list));
	char path[128];

	snprintf(path, sizeof(path), "spec.%s", key);
	if (check_list(in, list, path) < 0)
		return -1;
	while (json_next(&it)) {
		const struct jmut *container = jmut_of(it.value);

		snprintf(path, sizeof(path), "spec.%s[%zu].securityContext", key, it.index);
		if (check_map(in, jmut_get(container, "securityContext"), path) < 0)
			return -1;
		for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
			snprintf(path, sizeof(path), "spec.%s[%zu].%s", key, it.index, lists[k]);
			if (check_list(in, jmut_get(container, lists[k]), path) < 0)
				return -1;
		}
	}
	return 0;
}

/* What we write into is as the API has it: an API server sends nothing else. */
static int check_shape(const struct injection *in)
{
	if (!in->spec || json_type(jmut_view(in->spec)) != JSON_OBJECT)
		return err_set(in->err, ERR_INVALID, 0, "spec: must be an object");
	if (check_map(in, jmut_get(in->meta, "labels"), "metadata.labels") < 0 ||
	    check_map(in, jmut_get(in->spec, "nodeSelector"), "spec.nodeSelector") < 0 ||
	    check_list(in, jmut_get(in->spec, "volumes"), "spec.volumes") < 0 ||
	    check_list(in, jmut_get(in->spec, "schedulingGates"), "spec.schedulingGates") < 0)
		return -1;
	for (size_t k = 0; k < POD_CONTAINER_LISTS; k++) {
		if (check_containers(in, pod_container_lists[k]) < 0)
			return -1;
	}
	if (jmut_len(jmut_get(in->spec, "containers")) == 0)
		return err_set(in->err, ERR_INVALID, 0, "spec.containers: must not be empty");
	return 0;
}

static int check_kind(const struct injection *in)
{
	const struct json *meta = jmut_view(in->meta);

	if (json_at(meta, "labels", JOB_LABEL_JOB, NULL))
		return err_set(in->err, ERR_INVALID, 0,
			       "metadata.labels[" JOB_LABEL_JOB
			       "]: a Pod of an IPUJob has the job's IPUs: leave out this label, or "
			       "the annotation %s",
			       ipus_annotation(in));
	if (str_eqz(json_str(json_at(jmut_view(in->spec), "os", "name", NULL)), "windows"))
		return err_set(in->err, ERR_INVALID, 0,
			       "spec.os.name: must be linux, or left out, for a Pod with IPUs");
	return 0;
}

/* Behind our gate the scheduler has to see it. A copy's node was a scheduler's choice. */
static int check_node(struct injection *in)
{
	struct str node = text_at(in->spec, "nodeName");

	if (in->settings->mode != POD_MODE_GATE || node.len == 0)
		return 0;
	if (!in->injected)
		return err_set(in->err, ERR_INVALID, 0,
			       "spec.nodeName: must be left out: until there is a partition, the "
			       "Pod waits behind a scheduling gate; spec.nodeSelector can name a "
			       "node (kubernetes.io/hostname)");
	warn(in, "spec.nodeName: %.*s is removed: the scheduler chooses a node again",
	     STR_ARG(node));
	jmut_del(in->spec, "nodeName");
	return 0;
}

static int check_names(const struct injection *in)
{
	static const char *const taken[] = {JOB_IPUOF_VOLUME, POD_TOKEN_VOLUME};
	struct json_iter volumes = json_iter(jmut_view(jmut_get(in->spec, "volumes")));
	struct json_iter inits = json_iter(jmut_view(jmut_get(in->spec, "initContainers")));
	bool by_init = in->settings->mode == POD_MODE_INIT;

	while (json_next(&volumes)) {
		for (size_t k = 0; k < (by_init ? 2 : 1); k++) {
			if (str_eqz(json_str(json_get(volumes.value, "name")), taken[k]))
				return err_set(
					in->err, ERR_INVALID, 0,
					"spec.volumes[%zu].name: %s is the operator's own volume "
					"in a Pod with IPUs: choose another name",
					volumes.index, taken[k]);
		}
	}
	while (by_init && json_next(&inits)) {
		if (str_eqz(json_str(json_get(inits.value, "name")), POD_INIT_NAME))
			return err_set(
				in->err, ERR_INVALID, 0,
				"spec.initContainers[%zu].name: " POD_INIT_NAME
				" is the operator's own container in a Pod with IPUs: choose "
				"another name",
				inits.index);
	}
	return 0;
}

static bool is_our_directory(struct str path)
{
	while (path.len > 1 && path.p[path.len - 1] == '/')
		path.len--;
	return str_eqz(path, JOB_IPUOF_DIR);
}

static int check_mounts(const struct injection *in, const struct jmut *container, const char *path)
{
	struct json_iter it = json_iter(jmut_view(jmut_get(container, "volumeMounts")));

	while (json_next(&it)) {
		if (is_our_directory(json_str(json_get(it.value, "mountPath"))))
			return err_set(in->err, ERR_INVALID, 0,
				       "%s.volumeMounts[%zu].mountPath: " JOB_IPUOF_DIR
				       " is where the operator mounts the IPUoF configuration: "
				       "choose another path",
				       path, it.index);
	}
	return 0;
}

/* ---- which containers ---- */

/* A peer makes both lists as long as he likes. */
static struct map *container_names(const struct injection *in)
{
	struct map *names = map_new();

	for (size_t k = 0; k < POD_CONTAINER_LISTS; k++) {
		struct json_iter it = json_iter(
			jmut_view(jmut_get(in->spec, pod_container_lists[k])));

		while (json_next(&it))
			map_put(names, json_str(json_get(it.value, "name")), names);
	}
	return names;
}

static struct map *listed_names(const struct injection *in)
{
	struct map *names = map_new();
	struct str rest = in->containers, name;

	while (rest.len) {
		str_cut(rest, ',', &name, &rest);
		map_put(names, str_trim(name), names);
	}
	return names;
}

static bool uses_ipus(const struct injection *in, size_t list, const struct jmut *container)
{
	if (!in->containers.p)
		return strcmp(pod_container_lists[list], "containers") == 0;
	return map_get(in->listed, text_at(container, "name")) != NULL;
}

static int check_each_listed(const struct injection *in, const struct map *names)
{
	struct str rest = in->containers, name;

	while (rest.p) {
		if (!str_cut(rest, ',', &name, &rest))
			rest = STR_NULL;
		name = str_trim(name);
		if (name.len == 0 || !map_get(names, name))
			return err_set(
				in->err, ERR_INVALID, 0,
				"metadata.annotations[" POD_ANNOTATION_CONTAINERS
				"]: must be names of the Pod's containers, with commas between "
				"them: there is no container \"%.*s\"",
				NAME_ARG(name));
	}
	return 0;
}

static int check_listed(const struct injection *in)
{
	struct map *names = container_names(in);
	int rc = check_each_listed(in, names);

	map_free(names);
	return rc;
}

/* ---- one container ---- */

static void set_privileged(const struct injection *in, struct jmut *container, const char *path)
{
	struct jmut *security = jmut_need_object(in->doc, container, "securityContext");
	const struct json *now = jmut_view(security);
	const char *kept = NULL;

	if (!json_bool(json_get(now, "privileged"), true))
		kept = "privileged";
	else if (!json_bool(json_get(now, "allowPrivilegeEscalation"), true))
		kept = "allowPrivilegeEscalation";
	if (!kept) {
		jmut_set_bool(in->doc, security, "privileged", true);
		return;
	}
	warn(in,
	     "%s.securityContext.%s: false is kept: the container isn't privileged, and may not "
	     "reach its IPUs",
	     path, kept);
}

static int set_rdma(const struct injection *in, struct jmut *container, const char *path)
{
	const char *wrong = job_rdma_apply(in->doc, container, &in->settings->worker.rdma);

	if (!wrong)
		return 0;
	return err_set(in->err, ERR_INVALID, 0, "%s.%s: must be %s", path, wrong,
		       str_has_suffix(str_of(wrong), STR(".add")) ? "a list" : "an object");
}

/* An author's own that says what ours would say may stand where ours does. */
static void set_timeout(const struct injection *in, struct jmut *env, const char *path)
{
	struct json_iter it = json_iter(jmut_view(env));

	while (json_next(&it)) {
		if (!str_eqz(json_str(json_get(it.value, "name")), POD_TIMEOUT_NAME))
			continue;
		if (str_eqz(json_str(json_get(it.value, "value")), POD_TIMEOUT))
			job_env_drop(env, STR(POD_TIMEOUT_NAME));
		else
			warn(in, "%s.env[" POD_TIMEOUT_NAME "]: kept as it is", path);
		return;
	}
}

/* The variables that say where the IPUs are: an author's own would be of other IPUs. */
static void set_env(const struct injection *in, struct jmut *container, const char *path,
		    const struct job_ipus *ipus)
{
	static const char *const ours[] = {
		"IPUOF_CONFIG_PATH",           "IPUOF_VIPU_API_HOST",   "IPUOF_VIPU_API_PORT",
		"IPUOF_VIPU_API_PARTITION_ID", "IPUOF_VIPU_API_GCD_ID",
	};
	struct jmut *env = jmut_get(container, "env");

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (!job_env_has(env, ours[i]))
			continue;
		warn(in, "%s.env[%s]: replaced: the operator says where the Pod's IPUs are", path,
		     ours[i]);
		job_env_drop(env, str_of(ours[i]));
	}
	if (ipus->values == JOB_VALUES_KEYS)
		set_timeout(in, env, path);
	job_env_apply(in->doc, container, ipus);
}

/* In mode init it's the scheduler that wants it, and nothing is held yet. */
static void warn_resource(const struct injection *in, const struct json *container,
			  const char *path)
{
	if (in->settings->mode == POD_MODE_GATE && job_names_ipu_resource(container))
		warn(in,
		     "%s.resources: " JOB_IPU_RESOURCE
		     " gives no IPUs, which come by the annotation: where no node shows it "
		     "(advertise.ipus), the Pod isn't placed while it holds its partition",
		     path);
}

static int inject_containers(const struct injection *in, const struct job_ipus *ipus)
{
	char path[64];

	for (size_t k = 0; k < POD_CONTAINER_LISTS; k++) {
		struct json_iter it = json_iter(
			jmut_view(jmut_get(in->spec, pod_container_lists[k])));

		while (json_next(&it)) {
			struct jmut *container = jmut_of(it.value);

			snprintf(path, sizeof(path), "spec.%s[%zu]", pod_container_lists[k],
				 it.index);
			if (check_mounts(in, container, path) < 0)
				return -1;
			warn_resource(in, it.value, path);
			if (!uses_ipus(in, k, container))
				continue;
			set_env(in, container, path, ipus);
			if (in->settings->worker.privileged)
				set_privileged(in, container, path);
			if (set_rdma(in, container, path) < 0)
				return -1;
		}
	}
	return 0;
}

/* ---- the Pod ---- */

/* ClusterFirst is what the API server writes where its author says nothing. */
static void set_network(const struct injection *in)
{
	const struct job_pod_settings *s = &in->settings->worker;
	const char *dns = s->dns_policy;
	const char *ns = in->settings->ns ? in->settings->ns
					  : json_cstr(jmut_view(jmut_get(in->meta, "namespace")));
	struct str now = text_at(in->spec, "dnsPolicy");

	if (!dns && s->host_network)
		dns = "ClusterFirstWithHostNet";
	if (s->host_network)
		jmut_set_bool(in->doc, in->spec, "hostNetwork", true);
	if (job_network_add(in->doc, in->pod, ns, &s->rdma) == JOB_NETWORK_BROKEN)
		warn(in,
		     "metadata.annotations[" JOB_ANNOTATION_NETWORKS
		     "]: is kept as it is: it's no list of networks, and the RDMA network %s can't "
		     "be added",
		     s->rdma.network);
	if (!dns || str_eqz(now, dns))
		return;
	if (now.len == 0 || str_eqz(now, "ClusterFirst"))
		jmut_set_str(in->doc, in->spec, "dnsPolicy", dns);
	else
		warn(in, "spec.dnsPolicy: %.*s is kept, and not made %s", NAME_ARG(now), dns);
}

static void set_metadata(const struct injection *in)
{
	struct jmut *labels = jmut_need_object(in->doc, in->meta, "labels");
	struct jmut *annotations = jmut_need_object(in->doc, in->meta, "annotations");

	jmut_set_str(in->doc, labels, POD_LABEL, in->token);
	jmut_set_str(in->doc, annotations, POD_ANNOTATION_STATUS, POD_STATUS_INJECTED);
}

static int inject(struct injection *in)
{
	bool gated = in->settings->mode == POD_MODE_GATE;
	char config_map[POD_CONFIG_MAP_SIZE];
	int rc;
	struct job_ipus ipus = {.values = gated ? JOB_VALUES_KEYS : JOB_VALUES_FILE,
				.config_map = config_map};

	pod_config_map_name(in->token, config_map);
	pod_strip(in->pod, &in->injected);
	if (check_node(in) < 0 || check_names(in) < 0 || check_listed(in) < 0)
		return -1;
	set_metadata(in);
	set_network(in);
	in->listed = listed_names(in);
	rc = inject_containers(in, &ipus);
	map_free(in->listed);
	if (rc < 0)
		return -1;
	if (!gated)
		return pod_add_init(in->doc, in->spec, in->ipus, in->deadline_ms, in->settings,
				    in->err);
	job_volume_apply(in->doc, in->spec, &ipus);
	job_gate_close(in->doc, in->spec);
	return 0;
}

int pod_inject(struct jmut_doc *doc, const struct json *pod, const char *token,
	       const struct pod_inject_settings *settings, pod_warn_fn *warn_fn, void *arg,
	       struct err *err)
{
	bool annotated = pod_is_annotated(pod);
	struct injection in = {.doc = doc,
			       .token = token,
			       .settings = settings,
			       .warn = warn_fn,
			       .arg = arg,
			       .err = err};

	if (!annotated && !json_at(pod, "metadata", "labels", POD_LABEL, NULL))
		return 0;
	in.pod = jmut_copy(doc, pod);
	in.meta = jmut_get(in.pod, "metadata");
	in.spec = jmut_get(in.pod, "spec");
	in.deadline_ms = pod_deadline_ms(pod);
	in.containers = json_str(
		json_at(pod, "metadata", "annotations", POD_ANNOTATION_CONTAINERS, NULL));
	jmut_set_root(doc, in.pod);
	if (is_of_a_job(pod))
		return leave_alone(&in, annotated,
				   "the Pod is of an IPUJob, and has the job's IPUs");
	if (json_at(pod, "metadata", "annotations", MIRROR_ANNOTATION, NULL))
		return leave_alone(&in, annotated, "a static Pod runs already, without IPUs");
	if (check_shape(&in) < 0)
		return -1;
	if (!annotated)
		return take_out(&in);
	if (pod_ipus(pod, &in.ipus, err) < 0 || check_kind(&in) < 0 || check_size(&in) < 0 ||
	    inject(&in) < 0)
		return -1;
	return 1;
}
