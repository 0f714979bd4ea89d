/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON texts by libfyaml's parser in its JSON mode, whose events become a tree. What that mode lets
 * through although it isn't JSON is looked for here.
 * Uses err, fault and str.
 */
#include "core/json_fy.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include <libfyaml.h>

#include "core/fault.h"
#include "core/fy.h"

struct parser {
	struct fy_json_doc *doc;
	struct fy_json_node *open[JSON_MAX_DEPTH];
	size_t depth;
	struct buf text; /* of the token that is being looked at */
	struct str key;  /* of the value that comes next; p NULL: a key comes next */
	struct err *err;
};

static int no_memory(struct err *err)
{
	return err_set(err, ERR_LIMIT, ENOMEM, "no memory to parse a JSON document");
}

static size_t skip_digits(struct str s, size_t i)
{
	while (i < s.len && s.p[i] >= '0' && s.p[i] <= '9')
		i++;
	return i;
}

/* RFC 8259, section 6; libfyaml looks at it too, but 1e5 and 1 are one thing to it. */
static bool is_number(struct str s, bool *ret_whole)
{
	size_t from = s.len > 0 && s.p[0] == '-', i = skip_digits(s, from);

	*ret_whole = true;
	if (i == from || (s.p[from] == '0' && i > from + 1))
		return false;
	if (i < s.len && s.p[i] == '.') {
		*ret_whole = false;
		from = i + 1;
		i = skip_digits(s, from);
		if (i == from)
			return false;
	}
	if (i < s.len && (s.p[i] == 'e' || s.p[i] == 'E')) {
		*ret_whole = false;
		from = i + 1;
		if (from < s.len && (s.p[from] == '-' || s.p[from] == '+'))
			from++;
		i = skip_digits(s, from);
		if (i == from)
			return false;
	}
	return i == s.len;
}

/* What isn't a string: a word or a number. NULL: neither, or without memory. */
static struct fy_json_node *make_plain(struct fy_json_doc *doc, struct str s)
{
	bool whole;
	int64_t n;
	struct fy_json_node *v;

	if (str_eqz(s, "null"))
		return json_fy_node(doc, JSON_NULL);
	if (str_eqz(s, "true") || str_eqz(s, "false")) {
		v = json_fy_node(doc, JSON_BOOL);
		if (v)
			v->b = s.p[0] == 't';
		return v;
	}
	if (!is_number(s, &whole))
		return NULL;
	if (whole && str_to_int(s, INT64_MIN, INT64_MAX, &n, NULL) == 0) {
		v = json_fy_node(doc, JSON_INT);
		if (v)
			v->n = n;
		return v;
	}
	v = json_fy_node(doc, JSON_REAL);
	if (!v)
		return NULL;
	v->p = json_fy_text(doc, s);
	v->len = s.len;
	if (!v->p)
		return NULL;
	double d = strtod(v->p, NULL);
	v->d = isinf(d) ? copysign(DBL_MAX, d) : d;
	return v;
}

static struct fy_json_node *innermost(const struct parser *p)
{
	return p->depth ? p->open[p->depth - 1] : NULL;
}

static void put_value(struct parser *p, struct fy_json_node *v)
{
	struct fy_json_node *container = innermost(p);

	if (!container) {
		p->doc->root = v;
		return;
	}
	v->key = p->key.p;
	v->key_len = p->key.len;
	p->key = STR_NULL;
	json_fy_append(container, v);
}

static int error_at(struct fy_event *e, struct err *err, const char *what)
{
	const struct fy_mark *m = fy_event_start_mark(e);

	return err_set(err, ERR_INVALID, 0, "line %d, column %d: %s", m ? m->line + 1 : 1,
		       m ? m->column + 1 : 1, what);
}

static int on_scalar(struct parser *p, struct fy_event *e)
{
	struct fy_token *token = fy_event_get_token(e);
	struct fy_json_node *container = innermost(p);
	struct str s = STR_NULL;
	struct fy_json_node *v;

	if (!token)
		return error_at(e, p->err, "a value is missing");
	if (fy_text(token, &p->text, NULL) < 0)
		return no_memory(p->err);
	s = p->text.len > 0 ? buf_str(&p->text) : STR("");
	bool is_string = fy_token_scalar_style(token) == FYSS_DOUBLE_QUOTED;
	if (container && container->type == JSON_OBJECT && !p->key.p) {
		if (!is_string)
			return error_at(e, p->err, "a key must be a string");
		p->key = (struct str){json_fy_text(p->doc, s), s.len};
		return p->key.p ? 0 : no_memory(p->err);
	}
	bool whole;
	if (!is_string && !str_eqz(s, "null") && !str_eqz(s, "true") && !str_eqz(s, "false") &&
	    !is_number(s, &whole))
		return error_at(e, p->err, "neither a string nor a number nor a word of JSON");
	v = is_string ? json_fy_string(p->doc, s) : make_plain(p->doc, s);
	if (!v)
		return no_memory(p->err);
	put_value(p, v);
	return 0;
}

static int on_event(struct parser *p, struct fy_event *e)
{
	struct fy_json_node *container = innermost(p);
	struct fy_json_node *v;

	switch (e->type) {
	case FYET_SCALAR:
		return on_scalar(p, e);
	case FYET_MAPPING_START:
	case FYET_SEQUENCE_START:
		if (container && container->type == JSON_OBJECT && !p->key.p)
			return error_at(e, p->err, "a key must be a string");
		if (p->depth == JSON_MAX_DEPTH)
			return json_impl_too_deep(p->err);
		v = json_fy_node(p->doc, e->type == FYET_MAPPING_START ? JSON_OBJECT : JSON_ARRAY);
		if (!v)
			return no_memory(p->err);
		put_value(p, v);
		p->open[p->depth++] = v;
		return 0;
	case FYET_MAPPING_END:
	case FYET_SEQUENCE_END:
		p->depth--;
		return 0;
	case FYET_ALIAS:
		return error_at(e, p->err, "JSON has no aliases");
	default:
		return 0;
	}
}

static int syntax_error(struct fy_diag *diag, struct err *err)
{
	void *prev = NULL;
	struct fy_diag_error *e = fy_diag_errors_iterate(diag, &prev);

	if (!e)
		return err_set(err, ERR_INVALID, 0, "line 1, column 1: not JSON");
	return err_set(err, ERR_INVALID, 0, "line %d, column %d: %s", e->line, e->column, e->msg);
}

static int run(struct parser *p, struct fy_parser *fy, struct fy_diag *diag)
{
	struct fy_event *e;

	while ((e = fy_parser_parse(fy))) {
		int r = on_event(p, e);
		fy_parser_event_free(fy, e);
		if (r < 0)
			return -1;
	}
	return fy_parser_get_stream_error(fy) ? syntax_error(diag, p->err) : 0;
}

static int parse_events(struct parser *p, struct str s)
{
	struct fy_diag *diag = fy_diag_silent();
	int r;
	struct fy_parse_cfg cfg = {
		.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_JSON_FORCE |
			 FYPCF_DISABLE_DEPTH_LIMIT | FYPCF_ALLOW_DUPLICATE_KEYS,
		.diag = diag,
	};
	struct fy_parser *fy = diag ? fy_parser_create(&cfg) : NULL;
	if (!fy || fy_parser_set_string(fy, s.p, s.len) != 0)
		r = no_memory(p->err);
	else
		r = run(p, fy, diag);
	fy_parser_destroy(fy);
	fy_diag_destroy(diag);
	return r;
}

/* What libfyaml lets through although it isn't JSON's. */
static int check_bytes(struct str s, struct err *err)
{
	bool in_string = false;

	if (str_has_prefix(s, STR("\xef\xbb\xbf")))
		return json_impl_invalid(s, 0, err, "a byte order mark");
	for (size_t i = 0; i < s.len;) {
		size_t n = str_utf8_first((struct str){s.p + i, s.len - i});
		if (n == 0)
			return json_impl_invalid(s, i, err, "a byte that isn't UTF-8");
		if (s.p[i] == '\0')
			return json_impl_invalid(s, i, err, "a NUL byte");
		if (s.p[i] == '#' && !in_string)
			return json_impl_invalid(s, i, err, "JSON has no comments");
		if (s.p[i] == '"')
			in_string = !in_string;
		else if (s.p[i] == '\\' && in_string && i + 1 < s.len &&
			 (s.p[i + 1] == '"' || s.p[i + 1] == '\\'))
			n = 2;
		i += n;
	}
	return 0;
}

static int parse_doc(struct str s, bool secret, struct json_doc **ret, struct err *err)
{
	struct parser *p;
	int r;

	if (str_trim(s).len == 0)
		return json_impl_invalid(s, 0, err, "the document is empty");
	if (check_bytes(s, err) < 0)
		return -1;
	/* libfyaml takes a tab behind a space at the end for YAML's. */
	while (strchr(" \t\r\n", s.p[s.len - 1]))
		s.len--;
	p = xcalloc(1, sizeof(*p));
	p->err = err;
	buf_init(&p->text, SIZE_MAX);
	p->text.secret = secret;
	p->doc = fault_realloc(NULL, sizeof(*p->doc));
	if (!p->doc) {
		free(p);
		return no_memory(err);
	}
	*p->doc = (struct fy_json_doc){.may_fail = true, .secret = secret};
	r = parse_events(p, s);
	if (r == 0 && !p->doc->root)
		r = json_impl_invalid(s, 0, err, "the document is empty");
	if (r == 0)
		*ret = (struct json_doc *)p->doc;
	else
		json_fy_free(p->doc);
	buf_done(&p->text);
	free(p);
	return r;
}

int json_parse(struct str s, struct json_doc **ret, struct err *err)
{
	return parse_doc(s, false, ret, err);
}

int json_parse_secret(struct str s, struct json_doc **ret, struct err *err)
{
	return parse_doc(s, true, ret, err);
}
