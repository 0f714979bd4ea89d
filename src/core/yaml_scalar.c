/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML 1.2's core schema (YAML 1.2.2, section 10.3) for plain scalars, and what core/yaml.h adds.
 * Uses str.
 */
#include "core/yaml_impl.h"

#include <math.h>
#include <stdlib.h>

static bool is_one_of(struct str s, const char *const *words)
{
	for (; *words; words++) {
		if (str_eqz(s, *words))
			return true;
	}
	return false;
}

/* All of s in this base; what is too large for 64 bits becomes a real. */
static bool take_int(struct str s, int base, bool negative, struct yaml_scalar *ret)
{
	int64_t n = 0; /* summed up below zero */
	double d = 0;
	bool fits = true;

	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		int digit = hex_digit(s.p[i]);
		if (digit < 0 || digit >= base)
			return false;
		d = d * base + digit;
		if (fits &&
		    (__builtin_mul_overflow(n, base, &n) || __builtin_sub_overflow(n, digit, &n)))
			fits = false;
	}
	if (fits && !negative && __builtin_sub_overflow((int64_t)0, n, &n))
		fits = false;
	if (fits)
		*ret = (struct yaml_scalar){.kind = YAML_INT, .n = n};
	else if (isinf(d))
		*ret = (struct yaml_scalar){.kind = YAML_NOT_FINITE};
	else
		*ret = (struct yaml_scalar){.kind = YAML_REAL, .d = negative ? -d : d};
	return true;
}

static size_t count_digits(struct str s, size_t from)
{
	size_t i = from;

	while (i < s.len && s.p[i] >= '0' && s.p[i] <= '9')
		i++;
	return i - from;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool is_real(struct str s)
{
	size_t i = 0, before, after = 0;

	if (s.len > 0 && (s.p[0] == '-' || s.p[0] == '+'))
		i++;
	before = count_digits(s, i);
	i += before;
	if (i < s.len && s.p[i] == '.') {
		after = count_digits(s, i + 1);
		i += 1 + after;
	}
	if (before + after == 0)
		return false;
	if (i < s.len && (s.p[i] == 'e' || s.p[i] == 'E')) {
		i++;
		if (i < s.len && (s.p[i] == '-' || s.p[i] == '+'))
			i++;
		size_t exponent = count_digits(s, i);
		if (exponent == 0)
			return false;
		i += exponent;
	}
	return i == s.len;
}

static bool take_number(struct str s, struct yaml_scalar *ret)
{
	bool negative = s.p[0] == '-';
	size_t sign = negative || s.p[0] == '+';
	struct str digits = {s.p + sign, s.len - sign};

	if (digits.len == 0 || !((digits.p[0] >= '0' && digits.p[0] <= '9') || digits.p[0] == '.'))
		return false;
	if (digits.len > 1 && digits.p[0] == '0') {
		struct str rest = {digits.p + 2, digits.len - 2};
		switch (digits.p[1]) {
		case 'x':
			return take_int(rest, 16, negative, ret);
		case 'o':
			return take_int(rest, 8, negative, ret);
		case 'b':
			return take_int(rest, 2, negative, ret);
		default:
			/* 0644; 089 isn't octal and falls through to decimal, as in kubectl. */
			if (take_int((struct str){digits.p + 1, digits.len - 1}, 8, negative, ret))
				return true;
		}
	}
	if (take_int(digits, 10, negative, ret) && ret->kind == YAML_INT)
		return true;
	if (!is_real(s))
		return false;

	CLEANUP_FREE char *z = str_dup(s);
	double d = strtod(z, NULL);
	*ret = (struct yaml_scalar){.kind = isinf(d) ? YAML_NOT_FINITE : YAML_REAL, .d = d};
	return true;
}

struct yaml_scalar yaml_impl_resolve(struct str s)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const trues[] = {"true", "True", "TRUE", NULL};
	static const char *const falses[] = {"false", "False", "FALSE", NULL};
	static const char *const not_finite[] = {".nan",  ".NaN",  ".NAN",  ".inf",  ".Inf",
						 ".INF",  "-.inf", "-.Inf", "-.INF", "+.inf",
						 "+.Inf", "+.INF", NULL};
	struct yaml_scalar r;

	if (is_one_of(s, nulls))
		return (struct yaml_scalar){.kind = YAML_NULL};
	if (is_one_of(s, trues))
		return (struct yaml_scalar){.kind = YAML_BOOL, .b = true};
	if (is_one_of(s, falses))
		return (struct yaml_scalar){.kind = YAML_BOOL};
	if (is_one_of(s, not_finite))
		return (struct yaml_scalar){.kind = YAML_NOT_FINITE};
	if (take_number(s, &r))
		return r;
	return (struct yaml_scalar){.kind = YAML_STRING};
}
