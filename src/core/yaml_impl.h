/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plain scalar of YAML is: between the reader and the writer, which must agree.
 * Nothing outside this folder includes it.
 */
#ifndef IPU_CORE_YAML_IMPL_H
#define IPU_CORE_YAML_IMPL_H

#include "core/json.h"

enum yaml_kind {
	YAML_STRING,
	YAML_NULL,
	YAML_BOOL,
	YAML_INT,
	YAML_REAL,
	YAML_NOT_FINITE, /* .inf, .nan, or a number that no double holds */
};

struct yaml_scalar {
	enum yaml_kind kind;
	bool b;
	int64_t n;
	double d;
};

struct yaml_scalar yaml_impl_resolve(struct str s);

#endif
