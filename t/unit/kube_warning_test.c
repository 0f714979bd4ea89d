/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warning headers, as API servers send them and as nobody should.
 */
#include "tap.h"

#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "kube/warning.h"

static const struct row {
	const char *fields[3];
	const char *texts; /* whole, each with its line's end */
} rows[] = {
	{{NULL}, ""},
	{{"299 - \"one\""}, "one\n"},
	{{"299 kube-apiserver \"one\""}, "one\n"},
	{{"299 - \"one\", 299 - \"two, and more\""}, "one\ntwo, and more\n"},
	{{"299 - \"one\"", "299 - \"two\""}, "one\ntwo\n"},
	{{"299 - \"one\"", "299 - \"one\",299 - \"one\""}, "one\n"},
	{{"299 - \"say \\\"A\\\" and \\\\\""}, "say \"A\" and \\\n"},
	{{"299 - \"one\" \"Mon, 23 Nov 2026 21:00:00 GMT\", 299 - \"two\""}, "one\ntwo\n"},
	{{", ,\t299 - \"one\" , "}, "one\n"},
	{{"299 - \"\xc3\xa9\""}, "\xc3\xa9\n"},
	/* other codes */
	{{"199 - \"other\", 299 - \"one\""}, "one\n"},
	{{"2990 - \"other\""}, ""},
	/* broken: what stood before it counts, and so do other fields */
	{{"299 - \"one\", 299 - two, 299 - \"three\"", "299 - \"four\""}, "one\nfour\n"},
	{{"299"}, ""},
	{{"299 -"}, ""},
	{{"299 - "}, ""},
	{{"299 - \"open"}, ""},
	{{"299 - \"open\\"}, ""},
	{{"299 - \"one\" \"open"}, ""},
	{{"299 - \"one\" more"}, ""},
	{{"299\"one\""}, ""},
	{{"299 - \"\""}, ""},
	{{"299 - \"  \""}, ""},
	{{"299 - \"\xff\""}, ""},
	{{"one"}, ""},
	{{",,,"}, ""},
};

static void test_rows(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kube_warning_list list = {.n = 0};
		struct buf got = BUF_INIT(65536);
		struct http_headers headers;

		http_headers_init(&headers, 8, 65536);
		http_headers_add(&headers, STR("Content-Type"), STR("application/json"), NULL);
		for (size_t k = 0; k < 3 && rows[i].fields[k]; k++)
			http_headers_add(&headers, str_of(k ? "warning" : "Warning"),
					 str_of(rows[i].fields[k]), NULL);
		kube_warnings_add(&list, &headers);
		for (size_t k = 0; k < list.n; k++)
			buf_printf(&got, NULL, "%s\n", list.items[k]);
		buf_append(&got, "", 1, NULL);
		is_str(got.p, rows[i].texts, "%s",
		       rows[i].fields[0] ? rows[i].fields[0] : "no field");
		kube_warnings_clear(&list);
		http_headers_done(&headers);
		buf_done(&got);
	}
}

static void test_bounds(void)
{
	struct kube_warning_list list = {.n = 0};
	struct http_headers headers;
	char field[1100];

	http_headers_init(&headers, 200, 1 << 20);
	for (int i = 0; i < 100; i++) {
		snprintf(field, sizeof(field), "299 - \"number %d\"", i);
		http_headers_add(&headers, STR("Warning"), str_of(field), NULL);
	}
	kube_warnings_add(&list, &headers);
	is_int(list.n, KUBE_MAX_WARNINGS, "so many are kept");
	kube_warnings_clear(&list);
	http_headers_clear(&headers);
	for (int i = 0; i < 20; i++) {
		snprintf(field, sizeof(field), "299 - \"%02d%01000d\"", i, 0);
		http_headers_add(&headers, STR("Warning"), str_of(field), NULL);
	}
	kube_warnings_add(&list, &headers);
	is_int(list.n, KUBE_MAX_WARNING_BYTES / 1002, "and so long ones");
	kube_warnings_clear(&list);
	is_int(list.n, 0, "none is left");
	http_headers_done(&headers);
}

int main(void)
{
	test_rows();
	test_bounds();
	return done_testing();
}
