/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a kubeconfig's values with their place in the file, for kubeconfig.c and exec_config.c.
 * Everything is borrowed from the parsed files, which kubeconfig.c owns.
 */
#ifndef IPU_KUBE_KUBECONFIG_H
#define IPU_KUBE_KUBECONFIG_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "core/yaml.h"

struct kc_file {
	struct yaml *yaml;
	const struct json *root; /* NULL: an empty file */
	const char *path;
};

/* An object and where it stands. */
struct kc_at {
	const struct kc_file *file;
	const struct json *obj;
	char pointer[96];
};

/* "FILE:LINE:COLUMN: …" of the object or its member. */
int kc_error(const struct kc_at *at, const char *key, struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A member; NULL or false when absent, null or empty. ERR_INVALID: of another type. */
int kc_str(const struct kc_at *at, const char *key, const char **ret, struct err *err);
int kc_bool(const struct kc_at *at, const char *key, bool *ret, struct err *err);
/* A path as the file means it: relative ones start at its folder. The caller's to free. */
char *kc_resolve(const struct kc_file *file, const char *path);

#endif
