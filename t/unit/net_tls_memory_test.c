/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS settings without memory: each allocation of mbedTLS's fails once while it reads certificates
 * and keys. What is good is never told to be bad. And a key's text, which was read, is wiped.
 */
#include "net_test.h"
#include "no_memory.h"

#include "net/tls_impl.h"
#include "net_calloc.h"
#include "wiped.h"

static struct test_cert *ca, *other, *leaf;

static int make_client(struct err *err)
{
	struct tls_client_opts opts = {.ca_pem = str_of(ca->cert_pem),
				       .cert_pem = str_of(leaf->cert_pem),
				       .key_pem = str_of(leaf->key_pem)};
	struct tls_config *c = NULL;
	int rc = tls_config_new_client(&opts, &c, err);

	tls_config_unref(c);
	return rc;
}

/* A bundle of two authorities: both are trusted, or there are no settings. */
static int make_bundle(struct err *err)
{
	CLEANUP_FREE char *both = xasprintf("%s%s", ca->cert_pem, other->cert_pem);
	struct tls_client_opts opts = {.ca_pem = str_of(both)};
	struct tls_config *c = NULL;
	int rc = tls_config_new_client(&opts, &c, err);

	if (rc == 0 && !c->ca.next)
		rc = err_set(err, ERR_INVALID, 0, "one of two is left out");
	tls_config_unref(c);
	return rc;
}

static int make_server(struct err *err)
{
	struct tls_server_opts opts = {.client_ca_pem = str_of(ca->cert_pem),
				       .cert_pem = str_of(leaf->cert_pem),
				       .key_pem = str_of(leaf->key_pem)};
	struct tls_config *c = NULL;
	int rc = tls_config_new_server(&opts, &c, err);

	tls_config_unref(c);
	return rc;
}

static void lose_memory(const char *what, int (*make)(struct err *err))
{
	unsigned blamed = 0, failed = 0;
	struct no_memory m = {NO_MEMORY_OF_MBEDTLS};

	row_begin("%s", what);
	while (no_memory_next(&m)) {
		struct err err = ERR_INIT;
		int rc;

		no_memory_begin(&m);
		rc = make(&err);
		no_memory_end(&m);
		failed += rc < 0;
		if (rc < 0 && !err_is_no_memory(&err)) {
			diag("allocation %lu: %s", m.n, err.msg);
			blamed++;
		}
	}
	no_memory_ok(&m, 20);
	ok(failed > m.n / 2, "%u of them decide", failed);
	is_uint(blamed, 0, "nothing is said to be bad");
}

/* A part from the middle: what is freed without being wiped loses its beginning. */
static void wipe(const char *what, int (*make)(struct err *err))
{
	const char *part = leaf->key_pem + 80;
	struct err err = ERR_INIT;

	if (keeps_freed)
		return;
	unsigned before = places(part, 40);
	is_int(make(&err), 0, "%s", what);
	is_uint(places(part, 40), before, "no copy of the key's text is left");
}

int main(void)
{
	ca = cert_new(&(struct cert_spec){.subject = "O=test,CN=CA", .is_ca = true}, NULL);
	other = cert_new(&(struct cert_spec){.subject = "O=test,CN=other", .is_ca = true}, NULL);
	leaf = cert_new(&(struct cert_spec){.subject = "CN=api", .dns = {"api.example"}}, ca);
	wipe("a client's settings", make_client);
	wipe("a server's settings", make_server);
	lose_memory("a client's settings", make_client);
	lose_memory("a bundle of authorities", make_bundle);
	lose_memory("a server's settings", make_server);
	row_end();
	cert_free(ca);
	cert_free(other);
	cert_free(leaf);
	return done_testing();
}
