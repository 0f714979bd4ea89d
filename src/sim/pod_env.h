/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's command line and environment, as a kubelet makes them. Uses core, kube and the
 * simulator's store.
 */
#ifndef IPU_SIM_POD_ENV_H
#define IPU_SIM_POD_ENV_H

#include "core/err.h"
#include "core/json.h"
#include "sim/objects.h"
#include "sim/path_map.h"

struct pod_env {
	char **items; /* "NAME=value", NULL-terminated */
	size_t n;
};

void pod_env_set(struct pod_env *e, struct str name, struct str value); /* adds or replaces */
void pod_env_done(struct pod_env *e);

/* envFrom and env of the container, over what e has; mount points in values are replaced. Errors:
 * ERR_NOT_FOUND (a ConfigMap, a key), ERR_UNSUPPORTED, in a kubelet's words. */
int pod_env_read(struct pod_env *e, const struct sim_objects *objects, const struct json *pod,
		 const struct json *container, const struct path_map *map, struct err *err);

/* Words with $(NAME) replaced (e NULL: without), then mount points; the first one by programs where
 * it is one of them. NULL-terminated; pod_words_free. */
char **pod_words(const struct pod_env *e, const struct json *command, const struct json *args,
		 const struct path_map *programs, const struct path_map *map);
void pod_words_free(char **words);

#endif
