/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubeconfig files: merged, checked as far as that goes without asking anybody, with file, line and
 * column in every message (Kubernetes: "Organizing Cluster Access Using kubeconfig Files").
 * Fills the configuration that config.c owns. Uses core/.
 */
#include "config_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/json.h"
#include "core/yaml.h"
#include "exec_config.h"
#include "kubeconfig.h"

#define MAX_FILES 32

struct kc {
	struct kc_file files[MAX_FILES];
	size_t n;
};

/* ---- reading values with their place ---- */

int kc_error(const struct kc_at *at, const char *key, struct err *err, const char *fmt, ...)
{
	char pointer[sizeof(at->pointer) + 64], text[224];
	va_list ap;
	snprintf(pointer, sizeof(pointer), "%s%s%s", at->pointer, key ? "/" : "", key ? key : "");
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return yaml_error(at->file->yaml, 0, pointer, err, "%s", text);
}

int kc_str(const struct kc_at *at, const char *key, const char **ret, struct err *err)
{
	const struct json *v = json_get(at->obj, key);
	enum json_type type = json_type(v);
	*ret = NULL;
	if (type == JSON_NONE || type == JSON_NULL)
		return 0;
	if (type != JSON_STRING)
		return kc_error(at, key, err, "%s must be a string, and this is %s%s", key,
				json_type_name(type),
				type == JSON_ARRAY || type == JSON_OBJECT ? ""
									  : ": put it in quotes");
	struct str s = json_str(v);
	if (memchr(s.p, '\0', s.len))
		return kc_error(at, key, err, "%s holds a NUL character", key);
	if (s.len > 0)
		*ret = json_cstr(v);
	return 0;
}

int kc_bool(const struct kc_at *at, const char *key, bool *ret, struct err *err)
{
	const struct json *v = json_get(at->obj, key);
	enum json_type type = json_type(v);
	if (type != JSON_NONE && type != JSON_NULL && type != JSON_BOOL)
		return kc_error(at, key, err, "%s must be true or false, and this is %s", key,
				json_type_name(type));
	*ret = json_bool(v, false);
	return 0;
}

char *kc_resolve(const struct kc_file *file, const char *path)
{
	const char *slash = strrchr(file->path, '/');
	if (path[0] == '/' || !slash)
		return xstrdup(path);
	return xasprintf("%.*s/%s", (int)(slash - file->path), file->path, path);
}

/* ---- files and their entries ---- */

static int read_file(const char *path, bool may_lack, struct kc *kc, struct err *err)
{
	struct kc_file *f = &kc->files[kc->n];
	if (may_lack && access(path, F_OK) < 0)
		return 0;
	if (yaml_load(path, &f->yaml, err) < 0) {
		if (err->kind == ERR_NOT_FOUND || err->kind == ERR_IO)
			err_wrap(err, "kubeconfig");
		err->kind = ERR_INVALID;
		return -1;
	}
	f->path = path;
	kc->n++;
	if (yaml_len(f->yaml) > 1)
		return yaml_error(f->yaml, 1, "", err,
				  "a kubeconfig is one document, and a second begins here");
	struct kc_at at = {.file = f, .obj = yaml_len(f->yaml) ? yaml_doc(f->yaml, 0) : NULL};
	const char *kind;
	if (at.obj && json_type(at.obj) != JSON_OBJECT)
		return kc_error(&at, NULL, err, "a kubeconfig is an object, and this is %s",
				json_type_name(json_type(at.obj)));
	if (kc_str(&at, "kind", &kind, err) < 0)
		return -1;
	if (kind && strcmp(kind, "Config") != 0)
		return kc_error(&at, "kind", err,
				"this is of kind %s; a kubeconfig has kind: Config", kind);
	f->root = at.obj;
	return 0;
}

/* Looks for the entry of that name in the list (clusters, users, contexts) of one file. */
static int find_in_file(const struct kc_file *f, const char *list, const char *inner,
			const char *name, struct kc_at *ret, bool *ret_found, struct err *err)
{
	const struct json *entries = json_get(f->root, list);
	struct kc_at root = {.file = f, .obj = f->root};
	enum json_type type = json_type(entries);
	*ret_found = false;
	if (type == JSON_NONE || type == JSON_NULL)
		return 0;
	if (type != JSON_ARRAY)
		return kc_error(&root, list, err, "%s must be a list, and this is %s", list,
				json_type_name(type));
	struct json_iter it = json_iter(entries);
	while (json_next(&it)) {
		struct kc_at at = {.file = f, .obj = it.value};
		const char *its_name;
		snprintf(at.pointer, sizeof(at.pointer), "/%s/%zu", list, it.index);
		if (kc_str(&at, "name", &its_name, err) < 0)
			return -1;
		if (!its_name || strcmp(its_name, name) != 0)
			continue;
		const struct json *body = json_get(it.value, inner);
		if (body && json_type(body) != JSON_OBJECT && json_type(body) != JSON_NULL)
			return kc_error(&at, inner, err, "%s must be an object, and this is %s",
					inner, json_type_name(json_type(body)));
		snprintf(at.pointer, sizeof(at.pointer), "/%s/%zu/%s", list, it.index, inner);
		at.obj = body;
		*ret = at;
		*ret_found = true;
		return 0;
	}
	return 0;
}

/* The first file that has the name wins. */
static int find(const struct kc *kc, const char *list, const char *inner, const char *name,
		struct kc_at *ret, bool *ret_found, struct err *err)
{
	*ret_found = false;
	for (size_t i = 0; i < kc->n && !*ret_found; i++)
		if (find_in_file(&kc->files[i], list, inner, name, ret, ret_found, err) < 0)
			return -1;
	return 0;
}

/* ---- clusters ---- */

/* KEY-data (base64) or KEY (a file), of which the first wins; what must be in it is checked. */
static int read_material(const struct kc_at *at, const char *key, const char *marker,
			 struct kube_material *ret, struct err *err)
{
	char data_key[64];
	const char *data, *path;
	uint8_t *bytes = NULL;
	size_t len = 0;
	struct err why = ERR_INIT;

	snprintf(data_key, sizeof(data_key), "%s-data", key);
	if (kc_str(at, data_key, &data, err) < 0 || kc_str(at, key, &path, err) < 0)
		return -1;
	if (!data && !path)
		return 0;
	if (data && base64_decode(str_trim(str_of(data)), &bytes, &len, &why) < 0)
		return kc_error(at, data_key, err, "%s isn't base64: %.80s", data_key, why.msg);
	if (!data) {
		CLEANUP_FREE char *file = kc_resolve(at->file, path);
		if (kube_read_file(file, (char **)&bytes, &len, NULL, &why) < 0)
			return kc_error(at, key, err, "%.150s", why.msg);
		ret->path = file;
		file = NULL;
	}
	bool fits = bytes && memmem(bytes, len, marker, strlen(marker)) != NULL;
	if (data) {
		ret->data = (char *)bytes;
		ret->len = len;
	} else {
		str_wipe(bytes, len);
		free(bytes);
	}
	if (!fits)
		return kc_error(at, data ? data_key : key, err, "%s holds no PEM block with \"%s\"",
				data ? data_key : ret->path, marker);
	return 0;
}

static int use_cluster(const struct kc_at *at, struct kube_config *c, struct err *err)
{
	const char *server, *name, *proxy;
	struct err why = ERR_INIT;
	if (kc_str(at, "server", &server, err) < 0 ||
	    kc_str(at, "tls-server-name", &name, err) < 0 ||
	    kc_str(at, "proxy-url", &proxy, err) < 0 ||
	    kc_bool(at, "insecure-skip-tls-verify", &c->insecure, err) < 0 ||
	    read_material(at, "certificate-authority", "-----BEGIN CERTIFICATE-----", &c->ca, err) <
		    0)
		return -1;
	if (proxy && kube_proxy_parse(proxy, &c->proxy, &why) < 0)
		return kc_error(at, "proxy-url", err, "%s", why.msg);
	if (!server)
		return kc_error(at, NULL, err,
				"the cluster has no server: add the API server's URL");
	if (kube_config_set_server(c, server, &why) < 0)
		return kc_error(at, "server", err, "%.160s; write https://HOST:PORT", why.msg);
	if (c->insecure && (c->ca.data || c->ca.path))
		return kc_error(
			at, "insecure-skip-tls-verify", err,
			"a certificate-authority together with insecure-skip-tls-verify makes no "
			"sense: remove one of them");
	c->server_name = xstrdup(name);
	return 0;
}

/* ---- users ---- */

static int refuse(const struct kc_at *at, const char *key, const char *advice, struct err *err)
{
	enum json_type type = json_type(json_get(at->obj, key));
	if (type == JSON_NONE || type == JSON_NULL)
		return 0;
	return kc_error(at, key, err, "%s isn't supported: %s", key, advice);
}

static int read_token(const struct kc_at *at, struct kube_config *c, struct err *err)
{
	const char *token, *file;
	struct err why = ERR_INIT;
	CLEANUP_FREE char *probe = NULL;
	size_t len;
	if (kc_str(at, "token", &token, err) < 0 || kc_str(at, "tokenFile", &file, err) < 0)
		return -1;
	if (token && !kube_is_token(str_of(token)))
		return kc_error(at, "token", err,
				"token holds a space or a character that can't be in a token");
	if (token) {
		c->token.data = xstrdup(token);
		c->token.len = strlen(token);
	}
	if (!file)
		return 0;
	/* With both, the file counts as long as it can be read (kubeconfig v1, AuthInfo). */
	c->token.path = kc_resolve(at->file, file);
	if (!token && kube_read_file(c->token.path, &probe, &len, NULL, &why) < 0)
		return kc_error(at, "tokenFile", err, "%.150s", why.msg);
	if (probe)
		str_wipe(probe, len);
	return 0;
}

static int use_user(const struct kc_at *at, struct kube_config *c, const struct kc_at *cluster,
		    struct err *err)
{
	static const char *const basic = "use a token or a client certificate";
	static const char *const as = "give the operator credentials of its own";
	const struct json *exec = json_get(at->obj, "exec");
	if (refuse(at, "username", basic, err) < 0 || refuse(at, "password", basic, err) < 0 ||
	    refuse(at, "auth-provider", "use exec", err) < 0 || refuse(at, "as", as, err) < 0 ||
	    refuse(at, "as-uid", as, err) < 0 || refuse(at, "as-groups", as, err) < 0 ||
	    refuse(at, "as-user-extra", as, err) < 0 || read_token(at, c, err) < 0 ||
	    read_material(at, "client-certificate", "-----BEGIN CERTIFICATE-----", &c->cert, err) <
		    0 ||
	    read_material(at, "client-key", "PRIVATE KEY-----", &c->key, err) < 0)
		return -1;
	bool has_cert = c->cert.data || c->cert.path, has_key = c->key.data || c->key.path;
	if (has_cert != has_key)
		return kc_error(at, has_cert ? "client-certificate" : "client-key", err,
				"the user has a client %s without a client %s: give both",
				has_cert ? "certificate" : "key", has_cert ? "key" : "certificate");
	if (json_type(exec) == JSON_NONE || json_type(exec) == JSON_NULL)
		return 0;
	if (json_type(exec) != JSON_OBJECT)
		return kc_error(at, "exec", err, "exec must be an object, and this is %s",
				json_type_name(json_type(exec)));
	struct kc_at inner = {.file = at->file, .obj = exec};
	snprintf(inner.pointer, sizeof(inner.pointer), "%.*s/exec", (int)sizeof(inner.pointer) - 8,
		 at->pointer);
	if (c->token.data || c->token.path)
		return kc_error(&inner, NULL, err,
				"the user has both a token and exec: remove one of them");
	return kube_exec_config_read(&inner, c, cluster->obj, err);
}

/* ---- the whole ---- */

static int current_context(const struct kc *kc, const char **ret, struct kc_at *ret_at,
			   struct err *err)
{
	*ret = NULL;
	for (size_t i = 0; i < kc->n && !*ret; i++) {
		*ret_at = (struct kc_at){.file = &kc->files[i], .obj = kc->files[i].root};
		if (kc_str(ret_at, "current-context", ret, err) < 0)
			return -1;
	}
	return 0;
}

/* Which names there are instead: for a message. */
static void name_contexts(const struct kc *kc, char *text, size_t size)
{
	size_t used = 0, n = 0;
	text[0] = '\0';
	for (size_t i = 0; i < kc->n; i++) {
		struct json_iter it = json_iter(json_get(kc->files[i].root, "contexts"));
		while (json_next(&it) && n < 5 && used + 1 < size) {
			struct str name = json_str(json_get(it.value, "name"));
			int len = snprintf(text + used, size - used, "%s%.*s", n++ ? ", " : "",
					   name.len > 40 ? 40 : (int)name.len,
					   name.p ? name.p : "");
			used += len > 0 ? (size_t)len : 0;
		}
	}
	if (n == 0)
		snprintf(text, size, "none");
}

static int follow(const struct kc *kc, const char *context, struct kube_config *c, struct err *err)
{
	struct kc_at at, ctx, cluster, user = {.obj = NULL};
	const char *cluster_name, *user_name, *ns, *wanted = context;
	char others[120];
	bool found;

	if (!wanted && current_context(kc, &wanted, &at, err) < 0)
		return -1;
	name_contexts(kc, others, sizeof(others));
	if (!wanted)
		return err_set(err, ERR_INVALID, 0,
			       "%s has no current-context: name one of its contexts (%s)",
			       kc->files[0].path, others);
	if (find(kc, "contexts", "context", wanted, &ctx, &found, err) < 0)
		return -1;
	if (!found && context)
		return err_set(err, ERR_INVALID, 0,
			       "%s: there is no context \"%.60s\" (there are: %s)",
			       kc->files[0].path, wanted, others);
	if (!found)
		return kc_error(&at, "current-context", err,
				"there is no context \"%.60s\" (there are: %s)", wanted, others);
	if (kc_str(&ctx, "cluster", &cluster_name, err) < 0 ||
	    kc_str(&ctx, "user", &user_name, err) < 0 || kc_str(&ctx, "namespace", &ns, err) < 0)
		return -1;
	if (!cluster_name)
		return kc_error(&ctx, NULL, err, "context \"%.60s\" names no cluster", wanted);
	if (find(kc, "clusters", "cluster", cluster_name, &cluster, &found, err) < 0)
		return -1;
	if (!found)
		return kc_error(&ctx, "cluster", err, "there is no cluster \"%.60s\"",
				cluster_name);
	if (use_cluster(&cluster, c, err) < 0)
		return -1;
	if (user_name) {
		if (find(kc, "users", "user", user_name, &user, &found, err) < 0)
			return -1;
		if (!found)
			return kc_error(&ctx, "user", err, "there is no user \"%.60s\"", user_name);
		if (use_user(&user, c, &cluster, err) < 0)
			return -1;
	}
	c->ns = xstrdup(ns);
	c->source = xasprintf("%s, context %s", ctx.file->path, wanted);
	return 0;
}

int kube_kubeconfig_load(const char *const *files, bool may_lack, const char *context,
			 struct kube_config *c, struct err *err)
{
	struct kc *kc = xcalloc(1, sizeof(*kc));
	struct err why = ERR_INIT;
	int rc = 0;
	for (size_t i = 0; files[i] && rc == 0 && kc->n < MAX_FILES; i++)
		rc = read_file(files[i], may_lack, kc, &why);
	if (rc == 0 && kc->n == 0)
		rc = err_set(&why, ERR_INVALID, ENOENT, "none of KUBECONFIG's files is there: %s%s",
			     files[0], files[1] ? ", …" : "");
	if (rc == 0)
		rc = follow(kc, context, c, &why);
	for (size_t i = 0; i < kc->n; i++)
		yaml_free(kc->files[i].yaml);
	free(kc);
	if (rc < 0 && why.kind != ERR_INVALID)
		why.kind = ERR_INVALID; /* whatever it is, a person must mend it */
	return rc < 0 ? err_copy(err, &why) : 0;
}
