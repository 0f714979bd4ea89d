/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbedTLS over a non-blocking descriptor: moves bytes, says what it waits for, puts its faults
 * into words. Never waits and never calls back. Uses core.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <mbedtls/error.h>

#include "core/str.h"
#include "net_impl.h"
#include "tls_impl.h"

/* Of one look, four records: mbedTLS reads on over what isn't data (session tickets, which a server
 * may send without end, RFC 8446 4.6.1), and others want their turn. */
#define LOOK_BYTES                 ((size_t)64 << 10)
#define ALERT_CERTIFICATE_REQUIRED 116 /* RFC 8446 6.2; mbedTLS has no name for it */

/* RFC 8446 6 and RFC 5246 7.2: those that a person can do something about. */
static const struct {
	unsigned char number;
	const char *text;
} alerts[] = {
	{40, "handshake failure"},
	{42, "bad certificate"},
	{43, "unsupported certificate"},
	{44, "certificate revoked"},
	{45, "certificate expired"},
	{46, "certificate unknown"},
	{47, "illegal parameter"},
	{48, "unknown certificate authority"},
	{49, "access denied"},
	{70, "protocol version"},
	{71, "insufficient security"},
	{80, "internal error"},
	{112, "unrecognized name"},
	{ALERT_CERTIFICATE_REQUIRED, "certificate required"},
	{120, "no application protocol in common"},
};

static int bio_send(void *arg, const unsigned char *p, size_t len)
{
	struct tls_session *s = arg;
	for (;;) {
		ssize_t n = send(s->fd, p, len, MSG_NOSIGNAL | (s->more ? MSG_MORE : 0));
		if (n >= 0)
			return (int)n;
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return MBEDTLS_ERR_SSL_WANT_WRITE;
		s->io_errno = errno;
		return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
	}
}

static int bio_recv(void *arg, unsigned char *p, size_t len)
{
	struct tls_session *s = arg;
	if (s->look_bytes == 0) /* what is left makes it readable again */
		return MBEDTLS_ERR_SSL_WANT_READ;
	for (;;) {
		ssize_t n = recv(s->fd, p, len < s->look_bytes ? len : s->look_bytes, 0);
		if (n >= 0) {
			s->look_bytes -= (size_t)n;
			return (int)n;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return MBEDTLS_ERR_SSL_WANT_READ;
		s->io_errno = errno;
		return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
	}
}

/* The name to verify: mbedTLS does names, we do addresses (which mustn't be sent as SNI, RFC 6066
 * 3, as mbedTLS would). */
static int set_name(struct tls_session *s, const char *server_name)
{
	size_t len = strlen(server_name);
	if (len > 0 && server_name[len - 1] == '.')
		len--;
	if (len >= sizeof(s->name))
		return MBEDTLS_ERR_SSL_BAD_INPUT_DATA;
	memcpy(s->name, server_name, len);
	s->name[len] = '\0';
	bool is_addr = net_addr_parse(s->name, 0, &s->name_addr) == 0;
	return mbedtls_ssl_set_hostname(&s->ssl, is_addr ? NULL : s->name);
}

int tls_session_new(struct tls_config *config, int fd, const char *server_name, const char *peer,
		    struct tls_session **ret, struct err *err)
{
	struct tls_session *s = xcalloc(1, sizeof(*s));
	s->config = tls_config_ref(config);
	s->fd = fd;
	snprintf(s->label, sizeof(s->label), "certificate of %s%s", server_name ? "" : "client ",
		 peer);
	mbedtls_ssl_init(&s->ssl);
	int status = mbedtls_ssl_setup(&s->ssl, &config->ssl);
	if (status == 0 && server_name)
		status = set_name(s, server_name);
	if (status != 0) {
		char text[128];
		mbedtls_strerror(status, text, sizeof(text));
		tls_session_free(s);
		return err_set(err, ERR_BUSY, status, "TLS: %s", text);
	}
	mbedtls_ssl_set_bio(&s->ssl, s, bio_send, bio_recv, NULL);
	mbedtls_ssl_set_verify(&s->ssl, tls_verify_cb, s);
	*ret = s;
	return 0;
}

void tls_session_free(struct tls_session *s)
{
	if (!s)
		return;
	mbedtls_ssl_free(&s->ssl);
	tls_config_unref(s->config);
	free(s->subject);
	free(s);
}

static void set_alert(struct tls_session *s, struct err *err)
{
	/* mbedTLS keeps the alert's number in the record that it has just read, and has no accessor
	 * for it. */
	unsigned char number = s->ssl.MBEDTLS_PRIVATE(in_msg)[1];
	const char *text = "unnamed";
	for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++)
		if (alerts[i].number == number)
			text = alerts[i].text;
	bool denied = (number >= 42 && number <= 49 && number != 47) || number == 116;
	err_set(err, denied ? ERR_DENIED : ERR_PROTOCOL, number,
		"the peer ended it with TLS alert %u (%s)", number, text);
}

/* mbedTLS doesn't take it, and we ask for it last (tls.c, sig_algs): the server has its own mind.
 */
static bool is_pss_in_tls12(struct tls_session *s, int status)
{
	return status == MBEDTLS_ERR_SSL_ILLEGAL_PARAMETER && !s->config->is_server &&
	       !mbedtls_ssl_is_handshake_over(&s->ssl) &&
	       mbedtls_ssl_get_version_number(&s->ssl) == MBEDTLS_SSL_VERSION_TLS1_2;
}

static enum io_status failed(struct tls_session *s, int status, struct err *err)
{
	char text[128];
	if (s->io_errno != 0) {
		net_err_errno(err, s->io_errno, "connection lost");
		return IO_FAILED;
	}
	if (is_pss_in_tls12(s, status)) {
		err_set(err, ERR_PROTOCOL, status,
			"the server seems to sign with RSA-PSS in TLS 1.2, which isn't supported: "
			"it needs TLS 1.3, a key for ECDSA, or to take its clients' preference");
		return IO_FAILED;
	}
	switch (status) {
	case MBEDTLS_ERR_X509_CERT_VERIFY_FAILED:
		if (s->worst > 0)
			err_copy(err, &s->verify_err);
		else
			err_set(err, ERR_DENIED, status, "%s isn't acceptable", s->label);
		break;
	case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
		set_alert(s, err);
		break;
	case MBEDTLS_ERR_SSL_CONN_EOF:
		err_set(err, ERR_UNAVAILABLE, status, "closed by the peer without TLS's goodbye");
		break;
	case MBEDTLS_ERR_SSL_INVALID_RECORD:
		err_set(err, ERR_PROTOCOL, status, "the peer doesn't speak TLS here");
		break;
	case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
		err_set(err, ERR_DENIED, status, "the client has no certificate");
		break;
	case MBEDTLS_ERR_SSL_ALLOC_FAILED:
		err_set(err, ERR_BUSY, status, "TLS: out of memory");
		break;
	default:
		mbedtls_strerror(status, text, sizeof(text));
		err_set(err, ERR_PROTOCOL, status, "TLS: %s", text);
	}
	return IO_FAILED;
}

static enum io_status to_status(struct tls_session *s, int status, struct err *err)
{
	if (status == MBEDTLS_ERR_SSL_WANT_READ)
		return IO_WANT_READ;
	if (status == MBEDTLS_ERR_SSL_WANT_WRITE)
		return IO_WANT_WRITE;
	return failed(s, status, err);
}

static enum io_status refuse(struct tls_session *s, unsigned char alert, int status,
			     struct err *err)
{
	mbedtls_ssl_send_alert_message(&s->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL, alert);
	return failed(s, status, err);
}

/* A server's mbedTLS goes on after a bad certificate, or none (tls.c says why); we don't. */
static enum io_status finish_handshake(struct tls_session *s, struct err *err)
{
	const mbedtls_x509_crt *crt = mbedtls_ssl_get_peer_cert(&s->ssl);
	if (!crt && s->config->client_cert_required) {
		bool tls13 = mbedtls_ssl_get_version_number(&s->ssl) == MBEDTLS_SSL_VERSION_TLS1_3;
		return refuse(s,
			      tls13 ? ALERT_CERTIFICATE_REQUIRED
				    : MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE,
			      MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE, err);
	}
	if (!crt || s->config->skip_verify)
		return IO_OK;
	if (!tls_verify_after(s, mbedtls_ssl_get_verify_result(&s->ssl)) ||
	    !tls_verify_client_name(s, crt))
		return refuse(s, s->alert ? s->alert : MBEDTLS_SSL_ALERT_MSG_BAD_CERT,
			      MBEDTLS_ERR_X509_CERT_VERIFY_FAILED, err);
	char dn[512];
	if (mbedtls_x509_dn_gets(dn, sizeof(dn), &crt->subject) >= 0)
		s->subject = xstrdup(dn);
	return IO_OK;
}

enum io_status tls_session_handshake(struct tls_session *s, struct err *err)
{
	s->look_bytes = LOOK_BYTES;
	int status = mbedtls_ssl_handshake(&s->ssl);
	if (status == 0)
		return finish_handshake(s, err);
	if (status == MBEDTLS_ERR_SSL_CONN_EOF && s->io_errno == 0) {
		err_set(err, ERR_UNAVAILABLE, status,
			"the peer closed the connection during the TLS handshake");
		return IO_FAILED;
	}
	return to_status(s, status, err);
}

enum io_status tls_session_read(struct tls_session *s, void *p, size_t len, size_t *ret_len,
				struct err *err)
{
	int status;
	/* A write may have failed before: what the peer said ahead of that still counts. */
	s->io_errno = 0;
	s->look_bytes = LOOK_BYTES;
	do
		status = mbedtls_ssl_read(&s->ssl, p, len);
	while (status == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET);
	if (status > 0) {
		*ret_len = (size_t)status;
		return IO_OK;
	}
	if (status == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
		return IO_EOF;
	if (status == 0) /* mbedTLS: the underlying transport was closed, without close_notify */
		status = MBEDTLS_ERR_SSL_CONN_EOF;
	return to_status(s, status, err);
}

enum io_status tls_session_write(struct tls_session *s, const void *p, size_t len, bool more,
				 size_t *ret_len, struct err *err)
{
	s->more = more;
	int status = mbedtls_ssl_write(&s->ssl, p, len);
	s->more = false;
	if (status < 0)
		return to_status(s, status, err);
	*ret_len = (size_t)status;
	return IO_OK;
}

enum io_status tls_session_notify_end(struct tls_session *s, struct err *err)
{
	int status = mbedtls_ssl_close_notify(&s->ssl);
	return status == 0 ? IO_OK : to_status(s, status, err);
}
