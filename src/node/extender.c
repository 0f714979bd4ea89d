/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Nodes a Pod with IPUs may go to, and which of them it had better. What is the same for many
 * Nodes, the verdict on a set of controllers, is found out once. Pure but for the Nodes' store.
 */
#include "node/extender.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/model.h"
#include "kube/object.h"
#include "pod/model.h"
#include "vipu/capacity.h"

#define MAX_IPUS    ((int64_t)VIPU_MAX_DOMAINS * VIPU_DOMAIN_IPUS)
#define REASON_SIZE 256
#define KNOWN       16 /* sets of controllers whose verdict is kept */

/* ---- what a Pod asks for ---- */

/* Of a container's limits, or where it has none its requests. */
static int read_resource(const struct json *container, int64_t *ret, struct err *err)
{
	const struct json *v = json_at(container, "resources", "limits", NODES_RESOURCE, NULL);

	*ret = 0;
	if (!v)
		v = json_at(container, "resources", "requests", NODES_RESOURCE, NULL);
	if (!v || nodes_amount(v, MAX_IPUS, ret))
		return 0;
	return err_set(err, ERR_INVALID, 0,
		       "its " NODES_RESOURCE " isn't a whole number from 0 to %" PRId64, MAX_IPUS);
}

static int64_t add_up(int64_t a, int64_t b)
{
	return a + b > MAX_IPUS ? MAX_IPUS + 1 : a + b;
}

/* As Kubernetes counts: what runs side by side, or the most that there is before that. An init
 * container that is always restarted runs on beside all that come after it. */
static int sum_resources(const struct json *spec, int64_t *ret, struct err *err)
{
	struct json_iter it = json_iter(json_get(spec, "containers"));
	struct json_iter inits = json_iter(json_get(spec, "initContainers"));
	int64_t beside = 0, most = 0, n;

	while (json_next(&inits)) {
		bool stays = str_eqz(json_str(json_get(inits.value, "restartPolicy")), "Always");
		int64_t now;

		if (read_resource(inits.value, &n, err) < 0)
			return -1;
		now = add_up(beside, n);
		most = now > most ? now : most;
		beside = stays ? now : beside;
	}
	while (json_next(&it)) {
		if (read_resource(it.value, &n, err) < 0)
			return -1;
		beside = add_up(beside, n);
	}
	*ret = beside > most ? beside : most;
	return 0;
}

static bool names_key(const struct nodes *nodes, const struct json *expressions)
{
	struct json_iter it = json_iter(expressions);

	while (json_next(&it)) {
		if (nodes_is_key(nodes, json_str(json_get(it.value, "key"))))
			return true;
	}
	return false;
}

/* By a node selector, or an affinity that must hold, about a label of some controller's Nodes. */
static bool chooses_itself(const struct nodes *nodes, const struct json *spec)
{
	struct json_iter selector = json_iter(json_get(spec, "nodeSelector"));
	struct json_iter terms = json_iter(json_at(spec, "affinity", "nodeAffinity",
						   "requiredDuringSchedulingIgnoredDuringExecution",
						   "nodeSelectorTerms", NULL));

	while (json_next(&selector)) {
		if (nodes_is_key(nodes, selector.key))
			return true;
	}
	while (json_next(&terms)) {
		if (names_key(nodes, json_get(terms.value, "matchExpressions")))
			return true;
	}
	return false;
}

static bool has_partition(const struct json *pod)
{
	return kube_label(pod, JOB_LABEL_JOB).p || kube_annotation(pod, POD_ANNOTATION_PARTITION).p;
}

int extender_size(const struct nodes *nodes, const struct json *pod, uint32_t *ret, struct err *err)
{
	const struct json *spec = json_get(pod, "spec");
	int64_t n = 0;

	*ret = 0;
	if (has_partition(pod) || chooses_itself(nodes, spec))
		return 0;
	if (pod_is_annotated(pod))
		return pod_ipus(pod, ret, err);
	if (sum_resources(spec, &n, err) < 0)
		return -1;
	if (n > MAX_IPUS)
		return err_set(err, ERR_INVALID, 0,
			       "it asks for more IPUs than any controller can have: %" PRId64,
			       MAX_IPUS);
	for (uint32_t size = 1; n > 0; size *= 2) {
		if (size >= n) {
			*ret = size;
			break;
		}
	}
	return 0;
}

int extender_score(const struct vipu_capacity *c, uint32_t ipus)
{
	uint32_t size = ipus;
	int score = 10;

	if (ipus <= VIPU_DOMAIN_IPUS) {
		for (; size < VIPU_DOMAIN_IPUS && c->blocks[__builtin_ctz(size)] == 0; size *= 2)
			score--;
		return score;
	}
	/* Of whole domains it's not known how they lie together: by what is free at all. */
	for (; score > 1 && (uint64_t)size * 2 <= c->free_ipus; size *= 2)
		score--;
	return score;
}

/* ---- verdicts ---- */

struct verdict {
	struct reach reach;
	bool passes;
	int score;
	char reason[REASON_SIZE]; /* where it doesn't; begins as the scheduler's own do */
};

struct answer {
	const struct extender_view *view;
	uint32_t ipus;
	struct extender_controller *controllers;
	bool *asked;
	struct verdict known[KNOWN];
	size_t n_known;
	struct verdict last; /* where there are too many */
};

static const struct extender_controller *controller(struct answer *a, size_t i)
{
	if (!a->asked[i]) {
		a->view->controller(a->view->arg, i, a->ipus, &a->controllers[i]);
		a->asked[i] = true;
	}
	return &a->controllers[i];
}

/* Of the only controller that there is, or of none of several. */
static void write_reason(const struct answer *a, const struct extender_controller *c, unsigned n,
			 char z[REASON_SIZE])
{
	const char *ipus = a->ipus == 1 ? "IPU" : "IPUs";

	if (n == 0)
		snprintf(z, REASON_SIZE, "node(s) that reach no V-IPU controller's IPUs");
	else if (n > 1)
		snprintf(z, REASON_SIZE,
			 "node(s) none of whose %u V-IPU controllers has room for %" PRIu32 " %s",
			 n, a->ipus, ipus);
	else if (c->closed)
		snprintf(z, REASON_SIZE, "node(s) whose V-IPU controller %.100s %.60s", c->name,
			 c->closed);
	else if (c->total_ipus < (int64_t)a->ipus)
		snprintf(z, REASON_SIZE,
			 "node(s) whose V-IPU controller %.100s has %" PRId64
			 " IPUs in all, fewer than %" PRIu32,
			 c->name, c->total_ipus, a->ipus);
	else
		snprintf(z, REASON_SIZE,
			 "node(s) whose V-IPU controller %.100s has no room for %" PRIu32 " %s now",
			 c->name, a->ipus, ipus);
}

static void judge(struct answer *a, const struct reach *reach, struct verdict *ret)
{
	const struct extender_controller *c = NULL;
	unsigned n = 0;

	*ret = (struct verdict){.reach = *reach};
	for (size_t i = 0; i < a->view->n; i++) {
		if (!reach_has(reach, i))
			continue;
		c = controller(a, i);
		n++;
		if (c->closed || c->fits == 0)
			continue;
		ret->passes = true;
		ret->score = c->score > ret->score ? c->score : ret->score;
	}
	if (!ret->passes)
		write_reason(a, c, n, ret->reason);
}

static const struct verdict *verdict_on(struct answer *a, const struct reach *reach)
{
	for (size_t i = 0; i < a->n_known; i++) {
		if (memcmp(&a->known[i].reach, reach, sizeof(*reach)) == 0)
			return &a->known[i];
	}
	if (a->n_known == KNOWN) {
		judge(a, reach, &a->last);
		return &a->last;
	}
	judge(a, reach, &a->known[a->n_known]);
	return &a->known[a->n_known++];
}

/* ---- requests ---- */

/* Go's encoding writes a field by its name in the struct, and reads it whatever its case. */
static const struct json *member(const struct json *obj, const char *key)
{
	struct json_iter it = json_iter(obj);

	while (json_next(&it)) {
		if (str_ieqz(it.key, key))
			return json_type(it.value) == JSON_NULL ? NULL : it.value;
	}
	return NULL;
}

struct args {
	const struct json *pod;
	const struct json *names; /* nodeCacheCapable: an array of names; or NULL, and … */
	const struct json *items; /* … one of Nodes */
};

static int read_args(const struct json *root, struct args *ret, struct err *err)
{
	struct args a = {.pod = member(root, "pod"), .names = member(root, "nodeNames")};
	const struct json *nodes = member(root, "nodes");

	if (json_type(root) != JSON_OBJECT || json_type(a.pod) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0,
			       "the body must be an ExtenderArgs: an object with Pod");
	if (a.names && json_type(a.names) != JSON_ARRAY)
		return err_set(err, ERR_INVALID, 0, "NodeNames: must be a list, not %s",
			       json_type_name(json_type(a.names)));
	if (!a.names) {
		a.items = json_get(nodes, "items");
		if (!nodes || (a.items && json_type(a.items) != JSON_ARRAY &&
			       json_type(a.items) != JSON_NULL))
			return err_set(err, ERR_INVALID, 0,
				       "NodeNames, or Nodes with items, must be there");
	}
	/* Before anything is judged or written: it's done in one turn. */
	if (json_len(a.names ? a.names : a.items) > EXTENDER_MAX_NODES)
		return err_set(err, ERR_LIMIT, 0, "more than %d Nodes", EXTENDER_MAX_NODES);
	*ret = a;
	return 0;
}

/* ---- answers ---- */

/* What came, and of each Node the longest reason, or a score's members. */
size_t extender_limit(struct str body)
{
	return 2 * body.len + (size_t)EXTENDER_MAX_NODES * (REASON_SIZE + 64);
}

struct outcome {
	struct buf passed, failed, unresolvable;
};

static int add(struct buf *out, struct str text, struct err *err)
{
	return buf_append_str(out, text, err);
}

static int add_string(struct buf *out, bool first, struct str s, struct err *err)
{
	if (!first && add(out, STR(","), err) < 0)
		return -1;
	return json_write_str(s, out, err);
}

static int add_reason(struct buf *out, struct str name, const char *reason, struct err *err)
{
	if (add_string(out, out->len == 0, name, err) < 0 || add(out, STR(":"), err) < 0)
		return -1;
	return json_write_str(str_of(reason), out, err);
}

static int filter_one(struct answer *a, struct str name, const struct json *node, struct outcome *o,
		      struct err *err)
{
	const struct node_item *item = node ? NULL : nodes_get(a->view->nodes, name);
	const struct verdict *v;
	struct reach reach;

	if (node)
		nodes_reach(a->view->nodes, json_at(node, "metadata", "labels", NULL), &reach);
	else if (item)
		reach = item->reach;
	else /* the scheduler has seen it first: a moment later it's another matter */
		return add_reason(&o->failed, name, "node(s) the IPU operator hasn't seen yet",
				  err);
	v = verdict_on(a, &reach);
	/* Taking other Pods away from the Node gives it no IPUs. */
	if (!v->passes)
		return add_reason(&o->unresolvable, name, v->reason, err);
	if (!node)
		return add_string(&o->passed, o->passed.len == 0, name, err);
	if (o->passed.len > 0 && add(&o->passed, STR(","), err) < 0)
		return -1;
	return json_write(node, JSON_COMPACT, &o->passed, err);
}

static int write_filtered(const struct args *args, const struct outcome *o, struct buf *out,
			  struct err *err)
{
	bool by_name = args->names != NULL;

	return buf_printf(out, err,
			  "{\"%s\":%s%.*s%s,\"FailedNodes\":{%.*s},"
			  "\"FailedAndUnresolvableNodes\":{%.*s},\"Error\":\"\"}\n",
			  by_name ? "NodeNames" : "Nodes", by_name ? "[" : "{\"items\":[",
			  STR_ARG(buf_str(&o->passed)), by_name ? "]" : "]}",
			  STR_ARG(buf_str(&o->failed)), STR_ARG(buf_str(&o->unresolvable)));
}

static struct str name_at(const struct json *value, bool by_name)
{
	return by_name ? json_str(value) : kube_name(value);
}

static int filter_all(struct answer *a, const struct args *args, struct outcome *o, struct err *err)
{
	bool by_name = args->names != NULL;
	struct json_iter it = json_iter(by_name ? args->names : args->items);

	while (json_next(&it)) {
		if (filter_one(a, name_at(it.value, by_name), by_name ? NULL : it.value, o, err) <
		    0)
			return -1;
	}
	return 0;
}

/* The Pod isn't ours to judge: every Node as it came. */
static int pass_all(const struct args *args, struct outcome *o, struct err *err)
{
	bool by_name = args->names != NULL;
	struct json_iter it = json_iter(by_name ? args->names : args->items);

	while (json_next(&it)) {
		if (o->passed.len > 0 && add(&o->passed, STR(","), err) < 0)
			return -1;
		if (json_write(it.value, JSON_COMPACT, &o->passed, err) < 0)
			return -1;
	}
	return 0;
}

static int filter(struct answer *a, const struct args *args, struct buf *out, struct err *err)
{
	struct outcome o = {BUF_INIT(out->limit), BUF_INIT(out->limit), BUF_INIT(out->limit)};
	int rc = a->ipus > 0 ? filter_all(a, args, &o, err) : pass_all(args, &o, err);

	if (rc == 0)
		rc = write_filtered(args, &o, out, err);
	buf_done(&o.passed);
	buf_done(&o.failed);
	buf_done(&o.unresolvable);
	return rc;
}

static int score_of(struct answer *a, struct str name, const struct json *node)
{
	const struct node_item *item = node ? NULL : nodes_get(a->view->nodes, name);
	struct reach reach = {0};

	if (a->ipus == 0 || (!node && !item))
		return 0;
	if (node)
		nodes_reach(a->view->nodes, json_at(node, "metadata", "labels", NULL), &reach);
	else
		reach = item->reach;
	return verdict_on(a, &reach)->score;
}

static int prioritize(struct answer *a, const struct args *args, struct buf *out, struct err *err)
{
	bool by_name = args->names != NULL;
	struct json_iter it = json_iter(by_name ? args->names : args->items);

	if (add(out, STR("["), err) < 0)
		return -1;
	while (json_next(&it)) {
		struct str name = name_at(it.value, by_name);
		int score = score_of(a, name, by_name ? NULL : it.value);

		if (buf_printf(out, err, "%s{\"Host\":", it.index ? "," : "") < 0 ||
		    json_write_str(name, out, err) < 0 ||
		    buf_printf(out, err, ",\"Score\":%d}", score) < 0)
			return -1;
	}
	return add(out, STR("]\n"), err);
}

int extender_refuse(const char *why, struct buf *out, struct err *err)
{
	if (add(out, STR("{\"Error\":"), err) < 0 || json_write_str(str_of(why), out, err) < 0)
		return -1;
	return add(out, STR("}\n"), err);
}

int extender_answer(const struct extender_view *view, enum extender_verb verb, struct str body,
		    struct buf *out, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct answer a = {.view = view};
	struct err why = ERR_INIT;
	struct args args;
	int rc;

	if (json_parse(body, &doc, err) < 0) {
		if (err && !err_is_no_memory(err))
			err->kind = ERR_INVALID; /* too deep is no question of size */
		return err_wrap(err, "the body must be JSON");
	}
	if (read_args(json_root(doc), &args, err) < 0)
		return -1;
	if (extender_size(view->nodes, args.pod, &a.ipus, &why) < 0) {
		if (verb == EXTENDER_FILTER)
			return extender_refuse(why.msg, out, err);
		a.ipus = 0;
	}
	a.controllers = xcalloc(view->n + 1, sizeof(*a.controllers));
	a.asked = xcalloc(view->n + 1, sizeof(*a.asked));
	rc = verb == EXTENDER_FILTER ? filter(&a, &args, out, err)
				     : prioritize(&a, &args, out, err);
	free(a.controllers);
	free(a.asked);
	return rc;
}
