/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods, status codes, tokens and dates of HTTP: tables and pure functions.
 * Owns nothing. Uses core/.
 */
#include "http/message.h"

#include <stdio.h>
#include <time.h>

#include "core/clock.h"

static const char *const method_names[] = {
	[HTTP_METHOD_NONE] = "?",        [HTTP_METHOD_GET] = "GET",
	[HTTP_METHOD_HEAD] = "HEAD",     [HTTP_METHOD_POST] = "POST",
	[HTTP_METHOD_PUT] = "PUT",       [HTTP_METHOD_PATCH] = "PATCH",
	[HTTP_METHOD_DELETE] = "DELETE", [HTTP_METHOD_OPTIONS] = "OPTIONS",
	[HTTP_METHOD_OTHER] = "?",
};

const char *http_method_name(enum http_method method)
{
	size_t i = (size_t)method;
	return i < sizeof(method_names) / sizeof(method_names[0]) ? method_names[i] : "?";
}

enum http_method http_method_of(struct str name)
{
	for (int i = HTTP_METHOD_GET; i < HTTP_METHOD_OTHER; i++)
		if (str_eqz(name, method_names[i]))
			return (enum http_method)i;
	return HTTP_METHOD_OTHER;
}

bool http_method_is_safe(enum http_method method)
{
	return method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD ||
	       method == HTTP_METHOD_OPTIONS;
}

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{100, "Continue"},
	{101, "Switching Protocols"},
	{200, "OK"},
	{201, "Created"},
	{202, "Accepted"},
	{204, "No Content"},
	{206, "Partial Content"},
	{301, "Moved Permanently"},
	{302, "Found"},
	{303, "See Other"},
	{304, "Not Modified"},
	{307, "Temporary Redirect"},
	{308, "Permanent Redirect"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{409, "Conflict"},
	{410, "Gone"},
	{411, "Length Required"},
	{412, "Precondition Failed"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{417, "Expectation Failed"},
	{422, "Unprocessable Content"},
	{426, "Upgrade Required"},
	{428, "Precondition Required"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{502, "Bad Gateway"},
	{503, "Service Unavailable"},
	{504, "Gateway Timeout"},
	{505, "HTTP Version Not Supported"},
	{507, "Insufficient Storage"},
};

const char *http_status_reason(int status)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}

enum err_kind http_status_kind(int status)
{
	switch (status) {
	case 401:
	case 403:
		return ERR_DENIED;
	case 404:
		return ERR_NOT_FOUND;
	case 408:
	case 504:
		return ERR_TIMEOUT;
	case 409:
	case 412:
		return ERR_CONFLICT;
	case 410:
		return ERR_GONE;
	case 413:
	case 414:
	case 431:
		return ERR_LIMIT;
	case 405:
	case 406:
	case 415:
	case 501:
	case 505:
		return ERR_UNSUPPORTED;
	case 429:
		return ERR_BUSY;
	case 502:
	case 503:
		return ERR_UNAVAILABLE;
	default:
		break;
	}
	if (status >= 200 && status < 300)
		return ERR_NONE;
	if (status >= 400 && status < 500)
		return ERR_INVALID;
	/* Nothing follows redirects here, so they are as unexpected as a status below 200. */
	return status >= 500 ? ERR_INTERNAL : ERR_PROTOCOL;
}

bool http_is_token(struct str s)
{
	static const char others[] = "!#$%&'*+-.^_`|~";
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];
		bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9');
		if (!alnum && (c == '\0' || !strchr(others, c)))
			return false;
	}
	return s.len > 0;
}

static const char *const day_names[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char *const month_names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
					  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void http_date_format(int64_t wall_ms, char ret_z[HTTP_DATE_SIZE])
{
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm tm;
	if (!gmtime_r(&seconds, &tm) || tm.tm_year < -1900 || tm.tm_year > 8099) {
		ret_z[0] = '\0';
		return;
	}
	/* Not strftime: names mustn't follow the locale. */
	snprintf(ret_z, HTTP_DATE_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT",
		 day_names[tm.tm_wday % 7], (unsigned)tm.tm_mday % 100, month_names[tm.tm_mon % 12],
		 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
		 (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

int http_date_parse(struct str s, int64_t *ret_wall_ms, struct err *err)
{
	static const char shape[] = "Aaa, 00 Aaa 0000 00:00:00 GMT";
	struct tm tm = {0};
	int64_t n[5];
	static const struct {
		size_t at, len;
		int64_t max;
	} numbers[5] = {{5, 2, 31}, {12, 4, 9999}, {17, 2, 23}, {20, 2, 59}, {23, 2, 60}};

	if (s.len != sizeof(shape) - 1)
		goto bad;
	for (size_t i = 0; i < s.len; i++)
		if (!strchr("Aa0", shape[i]) && s.p[i] != shape[i])
			goto bad;
	for (size_t i = 0; i < 5; i++)
		if (str_to_int((struct str){s.p + numbers[i].at, numbers[i].len}, 0, numbers[i].max,
			       &n[i], NULL) < 0)
			goto bad;
	tm.tm_mon = -1;
	for (int i = 0; i < 12; i++)
		if (memcmp(s.p + 8, month_names[i], 3) == 0)
			tm.tm_mon = i;
	if (tm.tm_mon < 0 || n[0] < 1)
		goto bad;
	tm.tm_mday = (int)n[0];
	tm.tm_year = (int)n[1] - 1900;
	tm.tm_hour = (int)n[2];
	tm.tm_min = (int)n[3];
	tm.tm_sec = (int)n[4];
	*ret_wall_ms = (int64_t)timegm(&tm) * 1000;
	return 0;
bad:
	return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no HTTP date",
		       (int)(s.len > 40 ? 40 : s.len), s.p ? s.p : "");
}
