/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ipu-sim puts on disk for those who use it.
 */
#ifndef IPU_SIM_FILES_H
#define IPU_SIM_FILES_H

#include <stddef.h>

#include "core/err.h"
#include "core/str.h"

/* Whole or not at all: who waits for the file never reads half of it. Only its owner may read it.
 */
int sim_file_write(const char *dir, const char *name, struct str text, struct err *err);
int sim_dir_make(const char *dir, struct err *err); /* there already: fine */

/* The text of a kubeconfig, the caller's to free. */
char *sim_kubeconfig_text(const char *host, unsigned port, const char *cert_pem, const char *token);

/* The CRD of the source tree when the program runs in its build folder, else the installed one.
 * The caller's to free; ERR_NOT_FOUND names the places. */
int sim_crd_find(char **ret_path, struct err *err);

#endif
