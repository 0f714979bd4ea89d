/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that a watch has told of: about a hundred bytes each.
 * Owns its entries; pure. Uses core/.
 */
#include "known.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/map.h"

struct entry {
	struct list link; /* in the order in which they were seen last */
	uint32_t round;   /* the list that it was seen in */
	uint16_t key_len, uid_len, version_len;
	char text[]; /* key, uid, version */
};

struct kube_known {
	struct map *map;
	struct list entries; /* those not seen in this round stand in front */
	uint32_t round;
	char *key; /* what next_unseen returned */
};

struct kube_known *kube_known_new(void)
{
	struct kube_known *k = xcalloc(1, sizeof(*k));
	k->map = map_new();
	list_init(&k->entries);
	return k;
}

void kube_known_free(struct kube_known *k)
{
	if (!k)
		return;
	LIST_FOREACH(pos, tmp, &k->entries)
		free(CONTAINER_OF(pos, struct entry, link));
	map_free(k->map);
	free(k->key);
	free(k);
}

size_t kube_known_len(const struct kube_known *k)
{
	return map_len(k->map);
}

static struct str key_of(const struct entry *e)
{
	return (struct str){e->text, e->key_len};
}

static struct str uid_of(const struct entry *e)
{
	return (struct str){e->text + e->key_len, e->uid_len};
}

static struct str version_of(const struct entry *e)
{
	return (struct str){e->text + e->key_len + e->uid_len, e->version_len};
}

static void copy_cut(char *to, size_t size, struct str from)
{
	size_t len = from.len < size ? from.len : size - 1;
	if (len > 0)
		memcpy(to, from.p, len);
	to[len] = '\0';
}

static void tell_old(const struct entry *e, struct kube_known_old *ret)
{
	copy_cut(ret->uid, sizeof(ret->uid), uid_of(e));
	copy_cut(ret->version, sizeof(ret->version), version_of(e));
}

static void touch(struct kube_known *k, struct entry *e)
{
	e->round = k->round;
	list_unlink(&e->link);
	list_append(&k->entries, &e->link);
}

static void entry_free(struct entry *e)
{
	list_unlink(&e->link);
	free(e);
}

static void put(struct kube_known *k, struct str key, struct str uid, struct str version)
{
	struct entry *e = xcalloc(1, sizeof(*e) + key.len + uid.len + version.len);
	list_init(&e->link);
	e->key_len = (uint16_t)key.len;
	e->uid_len = (uint16_t)uid.len;
	e->version_len = (uint16_t)version.len;
	memcpy(e->text, key.p, key.len);
	memcpy(e->text + key.len, uid.p, uid.len);
	memcpy(e->text + key.len + uid.len, version.p, version.len);
	touch(k, e);
	map_put_borrowed(k->map, key_of(e), e);
}

enum kube_change kube_known_see(struct kube_known *k, struct str key, struct str uid,
				struct str version, struct kube_known_old *ret_old)
{
	struct entry *e = map_get(k->map, key);
	if (!e) {
		put(k, key, uid, version);
		return KUBE_CHANGE_ADDED;
	}
	bool same_uid = str_eq(uid_of(e), uid);
	if (same_uid && str_eq(version_of(e), version)) {
		touch(k, e);
		return KUBE_CHANGE_NONE;
	}
	if (same_uid && version.len == e->version_len) {
		memcpy(e->text + e->key_len + e->uid_len, version.p, version.len);
		touch(k, e);
		return KUBE_CHANGE_MODIFIED;
	}
	if (!same_uid)
		tell_old(e, ret_old);
	put(k, key, uid, version);
	entry_free(e);
	return same_uid ? KUBE_CHANGE_MODIFIED : KUBE_CHANGE_REPLACED;
}

bool kube_known_remove(struct kube_known *k, struct str key, struct str uid)
{
	struct entry *e = map_get(k->map, key);
	if (!e || !str_eq(uid_of(e), uid))
		return false;
	map_del(k->map, key);
	entry_free(e);
	return true;
}

void kube_known_begin_list(struct kube_known *k)
{
	k->round++;
}

void kube_known_mark(struct kube_known *k, struct str key)
{
	struct entry *e = map_get(k->map, key);
	if (e)
		touch(k, e);
}

bool kube_known_next_unseen(struct kube_known *k, struct str *ret_key,
			    struct kube_known_old *ret_old)
{
	if (list_empty(&k->entries))
		return false;
	struct entry *e = CONTAINER_OF(k->entries.next, struct entry, link);
	if (e->round == k->round)
		return false;
	free(k->key);
	k->key = str_dup(key_of(e));
	*ret_key = (struct str){k->key, e->key_len};
	tell_old(e, ret_old);
	map_del(k->map, key_of(e));
	entry_free(e);
	return true;
}
