/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest of what is held, and the Pods of partitions, as JSON for another process. Uses core.
 */
#include "proxy/held.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"

/* The newest first. Kubernetes' times are whole seconds, so that many are as old as each other:
 * these are told apart by what doesn't change from look to look. */
static int compare(const void *left, const void *right)
{
	const struct proxy_held *a = left, *b = right;

	if (a->since_ms != b->since_ms)
		return a->since_ms > b->since_ms ? -1 : 1;
	return strcmp(a->uid, b->uid);
}

/* A heap of the newest ones, the oldest of them at its top; what is at `at` may stand too high. */
static void sink(struct proxy_held *heap, size_t n, size_t at)
{
	struct proxy_held moved = heap[at];

	for (size_t below; (below = 2 * at + 1) < n; at = below) {
		if (below + 1 < n && compare(&heap[below + 1], &heap[below]) > 0)
			below++;
		if (compare(&heap[below], &moved) <= 0)
			break;
		heap[at] = heap[below];
	}
	heap[at] = moved;
}

void proxy_newest_take(struct proxy_newest *newest, const struct proxy_held *held)
{
	if (newest->n < PROXY_HELD_NEWEST) {
		newest->items[newest->n++] = *held;
		if (newest->n == PROXY_HELD_NEWEST)
			for (size_t at = PROXY_HELD_NEWEST / 2; at-- > 0;)
				sink(newest->items, PROXY_HELD_NEWEST, at);
		return;
	}
	newest->n++;
	if (compare(held, &newest->items[0]) > 0)
		return;
	newest->items[0] = *held;
	sink(newest->items, PROXY_HELD_NEWEST, 0);
}

size_t proxy_newest_len(const struct proxy_newest *newest)
{
	return newest->n < PROXY_HELD_NEWEST ? newest->n : PROXY_HELD_NEWEST;
}

/* A status's words may be long, and have lines. */
static void put_words(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z)
{
	static const char more[] = "…";
	char text[PROXY_HELD_WORDS];
	bool cut = strlen(z) > sizeof(text);
	size_t len = str_utf8_cut(str_of(z), sizeof(text) - (cut ? sizeof(more) - 1 : 0));

	memcpy(text, z, len);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			text[i] = ' ';
	if (cut)
		memcpy(text + len, more, sizeof(more) - 1);
	len += cut ? sizeof(more) - 1 : 0;
	jmut_set(doc, obj, key, jmut_str(doc, (struct str){text, len}));
}

static struct jmut *item_of(struct jmut_doc *doc, const struct proxy_held *h, bool names)
{
	struct jmut *item = jmut_object(doc), *owner = jmut_need_object(doc, item, "owner");
	char since[CLOCK_RFC3339_SIZE];

	jmut_set_str(doc, owner, "kind", h->kind);
	jmut_set_str(doc, owner, "namespace", h->ns);
	if (names)
		jmut_set_str(doc, owner, "name", h->name);
	jmut_set_str(doc, owner, "uid", h->uid);
	clock_format(h->since_ms, since);
	jmut_set_int(doc, item, "ipus", h->ipus);
	jmut_set_str(doc, item, "since", since);
	jmut_set_str(doc, item, "reason", h->reason);
	if (names)
		put_words(doc, item, "message", h->message);
	put_words(doc, item, "plain", h->plain);
	return item;
}

static int write_some(const struct proxy_newest *newest, size_t n, bool names, struct buf *out,
		      struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *items = jmut_need_array(doc, root, "items");

	jmut_set_int(doc, root, "held", (int64_t)newest->n);
	for (size_t i = 0; i < n; i++)
		jmut_push(doc, items, item_of(doc, &newest->items[i], names));
	buf_clear(out);
	return jmut_write(root, JSON_COMPACT, out, err);
}

int proxy_newest_write(struct proxy_newest *newest, bool names, size_t more, size_t max_bytes,
		       struct buf *out, struct err *err)
{
	size_t n = proxy_newest_len(newest);
	struct err why = ERR_INIT;

	newest->n += more;
	qsort(newest->items, n, sizeof(newest->items[0]), compare);
	while (write_some(newest, n, names, out, &why) < 0 || out->len > max_bytes) {
		if (err_is_no_memory(&why))
			return err_copy(err, &why);
		if (n == 0)
			break;
		n -= n / 4 + 1;
	}
	return 0;
}

/* ---- Pods ---- */

#define ITEM_BYTES 96 /* of a partition, and of a Pod: what isn't a name */
#define POD_BYTES  40

void proxy_pods_begin(struct proxy_pods *to, size_t max_bytes)
{
	*to = (struct proxy_pods){
		.doc = jmut_doc_new(), .bytes = ITEM_BYTES, .max_bytes = max_bytes};
	to->root = jmut_object(to->doc);
	to->items = jmut_need_array(to->doc, to->root, "items");
}

void proxy_pods_of(struct proxy_pods *to, const char *uid, uint32_t instance)
{
	to->pods = NULL;
	to->uid = uid;
	to->instance = instance;
}

/* Names of Kubernetes' have nothing in them that JSON would write otherwise. */
void proxy_pods_take(void *arg, const struct proxy_pod *pod)
{
	struct proxy_pods *to = arg;
	size_t bytes = strlen(pod->name) + strlen(pod->phase) + strlen(pod->node) + POD_BYTES +
		       (to->pods ? 0 : ITEM_BYTES + strlen(to->uid));
	struct jmut *item;

	if (to->bytes + bytes > to->max_bytes)
		return;
	to->bytes += bytes;
	if (!to->pods) {
		item = jmut_object(to->doc);
		jmut_push(to->doc, to->items, item);
		jmut_set_str(to->doc, item, "owner", to->uid);
		jmut_set_int(to->doc, item, "instance", to->instance);
		to->pods = jmut_need_array(to->doc, item, "pods");
	}
	item = jmut_object(to->doc);
	jmut_push(to->doc, to->pods, item);
	jmut_set_str(to->doc, item, "name", pod->name);
	jmut_set_str(to->doc, item, "phase", pod->phase);
	jmut_set_str(to->doc, item, "node", pod->node);
}

int proxy_pods_write(struct proxy_pods *to, struct buf *out, bool *ret_any, struct err *err)
{
	bool any = jmut_len(to->items) > 0;
	struct err why = ERR_INIT;
	int rc;

	buf_clear(out);
	rc = jmut_write(to->root, JSON_COMPACT, out, &why);
	if (out->len > to->max_bytes || (rc < 0 && !err_is_no_memory(&why))) {
		buf_clear(out);
		rc = buf_append_str(out, STR("{\"items\":[]}"), &why);
	}
	jmut_doc_free(to->doc);
	*to = (struct proxy_pods){0};
	if (rc < 0)
		return err_copy(err, &why);
	*ret_any = any;
	return 0;
}
