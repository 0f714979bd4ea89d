/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reviews that this replica can't finish and others may: which were sent away, how often and since
 * when, so that each is answered in the end. Known by their uid, which the API server's further
 * tries bear too. Pure but for the clock.
 */
#ifndef IPU_ADMISSION_AWAY_H
#define IPU_ADMISSION_AWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AWAY_ENTRIES 256
/* kube-apiserver tries a webhook 11 times where it's told when to try again. The first of further
 * tries come at once, so that one usually meets another replica; the others a second apart, until
 * Services have dropped this one. */
#define AWAY_TIMES   9
#define AWAY_AT_ONCE 3
#define AWAY_PAUSE_S 1

#define AWAY_UID_SIZE 64 /* the API server's have 36 characters; a longer one isn't sent away */

struct away_entry {
	char uid[AWAY_UID_SIZE]; /* "": free */
	int64_t first_ms;
	unsigned times;
};

struct away {
	struct away_entry entries[AWAY_ENTRIES];
	size_t next; /* the one that is used next: free, or begun longest ago */
};

/* Whether the review should be sent away (once more), and after how many seconds it may come
 * again. Not where its time, counted from the first time here, would be over before that. */
bool away_may(struct away *a, const char *uid, unsigned deadline_ms, unsigned *ret_pause_s);

#endif
