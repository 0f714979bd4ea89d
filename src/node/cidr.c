/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranges either contain one another or have nothing in common: so counting what is left of one
 * is halving it wherever another begins inside.
 */
#include "node/cidr.h"

#include <arpa/inet.h>
#include <stdio.h>

static bool bit_of(const struct cidr *c, unsigned i)
{
	return c->bytes[i / 8] & (0x80 >> i % 8);
}

static void set_bit(struct cidr *c, unsigned i, bool on)
{
	uint8_t mask = (uint8_t)(0x80 >> i % 8);

	c->bytes[i / 8] = (uint8_t)(on ? c->bytes[i / 8] | mask : c->bytes[i / 8] & ~mask);
}

int cidr_parse(struct str text, struct cidr *ret, struct err *err)
{
	struct cidr c = {.bits = 32};
	struct str address, length;
	bool has_length = str_cut(text, '/', &address, &length);
	char z[INET6_ADDRSTRLEN];
	int64_t prefix;

	if (address.len == 0 || address.len >= sizeof(z))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no address range", STR_ARG(text));
	memcpy(z, address.p, address.len);
	z[address.len] = 0;
	if (inet_pton(AF_INET, z, c.bytes) != 1) {
		c.bits = 128;
		if (inet_pton(AF_INET6, z, c.bytes) != 1)
			return err_set(err, ERR_INVALID, 0,
				       "\"%.*s\" is no address range such as 10.5.212.0/24",
				       STR_ARG(text));
	}
	prefix = c.bits;
	if (has_length && str_to_int(length, 0, c.bits, &prefix, NULL) < 0)
		return err_set(err, ERR_INVALID, 0,
			       "\"%.*s\": the length behind the slash must be from 0 to %u",
			       STR_ARG(text), c.bits);
	c.prefix = (unsigned)prefix;
	for (unsigned i = c.prefix; i < c.bits; i++)
		set_bit(&c, i, false);
	*ret = c;
	return 0;
}

const char *cidr_format(const struct cidr *c, char ret_z[CIDR_TEXT_SIZE])
{
	char z[INET6_ADDRSTRLEN] = "";

	inet_ntop(c->bits == 32 ? AF_INET : AF_INET6, c->bytes, z, sizeof(z));
	snprintf(ret_z, CIDR_TEXT_SIZE, "%s/%u", z, c->prefix);
	return ret_z;
}

bool cidr_contains(const struct cidr *outer, const struct cidr *inner)
{
	if (outer->bits != inner->bits || outer->prefix > inner->prefix)
		return false;
	for (unsigned i = 0; i < outer->prefix; i++) {
		if (bit_of(outer, i) != bit_of(inner, i))
			return false;
	}
	return true;
}

bool cidr_equal(const struct cidr *a, const struct cidr *b)
{
	return a->prefix == b->prefix && cidr_contains(a, b);
}

bool cidr_overlaps(const struct cidr *a, const struct cidr *b)
{
	return cidr_contains(a, b) || cidr_contains(b, a);
}

struct cidr cidr_first(const struct cidr *c, unsigned prefix)
{
	struct cidr first = *c;

	first.prefix = prefix;
	return first;
}

struct cidr cidr_last(const struct cidr *c)
{
	struct cidr last = cidr_first(c, c->bits);

	for (unsigned i = c->prefix; i < c->bits; i++)
		set_bit(&last, i, true);
	return last;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t cidr_count_left(const struct cidr *c, const struct cidr *others, size_t n_others)
{
	unsigned free_bits = c->bits - c->prefix;
	struct cidr low, high;
	bool inside = false;

	for (size_t i = 0; i < n_others; i++) {
		if (cidr_contains(&others[i], c))
			return 0;
		inside = inside || cidr_contains(c, &others[i]);
	}
	if (!inside)
		return free_bits > 63 ? UINT64_MAX : UINT64_C(1) << free_bits;
	low = cidr_first(c, c->prefix + 1);
	high = low;
	set_bit(&high, c->prefix, true);
	return add(cidr_count_left(&low, others, n_others),
		   cidr_count_left(&high, others, n_others));
}
