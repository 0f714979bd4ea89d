/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object store: entries hold the owner's projection, found by key, UID or index value. They are
 * all that is remembered of an object: the watch that feeds a store is bare.
 * Owns its watch and its entries; items are made and freed by the owner's functions. Uses core/.
 */
#include "kube/store.h"

#include <stdlib.h>
#include <string.h>

#include "core/intern.h"
#include "core/list.h"
#include "core/log.h"
#include "core/map.h"
#include "kube/object.h"

struct bucket { /* one value of one index */
	struct list members;
	const char *value; /* interned, as items mostly have it themselves */
};

struct slot { /* an entry's place in one index */
	struct list link;
	struct bucket *bucket; /* NULL: not in this index */
};

struct entry {
	struct list link;
	void *item;
	uint64_t version; /* as a number; of one that isn't, or doesn't fit, a hash */
	uint32_t seen;    /* the list that it was in, or came after, when it was told of last */
	uint16_t key_len;
	uint8_t uid_len;
	bool numbered : 1;   /* version can be compared, and not only told from others */
	bool noted : 1;      /* it's from a response, and the watch hasn't told of it yet */
	struct slot slots[]; /* as many as there are indexes; behind them key and UID */
};

struct kube_store {
	struct kube_store_ops ops;
	void *arg;
	unsigned n_indexes;
	struct map *by_key, *by_uid;
	struct map *index[KUBE_STORE_MAX_INDEXES];
	struct list entries;
	uint32_t round; /* counts lists */
	bool unsure;    /* something was in this list that couldn't be named */
	struct kube_watch *watch;
	char *seen; /* the last list's version, or the greatest that the watch has told of since;
		     * NULL: none */
};

struct kube_store *kube_store_new(const struct kube_store_ops *ops, void *arg)
{
	struct kube_store *s = xcalloc(1, sizeof(*s));
	s->ops = *ops;
	s->arg = arg;
	s->by_key = map_new();
	s->by_uid = ops->by_uid ? map_new() : NULL;
	while (s->n_indexes < KUBE_STORE_MAX_INDEXES && ops->index[s->n_indexes])
		s->index[s->n_indexes++] = map_new();
	list_init(&s->entries);
	return s;
}

static struct str key_of(const struct kube_store *s, const struct entry *e)
{
	return (struct str){(const char *)(e->slots + s->n_indexes), e->key_len};
}

static struct str uid_of(const struct kube_store *s, const struct entry *e)
{
	return (struct str){(const char *)(e->slots + s->n_indexes) + e->key_len, e->uid_len};
}

/* ---- versions ---- */

/* True: its value; else what tells it from others. */
static bool number_of(struct str version, uint64_t *ret)
{
	bool is_number = version.len > 0;
	uint64_t n = 0;

	for (size_t i = 0; is_number && i < version.len; i++) {
		char c = version.p[i];

		is_number = c >= '0' && c <= '9' && !__builtin_mul_overflow(n, 10, &n) &&
			    !__builtin_add_overflow(n, (uint64_t)(c - '0'), &n);
	}
	*ret = is_number ? n : hash_fnv(HASH_FNV, version);
	return is_number;
}

/* As kube_version_cmp: below 0 where the version is older than the entry's. */
static int order_of(const struct entry *e, struct str version)
{
	uint64_t n;
	bool is_number = number_of(version, &n);

	if (n == e->version && is_number == e->numbered)
		return 0;
	return is_number && e->numbered && n < e->version ? -1 : 1;
}

/* ---- indexes ---- */

static void bucket_free(struct bucket *b)
{
	intern_drop(b->value);
	free(b);
}

static void index_remove(struct kube_store *s, struct entry *e, unsigned i)
{
	struct bucket *b = e->slots[i].bucket;
	if (!b)
		return;
	list_unlink(&e->slots[i].link);
	e->slots[i].bucket = NULL;
	if (list_empty(&b->members)) {
		map_del(s->index[i], intern_str(b->value));
		bucket_free(b);
	}
}

static void index_put(struct kube_store *s, struct entry *e, unsigned i)
{
	struct str value = s->ops.index[i](e->item);
	struct bucket *b = e->slots[i].bucket;
	if (b && str_eq(value, intern_str(b->value)))
		return;
	index_remove(s, e, i);
	if (value.len == 0)
		return;
	b = map_get(s->index[i], value);
	if (!b) {
		b = xcalloc(1, sizeof(*b));
		list_init(&b->members);
		b->value = intern(value);
		map_put_borrowed(s->index[i], intern_str(b->value), b);
	}
	e->slots[i].bucket = b;
	list_append(&b->members, &e->slots[i].link);
}

/* ---- entries ---- */

static struct entry *entry_new(struct kube_store *s, struct str key, struct str uid)
{
	size_t head = sizeof(struct entry) + s->n_indexes * sizeof(struct slot);
	struct entry *e = xcalloc(1, head + key.len + uid.len);
	e->key_len = (uint16_t)key.len;
	e->uid_len = (uint8_t)uid.len;
	memcpy((char *)e + head, key.p, key.len);
	if (uid.len > 0)
		memcpy((char *)e + head + key.len, uid.p, uid.len);
	for (unsigned i = 0; i < s->n_indexes; i++)
		list_init(&e->slots[i].link);
	list_append(&s->entries, &e->link);
	map_put_borrowed(s->by_key, key_of(s, e), e);
	if (s->by_uid && uid.len > 0)
		map_put_borrowed(s->by_uid, uid_of(s, e), e);
	return e;
}

static void entry_free(struct kube_store *s, struct entry *e)
{
	s->ops.free_item(s->arg, e->item);
	free(e);
}

static void entry_drop(struct kube_store *s, struct entry *e)
{
	for (unsigned i = 0; i < s->n_indexes; i++)
		index_remove(s, e, i);
	list_unlink(&e->link);
	map_del(s->by_key, key_of(s, e));
	if (s->by_uid && e->uid_len > 0 && map_get(s->by_uid, uid_of(s, e)) == e)
		map_del(s->by_uid, uid_of(s, e));
	if (s->ops.on_change)
		s->ops.on_change(s->arg, key_of(s, e), e->item, NULL);
	entry_free(s, e);
}

static void entry_set(struct kube_store *s, struct entry *e, void *item)
{
	void *old = e->item;
	e->item = item;
	for (unsigned i = 0; i < s->n_indexes; i++)
		index_put(s, e, i);
	bool same = old && s->ops.same && s->ops.same(s->arg, old, item);
	if (!same && s->ops.on_change)
		s->ops.on_change(s->arg, key_of(s, e), old, item);
	if (old)
		s->ops.free_item(s->arg, old);
}

static void say_bad(const struct kube_store *s, struct str key, const struct err *err)
{
	CLEANUP_FREE char *object = str_dup(key);

	log_error(s->ops.component, object[0] ? object : NULL,
		  "can't be read, and what was known of it stays: %s", err->msg);
}

struct news {
	const struct json *object;
	struct str key, uid, version;
	bool noted; /* from a response, not from the watch */
};

/* True where the store has the same or something newer of this object already. */
static bool is_old_news(const struct kube_store *s, const struct entry *e, const struct news *n)
{
	if (n->version.len == 0)
		return false;
	int order = order_of(e, n->version);
	/* What the watch itself brings gets only younger, unless the server was set back to an
	 * older state (etcd restored from a copy). */
	if (str_eq(uid_of(s, e), n->uid))
		return order == 0 || (order < 0 && (n->noted || e->noted));
	/* An object that came again under its old name has a greater version, too. */
	return e->noted && order < 0;
}

static void take(struct kube_store *s, const struct news *n)
{
	struct err err = ERR_INIT;
	struct entry *e = map_get(s->by_key, n->key);
	bool is_it = e && str_eq(uid_of(s, e), n->uid);
	void *item = NULL;

	if (n->key.len == 0 || n->key.len > UINT16_MAX || n->uid.len > UINT8_MAX)
		return;
	if (is_it)
		e->seen = s->round;
	if (e && is_old_news(s, e, n)) {
		if (!n->noted && is_it && order_of(e, n->version) == 0)
			e->noted = false;
		return;
	}
	/* The watch is past it and has none of that name, or another one by now: it's gone already.
	 */
	if (!is_it && n->noted && s->seen && kube_version_cmp(n->version, str_of(s->seen)) <= 0)
		return;
	if (e && !is_it) {
		entry_drop(s, e);
		e = NULL;
	}
	if (s->ops.project(s->arg, n->object, &item, &err) < 0) {
		say_bad(s, n->key, &err);
		if (!n->noted && s->watch && err_is_no_memory(&err))
			kube_watch_missed(s->watch);
		return;
	}
	if (!e)
		e = entry_new(s, n->key, n->uid);
	e->numbered = number_of(n->version, &e->version);
	e->noted = n->noted;
	e->seen = s->round;
	entry_set(s, e, item);
}

/* ---- what feeds it ---- */

static void set_seen(struct kube_store *s, struct str version)
{
	free(s->seen);
	s->seen = str_dup(version);
}

void kube_store_event(struct kube_store *s, const struct kube_watch_event *ev)
{
	if (ev->version.len > 0 && (!s->seen || kube_version_cmp(ev->version, str_of(s->seen)) > 0))
		set_seen(s, ev->version);
	if (ev->type == KUBE_DELETED) {
		struct entry *e = map_get(s->by_key, ev->key);
		if (e && (ev->uid.len == 0 || str_eq(uid_of(s, e), ev->uid)))
			entry_drop(s, e);
		return;
	}
	const struct news n = {
		.object = ev->object, .key = ev->key, .uid = ev->uid, .version = ev->version};
	take(s, &n);
}

void kube_store_note(struct kube_store *s, const struct json *object)
{
	char key[KUBE_KEY_SIZE];
	const struct news n = {
		.object = object,
		.key = kube_object_key(object, key),
		.uid = kube_uid(object),
		.version = kube_version(object),
		.noted = true,
	};
	take(s, &n);
}

/* It was told of by a response alone, is no younger than the list, and wasn't in it. */
static bool has_ended(const struct entry *e, struct str version)
{
	uint64_t n;

	return e->noted && e->numbered && number_of(version, &n) && e->version <= n;
}

void kube_store_relist(struct kube_store *s, bool done, struct str version)
{
	if (!done) {
		s->round++;
		s->unsure = false;
		return;
	}
	if (version.len > 0)
		set_seen(s, version); /* also a smaller one */
	/* What couldn't be named may be any of them: better one list late than a false end. */
	LIST_FOREACH(pos, tmp, &s->entries) {
		struct entry *e = CONTAINER_OF(pos, struct entry, link);
		if (!s->unsure && (e->seen != s->round || has_ended(e, version)))
			entry_drop(s, e);
	}
}

void kube_store_bad(struct kube_store *s, struct str ns, struct str name, const struct err *err)
{
	char z[KUBE_KEY_SIZE];
	struct str key = kube_key(ns, name, z);
	struct entry *e = map_get(s->by_key, key);

	/* It can't be read, but it's there. */
	if (key.len == 0)
		s->unsure = true;
	else if (e)
		e->seen = s->round;
	say_bad(s, key, err);
}

static void on_watch_event(void *arg, const struct kube_watch_event *ev)
{
	kube_store_event(arg, ev);
}

static void on_watch_relist(void *arg, bool done, struct str version)
{
	kube_store_relist(arg, done, version);
}

static void on_watch_synced(void *arg)
{
	struct kube_store *s = arg;
	if (s->ops.on_synced)
		s->ops.on_synced(s->arg);
}

static void on_watch_state(void *arg)
{
	struct kube_store *s = arg;
	if (s->ops.on_state)
		s->ops.on_state(s->arg);
}

static void on_watch_bad(void *arg, struct str ns, struct str name, const struct err *err)
{
	kube_store_bad(arg, ns, name, err);
}

void kube_store_watch(struct kube_store *s, struct kube_client *client,
		      const struct kube_watch_opts *opts)
{
	static const struct kube_watch_ops ops = {
		.on_event = on_watch_event,
		.on_synced = on_watch_synced,
		.on_relist = on_watch_relist,
		.on_bad = on_watch_bad,
		.on_state = on_watch_state,
	};
	struct kube_watch_opts bare = *opts;
	bare.bare = true;
	if (!s->watch)
		s->watch = kube_watch_start(client, &bare, &ops, s, NULL);
}

const struct kube_watch *kube_store_get_watch(const struct kube_store *s)
{
	return s->watch;
}

bool kube_store_is_synced(const struct kube_store *s)
{
	struct kube_watch_status st;
	if (!s->watch)
		return false;
	kube_watch_status(s->watch, &st);
	return st.synced;
}

int kube_store_check_synced(const struct kube_store *s, const char *what, struct err *err)
{
	struct kube_watch_status st = {0};
	if (s->watch)
		kube_watch_status(s->watch, &st);
	if (st.synced)
		return 0;
	return err_set(err, ERR_UNAVAILABLE, 0, "%s haven't been read yet%s%s", what,
		       st.err.kind ? ": " : "", st.err.kind ? st.err.msg : "");
}

void kube_store_free(struct kube_store *s)
{
	if (!s)
		return;
	kube_watch_cancel(s->watch);
	for (unsigned i = 0; i < s->n_indexes; i++) {
		struct map_iter it = MAP_ITER(s->index[i]);
		while (map_next(&it))
			bucket_free(it.value);
		map_free(s->index[i]);
	}
	LIST_FOREACH(pos, tmp, &s->entries)
		entry_free(s, CONTAINER_OF(pos, struct entry, link));
	map_free(s->by_key);
	if (s->by_uid)
		map_free(s->by_uid);
	free(s->seen);
	free(s);
}

/* ---- looking things up ---- */

size_t kube_store_len(const struct kube_store *s)
{
	return map_len(s->by_key);
}

void *kube_store_get(const struct kube_store *s, struct str key)
{
	const struct entry *e = map_get(s->by_key, key);
	return e ? e->item : NULL;
}

void *kube_store_by_uid(const struct kube_store *s, struct str uid)
{
	const struct entry *e = s->by_uid ? map_get(s->by_uid, uid) : NULL;
	return e ? e->item : NULL;
}

static const struct entry *entry_of(const struct slot *slot, unsigned index)
{
	return (const void *)((const char *)(slot - index) - offsetof(struct entry, slots));
}

/* An iterator's private words: the list's head, the next member, whether members are slots, and of
 * which index. */
struct kube_store_iter kube_store_iter(const struct kube_store *s)
{
	const struct list *head = &s->entries;
	return (struct kube_store_iter){.store = s, .head_ = head, .next_ = head->next};
}

struct kube_store_iter kube_store_iter_index(const struct kube_store *s, unsigned index,
					     struct str value)
{
	struct kube_store_iter it = {.store = s, .in_index_ = true, .index_ = index};
	const struct bucket *b = index < s->n_indexes ? map_get(s->index[index], value) : NULL;
	if (b) {
		it.head_ = &b->members;
		it.next_ = b->members.next;
	}
	return it;
}

bool kube_store_next(struct kube_store_iter *it)
{
	const struct entry *e;
	if (it->next_ == it->head_)
		return false;
	struct list *pos = it->next_;
	if (it->in_index_)
		e = entry_of(CONTAINER_OF(pos, struct slot, link), it->index_);
	else
		e = CONTAINER_OF(pos, struct entry, link);
	it->next_ = pos->next;
	it->key = key_of(it->store, e);
	it->uid = uid_of(it->store, e);
	it->item = e->item;
	return true;
}
