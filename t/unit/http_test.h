/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of HTTP's client and server share: raw ends that send and record bytes, a server
 * end that follows a script, certificates for 127.0.0.1. Included once by each test.
 */
#ifndef IPU_T_UNIT_HTTP_TEST_H
#define IPU_T_UNIT_HTTP_TEST_H

#include "net_test.h"

#include "http/client.h"
#include "http/server.h"

/* ---- a raw end ---- */

static inline void raw_open(struct end *e, unsigned port, struct tls_config *tls)
{
	*e = (struct end)END_INIT;
	end_connect(e, "127.0.0.1", (uint16_t)port, tls, NULL);
	if (!PUMP(e->conn || e->called_back) || !e->conn)
		bail_out("can't connect to the server under test");
}

static inline void raw_send(struct end *e, const char *text)
{
	net_conn_write(e->conn, text, strlen(text), NULL);
}

/* What has come, as a string; the caller frees. */
static inline char *raw_text(const struct end *e)
{
	return xstrndup(e->in.p ? e->in.p : "", e->in.len);
}

/* Waits until so many bytes came, or the peer has ended. */
static inline bool raw_wait(const struct end *e, size_t len)
{
	return PUMP(e->in.len >= len || e->eof || e->errors) && e->in.len >= len;
}

static inline bool raw_wait_eof(const struct end *e)
{
	return PUMP(e->eof || e->errors);
}

/* ---- certificates ---- */

struct test_tls {
	struct test_cert *ca, *server;
	struct tls_config *for_server, *for_client;
};

static inline void test_tls_init(struct test_tls *t)
{
	const struct cert_spec ca = {.subject = "CN=ca", .is_ca = true};
	const struct cert_spec server = {
		.subject = "CN=server", .dns = {"localhost"}, .ip4 = {127, 0, 0, 1}};
	struct err err = ERR_INIT;

	t->ca = cert_new(&ca, NULL);
	t->server = cert_new(&server, t->ca);
	const struct tls_server_opts so = {.cert_pem = str_of(t->server->cert_pem),
					   .key_pem = str_of(t->server->key_pem)};
	const struct tls_client_opts co = {.ca_pem = str_of(t->ca->cert_pem)};
	if (tls_config_new_server(&so, &t->for_server, &err) < 0 ||
	    tls_config_new_client(&co, &t->for_client, &err) < 0)
		bail_out(err.msg);
}

static inline void test_tls_done(struct test_tls *t)
{
	tls_config_unref(t->for_server);
	tls_config_unref(t->for_client);
	cert_free(t->ca);
	cert_free(t->server);
}

#endif
