/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's sub-commands. Each reads its own options, runs a loop of its own to the end and
 * returns the program's exit status: 0, 1 (it failed) or 2 (used wrongly, or bad input).
 */
#ifndef IPU_LAUNCHER_LAUNCHER_H
#define IPU_LAUNCHER_LAUNCHER_H

#define EXIT_USAGE 2

/* get [--ca FILE] [--token-file FILE] [--timeout SECONDS] URL: prints the body of the answer. */
int launcher_get(int argc, char **argv); /* argv[0] is "get" */

/* "ipu-launcher: …" on standard error. Returns status. */
int launcher_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
