/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ipu-sim. Strings are borrowed from argv; the lists of them are owned.
 */
#ifndef IPU_SIM_OPTIONS_H
#define IPU_SIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "sim/kubelet.h"

struct sim_texts {
	const char **items;
	size_t n;
};

struct sim_options {
	const char *dir;        /* NULL: no kubeconfig; then vipu_only */
	const char *ports_file; /* NULL: none */
	const char *crd;        /* NULL: to be found */
	const char *api_listen, *plain_listen, *admin_listen, *vipu_listen;
	unsigned controllers, agents, nodes;
	unsigned create_ms, reset_ms, remove_ms;
	struct sim_texts node_labels, programs, pod_settings, vipu_faults, vipu_secure;
	struct sim_pod_behaviour pods;
	bool vipu_only, verbose, help, version;
};

/* ERR_INVALID: what is wrong with it, in one line. */
int sim_options_parse(int argc, char **argv, struct sim_options *ret, struct err *err);
void sim_options_done(struct sim_options *o);
void sim_options_print_help(void);

#endif
