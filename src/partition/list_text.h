/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a list of controllers, as a file or a ConfigMap holds it, and what is said about its
 * bad entries. Pure. Uses core, kube and vipu.
 */
#ifndef IPU_PARTITION_LIST_TEXT_H
#define IPU_PARTITION_LIST_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/str.h"
#include "vipu/address.h"

/* A set of sentences, in the order in which they came. */
struct words {
	char **items;
	size_t n;
};
void words_add(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool words_has(const struct words *w, const char *z);
void words_done(struct words *w);

/* YAML or the flat string: a string, a list (vipu/address.h), a mapping whose only key
 * "controllers" holds one of them, or nothing at all. name stands in messages. Bad entries and
 * those that this version can't use are left out, a sentence each in problems, with line and
 * column where they have some. ERR_INVALID: the text as a whole can't be read; nothing is set. */
int list_text_parse(const char *name, struct str text, struct vipu_address_list *ret,
		    struct words *problems, struct err *err);

#endif
