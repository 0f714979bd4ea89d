/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh(1)'s options: which of them take a value is all that has to be known of most. Uses core.
 */
#include "launcher/rsh.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/buf.h"
#include "core/str.h"

#define COMMAND_BYTES ((size_t)256 << 10)

static const char flags[] = "46AaCfGgKkMNnqsTtvXxYy";
static const char with_value[] = "BbcDEeFIiJLlmOopPQRSWw";

/* "Name=value" or "Name value". */
static int take_setting(struct rsh_options *o, const char *setting, struct err *err)
{
	size_t len = strcspn(setting, "= \t");
	const char *value = setting + len + strspn(setting + len, "= \t");
	int64_t seconds;
	if (len == strlen("ConnectTimeout") && strncasecmp(setting, "ConnectTimeout", len) == 0) {
		if (str_to_int(str_of(value), 1, 86400, &seconds, err) < 0)
			return err_wrap(err, "-o ConnectTimeout");
		o->connect_s = (unsigned)seconds;
	} else if (len == strlen("SetEnv") && strncasecmp(setting, "SetEnv", len) == 0) {
		if (!strchr(value, '=') || value[0] == '=')
			return err_set(err, ERR_INVALID, 0, "-o SetEnv: NAME=VALUE is wanted");
		if (o->n_env == RSH_MAX_ENV)
			return err_set(err, ERR_INVALID, 0, "-o SetEnv: more than %d of them",
				       RSH_MAX_ENV);
		o->env[o->n_env++] = value;
	}
	return 0;
}

/* One word that begins with '-': a bundle of flags, the last of which may take a value, from the
 * word's rest or from the next one. *i is the last word that was used. */
static int take_option(struct rsh_options *o, int argc, char **argv, int *i, struct err *err)
{
	for (const char *c = argv[*i] + 1; *c; c++) {
		if (strchr(flags, *c)) {
			/* No background here: who wants one has a shell. It reads nothing there. */
			o->no_input = o->no_input || *c == 'n' || *c == 'f';
			continue;
		}
		if (!strchr(with_value, *c))
			return err_set(err, ERR_INVALID, 0, "there is no option -%c", *c);
		const char *value = c[1] ? c + 1 : *i + 1 < argc ? argv[++*i] : NULL;
		if (!value)
			return err_set(err, ERR_INVALID, 0, "-%c needs a value", *c);
		return *c == 'o' ? take_setting(o, value, err) : 0;
	}
	return 0;
}

static int take_options(struct rsh_options *o, int argc, char **argv, int *i, struct err *err)
{
	for (; *i < argc && argv[*i][0] == '-' && argv[*i][1]; ++*i) {
		if (strcmp(argv[*i], "--") == 0) {
			++*i;
			return 0;
		}
		if (take_option(o, argc, argv, i, err) < 0)
			return -1;
	}
	return 0;
}

static int join(struct rsh_options *o, int argc, char **argv, struct err *err)
{
	struct buf b = BUF_INIT(COMMAND_BYTES);
	for (int i = 0; i < argc; i++) {
		if (buf_printf(&b, err, "%s%s", i > 0 ? " " : "", argv[i]) == 0)
			continue;
		buf_done(&b);
		return err_wrap(err, "the command");
	}
	o->command = buf_steal(&b, NULL);
	return 0;
}

int rsh_options_parse(int argc, char **argv, struct rsh_options *ret, struct err *err)
{
	struct rsh_options o = {0};
	int i = 1;
	/* As with ssh, options may stand before and behind the host. */
	if (take_options(&o, argc, argv, &i, err) < 0)
		return -1;
	if (i >= argc)
		return err_set(err, ERR_INVALID, 0, "HOST is missing");
	const char *at = strrchr(argv[i], '@');
	o.host = at ? at + 1 : argv[i];
	i++;
	if (take_options(&o, argc, argv, &i, err) < 0)
		return -1;
	if (!o.host[0])
		return err_set(err, ERR_INVALID, 0, "HOST is empty");
	if (i >= argc)
		return err_set(err, ERR_INVALID, 0,
			       "COMMAND is missing: for a terminal there is kubectl exec -it");
	if (join(&o, argc - i, argv + i, err) < 0)
		return -1;
	*ret = o;
	return 0;
}

void rsh_options_done(struct rsh_options *o)
{
	free(o->command);
	*o = (struct rsh_options){0};
}
