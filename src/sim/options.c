/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-sim's command line: one table says what options there are, what they take and where it goes.
 */
#include "sim/options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

#define DAY_MS 86400000

enum kind { KIND_TEXT, KIND_NUMBER, KIND_FLAG, KIND_TEXTS };

#define AT(member) offsetof(struct sim_options, member)

static const struct known {
	const char *name, *value, *help;
	enum kind kind;
	size_t offset;
	int64_t least, most;
} known[] = {
	{"dir", "DIR", "write kubeconfig, token and ports.json to DIR, made if it isn't there",
	 KIND_TEXT, AT(dir), 0, 0},
	{"ports-file", "FILE", "write the ports that were bound to FILE, a line \"NAME PORT\" each",
	 KIND_TEXT, AT(ports_file), 0, 0},
	{"crd", "FILE", "the IPUJob's CRD (default: the one that came with this program)",
	 KIND_TEXT, AT(crd), 0, 0},
	{"controllers", "N", "V-IPU controllers (default 1)", KIND_NUMBER, AT(controllers), 1, 64},
	{"agents", "N", "IPU-Machines of 4 IPUs of each controller (default 16)", KIND_NUMBER,
	 AT(agents), 1, 1024},
	{"nodes", "N", "Nodes: sim0, sim1, ... (default 1)", KIND_NUMBER, AT(nodes), 0,
	 SIM_MAX_NODES},
	{"node-label", "[NODE:]KEY=VALUE",
	 "a label of all Nodes, or of one; may be given several times", KIND_TEXTS, AT(node_labels),
	 0, 0},
	{"create-ms", "MS", "until a new partition is active (default 500)", KIND_NUMBER,
	 AT(create_ms), 0, DAY_MS},
	{"reset-ms", "MS", "until a partition has been reset (default 300)", KIND_NUMBER,
	 AT(reset_ms), 0, DAY_MS},
	{"remove-ms", "MS", "until a removed partition is gone (default 300)", KIND_NUMBER,
	 AT(remove_ms), 0, DAY_MS},
	{"pod-schedule-ms", "MS", "from a Pod's creation to a look for a Node (default 50)",
	 KIND_NUMBER, AT(pods.schedule_ms), 0, DAY_MS},
	{"pod-start-ms", "MS", "from there to Running (default 500)", KIND_NUMBER,
	 AT(pods.start_ms), 0, DAY_MS},
	{"pod-run-ms", "MS", "from there to a Pod's end; 0: never (default 2000)", KIND_NUMBER,
	 AT(pods.run_ms), 0, DAY_MS},
	{"pod-term-ms", "MS", "from a Pod's deletion to its end (default 200)", KIND_NUMBER,
	 AT(pods.term_ms), 0, DAY_MS},
	{"pod-exit-code", "N", "how Pods end (default 0)", KIND_NUMBER, AT(pods.exit_code), 0, 255},
	{"run-pods", NULL, "run Pods' commands as processes of this machine (setting \"run\")",
	 KIND_FLAG, AT(pods.run), 0, 0},
	{"program", "NAME=PATH",
	 "what a Pod's command NAME is on this machine; may be given several times", KIND_TEXTS,
	 AT(programs), 0, 0},
	{"pods", "JSON", "what POST /sim/pods takes, from the start; may be given several times",
	 KIND_TEXTS, AT(pod_settings), 0, 0},
	{"vipu-fault", "JSON",
	 "what POST /sim/vipu/N/faults takes, for each controller from the\n"
	 "                               start; may be given several times",
	 KIND_TEXTS, AT(vipu_faults), 0, 0},
	{"vipu-secure", "[N:]JSON",
	 "what POST /sim/vipu/N/secure takes, from the start, for controller N\n"
	 "                               or all: TLS, user id, access key; may be given several\n"
	 "                               times",
	 KIND_TEXTS, AT(vipu_secure), 0, 0},
	{"api-listen", "ADDR", "the API over TLS (default 127.0.0.1:0)", KIND_TEXT, AT(api_listen),
	 0, 0},
	{"api-plain-listen", "ADDR", "the API without TLS (default 127.0.0.1:0)", KIND_TEXT,
	 AT(plain_listen), 0, 0},
	{"admin-listen", "ADDR", "/sim/state, faults and settings (default 127.0.0.1:0)", KIND_TEXT,
	 AT(admin_listen), 0, 0},
	{"vipu-listen", "ADDR",
	 "the first V-IPU controller; the next ones take the ports behind it\n"
	 "                               (default 127.0.0.1:0: any port for each)",
	 KIND_TEXT, AT(vipu_listen), 0, 0},
	{"vipu-only", NULL, "no Kubernetes, only the V-IPU controllers", KIND_FLAG, AT(vipu_only),
	 0, 0},
	{"verbose", NULL, "log more", KIND_FLAG, AT(verbose), 0, 0},
	{"version", NULL, "print the version, and exit", KIND_FLAG, AT(version), 0, 0},
	{"help", NULL, "print this, and exit", KIND_FLAG, AT(help), 0, 0},
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

void sim_options_print_help(void)
{
	printf("Usage: ipu-sim --dir DIR [OPTION]...\n"
	       "       ipu-sim --vipu-only [OPTION]...\n"
	       "Simulates a Kubernetes API server, its nodes, and V-IPU controllers, on this machine.\n"
	       "\n");
	for (size_t i = 0; i < KNOWN; i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", known[i].name, known[i].value ? " " : "",
			 known[i].value ? known[i].value : "");
		if (strlen(left) > 27)
			printf("  %s\n  %-27s  %s\n", left, "", known[i].help);
		else
			printf("  %-27s  %s\n", left, known[i].help);
	}
	printf("\n"
	       "Times are in milliseconds. doc/reference/ipu-sim.md describes the end-points of\n"
	       "--admin-listen.\n"
	       "\n"
	       "Exit status: 0 after SIGTERM or SIGINT, 1 when it can't go on, 2 for a wrong command\n"
	       "line.\n");
}

static void add_text(struct sim_texts *list, const char *value)
{
	list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
	list->items[list->n++] = value;
}

static int take_value(struct sim_options *o, const struct known *k, const char *value,
		      struct err *err)
{
	char *at = (char *)o + k->offset;
	int64_t n;

	switch (k->kind) {
	case KIND_TEXT:
		if (!value[0])
			return err_set(err, ERR_INVALID, 0, "--%s: must not be empty", k->name);
		*(const char **)(void *)at = value;
		return 0;
	case KIND_NUMBER:
		if (str_to_int(str_of(value), k->least, k->most, &n, NULL) < 0)
			return err_set(err, ERR_INVALID, 0,
				       "--%s: must be a whole number from %" PRId64 " to %" PRId64
				       ", not \"%s\"",
				       k->name, k->least, k->most, value);
		*(unsigned *)(void *)at = (unsigned)n;
		return 0;
	case KIND_TEXTS:
		add_text((struct sim_texts *)(void *)at, value);
		return 0;
	default:
		*(bool *)(void *)at = true;
		return 0;
	}
}

static int take_all(int argc, char **argv, struct sim_options *o, struct err *err)
{
	struct option table[KNOWN + 1] = {0};
	int c, index = 0;

	for (size_t i = 0; i < KNOWN; i++) {
		table[i].name = known[i].name;
		table[i].has_arg = known[i].value ? required_argument : no_argument;
	}
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, ":", table, &index)) != -1) {
		const char *word = argv[optind - 1];

		if (c == ':')
			return err_set(err, ERR_INVALID, 0, "%s: needs a value; see --help", word);
		if (c == '?')
			return err_set(err, ERR_INVALID, 0,
				       "%s: there is no such option; see --help", word);
		if (take_value(o, &known[index], optarg, err) < 0)
			return -1;
	}
	if (optind < argc)
		return err_set(err, ERR_INVALID, 0, "%s: not an option; see --help", argv[optind]);
	return 0;
}

static int check(const struct sim_options *o, struct err *err)
{
	if (o->help || o->version)
		return 0;
	if (o->dir && o->vipu_only)
		return err_set(
			err, ERR_INVALID, 0,
			"--dir and --vipu-only don't go together: without Kubernetes there is "
			"no kubeconfig");
	if (!o->dir && !o->vipu_only)
		return err_set(err, ERR_INVALID, 0,
			       "--dir is needed: the kubeconfig goes there; see --help");
	return 0;
}

int sim_options_parse(int argc, char **argv, struct sim_options *ret, struct err *err)
{
	struct sim_options o = {
		.api_listen = "127.0.0.1:0",
		.plain_listen = "127.0.0.1:0",
		.admin_listen = "127.0.0.1:0",
		.vipu_listen = "127.0.0.1:0",
		.controllers = 1,
		.agents = 16,
		.nodes = 1,
		.create_ms = 500,
		.reset_ms = 300,
		.remove_ms = 300,
		.pods = SIM_POD_BEHAVIOUR_INIT,
	};

	if (take_all(argc, argv, &o, err) < 0 || check(&o, err) < 0) {
		sim_options_done(&o);
		return -1;
	}
	*ret = o;
	return 0;
}

void sim_options_done(struct sim_options *o)
{
	free(o->node_labels.items);
	free(o->programs.items);
	free(o->pod_settings.items);
	free(o->vipu_faults.items);
	free(o->vipu_secure.items);
	*o = (struct sim_options){0};
}
