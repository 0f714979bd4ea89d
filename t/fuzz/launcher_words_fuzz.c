/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher is given: a list of hosts as mpirun takes it, and the words of a command that
 * takes ssh's place.
 * Input: the words of the command, a line each, up to an empty line; the list of hosts.
 */
#include "fuzz.h"
#include "launcher/hostfile.h"
#include "launcher/rsh.h"

#define MAX_WORDS 64

static void try_hosts(struct str text)
{
	struct err err = ERR_INIT;
	char **hosts = NULL;
	size_t n = 0;

	if (hostfile_parse(text, &hosts, &n, &err) < 0) {
		MUST(err.kind == ERR_INVALID && err.msg[0] && !hosts && n == 0);
		return;
	}
	MUST(n > 0);
	for (size_t i = 0; i < n; i++) {
		MUST(hosts[i][0] && !strpbrk(hosts[i], " \t:#\n"));
		for (size_t k = 0; k < i && k < 64; k++)
			MUST(strcmp(hosts[i], hosts[k]) != 0);
	}
	hostfile_free(hosts, n);
}

static void try_command(int argc, char **argv)
{
	struct rsh_options o = {0};
	struct err err = ERR_INIT;

	if (rsh_options_parse(argc, argv, &o, &err) < 0) {
		MUST(err.kind == ERR_INVALID && err.msg[0]);
		return;
	}
	MUST(o.host && o.command && o.n_env <= RSH_MAX_ENV && !o.env[o.n_env]);
	for (size_t i = 0; i < o.n_env; i++)
		MUST(strchr(o.env[i], '='));
	rsh_options_done(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len), word;
	char name[] = "rsh", *argv[MAX_WORDS + 2] = {name};
	int argc = 1;

	while (s.len > 0 && argc <= MAX_WORDS && (word = fuzz_line(&s)).len > 0)
		argv[argc++] = str_dup(word);
	try_command(argc, argv);
	while (argc > 1)
		free(argv[--argc]);
	try_hosts(s);
	return 0;
}
