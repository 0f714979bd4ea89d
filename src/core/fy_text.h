/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a libfyaml token, for both that read with it (YAML, and JSON in the launcher).
 * fy_token_get_text() would do, if libfyaml 0.7 didn't lose 4 KiB each time that it puts a text
 * together of many parts: long block scalars, many escapes.
 */
#ifndef IPU_CORE_FY_TEXT_H
#define IPU_CORE_FY_TEXT_H

#include <libfyaml.h>

#include "core/buf.h"
#include "core/err.h"

/* Replaces what is in out. token may be NULL: empty. ERR_LIMIT. */
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
