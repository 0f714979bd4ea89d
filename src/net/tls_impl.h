/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TLS session: mbedTLS's context over one descriptor, without a loop. It says what it waits for;
 * conn.c does the waiting. The session owns its context and a reference to its settings.
 */
#ifndef IPU_NET_TLS_IMPL_H
#define IPU_NET_TLS_IMPL_H

#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <mbedtls/pk.h>

#include "core/err.h"
#include "net/net.h"
#include "net/tls.h"

#define TLS_ALPN_MAX 4

struct tls_config {
	unsigned refs;
	bool is_server;
	bool skip_verify;
	bool client_cert_required;
	mbedtls_ssl_config ssl;
	mbedtls_x509_crt ca, cert;
	mbedtls_pk_context key;
	struct tls_config *base; /* whose certificate and key these are; NULL: its own */
	char *client_names;      /* with commas between; NULL: any */
	char *alpn_copy[TLS_ALPN_MAX];
	const char *alpn[TLS_ALPN_MAX + 1]; /* the same, as mbedTLS wants and keeps them */
};

/* What came of an attempt to move bytes. */
enum io_status {
	IO_OK,
	IO_WANT_READ,
	IO_WANT_WRITE,
	IO_EOF,   /* the peer's orderly end */
	IO_FAILED /* err is filled */
};

struct tls_session {
	mbedtls_ssl_context ssl;
	struct tls_config *config;
	int fd;
	int io_errno;                   /* of the last failed system call, 0: none */
	size_t look_bytes;              /* that may still be read in this look */
	bool more;                      /* other records follow the one that is being sent */
	char *subject;                  /* of the peer's verified certificate, or NULL */
	char label[NET_HOST_SIZE + 64]; /* "certificate of api.example:6443", for messages */
	char name[NET_HOST_SIZE];       /* that the certificate must have; empty: any */
	struct net_addr name_addr;      /* the same as an address, len 0: it's a name */
	unsigned worst;                 /* rank of what verify_err says, 0: nothing */
	unsigned char alert;            /* that fits it */
	struct err verify_err;
};

/* fd is borrowed. server_name: as a client's, NULL as a server's. peer: for messages. */
int tls_session_new(struct tls_config *config, int fd, const char *server_name, const char *peer,
		    struct tls_session **ret, struct err *err);
void tls_session_free(struct tls_session *s);

enum io_status tls_session_handshake(struct tls_session *s, struct err *err);
enum io_status tls_session_read(struct tls_session *s, void *p, size_t len, size_t *ret_len,
				struct err *err);
/* After IO_WANT_… the same bytes have to be given again. more: others follow at once, so that this
 * record needn't leave by itself. */
enum io_status tls_session_write(struct tls_session *s, const void *p, size_t len, bool more,
				 size_t *ret_len, struct err *err);
enum io_status tls_session_notify_end(struct tls_session *s, struct err *err);

/* mbedTLS's verify callback; arg is the session. Judges dates by core's clock, and addresses. */
int tls_verify_cb(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags);

/* Whether mbedTLS has found nothing, in the callback or behind it (what a certificate is for). */
bool tls_verify_after(struct tls_session *s, uint32_t flags);
/* Whether the client's certificate, which is good, has one of the names that are asked for; if not,
 * it's told as tls_verify_cb tells its findings. */
bool tls_verify_client_name(struct tls_session *s, const mbedtls_x509_crt *crt);

#endif
