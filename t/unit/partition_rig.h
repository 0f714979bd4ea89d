/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rig of the partition layer's tests: a simulated API server and a simulated V-IPU controller
 * on loopback, in the test's own loop, and after each turn a look whether the layer's invariants
 * hold. Time is frozen and moved by hand. Included once by each test.
 */
#ifndef IPU_T_UNIT_PARTITION_RIG_H
#define IPU_T_UNIT_PARTITION_RIG_H

#include "tap.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/rand.h"
#include "core/str.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/config_priv.h"
#include "kube/object.h"
#include "net/net.h"
#include "partition/types.h"
#include "sim/api.h"
#include "sim/vipu_sim.h"

#define NS      "ipu-operator"
#define TRACKER "ipu-partitions-tracker"
#define TEXT(z) ((char *)(uintptr_t)(z))

#ifndef IPU_T_UNIT_NET_TEST_H /* else they are there */
static struct loop *loop;
static struct net *net;
#endif
static struct sim_objects *objects;
static struct sim_schema *schema; /* of IPUJobs; NULL where there are none */
static struct sim_api *api;
static struct http_server *server;
static struct kube_config *kube_config;
static struct kube_client *kube;
static struct vipu_sim *sim;
static bool guarded = true; /* the invariants are looked at */
static bool violated;       /* one was broken: said once */

/* ---- the API's objects ---- */

static inline const struct sim_resource *configmaps(void)
{
	return sim_resource_find(STR(""), STR("configmaps"));
}

static inline struct sim_object *tracker_object(void)
{
	return sim_objects_get(objects, configmaps(), STR(NS), STR(TRACKER));
}

static inline const struct json *tracker_data(void)
{
	const struct sim_object *o = tracker_object();

	return o ? json_get(sim_object_json(o), "data") : NULL;
}

static inline size_t n_entries(void)
{
	struct json_iter it = json_iter(tracker_data());
	size_t n = 0;

	while (json_next(&it))
		n += !partition_is_wait_key(it.key);
	return n;
}

static inline size_t n_waits(void)
{
	return json_len(tracker_data()) - n_entries();
}

/* Somebody's kubectl edit: a merge patch of the whole object. */
static inline void edit_tracker(const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct sim_object *o = tracker_object();
	struct jmut *root;

	if (!o || json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("nothing to edit");
	root = jmut_copy(doc, sim_object_json(o));
	root = jmut_merge_patch(doc, root, json_root(p));
	jmut_set_root(doc, root);
	sim_objects_put(objects, configmaps(), doc, root);
}

static inline void make_of(const struct sim_resource *resource, const char *json)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	if (json_parse(str_of(json), &p, NULL) < 0)
		bail_out("an object of the test");
	jmut_set_root(doc, jmut_copy(doc, json_root(p)));
	sim_api_create(api, resource, doc, jmut_root(doc));
}

static inline void make_object(const char *plural, const char *json)
{
	make_of(sim_resource_find(STR(""), str_of(plural)), json);
}

static inline void inject_api(const char *json)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(json), &p, NULL) < 0 || sim_api_inject(api, json_root(p), &err) < 0)
		bail_out("a fault of the test");
}

static inline int64_t api_calls(const char *what)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct json *stats = jmut_view(sim_api_stats(api, doc));

	return json_int(json_get(json_get(stats, "requests"), what), 0);
}

static inline int64_t tracker_requests(void)
{
	return api_calls("create configmaps") + api_calls("patch configmaps") +
	       api_calls("get configmaps");
}

/* ---- the invariants ---- */

static inline void violation(const char *what, const char *id)
{
	if (!violated)
		fail("%s: %s", what, id);
	violated = true;
}

/* No partition of ours without an entry in the ConfigMap; IPUs in one partition only. */
static inline void check_world(void)
{
	struct vipu_sim_partition p;
	const struct json *data = tracker_data();

	if (!guarded)
		return;
	if (vipu_sim_is_broken(sim))
		violation("two partitions on one IPU", "");
	for (size_t i = 0; vipu_sim_at(sim, i, &p); i++) {
		if (!p.by_hand && !json_get(data, p.id))
			violation("a partition without an entry", p.id);
	}
}

/* ---- time ---- */

static inline void turn(unsigned ms)
{
	loop_turn(loop, 0);
	check_world();
	clock_advance(ms);
}

static inline void turns(unsigned n, unsigned ms)
{
	while (n-- > 0)
		turn(ms);
}

/* Until cond holds: at most so many simulated milliseconds, 10 a turn. */
#define WITHIN(limit_ms, cond)                                                                     \
	__extension__({                                                                            \
		for (int64_t end_ = clock_mono_ms() + (limit_ms);                                  \
		     clock_mono_ms() < end_ && !(cond);)                                           \
			turn(10);                                                                  \
		(cond);                                                                            \
	})

/* ---- begin and end ---- */

static inline void make_sim(unsigned agents)
{
	struct vipu_sim_config config = {
		.agents = agents, .create_ms = 300, .reset_ms = 200, .remove_ms = 200};
	struct err err = ERR_INIT;

	if (vipu_sim_new(net, &config, &sim, &err) < 0)
		bail_out(err.msg);
}

static inline void make_api(void)
{
	struct err err = ERR_INIT;
	unsigned port;
	CLEANUP_FREE char *url = NULL;

	objects = sim_objects_new();
	api = sim_api_new(loop, objects, schema, "a-token");
	make_object("namespaces", "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
				  "\"metadata\":{\"name\":\"" NS "\"}}");
	server = http_server_new(net, NULL);
	if (http_server_listen(server, "127.0.0.1:0", NULL, sim_api_handle, api, &port, &err) < 0)
		bail_out(err.msg);
	url = xasprintf("http://127.0.0.1:%u", port);
	kube_config = xcalloc(1, sizeof(*kube_config));
	if (kube_config_set_server(kube_config, url, &err) < 0)
		bail_out(err.msg);
	kube_config->source = xstrdup("the test");
	kube_config->token.data = xstrdup("a-token");
	kube_config->token.len = strlen("a-token");
}

static inline void make_client(void)
{
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = kube_config};
	struct err err = ERR_INIT;

	if (kube_client_new(&opts, &kube, &err) < 0)
		bail_out(err.msg);
}

static inline void rig_begin(unsigned agents)
{
	struct err err = ERR_INIT;

	clock_freeze(1000000, INT64_C(1717200000000));
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		bail_out(err.msg);
	violated = false;
	guarded = true;
	make_api();
	make_client();
	make_sim(agents);
}

static inline void rig_end(void)
{
	kube_client_free(kube);
	http_server_free(server);
	sim_api_free(api);
	sim_objects_free(objects);
	kube_config_free(kube_config);
	vipu_sim_free(sim);
	for (int i = 0; i < 10; i++)
		loop_turn(loop, 0);
	net_free(net);
	loop_free(loop);
}

#endif
