/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a POST: every member that isn't known, of the wrong type or out of its range is an
 * error here. The record's own decoder, which trusts what the operator wrote, comes after. Pure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "kube/object.h"
#include "vipu/capacity.h"

#define MAX_IPUS     (VIPU_MAX_DOMAINS * VIPU_DOMAIN_IPUS)
#define MAX_DEADLINE INT64_C(3162240000) /* a hundred years */
#define NAME_SIZE    64

static const struct ask_member ask_members[] = {
	{"owner", ASK_OBJECT, true, 0, 0},
	{"instance", ASK_INTEGER, true, 0, INSTANCE_MAX},
	{"ipus", ASK_INTEGER, true, 1, MAX_IPUS},
	{"options", ASK_OBJECT, false, 0, 0},
	{"attempt", ASK_INTEGER, false, 0, UINT32_MAX},
	{"priority", ASK_INTEGER, false, INT32_MIN, INT32_MAX},
	{"deadlineSeconds", ASK_INTEGER, false, 1, MAX_DEADLINE},
	{"interactive", ASK_BOOLEAN, false, 0, 0},
	{"adopt", ASK_TEXT, false, 1, PARTITION_ID_MAX},
	{"legacy", ASK_TEXT, false, 1, 512},
	{"onlyAdopt", ASK_BOOLEAN, false, 0, 0},
	{"created", ASK_TEXT, false, 1, 64},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member owner_members[] = {
	{"kind", ASK_TEXT, true, 1, 63},  {"namespace", ASK_TEXT, true, 1, 63},
	{"name", ASK_TEXT, true, 1, 253}, {"uid", ASK_TEXT, true, 1, UID_MAX},
	{NULL, ASK_TEXT, false, 0, 0},
};

/* The same where nobody need be named. */
static const struct ask_member unnamed_members[] = {
	{"kind", ASK_TEXT, true, 1, 63},   {"namespace", ASK_TEXT, true, 1, 63},
	{"name", ASK_TEXT, false, 1, 253}, {"uid", ASK_TEXT, true, 1, UID_MAX},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member option_members[] = {
	{"gcds", ASK_INTEGER, false, 1, MAX_IPUS},
	{"replicas", ASK_INTEGER, false, 1, MAX_IPUS},
	{"syncType", ASK_INTEGER, false, 1, 255},
	{"routingType", ASK_INTEGER, false, 1, 255},
	{"reconfigurable", ASK_BOOLEAN, false, 0, 0},
	{"allocation", ASK_TEXT, false, 1, 253},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member *find_member(const struct ask_member *members, struct str key)
{
	for (; members->name; members++) {
		if (str_eqz(key, members->name))
			return members;
	}
	return NULL;
}

static int check_text(struct str s, const char *path, const struct ask_member *m, struct err *err)
{
	if ((int64_t)s.len < m->min || (int64_t)s.len > m->max)
		return err_set(err, ERR_INVALID, 0,
			       "%s%s must have from %" PRId64 " to %" PRId64 " characters", path,
			       m->name, m->min, m->max);
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c < 0x20 || c == 0x7f)
			return err_set(err, ERR_INVALID, 0, "%s%s holds a control character", path,
				       m->name);
	}
	return 0;
}

static int check_value(const struct json *v, const char *path, const struct ask_member *m,
		       struct err *err)
{
	static const char *const names[] = {"a whole number", "a string", "true or false",
					    "an object", "a list"};
	static const enum json_type types[] = {JSON_INT, JSON_STRING, JSON_BOOL, JSON_OBJECT,
					       JSON_ARRAY};
	enum json_type type = json_type(v);
	int64_t n = json_int(v, 0);

	if (type != types[m->type])
		return err_set(err, ERR_INVALID, 0, "%s%s must be %s, not %s", path, m->name,
			       names[m->type],
			       type == JSON_REAL ? "one with a fraction or out of range"
						 : json_type_name(type));
	if (m->type == ASK_INTEGER && (n < m->min || n > m->max))
		return err_set(err, ERR_INVALID, 0,
			       "%s%s must be from %" PRId64 " to %" PRId64 ", not %" PRId64, path,
			       m->name, m->min, m->max, n);
	if (m->type == ASK_ARRAY && (int64_t)json_len(v) > m->max)
		return err_set(err, ERR_INVALID, 0, "%s%s must have %" PRId64 " elements at most",
			       path, m->name, m->max);
	return m->type == ASK_TEXT ? check_text(json_str(v), path, m, err) : 0;
}

int ask_check_members(const struct json *obj, const char *path, const struct ask_member *members,
		      struct err *err)
{
	struct json_iter it = json_iter(obj);
	unsigned seen = 0;

	while (json_next(&it)) {
		const struct ask_member *m = find_member(members, it.key);

		if (!m)
			return err_set(err, ERR_INVALID, 0, "%s%.*s isn't a member that is known",
				       path, it.key.len > NAME_SIZE ? NAME_SIZE : (int)it.key.len,
				       it.key.p);
		if (seen & 1U << (m - members))
			return err_set(err, ERR_INVALID, 0, "%s%s comes twice", path, m->name);
		seen |= 1U << (m - members);
		if (check_value(it.value, path, m, err) < 0)
			return -1;
	}
	for (const struct ask_member *m = members; m->name; m++) {
		if (m->required && !(seen & 1U << (m - members)))
			return err_set(err, ERR_INVALID, 0, "%s%s is missing", path, m->name);
	}
	return 0;
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool ask_is_uid(struct str s)
{
	if (s.len == 0 || s.len > UID_MAX || !is_alnum(s.p[0]) || !is_alnum(s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (!is_alnum(s.p[i]) && (s.p[i] == '\0' || !strchr("._-", s.p[i])))
			return false;
	}
	return true;
}

int ask_check_owner(const struct json *owner, bool named, struct err *err)
{
	struct str kind = json_str(json_get(owner, "kind"));

	if (ask_check_members(owner, "owner.", named ? owner_members : unnamed_members, err) < 0)
		return -1;
	named = named || json_get(owner, "name");
	for (size_t i = 0; i < kind.len; i++) {
		if (!is_alnum(kind.p[i]) || (i == 0 && kind.p[i] <= '9'))
			return err_set(err, ERR_INVALID, 0,
				       "owner.kind must be a kind such as IPUJob or Pod");
	}
	if (kube_check_name("owner.namespace", json_str(json_get(owner, "namespace")), false, err) <
		    0 ||
	    (named &&
	     kube_check_name("owner.name", json_str(json_get(owner, "name")), true, err) < 0))
		return -1;
	if (!ask_is_uid(json_str(json_get(owner, "uid"))))
		return err_set(err, ERR_INVALID, 0,
			       "owner.uid must be letters, digits, '-', '_' and '.', such as an "
			       "object's metadata.uid");
	return 0;
}

static int check_body(const struct json *root, struct err *err)
{
	const struct json *options = json_get(root, "options");

	if (json_type(root) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "the body must be a JSON object, not %s",
			       json_type_name(json_type(root)));
	if (ask_check_members(root, "", ask_members, err) < 0 ||
	    ask_check_owner(json_get(root, "owner"), true, err) < 0 ||
	    (options && ask_check_members(options, "options.", option_members, err) < 0))
		return -1;
	if (!vipu_is_power_of_two((uint32_t)json_int(json_get(root, "ipus"), 0)))
		return err_set(err, ERR_INVALID, 0,
			       "ipus must be a power of two: 1, 2, 4, 8 and so on");
	return 0;
}

int ask_parse(struct str body, struct partition_ask *ret, bool *ret_has_attempt, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct partition_ask ask = {0};
	struct json_iter it;

	if (json_parse(body, &doc, err) < 0)
		return err_wrap(err, "the body must be a JSON object");
	if (check_body(json_root(doc), err) < 0)
		return -1;
	it = json_iter(json_root(doc));
	while (json_next(&it)) {
		if (partition_ask_decode_member(&ask, it.key, it.value, err) < 0) {
			partition_ask_done(&ask);
			return -1;
		}
	}
	*ret = ask;
	*ret_has_attempt = json_get(json_root(doc), "attempt") != NULL;
	return 0;
}
