/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: the few short forms are --set by another name.
 */
#include "daemon/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/str.h"
#include "daemon/config.h"

enum {
	OPT_SET = 256,
	OPT_ROLES,
	OPT_KUBECONFIG,
	OPT_CONTEXT,
	OPT_CHECK,
	OPT_PORTS_FILE,
	OPT_VERSION
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, 'c'},
	{"set", required_argument, NULL, OPT_SET},
	{"roles", required_argument, NULL, OPT_ROLES},
	{"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
	{"context", required_argument, NULL, OPT_CONTEXT},
	{"check-config", no_argument, NULL, OPT_CHECK},
	{"ports-file", required_argument, NULL, OPT_PORTS_FILE},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

void options_print_help(void)
{
	printf("Usage: ipu-operator [OPTION]...\n"
	       "Runs IPUJobs on a Kubernetes cluster: gives them partitions of IPUs, and takes them back.\n"
	       "\n"
	       "  -c, --config FILE       read FILE instead of " CONFIG_PATH "\n"
	       "      --set KEY=VALUE     set a key of the configuration; may be given several times\n"
	       "      --roles LIST        --set roles=LIST: controller, proxy, webhook, node\n"
	       "      --kubeconfig FILE   --set kubernetes.kubeconfig=FILE\n"
	       "      --context NAME      --set kubernetes.context=NAME\n"
	       "      --check-config      check the configuration and the kubeconfig, and exit\n"
	       "      --ports-file FILE   write the ports that were bound to FILE, a line \"NAME PORT\" each\n"
	       "      --version           print the version, and exit\n"
	       "  -h, --help              print this, and exit\n"
	       "\n"
	       "Exit status: 0 after SIGTERM or SIGINT, 1 when it can't go on, 2 for a wrong\n"
	       "configuration or command line.\n");
}

static void add_set(struct options *o, const char *key, const char *value)
{
	o->sets = xrealloc(o->sets, (o->n_sets + 1) * sizeof(*o->sets));
	o->sets[o->n_sets++] = key ? xasprintf("%s=%s", key, value) : xstrdup(value);
}

static int take(struct options *o, int c)
{
	switch (c) {
	case 'c':
		o->config_path = optarg;
		return 0;
	case OPT_SET:
		add_set(o, NULL, optarg);
		return 0;
	case OPT_ROLES:
		add_set(o, "roles", optarg);
		return 0;
	case OPT_KUBECONFIG:
		add_set(o, "kubernetes.kubeconfig", optarg);
		return 0;
	case OPT_CONTEXT:
		add_set(o, "kubernetes.context", optarg);
		return 0;
	case OPT_CHECK:
		o->check_config = true;
		return 0;
	case OPT_PORTS_FILE:
		o->ports_file = optarg;
		return 0;
	case OPT_VERSION:
		o->version = true;
		return 0;
	case 'h':
		o->help = true;
		return 0;
	default:
		return -1;
	}
}

int options_parse(int argc, char **argv, struct options *ret, struct err *err)
{
	struct options o = {0};
	int c;

	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, ":c:h", long_options, NULL)) != -1) {
		const char *word = argv[optind - 1];

		if (c == ':')
			err_set(err, ERR_INVALID, 0, "%s: needs a value; see --help", word);
		else if (c == '?')
			err_set(err, ERR_INVALID, 0, "%s: there is no such option; see --help",
				word);
		if (take(&o, c) < 0)
			goto fail;
	}
	if (optind < argc) {
		err_set(err, ERR_INVALID, 0, "%s: not an option; see --help", argv[optind]);
		goto fail;
	}
	*ret = o;
	return 0;
fail:
	options_done(&o);
	return -1;
}

void options_done(struct options *o)
{
	for (size_t i = 0; i < o->n_sets; i++)
		free(o->sets[i]);
	free(o->sets);
	*o = (struct options){0};
}
