/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents under the tracker's name that aren't ours (Graphcore's 1.2, or made by hand): kept in a
 * ConfigMap whose name is a function of them, so that a crash before the tracker is written repeats
 * harmlessly. Owns the copy. Uses kube.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/json.h"
#include "core/log.h"
#include "kube/object.h"
#include "partition/tracker_internal.h"

#define KEPT_FROM  "graphcore.ai/kept-from"
#define NAME_MAX_Z 254

struct kept {
	char name[NAME_MAX_Z];
	char *body;           /* of the POST */
	struct json_doc *doc; /* the same */
	bool done;
};

/* Large enough for what the API server takes. */
#define BODY_LIMIT KUBE_MAX_REQUEST_BYTES

static void name_it(struct shard *s, struct kept *k, const struct json *object)
{
	struct buf data = BUF_INIT(BODY_LIMIT), binary = BUF_INIT(BODY_LIMIT);
	const struct json *d = json_get(object, "data"), *b = json_get(object, "binaryData");
	struct str parts[3];
	uint8_t digest[32];
	char hex[2 * sizeof(digest) + 1];

	if (d)
		json_write(d, JSON_COMPACT, &data, NULL);
	if (b)
		json_write(b, JSON_COMPACT, &binary, NULL);
	parts[0] = kube_uid(object);
	parts[1] = buf_str(&data);
	parts[2] = buf_str(&binary);
	hash_sha256(parts, 3, digest);
	hex_encode(digest, sizeof(digest), hex);
	snprintf(k->name, sizeof(k->name), "%.230s-kept-%.10s", s->name, hex);
	buf_done(&data);
	buf_done(&binary);
}

void keep_forget(struct shard *s)
{
	if (!s->kept)
		return;
	free(s->kept->body);
	json_doc_free(s->kept->doc);
	free(s->kept);
	s->kept = NULL;
}

void keep_begin(struct shard *s, const struct json *object)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc);
	struct jmut *annotations = jmut_object(doc), *labels = jmut_object(doc);
	struct kept *k = xcalloc(1, sizeof(*k));
	struct buf body = BUF_INIT(BODY_LIMIT);
	struct err err;
	size_t len;

	keep_forget(s);
	name_it(s, k, object);
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "ConfigMap");
	jmut_set_str(doc, meta, "name", k->name);
	jmut_set_str(doc, meta, "namespace", s->t->ns);
	jmut_set_str(doc, annotations, KEPT_FROM, s->name);
	jmut_set(doc, meta, "annotations", annotations);
	jmut_set_str(doc, labels, "app.kubernetes.io/name", "ipu-operator");
	jmut_set(doc, meta, "labels", labels);
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "data", jmut_copy(doc, json_get(object, "data")));
	jmut_set(doc, root, "binaryData", jmut_copy(doc, json_get(object, "binaryData")));
	s->kept = k;
	if (jmut_write(root, JSON_COMPACT, &body, &err) < 0 ||
	    json_parse(buf_str(&body), &k->doc, &err) < 0) {
		err_wrap(&err, "what is in it can't be kept");
		keep_forget(s);
		shard_retry_later(s, &err);
	} else {
		k->body = buf_steal(&body, &len);
	}
	buf_done(&body);
}

bool keep_is_done(const struct shard *s)
{
	return s->kept && s->kept->done;
}

const char *keep_name(const struct shard *s)
{
	return s->kept ? s->kept->name : "";
}

static void done(struct shard *s)
{
	if (!s->kept->done)
		log_info("partition", s->name, "what was in it is kept as %s", s->kept->name);
	s->kept->done = true;
	tracker_look_soon(s->t);
}

static void on_compared(void *arg, const struct err *err, const struct kube_response *response)
{
	struct shard *s = arg;
	const struct json *ours = s->kept ? json_root(s->kept->doc) : NULL;
	struct err differs;

	s->state = SHARD_IDLE;
	if (err) {
		shard_retry_later(s, err);
		return;
	}
	if (ours && json_equal(json_get(ours, "data"), json_get(response->json, "data")) &&
	    json_equal(json_get(ours, "binaryData"), json_get(response->json, "binaryData"))) {
		done(s);
		return;
	}
	err_set(&differs, ERR_EXISTS, 0,
		"ConfigMap %s/%s isn't ours, and can't be kept as %s: that one has other contents; "
		"rename or remove it",
		s->t->ns, s->name, keep_name(s));
	shard_retry_later(s, &differs);
}

static void on_kept(void *arg, const struct err *err, const struct kube_response *response)
{
	struct shard *s = arg;
	struct kube_request req = {
		.verb = KUBE_GET,
		.resource = &KUBE_CONFIGMAPS,
		.ns = s->t->ns,
		.name = keep_name(s),
		.deadline_ms = TRACKER_CALL_MS,
	};

	(void)response;
	s->state = SHARD_IDLE;
	if (!err) {
		done(s);
	} else if (err->kind == ERR_EXISTS) {
		s->state = SHARD_KEEPING;
		kube_call_start(s->t->kube, &req, on_compared, s, &s->t->scope);
	} else {
		shard_retry_later(s, err);
	}
}

void keep_start(struct shard *s)
{
	struct kube_request req = {
		.verb = KUBE_CREATE,
		.resource = &KUBE_CONFIGMAPS,
		.ns = s->t->ns,
		.body = str_of(s->kept->body),
		.deadline_ms = TRACKER_CALL_MS,
	};

	s->state = SHARD_KEEPING;
	kube_call_start(s->t->kube, &req, on_kept, s, &s->t->scope);
}

void keep_clear(const struct shard *s, struct jmut_doc *doc, struct jmut *root, struct jmut *data)
{
	const struct json *kept = json_root(s->kept->doc);
	struct json_iter it = json_iter(json_get(kept, "data"));

	while (json_next(&it)) {
		if (!jmut_getn(data, it.key))
			jmut_setn(doc, data, it.key, jmut_null(doc));
	}
	if (json_get(kept, "binaryData"))
		jmut_set(doc, root, "binaryData", jmut_null(doc));
	/* Whoever owned the contents doesn't take ours along when it goes. */
	jmut_set(doc, jmut_get(root, "metadata"), "ownerReferences", jmut_null(doc));
}
