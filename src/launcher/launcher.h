/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's sub-commands. Each reads its own options, runs a loop of its own to the end and
 * returns the program's exit status: 0, 1 (it failed) or 2 (used wrongly, or bad input) if it
 * doesn't say otherwise. argv[0] is the sub-command's name.
 */
#ifndef IPU_LAUNCHER_LAUNCHER_H
#define IPU_LAUNCHER_LAUNCHER_H

#include <stdint.h>

#define EXIT_USAGE 2

/* install PATH: copies this program there, in one step, for everyone to run. */
int launcher_install(int argc, char **argv);
/* init [--for SECONDS] [--grace SECONDS]: PID 1 of a container that waits. */
int launcher_init(int argc, char **argv);
/* wait --hostfile FILE [--timeout SECONDS]: until every worker has answered. */
int launcher_wait(int argc, char **argv);
/* rsh [OPTIONS] HOST COMMAND…: the near end of remote execution. Its exit status is the command's;
 * 255 where it isn't the command that failed. */
int launcher_rsh(int argc, char **argv);
/* session: the far end of remote execution. Its exit status is the command's. */
int launcher_session(int argc, char **argv);
/* get [--ca FILE] [--token-file FILE] [--timeout SECONDS] URL: prints the body of the answer. */
int launcher_get(int argc, char **argv);
/* partition --ipus N --output FILE --token-file FILE [OPTIONS] URL: an annotated Pod's IPUs. 128
 * and the signal's number where one ended it. */
int launcher_partition(int argc, char **argv);

/* What the operator said of the workers by our environment: where this program is in them, and in
 * which container (NULL: they have but one). */
const char *launcher_worker_path(void);
const char *launcher_worker_container(void);

/* "ipu-launcher: …" on standard error. Returns status. */
int launcher_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What getopt_long stumbled over last, whose short options begin with ":"; option is what it
 * returned, argv[0] the sub-command's name. Returns EXIT_USAGE. */
int launcher_bad_option(int option, char **argv);
/* optarg as the whole number that "--NAME" wants. 0, or EXIT_USAGE. */
int launcher_number_option(const char *name, char **argv, int64_t min, int64_t max, int64_t *ret);

#endif
