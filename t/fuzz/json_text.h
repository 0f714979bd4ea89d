/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a JSON back-end makes of a text, written down so that two of them can be compared.
 * Built once with each back-end: json_fy_names.h renames what this one has of libfyaml's.
 */
#ifndef IPU_T_FUZZ_JSON_TEXT_H
#define IPU_T_FUZZ_JSON_TEXT_H

#include "core/buf.h"
#include "core/str.h"

/* Appends "!", or types, keys and values, and checks that what the back-end writes reads back
 * equal. ret_written: the text as this back-end writes it, empty on an error. */
void json_text(struct str s, struct buf *out, struct buf *ret_written);

#endif
