/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table says what options there are, which commands take them and where a value goes.
 */
#include "ctl/options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

enum kind {
	KIND_TEXT,
	KIND_MAY_BE_EMPTY,
	KIND_SECONDS,
	KIND_NUMBER, /* of 16 bits, as ports have; not 0 */
	KIND_USER,
	KIND_FLAG,
	KIND_FILES
};

#define AT(member) offsetof(struct ctl_options, member)
#define DAY_S      86400

/* Two rows of one name are one option, which means another thing in other commands: the first one
 * is parsed. */
static const struct known {
	const char *name, *value, *help;
	char letter; /* 0: none */
	enum kind kind;
	size_t offset;
	unsigned takes; /* of which commands; 0: of all */
} known[] = {
	{"output", "FORMAT", "json, yaml, wide (more columns), or table", 'o', KIND_TEXT, AT(out),
	 CTL_TAKES_OUTPUT | CTL_TAKES_BUNDLE},
	{"output", "FILE",
	 "write it there: NAME.tar, NAME.tar.gz (by gzip), - (standard\n"
	 "output); default: ipu-support-TIME.tar",
	 'o', KIND_TEXT, AT(out), CTL_TAKES_BUNDLE},
	{"no-headers", NULL, "a table without its heads", 0, KIND_FLAG, AT(no_headers),
	 CTL_TAKES_OUTPUT},
	{"watch", NULL, "look every 2 seconds, and print again what has changed", 'w', KIND_FLAG,
	 AT(watch), CTL_TAKES_WATCH},
	{"check", NULL, "exit status 1 unless all of them answer", 0, KIND_FLAG, AT(check),
	 CTL_TAKES_CHECK},
	{"filename", "FILE",
	 "a manifest, a folder of manifests, or - for standard input; may\n"
	 "be given several times",
	 'f', KIND_FILES, 0, CTL_TAKES_FILES},
	{"namespace", "NAME", "of jobs and Pods (default: the kubeconfig's)", 'n', KIND_TEXT,
	 AT(job_ns), CTL_TAKES_NAMESPACE},
	/* rdma */
	{"network", "NAME", "the additional network of Pods (default rdma-net)", 0, KIND_TEXT,
	 AT(network), CTL_TAKES_RDMA},
	{"network-namespace", "NAME", "where it is defined (default: default)", 0, KIND_TEXT,
	 AT(network_ns), CTL_TAKES_RDMA},
	{"root", "FOLDER", "where the machine's file system is seen (default: /)", 0, KIND_TEXT,
	 AT(root), CTL_TAKES_RDMA},
	{"cni-folder", "FOLDER", "the container runtime's networks (default: found)", 0, KIND_TEXT,
	 AT(cni_folder), CTL_TAKES_RDMA},
	{"node", "NAME", "the Node that is looked at (default: this machine's)", 0, KIND_TEXT,
	 AT(node), CTL_TAKES_RDMA_POD},
	{"resource", "NAME", "the Node's RDMA resource (default: the operator's, or any rdma/...)",
	 0, KIND_TEXT, AT(resource), CTL_TAKES_RDMA_POD},
	{"test-pod", NULL, "make a Pod with the network, look out of it, and remove it", 0,
	 KIND_FLAG, AT(test_pod), CTL_TAKES_RDMA_POD},
	{"image", "NAME", "the test Pod's; has ipuctl (default: the operator's)", 0, KIND_TEXT,
	 AT(image), CTL_TAKES_RDMA_POD},
	{"user", "UID", "the test Pod's user (default: root)", 0, KIND_USER, AT(user),
	 CTL_TAKES_RDMA_POD},
	{"inside", NULL, "print what this network namespace has; the test Pod runs this", 0,
	 KIND_FLAG, AT(inside), CTL_TAKES_RDMA_POD},
	{"interface", "NAME", "the RDMA interface (default: which reaches the controller)", 0,
	 KIND_TEXT, AT(interface), CTL_TAKES_MACVLAN},
	{"subnet", "CIDR", "where Pods get addresses (default: the interface's)", 0, KIND_TEXT,
	 AT(subnet), CTL_TAKES_MACVLAN},
	{"exclude", "CIDR[,CIDR]...",
	 "which of it they don't get; '' for none (default: the first 128\n"
	 "addresses, or the first half of a small subnet)",
	 0, KIND_MAY_BE_EMPTY, AT(exclude), CTL_TAKES_MACVLAN},
	{"mtu", "BYTES", "of Pods' interface (default: the interface's)", 0, KIND_NUMBER, AT(mtu),
	 CTL_TAKES_MACVLAN},
	{"mode", "MODE", "bridge (default), private, vepa or passthru", 0, KIND_TEXT, AT(mode),
	 CTL_TAKES_MACVLAN},
	{"attachment", NULL,
	 "a NetworkAttachmentDefinition instead, for clusters without\n"
	 "NVIDIA's network operator",
	 0, KIND_FLAG, AT(attachment), CTL_TAKES_MACVLAN},
	{"apply", NULL, "write it to the cluster, instead of printing it", 0, KIND_FLAG, AT(apply),
	 CTL_TAKES_MACVLAN},
	{"controller", "FORM",
	 "api (Pods ask the V-IPU controller; default) or file (they get a\n"
	 "file): the controller's ipuofConfig",
	 0, KIND_TEXT, AT(controller), CTL_TAKES_RENDER | CTL_TAKES_RDMA},
	{"controller", "HOST:PORT[,...]",
	 "the V-IPU controllers (default: those of --config, else of the\n"
	 "cluster's ConfigMap, else of /etc/ipu-operator/operator.yaml)",
	 0, KIND_TEXT, AT(controller), CTL_TAKES_RDMA},
	{"config", "FILE", "the operator's configuration (default: its defaults)", 0, KIND_TEXT,
	 AT(config), CTL_TAKES_RENDER | CTL_TAKES_RDMA},
	{"once", NULL, "print it once, as where standard output is no terminal", 0, KIND_FLAG,
	 AT(once), CTL_TAKES_TOP},
	{"interval", "SECONDS", "look again after so long (default 2)", 0, KIND_SECONDS,
	 AT(interval_s), CTL_TAKES_TOP},
	{"port", "NUMBER", "the page's on this machine (default: any that is free)", 0, KIND_NUMBER,
	 AT(port), CTL_TAKES_UI},
	{"no-browser", NULL, "print the address, and start no browser", 0, KIND_FLAG,
	 AT(no_browser), CTL_TAKES_UI},
	{"dry-run", NULL, "list what would be taken, and ask nobody", 0, KIND_FLAG, AT(dry_run),
	 CTL_TAKES_BUNDLE | CTL_TAKES_MACVLAN | CTL_TAKES_NODES},
	{"dry-run", NULL, "the API server looks at it, and changes nothing", 0, KIND_FLAG,
	 AT(dry_run), CTL_TAKES_MACVLAN | CTL_TAKES_NODES},
	{"all", NULL, "all Nodes of the cluster", 0, KIND_FLAG, AT(all), CTL_TAKES_NODES},
	{"log-mib", "NUMBER", "at most so much of each container's log (default 2)", 0, KIND_NUMBER,
	 AT(log_mib), CTL_TAKES_BUNDLE},
	{"force", NULL, "take names that the operator doesn't know", 0, KIND_FLAG, AT(force),
	 CTL_TAKES_FORCE | CTL_TAKES_NODES},
	{"force", NULL, "clean Nodes of which the role node has just spoken, too", 0, KIND_FLAG,
	 AT(force), CTL_TAKES_NODES},
	{"instance", "NAME", "after the helm release of this name was uninstalled", 0, KIND_TEXT,
	 AT(instance), CTL_TAKES_NODES},
	{"config-map", "NAME", "the controllers' (default " CTL_CONFIG_MAP ")", 0, KIND_TEXT,
	 AT(config_map), CTL_TAKES_CONFIG_MAP},
	{"wait", "SECONDS", "wait so long at most until it is so", 0, KIND_SECONDS, AT(wait_s),
	 CTL_TAKES_WAIT},
	{"server", "URL",
	 "where the operator's proxy is (default: IPUCTL_SERVER, else a way\n"
	 "through the API server)",
	 's', KIND_TEXT, AT(server), CTL_TAKES_LINK},
	{"ca-file", "FILE", "trust the certificates in FILE, for an https URL", 0, KIND_TEXT,
	 AT(ca_file), CTL_TAKES_LINK},
	{"kubeconfig", "FILE", "default: as for kubectl", 0, KIND_TEXT, AT(kubeconfig),
	 CTL_TAKES_LINK},
	{"context", "NAME", "of the kubeconfig", 0, KIND_TEXT, AT(context), CTL_TAKES_LINK},
	{"operator-namespace", "NAME",
	 "where the operator's objects are (default " CTL_NAMESPACE ")", 0, KIND_TEXT, AT(ns),
	 CTL_TAKES_LINK},
	{"service", "NAME[:PORT]", "the proxy's Service (default " CTL_SERVICE ":80)", 0, KIND_TEXT,
	 AT(service), CTL_TAKES_LINK},
	{"timeout", "SECONDS", "give up an unanswered request (default 10)", 't', KIND_SECONDS,
	 AT(timeout_s), CTL_TAKES_LINK},
	{"color", "WHEN", "auto (on a terminal, unless NO_COLOR is set), always or never", 0,
	 KIND_TEXT, AT(color_word), 0},
	{"version", NULL, "print the version, and exit", 0, KIND_FLAG, AT(version), 0},
	{"help", NULL, "print help, about a command if one is named, and exit", 'h', KIND_FLAG,
	 AT(help), 0},
};
#define KNOWN (sizeof(known) / sizeof(known[0]))
_Static_assert(KNOWN <= 64, "struct ctl_options.given has a bit for each row");

static void print_help_text(const char *text)
{
	for (const char *line = text; line;) {
		const char *end = strchr(line, '\n');
		int len = (int)(end ? (size_t)(end - line) : strlen(line));

		printf("%*s%.*s\n", line == text ? 0 : 33, "", len, line);
		line = end ? end + 1 : NULL;
	}
}

/* Of two rows of one name the second one, where it is about this command. */
static bool is_shown(size_t i, unsigned takes)
{
	const struct known *k = &known[i];
	bool doubled = i + 1 < KNOWN && strcmp(k->name, known[i + 1].name) == 0;
	unsigned own = k->takes & (doubled ? ~known[i + 1].takes : ~0U);

	return !k->takes || own & takes;
}

void ctl_options_print(unsigned takes)
{
	for (size_t i = 0; i < KNOWN; i++) {
		const struct known *k = &known[i];
		char letter[8] = "    ", left[64];

		if (!is_shown(i, takes))
			continue;
		if (k->letter)
			snprintf(letter, sizeof(letter), "-%c, ", k->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, k->name, k->value ? " " : "",
			 k->value ? k->value : "");
		if (strlen(left) > 29)
			printf("  %s\n%33s", left, "");
		else
			printf("  %-29s  ", left);
		print_help_text(k->help);
	}
}

static int64_t most_of(enum kind kind)
{
	return kind == KIND_SECONDS ? DAY_S : kind == KIND_USER ? INT32_MAX : UINT16_MAX;
}

static int take_value(struct ctl_options *o, const struct known *k, const char *value,
		      struct err *err)
{
	char *at = (char *)o + k->offset;
	int64_t n;

	o->given |= UINT64_C(1) << (k - known);
	switch (k->kind) {
	case KIND_TEXT:
	case KIND_MAY_BE_EMPTY:
		if (!value[0] && k->kind == KIND_TEXT)
			return err_set(err, ERR_INVALID, 0, "--%s: must not be empty", k->name);
		*(const char **)(void *)at = value;
		return 0;
	case KIND_SECONDS:
	case KIND_NUMBER:
	case KIND_USER:
		if (str_to_int(str_of(value), 1, most_of(k->kind), &n, NULL) < 0)
			return err_set(err, ERR_INVALID, 0,
				       "--%s: must be a whole number%s from 1 to %" PRId64
				       ", not \"%s\"",
				       k->name, k->kind == KIND_SECONDS ? " of seconds" : "",
				       most_of(k->kind), value);
		*(unsigned *)(void *)at = (unsigned)n;
		return 0;
	case KIND_FILES:
		if (!value[0])
			return err_set(err, ERR_INVALID, 0, "--%s: must not be empty", k->name);
		o->files[o->n_files++] = value;
		return 0;
	default:
		*(bool *)(void *)at = true;
		return 0;
	}
}

static const struct known *known_of(int c, int index)
{
	if (c == 0)
		return &known[index];
	for (size_t i = 0; i < KNOWN; i++) {
		if (known[i].letter == c)
			return &known[i];
	}
	return NULL;
}

static int take_all(int argc, char **argv, struct ctl_options *o, struct err *err)
{
	struct option table[KNOWN + 1] = {0};
	char letters[2 * KNOWN + 2] = ":", *end = letters + 1;
	int c, index = 0;

	for (size_t i = 0; i < KNOWN; i++) {
		if (i > 0 && strcmp(known[i].name, known[i - 1].name) == 0) {
			table[i].name = ""; /* keeps its place; no word is that */
			continue;
		}
		table[i].name = known[i].name;
		table[i].has_arg = known[i].value ? required_argument : no_argument;
		if (known[i].letter)
			*end++ = known[i].letter;
		if (known[i].letter && known[i].value)
			*end++ = ':';
	}
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, letters, table, &index)) != -1) {
		const char *word = argv[optind - 1];
		const struct known *k = c == ':' || c == '?' ? NULL : known_of(c, index);

		if (c == ':')
			return err_set(err, ERR_INVALID, 0, "%s: needs a value; see --help", word);
		/* Of several letters in a word getopt hasn't gone on from it: optopt has it. */
		if (!k && optopt)
			return err_set(err, ERR_INVALID, 0,
				       "-%c: there is no such option; see --help", optopt);
		if (!k)
			return err_set(err, ERR_INVALID, 0,
				       "%s: there is no such option; see --help", word);
		if (take_value(o, k, optarg, err) < 0)
			return -1;
	}
	return 0;
}

static int take_output(enum ctl_output *ret, const char *value, struct err *err)
{
	static const char *const names[] = {[CTL_TABLE] = "table",
					    [CTL_WIDE] = "wide",
					    [CTL_JSON] = "json",
					    [CTL_YAML] = "yaml"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			*ret = (enum ctl_output)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0,
		       "--output: must be json, yaml, wide or table, not \"%s\"", value);
}

static int take_color(enum ctl_color *ret, const char *value, struct err *err)
{
	static const char *const names[] = {[CTL_COLOR_AUTO] = "auto",
					    [CTL_COLOR_ALWAYS] = "always",
					    [CTL_COLOR_NEVER] = "never"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			*ret = (enum ctl_color)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0, "--color: must be auto, always or never, not \"%s\"",
		       value);
}

int ctl_options_parse(int argc, char **argv, struct ctl_options *ret, struct err *err)
{
	const char *server = getenv("IPUCTL_SERVER");
	struct ctl_options o = {
		.ns = CTL_NAMESPACE,
		.service = CTL_SERVICE,
		.config_map = CTL_CONFIG_MAP,
		.timeout_s = CTL_TIMEOUT_S,
	};

	o.files = xcalloc((size_t)argc + 1, sizeof(*o.files));
	if (take_all(argc, argv, &o, err) < 0 ||
	    (o.color_word && take_color(&o.color, o.color_word, err) < 0)) {
		free(o.files);
		return -1;
	}
	/* Whoever names a kubeconfig on the command line means it, whatever the environment says.
	 */
	if (!o.server && server && server[0] && !o.kubeconfig && !o.context) {
		o.server = server;
		o.server_by_env = true;
	}
	o.words = argv + optind;
	o.n_words = (size_t)(argc - optind);
	*ret = o;
	return 0;
}

void ctl_options_done(struct ctl_options *o)
{
	free(o->files);
	o->files = NULL;
}

int ctl_options_check(struct ctl_options *o, const char *command, unsigned takes, struct err *err)
{
	takes |= CTL_TAKES_LINK;
	for (size_t i = 0; i < KNOWN; i++) {
		if (o->given & UINT64_C(1) << i && known[i].takes && !(known[i].takes & takes))
			return err_set(err, ERR_INVALID, 0, "%s: takes no --%s; see %s --help",
				       command, known[i].name, command);
	}
	return o->out && takes & CTL_TAKES_OUTPUT ? take_output(&o->output, o->out, err) : 0;
}

void ctl_options_list(unsigned takes, struct buf *out)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (!is_shown(i, takes))
			continue;
		(void)buf_printf(out, NULL, "--%s\n", known[i].name);
		if (known[i].letter)
			(void)buf_printf(out, NULL, "-%c\n", known[i].letter);
	}
}

const char *ctl_options_value_of(const char *word)
{
	for (size_t i = 0; i < KNOWN; i++) {
		char letter[3] = {'-', known[i].letter};

		if ((strncmp(word, "--", 2) == 0 && strcmp(word + 2, known[i].name) == 0) ||
		    (known[i].letter && strcmp(word, letter) == 0))
			return known[i].value ? known[i].name : NULL;
	}
	return NULL;
}
