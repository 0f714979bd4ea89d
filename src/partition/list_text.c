/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of controllers from text: YAML where it is YAML, the guides' flat string where it isn't.
 * Owns nothing.
 */
#include "partition/list_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/yaml.h"
#include "kube/object.h"
#include "partition/controllers.h"

#define KEY "controllers"

/* ---- sentences ---- */

void words_add(struct words *w, const char *fmt, ...)
{
	char z[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(z, sizeof(z), fmt, ap);
	va_end(ap);
	if (words_has(w, z))
		return;
	w->items = xrealloc(w->items, (w->n + 1) * sizeof(*w->items));
	w->items[w->n++] = xstrdup(z);
}

bool words_has(const struct words *w, const char *z)
{
	for (size_t i = 0; i < w->n; i++) {
		if (strcmp(w->items[i], z) == 0)
			return true;
	}
	return false;
}

void words_done(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->items[i]);
	free(w->items);
	*w = (struct words){0};
}

/* ---- entries ---- */

int controllers_check_entry(const struct vipu_address *a, struct err *err)
{
	if (a->secret_name[0] &&
	    kube_check_name("secretName", str_of(a->secret_name), true, err) < 0)
		return -1;
	if (a->secret_name[0] && !a->tls)
		return err_set(err, ERR_INVALID, 0,
			       "with tls: false, the keys of Secret %s would go over the network "
			       "for all to read; leave tls out",
			       a->secret_name);
	return 0;
}

static void drop_item(struct vipu_address_list *list, size_t i)
{
	vipu_address_done(&list->items[i]);
	list->n--;
	memmove(&list->items[i], &list->items[i + 1], (list->n - i) * sizeof(list->items[0]));
}

static void drop_unusable(const char *name, struct vipu_address_list *list, struct words *problems)
{
	for (size_t i = 0; i < list->n;) {
		struct err err;

		if (controllers_check_entry(&list->items[i], &err) == 0) {
			i++;
			continue;
		}
		words_add(problems, "%s: \"%s\": %s", name, list->items[i].name, err.msg);
		drop_item(list, i);
	}
}

/* y NULL: the flat string, which has no lines. prefix: the JSON pointer of the list. */
static void tell_problems(const char *name, const struct yaml *y, const char *prefix,
			  const struct vipu_address_list *list, struct words *problems)
{
	for (size_t i = 0; i < list->n_problems; i++) {
		const struct vipu_address_problem *p = &list->problems[i];
		char pointer[48];
		unsigned line = 0, column = 0;

		if (!y) {
			words_add(problems, "%s: \"%s\": %s", name, p->text, p->reason);
			continue;
		}
		if (p->entry > 0)
			snprintf(pointer, sizeof(pointer), "%s/%zu", prefix, p->entry - 1);
		else
			snprintf(pointer, sizeof(pointer), "%s", prefix);
		yaml_pos(y, 0, pointer, &line, &column);
		words_add(problems, "%s:%u:%u: \"%s\": %s", name, line, column, p->text, p->reason);
	}
}

/* ---- the text ---- */

/* "[fd00::7]:8090…": YAML would take the bracket for a list. */
static bool begins_with_v6(struct str text)
{
	bool colon = false;

	if (text.len == 0 || text.p[0] != '[')
		return false;
	for (size_t i = 1; i < text.len; i++) {
		char c = text.p[i];

		if (c == ']')
			return colon;
		if (c == ' ' || c == '"' || c == ',' || c == '\n')
			return false;
		colon = colon || c == ':';
	}
	return false;
}

/* The list in the document, and where it stands. */
static int find_list(const struct yaml *y, const struct json **ret, const char **ret_pointer,
		     struct err *err)
{
	const struct json *root = yaml_doc(y, 0);
	struct json_iter it = json_iter(root);

	*ret = root;
	*ret_pointer = "";
	if (json_type(root) != JSON_OBJECT)
		return 0;
	while (json_next(&it)) {
		CLEANUP_FREE char *pointer = xasprintf("/%.*s", STR_ARG(it.key));

		if (!str_eqz(it.key, KEY))
			return yaml_key_error(y, 0, pointer, err,
					      "there is no key \"%.60s\", only \"" KEY "\"",
					      pointer + 1);
	}
	*ret = json_get(root, KEY);
	*ret_pointer = "/" KEY;
	return 0;
}

static int check_kind(const struct yaml *y, const struct json *v, const char *pointer,
		      struct err *err)
{
	switch (json_type(v)) {
	case JSON_NONE:
	case JSON_NULL:
	case JSON_STRING:
	case JSON_ARRAY:
		return 0;
	default:
		return yaml_error(y, 0, pointer, err,
				  "the controllers are a string or a list, not %s",
				  json_type_name(json_type(v)));
	}
}

int list_text_parse(const char *name, struct str text, struct vipu_address_list *ret,
		    struct words *problems, struct err *err)
{
	CLEANUP_YAML struct yaml *y = NULL;
	const struct json *v = NULL;
	const char *pointer = "";
	struct vipu_address_list list = {0};

	text = str_trim(text);
	if (begins_with_v6(text)) {
		vipu_address_parse(text, &list);
	} else {
		if (yaml_parse(name, text, &y, err) < 0)
			return -1;
		if (yaml_len(y) > 1)
			return yaml_error(y, 1, "", err, "the list is one document, not several");
		if (yaml_len(y) == 1 &&
		    (find_list(y, &v, &pointer, err) < 0 || check_kind(y, v, pointer, err) < 0))
			return -1;
		vipu_address_from_json(v, &list);
	}
	tell_problems(name, y, pointer, &list, problems);
	drop_unusable(name, &list, problems);
	*ret = list;
	return 0;
}
