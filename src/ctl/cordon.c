/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon, uncordon and drain: names go into the annotations of the controllers' ConfigMap and out
 * of them, under its resourceVersion, so that of two who change it at once neither is lost.
 */
#include "ctl/cordon.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "ctl/commands.h"
#include "ctl/views.h"
#include "kube/object.h"
#include "loop/backoff.h"

#define CORDON      "graphcore.ai/cordon"
#define DRAIN       "graphcore.ai/drain"
#define MAX_TRIES   10
#define LOOK_MS     1000
#define N_LISTS     2
#define MAX_MESSAGE ((size_t)1 << 20)

/* ---- lists ---- */

static bool is_one_of(struct str item, const char *const *names, size_t n_names)
{
	for (size_t i = 0; i < n_names; i++) {
		if (str_eqz(item, names[i]))
			return true;
	}
	return false;
}

char *ctl_list_edit(struct str list, const char *const *names, size_t n_names, bool with)
{
	char *out = xstrdup("");
	struct str item;

	while (list.len > 0) {
		char *longer;

		str_cut(list, ',', &item, &list);
		item = str_trim(item);
		if (item.len == 0 || str_list_has(str_of(out), item) ||
		    (!with && is_one_of(item, names, n_names)))
			continue;
		longer = xasprintf("%s%s%.*s", out, out[0] ? "," : "", STR_ARG(item));
		free(out);
		out = longer;
	}
	for (size_t i = 0; with && i < n_names; i++) {
		char *longer;

		if (str_list_has(str_of(out), str_of(names[i])))
			continue;
		longer = xasprintf("%s%s%s", out, out[0] ? "," : "", names[i]);
		free(out);
		out = longer;
	}
	return out;
}

/* ---- names ---- */

static const struct json *controller_of(const struct json *controllers, struct str name)
{
	struct json_iter it = json_iter(json_get(controllers, "items"));

	while (json_next(&it)) {
		if (str_eq(json_str(json_get(it.value, "name")), name))
			return it.value;
	}
	return NULL;
}

static int refuse_name(const char *name, const struct json *controllers, struct err *err)
{
	struct json_iter it = json_iter(json_get(controllers, "items"));
	struct buf known = BUF_INIT(MAX_MESSAGE);

	while (json_next(&it))
		buf_printf(&known, NULL, "%s%s", known.len ? ", " : "",
			   json_cstr(json_get(it.value, "name")));
	err_set(err, ERR_NOT_FOUND, 0,
		"the operator has no controller %s (--force takes the name all the same); it has "
		"%.*s",
		name, STR_ARG(known.len ? buf_str(&known) : STR("none")));
	buf_done(&known);
	return -1;
}

/* They are a part of a list, whatever the operator knows. */
static int check_form(const struct ctl_options *o, struct err *err)
{
	for (size_t i = 0; i < o->n_words; i++) {
		if (!o->words[i][0] || strpbrk(o->words[i], ", \t\r\n"))
			return err_set(err, ERR_INVALID, 0,
				       "\"%s\" is no controller's name: HOST:PORT", o->words[i]);
	}
	return 0;
}

static int check_names(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (o->force)
		return 0;
	if (ctl_link_ask(link, "/controllers", STR_NULL, &doc, err) < 0)
		return err_wrap(err, "the names can't be checked (--force does without)");
	for (size_t i = 0; i < o->n_words; i++) {
		if (!controller_of(json_root(doc), str_of(o->words[i])))
			return refuse_name(o->words[i], json_root(doc), err);
	}
	return 0;
}

/* ---- the ConfigMap ---- */

/* What is to become of one of the lists, and what became of it. */
struct list_change {
	const char *annotation;
	bool touched, with;
	char *before, *after;
};

struct change {
	struct ctl_link *link;
	const struct ctl_options *o;
	struct list_change lists[N_LISTS];
};

static void forget_lists(struct change *c)
{
	for (size_t i = 0; i < N_LISTS; i++) {
		free(c->lists[i].before);
		free(c->lists[i].after);
		c->lists[i].before = c->lists[i].after = NULL;
	}
}

/* Whether anything changes. */
static bool edit_lists(struct change *c, const struct json *object)
{
	bool changes = false;

	forget_lists(c);
	for (size_t i = 0; i < N_LISTS; i++) {
		struct list_change *l = &c->lists[i];
		struct str now = kube_annotation(object, l->annotation);

		l->before = str_dup(now);
		l->after = l->touched ? ctl_list_edit(now, (const char *const *)c->o->words,
						      c->o->n_words, l->with)
				      : str_dup(now);
		changes = changes || strcmp(l->before, l->after) != 0;
	}
	return changes;
}

/* metadata for a patch, or for a new object (without null members). */
static struct jmut *make_metadata(const struct change *c, struct jmut_doc *doc, bool is_new)
{
	struct jmut *meta = jmut_object(doc), *annotations = jmut_object(doc);

	for (size_t i = 0; i < N_LISTS; i++) {
		const struct list_change *l = &c->lists[i];

		if (l->after[0])
			jmut_set_str(doc, annotations, l->annotation, l->after);
		else if (!is_new)
			jmut_set(doc, annotations, l->annotation, jmut_null(doc));
	}
	jmut_set(doc, meta, "annotations", annotations);
	return meta;
}

static int write_object(struct change *c, const struct json *object, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *written = NULL;
	struct jmut *root = jmut_object(doc), *meta = make_metadata(c, doc, !object);
	struct kube_request r = {
		.verb = object ? KUBE_PATCH : KUBE_CREATE,
		.resource = &KUBE_CONFIGMAPS,
		.ns = c->o->ns,
		.name = object ? c->o->config_map : NULL,
		.json = root,
		.patch = KUBE_PATCH_MERGE,
		.field_manager = "ipuctl",
	};

	if (object) {
		jmut_set(doc, meta, "resourceVersion", jmut_str(doc, kube_version(object)));
	} else {
		jmut_set_str(doc, root, "apiVersion", "v1");
		jmut_set_str(doc, root, "kind", "ConfigMap");
		jmut_set_str(doc, meta, "name", c->o->config_map);
		jmut_set_str(doc, meta, "namespace", c->o->ns);
	}
	jmut_set(doc, root, "metadata", meta);
	return ctl_link_kube(c->link, &r, &written, err);
}

static int change_once(struct change *c, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct kube_request r = {.verb = KUBE_GET,
				 .resource = &KUBE_CONFIGMAPS,
				 .ns = c->o->ns,
				 .name = c->o->config_map};
	const struct json *object;

	if (ctl_link_kube(c->link, &r, &doc, err) < 0 && err->kind != ERR_NOT_FOUND)
		return -1;
	object = doc ? json_root(doc) : NULL;
	return edit_lists(c, object) ? write_object(c, object, err) : 0;
}

/* Somebody else's change in between is no error: look again, at most so often. */
static int change_all(struct change *c, struct err *err)
{
	struct backoff backoff = BACKOFF_INIT(50, 1000);

	for (int tries = 1;; tries++) {
		if (change_once(c, err) == 0)
			return 0;
		if ((err->kind != ERR_CONFLICT && err->kind != ERR_EXISTS) || tries == MAX_TRIES)
			return err_wrap(err, "ConfigMap %s/%s", c->o->ns, c->o->config_map);
		ctl_link_pause(c->link, (unsigned)backoff_next_ms(&backoff, err));
	}
}

static bool was_in_one(const struct change *c, struct str name)
{
	for (size_t i = 0; i < N_LISTS; i++) {
		if (c->lists[i].touched && str_list_has(str_of(c->lists[i].before), name))
			return true;
	}
	return false;
}

static int say(const char *name, const char *what, struct err *err)
{
	CLEANUP_FREE char *line = xasprintf("controller/%s %s\n", name, what);

	return ctl_write_out(str_of(line), err);
}

/* new, old: what is said of a name that was in none of the lists, and of one that was. */
static int apply(struct change *c, const char *new, const char *old, struct err *err)
{
	int result = change_all(c, err);

	for (size_t i = 0; i < c->o->n_words && result == 0; i++)
		result = say(c->o->words[i], was_in_one(c, str_of(c->o->words[i])) ? old : new,
			     err);
	forget_lists(c);
	return result;
}

int ctl_run_cordon(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct change c = {link, o, {{CORDON, true, true, NULL, NULL}, {.annotation = DRAIN}}};

	if (check_form(o, err) < 0 || check_names(link, o, err) < 0)
		return -1;
	return apply(&c, "cordoned", "already cordoned", err);
}

/* A name that is in a list may be one that the operator doesn't know any more. */
int ctl_run_uncordon(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct change c = {
		link, o, {{CORDON, true, false, NULL, NULL}, {DRAIN, true, false, NULL, NULL}}};

	if (check_form(o, err) < 0)
		return -1;
	return apply(&c, "isn't cordoned", "uncordoned", err);
}

/* ---- waiting ---- */

/* What is left on these controllers. One that the operator doesn't drain yet may get another
 * partition behind our back; of one that isn't in its answer (it has just started, or was never
 * told of it) nobody knows what is there. */
struct left {
	int64_t partitions;
	unsigned not_draining;
	const char *unknown; /* the first one, of the options' words; NULL: none */
};

static struct left count_left(const struct json *controllers, const struct ctl_options *o)
{
	struct left left = {0};

	for (size_t i = 0; i < o->n_words; i++) {
		const struct json *c = controller_of(controllers, str_of(o->words[i]));

		if (!c && !left.unknown)
			left.unknown = o->words[i];
		left.partitions = ctl_sum(left.partitions, ctl_count_of(c, "partitions"));
		left.not_draining += c && !json_bool(json_get(c, "draining"), false);
	}
	return left;
}

static int look(struct ctl_link *link, const struct ctl_options *o, struct left *ret,
		struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (ctl_link_ask(link, "/controllers", STR_NULL, &doc, err) < 0)
		return -1;
	*ret = count_left(json_root(doc), o);
	return 0;
}

static int refuse_rest(const struct left *left, unsigned wait_s, struct err *err)
{
	if (left->partitions > 0)
		return err_set(err, ERR_BUSY, 0, "after %u s partitions are left", wait_s);
	if (left->unknown)
		return err_set(err, ERR_BUSY, 0, "after %u s the operator has no controller %s",
			       wait_s, left->unknown);
	return err_set(err, ERR_BUSY, 0, "after %u s the operator hasn't begun to drain", wait_s);
}

/* An operator that is away for a while (a new version, say) doesn't end the wait. */
static int wait_until_empty(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + (int64_t)o->wait_s * 1000, told = -1;

	for (;;) {
		struct left left;
		int looked = look(link, o, &left, err);

		if (looked < 0 && !err_is_retryable(err))
			return -1;
		if (looked == 0 && left.partitions == 0 && left.not_draining == 0 && !left.unknown)
			return 0;
		if (looked == 0 && left.partitions != told && left.partitions > 0) {
			fprintf(stderr, "ipuctl: %" PRId64 " partition%s to go\n", left.partitions,
				left.partitions == 1 ? "" : "s");
			told = left.partitions;
		}
		if (clock_mono_ms() + LOOK_MS > deadline_ms)
			return looked < 0 ? -1 : refuse_rest(&left, o->wait_s, err);
		ctl_link_pause(link, LOOK_MS);
	}
}

int ctl_run_drain(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct change c = {link, o, {{.annotation = CORDON}, {DRAIN, true, true, NULL, NULL}}};

	if (check_form(o, err) < 0 || check_names(link, o, err) < 0 ||
	    apply(&c, "draining", "already draining", err) < 0)
		return -1;
	if (!o->wait_s)
		return 0;
	if (wait_until_empty(link, o, err) < 0)
		return -1;
	for (size_t i = 0; i < o->n_words; i++) {
		if (say(o->words[i], "drained", err) < 0)
			return -1;
	}
	return 0;
}
