/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the net tests share: a loop that is pumped until something holds, ends of connections that
 * record what happens to them, and certificates made on the spot. Included once by each test.
 */
#ifndef IPU_T_UNIT_NET_TEST_H
#define IPU_T_UNIT_NET_TEST_H

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mbedtls/ecp.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/rand.h"
#include "core/str.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/listen.h"
#include "net/net.h"
#include "net/resolve.h"
#include "net/tls.h"

#define WALL_2024_06_01 INT64_C(1717200000000)

static struct loop *loop;
static struct net *net;

/* Turns the loop until cond holds, some 20 s at most; its value is whether cond holds. */
#define PUMP(cond)                                                                                 \
	__extension__({                                                                            \
		for (int pump_ = 0; pump_ < 4000 && !(cond); pump_++)                              \
			loop_turn(loop, 5);                                                        \
		(cond);                                                                            \
	})

static inline void test_begin(void)
{
	struct err err = ERR_INIT;
	clock_freeze(1000000, WALL_2024_06_01);
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		bail_out(err.msg);
}

static inline void test_end(void)
{
	net_free(net);
	loop_free(loop);
}

static inline void settle(void)
{
	for (int i = 0; i < 10; i++)
		loop_turn(loop, 0);
}

/* --- An end of a connection, which records. --- */

struct end {
	struct net_conn *conn;
	struct buf in;
	bool eof;
	struct err err; /* of on_error, or of connecting */
	unsigned data_calls, drains, errors, called_back;
	size_t take;     /* takes at most so many bytes a call; 0: all */
	bool stop_after; /* stops reading after each call */
	bool echo;
	enum { CLOSE_NEVER, CLOSE_ON_DATA, CLOSE_ON_EOF, CLOSE_ON_ERROR, CLOSE_ON_DRAIN } close_on;
};

#define END_INIT {.in = BUF_INIT(64 << 20)}

static inline void end_close(struct end *e)
{
	net_conn_close(e->conn);
	e->conn = NULL;
}

static inline void end_done(struct end *e)
{
	end_close(e);
	buf_done(&e->in);
}

static size_t end_on_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	struct end *e = arg;
	size_t n = e->take > 0 && e->take < len ? e->take : len;
	e->data_calls++;
	/* Tests make an allocation fail, once; it mustn't be the test's own. */
	if (buf_append(&e->in, p, n, NULL) < 0 && buf_append(&e->in, p, n, NULL) < 0)
		bail_out("the test's buffer is full");
	if (e->echo && net_conn_write(conn, p, n, NULL) < 0)
		bail_out("the echo's queue is full");
	if (e->stop_after || (e->echo && net_conn_is_full(conn)))
		net_conn_read_stop(conn);
	if (e->close_on == CLOSE_ON_DATA)
		end_close(e);
	return n;
}

static void end_on_eof(struct net_conn *conn, void *arg)
{
	struct end *e = arg;
	(void)conn;
	e->eof = true;
	if (e->close_on == CLOSE_ON_EOF)
		end_close(e);
}

static void end_on_error(struct net_conn *conn, const struct err *why, void *arg)
{
	struct end *e = arg;
	(void)conn;
	e->errors++;
	e->err = *why;
	if (e->close_on == CLOSE_ON_ERROR)
		end_close(e);
}

static void end_on_drain(struct net_conn *conn, void *arg)
{
	struct end *e = arg;
	e->drains++;
	if (e->echo)
		net_conn_read_start(conn);
	if (e->close_on == CLOSE_ON_DRAIN)
		end_close(e);
}

static const struct net_conn_handler end_handler = {
	.on_data = end_on_data,
	.on_eof = end_on_eof,
	.on_error = end_on_error,
	.on_drain = end_on_drain,
};

static inline void end_take(struct end *e, struct net_conn *conn)
{
	e->conn = conn;
	net_conn_set_handler(conn, &end_handler, e);
	net_conn_read_start(conn);
}

__attribute__((unused)) static void end_connected(struct net_conn *conn, const struct err *err,
						  void *arg)
{
	struct end *e = arg;
	e->called_back++;
	if (err)
		e->err = *err;
	else
		end_take(e, conn);
}

/* For listeners: arg is an end that takes the first connection; more are closed. */
__attribute__((unused)) static void end_accepted(struct net_listener *l, struct net_conn *conn,
						 void *arg)
{
	struct end *e = arg;
	(void)l;
	e->called_back++;
	if (e->conn)
		net_conn_close(conn);
	else
		end_take(e, conn);
}

static inline struct op *end_connect(struct end *e, const char *host, uint16_t port,
				     struct tls_config *tls, const char *server_name)
{
	struct net_connect_opts opts = {.host = host,
					.port = port,
					.tls = tls,
					.server_name = server_name,
					.deadline_ms = clock_mono_ms() + 5000};
	return net_connect_start(net, NULL, &opts, end_connected, e);
}

/* Bytes that tell their place, so that lost, doubled and swapped ones are seen. */
static inline char *pattern(size_t len)
{
	char *p = xcalloc(1, len + 1);
	uint32_t x = 12345;
	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = (char)(x >> 24);
	}
	return p;
}

/* --- Certificates. --- */

struct test_cert {
	mbedtls_pk_context key;
	const char *subject;
	char cert_pem[4096], key_pem[2048];
};

struct cert_spec {
	const char *subject;   /* "CN=api.example" */
	const char *dns[3];    /* alternative names */
	unsigned char ip4[4];  /* 0.0.0.0: none */
	const char *from, *to; /* "20240101000000"; NULL: all of 2020 to 2029 */
	bool is_ca;
};

static inline int test_rng(void *arg, unsigned char *p, size_t len)
{
	(void)arg;
	rand_bytes(p, len);
	return 0;
}

static inline void must(int status, const char *what)
{
	if (status != 0)
		bail_out(what);
}

static inline void cert_names(mbedtls_x509write_cert *w, const struct cert_spec *spec,
			      mbedtls_x509_san_list san[4])
{
	mbedtls_x509_san_list *first = NULL;
	for (size_t i = 0; i < 3 && spec->dns[i]; i++) {
		struct str name = str_of(spec->dns[i]);
		san[i].node.type = MBEDTLS_X509_SAN_DNS_NAME;
		san[i].node.san.unstructured_name.p = (unsigned char *)xstrdup(name.p);
		san[i].node.san.unstructured_name.len = name.len;
		san[i].next = first;
		first = &san[i];
	}
	if (spec->ip4[0] != 0) {
		san[3].node.type = MBEDTLS_X509_SAN_IP_ADDRESS;
		san[3].node.san.unstructured_name.p = xcalloc(1, 4);
		memcpy(san[3].node.san.unstructured_name.p, spec->ip4, 4);
		san[3].node.san.unstructured_name.len = 4;
		san[3].next = first;
		first = &san[3];
	}
	if (first)
		must(mbedtls_x509write_crt_set_subject_alternative_name(w, first), "names");
	for (size_t i = 0; i < 4; i++)
		free(san[i].node.san.unstructured_name.p);
}

/* issuer NULL: signed by itself. */
static inline struct test_cert *cert_new(const struct cert_spec *spec, struct test_cert *issuer)
{
	static unsigned char serial;
	struct test_cert *c = xcalloc(1, sizeof(*c));
	mbedtls_x509_san_list san[4] = {0};
	mbedtls_x509write_cert w;
	mbedtls_pk_init(&c->key);
	must(mbedtls_pk_setup(&c->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)), "key");
	must(mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(c->key), test_rng, NULL),
	     "key");
	c->subject = spec->subject;
	serial++;
	mbedtls_x509write_crt_init(&w);
	mbedtls_x509write_crt_set_version(&w, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(&w, MBEDTLS_MD_SHA256);
	must(mbedtls_x509write_crt_set_serial_raw(&w, &serial, 1), "serial");
	must(mbedtls_x509write_crt_set_subject_name(&w, spec->subject), "subject");
	must(mbedtls_x509write_crt_set_issuer_name(&w, issuer ? issuer->subject : spec->subject),
	     "issuer");
	mbedtls_x509write_crt_set_subject_key(&w, &c->key);
	mbedtls_x509write_crt_set_issuer_key(&w, issuer ? &issuer->key : &c->key);
	must(mbedtls_x509write_crt_set_validity(&w, spec->from ? spec->from : "20200101000000",
						spec->to ? spec->to : "20291231235959"),
	     "dates");
	must(mbedtls_x509write_crt_set_basic_constraints(&w, spec->is_ca, -1), "constraints");
	cert_names(&w, spec, san);
	must(mbedtls_x509write_crt_pem(&w, (unsigned char *)c->cert_pem, sizeof(c->cert_pem),
				       test_rng, NULL),
	     "certificate");
	must(mbedtls_pk_write_key_pem(&c->key, (unsigned char *)c->key_pem, sizeof(c->key_pem)),
	     "key");
	mbedtls_x509write_crt_free(&w);
	return c;
}

static inline void cert_free(struct test_cert *c)
{
	mbedtls_pk_free(&c->key);
	free(c);
}

#endif
