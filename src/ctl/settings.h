/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of the operator's configuration Pods are made by: a few keys of operator.yaml. The daemon
 * reads and checks all of them; ipuctl has only these. Uses core, pod.
 */
#ifndef IPU_CTL_SETTINGS_H
#define IPU_CTL_SETTINGS_H

#include "core/err.h"
#include "core/yaml.h"
#include "pod/inject.h"

/* What stands for a launcher image where none is configured. */
#define CTL_NO_IMAGE "launcher.image-of-the-configuration"

struct ctl_settings {
	struct pod_inject_settings pods; /* with those of jobs: pods.worker */
	struct yaml *yaml;               /* that its strings are in */
	bool has_image;                  /* launcher.image is configured */
};

/* path NULL: the defaults. Errors: ERR_INVALID, a file that isn't one, with its place. */
int ctl_settings_load(const char *path, struct ctl_settings *ret, struct err *err);
void ctl_settings_done(struct ctl_settings *s);

#endif
