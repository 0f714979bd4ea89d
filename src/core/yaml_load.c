/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From libfyaml's events to JSON values, with a stack of open containers instead of recursion.
 * Aliases and what is merged are copied; what all of them stand for is counted before each copy.
 * Uses err, json, map and str.
 */
#include "core/yaml_load.h"

#include <errno.h>
#include <stdlib.h>

#include <libfyaml.h>

#include "core/fy.h"
#include "core/map.h"
#include "core/yaml_impl.h"

#define VALUE_BYTES 64 /* about what one value costs beside its text */

/* What an alias refers to. While its container is open, v is NULL. */
struct anchor {
	struct jmut *v;
	size_t bytes;  /* of all that it holds */
	size_t height; /* levels of containers in it */
};

/* A container that is open. */
struct frame {
	struct jmut *v;
	bool is_map;
	struct yaml_mark at;     /* where it begins */
	struct yaml_mark key_at; /* of the key in front of it */
	struct anchor *anchor;   /* NULL: nobody can refer to it */
	size_t bytes_before;     /* loader.bytes at its beginning */
	size_t height;           /* of what is in it so far */
	/* mappings: */
	bool has_key;  /* the next value belongs to key */
	bool is_merge; /* and it's "<<" */
	char *key;
	size_t key_len;
	struct yaml_mark last_key_at;
	struct map *keys;    /* those seen; values are their lines */
	struct jmut *merges; /* array of what "<<" brought, NULL for nothing */
	struct yaml_mark merge_at;
};

struct loader {
	struct yaml *y;
	struct err *err;
	struct str input;
	struct map *anchors; /* of this document */
	struct frame frames[JSON_MAX_DEPTH];
	size_t depth;
	size_t bytes;          /* of values so far, roughly */
	size_t expanded;       /* what was copied, for aliases and by merging */
	struct yaml_mark last; /* where the reader is: for what has no place of its own */
	struct buf text;       /* of the scalar that is being looked at */
};

static struct yaml_mark mark_of(const struct loader *l, struct fy_event *e)
{
	const struct fy_mark *m = fy_event_start_mark(e);

	if (!m || m->line < 0 || m->column < 0)
		return l->last;
	return (struct yaml_mark){(unsigned)m->line + 1, (unsigned)m->column + 1};
}

/* libfyaml's is behind the asterisk; a newer one may think again. */
static struct yaml_mark mark_of_alias(const struct loader *l, struct fy_event *e)
{
	const struct fy_mark *m = fy_event_start_mark(e);
	struct yaml_mark at = mark_of(l, e);

	if (m && m->input_pos > 0 && m->input_pos < l->input.len &&
	    l->input.p[m->input_pos - 1] == '*' && at.column > 1)
		at.column--;
	return at;
}

static struct str token_text(struct fy_token *t)
{
	size_t len = 0;
	const char *p = t ? fy_token_get_text(t, &len) : NULL;

	return p ? (struct str){p, len} : STR_NULL;
}

static void add_place(struct yaml *y, const struct jmut *v, struct yaml_mark at,
		      struct yaml_mark key_at)
{
	if (y->n_places == y->cap_places) {
		y->cap_places = y->cap_places ? y->cap_places * 2 : 64;
		y->places = xrealloc(y->places, y->cap_places * sizeof(*y->places));
	}
	y->places[y->n_places++] = (struct yaml_place){jmut_view(v), at, key_at};
}

static void add_doc(struct yaml *y, const struct jmut *root)
{
	if (y->n_docs == y->cap_docs) {
		y->cap_docs = y->cap_docs ? y->cap_docs * 2 : 4;
		y->docs = xrealloc(y->docs, y->cap_docs * sizeof(const struct json *));
	}
	y->docs[y->n_docs++] = jmut_view(root);
}

/* ---- anchors ---- */

static void clear_anchors(struct loader *l)
{
	struct map_iter it = MAP_ITER(l->anchors);

	while (map_next(&it))
		free(it.value);
	map_free(l->anchors);
	l->anchors = map_new();
}

/* A name may be given again; later aliases then mean the later one. */
static struct anchor *open_anchor(struct loader *l, struct fy_event *e)
{
	struct fy_token *token = fy_event_get_anchor_token(e);
	struct anchor *a;

	if (!token)
		return NULL;
	a = xcalloc(1, sizeof(*a));
	/* An open container may still point at the one before: it stays in the map by another key.
	 */
	struct anchor *before = map_put(l->anchors, token_text(token), a);
	if (before) {
		CLEANUP_FREE char *key = xasprintf("\n%p", (void *)before);
		map_put(l->anchors, str_of(key), before);
	}
	return a;
}

/* ---- merge keys ---- */

static int check_merge(struct loader *l, const struct json *v, struct yaml_mark at)
{
	struct json_iter it = json_iter(v);

	if (json_type(v) == JSON_OBJECT)
		return 0;
	if (json_type(v) != JSON_ARRAY)
		return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
				       "<< needs a mapping or a list of mappings");
	while (json_next(&it)) {
		if (json_type(it.value) != JSON_OBJECT)
			return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
					       "<< needs a list of mappings only");
	}
	return 0;
}

/* Before bytes more are copied. */
static int count_copy(struct loader *l, size_t bytes, struct yaml_mark at)
{
	l->expanded += bytes;
	if (l->expanded > YAML_MAX_EXPANSION)
		return yaml_impl_error(l->y, at, ERR_LIMIT, l->err,
				       "aliases and merges stand for more than %zu bytes",
				       YAML_MAX_EXPANSION);
	return 0;
}

/* The members of from that the mapping hasn't got: its own keys and earlier merges go first. */
static void merge_one(struct loader *l, struct frame *f, const struct json *from)
{
	struct json_iter it = json_iter(from);

	while (json_next(&it)) {
		if (map_get(f->keys, it.key))
			continue;
		map_put(f->keys, it.key, (void *)(uintptr_t)f->merge_at.line);
		struct jmut *v = jmut_copy(l->y->values, it.value);
		jmut_add(l->y->values, f->v, it.key, v);
		add_place(l->y, v, f->merge_at, f->merge_at);
	}
}

static void apply_merges(struct loader *l, struct frame *f)
{
	struct json_iter it = json_iter(jmut_view(f->merges));

	while (json_next(&it)) {
		struct json_iter inner = json_iter(it.value);
		if (json_type(it.value) == JSON_OBJECT)
			merge_one(l, f, it.value);
		else
			while (json_next(&inner))
				merge_one(l, f, inner.value);
	}
}

/* ---- values ---- */

static int take_key(struct loader *l, struct frame *f, struct str key, bool is_plain,
		    struct yaml_mark at)
{
	f->is_merge = is_plain && str_eqz(key, "<<");
	if (is_plain && yaml_impl_resolve(key).kind == YAML_NULL)
		return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
				       "a key must be a string, not null");

	uintptr_t line = (uintptr_t)map_put(f->keys, key, (void *)(uintptr_t)at.line);
	if (line)
		return yaml_impl_error(
			l->y, at, ERR_INVALID, l->err, "key \"%.*s\" is there already, in line %u",
			key.len > 100 ? 100 : (int)key.len, key.p ? key.p : "", (unsigned)line);
	free(f->key);
	f->key = str_dup(key);
	f->key_len = key.len;
	f->last_key_at = at;
	f->has_key = true;
	l->bytes += key.len + VALUE_BYTES;
	return 0;
}

/* A value that is whole, to where it belongs. bytes: of all that it holds; height: levels of
 * containers in it. */
static int put_value(struct loader *l, struct jmut *v, struct yaml_mark at, size_t bytes,
		     size_t height)
{
	struct frame *f = l->depth ? &l->frames[l->depth - 1] : NULL;
	struct yaml_mark nowhere = {0, 0};

	if (!f) {
		add_doc(l->y, v);
		add_place(l->y, v, at, nowhere);
		return 0;
	}
	if (f->height < height)
		f->height = height;
	if (!f->is_map) {
		jmut_push(l->y->values, f->v, v);
		add_place(l->y, v, at, nowhere);
		return 0;
	}
	f->has_key = false;
	if (!f->is_merge) {
		jmut_add(l->y->values, f->v, (struct str){f->key, f->key_len}, v);
		add_place(l->y, v, at, f->last_key_at);
		return 0;
	}
	if (check_merge(l, jmut_view(v), at) < 0 || count_copy(l, bytes, at) < 0)
		return -1;
	if (!f->merges)
		f->merges = jmut_array(l->y->values);
	f->merge_at = f->last_key_at;
	jmut_push(l->y->values, f->merges, v);
	return 0;
}

static bool wants_key(const struct loader *l)
{
	return l->depth && l->frames[l->depth - 1].is_map && !l->frames[l->depth - 1].has_key;
}

#define CORE_TAG "tag:yaml.org,2002:"

/* By its tag if it has one, else by the core schema if it's plain. No value, tag or alias is in a
 * message: a password that isn't in quotes may begin with an asterisk or an exclamation mark. */
static int make_scalar(struct loader *l, struct str s, bool is_plain, struct str tag,
		       struct yaml_mark at, struct jmut **ret)
{
	struct jmut_doc *doc = l->y->values;
	struct yaml_scalar r = {.kind = YAML_STRING};
	static const struct {
		const char *tag;
		enum yaml_kind kind;
	} tags[] = {
		{CORE_TAG "null", YAML_NULL},  {CORE_TAG "bool", YAML_BOOL},
		{CORE_TAG "int", YAML_INT},    {CORE_TAG "float", YAML_REAL},
		{CORE_TAG "str", YAML_STRING}, {"!", YAML_STRING},
	};

	if (is_plain && tag.len == 0)
		r = yaml_impl_resolve(s);
	if (tag.len > 0) {
		size_t i = 0;
		while (i < sizeof(tags) / sizeof(tags[0]) && !str_eqz(tag, tags[i].tag))
			i++;
		if (i == sizeof(tags) / sizeof(tags[0]))
			return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
					       "this tag isn't understood");
		if (tags[i].kind != YAML_STRING)
			r = yaml_impl_resolve(s);
		if (tags[i].kind == YAML_REAL && r.kind == YAML_INT)
			r = (struct yaml_scalar){.kind = YAML_REAL, .d = (double)r.n};
		if (r.kind != tags[i].kind && r.kind != YAML_NOT_FINITE)
			return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
					       "the value doesn't fit its tag \"%.*s\"",
					       STR_ARG(tag));
	}
	switch (r.kind) {
	case YAML_STRING:
		*ret = jmut_str(doc, s);
		return 0;
	case YAML_NULL:
		*ret = jmut_null(doc);
		return 0;
	case YAML_BOOL:
		*ret = jmut_bool(doc, r.b);
		return 0;
	case YAML_INT:
		*ret = jmut_int(doc, r.n);
		return 0;
	case YAML_REAL:
		*ret = jmut_real(doc, r.d);
		return 0;
	case YAML_NOT_FINITE:
		break;
	}
	return yaml_impl_error(l->y, at, ERR_INVALID, l->err, "this isn't a finite number");
}

static int on_scalar(struct loader *l, struct fy_event *e)
{
	struct fy_token *token = fy_event_get_token(e);
	struct yaml_mark at = mark_of(l, e);
	struct str text, tag = token_text(fy_event_get_tag_token(e));
	bool is_plain = !token || fy_token_scalar_style(token) == FYSS_PLAIN;
	struct anchor *anchor = open_anchor(l, e);
	bool is_key = wants_key(l);
	struct jmut *v = NULL;

	if (fy_text(token, &l->text, l->err) < 0)
		return err_wrap(l->err, "%s", l->y->name);
	text = buf_str(&l->text);
	/* A key is what is written, but an alias to it is what that means. */
	if (!is_key || anchor) {
		if (make_scalar(l, text, is_plain, tag, at, &v) < 0)
			return -1;
		l->bytes += text.len + VALUE_BYTES;
	}
	if (anchor)
		*anchor = (struct anchor){v, text.len + VALUE_BYTES, 0};
	if (is_key)
		return take_key(l, &l->frames[l->depth - 1], text, is_plain && tag.len == 0, at);
	/* An empty document isn't one. */
	if (l->depth == 0 && text.len == 0 && is_plain && tag.len == 0 && !anchor)
		return 0;
	return put_value(l, v, at, text.len + VALUE_BYTES, 0);
}

static int on_alias(struct loader *l, struct fy_event *e)
{
	struct str name = token_text(fy_event_get_token(e));
	struct anchor *a = map_get(l->anchors, name);
	struct yaml_mark at = mark_of_alias(l, e);

	if (!a)
		return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
				       "there is no anchor of this alias's name");
	if (!a->v)
		return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
				       "this alias is inside of what it refers to");
	if (l->depth + a->height > JSON_MAX_DEPTH)
		return yaml_impl_error(l->y, at, ERR_LIMIT, l->err, "nested deeper than %d levels",
				       JSON_MAX_DEPTH);
	if (count_copy(l, a->bytes, at) < 0)
		return -1;
	l->bytes += a->bytes;
	if (wants_key(l)) {
		if (json_type(jmut_view(a->v)) != JSON_STRING)
			return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
					       "a key must be a string, and this alias isn't");
		return take_key(l, &l->frames[l->depth - 1], json_str(jmut_view(a->v)), false, at);
	}
	return put_value(l, jmut_clone(l->y->values, a->v), at, a->bytes, a->height);
}

static int on_start(struct loader *l, struct fy_event *e, bool is_map)
{
	struct yaml_mark at = mark_of(l, e);
	struct str tag = token_text(fy_event_get_tag_token(e));

	if (wants_key(l))
		return yaml_impl_error(l->y, at, ERR_INVALID, l->err,
				       "a key must be a string, not a %s",
				       is_map ? "mapping" : "list");
	if (tag.len > 0 && !str_eqz(tag, is_map ? CORE_TAG "map" : CORE_TAG "seq"))
		return yaml_impl_error(l->y, at, ERR_INVALID, l->err, "this tag isn't understood");
	if (l->depth == JSON_MAX_DEPTH)
		return yaml_impl_error(l->y, at, ERR_LIMIT, l->err, "nested deeper than %d levels",
				       JSON_MAX_DEPTH);

	struct jmut_doc *doc = l->y->values;
	l->frames[l->depth++] = (struct frame){
		.v = is_map ? jmut_object(doc) : jmut_array(doc),
		.is_map = is_map,
		.at = at,
		.anchor = open_anchor(l, e),
		.bytes_before = l->bytes,
		.keys = is_map ? map_new() : NULL,
	};
	l->bytes += VALUE_BYTES;
	return 0;
}

static void drop_frame(struct loader *l)
{
	struct frame *f = &l->frames[--l->depth];

	free(f->key);
	map_free(f->keys);
}

static int on_end(struct loader *l)
{
	struct frame *f = &l->frames[l->depth - 1];
	struct jmut *v = f->v;
	struct yaml_mark at = f->at;
	size_t bytes = l->bytes - f->bytes_before, height = f->height + 1;

	apply_merges(l, f);
	if (f->anchor)
		*f->anchor = (struct anchor){v, bytes, height};
	drop_frame(l);
	return put_value(l, v, at, bytes, height);
}

static int on_event(struct loader *l, struct fy_event *e)
{
	l->last = mark_of(l, e);
	switch (e->type) {
	case FYET_DOCUMENT_START:
		clear_anchors(l);
		return 0;
	case FYET_SCALAR:
		return on_scalar(l, e);
	case FYET_ALIAS:
		return on_alias(l, e);
	case FYET_SEQUENCE_START:
		return on_start(l, e, false);
	case FYET_MAPPING_START:
		return on_start(l, e, true);
	case FYET_SEQUENCE_END:
	case FYET_MAPPING_END:
		return on_end(l);
	default:
		return 0;
	}
}

/* ---- libfyaml ---- */

static int syntax_error(struct loader *l, struct fy_diag *diag)
{
	void *prev = NULL;
	struct fy_diag_error *e = fy_diag_errors_iterate(diag, &prev);

	if (!e)
		return yaml_impl_error(l->y, l->last, ERR_INVALID, l->err, "this can't be parsed");

	struct yaml_mark at = l->last;
	if (e->line > 0 && e->column > 0)
		at = (struct yaml_mark){(unsigned)e->line, (unsigned)e->column};
	return yaml_impl_error(l->y, at, ERR_INVALID, l->err, "%s", e->msg);
}

static int parse(struct loader *l, struct fy_parser *parser, struct fy_diag *diag)
{
	struct fy_event *e;

	while ((e = fy_parser_parse(parser))) {
		int r = on_event(l, e);
		fy_parser_event_free(parser, e);
		if (r < 0)
			return -1;
	}
	return fy_parser_get_stream_error(parser) ? syntax_error(l, diag) : 0;
}

int yaml_impl_load(struct yaml *y, struct str s, struct err *err)
{
	struct fy_diag *diag = fy_diag_silent();
	struct fy_parse_cfg cfg = {
		/* Depth and keys are looked at here. */
		.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2 |
			 FYPCF_JSON_NONE | FYPCF_DISABLE_DEPTH_LIMIT | FYPCF_ALLOW_DUPLICATE_KEYS,
		.diag = diag,
	};
	struct fy_parser *parser = diag ? fy_parser_create(&cfg) : NULL;
	struct loader *l = xcalloc(1, sizeof(*l));
	int r;

	l->y = y;
	l->err = err;
	l->input = s;
	l->last = (struct yaml_mark){1, 1};
	/* An escape of two characters stands for at most three bytes. */
	buf_init(&l->text, 2 * YAML_MAX_BYTES + 1024);
	l->anchors = map_new();
	if (!parser || fy_parser_set_string(parser, s.p ? s.p : "", s.len) != 0)
		r = err_set(err, ERR_LIMIT, ENOMEM, "%s: no memory for the YAML parser", y->name);
	else
		r = parse(l, parser, diag);
	while (l->depth > 0)
		drop_frame(l);
	clear_anchors(l);
	map_free(l->anchors);
	buf_done(&l->text);
	free(l);
	fy_parser_destroy(parser);
	fy_diag_destroy(diag);
	return r;
}
