/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the API server is and who we are: from kubeconfig files or from inside a Pod.
 * Loading reads files and checks everything that can be checked without asking anybody; tokens
 * and files that rotate are read again later, by the client.
 */
#ifndef IPU_KUBE_CONFIG_H
#define IPU_KUBE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct kube_config;

/*
 * path: a kubeconfig. NULL: the files of $KUBECONFIG (merged: of a name that comes twice the first
 * wins, files that don't exist are left out), else, inside a Pod (KUBERNETES_SERVICE_HOST and _PORT
 * are set and the service account's files are there), the cluster itself, else ~/.kube/config.
 * context: its name, NULL for current-context.
 *
 * Errors: ERR_INVALID for everything that a person must mend, with file, line and column where
 * there are some, and what to do; a program then exits with status 2. err.code is ENOENT where path
 * is NULL and there is no configuration at all, else 0. Nothing is asked over the
 * network and no program is run. Basic authentication and authentication by auth-provider are
 * refused by name: ERR_INVALID too. What isn't known is passed over, as kubectl does.
 *
 * The server is reached by the HTTP proxy that the kubeconfig names (proxy-url), else, if it's an
 * https one, by that of $HTTPS_PROXY, unless it's loopback or $NO_PROXY names it (both in small
 * letters too).
 */
int kube_config_load(const char *path, const char *context, struct kube_config **ret,
		     struct err *err);
/* The same for a Pod whose files are in dir (NULL: /var/run/secrets/kubernetes.io/serviceaccount).
 */
int kube_config_load_in_cluster(const char *dir, struct kube_config **ret, struct err *err);
/* Speak HTTP/1.1 alone to the server, as DISABLE_HTTP2 in the environment says too (client-go's
 * variable), instead of HTTP/2 where the server does. */
void kube_config_set_http1(struct kube_config *config);
void kube_config_free(struct kube_config *config); /* wipes secrets; NULL is fine */

/* All borrowed from config. */
const char *kube_config_server(const struct kube_config *config); /* https://host:port/prefix */
const char *kube_config_source(const struct kube_config *config); /* file and context, for people */
/* The namespace of the context or of the Pod; NULL when none is given. */
const char *kube_config_namespace(const struct kube_config *config);
bool kube_config_is_in_cluster(const struct kube_config *config);
bool kube_config_is_insecure(const struct kube_config *config); /* insecure-skip-tls-verify: warn */

#endif
