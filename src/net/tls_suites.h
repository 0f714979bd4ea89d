/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of cipher suites that suits this processor.
 */
#ifndef IPU_NET_TLS_SUITES_H
#define IPU_NET_TLS_SUITES_H

/* Where the processor has instructions for AES, AES-GCM comes before ChaCha20, which mbedTLS has in
 * front: a server of Go's would take that for a word that AES is slow here. NULL: as mbedTLS has
 * them. As mbedtls_ssl_conf_ciphersuites wants it, for ever. */
const int *tls_suites(void);

#endif
