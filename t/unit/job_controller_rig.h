/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the job controller's test: the controller with the partition layer under it, on a simulated
 * API server, kubelet and V-IPU controller; jobs, and what can be seen of them. Included once.
 */
#ifndef IPU_T_UNIT_JOB_CONTROLLER_RIG_H
#define IPU_T_UNIT_JOB_CONTROLLER_RIG_H

#include "partition_rig.h"

#include "core/metrics.h"
#include "job/controller.h"
#include "partition/manager.h"
#include "vipu/fleet.h"
#include "kube/event.h"
#include "sim/kubelet.h"
#include "sim/schema.h"

static struct vipu_fleet *fleet;
static struct partitions *parts;
static struct job_controller *jobs;
static struct kube_recorder *recorder;
static struct sim_kubelet *kubelet;
static const char *only_ns; /* the controller's */

static inline const struct sim_resource *ipujobs(void)
{
	return sim_resource_find(STR("graphcore.ai"), STR("ipujobs"));
}

static inline const struct sim_resource *pods(void)
{
	return sim_resource_find(STR(""), STR("pods"));
}

/* ---- the process ---- */

static inline void on_synced(void *arg)
{
	(void)arg;
	if (jobs)
		job_controller_partitions_synced(jobs);
}

static inline void on_change(const struct partition_owner *owner, void *arg)
{
	(void)arg;
	if (jobs)
		job_controller_partition_changed(jobs, owner);
}

static inline void process_begin(void)
{
	struct partitions_config config = {
		.ns = NS, .tracker_name = TRACKER, .times = partition_times_default};
	struct job_controller_opts opts = {
		.loop = loop, .kube = kube, .ns = only_ns, .pods = {.launcher_image = "l"}};
	CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u:pod=a", vipu_sim_port(sim));
	struct vipu_address_list list;
	struct vipu_fleet_entry entry;

	fleet = vipu_fleet_new(net, NULL);
	vipu_address_parse(str_of(text), &list);
	entry = (struct vipu_fleet_entry){.address = &list.items[0]};
	vipu_fleet_configure(fleet, &entry, 1);
	vipu_address_list_done(&list);
	recorder = kube_recorder_new(kube, "ipu-operator", "test");
	parts = partitions_new(loop, kube, fleet, &config, on_synced, on_change, NULL);
	opts.recorder = recorder;
	opts.partitions = partitions_service(parts);
	jobs = job_controller_new(&opts);
}

static inline void process_end(void)
{
	job_controller_free(jobs);
	jobs = NULL;
	partitions_free(parts);
	vipu_fleet_free(fleet);
	kube_recorder_free(recorder);
	kube_client_free(kube);
}

static inline void load_schema(const char *path)
{
	CLEANUP_FREE char *shipped = xasprintf("%s/crds/graphcore.ai_ipujobs.yaml",
					       getenv("TOP_SRCDIR") ? getenv("TOP_SRCDIR") : ".");
	struct err err = ERR_INIT;

	if (sim_schema_load(path ? path : shipped, &schema, &err) < 0)
		bail_out(err.msg);
}

static inline void begin_with(const char *crd)
{
	static const char *const labels[] = {"pod=a"};
	struct sim_kubelet_config config = {.nodes = 1,
					    .node_labels = labels,
					    .n_node_labels = 1,
					    .behaviour = SIM_POD_BEHAVIOUR_INIT};
	struct err err = ERR_INIT;

	load_schema(crd);
	rig_begin(16);
	make_object("namespaces", "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
				  "\"metadata\":{\"name\":\"default\"}}");
	config.loop = loop;
	config.objects = objects;
	config.api = api;
	if (sim_kubelet_new(&config, &kubelet, &err) < 0)
		bail_out(err.msg);
	process_begin();
}

static inline void begin(void)
{
	begin_with(NULL);
}

static inline void end(void)
{
	ok(!violated, "the invariants held");
	process_end();
	make_client();
	sim_kubelet_free(kubelet);
	rig_end();
	sim_schema_free(schema);
	row_end();
}

/* ---- jobs ---- */

static inline void make_job(const char *name, const char *more)
{
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"graphcore.ai/v1alpha1\",\"kind\":\"IPUJob\",\"metadata\":{"
		"\"name\":\"%s\",\"namespace\":\"default\"},\"spec\":{\"jobInstances\":1,"
		"\"ipusPerJobInstance\":\"4\",\"cleanPodPolicy\":\"None\",\"workers\":{\"template\":{"
		"\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}%s}}",
		name, more);

	make_of(ipujobs(), json);
}

static inline const struct json *job_json(const char *name)
{
	struct sim_object *o = sim_objects_get(objects, ipujobs(), STR("default"), str_of(name));

	return o ? sim_object_json(o) : NULL;
}

static inline const char *job_status(const char *name, const char *field)
{
	const char *z = json_cstr(json_at(job_json(name), "status", field, NULL));

	return z ? z : "";
}

static inline bool is_job(const char *name, const char *launcher_status)
{
	return strcmp(job_status(name, "launcherStatus"), launcher_status) == 0;
}

static inline struct sim_object *pod_object(const char *name)
{
	return sim_objects_get(objects, pods(), STR("default"), str_of(name));
}

static inline bool is_pod(const char *name, const char *phase)
{
	const struct sim_object *o = pod_object(name);

	return o && str_eqz(json_str(json_at(sim_object_json(o), "status", "phase", NULL)), phase);
}

/* kubectl's ways. */
static inline void edit_job(const char *name, const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root, *meta;

	if (!job_json(name) || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to edit");
	root = jmut_merge_patch(doc, jmut_copy(doc, job_json(name)), json_root(p));
	meta = jmut_get(root, "metadata");
	if (json_get(json_root(p), "spec"))
		jmut_set_int(doc, meta, "generation", kube_generation(jmut_view(root)) + 1);
	jmut_set_root(doc, root);
	sim_objects_put(objects, ipujobs(), doc, root);
}

static inline void delete_job(const char *name)
{
	struct sim_object *o = sim_objects_get(objects, ipujobs(), STR("default"), str_of(name));

	if (json_len(json_at(job_json(name), "metadata", "finalizers", NULL)) > 0)
		edit_job(name, "{\"metadata\":{\"deletionTimestamp\":\"2024-06-01T00:00:00Z\"}}");
	else
		sim_api_delete_now(api, o);
}

static inline void set_kubelet(const char *settings)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(settings), &doc, &err) < 0 ||
	    sim_kubelet_set(kubelet, json_root(doc), &err) < 0)
		bail_out(err.msg);
}

static inline bool is_free(void)
{
	return vipu_sim_len(sim) == 0 && n_entries() == 0;
}

/* How many Events of a reason there are. */
static inline unsigned n_events(const char *reason)
{
	struct sim_object **list;
	size_t n;
	unsigned found = 0;

	list = sim_objects_list(objects, sim_resource_find(STR(""), STR("events")), STR(""), &n);
	for (size_t i = 0; i < n; i++)
		found += str_eqz(json_str(json_get(sim_object_json(list[i]), "reason")), reason);
	free(list);
	return found;
}

static inline int64_t all_writes(void)
{
	return api_calls("patch ipujobs") + api_calls("patch ipujobs/status") +
	       api_calls("create pods") + api_calls("delete pods") + api_calls("patch configmaps") +
	       api_calls("create configmaps");
}

/* Requests of all kinds, reads too. */
static inline int64_t all_requests(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct json_iter it = json_iter(json_get(jmut_view(sim_api_stats(api, doc)), "requests"));
	int64_t n = 0;

	while (json_next(&it))
		n += json_int(it.value, 0);
	return n;
}

static inline int64_t n_looks(void)
{
	static const char *const labels[] = {"controller", "result", NULL};
	const char *values[] = {"ipujob", "success"};

	return (int64_t)metric_value(metric_new(METRIC_COUNTER,
						"controller_runtime_reconcile_total",
						"Looks at a job that have ended.", labels, NULL, 0),
				     values);
}

#define N_MEASURED(z) metric_value(metric_new(METRIC_HISTOGRAM, z, "", NULL, NULL, 0), NULL)
#define N_PARTITIONS  N_MEASURED("ipu_operator_job_partition_active_seconds")
#define N_PODS        N_MEASURED("ipu_operator_job_pods_created_seconds")

#endif
