/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML that people write (configuration, kubeconfig, manifests), read by libfyaml into JSON
 * values, with the line and column of every value for messages. What aliases and merges stand for
 * is bounded, so that an alias bomb is an error.
 *
 * Only plain scalars are anything but strings, by YAML 1.2's core schema, with two of kubectl's
 * habits: yes, no, on and off are strings, and 0644 is octal (defaultMode), as 0o644 is; 0b101 too.
 * Refused with their place: keys that come twice, keys that aren't scalars, tags other than the
 * core schema's, .inf and .nan, control characters, more than JSON_MAX_DEPTH levels. Keys are
 * strings as they are written. Merge keys (<<) work.
 */
#ifndef IPU_CORE_YAML_H
#define IPU_CORE_YAML_H

#include "core/err.h"
#include "core/json.h"

#define YAML_MAX_BYTES ((size_t)4 << 20)
#define YAML_MAX_EXPANSION                                                                         \
	((size_t)16 << 20) /* what all aliases and merges of a stream stand for */

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
 * it isn't there, or came by an alias, the nearest ancestor that is. */
void yaml_pos(const struct yaml *y, size_t i, const char *pointer, unsigned *ret_line,
	      unsigned *ret_column);
/* The same for the key in front of it (an array's element, the root: as yaml_pos): an unknown key
 * is better shown there than where its value begins. */
void yaml_key_pos(const struct yaml *y, size_t i, const char *pointer, unsigned *ret_line,
		  unsigned *ret_column);

/* err_set(ERR_INVALID, "NAME:LINE:COLUMN: message"): the one form of such messages. */
int yaml_error(const struct yaml *y, size_t i, const char *pointer, struct err *err,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));
int yaml_key_error(const struct yaml *y, size_t i, const char *pointer, struct err *err,
		   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Writes JSON as YAML (block style), for people. What it writes reads back the same, by YAML 1.1's
 * readers too. */
int yaml_write(const struct json *v, struct buf *out, struct err *err);

#endif
