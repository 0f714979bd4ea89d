/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-sim's own end-points. Bodies are JSON objects whose keys are all known, or 400 says which
 * one isn't; what was done is answered by 204, what is shown by 200.
 */
#include "sim/admin.h"

#include <inttypes.h>
#include <string.h>

#include "core/str.h"

#define DAY_MS       86400000
#define NOT_READY_MS 50000 /* kube-controller-manager's --node-monitor-grace-period */
#define EVICT_MS     300000 /* what every Pod tolerates (admission plugin DefaultTolerationSeconds) */
#define ANSWER_LIMIT ((size_t)16 << 20)

/* ---- requests ---- */

/* One request with its body read: the document lives until request_done. */
struct request {
	struct http_exchange *ex;
	struct sim_admin *admin;
	struct vipu_sim *vipu; /* that of {n}; NULL where the path has none */
	struct json_doc *doc;
	const struct json *body; /* NULL: none was sent */
};

static int check_keys(const struct json *body, const char *const *keys, struct err *err)
{
	struct json_iter it = json_iter(body);

	if (body && json_type(body) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "the body must be a JSON object, not %s",
			       json_type_name(json_type(body)));
	while (json_next(&it)) {
		size_t i = 0;

		while (keys[i] && !str_eqz(it.key, keys[i]))
			i++;
		if (!keys[i])
			return err_set(err, ERR_INVALID, 0, "%.*s: there is no such key here",
				       STR_ARG(it.key));
	}
	return 0;
}

static int find_vipu(struct request *req, struct err *err)
{
	const char *text = http_exchange_param(req->ex, "n");
	int64_t n = -1;

	if (!text[0])
		return 0;
	if (str_to_int(str_of(text), 0, INT32_MAX, &n, NULL) < 0 ||
	    (uint64_t)n >= req->admin->n_vipu)
		return err_set(err, ERR_NOT_FOUND, 404, "there is no controller %s, only 0 to %zu",
			       text, req->admin->n_vipu - 1);
	req->vipu = req->admin->vipu[n];
	return 0;
}

static int read_body(struct request *req, struct err *err)
{
	if (str_trim(req->ex->body).len == 0)
		return 0;
	if (json_parse(req->ex->body, &req->doc, err) < 0)
		return err_wrap(err, "the body isn't JSON");
	req->body = json_root(req->doc);
	return 0;
}

typedef int action_fn(struct request *req, struct err *err);

/* Reads the request, checks its keys (NULL: the action does it), acts, answers. */
static void act(struct http_exchange *ex, struct sim_admin *admin, const char *const *keys,
		action_fn *action)
{
	struct request req = {.ex = ex, .admin = admin};
	struct err err;

	if (find_vipu(&req, &err) < 0 || read_body(&req, &err) < 0 ||
	    (keys && check_keys(req.body, keys, &err) < 0) || action(&req, &err) < 0)
		http_reply_err(ex, &err);
	else
		http_reply(ex, 204, NULL, NULL, 0, STR_NULL);
	json_doc_free(req.doc);
}

static int need_kubernetes(const struct request *req, struct err *err)
{
	if (req->admin->api)
		return 0;
	return err_set(err, ERR_NOT_FOUND, 404,
		       "this ipu-sim was started with --vipu-only: there is no Kubernetes in it");
}

/* A string that must be there. */
static int read_text(const struct request *req, const char *key, const char **ret, struct err *err)
{
	const char *z = json_cstr(json_get(req->body, key));

	if (!z || !z[0])
		return err_set(err, ERR_INVALID, 0, "%s: must be a string that isn't empty", key);
	*ret = z;
	return 0;
}

static int read_number(const struct request *req, const char *key, int64_t least, int64_t most,
		       unsigned *ret, struct err *err)
{
	const struct json *v = json_get(req->body, key);
	int64_t n = json_int(v, -1);

	if (json_type(v) != JSON_INT || n < least || n > most)
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be a whole number from %" PRId64 " to %" PRId64, key,
			       least, most);
	*ret = (unsigned)n;
	return 0;
}

static int read_bool(const struct request *req, const char *key, bool *ret, struct err *err)
{
	const struct json *v = json_get(req->body, key);

	if (v && json_type(v) != JSON_BOOL)
		return err_set(err, ERR_INVALID, 0, "%s: must be true or false", key);
	*ret = json_bool(v, false);
	return 0;
}

static const char *const no_keys[] = {NULL};

/* ---- the state ---- */

static void reply_json(struct http_exchange *ex, const struct jmut *root)
{
	struct buf out = BUF_INIT(ANSWER_LIMIT);
	struct err err;

	if (jmut_write(root, JSON_PRETTY, &out, &err) < 0 || buf_append(&out, "\n", 1, &err) < 0)
		http_reply_err(ex, &err);
	else
		http_reply(ex, 200, "application/json", NULL, 0, buf_str(&out));
	buf_done(&out);
}

static void get_state(struct http_exchange *ex, void *arg)
{
	const struct sim_admin *admin = arg;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *vipu = jmut_array(doc);

	if (admin->api) {
		jmut_set(doc, root, "kubelet", sim_kubelet_to_json(admin->kubelet, doc));
		jmut_set(doc, root, "api", sim_api_stats(admin->api, doc));
	}
	for (size_t i = 0; i < admin->n_vipu; i++)
		jmut_push(doc, vipu, vipu_sim_to_json(admin->vipu[i], doc));
	jmut_set(doc, root, "vipu", vipu);
	reply_json(ex, root);
}

/* ---- Pods and API ---- */

static int do_set_pods(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	return sim_kubelet_set(req->admin->kubelet, req->body, err);
}

static int do_clear_pods(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	sim_kubelet_clear_rules(req->admin->kubelet);
	return 0;
}

/* POST /sim/nodes/{name}/lose, …/return */
static int do_lose_node(struct request *req, struct err *err)
{
	unsigned not_ready_ms = NOT_READY_MS, evict_ms = EVICT_MS;

	if (need_kubernetes(req, err) < 0 ||
	    (json_get(req->body, "notReadyMs") &&
	     read_number(req, "notReadyMs", 0, DAY_MS, &not_ready_ms, err) < 0) ||
	    (json_get(req->body, "evictMs") &&
	     read_number(req, "evictMs", 0, DAY_MS, &evict_ms, err) < 0))
		return -1;
	return sim_kubelet_lose_node(req->admin->kubelet, http_exchange_param(req->ex, "name"),
				     not_ready_ms, evict_ms, err);
}

static int do_return_node(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	return sim_kubelet_return_node(req->admin->kubelet, http_exchange_param(req->ex, "name"),
				       err);
}

static void post_lose_node(struct http_exchange *ex, void *arg)
{
	static const char *const keys[] = {"notReadyMs", "evictMs", NULL};

	act(ex, arg, keys, do_lose_node);
}

static void post_return_node(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_return_node);
}

static int do_api_fault(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	return sim_api_inject(req->admin->api, req->body, err);
}

static int do_clear_api_faults(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	sim_api_clear_faults(req->admin->api);
	return 0;
}

static int do_deny(struct request *req, struct err *err)
{
	struct json_iter it = json_iter(req->body);

	if (need_kubernetes(req, err) < 0)
		return -1;
	while (json_next(&it)) {
		if (json_type(it.value) != JSON_STRING)
			return err_set(err, ERR_INVALID, 0, "%.*s: must be a string",
				       STR_ARG(it.key));
	}
	sim_api_deny(req->admin->api, req->body);
	return 0;
}

static int do_allow_all(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	sim_api_allow_all(req->admin->api);
	return 0;
}

static int do_cut_watches(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	sim_api_cut_watches(req->admin->api);
	return 0;
}

static int do_compact(struct request *req, struct err *err)
{
	if (need_kubernetes(req, err) < 0)
		return -1;
	sim_objects_compact(req->admin->objects);
	return 0;
}

static void post_pods(struct http_exchange *ex, void *arg)
{
	act(ex, arg, NULL, do_set_pods);
}

static void delete_pods(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_clear_pods);
}

static void post_api_fault(struct http_exchange *ex, void *arg)
{
	static const char *const keys[] = {"verb", "resource", "namespace", "count",      "skip",
					   "kind", "status",   "message",   "retryAfter", NULL};

	act(ex, arg, keys, do_api_fault);
}

static void delete_api_faults(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_clear_api_faults);
}

static void post_deny(struct http_exchange *ex, void *arg)
{
	act(ex, arg, sim_access_keys, do_deny);
}

static void delete_deny(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_allow_all);
}

static void post_cut_watches(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_cut_watches);
}

static void post_compact(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_compact);
}

/* ---- V-IPU controllers ---- */

static int do_vipu_fault(struct request *req, struct err *err)
{
	return vipu_sim_inject_json(req->vipu, req->body, err);
}

static int do_clear_vipu_faults(struct request *req, struct err *err)
{
	(void)err;
	vipu_sim_clear_faults(req->vipu);
	return 0;
}

static int do_delays(struct request *req, struct err *err)
{
	unsigned create_ms, reset_ms, remove_ms;

	if (read_number(req, "createMs", 0, 86400000, &create_ms, err) < 0 ||
	    read_number(req, "resetMs", 0, 86400000, &reset_ms, err) < 0 ||
	    read_number(req, "removeMs", 0, 86400000, &remove_ms, err) < 0)
		return -1;
	vipu_sim_set_delays(req->vipu, create_ms, reset_ms, remove_ms);
	return 0;
}

static int do_create(struct request *req, struct err *err)
{
	const char *id = NULL;
	unsigned size;

	if (read_text(req, "id", &id, err) < 0 ||
	    read_number(req, "size", 1, 65536, &size, err) < 0)
		return -1;
	return vipu_sim_create_by_hand(req->vipu, id, size, err);
}

static int do_remove(struct request *req, struct err *err)
{
	return vipu_sim_remove_by_hand(req->vipu, http_exchange_param(req->ex, "id"), err);
}

static int do_break(struct request *req, struct err *err)
{
	const char *message = json_cstr(json_get(req->body, "message"));
	const char *id = NULL;
	bool auto_reset;

	if (read_text(req, "id", &id, err) < 0 || read_bool(req, "autoReset", &auto_reset, err) < 0)
		return -1;
	return vipu_sim_break(req->vipu, id, message ? message : "broken by a test", auto_reset,
			      err);
}

static int do_in_use(struct request *req, struct err *err)
{
	const char *id = NULL;
	bool in_use;

	if (read_text(req, "id", &id, err) < 0 || read_bool(req, "inUse", &in_use, err) < 0)
		return -1;
	return vipu_sim_set_in_use(req->vipu, id, in_use, err);
}

static int do_agents(struct request *req, struct err *err)
{
	unsigned agents;

	if (read_number(req, "agents", 1, 1024, &agents, err) < 0)
		return -1;
	return vipu_sim_set_agents(req->vipu, agents, err);
}

static int do_health(struct request *req, struct err *err)
{
	unsigned agent, celsius = 38;
	const char *state = "";

	if (read_number(req, "agent", 0, 1024, &agent, err) < 0 ||
	    read_number(req, "celsius", 0, 1000, &celsius, err) < 0 ||
	    read_text(req, "state", &state, err) < 0)
		return -1;
	vipu_sim_set_health(req->vipu, agent, celsius, state);
	return 0;
}

static int do_down(struct request *req, struct err *err)
{
	(void)err;
	vipu_sim_go_down(req->vipu);
	return 0;
}

static int do_up(struct request *req, struct err *err)
{
	return vipu_sim_come_up(req->vipu, err);
}

static int do_cut(struct request *req, struct err *err)
{
	(void)err;
	vipu_sim_cut(req->vipu);
	return 0;
}

static int do_drain(struct request *req, struct err *err)
{
	(void)err;
	vipu_sim_drain(req->vipu);
	return 0;
}

static int do_secure(struct request *req, struct err *err)
{
	return vipu_sim_secure(req->vipu, req->body, err);
}

/* POST /sim/vipu/{n}/{action} */
static const struct vipu_action {
	const char *name;
	const char *keys[10];
	action_fn *action;
} vipu_actions[] = {
	{"faults",
	 {"kind", "method", "count", "skip", "status", "message", "delayMs"},
	 do_vipu_fault},
	{"delays", {"createMs", "resetMs", "removeMs"}, do_delays},
	{"partitions", {"id", "size"}, do_create},
	{"break", {"id", "message", "autoReset"}, do_break},
	{"in-use", {"id", "inUse"}, do_in_use},
	{"agents", {"agents"}, do_agents},
	{"health", {"agent", "celsius", "state"}, do_health},
	{"down", {NULL}, do_down},
	{"up", {NULL}, do_up},
	{"cut", {NULL}, do_cut},
	{"drain", {NULL}, do_drain},
	{"secure",
	 {"tls", "clientCert", "newCertificate", "userId", "accessKey", "userIdMetadata",
	  "accessKeyMetadata", "cert", "key"},
	 do_secure},
};

static void post_vipu(struct http_exchange *ex, void *arg)
{
	const char *name = http_exchange_param(ex, "action");

	for (size_t i = 0; i < sizeof(vipu_actions) / sizeof(vipu_actions[0]); i++) {
		if (strcmp(vipu_actions[i].name, name) == 0) {
			act(ex, arg, vipu_actions[i].keys, vipu_actions[i].action);
			return;
		}
	}
	http_reply_problem(ex, 404, "a controller can't be told to \"%s\"", name);
}

static void get_secure(struct http_exchange *ex, void *arg)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct request req = {.ex = ex, .admin = arg};
	struct err err;

	if (find_vipu(&req, &err) < 0)
		http_reply_err(ex, &err);
	else
		reply_json(ex, vipu_sim_secure_to_json(req.vipu, doc));
}

static void delete_vipu_faults(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_clear_vipu_faults);
}

static void delete_partition(struct http_exchange *ex, void *arg)
{
	act(ex, arg, no_keys, do_remove);
}

void sim_admin_handle(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_GET, "/sim/state", get_state},
		{HTTP_METHOD_POST, "/sim/pods", post_pods},
		{HTTP_METHOD_DELETE, "/sim/pods", delete_pods},
		{HTTP_METHOD_POST, "/sim/nodes/{name}/lose", post_lose_node},
		{HTTP_METHOD_POST, "/sim/nodes/{name}/return", post_return_node},
		{HTTP_METHOD_POST, "/sim/api/faults", post_api_fault},
		{HTTP_METHOD_DELETE, "/sim/api/faults", delete_api_faults},
		{HTTP_METHOD_POST, "/sim/api/deny", post_deny},
		{HTTP_METHOD_DELETE, "/sim/api/deny", delete_deny},
		{HTTP_METHOD_POST, "/sim/api/cut-watches", post_cut_watches},
		{HTTP_METHOD_POST, "/sim/api/compact", post_compact},
		{HTTP_METHOD_GET, "/sim/vipu/{n}/secure", get_secure},
		{HTTP_METHOD_POST, "/sim/vipu/{n}/{action}", post_vipu},
		{HTTP_METHOD_DELETE, "/sim/vipu/{n}/faults", delete_vipu_faults},
		{HTTP_METHOD_DELETE, "/sim/vipu/{n}/partitions/{id}", delete_partition},
		{HTTP_METHOD_NONE, NULL, NULL},
	};

	http_route(ex, routes, arg);
}
