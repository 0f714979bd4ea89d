/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher: one static program for what has to run inside job Pods, whatever their image
 * holds. Chooses the sub-command; uses http, net, loop and core.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "launcher/launcher.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"get", launcher_get},
};

int launcher_fail(int status, const char *fmt, ...)
{
	va_list ap;
	fputs("ipu-launcher: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return status;
}

static void print_usage(FILE *out)
{
	fputs("usage: ipu-launcher COMMAND [OPTIONS]\n"
	      "\n"
	      "  get [--ca FILE] [--token-file FILE] [--timeout SECONDS] URL\n"
	      "      fetches URL (http, https) and prints what it holds\n"
	      "        --ca FILE          trust the certificates in FILE (PEM) instead of the\n"
	      "                           system's\n"
	      "        --token-file FILE  send the token in FILE as a bearer token (https only)\n"
	      "        --timeout SECONDS  give up after this time (default 30)\n"
	      "  --version, --help\n",
	      out);
}

int main(int argc, char **argv)
{
	struct err err = ERR_INIT;
	const char *page = getenv("IPU_CLOCK_PAGE");
	log_init(LOG_WARN, LOG_TEXT, 2);
	if (page && clock_use_page(page, &err) < 0)
		return launcher_fail(EXIT_USAGE, "%s", err.msg);
	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0) {
		print_usage(stdout);
		return EXIT_SUCCESS;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts(PACKAGE_NAME " " PACKAGE_VERSION);
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return launcher_fail(EXIT_USAGE, "there is no command \"%s\" (see --help)", argv[1]);
}
