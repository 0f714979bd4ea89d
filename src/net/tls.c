/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS settings from PEM: parsed once, checked at once, then shared by connections and never
 * changed. The object owns copies of everything. Uses core.
 */
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mbedtls/asn1.h>
#include <mbedtls/bignum.h>
#include <mbedtls/ecp.h>
#include <mbedtls/error.h>
#include <mbedtls/md.h>
#include <mbedtls/pem.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rand.h"
#include "tls_impl.h"
#include "tls_suites.h"

#define PEM_BEGIN     "-----BEGIN CERTIFICATE-----"
#define PEM_END       "-----END CERTIFICATE-----"
#define CA_FILE_LIMIT (8 << 20)

/* Where systems keep all that they trust in one file. */
static const char *const system_ca_files[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Alpine, Arch, our image */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Red Hat, Fedora, Amazon */
	"/etc/ssl/ca-bundle.pem",             /* SUSE */
};

/* As mbedTLS has them by default, with PKCS#1 v1.5 before PSS: RSA servers that speak TLS 1.2 alone
 * take the first that they know, and mbedTLS offers PSS but doesn't take it there, against RFC 8446
 * 4.2.3. In TLS 1.3 nobody takes PKCS#1 (the same). */
static const uint16_t sig_algs[] = {
	MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256, MBEDTLS_TLS1_3_SIG_ECDSA_SECP384R1_SHA384,
	MBEDTLS_TLS1_3_SIG_ECDSA_SECP521R1_SHA512, MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA256,
	MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA384,       MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA512,
	MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256,    MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA384,
	MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA512,    MBEDTLS_TLS1_3_SIG_NONE,
};

/* As mbedTLS has them by default, with P-256 before X25519: it has a table of P-256's own for a new
 * key, and none for X25519, so that a client's handshake is a seventh less work. */
static const uint16_t groups[] = {
	MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1, MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
	MBEDTLS_SSL_IANA_TLS_GROUP_SECP384R1, MBEDTLS_SSL_IANA_TLS_GROUP_X448,
	MBEDTLS_SSL_IANA_TLS_GROUP_SECP521R1, MBEDTLS_SSL_IANA_TLS_GROUP_BP256R1,
	MBEDTLS_SSL_IANA_TLS_GROUP_BP384R1,   MBEDTLS_SSL_IANA_TLS_GROUP_BP512R1,
	MBEDTLS_SSL_IANA_TLS_GROUP_FFDHE2048, MBEDTLS_SSL_IANA_TLS_GROUP_FFDHE3072,
	MBEDTLS_SSL_IANA_TLS_GROUP_FFDHE4096, MBEDTLS_SSL_IANA_TLS_GROUP_FFDHE6144,
	MBEDTLS_SSL_IANA_TLS_GROUP_FFDHE8192, MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
};

/* core's randomness, for mbedTLS. */
static int rng(void *arg, unsigned char *p, size_t len)
{
	(void)arg;
	rand_bytes(p, len);
	return 0;
}

/* A status has the high-level module's code, and the low-level one's below it, or one of them. */
bool tls_is_no_memory(int status)
{
	static const int high[] = {MBEDTLS_ERR_X509_ALLOC_FAILED, MBEDTLS_ERR_PEM_ALLOC_FAILED,
				   MBEDTLS_ERR_PK_ALLOC_FAILED,   MBEDTLS_ERR_ECP_ALLOC_FAILED,
				   MBEDTLS_ERR_MD_ALLOC_FAILED,   MBEDTLS_ERR_SSL_ALLOC_FAILED};
	int low = -(-status & 0x7f);

	for (size_t i = 0; i < sizeof(high) / sizeof(high[0]); i++) {
		if (status - low == high[i])
			return true;
	}
	return low == MBEDTLS_ERR_ASN1_ALLOC_FAILED || low == MBEDTLS_ERR_MPI_ALLOC_FAILED;
}

int tls_set_err(struct err *err, int status, const char *what)
{
	char text[128];

	if (tls_is_no_memory(status))
		return err_set(err, ERR_LIMIT, ENOMEM, "%s: no memory", what);
	mbedtls_strerror(status, text, sizeof(text));
	return err_set(err, ERR_INVALID, status, "%s: %s", what, text);
}

/* Where memory is out for one form of a key, mbedTLS goes on with the next and tells that it isn't
 * one: so a key is bad that can't be read twice. */
int tls_parse_key(mbedtls_pk_context *key, struct str pem, const char *what, struct err *err)
{
	char *z = str_dup(pem); /* mbedTLS wants the NUL, and counts it */
	int status = -1;

	for (int i = 0; i < 2 && status != 0; i++) {
		mbedtls_pk_free(key);
		mbedtls_pk_init(key);
		status = mbedtls_pk_parse_key(key, (unsigned char *)z, pem.len + 1, NULL, 0, rng,
					      NULL);
	}
	str_wipe(z, pem.len);
	free(z);
	return status == 0 ? 0 : tls_set_err(err, status, what);
}

static struct tls_config *new_config(bool is_server)
{
	struct tls_config *c = xcalloc(1, sizeof(*c));
	c->refs = 1;
	c->is_server = is_server;
	mbedtls_ssl_config_init(&c->ssl);
	mbedtls_x509_crt_init(&c->ca);
	mbedtls_x509_crt_init(&c->cert);
	mbedtls_pk_init(&c->key);
	return c;
}

bool tls_config_offers(const struct tls_config *c, const char *protocol)
{
	for (const char *const *p = c->alpn; *p; p++)
		if (strcmp(*p, protocol) == 0)
			return true;
	return false;
}

struct tls_config *tls_config_ref(struct tls_config *c)
{
	if (c)
		c->refs++;
	return c;
}

void tls_config_unref(struct tls_config *c)
{
	if (!c || --c->refs > 0)
		return;
	mbedtls_ssl_config_free(&c->ssl);
	mbedtls_x509_crt_free(&c->ca);
	mbedtls_x509_crt_free(&c->cert);
	mbedtls_pk_free(&c->key);
	for (size_t i = 0; i < TLS_ALPN_MAX; i++)
		free(c->alpn_copy[i]);
	tls_config_unref(c->base);
	free(c->client_names);
	free(c);
}

bool tls_pem_next(struct str *rest, struct str *ret)
{
	const char *begin = rest->p ? memmem(rest->p, rest->len, PEM_BEGIN, strlen(PEM_BEGIN))
				    : NULL;
	size_t left = begin ? rest->len - (size_t)(begin - rest->p) : 0;
	const char *end = begin ? memmem(begin, left, PEM_END, strlen(PEM_END)) : NULL;

	if (!end)
		return false;
	end += strlen(PEM_END);
	*ret = (struct str){begin, (size_t)(end - begin)};
	*rest = (struct str){end, left - ret->len};
	return true;
}

static int parse_one(mbedtls_x509_crt *crt, struct str pem)
{
	CLEANUP_FREE char *z = str_dup(pem); /* mbedTLS wants the NUL, and counts it */

	return mbedtls_x509_crt_parse(crt, (unsigned char *)z, pem.len + 1);
}

/* One certificate that mbedTLS doesn't understand (an Ed25519 authority in a large bundle) doesn't
 * make the others useless; none at all is an error, and so is one that there's no memory for. Given
 * a whole bundle, mbedTLS would leave that out, too. */
static int parse_certs(mbedtls_x509_crt *crt, struct str pem, const char *what, struct err *err)
{
	int good = 0, bad = 0, first = 0;
	struct str one;

	while (tls_pem_next(&pem, &one)) {
		int ret = parse_one(crt, one);

		if (tls_is_no_memory(ret))
			return tls_set_err(err, ret, what);
		if (ret == 0)
			good++;
		else if (bad++ == 0)
			first = ret;
	}
	if (good && bad)
		log_warn("tls", NULL,
			 "certificates that can't be read were left out: of=%s count=%d", what,
			 bad);
	if (good)
		return 0;
	return bad ? tls_set_err(err, first, what)
		   : err_set(err, ERR_INVALID, 0, "%s: there is no PEM certificate in it", what);
}

static int parse_pair(struct tls_config *c, struct str cert_pem, struct str key_pem,
		      struct err *err)
{
	if (parse_certs(&c->cert, cert_pem, "certificate", err) < 0)
		return -1;
	if (tls_parse_key(&c->key, key_pem, "private key", err) < 0)
		return -1;
	int ret = mbedtls_pk_check_pair(&c->cert.pk, &c->key, rng, NULL);
	if (tls_is_no_memory(ret))
		return tls_set_err(err, ret, "private key");
	if (ret != 0)
		return err_set(err, ERR_INVALID, 0,
			       "the private key doesn't belong to the certificate");
	ret = mbedtls_ssl_conf_own_cert(&c->ssl, &c->cert, &c->key);
	return ret == 0 ? 0 : tls_set_err(err, ret, "certificate");
}

static int read_file(const char *path, char **ret, size_t *ret_len, struct err *err)
{
	struct buf text = BUF_INIT(CA_FILE_LIMIT);
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status;
	if (fd < 0)
		return err_errno(err, errno, "%s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		status = err_set(err, ERR_INVALID, 0, "%s: not a file of certificates", path);
	else if ((status = file_read_all(fd, &text, err)) < 0)
		err_wrap(err, "%s", path);
	close(fd);
	if (status < 0)
		buf_done(&text);
	else
		*ret = buf_steal(&text, ret_len);
	return status;
}

/* The first that there is; where there is none, the first, whose name the error has then. */
static const char *system_ca_file(void)
{
	for (size_t i = 0; i < sizeof(system_ca_files) / sizeof(system_ca_files[0]); i++) {
		if (access(system_ca_files[i], F_OK) == 0)
			return system_ca_files[i];
	}
	return system_ca_files[0];
}

static int load_authorities(struct tls_config *c, struct str pem, const char *file, struct err *err)
{
	if (pem.len == 0) {
		CLEANUP_FREE char *text = NULL;
		size_t len = 0;
		if (!file)
			file = system_ca_file();
		if (read_file(file, &text, &len, err) < 0)
			return err_wrap(err, "trusted authorities");
		if (parse_certs(&c->ca, (struct str){text, len}, file, err) < 0)
			return err_wrap(err, "trusted authorities");
	} else if (parse_certs(&c->ca, pem, "trusted authorities", err) < 0) {
		return -1;
	}
	mbedtls_ssl_conf_ca_chain(&c->ssl, &c->ca, NULL);
	return 0;
}

/* What both ends have in common. */
static int set_defaults(struct tls_config *c, const char *const *alpn, struct err *err)
{
	int ret = mbedtls_ssl_config_defaults(
		&c->ssl, c->is_server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
		MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);
	if (ret != 0)
		return tls_set_err(err, ret, "TLS settings");
	mbedtls_ssl_conf_rng(&c->ssl, rng, NULL);
	mbedtls_ssl_conf_min_tls_version(&c->ssl, MBEDTLS_SSL_VERSION_TLS1_2);
	mbedtls_ssl_conf_max_tls_version(&c->ssl, MBEDTLS_SSL_VERSION_TLS1_3);
	mbedtls_ssl_conf_sig_algs(&c->ssl, sig_algs);
	mbedtls_ssl_conf_groups(&c->ssl, groups);
	if (tls_suites())
		mbedtls_ssl_conf_ciphersuites(&c->ssl, tls_suites());
	/* No resumption: each connection verifies its peer, and tickets would need keys that age.
	 */
	mbedtls_ssl_conf_session_tickets(&c->ssl, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
	mbedtls_ssl_conf_renegotiation(&c->ssl, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
	size_t n = 0;
	for (; alpn && alpn[n]; n++) {
		if (n == TLS_ALPN_MAX)
			return err_set(err, ERR_INVALID, 0, "more than %d ALPN names",
				       TLS_ALPN_MAX);
		c->alpn[n] = c->alpn_copy[n] = xstrdup(alpn[n]);
	}
	if (n > 0) {
		ret = mbedtls_ssl_conf_alpn_protocols(&c->ssl, c->alpn);
		if (ret != 0)
			return tls_set_err(err, ret, "ALPN names");
	}
	return 0;
}

static int fill_client(struct tls_config *c, const struct tls_client_opts *opts, struct err *err)
{
	if (set_defaults(c, opts->alpn, err) < 0)
		return -1;
	c->skip_verify = opts->insecure_skip_verify;
	mbedtls_ssl_conf_authmode(&c->ssl, c->skip_verify ? MBEDTLS_SSL_VERIFY_NONE
							  : MBEDTLS_SSL_VERIFY_REQUIRED);
	if (!c->skip_verify && load_authorities(c, opts->ca_pem, opts->ca_file, err) < 0)
		return -1;
	if (!opts->cert_pem.len != !opts->key_pem.len)
		return err_set(err, ERR_INVALID, 0,
			       "client certificate and key: one is there, the other isn't");
	return opts->cert_pem.len > 0 ? parse_pair(c, opts->cert_pem, opts->key_pem, err) : 0;
}

/* Whether what a client has is enough, tls_session.c decides after the handshake: in TLS 1.3
 * mbedTLS sends a server's alert of refusal under keys that the client has left behind already, so
 * that no client could read why. */
static int trust_clients(struct tls_config *c, struct str ca_pem, struct err *err)
{
	if (parse_certs(&c->ca, ca_pem, "clients' authorities", err) < 0)
		return -1;
	mbedtls_ssl_conf_ca_chain(&c->ssl, &c->ca, NULL);
	mbedtls_ssl_conf_authmode(&c->ssl, MBEDTLS_SSL_VERIFY_OPTIONAL);
	return 0;
}

static int fill_server(struct tls_config *c, const struct tls_server_opts *opts, struct err *err)
{
	if (set_defaults(c, opts->alpn, err) < 0)
		return -1;
	mbedtls_ssl_conf_authmode(&c->ssl, MBEDTLS_SSL_VERIFY_NONE);
	if (opts->client_ca_pem.len > 0) {
		if (trust_clients(c, opts->client_ca_pem, err) < 0)
			return -1;
		c->client_cert_required = opts->client_cert_required;
	} else if (opts->client_cert_required) {
		return err_set(
			err, ERR_INVALID, 0,
			"client certificates are required, but no authority for them is given");
	}
	return parse_pair(c, opts->cert_pem, opts->key_pem, err);
}

static int fill_ruled(struct tls_config *c, const struct tls_client_rule *rule, struct err *err)
{
	int ret;
	if (set_defaults(c, c->base->alpn, err) < 0 || trust_clients(c, rule->ca_pem, err) < 0)
		return -1;
	c->client_cert_required = true;
	c->client_names = rule->names[0] ? xstrdup(rule->names) : NULL;
	ret = mbedtls_ssl_conf_own_cert(&c->ssl, &c->base->cert, &c->base->key);
	return ret == 0 ? 0 : tls_set_err(err, ret, "certificate");
}

int tls_config_new_ruled(struct tls_config *base, const struct tls_client_rule *rule,
			 struct tls_config **ret, struct err *err)
{
	struct tls_config *c = new_config(true);
	c->base = tls_config_ref(base);
	if (fill_ruled(c, rule, err) < 0) {
		tls_config_unref(c);
		return -1;
	}
	*ret = c;
	return 0;
}

int tls_config_new_client(const struct tls_client_opts *opts, struct tls_config **ret,
			  struct err *err)
{
	struct tls_config *c = new_config(false);
	if (fill_client(c, opts, err) < 0) {
		tls_config_unref(c);
		return -1;
	}
	*ret = c;
	return 0;
}

int tls_config_new_server(const struct tls_server_opts *opts, struct tls_config **ret,
			  struct err *err)
{
	struct tls_config *c = new_config(true);
	if (fill_server(c, opts, err) < 0) {
		tls_config_unref(c);
		return -1;
	}
	*ret = c;
	return 0;
}
