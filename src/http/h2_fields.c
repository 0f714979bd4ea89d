/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields from HTTP/1.1 to HTTP/2: both sides write a head once, as HTTP/1.1 has it, which is where
 * it's checked. Uses core/.
 */
#include "h2_fields.h"

#include <stdint.h>

size_t h2_fields_of_head(struct str text, struct h2_header *fields, size_t n, size_t most)
{
	struct str line, rest, name, value;

	str_cut(text, '\n', &line, &rest);
	while (n < most && str_cut(rest, '\n', &line, &rest) && line.len > 1) {
		str_cut(line, ':', &name, &value);
		char *p = (char *)(uintptr_t)name.p; /* of text */
		for (size_t i = 0; i < name.len; i++)
			p[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + ('a' - 'A') : p[i]);
		fields[n++] = (struct h2_header){
			.name = str_eqz(name, "host") ? STR(":authority") : name,
			.value = str_trim(value),
			.secret = str_eqz(name, "authorization"),
		};
	}
	return n;
}
