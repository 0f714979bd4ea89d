/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Randomness from the kernel, or xoshiro256** (Blackman and Vigna) from a test's seed.
 * Uses nothing.
 */
#include "core/rand.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static bool seeded;
static uint64_t state[4];

static uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t next_seeded(void)
{
	uint64_t r = rotl(state[1] * 5, 7) * 9;
	uint64_t t = state[1] << 17;

	state[2] ^= state[0];
	state[3] ^= state[1];
	state[1] ^= state[2];
	state[0] ^= state[3];
	state[2] ^= t;
	state[3] = rotl(state[3], 45);
	return r;
}

void rand_seed(uint64_t seed)
{
	/* SplitMix64 spreads the seed over the state, as the authors advise. */
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		state[i] = z ^ z >> 31;
	}
	seeded = true;
}

void rand_bytes(void *p, size_t len)
{
	unsigned char *to = p;

	while (len > 0) {
		size_t n;
		if (seeded) {
			uint64_t word = next_seeded();
			n = len < sizeof(word) ? len : sizeof(word);
			memcpy(to, &word, n);
		} else {
			ssize_t got = getrandom(to, len, 0);
			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0)
				abort();
			n = (size_t)got;
		}
		to += n;
		len -= n;
	}
}

uint64_t rand_u64(void)
{
	uint64_t word;

	rand_bytes(&word, sizeof(word));
	return word;
}

uint64_t rand_below(uint64_t n)
{
	/* Words under 2^64 mod n would make small results likelier. */
	uint64_t skip = -n % n;
	uint64_t word;

	do {
		word = rand_u64();
	} while (word < skip);
	return word % n;
}
