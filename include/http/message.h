/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HTTP messages are made of: methods, status codes, header lists, URLs and their escapes.
 * No I/O. A header list owns copies of what is put in; everything else borrows. Uses core/.
 */
#ifndef IPU_HTTP_MESSAGE_H
#define IPU_HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

/* ---- methods and status codes ---- */

enum http_method {
	HTTP_METHOD_NONE = 0,
	HTTP_METHOD_GET,
	HTTP_METHOD_HEAD,
	HTTP_METHOD_POST,
	HTTP_METHOD_PUT,
	HTTP_METHOD_PATCH,
	HTTP_METHOD_DELETE,
	HTTP_METHOD_OPTIONS,
	HTTP_METHOD_OTHER, /* well-formed, but none of these: a server answers 501 */
};

const char *http_method_name(enum http_method method); /* "GET"; "?" for NONE and OTHER */
enum http_method http_method_of(struct str name);      /* case counts (RFC 9110, 9.1) */
bool http_method_is_safe(enum http_method method);     /* GET, HEAD, OPTIONS */
const char *http_status_reason(int status); /* "Not Found"; "Unknown" where none is known */

/* The kind that a response's status means to the one who asked (err.h): 404 → ERR_NOT_FOUND, 409 →
 * ERR_CONFLICT, 503 → ERR_UNAVAILABLE and so on; ERR_NONE for 2xx. A layer that knows more (the
 * "reason" of a Kubernetes Status) decides for itself. */
enum err_kind http_status_kind(int status);

/* ---- headers ---- */

struct http_header {
	struct str name, value;
};

/* For literals: {HTTP_H("Accept", "application/json"), …} */
#define HTTP_H(name_literal, value_literal) {STR(name_literal), STR(value_literal)}

struct http_headers {
	struct buf text; /* private: names and values, each NUL-terminated */
	struct http_header_pos *pos;
	size_t len; /* number of fields */
	size_t cap, max_fields;
};

#define HTTP_MAX_HEADERS    128
#define HTTP_MAX_HEAD_BYTES ((size_t)64 << 10)

/* max_fields and max_bytes (names and values together): 0 means the two above. */
void http_headers_init(struct http_headers *h, size_t max_fields, size_t max_bytes);
void http_headers_done(struct http_headers *h); /* a zeroed struct is fine */
void http_headers_clear(struct http_headers *h);

/* Copies. ERR_INVALID where the name is no token, or the value has a control character (CR, LF and
 * NUL among them) (RFC 9110, 5.5); spaces and tabs around the value are dropped. ERR_LIMIT. */
int http_headers_add(struct http_headers *h, struct str name, struct str value, struct err *err);

/* Names without case. What is returned lives until the list changes; values are NUL-terminated
 * behind their length. */
struct http_header http_headers_at(const struct http_headers *h, size_t i);
struct str http_headers_get(const struct http_headers *h,
			    const char *name); /* the first; STR_NULL */
bool http_headers_has(const struct http_headers *h, const char *name);
size_t http_headers_count(const struct http_headers *h, const char *name);
/* Whether the comma-separated lists of all fields with that name have the token, without case. */
bool http_headers_has_token(const struct http_headers *h, const char *name, const char *token);
/* Whether If-None-Match, a list of tags or "*" (RFC 9110, 13.1.2), has this one, quotes included.
 */
bool http_headers_has_tag(const struct http_headers *h, const char *etag);
/* Retry-After in milliseconds: seconds, or an HTTP date against the wall clock. 0: absent or bad;
 * at most one hour. */
unsigned http_headers_retry_after_ms(const struct http_headers *h);

/* The token of the only Authorization field; STR_NULL where there is none, or it isn't a bearer's
 * (RFC 6750, 2.1). */
struct str http_headers_bearer(const struct http_headers *h);
/* The other way round, a field's value: "Bearer TOKEN", terminated, in memory of its own and
 * nowhere else; the caller wipes and frees it. */
char *http_bearer(struct str token);
struct str http_bearer_token(const char *authorization); /* of such a value; empty of NULL */

/* A peer's words, trimmed, up to where a token begins: the one that is ours (or empty), or what
 * looks like any. For whoever tells what a peer, or what stands in front of it, has answered: it
 * may say the request again. */
struct str http_without_token(struct str words, struct str ours);

/* ERR_INVALID as http_headers_add says. */
int http_header_check(struct str name, struct str value, struct err *err);
bool http_is_token(struct str s); /* RFC 9110, 5.6.2 */

/* IMF-fixdate (RFC 9110, 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT". */
#define HTTP_DATE_SIZE 32
void http_date_format(int64_t wall_ms, char ret_z[HTTP_DATE_SIZE]);
int http_date_parse(struct str s, int64_t *ret_wall_ms, struct err *err);

/* ---- URLs ---- */

struct http_url {
	bool tls;          /* https */
	char host[256];    /* without brackets; lower case */
	bool host_is_ip6;  /* needs brackets when it's written */
	unsigned port;     /* the scheme's own when the URL has none */
	struct str target; /* path and query, borrowed from the argument; "/" when there is none */
};

/* http:// and https:// URLs. ERR_INVALID (user information, fragments and bad ports too). */
int http_url_parse(struct str s, struct http_url *ret, struct err *err);
/* "HOST:PORT" as Host and :authority carry it: brackets for IPv6, the scheme's own port left out.
 */
void http_authority(const char *host, unsigned port, bool tls, char *ret_z, size_t size);

/* Percent-encoding (RFC 3986): everything but unreserved characters is escaped, so that a name
 * can't become two path segments or two parameters. */
int http_escape(struct buf *out, struct str s, struct err *err);
/* Appends "/" and each argument escaped, up to NULL: http_path_append(&b, &err, "pods", name, NULL)
 */
int http_path_append(struct buf *out, struct err *err, ...) __attribute__((sentinel));
/* Appends "?name=value", or "&name=value" where out has a '?' already, both escaped. */
int http_query_append(struct buf *out, struct str name, struct str value, struct err *err);

/* Decodes. plus_is_space: in queries. ERR_INVALID on a bad escape or a NUL; out isn't changed. */
int http_unescape(struct buf *out, struct str s, bool plus_is_space, struct err *err);

/* Splits an origin-form target at the '?'. query is without it, STR_NULL if there is none. */
void http_target_split(struct str target, struct str *ret_path, struct str *ret_query);

/* The segments of a path, still escaped: "/a/b%2Fc" → "a", "b%2Fc". Empty ones are given too. */
struct http_path_iter {
	struct str rest;
	struct str segment;
	bool started;
};
#define HTTP_PATH_ITER(path) {.rest = (path)}
bool http_path_next(struct http_path_iter *it);

/* The parameters of a query, still escaped, in their order; "a" alone has an empty value. */
struct http_query_iter {
	struct str rest;
	struct str name, value;
};
#define HTTP_QUERY_ITER(query) {.rest = (query)}
bool http_query_next(struct http_query_iter *it);

/* The first parameter of that name, decoded, terminated and the caller's to free; NULL if it isn't
 * there or can't be decoded, or there's no memory to: then err_is_no_memory(), else err is left
 * alone. */
char *http_query_get(struct str query, const char *name, struct err *err);
/* "true" and "1" are true, "" (the name alone) too; "false" and "0" false; absent: otherwise. */
bool http_query_bool(struct str query, const char *name, bool otherwise);

#endif
