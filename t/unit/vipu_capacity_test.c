/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimate of what fits, from tables of partitions. Uses core and vipu.
 */
#include "tap.h"

#include "core/clock.h"
#include "core/str.h"
#include "vipu/capacity.h"

struct part {
	unsigned domain, first, size;
	enum vipu_ready ready; /* 0: active */
};

static const struct {
	const char *name;
	unsigned total;
	struct part parts[6];
	unsigned taken, left, largest;
	bool by_position;
	unsigned fits[8]; /* of 1, 4, 16, 32, 64, 128, 256, 3 */
} rows[] = {
	{"nothing", 0, {{0}}, 0, 0, 0, true, {0}},
	{"an empty machine", 4, {{0}}, 0, 4, 4, true, {4, 1}},
	{"an empty pod", 64, {{0}}, 0, 64, 64, true, {64, 16, 4, 2, 1}},
	{"four empty pods", 256, {{0}}, 0, 256, 256, true, {256, 64, 16, 8, 4, 2, 1}},
	{"a pod and a half", 96, {{0}}, 0, 96, 64, true, {96, 24, 6, 3, 1}},
	{"full", 64, {{0, 0, 64, 0}}, 64, 0, 0, true, {0}},
	{"one IPU in the middle", 64, {{0, 20, 1, 0}}, 1, 63, 32, true, {63, 15, 3, 1, 0}},
	{"two halves taken unluckily",
	 64,
	 {{0, 16, 16, 0}, {0, 32, 16, 0}},
	 32,
	 32,
	 16,
	 true,
	 {32, 8, 2, 0}},
	{"a removed one is gone",
	 64,
	 {{0, 0, 32, VIPU_PS_REMOVED}},
	 0,
	 64,
	 64,
	 true,
	 {64, 16, 4, 2, 1}},
	{"a broken one isn't", 64, {{0, 0, 32, VIPU_PS_ERROR}}, 32, 32, 32, true, {32, 8, 2, 1}},
	{"counted over all domains", 128, {{1, 64, 64, 0}}, 64, 64, 64, true, {64, 16, 4, 2, 1}},
	{"three of four pods, apart",
	 256,
	 {{1, 0, 64, 0}},
	 64,
	 192,
	 128,
	 true,
	 {192, 48, 12, 6, 3, 1}},
	{"all are numbered from nought",
	 64,
	 {{0, 0, 16, 0}, {0, 0, 16, 0}},
	 32,
	 32,
	 32,
	 false,
	 {32, 8, 2, 1}},
	{"numbers of something else", 64, {{7, 0, 16, 0}}, 16, 48, 32, false, {48, 12, 3, 1}},
	{"more taken than listed", 16, {{0, 0, 16, 0}, {0, 16, 16, 0}}, 32, 0, 0, false, {0}},
	{"a size that isn't ours", 64, {{9, 0, 48, 0}}, 48, 16, 0, false, {0}},
	{"wide and numbered strangely",
	 256,
	 {{9, 0, 128, 0}},
	 128,
	 128,
	 128,
	 false,
	 {128, 32, 8, 4, 2, 1}},
};

static void compute(size_t n_ipus, const struct vipu_partitions *parts, struct vipu_capacity *ret)
{
	struct vipu_layout layout;

	vipu_layout_make(n_ipus, parts, &layout);
	vipu_capacity_of_layout(n_ipus, parts, &layout, ret);
	vipu_layout_done(&layout);
}

/* How many partitions of size could be made now, one after the other. */
static unsigned fits(const struct vipu_capacity *c, uint32_t size)
{
	unsigned n = 0;

	if (!vipu_is_power_of_two(size))
		return 0;
	for (unsigned i = 0; i < VIPU_WIDE_LEVELS; i++)
		if (size == (uint32_t)VIPU_DOMAIN_IPUS << (i + 1))
			n = c->wide[i];
	for (unsigned level = 0; level < 7; level++)
		if ((1U << level) >= size)
			n += c->blocks[level] * ((1U << level) / size);
	return n < c->free_ipus / size ? n : c->free_ipus / size;
}

static void test_table(void)
{
	static const uint32_t sizes[8] = {1, 4, 16, 32, 64, 128, 256, 3};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vipu_partition items[6] = {{0}};
		struct vipu_partitions parts = {.items = items};
		struct vipu_capacity c;
		for (size_t k = 0; k < 6 && rows[i].parts[k].size > 0; k++) {
			const struct part *p = &rows[i].parts[k];
			items[k].ready = p->ready ? p->ready : VIPU_PS_ACTIVE;
			items[k].n_ipus = p->size;
			items[k].ipus = xcalloc(p->size, sizeof(*items[k].ipus));
			for (unsigned n = 0; n < p->size; n++)
				items[k].ipus[n] = (struct vipu_ipu){
					.domain_topology_id = p->domain,
					.topology_id = p->first + n};
			parts.n++;
		}
		compute(rows[i].total, &parts, &c);
		row_begin("%s", rows[i].name);
		is_uint(c.total_ipus, rows[i].total, "total");
		is_uint(c.taken_ipus, rows[i].taken, "taken");
		is_uint(c.free_ipus, rows[i].left, "free");
		is_int(c.by_position, rows[i].by_position, "by position");
		if (rows[i].parts[0].size !=
		    48) { /* no size of a partition: what it blocks is vague */
			is_uint(c.largest, rows[i].largest, "largest");
			for (size_t k = 0; k < 8; k++)
				is_uint(fits(&c, sizes[k]), rows[i].fits[k], "fits of %u",
					sizes[k]);
		} else {
			ok(c.largest <= 16, "nothing larger than what is free");
		}
		for (size_t k = 0; k < parts.n; k++)
			free(items[k].ipus);
	}
	row_end();
}

static void test_extremes(void)
{
	struct vipu_partitions none = {0};
	struct vipu_capacity c;

	compute((size_t)1 << 40, &none, &c);
	is_uint(c.total_ipus, (unsigned)VIPU_MAX_DOMAINS * VIPU_DOMAIN_IPUS, "a pool is bounded");
	is_uint(c.largest, 65536, "and so is the largest block");
	is_uint(fits(&c, 65536), 1, "which fits once");
	ok(vipu_is_power_of_two(1) && vipu_is_power_of_two(64) && !vipu_is_power_of_two(0) &&
		   !vipu_is_power_of_two(48),
	   "powers of two");
}

/* As many as one answer can name, all at one place: nobody waits while they are counted. */
static void test_many(void)
{
	const size_t n = 300000;
	struct vipu_ipu same = {0};
	struct vipu_partitions parts = {.items = xcalloc(n, sizeof(*parts.items)), .n = n};
	struct vipu_capacity c;
	int64_t began_us = clock_mono_us();

	for (size_t i = 0; i < n; i++)
		parts.items[i] = (struct vipu_partition){
			.ready = VIPU_PS_ACTIVE, .ipus = &same, .n_ipus = 1};
	compute(65536, &parts, &c);
	/* Milliseconds; in time that grew with the square of them it was 12 s. */
	ok(clock_mono_us() - began_us < 4000000, "%zu partitions: %lld ms", n,
	   (long long)(clock_mono_us() - began_us) / 1000);
	is_uint(c.taken_ipus, n, "all are taken");
	is_uint(c.free_ipus, 0, "none is free");
	is_uint(c.blocks[0] + c.blocks[1] + c.largest, 0, "and none fits");
	free(parts.items);
}

int main(void)
{
	test_table();
	test_many();
	test_extremes();
	return done_testing();
}
