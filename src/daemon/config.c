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

/* ---- what is wrong ---- */

struct reader {
	struct config *c;
	const struct yaml *y; /* the file; NULL: not there, or behind it */
	config_fault_fn *tell;
	void *arg;
	struct err *err; /* the first fault */
	size_t n_faults;
};

static void fault(struct reader *r, const struct err *why)
{
	if (r->n_faults++ == 0)
		err_copy(r->err, why);
	if (r->tell)
		r->tell(r->arg, why->msg);
}

/* The same of a value in the file. */
static void fault_at(struct reader *r, const char *pointer, const struct err *why)
{
	struct err err = *why;

	yaml_error(r->y, 0, pointer, &err, "%s", why->msg);
	fault(r, &err);
}

/* The place in the file of a member or an element. */
static char *place_in(const char *pointer, struct str key)
{
	struct buf b = BUF_INIT(SIZE_MAX);

	buf_append_str(&b, str_of(pointer), NULL);
	json_pointer_append(&b, key, NULL);
	return buf_steal(&b, NULL);
}

static char *place_of(const char *pointer, size_t index)
{
	return xasprintf("%s/%zu", pointer, index);
}

static const struct key *find_key(struct str name)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		if (str_eqz(name, config_keys[i].name))
			return &config_keys[i];
	}
	return NULL;
}

/* What stands behind the name of a key that there isn't: which was meant, or which section. */
static int no_such_key(struct err *err, struct str name)
{
	struct str near = STR_NULL, rest;

	for (size_t i = 0; i < 2 * N_KEYS; i++) {
		struct str one = str_of(config_keys[i / 2].name);

		if (i % 2)
			str_cut(one, '.', &one, &rest);
		str_meant(name, one, &near);
	}
	return err_set(err, ERR_INVALID, 0, "there is no such key%s%.*s%s",
		       near.len ? ": did you mean " : "", STR_ARG(near), near.len ? "?" : "");
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

static int controllers_problem(const struct vipu_address_problem *p, struct err *err)
{
	return err_set(err, ERR_INVALID, 0, "controllers: \"%s\": %s", p->text, p->reason);
}

static int check_controller(const struct vipu_address *a, struct err *err)
{
	return controllers_check_entry(a, err) < 0 ? err_wrap(err, "controllers: %s", a->name) : 0;
}

static int check_controllers(const struct vipu_address_list *list, struct err *err)
{
	if (list->n_problems > 0)
		return controllers_problem(&list->problems[0], err);
	for (size_t i = 0; i < list->n; i++) {
		if (check_controller(&list->items[i], err) < 0)
			return -1;
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

/* Each is told at its own place. */
static void read_roles(struct reader *r, const struct json *v, const char *at)
{
	struct json_iter it = json_iter(v);
	struct err err = ERR_INIT;

	r->c->roles = 0;
	while (json_next(&it)) {
		CLEANUP_FREE char *place = place_of(at, it.index);

		if (add_role(r->c, json_str(it.value), &err) < 0)
			fault_at(r, place, &err);
	}
	if (json_len(v) == 0) {
		err_set(&err, ERR_INVALID, 0, "roles: must name at least one role");
		fault_at(r, at, &err);
	}
}

static void read_controllers(struct reader *r, const struct json *v, const char *at)
{
	struct vipu_address_list *list = &r->c->controllers;
	struct err err = ERR_INIT;

	vipu_address_list_done(list);
	vipu_address_from_json(v, list);
	for (size_t i = 0; i < list->n_problems; i++) {
		size_t entry = list->problems[i].entry; /* 0: in no list */
		CLEANUP_FREE char *place = entry ? place_of(at, entry - 1) : xstrdup(at);

		controllers_problem(&list->problems[i], &err);
		fault_at(r, place, &err);
	}
	for (size_t i = 0; i < list->n; i++) {
		if (check_controller(&list->items[i], &err) < 0)
			fault_at(r, at, &err);
	}
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

static void read_policy(struct reader *r, struct str ns, const struct json *limits, const char *at)
{
	struct partition_rules *rules = &r->c->policy;
	struct json_iter it = json_iter(limits);
	struct err err = ERR_INIT;

	if (kube_check_name("policy.namespaces", ns, false, &err) < 0) {
		fault_at(r, at, &err);
		return;
	}
	if (json_type(limits) != JSON_OBJECT) {
		err_set(&err, ERR_INVALID, 0, "policy.namespaces: must be a map of limits, not %s",
			json_type_name(json_type(limits)));
		fault_at(r, at, &err);
		return;
	}
	rules->named[rules->n] = (struct partition_policy_of_ns){.ns = str_dup(ns),
								 .policy = partition_policy_unset};
	while (json_next(&it)) {
		CLEANUP_FREE char *place = place_in(at, it.key);

		if (set_limit(&rules->named[rules->n].policy, it.key, it.value, &err) < 0)
			fault_at(r, place, &err);
	}
	rules->n++;
}

static void read_policies(struct reader *r, const struct json *v, const char *at)
{
	struct json_iter it = json_iter(v);

	partition_rules_done(&r->c->policy);
	r->c->policy.named = xcalloc(json_len(v) + 1, sizeof(*r->c->policy.named));
	while (json_next(&it)) {
		CLEANUP_FREE char *place = place_in(at, it.key);

		read_policy(r, it.key, it.value, place);
	}
}

/* The value of a key as the file has it: its type counts, a quoted number is no number. */
static int set_by_json(struct config *c, const struct key *key, const struct json *v,
		       struct err *err)
{
	enum json_type type = json_type(v);
	char z[32];

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

static void read_key(struct reader *r, const struct key *key, const struct json *v, const char *at)
{
	struct err err = ERR_INIT;

	if (key->type == KEY_CONTROLLERS)
		read_controllers(r, v, at);
	else if (key->type == KEY_POLICIES && json_type(v) == JSON_OBJECT)
		read_policies(r, v, at);
	else if (key->type == KEY_ROLES && json_type(v) == JSON_ARRAY)
		read_roles(r, v, at);
	else if (set_by_json(r->c, key, v, &err) < 0)
		fault_at(r, at, &err);
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

static void read_object(struct reader *r, const struct json *obj, const char *prefix,
			const char *pointer)
{
	struct json_iter it = json_iter(obj);
	struct err err = ERR_INIT;

	while (json_next(&it)) {
		CLEANUP_FREE char *name = xasprintf("%s%.*s", prefix, STR_ARG(it.key));
		CLEANUP_FREE char *at = place_in(pointer, it.key);
		CLEANUP_FREE char *inner = xasprintf("%s.", name);
		const struct key *key = find_key(str_of(name));
		enum json_type type = json_type(it.value);

		if (key) {
			read_key(r, key, it.value, at);
		} else if (!is_section(name)) {
			struct err why = ERR_INIT;

			no_such_key(&why, str_of(name));
			yaml_key_error(r->y, 0, at, &err, "%s: %s", name, why.msg);
			fault(r, &err);
		} else if (type == JSON_OBJECT || type == JSON_NULL) {
			read_object(r, it.value, inner, at);
		} else {
			err_set(&err, ERR_INVALID, 0, "%s: must be a map of keys, not %s", name,
				json_type_name(type));
			fault_at(r, at, &err);
		}
	}
}

static void read_documents(struct reader *r)
{
	const struct json *root = yaml_doc(r->y, 0);
	struct err err = ERR_INIT;

	if (yaml_len(r->y) > 1) {
		yaml_error(r->y, 1, "", &err, "the configuration is one document, not several");
		fault(r, &err);
	} else if (root && json_type(root) != JSON_OBJECT) {
		yaml_error(r->y, 0, "", &err, "the configuration must be a map of keys, not %s",
			   json_type_name(json_type(root)));
		fault(r, &err);
	} else {
		read_object(r, root, "", "");
	}
}

static void read_file(struct reader *r, const char *path, bool may_be_absent)
{
	CLEANUP_YAML struct yaml *y = NULL;
	struct err err = ERR_INIT;

	if (yaml_load(path, &y, &err) < 0) {
		if (!may_be_absent || err.kind != ERR_NOT_FOUND)
			fault(r, &err);
		return;
	}
	r->y = y;
	read_documents(r);
	r->y = NULL;
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

static const struct key *key_of_variable(struct str name)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		char z[64];

		env_name(config_keys[i].name, z);
		if (str_eqz(name, z))
			return &config_keys[i];
	}
	return NULL;
}

static void read_environment(struct reader *r, char *const *environ_)
{
	for (; environ_ && *environ_; environ_++) {
		struct err err = ERR_INIT;
		struct str name, value;
		const struct key *key;

		if (strncmp(*environ_, ENV_PREFIX, strlen(ENV_PREFIX)) != 0)
			continue;
		str_cut(str_of(*environ_ + strlen(ENV_PREFIX)), '=', &name, &value);
		key = key_of_variable(name);
		if (!key)
			err_set(&err, ERR_INVALID, 0,
				"environment: " ENV_PREFIX "%.*s stands for no key", STR_ARG(name));
		else if (set_by_text(r->c, key, value, &err) < 0)
			err_wrap(&err, "environment: " ENV_PREFIX "%.*s", STR_ARG(name));
		if (err.kind != ERR_NONE)
			fault(r, &err);
	}
}

static int set_by_flag(struct config *c, const char *set, struct err *err)
{
	struct str name, value;
	const struct key *key;

	if (!str_cut(str_of(set), '=', &name, &value))
		return err_set(err, ERR_INVALID, 0, "must be KEY=VALUE");
	key = find_key(name);
	return key ? set_by_text(c, key, value, err) : no_such_key(err, name);
}

static void read_flags(struct reader *r, const char *const *sets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct err err = ERR_INIT;

		if (set_by_flag(r->c, sets[i], &err) == 0)
			continue;
		err_wrap(&err, "--set %s", sets[i]);
		fault(r, &err);
	}
}

/* ---- all of it ---- */

void config_make_fallback(struct config *c)
{
	c->policy.fallback = (struct partition_policy){c->max_ipus, c->max_job_ipus,
						       c->max_deadline_s, c->default_deadline_s,
						       c->max_interactive_s};
}

static void read_all(struct reader *r, const struct config_source *s)
{
	struct err err = ERR_INIT;

	for (size_t i = 0; i < N_KEYS; i++) {
		if (set_by_text(r->c, &config_keys[i], str_of(config_keys[i].text), &err) < 0)
			fault(r, &err); /* the table's */
	}
	read_file(r, s->path ? s->path : CONFIG_PATH, !s->path);
	read_environment(r, s->environ_);
	read_flags(r, s->sets, s->n_sets);
	/* What is said of keys that are wrong themselves would only confuse. */
	for (size_t i = 0, n = r->n_faults; n == 0 && i < config_n_checks; i++) {
		if (config_checks[i](r->c, &err) < 0)
			fault(r, &err);
	}
}

int config_load(const struct config_source *source, config_fault_fn *tell, void *arg,
		struct config *ret, struct err *err)
{
	struct config c = {0};
	struct reader r = {.c = &c, .tell = tell, .arg = arg, .err = err};

	read_all(&r, source);
	if (r.n_faults > 0) {
		config_done(&c);
		return -1;
	}
	config_make_fallback(&c);
	*ret = c;
	return 0;
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
