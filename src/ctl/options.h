/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ipuctl: options and words may stand in any order. Strings are borrowed from
 * argv and from the environment.
 */
#ifndef IPU_CTL_OPTIONS_H
#define IPU_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

#define CTL_NAMESPACE  "ipu-operator"
#define CTL_SERVICE    "ipu-operator-vipu-proxy"
#define CTL_CONFIG_MAP "ipu-operator-vipu-controllers"
#define CTL_TIMEOUT_S  10

enum ctl_output { CTL_TABLE, CTL_WIDE, CTL_JSON, CTL_YAML };

/* What a command takes beside the options of all. */
enum {
	CTL_TAKES_OUTPUT = 1,
	CTL_TAKES_WATCH = 2,
	CTL_TAKES_CONFIG_MAP = 4, /* --config-map and --force */
	CTL_TAKES_WAIT = 8,
};

struct ctl_options {
	const char *server; /* NULL: by the kubeconfig */
	bool server_by_env;
	const char *ca_file, *kubeconfig, *context; /* NULL: not given */
	const char *ns, *service, *config_map;
	unsigned timeout_s, wait_s; /* wait_s 0: don't wait */
	enum ctl_output output;
	bool no_headers, watch, force, help, version;

	char **words; /* the command's name and its operands: a part of argv */
	size_t n_words;
	unsigned given; /* CTL_TAKES_…: of the options that were given */
};

/* Reorders argv. ERR_INVALID: what is wrong with it. */
int ctl_options_parse(int argc, char **argv, struct ctl_options *ret, struct err *err);
/* The options alone, as a part of a help text; takes: those that a command has of its own. */
void ctl_options_print(unsigned takes);

#endif
