/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration from file, environment and flags.
 * Input: the file; then, each behind a NUL, settings: "KEY=VALUE" as flags, those that begin with
 * "IPUOPERATOR_" as environment.
 */
#include "daemon/config.h"
#include "fuzz.h"

#define MAX_SETTINGS 8

static void count(void *arg, const char *fault)
{
	MUST(fault[0]);
	++*(size_t *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len), text, one;
	const char *sets[MAX_SETTINGS];
	char *env[MAX_SETTINGS + 1] = {NULL}, *all[MAX_SETTINGS];
	size_t n = 0, n_sets = 0, n_env = 0, n_told = 0;
	struct fuzz_file file;
	struct config config;
	struct err err = ERR_INIT;

	str_cut(s, '\0', &text, &s);
	while (s.len > 0 && n < MAX_SETTINGS) {
		str_cut(s, '\0', &one, &s);
		all[n] = str_dup(one);
		if (str_has_prefix(one, STR("IPUOPERATOR_")))
			env[n_env++] = all[n];
		else
			sets[n_sets++] = all[n];
		n++;
	}
	fuzz_file_open(&file, text);
	const struct config_source source = {file.path, sets, n_sets, env};
	if (config_load(&source, count, &n_told, &config, &err) < 0) {
		MUST(err.msg[0] && n_told > 0);
	} else {
		MUST(n_told == 0 && config.roles && config.call_s >= 1 && config.connections >= 1);
		MUST(config.privileged && config.dns_policy && config.tracker[0]);
		MUST(config.controllers.n_problems == 0);
		config_done(&config);
	}
	fuzz_file_close(&file);
	for (size_t i = 0; i < n; i++)
		free(all[i]);
	return 0;
}
