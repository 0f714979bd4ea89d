/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object store: entries hold the owner's projection, found by key, UID or index value.
 * Owns its watch and its entries; items are made and freed by the owner's functions. Uses core/.
 */
#include "kube/store.h"

#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/map.h"
#include "kube/object.h"

struct bucket { /* one value of one index */
	struct list members;
	size_t n;
	char value[];
};

struct slot { /* an entry's place in one index */
	struct list link;
	struct bucket *bucket; /* NULL: not in this index */
	struct entry *entry;
};

struct entry {
	struct list link;
	void *item;
	uint64_t noted;   /* taken from a response, in this round; 0: the watch knows it */
	char version[24]; /* "" when it doesn't fit: then nothing counts as older */
	uint16_t key_len, uid_len;
	char *text; /* key, NUL, uid, NUL; behind the slots, in the same allocation */
	struct slot slots[];
};

struct kube_store {
	struct kube_store_ops ops;
	void *arg;
	unsigned n_indexes;
	struct map *by_key, *by_uid;
	struct map *index[KUBE_STORE_MAX_INDEXES];
	struct list entries;
	uint64_t round; /* counts lists */
	struct kube_watch *watch;
	char *seen; /* the greatest version that the watch has told of; NULL: none */
};

struct kube_store *kube_store_new(const struct kube_store_ops *ops, void *arg)
{
	struct kube_store *s = xcalloc(1, sizeof(*s));
	s->ops = *ops;
	s->arg = arg;
	s->by_key = map_new();
	s->by_uid = map_new();
	while (s->n_indexes < KUBE_STORE_MAX_INDEXES && ops->index[s->n_indexes])
		s->index[s->n_indexes++] = map_new();
	list_init(&s->entries);
	return s;
}

static struct str key_of(const struct entry *e)
{
	return (struct str){e->text, e->key_len};
}

static struct str uid_of(const struct entry *e)
{
	return (struct str){e->text + e->key_len + 1, e->uid_len};
}

/* ---- indexes ---- */

static void index_remove(struct kube_store *s, struct entry *e, unsigned i)
{
	struct bucket *b = e->slots[i].bucket;
	if (!b)
		return;
	list_unlink(&e->slots[i].link);
	e->slots[i].bucket = NULL;
	if (--b->n == 0) {
		map_del(s->index[i], str_of(b->value));
		free(b);
	}
}

static void index_put(struct kube_store *s, struct entry *e, unsigned i)
{
	struct str value = s->ops.index[i](e->item);
	struct bucket *b = e->slots[i].bucket;
	if (b && str_eqz(value, b->value))
		return;
	index_remove(s, e, i);
	/* Values end at a NUL: no name, UID or label holds one. */
	if (value.len == 0 || memchr(value.p, '\0', value.len))
		return;
	b = map_get(s->index[i], value);
	if (!b) {
		b = xcalloc(1, sizeof(*b) + value.len + 1);
		list_init(&b->members);
		memcpy(b->value, value.p, value.len);
		map_put_borrowed(s->index[i], str_of(b->value), b);
	}
	e->slots[i].bucket = b;
	e->slots[i].entry = e;
	list_append(&b->members, &e->slots[i].link);
	b->n++;
}

/* ---- entries ---- */

static struct entry *entry_new(struct kube_store *s, struct str key, struct str uid)
{
	size_t head = sizeof(struct entry) + s->n_indexes * sizeof(struct slot);
	struct entry *e = xcalloc(1, head + key.len + uid.len + 2);
	e->text = (char *)e + head;
	e->key_len = (uint16_t)key.len;
	e->uid_len = (uint16_t)uid.len;
	memcpy(e->text, key.p, key.len);
	if (uid.len > 0)
		memcpy(e->text + key.len + 1, uid.p, uid.len);
	for (unsigned i = 0; i < s->n_indexes; i++)
		list_init(&e->slots[i].link);
	list_append(&s->entries, &e->link);
	map_put_borrowed(s->by_key, key_of(e), e);
	if (uid.len > 0)
		map_put_borrowed(s->by_uid, uid_of(e), e);
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
	map_del(s->by_key, key_of(e));
	if (e->uid_len > 0 && map_get(s->by_uid, uid_of(e)) == e)
		map_del(s->by_uid, uid_of(e));
	if (s->ops.on_change)
		s->ops.on_change(s->arg, key_of(e), e->item, NULL);
	entry_free(s, e);
}

static void set_version(struct entry *e, struct str version)
{
	size_t len = version.len < sizeof(e->version) ? version.len : 0;
	if (len > 0)
		memcpy(e->version, version.p, len);
	e->version[len] = '\0';
}

static void entry_set(struct kube_store *s, struct entry *e, void *item)
{
	void *old = e->item;
	e->item = item;
	for (unsigned i = 0; i < s->n_indexes; i++)
		index_put(s, e, i);
	bool same = old && s->ops.same && s->ops.same(s->arg, old, item);
	if (!same && s->ops.on_change)
		s->ops.on_change(s->arg, key_of(e), old, item);
	if (old)
		s->ops.free_item(s->arg, old);
}

struct news {
	const struct json *object;
	struct str key, uid, version;
	bool noted; /* from a response, not from the watch */
};

/* True where the store has the same or something newer of this object already. */
static bool is_old_news(const struct entry *e, const struct news *n)
{
	if (!e->version[0] || n->version.len == 0)
		return false;
	/* An object that came again under its old name has a greater version, too. */
	int order = kube_version_cmp(n->version, str_of(e->version));
	if (str_eq(uid_of(e), n->uid))
		return order <= 0;
	return e->noted != 0 && order < 0;
}

static void take(struct kube_store *s, const struct news *n)
{
	struct err err = ERR_INIT;
	struct entry *e = map_get(s->by_key, n->key);
	void *item = NULL;

	if (n->key.len == 0 || n->key.len > UINT16_MAX || n->uid.len > UINT16_MAX)
		return;
	if (e && is_old_news(e, n)) {
		if (!n->noted && str_eq(uid_of(e), n->uid))
			e->noted = 0;
		return;
	}
	/* The watch is past it and doesn't have it: it's gone already. */
	if (!e && n->noted && s->seen && kube_version_cmp(n->version, str_of(s->seen)) <= 0)
		return;
	if (e && !str_eq(uid_of(e), n->uid)) {
		entry_drop(s, e);
		e = NULL;
	}
	if (s->ops.project(s->arg, n->object, &item, &err) < 0) {
		if (s->ops.on_bad)
			s->ops.on_bad(s->arg, n->key, n->uid, &err);
		return;
	}
	if (!e)
		e = entry_new(s, n->key, n->uid);
	set_version(e, n->version);
	e->noted = n->noted ? s->round + 1 : 0;
	entry_set(s, e, item);
}

/* ---- what feeds it ---- */

void kube_store_event(struct kube_store *s, const struct kube_watch_event *ev)
{
	if (ev->version.len > 0 &&
	    (!s->seen || kube_version_cmp(ev->version, str_of(s->seen)) > 0)) {
		free(s->seen);
		s->seen = str_dup(ev->version);
	}
	if (ev->type == KUBE_DELETED) {
		struct entry *e = map_get(s->by_key, ev->key);
		if (e && (ev->uid.len == 0 || str_eq(uid_of(e), ev->uid)))
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

void kube_store_relist(struct kube_store *s, bool done)
{
	if (!done) {
		s->round++;
		return;
	}
	/* Noted before this list began, and not in it: it came and went. */
	LIST_FOREACH(pos, tmp, &s->entries) {
		struct entry *e = CONTAINER_OF(pos, struct entry, link);
		if (e->noted != 0 && e->noted <= s->round)
			entry_drop(s, e);
	}
}

static void on_watch_event(void *arg, const struct kube_watch_event *ev)
{
	kube_store_event(arg, ev);
}

static void on_watch_relist(void *arg, bool done)
{
	kube_store_relist(arg, done);
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
	struct kube_store *s = arg;
	char key[KUBE_KEY_SIZE];
	if (s->ops.on_bad)
		s->ops.on_bad(s->arg, kube_key(ns, name, key), STR_NULL, err);
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
	if (!s->watch)
		s->watch = kube_watch_start(client, opts, &ops, s, NULL);
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
			free(it.value);
		map_free(s->index[i]);
	}
	LIST_FOREACH(pos, tmp, &s->entries)
		entry_free(s, CONTAINER_OF(pos, struct entry, link));
	map_free(s->by_key);
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
	const struct entry *e = map_get(s->by_uid, uid);
	return e ? e->item : NULL;
}

/* An iterator's private words: the list's head, the next member, whether members are slots. */
struct kube_store_iter kube_store_iter(const struct kube_store *s)
{
	const struct list *head = &s->entries;
	return (struct kube_store_iter){.store = s, .head_ = head, .next_ = head->next};
}

struct kube_store_iter kube_store_iter_index(const struct kube_store *s, unsigned index,
					     struct str value)
{
	struct kube_store_iter it = {.store = s, .in_index_ = true};
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
		e = CONTAINER_OF(pos, struct slot, link)->entry;
	else
		e = CONTAINER_OF(pos, struct entry, link);
	it->next_ = pos->next;
	it->key = key_of(e);
	it->uid = uid_of(e);
	it->item = e->item;
	return true;
}
