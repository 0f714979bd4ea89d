/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS: the judgement of certificates by a table, both versions of the protocol, client
 * certificates, ALPN, a relay that passes one byte at a time, cuts and forges, and bad settings.
 */
#include "net_test.h"

#include <sys/ioctl.h>
#include <sys/stat.h>

#include "core/log.h"
#include "net/conn_impl.h"

static struct test_cert *ca, *other_ca, *old_ca;
static struct test_cert *good, *expired, *future, *names, *unknown, *by_self, *cn_only, *by_old;
static struct test_cert *client, *client_expired, *client_nameless, *client_twice;
static struct end a, b; /* the client's, the server's */
static struct net_listener *listener;

static void make_certs(void)
{
	ca = cert_new(&(struct cert_spec){.subject = "O=test,CN=CA", .is_ca = true}, NULL);
	other_ca = cert_new(&(struct cert_spec){.subject = "CN=another CA", .is_ca = true}, NULL);
	old_ca = cert_new(
		&(struct cert_spec){.subject = "CN=old CA", .to = "20240101000000", .is_ca = true},
		NULL);
	/* Expired by the real clock, not by the test's. */
	good = cert_new(&(struct cert_spec){.subject = "CN=api",
					    .dns = {"api.example", "*.wild.example"},
					    .ip4 = {127, 0, 0, 1},
					    .to = "20250101000000"},
			ca);
	expired = cert_new(&(struct cert_spec){.subject = "CN=expired",
					       .dns = {"api.example"},
					       .to = "20240301100000"},
			   ca);
	/* Valid by the real clock, not yet by the test's. */
	future = cert_new(&(struct cert_spec){.subject = "CN=future",
					      .dns = {"api.example"},
					      .from = "20240701000000"},
			  ca);
	names = cert_new(&(struct cert_spec){.subject = "CN=api.example",
					     .dns = {"a.example", "b.example"},
					     .ip4 = {10, 0, 0, 1}},
			 ca);
	unknown = cert_new(&(struct cert_spec){.subject = "CN=x", .dns = {"api.example"}},
			   other_ca);
	by_self = cert_new(&(struct cert_spec){.subject = "CN=self", .dns = {"api.example"}}, NULL);
	cn_only = cert_new(&(struct cert_spec){.subject = "CN=api.example"}, ca);
	by_old = cert_new(&(struct cert_spec){.subject = "CN=x", .dns = {"api.example"}}, old_ca);
	client = cert_new(&(struct cert_spec){.subject = "O=team,CN=someone"}, ca);
	client_expired = cert_new(&(struct cert_spec){.subject = "CN=late", .to = "20240301100000"},
				  ca);
	client_nameless = cert_new(&(struct cert_spec){.subject = "O=team"}, ca);
	client_twice = cert_new(&(struct cert_spec){.subject = "CN=first,CN=second"}, ca);
}

static void free_certs(void)
{
	struct test_cert *all[] = {
		ca,          other_ca, old_ca,  good,   expired, future,         names,
		unknown,     by_self,  cn_only, by_old, client,  client_expired, client_nameless,
		client_twice};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		cert_free(all[i]);
}

static struct tls_config *server_config(const struct test_cert *cert)
{
	struct err err = ERR_INIT;
	struct tls_config *c = NULL;
	struct tls_server_opts opts = {.cert_pem = str_of(cert->cert_pem),
				       .key_pem = str_of(cert->key_pem)};
	if (tls_config_new_server(&opts, &c, &err) < 0)
		bail_out(err.msg);
	return c;
}

static struct tls_config *client_config(const struct test_cert *trusted, bool skip_verify)
{
	struct err err = ERR_INIT;
	struct tls_config *c = NULL;
	struct tls_client_opts opts = {.ca_pem = str_of(trusted->cert_pem),
				       .insecure_skip_verify = skip_verify};
	if (tls_config_new_client(&opts, &c, &err) < 0)
		bail_out(err.msg);
	return c;
}

static void only_tls12(struct tls_config *c)
{
	mbedtls_ssl_conf_max_tls_version(&c->ssl, MBEDTLS_SSL_VERSION_TLS1_2);
}

/* --- Over TCP, through listener and connector. --- */

static void serve(struct tls_config *config)
{
	struct err err = ERR_INIT;
	struct net_listen_opts opts = {.addr = "127.0.0.1:0", .tls = config};
	a = b = (struct end)END_INIT;
	if (net_listener_new(net, &opts, end_accepted, &b, &listener, &err) < 0)
		bail_out(err.msg);
	tls_config_unref(config);
}

static void stop_serving(void)
{
	net_listener_close(listener);
	end_done(&a);
	end_done(&b);
	settle();
}

static void connect_with(struct tls_config *config, const char *server_name)
{
	end_connect(&a, "127.0.0.1", net_listener_port(listener), config, server_name);
	tls_config_unref(config);
	PUMP(a.called_back > 0);
}

static void test_certificates(void)
{
	const struct {
		const char *what;
		struct test_cert *cert, *trusted;
		const char *server_name; /* NULL: the address */
		const char *msg;         /* NULL: accepted; %u: the port */
	} rows[] = {
		{"good", good, ca, "api.example", NULL},
		{"good, final dot", good, ca, "api.example.", NULL},
		{"good, other case", good, ca, "API.example", NULL},
		{"good, wildcard", good, ca, "x.wild.example", NULL},
		{"good, address", good, ca, NULL, NULL},
		{"common name only", cn_only, ca, "api.example", NULL},
		{"trusted by itself", by_self, by_self, "api.example", NULL},
		{"expired", expired, ca, "api.example",
		 "certificate of 127.0.0.1:%u has expired (2024-03-01T10:00:00Z)"},
		{"not valid yet", future, ca, "api.example",
		 "certificate of 127.0.0.1:%u isn't valid yet (from 2024-07-01T00:00:00Z)"},
		{"other names", names, ca, "api.example",
		 "certificate of 127.0.0.1:%u is for a.example, b.example, 10.0.0.1, not for "
		 "api.example"},
		{"other address", names, ca, NULL,
		 "certificate of 127.0.0.1:%u is for a.example, b.example, 10.0.0.1, not for "
		 "127.0.0.1"},
		{"wildcard is one label", good, ca, "x.y.wild.example", "not for x.y.wild.example"},
		{"unknown authority", unknown, ca, "api.example",
		 "certificate of 127.0.0.1:%u is signed by an unknown authority (CN=another CA)"},
		{"self-signed", by_self, ca, "api.example", "signed by an unknown authority"},
		{"authority expired", by_old, old_ca, "api.example",
		 "certificate of 127.0.0.1:%u isn't valid: its authority CN=old CA has expired "
		 "(2024-01-01T00:00:00Z)"},
	};
	for (size_t i = 0; i < 2 * (sizeof(rows) / sizeof(rows[0])); i++) {
		size_t row = i / 2;
		struct tls_config *config = client_config(rows[row].trusted, false);
		if (i % 2)
			only_tls12(config);
		row_begin("%s, %s", rows[row].what, i % 2 ? "TLS 1.2" : "TLS 1.3");
		serve(server_config(rows[row].cert));
		connect_with(config, rows[row].server_name);
		if (!rows[row].msg) {
			ok(a.conn && PUMP(b.conn), "accepted (%s)", a.err.msg);
			is_str(a.conn ? net_conn_tls_version(a.conn) : NULL,
			       i % 2 ? "TLSv1.2" : "TLSv1.3", "version");
		} else {
			char want[256], *port = strstr(rows[row].msg, "%u");
			snprintf(want, sizeof(want), "%.*s%u%s",
				 port ? (int)(port - rows[row].msg) : 0, rows[row].msg,
				 net_listener_port(listener), port ? port + 2 : "");
			ok(!a.conn && a.called_back == 1, "refused");
			is_int(a.err.kind, ERR_DENIED, "kind");
			has_str(a.err.msg, port ? want : rows[row].msg, "message");
			settle();
			is_uint(b.called_back, 0, "the server hands nothing out");
		}
		stop_serving();
	}
	row_end();
	serve(server_config(unknown));
	connect_with(client_config(ca, true), "nobody.example");
	ok(a.conn && PUMP(b.conn), "without verification anything goes (%s)", a.err.msg);
	is_str(a.conn ? net_conn_peer_subject(a.conn) : NULL, NULL, "and no subject is believed");
	stop_serving();
}

static void test_client_certificates(void)
{
	static const struct {
		const char *what;
		int cert; /* 0: none, 1: good, 2: expired */
		bool required, accepted;
		const char *subject, *msg, *msg12;
	} rows[] = {
		{"required and good", 1, true, true, "O=team, CN=someone", NULL},
		{"required and missing", 0, true, false, NULL,
		 "TLS alert 116 (certificate required)", "TLS alert 40 (handshake failure)"},
		{"required and expired", 2, true, false, NULL, "TLS alert 45 (certificate expired)",
		 "TLS alert 45 (certificate expired)"},
		{"optional and good", 1, false, true, "O=team, CN=someone", NULL},
		{"optional and missing", 0, false, true, NULL, NULL},
		{"optional and expired", 2, false, false, NULL,
		 "TLS alert 45 (certificate expired)", "TLS alert 45 (certificate expired)"},
	};
	for (size_t i = 0; i < 2 * (sizeof(rows) / sizeof(rows[0])); i++) {
		size_t row = i / 2;
		struct err err = ERR_INIT;
		struct tls_config *server = NULL, *config = NULL;
		struct test_cert *own = rows[row].cert == 1 ? client : client_expired;
		struct tls_server_opts server_opts = {.cert_pem = str_of(good->cert_pem),
						      .key_pem = str_of(good->key_pem),
						      .client_ca_pem = str_of(ca->cert_pem),
						      .client_cert_required = rows[row].required};
		struct tls_client_opts opts = {.ca_pem = str_of(ca->cert_pem)};
		if (rows[row].cert > 0) {
			opts.cert_pem = str_of(own->cert_pem);
			opts.key_pem = str_of(own->key_pem);
		}
		if (tls_config_new_server(&server_opts, &server, &err) < 0 ||
		    tls_config_new_client(&opts, &config, &err) < 0)
			bail_out(err.msg);
		if (i % 2)
			only_tls12(config);
		row_begin("%s, %s", rows[row].what, i % 2 ? "TLS 1.2" : "TLS 1.3");
		serve(server);
		connect_with(config, NULL);
		if (rows[row].accepted) {
			ok(a.conn && PUMP(b.conn), "accepted (%s)", a.err.msg);
			is_str(b.conn ? net_conn_peer_subject(b.conn) : NULL, rows[row].subject,
			       "the server knows who it is");
		} else {
			/* In TLS 1.3 the client is done before the server has looked. */
			ok(PUMP(a.err.kind != ERR_NONE || a.eof), "refused");
			has_str(a.err.msg, i % 2 ? rows[row].msg12 : rows[row].msg, "message");
			ok(!b.conn && b.called_back == 0, "the server hands nothing out");
		}
		stop_serving();
	}
	row_end();
}

static void test_ruled_clients(void)
{
	static const struct {
		const char *what;
		struct test_cert **cert; /* NULL: none */
		const char *names, *subject, *msg, *msg12;
	} rows[] = {
		{"by the authority", &client, "", "O=team, CN=someone", NULL, NULL},
		{"without any", NULL, "", NULL, "TLS alert 116 (certificate required)",
		 "TLS alert 40 (handshake failure)"},
		{"by another authority", &unknown, "", NULL,
		 "TLS alert 48 (unknown certificate authority)",
		 "TLS alert 48 (unknown certificate authority)"},
		{"expired", &client_expired, "", NULL, "TLS alert 45 (certificate expired)",
		 "TLS alert 45 (certificate expired)"},
		{"with the name", &client, "other, someone", "O=team, CN=someone", NULL, NULL},
		{"with another name", &client, "some,someone else", NULL,
		 "TLS alert 49 (access denied)", "TLS alert 49 (access denied)"},
		{"without a name", &client_nameless, "someone", NULL,
		 "TLS alert 49 (access denied)", "TLS alert 49 (access denied)"},
		{"with two names", &client_twice, "first", NULL, "TLS alert 49 (access denied)",
		 "TLS alert 49 (access denied)"},
		{"expired, with the name", &client_expired, "late", NULL,
		 "TLS alert 45 (certificate expired)", "TLS alert 45 (certificate expired)"},
	};
	for (size_t i = 0; i < 2 * (sizeof(rows) / sizeof(rows[0])); i++) {
		size_t row = i / 2;
		struct err err = ERR_INIT;
		struct tls_config *base = server_config(good), *server = NULL, *config = NULL;
		const struct tls_client_rule rule = {.ca_pem = str_of(ca->cert_pem),
						     .names = rows[row].names};
		struct tls_client_opts opts = {.ca_pem = str_of(ca->cert_pem)};
		if (rows[row].cert) {
			opts.cert_pem = str_of((*rows[row].cert)->cert_pem);
			opts.key_pem = str_of((*rows[row].cert)->key_pem);
		}
		if (tls_config_new_ruled(base, &rule, &server, &err) < 0 ||
		    tls_config_new_client(&opts, &config, &err) < 0)
			bail_out(err.msg);
		tls_config_unref(base); /* the other holds what it needs */
		if (i % 2)
			only_tls12(config);
		row_begin("a rule for clients: %s, %s", rows[row].what,
			  i % 2 ? "TLS 1.2" : "TLS 1.3");
		serve(server);
		connect_with(config, NULL);
		if (rows[row].subject) {
			ok(a.conn && PUMP(b.conn), "let in (%s)", a.err.msg);
			is_str(b.conn ? net_conn_peer_subject(b.conn) : NULL, rows[row].subject,
			       "the server knows who it is");
		} else {
			ok(PUMP(a.err.kind != ERR_NONE || a.eof), "refused");
			has_str(a.err.msg, i % 2 ? rows[row].msg12 : rows[row].msg, "message");
			ok(!b.conn && b.called_back == 0, "the server hands nothing out");
		}
		stop_serving();
	}
	row_end();
}

static void test_alpn(void)
{
	static const char *const h2[] = {"h2", NULL}, *const both[] = {"h2", "http/1.1", NULL},
				 *const h1[] = {"http/1.1", NULL};
	static const struct {
		const char *what;
		const char *const *offers, *const *knows;
		const char *agreed;
		bool refused;
	} rows[] = {
		{"both sides the same", h2, h2, "h2", false},
		{"the server's first", both, h1, "http/1.1", false},
		{"the client doesn't use it", NULL, h2, NULL, false},
		{"the server doesn't", h2, NULL, NULL, false},
		{"nothing in common", h1, h2, NULL, true},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = ERR_INIT;
		struct tls_config *server = NULL, *config = NULL;
		struct tls_server_opts server_opts = {.cert_pem = str_of(good->cert_pem),
						      .key_pem = str_of(good->key_pem),
						      .alpn = rows[i].knows};
		struct tls_client_opts opts = {.ca_pem = str_of(ca->cert_pem),
					       .alpn = rows[i].offers};
		if (tls_config_new_server(&server_opts, &server, &err) < 0 ||
		    tls_config_new_client(&opts, &config, &err) < 0)
			bail_out(err.msg);
		row_begin("ALPN: %s", rows[i].what);
		serve(server);
		connect_with(config, NULL);
		if (rows[i].refused) {
			has_str(a.err.msg, "no application protocol in common", "refused");
		} else {
			ok(a.conn && PUMP(b.conn), "connected (%s)", a.err.msg);
			is_str(a.conn ? net_conn_alpn(a.conn) : "", rows[i].agreed, "client's");
			is_str(b.conn ? net_conn_alpn(b.conn) : "", rows[i].agreed, "server's");
		}
		stop_serving();
	}
	row_end();
}

static void test_new_certificate(void)
{
	struct tls_config *next = server_config(unknown);
	serve(server_config(good));
	connect_with(client_config(ca, false), "api.example");
	ok(a.conn && PUMP(b.conn), "with the first certificate");
	struct end first_a = a, first_b = b;
	net_conn_set_handler(first_a.conn, &end_handler, &first_a);
	net_conn_set_handler(first_b.conn, &end_handler, &first_b);
	a = b = (struct end)END_INIT;
	net_listener_set_tls(listener, next);
	tls_config_unref(next);
	connect_with(client_config(ca, false), "api.example");
	has_str(a.err.msg, "unknown authority", "a new connection gets the new one");
	end_done(&a);
	a = (struct end)END_INIT;
	connect_with(client_config(other_ca, false), "api.example");
	ok(a.conn && PUMP(b.conn), "which the other authority vouches for");
	net_conn_write(first_a.conn, "hello", 5, NULL);
	ok(PUMP(first_b.in.len == 5), "the first connection lives on");
	net_listener_set_tls(listener, NULL);
	end_done(&b);
	b = (struct end)END_INIT;
	end_done(&a);
	a = (struct end)END_INIT;
	connect_with(NULL, NULL);
	ok(a.conn && PUMP(b.conn) && !net_conn_is_tls(b.conn), "and without TLS from now on");
	end_done(&first_a);
	end_done(&first_b);
	stop_serving();
}

static void test_not_tls(void)
{
	/* TLS to a server that speaks something else. */
	struct err err = ERR_INIT;
	struct net_listen_opts opts = {.addr = "127.0.0.1:0"};
	char want[128];
	a = b = (struct end)END_INIT;
	if (net_listener_new(net, &opts, end_accepted, &b, &listener, &err) < 0)
		bail_out(err.msg);
	end_connect(&a, "127.0.0.1", net_listener_port(listener), NULL, NULL);
	struct tls_config *config = client_config(ca, false);
	struct end c = END_INIT;
	end_connect(&c, "127.0.0.1", net_listener_port(listener), config, NULL);
	tls_config_unref(config);
	end_done(&a);
	a = (struct end)END_INIT;
	PUMP(b.conn);
	settle();
	end_done(&b);
	b = (struct end)END_INIT;
	end_done(&c);
	stop_serving();

	a = b = (struct end)END_INIT;
	if (net_listener_new(net, &opts, end_accepted, &b, &listener, &err) < 0)
		bail_out(err.msg);
	config = client_config(ca, false);
	end_connect(&a, "127.0.0.1", net_listener_port(listener), config, NULL);
	PUMP(b.in.len > 0);
	net_conn_write(b.conn, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, NULL);
	ok(PUMP(a.called_back > 0), "a server that doesn't speak TLS");
	snprintf(want, sizeof(want), "127.0.0.1:%u: the peer doesn't speak TLS here",
		 net_listener_port(listener));
	is_str(a.err.msg, want, "in words");
	end_done(&b);
	b = (struct end)END_INIT;
	a.called_back = 0;
	end_connect(&a, "127.0.0.1", net_listener_port(listener), config, NULL);
	PUMP(b.conn);
	end_done(&b);
	ok(PUMP(a.called_back > 0), "a server that goes away in the handshake");
	has_str(a.err.msg, "during the TLS handshake", "in words");
	is_int(a.err.kind, ERR_UNAVAILABLE, "may be better later");
	a.called_back = 0;
	end_connect(&a, "127.0.0.1", net_listener_port(listener), config, NULL);
	PUMP(b.in.len > 0);
	clock_advance(5000);
	settle();
	is_uint(a.called_back, 1, "a server that is silent in the handshake: the deadline");
	has_str(a.err.msg, "the TLS handshake wasn't done in time", "in words");
	tls_config_unref(config);
	stop_serving();

	/* A client that says nothing, and one that speaks something else, to a server. */
	serve(server_config(good));
	connect_with(NULL, NULL);
	settle();
	is_uint(net_listener_conns(listener), 1, "a silent client is in its handshake");
	clock_advance(10001);
	settle();
	ok(PUMP(a.eof || a.errors > 0), "and is dropped when its time is over");
	end_done(&a);
	a = (struct end)END_INIT;
	connect_with(NULL, NULL);
	net_conn_write(a.conn, "GET / HTTP/1.0\r\n\r\n", 18, NULL);
	ok(PUMP(a.eof || a.errors > 0), "a client that doesn't speak TLS is dropped");
	is_uint(b.called_back, 0, "neither is handed out");
	end_done(&a);
	a = (struct end)END_INIT;
	connect_with(NULL, NULL);
	settle();
	stop_serving();
	pass("closing the listener drops those in their handshake");
}

/* --- Through a relay that the test holds. --- */

static struct relay {
	int fds[2]; /* towards a, towards b */
	size_t chunk;
	size_t passed[2];
	size_t forge_at; /* flips a bit of this byte on the way from a to b; 0: none */
	bool handshaken[2];
	struct err err[2];
} relay;

static void on_handshake(struct net_conn *conn, const struct err *err, void *arg)
{
	size_t i = arg == &b;
	relay.handshaken[i] = !err;
	if (err)
		relay.err[i] = *err;
	else
		end_take(arg, conn);
}

static void relay_open(size_t chunk, bool tls12)
{
	int left[2], right[2];
	struct err err = ERR_INIT;
	struct tls_config *client_tls = client_config(ca, false), *server_tls = server_config(good);
	if (tls12)
		only_tls12(client_tls);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, left) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, right) < 0)
		bail_out("no socketpair");
	a = b = (struct end)END_INIT;
	relay = (struct relay){.fds = {left[1], right[1]}, .chunk = chunk};
	a.conn = net_conn_of_fd(net, left[0]);
	b.conn = net_conn_of_fd(net, right[0]);
	if (net_conn_handshake(a.conn, client_tls, "api.example", "relay", clock_mono_ms() + 5000,
			       on_handshake, &a, &err) < 0 ||
	    net_conn_handshake(b.conn, server_tls, NULL, "relay", clock_mono_ms() + 5000,
			       on_handshake, &b, &err) < 0)
		bail_out(err.msg);
	tls_config_unref(client_tls);
	tls_config_unref(server_tls);
}

static bool relay_step(void)
{
	char bytes[65536];
	for (int i = 0; i < 2; i++) {
		if (relay.fds[i] < 0 || relay.fds[1 - i] < 0)
			continue;
		ssize_t n = recv(relay.fds[i], bytes, relay.chunk, MSG_PEEK);
		if (n <= 0)
			continue;
		if (i == 0 && relay.forge_at > 0 && relay.passed[0] <= relay.forge_at &&
		    relay.passed[0] + (size_t)n > relay.forge_at)
			bytes[relay.forge_at - relay.passed[0]] ^= 1;
		n = send(relay.fds[1 - i], bytes, (size_t)n, MSG_NOSIGNAL);
		if (n > 0 && recv(relay.fds[i], bytes, (size_t)n, 0) == n)
			relay.passed[i] += (size_t)n;
	}
	return true;
}

/* As PUMP, with the relay passing its chunk each turn; more turns, which don't wait. */
#define PUMP_RELAY(cond)                                                                           \
	__extension__({                                                                            \
		for (int pump_ = 0; pump_ < 400000 && !(cond); pump_++) {                          \
			relay_step();                                                              \
			loop_turn(loop, 0);                                                        \
		}                                                                                  \
		(cond);                                                                            \
	})

static void relay_close(void)
{
	for (int i = 0; i < 2; i++) {
		if (relay.fds[i] >= 0)
			close(relay.fds[i]);
		relay.fds[i] = -1;
	}
	end_done(&a);
	end_done(&b);
	settle();
}

static void test_relay_bytes(bool tls12)
{
	row_begin("%s", tls12 ? "TLS 1.2" : "TLS 1.3");
	relay_open(1, tls12);
	ok(PUMP_RELAY(relay.handshaken[0] && relay.handshaken[1]), "a handshake byte by byte");
	net_conn_write(a.conn, "question", 8, NULL);
	ok(PUMP_RELAY(b.in.len == 8), "data byte by byte");
	net_conn_write(b.conn, "answer", 6, NULL);
	net_conn_shutdown(b.conn);
	ok(PUMP_RELAY(a.eof), "the peer's end in order");
	is_mem(a.in.p, a.in.len, "answer", 6, "after its data");
	net_conn_write(a.conn, "more", 4, NULL);
	ok(PUMP_RELAY(b.in.len == 12), "the other direction goes on");
	relay_close();

	/* Large transfers with stopping and starting, records held back within TLS. */
	size_t len = 2 << 20;
	char *bytes = pattern(len);
	relay_open(50000, tls12);
	PUMP_RELAY(relay.handshaken[0] && relay.handshaken[1]);
	b.echo = true;
	a.stop_after = true;
	a.take = 5000;
	net_conn_write(a.conn, bytes, len, NULL);
	for (int i = 0; i < 400000 && a.in.len < len; i++) {
		relay_step();
		if (a.conn && !a.errors && i % 3 == 0)
			net_conn_read_start(a.conn);
		loop_turn(loop, 0);
	}
	is_uint(a.in.len, len, "2 MiB there and back");
	ok(a.in.len == len && memcmp(a.in.p, bytes, len) == 0, "unharmed");
	is_uint(a.errors + b.errors, 0, "without an error");
	free(bytes);
	relay_close();
	row_end();
}

static void test_relay_ends(bool tls12)
{
	row_begin("%s", tls12 ? "TLS 1.2" : "TLS 1.3");
	relay_open(65536, tls12);
	PUMP_RELAY(relay.handshaken[0] && relay.handshaken[1]);
	net_conn_write(b.conn, "half of", 7, NULL);
	PUMP_RELAY(a.in.len == 7);
	close(relay.fds[0]);
	relay.fds[0] = -1;
	ok(PUMP_RELAY(a.errors > 0), "an end without goodbye is an error");
	has_str(a.err.msg, "closed by the peer without TLS's goodbye", "in words");
	ok(!a.eof, "and not the peer's end");
	relay_close();

	relay_open(65536, tls12);
	PUMP_RELAY(relay.handshaken[0] && relay.handshaken[1]);
	relay.forge_at = relay.passed[0] + 10;
	net_conn_write(a.conn, "pay 100 to me", 13, NULL);
	ok(PUMP_RELAY(b.errors > 0), "a forged byte ends it");
	is_uint(b.in.len, 0, "and nothing of it is handed on");
	is_int(b.err.kind, ERR_PROTOCOL, "%s", b.err.msg);
	ok(PUMP_RELAY(a.errors > 0 || a.eof), "the sender is told");
	relay_close();

	relay_open(65536, tls12);
	PUMP_RELAY(relay.handshaken[0] && relay.handshaken[1]);
	net_conn_finish(a.conn, 5000);
	a.conn = NULL;
	ok(PUMP_RELAY(b.eof), "finishing says goodbye");
	is_uint(b.errors, 0, "in order");
	relay_close();

	relay_open(65536, tls12);
	PUMP_RELAY(relay.handshaken[0] && relay.handshaken[1]);
	end_close(&a);
	ok(PUMP_RELAY(b.eof), "so does closing with nothing left to send");
	relay_close();

	unsigned cancelled = 0;
	for (unsigned turns = 0; turns < 40; turns++) {
		relay_open(100, tls12);
		for (unsigned i = 0; i < turns; i++) {
			relay_step();
			loop_turn(loop, 0);
		}
		cancelled += !relay.handshaken[0];
		relay_close();
	}
	ok(cancelled > 3, "closed in the handshake, after each of %u turns", cancelled);
	row_end();
}

static void test_bad_settings(void)
{
	char dir[] = "/tmp/net_tls_test.XXXXXX";
	CLEANUP_FREE char *pipe = xasprintf("%s/pipe", mkdtemp(dir) ? dir : "/nonexistent");
	is_int(mkfifo(pipe, 0600), 0, "a pipe that nobody writes to");
	const struct {
		const char *what, *cert, *key, *trusted, *file, *msg;
		enum err_kind kind;
	} rows[] = {
		{"no certificate", "", "", "nonsense", NULL,
		 "trusted authorities: there is no PEM certificate in it", ERR_INVALID},
		{"broken certificate", "", "",
		 "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", NULL,
		 "trusted authorities", ERR_INVALID},
		{"no such file", "", "", "", "/nonexistent/ca.crt",
		 "trusted authorities: /nonexistent/ca.crt: No such file or directory", ERR_IO},
		{"a folder", "", "", "", "/etc", "not a file of certificates", ERR_INVALID},
		{"a device", "", "", "", "/dev/null", "not a file of certificates", ERR_INVALID},
		{"a pipe", "", "", "", pipe, "not a file of certificates", ERR_INVALID},
		{"another's key", good->cert_pem, expired->key_pem, ca->cert_pem, NULL,
		 "the private key doesn't belong to the certificate", ERR_INVALID},
		{"no key", good->cert_pem, "", ca->cert_pem, NULL, "one is there, the other isn't",
		 ERR_INVALID},
		{"broken key", good->cert_pem, "nonsense", ca->cert_pem, NULL, "private key",
		 ERR_INVALID},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = ERR_INIT;
		struct tls_config *c = NULL;
		struct tls_client_opts opts = {.ca_pem = str_of(rows[i].trusted),
					       .ca_file = rows[i].file,
					       .cert_pem = str_of(rows[i].cert),
					       .key_pem = str_of(rows[i].key)};
		row_begin("%s", rows[i].what);
		is_int(tls_config_new_client(&opts, &c, &err), -1, "refused");
		is_int(err.kind, rows[i].kind, "kind");
		has_str(err.msg, rows[i].msg, "message");
		ok(!c, "nothing is handed out");
	}
	row_end();
	unlink(pipe);
	rmdir(dir);
	struct err err = ERR_INIT;
	struct tls_config *c = NULL;
	struct tls_server_opts opts = {.cert_pem = str_of(good->cert_pem),
				       .key_pem = str_of(good->key_pem),
				       .client_cert_required = true};
	is_int(tls_config_new_server(&opts, &c, &err), -1, "required, but no authority");
	tls_config_unref(NULL);
	ok(!tls_config_ref(NULL), "no settings are no settings");
}

/* What a client offers first is what most servers take: a key of P-256 (RFC 8446, 4.2.8: the group,
 * the key's length, an uncompressed point), behind it X25519 in the list of groups. */
static void test_first_group(void)
{
	static const char key[] = {0x00, 0x17, 0x00, 0x41, 0x04}, list[] = {0x00, 0x17, 0x00, 0x1d};
	serve(NULL);
	struct tls_config *config = client_config(ca, false);
	end_connect(&a, "127.0.0.1", net_listener_port(listener), config, "api.example");
	tls_config_unref(config);
	ok(PUMP(b.in.len > 0), "a client says hello");
	ok(b.in.len > 0 && memmem(b.in.p, b.in.len, key, sizeof(key)), "with a key of P-256");
	ok(b.in.len > 0 && memmem(b.in.p, b.in.len, list, sizeof(list)),
	   "X25519 is its second choice");
	end_close(&b);
	PUMP(a.called_back > 0);
	stop_serving();
}

static int write_ticket(void *arg, const mbedtls_ssl_session *session, unsigned char *start,
			const unsigned char *end, size_t *len, uint32_t *lifetime)
{
	(void)arg, (void)session;
	*len = 1000;
	*lifetime = 60;
	if (end - start < 1000)
		return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
	memset(start, 'x', *len);
	return 0;
}

static int no_ticket(void *arg, mbedtls_ssl_session *session, unsigned char *p, size_t len)
{
	(void)arg, (void)session, (void)p, (void)len;
	return MBEDTLS_ERR_SSL_INVALID_MAC;
}

static struct tls_session *session_of(struct tls_config *config, int fd, const char *name)
{
	struct err err = ERR_INIT;
	struct tls_session *s;
	if (tls_session_new(config, fd, name, "the test", &s, &err) < 0)
		bail_out(err.msg);
	tls_config_unref(config);
	return s;
}

/* A server that sends nothing but session tickets, which nobody wants: each look at it ends. */
static void test_tickets(void)
{
	struct tls_config *config = server_config(good);
	enum io_status c = IO_WANT_READ, s = IO_WANT_READ;
	int fds[2], before = 0, after = 0;
	struct err err = ERR_INIT;
	unsigned looks = 0;
	char byte;
	size_t len;
	mbedtls_ssl_conf_session_tickets(&config->ssl, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
	mbedtls_ssl_conf_session_tickets_cb(&config->ssl, write_ticket, no_ticket, NULL);
	mbedtls_ssl_conf_new_session_tickets(&config->ssl, 2000);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
		bail_out("no sockets");
	struct tls_session *client_end = session_of(client_config(ca, false), fds[0],
						    "api.example");
	struct tls_session *server_end = session_of(config, fds[1], NULL);
	for (int i = 0; i < 20 && c != IO_OK; i++) {
		c = tls_session_handshake(client_end, &err);
		s = tls_session_handshake(server_end, &err);
	}
	is_int(c, IO_OK, "the client's handshake is done (%s)", err.msg);
	is_int(s, IO_WANT_WRITE, "the server sends tickets");
	ioctl(fds[0], FIONREAD, &before);
	ok(before > 100000, "%d bytes of them are there", before);
	is_int(tls_session_read(client_end, &byte, 1, &len, &err), IO_WANT_READ, "no data");
	ioctl(fds[0], FIONREAD, &after);
	ok(before - after > 0 && before - after <= 65536, "%d of these bytes at a time",
	   before - after);
	for (; s == IO_WANT_WRITE && looks < 200; looks++) {
		tls_session_read(client_end, &byte, 1, &len, &err);
		s = tls_session_handshake(server_end, &err);
	}
	is_int(s, IO_OK, "all of them are sent (%u looks)", looks);
	is_int(tls_session_write(server_end, "x", 1, false, &len, &err), IO_OK, "then data");
	for (c = IO_WANT_READ; c == IO_WANT_READ && looks < 400; looks++)
		c = tls_session_read(client_end, &byte, 1, &len, &err);
	ok(c == IO_OK && byte == 'x', "which comes");
	tls_session_free(client_end);
	tls_session_free(server_end);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	test_begin();
	log_set_level(LOG_WARN);
	make_certs();
	test_certificates();
	test_client_certificates();
	test_ruled_clients();
	test_first_group();
	test_alpn();
	test_new_certificate();
	test_tickets();
	test_not_tls();
	test_relay_bytes(false);
	test_relay_ends(false);
	test_relay_bytes(true);
	test_relay_ends(true);
	test_bad_settings();
	free_certs();
	test_end();
	return done_testing();
}
