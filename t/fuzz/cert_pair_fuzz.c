/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates and keys as a Secret has them.
 * Input: a byte, which says how many of the bytes behind it (in 64) are the certificate; the rest
 * is the key.
 */
#include "cert/x509.h"
#include "fuzz.h"

static void must_be_sorted(const struct cert_names *names)
{
	for (size_t i = 0; i < names->n; i++) {
		MUST(names->v[i][0] && cert_names_has(names, names->v[i]));
		MUST(i == 0 || strcmp(names->v[i - 1], names->v[i]) < 0);
	}
}

static void try_blocks(struct str pem)
{
	const char *end = pem.p;
	struct str block;

	for (size_t i = 0; (block = cert_pem_block(pem, i)).len > 0; i++) {
		MUST(block.p >= end && block.p + block.len <= pem.p + pem.len);
		end = block.p + block.len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	size_t part = (unsigned char)fuzz_take(&s, '@') & 63;
	struct str crt = {s.p, s.len * part / 63}, key = {s.p + crt.len, s.len - crt.len};
	struct cert_names names = {0};
	struct err err = ERR_INIT;
	struct cert_pair pair;

	try_blocks(s);
	cert_pair_init(&pair);
	if (cert_pair_read(&pair, crt, key, &err) < 0)
		MUST(err.kind != ERR_NONE && err.msg[0]);
	if (pair.has_crt) {
		cert_names_of(&pair.crt, &names);
		must_be_sorted(&names);
		cert_from_ms(&pair.crt);
		cert_to_ms(&pair.crt);
		cert_is_signed_by(&pair.crt, &pair.crt);
	}
	cert_pair_done(&pair);
	cert_names_add(&names, crt, NULL);
	must_be_sorted(&names);
	cert_names_done(&names);
	return 0;
}
