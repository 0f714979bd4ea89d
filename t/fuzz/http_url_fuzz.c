/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs, targets and escapes: what is taken apart and put together again is the same.
 * Input: the text itself, which is tried as each of them.
 */
#include "fuzz.h"
#include "http/message.h"

static void try_url(struct str s)
{
	struct http_url url, again;
	char authority[300];

	if (http_url_parse(s, &url, NULL) < 0)
		return;
	MUST(url.host[0] && url.port > 0 && url.port <= 65535);
	MUST(url.target.len > 0 && url.target.p[0] == '/');
	MUST(url.host_is_ip6 == (strchr(url.host, ':') != NULL));
	http_authority(url.host, url.port, url.tls, authority, sizeof(authority));
	MUST(http_header_check(STR("Host"), str_of(authority), NULL) == 0);
	if (strchr(url.host, '%'))
		return; /* the zone isn't for the peer */
	CLEANUP_FREE char *text = xasprintf("%s://%s%.*s", url.tls ? "HTTPS" : "http", authority,
					    STR_ARG(url.target));
	MUST(http_url_parse(str_of(text), &again, NULL) == 0);
	MUST(strcmp(again.host, url.host) == 0 && again.port == url.port && again.tls == url.tls);
	MUST(str_eq(again.target, url.target));
}

static void try_escapes(struct str s)
{
	struct buf there = FUZZ_TEXT, back = FUZZ_TEXT;
	bool has_nul = s.len > 0 && memchr(s.p, '\0', s.len);

	MUST(http_escape(&there, s, NULL) == 0);
	MUST((http_unescape(&back, buf_str(&there), true, NULL) == 0) == !has_nul);
	MUST(has_nul ? back.len == 0 : str_eq(buf_str(&back), s));

	for (int plus = 0; plus < 2; plus++) {
		struct buf plain = FUZZ_TEXT;
		buf_clear(&there);
		buf_clear(&back);
		if (http_unescape(&plain, s, plus, NULL) == 0) {
			MUST(http_escape(&there, buf_str(&plain), NULL) == 0);
			MUST(http_unescape(&back, buf_str(&there), plus, NULL) == 0);
			MUST(str_eq(buf_str(&back), buf_str(&plain)));
		}
		buf_done(&plain);
	}
	buf_done(&there);
	buf_done(&back);
}

static void try_query(struct str query)
{
	struct http_query_iter it = HTTP_QUERY_ITER(query);
	struct buf name = FUZZ_TEXT, built = FUZZ_TEXT;

	for (int i = 0; i < 16 && http_query_next(&it); i++) {
		buf_clear(&name);
		buf_clear(&built);
		if (http_unescape(&name, it.name, true, NULL) < 0)
			continue;
		CLEANUP_FREE char *z = str_dup(buf_str(&name));
		CLEANUP_FREE char *value = http_query_get(query, z, NULL);
		http_query_bool(query, z, false);
		if (!value)
			continue;
		MUST(http_query_append(&built, str_of(z), str_of(value), NULL) == 0);
		CLEANUP_FREE char *back = http_query_get((struct str){built.p + 1, built.len - 1},
							 z, NULL);
		MUST(back && strcmp(back, value) == 0);
	}
	buf_done(&name);
	buf_done(&built);
}

static void try_path(struct str path)
{
	struct http_path_iter it = HTTP_PATH_ITER(path);
	struct buf joined = FUZZ_TEXT;

	while (http_path_next(&it)) {
		MUST(it.segment.len == 0 || !memchr(it.segment.p, '/', it.segment.len));
		fuzz_add(&joined, "/");
		fuzz_add_str(&joined, it.segment);
	}
	MUST(path.len > 0 && path.p[0] == '/' ? str_eq(buf_str(&joined), path) : joined.len == 0);
	buf_done(&joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len), path, query;

	try_url(s);
	try_escapes(s);
	http_target_split(s, &path, &query);
	MUST(path.len + (query.p ? query.len + 1 : 0) == s.len);
	try_path(path);
	try_query(query);
	return 0;
}
