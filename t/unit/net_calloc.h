/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the n-th allocation of mbedTLS's fail, once: for no_memory.h. Included once by each test.
 * Valgrind puts its own calloc in the place of this one, and nothing fails, unless it's told
 * --soname-synonyms=somalloc=nouserintercepts; then it sees what malloc gives, as elsewhere.
 */
#ifndef IPU_T_UNIT_NET_CALLOC_H
#define IPU_T_UNIT_NET_CALLOC_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static unsigned long n_mbedtls, fail_at; /* 0: none fails */

static void mbedtls_fail_at(unsigned long n)
{
	n_mbedtls = 0;
	fail_at = n;
}

static unsigned long mbedtls_count(void)
{
	return n_mbedtls;
}

#define NO_MEMORY_OF_MBEDTLS .fail_at = mbedtls_fail_at, .count = mbedtls_count

/* Instead of libc's: mbedTLS allocates by it alone. */
void *calloc(size_t n, size_t size)
{
	static void *(*volatile fill)(void *, int, size_t) = memset; /* else it's made a calloc */
	Dl_info from;
	void *p;

	if (fail_at && dladdr(__builtin_return_address(0), &from) && from.dli_fname &&
	    strstr(from.dli_fname, "mbed") && ++n_mbedtls == fail_at)
		return NULL;
	p = size && n > SIZE_MAX / size ? NULL : malloc(n * size);
	return p ? fill(p, 0, n * size) : NULL;
}

#endif
