/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs: taking them apart, percent-encoding, and the parameters of a query (RFC 3986).
 * Owns nothing but what http_query_get hands out. Uses core/.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/message.h"

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

/* Cuts HOST, [V6] or either with :PORT. */
static int parse_authority(struct str s, struct http_url *url, struct err *err)
{
	struct str host, port = STR_NULL, rest;
	int64_t n;

	if (s.len > 0 && s.p[0] == '[') {
		if (!str_cut((struct str){s.p + 1, s.len - 1}, ']', &host, &rest))
			return err_set(err, ERR_INVALID, 0, "no closing bracket in the host");
		url->host_is_ip6 = true;
		for (size_t i = 0; i < host.len; i++)
			if (hex_digit(host.p[i]) < 0 && host.p[i] != ':' && host.p[i] != '.')
				return err_set(err, ERR_INVALID, 0, "bad IPv6 address as the host");
		if (host.len > 0 && !memchr(host.p, ':', host.len))
			return err_set(err, ERR_INVALID, 0, "bad IPv6 address as the host");
		if (rest.len > 0 && rest.p[0] != ':')
			return err_set(err, ERR_INVALID, 0, "unexpected text behind the host");
		if (rest.len > 0)
			port = (struct str){rest.p + 1, rest.len - 1};
	} else {
		str_cut(s, ':', &host, &port);
		for (size_t i = 0; i < host.len; i++)
			if (!is_unreserved(host.p[i]))
				return err_set(err, ERR_INVALID, 0, "bad character in the host");
	}
	if (host.len == 0)
		return err_set(err, ERR_INVALID, 0, "no host");
	if (host.len >= sizeof(url->host))
		return err_set(err, ERR_INVALID, 0, "the host is longer than 255 characters");
	for (size_t i = 0; i < host.len; i++) {
		char c = host.p[i];
		url->host[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
	}
	url->host[host.len] = '\0';
	if (port.len > 0) {
		if (str_to_int(port, 1, 65535, &n, NULL) < 0)
			return err_set(err, ERR_INVALID, 0, "bad port");
		url->port = (unsigned)n;
	}
	return 0;
}

static int check_target(struct str target, struct err *err)
{
	for (size_t i = 0; i < target.len; i++) {
		unsigned char c = (unsigned char)target.p[i];
		if (c <= 0x20 || c >= 0x7f)
			return err_set(err, ERR_INVALID, 0, "a character that must be escaped");
		if (c == '#')
			return err_set(err, ERR_INVALID, 0, "a fragment");
	}
	return 0;
}

int http_url_parse(struct str s, struct http_url *ret, struct err *err)
{
	struct http_url url = {.port = 80, .target = STR("/")};
	struct str rest;
	size_t end = 0;
	struct err why = ERR_INIT;
	const char *dots = "";

	if (s.len >= 7 && str_ieqz((struct str){s.p, 7}, "http://")) {
		rest = (struct str){s.p + 7, s.len - 7};
	} else if (s.len >= 8 && str_ieqz((struct str){s.p, 8}, "https://")) {
		rest = (struct str){s.p + 8, s.len - 8};
		url.tls = true;
		url.port = 443;
	} else {
		err_set(&why, ERR_INVALID, 0, "neither http:// nor https://");
		goto bad;
	}
	while (end < rest.len && !strchr("/?#", rest.p[end] ? rest.p[end] : 'x'))
		end++;
	if (memchr(rest.p, '@', end)) {
		/* Not shown: it may hold a password. */
		return err_set(err, ERR_INVALID, 0, "user information in a URL isn't supported");
	}
	if (parse_authority((struct str){rest.p, end}, &url, &why) < 0)
		goto bad;
	if (end < rest.len) {
		url.target = (struct str){rest.p + end, rest.len - end};
		if (check_target(url.target, &why) < 0)
			goto bad;
		if (url.target.p[0] != '/') {
			err_set(&why, ERR_INVALID, 0, "a query without a path");
			goto bad;
		}
	}
	*ret = url;
	return 0;
bad:
	/* Ahead of an @ there may be a password, or what is left of one. */
	for (size_t i = s.len; i > 0; i--)
		if (s.p[i - 1] == '@') {
			s = (struct str){s.p + i, s.len - i};
			dots = "...@";
			break;
		}
	return err_set(err, ERR_INVALID, 0, "URL \"%s%.*s\": %s", dots,
		       (int)(s.len > 120 ? 120 : s.len), s.p ? s.p : "", why.msg);
}

void http_authority(const char *host, unsigned port, bool tls, char *ret_z, size_t size)
{
	bool brackets = strchr(host, ':') != NULL;
	/* The zone of a link-local address means something on this machine only (RFC 6874, 1). */
	int len = (int)(brackets ? strcspn(host, "%") : strlen(host));

	if (port == (tls ? 443U : 80U))
		snprintf(ret_z, size, "%s%.*s%s", brackets ? "[" : "", len, host,
			 brackets ? "]" : "");
	else
		snprintf(ret_z, size, "%s%.*s%s:%u", brackets ? "[" : "", len, host,
			 brackets ? "]" : "", port);
}

int http_escape(struct buf *out, struct str s, struct err *err)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t n = 0;
	char *room;

	for (size_t i = 0; i < s.len; i++)
		n += is_unreserved(s.p[i]) ? 1 : 3;
	if (buf_reserve(out, n, &room, err) < 0)
		return -1;
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (is_unreserved(s.p[i])) {
			*room++ = s.p[i];
		} else {
			*room++ = '%';
			*room++ = digits[c >> 4];
			*room++ = digits[c & 15];
		}
	}
	buf_commit(out, n);
	return 0;
}

int http_path_append(struct buf *out, struct err *err, ...)
{
	const char *segment;
	va_list ap;
	int rc = 0;

	va_start(ap, err);
	while (rc == 0 && (segment = va_arg(ap, const char *))) {
		rc = buf_append(out, "/", 1, err);
		if (rc == 0)
			rc = http_escape(out, str_of(segment), err);
	}
	va_end(ap);
	return rc;
}

int http_query_append(struct buf *out, struct str name, struct str value, struct err *err)
{
	const char *sep = out->len > 0 && memchr(out->p, '?', out->len) ? "&" : "?";
	if (buf_append(out, sep, 1, err) < 0 || http_escape(out, name, err) < 0 ||
	    buf_append(out, "=", 1, err) < 0 || http_escape(out, value, err) < 0)
		return -1;
	return 0;
}

int http_unescape(struct buf *out, struct str s, bool plus_is_space, struct err *err)
{
	char *room;
	size_t n = 0;

	if (buf_reserve(out, s.len, &room, err) < 0)
		return -1;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];
		if (c == '%') {
			int high = i + 2 < s.len ? hex_digit(s.p[i + 1]) : -1;
			int low = i + 2 < s.len ? hex_digit(s.p[i + 2]) : -1;
			if (high < 0 || low < 0)
				return err_set(err, ERR_INVALID, 0, "bad percent-escape");
			c = (char)(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		if (c == '\0')
			return err_set(err, ERR_INVALID, 0, "a NUL in a URL");
		room[n++] = c;
	}
	buf_commit(out, n);
	return 0;
}

void http_target_split(struct str target, struct str *ret_path, struct str *ret_query)
{
	struct str query;
	bool cut = str_cut(target, '?', ret_path, &query);
	*ret_query = cut ? query : STR_NULL;
}

bool http_path_next(struct http_path_iter *it)
{
	if (!it->started) {
		it->started = true;
		if (it->rest.len == 0 || it->rest.p[0] != '/')
			it->rest = STR_NULL;
	}
	if (it->rest.len == 0)
		return false;
	/* rest begins with the segment's slash. */
	struct str s = {it->rest.p + 1, it->rest.len - 1};
	const char *slash = s.len > 0 ? memchr(s.p, '/', s.len) : NULL;
	it->segment = (struct str){s.p, slash ? (size_t)(slash - s.p) : s.len};
	it->rest = slash ? (struct str){slash, s.len - it->segment.len} : STR_NULL;
	return true;
}

bool http_query_next(struct http_query_iter *it)
{
	struct str item;
	while (it->rest.len > 0) {
		str_cut(it->rest, '&', &item, &it->rest);
		if (item.len > 0) {
			str_cut(item, '=', &it->name, &it->value);
			return true;
		}
	}
	return false;
}

/* False: it can't be decoded; of no memory for it err tells. */
static bool decode_item(struct buf *text, struct str s, struct err *err)
{
	struct err why = ERR_INIT;

	buf_clear(text);
	if (http_unescape(text, s, true, &why) == 0)
		return true;
	if (err_is_no_memory(&why))
		err_copy(err, &why);
	return false;
}

char *http_query_get(struct str query, const char *name, struct err *err)
{
	struct http_query_iter it = HTTP_QUERY_ITER(query);
	struct buf text = BUF_INIT(query.len + 1);

	while (http_query_next(&it)) {
		if (!decode_item(&text, it.name, err) || !str_eqz(buf_str(&text), name))
			continue;
		if (decode_item(&text, it.value, err))
			return buf_steal(&text, NULL);
		break;
	}
	buf_done(&text);
	return NULL;
}

bool http_query_bool(struct str query, const char *name, bool otherwise)
{
	CLEANUP_FREE char *value = http_query_get(query, name, NULL);
	if (!value)
		return otherwise;
	if (!strcmp(value, "") || !strcmp(value, "true") || !strcmp(value, "1"))
		return true;
	if (!strcmp(value, "false") || !strcmp(value, "0"))
		return false;
	return otherwise;
}
