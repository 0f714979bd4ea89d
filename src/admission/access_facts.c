/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts by the hash of their question, each with those who wait for it. The table owns them; a
 * waiter points at its fact until it's answered. Uses kube/.
 */
#include "access_facts.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/map.h"
#include "core/str.h"
#include "kube/object.h"

#define KEY_SIZE   32
#define MAX_ASKER  ((size_t)1 << 20) /* groups and extra: what a review's body can hold */
#define MAX_ANSWER ((size_t)1 << 20)

struct access_facts {
	struct kube_client *client;
	struct map *by_key;
	struct list all; /* the one used longest ago first */
};

struct access_fact {
	struct access_facts *facts;
	struct list link;    /* in facts->all */
	struct list waiters; /* struct access_wait */
	uint8_t key[KEY_SIZE];
	bool done;
	int64_t until_ms;
	struct err err;
	enum admission_level enforce, warn;
	struct scope scope; /* the call */
};

static struct str key_of(const struct access_fact *f)
{
	return (struct str){(const char *)f->key, KEY_SIZE};
}

/* ---- the table ---- */

static void forget(struct access_fact *f)
{
	map_del(f->facts->by_key, key_of(f));
	list_unlink(&f->link);
	scope_cancel(&f->scope);
	loop_reap(kube_client_loop(f->facts->client), f, free);
}

/* Room for one more: the first that isn't being asked about goes. */
static bool make_room(struct access_facts *facts)
{
	if (map_len(facts->by_key) < ACCESS_FACT_ENTRIES)
		return true;
	LIST_FOREACH(pos, tmp, &facts->all) {
		struct access_fact *f = CONTAINER_OF(pos, struct access_fact, link);

		if (f->done) {
			forget(f);
			return true;
		}
	}
	return false;
}

static void tell(const struct access_fact *f, struct access_wait *w)
{
	w->done = true;
	w->err = f->err;
	w->enforce = f->enforce;
	w->warn = f->warn;
	w->fact = NULL;
	loop_work_post(w->wake);
}

static void settle(struct access_fact *f)
{
	bool keep = f->err.kind == ERR_NONE || f->err.kind == ERR_DENIED;

	f->done = true;
	f->until_ms = clock_mono_ms() +
		      (f->err.kind == ERR_NONE ? ACCESS_FACT_MS : ACCESS_REFUSED_MS);
	LIST_FOREACH(pos, tmp, &f->waiters) {
		struct access_wait *w = CONTAINER_OF(pos, struct access_wait, link);

		list_unlink(&w->link);
		tell(f, w);
	}
	if (!keep)
		forget(f);
}

/* NULL: it's answered, or there's no room; or it is being asked by somebody else (*ret_new false).
 */
static struct access_fact *find(struct access_facts *facts, struct str question,
				struct access_wait *wait, bool *ret_new)
{
	uint8_t key[KEY_SIZE];
	struct access_fact *f;

	hash_sha256(&question, 1, key);
	f = map_get(facts->by_key, (struct str){(const char *)key, KEY_SIZE});
	if (f && f->done && clock_mono_ms() >= f->until_ms) {
		forget(f);
		f = NULL;
	}
	*ret_new = !f;
	if (!f && !make_room(facts)) {
		err_set(&wait->err, ERR_BUSY, 0, "too many questions are under way");
		wait->done = true;
		loop_work_post(wait->wake);
		return NULL;
	}
	if (!f) {
		f = xcalloc(1, sizeof(*f));
		f->facts = facts;
		memcpy(f->key, key, KEY_SIZE);
		list_init(&f->waiters);
		list_init(&f->link);
		scope_init(&f->scope);
		map_put(facts->by_key, key_of(f), f);
	}
	list_unlink(&f->link);
	list_append(&facts->all, &f->link);
	if (f->done) {
		tell(f, wait);
	} else {
		wait->fact = f;
		list_append(&f->waiters, &wait->link);
	}
	return f;
}

void access_wait_end(struct access_wait *w)
{
	struct access_fact *f = w->fact;

	if (!f)
		return;
	w->fact = NULL;
	list_unlink(&w->link);
	if (list_empty(&f->waiters))
		forget(f);
}

/* ---- rights ---- */

static void on_right(void *arg, const struct err *err)
{
	struct access_fact *f = arg;

	if (err)
		f->err = *err;
	settle(f);
}

static int add(struct buf *b, const char *z)
{
	return buf_printf(b, NULL, "%zu:%s", strlen(z), z);
}

static int add_json(struct buf *b, const struct json *v)
{
	return v ? json_write(v, JSON_COMPACT, b, NULL) : buf_append_str(b, STR("null"), NULL);
}

void access_ask_right(struct access_facts *facts, const struct kube_identity *who, const char *ns,
		      const char *subresource, struct access_wait *wait)
{
	struct buf q = BUF_INIT(MAX_ASKER);
	struct kube_access access = {
		.verb = "create", .ns = ns, .resource = "pods", .subresource = subresource};
	struct access_fact *f;
	bool is_new;

	list_init(&wait->link);
	if (add(&q, "right") < 0 || add(&q, who->username) < 0 || add(&q, who->uid) < 0 ||
	    add(&q, ns) < 0 || add(&q, subresource) < 0 || add_json(&q, who->groups) < 0 ||
	    add_json(&q, who->extra) < 0) {
		buf_done(&q);
		err_set(&wait->err, ERR_LIMIT, 0, "the requester has too many groups");
		wait->done = true;
		loop_work_post(wait->wake);
		return;
	}
	f = find(facts, buf_str(&q), wait, &is_new);
	buf_done(&q);
	if (f && is_new)
		kube_review_access_start(facts->client, who, &access, 0, on_right, f, &f->scope);
}

/* ---- levels ---- */

static void on_namespace(void *arg, const struct err *err, const struct kube_response *response)
{
	struct access_fact *f = arg;

	if (err) {
		f->err = *err;
		/* Kept are answers, and that we may not ask is none. */
		if (f->err.kind == ERR_DENIED)
			f->err.kind = ERR_UNAVAILABLE;
	} else {
		f->enforce = admission_level_of(
			kube_label(response->json, ADMISSION_LABEL_ENFORCE));
		f->warn = admission_level_of(kube_label(response->json, ADMISSION_LABEL_WARN));
	}
	settle(f);
}

void access_ask_levels(struct access_facts *facts, const char *ns, struct access_wait *wait)
{
	CLEANUP_FREE char *q = xasprintf("levels:%s", ns);
	struct kube_request req = {
		.verb = KUBE_GET,
		.resource = &KUBE_NAMESPACES,
		.name = ns,
		.deadline_ms = KUBE_REVIEW_DEADLINE_MS,
		.max_response_bytes = MAX_ANSWER,
	};
	struct access_fact *f;
	bool is_new;

	list_init(&wait->link);
	f = find(facts, str_of(q), wait, &is_new);
	if (f && is_new)
		kube_call_start(facts->client, &req, on_namespace, f, &f->scope);
}

/* ---- all ---- */

struct access_facts *access_facts_new(struct kube_client *client)
{
	struct access_facts *facts = xcalloc(1, sizeof(*facts));

	facts->client = client;
	facts->by_key = map_new();
	list_init(&facts->all);
	return facts;
}

void access_facts_free(struct access_facts *facts)
{
	if (!facts)
		return;
	LIST_FOREACH(pos, tmp, &facts->all)
		forget(CONTAINER_OF(pos, struct access_fact, link));
	map_free(facts->by_key);
	free(facts);
}
