/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All time is taken here, so that tests move it: a page of shared memory that daemon, launcher
 * and simulator map holds offsets, or a frozen time, for all of them (doc/design/decisions.md,
 * "Time in tests").
 */
#ifndef IPU_CORE_CLOCK_H
#define IPU_CORE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

/* The page's layout; a test in another language writes it too. Little-endian, 64 bytes. */
struct clock_page {
	uint64_t magic;    /* CLOCK_PAGE_MAGIC */
	int64_t offset_ms; /* added to both real clocks while not frozen */
	int64_t frozen;    /* 1: the two times below are the time, and stand still */
	int64_t mono_ms;
	int64_t wall_ms;
	int64_t reserved[3];
};
#define CLOCK_PAGE_MAGIC UINT64_C(0x314b4c4355504900) /* "\0IPUCLK1" */

int64_t clock_mono_ms(void); /* for deadlines; never goes back, except by a test's page */
int64_t clock_mono_us(void); /* the same, finer: for measuring */
int64_t clock_wall_ms(void); /* since 1970-01-01T00:00:00Z */

/* Maps the page at path (from the environment variable IPU_CLOCK_PAGE by the programs). */
int clock_use_page(const char *path, struct err *err);
bool clock_is_page(void); /* a page is mapped: the loop must look at the clock often */

/* For unit tests: freezes both clocks in this process, and moves them. */
void clock_freeze(int64_t mono_ms, int64_t wall_ms);
void clock_advance(int64_t ms);
void clock_unfreeze(void);

/* RFC 3339 in UTC. Kubernetes' Time has seconds, MicroTime six digits. */
#define CLOCK_RFC3339_SIZE 32
void clock_format(int64_t wall_ms, char ret_z[CLOCK_RFC3339_SIZE]);       /* 2024-03-01T10:00:00Z */
void clock_format_micro(int64_t wall_ms, char ret_z[CLOCK_RFC3339_SIZE]); /* …:00.123000Z */
/* How long ago that was, as kubectl writes it: two units at most ("90s", "5m3s", "2d4h"). Times to
 * come are 0s. */
#define CLOCK_AGE_SIZE 32
void clock_format_age(int64_t ms, char ret_z[CLOCK_AGE_SIZE]);
int clock_parse(struct str s, int64_t *ret_wall_ms, struct err *err); /* offsets, fractions too */

#endif
