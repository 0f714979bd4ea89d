/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rig of the annotated Pods' controller: the partition layer under it, a simulated API server,
 * kubelet and V-IPU controller, and Pods as the webhook leaves them. Included once by each test.
 */
#ifndef IPU_T_UNIT_POD_RIG_H
#define IPU_T_UNIT_POD_RIG_H

#include "partition_rig.h"

#include "job/queue.h"
#include "kube/event.h"
#include "partition/manager.h"
#include "pod/controller.h"
#include "sim/kubelet.h"
#include "sim/schema.h"
#include "vipu/fleet.h"

#define TOKEN_A "00000000000000000000000000000aaa"
#define TOKEN_B "00000000000000000000000000000bbb"

static struct vipu_fleet *fleet;
static struct partitions *parts;
static struct pod_controller *controller;
static struct kube_recorder *recorder;
static struct sim_kubelet *kubelet;
static struct partition_rules rules;
static const char *ipuof; /* of the V-IPU controller: "api", or NULL */

/* ---- the process ---- */

static inline void on_synced(void *arg)
{
	(void)arg;
	if (controller)
		pod_controller_partitions_synced(controller);
}

static inline void on_change(const struct partition_owner *owner, void *arg)
{
	(void)arg;
	if (controller)
		pod_controller_partition_changed(controller, owner);
}

static inline void configure_fleet(bool drained)
{
	CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u:pod=a", vipu_sim_port(sim));
	struct vipu_address_list list;
	struct vipu_fleet_entry entry;

	vipu_address_parse(str_of(text), &list);
	if (ipuof)
		list.items[0].ipuof = VIPU_IPUOF_API;
	entry = (struct vipu_fleet_entry){.address = &list.items[0], .draining = drained};
	vipu_fleet_configure(fleet, &entry, 1);
	vipu_address_list_done(&list);
}

static inline void process_begin(void)
{
	struct partitions_config config = {.ns = NS,
					   .tracker_name = TRACKER,
					   .times = partition_times_default,
					   .rules = &rules};
	struct pod_controller_opts opts = {.loop = loop, .kube = kube, .unreachable_ms = 60000};

	fleet = vipu_fleet_new(net, NULL);
	configure_fleet(false);
	recorder = kube_recorder_new(kube, "ipu-operator", "test");
	parts = partitions_new(loop, kube, fleet, &config, on_synced, on_change, NULL);
	opts.recorder = recorder;
	opts.partitions = partitions_service(parts);
	controller = pod_controller_new(&opts);
}

static inline void process_end(void)
{
	pod_controller_free(controller);
	controller = NULL;
	partitions_free(parts);
	vipu_fleet_free(fleet);
	kube_recorder_free(recorder);
	kube_client_free(kube);
}

static inline void restart(void)
{
	process_end();
	make_client();
	process_begin();
}

static inline void begin(void)
{
	static const char *const labels[] = {"pod=a"};
	struct sim_kubelet_config config = {.nodes = 1,
					    .node_labels = labels,
					    .n_node_labels = 1,
					    .behaviour = SIM_POD_BEHAVIOUR_INIT};
	struct err err = ERR_INIT;

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

static inline void end(void)
{
	ok(!violated, "the invariants held");
	process_end();
	make_client();
	sim_kubelet_free(kubelet);
	rig_end();
	row_end();
}

/* ---- Pods ---- */

/* What the API server sets in a Pod that says nothing of it. */
#define DEFAULTS                                                                                   \
	"\"dnsPolicy\":\"ClusterFirst\",\"serviceAccountName\":\"default\",\"schedulerName\":"     \
	"\"default-scheduler\",\"terminationGracePeriodSeconds\":30,\"restartPolicy\":\"Never\","

/* Parts of JSON, each with a comma before it. */
struct wish {
	const char *token, *ipus, *annotations, *meta, *spec;
	bool open; /* without our gate */
};

static inline void make_pod_as(const char *name, const struct wish *w)
{
	CLEANUP_FREE char *labels = w->token
					    ? xasprintf(",\"labels\":{\"graphcore.ai/pod\":\"%s\"}",
							w->token)
					    : xstrdup("");
	CLEANUP_FREE char *json = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
		"\"namespace\":\"default\"%s,\"annotations\":{\"graphcore.ai/ipus\":\"%s\"%s}%s},"
		"\"spec\":{%s" DEFAULTS "\"containers\":[{\"name\":\"c\","
		"\"image\":\"i\"}]%s}}",
		name, labels, w->ipus ? w->ipus : "4", w->annotations ? w->annotations : "",
		w->meta ? w->meta : "",
		w->open ? "" : "\"schedulingGates\":[{\"name\":\"" JOB_GATE "\"}],",
		w->spec ? w->spec : "");

	make_object("pods", json);
}

static inline void make_pod(const char *name, const char *token)
{
	make_pod_as(name, &(struct wish){.token = token});
}

static inline struct sim_object *object_of(const char *plural, const char *name)
{
	return sim_objects_get(objects, sim_resource_find(STR(""), str_of(plural)), STR("default"),
			       str_of(name));
}

static inline const struct json *pod_json(const char *name)
{
	const struct sim_object *o = object_of("pods", name);

	return o ? sim_object_json(o) : NULL;
}

static inline bool is_pod(const char *name, const char *phase)
{
	return str_eqz(json_str(json_at(pod_json(name), "status", "phase", NULL)), phase);
}

static inline const char *note_of(const char *name, const char *annotation)
{
	const char *z = json_cstr(
		json_at(pod_json(name), "metadata", "annotations", annotation, NULL));

	return z ? z : "";
}

static inline bool is_gated(const char *name)
{
	return json_len(json_at(pod_json(name), "spec", "schedulingGates", NULL)) > 0;
}

static inline const struct json *files_json(const char *token)
{
	CLEANUP_FREE char *name = xasprintf("ipuof-%s", token);
	const struct sim_object *o = object_of("configmaps", name);

	return o ? sim_object_json(o) : NULL;
}

static inline void edit(const char *plural, const char *name, const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct sim_object *o = object_of(plural, name);

	if (!o || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to edit");
	jmut_set_root(doc, jmut_merge_patch(doc, jmut_copy(doc, sim_object_json(o)), json_root(p)));
	sim_objects_put(objects, sim_resource_find(STR(""), str_of(plural)), doc, jmut_root(doc));
}

static inline void delete_pod(const char *name)
{
	sim_api_delete(api, object_of("pods", name), -1);
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
	return vipu_sim_len(sim) == 0 && n_entries() == 0 && n_waits() == 0;
}

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

static inline int64_t all_requests(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct json_iter it = json_iter(json_get(jmut_view(sim_api_stats(api, doc)), "requests"));
	int64_t n = 0;

	while (json_next(&it))
		n += json_int(it.value, 0);
	return n;
}

/* Whatever is in the way stays so: the operator must come to the end by itself. */
static inline void is_idle(unsigned ms, int64_t at_most, const char *what)
{
	int64_t before = all_requests();

	WITHIN(ms, false);
	ok(all_requests() - before <= at_most, "%s: %" PRId64 " requests in %u s", what,
	   all_requests() - before, ms / 1000);
}

#endif
