/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and certificates by mbedTLS: made and looked at. Nothing here looks at a clock or logs.
 */
#ifndef IPU_CERT_X509_H
#define IPU_CERT_X509_H

#include <stdbool.h>
#include <stdint.h>

#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#include "core/err.h"
#include "core/str.h"

/* Sorted, without repeats: DNS names in lower case, addresses as inet_ntop writes them. */
struct cert_names {
	char **v;
	size_t n;
};
/* Errors: ERR_INVALID: neither a DNS name (a wildcard is one) nor an address. */
int cert_names_add(struct cert_names *names, struct str name, struct err *err);
bool cert_names_has(const struct cert_names *names, const char *name);
void cert_names_done(struct cert_names *names);

/* The i-th certificate of a PEM text; empty: there are fewer. */
struct str cert_pem_block(struct str pem, size_t i);

/* A certificate and, where it's known, its key. */
struct cert_pair {
	mbedtls_x509_crt crt;
	mbedtls_pk_context key;
	bool has_crt, has_key; /* both: they belong together */
};
void cert_pair_init(struct cert_pair *p);
void cert_pair_done(struct cert_pair *p);
/* Takes the first certificate of a PEM text. */
int cert_pair_read(struct cert_pair *p, struct str crt_pem, struct str key_pem, struct err *err);

int64_t cert_from_ms(const mbedtls_x509_crt *crt);
int64_t cert_to_ms(const mbedtls_x509_crt *crt);
/* Is crt signed by authority? Dates don't count. */
bool cert_is_signed_by(mbedtls_x509_crt *crt, mbedtls_x509_crt *authority);
void cert_names_of(const mbedtls_x509_crt *crt, struct cert_names *ret);

/* A new P-256 key. */
int cert_make_key(mbedtls_pk_context *ret, struct err *err);
int cert_key_pem(const mbedtls_pk_context *key, char **ret, struct err *err); /* to be wiped */

struct cert_spec {
	const char *subject;            /* "CN=…" */
	mbedtls_pk_context *key;        /* the subject's */
	const struct cert_pair *issuer; /* NULL: signs itself */
	bool is_ca;
	const struct cert_names *names; /* of what is no authority */
	int64_t from_ms, to_ms;
};
/* PEM, to be freed. */
int cert_make(const struct cert_spec *spec, char **ret, struct err *err);

#endif
