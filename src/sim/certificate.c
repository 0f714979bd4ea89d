/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and certificates made for one run. Uses core and net's addresses.
 */
#include "sim/certificate.h"

#include <string.h>

#include <mbedtls/ecp.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#include "core/rand.h"
#include "core/str.h"
#include "net/net.h"

#define PEM_SIZE  4096
#define MAX_NAMES 4

static int random_bytes(void *arg, unsigned char *p, size_t len)
{
	(void)arg;
	rand_bytes(p, len);
	return 0;
}

/* The names that it's good for: the list lives as long as the struct. */
struct names {
	mbedtls_x509_san_list san[MAX_NAMES];
	uint8_t bytes[MAX_NAMES][16];
	size_t n;
};

static void add_name(struct names *names, int type, const void *p, size_t len)
{
	mbedtls_x509_san_list *item = &names->san[names->n];

	memcpy(names->bytes[names->n], p, len);
	item->node.type = type;
	item->node.san.unstructured_name.p = names->bytes[names->n];
	item->node.san.unstructured_name.len = len;
	if (names->n > 0)
		names->san[names->n - 1].next = item;
	names->n++;
}

static void add_address(struct names *names, const char *host)
{
	struct net_addr addr;

	if (net_addr_parse(host, 0, &addr) < 0)
		return;
	if (addr.sa.sa_family == AF_INET)
		add_name(names, MBEDTLS_X509_SAN_IP_ADDRESS, &addr.in.sin_addr, 4);
	else
		add_name(names, MBEDTLS_X509_SAN_IP_ADDRESS, &addr.in6.sin6_addr, 16);
}

static int make_key(mbedtls_pk_context *key)
{
	int status = mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));

	return status ? status
		      : mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key),
					    random_bytes, NULL);
}

static int write_certificate(mbedtls_pk_context *key, struct names *names, unsigned char *pem)
{
	static const char subject[] = "CN=ipu-sim";
	unsigned char serial[16];
	mbedtls_x509write_cert w;
	int status;

	rand_bytes(serial, sizeof(serial));
	serial[0] = (serial[0] & 0x7f) | 1; /* positive, and not 0 (RFC 5280, 4.1.2.2) */
	mbedtls_x509write_crt_init(&w);
	mbedtls_x509write_crt_set_version(&w, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(&w, MBEDTLS_MD_SHA256);
	mbedtls_x509write_crt_set_subject_key(&w, key);
	mbedtls_x509write_crt_set_issuer_key(&w, key);
	if ((status = mbedtls_x509write_crt_set_serial_raw(&w, serial, sizeof(serial))) == 0 &&
	    (status = mbedtls_x509write_crt_set_subject_name(&w, subject)) == 0 &&
	    (status = mbedtls_x509write_crt_set_issuer_name(&w, subject)) == 0 &&
	    /* Any time that a test moves the clock to. */
	    (status = mbedtls_x509write_crt_set_validity(&w, "20000101000000", "20491231235959")) ==
		    0 &&
	    (status = mbedtls_x509write_crt_set_basic_constraints(&w, 1, -1)) == 0 &&
	    (status = mbedtls_x509write_crt_set_subject_alternative_name(&w, names->san)) == 0)
		status = mbedtls_x509write_crt_pem(&w, pem, PEM_SIZE, random_bytes, NULL);
	mbedtls_x509write_crt_free(&w);
	return status;
}

int sim_certificate_make(const char *host, char **ret_cert_pem, char **ret_key_pem, struct err *err)
{
	unsigned char cert[PEM_SIZE] = "", key_pem[PEM_SIZE] = "";
	struct names names = {0};
	mbedtls_pk_context key;
	int status;

	add_name(&names, MBEDTLS_X509_SAN_DNS_NAME, "localhost", strlen("localhost"));
	add_address(&names, "127.0.0.1");
	add_address(&names, "::1");
	if (host)
		add_address(&names, host);
	mbedtls_pk_init(&key);
	if ((status = make_key(&key)) == 0 && (status = write_certificate(&key, &names, cert)) == 0)
		status = mbedtls_pk_write_key_pem(&key, key_pem, sizeof(key_pem));
	mbedtls_pk_free(&key);
	if (status != 0)
		return err_set(err, ERR_INTERNAL, 0, "a certificate can't be made: -0x%04x",
			       (unsigned)-status);
	*ret_cert_pem = xstrdup((char *)cert);
	*ret_key_pem = xstrdup((char *)key_pem);
	str_wipe(key_pem, sizeof(key_pem));
	return 0;
}
