/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tracker holds of an entry and of a wait: JSON, one object a ConfigMap key. The REST
 * end-points carry an ask in the same form.
 */
#include "partition/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/str.h"

#define WAIT_WAITING   "waiting"
#define WAIT_FAILED    "failed"
#define DEADLINE_MAX_S (INT64_C(100) * 366 * 86400)

static void encode_options(struct jmut_doc *doc, struct jmut *root,
			   const struct partition_options *o)
{
	struct jmut *obj = jmut_object(doc);

	if (o->gcds)
		jmut_set_int(doc, obj, "gcds", o->gcds);
	if (o->replicas)
		jmut_set_int(doc, obj, "replicas", o->replicas);
	if (o->sync_type)
		jmut_set_int(doc, obj, "syncType", o->sync_type);
	if (o->routing_type)
		jmut_set_int(doc, obj, "routingType", o->routing_type);
	if (o->reconfigurable)
		jmut_set_bool(doc, obj, "reconfigurable", true);
	if (o->allocation)
		jmut_set_str(doc, obj, "allocation", o->allocation);
	jmut_set(doc, root, "options", obj);
}

static void encode_time(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t wall_ms)
{
	/* Milliseconds count for settling: the micro form keeps them, and people can read it. */
	char z[CLOCK_RFC3339_SIZE];

	clock_format_micro(wall_ms, z);
	jmut_set_str(doc, obj, key, z);
}

void partition_ask_encode(struct jmut_doc *doc, struct jmut *root, const struct partition_ask *ask)
{
	struct jmut *owner = jmut_object(doc);

	jmut_set_str(doc, owner, "kind", ask->owner.kind);
	jmut_set_str(doc, owner, "namespace", ask->owner.ns);
	jmut_set_str(doc, owner, "name", ask->owner.name);
	jmut_set_str(doc, owner, "uid", ask->owner.uid);
	jmut_set(doc, root, "owner", owner);
	jmut_set_int(doc, root, "instance", ask->instance);
	jmut_set_int(doc, root, "ipus", ask->ipus);
	encode_options(doc, root, &ask->options);
	if (ask->attempt)
		jmut_set_int(doc, root, "attempt", ask->attempt);
	if (ask->priority)
		jmut_set_int(doc, root, "priority", ask->priority);
	if (ask->deadline_ms)
		jmut_set_int(doc, root, "deadlineSeconds", (ask->deadline_ms + 999) / 1000);
	if (ask->interactive)
		jmut_set_bool(doc, root, "interactive", true);
	/* What is longer is no partition's identifier: somebody wrote it on a Pod. */
	if (ask->adopt && strlen(ask->adopt) <= PARTITION_ID_MAX)
		jmut_set_str(doc, root, "adopt", ask->adopt);
	if (ask->legacy)
		jmut_set_str(doc, root, "legacy", ask->legacy);
	if (ask->only_adopt)
		jmut_set_bool(doc, root, "onlyAdopt", true);
	if (ask->node_labels)
		jmut_set_str(doc, root, "nodeLabels", ask->node_labels);
	if (ask->created_ms)
		encode_time(doc, root, "created", ask->created_ms);
}

int partition_wait_encode(const struct partition_wait *w, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);

	jmut_set_str(doc, root, "phase", w->failed ? WAIT_FAILED : WAIT_WAITING);
	partition_ask_encode(doc, root, &w->ask);
	encode_time(doc, root, "since", w->since_ms);
	if (w->why)
		jmut_set_str(doc, root, "reason", partition_why_name(w->why));
	return jmut_write(root, JSON_COMPACT, out, err);
}

int partition_entry_encode(const struct partition_entry *e, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);

	jmut_set_str(doc, root, "phase", partition_phase_name(e->phase));
	partition_ask_encode(doc, root, &e->ask);
	jmut_set_str(doc, root, "controller", e->controller);
	encode_time(doc, root, "since", e->since_ms);
	encode_time(doc, root, "settle", e->settle_ms);
	if (e->active_ms)
		encode_time(doc, root, "active", e->active_ms);
	if (e->limit_ms)
		jmut_set_int(doc, root, "limitSeconds", (e->limit_ms + 999) / 1000);
	if (e->reason)
		jmut_set_str(doc, root, "reason", e->reason);
	return jmut_write(root, JSON_COMPACT, out, err);
}

static int check_text(const struct json *v, const char *what, struct err *err)
{
	struct str s = json_str(v);

	if (s.len == 0)
		return err_set(err, ERR_INVALID, 0, "%s is missing or not a string", what);
	if (memchr(s.p, '\0', s.len))
		return err_set(err, ERR_INVALID, 0, "%s holds a NUL", what);
	return 0;
}

static int take_text(const struct json *v, const char *what, char **ret, struct err *err)
{
	if (check_text(v, what, err) < 0)
		return -1;
	free(*ret);
	*ret = str_dup(json_str(v));
	return 0;
}

/* One that many have: interned. */
static int take_word(const struct json *v, const char *what, const char **ret, struct err *err)
{
	if (check_text(v, what, err) < 0)
		return -1;
	intern_drop(*ret);
	*ret = intern(json_str(v));
	return 0;
}

static int take_u32(const struct json *v, const char *what, uint32_t min, uint32_t *ret,
		    struct err *err)
{
	int64_t n = json_int(v, -1);

	if (json_type(v) != JSON_INT || n < min || n > UINT32_MAX)
		return err_set(err, ERR_INVALID, 0, "%s is missing or out of range", what);
	*ret = (uint32_t)n;
	return 0;
}

static int take_time(const struct json *v, const char *what, int64_t *ret, struct err *err)
{
	if (clock_parse(json_str(v), ret, err) < 0)
		return err_wrap(err, "%s", what);
	return 0;
}

static int decode_owner(const struct json *obj, struct partition_owner *o, struct err *err)
{
	if (take_word(json_get(obj, "kind"), "owner.kind", &o->kind, err) < 0 ||
	    take_word(json_get(obj, "namespace"), "owner.namespace", &o->ns, err) < 0 ||
	    take_word(json_get(obj, "name"), "owner.name", &o->name, err) < 0 ||
	    take_word(json_get(obj, "uid"), "owner.uid", &o->uid, err) < 0)
		return -1;
	return 0;
}

static int decode_options(const struct json *obj, struct partition_options *o, struct err *err)
{
	struct json_iter it = json_iter(obj);

	while (json_next(&it)) {
		int failed = 0;

		if (str_eqz(it.key, "gcds"))
			failed = take_u32(it.value, "options.gcds", 1, &o->gcds, err);
		else if (str_eqz(it.key, "replicas"))
			failed = take_u32(it.value, "options.replicas", 1, &o->replicas, err);
		else if (str_eqz(it.key, "syncType"))
			failed = take_u32(it.value, "options.syncType", 1, &o->sync_type, err);
		else if (str_eqz(it.key, "routingType"))
			failed = take_u32(it.value, "options.routingType", 1, &o->routing_type,
					  err);
		else if (str_eqz(it.key, "reconfigurable"))
			o->reconfigurable = json_bool(it.value, false);
		else if (str_eqz(it.key, "allocation"))
			failed = take_text(it.value, "options.allocation", &o->allocation, err);
		else
			failed = err_set(err, ERR_INVALID, 0, "options.%.*s isn't known",
					 STR_ARG(it.key));
		if (failed)
			return -1;
	}
	return 0;
}

static int take_int(const struct json *v, const char *what, int64_t min, int64_t max, int64_t *ret,
		    struct err *err)
{
	int64_t n = json_int(v, 0);

	if (json_type(v) != JSON_INT || n < min || n > max)
		return err_set(err, ERR_INVALID, 0, "%s is out of range", what);
	*ret = n;
	return 0;
}

static int take_bool(const struct json *v, const char *what, bool *ret, struct err *err)
{
	if (json_type(v) != JSON_BOOL)
		return err_set(err, ERR_INVALID, 0, "%s must be true or false", what);
	*ret = json_bool(v, false);
	return 0;
}

static int take_seconds(const struct json *v, const char *what, int64_t *ret_ms, struct err *err)
{
	int64_t n = 0;

	if (take_int(v, what, 1, DEADLINE_MAX_S, &n, err) < 0)
		return -1;
	*ret_ms = n * 1000;
	return 0;
}

int partition_ask_decode_member(struct partition_ask *ask, struct str key, const struct json *v,
				struct err *err)
{
	int64_t n = 0;

	if (str_eqz(key, "owner"))
		return decode_owner(v, &ask->owner, err);
	if (str_eqz(key, "instance"))
		return take_u32(v, "instance", 0, &ask->instance, err);
	if (str_eqz(key, "ipus"))
		return take_u32(v, "ipus", 1, &ask->ipus, err);
	if (str_eqz(key, "options"))
		return decode_options(v, &ask->options, err);
	if (str_eqz(key, "attempt"))
		return take_u32(v, "attempt", 0, &ask->attempt, err);
	if (str_eqz(key, "adopt"))
		return take_word(v, "adopt", &ask->adopt, err);
	if (str_eqz(key, "legacy"))
		return take_word(v, "legacy", &ask->legacy, err);
	if (str_eqz(key, "nodeLabels"))
		return take_text(v, "nodeLabels", &ask->node_labels, err);
	if (str_eqz(key, "onlyAdopt"))
		return take_bool(v, "onlyAdopt", &ask->only_adopt, err);
	if (str_eqz(key, "interactive"))
		return take_bool(v, "interactive", &ask->interactive, err);
	if (str_eqz(key, "created"))
		return take_time(v, "created", &ask->created_ms, err);
	if (str_eqz(key, "priority")) {
		if (take_int(v, "priority", INT32_MIN, INT32_MAX, &n, err) < 0)
			return -1;
		ask->priority = (int32_t)n;
		return 0;
	}
	if (str_eqz(key, "deadlineSeconds"))
		return take_seconds(v, "deadlineSeconds", &ask->deadline_ms, err);
	return err_set(err, ERR_INVALID, 0, "\"%.*s\" isn't known", STR_ARG(key));
}

static int decode_member(struct partition_entry *e, struct str key, const struct json *v,
			 struct err *err)
{
	if (str_eqz(key, "phase"))
		return partition_phase_parse(json_str(v), &e->phase, err);
	if (str_eqz(key, "controller"))
		return take_word(v, "controller", &e->controller, err);
	if (str_eqz(key, "since"))
		return take_time(v, "since", &e->since_ms, err);
	if (str_eqz(key, "settle"))
		return take_time(v, "settle", &e->settle_ms, err);
	if (str_eqz(key, "active"))
		return take_time(v, "active", &e->active_ms, err);
	if (str_eqz(key, "limitSeconds"))
		return take_seconds(v, "limitSeconds", &e->limit_ms, err);
	if (str_eqz(key, "reason"))
		return take_text(v, "reason", &e->reason, err);
	return partition_ask_decode_member(&e->ask, key, v, err);
}

static int decode_wait_member(struct partition_wait *w, struct str key, const struct json *v,
			      struct err *err)
{
	if (str_eqz(key, "phase")) {
		w->failed = str_eqz(json_str(v), WAIT_FAILED);
		return w->failed || str_eqz(json_str(v), WAIT_WAITING)
			       ? 0
			       : err_set(err, ERR_INVALID, 0, "phase \"%.*s\" isn't known",
					 STR_ARG(json_str(v)));
	}
	if (str_eqz(key, "since"))
		return take_time(v, "since", &w->since_ms, err);
	if (str_eqz(key, "reason")) {
		/* Another version's word: what the ask waits for is looked at anew, its place in
		 * the queue is what counts. */
		if (partition_why_parse(json_str(v), &w->why, NULL) < 0)
			w->why = PARTITION_WHY_NO_ROOM;
		return 0;
	}
	return partition_ask_decode_member(&w->ask, key, v, err);
}

int partition_wait_decode(struct str json, struct partition_wait *ret, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct partition_wait w = {0};
	struct json_iter it;

	if (json_parse(json, &doc, err) < 0)
		return -1;
	for (it = json_iter(json_root(doc)); json_next(&it);) {
		if (decode_wait_member(&w, it.key, it.value, err) < 0)
			goto fail;
	}
	if (!w.ask.owner.uid || !w.ask.ipus || !w.since_ms) {
		err_set(err, ERR_INVALID, 0, "owner, ipus and since must all be there");
		goto fail;
	}
	*ret = w;
	return 0;
fail:
	partition_wait_done(&w);
	return -1;
}

int partition_entry_decode(const char *id, struct str json, struct partition_entry **ret,
			   struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct partition_entry *e;
	struct json_iter it;

	if (strlen(id) > PARTITION_ID_MAX)
		return err_set(err, ERR_INVALID, 0, "%s: longer than %d characters", id,
			       PARTITION_ID_MAX);
	if (json_parse(json, &doc, err) < 0)
		return err_wrap(err, "%s", id);
	e = xcalloc(1, sizeof(*e));
	snprintf(e->id, sizeof(e->id), "%s", id);
	for (it = json_iter(json_root(doc)); json_next(&it);) {
		if (decode_member(e, it.key, it.value, err) < 0)
			goto fail;
	}
	if (!e->ask.owner.uid || !e->controller || !e->ask.ipus || !e->since_ms || !e->settle_ms) {
		err_set(err, ERR_INVALID, 0,
			"owner, controller, ipus, since and settle must all be there");
		goto fail;
	}
	*ret = e;
	return 0;
fail:
	partition_entry_free(e);
	return err_wrap(err, "%s", id);
}
