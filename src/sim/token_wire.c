/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TokenRequest in protobuf, the one form in which kubectl sends it: Kubernetes API Concepts,
 * "Protobuf encoding idl" (the envelope), authentication.k8s.io/v1 generated.proto (the fields).
 * Pure.
 */
#include <stdint.h>

#include "core/str.h"
#include "sim/api_internal.h"

/* One field of a message. */
struct field {
	unsigned number;
	uint64_t varint;  /* of wire type 0 */
	struct str bytes; /* of wire type 2 */
};

static bool take_varint(struct str *in, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64 && in->len > 0; shift += 7) {
		uint8_t b = (uint8_t)*in->p;

		in->p++;
		in->len--;
		n |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80) {
			*ret = n;
			return true;
		}
	}
	return false;
}

/* False: at the end, or at something that isn't a field (then *ret_bad). */
static bool take_field(struct str *in, struct field *ret, bool *ret_bad)
{
	uint64_t tag, len = 0;

	if (in->len == 0)
		return false;
	*ret_bad = true;
	*ret = (struct field){0};
	if (!take_varint(in, &tag) || tag >> 3 > UINT32_MAX)
		return false;
	ret->number = (unsigned)(tag >> 3);
	if ((tag & 7) == 0) {
		if (!take_varint(in, &ret->varint))
			return false;
	} else {
		if ((tag & 7) != 2 || !take_varint(in, &len) || len > in->len)
			return false;
		ret->bytes = (struct str){in->p, len};
		in->p += len;
		in->len -= len;
	}
	*ret_bad = false;
	return true;
}

static void read_reference(struct str in, struct jmut_doc *doc, struct jmut *ref, bool *ret_bad)
{
	static const char *const keys[] = {NULL, "kind", "apiVersion", "name", "uid"};
	struct field f;

	while (take_field(&in, &f, ret_bad)) {
		if (f.number >= 1 && f.number <= 4)
			jmut_set(doc, ref, keys[f.number], jmut_str(doc, f.bytes));
	}
}

static void read_spec(struct str in, struct jmut_doc *doc, struct jmut *spec, bool *ret_bad)
{
	struct field f;

	while (!*ret_bad && take_field(&in, &f, ret_bad)) {
		if (f.number == 1)
			jmut_push(doc, jmut_need_array(doc, spec, "audiences"),
				  jmut_str(doc, f.bytes));
		else if (f.number == 3)
			read_reference(f.bytes, doc, jmut_need_object(doc, spec, "boundObjectRef"),
				       ret_bad);
		else if (f.number == 4 && f.varint <= INT64_MAX)
			jmut_set_int(doc, spec, "expirationSeconds", (int64_t)f.varint);
	}
}

int sim_token_request_decode(struct str body, struct jmut_doc *doc, struct jmut **ret,
			     struct err *err)
{
	static const struct str magic = {"k8s\0", 4};
	struct jmut *root = jmut_object(doc);
	struct str raw = STR_NULL;
	struct field f;
	bool bad = !str_has_prefix(body, magic);

	if (!bad) {
		body.p += magic.len;
		body.len -= magic.len;
	}
	while (!bad && take_field(&body, &f, &bad)) {
		if (f.number == 2)
			raw = f.bytes;
	}
	while (!bad && take_field(&raw, &f, &bad)) {
		if (f.number == 2)
			read_spec(f.bytes, doc, jmut_need_object(doc, root, "spec"), &bad);
	}
	if (bad)
		return err_set(err, ERR_INVALID, 400, "the body isn't a TokenRequest in protobuf");
	*ret = root;
	return 0;
}
