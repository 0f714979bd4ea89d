/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of what is published, and the Node as it sees it.
 */
#include "node/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"

#define MAX_PUBLISHED ((size_t)64 << 10)

/* ---- the Node ---- */

static enum fabric_status status_of(struct str s)
{
	if (str_eqz(s, "True"))
		return FABRIC_TRUE;
	return str_eqz(s, "False") ? FABRIC_FALSE : FABRIC_UNKNOWN;
}

static int64_t time_of(const struct json *condition, const char *key)
{
	int64_t ms;

	return clock_parse(json_str(json_get(condition, key)), &ms, NULL) == 0 ? ms : 0;
}

void publish_condition_decode(const struct json *object, struct publish_condition *c)
{
	struct json_iter it = json_iter(json_at(object, "status", "conditions", NULL));

	while (json_next(&it)) {
		if (!str_eqz(json_str(json_get(it.value, "type")), FABRIC_CONDITION))
			continue;
		*c = (struct publish_condition){
			.known = true,
			.status = status_of(json_str(json_get(it.value, "status"))),
			.reason = str_dup(json_str(json_get(it.value, "reason"))),
			.message = str_dup(json_str(json_get(it.value, "message"))),
			.heartbeat_ms = time_of(it.value, "lastHeartbeatTime"),
			.transition_ms = time_of(it.value, "lastTransitionTime"),
		};
		return;
	}
	*c = (struct publish_condition){.reason = xstrdup(""), .message = xstrdup("")};
}

void publish_condition_done(struct publish_condition *c)
{
	free(c->reason);
	free(c->message);
	*c = (struct publish_condition){0};
}

int publish_node_decode(const struct json *object, struct publish_node **ret, struct err *err)
{
	struct publish_node *n;

	if (!kube_name(object).len)
		return err_set(err, ERR_INVALID, 0, "a Node without a name");
	n = xcalloc(1, sizeof(*n));
	n->name = str_dup(kube_name(object));
	n->uid = str_dup(kube_uid(object));
	n->version = str_dup(kube_version(object));
	n->published = str_dup(kube_annotation(object, PUBLISH_ANNOTATION));
	n->doc = jmut_doc_new();
	n->labels = jmut_view(jmut_copy(n->doc, json_at(object, "metadata", "labels", NULL)));
	n->taints = jmut_view(jmut_copy(n->doc, json_at(object, "spec", "taints", NULL)));
	publish_condition_decode(object, &n->condition);
	*ret = n;
	return 0;
}

void publish_node_free(struct publish_node *n)
{
	if (!n)
		return;
	free(n->name);
	free(n->uid);
	free(n->version);
	free(n->published);
	publish_condition_done(&n->condition);
	jmut_doc_free(n->doc);
	free(n);
}

static bool same_condition(const struct publish_condition *a, const struct publish_condition *b)
{
	return a->known == b->known && a->status == b->status &&
	       a->heartbeat_ms == b->heartbeat_ms && a->transition_ms == b->transition_ms &&
	       strcmp(a->reason, b->reason) == 0 && strcmp(a->message, b->message) == 0;
}

bool publish_node_equal(const struct publish_node *a, const struct publish_node *b)
{
	return strcmp(a->uid, b->uid) == 0 && strcmp(a->published, b->published) == 0 &&
	       json_equal(a->labels, b->labels) && json_equal(a->taints, b->taints) &&
	       same_condition(&a->condition, &b->condition);
}

struct str publish_node_label(const struct publish_node *node, const char *key)
{
	return json_str(json_get(node->labels, key));
}

/* ---- words: what is ours ---- */

static bool next_word(struct str *rest, struct str *ret_word)
{
	do {
		if (!rest->len)
			return false;
		str_cut(*rest, ' ', ret_word, rest);
	} while (!ret_word->len);
	return true;
}

static bool has_word(struct str words, struct str word)
{
	struct str one;

	while (next_word(&words, &one)) {
		if (str_eq(one, word))
			return true;
	}
	return false;
}

static void add_word(struct buf *words, struct str word)
{
	if (!has_word(buf_str(words), word))
		buf_printf(words, NULL, "%s%.*s", words->len ? " " : "", STR_ARG(word));
}

/* "KEY=VALUE" with that key. */
static bool has_key(struct str words, struct str key)
{
	struct str word, head, tail;

	while (next_word(&words, &word)) {
		if (str_cut(word, '=', &head, &tail) && str_eq(head, key))
			return true;
	}
	return false;
}

/* ---- the condition ---- */

static void write_condition(const struct publish_view *v, struct publish_plan *plan)
{
	const struct publish_condition *old = &v->node->condition;
	const struct fabric_verdict *is = v->verdict;
	bool turns = !old->known || old->status != is->status || !old->transition_ms;
	struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *c = jmut_object(doc);
	char now[CLOCK_RFC3339_SIZE], since[CLOCK_RFC3339_SIZE];

	clock_format(v->now_ms, now);
	clock_format(turns ? v->now_ms : old->transition_ms, since);
	jmut_set_str(doc, c, "type", FABRIC_CONDITION);
	jmut_set_str(doc, c, "status", fabric_status_name(is->status));
	jmut_set_str(doc, c, "reason", is->reason);
	jmut_set_str(doc, c, "message", is->message);
	jmut_set_str(doc, c, "lastHeartbeatTime", now);
	jmut_set_str(doc, c, "lastTransitionTime", since);
	jmut_push(doc, jmut_need_array(doc, jmut_need_object(doc, root, "status"), "conditions"),
		  c);
	jmut_set_root(doc, root);
	plan->condition = doc;
}

/* A look is due then. */
static void due_in(struct publish_plan *plan, int64_t ms)
{
	if (plan->next_ms < 0 || ms < plan->next_ms)
		plan->next_ms = ms > 0 ? ms : 0;
}

/* What is worse is said at once, what is better when it has lasted: a port that comes and goes
 * costs two writes in node.calmSeconds. */
static void plan_condition(const struct publish_view *v, struct publish_plan *plan)
{
	const struct publish_condition *old = &v->node->condition;
	const struct fabric_verdict *is = v->verdict;
	int64_t age_ms = v->now_ms - old->heartbeat_ms;
	bool same_words = strcmp(old->reason, is->reason) == 0 &&
			  strcmp(old->message, is->message) == 0;
	int64_t wait_ms = same_words ? PUBLISH_HEARTBEAT_MS : PUBLISH_WORDS_MS;

	plan->status = is->status;
	if (!old->known || is->status > old->status) {
		write_condition(v, plan);
	} else if (is->status < old->status) {
		if (v->steady_ms >= v->settings->calm_ms) {
			write_condition(v, plan);
		} else {
			plan->status = old->status;
			due_in(plan, v->settings->calm_ms - v->steady_ms);
		}
	} else if (age_ms >= wait_ms || age_ms < -PUBLISH_WORDS_MS) {
		write_condition(v, plan); /* the latter: a clock that was set back */
	} else {
		due_in(plan, wait_ms - age_ms);
	}
	if (plan->condition)
		due_in(plan, PUBLISH_HEARTBEAT_MS);
}

/* ---- labels ---- */

static bool is_recorded(const struct publish_node *n, struct str word)
{
	return has_word(str_of(n->published), word);
}

/* A label that the Node has: it stays ours if it was. */
static void keep_label(const struct publish_view *v, const char *key, const char *value,
		       struct buf *ours)
{
	CLEANUP_FREE char *word = xasprintf("%s=%s", key, value);

	if (str_eqz(publish_node_label(v->node, key), value) && is_recorded(v->node, str_of(word)))
		add_word(ours, str_of(word));
}

static bool is_configured(const struct publish_view *v, const char *key, struct str value)
{
	for (size_t i = 0; i < v->controllers->n; i++) {
		const struct vipu_address *a = &v->controllers->items[i];

		if (strcmp(a->label, key) == 0 && str_eqz(value, a->value))
			return true;
	}
	return false;
}

/* Whether the key is free for us: not there, or ours from a controller that isn't configured any
 * more. */
static bool is_free(const struct publish_view *v, const char *key)
{
	const struct json *label = json_get(v->node->labels, key);
	CLEANUP_FREE char *word = xasprintf("%s=%.*s", key, STR_ARG(json_str(label)));

	if (!label)
		return true;
	return is_recorded(v->node, str_of(word)) && !is_configured(v, key, json_str(label));
}

static void add_label(const struct publish_view *v, const char *key, const char *value,
		      struct buf *ours)
{
	CLEANUP_FREE char *word = xasprintf("%s=%s", key, value);

	if (!has_key(buf_str(ours), str_of(key)) && is_free(v, key))
		add_word(ours, str_of(word));
}

/* A driver that is loaded again takes its devices along for a moment, which is no news: what hangs
 * on the label would come and go with it. */
static void want_rdma(const struct publish_view *v, struct publish_plan *plan, struct buf *ours)
{
	bool gone = v->verdict->rdma == FABRIC_FALSE;

	if (!gone || v->rdma_ms < v->settings->calm_ms)
		keep_label(v, PUBLISH_LABEL_RDMA, "true", ours);
	if (gone && has_key(buf_str(ours), STR(PUBLISH_LABEL_RDMA)))
		due_in(plan, v->settings->calm_ms - v->rdma_ms);
	if (v->verdict->rdma == FABRIC_TRUE)
		add_label(v, PUBLISH_LABEL_RDMA, "true", ours);
}

/* The labels that are to be there by us. */
static void want_labels(const struct publish_view *v, struct publish_plan *plan, struct buf *ours)
{
	const struct vipu_address_list *list = v->controllers;

	if (!v->settings->labels)
		return;
	want_rdma(v, plan, ours);
	for (size_t i = 0; i < list->n; i++) {
		if (list->items[i].label[0])
			keep_label(v, list->items[i].label, list->items[i].value, ours);
	}
	for (size_t i = 0; i < list->n; i++) {
		if (list->items[i].label[0] && v->belongs[i])
			add_label(v, list->items[i].label, list->items[i].value, ours);
	}
}

/* ---- head nodes ---- */

bool publish_is_head(const struct publish_node *node, const struct fabric_verdict *verdict,
		     const struct vipu_address_list *controllers)
{
	if (verdict->has_device || is_recorded(node, STR(PUBLISH_HEAD)) ||
	    (node->condition.known && node->condition.status == FABRIC_TRUE))
		return true;
	for (size_t i = 0; i < controllers->n; i++) {
		const struct vipu_address *a = &controllers->items[i];

		if (a->label[0] && json_get(node->labels, a->label) &&
		    str_eqz(publish_node_label(node, a->label), a->value))
			return true;
	}
	return false;
}

/* What it has shown once may be gone when it counts: a card that failed is in no list. */
static void want_head(const struct publish_view *v, bool head, struct buf *ours)
{
	if (head && (v->settings->labels || v->settings->taint[0]))
		add_word(ours, STR(PUBLISH_HEAD));
}

/* ---- taints ---- */

static bool is_taint(const struct json *taint, struct str key)
{
	return str_eq(json_str(json_get(taint, "key")), key) &&
	       str_eqz(json_str(json_get(taint, "effect")), PUBLISH_EFFECT);
}

static bool has_taint(const struct publish_node *n, struct str key)
{
	struct json_iter it = json_iter(n->taints);

	while (json_next(&it)) {
		if (is_taint(it.value, key))
			return true;
	}
	return false;
}

/* While nothing is known, what is there stays. One that a person has put there stays theirs. Of a
 * machine that is no head node nobody expects a fabric. */
static void want_taint(const struct publish_view *v, enum fabric_status status, bool head,
		       struct buf *ours)
{
	const char *key = v->settings->taint;
	CLEANUP_FREE char *word = xasprintf(PUBLISH_TAINT_WORD "%s", key);
	bool recorded = is_recorded(v->node, str_of(word));
	bool there = has_taint(v->node, str_of(key));

	if (!key[0] || status == FABRIC_TRUE)
		return;
	if (!head && v->verdict->status == FABRIC_FALSE)
		return;
	if ((there && recorded) || (!there && status == FABRIC_FALSE))
		add_word(ours, str_of(word));
}

/* ---- the patch of both ---- */

static void patch_labels(const struct publish_view *v, struct str ours, struct jmut_doc *doc,
			 struct jmut *meta)
{
	struct str rest = str_of(v->node->published), word, key, value;
	struct jmut *labels = jmut_object(doc);

	/* Gone: what was ours, and nobody has changed since. */
	while (next_word(&rest, &word)) {
		const struct json *label;

		if (!str_cut(word, '=', &key, &value) || has_key(ours, key))
			continue;
		label = json_getn(v->node->labels, key);
		if (!label || !str_eq(json_str(label), value))
			continue;
		jmut_setn(doc, labels, key, jmut_null(doc));
	}
	while (next_word(&ours, &word)) {
		if (!str_cut(word, '=', &key, &value) ||
		    (json_getn(v->node->labels, key) &&
		     str_eq(json_str(json_getn(v->node->labels, key)), value)))
			continue;
		jmut_setn(doc, labels, key, jmut_str(doc, value));
	}
	if (jmut_len(labels))
		jmut_set(doc, meta, "labels", labels);
}

static struct str taint_word(struct str word)
{
	struct str prefix = STR(PUBLISH_TAINT_WORD);

	if (!str_has_prefix(word, prefix))
		return STR_NULL;
	return (struct str){word.p + prefix.len, word.len - prefix.len};
}

/* The whole list: it has no keys by which a patch could be merged. */
static void patch_taints(const struct publish_view *v, struct str ours, struct jmut_doc *doc,
			 struct jmut *root)
{
	struct json_iter it = json_iter(v->node->taints);
	struct jmut *list = jmut_array(doc);
	bool changed = false;
	struct str rest, word;

	while (json_next(&it)) {
		CLEANUP_FREE char *is = xasprintf(PUBLISH_TAINT_WORD "%.*s",
						  STR_ARG(json_str(json_get(it.value, "key"))));

		if (is_taint(it.value, json_str(json_get(it.value, "key"))) &&
		    is_recorded(v->node, str_of(is)) && !has_word(ours, str_of(is)))
			changed = true;
		else
			jmut_push(doc, list, jmut_copy(doc, it.value));
	}
	for (rest = ours; next_word(&rest, &word);) {
		struct str key = taint_word(word);
		struct jmut *taint;

		if (!key.len || has_taint(v->node, key))
			continue;
		taint = jmut_object(doc);
		jmut_set(doc, taint, "key", jmut_str(doc, key));
		jmut_set_str(doc, taint, "effect", PUBLISH_EFFECT);
		jmut_push(doc, list, taint);
		changed = true;
	}
	if (changed)
		jmut_set(doc, jmut_need_object(doc, root, "spec"), "taints",
			 jmut_len(list) ? list : jmut_null(doc));
}

static void plan_meta(const struct publish_view *v, struct publish_plan *plan)
{
	struct buf ours = BUF_INIT(MAX_PUBLISHED);
	struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *meta = jmut_need_object(doc, root, "metadata");
	bool head = publish_is_head(v->node, v->verdict, v->controllers);

	want_head(v, head, &ours);
	want_labels(v, plan, &ours);
	want_taint(v, plan->status, head, &ours);
	patch_labels(v, buf_str(&ours), doc, meta);
	patch_taints(v, buf_str(&ours), doc, root);
	if (!str_eqz(buf_str(&ours), v->node->published))
		jmut_set(doc, jmut_need_object(doc, meta, "annotations"), PUBLISH_ANNOTATION,
			 ours.len ? jmut_str(doc, buf_str(&ours)) : jmut_null(doc));
	if (jmut_len(meta) || jmut_len(root) > 1) {
		jmut_set_str(doc, meta, "resourceVersion", v->node->version);
		jmut_set_root(doc, root);
		plan->meta = doc;
	} else {
		jmut_doc_free(doc);
	}
	buf_done(&ours);
}

void publish_plan(const struct publish_view *view, struct publish_plan *ret)
{
	*ret = (struct publish_plan){.status = view->node->condition.status, .next_ms = -1};
	/* What an earlier process has said counts until there is something to say. */
	if (!view->verdict->complete)
		return;
	plan_condition(view, ret);
	plan_meta(view, ret);
}

void publish_plan_done(struct publish_plan *plan)
{
	jmut_doc_free(plan->condition);
	jmut_doc_free(plan->meta);
	*plan = (struct publish_plan){.next_ms = -1};
}
