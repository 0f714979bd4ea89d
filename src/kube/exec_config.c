/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exec section of a kubeconfig's user, and the ExecCredential that a plugin prints.
 * Pure: the program is run by exec_helper.c. Uses core/.
 */
#include "exec_config.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"

#define GROUP "client.authentication.k8s.io/"

static int read_args(const struct kc_at *at, struct kube_exec_config *e, struct err *err)
{
	const struct json *args = json_get(at->obj, "args");
	size_t n = json_len(args), i = 0;
	if (args && json_type(args) != JSON_ARRAY && json_type(args) != JSON_NULL)
		return kc_error(at, "args", err, "args must be a list of strings");
	e->args = xcalloc(n + 1, sizeof(*e->args));
	struct json_iter it = json_iter(args);
	while (json_next(&it)) {
		if (json_type(it.value) != JSON_STRING)
			return kc_error(
				at, "args", err, "args must be strings, and number %zu is %s%s",
				it.index + 1, json_type_name(json_type(it.value)),
				json_type(it.value) == JSON_INT ? ": put it in quotes" : "");
		e->args[i++] = str_dup(json_str(it.value));
	}
	return 0;
}

static int read_env(const struct kc_at *at, struct kube_exec_config *e, struct err *err)
{
	const struct json *env = json_get(at->obj, "env");
	size_t n = json_len(env), i = 0;
	if (env && json_type(env) != JSON_ARRAY && json_type(env) != JSON_NULL)
		return kc_error(at, "env", err, "env must be a list of {name, value}");
	e->env = xcalloc(n + 1, sizeof(*e->env));
	struct json_iter it = json_iter(env);
	while (json_next(&it)) {
		const char *name = json_cstr(json_get(it.value, "name"));
		const char *value = json_cstr(json_get(it.value, "value"));
		if (!name || !name[0] || strchr(name, '=') || !value)
			return kc_error(at, "env", err,
					"env's number %zu must have a name and a value, both "
					"strings",
					it.index + 1);
		e->env[i++] = xasprintf("%s=%s", name, value);
	}
	return 0;
}

static int check_interactive(const struct kc_at *at, bool is_v1, struct err *err)
{
	const char *mode;
	if (kc_str(at, "interactiveMode", &mode, err) < 0)
		return -1;
	if (!mode && is_v1)
		return kc_error(at, NULL, err,
				"exec needs an interactiveMode: Never or IfAvailable");
	if (!mode || strcmp(mode, "Never") == 0 || strcmp(mode, "IfAvailable") == 0)
		return 0;
	if (strcmp(mode, "Always") == 0)
		return kc_error(at, "interactiveMode", err,
				"this plugin wants a terminal (interactiveMode: Always), and the "
				"operator has "
				"none: use other credentials");
	return kc_error(at, "interactiveMode", err,
			"interactiveMode is Never, IfAvailable or Always");
}

static void copy_member(struct jmut_doc *doc, struct jmut *to, const char *to_key,
			const struct json *from, const char *key)
{
	const struct json *v = json_get(from, key);
	if (v)
		jmut_set(doc, to, to_key, jmut_copy(doc, v));
}

/* KUBERNETES_EXEC_INFO: what the plugin is told. */
static char *make_info(const struct kube_exec_config *e, const struct kube_config *c,
		       const struct json *cluster)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf out = BUF_INIT((size_t)4 << 20);
	struct jmut *root = jmut_object(doc), *spec = jmut_object(doc);
	jmut_set_str(doc, root, "apiVersion", e->api_version);
	jmut_set_str(doc, root, "kind", "ExecCredential");
	jmut_set(doc, root, "spec", spec);
	if (cluster) {
		struct jmut *to = jmut_object(doc);
		jmut_set(doc, spec, "cluster", to);
		jmut_set_str(doc, to, "server", c->server);
		copy_member(doc, to, "tls-server-name", cluster, "tls-server-name");
		copy_member(doc, to, "insecure-skip-tls-verify", cluster,
			    "insecure-skip-tls-verify");
		if (c->ca.data) {
			CLEANUP_FREE char *b64 = base64_encode(c->ca.data, c->ca.len);
			jmut_set_str(doc, to, "certificate-authority-data", b64);
		} else if (c->ca.path) {
			CLEANUP_FREE char *pem = NULL;
			size_t len;
			if (kube_read_file(c->ca.path, &pem, &len, NULL, NULL) == 0) {
				CLEANUP_FREE char *b64 = base64_encode(pem, len);
				jmut_set_str(doc, to, "certificate-authority-data", b64);
			}
		}
		/* The reserved extension is the plugin's own configuration. */
		struct json_iter it = json_iter(json_get(cluster, "extensions"));
		while (json_next(&it))
			if (str_eqz(json_str(json_get(it.value, "name")), GROUP "exec"))
				copy_member(doc, to, "config", it.value, "extension");
	}
	jmut_set_bool(doc, spec, "interactive", false);
	if (jmut_write(root, JSON_COMPACT, &out, NULL) < 0)
		buf_clear(&out);
	size_t len;
	return buf_steal(&out, &len);
}

int kube_exec_config_read(const struct kc_at *at, struct kube_config *c, const struct json *cluster,
			  struct err *err)
{
	const char *api, *command, *hint;
	bool cluster_info;
	struct kube_exec_config *e = c->exec = xcalloc(1, sizeof(*e));
	if (kc_str(at, "apiVersion", &api, err) < 0 || kc_str(at, "command", &command, err) < 0 ||
	    kc_str(at, "installHint", &hint, err) < 0 ||
	    kc_bool(at, "provideClusterInfo", &cluster_info, err) < 0)
		return -1;
	if (!api)
		return kc_error(at, NULL, err, "exec has no apiVersion: " GROUP "v1 or v1beta1");
	bool is_v1 = strcmp(api, GROUP "v1") == 0;
	if (!is_v1 && strcmp(api, GROUP "v1beta1") != 0)
		return kc_error(at, "apiVersion", err,
				"exec's apiVersion %.60s isn't supported: " GROUP
				"v1 and v1beta1 are",
				api);
	if (!command)
		return kc_error(at, NULL, err, "exec names no command");
	if (check_interactive(at, is_v1, err) < 0 || read_args(at, e, err) < 0 ||
	    read_env(at, e, err) < 0)
		return -1;
	e->api_version = xstrdup(api);
	/* A bare name is looked for in PATH, other relative paths start at the file's folder. */
	e->command = strchr(command, '/') ? kc_resolve(at->file, command) : xstrdup(command);
	e->install_hint = xstrdup(hint);
	e->info = make_info(e, c, cluster_info ? cluster : NULL);
	return 0;
}

/* ---- what the plugin answers ---- */

void kube_exec_credential_done(struct kube_exec_credential *cred)
{
	char **all[] = {&cred->token, &cred->cert, &cred->key};
	for (size_t i = 0; i < 3; i++) {
		if (*all[i])
			str_wipe(*all[i], strlen(*all[i]));
		free(*all[i]);
		*all[i] = NULL;
	}
}

static int read_credential(const struct kube_exec_config *exec, const struct json *root,
			   struct kube_exec_credential *ret, struct err *err)
{
	const struct json *status = json_get(root, "status");
	struct str api = json_str(json_get(root, "apiVersion"));
	struct str token = json_str(json_get(status, "token"));
	struct str cert = json_str(json_get(status, "clientCertificateData"));
	struct str key = json_str(json_get(status, "clientKeyData"));
	struct str expires = json_str(json_get(status, "expirationTimestamp"));
	if (!str_eqz(json_str(json_get(root, "kind")), "ExecCredential"))
		return err_set(err, ERR_INVALID, 0, "it isn't of kind ExecCredential");
	if (!str_eqz(api, exec->api_version))
		return err_set(
			err, ERR_INVALID, 0, "its apiVersion is %.*s, the kubeconfig asks for %s",
			api.len > 60 ? 60 : (int)api.len, api.p ? api.p : "", exec->api_version);
	if (json_type(status) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "it has no status");
	if (token.len == 0 && cert.len == 0)
		return err_set(err, ERR_INVALID, 0,
			       "it has neither token nor clientCertificateData");
	if ((cert.len > 0) != (key.len > 0))
		return err_set(
			err, ERR_INVALID, 0,
			"it must have both clientCertificateData and clientKeyData, or neither");
	if (token.len > 0 && !kube_is_token(token))
		return err_set(err, ERR_INVALID, 0, "its token holds characters that no token has");
	ret->expires_wall_ms = INT64_MAX;
	if (expires.len > 0 && clock_parse(expires, &ret->expires_wall_ms, err) < 0)
		return err_wrap(err, "its expirationTimestamp");
	ret->token = token.len > 0 ? str_dup(token) : NULL;
	ret->cert = cert.len > 0 ? str_dup(cert) : NULL;
	ret->key = key.len > 0 ? str_dup(key) : NULL;
	return 0;
}

int kube_exec_credential_parse(const struct kube_exec_config *exec, struct str output,
			       struct kube_exec_credential *ret, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct kube_exec_credential cred = {.token = NULL};
	struct err why = ERR_INIT;
	if (json_parse_secret(str_trim(output), &doc, &why) < 0 ||
	    read_credential(exec, json_root(doc), &cred, &why) < 0) {
		why.kind = ERR_INVALID;
		err_copy(err, &why);
		return err_wrap(err, "the credential plugin %s answered with a bad ExecCredential",
				exec->command);
	}
	*ret = cred;
	return 0;
}
