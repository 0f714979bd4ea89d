/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loaded configuration holds, for this folder: kubeconfig.c and config.c fill it,
 * cred.c and exec_helper.c read it. It owns all its strings; secrets are wiped at the end.
 */
#ifndef IPU_KUBE_CONFIG_PRIV_H
#define IPU_KUBE_CONFIG_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/file.h"
#include "core/err.h"
#include "core/str.h"
#include "http/message.h"
#include "kube/config.h"
#include "net/conn.h"

#define KUBE_FILE_MAX_BYTES ((size_t)1 << 20) /* tokens, certificates, keys */

/* Bytes that stand in the configuration, or the file that they're in; both NULL: not given. */
struct kube_material {
	char *data;
	size_t len;
	char *path;
};

struct kube_exec_config {
	char *api_version;  /* client.authentication.k8s.io/v1 or v1beta1 */
	char *command;      /* a path, or a name to look for in PATH */
	char **args;        /* without argv[0]; NULL-terminated */
	char **env;         /* "NAME=value", added to ours; NULL-terminated */
	char *install_hint; /* or NULL */
	char *info;         /* KUBERNETES_EXEC_INFO's value */
};

struct kube_config {
	char *server; /* as configured */
	struct http_url url;
	char *prefix;      /* the URL's path without a '/' at its end: "" or "/x" */
	char *server_name; /* tls-server-name, or NULL */
	char *source, *ns;
	bool in_cluster, insecure;
	bool http1; /* HTTP/1.1 alone */
	struct kube_material ca, cert, key, token;
	struct kube_exec_config *exec;
	struct net_proxy *proxy; /* to the server; NULL: none */
};

/* What a header can carry as a bearer token: printable ASCII without a space. */
bool kube_is_token(struct str s);

/* Sets server, url and prefix. ERR_INVALID. */
int kube_config_set_server(struct kube_config *c, const char *server, struct err *err);

/* proxy.c. A proxy's URL, http://[USER:PASSWORD@]HOST[:PORT]. ERR_INVALID. The caller's, for
 * kube_proxy_free. */
int kube_proxy_parse(const char *url, struct net_proxy **ret, struct err *err);
void kube_proxy_free(struct net_proxy *proxy); /* NULL is fine */
/* Whether a list as in NO_PROXY names that host: names with what is below them (only that, with a
 * dot or "*." in front), addresses, CIDR blocks, each with a port or without, or "*". */
bool kube_proxy_is_exempt(struct str list, const char *host, unsigned port);

/* The kubeconfigs' part: merges files (NULL-terminated), of which those that aren't there are left
 * out if may_lack. */
int kube_kubeconfig_load(const char *const *files, bool may_lack, const char *context,
			 struct kube_config *c, struct err *err);

#endif
