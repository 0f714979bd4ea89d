/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher: one static program for what has to run inside job Pods, whatever their image
 * holds. Chooses the sub-command; uses http, net, loop and core.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/log.h"
#include "core/str.h"
#include "launcher/launcher.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"install", launcher_install},     {"init", launcher_init},
	{"wait", launcher_wait},           {"rsh", launcher_rsh},
	{"session", launcher_session},     {"get", launcher_get},
	{"partition", launcher_partition},
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

int launcher_bad_option(int option, char **argv)
{
	const char *word = argv[optind - 1];
	if (option == ':')
		return launcher_fail(EXIT_USAGE, "%s: %s needs a value", argv[0], word);
	/* Of several letters in a word getopt hasn't gone on from it. */
	if (optopt)
		return launcher_fail(EXIT_USAGE, "%s: there is no option -%c (see --help)", argv[0],
				     optopt);
	return launcher_fail(EXIT_USAGE, "%s: there is no option %s (see --help)", argv[0], word);
}

int launcher_number_option(const char *name, char **argv, int64_t min, int64_t max, int64_t *ret)
{
	struct err err = ERR_INIT;
	if (str_to_int(str_of(optarg), min, max, ret, &err) < 0)
		return launcher_fail(EXIT_USAGE, "%s: --%s: %s", argv[0], name, err.msg);
	return 0;
}

static const char *env_of(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	return value && value[0] ? value : otherwise;
}

const char *launcher_worker_path(void)
{
	return env_of("IPU_LAUNCHER_PATH", "/.ipu/ipu-launcher");
}

const char *launcher_worker_container(void)
{
	return env_of("IPU_WORKER_CONTAINER", NULL);
}

static void print_usage(FILE *out)
{
	fputs("usage: ipu-launcher COMMAND [OPTIONS]\n"
	      "\n"
	      "  install PATH\n"
	      "      copies this program there, for the Pod's other containers\n"
	      "  init [--for SECONDS] [--grace SECONDS]\n"
	      "      waits as PID 1, reaps, and ends all that is left at the end\n"
	      "        --for SECONDS      end after this time, with status 0\n"
	      "        --grace SECONDS    between TERM and KILL for what is left (default 25)\n"
	      "  wait --hostfile FILE [--timeout SECONDS]\n"
	      "      waits until every worker has answered\n"
	      "        --hostfile FILE    their names, as MPI reads them\n"
	      "        --timeout SECONDS  give up after this time (default 300)\n"
	      "  rsh [OPTIONS] HOST COMMAND...\n"
	      "      runs a command in a worker as ssh would, with ssh's options\n"
	      "  session [--resume NAME]\n"
	      "      the other end of rsh, in the worker\n"
	      "        --resume NAME      for a session whose connection was lost\n"
	      "  get [--ca FILE] [--token-file FILE] [--timeout SECONDS] URL\n"
	      "      fetches URL (http, https) and prints what it holds\n"
	      "        --ca FILE          trust the certificates in FILE (PEM) instead of the\n"
	      "                           system's\n"
	      "        --token-file FILE  send the token in FILE as a bearer token (https only)\n"
	      "        --timeout SECONDS  give up after this time (default 30)\n"
	      "  partition --ipus N --output FILE --token-file FILE [OPTIONS] URL\n"
	      "      asks the operator's proxy at URL for this Pod's IPUs, waits for them, and\n"
	      "      writes their IPUoF configuration\n"
	      "        --ipus N           how many\n"
	      "        --output FILE      the configuration\n"
	      "        --token-file FILE  the token for the proxy, read for each request\n"
	      "        --ca FILE          as with get; instead of the environment's IPU_PROXY_CA\n"
	      "        --timeout SECONDS  give up after this time (default: never)\n"
	      "        --deadline SECONDS the longest time that the IPUs are used\n"
	      "  --version\n"
	      "  --help\n",
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
		puts("ipu-launcher " PACKAGE_VERSION);
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return launcher_fail(EXIT_USAGE, "there is no command \"%s\" (see --help)", argv[1]);
}
