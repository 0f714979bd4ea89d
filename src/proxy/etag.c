/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tag of a text that is sent as it is.
 */
#include <stdio.h>

#include "internal.h"

void etag_of(struct str text, char ret_etag[ETAG_SIZE])
{
	uint8_t digest[32];
	char hex[17];

	hash_sha256(&text, 1, digest);
	hex_encode(digest, 8, hex);
	snprintf(ret_etag, ETAG_SIZE, "\"%s\"", hex);
}
