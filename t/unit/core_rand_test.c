/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/rand.h: the kernel's bytes differ, a seed's repeat, and a range is even.
 * Uses core.
 */
#include "core/rand.h"

#include "tap.h"

int main(void)
{
	uint8_t a[37] = {0}, b[37] = {0};

	rand_bytes(a, sizeof(a));
	rand_bytes(b, sizeof(b));
	ok(memcmp(a, b, sizeof(a)) != 0, "the kernel's bytes differ");
	ok(rand_u64() != rand_u64(), "and its words");
	rand_bytes(a, 0);

	rand_seed(42);
	uint64_t first = rand_u64(), second = rand_u64();
	rand_bytes(a, sizeof(a));
	rand_seed(42);
	ok(rand_u64() == first && rand_u64() == second, "a seed's sequence repeats");
	rand_bytes(b, sizeof(b));
	is_mem(b, sizeof(b), a, sizeof(a), "its bytes too");
	rand_seed(43);
	ok(rand_u64() != first, "another seed's is another");

	/* The authors' programs, with state words from SplitMix64 of seed 0. */
	rand_seed(0);
	ok(rand_u64() == UINT64_C(0x99ec5f36cb75f2b4), "xoshiro256**'s first word for seed 0");

	unsigned counts[7] = {0}, out = 0;
	for (int i = 0; i < 70000; i++) {
		uint64_t n = rand_below(7);
		if (n < 7)
			counts[n]++;
		else
			out++;
	}
	is_uint(out, 0, "within the range");
	for (int i = 0; i < 7; i++)
		ok(counts[i] > 9500 && counts[i] < 10500, "%d came up %u times in 70000", i,
		   counts[i]);
	is_uint(rand_below(1), 0, "a range of one");
	ok(rand_below(UINT64_MAX) < UINT64_MAX, "the largest range");
	return done_testing();
}
