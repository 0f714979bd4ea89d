/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS settings, immutable and counted: a connection keeps those that it began with, so a new
 * certificate is a new object, switched in by whoever holds the old one.
 * TLS 1.2 and 1.3 only; certificates' dates are judged against core's clock.
 */
#ifndef IPU_NET_TLS_H
#define IPU_NET_TLS_H

#include <stdbool.h>

#include "core/err.h"
#include "core/str.h"

struct mbedtls_pk_context;
struct tls_config;

struct tls_client_opts {
	struct str ca_pem;   /* trusted authorities; empty: ca_file */
	const char *ca_file; /* the same in a file; NULL too: the system's bundle */
	struct str cert_pem; /* own certificate and its chain, and its key; or both empty */
	struct str key_pem;
	const char *const *alpn;   /* NULL-terminated, best first, at most 4; or NULL */
	bool insecure_skip_verify; /* neither chain, name nor dates are looked at */
};

struct tls_server_opts {
	struct str cert_pem; /* own certificate and its chain */
	struct str key_pem;
	struct str client_ca_pem;  /* asks clients for a certificate by one of these; or empty */
	bool client_cert_required; /* else a client without any is let in */
	const char *const *alpn;   /* NULL-terminated; a client that offers none of them is refused,
				    * one that doesn't use ALPN at all isn't */
};

struct tls_client_rule {
	struct str ca_pem; /* by one of these a client must have a certificate */
	const char *names; /* with commas between: its common name is one of them; "": any will do
			    */
};

/* Everything is copied (keys are wiped behind). Errors: ERR_INVALID, saying which part is bad (a
 * key that doesn't belong to the certificate, no certificate in the PEM …), ERR_LIMIT where there's
 * no memory to find out; ERR_IO for the files. */
int tls_config_new_client(const struct tls_client_opts *opts, struct tls_config **ret,
			  struct err *err);
int tls_config_new_server(const struct tls_server_opts *opts, struct tls_config **ret,
			  struct err *err);
/* As the server's settings base, of which a reference is taken, for clients by that rule alone. */
int tls_config_new_ruled(struct tls_config *base, const struct tls_client_rule *rule,
			 struct tls_config **ret, struct err *err);
/* Whether it has that protocol in its list for ALPN. */
bool tls_config_offers(const struct tls_config *c, const char *protocol);
/* What a function of mbedTLS has returned, where what it was given is to blame: ERR_INVALID, and
 * ERR_LIMIT where it had no memory. Returns -1. */
int tls_set_err(struct err *err, int status, const char *what);
bool tls_is_no_memory(int status);
/* The next certificate of a PEM text, with the lines around it, is taken off *rest; false: there's
 * none. Borrowed of that. */
bool tls_pem_next(struct str *rest, struct str *ret);
/* Reads a key, whose settings were initialised and are empty. Errors are those of tls_set_err. */
int tls_parse_key(struct mbedtls_pk_context *key, struct str pem, const char *what,
		  struct err *err);
struct tls_config *tls_config_ref(struct tls_config *c); /* returns c; NULL stays NULL */
void tls_config_unref(struct tls_config *c);             /* NULL is fine */

#endif
