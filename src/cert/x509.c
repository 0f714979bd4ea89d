/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X.509 (RFC 5280) by mbedTLS: P-256 keys, SHA-256 signatures, identifiers of keys so that chains
 * with two authorities are found. Uses core/.
 */
#include "x509.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mbedtls/ecp.h>
#include <mbedtls/oid.h>

#include "core/clock.h"
#include "core/rand.h"
#include "net/tls.h"

#define MAX_PEM 65536
#define KEY_PEM 2048

static int rng(void *arg, unsigned char *p, size_t len)
{
	(void)arg;
	rand_bytes(p, len);
	return 0;
}

/* ---- names ---- */

static bool is_dns_name(const char *z)
{
	size_t label = 0, len = strlen(z);

	if (len == 0 || len > 253)
		return false;
	if (strncmp(z, "*.", 2) == 0)
		z += 2;
	for (; *z; z++) {
		bool inner = *z == '-' && label > 0;

		if (*z == '.'
			    ? label == 0
			    : !(islower((unsigned char)*z) || isdigit((unsigned char)*z) || inner))
			return false;
		label = *z == '.' ? 0 : label + 1;
		if (label > 63)
			return false;
	}
	return label > 0;
}

/* The bytes of an address: 4 or 16, 0: it isn't one. */
static size_t address_of(const char *z, unsigned char ret_bytes[16])
{
	if (inet_pton(AF_INET, z, ret_bytes) == 1)
		return 4;
	return inet_pton(AF_INET6, z, ret_bytes) == 1 ? 16 : 0;
}

bool cert_names_has(const struct cert_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++) {
		if (strcmp(names->v[i], name) == 0)
			return true;
	}
	return false;
}

static void insert(struct cert_names *names, const char *name)
{
	size_t at = 0;

	if (cert_names_has(names, name))
		return;
	names->v = xrealloc(names->v, (names->n + 1) * sizeof(*names->v));
	while (at < names->n && strcmp(names->v[at], name) < 0)
		at++;
	memmove(names->v + at + 1, names->v + at, (names->n - at) * sizeof(*names->v));
	names->v[at] = xstrdup(name);
	names->n++;
}

/* False: it's no DNS name. An address is none, though it may look like one. */
static bool insert_dns(struct cert_names *names, struct str name)
{
	CLEANUP_FREE char *z = str_dup(name);
	unsigned char bytes[16];

	for (char *c = z; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (strlen(z) != name.len || address_of(z, bytes) > 0 || !is_dns_name(z))
		return false;
	insert(names, z);
	return true;
}

int cert_names_add(struct cert_names *names, struct str name, struct err *err)
{
	CLEANUP_FREE char *z = str_dup(name);
	unsigned char bytes[16];
	char text[INET6_ADDRSTRLEN];
	size_t len = address_of(z, bytes);

	if (len > 0)
		insert(names, inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, text, sizeof(text)));
	else if (!insert_dns(names, name))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is neither a DNS name nor an address",
			       STR_ARG(name));
	return 0;
}

void cert_names_done(struct cert_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
	*names = (struct cert_names){0};
}

void cert_names_of(const mbedtls_x509_crt *crt, struct cert_names *ret)
{
	const int mask = MBEDTLS_ASN1_TAG_CLASS_MASK | MBEDTLS_ASN1_TAG_VALUE_MASK;
	const int context = MBEDTLS_ASN1_CONTEXT_SPECIFIC;
	const mbedtls_x509_sequence *cur = &crt->subject_alt_names;

	for (; cur && cur->buf.p; cur = cur->next) {
		int tag = cur->buf.tag & mask;
		char text[INET6_ADDRSTRLEN];

		if (tag == (context | MBEDTLS_X509_SAN_DNS_NAME))
			(void)insert_dns(ret, (struct str){(const char *)cur->buf.p, cur->buf.len});
		else if (tag == (context | MBEDTLS_X509_SAN_IP_ADDRESS) &&
			 (cur->buf.len == 4 || cur->buf.len == 16))
			insert(ret, inet_ntop(cur->buf.len == 4 ? AF_INET : AF_INET6, cur->buf.p,
					      text, sizeof(text)));
	}
}

/* ---- reading ---- */

struct str cert_pem_block(struct str pem, size_t i)
{
	struct str block;

	while (tls_pem_next(&pem, &block)) {
		if (i-- == 0)
			return block;
	}
	return STR_NULL;
}

void cert_pair_init(struct cert_pair *p)
{
	mbedtls_x509_crt_init(&p->crt);
	mbedtls_pk_init(&p->key);
	p->has_crt = p->has_key = false;
}

void cert_pair_done(struct cert_pair *p)
{
	mbedtls_x509_crt_free(&p->crt);
	mbedtls_pk_free(&p->key);
	cert_pair_init(p);
}

int cert_pair_read(struct cert_pair *p, struct str crt_pem, struct str key_pem, struct err *err)
{
	struct str block = cert_pem_block(crt_pem, 0);
	int status;

	if (block.len == 0 || block.len > MAX_PEM)
		return err_set(err, ERR_INVALID, 0, "there is no certificate in it");
	char *z = str_dup(block);
	status = mbedtls_x509_crt_parse(&p->crt, (unsigned char *)z, block.len + 1);
	free(z);
	if (status != 0)
		return tls_set_err(err, status, "the certificate can't be read");
	p->has_crt = true;
	if (key_pem.len == 0 || key_pem.len > MAX_PEM)
		return err_set(err, ERR_INVALID, 0, "there is no key");
	if (tls_parse_key(&p->key, key_pem, "the key can't be read", err) < 0)
		return -1;
	status = mbedtls_pk_check_pair(&p->crt.pk, &p->key, rng, NULL);
	if (tls_is_no_memory(status))
		return tls_set_err(err, status, "the key can't be compared");
	if (status != 0)
		return err_set(err, ERR_INVALID, 0, "the key doesn't belong to the certificate");
	p->has_key = true;
	return 0;
}

static int64_t time_ms(const mbedtls_x509_time *t)
{
	char z[CLOCK_RFC3339_SIZE];
	int64_t ms;

	snprintf(z, sizeof(z), "%04d-%02d-%02dT%02d:%02d:%02dZ", t->year % 10000, t->mon % 100,
		 t->day % 100, t->hour % 100, t->min % 100, t->sec % 100);
	return clock_parse(str_of(z), &ms, NULL) < 0 ? 0 : ms;
}

int64_t cert_from_ms(const mbedtls_x509_crt *crt)
{
	return time_ms(&crt->valid_from);
}

int64_t cert_to_ms(const mbedtls_x509_crt *crt)
{
	return time_ms(&crt->valid_to);
}

/* The library's clock isn't ours. */
static int forget_dates(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
	(void)arg;
	(void)crt;
	(void)depth;
	*flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE);
	return 0;
}

/* mbedTLS tells a bad signature where it had no memory to check it: so one is bad that is so twice.
 */
bool cert_is_signed_by(mbedtls_x509_crt *crt, mbedtls_x509_crt *authority)
{
	uint32_t flags = 0;
	bool is = false;

	for (int i = 0; i < 2 && !is && mbedtls_x509_crt_get_ca_istrue(authority) == 1; i++)
		is = mbedtls_x509_crt_verify(crt, authority, NULL, NULL, &flags, forget_dates,
					     NULL) == 0;
	return is;
}

/* ---- making ---- */

int cert_make_key(mbedtls_pk_context *ret, struct err *err)
{
	int status = mbedtls_pk_setup(ret, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));

	if (status == 0)
		status = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*ret), rng,
					     NULL);
	return status == 0 ? 0 : tls_set_err(err, status, "a new key");
}

int cert_key_pem(const mbedtls_pk_context *key, char **ret, struct err *err)
{
	char *z = xcalloc(1, KEY_PEM);
	int status = mbedtls_pk_write_key_pem(key, (unsigned char *)z, KEY_PEM);

	if (status != 0) {
		str_wipe(z, KEY_PEM);
		free(z);
		return tls_set_err(err, status, "a key as PEM");
	}
	*ret = z;
	return 0;
}

static void date_of(int64_t ms, char ret_z[16])
{
	char z[CLOCK_RFC3339_SIZE];
	size_t n = 0;

	clock_format(ms, z);
	for (const char *c = z; *c && n < 14; c++) {
		if (isdigit((unsigned char)*c))
			ret_z[n++] = *c;
	}
	ret_z[n] = '\0';
}

static int set_names(mbedtls_x509write_cert *w, const struct cert_names *names)
{
	mbedtls_x509_san_list *list = xcalloc(names->n + 1, sizeof(*list));
	unsigned char(*bytes)[16] = xcalloc(names->n + 1, sizeof(*bytes));
	int status;

	for (size_t i = 0; i < names->n; i++) {
		size_t len = address_of(names->v[i], bytes[i]);

		list[i].node.type = len > 0 ? MBEDTLS_X509_SAN_IP_ADDRESS
					    : MBEDTLS_X509_SAN_DNS_NAME;
		list[i].node.san.unstructured_name.p = len > 0 ? bytes[i]
							       : (unsigned char *)names->v[i];
		list[i].node.san.unstructured_name.len = len > 0 ? len : strlen(names->v[i]);
		list[i].next = i + 1 < names->n ? &list[i + 1] : NULL;
	}
	status = mbedtls_x509write_crt_set_subject_alternative_name(w, list);
	free(list);
	free(bytes);
	return status;
}

static int set_usage(mbedtls_x509write_cert *w, const struct cert_spec *spec)
{
	mbedtls_asn1_sequence server = {
		.buf = {.tag = MBEDTLS_ASN1_OID,
			.len = MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH),
			.p = (unsigned char *)(uintptr_t)MBEDTLS_OID_SERVER_AUTH}};
	int status = mbedtls_x509write_crt_set_basic_constraints(w, spec->is_ca, -1);

	if (status == 0)
		status = mbedtls_x509write_crt_set_key_usage(
			w, spec->is_ca ? MBEDTLS_X509_KU_KEY_CERT_SIGN | MBEDTLS_X509_KU_CRL_SIGN
				       : MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
	if (status == 0 && !spec->is_ca)
		status = mbedtls_x509write_crt_set_ext_key_usage(w, &server);
	if (status == 0 && spec->names)
		status = set_names(w, spec->names);
	if (status == 0)
		status = mbedtls_x509write_crt_set_subject_key_identifier(w);
	if (status == 0)
		status = mbedtls_x509write_crt_set_authority_key_identifier(w);
	return status;
}

static int fill(mbedtls_x509write_cert *w, const struct cert_spec *spec)
{
	const struct cert_pair *issuer = spec->issuer;
	unsigned char serial[16];
	char from[16], to[16], name[256] = "";
	int status = 0;

	rand_bytes(serial, sizeof(serial));
	serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); /* positive, and of this length */
	date_of(spec->from_ms, from);
	date_of(spec->to_ms, to);
	mbedtls_x509write_crt_set_version(w, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(w, MBEDTLS_MD_SHA256);
	mbedtls_x509write_crt_set_subject_key(w, spec->key);
	mbedtls_x509write_crt_set_issuer_key(
		w, issuer ? (mbedtls_pk_context *)(uintptr_t)&issuer->key : spec->key);
	if (issuer && mbedtls_x509_dn_gets(name, sizeof(name), &issuer->crt.subject) < 0)
		status = MBEDTLS_ERR_X509_BAD_INPUT_DATA;
	if (status == 0)
		status = mbedtls_x509write_crt_set_serial_raw(w, serial, sizeof(serial));
	if (status == 0)
		status = mbedtls_x509write_crt_set_subject_name(w, spec->subject);
	if (status == 0)
		status = mbedtls_x509write_crt_set_issuer_name(w, issuer ? name : spec->subject);
	if (status == 0)
		status = mbedtls_x509write_crt_set_validity(w, from, to);
	return status == 0 ? set_usage(w, spec) : status;
}

int cert_make(const struct cert_spec *spec, char **ret, struct err *err)
{
	CLEANUP_FREE char *pem = xcalloc(1, MAX_PEM);
	mbedtls_x509write_cert w;
	int status;

	mbedtls_x509write_crt_init(&w);
	status = fill(&w, spec);
	if (status == 0)
		status = mbedtls_x509write_crt_pem(&w, (unsigned char *)pem, MAX_PEM, rng, NULL);
	mbedtls_x509write_crt_free(&w);
	if (status != 0)
		return tls_set_err(err, status, "a new certificate");
	*ret = xstrdup(pem);
	return 0;
}
