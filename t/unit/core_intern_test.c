/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned texts: one copy each, counted, found again whatever came and went beside them.
 */
#include "core/intern.h"

#include <stdio.h>

#include "core/fault.h"
#include "core/rand.h"
#include "tap.h"

#define N 3000

static void test_one(void)
{
	char abc[] = "abc";
	const char *a = intern(STR("abc")), *b = intern_z(abc), *c = intern_ref(a);

	ok(a == b && a == c && a != abc, "equal texts are one");
	is_str(a, "abc", "terminated");
	ok(str_eqz(intern_str(a), "abc"), "with its length");
	is_int((int)intern_len(), 1, "once");
	intern_drop(a);
	intern_drop(b);
	is_str(c, "abc", "there as long as somebody has it");
	intern_drop(c);
	is_int((int)intern_len(), 0, "and gone with the last");
}

static void test_nothing(void)
{
	const char *empty = intern(STR_NULL);

	ok(!intern_z(NULL) && !intern_ref(NULL) && !intern_or_null(STR_NULL), "NULL stays NULL");
	intern_drop(NULL);
	is_str(empty, "", "an empty text is one");
	ok(intern_z("") == empty, "always the same");
	ok(intern_str(NULL).len == 0 && intern_str(empty).len == 0, "both are empty");
	intern_drop(empty);
	intern_drop(empty);
	is_int((int)intern_len(), 0, "and it goes");
}

static void test_memory(void)
{
	const char *a;

	fault_alloc_fail_at(1);
	ok(!intern_try(STR("abc")), "no memory");
	is_int((int)intern_len(), 0, "and nothing is there");
	a = intern_try(STR("abc"));
	is_str(a, "abc", "memory");
	fault_alloc_fail_at(1);
	ok(intern_try(STR("abc")) == a, "what is there needs none");
	fault_alloc_fail_at(0);
	intern_drop(a);
	intern_drop(a);
	is_int((int)intern_len(), 0, "all have gone");
}

static void test_bytes(void)
{
	const char *a = intern((struct str){"a\0b", 3}), *b = intern((struct str){"a\0c", 3});

	ok(a != b && intern_str(a).len == 3, "a NUL is a byte as any other");
	intern_drop(a);
	intern_drop(b);
}

/* Many, which come and go in any order, and each of which is found as long as it's there. */
static void test_many(void)
{
	static const char *have[N];
	static unsigned refs[N];
	size_t live = 0, wrong = 0;

	for (unsigned round = 0; round < 60000; round++) {
		unsigned i = (unsigned)rand_below(N);
		char z[32];

		snprintf(z, sizeof(z), "word %u", i);
		if (round < 40000 ? rand_below(3) > 0 : rand_below(8) == 0) {
			const char *got = intern_z(z);

			wrong += refs[i] && got != have[i];
			wrong += strcmp(got, z) != 0;
			have[i] = got;
			live += refs[i]++ == 0;
		} else if (refs[i]) {
			wrong += strcmp(have[i], z) != 0;
			intern_drop(have[i]);
			live -= --refs[i] == 0;
		}
		wrong += intern_len() != live;
	}
	is_int((int)wrong, 0, "each was found, and counted");
	for (unsigned i = 0; i < N; i++) {
		while (refs[i]) {
			intern_drop(have[i]);
			refs[i]--;
		}
	}
	is_int((int)intern_len(), 0, "all have gone");
}

int main(void)
{
	test_one();
	test_nothing();
	test_memory();
	test_bytes();
	test_many();
	return done_testing();
}
