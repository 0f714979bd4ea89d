/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node clean: takes off Nodes what the role node and the advertiser have put there, and nothing
 * else: of labels and taints what the annotation names, of the resource a figure with our note.
 */
#include "ctl/node_clean.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/map.h"
#include "ctl/commands.h"
#include "ctl/term.h"
#include "kube/list.h"
#include "kube/object.h"
#include "loop/backoff.h"
#include "node/nodes.h"
#include "node/publish.h"

#define MAX_TRIES 10
#define LOOK_MS   1000
#define BACK_MS   2000 /* by then whoever still writes there has done so again */
#define MAX_TAKEN ((size_t)64 << 10)
#define INSTANCE  "app.kubernetes.io/instance"
#define WRITERS                                                                                    \
	CTL_OPERATOR_PODS ",app.kubernetes.io/component in (node,vipu-proxy,controller-manager)"

/* ---- the plan ---- */

__attribute__((format(printf, 2, 3))) static void note(struct ctl_node_plan *plan, const char *fmt,
						       ...)
{
	va_list ap;
	char text[512];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)buf_printf(&plan->taken, NULL, "%s%s", plan->taken.len ? ", " : "", text);
}

/* A patch that holds to the version that was seen. */
static struct jmut *begin_patch(struct jmut_doc *doc, const struct json *node)
{
	struct jmut *root = jmut_object(doc);

	jmut_set(doc, jmut_need_object(doc, root, "metadata"), "resourceVersion",
		 jmut_str(doc, kube_version(node)));
	return root;
}

static struct jmut *status_patch(struct jmut_doc *doc, const struct json *node,
				 struct ctl_node_plan *plan)
{
	if (!plan->status)
		plan->status = begin_patch(doc, node);
	return jmut_need_object(doc, plan->status, "status");
}

static struct jmut *meta_patch(struct jmut_doc *doc, const struct json *node,
			       struct ctl_node_plan *plan)
{
	if (!plan->meta)
		plan->meta = begin_patch(doc, node);
	return jmut_need_object(doc, plan->meta, "metadata");
}

static void plan_condition(struct jmut_doc *doc, const struct json *node, int64_t now_ms,
			   struct ctl_node_plan *plan)
{
	const struct json *all = json_at(node, "status", "conditions", NULL);
	struct json_iter it = json_iter(all);
	struct jmut *rest = jmut_array(doc);
	int64_t at_ms;

	while (json_next(&it)) {
		if (!str_eqz(json_str(json_get(it.value, "type")), FABRIC_CONDITION)) {
			jmut_push(doc, rest, jmut_copy(doc, it.value));
			continue;
		}
		if (clock_parse(json_str(json_get(it.value, "lastHeartbeatTime")), &at_ms, NULL) ==
		    0)
			plan->heard_ms = now_ms > at_ms ? now_ms - at_ms : 0;
	}
	if (jmut_len(rest) == json_len(all))
		return;
	jmut_set(doc, status_patch(doc, node, plan), "conditions", rest);
	note(plan, "condition " FABRIC_CONDITION);
}

/* A figure without our note is another program's. */
static void plan_resource(struct jmut_doc *doc, const struct json *node, struct ctl_node_plan *plan)
{
	static const char *const lists[] = {"capacity", "allocatable"};
	bool there = false;

	if (!kube_annotation(node, NODES_ANNOTATION).p)
		return;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (!json_at(node, "status", lists[i], NODES_RESOURCE, NULL))
			continue;
		jmut_set(doc, jmut_need_object(doc, status_patch(doc, node, plan), lists[i]),
			 NODES_RESOURCE, jmut_null(doc));
		there = true;
	}
	if (there)
		note(plan, "resource " NODES_RESOURCE);
}

static bool is_noted(struct str words, struct str word)
{
	struct str one;

	while (words.len) {
		str_cut(words, ' ', &one, &words);
		if (one.len && str_eq(one, word))
			return true;
	}
	return false;
}

static void plan_labels(struct jmut_doc *doc, const struct json *node, struct str ours,
			struct ctl_node_plan *plan)
{
	struct json_iter it = json_iter(json_at(node, "metadata", "labels", NULL));

	while (json_next(&it)) {
		CLEANUP_FREE char *word = xasprintf("%.*s=%.*s", STR_ARG(it.key),
						    STR_ARG(json_str(it.value)));
		struct jmut *meta;

		if (!is_noted(ours, str_of(word)))
			continue;
		meta = meta_patch(doc, node, plan);
		jmut_setn(doc, jmut_need_object(doc, meta, "labels"), it.key, jmut_null(doc));
		note(plan, "label %s", word);
	}
}

static void plan_taints(struct jmut_doc *doc, const struct json *node, struct str ours,
			struct ctl_node_plan *plan)
{
	struct json_iter it = json_iter(json_at(node, "spec", "taints", NULL));
	struct jmut *rest = jmut_array(doc);
	bool any = false;

	while (json_next(&it)) {
		struct str key = json_str(json_get(it.value, "key"));
		CLEANUP_FREE char *word = xasprintf(PUBLISH_TAINT_WORD "%.*s", STR_ARG(key));

		if (!is_noted(ours, str_of(word)) ||
		    !str_eqz(json_str(json_get(it.value, "effect")), PUBLISH_EFFECT)) {
			jmut_push(doc, rest, jmut_copy(doc, it.value));
			continue;
		}
		any = true;
		note(plan, "taint %.*s", STR_ARG(key));
	}
	if (!any)
		return;
	(void)meta_patch(doc, node, plan);
	jmut_set(doc, jmut_need_object(doc, plan->meta, "spec"), "taints",
		 jmut_len(rest) ? rest : jmut_null(doc));
}

static void plan_annotations(struct jmut_doc *doc, const struct json *node, unsigned parts,
			     struct ctl_node_plan *plan)
{
	static const struct {
		const char *name;
		enum ctl_node_part part;
	} ours[] = {{PUBLISH_ANNOTATION, CTL_NODE_ROLE},
		    {NODES_ANNOTATION, CTL_NODE_RESOURCE},
		    {NODES_FREED, CTL_NODE_RESOURCE}};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		struct jmut *meta;

		if (!(parts & ours[i].part) || !kube_annotation(node, ours[i].name).p)
			continue;
		meta = meta_patch(doc, node, plan);
		jmut_set(doc, jmut_need_object(doc, meta, "annotations"), ours[i].name,
			 jmut_null(doc));
		note(plan, "annotation %s", ours[i].name);
	}
}

void ctl_node_clean_plan(struct jmut_doc *doc, const struct json *node, unsigned parts,
			 int64_t now_ms, struct ctl_node_plan *ret)
{
	struct str ours = kube_annotation(node, PUBLISH_ANNOTATION);

	*ret = (struct ctl_node_plan){.taken = BUF_INIT(MAX_TAKEN), .heard_ms = -1};
	if (parts & CTL_NODE_ROLE)
		plan_condition(doc, node, now_ms, ret);
	if (parts & CTL_NODE_RESOURCE)
		plan_resource(doc, node, ret);
	if (parts & CTL_NODE_ROLE) {
		plan_labels(doc, node, ours, ret);
		plan_taints(doc, node, ours, ret);
	}
	plan_annotations(doc, node, parts, ret);
}

void ctl_node_clean_plan_done(struct ctl_node_plan *plan)
{
	buf_done(&plan->taken);
}

/* ---- one Node ---- */

struct cleaning {
	struct ctl_link *link;
	const struct ctl_options *o;
	char *const *names;
	unsigned char *cleaned; /* by names' places: the parts that were taken */
	size_t n, n_cleaned, n_refused;
	int64_t gone_ms; /* with --instance, wall clock: by then the release's Pods had gone */
};

static int get_node(struct cleaning *c, const char *name, struct json_doc **ret, struct err *err)
{
	const struct kube_request r = {.verb = KUBE_GET, .resource = &KUBE_NODES, .name = name};

	return ctl_link_kube(c->link, &r, ret, err);
}

/* The second patch holds to the version that the first one has made. */
static int write_plan(struct cleaning *c, const char *name, struct jmut_doc *doc,
		      struct ctl_node_plan *plan, struct err *err)
{
	CLEANUP_JSON struct json_doc *after = NULL, *last = NULL;
	struct kube_request r = {
		.verb = KUBE_PATCH,
		.patch = KUBE_PATCH_MERGE,
		.resource = &KUBE_NODES,
		.name = name,
		.subresource = "status",
		.json = plan->status,
		.field_manager = "ipuctl",
		.dry_run = c->o->dry_run,
	};

	if (plan->status && ctl_link_kube(c->link, &r, &after, err) < 0)
		return -1;
	if (!plan->meta)
		return 0;
	if (after)
		jmut_set(doc, jmut_get(plan->meta, "metadata"), "resourceVersion",
			 jmut_str(doc, kube_version(json_root(after))));
	r.subresource = NULL;
	r.json = plan->meta;
	return ctl_link_kube(c->link, &r, &last, err);
}

static int say(const struct cleaning *c, const char *name, const struct ctl_node_plan *plan,
	       struct err *err)
{
	CLEANUP_FREE char *line = plan->taken.len
					  ? xasprintf("node/%s cleaned%s: %.*s\n", name,
						      c->o->dry_run ? " (server dry run)" : "",
						      STR_ARG(buf_str(&plan->taken)))
					  : xasprintf("node/%s has nothing of the operator's\n",
						      name);

	return ctl_write_out(str_of(line), err);
}

/* The role's last word may be its very last: that is for a person to know. What came after the
 * release's Pods had gone, another one has said. */
static bool is_refused(struct cleaning *c, const char *name, const struct ctl_node_plan *plan,
		       int64_t now_ms)
{
	bool is_after = c->o->instance && now_ms - plan->heard_ms >= c->gone_ms;

	if (plan->heard_ms < 0 || plan->heard_ms > CTL_NODE_FRESH_MS || (c->o->force && !is_after))
		return false;
	c->n_refused++;
	fprintf(stderr,
		"ipuctl: node/%s: left alone: %s wrote there %" PRId64
		" s ago. Where it still runs (DaemonSet, ipu-operator-node.service) it would write "
		"again: end it there first. If it's gone, --force, or wait until that is %d s old\n",
		name, is_after ? "a role node that isn't the release's" : "the role node",
		plan->heard_ms / 1000, CTL_NODE_FRESH_MS / 1000);
	return true;
}

/* What may be taken: beside a living role, a release's own advertised figures. */
static unsigned plan(struct cleaning *c, const char *name, struct jmut_doc *doc,
		     const struct json *node, struct ctl_node_plan *ret)
{
	int64_t now_ms = clock_wall_ms();
	unsigned parts = CTL_NODE_ROLE | CTL_NODE_RESOURCE;

	ctl_node_clean_plan(doc, node, parts, now_ms, ret);
	if (!is_refused(c, name, ret, now_ms))
		return parts;
	ctl_node_clean_plan_done(ret);
	parts = c->o->instance ? CTL_NODE_RESOURCE : 0;
	ctl_node_clean_plan(doc, node, parts, now_ms, ret);
	return parts;
}

/* One look and one write. */
static int clean_once(struct cleaning *c, size_t i, struct err *err)
{
	const char *name = c->names[i];
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *node = NULL;
	struct ctl_node_plan p;
	size_t n_refused = c->n_refused;
	unsigned parts;
	int result;

	if (get_node(c, name, &node, err) < 0)
		return -1;
	parts = plan(c, name, doc, json_root(node), &p);
	result = write_plan(c, name, doc, &p, err);
	if (result == 0 && p.taken.len) {
		c->cleaned[i] = (unsigned char)parts;
		c->n_cleaned++;
	}
	if (result == 0 && (p.taken.len || (!c->o->all && c->n_refused == n_refused)))
		result = say(c, name, &p, err);
	if (result < 0) /* it's tried again, or the end */
		c->n_refused = n_refused;
	ctl_node_clean_plan_done(&p);
	return result;
}

/* A Node's status is written every few seconds: a conflict is no error. One that is gone needs no
 * cleaning where all are meant. */
static int clean(struct cleaning *c, size_t i, struct err *err)
{
	struct backoff backoff = BACKOFF_INIT(50, 1000);

	for (int tries = 1; clean_once(c, i, err) < 0; tries++) {
		if (err->kind == ERR_NOT_FOUND && c->o->all)
			return 0;
		if (err->kind != ERR_CONFLICT || tries == MAX_TRIES)
			return err_wrap(err, "node/%s", c->names[i]);
		ctl_link_pause(c->link, (unsigned)backoff_next_ms(&backoff, err));
	}
	return 0;
}

/* ---- all of them ---- */

/* One list, in pages. */
struct listing {
	struct cleaning *c;
	struct scope scope;
	struct err err;
	char *pod; /* one of those that were asked for, "namespace/name"; NULL: there's none */
	struct map *seen;
	char **names; /* of Nodes with anything of ours */
	size_t n, n_bad;
};

static void on_listed(void *arg, const struct err *err, struct str resource_version)
{
	struct listing *l = arg;

	(void)resource_version;
	if (err)
		l->err = *err;
	loop_stop(ctl_link_loop(l->c->link), 0);
}

static int run_list(struct listing *l, const struct kube_resource *resource, const char *labels,
		    const struct kube_list_ops *ops, struct err *err)
{
	const struct kube_list_opts opts = {
		.resource = resource,
		.label_selector = labels,
		.deadline_ms = l->c->o->timeout_s * 1000,
	};
	const char *why;

	scope_init(&l->scope);
	kube_list_start(ctl_link_client(l->c->link, &why), &opts, ops, l, &l->scope);
	loop_run(ctl_link_loop(l->c->link));
	scope_cancel(&l->scope);
	return l->err.kind == ERR_NONE ? 0 : err_copy(err, &l->err);
}

static void take_pod(struct listing *l, struct str ns, struct str name)
{
	l->pod = xasprintf("%.*s/%.*s", STR_ARG(ns), STR_ARG(name));
	scope_cancel(&l->scope);
	loop_stop(ctl_link_loop(l->c->link), 0);
}

static void on_pod(void *arg, const struct json *pod, bool again)
{
	struct str phase = json_str(json_at(pod, "status", "phase", NULL));

	(void)again;
	if (!str_eqz(phase, "Succeeded") && !str_eqz(phase, "Failed"))
		take_pod(arg, kube_namespace(pod), kube_name(pod));
}

static void on_bad_pod(void *arg, struct str ns, struct str name, const struct err *err)
{
	(void)err;
	take_pod(arg, ns, name);
}

/* One of the operator's Pods that may write to Nodes. of: of --instance, "=" or "!="; NULL: of
 * whomever. */
static int find_writer(struct cleaning *c, const char *of, char **ret, struct err *err)
{
	static const struct kube_list_ops ops = {
		.on_object = on_pod, .on_bad = on_bad_pod, .on_done = on_listed};
	struct listing l = {.c = c, .err = ERR_INIT};
	CLEANUP_FREE char *labels = of ? xasprintf(WRITERS "," INSTANCE "%s%s", of, c->o->instance)
				       : xstrdup(WRITERS);

	if (run_list(&l, &KUBE_PODS, labels, &ops, err) < 0)
		return err_wrap(err, "the operator's Pods");
	*ret = l.pod;
	return 0;
}

/* While Pods of the operator end, they may still write. */
static int wait_for_writers(struct cleaning *c, struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + (int64_t)c->o->wait_s * 1000;

	for (;;) {
		CLEANUP_FREE char *pod = NULL;

		if (find_writer(c, c->o->instance ? "=" : NULL, &pod, err) < 0)
			return -1;
		if (!pod)
			return 0;
		if (clock_mono_ms() + LOOK_MS > deadline_ms)
			return err_set(err, ERR_BUSY, 0,
				       "after %u s Pods of the operator are still there, such as "
				       "%s: they write to Nodes",
				       c->o->wait_s, pod);
		ctl_progress("waiting until the operator's Pods are gone");
		ctl_link_pause(c->link, LOOK_MS);
		ctl_progress(NULL);
	}
}

/* What is back by now, somebody writes again. */
static int look_at(struct cleaning *c, const char *name, unsigned parts, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *node = NULL;
	struct ctl_node_plan plan;
	int result = 0;

	if (get_node(c, name, &node, err) < 0)
		return err->kind == ERR_NOT_FOUND ? 0 : err_wrap(err, "node/%s", name);
	ctl_node_clean_plan(doc, json_root(node), parts, clock_wall_ms(), &plan);
	if (plan.taken.len)
		result = err_set(err, ERR_BUSY, 0,
				 "node/%s: it's there again (%.*s): the role node, or an operator "
				 "with advertise.ipus or scheduler.listen, still runs",
				 name, STR_ARG(buf_str(&plan.taken)));
	ctl_node_clean_plan_done(&plan);
	return result;
}

static int look_again(struct cleaning *c, struct err *err)
{
	struct err back = ERR_INIT;

	ctl_link_pause(c->link, BACK_MS);
	for (size_t i = 0; i < c->n; i++) {
		if (!c->cleaned[i] || look_at(c, c->names[i], c->cleaned[i], &back) == 0)
			continue;
		if (back.kind != ERR_BUSY || !c->o->instance)
			return err_copy(err, &back);
		fprintf(stderr, "ipuctl: %s\n", back.msg); /* it isn't the release's */
	}
	return 0;
}

/* n_all: of which the names were chosen. */
static int clean_all(struct cleaning *c, char *const *names, size_t n, size_t n_all,
		     struct err *err)
{
	int result = 0;

	c->names = names;
	c->n = n;
	c->cleaned = xcalloc(n + 1, sizeof(*c->cleaned));
	for (size_t i = 0; i < n && result == 0; i++)
		result = clean(c, i, err);
	if (result == 0 && c->o->all && c->n_cleaned == 0 && c->n_refused == 0)
		fprintf(stderr, "No Node has anything of the operator's.\n");
	if (result == 0 && c->n_cleaned > 0 && !c->o->dry_run)
		result = look_again(c, err);
	free(c->cleaned);
	if (result < 0 || c->n_refused == 0)
		return result;
	err_set(err, ERR_CONFLICT, 0, "%zu of %zu Nodes were left alone", c->n_refused, n_all);
	if (!c->o->instance)
		return -1;
	fprintf(stderr, "ipuctl: %s\n", err->msg);
	return 0;
}

static void on_node(void *arg, const struct json *node, bool again)
{
	struct listing *l = arg;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct ctl_node_plan plan;

	(void)again; /* the same name may also come anew */
	if (map_get(l->seen, kube_name(node)))
		return;
	map_put(l->seen, kube_name(node), l);
	ctl_node_clean_plan(doc, node, CTL_NODE_ROLE | CTL_NODE_RESOURCE, 0, &plan);
	if (plan.taken.len) {
		l->names = xrealloc(l->names, (l->n + 1) * sizeof(*l->names));
		l->names[l->n++] = str_dup(kube_name(node));
	}
	ctl_node_clean_plan_done(&plan);
}

static void on_bad_node(void *arg, struct str ns, struct str name, const struct err *err)
{
	struct listing *l = arg;

	(void)ns;
	l->n_bad++;
	fprintf(stderr, "ipuctl: node/%.*s: left alone: %s\n", STR_ARG(name), err->msg);
}

static int clean_every(struct cleaning *c, struct err *err)
{
	static const struct kube_list_ops ops = {
		.on_object = on_node, .on_bad = on_bad_node, .on_done = on_listed};
	struct listing l = {.c = c, .err = ERR_INIT, .seen = map_new()};
	int result = run_list(&l, &KUBE_NODES, NULL, &ops, err);

	if (result < 0) {
		err_wrap(err, "Nodes");
	} else {
		c->n_refused = l.n_bad;
		result = clean_all(c, l.names, l.n, map_len(l.seen) + l.n_bad, err);
	}
	for (size_t i = 0; i < l.n; i++)
		free(l.names[i]);
	free(l.names);
	map_free(l.seen);
	return result;
}

/* Whether nothing may be taken, since another release is there, which writes to Nodes too. */
static int look_for_others(struct cleaning *c, bool *ret, struct err *err)
{
	CLEANUP_FREE char *pod = NULL;

	c->gone_ms = clock_wall_ms();
	if (find_writer(c, "!=", &pod, err) < 0)
		return -1;
	*ret = pod != NULL;
	if (pod)
		fprintf(stderr,
			"ipuctl: Nodes are left alone: Pods of another release of the operator are "
			"there, such as %s, and what is on Nodes may be theirs. When they're gone: "
			"ipuctl node clean --all\n",
			pod);
	return 0;
}

static int check_words(const struct ctl_options *o, struct err *err)
{
	if (o->all == (o->n_words > 0))
		return err_set(err, ERR_INVALID, 0,
			       "node clean: name Nodes, or say --all; not both");
	for (size_t i = 0; i < o->n_words; i++) {
		if (kube_check_name("node clean", str_of(o->words[i]), true, err) < 0)
			return -1;
	}
	return o->instance ? kube_check_name("--instance", str_of(o->instance), true, err) : 0;
}

int ctl_run_node_clean(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct cleaning c = {.link = link, .o = o};
	bool are_others = false;

	if (check_words(o, err) < 0 || (o->wait_s && wait_for_writers(&c, err) < 0) ||
	    (o->instance && look_for_others(&c, &are_others, err) < 0))
		return -1;
	if (are_others)
		return 0;
	return o->all ? clean_every(&c, err)
		      : clean_all(&c, (char *const *)o->words, o->n_words, o->n_words, err);
}
