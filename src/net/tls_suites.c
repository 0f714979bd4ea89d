/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cipher suite is asked for first. Apart from tls.c since <sys/auxv.h> and <ev.h> don't go
 * together. The list is made once and never freed.
 */
#include "tls_suites.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include <mbedtls/ssl.h>

#define MAX_SUITES 256

static bool has_fast_aes(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
	return (getauxval(AT_HWCAP) & (HWCAP_AES | HWCAP_PMULL)) == (HWCAP_AES | HWCAP_PMULL);
#else
	return false;
#endif
}

/* 0: first. */
static int rank_of(int suite)
{
	const char *name = mbedtls_ssl_get_ciphersuite_name(suite);
	if (!strstr(name, "TLS1-3") && !strstr(name, "ECDHE-ECDSA") && !strstr(name, "ECDHE-RSA"))
		return 3; /* no forward secrecy, or a secret that both have */
	if (strstr(name, "AES-128-GCM"))
		return 0;
	if (strstr(name, "AES-256-GCM"))
		return 1;
	return strstr(name, "CHACHA20") ? 2 : 3;
}

/* mbedTLS has ChaCha20 in front; a server of Go's takes that for a word that AES is slow here.
 * NULL: as mbedTLS has them. */
const int *tls_suites(void)
{
	static int list[MAX_SUITES];
	const int *all = mbedtls_ssl_list_ciphersuites();
	size_t n = 0;
	if (list[0] != 0 || !has_fast_aes())
		return list[0] != 0 ? list : NULL;
	for (int rank = 0; rank <= 3; rank++)
		for (size_t i = 0; all[i] != 0 && n < MAX_SUITES - 1; i++)
			if (rank_of(all[i]) == rank)
				list[n++] = all[i];
	return list;
}
