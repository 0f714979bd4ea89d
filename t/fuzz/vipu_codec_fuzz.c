/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The V-IPU's messages: decoded, encoded, decoded and encoded again, both encodings are the same.
 * Input: a letter (a to f: the replies in the order of codec.h; A to H: requests in the order of
 * enum vipu_method), the bytes of the message.
 */
#include "core/json.h"
#include "fuzz.h"
#include "vipu/codec.h"

#define ROUNDTRIP(type, decode, encode, done)                                                      \
	static int again_##decode(struct str bytes, struct buf *out)                               \
	{                                                                                          \
		type v;                                                                            \
		int rc;                                                                            \
		if (decode(bytes, &v, NULL) < 0)                                                   \
			return -1;                                                                 \
		rc = encode(&v, out, NULL);                                                        \
		done(&v);                                                                          \
		return rc;                                                                         \
	}

static void free_text(char **v)
{
	free(*v);
}

static int encode_version(char *const *v, struct buf *out, struct err *err)
{
	return vipu_encode_version(*v, out, err);
}

static int encode_created(char *const *v, struct buf *out, struct err *err)
{
	return vipu_encode_created(*v, out, err);
}

/* Beside its encoding, what a Pod gets of it. */
static int encode_ipuof(const struct vipu_ipuof_config *v, struct buf *out, struct err *err)
{
	for (size_t i = 0; i < v->n_gcds; i++) {
		struct buf text = FUZZ_TEXT;
		struct json_doc *doc;
		MUST(vipu_gcd_write(&v->gcds[i], &text, NULL) == 0);
		MUST(json_parse(buf_str(&text), &doc, NULL) == 0);
		MUST(json_type(json_get(json_root(doc), "attributes")) == JSON_OBJECT);
		MUST(json_len(json_get(json_root(doc), "devices")) == v->gcds[i].n_devices);
		json_doc_free(doc);
		buf_done(&text);
	}
	return vipu_encode_ipuof_config(v, out, err);
}

ROUNDTRIP(char *, vipu_decode_version, encode_version, free_text)
ROUNDTRIP(struct vipu_partitions, vipu_decode_partitions, vipu_encode_partitions,
	  vipu_partitions_done)
ROUNDTRIP(struct vipu_agents, vipu_decode_agents, vipu_encode_agents, vipu_agents_done)
ROUNDTRIP(char *, vipu_decode_created, encode_created, free_text)
ROUNDTRIP(struct vipu_status, vipu_decode_status, vipu_encode_status, vipu_status_done)
ROUNDTRIP(struct vipu_ipuof_config, vipu_decode_ipuof_config, encode_ipuof, vipu_ipuof_config_done)

static int again_request(enum vipu_method method, struct str bytes, struct buf *out)
{
	struct vipu_request req;
	int rc;

	if (vipu_request_decode(method, bytes, &req, NULL) < 0)
		return -1;
	MUST(req.method == method);
	rc = vipu_request_encode(&req, out, NULL);
	vipu_request_done(&req);
	return rc;
}

static int again(char letter, struct str bytes, struct buf *out)
{
	static int (*const replies[])(struct str bytes, struct buf *out) = {
		again_vipu_decode_version, again_vipu_decode_partitions,
		again_vipu_decode_agents,  again_vipu_decode_created,
		again_vipu_decode_status,  again_vipu_decode_ipuof_config,
	};
	unsigned reply = (unsigned)letter - 'a', request = (unsigned)letter - 'A';

	if (reply < 6)
		return replies[reply](bytes, out);
	return again_request((enum vipu_method)(request % VIPU_METHODS), bytes, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	char letter = fuzz_take(&s, 'a');
	struct buf one = FUZZ_TEXT, other = FUZZ_TEXT;

	if (again(letter, s, &one) == 0)
		MUST(again(letter, buf_str(&one), &other) == 0);
	MUST(str_eq(buf_str(&one), buf_str(&other)));
	buf_done(&one);
	buf_done(&other);
	return 0;
}
