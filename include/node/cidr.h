/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of addresses, "10.5.212.0/24" and "fd00::/64": just enough arithmetic for a manifest and
 * for the question whether an address lies in one. Pure. Uses core.
 */
#ifndef IPU_NODE_CIDR_H
#define IPU_NODE_CIDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

#define CIDR_TEXT_SIZE 50 /* INET6_ADDRSTRLEN and "/128" */

struct cidr {
	uint8_t bytes[16]; /* in network order; of IPv4 the first four */
	unsigned bits;     /* of the address: 32 or 128 */
	unsigned prefix;   /* 0 to bits */
};

/* "ADDRESS/LENGTH", or an address alone, which is a range of one. Bits behind the prefix are
 * cleared: 10.5.212.7/24 is 10.5.212.0/24. ERR_INVALID. */
int cidr_parse(struct str text, struct cidr *ret, struct err *err);
/* "10.5.212.0/24"; a range of one has its length too. Returns ret_z. */
const char *cidr_format(const struct cidr *c, char ret_z[CIDR_TEXT_SIZE]);
bool cidr_equal(const struct cidr *a, const struct cidr *b);
bool cidr_contains(const struct cidr *outer, const struct cidr *inner); /* an equal one too */
bool cidr_overlaps(const struct cidr *a, const struct cidr *b);

/* Of prefix bits, beginning where c does. prefix is c's own or longer. */
struct cidr cidr_first(const struct cidr *c, unsigned prefix);
struct cidr cidr_last(const struct cidr *c); /* its last address: IPv4's broadcast address */

/* How many addresses of c are in none of the others; UINT64_MAX: as many or more. */
uint64_t cidr_count_left(const struct cidr *c, const struct cidr *others, size_t n_others);

#endif
