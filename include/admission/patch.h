/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Patch (RFC 6902) from two documents: what must be done to the first to make the second.
 * Pure. Uses core/.
 */
#ifndef IPU_ADMISSION_PATCH_H
#define IPU_ADMISSION_PATCH_H

#include "core/err.h"
#include "core/json.h"

/*
 * *ret_ops: an array of add, remove and replace operations, in doc; NULL: the two are equal. Only
 * what differs is touched: members are added, removed or replaced one by one, elements of arrays
 * are inserted and removed at their place, whatever is equal stays. The order of members doesn't
 * count. Errors: ERR_LIMIT, where there would be more than ADMISSION_PATCH_MAX operations.
 */
#define ADMISSION_PATCH_MAX 10000
int admission_patch_make(struct jmut_doc *doc, const struct json *before, const struct json *after,
			 struct jmut **ret_ops, struct err *err);

#endif
