/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-cluster configuration, read without the Kubernetes client, whose watches and caches a program
 * that lives in hundreds beside each other has no use for. Uses net and core.
 */
#include "launcher/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/privacy.h"
#include "core/str.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
#define FILE_MAX_BYTES      ((size_t)64 << 10)

/* What is in a file, without the space around it, behind prefix. */
static int read_text(const char *path, const char *prefix, char **ret, struct err *err)
{
	struct buf text = BUF_SECRET(FILE_MAX_BYTES);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, errno, "%s", path);
	int status = file_read_all(fd, &text, err);
	close(fd);
	struct str body = str_trim(buf_str(&text));
	if (status < 0)
		err_wrap(err, "%s", path);
	else
		*ret = xasprintf("%s%.*s", prefix, STR_ARG(body));
	buf_done(&text);
	return status;
}

int cluster_read_token(const char *path, char **ret, struct err *err)
{
	static const char scheme[] = "Bearer ";
	char *text;
	privacy_keep();
	if (read_text(path, scheme, &text, err) < 0)
		return -1;
	if (strlen(text) == strlen(scheme)) {
		free(text);
		return err_set(err, ERR_INVALID, 0, "%s: there is no token in it", path);
	}
	*ret = text;
	return 0;
}

int cluster_authorization(const struct cluster *c, char **ret, struct err *err)
{
	return cluster_read_token(c->token_path, ret, err);
}

void cluster_free_authorization(char *authorization)
{
	if (authorization)
		str_wipe(authorization, strlen(authorization));
	free(authorization);
}

static const char *env_of(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	return value && value[0] ? value : otherwise;
}

static int fill(struct cluster *c, struct err *err)
{
	const char *host = env_of("KUBERNETES_SERVICE_HOST", NULL);
	const char *dir = env_of("IPU_SERVICEACCOUNT_DIR", SERVICE_ACCOUNT_DIR);
	CLEANUP_FREE char *ca = xasprintf("%s/ca.crt", dir);
	CLEANUP_FREE char *ns = xasprintf("%s/namespace", dir);
	struct tls_client_opts tls = {.ca_file = ca};
	int64_t port;
	if (!host)
		return err_set(err, ERR_INVALID, 0,
			       "this isn't a Pod: KUBERNETES_SERVICE_HOST isn't set");
	if (str_to_int(str_of(env_of("KUBERNETES_SERVICE_PORT", "443")), 1, 65535, &port, err) < 0)
		return err_wrap(err, "KUBERNETES_SERVICE_PORT");
	c->host = xstrdup(host);
	c->port = (unsigned)port;
	c->token_path = xasprintf("%s/token", dir);
	/* Where Open MPI spawns its daemons as a tree, they call us in the workers. */
	if (access(c->token_path, F_OK) < 0 && errno == ENOENT)
		return err_set(err, ERR_INVALID, ENOENT,
			       "no service account in %s: only an IPUJob's launcher may start "
			       "processes in its workers; in a worker, switch off MPI's tree spawn "
			       "(OMPI_MCA_plm_rsh_no_tree_spawn=1, "
			       "PRTE_MCA_plm_ssh_no_tree_spawn=1)",
			       dir);
	if (tls_config_new_client(&tls, &c->tls, err) < 0)
		return err_wrap(err, "service account");
	if (read_text(ns, "", &c->ns, err) < 0)
		return err_wrap(err, "service account");
	return c->ns[0] ? 0 : err_set(err, ERR_INVALID, 0, "%s: there is no name in it", ns);
}

int cluster_init(struct cluster *c, struct err *err)
{
	*c = (struct cluster){0};
	if (fill(c, err) == 0)
		return 0;
	cluster_done(c);
	return -1;
}

void cluster_done(struct cluster *c)
{
	tls_config_unref(c->tls);
	free(c->host);
	free(c->ns);
	free(c->token_path);
	*c = (struct cluster){0};
}
