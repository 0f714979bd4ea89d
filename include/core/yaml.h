/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML that people write (configuration, kubeconfig, manifests), read by libfyaml into JSON
 * values, with the line and column of every value for messages. Aliases are bounded, so that an
 * alias bomb is an error; YAML 1.2's core schema decides what is a number or a boolean, and
 * Kubernetes' habit (YAML 1.1's yes/no/on/off as strings) is kept.
 */
#ifndef IPU_CORE_YAML_H
#define IPU_CORE_YAML_H

#include "core/err.h"
#include "core/json.h"

#define YAML_MAX_BYTES ((size_t)4 << 20)

struct yaml; /* one stream: zero or more documents */

/* name stands in messages ("FILE:LINE:COLUMN: …"). Errors: ERR_INVALID, ERR_LIMIT; for files also
 * ERR_NOT_FOUND and ERR_IO. JSON is YAML and is accepted. */
int yaml_parse(const char *name, struct str s, struct yaml **ret, struct err *err);
int yaml_load(const char *path, struct yaml **ret, struct err *err); /* "-": standard input */
void yaml_free(struct yaml *y);
void yaml_freep(struct yaml **y);
#define CLEANUP_YAML __attribute__((cleanup(yaml_freep)))

size_t yaml_len(const struct yaml *y); /* documents; empty ones don't count */
const struct json *yaml_doc(const struct yaml *y, size_t i);

/* Where the value at a JSON pointer (RFC 6901, "/spec/workers") of document i stands, 1-based. If
 * it isn't there, the nearest ancestor that is. */
void yaml_pos(const struct yaml *y, size_t i, const char *pointer, unsigned *ret_line,
	      unsigned *ret_column);

/* err_set(ERR_INVALID, "NAME:LINE:COLUMN: message"): the one form of such messages. */
int yaml_error(const struct yaml *y, size_t i, const char *pointer, struct err *err,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Writes JSON as YAML (block style), for people. */
int yaml_write(const struct json *v, struct buf *out, struct err *err);

#endif
