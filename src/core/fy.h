/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both have in common that read with libfyaml: YAML, and JSON in the launcher.
 */
#ifndef IPU_CORE_FY_H
#define IPU_CORE_FY_H

#include <libfyaml.h>

#include "core/buf.h"
#include "core/err.h"

static inline void fy_print_nothing(struct fy_diag *diag, void *user, const char *p, size_t len)
{
	(void)diag;
	(void)user;
	(void)p;
	(void)len;
}

/* One that prints nothing: errors are collected and asked for. NULL: memory is out. */
static inline struct fy_diag *fy_diag_silent(void)
{
	struct fy_diag_cfg cfg;
	struct fy_diag *diag;

	fy_diag_cfg_default(&cfg);
	cfg.fp = NULL;
	cfg.output_fn = fy_print_nothing;
	cfg.colorize = false;
	diag = fy_diag_create(&cfg);
	if (diag)
		fy_diag_set_collect_errors(diag, true);
	return diag;
}

/* A token's text replaces what is in out. token may be NULL: empty. ERR_LIMIT.
 * fy_token_get_text() would do, if libfyaml 0.7 didn't lose 4 KiB each time that it puts a text
 * together of many parts: long block scalars, many escapes. */
static inline int fy_text(struct fy_token *token, struct buf *out, struct err *err)
{
	struct fy_token_iter *it = token ? fy_token_iter_create(token) : NULL;
	const struct fy_iter_chunk *chunk = NULL;
	int r = 0, failed = token && !it;

	buf_clear(out);
	while (it && r == 0 && (chunk = fy_token_iter_chunk_next(it, chunk, &failed)))
		r = buf_append(out, chunk->str, chunk->len, err);
	fy_token_iter_destroy(it);
	return failed ? err_set(err, ERR_LIMIT, 0, "memory is out") : r;
}

#endif
