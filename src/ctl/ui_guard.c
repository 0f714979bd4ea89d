/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask: whoever has the token, by a name of loopback's (a page elsewhere can have its name
 * resolve to 127.0.0.1, but not send another Host), and from no other site's page.
 */
#include "ctl/ui.h"

#include <stdio.h>

#include "core/rand.h"

static void make_key(char ret_key[UI_KEY_SIZE])
{
	uint8_t bytes[(UI_KEY_SIZE - 1) / 2];

	rand_bytes(bytes, sizeof(bytes));
	hex_encode(bytes, sizeof(bytes), ret_key);
}

void ui_guard_init(struct ui_guard *g)
{
	*g = (struct ui_guard){0};
	make_key(g->token);
	make_key(g->once);
}

/* In a time that doesn't tell how much of it fits. */
static bool is_key(const char key[UI_KEY_SIZE], struct str s)
{
	unsigned char differs = 0;

	if (s.len != UI_KEY_SIZE - 1 || !key[0])
		return false;
	for (size_t i = 0; i < s.len; i++)
		differs |= (unsigned char)(key[i] ^ s.p[i]);
	return differs == 0;
}

/* "127.0.0.1:PORT" or "localhost:PORT". */
static bool is_here(const struct ui_guard *g, struct str host)
{
	static const char *const names[] = {"127.0.0.1", "localhost"};
	char want[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		http_authority(names[i], g->port, false, want, sizeof(want));
		if (str_ieqz(host, want))
			return true;
	}
	return false;
}

static bool is_own_page(const struct ui_guard *g, const struct http_headers *headers)
{
	struct str origin = http_headers_get(headers, "Origin"), scheme = STR("http://");
	struct str site = http_headers_get(headers, "Sec-Fetch-Site");

	if (origin.p &&
	    (http_headers_count(headers, "Origin") > 1 || !str_has_prefix(origin, scheme) ||
	     !is_here(g, (struct str){origin.p + scheme.len, origin.len - scheme.len})))
		return false;
	return !site.p || (http_headers_count(headers, "Sec-Fetch-Site") == 1 &&
			   (str_eqz(site, "same-origin") || str_eqz(site, "none")));
}

enum ui_verdict ui_guard_judge(struct ui_guard *g, const struct http_exchange *ex,
			       struct str *ret_name)
{
	struct str path = ex->path, key, rest;
	bool is_inside;

	if (!is_here(g, http_headers_get(ex->headers, "Host")) || !is_own_page(g, ex->headers))
		return UI_STRANGER;
	if (ex->target.p[0] != '/') /* "http://…", "*" */
		return UI_UNKNOWN;
	is_inside = str_cut((struct str){path.p + 1, path.len - 1}, '/', &key, &rest);
	if (is_key(g->once, key) && !is_inside && ex->method == HTTP_METHOD_GET) {
		bool is_first = !g->is_once_used;

		g->is_once_used = true;
		return is_first ? UI_FIRST : UI_USED_TWICE;
	}
	if (!is_key(g->token, key))
		return UI_UNKNOWN;
	*ret_name = rest;
	return is_inside ? UI_PASS : UI_BARE;
}
