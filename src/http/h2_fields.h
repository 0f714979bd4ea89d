/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a message's head from HTTP/1.1 to HTTP/2. Private to src/http.
 */
#ifndef IPU_HTTP_H2_FIELDS_H
#define IPU_HTTP_H2_FIELDS_H

#include "core/str.h"
#include "h2/session.h"

/* The fields of a head as write.c writes it, put behind the n that are there: names in small
 * letters (text is changed), Host as :authority, and authorization kept out of compression's
 * tables. Returns how many there are then; most, where there may be more. */
size_t h2_fields_of_head(struct str text, struct h2_header *fields, size_t n, size_t most);

#endif
