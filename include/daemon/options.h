/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ipu-operator.
 */
#ifndef IPU_DAEMON_OPTIONS_H
#define IPU_DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

struct options {
	const char *config_path; /* NULL: the default, which may be absent */
	char **sets;             /* "KEY=VALUE", owned */
	size_t n_sets;
	const char *ports_file; /* where to write the ports that were bound; NULL */
	bool check_config, help, version;
};

/* argv as main has it; strings are borrowed from there. ERR_INVALID: what is wrong with it. */
int options_parse(int argc, char **argv, struct options *ret, struct err *err);
void options_done(struct options *o);
void options_print_help(void);

#endif
