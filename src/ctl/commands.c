/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of sub-commands, and those that show something: ask, then print as a table, JSON or
 * YAML.
 */
#include "ctl/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/yaml.h"
#include "ctl/views.h"

#define WATCH_MS       2000
#define MAX_TEXT_BYTES ((size_t)256 << 20)

/* ---- printing ---- */

int ctl_write_out(struct str text, struct err *err)
{
	if ((text.len == 0 || fwrite(text.p, 1, text.len, stdout) == text.len) &&
	    fflush(stdout) == 0)
		return 0;
	if (errno == EPIPE) { /* ignored only for the sockets' sake (net_new) */
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	return err_errno(err, errno, "standard output");
}

int ctl_write_value(const struct json *v, enum ctl_output output, struct buf *out, struct err *err)
{
	if (output == CTL_YAML)
		return yaml_write(v, out, err);
	return json_write(v, JSON_PRETTY, out, err) < 0 ? -1 : buf_append(out, "\n", 1, err);
}

static bool is_table(const struct ctl_options *o)
{
	return o->output == CTL_TABLE || o->output == CTL_WIDE;
}

static int render(const struct ctl_options *o, const struct json *answer,
		  const struct ctl_table *table, struct buf *out, struct err *err)
{
	if (!is_table(o))
		return ctl_write_value(answer, o->output, out, err);
	return ctl_table_rows(table) == 0 ? 0 : ctl_table_write(table, !o->no_headers, out, err);
}

static int print(const struct ctl_options *o, const struct json *answer,
		 const struct ctl_table *table, struct err *err)
{
	struct buf out = BUF_INIT(MAX_TEXT_BYTES);
	int result = render(o, answer, table, &out, err);

	if (result == 0)
		result = ctl_write_out(buf_str(&out), err);
	buf_done(&out);
	return result;
}

/* ---- showing ---- */

typedef struct ctl_table *view_fn(const struct json *answer, bool wide);

static int show_once(const struct ctl_options *o, const struct json *answer, view_fn *view,
		     const char *if_empty, struct err *err)
{
	struct ctl_table *table = view(answer, o->output == CTL_WIDE);
	int result = print(o, answer, table, err);

	if (result == 0 && is_table(o) && ctl_table_rows(table) == 0)
		fprintf(stderr, "%s\n", if_empty);
	ctl_table_free(table);
	return result;
}

/* With --watch again whenever the answer has changed, until an error or a signal. */
static int show(struct ctl_link *link, const struct ctl_options *o, const char *path, view_fn *view,
		const char *if_empty, struct err *err)
{
	struct json_doc *shown = NULL, *doc;
	int result = 0;

	while (result == 0) {
		result = ctl_link_ask(link, path, STR_NULL, &doc, err);
		if (result < 0)
			break;
		if (!shown || !json_equal(json_root(doc), json_root(shown))) {
			if (shown)
				result = ctl_write_out(o->output == CTL_YAML ? STR("---\n")
						       : is_table(o)         ? STR("\n")
									     : STR(""),
						       err);
			if (result == 0)
				result = show_once(o, json_root(doc), view, if_empty, err);
		}
		json_doc_free(shown);
		shown = doc;
		if (!o->watch)
			break;
		ctl_link_pause(link, WATCH_MS);
	}
	json_doc_free(shown);
	return result;
}

static int run_stats(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	return show(link, o, "/stats", ctl_view_stats, "", err);
}

static int run_capacity(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	return show(link, o, "/capacity", ctl_view_capacity, "", err);
}

static int run_partitions(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	return show(link, o, "/partitions", ctl_view_partitions, "The operator has no partitions.",
		    err);
}

static int run_queue(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	return show(link, o, "/queue", ctl_view_queue, "Nobody waits for IPUs.", err);
}

static int run_query(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	CLEANUP_FREE char *path = NULL;
	int64_t size;

	if (str_to_int(str_of(o->words[0]), 1, UINT32_MAX, &size, NULL) < 0)
		return err_set(err, ERR_INVALID, 0,
			       "query: the size must be a whole number of IPUs above 0, not \"%s\"",
			       o->words[0]);
	path = xasprintf("/query?size=%" PRId64, size);
	if (ctl_link_ask(link, path, STR_NULL, &doc, err) < 0)
		return -1;
	return show_once(o, json_root(doc), ctl_view_query, "", err);
}

/* With --check: an error unless there are some, and all answer. */
static int check_controllers(const struct ctl_options *o, const struct json *answer,
			     struct err *err)
{
	struct json_iter it = json_iter(json_get(answer, "items"));
	size_t n = 0, silent = 0;

	for (; json_next(&it); n++)
		silent += !json_bool(json_get(it.value, "reachable"), false);
	if (!o->check || (n > 0 && silent == 0))
		return 0;
	return n == 0 ? err_set(err, ERR_NOT_FOUND, 0, "there is no V-IPU controller")
		      : err_set(err, ERR_NOT_FOUND, 0,
				"%zu of %zu V-IPU controllers can't be reached", silent, n);
}

/* JSON and YAML are what /controllers says; the table has IPUs from /capacity too. */
static int run_controllers(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL, *capacity = NULL;
	struct ctl_table *table;
	int result;

	if (ctl_link_ask(link, "/controllers", STR_NULL, &doc, err) < 0 ||
	    (is_table(o) && ctl_link_ask(link, "/capacity", STR_NULL, &capacity, err) < 0))
		return -1;
	table = ctl_view_controllers(json_root(doc), capacity ? json_root(capacity) : NULL,
				     o->output == CTL_WIDE);
	result = print(o, json_root(doc), table, err);
	if (result == 0 && is_table(o) && !o->check && ctl_table_rows(table) == 0)
		fprintf(stderr, "The operator has no controllers.\n");
	ctl_table_free(table);
	return result < 0 ? -1 : check_controllers(o, json_root(doc), err);
}

/* ---- the commands ---- */

#define ANY_NUMBER 4096

#define ABOUT_CHANGES                                                                              \
	"Changes an annotation of the controllers' ConfigMap through the Kubernetes API, for\n"    \
	"which a kubeconfig is needed. NAME is as the table of controllers shows it.\n"

#define ABOUT_VALIDATE                                                                              \
	"FILE (with or without -f) is YAML or JSON with any number of objects, - standard input,\n" \
	"or a folder of *.yaml, *.yml and *.json. All that is wrong with IPUJobs, and with Pods\n"  \
	"that ask for IPUs by annotation, is told with its place, then what is legal but unwise.\n" \
	"Nobody is asked: the cluster's own limits, and whether the Pods would be accepted, are\n"  \
	"the webhook's to say.\n"

#define ABOUT_RENDER                                                                                 \
	"Manifests are named as for validate. Printed are the IPUJob with its defaults, its\n"       \
	"partition requests (as comments), Pods, ConfigMaps, PodGroups and what a launcher needs;\n" \
	"of a Pod that asks for IPUs by annotation what the webhook makes of it. YAML, or a list\n"  \
	"by -o json. What only a cluster knows stands <in brackets>. Nobody is asked.\n"

#define ABOUT_EXPLAIN                                                                                 \
	"Looks at the IPUJob, or the Pod that asks for IPUs by annotation, at its Pods and Events,\n" \
	"at the operator and its queue, at controllers, nodes, webhooks and quotas, as far as it\n"   \
	"may, and says in words what holds it up. Nothing is changed.\n"

#define ABOUT_TOP                                                                                      \
	"Controllers, namespaces and jobs, those with most IPUs first. On a terminal it looks again\n" \
	"every 2 seconds until q is typed; elsewhere, and by --once or -o, it looks once.\n"

#define ABOUT_UI                                                                                      \
	"Serves the operator's live page on this machine's loopback interface until Ctrl-C, prints\n" \
	"its address, and starts the browser on it ($BROWSER, else xdg-open). Jobs and Pods have\n"   \
	"names as far as the kubeconfig's user may list them; -n takes NAME,NAME.... Whoever has\n"   \
	"the address sees the page: it isn't to be given away.\n"

#define ABOUT_BUNDLE                                                                                     \
	"Versions, the operator's configuration, Pods, logs and Events, jobs and their Pods, nodes,\n"   \
	"webhooks, what the proxy says, health, rights of the accounts, as far as you\n"                 \
	"may see them. MANIFEST.txt in it lists what is there, and what couldn't be had. Look through\n" \
	"it before you give it away.\n"

#define ABOUT_RDMA_CHECK                                                                                \
	"Looks at this machine's RDMA driver, devices, ports and GIDs, at the way to each V-IPU\n"      \
	"controller, at locked memory, hugepages and the CNI folder; at Multus, Whereabouts and the\n"  \
	"network's definition in the cluster, at its Node and the operator's configuration; and with\n" \
	"--test-pod, for which it waits 120 s at most (--wait), out of a Pod in the namespace (-n).\n"  \
	"Each check passes, warns or fails, and says what to do; -o wide says it of skipped ones\n"     \
	"too. Run it as root on a head node. Exit status 1 when something failed.\n"

#define ABOUT_RDMA_MACVLAN                                                                            \
	"Prints a MacvlanNetwork for NVIDIA's network operator, made for this machine: run it on a\n" \
	"head node. Its comments say where each value comes from.\n"

#define ABOUT_NODE_CLEAN                                                                                \
	"What the role node has put there (the condition IPUFabricReady, labels, the taint), and\n"     \
	"graphcore.ai/ipu, for Nodes that are no head nodes any more, or when the operator is gone.\n"  \
	"Others' labels, taints and resources stay. A Node of which the role node has spoken within\n"  \
	"six minutes is left alone, unless --force says that it's gone. With --wait it first waits\n"   \
	"until the operator's Pods are gone. With --instance, for helm's hook, it waits for those of\n" \
	"that release alone, takes nothing where another one's are there, keeps what a role node has\n" \
	"said since, and says what it left alone, with status 0.\n"

#define ABOUT_CRD                                                                                  \
	"Waits until the API server serves it (--wait). Labels and annotations that others have\n" \
	"given it stay; nothing is ever removed. Doing it twice changes nothing.\n"

#define ABOUT_COMPLETION                                                                              \
	"The scripts are installed where bash and fish look for them by themselves, and zsh if its\n" \
	"fpath has that folder. Else: source <(ipuctl completion bash)\n"

const struct ctl_command ctl_commands[] = {
	{"stats", "", "IPUs in use and available, by namespace", NULL, 0, 0, CTL_TAKES_OUTPUT,
	 false, run_stats},
	{"query", "SIZE", "how many partitions of so many IPUs could be made now", NULL, 1, 1,
	 CTL_TAKES_OUTPUT, false, run_query},
	{"capacity", "", "IPUs in use, reserved and free, by controller", NULL, 0, 0,
	 CTL_TAKES_OUTPUT, false, run_capacity},
	{"partitions", "", "the operator's partitions and their owners", NULL, 0, 0,
	 CTL_TAKES_OUTPUT | CTL_TAKES_WATCH, false, run_partitions},
	{"queue", "", "who waits for IPUs, in which order, and for what", NULL, 0, 0,
	 CTL_TAKES_OUTPUT | CTL_TAKES_WATCH, false, run_queue},
	{"controllers", "", "the V-IPU controllers, their state and IPUs",
	 "Behind it may stand cordon, uncordon or drain with their operands.\n", 0, 0,
	 CTL_TAKES_OUTPUT | CTL_TAKES_CHECK, false, run_controllers},
	{"cordon", "NAME...", "make no new partitions on these controllers", ABOUT_CHANGES, 1,
	 ANY_NUMBER, CTL_TAKES_CONFIG_MAP | CTL_TAKES_FORCE, true, ctl_run_cordon},
	{"uncordon", "NAME...", "use these controllers again, cordoned or drained", ABOUT_CHANGES,
	 1, ANY_NUMBER, CTL_TAKES_CONFIG_MAP | CTL_TAKES_FORCE, true, ctl_run_uncordon},
	{"drain", "NAME...", "empty these controllers: their jobs are told to move", ABOUT_CHANGES,
	 1, ANY_NUMBER, CTL_TAKES_CONFIG_MAP | CTL_TAKES_FORCE | CTL_TAKES_WAIT, true,
	 ctl_run_drain},
	{"validate", "[FILE]...", "what the operator would say of manifests", ABOUT_VALIDATE, 0,
	 ANY_NUMBER, CTL_TAKES_FILES | CTL_TAKES_OUTPUT, false, ctl_run_validate, .alone = true,
	 .offline = true},
	{"render", "[FILE]...", "what would be created for manifests", ABOUT_RENDER, 0, ANY_NUMBER,
	 CTL_TAKES_FILES | CTL_TAKES_OUTPUT | CTL_TAKES_NAMESPACE | CTL_TAKES_RENDER, false,
	 ctl_run_render, .alone = true, .offline = true},
	{"explain", "JOB|pod/POD", "why it waits, what comes next, and what can be done",
	 ABOUT_EXPLAIN, 1, 1, CTL_TAKES_OUTPUT | CTL_TAKES_NAMESPACE | CTL_TAKES_CONFIG_MAP, true,
	 ctl_run_explain},
	{"top", "", "who has IPUs, how many and for how long, as it changes", ABOUT_TOP, 0, 0,
	 CTL_TAKES_OUTPUT | CTL_TAKES_NAMESPACE | CTL_TAKES_TOP, false, ctl_run_top},
	{"ui", "", "the operator's live page in the browser", ABOUT_UI, 0, 0,
	 CTL_TAKES_UI | CTL_TAKES_NAMESPACE, false, ctl_run_ui, .has_kube = true},
	{"rdma check", "", "whether this machine and the cluster are fit for IPU work over RDMA",
	 ABOUT_RDMA_CHECK, 0, 0,
	 CTL_TAKES_OUTPUT | CTL_TAKES_RDMA | CTL_TAKES_RDMA_POD | CTL_TAKES_NAMESPACE |
		 CTL_TAKES_CONFIG_MAP | CTL_TAKES_WAIT,
	 false, ctl_run_rdma_check, .alone = true},
	{"rdma macvlan", "", "the manifest of Pods' network on this machine's RDMA interface",
	 ABOUT_RDMA_MACVLAN, 0, 0, CTL_TAKES_RDMA | CTL_TAKES_MACVLAN | CTL_TAKES_CONFIG_MAP, false,
	 ctl_run_rdma_macvlan, .alone = true},
	{"node clean", "[NODE]...", "take off Nodes what the operator has put there",
	 ABOUT_NODE_CLEAN, 0, ANY_NUMBER, CTL_TAKES_NODES | CTL_TAKES_WAIT, true,
	 ctl_run_node_clean},
	{"support-bundle", "", "all that an expert needs, without secrets, as one archive",
	 ABOUT_BUNDLE, 0, 0, CTL_TAKES_BUNDLE, true, ctl_run_bundle},
	{"crd print", "", "the CustomResourceDefinition of IPUJobs that belongs to this version",
	 NULL, 0, 0, 0, false, ctl_run_crd_print, .alone = true, .offline = true},
	{"crd apply", "", "make it, or change it to this version's", ABOUT_CRD, 0, 0,
	 CTL_TAKES_WAIT, true, ctl_run_crd_apply},
	{"completion", "SHELL", "a script that completes ipuctl's words: bash, zsh or fish",
	 ABOUT_COMPLETION, 1, 1, 0, false, ctl_run_completion, .alone = true, .offline = true},
	{.name = NULL},
};

/* How many words of the command line the name is; 0: it's another. */
static size_t words_of(const char *name, char *const *words, size_t n_words)
{
	const char *space = strchr(name, ' ');
	size_t len = space ? (size_t)(space - name) : strlen(name);

	if (n_words == 0 || strlen(words[0]) != len || memcmp(name, words[0], len) != 0)
		return 0;
	if (!space)
		return 1;
	return n_words > 1 && strcmp(space + 1, words[1]) == 0 ? 2 : 0;
}

const struct ctl_command *ctl_command_find(char *const *words, size_t n_words, size_t *ret_used)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		size_t used = words_of(c->name, words, n_words);

		if (used) {
			*ret_used = used;
			return c;
		}
	}
	return NULL;
}

unsigned ctl_command_shows(const struct ctl_command *c)
{
	unsigned takes = c ? c->takes : 0;

	return c && c->offline ? takes : takes | CTL_TAKES_LINK;
}

const char *ctl_command_below(const struct ctl_command *c, const char *word)
{
	size_t len = strlen(word);

	return strncmp(c->name, word, len) == 0 && c->name[len] == ' ' ? c->name + len + 1 : NULL;
}

int ctl_command_missing(char *const *words, size_t n_words, struct err *err)
{
	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (ctl_command_below(c, words[0]))
			return err_set(err, ERR_INVALID, 0, "%s: there is no %s %s; see %s --help",
				       words[0], words[0], n_words > 1 ? words[1] : "alone",
				       words[0]);
	}
	return err_set(err, ERR_INVALID, 0, "%s: there is no such command; see --help", words[0]);
}

int ctl_command_choose(struct ctl_options *o, const struct ctl_command **ret, struct err *err)
{
	const struct ctl_command *c, *inner;
	size_t used;

	if (o->n_words == 0)
		return err_set(err, ERR_INVALID, 0, "a command is needed; see --help");
	c = ctl_command_find(o->words, o->n_words, &used);
	if (!c)
		return ctl_command_missing(o->words, o->n_words, err);
	o->words += used;
	o->n_words -= used;
	inner = c->run == run_controllers ? ctl_command_find(o->words, o->n_words, &used) : NULL;
	if (inner && (inner->takes & CTL_TAKES_CONFIG_MAP)) {
		c = inner;
		o->words += used;
		o->n_words -= used;
	}
	if (o->n_words < c->least)
		return err_set(err, ERR_INVALID, 0, "%s: %s is missing; see %s --help", c->name,
			       c->operands, c->name);
	if (o->n_words > c->most)
		return err_set(err, ERR_INVALID, 0, "%s: \"%s\" is too much; see %s --help",
			       c->name, o->words[c->most], c->name);
	if (ctl_options_check(o, c->name, c->takes, err) < 0)
		return -1;
	*ret = c;
	return 0;
}
