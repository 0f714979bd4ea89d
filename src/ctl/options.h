/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ipuctl: options and words may stand in any order. Strings are borrowed from
 * argv and from the environment.
 */
#ifndef IPU_CTL_OPTIONS_H
#define IPU_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

#define CTL_NAMESPACE  "ipu-operator"
#define CTL_SERVICE    "ipu-operator-vipu-proxy"
#define CTL_CONFIG_MAP "ipu-operator-vipu-controllers"
#define CTL_TIMEOUT_S  10

enum ctl_output { CTL_TABLE, CTL_WIDE, CTL_JSON, CTL_YAML };

/* What a command takes beside the options of all. */
enum {
	CTL_TAKES_OUTPUT = 1 << 0,
	CTL_TAKES_WATCH = 1 << 1,
	CTL_TAKES_CONFIG_MAP = 1 << 2,
	CTL_TAKES_WAIT = 1 << 3,
	CTL_TAKES_FILES = 1 << 4,
	CTL_TAKES_NAMESPACE = 1 << 5,
	CTL_TAKES_RENDER = 1 << 6, /* --controller and --config */
	CTL_TAKES_TOP = 1 << 7,    /* --once and --interval */
	CTL_TAKES_BUNDLE = 1 << 8, /* -o FILE, --dry-run and --log-mib */
	CTL_TAKES_FORCE = 1 << 9,
	CTL_TAKES_CHECK = 1 << 10,
	CTL_TAKES_RDMA = 1 << 11,     /* controllers, and which network */
	CTL_TAKES_RDMA_POD = 1 << 12, /* node, resource and the test Pod */
	CTL_TAKES_MACVLAN = 1 << 13,  /* what goes into the manifest, and whether it's applied */
	CTL_TAKES_NODES = 1 << 14,    /* all of them, and --dry-run */
	CTL_TAKES_UI = 1 << 15,       /* --port and --no-browser */
	/* Whom to ask and for how long: no command refuses these, and those that ask nobody don't
	 * show them. */
	CTL_TAKES_LINK = 1 << 16,
};

enum ctl_color { CTL_COLOR_AUTO, CTL_COLOR_ALWAYS, CTL_COLOR_NEVER };

struct ctl_options {
	const char *server; /* NULL: by the kubeconfig */
	bool server_by_env;
	const char *ca_file, *kubeconfig, *context; /* NULL: not given */
	const char *ns, *service, *config_map;      /* ns: the operator's */
	const char *job_ns;                         /* --namespace; NULL: not given */
	unsigned timeout_s, wait_s;                 /* wait_s 0: don't wait */
	const char *out;                            /* -o as it was given; NULL: wasn't */
	enum ctl_output output;                     /* the same, where it is a format */
	const char *controller, *config;            /* of render; NULL: not given */
	unsigned interval_s, log_mib;               /* 0: not given */
	/* Of rdma check and rdma macvlan; NULL, 0 and false: not given. */
	const char *network, *network_ns, *root, *cni_folder, *node, *resource, *image;
	const char *interface, *subnet, *exclude, *mode; /* exclude may be "" */
	unsigned mtu, user;
	const char *instance; /* of node clean; NULL: not given */
	unsigned port;        /* 0: not given */
	bool test_pod, inside, attachment, apply, no_browser;
	const char *color_word;
	enum ctl_color color;
	bool no_headers, watch, check, force, once, dry_run, all, help, version;

	const char **files; /* --filename, in order; part of an array as long as argv */
	size_t n_files;
	char **words; /* the command's name and its operands: a part of argv */
	size_t n_words;
	uint64_t given; /* a bit for each row of the options' table */
};

/* Reorders argv. ERR_INVALID: what is wrong with it. */
int ctl_options_parse(int argc, char **argv, struct ctl_options *ret, struct err *err);
void ctl_options_done(struct ctl_options *o);
/* Against a command that takes these: ERR_INVALID where another one was given, or -o isn't one of
 * the formats (which it needn't be with CTL_TAKES_BUNDLE). */
int ctl_options_check(struct ctl_options *o, const char *command, unsigned takes, struct err *err);
/* The options alone, as a part of a help text; takes: those that a command has of its own. */
void ctl_options_print(unsigned takes);
/* Their words ("--output", "-o"), a line each, for completion. */
void ctl_options_list(unsigned takes, struct buf *out);
/* Whether the value of this word ("-o", "--output") stands behind it in a word of its own, and what
 * kind it is: "file", "namespace", …; NULL: it has none. */
const char *ctl_options_value_of(const char *word);

#endif
