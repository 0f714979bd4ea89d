/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over the text that computes as it reads. Grammar, tightest last:
 *   or := and {"||" and}   and := not {"&&" not}   not := "!" not | "(" or ")" | relation
 *   relation := "has" "(" path ")" | value [("==" | "!=" | "in") value]
 *   value := path | string | "[" [string {"," string}] "]" | "true" | "false" | "null"
 *   path := NAME {"." ["?"] NAME | "[" ["?"] string "]"} [".hasValue()" | ".orValue(" value ")"]
 */
#include "sim/condition.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

#define MAX_DEPTH 32

enum truth { NO, YES, UNKNOWN };

enum value_kind { VALUE_JSON, VALUE_ABSENT /* an optional that is none */, VALUE_ERROR };

struct value {
	enum value_kind kind;
	const struct json *json; /* NULL: null */
};

struct reader {
	const char *at;
	const struct sim_condition_vars *vars;
	struct jmut_doc *doc; /* of literals */
	unsigned depth;
	bool bad;
	struct err *err; /* the first thing that couldn't be told, or what isn't understood */
	bool told;
};

static enum truth read_or(struct reader *r);
static struct value read_value(struct reader *r);

static void skip_blanks(struct reader *r)
{
	while (isspace((unsigned char)*r->at))
		r->at++;
}

static bool take(struct reader *r, const char *token)
{
	skip_blanks(r);
	if (strncmp(r->at, token, strlen(token)) != 0)
		return false;
	r->at += strlen(token);
	return true;
}

static void misunderstand(struct reader *r)
{
	if (!r->bad)
		err_set(r->err, ERR_UNSUPPORTED, 422,
			"ipu-sim has no CEL, and doesn't understand this from \"%.60s\" on", r->at);
	r->bad = true;
}

static void need(struct reader *r, const char *token)
{
	if (!r->bad && !take(r, token))
		misunderstand(r);
}

static struct value cannot_tell(struct reader *r, const char *what, struct str key)
{
	if (!r->told && !r->bad)
		err_set(r->err, ERR_INVALID, 0, "%s: %.*s", what, STR_ARG(key));
	r->told = true;
	return (struct value){.kind = VALUE_ERROR};
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static struct str read_name(struct reader *r)
{
	const char *from;

	skip_blanks(r);
	from = r->at;
	while (is_name(*r->at))
		r->at++;
	if (r->at == from)
		misunderstand(r);
	return (struct str){from, (size_t)(r->at - from)};
}

/* Without escapes: nothing that we compare with has any. */
static struct str read_string(struct reader *r)
{
	const char *from;
	char quote;

	skip_blanks(r);
	quote = *r->at;
	if (quote != '\'' && quote != '"') {
		misunderstand(r);
		return STR_NULL;
	}
	from = ++r->at;
	while (*r->at && *r->at != quote && *r->at != '\\')
		r->at++;
	if (*r->at != quote) {
		misunderstand(r);
		return STR_NULL;
	}
	return (struct str){from, (size_t)(r->at++ - from)};
}

static bool at_string(struct reader *r)
{
	skip_blanks(r);
	return *r->at == '\'' || *r->at == '"';
}

/* ---- values ---- */

static struct value of_json(const struct json *v)
{
	return (struct value){.kind = VALUE_JSON, .json = json_type(v) == JSON_NULL ? NULL : v};
}

static struct value member(struct reader *r, struct value v, struct str key, bool optional)
{
	const struct json *found;

	if (v.kind != VALUE_JSON)
		return v;
	found = json_getn(v.json, key);
	if (found)
		return of_json(found);
	if (optional)
		return (struct value){.kind = VALUE_ABSENT};
	return cannot_tell(r, "no such key", key);
}

/* What stands behind a path's members; v is the value before. True: the path ends here. */
static bool read_ending(struct reader *r, struct value *v)
{
	if (take(r, ".hasValue()")) {
		if (v->kind != VALUE_ERROR)
			*v = of_json(jmut_view(jmut_bool(r->doc, v->kind == VALUE_JSON)));
		return true;
	}
	if (take(r, ".orValue(")) {
		struct value otherwise = read_value(r);

		need(r, ")");
		if (v->kind == VALUE_ABSENT)
			*v = otherwise;
		return true;
	}
	return false;
}

static struct value read_root(struct reader *r)
{
	struct str name = read_name(r);

	if (str_eqz(name, "object"))
		return of_json(r->vars->object);
	if (str_eqz(name, "oldObject"))
		return of_json(r->vars->old_object);
	if (str_eqz(name, "request"))
		return of_json(r->vars->request);
	r->at = name.p;
	misunderstand(r);
	return (struct value){.kind = VALUE_ERROR};
}

static bool read_step(struct reader *r, struct str *ret_key, bool *ret_optional)
{
	bool index = take(r, "[");

	if (!index && !take(r, "."))
		return false;
	*ret_optional = take(r, "?");
	*ret_key = index ? read_string(r) : read_name(r);
	if (index)
		need(r, "]");
	return !r->bad;
}

/* Once one member was optional, those behind it are, too: as in CEL. */
static struct value read_path(struct reader *r)
{
	struct value v = read_root(r);
	bool optional = false, this_one;
	struct str key;

	while (!r->bad && !read_ending(r, &v) && read_step(r, &key, &this_one)) {
		optional = optional || this_one;
		v = member(r, v, key, optional);
	}
	return v;
}

static struct value read_list(struct reader *r)
{
	struct jmut *list = jmut_array(r->doc);

	while (!r->bad && !take(r, "]")) {
		jmut_push(r->doc, list, jmut_str(r->doc, read_string(r)));
		skip_blanks(r);
		if (*r->at != ']')
			need(r, ",");
	}
	return of_json(jmut_view(list));
}

static bool take_word(struct reader *r, const char *word)
{
	skip_blanks(r);
	return !is_name(r->at[strncmp(r->at, word, strlen(word)) == 0 ? strlen(word) : 0]) &&
	       take(r, word);
}

static struct value read_value(struct reader *r)
{
	if (at_string(r))
		return of_json(jmut_view(jmut_str(r->doc, read_string(r))));
	if (take(r, "["))
		return read_list(r);
	if (take(r, "{")) {
		need(r, "}");
		return of_json(jmut_view(jmut_object(r->doc)));
	}
	if (take_word(r, "true"))
		return of_json(jmut_view(jmut_bool(r->doc, true)));
	if (take_word(r, "false"))
		return of_json(jmut_view(jmut_bool(r->doc, false)));
	if (take_word(r, "null"))
		return of_json(NULL);
	return read_path(r);
}

/* ---- truths ---- */

static enum truth is_in(struct reader *r, struct value key, struct value where)
{
	struct json_iter it = json_iter(where.json);

	if (key.kind != VALUE_JSON || where.kind != VALUE_JSON)
		return UNKNOWN;
	if (json_type(where.json) == JSON_OBJECT)
		return json_getn(where.json, json_str(key.json)) ? YES : NO;
	if (json_type(where.json) != JSON_ARRAY) {
		cannot_tell(r, "no such overload", STR("in"));
		return UNKNOWN;
	}
	while (json_next(&it)) {
		if (json_equal(it.value, key.json))
			return YES;
	}
	return NO;
}

static enum truth is_equal(struct value a, struct value b)
{
	if (a.kind == VALUE_ERROR || b.kind == VALUE_ERROR)
		return UNKNOWN;
	if (a.kind != b.kind)
		return NO;
	if (!a.json || !b.json)
		return a.json == b.json ? YES : NO;
	return json_equal(a.json, b.json) ? YES : NO;
}

static enum truth negated(enum truth t)
{
	return t == UNKNOWN ? UNKNOWN : t == YES ? NO : YES;
}

/* Whether the last member of a path is there; those before must be. */
static enum truth read_has(struct reader *r)
{
	struct value before = read_root(r);
	struct str key = STR_NULL, next;
	bool optional, soft = false;

	while (!r->bad && read_step(r, &next, &optional)) {
		if (key.p)
			before = member(r, before, key, soft);
		soft = soft || optional;
		key = next;
	}
	if (!key.p)
		misunderstand(r);
	need(r, ")");
	if (r->bad || before.kind == VALUE_ERROR)
		return UNKNOWN;
	return before.kind == VALUE_JSON && json_getn(before.json, key) ? YES : NO;
}

static enum truth read_relation(struct reader *r)
{
	struct value v;

	if (take(r, "has("))
		return read_has(r);
	v = read_value(r);
	if (take(r, "=="))
		return is_equal(v, read_value(r));
	if (take(r, "!="))
		return negated(is_equal(v, read_value(r)));
	if (take_word(r, "in"))
		return is_in(r, v, read_value(r));
	if (v.kind == VALUE_JSON && json_type(v.json) == JSON_BOOL)
		return json_bool(v.json, false) ? YES : NO;
	if (v.kind == VALUE_JSON)
		cannot_tell(r, "no such overload", STR("a condition that is no bool"));
	return UNKNOWN;
}

static enum truth read_not(struct reader *r)
{
	enum truth t;

	if (++r->depth > MAX_DEPTH)
		misunderstand(r);
	if (r->bad) {
		t = UNKNOWN;
	} else if (take(r, "!")) {
		t = negated(read_not(r));
	} else if (take(r, "(")) {
		t = read_or(r);
		need(r, ")");
	} else {
		t = read_relation(r);
	}
	r->depth--;
	return t;
}

static enum truth read_and(struct reader *r)
{
	enum truth t = read_not(r);

	while (!r->bad && take(r, "&&")) {
		enum truth other = read_not(r);

		t = t == NO || other == NO ? NO : t == YES ? other : t;
	}
	return t;
}

static enum truth read_or(struct reader *r)
{
	enum truth t = read_and(r);

	while (!r->bad && take(r, "||")) {
		enum truth other = read_and(r);

		t = t == YES || other == YES ? YES : t == NO ? other : t;
	}
	return t;
}

static enum truth compute(struct reader *r, const char *text)
{
	enum truth t;

	r->at = text;
	t = read_or(r);
	skip_blanks(r);
	if (!r->bad && *r->at)
		misunderstand(r);
	return t;
}

int sim_condition_check(const char *text, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct sim_condition_vars nothing = {0};
	struct err why = ERR_INIT;
	struct reader r = {.vars = &nothing, .doc = doc, .err = &why};

	compute(&r, text);
	return r.bad ? err_copy(err, &why) : 0;
}

int sim_condition_holds(const char *text, const struct sim_condition_vars *vars, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct err why = ERR_INIT;
	struct reader r = {.vars = vars, .doc = doc, .err = &why};
	enum truth t = compute(&r, text);

	if (t == UNKNOWN || r.bad)
		return err_copy(err, &why);
	return t == YES;
}
