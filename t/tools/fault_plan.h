/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fault tests: which fault meets which connection and which request, decided by a seed alone.
 * A plan calls nobody; it owns its counts. Uses core/ and http/message.h.
 */
#ifndef IPU_T_TOOLS_FAULT_PLAN_H
#define IPU_T_TOOLS_FAULT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "http/message.h"

enum fault_kind {
	FAULT_DELAY,    /* what the server says comes later */
	FAULT_DRIP,     /* … byte by byte */
	FAULT_RESET,    /* RST, with what was on its way */
	FAULT_HALF,     /* the server has gone, and the client isn't told */
	FAULT_HOLE,     /* all that is said vanishes */
	FAULT_GARBAGE,  /* bytes that mean nothing */
	FAULT_ALERT,    /* a TLS alert, whatever is spoken */
	FAULT_TRUNCATE, /* JSON ends in the middle, the message in order */
	FAULT_410,
	FAULT_429,
	FAULT_500,
	FAULT_503,
	FAULT_KINDS,
	FAULT_NONE = FAULT_KINDS,
};

const char *fault_kind_name(enum fault_kind kind); /* "delay"; "none" */

struct fault_plan {
	uint64_t seed;
	unsigned kinds; /* 1 << FAULT_… of those that are allowed */
	bool calm;      /* no more faults */
	unsigned gap;   /* so many times as many bytes between two faults of a connection */
	struct map *asked;
};

/* kinds: names with commas between; empty: all. ERR_INVALID names the one that there isn't. */
int fault_plan_init(struct fault_plan *p, uint64_t seed, struct str kinds, struct err *err);
void fault_plan_done(struct fault_plan *p);

/* A number that depends on the seed, a name and two ordinals, and on nothing else. */
uint64_t fault_draw(const struct fault_plan *p, struct str name, uint64_t n, uint64_t m);

/* The m-th fault of the n-th connection of a link: it comes when the server has said another
 * *ret_bytes. Of three connections one at least gets so far that something can be done on it. Bytes
 * alone are known here, so no statuses; secure: TLS is spoken, and what is said takes more bytes.
 */
enum fault_kind fault_of_bytes(const struct fault_plan *p, struct str link, bool secure, uint64_t n,
			       uint64_t m, uint64_t *ret_bytes);

/* What meets a request to the API server: the same request, method and path, meets the same at its
 * n-th time whatever comes between, and nothing at the latest when it comes for the third time. */
enum fault_kind fault_of_request(struct fault_plan *p, enum http_method method, struct str path,
				 struct str query, uint64_t *ret_lot);

#endif
