/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status objects, and the metadata of any object.
 * Input: a line with the HTTP status (0: the object's own code counts), the JSON.
 */
#include "core/json.h"
#include "fuzz.h"
#include "kube/client.h"
#include "kube/object.h"

static void try_status(int status, const struct json *body)
{
	const struct str token = STR("of-sixteen-bytes");
	struct err err = ERR_INIT;

	MUST(kube_status_decode(status, body, 0, token, &err) == -1);
	MUST(err.kind != ERR_NONE && err.msg[0]);
	MUST(!strstr(err.msg, token.p));
	MUST(err.retry_after_ms <= 3600000);
	MUST(status == 0 || err.code == status);
	for (const char *c = err.msg; *c; c++)
		MUST((unsigned char)*c >= ' ');
	kube_status_decode(status, body, 5000, STR_NULL, NULL);
}

static void try_names(const struct json *object)
{
	struct str name = kube_name(object), version = kube_version(object), ns, back;
	char key[KUBE_KEY_SIZE];

	struct str joined = kube_object_key(object, key);
	if (joined.len > 0 && kube_is_dns1123_subdomain(name)) {
		kube_key_split(joined, &ns, &back);
		MUST(memchr(kube_namespace(object).p ? kube_namespace(object).p : "", '/',
			    kube_namespace(object).len) ||
		     (str_eq(back, name) && str_eq(ns, kube_namespace(object))));
	}
	MUST(!kube_is_dns1123_label(name) || kube_is_dns1123_subdomain(name));
	MUST((kube_check_name("name", name, true, NULL) == 0) == kube_is_dns1123_subdomain(name));
	kube_is_label_key(name);
	kube_is_label_value(name);
	MUST(kube_version_cmp(version, version) == 0);
	MUST(kube_version_cmp(version, name) != 0 || kube_version_cmp(name, version) == 0);
}

static void try_object(const struct json *object)
{
	try_names(object);
	kube_generation(object);
	kube_creation_ms(object);
	MUST(kube_is_deleting(object) || kube_deletion_ms(object) == 0);
	kube_label(object, "a");
	kube_annotation(object, "a");
	kube_has_finalizer(object, "f");
	struct str owner = json_str(json_get(kube_controller_ref(object), "uid"));
	MUST(owner.len == 0 || kube_is_owned_by(object, owner));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	int64_t status = 0;
	CLEANUP_JSON struct json_doc *doc = NULL;

	str_to_int(fuzz_line(&s), 0, 999, &status, NULL);
	if (json_parse(s, &doc, NULL) < 0) {
		try_status((int)status, NULL);
		return 0;
	}
	try_status((int)status, json_root(doc));
	try_object(json_root(doc));
	return 0;
}
