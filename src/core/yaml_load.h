/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML stream's content, between what loads it and what answers for it.
 * Nothing outside this folder includes it.
 */
#ifndef IPU_CORE_YAML_LOAD_H
#define IPU_CORE_YAML_LOAD_H

#include "core/yaml.h"

struct yaml_mark {
	unsigned line, column; /* from 1; line 0: nowhere */
};

struct yaml_place {
	const struct json *v;
	struct yaml_mark value;
	struct yaml_mark key; /* nowhere in arrays and at the root */
};

struct yaml {
	char *name;
	struct jmut_doc *values; /* of all documents */
	const struct json **docs;
	size_t n_docs, cap_docs;
	struct yaml_place
		*places; /* sorted by v, once loaded; what an alias made has its root's only */
	size_t n_places, cap_places;
};

int yaml_impl_load(struct yaml *y, struct str s, struct err *err);
int yaml_impl_error(const struct yaml *y, struct yaml_mark at, enum err_kind kind, struct err *err,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
