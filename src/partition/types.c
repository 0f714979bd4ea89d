/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners, asks and entries: their copies and ends, their names, and identifiers.
 */
#include "partition/types.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/intern.h"
#include "core/str.h"

void partition_owner_done(struct partition_owner *o)
{
	intern_drop(o->kind);
	intern_drop(o->ns);
	intern_drop(o->name);
	intern_drop(o->uid);
	*o = (struct partition_owner){0};
}

void partition_owner_copy(struct partition_owner *to, const struct partition_owner *from)
{
	*to = (struct partition_owner){
		.kind = intern_z(from->kind),
		.ns = intern_z(from->ns),
		.name = intern_z(from->name),
		.uid = intern_z(from->uid),
	};
}

void partition_ask_done(struct partition_ask *a)
{
	partition_owner_done(&a->owner);
	free(a->options.allocation);
	intern_drop(a->adopt);
	intern_drop(a->legacy);
	free(a->node_labels);
	*a = (struct partition_ask){0};
}

void partition_ask_copy(struct partition_ask *to, const struct partition_ask *from)
{
	struct partition_ask copy = *from;

	partition_owner_copy(&copy.owner, &from->owner);
	copy.options.allocation = xstrdup(from->options.allocation);
	copy.adopt = intern_z(from->adopt);
	copy.legacy = intern_z(from->legacy);
	copy.node_labels = xstrdup(from->node_labels);
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
	intern_drop(e->controller);
	free(e->reason);
	free(e);
}

void partition_wait_done(struct partition_wait *w)
{
	partition_ask_done(&w->ask);
	*w = (struct partition_wait){0};
}

static const char *const phase_names[] = {
	[PARTITION_CREATING] = "creating",   [PARTITION_ACTIVE] = "active",
	[PARTITION_RESETTING] = "resetting", [PARTITION_RELEASING] = "releasing",
	[PARTITION_ORPHAN] = "orphan",
};

const char *partition_phase_name(enum partition_phase phase)
{
	return phase_names[phase];
}

int partition_phase_parse(struct str s, enum partition_phase *ret, struct err *err)
{
	for (size_t i = 0; i < sizeof(phase_names) / sizeof(phase_names[0]); i++) {
		if (str_eqz(s, phase_names[i])) {
			*ret = (enum partition_phase)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0, "phase \"%.*s\" isn't known", STR_ARG(s));
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

bool partition_state_asks(enum partition_state state)
{
	return state == PARTITION_STATE_WAITING || state == PARTITION_STATE_CREATING ||
	       state == PARTITION_STATE_RESETTING;
}

static const char *const why_names[] = {
	[PARTITION_WHY_NONE] = "",
	[PARTITION_WHY_STARTING] = "OperatorStarting",
	[PARTITION_WHY_NO_CONTROLLER] = "NoController",
	[PARTITION_WHY_UNREACHABLE] = "ControllerUnreachable",
	[PARTITION_WHY_TOO_LARGE] = "TooLarge",
	[PARTITION_WHY_NO_NODE] = "NoReadyNode",
	[PARTITION_WHY_NO_ROOM] = "WaitingForIPUs",
	[PARTITION_WHY_QUEUED] = "WaitingInQueue",
	[PARTITION_WHY_QUOTA] = "QuotaExceeded",
	[PARTITION_WHY_POLICY] = "PolicyForbids",
	[PARTITION_WHY_REFUSED] = "PartitionRefused",
	[PARTITION_WHY_ERROR] = "PartitionFailed",
	[PARTITION_WHY_VANISHED] = "PartitionVanished",
	[PARTITION_WHY_TAKEN] = "PartitionTaken",
	[PARTITION_WHY_TRACKER] = "TrackerUnwritable",
	[PARTITION_WHY_CONFIG] = "NoIPUoFConfig",
	[PARTITION_WHY_PROXY] = "ProxyUnreachable",
};

const char *partition_why_name(enum partition_why why)
{
	return why_names[why];
}

int partition_why_parse(struct str s, enum partition_why *ret, struct err *err)
{
	for (size_t i = 0; i < sizeof(why_names) / sizeof(why_names[0]); i++) {
		if (str_eqz(s, why_names[i])) {
			*ret = (enum partition_why)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0, "reason \"%.*s\" isn't known", STR_ARG(s));
}

/* ---- identifiers ---- */

#define HASH_DIGITS 10
#define WAIT_PREFIX "ask."

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

size_t partition_id_stem(const char *id)
{
	size_t len = strlen(id), stem = len > HASH_DIGITS ? len - HASH_DIGITS : 0;

	return stem && strspn(id + stem, "0123456789abcdef") == HASH_DIGITS ? stem : 0;
}

void partition_owner_key(const char *owner_uid, char ret_key[PARTITION_OWNER_KEY_SIZE])
{
	const struct str parts[2] = {STR("ipu-operator page\n"), str_of(owner_uid)};
	char hex[2 * 32 + 1];
	uint8_t digest[32];

	hash_sha256(parts, 2, digest);
	hex_encode(digest, sizeof(digest), hex);
	snprintf(ret_key, PARTITION_OWNER_KEY_SIZE, "%.16s", hex);
}

void partition_wait_key(const char *owner_uid, uint32_t instance,
			char ret_key[PARTITION_WAIT_KEY_SIZE])
{
	char number[16], hex[2 * 32 + 1];
	uint8_t digest[32];
	struct str parts[2] = {str_of(owner_uid), STR_NULL};

	snprintf(number, sizeof(number), "/%" PRIu32, instance);
	parts[1] = str_of(number);
	hash_sha256(parts, 2, digest);
	hex_encode(digest, sizeof(digest), hex);
	snprintf(ret_key, PARTITION_WAIT_KEY_SIZE, WAIT_PREFIX "%.16s", hex);
}

bool partition_is_wait_key(struct str key)
{
	return key.len > strlen(WAIT_PREFIX) &&
	       memcmp(key.p, WAIT_PREFIX, strlen(WAIT_PREFIX)) == 0;
}

/* ---- the IPUoF configuration's files ---- */

void partition_file_name(uint32_t gcd, char ret_z[PARTITION_FILE_NAME_SIZE])
{
	snprintf(ret_z, PARTITION_FILE_NAME_SIZE, "ipuof-%" PRIu32 ".conf", gcd);
}

uint64_t partition_file_hash(struct str name, struct str text)
{
	uint64_t h = hash_fnv(hash_fnv(hash_fnv(HASH_FNV, name), STR("\n")), text);

	return h ? h : 1;
}
