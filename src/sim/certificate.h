/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates that the simulator makes for itself, good for as long as any test may say it is.
 */
#ifndef IPU_SIM_CERTIFICATE_H
#define IPU_SIM_CERTIFICATE_H

#include "core/err.h"

/* A new key and a certificate signed by itself, for localhost, the loopback addresses and the
 * numeric host (NULL: no more). Both PEM, the caller's to free. */
int sim_certificate_make(const char *host, char **ret_cert_pem, char **ret_key_pem,
			 struct err *err);

#endif
