/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: a list of requirements, all of which must hold.
 */
#include "sim/selector.h"

#include <stdlib.h>

enum operator{ OP_EQUAL, OP_NOT_EQUAL, OP_IN, OP_NOT_IN, OP_EXISTS, OP_MISSING };

struct requirement {
	bool field; /* of a field, else of a label */
	enum operator op;
	char *key;
	char *values; /* separated by commas */
};

struct sim_selector {
	struct requirement *items;
	size_t n;
};

static void add(struct sim_selector *s, bool field, enum operator op, struct str key,
		struct str values)
{
	s->items = xrealloc(s->items, (s->n + 1) * sizeof(*s->items));
	s->items[s->n++] = (struct requirement){
		.field = field,
		.op = op,
		.key = str_dup(str_trim(key)),
		.values = str_dup(str_trim(values)),
	};
}

/* Up to the next comma outside of parentheses. */
static struct str next_part(struct str *rest)
{
	int depth = 0;
	size_t i;
	struct str part;

	for (i = 0; i < rest->len; i++) {
		depth += rest->p[i] == '(';
		depth -= rest->p[i] == ')';
		if (rest->p[i] == ',' && depth == 0)
			break;
	}
	part = (struct str){rest->p, i};
	*rest = i < rest->len ? (struct str){rest->p + i + 1, rest->len - i - 1} : STR_NULL;
	return str_trim(part);
}

/* "key in (a,b)", "key notin (a,b)" */
static bool add_set(struct sim_selector *s, struct str part)
{
	struct str head, tail, key, word;

	if (!str_cut(part, '(', &head, &tail) || tail.len == 0 || tail.p[tail.len - 1] != ')')
		return false;
	tail.len--;
	if (!str_cut(str_trim(head), ' ', &key, &word))
		return false;
	word = str_trim(word);
	if (!str_eqz(word, "in") && !str_eqz(word, "notin"))
		return false;
	add(s, false, str_eqz(word, "in") ? OP_IN : OP_NOT_IN, key, tail);
	return true;
}

static bool add_part(struct sim_selector *s, bool field, struct str part)
{
	struct str key, value;

	if (!field && part.p[part.len - 1] == ')')
		return add_set(s, part);
	if (str_cut(part, '=', &key, &value)) {
		bool negated = key.len && key.p[key.len - 1] == '!';

		if (negated)
			key.len--;
		if (value.len && value.p[0] == '=')
			value = (struct str){value.p + 1, value.len - 1};
		add(s, field, negated ? OP_NOT_EQUAL : OP_EQUAL, key, value);
		return str_trim(key).len > 0;
	}
	if (field)
		return false;
	if (part.p[0] == '!')
		add(s, false, OP_MISSING, (struct str){part.p + 1, part.len - 1}, STR_NULL);
	else
		add(s, false, OP_EXISTS, part, STR_NULL);
	return true;
}

static int add_all(struct sim_selector *s, bool field, struct str text, struct err *err)
{
	while (text.len) {
		struct str part = next_part(&text);

		if (part.len && !add_part(s, field, part))
			return err_set(err, ERR_INVALID, 400, "unable to parse requirement: %.*s",
				       STR_ARG(part));
	}
	return 0;
}

int sim_selector_parse(struct str labels, struct str fields, struct sim_selector **ret,
		       struct err *err)
{
	struct sim_selector *s = xcalloc(1, sizeof(*s));

	if (add_all(s, false, labels, err) < 0 || add_all(s, true, fields, err) < 0) {
		sim_selector_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void sim_selector_free(struct sim_selector *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->items[i].key);
		free(s->items[i].values);
	}
	free(s->items);
	free(s);
}

static const struct json *field_at(const struct json *v, const char *path)
{
	struct str rest = str_of(path), key;

	while (rest.len) {
		str_cut(rest, '.', &key, &rest);
		v = json_getn(v, key);
	}
	return v;
}

static bool is_one_of(struct str value, const char *values)
{
	struct str rest = str_of(values), one;

	while (rest.len) {
		str_cut(rest, ',', &one, &rest);
		if (str_eq(str_trim(one), value))
			return true;
	}
	return false;
}

static bool holds(const struct requirement *r, const struct json *object)
{
	const struct json *v = r->field ? field_at(object, r->key)
					: json_get(json_at(object, "metadata", "labels", NULL),
						   r->key);
	struct str value = json_str(v);

	switch (r->op) {
	case OP_EQUAL:
		return (r->field || v) && str_eqz(value, r->values);
	case OP_NOT_EQUAL:
		return !str_eqz(value, r->values) || (!v && !r->field);
	case OP_IN:
		return v && is_one_of(value, r->values);
	case OP_NOT_IN:
		return !v || !is_one_of(value, r->values);
	case OP_EXISTS:
		return v != NULL;
	case OP_MISSING:
		return v == NULL;
	}
	return false;
}

bool sim_selector_matches(const struct sim_selector *s, const struct json *object)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!holds(&s->items[i], object))
			return false;
	}
	return true;
}
