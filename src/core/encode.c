/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes, hex and Base64, the parts of core/str.h that mbedTLS does. Results are the caller's to
 * free.
 * Uses err, fault and str.
 */
#include "core/str.h"

#include <errno.h>
#include <stdlib.h>

#include <mbedtls/base64.h>
#include <mbedtls/sha1.h>
#include <mbedtls/sha256.h>

#include "core/fault.h"

uint64_t hash_fnv(uint64_t h, struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(0x100000001b3);
	return h;
}

void hash_sha256(const struct str *parts, size_t n_parts, uint8_t ret_digest[32])
{
	mbedtls_sha256_context ctx;
	int bad = 0;

	mbedtls_sha256_init(&ctx);
	bad |= mbedtls_sha256_starts(&ctx, 0);
	for (size_t i = 0; i < n_parts; i++)
		bad |= mbedtls_sha256_update(&ctx, (const unsigned char *)parts[i].p, parts[i].len);
	bad |= mbedtls_sha256_finish(&ctx, ret_digest);
	mbedtls_sha256_free(&ctx);
	if (bad)
		abort(); /* only a hardware accelerator could fail */
}

void hash_sha1(const struct str *parts, size_t n_parts, uint8_t ret_digest[20])
{
	mbedtls_sha1_context ctx;
	int bad = 0;

	mbedtls_sha1_init(&ctx);
	bad |= mbedtls_sha1_starts(&ctx);
	for (size_t i = 0; i < n_parts; i++)
		bad |= mbedtls_sha1_update(&ctx, (const unsigned char *)parts[i].p, parts[i].len);
	bad |= mbedtls_sha1_finish(&ctx, ret_digest);
	mbedtls_sha1_free(&ctx);
	if (bad)
		abort(); /* only a hardware accelerator could fail */
}

int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

void hex_encode(const uint8_t *p, size_t len, char *ret_z)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		*ret_z++ = digits[p[i] >> 4];
		*ret_z++ = digits[p[i] & 15];
	}
	*ret_z = '\0';
}

char *base64_encode(const void *p, size_t len)
{
	size_t size = (len / 3 + 1) * 4 + 1;
	char *z = xrealloc(NULL, size);
	size_t n = 0;

	z[0] = '\0';
	if (len && mbedtls_base64_encode((unsigned char *)z, size, &n, p, len) != 0)
		abort(); /* only a size too small could fail */
	return z;
}

int base64_decode(struct str s, uint8_t **ret, size_t *ret_len, struct err *err)
{
	size_t size = s.len / 4 * 3 + 4;
	uint8_t *p = fault_realloc(NULL, size);
	size_t n = 0;

	if (!p)
		return err_set(err, ERR_LIMIT, ENOMEM, "no memory for %zu bytes", size);
	if (s.len &&
	    mbedtls_base64_decode(p, size - 1, &n, (const unsigned char *)s.p, s.len) != 0) {
		free(p);
		return err_set(err, ERR_INVALID, 0, "not Base64");
	}
	p[n] = '\0';
	*ret = p;
	*ret_len = n;
	return 0;
}
