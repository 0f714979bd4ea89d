/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling, wrapping and judging errors. The caller owns the struct; nothing here allocates.
 * Messages are cut at a character's border and never hold what controls a terminal.
 */
#include "core/err.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"

/* Takes an unfinished UTF-8 sequence off the end of a message that was cut at len bytes. */
static size_t cut_at_border(const char *z, size_t len)
{
	size_t lead = len;

	while (lead > 0 && len - lead < 3 && ((unsigned char)z[lead - 1] & 0xc0) == 0x80)
		lead--;
	if (lead == 0)
		return len;

	unsigned char c = (unsigned char)z[lead - 1];
	size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
	return want > len - lead + 1 ? lead - 1 : len;
}

/* Formats into a message of its own first: an argument may point into the error's old one. */
__attribute__((format(printf, 2, 0))) static void set_msg(struct err *err, const char *fmt,
							  va_list ap, const char *suffix)
{
	char msg[sizeof(err->msg)];
	const size_t last = sizeof(msg) - 1;
	int n = vsnprintf(msg, sizeof(msg), fmt, ap);
	size_t len = n > 0 ? (size_t)n : 0;

	if (suffix && len < last)
		len += (size_t)snprintf(msg + len, sizeof(msg) - len, ": %s", suffix);
	if (len > last)
		len = cut_at_border(msg, last);
	for (size_t i = 0; i < len; i++)
		memset(msg + i, '?', str_control_first((struct str){msg + i, len - i}));
	memcpy(err->msg, msg, len);
	err->msg[len] = '\0';
}

int(err_set)(struct err *err, enum err_kind kind, int code, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		set_msg(err, fmt, ap, NULL);
		va_end(ap);
		err->kind = kind;
		err->code = code;
		err->retry_after_ms = 0;
		err->maybe_applied = false;
	}
	return -1;
}

int(err_errno)(struct err *err, int errnum, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		set_msg(err, fmt, ap, strerror(errnum));
		va_end(ap);
		err->kind = ERR_IO;
		err->code = errnum;
		err->retry_after_ms = 0;
		err->maybe_applied = false;
	}
	return -1;
}

int(err_wrap)(struct err *err, const char *fmt, ...)
{
	if (err) {
		char before[sizeof(err->msg)];
		va_list ap;
		memcpy(before, err->msg, sizeof(before));
		va_start(ap, fmt);
		set_msg(err, fmt, ap, before);
		va_end(ap);
	}
	return -1;
}

int(err_copy)(struct err *err, const struct err *from)
{
	if (err && from && err != from)
		*err = *from;
	return -1;
}

/* What a person has to mend on this machine, as opposed to what the network does to everybody. */
static bool is_lasting_errno(int errnum)
{
	switch (errnum) {
	case EACCES:
	case EPERM:
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case ENAMETOOLONG:
	case ELOOP:
	case EROFS:
	case EINVAL:
	case EAFNOSUPPORT:
		return true;
	default:
		return false;
	}
}

bool err_is_no_memory(const struct err *err)
{
	return err->kind == ERR_LIMIT && err->code == ENOMEM;
}

bool err_is_retryable(const struct err *err)
{
	switch (err->kind) {
	case ERR_BUSY:
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT:
	case ERR_PROTOCOL:
	case ERR_INTERNAL:
		return true;
	case ERR_IO:
		return !is_lasting_errno(err->code);
	case ERR_LIMIT:
		return err_is_no_memory(err);
	case ERR_NONE:
	case ERR_INVALID:
	case ERR_NOT_FOUND:
	case ERR_EXISTS:
	case ERR_CONFLICT:
	case ERR_GONE:
	case ERR_DENIED:
	case ERR_UNSUPPORTED:
	case ERR_CANCELLED:
		return false;
	}
	return false;
}

const char *err_kind_name(enum err_kind kind)
{
	static const char *const names[] = {
		[ERR_NONE] = "none",
		[ERR_INVALID] = "invalid",
		[ERR_NOT_FOUND] = "not-found",
		[ERR_EXISTS] = "exists",
		[ERR_CONFLICT] = "conflict",
		[ERR_GONE] = "gone",
		[ERR_DENIED] = "denied",
		[ERR_LIMIT] = "limit",
		[ERR_BUSY] = "busy",
		[ERR_UNAVAILABLE] = "unavailable",
		[ERR_TIMEOUT] = "timeout",
		[ERR_PROTOCOL] = "protocol",
		[ERR_IO] = "io",
		[ERR_UNSUPPORTED] = "unsupported",
		[ERR_CANCELLED] = "cancelled",
		[ERR_INTERNAL] = "internal",
	};

	if ((unsigned)kind >= sizeof(names) / sizeof(names[0]))
		return "unknown";
	return names[kind];
}
