/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header lists and what is read out of them: tokens, Retry-After, dates.
 * Input: "name: value" lines.
 */
#include "core/clock.h"
#include "fuzz.h"
#include "http/message.h"

static void try_date(struct str value)
{
	char z[HTTP_DATE_SIZE];
	int64_t ms, again;

	if (http_date_parse(value, &ms, NULL) < 0)
		return;
	http_date_format(ms, z);
	MUST(http_date_parse(str_of(z), &again, NULL) == 0);
	MUST(again == ms);
}

static void add_line(struct http_headers *h, struct str line)
{
	size_t before = h->len;
	struct str name, value;

	str_cut(line, ':', &name, &value);
	try_date(str_trim(value));
	if (http_headers_add(h, name, value, NULL) < 0) {
		MUST(h->len == before);
		return;
	}
	MUST(h->len == before + 1 && http_is_token(name));
	struct http_header f = http_headers_at(h, before);
	MUST(str_eq(f.name, name) && f.value.len <= value.len);
	MUST(f.value.p[f.value.len] == '\0');
	MUST(http_header_check(f.name, f.value, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	struct http_headers h;

	clock_freeze(1000, INT64_C(784111777000));
	http_headers_init(&h, 16, 1024);
	while (s.len > 0)
		add_line(&h, fuzz_line(&s));
	for (size_t i = 0; i < h.len; i++) {
		CLEANUP_FREE char *name = str_dup(http_headers_at(&h, i).name);
		MUST(http_headers_has(&h, name) && http_headers_count(&h, name) >= 1);
		MUST(http_headers_get(&h, name).p);
		http_headers_has_token(&h, name, "close");
	}
	MUST(http_headers_retry_after_ms(&h) <= 3600 * 1000);
	http_headers_has_token(&h, "connection", "upgrade");
	http_headers_done(&h);
	return 0;
}
