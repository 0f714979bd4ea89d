/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an annotated Pod asks for. Pure.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/rand.h"
#include "core/str.h"
#include "pod/inject.h"
#include "vipu/capacity.h"

#define MAX_IPUS (VIPU_MAX_DOMAINS * VIPU_DOMAIN_IPUS)
/* How much of a bad value a message repeats. */
#define SHOWN_BYTES 32

const struct partition_options pod_partition_options = {.gcds = 1, .reconfigurable = true};

void pod_token_make(char ret_z[POD_TOKEN_SIZE])
{
	uint8_t bytes[(POD_TOKEN_SIZE - 1) / 2];

	rand_bytes(bytes, sizeof(bytes));
	hex_encode(bytes, sizeof(bytes), ret_z);
}

bool pod_token_is(struct str s)
{
	if (s.len != POD_TOKEN_SIZE - 1)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (hex_digit(s.p[i]) < 0 || (s.p[i] >= 'A' && s.p[i] <= 'F'))
			return false;
	}
	return true;
}

void pod_config_map_name(const char *token, char ret_z[POD_CONFIG_MAP_SIZE])
{
	snprintf(ret_z, POD_CONFIG_MAP_SIZE, "ipuof-%s", token);
}

static const struct json *annotation(const struct json *pod, const char *name)
{
	return json_at(pod, "metadata", "annotations", name, NULL);
}

bool pod_is_annotated(const struct json *pod)
{
	return annotation(pod, POD_ANNOTATION_IPUS) || annotation(pod, POD_ANNOTATION_IPU);
}

/* 0 where the annotation isn't there. */
static int read_one(const struct json *pod, const char *name, int64_t *ret, struct err *err)
{
	const struct json *v = annotation(pod, name);
	struct str text = json_str(v);
	int64_t n;

	*ret = 0;
	if (!v)
		return 0;
	if (json_type(v) != JSON_STRING)
		return err_set(err, ERR_INVALID, 0,
			       "metadata.annotations[%s]: must be a number of IPUs as text, such "
			       "as \"2\", not %s",
			       name, json_type_name(json_type(v)));
	if (str_to_int(text, 1, MAX_IPUS, &n, NULL) < 0 || (n & (n - 1)) != 0)
		return err_set(
			err, ERR_INVALID, 0,
			"metadata.annotations[%s]: must be a power of two from 1 to %d, such "
			"as \"2\", not \"%.*s%s\"",
			name, MAX_IPUS, (int)str_utf8_cut(text, SHOWN_BYTES), text.p ? text.p : "",
			text.len > SHOWN_BYTES ? "…" : "");
	*ret = n;
	return 0;
}

int pod_ipus(const struct json *pod, uint32_t *ret, struct err *err)
{
	int64_t ipus, ipu;

	if (!pod_is_annotated(pod))
		return err_set(err, ERR_NOT_FOUND, 0, "the Pod asks for no IPUs by annotation");
	if (read_one(pod, POD_ANNOTATION_IPUS, &ipus, err) < 0 ||
	    read_one(pod, POD_ANNOTATION_IPU, &ipu, err) < 0)
		return -1;
	if (ipus && ipu && ipus != ipu)
		return err_set(err, ERR_INVALID, 0,
			       "metadata.annotations[" POD_ANNOTATION_IPU "]: says %" PRId64
			       ", and " POD_ANNOTATION_IPUS " says %" PRId64
			       ": leave one of the two out",
			       ipu, ipus);
	*ret = (uint32_t)(ipus ? ipus : ipu);
	return 0;
}

int64_t pod_deadline_ms(const struct json *pod)
{
	int64_t s = json_int(json_at(pod, "spec", "activeDeadlineSeconds", NULL), 0);

	/* Kubernetes takes 31 bits of them. */
	return s > 0 && s <= INT32_MAX ? s * 1000 : 0;
}
