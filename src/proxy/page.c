/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's files (src/proxy/page/), which are built in as they are and compressed ahead of time,
 * and the fields that all answers around the page have.
 */
#include "proxy/page.h"

#include <string.h>

#include "internal.h"

/* No code but the page's own file, nothing from elsewhere, nowhere in a frame. */
#define CSP                                                                                        \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "                \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "        \
	"require-trusted-types-for 'script'"

const struct http_header page_fields[PAGE_FIELDS] = {
	HTTP_H("Content-Security-Policy", CSP),
	HTTP_H("X-Content-Type-Options", "nosniff"),
	HTTP_H("X-Frame-Options", "DENY"),
	HTTP_H("Referrer-Policy", "no-referrer"),
	HTTP_H("Cross-Origin-Opener-Policy", "same-origin"),
	HTTP_H("Cross-Origin-Resource-Policy", "same-origin"),
	HTTP_H("Cache-Control", "no-cache"),
};

/* page_text.c is made of the files by local.mk. */
extern const char page_html[], page_css[], page_js[], page_svg[];
extern const unsigned page_html_len, page_css_len, page_js_len, page_svg_len;
extern const char page_html_gz[], page_css_gz[], page_js_gz[], page_svg_gz[];
extern const unsigned page_html_gz_len, page_css_gz_len, page_js_gz_len, page_svg_gz_len;

static const struct file {
	const char *type;
	struct {
		const char *p;
		const unsigned *len;
	} plain, gzip;
} files[N_PAGE_FILES] = {
	[PAGE_HTML] = {"text/html; charset=utf-8",
		       {page_html, &page_html_len},
		       {page_html_gz, &page_html_gz_len}},
	[PAGE_CSS] = {"text/css; charset=utf-8",
		      {page_css, &page_css_len},
		      {page_css_gz, &page_css_gz_len}},
	[PAGE_JS] = {"text/javascript; charset=utf-8",
		     {page_js, &page_js_len},
		     {page_js_gz, &page_js_gz_len}},
	[PAGE_SVG] = {"image/svg+xml", {page_svg, &page_svg_len}, {page_svg_gz, &page_svg_gz_len}},
};

/* RFC 9110, 12.5.3: gzip where it's named, or meant by "*", and not liked less than plain bytes. */
static bool likes_gzip(const struct http_headers *headers)
{
	struct str list = http_headers_get(headers, "accept-encoding"), item, coding, params;
	int gzip = -1, plain = -1, others = 0;

	while (list.len) {
		str_cut(list, ',', &item, &list);
		str_cut(item, ';', &coding, &params);
		coding = str_trim(coding);
		if (str_ieqz(coding, "gzip") || str_ieqz(coding, "x-gzip"))
			gzip = (int)str_weight(params);
		else if (str_ieqz(coding, "identity"))
			plain = (int)str_weight(params);
		else if (str_eqz(coding, "*"))
			others = (int)str_weight(params);
	}
	if (gzip < 0)
		gzip = others;
	return gzip > 0 && gzip >= plain;
}

void page_reply(struct http_exchange *ex, enum page_file which)
{
	const struct file *f = &files[which];
	bool gzip = likes_gzip(ex->headers);
	struct str body = gzip ? (struct str){f->gzip.p, *f->gzip.len}
			       : (struct str){f->plain.p, *f->plain.len};
	struct http_header fields[PAGE_FIELDS + 3];
	char etag[ETAG_SIZE];
	size_t n = PAGE_FIELDS;

	etag_of(body, etag);
	memcpy(fields, page_fields, sizeof(page_fields));
	fields[n++] = (struct http_header){STR("ETag"), str_of(etag)};
	fields[n++] = (struct http_header)HTTP_H("Vary", "Accept-Encoding");
	if (http_headers_has_tag(ex->headers, etag)) {
		http_reply(ex, 304, NULL, fields, n, STR_NULL);
		return;
	}
	if (gzip)
		fields[n++] = (struct http_header)HTTP_H("Content-Encoding", "gzip");
	http_reply(ex, 200, f->type, fields, n, body);
}
