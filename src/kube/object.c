/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata accessors, keys, and the rules for names and labels.
 * Pure: borrows what it's given, allocates nothing. Uses core/.
 */
#include "kube/object.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"

static struct str meta_str(const struct json *object, const char *key)
{
	return json_str(json_at(object, "metadata", key, NULL));
}

struct str kube_name(const struct json *object)
{
	return meta_str(object, "name");
}

struct str kube_namespace(const struct json *object)
{
	return meta_str(object, "namespace");
}

struct str kube_uid(const struct json *object)
{
	return meta_str(object, "uid");
}

struct str kube_version(const struct json *object)
{
	return meta_str(object, "resourceVersion");
}

int64_t kube_generation(const struct json *object)
{
	return json_int(json_at(object, "metadata", "generation", NULL), 0);
}

struct str kube_label(const struct json *object, const char *key)
{
	return json_str(json_at(object, "metadata", "labels", key, NULL));
}

struct str kube_annotation(const struct json *object, const char *key)
{
	return json_str(json_at(object, "metadata", "annotations", key, NULL));
}

bool kube_is_deleting(const struct json *object)
{
	return meta_str(object, "deletionTimestamp").len > 0;
}

static int64_t meta_time(const struct json *object, const char *key)
{
	int64_t wall_ms;
	struct str s = meta_str(object, key);
	if (s.len == 0 || clock_parse(s, &wall_ms, NULL) < 0)
		return 0;
	return wall_ms;
}

int64_t kube_deletion_ms(const struct json *object)
{
	return meta_time(object, "deletionTimestamp");
}

int64_t kube_creation_ms(const struct json *object)
{
	return meta_time(object, "creationTimestamp");
}

bool kube_has_finalizer(const struct json *object, const char *finalizer)
{
	struct json_iter it = json_iter(json_at(object, "metadata", "finalizers", NULL));
	while (json_next(&it))
		if (str_eqz(json_str(it.value), finalizer))
			return true;
	return false;
}

const struct json *kube_controller_ref(const struct json *object)
{
	struct json_iter it = json_iter(json_at(object, "metadata", "ownerReferences", NULL));
	while (json_next(&it))
		if (json_bool(json_get(it.value, "controller"), false))
			return it.value;
	return NULL;
}

bool kube_is_owned_by(const struct json *object, struct str uid)
{
	struct json_iter it = json_iter(json_at(object, "metadata", "ownerReferences", NULL));
	while (json_next(&it)) {
		struct str owner = json_str(json_get(it.value, "uid"));
		if (owner.len > 0 && str_eq(owner, uid))
			return true;
	}
	return false;
}

void kube_set_owner(struct jmut_doc *doc, struct jmut *meta, const char *api_version,
		    const char *kind, const char *name, const char *uid)
{
	struct jmut *ref = jmut_object(doc), *owners = jmut_array(doc);
	jmut_set_str(doc, ref, "apiVersion", api_version);
	jmut_set_str(doc, ref, "kind", kind);
	jmut_set_str(doc, ref, "name", name);
	jmut_set_str(doc, ref, "uid", uid);
	jmut_set_bool(doc, ref, "controller", true);
	jmut_set_bool(doc, ref, "blockOwnerDeletion", true);
	jmut_push(doc, owners, ref);
	jmut_set(doc, meta, "ownerReferences", owners);
}

/* ---- keys ---- */

struct str kube_key(struct str ns, struct str name, char ret_z[KUBE_KEY_SIZE])
{
	size_t need = name.len + (ns.len > 0 ? ns.len + 1 : 0);
	char *p = ret_z;
	ret_z[0] = '\0';
	if (name.len == 0 || need >= KUBE_KEY_SIZE)
		return (struct str){ret_z, 0};
	if (ns.len > 0) {
		memcpy(p, ns.p, ns.len);
		p += ns.len;
		*p++ = '/';
	}
	memcpy(p, name.p, name.len);
	p[name.len] = '\0';
	return (struct str){ret_z, need};
}

struct str kube_object_key(const struct json *object, char ret_z[KUBE_KEY_SIZE])
{
	return kube_key(kube_namespace(object), kube_name(object), ret_z);
}

void kube_key_split(struct str key, struct str *ret_ns, struct str *ret_name)
{
	struct str head, tail;
	if (str_cut(key, '/', &head, &tail)) {
		*ret_ns = head;
		*ret_name = tail;
	} else {
		*ret_ns = STR_NULL;
		*ret_name = key;
	}
}

static bool is_decimal(struct str s)
{
	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return true;
}

static struct str strip_zeros(struct str s)
{
	while (s.len > 1 && s.p[0] == '0') {
		s.p++;
		s.len--;
	}
	return s;
}

int kube_version_cmp(struct str a, struct str b)
{
	if (!is_decimal(a) || !is_decimal(b))
		return str_eq(a, b) ? 0 : 1;
	a = strip_zeros(a);
	b = strip_zeros(b);
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	int order = memcmp(a.p, b.p, a.len);
	return order < 0 ? -1 : order > 0;
}

/* ---- names ---- */

static bool is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
	return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

/* One label of [a-z0-9-], without a limit on its length. */
static bool is_label_chars(struct str s)
{
	if (s.len == 0 || !is_lower_alnum(s.p[0]) || !is_lower_alnum(s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_lower_alnum(s.p[i]) && s.p[i] != '-')
			return false;
	return true;
}

bool kube_is_dns1123_label(struct str s)
{
	return s.len <= 63 && is_label_chars(s);
}

bool kube_is_dns1123_subdomain(struct str s)
{
	struct str head, tail = s;
	bool more = true;
	if (s.len == 0 || s.len > 253)
		return false;
	while (more) {
		more = str_cut(tail, '.', &head, &tail);
		if (!is_label_chars(head))
			return false;
	}
	return true;
}

/* [A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?, at most 63. */
static bool is_qualified_part(struct str s)
{
	if (s.len == 0 || s.len > 63 || !is_alnum(s.p[0]) || !is_alnum(s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

bool kube_is_label_key(struct str s)
{
	struct str prefix, name;
	if (!str_cut(s, '/', &prefix, &name))
		return is_qualified_part(s);
	return kube_is_dns1123_subdomain(prefix) && is_qualified_part(name);
}

bool kube_is_label_value(struct str s)
{
	return s.len == 0 || is_qualified_part(s);
}

int kube_check_name(const char *what, struct str s, bool subdomain, struct err *err)
{
	size_t max = subdomain ? 253 : 63;
	if (s.len == 0)
		return err_set(err, ERR_INVALID, 0, "%s is empty", what);
	if (s.len > max)
		return err_set(err, ERR_INVALID, 0,
			       "%s \"%.40s…\" has %zu characters; at most %zu are allowed", what,
			       s.p, s.len, max);
	if (subdomain ? kube_is_dns1123_subdomain(s) : kube_is_dns1123_label(s))
		return 0;
	return err_set(
		err, ERR_INVALID, 0,
		"%s \"%.*s\" isn't a valid name: lower-case letters, digits%s '-' are allowed, "
		"with a letter or digit at both ends%s",
		what, s.len > 100 ? 100 : (int)s.len, s.p, subdomain ? ", '.' and" : " and",
		subdomain ? " and beside each '.'" : "");
}
