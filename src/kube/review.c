/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reviews of tokens, shared and kept, and of access. The reviewer owns its entries; an entry is
 * also held by those who wait for it, so that its identity lives through their callbacks. Uses
 * core/, loop/, kube/client.h.
 */
#include "kube/review.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/map.h"
#include "client_priv.h"

#define KEY_SIZE     32
#define MAX_ANSWER   ((size_t)256 << 10)
#define EXTRA_PREFIX "authentication.kubernetes.io/"

struct kube_reviewer {
	struct kube_client *client;
	struct loop *loop;
	char **audiences; /* ended by NULL */
	unsigned cache_ms, max_entries, deadline_ms;
	struct map *by_key;
	struct list entries; /* the one used longest ago first */
	struct list waiters;
	struct scope scope;
};

/* The answer about one token, or the question while it is under way. */
struct entry {
	unsigned refs;
	struct kube_reviewer *reviewer; /* NULL: it isn't kept any more */
	struct list link;               /* in reviewer->entries */
	struct list waiters;            /* struct waiter */
	uint8_t key[KEY_SIZE];
	bool done;
	int64_t until_ms;
	struct err err; /* ERR_NONE: who it is */
	struct json_doc *doc;
	struct kube_identity who;
};

struct waiter {
	struct op op;
	struct list link, all; /* in the entry's, in the reviewer's */
	struct loop *loop;
	struct loop_work work; /* its callback, when the entry is done */
	struct entry *entry;   /* NULL: refused from the beginning, with err */
	struct err err;
	kube_review_token_fn *cb;
	void *arg;
};

/* ---- entries ---- */

static void entry_unref(struct entry *e)
{
	if (--e->refs > 0)
		return;
	json_doc_free(e->doc);
	kube_identity_done(&e->who);
	free(e);
}

static void forget(struct entry *e)
{
	if (!e->reviewer)
		return;
	map_del(e->reviewer->by_key, (struct str){(const char *)e->key, KEY_SIZE});
	list_unlink(&e->link);
	e->reviewer = NULL;
	entry_unref(e);
}

static struct entry *entry_new(struct kube_reviewer *r, const uint8_t key[KEY_SIZE])
{
	struct entry *e = xcalloc(1, sizeof(*e));

	e->refs = 1;
	e->reviewer = r;
	memcpy(e->key, key, KEY_SIZE);
	list_init(&e->waiters);
	list_append(&r->entries, &e->link);
	map_put(r->by_key, (struct str){(const char *)key, KEY_SIZE}, e);
	return e;
}

/* Room for one more: the first that isn't being asked about goes. */
static bool make_room(struct kube_reviewer *r)
{
	if (map_len(r->by_key) < r->max_entries)
		return true;
	LIST_FOREACH(pos, tmp, &r->entries) {
		struct entry *e = CONTAINER_OF(pos, struct entry, link);

		if (e->done) {
			forget(e);
			return true;
		}
	}
	return false;
}

static void wake(struct entry *e)
{
	LIST_FOREACH(pos, tmp, &e->waiters)
		loop_work_post(&CONTAINER_OF(pos, struct waiter, link)->work);
}

/* ---- the answer ---- */

static const char *text(const struct json *v)
{
	const char *z = json_cstr(v);

	return z ? z : "";
}

static const char *extra(const struct json *user, const char *key)
{
	return text(json_item(json_at(user, "extra", key, NULL), 0));
}

void kube_identity_init(struct kube_identity *who, const struct json *user)
{
	struct str account, ns, rest = json_str(json_get(user, "username"));

	*who = (struct kube_identity){
		.username = text(json_get(user, "username")),
		.uid = text(json_get(user, "uid")),
		.ns = "",
		.service_account = "",
		.pod_name = extra(user, EXTRA_PREFIX "pod-name"),
		.pod_uid = extra(user, EXTRA_PREFIX "pod-uid"),
		.node_name = extra(user, EXTRA_PREFIX "node-name"),
		.groups = json_get(user, "groups"),
		.extra = json_get(user, "extra"),
	};
	if (!str_has_prefix(rest, STR("system:serviceaccount:")))
		return;
	rest.p += strlen("system:serviceaccount:");
	rest.len -= strlen("system:serviceaccount:");
	if (!str_cut(rest, ':', &ns, &account) || !ns.len || !account.len)
		return;
	who->ns = who->own_ns = str_dup(ns);
	who->service_account = who->own_service_account = str_dup(account);
}

void kube_identity_done(struct kube_identity *who)
{
	free(who->own_ns);
	free(who->own_service_account);
}

static bool has_audience(const struct kube_reviewer *r, const struct json *audiences)
{
	for (char **a = r->audiences; *a; a++) {
		struct json_iter it = json_iter(audiences);

		while (json_next(&it)) {
			if (str_eqz(json_str(it.value), *a))
				return true;
		}
	}
	/* An API server that doesn't know audiences leaves them out: its word isn't enough
	 * (authentication.k8s.io/v1 TokenReviewSpec, audiences). */
	return !r->audiences[0];
}

static int judge(struct entry *e, const struct json *review, struct err *err)
{
	const struct json *status = json_get(review, "status");
	const char *why = text(json_get(status, "error"));

	if (json_type(status) != JSON_OBJECT)
		return err_set(err, ERR_PROTOCOL, 0, "the API server's TokenReview has no status");
	if (!json_bool(json_get(status, "authenticated"), false))
		return err_set(err, ERR_DENIED, 401, "the token isn't accepted%s%s",
			       why[0] ? ": " : "", why);
	if (!has_audience(e->reviewer, json_get(status, "audiences")))
		return err_set(err, ERR_DENIED, 401, "the token is for another audience");
	kube_identity_init(&e->who, json_get(status, "user"));
	if (!e->who.username[0])
		return err_set(err, ERR_DENIED, 401, "the token is nobody's");
	return 0;
}

/* Of a call that failed: that we aren't allowed to ask says nothing of who was asked about. */
static void not_known(struct err *err, const char *what)
{
	if (err->kind == ERR_DENIED || err->kind == ERR_INVALID || err->kind == ERR_NOT_FOUND)
		err->kind = ERR_UNAVAILABLE;
	err_wrap(err, "%s", what);
}

static void on_reviewed(void *arg, const struct err *err, const struct kube_response *response)
{
	struct entry *e = arg;
	struct kube_reviewer *r = e->reviewer;
	struct err why = ERR_INIT;

	e->done = true;
	if (err) {
		e->err = *err;
		not_known(&e->err, "the token couldn't be reviewed");
	} else if (kube_parse(&KUBE_TOKENREVIEWS, response->raw, &e->doc, &why) < 0) {
		e->err = why;
	} else if (judge(e, json_root(e->doc), &why) < 0) {
		e->err = why;
	}
	/* The answer says whose token it is, and says the token, too. */
	if (e->doc)
		json_blank(json_at(json_root(e->doc), "spec", "token", NULL));
	wake(e);
	if (e->err.kind == ERR_NONE)
		e->until_ms = clock_mono_ms() + r->cache_ms;
	else if (e->err.kind == ERR_DENIED)
		e->until_ms = clock_mono_ms() + KUBE_REVIEW_REFUSED_MS;
	else
		forget(e);
}

static void ask(struct entry *e, struct str token)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new_secret();
	struct kube_reviewer *r = e->reviewer;
	struct jmut *root = jmut_object(doc), *spec = jmut_object(doc), *list = jmut_array(doc);
	struct kube_request req = {
		.verb = KUBE_CREATE,
		.resource = &KUBE_TOKENREVIEWS,
		.json = root,
		.asks = true,
		.deadline_ms = r->deadline_ms,
		.max_response_bytes = MAX_ANSWER,
	};

	jmut_set_str(doc, root, "apiVersion", "authentication.k8s.io/v1");
	jmut_set_str(doc, root, "kind", "TokenReview");
	jmut_set(doc, spec, "token", jmut_str(doc, token));
	for (char **a = r->audiences; *a; a++)
		jmut_push(doc, list, jmut_strz(doc, *a));
	if (r->audiences[0])
		jmut_set(doc, spec, "audiences", list);
	jmut_set(doc, root, "spec", spec);
	kube_call_start(r->client, &req, on_reviewed, e, &r->scope);
}

/* ---- those who wait ---- */

static void waiter_free(void *p)
{
	struct waiter *w = p;

	if (w->entry)
		entry_unref(w->entry);
	free(w);
}

static void waiter_detach(struct waiter *w)
{
	list_unlink(&w->link);
	list_unlink(&w->all);
	loop_work_cancel(&w->work);
	loop_reap(w->loop, w, waiter_free);
}

static void on_waiter_cancel(struct op *op)
{
	waiter_detach(CONTAINER_OF(op, struct waiter, op));
}

static void on_waiter_work(struct loop_work *work, void *arg)
{
	struct waiter *w = arg;
	const struct err *err = w->entry ? &w->entry->err : &w->err;

	(void)work;
	if (!op_end(&w->op))
		return;
	waiter_detach(w);
	if (err->kind == ERR_NONE)
		w->cb(w->arg, NULL, &w->entry->who);
	else
		w->cb(w->arg, err, NULL);
}

static struct entry *find(struct kube_reviewer *r, struct str token, struct err *err)
{
	uint8_t key[KEY_SIZE];
	struct entry *e;

	if (token.len == 0 || token.len > KUBE_REVIEW_MAX_TOKEN) {
		err_set(err, ERR_DENIED, 401, token.len ? "the token is too long" : "no token");
		return NULL;
	}
	hash_sha256(&token, 1, key);
	e = map_get(r->by_key, (struct str){(const char *)key, KEY_SIZE});
	if (e && e->done && clock_mono_ms() >= e->until_ms) {
		forget(e);
		e = NULL;
	}
	if (e) {
		list_unlink(&e->link);
		list_append(&r->entries, &e->link);
		return e;
	}
	if (!make_room(r)) {
		err_set(err, ERR_BUSY, 0, "too many tokens are being reviewed");
		return NULL;
	}
	if (kube_client_silence_ms(r->client) >= r->deadline_ms) {
		err_set(err, ERR_UNAVAILABLE, 0,
			"the token couldn't be reviewed: no word from the API server");
		return NULL;
	}
	e = entry_new(r, key);
	ask(e, token);
	return e;
}

struct op *kube_review_token_start(struct kube_reviewer *r, struct str token,
				   kube_review_token_fn *cb, void *arg, struct scope *scope)
{
	struct waiter *w = xcalloc(1, sizeof(*w));

	w->loop = r->loop;
	w->cb = cb;
	w->arg = arg;
	list_init(&w->link);
	list_append(&r->waiters, &w->all);
	loop_work_init(&w->work, r->loop, on_waiter_work, w);
	op_begin(&w->op, scope, on_waiter_cancel);
	w->entry = find(r, token, &w->err);
	if (w->entry) {
		w->entry->refs++;
		list_append(&w->entry->waiters, &w->link);
	}
	if (!w->entry || w->entry->done)
		loop_work_post(&w->work);
	return &w->op;
}

/* ---- the reviewer ---- */

struct kube_reviewer *kube_reviewer_new(struct kube_client *client,
					const struct kube_reviewer_opts *opts)
{
	struct kube_reviewer *r = xcalloc(1, sizeof(*r));
	size_t n = 0;

	while (opts->audiences && opts->audiences[n])
		n++;
	r->client = client;
	r->loop = kube_client_loop(client);
	r->audiences = xcalloc(n + 1, sizeof(*r->audiences));
	for (size_t i = 0; i < n; i++)
		r->audiences[i] = xstrdup(opts->audiences[i]);
	r->cache_ms = opts->cache_ms ? opts->cache_ms : KUBE_REVIEW_CACHE_MS;
	r->max_entries = opts->max_entries ? opts->max_entries : KUBE_REVIEW_ENTRIES;
	r->deadline_ms = opts->deadline_ms ? opts->deadline_ms : KUBE_REVIEW_DEADLINE_MS;
	r->by_key = map_new();
	list_init(&r->entries);
	list_init(&r->waiters);
	scope_init(&r->scope);
	return r;
}

void kube_reviewer_free(struct kube_reviewer *r)
{
	if (!r)
		return;
	scope_cancel(&r->scope);
	LIST_FOREACH(pos, tmp, &r->waiters)
		op_cancel(&CONTAINER_OF(pos, struct waiter, all)->op);
	LIST_FOREACH(pos, tmp2, &r->entries)
		forget(CONTAINER_OF(pos, struct entry, link));
	map_free(r->by_key);
	for (char **a = r->audiences; *a; a++)
		free(*a);
	free(r->audiences);
	free(r);
}

size_t kube_reviewer_entries(const struct kube_reviewer *r)
{
	return map_len(r->by_key);
}

/* ---- access ---- */

struct access {
	struct op op;
	struct loop *loop;
	struct scope scope;
	kube_review_access_fn *cb;
	void *arg;
};

static void access_detach(struct access *a)
{
	scope_cancel(&a->scope);
	loop_reap(a->loop, a, free);
}

static void on_access_cancel(struct op *op)
{
	access_detach(CONTAINER_OF(op, struct access, op));
}

static void on_access(void *arg, const struct err *failure, const struct kube_response *response)
{
	struct access *a = arg;
	const struct json *status = response ? json_get(response->json, "status") : NULL;
	struct err err = ERR_INIT;

	if (!op_end(&a->op))
		return;
	access_detach(a);
	if (failure) {
		err = *failure;
		not_known(&err, "the access couldn't be reviewed");
	} else if (json_type(json_get(status, "allowed")) != JSON_BOOL) {
		err_set(&err, ERR_PROTOCOL, 0,
			"the API server's SubjectAccessReview has no status");
	} else if (!json_bool(json_get(status, "allowed"), false) ||
		   json_bool(json_get(status, "denied"), false)) {
		const char *reason = text(json_get(status, "reason"));
		const char *trouble = text(json_get(status, "evaluationError"));

		reason = reason[0] ? reason : trouble;
		err_set(&err, ERR_DENIED, 403, "not allowed%s%s", reason[0] ? ": " : "", reason);
	}
	a->cb(a->arg, err.kind == ERR_NONE ? NULL : &err);
}

static void put(struct jmut_doc *doc, struct jmut *obj, const char *key, const char *z)
{
	if (z && z[0])
		jmut_set_str(doc, obj, key, z);
}

static struct jmut *access_body(struct jmut_doc *doc, const struct kube_identity *who,
				const struct kube_access *access)
{
	struct jmut *root = jmut_object(doc), *spec = jmut_object(doc), *what = jmut_object(doc);
	bool by_path = access->path && access->path[0];

	jmut_set_str(doc, root, "apiVersion", "authorization.k8s.io/v1");
	jmut_set_str(doc, root, "kind", "SubjectAccessReview");
	put(doc, spec, "user", who->username);
	put(doc, spec, "uid", who->uid);
	jmut_set(doc, spec, "groups", jmut_copy(doc, who->groups));
	jmut_set(doc, spec, "extra", jmut_copy(doc, who->extra));
	put(doc, what, "verb", access->verb);
	if (by_path) {
		put(doc, what, "path", access->path);
	} else {
		put(doc, what, "namespace", access->ns);
		put(doc, what, "group", access->group);
		put(doc, what, "resource", access->resource);
		put(doc, what, "subresource", access->subresource);
		put(doc, what, "name", access->name);
	}
	jmut_set(doc, spec, by_path ? "nonResourceAttributes" : "resourceAttributes", what);
	jmut_set(doc, root, "spec", spec);
	return root;
}

struct op *kube_review_access_start(struct kube_client *client, const struct kube_identity *who,
				    const struct kube_access *access, unsigned deadline_ms,
				    kube_review_access_fn *cb, void *arg, struct scope *scope)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct access *a = xcalloc(1, sizeof(*a));
	struct kube_request req = {
		.verb = KUBE_CREATE,
		.resource = &KUBE_SUBJECTACCESSREVIEWS,
		.json = access_body(doc, who, access),
		.asks = true,
		.deadline_ms = deadline_ms ? deadline_ms : KUBE_REVIEW_DEADLINE_MS,
		.max_response_bytes = MAX_ANSWER,
	};

	a->loop = kube_client_loop(client);
	a->cb = cb;
	a->arg = arg;
	scope_init(&a->scope);
	op_begin(&a->op, scope, on_access_cancel);
	kube_call_start(client, &req, on_access, a, &a->scope);
	return &a->op;
}
