/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sub-commands: their names, help and what they do. Those that change something are cordon.c's.
 */
#ifndef IPU_CTL_COMMANDS_H
#define IPU_CTL_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/link.h"
#include "ctl/options.h"

struct ctl_command {
	const char *name; /* one word, or two */
	const char *operands, *summary;
	const char *more;   /* lines of its help, or NULL */
	size_t least, most; /* operands */
	unsigned takes;     /* CTL_TAKES_… */
	bool needs_kube;    /* calls ctl_link_kube */
	/* o->words are the operands; link is NULL for a command that asks nobody. */
	int (*run)(struct ctl_link *link, const struct ctl_options *o, struct err *err);
	bool alone;    /* makes its link by itself, if any */
	bool offline;  /* asks nobody: options that say whom aren't shown */
	bool has_kube; /* has ctl_link_client where there is a kubeconfig */
};

extern const struct ctl_command ctl_commands[]; /* ends with a NULL name */

/* The command that the first words name; *ret_used: how many of them. NULL: none. */
const struct ctl_command *ctl_command_find(char *const *words, size_t n_words, size_t *ret_used);
/* What its help and completion show, CTL_TAKES_…; NULL: what all commands have. */
unsigned ctl_command_shows(const struct ctl_command *c);
/* What stands behind this word in names of two: "print" of "crd"; NULL: c is none of these. */
const char *ctl_command_below(const struct ctl_command *c, const char *word);
/* Says that they name none (n_words > 0). Returns -1. */
int ctl_command_missing(char *const *words, size_t n_words, struct err *err);

/* The command that o's words name ("controllers cordon" is cordon); leaves its operands in them.
 * ERR_INVALID: none, or operands or options that it doesn't take. */
int ctl_command_choose(struct ctl_options *o, const struct ctl_command **ret, struct err *err);

/* An answer for programs, by -o yaml or, else, as JSON with a last end of a line. */
int ctl_write_value(const struct json *v, enum ctl_output output, struct buf *out, struct err *err);
/* All of it to standard output now. A reader that has gone ends the program as SIGPIPE does.
 * ERR_IO. */
int ctl_write_out(struct str text, struct err *err);

/* bundle.c */
int ctl_run_bundle(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* Compressed, to fd. Errors: ERR_INVALID, there is no gzip; ERR_IO. */
int ctl_gzip(struct str text, int fd, struct err *err);

/* complete.c */
int ctl_run_completion(struct ctl_link *link, const struct ctl_options *o, struct err *err);
/* What a shell asks: the words behind "__complete". Returns the exit status. */
int ctl_complete(int argc, char **argv);

/* cordon.c */
int ctl_run_cordon(struct ctl_link *link, const struct ctl_options *o, struct err *err);
int ctl_run_uncordon(struct ctl_link *link, const struct ctl_options *o, struct err *err);
int ctl_run_drain(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* crd.c */
int ctl_run_crd_print(struct ctl_link *link, const struct ctl_options *o, struct err *err);
int ctl_run_crd_apply(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* node_clean.c */
int ctl_run_node_clean(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* rdma.c, rdma_macvlan.c */
int ctl_run_rdma_check(struct ctl_link *link, const struct ctl_options *o, struct err *err);
int ctl_run_rdma_macvlan(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* top.c */
int ctl_run_top(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* ui.c */
int ctl_run_ui(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* validate.c */
int ctl_run_validate(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* explain.c */
int ctl_run_explain(struct ctl_link *link, const struct ctl_options *o, struct err *err);

/* render.c */
int ctl_run_render(struct ctl_link *link, const struct ctl_options *o, struct err *err);

#endif
