/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipuctl: what the operator has, gives and keeps, for a person at a terminal. Under the name
 * kubectl-ipu it's found by kubectl as a plugin.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/privacy.h"
#include "core/str.h"
#include "core/trace.h"
#include "ctl/commands.h"
#include "ctl/link.h"
#include "ctl/options.h"
#include "ctl/status.h"
#include "ctl/term.h"

static void print_line(const char *name, const char *operands, const char *summary)
{
	CLEANUP_FREE char *left = xasprintf("%s %s", name, operands);

	printf("  %-20s  %s\n", left, summary);
}

static void print_help(void)
{
	printf("Usage: ipuctl [OPTION]... COMMAND [OPERAND]...\n"
	       "       kubectl ipu [OPTION]... COMMAND [OPERAND]...\n"
	       "Shows the IPU operator's partitions, queue and controllers.\n"
	       "\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		print_line(c->name, c->operands, c->summary);
	print_line("help", "[COMMAND]", "print help, about a command and its options if named");
	printf("\n"
	       "Options of all commands; `ipuctl help COMMAND` has those of one:\n");
	ctl_options_print(ctl_command_shows(NULL));
	printf("\n"
	       "The way to the operator: --server, else IPUCTL_SERVER, else the API server of the\n"
	       "kubeconfig, else http://127.0.0.1:8080.\n"
	       "\n"
	       "Exit status: 0 when all is well, 1 when the server says no, a manifest is wrong, a\n"
	       "wait was in vain or --check finds fault, 2 for a wrong command line or kubeconfig, or\n"
	       "a file that can't be read, 3 when the operator can't be reached.\n");
}

static void print_command_help(const struct ctl_command *c)
{
	printf("Usage: ipuctl %s%s%s [OPTION]...\n"
	       "%c%s.\n"
	       "%s\n",
	       c->name, c->operands[0] ? " " : "", c->operands, toupper(c->summary[0]),
	       c->summary + 1, c->more ? c->more : "");
	ctl_options_print(ctl_command_shows(c));
}

/* Of a word that others stand behind; false: it's none. */
static bool print_group_help(const char *word)
{
	bool found = false;

	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (!ctl_command_below(c, word))
			continue;
		if (!found)
			printf("Usage: ipuctl %s COMMAND [OPTION]...\n\n", word);
		found = true;
		print_line(c->name, c->operands, c->summary);
	}
	return found;
}

static int complain(const struct err *err, const char *advice)
{
	int status = ctl_exit_status(err);

	fprintf(stderr, "ipuctl: %s\n", err->msg);
	if (advice && (status == CTL_EXIT_UNREACHABLE || err->code == 404))
		fprintf(stderr, "ipuctl: %s\n", advice);
	return status;
}

static int connect_to(const struct ctl_command *command, const struct ctl_options *o,
		      struct ctl_link **ret, struct err *err)
{
	if (command->alone)
		return 0;
	return command->has_kube ? ctl_link_new_with_any(o, ret, err)
				 : ctl_link_new(o, command->needs_kube, ret, err);
}

static int run(struct ctl_options *o)
{
	const struct ctl_command *command;
	struct ctl_link *link = NULL;
	struct trace *trace = trace_parse(str_of(getenv("TRACEPARENT")),
					  str_of(getenv("TRACESTATE")));
	struct err err = ERR_INIT;
	int status = 0;

	trace_enter(trace); /* for as long as the program runs */
	if (ctl_command_choose(o, &command, &err) < 0 || connect_to(command, o, &link, &err) < 0)
		status = complain(&err, NULL);
	else if (command->run(link, o, &err) < 0)
		status = complain(&err, link ? ctl_link_advice(link) : NULL);
	ctl_link_free(link);
	trace_leave(NULL);
	trace_unref(trace);
	return status;
}

static int help(const struct ctl_options *o, size_t word)
{
	char **words = o->words + word;
	size_t n_words = o->n_words - word, used;
	const struct ctl_command *c = ctl_command_find(words, n_words, &used);
	struct err err = ERR_INIT;

	if (n_words == 1 && !c && print_group_help(words[0]))
		return 0;
	if (n_words > 0 && !c) {
		ctl_command_missing(words, n_words, &err);
		return complain(&err, NULL);
	}
	if (c)
		print_command_help(c);
	else
		print_help();
	return 0;
}

int main(int argc, char **argv)
{
	const char *page = getenv("IPU_CLOCK_PAGE");
	struct ctl_options o;
	struct err err = ERR_INIT;
	int status = 0;

	privacy_keep(); /* a kubeconfig has tokens and keys */
	log_init(LOG_WARN, LOG_TEXT, STDERR_FILENO);
	if (argc > 1 && strcmp(argv[1], "__complete") == 0)
		return ctl_complete(argc - 2, argv + 2);
	if (ctl_options_parse(argc, argv, &o, &err) < 0 || (page && clock_use_page(page, &err) < 0))
		return complain(&err, NULL);
	ctl_term_init(o.color);
	if (o.version)
		printf("ipuctl %s\n", PACKAGE_VERSION);
	else if (o.n_words > 0 && strcmp(o.words[0], "help") == 0)
		status = help(&o, 1);
	else
		status = o.help ? help(&o, 0) : run(&o);
	ctl_options_done(&o);
	return status;
}
