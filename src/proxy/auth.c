/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens are kept as their SHA-256 only. What the API server said of one counts for some seconds, a
 * refusal for fewer; as many are remembered as are used in that time, up to a limit, beyond which
 * the oldest go.
 */
#include "proxy/auth.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/map.h"
#include "core/str.h"

#define GOOD_MS     10000
#define BAD_MS      2000
#define MAX_KNOWN   1024
#define MAX_REVIEWS 32
#define KEY_SIZE    65
#define ACCOUNT     "system:serviceaccount:"

/* A token, from the first who brings it until it's forgotten. */
struct known {
	struct proxy_auth *a;
	struct list link; /* in the order of their reviews' ends, or beginnings while they run */
	char key[KEY_SIZE];
	bool reviewed;
	struct err err; /* kind ERR_NONE: good */
	struct proxy_caller caller;
	int64_t until_ms;
	struct list waiting; /* of struct asking */
	struct loop_work tell;
	struct scope review;
};

struct asking {
	struct op op;
	struct list link;
	struct loop *loop;
	proxy_auth_fn *cb;
	void *arg;
};

struct proxy_auth {
	struct loop *loop;
	char *accounts;
	proxy_review_fn *review;
	void *review_arg;
	struct map *by_key;
	struct list known;
	unsigned n_reviews;
};

void proxy_caller_done(struct proxy_caller *c)
{
	free(c->account);
	free(c->ns);
	free(c->pod_name);
	free(c->pod_uid);
	*c = (struct proxy_caller){0};
}

/* ---- what is remembered ---- */

static void known_free(void *p)
{
	struct known *k = p;

	proxy_caller_done(&k->caller);
	free(k);
}

static void forget(struct known *k)
{
	struct proxy_auth *a = k->a;

	if (!k->reviewed)
		a->n_reviews--;
	scope_cancel(&k->review);
	loop_work_cancel(&k->tell);
	list_unlink(&k->link);
	map_del(a->by_key, str_of(k->key));
	loop_reap(a->loop, k, known_free);
}

/* Those at the front that are out of date, and as many as are too many, but none that somebody
 * waits for. */
static void make_room(struct proxy_auth *a)
{
	int64_t now_ms = clock_mono_ms();

	LIST_FOREACH(pos, tmp, &a->known) {
		struct known *k = CONTAINER_OF(pos, struct known, link);

		if (map_len(a->by_key) < MAX_KNOWN && (!k->reviewed || k->until_ms > now_ms))
			return;
		if (k->reviewed && list_empty(&k->waiting))
			forget(k);
	}
}

static void tell(struct loop_work *work, void *arg)
{
	struct known *k = arg;
	struct list now = LIST_INIT(now);

	(void)work;
	/* A callback may bring the token again; that's the next turn's. */
	LIST_FOREACH(pos, tmp, &k->waiting) {
		list_unlink(pos);
		list_append(&now, pos);
	}
	while (!list_empty(&now)) {
		struct asking *w = CONTAINER_OF(now.next, struct asking, link);

		list_unlink(&w->link);
		if (!op_end(&w->op))
			continue;
		w->cb(w->arg, k->err.kind ? &k->err : NULL, k->err.kind ? NULL : &k->caller);
		loop_reap(w->loop, w, free);
	}
	/* Of a review that failed nothing is known. */
	if (k->err.kind != ERR_NONE && k->err.kind != ERR_DENIED && list_empty(&k->waiting))
		forget(k);
}

static bool is_listed(struct str list, const char *account)
{
	struct str item;

	while (list.len) {
		str_cut(list, ',', &item, &list);
		if (str_eqz(str_trim(item), account))
			return true;
	}
	return false;
}

static void take_caller(struct known *k, const struct proxy_token *token)
{
	struct str rest = str_of(token->account), ns;

	k->caller = (struct proxy_caller){
		.account = xstrdup(token->account),
		.pod_name = xstrdup(token->pod_name),
		.pod_uid = xstrdup(token->pod_uid),
		.trusted = is_listed(str_of(k->a->accounts), token->account),
	};
	if (str_has_prefix(rest, STR(ACCOUNT))) {
		rest.p += strlen(ACCOUNT);
		rest.len -= strlen(ACCOUNT);
		str_cut(rest, ':', &ns, &rest);
		k->caller.ns = str_dup(ns);
	}
}

static void on_reviewed(void *arg, const struct err *err, const struct proxy_token *token)
{
	struct known *k = arg;

	k->reviewed = true;
	k->a->n_reviews--;
	if (err)
		k->err = *err;
	else
		take_caller(k, token);
	k->until_ms = clock_mono_ms() + (err ? BAD_MS : GOOD_MS);
	list_unlink(&k->link);
	list_append(&k->a->known, &k->link);
	loop_work_post(&k->tell);
}

static struct known *known_new(struct proxy_auth *a, const char *key)
{
	struct known *k = xcalloc(1, sizeof(*k));

	k->a = a;
	memcpy(k->key, key, KEY_SIZE);
	list_init(&k->waiting);
	list_init(&k->link);
	scope_init(&k->review);
	loop_work_init(&k->tell, a->loop, tell, k);
	map_put(a->by_key, str_of(key), k);
	list_append(&a->known, &k->link);
	return k;
}

static struct known *need_known(struct proxy_auth *a, struct str token)
{
	uint8_t digest[32];
	char key[KEY_SIZE];
	struct known *k;

	hash_sha256(&token, 1, digest);
	hex_encode(digest, sizeof(digest), key);
	k = map_get(a->by_key, str_of(key));
	if (k && k->reviewed && k->until_ms <= clock_mono_ms() && list_empty(&k->waiting)) {
		forget(k);
		k = NULL;
	}
	if (k)
		return k;
	make_room(a);
	k = known_new(a, key);
	if (a->n_reviews < MAX_REVIEWS) {
		a->n_reviews++;
		a->review(a->review_arg, token, on_reviewed, k, &k->review);
	} else {
		k->reviewed = true;
		err_set(&k->err, ERR_BUSY, 0, "too many new tokens are being looked at: ask again");
		k->err.retry_after_ms = 1000;
	}
	return k;
}

/* ---- the interface ---- */

struct proxy_auth *proxy_auth_new(struct loop *loop, const char *accounts, proxy_review_fn *review,
				  void *review_arg)
{
	struct proxy_auth *a = xcalloc(1, sizeof(*a));

	a->loop = loop;
	a->accounts = xstrdup(accounts ? accounts : "");
	a->review = review;
	a->review_arg = review_arg;
	a->by_key = map_new();
	list_init(&a->known);
	return a;
}

void proxy_auth_free(struct proxy_auth *a)
{
	if (!a)
		return;
	while (!list_empty(&a->known)) {
		struct known *k = CONTAINER_OF(a->known.next, struct known, link);

		while (!list_empty(&k->waiting))
			op_cancel(&CONTAINER_OF(k->waiting.next, struct asking, link)->op);
		forget(k);
	}
	map_free(a->by_key);
	free(a->accounts);
	free(a);
}

static void cancel_asking(struct op *op)
{
	struct asking *w = CONTAINER_OF(op, struct asking, op);

	list_unlink(&w->link);
	loop_reap(w->loop, w, free);
}

struct op *proxy_auth_start(struct proxy_auth *a, struct str token, proxy_auth_fn *cb, void *arg,
			    struct scope *scope)
{
	struct known *k = need_known(a, token);
	struct asking *w = xcalloc(1, sizeof(*w));

	w->loop = a->loop;
	w->cb = cb;
	w->arg = arg;
	op_begin(&w->op, scope, cancel_asking);
	list_append(&k->waiting, &w->link);
	if (k->reviewed)
		loop_work_post(&k->tell);
	return &w->op;
}

struct str proxy_bearer_token(struct str authorization)
{
	static const char others[] = "-._~+/=";
	struct str scheme, token;

	if (!str_cut(authorization, ' ', &scheme, &token) || !str_ieqz(scheme, "bearer"))
		return STR_NULL;
	token = str_trim(token);
	for (size_t i = 0; i < token.len; i++) {
		char c = token.p[i];
		bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9');

		if (!alnum && (c == '\0' || !strchr(others, c)))
			return STR_NULL;
	}
	return token.len ? token : STR_NULL;
}

bool proxy_caller_may(const struct proxy_caller *c, const char *owner_uid)
{
	return c->trusted || (c->ns && c->pod_uid && strcmp(c->pod_uid, owner_uid) == 0);
}

int proxy_caller_check_ask(const struct proxy_caller *c, const struct partition_ask *ask,
			   struct err *err)
{
	const struct partition_owner *o = &ask->owner;

	if (c->trusted)
		return 0;
	if (!proxy_caller_may(c, o->uid) || strcmp(o->kind, "Pod") != 0 ||
	    strcmp(o->ns, c->ns) != 0 || (c->pod_name && strcmp(o->name, c->pod_name) != 0))
		return err_set(err, ERR_DENIED, 0,
			       "%s may not ask for this owner: a Pod's own token may for its Pod "
			       "(kind Pod, its namespace, name and uid), an account of "
			       "proxy.controllerAccounts for any",
			       c->account);
	if (ask->instance != 0)
		return err_set(err, ERR_DENIED, 0, "a Pod has one partition: instance 0");
	if (ask->priority || ask->adopt || ask->legacy || ask->created_ms)
		return err_set(err, ERR_DENIED, 0,
			       "priority, adopt, legacy and created aren't a Pod's to say: leave "
			       "them out");
	return 0;
}
