/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners, asks and entries: their copies and ends, their names, identifiers, and the tracker's
 * form of an entry (JSON, one object a ConfigMap key).
 */
#include "partition/types.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"

void partition_owner_done(struct partition_owner *o)
{
	free(o->kind);
	free(o->ns);
	free(o->name);
	free(o->uid);
	*o = (struct partition_owner){0};
}

void partition_owner_copy(struct partition_owner *to, const struct partition_owner *from)
{
	*to = (struct partition_owner){
		.kind = xstrdup(from->kind),
		.ns = xstrdup(from->ns),
		.name = xstrdup(from->name),
		.uid = xstrdup(from->uid),
	};
}

void partition_ask_done(struct partition_ask *a)
{
	partition_owner_done(&a->owner);
	free(a->options.allocation);
	*a = (struct partition_ask){0};
}

void partition_ask_copy(struct partition_ask *to, const struct partition_ask *from)
{
	struct partition_ask copy = *from;

	partition_owner_copy(&copy.owner, &from->owner);
	copy.options.allocation = xstrdup(from->options.allocation);
	*to = copy;
}

static bool same_text(const char *a, const char *b)
{
	return str_eq(str_of(a), str_of(b));
}

bool partition_ask_same_need(const struct partition_ask *a, const struct partition_ask *b)
{
	const struct partition_options *x = &a->options, *y = &b->options;

	return a->ipus == b->ipus && x->gcds == y->gcds && x->replicas == y->replicas &&
	       x->sync_type == y->sync_type && x->routing_type == y->routing_type &&
	       x->reconfigurable == y->reconfigurable && same_text(x->allocation, y->allocation);
}

void partition_entry_free(struct partition_entry *e)
{
	if (!e)
		return;
	partition_ask_done(&e->ask);
	free(e->controller);
	free(e->reason);
	free(e);
}

static const char *const phase_names[] = {
	[PARTITION_CREATING] = "creating",   [PARTITION_ACTIVE] = "active",
	[PARTITION_RESETTING] = "resetting", [PARTITION_RELEASING] = "releasing",
	[PARTITION_ORPHAN] = "orphan",
};
#define N_PHASES (sizeof(phase_names) / sizeof(phase_names[0]))

const char *partition_phase_name(enum partition_phase phase)
{
	return phase_names[phase];
}

const char *partition_state_name(enum partition_state state)
{
	static const char *const names[] = {
		[PARTITION_STATE_NONE] = "none",           [PARTITION_STATE_WAITING] = "waiting",
		[PARTITION_STATE_CREATING] = "creating",   [PARTITION_STATE_ACTIVE] = "active",
		[PARTITION_STATE_RESETTING] = "resetting", [PARTITION_STATE_FAILED] = "failed",
		[PARTITION_STATE_RELEASING] = "releasing",
	};
	return names[state];
}

const char *partition_why_name(enum partition_why why)
{
	static const char *const names[] = {
		[PARTITION_WHY_NONE] = "",
		[PARTITION_WHY_STARTING] = "OperatorStarting",
		[PARTITION_WHY_NO_CONTROLLER] = "NoController",
		[PARTITION_WHY_UNREACHABLE] = "ControllerUnreachable",
		[PARTITION_WHY_TOO_LARGE] = "TooLarge",
		[PARTITION_WHY_NO_ROOM] = "WaitingForIPUs",
		[PARTITION_WHY_REFUSED] = "PartitionRefused",
		[PARTITION_WHY_ERROR] = "PartitionFailed",
		[PARTITION_WHY_VANISHED] = "PartitionVanished",
		[PARTITION_WHY_TAKEN] = "PartitionTaken",
		[PARTITION_WHY_TRACKER] = "TrackerUnwritable",
	};
	return names[why];
}

/* ---- identifiers ---- */

#define HASH_DIGITS 10

/* Appends what of z is fit for an identifier, others as '-', never two '-' in a row. */
static size_t append_legible(char *id, size_t len, size_t max, const char *z)
{
	for (; *z && len < max; z++) {
		unsigned char c = (unsigned char)tolower((unsigned char)*z);
		bool fit = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		if (len == 0 && !(c >= 'a' && c <= 'z'))
			id[len++] = 'p';
		if (fit && len < max)
			id[len++] = (char)c;
		else if (len < max && id[len - 1] != '-')
			id[len++] = '-';
	}
	return len;
}

void partition_id_make(const struct partition_owner *owner, uint32_t instance, uint64_t incarnation,
		       char ret_id[PARTITION_ID_MAX + 1])
{
	char numbers[64], hex[2 * 32 + 1], tail[16 + HASH_DIGITS];
	uint8_t digest[32];
	struct str parts[2] = {str_of(owner->uid)};
	size_t len, room;

	snprintf(numbers, sizeof(numbers), "/%" PRIu32 "/%" PRIu64, instance, incarnation);
	parts[1] = str_of(numbers);
	hash_sha256(parts, 2, digest);
	hex_encode(digest, sizeof(digest), hex);
	snprintf(tail, sizeof(tail), "-%" PRIu32 "-%.*s", instance, HASH_DIGITS, hex);
	room = PARTITION_ID_MAX - strlen(tail);
	/* The job's name is what people look for: the namespace gets what it leaves. */
	len = append_legible(ret_id, 0, room, owner->name);
	if (len + 2 < room) {
		len = append_legible(ret_id, len, room, "-");
		len = append_legible(ret_id, len, room, owner->ns);
	}
	while (len > 0 && ret_id[len - 1] == '-')
		len--;
	if (len == 0)
		ret_id[len++] = 'p';
	memcpy(ret_id + len, tail, strlen(tail) + 1);
}

/* ---- the tracker's form ---- */

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

int partition_entry_encode(const struct partition_entry *e, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *owner = jmut_object(doc);

	jmut_set_str(doc, root, "phase", partition_phase_name(e->phase));
	jmut_set_str(doc, owner, "kind", e->ask.owner.kind);
	jmut_set_str(doc, owner, "namespace", e->ask.owner.ns);
	jmut_set_str(doc, owner, "name", e->ask.owner.name);
	jmut_set_str(doc, owner, "uid", e->ask.owner.uid);
	jmut_set(doc, root, "owner", owner);
	jmut_set_int(doc, root, "instance", e->ask.instance);
	jmut_set_int(doc, root, "ipus", e->ask.ipus);
	encode_options(doc, root, &e->ask.options);
	jmut_set_str(doc, root, "controller", e->controller);
	encode_time(doc, root, "since", e->since_ms);
	encode_time(doc, root, "settle", e->settle_ms);
	if (e->reason)
		jmut_set_str(doc, root, "reason", e->reason);
	return jmut_write(root, JSON_COMPACT, out, err);
}

static int take_text(const struct json *v, const char *what, char **ret, struct err *err)
{
	struct str s = json_str(v);

	if (s.len == 0)
		return err_set(err, ERR_INVALID, 0, "%s is missing or not a string", what);
	if (memchr(s.p, '\0', s.len))
		return err_set(err, ERR_INVALID, 0, "%s holds a NUL", what);
	free(*ret);
	*ret = str_dup(s);
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
	if (take_text(json_get(obj, "kind"), "owner.kind", &o->kind, err) < 0 ||
	    take_text(json_get(obj, "namespace"), "owner.namespace", &o->ns, err) < 0 ||
	    take_text(json_get(obj, "name"), "owner.name", &o->name, err) < 0 ||
	    take_text(json_get(obj, "uid"), "owner.uid", &o->uid, err) < 0)
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

static int decode_phase(struct str s, enum partition_phase *ret, struct err *err)
{
	for (size_t i = 0; i < N_PHASES; i++) {
		if (str_eqz(s, phase_names[i])) {
			*ret = (enum partition_phase)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0, "phase \"%.*s\" isn't known", STR_ARG(s));
}

static int decode_member(struct partition_entry *e, struct str key, const struct json *v,
			 struct err *err)
{
	if (str_eqz(key, "phase"))
		return decode_phase(json_str(v), &e->phase, err);
	if (str_eqz(key, "owner"))
		return decode_owner(v, &e->ask.owner, err);
	if (str_eqz(key, "instance"))
		return take_u32(v, "instance", 0, &e->ask.instance, err);
	if (str_eqz(key, "ipus"))
		return take_u32(v, "ipus", 1, &e->ask.ipus, err);
	if (str_eqz(key, "options"))
		return decode_options(v, &e->ask.options, err);
	if (str_eqz(key, "controller"))
		return take_text(v, "controller", &e->controller, err);
	if (str_eqz(key, "since"))
		return take_time(v, "since", &e->since_ms, err);
	if (str_eqz(key, "settle"))
		return take_time(v, "settle", &e->settle_ms, err);
	if (str_eqz(key, "reason"))
		return take_text(v, "reason", &e->reason, err);
	return err_set(err, ERR_INVALID, 0, "\"%.*s\" isn't known", STR_ARG(key));
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
