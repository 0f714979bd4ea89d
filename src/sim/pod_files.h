/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Pod's volumes as folders and files of this machine. Uses core, kube and the simulator's store.
 */
#ifndef IPU_SIM_POD_FILES_H
#define IPU_SIM_POD_FILES_H

#include "core/err.h"
#include "core/json.h"
#include "sim/api.h"
#include "sim/path_map.h"

struct pod_files {
	struct sim_objects *objects;
	struct sim_api *api; /* for tokens */
	const char *ca_pem;  /* of the API */
	const struct json *pod;
	const char *root; /* the Pod's folder, which is there */
};

/* Where a container's mount points are: what its command, environment and files mean by them. */
void pod_files_map(const struct pod_files *f, const struct json *container, struct path_map *ret);
/* Makes and fills the volumes. Errors in a kubelet's words: ERR_NOT_FOUND (a ConfigMap, a key),
 * ERR_UNSUPPORTED (a kind of volume), ERR_IO. What was made stays. */
int pod_files_make(const struct pod_files *f, struct err *err);
void pod_files_remove(const char *root); /* with all below it */

/* The file for a container's termination message, the caller's to free. */
char *pod_files_message(const char *root, struct str container);

/* What a fieldRef names, the caller's to free; NULL: not known. */
char *pod_field(const struct json *pod, struct str path);

#endif
