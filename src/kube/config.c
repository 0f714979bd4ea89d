/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses where the configuration comes from: a given file, $KUBECONFIG, the Pod, the home folder.
 * Owns the struct that everything else of the client borrows. Uses core/ and http/message.h.
 */
#include "config_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/list.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
#define MAX_FILES           32 /* of $KUBECONFIG */

static uint64_t stamp_of(const struct stat *st)
{
	uint64_t h = (uint64_t)st->st_ino;
	h = h * UINT64_C(0x100000001b3) ^ (uint64_t)st->st_size;
	h = h * UINT64_C(0x100000001b3) ^ (uint64_t)st->st_mtim.tv_sec;
	h = h * UINT64_C(0x100000001b3) ^ (uint64_t)st->st_mtim.tv_nsec;
	return h | 1; /* never 0, which stands for "not read yet" */
}

int kube_stat_file(const char *path, uint64_t *ret_stamp)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return -1;
	*ret_stamp = stamp_of(&st);
	return 0;
}

int kube_read_file(const char *path, char **ret, size_t *ret_len, uint64_t *ret_stamp,
		   struct err *err)
{
	struct buf b = BUF_SECRET(KUBE_FILE_MAX_BYTES);
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "%s: there is no such file", path);
	if (fd < 0)
		return err_errno(err, errno, "opening %s", path);
	int rc = fstat(fd, &st) < 0 ? err_errno(err, errno, "%s", path) : 0;
	if (rc == 0 && !S_ISREG(st.st_mode))
		rc = err_set(err, ERR_INVALID, 0, "%s isn't a regular file", path);
	if (rc == 0 && file_read_all(fd, &b, err) < 0)
		rc = err_wrap(err, "%s", path);
	close(fd);
	if (rc < 0) {
		buf_done(&b);
		return -1;
	}
	*ret = buf_steal(&b, ret_len);
	if (ret_stamp)
		*ret_stamp = stamp_of(&st);
	return 0;
}

bool kube_is_token(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if ((unsigned char)s.p[i] <= ' ' || (unsigned char)s.p[i] > '~')
			return false;
	return s.len > 0;
}

int kube_config_set_server(struct kube_config *c, const char *server, struct err *err)
{
	struct str path, query;
	if (http_url_parse(str_of(server), &c->url, err) < 0)
		return -1;
	c->server = xstrdup(server);
	c->url.target = STR_NULL; /* borrowed from the argument: not kept */
	struct http_url u;
	if (http_url_parse(str_of(c->server), &u, err) < 0)
		return -1;
	http_target_split(u.target, &path, &query);
	if (query.p)
		return err_set(err, ERR_INVALID, 0, "server \"%s\" has a query: leave it out",
			       server);
	while (path.len > 0 && path.p[path.len - 1] == '/')
		path.len--;
	c->prefix = str_dup(path);
	return 0;
}

/* ---- the whole ---- */

static void material_done(struct kube_material *m)
{
	if (m->data)
		str_wipe(m->data, m->len);
	free(m->data);
	free(m->path);
}

static void strv_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++) {
		str_wipe(v[i], strlen(v[i]));
		free(v[i]);
	}
	free(v);
}

static void exec_free(struct kube_exec_config *e)
{
	if (!e)
		return;
	free(e->api_version);
	free(e->command);
	strv_free(e->args);
	strv_free(e->env);
	free(e->install_hint);
	free(e->info);
	free(e);
}

void kube_config_free(struct kube_config *c)
{
	if (!c)
		return;
	free(c->server);
	free(c->prefix);
	free(c->server_name);
	free(c->source);
	free(c->ns);
	material_done(&c->ca);
	material_done(&c->cert);
	material_done(&c->key);
	material_done(&c->token);
	exec_free(c->exec);
	kube_proxy_free(c->proxy);
	free(c);
}

const char *kube_config_server(const struct kube_config *c)
{
	return c->server;
}

const char *kube_config_source(const struct kube_config *c)
{
	return c->source;
}

const char *kube_config_namespace(const struct kube_config *c)
{
	return c->ns;
}

bool kube_config_is_in_cluster(const struct kube_config *c)
{
	return c->in_cluster;
}

bool kube_config_is_insecure(const struct kube_config *c)
{
	return c->insecure;
}

/* ---- in a cluster ---- */

static const char *env_of(const char *name)
{
	const char *z = getenv(name);
	return z && z[0] ? z : NULL;
}

static int fill_in_cluster(const char *dir, struct kube_config *c, struct err *err)
{
	const char *host = env_of("KUBERNETES_SERVICE_HOST");
	const char *port = env_of("KUBERNETES_SERVICE_PORT");
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *ns_path = xasprintf("%s/namespace", dir);
	size_t len;

	if (!host || !port)
		return err_set(err, ERR_INVALID, 0,
			       "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT aren't set: "
			       "this isn't "
			       "a Pod; give a kubeconfig");
	bool ip6 = strchr(host, ':') && host[0] != '[';
	CLEANUP_FREE char *server = xasprintf("https://%s%s%s:%s", ip6 ? "[" : "", host,
					      ip6 ? "]" : "", port);
	if (kube_config_set_server(c, server, err) < 0)
		return err_wrap(err, "KUBERNETES_SERVICE_HOST and _PORT");
	c->in_cluster = true;
	c->source = xasprintf("service account in %s", dir);
	c->token.path = xasprintf("%s/token", dir);
	c->ca.path = xasprintf("%s/ca.crt", dir);
	for (int i = 0; i < 2; i++) {
		CLEANUP_FREE char *probe = NULL;
		const char *path = i ? c->ca.path : c->token.path;
		if (kube_read_file(path, &probe, &len, NULL, err) < 0) {
			err_wrap(err, "service account");
			err->kind = ERR_INVALID;
			return -1;
		}
		str_wipe(probe, len);
	}
	if (kube_read_file(ns_path, &text, &len, NULL, NULL) == 0) {
		struct str ns = str_trim((struct str){text, len});
		c->ns = ns.len > 0 ? str_dup(ns) : NULL;
	}
	return 0;
}

int kube_config_load_in_cluster(const char *dir, struct kube_config **ret, struct err *err)
{
	struct err why = ERR_INIT;
	struct kube_config *c = xcalloc(1, sizeof(*c));
	if (fill_in_cluster(dir ? dir : SERVICE_ACCOUNT_DIR, c, &why) < 0) {
		kube_config_free(c);
		return err_copy(err, &why);
	}
	*ret = c;
	return 0;
}

/* ---- which one ---- */

static int load_files(const char *const *files, bool may_lack, const char *context,
		      struct kube_config **ret, struct err *err)
{
	struct kube_config *c = xcalloc(1, sizeof(*c));
	if (kube_kubeconfig_load(files, may_lack, context, c, err) < 0) {
		kube_config_free(c);
		return -1;
	}
	*ret = c;
	return 0;
}

static int load_env_list(const char *list, const char *context, struct kube_config **ret,
			 struct err *err)
{
	CLEANUP_FREE char *copy = xstrdup(list);
	const char *files[MAX_FILES + 1];
	size_t n = 0;
	char *save = NULL;
	for (char *p = strtok_r(copy, ":", &save); p; p = strtok_r(NULL, ":", &save)) {
		if (n == MAX_FILES)
			return err_set(err, ERR_INVALID, 0, "KUBECONFIG names more than %d files",
				       MAX_FILES);
		files[n++] = p;
	}
	files[n] = NULL;
	if (n == 0)
		return err_set(err, ERR_INVALID, 0, "KUBECONFIG names no file");
	return load_files(files, true, context, ret, err);
}

static int load_any(const char *path, const char *context, struct kube_config **ret,
		    struct err *err)
{
	const char *list = env_of("KUBECONFIG"), *home = env_of("HOME");
	if (path) {
		const char *one[] = {path, NULL};
		return load_files(one, false, context, ret, err);
	}
	if (list)
		return load_env_list(list, context, ret, err);
	if (!context && env_of("KUBERNETES_SERVICE_HOST") && env_of("KUBERNETES_SERVICE_PORT") &&
	    access(SERVICE_ACCOUNT_DIR "/token", F_OK) == 0)
		return kube_config_load_in_cluster(NULL, ret, err);
	if (home) {
		CLEANUP_FREE char *file = xasprintf("%s/.kube/config", home);
		if (access(file, F_OK) == 0) {
			const char *one[] = {file, NULL};
			return load_files(one, false, context, ret, err);
		}
	}
	return err_set(
		err, ERR_INVALID, ENOENT,
		"no Kubernetes configuration: set KUBECONFIG or name a kubeconfig (there is no "
		"~/.kube/config, and this isn't a Pod)");
}

/* ---- the proxy on the way ---- */

static bool is_loopback(const char *host)
{
	return strcmp(host, "localhost") == 0 ||
	       kube_proxy_is_exempt(STR("127.0.0.0/8,::1"), host, 0);
}

static int choose_proxy(struct kube_config *c, struct err *err)
{
	const char *url = env_of("HTTPS_PROXY"), *none = env_of("NO_PROXY");

	if (!url)
		url = env_of("https_proxy");
	if (!none)
		none = env_of("no_proxy");
	if (c->proxy || !url || !c->url.tls || is_loopback(c->url.host) ||
	    (none && kube_proxy_is_exempt(str_of(none), c->url.host, c->url.port)))
		return 0;
	if (kube_proxy_parse(url, &c->proxy, err) < 0)
		return err_wrap(err, "HTTPS_PROXY");
	return 0;
}

void kube_config_set_http1(struct kube_config *config)
{
	config->http1 = true;
}

int kube_config_load(const char *path, const char *context, struct kube_config **ret,
		     struct err *err)
{
	struct kube_config *c;

	if (load_any(path, context, &c, err) < 0)
		return -1;
	c->http1 = env_of("DISABLE_HTTP2") != NULL;
	if (choose_proxy(c, err) < 0) {
		kube_config_free(c);
		return -1;
	}
	*ret = c;
	return 0;
}
