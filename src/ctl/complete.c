/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion prints a shell's script; these ask `ipuctl __complete WORD...`, of which the last word
 * is the one that is being typed. The answer is a candidate a line, then what cobra's programs say
 * too (kubectl reads it): ":4", these alone, or ":0", files. The cluster is asked with a short
 * deadline, and what can't be had is no candidate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/commands.h"
#include "kube/object.h"

#define SHORT_S 2
#define MAX_OUT ((size_t)1 << 20)

extern const char ctl_completion_bash[], ctl_completion_zsh[], ctl_completion_fish[];

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

int ctl_run_completion(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	const char *const texts[] = {ctl_completion_bash, ctl_completion_zsh, ctl_completion_fish};

	(void)link;
	for (size_t i = 0; shells[i]; i++) {
		if (strcmp(o->words[0], shells[i]) == 0)
			return ctl_write_out(str_of(texts[i]), err);
	}
	return err_set(err, ERR_INVALID, 0, "completion: must be bash, zsh or fish, not \"%s\"",
		       o->words[0]);
}

/* ---- candidates ---- */

struct completing {
	struct str cur;     /* what has been typed of the last word */
	const char *before; /* what stands before it in the same word: "--output=" */
	const struct ctl_options *o;
	struct buf *out;
	bool files;
};

static void offer(struct completing *c, struct str word)
{
	if (str_has_prefix(word, c->cur))
		(void)buf_printf(c->out, NULL, "%s%.*s\n", c->before, STR_ARG(word));
}

static void offer_all(struct completing *c, const char *const *words)
{
	for (; *words; words++)
		offer(c, str_of(*words));
}

/* Names of objects (resource) or of what the proxy lists (path). */
static void offer_asked(struct completing *c, const struct kube_resource *resource,
			const char *path)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct ctl_link *link = NULL;
	struct kube_request r = {.verb = KUBE_LIST, .resource = resource, .limit = 500};
	struct json_iter it;

	if (ctl_link_new(c->o, resource != NULL, &link, NULL) < 0)
		return;
	if (resource && resource->namespaced)
		r.ns = ctl_link_namespace(link);
	if ((resource ? ctl_link_kube(link, &r, &doc, NULL)
		      : ctl_link_ask(link, path, STR_NULL, &doc, NULL)) == 0) {
		it = json_iter(json_get(json_root(doc), "items"));
		while (json_next(&it))
			offer(c, resource ? kube_name(it.value)
					  : json_str(json_get(it.value, "name")));
	}
	ctl_link_free(link);
}

static void offer_commands(struct completing *c)
{
	static const char *const help[] = {"help", NULL};
	struct str last = STR_NULL;

	for (const struct ctl_command *k = ctl_commands; k->name; k++) {
		struct str word, rest;

		str_cut(str_of(k->name), ' ', &word, &rest);
		if (!str_eq(word, last))
			offer(c, word);
		last = word;
	}
	offer_all(c, help);
}

/* The second words of names that begin with this one. */
static void offer_second(struct completing *c, const char *first)
{
	for (const struct ctl_command *k = ctl_commands; k->name; k++) {
		const char *second = ctl_command_below(k, first);

		if (second)
			offer(c, str_of(second));
	}
}

static void offer_value(struct completing *c, const char *option, unsigned takes)
{
	static const char *const formats[] = {"json", "yaml", "wide", "table", NULL};
	static const char *const colors[] = {"auto", "always", "never", NULL};
	static const char *const forms[] = {"api", "file", NULL};
	static const char *const modes[] = {"bridge", "private", "vepa", "passthru", NULL};
	static const char *const paths[] = {"filename", "config",     "kubeconfig", "ca-file",
					    "root",     "cni-folder", NULL};

	for (size_t i = 0; paths[i]; i++)
		c->files = c->files || strcmp(option, paths[i]) == 0;
	if (strcmp(option, "output") == 0 && takes & CTL_TAKES_BUNDLE)
		c->files = true;
	else if (strcmp(option, "output") == 0)
		offer_all(c, formats);
	else if (strcmp(option, "color") == 0)
		offer_all(c, colors);
	else if (strcmp(option, "controller") == 0 && takes & CTL_TAKES_RDMA)
		offer_asked(c, NULL, "/controllers");
	else if (strcmp(option, "controller") == 0)
		offer_all(c, forms);
	else if (strcmp(option, "mode") == 0)
		offer_all(c, modes);
	else if (strcmp(option, "node") == 0)
		offer_asked(c, &KUBE_NODES, NULL);
	else if (strcmp(option, "namespace") == 0 || strcmp(option, "operator-namespace") == 0 ||
		 strcmp(option, "network-namespace") == 0)
		offer_asked(c, &KUBE_NAMESPACES, NULL);
}

static void offer_options(struct completing *c, const struct ctl_command *command)
{
	struct buf list = BUF_INIT(MAX_OUT);
	struct str rest, word;

	ctl_options_list(ctl_command_shows(command), &list);
	rest = buf_str(&list);
	while (str_cut(rest, '\n', &word, &rest))
		offer(c, word);
	buf_done(&list);
}

static void offer_operands(struct completing *c, const struct ctl_command *command)
{
	if (command->run == ctl_run_explain)
		offer_asked(c, &KUBE_IPUJOBS, NULL);
	else if (command->run == ctl_run_completion)
		offer_all(c, shells);
	else if (command->takes & CTL_TAKES_FILES)
		c->files = true;
	else if (command->takes & CTL_TAKES_NODES)
		offer_asked(c, &KUBE_NODES, NULL);
	else if (command->run == ctl_run_cordon || command->run == ctl_run_uncordon ||
		 command->run == ctl_run_drain)
		offer_asked(c, NULL, "/controllers");
}

/* ---- the line ---- */

/* Which words aren't options, nor their values. */
static size_t plain_words(char **words, size_t n, char **ret)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		if (words[i][0] != '-')
			ret[found++] = words[i];
		else if (ctl_options_value_of(words[i]) && i + 1 < n)
			i++;
	}
	return found;
}

static void complete(struct completing *c, char **words, size_t n, const char *last)
{
	char **plain = xcalloc(n + 1, sizeof(*plain));
	size_t used = 0, n_plain = plain_words(words, n, plain);
	const struct ctl_command *command = ctl_command_find(plain, n_plain, &used);
	const char *option = n ? ctl_options_value_of(words[n - 1]) : NULL;
	const char *equals = last[0] == '-' ? strchr(last, '=') : NULL;
	CLEANUP_FREE char *before = equals ? xstrndup(last, (size_t)(equals + 1 - last))
					   : xstrdup("");
	CLEANUP_FREE char *name = equals ? xstrndup(last, (size_t)(equals - last)) : NULL;
	unsigned takes = command ? command->takes : 0;

	c->before = before;
	c->cur = str_of(equals ? equals + 1 : last);
	if (name && ctl_options_value_of(name))
		offer_value(c, ctl_options_value_of(name), takes);
	else if (option)
		offer_value(c, option, takes);
	else if (last[0] == '-')
		offer_options(c, command);
	else if (n_plain == 0 || (n_plain == 1 && strcmp(plain[0], "help") == 0))
		offer_commands(c);
	else if (!command)
		offer_second(c, plain[n_plain - 1]);
	else
		offer_operands(c, command);
	free(plain);
}

int ctl_complete(int argc, char **argv)
{
	/* What is typed so far says where to ask; with the program's name for getopt. */
	char **copy = xcalloc((size_t)argc + 2, sizeof(*copy));
	struct buf out = BUF_INIT(MAX_OUT);
	struct ctl_options o = {.ns = CTL_NAMESPACE, .service = CTL_SERVICE};
	struct completing c = {.o = &o, .out = &out};
	static char name[] = "ipuctl";
	struct err err = ERR_INIT;
	bool parsed;
	int result;

	copy[0] = name;
	for (int i = 0; i < argc - 1; i++)
		copy[i + 1] = argv[i];
	parsed = argc > 0 && ctl_options_parse(argc, copy, &o, &err) == 0;
	o.timeout_s = SHORT_S;
	if (argc > 0)
		complete(&c, argv, (size_t)argc - 1, argv[argc - 1]);
	(void)buf_printf(&out, NULL, c.files ? ":0\n" : ":4\n");
	result = ctl_write_out(buf_str(&out), &err);
	if (parsed)
		ctl_options_done(&o);
	buf_done(&out);
	free(copy);
	return result < 0 ? 1 : 0;
}
