/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of keys; file, environment and flags set the same fields through the same checks, each
 * with its own words for where a wrong value stands.
 */
#include "daemon/config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/str.h"
#include "core/yaml.h"
#include "http/message.h"
#include "kube/object.h"
#include "net/net.h"
#include "node/publish.h"
#include "partition/controllers.h"
#include "config_keys.h"

#define ENV_PREFIX "IPUOPERATOR_"

#define AT(field) offsetof(struct config, field)

const struct key config_keys[] = {
	{"operatorNamespace", KEY_NAMESPACE, AT(operator_ns), "", 0, 0, NULL},
	{"roles", KEY_ROLES, AT(roles), "controller,proxy", 0, 0, NULL},
	{"kubernetes.kubeconfig", KEY_TEXT, AT(kubeconfig), "", 0, 0, NULL},
	{"kubernetes.context", KEY_TEXT, AT(context), "", 0, 0, NULL},
	{"kubernetes.http2", KEY_BOOL, AT(kube_http2), "true", 0, 0, NULL},
	{"controllers", KEY_CONTROLLERS, AT(controllers), "", 0, 0, NULL},
	{"controllersFile", KEY_TEXT, AT(controllers_file), "", 0, 0, NULL},
	{"controllersConfigMap", KEY_NAME_OR_NONE, AT(controllers_config_map),
	 "ipu-operator-vipu-controllers", 0, 0, NULL},
	{"vipu.serverAddr", KEY_TEXT, AT(server_addr), "", 0, 0, NULL},
	{"vipu.serverPort", KEY_NUMBER, AT(server_port), "8090", 1, 65535, NULL},
	{"vipu.clusterName", KEY_TEXT, AT(cluster_name), "", 0, 0, NULL},
	{"vipu.userKey", KEY_METADATA, AT(user_key), VIPU_USER_KEY, 0, 0, NULL},
	{"vipu.accessKey", KEY_METADATA, AT(access_key), VIPU_ACCESS_KEY, 0, 0, NULL},
	{"vipu.callTimeoutSeconds", KEY_NUMBER, AT(call_s), "10", 1, 300, NULL},
	{"vipu.activeTimeoutSeconds", KEY_NUMBER, AT(active_s), "300", 1, 86400, NULL},
	{"vipu.removeGraceSeconds", KEY_NUMBER, AT(remove_grace_s), "30", 0, 86400, NULL},
	{"vipu.orphanAfterSeconds", KEY_NUMBER, AT(orphan_s), "600", 60, 604800, NULL},
	{"vipu.waitingRefreshSeconds", KEY_NUMBER, AT(waiting_refresh_s), "3", 1, 3600, NULL},
	{"vipu.idleRefreshSeconds", KEY_NUMBER, AT(idle_refresh_s), "30", 1, 3600, NULL},
	{"worker.hostNetwork", KEY_BOOL, AT(host_network), "true", 0, 0, NULL},
	{"worker.privileged", KEY_CHOICE, AT(privileged), "auto", 0, 0, "auto|true|false"},
	{"worker.dnsPolicy", KEY_CHOICE, AT(dns_policy), "auto", 0, 0,
	 "auto|ClusterFirstWithHostNet|ClusterFirst|Default"},
	{"worker.rdmaNetwork", KEY_NETWORK, AT(rdma_network), "", 0, 0, NULL},
	{"worker.rdmaResource", KEY_RESOURCE, AT(rdma_resource), "", 0, 0, NULL},
	{"worker.rdmaResourceCount", KEY_NUMBER, AT(rdma_amount), "1", 1, 1000, NULL},
	{"worker.ipcLock", KEY_CHOICE, AT(ipc_lock), "auto", 0, 0, "auto|true|false"},
	{"launcher.image", KEY_TEXT, AT(launcher_image), "", 0, 0, NULL},
	{"launcher.imagePullPolicy", KEY_CHOICE, AT(launcher_pull), "auto", 0, 0,
	 "auto|Always|IfNotPresent|Never"},
	{"launcher.mpiInterface", KEY_INTERFACE, AT(mpi_interface), "", 0, 0, NULL},
	{"launcher.workerTimeoutSeconds", KEY_NUMBER, AT(worker_wait_s), "300", 1, 86400, NULL},
	{"jobs.restartBackoffSeconds", KEY_NUMBER, AT(backoff_s), "10", 1, 86400, NULL},
	{"jobs.restartBackoffMaxSeconds", KEY_NUMBER, AT(backoff_max_s), "300", 1, 86400, NULL},
	{"jobs.startDeadlineSeconds", KEY_NUMBER, AT(start_deadline_s), "900", 1, 604800, NULL},
	{"jobs.unreachableNodeSeconds", KEY_NUMBER, AT(unreachable_s), "60", 0, 604800, NULL},
	{"jobs.ranksEndSeconds", KEY_NUMBER, AT(ranks_end_s), "105", 0, 3600, NULL},
	{"queue.choice", KEY_CHOICE, AT(choice), "firstFit", 0, 0, "firstFit|bestFit"},
	{"policy.maxIpus", KEY_NUMBER, AT(max_ipus), "-1", -1, PARTITION_POLICY_MAX, NULL},
	{"policy.maxJobIpus", KEY_NUMBER, AT(max_job_ipus), "-1", -1, PARTITION_POLICY_MAX, NULL},
	{"policy.maxDeadlineSeconds", KEY_NUMBER, AT(max_deadline_s), "-1", -1,
	 PARTITION_POLICY_MAX, NULL},
	{"policy.defaultDeadlineSeconds", KEY_NUMBER, AT(default_deadline_s), "-1", -1,
	 PARTITION_POLICY_MAX, NULL},
	{"policy.maxInteractiveSeconds", KEY_NUMBER, AT(max_interactive_s), "-1", -1,
	 PARTITION_POLICY_MAX, NULL},
	{"policy.namespaces", KEY_POLICIES, AT(policy), "", 0, 0, NULL},
	{"partitions.heedNodes", KEY_BOOL, AT(heed_nodes), "true", 0, 0, NULL},
	{"tracker.configMap", KEY_NAME, AT(tracker), "ipu-partitions-tracker", 0, 0, NULL},
	{"leaderElection.enabled", KEY_BOOL, AT(lease_enabled), "true", 0, 0, NULL},
	{"leaderElection.name", KEY_NAME, AT(lease_prefix), "ipu-operator", 0, 0, NULL},
	{"leaderElection.identity", KEY_TEXT, AT(lease_identity), "", 0, 0, NULL},
	{"proxy.listen", KEY_ADDRESS, AT(proxy_listen), ":8080", 0, 0, NULL},
	{"proxy.details", KEY_BOOL, AT(proxy_details), "true", 0, 0, NULL},
	{"proxy.page", KEY_CHOICE, AT(proxy_page), "usage", 0, 0, "off|usage|full"},
	{"proxy.tlsListen", KEY_ADDRESS, AT(proxy_tls_listen), ":8445", 0, 0, NULL},
	{"proxy.tlsCertFile", KEY_TEXT, AT(proxy_cert), "", 0, 0, NULL},
	{"proxy.tlsKeyFile", KEY_TEXT, AT(proxy_key), "", 0, 0, NULL},
	{"proxy.controllerAccounts", KEY_TEXT, AT(proxy_accounts), "", 0, 0, NULL},
	{"proxy.advertise", KEY_PEER, AT(advertise), "", 0, 0, NULL},
	{"proxy.url", KEY_URL, AT(proxy_url), "", 0, 0, NULL},
	{"proxy.tokenFile", KEY_TEXT, AT(proxy_token), "/var/run/secrets/ipu-operator/token", 0, 0,
	 NULL},
	{"proxy.caFile", KEY_TEXT, AT(proxy_ca), "", 0, 0, NULL},
	{"certificates.secret", KEY_NAME, AT(certificate_secret), "ipu-operator-certificates", 0, 0,
	 NULL},
	{"certificates.names", KEY_TEXT, AT(certificate_names), "", 0, 0, NULL},
	{"proxy.readTimeoutSeconds", KEY_NUMBER, AT(proxy_read_s), "30", 1, 3600, NULL},
	{"proxy.writeTimeoutSeconds", KEY_NUMBER, AT(proxy_write_s), "300", 1, 3600, NULL},
	{"proxy.idleTimeoutSeconds", KEY_NUMBER, AT(proxy_idle_s), "60", 1, 3600, NULL},
	{"pods.mode", KEY_CHOICE, AT(pods_mode), "gate", 0, 0, "gate|init"},
	{"pods.proxyUrl", KEY_HTTPS, AT(pods_proxy_url), "", 0, 0, NULL},
	{"pods.waitSeconds", KEY_NUMBER, AT(pods_wait_s), "0", 0, 31622400, NULL},
	{"webhook.listen", KEY_ADDRESS, AT(webhook_listen), ":8443", 0, 0, NULL},
	{"webhook.certFile", KEY_TEXT, AT(webhook_cert), "", 0, 0, NULL},
	{"webhook.keyFile", KEY_TEXT, AT(webhook_key), "", 0, 0, NULL},
	{"webhook.caFile", KEY_TEXT, AT(webhook_ca), "", 0, 0, NULL},
	{"webhook.mutatingConfiguration", KEY_NAME, AT(webhook_mutating),
	 "ipu-operator-mutating-webhook-configuration", 0, 0, NULL},
	{"webhook.validatingConfiguration", KEY_NAME, AT(webhook_validating),
	 "ipu-operator-validating-webhook-configuration", 0, 0, NULL},
	{"webhook.url", KEY_HTTPS, AT(webhook_url), "", 0, 0, NULL},
	{"webhook.scope", KEY_NAMESPACES, AT(webhook_scope), "", 0, 0, NULL},
	{"webhook.failurePolicy", KEY_CHOICE, AT(webhook_failure_policy), "Fail", 0, 0,
	 "Fail|Ignore"},
	{"webhook.timeoutSeconds", KEY_NUMBER, AT(webhook_timeout_s), "30", 1, 30, NULL},
	{"webhook.drainSeconds", KEY_NUMBER, AT(webhook_drain_s), "3", 0, 300, NULL},
	{"advertise.ipus", KEY_CHOICE, AT(advertise_ipus), "none", 0, 0, "none|whole|share"},
	{"advertise.onControlPlane", KEY_BOOL, AT(advertise_on_control_plane), "false", 0, 0, NULL},
	{"scheduler.listen", KEY_ADDRESS, AT(scheduler_listen), "", 0, 0, NULL},
	{"scheduler.clientCAFile", KEY_TEXT, AT(scheduler_client_ca), "", 0, 0, NULL},
	{"scheduler.clientNames", KEY_TEXT, AT(scheduler_client_names), "", 0, 0, NULL},
	{"scheduler.requestBodyBytes", KEY_NUMBER, AT(scheduler_body_bytes), "2097152", 65536,
	 67108864, NULL},
	{"health.listen", KEY_ADDRESS, AT(health_listen), ":8081", 0, 0, NULL},
	{"health.stuckSeconds", KEY_NUMBER, AT(stuck_s), "600", 1, 86400, NULL},
	{"metrics.listen", KEY_ADDRESS, AT(metrics_listen), "127.0.0.1:8444", 0, 0, NULL},
	{"metrics.secure", KEY_BOOL, AT(metrics_secure), "false", 0, 0, NULL},
	{"metrics.certFile", KEY_TEXT, AT(metrics_cert), "", 0, 0, NULL},
	{"metrics.keyFile", KEY_TEXT, AT(metrics_key), "", 0, 0, NULL},
	{"log.level", KEY_NUMBER, AT(log_level), "4", 1, 6, NULL},
	{"log.format", KEY_CHOICE, AT(log_format), "auto", 0, 0, "auto|text|json|journald"},
	{"log.slowTurnMilliseconds", KEY_NUMBER, AT(slow_turn_ms), "100", 0, 60000, NULL},
	{"webhook.dryRunPods", KEY_BOOL, AT(dry_run_pods), "true", 0, 0, NULL},
	{"templates.hostPaths", KEY_FOLDERS, AT(template_paths), "*", 0, 0, NULL},
	{"templates.privileged", KEY_BOOL, AT(template_privileged), "true", 0, 0, NULL},
	{"templates.serviceAccounts", KEY_ACCOUNTS, AT(template_accounts), "*", 0, 0, NULL},
	{"templates.nodeNames", KEY_BOOL, AT(template_nodes), "true", 0, 0, NULL},
	{"node.name", KEY_NAME_OR_NONE, AT(node_name), "", 0, 0, NULL},
	{"node.rdma", KEY_CHOICE, AT(node_rdma), "route", 0, 0, "route|any|none"},
	{"node.labels", KEY_BOOL, AT(node_labels), "true", 0, 0, NULL},
	{"node.taint", KEY_LABEL_OR_NONE, AT(node_taint), PUBLISH_TAINT, 0, 0, NULL},
	{"node.calmSeconds", KEY_NUMBER, AT(node_calm_s), "10", 0, 3600, NULL},
	{"node.silentSeconds", KEY_NUMBER, AT(node_silent_s), "900", 0, 86400, NULL},
	{"node.root", KEY_TEXT, AT(node_root), "", 0, 0, NULL},
	{"node.cniFolder", KEY_TEXT, AT(node_cni), "", 0, 0, NULL},
	{"seccomp", KEY_CHOICE, AT(seccomp), "enforce", 0, 0, "enforce|log|off"},
	{"stopSeconds", KEY_NUMBER, AT(stop_s), "0", 0, 300, NULL},
	{"limits.connections", KEY_NUMBER, AT(connections), "1024", 1, 65536, NULL},
	{"limits.requestHeaderBytes", KEY_NUMBER, AT(header_bytes), "16384", 1024, 1048576, NULL},
	{"limits.requestBodyBytes", KEY_NUMBER, AT(body_bytes), "65536", 1024, 16777216, NULL},
};
#define N_KEYS (sizeof(config_keys) / sizeof(config_keys[0]))
const size_t config_n_keys = N_KEYS;

static const struct key *find_key(struct str name)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		if (str_eqz(name, config_keys[i].name))
			return &config_keys[i];
	}
	return NULL;
}

/* ---- one value, as text ---- */

static int set_choice(struct config *c, const struct key *key, struct str text, struct err *err)
{
	struct str rest = str_of(key->choices), choice;
	char words[160];
	size_t len = 0;

	while (rest.len) {
		str_cut(rest, '|', &choice, &rest);
		if (str_eq(text, choice)) {
			char **at = config_field(c, key);

			free(*at);
			*at = str_dup(text);
			return 0;
		}
		len += (size_t)snprintf(words + len, sizeof(words) - len, "%s%.*s", len ? ", " : "",
					STR_ARG(choice));
	}
	return err_set(err, ERR_INVALID, 0, "%s: must be one of %s", key->name, words);
}

static int set_text(struct config *c, const struct key *key, struct str text, struct err *err)
{
	char **at = config_field(c, key);

	if (config_check_text(key, text, err) < 0)
		return -1;
	free(*at);
	*at = str_dup(text);
	return 0;
}

/* A host alone, such as a Pod's address of either family, gets the port. */
static int set_peer(struct config *c, const struct key *key, struct str text, struct err *err)
{
	char **at = config_field(c, key), host[NET_HOST_SIZE];
	uint16_t port;

	if (set_text(c, key, text, err) < 0)
		return -1;
	if (text.len && net_split_host_port(*at, CONFIG_PEER_PORT, host, &port, NULL) == 0) {
		free(*at);
		*at = xasprintf(strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	}
	return 0;
}

static int set_number(struct config *c, const struct key *key, struct str text, struct err *err)
{
	int64_t n;

	if (str_to_int(text, key->min, key->max, &n, NULL) < 0)
		return err_set(err, ERR_INVALID, 0, "%s: must be from %ld to %ld", key->name,
			       key->min, key->max);
	*(long *)config_field(c, key) = (long)n;
	return 0;
}

static int set_bool(struct config *c, const struct key *key, struct str text, struct err *err)
{
	if (!str_eqz(text, "true") && !str_eqz(text, "false"))
		return err_set(err, ERR_INVALID, 0, "%s: must be true or false", key->name);
	*(bool *)config_field(c, key) = str_eqz(text, "true");
	return 0;
}

static int add_role(struct config *c, struct str name, struct err *err)
{
	if (str_eqz(name, "controller"))
		c->roles |= ROLE_CONTROLLER;
	else if (str_eqz(name, "proxy"))
		c->roles |= ROLE_PROXY;
	else if (str_eqz(name, "webhook"))
		c->roles |= ROLE_WEBHOOK;
	else if (str_eqz(name, "node"))
		c->roles |= ROLE_NODE;
	else
		return err_set(err, ERR_INVALID, 0,
			       "roles: \"%.*s\" isn't a role, only controller, proxy, webhook and "
			       "node are",
			       STR_ARG(name));
	return 0;
}

static int set_roles(struct config *c, struct str text, struct err *err)
{
	struct str name;

	c->roles = 0;
	do {
		str_cut(text, ',', &name, &text);
		if (add_role(c, str_trim(name), err) < 0)
			return -1;
	} while (text.len);
	return 0;
}

static int check_controllers(const struct vipu_address_list *list, struct err *err)
{
	if (list->n_problems > 0)
		return err_set(err, ERR_INVALID, 0, "controllers: \"%s\": %s",
			       list->problems[0].text, list->problems[0].reason);
	for (size_t i = 0; i < list->n; i++) {
		if (controllers_check_entry(&list->items[i], err) < 0)
			return err_wrap(err, "controllers: %s", list->items[i].name);
	}
	return 0;
}

static int set_controllers_text(struct config *c, struct str text, struct err *err)
{
	vipu_address_list_done(&c->controllers);
	vipu_address_parse(text, &c->controllers);
	if (str_trim(text).len && c->controllers.n == 0 && c->controllers.n_problems == 0)
		return err_set(
			err, ERR_INVALID, 0,
			"controllers: \"%.*s\": no controller is in it: HOST:PORT:LABEL=VALUE, "
			"with commas between several",
			STR_ARG(text));
	return check_controllers(&c->controllers, err);
}

static int set_by_text(struct config *c, const struct key *key, struct str text, struct err *err)
{
	switch (key->type) {
	case KEY_NUMBER:
		return set_number(c, key, text, err);
	case KEY_BOOL:
		return set_bool(c, key, text, err);
	case KEY_CHOICE:
		return set_choice(c, key, text, err);
	case KEY_ROLES:
		return set_roles(c, text, err);
	case KEY_CONTROLLERS:
		return set_controllers_text(c, text, err);
	case KEY_POLICIES:
		return text.len
			       ? err_set(err, ERR_INVALID, 0,
					 "%s: it's a map, and only the file can hold it", key->name)
			       : 0;
	case KEY_PEER:
		return set_peer(c, key, text, err);
	case KEY_TEXT:
	case KEY_NAMESPACE:
	case KEY_NAME:
	case KEY_NAME_OR_NONE:
	case KEY_LABEL_OR_NONE:
	case KEY_METADATA:
	case KEY_ADDRESS:
	case KEY_URL:
	case KEY_HTTPS:
	case KEY_NAMESPACES:
	case KEY_INTERFACE:
	case KEY_NETWORK:
	case KEY_RESOURCE:
	case KEY_FOLDERS:
	case KEY_ACCOUNTS:
		break;
	}
	return set_text(c, key, text, err);
}

/* ---- the file ---- */

/* Which entry of a list a message is about, as the end of a JSON pointer. */
#define PLACE_SIZE 128

static void set_place(char ret_place[PLACE_SIZE], size_t index)
{
	snprintf(ret_place, PLACE_SIZE, "/%zu", index);
}

static int set_roles_list(struct config *c, const struct json *v, char ret_place[PLACE_SIZE],
			  struct err *err)
{
	struct json_iter it = json_iter(v);

	c->roles = 0;
	while (json_next(&it)) {
		if (add_role(c, json_str(it.value), err) < 0) {
			set_place(ret_place, it.index);
			return -1;
		}
	}
	return c->roles ? 0 : err_set(err, ERR_INVALID, 0, "roles: must name at least one role");
}

static int set_controllers_list(struct config *c, const struct json *v, char ret_place[PLACE_SIZE],
				struct err *err)
{
	vipu_address_list_done(&c->controllers);
	vipu_address_from_json(v, &c->controllers);
	if (c->controllers.n_problems > 0 && c->controllers.problems[0].entry > 0)
		set_place(ret_place, c->controllers.problems[0].entry - 1);
	return check_controllers(&c->controllers, err);
}

static int set_limit(struct partition_policy *p, struct str name, const struct json *v,
		     struct err *err)
{
	int64_t n = json_int(v, PARTITION_UNSET);
	int64_t *at = str_eqz(name, "maxIpus")                  ? &p->max_ipus
		      : str_eqz(name, "maxJobIpus")             ? &p->max_job_ipus
		      : str_eqz(name, "maxDeadlineSeconds")     ? &p->max_deadline_s
		      : str_eqz(name, "defaultDeadlineSeconds") ? &p->default_deadline_s
		      : str_eqz(name, "maxInteractiveSeconds")  ? &p->max_interactive_s
								: NULL;

	if (!at)
		return err_set(err, ERR_INVALID, 0, "policy.namespaces: there is no such key");
	if (json_type(v) != JSON_INT || n < PARTITION_UNLIMITED || n > PARTITION_POLICY_MAX)
		return err_set(err, ERR_INVALID, 0, "%.*s: must be from -1 to %d", STR_ARG(name),
			       PARTITION_POLICY_MAX);
	*at = n;
	return 0;
}

static int set_policies(struct config *c, const struct json *v, char ret_place[PLACE_SIZE],
			struct err *err)
{
	struct json_iter it = json_iter(v);

	partition_rules_done(&c->policy);
	c->policy.named = xcalloc(json_len(v) + 1, sizeof(*c->policy.named));
	while (json_next(&it)) {
		struct partition_policy_of_ns *at = &c->policy.named[c->policy.n];
		struct json_iter limits = json_iter(it.value);

		snprintf(ret_place, PLACE_SIZE, "/%.*s", STR_ARG(it.key));
		if (kube_check_name("policy.namespaces", it.key, false, err) < 0)
			return -1;
		if (json_type(it.value) != JSON_OBJECT)
			return err_set(err, ERR_INVALID, 0,
				       "policy.namespaces: must be a map of limits, not %s",
				       json_type_name(json_type(it.value)));
		at->ns = str_dup(it.key);
		at->policy = partition_policy_unset;
		c->policy.n++;
		while (json_next(&limits)) {
			if (set_limit(&at->policy, limits.key, limits.value, err) == 0)
				continue;
			snprintf(ret_place, PLACE_SIZE, "/%.*s/%.*s", STR_ARG(it.key),
				 STR_ARG(limits.key));
			return -1;
		}
	}
	return 0;
}

/* The value of a key as the file has it: its type counts, a quoted number is no number. */
static int set_by_json(struct config *c, const struct key *key, const struct json *v,
		       char ret_place[PLACE_SIZE], struct err *err)
{
	enum json_type type = json_type(v);
	char z[32];

	if (key->type == KEY_CONTROLLERS)
		return set_controllers_list(c, v, ret_place, err);
	if (key->type == KEY_POLICIES && type == JSON_OBJECT)
		return set_policies(c, v, ret_place, err);
	if (key->type == KEY_ROLES && type == JSON_ARRAY)
		return set_roles_list(c, v, ret_place, err);
	if (key->type == KEY_NUMBER && type == JSON_INT) {
		snprintf(z, sizeof(z), "%" PRId64, json_int(v, 0));
		return set_by_text(c, key, str_of(z), err);
	}
	if ((key->type == KEY_BOOL || key->type == KEY_CHOICE) && type == JSON_BOOL)
		return set_by_text(c, key, str_of(json_bool(v, false) ? "true" : "false"), err);
	if (type == JSON_STRING && key->type != KEY_NUMBER && key->type != KEY_BOOL)
		return set_by_text(c, key, json_str(v), err);
	return err_set(err, ERR_INVALID, 0, "%s: must be %s, not %s", key->name,
		       key->type == KEY_NUMBER     ? "a whole number"
		       : key->type == KEY_BOOL     ? "true or false"
		       : key->type == KEY_ROLES    ? "a list of roles"
		       : key->type == KEY_POLICIES ? "a map of namespaces"
						   : "a string",
		       type == JSON_REAL ? "one with a fraction" : json_type_name(type));
}

static bool is_section(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < N_KEYS; i++) {
		if (strncmp(config_keys[i].name, name, len) == 0 && config_keys[i].name[len] == '.')
			return true;
	}
	return false;
}

/* Puts the place in the file before the message that is in err. */
static int at_place(const struct yaml *y, const char *pointer, struct err *err)
{
	struct err what = *err;

	return yaml_error(y, 0, pointer, err, "%s", what.msg);
}

static int read_object(struct config *c, const struct yaml *y, const struct json *obj,
		       const char *prefix, const char *pointer, struct err *err)
{
	struct json_iter it = json_iter(obj);

	while (json_next(&it)) {
		CLEANUP_FREE char *name = xasprintf("%s%.*s", prefix, STR_ARG(it.key));
		CLEANUP_FREE char *at = xasprintf("%s/%.*s", pointer, STR_ARG(it.key));
		CLEANUP_FREE char *inner = xasprintf("%s.", name);
		const struct key *key = find_key(str_of(name));
		char place[PLACE_SIZE] = "";

		if (!key && !is_section(name))
			return yaml_key_error(y, 0, at, err, "%s: there is no such key", name);
		if (key && set_by_json(c, key, it.value, place, err) < 0) {
			CLEANUP_FREE char *whole = xasprintf("%s%s", at, place);

			return at_place(y, whole, err);
		}
		if (key)
			continue;
		if (json_type(it.value) != JSON_OBJECT && json_type(it.value) != JSON_NULL)
			return yaml_error(y, 0, at, err, "%s: must be a map of keys, not %s", name,
					  json_type_name(json_type(it.value)));
		if (read_object(c, y, it.value, inner, at, err) < 0)
			return -1;
	}
	return 0;
}

static int read_file(struct config *c, const char *path, bool may_be_absent, struct err *err)
{
	CLEANUP_YAML struct yaml *y = NULL;
	const struct json *root;
	struct err why;

	if (yaml_load(path, &y, &why) < 0) {
		if (may_be_absent && why.kind == ERR_NOT_FOUND)
			return 0;
		return err_copy(err, &why);
	}
	if (yaml_len(y) == 0)
		return 0;
	if (yaml_len(y) > 1)
		return yaml_error(y, 1, "", err, "the configuration is one document, not several");
	root = yaml_doc(y, 0);
	if (json_type(root) != JSON_OBJECT)
		return yaml_error(y, 0, "", err, "the configuration must be a map of keys, not %s",
				  json_type_name(json_type(root)));
	return read_object(c, y, root, "", "", err);
}

/* ---- environment and flags ---- */

/* proxy.listen → PROXY_LISTEN, operatorNamespace → OPERATOR_NAMESPACE, clientCAFile →
 * CLIENT_CA_FILE */
static void env_name(const char *name, char ret_z[64])
{
	bool upper = true;
	size_t len = 0;

	for (; *name && len + 2 < 64; name++) {
		bool was = upper;

		upper = isupper((unsigned char)*name);
		if (upper && (!was || islower((unsigned char)name[1])) && len &&
		    ret_z[len - 1] != '_')
			ret_z[len++] = '_';
		ret_z[len++] = (char)(*name == '.' ? '_' : toupper((unsigned char)*name));
	}
	ret_z[len] = '\0';
}

static int read_environment(struct config *c, char *const *environ_, struct err *err)
{
	for (; environ_ && *environ_; environ_++) {
		struct str name, value;
		const struct key *key = NULL;

		if (strncmp(*environ_, ENV_PREFIX, strlen(ENV_PREFIX)) != 0)
			continue;
		str_cut(str_of(*environ_ + strlen(ENV_PREFIX)), '=', &name, &value);
		for (size_t i = 0; i < N_KEYS && !key; i++) {
			char z[64];

			env_name(config_keys[i].name, z);
			if (str_eqz(name, z))
				key = &config_keys[i];
		}
		if (!key)
			return err_set(err, ERR_INVALID, 0,
				       "environment: " ENV_PREFIX "%.*s stands for no key",
				       STR_ARG(name));
		if (set_by_text(c, key, value, err) < 0)
			return err_wrap(err, "environment: " ENV_PREFIX "%.*s", STR_ARG(name));
	}
	return 0;
}

static int read_flags(struct config *c, const char *const *sets, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct str name, value;
		const struct key *key;

		if (!str_cut(str_of(sets[i]), '=', &name, &value))
			return err_set(err, ERR_INVALID, 0, "--set %s: must be KEY=VALUE", sets[i]);
		key = find_key(name);
		if (!key)
			return err_set(err, ERR_INVALID, 0, "--set %s: there is no such key",
				       sets[i]);
		if (set_by_text(c, key, value, err) < 0)
			return err_wrap(err, "--set %s", sets[i]);
	}
	return 0;
}

/* vipu.serverAddr, vipu.serverPort and vipu.clusterName are one more entry. */
static int make_server(struct config *c, struct err *err)
{
	const char *addr = c->server_addr;
	bool bare_v6 = addr[0] != '[' && strchr(addr, ':');
	CLEANUP_FREE char *text = xasprintf(bare_v6 ? "[%s]:%ld" : "%s:%ld", addr, c->server_port);
	struct vipu_address *a;

	if (!addr[0] && c->cluster_name[0])
		return err_set(
			err, ERR_INVALID, 0,
			"vipu.clusterName: says something of vipu.serverAddr, which is empty");
	if (!addr[0])
		return 0;
	if (strpbrk(addr, ",="))
		return err_set(err, ERR_INVALID, 0,
			       "vipu.serverAddr: must be one host name or address; lists stand in "
			       "controllers");
	vipu_address_parse(str_of(text), &c->server);
	if (c->server.n != 1)
		return err_set(err, ERR_INVALID, 0, "vipu.serverAddr: \"%.100s\": %s", addr,
			       c->server.n_problems ? c->server.problems[0].reason
						    : "must be a host name or address");
	a = &c->server.items[0];
	free(a->cluster);
	a->cluster = xstrdup(c->cluster_name);
	return 0;
}

/* What the Pods' own init container needs to know. */
static int check_pods(const struct config *c, struct err *err)
{
	if (!(c->roles & ROLE_WEBHOOK) || strcmp(c->pods_mode, "init") != 0)
		return 0;
	if (!c->launcher_image[0])
		return err_set(err, ERR_INVALID, 0,
			       "pods.mode: init needs launcher.image, which holds ipu-launcher");
	if (c->proxy_cert[0] && !c->proxy_ca[0])
		return err_set(err, ERR_INVALID, 0,
			       "pods.mode: init needs proxy.caFile beside proxy.tlsCertFile: Pods "
			       "must know whom to trust");
	return 0;
}

/* A certificate and its key come together. */
static int check_files(const struct config *c, struct err *err)
{
	if (!c->proxy_cert[0] != !c->proxy_key[0])
		return err_set(err, ERR_INVALID, 0,
			       "proxy.tlsCertFile and proxy.tlsKeyFile: give both, or neither");
	if (!c->webhook_cert[0] != !c->webhook_key[0] || (c->webhook_ca[0] && !c->webhook_cert[0]))
		return err_set(err, ERR_INVALID, 0,
			       "webhook.certFile and webhook.keyFile: give both, or neither; "
			       "webhook.caFile only with them");
	if (!c->metrics_cert[0] != !c->metrics_key[0] || (c->metrics_cert[0] && !c->metrics_secure))
		return err_set(err, ERR_INVALID, 0,
			       "metrics.certFile and metrics.keyFile: give both, or neither, and "
			       "only with metrics.secure");
	return 0;
}

/* Nobody is to believe that the port is guarded where it isn't. */
static int check_scheduler(const struct config *c, struct err *err)
{
	if (c->scheduler_client_names[0] && !c->scheduler_client_ca[0])
		return err_set(err, ERR_INVALID, 0,
			       "scheduler.clientNames: are of certificates: give "
			       "scheduler.clientCAFile, which they must be signed by");
	if (c->scheduler_client_names[0] &&
	    strspn(c->scheduler_client_names, ", \t") == strlen(c->scheduler_client_names))
		return err_set(err, ERR_INVALID, 0,
			       "scheduler.clientNames: must be names with commas between them");
	return 0;
}

static int check_node(const struct config *c, struct err *err)
{
	if (!(c->roles & ROLE_NODE))
		return 0;
	if (c->node_root[0] && c->node_root[0] != '/')
		return err_set(err, ERR_INVALID, 0,
			       "node.root: must be an absolute path, or \"\" for none");
	if (c->node_cni[0] && c->node_cni[0] != '/')
		return err_set(err, ERR_INVALID, 0,
			       "node.cniFolder: must be an absolute path, or \"\": it's found");
	return 0;
}

void config_make_fallback(struct config *c)
{
	c->policy.fallback = (struct partition_policy){c->max_ipus, c->max_job_ipus,
						       c->max_deadline_s, c->default_deadline_s,
						       c->max_interactive_s};
}

int config_load(const char *path, const char *const *sets, size_t n_sets, char *const *environ_,
		struct config *ret, struct err *err)
{
	struct config c = {0};

	for (size_t i = 0; i < N_KEYS; i++) {
		if (set_by_text(&c, &config_keys[i], str_of(config_keys[i].text), err) < 0)
			goto fail;
	}
	if (read_file(&c, path ? path : CONFIG_PATH, !path, err) < 0 ||
	    read_environment(&c, environ_, err) < 0 || read_flags(&c, sets, n_sets, err) < 0 ||
	    make_server(&c, err) < 0 || check_pods(&c, err) < 0)
		goto fail;
	if (check_files(&c, err) < 0 || check_scheduler(&c, err) < 0 || check_node(&c, err) < 0)
		goto fail;
	if (c.backoff_max_s < c.backoff_s) {
		err_set(err, ERR_INVALID, 0,
			"jobs.restartBackoffMaxSeconds: must not be below "
			"jobs.restartBackoffSeconds");
		goto fail;
	}
	config_make_fallback(&c);
	*ret = c;
	return 0;
fail:
	config_done(&c);
	return -1;
}

void config_done(struct config *c)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		if (config_key_is_text(&config_keys[i]))
			free(*(char **)config_field(c, &config_keys[i]));
	}
	vipu_address_list_done(&c->server);
	vipu_address_list_done(&c->controllers);
	partition_rules_done(&c->policy);
	*c = (struct config){0};
}
