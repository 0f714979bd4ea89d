/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/map.h: against a naive model, a million keys in shuffled order, iteration and deletion.
 * Uses core.
 */
#include "core/map.h"

#include "core/list.h"
#include "core/rand.h"
#include "tap.h"

static void test_basics(void)
{
	struct map *m = map_new();
	int a, b;
	char key[] = "key";

	ok(map_len(m) == 0 && !map_get(m, STR("x")) && !map_del(m, STR("x")), "empty");
	ok(map_put(m, STR("key"), &a) == NULL, "put");
	ok(map_get(m, STR("key")) == &a, "get");
	ok(map_put(m, str_of(key), &b) == &a, "replace returns what was there");
	is_uint(map_len(m), 1, "length");
	ok(map_put(m, STR_NULL, &a) == NULL && map_get(m, STR("")) == &a, "the empty key");
	ok(map_put(m, STR("a\0b"), &a) == NULL && !map_get(m, STR("a")) &&
		   !map_get(m, STR("a\0c")) && map_get(m, STR("a\0b")) == &a,
	   "a key with a NUL");
	key[0] = 'X';
	ok(map_get(m, STR("key")) == &b, "keys are copied");
	ok(map_del(m, STR("key")) == &b && !map_get(m, STR("key")), "deleted");
	is_uint(map_len(m), 2, "length");
	map_free(m);
	map_free(NULL);
}

static void test_borrowed(void)
{
	struct map *m = map_new();
	char first[] = "key", second[] = "key";
	struct map_iter it;
	int a, b;

	ok(map_put_borrowed(m, str_of(first), &a) == NULL && map_get(m, STR("key")) == &a, "put");
	it = (struct map_iter)MAP_ITER(m);
	ok(map_next(&it) && it.key.p == first, "the key isn't copied");
	ok(map_put_borrowed(m, str_of(second), &b) == &a, "replaced, with its key");
	memset(first, 'X', 3); /* as if it were freed */
	ok(map_get(m, STR("key")) == &b, "the first key isn't looked at any more");
	ok(map_put(m, STR("key"), &a) == &b, "a value without a key of its own");
	memset(second, 'X', 3);
	ok(map_get(m, STR("key")) == &a, "has a copy of it");
	memcpy(second, "key", 3);
	ok(map_del(m, str_of(second)) == &a && map_len(m) == 0, "deleted");
	ok(map_put(m, STR("key"), &a) == NULL, "a copy");
	ok(map_put_borrowed(m, str_of(second), &b) == &a, "borrowed instead of it");
	it = (struct map_iter)MAP_ITER(m);
	ok(map_next(&it) && it.key.p == second, "the copy is gone");
	map_free(m);
}

/* Keys 0..KEYS-1; model[k] is the value. */
static void test_model(void)
{
	enum { KEYS = 200, STEPS = 200000 };
	static char values[1000];
	void *model[KEYS] = {0};
	size_t len = 0, wrong = 0;
	struct map *m = map_new();

	rand_seed(2);
	for (int i = 0; i < STEPS; i++) {
		char text[16];
		size_t k = (size_t)rand_below(KEYS);
		struct str key = {text, (size_t)snprintf(text, sizeof(text), "%zu", k)};
		/* Runs of more puts, then of more deletions, so that it grows and shrinks. */
		bool is_put = rand_below(10) < (i / 5000 % 2 ? 3u : 7u);
		if (is_put) {
			void *v = &values[rand_below(sizeof(values))];
			wrong += map_put(m, key, v) != model[k];
			len += !model[k];
			model[k] = v;
		} else {
			wrong += map_del(m, key) != model[k];
			len -= !!model[k];
			model[k] = NULL;
		}
		k = (size_t)rand_below(KEYS);
		key.len = (size_t)snprintf(text, sizeof(text), "%zu", k);
		wrong += map_get(m, key) != model[k];
		wrong += map_len(m) != len;
	}
	is_uint(wrong, 0, "%d random steps", STEPS);

	struct map_iter it = MAP_ITER(m);
	size_t seen = 0;
	while (map_next(&it)) {
		int64_t k;
		wrong += str_to_int(it.key, 0, KEYS - 1, &k, NULL) < 0 || model[k] != it.value;
		seen++;
	}
	is_uint(seen, len, "iteration sees all");
	is_uint(wrong, 0, "with their values");
	map_free(m);
}

static void test_delete_while_iterating(void)
{
	enum { KEYS = 1000 };
	static char mark[KEYS];

	for (unsigned every = 1; every <= 3; every++) {
		struct map *m = map_new();
		unsigned seen[KEYS] = {0}, wrong = 0, deleted = 0;
		for (int k = 0; k < KEYS; k++) {
			char text[16];
			map_put(m, (struct str){text, (size_t)snprintf(text, 16, "k%d", k)},
				&mark[k]);
		}
		struct map_iter it = MAP_ITER(m);
		while (map_next(&it)) {
			ptrdiff_t k = (char *)it.value - mark;
			seen[k]++;
			if ((unsigned)k % every == 0) {
				char text[16];
				memcpy(text, it.key.p, it.key.len);
				struct str key = {text, it.key.len};
				wrong += map_del(m, key) != it.value;
				deleted++;
			}
		}
		for (int k = 0; k < KEYS; k++)
			wrong += seen[k] != 1;
		is_uint(wrong, 0, "each is seen once when every %u. is deleted on the way", every);
		is_uint(map_len(m), KEYS - deleted, "the others are there");
		map_free(m);
	}
}

static void shuffle(uint32_t *a, size_t n)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = (size_t)rand_below(i);
		uint32_t t = a[i - 1];
		a[i - 1] = a[j];
		a[j] = t;
	}
}

static void test_million(void)
{
	enum { N = 1000000 };
	uint32_t *order = xcalloc(N, sizeof(*order));
	struct map *m = map_new();
	char text[32];
	size_t wrong = 0;

	rand_seed(3);
	for (uint32_t i = 0; i < N; i++)
		order[i] = i;
	shuffle(order, N);
	for (uint32_t i = 0; i < N; i++) {
		struct str key = {text, (size_t)snprintf(text, 32, "namespace/%u", order[i])};
		wrong += map_put(m, key, order + order[i]) != NULL;
	}
	is_uint(map_len(m), N, "a million puts");
	uint32_t *order2 = xcalloc(N, sizeof(*order2));
	memcpy(order2, order, N * sizeof(*order));
	shuffle(order2, N);
	for (uint32_t i = 0; i < N; i++) {
		struct str key = {text, (size_t)snprintf(text, 32, "namespace/%u", order2[i])};
		wrong += map_get(m, key) != order + order2[i];
		wrong += map_del(m, key) != order + order2[i];
	}
	is_uint(wrong, 0, "each found and deleted in another order");
	is_uint(map_len(m), 0, "none left");
	struct map_iter it = MAP_ITER(m);
	ok(!map_next(&it), "nothing to iterate over");
	map_free(m);
	free(order);
	free(order2);
}

static void test_list(void)
{
	struct item {
		int n;
		struct list link;
	} items[4] = {{.n = 0}, {.n = 1}, {.n = 2}, {.n = 3}};
	struct list head = LIST_INIT(head);
	int seen = 0;

	ok(list_empty(&head), "an empty list");
	for (int i = 0; i < 4; i++)
		list_append(&head, &items[i].link);
	LIST_FOREACH(l, next, &head) {
		struct item *item = CONTAINER_OF(l, struct item, link);
		seen = seen * 10 + item->n + 1;
		if (item->n % 2)
			list_unlink(l);
	}
	is_int(seen, 1234, "in order, also when members go");
	list_unlink(&items[1].link);
	ok(head.next == &items[0].link && items[0].link.next == &items[2].link &&
		   items[2].link.next == &head && head.prev == &items[2].link,
	   "unlinking twice is harmless");
}

int main(void)
{
	test_basics();
	test_borrowed();
	test_model();
	test_delete_while_iterating();
	test_million();
	test_list();
	return done_testing();
}
