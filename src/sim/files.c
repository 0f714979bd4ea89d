/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubeconfig and other files of ipu-sim.
 */
#include "sim/files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"

#define CRD_FILE "crds/graphcore.ai_ipujobs.yaml"

/* ---- files ---- */

int sim_file_write(const char *dir, const char *name, struct str text, struct err *err)
{
	CLEANUP_FREE char *path = dir ? xasprintf("%s/%s", dir, name) : xstrdup(name);

	return file_replace(path, text, 0600, err);
}

int sim_dir_make(const char *dir, struct err *err)
{
	struct stat st;

	if (mkdir(dir, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return err_errno(err, errno, "%s", dir);
	if (stat(dir, &st) < 0)
		return err_errno(err, errno, "%s", dir);
	return S_ISDIR(st.st_mode) ? 0 : err_errno(err, ENOTDIR, "%s", dir);
}

char *sim_kubeconfig_text(const char *host, unsigned port, const char *cert_pem, const char *token)
{
	CLEANUP_FREE char *ca = base64_encode(cert_pem, strlen(cert_pem));
	bool brackets = strchr(host, ':') != NULL;

	return xasprintf("apiVersion: v1\n"
			 "kind: Config\n"
			 "clusters:\n"
			 "- name: ipu-sim\n"
			 "  cluster:\n"
			 "    server: https://%s%s%s:%u\n"
			 "    certificate-authority-data: %s\n"
			 "users:\n"
			 "- name: ipu-sim\n"
			 "  user:\n"
			 "    token: %s\n"
			 "contexts:\n"
			 "- name: ipu-sim\n"
			 "  context:\n"
			 "    cluster: ipu-sim\n"
			 "    user: ipu-sim\n"
			 "    namespace: default\n"
			 "current-context: ipu-sim\n",
			 brackets ? "[" : "", host, brackets ? "]" : "", port, ca, token);
}

/* ---- the CRD ---- */

/* The folder that this program is in. */
static char *own_dir(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
	const char *slash;

	if (n <= 0)
		return xstrdup("");
	slash = memrchr(path, '/', (size_t)n);
	return slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
}

int sim_crd_find(char **ret_path, struct err *err)
{
	CLEANUP_FREE char *here = own_dir();
	char *path;

	if (strcmp(here, IPU_BUILD_DIR) == 0)
		path = xstrdup(IPU_SOURCE_DIR "/" CRD_FILE);
	else
		path = xasprintf("%s/../share/ipu-operator/%s", here, CRD_FILE);
	if (access(path, R_OK) < 0) {
		free(path);
		path = xstrdup(IPU_DATA_DIR "/" CRD_FILE);
	}
	if (access(path, R_OK) < 0) {
		err_set(err, ERR_NOT_FOUND, 0, "%s: no CRD there; name one with --crd", path);
		free(path);
		return -1;
	}
	*ret_path = path;
	return 0;
}
