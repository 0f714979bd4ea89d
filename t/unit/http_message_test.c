/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header lists, dates, status codes, URLs, escapes and queries against tables.
 */
#include "http/message.h"

#include "core/clock.h"
#include "tap.h"

static void test_methods(void)
{
	for (int m = HTTP_METHOD_GET; m < HTTP_METHOD_OTHER; m++)
		is_int(http_method_of(str_of(http_method_name((enum http_method)m))), m,
		       "method %d", m);
	is_int(http_method_of(STR("get")), HTTP_METHOD_OTHER, "case counts");
	is_int(http_method_of(STR("")), HTTP_METHOD_OTHER, "an empty name");
	ok(http_method_is_safe(HTTP_METHOD_HEAD) && !http_method_is_safe(HTTP_METHOD_PUT), "safe");
}

static void test_status(void)
{
	static const struct {
		int status;
		enum err_kind kind;
	} rows[] = {{200, ERR_NONE},      {204, ERR_NONE},        {301, ERR_PROTOCOL},
		    {400, ERR_INVALID},   {401, ERR_DENIED},      {403, ERR_DENIED},
		    {404, ERR_NOT_FOUND}, {409, ERR_CONFLICT},    {410, ERR_GONE},
		    {413, ERR_LIMIT},     {422, ERR_INVALID},     {429, ERR_BUSY},
		    {500, ERR_INTERNAL},  {503, ERR_UNAVAILABLE}, {504, ERR_TIMEOUT},
		    {101, ERR_PROTOCOL}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_int(http_status_kind(rows[i].status), rows[i].kind, "%d", rows[i].status);
	is_str(http_status_reason(404), "Not Found", "a reason");
	is_str(http_status_reason(499), "Unknown", "no reason");
}

static void test_bearer(void)
{
	static const struct {
		const char *field, *token;
	} rows[] = {
		{"Bearer abc", "abc"},
		{"bearer  a.b-c_d~e+f/g= ", "a.b-c_d~e+f/g="},
		{"BEARER x", "x"},
		{"Bearer", ""},
		{"Bearer ", ""},
		{"Bearer a b", ""},
		{"Bearer a,b", ""},
		{"Basic abc", ""},
		{"Bearerabc", ""},
		{"", ""},
		{"Bearer caf\xc3\xa9", ""},
	};
	struct http_headers h;

	http_headers_init(&h, 4, 400);
	ok(!http_headers_bearer(&h).p, "no field, no token");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		http_headers_clear(&h);
		http_headers_add(&h, STR("Authorization"), str_of(rows[i].field), NULL);
		ok(str_eqz(http_headers_bearer(&h), rows[i].token), "token of \"%s\"",
		   rows[i].field);
	}
	http_headers_clear(&h);
	http_headers_add(&h, STR("Authorization"), STR("Bearer a"), NULL);
	http_headers_add(&h, STR("authorization"), STR("Bearer b"), NULL);
	ok(!http_headers_bearer(&h).p, "two fields: neither counts");
	http_headers_done(&h);
}

static void test_headers(void)
{
	struct http_headers h;
	struct err err = ERR_INIT;

	http_headers_init(&h, 4, 40);
	is_int(http_headers_add(&h, STR("Content-Type"), STR(" text/x\t"), &err), 0, "added");
	is_int(http_headers_add(&h, STR("A"), STR(""), &err), 0, "empty value");
	is_int(http_headers_add(&h, STR("a"), STR("two"), &err), 0, "again");
	is_str(http_headers_get(&h, "content-TYPE").p, "text/x", "found, without the blanks");
	ok(http_headers_has(&h, "A") && !http_headers_has(&h, "B"), "has");
	is_uint(http_headers_get(&h, "A").len, 0, "the first of two");
	is_uint(http_headers_count(&h, "A"), 2, "two of them");
	ok(!http_headers_get(&h, "none").p, "absent is STR_NULL");
	is_int(http_headers_add(&h, STR("Long"), STR("0123456789012345678901234567890"), &err), -1,
	       "too large");
	is_int(err.kind, ERR_LIMIT, "is a limit");
	is_int(http_headers_add(&h, STR("B"), STR("b"), &err), 0, "a fourth");
	is_int(http_headers_add(&h, STR("C"), STR("c"), &err), -1, "a fifth");
	is_int(err.kind, ERR_LIMIT, "is a limit too");
	http_headers_clear(&h);
	is_uint(h.len, 0, "empty");
	is_int(http_headers_add(&h, STR("X"), STR("a\r\nY: b"), &err), -1, "a line break");
	is_int(err.kind, ERR_INVALID, "is invalid");
	is_int(http_headers_add(&h, STR("X Y"), STR("a"), &err), -1, "a bad name");
	is_int(http_headers_add(&h, STR("X"), STR("a\0b"), &err), -1, "a NUL");
	is_uint(h.len, 0, "still empty");
	http_headers_done(&h);

	struct http_headers zero = {0};
	http_headers_done(&zero);

	http_headers_init(&h, 0, 0);
	http_headers_add(&h, STR("Connection"), STR("keep-alive, Foo"), &err);
	http_headers_add(&h, STR("connection"), STR(" ,bar "), &err);
	ok(http_headers_has_token(&h, "connection", "foo"), "token in a list");
	ok(http_headers_has_token(&h, "Connection", "BAR"), "token in the second field");
	ok(!http_headers_has_token(&h, "Connection", "fo"), "no part of a token");
	http_headers_done(&h);
}

static void test_retry_after(void)
{
	static const struct {
		const char *value;
		unsigned ms;
	} rows[] = {{"0", 0},
		    {"3", 3000},
		    {"86400", 3600000},
		    {"99999999999999999999", 0},
		    {"-1", 0},
		    {"soon", 0},
		    {"", 0},
		    {"Sun, 06 Nov 1994 08:49:37 GMT", 7000},
		    {"Sun, 06 Nov 1994 08:49:20 GMT", 0},
		    {"Mon, 06 Nov 2034 08:49:37 GMT", 3600000}};
	clock_freeze(1000, INT64_C(784111770) * 1000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_headers h;
		http_headers_init(&h, 0, 0);
		http_headers_add(&h, STR("Retry-After"), str_of(rows[i].value), NULL);
		is_uint(http_headers_retry_after_ms(&h), rows[i].ms, "Retry-After: %s",
			rows[i].value);
		http_headers_done(&h);
	}
	clock_unfreeze();
}

static void test_dates(void)
{
	char text[HTTP_DATE_SIZE];
	int64_t ms;
	http_date_format(INT64_C(784111777) * 1000, text);
	is_str(text, "Sun, 06 Nov 1994 08:49:37 GMT", "a date written");
	is_int(http_date_parse(str_of(text), &ms, NULL), 0, "and read");
	is_int(ms, INT64_C(784111777) * 1000, "is the same");
	static const char *const bad[] = {"",
					  "Sun",
					  "Sun, 06 Nox 1994 08:49:37 GMT",
					  "Sun, 00 Nov 1994 08:49:37 GMT",
					  "Sun, 06 Nov 1994 24:49:37 GMT",
					  "Sun, 06 Nov 1994 08:49:37 CET",
					  "Sunday, 06-Nov-94 08:49:37 GMT"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_int(http_date_parse(str_of(bad[i]), &ms, NULL), -1, "refused: \"%s\"", bad[i]);
}

static void test_urls(void)
{
	static const struct {
		const char *in, *host, *target;
		unsigned port;
		bool tls, ip6;
	} good[] = {
		{"http://Example.com", "example.com", "/", 80, false, false},
		{"HTTPS://a:6443/b?c=d", "a", "/b?c=d", 6443, true, false},
		{"https://[::1]:8443/", "::1", "/", 8443, true, true},
		{"https://[FE80::1]", "fe80::1", "/", 443, true, true},
		{"http://10.0.0.1/x", "10.0.0.1", "/x", 80, false, false},
	};
	static const char *const bad[] = {
		"",
		"x",
		"ftp://a",
		"http://",
		"http:///x",
		"http://a:0",
		"http://a:65536",
		"http://a:x",
		"http://u:p@a/",
		"http://u:p/x@a/",
		"http://u:p?x@a/",
		"u:p@a",
		"http://[::1",
		"http://[::1]x",
		"http://[x]/",
		"http://a/ b",
		"http://a#b",
		"http://a/#b",
		"http://a?b",
		"http://a b/",
		"http://a%20/",
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct http_url url = {0};
		struct err err = ERR_INIT;
		row_begin("%s", good[i].in);
		is_int(http_url_parse(str_of(good[i].in), &url, &err), 0, "parsed %s", err.msg);
		is_str(url.host, good[i].host, "host");
		is_uint(url.port, good[i].port, "port");
		ok(str_eqz(url.target, good[i].target), "target");
		ok(url.tls == good[i].tls && url.host_is_ip6 == good[i].ip6, "flags");
		row_end();
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct http_url url;
		struct err err = ERR_INIT;
		is_int(http_url_parse(str_of(bad[i]), &url, &err), -1, "refused: \"%s\"", bad[i]);
		is_int(err.kind, ERR_INVALID, "as invalid");
		ok(!strstr(err.msg, "u:p"), "without the password");
	}
	char text[64];
	http_authority("a", 443, true, text, sizeof(text));
	is_str(text, "a", "the scheme's port is left out");
	http_authority("::1", 80, true, text, sizeof(text));
	is_str(text, "[::1]:80", "brackets");
	http_authority("fe80::1%eth0", 1, false, text, sizeof(text));
	is_str(text, "[fe80::1]:1", "no zone");
}

static void test_escapes(void)
{
	struct buf b = BUF_INIT(1000);
	struct err err = ERR_INIT;
	is_int(http_path_append(&b, &err, "api", "v1", "a/b", "ä ?#%", NULL), 0, "a path");
	is_int(http_query_append(&b, STR("q"), STR("a&b=c+d"), &err), 0, "a parameter");
	is_int(http_query_append(&b, STR("w"), STR(""), &err), 0, "another");
	CLEANUP_FREE char *url = buf_steal(&b, NULL);
	is_str(url, "/api/v1/a%2Fb/%C3%A4%20%3F%23%25?q=a%26b%3Dc%2Bd&w=", "escaped");

	static const struct {
		const char *in, *want;
		bool plus;
	} rows[] = {{"a%2fb%20+", "a/b +", false},
		    {"a+b", "a b", true},
		    {"", "", false},
		    {"%", NULL, false},
		    {"%4", NULL, false},
		    {"%4g", NULL, false},
		    {"%00", NULL, false},
		    {"a%zz", NULL, false}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = http_unescape(&b, str_of(rows[i].in), rows[i].plus, &err);
		is_int(rc, rows[i].want ? 0 : -1, "\"%s\"", rows[i].in);
		CLEANUP_FREE char *got = buf_steal(&b, NULL);
		is_str(got, rows[i].want ? rows[i].want : "", "gives");
	}
}

static void test_paths(void)
{
	static const struct {
		const char *path, *want;
	} rows[] = {{"/", "[]"}, {"/a/b", "[a][b]"}, {"/a/", "[a][]"},     {"//a", "[][a]"},
		    {"", ""},    {"*", ""},          {"/a%2Fb", "[a%2Fb]"}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_path_iter it = HTTP_PATH_ITER(str_of(rows[i].path));
		struct buf b = BUF_INIT(100);
		while (http_path_next(&it))
			buf_printf(&b, NULL, "[%.*s]", STR_ARG(it.segment));
		CLEANUP_FREE char *got = buf_steal(&b, NULL);
		is_str(got, rows[i].want, "segments of \"%s\"", rows[i].path);
	}
	struct str path, query;
	http_target_split(STR("/a?b?c"), &path, &query);
	ok(str_eqz(path, "/a") && str_eqz(query, "b?c"), "split at the first ?");
	http_target_split(STR("/a"), &path, &query);
	ok(str_eqz(path, "/a") && !query.p, "no query");
}

static void test_queries(void)
{
	struct str q = STR("a=1&b=x%20y+z&&c&d=&a=2&=e&bad=%zz&%62ad2=3&w=true&f=0&odd=maybe");
	static const struct {
		const char *name, *want;
	} rows[] = {{"a", "1"}, {"b", "x y z"}, {"c", ""},     {"d", ""},
		    {"", "e"},  {"bad", NULL},  {"bad2", "3"}, {"none", NULL}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_FREE char *got = http_query_get(q, rows[i].name, NULL);
		is_str(got, rows[i].want, "parameter \"%s\"", rows[i].name);
	}
	ok(http_query_bool(q, "w", false) && http_query_bool(q, "c", false), "true");
	ok(!http_query_bool(q, "f", true), "false");
	ok(http_query_bool(q, "none", true) && http_query_bool(q, "odd", true), "otherwise");
	CLEANUP_FREE char *none = http_query_get(STR_NULL, "a", NULL);
	ok(!none, "no query at all");
}

int main(void)
{
	test_methods();
	test_status();
	test_bearer();
	test_headers();
	test_retry_after();
	test_dates();
	test_urls();
	test_escapes();
	test_paths();
	test_queries();
	return done_testing();
}
